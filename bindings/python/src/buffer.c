/* buffer.c: the buffer protocol both ways, and what is built on it: numpy arrays, frombuffer, raw bytes.
 *
 * Place in the flow: convert.c and _numpy.py read arrays through it; numpy, memoryview and the like read tensors
 * through it. Invariant: memory that crosses the border is kept alive by the side that gave it: a tensor over a buffer
 * holds the buffer, a buffer over a tensor holds the tensor's memory. */
#include "cairn_py.h"

#include <string.h>

/* ---- formats ---- */

/* By dtype; NULL where the struct module has no such type. int64 is `l`, which is what numpy calls int64. */
static const char *const formats[CN_DTYPE_COUNT] = {
  [CN_BOOL] = "?", [CN_U8] = "B",  [CN_I8] = "b", [CN_I16] = "h", [CN_I32] = "i", [CN_U16] = "H",
  [CN_U32] = "I",  [CN_F16] = "e", [CN_F32] = "f", [CN_F64] = "d", [CN_C64] = "Zf", [CN_C128] = "Zd",
  [CN_I64] = sizeof(long) == 8 ? "l" : "q", [CN_U64] = sizeof(long) == 8 ? "L" : "Q",
};

static cn_dtype by_size(Py_ssize_t size, cn_dtype one, cn_dtype two, cn_dtype four, cn_dtype eight)
{
  return size == 1 ? one : size == 2 ? two : size == 4 ? four : size == 8 ? eight : CN_DTYPE_NONE;
}

/* *swapped: the bytes of an element are in the other order. */
static cn_dtype read_format(const char *format, Py_ssize_t size, bool *swapped)
{
  *swapped = false;
  if (!format) format = "B";
  if (*format == '>' || *format == '!') *swapped = size > 1;
  if (strchr("@=<>!", *format) && *format) format++;
  if (!strcmp(format, "Zf") || !strcmp(format, "Zd")) return format[1] == 'f' ? CN_C64 : CN_C128;
  if (!format[0] || format[1]) return CN_DTYPE_NONE;
  if (*format == '?') return CN_BOOL;
  if (strchr("bhilqn", *format)) return by_size(size, CN_I8, CN_I16, CN_I32, CN_I64);
  if (strchr("BHILQN", *format)) return by_size(size, CN_U8, CN_U16, CN_U32, CN_U64);
  if (strchr("efd", *format)) return by_size(size, CN_DTYPE_NONE, CN_F16, CN_F32, CN_F64);
  return CN_DTYPE_NONE;
}

cn_dtype cnpy_buffer_dtype(PyObject *o)
{
  Py_buffer view;
  bool swapped;
  if (PyObject_GetBuffer(o, &view, PyBUF_RECORDS_RO)) {
    PyErr_Clear();
    return CN_DTYPE_NONE;
  }
  cn_dtype dtype = read_format(view.format, view.itemsize, &swapped);
  PyBuffer_Release(&view);
  return dtype;
}

/* ---- tensors over buffers ---- */

/* Any thread may drop the last tensor, also while the interpreter is gone. */
static void release_held(void *payload)
{
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyBuffer_Release(payload);
  PyMem_Free(payload);
  PyGILState_Release(state);
}

static int warn_read_only(const Py_buffer *view, bool warn)
{
  if (!view->readonly || !warn) return 0;
  return PyErr_WarnEx(PyExc_UserWarning,
                      "the given array or buffer is read-only, which tensors do not know: writing to the tensor would "
                      "write to it. Copy it first to be safe.",
                      1);
}

/* Shape and strides (in elements) of a view; -1 with ValueError. */
static int read_layout(const Py_buffer *view, int64_t *shape, int64_t *strides)
{
  if (view->ndim > CN_MAX_DIMS) {
    PyErr_Format(PyExc_ValueError, "an array of %d dimensions; tensors have at most %d", view->ndim, CN_MAX_DIMS);
    return -1;
  }
  int64_t next = 1;
  for (int i = view->ndim - 1; i >= 0; i--) {
    Py_ssize_t stride = view->strides ? view->strides[i] : (Py_ssize_t)(next * view->itemsize);
    shape[i] = view->shape ? view->shape[i] : view->len / view->itemsize;
    if (shape[i] < 2) stride = (Py_ssize_t)(next * view->itemsize); /* no step is ever taken */
    if (stride < 0) {
      PyErr_SetString(PyExc_ValueError, "the array has a negative stride, which tensors cannot have; copy it first "
                                        "(array.copy())");
      return -1;
    }
    if (stride % view->itemsize) {
      PyErr_SetString(PyExc_ValueError, "the array's strides are not multiples of its element size; copy it first");
      return -1;
    }
    strides[i] = stride / view->itemsize;
    next *= shape[i] ? shape[i] : 1;
  }
  return 0;
}

