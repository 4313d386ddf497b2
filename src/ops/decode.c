/* decode.c: the family of steps that write a text: a linear layer with its norm, activation and sum, attention over a
 * cache of keys and values, and the choice of a token.
 *
 * Place in the flow: zoo/step.c makes one token of all rows with these, without the host: where it writes, and how much
 * it sees, stands in tensors. Devices have kernels for one or a few rows; else the first two are what they decompose
 * into. Invariant: nothing here carries a gradient; in-place forms write a cache where it is. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

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
   .flags = CN_OP_NO_GRAD, .infer = linear_step_infer, .decompose = linear_step_decompose},
  {.sig = "attend_step(Tensor keys, Tensor values, Tensor output, Tensor query, Tensor key, Tensor value, "
          "Tensor position, Tensor? cosines=None, Tensor? sines=None, *, float scale=1, bool steady=False) "
          "-> (Tensor new_keys, Tensor new_values, Tensor new_output) ; nn internal inplace",
   .doc = "Puts key and value (B, Hk, 1, D) into caches (B, Hk, L, D) at position (B), and lets query (B, H, 1, D) "
          "attend to all up to there: output has its shape. With cosines and sines (L, D) query and key are turned "
          "first, by the row of their position; sines of the first half are negated. steady: nothing that was "
          "queued just before writes to caches and position, which a device may read early.",
   .flags = CN_OP_NO_GRAD | CN_OP_ALIAS_SAFE, .infer = attend_step_infer, .decompose = attend_step_decompose},
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
