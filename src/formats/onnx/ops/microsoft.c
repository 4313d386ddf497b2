/* microsoft.c: operators of com.microsoft, into which its tools fuse others, that are no attention and no norm. See
 * call.h. */
#include <string.h>

#include "formats/onnx/call.h"

/* ---- operators of the default domain under another name ---- */

static int linear_attention(cni_onnx_call *c) { return cni_onnx_standard(c, "LinearAttention", 27); }
static int gather_nd(cni_onnx_call *c) { return cni_onnx_standard(c, "GatherND", 13); }
static int pad(cni_onnx_call *c) { return cni_onnx_standard(c, "Pad", 11); }
static int trilu(cni_onnx_call *c) { return cni_onnx_standard(c, "Trilu", 14); }

static int causal_conv(cni_onnx_call *c)
{
  if (cni_onnx_int(c, "ndim", 1) != 1) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "only one dimension is there");
  return cni_onnx_standard(c, "CausalConvWithState", 27);
}

/* The step may be left out. */
static int range(cni_onnx_call *c)
{
  double from = cni_onnx_float_in(c, 0, 0), to = cni_onnx_float_in(c, 1, 0);
  if (cni_onnx_has(c, 2)) return cni_onnx_standard(c, "Range", 11);
  cn_tensor *x = cni_onnx_in(c, 0);
  if (!x || cn_err()) return cn_err();
  return cni_onnx_out(c, 0,
                      cn_arange(from, to > from ? to : from, .dtype = cn_dtype_of(x), .device = cni_onnx_device(c)));
}

static int expand_dims(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t axis = cni_onnx_int_in(c, 1, 0);
  if (!x || cn_err()) return cn_err();
  return cni_onnx_out(c, 0, cn_unsqueeze(x, axis));
}

/* ---- activations behind others ---- */

/* By name, with up to three numbers. */
static cn_tensor *activated(cni_onnx_call *c, cn_tensor *t, const char *name, const double *p, size_t np)
{
  if (!t || !*name || !strcmp(name, "None")) return t;
  if (!strcmp(name, "Relu")) return cn_relu(t);
  if (!strcmp(name, "Tanh")) return cn_tanh(t);
  if (!strcmp(name, "Sigmoid")) return cn_sigmoid(t);
  if (!strcmp(name, "LeakyRelu")) return cn_leaky_relu(t, .negative_slope = np ? p[0] : 0.01);
  if (!strcmp(name, "Clip") && np == 2) return cn_clamp(t, cn_num(p[0]), cn_num(p[1]));
  if (!strcmp(name, "HardSigmoid"))
    return cn_clamp(cn_add(cn_mul(t, cn_num(np ? p[0] : 0.2)), cn_num(np > 1 ? p[1] : 0.5)), cn_int(0), cn_int(1));
  if (!strcmp(name, "Elu")) return cn_elu(t, .alpha = np ? p[0] : 1);
  if (!strcmp(name, "Softplus")) return cn_softplus(t);
  cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "activation '%s' is not there", name);
  return NULL;
}

/* The call's result 0 so far, changed. */
static int change_result(cni_onnx_call *c, cn_tensor *add, const double *p, size_t np)
{
  cn_tensor *t = cni_onnx_result(c);
  if (!t) return cn_err();
  if (add) t = cn_add(t, add);
  return cni_onnx_out(c, 0, activated(c, t, cni_onnx_text(c, "activation", ""), p, np));
}

/* A convolution, plus Z, then an activation. */
static int fused_conv(cni_onnx_call *c)
{
  cni_onnx_floats p = cni_onnx_floats_of(c, "activation_params");
  if (cni_onnx_standard(c, "Conv", 11)) return cn_err();
  return change_result(c, cni_onnx_maybe(c, 3), p.v, p.n);
}

