/* decode.c: the family of steps that write a text: a linear layer with its norm, activation and sum, attention over a
 * cache of keys and values, a decoder's layers made of these, and the choice of a token.
 *
 * Place in the flow: zoo/step.c makes one token of all rows with these, without the host: where it writes, and how much
 * it sees, stands in tensors. Devices have kernels for one or a few rows; else the first three are what they decompose
 * into. Invariant: nothing here carries a gradient; in-place forms write a cache where it is. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "base/alloc.h"
#include "cost.h"
#include "families.h"
#include "shorthand.h"

/* ---- linear_step(input, weight, bias, norm_weight, norm_bias, other, norm, eps, activation, join) ---- */

enum { NORM = 6, EPS, ACTIVATION, JOIN };

static bool is_word(const cn_value *args, int i, const char *const *words)
{
  for (; *words; words++)
    if (cni_arg_is(args, i, *words)) return true;
  return false;
}

static int linear_step_infer(cn_call *c)
{
  static const char *const norms[] = {"none", "layer", "rms", NULL}, *const joins[] = {"none", "add", "mul", NULL};
  static const char *const activations[] = {"none", "gelu", "gelu_tanh", "relu", "silu", NULL};
  const cn_desc *x = &c->in[0]->d, *w = &c->in[1]->d;
  int64_t shape[CN_MAX_DIMS];
  if (!is_word(c->args, NORM, norms) || !is_word(c->args, ACTIVATION, activations) || !is_word(c->args, JOIN, joins))
    return cn_call_fail(c, CN_ERR_VALUE, "norm, activation or join is not one of its words");
  if ((c->in[3] && cni_arg_is(c->args, NORM, "none")) || (c->in[4] && !cni_arg_is(c->args, NORM, "layer")) ||
      (c->in[5] && cni_arg_is(c->args, JOIN, "none")))
    return cn_call_fail(c, CN_ERR_VALUE, "norm_weight needs a norm, norm_bias a layer norm, other a join");
  if (x->ndim < 1 || w->ndim != 2 || x->shape[x->ndim - 1] != w->shape[1])
    return cn_call_fail(c, CN_ERR_SHAPE, "input (..., in) and weight (out, in) do not fit");
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && (c->in[i]->d.dtype != x->dtype || !cni_dtype_is_float(x->dtype)))
      return cn_call_fail(c, CN_ERR_DTYPE, "all operands must have one floating-point type");
  memcpy(shape, x->shape, sizeof shape);
  shape[x->ndim - 1] = w->shape[0];
  const cn_desc *other = c->in[5] ? &c->in[5]->d : NULL;
  bool joins_one = !cni_arg_is(c->args, JOIN, "none");
  if (joins_one && (!other || !cni_same_shape(x->ndim, shape, other->ndim, other->shape)))
    return cn_call_fail(c, CN_ERR_SHAPE, "other must have the result's shape");
  return cn_call_result(c, 0, x->dtype, x->ndim, shape);
}

static cn_tensor *activated(cn_tensor *x, const cn_value *word)
{
  switch (word->u.s[0]) {
  case 'g': return word->u.s[4] ? cn_gelu(x, .approximate = "tanh") : cn_gelu(x);
  case 'r': return cn_relu(x);
  case 's': return cn_silu(x);
  default: return x;
  }
}

static int linear_step_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  double eps = cni_option_float(cni_arg_float(c->args, EPS));
  int64_t width = cn_size(x, -1);
  if (cni_arg_is(c->args, NORM, "layer")) x = cn_layer_norm(x, CN_SHAPE(width), c->in[3], c->in[4], .eps = eps);
  if (cni_arg_is(c->args, NORM, "rms")) x = cn_rms_norm(x, CN_SHAPE(width), c->in[3], .eps = eps);
  x = activated(cn_linear(x, c->in[1], c->in[2]), &c->args[ACTIVATION]);
  if (cni_arg_is(c->args, JOIN, "add")) x = cn_add(x, c->in[5]);
  if (cni_arg_is(c->args, JOIN, "mul")) x = cn_mul(x, c->in[5]);
  c->out[0] = x;
  return cn_err();
}

