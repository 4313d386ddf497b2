/* scan_isa.c: running sums and products, compiled once per instruction set.
 *
 * Place in the flow: the leaves below scan.c. Invariant: float32 runs in double and smaller floats in float,
 * one chain per line, whatever the layout and the instruction set. */
#include "scan.h"

#include "base/convert.h"
#include "isa.h"

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

/* Integers of one width wrap alike, signed or not. */
#define PAIR(S)                                                                                              \
  {                                                                                                          \
    sum_##S, product_##S                                                                                     \
  }
const cni_scan_table CNI_ISA_NAME(cni_scan_table) = {{
    [CN_BOOL] = PAIR(truth),
    [CN_U8] = PAIR(i8),
    [CN_I8] = PAIR(i8),
    [CN_I16] = PAIR(i16),
    [CN_U16] = PAIR(i16),
    [CN_I32] = PAIR(i32),
    [CN_U32] = PAIR(i32),
    [CN_I64] = PAIR(i64),
    [CN_U64] = PAIR(i64),
    [CN_F16] = PAIR(f16),
    [CN_BF16] = PAIR(bf16),
    [CN_F32] = PAIR(f32),
    [CN_F64] = PAIR(f64),
}};
