/* test_file.c: graphs in files: what was saved runs again without the program that made it, names and memory orders
 * stay, files of earlier libraries go on running, and what cannot be kept or read is refused.
 *
 * With CAIRN_WRITE_GOLDEN=1 it first writes tests/graph/golden/NAME.safetensors: for a new file, never an old one. */
#include <cairn/cairn.h>
#include <cairn/ext/op.h>
#include <cairn/io.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensors.h"

/* ---- a perceptron for any batch ---- */

enum { IN = 3, HIDDEN = 4, OUT = 2 };

typedef struct perceptron {
  cn_tensor *w1, *b1, *w2, *b2, *step; /* (4, 3), (4), (2, 4), (2), () */
} perceptron;

/* Small fractions, so that every sum below is exact. */
static cn_tensor *ramp(int64_t rows, int64_t columns, double first)
{
  cn_tensor *t = cn_arange(0, (double)(rows * columns), .dtype = CN_F32);
  return cn_clone(cn_reshape(cn_sub(cn_mul(t, cn_num(0.125)), cn_num(first)), CN_SHAPE(rows, columns)));
}

static perceptron perceptron_make(void)
{
  perceptron p = {ramp(HIDDEN, IN, 0.75), cn_full(CN_SHAPE(HIDDEN), 0.25), ramp(OUT, HIDDEN, 0.5),
                  cn_full(CN_SHAPE(OUT), -0.5), cn_zeros(CN_SCALAR_SHAPE)};
  return p;
}

static int forward_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const perceptron *p = payload; /* x: (B, 3) */
  out[0] = cn_linear(cn_relu(cn_linear(in[0], p->w1, p->b1)), p->w2, p->b2);
  cn_add_(p->step, cn_num(1));
  return cn_err();
}

static cn_graph *forward_graph(perceptron *p)
{
  cn_tensor *x = cn_ones(CN_SHAPE(8, IN));
  const cn_free_dim dim = {0, 0, "B", 0, 0};
  cn_graph *g = cn_trace_dynamic(forward_fn, 1, &x, 1, &dim, 1, p);
  if (!g) fail_msg("%s", cn_err_message());
  return g;
}

/* What the perceptron gives, by the book. */
static double expected(int64_t rows, int64_t row, int column)
{
  double y = -0.5;
  for (int h = 0; h < HIDDEN; h++) {
    double sum = 0.25;
    for (int i = 0; i < IN; i++)
      sum += (0.125 * (h * IN + i) - 0.75) * (0.125 * (double)(row * IN + i) - 0.25 * (double)rows);
    if (sum > 0) y += sum * (0.125 * (column * HIDDEN + h) - 0.5);
  }
  return y;
}

static void runs_as_expected(cn_graph *g)
{
  for (int64_t rows = 1; rows < 8; rows++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = ramp(rows, IN, 0.25 * (double)rows), *y;
    if (cn_graph_run(&y, g, &x)) fail_msg("%s", cn_err_message());
    assert_int_equal(cn_size(y, 0), rows);
    for (int64_t row = 0; row < rows; row++)
      for (int c = 0; c < OUT; c++)
        assert_true(((const float *)cn_data(y))[row * OUT + c] == (float)expected(rows, row, c));
    cn_scope_end(s);
  }
}

static const char *golden(const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, "%s/tests/graph/golden/%s.safetensors", CN_TEST_SOURCE_DIR, name);
  return path;
}

static bool writing(void)
{
  const char *v = getenv("CAIRN_WRITE_GOLDEN");
  return v && *v == '1';
}

