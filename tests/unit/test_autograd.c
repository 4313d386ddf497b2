/* test_autograd.c: the behaviour of autograd.h: leaves, accumulation, modes, hooks, custom functions, checkpoints,
 * in-place writes and views (the cases PyTorch's notes on in-place correctness describe), long chains, several
 * threads. */
#include <cairn/cairn.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "tensors.h"

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  cn_seed(1);
  return 0;
}

#define LEAF(...)                                                                                                    \
  cn_requires_grad(cn_floats((const float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}) / sizeof(float)), true)

static void assert_values(cn_tensor *t, const float *want, size_t n)
{
  float have[64];
  assert_non_null(t);
  assert_int_equal(cn_numel(t), n);
  assert_int_equal(cn_to_data(have, sizeof have, t), 0);
  for (size_t i = 0; i < n; i++) assert_float_equal(have[i], want[i], 1e-5);
}
#define ASSERT_VALUES(t, ...) \
  assert_values(t, (const float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}) / sizeof(float))

/* ---- leaves and accumulation ---- */

static void test_leaf_and_result(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2, 3), *y = cn_mul(x, x);
  assert_true(cn_needs_grad(x) && cn_is_leaf(x) && cn_needs_grad(y) && !cn_is_leaf(y));
  assert_int_equal(cn_backward(cn_sum(y)), 0);
  ASSERT_VALUES(cn_grad_of(x), 2, 4, 6);
  assert_null(cn_grad_of(y));
}

static void test_accumulates_until_zeroed(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2);
  for (int i = 0; i < 3; i++) cn_backward(cn_sum(cn_mul(x, cn_num(2))));
  ASSERT_VALUES(cn_grad_of(x), 6, 6);
  cn_zero_grad(x);
  assert_null(cn_grad_of(x));
  cn_backward(cn_sum(x));
  ASSERT_VALUES(cn_grad_of(x), 1, 1);
}

static void test_seed_gradient(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2), *y = cn_exp(cn_mul(x, cn_num(0)));
  assert_int_equal(cn_backward(y, .gradient = cn_floats((const float[]){3, 4}, 2)), 0);
  ASSERT_VALUES(cn_grad_of(x), 0, 0);
  cn_tensor *z = cn_mul(x, cn_num(5));
  cn_zero_grad(x);
  cn_backward(z, .gradient = cn_floats((const float[]){3, 4}, 2));
  ASSERT_VALUES(cn_grad_of(x), 15, 20);
  assert_true(cn_backward(cn_mul(x, x)) < 0);
  assert_fails(CN_ERR_GRAD, "gradient must be given");
  assert_true(cn_backward(cn_mul(x, x), .gradient = cn_floats((const float[]){1}, 1)) < 0);
  assert_fails(CN_ERR_SHAPE, "shape");
}

static void test_a_gradient_used_twice_is_not_shared(void **state)
{
  (void)state;
  cn_tensor *a = LEAF(1, 2), *b = LEAF(3, 4);
  cn_backward(cn_sum(cn_add(a, b))); /* both get the very same gradient */
  cn_backward(cn_sum(a));
  ASSERT_VALUES(cn_grad_of(a), 2, 2);
  ASSERT_VALUES(cn_grad_of(b), 1, 1);
}

static void test_broadcast_sums_back(void **state)
{
  (void)state;
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(3, 1)), true), *y = LEAF(1, 2, 3, 4), *s = LEAF(2);
  cn_backward(cn_sum(cn_mul(cn_mul(x, y), s)));
  ASSERT_VALUES(cn_grad_of(x), 20, 20, 20);
  ASSERT_VALUES(cn_grad_of(y), 6, 6, 6, 6);
  ASSERT_VALUES(cn_grad_of(s), 30);
}

static void test_types_that_cannot(void **state)
{
  (void)state;
  assert_null(cn_requires_grad(cn_arange(0, 3, .dtype = CN_I64), true));
  assert_fails(CN_ERR_DTYPE, "floating-point");
  assert_null(cn_requires_grad(cn_mul(LEAF(1), cn_num(2)), false));
  assert_fails(CN_ERR_GRAD, "detach");
  assert_true(cn_backward(cn_ones(CN_SHAPE(1))) < 0);
  assert_fails(CN_ERR_GRAD, "does not require");
}

/* ---- graph retention ---- */

