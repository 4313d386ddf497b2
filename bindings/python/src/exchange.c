/* exchange.c: DLPack both ways: __dlpack__, __dlpack_device__, from_dlpack.
 *
 * Place in the flow: the core describes tensors (cn_to_dlpack, cn_from_dlpack); this file wraps that into capsules by
 * the protocol's rules. Invariant: a capsule owns its managed tensor until it is renamed to "used_..."; from then on
 * the consumer does. */
#include "cairn_py.h"

#include <cairn/ext/dlpack.h>
#include <stdlib.h>
#include <string.h>

static const char plain_name[] = "dltensor", versioned_name[] = "dltensor_versioned";

/* copy=: NULL (not given, None), Py_True or Py_False. -1 with an exception. */
static int read_copy(PyObject **copy)
{
  bool flag = false;
  if (!*copy || *copy == Py_None) {
    *copy = NULL;
    return 0;
  }
  if (cnpy_flag(*copy, &flag)) return -1;
  *copy = flag ? Py_True : Py_False;
  return 0;
}

/* ---- devices ---- */

typedef struct place {
  long type, index;
} place;

static place place_of(cn_device device)
{
  char text[40];
  place p = {CN_DLPACK_CPU, 0};
  if (device == CN_CPU) return p;
  cn_device_name(text, sizeof text, device);
  const char *colon = strchr(text, ':');
  p.index = colon ? strtol(colon + 1, NULL, 10) : 0;
  p.type = strncmp(text, "cuda", 4) ? CN_DLPACK_OTHER : CN_DLPACK_CUDA;
  return p;
}

static int read_pair(PyObject *o, const char *what, long *first, long *second)
{
  if (PyTuple_Check(o) && PyTuple_Size(o) == 2) {
    *first = PyLong_AsLong(PyTuple_GetItem(o, 0)); /* IntEnum too */
    *second = *first == -1 && PyErr_Occurred() ? -1 : PyLong_AsLong(PyTuple_GetItem(o, 1));
    return PyErr_Occurred() ? -1 : 0;
  }
  PyErr_Format(PyExc_TypeError, "%s must be a tuple of two integers", what);
  return -1;
}

/* ---- out ---- */

/* What the consumer gets: the core's description, and the Python object kept alive beside the memory, as numpy's. */
typedef struct lent {
  union {
    cn_dlpack plain;
    cn_dlpack_versioned versioned;
  } u; /* first: the consumer hands its address back */
  union {
    cn_dlpack *plain;
    cn_dlpack_versioned *versioned;
    void *any;
  } core;          /* owned; u is a copy of it */
  PyObject *owner; /* NULL when a copy is lent */
} lent;

/* On any thread, at any time. */
static void drop_lent(lent *l)
{
  if (l->owner && Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(l->owner);
    PyGILState_Release(state);
  }
  free(l);
}
static void delete_plain(cn_dlpack *self)
{
  lent *l = self ? self->context : NULL;
  if (!l) return;
  l->core.plain->deleter(l->core.plain);
  drop_lent(l);
}
static void delete_versioned(cn_dlpack_versioned *self)
{
  lent *l = self ? self->context : NULL;
  if (!l) return;
  l->core.versioned->deleter(l->core.versioned);
  drop_lent(l);
}

/* NULL with the cn_ error set. */
static lent *lend(cn_tensor *t, PyObject *owner, bool versioned)
{
  lent *l = calloc(1, sizeof *l);
  if (!l) cn_err_set(CN_ERR_MEMORY, "__dlpack__: out of memory");
  if (!l || !(l->core.any = versioned ? cn_to_dlpack_versioned(t) : cn_to_dlpack(t))) {
    free(l);
    return NULL;
  }
  l->owner = Py_XNewRef(owner);
  if (versioned) {
    l->u.versioned = *l->core.versioned;
    l->u.versioned.context = l;
    l->u.versioned.deleter = delete_versioned;
    if (!owner) l->u.versioned.flags |= CN_DLPACK_COPIED;
  } else {
    l->u.plain = *l->core.plain;
    l->u.plain.context = l;
    l->u.plain.deleter = delete_plain;
  }
  return l;
}

static void free_plain_capsule(PyObject *capsule)
{
  if (!PyCapsule_IsValid(capsule, plain_name)) return; /* consumed */
  cn_dlpack *m = PyCapsule_GetPointer(capsule, plain_name);
  if (m && m->deleter) m->deleter(m);
}
static void free_versioned_capsule(PyObject *capsule)
{
  if (!PyCapsule_IsValid(capsule, versioned_name)) return;
  cn_dlpack_versioned *m = PyCapsule_GetPointer(capsule, versioned_name);
  if (m && m->deleter) m->deleter(m);
}

