/* attention.c: scaled dot product attention: softmax(scale * Q K^T + mask) V.
 *
 * Place in the flow: scaled_dot_product_attention checks, brings its operands to four dimensions and calls
 * sdpa_forward, whose kernels never hold the scores of more than a block, so memory is linear in the lengths. For
 * dropout numbers are reserved (`draws`), which kernels draw themselves; those that do not are given what dropout
 * leaves of ones in the place of every score (`dropped`), forward and again backward. Its gradient is sdpa_backward,
 * or, where the explicit scores are needed (gradients of gradients, of the mask, of the logsumexp), the textbook
 * formulas in public ops. Invariant: a query that may look at no key gives zeros, and so do its gradients. */
#include <cairn/autograd.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "cost.h"
#include "families.h"
#include "shorthand.h"
#include "table.h"

/* ---- the formulas in public ops; all operands (B, H, T, D) ---- */

/* x: (B, Hk, T, D), each head repeated for its group of the `heads` query heads. */
static cn_tensor *spread_heads(cn_tensor *x, int64_t heads)
{
  const int64_t *s = cn_shape(x);
  if (!x || s[1] == heads) return x;
  cn_tensor *groups = cn_expand(cn_unsqueeze(x, 2), CN_SHAPE(s[0], s[1], heads / s[1], s[2], s[3]));
  return cn_reshape(groups, CN_SHAPE(s[0], heads, s[2], s[3]));
}

/* Its gradient: (B, H, T, D) added up to `heads` heads. */
static cn_tensor *gather_heads(cn_tensor *g, int64_t heads)
{
  const int64_t *s = cn_shape(g);
  if (!g || s[1] == heads) return g;
  return cn_sum(cn_reshape(g, CN_SHAPE(s[0], heads, s[1] / heads, s[2], s[3])), .dim = CN_INTS(2));
}

/* True where key j is not after query i: (Tq, Tk). */
static cn_tensor *causal_mask(int64_t queries, int64_t keys, cn_device device)
{
  cn_tensor *i = cn_arange(0, (double)queries, .dtype = CN_I64, .device = device);
  cn_tensor *j = cn_arange(0, (double)keys, .dtype = CN_I64, .device = device);
  return cn_ge(cn_unsqueeze(i, 1), j);
}

/* scale * Q K^T with -inf where the mask says no: (B, H, Tq, Tk). q: (B, H, Tq, D), k: (B, H, Tk, D) */
static cn_tensor *scores_of(cn_tensor *q, cn_tensor *k, cn_tensor *mask, bool causal, double scale)
{
  cn_tensor *s = cn_mul(cn_matmul(q, cni_swapped(k)), cn_num(scale));
  if (causal) mask = causal_mask(cn_size(q, 2), cn_size(k, 2), cn_device_of(q));
  if (!mask) return s;
  if (cn_dtype_of(mask) == CN_BOOL) return cn_where(mask, s, cn_num(-INFINITY));
  return s ? cn_add(s, cni_in_type(mask, s->d.dtype)) : NULL;
}

/* softmax of s: (B, H, Tq, Tk) over the keys, zeros for queries with none; *lse (if wanted): (B, H, Tq, 1).
 * The largest score only shifts, so no gradient goes through it. */
static cn_tensor *weights_of(cn_tensor *s, cn_tensor **lse)
{
  if (!s) return NULL;
  cn_tensor *top = NULL, *e = s;
  if (cn_size(s, 3) > 0) {
    top = cn_amax(cn_detach(s), .dim = CN_INTS(-1), .keepdim = true);
    top = cn_where(cn_eq(top, cn_num(-INFINITY)), cn_num(0), top);
    e = cn_exp(cn_sub(s, top));
  }
  cn_tensor *sum = cn_sum(e, .dim = CN_INTS(-1), .keepdim = true);
  if (lse) *lse = top ? cn_add(cn_log(sum), top) : cn_log(sum);
  return cn_true_divide(e, cn_where(cn_eq(sum, cn_num(0)), cn_num(1), sum));
}

