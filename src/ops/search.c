/* search.c: the family of ops that look numbers up: searchsorted, bucketize, isin, and histograms, which are made of
 * them; bincount.
 *
 * Place in the flow: rows for apply; searchsorted has a kernel (backends/cpu/index/search.c), the rest is composed.
 * Invariant: ranges that come from the data stay tensors; only bincount, whose size they decide, reads a value. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/ops.h>
#include <float.h>
#include <math.h>

#include "families.h"
#include "reduce.h"
#include "shorthand.h"

/* ---- searchsorted(sorted_sequence, input, out_int32, right, side, sorter) ---- */

static int misfit(const cn_call *c, const char *what, const cn_desc *a, const cn_desc *sequence)
{
  char first[CNI_SHAPE_TEXT], second[CNI_SHAPE_TEXT];
  return cn_call_fail(c, CN_ERR_SHAPE, "%s of shape %s does not fit a sorted sequence of shape %s", what,
                      cni_shape_text(first, sizeof first, a->ndim, a->shape),
                      cni_shape_text(second, sizeof second, sequence->ndim, sequence->shape));
}

static int check_side(const cn_call *c, bool right, const cn_value *side)
{
  if (side->tag == CN_V_NONE) return CN_OK;
  bool left = !strcmp(side->u.s, "left");
  if (!left && strcmp(side->u.s, "right"))
    return cn_call_fail(c, CN_ERR_VALUE, "side must be 'left' or 'right', not '%s'", side->u.s);
  return left && right ? cn_call_fail(c, CN_ERR_VALUE, "side is 'left', but right is true") : CN_OK;
}

static int searchsorted_infer(cn_call *c)
{
  const cn_desc *s = &c->in[0]->d, *x = &c->in[1]->d, *sorter = c->in[2] ? &c->in[2]->d : NULL;
  int status = check_side(c, cni_arg_bool(c->args, 3), &c->args[4]);
  if (status) return status;
  if (s->ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "the sorted sequence must have at least one dimension");
  if (s->dtype != x->dtype && !x->weak)
    return cn_call_fail(c, CN_ERR_DTYPE, "the sequence is of type %s, input of type %s; cast one with cn_cast",
                        cn_dtype_name((cn_dtype)s->dtype), cn_dtype_name((cn_dtype)x->dtype));
  if (s->ndim > 1 && (s->ndim != x->ndim || memcmp(s->shape, x->shape, (size_t)(s->ndim - 1) * sizeof *s->shape)))
    return misfit(c, "input", x, s);
  if (sorter && !cni_same_shape(s->ndim, s->shape, sorter->ndim, sorter->shape)) return misfit(c, "sorter", sorter, s);
  if (sorter && sorter->dtype != CN_I64)
    return cn_call_fail(c, CN_ERR_DTYPE, "sorter must be int64, not %s", cn_dtype_name((cn_dtype)sorter->dtype));
  bool narrow = cni_arg_bool(c->args, 2);
  if (narrow && s->shape[s->ndim - 1] >= INT32_MAX)
    return cn_call_fail(c, CN_ERR_VALUE, "the sequence is too long for int32 results");
  return cn_call_result(c, 0, narrow ? CN_I32 : CN_I64, x->ndim, x->shape);
}

/* bucketize(input, boundaries, out_int32, right) */
static int bucketize_decompose(cn_call *c)
{
  if (c->in[1]->d.ndim != 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "boundaries must be a vector, but have %d dimensions", c->in[1]->d.ndim);
  c->out[0] = cn_searchsorted(c->in[1], c->in[0], NULL, .out_int32 = cni_arg_bool(c->args, 2),
                              .right = cni_arg_bool(c->args, 3));
  return cn_err();
}

/* ---- isin(elements, test_elements, assume_unique, invert) ---- */

static int isin_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  if (cni_result_type(c, c->in, 2) == CN_DTYPE_NONE) return cn_err();
  return cn_call_result(c, 0, CN_BOOL, x->ndim, x->shape);
}

enum { FEW = 8 }; /* elements that are compared one by one */