static int fused_gemm(cni_onnx_call *c)
{
  double p[2] = {cni_onnx_float(c, "activation_alpha", 0), cni_onnx_float(c, "activation_beta", 0)};
  size_t np = cni_onnx_attr_of(c, "activation_beta") ? 2 : cni_onnx_attr_of(c, "activation_alpha") ? 1 : 0;
  return cni_onnx_standard(c, "Gemm", 13) ? cn_err() : change_result(c, NULL, p, np);
}

static cn_tensor *channels_second(cn_tensor *x)
{
  return x ? cn_movedim(x, (int64_t[]){-1}, 1, (int64_t[]){1}, 1) : NULL;
}
static cn_tensor *channels_last(cn_tensor *x)
{
  return x ? cn_contiguous(cn_movedim(x, (int64_t[]){1}, 1, (int64_t[]){-1}, 1)) : NULL;
}

/* Channels last, weights as Conv's but for that. */
static int nhwc_conv(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *w = cni_onnx_in(c, 1);
  if (!x || !w) return cn_err();
  cn_tensor *given[3] = {channels_second(x), channels_second(w), cni_onnx_maybe(c, 2)};
  int status = cni_onnx_standard_of(c, "Conv", 11, given, 3);
  return status || !cni_onnx_result(c) ? status : cni_onnx_out(c, 0, channels_last(cni_onnx_result(c)));
}

/* ... weights as they are; plus Z, then an activation. */
static int nhwc_fused_conv(cni_onnx_call *c)
{
  cni_onnx_floats p = cni_onnx_floats_of(c, "activation_params");
  cn_tensor *given[3] = {channels_second(cni_onnx_in(c, 0)), cni_onnx_in(c, 1), cni_onnx_maybe(c, 2)};
  if (cn_err() || cni_onnx_standard_of(c, "Conv", 11, given, 3)) return cn_err();
  if (cni_onnx_result(c) && cni_onnx_out(c, 0, channels_last(cni_onnx_result(c)))) return cn_err();
  return change_result(c, cni_onnx_maybe(c, 3), p.v, p.n);
}

/* Of numbers of 8 bits, which are their own maxima. */
static int nhwc_max_pool(cni_onnx_call *c)
{
  cn_tensor *x = channels_second(cni_onnx_in(c, 0));
  int status = x ? cni_onnx_standard_of(c, "MaxPool", 12, &x, 1) : cn_err();
  return status || !cni_onnx_result(c) ? status : cni_onnx_out(c, 0, channels_last(cni_onnx_result(c)));
}

/* Modes have the names of the default domain's first version. */
static int grid_sample(cni_onnx_call *c) { return cni_onnx_standard(c, "GridSample", 16); }

/* Pads are an input; the others as ConvTranspose's. */
static int conv_transpose_pads(cni_onnx_call *c)
{
  cni_onnx_ints pads = cni_onnx_ints_in(c, 2);
  const cni_onnx_node *own = c->node;
  cni_onnx_node node = *own;
  cni_onnx_attr *attrs = cni_onnx_room(c, own->nattrs + 1, sizeof *attrs);
  cn_tensor *given[3] = {cni_onnx_in(c, 0), cni_onnx_in(c, 1), cni_onnx_maybe(c, 3)};
  if (!attrs || cn_err()) return cn_err();
  if (own->nattrs) memcpy(attrs, own->attrs, own->nattrs * sizeof *attrs);
  if (pads.v) {
    attrs[node.nattrs++] = (cni_onnx_attr){.name = "pads", .kind = CNI_ATTR_INTS, .is = pads.v, .n = pads.n};
  }
  node.attrs = attrs;
  c->node = &node;
  int status = cni_onnx_standard_of(c, "ConvTranspose", 11, given, 3);
  c->node = own;
  return status;
}

/* The sum with a bias, dropped in training, plus what skips that. */
static int bias_dropout(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1), *skip = cni_onnx_maybe(c, 2);
  cn_tensor *given[3] = {x && b ? cn_add(x, b) : NULL, cni_onnx_maybe(c, 3), cni_onnx_maybe(c, 4)};
  int status = given[0] ? cni_onnx_standard_of(c, "Dropout", 13, given, 3) : cn_err();
  return status || !skip || !cni_onnx_result(c) ? status : cni_onnx_out(c, 0, cn_add(cni_onnx_result(c), skip));
}

