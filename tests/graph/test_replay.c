/* test_replay.c: a graph's ops called again one by one: results, gradients, random numbers and writes are those of the
 * program that was traced, under gradients, autocast and captures; loaded graphs are modules that train like the
 * original, to the bit. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <string.h>

#include "tensors.h"

static cn_graph *traced(cn_graph_fn fn, cn_tensor **in, size_t n, void *payload)
{
  cn_graph *g = cn_trace(fn, 1, in, n, payload);
  if (!g) fail_msg("%s", cn_err_message());
  return g;
}

static cn_tensor *replayed(const cn_graph *g, cn_tensor *const *in)
{
  cn_tensor *out = NULL;
  if (cn_graph_replay(&out, g, in)) fail_msg("%s", cn_err_message());
  return out;
}

/* ---- networks ---- */

static int forward_fn(cn_tensor **out, cn_tensor *const *in, void *net)
{
  out[0] = cn_forward(net, in[0]);
  return cn_err();
}

static cn_module *make_net(int kind)
{
  cn_seed(7);
  if (kind == 0)
    return cn_nn_sequential(cn_nn_linear(12, 16), cn_nn_layer_norm(CN_SHAPE(16)), cn_nn_gelu(), cn_nn_dropout(.p = 0.3),
                            cn_nn_linear(16, 5));
  return cn_nn_sequential(cn_nn_unflatten(1, (const int64_t[]){1, 3, 4}, 3),
                          cn_nn_conv2d(1, 6, 3, .padding = CN_INTS(1)), cn_nn_batch_norm2d(6), cn_nn_relu(),
                          cn_nn_max_pool2d(2), cn_nn_flatten(), cn_nn_linear(12, 5));
}

/* The net by way of a file. */
static cn_module *reloaded(cn_module *net, cn_tensor *x)
{
  const char *path = "test_graph_replay.safetensors";
  cn_graph *g = traced(forward_fn, &x, 1, net);
  assert_true(cn_module_name_states(net, g) > 0);
  assert_int_equal(cn_graph_save(g, path), 0);
  cn_graph_free(g);
  cn_module *m = cn_graph_module(cn_graph_load(path));
  cn_file_remove(path);
  if (!m) fail_msg("%s", cn_err_message());
  return m;
}

static cn_tensor *batch(int step)
{
  uint64_t seed, offset;
  cn_random_state(&seed, &offset);
  cn_random_set_state(1000 + (uint64_t)step, 0);
  cn_tensor *x = cn_randn(CN_SHAPE(8, 12));
  cn_random_set_state(seed, offset);
  return x;
}

static double train(cn_module *net, cn_optim *optim, int step)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *y = cn_randint(0, 5, CN_SHAPE(8));
  cn_tensor *loss = cn_cross_entropy(cn_forward(net, batch(step)), y);
  cn_backward(loss);
  cn_optim_step(optim);
  cn_optim_zero_grad(optim);
  double value = cn_item(loss);
  cn_scope_end(s);
  return value;
}

/* A loaded net has the names, trains for ten steps and is then what the original is, to the bit. */
static void loaded_nets_train(void **state)
{
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    cn_scope *s = cn_scope_begin();
    cn_module *a = make_net(kind), *b = reloaded(a, batch(0));
    cn_optim *oa = cn_optim_adam(a, .lr = 0.01), *ob = cn_optim_adam(b, .lr = 0.01);
    cn_named_list x, y;
    cn_seed(1);
    for (int i = 0; i < 10; i++) train(a, oa, i);
    cn_seed(1);
    for (int i = 0; i < 10; i++) train(b, ob, i);
    if (cn_err()) fail_msg("%s", cn_err_message());
    cn_module_named(&x, a, CN_PARAMETERS | CN_BUFFERS);
    cn_module_named(&y, b, CN_PARAMETERS | CN_BUFFERS);
    assert_true(x.n > 3);
    for (size_t i = 0; i < x.n; i++) {
      cn_tensor *t = cn_module_get(b, x.v[i].name);
      if (!t && !strcmp(cn_dtype_name(cn_dtype_of(x.v[i].tensor)), "int64")) continue; /* a count nobody reads */
      if (!t) fail_msg("%s is missing", x.v[i].name);
      assert_same(t, x.v[i].tensor);
      assert_true(cn_needs_grad(t) == cn_needs_grad(x.v[i].tensor));
    }
    cn_named_free(&x);
    cn_named_free(&y);
    cn_optim_free(oa);
    cn_optim_free(ob);
    cn_module_release(a);
    cn_module_release(b);
    cn_scope_end(s);
  }
}

