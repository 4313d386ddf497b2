/* softmax_isa.c: the loops of softmax, compiled once per instruction set.
 *
 * Place in the flow: the leaves below softmax.c. Invariant: sums of float32 run in LANES chains over blocks
 * whose results are added in double, whatever the instruction set. */
#include "softmax.h"

#include <float.h>
#include <string.h>

#include "backends/cpu/isa.h"
#include "backends/cpu/walk/nontemporal.h"
#include "base/maths.h"

enum { LANES = 64, BLOCK = CNI_SOFTMAX_BLOCK, TOGETHER = 2048, SENT = 512 };

/* One step of adding the lanes up; widths are written out so that each is a vector operation or two. */
#define HALVE(width)                                                                                         \
  for (int l = 0; l < width; l++) acc[l] += acc[l + width];

/* What takes the time of float32; AVX-512 has its own. */
#define HOT_LOOPS(S, T, EXP)                                                                                         \
  static double max_row_##S(const void *x_, int64_t n)                                                               \
  {                                                                                                                  \
    const T *x = x_;                                                                                                 \
    T acc[LANES];                                                                                                    \
    int64_t i = 0;                                                                                                   \
    for (int l = 0; l < LANES; l++) acc[l] = -(T)CNM_INF;                                                            \
    for (; i + LANES <= n; i += LANES)                                                                               \
      for (int l = 0; l < LANES; l++) acc[l] = x[i + l] > acc[l] ? x[i + l] : acc[l];                                \
    for (int l = 0; i < n; l++, i++) acc[l] = x[i] > acc[l] ? x[i] : acc[l];                                         \
    for (int w = LANES / 2; w; w /= 2)                                                                               \
      for (int l = 0; l < w; l++) acc[l] = acc[l + w] > acc[l] ? acc[l + w] : acc[l];                                \
    return (double)acc[0];                                                                                           \
  }                                                                                                                  \
  static T exp_block_##S(T *y, const T *x, int64_t n, T shift)                                                       \
  {                                                                                                                  \
    T acc[LANES] = {0}, e[LANES];                                                                                    \
    int64_t i = 0;                                                                                                   \
    for (; i + LANES <= n; i += LANES) {                                                                             \
      for (int l = 0; l < LANES; l++) e[l] = EXP(x[i + l] - shift);                                                  \
      for (int l = 0; l < LANES; l++) acc[l] += e[l];                                                                \
      if (y) memcpy(y + i, e, sizeof e);                                                                             \
    }                                                                                                                \
    CNI_IVDEP for (int64_t l = 0; l < n - i; l++)                                                                    \
    {                                                                                                                \
      T p = EXP(x[i + l] - shift);                                                                                   \
      acc[l] += p;                                                                                                   \
      e[l] = p;                                                                                                      \
    }                                                                                                                \
    if (y && i < n) memcpy(y + i, e, (size_t)(n - i) * sizeof *y);                                                   \
    HALVE(32) HALVE(16) HALVE(8) HALVE(4) HALVE(2) return acc[0] + acc[1];                                           \
  }                                                                                                                  \
  static double exp_row_##S(void *y_, const void *x_, int64_t n, double shift, const void *ahead)                    \
  {                                                                                                                  \
    T *y = y_;                                                                                                       \
    const T *x = x_;                                                                                                 \
    double sum = 0;                                                                                                  \
    (void)ahead;                                                                                                     \
    for (int64_t i = 0; i < n; i += BLOCK)                                                                           \
      sum += (double)exp_block_##S(y ? y + i : NULL, x + i, n - i < BLOCK ? n - i : BLOCK, (T)shift);                \
    return sum;                                                                                                      \
  }                                                                                                                  \
  /* A block is made where it stays in the cache, and sent on from there. */                                         \
  static void scale_row_##S(void *y_, const void *x_, int64_t n, double by_, bool nontemporal)                       \
  {                                                                                                                  \
    T *y = y_, by = (T)by_, made[SENT];                                                                              \
    const T *x = x_;                                                                                                 \
    for (int64_t i = 0, m; i < n; i += m) {                                                                          \
      m = nontemporal && n - i > SENT ? SENT : n - i;                                                                \
      T *to = nontemporal ? made : y + i;                                                                            \
      CNI_IVDEP for (int64_t k = 0; k < m; k++) to[k] = x[i + k] * by;                                               \
      if (nontemporal) cni_nontemporal_copy(y + i, made, (size_t)m * sizeof *y);                                     \
    }                                                                                                                \
  }                                                                                                                  \
  static void part_row_##S(void *y_, const void *x_, int64_t n, double shift_, double by_, bool nontemporal)         \
  {                                                                                                                  \
    T *y = y_, shift = (T)shift_, by = (T)by_, made[SENT];                                                           \
    const T *x = x_;                                                                                                 \
    for (int64_t i = 0, m; i < n; i += m) {                                                                          \
      m = nontemporal && n - i > SENT ? SENT : n - i;                                                                \
      T *to = nontemporal ? made : y + i;                                                                            \
      CNI_IVDEP for (int64_t k = 0; k < m; k++) to[k] = EXP(x[i + k] - shift) * by;                                  \
      if (nontemporal) cni_nontemporal_copy(y + i, made, (size_t)m * sizeof *y);                                     \
    }                                                                                                                \
  }                                                                                                                  \
  static void max_columns_##S(void *y_, int64_t ystep, void *max_, const void *x_, int64_t xstep, int64_t rows,      \
                              int64_t m)                                                                             \
  {                                                                                                                  \
    T *y = y_, *restrict max = max_;                                                                                 \
    const T *x = x_;                                                                                                 \
    for (int64_t r = 0; r < rows; r++, x += xstep) {                                                                 \
      for (int64_t k = 0; k < m; k++) max[k] = x[k] > max[k] ? x[k] : max[k];                                        \
      if (y) memcpy(y + r * ystep, x, (size_t)m * sizeof *x);                                                        \
    }                                                                                                                \
  }                                                                                                                  \
  static void exp_some_##S(T *y, int64_t ystep, T *sum, const T *x, int64_t xstep, const T *max, int64_t rows,       \
                           int64_t m)                                                                                \
  {                                                                                                                  \
    T acc[SENT];                                                                                                     \
    for (int64_t k = 0; k < m; k++) acc[k] = 0;                                                                      \
    for (int64_t r = 0; r < rows; r++, x += xstep) {                                                                 \
      T *to = y ? y + r * ystep : NULL;                                                                              \
      if (to) CNI_IVDEP for (int64_t k = 0; k < m; k++) acc[k] += to[k] = EXP(x[k] - max[k]);                        \
      else CNI_IVDEP for (int64_t k = 0; k < m; k++) acc[k] += EXP(x[k] - max[k]);                                   \
    }                                                                                                                \
    for (int64_t k = 0; k < m; k++) sum[k] += acc[k];                                                                \
  }                                                                                                                  \
  static void exp_columns_##S(void *y_, int64_t ystep, void *sum_, const void *x_, int64_t xstep, const void *max_,  \
                              int64_t rows, int64_t m)                                                               \
  {                                                                                                                  \
    T *y = y_, *sum = sum_;                                                                                          \
    const T *x = x_, *max = max_;                                                                                    \
    for (int64_t k = 0; k < m; k += SENT)                                                                            \
      exp_some_##S(y ? y + k : NULL, ystep, sum + k, x + k, xstep, max + k, rows, m - k < SENT ? m - k : SENT);      \
  }                                                                                                                  \
  static void lift_columns_##S(void *sum_, void *max_, const void *top_, int64_t m)                                  \
  {                                                                                                                  \
    T *sum = sum_, *max = max_;                                                                                      \
    const T *top = top_;                                                                                             \
    CNI_IVDEP for (int64_t k = 0; k < m; k++)                                                                        \
    {                                                                                                                \
      sum[k] *= EXP(max[k] - top[k]);                                                                                \
      max[k] = top[k];                                                                                               \
    }                                                                                                                \
  }                                                                                                                  \
  static void part_columns_##S(void *y_, int64_t ystep, const void *x_, int64_t xstep, const void *max_,             \
                               const void *by_, int64_t rows, int64_t m)                                             \
  {                                                                                                                  \
    T *y = y_;                                                                                                       \
    const T *x = x_, *max = max_, *by = by_;                                                                         \
    for (int64_t r = 0; r < rows; r++, x += xstep, y += ystep)                                                       \
      CNI_IVDEP for (int64_t k = 0; k < m; k++) y[k] = EXP(x[k] - max[k]) * by[k];                                   \
  }

