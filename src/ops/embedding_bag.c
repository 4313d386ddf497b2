/* embedding_bag.c: the family of sums over bags of embedding rows, and what embeddings need besides: rows held to a
 * norm, gradients scaled by frequency.
 *
 * Place in the flow: embedding_bag is a composite over bag_sum and bag_max, which have kernels on the CPU
 * (cpu/index/bags.c) and are made of embedding and index_add elsewhere. Invariant: the shapes of results follow from
 * those of the inputs: offsets are never read here. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"
#include "sparse.h"

static bool is_index(const cn_desc *d) { return cni_dtype_is_int(d->dtype) && cni_dtype_computes(d->dtype); }

/* ---- embedding_renorm(input, indices, max_norm, norm_type) ---- */

static int embedding_renorm_infer(cn_call *c)
{
  const cn_desc *w = &c->in[0]->d, *index = &c->in[1]->d;
  if (w->ndim != 2 || !cni_dtype_is_float(w->dtype))
    return cn_call_fail(c, CN_ERR_SHAPE, "takes a matrix of a floating-point type");
  if (!is_index(index))
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

/* ---- bags: input (n) with offsets where each begins, or the rows of input (b, l) ---- */

enum { WEIGHT, INPUT, OFFSETS, FACTORS }; /* inputs of the ops below */

static int bags_infer(cn_call *c, const cn_desc *table)
{
  const cn_desc *input = &c->in[INPUT]->d, *offsets = c->in[OFFSETS] ? &c->in[OFFSETS]->d : NULL;
  if (table->ndim != 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes a matrix, not %d dimensions", (int)table->ndim);
  if (!cni_dtype_is_float(table->dtype) || !cni_dtype_computes(table->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "not for %s", cn_dtype_name((cn_dtype)table->dtype));
  if (!is_index(input) || (offsets && !is_index(offsets)))
    return cn_call_fail(c, CN_ERR_DTYPE, "indices and offsets must be of an integer type");
  if (input->ndim != (offsets ? 1 : 2) || (offsets && offsets->ndim != 1))
    return cn_call_fail(c, CN_ERR_SHAPE, "takes a vector with offsets, or a matrix without");
  return CN_OK;
}

static int64_t bag_count(const cn_call *c) { return c->in[c->in[OFFSETS] ? OFFSETS : INPUT]->d.shape[0]; }

/* The number of each element's bag, (n): a running count of the marks where bags begin. */
static cn_tensor *bag_numbers(cn_tensor *input, cn_tensor *offsets)
{
  cn_device device = cn_device_of(input);
  const int64_t n = cn_numel(input);
  if (!offsets) {
    const int64_t *size = cn_shape(input);
    cn_tensor *each = cn_arange(0, (double)size[0], .dtype = CN_I64, .device = device);
    return cn_reshape(cn_expand(cn_unsqueeze(each, 1), size, 2), CN_SHAPE(n));
  }
  /* a bag that begins before the one in front of it is at no place, which is an error */
  cn_tensor *steps = cn_diff(offsets, cn_zeros(CN_SHAPE(1), .dtype = cn_dtype_of(offsets), .device = device), NULL);
  offsets = cn_where(cn_lt(steps, cn_int(0)), cn_int(-1), offsets);
  cn_tensor *marks = cn_zeros(CN_SHAPE(n + 1), .dtype = CN_I64, .device = device);
  cn_tensor *ones = cn_ones(CN_SHAPE(cn_numel(offsets)), .dtype = CN_I64, .device = device);
  marks = cn_index_add_(marks, 0, offsets, ones);
  return cn_sub(cn_cumsum(cn_slice(marks, 0, 0, n), 0), cn_int(1));
}

/* 1 for elements that count, 0 for padding, (n, 1). */
static cn_tensor *counting(cn_tensor *flat, int64_t padding)
{
  return cn_unsqueeze(cn_ne(flat, cn_int(padding)), 1);
}

/* x (bags, ...) divided by how many elements of each count, or by 1. */
static cn_tensor *averaged(int64_t bags, cn_tensor *x, cn_tensor *flat, cn_tensor *numbers, int64_t padding)
{
  cn_tensor *seen = padding < 0 ? cn_ones_like(flat, .dtype = CN_I64) : cn_cast(cn_ne(flat, cn_int(padding)), CN_I64);
  cn_tensor *count = cn_zeros(CN_SHAPE(bags), .dtype = CN_I64, .device = cn_device_of(flat));
  count = cn_clamp_min(cn_index_add_(count, 0, numbers, seen), cn_int(1));
  return cn_div(x, cn_unsqueeze(cn_cast(count, cn_dtype_of(x)), 1));
}

/* ---- bag_sum(weight, input, offsets, factors, padding, mean) ---- */

enum { SUM_PADDING = 4, SUM_MEAN, SUM_SPARSE, GRAD_ROWS = 4, GRAD_PADDING, GRAD_MEAN }; /* parameters, its gradient's */

static int bag_sum_infer(cn_call *c)
{
  const cn_desc *w = &c->in[WEIGHT]->d;
  int status = bags_infer(c, w);
  return status ? status : cn_call_result(c, 0, w->dtype, 2, (int64_t[]){bag_count(c), w->shape[1]});
}

static int bag_sum_decompose(cn_call *c)
{
  cn_tensor *w = c->in[WEIGHT], *flat = cn_reshape(c->in[INPUT], CN_SHAPE(c->in[INPUT]->d.numel));
  cn_tensor *numbers = bag_numbers(c->in[INPUT], c->in[OFFSETS]), *terms = cn_embedding(flat, w, CN_NONE);
  const int64_t padding = cni_arg_int(c->args, SUM_PADDING);
  cn_dtype wide = (cn_dtype)cni_wide_type(w->d.dtype); /* sums in float32 at least */
  terms = cni_in_type(terms, wide);
  if (c->in[FACTORS]) terms = cn_mul(terms, cn_reshape(cni_in_type(c->in[FACTORS], wide), CN_SHAPE(-1, 1)));
  if (padding >= 0) terms = cn_where(counting(flat, padding), terms, cn_int(0));
  cn_tensor *sums = cn_zeros(CN_SHAPE(bag_count(c), w->d.shape[1]), .dtype = wide, .device = c->device);
  sums = cn_index_add(sums, 0, numbers, terms);
  if (cni_arg_bool(c->args, SUM_MEAN)) sums = averaged(bag_count(c), sums, flat, numbers, padding);
  c->out[0] = cni_in_type(sums, w->d.dtype);
  return cn_err();
}

/* What a factor's gradient is: the product of its bag's row of each and its own row of table, of the factors' shape. */
static cn_tensor *factor_slopes(cn_tensor *each, cn_tensor *table, cn_tensor *const *in, int64_t padding)
{
  cn_tensor *flat = cn_reshape(in[INPUT], CN_SHAPE(cn_numel(in[INPUT])));
  cn_tensor *rows = cn_index_select(each, 0, bag_numbers(in[INPUT], in[OFFSETS]));
  cn_tensor *products = cn_mul(rows, cn_embedding(flat, table, CN_NONE));
  if (padding >= 0) products = cn_where(counting(flat, padding), products, cn_int(0));
  return cn_reshape(cn_sum(products, .dim = CN_INTS(1)), cn_shape(in[INPUT]), (size_t)cn_ndim(in[INPUT]));
}

/* What each named row gets of g (bags, width): its bag's, times its factor, in the type of sums. */
static cn_tensor *slope_of_each(cn_tensor *g, cn_tensor *const *in, cn_tensor *flat, int64_t padding, bool mean)
{
  cn_tensor *numbers = bag_numbers(in[INPUT], in[OFFSETS]);
  cn_dtype wide = (cn_dtype)cni_wide_type(g->d.dtype);
  cn_tensor *each = cni_in_type(g, (int)wide);
  if (mean) each = averaged(cn_size(g, 0), each, flat, numbers, padding);
  each = cn_index_select(each, 0, numbers);
  return in[FACTORS] ? cn_mul(each, cn_reshape(cni_in_type(in[FACTORS], (int)wide), CN_SHAPE(-1, 1))) : each;
}

static cn_tensor *sparse_slope(cn_vjp *v, int64_t padding)
{
  cn_tensor *flat = cn_reshape(v->in[INPUT], CN_SHAPE(cn_numel(v->in[INPUT])));
  cn_tensor *each = slope_of_each(v->g[0], v->in, flat, padding, cni_arg_bool(v->args, SUM_MEAN));
  return cni_sparse_rows(cni_in_type(each, v->in_meta[WEIGHT].dtype), flat, padding, &v->in_meta[WEIGHT]);
}

static int bag_sum_vjp(cn_vjp *v)
{
  const int64_t padding = cni_arg_int(v->args, SUM_PADDING), rows = v->in_meta[WEIGHT].shape[0];
  if (v->need[WEIGHT] && cni_arg_bool(v->args, SUM_SPARSE) && !cni_capturing_now())
    v->gin[WEIGHT] = sparse_slope(v, padding);
  else if (v->need[WEIGHT])
    v->gin[WEIGHT] = cn_bag_sum_grad(v->g[0], v->in[INPUT], v->in[OFFSETS], v->in[FACTORS], rows,
                                     .padding = cni_option(padding), .mean = cni_arg_bool(v->args, SUM_MEAN));
  if (v->need[FACTORS]) v->gin[FACTORS] = factor_slopes(v->g[0], v->in[WEIGHT], v->in, padding);
  return cn_err();
}

/* bag_sum_grad(grad, input, offsets, factors, rows, padding, mean) */
static int bag_sum_grad_infer(cn_call *c)
{
  const cn_desc *g = &c->in[WEIGHT]->d;
  const int status = bags_infer(c, g);
  if (status) return status;
  const int64_t shape[2] = {cni_arg_int(c->args, GRAD_ROWS), g->shape[1]};
  return cn_call_result(c, 0, g->dtype, 2, shape);
}

static int bag_sum_grad_decompose(cn_call *c)
{
  cn_tensor *g = c->in[WEIGHT], *flat = cn_reshape(c->in[INPUT], CN_SHAPE(c->in[INPUT]->d.numel));
  const int64_t padding = cni_arg_int(c->args, GRAD_PADDING);
  cn_tensor *each = slope_of_each(g, c->in, flat, padding, cni_arg_bool(c->args, GRAD_MEAN));
  each = cn_embedding_grad(each, flat, cni_arg_int(c->args, GRAD_ROWS), padding < 0 ? CN_NONE : padding);
  c->out[0] = cni_in_type(each, g->d.dtype);
  return cn_err();
}

static int bag_sum_grad_vjp(cn_vjp *v)
{
  const int64_t padding = cni_arg_int(v->args, GRAD_PADDING);
  if (v->need[WEIGHT])
    v->gin[WEIGHT] = cn_bag_sum(v->g[0], v->in[INPUT], v->in[OFFSETS], v->in[FACTORS],
                                .padding = cni_option(padding), .mean = cni_arg_bool(v->args, GRAD_MEAN));
  if (v->need[FACTORS]) v->gin[FACTORS] = factor_slopes(v->in[WEIGHT], v->g[0], v->in, padding);
  return cn_err();
}

/* ---- bag_max(weight, input, offsets, padding) -> (values, rows) ---- */

enum { MAX_PADDING = 3 };

static int bag_max_infer(cn_call *c)
{
  const cn_desc *w = &c->in[WEIGHT]->d;
  int status = bags_infer(c, w);
  if (status) return status;
  const int64_t shape[2] = {bag_count(c), w->shape[1]};
  status = cn_call_result(c, 0, w->dtype, 2, shape);
  return status ? status : cn_call_result(c, 1, CN_I64, 2, shape);
}

/* The first of equal ones is meant. */
static int bag_max_decompose(cn_call *c)
{
  cn_tensor *w = c->in[WEIGHT], *flat = cn_reshape(c->in[INPUT], CN_SHAPE(c->in[INPUT]->d.numel));
  const int64_t padding = cni_arg_int(c->args, MAX_PADDING), n = cn_numel(flat), count = bag_count(c);
  const int64_t width = w->d.shape[1];
  cn_tensor *values = cn_embedding(flat, w, CN_NONE), *low = cn_num(-(double)__builtin_inff());
  cn_tensor *numbers = cn_expand(cn_unsqueeze(bag_numbers(c->in[INPUT], c->in[OFFSETS]), 1), CN_SHAPE(n, width));
  if (padding >= 0) values = cn_where(counting(flat, padding), values, low);
  cn_tensor *best = cn_full(CN_SHAPE(count, width), -(double)__builtin_inff(), .dtype = cn_dtype_of(w),
                            .device = c->device);
  best = cn_scatter_reduce(best, 0, numbers, values, "amax");
  cn_tensor *hit = cn_isclose(values, cn_gather(best, 0, numbers), .rtol = (double)CN_ZERO, .atol = (double)CN_ZERO,
                              .equal_nan = true);
  if (padding >= 0) hit = cn_logical_and(hit, counting(flat, padding));
  cn_tensor *place = cn_unsqueeze(cn_arange(0, (double)n, .dtype = CN_I64, .device = c->device), 1);
  cn_tensor *first = cn_full(CN_SHAPE(count, width), (double)n, .dtype = CN_I64, .device = c->device);
  first = cn_scatter_reduce(first, 0, numbers, cn_where(hit, place, cn_int(n)), "amin");
  cn_tensor *some = cn_lt(first, cn_int(n));
  c->out[0] = cn_where(some, best, cn_int(0));
  if (n == 0) return c->out[1] = cn_sub(first, cn_int(1)), cn_err();
  cn_tensor *rows = cn_reshape(cn_index_select(flat, 0, cn_reshape(cn_where(some, first, cn_int(0)), CN_SHAPE(-1))),
                               CN_SHAPE(count, width));
  c->out[1] = cn_where(some, cni_in_type(rows, CN_I64), cn_int(-1));
  return cn_err();
}

static int bag_max_vjp(cn_vjp *v)
{
  const cn_meta *w = &v->in_meta[WEIGHT];
  cn_tensor *rows = v->out[1], *none = cn_lt(rows, cn_int(0)), *zero = cn_int(0);
  cn_tensor *to = cn_zeros(w->shape, 2, .dtype = (cn_dtype)w->dtype, .device = cn_device_of(rows));
  v->gin[WEIGHT] = cn_scatter_add(to, 0, cn_where(none, zero, rows), cn_where(none, zero, v->g[0]));
  return cn_err();
}

/* ---- embedding_bag ---- */

enum { MAX_NORM = 3, NORM_TYPE, BY_FREQUENCY, MODE, SPARSE, WEIGHTS, LAST_OFFSET, PADDING }; /* parameters */

static int check_bags(cn_call *c)
{
  const cn_desc *input = &c->in[0]->d, *weight = &c->in[1]->d, *offsets = c->in[2] ? &c->in[2]->d : NULL;
  const cn_desc *factors = c->in[3] ? &c->in[3]->d : NULL;
  const bool sum = cni_arg_is(c->args, MODE, "sum");
  if (!sum && !cni_arg_is(c->args, MODE, "mean") && !cni_arg_is(c->args, MODE, "max"))
    return cn_call_fail(c, CN_ERR_VALUE, "mode must be 'sum', 'mean' or 'max', not '%s'", cni_arg_str(c->args, MODE));
  if (weight->ndim != 2) return cn_call_fail(c, CN_ERR_SHAPE, "weight must have 2 dimensions");
  if (input->ndim != 1 && input->ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "input must have 1 or 2 dimensions, not %d", (int)input->ndim);
  if (input->ndim == 2 && offsets)
    return cn_call_fail(c, CN_ERR_VALUE, "offsets must be None where input has 2 dimensions: its rows are the bags");
  if (input->ndim == 1 && (!offsets || offsets->ndim != 1))
    return cn_call_fail(c, CN_ERR_VALUE, "an input of one dimension needs offsets, a vector");
  if (offsets && cni_arg_bool(c->args, LAST_OFFSET) && offsets->numel < 1)
    return cn_call_fail(c, CN_ERR_VALUE, "include_last_offset needs at least one offset");
  if (cni_arg_bool(c->args, SPARSE) && cni_arg_is(c->args, MODE, "max"))
    return cn_call_fail(c, CN_ERR_VALUE, "mode 'max' has no sparse gradient");
  if (cni_arg_bool(c->args, SPARSE) && cni_arg_bool(c->args, BY_FREQUENCY))
    return cn_call_fail(c, CN_ERR_VALUE, "scale_grad_by_freq has no sparse gradient");
  if (factors && !sum) return cn_call_fail(c, CN_ERR_VALUE, "per_sample_weights are for mode 'sum' only");
  if (factors && !cni_same_shape(factors->ndim, factors->shape, input->ndim, input->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "per_sample_weights must have the shape of input");
  return CN_OK;
}

static void hold_to_norm(const cn_call *c)
{
  cn_state *st = cni_state();
  bool no_grad = st->no_grad;
  st->no_grad = true;
  cn_embedding_renorm_(c->in[1], cn_reshape(c->in[0], CN_SHAPE(c->in[0]->d.numel)), cni_arg_float(c->args, MAX_NORM),
                       .norm_type = cni_option_float(cni_arg_float(c->args, NORM_TYPE)));
  st->no_grad = no_grad;
}

/* The weight, each of whose rows gets its gradient divided by how often the input names it. */
static cn_tensor *scaled_by_frequency(cn_tensor *weight, cn_tensor *input)
{
  cn_tensor *flat = cn_reshape(input, CN_SHAPE(cn_numel(input)));
  cn_tensor *seen = cn_zeros(CN_SHAPE(cn_size(weight, 0)), .dtype = cn_dtype_of(weight), .device = weight->d.device);
  seen = cn_index_add_(seen, 0, flat, cn_ones_like(flat, .dtype = cn_dtype_of(weight)));
  return cn_grad_scaled(weight, cn_unsqueeze(cn_reciprocal(cn_clamp_min(seen, cn_int(1))), 1));
}

static int embedding_bag_decompose(cn_call *c)
{
  cn_tensor *input = c->in[0], *weight = c->in[1], *offsets = c->in[2], *values, *rows;
  int status = check_bags(c);
  if (status) return status;
  int64_t padding = cni_arg_int_or(c->args, PADDING, -1);
  if (!cni_arg_none(c->args, PADDING) && padding < 0) padding += weight->d.shape[0];
  if (!cni_arg_none(c->args, PADDING) && (padding < 0 || padding >= weight->d.shape[0]))
    return cn_call_fail(c, CN_ERR_INDEX, "padding_idx is out of range for %lld rows", (long long)weight->d.shape[0]);
  if (offsets && cni_arg_bool(c->args, LAST_OFFSET)) offsets = cn_slice(offsets, 0, 0, offsets->d.numel - 1);
  if (!cni_arg_none(c->args, MAX_NORM)) hold_to_norm(c);
  if (cni_arg_bool(c->args, BY_FREQUENCY)) weight = scaled_by_frequency(weight, input);
  if (cni_arg_is(c->args, MODE, "max")) {
    cn_bag_max(&values, &rows, weight, input, offsets, .padding = cni_option(padding));
    c->out[0] = values;
  } else {
    c->out[0] = cn_bag_sum(weight, input, offsets, c->in[3], .padding = cni_option(padding),
                           .mean = cni_arg_is(c->args, MODE, "mean"), .sparse = cni_arg_bool(c->args, SPARSE));
  }
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
  {.sig = "bag_sum(Tensor weight, Tensor input, Tensor? offsets, Tensor? factors, *, int padding=-1, bool mean=False, "
          "bool sparse=False) -> Tensor ; internal",
   .doc = "embedding_bag's sums and means. Rows numbered padding do not count; -1: all do. sparse: the gradient of "
          "weight is a sparse tensor of the rows that were named, but not in graphs.",
   .infer = bag_sum_infer, .vjp = bag_sum_vjp, .decompose = bag_sum_decompose,
   .needs = {[WEIGHT] = CN_IN(INPUT) | CN_IN(OFFSETS) | CN_IN(FACTORS),
             [FACTORS] = CN_IN(WEIGHT) | CN_IN(INPUT) | CN_IN(OFFSETS)}},
  {.sig = "bag_sum_grad(Tensor grad, Tensor input, Tensor? offsets, Tensor? factors, int rows, *, int padding=-1, "
          "bool mean=False) -> Tensor ; internal",
   .doc = "The gradient of bag_sum for its weight, which has so many rows.",
   .infer = bag_sum_grad_infer, .vjp = bag_sum_grad_vjp, .decompose = bag_sum_grad_decompose,
   .needs = {[WEIGHT] = CN_IN(INPUT) | CN_IN(OFFSETS) | CN_IN(FACTORS),
             [FACTORS] = CN_IN(WEIGHT) | CN_IN(INPUT) | CN_IN(OFFSETS)}},
  {.sig = "bag_max(Tensor weight, Tensor input, Tensor? offsets, *, int padding=-1) -> (Tensor values, Tensor rows) "
          "; internal",
   .doc = "embedding_bag's maxima, and which row of weight each is from: the first of equals, -1 where nothing counts.",
   .infer = bag_max_infer, .vjp = bag_max_vjp, .decompose = bag_max_decompose, .needs = {[WEIGHT] = CN_OUT(1)}},
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
