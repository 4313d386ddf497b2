/* gemm_blocked.h: what gemm.c and gemm_blocked.c share: products in blocks that are packed for the caches, and how work
 * is handed to the threads.
 *
 * Invariant: an element of C is computed by the same chain of operations whichever piece of work it falls into. */
#ifndef CNI_CPU_GEMM_BLOCKED_H
#define CNI_CPU_GEMM_BLOCKED_H

#include "base/parallel.h"
#include "gemm_isa.h"

enum { GRAIN_WORK = 1 << 20 /* multiply-adds worth waking a thread for */ };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* In floating point, since it may exceed 64 bits. */
static inline double work_of(const cni_gemm *g) { return (double)g->m * (double)g->n * (double)g->k; }

/* Runs fn over [0, items), on several threads where there is `enough` of the `work` for two. They are woken once:
 * pieces may be smaller, so that many threads have some. */
static inline void in_parallel(int64_t items, double work, double enough, cni_range_fn fn, void *payload)
{
  cni_parallel_for(items, work < 2 * enough ? items : cni_grain(work, items, enough / 4), fn, payload);
}

/* Blocks of k of equal depth: a short last one would pay for C's traffic with little work. */
static inline int64_t block_depth(const cni_gemm *g, const cni_gemm_kernels *ker)
{
  return parts(g->k, parts(g->k, ker->kc));
}

/* C's rows are row-major. 0 or CN_ERR_MEMORY. */
int cni_gemm_blocked(const cni_gemm *g, const cni_gemm_kernels *ker);
/* B for it, in blocks of `depth`. */
void cni_gemm_pack_b(const cni_gemm *g, const cni_gemm_kernels *ker, int64_t depth, void *to);

#endif
