/* The double-precision half of maths.h, included by it (see there for purpose, flags and conventions).
 *
 * Comparisons and shifts on 64-bit integers are avoided where SSE2 or AVX2 lacks them: selects compare
 * doubles, and right shifts act on values made positive by a bias. That is the invariant which keeps these
 * loops vectorisable.
 */
#ifndef CAIRN_BASE_MATHS_F64_H
#define CAIRN_BASE_MATHS_F64_H

/* a + b exactly as a rounded sum and its error. */
CNM_FN double cnm_two_sum(double a, double b, double *err)
{
  double s = a + b, t = s - a;
  *err = (a - (s - t)) + (b - t);
  return s;
}

/* a * b exactly as a rounded product and its error; no overflow for |a|, |b| < 2^995. */
CNM_FN double cnm_two_prod(double a, double b, double *err)
{
  double p = a * b;
#if CNM_HAS_FMA
  *err = CNM_FMA(a, b, -p);
#else
  double ca = a * 134217729.0, cb = b * 134217729.0;
  double ah = ca - (ca - a), bh = cb - (cb - b);
  double al = a - ah, bl = b - bh;
  *err = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
  return p;
}

/* p 2^n for |n| <= 2044, n held in `t` as n + CNM_MAGIC; two factors, so subnormal results round once. */
CNM_FN double cnm_scale(double p, double t)
{
  cnm_u64 v = cnm_d2u(t) - cnm_d2u(CNM_MAGIC) + 2046; /* n + 2046 >= 0 */
  cnm_u64 h = v >> 1;
  return p * cnm_u2d(h << 52) * cnm_u2d((v - h) << 52);
}

/* (e^r - 1 - r) / r^2, |r| <= log(2) / 2. */
CNM_FN double cnm_expm1_tail(double r)
{
  double q = CNM_MAD(CNM_MAD(2.0875415602249215e-09, r, 2.5109193417086705e-08), r, 2.7557402983557897e-07);
  q = cnm_h4(q, r, 2.7557243809318807e-06, 2.4801587171401082e-05,
             0.00019841269886471908, 0.001388888888896333);
  q = cnm_h4(q, r, 0.008333333333321516, 0.041666666666666505, 0.16666666666666677, 0.5);
  return q;
}

/* e^(x - lo) / 2^less for x within +-800, lo small beside 1. NaN gives NaN. (Zeros subtracted fold away.) */
CNM_FN double cnm_exp_core(double x, double lo, double less)
{
  double t = CNM_MAD(x, 1.4426950408889634, CNM_MAGIC);
  double n = t - CNM_MAGIC;
  double r = CNM_MAD(n, -1.9082149292705877e-10, CNM_MAD(n, -0.6931471803691238, x)) - lo;
  double q = cnm_expm1_tail(r);
  q = CNM_MAD(r * r, q, r) + 1.0;
  return cnm_scale(q, t - less);
}

/* (e^x - 1) / 4; the quarter keeps sinh finite up to its own overflow. x in [-60, 710.5]. */
CNM_FN double cnm_expm1_quarter(double x)
{
  double t = CNM_MAD(x, 1.4426950408889634, CNM_MAGIC);
  double n = t - CNM_MAGIC;
  double r = CNM_MAD(n, -1.9082149292705877e-10, CNM_MAD(n, -0.6931471803691238, x));
  double s = cnm_u2d((cnm_d2u(t) - cnm_d2u(CNM_MAGIC) + 1021) << 52); /* 2^(n-2) */
  double q = cnm_expm1_tail(r);
  q = CNM_MAD(r * r, q, r);
  return CNM_MAD(s, q, s - 0.25);
}

/* e^x. Error 1.1 ulp. */
CNM_FN double cnm_exp(double x)
{
  x = x > 710.0 ? 710.0 : x;
  x = x < -746.0 ? -746.0 : x;
  return cnm_exp_core(x, 0.0, 0.0);
}

/* e^x - 1. Error 2.1 ulp. */
CNM_FN double cnm_expm1(double x)
{
  double c = x > 710.0 ? 710.0 : x;
  c = c < -60.0 ? -60.0 : c;
  return CNM_ABS(x) < 1e-17 ? x : 4.0 * cnm_expm1_quarter(c); /* a quarter may be subnormal */
}

