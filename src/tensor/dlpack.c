/* dlpack.c: tensors handed to and taken from other libraries without copying, by the DLPack 1.x structs.
 *
 * Place in the flow: beside cn_from_borrowed; bindings build their __dlpack__ on it. Invariants: a managed
 * tensor that was passed in is taken over in every case: its deleter runs exactly once, at once on
 * failure; what is handed out keeps its tensor alive until its deleter runs, on whatever thread that is. Memory of
 * other devices changes hands in order: see cn_device_stream. */
#include <cairn/ext/dlpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "tensor.h"

/* The devices whose memory others can use: DLPack's number, and cairn's name without the index. The first row of a
 * name is what is said to others. */
static const struct shared_device {
  int32_t type;
  const char *name;
} shared_devices[] = {{CN_DLPACK_CUDA, "cuda"}, {CN_DLPACK_CUDA_MANAGED, "cuda"}};
enum { SHARED_DEVICES = sizeof shared_devices / sizeof *shared_devices };

static const struct {
  uint8_t code, bits;
} codes[CN_DTYPE_COUNT] = {
    [CN_BOOL] = {CN_DLPACK_BOOL, 8},
    [CN_U8] = {CN_DLPACK_UINT, 8},
    [CN_I8] = {CN_DLPACK_INT, 8},
    [CN_I16] = {CN_DLPACK_INT, 16},
    [CN_I32] = {CN_DLPACK_INT, 32},
    [CN_I64] = {CN_DLPACK_INT, 64},
    [CN_U16] = {CN_DLPACK_UINT, 16},
    [CN_U32] = {CN_DLPACK_UINT, 32},
    [CN_U64] = {CN_DLPACK_UINT, 64},
    [CN_F16] = {CN_DLPACK_FLOAT, 16},
    [CN_BF16] = {CN_DLPACK_BFLOAT, 16},
    [CN_F32] = {CN_DLPACK_FLOAT, 32},
    [CN_F64] = {CN_DLPACK_FLOAT, 64},
    [CN_F8E4M3] = {10, 8},
    [CN_F8E4M3FNUZ] = {11, 8},
    [CN_F8E5M2] = {12, 8},
    [CN_F8E5M2FNUZ] = {13, 8},
    [CN_F8E8M0] = {14, 8},
    [CN_F4E2M1] = {17, 4},
    [CN_I4] = {CN_DLPACK_INT, 4},
    [CN_U4] = {CN_DLPACK_UINT, 4},
    [CN_I2] = {CN_DLPACK_INT, 2},
    [CN_U2] = {CN_DLPACK_UINT, 2},
    [CN_C32] = {CN_DLPACK_COMPLEX, 32},
    [CN_C64] = {CN_DLPACK_COMPLEX, 64},
    [CN_C128] = {CN_DLPACK_COMPLEX, 128},
};

/* Types below eight bits take a byte each here; only the versioned form can say so. */
static bool is_padded(int dtype) { return cni_dtype_rows[dtype].bits < 8 && dtype != CN_BOOL; }

/* ---- in ---- */

/* CN_DTYPE_NONE with the error set for types that cairn does not have. */
static int find_dtype(const cn_dlpack_tensor *d, bool padded)
{
  unsigned code = d->dtype.code, bits = d->dtype.bits, lanes = d->dtype.lanes;
  if (lanes != 1) {
    cni_fail(CN_ERR_DTYPE, "from_dlpack: vector elements (%u lanes) are not supported", lanes);
    return CN_DTYPE_NONE;
  }
  for (int i = CN_DTYPE_NONE + 1; i < CN_DTYPE_COUNT; i++) {
    if (codes[i].code != code || codes[i].bits != bits) continue;
    if (bits >= 8 || padded) return i;
    cni_fail(CN_ERR_DTYPE, "from_dlpack: %s packed several to a byte is not supported; unpack it first",
             cni_dtype_rows[i].name);
    return CN_DTYPE_NONE;
  }
  cni_fail(CN_ERR_DTYPE, "from_dlpack: there is no type for DLPack code %u with %u bits", code, bits);
  return CN_DTYPE_NONE;
}

