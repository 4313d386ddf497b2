/* test_init.c: initialisers: bounds, moments and shapes of their distributions; seeds repeat; how layers start. */
#include <cairn/cairn.h>
#include <math.h>

#include "test.h"

/* What a sample of n numbers may be off by: six standard deviations of its mean and of its variance. */
static void has_moments(cn_tensor *t, double mean, double std)
{
  double n = (double)cn_numel(t), m = cn_item(cn_mean(t)), v = cn_item(cn_mean(cn_square(cn_sub(t, cn_num(mean)))));
  assert_true(fabs(m - mean) <= 6 * std / sqrt(n) + 1e-6);
  assert_true(fabs(v - std * std) <= 6 * std * std * sqrt(2 / n) + 1e-6);
}

static double least(cn_tensor *t) { return cn_item(cn_min(t)); }
static double most(cn_tensor *t) { return cn_item(cn_max(t)); }

/* Uniform in +-bound: no number outside, some near the ends, and the right variance. */
static void is_uniform(cn_tensor *t, double bound)
{
  assert_true(least(t) >= -bound * 1.0001 && most(t) <= bound * 1.0001);
  assert_true(least(t) < -bound * 0.9 && most(t) > bound * 0.9);
  has_moments(t, 0, bound / sqrt(3));
}

static void plain_distributions(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(1);
  cn_tensor *t = cn_requires_grad(cn_empty(CN_SHAPE(100, 80)), true);
  assert_int_equal(cn_init_uniform(t, -1, 3), 0);
  assert_true(least(t) >= -1 && most(t) <= 3 && most(t) > 2.9);
  has_moments(t, 1, 4 / sqrt(12));
  assert_int_equal(cn_init_uniform(t, 0, 2), 0); /* a bound of zero is not the default */
  assert_true(least(t) >= 0 && most(t) > 1.9);
  assert_int_equal(cn_init_uniform(t, 0, 0), 0);
  assert_true(most(t) == 0 && least(t) == 0);
  assert_int_equal(cn_init_normal(t, 0, 0.5), 0);
  has_moments(t, 0, 0.5);
  assert_int_equal(cn_init_normal(t, -2, 3), 0);
  has_moments(t, -2, 3);
  assert_int_equal(cn_init_constant(t, 7), 0);
  assert_true(least(t) == 7 && most(t) == 7);
  assert_int_equal(cn_init_ones(t), 0);
  assert_true(least(t) == 1);
  assert_int_equal(cn_init_zeros(t), 0);
  assert_true(most(t) == 0);
  assert_true(cn_is_leaf(t) && cn_needs_grad(t)); /* nothing was recorded */
  assert_int_equal(cn_init_uniform(t, 1, -1), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_init_normal(t, 0, -1), CN_ERR_VALUE);
  cn_err_clear();
  cn_scope_end(s);
}

static void seeds_repeat(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *a = cn_empty(CN_SHAPE(20, 30)), *b = cn_empty(CN_SHAPE(20, 30));
  for (int i = 0; i < 4; i++)
    for (int turn = 0; turn < 2; turn++) {
      cn_tensor *t = turn ? b : a;
      cn_seed(42);
      if (i == 0) cn_init_kaiming_uniform(t);
      else if (i == 1) cn_init_orthogonal(t, 1);
      else if (i == 2) cn_init_trunc_normal(t, 0, 1, -2, 2);
      else cn_init_sparse(t, 0.5, 1);
      if (turn) assert_true(cn_item(cn_all(cn_eq(a, b))));
    }
  cn_scope_end(s);
}

