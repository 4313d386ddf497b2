/* memory.c: device memory as tensors and kernels get it: pieces that were given back, or new ones.
 *
 * Place in the flow: what tensors on the device are made of. A small piece that was given back waits in a list of its
 * size; large ones, and sizes that are not there, come from segments.c. Invariant: a piece that was given back is
 * handed out again at once, in the queue it was taken in: whoever gets it is queued behind whoever gave it back. Sizes
 * of small pieces are rounded up to eight steps per power of two, so that a piece fits every request of its class. */
#include "memory.h"

enum { LEAST = 512, STEPS = 8 };

int cni_cuda_class_of(size_t size, size_t *rounded)
{
  if (size < LEAST) size = LEAST;
  int p = 63 - __builtin_clzll((unsigned long long)size - 1);       /* 2^p < size <= 2^(p+1) */
  size_t step = (size_t)1 << (p - 3), n = (size + step - 1) / step; /* 9..16 */
  *rounded = n * step;
  return p * STEPS + (int)n - 9;
}

/* ---- taking and giving back ---- */

static cni_cuda_piece *take_kept(cni_cuda_queue *q, int class_number)
{
  cni_cuda_piece *p = q->kept[class_number];
  if (!p) return NULL;
  q->kept[class_number] = p->next;
  q->kept_bytes -= p->size;
  return p;
}

static void put_kept(cni_cuda_piece *p)
{
  size_t rounded;
  int class_number = cni_cuda_class_of(p->size, &rounded);
  cni_cuda_queue *q = p->queue;
  p->state = CNI_CUDA_KEPT;
  p->next = q->kept[class_number];
  q->kept[class_number] = p;
  q->kept_bytes += p->size;
}

/* Before it fails: what calls have recorded for their like to come is given up, too. Holds the lock, but not all the
 * time. */
static cni_cuda_piece *take_hard(cni_cuda_device *d, cni_cuda_queue *q, int kind, size_t size)
{
  cni_cuda_piece *p = cni_cuda_piece_take_hard(d, q, kind, size);
  if (p) return p;
  pthread_mutex_unlock(&d->lock);
  bool more = cni_cuda_repeat_trim(d, false);
  pthread_mutex_lock(&d->lock);
  return more ? cni_cuda_piece_take_hard(d, q, kind, size) : NULL;
}

static cni_cuda_piece *find(cni_cuda_device *d, cni_cuda_queue *q, size_t asked)
{
  size_t size = (asked + CNI_CUDA_ALIGN - 1) / CNI_CUDA_ALIGN * CNI_CUDA_ALIGN;
  int kind = size <= cni_cuda_small_most ? CN_MEMORY_SMALL : CN_MEMORY_LARGE;
  if (!cni_cuda_caches) return cni_cuda_segment_take(d, q, kind, asked);
  int class_number = kind == CN_MEMORY_SMALL ? cni_cuda_class_of(size, &size) : -1;
  cni_cuda_piece *p = kind == CN_MEMORY_SMALL ? take_kept(q, class_number) : NULL;
  if (!p) p = cni_cuda_piece_take(d, q, kind, size);
  return p ? p : take_hard(d, q, kind, size);
}

/* Holds the lock. */
static void *take(cni_cuda_device *d, cni_cuda_queue *q, size_t asked)
{
  cn_device_memory_stats *m = &d->memory;
  cni_cuda_piece *p = find(d, q, asked);
  if (!p) return NULL;
  p->state = CNI_CUDA_USED;
  p->asked = asked;
  p->op = cni_cuda_host->op_running();
  cni_cuda_happened(d, CN_MEMORY_TAKEN, p->at, asked, q->stream, p->op);
  q->live++;
  cni_cuda_count_up(m->blocks, p->kind, 1);
  cni_cuda_count_up(m->used, p->kind, p->size);
  cni_cuda_count_up(m->asked, p->kind, asked);
  return (void *)(uintptr_t)p->at;
}

/* What a recording has seen stays with it, whosever it was. Holds the lock. */
static void give(cni_cuda_device *d, cni_cuda_piece *p)
{
  cn_device_memory_stats *m = &d->memory;
  cni_cuda_queue *recorded = cni_cuda_records(d);
  if (p->state != CNI_CUDA_USED) return;
  cni_cuda_happened(d, CN_MEMORY_GIVEN, p->at, p->asked, p->queue->stream, p->op);
  cni_cuda_count_down(m->blocks, p->kind, 1);
  cni_cuda_count_down(m->used, p->kind, p->size);
  cni_cuda_count_down(m->asked, p->kind, p->asked);
  p->queue->live--;
  if (recorded) p->queue = recorded;
  if (!cni_cuda_caches && cni_cuda_segment_give(d, p)) return;
  if (p->kind == CN_MEMORY_SMALL && cni_cuda_caches) put_kept(p);
  else cni_cuda_piece_give(d, p);
}