static int isin_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *t = &c->in[1]->d;
  bool invert = cni_arg_bool(c->args, 3);
  cn_tensor *found;
  if (t->numel == 0) {
    found = cn_zeros(x->shape, (size_t)x->ndim, .dtype = CN_BOOL, .device = c->device);
  } else if (t->weak || t->numel == 1) {
    found = cn_eq(c->in[0], t->weak ? c->in[1] : cn_reshape(c->in[1], CN_SCALAR_SHAPE));
  } else if (x->ndim == 0) {
    found = cn_any(cn_eq(c->in[0], cn_reshape(c->in[1], CN_SHAPE(-1))));
  } else {
    int dtype = cni_result_type(c, c->in, 2);
    if (dtype == CN_BOOL) dtype = CN_U8;
    cn_tensor *e = cni_in_type(c->in[0], dtype), *test = cni_in_type(cn_reshape(c->in[1], CN_SHAPE(-1)), dtype);
    if (t->numel <= FEW) {
      found = cn_any(cn_eq(cn_unsqueeze(e, -1), test), .dim = CN_INTS(-1));
    } else {
      cn_sort(&test, NULL, test);
      cn_tensor *at = cn_searchsorted(test, e, NULL);
      at = cn_minimum(at, cn_int(t->numel - 1)); /* larger than all: compared with the last */
      found = cn_eq(cn_index(test, &at, 1), e);
    }
  }
  c->out[0] = invert ? cn_logical_not(found) : found;
  return cn_err();
}

/* ---- histograms ---- */

enum { EXACT_BINS = 1 << 23 }; /* float32 counts them exactly up to here */

/* Counts (or sums of weights, a vector) of each bin, where bin says which; those with keep false do not count. */
static cn_tensor *counted(cn_tensor *bin, cn_tensor *keep, cn_tensor *weight, int64_t bins, cn_dtype dtype)
{
  cn_tensor *amount = weight ? cn_where(keep, weight, cn_int(0)) : cn_cast(keep, dtype);
  cn_tensor *zeros = cn_zeros(CN_SHAPE(bins), .dtype = dtype, .device = cn_device_of(bin));
  return cn_index_add_(zeros, 0, cn_where(keep, bin, cn_int(0)), amount);
}

static int check_range(const cn_call *c, double low, double high)
{
  if (!isfinite(low) || !isfinite(high))
    return cn_call_fail(c, CN_ERR_VALUE, "the range from %g to %g is not finite", low, high);
  return low > high ? cn_call_fail(c, CN_ERR_VALUE, "the range ends at %g, before its begin %g", high, low) : CN_OK;
}

/* The ends of the bins as 0-d tensors of x's type: given, or of the data; apart by `apart` on either side where they
 * are one. */
static int find_ends(const cn_call *c, cn_tensor *x, double low, double high, bool given, double apart,
                     cn_tensor **ends)
{
  cn_full_opts o = {.size = sizeof o, .dtype = cn_dtype_of(x), .device = c->device};
  if (given || cn_numel(x) == 0) {
    int status = check_range(c, low, high);
    if (status) return status;
    if (low == high) {
      low -= apart;
      high += apart;
    }
    ends[0] = cn_full_with(CN_SCALAR_SHAPE, low, &o);
    ends[1] = cn_full_with(CN_SCALAR_SHAPE, high, &o);
    return cn_err();
  }
  cn_tensor *first = cn_amin(x), *last = cn_amax(x), *one = cn_eq(first, last);
  cn_check_within(first, -DBL_MAX, DBL_MAX, "histogram: the range of the data must be finite");
  cn_check_within(last, -DBL_MAX, DBL_MAX, "histogram: the range of the data must be finite");
  ends[0] = cn_where(one, cn_sub(first, cn_num(apart)), first);
  ends[1] = cn_where(one, cn_add(last, cn_num(apart)), last);
  return cn_err();
}

static int check_histogram(const cn_call *c, int64_t bins)
{
  const cn_desc *x = &c->in[0]->d;
  if (!cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s; cast it first",
                        cn_dtype_name((cn_dtype)x->dtype));
  if (bins < 1) return cn_call_fail(c, CN_ERR_VALUE, "bins must be positive, but are %lld", (long long)bins);
  return CN_OK;
}

