/* tensor.c: TensorBase, the Python object of a tensor: life, attributes, conversions to Python numbers.
 *
 * Place in the flow: cairn.Tensor, a Python class, derives from it and adds what is not worth writing in C.
 * Invariant: an object owns exactly one reference to its tensor, from its making to its end. */
#include <cairn/vmap.h>
#include <string.h>

#include "autograd.h"
#include "cairn_py.h"

/* ---- life ---- */

static PyObject *new_object(PyTypeObject *type, cn_tensor *t)
{
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  cnpy_tensor *self = (cnpy_tensor *)(void *)alloc(type, 0);
  if (!self) {
    cn_release(t);
    return NULL;
  }
  self->t = t;
  self->grad = NULL;
  return (PyObject *)self;
}

PyObject *cnpy_wrap(cn_tensor *t)
{
  if (!t) return cnpy_raise();
  if (cnpy.owned) return new_object(cnpy.tensor, t);
  cn_release(t);
  return cnpy_fail(PyExc_RuntimeError, "cairn is gone: Python is shutting down");
}
PyObject *cnpy_wrap_borrowed(cn_tensor *t) { return cnpy_wrap(cn_keep(t)); }

PyObject *cnpy_wrap_list(cn_tensor *const *tensors, size_t n)
{
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *t = cnpy_wrap_borrowed(tensors[i]);
    if (!t || PyList_SetItem(list, (Py_ssize_t)i, t)) Py_CLEAR(list);
  }
  return list;
}

void cnpy_replace(PyObject *tensor, cn_tensor *t)
{
  cnpy_tensor *self = (cnpy_tensor *)(void *)tensor;
  cn_tensor *before = self->t;
  self->t = t;
  cn_release(before);
}

static bool is_size(PyObject *o) { return cnpy.size && PyObject_TypeCheck(o, cnpy.size); }

/* Tensor(*sizes) and Tensor(Size) are empty of that size, Tensor() of none; Tensor(data) copies, cls(tensor) shares. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  Py_ssize_t n = PyTuple_Size(args);
  PyObject *first = n ? PyTuple_GetItem(args, 0) : NULL;
  cn_tensor *t = NULL;
  (void)kwargs;
  if (n == 1 && cnpy_is_tensor(first)) {
    const cn_value alias[] = {cn_v_tensor(cnpy_t(first))};
    t = cnpy_op1("detach", alias, 1, NULL);
  } else if (n == 1 && !PyLong_Check(first) && !is_size(first)) {
    t = cnpy_from_data(first, cn_default_dtype(), CN_DEVICE_DEFAULT);
  } else {
    int64_t size[CN_MAX_DIMS] = {0};
    int count = cnpy_to_ints(n == 1 && is_size(first) ? first : args, size, CN_MAX_DIMS);
    if (count < 0) return NULL;
    const cn_value shape[] = {cn_v_ints(size, n ? (size_t)count : 1)};
    t = cnpy_op1("empty", shape, 1, NULL);
  }
  return t ? new_object(type, t) : NULL;
}

static void tensor_dealloc(PyObject *self)
{
  cnpy_tensor *x = (cnpy_tensor *)(void *)self;
  PyTypeObject *type = Py_TYPE(self);
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  Py_CLEAR(x->grad);
  cn_release(x->t);
  free_object(self);
  Py_DECREF(type);
}

/* ---- attributes ---- */

static PyObject *get_shape(PyObject *self, void *unused)
{
  (void)unused;
  const cn_desc *d = cn_desc_of(cnpy_t(self));
  return cnpy_size_of(d->shape, d->ndim);
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
  (void)unused;
  return cnpy_dtype_of(cn_dtype_of(cnpy_t(self)));
}

static PyObject *get_device(PyObject *self, void *unused)
{
  (void)unused;
  return cnpy_device_of(cn_device_of(cnpy_t(self)));
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
  (void)unused;
  return PyLong_FromLong(cn_ndim(cnpy_t(self)));
}

static PyObject *get_itemsize(PyObject *self, void *unused)
{
  (void)unused;
  return PyLong_FromSize_t(cn_dtype_size(cn_dtype_of(cnpy_t(self))));
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
  (void)unused;
  return PyLong_FromSize_t(cn_tensor_nbytes(cnpy_t(self)));
}

static PyObject *get_layout(PyObject *self, void *unused)
{
  (void)unused;
  return cnpy_layout_of(cn_layout_of(cnpy_t(self)));
}

static PyObject *get_is_sparse(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(cn_layout_of(cnpy_t(self)) == CN_LAYOUT_COO);
}

static PyObject *get_is_sparse_csr(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(cn_layout_of(cnpy_t(self)) == CN_LAYOUT_CSR);
}

