/* memory.c: device memory from free lists, and copies between host and device.
 *
 * Place in the flow: what tensors on the device are made of. Invariant: a block given back is handed out
 * again at once, because all work of a device is in one stream: whoever gets it is queued behind whoever
 * gave it back. Sizes are rounded up to eight steps per power of two, so a block fits every request of its
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

/* Gives every free block back to the driver, after the work that may still use them. Holds the lock. */
static void free_cached(cni_cuda_device *d)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  cu->cuStreamSynchronize(d->stream);
  for (int i = 0; i < CNI_CUDA_CLASSES; i++) {
    cni_cuda_class *c = &d->classes[i];
    c->blocks -= c->nfree;
    d->reserved -= (size_t)c->nfree * class_size(i);
    while (c->nfree) cu->cuMemFree(c->free[--c->nfree]);
  }
}

/* Makes room in the free list for one block more than there are. */
static bool make_room(cni_cuda_class *c)
{
  if (c->blocks < c->room) return true;
  int room = c->room ? c->room * 2 : 8;
  CUdeviceptr *list = cni_cuda_host->memory((size_t)room * sizeof *list);
  if (!list) return false;
  if (c->nfree) memcpy(list, c->free, (size_t)c->nfree * sizeof *list);
  if (c->free) cni_cuda_host->free_memory(c->free, (size_t)c->room * sizeof *list);
  c->free = list;
  c->room = room;
  return true;
}

static CUdeviceptr take(cni_cuda_device *d, cni_cuda_class *c, size_t size)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  CUdeviceptr p = 0;
  if (c->nfree) return c->free[--c->nfree];
  if (!make_room(c)) return 0;
  if (cu->cuMemAlloc(&p, size) != CUDA_SUCCESS) {
    p = 0;
    free_cached(d);
    if (cu->cuMemAlloc(&p, size) != CUDA_SUCCESS) return 0;
  }
  c->blocks++;
  d->reserved += size;
  if (d->reserved > d->reserved_peak) d->reserved_peak = d->reserved;
  return p;
}

void *cni_cuda_alloc(int index, size_t size)
{
  size_t rounded;
  cni_cuda_device *d = size < (size_t)1 << 46 ? cni_cuda_use(index) : NULL;
  if (!d) return NULL;
  cni_cuda_class *c = &d->classes[cni_cuda_class_of(size, &rounded)];
  pthread_mutex_lock(&d->lock);
  CUdeviceptr p = take(d, c, rounded);
  pthread_mutex_unlock(&d->lock);
  return (void *)(uintptr_t)p;
}

void cni_cuda_free(int index, void *memory, size_t size)
{
  size_t rounded;
  cni_cuda_device *d = memory ? cni_cuda_use(index) : NULL;
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  cni_cuda_class *c = &d->classes[cni_cuda_class_of(size, &rounded)];
  if (c->nfree < c->room) c->free[c->nfree++] = (CUdeviceptr)(uintptr_t)memory; /* else: after the shutdown */
  pthread_mutex_unlock(&d->lock);
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
  pthread_mutex_lock(&d->lock);
  free_cached(d);
  pthread_mutex_unlock(&d->lock);
  return CN_OK;
}

/* Waits even for the way in, because ordinary memory may change as soon as this returns; pinned memory is handed out
 * again only when the event behind the copy has passed. */
int cni_cuda_copy_in(int index, void *to, const void *host, size_t size)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  if (!size) return CN_OK;
  CUevent copied = cni_cuda_pinned_event(d, host);
  int status = cni_cuda_check(cu->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to, host, size, d->stream),
                              "copying to the device");
  if (status || !copied) return status ? status : cni_cuda_wait(d);
  status = cni_cuda_check(cu->cuEventRecord(copied, d->stream), "marking the end of a copy");
  return status ? status : cni_cuda_launched(d, "a copy to the device");
}

int cni_cuda_copy_out(int index, void *host, const void *from, size_t size)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  int status =
      size ? cni_cuda_check(cu->cuMemcpyDtoHAsync(host, (CUdeviceptr)(uintptr_t)from, size, d->stream),
                            "copying from the device")
           : CN_OK;
  return status ? status : cni_cuda_wait(d);
}

/* Host memory only: at the end of a process the driver may be gone already. */
void cni_cuda_memory_exit(cni_cuda_device *d)
{
  for (int i = 0; i < CNI_CUDA_CLASSES; i++) {
    cni_cuda_class *c = &d->classes[i];
    if (c->free) cni_cuda_host->free_memory(c->free, (size_t)c->room * sizeof *c->free);
    *c = (cni_cuda_class){0};
  }
  cni_cuda_pinned_exit(d);
}
