/* dlpack.c: tensors handed to and taken from other libraries without copying, by the DLPack 1.x structs.
 *
 * Place in the flow: beside cn_from_borrowed; bindings build their __dlpack__ on it. Invariants: a managed
 * tensor that was passed in is taken over in every case: its deleter runs exactly once, at once on
 * failure; what is handed out keeps its tensor alive until its deleter runs, on whatever thread that is. */
#include <string.h>

#include "base/dtype.h"
#include "tensor.h"

/* ---- the published layout ---- */
typedef struct dl_device {
  int32_t type, index;
} dl_device;

typedef struct dl_dtype {
  uint8_t code, bits;
  uint16_t lanes;
} dl_dtype;

typedef struct dl_tensor {
  void *data;
  dl_device device;
  int32_t ndim;
  dl_dtype dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major */
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
  } version; /* the fields up to flags mean the same in every version */
  void *context;
  void (*deleter)(struct dl_versioned *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_versioned;

enum { DL_MAJOR = 1, DL_MINOR = 1 };
enum { DL_READ_ONLY = 1, DL_PADDED = 4 }; /* padded: types below eight bits take a byte each, as ours do */
enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11 };
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_BOOL = 6 };

static const dl_dtype codes[CN_DTYPE_COUNT] = {
    [CN_BOOL] = {DL_BOOL, 8, 1},   [CN_U8] = {DL_UINT, 8, 1},    [CN_I8] = {DL_INT, 8, 1},
    [CN_I16] = {DL_INT, 16, 1},    [CN_I32] = {DL_INT, 32, 1},   [CN_I64] = {DL_INT, 64, 1},
    [CN_U16] = {DL_UINT, 16, 1},   [CN_U32] = {DL_UINT, 32, 1},  [CN_U64] = {DL_UINT, 64, 1},
    [CN_F16] = {DL_FLOAT, 16, 1},  [CN_BF16] = {DL_BFLOAT, 16, 1}, [CN_F32] = {DL_FLOAT, 32, 1},
    [CN_F64] = {DL_FLOAT, 64, 1},  [CN_F8E4M3] = {10, 8, 1},     [CN_F8E5M2] = {12, 8, 1},
    [CN_F8E4M3FNUZ] = {11, 8, 1},  [CN_F8E5M2FNUZ] = {13, 8, 1}, [CN_F8E8M0] = {14, 8, 1},
    [CN_F4E2M1] = {17, 4, 1},      [CN_I4] = {DL_INT, 4, 1},     [CN_U4] = {DL_UINT, 4, 1},
    [CN_I2] = {DL_INT, 2, 1},      [CN_U2] = {DL_UINT, 2, 1},
};

/* ---- in ---- */

/* CN_DTYPE_NONE with the error set for types that cairn does not have. */
static int find_dtype(dl_dtype type, bool padded)
{
  if (type.lanes != 1) {
    cni_fail(CN_ERR_DTYPE, "from_dlpack: vector elements (%u lanes) are not supported", (unsigned)type.lanes);
    return CN_DTYPE_NONE;
  }
  for (int i = CN_DTYPE_NONE + 1; i < CN_DTYPE_COUNT; i++) {
    if (codes[i].code != type.code || codes[i].bits != type.bits) continue;
    if (type.bits >= 8 || padded) return i;
    cni_fail(CN_ERR_DTYPE, "from_dlpack: %s packed several to a byte is not supported; unpack it first",
             cni_dtype_rows[i].name);
    return CN_DTYPE_NONE;
  }
  cni_fail(CN_ERR_DTYPE, "from_dlpack: there is no type for DLPack code %u with %u bits", (unsigned)type.code,
           (unsigned)type.bits);
  return CN_DTYPE_NONE;
}

/* Everything that is checked before memory is touched. Fills dtype and numel. */
static int check(const dl_tensor *d, uint64_t flags, int *dtype, int64_t *numel)
{
  if (cn_err()) return cn_err();
  if (d->device.type != DL_CPU && d->device.type != DL_CUDA_HOST && d->device.type != DL_ROCM_HOST)
    return cni_fail(CN_ERR_DEVICE, "from_dlpack: memory of device type %d; copy it to the CPU first",
                    (int)d->device.type);
  *dtype = find_dtype(d->dtype, flags & DL_PADDED);
  if (*dtype == CN_DTYPE_NONE) return CN_ERR_DTYPE;
  if (d->ndim > 0 && !d->shape) return cni_fail(CN_ERR_VALUE, "from_dlpack: the shape is missing");
  int err = cni_shape_check("from_dlpack", d->ndim, d->shape, cni_dtype_size(*dtype), numel);
  if (err) return err;
  if (*numel > 0 && !d->data) return cni_fail(CN_ERR_VALUE, "from_dlpack: the data pointer is NULL");
  int64_t last = 0, bytes; /* the farthest element */
  for (int i = 0; d->strides && i < d->ndim && *numel > 0; i++) {
    if (d->strides[i] < 0 && d->shape[i] > 1)
      return cni_fail(CN_ERR_VALUE, "from_dlpack: the stride of dimension %d is negative; copy it first", i);
    if (d->shape[i] > 1 && (__builtin_mul_overflow(d->shape[i] - 1, d->strides[i], &bytes) ||
                            __builtin_add_overflow(last, bytes, &last)))
      return cni_fail(CN_ERR_SHAPE, "from_dlpack: the strides are too large");
  }
  if (__builtin_mul_overflow(last, (int64_t)cni_dtype_size(*dtype), &bytes))
    return cni_fail(CN_ERR_SHAPE, "from_dlpack: the strides are too large");
  return CN_OK;
}