static void *alloc_in(cni_cuda_device *d, cni_cuda_queue *q, size_t size)
{
  if (size >= (size_t)1 << 46) return NULL;
  pthread_mutex_lock(&d->lock);
  void *memory = take(d, q, size);
  pthread_mutex_unlock(&d->lock);
  return memory;
}

void *cni_cuda_alloc(cni_cuda_device *d, size_t size) { return alloc_in(d, cni_cuda_now(d), size); }

void cni_cuda_free(cni_cuda_device *d, void *memory, size_t size)
{
  (void)size;
  if (!memory) return;
  cni_cuda_before_free();
  pthread_mutex_lock(&d->lock);
  cni_cuda_piece *p = cni_cuda_piece_at(d, (CUdeviceptr)(uintptr_t)memory);
  if (p) give(d, p); /* else: after the shutdown */
  pthread_mutex_unlock(&d->lock);
}

void *cni_cuda_memory_alloc(int index, size_t size, void *stream)
{
  cni_cuda_device *d = cni_cuda_device_at(index);
  void *memory = d ? alloc_in(d, cni_cuda_queue_of(d, stream), size) : NULL;
  if (d && !memory) cni_cuda_short(d, cni_cuda_host->op_running(), size);
  return memory;
}

void cni_cuda_memory_free(int index, void *memory, size_t size, void *stream)
{
  (void)stream; /* in which it was taken: the piece knows */
  cni_cuda_device *d = memory && !cni_cuda_gone() ? cni_cuda_device_at(index) : NULL;
  if (d) cni_cuda_free(d, memory, size);
}

/* ---- queues that end ---- */

void cni_cuda_queue_join(cni_cuda_device *d, cni_cuda_queue *q)
{
  cni_cuda_piece *workspace = cni_cuda_piece_at(d, (CUdeviceptr)(uintptr_t)q->workspace);
  if (workspace) give(d, workspace);
  q->workspace = NULL;
  cni_cuda_staging_end(d, q);
  cni_cuda_pieces_join(d, q);
}

/* ---- numbers, the limit, and giving back ---- */

void cni_cuda_memory_reserved(int index, size_t *now, size_t *peak, bool reset)
{
  cni_cuda_device *d = cni_cuda_use(index);
  *now = *peak = 0;
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  cn_memory_count *const counts[] = {d->memory.blocks, d->memory.used, d->memory.asked, d->memory.segments,
                                     d->memory.reserved};
  for (size_t i = 0; reset && i < sizeof counts / sizeof *counts; i++)
    for (int k = 0; k < CN_MEMORY_KINDS; k++) counts[i][k].peak = counts[i][k].now;
  *now = d->memory.reserved[CN_MEMORY_ALL].now;
  *peak = d->memory.reserved[CN_MEMORY_ALL].peak;
  pthread_mutex_unlock(&d->lock);
}

void cni_cuda_memory_stats(int index, cn_device_memory_stats *stats)
{
  size_t largest, size = stats->size;
  cni_cuda_device *d = size >= sizeof *stats ? cni_cuda_use(index) : NULL;
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  *stats = d->memory;
  stats->size = size;
  cni_cuda_pieces_gaps(d, stats, &largest);
  pthread_mutex_unlock(&d->lock);
}

int cni_cuda_memory_pieces(int index, void (*each)(const cn_memory_piece *piece, void *payload), void *payload)
{
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  pthread_mutex_lock(&d->lock);
  cni_cuda_pieces_show(d, each, payload);
  pthread_mutex_unlock(&d->lock);
  return CN_OK;
}

int cni_cuda_memory_limit(int index, size_t bytes)
{
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  pthread_mutex_lock(&d->lock);
  d->memory.limit = bytes;
  pthread_mutex_unlock(&d->lock);
  return CN_OK;
}

int cni_cuda_memory_trim(int index)
{
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  cni_cuda_repeat_trim(d, true);
  pthread_mutex_lock(&d->lock);
  cni_cuda_segments_trim(d, SIZE_MAX);
  pthread_mutex_unlock(&d->lock);
  cni_cuda_pinned_trim(d);
  return CN_OK;
}

bool cni_cuda_made_room(cni_cuda_device *d, CUresult result)
{
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return false;
  cni_cuda_repeat_trim(d, false);
  pthread_mutex_lock(&d->lock);
  cni_cuda_segments_trim(d, SIZE_MAX);
  pthread_mutex_unlock(&d->lock);
  return true;
}

/* Host memory only: at the end of a process the driver may be gone already. */
void cni_cuda_memory_exit(cni_cuda_device *d)
{
  cni_cuda_staging_exit(d, &d->own);
  cni_cuda_staging_exit(d, NULL);
  while (d->others) {
    cni_cuda_queue *q = d->others;
    d->others = q->next;
    cni_cuda_staging_exit(d, q);
    cni_cuda_host->free_memory(q, sizeof *q);
  }
  cni_cuda_pieces_exit(d);
  cni_cuda_history_exit(d);
  cni_cuda_pinned_exit(d);
}
