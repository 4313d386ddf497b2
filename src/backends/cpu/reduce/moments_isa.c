/* moments_isa.c: the loops of moments.h, compiled once per instruction set.
 *
 * Place in the flow: the leaves below moments.c, norm.c and batch_norm.c. Invariant: sums run in LANES chains
 * over blocks of BLOCK elements and are joined in double, whatever the instruction set. */
#include "moments.h"

#include "backends/cpu/isa.h"

enum { LANES = 32, BLOCK = 4096 };

/* One step of adding the lanes of p up; widths are written out so that each is a vector operation or two. */
#define HALVE(p, width)                                                                                      \
  for (int l = 0; l < width; l++) p[l] += p[l + width];

/* Adds up, over elements i of a row, `first` into one set of chains and `second` into another; the totals are
 * sums[0] and sums[1] in double. */
#define TWO_SUMS(T, first, second)                                                                           \
  do {                                                                                                       \
    sums[0] = sums[1] = 0;                                                                                   \
    for (int64_t start = 0; start < n; start += BLOCK) {                                                     \
      int64_t i = start, end = n - start < BLOCK ? n : start + BLOCK;                                        \
      T p[LANES] = {0}, q[LANES] = {0};                                                                      \
      for (; i + LANES <= end; i += LANES)                                                                   \
        for (int l = 0; l < LANES; l++) p[l] += first(i + l), q[l] += second(i + l);                         \
      for (int l = 0; i < end; l++, i++) p[l] += first(i), q[l] += second(i);                                \
      HALVE(p, 16)                                                                                           \
      HALVE(p, 8) HALVE(p, 4) HALVE(p, 2) HALVE(q, 16) HALVE(q, 8) HALVE(q, 4) HALVE(q, 2) sums[0] +=        \
          (double)(p[0] + p[1]);                                                                             \
      sums[1] += (double)(q[0] + q[1]);                                                                      \
    }                                                                                                        \
  } while (0)

/* The same with one set of chains. */
#define ONE_SUM(T, first)                                                                                    \
  do {                                                                                                       \
    sums[0] = 0;                                                                                             \
    for (int64_t start = 0; start < n; start += BLOCK) {                                                     \
      int64_t i = start, end = n - start < BLOCK ? n : start + BLOCK;                                        \
      T p[2 * LANES] = {0};                                                                                  \
      for (; i + 2 * LANES <= end; i += 2 * LANES)                                                           \
        for (int l = 0; l < 2 * LANES; l++) p[l] += first(i + l);                                            \
      for (int l = 0; i < end; l++, i++) p[l] += first(i);                                                   \
      HALVE(p, 32) HALVE(p, 16) HALVE(p, 8) HALVE(p, 4) HALVE(p, 2) sums[0] += (double)(p[0] + p[1]);        \
    }                                                                                                        \
  } while (0)

static cni_moment join(cni_moment a, cni_moment b)
{
  double count = a.count + b.count, delta = b.mean - a.mean;
  cni_moment m = {count, a.mean + delta * b.count / count,
                  a.m2 + b.m2 + delta * delta * a.count * b.count / count};
  return m;
}

#define PLAIN(i) x[i]
#define DEVIATION(i) (x[i] - center)
#define DEVIATION2(i) ((x[i] - center) * (x[i] - center))
#define SQUARE(i) (x[i] * x[i])
#define GW(i) (g[i] * w[i])
#define GWH(i) (g[i] * w[i] * ((x[i] - mean) * rstd))
#define G(i) g[i]
#define GH(i) (g[i] * ((x[i] - mean) * rstd))
#define GX(i) (g[i] * (x[i] - mean))

