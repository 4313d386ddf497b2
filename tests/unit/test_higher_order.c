/* test_higher_order.c: gradients of gradients, to the fourth order, against the derivatives that calculus gives.
 *
 * The gradient program of a pointwise program grows with each order; past the largest program there is it is recorded
 * step by step (src/ops/pointwise.c), and every order must come out the same. */
#include <cairn/cairn.h>
#include <math.h>

#include "test.h"

enum { ORDERS = 4, POINTS = 3 };

static const double at[POINTS] = {0.7, 1.3, 2.1};

/* The gradient of the sum of y by x, recorded. */
static cn_tensor *by(cn_tensor *y, cn_tensor *x)
{
  cn_tensor *total = cn_sum(y), *g = NULL;
  if (cn_grad(&g, &total, 1, &x, 1, .create_graph = true)) fail_msg("%s", cn_err_message());
  return g;
}

/* ---- functions of one variable, and their derivatives of orders 1 to 4 at x ---- */

static cn_tensor *cube(cn_tensor *x) { return cn_mul(cn_mul(x, x), x); }
static void cube_d(double x, double *d) { d[0] = 3 * x * x, d[1] = 6 * x, d[2] = 6, d[3] = 0; }

static cn_tensor *fourth(cn_tensor *x) { return cn_square(cn_square(x)); }
static void fourth_d(double x, double *d) { d[0] = 4 * x * x * x, d[1] = 12 * x * x, d[2] = 24 * x, d[3] = 24; }

static void exp_d(double x, double *d) { d[0] = d[1] = d[2] = d[3] = exp(x); }
static void sin_d(double x, double *d) { d[0] = cos(x), d[1] = -sin(x), d[2] = -cos(x), d[3] = sin(x); }
static void log_d(double x, double *d)
{
  d[0] = 1 / x, d[1] = -pow(x, -2), d[2] = 2 * pow(x, -3), d[3] = -6 * pow(x, -4);
}

static cn_tensor *inverse(cn_tensor *x) { return cn_div(cn_num(1), x); }
static void inverse_d(double x, double *d)
{
  d[0] = -pow(x, -2), d[1] = 2 * pow(x, -3), d[2] = -6 * pow(x, -4), d[3] = 24 * pow(x, -5);
}

/* x^p: each order multiplies by the exponent and takes one off. */
static void power_d(double x, double p, double *d)
{
  double factor = 1;
  for (int k = 0; k < ORDERS; k++) d[k] = (factor *= p - k) * pow(x, p - k - 1);
}
static void sqrt_d(double x, double *d) { power_d(x, 0.5, d); }
static cn_tensor *power(cn_tensor *x) { return cn_pow(x, cn_num(3.5)); }
static void power_35_d(double x, double *d) { power_d(x, 3.5, d); }

static cn_tensor *times_exp(cn_tensor *x) { return cn_mul(x, cn_exp(x)); }
static void times_exp_d(double x, double *d)
{
  for (int k = 0; k < ORDERS; k++) d[k] = (x + k + 1) * exp(x);
}

static void tanh_d(double x, double *d)
{
  double t = tanh(x), s = 1 - t * t;
  d[0] = s, d[1] = -2 * t * s, d[2] = s * (6 * t * t - 2), d[3] = s * (16 * t - 24 * t * t * t);
}

static void sigmoid_d(double x, double *d)
{
  double s = 1 / (1 + exp(-x)), r = s * (1 - s);
  d[0] = r, d[1] = r * (1 - 2 * s), d[2] = r * (1 - 6 * r), d[3] = r * (1 - 2 * s) * (1 - 12 * r);
}

static cn_tensor *softplus(cn_tensor *x) { return cn_softplus(x); }
static void softplus_d(double x, double *d)
{
  double s[ORDERS];
  sigmoid_d(x, s);
  d[0] = 1 / (1 + exp(-x)), d[1] = s[0], d[2] = s[1], d[3] = s[2];
}

static void silu_d(double x, double *d) /* of x * sigmoid(x), by Leibniz */
{
  double s[ORDERS];
  sigmoid_d(x, s);
  d[0] = 1 / (1 + exp(-x)) + x * s[0];
  for (int k = 1; k < ORDERS; k++) d[k] = (k + 1) * s[k - 1] + x * s[k];
}

static cn_tensor *chosen(cn_tensor *x) { return cn_where(cn_gt(x, cn_num(1)), cube(x), x); }
static void chosen_d(double x, double *d)
{
  cube_d(x, d);
  if (x <= 1) d[0] = 1, d[1] = d[2] = d[3] = 0;
}

static cn_tensor *quotient(cn_tensor *x) { return cn_div(cn_mul(x, x), cn_add(x, cn_num(1))); } /* x - 1 + 1/(x+1) */
static void quotient_d(double x, double *d)
{
  inverse_d(x + 1, d);
  d[0] += 1;
}

