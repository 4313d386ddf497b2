/* autograd.c: the two-layer network with gradients by autograd: only the forward computation is written.
 *
 *     cc autograd.c $(pkg-config --cflags --libs cairn) && ./a.out
 */
#include "problem.h"

static cn_tensor *forward(const problem *q)
{
  cn_tensor *h = cn_sigmoid(cn_add(cn_matmul(q->x, q->p[W1]), q->p[B1]));
  cn_tensor *said = cn_add(cn_matmul(h, q->p[W2]), q->p[B2]);
  return cn_mean(cn_square(cn_sub(said, q->y)));
}

static void update(const problem *q)
{
  int saved = cn_no_grad_begin(); /* the update itself is not to be differentiated */
  for (int i = 0; i < PARAMS; i++) {
    cn_add_(cn_mul_(q->v[i], cn_num(MOMENTUM)), cn_grad_of(q->p[i]));
    cn_sub_(q->p[i], q->v[i], .alpha = RATE);
    cn_zero_grad(q->p[i]); /* gradients add up until they are dropped */
  }
  cn_no_grad_end(saved);
}

int main(void)
{
  problem q;
  double last = 0;
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
  return problem_status(last);
}
