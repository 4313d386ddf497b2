/* custom_sigmoid.c: the two-layer network with a sigmoid of our own that stays exact for large inputs.
 *
 * Written as 1 / (1 + exp(-x)), the exponential overflows for x below -88 in float32, and the derived
 * gradient becomes 0 * infinity. Ours takes the exponential of -|x| only, which cannot overflow, and gives
 * its gradient from its result. (cn_sigmoid does the same inside; this shows how one would do it.)
 *
 *     cc custom_sigmoid.c $(pkg-config --cflags --libs cairn) && ./a.out
 */
#include "problem.h"

static int sigmoid_forward(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs)
{
  cn_tensor *x = inputs[0], *one = cn_num(1);
  cn_tensor *e = cn_exp(cn_neg(cn_abs(x))); /* in (0, 1] */
  cn_tensor *top = cn_where(cn_ge(x, cn_num(0)), cn_ones_like(e), e);
  outputs[0] = cn_true_divide(top, cn_add(e, one));
  return cn_context_save(ctx, outputs, 1);
}

static int sigmoid_backward(cn_context *ctx, cn_tensor **grad_inputs, cn_tensor *const *grad_outputs)
{
  cn_tensor *y = cn_context_saved(ctx, 0);
  grad_inputs[0] = cn_mul(grad_outputs[0], cn_mul(y, cn_sub(cn_num(1), y)));
  return cn_err();
}

static const cn_function sigmoid_function = {sizeof(cn_function), "stable_sigmoid", sigmoid_forward,
  sigmoid_backward, NULL};

static cn_tensor *stable_sigmoid(cn_tensor *x)
{
  cn_tensor *y = NULL;
  return cn_function_apply(&y, 1, &sigmoid_function, &x, 1, NULL) ? NULL : y;
}

static cn_tensor *naive_sigmoid(cn_tensor *x)
{
  return cn_true_divide(cn_num(1), cn_add(cn_exp(cn_neg(x)), cn_num(1)));
}

/* Is the gradient of f a number everywhere, also far out? */
static bool survives(cn_tensor *(*f)(cn_tensor *x))
{
  const float far[] = {-200, -1, 0, 1, 200};
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_floats(far, 5), true);
  cn_backward(cn_sum(f(x)));
  bool finite = cn_item_int(cn_all(cn_isfinite(cn_grad_of(x)))) == 1;
  cn_scope_end(s);
  return finite;
}

static cn_tensor *forward(const problem *q)
{
  cn_tensor *h = stable_sigmoid(cn_add(cn_matmul(q->x, q->p[W1]), q->p[B1]));
  cn_tensor *said = cn_add(cn_matmul(h, q->p[W2]), q->p[B2]);
  return cn_mean(cn_square(cn_sub(said, q->y)));
}

static void update(const problem *q)
{
  int saved = cn_no_grad_begin();
  for (int i = 0; i < PARAMS; i++) {
    cn_add_(cn_mul_(q->v[i], cn_num(MOMENTUM)), cn_grad_of(q->p[i]));
    cn_sub_(q->p[i], q->v[i], .alpha = RATE);
    cn_zero_grad(q->p[i]);
  }
  cn_no_grad_end(saved);
}

int main(void)
{
  problem q;
  double last = 0;
  bool ours = survives(stable_sigmoid), naive = survives(naive_sigmoid);
  printf("gradient at -200: ours %s, 1 / (1 + exp(-x)) %s\n", ours ? "finite" : "NaN",
         naive ? "finite" : "NaN");

  cn_scope *all = cn_scope_begin();
  problem_init(&q);
  for (int i = 0; i < PARAMS; i++) cn_requires_grad(q.p[i], true);
  for (int step = 0; step < STEPS && !cn_err(); step++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *loss = forward(&q);
    cn_backward(loss);
    update(&q);
    problem_report(step, last = cn_item(loss));
    cn_scope_end(s);
  }
  cn_scope_end(all);
  return problem_status(last) || !ours || naive;
}
