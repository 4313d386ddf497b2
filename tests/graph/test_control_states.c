/* test_control_states.c: branches and loops that write to tensors from outside: values, states and gradients are those
 * of eager code, in graphs, compiled functions and loops inside of loops. */
#include <cairn/ext/graph.h>
#include <string.h>

#include "control_cases.h"

enum { MOST_STATES = 3 };

/* Outside, for all cases. */
static cn_tensor *buffer, *total, *weight;

static void reset(cn_tensor *const *from)
{
  int saved = cn_no_grad_begin();
  cn_copy_(buffer, from[0]);
  cn_copy_(total, from[1]);
  cn_copy_(weight, from[2]);
  cn_no_grad_end(saved);
  cn_set_grad(weight, NULL);
}

static void assert_states(cn_tensor *const *want)
{
  assert_same(want[0], buffer);
  assert_same(want[1], total);
  assert_same(want[2], weight);
}

/* A function at once, as a graph, a second time, optimised, and fused: results and what is outside behind it. */
static void compare(cn_graph_fn fn, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  cn_tensor *first[MOST_STATES] = {cn_detach(cn_clone(buffer)), cn_detach(cn_clone(total)),
                                   cn_detach(cn_clone(weight))};
  cn_tensor *then[MOST_STATES], *want[MOST], *have[MOST];
  cn_graph *g = cn_trace(fn, nout, in, nin, payload);
  if (!g) fail_msg("%s", cn_err_message());
  ok(cn_graph_verify(g));
  assert_states(first);
  cn_seed(5);
  ok(fn(want, in, payload));
  for (size_t i = 0; i < nout; i++) want[i] = cn_detach(cn_clone(want[i]));
  then[0] = cn_detach(cn_clone(buffer)), then[1] = cn_detach(cn_clone(total)), then[2] = cn_detach(cn_clone(weight));
  for (int round = 0; round < 4; round++) {
    if (round == 2) assert_true(cn_graph_optimise(g) >= 0);
    if (round == 3) assert_true(cn_graph_fuse(g, true) >= 0);
    reset(first);
    cn_seed(5);
    ok(cn_graph_run(have, g, in));
    for (size_t i = 0; i < nout; i++) assert_same(want[i], have[i]);
    assert_states(then);
  }
  reset(first);
  cn_graph_free(g);
}

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  cn_seed(9);
  buffer = cn_keep(cn_randn(CN_SHAPE(3)));
  total = cn_keep(cn_zeros(CN_SHAPE(2, 3)));
  weight = cn_keep(cn_requires_grad(cn_randn(CN_SHAPE(3)), true));
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  cn_release(buffer), cn_release(total), cn_release(weight);
  return 0;
}

/* ---- cond ---- */

static int writes(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  cn_add_(buffer, in[0]);
  cn_mul_(cn_select(total, 0, 1), cn_num(2)); /* through a view */
  cn_add_(cn_select(total, 0, 1), cn_num(1));
  out[0] = cn_add(cn_mul(in[0], cn_clone(buffer)), cn_select(total, 0, 1));
  *nout = 1;
  return cn_err();
}

static int reads(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_sub(in[0], buffer);
  *nout = 1;
  return cn_err();
}

static int choose_one(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 1;
  (void)payload;
  cn_mul_(buffer, cn_num(3));
  int status = cn_cond(out, &n, cn_gt(cn_sum(in[0]), cn_num(0)), in, 1, writes, reads, NULL);
  if (!status) out[1] = cn_add(out[0], buffer); /* what is written is seen behind it */
  return status ? status : cn_err();
}

static int writes_operand(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  cn_mul_(in[0], cn_num(2));
  out[0] = cn_sin(in[0]);
  *nout = 1;
  return cn_err();
}

static int choose_operand(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 1;
  cn_tensor *x = cn_clone(in[0]), *row = cn_narrow(x, 0, 1, 2);
  (void)payload;
  int status = cn_cond(out, &n, cn_gt(cn_sum(in[0]), cn_num(0)), &row, 1, writes_operand, writes_operand, NULL);
  out[1] = cn_mul(x, cn_num(1)); /* the view's base was written to */
  return status ? status : cn_err();
}