static void test_round_trip(void **state)
{
  (void)state;
  perceptron p = perceptron_make();
  cn_graph *g = forward_graph(&p);
  assert_int_equal(cn_graph_name_state(g, 0, "fc1.weight"), 0);
  assert_true(cn_graph_name_state(g, 1, "fc1.weight") < 0);
  assert_fails(CN_ERR_VALUE, "already");
  assert_true(cn_graph_name_state(g, 1, "state.0") < 0);
  assert_fails(CN_ERR_VALUE, "state.0");
  assert_true(cn_graph_name_state(g, 1, "two\nlines") < 0);
  cn_err_clear();
  const char *path = "test_graph_file.safetensors";
  assert_int_equal(cn_graph_save(g, path), 0);
  cn_graph *back = cn_graph_load(path);
  if (!back) fail_msg("%s", cn_err_message());
  char *a = cn_graph_to_string(g), *b = cn_graph_to_string(back);
  assert_string_equal(a, b);
  assert_string_equal(cn_graph_state_name(back, 0), "fc1.weight");
  assert_null(cn_graph_state_name(back, 1));
  runs_as_expected(back);
  for (size_t i = 0; i < cn_graph_states(back); i++)
    if (cn_ndim(cn_graph_state(back, i)) == 0) assert_float_equal(cn_item(cn_graph_state(back, i)), 7, 0);
  assert_float_equal(cn_item(p.step), 0, 0); /* the file's states are its own */
  cn_tree *tree = cn_load(path); /* a file of weights like any other, and the runs left it alone */
  assert_float_equal(cn_item(cn_sum(cn_tree_as_tensor(cn_tree_get(tree, "fc1.weight")))),
                     cn_item(cn_sum(p.w1)), 0);
  cn_tree_free(tree);
  cn_string_free(a);
  cn_string_free(b);
  cn_graph_free(back);
  cn_graph_free(g);
  cn_file_remove(path);
}

static int module_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_forward(payload, in[0]);
  return cn_err();
}

static void test_module_names(void **state)
{
  (void)state;
  cn_module *net = cn_nn_sequential(cn_nn_linear(3, 4), cn_nn_relu(), cn_nn_linear(4, 2));
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3));
  cn_graph *g = cn_trace(module_fn, 1, &x, 1, net);
  if (!g) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_module_name_states(net, g), 4);
  assert_string_equal(cn_graph_state_name(g, 0), "0.weight");
  cn_graph_free(g);
  cn_module_release(net);
}

/* ---- a file of the first library that wrote any ---- */

static void test_golden_forward(void **state)
{
  (void)state;
  if (writing()) {
    perceptron p = perceptron_make();
    cn_graph *g = forward_graph(&p);
    cn_graph_name_state(g, 0, "fc1.weight");
    assert_int_equal(cn_graph_save(g, golden("forward_1")), 0);
    cn_graph_free(g);
  }
  cn_graph *g = cn_graph_load(golden("forward_1"));
  if (!g) fail_msg("%s", cn_err_message());
  runs_as_expected(g);
  cn_graph_free(g);
}

/* A whole training step: dropout, cross entropy, gradients and an update. */
static int step_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const perceptron *p = payload; /* x: (B, 3), y: (B) */
  cn_tensor *w[4] = {p->w1, p->b1, p->w2, p->b2};
  cn_tensor *h = cn_dropout(cn_relu(cn_linear(in[0], p->w1, p->b1)), .p = 0.25);
  out[0] = cn_cross_entropy(cn_linear(h, p->w2, p->b2), in[1]);
  cn_backward(out[0]);
  int saved = cn_no_grad_begin();
  for (int i = 0; i < 4; i++) {
    cn_sub_(w[i], cn_grad_of(w[i]), .alpha = 0.5);
    cn_zero_grad(w[i]);
  }
  cn_no_grad_end(saved);
  return cn_err();
}

static cn_graph *step_graph(perceptron *p)
{
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(8, IN)), cn_zeros(CN_SHAPE(8), .dtype = CN_I64)};
  const cn_free_dim dims[2] = {{0, 0, "B", 1, 1000}, {1, 0, "B", 0, 0}};
  cn_tensor *w[4] = {p->w1, p->b1, p->w2, p->b2};
  for (int i = 0; i < 4; i++) cn_requires_grad(w[i], true);
  cn_graph *g = cn_trace_dynamic(step_fn, 1, in, 2, dims, 2, p);
  if (!g) fail_msg("%s", cn_err_message());
  return g;
}

/* Losses of five steps on batches of 3, 4, ... rows. */
static void losses(double *loss, cn_graph *g, perceptron *p)
{
  cn_seed(11);
  for (int i = 0; i < 5; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *out = NULL, *in[2] = {ramp(3 + i, IN, 1), cn_remainder(cn_arange(0, 3 + i, .dtype = CN_I64), cn_int(2))};
    int status = g ? cn_graph_run(&out, g, in) : step_fn(&out, in, p);
    if (status) fail_msg("%s", cn_err_message());
    loss[i] = cn_item(out);
    cn_scope_end(s);
  }
}