static PyGetSetDef getset[] = {
    {"layout", get_layout, NULL, "How it holds its elements, a cairn.layout.", NULL},
    {"is_sparse", get_is_sparse, NULL, "Is it of the layout sparse_coo?", NULL},
    {"is_sparse_csr", get_is_sparse_csr, NULL, "Is it of the layout sparse_csr?", NULL},
    {"shape", get_shape, NULL, "Its sizes, a cairn.Size.", NULL},
    {"dtype", get_dtype, NULL, "The type of its elements.", NULL},
    {"device", get_device, NULL, "Where it lives.", NULL},
    {"ndim", get_ndim, NULL, "The number of its dimensions.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- methods that only look ---- */

static PyObject *one_size(const int64_t *list, const cn_desc *d, PyObject *dim)
{
  int64_t i;
  if (cnpy_to_int(dim, &i)) return NULL;
  int64_t n = d->ndim ? d->ndim : 1;
  if (i < -n || i >= n || !d->ndim)
    return cnpy_fail(PyExc_IndexError,
                     "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)", (long long)-n,
                     (long long)n - 1, (long long)i);
  return PyLong_FromLongLong(list[i < 0 ? i + n : i]);
}

static PyObject *method_size(PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"dim", NULL};
  PyObject *dim = Py_None;
  const cn_desc *d = cn_desc_of(cnpy_t(self));
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:size", names, &dim)) return NULL;
  return dim == Py_None ? cnpy_size_of(d->shape, d->ndim) : one_size(d->shape, d, dim);
}

static PyObject *method_stride(PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"dim", NULL};
  PyObject *dim = Py_None;
  const cn_desc *d = cn_desc_of(cnpy_t(self));
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:stride", names, &dim)) return NULL;
  if (dim != Py_None) return one_size(d->strides, d, dim);
  PyObject *tuple = PyTuple_New(d->ndim);
  for (int i = 0; tuple && i < d->ndim; i++) PyTuple_SetItem(tuple, i, PyLong_FromLongLong(d->strides[i]));
  return tuple;
}

static PyObject *method_numel(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyLong_FromLongLong(cn_numel(cnpy_t(self)));
}

static PyObject *method_dim(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyLong_FromLong(cn_ndim(cnpy_t(self)));
}

/* A number that sparse tensors have. */
static PyObject *of_sparse(PyObject *self, const char *what, int64_t value)
{
  if (cn_is_sparse(cnpy_t(self))) return PyLong_FromLongLong(value);
  return cnpy_fail(PyExc_RuntimeError, "%s expected a tensor of a sparse layout but got strided", what);
}

static PyObject *method_nnz(PyObject *self, PyObject *unused)
{
  (void)unused;
  return of_sparse(self, "_nnz", cn_nnz(cnpy_t(self)));
}

static PyObject *method_sparse_dim(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyLong_FromLong(cn_sparse_dim(cnpy_t(self)));
}

static PyObject *method_dense_dim(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyLong_FromLong(cn_dense_dim(cnpy_t(self)));
}

static PyObject *method_is_coalesced(PyObject *self, PyObject *unused)
{
  (void)unused;
  if (cn_layout_of(cnpy_t(self)) == CN_LAYOUT_COO) return PyBool_FromLong(cn_is_coalesced(cnpy_t(self)));
  return cnpy_fail(PyExc_RuntimeError, "is_coalesced expected sparse coordinate tensor layout");
}

static PyObject *method_is_contiguous(PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"memory_format", NULL};
  PyObject *format = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_contiguous", names, &format)) return NULL;
  const char *name = format ? cnpy_memory_format(format) : "contiguous_format";
  if (!name) return NULL;
  bool last = !strncmp(name, "channels_last", 13);
  return PyBool_FromLong(last ? cn_is_channels_last(cnpy_t(self)) : cn_is_contiguous(cnpy_t(self)));
}

static PyObject *method_is_floating_point(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyBool_FromLong(cn_dtype_is_float(cn_dtype_of(cnpy_t(self))));
}

static PyObject *method_set_data(PyObject *self, PyObject *other)
{
  if (!cnpy_is_tensor(other)) return cnpy_fail(PyExc_TypeError, "data must be a Tensor");
  cnpy_replace(self, cn_keep(cnpy_t(other)));
  Py_RETURN_NONE;
}

/* Whether ", grad_fn=<name>" goes to a line of its own: text is what stands before it. torch counts a line as two
 * longer than it is, unless an earlier suffix has begun it. */
static bool node_wraps(const char *text, const char *name)
{
  const char *last = strrchr(text, '\n'), *line = last ? last + 1 : text;
  const char *first = line + strspn(line, " ");
  size_t length = strlen(line) + (last && *first >= 'a' && *first <= 'z' ? 0 : 2);
  return length + strlen("grad_fn=<>") + strlen(name) + 2 > (size_t)cnpy_line_width;
}