/* 2^x; exact for integers. Error 1.4 ulp. */
CNM_FN double cnm_exp2(double x)
{
  double t, r;
  x = x > 1025.0 ? 1025.0 : x;
  x = x < -1080.0 ? -1080.0 : x;
  t = x + CNM_MAGIC;
  r = x - (t - CNM_MAGIC);
  double q = CNM_MAD(CNM_MAD(4.4347346312038296e-10, r, 7.073820494282981e-09), r, 1.0178200123146281e-07);
  q = cnm_h4(q, r, 1.3215435079257421e-06, 1.5252733491034983e-05,
             0.0001540353045748819, 0.0013333558146777628);
  q = cnm_h4(q, r, 0.00961812910759385, 0.05550410866482007, 0.2402265069591013, 0.6931471805599453);
  return cnm_scale(CNM_MAD(q, r, 1.0), t);
}

/* Splits x > 0 into 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); other x give rubbish for the caller to
 * replace. */
CNM_FN double cnm_log_split(double x, double *k)
{
  int sub = x < 2.2250738585072014e-308;
  double xs = sub ? x * 18014398509481984.0 : x;
  cnm_u64 u = cnm_d2u(xs) + (0x3ff0000000000000ULL - 0x3fe6a09e667f3bcdULL);
  *k = cnm_u2d((u >> 52) | 0x4330000000000000ULL) - (sub ? 4503599627371573.0 : 4503599627371519.0);
  return cnm_u2d((u & 0x000fffffffffffffULL) + 0x3fe6a09e667f3bcdULL) - 1.0;
}

/* log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1]. */
CNM_FN double cnm_log_tail(double f)
{
  double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
  double p = CNM_MAD(CNM_MAD(0.14798566112998912, z, 0.15313806677182235), z, 0.18183573139130976);
  p = cnm_h4(p, z, 0.22222198418108685, 0.2857142874375012, 0.3999999999940926, 0.6666666666666735);
  return s * CNM_MAD(z, p, h) - h;
}

/* What log, log2, log10 give at and beyond the ends of (0, inf); y elsewhere. */
CNM_FN double cnm_log_ends(double x, double y)
{
  y = x < CNM_INF ? y : x;
  y = x == 0.0 ? -CNM_INF : y;
  return x < 0.0 ? CNM_NAN : y;
}

/* log x. Error 1.1 ulp. */
CNM_FN double cnm_log(double x)
{
  double k, f = cnm_log_split(x, &k), t = cnm_log_tail(f);
  return cnm_log_ends(x, CNM_MAD(k, 0.6931471803691238, f + CNM_MAD(k, 1.9082149292705877e-10, t)));
}

/* log x to base 2; exact for powers of two. Error 1.8 ulp. */
CNM_FN double cnm_log2(double x)
{
  double k, f = cnm_log_split(x, &k), t = cnm_log_tail(f);
  return cnm_log_ends(x, CNM_MAD(f + t, 1.4426950408889634, k));
}

/* log x to base 10. Error 1.9 ulp. */
CNM_FN double cnm_log10(double x)
{
  double k, f = cnm_log_split(x, &k), t = cnm_log_tail(f);
  double y = CNM_MAD(k, 1.1451100898021838e-10, (f + t) * 0.4342944819032518);
  return cnm_log_ends(x, CNM_MAD(k, 0.3010299955494702, y));
}

/* log(1 + x). 1 + x = 2^k (1 + f), and f comes from x itself, so nothing is lost for small x. Error 1.5
 * ulp. */
CNM_FN double cnm_log1p(double x)
{
  double k, f, t, s, y;
  f = cnm_log_split(1.0 + x, &k);
  s = cnm_u2d((cnm_d2u(CNM_MAGIC) + 1023 - cnm_d2u(k + CNM_MAGIC)) << 52); /* 2^-k */
  f = x < 1e16 ? CNM_MAD(x, s, s - 1.0) : f;
  t = cnm_log_tail(f);
  y = CNM_MAD(k, 0.6931471803691238, f + CNM_MAD(k, 1.9082149292705877e-10, t));
  y = x < CNM_INF ? y : x;
  y = x == 0.0 ? x : y;
  y = x == -1.0 ? -CNM_INF : y;
  return x < -1.0 ? CNM_NAN : y;
}

/* The largest argument the branch-free cnm_sin, cnm_cos and cnm_tan take; beyond it call the _full forms,
 * which branch (a block loop looks at its largest |x| first and picks). */
#define CNM_TRIG_MAX 8388608.0

