/* segments.c: device memory in segments, taken from the driver, and pieces of them, cut off and joined again.
 *
 * Place in the flow: memory.c comes here when a queue has no piece of the size at hand. Small pieces are of segments of
 * 2 MiB, large ones of segments of 20 MiB or of their own size. Among free pieces the smallest that fits is cut; what
 * is left of it stays free. Invariants: see memory.h; what is taken from the driver is never above the limit. */
#include <string.h>

#include "memory.h"

enum { STEPS = 8, SLAB = 128, LEAST_BITS = 10 };
static const size_t medium_most = (size_t)10 << 20, medium_segment = (size_t)20 << 20, page = (size_t)2 << 20;
static const size_t least_segment = (size_t)128 << 10;
static const size_t least_whole = (size_t)128 << 20;
static const size_t least_rest = (size_t)64 << 10; /* of a large piece: less stays with it */

/* ---- descriptions of pieces, and where each begins: a table with open addresses ---- */

typedef struct cni_cuda_slab {
  struct cni_cuda_slab *next;
  cni_cuda_piece pieces[SLAB];
} slab;

static size_t slot_of(const cni_cuda_pieces *t, CUdeviceptr at)
{
  return (size_t)((uint64_t)(at >> 8) * 0x9e3779b97f4a7c15u >> (64 - t->bits));
}

cni_cuda_piece *cni_cuda_piece_at(const cni_cuda_device *d, CUdeviceptr at)
{
  const cni_cuda_pieces *t = &d->pieces;
  if (!t->slots) return NULL;
  size_t last = ((size_t)1 << t->bits) - 1, i = slot_of(t, at);
  while (t->slots[i] && t->slots[i]->at != at) i = (i + 1) & last;
  return t->slots[i];
}

static void list(const cni_cuda_pieces *t, cni_cuda_piece *p)
{
  size_t last = ((size_t)1 << t->bits) - 1, i = slot_of(t, p->at);
  while (t->slots[i]) i = (i + 1) & last;
  t->slots[i] = p;
}

/* Those behind it move up, so that no search ends too early. */
static void unlist(cni_cuda_pieces *t, const cni_cuda_piece *p)
{
  size_t last = ((size_t)1 << t->bits) - 1, i = slot_of(t, p->at);
  while (t->slots[i] != p) i = (i + 1) & last;
  for (size_t k = (i + 1) & last; t->slots[k]; k = (k + 1) & last) {
    size_t home = slot_of(t, t->slots[k]->at);
    if (((k - home) & last) < ((k - i) & last)) continue; /* it may not come before its home */
    t->slots[i] = t->slots[k];
    i = k;
  }
  t->slots[i] = NULL;
  t->n--;
}

/* At most half of the table is in use. */
static bool make_room(cni_cuda_pieces *t)
{
  cni_cuda_pieces wider = *t;
  if (t->slots && t->n + 1 <= (size_t)1 << (t->bits - 1)) return true;
  wider.bits = t->slots ? t->bits + 1 : LEAST_BITS;
  size_t bytes = sizeof *t->slots << wider.bits;
  wider.slots = cni_cuda_host->memory(bytes);
  if (!wider.slots) return false;
  memset(wider.slots, 0, bytes);
  for (size_t i = 0; t->slots && i < (size_t)1 << t->bits; i++)
    if (t->slots[i]) list(&wider, t->slots[i]);
  if (t->slots) cni_cuda_host->free_memory(t->slots, sizeof *t->slots << t->bits);
  *t = wider;
  return true;
}

/* NULL with the error set when host memory is out. */
static cni_cuda_piece *new_piece(cni_cuda_device *d, CUdeviceptr at, size_t size, cni_cuda_queue *q, int kind)
{
  cni_cuda_pieces *t = &d->pieces;
  if (!make_room(t)) return NULL;
  if (!t->spare) {
    slab *s = cni_cuda_host->memory(sizeof *s);
    if (!s) return NULL;
    s->next = t->slabs;
    t->slabs = s;
    for (int i = 0; i < SLAB; i++) {
      s->pieces[i].next = t->spare;
      t->spare = &s->pieces[i];
    }
  }
  cni_cuda_piece *p = t->spare;
  t->spare = p->next;
  *p = (cni_cuda_piece){.at = at, .size = size, .queue = q, .kind = (uint8_t)kind, .state = CNI_CUDA_USED};
  list(t, p);
  t->n++;
  return p;
}

