/* test_saved.c: what a saved graph holds: public ops, into which calls were folded; what cannot be folded is named; and
 * a loaded graph computes what the saved one did, to the bit, at all sizes.
 *
 * With CAIRN_WRITE_GOLDEN=1 it first writes tests/graph/golden/lifted_1.safetensors: for a new file, never an old
 * one. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "small_gpt.h"
#include "tensors.h"

static const char path[] = "test_graph_saved.safetensors";

static void same_at(cn_graph *g, cn_graph_fn fn, size_t noutputs, cn_tensor *const *in, void *payload, const char *at)
{
  cn_tensor *have[4] = {NULL}, *want[4] = {NULL};
  cn_seed(9);
  if (fn(want, in, payload)) fail_msg("%s: %s", at, cn_err_message());
  double next = cn_item(cn_rand(CN_SCALAR_SHAPE));
  cn_seed(9);
  if (cn_graph_run(have, g, in)) fail_msg("%s: %s", at, cn_err_message());
  for (size_t i = 0; i < noutputs; i++)
    if (!same_tensors(have[i], want[i])) fail_msg("%s: output %d differs", at, (int)i);
  assert_true(next == cn_item(cn_rand(CN_SCALAR_SHAPE))); /* as many random numbers were taken */
}

/* The file's list of parts; "" where it has none. Owned. */
static char *parts_of(const char *file)
{
  cn_tree *tree = cn_load(file);
  if (!tree) fail_msg("%s", cn_err_message());
  const char *parts = cn_tree_as_str(cn_tree_get(cn_tree_get(tree, "__metadata__"), "cairn.graph.parts"), "");
  cn_text t = {0};
  cn_text_put(&t, parts);
  cn_tree_free(tree);
  return cn_text_take(&t);
}

/* Saves and loads; the file's parts must be these. */
static cn_graph *through_file(const cn_graph *g, const char *parts)
{
  char *before = cn_graph_to_string(g);
  if (cn_graph_save(g, path)) fail_msg("%s", cn_err_message());
  char *after = cn_graph_to_string(g), *have = parts_of(path);
  assert_string_equal(before, after); /* what is saved stays as it is */
  assert_string_equal(have, parts);
  cn_graph *back = cn_graph_load(path);
  if (!back) fail_msg("%s", cn_err_message());
  cn_string_free(before);
  cn_string_free(after);
  cn_string_free(have);
  cn_file_remove(path);
  return back;
}

static bool holds(const cn_graph *g, const char *op)
{
  for (int i = 0; i < (int)cn_graph_nodes(g); i++) {
    cn_graph_node n = {sizeof n};
    if (!cn_graph_node_at(&n, g, i) && !strcmp(n.name, op)) return true;
  }
  return false;
}

/* ---- forward passes are public ops alone ---- */

static void test_gpt(void **state)
{
  (void)state;
  static const int64_t pairs[][2] = {{1, 1}, {1, 7}, {3, 1}, {5, 8}, {2, 3}};
  gpt m = gpt_make();
  cn_tensor *tokens = cn_randint(0, GPT_WORDS, CN_SHAPE(4, 6));
  const cn_free_dim dims[2] = {{0, 0, "B", 1, 0}, {0, 1, "T", 1, GPT_MOST}};
  cn_graph *g = cn_trace_dynamic(gpt_fn, GPT_OUTPUTS, &tokens, 1, dims, 2, &m);
  if (!g) fail_msg("%s", cn_err_message());
  cn_graph *back = through_file(g, "");
  assert_true(holds(back, "scaled_dot_product_attention") && holds(back, "layer_norm"));
  assert_true(cn_graph_nodes(back) < cn_graph_nodes(g));
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    tokens = cn_randint(0, GPT_WORDS, pairs[i], 2);
    same_at(back, gpt_fn, GPT_OUTPUTS, &tokens, &m, "gpt");
  }
  cn_graph_free(back);
  cn_graph_free(g);
}

static int module_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_forward(payload, in[0]);
  return cn_err();
}

