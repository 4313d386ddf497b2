/* convert.c: Python data into tensors (tensor, as_tensor, asarray) and tensors into Python numbers and lists.
 *
 * Place in the flow: nested.c reads numbers and sequences, buffer.c arrays, exchange.c what speaks DLPack; this file
 * decides who reads, and settles type and device. Invariant: what `tensor` returns shares memory with nothing and has
 * no history. */
#include "cairn_py.h"

#include <cairn/ext/dlpack.h>
#include <string.h>

/* ---- arguments ---- */

static int find_name(const char *const *names, PyObject *key)
{
  for (int i = 0; names[i]; i++)
    if (PyUnicode_CompareWithASCIIString(key, names[i]) == 0) return i;
  return -1;
}

int cnpy_keywords(const char *function, const char *const *names, int npositional, PyObject **room,
                  PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  for (int i = 0; names[i]; i++) room[i] = NULL;
  if (nargs > npositional) {
    PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd were given", function, npositional,
                 npositional == 1 ? "" : "s", nargs);
    return -1;
  }
  for (Py_ssize_t i = 0; i < nargs; i++) room[i] = args[i];
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_Size(kwnames); i++) {
    PyObject *key = PyTuple_GetItem(kwnames, i);
    int at = find_name(names, key);
    if (at < 0) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, key);
      return -1;
    }
    if (at < nargs) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", function, key);
      return -1;
    }
    room[at] = args[nargs + i];
  }
  return 0;
}

int cnpy_flag(PyObject *o, bool *flag)
{
  if (!o || o == Py_None) return 0;
  int truth = PyObject_IsTrue(o);
  if (truth < 0) return -1;
  *flag = truth != 0;
  return 0;
}

static int missing(const char *function, const char *name)
{
  PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional arguments: \"%s\"", function, name);
  return -1;
}

/* dtype= and device=: None leaves them open. */
static int read_options(PyObject *dtype, PyObject *device, cn_dtype *type, cn_device *place)
{
  *type = CN_DTYPE_NONE;
  *place = CN_DEVICE_DEFAULT;
  if (dtype && dtype != Py_None && cnpy_to_dtype(dtype, type)) return -1;
  return device && device != Py_None ? cnpy_to_device(device, place) : 0;
}

/* ---- owned tensors ---- */

cn_tensor *cnpy_take(cn_scope *scope, cn_tensor *borrowed)
{
  cn_tensor *owned = cn_keep(borrowed);
  cn_scope_end(scope);
  if (!owned) cnpy_raise();
  return owned;
}

/* op(t, value), t released. NULL stays NULL. */
static cn_tensor *then(cn_tensor *t, const char *op, int64_t value, bool with)
{
  if (!t) return NULL;
  cn_value args[2] = {cn_v_tensor(t), cn_v_int(value)};
  cn_tensor *result = cnpy_op1(op, args, with ? 2 : 1, NULL);
  cn_release(t);
  return result;
}

cn_tensor *cnpy_converted(cn_tensor *t, cn_dtype dtype, cn_device device, bool copy)
{
  bool cast = dtype != CN_DTYPE_NONE && dtype != cn_dtype_of(t);
  bool move = device != CN_DEVICE_DEFAULT && device != cn_device_of(t);
  int saved = cn_no_grad_begin();
  cn_tensor *result = cn_keep(t);
  if (cast) result = then(result, "cast", (int64_t)dtype, true);
  if (move) result = then(result, "to_device", device, true);
  if (!cast && !move && copy) result = then(result, "clone", 0, false);
  else if (!cast && !move && cn_needs_grad(t)) result = then(result, "detach", 0, false);
  cn_no_grad_end(saved);
  return result;
}

/* The same, giving t back. */
static cn_tensor *settle(cn_tensor *t, cn_dtype dtype, cn_device device, bool copy)
{
  if (!t) return NULL;
  cn_tensor *result = cnpy_converted(t, dtype, device, copy);
  cn_release(t);
  return result;
}

/* ---- from data ---- */

static cn_tensor *from_nested(PyObject *data, cn_dtype dtype, cn_device device)
{
  cnpy_array a;
  if (cnpy_read_nested(&a, data, &dtype)) return NULL;
  cn_device before = cn_default_device();
  cn_scope *scope = cn_scope_begin();
  if (device != CN_DEVICE_DEFAULT) cn_set_default_device(device);
  cn_tensor *t = cnpy_take(scope, cn_from_data(a.data, a.shape, (size_t)a.ndim, a.dtype));
  if (device != CN_DEVICE_DEFAULT) cn_set_default_device(before);
  PyMem_Free(a.data);
  return dtype == a.dtype ? t : settle(t, dtype, CN_DEVICE_DEFAULT, false);
}