/* Reduces 0 <= x <= CNM_TRIG_MAX: x = q pi/2 + r + *lo, |r| <= pi/4; *q mod 4 is in the low bits. */
CNM_FN double cnm_trig_reduce(double x, double *lo, cnm_u64 *q)
{
  double t = CNM_MAD(x, 0.63661977236758134, CNM_MAGIC), n = t - CNM_MAGIC;
  double e1, e2, r, w;
  /* n has 23 bits and the first three parts of pi/2 have 30, so these products are exact without fma too */
  r = x - n * 1.570796325802803;
  r = cnm_two_sum(r, n * -9.920935791635221e-10, &e1);
  r = cnm_two_sum(r, n * -5.17018297889025e-19, &e2);
  w = CNM_MAD(n, -2.9038559739793605e-28, e1 + e2);
  *q = cnm_d2u(t);
  e1 = r + w;
  *lo = (r - e1) + w;
  return e1;
}

/* The same for finite x >= 2^23 of any size (Payne and Hanek): multiply by the bits of 2/pi that matter,
 * modulo 4. Plain integer work; for the _full forms. */
CNM_SLOW_FN double cnm_trig_reduce_big(double x, double *lo, cnm_u64 *q)
{
  static const cnm_u64 two_over_pi[21] = {
    0, 0xa2f9836e4e441529ULL, 0xfc2757d1f534ddc0ULL, 0xdb6295993c439041ULL,
    0xfe5163abdebbc561ULL, 0xb7246e3a424dd2e0ULL, 0x06492eea09d1921cULL, 0xfe1deb1cb129a73eULL,
    0xe88235f52ebb4484ULL, 0xe99c7026b45f7e41ULL, 0x3991d639835339f4ULL, 0x9c845f8bbdf9283bULL,
    0x1ff897ffde05980fULL, 0xef2f118b5a0a6d1fULL, 0x6d367ecf27cb09b7ULL, 0x4f463f669e5fea2dULL,
    0x7527bac7ebe5f17bULL, 0x3d0739f78a5292eaULL, 0x6bfb5fb11f8d5d08ULL, 0x56033046fc7b6babULL,
    0xf0cfbc209af4361dULL
  };
  cnm_u64 u = cnm_d2u(x), m = (u & 0x000fffffffffffffULL) | 0x0010000000000000ULL;
  int at = (int)(u >> 52) - 1075 + 62, word = at >> 6, sh = at & 63, i, neg;
  cnm_u64 w[3], p[6], carry = 0, f1, f0;
  double d1, d2, d3, hi, e, s, t;
  for (i = 0; i < 3; i++) /* 192 bits from bit `at` on, least significant word last */
    w[i] = sh ? (two_over_pi[word + i] << sh) | (two_over_pi[word + i + 1] >> (64 - sh))
              : two_over_pi[word + i];
  for (i = 0; i < 6; i++) { /* p = m w mod 2^192, 32 bits at a time, least significant first */
    cnm_u64 d = (w[2 - i / 2] >> (32 * (i & 1))) & 0xffffffffu;
    cnm_u64 a = d * (m & 0xffffffffu), b = d * (m >> 32);
    a += carry;
    p[i] = a & 0xffffffffu;
    carry = b + (a >> 32);
  }
  f1 = (p[5] << 34) | (p[4] << 2) | (p[3] >> 30); /* the fraction of a quarter turn, top 128 bits */
  f0 = (p[3] << 34) | (p[2] << 2) | (p[1] >> 30);
  neg = (int)(f1 >> 63);
  *q = (p[5] >> 30) + (cnm_u64)neg;
  f1 = neg ? ~f1 + (f0 == 0) : f1;
  f0 = neg ? ~f0 + 1 : f0;
  d1 = (double)(f1 >> 32) * 2.3283064365386963e-10;
  d2 = (double)(f1 & 0xffffffffu) * 5.4210108624275222e-20;
  d3 = (double)(f0 >> 32) * 1.2621774483536189e-29 + (double)(f0 & 0xffffffffu) * 2.9387358770557188e-39;
  s = cnm_two_sum(d1, d2, &e);
  hi = cnm_two_sum(s, e + d3, &t);
  s = cnm_two_prod(hi, 1.5707963267948966, &e);
  e = CNM_MAD(hi, 6.123233995736766e-17, CNM_MAD(t, 1.5707963267948966, e));
  hi = s + e;
  *lo = (s - hi) + e;
  *lo = neg ? -*lo : *lo;
  return neg ? -hi : hi;
}

/* sin(r + lo) as a sum: the value, and in *err what rounding it lost. |r| <= pi/4. */
CNM_FN double cnm_sin_core(double r, double lo, double *err)
{
  double z = r * r, s;
  double p = CNM_MAD(1.589620015325798e-10, z, -2.5050747262450898e-08);
  p = cnm_h4(p, z, 2.7557313618319154e-06, -0.0001984126982958118, 0.00833333333332211, -0.1666666666666663);
  p = CNM_MAD(r * z, p, CNM_MAD(-0.5 * z, lo, lo));
  s = r + p;
  *err = (r - s) + p;
  return s;
}

