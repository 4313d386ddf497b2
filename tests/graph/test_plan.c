/* test_plan.c: graph, plan and context are three things: several threads run one graph at once and get what one gets;
 * runs that write states follow one another; updates are computed where the state is; a run that fails changes
 * nothing; formulas, and the gradient of cross entropy, lie where an operand was that nobody reads any more. */
#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <pthread.h>
#include <string.h>

#include "tensors.h"

enum { THREADS = 4, RUNS = 200 };

/* ---- threads ---- */

typedef struct worker {
  cn_graph *g;
  cn_tensor *x, *want;
  int wrong;
} worker;

static int forward(cn_tensor **out, cn_tensor *const *in, void *net)
{
  out[0] = cn_softmax(cn_forward(net, in[0]), 1);
  return cn_err();
}

static void *run_many(void *payload)
{
  worker *w = payload;
  for (int i = 0; i < RUNS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *have = NULL;
    if (cn_graph_run(&have, w->g, &w->x) || !(cn_item(cn_all(cn_eq(have, w->want))) > 0)) w->wrong++;
    cn_scope_end(s);
  }
  return NULL;
}

static void test_threads_share_a_graph(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_nn_sequential(cn_nn_linear(16, 32), cn_nn_relu(), cn_nn_linear(32, 10));
  cn_tensor *x[THREADS];
  worker w[THREADS];
  pthread_t threads[THREADS];
  int saved = cn_no_grad_begin();
  for (int i = 0; i < THREADS; i++) x[i] = cn_randn(CN_SHAPE(8, 16));
  cn_graph *g = cn_trace(forward, 1, x, 1, net);
  assert_non_null(g);
  for (int i = 0; i < THREADS; i++) {
    w[i] = (worker){g, x[i], NULL, 0};
    assert_int_equal(forward(&w[i].want, &x[i], net), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_many, &w[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) assert_int_equal(w[i].wrong, 0);
  cn_no_grad_end(saved);
  cn_graph_free(g);
  cn_module_release(net);
  cn_scope_end(s);
}

static int count(cn_tensor **out, cn_tensor *const *in, void *counter)
{
  (void)in;
  cn_add_(counter, cn_num(1));
  out[0] = cn_mul(counter, cn_num(2));
  return cn_err();
}

static void *run_count(void *payload)
{
  worker *w = payload;
  for (int i = 0; i < RUNS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *have = NULL;
    if (cn_graph_run(&have, w->g, NULL)) w->wrong++;
    cn_scope_end(s);
  }
  return NULL;
}

static void test_writers_take_turns(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *counter = cn_zeros(CN_SHAPE(1));
  cn_graph *g = cn_trace(count, 1, NULL, 0, counter);
  worker w = {.g = g};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_count, &w), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(w.wrong, 0);
  assert_float_equal(cn_item(counter), THREADS * RUNS, 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- states ---- */

typedef struct pair {
  cn_tensor *a, *b; /* (1000) */
} pair;

/* b becomes a's old value plus b, a grows: a's old value must be read before it is written. */
static int crossed(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  pair *p = payload;
  cn_tensor *old = cn_mul(p->a, cn_num(1));
  cn_add_(p->a, in[0]);
  cn_add_(p->b, old);
  out[0] = cn_sub(p->a, p->b);
  out[1] = p->a;
  return cn_err();
}

static void test_old_values_are_read_first(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  pair eager = {cn_zeros(CN_SHAPE(1000)), cn_ones(CN_SHAPE(1000))};
  pair traced = {cn_zeros(CN_SHAPE(1000)), cn_ones(CN_SHAPE(1000))};
  cn_tensor *x = cn_arange(0, 1000, .dtype = CN_F32), *want[2], *have[2];
  cn_graph *g = cn_trace(crossed, 2, &x, 1, &traced);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(crossed(want, &x, &eager), 0);
    assert_int_equal(cn_graph_run(have, g, &x), 0);
    assert_same(want[0], have[0]);
    assert_same(eager.a, traced.a);
    assert_same(eager.b, traced.b);
    assert_same(traced.a, have[1]);
    cn_fill_(have[1], cn_num(-1)); /* an output is the caller's own memory */
    assert_same(eager.a, traced.a);
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

static int update(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  pair *p = payload;
  cn_add_(p->a, in[0]);
  out[0] = cn_sum(in[0]);
  return cn_err();
}

static void test_updates_need_no_memory(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  pair traced = {cn_zeros(CN_SHAPE(1000)), NULL};
  cn_tensor *x = cn_ones(CN_SHAPE(1000)), *have;
  cn_graph *g = cn_trace(update, 1, &x, 1, &traced);
  size_t planned, unplanned;
  assert_int_equal(cn_graph_run(&have, g, &x), 0);
  cn_graph_memory(g, &planned, &unplanned);
  assert_int_equal(planned, 0); /* the sum is handed out, the state is written where it is */
  assert_float_equal(cn_item(cn_sum(traced.a)), 1000, 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* The embedding's index is wrong in the second run: the state must not have been counted up. */
static int looks_up(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  pair *p = payload;
  cn_add_(p->a, cn_num(1));
  out[0] = cn_embedding(in[0], p->b, -1);
  return cn_err();
}

static void test_a_failed_run_changes_nothing(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  pair p = {cn_zeros(CN_SHAPE(3)), cn_ones(CN_SHAPE(4, 2))};
  cn_tensor *good = cn_full(CN_SHAPE(2), 3, .dtype = CN_I64), *bad = cn_full(CN_SHAPE(2), 9, .dtype = CN_I64), *out;
  cn_graph *g = cn_trace(looks_up, 1, &good, 1, &p);
  assert_non_null(g);
  assert_int_equal(cn_graph_run(&out, g, &good), 0);
  assert_true(cn_graph_run(&out, g, &bad) < 0);
  cn_err_clear();
  assert_float_equal(cn_item(cn_sum(p.a)), 3, 0);
  assert_int_equal(cn_graph_run(&out, g, &good), 0);
  assert_float_equal(cn_item(cn_sum(p.a)), 6, 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- results over operands ---- */

enum { KIB = 1024 };

/* Five formulas one after the other; then two operands that are read again: by a later node, and in another order. */
static int formulas(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *y = cn_mul(in[0], cn_num(2)); /* (16, 16) */
  (void)payload;
  for (int i = 0; i < 4; i++) y = cn_tanh(y);
  out[0] = cn_sum(y);
  return cn_err();
}

static int read_again(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *a = cn_mul(in[0], cn_num(2)), *b = cn_tanh(a), *c = cn_add(b, a);
  (void)payload;
  out[0] = cn_sum(cn_mul(cn_add(c, cn_transpose(c, 0, 1)), cn_num(3)));
  out[1] = cn_add(cn_reshape(c, CN_SHAPE(256)), cn_num(1));
  out[2] = cn_sub(cn_slice(cn_exp(c), 0, 0, 1), cn_exp(c)); /* the first row, against all */
  return cn_err();
}

static void test_formulas_write_over_operands(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(16, 16)), *want[3], *have[3];
  size_t planned;
  cn_graph *g = cn_trace(formulas, 1, &x, 1, NULL);
  assert_int_equal(formulas(want, &x, NULL), 0);
  assert_int_equal(cn_graph_run(have, g, &x), 0);
  assert_same(want[0], have[0]);
  cn_graph_memory(g, &planned, NULL);
  assert_int_equal(planned, KIB); /* one place for all of them */
  cn_graph_free(g);
  g = cn_trace(read_again, 3, &x, 1, NULL);
  assert_int_equal(read_again(want, &x, NULL), 0);
  assert_int_equal(cn_graph_run(have, g, &x), 0);
  for (int i = 0; i < 3; i++) assert_same(want[i], have[i]);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* in: logits (16, 16), classes (16). payload: they are read again behind the gradient. */
static int cross_entropy_grad(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x = cn_mul(in[0], cn_num(2)), *loss, *lse; /* (16, 16) */
  cn_cross_entropy_rows(&loss, &lse, cn_view(x, CN_SHAPE(16, 16)), in[1], -100, "mean");
  cn_tensor *g = cn_cross_entropy_rows_grad(loss, x, in[1], lse, -100, "mean");
  out[0] = cn_sum(cn_matmul(g, in[0]));
  if (payload) out[0] = cn_add(out[0], cn_sum(x));
  return cn_err();
}

static void test_the_gradient_of_cross_entropy_is_written_over_the_scores(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {cn_randn(CN_SHAPE(16, 16)), cn_randint(0, 16, CN_SHAPE(16))}, *want, *have;
  size_t planned[2];
  for (int again = 0; again < 2; again++) {
    cn_graph *g = cn_trace(cross_entropy_grad, 1, in, 2, again ? &again : NULL);
    assert_int_equal(cross_entropy_grad(&want, in, again ? &again : NULL), 0);
    assert_int_equal(cn_graph_run(&have, g, in), 0);
    assert_same(want, have);
    cn_graph_memory(g, &planned[again], NULL);
    cn_graph_free(g);
  }
  assert_int_equal(planned[1] - planned[0], KIB);
  cn_scope_end(s);
}

/* ---- inputs ---- */

static int writes_input(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_mul_(cn_select(in[0], 0, 1), cn_num(10));
  out[0] = cn_sum(in[0]);
  return cn_err();
}

static void test_what_is_written_into_inputs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3)), *y = cn_ones(CN_SHAPE(2, 3)), *want, *have;
  cn_graph *g = cn_trace(writes_input, 1, &x, 1, NULL);
  assert_float_equal(cn_item(cn_sum(x)), 6, 0);
  assert_int_equal(writes_input(&want, &x, NULL), 0);
  assert_int_equal(cn_graph_run(&have, g, &y), 0);
  assert_same(want, have);
  assert_same(x, y);
  cn_tensor *z = cn_transpose(cn_ones(CN_SHAPE(3, 2)), 0, 1); /* of another memory order: a copy is computed with */
  assert_int_equal(cn_graph_run(&have, g, &z), 0);
  assert_true(same_elements(x, z));
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "write 0 %"));
  cn_graph *parsed = cn_graph_parse(text);
  char *again = cn_graph_to_string(parsed);
  assert_string_equal(text, again);
  cn_string_free(text);
  cn_string_free(again);
  cn_graph_free(parsed);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* The state itself is given as the input: all of it is read before it is written. */
static int adds(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  pair *p = payload;
  cn_add_(p->a, cn_num(1));
  cn_add_(p->b, in[0]);
  out[0] = cn_mul(in[0], cn_num(1));
  return cn_err();
}

static void test_an_input_that_is_a_state(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  pair p = {cn_zeros(CN_SHAPE(3)), cn_zeros(CN_SHAPE(3))};
  cn_tensor *x = cn_zeros(CN_SHAPE(3)), *have;
  cn_graph *g = cn_trace(adds, 1, &x, 1, &p);
  assert_int_equal(cn_graph_run(&have, g, &p.a), 0);
  assert_float_equal(cn_item(cn_sum(p.a)), 3, 0);
  assert_float_equal(cn_item(cn_sum(p.b)), 0, 0); /* the old value: 0 */
  cn_graph_free(g);
  cn_scope_end(s);
}

static int reads_row(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_add(cn_select(payload, 0, 1), in[0]);
  return cn_err();
}

static void test_a_state_with_other_data(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = cn_ones(CN_SHAPE(2, 3)), *x = cn_zeros(CN_SHAPE(3)), *have;
  cn_graph *g = cn_trace(reads_row, 1, &x, 1, w);
  assert_int_equal(cn_graph_run(&have, g, &x), 0);
  assert_float_equal(cn_item(cn_sum(have)), 3, 0);
  assert_int_equal(cn_set_data(w, cn_full(CN_SHAPE(2, 3), 5)), 0);
  assert_int_equal(cn_graph_run(&have, g, &x), 0);
  assert_float_equal(cn_item(cn_sum(have)), 15, 0);
  assert_int_equal(cn_set_data(w, cn_full(CN_SHAPE(4, 3), 5)), 0);
  assert_true(cn_graph_run(&have, g, &x) < 0);
  cn_err_clear();
  cn_graph_free(g);
  cn_scope_end(s);
}

static int look_inside(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_neg(cn_as_strided(in[0], CN_SHAPE(2, 2), CN_SHAPE(1, 2), CN_NONE));
  out[1] = cn_add(cn_view_dtype(in[0], CN_I32), cn_num(1));
  return cn_err();
}

/* Where in its memory an input begins may differ from run to run. */
static void test_inputs_inside_of_memory(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *memory = cn_arange(0, 32, .dtype = CN_I64), *want[2], *have[2];
  cn_tensor *first = cn_slice(memory, 0, 0, 6);
  cn_graph *g = cn_trace(look_inside, 2, &first, 1, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  for (int k = 0; k < 4; k++) {
    cn_tensor *x = cn_slice(memory, 0, 5 * k, 5 * k + 6);
    assert_int_equal(look_inside(want, &x, NULL), 0);
    if (cn_graph_run(have, g, &x)) fail_msg("%s", cn_err_message());
    for (int i = 0; i < 2; i++) assert_true(cn_item(cn_all(cn_eq(have[i], want[i]))) > 0);
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

static int joins(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *many[100];
  (void)payload;
  for (int i = 0; i < 100; i++) many[i] = cn_add(in[0], cn_num(i));
  out[0] = cn_cat(many, 100, 0);
  return cn_err();
}

static void test_a_node_with_many_inputs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2)), *want, *have;
  cn_graph *g = cn_trace(joins, 1, &x, 1, NULL);
  assert_non_null(g);
  assert_int_equal(joins(&want, &x, NULL), 0);
  assert_int_equal(cn_graph_run(&have, g, &x), 0);
  assert_same(want, have);
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_threads_share_a_graph),      cmocka_unit_test(test_writers_take_turns),
    cmocka_unit_test(test_old_values_are_read_first),  cmocka_unit_test(test_updates_need_no_memory),
    cmocka_unit_test(test_a_failed_run_changes_nothing), cmocka_unit_test(test_what_is_written_into_inputs),
    cmocka_unit_test(test_a_node_with_many_inputs),
    cmocka_unit_test(test_the_gradient_of_cross_entropy_is_written_over_the_scores),
    cmocka_unit_test(test_an_input_that_is_a_state),   cmocka_unit_test(test_a_state_with_other_data),
    cmocka_unit_test(test_inputs_inside_of_memory),    cmocka_unit_test(test_formulas_write_over_operands),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