static void end_piece(cni_cuda_device *d, cni_cuda_piece *p)
{
  unlist(&d->pieces, p);
  p->next = d->pieces.spare;
  d->pieces.spare = p;
}

/* ---- free pieces of a queue, by size ---- */

/* 2^p <= size < 2^(p+1), in eight steps. */
static int bin_of(size_t size)
{
  int p = 63 - __builtin_clzll((unsigned long long)size);
  return p * STEPS + (int)(size >> (p - 3) & (STEPS - 1));
}

static cni_cuda_pool *pool_of(const cni_cuda_piece *p) { return &p->queue->pools[p->kind == CN_MEMORY_LARGE]; }

static void put(cni_cuda_piece *p)
{
  cni_cuda_pool *pool = pool_of(p);
  int bin = bin_of(p->size);
  p->state = CNI_CUDA_FREE;
  p->previous = NULL;
  p->next = pool->bins[bin];
  if (p->next) p->next->previous = p;
  pool->bins[bin] = p;
  pool->filled[bin / 64] |= (uint64_t)1 << (bin % 64);
}

static void pull(cni_cuda_piece *p)
{
  cni_cuda_pool *pool = pool_of(p);
  int bin = bin_of(p->size);
  if (p->next) p->next->previous = p->previous;
  if (p->previous) p->previous->next = p->next;
  else pool->bins[bin] = p->next;
  if (!pool->bins[bin]) pool->filled[bin / 64] &= ~((uint64_t)1 << (bin % 64));
  p->state = CNI_CUDA_USED;
}

/* The first list from `bin` on that has pieces; -1: none. */
static int next_filled(const cni_cuda_pool *pool, int bin)
{
  for (int w = bin / 64; w < CNI_CUDA_CLASSES / 64; w++) {
    uint64_t bits = pool->filled[w];
    if (w == bin / 64) bits &= ~(uint64_t)0 << (bin % 64);
    if (bits) return w * 64 + __builtin_ctzll(bits);
  }
  return -1;
}

/* The smallest piece that fits; of several the one with the lowest address. */
static cni_cuda_piece *fit(const cni_cuda_pool *pool, size_t size)
{
  cni_cuda_piece *best = NULL;
  for (int bin = next_filled(pool, bin_of(size)); bin >= 0 && !best; bin = next_filled(pool, bin + 1))
    for (cni_cuda_piece *p = pool->bins[bin]; p; p = p->next)
      if (p->size >= size && (!best || p->size < best->size || (p->size == best->size && p->at < best->at))) best = p;
  return best;
}

/* ---- cutting and joining ---- */

/* Takes a free piece out of its list, and cuts it where it is too long. NULL with the error set. */
static cni_cuda_piece *cut(cni_cuda_device *d, cni_cuda_piece *p, size_t size)
{
  size_t rest = p->size - size;
  if (rest >= (p->kind == CN_MEMORY_SMALL ? CNI_CUDA_ALIGN : least_rest)) {
    cni_cuda_piece *behind = new_piece(d, p->at + size, rest, p->queue, p->kind);
    if (!behind) return NULL;
    pull(p);
    behind->before = p;
    behind->behind = p->behind;
    if (p->behind) p->behind->before = behind;
    p->behind = behind;
    p->size = size;
    put(behind);
  } else pull(p);
  return p;
}

static bool joins(const cni_cuda_piece *p, const cni_cuda_piece *neighbour)
{
  return neighbour && neighbour->state == CNI_CUDA_FREE && neighbour->queue == p->queue;
}

