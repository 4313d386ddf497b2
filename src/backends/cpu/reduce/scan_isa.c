/* scan_isa.c: running sums and products, compiled once per instruction set.
 *
 * Place in the flow: the leaves below scan.c. Invariant: float32 runs in double and smaller floats in float,
 * one chain per line, whatever the layout and the instruction set. */
#include "scan.h"

#include <string.h>

#include "backends/cpu/isa.h"
#include "base/convert.h"

#define SAME(v) (v)
#define TRUTH(v) ((v) != 0)

#define SCAN(S, NAME, OP, START, T, A, LOAD, STORE)                                                          \
  static void NAME##_##S(void *y_, const void *x_, int64_t n, int64_t step, int64_t m)                       \
  {                                                                                                          \
    const T *x = x_;                                                                                         \
    T *y = y_;                                                                                               \
    if (m == 1) {                                                                                            \
      A one = START;                                                                                         \
      for (int64_t i = 0; i < n; i++) {                                                                      \
        one OP(A) LOAD(x[i * step]);                                                                         \
        y[i * step] = (T)STORE(one);                                                                         \
      }                                                                                                      \
      return;                                                                                                \
    }                                                                                                        \
    A acc[CNI_SCAN_COLUMNS];                                                                                 \
    for (int64_t j = 0; j < m; j++) acc[j] = START;                                                          \
    for (int64_t i = 0; i < n; i++, x += step, y += step) {                                                  \
      for (int64_t j = 0; j < m; j++) acc[j] OP(A) LOAD(x[j]);                                               \
      for (int64_t j = 0; j < m; j++) y[j] = (T)STORE(acc[j]);                                               \
    }                                                                                                        \
  }                                                                                                          \
  static void NAME##_lines_##S(void *y_, int64_t ystep, const void *x_, int64_t xstep, int64_t n, void *carry_,\
                               bool first)                                                                   \
  {                                                                                                          \
    const T *x0 = x_, *x1 = x0 + xstep, *x2 = x1 + xstep, *x3 = x2 + xstep;                                  \
    T *y0 = y_, *y1 = y0 + ystep, *y2 = y1 + ystep, *y3 = y2 + ystep;                                        \
    A *carry = carry_, a = START, b = START, c = START, d = START;                                           \
    if (!first) a = carry[0], b = carry[1], c = carry[2], d = carry[3];                                      \
    for (int64_t i = 0; i < n; i++) {                                                                        \
      a OP(A) LOAD(x0[i]), b OP(A) LOAD(x1[i]), c OP(A) LOAD(x2[i]), d OP(A) LOAD(x3[i]);                    \
      y0[i] = (T)STORE(a), y1[i] = (T)STORE(b), y2[i] = (T)STORE(c), y3[i] = (T)STORE(d);                    \
    }                                                                                                        \
    carry[0] = a, carry[1] = b, carry[2] = c, carry[3] = d;                                                  \
  }
#define BOTH(S, T, A, LOAD, STORE)                                                                           \
  SCAN(S, sum, +=, 0, T, A, LOAD, STORE) SCAN(S, product, *=, 1, T, A, LOAD, STORE)
BOTH(f64, double, double, SAME, SAME)
BOTH(f32, float, double, SAME, SAME)
BOTH(f16, uint16_t, float, cni_f16_to_f32, cni_f32_to_f16)
BOTH(bf16, uint16_t, float, cni_bf16_to_f32, cni_f32_to_bf16)
BOTH(i64, int64_t, int64_t, SAME, SAME)
BOTH(i32, int32_t, int64_t, SAME, SAME)
BOTH(i16, int16_t, int64_t, SAME, SAME)
BOTH(i8, int8_t, int64_t, SAME, SAME)
BOTH(truth, uint8_t, int64_t, TRUTH, TRUTH)

/* float32 lines, four by four elements at a time: transposed, so that a vector holds one of each line. */
enum { QUAD = CNI_SCAN_LINES };
typedef float quad __attribute__((vector_size(16)));
typedef double wide __attribute__((vector_size(32)));

