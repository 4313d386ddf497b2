/* vmap.c: examples of batches for Python: what cairn/_vmap.py and autograd/function.py put together.
 *
 * Place in the flow: above cairn/vmap.h. Invariant: results are tensors that Python owns; a vmap that has begun is
 * ended by the Python code around it. */
#include <cairn/vmap.h>

#include "cairn_py.h"

/* A result that belongs to the scope, as Python's. */
static PyObject *wrapped(cn_scope *scope, cn_tensor *t)
{
  PyObject *o = t ? cnpy_wrap_borrowed(t) : cnpy_raise();
  cn_scope_end(scope);
  return o;
}

/* _vmap_begin(size, randomness, vmap=0) -> its number: randomness as in cn_vmap_randomness; vmap: one that had ended */
static PyObject *begin(PyObject *Py_UNUSED(module), PyObject *args)
{
  long long size, vmap = 0;
  int randomness;
  if (!PyArg_ParseTuple(args, "Li|L:_vmap_begin", &size, &randomness, &vmap)) return NULL;
  int64_t id = cn_vmap_again(size, (cn_vmap_randomness)randomness, vmap);
  return id < 0 ? cnpy_raise() : PyLong_FromLongLong(id);
}

static PyObject *end(PyObject *Py_UNUSED(module), PyObject *number)
{
  long long id = PyLong_AsLongLong(number);
  if (id == -1 && PyErr_Occurred()) return NULL;
  if (cn_vmap_end(id)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *depth(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  return PyLong_FromLong(cn_vmap_depth());
}

static PyObject *batched(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *t;
  long long dim, vmap;
  if (!PyArg_ParseTuple(args, "O!LL:_batched", cnpy.tensor_base, &t, &dim, &vmap)) return NULL;
  cn_scope *scope = cn_scope_begin();
  return wrapped(scope, cn_batched(cnpy_t(t), dim, vmap));
}

static PyObject *unbatched(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *t;
  long long dim, vmap;
  if (!PyArg_ParseTuple(args, "O!LL:_unbatched", cnpy.tensor_base, &t, &dim, &vmap)) return NULL;
  cn_scope *scope = cn_scope_begin();
  return wrapped(scope, cn_unbatched(cnpy_t(t), dim, vmap));
}

static PyObject *batched_all(PyObject *Py_UNUSED(module), PyObject *t)
{
  if (!cnpy_is_tensor(t)) return cnpy_fail(PyExc_TypeError, "_batched_all: expected a Tensor");
  if (!cn_vmap_depth()) return Py_NewRef(t);
  cn_scope *scope = cn_scope_begin();
  return wrapped(scope, cn_batched_all(cnpy_t(t)));
}

/* _is_batched(t, vmap=0) */
static PyObject *is_batched(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *t;
  long long vmap = 0;
  if (!PyArg_ParseTuple(args, "O!|L:_is_batched", cnpy.tensor_base, &t, &vmap)) return NULL;
  return PyBool_FromLong(vmap ? cn_is_batched_in(cnpy_t(t), vmap) : cn_is_batched(cnpy_t(t)));
}

static PyObject *loops(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  return PyLong_FromSize_t(cn_vmap_loops());
}

static PyMethodDef functions[] = {
  {"_vmap_begin", begin, METH_VARARGS, NULL},
  {"_vmap_end", end, METH_O, NULL},
  {"_vmap_depth", depth, METH_NOARGS, NULL},
  {"_batched", batched, METH_VARARGS, NULL},
  {"_unbatched", unbatched, METH_VARARGS, NULL},
  {"_batched_all", batched_all, METH_O, NULL},
  {"_is_batched", is_batched, METH_VARARGS, NULL},
  {"_vmap_loops", loops, METH_NOARGS, NULL},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_vmap(PyObject *module) { return PyModule_AddFunctions(module, functions); }
