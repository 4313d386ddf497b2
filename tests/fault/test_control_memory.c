/* test_control_memory.c: every allocation of capturing, planning and running branches and loops with gradients fails
 * once. Each time the error is one of memory, nothing crashes, nothing stays behind, and the next time is right. */
#include <cairn/ext/graph.h>

#include "sweep.h"

static int decay(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_mul(in[0], cn_num(0.5));
  *nout = 1;
  return cn_err();
}

static int cell(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  (void)nin;
  out[0] = cn_dropout(cn_tanh(cn_add(cn_mul(in[0], w), in[1])), .p = 0.5);
  *nout = 1;
  return cn_err();
}

static int step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  *nout = 1;
  if (cn_cond(out, nout, cn_gt(cn_sum(in[1]), cn_num(0)), in, nin, cell, decay, w)) return cn_err();
  out[1] = cn_sin(out[0]);
  *nout = 2;
  return cn_err();
}

static int below(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_lt(cn_sum(in[0]), cn_num(50));
  *nout = 1;
  return cn_err();
}

static int grow(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  (void)nin;
  out[0] = cn_add(cn_mul(in[0], w), cn_num(3));
  *nout = 1;
  return cn_err();
}

/* in: h, xs, w. The gradients of all, through a scan with a branch in it, a map and a while. */
static int everything(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x[3], *last, *ys, *mapped, *grown;
  size_t n = 1, m = 1;
  (void)payload;
  for (int i = 0; i < 3; i++) x[i] = cn_requires_grad(cn_detach(in[i]), true);
  if (cn_scan(&last, &ys, &n, &x[0], 1, &x[1], 1, step, x[2])) return cn_err();
  if (cn_map(&mapped, &m, &ys, 1, decay, NULL)) return cn_err();
  if (cn_while(&grown, &last, 1, below, grow, x[2], .max_steps = 4)) return cn_err();
  cn_backward(cn_add(cn_sum(cn_mul(mapped, mapped)), cn_sum(grown)));
  for (int i = 0; i < 3; i++) out[i] = cn_grad_of(x[i]);
  return cn_err();
}

/* ---- writes to what is outside, replayed; gradients of gradients ---- */

static cn_tensor *mean;

static int adds(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  cn_add_(cn_narrow(mean, 0, 0, 1), cn_num(1));
  return grow(out, nout, in, nin, w);
}

static int moving_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  *nout = 1;
  if (cn_cond(out, nout, cn_gt(cn_sum(in[1]), cn_num(0)), in, nin, adds, decay, w)) return cn_err();
  out[0] = cn_add(out[0], mean);
  return cn_err();
}

/* in: h, xs, w */
static int moving(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t none = 0;
  (void)payload;
  return cn_scan(out, NULL, &none, &in[0], 1, &in[1], 1, moving_step, in[2]);
}

static int written_and_replayed(double *result)
{
  cn_tensor *in[3] = {cn_ones(CN_SHAPE(2)), cn_full(CN_SHAPE(2, 2), 0.5), cn_full(CN_SHAPE(2), 1.5)}, *out, *grad;
  mean = cn_zeros(CN_SHAPE(2));
  cn_requires_grad(in[2], true);
  cn_graph *g = cn_err() ? NULL : cn_trace(moving, 1, in, 3, NULL);
  int status = g ? cn_graph_replay(&out, g, in) : cn_err();
  cn_tensor *loss = status ? NULL : cn_sum(out);
  if (!status) status = loss ? cn_grad(&grad, &loss, 1, &in[2], 1) : cn_err();
  *result = status ? 0 : sweep_sum(grad) + sweep_sum(mean);
  cn_graph_free(g);
  return status ? status : cn_err();
}

/* in: h, xs, w; the gradient of a gradient's square. */
static int twice_back(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x[2] = {in[0], cn_requires_grad(cn_detach(in[2]), true)}, *last, *grad, *loss;
  size_t none = 0;
  (void)payload;
  if (cn_scan(&last, NULL, &none, &x[0], 1, &in[1], 1, grow, x[1])) return cn_err();
  loss = cn_sum(last);
  if (cn_grad(&grad, &loss, 1, &x[1], 1, .create_graph = true)) return cn_err();
  loss = cn_sum(cn_square(grad));
  return cn_grad(out, &loss, 1, &x[1], 1);
}

static int gradients_of_gradients(double *result)
{
  cn_tensor *in[3] = {cn_ones(CN_SHAPE(2)), cn_full(CN_SHAPE(2, 2), 0.5), cn_full(CN_SHAPE(2), 1.5)}, *out;
  cn_graph *g = cn_err() ? NULL : cn_trace(twice_back, 1, in, 3, NULL);
  int status = g ? cn_graph_run(&out, g, in) : cn_err();
  *result = status ? 0 : sweep_sum(out);
  cn_graph_free(g);
  return status ? status : cn_err();
}

static int trace_and_run(double *result)
{
  cn_seed(3);
  cn_tensor *in[3] = {cn_ones(CN_SHAPE(2)), cn_randn(CN_SHAPE(3, 2)), cn_full(CN_SHAPE(2), 1.5)}, *out[3];
  cn_graph *g = cn_err() ? NULL : cn_trace(everything, 3, in, 3, NULL);
  if (!g) return cn_err();
  int status = cn_graph_optimise(g) < 0 ? cn_err() : cn_graph_run(out, g, in);
  *result = 0;
  for (int i = 0; i < 3 && !status; i++) *result += sweep_sum(out[i]);
  char *text = status ? NULL : cn_graph_to_string(g);
  cn_graph *parsed = text ? cn_graph_parse(text) : NULL;
  if (!status && !parsed) status = cn_err();
  cn_string_free(text);
  cn_graph_free(parsed);
  cn_graph_free(g);
  return status ? status : cn_err();
}

static int run_eager(double *result)
{
  cn_seed(3);
  cn_tensor *in[3] = {cn_ones(CN_SHAPE(2)), cn_randn(CN_SHAPE(3, 2)), cn_full(CN_SHAPE(2), 1.5)}, *out[3];
  int status = cn_err() ? cn_err() : everything(out, in, NULL);
  *result = 0;
  for (int i = 0; i < 3 && !status; i++) *result += sweep_sum(out[i]);
  return status ? status : cn_err();
}

int main(void)
{
  const struct CMUnitTest tests[] = {SWEEP(run_eager), SWEEP(trace_and_run), SWEEP(written_and_replayed),
                                     SWEEP(gradients_of_gradients)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
