/* types.c: the small value types of the package: dtype, device, layout and memory_format.
 *
 * Place in the flow: arguments arrive as these, attributes return them. Invariant: there is one object per dtype,
 * layout and memory format, so that `is` works as in torch. */
#include "cairn_py.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- dtype ---- */

static PyObject *dtype_repr(PyObject *self)
{
  return PyUnicode_FromFormat("%s.%s", cnpy_package, cn_dtype_name(((cnpy_dtype *)(void *)self)->id));
}

/* Pickled by name: the object of that name in the package. */
static PyObject *dtype_reduce(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyUnicode_FromString(cn_dtype_name(((cnpy_dtype *)(void *)self)->id));
}

static PyObject *dtype_is_float(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(cn_dtype_is_float(((cnpy_dtype *)(void *)self)->id));
}

static PyObject *dtype_is_complex(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(cn_dtype_is_complex(((cnpy_dtype *)(void *)self)->id));
}

static PyObject *dtype_is_signed(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(cn_dtype_is_signed(((cnpy_dtype *)(void *)self)->id));
}

static PyObject *dtype_itemsize(PyObject *self, void *unused)
{
  (void)unused;
  return PyLong_FromSize_t(cn_dtype_size(((cnpy_dtype *)(void *)self)->id));
}

static PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyGetSetDef dtype_getset[] = {
    {"is_floating_point", dtype_is_float, NULL, "True for floating-point types.", NULL},
    {"is_complex", dtype_is_complex, NULL, "True for complex types.", NULL},
    {"is_signed", dtype_is_signed, NULL, "True for floats, complex and signed integers.", NULL},
    {"itemsize", dtype_itemsize, NULL, "Bytes of one element in memory.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot dtype_slots[] = {
    {Py_tp_repr, (void *)dtype_repr},
    {Py_tp_doc, (void *)"The type of a tensor's elements."},
    {Py_tp_methods, (void *)dtype_methods},
    {Py_tp_getset, (void *)dtype_getset},
    {0, NULL},
};
static PyType_Spec dtype_spec = {"cairn.dtype", sizeof(cnpy_dtype), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};

PyObject *cnpy_dtype_of(cn_dtype id) { return Py_NewRef(cnpy.dtypes[id]); }

int cnpy_to_dtype(PyObject *o, cn_dtype *id)
{
  if (cnpy_is_dtype(o)) *id = ((cnpy_dtype *)(void *)o)->id;
  else if (o == (PyObject *)&PyFloat_Type) *id = CN_F64;
  else if (o == (PyObject *)&PyLong_Type) *id = CN_I64;
  else if (o == (PyObject *)&PyBool_Type) *id = CN_BOOL;
  else if (o == (PyObject *)&PyComplex_Type) *id = CN_C128;
  else {
    PyErr_Format(PyExc_TypeError, "dtype must be a cairn.dtype, not %R", (PyObject *)Py_TYPE(o));
    return -1;
  }
  return 0;
}

static int add_dtypes(PyObject *module)
{
  static const struct {
    const char *name;
    cn_dtype id;
  } also[] = {{"float", CN_F32}, {"double", CN_F64}, {"half", CN_F16},  {"long", CN_I64},
              {"int", CN_I32},   {"short", CN_I16},  {"cfloat", CN_C64}, {"cdouble", CN_C128},
              {"chalf", CN_C32}};
  for (int id = CN_BOOL; id < CN_DTYPE_COUNT; id++) {
    cnpy_dtype *d = PyObject_New(cnpy_dtype, cnpy.dtype);
    if (!d) return -1;
    d->id = (cn_dtype)id;
    if (!(cnpy.dtypes[id] = cnpy_own((PyObject *)d))) return -1;
    if (PyModule_AddObjectRef(module, cn_dtype_name((cn_dtype)id), (PyObject *)d)) return -1;
  }
  for (size_t i = 0; i < sizeof also / sizeof *also; i++)
    if (PyModule_AddObjectRef(module, also[i].name, cnpy.dtypes[also[i].id])) return -1;
  return 0;
}

/* ---- device ---- */

static PyObject *new_device(const char *type, int index)
{
  cnpy_device *d = PyObject_New(cnpy_device, cnpy.device);
  if (!d) return NULL;
  snprintf(d->type, sizeof d->type, "%.15s", type);
  d->index = index;
  d->id = CN_DEVICE_DEFAULT;
  return (PyObject *)d;
}

PyObject *cnpy_device_of(cn_device id)
{
  char text[40];
  cn_device_name(text, sizeof text, id);
  char *colon = strchr(text, ':');
  if (colon) *colon = 0;
  int index = colon ? (int)strtol(colon + 1, NULL, 10) : -1; /* "cpu" and "meta" have none */
  cnpy_device *d = (cnpy_device *)(void *)new_device(text, index);
  if (d) d->id = id;
  return (PyObject *)d;
}

/* Kinds that programs name to ask whether they are there; a tensor on one that is not there is an error. */
static bool is_named(const char *type)
{
  static const char *const names[] = {"cpu", "cuda", "mirror", "pjrt", "tpu", "mps", "xpu", "meta"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(type, names[i])) return true;
  return false;
}

/* "cuda", "cuda:1": is it of that form? The device itself need not be there. */
static PyObject *device_of_text(const char *text)
{
  char type[16];
  const char *colon = strchr(text, ':');
  size_t n = colon ? (size_t)(colon - text) : strlen(text);
  char *end = NULL;
  long index = colon ? strtol(colon + 1, &end, 10) : -1;
  bool known = n && n < sizeof type && (!colon || (end > colon + 1 && !*end && index >= 0 && index < 256));
  if (known) {
    memcpy(type, text, n);
    type[n] = 0;
    known = is_named(type) || cn_device_count(type) > 0;
  }
  if (!known) return cnpy_fail(PyExc_RuntimeError, "Invalid device string: '%s'", text);
  return new_device(type, (int)index);
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"type", "index", NULL};
  PyObject *what = NULL;
  int index = -1;
  (void)type;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i:device", names, &what, &index)) return NULL;
  if (cnpy_is_device(what)) return Py_NewRef(what);
  if (PyLong_Check(what)) return new_device("cuda", (int)PyLong_AsLong(what));
  const char *text = PyUnicode_Check(what) ? PyUnicode_AsUTF8AndSize(what, NULL) : NULL;
  if (!text)
    return PyErr_Occurred() ? NULL : cnpy_fail(PyExc_TypeError, "device() takes a string, an int or a device");
  PyObject *made = device_of_text(text);
  if (!made || index < 0) return made;
  cnpy_device *d = (cnpy_device *)(void *)made;
  if (d->index < 0) d->index = index;
  else {
    Py_DECREF(made);
    return cnpy_fail(PyExc_RuntimeError, "device(): the index is given twice, in '%s' and as %d", text, index);
  }
  return made;
}