/* Counts of float32 and float64 numbers: the bin of each in one pass, or `bins` where it falls into none. */
static cn_tensor *counts_of(cn_tensor *x, cn_tensor *const *ends, int64_t bins)
{
  static const char program[] = "3|@0,@1|ge 0 1;le 0 2;mul 5 6;sub 0 1;mul 8 3;sub 2 1;div 9 10;minimum 11 4;"
                                "where 7 12 3|13";
  cn_tensor *bin = NULL, *in[] = {x, ends[0], ends[1]};
  if (cn_pointwise(&bin, 1, in, 3, program, (double[]){(double)bins, (double)(bins - 1)}, 2) < 0) return NULL;
  cn_tensor *zeros = cn_zeros(CN_SHAPE(bins + 1), .dtype = CN_I64, .device = cn_device_of(x));
  zeros = cn_scatter_add_(zeros, 0, cn_cast(bin, CN_I64), cn_int(1));
  return cn_cast(cn_slice(zeros, 0, 0, bins), cn_dtype_of(x));
}

/* histc(input, bins, min, max) */
static int histc_decompose(cn_call *c)
{
  int64_t bins = cni_arg_int(c->args, 1);
  double low = cni_arg_float(c->args, 2), high = cni_arg_float(c->args, 3);
  cn_tensor *x = cn_reshape(cn_detach(c->in[0]), CN_SHAPE(-1)), *ends[2];
  int status = check_histogram(c, bins);
  if (!status) status = cn_err();
  if (!status) status = find_ends(c, x, low, high, low != high, 1, ends);
  if (status) return status;
  if (bins < EXACT_BINS && (x->d.dtype == CN_F32 || x->d.dtype == CN_F64))
    return c->out[0] = counts_of(x, ends, bins), cn_err();
  cn_tensor *keep = cn_logical_and(cn_ge(x, ends[0]), cn_le(x, ends[1]));
  cn_tensor *place = cn_true_divide(cn_mul(cn_sub(x, ends[0]), cn_int(bins)), cn_sub(ends[1], ends[0]));
  cn_tensor *bin = cn_minimum(cn_cast(cn_where(keep, place, cn_int(0)), CN_I64), cn_int(bins - 1));
  c->out[0] = counted(bin, keep, NULL, bins, cn_dtype_of(x));
  return cn_err();
}

/* The bin between even edges that each number falls into, where keep is true: computed, which may be one off, and put
 * right by a look at the edges. */
static cn_tensor *even_bin_of(cn_tensor *x, cn_tensor *edges, cn_tensor *keep, int64_t bins)
{
  cn_tensor *first = cn_select(edges, 0, 0), *last = cn_select(edges, 0, bins);
  cn_tensor *place = cn_true_divide(cn_mul(cn_sub(x, first), cn_int(bins)), cn_sub(last, first));
  cn_tensor *bin = cn_minimum(cn_cast(cn_where(keep, place, cn_int(0)), CN_I64), cn_int(bins - 1));
  bin = cn_sub(bin, cn_logical_and(cn_lt(x, cn_index(edges, &bin, 1)), cn_gt(bin, cn_int(0))));
  cn_tensor *next = cn_add(bin, cn_int(1));
  bin = cn_add(bin, cn_ge(x, cn_index(edges, &next, 1)));
  return cn_minimum(bin, cn_int(bins - 1));
}

/* Into which bin between edges each number falls; the last edge belongs to the last bin. *keep: into one at all. */
static cn_tensor *bin_of(cn_tensor *x, cn_tensor *edges, bool even, cn_tensor **keep)
{
  int64_t bins = cn_size(edges, 0) - 1;
  *keep = cn_logical_and(cn_ge(x, cn_select(edges, 0, 0)), cn_le(x, cn_select(edges, 0, bins)));
  if (even) return even_bin_of(x, edges, *keep, bins);
  cn_tensor *bin = cn_sub(cn_searchsorted(edges, x, NULL, .right = true), cn_int(1));
  return cn_where(cn_eq(x, cn_select(edges, 0, bins)), cn_int(bins - 1), bin);
}

