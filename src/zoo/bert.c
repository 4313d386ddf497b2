/* bert.c: BERT and its smaller kin, which turn a sequence of tokens into vectors.
 *
 * Place in the flow: a family of the zoo; embed.c makes sentence embeddings of it. Invariant: names of parameters are
 * those of transformers' BertModel. */
#include <math.h>

#include "zoo.h"

typedef struct plan {
  int width, layers, heads, inner;
  int longest; /* tokens of a text that is embedded; 0: as many as there are positions */
} plan;

typedef struct settings {
  int64_t vocab, context, kinds, width, layers, heads, inner;
  const char *activation;
  double dropout, attention_dropout, eps, std;
} settings;

static cn_module *norm(const settings *s) { return cn_nn_layer_norm(CN_SHAPE(s->width), .eps = s->eps); }
static cn_module *drop(const settings *s) { return cn_nn_dropout(.p = cni_given(s->dropout)); }

/* ---- embeddings ---- */

enum { WORDS, POSITIONS, KINDS, NORM, DROPOUT };

/* tokens, kinds: (B, T) int64; kinds NULL: all 0. Gives (B, T, C). */
static int embeddings_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *tokens = call->args[0].u.t, *kinds = call->args[1].u.t;
  cn_tensor *positions = cn_module_slot(cn_module_child(m, POSITIONS), 0);
  if (cn_dtype_of(tokens) != CN_I64 || cn_ndim(tokens) != 2)
    return cn_err_set(CN_ERR_SHAPE, "bert: tokens must be (batch, length) of int64");
  if (cn_size(tokens, 1) > cn_size(positions, 0))
    return cn_err_set(CN_ERR_VALUE, "bert: %lld tokens are more than the model can see (%lld)",
                      (long long)cn_size(tokens, 1), (long long)cn_size(positions, 0));
  cn_tensor *kind = kinds ? cn_forward(cn_module_child(m, KINDS), kinds)
                          : cn_select(cn_module_slot(cn_module_child(m, KINDS), 0), 0, 0);
  cn_tensor *x = cn_add(cn_forward(cn_module_child(m, WORDS), tokens), kind);
  x = cn_add(x, cn_slice(positions, 0, 0, cn_size(tokens, 1)));
  call->out[0] = cn_forward(cn_module_child(m, DROPOUT), cn_forward(cn_module_child(m, NORM), x));
  return cn_err();
}

static const cn_module_class embeddings_class = {CN_MODULE_CLASS, .name = "BertEmbeddings",
                                                 .call = "(Tensor input_ids, Tensor? token_type_ids=None) -> Tensor",
                                                 .forward = embeddings_forward};

static cn_module *new_embeddings(const settings *s)
{
  cn_module *m = cn_module_new(&embeddings_class);
  cni_add(m, "word_embeddings", cn_nn_embedding(s->vocab, s->width, .padding_idx = CN_ZERO));
  cni_add(m, "position_embeddings", cn_nn_embedding(s->context, s->width));
  cni_add(m, "token_type_embeddings", cn_nn_embedding(s->kinds, s->width));
  cni_add(m, "LayerNorm", norm(s));
  cni_add(m, "dropout", drop(s));
  return m;
}

/* ---- attention ---- */

#define MASKED "(Tensor hidden_states, Tensor? attention_mask=None) -> Tensor"

enum { QUERY, KEY, VALUE };

typedef struct attention {
  int64_t heads;
  double dropout;
} attention;

/* x: (B, T, C); mask: (B, 1, 1, T), true where a token takes part. */
static int self_forward(cn_module *m, cn_module_call *call)
{
  const attention *d = m->data;
  cn_tensor *x = call->args[0].u.t, *part[3];
  for (size_t i = 0; i < 3; i++) {
    cn_tensor *y = cn_forward(cn_module_child(m, QUERY + i), x);
    part[i] = cn_transpose(cn_view(y, CN_SHAPE(cn_size(x, 0), cn_size(x, 1), d->heads, -1)), 1, 2);
  }
  cn_tensor *y = cn_scaled_dot_product_attention(part[0], part[1], part[2], .attn_mask = call->args[1].u.t,
                                                 .dropout_p = cn_module_training(m) ? d->dropout : 0);
  call->out[0] = cn_reshape(cn_transpose(y, 1, 2), CN_SHAPE(cn_size(x, 0), cn_size(x, 1), -1));
  return cn_err();
}

static const cn_module_class self_class = {
  CN_MODULE_CLASS,
  .name = "BertSelfAttention", .call = MASKED, .data_size = sizeof(attention), .forward = self_forward};