/* As cairn prints it, with torch's name of the node where there is one. */
static PyObject *tensor_repr(PyObject *self)
{
  char name[80];
  char *text = cn_to_string(cnpy_t(self));
  if (!text) return cnpy_raise();
  char *node = strstr(text, "grad_fn=<"), *end = node ? strchr(node, '>') : NULL;
  PyObject *string;
  if (end && cnpy_grad_fn_name(cnpy_t(self), name, sizeof name)[0]) {
    while (node > text && node[-1] != ',') --node;
    node[node > text ? -1 : 0] = 0;
    const char *gap = node_wraps(text, name) ? "\n       " : " ";
    string = PyUnicode_FromFormat("%s,%sgrad_fn=<%s>%s", text, gap, name, end + 1);
  } else string = PyUnicode_FromString(text);
  cn_string_free(text);
  return string;
}

#define KEYWORDS(function) ((PyCFunction)(void (*)(void))(function)), METH_VARARGS | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"size", KEYWORDS(method_size), "size(dim=None)\n--\n\nAll sizes, or the one of a dimension."},
    {"stride", KEYWORDS(method_stride), "stride(dim=None)\n--\n\nSteps in elements, all or of one dimension."},
    {"numel", method_numel, METH_NOARGS, "numel()\n--\n\nThe number of its elements."},
    {"nelement", method_numel, METH_NOARGS, "nelement()\n--\n\nThe number of its elements."},
    {"dim", method_dim, METH_NOARGS, "dim()\n--\n\nThe number of its dimensions."},
    {"ndimension", method_dim, METH_NOARGS, "ndimension()\n--\n\nThe number of its dimensions."},
    {"_nnz", method_nnz, METH_NOARGS, "_nnz()\n--\n\nHow many values a sparse tensor holds."},
    {"sparse_dim", method_sparse_dim, METH_NOARGS,
     "sparse_dim()\n--\n\nThe number of dimensions that indices are for; 0 of a dense tensor."},
    {"dense_dim", method_dense_dim, METH_NOARGS,
     "dense_dim()\n--\n\nThe number of dimensions of each value; of a dense tensor all."},
    {"is_coalesced", method_is_coalesced, METH_NOARGS,
     "is_coalesced()\n--\n\nDoes a sparse_coo tensor hold each place once, in order?"},
    {"is_contiguous", KEYWORDS(method_is_contiguous),
     "is_contiguous(memory_format=contiguous_format)\n--\n\nDo its elements lie in that order without gaps?"},
    {"is_floating_point", method_is_floating_point, METH_NOARGS, "is_floating_point()\n--\n\nIs its type a float?"},
    {"_replace", method_set_data, METH_O, "_replace(other)\n--\n\nHolds the tensor of another object from now on."},
    {NULL, NULL, 0, NULL},
};

/* ---- as a Python number, a sequence ---- */

static int tensor_bool(PyObject *self)
{
  cn_tensor *t = cnpy_t(self);
  if (cn_is_batched(t)) {
    cnpy_fail(PyExc_RuntimeError, "vmap: It looks like you're attempting to use a Tensor in some data-dependent "
                                  "control flow. We don't support that yet: it stands for one example of a batch, and "
                                  "whether it is true differs between examples; use where in its place");
    return -1;
  }
  if (cn_numel(t) != 1) {
    cnpy_fail(PyExc_RuntimeError, cn_numel(t) ? "Boolean value of Tensor with more than one value is ambiguous"
                                              : "Boolean value of Tensor with no values is ambiguous");
    return -1;
  }
  if (cn_dtype_is_complex(cn_dtype_of(t))) {
    PyObject *z = cnpy_item(t);
    int truth = z ? PyObject_IsTrue(z) : -1;
    Py_XDECREF(z);
    return truth;
  }
  double value = cn_item(t);
  if (cn_err()) {
    cnpy_raise();
    return -1;
  }
  return value != 0;
}

