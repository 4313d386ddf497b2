/* pool_isa.c: the loops of the pools, compiled once per instruction-set level and element type; pool_kernel.inc holds
 * them.
 *
 * Invariant: exports one table, named for its level. */
#include "pool_isa.h"

#include <math.h>
#include <string.h>

/* Windows of a row that are looked at together; lanes of the widest vector; strides whose taps are parted, and how far
 * a window may reach beyond the next ones then. */
enum { RUN = 128, ROUND = 16, PARTS = 4, REACH = 64 };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Taps [first, last) of window o that lie inside an image of this size. */
static inline void taps(const cni_pool *p, int d, int64_t o, int64_t *first, int64_t *last)
{
  int64_t start = o * p->stride[d] - p->padding[d], size = d ? p->w : p->h;
  *first = start < 0 ? parts(-start, p->dilation[d]) : 0;
  *last = start < size ? least(p->kernel[d], parts(size - start, p->dilation[d])) : 0;
}

/* Windows [first, last) whose taps all lie inside the image. */
static inline void whole_windows(const cni_pool *p, int64_t *first, int64_t *last)
{
  int64_t room = p->w + p->padding[1] - (p->kernel[1] - 1) * p->dilation[1] - 1;
  *first = least(parts(p->padding[1], p->stride[1]), p->ow);
  *last = room < 0 ? *first : most(*first, least(room / p->stride[1] + 1, p->ow));
}

/* Bounds of adaptive window o of n over `size` elements. */
static inline int64_t adaptive_first(int64_t o, int64_t n, int64_t size)
{
  return o / n * size + o % n * size / n;
}
static inline int64_t adaptive_last(int64_t o, int64_t n, int64_t size)
{
  return size - (n - 1 - o) * size / n;
}

/* The number an average divides by: window elements that lie in the image or its padding. */
static inline int64_t divisor_of(const cni_pool *p, int64_t oh, int64_t ow, int64_t rows, int64_t cols)
{
  if (p->divisor) return p->divisor;
  if (!p->include_pad) return rows * cols;
  int64_t y = oh * p->stride[0] - p->padding[0], x = ow * p->stride[1] - p->padding[1];
  return (least(y + p->kernel[0], p->h + p->padding[0]) - y) *
         (least(x + p->kernel[1], p->w + p->padding[1]) - x);
}

#define T float
#define INDEX int32_t
#define NAME(name) name##_f32
#define LOWEST (-INFINITY)
#define IS_NAN(x) ((x) != (x))
#include "pool_kernel.inc"

#define T double
#define INDEX int64_t
#define NAME(name) name##_f64
#define LOWEST ((double)-INFINITY)
#define IS_NAN(x) ((x) != (x))
#include "pool_kernel.inc"

#define T int64_t
#define INDEX int64_t
#define NAME(name) name##_i64
#define LOWEST INT64_MIN
#define IS_NAN(x) false
#include "pool_kernel.inc"

#define KERNELS(s)                                                                                                     \
  {                                                                                                                    \
    max_##s, max_values_##s, max_backward_##s, avg_##s, avg_backward_##s, adaptive_##s, adaptive_max_##s,              \
      adaptive_backward_##s                                                                                            \
  }

const cni_pool_kernels CNI_ISA_NAME(cni_pool_kernels)[3] = {KERNELS(f32), KERNELS(f64), KERNELS(i64)};
