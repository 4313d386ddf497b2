/* activation.c: activations and softmax. See call.h. */
#include <string.h>

#include "formats/onnx/call.h"

/* Before opset 13 the input is a matrix: sizes before `axis` by the others. */
static int old_softmax(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t axis = x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", 1), cn_ndim(x)) : -1, rows = 1;
  if (axis < 0) return cn_err();
  for (int64_t i = 0; i < axis; i++) rows *= cn_shape(x)[i];
  cn_tensor *m = cn_reshape(x, CN_SHAPE(rows, rows ? cn_numel(x) / rows : 1));
  m = !strcmp(c->node->op, "Softmax") ? cn_softmax(m, 1) : cn_log_softmax(m, 1);
  return cni_onnx_out(c, 0, cn_reshape(m, cn_shape(x), (size_t)cn_ndim(x)));
}

/* Before opset 7 the slopes are those of channels. */
static int old_prelu(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *slope = cni_onnx_in(c, 1);
  int64_t shape[CN_MAX_DIMS];
  if (!x || !slope) return cn_err();
  for (int d = 0; d < cn_ndim(x); d++) shape[d] = d == 1 ? cn_numel(slope) : 1;
  if (cn_ndim(slope) == 1 && cn_ndim(x) > 1) slope = cn_reshape(slope, shape, (size_t)cn_ndim(x));
  return cni_onnx_out(c, 0, cn_where(cn_lt(x, cn_int(0)), cn_mul(x, slope), x));
}

/* 1 where the first largest element is, 0 elsewhere. */
static cn_tensor *hardmax_of(cn_tensor *x, int64_t axis)
{
  if (!x || !cn_numel(x)) return x;
  cn_tensor *at = cn_argmax(x, axis, .keepdim = true);
  return at ? cn_scatter_value(cn_zeros_like(x), axis, at, 1) : NULL;
}

static int hardmax(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  bool old = c->opset < 13;
  int64_t axis = x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", old ? 1 : -1), cn_ndim(x)) : -1, rows = 1;
  if (axis < 0) return cn_err();
  if (!old) return cni_onnx_out(c, 0, hardmax_of(x, axis));
  for (int64_t i = 0; i < axis; i++) rows *= cn_shape(x)[i];
  cn_tensor *m = hardmax_of(cn_reshape(x, CN_SHAPE(rows, rows ? cn_numel(x) / rows : 1)), 1);
  return cni_onnx_out(c, 0, cn_reshape(m, cn_shape(x), (size_t)cn_ndim(x)));
}

/* What is above lambd less a bias, what is below -lambd plus it, the rest 0. */
static int shrink(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  double limit = cni_onnx_float(c, "lambd", 0.5), bias = cni_onnx_float(c, "bias", 0);
  if (!x) return cn_err();
  cn_tensor *above = cn_where(cn_gt(x, cn_num(limit)), cn_sub(x, cn_num(bias)), cn_int(0));
  cn_tensor *t = cn_where(cn_lt(x, cn_num(-limit)), cn_add(x, cn_num(bias)), above);
  return cni_onnx_out(c, 0, t ? cn_cast(t, cn_dtype_of(x)) : NULL);
}

const cni_onnx_op cni_onnx_activation_ops[] = {
    ONNX_TEXT("Celu", 12, "celu(%0, $alpha=1.0)"),
    ONNX_TEXT("Elu", 1, "elu(%0, $alpha=1.0)"),
    ONNX_TEXT("Gelu", 20, "gelu(%0, approximate: $approximate='none')"),
    ONNX_TEXT("HardSigmoid", 1, "clamp(add(mul(%0, $alpha=0.2), $beta=0.5), 0, 1)"),
    ONNX_TEXT("HardSwish", 14, "hardswish(%0)"),
    ONNX_TEXT("LeakyRelu", 1, "leaky_relu(%0, $alpha=0.01)"),
    ONNX_TEXT("Mish", 18, "mish(%0)"),
    ONNX_TEXT("ParametricSoftplus", 1, "mul(softplus(mul(%0, $beta=1.0)), $alpha=1.0)"), /* before opset 5, as are */
    ONNX_TEXT("ScaledTanh", 1, "mul(tanh(mul(%0, $beta=1.0)), $alpha=1.0)"),             /* these three */
    ONNX_TEXT("Affine", 1, "add(mul(%0, $alpha=1.0), $beta=0.0)"),
    ONNX_TEXT("Scale", 1, "mul(%0, $scale=1.0)"),
    ONNX_BUILD("PRelu", 1, old_prelu),
    ONNX_TEXT("PRelu", 7, "where(lt(%0, 0), mul(%0, %1), %0)"),
    ONNX_TEXT("Relu", 1, "relu(%0)"),
    ONNX_TEXT("Selu", 1, "mul(elu(%0, $alpha=1.67326319217681884765625), $gamma=1.05070102214813232421875)"),
    ONNX_BUILD("Shrink", 9, shrink),
    ONNX_TEXT("Sigmoid", 1, "sigmoid(%0)"),
    ONNX_TEXT("Softplus", 1, "softplus(%0)"),
    ONNX_TEXT("Softsign", 1, "softsign(%0)"),
    ONNX_TEXT("Swish", 24, "mul(%0, sigmoid(mul(%0, $alpha=1.0)))"),
    ONNX_TEXT("SwiGLU", 28, "mul(mul(%0, sigmoid(mul(%0, $alpha=1.0))), %1)"),
    ONNX_TEXT("Tanh", 1, "tanh(%0)"),
    ONNX_TEXT("ThresholdedRelu", 1, "where(gt(%0, $alpha=1.0), %0, 0)"),
    ONNX_BUILD("Softmax", 1, old_softmax),
    ONNX_TEXT("Softmax", 13, "softmax(%0, $axis=-1)"),
    ONNX_BUILD("LogSoftmax", 1, old_softmax),
    ONNX_TEXT("LogSoftmax", 13, "log_softmax(%0, $axis=-1)"),
    ONNX_BUILD("Hardmax", 1, hardmax),
    {NULL, NULL, NULL, 0, 0},
};