#define LOOPS(S, T, EXP, LOG, MOST)                                                                                \
  static void shift_row_##S(void *y_, const void *x_, int64_t n, double a_, double b_)                       \
  {                                                                                                          \
    T *y = y_, a = (T)a_, b = (T)b_;                                                                         \
    const T *x = x_;                                                                                         \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = x[i] - a - b;                                           \
  }                                                                                                          \
  static T dot_block_##S(const T *a, const T *b, int64_t n)                                                  \
  {                                                                                                          \
    T acc[LANES] = {0};                                                                                      \
    int64_t i = 0;                                                                                           \
    for (; i + LANES <= n; i += LANES)                                                                       \
      for (int l = 0; l < LANES; l++) acc[l] += a[i + l] * b[i + l];                                         \
    for (int l = 0; i < n; l++, i++) acc[l] += a[i] * b[i];                                                  \
    HALVE(32) HALVE(16) HALVE(8) HALVE(4) HALVE(2) return acc[0] + acc[1];                                   \
  }                                                                                                          \
  static double dot_##S(const void *a_, const void *b_, int64_t n)                                           \
  {                                                                                                          \
    const T *a = a_, *b = b_;                                                                                \
    double sum = 0;                                                                                          \
    for (int64_t i = 0; i < n; i += BLOCK)                                                                   \
      sum += (double)dot_block_##S(a + i, b + i, n - i < BLOCK ? n - i : BLOCK);                             \
    return sum;                                                                                              \
  }                                                                                                          \
  static void grad_row_##S(void *y_, const void *g_, const void *p_, int64_t n, double s_)                   \
  {                                                                                                          \
    T *y = y_, s = (T)s_;                                                                                    \
    const T *g = g_, *p = p_;                                                                                \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = p[i] * (g[i] - s);                                      \
  }                                                                                                          \
  static void log_grad_row_##S(void *y_, const void *g_, const void *p_, int64_t n, double s_)               \
  {                                                                                                          \
    T *y = y_, s = (T)s_;                                                                                    \
    const T *g = g_, *p = p_;                                                                                \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = g[i] - EXP(p[i]) * s;                                   \
  }                                                                                                          \
  static T largest_##S(const T *x, int64_t n)                                                                \
  {                                                                                                          \
    T max = x[0];                                                                                            \
    for (int64_t i = 1; i < n; i++) max = ((x[i] > max) | (x[i] != x[i])) ? x[i] : max;                      \
    return max;                                                                                              \
  }                                                                                                          \
  static T total_##S(const T *x, int64_t n)                                                                  \
  {                                                                                                          \
    T a = 0, b = 0, c = 0, d = 0;                                                                            \
    int64_t i = 0;                                                                                           \
    for (; i + 4 <= n; i += 4) a += x[i], b += x[i + 1], c += x[i + 2], d += x[i + 3];                       \
    for (; i < n; i++) a += x[i];                                                                            \
    return (a + b) + (c + d);                                                                                \
  }                                                                                                          \
  /* The exponentials of many rows run in one loop. */                                                       \
  static void short_block_##S(T *y, const T *x, int64_t rows, int64_t n, bool logs)                          \
  {                                                                                                          \
    T power[TOGETHER + CNI_SOFTMAX_SHORT], *e = logs ? power : y;                                            \
    for (int64_t r = 0; r < rows; r++) {                                                                     \
      T max = largest_##S(x + r * n, n);                                                                     \
      for (int64_t i = 0; i < n; i++) y[r * n + i] = x[r * n + i] - max;                                     \
    }                                                                                                        \
    CNI_IVDEP for (int64_t i = 0; i < rows * n; i++) e[i] = EXP(y[i]);                                       \
    for (int64_t r = 0; r < rows; r++) {                                                                     \
      T sum = total_##S(e + r * n, n), shift = logs ? LOG(sum) : 0;                                          \
      if (logs)                                                                                              \
        for (int64_t i = 0; i < n; i++) y[r * n + i] -= shift;                                               \
      else                                                                                                   \
        for (int64_t i = 0; i < n; i++) y[r * n + i] /= sum;                                                 \
    }                                                                                                        \
  }                                                                                                          \
  static void short_rows_##S(void *y_, const void *x_, int64_t rows, int64_t n, bool logs)                   \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *x = x_;                                                                                         \
    int64_t most = TOGETHER / n;                                                                             \
    for (int64_t r = 0; r < rows; r += most)                                                                 \
      short_block_##S(y + r * n, x + r * n, rows - r < most ? rows - r : most, n, logs);                     \
  }                                                                                                          \
  static void scale_columns_##S(void *y_, const void *x_, const void *by_, int64_t m)                        \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *x = x_, *by = by_;                                                                              \
    CNI_IVDEP for (int64_t k = 0; k < m; k++) y[k] = x[k] * by[k];                                           \
  }                                                                                                          \
  static void start_columns_##S(void *sum_, void *max_, int64_t m)                                           \
  {                                                                                                          \
    T *sum = sum_, *max = max_;                                                                              \
    for (int64_t j = 0; j < m; j++) sum[j] = 0, max[j] = -MOST;                                              \
  }                                                                                                          \
  static void invert_columns_##S(void *y_, int64_t m)                                                        \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    for (int64_t j = 0; j < m; j++) y[j] = (T)(1 / (double)y[j]);                                            \
  }                                                                                                          \
  static void total_columns_##S(void *y_, const void *max_, const void *logs_, int64_t m)                    \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *max = max_, *logs = logs_;                                                                      \
    CNI_IVDEP for (int64_t j = 0; j < m; j++) y[j] = max[j] + logs[j];                                       \
  }                                                                                                          \
  static void shift_columns_##S(void *y_, int64_t ystep, const void *x_, int64_t xstep, const void *a_,      \
                                const void *b_, int64_t rows, int64_t m)                                     \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *x = x_, *a = a_, *b = b_;                                                                       \
    int64_t r = 0;                                                                                           \
    for (; r + 4 <= rows; r += 4, x += 4 * xstep, y += 4 * ystep)                                            \
      CNI_IVDEP for (int64_t k = 0; k < m; k++)                                                              \
      {                                                                                                      \
        y[k] = x[k] - a[k] - b[k];                                                                           \
        y[k + ystep] = x[k + xstep] - a[k] - b[k];                                                           \
        y[k + 2 * ystep] = x[k + 2 * xstep] - a[k] - b[k];                                                   \
        y[k + 3 * ystep] = x[k + 3 * xstep] - a[k] - b[k];                                                   \
      }                                                                                                      \
    for (; r < rows; r++, x += xstep, y += ystep)                                                            \
      CNI_IVDEP for (int64_t k = 0; k < m; k++) y[k] = x[k] - a[k] - b[k];                                   \
  }                                                                                                          \
  static void log_columns_##S(void *y_, int64_t m)                                                           \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    for (int64_t j = 0; j < m; j++) y[j] = LOG(y[j]);                                                        \
  }                                                                                                          \
  static void dot_columns_##S(void *sum_, const void *a_, const void *b_, int64_t m)                         \
  {                                                                                                          \
    T *sum = sum_;                                                                                           \
    const T *a = a_, *b = b_;                                                                                \
    CNI_IVDEP for (int64_t j = 0; j < m; j++) sum[j] += a[j] * b[j];                                         \
  }                                                                                                          \
  static void grad_columns_##S(void *y_, const void *g_, const void *p_, const void *s_, int64_t m)          \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *g = g_, *p = p_, *s = s_;                                                                       \
    CNI_IVDEP for (int64_t j = 0; j < m; j++) y[j] = p[j] * (g[j] - s[j]);                                   \
  }                                                                                                          \
  static void log_grad_columns_##S(void *y_, const void *g_, const void *p_, const void *s_, int64_t m)      \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *g = g_, *p = p_, *s = s_;                                                                       \
    CNI_IVDEP for (int64_t j = 0; j < m; j++) y[j] = g[j] - EXP(p[j]) * s[j];                                \
  }

