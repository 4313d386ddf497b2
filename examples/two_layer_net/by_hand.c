/* by_hand.c: the two-layer network with its gradients written out, on tensors alone.
 *
 *     cc by_hand.c $(pkg-config --cflags --libs cairn) && ./a.out
 */
#include "problem.h"

static cn_tensor *transposed(cn_tensor *t) { return cn_transpose(t, 0, 1); }

/* Returns the loss and fills g with the gradient of each parameter. */
static cn_tensor *forward_backward(const problem *q, cn_tensor **g)
{
  /* forward, step by step */
  cn_tensor *h = cn_sigmoid(cn_add(cn_matmul(q->x, q->p[W1]), q->p[B1])); /* (POINTS, HIDDEN) */
  cn_tensor *said = cn_add(cn_matmul(h, q->p[W2]), q->p[B2]);             /* (POINTS, OUTPUTS) */
  cn_tensor *error = cn_sub(said, q->y);
  cn_tensor *loss = cn_mean(cn_square(error));

  /* backward: the chain rule over the same steps, last first */
  cn_tensor *d_said = cn_mul(error, cn_num(2.0 / (POINTS * OUTPUTS)));
  g[W2] = cn_matmul(transposed(h), d_said);
  g[B2] = cn_sum(d_said, .dim = CN_INTS(0));
  cn_tensor *d_h = cn_matmul(d_said, transposed(q->p[W2]));
  cn_tensor *d_sum = cn_mul(d_h, cn_mul(h, cn_sub(cn_num(1), h))); /* sigmoid' = h (1 - h) */
  g[W1] = cn_matmul(transposed(q->x), d_sum);
  g[B1] = cn_sum(d_sum, .dim = CN_INTS(0));
  return loss;
}

int main(void)
{
  problem q;
  double last = 0;
  cn_scope *all = cn_scope_begin();
  problem_init(&q);
  for (int step = 0; step < STEPS && !cn_err(); step++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *g[PARAMS], *loss = forward_backward(&q, g);
    for (int i = 0; i < PARAMS; i++) {
      cn_add_(cn_mul_(q.v[i], cn_num(MOMENTUM)), g[i]);
      cn_sub_(q.p[i], q.v[i], .alpha = RATE);
    }
    problem_report(step, last = cn_item(loss));
    cn_scope_end(s);
  }
  cn_scope_end(all);
  return problem_status(last);
}