/* Dropout of w: (B, H, Tq, Tk). dropped: 0 where a weight goes; NULL: all stay. */
static cn_tensor *thinned(cn_tensor *w, cn_tensor *dropped, double p)
{
  return dropped ? cn_where(cn_ne(dropped, cn_int(0)), cn_mul(w, cn_num(1 / (1 - p))), cn_num(0)) : w;
}

/* What dropout leaves of ones in the place of every score: (B, H, Tq, Tk); NULL: it is not wanted. */
static cn_tensor *dropped_ones(cn_tensor *draws, const cn_tensor *q, const cn_tensor *k, double p)
{
  if (!draws || !q || !k) return NULL;
  return cn_dropped_ones(draws, CN_SHAPE(q->d.shape[0], q->d.shape[1], q->d.shape[2], k->d.shape[2]), p,
                         .dtype = (cn_dtype)q->d.dtype);
}

enum { DROPPED = 4, DRAWS = 5 }; /* sdpa_forward's inputs: of both one is there, or none */

/* in: those of sdpa_forward. *lse (if wanted): (B, H, Tq, 1) */
static cn_tensor *by_parts(cn_tensor *const *in, bool causal, double scale, double drop, cn_tensor **lse)
{
  cn_tensor *dropped = in[DRAWS] ? dropped_ones(in[DRAWS], in[0], in[1], drop) : in[DROPPED];
  int given = in[0]->d.dtype, type = cni_wide_type(given);
  int64_t heads = cn_size(in[0], 1);
  cn_tensor *q = cni_in_type(in[0], type), *k = spread_heads(cni_in_type(in[1], type), heads);
  cn_tensor *v = spread_heads(cni_in_type(in[2], type), heads);
  cn_tensor *w = weights_of(scores_of(q, k, in[3], causal, scale), lse);
  return cni_in_type(cn_matmul(thinned(w, dropped, drop), v), given);
}

/* Gradients wanted of an attention, explicitly; NULL where not wanted. */
typedef struct gradients {
  cn_tensor *q, *k, *v, *mask;
} gradients;

/* in: those of sdpa_forward; g: (B, H, Tq, Dv) and g_lse: (B, H, Tq) may be NULL for
 * zero. */
static gradients explicit_gradients(cn_tensor *const *in, bool causal, double scale, double drop, cn_tensor *g,
                                    cn_tensor *g_lse)
{
  cn_tensor *q = in[0], *k = in[1], *v = in[2];
  cn_tensor *dropped = in[DRAWS] ? dropped_ones(in[DRAWS], q, k, drop) : in[DROPPED];
  int type = cni_wide_type(q->d.dtype);
  int64_t heads = cn_size(k, 1);
  gradients r = {0};
  q = cni_in_type(q, type);
  k = spread_heads(cni_in_type(k, type), cn_size(q, 1));
  v = spread_heads(cni_in_type(v, type), cn_size(q, 1));
  if (cn_err()) return r;
  cn_tensor *p = weights_of(scores_of(q, k, in[3], causal, scale), NULL);
  cn_tensor *ds = NULL;
  if (g) {
    g = cni_in_type(g, type);
    cn_tensor *dp = thinned(cn_matmul(g, cni_swapped(v)), dropped, drop);
    r.v = gather_heads(cn_matmul(cni_swapped(thinned(p, dropped, drop)), g), heads);
    ds = cn_mul(p, cn_sub(dp, cn_sum(cn_mul(p, dp), .dim = CN_INTS(-1), .keepdim = true)));
  }
  if (g_lse) {
    cn_tensor *more = cn_mul(p, cn_unsqueeze(g_lse, -1));
    ds = ds ? cn_add(ds, more) : more;
  }
  if (!ds) return r;
  r.mask = ds;
  r.q = cn_mul(cn_matmul(ds, k), cn_num(scale));
  r.k = gather_heads(cn_mul(cn_matmul(cni_swapped(ds), q), cn_num(scale)), heads);
  return r;
}

/* ---- sdpa_forward ---- */

