/* Bessel functions of real arguments for maths.h, included by it after the special functions (see there for
 * conventions): J and Y of orders 0 and 1, K of orders 0 and 1 with and without its exponential, Airy's Ai, the first
 * spherical Bessel function.
 *
 * Each is an expansion near 0 and a modulus and a phase, or a decay, far from it. Polynomials are interpolants at
 * Chebyshev's points, made for this file. Where a function oscillates the error is stated against the swing around x,
 * not against a value next to a zero: that is the invariant. They branch, and are not for vector loops.
 */
#ifndef CAIRN_BASE_MATHS_BESSEL_H
#define CAIRN_BASE_MATHS_BESSEL_H

/* J0(x) for |x| <= 8. */
CNM_SLOW_FN double cnm_j0_small(double x)
{
  double z = x * x, t, p;
  if (z <= 4.0) {
    p = -2.7554627451304853e-17;
    p = CNM_MAD(p, z, 9.374040264824887e-15);
    p = cnm_h4(p, z, -2.4027516479743225e-12, 4.709501211181604e-10,
               -6.781683999910833e-08, 6.781684027479545e-06);
    p = cnm_h4(p, z, -0.0004340277777775944, 0.015624999999999943,
               -0.25, 1.0);
    return p;
  }
  t = (z - 34.0) / 30.0;
  p = -4.5693039084620154e-12;
  p = CNM_MAD(p, t, 1.321888978628538e-10);
  p = CNM_MAD(p, t, -3.2955477089604385e-09);
  p = CNM_MAD(p, t, 7.063901862541414e-08);
  p = cnm_h4(p, t, -1.2785988085395403e-06, 1.9219030341212283e-05,
             -0.0002350005745489347, 0.0022766274025701884);
  p = cnm_h4(p, t, -0.01687041425377912, 0.09095471279066729,
             -0.32951172559746456, 0.6860443873409243);
  p = cnm_h4(p, t, -0.46770370007721335, -0.6827827156189067,
             0.7882021364000906, 0.10125849142259098);
  return p;
}

/* J1(x) / x there. */
CNM_SLOW_FN double cnm_j1_small(double x)
{
  double z = x * x, t, p;
  if (z <= 4.0) {
    p = 4.959864516174894e-16;
    p = cnm_h4(p, z, -1.4998607879028735e-13, 3.363854277964198e-11,
               -5.651401562521842e-09, 6.781684002978282e-07);
    p = cnm_h4(p, z, -5.4253472220295585e-05, 0.0026041666666659167,
               -0.06249999999999989, 0.5);
    return p;
  }
  t = (z - 34.0) / 30.0;
  p = -1.474806400326272e-13;
  p = CNM_MAD(p, t, 4.5712728316028955e-12);
  p = CNM_MAD(p, t, -1.2286013411923924e-10);
  p = CNM_MAD(p, t, 2.8561349488276093e-09);
  p = cnm_h4(p, t, -5.65119338333897e-08, 9.376391343839668e-07,
             -1.2812686387216995e-05, 0.00014100034472428488);
  p = cnm_h4(p, t, -0.001214201281560857, 0.007872859985098537,
             -0.036381885116230625, 0.10983724186582128);
  p = cnm_h4(p, t, -0.18294516995758284, 0.09354074001544269,
             0.0910376954158543, -0.05254680909333938);
  return p;
}

/* Y0(x) - 2 / pi log(x) J0(x) there. */
CNM_SLOW_FN double cnm_y0_small(double x)
{
  double z = x * x, t, p;
  if (z <= 4.0) {
    p = 5.1570802731499796e-17;
    p = CNM_MAD(p, z, -1.69096178375433e-14);
    p = cnm_h4(p, z, 4.143457490422328e-12, -7.693076830262604e-10,
               1.0358475979673893e-07, -9.495005204644146e-06);
    p = cnm_h4(p, z, 0.0005386026668612999, -0.016073968025938315,
               0.17760601686906713, -0.07380429510868723);
    return p;
  }
  t = (z - 34.0) / 30.0;
  p = 9.889539647811285e-12;
  p = CNM_MAD(p, t, -2.800793378203959e-10);
  p = CNM_MAD(p, t, 6.81829526534929e-09);
  p = CNM_MAD(p, t, -1.4233228728224648e-07);
  p = cnm_h4(p, t, 2.500133560504895e-06, -3.630255564206675e-05,
             0.00042616265899264366, -0.003929314767902657);
  p = cnm_h4(p, t, 0.027347533875793417, -0.13539578323845625,
             0.4300112230366311, -0.6797274062804486);
  p = cnm_h4(p, t, -0.08243736557621097, 1.4505969713114966,
             -0.5829957127120134, -0.4275745538109398);
  return p;
}

