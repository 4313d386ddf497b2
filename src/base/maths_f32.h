/* The single-precision half of maths.h, included by it after maths_f64.h (see there for purpose and
 * conventions).
 *
 * Most functions work in float alone; those that would need float pairs (trigonometric reduction, tan, pow,
 * erfinv) borrow double for a step, which still vectorises. Invariant: no value outside a float's own range
 * is assumed away, every function takes every float.
 */
#ifndef CAIRN_BASE_MATHS_F32_H
#define CAIRN_BASE_MATHS_F32_H

/* p 2^n for |n| <= 252; two factors, so subnormal results round once. */
CNM_FN float cnm_scalef(float p, cnm_i32 n)
{
  cnm_i32 h = n >> 1;
  return p * cnm_u2f((cnm_u32)(h + 127) << 23) * cnm_u2f((cnm_u32)(n - h + 127) << 23);
}

/* e^(x - lo) / 2^less for x within +-120, lo small beside 1. NaN gives NaN. */
CNM_FN float cnm_exp_coref(float x, float lo, cnm_i32 less)
{
  float t = CNM_MADF(x, 1.44269504f, CNM_MAGICF);
  float n = t - CNM_MAGICF;
  float r = CNM_MADF(n, -1.4286068e-06f, CNM_MADF(n, -0.69314575f, x)) - lo;
  float q = 0.0013841204f;
  q = cnm_h4f(q, r, 0.008369371f, 0.041668084f, 0.16666515f, 0.49999994f);
  q = CNM_MADF(r * r, q, r) + 1.0f;
  return cnm_scalef(q, (cnm_i32)cnm_f2u(t) - 0x4b400000 - less);
}

/* (e^r - 1 - r) / r^2, |r| <= log(2) / 2. */
CNM_FN float cnm_expm1_tailf(float r)
{
  float q = CNM_MADF(0.00019845799f, r, 0.001394082f);
  q = cnm_h4f(q, r, 0.00833339f, 0.04166636f, 0.16666666f, 0.5f);
  return q;
}

/* (e^x - 1) / 4; the quarter keeps sinh finite up to its own overflow. x in [-30, 89.5]. */
CNM_FN float cnm_expm1_quarterf(float x)
{
  float t = CNM_MADF(x, 1.44269504f, CNM_MAGICF);
  float n = t - CNM_MAGICF;
  float r = CNM_MADF(n, -1.4286068e-06f, CNM_MADF(n, -0.69314575f, x));
  float s = cnm_u2f((cnm_f2u(t) - 0x4b400000u + 125u) << 23); /* 2^(n-2) */
  float q = cnm_expm1_tailf(r);
  q = CNM_MADF(r * r, q, r);
  return CNM_MADF(s, q, s - 0.25f);
}

/* e^x. Error 1.2 ulp. */
CNM_FN float cnm_expf(float x)
{
  x = x > 90.0f ? 90.0f : x;
  x = x < -105.0f ? -105.0f : x;
  return cnm_exp_coref(x, 0.0f, 0);
}

/* e^x - 1. Error 1.6 ulp. */
CNM_FN float cnm_expm1f(float x)
{
  float c = x > 89.5f ? 89.5f : x;
  c = c < -30.0f ? -30.0f : c;
  return CNM_ABSF(x) < 1e-8f ? x : 4.0f * cnm_expm1_quarterf(c); /* a quarter may be subnormal */
}

/* 2^x; exact for integers. Error 1.2 ulp. */
CNM_FN float cnm_exp2f(float x)
{
  float t, r;
  x = x > 129.0f ? 129.0f : x;
  x = x < -152.0f ? -152.0f : x;
  t = x + CNM_MAGICF;
  r = x - (t - CNM_MAGICF);
  float q = CNM_MADF(CNM_MADF(1.4319349e-05f, r, 0.00015451327f), r, 0.0013337975f);
  q = cnm_h4f(q, r, 0.009618089f, 0.05550405f, 0.2402265f, 0.6931472f);
  return cnm_scalef(CNM_MADF(q, r, 1.0f), (cnm_i32)cnm_f2u(t) - 0x4b400000);
}