unsigned cn_attention_begin(unsigned ways)
{
  cn_state *s = cni_state();
  unsigned saved = s->attention;
  s->attention = ways;
  return saved;
}
void cn_attention_end(unsigned saved) { cni_state()->attention = saved; }

static int no_kernel(void)
{
  return cni_fail(CN_ERR_UNSUPPORTED, "scaled_dot_product_attention: No available kernel. Aborting execution. (None of "
                                      "those that were chosen takes these operands on this device.)");
}

enum { CAUSAL = 5, SCALE = 6, DROP = 7 }; /* its parameters */

static double scale_or(const cn_value *args, int i, int64_t features)
{
  return cni_arg_none(args, i) ? 1 / sqrt((double)features) : cni_arg_float(args, i);
}

static int shapes_differ(const cn_call *c, int first)
{
  char text[3][CNI_SHAPE_TEXT];
  for (int i = 0; i < 3; i++) {
    const cn_desc *d = &c->in[first + i]->d;
    cni_shape_text(text[i], CNI_SHAPE_TEXT, d->ndim, d->shape);
  }
  return cn_call_fail(
      c, CN_ERR_SHAPE,
      "query %s, key %s and value %s do not fit; expected (..., H, L, E), (..., H, S, E), (..., H, S, Ev)",
      text[0], text[1], text[2]);
}

static int check_types(const cn_call *c, int first, const cn_tensor *mask)
{
  const cn_tensor *q = c->in[first];
  for (int i = first; i < first + 3; i++)
    if (c->in[i]->d.dtype != q->d.dtype || !cni_dtype_is_float(q->d.dtype) || !cni_dtype_computes(q->d.dtype))
      return cn_call_fail(c, CN_ERR_DTYPE,
                          "query, key and value must have one floating-point type, but are %s and %s",
                          cn_dtype_name((cn_dtype)q->d.dtype), cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  if (mask && mask->d.dtype != CN_BOOL && mask->d.dtype != CN_F32 && mask->d.dtype != q->d.dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "attn_mask must be bool, float32 or of query's type %s, not %s",
                        cn_dtype_name((cn_dtype)q->d.dtype), cn_dtype_name((cn_dtype)mask->d.dtype));
  return CN_OK;
}

static int check_mask(const cn_call *c, const cn_tensor *mask, int ndim, const int64_t *scores)
{
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  if (!mask || cni_broadcasts_to(mask->d.ndim, mask->d.shape, ndim, scores)) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "attn_mask of shape %s does not broadcast to the scores' shape %s",
                      cni_shape_text(have, sizeof have, mask->d.ndim, mask->d.shape),
                      cni_shape_text(want, sizeof want, ndim, scores));
}

/* Four-dimensional operands at in[first..first + 3); then, at in[rest], the mask, what dropout left, and where its
 * numbers begin. */
static int check_heads(const cn_call *c, int first, int rest)
{
  const cn_tensor *mask = c->in[rest], *dropped = c->in[rest + 1], *draws = c->in[rest + 2];
  const cn_desc *q = &c->in[first]->d, *k = &c->in[first + 1]->d, *v = &c->in[first + 2]->d;
  if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4 || q->shape[0] != k->shape[0] ||
      k->shape[0] != v->shape[0] || k->shape[1] != v->shape[1] || k->shape[2] != v->shape[2] ||
      q->shape[3] != k->shape[3] || (k->shape[1] ? q->shape[1] % k->shape[1] : q->shape[1]) != 0)
    return shapes_differ(c, first);
  const int64_t scores[4] = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
  int status = check_types(c, first, mask);
  if (!status && dropped && (!cni_same_shape(dropped->d.ndim, dropped->d.shape, 4, scores) ||
                             dropped->d.dtype != q->dtype))
    return cn_call_fail(c, CN_ERR_SHAPE, "dropped must have the scores' shape and query's type");
  if (!status && draws && dropped) return cn_call_fail(c, CN_ERR_VALUE, "takes dropped or draws, not both");
  if (!status && draws) status = cni_check_draws(c, draws);
  return status ? status : check_mask(c, mask, 4, scores);
}

