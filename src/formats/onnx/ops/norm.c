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
  bool single = c->opset < 9 && !cni_onnx_int(c, "spatial", 1); /* statistics of each element of a sample */
  if (!x || !var) return cn_err();
  for (int d = 0; d < cn_ndim(x); d++) {
    lined[d] = single ? (d ? cn_shape(x)[d] : 1) : d == 1 ? cn_numel(mean) : 1;
    if (single ? !d : d != 1) dims[n++] = d;
  }
  if (training) {
    cn_tensor *now_var, *now_mean, *wide = cn_dtype_of(x) == cn_dtype_of(mean) ? x : cn_cast(x, cn_dtype_of(mean));
    if (cn_var_mean(&now_var, &now_mean, wide, .dim = {dims, (size_t)n}, .correction = (double)CN_ZERO))
      return cn_err();
    cn_tensor *m = cn_add(cn_mul(mean, cn_num(keep)), cn_mul(now_mean, cn_num(1 - keep)));
    cn_tensor *v = cn_add(cn_mul(var, cn_num(keep)), cn_mul(now_var, cn_num(1 - keep)));
    if (cni_onnx_out(c, 1, m) || cni_onnx_out(c, 2, v)) return cn_err();
    mean = now_mean;
    var = now_var;
  }
  /* statistics may be of another type than the input, which its result has */
  cn_dtype dtype = cn_dtype_of(x);
  if (cn_dtype_of(mean) == dtype && cn_dtype_of(scale) == dtype && cn_ndim(x) >= 2 && !single)
    return cni_onnx_out(c, 0, cn_batch_norm(x, mean, var, scale, bias, .eps = eps));
  size_t k = (size_t)cn_ndim(x);
  cn_tensor *t =
      cn_div(cn_sub(x, cn_reshape(mean, lined, k)), cn_sqrt(cn_add(cn_reshape(var, lined, k), cn_num(eps))));
  t = cn_add(cn_mul(t, cn_reshape(scale, lined, k)), cn_reshape(bias, lined, k));
  return cni_onnx_out(c, 0, t ? cn_cast(t, dtype) : NULL);
}

/* The dimensions from `axis` on; -1 with the error set. */
static int64_t normalized_from(cni_onnx_call *c, const cn_tensor *x)
{
  return x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", -1), cn_ndim(x)) : -1;
}

/* As a weight of the kernels: of the type of x, one number for each that is normalised together. */
static bool is_weight(const cn_tensor *t, const cn_tensor *x, int64_t axis)
{
  int n = cn_ndim(x) - (int)axis;
  if (cn_dtype_of(t) != cn_dtype_of(x) || cn_ndim(t) != n) return false;
  for (int i = 0; i < n; i++)
    if (cn_shape(t)[i] != cn_shape(x)[axis + i]) return false;
  return true;
}

/* Computed in float32 for smaller types; the statistics are results, too. */
static int layer_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 1), *bias = cni_onnx_maybe(c, 2), *t, *mean, *inverse;
  int64_t axis = normalized_from(c, x);
  double eps = cni_onnx_float(c, "epsilon", 1e-5);
  if (axis < 0 || !scale) return cn_err();
  bool fused = is_weight(scale, x, axis) && (!bias || is_weight(bias, x, axis));
  if (cn_native_layer_norm(&t, &mean, &inverse, x, cn_shape(x) + axis, (size_t)(cn_ndim(x) - axis),
                           fused ? scale : NULL, fused ? bias : NULL, eps))
    return cn_err();
  if (!fused) t = cn_mul(t, scale);
  if (!fused && bias) t = cn_add(t, bias);
  if (cni_onnx_out(c, 0, t)) return cn_err();
  return cni_onnx_out(c, 1, mean) ? cn_err() : cni_onnx_out(c, 2, inverse);
}

/* The scale may be of another type, which the result has. */
static int rms_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 1);
  int64_t axis = normalized_from(c, x);
  double eps = cni_onnx_float(c, "epsilon", 1e-5);
  if (axis < 0 || !scale) return cn_err();
  bool fused = is_weight(scale, x, axis);
  cn_tensor *t = cn_rms_norm(x, cn_shape(x) + axis, (size_t)(cn_ndim(x) - axis), fused ? scale : NULL,
                             .eps = eps != 0 ? eps : (double)CN_ZERO);
  if (t && cn_dtype_of(t) != cn_dtype_of(scale)) t = cn_cast(t, cn_dtype_of(scale));
  return cni_onnx_out(c, 0, fused ? t : cn_mul(t, scale));
}

