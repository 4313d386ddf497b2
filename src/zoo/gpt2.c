/* gpt2.c: GPT-2 of all sizes.
 *
 * Place in the flow: a family of the zoo and a class of language models (lm.h). Invariant: names of parameters, their
 * layout (Conv1D holds its weight transposed) and their first values are those of transformers' GPT2LMHeadModel. */
#include <math.h>

#include "lm.h"

typedef struct plan {
  int layers, heads, width;
} plan;

/* The settings of transformers that matter here. */
typedef struct settings {
  int64_t vocab, context, width, layers, heads, inner;
  const char *activation;
  double dropout, embedding_dropout, attention_dropout, eps, std;
  bool scaled, scaled_by_layer, tied;
} settings;

/* ---- Conv1D: a linear layer whose weight is (in, out) ---- */

static cn_tensor *conv1d_apply(cn_module *m, cn_tensor *x)
{
  return cn_linear(x, cn_transpose(cn_module_slot(m, 0), 0, 1), cn_module_slot(m, 1));
}

static void conv1d_print(const cn_module *m, cn_text *t)
{
  const cn_tensor *w = cn_module_slot(m, 0);
  cn_text_putf(t, "nf=%lld, nx=%lld", (long long)cn_size(w, 1), (long long)cn_size(w, 0));
}

static double conv1d_work(const cn_module *m, const cn_module_call *call)
{
  return (double)cn_numel(call->out[0]) * (double)cn_size(cn_module_slot(m, 0), 0);
}

const cn_module_class cni_conv1d_class = {
  CN_MODULE_CLASS,
  .name = "Conv1D", .apply = conv1d_apply, .print = conv1d_print, .work = conv1d_work};

static cn_module *conv1d(int64_t in, int64_t out)
{
  cn_module *m = cn_module_new(&cni_conv1d_class);
  if (!m) return NULL;
  cn_module_add_parameter(m, "weight", cn_zeros(CN_SHAPE(in, out)));
  cn_module_add_parameter(m, "bias", cn_zeros(CN_SHAPE(out)));
  return m;
}

/* ---- attention ---- */

enum { C_ATTN, ATTN_C_PROJ, ATTN_DROPOUT, RESID_DROPOUT };

typedef struct attention {
  int64_t heads;
  double scale, dropout;
} attention;

/* all: (B, T, 3 C); q, k, v: (B, H, T, d) each. */
static int divide(cn_tensor *part[3], cn_tensor *all, int64_t heads)
{
  if (!all) return cn_err();
  all = cn_view(all, CN_SHAPE(cn_size(all, 0), cn_size(all, 1), 3, heads, cn_size(all, 2) / 3 / heads));
  all = cn_permute(all, CN_SHAPE(2, 0, 3, 1, 4)); /* (3, B, H, T, d) */
  for (int i = 0; i < 3; i++) part[i] = cn_select(all, 0, i);
  return cn_err();
}

/* x: (B, T, C) */
static cn_tensor *attend(cn_module *m, cn_tensor *x, cn_cache *cache, size_t layer)
{
  const attention *d = m->data;
  cn_tensor *part[3];
  if (divide(part, cn_forward(cn_module_child(m, C_ATTN), x), d->heads)) return NULL;
  cn_tensor *y = cni_attend(part[0], part[1], part[2], cache, layer, d->scale,
                            !cache && cn_module_training(m) ? d->dropout : 0);
  y = cn_forward(cn_module_child(m, ATTN_C_PROJ), y);
  return cache ? y : cn_forward(cn_module_child(m, RESID_DROPOUT), y);
}

static cn_tensor *attention_apply(cn_module *m, cn_tensor *x) { return attend(m, x, NULL, 0); }

static const cn_module_class attention_class = {
  CN_MODULE_CLASS,
  .name = "GPT2Attention", .data_size = sizeof(attention), .apply = attention_apply};

static cn_module *new_attention(const settings *s, int64_t layer)
{
  cn_module *m = cn_module_new(&attention_class);
  double scale = s->scaled ? 1 / sqrt((double)(s->width / s->heads)) : 1;
  if (m) *(attention *)m->data = (attention){s->heads, s->scaled_by_layer ? scale / (double)(layer + 1) : scale,
                                             s->attention_dropout};
  cni_add(m, "c_attn", conv1d(s->width, 3 * s->width));
  cni_add(m, "c_proj", conv1d(s->width, s->width));
  cni_add(m, "attn_dropout", cn_nn_dropout(.p = cni_given(s->attention_dropout)));
  cni_add(m, "resid_dropout", cn_nn_dropout(.p = cni_given(s->dropout)));
  return m;
}

/* ---- a block ---- */

static const cn_module_class mlp_class = {CN_MODULE_CLASS, .name = "GPT2MLP", .forward = cn_forward_children};

static cn_module *new_mlp(const settings *s)
{
  cn_module *m = cn_module_new(&mlp_class);
  cni_add(m, "c_fc", conv1d(s->width, s->inner));
  cni_add(m, "act", cni_activation(s->activation));
  cni_add(m, "c_proj", conv1d(s->inner, s->width));
  cni_add(m, "dropout", cn_nn_dropout(.p = cni_given(s->dropout)));
  return m;
}

