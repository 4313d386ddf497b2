/* test_control_replay.c: graphs with branches and loops, replayed: they compute and carry gradients as the functions
 * that were traced, to the bit; under autocast, in captures, in modules that train. And gradients of gradients. */
#include <cairn/ext/graph.h>
#include <stdio.h>
#include <string.h>

#include "control_cases.h"

static int replay(cn_tensor **out, cn_tensor *const *in, void *graph) { return cn_graph_replay(out, graph, in); }

/* Values and gradients of a function, of its graph replayed, of that captured and run, and of that replayed again. */
static void compare(cn_graph_fn fn, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  cn_tensor *x[MOST], *want[MOST], *have[MOST], *grads[MOST];
  for (size_t i = 0; i < nin; i++)
    x[i] = cn_dtype_is_float(cn_dtype_of(in[i])) ? cn_requires_grad(cn_detach(cn_clone(in[i])), true) : in[i];
  cn_seed(7);
  cn_graph *g = cn_trace(fn, nout, x, nin, payload), *again = g ? cn_trace(replay, nout, x, nin, g) : NULL;
  if (!again) fail_msg("%s", cn_err_message());
  ok(cn_graph_verify(again));
  differentiated d = {fn, payload, nin, nout}, r = {replay, g, nin, nout}, rr = {replay, again, nin, nout};
  cn_seed(7);
  ok(fn(want, in, payload));
  cn_seed(7);
  ok(gradients(grads, in, &d));
  for (int i = 0; i < 2; i++) {
    cn_seed(7);
    ok(replay(have, in, i ? again : g));
    for (size_t k = 0; k < nout; k++) assert_same(want[k], have[k]);
    cn_seed(7);
    ok(gradients(have, in, i ? &rr : &r));
    for (size_t k = 0; k < nin; k++) assert_same(grads[k], have[k]);
  }
  cn_seed(7);
  ok(cn_graph_run(have, again, in));
  for (size_t k = 0; k < nout; k++) assert_same(want[k], have[k]);
  cn_graph_free(again);
  cn_graph_free(g);
}

static int choose_with(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  size_t n = 2;
  return cn_cond(out, &n, cn_gt(cn_sum(in[0]), cn_num(0)), in, 1, twice, plus, in[1]);
}

static void they_are_the_functions(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  scanned plain = {false, 0}, last = {true, -1};
  int64_t many = 10, few = 2;
  cn_control_fn drawing = noisy;
  operands o = operands_of_cases();
  cn_tensor *x[2] = {cn_linspace(-1, 2, 3), cn_full(CN_SHAPE(3), 5)}, *y[2] = {cn_neg(x[0]), x[1]};
  compare(choose_with, 2, x, 2, NULL);
  compare(choose_with, 2, y, 2, NULL);
  compare(recurrent, 2, o.cell, 4, &plain);
  compare(recurrent, 2, o.across, 4, &last);
  compare(recurrent, 2, o.none, 4, &plain);
  compare(branches, 2, o.cell, 4, NULL);
  compare(mapped, 2, o.rows, 3, NULL);
  compare(grown, 1, o.pair, 2, &many);
  compare(grown, 1, o.pair, 2, &few);
  compare(noise, 3, o.noises, 2, &drawing);
  cn_scope_end(s);
}

/* A graph of a backward pass has scans that count their steps from the end: it is replayed, too. */
static void backward_passes(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int64_t many = 10;
  cn_control_fn drawing = noisy;
  operands o = operands_of_cases();
  cn_tensor *want[2], *have[2];
  differentiated d[2] = {{grown, &many, 2, 1}, {noise, &drawing, 2, 3}};
  for (int i = 0; i < 2; i++) {
    cn_tensor **in = i ? o.noises : o.pair;
    cn_graph *g = cn_trace(gradients, 2, in, 2, &d[i]);
    if (!g) fail_msg("%s", cn_err_message());
    cn_graph *again = cn_trace(replay, 2, in, 2, g);
    if (!again) fail_msg("%s", cn_err_message());
    cn_seed(7);
    ok(gradients(want, in, &d[i]));
    for (int way = 0; way < 3; way++) {
      cn_seed(7);
      ok(way == 0 ? replay(have, in, g) : way == 1 ? cn_graph_run(have, again, in) : replay(have, in, again));
      for (int k = 0; k < 2; k++) assert_same(want[k], have[k]);
    }
    cn_graph_free(again);
    cn_graph_free(g);
  }
  cn_scope_end(s);
}

/* ---- modes ---- */

static int product(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  (void)nin;
  out[0] = cn_matmul(in[0], w);
  *nout = 1;
  return cn_err();
}

static int negative(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  (void)nin;
  out[0] = cn_matmul(cn_neg(in[0]), w);
  *nout = 1;
  return cn_err();
}

