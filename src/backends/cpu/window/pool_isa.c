/* pool_isa.c: the loops of the pools, compiled once per instruction-set level and element type; pool_kernel.inc holds
 * them.
 *
 * Invariant: exports one table, named for its level. */
#include "pool_isa.h"

#include <math.h>
#include <string.h>

#if CNI_ISA_LEVEL > 0
#include "backends/cpu/walk/lanes.h"
#endif

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

#if CNI_ISA_LEVEL > 0
static void part_2(float (*to)[RUN + REACH], const float *x, int64_t n)
{
  for (int64_t k = 0; 2 * k < n; k += CNI_LANES) {
    const int64_t left = n - 2 * k;
    cni_lanes a = cni_load_lanes(cni_first_lanes(left), x + 2 * k);
    cni_lanes b = cni_load_lanes(cni_first_lanes(left - CNI_LANES), x + 2 * k + CNI_LANES);
    cni_store_all(to[0] + k, cni_evens(a, b));
    cni_store_all(to[1] + k, cni_odds(a, b));
  }
}
#else
static void part_2(float (*to)[RUN + REACH], const float *x, int64_t n) { part(to, x, n, 2); }
#endif

/* A row of n windows' taps, of which the first window's begins at x: parted so that each tap's lie side by side. */
static void value_row(const cni_pool *p, float *best, float (*parts)[RUN + REACH], const float *x, int64_t n)
{
  const int64_t step = p->stride[1], apart = p->dilation[1], all = (p->kernel[1] - 1) * apart + 1;
  const int64_t count = (n - 1) * step + all, rounded = (n + ROUND - 1) / ROUND * ROUND;
  const bool parted = (step <= 2 || step == 4) && all / step < REACH - ROUND;
  if (parted && step == 1) memcpy(parts[0], x, (size_t)count * sizeof *x);
  else if (parted && step == 2) part_2(parts, x, count);
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
    for (int64_t k = 0; k < (n + ROUND - 1) / ROUND * ROUND; k++) best[k] = -INFINITY;
    for (int64_t i = i0; i < i1; i++) value_row(p, best, parts, x + (top + i * p->dilation[0]) * p->w + left, n);
    memcpy(y + o, best, (size_t)n * sizeof *best);
  }
}

/* Windows that overlap: along rows first, each of which is looked at once, then down. Of equals the first one counts,
 * and of NaNs the last, as when windows are looked at row by row. */
enum { MOST_ROWS = 16 };

static bool is_apart(const cni_pool *p)
{
  const int64_t *k = p->kernel, all = (k[1] - 1) * p->dilation[1] + 1;
  return p->dilation[0] == 1 && k[0] > 1 && k[0] <= MOST_ROWS && p->stride[1] <= PARTS && all < REACH - ROUND &&
         p->stride[0] * k[1] + k[0] <= k[0] * k[1];
}

/* The n windows' taps in a row of x that begin at column `left`, with what lies outside. */
static const float *with_border(const cni_pool *p, float *piece, const float *row, int64_t left, int64_t n)
{
  const int64_t count = (n - 1) * p->stride[1] + (p->kernel[1] - 1) * p->dilation[1] + 1;
  if (left >= 0 && left + count <= p->w) return row + left;
  const int64_t first = most(0, -left), last = most(first, least(count, p->w - left));
  for (int64_t i = 0; i < least(first, count); i++) piece[i] = -INFINITY;
  if (last > first) memcpy(piece + first, row + left + first, (size_t)(last - first) * sizeof *piece);
  for (int64_t i = last; i < count; i++) piece[i] = -INFINITY;
  return piece;
}

/* Windows [o, o + n) of all rows; n is RUN at most. */
static void values_apart(const cni_pool *p, float (*parts)[RUN + REACH], const float *x, int64_t o, int64_t n, float *y)
{
  const int64_t rows = p->kernel[0], left = o * p->stride[1] - p->padding[1];
  const int64_t rounded = (n + ROUND - 1) / ROUND * ROUND;
  float along[MOST_ROWS][RUN], piece[PARTS * RUN + REACH], best[RUN], *at[3];
  int64_t next = 0; /* row of x */
  for (int64_t oh = 0; oh < p->oh; oh++) {
    const int64_t top = oh * p->stride[0] - p->padding[0], begin = most(0, top), end = least(p->h, top + rows);
    for (next = most(next, begin); next < end; next++) {
      float *to = along[next % rows];
      for (int64_t k = 0; k < rounded; k++) to[k] = -INFINITY;
      value_row(p, to, parts, with_border(p, piece, x + next * p->w, left, n), n);
    }
    for (int64_t k = 0; k < rounded; k++) best[k] = -INFINITY;
    for (int64_t i = begin, some; i < end; i += some) {
      some = least(3, end - i);
      for (int64_t k = 0; k < some; k++) at[k] = along[(i + k) % rows];
      if (some == 3) value_taps(best, at, rounded, 3);
      else if (some == 2) value_taps(best, at, rounded, 2);
      else value_taps(best, at, rounded, 1);
    }
    memcpy(y + oh * p->ow + o, best, (size_t)n * sizeof *best);
  }
}

static void max_values(const cni_pool *p, const void *from, void *to)
{
  const float *x = from;
  float *y = to, parts[PARTS][RUN + REACH] = {{0}};
  int64_t first, last, none;
  if (is_apart(p)) {
    for (int64_t o = 0; o < p->ow; o += RUN) values_apart(p, parts, x, o, least(RUN, p->ow - o), y);
    return;
  }
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