/* Splits x > 0 into 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); other x give rubbish for the caller to
 * replace. */
CNM_FN float cnm_log_splitf(float x, cnm_i32 *k)
{
  int sub = x < 1.17549435e-38f;
  float xs = sub ? x * 8388608.0f : x;
  cnm_i32 u = (cnm_i32)(cnm_f2u(xs) - 0x3f3504f3u);
  *k = (u >> 23) - (sub ? 23 : 0);
  return cnm_u2f((cnm_u32)(u & 0x007fffff) + 0x3f3504f3u) - 1.0f;
}

/* log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1]. */
CNM_FN float cnm_log_tailf(float f)
{
  float p = CNM_MADF(CNM_MADF(CNM_MADF(-0.07644623f, f, 0.12768194f), f, -0.13159643f), f, 0.14200857f);
  p = cnm_h4f(p, f, -0.16623321f, 0.20001262f, -0.25000823f, 0.3333333f);
  return f * f * CNM_MADF(f, p, -0.5f);
}

/* What log, log2, log10 give at and beyond the ends of (0, inf); y elsewhere. */
CNM_FN float cnm_log_endsf(float x, float y)
{
  y = x < CNM_INFF ? y : x;
  y = x == 0.0f ? -CNM_INFF : y;
  return x < 0.0f ? CNM_NANF : y;
}

/* log x. Error 1.1 ulp. */
CNM_FN float cnm_logf(float x)
{
  cnm_i32 i;
  float f = cnm_log_splitf(x, &i), k = (float)i, t = cnm_log_tailf(f);
  return cnm_log_endsf(x, CNM_MADF(k, 0.69314575f, f + CNM_MADF(k, 1.4286068e-06f, t)));
}

/* log x to base 2; exact for powers of two. Error 1.9 ulp. */
CNM_FN float cnm_log2f(float x)
{
  cnm_i32 i;
  float f = cnm_log_splitf(x, &i), k = (float)i, t = cnm_log_tailf(f);
  return cnm_log_endsf(x, CNM_MADF(f + t, 1.44269504f, k));
}

/* log x to base 10. Error 2.2 ulp. */
CNM_FN float cnm_log10f(float x)
{
  cnm_i32 i;
  float f = cnm_log_splitf(x, &i), k = (float)i, t = cnm_log_tailf(f);
  float y = CNM_MADF(k, 4.605039e-06f, (f + t) * 0.434294482f);
  return cnm_log_endsf(x, CNM_MADF(k, 0.3010254f, y));
}

/* log(1 + x). 1 + x = 2^k (1 + f), and f comes from x itself, so nothing is lost for small x. Error 1.7
 * ulp. */
CNM_FN float cnm_log1pf(float x)
{
  cnm_i32 i;
  float f = cnm_log_splitf(1.0f + x, &i), k = (float)i, s, t, y;
  s = cnm_u2f((cnm_u32)(127 - i) << 23); /* 2^-k */
  f = x < 1e8f ? CNM_MADF(x, s, s - 1.0f) : f;
  t = cnm_log_tailf(f);
  y = CNM_MADF(k, 0.69314575f, f + CNM_MADF(k, 1.4286068e-06f, t));
  y = x < CNM_INFF ? y : x;
  y = x == 0.0f ? x : y;
  y = x == -1.0f ? -CNM_INFF : y;
  return x < -1.0f ? CNM_NANF : y;
}

/* Reduces any finite x >= 0: x = q pi/2 + r, |r| < 0.86, r good to 2^-26 of itself; *q mod 4 is in the low
 * bits. x times 2/pi in double, modulo 4: for large x the leading bits of 2/pi make whole turns with every
 * float that large, so a smaller constant stands in for it. Each is split so that x times the first two
 * parts is exact. */
