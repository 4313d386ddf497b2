/* embed.c: a vector for each text, such that texts of like meaning have vectors of like direction. See cairn/zoo.h.
 *
 * Place in the flow: a tokenizer, then a model as bert.c makes it, then the mean over a text's tokens. Invariant: what
 * a text is put into a batch with changes nothing but the rounding of its vector: padding is masked everywhere. */
#include <stdlib.h>
#include <string.h>

#include "zoo.h"

enum { BATCH = 32 };

cn_tensor *cn_embed_tokens(cn_module *m, cn_tensor *tokens, cn_tensor *mask)
{
  if (cn_err()) return NULL;
  if (!tokens || !mask || cn_ndim(tokens) != 2 || cn_ndim(mask) != 2) {
    cn_err_set(CN_ERR_SHAPE, "embed: tokens and mask must both be (batch, length)");
    return NULL;
  }
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_forward(m, tokens, mask); /* (B, T, C) */
  cn_tensor *taken = x ? cn_cast(cn_unsqueeze(mask, 2), cn_dtype_of(x)) : NULL;
  cn_tensor *sum = cn_sum(cn_mul(x, taken), .dim = CN_INTS(1));
  cn_tensor *mean = cn_true_divide(sum, cn_clamp_min(cn_sum(taken, .dim = CN_INTS(1)), cn_num(1e-9)));
  cn_tensor *length = cn_sqrt(cn_sum(cn_square(mean), .dim = CN_INTS(1), .keepdim = true));
  return cn_scope_return(s, cn_true_divide(mean, cn_clamp_min(length, cn_num(1e-12))));
}

/* ---- texts ---- */

typedef struct item {
  cn_tensor *tokens; /* (length) int64; owned */
  int64_t length;
  size_t number;
} item;

/* Longer ones first, so that those of a batch need little padding. */
static int by_length(const void *a, const void *b)
{
  const item *x = a, *y = b;
  if (x->length != y->length) return x->length > y->length ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

/* The tokens of one text; of one that is too long the first, and the mark at its end. */
static int encode(item *it, cn_tokenizer *tokenizer, const char *text, int64_t longest)
{
  cn_tensor *t = cn_tokenizer_encode(tokenizer, text, strlen(text), true);
  if (t && longest && cn_numel(t) > longest)
    t = cn_cat(CN_TENSORS(cn_slice(t, 0, 0, longest - 1), cn_slice(t, 0, -1, CN_NONE)));
  it->tokens = cn_keep(t);
  it->length = cn_numel(t);
  return cn_err();
}

/* Rows of a batch, padded with zeros, and 1 where there is a token. */
static int pad(cn_tensor **tokens, cn_tensor **mask, const item *items, size_t n)
{
  int64_t longest = items[0].length > 0 ? items[0].length : 1;
  cn_tensor *t = cn_zeros(CN_SHAPE((int64_t)n, longest), .dtype = CN_I64, .device = CN_CPU);
  cn_tensor *m = cn_zeros(CN_SHAPE((int64_t)n, longest), .dtype = CN_I64, .device = CN_CPU);
  int64_t *ids = cn_data(t), *there = cn_data(m);
  for (size_t i = 0; !cn_err() && i < n; i++) {
    int64_t *row = there + (int64_t)i * longest;
    for (int64_t k = 0; k < items[i].length; k++) row[k] = 1;
    if (items[i].length)
      cn_to_data(ids + (int64_t)i * longest, (size_t)items[i].length * sizeof *ids, items[i].tokens);
  }
  *tokens = t;
  *mask = m;
  return cn_err();
}

static cn_device device_of(cn_module *m)
{
  cn_named_list list;
  cn_device device = CN_CPU;
  if (!cn_module_named(&list, m, CN_PARAMETERS) && list.n) device = cn_device_of(list.v[0].tensor);
  cn_named_free(&list);
  return device;
}

/* Vectors of sorted items, in their order. Owned. */
static cn_tensor *embed_sorted(cn_module *m, const item *items, size_t n)
{
  cn_tensor *all = NULL;
  cn_device device = device_of(m);
  for (size_t at = 0; !cn_err() && at < n; at += BATCH) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *tokens, *mask;
    if (!pad(&tokens, &mask, items + at, n - at < BATCH ? n - at : BATCH)) {
      if (device != CN_CPU) tokens = cn_to_device(tokens, device), mask = cn_to_device(mask, device);
      cn_tensor *y = cn_embed_tokens(m, tokens, mask);
      cn_set(&all, all && y ? cn_cat(CN_TENSORS(all, y)) : y);
    }
    cn_scope_end(s);
  }
  return all;
}

/* Puts sorted vectors back into the order of the texts. */
static cn_tensor *in_order(cn_tensor *sorted, const item *items, size_t n)
{
  cn_tensor *indices = cn_zeros(CN_SHAPE((int64_t)n), .dtype = CN_I64, .device = CN_CPU);
  int64_t *v = cn_data(indices);
  if (!v) return NULL;
  for (size_t i = 0; i < n; i++) v[items[i].number] = (int64_t)i;
  if (cn_device_of(sorted) != CN_CPU) indices = cn_to_device(indices, cn_device_of(sorted));
  return cn_index_select(sorted, 0, indices);
}

cn_tensor *cn_embed(cn_module *m, cn_tokenizer *tokenizer, const char *const *texts, size_t n)
{
  if (cn_err()) return NULL;
  if (!m || !tokenizer || !texts || !n) {
    cn_err_set(CN_ERR_TYPE, "embed: needs a model, a tokenizer and one text or more");
    return NULL;
  }
  item *items = cn_alloc_zero(n * sizeof *items);
  if (!items) return NULL;
  bool training = cn_module_training(m);
  if (training) cn_module_train(m, false); /* no dropout */
  int saved = cn_inference_begin();
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; !cn_err() && i < n; i++) {
    items[i].number = i;
    if (!texts[i]) cn_err_set(CN_ERR_TYPE, "embed: text %zu is missing (NULL)", i);
    else encode(&items[i], tokenizer, texts[i], cni_bert_longest(m));
  }
  qsort(items, n, sizeof *items, by_length);
  cn_tensor *all = cn_err() ? NULL : embed_sorted(m, items, n);
  cn_tensor *y = cn_scope_return(s, cn_err() ? NULL : in_order(all, items, n));
  cn_release(all);
  for (size_t i = 0; i < n; i++) cn_release(items[i].tokens);
  cn_free(items, n * sizeof *items);
  cn_inference_end(saved);
  if (training) cn_module_train(m, true);
  return y;
}
