/* complex_functions.c: exponentials, logarithms, roots, circular and hyperbolic functions of complex numbers, by
 * functions of their real and imaginary parts.
 *
 * Place in the flow: as complex_rules.c. The inverse functions are W. Kahan's formulas, which keep both parts accurate
 * and the branch cuts where C99 has them. Invariant: x + iy is the input throughout; a formula is exact on the real
 * axis where the real function is. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "complex.h"

typedef cni_z function(cni_z z);

static int apply(cn_call *c, function *f)
{
  c->out[0] = cni_joined(f(cni_parts(c->in[0])));
  return cn_err();
}

static cn_tensor *times(cn_tensor *x, double f) { return cn_mul(x, cn_num(f)); }
static cni_z scaled(cni_z z, double f) { return (cni_z){times(z.re, f), times(z.im, f)}; }
static cni_z times_i(cni_z z) { return (cni_z){cn_neg(z.im), z.re}; }
static cni_z times_minus_i(cni_z z) { return (cni_z){z.im, cn_neg(z.re)}; }

/* 1 + z and 1 - z */
static cni_z one_plus(cni_z z) { return (cni_z){cn_add(z.re, cn_num(1)), z.im}; }
static cni_z one_minus(cni_z z) { return (cni_z){cn_sub(cn_num(1), z.re), cn_neg(z.im)}; }

/* ---- exponentials and logarithms ---- */

static cni_z z_exp(cni_z z)
{
  cn_tensor *size = cn_exp(z.re);
  return (cni_z){cn_mul(size, cn_cos(z.im)), cn_mul(size, cn_sin(z.im))};
}
int cni_complex_exp(cn_call *c) { return apply(c, z_exp); }

static cni_z z_exp2(cni_z z) { return z_exp(scaled(z, 0.693147180559945309417)); }
int cni_complex_exp2(cn_call *c) { return apply(c, z_exp2); }

/* (e^x - 1) cos y - 2 sin^2(y / 2), e^x sin y */
static cni_z z_expm1(cni_z z)
{
  cn_tensor *less = times(cn_square(cn_sin(times(z.im, 0.5))), 2);
  return (cni_z){cn_sub(cn_mul(cn_expm1(z.re), cn_cos(z.im)), less), cn_mul(cn_exp(z.re), cn_sin(z.im))};
}
int cni_complex_expm1(cn_call *c) { return apply(c, z_expm1); }

static cni_z z_log(cni_z z) { return (cni_z){cn_log(cn_hypot(z.re, z.im)), cn_atan2(z.im, z.re)}; }
int cni_complex_log(cn_call *c) { return apply(c, z_log); }
static cni_z z_log2(cni_z z) { return scaled(z_log(z), 1.44269504088896340736); }
int cni_complex_log2(cn_call *c) { return apply(c, z_log2); }
static cni_z z_log10(cni_z z) { return scaled(z_log(z), 0.43429448190325182765); }
int cni_complex_log10(cn_call *c) { return apply(c, z_log10); }

/* log |1 + z| = log1p(x (2 + x) + y^2) / 2 near 0, where log(hypot) would lose the digits of x. */
static cni_z z_log1p(cni_z z)
{
  cni_z w = one_plus(z);
  cn_tensor *small = cn_lt(cn_hypot(z.re, z.im), cn_num(0.5));
  cn_tensor *x = cn_where(small, z.re, cn_num(0)), *y = cn_where(small, z.im, cn_num(0));
  cn_tensor *near = times(cn_log1p(cn_add(cn_mul(x, cn_add(x, cn_num(2))), cn_square(y))), 0.5);
  cn_tensor *size = cn_where(small, cn_num(1), cn_hypot(w.re, w.im));
  return (cni_z){cn_where(small, near, cn_log(size)), cn_atan2(w.im, w.re)};
}
int cni_complex_log1p(cn_call *c) { return apply(c, z_log1p); }

/* ---- roots ---- */