CNM_FN double cnm_cos_core(double r, double lo, double *err)
{
  double z = r * r, h = 0.5 * z, w = 1.0 - h, c;
  double p = CNM_MAD(-1.1358511606812136e-11, z, 2.0875700365373382e-09);
  p = cnm_h4(p, z, -2.7557314175824456e-07, 2.4801587288839815e-05,
             -0.0013888888888873038, 0.041666666666666595);
  p = CNM_MAD(z * z, p, ((1.0 - w) - h) - r * lo);
  c = w + p;
  *err = (w - c) + p;
  return c;
}

/* sin or cos from the reduced argument: quadrant q of the sine; `sign` holds a sign bit to flip by. */
CNM_FN double cnm_sincos_pick(double r, double lo, cnm_u64 q, cnm_u64 sign)
{
  double e, s = cnm_sin_core(r, lo, &e), c = cnm_cos_core(r, lo, &e);
  double odd = cnm_u2d((q << 63) | 0x3ff0000000000000ULL); /* -1 or 1: a select SSE2 can make */
  double v = odd < 0.0 ? c : s;
  return cnm_u2d(cnm_d2u(v) ^ ((q >> 1) << 63) ^ sign);
}

/* sin r / cos r, or its negative inverse for odd q; the quotient is corrected for both terms' lost parts. */
CNM_FN double cnm_tan_pick(double r, double lo, cnm_u64 q, cnm_u64 sign)
{
  double se, ce, e, s = cnm_sin_core(r, lo, &se), c = cnm_cos_core(r, lo, &ce);
  double odd = cnm_u2d((q << 63) | 0x3ff0000000000000ULL);
  double n = odd < 0.0 ? -c : s, ne = odd < 0.0 ? -ce : se;
  double d = odd < 0.0 ? s : c, de = odd < 0.0 ? se : ce;
  double y = n / d, p = cnm_two_prod(y, d, &e);
  y = y + (((n - p) - e) + (ne - y * de)) / d;
  return cnm_u2d(cnm_d2u(y) ^ sign);
}

#define CNM_SIGN_BIT(x) (cnm_d2u(x) & 0x8000000000000000ULL)

/* sin x for |x| <= CNM_TRIG_MAX (or inf, NaN). Error 0.9 ulp. */
CNM_FN double cnm_sin(double x)
{
  cnm_u64 q;
  double lo, r = cnm_trig_reduce(CNM_ABS(x), &lo, &q);
  return cnm_sincos_pick(r, lo, q, CNM_SIGN_BIT(x));
}

/* cos x for |x| <= CNM_TRIG_MAX. Error 1 ulp. */
CNM_FN double cnm_cos(double x)
{
  cnm_u64 q;
  double lo, r = cnm_trig_reduce(CNM_ABS(x), &lo, &q);
  return cnm_sincos_pick(r, lo, q + 1, 0);
}

/* tan x for |x| <= CNM_TRIG_MAX. Error 1.1 ulp. */
CNM_FN double cnm_tan(double x)
{
  cnm_u64 q;
  double lo, r = cnm_trig_reduce(CNM_ABS(x), &lo, &q);
  return cnm_tan_pick(r, lo, q, CNM_SIGN_BIT(x));
}

/* The reduction for any x; x - x makes NaN of infinities and NaNs. */
CNM_SLOW_FN double cnm_trig_reduce_full(double x, double *lo, cnm_u64 *q)
{
  if (x <= CNM_TRIG_MAX) return cnm_trig_reduce(x, lo, q);
  if (x < CNM_INF) return cnm_trig_reduce_big(x, lo, q);
  *q = 0;
  return *lo = x - x;
}

/* sin, cos and tan of any x: the same values and errors as above, by a branch. Error 0.9 ulp. */
CNM_SLOW_FN double cnm_sin_full(double x)
{
  cnm_u64 q;
  double lo, r = cnm_trig_reduce_full(CNM_ABS(x), &lo, &q);
  return cnm_sincos_pick(r, lo, q, CNM_SIGN_BIT(x));
}

CNM_SLOW_FN double cnm_cos_full(double x)
{
  cnm_u64 q;
  double lo, r = cnm_trig_reduce_full(CNM_ABS(x), &lo, &q);
  return cnm_sincos_pick(r, lo, q + 1, 0);
}