static int check_format(const Py_buffer *view, cn_dtype *dtype)
{
  bool swapped;
  *dtype = read_format(view->format, view->itemsize, &swapped);
  if (*dtype == CN_DTYPE_NONE) {
    PyErr_Format(PyExc_TypeError, "there is no dtype for arrays with elements of format '%s'",
                 view->format ? view->format : "B");
    return -1;
  }
  if (!swapped) return 0;
  PyErr_SetString(PyExc_ValueError, "the array's byte order is not this machine's; convert it with "
                                    "array.astype(array.dtype.newbyteorder('='))");
  return -1;
}

cn_tensor *cnpy_share_buffer(PyObject *o, bool warn)
{
  Py_buffer *view = PyMem_Malloc(sizeof *view);
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  cn_dtype dtype;
  if (!view) {
    PyErr_NoMemory();
    return NULL;
  }
  if (PyObject_GetBuffer(o, view, PyBUF_RECORDS_RO)) {
    PyMem_Free(view);
    return NULL;
  }
  if (check_format(view, &dtype) || read_layout(view, shape, strides) || warn_read_only(view, warn)) {
    PyBuffer_Release(view);
    PyMem_Free(view);
    return NULL;
  }
  cn_scope *scope = cn_scope_begin();
  cn_tensor *t = cn_from_borrowed(view->buf, shape, strides, (size_t)view->ndim, dtype, release_held, view);
  return cnpy_take(scope, t);
}

/* ---- numpy ---- */

/* numpy's array class once somebody has imported numpy (borrowed); else NULL. */
static PyObject *ndarray_class(void)
{
  static PyObject *cls; /* kept for good */
  if (cls) return cls;
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *numpy = modules ? PyDict_GetItemString(modules, "numpy") : NULL;
  if (!numpy) return NULL;
  cls = PyObject_GetAttrString(numpy, "ndarray");
  if (!cls) PyErr_Clear(); /* it is being imported right now */
  return cls;
}

bool cnpy_is_ndarray(PyObject *o)
{
  PyObject *cls = ndarray_class();
  return cls && PyObject_TypeCheck(o, (PyTypeObject *)(void *)cls);
}

cn_tensor *cnpy_share_array(PyObject *array, bool warn)
{
  Py_buffer view;
  bool swapped, usual = PyObject_GetBuffer(array, &view, PyBUF_RECORDS_RO) == 0;
  if (usual) {
    usual = read_format(view.format, view.itemsize, &swapped) != CN_DTYPE_NONE;
    PyBuffer_Release(&view);
  } else PyErr_Clear();
  if (usual) return cnpy_share_buffer(array, warn);
  PyObject *module = PyImport_ImportModule("cairn._numpy"); /* types that buffers cannot name */
  PyObject *made = module ? PyObject_CallMethod(module, "_share_unusual", "Oi", array, warn) : NULL;
  Py_XDECREF(module);
  if (made && !cnpy_is_tensor(made)) PyErr_SetString(PyExc_TypeError, "from_numpy: the array has no usable type");
  cn_tensor *t = made && cnpy_is_tensor(made) ? cn_keep(cnpy_t(made)) : NULL;
  Py_XDECREF(made);
  return t;
}

PyObject *cnpy_from_numpy(PyObject *module, PyObject *array)
{
  (void)module;
  if (!cnpy_is_ndarray(array)) {
    PyObject *name = PyType_GetName(Py_TYPE(array));
    if (name) PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %U)", name);
    Py_XDECREF(name);
    return NULL;
  }
  cn_tensor *t = cnpy_share_array(array, true);
  return t ? cnpy_wrap(t) : NULL;
}

/* ---- frombuffer ---- */

