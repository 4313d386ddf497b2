/* step.c: one token more of a text, by the device alone: what differs from token to token stands in tensors, so that
 * all of it is recorded once and is one launch from then on. See lm.h.
 *
 * Place in the flow: generate.c -> here -> a model's step -> the parts below -> ops of ops/decode.c, which devices have
 * kernels for. Layers that are not the library's own, or have hooks, are called as they are. Invariant: a step gives
 * the token that cache.c's decode and the choice would have given. */
#include <string.h>

#include "lm.h"

/* ---- layers ---- */

/* Is it a module of this class of the library, whose call does nothing else? */
static bool is_plain(const cn_module *m, const char *cls)
{
  return m->cls == cn_module_class_find(cls) && cn_module_plain(m);
}

static bool is_one_dim(const cn_tensor *t) { return t && cn_ndim(t) == 1; }

/* What linear_step calls this norm; NULL: it is another one. */
static const char *norm_word(const cn_module *norm, double *eps)
{
  if (!norm) return "none";
  bool layer = is_plain(norm, "LayerNorm");
  const cn_value *args = layer || is_plain(norm, "RMSNorm") ? cn_args_values(cn_module_args(norm)) : NULL;
  if (!args || args[1].tag != CN_V_FLOAT || !is_one_dim(cn_module_slot(norm, 0))) return NULL;
  *eps = cni_given(args[1].u.f);
  return layer ? "layer" : "rms";
}

static const char *activation_word(const cn_module *m)
{
  if (!m) return "none";
  if (is_plain(m, "ReLU")) return "relu";
  if (is_plain(m, "SiLU")) return "silu";
  if (!is_plain(m, "GELU")) return NULL;
  return strcmp(cn_args_values(cn_module_args(m))[0].u.s, "tanh") ? "gelu" : "gelu_tanh";
}

/* A row times a weight reads it row by row: others are brought into that order once. Borrowed. */
static cn_tensor *row_major(cni_writing *s, cn_tensor *weight)
{
  if (s->next < s->npacked) return s->packed[s->next++];
  if (s->npacked == s->room) {
    size_t room = s->room ? 2 * s->room : 64;
    cn_tensor **more = cn_alloc(room * sizeof *more);
    if (!more) return NULL;
    if (s->npacked) memcpy(more, s->packed, s->npacked * sizeof *more);
    cn_free(s->packed, s->room * sizeof *more);
    s->packed = more;
    s->room = room;
  }
  cn_tensor *packed = cn_contiguous(weight);
  if (!packed) return NULL;
  s->packed[s->npacked++] = cn_keep(packed);
  s->next++;
  return packed;
}

static bool is_linear(const cn_module *m)
{
  return is_plain(m, "Linear") || (m->cls == &cni_conv1d_class && cn_module_plain(m));
}

/* (out, in), of a linear layer. */
static cn_tensor *weight_of(cni_writing *s, const cn_module *m)
{
  cn_tensor *own = cn_module_slot(m, 0);
  return m->cls == &cni_conv1d_class ? row_major(s, cn_transpose(own, 0, 1)) : own;
}

cn_tensor *cni_step_linear(cni_writing *s, cn_tensor *x, const cni_step_layer *l)
{
  double eps = 0;
  if (!x || cn_err()) return NULL;
  const char *norm = norm_word(l->norm, &eps), *activation = activation_word(l->activation);
  if (norm && activation && is_linear(l->linear))
    return cn_linear_step(x, weight_of(s, l->linear), cn_module_slot(l->linear, 1),
                          l->norm ? cn_module_slot(l->norm, 0) : NULL, l->norm ? cn_module_slot(l->norm, 1) : NULL,
                          l->other, .norm = norm, .eps = eps,
                          .activation = activation, .join = !l->other ? "none" : l->times ? "mul" : "add",
                          .steady = true);
  if (l->norm) x = cn_forward(l->norm, x);
  x = cn_forward(l->linear, x);
  if (l->activation) x = cn_forward(l->activation, x);
  return !l->other ? x : l->times ? cn_mul(x, l->other) : cn_add(x, l->other);
}

/* ---- the layers of a decoder ---- */

/* q: (B, H, 1, d), k and v: (B, Hk, 1, d); gives (B, 1, H d). */
static cn_tensor *attend(cni_writing *s, size_t layer, cn_tensor *const part[3], double scale)
{
  struct cni_kv *kv = &s->cache->layer[layer];
  cn_tensor *q = part[0];
  if (cn_err()) return NULL;
  cn_tensor *y = cn_empty(CN_SHAPE(cn_size(q, 0), cn_size(q, 1), 1, cn_size(q, 3)), .dtype = cn_dtype_of(q),
                          .device = cn_device_of(q));
  if (!y || cn_attend_step_(kv->k, kv->v, y, q, part[1], part[2], s->position, s->cosines, s->sines,
                            .scale = cni_given(scale), .steady = true))
    return NULL;
  return cn_view(y, CN_SHAPE(cn_size(q, 0), 1, cn_size(q, 1) * cn_size(q, 3)));
}

