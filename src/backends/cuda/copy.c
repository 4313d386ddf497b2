/* copy.c: copies between host and device.
 *
 * Place in the flow: the table's copy_in and copy_out. Pinned memory (pinned.c) is read by the device itself. Ordinary
 * memory is read here, by several threads, into pieces of pinned memory that each stream has for itself, a ring: the
 * caller's memory is its own again when copy_in returns, whatever the stream still has to do before. Large copies to
 * the host come the same way, the next pieces while one is written. Invariant: a part of the ring is written again only
 * when the event behind the last copy from it has passed. */
#include <string.h>

#include "plugin.h"

enum { SLOTS = 64, OUT = 4, ALIGN = 256, GRAIN = 256 << 10 };
static const size_t slot_size = (size_t)2 << 20;
static const size_t least_out = (size_t)4 << 20; /* bytes of a copy to the host that is worth it */

typedef struct slot {
  char *memory;
  CUevent copied;
} slot;

typedef struct cni_cuda_staging {
  struct cni_cuda_staging *next; /* of those that no queue has */
  pthread_mutex_t lock;          /* of all below: several threads may use one stream */
  slot slots[SLOTS];             /* in the order of use: behind the present one comes the oldest */
  int n, now;
  size_t used; /* bytes of the present one */
  bool open;   /* copies from it were queued, and no event yet */
  slot out[OUT]; /* of copies to the host, in turn */
} staging;

/* ---- the ring ---- */

static staging *new_staging(void)
{
  staging *s = cni_cuda_host->memory(sizeof *s);
  if (!s) return NULL;
  memset(s, 0, sizeof *s);
  s->used = slot_size;
  pthread_mutex_init(&s->lock, NULL);
  return s;
}

static staging *staging_of(cni_cuda_device *d, cni_cuda_queue *q)
{
  pthread_mutex_lock(&d->lock);
  if (!q->staging && d->staging) {
    q->staging = d->staging;
    d->staging = q->staging->next;
  }
  if (!q->staging) q->staging = new_staging();
  staging *s = q->staging;
  pthread_mutex_unlock(&d->lock);
  return s;
}

/* What was copied from the present slot is behind its event. */
static int close_slot(staging *s, CUstream stream)
{
  if (!s->open) return CN_OK;
  s->open = false;
  return cni_cuda_check(cni_cuda_driver()->cuEventRecord(s->slots[s->now].copied, stream), "marking the end of a copy");
}

/* False: there is no more pinned memory. */
static bool new_slot(slot *made)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  void *memory;
  if (cu->cuMemHostAlloc(&memory, slot_size, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS) return false;
  if (cu->cuEventCreate(&made->copied, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
    made->memory = memory;
    return true;
  }
  cu->cuMemFreeHost(memory);
  return false;
}

/* A slot behind the present one. */
static bool add_slot(staging *s)
{
  slot made;
  if (s->n == SLOTS || !new_slot(&made)) return false;
  int place = s->n ? s->now + 1 : 0;
  memmove(s->slots + place + 1, s->slots + place, (size_t)(s->n - place) * sizeof made);
  s->slots[place] = made;
  s->n++;
  return true;
}

/* On to a slot that may be written. CN_REFUSED: there is none. */
static int next_slot(staging *s, CUstream stream)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  int status = close_slot(s, stream), oldest = s->n ? (s->now + 1) % s->n : 0;
  if (status) return status;
  if (!s->n || cu->cuEventQuery(s->slots[oldest].copied) != CUDA_SUCCESS) {
    bool added = add_slot(s);
    if (!s->n) return CN_REFUSED;
    if (added) oldest = s->n == 1 ? 0 : s->now + 1;
    else status = cni_cuda_check(cu->cuEventSynchronize(s->slots[oldest].copied), "waiting for a copy");
  }
  s->now = oldest;
  s->used = status ? slot_size : 0;
  return status;
}

typedef struct part {
  char *to;
  const char *from;
} part;

static void copy_range(int64_t begin, int64_t end, void *payload)
{
  const part *p = payload;
  memcpy(p->to + begin, p->from + begin, (size_t)(end - begin));
}

/* One thread comes to a fifth of what the device does. */
static void copy_on_host(char *to, const char *from, size_t n)
{
  part p = {to, from};
  cni_cuda_host->parallel((int64_t)n, GRAIN, copy_range, &p);
}

/* CN_REFUSED, before anything was copied: there is no pinned memory. */
static int copy_staged(cni_cuda_device *d, cni_cuda_queue *q, CUdeviceptr to, const char *host, size_t size)
{
  staging *s = staging_of(d, q);
  int status = s ? CN_OK : CN_ERR_MEMORY;
  if (status) return status;
  pthread_mutex_lock(&s->lock);
  while (size && !status) {
    if (s->used == slot_size && (status = next_slot(s, q->stream))) break;
    size_t n = slot_size - s->used < size ? slot_size - s->used : size;
    char *at = s->slots[s->now].memory + s->used;
    copy_on_host(at, host, n);
    s->open = true;
    status = cni_cuda_check(cni_cuda_driver()->cuMemcpyHtoDAsync(to, at, n, q->stream), "copying to the device");
    s->used += (n + ALIGN - 1) / ALIGN * ALIGN;
    to += n, host += n, size -= n;
  }
  pthread_mutex_unlock(&s->lock);
  return status;
}

