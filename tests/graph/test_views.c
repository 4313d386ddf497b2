/* test_views.c: views are logical: one graph serves sizes at which a reshape is a view and sizes at which it is a copy,
 * and gives what the function gives, to the bit and in the same order of memory. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

#include "small_gpt.h"
#include "tensors.h"

/* Runs g and fn on the same inputs. */
static void same_at(cn_graph *g, cn_graph_fn fn, size_t noutputs, cn_tensor *const *in, void *payload, const char *at)
{
  cn_tensor *have[4] = {NULL}, *want[4] = {NULL};
  int saved = cn_no_grad_begin();
  if (fn(want, in, payload)) fail_msg("%s: %s", at, cn_err_message());
  cn_no_grad_end(saved);
  if (cn_graph_run(have, g, in)) fail_msg("%s: %s", at, cn_err_message());
  for (size_t i = 0; i < noutputs; i++)
    if (!same_tensors(have[i], want[i])) fail_msg("%s: output %d differs", at, (int)i);
}

static const int64_t pairs[][2] = {{1, 1}, {1, 7}, {3, 1}, {5, 8}, {2, 3}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* ---- a small GPT ---- */

static void test_gpt(void **state)
{
  (void)state;
  gpt m = gpt_make();
  cn_tensor *tokens = cn_randint(0, GPT_WORDS, CN_SHAPE(4, 6));
  const cn_free_dim dims[2] = {{0, 0, "B", 1, 0}, {0, 1, "T", 1, GPT_MOST}};
  cn_graph *g = cn_trace_dynamic(gpt_fn, GPT_OUTPUTS, &tokens, 1, dims, 2, &m);
  if (!g) fail_msg("%s", cn_err_message());
  for (int round = 0; round < 2; round++) { /* as traced, then optimised */
    for (int i = 0; i < PAIRS; i++) {
      char at[64];
      snprintf(at, sizeof at, "round %d, B = %d, T = %d", round, (int)pairs[i][0], (int)pairs[i][1]);
      tokens = cn_randint(0, GPT_WORDS, pairs[i], 2);
      same_at(g, gpt_fn, GPT_OUTPUTS, &tokens, &m, at);
    }
    assert_true(cn_graph_optimise(g) >= 0);
  }
  cn_graph_free(g);
}

/* ---- modules: a CNN and an LSTM ---- */

static int module_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_forward(payload, in[0]);
  return cn_err();
}

static void test_cnn(void **state)
{
  (void)state;
  cn_module *net = cn_nn_sequential(cn_nn_conv2d(1, 4, 3, .padding = CN_INTS(1)), cn_nn_relu(), cn_nn_max_pool2d(2),
                                    cn_nn_flatten(), cn_nn_linear(4 * 4 * 4, 10));
  cn_tensor *x = cn_randn(CN_SHAPE(6, 1, 8, 8));
  const cn_free_dim dim = {0, 0, "B", 1, 0};
  cn_graph *g = cn_trace_dynamic(module_fn, 1, &x, 1, &dim, 1, net);
  if (!g) fail_msg("%s", cn_err_message());
  for (int64_t b = 1; b < 6; b++) {
    x = cn_randn(CN_SHAPE(b, 1, 8, 8));
    same_at(g, module_fn, 1, &x, net, "cnn");
    x = cn_channels_last(cn_randn(CN_SHAPE(b, 1, 8, 8)));
    same_at(g, module_fn, 1, &x, net, "cnn, channels last");
  }
  cn_graph_free(g);
  cn_module_release(net);
}

static int lstm_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *y = cn_forward(payload, in[0]); /* x: (B, T, 3) */
  out[0] = y;
  out[1] = cn_flatten(cn_transpose(y, 0, 1), .start_dim = 1, .end_dim = -1);
  return cn_err();
}

/* A single step is a cell where the function runs, and a sequence of one in a graph for all lengths. */
static void close_at(cn_graph *g, cn_module *net, cn_tensor *x)
{
  cn_tensor *have[2], *want[2];
  assert_int_equal(lstm_fn(want, &x, net), 0);
  if (cn_graph_run(have, g, &x)) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 2; i++) assert_true(cn_item(cn_allclose(have[i], want[i], .rtol = 1e-6, .atol = 1e-7)) > 0);
}

static void test_lstm(void **state)
{
  (void)state;
  cn_module *net = cn_nn_lstm(3, 4, .num_layers = 2, .batch_first = true, .bidirectional = true);
  cn_tensor *x = cn_randn(CN_SHAPE(4, 6, 3));
  const cn_free_dim dims[2] = {{0, 0, "B", 1, 0}, {0, 1, "T", 1, 0}};
  cn_graph *g = cn_trace_dynamic(lstm_fn, 2, &x, 1, dims, 2, net);
  if (!g) fail_msg("%s", cn_err_message());
  for (int i = 0; i < PAIRS; i++) {
    x = cn_randn(CN_SHAPE(pairs[i][0], pairs[i][1], 3));
    if (pairs[i][1] > 1) same_at(g, lstm_fn, 2, &x, net, "lstm");
    else close_at(g, net, x);
  }
  cn_graph_free(g);
  x = cn_randn(CN_SHAPE(3, 1, 3)); /* traced for this size alone it is a cell here, too */
  g = cn_trace(lstm_fn, 2, &x, 1, net);
  same_at(g, lstm_fn, 2, &x, net, "lstm of one step");
  cn_graph_free(g);
  cn_module_release(net);
}

/* ---- writes through what may be a view ---- */

