/* norm.c: normalisation. See call.h. */
#include "formats/onnx/call.h"

/* Means and variances are given, or those of the batch in training, which then move the given ones. */
static int batch_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 1), *bias = cni_onnx_in(c, 2);
  cn_tensor *mean = cni_onnx_in(c, 3), *var = cni_onnx_in(c, 4);
  double eps = cni_onnx_float(c, "epsilon", 1e-5), keep = cni_onnx_float(c, "momentum", 0.9);
  int64_t dims[CN_MAX_DIMS], lined[CN_MAX_DIMS], n = 0;
  bool training = c->opset >= 14 ? cni_onnx_int(c, "training_mode", 0) != 0
                                 : c->opset < 7 && !cni_onnx_int(c, "is_test", 0) && c->nout > 1;
  if (!x || !var) return cn_err();
  for (int d = 0; d < cn_ndim(x); d++) {
    lined[d] = d == 1 ? cn_numel(mean) : 1;
    if (d != 1) dims[n++] = d;
  }
  if (training) {
    cn_tensor *now_var, *now_mean;
    if (cn_var_mean(&now_var, &now_mean, x, .dim = {dims, (size_t)n}, .correction = (double)CN_ZERO)) return cn_err();
    cn_tensor *m = cn_add(cn_mul(mean, cn_num(keep)), cn_mul(now_mean, cn_num(1 - keep)));
    cn_tensor *v = cn_add(cn_mul(var, cn_num(keep)), cn_mul(now_var, cn_num(1 - keep)));
    if (cni_onnx_out(c, 1, m) || cni_onnx_out(c, 2, v)) return cn_err();
    mean = now_mean;
    var = now_var;
  }
  /* statistics may be of another type than the input, which its result has */
  cn_dtype dtype = cn_dtype_of(x);
  if (cn_dtype_of(mean) == dtype && cn_dtype_of(scale) == dtype && cn_ndim(x) >= 2)
    return cni_onnx_out(c, 0, cn_batch_norm(x, mean, var, scale, bias, .eps = eps));
  size_t k = (size_t)cn_ndim(x);
  cn_tensor *t =
      cn_div(cn_sub(x, cn_reshape(mean, lined, k)), cn_sqrt(cn_add(cn_reshape(var, lined, k), cn_num(eps))));
  t = cn_add(cn_mul(t, cn_reshape(scale, lined, k)), cn_reshape(bias, lined, k));
  return cni_onnx_out(c, 0, t ? cn_cast(t, dtype) : NULL);
}

/* Mean and deviation over the dimensions from `axis` on; computed in float32 for smaller types. */
static int layer_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 1), *bias = cni_onnx_maybe(c, 2), *var, *mean;
  int64_t axis = x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", -1), cn_ndim(x)) : -1, dims[CN_MAX_DIMS];
  double eps = cni_onnx_float(c, "epsilon", 1e-5);
  if (axis < 0 || !scale) return cn_err();
  cn_dtype dtype = cn_dtype_of(x), wide = dtype == CN_F64 ? CN_F64 : CN_F32;
  size_t n = 0;
  for (int64_t d = axis; d < cn_ndim(x); d++) dims[n++] = d;
  cn_tensor *t = dtype == wide ? x : cn_cast(x, wide);
  if (cn_var_mean(&var, &mean, t, .dim = {dims, n}, .correction = (double)CN_ZERO, .keepdim = true)) return cn_err();
  cn_tensor *inverse = cn_rsqrt(cn_add(var, cn_num(eps)));
  t = cn_mul(cn_sub(t, mean), inverse);
  if (dtype != wide) t = cn_cast(t, dtype);
  t = cn_mul(t, scale);
  if (cni_onnx_out(c, 0, bias ? cn_add(t, bias) : t)) return cn_err();
  return cni_onnx_out(c, 1, mean) ? cn_err() : cni_onnx_out(c, 2, inverse);
}

const cni_onnx_op cni_onnx_norm_ops[] = {
    ONNX_BUILD("BatchNormalization", 1, batch_norm),
    ONNX_BUILD("LayerNormalization", 17, layer_norm),
    ONNX_TEXT("InstanceNormalization", 6, "instance_norm(%0, weight: %1, bias: %2, eps: $epsilon=1e-5)"),
    ONNX_TEXT("GroupNormalization", 21, "group_norm(%0, $num_groups, %1, %2, $epsilon=1e-5)"),
    ONNX_TEXT("LRN", 1, "local_response_norm(%0, $size, $alpha=0.0001, $beta=0.75, $bias=1.0)"),
    {NULL, NULL, NULL, 0, 0},
};
