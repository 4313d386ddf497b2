/* memory.c: device memory from free lists, and copies between host and device.
 *
 * Place in the flow: what tensors on the device are made of. Invariant: a block given back is handed out
 * again at once, in the stream it was given back in: whoever gets it is queued behind whoever gave it back. Sizes are
 * rounded up to eight steps per power of two, so a block fits every request of its
 * class. */
#include <string.h>

#include "plugin.h"

enum { LEAST = 512, STEPS = 8 };

int cni_cuda_class_of(size_t size, size_t *rounded)
{
  if (size < LEAST) size = LEAST;
  int p = 63 - __builtin_clzll((unsigned long long)size - 1);       /* 2^p < size <= 2^(p+1) */
  size_t step = (size_t)1 << (p - 3), n = (size + step - 1) / step; /* 9..16 */
  *rounded = n * step;
  return p * STEPS + (int)n - 9;
}

static size_t class_size(int i) { return ((size_t)(i % STEPS) + 9) << (i / STEPS - 3); }

static void free_unused(cni_cuda_device *d, cni_cuda_queue *q)
{
  for (int i = 0; i < CNI_CUDA_CLASSES; i++) {
    cni_cuda_class *c = &q->classes[i];
    c->blocks -= c->nfree;
    d->reserved -= (size_t)c->nfree * class_size(i);
    while (c->nfree) cni_cuda_driver()->cuMemFree(c->free[--c->nfree]);
  }
}

/* Gives every free block back to the driver, after the work that may still use them. Holds the lock. */
static void free_cached(cni_cuda_device *d)
{
  cni_cuda_driver()->cuCtxSynchronize();
  free_unused(d, &d->own);
  for (cni_cuda_queue *q = d->others; q; q = q->next) free_unused(d, q);
}

/* Makes room in the free list for `more` blocks than there are. */
static bool make_room(cni_cuda_class *c, int more)
{
  int room = c->room ? c->room : 8;
  while (room < c->blocks + more) room *= 2;
  if (room == c->room) return true;
  CUdeviceptr *list = cni_cuda_host->memory((size_t)room * sizeof *list);
  if (!list) return false;
  if (c->nfree) memcpy(list, c->free, (size_t)c->nfree * sizeof *list);
  if (c->free) cni_cuda_host->free_memory(c->free, (size_t)c->room * sizeof *list);
  c->free = list;
  c->room = room;
  return true;
}

/* A block for a request of `size` bytes, whose class has blocks of `rounded` ones. */
static CUdeviceptr take(cni_cuda_device *d, cni_cuda_class *c, size_t size, size_t rounded)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  CUdeviceptr p = 0;
  if (cni_cuda_caches) size = rounded;
  if (c->nfree && cni_cuda_caches) return c->free[--c->nfree];
  if (!make_room(c, 1)) return 0;
  if (cu->cuMemAlloc(&p, size ? size : 1) != CUDA_SUCCESS) {
    p = 0;
    free_cached(d);
    if (cu->cuMemAlloc(&p, size ? size : 1) != CUDA_SUCCESS) return 0;
  }
  c->blocks++;
  d->reserved += rounded;
  if (d->reserved > d->reserved_peak) d->reserved_peak = d->reserved;
  return p;
}

static void *alloc_in(cni_cuda_device *d, cni_cuda_queue *q, size_t size)
{
  size_t rounded;
  if (size >= (size_t)1 << 46) return NULL;
  cni_cuda_class *c = &q->classes[cni_cuda_class_of(size, &rounded)];
  pthread_mutex_lock(&d->lock);
  CUdeviceptr p = take(d, c, size, rounded);
  pthread_mutex_unlock(&d->lock);
  return (void *)(uintptr_t)p;
}

static void free_in(cni_cuda_device *d, cni_cuda_queue *q, void *memory, size_t size)
{
  size_t rounded;
  cni_cuda_before_free();
  pthread_mutex_lock(&d->lock);
  cni_cuda_class *c = &q->classes[cni_cuda_class_of(size, &rounded)];
  if (!cni_cuda_caches && !cni_cuda_records(d)) { /* a recording's memory stays until it ends */
    cni_cuda_driver()->cuMemFree((CUdeviceptr)(uintptr_t)memory);
    c->blocks--;
    d->reserved -= rounded;
  } else if (c->nfree < c->room) c->free[c->nfree++] = (CUdeviceptr)(uintptr_t)memory; /* else: after the shutdown */
  pthread_mutex_unlock(&d->lock);
}

void *cni_cuda_alloc(cni_cuda_device *d, size_t size) { return alloc_in(d, cni_cuda_now(d), size); }

