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

/* (out, in) of a linear layer; NULL, without an error: it is another kind of module. */
static cn_tensor *weight_of(cni_writing *s, const cn_module *m)
{
  if (is_plain(m, "Linear")) return cn_module_slot(m, 0);
  if (m->cls != &cni_conv1d_class || !cn_module_plain(m)) return NULL;
  return row_major(s, cn_transpose(cn_module_slot(m, 0), 0, 1));
}

cn_tensor *cni_step_linear(cni_writing *s, cn_tensor *x, const cni_step_layer *l)
{
  double eps = 0;
  if (!x || cn_err()) return NULL;
  const char *norm = norm_word(l->norm, &eps), *activation = activation_word(l->activation);
  cn_tensor *weight = norm && activation ? weight_of(s, l->linear) : NULL;
  if (weight)
    return cn_linear_step(x, weight, cn_module_slot(l->linear, 1), l->norm ? cn_module_slot(l->norm, 0) : NULL,
                          l->norm ? cn_module_slot(l->norm, 1) : NULL, l->other, .norm = norm, .eps = eps,
                          .activation = activation, .join = !l->other ? "none" : l->times ? "mul" : "add",
                          .steady = true);
  if (l->norm) x = cn_forward(l->norm, x);
  x = cn_forward(l->linear, x);
  if (l->activation) x = cn_forward(l->activation, x);
  return !l->other ? x : l->times ? cn_mul(x, l->other) : cn_add(x, l->other);
}

cn_tensor *cni_step_attend(cni_writing *s, size_t layer, cn_tensor *q, cn_tensor *k, cn_tensor *v, double scale)
{
  struct cni_kv *kv = &s->cache->layer[layer];
  if (!q || !k || !v || cn_err()) return NULL;
  cn_tensor *y = cn_empty(CN_SHAPE(cn_size(q, 0), cn_size(q, 1), 1, cn_size(q, 3)), .dtype = cn_dtype_of(q),
                          .device = cn_device_of(q));
  if (!y || cn_attend_step_(kv->k, kv->v, y, q, k, v, s->position, s->cosines, s->sines, .scale = cni_given(scale),
                            .steady = true))
    return NULL;
  return cn_view(y, CN_SHAPE(cn_size(q, 0), 1, cn_size(q, 1) * cn_size(q, 3)));
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