/* Vectors of a table; the other inputs are about gradients. */
static int torch_embedding(cni_onnx_call *c)
{
  cn_tensor *given[2] = {cni_onnx_in(c, 0), cni_onnx_in(c, 1)};
  return cn_err() ? cn_err() : cni_onnx_standard_of(c, "Gather", 13, given, 2);
}

/* ---- products ---- */

/* transBatch: the first dimension goes in front of the last but one; then trans: the last two are exchanged. */
static cn_tensor *turned(cn_tensor *t, bool batch, bool trans)
{
  int64_t first = 0, before = -2;
  if (t && batch && cn_ndim(t) > 2) t = cn_movedim(t, &first, 1, &before, 1);
  return t && trans && cn_ndim(t) > 1 ? cn_transpose(t, -2, -1) : t;
}

static int fused_matmul(cni_onnx_call *c)
{
  cn_tensor *a = turned(cni_onnx_in(c, 0), cni_onnx_int(c, "transBatchA", 0), cni_onnx_int(c, "transA", 0));
  cn_tensor *b = turned(cni_onnx_in(c, 1), cni_onnx_int(c, "transBatchB", 0), cni_onnx_int(c, "transB", 0));
  double alpha = cni_onnx_float(c, "alpha", 1);
  if (!a || !b) return cn_err();
  cn_tensor *t = cn_matmul(a, b);
  return cni_onnx_out(c, 0, alpha == 1 ? t : cn_mul(t, cn_num(alpha)));
}

static int fused_matmul_activation(cni_onnx_call *c)
{
  double p[2] = {cni_onnx_float(c, "activation_alpha", 0), cni_onnx_float(c, "activation_beta", 0)};
  size_t np = cni_onnx_attr_of(c, "activation_beta") ? 2 : cni_onnx_attr_of(c, "activation_alpha") ? 1 : 0;
  return fused_matmul(c) ? cn_err() : change_result(c, NULL, p, np);
}

/* Products of pairs (real, imaginary) in the last dimension; of the conjugate of b for ComplexMulConj. */
static int complex_mul(cni_onnx_call *c)
{
  cn_tensor *a = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1);
  if (!a || !b) return cn_err();
  cn_tensor *ar = cn_select(a, -1, 0), *ai = cn_select(a, -1, 1), *br = cn_select(b, -1, 0),
            *bi = cn_select(b, -1, 1);
  if (!strcmp(c->node->op, "ComplexMulConj")) bi = cn_neg(bi);
  cn_tensor *both[2] = {cn_sub(cn_mul(ar, br), cn_mul(ai, bi)), cn_add(cn_mul(ar, bi), cn_mul(ai, br))};
  return cni_onnx_out(c, 0, cn_err() ? NULL : cn_stack(both, 2, .dim = -1));
}

/* ---- others ---- */

/* (.., 2 n): one half by gelu of the other. */
static int bias_split_gelu(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1), *t = x && b ? cn_add(x, b) : NULL;
  if (!t) return cn_err();
  int64_t half = cn_shape(t)[cn_ndim(t) - 1] / 2;
  return cni_onnx_out(c, 0, cn_mul(cn_narrow(t, -1, 0, half), cn_gelu(cn_narrow(t, -1, half, half))));
}

/* gelu's formula with tanh, of x and a bias that may be left out. */
static int tanh_gelu(cni_onnx_call *c, cn_tensor *x, cn_tensor *b)
{
  return x ? cni_onnx_out(c, 0, cn_gelu(b ? cn_add(x, b) : x, .approximate = "tanh")) : cn_err();
}

static int fast_gelu(cni_onnx_call *c) { return tanh_gelu(c, cni_onnx_in(c, 0), cni_onnx_maybe(c, 1)); }

static int gemm_fast_gelu(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *w = cni_onnx_in(c, 1);
  return x && w ? tanh_gelu(c, cn_matmul(x, w), cni_onnx_maybe(c, 2)) : cn_err();
}

