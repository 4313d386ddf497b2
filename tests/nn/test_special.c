/* test_special.c: what golden files do not show of layers: other types, captured steps, equality of classes, methods
 * besides forward, and every allocation failing in turn. */
#include <cairn/cairn.h>
#include <math.h>

#include "test.h"

static bool equal(cn_tensor *a, cn_tensor *b) { return cn_item(cn_all(cn_eq(a, b))) != 0; }
static bool close_to(cn_tensor *a, cn_tensor *b, double tol)
{
  return cn_item(cn_max(cn_abs(cn_sub(cn_cast(a, CN_F64), cn_cast(b, CN_F64))))) <= tol;
}

static void sync_batch_norm_of_one_process(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *a = cn_nn_sync_batch_norm(3), *b = cn_nn_batch_norm2d(3);
  cn_tensor *x = cn_randn(CN_SHAPE(4, 3, 2, 2));
  assert_true(equal(cn_forward(a, x), cn_forward(b, x)));
  assert_true(equal(cn_module_get(a, "running_var"), cn_module_get(b, "running_var")));
  assert_int_equal(cn_item_int(cn_module_get(a, "num_batches_tracked")), 1);
  cn_module_release(a);
  cn_module_release(b);
  cn_scope_end(s);
}

/* NAN stands for None: the mean of all batches. */
static void cumulative_statistics(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = cn_nn_batch_norm1d(2, .momentum = NAN);
  cn_tensor *sum = cn_zeros(CN_SHAPE(2));
  for (int i = 0; i < 3; i++) {
    cn_tensor *x = cn_randn(CN_SHAPE(5, 2));
    cn_forward(m, x);
    sum = cn_add(sum, cn_mean(x, .dim = CN_INTS(0)));
  }
  assert_true(close_to(cn_module_get(m, "running_mean"), cn_div(sum, cn_num(3)), 1e-6));
  cn_module_release(m);
  cn_scope_end(s);
}

static int captured_forward(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_forward_one(payload, in, 1);
  return cn_err();
}

/* A captured call gives what an eager one gives, buffers included. */
static void captures(cn_module *m, cn_tensor *x)
{
  cn_scope *s = cn_scope_begin();
  assert_non_null(m);
  cn_module *copy = cn_module_copy(m);
  cn_graph *g = cn_trace(captured_forward, 1, &x, 1, copy);
  assert_non_null(g);
  cn_tensor *y;
  for (int turn = 0; turn < 2; turn++) {
    assert_int_equal(cn_graph_run(&y, g, &x), 0);
    assert_true(close_to(y, cn_forward(m, x), 1e-5));
  }
  cn_tree *a = cn_module_state(m), *b = cn_module_state(copy);
  for (size_t i = 0; i < cn_tree_size(a); i++)
    assert_true(close_to(cn_tree_as_tensor(cn_tree_at(a, i)), cn_tree_as_tensor(cn_tree_at(b, i)), 1e-6));
  cn_tree_free(a);
  cn_tree_free(b);
  cn_graph_free(g);
  cn_module_release(copy);
  cn_module_release(m);
  cn_scope_end(s);
}

static void calls_can_be_captured(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  captures(cn_nn_batch_norm2d(3), cn_randn(CN_SHAPE(4, 3, 2, 2)));
  captures(cn_nn_batch_norm2d(3, .momentum = NAN), cn_randn(CN_SHAPE(4, 3, 2, 2)));
  captures(cn_nn_instance_norm1d(3, .track_running_stats = true), cn_randn(CN_SHAPE(4, 3, 5)));
  captures(cn_nn_lstm(3, 4, .num_layers = 2, .bidirectional = true), cn_randn(CN_SHAPE(5, 2, 3)));
  captures(cn_nn_lstm(3, 4, .proj_size = 2), cn_randn(CN_SHAPE(5, 2, 3)));
  captures(cn_nn_gru(3, 4, .batch_first = true), cn_randn(CN_SHAPE(2, 5, 3)));
  captures(cn_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16, .dropout = CN_ZERO),
           cn_randn(CN_SHAPE(5, 2, 8)));
  cn_no_grad_end(saved);
  cn_scope_end(s);
}

static void small_floats(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  static const cn_dtype types[] = {CN_BF16, CN_F16, CN_F64};
  for (int i = 0; i < 3; i++) {
    cn_module *lstm = cn_nn_lstm(3, 4, .num_layers = 2, .dtype = types[i]);
    cn_module *attention = cn_nn_multihead_attention(8, 2, .dtype = types[i]);
    cn_module *norm = cn_nn_batch_norm1d(4, .dtype = types[i]);
    cn_tensor *x = cn_randn(CN_SHAPE(5, 2, 3), .dtype = types[i]), *y = cn_forward(lstm, x);
    assert_int_equal(cn_dtype_of(y), types[i]);
    assert_int_equal(cn_backward(cn_sum(y)), 0);
    assert_int_equal(cn_dtype_of(cn_grad_of(cn_module_get(lstm, "weight_hh_l1"))), types[i]);
    cn_tensor *q = cn_randn(CN_SHAPE(5, 2, 8), .dtype = types[i]);
    assert_int_equal(cn_dtype_of(cn_forward(attention, q, q, q)), types[i]);
    assert_int_equal(cn_dtype_of(cn_forward(norm, cn_randn(CN_SHAPE(6, 4), .dtype = types[i]))), types[i]);
    assert_int_equal(cn_dtype_of(cn_module_get(norm, "num_batches_tracked")), CN_I64);
    cn_module_release(lstm);
    cn_module_release(attention);
    cn_module_release(norm);
  }
  cn_scope_end(s);
}