/* ---- attend_step(keys, values, output, query, key, value, position, cosines, sines, scale) ---- */

enum { KEYS, VALUES, OUTPUT, QUERY, KEY, VALUE, POSITION, COSINES, SINES, SCALE };

static int attend_step_infer(cn_call *c)
{
  const cn_desc *keys = &c->in[KEYS]->d, *out = &c->in[OUTPUT]->d, *q = &c->in[QUERY]->d, *k = &c->in[KEY]->d;
  const cn_desc *at = &c->in[POSITION]->d;
  bool fits = keys->ndim == 4 && q->ndim == 4 && k->ndim == 4 && keys->shape[0] == q->shape[0] &&
              keys->shape[3] == q->shape[3] && q->shape[2] == 1 && keys->shape[1] && q->shape[1] % keys->shape[1] == 0;
  const int64_t one[4] = {keys->shape[0], keys->shape[1], 1, keys->shape[3]};
  fits = fits && cni_same_shape(4, keys->shape, c->in[VALUES]->d.ndim, c->in[VALUES]->d.shape) &&
         cni_same_shape(4, one, 4, k->shape) && cni_same_shape(4, one, c->in[VALUE]->d.ndim, c->in[VALUE]->d.shape) &&
         cni_same_shape(4, q->shape, out->ndim, out->shape) && at->ndim == 1 && at->shape[0] == one[0];
  for (int i = COSINES; i <= SINES; i++)
    fits = fits && !c->in[COSINES] == !c->in[i] &&
           (!c->in[i] || cni_same_shape(2, keys->shape + 2, c->in[i]->d.ndim, c->in[i]->d.shape));
  if (!fits)
    return cn_call_fail(c, CN_ERR_SHAPE, "cache (B, Hk, L, D), query (B, H, 1, D), key and value (B, Hk, 1, D), "
                        "position (B) and angles (L, D) do not fit");
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && c->in[i]->d.dtype != (i == POSITION ? CN_I64 : q->dtype))
      return cn_call_fail(c, CN_ERR_DTYPE, "position must be int64, the others must have one type");
  int status = CN_OK;
  for (int i = 0; i < 3 && !status; i++) status = cn_call_result(c, i, q->dtype, 4, c->in[i]->d.shape);
  return status;
}

/* x: (B, H, 1, D), its halves turned by angles (B, 1, 1, D); sines of the first half are negated. */
static cn_tensor *turned(cn_tensor *x, cn_tensor *cosines, cn_tensor *sines)
{
  cn_tensor *swapped = cn_roll(x, CN_SHAPE(cn_size(x, 3) / 2), .dims = CN_INTS(3));
  return cn_addcmul(cn_mul(x, cosines), swapped, sines);
}

/* Row `at` of each (L, D), as (B, 1, 1, D). */
static cn_tensor *angles_at(cn_tensor *angles, cn_tensor *at)
{
  return cn_unsqueeze(cn_unsqueeze(cn_index_select(angles, 0, at), 1), 1);
}

static int attend_step_decompose(cn_call *c)
{
  cn_tensor *q = c->in[QUERY], *k = c->in[KEY], *at = c->in[POSITION];
  const int64_t *s = c->in[KEYS]->d.shape;
  cn_tensor *row = cn_reshape(at, CN_SHAPE(s[0], 1, 1, 1));
  if (c->in[COSINES]) {
    cn_tensor *cosines = angles_at(c->in[COSINES], at), *sines = angles_at(c->in[SINES], at);
    q = turned(q, cosines, sines);
    k = turned(k, cosines, sines);
  }
  cn_tensor *index = cn_expand(row, CN_SHAPE(s[0], s[1], 1, s[3]));
  c->out[KEYS] = cn_scatter(c->in[KEYS], 2, index, k);
  c->out[VALUES] = cn_scatter(c->in[VALUES], 2, index, c->in[VALUE]);
  cn_tensor *seen = cn_le(cn_arange(0, (double)s[2], .dtype = CN_I64, .device = c->device), row); /* (B, 1, 1, L) */
  /* what lies behind is not a number, perhaps, and no weight makes that zero */
  cn_tensor *values = cn_where(cn_transpose(seen, 2, 3), c->out[VALUES], cn_num(0));
  c->out[OUTPUT] = cn_scaled_dot_product_attention(q, c->out[KEYS], values, .attn_mask = seen, .enable_gqa = true,
                                                   .scale = cni_option_float(cni_arg_float(c->args, SCALE)));
  return cn_err();
}