/* How many elements of `size` bytes; -1 with ValueError. */
static int64_t count_elements(Py_ssize_t len, int64_t size, int64_t count, int64_t offset)
{
  if (len <= 0 || count == 0) {
    PyErr_Format(PyExc_ValueError, "both buffer length (%zd) and count (%lld) must not be 0", len, (long long)count);
    return -1;
  }
  if (offset < 0 || offset >= len) {
    PyErr_Format(PyExc_ValueError,
                 "offset (%lld bytes) must be non-negative and no greater than buffer length (%zd bytes) minus 1",
                 (long long)offset, len);
    return -1;
  }
  int64_t rest = len - offset;
  if (count < 0 && rest % size) {
    PyErr_Format(PyExc_ValueError, "buffer length (%lld bytes) after offset (%lld bytes) must be a multiple of "
                                   "element size (%lld)", (long long)rest, (long long)offset, (long long)size);
    return -1;
  }
  if (count < 0) return rest / size;
  if (count <= rest / size) return count;
  PyErr_Format(PyExc_ValueError, "requested buffer length (%lld * %lld bytes) after offset (%lld bytes) must not be "
                                 "greater than actual buffer length (%zd bytes)",
               (long long)count, (long long)size, (long long)offset, len);
  return -1;
}

/* The tensor over an open view, which is taken over. */
static cn_tensor *over_bytes(Py_buffer *view, cn_dtype dtype, int64_t count, int64_t offset)
{
  int64_t n = count_elements(view->len, (int64_t)cn_dtype_size(dtype), count, offset);
  if (n < 0 || warn_read_only(view, true)) {
    release_held(view);
    return NULL;
  }
  cn_scope *scope = cn_scope_begin();
  return cnpy_take(scope, cn_from_borrowed((char *)view->buf + offset, &n, NULL, 1, dtype, release_held, view));
}

PyObject *cnpy_frombuffer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  static const char *const names[] = {"buffer", "dtype", "count", "offset", "requires_grad", NULL};
  PyObject *v[5];
  cn_dtype dtype;
  int64_t count = -1, offset = 0;
  bool grad = false;
  (void)module;
  if (cnpy_keywords("frombuffer", names, 1, v, args, nargs, kwnames)) return NULL;
  if (!v[0] || !v[1])
    return PyErr_Format(PyExc_TypeError, "frombuffer() missing 1 required positional arguments: \"%s\"",
                        v[0] ? "dtype" : "buffer");
  if (cnpy_to_dtype(v[1], &dtype) || (v[2] && cnpy_to_int(v[2], &count)) || (v[3] && cnpy_to_int(v[3], &offset)) ||
      cnpy_flag(v[4], &grad))
    return NULL;
  if (!PyObject_CheckBuffer(v[0]))
    return PyErr_Format(PyExc_ValueError, "frombuffer: the object has no buffer");
  Py_buffer *view = PyMem_Malloc(sizeof *view);
  if (!view) return PyErr_NoMemory();
  if (PyObject_GetBuffer(v[0], view, PyBUF_SIMPLE)) {
    PyMem_Free(view);
    return NULL;
  }
  cn_tensor *t = over_bytes(view, dtype, count, offset);
  if (t && grad && !cn_requires_grad(t, true)) {
    cn_release(t);
    return cnpy_raise();
  }
  return t ? cnpy_wrap(t) : NULL;
}

/* ---- raw elements ---- */

static void release_tensor(void *payload) { cn_release(payload); }

/* _bitcast(tensor, dtype): the same memory read as another type of the same size; no history. */
PyObject *cnpy_bitcast(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
  cn_dtype dtype;
  (void)module;
  if (nargs != 2 || !cnpy_is_tensor(args[0]))
    return PyErr_Format(PyExc_TypeError, "_bitcast() takes a tensor and a dtype");
  if (cnpy_to_dtype(args[1], &dtype)) return NULL;
  cn_tensor *t = cnpy_t(args[0]);
  if (cn_dtype_size(dtype) != cn_dtype_size(cn_dtype_of(t)))
    return PyErr_Format(PyExc_RuntimeError, "_bitcast: %s and %s differ in size", cn_dtype_name(cn_dtype_of(t)),
                        cn_dtype_name(dtype));
  void *data = cn_data(t);
  if (cn_err()) return cnpy_raise();
  cn_scope *scope = cn_scope_begin();
  t = cnpy_take(scope, cn_from_borrowed(data, cn_shape(t), cn_strides(t), (size_t)cn_ndim(t), dtype, release_tensor,
                                        cn_keep(t)));
  return t ? cnpy_wrap(t) : NULL;
}

/* _to_bytes(tensor): all elements, row-major. */
PyObject *cnpy_to_bytes(PyObject *module, PyObject *tensor)
{
  (void)module;
  if (!cnpy_is_tensor(tensor)) return PyErr_Format(PyExc_TypeError, "_to_bytes() takes a tensor");
  size_t size = cn_tensor_nbytes(cnpy_t(tensor));
  PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
  if (!bytes || cn_to_data(PyBytes_AsString(bytes), size, cnpy_t(tensor)) == CN_OK) return bytes;
  Py_DECREF(bytes);
  return cnpy_raise();
}