static void test_cnn(void **state)
{
  (void)state;
  cn_module *net = cn_nn_sequential(cn_nn_conv2d(1, 4, 3, .padding = CN_INTS(1)), cn_nn_batch_norm2d(4),
                                    cn_nn_hardswish(), cn_nn_max_pool2d(2), cn_nn_group_norm(2, 4),
                                    cn_nn_dropout(.p = 0.5), cn_nn_flatten(), cn_nn_linear(4 * 4 * 4, 10));
  int saved = cn_no_grad_begin();
  for (int training = 0; training < 2; training++) {
    cn_tensor *x = cn_randn(CN_SHAPE(6, 1, 8, 8));
    const cn_free_dim dim = {0, 0, "B", 2, 0};
    cn_module_train(net, training);
    cn_graph *g = cn_trace_dynamic(module_fn, 1, &x, 1, &dim, 1, net);
    if (!g) fail_msg("%s", cn_err_message());
    cn_graph *back = through_file(g, "");
    assert_int_equal(holds(back, "dropout"), training); /* with its draws */
    for (int64_t b = 2; b < 6; b++) {
      x = cn_randn(CN_SHAPE(b, 1, 8, 8));
      same_at(back, module_fn, 1, &x, net, training ? "cnn in training" : "cnn");
    }
    cn_graph_free(back);
    cn_graph_free(g);
  }
  cn_no_grad_end(saved);
  cn_module_release(net);
}

/* ---- what is not public is named ---- */

static int step_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *w = payload; /* x: (B, 3), w: (2, 3) */
  out[0] = cn_cross_entropy(cn_linear(in[0], w, NULL), in[1]);
  cn_backward(out[0]);
  cn_zero_grad(w);
  return cn_err();
}

static void test_parts_are_named(void **state)
{
  (void)state;
  cn_module *net = cn_nn_lstm(3, 4, .batch_first = true);
  cn_tensor *x = cn_randn(CN_SHAPE(2, 5, 3));
  cn_graph *g = cn_trace(module_fn, 1, &x, 1, net), *back = through_file(g, "recurrent_sequence");
  same_at(back, module_fn, 1, &x, net, "lstm");
  cn_graph_free(back);
  cn_graph_free(g);
  cn_module_release(net);
  cn_tensor *w = cn_requires_grad(cn_randn(CN_SHAPE(2, 3)), true);
  cn_tensor *in[2] = {cn_randn(CN_SHAPE(4, 3)), cn_zeros(CN_SHAPE(4), .dtype = CN_I64)};
  if (!(g = cn_trace(step_fn, 1, in, 2, w))) fail_msg("%s", cn_err_message());
  cn_graph_free(through_file(g, "")); /* the gradient is nobody's: the loss is one call */
  cn_graph_free(g);
}

/* ---- calls that were made of other parts stay open ---- */

static int autocast_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor **w = payload; /* x: (4, 8) */
  int saved = cn_autocast_begin(CN_BF16);
  out[0] = cn_bilinear(in[0], in[0], w[0], NULL);
  out[1] = cn_layer_norm(in[0], CN_SHAPE(8), w[1], NULL);
  cn_autocast_end(saved);
  return cn_err();
}

static void test_autocast(void **state)
{
  (void)state;
  cn_tensor *w[2] = {cn_randn(CN_SHAPE(2, 8, 8)), cn_randn(CN_SHAPE(8))}, *x = cn_randn(CN_SHAPE(4, 8));
  int saved = cn_no_grad_begin();
  cn_graph *g = cn_trace(autocast_fn, 2, &x, 1, w);
  if (!g) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_graph_save(g, path), 0);
  cn_graph *back = cn_graph_load(path);
  if (!back) fail_msg("%s", cn_err_message());
  same_at(back, autocast_fn, 2, &x, w, "autocast");
  cn_graph_free(back);
  cn_graph_free(g);
  cn_file_remove(path);
  cn_no_grad_end(saved);
}

/* ---- numbers that are inputs ---- */

static void test_number_inputs(void **state)
{
  (void)state;
  cn_graph *g = cn_graph_parse("%0 = input float32 [3]\n%1 = input float64 [] weak\n%2 = input bool [3]\n"
                               "%3 = masked_fill(%0, %2, %1) : float32 [3]\noutput %3\n");
  if (!g) fail_msg("%s", cn_err_message());
  for (int i = 1; i < 3; i++) { /* each run with its own number, though the call is planned as its parts */
    cn_tensor *in[3] = {cn_zeros(CN_SHAPE(3)), cn_num(1.5 * i), cn_ones(CN_SHAPE(3), .dtype = CN_BOOL)}, *out;
    if (cn_graph_run(&out, g, in)) fail_msg("%s", cn_err_message());
    assert_float_equal(cn_item(cn_sum(out)), 4.5 * i, 0);
    assert_int_equal(cn_dtype_of(out), CN_F32);
  }
  cn_graph_free(g);
}

/* ---- copies ---- */

