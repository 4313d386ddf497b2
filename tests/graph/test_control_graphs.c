/* test_control_graphs.c: graphs with branches and loops: in files, on another device, run by several threads, of other
 * sizes, compiled, fused, built by hand; host calls, and that nodes with effects stay and keep their order. */
#include <cairn/ext/graph.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "control_cases.h"
#include "graph/plan.h"

/* ---- files, devices, threads, sizes ---- */

static void test_saved(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  const char *path = "test_control.safetensors";
  cn_tensor *w = cn_full(CN_SHAPE(3), 5), *x = cn_ones(CN_SHAPE(3)), *y = cn_neg(x), *want[2], *have[2];
  cn_graph *g = cn_trace(choose, 2, &x, 1, w);
  ok(cn_graph_save(g, path));
  cn_graph *loaded = cn_graph_load(path);
  if (!loaded) fail_msg("%s", cn_err_message());
  cn_tensor *inputs[2] = {x, y};
  for (int i = 0; i < 2; i++) {
    ok(cn_graph_run(want, g, &inputs[i]));
    ok(cn_graph_run(have, loaded, &inputs[i]));
    assert_same(want[0], have[0]);
    assert_same(want[1], have[1]);
  }
  cn_graph_free(g);
  cn_graph_free(loaded);
  assert_int_equal(remove(path), 0);
  cn_scope_end(s);
}

static void test_another_device(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_device mirror = cn_device_find("mirror");
  operands o = operands_of_cases();
  cn_tensor **in = o.cell, *there[4], *want[4], *have[4];
  for (int i = 0; i < 4; i++) there[i] = cn_to_device(in[i], mirror);
  differentiated d = {branches, NULL, 4, 2};
  ok(gradients(want, in, &d));
  cn_graph *g = cn_trace(gradients, 4, there, 4, &d);
  if (!g) fail_msg("%s", cn_err_message());
  ok(cn_graph_run(have, g, there));
  for (int i = 0; i < 4; i++) assert_same(want[i], cn_to_device(have[i], CN_CPU));
  cn_graph_free(g);
  cn_scope_end(s);
}

typedef struct runner {
  cn_graph *g;
  cn_tensor *in[4], *want[2];
  bool same;
} runner;

static void *run_many(void *payload)
{
  runner *r = payload;
  r->same = true;
  for (int i = 0; i < 20; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *have[2];
    bool ran = !cn_graph_run(have, r->g, r->in);
    for (int k = 0; k < 2; k++) r->same = r->same && ran && cn_item(cn_all(cn_eq(have[k], r->want[k]))) > 0;
    cn_scope_end(s);
  }
  return NULL;
}

