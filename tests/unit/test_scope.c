/* test_scope.c: who owns a tensor, and until when: scopes, keep and release, cn_set, states, and freeing without
 * recursion. Memory in use is what decides: a test ends with as much as it began with. */
#include <cairn/cairn.h>
#include <pthread.h>

#include "test.h"

static size_t in_use(void)
{
  cn_memory_stats m;
  cn_memory_get_stats(&m);
  return m.in_use;
}

static size_t peak(void)
{
  cn_memory_stats m;
  cn_memory_get_stats(&m);
  return m.peak;
}

/* Without caches, so that in_use says what is alive; warmed up, so that the state's own arrays are there. */
static int set_up(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  for (int i = 0; i < 3; i++) {
    cn_scope *s = cn_scope_begin(), *inner = cn_scope_begin();
    cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(4)), true);
    cn_backward(cn_sum(cn_mul(x, x)));
    cn_scope_end(inner);
    cn_scope_end(s);
  }
  return cn_err();
}

static int tear_down(void **state)
{
  (void)state;
  cn_memory_set_caching(true);
  return cn_err();
}

static void results_go_with_their_scope(void **state)
{
  (void)state;
  size_t before = in_use();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(1000));
  for (int i = 0; i < 5; i++) x = cn_add(x, x);
  assert_true(in_use() >= before + 6 * 4000);
  assert_float_equal(cn_item(cn_select(x, 0, 999)), 32, 0);
  cn_scope_end(s);
  assert_int_equal(in_use(), before);
}

static void outer_ends_inner(void **state)
{
  (void)state;
  size_t before = in_use();
  cn_scope *outer = cn_scope_begin();
  cn_ones(CN_SHAPE(10));
  cn_scope *inner = cn_scope_begin();
  cn_ones(CN_SHAPE(10));
  cn_scope *innermost = cn_scope_begin();
  cn_ones(CN_SHAPE(10));
  cn_scope_end(outer);
  assert_int_equal(in_use(), before);
  cn_scope_end(innermost); /* these have ended: nothing happens */
  cn_scope_end(inner);
  cn_scope_end(outer);
  cn_scope_end(NULL);
  assert_int_equal(in_use(), before);
  assert_int_equal(cn_err(), 0);
}

static void an_ended_scope_does_not_end_another(void **state)
{
  (void)state;
  cn_scope *old = cn_scope_begin();
  cn_scope_end(old);
  cn_scope *fresh = cn_scope_begin(); /* stands where the old one stood */
  cn_tensor *x = cn_full(CN_SHAPE(3), 2);
  cn_scope_end(old);
  assert_float_equal(cn_item(cn_sum(x)), 6, 0);
  cn_scope_end(fresh);
}

static void return_hands_outwards(void **state)
{
  (void)state;
  size_t before = in_use();
  cn_scope *outer = cn_scope_begin(), *inner = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(100)), *y = cn_add(x, x);
  size_t both = in_use();
  assert_ptr_equal(cn_scope_return(inner, y), y);
  assert_true(in_use() < both); /* x is gone */
  assert_float_equal(cn_item(cn_sum(y)), 200, 0);
  cn_scope_end(outer);
  assert_int_equal(in_use(), before);
  inner = cn_scope_begin();
  assert_null(cn_scope_return(inner, NULL));
  assert_int_equal(in_use(), before);
}

static void kept_tensors_outlive_the_scope(void **state)
{
  (void)state;
  size_t before = in_use();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_keep(cn_ones(CN_SHAPE(100))), *view = cn_keep(cn_slice(x, 0, 10, 20));
  cn_scope_end(s);
  cn_release(x);
  s = cn_scope_begin();
  assert_float_equal(cn_item(cn_sum(view)), 10, 0); /* a view keeps the memory alive */
  cn_scope_end(s);
  cn_release(view);
  cn_release(NULL);
  assert_null(cn_keep(NULL));
  assert_int_equal(in_use(), before);
}

static void set_moves_into_a_variable(void **state)
{
  (void)state;
  size_t before = in_use();
  cn_tensor *x = NULL;
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_set(&x, cn_ones(CN_SHAPE(1 << 18))), CN_OK);
  cn_memory_reset_peak();
  size_t one = in_use();
  for (int i = 0; i < 10; i++) assert_int_equal(cn_set(&x, cn_add(x, x)), CN_OK);
  assert_true(peak() < one + 2 * (4u << 18)); /* ten large ops hold two buffers, not ten */
  assert_int_equal(cn_set(&x, x), CN_OK); /* itself */
  cn_scope_end(s);
  s = cn_scope_begin();
  assert_float_equal(cn_item(cn_select(x, 0, 5)), 1024, 0);
  cn_tensor *was = x;
  assert_true(cn_set(&x, cn_add(x, cn_ones(CN_SHAPE(3)))) < 0); /* a failed value leaves the variable alone */
  assert_ptr_equal(x, was);
  cn_err_clear();
  assert_true(cn_set(&x, NULL) < 0);
  cn_err_clear();
  cn_scope_end(s);
  cn_release(x);
  assert_int_equal(in_use(), before);
}

static void set_takes_from_an_outer_scope(void **state)
{
  (void)state;
  size_t before = in_use();
  cn_tensor *x = NULL;
  cn_scope *outer = cn_scope_begin();
  cn_tensor *made = cn_ones(CN_SHAPE(50));
  cn_scope *inner = cn_scope_begin();
  assert_int_equal(cn_set(&x, made), CN_OK);
  cn_scope_end(inner);
  cn_scope_end(outer);
  assert_float_equal(((float *)cn_data(x))[49], 1, 0);
  cn_release(x);
  assert_int_equal(in_use(), before);
}

