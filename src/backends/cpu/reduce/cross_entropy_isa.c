/* cross_entropy_isa.c: see cross_entropy.h; compiled once per instruction set.
 *
 * Place in the flow: the leaves below cross_entropy.c. Invariant: a row that does not fill the lanes is padded with
 * values that change nothing. */
#include "cross_entropy.h"

#include <string.h>

#include "backends/cpu/isa.h"
#include "base/maths.h"

enum { LANES = 32 }; /* more than a vector holds: below 17 gcc unrolls these loops instead of vectorising them */

/* Reduce the lanes in halves, so that the order is fixed. */
#define REDUCE(lane, EXPR)                                                                                           \
  for (int w = LANES / 2; w; w /= 2)                                                                                 \
    for (int l = 0; l < w; l++) {                                                                                    \
      const int k = l + w;                                                                                           \
      lane[l] = (EXPR);                                                                                              \
    }

#define LSE(S, T, EXP, LOG, INF)                                                                                     \
  static void max_##S(T *lane, const T *x)                                                                           \
  {                                                                                                                  \
    for (int l = 0; l < LANES; l++) lane[l] = x[l] > lane[l] ? x[l] : lane[l];                                       \
  }                                                                                                                  \
  static void sum_##S(T *lane, const T *x, T m)                                                                      \
  {                                                                                                                  \
    for (int l = 0; l < LANES; l++) lane[l] += EXP(x[l] - m);                                                        \
  }                                                                                                                  \
  static T lse_##S(const T *x, int64_t n)                                                                            \
  {                                                                                                                  \
    T lane[LANES], tail[LANES];                                                                                      \
    int64_t whole = n - n % LANES;                                                                                   \
    for (int l = 0; l < LANES; l++) lane[l] = tail[l] = -(INF);                                                      \
    memcpy(tail, x + whole, (size_t)(n - whole) * sizeof *x);                                                        \
    for (int64_t i = 0; i < whole; i += LANES) max_##S(lane, x + i);                                                 \
    if (whole < n) max_##S(lane, tail);                                                                              \
    REDUCE(lane, lane[k] > lane[l] ? lane[k] : lane[l])                                                              \
    T m = lane[0] > -(INF) ? lane[0] : 0; /* a row of -inf gives -inf, not NaN */                                    \
    for (int l = 0; l < LANES; l++) lane[l] = 0;                                                                     \
    for (int64_t i = 0; i < whole; i += LANES) sum_##S(lane, x + i, m);                                              \
    if (whole < n) sum_##S(lane, tail, m);                                                                           \
    REDUCE(lane, lane[l] + lane[k])                                                                                  \
    return m + LOG(lane[0]);                                                                                         \
  }                                                                                                                  \
  /* One row a lane: maximum, exponentials and logarithm are then vector code however short the rows are. */         \
  static void lses_##S(T *lse, const T *x, int64_t stride, int64_t rows, int64_t n)                                  \
  {                                                                                                                  \
    T transposed[CNI_CROSS_ENTROPY_SHORT][LANES], most[LANES], total[LANES];                                         \
    for (int64_t i = 0; i < n; i++)                                                                                  \
      for (int l = 0; l < LANES; l++) transposed[i][l] = x[(l < rows ? l : 0) * stride + i];                         \
    for (int l = 0; l < LANES; l++) most[l] = -(INF), total[l] = 0;                                                  \
    for (int64_t i = 0; i < n; i++) max_##S(most, transposed[i]);                                                    \
    for (int l = 0; l < LANES; l++) most[l] = most[l] > -(INF) ? most[l] : 0;                                        \
    for (int64_t i = 0; i < n; i++)                                                                                  \
      for (int l = 0; l < LANES; l++) total[l] += EXP(transposed[i][l] - most[l]);                                   \
    for (int l = 0; l < LANES; l++) total[l] = most[l] + LOG(total[l]);                                              \
    memcpy(lse, total, (size_t)rows * sizeof *lse);                                                                  \
  }                                                                                                                  \
  static void softmax_##S(T *y, const T *x, int64_t n, T lse, T scale)                                               \
  {                                                                                                                  \
    T tail[LANES];                                                                                                   \
    int64_t whole = n - n % LANES;                                                                                   \
    for (int64_t i = 0; i < whole; i++) y[i] = scale * EXP(x[i] - lse);                                              \
    for (int l = 0; l < LANES; l++) tail[l] = 0;                                                                     \
    memcpy(tail, x + whole, (size_t)(n - whole) * sizeof *x);                                                        \
    if (whole == n) return;                                                                                          \
    for (int l = 0; l < LANES; l++) tail[l] = scale * EXP(tail[l] - lse);                                            \
    memcpy(y + whole, tail, (size_t)(n - whole) * sizeof *x);                                                        \
  }                                                                                                                  \
  static void softmaxes_##S(T *y, const T *x, int64_t stride, int64_t rows, int64_t n, const T *lse, const T *scale) \
  {                                                                                                                  \
    for (int64_t r = 0; r < rows; r++)                                                                               \
      for (int64_t i = 0; i < n; i++) y[r * n + i] = x[r * stride + i] - lse[r];                                     \
    for (int64_t i = 0; i < rows * n; i++) y[i] = EXP(y[i]);                                                         \
    for (int64_t r = 0; r < rows; r++)                                                                               \
      for (int64_t i = 0; i < n; i++) y[r * n + i] *= scale[r];                                                      \
  }

LSE(f32, float, cnm_expf, cnm_logf, CNM_INFF)
LSE(f64, double, cnm_exp, cnm_log, CNM_INF)

const cni_cross_entropy_table CNI_ISA_NAME(cni_cross_entropy_table) = {
    lse_f32, lse_f64, lses_f32, lses_f64, softmax_f32, softmax_f64, softmaxes_f32, softmaxes_f64};