static cn_tensor *widths(cn_tensor *edges)
{
  int64_t n = cn_size(edges, 0);
  return cn_sub(cn_slice(edges, 0, 1, n), cn_slice(edges, 0, 0, n - 1));
}

/* Of a matrix x (n, d) over d vectors of edges. weight: (n) or NULL. */
static cn_tensor *histogram_of(cn_tensor *x, cn_tensor *const *edges, int d, bool even, cn_tensor *weight, bool density)
{
  cn_tensor *place = NULL, *inside = NULL;
  int64_t shape[CN_MAX_DIMS], bins = 1;
  for (int k = 0; k < d && !cn_err(); k++) {
    cn_tensor *keep, *bin = bin_of(cn_contiguous(cn_select(x, 1, k)), edges[k], even, &keep);
    shape[k] = cn_size(edges[k], 0) - 1;
    bins *= shape[k];
    place = place ? cn_add(cn_mul(place, cn_int(shape[k])), bin) : bin;
    inside = inside ? cn_logical_and(inside, keep) : keep;
  }
  if (cn_err()) return NULL;
  cn_tensor *hist = cn_reshape(counted(place, inside, weight, bins, cn_dtype_of(x)), shape, (size_t)d);
  if (!density) return hist;
  hist = cn_true_divide(hist, cn_sum(hist));
  for (int k = 0; k < d && !cn_err(); k++) {
    cn_tensor *width = widths(edges[k]);
    for (int i = k + 1; i < d; i++) width = cn_unsqueeze(width, -1);
    hist = cn_true_divide(hist, width);
  }
  return hist;
}

static int check_weight(const cn_call *c, const cn_tensor *weight, int ndim, const int64_t *shape)
{
  if (!weight) return CN_OK;
  if (!cni_same_shape(weight->d.ndim, weight->d.shape, ndim, shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "weight must have a number for each value of input");
  if (weight->d.dtype != c->in[0]->d.dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "weight is of type %s, input of type %s; cast one with cn_cast",
                        cn_dtype_name((cn_dtype)weight->d.dtype), cn_dtype_name((cn_dtype)c->in[0]->d.dtype));
  return CN_OK;
}

/* bins + 1 numbers from one end to the other, as linspace has them. */
static cn_tensor *even_edges(cn_tensor *const *ends, int64_t bins)
{
  cn_tensor *i = cn_arange(0, (double)(bins + 1), .dtype = cn_dtype_of(ends[0]), .device = cn_device_of(ends[0]));
  cn_tensor *step = cn_true_divide(cn_sub(ends[1], ends[0]), cn_int(bins));
  cn_tensor *up = cn_add(ends[0], cn_mul(step, i)), *down = cn_sub(ends[1], cn_mul(step, cn_sub(cn_int(bins), i)));
  return cn_where(cn_lt(i, cn_int((bins + 1) / 2)), up, down);
}

static int histogram_with(cn_call *c, cn_tensor *edges, bool even, cn_tensor *weight, bool density)
{
  cn_tensor *x = cn_reshape(cn_detach(c->in[0]), CN_SHAPE(-1, 1));
  if (weight) weight = cn_reshape(cn_detach(weight), CN_SHAPE(-1));
  if (cn_err()) return cn_err();
  c->out[0] = histogram_of(x, &edges, 1, even, weight, density);
  c->out[1] = edges;
  return cn_err();
}

/* histogram(input, bins, range, weight, density) */
static int histogram_decompose(cn_call *c)
{
  int64_t bins = cni_arg_int(c->args, 1);
  const cn_value *range = &c->args[2];
  const cn_desc *x = &c->in[0]->d;
  cn_tensor *ends[2];
  bool given = range->tag == CN_V_FLOATS;
  int status = check_histogram(c, bins);
  if (!status) status = check_weight(c, c->in[1], x->ndim, x->shape);
  if (!status && given && range->n != 2) return cn_call_fail(c, CN_ERR_VALUE, "range takes two numbers");
  if (!status)
    status = find_ends(c, cn_detach(c->in[0]), given ? range->u.fs[0] : 0, given ? range->u.fs[1] : x->numel == 0,
                       given, 0.5, ends);
  return status ? status : histogram_with(c, even_edges(ends, bins), true, c->in[1], cni_arg_bool(c->args, 4));
}

/* histogram_edges(input, bins, weight, density) */
static int histogram_edges_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *edges = &c->in[1]->d;
  int status = check_histogram(c, 1);
  if (!status) status = check_weight(c, c->in[2], x->ndim, x->shape);
  if (status) return status;
  if (edges->ndim != 1 || edges->numel < 2 || edges->dtype != x->dtype)
    return cn_call_fail(c, CN_ERR_SHAPE, "bins must be a vector of at least two edges, of input's type");
  return histogram_with(c, c->in[1], false, c->in[2], cni_arg_bool(c->args, 3));
}

