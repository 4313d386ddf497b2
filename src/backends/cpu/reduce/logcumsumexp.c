/* logcumsumexp.c: running sums of exponentials, kept as logarithms, along a dim on the CPU.
 *
 * Place in the flow: the kernel of ops/quantile.c. The input is brought into the result's memory first where its layout
 * differs. Invariant: each line is one chain in double, so results depend on neither the layout nor the number of
 * threads. */
#include <math.h>

#include "backends/cpu/cpu.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

enum { GRAIN = 1024 };

/* The data as (outer, n, inner), row-major. */
typedef struct scan {
  int64_t n, inner;
  const void *x;
  void *y;
} scan;

/* log(exp(sum) + exp(v)); infinities stay, NaN wins. */
static inline double log_add(double sum, double v)
{
  double low = v < sum ? v : sum, high = v < sum ? sum : v;
  if (v != v || sum != sum) return v + sum;
  return low == high && isinf(low) ? v : high + log1p(exp(low - high));
}

#define SAME(v) (v)
#define LINES(S, T, LOAD, STORE)                                                                    \
  static void lines_##S(int64_t begin, int64_t end, void *payload)                                  \
  {                                                                                                 \
    const scan *s = payload;                                                                        \
    for (int64_t line = begin; line < end; line++) {                                                \
      int64_t at = line / s->inner * s->n * s->inner + line % s->inner;                             \
      const T *x = (const T *)s->x + at;                                                            \
      T *y = (T *)s->y + at;                                                                        \
      double sum = -HUGE_VAL;                                                                       \
      for (int64_t i = 0; i < s->n; i++) {                                                          \
        sum = log_add(sum, (double)LOAD(x[i * s->inner]));                                          \
        y[i * s->inner] = STORE(sum);                                                               \
      }                                                                                             \
    }                                                                                               \
  }
#define TO_F32(v) ((float)(v))
#define TO_F16(v) cni_f32_to_f16((float)(v))
#define TO_BF16(v) cni_f32_to_bf16((float)(v))
LINES(f64, double, SAME, SAME)
LINES(f32, float, SAME, TO_F32)
LINES(f16, uint16_t, cni_f16_to_f32, TO_F16)
LINES(bf16, uint16_t, cni_bf16_to_f32, TO_BF16)

/* logcumsumexp(input, dim) */
static int logcumsumexp_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int dim = cn_call_dim(c, c->args[1].u.i, x->ndim);
  if (y->numel == 0) return CN_OK;
  scan s = {.n = x->ndim ? x->shape[dim] : 1, .inner = 1, .x = x->data, .y = y->data};
  for (int i = dim + 1; i < x->ndim; i++) s.inner *= x->shape[i];
  if (!cni_is_contiguous(x->ndim, x->shape, x->strides)) {
    cni_cpu_copy(y, x);
    s.x = y->data;
  }
  cni_parallel_for(y->numel / s.n, s.n < GRAIN ? GRAIN / s.n : 1,
                   y->dtype == CN_F64   ? lines_f64
                   : y->dtype == CN_F32 ? lines_f32
                   : y->dtype == CN_F16 ? lines_f16
                                        : lines_bf16,
                   &s);
  return CN_OK;
}

const cn_kernel cni_cpu_logcumsumexp_kernels[] = {{"logcumsumexp", "lines", logcumsumexp_kernel}, {NULL, NULL, NULL}};
