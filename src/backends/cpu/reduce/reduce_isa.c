/* reduce_isa.c: the loops that reduce elements, compiled once per instruction set.
 *
 * Place in the flow: the leaves below reduce.c. Invariants: a row is reduced in LANES interleaved chains over
 * blocks of BLOCK elements whose results are joined in the wide type, whatever the instruction set: the order
 * of additions is the same everywhere, and the error of a float32 sum is that of chains of 64. Columns are
 * reduced row after row. */
#include "reduce.h"

#include <string.h>

#include "backends/cpu/isa.h"

enum { LANES = 64, FEW = 16, BLOCK = 4096, DISTANCE = 4096 /* bytes */ };

/* Asks for what a long row is read on with: the hardware stops at the end of each page. */
#define AHEAD(T)                                                                                             \
  for (size_t k = 0; k < LANES * sizeof(T); k += 64) __builtin_prefetch((const char *)(x + i) + DISTANCE + k);

#define INFINITE __builtin_inf()

/* The larger and the smaller of two; of floats NaN wins. */
#define FLOAT_ORDER(S, T)                                                                                    \
  static inline T max_##S(T a, T x) { return ((x > a) | (x != x)) ? x : a; }                                 \
  static inline T min_##S(T a, T x) { return ((x < a) | (x != x)) ? x : a; }
#define INT_ORDER(S, T)                                                                                      \
  static inline T max_##S(T a, T x) { return x > a ? x : a; }                                                \
  static inline T min_##S(T a, T x) { return x < a ? x : a; }
FLOAT_ORDER(f32, float)
FLOAT_ORDER(f64, double)
INT_ORDER(i64, int64_t)
INT_ORDER(u64, uint64_t)

/* STEP_X(S, T, a, x) is the reduction of one element of type T (suffix S), JOIN_X that of two partial results. */
#define STEP_SUM(S, T, a, x) ((a) + (x))
#define STEP_ABS(S, T, a, x) ((a) + ((x) < 0 ? -(x) : (x)))
#define STEP_SQUARE(S, T, a, x) ((a) + (x) * (x))
#define STEP_ABS_MAX(S, T, a, x) max_##S(a, ((x) < 0 ? -(x) : (x)))
#define STEP_ABS_MIN(S, T, a, x) min_##S(a, ((x) < 0 ? -(x) : (x)))
#define STEP_PROD(S, T, a, x) ((a) * (x))
#define STEP_MAX(S, T, a, x) max_##S(a, x)
#define STEP_MIN(S, T, a, x) min_##S(a, x)
#define STEP_ANY(S, T, a, x) ((x) != 0 ? (T)1 : (a))
#define STEP_ALL(S, T, a, x) ((x) == 0 ? (T)0 : (a))
#define STEP_NUMBERS(S, T, a, x) ((x) == (x) ? (a) + (x) : (a))
#define STEP_NONZERO(S, T, a, x) ((a) + (T)((x) != 0))

#define JOIN_SUM STEP_SUM
#define JOIN_NUMBERS STEP_SUM
#define JOIN_ABS STEP_SUM
#define JOIN_SQUARE STEP_SUM
#define JOIN_ABS_MAX STEP_MAX
#define JOIN_ABS_MIN STEP_MIN
#define JOIN_PROD STEP_PROD
#define JOIN_MAX STEP_MAX
#define JOIN_MIN STEP_MIN
#define JOIN_ANY STEP_ANY
#define JOIN_ALL STEP_ALL
#define JOIN_NONZERO STEP_SUM

/* One step of joining the lanes; widths are written out so that each is a vector operation or two. */
#define HALVE(NAME, S, T, width)                                                                             \
  for (int l = 0; l < width; l++) acc[l] = (T)JOIN_##NAME(S, T, acc[l], acc[l + width]);

