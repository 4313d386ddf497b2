/* test_whole_graphs.c: a device that takes graphs whole (the mirror): a launch computes what nodes one by one compute,
 * states and gradients of leaves included; failures come late; an executable outlives its graph until its runs are
 * over; a graph with tensors elsewhere runs node by node. */
#include <cairn/cairn.h>
#include <string.h>

#include "backends/mirror/mirror.h"
#include "tensors.h"

static cn_device mirror;

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  mirror = cn_device_find("mirror");
  return 0;
}

typedef struct net {
  cn_tensor *w1, *w2, *m1, *m2; /* (32, 16), (4, 32), and momenta */
} net;

static net make_net(cn_device device)
{
  cn_seed(3);
  net n = {cn_mul(cn_randn(CN_SHAPE(32, 16)), cn_num(0.2)), cn_mul(cn_randn(CN_SHAPE(4, 32)), cn_num(0.2)),
           cn_zeros(CN_SHAPE(32, 16)), cn_zeros(CN_SHAPE(4, 32))};
  cn_tensor **all[] = {&n.w1, &n.w2, &n.m1, &n.m2};
  for (int i = 0; i < 4; i++) {
    *all[i] = cn_detach(cn_to_device(*all[i], device));
    if (i < 2) cn_requires_grad(*all[i], true);
  }
  return n;
}

static void update(cn_tensor *w, cn_tensor *m)
{
  cn_mul_(m, cn_num(0.9));
  cn_add_(m, cn_grad_of(w));
  cn_sub_(w, cn_mul(m, cn_num(0.1)));
}

/* Dropout, a view that is written through, a loss, a step; the second weight keeps its gradient. */
static int step(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  net *n = payload;
  cn_zero_grad(n->w2);
  cn_tensor *h = cn_dropout(cn_relu(cn_linear(in[0], n->w1, NULL)), .p = 0.25);
  cn_tensor *y = cn_linear(h, n->w2, NULL), *t = cn_transpose(y, 0, 1);
  out[0] = cn_cross_entropy(y, in[1]);
  cn_backward(out[0]);
  int saved = cn_no_grad_begin();
  update(n->w1, n->m1);
  update(n->w2, n->m2);
  cn_mul_(cn_select(n->m1, 0, 1), cn_num(0.5));
  cn_no_grad_end(saved);
  cn_zero_grad(n->w1);
  out[1] = cn_detach(t);
  return cn_err();
}

static void test_a_step_as_one_launch(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  net eager = make_net(CN_CPU), traced = make_net(mirror);
  cn_tensor *x[2] = {cn_randn(CN_SHAPE(8, 16)), cn_randint(0, 4, CN_SHAPE(8))};
  cn_tensor *there[2] = {cn_to_device(x[0], mirror), cn_to_device(x[1], mirror)}, *want[2], *have[2];
  cn_graph *g = cn_trace(step, 2, there, 2, &traced);
  assert_non_null(g);
  size_t before = cni_mirror_graph_runs();
  for (int i = 0; i < 5; i++) {
    cn_seed(10 + (uint64_t)i);
    assert_int_equal(step(want, x, &eager), 0);
    cn_seed(10 + (uint64_t)i);
    assert_int_equal(cn_graph_run(have, g, there), 0);
    for (int k = 0; k < 2; k++) assert_same(want[k], have[k]);
    assert_same(eager.w1, traced.w1);
    assert_same(eager.m1, traced.m1);
    assert_same(cn_grad_of(eager.w2), cn_grad_of(traced.w2));
    assert_null(cn_grad_of(traced.w1));
  }
  assert_int_equal(cni_mirror_graph_runs() - before, 5);
  cn_graph_free(g);
  cn_scope_end(s);
  assert_int_equal(cn_device_sync(mirror), 0);
}

static int look_up(cn_tensor **out, cn_tensor *const *in, void *table)
{
  out[0] = cn_mul(cn_embedding(in[0], table, -1), cn_num(2));
  return cn_err();
}

static void test_failures_come_late(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *table = cn_to_device(cn_ones(CN_SHAPE(4, 2)), mirror), *out;
  cn_tensor *good = cn_to_device(cn_full(CN_SHAPE(3), 3, .dtype = CN_I64), mirror);
  cn_tensor *bad = cn_to_device(cn_full(CN_SHAPE(3), 7, .dtype = CN_I64), mirror);
  cn_graph *g = cn_trace(look_up, 1, &good, 1, table);
  assert_int_equal(cn_graph_run(&out, g, &bad), 0);
  assert_true(cn_device_sync(mirror) < 0);
  assert_non_null(strstr(cn_err_message(), "while a graph ran"));
  cn_err_clear();
  assert_int_equal(cn_graph_run(&out, g, &good), 0);
  cn_graph_free(g); /* before its run is over */
  assert_float_equal(cn_item(cn_sum(cn_to_device(out, CN_CPU))), 12, 0);
  cn_scope_end(s);
}

static int mixes(cn_tensor **out, cn_tensor *const *in, void *rate)
{
  out[0] = cn_mul(in[0], rate);
  return cn_err();
}

static void test_tensors_elsewhere_run_node_by_node(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *rate = cn_full(CN_SCALAR_SHAPE, 3), *x = cn_to_device(cn_ones(CN_SHAPE(4)), mirror), *out;
  cn_graph *g = cn_trace(mixes, 1, &x, 1, rate);
  size_t before = cni_mirror_graph_runs();
  assert_int_equal(cn_graph_run(&out, g, &x), 0);
  assert_float_equal(cn_item(cn_sum(cn_to_device(out, CN_CPU))), 12, 0);
  assert_int_equal(cni_mirror_graph_runs(), before);
  cn_graph_free(g);
  cn_scope_end(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_a_step_as_one_launch), TEST(test_failures_come_late), TEST(test_tensors_elsewhere_run_node_by_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
