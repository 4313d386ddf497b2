/* test_graph.c: capture and replay: a whole training step equals eager bit for bit, other sizes replay without a new
 * trace, in-place writes and views become values, the text form reads back, the plan reuses memory, and what cannot
 * be captured is an error. */
#include <cairn/cairn.h>
#include <math.h>
#include <string.h>

#include "tensors.h"

enum { STEPS = 50, BATCH = 16 };

/* ---- a training step: two layers, dropout, cross entropy, an optimiser written by hand ---- */

typedef struct net {
  cn_tensor *p[4], *m[4], *v[4]; /* weights and biases, first and second moments */
  cn_tensor *step, *rate;        /* () */
  bool adam;
} net;

static void net_init(net *n, bool adam)
{
  cn_seed(7);
  n->adam = adam;
  n->p[0] = cn_mul(cn_randn(CN_SHAPE(32, 64)), cn_num(0.1));
  n->p[1] = cn_zeros(CN_SHAPE(32));
  n->p[2] = cn_mul(cn_randn(CN_SHAPE(10, 32)), cn_num(0.1));
  n->p[3] = cn_zeros(CN_SHAPE(10));
  for (int i = 0; i < 4; i++) {
    n->m[i] = cn_zeros_like(n->p[i]);
    n->v[i] = cn_zeros_like(n->p[i]);
    cn_requires_grad(n->p[i], true);
  }
  n->step = cn_zeros(CN_SCALAR_SHAPE);
  n->rate = cn_full(CN_SCALAR_SHAPE, 0.01);
}

static void sgd(net *n, int i)
{
  cn_mul_(n->m[i], cn_num(0.9));
  cn_add_(n->m[i], cn_grad_of(n->p[i]));
  cn_sub_(n->p[i], cn_mul(n->rate, n->m[i]));
}

static void adam(net *n, int i)
{
  cn_tensor *g = cn_grad_of(n->p[i]);
  cn_mul_(n->m[i], cn_num(0.9));
  cn_add_(n->m[i], g, .alpha = 0.1);
  cn_mul_(n->v[i], cn_num(0.999));
  cn_addcmul_(n->v[i], g, g, .value = 0.001);
  cn_tensor *c1 = cn_sub(cn_num(1), cn_pow(cn_num(0.9), n->step));
  cn_tensor *c2 = cn_sub(cn_num(1), cn_pow(cn_num(0.999), n->step));
  cn_tensor *scale = cn_add(cn_sqrt(cn_true_divide(n->v[i], c2)), cn_num(1e-8));
  cn_sub_(n->p[i], cn_mul(n->rate, cn_true_divide(cn_true_divide(n->m[i], c1), scale)));
}

static cn_tensor *train(net *n, cn_tensor *x, cn_tensor *y)
{
  cn_tensor *h = cn_dropout(cn_relu(cn_linear(x, n->p[0], n->p[1])), .p = 0.2);
  cn_tensor *loss = cn_cross_entropy(cn_linear(h, n->p[2], n->p[3]), y);
  cn_backward(loss);
  int saved = cn_no_grad_begin();
  cn_add_(n->step, cn_num(1));
  for (int i = 0; i < 4; i++) {
    if (n->adam) adam(n, i);
    else sgd(n, i);
    cn_zero_grad(n->p[i]);
  }
  cn_no_grad_end(saved);
  return loss;
}

static int train_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = train(payload, in[0], in[1]);
  return cn_err();
}

/* The same data every time, so that the loss falls. */
static void batch(cn_tensor **in, int64_t size)
{
  uint64_t seed, offset;
  cn_random_state(&seed, &offset);
  cn_random_set_state(99, 0);
  in[0] = cn_randn(CN_SHAPE(size, 64));
  in[1] = cn_randint(0, 10, CN_SHAPE(size));
  cn_random_set_state(seed, offset);
}

/* Losses of STEPS eager steps; the batch size of each step from sizes (cycled). */
static void eager_losses(float *loss, bool use_adam, const int64_t *sizes, int nsizes)
{
  net n;
  net_init(&n, use_adam);
  cn_seed(3);
  for (int i = 0; i < STEPS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *in[2];
    batch(in, sizes[i % nsizes]);
    loss[i] = (float)cn_item(train(&n, in[0], in[1]));
    cn_scope_end(s);
  }
}

