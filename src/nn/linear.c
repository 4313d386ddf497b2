/* linear.c: layers that multiply by a matrix: Identity, Linear, Bilinear. */
#include <math.h>

#include "nn.h"

enum { WEIGHT, BIAS };

/* ---- Identity ---- */

static cn_tensor *identity_apply(cn_module *m, cn_tensor *x)
{
  (void)m;
  return x;
}

static const cn_module_class identity = {
  CN_MODULE_CLASS,
  .name = "Identity",
  .sig = "Identity() -> Module ; identity",
  .doc = "Gives its input back.",
  .apply = identity_apply,
};

/* ---- Linear ---- */

static int linear_init(cn_module *m, const cn_value *a)
{
  int64_t in = a[0].u.i, out = a[1].u.i;
  if (in < 0 || out < 0) return cn_err_set(CN_ERR_VALUE, "Linear: sizes cannot be negative");
  double bound = in > 0 ? 1 / sqrt((double)in) : 0;
  cni_add_uniform(m, "weight", &a[3], CN_SHAPE(out, in), bound);
  if (a[2].u.i) cni_add_uniform(m, "bias", &a[3], CN_SHAPE(out), bound);
  else cni_add_absent(m, "bias");
  return cn_err();
}

static cn_tensor *linear_apply(cn_module *m, cn_tensor *x)
{
  return cn_linear(x, cn_module_slot(m, WEIGHT), cn_module_slot(m, BIAS));
}

static void linear_print(const cn_module *m, cn_text *t)
{
  const cn_value *a = cni_args(m);
  cn_text_putf(t, "in_features=%lld, out_features=%lld, bias=%s", (long long)a[0].u.i, (long long)a[1].u.i,
               cn_module_slot(m, BIAS) ? "True" : "False");
}

static double linear_work(const cn_module *m, const cn_module_call *call)
{
  return (double)cn_numel(call->out[0]) * (double)cni_args(m)[0].u.i;
}

static const cn_module_class linear = {
  CN_MODULE_CLASS,
  .name = "Linear",
  .sig = "Linear(int in_features, int out_features, bool bias=True, device? device=None, dtype? dtype=None) "
         "-> Module ; linear",
  .doc = "x times the transposed weight, plus bias. Weight and bias start uniform in +-1/sqrt(in_features).",
  .init = linear_init,
  .apply = linear_apply,
  .print = linear_print,
  .work = linear_work,
};

/* ---- Bilinear ---- */

static int bilinear_init(cn_module *m, const cn_value *a)
{
  int64_t in1 = a[0].u.i, in2 = a[1].u.i, out = a[2].u.i;
  if (in1 < 1 || in2 < 0 || out < 0) return cn_err_set(CN_ERR_VALUE, "Bilinear: in1_features must be positive");
  double bound = 1 / sqrt((double)in1);
  cni_add_uniform(m, "weight", &a[4], CN_SHAPE(out, in1, in2), bound);
  if (a[3].u.i) cni_add_uniform(m, "bias", &a[4], CN_SHAPE(out), bound);
  else cni_add_absent(m, "bias");
  return cn_err();
}

static int bilinear_forward(cn_module *m, cn_module_call *call)
{
  call->out[0] = cn_bilinear(call->args[0].u.t, call->args[1].u.t, cn_module_slot(m, WEIGHT), cn_module_slot(m, BIAS));
  return cn_err();
}

static void bilinear_print(const cn_module *m, cn_text *t)
{
  const cn_value *a = cni_args(m);
  cn_text_putf(t, "in1_features=%lld, in2_features=%lld, out_features=%lld, bias=%s", (long long)a[0].u.i,
               (long long)a[1].u.i, (long long)a[2].u.i, cn_module_slot(m, BIAS) ? "True" : "False");
}

static double bilinear_work(const cn_module *m, const cn_module_call *call)
{
  const cn_value *a = cni_args(m);
  return (double)cn_numel(call->out[0]) * (double)a[0].u.i * (double)a[1].u.i;
}

static const cn_module_class bilinear = {
  CN_MODULE_CLASS,
  .name = "Bilinear",
  .sig = "Bilinear(int in1_features, int in2_features, int out_features, bool bias=True, device? device=None, "
         "dtype? dtype=None) -> Module ; bilinear",
  .doc = "x1 times weight times x2, plus bias. They start uniform in +-1/sqrt(in1_features).",
  .call = "(Tensor input1, Tensor input2) -> Tensor",
  .init = bilinear_init,
  .forward = bilinear_forward,
  .print = bilinear_print,
  .work = bilinear_work,
};

const cn_module_class *const cni_nn_linear_classes[] = {&identity, &linear, &bilinear, NULL};