static PyObject *device_str(PyObject *self)
{
  const cnpy_device *d = (const cnpy_device *)(void *)self;
  return d->index < 0 ? PyUnicode_FromString(d->type) : PyUnicode_FromFormat("%s:%d", d->type, d->index);
}

static PyObject *device_repr(PyObject *self)
{
  const cnpy_device *d = (const cnpy_device *)(void *)self;
  return d->index < 0 ? PyUnicode_FromFormat("device(type='%s')", d->type)
                      : PyUnicode_FromFormat("device(type='%s', index=%d)", d->type, d->index);
}

static PyObject *device_compare(PyObject *a, PyObject *b, int how)
{
  if (!cnpy_is_device(a) || !cnpy_is_device(b) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  const cnpy_device *x = (const cnpy_device *)(void *)a, *y = (const cnpy_device *)(void *)b;
  bool same = x->index == y->index && !strcmp(x->type, y->type);
  return PyBool_FromLong(same == (how == Py_EQ));
}

static Py_hash_t device_hash(PyObject *self)
{
  PyObject *text = device_str(self);
  if (!text) return -1;
  Py_hash_t hash = PyObject_Hash(text);
  Py_DECREF(text);
  return hash;
}

static PyObject *device_type(PyObject *self, void *unused)
{
  (void)unused;
  return PyUnicode_FromString(((cnpy_device *)(void *)self)->type);
}

static PyObject *device_index(PyObject *self, void *unused)
{
  (void)unused;
  int index = ((cnpy_device *)(void *)self)->index;
  if (index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(index);
}

static PyObject *device_reduce(PyObject *self, PyObject *unused)
{
  (void)unused;
  PyObject *text = device_str(self);
  return text ? Py_BuildValue("O(N)", (PyObject *)cnpy.device, text) : NULL;
}

/* `with device:` tensors are made there where nothing says where. What was before is kept per thread. */
enum { MOST_DEVICES = 64 };
static _Thread_local cn_device entered[MOST_DEVICES];
static _Thread_local int nentered;

static PyObject *device_enter(PyObject *self, PyObject *unused)
{
  cn_device id;
  (void)unused;
  if (cnpy_to_device(self, &id)) return NULL;
  if (nentered == MOST_DEVICES) return cnpy_fail(PyExc_RuntimeError, "device: `with` is nested too deeply");
  entered[nentered++] = cn_default_device();
  cn_set_default_device(id);
  return Py_NewRef(self);
}

static PyObject *device_exit(PyObject *self, PyObject *args)
{
  (void)self, (void)args;
  if (nentered) cn_set_default_device(entered[--nentered]);
  Py_RETURN_NONE;
}

static PyMethodDef device_methods[] = {
    {"__reduce__", device_reduce, METH_NOARGS, NULL},
    {"__enter__", device_enter, METH_NOARGS, NULL},
    {"__exit__", device_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef device_getset[] = {
    {"type", device_type, NULL, "The kind of device: 'cpu', 'cuda', ...", NULL},
    {"index", device_index, NULL, "Which one of its kind, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot device_slots[] = {
    {Py_tp_new, (void *)device_new},
    {Py_tp_repr, (void *)device_repr},
    {Py_tp_str, (void *)device_str},
    {Py_tp_richcompare, (void *)device_compare},
    {Py_tp_hash, (void *)device_hash},
    {Py_tp_methods, (void *)device_methods},
    {Py_tp_getset, (void *)device_getset},
    {Py_tp_doc, (void *)"Where a tensor lives: device('cuda:1')."},
    {0, NULL},
};
static PyType_Spec device_spec = {"cairn.device", sizeof(cnpy_device), 0, Py_TPFLAGS_DEFAULT, device_slots};

static _Thread_local int current_cuda; /* the device that "cuda" alone means: cuda.set_device */

PyObject *cnpy_set_current(PyObject *module, PyObject *index)
{
  int before = current_cuda;
  int64_t value;
  (void)module;
  if (cnpy_to_int(index, &value)) return NULL;
  if (value >= 0) current_cuda = (int)value;
  return PyLong_FromLong(before);
}

int cnpy_to_device(PyObject *o, cn_device *id)
{
  cnpy_device *d;
  char text[40];
  PyObject *made = cnpy_call1((PyObject *)cnpy.device, o);
  if (!made) return -1;
  d = (cnpy_device *)(void *)made;
  bool current = d->index < 0 && !strcmp(d->type, "cuda"); /* what it means may change */
  if (!d->id || current) {
    int index = current ? current_cuda : d->index;
    if (index > 0 || (index == 0 && strcmp(d->type, "cpu"))) snprintf(text, sizeof text, "%s:%d", d->type, index);
    else snprintf(text, sizeof text, "%s", d->type);
    d->id = cn_device_find(text);
  }
  *id = d->id;
  Py_DECREF(made);
  if (*id) return 0;
  cnpy_raise();
  return -1;
}

/* ---- layout and memory_format: named constants ---- */

typedef struct constant {
  PyObject_HEAD const char *name;
} constant;

static PyObject *constant_repr(PyObject *self)
{
  return PyUnicode_FromFormat("%s.%s", cnpy_package, ((constant *)(void *)self)->name);
}
static PyObject *constant_reduce(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyUnicode_FromString(((constant *)(void *)self)->name);
}

static PyMethodDef constant_methods[] = {{"__reduce__", constant_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot constant_slots[] = {
    {Py_tp_repr, (void *)constant_repr}, {Py_tp_methods, (void *)constant_methods}, {0, NULL}};
static PyType_Spec layout_spec = {"cairn.layout", sizeof(constant), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, constant_slots};
static PyType_Spec memory_format_spec = {"cairn.memory_format", sizeof(constant), 0,
                                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, constant_slots};
static PyTypeObject *layout_type, *memory_format_type;

static int add_constant(PyObject *module, PyTypeObject *type, const char *name)
{
  constant *c = PyObject_New(constant, type);
  if (!c) return -1;
  c->name = name;
  int status = PyModule_AddObjectRef(module, name, (PyObject *)c);
  Py_DECREF(c);
  return status;
}

/* By cn_layout. */
static const char *const layouts[] = {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"};

const char *cnpy_layout_name(PyObject *o) { return Py_IS_TYPE(o, layout_type) ? ((constant *)(void *)o)->name : NULL; }

bool cnpy_layout_is(cn_layout layout, const char *name) { return !strcmp(layouts[layout], name); }

PyObject *cnpy_layout_of(cn_layout layout)
{
  static PyObject *module; /* the constants are its attributes; it stays as long as they do */
  if (!module && !(module = PyImport_ImportModule("cairn._C"))) return NULL;
  return PyObject_GetAttrString(module, layouts[layout]);
}

const char *cnpy_memory_format(PyObject *o)
{
  if (Py_IS_TYPE(o, memory_format_type)) return ((constant *)(void *)o)->name;
  PyErr_Format(PyExc_TypeError, "memory_format must be a cairn.memory_format, not %R", (PyObject *)Py_TYPE(o));
  return NULL;
}

/* ---- Size ---- */

PyObject *cnpy_size_of(const int64_t *dims, int ndim)
{
  PyObject *tuple = PyTuple_New(ndim);
  for (int i = 0; tuple && i < ndim; i++) {
    PyObject *n = PyLong_FromLongLong(dims[i]);
    if (!n || PyTuple_SetItem(tuple, i, n)) Py_CLEAR(tuple);
  }
  if (!tuple || !cnpy.size) return tuple;
  PyObject *size = cnpy_call1((PyObject *)cnpy.size, tuple);
  Py_DECREF(tuple);
  return size;
}

/* ---- all of them ---- */

int cnpy_add_types(PyObject *module)
{
  static const char *const formats[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
  if (!(cnpy.dtype = cnpy_add_type(module, &dtype_spec)) || add_dtypes(module)) return -1;
  if (!(cnpy.device = cnpy_add_type(module, &device_spec))) return -1;
  if (!(layout_type = cnpy_add_type(module, &layout_spec))) return -1;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
    if (add_constant(module, layout_type, layouts[i])) return -1;
  if (!(memory_format_type = cnpy_add_type(module, &memory_format_spec))) return -1;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (add_constant(module, memory_format_type, formats[i])) return -1;
  return 0;
}
