/* check.c: are all elements within bounds? On the CPU.
 *
 * Place in the flow: kernel of ops/check.c. One pass over memory in blocks that have no branch inside. Invariant: which
 * element the error names does not depend on the number of threads: the first in memory. */
#include <stdatomic.h>

#include "backends/cpu/cpu.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

enum { GRAIN = 1 << 15, BLOCK = 1024 };

typedef struct check {
  const void *x;
  double low, high;
  _Atomic int64_t first; /* of those outside */
} check;

static void found(check *k, int64_t i)
{
  int64_t before = k->first;
  while (i < before && !atomic_compare_exchange_weak(&k->first, &before, i)) {
  }
}

#define CHECK(S, T)                                                                                          \
  static void check_##S(int64_t begin, int64_t end, void *payload)                                           \
  {                                                                                                          \
    check *k = payload;                                                                                      \
    const T *x = k->x;                                                                                       \
    for (int64_t at = begin; at < end; at += BLOCK) {                                                        \
      int64_t stop = end - at < BLOCK ? end : at + BLOCK;                                                    \
      int outside = 0;                                                                                       \
      for (int64_t i = at; i < stop; i++) outside |= !((double)x[i] >= k->low) | !((double)x[i] <= k->high); \
      for (int64_t i = at; outside && i < stop; i++)                                                         \
        if (!((double)x[i] >= k->low && (double)x[i] <= k->high)) {                                          \
          found(k, i);                                                                                       \
          return;                                                                                            \
        }                                                                                                    \
    }                                                                                                        \
  }
CHECK(f32, float)
CHECK(f64, double)

/* check_within(input, low, high, why) */
static int check_within_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  check k = {.x = x->data, .low = c->args[1].u.f, .high = c->args[2].u.f, .first = INT64_MAX};
  size_t size = (size_t)x->numel * sizeof(double);
  double *copy = NULL;
  bool own = x->dtype == CN_F32 || x->dtype == CN_F64;
  if (!own || !cni_is_contiguous(x->ndim, x->shape, x->strides)) { /* looked at as float64 */
    if (!(copy = cni_scratch_alloc(size))) return CN_ERR_MEMORY;
    cn_desc to = cni_cpu_packed(x, CN_F64, copy);
    cni_cpu_copy(&to, x);
    k.x = copy;
  }
  bool narrow = !copy && x->dtype == CN_F32;
  cni_parallel_for(x->numel, GRAIN, narrow ? check_f32 : check_f64, &k);
  int64_t at = k.first == INT64_MAX ? 0 : k.first;
  double value = !x->numel ? 0 : narrow ? (double)((const float *)k.x)[at] : ((const double *)k.x)[at];
  cni_scratch_free(copy, size);
  *(uint8_t *)cn_desc_of(c->out[0])->data = 1;
  return k.first == INT64_MAX ? CN_OK : cni_check_failed(c->args[3].u.s, value);
}

const cn_kernel cni_cpu_check_kernels[] = {
    {"check_within", "one pass", check_within_kernel},
    {NULL, NULL, NULL},
};
