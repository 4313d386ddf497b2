/* multi_head_attention.c: attention with several heads, from the inputs' projections to the output's.
 *
 * Place in the flow: a composite over linear, scaled_dot_product_attention (or, where the weights are wanted, two
 * matrix products and a softmax) and linear. Invariant: inside, operands lie as (batch, head, position, width). */
#include <cairn/kw.h>
#include <math.h>

#include "families.h"
#include "shorthand.h"

enum { /* parameters */
       QUERY,
       KEY,
       VALUE,
       HEADS,
       IN_WEIGHT,
       OUT_WEIGHT,
       IN_BIAS,
       OUT_BIAS,
       BIAS_K,
       BIAS_V,
       ADD_ZERO,
       DROPOUT,
       PADDING,
       MASK,
       WEIGHTS,
       CAUSAL
};

typedef struct heads {
  cn_tensor *q, *k, *v;                       /* (L, B, E), then (B, H, L, D) */
  cn_tensor *mask, *padding;                  /* to be added: (1 or B H, L, S) and (B, S); NULL: none */
  int64_t targets, batch, width, count, size; /* L, B, E, H, D */
} heads;

static cn_tensor *given(const cn_call *c, int i) { return c->args[i].tag == CN_V_TENSOR ? c->args[i].u.t : NULL; }

/* A bool mask, true where a key is shut out, as numbers to add. */
static cn_tensor *added(cn_tensor *mask, int dtype)
{
  if (!mask || mask->d.dtype != CN_BOOL) return cni_in_type(mask, dtype);
  cn_tensor *zero = cn_full(CN_SCALAR_SHAPE, 0, .dtype = (cn_dtype)dtype, .device = mask->d.device);
  return cn_where(mask, cn_num(-(double)__builtin_inff()), zero);
}

static cn_tensor *rows(cn_tensor *x, int64_t part, int64_t width)
{
  return x ? cn_slice(x, 0, part * width, (part + 1) * width) : NULL;
}

/* The inputs through their matrices: one of (3 E, E), or three. */
static int project(const cn_call *c, heads *h)
{
  const cn_value *w = &c->args[IN_WEIGHT];
  cn_tensor *b = given(c, IN_BIAS), **x[3] = {&h->q, &h->k, &h->v};
  if (w->n != 1 && w->n != 3)
    return cn_call_fail(c, CN_ERR_VALUE, "in_proj_weight must be one matrix (3 E, E) or three, not %d", w->n);
  if (w->n == 1 && h->q == h->k && h->k == h->v) { /* one product for all three */
    cn_tensor *all = cn_linear(h->q, w->u.ts[0], b);
    for (int64_t i = 0; i < 3; i++) *x[i] = cn_slice(all, 2, i * h->width, (i + 1) * h->width);
    return cn_err();
  }
  for (int64_t i = 0; i < 3; i++) {
    cn_tensor *own = w->n == 3 ? w->u.ts[i] : rows(w->u.ts[0], i, h->width);
    *x[i] = cn_linear(*x[i], own, rows(b, i, h->width));
  }
  return cn_err();
}

/* One more key, open to all. */
static void longer(heads *h)
{
  if (h->mask) h->mask = cn_constant_pad_nd(h->mask, CN_SHAPE(0, 1));
  if (h->padding) h->padding = cn_constant_pad_nd(h->padding, CN_SHAPE(0, 1));
}

static cn_tensor *with_row(cn_tensor *x, cn_tensor *row, const heads *h)
{
  return cn_cat(CN_TENSORS(x, cn_expand(row, CN_SHAPE(1, h->batch, h->width))));
}

/* (L, B, E) as (B, H, L, D) */
static cn_tensor *split_heads(cn_tensor *x, const heads *h)
{
  if (!x) return NULL;
  return cn_permute(cn_reshape(x, CN_SHAPE(x->d.shape[0], h->batch, h->count, h->size)), CN_SHAPE(1, 2, 0, 3));
}

/* Both masks as one that broadcasts with (B, H, L, S); NULL where there is none. */
static cn_tensor *one_mask(const heads *h)
{
  cn_tensor *mask = h->mask, *padding = h->padding;
  if (mask && mask->d.shape[0] == 1) mask = cn_unsqueeze(mask, 0);
  else if (mask) mask = cn_unflatten(mask, 0, CN_SHAPE(h->batch, h->count));
  if (padding) padding = cn_unsqueeze(cn_unsqueeze(padding, 1), 1);
  return mask && padding ? cn_add(mask, padding) : mask ? mask : padding;
}

static int begin(cn_call *c, heads *h)
{
  const cn_desc *q = &h->q->d, *k = &h->k->d;
  h->count = cni_arg_int(c->args, HEADS);
  if (q->ndim != k->ndim || k->ndim != h->v->d.ndim || q->ndim < 2 || q->ndim > 3)
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "query, key and value must all be (length, batch, width) or (length, width)");
  bool alone = q->ndim == 2, same = h->q == h->k && h->k == h->v;
  if (alone) {
    h->q = cn_unsqueeze(h->q, 1);
    h->k = same ? h->q : cn_unsqueeze(h->k, 1);
    h->v = same ? h->q : cn_unsqueeze(h->v, 1);
    if (cn_err()) return cn_err();
    q = &h->q->d;
  }
  h->targets = q->shape[0], h->batch = q->shape[1], h->width = q->shape[2];
  if (h->count < 1 || h->width % h->count)
    return cn_call_fail(c, CN_ERR_VALUE, "width %lld does not fall into %lld heads", (long long)h->width,
                        (long long)h->count);
  h->size = h->width / h->count;
  h->mask = added(given(c, MASK), q->dtype);
  h->padding = added(given(c, PADDING), q->dtype);
  if (h->mask && h->mask->d.ndim == 2) h->mask = cn_unsqueeze(h->mask, 0);
  if (h->mask && h->mask->d.ndim != 3) return cn_call_fail(c, CN_ERR_SHAPE, "attn_mask must have 2 or 3 dimensions");
  if (h->padding && h->padding->d.ndim == 1) h->padding = cn_unsqueeze(h->padding, 0);
  return cn_err();
}

