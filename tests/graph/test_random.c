/* test_random.c: random numbers in graphs are eager's: a checkpoint that computes dropout again gets the mask of its
 * forward, a run moves the thread on by what it drew, and a trace by nothing. */
#include <cairn/cairn.h>
#include <string.h>

#include "tensors.h"

static int block(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_dropout(cn_mul(in[0], in[0]), .p = 0.5);
  return cn_err();
}

/* The gradient of sum(dropout(x * x)) is 2 x mask / (1 - p): with another mask in backward it is another. */
static int checkpointed(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x = cn_requires_grad(cn_detach(in[0]), true), *y;
  (void)payload;
  cn_dropout(x, .p = 0.1); /* moves the numbers on, and nobody reads it */
  if (cn_checkpoint(&y, 1, block, &x, 1, NULL)) return cn_err();
  cn_tensor *z = cn_add(y, cn_rand(CN_SHAPE(64)));
  out[0] = z;
  cn_backward(cn_sum(z));
  out[1] = cn_grad_of(x);
  return cn_err();
}

static void test_a_checkpoint_draws_the_same_mask(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_full(CN_SHAPE(64), 3), *want[2], *have[2];
  cn_seed(11);
  cn_graph *g = cn_trace(checkpointed, 2, &x, 1, NULL);
  assert_non_null(g);
  for (int round = 0; round < 3; round++) {
    uint64_t before, after_eager, after_graph;
    cn_seed(100 + (uint64_t)round);
    cn_random_state(NULL, &before);
    assert_int_equal(checkpointed(want, &x, NULL), 0);
    cn_random_state(NULL, &after_eager);
    cn_seed(100 + (uint64_t)round);
    assert_int_equal(cn_graph_run(have, g, &x), 0);
    cn_random_state(NULL, &after_graph);
    assert_same(want[0], have[0]);
    assert_same(want[1], have[1]);
    assert_true(after_eager > before && after_eager == after_graph);
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_a_trace_draws_nothing(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_full(CN_SHAPE(64), 3);
  uint64_t seed, offset, seed_after, offset_after;
  cn_seed(5);
  cn_random_state(&seed, &offset);
  cn_graph *g = cn_trace(checkpointed, 2, &x, 1, NULL);
  cn_random_state(&seed_after, &offset_after);
  assert_true(seed == seed_after && offset == offset_after);
  cn_graph_free(g);
  cn_scope_end(s);
}

static int seeds(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_seed(3);
  out[0] = cn_dropout(in[0], .p = 0.5);
  return cn_err();
}

static void test_a_seed_inside_is_refused(void **state)
{
  (void)state;
  cn_tensor *x = cn_full(CN_SHAPE(4), 3);
  cn_seed(5);
  assert_null(cn_trace(seeds, 1, &x, 1, NULL));
  assert_int_equal(cn_err(), CN_ERR_CAPTURE);
  assert_non_null(strstr(cn_err_message(), "seed"));
  cn_err_clear();
}

/* Two draws of the same kind are two draws; their text says so. */
static int twice(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_rand_like(in[0]);
  out[1] = cn_rand_like(in[0]);
  return cn_err();
}

static void test_draws_in_text(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_full(CN_SHAPE(4), 3), *a[2], *b[2];
  cn_graph *g = cn_trace(twice, 2, &x, 1, NULL);
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "draw 4\n"));
  assert_non_null(strstr(text, " draw 1\n"));
  cn_graph *again = cn_graph_parse(text);
  assert_non_null(again);
  cn_seed(1);
  assert_int_equal(cn_graph_run(a, g, &x), 0);
  cn_seed(1);
  assert_int_equal(cn_graph_run(b, again, &x), 0);
  assert_same(a[0], b[0]);
  assert_same(a[1], b[1]);
  assert_true(cn_item(cn_all(cn_eq(a[0], a[1]))) == 0);
  assert_null(cn_graph_parse("%0 = input float32 [2]\n%1 = rand_like(%0, none, none) : float32 [2]\noutput %1\n"));
  cn_err_clear();
  cn_string_free(text);
  cn_graph_free(g);
  cn_graph_free(again);
  cn_scope_end(s);
}

static int draw_normal(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_normal(in[0], cn_num(2.0));
  out[1] = cn_randn(CN_SHAPE(3));
  return cn_err();
}

/* An op without a kernel draws, by its decomposition, the numbers that are the node's. */
static void test_draws_of_a_decomposition(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(4)), *a[2], *b[2];
  cn_graph *g = cn_trace(draw_normal, 2, &x, 1, NULL);
  assert_non_null(g);
  cn_seed(5);
  assert_int_equal(draw_normal(a, &x, NULL), 0);
  cn_seed(5);
  assert_int_equal(cn_graph_run(b, g, &x), 0);
  for (int i = 0; i < 2; i++) assert_true(cn_item(cn_all(cn_eq(a[i], b[i]))) > 0);
  assert_int_equal(draw_normal(a, &x, NULL), 0); /* the run moved on as far as the calls do */
  cn_seed(5);
  assert_int_equal(cn_graph_run(b, g, &x), 0);
  assert_int_equal(cn_graph_run(b, g, &x), 0);
  for (int i = 0; i < 2; i++) assert_true(cn_item(cn_all(cn_eq(a[i], b[i]))) > 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_checkpoint_draws_the_same_mask), cmocka_unit_test(test_a_trace_draws_nothing),
    cmocka_unit_test(test_a_seed_inside_is_refused), cmocka_unit_test(test_draws_in_text),
    cmocka_unit_test(test_draws_of_a_decomposition),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