CNM_FN double cnm_trig_reducef(float x, cnm_u32 *q)
{
  double d = x, a = 0.6366197690367699, b = 3.3308114738561656e-09, c = 2.276010073078396e-18, t, n;
  a = d >= 4294967296.0 ? 0.003807272354606539 : a; /* 2^32 */
  b = d >= 4294967296.0 ? 1.2974803956927738e-11 : b;
  c = d >= 4294967296.0 ? 1.0760572810738749e-19 : c;
  a = d >= 7.205759403792794e+16 ? 7.118246443671428e-11 : a; /* 2^56 */
  b = d >= 7.205759403792794e+16 ? 5.412865912203745e-19 : b;
  c = d >= 7.205759403792794e+16 ? 5.881214749119912e-27 : c;
  a = d >= 1.2089258196146292e+24 ? 1.6153797803925804e-17 : a; /* 2^80 */
  b = d >= 1.2089258196146292e+24 ? 7.696704847356705e-26 : b;
  c = d >= 1.2089258196146292e+24 ? 1.668286766860824e-34 : c;
  a = d >= 2.028240960365167e+31 ? 1.1109428103129918e-24 : a; /* 2^104 */
  b = d >= 2.028240960365167e+31 ? 4.018688549560441e-33 : b;
  c = d >= 2.028240960365167e+31 ? 1.590011303568902e-41 : c;
  a = d * a;
  b = d * b;
  t = (a + b) + CNM_MAGIC;
  n = t - CNM_MAGIC;
  *q = (cnm_u32)cnm_d2u(t);
  return CNM_MAD(d, c, (a - n) + b) * 1.5707963267948966;
}

/* sin or cos from the reduced argument: quadrant q of the sine; `sign` holds a sign bit to flip by. */
CNM_FN float cnm_sincos_pickf(float r, cnm_u32 q, cnm_u32 sign)
{
  float z = r * r, v;
  float s = CNM_MADF(CNM_MADF(-0.00019452072f, z, 0.008331664f), z, -0.16666646f);
  float c = CNM_MADF(CNM_MADF(2.4360568e-05f, z, -0.0013886634f), z, 0.04166663f);
  s = CNM_MADF(r * z, s, r);
  c = CNM_MADF(z * z, c, CNM_MADF(z, -0.5f, 1.0f));
  v = (q & 1u) ? c : s;
  return cnm_u2f(cnm_f2u(v) ^ ((q & 2u) << 30) ^ sign);
}

/* sin x, any x. Error 1.8 ulp. */
CNM_FN float cnm_sinf(float x)
{
  cnm_u32 q;
  float r = (float)cnm_trig_reducef(CNM_ABSF(x), &q);
  return cnm_sincos_pickf(r, q, cnm_f2u(x) & 0x80000000u);
}

/* cos x, any x. Error 1.8 ulp. */
CNM_FN float cnm_cosf(float x)
{
  cnm_u32 q;
  float r = (float)cnm_trig_reducef(CNM_ABSF(x), &q);
  return cnm_sincos_pickf(r, q + 1u, 0u);
}

/* tan x, any x. Error 0.6 ulp. */
CNM_FN float cnm_tanf(float x)
{
  cnm_u32 q;
  double r = cnm_trig_reducef(CNM_ABSF(x), &q), z = r * r, odd;
  double s = 2.7106509534196066e-06;
  s = CNM_MAD(s, z, -0.0001983845415488646);
  s = CNM_MAD(s, z, 0.008333326375640418);
  s = CNM_MAD(s, z, -0.1666666661297625);
  double c = -2.713506927272014e-07;
  c = CNM_MAD(c, z, 2.4798514406903042e-05);
  c = CNM_MAD(c, z, -0.0013888879515711694);
  c = CNM_MAD(c, z, 0.04166666656774038);
  s = CNM_MAD(r * z, s, r);
  c = CNM_MAD(z * z, c, CNM_MAD(z, -0.5, 1.0));
  odd = (double)(cnm_i32)(q & 1u);
  return cnm_u2f(cnm_f2u((float)((odd > 0.0 ? -c : s) / (odd > 0.0 ? s : c))) ^ (cnm_f2u(x) & 0x80000000u));
}

/* asin of s, z = s^2 <= 1/4. */
CNM_FN float cnm_asin_coref(float s, float z)
{
  float p = 0.042158272f;
  p = cnm_h4f(p, z, 0.024184786f, 0.04546915f, 0.074953094f, 0.16666752f);
  return CNM_MADF(s * z, p, s);
}

