/* history.c: what happened to device memory, one event behind the other, for programs that ask.
 *
 * Place in the flow: memory.c and segments.c tell it; programs read it to see what held memory when. Invariants: it
 * costs a test of a pointer where nobody asks; the last events are kept, no more than was asked for, in a ring that
 * grows as they come; where host memory is out it does not grow. */
#include <string.h>
#include <time.h>

#include "memory.h"

enum { ROOM = 256 }; /* events, at first */

typedef struct cni_cuda_history {
  cn_memory_event *events; /* of which the newest is in front of n % room */
  size_t room, most;
  uint64_t n; /* since the ring last grew: below room until it is full */
} cni_cuda_history;

static uint64_t microseconds(void)
{
  struct timespec now = {0, 0};
  timespec_get(&now, TIME_UTC);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Of a ring that is full, and may be larger. */
static void grow(cni_cuda_history *h)
{
  size_t room = h->room > h->most / 2 ? h->most : 2 * h->room;
  cn_memory_event *events = room <= SIZE_MAX / sizeof *events ? cni_cuda_host->memory(room * sizeof *events) : NULL;
  if (!events) {
    h->most = h->room;
    return;
  }
  memcpy(events, h->events, h->room * sizeof *events); /* it has not gone round yet */
  cni_cuda_host->free_memory(h->events, h->room * sizeof *events);
  h->events = events;
  h->room = room;
}

void cni_cuda_keep_event(cni_cuda_device *d, cn_memory_action action, CUdeviceptr at, size_t bytes, CUstream stream,
                         const char *op)
{
  cni_cuda_history *h = d->history;
  if (h->n == h->room && h->room < h->most) grow(h);
  h->events[h->n++ % h->room] = (cn_memory_event){.action = action, .at = at, .bytes = bytes,
                                                  .stream = (uint64_t)(uintptr_t)stream, .op = op,
                                                  .microseconds = microseconds()};
}

void cni_cuda_history_exit(cni_cuda_device *d)
{
  cni_cuda_history *h = d->history;
  d->history = NULL;
  if (!h) return;
  cni_cuda_host->free_memory(h->events, h->room * sizeof *h->events);
  cni_cuda_host->free_memory(h, sizeof *h);
}

static cni_cuda_history *make(size_t most)
{
  cni_cuda_history *h = cni_cuda_host->memory(sizeof *h);
  if (!h) return NULL;
  *h = (cni_cuda_history){.room = most < ROOM ? most : ROOM, .most = most};
  h->events = cni_cuda_host->memory(h->room * sizeof *h->events);
  if (h->events) return h;
  cni_cuda_host->free_memory(h, sizeof *h);
  return NULL;
}

int cni_cuda_memory_record(int index, size_t events)
{
  cni_cuda_device *d = cni_cuda_use(index);
  cni_cuda_history *made = d && events ? make(events) : NULL;
  if (!d || (events && !made)) return d ? CN_ERR_MEMORY : CN_ERR_DEVICE;
  pthread_mutex_lock(&d->lock);
  cni_cuda_history_exit(d);
  d->history = made;
  pthread_mutex_unlock(&d->lock);
  return CN_OK;
}

int cni_cuda_memory_events(int index, void (*each)(const cn_memory_event *event, void *payload), void *payload)
{
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  pthread_mutex_lock(&d->lock);
  const cni_cuda_history *h = d->history;
  for (uint64_t i = h && h->n > h->room ? h->n - h->room : 0; h && i < h->n; i++)
    each(&h->events[i % h->room], payload);
  pthread_mutex_unlock(&d->lock);
  return CN_OK;
}