/* _from_bytes(buffer, dtype, shape): a new tensor on the CPU with a copy of them. */
PyObject *cnpy_from_bytes(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
  Py_buffer view;
  cn_dtype dtype;
  int64_t shape[CN_MAX_DIMS], size;
  (void)module;
  if (nargs != 3) return PyErr_Format(PyExc_TypeError, "_from_bytes() takes 3 arguments (%zd given)", nargs);
  int ndim = cnpy_to_ints(args[2], shape, CN_MAX_DIMS);
  if (ndim < 0 || cnpy_to_dtype(args[1], &dtype) || PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE)) return NULL;
  size = (int64_t)cn_dtype_size(dtype);
  bool fits = true;
  for (int i = 0; i < ndim; i++) fits = fits && shape[i] >= 0 && !__builtin_mul_overflow(size, shape[i], &size);
  cn_tensor *t = NULL;
  if (!fits || size != view.len) PyErr_SetString(PyExc_ValueError, "_from_bytes: the bytes do not fit the shape");
  else {
    cn_device before = cn_default_device();
    cn_scope *scope = cn_scope_begin();
    cn_set_default_device(CN_CPU);
    t = cnpy_take(scope, cn_from_data(view.buf, shape, (size_t)ndim, dtype));
    cn_set_default_device(before);
  }
  PyBuffer_Release(&view);
  return t ? cnpy_wrap(t) : NULL;
}

/* ---- buffers over tensors ---- */

/* What a view over a tensor points into. */
typedef struct lent {
  cn_tensor *t; /* owned */
  Py_ssize_t dims[2 * CN_MAX_DIMS];
} lent;

/* NULL where t can be lent; else why not. */
static const char *refusal(cn_tensor *t, int flags)
{
  const cn_desc *d = cn_desc_of(t);
  if (cn_needs_grad(t)) return "the tensor requires a gradient; use tensor.detach()";
  if (d->device != CN_CPU) return "the tensor is not on the CPU; use tensor.cpu()";
  if (!formats[d->dtype]) return "buffers have no format for elements of this dtype";
  if (!cn_is_contiguous(t)) {
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES) return "the tensor is not contiguous";
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS) return "the tensor is not C-contiguous";
  }
  return NULL;
}

static bool columns_first(const cn_desc *d)
{
  int64_t next = 1;
  for (int i = 0; i < d->ndim; i++) {
    if (d->shape[i] != 1 && d->strides[i] != next) return d->numel == 0;
    next *= d->shape[i];
  }
  return true;
}

static void fill_view(Py_buffer *view, lent *l, int flags)
{
  const cn_desc *d = cn_desc_of(l->t);
  static char nothing;
  view->itemsize = (Py_ssize_t)cn_dtype_size((cn_dtype)d->dtype);
  view->buf = d->data ? d->data : &nothing;
  view->len = (Py_ssize_t)d->numel * view->itemsize;
  view->readonly = 0;
  view->ndim = d->ndim;
  view->format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)formats[d->dtype] : NULL;
  for (int i = 0; i < d->ndim; i++) {
    l->dims[i] = (Py_ssize_t)d->shape[i];
    l->dims[CN_MAX_DIMS + i] = (Py_ssize_t)d->strides[i] * view->itemsize;
  }
  view->shape = flags & PyBUF_ND ? l->dims : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? l->dims + CN_MAX_DIMS : NULL;
  if (!view->shape) view->ndim = 1;
  view->suboffsets = NULL;
  view->internal = l;
}

int cnpy_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
  cn_tensor *t = cnpy_t(self);
  view->obj = NULL;
  const char *why = refusal(t, flags);
  bool fortran = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
  bool any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
  if (!why && (fortran || (any && !cn_is_contiguous(t))) && !columns_first(cn_desc_of(t)))
    why = "the tensor is not contiguous in the order asked for";
  if (why) {
    PyErr_SetString(PyExc_BufferError, why);
    return -1;
  }
  cn_data(t); /* waits for work that is under way */
  if (cn_err()) {
    cnpy_raise();
    return -1;
  }
  lent *l = PyMem_Malloc(sizeof *l);
  if (!l) {
    PyErr_NoMemory();
    return -1;
  }
  l->t = cn_keep(t);
  fill_view(view, l, flags);
  view->obj = Py_NewRef(self);
  return 0;
}

void cnpy_releasebuffer(PyObject *self, Py_buffer *view)
{
  lent *l = view->internal;
  (void)self;
  cn_release(l->t);
  PyMem_Free(l);
}