/* owner NULL: t is a copy made for the consumer. */
static PyObject *capsule_of(cn_tensor *t, PyObject *owner, bool versioned)
{
  lent *l = lend(t, owner, versioned);
  if (!l && (cn_err() == CN_ERR_DTYPE || cn_err() == CN_ERR_DEVICE)) { /* what this form, or no form, can say */
    PyErr_SetString(PyExc_BufferError, cn_err_message());
    cn_err_clear();
    return NULL;
  }
  if (!l) return cnpy_raise();
  PyObject *capsule = PyCapsule_New(l, versioned ? versioned_name : plain_name,
                                    versioned ? free_versioned_capsule : free_plain_capsule);
  if (capsule) return capsule;
  if (versioned) delete_versioned(&l->u.versioned);
  else delete_plain(&l->u.plain);
  return NULL;
}

/* What consumers say of their stream: the address of one; none for host memory. -1: nothing is to be waited for. */
static int read_stream(cn_tensor *t, PyObject *stream, int64_t *number)
{
  bool given = stream && stream != Py_None;
  *number = 0;
  if (!given || cn_device_of(t) != CN_CPU) return given ? cnpy_to_int(stream, number) : 0;
  PyErr_SetString(cnpy.value_error, "__dlpack__: stream should be None for a tensor on the CPU");
  return -1;
}

/* All that makes t comes before what the consumer does in its stream: in the one in use it does so by itself. */
static int settle_stream(cn_tensor *t, int64_t number)
{
  cn_device device = cn_device_of(t);
  if (device == CN_CPU || number == -1 || (number && (void *)(intptr_t)number == cn_device_stream(device))) return 0;
  if (cn_device_sync(device) == CN_OK) return 0;
  cnpy_raise();
  return -1;
}

/* t where, and as new as, the consumer wants it; owned. */
static cn_tensor *placed(cn_tensor *t, PyObject *where, PyObject *copy, bool *copied)
{
  place own = place_of(cn_device_of(t)), want = own;
  *copied = copy == Py_True;
  if (where && where != Py_None && read_pair(where, "dl_device", &want.type, &want.index)) return NULL;
  if (want.type == own.type && want.index == own.index)
    return *copied ? cnpy_converted(t, CN_DTYPE_NONE, CN_DEVICE_DEFAULT, true) : cn_keep(t);
  if (want.type != CN_DLPACK_CPU || copy == Py_False) {
    PyErr_Format(PyExc_BufferError, "__dlpack__: cannot hand a tensor of device (%ld, %ld) out on device (%ld, %ld)%s",
                 own.type, own.index, want.type, want.index, copy == Py_False ? " without a copy" : "");
    return NULL;
  }
  *copied = true;
  return cnpy_converted(t, CN_DTYPE_NONE, CN_CPU, false);
}

static PyObject *py_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  static const char *const names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *v[4];
  long major = 0, minor = 0;
  bool copied;
  if (cnpy_keywords("__dlpack__", names, 0, v, args, nargs, kwnames)) return NULL;
  if (v[1] && v[1] != Py_None && read_pair(v[1], "max_version", &major, &minor)) return NULL;
  if (read_copy(&v[3])) return NULL;
  cn_tensor *t = cnpy_t(self);
  if (cn_needs_grad(t))
    return PyErr_Format(PyExc_BufferError, "__dlpack__: the tensor requires a gradient; use tensor.detach()");
  int64_t stream;
  if (read_stream(t, v[0], &stream) || !(t = placed(t, v[2], v[3], &copied))) return NULL;
  PyObject *capsule = settle_stream(t, stream) ? NULL : capsule_of(t, copied ? NULL : self, major >= 1);
  cn_release(t);
  return capsule;
}

static PyObject *py_dlpack_device(PyObject *self, PyObject *unused)
{
  place p = place_of(cn_device_of(cnpy_t(self)));
  (void)unused;
  return Py_BuildValue("(ll)", p.type, p.index);
}

/* to_dlpack(tensor): the capsule of the unversioned form. */
static PyObject *py_to_dlpack(PyObject *module, PyObject *tensor)
{
  (void)module;
  if (!cnpy_is_tensor(tensor)) return PyErr_Format(PyExc_TypeError, "to_dlpack() takes a tensor");
  return py_dlpack(tensor, NULL, 0, NULL);
}

/* ---- in ---- */

