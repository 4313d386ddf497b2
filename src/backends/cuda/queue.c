/* queue.c: streams and events: which stream a thread's work goes into, making and waiting.
 *
 * Place in the flow: the entries of the backend's table, and every kernel (cni_cuda_of), begin by saying which stream
 * is meant; launches, copies, scratch memory and the libraries ask for it (cni_cuda_now). Invariant: memory that was
 * given back in a stream is handed out again in that stream, or, when the stream is gone, in the device's own one,
 * which has waited for it. */
#include <string.h>

#include "plugin.h"

/* What this thread's present call is in. A thread has one at a time: every entry sets it. */
static _Thread_local struct {
  const cni_cuda_device *device;
  cni_cuda_queue *queue;
} now;

/* What it records, and where; NULL: nothing. */
static _Thread_local struct {
  const cni_cuda_device *device;
  cni_cuda_queue *queue;
} recorded;

/* The queue of a stream; the device's own for NULL, and for streams that are gone. Holds the lock. */
static cni_cuda_queue *find(cni_cuda_device *d, const void *stream)
{
  cni_cuda_queue *q = d->others;
  while (q && q->stream != stream) q = q->next;
  return q ? q : &d->own;
}

cni_cuda_queue *cni_cuda_queue_of(cni_cuda_device *d, const void *stream)
{
  if (recorded.queue && recorded.device == d) return recorded.queue;
  if (!stream) return &d->own;
  pthread_mutex_lock(&d->lock);
  cni_cuda_queue *q = find(d, stream);
  pthread_mutex_unlock(&d->lock);
  return q;
}

cni_cuda_device *cni_cuda_enter(int index, const void *stream)
{
  cni_cuda_device *d = cni_cuda_flush() ? NULL : cni_cuda_use(index);
  now.device = d;
  now.queue = d ? cni_cuda_queue_of(d, stream) : NULL;
  return d;
}

void cni_cuda_continue(const cni_cuda_device *d, cni_cuda_queue *q)
{
  now.device = d;
  now.queue = q;
}

cni_cuda_queue *cni_cuda_now(cni_cuda_device *d) { return now.device == d ? now.queue : &d->own; }

/* ---- recordings ---- */

void cni_cuda_record_into(cni_cuda_device *d, cni_cuda_queue *q)
{
  recorded.device = d;
  recorded.queue = q;
  now.device = d;
  now.queue = q ? q : &d->own;
}

cni_cuda_queue *cni_cuda_records(const cni_cuda_device *d) { return recorded.device == d ? recorded.queue : NULL; }

int cni_cuda_not_recorded(const cni_cuda_device *d, const char *what)
{
  if (!cni_cuda_records(d)) return CN_OK;
  return cni_cuda_host->fail(CN_ERR_CAPTURE, "cuda: %s cannot be recorded", what);
}

/* ---- streams ---- */

void *cni_cuda_stream_new(int index, int priority)
{
  cni_cuda_device *d = cni_cuda_use(index);
  cni_cuda_queue *q = d ? cni_cuda_host->memory(sizeof *q) : NULL;
  if (!q) return NULL;
  memset(q, 0, sizeof *q);
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  CUresult result = cu->cuStreamCreateWithPriority
                        ? cu->cuStreamCreateWithPriority(&q->stream, CU_STREAM_NON_BLOCKING, priority)
                        : cu->cuStreamCreate(&q->stream, CU_STREAM_NON_BLOCKING);
  if (cni_cuda_check(result, "making a stream")) {
    cni_cuda_host->free_memory(q, sizeof *q);
    return NULL;
  }
  pthread_mutex_lock(&d->lock);
  q->next = d->others;
  d->others = q;
  pthread_mutex_unlock(&d->lock);
  return q->stream;
}

/* Lets `stream` wait for all that is queued in `behind` by now. */
static int wait_for(CUstream stream, CUstream behind)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  CUevent event;
  CUresult result = cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) return cni_cuda_check(result, "making an event");
  result = cu->cuEventRecord(event, behind);
  if (result == CUDA_SUCCESS) result = cu->cuStreamWaitEvent(stream, event, 0);
  cu->cuEventDestroy(event);
  return cni_cuda_check(result, "waiting for a stream");
}