static void replay_equals(cn_graph *g, const float *loss, const int64_t *sizes, int nsizes)
{
  cn_seed(3);
  for (int i = 0; i < STEPS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *in[2], *out = NULL;
    batch(in, sizes[i % nsizes]);
    assert_int_equal(cn_graph_run(&out, g, in), 0);
    float l = (float)cn_item(out);
    assert_memory_equal(&l, &loss[i], sizeof l);
    cn_scope_end(s);
  }
}

static void check_step(bool use_adam)
{
  float loss[STEPS];
  net n;
  cn_tensor *in[2];
  const int64_t size = BATCH;
  eager_losses(loss, use_adam, &size, 1);
  assert_true(loss[STEPS - 1] < loss[0]);
  net_init(&n, use_adam);
  batch(in, BATCH);
  cn_graph *g = cn_trace(train_fn, 1, in, 2, &n);
  assert_non_null(g);
  assert_int_equal(cn_graph_verify(g), 0);
  replay_equals(g, loss, &size, 1);
  size_t planned, unplanned;
  cn_graph_memory(g, &planned, &unplanned);
  assert_true(planned > 0 && planned < unplanned);
  cn_graph_free(g);
}

static void test_sgd_step_bit_for_bit(void **state)
{
  (void)state;
  check_step(false);
}
static void test_adam_step_bit_for_bit(void **state)
{
  (void)state;
  check_step(true);
}

static void test_third_size_without_new_trace(void **state)
{
  (void)state;
  float loss[STEPS];
  const int64_t sizes[3] = {7, 16, 12};
  net n;
  cn_tensor *in[4];
  eager_losses(loss, true, sizes, 3);
  net_init(&n, true);
  batch(in, 16);
  batch(in + 2, 12);
  cn_graph *g = cn_trace_sizes(train_fn, 1, in, 2, 2, &n);
  assert_non_null(g);
  replay_equals(g, loss, sizes, 3); /* 7 was never traced */
  cn_tensor *wrong[2] = {cn_zeros(CN_SHAPE(16, 65)), in[1]}, *out;
  assert_true(cn_graph_run(&out, g, wrong) < 0);
  assert_fails(CN_ERR_SHAPE, "input 0");
  cn_graph_free(g);
}

static void test_text_reads_back_and_runs(void **state)
{
  (void)state;
  float loss[STEPS];
  const int64_t sizes[2] = {5, 9};
  net n;
  cn_tensor *in[4];
  eager_losses(loss, false, sizes, 2);
  net_init(&n, false);
  batch(in, 16);
  batch(in + 2, 12);
  cn_graph *g = cn_trace_sizes(train_fn, 1, in, 2, 2, &n);
  char *text = cn_graph_to_string(g);
  assert_non_null(text);
  cn_graph *parsed = cn_graph_parse(text);
  assert_non_null(parsed);
  char *again = cn_graph_to_string(parsed);
  assert_string_equal(text, again);
  for (size_t i = 0; i < cn_graph_states(g); i++)
    assert_int_equal(cn_graph_bind(parsed, i, cn_graph_state(g, i)), 0);
  replay_equals(parsed, loss, sizes, 2);
  cn_string_free(text);
  cn_string_free(again);
  cn_graph_free(parsed);
  cn_graph_free(g);
}

/* ---- writes and views ---- */

static int writes_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *x = cn_mul(in[0], cn_num(1)), *state = payload; /* (3, 4) both */
  cn_tensor *row = cn_select(x, 0, 1), *column = cn_select(x, 1, 2);
  cn_mul_(row, cn_num(10));
  cn_add_(column, cn_num(1)); /* sees what row wrote */
  cn_copy_(cn_slice(state, 0, 1, CN_NONE), cn_slice(x, 0, 0, 2));
  cn_add_(cn_transpose(state, 0, 1), cn_num(0.5));
  out[0] = cn_add(cn_sum(x), cn_sum(row));
  out[1] = column;
  return cn_err();
}

static void test_writes_through_views(void **state)
{
  (void)state;
  cn_tensor *x = cn_reshape(cn_arange(0, 12, .dtype = CN_F32), CN_SHAPE(3, 4));
  cn_tensor *a = cn_zeros(CN_SHAPE(3, 4)), *b = cn_zeros(CN_SHAPE(3, 4)), *want[2], *have[2];
  cn_graph *g = cn_trace(writes_fn, 2, &x, 1, b);
  assert_non_null(g);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(writes_fn(want, &x, a), 0);
    assert_int_equal(cn_graph_run(have, g, &x), 0);
    assert_true(cn_item(cn_all(cn_eq(want[0], have[0]))) > 0);
    assert_true(cn_item(cn_all(cn_eq(want[1], have[1]))) > 0);
    assert_true(cn_item(cn_all(cn_eq(a, b))) > 0);
  }
  cn_graph_free(g);
}