static inline void transpose_quads(quad v[QUAD])
{
  quad a = __builtin_shufflevector(v[0], v[2], 0, 4, 1, 5), b = __builtin_shufflevector(v[0], v[2], 2, 6, 3, 7);
  quad c = __builtin_shufflevector(v[1], v[3], 0, 4, 1, 5), d = __builtin_shufflevector(v[1], v[3], 2, 6, 3, 7);
  v[0] = __builtin_shufflevector(a, c, 0, 4, 1, 5), v[1] = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  v[2] = __builtin_shufflevector(b, d, 0, 4, 1, 5), v[3] = __builtin_shufflevector(b, d, 2, 6, 3, 7);
}

#define QUADS(NAME, OP)                                                                                              \
  static void NAME##_lines_quads(void *y_, int64_t ystep, const void *x_, int64_t xstep, int64_t n, void *carry_,    \
                                 bool first)                                                                         \
  {                                                                                                                  \
    const float *x = x_;                                                                                             \
    float *y = y_;                                                                                                   \
    int64_t whole = n / QUAD * QUAD;                                                                                 \
    double *carry = carry_;                                                                                          \
    if (first) NAME##_lines_f32(y, ystep, x, xstep, 0, carry, true); /* where chains begin */                        \
    wide acc;                                                                                                        \
    memcpy(&acc, carry, sizeof acc);                                                                                 \
    for (int64_t i = 0; i < whole; i += QUAD) {                                                                      \
      quad v[QUAD];                                                                                                  \
      for (int k = 0; k < QUAD; k++) memcpy(&v[k], x + k * xstep + i, sizeof v[k]);                                  \
      transpose_quads(v);                                                                                            \
      for (int k = 0; k < QUAD; k++) {                                                                               \
        acc OP __builtin_convertvector(v[k], wide);                                                                  \
        v[k] = __builtin_convertvector(acc, quad);                                                                   \
      }                                                                                                              \
      transpose_quads(v);                                                                                            \
      for (int k = 0; k < QUAD; k++) memcpy(y + k * ystep + i, &v[k], sizeof v[k]);                                  \
    }                                                                                                                \
    memcpy(carry, &acc, sizeof acc);                                                                                 \
    NAME##_lines_f32(y + whole, ystep, x + whole, xstep, n - whole, carry, false);                                   \
  }
QUADS(sum, +=)
QUADS(product, *=)

/* Integers of one width wrap alike, signed or not. */
#define TYPES(PAIR)                                                                                          \
  [CN_BOOL] = PAIR(truth),                                                                                   \
  [CN_U8] = PAIR(i8),                                                                                        \
  [CN_I8] = PAIR(i8),                                                                                        \
  [CN_I16] = PAIR(i16),                                                                                      \
  [CN_U16] = PAIR(i16),                                                                                      \
  [CN_I32] = PAIR(i32),                                                                                      \
  [CN_U32] = PAIR(i32),                                                                                      \
  [CN_I64] = PAIR(i64),                                                                                      \
  [CN_U64] = PAIR(i64),                                                                                      \
  [CN_F16] = PAIR(f16),                                                                                      \
  [CN_BF16] = PAIR(bf16),                                                                                    \
  [CN_F32] = PAIR(f32),                                                                                      \
  [CN_F64] = PAIR(f64),
#define COLUMNS(S)                                                                                           \
  {                                                                                                          \
    sum_##S, product_##S                                                                                     \
  }
#define product_lines_f32 product_lines_quads /* from here on */
#define sum_lines_f32 sum_lines_quads
#define LINES(S)                                                                                             \
  {                                                                                                          \
    sum_lines_##S, product_lines_##S                                                                         \
  }
const cni_scan_table CNI_ISA_NAME(cni_scan_table) = {{TYPES(COLUMNS)}, {TYPES(LINES)}};