/* Of arrays that are not numpy's (array.array, memoryview) the type is that of a list with the same numbers. */
static cn_dtype listed(cn_dtype dtype)
{
  if (dtype == CN_BOOL) return CN_BOOL;
  if (cn_dtype_is_complex(dtype)) return cn_promote_types(CN_C32, cn_default_dtype());
  return cn_dtype_is_float(dtype) ? cn_default_dtype() : CN_I64;
}

/* NULL without an exception: o is no array of any kind. The tensor may share the array's memory. */
static cn_tensor *from_array(PyObject *o, cn_dtype *dtype, bool *array)
{
  *array = true;
  if (cnpy_is_ndarray(o)) return cnpy_share_array(o, false);
  if (PyObject_CheckBuffer(o) && !PyBytes_Check(o)) {
    cn_dtype own = cnpy_buffer_dtype(o);
    if (own != CN_DTYPE_NONE) {
      bool numpy = PyObject_HasAttrString(o, "__array_interface__"); /* a number of numpy's */
      if (*dtype == CN_DTYPE_NONE && !numpy) *dtype = listed(own);
      return cnpy_share_buffer(o, false);
    }
  }
  if (PyObject_HasAttrString(o, "__dlpack__")) return cnpy_import_dlpack(o, NULL, NULL);
  if (PyObject_HasAttrString(o, "__array__") || PyObject_HasAttrString(o, "__array_interface__")) {
    PyObject *module = PyImport_ImportModule("cairn._numpy");
    PyObject *made = module ? PyObject_CallMethod(module, "_as_array", "O", o) : NULL;
    cn_tensor *t = made ? cnpy_share_array(made, false) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(made);
    return t;
  }
  *array = false;
  return NULL;
}

/* copy false: memory is shared where it can be. */
static cn_tensor *from_any(PyObject *data, cn_dtype dtype, cn_device device, bool copy)
{
  if (PyFloat_CheckExact(data) || PyLong_CheckExact(data) || PyBool_Check(data) || PyList_Check(data) ||
      PyTuple_Check(data))
    return from_nested(data, dtype, device);
  if (cnpy_is_tensor(data)) return cnpy_converted(cnpy_t(data), dtype, device, copy);
  if (!PyUnicode_Check(data) && !PyBytes_Check(data)) {
    bool array;
    cn_tensor *t = from_array(data, &dtype, &array);
    if (device == CN_DEVICE_DEFAULT) device = cn_default_device();
    bool shareable = cnpy_is_ndarray(data) || !PyObject_CheckBuffer(data); /* not numbers of numpy's, nor text */
    if (array) return settle(t, dtype, device, copy || !shareable);
  }
  return from_nested(data, dtype, device);
}

cn_tensor *cnpy_from_data(PyObject *data, cn_dtype dtype, cn_device device)
{
  return from_any(data, dtype, device, true);
}

cn_tensor *cnpy_pinned(cn_tensor *t, PyObject *flag)
{
  if (!t || !flag || PyObject_IsTrue(flag) != 1 || cn_device_count("cuda") < 1) return t;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *made = cnpy_take(scope, cn_pin_memory(t, cn_device_find("cuda")));
  cn_release(t);
  return made;
}

/* A new Python tensor; `grad`: what requires_grad= said. */
static PyObject *finish(cn_tensor *t, bool grad)
{
  if (t && grad && !cn_requires_grad(t, true)) {
    cn_release(t);
    return cnpy_raise();
  }
  return t ? cnpy_wrap(t) : NULL;
}

static PyObject *py_tensor(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  static const char *const names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", NULL};
  PyObject *v[5];
  cn_dtype dtype;
  cn_device device;
  bool grad = false;
  (void)module;
  if (cnpy_keywords("tensor", names, 1, v, args, nargs, kwnames)) return NULL;
  if (!v[0]) {
    missing("tensor", "data");
    return NULL;
  }
  if (read_options(v[1], v[2], &dtype, &device) || cnpy_flag(v[3], &grad)) return NULL;
  if (cnpy_is_tensor(v[0]) &&
      PyErr_WarnEx(PyExc_UserWarning,
                   "to copy a tensor use source.detach().clone() (and requires_grad_()) rather than tensor(source)", 1))
    return NULL;
  return finish(cnpy_pinned(from_any(v[0], dtype, device, true), v[4]), grad);
}