/* asin x; above 1/2 by asin x = pi/2 - 2 asin sqrt((1 - x) / 2). Error 2.5 ulp. */
CNM_FN float cnm_asinf(float x)
{
  float a = CNM_ABSF(x), z = a > 0.5f ? 0.5f * (1.0f - a) : a * a;
  float s = CNM_SQRTF(z), p = cnm_asin_coref(a > 0.5f ? s : a, z);
  float y = a > 0.5f ? 1.5707964f - (2.0f * p - -4.371139e-08f) : p;
  return CNM_SIGNF(y, x);
}

/* acos x. Error 1.3 ulp. */
CNM_FN float cnm_acosf(float x)
{
  float a = CNM_ABSF(x), z = a > 0.5f ? 0.5f * (1.0f - a) : a * a;
  float s = CNM_SQRTF(z), p = cnm_asin_coref(a > 0.5f ? s : x, z);
  float end = x < 0.0f ? 3.1415927f - (2.0f * p - -8.742278e-08f) : 2.0f * p;
  return a > 0.5f ? end : 1.5707964f - (p - -4.371139e-08f);
}

/* atan(y / x) for y, x >= 0, not both zero, from one division: y/x, (y - x)/(y + x) or -x/y, whichever is
 * small. */
CNM_FN float cnm_atan_coref(float y, float x)
{
  int steep = y > 2.41421366f * x, mid = y > 0.414213568f * x;
  float n = steep ? -x : mid ? y - x : y;
  float d = steep ? y : mid ? y + x : x;
  float hi = steep ? 1.5707964f : mid ? 0.7853982f : 0.0f;
  float lo = steep ? -4.371139e-08f : mid ? -2.1855694e-08f : 0.0f;
  float t = n / d, z = t * t;
  float p = -0.060900424f;
  p = cnm_h4f(p, z, 0.10599167f, -0.14244391f, 0.19998528f, -0.33333316f);
  return hi + (t + CNM_MADF(t * z, p, lo));
}

/* atan x. Error 2 ulp. */
CNM_FN float cnm_atanf(float x)
{
  return CNM_SIGNF(cnm_atan_coref(CNM_ABSF(x), 1.0f), x);
}

/* The angle of the point (x, y). Error 2 ulp. */
CNM_FN float cnm_atan2f(float y, float x)
{
  float ay = CNM_ABSF(y), ax = CNM_ABSF(x), top = ay > ax ? ay : ax;
  float c = top > 1e37f ? 0.25f : top < 1e-30f ? 16777216.0f : 1.0f, sum = ay + ax, r;
  int same = ay == ax; /* the diagonal needs care only at 0/0 and inf/inf, but is pi/4 all along */
  ay = same ? 1.0f : ay * c;
  ax = same ? 1.0f : ax * c;
  r = cnm_atan_coref(ay, ax);
  r = sum == 0.0f ? 0.0f : r;
  r = CNM_SIGNF(1.0f, x) < 0.0f ? 3.1415927f - (r - -8.742278e-08f) : r;
  return CNM_SIGNF(r, y);
}

/* sinh x. Error 2.3 ulp. */
CNM_FN float cnm_sinhf(float x)
{
  float a = CNM_ABSF(x), h;
  a = a > 89.5f ? 89.5f : a;
  h = cnm_expm1_quarterf(a);
  h = CNM_MADF(2.0f, h, h / CNM_MADF(2.0f, h, 0.5f));
  return a < 1e-8f ? x : CNM_SIGNF(h, x);
}

/* cosh x. Error 1.6 ulp. */
CNM_FN float cnm_coshf(float x)
{
  float a = CNM_ABSF(x), h;
  a = a > 90.0f ? 90.0f : a;
  h = cnm_exp_coref(a, 0.0f, 1);
  return h + 0.25f / h;
}