/* p takes in the one behind it. */
static void swallow(cni_cuda_device *d, cni_cuda_piece *p)
{
  cni_cuda_piece *gone = p->behind;
  p->size += gone->size;
  p->behind = gone->behind;
  if (p->behind) p->behind->before = p;
  end_piece(d, gone);
}

void cni_cuda_piece_give(cni_cuda_device *d, cni_cuda_piece *p)
{
  if (joins(p, p->behind)) {
    pull(p->behind);
    swallow(d, p);
  }
  if (joins(p, p->before)) {
    p = p->before;
    pull(p);
    swallow(d, p);
  }
  put(p);
}

/* Small pieces that were kept as they are become free ones. */
static void give_kept(cni_cuda_device *d, cni_cuda_queue *q)
{
  for (int i = 0; i < CNI_CUDA_SMALL_CLASSES && q->kept_bytes; i++)
    while (q->kept[i]) {
      cni_cuda_piece *p = q->kept[i];
      q->kept[i] = p->next;
      q->kept_bytes -= p->size;
      cni_cuda_piece_give(d, p);
    }
}

/* ---- segments ---- */

/* A free piece that is a whole segment, out of its list. */
static cni_cuda_piece *new_segment(cni_cuda_device *d, cni_cuda_queue *q, int kind, size_t bytes)
{
  CUdeviceptr at;
  cn_device_memory_stats *m = &d->memory;
  if (m->limit && m->reserved[CN_MEMORY_ALL].now + bytes > m->limit) return NULL;
  cni_cuda_driver()->cuCtxSetCurrent(d->context);
  if (cni_cuda_driver()->cuMemAlloc(&at, bytes) != CUDA_SUCCESS) return NULL;
  cni_cuda_piece *p = new_piece(d, at, bytes, q, kind);
  if (!p) {
    cni_cuda_driver()->cuMemFree(at);
    return NULL;
  }
  cni_cuda_happened(d, CN_MEMORY_SEGMENT_TAKEN, at, bytes, q->stream, cni_cuda_host->op_running());
  cni_cuda_count_up(m->segments, kind, 1);
  cni_cuda_count_up(m->reserved, kind, bytes);
  put(p);
  return p;
}

static size_t segment_for(const cni_cuda_queue *q, int kind, size_t size)
{
  if (q->alone) return size < least_segment ? least_segment : size;
  if (kind == CN_MEMORY_SMALL) return cni_cuda_small_segment;
  return size < medium_most ? medium_segment : (size + page - 1) / page * page;
}

static cni_cuda_piece *grow(cni_cuda_device *d, cni_cuda_queue *q, int kind, size_t size)
{
  size_t bytes = segment_for(q, kind, size);
  cni_cuda_piece *p = new_segment(d, q, kind, bytes);
  return p || bytes == size ? p : new_segment(d, q, kind, size);
}

static bool is_idle(const cni_cuda_piece *p) { return !p->before && !p->behind; }

/* Of a piece in no list that is a whole segment. */
static void end_segment(cni_cuda_device *d, cni_cuda_piece *p)
{
  cni_cuda_happened(d, CN_MEMORY_SEGMENT_GIVEN, p->at, p->size, p->queue->stream, NULL);
  cni_cuda_driver()->cuMemFree(p->at);
  cni_cuda_count_down(d->memory.segments, p->kind, 1);
  cni_cuda_count_down(d->memory.reserved, p->kind, p->size);
  end_piece(d, p);
}

/* Of segments that nobody uses, the smallest first, until so many bytes are gone. Returns how many of them are left. */
static size_t trim_pool(cni_cuda_device *d, const cni_cuda_pool *pool, size_t wanted)
{
  for (int bin = next_filled(pool, 0); bin >= 0 && wanted; bin = next_filled(pool, bin + 1))
    for (cni_cuda_piece *p = pool->bins[bin], *next; p && wanted; p = next) {
      next = p->next;
      if (!is_idle(p)) continue;
      pull(p);
      wanted -= p->size < wanted ? p->size : wanted;
      end_segment(d, p);
    }
  return wanted;
}

