/* small.c: see small.h. */
#include "small.h"

#include "formula.h"
#include "test.h"

static const char GPT2[] = "{\"vocab_size\": 61, \"n_positions\": 40, \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 4}";
static const char LLAMA[] =
    "{\"vocab_size\": 61, \"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 40}";
static const char RNN[] = "{\"emsize\": 24, \"nhid\": 32}";

const char small_bert[] =
    "{\"vocab_size\": 61, \"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 4, \"max_position_embeddings\": 24}";
const small_model small_models[SMALL_MODELS] = {
  {"gpt2", GPT2, 0}, {"llama", LLAMA, 0}, {"char_lstm", RNN, SMALL_VOCAB}, {"char_rnn", RNN, SMALL_VOCAB}};

cn_module *small_made(const char *name, const char *json, int64_t vocab)
{
  cn_err_clear(); /* of a test that failed before */
  cn_tree *config = cn_tree_from_json(json, strlen(json));
  cn_module *m = cn_zoo(name, .config = config, .vocab = vocab);
  if (!m) fail_msg("%s: %s", name, cn_err_message());
  cn_tree_free(config);
  formula_fill(m);
  return m;
}

cn_module *small(int i) { return small_made(small_models[i].name, small_models[i].config, small_models[i].vocab); }

void must_equal(cn_tensor *a, cn_tensor *b)
{
  if (!a || !b) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_numel(a), cn_numel(b));
  assert_true(cn_item(cn_all(cn_eq(a, b))));
}

void must_be_near(cn_tensor *a, cn_tensor *b)
{
  if (!a || !b) fail_msg("%s", cn_err_message());
  assert_true(cn_item(cn_amax(cn_abs(cn_sub(a, b)))) < 1e-5);
}