CNM_SLOW_FN double cnm_tan_full(double x)
{
  cnm_u64 q;
  double lo, r = cnm_trig_reduce_full(CNM_ABS(x), &lo, &q);
  return cnm_tan_pick(r, lo, q, CNM_SIGN_BIT(x));
}

/* asin of s, z = s^2 <= 1/4. */
CNM_FN double cnm_asin_core(double s, double z)
{
  double p = 0.03191234587799748;
  p = CNM_MAD(p, z, -0.016224311887880007);
  p = CNM_MAD(p, z, 0.019528260697848833);
  p = CNM_MAD(p, z, 0.0065279965409915045);
  p = cnm_h4(p, z, 0.012169200935621259, 0.013885238225095672, 0.017359704337173116, 0.022371758091168672);
  p = cnm_h4(p, z, 0.030381959134607252, 0.04464285682840565, 0.07500000000336891, 0.16666666666665408);
  return CNM_MAD(s * z, p, s);
}

/* asin x; above 1/2 by asin x = pi/2 - 2 asin sqrt((1 - x) / 2). Error 2.4 ulp. */
CNM_FN double cnm_asin(double x)
{
  double a = CNM_ABS(x), z = a > 0.5 ? 0.5 * (1.0 - a) : a * a;
  double s = CNM_SQRT(z), p = cnm_asin_core(a > 0.5 ? s : a, z);
  double y = a > 0.5 ? 1.5707963267948966 - (2.0 * p - 6.123233995736766e-17) : p;
  return CNM_SIGN(y, x);
}

/* acos x. Error 1.3 ulp. */
CNM_FN double cnm_acos(double x)
{
  double a = CNM_ABS(x), z = a > 0.5 ? 0.5 * (1.0 - a) : a * a;
  double s = CNM_SQRT(z), p = cnm_asin_core(a > 0.5 ? s : x, z);
  double end = x < 0.0 ? 3.141592653589793 - (2.0 * p - 1.2246467991473532e-16) : 2.0 * p;
  return a > 0.5 ? end : 1.5707963267948966 - (p - 6.123233995736766e-17);
}

/* atan(y / x) for y, x >= 0, not both zero, from one division: y/x, (y - x)/(y + x) or -x/y, whichever is
 * small. */
CNM_FN double cnm_atan_core(double y, double x)
{
  int steep = y > 2.414213562373095 * x, mid = y > 0.41421356237309503 * x;
  double n = steep ? -x : mid ? y - x : y;
  double d = steep ? y : mid ? y + x : x;
  double hi = steep ? 1.5707963267948966 : mid ? 0.7853981633974483 : 0.0;
  double lo = steep ? 6.123233995736766e-17 : mid ? 3.061616997868383e-17 : 0.0;
  double t = n / d, z = t * t;
  double p = CNM_MAD(CNM_MAD(-0.01790237821999135, z, 0.03805975879035938), z, -0.05039098834837644);
  p = cnm_h4(p, z, 0.058478394716112624, -0.06663096563544542, 0.07692059493266536, -0.09090897713171103);
  p = cnm_h4(p, z, 0.11111110781755756, -0.1428571428015906, 0.19999999999953177, -0.333333333333332);
  return hi + (t + CNM_MAD(t * z, p, lo));
}

/* atan x. Error 2 ulp. */
CNM_FN double cnm_atan(double x)
{
  return CNM_SIGN(cnm_atan_core(CNM_ABS(x), 1.0), x);
}

/* The angle of the point (x, y). Error 1.9 ulp. */
CNM_FN double cnm_atan2(double y, double x)
{
  double ay = CNM_ABS(y), ax = CNM_ABS(x), top = ay > ax ? ay : ax;
  double c = top > 1e300 ? 0.25 : top < 1e-290 ? 18014398509481984.0 : 1.0, sum = ay + ax, r;
  int same = ay == ax; /* the diagonal needs care only at 0/0 and inf/inf, but is pi/4 all along */
  ay = same ? 1.0 : ay * c;
  ax = same ? 1.0 : ax * c;
  r = cnm_atan_core(ay, ax);
  r = sum == 0.0 ? 0.0 : r;
  r = CNM_SIGN(1.0, x) < 0.0 ? 3.141592653589793 - (r - 1.2246467991473532e-16) : r;
  return CNM_SIGN(r, y);
}

/* sinh x. Error 2.4 ulp. */
CNM_FN double cnm_sinh(double x)
{
  double a = CNM_ABS(x), h;
  a = a > 710.7 ? 710.7 : a;
  h = cnm_expm1_quarter(a);
  h = CNM_MAD(2.0, h, h / CNM_MAD(2.0, h, 0.5));
  return a < 1e-17 ? x : CNM_SIGN(h, x);
}