static void test_threads(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  operands o = operands_of_cases();
  cn_tensor **in = o.cell;
  cn_graph *g = cn_trace(branches, 2, in, 4, NULL);
  runner r[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    r[i] = (runner){.g = g, .in = {in[0], cn_mul(in[1], cn_num(i - 1)), in[2], in[3]}};
    ok(branches(r[i].want, r[i].in, NULL));
    assert_int_equal(pthread_create(&threads[i], NULL, run_many, &r[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    assert_true(r[i].same);
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

/* How many steps there are may vary; sizes inside of a step may not. */
static void test_sizes(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  operands o = operands_of_cases();
  cn_tensor **in = o.cell, *want[2], *have[2];
  scanned plain = {false, 0};
  const cn_free_dim steps = {.input = 1, .dim = 0, .symbol = "T"}, inside[2] = {{.input = 1, .dim = 1, .symbol = "X"},
                                                                                {.input = 2, .dim = 1, .symbol = "X"}};
  cn_graph *g = cn_trace_dynamic(recurrent, 2, in, 4, &steps, 1, &plain);
  if (!g) fail_msg("%s", cn_err_message());
  for (int64_t n = 1; n < 9; n += 3) {
    cn_tensor *other[4] = {in[0], cn_randn(CN_SHAPE(n, 3)), in[2], in[3]};
    ok(recurrent(want, other, &plain));
    ok(cn_graph_run(have, g, other));
    assert_same(want[0], have[0]);
    assert_same(want[1], have[1]);
  }
  cn_graph_free(g);
  assert_null(cn_trace_dynamic(recurrent, 2, in, 4, inside, 2, &plain));
  assert_non_null(strstr(cn_err_message(), "inside of branches and loops"));
  cn_err_clear();
  cn_scope_end(s);
}

/* ---- compiled functions ---- */

static int forward(cn_compile_call *call)
{
  scanned plain = {false, 0};
  call->noutputs = 2;
  return recurrent(call->outputs, call->inputs, &plain);
}

/* Forward and backward of a compiled function, cut in two, are eager's. */
static void test_compiled(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *fast = cn_compile(forward, .fullgraph = true);
  operands o = operands_of_cases();
  cn_tensor **in = o.cell, *grads[2][4];
  for (int round = 0; round < 2; round++)
    for (int compiled = 0; compiled < 2; compiled++) {
      cn_tensor *x[4], *out[2];
      for (int i = 0; i < 4; i++) x[i] = cn_requires_grad(cn_clone(in[i]), true);
      cn_compile_call call = {.inputs = x, .ninputs = 4, .outputs = out, .noutputs = 2};
      ok(compiled ? cn_compiled_call(fast, &call) : forward(&call));
      cn_backward(cn_add(cn_sum(cn_sin(out[0])), cn_sum(cn_sin(out[1]))));
      for (int i = 0; i < 4; i++) grads[compiled][i] = cn_grad_of(x[i]);
      for (int i = 0; i < 4 && compiled; i++) assert_same(grads[0][i], grads[1][i]);
    }
  cn_compile_stats stats;
  cn_compile_stats_get(&stats, sizeof stats, fast);
  assert_int_equal(stats.executables, 1);
  assert_int_equal(stats.runs, 2);
  cn_compiled_free(fast);
  cn_scope_end(s);
}

/* Neighbours inside of a step become one node, and a step is planned once, however many there are. */
static void test_fused(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  operands o = operands_of_cases();
  cn_tensor **in = o.cell, *want[2], *have[2];
  scanned plain = {false, 0};
  const cn_free_dim steps = {.input = 1, .dim = 0, .symbol = "T"};
  cn_graph *g = cn_trace_dynamic(recurrent, 2, in, 4, &steps, 1, &plain), *body = NULL;
  if (!g) fail_msg("%s", cn_err_message());
  assert_true(cn_graph_optimise(g) >= 0);
  assert_int_equal(cn_graph_fuse(g, true), 1);
  for (int64_t n = 1; n < 9; n += 3) {
    cn_tensor *other[4] = {in[0], cn_randn(CN_SHAPE(n, 3)), in[2], in[3]};
    ok(recurrent(want, other, &plain));
    ok(cn_graph_run(have, g, other));
    assert_same(want[0], have[0]);
    assert_same(want[1], have[1]);
  }
  for (size_t i = 0; i < g->nnodes; i++)
    if (g->nodes[i].nsubs) body = g->nodes[i].subs[0];
  char *text = cn_graph_to_string(body);
  assert_non_null(strstr(text, "= pointwise("));
  cn_string_free(text);
  assert_true(g->plan && g->plan->next); /* of several lengths */
  assert_true(body->plan && !body->plan->next);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- effects ---- */

typedef struct log {
  int calls, order[64];
  bool freed;
} log_of;
static log_of seen;

/* Notes its input's first element, and gives it times ten. */
static int note(cn_tensor *const *out, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  log_of *l = payload;
  (void)nout, (void)nin;
  const float *x = cn_data(in[0]);
  float *y = cn_data(out[0]);
  if (x[0] > 1000) return CN_ERR_VALUE;
  for (int64_t i = 0; i < cn_numel(out[0]); i++) y[i] = 10 * x[i];
  l->order[l->calls++ % 64] = (int)x[0];
  return 0;
}

static void forget(void *payload) { ((log_of *)payload)->freed = true; }

static cn_tensor *noted(cn_tensor *x)
{
  const cn_host_result r = {CN_F32, 1, {2}};
  cn_tensor *out = NULL;
  return cn_host_call(&out, &r, 1, &x, 1, note, &seen, .name = "note", .payload_free = forget) ? NULL : out;
}

static int calls_twice(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  noted(cn_add(in[0], cn_num(2))); /* nobody reads it */
  noted(in[0]);
  noted(in[0]);                    /* the same again */
  out[0] = cn_add(noted(cn_add(in[0], cn_num(1))), in[0]);
  return cn_err();
}

static int call_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_add(in[0], cn_num(1));
  noted(in[0]);
  *nout = 1;
  return cn_err();
}

static int calls_in_loop(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *last;
  size_t none = 0;
  (void)payload;
  out[0] = in[0];
  return cn_scan(&last, NULL, &none, in, 1, NULL, 0, call_step, NULL, .length = 3);
}

static void assert_called(const int *order, int n)
{
  assert_int_equal(seen.calls, n);
  for (int i = 0; i < n; i++) assert_int_equal(seen.order[i], order[i]);
  seen.calls = 0;
}

static void test_host_calls(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_full(CN_SHAPE(2), 4), *want, *have;
  const int order[] = {6, 4, 4, 5}, loop[] = {4, 5, 6};
  seen = (log_of){0};
  ok(calls_twice(&want, &x, NULL));
  assert_called(order, 4);
  cn_graph *g = cn_trace(calls_twice, 1, &x, 1, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  assert_int_equal(seen.calls, 0);
  assert_true(cn_graph_optimise(g) >= 0 && cn_graph_remove_dead(g) >= 0);
  seen.freed = false;
  for (int i = 0; i < 2; i++) {
    ok(cn_graph_run(&have, g, &x));
    assert_called(order, 4);
    assert_same(want, have);
  }
  assert_int_equal(cn_graph_save(g, "test_control_host.safetensors"), CN_ERR_UNSUPPORTED);
  assert_non_null(strstr(cn_err_message(), "note"));
  cn_err_clear();
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "calls 'note'"));
  assert_null(cn_graph_parse(text));
  cn_err_clear();
  cn_string_free(text);
  cn_tensor *large = cn_full(CN_SHAPE(2), 2000);
  assert_int_equal(cn_graph_run(&have, g, &large), CN_ERR_VALUE);
  cn_err_clear();
  assert_false(seen.freed);
  cn_graph_free(g);
  assert_true(seen.freed);
  g = cn_trace(calls_in_loop, 1, &x, 1, NULL); /* nobody reads what the loop makes, but it has effects */
  seen.calls = 0;
  ok(cn_graph_run(&have, g, &x));
  assert_called(loop, 3);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- from outside: read and built ---- */

static void test_ext(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int64_t shape[1] = {3};
  cn_graph *g = cn_graph_new(), *subs[2];
  for (int k = 0; k < 2; k++) {
    subs[k] = cn_graph_new();
    int x = cn_graph_add_input(subs[k], CN_CPU, CN_F32, 1, shape), y[1];
    size_t n = 1;
    const cn_value arg = {CN_V_TENSOR, 1, {0}};
    assert_true(cn_graph_add_node(y, &n, subs[k], cn_op_find(k ? "neg" : "exp"), &arg, 1, &x, 1) >= 0);
    ok(cn_graph_add_output(subs[k], y[0]));
  }
  const cn_value args[2] = {{CN_V_TENSOR, 1, {0}}, cn_v_tensors(NULL, 1)};
  int in[2] = {cn_graph_add_input(g, CN_CPU, CN_BOOL, 0, NULL), cn_graph_add_input(g, CN_CPU, CN_F32, 1, shape)};
  int out[1];
  size_t n = 1;
  int node = cn_graph_add_control(out, &n, g, "cond", args, 2, in, 2, subs, 2);
  if (node < 0) fail_msg("%s", cn_err_message());
  ok(cn_graph_add_output(g, out[0]));
  ok(cn_graph_verify(g));
  cn_graph_node info = {sizeof info};
  ok(cn_graph_node_at(&info, g, node));
  assert_string_equal(info.name, "cond");
  assert_int_equal(info.nsubs, 2);
  assert_int_equal(cn_graph_nodes(info.subs[1]), 1);
  cn_tensor *x[2] = {cn_zeros(NULL, 0, .dtype = CN_BOOL), cn_ones(CN_SHAPE(3))}, *y;
  ok(cn_graph_run(&y, g, x));
  assert_same(y, cn_full(CN_SHAPE(3), -1));
  subs[0] = cn_graph_new();
  subs[1] = cn_graph_new();
  assert_true(cn_graph_add_control(out, &n, g, "cond", args, 2, in, 2, subs, 2) < 0); /* they take nothing */
  cn_err_clear();
  ok(cn_graph_verify(g));
  cn_graph_free(g);
  const char *wrong[] = {
    "%0 = input float32 [2]\n%1 = exp(%0) : float32 [2] {\n}\noutput %1\n",
    "%0 = input bool []\n%1 = cond(%0, {}) : float32 [2] {\n  output %0\n}\noutput %1\n",
    "%0 = input bool []\n%1 = cond(%0, {%0}) : bool [] {\n  %0 = input bool []\n  output %0\n} {\n"
    "  %0 = input bool []\n",
    "%0 = input bool []\n%1 = cond(%0, {%0}) : bool [] {\n  %0 = state bool []\n  output %0\n} {\n"
    "  %0 = input bool []\n  output %0\n}\noutput %1\n",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_null(cn_graph_parse(wrong[i]));
    assert_int_not_equal(cn_err(), 0);
    cn_err_clear();
  }
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_saved),
    cmocka_unit_test(test_another_device),
    cmocka_unit_test(test_threads),
    cmocka_unit_test(test_sizes),
    cmocka_unit_test(test_compiled),
    cmocka_unit_test(test_fused),
    cmocka_unit_test(test_host_calls),
    cmocka_unit_test(test_ext),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