/* Copies train by themselves; slots that are replaced are what is computed with. */
static void graph_modules_are_modules(void **state)
{
  (void)state;
  cn_module *net = make_net(0);
  cn_module_train(net, false);
  cn_tensor *x = batch(0);
  cn_module *m = reloaded(net, x), *copy = cn_module_copy(m);
  cn_tensor *want = cn_forward(net, x);
  assert_same(cn_forward(m, x), want);
  assert_same(cn_forward(copy, x), want);
  int saved = cn_no_grad_begin();
  assert_same(cn_forward(m, x), want);
  cn_mul_(cn_module_get(copy, "4.weight"), cn_num(2));
  cn_mul_(cn_module_get(copy, "4.bias"), cn_num(2));
  cn_no_grad_end(saved);
  assert_same(cn_forward(m, x), want);
  assert_same(cn_forward(copy, x), cn_mul(want, cn_num(2)));
  assert_int_equal(cn_module_set(m, "4.bias", cn_zeros(CN_SHAPE(5))), 0);
  assert_int_equal(cn_module_set(net, "4.bias", cn_zeros(CN_SHAPE(5))), 0);
  assert_same(cn_forward(m, x), cn_forward(net, x));
  assert_int_equal(cn_module_to(m, CN_DEVICE_DEFAULT, CN_F64), 0);
  assert_int_equal(cn_dtype_of(cn_forward(m, cn_cast(x, CN_F64))), CN_F64);
  assert_null(cn_forward(m, x, x));
  assert_fails(CN_ERR_TYPE, "1 tensors");
  cn_module_release(copy);
  cn_module_release(m);
  cn_module_release(net);
}

/* ---- gradients ---- */

static int cut_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload; /* y = x * exp(x), where exp(x) is made without gradients; and x^2 cut off */
  int saved = cn_no_grad_begin();
  cn_tensor *e = cn_exp(in[0]);
  cn_no_grad_end(saved);
  out[0] = cn_add(cn_mul(in[0], e), cn_detach(cn_mul(in[0], in[0])));
  return cn_err();
}

/* Of the sum of y. */
static cn_tensor *gradient(cn_tensor *y, cn_tensor *x)
{
  cn_tensor *total = cn_sum(y), *grad = NULL;
  if (cn_grad(&grad, &total, 1, &x, 1)) fail_msg("%s", cn_err_message());
  return grad;
}

/* What the program cut off stays cut off, also behind all passes, and also through text. */
static void gradients_stop_where_they_did(void **state)
{
  (void)state;
  cn_tensor *x = cn_requires_grad(cn_randn(CN_SHAPE(4)), true), *want, *y;
  cut_fn(&y, &x, NULL);
  want = gradient(y, x);
  cn_graph *g = traced(cut_fn, &x, 1, NULL);
  assert_true(cn_graph_optimise(g) >= 0);
  for (int round = 0; round < 2; round++) {
    cn_tensor *z = replayed(g, &x);
    assert_same(z, y);
    assert_same(gradient(z, x), want);
    assert_same(want, cn_exp(x));
    char *text = cn_graph_to_string(g);
    cn_graph_free(g);
    g = cn_graph_parse(text);
    cn_string_free(text);
  }
  cn_graph_free(g);
}

static int round_forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  (void)ctx;
  out[0] = cn_round(in[0]);
  return cn_err();
}

