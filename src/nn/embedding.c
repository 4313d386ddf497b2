/* embedding.c: Embedding and EmbeddingBag: rows of a table that whole numbers name.
 *
 * Place in the flow: classes over the ops embedding and embedding_bag. Invariant: padding_idx, once a module is made,
 * is a row of its table or none. */
#include <cairn/ext/parts.h>
#include <string.h>

#include "nn.h"

enum { WEIGHT };

/* Where the shared arguments stand in the two signatures. */
typedef struct table {
  int64_t rows, width;
  const cn_value *padding, *max_norm, *weight, *place;
  double norm_type;
  bool by_frequency;
} table;

static table read_embedding(const cn_value *a)
{
  return (table){.rows = a[0].u.i, .width = a[1].u.i, .padding = &a[2], .max_norm = &a[3], .norm_type = a[4].u.f,
                 .by_frequency = a[5].u.i != 0, .weight = &a[7], .place = &a[9]};
}

static table read_bag(const cn_value *a)
{
  return (table){.rows = a[0].u.i, .width = a[1].u.i, .max_norm = &a[2], .norm_type = a[3].u.f,
                 .by_frequency = a[4].u.i != 0, .weight = &a[7], .padding = &a[9], .place = &a[10]};
}

/* The row that padding_idx names, also when it counts from the end; CN_NONE for none. */
static int64_t padding_row(const table *t)
{
  if (t->padding->tag != CN_V_INT) return CN_NONE;
  return t->padding->u.i < 0 ? t->padding->u.i + t->rows : t->padding->u.i;
}

/* Normal random numbers, with zeros in the row of padding. */
static cn_tensor *new_weight(const table *t, int64_t padding)
{
  cn_tensor *w = cni_new_empty(t->place, CN_SHAPE(t->rows, t->width));
  if (w && cn_numel(w)) w = cn_normal_fill_(w);
  if (w && padding != CN_NONE) cn_fill_(cn_select(w, 0, padding), cn_num(0));
  return w;
}

static int add_weight(cn_module *m, const table *t)
{
  const char *who = m->cls->name;
  int64_t padding = padding_row(t);
  if (t->rows < 0 || t->width < 0) return cn_err_set(CN_ERR_VALUE, "%s: sizes cannot be negative", who);
  if (padding != CN_NONE && (padding < 0 || padding >= t->rows))
    return cn_err_set(CN_ERR_VALUE, "%s: padding_idx must lie within num_embeddings (%lld)", who, (long long)t->rows);
  cn_tensor *w = t->weight->tag == CN_V_TENSOR ? t->weight->u.t : NULL;
  if (w && (cn_ndim(w) != 2 || cn_size(w, 0) != t->rows || cn_size(w, 1) != t->width))
    return cn_err_set(CN_ERR_SHAPE, "%s: _weight must be (%lld, %lld)", who, (long long)t->rows, (long long)t->width);
  int slot = cn_module_add_parameter(m, "weight", w ? cn_detach(w) : new_weight(t, padding));
  return slot < 0 ? slot : CN_OK;
}

/* Longer rows among those that are used are scaled down for good, as PyTorch does, without a gradient. */
static int limit_norm(const table *t, cn_tensor *weight, cn_tensor *indices)
{
  if (t->max_norm->tag != CN_V_FLOAT) return CN_OK;
  int saved = cn_no_grad_begin();
  cn_embedding_renorm_(weight, indices, t->max_norm->u.f, .norm_type = cni_option(t->norm_type));
  cn_no_grad_end(saved);
  return cn_err();
}

enum { SPARSE = 6 }; /* of both signatures */

/* ---- Embedding ---- */

enum { FREEZE = 8 };

static int embedding_init(cn_module *m, const cn_value *a)
{
  table t = read_embedding(a);
  if (add_weight(m, &t)) return cn_err();
  if (a[FREEZE].u.i) cn_requires_grad(cn_module_slot(m, WEIGHT), false);
  return cn_err();
}

/* y with gradients divided by how often the call names each row. */
static cn_tensor *by_frequency(cn_tensor *y, cn_tensor *indices, int64_t rows)
{
  cn_tensor *counts = cn_bincount(cn_flatten(indices), NULL, .minlength = rows);
  cn_tensor *often = cn_cast(cn_take(counts, indices), cn_dtype_of(y));
  return cn_grad_scaled(y, cn_unsqueeze(cn_reciprocal(often), -1));
}

static cn_tensor *embedding_apply(cn_module *m, cn_tensor *x)
{
  table t = read_embedding(cni_args(m));
  cn_tensor *weight = cn_module_slot(m, WEIGHT);
  if (limit_norm(&t, weight, x)) return NULL;
  bool sparse = cni_args(m)[SPARSE].u.i;
  if (sparse && t.by_frequency)
    return cn_err_set(CN_ERR_VALUE, "Embedding: scale_grad_by_freq is not supported with sparse gradients"), NULL;
  cn_tensor *y = sparse ? cn_embedding_sparse(x, weight, padding_row(&t)) : cn_embedding(x, weight, padding_row(&t));
  return y && t.by_frequency ? by_frequency(y, x, t.rows) : y;
}