static void test_one_variable(void **state)
{
  static const struct {
    const char *name;
    cn_tensor *(*f)(cn_tensor *);
    void (*derivatives)(double x, double *d);
  } cases[] = {{"x*x*x", cube, cube_d},           {"square(square(x))", fourth, fourth_d},
               {"exp", cn_exp, exp_d},            {"sin", cn_sin, sin_d},
               {"log", cn_log, log_d},            {"1/x", inverse, inverse_d},
               {"sqrt", cn_sqrt, sqrt_d},         {"pow(x, 3.5)", power, power_35_d},
               {"x*exp(x)", times_exp, times_exp_d}, {"tanh", cn_tanh, tanh_d},
               {"sigmoid", cn_sigmoid, sigmoid_d}, {"softplus", softplus, softplus_d},
               {"silu", cn_silu, silu_d},         {"where(x > 1, x*x*x, x)", chosen, chosen_d},
               {"x*x/(x+1)", quotient, quotient_d}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_requires_grad(cn_from_data(at, CN_SHAPE(POINTS), CN_F64), true), *y = cases[i].f(x);
    double have[POINTS], want[ORDERS];
    for (int order = 0; order < ORDERS; order++) {
      y = cn_needs_grad(y) ? by(y, x) : cn_zeros_like(y); /* the derivative of a constant */
      assert_int_equal(cn_to_data(have, sizeof have, y), 0);
      for (int p = 0; p < POINTS; p++) {
        cases[i].derivatives(at[p], want);
        if (!(fabs(have[p] - want[order]) <= 1e-12 * (1 + fabs(want[order]))))
          fail_msg("%s, order %d at %g: %.17g, not %.17g", cases[i].name, order + 1, at[p], have[p], want[order]);
      }
    }
    cn_scope_end(s);
  }
}

/* ---- several variables ---- */

static void assert_all(cn_tensor *t, double want, size_t n)
{
  double have[16];
  assert_int_equal(cn_numel(t), n);
  assert_int_equal(cn_to_data(have, sizeof have, t), 0);
  for (size_t i = 0; i < n; i++) assert_float_equal(have[i], want, 1e-12);
}

static cn_tensor *leaf(double value, int64_t rows, int64_t columns)
{
  return cn_requires_grad(cn_full(CN_SHAPE(rows, columns), value, .dtype = CN_F64), true);
}

static void test_mixed_partials(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *a = leaf(2, 1, 1), *b = leaf(3, 1, 1), *c = leaf(5, 1, 1);
  cn_tensor *y = cn_mul(cn_mul(a, b), c), *squares = cn_mul(cn_mul(cn_mul(a, a), cn_mul(b, b)), c);
  assert_all(by(by(by(y, a), b), c), 1, 1);
  assert_all(by(by(by(y, c), b), a), 1, 1);
  assert_all(by(by(by(by(squares, a), b), a), b), 4 * 5, 1);
  assert_all(by(by(by(by(squares, b), c), a), a), 4 * 3, 1);
  cn_scope_end(s);
}

/* Inputs of other shapes, and a step between that is no pointwise op: gradients sum back to each input's shape. */
static void test_broadcast(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *a = leaf(2, 3, 1), *b = leaf(3, 1, 4), *c = leaf(0.5, 1, 1);
  cn_tensor *y = cn_mul(cn_mul(cn_mul(a, a), cn_mul(a, b)), cn_mul(b, c)); /* a^3 b^2 c, 3 by 4 */
  assert_all(by(y, a), 4 * 3 * 4 * 9 * 0.5, 3);
  assert_all(by(by(y, a), b), 3 * 3 * 4 * 2 * 3 * 0.5, 4);
  assert_all(by(by(by(y, a), b), b), 3 * 3 * 4 * 2 * 0.5, 4);
  assert_all(by(by(by(by(y, a), b), b), c), 4 * 3 * 3 * 4 * 2, 1);
  cn_scope_end(s);
}

/* Float16 and bfloat16 are rounded at each recorded step: x*x*x of small whole numbers has nothing to round. */
static void test_halves(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_requires_grad(cn_full(CN_SHAPE(2), 3, .dtype = i ? CN_F16 : CN_BF16), true);
    cn_tensor *third = by(by(by(cube(x), x), x), x);
    assert_int_equal(cn_dtype_of(third), i ? CN_F16 : CN_BF16);
    assert_all(cn_cast(third, CN_F64), 6, 2);
    cn_scope_end(s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_variable), cmocka_unit_test(test_mixed_partials),
                                     cmocka_unit_test(test_broadcast), cmocka_unit_test(test_halves)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