/* ---- decoder_step(keys, values, output, input, position, cosines, sines, weights, norm, eps, ...) ---- */

enum { DECODER_INPUT = 3, DECODER_POSITION, DECODER_COSINES, DECODER_SINES, DECODER_WEIGHTS };
enum { DECODER_NORM = DECODER_WEIGHTS + 1, DECODER_EPS, DECODER_ACTIVATION, DECODER_SCALES }; /* places among args */
/* Of each layer's weights; a bias stands behind its weight. */
enum { NORM_1 = 0, TO_Q = 2, TO_K = 4, TO_V = 6, TO_OUT = 8, NORM_2 = 10, TO_GATE = 12, TO_UP = 14, TO_DOWN = 16,
       OF_LAYER = 18 };

static cn_tensor *const *weights_of(const cn_call *c, int64_t layer)
{
  return c->in + DECODER_WEIGHTS + layer * OF_LAYER;
}

static bool is_matrix(const cn_tensor *t, int64_t rows, int64_t columns)
{
  return t && t->d.ndim == 2 && t->d.shape[0] == rows && t->d.shape[1] == columns;
}

/* A weight (out, in) and the bias behind it, if any. */
static bool is_linear(cn_tensor *const *t, int64_t in, int64_t out)
{
  return is_matrix(t[0], out, in) && (!t[1] || (t[1]->d.ndim == 1 && t[1]->d.shape[0] == out));
}

static bool is_norm(cn_tensor *const *t, int64_t width)
{
  for (int i = 0; i < 2; i++)
    if (t[i] && (t[i]->d.ndim != 1 || t[i]->d.shape[0] != width)) return false;
  return true;
}

/* given: columns of keys; queries: a multiple of it. */
static bool layer_fits(cn_tensor *const *w, int64_t width, int64_t given, int64_t queries)
{
  int64_t inner = w[TO_UP] ? w[TO_UP]->d.shape[0] : -1;
  return is_norm(w + NORM_1, width) && is_linear(w + TO_Q, width, queries) && is_linear(w + TO_K, width, given) &&
         is_linear(w + TO_V, width, given) && is_linear(w + TO_OUT, queries, width) && is_norm(w + NORM_2, width) &&
         (!w[TO_GATE] || is_linear(w + TO_GATE, width, inner)) && is_linear(w + TO_UP, width, inner) &&
         is_linear(w + TO_DOWN, inner, width);
}

static bool decoder_fits(const cn_call *c)
{
  const cn_desc *keys = &c->in[KEYS]->d, *x = &c->in[DECODER_INPUT]->d, *at = &c->in[DECODER_POSITION]->d;
  if (keys->ndim != 5 || !keys->shape[0] || x->ndim != 3 || x->shape[1] != 1 || x->shape[0] != keys->shape[1] ||
      !keys->shape[2] || !keys->shape[4] || at->ndim != 1 || at->shape[0] != x->shape[0])
    return false;
  int64_t width = x->shape[2], given = keys->shape[2] * keys->shape[4], queries = 0;
  bool fits = cni_same_shape(5, keys->shape, c->in[VALUES]->d.ndim, c->in[VALUES]->d.shape) &&
              cni_same_shape(3, x->shape, c->in[OUTPUT]->d.ndim, c->in[OUTPUT]->d.shape);
  for (int i = DECODER_COSINES; i <= DECODER_SINES; i++)
    fits = fits && !c->in[DECODER_COSINES] == !c->in[i] &&
           (!c->in[i] || cni_same_shape(2, keys->shape + 3, c->in[i]->d.ndim, c->in[i]->d.shape));
  for (int64_t n = 0; fits && n < keys->shape[0]; n++) {
    cn_tensor *const *w = weights_of(c, n);
    if (!n) queries = w[TO_Q] ? w[TO_Q]->d.shape[0] : 0;
    fits = queries && queries % given == 0 && layer_fits(w, width, given, queries);
  }
  return fits;
}