static void fans_scale(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(2);
  cn_tensor *t = cn_empty(CN_SHAPE(60, 30, 3, 3)); /* fan in 270, fan out 540 */
  assert_int_equal(cn_init_xavier_uniform(t, 2), 0);
  is_uniform(t, 2 * sqrt(6.0 / 810));
  assert_int_equal(cn_init_xavier_normal(t, 1), 0);
  has_moments(t, 0, sqrt(2.0 / 810));
  assert_int_equal(cn_init_kaiming_uniform(t), 0);
  is_uniform(t, sqrt(6.0 / 270));
  assert_int_equal(cn_init_kaiming_uniform(t, .a = sqrt(5)), 0);
  is_uniform(t, 1 / sqrt(270));
  assert_int_equal(cn_init_kaiming_normal(t, .mode = "fan_out", .nonlinearity = "relu"), 0);
  has_moments(t, 0, sqrt(2.0 / 540));
  assert_int_equal(cn_init_kaiming_normal(t, .nonlinearity = "tanh"), 0);
  has_moments(t, 0, 5.0 / 3 / sqrt(270));
  assert_int_equal(cn_init_kaiming_normal(t, .mode = "fan"), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_init_kaiming_normal(t, .nonlinearity = "cosine"), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_init_xavier_normal(cn_empty(CN_SHAPE(4)), 1), CN_ERR_SHAPE);
  cn_err_clear();
  cn_scope_end(s);
}

static void gains(void **state)
{
  (void)state;
  assert_true(cn_init_gain("linear", NAN) == 1);
  assert_true(cn_init_gain("conv_transpose3d", NAN) == 1);
  assert_true(fabs(cn_init_gain("tanh", NAN) - 5.0 / 3) < 1e-12);
  assert_true(fabs(cn_init_gain("relu", NAN) - sqrt(2)) < 1e-12);
  assert_true(fabs(cn_init_gain("leaky_relu", NAN) - sqrt(2 / 1.0001)) < 1e-12);
  assert_true(fabs(cn_init_gain("leaky_relu", 0.2) - sqrt(2 / 1.04)) < 1e-12);
  assert_true(cn_init_gain("selu", NAN) == 0.75);
  assert_true(cn_init_gain("swish", NAN) == 0);
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
}

static void truncated(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  cn_tensor *t = cn_empty(CN_SHAPE(200, 100));
  assert_int_equal(cn_init_trunc_normal(t, 0, 1, -2, 2), 0);
  assert_true(least(t) >= -2 && most(t) <= 2);
  has_moments(t, 0, sqrt(0.7737)); /* 1 - 4 phi(2) / (Phi(2) - Phi(-2)) */
  assert_int_equal(cn_init_trunc_normal(t, 1, 0.5, 1, 9), 0); /* one half only */
  assert_true(least(t) >= 1);
  assert_true(fabs(cn_item(cn_mean(t)) - (1 + 0.5 * sqrt(2 / 3.14159265358979))) < 0.02);
  assert_int_equal(cn_init_trunc_normal(t, 0, 1, 2, 2), CN_ERR_VALUE);
  cn_err_clear();
  cn_scope_end(s);
}

static void is_orthogonal(const int64_t *shape, size_t ndim, double gain)
{
  cn_tensor *t = cn_empty(shape, ndim);
  assert_int_equal(cn_init_orthogonal(t, gain), 0);
  cn_tensor *flat = cn_flatten(t, .start_dim = 1);
  int64_t rows = cn_size(flat, 0), columns = cn_size(flat, 1), n = rows < columns ? rows : columns;
  cn_tensor *product = rows < columns ? cn_matmul(flat, cn_t(flat)) : cn_matmul(cn_t(flat), flat);
  cn_tensor *wanted = cn_mul(cn_eye(n, n), cn_num(gain * gain));
  assert_true(cn_item(cn_max(cn_abs(cn_sub(product, wanted)))) < 1e-5);
}

static void matrices(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(4);
  is_orthogonal(CN_SHAPE(12, 12), 1);
  is_orthogonal(CN_SHAPE(5, 12), 2);
  is_orthogonal(CN_SHAPE(20, 3, 2, 2), 0.5);
  cn_tensor *t = cn_empty(CN_SHAPE(3, 5));
  assert_int_equal(cn_init_eye(t), 0);
  assert_true(cn_item(cn_all(cn_eq(t, cn_eye(3, 5)))));
  assert_int_equal(cn_init_eye(cn_empty(CN_SHAPE(3))), CN_ERR_SHAPE);
  cn_err_clear();
  t = cn_empty(CN_SHAPE(50, 40));
  assert_int_equal(cn_init_sparse(t, 0.3, 0.01), 0);
  cn_tensor *zeros = cn_sum(cn_cast(cn_eq(t, cn_num(0)), CN_I64), .dim = CN_INTS(0));
  assert_true(least(zeros) == 15 && most(zeros) == 15);
  assert_true(most(t) < 0.06);
  cn_scope_end(s);
}

