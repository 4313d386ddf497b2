/* saved.c: hooks of Python on what ops keep for backward.
 *
 * Place in the flow: cairn.autograd.graph.saved_tensors_hooks and checkpoints stand on it. What the core keeps of a
 * value is a tuple (unpack, what pack returned). Invariant: the pair that is set is owned by the thread's setting. */
#include <cairn/autograd.h>

#include "autograd.h"

static void *call_pack(cn_tensor *t, void *payload)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *pair = Py_NewRef((PyObject *)payload), *kept = NULL;
  PyObject *arg = PyErr_Occurred() ? NULL : cnpy_wrap_borrowed(t);
  PyObject *value = arg ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(pair, 0), arg, NULL) : NULL;
  if (value) kept = PyTuple_Pack(2, PyTuple_GetItem(pair, 1), value);
  if (!kept && !cn_err()) cn_err_set(CN_ERR_GRAD, "saved_tensors_hooks: a Python exception was raised");
  Py_XDECREF(value);
  Py_XDECREF(arg);
  Py_DECREF(pair);
  PyGILState_Release(gil);
  return kept;
}

static cn_tensor *call_unpack(void *packed)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *kept = packed;
  cn_tensor *unpacked = NULL;
  PyObject *result = NULL;
  if (!PyErr_Occurred()) /* one may be on its way from the value before */
    result = PyObject_CallFunctionObjArgs(PyTuple_GetItem(kept, 0), PyTuple_GetItem(kept, 1), NULL);
  if (result && !cnpy_is_tensor(result))
    PyErr_Format(PyExc_TypeError, "saved_tensors_hooks: expected unpack to return a Tensor, not %R",
                 (PyObject *)Py_TYPE(result));
  else if (result) unpacked = cnpy_callback_result(result);
  if (PyErr_Occurred() && !cn_err()) cn_err_set(CN_ERR_GRAD, "saved_tensors_hooks: a Python exception was raised");
  Py_XDECREF(result);
  PyGILState_Release(gil);
  return unpacked;
}

static const cn_saved_hooks table = {call_pack, call_unpack, cnpy_callback_free};

/* _set_saved_hooks((pack, unpack) or None) -> the old setting */
static PyObject *set_saved_hooks(PyObject *Py_UNUSED(module), PyObject *pair)
{
  if (pair != Py_None && (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2))
    return cnpy_fail(PyExc_TypeError, "_set_saved_hooks: expected (pack, unpack) or None");
  cn_saved_setting now = {NULL, NULL};
  if (pair != Py_None) now = (cn_saved_setting){&table, Py_NewRef(pair)};
  cn_saved_setting old = cn_saved_hooks_set(now);
  return old.hooks == &table ? old.payload : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
  {"_set_saved_hooks", set_saved_hooks, METH_O, "How ops keep values for backward in this thread."},
  {NULL, NULL, 0, NULL}};

int cnpy_add_saved(PyObject *module) { return PyModule_AddFunctions(module, functions); }