/* tanh x: an odd polynomial below 0.55, then 1 - 2 / (e^(2 |x|) + 1). Error 1.6 ulp. */
CNM_FN float cnm_tanhf(float x)
{
  float a = CNM_ABSF(x), z = a * a, b = a > 12.0f ? 12.0f : a, g;
  float s = -0.006238494f;
  s = cnm_h4f(s, z, 0.021048063f, -0.05384704f, 0.13332541f, -0.33333316f);
  s = CNM_MADF(a * z, s, a);
  g = 1.0f - 2.0f / (cnm_exp_coref(b + b, 0.0f, 0) + 1.0f);
  return CNM_SIGNF(a < 0.55f ? s : g, x);
}

/* asinh x. Error 2 ulp. */
CNM_FN float cnm_asinhf(float x)
{
  float a = CNM_ABSF(x), b = a > 1e8f ? 1.0f : a, s = b * b;
  float t = a > 1e8f ? a : a + s / (1.0f + CNM_SQRTF(1.0f + s));
  return CNM_SIGNF(cnm_log1pf(t) + (a > 1e8f ? 0.693147181f : 0.0f), x);
}

/* acosh x. Error 2.6 ulp. */
CNM_FN float cnm_acoshf(float x)
{
  float t = x - 1.0f, s = t * (x + 1.0f);
  float y = cnm_log1pf(x > 1e8f ? x : t + CNM_SQRTF(s)) + (x > 1e8f ? 0.693147181f : 0.0f);
  return x < 1.0f ? CNM_NANF : y;
}

/* atanh x. Error 2.3 ulp. */
CNM_FN float cnm_atanhf(float x)
{
  float a = CNM_ABSF(x);
  return CNM_SIGNF(0.5f * cnm_log1pf(2.0f * a / (1.0f - a)), x);
}

/* 1 / (1 + e^-x), never overflowing inside. Error 2 ulp. */
CNM_FN float cnm_sigmoidf(float x)
{
  float a = CNM_ABSF(x), e, d, v;
  e = cnm_exp_coref(a > 105.0f ? -105.0f : -a, 0.0f, 0);
  d = 1.0f + e;
  v = CNM_QUOTIENTF(x < 0.0f ? e : 1.0f, d);
  return CNM_MADF(v, ((1.0f - d) + e) * -(1.0f - 0.5f * e), v); /* for the rounding of d, 1/d ~ 1 - e/2 */
}

/* erf x for |x| < 0.855. */
CNM_FN float cnm_erf_smallf(float x)
{
  float z = x * x;
  float s = CNM_MADF(-0.000632775f, z, 0.0050543575f);
  s = cnm_h4f(s, z, -0.026805433f, 0.11282824f, -0.37612587f, 0.12837917f);
  return CNM_MADF(s, x, x);
}

/* erf x: an odd polynomial below 0.85, then 1 - e^-p(|x|). Error 1.5 ulp. */
CNM_FN float cnm_erff(float x)
{
  float a = CNM_ABSF(x), b = a > 4.0f ? 4.0f : a;
  float g = CNM_MADF(CNM_MADF(-0.00020353508f, b, 0.0031167448f), b, -0.022515826f);
  g = cnm_h4f(g, b, 0.104521774f, 0.6365208f, 1.1280615f, 0.00010402758f);
  g = CNM_SIGNF(1.0f - cnm_exp_coref(-g, 0.0f, 0), x);
  return a < 0.85f ? cnm_erf_smallf(x) : g;
}

/* 1 - erf x; from 1/2 on without its cancellation, e^(-x^2) p((|x| - 2) / (|x| + 2)) / (1 + 2 |x|). Error
 * 3.4 ulp. */
