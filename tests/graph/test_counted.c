/* test_counted.c: sizes that only nodes know: what nonzero, masks, unique and counts select is captured, and a graph
 * runs in parts between such nodes, each planned for the sizes that were found. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/io.h>
#include <string.h>

#include "tensors.h"

static void same_at(cn_graph *g, cn_graph_fn fn, size_t noutputs, cn_tensor *const *in, void *payload, const char *at)
{
  cn_tensor *have[4] = {NULL}, *want[4] = {NULL};
  cn_seed(4);
  if (fn(want, in, payload)) fail_msg("%s: %s", at, cn_err_message());
  double next = cn_item(cn_rand(CN_SCALAR_SHAPE));
  cn_seed(4);
  if (cn_graph_run(have, g, in)) fail_msg("%s: %s", at, cn_err_message());
  for (size_t i = 0; i < noutputs; i++)
    if (!same_tensors(have[i], want[i])) fail_msg("%s: output %d differs", at, (int)i);
  assert_true(next == cn_item(cn_rand(CN_SCALAR_SHAPE)));
}

static cn_graph *traced(cn_graph_fn fn, size_t noutputs, cn_tensor *const *in, size_t nin, void *payload)
{
  cn_graph *g = cn_trace(fn, noutputs, in, nin, payload);
  if (!g) fail_msg("%s", cn_err_message());
  return g;
}

static cn_tensor *numbers(int64_t n, int seed)
{
  cn_seed((uint64_t)seed);
  return cn_randn(CN_SHAPE(n));
}

/* ---- nonzero -> index_select -> sum ---- */

static int rows_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload; /* x: (12), table: (12, 3) */
  cn_tensor *at = cn_reshape(cn_nonzero(cn_gt(in[0], cn_num(0.5))), CN_SHAPE(-1));
  cn_tensor *rows = cn_index_select(in[1], 0, at);
  out[0] = cn_sum(rows);
  out[1] = cn_mul(rows, cn_num(1.0 / (double)(cn_size(rows, 0) + 1)));          /* a number of the size */
  out[2] = cn_cat(CN_TENSORS(rows, cn_ones(CN_SHAPE(2 * cn_size(at, 0), 3))));  /* sizes that follow from it */
  return cn_err();
}

static void test_rows(void **state)
{
  (void)state;
  cn_tensor *in[2] = {numbers(12, 0), cn_randn(CN_SHAPE(12, 3))};
  cn_graph *g = traced(rows_fn, 3, in, 2, NULL);
  for (int seed = 0; seed < 8; seed++) {
    in[0] = numbers(12, seed);
    same_at(g, rows_fn, 3, in, NULL, "rows");
  }
  in[0] = cn_zeros(CN_SHAPE(12)); /* none at all */
  same_at(g, rows_fn, 3, in, NULL, "no rows");
  in[0] = cn_ones(CN_SHAPE(12));
  same_at(g, rows_fn, 3, in, NULL, "all rows");
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "size u0 = "));
  assert_non_null(strstr(text, ": int64 [$u0, 1]"));
  cn_graph *back = cn_graph_parse(text);
  if (!back) fail_msg("%s", cn_err_message());
  char *again = cn_graph_to_string(back);
  assert_string_equal(text, again);
  same_at(back, rows_fn, 3, in, NULL, "parsed");
  assert_true(cn_graph_optimise(back) >= 0);
  same_at(back, rows_fn, 3, in, NULL, "optimised");
  cn_string_free(text);
  cn_string_free(again);
  cn_graph_free(back);
  cn_graph_free(g);
}

/* ---- masks ---- */

static int masks_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x = in[0], *mask = cn_gt(x, cn_num(0)); /* x: (3, 4) */
  (void)payload;
  out[0] = cn_add(cn_masked_select(x, mask), cn_masked_select(cn_exp(x), mask)); /* as many of both */
  out[1] = cn_index(x, &mask, 1);
  out[2] = cn_add(cn_masked_select(x, mask), cn_index(cn_tanh(x), &mask, 1)); /* said in two ways */
  cn_tensor *some = cn_any(mask, .dim = CN_INTS(1));
  out[3] = cn_matmul(cn_index(x, &some, 1), cn_ones(CN_SHAPE(4, 2))); /* rows */
  return cn_err();
}

static void test_masks(void **state)
{
  (void)state;
  cn_tensor *x = cn_reshape(numbers(12, 1), CN_SHAPE(3, 4));
  cn_graph *g = traced(masks_fn, 4, &x, 1, NULL);
  for (int seed = 0; seed < 6; seed++) {
    x = cn_reshape(numbers(12, seed), CN_SHAPE(3, 4));
    same_at(g, masks_fn, 4, &x, NULL, "masks");
  }
  x = cn_full(CN_SHAPE(3, 4), -1);
  same_at(g, masks_fn, 4, &x, NULL, "nothing selected");
  cn_graph_free(g);
}

