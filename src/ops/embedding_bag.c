/* embedding_bag.c: the family of sums over bags of embedding rows, and what embeddings need besides: rows held to a
 * norm, gradients scaled by frequency.
 *
 * Place in the flow: embedding_bag is a composite over embedding and index_add; embedding_renorm has a kernel.
 * Invariant: the shapes of results follow from those of the inputs: offsets are never read here. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

/* ---- embedding_renorm(input, indices, max_norm, norm_type) ---- */

static int embedding_renorm_infer(cn_call *c)
{
  const cn_desc *w = &c->in[0]->d, *index = &c->in[1]->d;
  if (w->ndim != 2 || !cni_dtype_is_float(w->dtype))
    return cn_call_fail(c, CN_ERR_SHAPE, "takes a matrix of a floating-point type");
  if (!cni_dtype_is_int(index->dtype) || !cni_dtype_computes(index->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "the indices must be of an integer type, not %s",
                        cn_dtype_name((cn_dtype)index->dtype));
  return cni_infer_like(c, 0, 0, w->dtype);
}

/* ---- grad_scaled(input, scale): input itself, whose gradient is multiplied by scale ---- */

static int grad_scaled_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *s = &c->in[1]->d;
  if (!cni_broadcasts_to(s->ndim, s->shape, x->ndim, x->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "scale must broadcast to input");
  return cni_infer_like(c, 0, 0, x->dtype);
}
static int grad_scaled_decompose(cn_call *c)
{
  c->out[0] = cn_clone(c->in[0]);
  return cn_err();
}
static int grad_scaled_vjp(cn_vjp *v)
{
  if (v->need[0]) v->gin[0] = cn_mul(v->g[0], v->in[1]);
  return cn_err();
}

/* ---- embedding_bag ---- */

enum { MAX_NORM = 3, NORM_TYPE, BY_FREQUENCY, MODE, SPARSE, WEIGHTS, LAST_OFFSET, PADDING }; /* parameters */

typedef struct bags {
  cn_tensor *input;   /* (n) */
  cn_tensor *rows;    /* (n, d) */
  cn_tensor *ids;     /* (n): the bag of each; NULL where bags have one length */
  cn_tensor *counted; /* (n): 1 where an element counts, 0 for padding; NULL: all do */
  int64_t n, count, length;
  int64_t width;
} bags;

static cn_tensor *zeros(const bags *b, int64_t rows, int64_t columns, cn_dtype dtype)
{
  cn_device device = cn_device_of(b->rows);
  if (columns < 0) return cn_zeros(CN_SHAPE(rows), .dtype = dtype, .device = device);
  return cn_zeros(CN_SHAPE(rows, columns), .dtype = dtype, .device = device);
}

static cn_tensor *ones_int(int64_t n, cn_device device)
{
  return cn_ones(CN_SHAPE(n), .dtype = CN_I64, .device = device);
}

/* offsets (b) mark where bags begin: a running count of the marks is the number of the bag. */
static cn_tensor *bag_numbers(cn_tensor *offsets, int64_t n)
{
  cn_device device = cn_device_of(offsets);
  cn_tensor *marks = cn_zeros(CN_SHAPE(n + 1), .dtype = CN_I64, .device = device);
  marks = cn_index_add_(marks, 0, offsets, ones_int(cn_numel(offsets), device));
  return cn_sub(cn_cumsum(cn_slice(marks, 0, 0, n), 0), cn_int(1));
}

/* The sum of t (n, ...) over each bag; columns -1 for vectors. */
static cn_tensor *bag_sums(const bags *b, cn_tensor *t, int64_t columns)
{
  if (!t) return NULL;
  if (b->ids) return cn_index_add(zeros(b, b->count, columns, cn_dtype_of(t)), 0, b->ids, t);
  t = columns < 0 ? cn_reshape(t, CN_SHAPE(b->count, b->length))
                  : cn_reshape(t, CN_SHAPE(b->count, b->length, columns));
  return cn_sum(t, .dim = CN_INTS(1), .dtype = cn_dtype_of(t));
}

static cn_tensor *bag_counts(const bags *b)
{
  cn_tensor *one = b->counted ? cn_cast(b->counted, CN_I64) : ones_int(b->n, cn_device_of(b->rows));
  return bag_sums(b, one, -1);
}

/* Maxima of bags of one length. */
static cn_tensor *even_maxima(const bags *b)
{
  cn_tensor *rows = b->rows, *best = NULL, *place = NULL;
  if (b->n == 0) return zeros(b, b->count, b->width, cn_dtype_of(rows));
  if (b->counted) rows = cn_where(cn_unsqueeze(b->counted, 1), rows, cn_num(-(double)__builtin_inff()));
  cn_max_dim(&best, &place, cn_reshape(rows, CN_SHAPE(b->count, b->length, b->width)), 1);
  if (!b->counted) return best;
  return cn_where(cn_unsqueeze(cn_gt(bag_counts(b), cn_int(0)), 1), best, cn_int(0));
}

/* The largest of each bag and column; the first of equal ones gets the gradient; 0 where nothing counts. */
static cn_tensor *bag_maxima(const bags *b)
{
  cn_tensor *values = cn_detach(b->rows), *ids = b->ids;
  cn_device device = cn_device_of(b->rows);
  if (!ids) return even_maxima(b);
  cn_tensor *wide = cn_expand(cn_unsqueeze(ids, 1), CN_SHAPE(b->n, b->width)),
            *low = cn_num(-(double)__builtin_inff());
  if (b->counted) values = cn_where(cn_unsqueeze(b->counted, 1), values, low);
  cn_tensor *best = cn_full(CN_SHAPE(b->count, b->width), -(double)__builtin_inff(), .dtype = cn_dtype_of(b->rows),
                            .device = device);
  best = cn_scatter_reduce(best, 0, wide, values, "amax");
  cn_tensor *place = cn_unsqueeze(cn_arange(0, (double)b->n, .dtype = CN_I64, .device = device), 1);
  cn_tensor *hit = cn_eq(values, cn_gather(best, 0, wide));
  if (b->counted) hit = cn_logical_and(hit, cn_unsqueeze(b->counted, 1));
  place = cn_where(hit, place, cn_int(b->n));
  cn_tensor *first = cn_full(CN_SHAPE(b->count, b->width), (double)b->n, .dtype = CN_I64, .device = device);
  first = cn_scatter_reduce(first, 0, wide, place, "amin");
  cn_tensor *some = cn_lt(first, cn_int(b->n));
  if (b->n == 0) return zeros(b, b->count, b->width, cn_dtype_of(b->rows));
  return cn_where(some, cn_gather(b->rows, 0, cn_where(some, first, cn_int(0))), cn_int(0));
}

static int begin_bags(cn_call *c, bags *b)
{
  cn_tensor *input = c->in[0], *weight = c->in[1], *offsets = c->in[2];
  if (weight->d.ndim != 2) return cn_call_fail(c, CN_ERR_SHAPE, "weight must have 2 dimensions");
  if (input->d.ndim != 1 && input->d.ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "input must have 1 or 2 dimensions, not %d", (int)input->d.ndim);
  if (input->d.ndim == 2 && offsets)
    return cn_call_fail(c, CN_ERR_VALUE, "offsets must be None where input has 2 dimensions: its rows are the bags");
  if (input->d.ndim == 1 && (!offsets || offsets->d.ndim != 1))
    return cn_call_fail(c, CN_ERR_VALUE, "an input of one dimension needs offsets, a vector");
  b->n = input->d.numel;
  b->width = weight->d.shape[1];
  b->count = input->d.ndim == 2 ? input->d.shape[0] : offsets->d.numel;
  b->length = input->d.ndim == 2 ? input->d.shape[1] : 0;
  b->input = input->d.ndim == 2 ? cn_reshape(input, CN_SHAPE(b->n)) : input;
  if (!offsets) return cn_err();
  if (cni_arg_bool(c->args, LAST_OFFSET)) {
    if (b->count < 1) return cn_call_fail(c, CN_ERR_VALUE, "include_last_offset needs at least one offset");
    offsets = cn_slice(offsets, 0, 0, --b->count);
  }
  b->ids = bag_numbers(offsets, b->n);
  return cn_err();
}

/* The rows, with what the options ask for. */
static int take_rows(cn_call *c, bags *b)
{
  cn_tensor *weight = c->in[1];
  int64_t padding = cni_arg_int_or(c->args, PADDING, -1), rows = weight->d.shape[0];
  if (!cni_arg_none(c->args, PADDING) && padding < 0) padding += rows;
  if (!cni_arg_none(c->args, MAX_NORM)) {
    cn_state *st = cni_state();
    bool no_grad = st->no_grad;
    st->no_grad = true;
    double type = cni_arg_float(c->args, NORM_TYPE);
    cn_embedding_renorm_(weight, b->input, cni_arg_float(c->args, MAX_NORM), .norm_type = cni_option_float(type));
    st->no_grad = no_grad;
  }
  b->rows = cn_embedding(b->input, weight, cni_arg_none(c->args, PADDING) ? CN_NONE : padding);
  if (cni_arg_bool(c->args, BY_FREQUENCY)) {
    cn_tensor *seen = cn_zeros(CN_SHAPE(rows), .dtype = cn_dtype_of(weight), .device = weight->d.device);
    cn_tensor *one = cn_ones(CN_SHAPE(b->n), .dtype = cn_dtype_of(weight), .device = weight->d.device);
    seen = cn_index_select(cn_index_add_(seen, 0, b->input, one), 0, b->input);
    b->rows = cn_grad_scaled(b->rows, cn_unsqueeze(cn_reciprocal(seen), 1));
  }
  if (!cni_arg_none(c->args, PADDING)) b->counted = cn_ne(b->input, cn_int(padding));
  return cn_err();
}

static int embedding_bag_decompose(cn_call *c)
{
  bags b = {0};
  cn_tensor *factors = c->in[3];
  bool sum = cni_arg_is(c->args, MODE, "sum"), mean = cni_arg_is(c->args, MODE, "mean");
  if (!sum && !mean && !cni_arg_is(c->args, MODE, "max"))
    return cn_call_fail(c, CN_ERR_VALUE, "mode must be 'sum', 'mean' or 'max', not '%s'", cni_arg_str(c->args, MODE));
  if (factors && !sum) return cn_call_fail(c, CN_ERR_VALUE, "per_sample_weights are for mode 'sum' only");
  if (factors && !cni_same_shape(factors->d.ndim, factors->d.shape, c->in[0]->d.ndim, c->in[0]->d.shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "per_sample_weights must have the shape of input");
  int status = begin_bags(c, &b);
  if (!status) status = take_rows(c, &b);
  if (status) return status;
  if (!sum && !mean) return c->out[0] = bag_maxima(&b), cn_err();
  cn_tensor *terms = cni_in_type(b.rows, cni_wide_type((int)cn_dtype_of(b.rows))); /* sums in float32 at least */
  if (factors) terms = cn_mul(terms, cn_reshape(factors, CN_SHAPE(b.n, 1)));
  if (b.counted) terms = cn_where(cn_unsqueeze(b.counted, 1), terms, cn_int(0));
  terms = bag_sums(&b, terms, b.width);
  if (mean) terms = cn_true_divide(terms, cn_unsqueeze(cn_clamp_min(bag_counts(&b), cn_int(1)), 1));
  c->out[0] = cni_in_type(terms, (int)cn_dtype_of(b.rows));
  return cn_err();
}

/* clang-format off */
const cn_op cni_embedding_bag_ops[] = {
  {.sig = "embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float norm_type=2, "
          "bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, Tensor? per_sample_weights=None, "
          "bool include_last_offset=False, int? padding_idx=None) -> Tensor ; nn grad_fn",
   .doc = "Sums, means or maxima of the rows of weight that each bag of input names. The rows of a matrix input are "
          "bags; of a vector input, offsets says where bags begin. max_norm rescales the rows of weight that are used, "
          "in place; padding_idx does not count. A bag of nothing gives zeros.",
   .flags = CN_OP_COMPOSITE, .decompose = embedding_bag_decompose},
  {.sig = "embedding_renorm(Tensor input, Tensor indices, float max_norm, float norm_type=2) "
          "-> Tensor ; inplace internal",
   .doc = "input with those of its rows that indices name scaled down to a norm of at most max_norm.",
   .flags = CN_OP_NO_GRAD | CN_OP_ALIAS_SAFE, .infer = embedding_renorm_infer},
  {.sig = "grad_scaled(Tensor input, Tensor scale) -> Tensor ; internal",
   .doc = "A copy of input; its gradient is multiplied by scale, which broadcasts, on the way back.",
   .infer = grad_scaled_infer, .vjp = grad_scaled_vjp, .decompose = grad_scaled_decompose, .needs = {[0] = CN_IN(1)}},
};
/* clang-format on */
CNI_FAMILY(embedding_bag);
