/* llama.c: decoders of the LLaMA kind: rotary positions, RMS norm, gated linear units, shared key heads.
 *
 * Place in the flow: a family of the zoo and a class of language models (lm.h). Invariant: names of parameters are
 * those of transformers' LlamaForCausalLM. */
#include <math.h>
#include <string.h>

#include "lm.h"

/* ---- settings ---- */

typedef struct plan {
  int vocab, width, inner, layers, heads, key_heads, context;
  double theta, eps;
  bool tied;
} plan;

/* How the frequencies of positions are stretched for long texts. */
typedef struct stretch {
  enum { NONE, LINEAR, LLAMA3 } kind;
  double factor, low, high, context;
} stretch;

typedef struct settings {
  int64_t vocab, width, inner, layers, heads, key_heads, head_width, context;
  double theta, eps, std, dropout;
  const char *activation;
  bool qkv_bias, out_bias, mlp_bias, tied;
  stretch stretch;
} settings;

/* Older files have rope_theta and rope_scaling, newer ones rope_parameters with all of it. */
static int read_positions(settings *s, const char *who, const cn_tree *c, double theta)
{
  const cn_tree *r = cn_tree_get(c, "rope_parameters");
  if (cn_tree_kind_of(r) != CN_TREE_DICT) r = cn_tree_get(c, "rope_scaling");
  const char *kind = cni_setting_text(r, "rope_type", cni_setting_text(r, "type", "default"));
  s->theta = cni_setting_float(r, "rope_theta", cni_setting_float(c, "rope_theta", theta));
  s->stretch = (stretch){NONE, cni_setting_float(r, "factor", 1), cni_setting_float(r, "low_freq_factor", 1),
                         cni_setting_float(r, "high_freq_factor", 4),
                         cni_setting_float(r, "original_max_position_embeddings", (double)s->context)};
  if (!strcmp(kind, "linear")) s->stretch.kind = LINEAR;
  else if (!strcmp(kind, "llama3")) s->stretch.kind = LLAMA3;
  else if (strcmp(kind, "default"))
    return cn_err_set(CN_ERR_UNSUPPORTED, "%s: rope_type \"%s\" is not known; there are default, linear, llama3", who,
                      kind);
  if (!(s->theta > 0) || !(s->stretch.factor > 0) || !(s->stretch.high > s->stretch.low))
    return cn_err_set(CN_ERR_VALUE, "%s: rope_theta and factor must be positive, low_freq_factor < high_freq_factor",
                      who);
  return CN_OK;
}

static int check(const char *who, const settings *s)
{
  static const char *const names[] = {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                                      "num_attention_heads", "num_key_value_heads", "head_dim",
                                      "max_position_embeddings"};
  int64_t sizes[] = {s->vocab, s->width, s->inner, s->layers, s->heads, s->key_heads, s->head_width, s->context};
  if (cni_check_sizes(who, names, sizes, sizeof sizes / sizeof *sizes)) return cn_err();
  if (s->heads % s->key_heads || s->head_width % 2)
    return cn_err_set(CN_ERR_VALUE, "%s: %lld heads must be a multiple of %lld key heads, and head_dim %lld even", who,
                      (long long)s->heads, (long long)s->key_heads, (long long)s->head_width);
  return CN_OK;
}

static int read_settings(settings *s, const cni_model *row, const cn_zoo_opts *o)
{
  const plan *p = row->plan;
  const cn_tree *c = o->config;
  bool bias = cni_setting_bool(c, "attention_bias", false);
  *s = (settings){
    .vocab = cni_or(o->vocab, cni_setting(c, "vocab_size", p->vocab)),
    .width = cni_setting(c, "hidden_size", p->width),
    .inner = cni_setting(c, "intermediate_size", p->inner),
    .layers = cni_setting(c, "num_hidden_layers", p->layers),
    .heads = cni_setting(c, "num_attention_heads", p->heads),
    .context = cni_setting(c, "max_position_embeddings", p->context),
    .eps = cni_setting_float(c, "rms_norm_eps", p->eps),
    .std = cni_setting_float(c, "initializer_range", 0.02),
    .dropout = cni_setting_float(c, "attention_dropout", 0),
    .activation = cni_setting_text(c, "hidden_act", "silu"),
    .qkv_bias = bias || !strcmp(cni_setting_text(c, "model_type", ""), "qwen2"),
    .out_bias = bias,
    .mlp_bias = cni_setting_bool(c, "mlp_bias", false),
    .tied = cni_setting_bool(c, "tie_word_embeddings", p->tied),
  };
  int64_t heads = s->heads > 0 ? s->heads : 1;
  s->key_heads = cni_setting(c, "num_key_value_heads", c ? heads : p->key_heads);
  s->head_width = cni_setting(c, "head_dim", s->width / heads);
  return check(row->name, s) ? cn_err() : read_positions(s, row->name, c, p->theta);
}