/* CN_DEVICE_DEFAULT with the error set for memory that cannot be used here. */
static cn_device find_device(const cn_dlpack_tensor *d)
{
  int32_t type = d->device.type;
  char name[32];
  if (type == CN_DLPACK_CPU || type == CN_DLPACK_CUDA_HOST || type == CN_DLPACK_ROCM_HOST) return CN_CPU;
  for (int i = 0; i < SHARED_DEVICES; i++) {
    if (shared_devices[i].type != type) continue;
    snprintf(name, sizeof name, "%s:%d", shared_devices[i].name, (int)d->device.index);
    return cni_memory.find(name);
  }
  cni_fail(CN_ERR_DEVICE, "from_dlpack: memory of device type %d; copy it to the CPU first", (int)type);
  return CN_DEVICE_DEFAULT;
}

/* What a managed tensor says, in cairn's terms. */
typedef struct arrival {
  cn_device device;
  int dtype;
  int64_t numel, strides[CN_MAX_DIMS];
  size_t span; /* bytes from the first element to the end of the last */
  char *data;
} arrival;

/* Everything that is checked before memory is touched. */
static int read_layout(arrival *a, const cn_dlpack_tensor *d, bool padded)
{
  if (cn_err()) return cn_err();
  if ((a->device = find_device(d)) == CN_DEVICE_DEFAULT) return cn_err();
  if ((a->dtype = find_dtype(d, padded)) == CN_DTYPE_NONE) return CN_ERR_DTYPE;
  if (d->ndim > 0 && !d->shape) return cni_fail(CN_ERR_VALUE, "from_dlpack: the shape is missing");
  int64_t size = (int64_t)cni_dtype_size(a->dtype), last = 0, step;
  int err = cni_shape_check("from_dlpack", d->ndim, d->shape, (size_t)size, &a->numel);
  if (err) return err;
  if (a->numel > 0 && !d->data) return cni_fail(CN_ERR_VALUE, "from_dlpack: the data pointer is NULL");
  cni_contiguous_strides(d->ndim, d->shape, a->strides);
  for (int i = 0; i < d->ndim && a->numel > 0; i++) {
    if (d->shape[i] == 1) continue; /* its stride means nothing */
    if (d->strides) a->strides[i] = d->strides[i];
    if (a->strides[i] < 0)
      return cni_fail(CN_ERR_VALUE, "from_dlpack: the stride of dimension %d is negative; copy it first", i);
    if (__builtin_mul_overflow(d->shape[i] - 1, a->strides[i], &step) || __builtin_add_overflow(last, step, &last))
      return cni_fail(CN_ERR_SHAPE, "from_dlpack: the strides are too large");
  }
  if (__builtin_add_overflow(last, a->numel > 0, &last) || __builtin_mul_overflow(last, size, &last))
    return cni_fail(CN_ERR_SHAPE, "from_dlpack: the strides are too large");
  a->span = (size_t)last;
  a->data = a->numel ? (char *)d->data + d->byte_offset : NULL;
  return CN_OK;
}

/* Row-major copy of the elements from `dim` on; returns where writing goes on. */
static char *gather(char *to, const char *from, const cn_dlpack_tensor *d, const arrival *a, int dim)
{
  size_t size = cni_dtype_size(a->dtype);
  if (dim == d->ndim) {
    memcpy(to, from, size);
    return to + size;
  }
  for (int64_t i = 0; i < d->shape[dim]; i++)
    to = gather(to, from + i * a->strides[dim] * (int64_t)size, d, a, dim + 1);
  return to;
}