/* cosh x. Error 1.6 ulp. */
CNM_FN double cnm_cosh(double x)
{
  double a = CNM_ABS(x), h;
  a = a > 711.0 ? 711.0 : a;
  h = cnm_exp_core(a, 0.0, 1.0);
  return h + 0.25 / h;
}

/* tanh x: an odd polynomial below 0.55, then 1 - 2 / (e^(2 |x|) + 1). Error 1.6 ulp. */
CNM_FN double cnm_tanh(double x)
{
  double a = CNM_ABS(x), z = a * a, b = a > 22.0 ? 22.0 : a, g;
  double s = -1.9257674543277824e-05;
  s = CNM_MAD(s, z, 8.293822489025077e-05);
  s = CNM_MAD(s, z, -0.00023312177969136657);
  s = cnm_h4(s, z, 0.0005883440402378805, -0.0014555188443268082,
             0.0035920883684643023, -0.008863232245526596);
  s = cnm_h4(s, z, 0.021869488364544196, -0.05396825396303062, 0.1333333333332539, -0.3333333333333329);
  s = CNM_MAD(a * z, s, a);
  g = 1.0 - 2.0 / (cnm_exp_core(b + b, 0.0, 0.0) + 1.0);
  return CNM_SIGN(a < 0.55 ? s : g, x);
}

/* asinh x. Error 1.9 ulp. */
CNM_FN double cnm_asinh(double x)
{
  double a = CNM_ABS(x), b = a > 1e16 ? 1.0 : a, s = b * b;
  double t = a > 1e16 ? a : a + s / (1.0 + CNM_SQRT(1.0 + s));
  return CNM_SIGN(cnm_log1p(t) + (a > 1e16 ? 0.6931471805599453 : 0.0), x);
}

/* acosh x. Error 2.2 ulp. */
CNM_FN double cnm_acosh(double x)
{
  double t = x - 1.0, s = t * (x + 1.0);
  double y = cnm_log1p(x > 1e16 ? x : t + CNM_SQRT(s)) + (x > 1e16 ? 0.6931471805599453 : 0.0);
  return x < 1.0 ? CNM_NAN : y;
}

/* atanh x. Error 2.1 ulp. */
CNM_FN double cnm_atanh(double x)
{
  double a = CNM_ABS(x);
  return CNM_SIGN(0.5 * cnm_log1p(2.0 * a / (1.0 - a)), x);
}

/* 1 / (1 + e^-x), never overflowing inside. Error 2 ulp. */
CNM_FN double cnm_sigmoid(double x)
{
  double a = CNM_ABS(x), e, d, v;
  e = cnm_exp_core(a > 746.0 ? -746.0 : -a, 0.0, 0.0);
  d = 1.0 + e;
  v = (x < 0.0 ? e : 1.0) / d;
  return CNM_MAD(v, ((1.0 - d) + e) * -(1.0 - 0.5 * e), v); /* for the rounding of d, 1/d ~ 1 - e/2 */
}

/* erf x for |x| < 0.855. */
CNM_FN double cnm_erf_small(double x)
{
  double z = x * x;
  double s = 1.0621618347096117e-08;
  s = CNM_MAD(s, z, -1.5678147084530372e-07);
  s = CNM_MAD(s, z, 1.6396298578916662e-06);
  s = cnm_h4(s, z, -1.4921689045717588e-05, 0.00012055178775733094,
             -0.0008548323151475767, 0.005223977564634537);
  s = cnm_h4(s, z, -0.02686617063954458, 0.11283791670928729, -0.37612638903183265, 0.12837916709551256);
  return CNM_MAD(s, x, x);
}

/* erf x: an odd polynomial below 0.85, then 1 - e^-p(|x|). Error 1.6 ulp. */
CNM_FN double cnm_erf(double x)
{
  double a = CNM_ABS(x), b = a > 6.0 ? 6.0 : a;
  double g = 2.19278532054419e-13;
  g = CNM_MAD(g, b, -1.0749029304257237e-11);
  g = CNM_MAD(g, b, 2.4836289129096347e-10);
  g = CNM_MAD(g, b, -3.5963320396510924e-09);
  g = cnm_h4(g, b, 3.6576665548797556e-08, -2.772162933578056e-07,
             1.617612798234871e-06, -7.374321863240237e-06);
  g = cnm_h4(g, b, 2.6154825648769782e-05, -6.954273136347261e-05,
             0.00012061943630643662, -3.8324842540560615e-05);
  g = cnm_h4(g, b, -0.0005306183104686683, 0.0016518939806372786,
             -0.00018309128671618045, -0.01914031792290497);
  g = cnm_h4(g, b, 0.10277661543852411, 0.6366188256096865, 1.1283793059421339, -9.498503244454278e-09);
  g = CNM_SIGN(1.0 - cnm_exp_core(-g, 0.0, 0.0), x);
  return a < 0.85 ? cnm_erf_small(x) : g;
}