static int round_backward(cn_context *ctx, cn_tensor **gin, cn_tensor *const *gout)
{
  (void)ctx;
  gin[0] = gout[0];
  return 0;
}

static const cn_function straight = {sizeof(cn_function), "straight_through", round_forward, round_backward, NULL};

static int straight_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  return cn_function_apply(out, 1, &straight, in, 1, NULL);
}

/* A backward that is not in the graph is an error, not another gradient. */
static void own_backwards_are_refused(void **state)
{
  (void)state;
  cn_tensor *x = cn_randn(CN_SHAPE(3)), *y = NULL;
  cn_graph *g = traced(straight_fn, &x, 1, NULL);
  assert_same(replayed(g, &x), cn_round(x));
  cn_requires_grad(x, true);
  assert_int_not_equal(cn_graph_replay(&y, g, &x), 0);
  assert_fails(CN_ERR_GRAD, "straight_through");
  cn_graph_free(g);
}

/* ---- modes ---- */

static void autocast_sees_the_ops(void **state)
{
  (void)state;
  cn_module *net = make_net(0);
  cn_module_train(net, false);
  cn_tensor *x = batch(0);
  cn_graph *g = traced(forward_fn, &x, 1, net);
  assert_true(cn_graph_lift(g, NULL, NULL) > 0);
  int saved = cn_autocast_begin(CN_BF16);
  cn_tensor *want = cn_forward(net, x), *have = replayed(g, &x);
  cn_autocast_end(saved);
  assert_int_equal(cn_dtype_of(have), CN_BF16);
  assert_same(have, want);
  cn_graph_free(g);
  cn_module_release(net);
}

static int replay_fn(cn_tensor **out, cn_tensor *const *in, void *graph)
{
  cn_tensor *y = NULL;
  cn_dropout(in[0], .p = 0.5); /* numbers that the inner graph's begin behind */
  if (cn_graph_replay(&y, graph, in)) return cn_err();
  out[0] = cn_mul(y, cn_num(2));
  return cn_err();
}

/* A graph that is replayed while one is captured becomes part of it: names, random numbers, gradients, states. */
static void captures_take_graphs_in(void **state)
{
  (void)state;
  cn_module *net = make_net(1), *drop = cn_nn_sequential(net, cn_nn_dropout(.p = 0.5));
  cn_tensor *x = batch(0), *want, *have;
  cn_graph *inner = traced(forward_fn, &x, 1, drop), *outer = traced(replay_fn, &x, 1, inner);
  char *text = cn_graph_to_string(outer);
  assert_non_null(strstr(text, "'BatchNorm2d'"));
  cn_string_free(text);
  cn_tree *before = cn_module_state(net);
  cn_tensor *mean = cn_clone(cn_module_get(net, "2.running_mean"));
  cn_seed(3);
  assert_int_equal(replay_fn(&want, &x, inner), 0);
  cn_tensor *moved = cn_clone(cn_module_get(net, "2.running_mean"));
  assert_true(cn_item(cn_all(cn_eq(mean, moved))) == 0);
  cn_copy_(cn_module_get(net, "2.running_mean"), mean);
  cn_seed(3);
  assert_int_equal(cn_graph_run(&have, outer, &x), 0);
  assert_same(have, want);
  assert_same(cn_module_get(net, "2.running_mean"), moved);
  cn_tree_free(before);
  cn_graph_free(inner);
  cn_graph_free(outer);
  cn_module_release(drop);
}

/* ---- writes ---- */

static int write_fn(cn_tensor **out, cn_tensor *const *in, void *count)
{
  out[0] = cn_slice(in[0], 0, 0, 2); /* a look at what is written below: its present value */
  out[0] = cn_mul(out[0], cn_num(1));
  cn_add_(count, cn_num(1));
  cn_mul_(in[0], cn_num(3));
  return cn_err();
}