/* Takes over the capsule's managed tensor. Owned. */
static cn_tensor *consume(PyObject *capsule)
{
  bool versioned = PyCapsule_IsValid(capsule, versioned_name);
  if (!versioned && !PyCapsule_IsValid(capsule, plain_name)) {
    PyErr_SetString(PyExc_RuntimeError, "from_dlpack: the capsule holds no tensor; a capsule can be used only once");
    return NULL;
  }
  void *managed = PyCapsule_GetPointer(capsule, versioned ? versioned_name : plain_name);
  if (!managed || PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor")) return NULL;
  cn_scope *scope = cn_scope_begin();
  return cnpy_take(scope, versioned ? cn_from_dlpack_versioned(managed) : cn_from_dlpack(managed));
}

/* Sets words[key] to a new value, whose reference is taken over; -1 with an exception. */
static int set_word(PyObject *words, const char *key, PyObject *value)
{
  int status = value ? PyDict_SetItemString(words, key, value) : -1;
  Py_XDECREF(value);
  return status;
}

/* ext.__dlpack__(max_version=(1, 1), ...): older producers take no keywords but stream. `queue`: what its work on
 * other devices is to be in front of. */
static PyObject *ask(PyObject *ext, void *queue, PyObject *copy)
{
  PyObject *method = PyObject_GetAttrString(ext, "__dlpack__"), *empty = PyTuple_New(0), *words = PyDict_New();
  PyObject *capsule = NULL;
  bool ok = method && empty && words && !(queue && set_word(words, "stream", PyLong_FromVoidPtr(queue))) &&
            !set_word(words, "max_version", Py_BuildValue("(ii)", CN_DLPACK_MAJOR, CN_DLPACK_MINOR)) &&
            !(copy && PyDict_SetItemString(words, "copy", copy));
  if (ok) capsule = PyObject_Call(method, empty, words);
  if (ok && !capsule && !copy && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    if (PyDict_DelItemString(words, "max_version") == 0) capsule = PyObject_Call(method, empty, words);
  }
  Py_XDECREF(method);
  Py_XDECREF(empty);
  Py_XDECREF(words);
  return capsule;
}

static int device_type(PyObject *ext, long *type, long *index)
{
  PyObject *pair = PyObject_CallMethod(ext, "__dlpack_device__", NULL);
  int status = pair ? read_pair(pair, "__dlpack_device__()", type, index) : -1;
  Py_XDECREF(pair);
  return status;
}

/* The queue of a CUDA device: what its producer is to be asked with. NULL with no exception for host memory. */
static int queue_of(long type, long index, void **queue)
{
  char name[32];
  *queue = NULL;
  if (type != CN_DLPACK_CUDA && type != CN_DLPACK_CUDA_MANAGED) return 0;
  PyOS_snprintf(name, sizeof name, "cuda:%ld", index);
  cn_device device = cn_device_find(name);
  if (device != CN_DEVICE_DEFAULT) *queue = cn_device_stream(device);
  if (cn_err() == CN_OK) return 0;
  cnpy_raise();
  return -1;
}

/* Was the memory read-only? Then the core made a copy, which copy=False forbids. */
static bool read_only(PyObject *capsule)
{
  if (!PyCapsule_IsValid(capsule, versioned_name)) return false;
  const cn_dlpack_versioned *m = PyCapsule_GetPointer(capsule, versioned_name);
  return m && m->version.major == CN_DLPACK_MAJOR && (m->flags & CN_DLPACK_READ_ONLY);
}

static cn_tensor *import_object(PyObject *ext, PyObject *copy)
{
  long type = CN_DLPACK_CPU, index = 0;
  void *queue;
  if (device_type(ext, &type, &index) || queue_of(type, index, &queue)) return NULL;
  PyObject *capsule = ask(ext, queue, copy);
  if (!capsule) return NULL;
  cn_tensor *t = NULL;
  if (!PyCapsule_CheckExact(capsule))
    PyErr_SetString(PyExc_TypeError, "from_dlpack: __dlpack__() returned no capsule");
  else if (copy == Py_False && read_only(capsule))
    PyErr_SetString(PyExc_BufferError, "from_dlpack: read-only memory cannot be shared (copy=False)");
  else t = consume(capsule);
  Py_DECREF(capsule);
  return t;
}

cn_tensor *cnpy_import_dlpack(PyObject *o, PyObject *device, PyObject *copy)
{
  cn_device where = CN_DEVICE_DEFAULT;
  if (device && device != Py_None && cnpy_to_device(device, &where)) return NULL;
  bool capsule = PyCapsule_CheckExact(o);
  cn_tensor *t = capsule ? consume(o) : import_object(o, copy);
  if (!t) return NULL;
  bool move = where != CN_DEVICE_DEFAULT && where != cn_device_of(t);
  if (!move && !(capsule && copy == Py_True)) return t;
  cn_tensor *result = NULL;
  if (copy == Py_False)
    PyErr_SetString(PyExc_BufferError, "from_dlpack: another device needs a copy (copy=False)");
  else result = cnpy_converted(t, CN_DTYPE_NONE, where, true);
  cn_release(t);
  return result;
}

static PyObject *py_from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  static const char *const names[] = {"ext_tensor", "device", "copy", NULL};
  PyObject *v[3];
  (void)module;
  if (cnpy_keywords("from_dlpack", names, 1, v, args, nargs, kwnames)) return NULL;
  if (!v[0])
    return PyErr_Format(PyExc_TypeError, "from_dlpack() missing 1 required positional arguments: \"ext_tensor\"");
  cn_tensor *t = read_copy(&v[2]) ? NULL : cnpy_import_dlpack(v[0], v[1], v[2]);
  return t ? cnpy_wrap(t) : NULL;
}