static void test_second_backward(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(2), *y = cn_mul(x, x);
  assert_int_equal(cn_backward(y, .retain_graph = true), 0);
  assert_int_equal(cn_backward(y), 0);
  ASSERT_VALUES(cn_grad_of(x), 8);
  assert_true(cn_backward(y) < 0);
  assert_fails(CN_ERR_GRAD, "retain_graph");
}

static void test_higher_order(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(2), *g, *g2, *g3;
  cn_tensor *y = cn_mul(cn_mul(x, x), cn_mul(x, x)); /* x^4 */
  assert_int_equal(cn_grad(&g, &y, 1, &x, 1, .create_graph = true), 0);
  ASSERT_VALUES(g, 32);
  assert_int_equal(cn_grad(&g2, &g, 1, &x, 1, .create_graph = true), 0);
  ASSERT_VALUES(g2, 48);
  assert_int_equal(cn_grad(&g3, &g2, 1, &x, 1), 0);
  ASSERT_VALUES(g3, 48);
  assert_null(cn_grad_of(x));
}

static void test_grad_of_chosen(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2), *w = LEAF(3, 4), *unused = LEAF(1), *grads[2];
  cn_tensor *h = cn_mul(x, w), *y = cn_sum(cn_mul(h, h));
  cn_tensor *wanted[2] = {h, x};
  assert_int_equal(cn_grad(grads, &y, 1, wanted, 2, .retain_graph = true), 0);
  ASSERT_VALUES(grads[0], 6, 16);
  ASSERT_VALUES(grads[1], 18, 64);
  assert_null(cn_grad_of(w));
  assert_true(cn_grad(grads, &y, 1, &unused, 1, .retain_graph = true) < 0);
  assert_fails(CN_ERR_GRAD, "allow_unused");
  assert_int_equal(cn_grad(grads, &y, 1, &unused, 1, .allow_unused = true), 0);
  assert_null(grads[0]);
}

static void test_retained_gradient_of_a_result(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2), *h = cn_mul(x, cn_num(3));
  assert_int_equal(cn_retain_grad(h), 0);
  cn_backward(cn_sum(cn_mul(h, h)));
  ASSERT_VALUES(cn_grad_of(h), 6, 12);
}

/* ---- modes ---- */

static void test_no_grad_and_inference(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2);
  int saved = cn_no_grad_begin();
  cn_tensor *y = cn_mul(x, x);
  int inner = cn_enable_grad_begin();
  cn_tensor *z = cn_mul(x, x);
  cn_enable_grad_end(inner);
  assert_false(cn_grad_enabled());
  cn_no_grad_end(saved);
  assert_true(cn_grad_enabled() && !cn_needs_grad(y) && cn_needs_grad(z));
  saved = cn_inference_begin();
  cn_tensor *i = cn_mul(x, x);
  cn_inference_end(saved);
  assert_false(cn_needs_grad(i));
  assert_null(cn_requires_grad(i, true));
  assert_fails(CN_ERR_GRAD, "inference");
}

static void test_detach(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2), *d = cn_detach(x);
  assert_false(cn_needs_grad(d));
  assert_ptr_equal(cn_data(d), cn_data(x));
  cn_backward(cn_sum(cn_mul(x, cn_detach(x))));
  ASSERT_VALUES(cn_grad_of(x), 1, 2);
}

static void test_anomaly_names_the_op(void **state)
{
  (void)state;
  cn_detect_anomaly(true);
  assert_null(cn_log(cn_neg(cn_ones(CN_SHAPE(2)))));
  assert_fails(CN_ERR_VALUE, "log made a NaN");
  cn_tensor *x = LEAF(0, 1);
  cn_tensor *y = cn_sum(cn_sqrt(x));
  assert_int_equal(cn_err(), 0);
  assert_true(cn_backward(y) < 0);
  assert_fails(CN_ERR_VALUE, "backward of sqrt");
  cn_detect_anomaly(false);
}

/* ---- hooks ---- */

static cn_tensor *double_it(cn_tensor *g, void *payload)
{
  ++*(int *)payload;
  return cn_mul(g, cn_num(2));
}