LOOPS(f32, float, cnm_expf, cnm_logf, FLT_MAX)
LOOPS(f64, double, cnm_exp, cnm_log, DBL_MAX)
HOT_LOOPS(f64, double, cnm_exp)

#if CNI_FOR_AVX512
#include "avx512/softmax_f32.h"
#define HOT(name, S) HOT_##S(name)
#define HOT_f32(name) cni_softmax_##name##_avx512
#define HOT_f64(name) name##_f64
#else
HOT_LOOPS(f32, float, cnm_expf)
#define HOT(name, S) name##_##S
#endif

#define ENTRY(S)                                                                                             \
  {                                                                                                          \
    HOT(max_row, S), HOT(exp_row, S), HOT(scale_row, S), HOT(part_row, S), shift_row_##S, dot_##S,           \
        grad_row_##S, log_grad_row_##S, short_rows_##S, start_columns_##S, HOT(max_columns, S),              \
        HOT(exp_columns, S), HOT(lift_columns, S), scale_columns_##S, HOT(part_columns, S), shift_columns_##S,   \
        invert_columns_##S, log_columns_##S, total_columns_##S, dot_columns_##S, grad_columns_##S,           \
        log_grad_columns_##S                                                                                 \
  }
const cni_softmax_table CNI_ISA_NAME(cni_softmax_table) = {{ENTRY(f32), ENTRY(f64)}};