static bool has_idle(const cni_cuda_device *d)
{
  for (const cni_cuda_queue *q = &d->own; q; q = q == &d->own ? d->others : q->next)
    for (int k = 0; k < 2; k++)
      for (int bin = next_filled(&q->pools[k], 0); bin >= 0; bin = next_filled(&q->pools[k], bin + 1))
        for (const cni_cuda_piece *p = q->pools[k].bins[bin]; p; p = p->next)
          if (is_idle(p)) return true;
  return false;
}

/* Not the context: in one of its streams work may be recorded, which cannot be waited for. */
static void wait_for_streams(const cni_cuda_device *d)
{
  cni_cuda_driver()->cuCtxSetCurrent(d->context);
  cni_cuda_driver()->cuStreamSynchronize(d->own.stream);
  for (const cni_cuda_queue *q = d->others; q; q = q->next) cni_cuda_driver()->cuStreamSynchronize(q->stream);
}

void cni_cuda_segments_trim(cni_cuda_device *d, size_t wanted)
{
  wait_for_streams(d);
  for (cni_cuda_queue *q = &d->own; q; q = q == &d->own ? d->others : q->next) {
    if (wanted == SIZE_MAX) give_kept(d, q);
    wanted = trim_pool(d, &q->pools[1], wanted);
    wanted = trim_pool(d, &q->pools[0], wanted);
  }
}

/* ---- taking ---- */

/* How far another segment would go beyond what is in proportion to the most that was ever in use. Then sizes have
 * changed, and segments that nobody uses make room for it. */
static size_t too_far(const cni_cuda_device *d, const cni_cuda_queue *q, int kind, size_t size)
{
  const cn_device_memory_stats *m = &d->memory;
  size_t most = m->used[CN_MEMORY_ALL].now + size;
  size_t reserved = m->reserved[CN_MEMORY_ALL].now + segment_for(q, kind, size);
  if (most < m->used[CN_MEMORY_ALL].peak) most = m->used[CN_MEMORY_ALL].peak;
  most += most / 5 + medium_segment;
  return reserved > most ? reserved - most : 0;
}

/* A large segment that nobody uses at the moment is left whole for those who will ask for as much again, while there
 * is room for another. */
static bool stays_whole(const cni_cuda_piece *p, size_t size)
{
  return is_idle(p) && p->size >= least_whole && p->size / 4 >= size;
}

cni_cuda_piece *cni_cuda_piece_take(cni_cuda_device *d, cni_cuda_queue *q, int kind, size_t size)
{
  const cni_cuda_pool *pool = &q->pools[kind == CN_MEMORY_LARGE];
  cni_cuda_piece *p = fit(pool, size);
  if (p && stays_whole(p, size) && !too_far(d, q, kind, size)) {
    cni_cuda_piece *other = grow(d, q, kind, size);
    if (other) p = other;
  }
  if (!p && kind == CN_MEMORY_SMALL && q->kept_bytes >= cni_cuda_small_segment) {
    give_kept(d, q);
    p = fit(pool, size);
  }
  size_t beyond = p ? 0 : too_far(d, q, kind, size);
  if (beyond && has_idle(d)) cni_cuda_segments_trim(d, beyond);
  if (!p) p = grow(d, q, kind, size);
  return p ? cut(d, p, size) : NULL;
}

cni_cuda_piece *cni_cuda_piece_take_hard(cni_cuda_device *d, cni_cuda_queue *q, int kind, size_t size)
{
  cni_cuda_segments_trim(d, SIZE_MAX); /* all streams are done: what is free in one may be used in another */
  d->memory.retries++;
  cni_cuda_piece *p = fit(&q->pools[kind == CN_MEMORY_LARGE], size);
  if (!p) p = grow(d, q, kind, size);
  for (int pool = 1; pool >= 0 && !p; pool--) /* a small piece may be of a large segment, too */
    for (cni_cuda_queue *other = &d->own; other && !p; other = other == &d->own ? d->others : other->next)
      if (pool || kind == CN_MEMORY_SMALL) p = fit(&other->pools[pool], size);
  if (!p || !(p = cut(d, p, size))) return NULL;
  p->queue = q;
  return p;
}

