/* control.c: branches, loops and host calls, for Python.
 *
 * Place in the flow: below cairn/_control.py, which takes nested values apart into lists of tensors, and puts results
 * together again. Functions are fn(list of tensors) -> list of tensors. Invariant: what a host call is given is a copy,
 * since the graph uses its memory again. */
#include <cairn/control.h>
#include <cairn/ops.h>

#include "autograd.h"
#include "files.h"

enum { MOST_RESULTS = 1024 };

/* ---- what the library calls ---- */

static int take(cn_tensor **out, size_t *nout, PyObject *list)
{
  Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : -1;
  if (n < 0 || (size_t)n > *nout) return cn_err_set(CN_ERR_VALUE, "control: more results than there is room for");
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *t = PyList_GetItem(list, i);
    if (!cnpy_is_tensor(t)) return cn_err_set(CN_ERR_TYPE, "control: a function must give tensors");
    if (!(out[i] = cnpy_callback_result(t))) return cn_err();
  }
  *nout = (size_t)n;
  return CN_OK;
}

/* The GIL is the caller's: branches and loops call back in the thread that called them. */
static int call(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, PyObject *fn)
{
  PyObject *list = cnpy_wrap_list(in, nin), *made = list ? cnpy_call1(fn, list) : NULL;
  int status = made ? take(out, nout, made) : cnpy_capture_failed("control");
  Py_XDECREF(made);
  Py_XDECREF(list);
  return status;
}

typedef struct functions_of {
  PyObject *first, *second;
} functions_of;

static int call_first(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  return call(out, nout, in, nin, ((functions_of *)payload)->first);
}

static int call_second(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  return call(out, nout, in, nin, ((functions_of *)payload)->second);
}

/* ---- arguments ---- */

/* The tensors of one list, or two; PyMem_Free. NULL with an exception. */
static cn_tensor **tensors_of(PyObject *a, PyObject *b, const char *who)
{
  Py_ssize_t n = PyList_Size(a), m = b ? PyList_Size(b) : 0;
  cn_tensor **t = PyMem_Malloc((size_t)(n + m + 1) * sizeof *t);
  if (!t) return PyErr_NoMemory(), NULL;
  for (Py_ssize_t i = 0; i < n + m; i++) {
    PyObject *o = i < n ? PyList_GetItem(a, i) : PyList_GetItem(b, i - n);
    if (!cnpy_is_tensor(o)) {
      PyMem_Free(t);
      return cnpy_fail(PyExc_TypeError, "%s: expected tensors", who), NULL;
    }
    t[i] = cnpy_t(o);
  }
  return t;
}

/* ---- functions ---- */

/* _cond(pred, true_fn, false_fn, operands) -> list */
static PyObject *cond(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *pred, *list, *result = NULL;
  functions_of f;
  if (!PyArg_ParseTuple(args, "OOOO!:_cond", &pred, &f.first, &f.second, &PyList_Type, &list)) return NULL;
  if (!cnpy_is_tensor(pred)) return cnpy_fail(PyExc_TypeError, "cond: expected a tensor as predicate");
  cn_tensor **in = tensors_of(list, NULL, "cond"), **out = in ? PyMem_Malloc(MOST_RESULTS * sizeof *out) : NULL;
  if (in && !out) PyErr_NoMemory();
  if (out) {
    size_t n = MOST_RESULTS;
    cn_scope *scope = cn_scope_begin();
    int status = cn_cond(out, &n, cnpy_t(pred), in, (size_t)PyList_Size(list), call_first, call_second, &f);
    result = status ? cnpy_raise() : cnpy_wrap_list(out, n);
    cn_scope_end(scope);
  }
  PyMem_Free(in);
  PyMem_Free(out);
  return result;
}

/* _while(cond_fn, body_fn, carried, max_steps) -> list */
static PyObject *while_loop(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *list;
  functions_of f;
  long long most;
  if (!PyArg_ParseTuple(args, "OOO!L:_while", &f.first, &f.second, &PyList_Type, &list, &most)) return NULL;
  cn_tensor **in = tensors_of(list, NULL, "while_loop");
  if (!in) return NULL;
  size_t n = (size_t)PyList_Size(list);
  cn_while_opts o = {.size = sizeof o, .max_steps = most};
  cn_scope *scope = cn_scope_begin();
  int status = cn_while_with(in, in, n, call_first, call_second, &f, &o);
  PyObject *result = status ? cnpy_raise() : cnpy_wrap_list(in, n);
  cn_scope_end(scope);
  PyMem_Free(in);
  return result;
}

/* _scan(combine_fn, init, xs, dim, reverse, length) -> (list, list) */
static PyObject *scan(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *init, *xs, *carry = NULL, *made = NULL, *result = NULL;
  functions_of f = {NULL, NULL};
  long long dim, length;
  int reverse;
  if (!PyArg_ParseTuple(args, "OO!O!LpL:_scan", &f.first, &PyList_Type, &init, &PyList_Type, &xs, &dim, &reverse,
                        &length))
    return NULL;
  cn_tensor **in = tensors_of(init, xs, "scan"), **ys = in ? PyMem_Malloc(MOST_RESULTS * sizeof *ys) : NULL;
  if (in && !ys) PyErr_NoMemory();
  if (ys) {
    size_t n = (size_t)PyList_Size(init), nys = MOST_RESULTS;
    cn_scan_opts o = {.size = sizeof o, .dim = dim, .reverse = reverse != 0, .length = length};
    cn_scope *scope = cn_scope_begin();
    int status = cn_scan_with(in, ys, &nys, in, n, in + n, (size_t)PyList_Size(xs), call_first, &f, &o);
    if (status) cnpy_raise();
    carry = status ? NULL : cnpy_wrap_list(in, n);
    made = carry ? cnpy_wrap_list(ys, nys) : NULL;
    result = made ? PyTuple_Pack(2, carry, made) : NULL;
    cn_scope_end(scope);
  }
  Py_XDECREF(carry);
  Py_XDECREF(made);
  PyMem_Free(in);
  PyMem_Free(ys);
  return result;
}