/* t = sqrt((|z| + |x|) / 2) is the larger part, |y| / 2 t the other; which is which says the sign of x. */
static cni_z z_sqrt(cni_z z)
{
  cn_tensor *t = cn_sqrt(times(cn_add(cn_abs_complex(z.re, z.im), cn_abs(z.re)), 0.5));
  cn_tensor *zero = cn_eq(cn_detach(t), cn_num(0)), *half = times(z.im, 0.5);
  cn_tensor *other = cn_where(zero, half, cn_true_divide(half, cn_where(zero, cn_num(1), t)));
  cn_tensor *right = cn_ge(z.re, cn_num(0));
  return (cni_z){cn_where(right, t, cn_abs(other)), cn_where(right, other, cn_copysign(t, z.im))};
}
int cni_complex_sqrt(cn_call *c) { return apply(c, z_sqrt); }

int cni_complex_rsqrt(cn_call *c)
{
  c->out[0] = cn_reciprocal(cn_sqrt(c->in[0]));
  return cn_err();
}

/* ---- circular and hyperbolic functions ---- */

static cni_z z_sinh(cni_z z)
{
  return (cni_z){cn_mul(cn_sinh(z.re), cn_cos(z.im)), cn_mul(cn_cosh(z.re), cn_sin(z.im))};
}
static cni_z z_cosh(cni_z z)
{
  return (cni_z){cn_mul(cn_cosh(z.re), cn_cos(z.im)), cn_mul(cn_sinh(z.re), cn_sin(z.im))};
}
static cni_z z_sin(cni_z z) { return times_minus_i(z_sinh(times_i(z))); }
static cni_z z_cos(cni_z z) { return z_cosh(times_i(z)); }
int cni_complex_sinh(cn_call *c) { return apply(c, z_sinh); }
int cni_complex_cosh(cn_call *c) { return apply(c, z_cosh); }
int cni_complex_sin(cn_call *c) { return apply(c, z_sin); }
int cni_complex_cos(cn_call *c) { return apply(c, z_cos); }

static cni_z quotient(cni_z a, cni_z b)
{
  cn_tensor *q = cn_true_divide(cni_joined(a), cni_joined(b));
  return cni_parts(q);
}

/* -e / (2 + e), e = exp(-2 z) - 1, where x is not negative: nothing overflows, and gradients keep their digits. */
static cni_z z_tanh(cni_z z)
{
  cn_tensor *sign = cn_where(cn_ge(cn_detach(z.re), cn_num(0)), cn_num(1), cn_num(-1));
  cni_z e = z_expm1((cni_z){cn_mul(z.re, times(sign, -2)), cn_mul(z.im, times(sign, -2))});
  cni_z q = quotient(e, (cni_z){cn_add(e.re, cn_num(2)), e.im});
  return (cni_z){cn_mul(q.re, cn_neg(sign)), cn_mul(q.im, cn_neg(sign))};
}
static cni_z z_tan(cni_z z) { return times_minus_i(z_tanh(times_i(z))); }
int cni_complex_tanh(cn_call *c) { return apply(c, z_tanh); }
int cni_complex_tan(cn_call *c) { return apply(c, z_tan); }

/* a * b: real, and a * conj(b): imaginary part */
static cn_tensor *real_of_product(cni_z a, cni_z b) { return cn_sub(cn_mul(a.re, b.re), cn_mul(a.im, b.im)); }
static cn_tensor *imag_of_mixed(cni_z a, cni_z b) { return cn_sub(cn_mul(a.im, b.re), cn_mul(a.re, b.im)); }