/* 1 - erf x; from 1/2 on without its cancellation, e^(-x^2) p((|x| - 7/2) / (|x| + 7/2)) / (1 + 2 |x|).
 * Error 3.1 ulp. */
CNM_FN double cnm_erfc(double x)
{
  double a = CNM_ABS(x), h, l, r, q, t, n, g, e;
  a = a > 28.0 ? 28.0 : a;
  q = (a - 3.5) / (a + 3.5);
  double p = CNM_MAD(1.033016839652794e-08, q, 5.341772908594797e-10);
  p = cnm_h4(p, q, -9.282722311960334e-08, -7.838430008469946e-09,
             5.999381991291167e-07, -4.431962922419984e-08);
  p = cnm_h4(p, q, -3.814257571606268e-06, 2.3283408472603024e-06,
             2.4260894499148483e-05, -4.278223432171722e-05);
  p = cnm_h4(p, q, -0.00012151241687850982, 0.0005643844163647614,
             -0.0003022678771718392, -0.004215019907368605);
  p = cnm_h4(p, q, 0.01909933094229839, -0.04882332582794771, 0.08798315382487394, -0.11508959816018988);
  p = cnm_h4(p, q, 0.09751909515325838, -0.010555596332218323, -0.14000918013761943, 1.2423492448711544);
  g = p / CNM_MAD(2.0, a, 1.0);
  h = cnm_u2d(cnm_d2u(a) & 0xfffffffff8000000ULL); /* a^2 = h^2 + (a - h)(a + h), h^2 exact */
  l = (a - h) * (a + h);
  t = CNM_MAD(-h * h, 1.4426950408889634, CNM_MAGIC);
  n = t - CNM_MAGIC;
  r = CNM_MAD(n, -1.9082149292705877e-10, CNM_MAD(n, -0.6931471803691238, -h * h)) - l;
  e = cnm_expm1_tail(r);
  e = CNM_MAD(r * r, e, r);
  r = cnm_scale(CNM_MAD(g, e, g), t);
  r = x < 0.0 ? 2.0 - r : r;
  return CNM_ABS(x) < 0.5 ? 1.0 - cnm_erf_small(x) : r;
}

/* erfinv of a in [0, 1) over a, to 2^-28: a first guess for double, the result for float. */
CNM_FN double cnm_erfinv_guess(double a)
{
  double w = -cnm_log((1.0 - a) * (1.0 + a)), u = w - 3.125, v;
  double s = 1.8039763839078483e-11;
  s = CNM_MAD(s, u, 6.728167939384695e-10);
  s = CNM_MAD(s, u, -5.083950661272902e-09);
  s = CNM_MAD(s, u, -2.5028327027239897e-08);
  s = cnm_h4(s, u, 4.3021279599928237e-07, -1.3853199278019042e-06,
             -1.390589099946511e-05, 0.0001867780910617393);
  s = cnm_h4(s, u, -0.0007406671544612177, -0.006033706049769759, 0.24015816685749858, 1.653654567187563);
  v = CNM_SQRT(w) - 4.25;
  double g = CNM_MAD(CNM_MAD(-1.72429768892611e-08, v, 1.0248210680780389e-07), v, -6.879557063113831e-08);
  g = cnm_h4(g, v, -7.184450994229277e-07, 2.0722001075960917e-06,
             -2.915508808117563e-06, 4.77827806915126e-06);
  g = cnm_h4(g, v, -1.044811445422982e-05, 2.2928083699518753e-05,
             -6.429437135846944e-05, 0.00021175536366566602);
  g = cnm_h4(g, v, -0.0006079281950076187, 0.0007128206635833004, 1.00997828048882, 4.092223421738345);
  return w < 6.25 ? s : g;
}