/* The same through the host, for memory of another device. */
static int gather_far(cn_tensor *t, const cn_dlpack_tensor *d, const arrival *a)
{
  size_t bytes = cni_dtype_bytes(a->dtype, a->numel);
  char *span = cni_alloc(a->span), *packed = span ? cni_alloc(bytes) : NULL;
  int status = packed ? cni_memory.copy_out(a->device, span, a->data, a->span) : CN_ERR_MEMORY;
  if (!status) gather(packed, span, d, a, 0);
  if (!status) status = cni_memory.copy_in(a->device, t->d.data, packed, bytes);
  if (packed) cni_free(packed, bytes);
  if (span) cni_free(span, a->span);
  return status;
}

/* Owned; NULL with the error set. */
static cn_tensor *copy_of(const cn_dlpack_tensor *d, const arrival *a)
{
  cn_tensor *t = cni_tensor_new(a->device, a->dtype, d->ndim, d->shape, NULL);
  if (!t || !a->numel) return t;
  if (a->device == CN_CPU) gather(t->d.data, a->data, d, a, 0);
  else if (gather_far(t, d, a)) {
    cni_tensor_release(t);
    return NULL;
  }
  return t;
}

/* `flags`: those of the versioned form. `free_payload(managed)` runs the deleter. Borrowed result, in the scope. */
static cn_tensor *take(const cn_dlpack_tensor *d, uint64_t flags, void (*free_payload)(void *), void *managed)
{
  arrival a;
  cn_tensor *t = NULL;
  cni_storage *shared = NULL;
  bool valid = read_layout(&a, d, flags & CN_DLPACK_PADDED) == CN_OK;
  /* Memory that may not be written, or that kernels could not read, is copied. */
  bool share = valid && a.numel && !(flags & CN_DLPACK_READ_ONLY) &&
               (uintptr_t)a.data % cni_dtype_size(a.dtype) == 0;
  if (share) shared = cni_storage_borrow(a.device, a.data, a.span, free_payload, managed);
  if (shared) t = cni_tensor_over(shared, 0, a.dtype, d->ndim, d->shape, a.strides);
  else {
    if (valid && !share) t = copy_of(d, &a);
    free_payload(managed);
  }
  return t ? cni_scope_add(t) : NULL;
}

static void call_deleter(void *payload)
{
  cn_dlpack *m = payload;
  if (m->deleter) m->deleter(m);
}

static void call_deleter_versioned(void *payload)
{
  cn_dlpack_versioned *m = payload;
  if (m->deleter) m->deleter(m);
}

cn_tensor *cn_from_dlpack(void *managed)
{
  cn_dlpack *m = managed;
  if (!m) {
    cni_fail(CN_ERR_TYPE, "from_dlpack: NULL was given");
    return NULL;
  }
  return take(&m->tensor, 0, call_deleter, m);
}

cn_tensor *cn_from_dlpack_versioned(void *managed)
{
  cn_dlpack_versioned *m = managed;
  if (!m) {
    cni_fail(CN_ERR_TYPE, "from_dlpack: NULL was given");
    return NULL;
  }
  if (m->version.major != CN_DLPACK_MAJOR) { /* nothing behind the deleter may be read then */
    cni_fail(CN_ERR_UNSUPPORTED, "from_dlpack: version %u.%u of DLPack is not known here (%d is)",
             (unsigned)m->version.major, (unsigned)m->version.minor, CN_DLPACK_MAJOR);
    call_deleter_versioned(m);
    return NULL;
  }
  return take(&m->tensor, m->flags, call_deleter_versioned, m);
}

/* ---- out ---- */

/* What others call a device; an error for one whose memory they could not use. */
static int device_number(cn_device device, int32_t *type, int32_t *index)
{
  char text[64];
  *type = CN_DLPACK_CPU;
  *index = 0;
  if (device == CN_CPU) return CN_OK;
  cni_memory.name(text, sizeof text, device);
  size_t n = strcspn(text, ":");
  *index = text[n] ? (int32_t)strtol(text + n + 1, NULL, 10) : 0;
  for (int i = 0; i < SHARED_DEVICES; i++)
    if (strlen(shared_devices[i].name) == n && !memcmp(shared_devices[i].name, text, n)) {
      *type = shared_devices[i].type;
      return CN_OK;
    }
  return cni_fail(CN_ERR_DEVICE, "to_dlpack: the memory of %s cannot be shared; copy the tensor to the CPU first",
                  text);
}