/* Has the device a kernel of its own for 16-bit operands? The CPU's, and devices that use that, compute in float32. */
static bool takes_halves(cn_device device)
{
  const cni_opinfo *info = cni_op_by_name("sdpa_forward");
  int backend = (device >> 8) - 1;
  return device != CN_CPU && backend >= 0 && info && info->kernels[backend];
}

/* Gives result i the order of `like`'s memory where that is (B, T, H, D), so that heads can be joined without
 * a copy. */
static void follow_heads(cn_call *c, int i, const cn_desc *like)
{
  cn_spec *s = &c->spec[i];
  if (s->shape[1] < 2 || s->shape[2] < 2 || like->strides[1] >= like->strides[2] || like->strides[1] == 0)
    return;
  s->strides[3] = 1;
  s->strides[1] = s->shape[3];
  s->strides[2] = s->shape[1] * s->shape[3];
  s->strides[0] = s->shape[2] * s->strides[2];
  s->has_strides = true;
}

static int forward_infer(cn_call *c)
{
  const cn_desc *q = &c->in[0]->d, *v = &c->in[2]->d;
  int status = check_heads(c, 0, 3);
  if (status) return status;
  const int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
  status = cn_call_result(c, 0, q->dtype, 4, shape);
  if (!status) status = cn_call_result(c, 1, cni_wide_type(q->dtype), 3, shape);
  if (!status) follow_heads(c, 0, q);
  return status;
}

static int forward_vjp(cn_vjp *v)
{
  cn_tensor *q = v->in[0];
  /* Of what is dropped alone: nothing was saved. */
  if (!v->need[0] && !v->need[1] && !v->need[2] && !v->need[3]) return CN_OK;
  bool causal = cni_arg_bool(v->args, CAUSAL);
  double scale = scale_or(v->args, SCALE, cn_size(q, 3)), drop = cni_arg_float(v->args, DROP);
  if (v->g[0] && !v->g[1] && !cni_recording() && !v->need[3])
    return cn_sdpa_backward(&v->gin[0], &v->gin[1], &v->gin[2], v->g[0], q, v->in[1], v->in[2], v->out[0], v->out[1],
                            v->in[3], v->in[DROPPED], .is_causal = causal, .scale = cni_option_float(scale),
                            .dropout_p = drop, .draws = v->in[DRAWS]);
  gradients r = explicit_gradients(v->in, causal, scale, drop, v->g[0], v->g[1]);
  v->gin[0] = r.q;
  v->gin[1] = r.k;
  v->gin[2] = r.v;
  if (v->need[3]) v->gin[3] = r.mask;
  return cn_err();
}

/* Where no kernel takes it. */
static int forward_decompose(cn_call *c)
{
  unsigned ways = cni_state()->attention;
  bool causal = cni_arg_bool(c->args, CAUSAL);
  double scale = scale_or(c->args, SCALE, cn_size(c->in[0], 3)), drop = cni_arg_float(c->args, DROP);
  if (c->in[DRAWS]) /* none that draws: now one that is given what dropout leaves */
    return cn_sdpa_forward(&c->out[0], &c->out[1], c->in[0], c->in[1], c->in[2], c->in[3],
                           dropped_ones(c->in[DRAWS], c->in[0], c->in[1], drop), .is_causal = causal,
                           .scale = cni_option_float(scale), .dropout_p = drop);
  if (ways && !(ways & CN_ATTENTION_PARTS)) return no_kernel();
  cn_tensor *lse = NULL;
  c->out[0] = by_parts(c->in, causal, scale, drop, &lse);
  c->out[1] = cn_squeeze(lse, .dim = CN_INTS(-1));
  return cn_err();
}

/* ---- sdpa_backward(grad, query, key, value, output, lse, attn_mask, dropped, is_causal, scale, dropout_p,
 * draws) ---- */

enum { BACKWARD_CAUSAL = 8, BACKWARD_SCALE, BACKWARD_DROP }; /* parameters */