/* Elements in the order of their first places, where each of x is among them, how often they occur. */
static int unique(cni_onnx_call *c)
{
  cni_onnx_attr unsorted = {.name = "sorted", .kind = CNI_ATTR_INT};
  int32_t all[4] = {0};
  cni_onnx_node node = *c->node;
  cni_onnx_call inner = *c;
  cn_onnx_value *made[4] = {NULL};
  node.attrs = &unsorted;
  node.nattrs = 1;
  node.outputs = all;
  inner.node = &node;
  inner.out = made;
  inner.nout = 4;
  int status = cni_onnx_standard(&inner, "Unique", 11);
  c->room = inner.room;
  for (size_t i = 0; i < 4; i++)
    if (!status && i != 1) status = cni_onnx_out(c, i ? i - 1 : 0, made[i]->t);
  for (size_t i = 0; i < 4; i++) cn_onnx_value_release(made[i]);
  return status;
}

/* Over all dimensions from `axis` on. */
static int bias_softmax(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1);
  int64_t axis = x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", 1), cn_ndim(x)) : -1;
  if (axis < 0 || !b) return cn_err();
  cn_tensor *t = cn_add(x, b);
  if (!t || axis == cn_ndim(x) - 1) return cni_onnx_out(c, 0, t ? cn_softmax(t, -1) : NULL);
  t = cn_softmax(cn_flatten(t, .start_dim = axis ? axis : CN_ZERO), -1);
  return cni_onnx_out(c, 0, cn_reshape(t, cn_shape(x), (size_t)cn_ndim(x)));
}

static int cdist(cni_onnx_call *c)
{
  const char *metric = cni_onnx_text(c, "metric", "sqeuclidean");
  cn_tensor *a = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1), *t = a && b ? cn_cdist(a, b) : NULL;
  bool squared = !strcmp(metric, "sqeuclidean");
  if (!squared && strcmp(metric, "euclidean") != 0) return cni_onnx_fail(c, CN_ERR_VALUE, "metric is '%s'", metric);
  return cni_onnx_out(c, 0, t && squared ? cn_mul(t, t) : t);
}

/* Pairs of numbers lie in the last dimension, as ours do. */
static int fourier(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  bool back = !strcmp(c->node->op, "Irfft");
  if (cni_onnx_int(c, "signal_ndim", 1) != 1 || !cni_onnx_int(c, "onesided", 1) || cni_onnx_int(c, "normalized", 0))
    return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "other transforms than one-sided ones of one dimension");
  if (back) return cni_onnx_out(c, 0, cn_fft_irfft(cn_view_as_complex(cn_contiguous(x)), CN_NONE));
  return cni_onnx_out(c, 0, cn_view_as_real(cn_fft_rfft(x, CN_NONE)));
}

/* Places of a box's `n` rows or columns in a picture of `size`: (boxes, n), from the box's ends, which count from 0 to
 * 1. */
static cn_tensor *box_places(cn_tensor *boxes, int64_t from, int64_t size, int64_t n)
{
  cn_tensor *a = cn_narrow(boxes, 1, from, 1), *b = cn_narrow(boxes, 1, from + 2, 1);
  double last = (double)(size - 1);
  if (n == 1) return cn_mul(cn_add(a, b), cn_num(last / 2));
  cn_tensor *step = cn_mul(cn_sub(b, a), cn_num(last / (double)(n - 1)));
  cn_tensor *i = cn_arange(0, (double)n, .dtype = cn_dtype_of(boxes), .device = cn_device_of(boxes));
  return cn_add(cn_mul(a, cn_num(last)), cn_mul(i, step));
}

/* Places as numbers from -1 to 1. */
static cn_tensor *from_middle(cn_tensor *places, int64_t size)
{
  return cn_sub(cn_mul(places, cn_num(2.0 / (double)(size > 1 ? size - 1 : 1))), cn_int(1));
}

