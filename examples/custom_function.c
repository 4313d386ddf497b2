/* custom_function.c: an op of one's own with a gradient of one's own, checked against finite differences.
 *
 * The function is Legendre's polynomial P3(x) = (5 x^3 - 3 x) / 2. Forward computes it without being
 * recorded and saves x; backward multiplies the incoming gradient by P3'(x) = (15 x^2 - 3) / 2. Fitting a +
 * b P3(c + d x) to the sine is a good test of it.
 *
 *     cc custom_function.c $(pkg-config --cflags --libs cairn) -lm && ./a.out
 */
#include <cairn/cairn.h>
#include <math.h>
#include <stdio.h>

static int legendre_forward(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs)
{
  cn_tensor *x = inputs[0];
  cn_tensor *cubed = cn_mul(cn_mul(x, x), x);
  outputs[0] = cn_sub(cn_mul(cubed, cn_num(2.5)), cn_mul(x, cn_num(1.5)));
  return cn_context_save(ctx, inputs, 1);
}

static int legendre_backward(cn_context *ctx, cn_tensor **grad_inputs, cn_tensor *const *grad_outputs)
{
  cn_tensor *x = cn_context_saved(ctx, 0);
  cn_tensor *slope = cn_sub(cn_mul(cn_mul(x, x), cn_num(7.5)), cn_num(1.5));
  grad_inputs[0] = cn_mul(grad_outputs[0], slope);
  return cn_err();
}

static const cn_function legendre = {sizeof(cn_function), "legendre", legendre_forward, legendre_backward, NULL};

static cn_tensor *legendre_p3(cn_tensor *x)
{
  cn_tensor *y = NULL;
  return cn_function_apply(&y, 1, &legendre, &x, 1, NULL) ? NULL : y;
}

/* What cn_gradcheck differentiates: one number. */
static cn_tensor *checked(cn_tensor *const *inputs, void *payload)
{
  (void)payload;
  return cn_sum(cn_sin(legendre_p3(inputs[0])));
}

/* Fits the four coefficients p to sin on [-pi, pi]; returns the last loss. */
static double fit(cn_tensor *const *p)
{
  const double pi = acos(-1.0);
  double last = 0;
  cn_scope *outer = cn_scope_begin();
  cn_tensor *x = cn_linspace(-pi, pi, 2000), *y = cn_sin(x);
  for (int step = 0; step < 2000 && !cn_err(); step++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *curve = cn_add(p[0], cn_mul(p[1], legendre_p3(cn_add(p[2], cn_mul(p[3], x)))));
    cn_tensor *loss = cn_sum(cn_square(cn_sub(curve, y)));
    cn_backward(loss);
    last = cn_item(loss);
    if (step % 400 == 0) printf("step %4d  loss %.4f\n", step, last);
    int saved = cn_no_grad_begin();
    for (int i = 0; i < 4; i++) {
      cn_sub_(p[i], cn_grad_of(p[i]), .alpha = 5e-6);
      cn_zero_grad(p[i]);
    }
    cn_no_grad_end(saved);
    cn_scope_end(s);
  }
  cn_scope_end(outer);
  return last;
}

int main(void)
{
  cn_scope *s = cn_scope_begin();
  cn_seed(1);
  cn_tensor *x = cn_requires_grad(cn_randn(CN_SHAPE(3, 4), .dtype = CN_F64), true);
  if (!cn_gradcheck(checked, &x, 1, NULL)) printf("the gradient agrees with finite differences\n");

  const double start[4] = {0, -1, 0, 0.3};
  cn_tensor *p[4];
  for (int i = 0; i < 4; i++) p[i] = cn_requires_grad(cn_full(CN_SCALAR_SHAPE, start[i]), true);
  double loss = fit(p);
  printf("step 2000  loss %.4f\n", loss);
  printf("sin(x) is about %.3f + %.3f * P3(%.3f + %.3f x)\n", cn_item(p[0]), cn_item(p[1]), cn_item(p[2]),
         cn_item(p[3]));
  cn_scope_end(s);

  if (cn_err()) printf("%s\n", cn_err_message());
  return cn_err() || !(loss < 20) ? 1 : 0;
}