/* dense, dropout, then the norm of the sum with what came in. Children: dense, LayerNorm, dropout. */
static int output_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = cn_forward(cn_module_child(m, 2), cn_forward(cn_module_child(m, 0), call->args[0].u.t));
  call->out[0] = cn_forward(cn_module_child(m, 1), cn_add(x, call->args[1].u.t));
  return cn_err();
}

#define ADDED "(Tensor hidden_states, Tensor input_tensor) -> Tensor"
static const cn_module_class self_output_class = {CN_MODULE_CLASS, .name = "BertSelfOutput", .call = ADDED,
  .forward = output_forward};
static const cn_module_class output_class = {CN_MODULE_CLASS, .name = "BertOutput", .call = ADDED,
  .forward = output_forward};

static cn_module *new_output(const settings *s, const cn_module_class *cls, int64_t in)
{
  cn_module *m = cn_module_new(cls);
  cni_add(m, "dense", cn_nn_linear(in, s->width));
  cni_add(m, "LayerNorm", norm(s));
  cni_add(m, "dropout", drop(s));
  return m;
}

static int attention_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = call->args[0].u.t;
  call->out[0] = cn_forward(cn_module_child(m, 1), cn_forward(cn_module_child(m, 0), x, call->args[1].u.t), x);
  return cn_err();
}

static const cn_module_class attention_class = {CN_MODULE_CLASS, .name = "BertAttention", .call = MASKED,
  .forward = attention_forward};

static cn_module *new_attention(const settings *s)
{
  static const char *const names[] = {"query", "key", "value"};
  cn_module *m = cn_module_new(&attention_class), *self = cn_module_new(&self_class);
  if (self) *(attention *)self->data = (attention){s->heads, s->attention_dropout};
  for (int i = 0; i < 3; i++) cni_add(self, names[i], cn_nn_linear(s->width, s->width));
  cni_add(self, "dropout", cn_nn_dropout(.p = cni_given(s->attention_dropout)));
  cni_add(m, "self", self);
  cni_add(m, "output", new_output(s, &self_output_class, s->width));
  return m;
}

/* ---- layers ---- */

static const cn_module_class intermediate_class = {CN_MODULE_CLASS, .name = "BertIntermediate",
  .forward = cn_forward_children};

enum { ATTENTION, INTERMEDIATE, OUTPUT };

static int layer_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = cn_forward(cn_module_child(m, ATTENTION), call->args[0].u.t, call->args[1].u.t);
  call->out[0] = cn_forward(cn_module_child(m, OUTPUT), cn_forward(cn_module_child(m, INTERMEDIATE), x), x);
  return cn_err();
}

static const cn_module_class layer_class = {CN_MODULE_CLASS, .name = "BertLayer", .call = MASKED,
  .forward = layer_forward};

static cn_module *new_layer(const settings *s)
{
  cn_module *m = cn_module_new(&layer_class), *wide = cn_module_new(&intermediate_class);
  cni_add(wide, "dense", cn_nn_linear(s->width, s->inner));
  cni_add(wide, "intermediate_act_fn", cni_activation(s->activation));
  cni_add(m, "attention", new_attention(s));
  cni_add(m, "intermediate", wide);
  cni_add(m, "output", new_output(s, &output_class, s->inner));
  return m;
}

/* Child: layer. */
static int encoder_forward(cn_module *m, cn_module_call *call)
{
  cn_module *layers = cn_module_child(m, 0);
  cn_tensor *x = cn_keep(call->args[0].u.t);
  for (size_t i = 0; x && i < cn_module_nchildren(layers); i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *y = cn_keep(cn_forward(cn_module_child(layers, i), x, call->args[1].u.t));
    cn_scope_end(s);
    cn_release(x);
    x = y;
  }
  call->out[0] = x ? cn_scope_give(x) : NULL;
  return cn_err();
}

static const cn_module_class encoder_class = {CN_MODULE_CLASS, .name = "BertEncoder", .call = MASKED,
  .forward = encoder_forward};

static cn_module *new_encoder(const settings *s)
{
  cn_module *m = cn_module_new(&encoder_class), *layers = cn_nn_module_list_of(NULL, 0);
  for (int64_t i = 0; !cn_err() && i < s->layers; i++) cni_add(layers, NULL, new_layer(s));
  cni_add(m, "layer", layers);
  return m;
}

/* ---- the first token's vector through one more layer ---- */

static cn_tensor *pooler_apply(cn_module *m, cn_tensor *x)
{
  return cn_forward(cn_module_child(m, 1), cn_forward(cn_module_child(m, 0), cn_select(x, 1, 0)));
}

static const cn_module_class pooler_class = {CN_MODULE_CLASS, .name = "BertPooler", .apply = pooler_apply};