/* A convolution with this weight gives its input back, in each group. */
static void dirac_changes_nothing(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = cn_empty(CN_SHAPE(4, 4, 3, 5)), *x = cn_randn(CN_SHAPE(2, 4, 6, 7));
  assert_int_equal(cn_init_dirac(w, 1), 0);
  cn_tensor *y = cn_conv2d(x, w, NULL, .padding = CN_INTS(1, 2));
  assert_true(cn_item(cn_allclose(x, y)));
  w = cn_empty(CN_SHAPE(4, 2, 3));
  assert_int_equal(cn_init_dirac(w, 2), 0);
  x = cn_randn(CN_SHAPE(2, 4, 6));
  assert_true(cn_item(cn_allclose(x, cn_conv1d(x, w, NULL, .padding = CN_INTS(1), .groups = 2))));
  assert_int_equal(cn_init_dirac(w, 3), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_init_dirac(cn_empty(CN_SHAPE(3, 3)), 1), CN_ERR_SHAPE);
  cn_err_clear();
  cn_scope_end(s);
}

/* ---- how layers start ---- */

static void starts_uniform(cn_module *m, const char *name, double bound)
{
  cn_tensor *t = cn_module_get(m, name);
  assert_non_null(t);
  assert_true(least(t) >= -bound * 1.0001 && most(t) <= bound * 1.0001);
  if (cn_numel(t) > 500) is_uniform(t, bound);
}

static void layers_start_as_in_pytorch(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  cn_module *m = cn_nn_linear(100, 60);
  starts_uniform(m, "weight", 0.1);
  starts_uniform(m, "bias", 0.1);
  cn_module_release(m);
  m = cn_nn_lstm(20, 25, .num_layers = 2, .bidirectional = true, .proj_size = 5);
  starts_uniform(m, "weight_ih_l0", 0.2);
  starts_uniform(m, "weight_hh_l1_reverse", 0.2);
  starts_uniform(m, "bias_hh_l0", 0.2);
  starts_uniform(m, "weight_hr_l1", 0.2);
  cn_module_release(m);
  m = cn_nn_gru_cell(30, 16);
  starts_uniform(m, "weight_ih", 0.25);
  starts_uniform(m, "bias_ih", 0.25);
  cn_module_release(m);
  m = cn_nn_multihead_attention(32, 4, .add_bias_kv = true);
  starts_uniform(m, "in_proj_weight", sqrt(6.0 / 128));
  starts_uniform(m, "out_proj.weight", 1 / sqrt(32));
  assert_true(most(cn_abs(cn_module_get(m, "in_proj_bias"))) == 0);
  assert_true(most(cn_abs(cn_module_get(m, "out_proj.bias"))) == 0);
  has_moments(cn_module_get(m, "bias_k"), 0, sqrt(2.0 / 33));
  cn_module_release(m);
  m = cn_nn_transformer(.d_model = 32, .nhead = 2, .num_encoder_layers = 1, .num_decoder_layers = 1,
                        .dim_feedforward = 48);
  starts_uniform(m, "encoder.layers.0.linear1.weight", sqrt(6.0 / 80));
  starts_uniform(m, "decoder.layers.0.multihead_attn.out_proj.weight", sqrt(6.0 / 64));
  cn_module_release(m);
  m = cn_nn_batch_norm2d(7);
  assert_true(least(cn_module_get(m, "weight")) == 1 && most(cn_module_get(m, "bias")) == 0);
  assert_true(least(cn_module_get(m, "running_var")) == 1 && most(cn_module_get(m, "running_mean")) == 0);
  assert_int_equal(cn_item_int(cn_module_get(m, "num_batches_tracked")), 0);
  cn_module_release(m);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(plain_distributions), cmocka_unit_test(seeds_repeat),
    cmocka_unit_test(fans_scale),          cmocka_unit_test(gains),
    cmocka_unit_test(truncated),           cmocka_unit_test(matrices),
    cmocka_unit_test(dirac_changes_nothing), cmocka_unit_test(layers_start_as_in_pytorch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
