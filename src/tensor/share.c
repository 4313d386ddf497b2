/* share.c: CPU tensors in memory that several processes have, for training by many processes at once.
 *
 * Place in the flow: like pin.c a kind of borrowed storage; Python's multiprocessing sends the descriptor and the other
 * process maps it. Invariant: a tensor is moved into shared memory only while nothing else lies in its memory, because
 * every handle over a storage has the address in it. */
#include <string.h>

#include "base/dtype.h"
#include "base/os.h"
#include "tensor.h"

static void unmap(void *payload)
{
  cni_os_shared *s = payload;
  cni_os_shared_close(s);
  cni_free(s, sizeof *s);
}

static cni_os_shared *shared_of(const cni_storage *s)
{
  cni_os_shared *found = s->free_payload == unmap ? s->payload : NULL;
  return found && found->fd >= 0 ? found : NULL;
}

/* Fresh memory of so many bytes, or with 0 what is behind the descriptor, which is kept or not. NULL with the error
 * set. */
static cni_os_shared *map_new(const char *who, int fd, bool keep, size_t size)
{
  cni_os_shared *s = cni_alloc(sizeof *s);
  if (!s) return NULL;
  const char *why = size ? cni_os_shared_new(s, size) : cni_os_shared_open(s, fd, keep);
  if (!why) return s;
  cni_free(s, sizeof *s);
  cni_fail(CN_ERR_IO, "%s: no shared memory: %s", who, why);
  return NULL;
}

/* Is t's memory that of t alone? The parents that nothing but t's view record keeps alive count as t. */
static bool alone(const cn_tensor *t)
{
  int handles = 1;
  for (const cn_tensor *v = t; v->view; v = v->view->parent, handles++)
    if (atomic_load(&v->view->parent->refs) != 1) return false;
  return atomic_load(&t->storage->refs) == handles;
}

static const char *why_not(const cn_tensor *t)
{
  if (cni_state()->modes & CNI_MODE_CAPTURE || !t->d.data) return "the tensor has no memory (meta, or captured)";
  if (t->d.device != CN_CPU) return "the tensor is not on the CPU";
  if (t->d.weak) return "a weak scalar";
  if (alone(t)) return NULL;
  return "other tensors (views, values saved for backward) lie in the same memory; share it before they are made";
}

/* The storage stays, with its count and version, and gets other memory; so do the handles over it. */
static void move(cn_tensor *t, cni_os_shared *to)
{
  cni_storage *s = t->storage;
  memcpy(to->memory, s->data, s->size);
  cni_storage_drop_data(s);
  s->data = to->memory;
  s->free_payload = unmap;
  atomic_store(&s->shown, true);
  s->payload = to;
  for (cn_tensor *v = t; v; v = v->view ? v->view->parent : NULL)
    v->d.data = (char *)s->data + v->offset * (int64_t)cni_dtype_size(v->d.dtype);
}

int cn_share_memory(cn_tensor *t)
{
  if (cn_err()) return cn_err();
  if (!t) return cni_fail(CN_ERR_TYPE, "share_memory: the tensor is NULL");
  if (shared_of(t->storage)) return CN_OK;
  const char *why = why_not(t);
  if (why) return cni_fail(CN_ERR_UNSUPPORTED, "share_memory: %s", why);
  if (cni_storage_settle(t->storage)) return cn_err();
  cni_os_shared *s = map_new("share_memory", -1, true, t->storage->size ? t->storage->size : 1);
  if (!s) return cn_err();
  move(t, s);
  return CN_OK;
}

bool cn_is_shared(const cn_tensor *t) { return t && shared_of(t->storage); }

int cn_shared_fd(const cn_tensor *t)
{
  const cni_os_shared *s = t ? shared_of(t->storage) : NULL;
  return s ? s->fd : -1;
}

/* Do elements of this size at these strides, from element `offset` on, lie within size bytes? */
static bool within(size_t size, int64_t offset, int64_t elem, int ndim, const int64_t *shape, const int64_t *strides)
{
  int64_t reach = cni_reach(ndim, shape, strides), bytes;
  return offset >= 0 && reach >= 0 && !__builtin_add_overflow(offset, reach, &reach) &&
         !__builtin_mul_overflow(reach, elem, &bytes) && (uint64_t)bytes <= size;
}

/* A tensor over memory that is mapped; s is taken over, also when it fails. */
static cn_tensor *tensor_over(cni_os_shared *s, int64_t offset, cn_dtype dtype, int ndim, const int64_t *shape,
                              const int64_t *strides)
{
  cni_storage *storage = cni_storage_borrow(CN_CPU, s->memory, s->size, unmap, s);
  if (storage) return cni_scope_add(cni_tensor_over(storage, offset, (int)dtype, ndim, shape, strides));
  unmap(s);
  return NULL;
}

/* Checks a shape and writes the strides of contiguous elements; returns their size in bytes, 0 with the error set. */
static size_t describe(const char *who, int64_t *packed, const int64_t *shape, size_t ndim, cn_dtype dtype)
{
  int64_t numel;
  size_t elem = cn_dtype_size(dtype);
  if (!elem || ndim > CN_MAX_DIMS) {
    cni_fail(elem ? CN_ERR_SHAPE : CN_ERR_DTYPE, "%s: no such type (%d), or too many dimensions (%zu)", who,
             (int)dtype, ndim);
    return 0;
  }
  if (cni_shape_check(who, (int)ndim, shape, elem, &numel)) return 0;
  cni_contiguous_strides((int)ndim, shape, packed);
  return elem;
}

static cn_tensor *from_fd(const char *who, bool keep, int fd, int64_t offset, const int64_t *shape,
                          const int64_t *strides, size_t ndim, cn_dtype dtype)
{
  int64_t packed[CN_MAX_DIMS];
  size_t elem = cn_err() ? 0 : describe(who, packed, shape, ndim, dtype);
  if (!elem) return NULL;
  if (!strides) strides = packed;
  cni_os_shared *s = map_new(who, fd, keep, 0);
  if (!s) return NULL;
  if (within(s->size, offset, (int64_t)elem, (int)ndim, shape, strides))
    return tensor_over(s, offset, dtype, (int)ndim, shape, strides);
  cni_fail(CN_ERR_VALUE, "%s: the tensor reaches beyond the %zu bytes that are shared", who, s->size);
  unmap(s);
  return NULL;
}

cn_tensor *cn_from_shared(int fd, int64_t offset, const int64_t *shape, const int64_t *strides, size_t ndim,
                          cn_dtype dtype)
{
  return from_fd("from_shared", true, fd, offset, shape, strides, ndim, dtype);
}

cn_tensor *cn_take_shared(int fd, int64_t offset, const int64_t *shape, const int64_t *strides, size_t ndim,
                          cn_dtype dtype)
{
  return from_fd("take_shared", false, fd, offset, shape, strides, ndim, dtype);
}

cn_tensor *cn_zeros_shared(const int64_t *shape, size_t ndim, cn_dtype dtype)
{
  int64_t packed[CN_MAX_DIMS];
  size_t size = cn_err() ? 0 : describe("zeros_shared", packed, shape, ndim, dtype);
  if (!size) return NULL;
  for (size_t i = 0; i < ndim; i++) size *= (size_t)shape[i];
  cni_os_shared *s = map_new("zeros_shared", -1, true, size ? size : 1);
  return s ? tensor_over(s, 0, dtype, (int)ndim, shape, packed) : NULL;
}