static cn_module *new_pooler(const settings *s)
{
  cn_module *m = cn_module_new(&pooler_class);
  cni_add(m, "dense", cn_nn_linear(s->width, s->width));
  cni_add(m, "activation", cn_nn_tanh());
  return m;
}

/* ---- the model: children embeddings, encoder, pooler ---- */

typedef struct model {
  int64_t longest;
} model;

static int model_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *mask = call->args[1].u.t;
  if (mask && (cn_ndim(mask) != 2 || cn_size(mask, 1) != cn_size(call->args[0].u.t, -1)))
    return cn_err_set(CN_ERR_SHAPE, "bert: attention_mask must be (batch, length) as the tokens are");
  if (mask) mask = cn_unsqueeze(cn_unsqueeze(cn_ne(mask, cn_int(0)), 1), 1);
  cn_tensor *x = cn_forward(cn_module_child(m, 0), call->args[0].u.t, call->args[2].u.t);
  x = call->out[0] = cn_forward(cn_module_child(m, 1), x, mask);
  if (call->nout > 1) call->out[1] = cn_forward(cn_module_child(m, 2), x);
  return cn_err();
}

static const cn_module_class model_class = {
  CN_MODULE_CLASS,
  .name = "BertModel",
  .call = "(Tensor input_ids, Tensor? attention_mask=None, Tensor? token_type_ids=None) "
          "-> (Tensor last_hidden_state, Tensor pooler_output)",
  .data_size = sizeof(model),
  .forward = model_forward};

int64_t cni_bert_longest(const cn_module *m)
{
  return m->cls == &model_class ? ((const model *)m->data)->longest : 0;
}

static int read_settings(settings *s, const cni_model *row, const cn_zoo_opts *o)
{
  static const char *const names[] = {"vocab_size", "max_position_embeddings", "type_vocab_size", "hidden_size",
                                      "num_hidden_layers", "num_attention_heads", "intermediate_size"};
  const plan *p = row->plan;
  const cn_tree *c = o->config;
  *s = (settings){
    .vocab = cni_or(o->vocab, cni_setting(c, "vocab_size", 30522)),
    .context = cni_setting(c, "max_position_embeddings", 512),
    .kinds = cni_setting(c, "type_vocab_size", 2),
    .width = cni_setting(c, "hidden_size", p->width),
    .layers = cni_setting(c, "num_hidden_layers", p->layers),
    .heads = cni_setting(c, "num_attention_heads", p->heads),
    .inner = cni_setting(c, "intermediate_size", p->inner),
    .activation = cni_setting_text(c, "hidden_act", "gelu"),
    .dropout = cni_setting_float(c, "hidden_dropout_prob", 0.1),
    .attention_dropout = cni_setting_float(c, "attention_probs_dropout_prob", 0.1),
    .eps = cni_setting_float(c, "layer_norm_eps", 1e-12),
    .std = cni_setting_float(c, "initializer_range", 0.02),
  };
  int64_t sizes[] = {s->vocab, s->context, s->kinds, s->width, s->layers, s->heads, s->inner};
  if (cni_check_sizes(row->name, names, sizes, sizeof sizes / sizeof *sizes)) return cn_err();
  if (s->width % s->heads)
    return cn_err_set(CN_ERR_VALUE, "%s: hidden_size %lld does not fall into %lld heads", row->name,
                      (long long)s->width, (long long)s->heads);
  return CN_OK;
}

static cn_module *make_bert(const cni_model *row, const cn_zoo_opts *o)
{
  settings s;
  if (read_settings(&s, row, o)) return NULL;
  int64_t longest = cni_setting(o->config, "max_seq_length", cni_or(((const plan *)row->plan)->longest, s.context));
  cn_module *m = cn_module_new(&model_class);
  if (m) ((model *)m->data)->longest = longest > 0 && longest < s.context ? longest : s.context;
  cni_add(m, "embeddings", new_embeddings(&s));
  cni_add(m, "encoder", new_encoder(&s));
  cni_add(m, "pooler", new_pooler(&s));
  if (!o->pretrained && !cni_init_transformer(m, s.std))
    cn_init_zeros(cn_select(cn_module_get(m, "embeddings.word_embeddings.weight"), 0, 0)); /* of padding */
  return cni_made(m);
}

#define BERT(name, doc, ...) {name, doc, make_bert, CNI_TEXT, &(const plan){__VA_ARGS__}, NULL, NULL, NULL}

const cni_model cni_zoo_bert[] = {
  BERT("bert", "BERT base, 12 layers", 768, 12, 12, 3072, 0),
  BERT("bert-large", "BERT large, 24 layers", 1024, 24, 16, 4096, 0),
  BERT("minilm", "all-MiniLM-L6-v2: sentence embeddings, 6 layers", 384, 6, 12, 1536, 256),
  {0},
};
