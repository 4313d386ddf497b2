/* activation.c: the activations of torch.nn: rows that name an op (one_op.h), and the few that need a line of code. */
#include "one_op.h"

#define ROW .apply = cni_one_op_apply, .print = cni_one_op_print

static int hardtanh_init(cn_module *m, const cn_value *a)
{
  (void)m;
  return a[1].u.f > a[0].u.f ? CN_OK : cn_err_set(CN_ERR_VALUE, "Hardtanh: max_val must be above min_val");
}

/* clang-format off */
static const cni_one_op celu = {
  {CN_MODULE_CLASS, .name = "CELU", .sig = "CELU(float alpha=1.0, bool inplace=False) -> Module ; celu",
   .doc = "x where positive, alpha (exp(x / alpha) - 1) elsewhere.", ROW},
  "celu", "0", "alpha ?inplace"};
static const cni_one_op elu = {
  {CN_MODULE_CLASS, .name = "ELU", .sig = "ELU(float alpha=1.0, bool inplace=False) -> Module ; elu",
   .doc = "x where positive, alpha (exp(x) - 1) elsewhere.", ROW},
  "elu", "0", "alpha ?inplace"};
static const cni_one_op gelu = {
  {CN_MODULE_CLASS, .name = "GELU", .sig = "GELU(str approximate='none') -> Module ; gelu",
   .doc = "x times the normal distribution function of x; approximate 'tanh' uses the form with tanh.", ROW},
  "gelu", "0", "approximate"};
static const cni_one_op glu = {
  {CN_MODULE_CLASS, .name = "GLU", .sig = "GLU(int dim=-1) -> Module ; glu",
   .doc = "The first half along dim times sigmoid of the second.", ROW},
  "glu", "0", "dim"};
static const cni_one_op hardshrink = {
  {CN_MODULE_CLASS, .name = "Hardshrink", .sig = "Hardshrink(float lambd=0.5) -> Module ; hardshrink",
   .doc = "0 within +-lambd, x elsewhere.", ROW},
  "hardshrink", "0", "=lambd"};
static const cni_one_op hardsigmoid = {
  {CN_MODULE_CLASS, .name = "Hardsigmoid", .sig = "Hardsigmoid(bool inplace=False) -> Module ; hardsigmoid",
   .doc = "x / 6 + 1/2, cut to [0, 1].", ROW},
  "hardsigmoid", NULL, NULL};
static const cni_one_op hardswish = {
  {CN_MODULE_CLASS, .name = "Hardswish", .sig = "Hardswish(bool inplace=False) -> Module ; hardswish",
   .doc = "x times hardsigmoid of x.", ROW},
  "hardswish", NULL, NULL};
static const cni_one_op hardtanh = {
  {CN_MODULE_CLASS, .name = "Hardtanh",
   .sig = "Hardtanh(float min_val=-1.0, float max_val=1.0, bool inplace=False) -> Module ; hardtanh",
   .doc = "x cut to [min_val, max_val].", .init = hardtanh_init, ROW},
  "hardtanh", "01", "min_val max_val ?inplace"};
static const cni_one_op leaky_relu = {
  {CN_MODULE_CLASS, .name = "LeakyReLU",
   .sig = "LeakyReLU(float negative_slope=0.01, bool inplace=False) -> Module ; leaky_relu",
   .doc = "x where positive, negative_slope * x elsewhere.", ROW},
  "leaky_relu", "0", "negative_slope ?inplace"};
static const cni_one_op log_sigmoid = {
  {CN_MODULE_CLASS, .name = "LogSigmoid", .sig = "LogSigmoid() -> Module ; log_sigmoid",
   .doc = "Logarithm of the logistic function.", ROW},
  "logsigmoid", NULL, NULL};
static const cni_one_op mish = {
  {CN_MODULE_CLASS, .name = "Mish", .sig = "Mish(bool inplace=False) -> Module ; mish",
   .doc = "x times tanh of softplus of x.", ROW},
  "mish", NULL, "?inplace"};
