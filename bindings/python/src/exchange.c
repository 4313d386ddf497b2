/* exchange.c: DLPack both ways: __dlpack__, __dlpack_device__, from_dlpack.
 *
 * Place in the flow: the core describes host tensors (cn_to_dlpack, cn_from_dlpack); this file wraps that into capsules
 * by the protocol's rules, and describes tensors of other devices itself. Invariant: a capsule owns its managed tensor
 * until it is renamed to "used_..."; from then on the consumer does. */
#include "cairn_py.h"

#include <stdlib.h>
#include <string.h>

/* ---- the published layout (DLPack 1.x) ---- */
typedef struct dl_tensor {
  void *data;
  struct {
    int32_t type, index;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
  struct {
    uint32_t major, minor;
  } version;
  void *context;
  void (*deleter)(struct dl_versioned *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_versioned;

enum { DL_READ_ONLY = 1, DL_COPIED = 2 };
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11, DL_OTHER = 12 };

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
  place p = {DL_CPU, 0};
  if (device == CN_CPU) return p;
  cn_device_name(text, sizeof text, device);
  const char *colon = strchr(text, ':');
  p.index = colon ? strtol(colon + 1, NULL, 10) : 0;
  p.type = strncmp(text, "cuda", 4) ? DL_OTHER : DL_CUDA;
  return p;
}

static bool is_host(long type) { return type == DL_CPU || type == DL_CUDA_HOST || type == DL_ROCM_HOST; }

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

/* What the consumer gets: the core's description of a host tensor, as it is, or with the memory, device and dims of a
 * tensor that lives elsewhere. It keeps the Python object alive, as numpy's does, and its memory in any case. */
typedef struct lent {
  union {
    dl_managed plain;
    dl_versioned versioned;
  } u; /* first: the consumer hands its address back */
  union {
    dl_managed *plain;
    dl_versioned *versioned;
    void *any;
  } core;          /* owned; u is a copy of it */
  cn_tensor *t;    /* owned */
  PyObject *owner; /* NULL when a copy is lent */
  int64_t dims[2 * CN_MAX_DIMS];
} lent;

/* On any thread, at any time. */
static void drop_lent(lent *l)
{
  cn_release(l->t);
  if (l->owner && Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(l->owner);
    PyGILState_Release(state);
  }
  free(l);
}
static void delete_plain(dl_managed *self)
{
  lent *l = self ? self->context : NULL;
  if (!l) return;
  l->core.plain->deleter(l->core.plain);
  drop_lent(l);
}
static void delete_versioned(dl_versioned *self)
{
  lent *l = self ? self->context : NULL;
  if (!l) return;
  l->core.versioned->deleter(l->core.versioned);
  drop_lent(l);
}

/* For a tensor that is not in host memory: all but the type. */
static void describe(dl_tensor *d, lent *l)
{
  const cn_desc *desc = cn_desc_of(l->t);
  place p = place_of(desc->device);
  memcpy(l->dims, desc->shape, (size_t)desc->ndim * sizeof(int64_t));
  memcpy(l->dims + CN_MAX_DIMS, desc->strides, (size_t)desc->ndim * sizeof(int64_t));
  d->data = desc->numel ? desc->data : NULL;
  d->device.type = (int32_t)p.type;
  d->device.index = (int32_t)p.index;
  d->ndim = desc->ndim;
  d->shape = l->dims;
  d->strides = l->dims + CN_MAX_DIMS;
}

/* The core's description of t, or of an empty host tensor of its type; NULL with the cn_ error set. */
static void *core_describes(cn_tensor *t, bool versioned)
{
  static const int64_t none[1] = {0};
  cn_scope *scope = cn_scope_begin();
  if (cn_device_of(t) != CN_CPU) t = cn_from_borrowed(NULL, none, NULL, 1, cn_dtype_of(t), NULL, NULL);
  void *managed = versioned ? cn_to_dlpack_versioned(t) : cn_to_dlpack(t);
  cn_scope_end(scope);
  return managed;
}

/* NULL with the cn_ error set. */
static lent *lend(cn_tensor *t, PyObject *owner, bool versioned)
{
  bool host = cn_device_of(t) == CN_CPU;
  lent *l = calloc(1, sizeof *l);
  if (!l) cn_err_set(CN_ERR_MEMORY, "__dlpack__: out of memory");
  if (!l || !(l->core.any = core_describes(t, versioned))) {
    free(l);
    return NULL;
  }
  l->t = cn_keep(t);
  l->owner = Py_XNewRef(owner);
  if (versioned) {
    l->u.versioned = *l->core.versioned;
    l->u.versioned.context = l;
    l->u.versioned.deleter = delete_versioned;
    if (!owner) l->u.versioned.flags |= DL_COPIED;
  } else {
    l->u.plain = *l->core.plain;
    l->u.plain.context = l;
    l->u.plain.deleter = delete_plain;
  }
  if (!host) describe(versioned ? &l->u.versioned.tensor : &l->u.plain.tensor, l);
  return l;
}

static void free_plain_capsule(PyObject *capsule)
{
  if (!PyCapsule_IsValid(capsule, plain_name)) return; /* consumed */
  dl_managed *m = PyCapsule_GetPointer(capsule, plain_name);
  if (m && m->deleter) m->deleter(m);
}
static void free_versioned_capsule(PyObject *capsule)
{
  if (!PyCapsule_IsValid(capsule, versioned_name)) return;
  dl_versioned *m = PyCapsule_GetPointer(capsule, versioned_name);
  if (m && m->deleter) m->deleter(m);
}

/* owner NULL: t is a copy made for the consumer. */
static PyObject *capsule_of(cn_tensor *t, PyObject *owner, bool versioned)
{
  lent *l = lend(t, owner, versioned);
  if (!l && cn_err() == CN_ERR_DTYPE) { /* a type that only the versioned form can say */
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

/* The consumer's stream: none for host memory. Work on other devices is waited for, unless -1 says not to. */
static int settle_stream(cn_tensor *t, PyObject *stream)
{
  bool given = stream && stream != Py_None;
  if (cn_device_of(t) == CN_CPU) {
    if (!given) return 0;
    PyErr_SetString(cnpy.value_error, "__dlpack__: stream should be None for a tensor on the CPU");
    return -1;
  }
  int64_t number = 0;
  if (given && cnpy_to_int(stream, &number)) return -1;
  if (given && number == -1) return 0;
  if (cn_device_sync(cn_device_of(t)) == CN_OK) return 0;
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
  if (want.type != DL_CPU || copy == Py_False) {
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
  if (settle_stream(t, v[0]) || !(t = placed(t, v[2], v[3], &copied))) return NULL;
  PyObject *capsule = capsule_of(t, copied ? NULL : self, major >= 1);
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

/* ext.__dlpack__(max_version=(1, 1), ...): older producers take no keywords. `host`: ask for host memory. */
static PyObject *ask(PyObject *ext, bool host, bool cuda, PyObject *copy)
{
  PyObject *method = PyObject_GetAttrString(ext, "__dlpack__"), *empty = PyTuple_New(0), *words = PyDict_New();
  PyObject *version = Py_BuildValue("(ii)", 1, 1), *capsule = NULL;
  PyObject *cpu = host ? Py_BuildValue("(ii)", DL_CPU, 0) : NULL;
  PyObject *stream = cuda ? PyLong_FromLong(1) : NULL; /* the legacy default stream, which all others wait for */
  bool ok = method && empty && words && version && (!host || cpu) && (!cuda || stream);
  ok = ok && PyDict_SetItemString(words, "max_version", version) == 0;
  if (ok && host) ok = PyDict_SetItemString(words, "dl_device", cpu) == 0;
  if (ok && stream) ok = PyDict_SetItemString(words, "stream", stream) == 0;
  if (ok && copy) ok = PyDict_SetItemString(words, "copy", copy) == 0;
  if (ok) capsule = PyObject_Call(method, empty, words);
  bool old = ok && !capsule && PyErr_ExceptionMatches(PyExc_TypeError) && !host && !copy;
  if (old) {
    PyErr_Clear();
    PyDict_Clear(words);
    if (!stream || PyDict_SetItemString(words, "stream", stream) == 0) capsule = PyObject_Call(method, empty, words);
  }
  Py_XDECREF(method);
  Py_XDECREF(empty);
  Py_XDECREF(words);
  Py_XDECREF(version);
  Py_XDECREF(cpu);
  Py_XDECREF(stream);
  return capsule;
}

static int device_type(PyObject *ext, long *type, long *index)
{
  PyObject *pair = PyObject_CallMethod(ext, "__dlpack_device__", NULL);
  int status = pair ? read_pair(pair, "__dlpack_device__()", type, index) : -1;
  Py_XDECREF(pair);
  return status;
}

/* Memory that cairn does not know how to hold comes through the host, to the device of the same name. */
static cn_tensor *import_far(PyObject *ext, long type, long index, PyObject *copy)
{
  char name[32];
  if (copy == Py_False) {
    PyErr_SetString(PyExc_BufferError, "from_dlpack: memory of that device cannot be shared (copy=False)");
    return NULL;
  }
  PyObject *capsule = ask(ext, true, false, NULL);
  cn_tensor *host = capsule ? consume(capsule) : NULL;
  Py_XDECREF(capsule);
  if (!host || type != DL_CUDA) return host;
  PyOS_snprintf(name, sizeof name, "cuda:%ld", index);
  cn_device device = cn_device_find(name);
  if (device == CN_DEVICE_DEFAULT) {
    cn_release(host);
    cnpy_raise();
    return NULL;
  }
  cn_tensor *t = cnpy_converted(host, CN_DTYPE_NONE, device, false);
  cn_release(host);
  return t;
}

/* Was the memory read-only? Then the core made a copy, which copy=False forbids. */
static bool read_only(PyObject *capsule)
{
  if (!PyCapsule_IsValid(capsule, versioned_name)) return false;
  const dl_versioned *m = PyCapsule_GetPointer(capsule, versioned_name);
  return m && m->version.major == 1 && (m->flags & DL_READ_ONLY);
}

static cn_tensor *import_object(PyObject *ext, PyObject *copy)
{
  long type = DL_CPU, index = 0;
  if (device_type(ext, &type, &index)) return NULL;
  if (!is_host(type)) return import_far(ext, type, index, copy);
  PyObject *capsule = ask(ext, false, false, copy);
  if (!capsule) return NULL;
  cn_tensor *t = NULL;
  if (!PyCapsule_CheckExact(capsule))
    PyErr_SetString(PyExc_TypeError, "from_dlpack: __dlpack__() answered no capsule");
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
  {NULL, NULL, 0, NULL},
};
PyMethodDef cnpy_exchange_methods[] = {
  {"__dlpack__", FAST(py_dlpack),
   "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) -> capsule"},
  {"__dlpack_device__", py_dlpack_device, METH_NOARGS, "__dlpack_device__() -> (type, index)"},
  {NULL, NULL, 0, NULL},
};
/* clang-format on */