/* (Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x there. */
CNM_SLOW_FN double cnm_y1_small(double x)
{
  double z = x * x, t, p;
  if (z <= 4.0) {
    p = 2.6349780029866626e-18;
    p = CNM_MAD(p, z, -9.580801442744816e-16);
    p = cnm_h4(p, z, 2.6494314132392897e-13, -5.648023130274005e-11,
               8.931879596242573e-09, -9.926740619157492e-07);
    p = cnm_h4(p, z, 7.164268749972318e-05, -0.0029553053360798285,
               0.05434868816051024, -0.19605709064623894);
    return p;
  }
  t = (z - 34.0) / 30.0;
  p = 3.2242496105186145e-13;
  p = CNM_MAD(p, t, -9.793571290010839e-12);
  p = CNM_MAD(p, t, 2.5736152123007126e-10);
  p = CNM_MAD(p, t, -5.835946771186113e-09);
  p = cnm_h4(p, t, 1.1228539829163512e-07, -1.8045056327774576e-06,
             2.3761079750413902e-05, -0.00025021135569703055);
  p = cnm_h4(p, t, 0.0020411052710213196, -0.012342381324057452,
             0.051752419705394, -0.13361793895223673);
  p = cnm_h4(p, t, 0.15568730750561088, 0.05539556594293622,
             -0.22301966881312538, 0.05569451657122776);
  return p;
}

/* With a = x - order pi / 2 - pi / 4: J = sqrt(2 / (pi x)) (p cos a - q sin a), Y the same with p sin a + q cos a, for
 * x >= 8. These are p and q. */
CNM_SLOW_FN double cnm_p0_large(double x)
{
  double t = 128.0 / (x * x) - 1.0;
  double p = -9.956789357075715e-14;
  p = CNM_MAD(p, t, 3.4522133160706755e-13);
  p = CNM_MAD(p, t, -1.0238327024264009e-12);
  p = CNM_MAD(p, t, 4.674986189266031e-12);
  p = cnm_h4(p, t, -2.490341621088381e-11, 1.5506348898107537e-10,
             -1.212113319927827e-09, 1.2803747958820875e-08);
  p = cnm_h4(p, t, -2.052744819908975e-07, 6.13741608125692e-06,
             -0.000536367319212998, 0.9994572757882519);
  return p;
}

CNM_SLOW_FN double cnm_q0_large(double x)
{
  double t = 128.0 / (x * x) - 1.0;
  double p = 1.219514188391054e-14;
  p = CNM_MAD(p, t, -3.4113236146637735e-14);
  p = cnm_h4(p, t, 5.929898206834386e-14, -2.099758563065514e-13,
             8.668139835284154e-13, -3.6048433228612124e-12);
  p = cnm_h4(p, t, 1.703066004617455e-11, -9.469840948077304e-11,
             6.432785773648844e-10, -5.668716993586103e-09);
  p = cnm_h4(p, t, 7.106214856811922e-08, -1.477138832591472e-06,
             6.83314909934392e-05, -0.01555511387951352);
  return 8.0 * p / x;
}

CNM_SLOW_FN double cnm_p1_large(double x)
{
  double t = 128.0 / (x * x) - 1.0;
  double p = 1.0611465423215105e-13;
  p = CNM_MAD(p, t, -3.6942891113569033e-13);
  p = CNM_MAD(p, t, 1.104039648785332e-12);
  p = CNM_MAD(p, t, -5.072230977922283e-12);
  p = cnm_h4(p, t, 2.722599260495964e-11, -1.7137215568191013e-10,
             1.360300632416571e-09, -1.4708498675907175e-08);
  p = cnm_h4(p, t, 2.4536766267949663e-07, -7.959694699656698e-06,
             0.0008988049416705508, 1.0009070262780821);
  return p;
}

CNM_SLOW_FN double cnm_q1_large(double x)
{
  double t = 128.0 / (x * x) - 1.0;
  double p = -1.2885173339953764e-14;
  p = CNM_MAD(p, t, 3.613838965220232e-14);
  p = cnm_h4(p, t, -6.327191570730754e-14, 2.248080209615115e-13,
             -9.308675106308984e-13, 3.892783101307446e-12);
  p = cnm_h4(p, t, -1.85220905861051e-11, 1.039449369627048e-10,
             -7.151109688895056e-10, 6.420133494245422e-09);
  p = cnm_h4(p, t, -8.291960706171709e-08, 1.8212018511696138e-06,
             -9.621458822054462e-05, 0.04677687402744898);
  return 8.0 * p / x;
}