static const cni_one_op rrelu = {
  {CN_MODULE_CLASS, .name = "RReLU",
   .sig = "RReLU(float lower=0.125, float upper=0.3333333333333333, bool inplace=False) -> Module ; rrelu",
   .doc = "x where positive, elsewhere x times a slope that is drawn from [lower, upper) for each element; in "
          "evaluation their mean.", ROW},
  "rrelu", "01t", "lower upper ?inplace"};
static const cni_one_op relu = {
  {CN_MODULE_CLASS, .name = "ReLU", .sig = "ReLU(bool inplace=False) -> Module ; relu",
   .doc = "x where positive, 0 elsewhere.", ROW},
  "relu", NULL, "?inplace"};
static const cni_one_op relu6 = {
  {CN_MODULE_CLASS, .name = "ReLU6", .sig = "ReLU6(bool inplace=False) -> Module ; relu6",
   .doc = "x cut to [0, 6].", ROW},
  "relu6", NULL, "?inplace"};
static const cni_one_op selu = {
  {CN_MODULE_CLASS, .name = "SELU", .sig = "SELU(bool inplace=False) -> Module ; selu",
   .doc = "ELU with the scales that keep mean 0 and variance 1 through layers.", ROW},
  "selu", NULL, "?inplace"};
static const cni_one_op silu = {
  {CN_MODULE_CLASS, .name = "SiLU", .sig = "SiLU(bool inplace=False) -> Module ; silu",
   .doc = "x times the logistic function of x.", ROW},
  "silu", NULL, "?inplace"};
static const cni_one_op sigmoid = {
  {CN_MODULE_CLASS, .name = "Sigmoid", .sig = "Sigmoid() -> Module ; sigmoid",
   .doc = "The logistic function, 1 / (1 + exp(-x)).", ROW},
  "sigmoid", NULL, NULL};
static const cni_one_op softplus = {
  {CN_MODULE_CLASS, .name = "Softplus", .sig = "Softplus(float beta=1.0, float threshold=20.0) -> Module ; softplus",
   .doc = "log(1 + exp(beta * x)) / beta; x itself where beta * x is above threshold.", ROW},
  "softplus", "01", "beta threshold"};
static const cni_one_op softshrink = {
  {CN_MODULE_CLASS, .name = "Softshrink", .sig = "Softshrink(float lambd=0.5) -> Module ; softshrink",
   .doc = "x moved towards 0 by lambd, and 0 within +-lambd.", ROW},
  "softshrink", "0", "=lambd"};
static const cni_one_op softsign = {
  {CN_MODULE_CLASS, .name = "Softsign", .sig = "Softsign() -> Module ; softsign",
   .doc = "x / (1 + |x|).", ROW},
  "softsign", NULL, NULL};
static const cni_one_op tanh_row = {
  {CN_MODULE_CLASS, .name = "Tanh", .sig = "Tanh() -> Module ; tanh",
   .doc = "Hyperbolic tangent.", ROW},
  "tanh", NULL, NULL};
static const cni_one_op tanhshrink = {
  {CN_MODULE_CLASS, .name = "Tanhshrink", .sig = "Tanhshrink() -> Module ; tanhshrink",
   .doc = "x - tanh(x).", ROW},
  "tanhshrink", NULL, NULL};
static const cni_one_op threshold = {
  {CN_MODULE_CLASS, .name = "Threshold",
   .sig = "Threshold(float threshold, float value, bool inplace=False) -> Module ; threshold",
   .doc = "x where above threshold, value elsewhere.", ROW},
  "threshold", "01", "threshold value ?inplace"};
/* clang-format on */

/* ---- PReLU ---- */

static int prelu_init(cn_module *m, const cn_value *a)
{
  if (a[0].u.i < 1) return cn_err_set(CN_ERR_VALUE, "PReLU: num_parameters must be positive");
  cni_add_constant(m, "weight", &a[2], CN_SHAPE(a[0].u.i), a[1].u.f);
  return cn_err();
}