static int backward_infer(cn_call *c)
{
  int status = check_heads(c, 1, 6);
  for (int i = 0; !status && i < 3; i++) {
    const cn_desc *d = &c->in[i + 1]->d;
    status = cn_call_result(c, i, d->dtype, 4, d->shape);
    if (!status) follow_heads(c, i, d);
  }
  if (status) return status;
  const cn_desc *q = &c->in[1]->d, *v = &c->in[3]->d, *g = &c->in[0]->d, *out = &c->in[4]->d,
                *lse = &c->in[5]->d;
  const int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
  if (g->ndim != 4 || out->ndim != 4 || lse->ndim != 3 || memcmp(g->shape, shape, sizeof shape) != 0 ||
      memcmp(out->shape, shape, sizeof shape) != 0 || memcmp(lse->shape, shape, 3 * sizeof *shape) != 0)
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "grad, output and lse must have the shapes of sdpa_forward's results");
  return CN_OK;
}

/* The weights come from the given lse, so that no softmax is taken again; queries that see no key have none. */
static int backward_decompose(cn_call *c)
{
  double scale = scale_or(c->args, BACKWARD_SCALE, cn_size(c->in[1], 3)), drop = cni_arg_float(c->args, BACKWARD_DROP);
  if (c->in[8])
    return cn_sdpa_backward(&c->out[0], &c->out[1], &c->out[2], c->in[0], c->in[1], c->in[2], c->in[3], c->in[4],
                            c->in[5], c->in[6], dropped_ones(c->in[8], c->in[1], c->in[2], drop),
                            .is_causal = cni_arg_bool(c->args, BACKWARD_CAUSAL), .scale = cni_option_float(scale),
                            .dropout_p = drop);
  int given = c->in[1]->d.dtype, type = cni_wide_type(given);
  int64_t all = cn_size(c->in[1], 1), heads = cn_size(c->in[2], 1);
  cn_tensor *g = cni_in_type(c->in[0], type), *q = cni_in_type(c->in[1], type);
  cn_tensor *k = spread_heads(cni_in_type(c->in[2], type), all), *v = spread_heads(cni_in_type(c->in[3], type), all);
  cn_tensor *lse = cn_unsqueeze(cni_in_type(c->in[5], type), -1), *out = cni_in_type(c->in[4], type);
  if (cn_err()) return cn_err();
  lse = cn_where(cn_eq(lse, cn_num(-INFINITY)), cn_num(0), lse);
  cn_tensor *p = cn_exp(cn_sub(scores_of(q, k, c->in[6], cni_arg_bool(c->args, BACKWARD_CAUSAL), scale), lse));
  cn_tensor *sum = cn_sum(cn_mul(g, out), .dim = CN_INTS(-1), .keepdim = true);
  cn_tensor *ds = cn_mul(p, cn_sub(thinned(cn_matmul(g, cni_swapped(v)), c->in[7], drop), sum));
  ds = cn_mul(ds, cn_num(scale));
  c->out[0] = cni_in_type(cn_matmul(ds, k), given);
  c->out[1] = cni_in_type(gather_heads(cn_matmul(cni_swapped(ds), q), heads), given);
  c->out[2] = cni_in_type(gather_heads(cn_matmul(cni_swapped(thinned(p, c->in[7], drop)), g), heads), given);
  return cn_err();
}

/* ---- scaled_dot_product_attention ---- */

enum { DROPOUT = 4, SDPA_CAUSAL = 5, SDPA_SCALE = 6, GQA = 7 }; /* its parameters */

/* The batch that query, key and value share: the dims before heads (enable_gqa) or before the last two. */
static int shared_batch(const cn_call *c, bool gqa, int *n, int64_t *batch)
{
  int core = gqa ? 3 : 2;
  *n = 0;
  for (int i = 0; i < 3; i++) {
    const cn_desc *d = &c->in[i]->d;
    if (d->ndim < core || !cni_broadcast(n, batch, d->ndim - core, d->shape)) return shapes_differ(c, 0);
  }
  return CN_OK;
}

