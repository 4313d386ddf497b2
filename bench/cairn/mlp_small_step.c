/* mlp_small_step.c: cairn's side of one training step of a small network, 64-32-10 with ReLU, a batch of
 * 32, cross entropy and plain SGD, written by hand on tensors and autograd.
 *
 * Also what start-up is measured with: the process up to the end of its first step. Invariant: the same
 * start, the same batch in every step and the same update as on the peer's side.
 */
#include "../serve.h"

#include <cairn/cairn.h>
#include <cairn/compile.h>

enum { IN = 64, HIDDEN = 32, OUT = 10, BATCH = 32, PARAMETERS = 4 };

#define RATE 0.01

static cn_tensor *x, *y; /* (BATCH, IN), (BATCH) labels */
/* weights and biases: (HIDDEN, IN), (HIDDEN), (OUT, HIDDEN), (OUT) */
static cn_tensor *param[PARAMETERS];
static cn_compiled *fast; /* the step of these parameters; NULL: not captured yet */

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
  cn_compiled_free(fast);
  fast = NULL;
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
static cn_tensor *step_of(cn_tensor *input, cn_tensor *target)
{
  cn_tensor *h = cn_relu(cn_linear(input, param[0], param[1]));               /* (BATCH, HIDDEN) */
  cn_tensor *loss = cn_cross_entropy(cn_linear(h, param[2], param[3]), target); /* () */
  cn_backward(loss);
  int saved = cn_no_grad_begin();
  for (int i = 0; i < PARAMETERS; i++) {
    cn_sub_(param[i], cn_grad_of(param[i]), .alpha = RATE);
    cn_zero_grad(param[i]);
  }
  cn_no_grad_end(saved);
  return loss;
}

static cn_tensor *step(void) { return step_of(x, y); }

/* The whole step as one program. */
static int captured(cn_compile_call *k)
{
  k->outputs[0] = step_of(k->inputs[0], k->inputs[1]);
  k->noutputs = 1;
  return cn_err();
}

static cn_tensor *compiled_step(void)
{
  cn_tensor *const in[] = {x, y};
  cn_tensor *loss = NULL;
  if (!fast) fast = cn_compile(captured, .fullgraph = true, .name = "mlp_small_step");
  cn_compiled_call(fast, &(cn_compile_call){.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1});
  return loss;
}

static void repeat(cn_tensor *(*call)(void), long n)
{
  for (long i = 0; i < n; i++) {
    cn_scope *s = cn_scope_begin();
    call();
    cn_scope_end(s);
  }
  bench_require(!cn_err(), cn_err_message());
}

static double check_of(cn_tensor *(*call)(void))
{
  repeat(call, 99);
  cn_scope *s = cn_scope_begin();
  double loss = cn_item(call());
  cn_scope_end(s);
  return loss;
}

static void run(long n) { repeat(step, n); }
static void run_compiled(long n) { repeat(compiled_step, n); }
static double check(void) { return check_of(step); }
static double check_compiled(void) { return check_of(compiled_step); }

static const struct bench_work works[] = {
  {"mlp_small_step", "", "step", 1, setup, run, check},
  {"mlp_small_step", "compiled", "step", 1, setup, run_compiled, check_compiled},
};

int main(int argc, char **argv)
{
  cn_set_num_threads(bench_threads(argc, argv));
  return bench_serve(argc, argv, works, sizeof works / sizeof *works);
}