static cn_tensor *prelu_apply(cn_module *m, cn_tensor *x) { return cn_prelu(x, cn_module_slot(m, 0)); }
static void prelu_print(const cn_module *m, cn_text *t) { cni_print_named(m, t, "num_parameters"); }

static const cn_module_class prelu = {
  CN_MODULE_CLASS,
  .name = "PReLU",
  .sig = "PReLU(int num_parameters=1, float init=0.25, device? device=None, dtype? dtype=None) -> Module ; prelu",
  .doc = "x where positive, elsewhere x times a slope that is learnt, one for all or one for each channel.",
  .init = prelu_init,
  .apply = prelu_apply,
  .print = prelu_print,
};

/* ---- softmax and its kin ---- */

/* Without a dim PyTorch takes the channels of an image or of a batch of vectors, else the first one. */
static int64_t softmax_dim(const cn_module *m, const cn_tensor *x)
{
  const cn_value *dim = &cni_args(m)[0];
  if (dim->tag == CN_V_INT) return dim->u.i;
  return cn_ndim(x) == 0 || cn_ndim(x) == 1 || cn_ndim(x) == 3 ? 0 : 1;
}

static cn_tensor *softmax_apply(cn_module *m, cn_tensor *x) { return cn_softmax(x, softmax_dim(m, x)); }
static cn_tensor *softmin_apply(cn_module *m, cn_tensor *x) { return cn_softmin(x, softmax_dim(m, x)); }
static cn_tensor *log_softmax_apply(cn_module *m, cn_tensor *x) { return cn_log_softmax(x, softmax_dim(m, x)); }
static void softmax_print(const cn_module *m, cn_text *t) { cni_print_named(m, t, "dim"); }

static cn_tensor *softmax2d_apply(cn_module *m, cn_tensor *x)
{
  if (cn_ndim(x) == 3 || cn_ndim(x) == 4) return cn_softmax(x, -3);
  cn_err_set(CN_ERR_SHAPE, "%s: takes images (N, C, H, W) or (C, H, W), not %d dimensions", m->cls->name, cn_ndim(x));
  return NULL;
}

static const cn_module_class softmax = {
  CN_MODULE_CLASS,
  .name = "Softmax",
  .sig = "Softmax(int? dim=None) -> Module ; softmax",
  .doc = "exp(x) divided by its sum along a dimension.",
  .apply = softmax_apply,
  .print = softmax_print,
};

static const cn_module_class softmin = {
  CN_MODULE_CLASS,
  .name = "Softmin",
  .sig = "Softmin(int? dim=None) -> Module ; softmin",
  .doc = "Softmax of -x.",
  .apply = softmin_apply,
  .print = softmax_print,
};

static const cn_module_class log_softmax = {
  CN_MODULE_CLASS,
  .name = "LogSoftmax",
  .sig = "LogSoftmax(int? dim=None) -> Module ; log_softmax",
  .doc = "Logarithm of Softmax, exact where that would be 0.",
  .apply = log_softmax_apply,
  .print = softmax_print,
};

static const cn_module_class softmax2d = {
  CN_MODULE_CLASS,
  .name = "Softmax2d",
  .sig = "Softmax2d() -> Module ; softmax2d",
  .doc = "Softmax over the channels of images (N, C, H, W) or (C, H, W), at each place.",
  .apply = softmax2d_apply,
};

const cn_module_class *const cni_nn_activation_classes[] = {
  &celu.cls, &elu.cls, &gelu.cls, &glu.cls, &hardshrink.cls, &hardsigmoid.cls, &hardswish.cls, &hardtanh.cls,
  &leaky_relu.cls, &log_sigmoid.cls, &mish.cls, &rrelu.cls, &relu.cls, &relu6.cls, &selu.cls, &silu.cls,
  &sigmoid.cls, &softplus.cls, &softshrink.cls, &softsign.cls, &tanh_row.cls, &tanhshrink.cls, &threshold.cls, &prelu,
  &softmax, &softmin, &log_softmax, &softmax2d, NULL};