#define LOOPS(S, T)                                                                                          \
  /* Deviations from a first mean, corrected by what they still add up to. */                                \
  static cni_moment block_##S(const T *x, int64_t n)                                                         \
  {                                                                                                          \
    double sums[2];                                                                                          \
    ONE_SUM(T, PLAIN);                                                                                       \
    T center = (T)(sums[0] / (double)n);                                                                     \
    TWO_SUMS(T, DEVIATION, DEVIATION2);                                                                      \
    cni_moment m = {(double)n, (double)center + sums[0] / (double)n,                                         \
                    sums[1] - sums[0] * sums[0] / (double)n};                                                \
    if (m.m2 < 0) m.m2 = 0;                                                                                  \
    return m;                                                                                                \
  }                                                                                                          \
  static cni_moment row_##S(const void *x_, int64_t n)                                                       \
  {                                                                                                          \
    const T *x = x_;                                                                                         \
    cni_moment m = block_##S(x, n < BLOCK ? n : BLOCK);                                                      \
    for (int64_t i = BLOCK; i < n; i += BLOCK) m = join(m, block_##S(x + i, n - i < BLOCK ? n - i : BLOCK)); \
    return m;                                                                                                \
  }                                                                                                          \
  static void deviations_##S(void *acc_, const void *x_, const void *center_, int64_t nrows, int64_t stride, \
                             int64_t n)                                                                      \
  {                                                                                                          \
    T *restrict acc = acc_;                                                                                  \
    const T *restrict x = x_, *restrict center = center_;                                                    \
    for (int64_t r = 0; r < nrows; r++, x += stride)                                                         \
      for (int64_t j = 0; j < n; j++) acc[j] += (x[j] - center[j]) * (x[j] - center[j]);                     \
  }                                                                                                          \
  static double square_row_##S(const void *x_, int64_t n)                                                    \
  {                                                                                                          \
    const T *x = x_;                                                                                         \
    double sums[1];                                                                                          \
    ONE_SUM(T, SQUARE);                                                                                      \
    return sums[0];                                                                                          \
  }                                                                                                          \
  static void normalize_row_##S(void *y_, const void *x_, const void *w_, const void *b_, int64_t n,         \
                                double mean_, double rstd_)                                                  \
  {                                                                                                          \
    T *y = y_, mean = (T)mean_, rstd = (T)rstd_;                                                             \
    const T *x = x_, *w = w_, *b = b_;                                                                       \
    if (w && b) CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * w[i] + b[i];         \
    else if (w) CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * w[i];                \
    else if (b) CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd + b[i];                \
    else CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd;                              \
  }                                                                                                          \
  static void grad_sums_row_##S(double *sums, const void *g_, const void *x_, const void *w_, int64_t n,     \
                                double mean_, double rstd_)                                                  \
  {                                                                                                          \
    T mean = (T)mean_, rstd = (T)rstd_;                                                                      \
    const T *g = g_, *x = x_, *w = w_;                                                                       \
    if (w) TWO_SUMS(T, GW, GWH);                                                                             \
    else TWO_SUMS(T, G, GH);                                                                                 \
  }                                                                                                          \
  static void grad_row_##S(void *y_, const void *g_, const void *x_, const void *w_, int64_t n,              \
                           double mean_, double rstd_, double a_, double b_)                                 \
  {                                                                                                          \
    T *y = y_, mean = (T)mean_, rstd = (T)rstd_, a = (T)a_, b = (T)b_;                                       \
    const T *g = g_, *x = x_, *w = w_;                                                                       \
    if (w)                                                                                                   \
      CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = rstd * (g[i] * w[i] - a - (x[i] - mean) * rstd * b);  \
    else CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = rstd * (g[i] - a - (x[i] - mean) * rstd * b);      \
  }                                                                                                          \
  static void grad_affine_row_##S(void *gw_, void *gb_, const void *g_, const void *x_, int64_t n,           \
                                  double mean_, double rstd_)                                                \
  {                                                                                                          \
    T *gw = gw_, *gb = gb_, mean = (T)mean_, rstd = (T)rstd_;                                                \
    const T *g = g_, *x = x_;                                                                                \
    if (gw && gb)                                                                                            \
      CNI_IVDEP for (int64_t i = 0; i < n; i++) gw[i] += g[i] * ((x[i] - mean) * rstd), gb[i] += g[i];       \
    else if (gw) CNI_IVDEP for (int64_t i = 0; i < n; i++) gw[i] += g[i] * ((x[i] - mean) * rstd);           \
    else if (gb) CNI_IVDEP for (int64_t i = 0; i < n; i++) gb[i] += g[i];                                    \
  }                                                                                                          \
  static void scale_row_##S(void *y_, const void *x_, int64_t n, double a_, double b_)                       \
  {                                                                                                          \
    T *y = y_, a = (T)a_, b = (T)b_;                                                                         \
    const T *x = x_;                                                                                         \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = x[i] * a + b;                                           \
  }                                                                                                          \
  static void scale_columns_##S(void *y_, const void *x_, const void *a_, const void *b_, int64_t n)         \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *x = x_, *a = a_, *b = b_;                                                                       \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = x[i] * a[i] + b[i];                                     \
  }                                                                                                          \
  static void dots_row_##S(double *out, const void *g_, const void *x_, int64_t n, double mean_)             \
  {                                                                                                          \
    T mean = (T)mean_;                                                                                       \
    const T *g = g_, *x = x_;                                                                                \
    double sums[2];                                                                                          \
    TWO_SUMS(T, G, GX);                                                                                      \
    out[0] += sums[0];                                                                                       \
    out[1] += sums[1];                                                                                       \
  }                                                                                                          \
  static void dots_columns_##S(void *sg_, void *sgx_, const void *g_, const void *x_, const void *mean_,     \
                               int64_t n)                                                                    \
  {                                                                                                          \
    T *sg = sg_, *sgx = sgx_;                                                                                \
    const T *g = g_, *x = x_, *mean = mean_;                                                                 \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) sg[i] += g[i], sgx[i] += g[i] * (x[i] - mean[i]);              \
  }                                                                                                          \
  static void channel_grad_row_##S(void *y_, const void *g_, const void *x_, int64_t n, double k_,           \
                                   double a_, double mean_, double b_)                                       \
  {                                                                                                          \
    T *y = y_, k = (T)k_, a = (T)a_, mean = (T)mean_, b = (T)b_;                                             \
    const T *g = g_, *x = x_;                                                                                \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = k * (g[i] - a - (x[i] - mean) * b);                     \
  }                                                                                                          \
  static void channel_grad_columns_##S(void *y_, const void *g_, const void *x_, const void *k_,             \
                                       const void *a_, const void *mean_, const void *b_, int64_t n)         \
  {                                                                                                          \
    T *y = y_;                                                                                               \
    const T *g = g_, *x = x_, *k = k_, *a = a_, *mean = mean_, *b = b_;                                      \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = k[i] * (g[i] - a[i] - (x[i] - mean[i]) * b[i]);         \
  }                                                                                                          \
  static void plane_grad_row_##S(void *y_, const void *g_, const void *x_, int64_t n, double k_, double mean_, \
                                 double a_, double b_)                                                       \
  {                                                                                                          \
    T *y = y_, k = (T)k_, mean = (T)mean_, a = (T)a_, b = (T)b_;                                             \
    const T *g = g_, *x = x_;                                                                                \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) y[i] = g[i] * k - (x[i] - mean) * a - b;                       \
  }

LOOPS(f32, float)
LOOPS(f64, double)

#define ENTRY(S)                                                                                             \
  {                                                                                                          \
    row_##S, deviations_##S, square_row_##S, normalize_row_##S, grad_sums_row_##S, grad_row_##S,             \
        grad_affine_row_##S, scale_row_##S, scale_columns_##S, dots_row_##S, dots_columns_##S,               \
        channel_grad_row_##S, channel_grad_columns_##S, plane_grad_row_##S                                   \
  }
const cni_moment_table CNI_ISA_NAME(cni_moment_table) = {{ENTRY(f32), ENTRY(f64)}};