enum { LN_1, ATTN, LN_2, MLP };

static cn_tensor *mlp_step(cn_module *m, cn_tensor *x)
{
  for (size_t i = 0; i < 3; i++) x = cn_forward(cn_module_child(m, i), x);
  return x;
}

static cn_tensor *run_block(cn_module *m, cn_tensor *x, cn_cache *cache, size_t layer)
{
  cn_module *attn = cn_module_child(m, ATTN), *mlp = cn_module_child(m, MLP);
  cn_tensor *y = cn_forward(cn_module_child(m, LN_1), x);
  x = cn_add(cache ? attend(attn, y, cache, layer) : cn_forward(attn, y), x);
  y = cn_forward(cn_module_child(m, LN_2), x);
  return cn_add(x, cache ? mlp_step(mlp, y) : cn_forward(mlp, y));
}

static cn_tensor *block_apply(cn_module *m, cn_tensor *x) { return run_block(m, x, NULL, 0); }

static const cn_module_class block_class = {CN_MODULE_CLASS, .name = "GPT2Block", .apply = block_apply};

static cn_module *new_block(const settings *s, int64_t layer)
{
  cn_module *m = cn_module_new(&block_class);
  cni_add(m, "ln_1", cn_nn_layer_norm(CN_SHAPE(s->width), .eps = s->eps));
  cni_add(m, "attn", new_attention(s, layer));
  cni_add(m, "ln_2", cn_nn_layer_norm(CN_SHAPE(s->width), .eps = s->eps));
  cni_add(m, "mlp", new_mlp(s));
  return m;
}

/* ---- the body ---- */

enum { WTE, WPE, DROP, H, LN_F };

static cn_tensor *run_body(cn_module *m, cn_tensor *tokens, cn_cache *cache)
{
  cn_module *blocks = cn_module_child(m, H);
  cn_tensor *positions = cn_module_slot(cn_module_child(m, WPE), 0);
  int64_t at = cni_cache_at(cache);
  if (cni_check_tokens("gpt2", tokens, at, cn_size(positions, 0))) return NULL;
  cn_tensor *x = cn_add(cn_forward(cn_module_child(m, WTE), tokens),
                        cn_slice(positions, 0, at, at + cn_size(tokens, 1)));
  if (!cache) x = cn_forward(cn_module_child(m, DROP), x);
  x = cn_keep(x);
  for (size_t i = 0; x && i < cn_module_nchildren(blocks); i++) { /* each drops the values of the one before */
    cn_scope *s = cn_scope_begin();
    cn_module *b = cn_module_child(blocks, i);
    cn_tensor *y = cn_keep(cache ? run_block(b, x, cache, i) : cn_forward(b, x));
    cn_scope_end(s);
    cn_release(x);
    x = y;
  }
  return x ? cn_forward(cn_module_child(m, LN_F), cn_scope_give(x)) : NULL;
}

static cn_tensor *body_apply(cn_module *m, cn_tensor *tokens) { return run_body(m, tokens, NULL); }

static const cn_module_class body_class = {CN_MODULE_CLASS, .name = "GPT2Model", .apply = body_apply};

static cn_module *new_body(const settings *s)
{
  cn_module *m = cn_module_new(&body_class), *blocks = cn_nn_module_list_of(NULL, 0);
  cni_add(m, "wte", cn_nn_embedding(s->vocab, s->width));
  cni_add(m, "wpe", cn_nn_embedding(s->context, s->width));
  cni_add(m, "drop", cn_nn_dropout(.p = cni_given(s->embedding_dropout)));
  for (int64_t i = 0; !cn_err() && i < s->layers; i++) cni_add(blocks, NULL, new_block(s, i));
  cni_add(m, "h", blocks);
  cni_add(m, "ln_f", cn_nn_layer_norm(CN_SHAPE(s->width), .eps = s->eps));
  return m;
}

/* ---- the model: children transformer, lm_head ---- */

static void model_shape(cni_lm_shape *shape, const cn_module *m)
{
  const cn_module *body = cn_module_child(m, 0), *blocks = cn_module_child(body, H);
  const attention *d = cn_module_child(cn_module_child(blocks, 0), ATTN)->data;
  const cn_tensor *positions = cn_module_slot(cn_module_child(body, WPE), 0);
  *shape = (cni_lm_shape){.layers = (int64_t)cn_module_nchildren(blocks),
                          .heads = d->heads,
                          .width = cn_size(positions, 1) / d->heads,
                          .context = cn_size(positions, 0)};
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
  cn_module *attn = cn_module_child(m, ATTN), *mlp = cn_module_child(m, MLP);
  const attention *own = attn->data;
  *d = (cni_decoder){
    .norm = cn_module_child(m, LN_1), .qkv = cn_module_child(attn, C_ATTN), .out = cn_module_child(attn, ATTN_C_PROJ),
    .feed_norm = cn_module_child(m, LN_2), .up = cn_module_child(mlp, 0), .activation = cn_module_child(mlp, 1),
    .down = cn_module_child(mlp, 2), .heads = own->heads, .key_heads = own->heads, .scale = own->scale,
    .width = cn_size(cn_module_slot(cn_module_child(attn, ATTN_C_PROJ), 0), 0) / own->heads};
}