/* Queries, keys and values of x (B, 1, C), as attend wants them. */
static void project(cni_writing *s, cn_tensor *part[3], cn_tensor *x, const cni_decoder *d)
{
  cn_module *const each[] = {d->q, d->k, d->v};
  int64_t rows = cn_size(x, 0);
  cn_tensor *all = d->qkv ? cni_step_linear(s, x, &(cni_step_layer){d->norm, d->qkv}) : NULL;
  if (all) all = cn_view(all, CN_SHAPE(rows, 3, d->heads, 1, d->width));
  for (int i = 0; i < 3; i++) {
    cn_tensor *y = d->qkv ? NULL : cni_step_linear(s, x, &(cni_step_layer){d->norm, each[i]});
    part[i] = all ? cn_select(all, 1, i) : cn_view(y, CN_SHAPE(rows, i ? d->key_heads : d->heads, 1, d->width));
  }
}

static cn_tensor *decoder_by_parts(cni_writing *s, size_t layer, cn_tensor *x, const cni_decoder *d)
{
  cn_tensor *part[3], *y, *gate = NULL;
  if (!x || cn_err()) return NULL;
  project(s, part, x, d);
  y = attend(s, layer, part, d->scale);
  x = cni_step_linear(s, y, &(cni_step_layer){.linear = d->out, .other = x});
  if (d->gate) gate = cni_step_linear(s, x, &(cni_step_layer){d->feed_norm, d->gate, d->activation});
  y = cni_step_linear(s, x, &(cni_step_layer){d->feed_norm, d->up, gate ? NULL : d->activation, gate, true});
  return cni_step_linear(s, y, &(cni_step_layer){.linear = d->down, .other = x});
}

/* Is it made of nothing but what decoder_step knows? */
static bool is_plain_decoder(const cni_decoder *d)
{
  const cn_module *const linear[] = {d->qkv ? d->qkv : d->q, d->qkv ? d->qkv : d->k, d->qkv ? d->qkv : d->v,
                                     d->out, d->gate ? d->gate : d->up, d->up, d->down};
  double eps = 0, feed_eps = 0;
  const char *norm = norm_word(d->norm, &eps), *feed_norm = norm_word(d->feed_norm, &feed_eps);
  for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
    if (!is_linear(linear[i])) return false;
  return norm && feed_norm && d->norm && !strcmp(norm, feed_norm) && eps == feed_eps && activation_word(d->activation);
}

/* Are they all of one kind, too? */
static bool all_plain(const cni_decoder *d, size_t n)
{
  double eps, first_eps;
  const char *norm = norm_word(d->norm, &first_eps);
  for (size_t i = 0; i < n; i++) {
    if (!is_plain_decoder(&d[i])) return false;
    if (strcmp(norm_word(d[i].norm, &eps), norm) || eps != first_eps ||
        strcmp(activation_word(d[i].activation), activation_word(d->activation)))
      return false;
  }
  return n > 0;
}

/* A weight and its bias. */
static void take_linear(cni_writing *s, cn_tensor **to, const cn_module *m)
{
  if (!m) return;
  to[0] = weight_of(s, m);
  to[1] = cn_module_slot(m, 1);
}

static void take_norm(cn_tensor **to, const cn_module *m)
{
  to[0] = cn_module_slot(m, 0);
  to[1] = cn_module_slot(m, 1);
}

/* Those of queries, keys and values, which one layer has in turn. */
static void take_all(cni_writing *s, cn_tensor **to, const cni_decoder *d)
{
  int64_t rows = d->heads * d->width;
  cn_tensor *all[2] = {NULL, NULL};
  take_linear(s, all, d->qkv);
  for (int i = 0; i < 6; i++)
    to[i] = all[i % 2] ? cn_slice(all[i % 2], 0, i / 2 * rows, (i / 2 + 1) * rows) : NULL;
}

enum { OF_LAYER = 18 }; /* what decoder_step wants of a layer, in its order */