/* ---- rotary positions ---- */

typedef struct rotary {
  int64_t half;
  float *frequency; /* half of them; owned */
} rotary;

static double stretched(const stretch *s, double f)
{
  if (s->kind == NONE) return f;
  if (s->kind == LINEAR) return f / s->factor;
  double wave = 2 * 3.14159265358979323846 / f;
  if (wave > s->context / s->low) return f / s->factor;
  if (wave < s->context / s->high) return f;
  double part = (s->context / wave - s->low) / (s->high - s->low);
  return (1 - part) * f / s->factor + part * f;
}

static void rotary_free(cn_module *m)
{
  rotary *d = m->data;
  cn_free(d->frequency, (size_t)d->half * sizeof *d->frequency);
}

static int rotary_copy(cn_module *to, const cn_module *from)
{
  const rotary *d = from->data;
  float *own = cn_alloc((size_t)d->half * sizeof *own);
  ((rotary *)to->data)->frequency = own;
  if (!own) return cn_err();
  memcpy(own, d->frequency, (size_t)d->half * sizeof *own);
  return CN_OK;
}

static cn_tensor *rotary_apply(cn_module *m, cn_tensor *x)
{
  (void)m;
  return x;
}

static const cn_module_class rotary_class = {CN_MODULE_CLASS, .name = "LlamaRotaryEmbedding",
  .data_size = sizeof(rotary),
                                             .apply = rotary_apply, .free = rotary_free, .copy = rotary_copy};

static cn_module *new_rotary(const settings *s)
{
  cn_module *m = cn_module_new(&rotary_class);
  if (!m) return NULL;
  rotary *d = m->data;
  d->half = s->head_width / 2;
  d->frequency = cn_alloc((size_t)d->half * sizeof *d->frequency);
  for (int64_t i = 0; d->frequency && i < d->half; i++)
    d->frequency[i] = (float)stretched(&s->stretch, pow(s->theta, -2 * (double)i / (double)s->head_width));
  return m;
}

/* Cosines and sines of positions at .. at + steps - 1, (steps, head width) each; the sines of the first half are
 * negated, so that rotating a vector x by them is x cos + (x with its halves swapped) sin. */
static int angles(cn_tensor **cosines, cn_tensor **sines, const cn_module *m, int64_t at, int64_t steps,
                  cn_tensor *like)
{
  const rotary *d = m->data;
  int64_t half = d->half, width = 2 * half;
  size_t bytes = (size_t)(steps * width) * sizeof(float);
  float *c = cn_alloc(2 * bytes), *s = c ? c + steps * width : NULL;
  if (!c) return cn_err();
  for (int64_t t = 0; t < steps; t++)
    for (int64_t i = 0; i < half; i++) {
      float angle = (float)(at + t) * d->frequency[i]; /* in float32, as the models were trained */
      c[t * width + i] = c[t * width + half + i] = cosf(angle);
      s[t * width + half + i] = sinf(angle);
      s[t * width + i] = -s[t * width + half + i];
    }
  for (int i = 0; i < 2; i++) {
    cn_tensor *x = cn_from_data(i ? s : c, CN_SHAPE(steps, width), CN_F32);
    if (cn_device_of(x) != cn_device_of(like)) x = cn_to_device(x, cn_device_of(like));
    if (cn_dtype_of(x) != cn_dtype_of(like)) x = cn_cast(x, cn_dtype_of(like));
    *(i ? sines : cosines) = x;
  }
  cn_free(c, 2 * bytes);
  return cn_err();
}