static void branches_write(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_linspace(1, 2, 3), *y = cn_neg(x);
  compare(choose_one, 2, &x, 1, NULL);
  compare(choose_one, 2, &y, 1, NULL);
  compare(choose_operand, 2, &x, 1, NULL);
  cn_scope_end(s);
}

/* ---- loops ---- */

/* The running mean of rows; rows of zeros are left out, by a branch inside. */
static int nothing(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_neg(in[0]);
  *nout = 1;
  return cn_err();
}

static int mean_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  size_t n = 1;
  (void)nin, (void)payload;
  cn_mul_(buffer, cn_num(0.5));
  if (cn_cond(&out[1], &n, cn_gt(cn_sum(in[1]), cn_num(0)), &in[1], 1, writes, nothing, NULL)) return cn_err();
  out[0] = cn_add(in[0], cn_mul(cn_clone(buffer), weight));
  *nout = 2;
  return cn_err();
}

static int means(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 1;
  (void)payload;
  return cn_scan(&out[0], &out[1], &n, &in[0], 1, &in[1], 1, mean_step, NULL);
}

static int count_rows(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  cn_add_(buffer, cn_num(1));
  out[0] = cn_mul(in[0], buffer);
  *nout = 1;
  return cn_err();
}

static int counted(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 1;
  (void)payload;
  return cn_map(out, &n, &in[1], 1, count_rows, NULL);
}

static int below_ten(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)in, (void)nin, (void)payload;
  out[0] = cn_lt(cn_amax(buffer), cn_num(10));
  *nout = 1;
  return cn_err();
}

static int doubles(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  cn_copy_(buffer, cn_mul(cn_abs(buffer), cn_num(2)));
  out[0] = cn_add(in[0], buffer);
  *nout = 1;
  return cn_err();
}

static int doubled(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  return cn_while(out, in, 1, below_ten, doubles, NULL, .max_steps = *(int64_t *)payload);
}

static void loops_write(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int64_t none = 0, few = 2, many = 20;
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(3)), cn_randn(CN_SHAPE(5, 3))}, *empty[2] = {in[0], cn_zeros(CN_SHAPE(0, 3))};
  compare(means, 2, in, 2, NULL);
  compare(means, 2, empty, 2, NULL);
  compare(counted, 1, in, 2, NULL);
  compare(doubled, 1, in, 1, &none);
  compare(doubled, 1, in, 1, &few);
  compare(doubled, 1, in, 1, &many);
  cn_scope_end(s);
}

/* ---- gradients ---- */

/* out: gradients of h, xs and weight through what the function makes and leaves outside. */
static int through(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x[2] = {cn_requires_grad(cn_detach(in[0]), true), cn_requires_grad(cn_detach(in[1]), true)}, *y[2];
  cn_tensor *wanted[3] = {x[0], x[1], weight};
  if ((*(cn_graph_fn *)payload)(y, x, NULL)) return cn_err();
  cn_tensor *loss = cn_add(cn_add(cn_sum(cn_sin(y[0])), cn_sum(cn_sin(y[1]))), cn_sum(cn_mul(buffer, buffer)));
  cn_grad(out, &loss, 1, wanted, 3);
  cn_copy_(buffer, cn_detach(buffer));
  return cn_err();
}

/* What is outside has a history, and goes on having one. */
static int with_history(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *own = buffer, *sum = total;
  buffer = cn_mul(weight, cn_num(2));
  total = cn_clone(total);
  int status = means(out, in, payload);
  if (!status) out[0] = cn_add(out[0], cn_sum(cn_mul(buffer, buffer)));
  if (!status) out[1] = cn_add(out[1], cn_sum(total));
  buffer = own;
  total = sum;
  return status;
}

