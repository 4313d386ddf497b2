/* pinned.c: host memory that the device reads by itself, kept for reuse: the driver takes long to make it.
 *
 * Place in the flow: batches of a loader lie here; copy_in (copy.c) queues their copies as they are. A block is in use,
 * waits (given back, while a copy from it may still be queued), or is free. Invariants: a block becomes free only when
 * the event behind the last copy from it has passed; giving one back never asks the driver to release memory, which
 * would wait for the device; the lists and the table of all blocks change under the device's lock. */
#include <string.h>

#include "plugin.h"

enum { LEAST = 4096 };
static const size_t keep_most = (size_t)512 << 20; /* bytes of free blocks (or one block that is larger) */
static const size_t wait_most = (size_t)1 << 30;   /* bytes that wait: then others are read by the host */

typedef struct cni_cuda_block {
  char *memory;
  size_t size;
  int class_number;
  bool read;       /* a copy from it was queued since it was handed out */
  CUevent copied;  /* behind the last copy from it */
  CUstream stream; /* ... in this one */
  struct cni_cuda_block *next;
} block;

/* ---- the table of all blocks ---- */

/* How many blocks begin at or below that address. */
static int place_of(const cni_cuda_pinned *p, const void *address)
{
  int low = 0, high = p->n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if ((uintptr_t)p->all[middle]->memory <= (uintptr_t)address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static block *find(const cni_cuda_pinned *p, const void *address)
{
  int place = place_of(p, address);
  block *b = place ? p->all[place - 1] : NULL;
  return b && (uintptr_t)address - (uintptr_t)b->memory < b->size ? b : NULL;
}

static bool make_room(cni_cuda_pinned *p)
{
  if (p->n < p->room) return true;
  int room = p->room ? p->room * 2 : 16;
  block **all = cni_cuda_host->memory((size_t)room * sizeof(block *));
  if (!all) return false;
  if (p->n) memcpy(all, p->all, (size_t)p->n * sizeof(block *));
  if (p->all) cni_cuda_host->free_memory(p->all, (size_t)p->room * sizeof(block *));
  p->all = all;
  p->room = room;
  return true;
}

static void up(cn_memory_count *c, uint64_t n)
{
  c->now += n;
  c->total += n;
  if (c->now > c->peak) c->peak = c->now;
}

static bool add(cni_cuda_pinned *p, block *b)
{
  if (!make_room(p)) return false;
  int place = place_of(p, b->memory);
  memmove(p->all + place + 1, p->all + place, (size_t)(p->n - place) * sizeof(block *));
  p->all[place] = b;
  p->n++;
  up(&p->stats.blocks, 1), up(&p->stats.bytes, b->size);
  return true;
}

static void drop(cni_cuda_pinned *p, block *b)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  int place = place_of(p, b->memory);
  memmove(p->all + place - 1, p->all + place, (size_t)(p->n - place) * sizeof(block *));
  p->n--;
  p->stats.blocks.now--, p->stats.bytes.now -= b->size;
  cu->cuEventDestroy(b->copied);
  cu->cuMemFreeHost(b->memory);
  cni_cuda_host->free_memory(b, sizeof *b);
}

/* ---- free blocks and those that wait; all under the lock ---- */

static void drop_free(cni_cuda_pinned *p)
{
  for (int i = 0; i < CNI_CUDA_CLASSES; i++)
    while (p->free[i]) {
      block *b = p->free[i];
      p->free[i] = b->next;
      drop(p, b);
    }
  p->kept = 0;
}

static void put_free(cni_cuda_pinned *p, block *b)
{
  b->next = p->free[b->class_number];
  p->free[b->class_number] = b;
  p->kept += b->size;
  p->stats.used.now--, p->stats.used_bytes.now -= b->size;
}

static void hand_out(cni_cuda_pinned *p, const block *b) { up(&p->stats.used, 1), up(&p->stats.used_bytes, b->size); }

static block *take_free(cni_cuda_pinned *p, int class_number)
{
  block *b = p->free[class_number];
  if (!b) return NULL;
  p->free[class_number] = b->next;
  p->kept -= b->size;
  hand_out(p, b);
  return b;
}

static void put_waiting(cni_cuda_pinned *p, block *b)
{
  b->next = NULL;
  if (p->newest) p->newest->next = b;
  else p->oldest = b;
  p->newest = b;
  p->waiting += b->size;
}

/* Frees those whose copies are done: of each stream from the oldest on, where two streams at most are late. */
static void collect(cni_cuda_pinned *p)
{
  block *late = NULL; /* the last that is not */
  for (block **at = &p->oldest, *b; (b = *at);) {
    bool done = !(late && late->stream == b->stream) && cni_cuda_driver()->cuEventQuery(b->copied) == CUDA_SUCCESS;
    if (done) {
      *at = b->next;
      p->waiting -= b->size;
      put_free(p, b);
      continue;
    }
    if (late && late->stream != b->stream) return;
    late = b;
    at = &b->next;
  }
  p->newest = late;
}

void cni_cuda_pinned_trim(cni_cuda_device *d)
{
  pthread_mutex_lock(&d->lock);
  collect(&d->pinned);
  drop_free(&d->pinned);
  pthread_mutex_unlock(&d->lock);
}

/* ---- for the backend's table ---- */

static void *new_memory(cni_cuda_device *d, size_t size)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  void *memory = NULL;
  if (cu->cuMemHostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS) return memory;
  pthread_mutex_lock(&d->lock);
  drop_free(&d->pinned);
  pthread_mutex_unlock(&d->lock);
  return cu->cuMemHostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS ? memory : NULL;
}

