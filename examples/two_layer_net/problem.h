/* problem.h: what the four programs of this folder have in common: data, first parameters and settings.
 *
 * The network is  h = sigmoid(x W1 + b1),  y' = h W2 + b2  and learns y = sin(3 a) + a b of points (a, b) by
 * gradient descent with momentum on the mean squared error. The four programs differ in how they get the
 * gradients, and print the same losses. */
#ifndef TWO_LAYER_NET_PROBLEM_H
#define TWO_LAYER_NET_PROBLEM_H

#include <cairn/cairn.h>
#include <stdio.h>

enum { POINTS = 128, INPUTS = 2, HIDDEN = 32, OUTPUTS = 1, STEPS = 400, PARAMS = 4 };
enum { W1, B1, W2, B2 };

#define RATE 0.1
#define MOMENTUM 0.9

typedef struct problem {
  cn_tensor *x;         /* (POINTS, INPUTS) */
  cn_tensor *y;         /* (POINTS, OUTPUTS) */
  cn_tensor *p[PARAMS]; /* W1 (INPUTS, HIDDEN), b1 (HIDDEN), W2 (HIDDEN, OUTPUTS), b2 (OUTPUTS) */
  cn_tensor *v[PARAMS]; /* the running sum of gradients of each */
} problem;

/* Everything belongs to the scope that is open; the seed makes it the same in every program. */
static inline void problem_init(problem *q)
{
  cn_seed(3);
  q->x = cn_sub(cn_mul(cn_rand(CN_SHAPE(POINTS, INPUTS)), cn_num(2)), cn_num(1));
  cn_tensor *a = cn_narrow(q->x, 1, 0, 1), *b = cn_narrow(q->x, 1, 1, 1);
  q->y = cn_add(cn_sin(cn_mul(a, cn_num(3))), cn_mul(a, b));
  q->p[W1] = cn_mul(cn_randn(CN_SHAPE(INPUTS, HIDDEN)), cn_num(2));
  q->p[B1] = cn_randn(CN_SHAPE(HIDDEN));
  q->p[W2] = cn_mul(cn_randn(CN_SHAPE(HIDDEN, OUTPUTS)), cn_num(0.2));
  q->p[B2] = cn_zeros(CN_SHAPE(OUTPUTS));
  for (int i = 0; i < PARAMS; i++) q->v[i] = cn_zeros_like(q->p[i]);
}

static inline void problem_report(int step, double loss)
{
  if (step % 100 == 0 || step == STEPS - 1) printf("step %3d  loss %.6f\n", step, loss);
}

/* The exit status: did it learn, without an error? */
static inline int problem_status(double loss)
{
  if (cn_err()) printf("%s\n", cn_err_message());
  return cn_err() || !(loss < 0.01) ? 1 : 0;
}

#endif
