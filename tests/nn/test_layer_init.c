/* test_layer_init.c: what layers begin with: PyTorch's distributions, by bounds and moments of many elements; and the
 * constructors in C, by what they make. */
#include <cairn/cairn.h>
#include <math.h>

#include "test.h"

static double moment(cn_tensor *t, double power)
{
  return cn_item(cn_mean(cn_pow(cn_cast(cn_detach(t), CN_F64), cn_num(power))));
}

/* Uniform in +-bound: nothing outside, the ends reached, mean and variance within five standard errors. */
static void is_uniform(cn_module *m, const char *name, double bound)
{
  cn_tensor *t = cn_module_get(m, name);
  assert_non_null(t);
  double n = (double)cn_numel(t), variance = bound * bound / 3;
  double largest = cn_item(cn_max(cn_abs(cn_detach(t))));
  assert_true(largest <= bound * (1 + 1e-6));
  assert_true(largest >= bound * (1 - 20 / n));
  assert_float_equal(moment(t, 1), 0, 5 * sqrt(variance / n));
  assert_float_equal(moment(t, 2) / variance, 1, 5 * sqrt(0.8 / n));
}

static void is_normal(cn_tensor *t)
{
  double n = (double)cn_numel(t);
  assert_float_equal(moment(t, 1), 0, 5 / sqrt(n));
  assert_float_equal(moment(t, 2), 1, 5 * sqrt(2 / n));
  assert_float_equal(moment(t, 4), 3, 5 * sqrt(96 / n));
}

static void is_constant(cn_module *m, const char *name, double value)
{
  cn_tensor *t = cn_module_get(m, name);
  assert_non_null(t);
  assert_true(cn_item(cn_all(cn_eq(t, cn_num(value)))) != 0);
}

static void convolutions(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = cn_nn_conv1d(40, 50, 5);
  is_uniform(m, "weight", 1 / sqrt(200));
  cn_module_release(m);
  m = cn_nn_conv2d(64, 128, 3, .groups = 4);
  is_uniform(m, "weight", 1 / sqrt(16 * 9));
  is_uniform(m, "bias", 1 / sqrt(16 * 9));
  cn_module_release(m);
  m = cn_nn_conv3d(8, 512, 3);
  is_uniform(m, "weight", 1 / sqrt(8 * 27));
  is_uniform(m, "bias", 1 / sqrt(8 * 27));
  cn_module_release(m);
  m = cn_nn_conv_transpose2d(32, 64, 3, .groups = 2); /* the fan is that of the results */
  is_uniform(m, "weight", 1 / sqrt(32 * 9));
  is_uniform(m, "bias", 1 / sqrt(32 * 9));
  cn_module_release(m);
  cn_scope_end(s);
}

static void matrices(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = cn_nn_linear(100, 300);
  is_uniform(m, "weight", 0.1);
  is_uniform(m, "bias", 0.1);
  cn_module_release(m);
  m = cn_nn_bilinear(25, 30, 40);
  is_uniform(m, "weight", 0.2);
  is_uniform(m, "bias", 0.2);
  cn_module_release(m);
  m = cn_nn_linear(0, 4); /* no fan at all */
  is_constant(m, "bias", 0);
  cn_module_release(m);
  cn_scope_end(s);
}

static void tables(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = cn_nn_embedding(1000, 32);
  is_normal(cn_module_get(m, "weight"));
  cn_module_release(m);
  m = cn_nn_embedding(1000, 32, .padding_idx = -2);
  assert_float_equal(moment(cn_select(cn_module_get(m, "weight"), 0, 998), 2), 0, 0);
  assert_true(moment(cn_select(cn_module_get(m, "weight"), 0, 999), 2) > 0);
  cn_module_release(m);
  m = cn_nn_embedding_bag(1000, 32, .padding_idx = CN_ZERO);
  is_normal(cn_narrow(cn_module_get(m, "weight"), 0, 1, 999));
  assert_float_equal(moment(cn_select(cn_module_get(m, "weight"), 0, 0), 2), 0, 0);
  cn_module_release(m);
  cn_tensor *own = cn_rand(CN_SHAPE(4, 2));
  m = cn_nn_embedding(4, 2, ._weight = own, ._freeze = true);
  assert_false(cn_needs_grad(cn_module_get(m, "weight")));
  assert_ptr_equal(cn_data(own), cn_data(cn_module_get(m, "weight"))); /* as PyTorch's from_pretrained shares it */
  cn_module_release(m);
  m = cn_nn_prelu(.num_parameters = 7, .init = 0.3, .dtype = CN_F64);
  is_constant(m, "weight", 0.3);
  assert_int_equal(cn_numel(cn_module_get(m, "weight")), 7);
  cn_module_release(m);
  cn_scope_end(s);
}

static void makes(cn_module *m, const char *text)
{
  char *own = cn_module_to_string(m);
  if (!m) print_error("%s\n", cn_err_message());
  assert_non_null(own);
  assert_string_equal(own, text);
  cn_string_free(own);
  cn_module_release(m);
}