static int written_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x = cn_mul(in[0], cn_num(2)); /* (3, 4) */
  (void)payload;
  cn_add_(cn_contiguous(x), cn_num(1));                            /* x itself */
  cn_mul_(cn_reshape(x, CN_SHAPE(2, 6)), cn_num(3));               /* a view of it */
  cn_add_(cn_contiguous(cn_transpose(x, 0, 1)), cn_num(100));      /* a copy: x stays */
  cn_tensor *before = cn_reshape(x, CN_SHAPE(12)), *copy = cn_reshape(cn_transpose(x, 0, 1), CN_SHAPE(12));
  cn_sub_(x, cn_num(5));
  out[0] = x;
  out[1] = before; /* sees the write */
  out[2] = copy;   /* does not */
  out[3] = cn_contiguous(x);
  return cn_err();
}

static void test_writes(void **state)
{
  (void)state;
  cn_tensor *x = cn_reshape(cn_arange(0, 12, .dtype = CN_F32), CN_SHAPE(3, 4));
  cn_graph *g = cn_trace(written_fn, 4, &x, 1, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  same_at(g, written_fn, 4, &x, NULL, "writes");
  assert_true(cn_graph_optimise(g) >= 0);
  same_at(g, written_fn, 4, &x, NULL, "writes, optimised");
  cn_graph_free(g);
}

/* What is written depends on whether a size is 1: that is another function, and no range holds both. */
static int other_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x = cn_mul(in[0], cn_num(2)); /* (T, 4) */
  (void)payload;
  cn_add_(cn_contiguous(cn_transpose(x, 0, 1)), cn_num(1));
  out[0] = x;
  return cn_err();
}

static void test_writes_that_differ(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(6, 4)), *out;
  cn_free_dim dim = {0, 0, "T", 1, 0};
  assert_null(cn_trace_dynamic(other_fn, 1, &x, 1, &dim, 1, NULL));
  assert_int_equal(cn_err(), CN_ERR_CAPTURE);
  cn_err_clear();
  dim.min = 0; /* whatever is found */
  cn_graph *g = cn_trace_dynamic(other_fn, 1, &x, 1, &dim, 1, NULL);
  assert_non_null(g);
  x = cn_ones(CN_SHAPE(1, 4));
  assert_true(cn_graph_run(&out, g, &x) < 0);
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  cn_err_clear();
  x = cn_ones(CN_SHAPE(2, 4));
  same_at(g, other_fn, 1, &x, NULL, "two rows");
  cn_graph_free(g);
}

/* ---- gradients ---- */

static int gradient_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *w = payload, *gw; /* x: (B, T, 3), w: (3, 4) */
  int64_t b = cn_size(in[0], 0), t = cn_size(in[0], 1);
  cn_tensor *y = cn_reshape(cn_transpose(cn_matmul(in[0], w), 1, 2), CN_SHAPE(b, 4 * t));
  y = cn_contiguous(cn_transpose(cn_reshape(y, CN_SHAPE(b * 4, t)), 0, 1));
  cn_tensor *loss = cn_sum(cn_mul(cn_tanh(y), y));
  if (cn_grad(&gw, &loss, 1, &w, 1)) return cn_err();
  out[0] = loss;
  out[1] = gw;
  return cn_err();
}

static void test_gradients(void **state)
{
  (void)state;
  cn_seed(3);
  cn_tensor *w = cn_requires_grad(cn_randn(CN_SHAPE(3, 4)), true), *x = cn_randn(CN_SHAPE(4, 6, 3));
  const cn_free_dim dims[2] = {{0, 0, "B", 1, 0}, {0, 1, "T", 1, 0}};
  cn_graph *g = cn_trace_dynamic(gradient_fn, 2, &x, 1, dims, 2, w);
  if (!g) fail_msg("%s", cn_err_message());
  for (int i = 0; i < PAIRS; i++) {
    cn_tensor *have[2], *want[2];
    x = cn_randn(CN_SHAPE(pairs[i][0], pairs[i][1], 3));
    assert_int_equal(gradient_fn(want, &x, w), 0);
    if (cn_graph_run(have, g, &x)) fail_msg("%s", cn_err_message());
    if (!same_tensors(have[0], want[0]) || !same_tensors(have[1], want[1])) fail_msg("differs at pair %d", i);
  }
  cn_graph_free(g);
}

/* ---- copies that the plan drops ---- */

static int copies_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x = cn_exp(in[0]), *copy = cn_clone(x); /* (256, 256) */
  (void)payload;
  out[0] = cn_add(cn_clone(copy), x);
  out[1] = cn_clone(in[0]); /* is handed out: has to be apart */
  return cn_err();
}

static void test_copies_are_aliased(void **state)
{
  (void)state;
  cn_tensor *x = cn_randn(CN_SHAPE(256, 256)), *out[2];
  size_t planned, unplanned;
  cn_graph *g = cn_trace(copies_fn, 2, &x, 1, NULL);
  assert_non_null(g);
  same_at(g, copies_fn, 2, &x, NULL, "copies");
  cn_graph_memory(g, &planned, &unplanned);
  assert_int_equal(planned, 256 * 256 * 4); /* exp's result alone */
  assert_int_equal(cn_graph_run(out, g, &x), 0);
  assert_true(cn_data(out[1]) != cn_data(x));
  cn_graph_free(g);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_gpt), TEST(test_cnn), TEST(test_lstm), TEST(test_writes), TEST(test_writes_that_differ),
    TEST(test_gradients), TEST(test_copies_are_aliased),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
