/* memory.h: what the files of device memory show each other: pieces of segments, and who holds them.
 *
 * Place in the flow: segments.c takes segments from the driver, cuts and joins pieces; memory.c hands them out;
 * shortage.c says who holds them, history.c what happened to them. Invariants: the pieces of a segment lie side by side
 * without a gap; free neighbours of one queue are one piece; everything here changes under the device's lock. */
#ifndef CNI_CUDA_MEMORY_H
#define CNI_CUDA_MEMORY_H

#include "plugin.h"

enum { CNI_CUDA_ALIGN = 512 };                        /* addresses and sizes of pieces */
static const size_t cni_cuda_small_most = 1u << 20;   /* bytes of a small piece */
static const size_t cni_cuda_small_segment = 2u << 20;

typedef enum cni_cuda_piece_state {
  CNI_CUDA_FREE, /* in a list of its pool; a neighbour may join it */
  CNI_CUDA_KEPT, /* free, but small and as it is: in the list of its class */
  CNI_CUDA_USED
} cni_cuda_piece_state;

typedef struct cni_cuda_piece {
  CUdeviceptr at;
  size_t size;
  size_t asked;          /* of these bytes, by whoever uses it */
  const char *op;        /* that asked; NULL: none */
  cni_cuda_queue *queue; /* whose it is */
  struct cni_cuda_piece *before, *behind;  /* neighbours; NULL: the segment begins, or ends, here */
  struct cni_cuda_piece *next, *previous;  /* in a list */
  uint8_t state;
  uint8_t kind; /* CN_MEMORY_SMALL or CN_MEMORY_LARGE, as its segment */
} cni_cuda_piece;

static inline void cni_cuda_count_up(cn_memory_count *counts, int kind, uint64_t n)
{
  for (int k = CN_MEMORY_ALL;; k = kind) {
    cn_memory_count *c = &counts[k];
    c->now += n;
    c->total += n;
    if (c->now > c->peak) c->peak = c->now;
    if (k == kind) return;
  }
}
static inline void cni_cuda_count_down(cn_memory_count *counts, int kind, uint64_t n)
{
  counts[CN_MEMORY_ALL].now -= n;
  counts[kind].now -= n;
}

/* ---- history.c ---- */
/* Keeps an event. Holds the lock. */
void cni_cuda_keep_event(cni_cuda_device *d, cn_memory_action action, CUdeviceptr at, size_t bytes, CUstream stream,
                         const char *op);
static inline void cni_cuda_happened(cni_cuda_device *d, cn_memory_action action, CUdeviceptr at, size_t bytes,
                                     CUstream stream, const char *op)
{
  if (d->history) cni_cuda_keep_event(d, action, at, bytes, stream, op);
}
void cni_cuda_history_exit(cni_cuda_device *d);

/* ---- segments.c ---- */
/* The piece that begins there; NULL: none. */
cni_cuda_piece *cni_cuda_piece_at(const cni_cuda_device *d, CUdeviceptr at);
/* A piece of q of that size (a multiple of CNI_CUDA_ALIGN), out of a free one or a new segment, and in no list. NULL:
 * the device has no more, or the limit is reached, or host memory is out, with the error set. */
cni_cuda_piece *cni_cuda_piece_take(cni_cuda_device *d, cni_cuda_queue *q, int kind, size_t size);
/* The same when that has failed: waits for all streams, gives back what is kept in all of them, takes what others do
 * not use. */
cni_cuda_piece *cni_cuda_piece_take_hard(cni_cuda_device *d, cni_cuda_queue *q, int kind, size_t size);
/* Its piece of memory is free. */
void cni_cuda_piece_give(cni_cuda_device *d, cni_cuda_piece *p);
/* Gives segments that nobody uses back to the driver, so many bytes at least (SIZE_MAX: all), when all streams are
 * done. */
void cni_cuda_segments_trim(cni_cuda_device *d, size_t wanted);
/* Without caching: a segment of q of just so many bytes; and what was one is the driver's again. False: it is not, and
 * must be given back as others. */
cni_cuda_piece *cni_cuda_segment_take(cni_cuda_device *d, cni_cuda_queue *q, int kind, size_t size);
bool cni_cuda_segment_give(cni_cuda_device *d, cni_cuda_piece *p);
/* All pieces of q become those of the device's own queue. */
void cni_cuda_pieces_join(cni_cuda_device *d, cni_cuda_queue *q);
/* Free parts of segments that are in use, and the largest free piece. */
void cni_cuda_pieces_gaps(const cni_cuda_device *d, cn_device_memory_stats *stats, size_t *largest);
/* Calls each for all pieces, segment by segment. Holds the lock. */
void cni_cuda_pieces_show(const cni_cuda_device *d, void (*each)(const cn_memory_piece *piece, void *payload),
                          void *payload);
void cni_cuda_pieces_exit(cni_cuda_device *d); /* host memory alone */

#endif
