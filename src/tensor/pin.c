/* pin.c: CPU tensors in pinned memory, which a device reads by itself while the program goes on.
 *
 * Place in the flow: the loader's workers put batches there; to_device (backends/common/transfer.c) then only queues
 * its copy. Invariant: memory that a queued copy reads changes after that copy: writers settle first, and freed
 * memory is the backend's until its queue has come by. */
#include <string.h>

#include "base/dtype.h"
#include "base/hooks.h"
#include "tensor.h"

typedef struct pinned {
  cn_device device; /* whose backend the memory is from */
  void *memory;
  size_t size;
  atomic_bool lent; /* a copy may be queued */
} pinned;

static void give_back(void *payload)
{
  pinned *p = payload;
  cni_memory.host_free(p->device, p->memory, p->size);
  cni_free(p, sizeof *p);
}

static pinned *pinned_of(const cni_storage *s) { return s->free_payload == give_back ? s->payload : NULL; }

void cni_storage_lend(const cni_storage *s)
{
  pinned *p = pinned_of(s);
  if (p) atomic_store(&p->lent, true);
}

int cni_pinned_settle(const cni_storage *s)
{
  pinned *p = pinned_of(s);
  return p && atomic_exchange(&p->lent, false) ? cni_memory.host_wait(p->device, p->memory) : CN_OK;
}

int cni_storage_settle_now(cni_storage *s)
{
  int status = atomic_load_explicit(&s->guards, memory_order_acquire) ? cni_hooks.copy_guarded(s) : CN_OK;
  return status || !s->free_payload ? status : cni_pinned_settle(s);
}

/* NULL: no such memory, or an error. */
static cni_storage *new_storage(cn_device device, size_t size)
{
  void *memory = cni_memory.host_alloc(device, size);
  pinned *p = memory ? cni_alloc(sizeof *p) : NULL;
  if (!p) {
    if (memory) cni_memory.host_free(device, memory, size);
    return NULL;
  }
  p->device = device;
  p->memory = memory;
  p->size = size;
  atomic_init(&p->lent, false);
  cni_storage *s = cni_storage_borrow(CN_CPU, memory, size, give_back, p);
  if (!s) give_back(p);
  return s;
}

/* In the same memory order where t fills its memory, else row-major. Owned; NULL as above. */
static cn_tensor *pinned_copy(cn_tensor *t, cn_device device)
{
  const cn_desc *d = &t->d;
  size_t size = cni_dtype_bytes(d->dtype, d->numel);
  bool dense = cni_is_dense(d->ndim, d->shape, d->strides);
  cni_storage *s = new_storage(device, size);
  cn_tensor *copy = s ? cni_tensor_over(s, 0, d->dtype, d->ndim, d->shape, dense ? d->strides : NULL) : NULL;
  if (!copy) return NULL;
  if (dense) memcpy(copy->d.data, d->data, size);
  else cn_to_data(copy->d.data, size, t);
  return copy;
}

cn_tensor *cn_pin_memory(cn_tensor *t, cn_device device)
{
  const cn_state *st = cni_state();
  if (st->err) return NULL;
  if (!t || t->d.device != CN_CPU) {
    cni_fail(t ? CN_ERR_DEVICE : CN_ERR_TYPE, "pin_memory: the tensor is %s", t ? "not on the CPU" : "NULL");
    return NULL;
  }
  if (device == CN_DEVICE_DEFAULT) device = st->default_device;
  const pinned *p = pinned_of(t->storage);
  bool captured = st->modes & CNI_MODE_CAPTURE || !t->d.data;
  if (captured || t->d.weak || t->d.numel == 0 || (p && p->device == device)) return t;
  cn_tensor *copy = pinned_copy(t, device);
  return copy ? cni_scope_add(copy) : st->err ? NULL : t;
}

bool cn_is_pinned(const cn_tensor *t) { return t && pinned_of(t->storage); }
