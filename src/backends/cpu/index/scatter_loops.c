/* scatter_loops.c: see scatter.h. Generated per operation and type from one text.
 *
 * Place in the flow: the leaves below scatter.c. Invariant: the order of elements is the order of the loop. */
#include "scatter.h"

#include <string.h>

#include "backends/cpu/isa.h"
#include "backends/cpu/pointwise/pointwise.h"
#include "backends/cpu/walk/rows.h"
#include "base/convert.h"
#include "base/dtype.h"

static inline int nan_f32(const void *x) { return *(const float *)x != *(const float *)x; }
static inline int nan_f64(const void *x) { return *(const double *)x != *(const double *)x; }
static inline int nan_none(const void *x) { return (void)x, 0; }
#define IS_NAN(x) _Generic((x), float: nan_f32, double: nan_f64, default: nan_none)(&(x))

/* New value of d when s comes (k: the scale). NaN wins in extremes. */
#define ADD(T, d, s, k) ((T)((d) + (T)((s) * (k))))
#define MUL(T, d, s, k) ((T)((d) * (s)))
#define MAX(T, d, s, k) ((T)((s) > (d) || IS_NAN(s) ? (s) : (d)))
#define MIN(T, d, s, k) ((T)((s) < (d) || IS_NAN(s) ? (s) : (d)))

#define LOOPS(ID, T, OP)                                                                                        \
  static void run_##OP##_##ID(char *dst, int64_t dstep, const char *src, int64_t sstep, int64_t n,              \
                              const void *scale)                                                                \
  {                                                                                                             \
    const T k = *(const T *)scale;                                                                              \
    (void)k;                                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                           \
      T *d = (T *)(void *)(dst + i * dstep);                                                                    \
      const T s = *(const T *)(const void *)(src + i * sstep);                                                  \
      *d = OP(T, *d, s, k);                                                                                     \
    }                                                                                                           \
  }                                                                                                             \
  static void each_##OP##_##ID(char *dst, int64_t dstep, int64_t unit, const char *index, int64_t istep,        \
                               const char *src, int64_t sstep, int64_t n, const void *scale)                    \
  {                                                                                                             \
    const T k = *(const T *)scale;                                                                              \
    (void)k;                                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                           \
      int64_t number = *(const int64_t *)(const void *)(index + i * istep);                                     \
      T *d = (T *)(void *)(dst + i * dstep + number * unit);                                                    \
      const T s = *(const T *)(const void *)(src + i * sstep);                                                  \
      *d = OP(T, *d, s, k);                                                                                     \
    }                                                                                                           \
  }
#define ALL_LOOPS(ID, T, K, unused) LOOPS(ID, T, ADD) LOOPS(ID, T, MUL) LOOPS(ID, T, MAX) LOOPS(ID, T, MIN)
CNI_EACH_NATURAL(ALL_LOOPS, )

#define SET_LOOPS(size)                                                                                         \
  static void run_SET_##size(char *dst, int64_t dstep, const char *src, int64_t sstep, int64_t n,               \
                             const void *scale)                                                                 \
  {                                                                                                             \
    (void)scale;                                                                                                \
    cni_row_copy(dst, dstep, src, sstep, size, n);                                                              \
  }                                                                                                             \
  static void each_SET_##size(char *dst, int64_t dstep, int64_t unit, const char *index, int64_t istep,         \
                              const char *src, int64_t sstep, int64_t n, const void *scale)                     \
  {                                                                                                             \
    (void)scale;                                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                                           \
      int64_t number = *(const int64_t *)(const void *)(index + i * istep);                                     \
      memcpy(dst + i * dstep + number * unit, src + i * sstep, size);                                           \
    }                                                                                                           \
  }
SET_LOOPS(1)
SET_LOOPS(2)
SET_LOOPS(4)
SET_LOOPS(8)

/* Sums of packed floats, which embedding gradients are made of, go through the vector loops of `add`. */
static const cni_pw_table *vectors(void) { return CNI_BY_ISA(cni_pw_table); }
#define FAST_ADD(ID, T)                                                                                         \
  static void run_FAST_##ID(char *dst, int64_t dstep, const char *src, int64_t sstep, int64_t n,                \
                            const void *scale)                                                                  \
  {                                                                                                             \
    const T k = *(const T *)scale;                                                                              \
    bool packed = dstep == (int64_t)sizeof(T) && sstep == dstep && !(k < 1) && !(k > 1);                        \
    if (packed) vectors()->loop[CNI_C_##ID][CNI_PW_add](dst, dst, src, NULL, n);                                \
    else run_ADD_##ID(dst, dstep, src, sstep, n, scale);                                                        \
  }
FAST_ADD(F32, float)
FAST_ADD(F64, double)

cni_put_loops cni_put_find(enum cni_put put, int dtype)
{
#define PAIRS(ID, T, K, unused)                                                                                 \
  [CN_##ID] = {[CNI_PUT_ADD] = {run_ADD_##ID, each_ADD_##ID}, [CNI_PUT_MUL] = {run_MUL_##ID, each_MUL_##ID},    \
               [CNI_PUT_MAX] = {run_MAX_##ID, each_MAX_##ID}, [CNI_PUT_MIN] = {run_MIN_##ID, each_MIN_##ID}},
  static const cni_put_loops table[CN_DTYPE_COUNT][CNI_PUTS] = {CNI_EACH_NATURAL(PAIRS, )};
  static const cni_put_loops set[9] = {[1] = {run_SET_1, each_SET_1}, [2] = {run_SET_2, each_SET_2},
                                       [4] = {run_SET_4, each_SET_4}, [8] = {run_SET_8, each_SET_8}};
  if (put == CNI_PUT_SET) return set[cni_dtype_size(dtype)];
  if (dtype == CN_BOOL && put == CNI_PUT_ADD) put = CNI_PUT_MAX; /* true + true is true */
  cni_put_loops loops = table[dtype][put];
  if (put == CNI_PUT_ADD && dtype == CN_F32) loops.run = run_FAST_F32;
  if (put == CNI_PUT_ADD && dtype == CN_F64) loops.run = run_FAST_F64;
  return loops;
}
