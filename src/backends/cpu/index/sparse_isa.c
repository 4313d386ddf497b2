/* sparse_isa.c: rows of a sparse matrix times a dense one, and dot products of rows, compiled once per instruction set.
 *
 * Place in the flow: the leaves below sparse.c. Invariant: the values of a row are taken in their order. */
#include "sparse.h"

#include "backends/cpu/isa.h"
#include "base/convert.h"

enum { AHEAD = 8, LINE = 64, LANES = 16 }; /* rows fetched early; bytes of a cache line; sums of a dot product */

#define AS_IS(x) (x)
#if CNI_ISA_LEVEL > 0
#define FMA_F32(a, b, c) __builtin_fmaf(a, b, c)
#define FMA_F64(a, b, c) __builtin_fma(a, b, c)
#else
#define FMA_F32(a, b, c) ((a) * (b) + (c))
#define FMA_F64(a, b, c) ((a) * (b) + (c))
#endif

/* T: type of elements, W: the type of sums, GET and PUT from one to the other. */
#define TYPE(S, T, W, GET, PUT, FMA)                                                                             \
  /* columns of y that fit into registers; the compiler knows how many */                                        \
  static inline void block_##S(T *y, const T *w, const int64_t *cols, const W *f, int64_t n, int64_t m,          \
                               int columns)                                                                      \
  {                                                                                                              \
    W sum[64] = {0};                                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                                            \
      const T *row = w + cols[i] * m;                                                                            \
      const W v = f[i];                                                                                          \
      for (int k = 0; i + AHEAD < n && k < columns; k += (int)(LINE / sizeof(T)))                                \
        __builtin_prefetch(w + cols[i + AHEAD] * m + k);                                                         \
      for (int k = 0; k < columns; k++) sum[k] = FMA(GET(row[k]), v, sum[k]);                                    \
    }                                                                                                            \
    for (int k = 0; k < columns; k++) y[k] = PUT(sum[k]);                                                        \
  }                                                                                                              \
  /* one column: four sums, which do not wait for one another */                                                 \
  static inline void column_##S(T *y, const T *w, const int64_t *cols, const W *f, int64_t n)                    \
  {                                                                                                              \
    W s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                                                            \
    int64_t i = 0;                                                                                               \
    for (; i + 4 <= n; i += 4) {                                                                                 \
      s0 = FMA(GET(w[cols[i]]), f[i], s0), s1 = FMA(GET(w[cols[i + 1]]), f[i + 1], s1);                          \
      s2 = FMA(GET(w[cols[i + 2]]), f[i + 2], s2), s3 = FMA(GET(w[cols[i + 3]]), f[i + 3], s3);                  \
    }                                                                                                            \
    for (; i < n; i++) s0 = FMA(GET(w[cols[i]]), f[i], s0);                                                      \
    *y = PUT((s0 + s1) + (s2 + s3));                                                                             \
  }                                                                                                              \
  static void row_##S(void *y_, const void *w_, const int64_t *cols, const void *f, int64_t n, int64_t m)        \
  {                                                                                                              \
    T *y = y_;                                                                                                   \
    const T *w = w_;                                                                                             \
    int64_t k = 0;                                                                                               \
    if (m == 1) {                                                                                                \
      column_##S(y, w, cols, f, n);                                                                              \
      return;                                                                                                    \
    }                                                                                                            \
    for (; k + 64 <= m; k += 64) block_##S(y + k, w + k, cols, f, n, m, 64);                                     \
    for (; k + 16 <= m; k += 16) block_##S(y + k, w + k, cols, f, n, m, 16);                                     \
    for (; k + 4 <= m; k += 4) block_##S(y + k, w + k, cols, f, n, m, 4);                                        \
    for (; k < m; k++) block_##S(y + k, w + k, cols, f, n, m, 1);                                                \
  }                                                                                                              \
  static void dot_##S(void *y, const void *a_, const void *b_, int64_t k)                                        \
  {                                                                                                              \
    const T *a = a_, *b = b_;                                                                                    \
    W sum[LANES] = {0}, rest = 0;                                                                                \
    int64_t i = 0;                                                                                               \
    for (; i + LANES <= k; i += LANES)                                                                           \
      for (int l = 0; l < LANES; l++) sum[l] = FMA(GET(a[i + l]), GET(b[i + l]), sum[l]);                        \
    for (; i < k; i++) rest = FMA(GET(a[i]), GET(b[i]), rest);                                                   \
    for (int half = LANES / 2; half; half /= 2)                                                                  \
      for (int l = 0; l < half; l++) sum[l] += sum[l + half];                                                    \
    *(T *)y = PUT(sum[0] + rest);                                                                                \
  }
TYPE(f16, uint16_t, float, cni_f16_to_f32, cni_f32_to_f16, FMA_F32)
TYPE(bf16, uint16_t, float, cni_bf16_to_f32, cni_f32_to_bf16, FMA_F32)
TYPE(f32, float, float, AS_IS, AS_IS, FMA_F32)
TYPE(f64, double, double, AS_IS, AS_IS, FMA_F64)

const cni_sparse_table CNI_ISA_NAME(cni_sparse_table) = {{row_f16, row_bf16, row_f32, row_f64},
                                                         {dot_f16, dot_bf16, dot_f32, dot_f64}};