static void test_copy(void **state)
{
  (void)state;
  gpt m = gpt_make();
  cn_tensor *tokens = cn_randint(0, GPT_WORDS, CN_SHAPE(4, 6));
  const cn_free_dim dims[2] = {{0, 0, "B", 1, 0}, {0, 1, "T", 1, GPT_MOST}};
  cn_graph *g = cn_trace_dynamic(gpt_fn, GPT_OUTPUTS, &tokens, 1, dims, 2, &m), *copy = cn_graph_copy(g);
  if (!copy) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_graph_verify(copy), 0);
  char *a = cn_graph_to_string(g), *b = cn_graph_to_string(copy);
  assert_string_equal(a, b);
  assert_true(cn_graph_lift(copy, NULL, NULL) > 0);
  char *c = cn_graph_to_string(g);
  assert_string_equal(a, c);
  cn_graph_free(g); /* the copy stands by itself */
  tokens = cn_randint(0, GPT_WORDS, CN_SHAPE(1, 3));
  same_at(copy, gpt_fn, GPT_OUTPUTS, &tokens, &m, "a copy");
  cn_graph_free(copy);
  cn_string_free(a);
  cn_string_free(b);
  cn_string_free(c);
  assert_null(cn_graph_copy(NULL));
  cn_err_clear();
}

/* ---- a file of the first library that lifted ---- */

typedef struct block {
  cn_tensor *w, *norm; /* (8, 4), (8) */
} block;

static cn_tensor *ramp(int64_t rows, int64_t columns, double scale)
{
  cn_tensor *t = cn_arange(0, (double)(rows * columns), .dtype = CN_F32);
  t = cn_sub(cn_remainder(cn_mul(t, cn_num(7)), cn_num(16)), cn_num(8));
  return cn_clone(cn_reshape(cn_mul(t, cn_num(scale)), CN_SHAPE(rows, columns)));
}

static int block_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const block *m = payload; /* x: (B, T, 4) */
  cn_tensor *h = cn_linear(in[0], m->w, NULL), *a;
  h = cn_layer_norm(h, CN_SHAPE(8), m->norm, NULL);
  a = cn_scaled_dot_product_attention(h, h, h, NULL, .is_causal = true);
  out[0] = cn_flatten(cn_transpose(cn_dropout(a, .p = 0.25), 1, 2), .start_dim = 1, .end_dim = 2); /* (B, 8 T) */
  return cn_err();
}

static void test_golden(void **state)
{
  (void)state;
  static const double sums[3] = {9.5651531219482422, 83.560546875, 134.98663330078125};
  char file[512];
  const char *write = getenv("CAIRN_WRITE_GOLDEN");
  bool writing = write && *write == '1';
  snprintf(file, sizeof file, "%s/tests/graph/golden/lifted_1.safetensors", CN_TEST_SOURCE_DIR);
  block m = {ramp(8, 4, 0.0625), ramp(1, 8, 0.125)};
  m.norm = cn_clone(cn_reshape(m.norm, CN_SHAPE(8)));
  if (writing) {
    cn_tensor *x = cn_ones(CN_SHAPE(3, 5, 4));
    const cn_free_dim dims[2] = {{0, 0, "B", 1, 0}, {0, 1, "T", 1, 0}};
    cn_graph *g = cn_trace_dynamic(block_fn, 1, &x, 1, dims, 2, &m);
    if (!g) fail_msg("%s", cn_err_message());
    assert_int_equal(cn_graph_save(g, file), 0);
    cn_graph_free(g);
  }
  cn_graph *g = cn_graph_load(file);
  if (!g) fail_msg("%s", cn_err_message());
  assert_true(holds(g, "layer_norm") && holds(g, "scaled_dot_product_attention") && holds(g, "dropout"));
  for (int i = 0; i < 3; i++) {
    cn_tensor *x = cn_reshape(ramp((1 + i) * (i ? 5 : 1), 4, 0.25), CN_SHAPE(1 + i, i ? 5 : 1, 4)), *y;
    same_at(g, block_fn, 1, &x, &m, "golden");
    cn_seed(9);
    assert_int_equal(cn_graph_run(&y, g, &x), 0);
    double sum = cn_item(cn_sum(cn_mul(y, cn_arange(0, (double)cn_size(y, 1), .dtype = CN_F32))));
    if (writing) print_message("%.17g\n", sum);
    else assert_float_equal(sum, sums[i], 1e-4); /* other instruction sets add in another order; bits: same_at */
  }
  cn_graph_free(g);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_gpt), TEST(test_cnn), TEST(test_parts_are_named), TEST(test_autocast), TEST(test_number_inputs),
    TEST(test_copy), TEST(test_golden),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