static void test_hooks(void **state)
{
  (void)state;
  int calls = 0;
  cn_tensor *x = LEAF(1, 2), *h = cn_mul(x, cn_num(3));
  int64_t on_result = cn_hook_add(h, double_it, &calls);
  int64_t on_leaf = cn_hook_add(x, double_it, &calls);
  assert_true(on_result > 0 && on_leaf > 0);
  cn_backward(cn_sum(h));
  ASSERT_VALUES(cn_grad_of(x), 12, 12);
  assert_int_equal(calls, 2);
  assert_int_equal(cn_hook_remove(x, on_leaf), 0);
  assert_true(cn_hook_remove(x, on_leaf) < 0);
  cn_err_clear();
}

/* ---- custom functions ---- */

static int cube_forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  out[0] = cn_mul(in[0], cn_mul(in[0], in[0]));
  return cn_context_save(ctx, in, 1);
}
static int cube_backward(cn_context *ctx, cn_tensor **gin, cn_tensor *const *g)
{
  cn_tensor *x = cn_context_saved(ctx, 0);
  gin[0] = cn_mul(g[0], cn_mul(cn_num(3), cn_mul(x, x)));
  return cn_err();
}
static void count_free(void *payload) { ++*(int *)payload; }
static const cn_function cube = {sizeof(cn_function), "cube", cube_forward, cube_backward, count_free};

static void test_custom_function(void **state)
{
  (void)state;
  int freed = 0;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = LEAF(2, -1), *y, *g, *g2;
  assert_int_equal(cn_function_apply(&y, 1, &cube, &x, 1, &freed), 0);
  ASSERT_VALUES(y, 8, -1);
  cn_tensor *total = cn_sum(y);
  assert_int_equal(cn_grad(&g, &total, 1, &x, 1, .create_graph = true), 0);
  ASSERT_VALUES(g, 12, 3);
  cn_tensor *sum = cn_sum(g);
  assert_int_equal(cn_grad(&g2, &sum, 1, &x, 1), 0); /* the saved input has its history */
  ASSERT_VALUES(g2, 12, -6);
  cn_scope_end(s);
  assert_int_equal(freed, 1);
}

static void test_custom_function_notices_changes(void **state)
{
  (void)state;
  int freed = 0;
  cn_tensor *x = LEAF(2), *h = cn_mul(x, cn_num(1)), *y;
  cn_function_apply(&y, 1, &cube, &h, 1, &freed);
  cn_add_(h, cn_num(1));
  assert_true(cn_backward(y) < 0);
  assert_fails(CN_ERR_GRAD, "changed in place");
}

/* ---- checkpointing ---- */

static int noisy_block(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  ++*(int *)payload;
  out[0] = cn_mul(cn_tanh(cn_mul(in[0], in[1])), cn_rand_like(in[0]));
  return cn_err();
}

static void test_checkpoint_equals_plain(void **state)
{
  (void)state;
  float plain[4], checked[4];
  int runs = 0;
  for (int pass = 0; pass < 2; pass++) {
    cn_tensor *x = LEAF(0.5f, -1, 2, 3), *w = LEAF(1, 2, 3, 4), *y, *in[2] = {x, w};
    cn_seed(5);
    if (pass) cn_checkpoint(&y, 1, noisy_block, in, 2, &runs);
    else noisy_block(&y, in, &runs);
    runs = 0;
    assert_int_equal(cn_backward(cn_sum(y)), 0);
    cn_to_data(pass ? checked : plain, sizeof plain, cn_grad_of(w));
  }
  assert_int_equal(runs, 1); /* once more in backward */
  assert_memory_equal(plain, checked, sizeof plain);
}

/* ---- in place and views ---- */

static void test_inplace_on_leaf_is_refused(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2);
  assert_null(cn_add_(x, cn_num(1)));
  assert_fails(CN_ERR_GRAD, "leaf");
  assert_null(cn_add_(cn_slice(x, 0, 0, 1), cn_num(1)));
  assert_fails(CN_ERR_GRAD, "view of a leaf");
  int saved = cn_no_grad_begin();
  assert_non_null(cn_add_(x, cn_num(1)));
  cn_no_grad_end(saved);
  ASSERT_VALUES(cn_detach(x), 2, 3);
}

static void test_inplace_on_result(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2), *y = cn_mul(x, cn_num(2));
  cn_mul_(y, cn_num(5));
  cn_backward(cn_sum(y));
  ASSERT_VALUES(cn_grad_of(x), 10, 10);
}

