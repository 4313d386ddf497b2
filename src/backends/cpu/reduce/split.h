/* split.h: how a reduction is cut into units of work, and the runs of memory that a unit reads.
 *
 * Place in the flow: reduce.c and moments.c make a split of their cni_reduction, run its units in parallel, and walk
 * the runs of each. Invariant: the split depends on shapes and strides alone, so results never depend on the number of
 * threads. */
#ifndef CNI_CPU_SPLIT_H
#define CNI_CPU_SPLIT_H

#include "reduce.h"

enum { CNI_REDUCE_GRAIN = 16384 }; /* elements worth a thread */
enum { CNI_REDUCE_LOAD = 1024, CNI_REDUCE_ALIGN = 512 }; /* of reduce.c's split: its block, and what pieces are whole */

/* Units: (kept index, piece of the reduced range) along rows, (outer kept index, block of columns, piece) along
 * columns; the last is the fastest. */
typedef struct cni_split {
  bool columns;  /* a kept dim is innermost in memory */
  int64_t width; /* of the innermost kept dim, in columns; 1 along rows */
  int64_t block; /* columns of a unit at most; 1 along rows */
  int64_t units; /* of one piece */
  int64_t pieces, piece; /* of the reduced range, and their length */
} cni_split;

/* block: columns that a unit may have; align: pieces are multiples of it. Few results of much work get pieces. */
void cni_split_make(cni_split *s, const cni_reduction *r, int64_t block, int64_t align);
/* How many units, of s->units * s->pieces, are worth a thread. */
int64_t cni_split_grain(const cni_split *s, const cni_reduction *r);

/* One of them. Offsets are in elements: of the first column's input, and of its result. */
typedef struct cni_unit {
  int64_t in, out, n; /* n columns */
  int64_t first, stop; /* of the reduced range */
  int64_t slot;        /* of the first column, in partial results [pieces][outputs] */
} cni_unit;
cni_unit cni_split_unit(const cni_split *s, const cni_reduction *r, int64_t number);

/* Elements [at, end) of the reduced range as runs along the innermost reduced dim:
 * for (cni_runs_begin(&k, r, first, stop); k.n > 0; cni_runs_step(&k, done)) with done <= k.n elements from k.in on. */
typedef struct cni_runs {
  const cni_reduction *r;
  cni_walk walk;
  int64_t at, end, i, inner, stride; /* i: place in the run, which is `inner` long */
  int64_t in, n; /* where what is left of it starts, in elements, and how much that is; 0: the end */
} cni_runs;

static inline void cni_runs_place(cni_runs *k)
{
  int64_t left = k->end - k->at;
  k->in = k->walk.in + k->i * k->stride;
  k->n = k->inner - k->i < left ? k->inner - k->i : left;
}

static inline void cni_runs_begin(cni_runs *k, const cni_reduction *r, int64_t first, int64_t stop)
{
  int outer = r->nr - 1; /* dims around the innermost */
  k->r = r;
  k->at = first;
  k->end = stop;
  k->inner = r->nr ? r->rsize[outer] : 1;
  k->stride = r->nr ? r->rin[outer] : 1;
  k->i = first % k->inner;
  cni_walk_to(&k->walk, outer, r->rsize, r->rin, NULL, first / k->inner);
  cni_runs_place(k);
}

static inline void cni_runs_step(cni_runs *k, int64_t done)
{
  k->at += done;
  if ((k->i += done) == k->inner) {
    k->i = 0;
    if (k->at < k->end) cni_walk_step(&k->walk, k->r->nr - 1, k->r->rsize, k->r->rin, NULL);
  }
  cni_runs_place(k);
}

#endif