/* One reduction in type T (suffix S). F is the member of cni_wide, W its type (suffix V). */
#define REDUCE(NAME, S, T, F, V, W, START)                                                                           \
  static W block_##NAME##_##S(const T *x, int64_t n)                                                                 \
  {                                                                                                                  \
    T acc[LANES];                                                                                                    \
    int64_t i = 0;                                                                                                   \
    if (n < FEW) {                                                                                                   \
      T one = (T)(START);                                                                                            \
      for (; i < n; i++) one = (T)STEP_##NAME(S, T, one, x[i]);                                                      \
      return (W)one;                                                                                                 \
    }                                                                                                                \
    for (int l = 0; l < LANES; l++) acc[l] = (T)(START);                                                             \
    for (; i + LANES <= n; i += LANES) {                                                                             \
      if (n == BLOCK) AHEAD(T)                                                                                       \
      for (int l = 0; l < LANES; l++) acc[l] = (T)STEP_##NAME(S, T, acc[l], x[i + l]);                               \
    }                                                                                                                \
    if (i < n) { /* the rest, filled up with what changes nothing */                                                 \
      T rest[LANES];                                                                                                 \
      for (int l = 0; l < LANES; l++) rest[l] = (T)(START);                                                          \
      memcpy(rest, x + i, (size_t)(n - i) * sizeof(T));                                                              \
      for (int l = 0; l < LANES; l++) acc[l] = (T)STEP_##NAME(S, T, acc[l], rest[l]);                                \
    }                                                                                                                \
    HALVE(NAME, S, T, 32)                                                                                            \
    HALVE(NAME, S, T, 16)                                                                                            \
    HALVE(NAME, S, T, 8) HALVE(NAME, S, T, 4) HALVE(NAME, S, T, 2) return (W)JOIN_##NAME(S, T, acc[0], acc[1]);      \
  }                                                                                                                  \
  static void rows_##NAME##_##S(cni_wide *out, const void *x_, int64_t nrows, int64_t stride, int64_t n)             \
  {                                                                                                                  \
    const T *x = x_;                                                                                                 \
    for (int64_t r = 0; r < nrows; r++, x += stride) {                                                               \
      W sum = block_##NAME##_##S(x, n < BLOCK ? n : BLOCK);                                                          \
      for (int64_t i = BLOCK; i < n; i += BLOCK) {                                                                   \
        W next = block_##NAME##_##S(x + i, n - i < BLOCK ? n - i : BLOCK);                                           \
        sum = (W)JOIN_##NAME(V, W, sum, next);                                                                       \
      }                                                                                                              \
      out[r].F = sum;                                                                                                \
    }                                                                                                                \
  }                                                                                                                  \
  static void columns_##NAME##_##S(void *acc_, const void *x_, int64_t nrows, int64_t stride, int64_t n)             \
  {                                                                                                                  \
    T *restrict acc = acc_;                                                                                          \
    const T *restrict x = x_;                                                                                        \
    int64_t r = 0;                                                                                                   \
    for (; r + 4 <= nrows; r += 4, x += 4 * stride)                                                                  \
      for (int64_t j = 0; j < n; j++) {                                                                              \
        T a = acc[j];                                                                                                \
        a = (T)STEP_##NAME(S, T, a, x[j]);                                                                           \
        a = (T)STEP_##NAME(S, T, a, x[j + stride]);                                                                  \
        a = (T)STEP_##NAME(S, T, a, x[j + 2 * stride]);                                                              \
        a = (T)STEP_##NAME(S, T, a, x[j + 3 * stride]);                                                              \
        acc[j] = a;                                                                                                  \
      }                                                                                                              \
    for (; r < nrows; r++, x += stride)                                                                              \
      for (int64_t j = 0; j < n; j++) acc[j] = (T)STEP_##NAME(S, T, acc[j], x[j]);                                   \
  }                                                                                                                  \
  static void flush_##NAME##_##S(cni_wide *wide, void *acc_, int64_t n)                                              \
  {                                                                                                                  \
    T *acc = acc_;                                                                                                   \
    for (int64_t j = 0; j < n; j++) {                                                                                \
      W value = (W)acc[j];                                                                                           \
      wide[j].F = (W)JOIN_##NAME(V, W, wide[j].F, value);                                                            \
      acc[j] = (T)(START);                                                                                           \
    }                                                                                                                \
  }                                                                                                                  \
  static void start_##NAME##_##S(cni_wide *wide, void *acc_, int64_t n)                                              \
  {                                                                                                                  \
    T *acc = acc_;                                                                                                   \
    for (int64_t j = 0; wide && j < n; j++) wide[j].F = (W)(START);                                                  \
    for (int64_t j = 0; acc && j < n; j++) acc[j] = (T)(START);                                                      \
  }                                                                                                                  \
  static cni_wide join_##NAME##_##S(cni_wide a, cni_wide b)                                                          \
  {                                                                                                                  \
    a.F = (W)JOIN_##NAME(V, W, a.F, b.F);                                                                            \
    return a;                                                                                                        \
  }