/* x: (B, H, T, d) */
static cn_tensor *rotated(cn_tensor *x, cn_tensor *cosines, cn_tensor *sines)
{
  cn_tensor *swapped = cn_roll(x, CN_SHAPE(cn_size(x, 3) / 2), .dims = CN_INTS(3));
  return cn_addcmul(cn_mul(x, cosines), swapped, sines);
}

/* ---- attention ---- */

enum { Q_PROJ, K_PROJ, V_PROJ, O_PROJ };

typedef struct attention {
  int64_t heads, key_heads, width;
  double dropout;
} attention;

static cn_tensor *project(cn_module *m, size_t child, cn_tensor *x, int64_t heads, int64_t width)
{
  cn_tensor *y = cn_forward(cn_module_child(m, child), x);
  return cn_transpose(cn_view(y, CN_SHAPE(cn_size(x, 0), cn_size(x, 1), heads, width)), 1, 2);
}

static cn_tensor *attend(cn_module *m, cn_tensor *x, cn_tensor *cosines, cn_tensor *sines, cn_cache *cache,
                         size_t layer)
{
  const attention *d = m->data;
  cn_tensor *q = project(m, Q_PROJ, x, d->heads, d->width), *k = project(m, K_PROJ, x, d->key_heads, d->width);
  cn_tensor *v = project(m, V_PROJ, x, d->key_heads, d->width);
  if (cn_err()) return NULL;
  cn_tensor *y = cni_attend(rotated(q, cosines, sines), rotated(k, cosines, sines), v, cache, layer,
                            1 / sqrt((double)d->width), !cache && cn_module_training(m) ? d->dropout : 0);
  return cn_forward(cn_module_child(m, O_PROJ), y);
}

static int attention_forward(cn_module *m, cn_module_call *call)
{
  call->out[0] = attend(m, call->args[0].u.t, call->args[1].u.t, call->args[2].u.t, NULL, 0);
  return cn_err();
}

#define WITH_ANGLES "(Tensor x, Tensor cosines, Tensor sines) -> Tensor"

static const cn_module_class attention_class = {
  CN_MODULE_CLASS,
  .name = "LlamaAttention", .call = WITH_ANGLES, .data_size = sizeof(attention), .forward = attention_forward};

static cn_module *new_attention(const settings *s)
{
  cn_module *m = cn_module_new(&attention_class);
  int64_t all = s->heads * s->head_width, keys = s->key_heads * s->head_width;
  if (m) *(attention *)m->data = (attention){s->heads, s->key_heads, s->head_width, s->dropout};
  cni_add(m, "q_proj", cn_nn_linear(s->width, all, .no_bias = !s->qkv_bias));
  cni_add(m, "k_proj", cn_nn_linear(s->width, keys, .no_bias = !s->qkv_bias));
  cni_add(m, "v_proj", cn_nn_linear(s->width, keys, .no_bias = !s->qkv_bias));
  cni_add(m, "o_proj", cn_nn_linear(all, s->width, .no_bias = !s->out_bias));
  return m;
}

/* ---- a layer ---- */

enum { GATE_PROJ, UP_PROJ, DOWN_PROJ, ACT_FN };

static cn_tensor *mlp_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *gate = cn_forward(cn_module_child(m, ACT_FN), cn_forward(cn_module_child(m, GATE_PROJ), x));
  return cn_forward(cn_module_child(m, DOWN_PROJ), cn_mul(gate, cn_forward(cn_module_child(m, UP_PROJ), x)));
}

static const cn_module_class mlp_class = {CN_MODULE_CLASS, .name = "LlamaMLP", .apply = mlp_apply};

static cn_module *new_mlp(const settings *s)
{
  cn_module *m = cn_module_new(&mlp_class);
  cni_add(m, "gate_proj", cn_nn_linear(s->width, s->inner, .no_bias = !s->mlp_bias));
  cni_add(m, "up_proj", cn_nn_linear(s->width, s->inner, .no_bias = !s->mlp_bias));
  cni_add(m, "down_proj", cn_nn_linear(s->inner, s->width, .no_bias = !s->mlp_bias));
  cni_add(m, "act_fn", cni_activation(s->activation));
  return m;
}