/* Does the tensor have this type and be on this device already? */
static bool fits(cn_tensor *t, cn_dtype dtype, cn_device device)
{
  return (dtype == CN_DTYPE_NONE || dtype == cn_dtype_of(t)) &&
         (device == CN_DEVICE_DEFAULT || device == cn_device_of(t));
}

/* A tensor of another type or device, with its history. */
static PyObject *moved(PyObject *tensor, cn_dtype dtype, cn_device device)
{
  cn_tensor *t = cn_keep(cnpy_t(tensor));
  if (dtype != CN_DTYPE_NONE && dtype != cn_dtype_of(t)) t = then(t, "cast", (int64_t)dtype, true);
  if (t && device != CN_DEVICE_DEFAULT && device != cn_device_of(t)) t = then(t, "to_device", device, true);
  return t ? cnpy_wrap(t) : NULL;
}

static PyObject *py_as_tensor(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  static const char *const names[] = {"data", "dtype", "device", NULL};
  PyObject *v[3];
  cn_dtype dtype;
  cn_device device;
  (void)module;
  if (cnpy_keywords("as_tensor", names, 3, v, args, nargs, kwnames)) return NULL;
  if (!v[0]) {
    missing("as_tensor", "data");
    return NULL;
  }
  if (read_options(v[1], v[2], &dtype, &device)) return NULL;
  if (cnpy_is_tensor(v[0]))
    return fits(cnpy_t(v[0]), dtype, device) ? Py_NewRef(v[0]) : moved(v[0], dtype, device);
  if (cnpy_is_ndarray(v[0])) { /* shares, and says so where the array is read-only */
    if (device == CN_DEVICE_DEFAULT) device = cn_default_device();
    return finish(settle(cnpy_share_array(v[0], true), dtype, device, false), false);
  }
  return finish(from_any(v[0], dtype, device, false), false);
}

/* asarray: what obj is decides whether memory can be shared. Returns owned, *shares says whether it does. */
static cn_tensor *view_of(PyObject *o, bool *shares)
{
  *shares = true;
  if (cnpy_is_tensor(o)) return cn_keep(cnpy_t(o));
  if (cnpy_is_ndarray(o)) return cnpy_share_array(o, true);
  if (PyObject_HasAttrString(o, "__dlpack__") || PyCapsule_CheckExact(o)) return cnpy_import_dlpack(o, NULL, NULL);
  if (PyObject_CheckBuffer(o) && cnpy_buffer_dtype(o) != CN_DTYPE_NONE) return cnpy_share_buffer(o, true);
  *shares = false;
  return NULL;
}

static cn_tensor *as_array(PyObject *o, cn_dtype dtype, cn_device device, PyObject *copy)
{
  bool shares;
  cn_tensor *t = view_of(o, &shares);
  if (!shares) {
    if (copy != Py_False) return from_any(o, dtype, device, true);
    PyErr_SetString(PyExc_ValueError, "asarray: a sequence cannot be shared (copy=False)");
    return NULL;
  }
  if (t && copy == Py_False && !fits(t, dtype, device)) {
    cn_release(t);
    PyErr_SetString(PyExc_ValueError, "asarray: another dtype or device needs a copy (copy=False)");
    return NULL;
  }
  return settle(t, dtype, device, copy == Py_True);
}

static PyObject *py_asarray(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  static const char *const names[] = {"obj", "dtype", "device", "copy", "requires_grad", NULL};
  PyObject *v[5];
  cn_dtype dtype;
  cn_device device;
  (void)module;
  if (cnpy_keywords("asarray", names, 1, v, args, nargs, kwnames)) return NULL;
  if (!v[0]) {
    missing("asarray", "obj");
    return NULL;
  }
  bool grad = cnpy_is_tensor(v[0]) && cn_needs_grad(cnpy_t(v[0]));
  if (read_options(v[1], v[2], &dtype, &device) || cnpy_flag(v[4], &grad)) return NULL;
  bool same = cnpy_is_tensor(v[0]) && v[3] != Py_True && fits(cnpy_t(v[0]), dtype, device);
  if (same && grad == cn_needs_grad(cnpy_t(v[0]))) return Py_NewRef(v[0]);
  return finish(as_array(v[0], dtype, device, v[3]), grad);
}

/* ---- to Python ---- */

