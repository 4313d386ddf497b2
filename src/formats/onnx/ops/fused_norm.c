/* fused_norm.c: com.microsoft's operators of norms with what comes before them. See call.h. */
#include <cairn/ext/parts.h>

#include "formats/onnx/call.h"

static cn_tensor *plus(cn_tensor *x, cn_tensor *more) { return x && more ? cn_add(x, more) : x; }

/* The norm of the last dimension, centred where that is asked for; results 1 and 2 are its statistics (a mean of 0
 * where it is not centred). */
static int norm_out(cni_onnx_call *c, cn_tensor *x, cn_tensor *scale, cn_tensor *bias, bool centred, double eps)
{
  cn_tensor *y, *mean = NULL, *inverse;
  if (!x || !scale) return cn_err();
  int64_t size = cn_ndim(x) ? cn_shape(x)[cn_ndim(x) - 1] : 0;
  if (!cn_ndim(x) || cn_ndim(scale) != 1 || cn_shape(scale)[0] != size)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "the scale must have %lld numbers", (long long)size);
  if (centred && cn_native_layer_norm(&y, &mean, &inverse, x, &size, 1, scale, bias, eps)) return cn_err();
  if (!centred && cn_native_rms_norm(&y, &inverse, x, &size, 1, scale, eps)) return cn_err();
  if (cni_onnx_out(c, 0, y)) return cn_err();
  if (!mean && cni_onnx_wants(c, 1)) mean = cn_zeros_like(inverse);
  return mean && cni_onnx_out(c, 1, mean) ? cn_err() : cni_onnx_out(c, 2, inverse);
}

/* Of the sum of the input, what skips past it, and a bias: which is a result, too. */
static int skip_norm(cni_onnx_call *c, bool centred)
{
  cn_tensor *scale = cni_onnx_in(c, 2), *shift = centred ? cni_onnx_maybe(c, 3) : NULL;
  cn_tensor *sum = plus(cni_onnx_in(c, 0), cni_onnx_in(c, 1));
  sum = plus(sum, cni_onnx_maybe(c, centred ? 4 : 3));
  if (!sum || cni_onnx_out(c, 3, sum)) return cn_err();
  return norm_out(c, sum, scale, shift, centred, cni_onnx_float(c, "epsilon", 1e-12));
}

static int skip_layer_norm(cni_onnx_call *c) { return skip_norm(c, true); }
static int skip_rms_norm(cni_onnx_call *c) { return skip_norm(c, false); }

/* The norm of the sum of words', positions' and segments' vectors; how many words each sample has. */
static int embed_layer_norm(cni_onnx_call *c)
{
  cn_tensor *ids = cni_onnx_in(c, 0), *segments = cni_onnx_maybe(c, 1), *words = cni_onnx_in(c, 2), *y, *unused[2];
  cn_tensor *places = cni_onnx_in(c, 3), *kinds = cni_onnx_maybe(c, 4), *scale = cni_onnx_in(c, 5);
  cn_tensor *shift = cni_onnx_in(c, 6), *mask = cni_onnx_maybe(c, 7), *at = cni_onnx_maybe(c, 8);
  if (!ids || !words || !places || !scale || !shift) return cn_err();
  if (cn_ndim(ids) != 2 || cn_ndim(words) != 2)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "input_ids must be (batch, length), embeddings matrices");
  int64_t size = cn_shape(words)[1], batch = cn_shape(ids)[0];
  cn_tensor *sum = cn_embedding(ids, words, CN_NONE);
  sum = cn_add(sum, at ? cn_embedding(at, places, CN_NONE) : cn_narrow(places, 0, 0, cn_shape(ids)[1]));
  if (segments && kinds) sum = cn_add(sum, cn_embedding(segments, kinds, CN_NONE));
  if (!sum || cn_native_layer_norm(&y, &unused[0], &unused[1], sum, &size, 1, scale, shift,
                                   cni_onnx_float(c, "epsilon", 1e-12)))
    return cn_err();
  cn_tensor *count = mask ? cn_cast(cn_sum(mask, .dim = CN_INTS(1)), CN_I32)
                          : cn_zeros(CN_SHAPE(batch), .dtype = CN_I32, .device = cn_device_of(ids));
  if (cni_onnx_out(c, 0, y) || cni_onnx_out(c, 1, count)) return cn_err();
  return cni_onnx_out(c, 2, sum);
}

/* x: channels last unless channels_last is 0; with silu behind it where activation is 1. */
static int group_norm_out(cni_onnx_call *c, cn_tensor *x)
{
  cn_tensor *scale = cni_onnx_in(c, 1), *shift = cni_onnx_in(c, 2);
  bool last = cni_onnx_int(c, "channels_last", 1) != 0;
  if (!x || !scale || !shift) return cn_err();
  cn_dtype own = cn_dtype_of(x);
  if (cn_dtype_of(scale) != own) {
    scale = cn_cast(scale, own);
    shift = cn_cast(shift, own);
  }
  int64_t end = cn_ndim(x) - 1, second = 1;
  if (last) x = cn_movedim(x, &end, 1, &second, 1);
  double eps = cni_onnx_float(c, "epsilon", 1e-5);
  cn_tensor *y =
      cn_group_norm(x, cni_onnx_int(c, "groups", 1), scale, shift, .eps = eps != 0 ? eps : (double)CN_ZERO);
  if (cni_onnx_int(c, "activation", 0)) y = cn_silu(y);
  return cni_onnx_out(c, 0, y && last ? cn_contiguous(cn_movedim(y, &second, 1, &end, 1)) : y);
}

static int group_norm(cni_onnx_call *c) { return group_norm_out(c, cni_onnx_in(c, 0)); }

static int skip_group_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *skip = cni_onnx_in(c, 3);
  if (!x || !skip) return cn_err();
  if (cn_ndim(skip) == 2 && cn_ndim(x) == 4) skip = cn_reshape(skip, CN_SHAPE(cn_shape(skip)[0], 1, 1, -1));
  x = plus(plus(x, skip), cni_onnx_maybe(c, 4));
  return x && cni_onnx_out(c, 1, x) ? cn_err() : group_norm_out(c, x);
}

const cni_onnx_op cni_onnx_fused_norm_ops[] = {
    ONNX_BUILD("SkipLayerNormalization", 1, skip_layer_norm),
    ONNX_BUILD("SkipSimplifiedLayerNormalization", 1, skip_rms_norm),
    ONNX_BUILD("EmbedLayerNormalization", 1, embed_layer_norm),
    ONNX_BUILD("GroupNorm", 1, group_norm),
    ONNX_BUILD("SkipGroupNorm", 1, skip_group_norm),
    {NULL, NULL, NULL, 0, 0},
};