static void test_stale_saved_value(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2), *y = cn_mul(x, cn_num(2)), *z = cn_mul(y, y);
  cn_add_(y, cn_num(1)); /* z's gradient needs the old y */
  assert_true(cn_backward(cn_sum(z)) < 0);
  assert_fails(CN_ERR_GRAD, "changed in place");
  cn_tensor *e = cn_exp(x); /* saves its result */
  cn_mul_(e, cn_num(2));
  assert_true(cn_backward(cn_sum(e)) < 0);
  assert_fails(CN_ERR_GRAD, "exp");
  cn_tensor *a = cn_add(x, cn_num(1)); /* saves nothing: fine */
  cn_mul_(a, cn_num(3));
  assert_int_equal(cn_backward(cn_sum(a)), 0);
}

static void test_write_through_view_reaches_base(void **state)
{
  (void)state;
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(2, 2)), true), *y = cn_mul(x, cn_num(2));
  cn_mul_(cn_select(y, 0, 0), cn_num(10));
  ASSERT_VALUES(cn_detach(y), 20, 20, 2, 2);
  cn_backward(cn_sum(y));
  ASSERT_VALUES(cn_grad_of(x), 20, 20, 2, 2);
}

static void test_write_through_view_of_view(void **state)
{
  (void)state;
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(2, 3)), true), *y = cn_mul(x, cn_num(2));
  cn_tensor *v = cn_transpose(cn_view(y, CN_SHAPE(3, 2)), 0, 1); /* (2, 3) */
  cn_mul_(cn_select(v, 0, 1), cn_num(4));
  cn_backward(cn_sum(cn_mul(y, y)));
  ASSERT_VALUES(cn_grad_of(x), 8, 128, 8, 128, 8, 128);
}

static void test_base_write_reaches_view(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2, 3), *y = cn_mul(x, cn_num(2)), *v = cn_slice(y, 0, 1, CN_NONE);
  cn_mul_(y, cn_num(10)); /* v was made before */
  ASSERT_VALUES(cn_detach(v), 40, 60);
  cn_backward(cn_sum(v));
  ASSERT_VALUES(cn_grad_of(x), 0, 20, 20);
}

static void test_sibling_views(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2, 3, 4), *y = cn_mul(x, cn_num(1));
  cn_tensor *a = cn_slice(y, 0, 0, 2), *b = cn_slice(y, 0, 1, 3);
  cn_mul_(a, cn_num(10));
  cn_backward(cn_sum(b)); /* b shows one element that a wrote */
  ASSERT_VALUES(cn_grad_of(x), 0, 10, 1, 0);
}

static void test_copy_into_plain_base(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(3, 4), *buffer = cn_zeros(CN_SHAPE(2, 2));
  cn_copy_(cn_select(buffer, 0, 1), x);
  assert_true(cn_needs_grad(buffer));
  cn_backward(cn_sum(cn_mul(buffer, buffer)));
  ASSERT_VALUES(cn_grad_of(x), 6, 8);
}

static void test_copy_of_a_dependent_value_makes_no_cycle(void **state)
{
  (void)state;
  cn_memory_stats before, after;
  cn_memory_trim();
  cn_memory_set_caching(false);
  cn_memory_get_stats(&before);
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_zeros(CN_SHAPE(2)), *w = LEAF(1, 2), *y = cn_mul(x, w);
  cn_copy_(x, y); /* x now depends on a node that saved x */
  cn_scope_end(s);
  cn_memory_get_stats(&after);
  cn_memory_set_caching(true);
  assert_int_equal(before.in_use, after.in_use);
}

static void test_overlapping_write_is_refused(void **state)
{
  (void)state;
  cn_tensor *e = cn_expand(cn_zeros(CN_SHAPE(1)), CN_SHAPE(3));
  assert_null(cn_add_(e, cn_num(1)));
  assert_fails(CN_ERR_VALUE, "share one memory");
}

/* ---- long chains, control flow, threads ---- */

static void test_long_chain(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = LEAF(1), *y = cn_keep(x);
  for (int i = 0; i < 100000; i++) assert_int_equal(cn_set(&y, cn_add(y, cn_num(1e-5))), 0);
  cn_tensor *end = cn_sum(y);
  assert_int_equal(cn_backward(end), 0);
  ASSERT_VALUES(cn_grad_of(x), 1);
  cn_release(y);
  cn_scope_end(s);
}