/* Boxes of pictures, in one size; what lies outside is a number. */
static int crop_and_resize(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *boxes = cni_onnx_in(c, 1), *of = cni_onnx_in(c, 2);
  cni_onnx_ints size = cni_onnx_ints_in(c, 3);
  const char *mode = cni_onnx_text(c, "mode", "bilinear");
  if (!x || !boxes || !of || cn_err()) return cn_err();
  if (cn_ndim(x) != 4 || cn_ndim(boxes) != 2 || cn_shape(boxes)[1] != 4 || size.n != 2 || size.v[0] < 1 ||
      size.v[1] < 1)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "X must have four dimensions, rois four columns, crop_size two numbers");
  int64_t high = cn_shape(x)[2], wide = cn_shape(x)[3], n = cn_shape(boxes)[0];
  cn_tensor *y = box_places(boxes, 0, high, size.v[0]), *along = box_places(boxes, 1, wide, size.v[1]);
  cn_tensor *in =
      cn_logical_and(cn_unsqueeze(cn_logical_and(cn_ge(y, cn_int(0)), cn_le(y, cn_int(high - 1))), 2),
                     cn_unsqueeze(cn_logical_and(cn_ge(along, cn_int(0)), cn_le(along, cn_int(wide - 1))), 1));
  int64_t shape[3] = {n, size.v[0], size.v[1]};
  cn_tensor *at[2] = {cn_expand(cn_unsqueeze(from_middle(along, wide), 1), shape, 3),
                      cn_expand(cn_unsqueeze(from_middle(y, high), 2), shape, 3)};
  cn_tensor *crops = cn_grid_sample(cn_index_select(x, 0, of), cn_stack(at, 2, .dim = -1), .mode = mode,
                                    .padding_mode = "border", .align_corners = 1);
  return cni_onnx_out(c, 0,
                      cn_where(cn_unsqueeze(in, 1), crops, cn_num(cni_onnx_float(c, "extrapolation_value", 0))));
}

/* Whether no input has an element that is no number, or infinite; or has none of the one kind that is asked for. */
static int is_all_finite(cni_onnx_call *c)
{
  size_t n;
  cn_tensor *const *all = cni_onnx_rest(c, 0, &n), *fine = NULL;
  bool nans = cni_onnx_int(c, "isnan_only", 0) != 0, infs = cni_onnx_int(c, "isinf_only", 0) != 0;
  if (!all || !n) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "it has no inputs");
  for (size_t i = 0; i < n; i++) {
    cn_tensor *t = nans   ? cn_logical_not(cn_isnan(all[i]))
                   : infs ? cn_logical_not(cn_isinf(all[i]))
                          : cn_isfinite(all[i]);
    t = t ? cn_all(t) : NULL;
    fine = fine && t ? cn_logical_and(fine, t) : t;
  }
  return cni_onnx_out(c, 0, fine);
}

/* Windows along a dimension, as a new last one. */
static int unfold(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  int64_t dim = x ? cni_onnx_axis(c, cni_onnx_int(c, "dim", -1), cn_ndim(x)) : -1;
  if (dim < 0) return cn_err();
  x = cn_unfold(x, dim, cni_onnx_int(c, "size", 1), cni_onnx_int(c, "step", 1));
  return cni_onnx_out_moved(c, 0, x ? cn_contiguous(x) : NULL, 0);
}

/* Rounded to its type after each step; the scale is an input, or alpha. */
static int scaled_silu(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_maybe(c, 1);
  if (!x || cn_err()) return cn_err();
  cn_tensor *wide = cn_cast(x, CN_F32), *by = scale ? cn_cast(scale, CN_F32) : cn_num(cni_onnx_float(c, "alpha", 1));
  x = cn_cast(cn_mul(wide, by), cn_dtype_of(x));
  return cni_onnx_out(c, 0, x ? cn_mul(x, cn_sigmoid(x)) : NULL);
}