static void states_are_separate(void **state)
{
  (void)state;
  cn_state *own = cn_state_swap(NULL), *other;
  assert_non_null(own);
  assert_ptr_equal(cn_state_swap(own), NULL);
  other = cn_state_new();
  assert_non_null(other);
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(3));
  cn_seed(5);
  cn_err_set(CN_ERR_VALUE, "of the first state");
  assert_ptr_equal(cn_state_swap(other), own);
  assert_int_equal(cn_err(), 0); /* the other state has its own error, scopes, seed and defaults */
  cn_tensor *y = cn_add(x, x);   /* x is shared for reading */
  assert_non_null(y);
  uint64_t seed = 5;
  cn_random_state(&seed, NULL);
  assert_true(seed != 5);
  cn_set_default_dtype(CN_F64);
  assert_ptr_equal(cn_state_swap(own), other);
  cn_state_free(other); /* y goes with its root scope */
  assert_string_equal(cn_err_message(), "of the first state");
  assert_int_equal(cn_default_dtype(), CN_F32);
  cn_random_state(&seed, NULL);
  assert_int_equal(seed, 5);
  cn_err_clear();
  assert_float_equal(cn_item(cn_sum(x)), 3, 0);
  cn_scope_end(s);
}

static int warnings;
static void count_warning(cn_log_level level, const char *message, void *payload)
{
  (void)payload;
  warnings += level == CN_LOG_WARNING && strstr(message, "cn_scope_begin") != NULL;
}

/* In a state of its own, which takes its million references along when it goes. */
static void the_root_scope_warns_once(void **state)
{
  (void)state;
  cn_state *own = cn_state_new(), *before = cn_state_swap(own);
  cn_set_log(count_warning, NULL);
  warnings = 0;
  cn_tensor *x = cn_ones(CN_SHAPE(1));
  for (int i = 0; i < (1 << 20) + 1000; i++) cn_contiguous(x); /* the same tensor, each time owned once more */
  assert_int_equal(cn_err(), 0);
  assert_int_equal(warnings, 1);
  cn_set_log(NULL, NULL);
  cn_state_swap(before);
  cn_state_free(own);
}

/* ---- long chains, on a thread with a small stack ---- */

static int length; /* of the chain */
static const char *failure;

static void *chain_of_ops(void *unused)
{
  (void)unused;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_full(CN_SHAPE(2), 1), true), *y = NULL;
  if (cn_set(&y, cn_mul(x, cn_num(1)))) failure = "start";
  for (int i = 0; i < length && !failure; i++) {
    cn_scope *step = cn_scope_begin();
    if (cn_set(&y, cn_add(y, x))) failure = "a step";
    cn_scope_end(step);
  }
  if (!failure && cn_backward(cn_sum(y))) failure = "backward";
  if (!failure && ((float *)cn_data(cn_grad_of(x)))[1] != (float)(length + 1)) failure = "the gradient";
  cn_release(y);
  cn_scope_end(s);
  return NULL;
}

static void *chain_never_walked(void *unused)
{
  (void)unused;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(2)), true), *y = NULL;
  if (cn_set(&y, cn_mul(x, x))) failure = "start";
  for (int i = 0; i < length && !failure; i++)
    if (cn_set(&y, cn_sin(y))) failure = "a step";
  cn_release(y); /* frees 100,000 nodes with their saved values at once */
  cn_scope_end(s);
  return NULL;
}

static void *chain_of_views(void *unused)
{
  (void)unused;
  cn_scope *s = cn_scope_begin();
  cn_tensor *v = NULL;
  if (cn_set(&v, cn_ones(CN_SHAPE(2, 3)))) failure = "start";
  for (int i = 0; i < length && !failure; i++)
    if (cn_set(&v, cn_transpose(v, 0, 1))) failure = "a step";
  bool write = length <= 1000;
  if (!failure && write && cn_add_(v, cn_num(1)) != v) failure = "a write through them all";
  if (!failure && cn_item(cn_sum(v)) != (write ? 12 : 6)) failure = "the sum";
  cn_release(v);
  cn_scope_end(s);
  return NULL;
}

static void on_small_stack(void *(*run)(void *), int steps)
{
  pthread_attr_t attr;
  pthread_t thread;
  failure = NULL;
  length = steps;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 512 << 10);
  assert_int_equal(pthread_create(&thread, &attr, run, NULL), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attr);
  if (failure) fail_msg("%s failed", failure);
}

/* A short one first: programs of gradients are made once and stay. */
static void long_chain(void *(*run)(void *))
{
  on_small_stack(run, 3);
  size_t before = in_use();
  on_small_stack(run, 100000);
  assert_int_equal(in_use(), before);
}

static void long_chains_of_ops(void **state) { (void)state, long_chain(chain_of_ops); }
static void long_chains_never_walked(void **state) { (void)state, long_chain(chain_never_walked); }
static void long_chains_of_views(void **state)
{
  (void)state;
  on_small_stack(chain_of_views, 1000);
  long_chain(chain_of_views);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(results_go_with_their_scope), cmocka_unit_test(outer_ends_inner),
    cmocka_unit_test(an_ended_scope_does_not_end_another), cmocka_unit_test(return_hands_outwards),
    cmocka_unit_test(kept_tensors_outlive_the_scope), cmocka_unit_test(set_moves_into_a_variable),
    cmocka_unit_test(set_takes_from_an_outer_scope), cmocka_unit_test(states_are_separate),
    cmocka_unit_test(the_root_scope_warns_once), cmocka_unit_test(long_chains_of_ops),
    cmocka_unit_test(long_chains_never_walked), cmocka_unit_test(long_chains_of_views),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
