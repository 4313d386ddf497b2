/* cache.c: keys and values that attention has seen, kept so that a new token costs one step. See lm.h.
 *
 * Place in the flow: cn_generate and loops by hand call cn_decode_step, a model's class runs with the cache. Invariant:
 * room is made once; a step writes its keys and values in place and reads all of them through views. */
#include <string.h>

#include "lm.h"

const cni_lm_class *cni_lm_of(const cn_module *m)
{
  static const cni_lm_class *const all[] = {&cni_gpt2_class, &cni_llama_class, &cni_recurrent_class};
  for (size_t i = 0; m && i < sizeof all / sizeof *all; i++)
    if (m->cls == &all[i]->cls) return all[i];
  return NULL;
}

/* ---- life ---- */

static size_t bytes_of(const cni_lm_shape *shape)
{
  return sizeof(cn_cache) + (size_t)shape->layers * sizeof(struct cni_kv);
}

/* Room for all layers, of the type and on the device of the model's parameters. */
static int make_room(cn_cache *c, cn_tensor *like)
{
  const cni_lm_shape *s = &c->shape;
  for (int i = 0; i < 2; i++) {
    cn_tensor *t = cn_empty(CN_SHAPE(s->layers, c->batch, s->heads, c->length, s->width), .dtype = cn_dtype_of(like),
                            .device = cn_device_of(like));
    if (!t) return cn_err();
    *(i ? &c->values : &c->keys) = cn_keep(t);
    for (int64_t n = 0; n < s->layers; n++) *(i ? &c->layer[n].v : &c->layer[n].k) = cn_keep(cn_select(t, 0, n));
  }
  return cn_err();
}

static cn_tensor *any_parameter(cn_module *m)
{
  cn_named_list list;
  if (cn_module_named(&list, m, CN_PARAMETERS)) return NULL;
  cn_tensor *t = list.n ? list.v[0].tensor : NULL;
  cn_named_free(&list);
  return t;
}

cn_cache *cn_cache_new(cn_module *m, int64_t batch, int64_t length)
{
  const cni_lm_class *lm = cni_lm_of(m);
  cni_lm_shape shape = {0};
  if (cn_err()) return NULL;
  if (!lm) {
    cn_err_set(CN_ERR_TYPE, "cache: %s is not a language model of the zoo", m ? m->cls->name : "NULL");
    return NULL;
  }
  lm->shape(&shape, m);
  if (batch < 1 || length < 1 || (shape.context && length > shape.context)) {
    cn_err_set(CN_ERR_VALUE, "cache: %lld sequences of %lld tokens; both must be positive, and %s sees %lld tokens",
               (long long)batch, (long long)length, m->cls->name, (long long)shape.context);
    return NULL;
  }
  cn_cache *c = cn_alloc_zero(bytes_of(&shape));
  if (!c) return NULL;
  *c = (cn_cache){.cls = m->cls, .shape = shape, .batch = batch, .length = length};
  cn_scope *s = cn_scope_begin();
  cn_tensor *like = shape.recurrent ? NULL : any_parameter(m);
  if (like) make_room(c, like);
  cn_scope_end(s);
  if (!cn_err()) return c;
  cn_cache_free(c);
  return NULL;
}

void cn_cache_free(cn_cache *c)
{
  if (!c) return;
  for (size_t i = 0; i < (size_t)c->shape.layers; i++) {
    cn_release(c->layer[i].k);
    cn_release(c->layer[i].v);
  }
  cn_release(c->keys);
  cn_release(c->values);
  cn_free(c, bytes_of(&c->shape));
}

int64_t cn_cache_size(const cn_cache *c) { return c ? c->used : 0; }

int cn_cache_truncate(cn_cache *c, int64_t n)
{
  if (!c || n < 0 || n > c->used)
    return cn_err_set(CN_ERR_VALUE, "cache: cannot keep %lld of %lld tokens", (long long)n,
                      (long long)cn_cache_size(c));
  if (c->shape.recurrent && n && n < c->used)
    return cn_err_set(CN_ERR_UNSUPPORTED, "cache: a recurrent model can forget all tokens, not the last ones");
  if (c->shape.recurrent && !n) {
    cn_release(c->layer[0].k);
    cn_release(c->layer[0].v);
    c->layer[0] = (struct cni_kv){NULL, NULL};
  }
  c->used = n;
  return CN_OK;
}