/* The number at p, of a type that C has; p need not be aligned. */
static inline PyObject *number(const char *p, cn_dtype dtype)
{
#define READ(type, make)         \
  do {                           \
    type v;                      \
    memcpy(&v, p, sizeof v);     \
    return make(v);              \
  } while (0)
  switch (dtype) {
  case CN_BOOL: READ(uint8_t, PyBool_FromLong);
  case CN_U8: READ(uint8_t, PyLong_FromLong);
  case CN_I8: READ(int8_t, PyLong_FromLong);
  case CN_I16: READ(int16_t, PyLong_FromLong);
  case CN_I32: READ(int32_t, PyLong_FromLong);
  case CN_I64: READ(int64_t, PyLong_FromLongLong);
  case CN_U16: READ(uint16_t, PyLong_FromLong);
  case CN_U32: READ(uint32_t, PyLong_FromUnsignedLong);
  case CN_U64: READ(uint64_t, PyLong_FromUnsignedLongLong);
  case CN_F32: READ(float, PyFloat_FromDouble);
  case CN_C64: {
    float z[2];
    memcpy(z, p, sizeof z);
    return PyComplex_FromDoubles((double)z[0], (double)z[1]);
  }
  case CN_C128: {
    double z[2];
    memcpy(z, p, sizeof z);
    return PyComplex_FromDoubles(z[0], z[1]);
  }
  default: READ(double, PyFloat_FromDouble);
  }
#undef READ
}

static PyObject *complex_item(cn_tensor *t)
{
  double z[2];
  cn_scope *scope = cn_scope_begin();
  int before = cn_no_grad_begin(), status = cn_to_data(z, sizeof z, cn_cast(t, CN_C128));
  cn_no_grad_end(before);
  cn_scope_end(scope);
  return status ? cnpy_raise() : PyComplex_FromDoubles(z[0], z[1]);
}

PyObject *cnpy_item(cn_tensor *t)
{
  cn_dtype dtype = cn_dtype_of(t);
  if (cn_numel(t) != 1)
    return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
                        (long long)cn_numel(t));
  if (cn_dtype_is_complex(dtype)) return complex_item(t);
  if (cn_dtype_is_float(dtype)) {
    double value = cn_item(t);
    return cn_err() ? cnpy_raise() : PyFloat_FromDouble(value);
  }
  int64_t value = cn_item_int(t);
  if (cn_err()) return cnpy_raise();
  if (dtype == CN_BOOL) return PyBool_FromLong(value != 0);
  return dtype == CN_U64 ? PyLong_FromUnsignedLongLong((uint64_t)value) : PyLong_FromLongLong(value);
}

/* A list of n numbers, `step` bytes apart. */
static PyObject *row_of(const char *p, cn_dtype dtype, int64_t n, int64_t step)
{
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (int64_t i = 0; list && i < n; i++, p += step) {
    PyObject *item = number(p, dtype);
    if (item && PyList_SetItem(list, (Py_ssize_t)i, item) == 0) continue;
    Py_DECREF(list);
    return NULL;
  }
  return list;
}

/* The elements of d from `dim` on, the first of them at p. */
static PyObject *list_of(const cn_desc *d, const char *p, int dim)
{
  cn_dtype dtype = (cn_dtype)d->dtype;
  if (dim == d->ndim) return number(p, dtype);
  int64_t n = d->shape[dim], step = d->strides[dim] * (int64_t)cn_dtype_size(dtype);
  if (dim == d->ndim - 1) return row_of(p, dtype, n, step);
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (int64_t i = 0; list && i < n; i++) {
    PyObject *item = list_of(d, p + i * step, dim + 1);
    if (item && PyList_SetItem(list, (Py_ssize_t)i, item) == 0) continue;
    Py_DECREF(list);
    return NULL;
  }
  return list;
}

/* t on the host, in a type that C has; owned. */
static cn_tensor *readable(cn_tensor *t)
{
  cn_dtype dtype = cn_dtype_of(t);
  bool plain = (dtype >= CN_BOOL && dtype <= CN_U64) || dtype == CN_F32 || dtype == CN_F64 || dtype == CN_C64 ||
               dtype == CN_C128;
  if (plain && cn_device_of(t) == CN_CPU) return cn_keep(t);
  cn_dtype wide = cn_dtype_is_complex(dtype) ? CN_C64 : cn_dtype_is_float(dtype) ? CN_F32 : CN_I64;
  return cnpy_converted(t, plain ? dtype : wide, CN_CPU, false);
}