static void test_long_chain_dropped_without_backward(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1), *y = cn_keep(x);
  for (int i = 0; i < 100000; i++) cn_set(&y, cn_mul(y, cn_num(1)));
  for (int i = 0; i < 100000; i++) cn_set(&y, cn_view(y, CN_SHAPE(1)));
  cn_release(y);
  assert_int_equal(cn_err(), 0);
}

static cn_tensor *power(cn_tensor *x, int n) { return n == 0 ? cn_ones_like(x) : cn_mul(x, power(x, n - 1)); }

static void test_recursion_is_just_c(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(2);
  cn_backward(power(x, 5));
  ASSERT_VALUES(cn_grad_of(x), 80);
}

static void *shared_reader(void *arg)
{
  cn_tensor *x = arg;
  float ok = 1;
  for (int i = 0; i < 200; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *w = cn_requires_grad(cn_full(CN_SHAPE(64), 2), true);
    cn_backward(cn_sum(cn_mul(x, w)));
    if (cn_err() || fabs(cn_item(cn_sum(cn_grad_of(w))) - 64) > 1e-4) ok = 0;
    cn_scope_end(s);
  }
  return ok > 0 ? arg : NULL;
}

static void test_threads_share_for_reading(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(64));
  pthread_t t[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, shared_reader, x), 0);
  for (int i = 0; i < 4; i++) {
    void *result;
    pthread_join(t[i], &result);
    assert_ptr_equal(result, x);
  }
}

static cn_tensor *checked_fn(cn_tensor *const *in, void *payload)
{
  (void)payload;
  return cn_sum(cn_mul(cn_tanh(cn_mul(in[0], in[1])), in[0]));
}
static int wrong_backward(cn_context *ctx, cn_tensor **gin, cn_tensor *const *g)
{
  (void)ctx;
  gin[0] = g[0]; /* not the gradient of a cube */
  return 0;
}
static cn_tensor *wrong_fn(cn_tensor *const *in, void *payload)
{
  static const cn_function wrong = {sizeof(cn_function), "wrong", cube_forward, wrong_backward, NULL};
  cn_tensor *y = NULL;
  cn_function_apply(&y, 1, &wrong, in, 1, payload);
  return cn_sum(y);
}

static void test_gradcheck(void **state)
{
  (void)state;
  cn_tensor *in[2] = {cn_requires_grad(cn_randn(CN_SHAPE(2, 3), .dtype = CN_F64), true),
                      cn_requires_grad(cn_randn(CN_SHAPE(3), .dtype = CN_F64), true)};
  assert_int_equal(cn_gradcheck(checked_fn, in, 2, NULL, .second_order = true), 0);
  assert_true(cn_gradcheck(wrong_fn, in, 1, NULL) < 0);
  assert_fails(CN_ERR_GRAD, "finite differences");
}

/* A detached value keeps its memory, not the record it came from. */
static void test_detached_keeps_no_record(void **state)
{
  (void)state;
  cn_memory_stats before, after;
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(100000)), true), *kept[3];
  cn_memory_set_caching(false);
  cn_memory_get_stats(&before);
  cn_scope *s = cn_scope_begin();
  kept[0] = cn_keep(cn_detach(cn_sum(cn_exp(x))));
  kept[1] = cn_keep(cn_detach(cn_select(cn_reshape(cn_sum(cn_exp(x)), CN_SHAPE(1, 1)), 0, 0)));
  int saved = cn_no_grad_begin();
  kept[2] = cn_keep(cn_reshape(cn_detach(x), CN_SHAPE(1000, 100)));
  cn_no_grad_end(saved);
  cn_scope_end(s);
  cn_memory_get_stats(&after);
  assert_true(after.in_use - before.in_use < 100000);
  assert_int_equal(cn_err(), 0);
  for (int i = 0; i < 3; i++) {
    assert_true(cn_is_view(kept[i]) && !cn_needs_grad(kept[i]));
    cn_release(kept[i]);
  }
  cn_memory_set_caching(true);
}

/* ---- what bindings need ---- */