void cni_cuda_free(cni_cuda_device *d, void *memory, size_t size)
{
  if (memory) free_in(d, cni_cuda_now(d), memory, size);
}

void *cni_cuda_memory_alloc(int index, size_t size, void *stream)
{
  cni_cuda_device *d = cni_cuda_use(index);
  return d ? alloc_in(d, cni_cuda_queue_of(d, stream), size) : NULL;
}

void cni_cuda_memory_free(int index, void *memory, size_t size, void *stream)
{
  cni_cuda_device *d = memory ? cni_cuda_use_to_free(index) : NULL;
  if (d) free_in(d, cni_cuda_queue_of(d, stream), memory, size);
}

void cni_cuda_queue_join(cni_cuda_device *d, cni_cuda_queue *q)
{
  size_t rounded;
  cni_cuda_class *products = &q->classes[cni_cuda_class_of(CNI_CUDA_WORKSPACE, &rounded)];
  if (q->workspace) products->free[products->nfree++] = (CUdeviceptr)(uintptr_t)q->workspace;
  for (int i = 0; i < CNI_CUDA_CLASSES; i++) {
    cni_cuda_class *from = &q->classes[i], *to = &d->own.classes[i];
    if (from->blocks && make_room(to, from->blocks)) { /* else they are lost */
      memcpy(to->free + to->nfree, from->free, (size_t)from->nfree * sizeof *from->free);
      to->nfree += from->nfree;
      to->blocks += from->blocks;
    }
    if (from->free) cni_cuda_host->free_memory(from->free, (size_t)from->room * sizeof *from->free);
  }
}

void cni_cuda_memory_reserved(int index, size_t *now, size_t *peak, bool reset)
{
  cni_cuda_device *d = cni_cuda_use(index);
  *now = *peak = 0;
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  if (reset) d->reserved_peak = d->reserved;
  *now = d->reserved;
  *peak = d->reserved_peak;
  pthread_mutex_unlock(&d->lock);
}

int cni_cuda_memory_trim(int index)
{
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  cni_cuda_repeat_trim(d);
  pthread_mutex_lock(&d->lock);
  free_cached(d);
  pthread_mutex_unlock(&d->lock);
  return CN_OK;
}

/* Waits even for the way in, because ordinary memory may change as soon as this returns; pinned memory is handed out
 * again only when the event behind the copy has passed. */
int cni_cuda_copy_in(int index, void *to, const void *host, size_t size, void *queued_in)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  cni_cuda_device *d = cni_cuda_enter(index, queued_in);
  int recorded = d ? cni_cuda_not_recorded(d, "a copy from the host") : CN_ERR_DEVICE;
  if (recorded || !size) return recorded;
  CUstream stream = cni_cuda_now(d)->stream;
  CUevent copied = cni_cuda_pinned_event(d, host);
  int status = cni_cuda_check(cu->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to, host, size, stream),
                              "copying to the device");
  if (status || !copied) return status ? status : cni_cuda_wait(d);
  status = cni_cuda_check(cu->cuEventRecord(copied, stream), "marking the end of a copy");
  return status ? status : cni_cuda_launched(d, "a copy to the device");
}

int cni_cuda_copy_out(int index, void *host, const void *from, size_t size, void *queued_in)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  cni_cuda_device *d = cni_cuda_enter(index, queued_in);
  int status = d ? cni_cuda_not_recorded(d, "a copy to the host") : CN_ERR_DEVICE;
  if (status) return status;
  CUstream stream = cni_cuda_now(d)->stream;
  status =
      size ? cni_cuda_check(cu->cuMemcpyDtoHAsync(host, (CUdeviceptr)(uintptr_t)from, size, stream),
                            "copying from the device")
           : CN_OK;
  return status ? status : cni_cuda_wait(d);
}

static void forget(cni_cuda_queue *q)
{
  for (int i = 0; i < CNI_CUDA_CLASSES; i++) {
    cni_cuda_class *c = &q->classes[i];
    if (c->free) cni_cuda_host->free_memory(c->free, (size_t)c->room * sizeof *c->free);
    *c = (cni_cuda_class){0};
  }
}

/* Host memory only: at the end of a process the driver may be gone already. */
void cni_cuda_memory_exit(cni_cuda_device *d)
{
  forget(&d->own);
  while (d->others) {
    cni_cuda_queue *q = d->others;
    d->others = q->next;
    forget(q);
    cni_cuda_host->free_memory(q, sizeof *q);
  }
  cni_cuda_pinned_exit(d);
}