/* Divided by the sum of magnitudes, or the root of that of squares; zeros stay. */
static int lp_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t p = cni_onnx_int(c, "p", 2), axis = normalized_from(c, x);
  if (axis < 0) return cn_err();
  if (p != 1 && p != 2) return cni_onnx_fail(c, CN_ERR_VALUE, "p is %lld, not 1 or 2", (long long)p);
  cn_value args[] = {cn_v_tensor(x), cn_v_float((double)p), cn_v_ints(&axis, 1), cn_v_bool(true)};
  cn_tensor *norm = cni_onnx_op1("linalg_vector_norm", args, 4);
  return cni_onnx_out(c, 0, cn_where(cn_eq(norm, cn_int(0)), cn_int(0), cn_div(x, norm)));
}

/* Less the mean, by the deviation. */
static int mean_variance_norm(cni_onnx_call *c)
{
  static const int64_t usual[] = {0, 2, 3};
  cn_tensor *x = cni_onnx_in(c, 0), *var, *mean;
  cni_onnx_ints axes = cni_onnx_ints_of(c, "axes");
  if (!axes.v) axes = (cni_onnx_ints){usual, 3};
  if (!x || cn_var_mean(&var, &mean, x, .dim = {axes.v, axes.n}, .correction = (double)CN_ZERO, .keepdim = true))
    return cn_err();
  return cni_onnx_out(c, 0, cn_div(cn_sub(x, mean), cn_add(cn_sqrt(var), cn_num(1e-9))));
}

/* Each channel of a sample by itself. One number alone is its mean, so that the bias is left. */
static int instance_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 1), *bias = cni_onnx_in(c, 2);
  double eps = cni_onnx_float(c, "epsilon", 1e-5);
  int64_t lined[CN_MAX_DIMS], each = 1;
  if (!x || !scale || !bias) return cn_err();
  if (cn_ndim(x) < 3) return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (N, C, ...)");
  for (int d = 0; d < cn_ndim(x); d++) {
    each *= d < 2 ? 1 : cn_shape(x)[d];
    lined[d] = d == 1 ? -1 : 1;
  }
  eps = eps != 0 ? eps : (double)CN_ZERO;
  if (each != 1) return cni_onnx_out(c, 0, cn_instance_norm(x, NULL, NULL, scale, bias, .eps = eps));
  return cni_onnx_out(c, 0, cn_add(cn_sub(x, x), cn_reshape(bias, lined, (size_t)cn_ndim(x))));
}

/* Opset 18: scales and biases are those of groups. */
static int old_group_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 1), *bias = cni_onnx_in(c, 2);
  int64_t groups = cni_onnx_int(c, "num_groups", 0);
  double eps = cni_onnx_float(c, "epsilon", 1e-5);
  if (!x || !scale || !bias) return cn_err();
  if (cn_ndim(x) < 2 || groups < 1 || cn_numel(scale) != groups || cn_numel(bias) != groups)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "scale and bias must have a number for each of num_groups");
  int64_t each = cn_shape(x)[1] / groups;
  return cni_onnx_out(c, 0,
                      cn_group_norm(x, groups, cn_repeat_interleave(scale, each, 0),
                                    cn_repeat_interleave(bias, each, 0), .eps = eps != 0 ? eps : (double)CN_ZERO));
}

/* Before opset 9: over the pictures' sizes, channels too where that is asked for; without variances means alone. */
static int old_mean_variance_norm(cni_onnx_call *c)
{
  static const int64_t usual[] = {0, 2, 3, 1};
  cn_tensor *x = cni_onnx_in(c, 0), *var, *mean;
  size_t n = cni_onnx_int(c, "across_channels", 0) ? 4 : 3;
  if (!x || cn_var_mean(&var, &mean, x, .dim = {usual, n}, .correction = (double)CN_ZERO, .keepdim = true))
    return cn_err();
  x = cn_sub(x, mean);
  return cni_onnx_out(c, 0, cni_onnx_int(c, "normalize_variance", 1) ? cn_div(x, cn_sqrt(var)) : x);
}

const cni_onnx_op cni_onnx_norm_ops[] = {
    ONNX_BUILD("BatchNormalization", 1, batch_norm),
    ONNX_BUILD("LayerNormalization", 1, layer_norm), /* of opset 17; before it was onnxruntime's */
    ONNX_BUILD("RMSNormalization", 23, rms_norm),
    ONNX_BUILD("SimplifiedLayerNormalization", 1, rms_norm), /* onnxruntime's, of the same meaning */
    ONNX_BUILD("LpNormalization", 1, lp_norm),
    ONNX_BUILD("MeanVarianceNormalization", 1, old_mean_variance_norm),
    ONNX_BUILD("MeanVarianceNormalization", 9, mean_variance_norm),
    ONNX_BUILD("InstanceNormalization", 1, instance_norm),
    ONNX_BUILD("GroupNormalization", 18, old_group_norm),
    ONNX_TEXT("GroupNormalization", 21, "group_norm(%0, $num_groups, %1, %2, $epsilon=1e-5)"),
    ONNX_TEXT("LRN", 1, "local_response_norm(%0, $size, $alpha=0.0001, $beta=0.75, $bias=1.0)"),
    {NULL, NULL, NULL, 0, 0},
};