static int swap_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor **ab = payload, *old = cn_clone(ab[0]);
  (void)in;
  cn_copy_(ab[0], ab[1]);
  cn_copy_(ab[1], old);
  out[0] = ab[0];
  return cn_err();
}

static void test_states_can_swap(void **state)
{
  (void)state;
  cn_tensor *ab[2] = {cn_full(CN_SHAPE(2), 1), cn_full(CN_SHAPE(2), 2)}, *out;
  cn_graph *g = cn_trace(swap_fn, 1, NULL, 0, ab);
  assert_non_null(g);
  assert_int_equal(cn_graph_run(&out, g, NULL), 0);
  assert_float_equal(cn_item(cn_sum(ab[0])), 4, 0);
  assert_float_equal(cn_item(cn_sum(ab[1])), 2, 0);
  assert_float_equal(cn_item(cn_sum(out)), 4, 0);
  cn_graph_free(g);
}

/* ---- what cannot be ---- */

static int reads_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_item(cn_sum(in[0])) > 0 ? in[0] : cn_neg(in[0]);
  return cn_err();
}

static void test_refusals(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(3));
  assert_null(cn_trace(reads_fn, 1, &x, 1, NULL));
  assert_fails(CN_ERR_CAPTURE, "captured");
  assert_float_equal(cn_item(cn_sum(x)), 3, 0); /* eager again */
  assert_null(cn_graph_parse("%0 = input float32 [2]\n%1 = nonsense(%0) : float32 [2]\n"));
  assert_fails(CN_ERR_IO, "line 2");
}

static int dead_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_exp(cn_exp(in[0]));
  out[0] = cn_neg(in[0]);
  return cn_err();
}

static void test_dead_nodes_go(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(3));
  cn_graph *g = cn_trace(dead_fn, 1, &x, 1, NULL);
  assert_int_equal(cn_graph_nodes(g), 1);
  assert_int_equal(cn_graph_remove_dead(g), 0);
  cn_graph_free(g);
}

/* ---- values on two devices ---- */

static int moves_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *there = cn_to_device(cn_mul(in[0], cn_num(2)), *(cn_device *)payload);
  out[0] = cn_mul(cn_to_device(cn_exp(cn_add(there, cn_num(1))), CN_CPU), cn_num(3));
  return cn_err();
}

static void test_values_on_two_devices(void **state)
{
  (void)state;
  cn_device mirror = cn_device_find("mirror");
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_arange(0, 100, .dtype = CN_F32), *want, *have;
  x = cn_true_divide(x, cn_int(100));
  cn_graph *g = cn_trace(moves_fn, 1, &x, 1, &mirror);
  assert_non_null(g);
  assert_int_equal(moves_fn(&want, &x, &mirror), 0);
  assert_int_equal(cn_graph_run(&have, g, &x), 0);
  assert_true(cn_item(cn_all(cn_eq(want, have))) > 0);
  cn_graph_free(g);
  cn_scope_end(scope);
  assert_int_equal(cn_device_sync(mirror), 0); /* memory is given back in the queue's order */
}

/* ---- numbers that differ between sizes ---- */

static int filled_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  double bound = cn_size(in[0], 0) == 2 ? (double)INFINITY : 5;
  out[0] = cn_clamp(in[0], NULL, cn_num(bound));
  return cn_err();
}

static void test_a_number_that_no_size_gives(void **state)
{
  (void)state;
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(2)), cn_ones(CN_SHAPE(3))};
  assert_null(cn_trace_sizes(filled_fn, 1, in, 1, 2, NULL));
  assert_fails(CN_ERR_CAPTURE, "inf (s0 = 2)");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_sgd_step_bit_for_bit), TEST(test_adam_step_bit_for_bit), TEST(test_third_size_without_new_trace),
    TEST(test_text_reads_back_and_runs), TEST(test_writes_through_views), TEST(test_states_can_swap),
    TEST(test_refusals), TEST(test_dead_nodes_go), TEST(test_values_on_two_devices),
    TEST(test_a_number_that_no_size_gives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