static int decoder_step_infer(cn_call *c)
{
  static const char *const norms[] = {"layer", "rms", NULL};
  static const char *const activations[] = {"none", "gelu", "gelu_tanh", "relu", "silu", NULL};
  const cn_desc *keys = &c->in[KEYS]->d;
  int64_t layers = keys->ndim ? keys->shape[0] : 0;
  if (!is_word(c->args, DECODER_NORM, norms) || !is_word(c->args, DECODER_ACTIVATION, activations))
    return cn_call_fail(c, CN_ERR_VALUE, "norm or activation is not one of its words");
  const cn_value *scales = &c->args[DECODER_SCALES];
  if (c->args[DECODER_WEIGHTS].n != layers * OF_LAYER || (scales->tag == CN_V_FLOATS && scales->n != layers))
    return cn_call_fail(c, CN_ERR_VALUE, "there must be %d weights and a scale for each layer of the cache", OF_LAYER);
  if (!decoder_fits(c))
    return cn_call_fail(c, CN_ERR_SHAPE, "caches (layers, B, Hk, L, D), output and input (B, 1, C), position (B), "
                        "angles (L, D) and weights do not fit");
  for (int64_t n = 0; n < layers && cni_arg_is(c->args, DECODER_NORM, "rms"); n++)
    if (weights_of(c, n)[NORM_1 + 1] || weights_of(c, n)[NORM_2 + 1])
      return cn_call_fail(c, CN_ERR_VALUE, "an RMS norm has no bias");
  int dtype = c->in[DECODER_INPUT]->d.dtype, status = CN_OK;
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && c->in[i]->d.dtype != (i == DECODER_POSITION ? CN_I64 : dtype))
      return cn_call_fail(c, CN_ERR_DTYPE, "position must be int64, the others must have one type");
  if (!cni_dtype_is_float(dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "tensors must be floats");
  for (int i = 0; i < 3 && !status; i++) status = cn_call_result(c, i, dtype, c->in[i]->d.ndim, c->in[i]->d.shape);
  return status;
}

/* A linear layer of this call, whose weight stands at `at`, behind a norm if there is one. */
static cn_tensor *linear_of(const cn_call *c, cn_tensor *x, cn_tensor *const *norm, cn_tensor *const *at,
                            const char *activation, cn_tensor *other, bool times)
{
  return cn_linear_step(x, at[0], at[1], norm ? norm[0] : NULL, norm ? norm[1] : NULL, other,
                        .norm = norm ? c->args[DECODER_NORM].u.s : "none",
                        .eps = cni_option_float(cni_arg_float(c->args, DECODER_EPS)), .activation = activation,
                        .join = !other ? "none" : times ? "mul" : "add");
}

static cn_tensor *heads_of(cn_tensor *x, int64_t width)
{
  return x ? cn_view(x, CN_SHAPE(cn_size(x, 0), cn_size(x, 2) / width, 1, width)) : NULL;
}

static double scale_of(const cn_call *c, int64_t n)
{
  const cn_value *scales = &c->args[DECODER_SCALES];
  return scales->tag == CN_V_FLOATS ? scales->u.fs[n] : 1 / sqrt((double)c->in[KEYS]->d.shape[4]);
}