/* histogramdd_edges(input, bins, weight, density): input (..., d) */
static int histogramdd_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int d = c->args[1].n, status = check_histogram(c, 1);
  cn_tensor *const *edges = c->in + 1, *weight = c->in[1 + d];
  if (status) return status;
  if (x->ndim < 2 || x->shape[x->ndim - 1] != d || d > CN_MAX_DIMS)
    return cn_call_fail(c, CN_ERR_SHAPE, "input must have at least 2 dimensions, the last as large as bins is long");
  for (int k = 0; k < d; k++)
    if (edges[k]->d.ndim != 1 || edges[k]->d.numel < 2 || edges[k]->d.dtype != x->dtype)
      return cn_call_fail(c, CN_ERR_SHAPE, "bins must be vectors of at least two edges, of input's type");
  if ((status = check_weight(c, weight, x->ndim - 1, x->shape))) return status;
  cn_tensor *rows = cn_reshape(cn_detach(c->in[0]), CN_SHAPE(-1, d));
  if (weight) weight = cn_reshape(cn_detach(weight), CN_SHAPE(-1));
  c->out[0] = cn_err() ? NULL : histogram_of(rows, edges, d, false, weight, cni_arg_bool(c->args, 3));
  return cn_err();
}

/* ---- bincount(input, weights, minlength) ---- */

static int bincount_check(const cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  if (x->ndim != 1 || !cni_dtype_is_int(x->dtype) || x->dtype == CN_BOOL)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes a vector of integers that are not negative, not %d dimensions of %s",
                        x->ndim, cn_dtype_name((cn_dtype)x->dtype));
  if (c->in[1] && (c->in[1]->d.ndim != 1 || c->in[1]->d.numel != x->numel))
    return cn_call_fail(c, CN_ERR_SHAPE, "weights must be a vector of %lld elements, as input is", (long long)x->numel);
  if (cni_arg_int(c->args, 2) < 0) return cn_call_fail(c, CN_ERR_VALUE, "minlength must not be negative");
  return CN_OK;
}

/* While a graph is captured the size is one of the graph's, and each run objects to negative numbers. */
static int64_t bincount_size_captured(cn_tensor *x, int64_t least)
{
  cn_check_within(x, 0, HUGE_VAL, "bincount: input must not be negative");
  cn_tensor *last = cn_full(CN_SHAPE(1), (double)(least - 1), .dtype = CN_I64, .device = cn_device_of(x));
  return cni_size_in(cn_add(cn_amax(cn_cat(CN_TENSORS(x, last))), cn_int(1)));
}

/* Negative: the error is set. */
static int64_t bincount_size(const cn_call *c, cn_tensor *x)
{
  int64_t size = cni_arg_int(c->args, 2), least = 0, most = -1;
  if (cni_capturing_now()) return bincount_size_captured(x, size);
  if (cn_numel(x)) { /* as numbers without a sign negative ones are the largest: one pass finds either end */
    most = cn_item_int(cn_view_dtype(cn_amax(cn_view_dtype(x, CN_U64)), CN_I64));
    if (most < 0) least = cn_item_int(cn_amin(x));
  }
  if (cn_err()) return cn_err();
  if (least < 0) return cn_call_fail(c, CN_ERR_VALUE, "input has the negative number %lld", (long long)least);
  return most >= size ? most + 1 : size;
}