/* J0 (u = 1, v = 0) and Y0 (u = 0, v = 1) for x >= 8, and with other p and q the others. The phase's pi / 4
 * goes into sums of sine and cosine, so it costs no figures. NaN for infinity. */
CNM_SLOW_FN double cnm_bessel_large(double x, double p, double q, double u, double v)
{
  double s = cnm_sin_full(x), c = cnm_cos_full(x), even = c + s, odd = s - c;
  double y = u * (p * even - q * odd) + v * (p * odd + q * even);
  return y * 0.5641895835477563 / CNM_SQRT(x);
}

/* The Bessel function of the first kind, order 0. Error 9 ulp of the swing. */
CNM_SLOW_FN double cnm_bessel_j0(double x)
{
  double a = CNM_ABS(x);
  return a <= 8.0 ? cnm_j0_small(x) : cnm_bessel_large(a, cnm_p0_large(a), cnm_q0_large(a), 1.0, 0.0);
}

/* Order 1: its phase is a quarter turn behind. Error 9 ulp of the swing. */
CNM_SLOW_FN double cnm_bessel_j1(double x)
{
  double a = CNM_ABS(x);
  if (a <= 8.0) return x * cnm_j1_small(x);
  return CNM_SIGN(1.0, x) * cnm_bessel_large(a, cnm_q1_large(a), -cnm_p1_large(a), 1.0, 0.0);
}

/* The Bessel function of the second kind, order 0: -inf at 0, NaN below. Error 9 ulp of the swing. */
CNM_SLOW_FN double cnm_bessel_y0(double x)
{
  if (x == 0.0) return -CNM_INF;
  if (!(x > 0.0)) return CNM_NAN;
  if (x > 8.0) return cnm_bessel_large(x, cnm_p0_large(x), cnm_q0_large(x), 0.0, 1.0);
  return CNM_MAD(0.6366197723675814 * cnm_log(x), cnm_j0_small(x), cnm_y0_small(x));
}

/* Order 1: -inf at 0, NaN below. Error 9 ulp of the swing. */
CNM_SLOW_FN double cnm_bessel_y1(double x)
{
  if (x == 0.0) return -CNM_INF;
  if (!(x > 0.0)) return CNM_NAN;
  if (x > 8.0) return cnm_bessel_large(x, cnm_q1_large(x), -cnm_p1_large(x), 0.0, 1.0);
  return 0.6366197723675814 * (cnm_log(x) * x * cnm_j1_small(x) - 1.0 / x) + x * cnm_y1_small(x);
}

/* K0(x) + log(x / 2) I0(x) for 0 < x <= 2. */
CNM_SLOW_FN double cnm_k0_small(double x)
{
  double t = 0.5 * x * x - 1.0;
  double p = 3.518611978846953e-14;
  p = CNM_MAD(p, t, 5.4525646625978115e-12);
  p = cnm_h4(p, t, 6.623013277190278e-10, 6.093361894172149e-08,
             4.0545066199495615e-06, 0.0001828055582791554);
  p = cnm_h4(p, t, 0.005053392643196092, 0.07177701034240509,
             0.3404973210133806, -0.30362077291575545);
  return p;
}

/* x (K1(x) - log(x / 2) I1(x)) there. */
CNM_SLOW_FN double cnm_k1_small(double x)
{
  double t = 0.5 * x * x - 1.0;
  double p = -6.21422926654518e-13;
  p = CNM_MAD(p, t, -8.53363416816121e-11);
  p = cnm_h4(p, t, -9.032127511269602e-09, -7.081133691517491e-07,
             -3.891869064370918e-05, -0.001383168846618116);
  p = cnm_h4(p, t, -0.027854235219771845, -0.2438385288677433,
             -0.3322409552403131, 0.8850882877295894);
  return p;
}