enum { SELF_ATTN, MLP, INPUT_NORM, SECOND_NORM };

static cn_tensor *run_layer(cn_module *m, cn_tensor *x, cn_tensor *cosines, cn_tensor *sines, cn_cache *cache,
                            size_t layer)
{
  cn_module *attn = cn_module_child(m, SELF_ATTN);
  cn_tensor *y = cn_forward(cn_module_child(m, INPUT_NORM), x);
  x = cn_add(x, cache ? attend(attn, y, cosines, sines, cache, layer) : cn_forward(attn, y, cosines, sines));
  return cn_add(x, cn_forward(cn_module_child(m, MLP), cn_forward(cn_module_child(m, SECOND_NORM), x)));
}

static int layer_forward(cn_module *m, cn_module_call *call)
{
  call->out[0] = run_layer(m, call->args[0].u.t, call->args[1].u.t, call->args[2].u.t, NULL, 0);
  return cn_err();
}

static const cn_module_class layer_class = {CN_MODULE_CLASS, .name = "LlamaDecoderLayer", .call = WITH_ANGLES,
  .forward = layer_forward};

static cn_module *norm(const settings *s) { return cn_nn_rms_norm(CN_SHAPE(s->width), .eps = s->eps); }

static cn_module *new_layer(const settings *s)
{
  cn_module *m = cn_module_new(&layer_class);
  cni_add(m, "self_attn", new_attention(s));
  cni_add(m, "mlp", new_mlp(s));
  cni_add(m, "input_layernorm", norm(s));
  cni_add(m, "post_attention_layernorm", norm(s));
  return m;
}

/* ---- the body ---- */

enum { EMBED_TOKENS, LAYERS, NORM, ROTARY };

static cn_tensor *run_body(cn_module *m, cn_tensor *tokens, cn_cache *cache)
{
  cn_module *layers = cn_module_child(m, LAYERS);
  cn_tensor *cosines = NULL, *sines = NULL;
  if (cni_check_tokens("llama", tokens, 0, 0)) return NULL;
  cn_tensor *x = cn_keep(cn_forward(cn_module_child(m, EMBED_TOKENS), tokens));
  if (x) angles(&cosines, &sines, cn_module_child(m, ROTARY), cni_cache_at(cache), cn_size(tokens, 1), x);
  for (size_t i = 0; x && i < cn_module_nchildren(layers); i++) {
    cn_scope *s = cn_scope_begin();
    cn_module *l = cn_module_child(layers, i);
    cn_tensor *y = cn_keep(cache ? run_layer(l, x, cosines, sines, cache, i) : cn_forward(l, x, cosines, sines));
    cn_scope_end(s);
    cn_release(x);
    x = y;
  }
  return x ? cn_forward(cn_module_child(m, NORM), cn_scope_give(x)) : NULL;
}

static cn_tensor *body_apply(cn_module *m, cn_tensor *tokens) { return run_body(m, tokens, NULL); }

static const cn_module_class body_class = {CN_MODULE_CLASS, .name = "LlamaModel", .apply = body_apply};

static cn_module *new_body(const settings *s)
{
  cn_module *m = cn_module_new(&body_class), *layers = cn_nn_module_list_of(NULL, 0);
  cni_add(m, "embed_tokens", cn_nn_embedding(s->vocab, s->width));
  for (int64_t i = 0; !cn_err() && i < s->layers; i++) cni_add(layers, NULL, new_layer(s));
  cni_add(m, "layers", layers);
  cni_add(m, "norm", norm(s));
  cni_add(m, "rotary_emb", new_rotary(s));
  return m;
}

/* ---- the model: children model, lm_head ---- */

typedef struct model {
  int64_t context;
} model;

static void model_shape(cni_lm_shape *shape, const cn_module *m)
{
  const cn_module *layers = cn_module_child(cn_module_child(m, 0), LAYERS);
  const attention *d = cn_module_child(cn_module_child(layers, 0), SELF_ATTN)->data;
  *shape = (cni_lm_shape){.layers = (int64_t)cn_module_nchildren(layers),
                          .heads = d->key_heads,
                          .width = d->width,
                          .context = ((const model *)m->data)->context};
}

