/* test_sums.c: small products join the sums behind them (src/graph/passes/sums.c): the text shows addmm, results are
 * eager's to the bit, and weights are updated where they are, unless somebody reads the old ones. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <string.h>

#include "tensors.h"

typedef int (*body_fn)(cn_tensor **out, cn_tensor *const *in, void *payload);

static cn_tensor *weight; /* what bodies update */

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  cn_seed(5);
  return 0;
}

/* The body as a graph with `sums` nodes addmm among `nodes`. Owned. */
static cn_graph *fused(body_fn fn, size_t nout, cn_tensor *const *in, size_t nin, int sums, size_t nodes)
{
  cn_graph *g = cn_trace(fn, nout, in, nin, NULL);
  assert_non_null(g);
  assert_true(cn_graph_optimise(g) >= 0);
  assert_true(cn_graph_fuse(g, true) >= 0);
  assert_int_equal(cn_graph_verify(g), 0);
  char *text = cn_graph_to_string(g);
  int found = 0;
  for (const char *at = text; (at = strstr(at, "addmm(")) != NULL; at++) found++;
  if (found != sums || cn_graph_nodes(g) != nodes) print_error("%s\n", text);
  assert_int_equal(found, sums);
  assert_int_equal(cn_graph_nodes(g), nodes);
  cn_string_free(text);
  return g;
}

static void check(body_fn fn, cn_tensor *const *in, size_t nin, int sums, size_t nodes)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *want = NULL, *have = NULL;
  assert_int_equal(fn(&want, in, NULL), 0);
  cn_graph *g = fused(fn, 1, in, nin, sums, nodes);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(cn_graph_run(&have, g, in), 0);
    assert_same(have, want);
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

static int minus(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_sub(in[0], cn_mm(cn_transpose(in[1], 0, 1), in[2]), .alpha = 0.01);
  return cn_err();
}

static int plus(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_add(cn_mm(cn_transpose(in[1], 0, 1), in[2]), in[0]);
  return cn_err();
}

/* The product has a second reader. */
static int shared(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *product = cn_mm(cn_transpose(in[1], 0, 1), in[2]);
  out[0] = cn_matmul(cn_add(in[0], product, .alpha = 3), cn_transpose(product, 0, 1));
  return cn_err();
}

static cn_tensor *of(int64_t rows, int64_t cols, cn_dtype dtype)
{
  return cn_cast(cn_randn(CN_SHAPE(rows, cols)), dtype);
}

static void test_joined(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {{2, 1, 2}, {10, 32, 32}, {32, 32, 64}, {33, 200, 17}, {5, 256, 7}, {14, 128, 70}};
  static const cn_dtype types[] = {CN_F32, CN_F64};
  for (int i = 0; i < 12; i++) {
    cn_scope *s = cn_scope_begin();
    const int64_t m = sizes[i / 2][0], k = sizes[i / 2][1], n = sizes[i / 2][2];
    cn_tensor *in[] = {of(m, n, types[i % 2]), of(k, m, types[i % 2]), of(k, n, types[i % 2])};
    check(minus, in, 3, 1, 2); /* the view of in[1], and the sum */
    check(plus, in, 3, 1, 2);
    cn_scope_end(s);
  }
}

/* Broadcast sums, vectors, long chains, large products, other types, products with other readers. */
static void test_left(void **state)
{
  (void)state;
  cn_tensor *row[] = {of(1, 6, CN_F32), of(4, 5, CN_F32), of(4, 6, CN_F32)};
  cn_tensor *vector[] = {of(1, 6, CN_F32), of(4, 1, CN_F32), of(4, 6, CN_F32)};
  cn_tensor *deep[] = {of(5, 6, CN_F32), of(257, 5, CN_F32), of(257, 6, CN_F32)};
  cn_tensor *large[] = {of(80, 80, CN_F32), of(50, 80, CN_F32), of(50, 80, CN_F32)};
  cn_tensor *half[] = {of(5, 6, CN_BF16), of(4, 5, CN_BF16), of(4, 6, CN_BF16)};
  cn_tensor *turned[] = {cn_transpose(of(6, 5, CN_F32), 0, 1), of(4, 5, CN_F32), of(4, 6, CN_F32)};
  cn_tensor *small[] = {of(5, 6, CN_F32), of(4, 5, CN_F32), of(4, 6, CN_F32)};
  check(minus, row, 3, 0, 3);
  check(minus, vector, 3, 0, 3);
  check(minus, deep, 3, 0, 3);
  check(minus, large, 3, 0, 3);
  check(minus, half, 3, 0, 3);
  check(minus, turned, 3, 0, 3);
  check(shared, small, 3, 0, 5);
}

/* ---- states ---- */

static int update(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_sum(cn_mm(in[1], cn_transpose(weight, 0, 1))); /* of the old ones, before they are written over */
  cn_sub_(weight, cn_mm(cn_transpose(in[0], 0, 1), in[1]), .alpha = 0.5);
  return cn_err();
}

/* The product reads what is updated. */
static int update_by_itself(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_sum(in[0]);
  cn_sub_(weight, cn_mm(weight, in[1]), .alpha = 0.5);
  return cn_err();
}

/* The old weights are handed out. */
static int update_later(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_clone(weight);
  cn_sub_(weight, cn_mm(cn_transpose(in[0], 0, 1), in[1]), .alpha = 0.5);
  return cn_err();
}

/* Three runs against three calls of the body; memory the plan has between nodes, in bytes. */
static size_t run_updates(body_fn fn, cn_tensor *const *in, size_t nodes)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *start = cn_clone(weight), *want = NULL, *have = NULL;
  cn_graph *g = fused(fn, 1, in, 2, 1, nodes);
  cn_copy_(weight, start);
  for (int i = 0; i < 3; i++) assert_int_equal(cn_graph_run(&have, g, in), 0);
  cn_tensor *after = cn_clone(weight);
  size_t planned;
  cn_graph_memory(g, &planned, NULL);
  cn_copy_(weight, start);
  for (int i = 0; i < 3; i++) assert_int_equal(fn(&want, in, NULL), 0);
  assert_same(after, weight);
  assert_same(have, want);
  cn_graph_free(g);
  cn_scope_end(s);
  return planned;
}

static void test_states(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {of(12, 32, CN_F32), of(12, 32, CN_F32)}, *square[] = {of(4, 4, CN_F32), of(32, 32, CN_F32)};
  weight = of(32, 32, CN_F32);
  const size_t matrix = 32 * 32 * sizeof(float);
  assert_true(run_updates(update, in, 5) < matrix); /* it is written where it is: the other product is 12 x 32 */
  assert_true(run_updates(update_by_itself, square, 2) >= matrix);
  assert_true(run_updates(update_later, in, 2) >= matrix);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_joined, setup),
    cmocka_unit_test_setup(test_left, setup),
    cmocka_unit_test_setup(test_states, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