/* x: (..., [heads,] T, D) broadcast over batch and brought to (B, H, T, D). Without gqa heads are the batch's
 * last dim. */
static cn_tensor *as_heads(cn_tensor *x, bool gqa, int n, const int64_t *batch)
{
  int64_t shape[CN_MAX_DIMS + 1];
  int core = gqa ? 3 : 2, lead = x->d.ndim - core;
  memcpy(shape, batch, (size_t)n * sizeof *shape);
  memcpy(shape + n, x->d.shape + lead, (size_t)core * sizeof *shape);
  if (!cni_same_shape(lead, x->d.shape, n, batch)) x = cn_expand(x, shape, (size_t)(n + core));
  if (n + core == 4) return x;
  const int64_t *last = shape + n + core - 2;
  int64_t heads = n + core > 2 ? last[-1] : 1, all = cni_numel(n + core > 3 ? n + core - 3 : 0, shape);
  return cn_reshape(x, CN_SHAPE(all, heads, last[0], last[1]));
}

/* The mask over (..., H, Tq, Tk) as one over (B, H, Tq, Tk). */
static cn_tensor *as_mask(cn_tensor *mask, int ndim, const int64_t *scores)
{
  if (!mask || ndim <= 4 || mask->d.ndim <= 3) return mask;
  const int64_t *last = scores + ndim - 3;
  return cn_reshape(cn_expand(mask, scores, (size_t)ndim),
                    CN_SHAPE(cni_numel(ndim - 3, scores), last[0], last[1], last[2]));
}

static int check_attention(const cn_call *c)
{
  const cn_desc *q = &c->in[0]->d, *k = &c->in[1]->d, *v = &c->in[2]->d;
  double p = cni_arg_float(c->args, DROPOUT);
  if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2 || q->shape[q->ndim - 1] != k->shape[k->ndim - 1] ||
      k->shape[k->ndim - 2] != v->shape[v->ndim - 2])
    return shapes_differ(c, 0);
  if (c->in[3] && cni_arg_bool(c->args, SDPA_CAUSAL))
    return cn_call_fail(c, CN_ERR_VALUE, "attn_mask must not be given together with is_causal=True");
  if (!(p >= 0 && p <= 1))
    return cn_call_fail(c, CN_ERR_VALUE, "dropout_p must be between 0 and 1, but is %g", p);
  return check_types(c, 0, c->in[3]);
}

/* The result is (B, H, Tq, Dv); the caller's shape is the batch, [heads,] Tq, Dv. */
static int attention_decompose(cn_call *c)
{
  bool gqa = cni_arg_bool(c->args, GQA), causal = cni_arg_bool(c->args, SDPA_CAUSAL);
  int64_t shape[CN_MAX_DIMS + 1] = {0};
  int n, status = check_attention(c);
  if (!status) status = shared_batch(c, gqa, &n, shape);
  if (status) return status;
  cn_tensor *q = as_heads(c->in[0], gqa, n, shape), *k = as_heads(c->in[1], gqa, n, shape);
  cn_tensor *v = as_heads(c->in[2], gqa, n, shape), *y = NULL, *lse;
  int type = c->in[0]->d.dtype, wide = cni_wide_type(type);
  if (cn_err()) return cn_err();
  if (gqa && (!k->d.shape[1] || q->d.shape[1] % k->d.shape[1] != 0))
    return cn_call_fail(c, CN_ERR_SHAPE, "%lld query heads are not a multiple of %lld key heads",
                        (long long)q->d.shape[1], (long long)k->d.shape[1]);
  if (gqa) shape[n++] = q->d.shape[1];
  shape[n++] = q->d.shape[2];
  shape[n++] = k->d.shape[2];
  status = check_mask(c, c->in[3], n, shape);
  if (status) return status;
  cn_tensor *mask = as_mask(c->in[3], n, shape);
  double p = cni_arg_float(c->args, DROPOUT);
  /* Else the output kept for the gradient is rounded, and costs it most of its digits. */
  if (wide != type && !takes_halves(q->d.device)) {
    q = cni_in_type(q, wide);
    k = cni_in_type(k, wide);
    v = cni_in_type(v, wide);
    if (mask && mask->d.dtype == type) mask = cni_in_type(mask, wide);
    if (cn_err()) return cn_err();
  }
  double scale = scale_or(c->args, SDPA_SCALE, q->d.shape[3]);
  shape[n - 1] = v->d.shape[3];
  cn_tensor *draws = p > 0 && p < 1 ? cn_reserve_draws(CN_SHAPE(q->d.shape[0], q->d.shape[1], q->d.shape[2],
                                                                k->d.shape[2]), .device = q->d.device) : NULL;
  unsigned ways = cni_state()->attention, fused = q->d.device == CN_CPU ? CN_ATTENTION_CPU : CN_ATTENTION_DEVICE;
  if (ways && !(ways & fused) && ways & CN_ATTENTION_PARTS)
    y = by_parts((cn_tensor *const[]){q, k, v, mask, NULL, draws}, causal, scale, p, NULL);
  else if (ways && !(ways & fused)) return no_kernel();
  else
    cn_sdpa_forward(&y, &lse, q, k, v, mask, NULL, .is_causal = causal, .scale = cni_option_float(scale),
                    .dropout_p = draws ? p : 0, .draws = draws);
  if (p >= 1) y = cn_mul(y, cn_int(0));
  c->out[0] = cni_in_type(n == 4 ? y : cn_reshape(y, shape, (size_t)n), type);
  return cn_err();
}