static bool single(PyObject *self)
{
  if (cn_numel(cnpy_t(self)) == 1) return true;
  cnpy_fail(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
  return false;
}

static PyObject *tensor_float(PyObject *self)
{
  if (!single(self)) return NULL;
  if (cn_dtype_is_complex(cn_dtype_of(cnpy_t(self)))) {
    PyObject *z = cnpy_item(cnpy_t(self));
    PyObject *real = z ? PyFloat_FromDouble(PyComplex_RealAsDouble(z)) : NULL;
    if (z && PyComplex_ImagAsDouble(z) != 0) {
      Py_CLEAR(real);
      cnpy_fail(PyExc_RuntimeError, "value cannot be converted to type double without overflow");
    }
    Py_XDECREF(z);
    return real;
  }
  double value = cn_item(cnpy_t(self));
  return cn_err() ? cnpy_raise() : PyFloat_FromDouble(value);
}

static PyObject *tensor_int(PyObject *self)
{
  if (!single(self)) return NULL;
  PyObject *item = cn_dtype_is_complex(cn_dtype_of(cnpy_t(self))) ? tensor_float(self) : cnpy_item(cnpy_t(self));
  PyObject *whole = item ? PyNumber_Long(item) : NULL;
  Py_XDECREF(item);
  return whole;
}

static PyObject *tensor_index(PyObject *self)
{
  cn_tensor *t = cnpy_t(self);
  if (cn_dtype_is_float(cn_dtype_of(t)) || cn_dtype_is_complex(cn_dtype_of(t)) || cn_numel(t) != 1)
    return cnpy_fail(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
  return tensor_int(self);
}

static Py_ssize_t tensor_length(PyObject *self)
{
  cn_tensor *t = cnpy_t(self);
  if (cn_ndim(t)) return (Py_ssize_t)cn_shape(t)[0];
  cnpy_fail(PyExc_TypeError, "len() of a 0-d tensor");
  return -1;
}

static PyObject *tensor_iter(PyObject *self)
{
  if (!cn_ndim(cnpy_t(self))) return cnpy_fail(PyExc_TypeError, "iteration over a 0-d tensor");
  PyObject *parts = PyObject_CallMethod(self, "unbind", "i", 0);
  PyObject *iterator = parts ? PyObject_GetIter(parts) : NULL;
  Py_XDECREF(parts);
  return iterator;
}

static Py_hash_t tensor_hash(PyObject *self)
{
  size_t at = (size_t)self;
  return (Py_hash_t)((at >> 4) | (at << 60));
}

/* ---- the type ---- */

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)tensor_new},
    {Py_tp_dealloc, (void *)tensor_dealloc},
    {Py_tp_repr, (void *)tensor_repr},
    {Py_tp_hash, (void *)tensor_hash},
    {Py_tp_iter, (void *)tensor_iter},
    {Py_nb_bool, (void *)tensor_bool},
    {Py_nb_float, (void *)tensor_float},
    {Py_nb_int, (void *)tensor_int},
    {Py_nb_index, (void *)tensor_index},
    {Py_mp_length, (void *)tensor_length},
    {Py_mp_subscript, (void *)cnpy_getitem},
    {Py_mp_ass_subscript, (void *)cnpy_setitem},
    {Py_bf_getbuffer, (void *)cnpy_getbuffer},
    {Py_bf_releasebuffer, (void *)cnpy_releasebuffer},
    {Py_tp_doc, (void *)"What cairn.Tensor is made from."},
};

/* How many entries a list of `size` bytes each has before the one whose name, its first field, is NULL. */
static size_t count(const char *list, size_t size)
{
  size_t n = 0;
  const char *name;
  while (memcpy(&name, list + n * size, sizeof name), name) n++;
  return n;
}

/* The methods or attributes of several files as one list. */
static void *join(const void *const *parts, size_t nparts, size_t size)
{
  size_t total = 1, at = 0;
  for (size_t i = 0; i < nparts; i++) total += count(parts[i], size);
  char *all = PyMem_Calloc(total, size);
  for (size_t i = 0; all && i < nparts; i++) {
    size_t n = count(parts[i], size);
    memcpy(all + at * size, parts[i], n * size);
    at += n;
  }
  return all;
}

int cnpy_add_tensor(PyObject *module)
{
  enum { OWN = sizeof slots / sizeof *slots };
  const void *method_lists[] = {methods, cnpy_convert_methods, cnpy_exchange_methods, cnpy_autograd_methods,
                                cnpy_op_methods};
  const void *getset_lists[] = {getset, cnpy_autograd_getset};
  PyType_Slot all[OWN + CNPY_OPERATORS + 3];
  size_t n = OWN;
  memcpy(all, slots, sizeof slots);
  n += cnpy_operator_slots(all + n);
  cnpy.methods = join(method_lists, sizeof method_lists / sizeof *method_lists, sizeof(PyMethodDef));
  cnpy.attributes = join(getset_lists, sizeof getset_lists / sizeof *getset_lists, sizeof(PyGetSetDef));
  if (!cnpy.methods || !cnpy.attributes) return -1;
  all[n++] = (PyType_Slot){Py_tp_methods, cnpy.methods};
  all[n++] = (PyType_Slot){Py_tp_getset, cnpy.attributes};
  all[n] = (PyType_Slot){0, NULL};
  PyType_Spec spec = {"cairn._C.TensorBase", sizeof(cnpy_tensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, all};
  cnpy.tensor_base = cnpy_add_type(module, &spec);
  cnpy.tensor = cnpy.tensor_base;
  return cnpy.tensor_base ? 0 : -1;
}