/* What the consumer's pointer points into. */
typedef struct export {
  union {
    cn_dlpack plain;
    cn_dlpack_versioned versioned;
  } u; /* first: the consumer hands its address back */
  cn_tensor *t; /* owned; without history */
  int32_t type, index; /* of its device */
  int64_t dims[2 * CN_MAX_DIMS];
} export;

static void free_export(export *e)
{
  /* The other library may still be at work on it; whoever gets this memory next must not meet that. */
  if (e->t->d.device != CN_CPU) cni_memory.sync(e->t->d.device);
  cni_tensor_release(e->t);
  cni_free(e, sizeof *e);
}

static void delete_plain(cn_dlpack *self) { if (self) free_export(self->context); }
static void delete_versioned(cn_dlpack_versioned *self) { if (self) free_export(self->context); }

/* NULL with the error set when t cannot be shared. */
static export *start_export(cn_tensor *t, bool padded)
{
  if (cn_err()) return NULL;
  if (!t) {
    cni_fail(CN_ERR_TYPE, "to_dlpack: the tensor is NULL");
    return NULL;
  }
  if (t->node) {
    cni_fail(CN_ERR_GRAD, "to_dlpack: the tensor requires a gradient, detach it first");
    return NULL;
  }
  if (is_padded(t->d.dtype) && !padded) {
    cni_fail(CN_ERR_DTYPE, "to_dlpack: %s can be handed out only by the versioned form",
             cni_dtype_rows[t->d.dtype].name);
    return NULL;
  }
  int32_t type, index;
  if (device_number(t->d.device, &type, &index)) return NULL;
  if (t->d.device == CN_CPU ? !cni_tensor_host(t) && cn_err() : t->d.numel && !t->d.data) {
    cni_fail(CN_ERR_VALUE, "to_dlpack: the tensor has no memory while a graph is captured");
    return NULL;
  }
  export *e = cni_alloc_zero(sizeof *e);
  if (!e) return NULL;
  e->t = cni_tensor_alias(t); /* t itself may later get a history that reads what is shared here: a circle */
  if (!e->t) {
    cni_free(e, sizeof *e);
    return NULL;
  }
  e->type = type;
  e->index = index;
  atomic_store_explicit(&t->storage->shown, true, memory_order_relaxed);
  return e;
}

static void describe(cn_dlpack_tensor *d, export *e)
{
  const cn_desc *desc = &e->t->d;
  size_t bytes = (size_t)desc->ndim * sizeof(int64_t);
  memcpy(e->dims, desc->shape, bytes);
  memcpy(e->dims + CN_MAX_DIMS, desc->strides, bytes);
  d->data = desc->numel ? desc->data : NULL;
  d->device.type = e->type;
  d->device.index = e->index;
  d->ndim = desc->ndim;
  d->dtype.code = codes[desc->dtype].code;
  d->dtype.bits = codes[desc->dtype].bits;
  d->dtype.lanes = 1;
  d->shape = e->dims;
  d->strides = e->dims + CN_MAX_DIMS;
}

void *cn_to_dlpack(cn_tensor *t)
{
  export *e = start_export(t, false);
  if (!e) return NULL;
  describe(&e->u.plain.tensor, e);
  e->u.plain.context = e;
  e->u.plain.deleter = delete_plain;
  return &e->u.plain;
}

void *cn_to_dlpack_versioned(cn_tensor *t)
{
  export *e = start_export(t, true);
  if (!e) return NULL;
  describe(&e->u.versioned.tensor, e);
  e->u.versioned.version.major = CN_DLPACK_MAJOR;
  e->u.versioned.version.minor = CN_DLPACK_MINOR;
  e->u.versioned.flags = is_padded(t->d.dtype) ? CN_DLPACK_PADDED : 0;
  e->u.versioned.context = e;
  e->u.versioned.deleter = delete_versioned;
  return &e->u.versioned;
}
