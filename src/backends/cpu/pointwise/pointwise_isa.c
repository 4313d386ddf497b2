/* pointwise_isa.c: one loop per primitive and compute type, straight from pointwise.def; compiled once per
 * instruction set, so that the compiler vectorises each for it.
 *
 * Place in the flow: the leaves below cni_cpu_pointwise. Invariant: no loop is written by hand, but for one that
 * stands in for its like with the same bits. */
#include "backends/cpu/isa.h"
#if CNI_FOR_AVX512
#include "avx512/exp16.h"
#endif
#include "ops/pointwise_fn.h"
#include "ops/pointwise_kinds.h"
#include "pointwise.h"

typedef long long int64_type;
typedef unsigned long long uint64_type;

#define LOOP1(name, T, S, formula) \
  static void name##_##S(void *y_, const void *a_, const void *b_, const void *c_, int64_t n) \
  { \
    T *y = y_; \
    const T *a0 = a_; \
    (void)b_, (void)c_; \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) \
    { \
      const T a = a0[i]; \
      y[i] = (T)(formula); \
    } \
  }
#define LOOP2(name, T, S, formula) \
  static void name##_##S(void *y_, const void *a_, const void *b_, const void *c_, int64_t n) \
  { \
    T *y = y_; \
    const T *a0 = a_, *b0 = b_; \
    (void)c_; \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) \
    { \
      const T a = a0[i], b = b0[i]; \
      y[i] = (T)(formula); \
    } \
  }
#define LOOP3(name, T, S, formula) \
  static void name##_##S(void *y_, const void *a_, const void *b_, const void *c_, int64_t n) \
  { \
    T *y = y_; \
    const T *a0 = a_, *b0 = b_, *c0 = c_; \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) \
    { \
      const T a = a0[i], b = b0[i], c = c0[i]; \
      y[i] = (T)(formula); \
    } \
  }

#define SKIP(L, name, f) /* of USE and SKIP: ops/pointwise_kinds.h */

#define PWP1 PW1
#define PWP2 PW2

#define PW1(name, kind, f, ...) FLOATS_##kind(LOOP1, name, f)
#define PW2(name, kind, f, ...) FLOATS_##kind(LOOP2, name, f)
#define PWP3(name, kind, f, ...) FLOATS_##kind(LOOP3, name, f)
#define USE(L, name, f) L(name, float, f32, f)
#define T float
#define M(fn) cnm_##fn##f
#define F(fn) cnp_##fn##_f32
#include "ops/pointwise.def"
#undef USE
#undef T
#undef M
#undef F
#define USE(L, name, f) L(name, double, f64, f)
#define T double
#define M(fn) cnm_##fn
#define F(fn) cnp_##fn##_f64
#include "ops/pointwise.def"
#undef USE
#undef T
#undef M
#undef F
#undef PW1
#undef PW2
#undef PWP3

#define PW1(name, kind, f, ...) INTS_##kind(LOOP1, name, f)
#define PW2(name, kind, f, ...) INTS_##kind(LOOP2, name, f)
#define PWP3(name, kind, f, ...) INTS_##kind(LOOP3, name, f)
#define USE(L, name, f) L(name, int64_type, i64, f)
#define T int64_type
#define F(fn) cnp_##fn##_i64
#include "ops/pointwise.def"
#undef USE
#undef T
#undef F
#define USE(L, name, f) L(name, uint64_type, u64, f)
#define T uint64_type
#define F(fn) cnp_##fn##_u64
#include "ops/pointwise.def"
#undef USE
#undef T
#undef F
#undef PW1
#undef PW2
#undef PWP3

LOOP1(wide_sin, double, f64, cnm_sin_full(a))
LOOP1(wide_cos, double, f64, cnm_cos_full(a))
LOOP1(wide_tan, double, f64, cnm_tan_full(a))

#if CNI_FOR_AVX512
/* The same bits as exp_f32, in two thirds of its operations. */
static void fast_exp_f32(void *y_, const void *a_, const void *b, const void *c, int64_t n)
{
  float *y = y_;
  const float *a = a_;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, cni_exp16(_mm512_loadu_ps(a + i)));
  exp_f32(y + i, a + i, b, c, n - i);
}
#define exp_f32 fast_exp_f32
#endif

#define ENTRY(name, S) [CNI_PW_##name] = name##_##S,
#define PW1(name, kind, f, ...) FLOATS_##kind(, name, f)
#define PW2 PW1
#define PWP3 PW1
const cni_pw_table CNI_ISA_NAME(cni_pw_table) = {.loop = {
  [CNI_C_F32] = {
#define USE(L, name, f) ENTRY(name, f32)
#include "ops/pointwise.def"
#undef USE
  },
  [CNI_C_F64] = {
#define USE(L, name, f) ENTRY(name, f64)
#include "ops/pointwise.def"
#undef USE
  },
#undef PW1
#define PW1(name, kind, f, ...) INTS_##kind(, name, f)
  [CNI_C_I64] = {
#define USE(L, name, f) ENTRY(name, i64)
#include "ops/pointwise.def"
#undef USE
  },
  [CNI_C_U64] = {
#define USE(L, name, f) ENTRY(name, u64)
#include "ops/pointwise.def"
#undef USE
  },
}, .wide_sin = wide_sin_f64, .wide_cos = wide_cos_f64, .wide_tan = wide_tan_f64};