static int gradient_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *w = payload, *y = cn_mul(in[0], w), *mask = cn_gt(in[0], cn_num(0)), *loss, *gw; /* (3, 4) */
  loss = cn_add(cn_sum(cn_square(cn_masked_select(y, mask))), cn_sum(cn_exp(cn_index(y, &mask, 1))));
  if (cn_grad(&gw, &loss, 1, &w, 1)) return cn_err();
  out[0] = loss;
  out[1] = gw;
  return cn_err();
}

static void test_gradients(void **state)
{
  (void)state;
  cn_tensor *w = cn_requires_grad(cn_reshape(numbers(12, 9), CN_SHAPE(3, 4)), true);
  cn_tensor *x = cn_reshape(numbers(12, 1), CN_SHAPE(3, 4));
  cn_graph *g = traced(gradient_fn, 2, &x, 1, w);
  for (int seed = 0; seed < 6; seed++) {
    x = cn_reshape(numbers(12, seed), CN_SHAPE(3, 4));
    same_at(g, gradient_fn, 2, &x, w, "gradients");
  }
  x = cn_full(CN_SHAPE(3, 4), -1);
  same_at(g, gradient_fn, 2, &x, w, "gradients of nothing");
  cn_graph_free(g);
}

/* ---- unique, counts ---- */

static int unique_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload; /* x: (12), int64 */
  cn_unique(&out[0], &out[1], &out[2], in[0], CN_NONE, .return_inverse = true, .return_counts = true);
  out[3] = cn_repeat_interleave_counts(out[0], cn_remainder(out[0], cn_int(3)), CN_NONE, CN_NONE);
  return cn_err();
}

static void test_unique(void **state)
{
  (void)state;
  cn_tensor *x = cn_zeros(CN_SHAPE(12), .dtype = CN_I64);
  cn_graph *g = traced(unique_fn, 4, &x, 1, NULL);
  for (int seed = 0; seed < 6; seed++) {
    cn_seed((uint64_t)seed);
    x = cn_randint(0, 2 + 3 * seed, CN_SHAPE(12));
    same_at(g, unique_fn, 4, &x, NULL, "unique");
  }
  cn_graph_free(g);
}

/* ---- with sizes of inputs, random numbers, states ---- */

typedef struct model {
  cn_tensor *steps, *seen; /* (), () */
} model;

static int step_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const model *m = payload; /* x: (B, 3) */
  cn_tensor *x = cn_dropout(in[0], .p = 0.5);
  cn_tensor *kept = cn_reshape(cn_nonzero(cn_gt(cn_sum(x, .dim = CN_INTS(1)), cn_num(0))), CN_SHAPE(-1));
  cn_tensor *rows = cn_dropout(cn_index_select(x, 0, kept), .p = 0.25); /* draws as many as there are */
  out[0] = cn_add(rows, cn_rand_like(rows));
  out[1] = cn_randn(CN_SHAPE(cn_size(in[0], 0)));
  cn_add_(m->steps, cn_num(1));
  cn_add_(m->seen, cn_num((double)cn_size(kept, 0)));
  return cn_err();
}

static void test_all_together(void **state)
{
  (void)state;
  model m = {cn_zeros(CN_SCALAR_SHAPE), cn_zeros(CN_SCALAR_SHAPE)};
  cn_tensor *x = cn_ones(CN_SHAPE(6, 3));
  const cn_free_dim dim = {0, 0, "B", 1, 0};
  cn_graph *g = cn_trace_dynamic(step_fn, 2, &x, 1, &dim, 1, &m);
  if (!g) fail_msg("%s", cn_err_message());
  const char *path = "test_graph_counted.safetensors";
  assert_int_equal(cn_graph_save(g, path), 0);
  cn_graph *back = cn_graph_load(path);
  if (!back) fail_msg("%s", cn_err_message());
  for (int64_t b = 1; b < 9; b++) {
    x = cn_reshape(numbers(3 * b, (int)b), CN_SHAPE(b, 3));
    same_at(back, step_fn, 2, &x, &m, "a loaded step");
    for (int i = 0; i < 2; i++) /* the file's states went the same way */
      assert_true(cn_item(cn_graph_state(back, (size_t)i)) == cn_item(i ? m.seen : m.steps));
  }
  cn_graph_free(back);
  cn_graph_free(g);
  cn_file_remove(path);
}

/* ---- what is refused ---- */

static int item_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *at = cn_nonzero(in[0]);
  (void)payload;
  out[0] = cn_item(cn_sum(at)) > 0 ? at : cn_neg(at);
  return cn_err();
}