static int chosen(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *own = buffer, *sum = total, *row = cn_select(in[1], 0, 0);
  size_t n = 1;
  buffer = cn_mul(weight, in[0]);
  total = cn_clone(total);
  int status = cn_cond(out, &n, cn_gt(cn_sum(row), cn_num(0)), &row, 1, writes, reads, payload);
  out[1] = cn_mul(buffer, cn_num(3));
  buffer = own;
  total = sum;
  return status ? status : cn_err();
}

static void gradients_flow(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(3)), cn_randn(CN_SHAPE(4, 3))}, *other[2] = {in[0], cn_neg(in[1])};
  cn_graph_fn history = with_history, branch = chosen;
  compare(through, 3, in, 2, &history);
  compare(through, 3, in, 2, &branch);
  compare(through, 3, other, 2, &branch);
  cn_scope_end(s);
}

/* The gradients of |gradient|^3, through what is written. */
static int penalty(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x[3] = {cn_requires_grad(cn_detach(in[0]), true), cn_requires_grad(cn_detach(in[1]), true), weight};
  cn_tensor *y[2], *g[3], *sum = NULL;
  if ((*(cn_graph_fn *)payload)(y, x, NULL)) return cn_err();
  cn_tensor *loss = cn_add(cn_sum(cn_sin(y[0])), cn_sum(cn_sin(y[1])));
  if (cn_grad(g, &loss, 1, x, 3, .create_graph = true)) return cn_err();
  for (int i = 0; i < 3; i++) {
    cn_tensor *part = cn_sum(cn_mul(g[i], cn_square(g[i])));
    sum = sum ? cn_add(sum, part) : part;
  }
  return cn_grad(out, &sum, 1, x, 3);
}

/* Sums over steps are added in another order than eager's. */
static void gradients_of_gradients_flow(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(3)), cn_randn(CN_SHAPE(4, 3))}, *other[2] = {in[0], cn_neg(in[1])};
  cn_tensor **given[] = {in, in, other}, *want[3], *have[3];
  cn_graph_fn fns[] = {with_history, chosen, chosen};
  for (int i = 0; i < 3; i++) {
    cn_graph *g = cn_trace(penalty, 3, given[i], 2, &fns[i]);
    if (!g) fail_msg("%s", cn_err_message());
    ok(penalty(want, given[i], &fns[i]));
    ok(cn_graph_run(have, g, given[i]));
    for (int k = 0; k < 3; k++) {
      double most = cn_item(cn_amax(cn_abs(want[k]))), off = cn_item(cn_amax(cn_abs(cn_sub(want[k], have[k]))));
      if (!(off <= 1e-5 * (1 + most))) fail_msg("%d: gradient %d is off by %g of %g", i, k, off, most);
    }
    cn_graph_free(g);
  }
  cn_scope_end(s);
}

/* A training loop as one scan: gradients by cn_grad, weights and momenta are changed in place. */
static int train_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  cn_tensor *error = cn_sub(cn_sum(cn_mul(weight, in[1])), in[2]), *loss = cn_mul(error, error), *grad;
  if (cn_grad(&grad, &loss, 1, &weight, 1)) return cn_err();
  int saved = cn_no_grad_begin();
  cn_add_(cn_mul_(buffer, cn_num(0.9)), grad);
  cn_sub_(weight, cn_mul(buffer, cn_num(0.01)));
  cn_no_grad_end(saved);
  out[0] = cn_add(in[0], cn_detach(loss));
  out[1] = cn_detach(loss);
  *nout = 2;
  return cn_err();
}

static int training(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 1;
  cn_fill_(buffer, cn_num(0));
  return cn_scan(&out[0], &out[1], &n, &in[0], 1, &in[1], 2, train_step, payload);
}

static void training_loops(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[3] = {cn_zeros(NULL, 0), cn_randn(CN_SHAPE(6, 3)), cn_randn(CN_SHAPE(6))};
  compare(training, 2, in, 3, NULL);
  cn_scope_end(s);
}

/* ---- modules, compiled ---- */