/* Results: query and key, turned by the angles of an embedding. */
static int gemma_rotary(cni_onnx_call *c)
{
  cn_tensor *angles = cni_onnx_in(c, 0);
  if (!angles) return cn_err();
  for (size_t i = 0; i < 2; i++) {
    cn_tensor *x = cni_onnx_in(c, 1 + 2 * i), *turned = cni_onnx_in(c, 2 + 2 * i);
    if (!x || !turned) return cn_err();
    cn_tensor *cos = cn_cast(cn_unsqueeze(cn_cos(angles), 1), cn_dtype_of(x));
    cn_tensor *sin = cn_cast(cn_unsqueeze(cn_sin(angles), 1), cn_dtype_of(x));
    if (cni_onnx_out(c, i, cn_add(cn_mul(x, cos), cn_mul(turned, sin)))) return cn_err();
  }
  return CN_OK;
}

const cni_onnx_op cni_onnx_microsoft_ops[] = {
    ONNX_TEXT("BiasAdd", 1, "add(add(%0, %1), %2)"),
    ONNX_BUILD("ComplexMul", 1, complex_mul),
    ONNX_BUILD("ComplexMulConj", 1, complex_mul),
    ONNX_TEXT("BiasGelu", 1, "gelu(add(%0, %1))"),
    ONNX_FRESH("BiasDropout", 1, bias_dropout),
    ONNX_BUILD("BiasSoftmax", 1, bias_softmax),
    ONNX_BUILD("BiasSplitGelu", 1, bias_split_gelu),
    ONNX_BUILD("CausalConvWithState", 1, causal_conv),
    ONNX_BUILD("CDist", 1, cdist),
    ONNX_BUILD("ConvTransposeWithDynamicPads", 1, conv_transpose_pads),
    ONNX_BUILD("CropAndResize", 1, crop_and_resize),
    ONNX_BUILD("ExpandDims", 1, expand_dims),
    ONNX_BUILD("FastGelu", 1, fast_gelu),
    ONNX_BUILD("FusedConv", 1, fused_conv),
    ONNX_BUILD("FusedGemm", 1, fused_gemm),
    ONNX_BUILD("FusedMatMul", 1, fused_matmul),
    ONNX_BUILD("FusedMatMulActivation", 1, fused_matmul_activation),
    ONNX_TEXT("GatedAdd", 1, "add(%0, mul(%1, %2))"),
    ONNX_BUILD("GatherND", 1, gather_nd),
    ONNX_TEXT("Gelu", 1, "gelu(%0)"),
    ONNX_BUILD("GemmFastGelu", 1, gemm_fast_gelu),
    ONNX_TEXT("Inverse", 1, "inverse(%0)"),
    ONNX_BUILD("Irfft", 1, fourier),
    ONNX_BUILD("IsAllFinite", 1, is_all_finite),
    ONNX_BUILD("LinearAttention", 1, linear_attention),
    ONNX_BUILD("GemmaRotaryEmbedding", 1, gemma_rotary),
    ONNX_BUILD("GridSample", 1, grid_sample),
    ONNX_BUILD("NhwcConv", 1, nhwc_conv),
    ONNX_BUILD("NhwcFusedConv", 1, nhwc_fused_conv),
    ONNX_BUILD("NhwcMaxPool", 1, nhwc_max_pool),
    ONNX_BUILD("Pad", 1, pad),
    ONNX_TEXT("QuickGelu", 1, "mul(%0, sigmoid(mul(%0, $alpha=1.702)))"),
    ONNX_BUILD("Range", 1, range),
    ONNX_BUILD("Rfft", 1, fourier),
    ONNX_TEXT("SampleOp", 1, "%0"),
    ONNX_BUILD("TransposeMatMul", 1, fused_matmul),
    ONNX_BUILD("ScaledSiLU", 1, scaled_silu),
    ONNX_BUILD("UnfoldTensor", 1, unfold),
    ONNX_BUILD("TorchEmbedding", 1, torch_embedding),
    ONNX_BUILD("Trilu", 1, trilu),
    ONNX_BUILD("Unique", 1, unique),
    {NULL, NULL, NULL, 0, 0},
};