/* The arguments that both print. */
static void print_table(const table *t, cn_text *text)
{
  if (t->max_norm->tag == CN_V_FLOAT) {
    cn_text_put(text, ", max_norm=");
    cni_put_value(text, t->max_norm, "float");
  }
  if (t->norm_type < 2 || t->norm_type > 2) {
    cn_value norm = cn_v_float(t->norm_type);
    cn_text_put(text, ", norm_type=");
    cni_put_value(text, &norm, "float");
  }
  if (t->by_frequency) cn_text_put(text, ", scale_grad_by_freq=True");
}

static void embedding_print(const cn_module *m, cn_text *text)
{
  const cn_value *a = cni_args(m);
  table t = read_embedding(a);
  cn_text_putf(text, "%lld, %lld", (long long)t.rows, (long long)t.width);
  if (padding_row(&t) != CN_NONE) cn_text_putf(text, ", padding_idx=%lld", (long long)padding_row(&t));
  print_table(&t, text);
  if (a[SPARSE].u.i) cn_text_put(text, ", sparse=True");
}

static const cn_module_class embedding = {
  CN_MODULE_CLASS,
  .name = "Embedding",
  .sig = "Embedding(int num_embeddings, int embedding_dim, int? padding_idx=None, float? max_norm=None, "
         "float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False, Tensor? _weight=None, "
         "bool _freeze=False, device? device=None, dtype? dtype=None) -> Module ; embedding",
  .doc = "The rows of a table that whole numbers name. It starts with normal random numbers, and zeros in the row "
         "padding_idx, which gets no gradient. max_norm scales used rows that are longer; scale_grad_by_freq divides "
         "gradients by how often a call names the row; with sparse the gradient is a sparse tensor of the rows that "
         "were named; _weight is a table to begin with, _freeze leaves it untrained.",
  .init = embedding_init,
  .apply = embedding_apply,
  .print = embedding_print,
};

/* ---- EmbeddingBag ---- */

enum { MODE = 5, LAST_OFFSET = 8 };

static int bag_init(cn_module *m, const cn_value *a)
{
  table t = read_bag(a);
  const char *mode = a[MODE].u.s;
  if (strcmp(mode, "sum") && strcmp(mode, "mean") && strcmp(mode, "max"))
    return cn_err_set(CN_ERR_VALUE, "EmbeddingBag: mode is 'sum', 'mean' or 'max', not '%s'", mode);
  return add_weight(m, &t);
}

static int bag_forward(cn_module *m, cn_module_call *call)
{
  const cn_value *a = cni_args(m), *in = call->args;
  table t = read_bag(a);
  cn_tensor *offsets = in[1].tag == CN_V_TENSOR ? in[1].u.t : NULL;
  cn_tensor *per_sample = in[2].tag == CN_V_TENSOR ? in[2].u.t : NULL;
  double max_norm = t.max_norm->tag == CN_V_FLOAT ? cni_option(t.max_norm->u.f) : 0;
  call->out[0] = cn_embedding_bag(in[0].u.t, cn_module_slot(m, WEIGHT), offsets, per_sample, padding_row(&t),
                                  .max_norm = max_norm, .norm_type = cni_option(t.norm_type),
                                  .scale_grad_by_freq = t.by_frequency, .mode = a[MODE].u.s,
                                  .sparse = a[SPARSE].u.i != 0, .include_last_offset = a[LAST_OFFSET].u.i != 0);
  return cn_err();
}

static void bag_print(const cn_module *m, cn_text *text)
{
  table t = read_bag(cni_args(m));
  cn_text_putf(text, "%lld, %lld", (long long)t.rows, (long long)t.width);
  print_table(&t, text);
  cn_text_putf(text, ", mode='%s'", cni_args(m)[MODE].u.s);
  if (padding_row(&t) != CN_NONE) cn_text_putf(text, ", padding_idx=%lld", (long long)padding_row(&t));
}

static const cn_module_class embedding_bag = {
  CN_MODULE_CLASS,
  .name = "EmbeddingBag",
  .sig = "EmbeddingBag(int num_embeddings, int embedding_dim, float? max_norm=None, float norm_type=2.0, "
         "bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, Tensor? _weight=None, "
         "bool include_last_offset=False, int? padding_idx=None, device? device=None, dtype? dtype=None) "
         "-> Module ; embedding_bag",
  .doc = "Sums, means or maxima of the rows that each bag of whole numbers names: the rows of a matrix are bags; of "
         "a vector, offsets says where bags begin. per_sample_weights (mode 'sum') multiply the rows. See Embedding.",
  .call = "(Tensor input, Tensor? offsets=None, Tensor? per_sample_weights=None) -> Tensor",
  .init = bag_init,
  .forward = bag_forward,
  .print = bag_print,
};

const cn_module_class *const cni_nn_embedding_classes[] = {&embedding, &embedding_bag, NULL};