/* ---- without caching: a segment is one block ---- */

cni_cuda_piece *cni_cuda_segment_take(cni_cuda_device *d, cni_cuda_queue *q, int kind, size_t size)
{
  cni_cuda_piece *p = new_segment(d, q, kind, size < STEPS ? STEPS : size);
  if (p) pull(p);
  return p;
}

bool cni_cuda_segment_give(cni_cuda_device *d, cni_cuda_piece *p)
{
  const cni_cuda_queue *q = &d->own;
  while (q && q != p->queue) q = q == &d->own ? d->others : q->next;
  if (!q || !is_idle(p)) return false; /* a recording's memory stays until it ends */
  cni_cuda_driver()->cuCtxSetCurrent(d->context);
  end_segment(d, p);
  return true;
}

/* ---- queues that end, and numbers ---- */

void cni_cuda_pieces_join(cni_cuda_device *d, cni_cuda_queue *q)
{
  const cni_cuda_pieces *t = &d->pieces;
  give_kept(d, q);
  for (size_t i = 0; t->slots && i < (size_t)1 << t->bits; i++) /* those in use, and in lists below */
    if (t->slots[i] && t->slots[i]->queue == q && t->slots[i]->state == CNI_CUDA_USED) t->slots[i]->queue = &d->own;
  for (int k = 0; k < 2; k++)
    for (int bin = next_filled(&q->pools[k], 0); bin >= 0; bin = next_filled(&q->pools[k], bin))
      while (q->pools[k].bins[bin]) {
        cni_cuda_piece *p = q->pools[k].bins[bin];
        pull(p);
        p->queue = &d->own;
        cni_cuda_piece_give(d, p);
      }
  d->own.live += q->live;
  q->live = 0;
}

void cni_cuda_pieces_gaps(const cni_cuda_device *d, cn_device_memory_stats *stats, size_t *largest)
{
  const cni_cuda_pieces *t = &d->pieces;
  *largest = 0;
  for (size_t i = 0; t->slots && i < (size_t)1 << t->bits; i++) {
    const cni_cuda_piece *p = t->slots[i];
    if (!p || p->state == CNI_CUDA_USED) continue;
    if (p->size > *largest) *largest = p->size;
    if (!p->before && !p->behind) continue;
    stats->gaps[CN_MEMORY_ALL]++, stats->gaps[p->kind]++;
    stats->gap_bytes[CN_MEMORY_ALL] += p->size, stats->gap_bytes[p->kind] += p->size;
  }
}

void cni_cuda_pieces_show(const cni_cuda_device *d, void (*each)(const cn_memory_piece *piece, void *payload),
                          void *payload)
{
  const cni_cuda_pieces *t = &d->pieces;
  for (size_t i = 0; t->slots && i < (size_t)1 << t->bits; i++) {
    const cni_cuda_piece *p = t->slots[i];
    if (!p || p->before) continue;
    for (const uint64_t segment = p->at; p; p = p->behind) {
      bool used = p->state == CNI_CUDA_USED;
      cn_memory_piece shown = {.segment = segment, .at = p->at, .bytes = p->size, .used = used,
                               .asked = used ? p->asked : 0, .op = used ? p->op : NULL,
                               .stream = (uint64_t)(uintptr_t)p->queue->stream, .small = p->kind == CN_MEMORY_SMALL};
      each(&shown, payload);
    }
  }
}

void cni_cuda_pieces_exit(cni_cuda_device *d)
{
  cni_cuda_pieces *t = &d->pieces;
  while (t->slabs) {
    slab *s = t->slabs;
    t->slabs = s->next;
    cni_cuda_host->free_memory(s, sizeof *s);
  }
  if (t->slots) cni_cuda_host->free_memory(t->slots, sizeof *t->slots << t->bits);
  *t = (cni_cuda_pieces){0};
}