PyObject *cnpy_tolist(cn_tensor *t)
{
  cn_tensor *host = readable(t);
  if (!host) return NULL;
  const char *data = cn_data_const(host);
  PyObject *list = cn_err() ? cnpy_raise() : list_of(cn_desc_of(host), data, 0);
  cn_release(host);
  return list;
}

static PyObject *py_item(PyObject *self, PyObject *unused)
{
  (void)unused;
  return cnpy_item(cnpy_t(self));
}

static PyObject *py_tolist(PyObject *self, PyObject *unused)
{
  (void)unused;
  return cnpy_tolist(cnpy_t(self));
}

/* Says that somebody may write there by the address, so that nothing is kept that was made of what is there now. On a
 * device an export says it. */
static void show_address(cn_tensor *t)
{
  if (cn_device_of(t) == CN_CPU) {
    cn_data(t);
    return;
  }
  cn_scope *scope = cn_scope_begin();
  cn_dlpack_versioned *shown = cn_to_dlpack_versioned(cn_detach(t));
  if (shown) shown->deleter(shown);
  cn_scope_end(scope);
  cn_err_clear();
}

static PyObject *py_data_ptr(PyObject *self, PyObject *unused)
{
  const cn_desc *d = cn_desc_of(cnpy_t(self));
  (void)unused;
  if (d->numel && d->data) show_address(cnpy_t(self));
  return PyLong_FromVoidPtr(d->numel ? d->data : NULL);
}

static PyObject *py_storage_offset(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyLong_FromLongLong(cn_storage_offset(cnpy_t(self)));
}

static PyObject *py_storage_nbytes(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyLong_FromSize_t(cn_storage_nbytes(cnpy_t(self)));
}

/* clang-format off */
#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS
PyMethodDef cnpy_convert_functions[] = {
  {"tensor", FAST(py_tensor),
   "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False) -> Tensor\n\n"
   "A new tensor with a copy of data: numbers, nested sequences, arrays or a tensor."},
  {"as_tensor", FAST(py_as_tensor),
   "as_tensor(data, dtype=None, device=None) -> Tensor\n\n"
   "data as a tensor; tensors and arrays that fit already share their memory, and tensors keep their history."},
  {"asarray", FAST(py_asarray),
   "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False) -> Tensor\n\n"
   "obj as a tensor: shared where it can be unless copy is True; never copied when copy is False."},
  {NULL, NULL, 0, NULL},
};
static PyObject *py_is_pinned(PyObject *self, PyObject *Py_UNUSED(none))
{
  return PyBool_FromLong(cn_is_pinned(cnpy_t(self)));
}

static PyObject *py_share(PyObject *self, PyObject *Py_UNUSED(none))
{
  return cn_share_memory(cnpy_t(self)) ? cnpy_raise() : Py_NewRef(self);
}

static PyObject *py_shared_fd(PyObject *self, PyObject *Py_UNUSED(none))
{
  return PyLong_FromLong(cn_shared_fd(cnpy_t(self)));
}

/* The tensor itself comes back as the very object. */
static PyObject *py_pin(PyObject *self, PyObject *device)
{
  cn_device id;
  if (cnpy_to_device(device, &id)) return NULL;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *t = cnpy_take(scope, cn_pin_memory(cnpy_t(self), id));
  if (t != cnpy_t(self)) return t ? cnpy_wrap(t) : NULL;
  cn_release(t);
  return Py_NewRef(self);
}

PyMethodDef cnpy_convert_methods[] = {
  {"_is_pinned", py_is_pinned, METH_NOARGS, NULL},
  {"_pin", py_pin, METH_O, NULL},
  {"_share_memory", py_share, METH_NOARGS, NULL},
  {"_shared_fd", py_shared_fd, METH_NOARGS, "The descriptor of its shared memory; -1 when it is not shared."},
  {"item", py_item, METH_NOARGS, "item() -> number\n\nThe one element as a Python number."},
  {"tolist", py_tolist, METH_NOARGS, "tolist() -> list or number\n\nAll elements as nested lists."},
  {"data_ptr", py_data_ptr, METH_NOARGS, "data_ptr() -> int\n\nThe address of the first element."},
  {"storage_offset", py_storage_offset, METH_NOARGS,
   "storage_offset() -> int\n\nHow many elements behind the beginning of its memory the first one lies."},
  {"_storage_nbytes", py_storage_nbytes, METH_NOARGS, "Bytes of the memory that the tensor lies in."},
  {NULL, NULL, 0, NULL},
};
/* clang-format on */
