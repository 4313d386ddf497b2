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
  CNM_FN int cnp_isposinf_##S(T a) { return a == (T)__builtin_inf(); } \
  CNM_FN int cnp_isneginf_##S(T a) { return a == -(T)__builtin_inf(); } \
  CNM_FN int cnp_signbit_##S(T a) { return __builtin_copysign##B((T)1, a) < 0; } \
  CNM_FN T cnp_maximum_##S(T a, T b) { return ((b != b) | (b > a)) ? b : a; } /* a NaN a is above nothing */ \
  CNM_FN T cnp_minimum_##S(T a, T b) { return ((b != b) | (b < a)) ? b : a; } \
  CNM_FN T cnp_fmax_##S(T a, T b) { return a != a ? b : b > a ? b : a; } \
  CNM_FN T cnp_fmin_##S(T a, T b) { return a != a ? b : b < a ? b : a; } \
  CNM_FN T cnp_fmod_##S(T a, T b) { return __builtin_fmod##B(a, b); } \
  /* r: fmod(a, b) */ \
  CNM_FN T cnp_remainder_of_##S(T r, T b) { return r != 0 && ((r < 0) != (b < 0)) ? r + b : r; } \
  CNM_FN T cnp_remainder_##S(T a, T b) { return cnp_remainder_of_##S(__builtin_fmod##B(a, b), b); } \
  CNM_FN T cnp_copysign_##S(T a, T b) { return __builtin_copysign##B(a, b); } \
  CNM_FN T cnp_hypot_##S(T a, T b) { return __builtin_hypot##B(a, b); } \
  CNM_FN int cnp_usual_power_##S(T b) \
  { \
    T e = __builtin_fabs##B(b); \
    return (e == 1) | (e == 2) | (e == 3) | (e == (T)0.5); \
  } \
  /* The usual exponents without a logarithm. Both ways are computed before the choice, so that loops are vectors. */ \
  CNM_FN T cnp_pow_##S(T a, T b) \
  { \
    T p = cnm_pow##B(a, b), e = __builtin_fabs##B(b); \
    T root = __builtin_fabs##B(a) == (T)__builtin_inf() ? a * a : __builtin_sqrt##B(a + (T)0); \
    T y = e == (T)0.5 ? root : a; \
    y = e == 2 ? y * y : y; \
    y = e == 3 ? y * y * y : y; \
    y = b < 0 ? (T)1 / y : y; \
    return cnp_usual_power_##S(b) ? y : p; \
  } \
  /* r: fmod(a, b); exact where a / b alone would round up to the next integer */ \
  CNM_FN T cnp_floor_div_of_##S(T a, T b, T r) \
  { \
    T q = (a - r) / b; \
    q = r != 0 && (b < 0) != (r < 0) ? q - (T)1 : q; \
    T f = __builtin_floor##B(q), y = q - f > (T)0.5 ? f + (T)1 : f; \
    return q == 0 ? __builtin_copysign##B((T)0, a / b) : y; \
  } \
  CNM_FN T cnp_floor_div_##S(T a, T b) \
  { \
    return b == 0 ? a / b : cnp_floor_div_of_##S(a, b, __builtin_fmod##B(a, b)); \
  } \
  CNM_FN T cnp_trunc_div_##S(T a, T b) { return __builtin_trunc##B(a / b); } \
  CNM_FN T cnp_clip_##S(T a, T b, T c) { return cnp_minimum_##S(cnp_maximum_##S(a, b), c); } \
  CNM_FN T cnp_hardswish_slope_##S(T a) { return a <= -3 ? (T)0 : a < 3 ? a / (T)3 + (T)0.5 : (T)1; } \
  CNM_FN T cnp_elu_##S(T a, T b, T c) \
  { \
    T y = b * cnm_expm1##B(a * c); \
    return a > 0 ? a : y; \
  } \
  /* Both branches are computed before the choice: as a condition it would reach into the exponential. */ \
  CNM_FN T cnp_elu_slope_##S(T a, T b, T c) \
  { \
    T y = b * c * cnm_exp##B(a * c); \
    return a <= 0 ? y : (T)1; \
  } \
  CNM_FN T cnp_softplus_##S(T a, T b, T c) \
  { \
    T s = a * b, y = cnm_log1p##B(cnm_exp##B(s)) / b; \
    return s > c ? a : y; \
  } \
  CNM_FN T cnp_softplus_slope_##S(T a, T b, T c) \
  { \
    T s = a * b, y = (T)1 / ((T)1 + cnm_exp##B(-s)); \
    return s > c ? (T)1 : y; \
  } \
  CNM_FN T cnp_logsigmoid_##S(T a) \
  { \
    return cnp_minimum_##S(a, (T)0) - cnm_log1p##B(cnm_exp##B(-__builtin_fabs##B(a))); \
  } \
  CNM_FN T cnp_silu_##S(T a) { return a / ((T)1 + cnm_exp##B(-a)); } \
  CNM_FN T cnp_silu_slope_##S(T a) \
  { \
    T s = (T)1 / ((T)1 + cnm_exp##B(-a)); \
    return s * ((T)1 + a * ((T)1 - s)); \
  } \
  /* x sigmoid(u), u = 2 sqrt(2 / pi) (x + 0.044715 x^3): the same as x (1 + tanh(u / 2)) / 2 */ \
  CNM_FN T cnp_gelu_tanh_##S(T a) \
  { \
    T u = a * ((T)1.5957691216057308 + (T)0.07135481627159786 * a * a); \
    return a / ((T)1 + cnm_exp##B(-u)); \
  } \
  CNM_FN T cnp_gelu_tanh_slope_##S(T a) \
  { \
    T z = a * a, s = (T)1 / ((T)1 + cnm_exp##B(-a * ((T)1.5957691216057308 + (T)0.07135481627159786 * z))); \
    return s + s * ((T)1 - s) * a * ((T)1.5957691216057308 + (T)0.21406444881479357 * z); \
  } \
  /* tanh(log(1 + w)), w = e^x, is n / (n + 2), n = w (w + 2); it is 1 long before x = 20 */ \
  CNM_FN T cnp_mish_##S(T a) \
  { \
    T w = cnm_exp##B(a > 20 ? (T)20 : a), n = w * (w + (T)2); \
    return a * (n / (n + (T)2)); \
  } \
  CNM_FN T cnp_mish_slope_##S(T a) \
  { \
    T x = a > 20 ? (T)20 : a, w = cnm_exp##B(x), n = w * (w + (T)2), d = n + (T)2; \
    return (n * d + (T)4 * x * w * (w + (T)1)) / (d * d) + (a - a); /* NaN for infinities, as in PyTorch */ \
  }

CNP_FLOAT_FNS(float, f32, f)
CNP_FLOAT_FNS(double, f64, )

/* frexp: the fraction of a in [1/2, 1) with its sign, and the power of two; a itself and 0 where there is none. */
CNM_FN float cnp_mantissa_f32(float a)
{
  float s = __builtin_fabsf(a) < 1.17549435e-38f ? a * 33554432.0f : a;
  float m = cnm_u2f((cnm_f2u(s) & 0x807fffffu) | 0x3f000000u);
  return a == 0 || !cnp_isfinite_f32(a) ? a : m;
}
CNM_FN double cnp_mantissa_f64(double a)
{
  double s = __builtin_fabs(a) < 2.2250738585072014e-308 ? a * 18014398509481984.0 : a;
  double m = cnm_u2d((cnm_d2u(s) & 0x800fffffffffffffULL) | 0x3fe0000000000000ULL);
  return a == 0 || !cnp_isfinite_f64(a) ? a : m;
}
CNM_FN float cnp_exponent_f32(float a)
{
  int small = __builtin_fabsf(a) < 1.17549435e-38f;
  int e = (int)(cnm_f2u(small ? a * 33554432.0f : a) >> 23 & 255u) - (small ? 151 : 126);
  return a == 0 || !cnp_isfinite_f32(a) ? 0.0f : (float)e;
}
CNM_FN double cnp_exponent_f64(double a)
{
  int small = __builtin_fabs(a) < 2.2250738585072014e-308;
  int e = (int)(cnm_d2u(small ? a * 18014398509481984.0 : a) >> 52 & 2047u) - (small ? 1076 : 1022);
  return a == 0 || !cnp_isfinite_f64(a) ? 0.0 : (double)e;
}

/* The nearest number, ties to even, that float16 (drop is 13) or bfloat16 (16) holds. */
CNM_FN float cnp_narrow_f32(float a, float drop)
{
  float m = __builtin_fabsf(a), small = (m + 0.5f) - 0.5f; /* small: subnormals of float16, by steps of 2^-24 */
  cnm_u32 u = cnm_f2u(m), low = drop == 13.0f ? 0x1fffu : drop == 16.0f ? 0xffffu : 0u;
  float y = cnm_u2f((u + (low >> 1) + ((drop == 13.0f ? u >> 13 : u >> 16) & (low & 1u))) & ~low);
  if (drop == 13.0f && m < 6.103515625e-05f) y = small;
  if (drop == 13.0f && y > 65504.0f) y = (float)__builtin_inf();
  return a != a ? a : __builtin_copysignf(y, a);
}
CNM_FN double cnp_narrow_f64(double a, double drop) { return (void)drop, a; }

/* The neighbour of a towards b. drop: how many low bits of the fraction a's stored type has not: 13 float16, 16
 * bfloat16, else 0. */
CNM_FN float cnp_nextafter_f32(float a, float b, float drop)
{
  float low = drop == 13.0f ? 6.103515625e-05f : 0.0f; /* where the subnormals of float16 begin: even steps */
  cnm_u32 step = drop == 13.0f ? 0x2000u : drop == 16.0f ? 0x10000u : 1u;
  float m = __builtin_fabsf(a), y;
  int away = (b > a) == (a > 0);
  if (a != a || b != b) return a + b;
  if (a == b) return b;
  if (a == 0) return __builtin_copysignf(low > 0 ? 5.9604644775390625e-08f : cnm_u2f(step), b);
  if (m < low || (m == low && !away)) y = away ? m + 5.9604644775390625e-08f : m - 5.9604644775390625e-08f;
  else if (low > 0 && !cnp_isfinite_f32(a)) y = 65504.0f;
  else y = cnm_u2f(away ? cnm_f2u(m) + step : cnm_f2u(m) - step);
  return __builtin_copysignf(y, a);
}
CNM_FN double cnp_nextafter_f64(double a, double b, double drop)
{
  double m = __builtin_fabs(a);
  int away = (b > a) == (a > 0);
  (void)drop;
  if (a != a || b != b) return a + b;
  if (a == b) return b;
  if (a == 0) return __builtin_copysign(cnm_u2d(1), b);
  return __builtin_copysign(cnm_u2d(away ? cnm_d2u(m) + 1 : cnm_d2u(m) - 1), a);
}

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
  CNM_FN int cnp_isposinf_##S(T a) { return (void)a, 0; } \
  CNM_FN int cnp_isneginf_##S(T a) { return (void)a, 0; } \
  CNM_FN int cnp_signbit_##S(T a) { return NEGATIVE(a); } \
  CNM_FN T cnp_maximum_##S(T a, T b) { return b > a ? b : a; } \
  CNM_FN T cnp_minimum_##S(T a, T b) { return b < a ? b : a; } \
  CNM_FN T cnp_clip_##S(T a, T b, T c) { return cnp_minimum_##S(cnp_maximum_##S(a, b), c); } \
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
  CNM_FN T cnp_gcd_##S(T a, T b) /* of absolute values; gcd(0, b) is |b| */ \
  { \
    unsigned long long x = (unsigned long long)cnp_abs_##S(a), y = (unsigned long long)cnp_abs_##S(b), r; \
    for (; y; x = y, y = r) r = x % y; \
    return (T)x; \
  } \
  CNM_FN T cnp_lcm_##S(T a, T b) \
  { \
    T g = cnp_gcd_##S(a, b); \
    return g == 0 ? (T)0 : cnp_abs_##S((T)(cnp_trunc_div_##S(a, g) * b)); \
  } \
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
