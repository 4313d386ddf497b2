/* storage.c: counted device memory. That of small host tensors lies in one block with their handle, made by tensor.c;
 * what is made here is larger, borrowed, or without memory. Invariant: data is released in stream order by the device's
 * own free. */
#include "tensor.h"

#include "base/hooks.h"

static cni_storage *header(cn_device device, void *data, size_t size)
{
  cni_storage *s = cni_alloc(sizeof *s);
  if (s) cni_storage_init(s, sizeof *s, device, data, size);
  return s;
}

cni_storage *cni_storage_new(cn_device device, size_t size)
{
  void *stream = device == CN_CPU ? NULL : cni_memory.stream(device);
  void *data = device == CN_CPU ? cni_alloc(size) : cni_memory.alloc(device, size, stream);
  if (!data) return NULL;
  cni_storage *s = header(device, data, size);
  if (s) {
    s->stream = stream;
    if (cni_watched()) cni_hooks.tensor_memory(device, (int64_t)size);
    return s;
  }
  if (device == CN_CPU) cni_free(data, size);
  else cni_memory.free(device, data, size, stream);
  return NULL;
}

/* The streams besides its own that memory was used in. */
typedef struct uses {
  struct uses *next;
  void *stream;
} uses;

int cni_storage_used_by(cni_storage *s, void *stream)
{
  if (s->device == CN_CPU || s->free_payload || stream == s->stream) return CN_OK;
  for (const uses *u = s->payload; u; u = u->next)
    if (u->stream == stream) return CN_OK;
  uses *u = cni_alloc(sizeof *u);
  if (!u) return CN_ERR_MEMORY;
  *u = (uses){s->payload, stream};
  s->payload = u;
  return CN_OK;
}

/* Gives device memory back to its stream, behind what the others do with it. */
static void free_device_memory(cni_storage *s)
{
  for (uses *u = s->payload, *next; u; u = next) {
    next = u->next;
    if (cni_memory.join(s->device, u->stream, s->stream)) cni_memory.sync(s->device);
    cni_free(u, sizeof *u);
  }
  cni_memory.free(s->device, s->data, s->size, s->stream);
}

cni_storage *cni_storage_borrow(cn_device device, void *data, size_t size, void (*free_payload)(void *), void *payload)
{
  cni_storage *s = header(device, data, size);
  if (!s) return NULL;
  s->free_payload = free_payload;
  s->payload = payload;
  atomic_init(&s->shown, true);
  return s;
}

cni_live *cni_live_new(void)
{
  cni_live *live = cni_alloc(sizeof *live);
  if (live) atomic_init(&live->n, 1);
  return live;
}

int cni_live_release(cni_live *live)
{
  int left = live ? atomic_fetch_sub(&live->n, 1) - 1 : 0;
  if (live && !left) cni_free(live, sizeof *live);
  return left;
}

cni_storage *cni_storage_meta(cn_device device, size_t size, cni_live *live)
{
  cni_storage *s = header(device, NULL, size);
  if (s && live) {
    atomic_fetch_add(&live->n, 1);
    s->payload = live;
  }
  return s;
}

/* Nothing to give back: borrowed without a function that frees it, or no memory at all (captured). */
static void keep_memory(void *payload) { (void)payload; }

/* Does its data lie in the storage's own block? */
static bool inside(const cni_storage *s) { return (uintptr_t)s->data - (uintptr_t)s < s->block; }

void cni_storage_drop_data(cni_storage *s)
{
  if (s->free_payload) {
    /* The owner knows nothing of work that is still queued here. */
    if (s->device != CN_CPU) cni_memory.sync(s->device);
    s->free_payload(s->payload);
  } else if (s->data && !inside(s)) {
    if (cni_watched()) cni_hooks.tensor_memory(s->device, -(int64_t)s->size);
    if (s->device == CN_CPU) cni_free(s->data, s->size);
    else free_device_memory(s);
  } else if (!s->data) cni_live_release(s->payload);
}

void cni_storage_free(cni_storage *s)
{
  if (!inside(s)) cni_storage_drop_data(s);
  else if (cni_watched()) cni_hooks.tensor_memory(s->device, -(int64_t)s->size);
  cni_free(s, s->block);
}

static cn_tensor *borrow_failed(void (*free_payload)(void *), void *payload)
{
  if (free_payload) free_payload(payload);
  return NULL;
}

int64_t cni_reach(int ndim, const int64_t *shape, const int64_t *strides)
{
  int64_t last = 0, step;
  for (int i = 0; i < ndim; i++) {
    if (shape[i] == 0) return 0;
    if (strides[i] < 0 || __builtin_mul_overflow(strides[i], shape[i] - 1, &step) ||
        __builtin_add_overflow(last, step, &last))
      return -1;
  }
  return last + 1;
}

cn_tensor *cn_from_borrowed(void *data, const int64_t *shape, const int64_t *strides, size_t ndim, cn_dtype dtype,
                            void (*free_payload)(void *payload), void *payload)
{
  int64_t numel, packed[CN_MAX_DIMS];
  size_t elem = cn_dtype_size(dtype);
  if (cni_state()->err) return borrow_failed(free_payload, payload);
  if (!elem) {
    cni_fail(CN_ERR_DTYPE, "from_borrowed: %d is not a data type", (int)dtype);
    return borrow_failed(free_payload, payload);
  }
  if (ndim > CN_MAX_DIMS || cni_shape_check("from_borrowed", (int)ndim, shape, elem, &numel)) {
    if (ndim > CN_MAX_DIMS) cni_fail(CN_ERR_SHAPE, "from_borrowed: %zu dimensions are too many", ndim);
    return borrow_failed(free_payload, payload);
  }
  if (!strides) {
    cni_contiguous_strides((int)ndim, shape, packed);
    strides = packed;
  }
  int64_t reach = cni_reach((int)ndim, shape, strides), bytes;
  if (reach < 0 || __builtin_mul_overflow(reach, (int64_t)elem, &bytes) || (!data && reach > 0)) {
    cni_fail(CN_ERR_VALUE, "from_borrowed: %s", data ? "strides are negative or too large" : "data is NULL");
    return borrow_failed(free_payload, payload);
  }
  cni_storage *s = cni_storage_borrow(CN_CPU, data, (size_t)bytes, free_payload ? free_payload : keep_memory, payload);
  if (!s) return borrow_failed(free_payload, payload);
  return cni_scope_add(cni_tensor_over(s, 0, (int)dtype, (int)ndim, shape, strides));
}

cn_tensor *cn_from_taken(void *data, const int64_t *shape, size_t ndim, cn_dtype dtype, void (*free_payload)(void *),
                         void *payload)
{
  cn_tensor *t = cn_from_borrowed(data, shape, NULL, ndim, dtype, free_payload, payload);
  if (t) atomic_store_explicit(&t->storage->shown, false, memory_order_relaxed);
  return t;
}