static int branch_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *at = cn_nonzero(in[0]); /* x: (8) */
  const model *m = payload;
  out[0] = cn_size(at, 0) > 2 ? cn_sum(at) : cn_prod(at);
  cn_add_(m->steps, cn_num(1));
  return cn_err();
}

static void test_refusals(void **state)
{
  (void)state;
  model m = {cn_zeros(CN_SCALAR_SHAPE), NULL};
  cn_tensor *x = cn_ones(CN_SHAPE(8)), *out;
  assert_null(cn_trace(item_fn, 1, &x, 1, NULL));
  assert_fails(CN_ERR_CAPTURE, "item");
  cn_graph *g = traced(branch_fn, 1, &x, 1, &m); /* known to hold where there are more than two */
  assert_int_equal(cn_graph_run(&out, g, &x), 0);
  assert_float_equal(cn_item(out), 28, 0);
  x = cn_zeros(CN_SHAPE(8));
  assert_true(cn_graph_run(&out, g, &x) < 0);
  assert_fails(CN_ERR_SHAPE, "size u0 is 0");
  assert_float_equal(cn_item(m.steps), 1, 0); /* a run that fails has changed nothing */
  cn_graph_free(g);
  assert_null(cn_graph_parse("%0 = input float32 [4]\n%1 = nonzero(%0) : int64 [2, 1]\noutput %1\n"));
  assert_fails(CN_ERR_INTERNAL, "depends on data");
  assert_null(cn_graph_parse("size n = 2 in 0..9\n%0 = input float32 [4]\n%1 = exp(%0) : float32 [$n]\noutput %1\n"));
  cn_err_clear();
  assert_null(cn_graph_parse("size n = 2 in 0..9\n%0 = input float32 [4]\n%2 = slice(%0, 0, 0, $n, 1) : float32 [2]\n"
                             "%1 = nonzero(%0) : int64 [$n, 1]\noutput %1\noutput %2\n"));
  assert_fails(CN_ERR_INTERNAL, "not known yet");
}

/* ---- built by hand, and on a device ---- */

static void test_built(void **state)
{
  (void)state;
  const int64_t shape[1] = {6};
  cn_graph *g = cn_graph_new();
  int x = cn_graph_add_input(g, CN_CPU, CN_F32, 1, shape), at, flat, sum;
  const int64_t minus = -1;
  const cn_value to = cn_v_ints(&minus, 1);
  cn_value args[2] = {cn_v_none(), to};
  size_t one = 1;
  assert_true(cn_graph_add_node(&at, &one, g, cn_op_find("nonzero"), args, 1, &x, 1) >= 0);
  assert_true(cn_graph_add_node(&flat, &one, g, cn_op_find("reshape"), args, 2, &at, 1) >= 0);
  assert_true(cn_graph_add_node(&sum, &one, g, cn_op_find("sum"), args, 1, &flat, 1) >= 0);
  assert_int_equal(cn_graph_add_output(g, sum), 0);
  if (cn_graph_verify(g)) fail_msg("%s", cn_err_message());
  const float data[6] = {0, 1, 0, 2, 0, 3};
  cn_tensor *in = cn_floats(data, 6), *out;
  if (cn_graph_run(&out, g, &in)) fail_msg("%s", cn_err_message());
  assert_float_equal(cn_item(out), 9, 0);
  cn_graph_free(g);
}

static int device_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload; /* x: (12), table: (12, 3) */
  out[0] = cn_sum(cn_index_select(in[1], 0, cn_reshape(cn_nonzero(cn_gt(in[0], cn_num(0))), CN_SHAPE(-1))));
  return cn_err();
}

/* A device that takes graphs whole is not given these: their parts run node by node. */
static void test_device(void **state)
{
  (void)state;
  cn_scope *scope = cn_scope_begin();
  cn_device mirror = cn_device_find("mirror");
  cn_tensor *host[2] = {numbers(12, 0), cn_randn(CN_SHAPE(12, 3))}, *have, *want;
  cn_tensor *in[2] = {cn_to_device(host[0], mirror), cn_to_device(host[1], mirror)};
  cn_graph *g = traced(device_fn, 1, in, 2, NULL);
  if (cn_graph_run(&have, g, in)) fail_msg("%s", cn_err_message());
  assert_int_equal(device_fn(&want, host, NULL), 0);
  assert_true(cn_item(have) == cn_item(want));
  cn_graph_free(g);
  cn_scope_end(scope);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_rows), TEST(test_masks), TEST(test_gradients), TEST(test_unique), TEST(test_all_together),
    TEST(test_refusals), TEST(test_built), TEST(test_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