/* e^x K0(x) for x >= 2. */
CNM_SLOW_FN double cnm_k0e_large(double x)
{
  double t = 4.0 / x - 1.0;
  double p = 9.815402008859526e-11;
  p = CNM_MAD(p, t, -1.7415792636713548e-10);
  p = CNM_MAD(p, t, -2.511583623750801e-10);
  p = cnm_h4(p, t, 4.297822831935991e-10, 6.696909677353191e-10,
             -1.2154646925329214e-09, 2.3928247577454007e-10);
  p = cnm_h4(p, t, -6.909445532095268e-10, 3.649704196745876e-09,
             -8.004851515961861e-09, 1.713185600678902e-08);
  p = cnm_h4(p, t, -4.106658027115221e-08, 1.0292557328065749e-07,
             -2.6897300718519323e-07, 7.427862249156294e-07);
  p = cnm_h4(p, t, -2.191167925216506e-06, 7.002244891192467e-06,
             -2.4735205374482363e-05, 9.95605474680701e-05);
  p = cnm_h4(p, t, -0.00047976905673534966, 0.003032891810274143,
             -0.031071461824889863, 1.2185953385133905);
  return p / CNM_SQRT(x);
}

/* e^x K1(x) there. */
CNM_SLOW_FN double cnm_k1e_large(double x)
{
  double t = 4.0 / x - 1.0;
  double p = -1.0724391572705258e-10;
  p = CNM_MAD(p, t, 1.9076899650576552e-10);
  p = CNM_MAD(p, t, 2.7260400995214217e-10);
  p = cnm_h4(p, t, -4.671582670762342e-10, -7.347807544194839e-10,
             1.3385849977465314e-09, -2.915889725458638e-10);
  p = cnm_h4(p, t, 8.254002611298962e-10, -4.159564044495663e-09,
             9.191838293612963e-09, -1.990916912542139e-08);
  p = cnm_h4(p, t, 4.8165011477502914e-08, -1.2200063909110853e-07,
             3.230534911986308e-07, -9.067153917791994e-07);
  p = cnm_h4(p, t, 2.7300306911646126e-06, -8.961206568008175e-06,
             3.2843866443823695e-05, -0.0001395902196146278);
  p = cnm_h4(p, t, 0.0007357241548745106, -0.005566729880073309,
             0.1033497377538656, 1.363151890371342);
  return p / CNM_SQRT(x);
}

/* K0, times e^x if scaled: inf at 0, NaN below. */
CNM_SLOW_FN double cnm_k0_any(double x, int scaled)
{
  double y;
  if (x == 0.0) return CNM_INF;
  if (!(x > 0.0)) return CNM_NAN;
  if (x > 2.0) return scaled ? cnm_k0e_large(x) : cnm_k0e_large(x) * cnm_exp(-x);
  y = CNM_MAD(-cnm_log(0.5 * x), cnm_i0_small(x), cnm_k0_small(x));
  return scaled ? y * cnm_exp(x) : y;
}

/* K1 likewise. */
CNM_SLOW_FN double cnm_k1_any(double x, int scaled)
{
  double y;
  if (x == 0.0) return CNM_INF;
  if (!(x > 0.0)) return CNM_NAN;
  if (x > 2.0) return scaled ? cnm_k1e_large(x) : cnm_k1e_large(x) * cnm_exp(-x);
  y = CNM_MAD(cnm_log(0.5 * x) * x, cnm_i1_small(x), cnm_k1_small(x) / x);
  return scaled ? y * cnm_exp(x) : y;
}

/* The modified Bessel functions of the second kind. Error 7 ulp. */
CNM_SLOW_FN double cnm_bessel_k0(double x) { return cnm_k0_any(x, 0); }
CNM_SLOW_FN double cnm_bessel_k1(double x) { return cnm_k1_any(x, 0); }
/* ... times e^x. Error 7 ulp. */
CNM_SLOW_FN double cnm_bessel_k0e(double x) { return cnm_k0_any(x, 1); }
CNM_SLOW_FN double cnm_bessel_k1e(double x) { return cnm_k1_any(x, 1); }

/* sin(x) / x: 1 at 0, 0 at infinity. Error 2 ulp. */
CNM_SLOW_FN double cnm_spherical_j0(double x)
{
  if (CNM_ABS(x) == CNM_INF) return 0.0;
  return x == 0.0 ? 1.0 : cnm_sin_full(x) / x;
}