static size_t piece_size(size_t size, size_t i)
{
  return size - i * slot_size < slot_size ? size - i * slot_size : slot_size;
}

static bool make_out(staging *s)
{
  for (int i = 0; i < OUT; i++)
    if (!s->out[i].memory && !new_slot(&s->out[i])) return false;
  return true;
}

/* Piece i comes into its slot when piece i - OUT has left it. False: there is no pinned memory. */
static bool copy_out_staged(CUresult *result, staging *s, CUstream stream, char *host, CUdeviceptr from, size_t size)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  size_t pieces = (size + slot_size - 1) / slot_size;
  pthread_mutex_lock(&s->lock);
  bool ready = make_out(s);
  for (size_t i = 0; ready && i < pieces + OUT && *result == CUDA_SUCCESS; i++) {
    const slot *o = &s->out[i % OUT];
    if (i >= OUT && i - OUT < pieces) {
      size_t done = i - OUT;
      *result = cu->cuEventSynchronize(o->copied);
      if (*result == CUDA_SUCCESS) copy_on_host(host + done * slot_size, o->memory, piece_size(size, done));
    }
    if (i >= pieces || *result != CUDA_SUCCESS) continue;
    *result = cu->cuMemcpyDtoHAsync(o->memory, from + i * slot_size, piece_size(size, i), stream);
    if (*result == CUDA_SUCCESS) *result = cu->cuEventRecord(o->copied, stream);
  }
  pthread_mutex_unlock(&s->lock);
  return ready;
}

/* Its next owner waits for the events. Holds the lock. */
void cni_cuda_staging_end(cni_cuda_device *d, cni_cuda_queue *q)
{
  staging *s = q->staging;
  q->staging = NULL;
  if (!s) return;
  close_slot(s, q->stream);
  s->used = slot_size;
  s->next = d->staging;
  d->staging = s;
}

void cni_cuda_staging_exit(cni_cuda_device *d, cni_cuda_queue *q)
{
  for (staging *s = q ? q->staging : d->staging, *next; s; s = next) {
    next = q ? NULL : s->next;
    cni_cuda_host->free_memory(s, sizeof *s);
  }
  if (q) q->staging = NULL;
  else d->staging = NULL;
}

/* ---- for the backend's table ---- */

int cni_cuda_copy_in(int index, void *to, const void *host, size_t size, void *queued_in)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  cni_cuda_device *d = cni_cuda_enter(index, queued_in);
  int status = d ? cni_cuda_not_recorded(d, "a copy from the host") : CN_ERR_DEVICE;
  if (status || !size) return status;
  cni_cuda_queue *q = cni_cuda_now(d);
  CUdeviceptr there = (CUdeviceptr)(uintptr_t)to;
  CUevent copied = cni_cuda_pinned_event(d, host, q->stream);
  status = copied ? CN_REFUSED : copy_staged(d, q, there, host, size);
  if (status == CN_REFUSED) {
    status = cni_cuda_check(cu->cuMemcpyHtoDAsync(there, host, size, q->stream), "copying to the device");
    if (status || !copied) return status ? status : cni_cuda_wait(d);
    status = cni_cuda_check(cu->cuEventRecord(copied, q->stream), "marking the end of a copy");
  }
  return status ? status : cni_cuda_launched(d, "a copy to the device");
}

int cni_cuda_copy_out(int index, void *host, const void *from, size_t size, void *queued_in)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  cni_cuda_device *d = cni_cuda_enter(index, queued_in);
  int status = d ? cni_cuda_not_recorded(d, "a copy to the host") : CN_ERR_DEVICE;
  if (!status) status = cni_cuda_host->waiting();
  if (status) return status;
  cni_cuda_queue *q = cni_cuda_now(d);
  CUdeviceptr there = (CUdeviceptr)(uintptr_t)from;
  CUresult result = CUDA_SUCCESS;
  bool parts = size >= least_out && !cni_cuda_is_pinned(d, host);
  staging *s = parts ? staging_of(d, q) : NULL;
  if (parts && !s) return CN_ERR_MEMORY;
  bool staged = s && copy_out_staged(&result, s, q->stream, host, there, size);
  if (!staged && size) result = cu->cuMemcpyDtoHAsync(host, there, size, q->stream);
  status = cni_cuda_finish(d); /* which says more of what failed before */
  return status ? status : cni_cuda_check(result, "copying from the device");
}