static cni_z z_asin(cni_z z)
{
  cni_z less = z_sqrt(one_minus(z)), more = z_sqrt(one_plus(z));
  return (cni_z){cn_atan2(z.re, real_of_product(less, more)), cn_asinh(imag_of_mixed(more, less))};
}
static cni_z z_acos(cni_z z)
{
  cni_z less = z_sqrt(one_minus(z)), more = z_sqrt(one_plus(z));
  return (cni_z){times(cn_atan2(less.re, more.re), 2), cn_asinh(imag_of_mixed(less, more))};
}
static cni_z z_acosh(cni_z z)
{
  cni_z less = z_sqrt((cni_z){cn_sub(z.re, cn_num(1)), z.im}), more = z_sqrt(one_plus(z));
  cn_tensor *x = cn_add(cn_mul(less.re, more.re), cn_mul(less.im, more.im));
  return (cni_z){cn_asinh(x), times(cn_atan2(less.im, more.re), 2)};
}
static cni_z z_asinh(cni_z z) { return times_minus_i(z_asin(times_i(z))); }
int cni_complex_asin(cn_call *c) { return apply(c, z_asin); }
int cni_complex_acos(cn_call *c) { return apply(c, z_acos); }
int cni_complex_asinh(cn_call *c) { return apply(c, z_asinh); }
int cni_complex_acosh(cn_call *c) { return apply(c, z_acosh); }

/* log(|1 + z|^2 / |1 - z|^2) / 4, that is log1p(4 x / |1 - z|^2) / 4, of the number on the right, since the function is
 * odd; half the angle of (1 + z) / (1 - z). */
static cni_z z_atanh(cni_z z)
{
  cn_tensor *sign = cn_where(cn_ge(cn_detach(z.re), cn_num(0)), cn_num(1), cn_num(-1)), *x = cn_mul(z.re, sign);
  cn_tensor *left = cn_sub(cn_num(1), x), *away = cn_add(cn_square(left), cn_square(z.im));
  cn_tensor *re = times(cn_log1p(cn_true_divide(times(x, 4), away)), 0.25);
  cn_tensor *across = cn_sub(cn_mul(left, cn_add(x, cn_num(1))), cn_square(z.im));
  return (cni_z){cn_mul(re, sign), times(cn_atan2(times(z.im, 2), across), 0.5)};
}
static cni_z z_atan(cni_z z) { return times_minus_i(z_atanh(times_i(z))); }
int cni_complex_atanh(cn_call *c) { return apply(c, z_atanh); }
int cni_complex_atan(cn_call *c) { return apply(c, z_atan); }

/* ---- activations ---- */

int cni_complex_sigmoid(cn_call *c)
{
  c->out[0] = cn_reciprocal(cn_add(cn_exp(cn_neg(c->in[0])), cn_num(1)));
  return cn_err();
}

int cni_complex_silu(cn_call *c)
{
  c->out[0] = cn_mul(c->in[0], cn_sigmoid(c->in[0]));
  return cn_err();
}

int cni_complex_sinc(cn_call *c)
{
  cn_tensor *zero = cn_eq(c->in[0], cn_int(0)), *one = cn_complex_num(1, 0);
  cn_tensor *x = cn_where(zero, one, cn_mul(c->in[0], cn_num(3.14159265358979323846)));
  c->out[0] = cn_where(zero, one, cn_true_divide(cn_sin(x), x));
  return cn_err();
}

int cni_complex_softsign(cn_call *c)
{
  c->out[0] = cn_true_divide(c->in[0], cn_add(cn_abs(c->in[0]), cn_num(1)));
  return cn_err();
}

int cni_complex_tanhshrink(cn_call *c)
{
  c->out[0] = cn_sub(c->in[0], cn_tanh(c->in[0]));
  return cn_err();
}

/* The one with the larger real part, and log(1 + exp(other - it)). */
int cni_complex_logaddexp(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1], *first = cn_ge(cn_real(a), cn_real(b));
  cn_tensor *most = cn_where(first, a, b), *least = cn_where(first, b, a);
  cn_tensor *same = cn_logical_and(cn_eq(a, b), cn_isinf(a));
  cn_tensor *apart = cn_where(same, cn_complex_num(0, 0), cn_sub(least, most));
  c->out[0] = cn_where(same, a, cn_add(most, cn_log1p(cn_exp(apart))));
  return cn_err();
}

int cni_complex_absolute_difference(cn_call *c)
{
  c->out[0] = cn_abs(cn_sub(c->in[0], c->in[1]));
  return cn_err();
}