/* Ai(x) for -5 <= x <= -2.5. */
CNM_SLOW_FN double cnm_airy_far(double x)
{
  double t = x / 1.25 + 3.0;
  double p = -9.919745693228324e-11;
  p = CNM_MAD(p, t, 1.385035607428523e-10);
  p = cnm_h4(p, t, 2.9819354875967464e-09, -1.4376431122621971e-08,
             -2.6617982709422772e-08, 4.461448282166042e-07);
  p = cnm_h4(p, t, -8.947337204638991e-07, -6.3952371280085095e-06,
             3.56167233492993e-05, 1.0651044013550722e-05);
  p = cnm_h4(p, t, -0.0005639682486815799, 0.0011528731302182366,
             0.004178454772599913, -0.019227327193220435);
  p = cnm_h4(p, t, -0.004557586625381256, 0.1403617968252618,
             -0.13020053495621106, -0.48860794765822857);
  p = cnm_h4(p, t, 0.6901333562712201, 0.7371465908619796,
             -0.7905674578264704, -0.2516127030142227);
  return p;
}

/* Ai(x) for -2.5 <= x <= 0. */
CNM_SLOW_FN double cnm_airy_near(double x)
{
  double t = x / 1.25 + 1.0;
  double p = 1.4802330863696445e-10;
  p = CNM_MAD(p, t, -7.562252762304822e-10);
  p = CNM_MAD(p, t, -1.4285669273838415e-09);
  p = CNM_MAD(p, t, 2.8172558257673115e-08);
  p = cnm_h4(p, t, -8.900907075639256e-08, -2.941793863846461e-07,
             3.1662767431313067e-06, -6.398326521548716e-06);
  p = cnm_h4(p, t, -3.381023967941447e-05, 0.00021908363120547273,
             -0.00021334122999690813, -0.0021175330025025915);
  p = cnm_h4(p, t, 0.007977840812492339, 0.00011322954747152513,
             -0.06060067671297798, 0.11095481213343641);
  p = cnm_h4(p, t, 0.11269401798352768, -0.5078569115579095,
             0.1738494541898972, 0.5200454774352992);
  return p;
}

/* Ai(x) for 0 <= x <= 2. */
CNM_SLOW_FN double cnm_airy_right(double x)
{
  double t = x - 1.0;
  double p = -8.353966493008627e-13;
  p = CNM_MAD(p, t, 5.834280960500866e-12);
  p = CNM_MAD(p, t, 1.4570107509485998e-12);
  p = cnm_h4(p, t, -2.76208711074884e-10, 1.8426551615955113e-09,
             -1.4629808513457e-09, -5.651282396148512e-08);
  p = cnm_h4(p, t, 3.9185118857875604e-07, -6.20097540805541e-07,
             -6.839583496259204e-06, 4.9943223640595395e-05);
  p = cnm_h4(p, t, -0.00010575200545359031, -0.0003866980086328201,
             0.0031835185329570186, -0.007625102761696099);
  p = cnm_h4(p, t, -0.003975837497318685, 0.06764620815644071,
             -0.1591474412967932, 0.13529241631288141);
  return p;
}

/* x^(1/4) e^z Ai(x) for x >= 2, of z = 2/3 x^(3/2). */
CNM_SLOW_FN double cnm_airy_decay(double z)
{
  double t = 3.7712361663282534 / z - 1.0;
  double p = 2.1232316908239498e-11;
  p = CNM_MAD(p, t, -3.70148522574519e-11);
  p = CNM_MAD(p, t, -5.670475475756458e-11);
  p = cnm_h4(p, t, 9.570574961111267e-11, 1.423436335504603e-10,
             -2.5268259322850853e-10, 2.2013868764659094e-11);
  p = cnm_h4(p, t, -8.561059138423831e-11, 6.458984936654302e-10,
             -1.3821391778710336e-09, 2.835730988026765e-09);
  p = cnm_h4(p, t, -6.659269173947729e-09, 1.6360727579068442e-08,
             -4.17987798991145e-08, 1.1275715178528115e-07);
  p = cnm_h4(p, t, -3.2469628635513144e-07, 1.0121088235670942e-06,
             -3.485109448392831e-06, 1.3671255967361099e-05);
  p = cnm_h4(p, t, -6.427592276955774e-05, 0.0003986567748943179,
             -0.004122380595849569, 0.2774908024616546);
  return p;
}