static cn_tensor *model_step(cn_module *m, cni_writing *s)
{
  cn_module *body = cn_module_child(m, 0), *blocks = cn_module_child(body, H);
  cn_tensor *positions = cn_module_slot(cn_module_child(body, WPE), 0);
  cn_tensor *x = cn_add(cn_forward(cn_module_child(body, WTE), s->current),
                        cn_unsqueeze(cn_index_select(positions, 0, s->position), 1));
  x = cni_step_decoders(s, x, blocks, describe);
  return cni_step_linear(s, x, &(cni_step_layer){cn_module_child(body, LN_F), cn_module_child(m, 1)});
}

const cni_lm_class cni_gpt2_class = {
  .cls = {CN_MODULE_CLASS, .name = "GPT2LMHeadModel", .apply = model_apply},
  .shape = model_shape,
  .hidden = model_hidden,
  .head = model_head,
  .step = model_step,
};

static int read_settings(settings *s, const cni_model *row, const cn_zoo_opts *o)
{
  static const char *const names[] = {"vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"};
  const plan *p = row->plan;
  const cn_tree *c = o->config;
  double drop = 0.1;
  *s = (settings){
    .vocab = cni_or(o->vocab, cni_setting(c, "vocab_size", 50257)),
    .context = cni_setting(c, "n_positions", 1024),
    .width = cni_setting(c, "n_embd", p->width),
    .layers = cni_setting(c, "n_layer", p->layers),
    .heads = cni_setting(c, "n_head", p->heads),
    .activation = cni_setting_text(c, "activation_function", "gelu_new"),
    .dropout = cni_setting_float(c, "resid_pdrop", drop),
    .embedding_dropout = cni_setting_float(c, "embd_pdrop", drop),
    .attention_dropout = cni_setting_float(c, "attn_pdrop", drop),
    .eps = cni_setting_float(c, "layer_norm_epsilon", 1e-5),
    .std = cni_setting_float(c, "initializer_range", 0.02),
    .scaled = cni_setting_bool(c, "scale_attn_weights", true),
    .scaled_by_layer = cni_setting_bool(c, "scale_attn_by_inverse_layer_idx", false),
    .tied = cni_setting_bool(c, "tie_word_embeddings", true),
  };
  s->inner = cni_setting(c, "n_inner", 4 * s->width);
  int64_t sizes[] = {s->vocab, s->context, s->width, s->layers, s->heads, s->inner};
  if (cni_check_sizes(row->name, names, sizes, sizeof sizes / sizeof *sizes)) return cn_err();
  if (s->width % s->heads)
    return cn_err_set(CN_ERR_VALUE, "%s: n_embd %lld does not fall into %lld heads (n_head)", row->name,
                      (long long)s->width, (long long)s->heads);
  return CN_OK;
}

/* What leads back into the sum starts smaller, the more so the more layers there are. */
static int init_projection(cn_module *m, const char *path, void *std)
{
  (void)path;
  if (!cni_is(m, "GPT2Attention") && !cni_is(m, "GPT2MLP")) return CN_OK;
  return cn_init_normal(cn_module_get(m, "c_proj.weight"), 0, *(double *)std);
}

static cn_module *make_gpt2(const cni_model *row, const cn_zoo_opts *o)
{
  settings s;
  if (read_settings(&s, row, o)) return NULL;
  cn_module *m = cn_module_new(&cni_gpt2_class.cls);
  cni_add(m, "transformer", new_body(&s));
  cni_add(m, "lm_head", cn_nn_linear(s.width, s.vocab, .no_bias = true));
  double std = s.std / sqrt(2 * (double)s.layers);
  if (!o->pretrained && !cni_init_transformer(m, s.std)) cn_module_visit(m, init_projection, &std);
  if (s.tied && !cn_err()) cn_module_set(m, "lm_head.weight", cn_module_get(m, "transformer.wte.weight"));
  return cni_made(m);
}

#define GPT2(name, doc, ...) {name, doc, make_gpt2, CNI_TEXT, &(const plan){__VA_ARGS__}, "transformer", NULL, NULL}

const cni_model cni_zoo_gpt2[] = {
  GPT2("gpt2", "GPT-2, 12 layers, 124 million parameters", 12, 12, 768),
  GPT2("gpt2-medium", "GPT-2, 24 layers, 355 million parameters", 24, 16, 1024),
  GPT2("gpt2-large", "GPT-2, 36 layers, 774 million parameters", 36, 20, 1280),
  GPT2("gpt2-xl", "GPT-2, 48 layers, 1558 million parameters", 48, 25, 1600),
  {0},
};