static void constructors(void **state)
{
  (void)state;
  makes(cn_nn_conv2d(3, 64, 7, .stride = CN_INTS(2), .padding = CN_INTS(3), .no_bias = true),
        "Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False)");
  makes(cn_nn_conv2d(3, 6, 0, .kernel_size_each = CN_INTS(3, 5), .padding_str = "same", .padding_mode = "reflect"),
        "Conv2d(3, 6, kernel_size=(3, 5), stride=(1, 1), padding=same, padding_mode=reflect)");
  makes(cn_nn_conv_transpose1d(4, 2, 3, .stride = CN_INTS(2), .output_padding = CN_INTS(1)),
        "ConvTranspose1d(4, 2, kernel_size=(3,), stride=(2,), output_padding=(1,))");
  makes(cn_nn_max_pool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
  makes(cn_nn_max_pool2d(3, .stride = CN_INTS(2, 1), .padding = CN_INTS(1)),
        "MaxPool2d(kernel_size=3, stride=(2, 1), padding=1, dilation=1, ceil_mode=False)");
  makes(cn_nn_adaptive_avg_pool2d(0, .output_size_each = CN_INTS(7, CN_NONE)),
        "AdaptiveAvgPool2d(output_size=(7, None))");
  makes(cn_nn_dropout(.p = CN_ZERO), "Dropout(p=0.0, inplace=False)");
  makes(cn_nn_leaky_relu(.negative_slope = 0.2), "LeakyReLU(negative_slope=0.2)");
  makes(cn_nn_rrelu(), "RReLU(lower=0.125, upper=0.3333333333333333)");
  makes(cn_nn_threshold(100000, 1e16), "Threshold(threshold=100000.0, value=1e+16)");
  makes(cn_nn_softplus(.beta = 12.5), "Softplus(beta=12.5, threshold=20.0)");
  makes(cn_nn_reflection_pad2d(1), "ReflectionPad2d((1, 1, 1, 1))");
  makes(cn_nn_constant_pad1d(0, 1e-5, .padding_each = CN_INTS(1, 2)), "ConstantPad1d(padding=(1, 2), value=1e-05)");
  makes(cn_nn_flatten(), "Flatten(start_dim=1, end_dim=-1)");
  makes(cn_nn_unflatten(1, CN_SHAPE(2, 3)), "Unflatten(dim=1, unflattened_size=(2, 3))");
  makes(cn_nn_upsample(.scale_factor = CN_DOUBLES(2)),
        "Upsample(scale_factor=2.0, mode='nearest')");
  makes(cn_nn_embedding(10, 3, .padding_idx = CN_ZERO, .max_norm = 1), "Embedding(10, 3, padding_idx=0, max_norm=1.0)");
}

/* With inplace set the result is the input, written over. */
static void writes_into_input(void **state)
{
  (void)state;
  cn_module *all[] = {
    cn_nn_relu(.inplace = true),       cn_nn_relu6(.inplace = true),       cn_nn_selu(.inplace = true),
    cn_nn_elu(.inplace = true),        cn_nn_celu(.inplace = true),        cn_nn_silu(.inplace = true),
    cn_nn_mish(.inplace = true),       cn_nn_rrelu(.inplace = true),       cn_nn_hardtanh(.inplace = true),
    cn_nn_hardswish(.inplace = true),  cn_nn_dropout(.inplace = true),     cn_nn_threshold(0, 1, .inplace = true),
    cn_nn_leaky_relu(.inplace = true), cn_nn_hardsigmoid(.inplace = true), cn_nn_alpha_dropout(.inplace = true)};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_add(cn_rand(CN_SHAPE(2, 3)), cn_num(-0.5));
    cn_tensor *y = cn_forward(all[i], x);
    assert_non_null(y);
    assert_ptr_equal(cn_data(x), cn_data(y));
    cn_scope_end(s);
    cn_module_release(all[i]);
  }
}

/* Messages say which class and what to do. */
static void refuses(cn_module *m, const char *words)
{
  assert_null(m);
  if (!strstr(cn_err_message(), words)) fail_msg("\"%s\" does not say \"%s\"", cn_err_message(), words);
  cn_err_clear();
}

static void errors(void **state)
{
  (void)state;
  refuses(cn_nn_conv2d(3, 4, 3, .groups = 2), "Conv2d: in_channels (3)");
  refuses(cn_nn_conv2d(3, 4, 3, .groups = -1), "groups is -1");
  refuses(cn_nn_conv1d(3, 4, -3), "kernel_size");
  refuses(cn_nn_conv1d(3, 4, 3, .padding_str = "full"), "'same' or 'valid', not 'full'");
  refuses(cn_nn_conv1d(3, 4, 3, .padding_str = "same", .stride = CN_INTS(2)), "stride of 1");
  refuses(cn_nn_conv_transpose3d(3, 4, 3, .padding_mode = "circular"), "ConvTranspose3d: only");
  refuses(cn_nn_dropout(.p = 2), "Dropout: p is a probability");
  refuses(cn_nn_embedding(4, 2, .padding_idx = 4), "padding_idx");
  refuses(cn_nn_embedding_bag(4, 2, .mode = "all"), "'all'");
  refuses(cn_nn_upsample(.mode = "bilinear"), "either size or scale_factor");
  refuses(cn_nn_fractional_max_pool2d(2), "either output_size or output_ratio");
  refuses(cn_nn_prelu(.num_parameters = -1), "num_parameters");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(convolutions), cmocka_unit_test(matrices), cmocka_unit_test(tables),
    cmocka_unit_test(constructors), cmocka_unit_test(errors),   cmocka_unit_test(writes_into_input),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