void cni_cuda_queue_end(cni_cuda_device *d, cni_cuda_queue *q, CUstream last)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  cni_cuda_queue *launched = last ? cni_cuda_queue_of(d, last) : NULL; /* not found: the device's own waited for it */
  if (launched && launched != &d->own && wait_for(d->own.stream, last)) cu->cuStreamSynchronize(last);
  pthread_mutex_lock(&d->lock);
  cni_cuda_queue_join(d, q);
  pthread_mutex_unlock(&d->lock);
  cu->cuStreamDestroy(q->stream);
}

void cni_cuda_stream_free(int index, void *stream)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  cni_cuda_device *d = cni_cuda_use_to_free(index);
  if (!d) return;
  if (wait_for(d->own.stream, stream)) cu->cuStreamSynchronize(stream);
  pthread_mutex_lock(&d->lock);
  cni_cuda_queue **at = &d->others, *q;
  while (*at && (*at)->stream != stream) at = &(*at)->next;
  if ((q = *at)) {
    *at = q->next;
    cni_cuda_queue_join(d, q);
  }
  pthread_mutex_unlock(&d->lock);
  cu->cuStreamDestroy(stream);
  if (q) cni_cuda_host->free_memory(q, sizeof *q);
  if (now.queue == q) now.queue = &d->own;
}

/* 1 passed, 0 not yet, negative: an error. */
static int passed(CUresult result, const char *what)
{
  return result == CUDA_ERROR_NOT_READY ? 0 : result == CUDA_SUCCESS ? 1 : cni_cuda_check(result, what);
}

int cni_cuda_stream_query(int index, void *stream)
{
  cni_cuda_device *d = cni_cuda_enter(index, stream);
  return d ? passed(cni_cuda_driver()->cuStreamQuery(cni_cuda_now(d)->stream), "asking a stream") : CN_ERR_DEVICE;
}

int cni_cuda_stream_sync(int index, void *stream)
{
  cni_cuda_device *d = cni_cuda_enter(index, stream);
  return d ? cni_cuda_finish(d) : CN_ERR_DEVICE;
}

/* ---- events ---- */

void *cni_cuda_event_new(int index, bool timing)
{
  CUevent event = NULL;
  if (!cni_cuda_use(index)) return NULL;
  CUresult result = cni_cuda_driver()->cuEventCreate(&event, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  return cni_cuda_check(result, "making an event") ? NULL : event;
}

void cni_cuda_event_free(int index, void *event)
{
  if (cni_cuda_use_to_free(index)) cni_cuda_driver()->cuEventDestroy(event);
}

int cni_cuda_event_record(int index, void *event, void *stream)
{
  cni_cuda_device *d = cni_cuda_enter(index, stream);
  if (!d) return CN_ERR_DEVICE;
  return cni_cuda_check(cni_cuda_driver()->cuEventRecord(event, cni_cuda_now(d)->stream), "recording an event");
}

int cni_cuda_event_wait(int index, void *event, void *stream)
{
  cni_cuda_device *d = cni_cuda_enter(index, stream);
  if (!d) return CN_ERR_DEVICE;
  return cni_cuda_check(cni_cuda_driver()->cuStreamWaitEvent(cni_cuda_now(d)->stream, event, 0),
                        "waiting for an event");
}

int cni_cuda_event_query(int index, void *event)
{
  return cni_cuda_use(index) ? passed(cni_cuda_driver()->cuEventQuery(event), "asking an event") : CN_ERR_DEVICE;
}

int cni_cuda_event_sync(int index, void *event)
{
  if (!cni_cuda_use(index)) return CN_ERR_DEVICE;
  return cni_cuda_check(cni_cuda_driver()->cuEventSynchronize(event), "waiting for an event");
}

int cni_cuda_event_elapsed(int index, double *milliseconds, void *from, void *to)
{
  float took = 0;
  if (!cni_cuda_use(index)) return CN_ERR_DEVICE;
  if (!cni_cuda_driver()->cuEventElapsedTime)
    return cni_cuda_host->fail(CN_ERR_UNSUPPORTED, "cuda: this driver tells no time between events");
  CUresult result = cni_cuda_driver()->cuEventElapsedTime(&took, from, to);
  if (result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_INVALID_HANDLE)
    return cni_cuda_host->fail(CN_ERR_VALUE, "cuda: both events must be for timing, recorded and passed");
  *milliseconds = (double)took;
  return cni_cuda_check(result, "the time between two events");
}