static int products(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 1;
  (void)payload;
  return cn_cond(out, &n, cn_gt(cn_sum(in[0]), cn_num(0)), in, 1, product, negative, in[1]);
}

static void autocast_sees_what_is_inside(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2] = {cn_randn(CN_SHAPE(3, 4)), cn_randn(CN_SHAPE(4, 5))}, *want, *have;
  cn_graph *g = cn_trace(products, 1, in, 2, NULL);
  int saved = cn_autocast_begin(CN_BF16);
  ok(products(&want, in, NULL));
  ok(replay(&have, in, g));
  cn_autocast_end(saved);
  assert_int_equal(cn_dtype_of(have), CN_BF16);
  assert_same(want, have);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* What was computed without gradients, and goes into a loop, stays without. */
static int cut_off(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *given[4] = {in[0], in[1], NULL, in[3]};
  int saved = cn_no_grad_begin();
  given[2] = cn_mul(in[2], cn_num(2));
  cn_no_grad_end(saved);
  return recurrent(out, given, payload);
}

static void what_was_cut_off_stays_so(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  scanned plain = {false, 0};
  operands o = operands_of_cases();
  cn_tensor **in = o.cell, *have[4];
  cn_graph *g = cn_trace(cut_off, 2, in, 4, &plain);
  if (!g) fail_msg("%s", cn_err_message());
  differentiated d = {replay, g, 4, 2};
  ok(gradients(have, in, &d));
  assert_true(cn_item(cn_sum(cn_abs(have[2]))) == 0);
  assert_true(cn_item(cn_sum(cn_abs(have[3]))) > 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void types_are_inferred(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  scanned plain = {false, 0};
  operands o = operands_of_cases();
  cn_tensor **in = o.cell;
  const cn_free_dim steps = {.input = 1, .dim = 0, .symbol = "T"};
  cn_graph *g = cn_trace_dynamic(recurrent, 2, in, 4, &steps, 1, &plain);
  cn_graph_value given[4] = {{CN_F64, CN_CPU, 1, {4}}, {CN_F64, CN_CPU, 2, {9, 3}}, {CN_F64, CN_CPU, 2, {4, 3}},
                             {CN_F64, CN_CPU, 2, {4, 4}}}, made[2];
  ok(cn_graph_infer(made, g, given));
  assert_int_equal(made[0].dtype, CN_F64);
  assert_int_equal(made[1].ndim, 2);
  assert_int_equal(made[1].shape[0], 9);
  given[0].shape[0] = 5;
  assert_int_equal(cn_graph_infer(made, g, given), CN_ERR_SHAPE);
  cn_err_clear();
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- host calls ---- */

static int calls;
static int note(cn_tensor *const *out, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nout, (void)nin, (void)payload;
  *(float *)cn_data(out[0]) = 10 * *(const float *)cn_data(in[0]);
  calls++;
  return 0;
}

static int call_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const cn_host_result r = {CN_F32, 0, {0}};
  cn_tensor *sum = cn_sum(in[1]);
  (void)nin, (void)payload;
  if (cn_host_call(&out[1], &r, 1, &sum, 1, note, NULL)) return cn_err();
  out[0] = cn_add(in[0], out[1]);
  *nout = 2;
  return cn_err();
}

static int calling(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 1;
  return cn_scan(&out[0], &out[1], &n, &in[0], 1, &in[1], 1, call_step, payload);
}

static void hosts_are_called(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2] = {cn_zeros(NULL, 0), cn_randn(CN_SHAPE(4, 3))};
  calls = 0;
  compare(calling, 2, in, 2, NULL); /* at once and by gradients, twice replayed likewise, and one run */
  assert_int_equal(calls, 4 * (2 + 4 + 1));
  cn_scope_end(s);
}

/* ---- modules ---- */

typedef struct network {
  cn_tensor *w, *u, *v;
} network;

static int shortcut(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const network *k = payload;
  (void)nin;
  out[0] = cn_tanh(cn_mv(k->v, in[0]));
  *nout = 1;
  return cn_err();
}

static int full(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const network *k = payload;
  (void)nin;
  out[0] = cn_tanh(cn_add(cn_mv(k->w, in[1]), cn_mv(k->u, in[0])));
  *nout = 1;
  return cn_err();
}

static int choose_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  if (cn_cond(out, nout, cn_gt(cn_sum(in[1]), cn_num(0)), in, nin, full, shortcut, payload)) return cn_err();
  out[0] = cn_dropout(out[0], .p = 0.25);
  return cn_err();
}

static int run_network(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *h = cn_zeros(CN_SHAPE(4));
  size_t none = 0;
  return cn_scan(out, NULL, &none, &h, 1, in, 1, choose_step, payload);
}