/* _map(fn, xs) -> list */
static PyObject *map(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *xs, *result = NULL;
  functions_of f = {NULL, NULL};
  if (!PyArg_ParseTuple(args, "OO!:_map", &f.first, &PyList_Type, &xs)) return NULL;
  cn_tensor **in = tensors_of(xs, NULL, "map"), **ys = in ? PyMem_Malloc(MOST_RESULTS * sizeof *ys) : NULL;
  if (in && !ys) PyErr_NoMemory();
  if (ys) {
    size_t n = MOST_RESULTS;
    cn_scope *scope = cn_scope_begin();
    int status = cn_map(ys, &n, in, (size_t)PyList_Size(xs), call_first, &f);
    result = status ? cnpy_raise() : cnpy_wrap_list(ys, n);
    cn_scope_end(scope);
  }
  PyMem_Free(in);
  PyMem_Free(ys);
  return result;
}

/* ---- host calls ---- */

static int copy_results(cn_tensor *const *out, size_t nout, PyObject *list)
{
  if (!PyList_Check(list) || (size_t)PyList_Size(list) != nout)
    return cn_err_set(CN_ERR_VALUE, "host_call: the function must give %zu tensors", nout);
  for (size_t i = 0; i < nout; i++) {
    PyObject *o = PyList_GetItem(list, (Py_ssize_t)i);
    cn_tensor *t = cnpy_is_tensor(o) ? cnpy_t(o) : NULL;
    bool fits = t && cn_dtype_of(t) == cn_dtype_of(out[i]) && cn_ndim(t) == cn_ndim(out[i]);
    for (int d = 0; fits && d < cn_ndim(t); d++) fits = cn_size(t, d) == cn_size(out[i], d);
    if (!fits) return cn_err_set(CN_ERR_SHAPE, "host_call: result %zu is not of the type and shape that was said", i);
    if (!cn_copy_(out[i], cn_to_device(t, CN_CPU))) return cn_err();
  }
  return CN_OK;
}

static int call_host(cn_tensor *const *out, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *list = PyList_New((Py_ssize_t)nin), *made = NULL;
  for (size_t i = 0; list && i < nin; i++) {
    cn_tensor *copy = cn_clone(in[i]);
    PyObject *o = copy ? cnpy_wrap_borrowed(copy) : NULL;
    if (!o || PyList_SetItem(list, (Py_ssize_t)i, o)) Py_CLEAR(list);
  }
  if (list) made = cnpy_call1(payload, list);
  int status = made ? copy_results(out, nout, made) : cn_err_set(CN_ERR_VALUE, "host_call: a Python exception");
  Py_XDECREF(made);
  Py_XDECREF(list);
  PyGILState_Release(gil);
  return status;
}

static int to_result(cn_host_result *r, PyObject *pair)
{
  PyObject *dtype, *shape;
  if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "OO!", &dtype, &PyTuple_Type, &shape)) return -1;
  if (cnpy_to_dtype(dtype, &r->dtype)) return -1;
  r->ndim = (int)PyTuple_Size(shape);
  if (r->ndim > CN_MAX_DIMS) return cnpy_fail(PyExc_ValueError, "host_call: too many dimensions"), -1;
  for (int i = 0; i < r->ndim; i++) r->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
  return PyErr_Occurred() ? -1 : 0;
}

/* _host_call(fn, [(dtype, shape), ...], inputs, name) -> list */
static PyObject *host_call(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *fn, *results, *list, *made = NULL;
  const char *name;
  if (!PyArg_ParseTuple(args, "OO!O!s:_host_call", &fn, &PyList_Type, &results, &PyList_Type, &list, &name))
    return NULL;
  size_t n = (size_t)PyList_Size(results);
  cn_tensor **in = tensors_of(list, NULL, "host_call");
  cn_host_result *described = in ? PyMem_Calloc(n + 1, sizeof *described) : NULL;
  cn_tensor **out = described ? PyMem_Malloc((n + 1) * sizeof *out) : NULL;
  if (in && !out) PyErr_NoMemory();
  bool good = out != NULL;
  for (size_t i = 0; good && i < n; i++) good = !to_result(&described[i], PyList_GetItem(results, (Py_ssize_t)i));
  if (good) {
    cn_host_call_opts o = {.size = sizeof o, .payload_free = cnpy_callback_free, .name = name};
    cn_scope *scope = cn_scope_begin();
    int status = cn_host_call_with(out, described, n, in, (size_t)PyList_Size(list), call_host, Py_NewRef(fn), &o);
    made = status ? cnpy_raise() : cnpy_wrap_list(out, n);
    cn_scope_end(scope);
  }
  PyMem_Free(in);
  PyMem_Free(described);
  PyMem_Free(out);
  return made;
}

static PyMethodDef functions[] = {
  {"_cond", cond, METH_VARARGS, "_cond(pred, true_fn, false_fn, operands) -> list"},
  {"_while", while_loop, METH_VARARGS, "_while(cond_fn, body_fn, carried, max_steps) -> list"},
  {"_scan", scan, METH_VARARGS, "_scan(combine_fn, init, xs, dim, reverse, length) -> (list, list)"},
  {"_map", map, METH_VARARGS, "_map(fn, xs) -> list"},
  {"_host_call", host_call, METH_VARARGS, "_host_call(fn, [(dtype, shape), ...], inputs, name) -> list"},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_control(PyObject *module) { return PyModule_AddFunctions(module, functions); }