/* Layer n of x; its cache becomes *keys and *values. */
static cn_tensor *decoder_layer(const cn_call *c, int64_t n, cn_tensor *x, cn_tensor **keys, cn_tensor **values)
{
  cn_tensor *const *w = weights_of(c, n), *y = NULL;
  const char *activation = c->args[DECODER_ACTIVATION].u.s;
  int64_t width = c->in[KEYS]->d.shape[4];
  cn_tensor *q = heads_of(linear_of(c, x, w, w + TO_Q, "none", NULL, false), width);
  cn_tensor *k = heads_of(linear_of(c, x, w, w + TO_K, "none", NULL, false), width);
  cn_tensor *v = heads_of(linear_of(c, x, w, w + TO_V, "none", NULL, false), width);
  cn_tensor *room = q ? cn_empty_like(q) : NULL;
  if (!room || cn_attend_step(keys, values, &y, cn_select(c->in[KEYS], 0, n), cn_select(c->in[VALUES], 0, n), room, q,
                              k, v, c->in[DECODER_POSITION], c->in[DECODER_COSINES], c->in[DECODER_SINES],
                              .scale = cni_option_float(scale_of(c, n))))
    return NULL;
  y = cn_reshape(y, CN_SHAPE(cn_size(x, 0), 1, cn_size(q, 1) * width));
  x = linear_of(c, y, NULL, w + TO_OUT, "none", x, false);
  cn_tensor *gate = w[TO_GATE] ? linear_of(c, x, w + NORM_2, w + TO_GATE, activation, NULL, false) : NULL;
  y = linear_of(c, x, w + NORM_2, w + TO_UP, gate ? "none" : activation, gate, true);
  return linear_of(c, y, NULL, w + TO_DOWN, "none", x, false);
}

static int decoder_step_decompose(cn_call *c)
{
  int64_t layers = c->in[KEYS]->d.shape[0];
  size_t bytes = 2 * (size_t)layers * sizeof(cn_tensor *);
  cn_tensor *x = c->in[DECODER_INPUT], **kept = cni_alloc(bytes);
  if (!kept) return cn_err();
  for (int64_t n = 0; n < layers && x; n++) x = decoder_layer(c, n, x, &kept[n], &kept[layers + n]);
  if (x) c->out[KEYS] = cn_stack(kept, (size_t)layers), c->out[VALUES] = cn_stack(kept + layers, (size_t)layers);
  c->out[OUTPUT] = x;
  cni_free(kept, bytes);
  return cn_err();
}

/* ---- choose_token(tokens, current, position, ended, scores, uniforms, prompt, temperature, ...) ---- */

static int choose_token_infer(cn_call *c)
{
  const cn_desc *tokens = &c->in[0]->d, *scores = &c->in[4]->d;
  int64_t rows = tokens->ndim == 2 ? tokens->shape[0] : -1;
  const int64_t column[2] = {rows, 1};
  if (rows < 0 || !cni_same_shape(2, column, c->in[1]->d.ndim, c->in[1]->d.shape) ||
      !cni_same_shape(1, column, c->in[2]->d.ndim, c->in[2]->d.shape) ||
      !cni_same_shape(1, column, c->in[3]->d.ndim, c->in[3]->d.shape) || scores->ndim != 2 ||
      scores->shape[0] != rows || !scores->shape[1] || c->in[5]->d.ndim != 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "tokens (B, L), current (B, 1), position (B), ended (B), scores (B, "
                        "vocabulary) and uniforms (n) do not fit");
  for (int i = 0; i < 4; i++)
    if (c->in[i]->d.dtype != CN_I64) return cn_call_fail(c, CN_ERR_DTYPE, "tokens and positions must be int64");
  if (!cni_dtype_is_float(scores->dtype) || c->in[5]->d.dtype != CN_F64)
    return cn_call_fail(c, CN_ERR_DTYPE, "scores must be floats, uniforms float64");
  int status = CN_OK;
  for (int i = 0; i < 4 && !status; i++)
    status = cn_call_result(c, i, CN_I64, c->in[i]->d.ndim, c->in[i]->d.shape);
  return status;
}

