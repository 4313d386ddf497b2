/* mlp_small_step.c: cairn's side of one training step of a small network, 64-32-10 with ReLU, a batch of
 * 32, cross entropy and plain SGD, written by hand on tensors and autograd.
 *
 * Also what start-up is measured with: the process up to the end of its first step. Invariant: the same
 * start, the same batch in every step and the same update as on the peer's side.
 */
#include "../serve.h"

#include <cairn/cairn.h>

enum { IN = 64, HIDDEN = 32, OUT = 10, BATCH = 32, PARAMETERS = 4 };

#define RATE 0.01

static cn_tensor *x, *y; /* (BATCH, IN), (BATCH) labels */
/* weights and biases: (HIDDEN, IN), (HIDDEN), (OUT, HIDDEN), (OUT) */
static cn_tensor *param[PARAMETERS];

static cn_tensor *filled(const int64_t *shape, size_t ndim, uint64_t seed, float scale)
{
  static float room[HIDDEN * IN + BATCH * IN]; /* more than the largest of them */
  size_t n = 1;
  for (size_t i = 0; i < ndim; i++) n *= (size_t)shape[i];
  bench_fill(room, n, seed, scale);
  return cn_from_data(room, shape, ndim, CN_F32);
}

static int setup(void)
{
  const float s1 = 0.125f, s2 = 0.176776695f; /* 1 / sqrt of the layer's inputs */
  int64_t label[BATCH];
  cn_scope *s = cn_scope_begin();
  for (int i = 0; i < BATCH; i++) label[i] = bench_label(i, OUT);
  cn_set(&x, filled(CN_SHAPE(BATCH, IN), 10, 1));
  cn_set(&y, cn_from_data(label, CN_SHAPE(BATCH), CN_I64));
  cn_set(&param[0], filled(CN_SHAPE(HIDDEN, IN), 11, s1));
  cn_set(&param[1], filled(CN_SHAPE(HIDDEN), 12, s1));
  cn_set(&param[2], filled(CN_SHAPE(OUT, HIDDEN), 13, s2));
  cn_set(&param[3], filled(CN_SHAPE(OUT), 14, s2));
  for (int i = 0; i < PARAMETERS; i++) cn_requires_grad(param[i], true);
  cn_scope_end(s);
  if (cn_err()) fprintf(stderr, "mlp_small_step: %s\n", cn_err_message());
  return cn_err();
}

/* One step; its loss, borrowed from the caller's scope. */
static cn_tensor *step(void)
{
  cn_tensor *h = cn_relu(cn_linear(x, param[0], param[1]));              /* (BATCH, HIDDEN) */
  cn_tensor *loss = cn_cross_entropy(cn_linear(h, param[2], param[3]), y); /* () */
  cn_backward(loss);
  int saved = cn_no_grad_begin();
  for (int i = 0; i < PARAMETERS; i++) {
    cn_sub_(param[i], cn_grad_of(param[i]), .alpha = RATE);
    cn_zero_grad(param[i]);
  }
  cn_no_grad_end(saved);
  return loss;
}

static void run(long n)
{
  for (long i = 0; i < n; i++) {
    cn_scope *s = cn_scope_begin();
    step();
    cn_scope_end(s);
  }
  bench_require(!cn_err(), cn_err_message());
}

static double check(void)
{
  run(99);
  cn_scope *s = cn_scope_begin();
  double loss = cn_item(step());
  cn_scope_end(s);
  return loss;
}

static const struct bench_work works[] = {
  {"mlp_small_step", "", "step", 1, setup, run, check},
};

int main(int argc, char **argv)
{
  cn_set_num_threads(bench_threads(argc, argv));
  return bench_serve(argc, argv, works, sizeof works / sizeof *works);
}
