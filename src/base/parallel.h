/* parallel.h: the one seam for using several cores.
 *
 * Invariant: the split of work never changes a result; kernels must give the same bits for any split. */
#ifndef CNI_BASE_PARALLEL_H
#define CNI_BASE_PARALLEL_H

#include <cairn/base.h>

typedef void (*cni_range_fn)(int64_t begin, int64_t end, void *payload);

/* Runs fn over [0, n) in ranges of at least `grain`, on this thread and the pool's. Runs on this thread alone when
 * n <= grain, when nested, or with one thread. An error set inside fn reaches the caller's state. */
void cni_parallel_for(int64_t n, int64_t grain, cni_range_fn fn, void *payload);
/* The grain for `items` that are `work` together, of which `enough` is worth handing to a thread. */
static inline int64_t cni_grain(double work, int64_t items, double enough)
{
  double need = enough * (double)items / (work > 1 ? work : 1);
  return need < 1 ? 1 : need < (double)items ? (int64_t)need + 1 : items;
}
void cni_parallel_alone(bool alone); /* this thread's regions run as if nested */

#endif