/* clang-format off */
const cn_op cni_decode_ops[] = {
  {.sig = "linear_step(Tensor input, Tensor weight, Tensor? bias=None, Tensor? norm_weight=None, "
          "Tensor? norm_bias=None, Tensor? other=None, *, str norm=\"none\", float eps=1e-05, "
          "str activation=\"none\", str join=\"none\", bool steady=False) -> Tensor ; nn internal",
   .doc = "linear(normed input, weight, bias), then its activation (none, gelu, gelu_tanh, relu, silu), to which other "
          "is added or by which it is multiplied (join: none, add, mul). norm: none, layer or rms, over the last "
          "dimension. steady: nothing that was queued just before writes to the weights, which a device may read "
          "early.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_product, .infer = linear_step_infer, .decompose = linear_step_decompose},
  {.sig = "attend_step(Tensor keys, Tensor values, Tensor output, Tensor query, Tensor key, Tensor value, "
          "Tensor position, Tensor? cosines=None, Tensor? sines=None, *, float scale=1, bool steady=False) "
          "-> (Tensor new_keys, Tensor new_values, Tensor new_output) ; nn internal inplace",
   .doc = "Puts key and value (B, Hk, 1, D) into caches (B, Hk, L, D) at position (B), and lets query (B, H, 1, D) "
          "attend to all up to there: output has its shape. With cosines and sines (L, D) query and key are turned "
          "first, by the row of their position; sines of the first half are negated. steady: nothing that was "
          "queued just before writes to caches and position, which a device may read early.",
   .flags = CN_OP_NO_GRAD | CN_OP_ALIAS_SAFE, .cost = cni_cost_attend_step,
   .infer = attend_step_infer, .decompose = attend_step_decompose},
  {.sig = "decoder_step(Tensor keys, Tensor values, Tensor output, Tensor input, Tensor position, Tensor? cosines, "
          "Tensor? sines, Tensor?[] weights, *, str norm=\"layer\", float eps=1e-05, str activation=\"gelu\", "
          "float[]? scales=None, bool steady=False) "
          "-> (Tensor new_keys, Tensor new_values, Tensor new_output) ; nn internal inplace",
   .doc = "The layers of a decoder for the token at position (B), of caches (layers, B, Hk, L, D). Each is attend_step "
          "behind a norm of its input (B, 1, C), added to that, then linear layers behind another norm, added to the "
          "sum; output has the last one's. weights: of each layer weight and bias of a norm, of queries, keys, values, "
          "of what leads back, of the second norm, a gate, the layer to more columns, and the one back; any bias, and "
          "the gate, may be absent. With a gate, activation(gate) multiplies the other layer. scales: of scores, one a "
          "layer; without them 1 / sqrt(D). steady: as in linear_step and attend_step.",
   .flags = CN_OP_NO_GRAD | CN_OP_ALIAS_SAFE, .cost = cni_cost_decoder_step,
   .infer = decoder_step_infer, .decompose = decoder_step_decompose},
  {.sig = "choose_token(Tensor tokens, Tensor current, Tensor position, Tensor ended, Tensor scores, "
          "Tensor uniforms, *, int prompt=0, float temperature=1, int top_k=0, float top_p=1, float penalty=1, "
          "int stop=-1) -> (Tensor new_tokens, Tensor new_current, Tensor new_position, Tensor new_ended) "
          "; nn internal inplace",
   .doc = "Chooses what follows position (B) in each row of tokens (B, L) by its scores (B, vocabulary), puts it there "
          "and into current (B, 1), and advances position. ended (B) is where a row's stop token lies, or L: behind it "
          "there is nothing but stop. temperature 0: the likeliest, the first of equals; else the n-th draw since the "
          "prompt (a number of tokens) takes uniforms[n]. A row that is full stays as it is.",
   .flags = CN_OP_NO_GRAD | CN_OP_ALIAS_SAFE, .infer = choose_token_infer},
};
/* clang-format on */
CNI_FAMILY(decode);
