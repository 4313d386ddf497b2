/* simt_memory.c: memory, copies, streams and events of the emulated driver, with counts of what was asked of it.
 *
 * Place in the flow: beside simt.c. All work is done at once, but for copies from the host where simt_counts.late is
 * set: these read their memory later, and events behind them have not passed until then, so that memory that is written
 * again too early shows. Invariant: whatever could see what a copy brings catches up first. */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "simt_driver.h"

#define EXPORT __attribute__((visibility("default")))
enum { HEAD = 256 }; /* in front of a block: its size */
static const size_t filled_most = (size_t)20 << 20;

EXPORT simt_counts_t simt_counts = {.memory = (size_t)1 << 32, .units = 4};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool simt_captured(CUstream s); /* simt.c */
void simt_catch_up(void);

/* ---- copies from the host ---- */

typedef struct copy {
  struct copy *next;
  void *to;
  const void *from;
  size_t n;
} copy;
static copy *first, **last = &first;
static uint64_t queued, done;

void simt_catch_up(void)
{
  pthread_mutex_lock(&lock);
  while (first) {
    copy *c = first;
    memcpy(c->to, c->from, c->n);
    first = c->next;
    free(c);
    done++;
  }
  last = &first;
  pthread_mutex_unlock(&lock);
}

static CUresult waited(void)
{
  simt_catch_up();
  __atomic_add_fetch(&simt_counts.waits, 1, __ATOMIC_RELAXED);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
  if (simt_captured(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  copy *c = simt_counts.late ? malloc(sizeof *c) : NULL;
  pthread_mutex_lock(&lock);
  simt_counts.copies_in++;
  simt_counts.bytes_in += n;
  if (c) {
    *c = (copy){NULL, (void *)(uintptr_t)to, from, n};
    *last = c;
    last = &c->next;
    queued++;
  }
  pthread_mutex_unlock(&lock);
  if (!c) memcpy((void *)(uintptr_t)to, from, n);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
  if (simt_captured(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  simt_catch_up();
  pthread_mutex_lock(&lock);
  simt_counts.copies_out++;
  simt_counts.bytes_out += n;
  pthread_mutex_unlock(&lock);
  memcpy(to, (const void *)(uintptr_t)from, n);
  return CUDA_SUCCESS;
}

/* ---- memory ---- */

EXPORT CUresult cuMemGetInfo_v2(size_t *left, size_t *total)
{
  *total = simt_counts.memory;
  *left = simt_counts.held < simt_counts.memory ? simt_counts.memory - simt_counts.held : 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n)
{
  pthread_mutex_lock(&lock);
  bool fits = simt_counts.held + n <= simt_counts.memory;
  char *block = fits ? aligned_alloc(HEAD, HEAD + (n + HEAD - 1) / HEAD * HEAD) : NULL;
  if (block) {
    __atomic_add_fetch(&simt_counts.held, n, __ATOMIC_RELAXED); /* modules look at it without the lock */
    simt_counts.allocs++;
  }
  pthread_mutex_unlock(&lock);
  if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(block, &n, sizeof n);
  /* neither zero nor a small number: what is read unwritten shows */
  memset(block + HEAD, 0xcb, n < filled_most ? n : filled_most);
  *p = (CUdeviceptr)(uintptr_t)(block + HEAD);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr p)
{
  char *block = (char *)(uintptr_t)p - HEAD;
  size_t n;
  simt_catch_up();
  memcpy(&n, block, sizeof n);
  pthread_mutex_lock(&lock);
  __atomic_sub_fetch(&simt_counts.held, n, __ATOMIC_RELAXED);
  simt_counts.frees++;
  pthread_mutex_unlock(&lock);
  free(block);
  return CUDA_SUCCESS;
}
static void *registered; /* memory that others made */
EXPORT CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
  (void)flags;
  *p = calloc(1, n);
  return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned flags)
{
  (void)flags;
  if (!n || !p) return CUDA_ERROR_INVALID_VALUE;
  if (registered) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED; /* one at a time is enough here */
  registered = p;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostUnregister(void *p)
{
  if (!p || p != registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  registered = NULL;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFreeHost(void *p)
{
  simt_catch_up();
  __atomic_add_fetch(&simt_counts.host_frees, 1, __ATOMIC_RELAXED);
  free(p);
  return CUDA_SUCCESS;
}

/* ---- streams: numbers ---- */

EXPORT CUresult cuCtxSynchronize(void) { return waited(); }
EXPORT CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
  static uintptr_t made;
  (void)flags;
  *s = (CUstream)(++made << 4);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int priority)
{
  (void)priority;
  return cuStreamCreate(s, flags);
}
EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
  *least = 0, *greatest = -5;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream s) { (void)s; return CUDA_SUCCESS; }
EXPORT CUresult cuStreamQuery(CUstream s) { (void)s; return done < queued ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; }
EXPORT CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
  (void)s, (void)e, (void)flags;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamSynchronize(CUstream s)
{
  return simt_captured(s) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : waited();
}

/* ---- events: when it was recorded, and behind which copy ---- */

/* Milliseconds that work takes are what whoever does it adds here (dnn.c, simt.c): nothing depends on the machine. */
EXPORT float simt_clock;
typedef struct event {
  bool recorded;
  float at;
  uint64_t behind;
} event;

EXPORT CUresult cuEventCreate(CUevent *e, unsigned flags)
{
  (void)flags;
  *e = calloc(1, sizeof(event));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent e, CUstream s)
{
  (void)s;
  *(event *)e = (event){true, simt_clock, queued};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventQuery(CUevent e)
{
  return ((event *)e)->behind > done ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
EXPORT CUresult cuEventSynchronize(CUevent e) { (void)e; return waited(); }
#undef cuEventElapsedTime
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
  const event *a = (event *)begin, *b = (event *)end;
  *milliseconds = b->at - a->at;
  return a->recorded && b->recorded ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
EXPORT CUresult cuEventDestroy_v2(CUevent e) { free(e); return CUDA_SUCCESS; }