static void test_golden_step(void **state)
{
  (void)state;
  static const double first[5] = {0.66855257749557495, 0.80274951457977295, 0.79541349411010742, 0.65949684381484985,
                                  0.68763852119445801};
  double have[5], want[5];
  perceptron p = perceptron_make();
  cn_graph *g = step_graph(&p);
  if (writing()) assert_int_equal(cn_graph_save(g, golden("step_1")), 0);
  losses(want, NULL, &p);
  cn_graph_free(g);
  g = cn_graph_load(golden("step_1"));
  if (!g) fail_msg("%s", cn_err_message());
  losses(have, g, NULL);
  for (int i = 0; i < 5; i++) {
    assert_true(have[i] == want[i]); /* what the library computes now */
    if (writing()) print_message("%.17g\n", have[i]);
    else assert_float_equal(have[i], first[i], 1e-6); /* and what it computed when the file was written */
  }
  cn_graph_free(g);
}

/* ---- orders, devices, types ---- */

static int transposed_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_matmul(in[0], cn_cast(payload, CN_F64));
  out[1] = cn_zeros(CN_SHAPE(2), .dtype = CN_I32, .device = CN_CPU);
  return cn_err();
}

static void test_orders_and_types(void **state)
{
  (void)state;
  cn_tensor *w = cn_transpose(ramp(4, 3, 0), 0, 1), *x = cn_ones(CN_SHAPE(2, 3), .dtype = CN_F64), *have[2], *want[2];
  cn_graph *g = cn_trace(transposed_fn, 2, &x, 1, w);
  if (!g) fail_msg("%s", cn_err_message());
  const char *path = "test_graph_orders.safetensors";
  assert_int_equal(cn_graph_save(g, path), 0);
  cn_graph *back = cn_graph_load(path);
  if (!back) fail_msg("%s", cn_err_message());
  char *text = cn_graph_to_string(back);
  assert_non_null(strstr(text, "float64)")); /* types by name: numbers are this library's alone */
  assert_int_equal(transposed_fn(want, &x, w), 0);
  assert_int_equal(cn_graph_run(have, back, &x), 0);
  assert_true(cn_item(cn_all(cn_eq(have[0], want[0]))) > 0);
  assert_int_equal(cn_dtype_of(have[1]), CN_I32);
  cn_string_free(text);
  cn_graph_free(back);
  cn_graph_free(g);
  cn_file_remove(path);
}

static int there_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_to_device(cn_mul(in[0], payload), CN_CPU);
  return cn_err();
}

static void test_devices(void **state)
{
  (void)state;
  cn_device mirror = cn_device_find("mirror");
  cn_scope *scope = cn_scope_begin();
  cn_tensor *w = cn_to_device(ramp(1, 4, 0), mirror), *x = cn_to_device(cn_ones(CN_SHAPE(1, 4)), mirror), *y;
  cn_graph *g = cn_trace(there_fn, 1, &x, 1, w);
  const char *path = "test_graph_devices.safetensors";
  assert_int_equal(cn_graph_save(g, path), 0);
  cn_graph_free(g);
  g = cn_graph_load(path);
  if (!g) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_device_of(cn_graph_state(g, 0)), mirror);
  assert_int_equal(cn_graph_run(&y, g, &x), 0);
  assert_float_equal(cn_item(cn_sum(y)), 0.75, 0);
  cn_graph_free(g);
  cn_file_remove(path);
  cn_scope_end(scope);
  assert_int_equal(cn_device_sync(mirror), 0);
  assert_null(cn_graph_parse("%0 = input float32 [2] on nowhere:0\noutput %0\n"));
  assert_fails(CN_ERR_IO, "line 1");
}

/* ---- versions ---- */

static int same_infer(cn_call *c)
{
  const cn_desc *d = cn_desc_of(c->in[0]);
  return cn_call_result(c, 0, d->dtype, d->ndim, d->shape);
}
static int same_decompose(cn_call *c)
{
  c->out[0] = cn_mul(c->in[0], cn_num(2));
  return cn_err();
}
static const cn_op second_op = {.sig = "test_second(Tensor input) -> Tensor", .doc = "Twice its input.",
                                .flags = CN_OP_NO_GRAD, .infer = same_infer, .decompose = same_decompose,
                                .version = 2};

static int second_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_value arg = cn_v_tensor(in[0]);
  size_t n = 1;
  (void)payload;
  if (cn_op_call(out, &n, &second_op, &arg, 1, NULL)) return CN_ERR_VALUE;
  return cn_scope_give(out[0]) ? 0 : CN_ERR_MEMORY;
}