static int norm_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *net)
{
  (void)nin;
  out[1] = cn_forward(net, in[1]);
  out[0] = cn_add(in[0], cn_mean(cn_square(out[1])));
  *nout = 2;
  return cn_err();
}

static cn_module *net;

static int forward(cn_compile_call *call)
{
  size_t n = 1;
  cn_tensor *zero = cn_zeros(NULL, 0), *ys;
  call->noutputs = 1;
  return cn_scan(call->outputs, &ys, &n, &zero, 1, call->inputs, 1, norm_step, net);
}

/* Running means of a batch norm that a scan goes through, and the gradients of its weights. */
static void batch_norm_in_a_scan(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *fast = cn_compile(forward, .fullgraph = true);
  cn_tensor *means[2], *grads[2][2], *x = cn_randn(CN_SHAPE(4, 8, 5));
  for (int compiled = 0; compiled < 2; compiled++) {
    cn_seed(1);
    net = cn_nn_sequential(cn_nn_linear(5, 6), cn_nn_batch_norm1d(6), cn_nn_relu());
    for (int round = 0; round < 2; round++) {
      cn_tensor *loss;
      cn_compile_call call = {.inputs = &x, .ninputs = 1, .outputs = &loss, .noutputs = 1};
      ok(compiled ? cn_compiled_call(fast, &call) : forward(&call));
      ok(cn_backward(loss));
    }
    means[compiled] = cn_clone(cn_module_get(net, "1.running_mean"));
    grads[compiled][0] = cn_clone(cn_grad_of(cn_module_get(net, "1.weight")));
    grads[compiled][1] = cn_clone(cn_grad_of(cn_module_get(net, "0.weight")));
    assert_int_equal(cn_item_int(cn_module_get(net, "1.num_batches_tracked")), 8);
    cn_module_release(net);
  }
  cn_compile_stats stats;
  cn_compile_stats_get(&stats, sizeof stats, fast);
  assert_int_equal(stats.eager_calls, 0);
  assert_same(means[0], means[1]);
  for (int i = 0; i < 2; i++) assert_same(grads[0][i], grads[1][i]);
  cn_compiled_free(fast);
  cn_scope_end(s);
}

/* ---- what is refused ---- */

static int writing_condition(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  cn_add_(buffer, cn_num(1));
  return below_ten(out, nout, in, nin, payload);
}

static int loop_with_writing_condition(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  return cn_while(out, in, 1, writing_condition, doubles, payload);
}

static int writes_carried(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_add_(in[0], cn_num(1));
  *nout = 1;
  return cn_err();
}

static int carried_is_written(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 0;
  return cn_scan(out, NULL, &n, in, 1, &in[1], 1, writes_carried, payload);
}

static int two_names(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 1;
  return cn_scan(&out[0], &out[1], &n, &buffer, 1, &in[1], 1, mean_step, payload);
}

static void refusals(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  static const struct {
    cn_graph_fn fn;
    const char *why;
  } rows[] = {{loop_with_writing_condition, "its condition writes"}, {carried_is_written, "clone it first"},
              {two_names, "given to the loop as carried value 0"}};
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(3)), cn_randn(CN_SHAPE(4, 3))};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cn_graph *g = cn_trace(rows[i].fn, 1, in, 2, NULL);
    if (g || cn_err() != CN_ERR_CAPTURE || !strstr(cn_err_message(), rows[i].why))
      fail_msg("%zu: %s", i, g ? "it was captured" : cn_err_message());
    cn_err_clear();
  }
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(branches_write, setup, teardown),
    cmocka_unit_test_setup_teardown(loops_write, setup, teardown),
    cmocka_unit_test_setup_teardown(gradients_flow, setup, teardown),
    cmocka_unit_test_setup_teardown(gradients_of_gradients_flow, setup, teardown),
    cmocka_unit_test_setup_teardown(training_loops, setup, teardown),
    cmocka_unit_test_setup_teardown(batch_norm_in_a_scan, setup, teardown),
    cmocka_unit_test_setup_teardown(refusals, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