static void test_backward_of_several(void **state)
{
  (void)state;
  cn_tensor *x = LEAF(1, 2), *y = cn_mul(x, x), *outs[2] = {cn_sum(y), cn_sum(cn_mul(y, cn_num(3)))};
  assert_int_equal(cn_backward_all(outs, 2, NULL), 0);
  ASSERT_VALUES(cn_grad_of(x), 8, 16);
  outs[0] = y;
  assert_true(cn_backward_all(outs, 2, NULL) < 0); /* y has two elements: no gradient given */
  assert_fails(CN_ERR_GRAD, "gradient must be given");
}

static cn_tensor *tally_call(cn_tensor *grad, void *payload)
{
  (void)grad;
  ++*(int *)payload;
  return NULL;
}
static void tally_free(void *payload) { *(int *)payload += 100; }

static void test_hook_owns_its_payload(void **state)
{
  (void)state;
  int a = 0, b = 0, c = 0, after = 0;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = LEAF(1, 2);
  assert_true(cn_hook_add_after(x, tally_call, &after, tally_free) > 0 && cn_sum(x) != NULL);
  int64_t id = cn_hook_add_owned(x, tally_call, &a, tally_free);
  assert_true(id > 0 && cn_hook_add_owned(x, tally_call, &b, tally_free) > id);
  cn_backward(cn_sum(x));
  assert_int_equal(cn_hook_remove(x, id), 0);
  assert_int_equal(a, 101);
  assert_true(cn_hook_add_owned(cn_ones(CN_SHAPE(1)), tally_call, &c, tally_free) < 0);
  assert_fails(CN_ERR_GRAD, "hook");
  assert_int_equal(c, 100);
  assert_true(cn_hook_add_after(cn_mul(x, x), tally_call, &c, tally_free) < 0); /* not a leaf */
  assert_fails(CN_ERR_GRAD, "leaves");
  cn_scope_end(s);
  assert_true(b == 101 && after == 101 && c == 200);
}

static void test_record_can_be_read(void **state)
{
  (void)state;
  int result = -1;
  cn_tensor *x = LEAF(1, 2), *y = cn_sum(cn_mul(x, cn_num(2)));
  cn_node *sum = cn_node_of(y, &result), *mul = cn_node_input(sum, 0, NULL), *leaf = cn_node_input(mul, 0, NULL);
  assert_int_equal(result, 0);
  assert_string_equal(cn_node_name(sum), "sum");
  assert_string_equal(cn_node_name(mul), "mul");
  assert_string_equal(cn_node_name(leaf), "leaf");
  cn_node *loss = cn_node_of(cn_mse_loss(x, cn_detach(x)), NULL);
  assert_true(!strcmp(cn_node_call(loss), "mse_loss") && !strcmp(cn_node_call(mul), "mul"));
  cn_node_release(loss);
  assert_int_equal(cn_node_ninputs(mul), 2);
  assert_null(cn_node_input(mul, 1, NULL));
  assert_null(cn_node_input(mul, 2, NULL));
  assert_null(cn_node_of(cn_ones(CN_SHAPE(1)), NULL));
  cn_node_release(sum);
  cn_node_release(mul);
  cn_node_release(leaf);
  assert_true(!cn_retains_grad(y) && cn_retain_grad(y) == 0 && cn_retains_grad(y));
  assert_true(!cn_inference_enabled() && !cn_is_inference(x));
  int saved = cn_inference_begin();
  assert_true(cn_inference_enabled() && cn_is_inference(cn_ones(CN_SHAPE(1))));
  cn_inference_end(saved);
}

static int twice_forward(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs)
{
  outputs[0] = cn_mul_(inputs[0], cn_num(2));
  return cn_context_mark_dirty(ctx, 0);
}
static int twice_backward(cn_context *ctx, cn_tensor **gin, cn_tensor *const *g)
{
  (void)ctx;
  gin[0] = cn_mul(g[0], cn_num(2));
  return 0;
}

static void test_custom_function_in_place(void **state)
{
  (void)state;
  static const cn_function twice = {sizeof(cn_function), "twice", twice_forward, twice_backward, NULL};
  cn_tensor *x = LEAF(1, 2, 3), *y = cn_mul(x, x), *part = cn_narrow(y, 0, 1, 2), *out = NULL;
  assert_int_equal(cn_function_apply(&out, 1, &twice, &part, 1, NULL), 0);
  assert_ptr_equal(out, part);
  ASSERT_VALUES(y, 1, 8, 18);
  assert_int_equal(cn_backward(cn_sum(y)), 0); /* the base of the written view has the new history too */
  ASSERT_VALUES(cn_grad_of(x), 2, 8, 12);
  assert_true(cn_function_apply(&out, 1, &twice, &x, 1, NULL) < 0);
  assert_fails(CN_ERR_GRAD, "leaf");
}

