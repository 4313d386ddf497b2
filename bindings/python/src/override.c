/* override.c: classes that have a say in what ops do with their objects: __torch_function__.
 *
 * Place in the flow: call.c, operators.c and index.c ask here first, once a program has derived a class from Tensor,
 * entered a mode, or given an op an object of another class with such a method (cairn/overrides.py then sets the
 * function that decides). Invariant: without one nothing is asked, and inside a class's own answer ops run as they
 * are. */
#include "cairn_py.h"

static PyObject *decide;              /* owned by the module; NULL: no class has a say */
static _Thread_local int plain_depth; /* > 0: ops run as they are */
static _Thread_local int modes;       /* > 0: a mode wants to see all of them */

bool cnpy_overrides_on(void) { return decide && !plain_depth && cnpy.owned; }

static bool other_class(PyObject *o)
{
  return cnpy_is_tensor(o) && !Py_IS_TYPE(o, cnpy.tensor) && !Py_IS_TYPE(o, cnpy.tensor_base);
}

/* Is it no tensor, but of a class with the method? */
static bool foreign_with_say(PyObject *o)
{
  if (o == Py_None || PyLong_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o)) return false;
  if (PyTuple_Check(o) || PyList_Check(o) || cnpy_is_tensor(o)) return false;
  return PyObject_HasAttrString((PyObject *)Py_TYPE(o), "__torch_function__");
}

static bool has_say(PyObject *o) { return other_class(o) || foreign_with_say(o); }

static bool bound_has_say(PyObject *slice, const char *name)
{
  PyObject *bound = PyObject_GetAttrString(slice, name);
  bool yes = bound && has_say(bound);
  Py_XDECREF(bound);
  return yes;
}

/* An object of a class with a say, or a list or slice with one. */
static bool takes_part(PyObject *o)
{
  if (has_say(o)) return true;
  if (PySlice_Check(o)) return bound_has_say(o, "start") || bound_has_say(o, "stop") || bound_has_say(o, "step");
  bool tuple = PyTuple_Check(o);
  Py_ssize_t n = tuple ? PyTuple_Size(o) : PyList_Check(o) ? PyList_Size(o) : 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = tuple ? PyTuple_GetItem(o, i) : PyList_GetItem(o, i);
    if (has_say(item) || (PySlice_Check(item) && takes_part(item))) return true;
  }
  return false;
}

bool cnpy_override_begins(PyObject *const *args, Py_ssize_t n)
{
  bool any = false;
  for (Py_ssize_t i = 0; !decide && !any && i < n; i++) any = takes_part(args[i]);
  if (!any) return false;
  PyObject *module = PyImport_ImportModule("cairn.overrides");
  PyObject *done = module ? PyObject_CallMethod(module, "watch", NULL) : NULL;
  Py_XDECREF(module);
  Py_XDECREF(done);
  return done != NULL;
}

PyObject *cnpy_override(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  Py_ssize_t named = kwnames ? PyTuple_Size(kwnames) : 0, first = self != NULL;
  bool any = modes > 0 || (self && takes_part(self));
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

static PyObject *override_modes(PyObject *module, PyObject *on)
{
  int value = PyObject_IsTrue(on);
  (void)module;
  if (value < 0) return NULL;
  modes += value ? 1 : -1;
  Py_RETURN_NONE;
}

PyMethodDef cnpy_override_functions[] = {
    {"_override_modes", override_modes, METH_O, "A mode sees all ops of this thread, until as many calls with False."},
    {"_set_overrides", set_overrides, METH_O, "What decides about ops on objects of classes derived from Tensor."},
    {"_plain_ops", plain_ops, METH_O, "Ops of this thread run as they are, until as many calls with False."},
    {NULL, NULL, 0, NULL},
};
