/* pointwise_fn.h: the helpers F(name) of pointwise.def for each compute type: float, double, int64 and uint64.
 *
 * Like base/maths.h this file is also embedded in generated code, so it is plain C that is valid CUDA C too.
 * Invariant: no helper traps; division by zero of integers is checked by the caller and yields 0 here. */
#ifndef CNI_OPS_POINTWISE_FN_H
#define CNI_OPS_POINTWISE_FN_H

#include "base/maths.h"

#define CNP_FLOAT_FNS(T, S, B) /* T: type, S: suffix of our names, B: suffix of compiler builtins */ \
  CNM_FN T cnp_abs_##S(T a) { return __builtin_fabs##B(a); } \
  CNM_FN T cnp_sign_##S(T a) { return (T)(a > 0) - (T)(a < 0); } \
  CNM_FN T cnp_sqrt_##S(T a) { return __builtin_sqrt##B(a); } \
  CNM_FN T cnp_floor_##S(T a) { return __builtin_floor##B(a); } \
  CNM_FN T cnp_ceil_##S(T a) { return __builtin_ceil##B(a); } \
  CNM_FN T cnp_trunc_##S(T a) { return __builtin_trunc##B(a); } \
  CNM_FN T cnp_rint_##S(T a) { return __builtin_rint##B(a); } \
  CNM_FN T cnp_relu_##S(T a) { return a > 0 || a != a ? a : (T)0; } \
  CNM_FN int cnp_isinf_##S(T a) { return __builtin_fabs##B(a) == (T)__builtin_inf(); } \
  CNM_FN int cnp_isfinite_##S(T a) { return __builtin_fabs##B(a) < (T)__builtin_inf(); } \
  CNM_FN T cnp_maximum_##S(T a, T b) { return a != a ? a : (b != b || b > a) ? b : a; } \
  CNM_FN T cnp_minimum_##S(T a, T b) { return a != a ? a : (b != b || b < a) ? b : a; } \
  CNM_FN T cnp_fmax_##S(T a, T b) { return a != a ? b : b > a ? b : a; } \
  CNM_FN T cnp_fmin_##S(T a, T b) { return a != a ? b : b < a ? b : a; } \
  CNM_FN T cnp_fmod_##S(T a, T b) { return __builtin_fmod##B(a, b); } \
  CNM_FN T cnp_remainder_##S(T a, T b) \
  { \
    T r = __builtin_fmod##B(a, b); \
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r; \
  } \
  CNM_FN T cnp_copysign_##S(T a, T b) { return __builtin_copysign##B(a, b); } \
  CNM_FN T cnp_hypot_##S(T a, T b) { return __builtin_hypot##B(a, b); } \
  CNM_FN T cnp_pow_##S(T a, T b) { return cnm_pow##B(a, b); } \
  CNM_FN T cnp_floor_div_##S(T a, T b) /* exact where a / b alone would round up to the next integer */ \
  { \
    T r, q; \
    if (b == 0) return a / b; \
    r = __builtin_fmod##B(a, b); \
    q = (a - r) / b; \
    if (r != 0 && (b < 0) != (r < 0)) q -= (T)1; \
    if (q == 0) return __builtin_copysign##B((T)0, a / b); \
    T f = __builtin_floor##B(q); \
    return q - f > (T)0.5 ? f + (T)1 : f; \
  } \
  CNM_FN T cnp_trunc_div_##S(T a, T b) { return __builtin_trunc##B(a / b); }

CNP_FLOAT_FNS(float, f32, f)
CNP_FLOAT_FNS(double, f64, )

#define CNP_INT_FNS(T, S, NEGATIVE) /* NEGATIVE(x): x < 0, constant false for unsigned types */ \
  CNM_FN T cnp_abs_##S(T a) { return NEGATIVE(a) ? (T)-a : a; } \
  CNM_FN T cnp_sign_##S(T a) { return NEGATIVE(a) ? (T)-1 : (T)(a != 0); } \
  CNM_FN T cnp_floor_##S(T a) { return a; } \
  CNM_FN T cnp_ceil_##S(T a) { return a; } \
  CNM_FN T cnp_trunc_##S(T a) { return a; } \
  CNM_FN T cnp_rint_##S(T a) { return a; } \
  CNM_FN T cnp_relu_##S(T a) { return NEGATIVE(a) ? (T)0 : a; } \
  CNM_FN int cnp_isinf_##S(T a) { return (void)a, 0; } \
  CNM_FN int cnp_isfinite_##S(T a) { return (void)a, 1; } \
  CNM_FN T cnp_maximum_##S(T a, T b) { return b > a ? b : a; } \
  CNM_FN T cnp_minimum_##S(T a, T b) { return b < a ? b : a; } \
  CNM_FN T cnp_fmax_##S(T a, T b) { return b > a ? b : a; } \
  CNM_FN T cnp_fmin_##S(T a, T b) { return b < a ? b : a; } \
  /* x / -1 is a negation, which wraps where the division would trap */ \
  CNM_FN T cnp_trunc_div_##S(T a, T b) { return b == 0 ? (T)0 : NEGATIVE(b) && b == (T)-1 ? (T)-a : (T)(a / b); } \
  CNM_FN T cnp_fmod_##S(T a, T b) { return b == 0 || (NEGATIVE(b) && b == (T)-1) ? (T)0 : (T)(a % b); } \
  CNM_FN T cnp_remainder_##S(T a, T b) \
  { \
    T r = cnp_fmod_##S(a, b); \
    return r != 0 && NEGATIVE(r) != NEGATIVE(b) ? (T)(r + b) : r; \
  } \
  CNM_FN T cnp_floor_div_##S(T a, T b) \
  { \
    T q = cnp_trunc_div_##S(a, b), r = cnp_fmod_##S(a, b); \
    return r != 0 && NEGATIVE(r) != NEGATIVE(b) ? (T)(q - 1) : q; \
  } \
  CNM_FN T cnp_pow_##S(T a, T b) \
  { \
    T y = 1; \
    if (NEGATIVE(b)) return a == 1 ? (T)1 : a == (T)-1 ? (b & 1 ? (T)-1 : (T)1) : (T)0; \
    for (; b; b >>= 1, a *= a) \
      if (b & 1) y *= a; \
    return y; \
  } \
  CNM_FN T cnp_bitwise_and_##S(T a, T b) { return a & b; } \
  CNM_FN T cnp_bitwise_or_##S(T a, T b) { return a | b; } \
  CNM_FN T cnp_bitwise_xor_##S(T a, T b) { return a ^ b; } \
  CNM_FN T cnp_invert_##S(T a) { return ~a; } \
  /* shifts by less than 0 or more than the width give what an endless shift would */ \
  CNM_FN T cnp_shift_left_##S(T a, T b) { return NEGATIVE(b) || b >= 64 ? (T)0 : (T)(a << b); } \
  CNM_FN T cnp_shift_right_##S(T a, T b) \
  { \
    return NEGATIVE(b) || b >= 64 ? (NEGATIVE(a) ? (T)-1 : (T)0) : (T)(a >> b); \
  }

#define CNP_SIGNED(x) ((x) < 0)
#define CNP_UNSIGNED(x) ((void)(x), 0)
CNP_INT_FNS(long long, i64, CNP_SIGNED)
CNP_INT_FNS(unsigned long long, u64, CNP_UNSIGNED)

#endif