/* The softmax is made again in backward, so every gradient reads all operands and both results. */
#define SAVED (CN_IN(0) | CN_IN(1) | CN_IN(2) | CN_IN(3) | CN_IN(4) | CN_IN(5) | CN_OUT(0) | CN_OUT(1))

/* clang-format off */
const cn_op cni_attention_ops[] = {
  {.sig = "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
          "float dropout_p=0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) "
          "-> Tensor ; nn opt_attn_mask amp_low",
   .doc = "softmax(scale * query key^T + attn_mask) value for (..., H, L, E), (..., H, S, E) and (..., H, S, Ev). A "
          "bool mask says True where a key takes part; is_causal lets a query see keys up to its own position; scale "
          "is 1 / sqrt(E) unless given. With enable_gqa key and value may have fewer heads, each serving a group. "
          "dropout_p applies whenever it is not 0. Queries that see no key give zeros.",
   .flags = CN_OP_COMPOSITE, .decompose = attention_decompose},
  {.sig = "sdpa_forward(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, Tensor? dropped=None, "
          "bool is_causal=False, *, float? scale=None, float dropout_p=0, Tensor? draws=None) "
          "-> (Tensor output, Tensor lse) ; nn internal opt_draws",
   .doc = "Attention of (B, H, L, E), (B, Hk, S, E) and (B, Hk, S, Ev) with H a multiple of Hk, and the logarithm of "
          "each query's sum of exponentials, (B, H, L). dropped: native_dropout of ones, (B, H, L, S), with dropout_p; "
          "draws: instead of it, where the numbers for that begin (reserve_draws).",
   .cost = cni_cost_attention, .infer = forward_infer, .vjp = forward_vjp, .decompose = forward_decompose,
   .needs = {[0] = SAVED, [1] = SAVED, [2] = SAVED, [3] = SAVED},
   .copied = CN_IN(0) | CN_IN(1) | CN_IN(2) | CN_IN(3) | CN_OUT(0)},
  {.sig = "sdpa_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor output, Tensor lse, "
          "Tensor? attn_mask=None, Tensor? dropped=None, bool is_causal=False, *, float? scale=None, "
          "float dropout_p=0, Tensor? draws=None) "
          "-> (Tensor grad_query, Tensor grad_key, Tensor grad_value) ; nn internal opt_draws",
   .doc = "Gradients of sdpa_forward's operands, given its results. Carries no gradient itself: where gradients of "
          "gradients are recorded, explicit formulas take its place.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_attention_backward,
   .infer = backward_infer, .decompose = backward_decompose},
};
/* clang-format on */
CNI_FAMILY(attention);