/* The inverse of erf: the guess, then one step of Halley on erf or, near 1, on erfc. Error 2.6 ulp. */
CNM_FN double cnm_erfinv(double x)
{
  double a = CNM_ABS(x), y = a * cnm_erfinv_guess(a), e;
  e = a < 0.5 ? cnm_erf_small(y) - a : (1.0 - a) - cnm_erfc(y);
  e = e * 0.88622692545275801 * cnm_exp(y * y);
  y = y - e / CNM_MAD(y, e, 1.0);
  y = a < 1.0 ? y : a == 1.0 ? CNM_INF : CNM_NAN;
  return x == 0.0 ? x : CNM_SIGN(y, x);
}

/* 1 / sqrt x. Error 1.7 ulp. */
CNM_FN double cnm_rsqrt(double x)
{
  return 1.0 / CNM_SQRT(x);
}

/* log x for x > 0 as a sum of two doubles, good to 2^-65 of itself; the heart of pow. */
CNM_FN double cnm_log_dd(double x, double *lo)
{
  double k, f = cnm_log_split(x, &k), d = 2.0 + f, de = (2.0 - d) + f;
  double inv = 1.0 / d, s, se, z, ze, c, ce, p, pe, t, te, e;
  s = f * inv;
  p = cnm_two_prod(s, d, &pe);
  se = (((f - p) - pe) - s * de) * inv;    /* f / (2 + f) = s + se */
  z = cnm_two_prod(s, s, &ze);
  ze = CNM_MAD(2.0 * s, se, ze);           /* its square */
  double w = CNM_MAD(CNM_MAD(0.1319885802608734, z, 0.13256555791299332), z, 0.15386768094974568);
  w = cnm_h4(w, z, 0.18181784144783636, 0.22222222522324603, 0.2857142857008696, 0.4000000000000228);
  w = w * z;
  c = 0.6666666666666666 + w;                       /* 2/3 + 2/5 z + ... */
  ce = ((0.6666666666666666 - c) + w) + 3.700743415417188e-17;
  p = cnm_two_prod(z, c, &pe);
  pe = pe + CNM_MAD(z, ce, ze * c);        /* times z */
  c = cnm_two_prod(s, p, &ce);
  ce = ce + CNM_MAD(s, pe, se * p);        /* times s: log(1 + f) = 2 s + this */
  t = cnm_two_sum(2.0 * s, c, &te);
  te = te + CNM_MAD(2.0, se, ce);
  p = cnm_two_sum(k * 0.6931471805598903, t, &e); /* k ln 2: the first part times k is exact */
  e = e + CNM_MAD(k, 5.497923018708371e-14, te);
  t = p + e;
  *lo = (p - t) + e;
  return t;
}

/* x^y with every case of C99 Annex F. Error 1.4 ulp. */
CNM_FN double cnm_pow(double x, double y)
{
  double ax = CNM_ABS(x), ay = CNM_ABS(y), l, h = cnm_log_dd(ax, &l), p, e, r, t;
  double yc = y > 1e20 ? 1e20 : y < -1e20 ? -1e20 : y; /* beyond it every |x| != 1 over- or underflows */
  /* whether y is an integer, and odd: 2^52 pushes the units of |y| to the lowest bit */
  double b = ay < 4503599627370496.0 ? ay + 4503599627370496.0 : ay;
  double frac = ay < 4503599627370496.0 ? ay - (b - 4503599627370496.0) : 0.0;
  double odd = cnm_u2d((cnm_d2u(b) << 63) | 0x3ff0000000000000ULL), bad; /* -1 for odd */
  odd = ay < 9007199254740992.0 ? odd : 1.0;
  odd = frac == 0.0 ? odd : 1.0;
  h = ax == 0.0 ? -1e4 : ax == CNM_INF ? 1e4 : h;
  l = ax == 0.0 ? 0.0 : ax == CNM_INF ? 0.0 : l;
  /* 0 and inf: any exponent decides by its sign alone */
  yc = ax == 0.0 ? CNM_SIGN(1.0, y) : ax == CNM_INF ? CNM_SIGN(1.0, y) : yc;
  p = cnm_two_prod(yc, h, &e);
  e = CNM_MAD(yc, l, e);
  t = p > 720.0 ? 720.0 : p < -760.0 ? -760.0 : p;
  e = t == p ? e : 0.0;
  r = cnm_exp_core(t, -e, 0.0);
  bad = x > -CNM_INF ? CNM_NAN : r;
  bad = x < 0.0 ? bad : r;
  r = frac == 0.0 ? r : bad;
  r = odd < 0.0 ? CNM_SIGN(r, x) : r;
  r = y == y ? r : y;
  r = x == x ? r : x;
  r = x == 1.0 ? 1.0 : r;
  return y == 0.0 ? 1.0 : r;
}

#endif