/* Row-major copy of the elements from `dim` on; returns where writing goes on. */
static char *gather(char *to, const char *from, const dl_tensor *d, const int64_t *strides, size_t size,
                    int dim)
{
  if (dim == d->ndim) {
    memcpy(to, from, size);
    return to + size;
  }
  for (int64_t i = 0; i < d->shape[dim]; i++)
    to = gather(to, from + i * strides[dim] * (int64_t)size, d, strides, size, dim + 1);
  return to;
}

/* `flags`: those of the versioned form. `release(managed)` runs the deleter. Borrowed result, in the
 * scope. */
static cn_tensor *take(const dl_tensor *d, uint64_t flags, void (*release)(void *), void *managed)
{
  int dtype = CN_DTYPE_NONE;
  int64_t numel = 0, strides[CN_MAX_DIMS];
  if (check(d, flags, &dtype, &numel) != CN_OK) {
    release(managed);
    return NULL;
  }
  size_t size = cni_dtype_size(dtype);
  char *data = numel ? (char *)d->data + d->byte_offset : NULL;
  cni_contiguous_strides(d->ndim, d->shape, strides);
  for (int i = 0; d->strides && i < d->ndim; i++)
    if (d->shape[i] > 1) strides[i] = d->strides[i]; /* those of other dims mean nothing */
  /* Memory that may not be written, or that kernels could not read, is copied. */
  if (numel && !(flags & DL_READ_ONLY) && (uintptr_t)data % size == 0)
    return cn_from_borrowed(data, d->shape, strides, (size_t)d->ndim, (cn_dtype)dtype, release, managed);
  cn_tensor *t = cni_tensor_new(CN_CPU, dtype, d->ndim, d->shape, NULL);
  if (t && numel) gather(t->d.data, data, d, strides, size, 0);
  release(managed);
  return t ? cni_scope_add(t) : NULL;
}

static void release_managed(void *payload)
{
  dl_managed *m = payload;
  if (m->deleter) m->deleter(m);
}

static void release_versioned(void *payload)
{
  dl_versioned *m = payload;
  if (m->deleter) m->deleter(m);
}

cn_tensor *cn_from_dlpack(void *managed)
{
  dl_managed *m = managed;
  if (!m) {
    cni_fail(CN_ERR_TYPE, "from_dlpack: NULL was given");
    return NULL;
  }
  return take(&m->tensor, 0, release_managed, m);
}

cn_tensor *cn_from_dlpack_versioned(void *managed)
{
  dl_versioned *m = managed;
  if (!m) {
    cni_fail(CN_ERR_TYPE, "from_dlpack: NULL was given");
    return NULL;
  }
  if (m->version.major != DL_MAJOR) { /* nothing behind the deleter may be read then */
    cni_fail(CN_ERR_UNSUPPORTED, "from_dlpack: version %u.%u of DLPack is not known here (%d is)",
             (unsigned)m->version.major, (unsigned)m->version.minor, DL_MAJOR);
    release_versioned(m);
    return NULL;
  }
  return take(&m->tensor, m->flags, release_versioned, m);
}

/* ---- out ---- */

/* What the consumer's pointer points into. */
typedef struct export {
  union {
    dl_managed plain;
    dl_versioned versioned;
  } u; /* first: the consumer hands its address back */
  cn_tensor *t; /* owned */
  int64_t dims[2 * CN_MAX_DIMS];
} export;

static void free_export(export *e)
{
  cni_tensor_release(e->t);
  cni_free(e, sizeof *e);
}

static void delete_plain(dl_managed *self) { if (self) free_export(self->context); }
static void delete_versioned(dl_versioned *self) { if (self) free_export(self->context); }

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
  if (cni_dtype_rows[t->d.dtype].bits < 8 && t->d.dtype != CN_BOOL && !padded) {
    cni_fail(CN_ERR_DTYPE, "to_dlpack: %s can be handed out only by the versioned form",
             cni_dtype_rows[t->d.dtype].name);
    return NULL;
  }
  if (!cni_tensor_host(t) && cn_err()) return NULL;
  export *e = cni_alloc_zero(sizeof *e);
  if (e) e->t = cni_tensor_keep(t);
  return e;
}

static void describe(dl_tensor *d, export *e)
{
  const cn_desc *desc = &e->t->d;
  size_t bytes = (size_t)desc->ndim * sizeof(int64_t);
  memcpy(e->dims, desc->shape, bytes);
  memcpy(e->dims + CN_MAX_DIMS, desc->strides, bytes);
  d->data = desc->numel ? desc->data : NULL;
  d->device.type = DL_CPU;
  d->ndim = desc->ndim;
  d->dtype = codes[desc->dtype];
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
  e->u.versioned.version.major = DL_MAJOR;
  e->u.versioned.version.minor = DL_MINOR;
  e->u.versioned.flags = cni_dtype_rows[t->d.dtype].bits < 8 && t->d.dtype != CN_BOOL ? DL_PADDED : 0;
  e->u.versioned.context = e;
  e->u.versioned.deleter = delete_versioned;
  return &e->u.versioned;
}
