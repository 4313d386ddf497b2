/* recurrent.c: language models on a recurrent layer, for characters or words.
 *
 * Place in the flow: a family of the zoo and a class of language models (lm.h); the cache holds the layer's states.
 * Invariant: parts are named as in PyTorch's word language model: encoder, rnn, decoder; settings too (emsize, nhid,
 * nlayers, dropout, tied). */
#include "lm.h"

typedef struct plan {
  bool lstm;
} plan;

typedef struct model {
  bool lstm;
} model;

enum { DROP, ENCODER, RNN, DECODER };

static void model_shape(cni_lm_shape *shape, const cn_module *m)
{
  (void)m;
  *shape = (cni_lm_shape){.layers = 1, .recurrent = true};
}

static cn_tensor *model_hidden(cn_module *m, cn_tensor *tokens, cn_cache *cache)
{
  if (cni_check_tokens("recurrent model", tokens, 0, 0)) return NULL;
  size_t states = ((const model *)m->data)->lstm ? 2 : 1;
  struct cni_kv *kept = cache ? &cache->layer[0] : NULL;
  cn_tensor *x = cn_forward(cn_module_child(m, ENCODER), tokens), *out[3] = {NULL};
  if (!cache) x = cn_forward(cn_module_child(m, DROP), x);
  cn_tensor *in[3] = {x, kept ? kept->k : NULL, kept ? kept->v : NULL};
  if (!x || cn_forward_all(out, 1 + states, cn_module_child(m, RNN), in, 1 + states)) return NULL;
  if (kept && (cn_set(&kept->k, out[1]) || (states == 2 && cn_set(&kept->v, out[2])))) return NULL;
  return cache ? out[0] : cn_forward(cn_module_child(m, DROP), out[0]);
}

static cn_tensor *model_head(cn_module *m, cn_tensor *x) { return cn_forward(cn_module_child(m, DECODER), x); }
static cn_tensor *model_apply(cn_module *m, cn_tensor *tokens) { return model_head(m, model_hidden(m, tokens, NULL)); }

const cni_lm_class cni_recurrent_class = {
  .cls = {CN_MODULE_CLASS, .name = "RNNModel", .data_size = sizeof(model), .apply = model_apply},
  .shape = model_shape,
  .hidden = model_hidden,
  .head = model_head,
};

static cn_module *make_recurrent(const cni_model *row, const cn_zoo_opts *o)
{
  static const char *const names[] = {"vocab", "emsize", "nhid", "nlayers"};
  const plan *p = row->plan;
  int64_t vocab = cni_or(o->vocab, 256), width = cni_setting(o->config, "emsize", 128);
  int64_t hidden = cni_setting(o->config, "nhid", 256), layers = cni_setting(o->config, "nlayers", 2);
  double drop = cni_setting_float(o->config, "dropout", 0);
  bool tied = cni_setting_bool(o->config, "tied", false);
  if (cni_check_sizes(row->name, names, (const int64_t[]){vocab, width, hidden, layers}, 4)) return NULL;
  if (tied && width != hidden) {
    cn_err_set(CN_ERR_VALUE, "%s: tied needs nhid (%lld) equal to emsize (%lld)", row->name, (long long)hidden,
               (long long)width);
    return NULL;
  }
  cn_module *m = cn_module_new(&cni_recurrent_class.cls);
  if (m) ((model *)m->data)->lstm = p->lstm;
  cni_add(m, "drop", cn_nn_dropout(.p = cni_given(drop)));
  cni_add(m, "encoder", cn_nn_embedding(vocab, width));
  cni_add(m, "rnn", p->lstm ? cn_nn_lstm(width, hidden, .num_layers = layers, .batch_first = true, .dropout = drop)
                            : cn_nn_rnn(width, hidden, .num_layers = layers, .batch_first = true, .dropout = drop));
  cni_add(m, "decoder", cn_nn_linear(hidden, vocab));
  if (cn_err()) return cni_made(m);
  cn_init_uniform(cn_module_get(m, "encoder.weight"), -0.1, 0.1);
  cn_init_uniform(cn_module_get(m, "decoder.weight"), -0.1, 0.1);
  cn_init_zeros(cn_module_get(m, "decoder.bias"));
  if (tied) cn_module_set(m, "decoder.weight", cn_module_get(m, "encoder.weight"));
  return cni_made(m);
}

const cni_model cni_zoo_recurrent[] = {
  {"char_rnn", "a language model on a plain recurrent layer: 256 tokens (.vocab)", make_recurrent, CNI_TEXT,
   &(const plan){false}, NULL, NULL, NULL},
  {"char_lstm", "a language model on an LSTM: 256 tokens (.vocab)", make_recurrent, CNI_TEXT, &(const plan){true},
   NULL, NULL, NULL},
  {0},
};
