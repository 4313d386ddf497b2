/* pointwise_isa.c: one loop per primitive and compute type, straight from pointwise.def; compiled once per
 * instruction set, so that the compiler vectorises each for it.
 *
 * Place in the flow: the leaves below cni_cpu_pointwise. Invariant: no loop is written by hand, but for those that
 * stand in for their like with the same bits.
 *
 * A loop of a long formula (kind FUN, and tests) is over whole vectors, and what is left over is one more of them,
 * padded: copies of the formula for half a vector and for single numbers would be twice as much code again. Formulas
 * that branch (SLW) gain nothing by wider vectors: AVX-512 has AVX2's loops of them. */
#include <string.h>

#include "backends/cpu/isa.h"
#if CNI_FOR_AVX512
#include "avx512/exp16.h"
#elif CNI_FOR_AVX2
#include <immintrin.h>
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
/* Every sa-th element of a and every sb-th of b: 1, or 0 for one value. */
#define LOOP2(name, T, S, formula) \
  static inline __attribute__((always_inline)) void name##_by_##S(void *y_, const void *a_, int sa, const void *b_, \
                                                                  int sb, int64_t n) \
  { \
    T *y = y_; \
    const T *a0 = a_, *b0 = b_; \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) \
    { \
      const T a = a0[i * sa], b = b0[i * sb]; \
      y[i] = (T)(formula); \
    } \
  } \
  static void name##_##S(void *y, const void *a, const void *b, const void *c, int64_t n) \
  { \
    (void)c; \
    name##_by_##S(y, a, 1, b, 1, n); \
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

/* Elements of type T in a vector of the level. */
enum { VECTOR = CNI_FOR_AVX512 ? 64 : CNI_FOR_AVX2 ? 32 : 16 };
#define WHOLE(T) (VECTOR / (int)sizeof(T))

#if CNI_ISA_LEVEL > 0
/* `bytes` of a vector, a multiple of 4, from there into a room for all of it, with zeros behind them; and back. By
 * masks where the level has them: loads of a vector wait long for stores of less. */
#if CNI_FOR_AVX512
#define FIRST_LANES(bytes) (__mmask16)((1u << (bytes) / 4) - 1)
static void padded(void *room, const void *from, size_t bytes)
{
  _mm512_storeu_ps(room, _mm512_maskz_loadu_ps(FIRST_LANES(bytes), from));
}
static void part_of(void *to, const void *room, size_t bytes)
{
  _mm512_mask_storeu_ps(to, FIRST_LANES(bytes), _mm512_loadu_ps(room));
}
#elif CNI_FOR_AVX2
#define FIRST_LANES(bytes) \
  _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(bytes) / 4), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
static void padded(void *room, const void *from, size_t bytes)
{
  _mm256_storeu_ps(room, _mm256_maskload_ps(from, FIRST_LANES(bytes)));
}
static void part_of(void *to, const void *room, size_t bytes)
{
  _mm256_maskstore_ps(to, FIRST_LANES(bytes), _mm256_loadu_ps(room));
}
#else
static void padded(void *room, const void *from, size_t bytes)
{
  memset(room, 0, VECTOR);
  memcpy(room, from, bytes);
}
static void part_of(void *to, const void *room, size_t bytes) { memcpy(to, room, bytes); }
#endif

