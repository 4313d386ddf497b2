/* attention.c: MultiheadAttention. transformer.c builds on it.
 *
 * Place in the flow: a class over the op multi_head_attention. Invariant: where nobody takes the attention weights they
 * are never made, and the op's fused path runs. */
#include <string.h>

#include <cairn/nn.h>

#include "nn.h"

/* ---- the last layer: a Linear that PyTorch prints under another name ---- */

static const cn_module_class *linear(void) { return cn_module_class_find("Linear"); }
static int plain_init(cn_module *m, const cn_value *a) { return linear()->init(m, a); }
static cn_tensor *plain_apply(cn_module *m, cn_tensor *x) { return linear()->apply(m, x); }
static void plain_print(const cn_module *m, cn_text *t) { linear()->print(m, t); }
static double plain_work(const cn_module *m, const cn_module_call *call) { return linear()->work(m, call); }

static const cn_module_class output_linear = {
  CN_MODULE_CLASS,
  .name = "NonDynamicallyQuantizableLinear",
  .sig = "NonDynamicallyQuantizableLinear(int in_features, int out_features, bool bias=True, device? device=None, "
         "dtype? dtype=None) -> Module",
  .doc = "Linear, as attention has it behind its heads.",
  .init = plain_init,
  .apply = plain_apply,
  .print = plain_print,
  .work = plain_work,
};

/* ---- MultiheadAttention ---- */

enum { IN_WEIGHT, Q_WEIGHT, K_WEIGHT, V_WEIGHT, IN_BIAS, BIAS_K, BIAS_V }; /* slots */
enum { EMBED, HEADS, DROPOUT, BIAS, ADD_BIAS_KV, ADD_ZERO, KDIM, VDIM, BATCH_FIRST, DEVICE, DTYPE }; /* arguments */

static void add_weight(cn_module *m, const char *name, const cn_value *place, int64_t out, int64_t in)
{
  cn_tensor *t = cni_new_empty(place, CN_SHAPE(out, in));
  if (t && !cn_init_xavier_uniform(t, 1)) cn_module_add_parameter(m, name, t);
}

static void add_row(cn_module *m, const char *name, const cn_value *place, int64_t width)
{
  cn_tensor *t = cni_new_empty(place, CN_SHAPE(1, 1, width));
  if (t && !cn_init_xavier_normal(t, 1)) cn_module_add_parameter(m, name, t);
}

static int attention_init(cn_module *m, const cn_value *a)
{
  static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
  const cn_value *place = &a[DEVICE];
  int64_t width = a[EMBED].u.i, sizes[3] = {width, a[KDIM].tag == CN_V_INT ? a[KDIM].u.i : width,
                                            a[VDIM].tag == CN_V_INT ? a[VDIM].u.i : width};
  if (width < 1 || a[HEADS].u.i < 1 || sizes[1] < 1 || sizes[2] < 1)
    return cn_err_set(CN_ERR_VALUE, "MultiheadAttention: embed_dim, num_heads, kdim and vdim must be above zero");
  if (width % a[HEADS].u.i)
    return cn_err_set(CN_ERR_VALUE, "MultiheadAttention: embed_dim %lld does not fall into %lld heads",
                      (long long)width, (long long)a[HEADS].u.i);
  bool same = sizes[1] == width && sizes[2] == width;
  if (same) add_weight(m, "in_proj_weight", place, 3 * width, width);
  else cni_add_absent(m, "in_proj_weight");
  for (int i = 0; i < 3; i++)
    if (same) cni_add_absent(m, names[i]);
    else add_weight(m, names[i], place, width, sizes[i]);
  if (a[BIAS].u.i) cni_add_constant(m, "in_proj_bias", place, CN_SHAPE(3 * width), 0);
  else cni_add_absent(m, "in_proj_bias");
  if (a[ADD_BIAS_KV].u.i) add_row(m, "bias_k", place, width), add_row(m, "bias_v", place, width);
  else cni_add_absent(m, "bias_k"), cni_add_absent(m, "bias_v");
  cn_value args[] = {cn_v_int(width), cn_v_int(width), a[BIAS], place[0], place[1]};
  cn_module *out = cn_module_make_class(&output_linear, args, 5);
  if (out && cn_module_slot(out, 1)) cn_init_zeros(cn_module_slot(out, 1));
  return cn_module_add(m, "out_proj", out);
}