CNM_FN float cnm_erfcf(float x)
{
  float a = CNM_ABSF(x), h, l, r, q, t, n, g, e;
  a = a > 10.5f ? 10.5f : a;
  q = (a - 2.0f) / (a + 2.0f);
  float p = CNM_MADF(-0.00023100608f, q, -0.0012618391f);
  p = cnm_h4f(p, q, 0.0011501666f, 0.008656709f, -0.0080064535f, -0.05421076f);
  p = cnm_h4f(p, q, 0.16404879f, -0.16603085f, -0.09276377f, 1.2769784f);
  g = p / CNM_MADF(2.0f, a, 1.0f);
  h = cnm_u2f(cnm_f2u(a) & 0xfffff000u); /* a^2 = h^2 + (a - h)(a + h), h^2 exact */
  l = (a - h) * (a + h);
  t = CNM_MADF(-h * h, 1.44269504f, CNM_MAGICF);
  n = t - CNM_MAGICF;
  r = CNM_MADF(n, -1.4286068e-06f, CNM_MADF(n, -0.69314575f, -h * h)) - l;
  e = cnm_expm1_tailf(r);
  e = CNM_MADF(r * r, e, r);
  r = cnm_scalef(CNM_MADF(g, e, g), (cnm_i32)cnm_f2u(t) - 0x4b400000);
  r = x < 0.0f ? 2.0f - r : r;
  return CNM_ABSF(x) < 0.5f ? 1.0f - cnm_erf_smallf(x) : r;
}

/* The inverse of erf. Error 1.6 ulp. */
CNM_FN float cnm_erfinvf(float x)
{
  float a = CNM_ABSF(x), y;
  y = x * (float)cnm_erfinv_guess((double)a);
  return a < 1.0f ? y : a == 1.0f ? CNM_SIGNF(CNM_INFF, x) : CNM_NANF;
}

/* 1 / sqrt x. Error 1.7 ulp. */
CNM_FN float cnm_rsqrtf(float x)
{
  return 1.0f / CNM_SQRTF(x);
}

/* |x|^y for pow, as a double: 2^(y log2 |x|). */
CNM_FN double cnm_pow_magf(double x, double y)
{
  cnm_u64 u = cnm_d2u(x) + (0x3ff0000000000000ULL - 0x3fe6a09e667f3bcdULL);
  double k = cnm_u2d((u >> 52) | 0x4330000000000000ULL) - 4503599627371519.0;
  double f = cnm_u2d((u & 0x000fffffffffffffULL) + 0x3fe6a09e667f3bcdULL) - 1.0;
  double s = f / (2.0 + f), z = s * s, t, r;
  double p = 0.19586403864049118;
  p = cnm_h4(p, z, 0.22176046603840285, 0.2857211219026676, 0.3999999559696655, 0.6666666667586246);
  p = CNM_MAD(CNM_MAD(z, p, 2.0) * s, 1.4426950408889634, k);
  p = x == 0.0 ? -1e300 : x > 1e100 ? 1e300 : p;
  t = p * y;
  t = x == 1.0 ? 0.0 : t;
  t = t > 200.0 ? 200.0 : t;
  t = t < -200.0 ? -200.0 : t;
  r = t;
  t = t + CNM_MAGIC;
  r = r - (t - CNM_MAGIC);
  double q = CNM_MAD(CNM_MAD(1.519611557993182e-05, r, 0.00015466877563883517), r, 0.0013333936240591622);
  q = cnm_h4(q, r, 0.009618037784644444, 0.05550410363370748, 0.24022651068678982, 0.6931471807055978);
  return CNM_MAD(q, r, 1.0) * cnm_u2d((cnm_d2u(t) - cnm_d2u(CNM_MAGIC) + 1023) << 52);
}

/* x^y with every case of C99 Annex F. Error 0.6 ulp. */
CNM_FN float cnm_powf(float x, float y)
{
  float r = (float)cnm_pow_magf((double)CNM_ABSF(x), (double)y), ay = CNM_ABSF(y);
  /* whether y is an integer, and odd: 2^23 pushes the units of |y| to the lowest bit */
  float b = ay < 8388608.0f ? ay + 8388608.0f : ay;
  float frac = ay < 8388608.0f ? ay - (b - 8388608.0f) : 0.0f, bad;
  cnm_u32 odd = ay < 16777216.0f ? cnm_f2u(b) & 1u : 0u;
  odd = frac == 0.0f ? odd : 0u;
  bad = x > -CNM_INFF ? CNM_NANF : r;
  bad = x < 0.0f ? bad : r;
  r = frac == 0.0f ? r : bad;
  r = odd ? CNM_SIGNF(r, x) : r;
  r = y == y ? r : y;
  r = x == x ? r : x;
  r = x == 1.0f ? 1.0f : r;
  return y == 0.0f ? 1.0f : r;
}

#endif
