/* override.c: classes that have a say in what ops do with their objects: __torch_function__.
 *
 * Place in the flow: call.c, operators.c and index.c ask here first, once a program has derived a class from Tensor
 * (cairn/overrides.py then sets the function that decides). Invariant: without such a class nothing is asked, and
 * inside a class's own answer ops run as they are. */
#include "cairn_py.h"

static PyObject *decide;              /* owned by the module; NULL: no class has a say */
static _Thread_local int plain_depth; /* > 0: ops run as they are */

bool cnpy_overrides_on(void) { return decide && !plain_depth && cnpy.owned; }

static bool other_class(PyObject *o)
{
  return cnpy_is_tensor(o) && !Py_IS_TYPE(o, cnpy.tensor) && !Py_IS_TYPE(o, cnpy.tensor_base);
}

/* A tensor of another class, or a list with one. */
static bool takes_part(PyObject *o)
{
  if (other_class(o)) return true;
  bool tuple = PyTuple_Check(o);
  Py_ssize_t n = tuple ? PyTuple_Size(o) : PyList_Check(o) ? PyList_Size(o) : 0;
  for (Py_ssize_t i = 0; i < n; i++)
    if (other_class(tuple ? PyTuple_GetItem(o, i) : PyList_GetItem(o, i))) return true;
  return false;
}

PyObject *cnpy_override(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  Py_ssize_t named = kwnames ? PyTuple_Size(kwnames) : 0, first = self != NULL;
  bool any = self && takes_part(self);
  for (Py_ssize_t i = 0; !any && i < nargs + named; i++) any = takes_part(args[i]);
  if (!any) Py_RETURN_NOTIMPLEMENTED;
  PyObject *given = PyTuple_New(nargs + first), *keywords = PyDict_New(), *result = NULL;
  if (given && keywords) {
    if (self) PyTuple_SetItem(given, 0, Py_NewRef(self));
    for (Py_ssize_t i = 0; i < nargs; i++) PyTuple_SetItem(given, i + first, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; i < named; i++) PyDict_SetItem(keywords, PyTuple_GetItem(kwnames, i), args[nargs + i]);
    if (!PyErr_Occurred()) result = PyObject_CallFunction(decide, "siOO", name, (int)first, given, keywords);
  }
  Py_XDECREF(given);
  Py_XDECREF(keywords);
  return result;
}

static PyObject *set_overrides(PyObject *module, PyObject *function)
{
  (void)module;
  if (decide != function && !(decide = cnpy_own(Py_NewRef(function)))) return NULL;
  Py_RETURN_NONE;
}

static PyObject *plain_ops(PyObject *module, PyObject *on)
{
  int value = PyObject_IsTrue(on);
  (void)module;
  if (value < 0) return NULL;
  plain_depth += value ? 1 : -1;
  Py_RETURN_NONE;
}

PyMethodDef cnpy_override_functions[] = {
    {"_set_overrides", set_overrides, METH_O, "What decides about ops on objects of classes derived from Tensor."},
    {"_plain_ops", plain_ops, METH_O, "Ops of this thread run as they are, until as many calls with False."},
    {NULL, NULL, 0, NULL},
};