/* ---- one call ---- */

typedef struct query {
  cn_tensor *q, *k, *v, *padding, *mask; /* q, k, v: (L, B, E) or (L, E) */
  int64_t targets, sources, batch;
} query;

static int check_mask(const cn_tensor *mask, const char *name)
{
  if (!mask || cn_dtype_of(mask) == CN_BOOL || cn_dtype_is_float(cn_dtype_of(mask))) return CN_OK;
  return cn_err_set(CN_ERR_DTYPE, "MultiheadAttention: %s must be of bools or floats, not %s", name,
                    cn_dtype_name(cn_dtype_of(mask)));
}

static int check_masks(const query *x, bool single, int64_t heads)
{
  const cn_tensor *p = x->padding, *a = x->mask;
  if (check_mask(p, "key_padding_mask") || check_mask(a, "attn_mask")) return cn_err();
  if (p && (cn_ndim(p) != (single ? 1 : 2) || cn_size(p, -1) != x->sources ||
            (!single && cn_size(p, 0) != x->batch)))
    return cn_err_set(CN_ERR_SHAPE, "MultiheadAttention: key_padding_mask must be (batch, %lld), or (%lld) without a "
                      "batch", (long long)x->sources, (long long)x->sources);
  if (!a) return CN_OK;
  bool fits = (cn_ndim(a) == 2 || (cn_ndim(a) == 3 && cn_size(a, 0) == x->batch * heads)) &&
              cn_size(a, -2) == x->targets && cn_size(a, -1) == x->sources;
  if (fits) return CN_OK;
  return cn_err_set(CN_ERR_SHAPE, "MultiheadAttention: attn_mask must be (%lld, %lld) or (%lld, %lld, %lld)",
                    (long long)x->targets, (long long)x->sources, (long long)(x->batch * heads),
                    (long long)x->targets, (long long)x->sources);
}

/* Reads the tensors of a call and transposes them so that positions come first; the same tensor stays the same, which
 * the op looks at. */
static int read_query(const cn_module *m, const cn_module_call *call, query *x)
{
  const cn_value *a = cni_args(m);
  *x = (query){call->args[0].u.t, call->args[1].u.t, call->args[2].u.t, call->args[3].u.t, call->args[5].u.t, 0, 0, 1};
  int ndim = cn_ndim(x->q);
  if ((ndim != 2 && ndim != 3) || cn_ndim(x->k) != ndim || cn_ndim(x->v) != ndim)
    return cn_err_set(CN_ERR_SHAPE, "MultiheadAttention: query, key and value must all have 3 dimensions, or 2 without "
                      "a batch, not %d, %d and %d", ndim, cn_ndim(x->k), cn_ndim(x->v));
  if (ndim == 3 && a[BATCH_FIRST].u.i) {
    cn_tensor *q = cn_transpose(x->q, 0, 1), *k = x->k == x->q ? q : cn_transpose(x->k, 0, 1);
    x->v = x->v == x->k ? k : x->v == x->q ? q : cn_transpose(x->v, 0, 1);
    x->q = q, x->k = k;
  }
  if (cn_err()) return cn_err();
  x->targets = cn_size(x->q, 0), x->sources = cn_size(x->k, 0);
  if (ndim == 3) x->batch = cn_size(x->q, 1);
  if (cn_size(x->q, -1) != a[EMBED].u.i)
    return cn_err_set(CN_ERR_SHAPE, "MultiheadAttention: embed_dim is %lld, the query has %lld columns",
                      (long long)a[EMBED].u.i, (long long)cn_size(x->q, -1));
  if (cn_size(x->v, 0) != x->sources || (ndim == 3 && (cn_size(x->k, 1) != x->batch || cn_size(x->v, 1) != x->batch)))
    return cn_err_set(CN_ERR_SHAPE, "MultiheadAttention: key and value must have the same length, and all three the "
                      "same batch");
  return check_masks(x, ndim == 2, a[HEADS].u.i);
}

