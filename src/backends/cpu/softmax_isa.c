/* softmax_isa.c: the loops of softmax, compiled once per instruction set.
 *
 * Place in the flow: the leaves below softmax.c. Invariant: sums of float32 run in LANES chains over blocks
 * whose results are added in double, whatever the instruction set. */
#include "softmax.h"

#include <float.h>

#include "base/maths.h"
#include "isa.h"

enum { LANES = 64, BLOCK = 4096, TOGETHER = 2048 };

/* One step of adding the lanes up; widths are written out so that each is a vector operation or two. */
#define HALVE(width)                                                                                         \
  for (int l = 0; l < width; l++) acc[l] += acc[l + width];

#define LOOPS(S, T, EXP, LOG, MOST)                                                                                \
  static void exp_row_##S(void *y_, const void *x_, int64_t n, double shift_)                                \
  {                                                                                                          \
    T *y = y_, shift = (T)shift_;                                                                            \
    const T *x = x_;                                                                                         \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = EXP(x[i] - shift);                                      \
  }                                                                                                          \
  /* By the reciprocal, taken in double: a last bit against ten cycles. */                                   \
  static void divide_row_##S(void *y_, int64_t n, double by_)                                                \
  {                                                                                                          \
    T *y = y_, part = (T)(1 / by_);                                                                          \
    for (int64_t i = 0; i < n; i++) y[i] = y[i] * part;                                                      \
  }                                                                                                          \
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
  static void exp_columns_##S(void *y_, void *sum_, const void *x_, const void *max_, int64_t m)             \
  {                                                                                                          \
    T *y = y_, *sum = sum_;                                                                                  \
    const T *x = x_, *max = max_;                                                                            \
    CNI_IVDEP for (int64_t j = 0; j < m; j++)                                                                \
    {                                                                                                        \
      T e = EXP(x[j] - max[j]);                                                                              \
      y[j] = e;                                                                                              \
      sum[j] += e;                                                                                           \
    }                                                                                                        \
  }                                                                                                          \
  /* Largest elements and sums of exponentials below them, carried over more rows. max begins finite, so that rows\
     of -inf add nothing. */                                                                                 \
  static void more_columns_##S(void *sum_, void *max_, const void *x_, int64_t rows, int64_t stride, int64_t m)\
  {                                                                                                          \
    T *restrict sum = sum_, *restrict max = max_, top[CNI_SOFTMAX_COLUMNS];                                  \
    const T *restrict x = x_;                                                                                \
    for (int64_t j = 0; j < m; j++) top[j] = max[j];                                                         \
    for (int64_t r = 0; r < rows; r++)                                                                       \
      for (int64_t j = 0; j < m; j++) {                                                                      \
        T v = x[r * stride + j];                                                                             \
        top[j] = ((v > top[j]) | (v != v)) ? v : top[j];                                                     \
      }                                                                                                      \
    for (int64_t j = 0; j < m; j++) {                                                                        \
      sum[j] *= EXP(max[j] - top[j]);                                                                        \
      max[j] = top[j];                                                                                       \
    }                                                                                                        \
    for (int64_t r = 0; r < rows; r++)                                                                       \
      for (int64_t j = 0; j < m; j++) sum[j] += EXP(x[r * stride + j] - top[j]);                             \
  }                                                                                                          \
  static void part_columns_##S(void *y_, const void *x_, const void *max_, const void *part_, int64_t m)     \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *x = x_, *max = max_, *part = part_;                                                             \
    CNI_IVDEP for (int64_t j = 0; j < m; j++) y[j] = EXP(x[j] - max[j]) * part[j];                           \
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
    CNI_IVDEP for (int64_t j = 0; j < m; j++) y[j] = max[j] > MOST ? max[j] : max[j] + logs[j];              \
  }                                                                                                          \
  static void divide_columns_##S(void *y_, const void *by_, int64_t m)                                       \
  {                                                                                                          \
    T *restrict y = y_;                                                                                      \
    const T *restrict by = by_;                                                                              \
    for (int64_t j = 0; j < m; j++) y[j] = y[j] / by[j];                                                     \
  }                                                                                                          \
  static void shift_columns_##S(void *y_, const void *x_, const void *a_, const void *b_, int64_t m)         \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *x = x_, *a = a_, *b = b_;                                                                       \
    CNI_IVDEP for (int64_t j = 0; j < m; j++) y[j] = x[j] - a[j] - b[j];                                     \
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

#define ENTRY(S)                                                                                             \
  {                                                                                                          \
    exp_row_##S, divide_row_##S, shift_row_##S, dot_##S, grad_row_##S, log_grad_row_##S, short_rows_##S,     \
        exp_columns_##S, divide_columns_##S, shift_columns_##S, log_columns_##S, dot_columns_##S,            \
        grad_columns_##S, log_grad_columns_##S, start_columns_##S, more_columns_##S, part_columns_##S,       \
        invert_columns_##S, total_columns_##S                                                                \
  }
const cni_softmax_table CNI_ISA_NAME(cni_softmax_table) = {{ENTRY(f32), ENTRY(f64)}};