typedef cn_tensor *(*over_fn)(int fd, int64_t offset, const int64_t *shape, const int64_t *strides, size_t ndim,
                              cn_dtype dtype);

/* (fd, offset, shape, strides, dtype): a tensor over memory that another process shares, or hands over. */
static PyObject *over_descriptor(PyObject *args, over_fn over)
{
  int fd;
  long long offset;
  PyObject *sizes, *steps, *type;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  cn_dtype dtype;
  if (!PyArg_ParseTuple(args, "iLOOO", &fd, &offset, &sizes, &steps, &type)) return NULL;
  int ndim = cnpy_to_ints(sizes, shape, CN_MAX_DIMS), nsteps = cnpy_to_ints(steps, strides, CN_MAX_DIMS);
  if (ndim < 0 || nsteps < 0 || cnpy_to_dtype(type, &dtype)) return NULL;
  if (ndim != nsteps) return cnpy_fail(PyExc_ValueError, "_from_shared: %d sizes and %d strides", ndim, nsteps);
  cn_scope *scope = cn_scope_begin();
  cn_tensor *t = cnpy_take(scope, over(fd, offset, shape, strides, (size_t)ndim, dtype));
  return t ? cnpy_wrap(t) : NULL;
}

static PyObject *from_shared(PyObject *Py_UNUSED(module), PyObject *args)
{
  return over_descriptor(args, cn_from_shared);
}

static PyObject *take_shared(PyObject *Py_UNUSED(module), PyObject *args)
{
  return over_descriptor(args, cn_take_shared);
}

/* _zeros_shared(shape, dtype) */
static PyObject *zeros_shared(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *sizes, *type;
  int64_t shape[CN_MAX_DIMS];
  cn_dtype dtype;
  if (!PyArg_ParseTuple(args, "OO", &sizes, &type)) return NULL;
  int ndim = cnpy_to_ints(sizes, shape, CN_MAX_DIMS);
  if (ndim < 0 || cnpy_to_dtype(type, &dtype)) return NULL;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *t = cnpy_take(scope, cn_zeros_shared(shape, (size_t)ndim, dtype));
  return t ? cnpy_wrap(t) : NULL;
}

/* clang-format off */
#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS
#define FAST_PLAIN(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL
PyMethodDef cnpy_exchange_functions[] = {
  {"from_dlpack", FAST(py_from_dlpack),
   "from_dlpack(ext_tensor, *, device=None, copy=None) -> Tensor\n\n"
   "A tensor over the memory of any object with __dlpack__, or of a DLPack capsule."},
  {"to_dlpack", py_to_dlpack, METH_O, "to_dlpack(tensor) -> capsule\n\nA DLPack capsule over the tensor's memory."},
  {"from_numpy", cnpy_from_numpy, METH_O, "from_numpy(ndarray) -> Tensor\n\nA tensor over a numpy array's memory."},
  {"frombuffer", FAST(cnpy_frombuffer),
   "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False) -> Tensor\n\n"
   "A vector over the memory of any object with a buffer."},
  {"_bitcast", FAST_PLAIN(cnpy_bitcast), NULL},
  {"_to_bytes", cnpy_to_bytes, METH_O, NULL},
  {"_from_bytes", FAST_PLAIN(cnpy_from_bytes), NULL},
  {"_from_shared", from_shared, METH_VARARGS, NULL},
  {"_take_shared", take_shared, METH_VARARGS, NULL},
  {"_zeros_shared", zeros_shared, METH_VARARGS, NULL},
  {NULL, NULL, 0, NULL},
};
PyMethodDef cnpy_exchange_methods[] = {
  {"__dlpack__", FAST(py_dlpack),
   "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) -> capsule"},
  {"__dlpack_device__", py_dlpack_device, METH_NOARGS, "__dlpack_device__() -> (type, index)"},
  {NULL, NULL, 0, NULL},
};
/* clang-format on */