static void writes_are_done_or_left(void **state)
{
  (void)state;
  cn_tensor *count = cn_zeros(CN_SCALAR_SHAPE), *x = cn_ones(CN_SHAPE(4)), *y = NULL;
  cn_graph *g = traced(write_fn, &x, 1, count);
  assert_same(replayed(g, &x), cn_ones(CN_SHAPE(2)));
  assert_same(x, cn_full(CN_SHAPE(4), 3));
  assert_true(cn_item(count) == 1);
  assert_int_equal(cn_graph_replay(&y, g, &x, .no_writes = true), 0);
  assert_same(y, cn_full(CN_SHAPE(2), 3));
  assert_same(x, cn_full(CN_SHAPE(4), 3));
  assert_true(cn_item(count) == 1);
  cn_graph_free(g);
}

/* ---- decomposition and types ---- */

static bool any(const cn_op *op, void *payload)
{
  (void)op;
  ++*(int *)payload;
  return true;
}

static void ops_are_taken_apart(void **state)
{
  (void)state;
  cn_module *net = make_net(0);
  cn_module_train(net, false);
  cn_tensor *x = batch(0), *y = NULL;
  int asked = 0;
  cn_graph *g = traced(forward_fn, &x, 1, net);
  assert_int_equal(cn_graph_replay(&y, g, &x, .decompose = any, .payload = &asked), 0);
  assert_true(asked > 0);
  assert_true(cn_item(cn_amax(cn_abs(cn_sub(y, cn_forward(net, x))))) < 1e-5);
  cn_graph_free(g);
  cn_module_release(net);
}

static void types_are_known_without_data(void **state)
{
  (void)state;
  cn_module *net = make_net(1);
  cn_tensor *x = batch(0);
  const cn_free_dim dim = {0, 0, "B", 0, 0};
  cn_graph *g = cn_trace_dynamic(forward_fn, 1, &x, 1, &dim, 1, net);
  cn_graph_value in = {.dtype = CN_F32, .device = CN_CPU, .ndim = 2, .shape = {31, 12}}, out;
  assert_int_equal(cn_graph_infer(&out, g, &in), 0);
  assert_int_equal(out.ndim, 2);
  assert_int_equal(out.shape[0], 31);
  assert_int_equal(out.shape[1], 5);
  in.shape[1] = 13;
  assert_int_not_equal(cn_graph_infer(&out, g, &in), 0);
  assert_fails(CN_ERR_SHAPE, "12");
  cn_graph_free(g);
  cn_module_release(net);
}

static int zeros_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)in, (void)payload;
  out[0] = cn_add(cn_zeros(CN_SHAPE(2)), cn_mul(cn_arange(0, 2, .dtype = CN_I64), cn_num(0.5)));
  return cn_err();
}

/* The default type at the time of the trace is part of the graph. */
static void default_types_are_the_traces(void **state)
{
  (void)state;
  cn_tensor *y = NULL;
  cn_graph *g = traced(zeros_fn, NULL, 0, NULL);
  cn_set_default_dtype(CN_F64);
  cn_tensor *z = replayed(g, NULL);
  int status = cn_graph_run(&y, g, NULL);
  cn_set_default_dtype(CN_F32);
  assert_int_equal(status, 0);
  assert_int_equal(cn_dtype_of(y), CN_F32);
  assert_int_equal(cn_dtype_of(z), CN_F32);
  cn_graph_free(g);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(loaded_nets_train, clear_errors),
    cmocka_unit_test_setup(graph_modules_are_modules, clear_errors),
    cmocka_unit_test_setup(gradients_stop_where_they_did, clear_errors),
    cmocka_unit_test_setup(own_backwards_are_refused, clear_errors),
    cmocka_unit_test_setup(autocast_sees_the_ops, clear_errors),
    cmocka_unit_test_setup(captures_take_graphs_in, clear_errors),
    cmocka_unit_test_setup(writes_are_done_or_left, clear_errors),
    cmocka_unit_test_setup(ops_are_taken_apart, clear_errors),
    cmocka_unit_test_setup(types_are_known_without_data, clear_errors),
    cmocka_unit_test_setup(default_types_are_the_traces, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
