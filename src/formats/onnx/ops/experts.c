/* experts.c: com.microsoft's mixtures of experts: rows go to the few networks that a router scores highest. See call.h,
 * quant.h.
 *
 * Outside of graphs each expert computes the rows that it got; what a graph captures has all of them compute all rows,
 * since which rows they get depends on data. */
#include <math.h>
#include <string.h>

#include "formats/onnx/quant.h"

/* Which inputs a projection's are; NONE: there are none. */
enum { NONE = 99 };
typedef struct projection {
  size_t weight, scale, bias, zero;
  const char *bits; /* the attribute that says how many a number has */
} projection;

static const projection plain[3] = {{2, NONE, 3, NONE, ""}, {4, NONE, 5, NONE, ""}, {6, NONE, 7, NONE, ""}};
static const projection quantised[3] = {{2, 3, 4, 11, "fc1_expert_weight_bits"},
                                        {5, 6, 7, 12, "fc2_expert_weight_bits"},
                                        {8, 9, 10, 13, "fc3_expert_weight_bits"}};

/* Expert e's part of an input; NULL: it is left out. */
static cn_tensor *part(const cni_onnx_call *c, size_t i, int64_t e)
{
  cn_tensor *t = cni_onnx_maybe(c, i);
  if (t && (cn_ndim(t) < 2 || e >= cn_shape(t)[0]))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "input %zu has not all experts", i), NULL;
  return t ? cn_select(t, 0, e) : NULL;
}

/* An expert's matrix (rows, columns), as numbers of the type. */
static cn_tensor *matrix(const cni_onnx_call *c, const projection *p, int64_t e, cn_dtype dtype)
{
  cn_tensor *w = part(c, p->weight, e), *scale = part(c, p->scale, e), *zero = part(c, p->zero, e);
  if (!w || cn_err() || p->scale == NONE) return w;
  int64_t bits = cni_onnx_int(c, p->bits, cni_onnx_int(c, "expert_weight_bits", 4));
  if (!scale || cn_ndim(w) != 2 || cn_dtype_of(w) != CN_U8 || (bits != 2 && bits != 4 && bits != 8))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "its weights, scales and bits do not fit"), NULL;
  w = cn_cast(cni_onnx_unpacked(w, bits), CN_F32);
  bool blocks = cn_ndim(scale) == 2;
  if (zero) zero = cn_cast(cni_onnx_unpacked(zero, bits), CN_F32);
  if (!w || cn_err()) return NULL;
  int64_t rows = cn_shape(w)[0], columns = cn_shape(w)[1], n = blocks ? cn_shape(scale)[1] : 1;
  if (zero) zero = cn_narrow(zero, -1, 0, blocks ? n : rows);
  if (cn_shape(scale)[0] != rows || n < 1 || columns % n)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "its scales do not fit its weights"), NULL;
  zero = zero ? cn_reshape(zero, CN_SHAPE(rows, n, 1)) : cn_num((double)(1 << (bits - 1)));
  w = cn_mul(cn_sub(cn_reshape(w, CN_SHAPE(rows, n, columns / n)), zero),
             cn_cast(cn_reshape(scale, CN_SHAPE(rows, n, 1)), CN_F32));
  return w ? cn_cast(cn_reshape(w, CN_SHAPE(rows, columns)), dtype) : NULL;
}

static cn_tensor *projected(const cni_onnx_call *c, const projection *p, int64_t e, cn_tensor *x)
{
  cn_tensor *w = x ? matrix(c, p, e, cn_dtype_of(x)) : NULL, *b = w ? part(c, p->bias, e) : NULL;
  return w && !cn_err() ? cn_linear(x, w, b) : NULL;
}

/* Of a gate and what goes through it, both within a limit where there is one. */
static cn_tensor *swiglu(const cni_onnx_call *c, cn_tensor *gate, cn_tensor *through)
{
  double limit = cni_onnx_float(c, "swiglu_limit", INFINITY);
  if (!gate || !through) return NULL;
  if (limit < INFINITY) {
    gate = cn_clamp(gate, NULL, cn_num(limit));
    through = cn_clamp(through, cn_num(-limit), cn_num(limit));
  }
  gate = cn_mul(gate, cn_sigmoid(cn_mul(gate, cn_num(cni_onnx_float(c, "activation_alpha", 1)))));
  return cn_mul(gate, cn_add(through, cn_num(cni_onnx_float(c, "activation_beta", 0))));
}

