/* test_cost.c: what calls and graphs cost: by hand, and the same from calls, from graphs, of composite ops. */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/kw.h>

static cn_cost cost_of(const char *op, const cn_value *args, size_t n)
{
  cn_cost c = {.size = sizeof c};
  assert_int_equal(cn_op_cost(&c, cn_op_find(op), args, n), 0);
  return c;
}

static void products(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *a = cn_ones(CN_SHAPE(3, 4)), *b = cn_ones(CN_SHAPE(4, 5)), *batch = cn_ones(CN_SHAPE(2, 6, 3, 4));
  const cn_value mm[] = {cn_v_tensor(a), cn_v_tensor(b)}, many[] = {cn_v_tensor(batch), cn_v_tensor(b)};
  cn_cost c = cost_of("mm", mm, 2);
  assert_true(c.products == 2 * 3 * 4 * 5 && c.flops == c.products);
  assert_true(c.read == 4 * (12 + 20) && c.written == 4 * 15);
  assert_true(cost_of("matmul", many, 2).products == 12.0 * 120); /* a composite op: that of its parts */
  assert_true(cost_of("matmul", mm, 2).products == 120);
  cn_tensor *x = cn_ones(CN_SHAPE(2, 6, 8, 8)), *w = cn_ones(CN_SHAPE(4, 3, 3, 3)), *line = cn_ones(CN_SHAPE(2, 6, 8));
  cn_tensor *w1 = cn_ones(CN_SHAPE(4, 3, 3));
  const int64_t one = 1;
  const cn_value conv[] = {cn_v_tensor(x), cn_v_tensor(w), cn_v_none(), cn_v_ints(&one, 1), cn_v_ints(&one, 1),
                           cn_v_ints(&one, 1), cn_v_int(2)};
  assert_true(cost_of("conv2d", conv, 7).products == 2.0 * 2 * 4 * 64 * 27);
  const cn_value conv1[] = {cn_v_tensor(line), cn_v_tensor(w1), cn_v_none(), cn_v_ints(&one, 1), cn_v_ints(&one, 1),
                            cn_v_ints(&one, 1), cn_v_int(2)};
  assert_true(cost_of("conv1d", conv1, 7).products == 2.0 * 2 * 4 * 8 * 9);
  cn_scope_end(s);
}

static void others(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(10, 20)), *row = cn_ones(CN_SHAPE(20)), *none = cn_ones(CN_SHAPE(0, 5));
  cn_tensor *index = cn_zeros(CN_SHAPE(3), .dtype = CN_I64), *wide = cn_expand(row, CN_SHAPE(10, 20));
  const cn_value add[] = {cn_v_tensor(x), cn_v_tensor(wide)}, two[] = {cn_v_tensor(x), cn_v_float(2)};
  cn_cost c = cost_of("add", add, 2);
  assert_true(c.flops == 200 && c.products == 0 && c.read == 4 * 220 && c.written == 800); /* row is read once */
  c = cost_of("mul", two, 2);
  assert_true(c.flops == 200 && c.read == 800);
  const cn_value view[] = {cn_v_tensor(x), cn_v_int(0), cn_v_int(1)}, sum[] = {cn_v_tensor(x)};
  c = cost_of("transpose", view, 3);
  assert_true(c.flops == 0 && c.read == 0 && c.written == 0);
  assert_true(cost_of("sum", sum, 1).flops == 200);
  const cn_value rows[] = {cn_v_tensor(index), cn_v_tensor(x)}, like[] = {cn_v_tensor(x)};
  const cn_value empty[] = {cn_v_tensor(none)};
  c = cost_of("embedding", rows, 2); /* three rows of the table */
  assert_true(c.read == 3 * 80 + 3 * 8 && c.written == 3 * 80);
  c = cost_of("zeros_like", like, 1);
  assert_true(c.read == 0 && c.written == 800);
  assert_true(cost_of("sum", empty, 1).flops == 0);
  c = cost_of("gelu", like, 1);
  assert_true(c.flops == 200 && c.read == 800); /* one step for each element */
  assert_int_not_equal(cn_op_cost(&c, cn_op_find("mm"), add, 2), 0); /* a call that would fail */
  cn_err_clear();
  assert_int_not_equal(cn_op_cost(&c, NULL, add, 2), 0);
  cn_err_clear();
  cn_scope_end(s);
}

static int twice(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  (void)payload;
  outputs[0] = cn_relu(cn_matmul(cn_matmul(inputs[0], inputs[0]), inputs[0]));
  return cn_err();
}

/* All nodes of a graph, those of calls that are whole again too. */
static void graphs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(8, 8));
  cn_graph *g = cn_trace(twice, 1, &x, 1, NULL);
  for (int whole = 0; whole < 2; whole++) {
    cn_cost costs[16];
    double products = 0, flops = 0;
    if (whole) assert_true(cn_graph_lift(g, NULL, NULL) > 0);
    assert_true(cn_graph_nodes(g) <= 16);
    assert_int_equal(cn_graph_costs(costs, g), 0);
    for (size_t i = 0; i < cn_graph_nodes(g); i++) products += costs[i].products, flops += costs[i].flops;
    assert_true(products == 2 * 2 * 512 && flops == products + 64);
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(others), cmocka_unit_test(graphs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
