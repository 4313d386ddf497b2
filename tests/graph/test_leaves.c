/* test_leaves.c: gradients that traced code leaves in tensors from outside are there after a run, as after eager; what
 * a leaf had before is part of the graph; a trace itself changes no gradient. */
#include <cairn/cairn.h>
#include <string.h>

#include "tensors.h"

typedef struct net {
  cn_tensor *w, *b; /* (3, 4), (3) */
  bool clears_first, clears_last;
} net;

static net net_new(void)
{
  cn_seed(1);
  net n = {.w = cn_randn(CN_SHAPE(3, 4)), .b = cn_randn(CN_SHAPE(3))};
  cn_requires_grad(n.w, true);
  cn_requires_grad(n.b, true);
  return n;
}

static int step(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const net *n = payload;
  if (n->clears_first) cn_zero_grad(n->w), cn_zero_grad(n->b);
  out[0] = cn_sum(cn_tanh(cn_linear(in[0], n->w, n->b)));
  cn_backward(out[0]);
  if (n->clears_last) cn_zero_grad(n->w), cn_zero_grad(n->b);
  return cn_err();
}

static void assert_grads_equal(const net *a, const net *b)
{
  assert_same(cn_grad_of(a->w), cn_grad_of(b->w));
  assert_same(cn_grad_of(a->b), cn_grad_of(b->b));
}

static void test_gradients_are_left(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  net eager = net_new(), traced = net_new();
  cn_tensor *x = cn_randn(CN_SHAPE(5, 4)), *want, *have;
  cn_graph *g = cn_trace(step, 1, &x, 1, &traced);
  assert_non_null(g);
  assert_null(cn_grad_of(traced.w)); /* a trace leaves nothing */
  assert_int_equal(step(&want, &x, &eager), 0);
  assert_int_equal(cn_graph_run(&have, g, &x), 0);
  assert_same(want, have);
  assert_grads_equal(&eager, &traced);
  /* the second run would have to add: it was traced without a gradient to add to */
  assert_true(cn_graph_run(&have, g, &x) < 0);
  assert_non_null(strstr(cn_err_message(), "had none"));
  cn_err_clear();
  cn_zero_grad(traced.w);
  cn_zero_grad(traced.b);
  assert_int_equal(cn_graph_run(&have, g, &x), 0);
  assert_grads_equal(&eager, &traced);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_gradients_add_up(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  net eager = net_new(), traced = net_new();
  cn_tensor *x = cn_randn(CN_SHAPE(5, 4)), *want, *have;
  assert_int_equal(step(&want, &x, &eager), 0);
  assert_int_equal(step(&want, &x, &traced), 0);
  cn_tensor *before = cn_grad_of(traced.w), *copy = cn_clone(before);
  cn_graph *g = cn_trace(step, 1, &x, 1, &traced);
  assert_non_null(g);
  assert_ptr_equal(cn_grad_of(traced.w), before);
  assert_same(before, copy);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(step(&want, &x, &eager), 0);
    assert_int_equal(cn_graph_run(&have, g, &x), 0);
    assert_grads_equal(&eager, &traced);
    assert_ptr_equal(cn_grad_of(traced.w), before); /* in place, as eager adds */
  }
  cn_zero_grad(traced.w);
  assert_true(cn_graph_run(&have, g, &x) < 0);
  assert_non_null(strstr(cn_err_message(), "another gradient"));
  cn_err_clear();
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_cleared_first_or_last(void **state)
{
  (void)state;
  for (int last = 0; last < 2; last++) {
    cn_scope *s = cn_scope_begin();
    net eager = net_new(), traced = net_new();
    cn_tensor *x = cn_randn(CN_SHAPE(5, 4)), *want, *have;
    eager.clears_first = traced.clears_first = !last;
    eager.clears_last = traced.clears_last = last;
    cn_graph *g = cn_trace(step, 1, &x, 1, &traced);
    assert_non_null(g);
    for (int i = 0; i < 3; i++) {
      assert_int_equal(step(&want, &x, &eager), 0);
      assert_int_equal(cn_graph_run(&have, g, &x), 0);
      assert_same(want, have);
      if (last) assert_null(cn_grad_of(traced.w));
      else assert_grads_equal(&eager, &traced);
    }
    cn_graph_free(g);
    cn_scope_end(s);
  }
}

/* A leaf that is a view of something (detached), and a text that is read back. */
static void test_text_and_detached_leaves(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  net eager = net_new(), traced = net_new();
  cn_tensor *x = cn_randn(CN_SHAPE(5, 4)), *want, *have;
  traced.w = cn_requires_grad(cn_detach(traced.w), true);
  cn_graph *g = cn_trace(step, 1, &x, 1, &traced);
  assert_int_equal(step(&want, &x, &eager), 0);
  assert_int_equal(cn_graph_run(&have, g, &x), 0);
  assert_grads_equal(&eager, &traced);
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "gradient 0 from absent to %"));
  cn_graph *parsed = cn_graph_parse(text);
  assert_non_null(parsed);
  char *again = cn_graph_to_string(parsed);
  assert_string_equal(text, again);
  net other = net_new();
  cn_graph_bind(parsed, 0, other.w);
  cn_graph_bind(parsed, 1, other.b);
  assert_int_equal(cn_graph_run(&have, parsed, &x), 0);
  assert_grads_equal(&eager, &other);
  cn_string_free(text);
  cn_string_free(again);
  cn_graph_free(g);
  cn_graph_free(parsed);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_gradients_are_left), cmocka_unit_test(test_gradients_add_up),
    cmocka_unit_test(test_cleared_first_or_last), cmocka_unit_test(test_text_and_detached_leaves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