static cn_tensor *activated(const cni_onnx_call *c, const projection *p, int64_t e, cn_tensor *x, cn_tensor *h)
{
  const char *name = cni_onnx_text(c, "activation_type", "relu");
  int64_t fusion = cni_onnx_int(c, "swiglu_fusion", 0), wide = h ? cn_shape(h)[1] : 0;
  if (!h) return NULL;
  if (!strcmp(name, "swiglu")) {
    if (!fusion) return swiglu(c, h, projected(c, &p[2], e, x));
    if (wide % 2) return cni_onnx_fail(c, CN_ERR_SHAPE, "what goes into swiglu is no pair"), NULL;
    int64_t at = fusion == 1 ? 2 : 1, shape[3] = {-1, at == 2 ? wide / 2 : 2, at == 2 ? 2 : wide / 2};
    cn_tensor *pairs = cn_reshape(h, shape, 3);
    return swiglu(c, cn_select(pairs, at, 0), cn_select(pairs, at, 1));
  }
  if (!strcmp(name, "relu")) h = cn_relu(h);
  else if (!strcmp(name, "gelu")) h = cn_gelu(h, .approximate = "tanh");
  else if (!strcmp(name, "silu")) h = cn_silu(h);
  else if (strcmp(name, "identity") != 0) return cni_onnx_fail(c, CN_ERR_VALUE, "activation '%s'", name), NULL;
  return cni_onnx_has(c, p[2].weight) ? cn_mul(h, projected(c, &p[2], e, x)) : h;
}

static cn_tensor *expert(const cni_onnx_call *c, const projection *p, int64_t e, cn_tensor *x)
{
  return projected(c, &p[1], e, activated(c, p, e, x, projected(c, &p[0], e, x)));
}

/* (tokens, experts): how much of each expert's result a token gets; 0 of most. Quantised ones share out the whole, as
 * in onnxruntime, whatever normalize_routing_weights says. */
static cn_tensor *shares(cni_onnx_call *c, cn_tensor *scores, size_t given)
{
  int64_t k = cni_onnx_int(c, "k", 1);
  cn_tensor *best, *at, *mix = cni_onnx_maybe(c, given);
  bool asked = cni_onnx_int(c, "normalize_routing_weights", 0) != 0, normal = asked || (given != NONE && !mix);
  if (!scores || cn_err() || cn_topk(&best, &at, scores, k, .dim = 1)) return NULL;
  cn_tensor *w = mix ? cn_gather(mix, 1, at) : normal ? cn_softmax(best, 1) : cn_gather(cn_softmax(scores, 1), 1, at);
  if (mix && normal) w = cn_div(w, cn_sum(w, .dim = CN_INTS(1), .keepdim = true));
  return w ? cn_scatter(cn_zeros_like(scores), 1, at, w) : NULL;
}

static int mixture(cni_onnx_call *c, const projection *p, size_t given)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scores = cni_onnx_in(c, 1);
  if (!x || !scores) return cn_err();
  if (cn_ndim(scores) != 2 || cn_ndim(x) < 2) return cni_onnx_fail(c, CN_ERR_SHAPE, "router_probs must be a matrix");
  if (cni_onnx_int(c, "use_sparse_mixer", 0))
    return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "use_sparse_mixer is not there");
  cn_tensor *rows = cn_reshape(x, CN_SHAPE(-1, cn_shape(x)[cn_ndim(x) - 1]));
  cn_tensor *share = shares(c, scores, given), *sum = rows ? cn_zeros_like(rows) : NULL;
  for (int64_t e = 0; share && sum && e < cn_shape(scores)[1]; e++) {
    cn_tensor *mine = cn_narrow(share, 1, e, 1), *at, *y;
    if (cn_tracing()) {
      y = expert(c, p, e, rows);
      sum = y ? cn_add(sum, cn_mul(y, mine)) : NULL;
      continue;
    }
    if (!(at = cn_nonzero(cn_select(mine, 1, 0))) || !cn_numel(at)) continue;
    at = cn_reshape(at, CN_SHAPE(-1));
    y = expert(c, p, e, cn_index_select(rows, 0, at));
    sum = y ? cn_index_add(sum, 0, at, cn_mul(y, cn_index_select(mine, 0, at))) : NULL;
  }
  if (cn_err() || !sum) return cn_err();
  return cni_onnx_out(c, 0, cn_reshape(sum, cn_shape(x), (size_t)cn_ndim(x)));
}

static int moe(cni_onnx_call *c) { return mixture(c, plain, NONE); }

static int quantised_moe(cni_onnx_call *c)
{
  const char *type = cni_onnx_text(c, "quant_type", "int");
  if (strcmp(type, "int") != 0) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "quant_type '%s' is not there", type);
  if (cni_onnx_int(c, "weights_prepacked", 0) > 0)
    return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "weights in a device's own order (weights_prepacked)");
  return mixture(c, quantised, 14);
}

const cni_onnx_op cni_onnx_experts_ops[] = {
    ONNX_BUILD("MoE", 1, moe),
    ONNX_BUILD("QMoE", 1, quantised_moe),
    {NULL, NULL, NULL, 0, 0},
};