/* With a = z - pi / 4: Ai(-x) = (f cos a + g sin a / z) / (sqrt(pi) x^(1/4)) for x >= 5. These are f and g. */
CNM_SLOW_FN double cnm_airy_f(double z)
{
  double t = 111.11111111111111 / (z * z) - 1.0;
  double p = -1.4683787373283778e-13;
  p = CNM_MAD(p, t, 4.776722503718645e-13);
  p = CNM_MAD(p, t, -1.2687761520201386e-12);
  p = CNM_MAD(p, t, 5.426173196008279e-12);
  p = cnm_h4(p, t, -2.7038382010619743e-11, 1.553138204445723e-10,
             -1.1119396689532536e-09, 1.067340538832939e-08);
  p = cnm_h4(p, t, -1.5421120244450012e-07, 4.128666160101178e-06,
             -0.0003254319872640657, 0.9996702731603566);
  return p;
}

CNM_SLOW_FN double cnm_airy_g(double z)
{
  double t = 111.11111111111111 / (z * z) - 1.0;
  double p = 6.665588476412444e-14;
  p = CNM_MAD(p, t, -1.661680253060318e-13);
  p = CNM_MAD(p, t, 1.8753712983003009e-13);
  p = cnm_h4(p, t, -6.035832390542166e-13, 2.4357979954075092e-12,
             -8.513309250478686e-12, 3.274074472859016e-11);
  p = cnm_h4(p, t, -1.4453050426769927e-10, 7.433255546804268e-10,
             -4.636467203777367e-09, 3.722533305699152e-08);
  p = cnm_h4(p, t, -4.215741952933071e-07, 7.854002446783662e-06,
             -0.00032478687444799815, 0.06911133919898425);
  return p;
}

/* 2/3 x^(3/2) as a sum of two: what is lost of it would be lost of the phase. x >= 2. */
CNM_SLOW_FN double cnm_airy_phase(double x, double *low)
{
  double s = CNM_SQRT(x), el, e = cnm_two_prod(s, s, &el), zl, pl, p, z;
  e = ((x - e) - el) / (2.0 * s);
  p = cnm_two_prod(x, s, &pl);
  z = cnm_two_prod(p, 0.6666666666666666, &zl);
  *low = zl + 0.6666666666666666 * (pl + x * e) + 3.700743415417188e-17 * p;
  return z;
}

/* Airy's function Ai: NaN at both infinities, as in PyTorch, 0 from 104 on. Error 5 ulp, on the left of the swing. */
CNM_SLOW_FN double cnm_airy_ai(double x)
{
  double a = CNM_ABS(x), z, low, s, c, sine, g;
  if (!(a < CNM_INF)) return CNM_NAN;
  if (x > 104.0) return 0.0;
  if (x >= -5.0 && x <= 2.0) return x > 0.0 ? cnm_airy_right(x) : x > -2.5 ? cnm_airy_near(x) : cnm_airy_far(x);
  if (a > 1e100) return 0.0;
  z = cnm_airy_phase(a, &low);
  if (x > 0.0) return cnm_airy_decay(z) * cnm_exp_core(-z, low, 0.0) / CNM_SQRT(CNM_SQRT(x));
  s = cnm_sin_full(z);
  c = cnm_cos_full(z);
  sine = s + c * low; /* of the whole phase */
  c = c - s * low;
  g = cnm_airy_g(z) / z;
  return (cnm_airy_f(z) * (c + sine) + g * (sine - c)) * 0.3989422804014327 / CNM_SQRT(CNM_SQRT(a));
}

/* The same in float, through double. Error 0.6 ulp, of the swing where they oscillate. */
CNM_SLOW_FN float cnm_bessel_j0f(float x) { return (float)cnm_bessel_j0((double)x); }
CNM_SLOW_FN float cnm_bessel_j1f(float x) { return (float)cnm_bessel_j1((double)x); }
CNM_SLOW_FN float cnm_bessel_y0f(float x) { return (float)cnm_bessel_y0((double)x); }
CNM_SLOW_FN float cnm_bessel_y1f(float x) { return (float)cnm_bessel_y1((double)x); }
CNM_SLOW_FN float cnm_bessel_k0f(float x) { return (float)cnm_bessel_k0((double)x); }
CNM_SLOW_FN float cnm_bessel_k1f(float x) { return (float)cnm_bessel_k1((double)x); }
CNM_SLOW_FN float cnm_bessel_k0ef(float x) { return (float)cnm_bessel_k0e((double)x); }
CNM_SLOW_FN float cnm_bessel_k1ef(float x) { return (float)cnm_bessel_k1e((double)x); }
CNM_SLOW_FN float cnm_spherical_j0f(float x) { return (float)cnm_spherical_j0((double)x); }
CNM_SLOW_FN float cnm_airy_aif(float x) { return (float)cnm_airy_ai((double)x); }

#endif