/* What is left over of n elements behind whole vectors: `loop` over one more. */
static __attribute__((noinline)) void left_over(cni_pw_loop loop, size_t size, int arity, char *y,
                                                const void *const *x, int64_t n)
{
  char room[3][VECTOR], out[VECTOR];
  const size_t left = (size_t)n * size % VECTOR, done = (size_t)n * size - left;
  for (int i = 0; i < arity; i++) padded(room[i], (const char *)x[i] + done, left);
  loop(out, room[0], room[1], room[2], VECTOR / (int64_t)size);
  part_of(y + done, out, left);
}
#define WHOLES(name, T, S, arity, formula, ...) \
  static void name##_##S(void *y_, const void *a_, const void *b_, const void *c_, int64_t n) \
  { \
    T *y = y_; \
    const T *a0 = a_, *b0 = b_, *c0 = c_; \
    (void)b0, (void)c0; \
    CNI_IVDEP for (int64_t i = 0, m = n & -WHOLE(T); i < m; i++) \
    { \
      __VA_ARGS__; \
      y[i] = (T)(formula); \
    } \
    if (n % WHOLE(T)) \
      left_over(name##_##S, sizeof(T), arity, y_, (const void *const[]){a_, b_, c_}, n); \
  }
#define WHOLES1(name, T, S, formula) WHOLES(name, T, S, 1, formula, const T a = a0[i])
#define WHOLES2(name, T, S, formula) WHOLES(name, T, S, 2, formula, const T a = a0[i], b = b0[i])
#define WHOLES3(name, T, S, formula) WHOLES(name, T, S, 3, formula, const T a = a0[i], b = b0[i], c = c0[i])
#else
#define WHOLES1 LOOP1
#define WHOLES2 LOOP2
#define WHOLES3 LOOP3
#endif

/* Loops of formulas that branch: AVX2's are lent to AVX-512. */
#define LENT(name, S) \
  void cni_pw_##name##_##S##_avx2(void *y, const void *a, const void *b, const void *c, int64_t n)
#if CNI_FOR_AVX2
#define BRANCHES(loop, name, T, S, formula) \
  loop(name, T, S, formula) \
  LENT(name, S); \
  LENT(name, S) { name##_##S(y, a, b, c, n); }
#elif CNI_FOR_AVX512
#define BRANCHES(loop, name, T, S, formula) \
  LENT(name, S); \
  static void name##_##S(void *y, const void *a, const void *b, const void *c, int64_t n) \
  { \
    cni_pw_##name##_##S##_avx2(y, a, b, c, n); \
  }
#else
#define BRANCHES(loop, name, T, S, formula) loop(name, T, S, formula)
#endif
#define BRANCHES1(name, T, S, formula) BRANCHES(LOOP1, name, T, S, formula)
#define BRANCHES2(name, T, S, formula) BRANCHES(LOOP2, name, T, S, formula)
#define BRANCHES3(name, T, S, formula) BRANCHES(LOOP3, name, T, S, formula)

/* The loop of a kind of formula. */
#define LOOPS_FUN(arity) WHOLES##arity
#define LOOPS_SLW(arity) BRANCHES##arity
#define LOOPS_FLT(arity) LOOP##arity
#define LOOPS_NUM LOOPS_FLT
#define LOOPS_INT LOOPS_FLT
#define LOOPS_SGN LOOPS_FLT
#define LOOPS_QUO LOOPS_FLT
#define LOOPS_CMP LOOPS_FUN
#define LOOPS_LOG LOOPS_FUN
#define LOOPS_FIT LOOPS_FUN
#define LOOPS_BIT LOOPS_FLT

#define SKIP(L, name, f) /* of USE and SKIP: ops/pointwise_kinds.h */

#define PWP1 PW1
#define PWP2 PW2

#define PW1(name, kind, f, ...) FLOATS_##kind(LOOPS_##kind(1), name, f)
#define PW2(name, kind, f, ...) FLOATS_##kind(LOOPS_##kind(2), name, f)
#define PWP3(name, kind, f, ...) FLOATS_##kind(LOOPS_##kind(3), name, f)
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

LOOP1(half_neg, uint16_t, u16, (uint16_t)(a ^ 0x8000u))
LOOP1(half_abs, uint16_t, u16, (uint16_t)(a & 0x7fffu))

#if CNI_FOR_AVX512
/* The same bits as the formulas' loops, in two thirds of their operations. */
#define FAST(name) \
  static void fast_##name##_f32(void *y_, const void *a_, const void *b, const void *c, int64_t n) \
  { \
    float *y = y_; \
    const float *a = a_; \
    int64_t i = 0; \
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, cni_##name##16(_mm512_loadu_ps(a + i))); \
    name##_f32(y + i, a + i, b, c, n - i); \
  }
FAST(exp) FAST(sigmoid) FAST(logsigmoid_slope) FAST(silu) FAST(silu_slope)
#define exp_f32 fast_exp_f32
#define sigmoid_f32 fast_sigmoid_f32
#define logsigmoid_slope_f32 fast_logsigmoid_slope_f32
#define silu_f32 fast_silu_f32
#define silu_slope_f32 fast_silu_slope_f32
#endif

/* Powers of one exponent are the usual ones: the same bits by loops that know it. PLAIN: where
 * none is usual. */
#define POWER(e) \
  for (int64_t i = 0; i < n; i++) y[i] = F(pow)(a[i], e)
#define POWERS(T, S, PLAIN) \
  static void quick_pow_##S(void *y_, const void *a_, const void *b_, const void *c, int64_t n) \
  { \
    T *y = y_; \
    const T *a = a_, *b = b_, e = n > 0 ? b[0] : 0; \
    int differ = 0, usual = cnp_usual_power_##S(e); \
    for (int64_t i = 0; i < n; i++) differ |= b[i] != e; \
    for (int64_t i = 0; differ && i < n; i++) usual |= cnp_usual_power_##S(b[i]); \
    if (!usual) PLAIN##_##S(y, a, b, c, n); \
    else if (differ || e == -2 || e == -3) pow_##S(y, a, b, c, n); \
    else if (e == 2) CNI_IVDEP POWER(2); \
    else if (e == 3) CNI_IVDEP POWER(3); \
    else if (e == 1) CNI_IVDEP POWER(1); \
    else if (e == -1) CNI_IVDEP POWER(-1); \
    else if (e == (T)0.5) CNI_IVDEP POWER((T)0.5); \
    else CNI_IVDEP POWER((T)-0.5); \
  }
#define F(fn) cnp_##fn##_f32
LOOP2(plain_pow, float, f32, cnm_powf(a, b))
POWERS(float, f32, plain_pow)
#undef F
#define F(fn) cnp_##fn##_f64
POWERS(double, f64, pow)
#undef F
#define pow_f32 quick_pow_f32
#define pow_f64 quick_pow_f64

/* fmod and what is made of it. A quotient below 2^22 (2^51) rounds up to an integer at times, never down, so what a
 * fused multiply-add leaves is off by one divisor at most, and every step exact; a block with other quotients goes by
 * the loop of the formula. */
#if defined(__FMA__) || defined(__aarch64__)
enum { SOME = 256 };
#define QUOTIENT(name, T, S, RESULT) \
  static void quick_##name##_##S(void *y, const void *a_, const void *b_, const void *c, int64_t n) \
  { \
    const T *a0 = a_, *b0 = b_; \
    T block[SOME]; \
    for (int64_t at = 0, m; at < n; at += m, a0 += m, b0 += m) { \
      m = n - at < SOME ? n - at : SOME; \
      if (rests_##S(block, a0, b0, m)) { \
        CNI_IVDEP for (int64_t i = 0; i < m; i++) \
        { \
          const T a = a0[i], b = b0[i], r = block[i]; \
          (void)a, (void)b; \
          ((T *)y)[at + i] = RESULT; \
        } \
      } else name##_##S((T *)y + at, a0, b0, c, m); \
    } \
  }
#define QUOTIENTS(T, S, B, MOST) \
  static __attribute__((noinline)) bool rests_##S(T *r, const T *a, const T *b, int64_t n) \
  { \
    int large = 0; \
    for (int64_t i = 0; i < n; i++) { \
      const T u = __builtin_fabs##B(a[i]), v = __builtin_fabs##B(b[i]), t = u / v; \
      T rest = __builtin_fma##B(-__builtin_trunc##B(t), v, u); \
      large |= !(t < MOST); \
      rest = rest < 0 ? rest + v : rest; \
      r[i] = __builtin_copysign##B(t < 1 ? u : rest, a[i]); \
    } \
    return !large; \
  } \
  QUOTIENT(fmod, T, S, r) \
  QUOTIENT(remainder, T, S, cnp_remainder_of_##S(r, b)) \
  QUOTIENT(floor_div, T, S, cnp_floor_div_of_##S(a, b, r))
QUOTIENTS(float, f32, f, 4194304)
QUOTIENTS(double, f64, , 2251799813685248)
#define fmod_f32 quick_fmod_f32
#define fmod_f64 quick_fmod_f64
#define remainder_f32 quick_remainder_f32
#define remainder_f64 quick_remainder_f64
#define floor_div_f32 quick_floor_div_f32
#define floor_div_f64 quick_floor_div_f64
#endif

/* With one value as the first or the second operand. */
#define FIRST(name) \
  static void name##_first(void *y, const void *a, const void *b, const void *c, int64_t n) \
  { \
    (void)c; \
    name##_by_f32(y, a, 0, b, 1, n); \
  }
#define SECOND(name) \
  static void name##_second(void *y, const void *a, const void *b, const void *c, int64_t n) \
  { \
    (void)c; \
    name##_by_f32(y, a, 1, b, 0, n); \
  }
FIRST(add) SECOND(add) FIRST(sub) SECOND(sub) FIRST(mul) SECOND(mul) FIRST(div) SECOND(div)

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
}, .wide_sin = wide_sin_f64, .wide_cos = wide_cos_f64, .wide_tan = wide_tan_f64,
.half_neg = half_neg_u16, .half_abs = half_abs_u16,
.one = {{CNI_PW_add, {add_first, add_second}}, {CNI_PW_sub, {sub_first, sub_second}},
        {CNI_PW_mul, {mul_first, mul_second}}, {CNI_PW_div, {div_first, div_second}}}};
