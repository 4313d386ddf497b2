/* fused_norm.c: com.microsoft's operators of norms with what comes before them. See call.h. */
#include <cairn/ext/parts.h>
#include <string.h>

#include "formats/onnx/quant.h"

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

/* What the embeddings of words, of positions and of segments are added up from; NULL: left out. */
typedef struct embeddings {
  cn_tensor *ids, *segments, *words, *places, *kinds, *scale, *shift, *mask, *at;
} embeddings;

/* The norm of the sum of words', positions' and segments' vectors; how many words each sample has. */
static int embed(cni_onnx_call *c, const embeddings *e)
{
  cn_tensor *y, *unused[2];
  if (!e->ids || !e->words || !e->places || !e->scale || !e->shift || cn_err()) return cn_err();
  if (cn_ndim(e->ids) != 2 || cn_ndim(e->words) != 2)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "input_ids must be (batch, length), embeddings matrices");
  int64_t size = cn_shape(e->words)[1], batch = cn_shape(e->ids)[0];
  cn_tensor *sum = cn_embedding(e->ids, e->words, CN_NONE);
  sum =
      cn_add(sum, e->at ? cn_embedding(e->at, e->places, CN_NONE) : cn_narrow(e->places, 0, 0, cn_shape(e->ids)[1]));
  if (e->segments && e->kinds) sum = cn_add(sum, cn_embedding(e->segments, e->kinds, CN_NONE));
  if (!sum || cn_native_layer_norm(&y, &unused[0], &unused[1], sum, &size, 1, e->scale, e->shift,
                                   cni_onnx_float(c, "epsilon", 1e-12)))
    return cn_err();
  cn_tensor *count = e->mask ? cn_cast(cn_sum(e->mask, .dim = CN_INTS(1)), CN_I32)
                             : cn_zeros(CN_SHAPE(batch), .dtype = CN_I32, .device = cn_device_of(e->ids));
  if (cni_onnx_out(c, 0, y) || cni_onnx_out(c, 1, count)) return cn_err();
  return cni_onnx_out(c, 2, sum);
}

static int embed_layer_norm(cni_onnx_call *c)
{
  embeddings e = {cni_onnx_in(c, 0),    cni_onnx_maybe(c, 1), cni_onnx_in(c, 2), cni_onnx_in(c, 3),
                  cni_onnx_maybe(c, 4), cni_onnx_in(c, 5),    cni_onnx_in(c, 6), NULL,
                  cni_onnx_maybe(c, 8)};
  e.mask = cni_onnx_maybe(c, 7);
  return embed(c, &e);
}

/* Input i as real numbers, by the scale, and the zero point 5 inputs behind that; NULL: it is left out. */
static cn_tensor *real(const cni_onnx_call *c, size_t i, size_t scale)
{
  cn_tensor *x = cni_onnx_maybe(c, i), *unit = x ? cni_onnx_in(c, scale) : NULL, *zero = cni_onnx_maybe(c, scale + 5);
  return unit && !cn_err()
             ? cni_onnx_real(x, cn_reshape(unit, CN_SCALAR_SHAPE), zero ? cn_reshape(zero, CN_SCALAR_SHAPE) : NULL)
             : NULL;
}

/* ... of quantised tables. */
static int quantised_embed_layer_norm(cni_onnx_call *c)
{
  embeddings e = {cni_onnx_in(c, 0), cni_onnx_maybe(c, 1), real(c, 2, 8), real(c, 3, 9), real(c, 4, 10),
                  real(c, 5, 11),    real(c, 6, 12),       NULL,          NULL};
  e.mask = cni_onnx_maybe(c, 7);
  return embed(c, &e);
}

/* x in float32, its squares' means 1 over the last dimension. */
static cn_tensor *rms(cn_tensor *x, double eps)
{
  x = x ? cn_cast(x, CN_F32) : NULL;
  return x ? cn_rms_norm(x, CN_SHAPE(cn_shape(x)[cn_ndim(x) - 1]), NULL, .eps = eps != 0 ? eps : (double)CN_ZERO)
           : NULL;
}

/* Rows as many numbers long as the scale, turned up and down by a gate. */
static int gated_rms_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 1), *gate = cni_onnx_in(c, 2);
  bool plain = !strcmp(cni_onnx_text(c, "activation", "silu"), "sigmoid");
  if (!x || !scale || !gate) return cn_err();
  cn_tensor *y = rms(cn_reshape(x, CN_SHAPE(-1, cn_numel(scale))), cni_onnx_float(c, "epsilon", 1e-6));
  y = y ? cn_reshape(cn_mul(y, cn_cast(scale, CN_F32)), cn_shape(x), (size_t)cn_ndim(x)) : NULL;
  gate = cn_cast(gate, CN_F32);
  y = y ? cn_mul(y, plain ? cn_sigmoid(gate) : cn_silu(gate)) : NULL;
  return cni_onnx_out(c, 0, y ? cn_cast(y, cn_dtype_of(x)) : NULL);
}

/* (..., branches, size), or both in one dimension; scales for all, or for each of the same place. */
static int branchwise_rms_norm(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_maybe(c, 1);
  int64_t n = cni_onnx_int(c, "num_branches", 0);
  if (!x || cn_err()) return cn_err();
  if (!n && cn_ndim(x) > 1) n = cn_shape(x)[cn_ndim(x) - 2];
  int64_t last = cn_ndim(x) ? cn_shape(x)[cn_ndim(x) - 1] : 0;
  int64_t size = cni_onnx_int(c, "num_branches", 0) > 0 ? last / n : last;
  if (n < 1 || size < 1) return cni_onnx_fail(c, CN_ERR_SHAPE, "its branches do not fit");
  cn_tensor *y = rms(cn_reshape(x, CN_SHAPE(-1, n, size)), cni_onnx_float(c, "epsilon", 1e-6));
  if (y && scale) y = cn_mul(y, cn_cast(cn_reshape(scale, CN_SHAPE(cn_numel(scale) == size ? 1 : n, size)), CN_F32));
  return cni_onnx_out(c, 0, y ? cn_cast(cn_reshape(y, cn_shape(x), (size_t)cn_ndim(x)), cn_dtype_of(x)) : NULL);
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
    ONNX_BUILD("QEmbedLayerNormalization", 1, quantised_embed_layer_norm),
    ONNX_BUILD("GatedRMSNorm", 1, gated_rms_norm),
    ONNX_BUILD("BranchwiseRMSNorm", 1, branchwise_rms_norm),
    ONNX_BUILD("GroupNorm", 1, group_norm),
    ONNX_BUILD("SkipGroupNorm", 1, skip_group_norm),
    {NULL, NULL, NULL, 0, 0},
};