/* ---- attention ---- */

/* Writes new (B, H, T, d) at `at` and returns a view of all so far. */
static cn_tensor *append(cn_tensor *all, cn_tensor *new, int64_t at)
{
  int64_t end = at + cn_size(new, 2);
  if (!cn_copy_(cn_slice(all, 2, at, end), new)) return NULL;
  return cn_slice(all, 2, 0, end);
}

cn_tensor *cni_attend(cn_tensor *q, cn_tensor *k, cn_tensor *v, cn_cache *cache, size_t layer, double scale,
                      double dropout)
{
  int64_t at = cni_cache_at(cache), steps = cn_size(q, 2), batch = cn_size(q, 0);
  cn_tensor *mask = NULL;
  if (cn_err()) return NULL;
  if (cache) {
    k = append(cache->layer[layer].k, k, at);
    v = append(cache->layer[layer].v, v, at);
    if (at && steps > 1) /* new token i sees all before, and the new ones up to itself */
      mask = cn_tril(cn_ones(CN_SHAPE(steps, at + steps), .dtype = CN_BOOL, .device = cn_device_of(q)), .diagonal = at);
  }
  cn_tensor *y = cn_scaled_dot_product_attention(q, k, v, .attn_mask = mask, .is_causal = !at && steps > 1,
                                                 .scale = scale, .dropout_p = dropout,
                                                 .enable_gqa = cn_size(q, 1) != cn_size(k, 1));
  return cn_reshape(cn_transpose(y, 1, 2), CN_SHAPE(batch, steps, -1));
}

/* ---- steps ---- */

int cni_check_tokens(const char *who, const cn_tensor *tokens, int64_t at, int64_t context)
{
  if (cn_err()) return cn_err();
  if (!tokens || cn_dtype_of(tokens) != CN_I64 || cn_ndim(tokens) != 2 || !cn_numel(tokens))
    return cn_err_set(CN_ERR_SHAPE, "%s: tokens must be (batch, length) of int64", who);
  if (context && at + cn_size(tokens, 1) > context)
    return cn_err_set(CN_ERR_VALUE, "%s: %lld tokens are more than the model can see (%lld)", who,
                      (long long)(at + cn_size(tokens, 1)), (long long)context);
  return CN_OK;
}

static int check_step(const cn_module *m, const cn_tensor *tokens, const cn_cache *c)
{
  if (cn_err()) return cn_err();
  if (!c || !m || c->cls != m->cls)
    return cn_err_set(CN_ERR_TYPE, "decode_step: needs a cache that was made for this model (cn_cache_new)");
  if (cni_check_tokens("decode_step", tokens, 0, 0)) return cn_err();
  if (cn_size(tokens, 0) != c->batch)
    return cn_err_set(CN_ERR_SHAPE, "decode_step: the cache is for %lld sequences, tokens has %lld",
                      (long long)c->batch, (long long)cn_size(tokens, 0));
  if (c->used + cn_size(tokens, 1) > c->length)
    return cn_err_set(CN_ERR_VALUE, "decode_step: the cache has room for %lld tokens; %lld are in it, %lld are to come",
                      (long long)c->length, (long long)c->used, (long long)cn_size(tokens, 1));
  return CN_OK;
}

cn_tensor *cni_decode(cn_module *m, cn_tensor *tokens, cn_cache *c, bool last_only)
{
  if (check_step(m, tokens, c)) return NULL;
  const cni_lm_class *lm = cni_lm_of(m);
  int64_t steps = cn_size(tokens, 1);
  int saved = cn_inference_begin();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = lm->hidden(m, tokens, c);
  if (x && last_only && steps > 1) x = cn_slice(x, 1, steps - 1, steps);
  cn_tensor *y = cn_scope_return(s, x ? lm->head(m, x) : NULL);
  cn_inference_end(saved);
  if (y) c->used += steps;
  return y;
}

cn_tensor *cn_decode_step(cn_module *m, cn_tensor *tokens, cn_cache *cache)
{
  return cni_decode(m, tokens, cache, false);
}