static void take_weights(cni_writing *s, cn_tensor **to, const cni_decoder *d)
{
  take_norm(to, d->norm);
  if (d->qkv) take_all(s, to + 2, d);
  take_linear(s, to + 2, d->q);
  take_linear(s, to + 4, d->k);
  take_linear(s, to + 6, d->v);
  take_linear(s, to + 8, d->out);
  take_norm(to + 10, d->feed_norm);
  take_linear(s, to + 12, d->gate);
  take_linear(s, to + 14, d->up);
  take_linear(s, to + 16, d->down);
}

static cn_tensor *decoders_at_once(cni_writing *s, cn_tensor *x, const cni_decoder *d, size_t n)
{
  size_t weight_bytes = n * OF_LAYER * sizeof(cn_tensor *), scale_bytes = n * sizeof(double);
  cn_tensor **weights = cn_alloc_zero(weight_bytes), *y = cn_empty_like(x);
  double *scales = cn_alloc(scale_bytes), eps = 0;
  const char *norm = norm_word(d->norm, &eps);
  for (size_t i = 0; weights && scales && i < n; i++) {
    take_weights(s, weights + i * OF_LAYER, &d[i]);
    scales[i] = d[i].scale;
  }
  if (!cn_err())
    cn_decoder_step_(s->cache->keys, s->cache->values, y, x, s->position, s->cosines, s->sines, weights, n * OF_LAYER,
                     .norm = norm, .eps = cni_given(eps), .activation = activation_word(d->activation),
                     .scales = {scales, n}, .steady = true);
  cn_free(weights, weight_bytes);
  cn_free(scales, scale_bytes);
  return cn_err() ? NULL : y;
}

/* Of one row all at once: what counts there is how often a device waits. */
cn_tensor *cni_step_decoders(cni_writing *s, cn_tensor *x, cn_module *blocks,
                             void (*describe)(cni_decoder *, cn_module *))
{
  size_t n = cn_module_nchildren(blocks), bytes = n * sizeof(cni_decoder);
  cni_decoder *d = !x || cn_err() ? NULL : cn_alloc_zero(bytes);
  if (!d) return NULL;
  for (size_t i = 0; i < n; i++) describe(&d[i], cn_module_child(blocks, i));
  if (cn_size(x, 0) == 1 && all_plain(d, n)) x = decoders_at_once(s, x, d, n);
  else
    for (size_t i = 0; i < n; i++) x = decoder_by_parts(s, i, x, &d[i]);
  cn_free(d, bytes);
  return x;
}

/* ---- the whole ---- */

/* Autocast would have ops compute in another type than these do. */
bool cni_step_can(const cni_writing *s)
{
  const cni_lm_class *lm = cni_lm_of(s->m);
  return lm && lm->step && s->cache && cn_device_records(cn_device_of(s->tokens)) &&
         cn_device_of(s->cache->layer[0].k) == cn_device_of(s->tokens) &&
         cn_autocast_dtype_on(CN_AUTOCAST_DEVICES) == CN_DTYPE_NONE;
}

int cni_step_choose(cni_writing *s, cn_tensor *scores)
{
  if (!scores) return cn_err();
  return cn_choose_token_inplace_with(s->tokens, s->current, s->position, s->ended, scores, s->uniforms, &s->how);
}

static int step(void *payload)
{
  cni_writing *s = payload;
  s->next = 0;
  cn_tensor *scores = cni_lm_of(s->m)->step(s->m, s);
  return scores ? cni_step_choose(s, cn_select(scores, 1, 0)) : cn_err();
}

/* NULL without an error: a module waits, say, and is called each time. */
static cn_recording *record(cni_writing *s)
{
  cn_recording_pool *pool = cn_recording_pool_new(cn_device_of(s->tokens));
  cn_recording *r = pool ? cn_recording_begin(pool) : NULL;
  cn_scope *scope = cn_scope_begin();
  if (r && (step(s) || cn_recording_end(r))) {
    cn_recording_free(r);
    r = NULL;
  }
  cn_scope_end(scope);
  cn_recording_pool_free(pool);
  if (!r) cn_err_clear();
  return r;
}

int cni_step_run(cni_writing *s)
{
  if (s->runs++ == 1) s->recording = record(s);
  if (s->recording) return cn_recording_replay(s->recording);
  cn_scope *scope = cn_scope_begin();
  int status = step(s);
  cn_scope_end(scope);
  return status;
}

void cni_step_close(cni_writing *s)
{
  cn_tensor *owned[] = {s->tokens, s->current, s->position, s->ended, s->uniforms, s->cosines, s->sines};
  cn_recording_free(s->recording);
  for (size_t i = 0; i < s->npacked; i++) cn_release(s->packed[i]);
  cn_free(s->packed, s->room * sizeof *s->packed);
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) cn_release(owned[i]);
  cn_cache_free(s->cache);
}
