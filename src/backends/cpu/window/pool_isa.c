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

/* ---- max in float32, without places ---- */

/* best: of n windows, a multiple of ROUND; at[j]: their tap j. */
static inline __attribute__((always_inline)) void value_taps(float *restrict best, float *const *at, int64_t n,
                                                             const int64_t taps)
{
  for (int64_t k = 0; k < n; k++) {
    float most = best[k];
    for (int64_t j = 0; j < taps; j++) {
      float v = at[j][k];
      bool take = v > most || v != v;
      most = take ? v : most;
    }
    best[k] = most;
  }
}

/* to[s][k] = x[k * step + s], of n elements */
static inline __attribute__((always_inline)) void part(float (*to)[RUN + REACH], const float *restrict x, int64_t n,
                                                       const int64_t step)
{
  for (int64_t k = 0; k < n / step; k++)
    for (int64_t s = 0; s < step; s++) to[s][k] = x[k * step + s];
  for (int64_t e = n / step * step; e < n; e++) to[e % step][e / step] = x[e];
}

/* A row of n windows' taps, of which the first window's begins at x: parted so that each tap's lie side by side. */
static void value_row(const cni_pool *p, float *best, float (*parts)[RUN + REACH], const float *x, int64_t n)
{
  const int64_t step = p->stride[1], apart = p->dilation[1], all = (p->kernel[1] - 1) * apart + 1;
  const int64_t count = (n - 1) * step + all, rounded = (n + ROUND - 1) / ROUND * ROUND;
  const bool parted = (step <= 2 || step == 4) && all / step < REACH - ROUND;
  if (parted && step == 1) memcpy(parts[0], x, (size_t)count * sizeof *x);
  else if (parted && step == 2) part(parts, x, count, 2);
  else if (parted) part(parts, x, count, 4);
  float *at[3];
  for (int64_t j = 0, taps; j < p->kernel[1]; j += taps) {
    taps = parted ? least(3, p->kernel[1] - j) : 1;
    for (int64_t i = 0; i < taps && parted; i++) at[i] = parts[(j + i) * apart % step] + (j + i) * apart / step;
    if (!parted) {
      at[0] = parts[0];
      for (int64_t k = 0; k < n; k++) parts[0][k] = x[k * step + j * apart];
    }
    if (taps == 3) value_taps(best, at, rounded, 3);
    else if (taps == 2) value_taps(best, at, rounded, 2);
    else value_taps(best, at, rounded, 1);
  }
}

/* As max_run. Behind the last window numbers are computed that nobody reads. */
static void value_run(const cni_pool *p, float (*parts)[RUN + REACH], const float *x, int64_t oh, int64_t first,
                      int64_t last, float *y)
{
  float best[RUN];
  int64_t i0, i1, top = oh * p->stride[0] - p->padding[0];
  taps(p, 0, oh, &i0, &i1);
  for (int64_t o = first; o < last; o += RUN) {
    int64_t n = least(RUN, last - o), left = o * p->stride[1] - p->padding[1];
    for (int64_t k = 0; k < RUN; k++) best[k] = -INFINITY;
    for (int64_t i = i0; i < i1; i++) value_row(p, best, parts, x + (top + i * p->dilation[0]) * p->w + left, n);
    memcpy(y + o, best, (size_t)n * sizeof *best);
  }
}

static void max_values(const cni_pool *p, const void *from, void *to)
{
  const float *x = from;
  float *y = to, parts[PARTS][RUN + REACH] = {{0}};
  int64_t first, last, none;
  cni_pool line = *p; /* windows of one row that lie side by side: all rows are one */
  if (p->kernel[0] == 1 && p->stride[0] == 1 && !p->padding[0] && p->kernel[1] == p->stride[1] &&
      p->dilation[1] == 1 && p->w == p->ow * p->kernel[1]) {
    line.h = line.oh = 1;
    line.w *= p->h;
    line.ow *= p->oh;
    p = &line;
  }
  whole_windows(p, &first, &last);
  for (int64_t oh = 0; oh < p->oh; oh++, y += p->ow) {
    for (int64_t o = 0; o < first; o++) max_window_f32(p, x, oh, o, y + o, &none);
    if (last > first) value_run(p, parts, x, oh, first, last, y);
    for (int64_t o = last; o < p->ow; o++) max_window_f32(p, x, oh, o, y + o, &none);
  }
}

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

#define KERNELS(s, values)                                                                                   \
  {                                                                                                          \
    max_##s, values, max_backward_##s, avg_##s, avg_backward_##s, adaptive_##s, adaptive_max_##s,            \
      adaptive_backward_##s                                                                                  \
  }

const cni_pool_kernels CNI_ISA_NAME(cni_pool_kernels)[3] = {KERNELS(f32, max_values), KERNELS(f64, NULL),
                                                            KERNELS(i64, NULL)};