static cn_tensor *model_hidden(cn_module *m, cn_tensor *tokens, cn_cache *cache)
{
  cn_module *body = cn_module_child(m, 0);
  return cache ? run_body(body, tokens, cache) : cn_forward(body, tokens);
}

static cn_tensor *model_head(cn_module *m, cn_tensor *x) { return cn_forward(cn_module_child(m, 1), x); }
static cn_tensor *model_apply(cn_module *m, cn_tensor *tokens) { return model_head(m, model_hidden(m, tokens, NULL)); }

/* ---- one token ---- */

static void describe(cni_decoder *d, cn_module *m)
{
  cn_module *attn = cn_module_child(m, SELF_ATTN), *mlp = cn_module_child(m, MLP);
  const attention *own = attn->data;
  *d = (cni_decoder){
    .norm = cn_module_child(m, INPUT_NORM), .q = cn_module_child(attn, Q_PROJ), .k = cn_module_child(attn, K_PROJ),
    .v = cn_module_child(attn, V_PROJ), .out = cn_module_child(attn, O_PROJ),
    .feed_norm = cn_module_child(m, SECOND_NORM), .gate = cn_module_child(mlp, GATE_PROJ),
    .up = cn_module_child(mlp, UP_PROJ), .activation = cn_module_child(mlp, ACT_FN),
    .down = cn_module_child(mlp, DOWN_PROJ), .heads = own->heads, .key_heads = own->key_heads, .width = own->width,
    .scale = 1 / sqrt((double)own->width)};
}

/* The angles of all positions are made once. */
static int step_angles(cni_writing *s, const cn_module *m, cn_tensor *like)
{
  cn_tensor *cosines, *sines;
  if (s->cosines || cn_err()) return cn_err();
  if (angles(&cosines, &sines, m, 0, s->cache->length, like)) return cn_err();
  s->cosines = cn_keep(cosines);
  s->sines = cn_keep(sines);
  return cn_err();
}

static cn_tensor *model_step(cn_module *m, cni_writing *s)
{
  cn_module *body = cn_module_child(m, 0), *layers = cn_module_child(body, LAYERS);
  cn_tensor *x = cn_forward(cn_module_child(body, EMBED_TOKENS), s->current);
  if (step_angles(s, cn_module_child(body, ROTARY), x)) return NULL;
  x = cni_step_decoders(s, x, layers, describe);
  return cni_step_linear(s, x, &(cni_step_layer){cn_module_child(body, NORM), cn_module_child(m, 1)});
}

const cni_lm_class cni_llama_class = {
  .cls = {CN_MODULE_CLASS, .name = "LlamaForCausalLM", .data_size = sizeof(model), .apply = model_apply},
  .shape = model_shape,
  .hidden = model_hidden,
  .head = model_head,
  .step = model_step,
};

static cn_module *make_llama(const cni_model *row, const cn_zoo_opts *o)
{
  settings s;
  if (read_settings(&s, row, o)) return NULL;
  cn_module *m = cn_module_new(&cni_llama_class.cls);
  if (m) ((model *)m->data)->context = s.context;
  cni_add(m, "model", new_body(&s));
  cni_add(m, "lm_head", cn_nn_linear(s.width, s.vocab, .no_bias = true));
  if (!o->pretrained) cni_init_transformer(m, s.std);
  if (s.tied && !cn_err()) cn_module_set(m, "lm_head.weight", cn_module_get(m, "model.embed_tokens.weight"));
  return cni_made(m);
}

#define LLAMA(name, doc, ...) {name, doc, make_llama, CNI_TEXT, &(const plan){__VA_ARGS__}, "model", NULL, NULL}

const cni_model cni_zoo_llama[] = {
  LLAMA("llama", "LLaMA 7B, or what .config says", 32000, 4096, 11008, 32, 32, 32, 2048, 10000, 1e-6, false),
  LLAMA("tinyllama-1.1b", "TinyLlama, 22 layers", 32000, 2048, 5632, 22, 32, 4, 2048, 10000, 1e-5, false),
  LLAMA("smollm2-135m", "SmolLM2, 30 layers", 49152, 576, 1536, 30, 9, 3, 8192, 100000, 1e-5, true),
  {0},
};