/* Without the lock while the driver works: it takes milliseconds, and others launch kernels meanwhile. Where the sizes
 * asked for have changed, the old ones go here. */
static block *new_block(cni_cuda_device *d, size_t size, int class_number)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  block *b = cni_cuda_host->memory(sizeof *b);
  if (!b) return NULL;
  pthread_mutex_lock(&d->lock);
  if (d->pinned.kept > keep_most) drop_free(&d->pinned);
  pthread_mutex_unlock(&d->lock);
  *b = (block){.memory = new_memory(d, size), .size = size, .class_number = class_number};
  bool made = b->memory && cu->cuEventCreate(&b->copied, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
  if (made) {
    pthread_mutex_lock(&d->lock);
    made = add(&d->pinned, b);
    if (made) hand_out(&d->pinned, b);
    pthread_mutex_unlock(&d->lock);
    if (made) return b;
    cu->cuEventDestroy(b->copied);
  }
  if (b->memory) cu->cuMemFreeHost(b->memory);
  cni_cuda_host->free_memory(b, sizeof *b);
  return NULL;
}

void *cni_cuda_host_alloc(int index, size_t size)
{
  size_t rounded;
  cni_cuda_device *d = size < (size_t)1 << 46 ? cni_cuda_use(index) : NULL;
  if (!d) return NULL;
  int class_number = cni_cuda_class_of(size < LEAST ? LEAST : size, &rounded);
  pthread_mutex_lock(&d->lock);
  collect(&d->pinned);
  block *b = take_free(&d->pinned, class_number);
  pthread_mutex_unlock(&d->lock);
  if (!b) b = new_block(d, rounded, class_number);
  if (!b) return NULL;
  b->read = false;
  return b->memory;
}

void cni_cuda_host_free(int index, void *memory, size_t size)
{
  (void)size;
  cni_cuda_device *d = cni_cuda_use_to_free(index);
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  block *b = find(&d->pinned, memory); /* NULL: after the shutdown */
  if (b && b->read) put_waiting(&d->pinned, b);
  else if (b) put_free(&d->pinned, b);
  collect(&d->pinned);
  pthread_mutex_unlock(&d->lock);
}

int cni_cuda_host_wait(int index, const void *memory)
{
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  pthread_mutex_lock(&d->lock);
  const block *b = find(&d->pinned, memory);
  CUevent copied = b && b->read ? b->copied : NULL;
  pthread_mutex_unlock(&d->lock);
  return copied ? cni_cuda_check(cni_cuda_driver()->cuEventSynchronize(copied), "waiting for a copy") : CN_OK;
}

void cni_cuda_pinned_stats(int index, cn_pinned_stats *stats, bool reset)
{
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  cn_pinned_stats *s = &d->pinned.stats;
  cn_memory_count *const counts[] = {&s->blocks, &s->bytes, &s->used, &s->used_bytes};
  for (size_t i = 0; reset && i < sizeof counts / sizeof *counts; i++) counts[i]->peak = counts[i]->now;
  *stats = *s;
  pthread_mutex_unlock(&d->lock);
}

bool cni_cuda_is_pinned(cni_cuda_device *d, const void *memory)
{
  pthread_mutex_lock(&d->lock);
  bool found = find(&d->pinned, memory) != NULL;
  pthread_mutex_unlock(&d->lock);
  return found;
}

/* The one event stands for copies in all streams: a copy in another comes behind the last. */
CUevent cni_cuda_pinned_event(cni_cuda_device *d, const void *memory, CUstream stream)
{
  pthread_mutex_lock(&d->lock);
  block *b = find(&d->pinned, memory);
  if (b && d->pinned.waiting > wait_most) collect(&d->pinned);
  if (d->pinned.waiting > wait_most) b = NULL;
  if (b && b->read && b->stream != stream) cni_cuda_driver()->cuStreamWaitEvent(stream, b->copied, 0);
  if (b) {
    b->read = true;
    b->stream = stream;
  }
  pthread_mutex_unlock(&d->lock);
  return b ? b->copied : NULL;
}

/* The blocks themselves stay: at the end of a process the driver may be gone already. */
void cni_cuda_pinned_exit(cni_cuda_device *d)
{
  cni_cuda_pinned *p = &d->pinned;
  for (int i = 0; i < p->n; i++) cni_cuda_host->free_memory(p->all[i], sizeof(block));
  if (p->all) cni_cuda_host->free_memory(p->all, (size_t)p->room * sizeof(block *));
  *p = (cni_cuda_pinned){0};
}