/* (x * y, sum of exp(x)) */
static int two_results(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  ++*(int *)payload;
  out[0] = cn_mul(in[0], in[1]);
  out[1] = cn_sum(cn_exp(in[0]));
  return cn_err();
}

static int one_constant(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_mul(in[0], payload ? (cn_tensor *)payload : cn_num(3));
  if (!payload) out[1] = cn_ones(CN_SHAPE(2));
  return cn_err();
}

static void test_forward_mode(void **state)
{
  (void)state;
  int calls = 0;
  cn_tensor *x = LEAF(0, 1), *y = LEAF(3, 4), *in[2] = {x, y}, *out[2], *change[2];
  cn_tensor *v[2] = {cn_floats((const float[]){1, 2}, 2), cn_floats((const float[]){10, 20}, 2)};
  assert_int_equal(cn_jvp(out, change, 2, two_results, in, v, 2, &calls), 0);
  assert_int_equal(calls, 1);
  ASSERT_VALUES(out[0], 0, 4);
  ASSERT_VALUES(change[0], 3, 28);              /* y dx + x dy */
  ASSERT_VALUES(change[1], 1 + 2 * expf(1.0f)); /* exp(x) dx */
  assert_true(!cn_needs_grad(out[0]) && !cn_needs_grad(change[0]) && !cn_grad_of(x));
  v[0] = NULL; /* x stays */
  assert_int_equal(cn_jvp(NULL, change, 2, two_results, in, v, 2, &calls), 0);
  ASSERT_VALUES(change[0], 0, 20);
  ASSERT_VALUES(change[1], 0);
  v[0] = y;
  assert_int_equal(cn_jvp(NULL, change, 2, one_constant, in, v, 1, NULL), 0);
  ASSERT_VALUES(change[0], 9, 12);
  ASSERT_VALUES(change[1], 0, 0); /* does not depend on the input */
  assert_int_equal(cn_jvp(NULL, change, 1, one_constant, in, v, 1, y, .create_graph = true), 0);
  assert_int_equal(cn_backward(cn_sum(change[0])), 0); /* y v, and v is y */
  ASSERT_VALUES(cn_grad_of(y), 6, 8);
  v[0] = cn_ones(CN_SHAPE(3));
  assert_true(cn_jvp(NULL, change, 2, two_results, in, v, 2, &calls) < 0);
  assert_fails(CN_ERR_SHAPE, "tangent");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_leaf_and_result), TEST(test_accumulates_until_zeroed), TEST(test_seed_gradient),
    TEST(test_a_gradient_used_twice_is_not_shared), TEST(test_broadcast_sums_back), TEST(test_types_that_cannot),
    TEST(test_second_backward), TEST(test_higher_order), TEST(test_grad_of_chosen),
    TEST(test_retained_gradient_of_a_result), TEST(test_no_grad_and_inference), TEST(test_detach),
    TEST(test_anomaly_names_the_op), TEST(test_hooks), TEST(test_custom_function),
    TEST(test_custom_function_notices_changes), TEST(test_checkpoint_equals_plain),
    TEST(test_inplace_on_leaf_is_refused), TEST(test_inplace_on_result), TEST(test_stale_saved_value),
    TEST(test_write_through_view_reaches_base), TEST(test_write_through_view_of_view),
    TEST(test_base_write_reaches_view), TEST(test_sibling_views), TEST(test_copy_into_plain_base),
    TEST(test_copy_of_a_dependent_value_makes_no_cycle), TEST(test_overlapping_write_is_refused),
    TEST(test_long_chain), TEST(test_long_chain_dropped_without_backward), TEST(test_recursion_is_just_c),
    TEST(test_threads_share_for_reading), TEST(test_gradcheck), TEST(test_backward_of_several),
    TEST(test_detached_keeps_no_record), TEST(test_hook_owns_its_payload), TEST(test_record_can_be_read),
    TEST(test_custom_function_in_place), TEST(test_forward_mode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