static int attention_forward(cn_module *m, cn_module_call *call)
{
  const cn_value *a = cni_args(m);
  cn_module *out = cn_module_child(m, 0);
  query x;
  if (read_query(m, call, &x)) return cn_err();
  bool wanted = call->args[4].u.i && call->nout > 1, causal = call->args[7].u.i;
  if (causal && !x.mask)
    return cn_err_set(CN_ERR_VALUE, "MultiheadAttention: is_causal is a hint about attn_mask, which is missing");
  /* The mask that the hint describes is not read where the kernel can make it up. */
  bool hint = causal && !wanted && !x.padding && !cn_module_slot(m, BIAS_K) && !a[ADD_ZERO].u.i;
  cn_tensor *in[3] = {cn_module_slot(m, IN_WEIGHT), NULL, NULL}, *y = NULL, *weights = NULL;
  for (size_t i = 0; i < 3 && !cn_module_slot(m, IN_WEIGHT); i++) in[i] = cn_module_slot(m, Q_WEIGHT + i);
  cn_multi_head_attention(&y, &weights, x.q, x.k, x.v, a[HEADS].u.i, in, in[1] ? 3 : 1, cn_module_slot(out, 0),
                          .in_proj_bias = cn_module_slot(m, IN_BIAS), .out_proj_bias = cn_module_slot(out, 1),
                          .bias_k = cn_module_slot(m, BIAS_K), .bias_v = cn_module_slot(m, BIAS_V),
                          .add_zero_attn = a[ADD_ZERO].u.i,
                          .dropout_p = cn_module_training(m) ? a[DROPOUT].u.f : 0, .key_padding_mask = x.padding,
                          .attn_mask = hint ? NULL : x.mask, .is_causal = hint,
                          .weights = !wanted ? "none" : call->args[6].u.i ? "mean" : "each");
  if (y && cn_ndim(y) == 3 && a[BATCH_FIRST].u.i) y = cn_transpose(y, 0, 1);
  call->out[0] = y;
  if (wanted) call->out[1] = weights;
  return cn_err();
}

/* Projections of all positions, and the two products of the heads. */
static double attention_work(const cn_module *m, const cn_module_call *call)
{
  query x;
  double width = (double)cni_args(m)[EMBED].u.i;
  if (read_query(m, call, &x)) return 0;
  double targets = (double)(x.targets * x.batch), sources = (double)(x.sources * x.batch);
  double keys = (double)cn_size(x.k, -1), values = (double)cn_size(x.v, -1);
  return targets * width * width * 2 + sources * width * (keys + values) + 2 * targets * (double)x.sources * width;
}

/* PyTorch shows the child alone. */
static void attention_print(const cn_module *m, cn_text *t)
{
  (void)m;
  (void)t;
}

static const cn_module_class attention = {
  CN_MODULE_CLASS,
  .name = "MultiheadAttention",
  .sig = "MultiheadAttention(int embed_dim, int num_heads, float dropout=0.0, bool bias=True, bool add_bias_kv=False, "
         "bool add_zero_attn=False, int? kdim=None, int? vdim=None, bool batch_first=False, device? device=None, "
         "dtype? dtype=None) -> Module ; multihead_attention",
  .doc = "Attention of queries to keys and values with several heads: inputs (L, B, E), (B, L, E) with batch_first, or "
         "(L, E). Bool masks are true where a key is not to be seen, others are added. Gives the output and the "
         "weights of each key.",
  .call = "(Tensor query, Tensor key, Tensor value, Tensor? key_padding_mask=None, bool need_weights=True, "
          "Tensor? attn_mask=None, bool average_attn_weights=True, bool is_causal=False) "
          "-> (Tensor attn_output, Tensor attn_output_weights)",
  .init = attention_init,
  .forward = attention_forward,
  .print = attention_print,
  .work = attention_work,
};

const cn_module_class *const cni_nn_attention_classes[] = {&attention, &output_linear, NULL};