static int bincount_decompose(cn_call *c)
{
  int status = bincount_check(c);
  if (status) return status;
  cn_tensor *x = cni_in_type(c->in[0], CN_I64), *weights = c->in[1] ? cn_detach(c->in[1]) : NULL;
  int64_t size = bincount_size(c, x);
  if (cn_err()) return cn_err();
  cn_dtype dtype = !weights ? CN_I64 : cn_dtype_of(weights) == CN_F32 ? CN_F32 : CN_F64;
  cn_tensor *zeros = cn_zeros(CN_SHAPE(size), .dtype = dtype, .device = c->device);
  if (weights) c->out[0] = cn_index_add_(zeros, 0, x, cni_in_type(weights, (int)dtype));
  else c->out[0] = cn_scatter_add_(zeros, 0, x, cn_int(1));
  return cn_err();
}

/* clang-format off */
const cn_op cni_search_ops[] = {
  {.sig = "searchsorted(Tensor sorted_sequence, Tensor|Scalar input, *, bool out_int32=False, bool right=False, "
          "str? side=None, Tensor? sorter=None) -> Tensor",
   .doc = "Where each number of input would have to be inserted to keep the sequence in order: before its equals, or "
          "behind them with right or side 'right'. The sequence is a vector, or has one for each row of input along "
          "the last dimension; sorter: the indices that would sort it.",
   .flags = CN_OP_NO_GRAD, .infer = searchsorted_infer},
  {.sig = "bucketize(Tensor|Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
   .doc = "The bucket between sorted boundaries that each number falls into; right: boundaries belong to the bucket "
          "above them.",
   .flags = CN_OP_COMPOSITE, .decompose = bucketize_decompose},
  {.sig = "isin(Tensor|Scalar elements, Tensor|Scalar test_elements, *, bool assume_unique=False, "
          "bool invert=False) -> Tensor",
   .doc = "Is each element among test_elements? The other way round with invert. NaN is not even among NaNs.",
   .flags = CN_OP_NO_GRAD, .infer = isin_infer, .decompose = isin_decompose},
  {.sig = "histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor ; method",
   .doc = "How many elements fall into each of `bins` equal parts of the range from min to max, or of that of the data "
          "where both are equal. What lies outside does not count. Carries no gradient.",
   .flags = CN_OP_COMPOSITE, .decompose = histc_decompose},
  {.sig = "histogram(Tensor input, int bins, *, float[]? range=None, Tensor? weight=None, bool density=False) "
          "-> (Tensor hist, Tensor bin_edges) ; method",
   .doc = "How many elements (or what sum of weights) fall into each of `bins` equal parts of range, or of that of the "
          "data, and the edges between them. A bin has its left edge, the last one both. density: so that the integral "
          "is 1. Carries no gradient.",
   .flags = CN_OP_COMPOSITE, .decompose = histogram_decompose},
  {.sig = "histogram_edges(Tensor input, Tensor bins, *, Tensor? weight=None, bool density=False) "
          "-> (Tensor hist, Tensor bin_edges) ; method overload_histogram",
   .doc = "The histogram over bins whose edges are given.",
   .flags = CN_OP_COMPOSITE, .decompose = histogram_edges_decompose},
  {.sig = "histogramdd_edges(Tensor input, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
   .doc = "The histogram of points, the rows along the last dimension, over a grid whose edges are given for each "
          "coordinate.",
   .flags = CN_OP_COMPOSITE, .decompose = histogramdd_decompose},
  {.sig = "bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor ; method",
   .doc = "How often each number from 0 to the largest occurs in a vector of integers, or the sum of its weights; at "
          "least minlength of them. Weights that are not float32 add up in float64. Carries no gradient.",
   .flags = CN_OP_COMPOSITE, .decompose = bincount_decompose},
};
/* clang-format on */
CNI_FAMILY(search);