static cn_tensor *steps_of(int i, cn_tensor *like)
{
  uint64_t seed, offset;
  cn_random_state(&seed, &offset);
  cn_random_set_state(100 + (uint64_t)i, 0);
  cn_tensor *x = cn_randn(cn_shape(like), (size_t)cn_ndim(like));
  cn_random_set_state(seed, offset);
  return x;
}

/* A graph that was loaded trains like the function: the parameters are the same behind ten steps, to the bit. A branch
 * gives what it does not use no gradient in either. */
static void loaded_graphs_train(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  const char *path = "test_control_replay.safetensors";
  cn_seed(2);
  network k = {cn_requires_grad(cn_randn(CN_SHAPE(4, 3)), true), cn_requires_grad(cn_randn(CN_SHAPE(4, 4)), true),
               cn_requires_grad(cn_randn(CN_SHAPE(4, 4)), true)};
  cn_tensor *x = cn_randn(CN_SHAPE(6, 3)), *own[3] = {k.w, k.u, k.v}, *first[3], *trained[3];
  cn_graph *g = cn_trace(run_network, 1, &x, 1, &k);
  if (!g) fail_msg("%s", cn_err_message());
  ok(cn_graph_save(g, path));
  cn_module *m = cn_graph_module(cn_graph_load(path));
  if (!m) fail_msg("%s", cn_err_message());
  assert_int_equal(remove(path), 0);
  for (int i = 0; i < 3; i++) first[i] = cn_clone(cn_detach(own[i]));
  cn_named_list list;
  ok(cn_module_named(&list, m, CN_PARAMETERS));
  assert_int_equal(list.n, 3);
  cn_optim *optim = cn_optim_sgd(m, .lr = 0.1);
  cn_seed(4);
  for (int i = 0; i < 10; i++) {
    ok(cn_backward(cn_sum(cn_square(cn_forward(m, steps_of(i, x))))));
    ok(cn_optim_step(optim));
    cn_optim_zero_grad(optim);
  }
  cn_seed(4);
  for (int i = 0; i < 10; i++) {
    cn_tensor *y, *in = steps_of(i, x);
    ok(run_network(&y, &in, &k));
    ok(cn_backward(cn_sum(cn_square(y))));
    int saved = cn_no_grad_begin();
    for (int j = 0; j < 3; j++) {
      if (cn_grad_of(own[j])) cn_sub_(own[j], cn_mul(cn_grad_of(own[j]), cn_num(0.1)));
      cn_set_grad(own[j], NULL);
    }
    cn_no_grad_end(saved);
  }
  for (size_t i = 0; i < cn_graph_states(g); i++) {
    int at = 0;
    while (cn_graph_state(g, i) != own[at]) at++;
    trained[at] = list.v[i].tensor;
  }
  for (int i = 0; i < 3; i++) {
    assert_true(cn_item(cn_all(cn_eq(first[i], own[i]))) == 0);
    assert_same(own[i], trained[i]);
  }
  cn_named_free(&list);
  cn_optim_free(optim);
  cn_module_release(m);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- gradients of gradients ---- */

/* The gradients of |dL/dx|^2 with respect to all inputs. */
static int second(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const differentiated *d = payload;
  cn_tensor *x[MOST], *y[MOST], *g[MOST], *loss = NULL, *norm = NULL;
  for (size_t i = 0; i < d->nin; i++) x[i] = cn_requires_grad(cn_detach(in[i]), true);
  if (d->fn(y, x, d->payload)) return cn_err();
  for (size_t i = 0; i < d->nout; i++) {
    cn_tensor *part = cn_sum(cn_mul(cn_sin(y[i]), cn_num(1.0 + (double)i)));
    loss = loss ? cn_add(loss, part) : part;
  }
  if (cn_grad(g, &loss, 1, x, d->nin, .create_graph = true, .allow_unused = true)) return cn_err();
  for (size_t i = 0; i < d->nin; i++) {
    if (!g[i]) continue;
    cn_tensor *part = cn_sum(cn_mul(g[i], cn_mul(g[i], g[i])));
    norm = norm ? cn_add(norm, part) : part;
  }
  cn_grad(out, &norm, 1, x, d->nin, .allow_unused = true);
  for (size_t i = 0; i < d->nin; i++)
    if (!out[i]) out[i] = cn_zeros_like(x[i]);
  return cn_err();
}

static void assert_close(cn_tensor *want, cn_tensor *have)
{
  if (!cn_numel(want)) return;
  double most = cn_item(cn_amax(cn_abs(want))), off = cn_item(cn_amax(cn_abs(cn_sub(want, have))));
  if (!(off <= 1e-12 * (1 + most))) fail_msg("it is off by %g of %g", off, most);
}

/* In float64: sums over steps are added in another order than eager's. */
static void close_to(cn_graph_fn fn, size_t nout, cn_tensor *const *given, size_t nin, void *payload)
{
  differentiated d = {fn, payload, nin, nout};
  cn_tensor *in[MOST], *want[MOST], *have[MOST];
  for (size_t i = 0; i < nin; i++) in[i] = cn_cast(given[i], CN_F64);
  cn_seed(7);
  cn_graph *g = cn_trace(second, nin, in, nin, &d);
  if (!g) fail_msg("%s", cn_err_message());
  ok(cn_graph_verify(g));
  cn_seed(7);
  ok(second(want, in, &d));
  for (int round = 0; round < 2; round++) {
    if (round) assert_true(cn_graph_optimise(g) >= 0);
    cn_seed(7);
    ok(cn_graph_run(have, g, in));
    for (size_t i = 0; i < nin; i++) assert_close(want[i], have[i]);
  }
  cn_graph_free(g);
}

/* Ops whose first gradient is a kernel without one of its own. */
static int normed_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const cell *c = payload;
  (void)nin;
  cn_tensor *x = cn_layer_norm(cn_add(cn_mv(c->w, in[1]), cn_mv(c->u, in[0])), CN_SHAPE(4), NULL, NULL);
  out[0] = cn_gelu(cn_log_softmax(x, 0));
  out[1] = cn_mul(out[0], in[0]);
  *nout = 2;
  return cn_err();
}