/* Keys and values that every query sees besides: learned rows, and one of zeros. */
static void extend(const cn_call *c, heads *h)
{
  if (given(c, BIAS_K) && given(c, BIAS_V)) {
    h->k = with_row(h->k, given(c, BIAS_K), h);
    h->v = with_row(h->v, given(c, BIAS_V), h);
    longer(h);
  }
  h->q = split_heads(h->q, h);
  h->k = split_heads(h->k, h);
  h->v = split_heads(h->v, h);
  if (!cni_arg_bool(c->args, ADD_ZERO)) return;
  h->k = cn_constant_pad_nd(h->k, CN_SHAPE(0, 0, 0, 1));
  h->v = cn_constant_pad_nd(h->v, CN_SHAPE(0, 0, 0, 1));
  longer(h);
}

static int attend(cn_call *c, const heads *h, cn_tensor **output)
{
  cn_tensor *mask = one_mask(h);
  double p = cni_arg_float(c->args, DROPOUT);
  if (cni_arg_is(c->args, WEIGHTS, "none")) {
    *output = cn_scaled_dot_product_attention(h->q, h->k, h->v, .attn_mask = mask, .dropout_p = p,
                                              .is_causal = cni_arg_bool(c->args, CAUSAL));
    return cn_err();
  }
  cn_tensor *scores = cn_matmul(cn_mul(h->q, cn_num(sqrt(1 / (double)h->size))), cni_swapped(h->k));
  if (cni_arg_bool(c->args, CAUSAL))
    return cn_call_fail(c, CN_ERR_VALUE, "is_causal is for weights='none'; give an attn_mask otherwise");
  cn_tensor *weights = cn_softmax(mask ? cn_add(scores, mask) : scores, -1);
  if (p > 0) weights = cn_dropout(weights, .p = p);
  *output = cn_matmul(weights, h->v);
  c->out[1] = cni_arg_is(c->args, WEIGHTS, "mean") ? cn_mean(weights, .dim = CN_INTS(1)) : weights;
  return cn_err();
}

static int multi_head_attention_decompose(cn_call *c)
{
  heads h = {.q = c->in[0], .k = c->in[1], .v = c->in[2]};
  bool alone = h.q->d.ndim == 2;
  cn_tensor *y = NULL;
  if (!cni_arg_is(c->args, WEIGHTS, "none") && !cni_arg_is(c->args, WEIGHTS, "mean") &&
      !cni_arg_is(c->args, WEIGHTS, "each"))
    return cn_call_fail(c, CN_ERR_VALUE, "weights must be 'none', 'mean' or 'each', not '%s'",
                        cni_arg_str(c->args, WEIGHTS));
  int status = begin(c, &h);
  if (!status) status = project(c, &h);
  if (status) return status;
  extend(c, &h);
  if (cn_err() || (status = attend(c, &h, &y))) return cn_err();
  y = cn_reshape(cn_permute(y, CN_SHAPE(2, 0, 1, 3)), CN_SHAPE(h.targets, h.batch, h.width));
  y = cn_linear(y, given(c, OUT_WEIGHT), given(c, OUT_BIAS));
  c->out[0] = alone ? cn_squeeze(y, .dim = CN_INTS(1)) : y;
  if (alone && c->out[1]) c->out[1] = cn_squeeze(c->out[1], .dim = CN_INTS(0));
  return cn_err();
}

/* clang-format off */
const cn_op cni_multi_head_attention_ops[] = {
  {.sig = "multi_head_attention(Tensor query, Tensor key, Tensor value, int num_heads, Tensor[] in_proj_weight, "
          "Tensor out_proj_weight, *, Tensor? in_proj_bias=None, Tensor? out_proj_bias=None, Tensor? bias_k=None, "
          "Tensor? bias_v=None, bool add_zero_attn=False, float dropout_p=0, Tensor? key_padding_mask=None, "
          "Tensor? attn_mask=None, str weights='none', bool is_causal=False) -> (Tensor output, Tensor attn_weights) "
          "; nn opt_in_proj_bias opt_out_proj_bias opt_bias_k opt_bias_v opt_key_padding_mask opt_attn_mask",
   .doc = "Attention with several heads between inputs (length, batch, width) or (length, width): projected by "
          "in_proj_weight (one matrix (3 E, E), or three) and at last by out_proj_weight. Bool masks are true where a "
          "key is shut out, others are added. weights says whether the second result is NULL ('none'), the mean over "
          "the heads ('mean') or each head's ('each').",
   .flags = CN_OP_COMPOSITE, .decompose = multi_head_attention_decompose},
};
/* clang-format on */
CNI_FAMILY(multi_head_attention);