static void test_versions_of_ops(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(2));
  assert_int_equal(cn_op_register(&second_op, 1), 0);
  cn_graph *g = cn_trace(second_fn, 1, &x, 1, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "test_second@2("));
  cn_graph *back = cn_graph_parse(text);
  assert_non_null(back);
  cn_graph_free(back);
  strstr(text, "@2")[1] = '3';
  assert_null(cn_graph_parse(text));
  assert_fails(CN_ERR_IO, "newer library");
  cn_string_free(text);
  cn_graph_free(g);
  assert_null(cn_graph_parse("%0 = input float32 [2]\n%1 = test_second(%0) : float32 [2]\noutput %1\n"));
  assert_fails(CN_ERR_IO, "version 1");
  assert_null(cn_graph_parse("%0 = input float32 [2]\n%1 = exp@2(%0) : float32 [2]\noutput %1\n"));
  assert_fails(CN_ERR_IO, "version 2");
  assert_null(cn_graph_parse("%0 = input float32 [2]\n%1 = exp@1(%0) : float32 [2]\noutput %1\n"));
  assert_fails(CN_ERR_IO, "version");
}

/* ---- what is refused ---- */

static void write_file(const char *path, const char *format, const char *text, cn_tensor *t)
{
  cn_tree *tree = cn_tree_dict(), *metadata = cn_tree_dict();
  if (format) cn_tree_put(metadata, "cairn.graph.format", cn_tree_str(format));
  if (text) cn_tree_put(metadata, "cairn.graph", cn_tree_str(text));
  cn_tree_put(tree, "__metadata__", metadata);
  if (t) cn_tree_put(tree, "state.0", cn_tree_tensor(t));
  assert_int_equal(cn_save(path, tree), 0);
  cn_tree_free(tree);
}

static int entangled_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor **t = payload;
  (void)in;
  out[0] = cn_sum(t[1]);
  cn_add_(t[0], cn_num(1));
  return cn_err();
}

static void test_refusals(void **state)
{
  (void)state;
  static const char text[] = "%0 = state float32 [2]\n%1 = exp(%0) : float32 [2]\noutput %1\n";
  const char *path = "test_graph_refused.safetensors";
  cn_tensor *good = cn_ones(CN_SHAPE(2)), *bad = cn_ones(CN_SHAPE(3)), *out;
  write_file(path, "1", text, good);
  cn_graph *g = cn_graph_load(path);
  assert_non_null(g);
  assert_int_equal(cn_graph_run(&out, g, NULL), 0);
  cn_graph_free(g);
  write_file(path, "3", text, good);
  assert_null(cn_graph_load(path));
  assert_fails(CN_ERR_IO, "newer library");
  write_file(path, NULL, text, good);
  assert_null(cn_graph_load(path));
  assert_fails(CN_ERR_IO, "format");
  write_file(path, "1", NULL, good);
  assert_null(cn_graph_load(path));
  assert_fails(CN_ERR_IO, "no graph");
  write_file(path, "1", text, NULL);
  assert_null(cn_graph_load(path));
  assert_fails(CN_ERR_IO, "state.0");
  write_file(path, "1", text, bad);
  assert_null(cn_graph_load(path));
  assert_fails(CN_ERR_SHAPE, "state 0");
  write_file(path, "1", "nonsense", good);
  assert_null(cn_graph_load(path));
  assert_fails(CN_ERR_IO, "line 1");
  cn_file_remove(path);
  assert_null(cn_graph_load(path));
  cn_err_clear();
  g = cn_graph_parse(text);
  assert_true(cn_graph_save(g, path) < 0);
  assert_fails(CN_ERR_VALUE, "not bound");
  cn_graph_free(g);
  cn_tensor *pair[2] = {cn_ones(CN_SHAPE(2, 2)), NULL};
  pair[1] = cn_from_dlpack(cn_to_dlpack(pair[0])); /* the same memory, and no view */
  g = cn_trace(entangled_fn, 1, NULL, 0, pair);
  if (!g) fail_msg("%s", cn_err_message());
  assert_true(cn_graph_save(g, path) < 0);
  assert_fails(CN_ERR_UNSUPPORTED, "share memory");
  cn_graph_free(g);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_round_trip), TEST(test_module_names), TEST(test_golden_forward), TEST(test_golden_step),
    TEST(test_orders_and_types), TEST(test_devices), TEST(test_versions_of_ops), TEST(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