static int normed(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cell c = {in[2], in[3]};
  size_t n = 1;
  (void)payload;
  return cn_scan(&out[0], &out[1], &n, &in[0], 1, &in[1], 1, normed_step, &c);
}

static int choose_normed(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cell c = {in[2], in[3]};
  cn_tensor *given[2] = {in[0], cn_select(in[1], 0, 0)};
  size_t n = 2;
  (void)payload;
  return cn_cond(out, &n, cn_gt(cn_sum(in[0]), cn_num(-100)), given, 2, normed_step, step, &c);
}

static void gradients_of_gradients(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  scanned plain = {false, 0}, back = {true, 0};
  int64_t many = 10, few = 2;
  cn_control_fn drawing = noisy;
  operands o = operands_of_cases();
  cn_tensor *x[2] = {cn_linspace(-1, 2, 3), cn_full(CN_SHAPE(3), 5)}, *y[2] = {cn_neg(x[0]), x[1]};
  close_to(choose_with, 2, x, 2, NULL);
  close_to(choose_with, 2, y, 2, NULL);
  close_to(recurrent, 2, o.cell, 4, &plain);
  close_to(recurrent, 2, o.cell, 4, &back);
  close_to(recurrent, 2, o.none, 4, &plain);
  close_to(mapped, 2, o.rows, 3, NULL);
  close_to(grown, 1, o.pair, 2, &many);
  close_to(grown, 1, o.pair, 2, &few);
  close_to(branches, 2, o.cell, 4, NULL);
  close_to(normed, 2, o.cell, 4, NULL);
  close_to(choose_normed, 2, o.cell, 4, NULL);
  close_to(noise, 3, o.noises, 2, &drawing);
  cn_scope_end(s);
}

static int forward(cn_compile_call *call)
{
  call->noutputs = 2;
  return branches(call->outputs, call->inputs, NULL);
}

static int compiled_second(cn_tensor **out, cn_tensor *const *in, void *fast)
{
  cn_compile_call call = {.inputs = in, .ninputs = 4, .outputs = out, .noutputs = 2};
  return fast ? cn_compiled_call(fast, &call) : forward(&call);
}

/* ... of a compiled function, whose graph is replayed for that. */
static void gradients_of_compiled_gradients(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *fast = cn_compile(forward, .fullgraph = true);
  cn_seed(3);
  cn_tensor *in[4] = {cn_randn(CN_SHAPE(4), .dtype = CN_F64), cn_randn(CN_SHAPE(5, 3), .dtype = CN_F64),
                      cn_randn(CN_SHAPE(4, 3), .dtype = CN_F64), cn_randn(CN_SHAPE(4, 4), .dtype = CN_F64)};
  cn_tensor *want[4], *have[4];
  differentiated d = {compiled_second, NULL, 4, 2}, c = {compiled_second, fast, 4, 2};
  ok(second(want, in, &d));
  ok(second(have, in, &c));
  for (int i = 0; i < 4; i++) assert_close(want[i], have[i]);
  cn_compiled_free(fast);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(they_are_the_functions),
    cmocka_unit_test(backward_passes),
    cmocka_unit_test(autocast_sees_what_is_inside),
    cmocka_unit_test(what_was_cut_off_stays_so),
    cmocka_unit_test(types_are_inferred),
    cmocka_unit_test(hosts_are_called),
    cmocka_unit_test(loaded_graphs_train),
    cmocka_unit_test(gradients_of_gradients),
    cmocka_unit_test(gradients_of_compiled_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