#define FLOAT_REDUCTIONS(X)                                                                                          \
  X(SUM, 0) X(NUMBERS, 0)                                                                                            \
  X(ABS, 0)                                                                                                          \
  X(SQUARE, 0) X(ABS_MAX, 0) X(ABS_MIN, INFINITE) X(PROD, 1) X(MAX, -INFINITE) X(MIN, INFINITE) X(ANY, 0) X(ALL, 1)  \
      X(NONZERO, 0)
#define INT_REDUCTIONS(X) X(SUM, 0) X(PROD, 1) X(MAX, INT64_MIN) X(MIN, INT64_MAX) X(ANY, 0) X(ALL, 1) X(NONZERO, 0)
#define UNSIGNED_REDUCTIONS(X) X(MAX, 0) X(MIN, UINT64_MAX)

#define F32(NAME, START) REDUCE(NAME, f32, float, f, f64, double, START)
FLOAT_REDUCTIONS(F32)
#define F64(NAME, START) REDUCE(NAME, f64, double, f, f64, double, START)
FLOAT_REDUCTIONS(F64)
#define I64(NAME, START) REDUCE(NAME, i64, int64_t, i, i64, int64_t, START)
INT_REDUCTIONS(I64)
#define U64(NAME, START) REDUCE(NAME, u64, uint64_t, u, u64, uint64_t, START)
UNSIGNED_REDUCTIONS(U64)

#define ENTRY(NAME, S)                                                                                               \
  [CNI_REDUCE_##                                                                                                     \
      NAME] = {rows_##NAME##_##S, columns_##NAME##_##S, flush_##NAME##_##S, start_##NAME##_##S, join_##NAME##_##S},
#define F32_ENTRY(NAME, START) ENTRY(NAME, f32)
#define F64_ENTRY(NAME, START) ENTRY(NAME, f64)
#define I64_ENTRY(NAME, START) ENTRY(NAME, i64)
#define U64_ENTRY(NAME, START) ENTRY(NAME, u64)

/* For arg reductions: best[j] and its row, after row number `row` was seen. The first of equals stays. */
#define ARG(NAME, S, T, BETTER)                                                                              \
  static void arg_##NAME##_##S(void *best_, int64_t *restrict index, const void *x_, int64_t row, int64_t n) \
  {                                                                                                          \
    T *restrict best = best_;                                                                                \
    const T *restrict x = x_;                                                                                \
    for (int64_t j = 0; j < n; j++) {                                                                        \
      T a = best[j], v = x[j];                                                                               \
      bool better = BETTER;                                                                                  \
      best[j] = better ? v : a;                                                                              \
      index[j] = better ? row : index[j];                                                                    \
    }                                                                                                        \
  }
#define FLOAT_ARGS(S, T)                                                                                     \
  ARG(max, S, T, (v > a) | ((v != v) & (a == a)))                                                            \
  ARG(min, S, T, (v < a) | ((v != v) & (a == a)))
#define INT_ARGS(S, T) ARG(max, S, T, v > a) ARG(min, S, T, v < a)
FLOAT_ARGS(f32, float)
FLOAT_ARGS(f64, double)
INT_ARGS(i64, int64_t)
INT_ARGS(u64, uint64_t)

/* Unsigned integers wrap like signed ones: only their order differs. */
const cni_reduce_table CNI_ISA_NAME(cni_reduce_table) = {
    .loops[CNI_C_F32] = {FLOAT_REDUCTIONS(F32_ENTRY)},
    .loops[CNI_C_F64] = {FLOAT_REDUCTIONS(F64_ENTRY)},
    .loops[CNI_C_I64] = {INT_REDUCTIONS(I64_ENTRY)},
    .loops[CNI_C_U64] = {UNSIGNED_REDUCTIONS(U64_ENTRY) ENTRY(SUM, i64) ENTRY(PROD, i64) ENTRY(ANY, i64)
                             ENTRY(ALL, i64) ENTRY(NONZERO, i64)},
    .arg_columns = {{arg_max_f32, arg_min_f32},
                    {arg_max_f64, arg_min_f64},
                    {arg_max_i64, arg_min_i64},
                    {arg_max_u64, arg_min_u64}},
};
