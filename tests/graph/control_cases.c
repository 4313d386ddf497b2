/* control_cases.c: see control_cases.h. */
#include "control_cases.h"

void ok(int status)
{
  if (status || cn_err()) fail_msg("%s", cn_err_message());
}

operands operands_of_cases(void)
{
  cn_seed(3);
  cn_tensor *h = cn_randn(CN_SHAPE(4)), *xs = cn_randn(CN_SHAPE(5, 3)), *w = cn_randn(CN_SHAPE(4, 3)),
            *u = cn_randn(CN_SHAPE(4, 4));
  return (operands){.cell = {h, xs, w, u},
                    .across = {h, cn_contiguous(cn_t(xs)), w, u},
                    .none = {h, cn_zeros(CN_SHAPE(0, 3)), w, u},
                    .rows = {xs, cn_randn(CN_SHAPE(5, 3)), w},
                    .pair = {cn_linspace(1, 2, 3), cn_full(CN_SHAPE(3), 1.75)},
                    .noises = {cn_ones(CN_SHAPE(16)), cn_ones(CN_SHAPE(4, 16))}};
}

/* A function that is run as it is and as a graph, for the same inputs: all results must be equal, to the bit. */
void both(cn_graph_fn fn, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  cn_tensor *want[MOST] = {NULL}, *have[MOST] = {NULL}, *again[MOST] = {NULL};
  cn_seed(7);
  cn_graph *g = cn_trace(fn, nout, in, nin, payload);
  if (!g) fail_msg("%s", cn_err_message());
  ok(cn_graph_verify(g));
  ok(fn(want, in, payload));
  cn_seed(7);
  ok(cn_graph_run(have, g, in));
  for (size_t i = 0; i < nout; i++) assert_same(want[i], have[i]);
  assert_true(cn_graph_optimise(g) >= 0);
  ok(cn_graph_verify(g));
  char *text = cn_graph_to_string(g);
  cn_graph *parsed = cn_graph_parse(text);
  if (!parsed) fail_msg("%s in\n%s", cn_err_message(), text);
  char *same = cn_graph_to_string(parsed);
  assert_string_equal(text, same);
  for (size_t i = 0; i < cn_graph_states(g); i++) ok(cn_graph_bind(parsed, i, cn_graph_state(g, i)));
  for (int round = 0; round < 2; round++) {
    cn_seed(7);
    ok(cn_graph_run(again, parsed, in));
    for (size_t i = 0; i < nout; i++) assert_same(want[i], again[i]);
  }
  cn_string_free(text);
  cn_string_free(same);
  cn_graph_free(parsed);
  cn_graph_free(g);
}

int twice(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_mul(in[0], cn_num(2));
  out[1] = in[0];
  *nout = 2;
  return cn_err();
}

int plus(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  (void)nin;
  out[0] = cn_add(cn_sin(in[0]), w);
  out[1] = cn_exp(in[0]);
  *nout = 2;
  return cn_err();
}

int choose(cn_tensor **out, cn_tensor *const *in, void *w)
{
  size_t n = 2;
  return cn_cond(out, &n, cn_gt(cn_sum(in[0]), cn_num(0)), in, 1, twice, plus, w);
}

/* Gradients of x and w through what `fn` makes of them, by a graph and by eager code. */
int gradients(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const differentiated *d = payload;
  cn_tensor *x[MOST], *y[MOST], *loss = NULL;
  for (size_t i = 0; i < d->nin; i++) x[i] = cn_requires_grad(cn_detach(in[i]), true);
  if (d->fn(y, x, d->payload)) return cn_err();
  for (size_t i = 0; i < d->nout; i++) {
    cn_tensor *part = cn_sum(cn_mul(cn_sin(y[i]), cn_num(1.0 + (double)i)));
    loss = loss ? cn_add(loss, part) : part;
  }
  cn_backward(loss);
  for (size_t i = 0; i < d->nin; i++) /* a loop of no steps leaves zeros where eager code leaves no gradient */
    out[i] = cn_grad_of(x[i]) ? cn_grad_of(x[i]) : cn_zeros_like(x[i]);
  return cn_err();
}

void both_gradients(cn_graph_fn fn, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  differentiated d = {fn, payload, nin, nout};
  both(gradients, nin, in, nin, &d);
}

/* h' = tanh(W x + U h), y = h' * h' */
int step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const cell *c = payload;
  (void)nin;
  out[0] = cn_tanh(cn_add(cn_mv(c->w, in[1]), cn_mv(c->u, in[0])));
  out[1] = cn_mul(out[0], out[0]);
  *nout = 2;
  return cn_err();
}

/* in: h (H), xs (T, X), w, u */
int recurrent(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const scanned *k = payload;
  cell c = {in[2], in[3]};
  size_t n = 1;
  return cn_scan(&out[0], &out[1], &n, &in[0], 1, &in[1], 1, step, &c, .reverse = k->reverse, .dim = k->dim);
}

/* A branch in a step: rows whose sum is negative go through the cell, others leave the state as it is. */
static int stay(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_mul(in[0], cn_num(0.5));
  out[1] = in[0];
  *nout = 2;
  return cn_err();
}

static int branching_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  return cn_cond(out, nout, cn_lt(cn_sum(in[1]), cn_num(0)), in, nin, step, stay, payload);
}

int branches(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cell c = {in[2], in[3]};
  size_t n = 1;
  (void)payload;
  return cn_scan(&out[0], &out[1], &n, &in[0], 1, &in[1], 1, branching_step, &c);
}

int per_row(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  (void)nin;
  out[0] = cn_tanh(cn_mv(w, in[0]));
  out[1] = cn_sum(cn_mul(in[0], in[1]));
  *nout = 2;
  return cn_err();
}

/* in: x (T, X), y (T, X), w */
int mapped(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 2;
  (void)payload;
  return cn_map(out, &n, in, 2, per_row, in[2]);
}

int small(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_lt(cn_max(in[1]), cn_num(20));
  *nout = 1;
  return cn_err();
}

static int grow(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  (void)nin;
  out[0] = cn_add(in[0], cn_int(1));
  out[1] = cn_mul(in[1], w);
  *nout = 2;
  return cn_err();
}

/* in: a count, x, w; payload: max_steps */
int growing(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  return cn_while(out, in, 2, small, grow, in[2], .max_steps = *(int64_t *)payload);
}

int grown(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *all[3] = {cn_zeros(NULL, 0, .dtype = CN_I64), in[0], in[1]}, *last[2];
  if (growing(last, all, payload)) return cn_err();
  out[0] = last[1];
  return cn_err();
}

int noisy(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_dropout(cn_add(in[0], in[1]), .p = 0.5);
  out[1] = cn_add(out[0], cn_rand_like(in[1]));
  *nout = 2;
  return cn_err();
}

int noise(cn_tensor **out, cn_tensor *const *in, void *combine)
{
  size_t n = 1;
  cn_tensor *before = cn_rand_like(in[0]);
  int status = cn_scan(&out[0], &out[1], &n, &before, 1, in + 1, 1, *(cn_control_fn *)combine, NULL, .reverse = true);
  out[2] = cn_add(cn_rand_like(in[0]), in[0]); /* numbers behind the loop are eager's, too */
  return status;
}