/* Asking for the weights changes how the output is computed, not what it is. */
static void attention_with_and_without_weights(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = cn_nn_multihead_attention(8, 2, .batch_first = true);
  cn_tensor *x = cn_randn(CN_SHAPE(3, 6, 8)), *out[2];
  assert_int_equal(cn_forward_all(out, 2, m, CN_TENSORS(x, x, x)), 0);
  assert_true(close_to(out[0], cn_forward(m, x, x, x), 1e-6));
  assert_true(close_to(cn_sum(out[1], .dim = CN_INTS(-1)), cn_ones(CN_SHAPE(3, 6)), 1e-5));
  cn_module_release(m);
  cn_scope_end(s);
}

static void masks_look_back(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *mask = cn_nn_square_subsequent_mask(3, CN_DTYPE_NONE, CN_DEVICE_DEFAULT);
  static const float wanted[] = {0, -INFINITY, -INFINITY, 0, 0, -INFINITY, 0, 0, 0};
  assert_true(equal(mask, cn_from_data(wanted, CN_SHAPE(3, 3), CN_F32)));
  assert_null(cn_nn_square_subsequent_mask(-1, CN_DTYPE_NONE, CN_DEVICE_DEFAULT));
  cn_err_clear();
  cn_scope_end(s);
}

static void adaptive_softmax_of_all_classes(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = cn_nn_adaptive_log_softmax_with_loss(8, 12, CN_SHAPE(4, 7), .div_value = 2);
  cn_tensor *x = cn_mul(cn_randn(CN_SHAPE(12, 8)), cn_num(4)), *all = cn_nn_adaptive_log_prob(m, x);
  assert_true(close_to(cn_sum(cn_exp(all), .dim = CN_INTS(1)), cn_ones(CN_SHAPE(12)), 1e-5));
  cn_tensor *classes = cn_arange(0, 12, .dtype = CN_I64);
  cn_tensor *picked = cn_flatten(cn_gather(all, 1, cn_unsqueeze(classes, 1)));
  assert_true(close_to(picked, cn_forward(m, x, classes), 1e-5));
  assert_true(equal(cn_nn_adaptive_predict(m, x), cn_argmax(all, 1)));
  cn_module *linear = cn_nn_linear(8, 12);
  assert_null(cn_nn_adaptive_log_prob(linear, x));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  cn_err_clear();
  cn_module_release(linear);
  cn_module_release(m);
  cn_scope_end(s);
}

/* Stacks hold copies: the given layer stays the caller's, and layers do not share parameters. */
static void stacks_copy_their_layer(void **state)
{
  (void)state;
  cn_module *layer = cn_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16);
  cn_module *m = cn_nn_transformer_encoder(cn_module_keep(layer), 3, .norm = cn_nn_layer_norm(CN_SHAPE(8)));
  assert_int_equal(cn_module_count(m, false), 3 * cn_module_count(layer, false) + 16);
  cn_module_release(layer);
  cn_module_release(m);
}

/* ---- failing allocations ---- */

static cn_module *make_kind(int kind)
{
  static const float weight[] = {1, 2, 3, 4};
  switch (kind) {
  case 0: return cn_nn_batch_norm1d(4, .momentum = NAN);
  case 1: return cn_nn_lstm(4, 4, .num_layers = 2, .bidirectional = true);
  case 2: return cn_nn_gru(4, 2);
  case 3:
    return cn_nn_transformer_encoder(cn_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 4), 1,
                                     .norm = cn_nn_layer_norm(CN_SHAPE(4)));
  case 4: return cn_nn_sequential(cn_nn_rms_norm(CN_SHAPE(4)), cn_nn_group_norm(1, 2), cn_nn_instance_norm1d(2));
  default: {
    cn_scope *s = cn_scope_begin();
    cn_module *m = cn_nn_cross_entropy_loss(.weight = cn_floats(weight, 4));
    cn_scope_end(s);
    return m;
  }
  }
}

static void run_kind(cn_module *m, int kind)
{
  cn_tensor *y;
  if (kind == 0) y = cn_forward(m, cn_ones(CN_SHAPE(3, 4)));
  else if (kind == 5)
    y = cn_forward(m, cn_requires_grad(cn_ones(CN_SHAPE(3, 4)), true), cn_zeros(CN_SHAPE(3), .dtype = CN_I64));
  else y = cn_forward(m, cn_ones(CN_SHAPE(3, 2, 4)));
  if (y) cn_backward(cn_sum(y));
}

static void survives_failing_memory(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  for (int kind = 0; kind < 6; kind++) {
    bool done = false;
    for (uint64_t k = 1; k < 1000000 && !done; k += k < 60 ? 1 : 17) {
      cn_scope *s = cn_scope_begin();
      cn_memory_fail_at(k);
      cn_module *m = make_kind(kind);
      if (m && !cn_err()) run_kind(m, kind);
      cn_memory_fail_at(0);
      done = !cn_err();
      if (!done) assert_int_equal(cn_err(), CN_ERR_MEMORY);
      cn_err_clear();
      cn_module_release(m);
      cn_scope_end(s);
    }
    assert_true(done);
  }
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sync_batch_norm_of_one_process), cmocka_unit_test(cumulative_statistics),
    cmocka_unit_test(calls_can_be_captured),          cmocka_unit_test(small_floats),
    cmocka_unit_test(attention_with_and_without_weights), cmocka_unit_test(masks_look_back),
    cmocka_unit_test(adaptive_softmax_of_all_classes), cmocka_unit_test(stacks_copy_their_layer),
    cmocka_unit_test(survives_failing_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
