/* index_composite.c: the family of ops that read and write at indices and are composites of those in index.c and
 * index_advanced.c: take, put, index_reduce, masked_scatter, fill_diagonal, nonzero_static, and the forms of scatter
 * that take a number or a reduction.
 *
 * Place in the flow: composites above apply. Invariant: as there, of equal indices the last one wins and sums are in
 * the order of the indices. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/ops.h>

#include "cost.h"
#include "families.h"
#include "shorthand.h"

static int check_numbers(const cn_call *c, const cn_tensor *index)
{
  if (index->d.dtype == CN_I64) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "the index must be int64, not %s; cast it with cn_cast",
                      cn_dtype_name((cn_dtype)index->d.dtype));
}

static cn_tensor *like_first(cn_tensor *flat, const cn_call *c)
{
  return cn_reshape(flat, c->in[0]->d.shape, (size_t)c->in[0]->d.ndim);
}

/* take(input, index) */
static int take_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *index = &c->in[1]->d;
  int status = check_numbers(c, c->in[1]);
  if (status) return status;
  if (x->numel == 0 && index->numel) return cn_call_fail(c, CN_ERR_INDEX, "cannot take from no elements");
  return cn_call_result(c, 0, x->dtype, index->ndim, index->shape);
}

static int take_decompose(cn_call *c)
{
  c->out[0] = cn_index(cn_reshape(c->in[0], CN_SHAPE(-1)), &c->in[1], 1);
  return cn_err();
}

static int take_vjp(cn_vjp *v)
{
  v->gin[0] = cn_put(cni_zeros_of(&v->in_meta[0], cn_dtype_of(v->g[0])), v->in[1], v->g[0], .accumulate = true);
  return cn_err();
}

/* put(input, index, source, accumulate) */
static int put_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *index = c->in[1], *source = c->in[2];
  int status = check_numbers(c, index);
  if (status) return status;
  if (index->d.numel != source->d.numel)
    return cn_call_fail(c, CN_ERR_SHAPE, "there are %lld indices, but source has %lld elements",
                        (long long)index->d.numel, (long long)source->d.numel);
  if (x->d.dtype != source->d.dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "source is of type %s, input of type %s; cast one with cn_cast",
                        cn_dtype_name((cn_dtype)source->d.dtype), cn_dtype_name((cn_dtype)x->d.dtype));
  if (x->d.numel == 0 && index->d.numel) return cn_call_fail(c, CN_ERR_INDEX, "input has no elements to write to");
  index = cn_reshape(index, CN_SHAPE(-1));
  cn_tensor *flat = cn_index_put(cn_reshape(x, CN_SHAPE(-1)), &index, 1, cn_reshape(source, CN_SHAPE(-1)),
                                 .accumulate = cni_arg_bool(c->args, 3));
  c->out[0] = like_first(flat, c);
  return cn_err();
}

/* index_reduce(input, dim, index, source, reduce, include_self) */
static int index_reduce_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *index = c->in[1], *source = c->in[2];
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), x->d.ndim);
  const char *reduce = cni_arg_str(c->args, 4);
  if (dim < 0) return dim;
  if (strcmp(reduce, "prod") && strcmp(reduce, "mean") && strcmp(reduce, "amax") && strcmp(reduce, "amin"))
    return cn_call_fail(c, CN_ERR_VALUE, "reduce must be 'prod', 'mean', 'amax' or 'amin', not '%s'", reduce);
  if (index->d.ndim > 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "the index must be a vector, but has %d dimensions", index->d.ndim);
  if (x->d.ndim == 0) x = cn_reshape(x, CN_SHAPE(1));
  if (source->d.ndim == 0) source = cn_reshape(source, CN_SHAPE(1));
  if (cn_err()) return cn_err();
  bool fits = x->d.ndim == source->d.ndim && source->d.shape[dim] == index->d.numel;
  for (int i = 0; fits && i < x->d.ndim; i++) fits = i == dim || x->d.shape[i] == source->d.shape[i];
  if (!fits)
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "source must have input's shape but for dimension %d, where it has one slice "
                        "for each of %lld indices",
                        dim, (long long)index->d.numel);
  int64_t along[CN_MAX_DIMS];
  for (int i = 0; i < x->d.ndim; i++) along[i] = i == dim ? index->d.numel : 1;
  index = cn_expand(cn_reshape(index, along, (size_t)x->d.ndim), source->d.shape, (size_t)x->d.ndim);
  cn_tensor *y = cn_scatter_reduce(x, dim, index, source, reduce, .no_include_self = !cni_arg_bool(c->args, 5));
  c->out[0] = like_first(y, c);
  return cn_err();
}

/* masked_scatter(input, mask, source): the k-th place where mask is true gets source's k-th element. */
static int masked_scatter_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *mask = c->in[1], *source = c->in[2];
  int64_t shape[CN_MAX_DIMS];
  int ndim, status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape);
  if (status) return status;
  if (mask->d.dtype != CN_BOOL)
    return cn_call_fail(c, CN_ERR_DTYPE, "the mask must be bool, not %s; compare or cast it",
                        cn_dtype_name((cn_dtype)mask->d.dtype));
  if (source->d.dtype != x->d.dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "source is of type %s, input of type %s; cast one with cn_cast",
                        cn_dtype_name((cn_dtype)source->d.dtype), cn_dtype_name((cn_dtype)x->d.dtype));
  x = cn_expand(x, shape, (size_t)ndim);
  mask = cn_expand(mask, shape, (size_t)ndim);
  cn_tensor *rank = cn_cumsum(cn_reshape(mask, CN_SHAPE(-1)), 0), *from = cn_reshape(source, CN_SHAPE(-1));
  if (cn_err()) return cn_err();
  if (cn_numel(rank) || cni_tracing_sizes()) /* the last counts them all, if there is one */
    cn_check_within(cni_tracing_sizes() ? cn_sum(mask) : cn_select(rank, 0, -1), 0, (double)source->d.numel,
                    "masked_scatter: mask must not be true at more places than source has elements");
  if (cni_tracing_sizes()) { /* one element more, so that it need not be known whether there are any */
    cn_tensor *none = cn_zeros(CN_SHAPE(1), .dtype = cn_dtype_of(x), .device = c->device);
    from = cn_cat(CN_TENSORS(from, none));
    rank = cn_sub(rank, cn_int(1));
  } else if (source->d.numel == 0) from = cn_zeros(CN_SHAPE(1), .dtype = cn_dtype_of(x), .device = c->device);
  else rank = cn_sub(rank, cn_int(1)); /* of an empty source only place 0 exists, for what is not written */
  rank = cn_where(mask, cn_reshape(rank, shape, (size_t)ndim), cn_int(0));
  c->out[0] = cn_where(mask, cn_index(from, &rank, 1), x);
  return cn_err();
}

/* ---- the diagonal, and indices of what is not zero ---- */

/* fill_diagonal(input, fill_value, wrap): every (sum of strides)-th place; of a tall matrix the first square's only,
 * unless wrap says to go on below. */
static int fill_diagonal_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t step = 0, run = 1, end = d->numel;
  if (d->ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes a tensor of 2 or more dimensions, not %d", d->ndim);
  for (int i = d->ndim - 1; i >= 0; run *= d->shape[i--]) {
    step += run;
    if (d->ndim > 2 && d->shape[i] != d->shape[0])
      return cn_call_fail(c, CN_ERR_SHAPE, "all dimensions must be of one size when there are more than 2");
  }
  if (d->ndim == 2 && !cni_arg_bool(c->args, 2) && d->shape[0] > d->shape[1]) end = d->shape[1] * d->shape[1];
  cn_tensor *place = cn_arange(0, (double)d->numel, .dtype = CN_I64, .device = c->device);
  cn_tensor *mask = cn_eq(cn_remainder(place, cn_int(step)), cn_int(0));
  if (end < d->numel) mask = cn_logical_and(mask, cn_lt(place, cn_int(end)));
  c->out[0] = cn_masked_fill(c->in[0], cn_reshape(mask, d->shape, (size_t)d->ndim), cni_number(&c->args[1]));
  return cn_err();
}

/* nonzero_static(input, size, fill_value): exactly size rows, the rest filled; no value is read. */
static int nonzero_static_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t size = cni_arg_int(c->args, 1), inner = 1;
  if (size < 0) return cn_call_fail(c, CN_ERR_VALUE, "size must not be negative, but is %lld", (long long)size);
  cn_tensor *mask = cn_reshape(cn_ne(c->in[0], cn_int(0)), CN_SHAPE(d->numel)), *column[CN_MAX_DIMS];
  cn_tensor *rank = cn_sub(cn_cumsum(mask, 0), cn_int(1));
  rank = cn_where(cn_logical_and(mask, cn_lt(rank, cn_int(size))), rank, cn_int(size)); /* size: nowhere */
  cn_tensor *place = cn_arange(0, (double)d->numel, .dtype = CN_I64, .device = c->device);
  cn_tensor *none = cn_full(CN_SHAPE(size + 1), -1, .dtype = CN_I64, .device = c->device);
  cn_tensor *flat = cn_narrow(cn_scatter(none, 0, rank, place), 0, 0, size), *empty = cn_lt(flat, cn_int(0));
  for (int i = d->ndim - 1; i >= 0; inner *= d->shape[i--]) {
    column[i] = d->numel ? cn_remainder(cn_floor_divide(flat, cn_int(inner)), cn_int(d->shape[i])) : flat;
    column[i] = cn_masked_fill(column[i], empty, cni_number(&c->args[2]));
  }
  c->out[0] = d->ndim ? cn_stack(column, (size_t)d->ndim, .dim = 1)
                      : cn_empty(CN_SHAPE(size, 0), .dtype = CN_I64, .device = c->device);
  return cn_err();
}

/* ---- forms of scatter ---- */

/* scatter_value(input, dim, index, value) */
static int scatter_value_decompose(cn_call *c)
{
  c->out[0] = cn_scatter(c->in[0], cni_arg_int(c->args, 1), c->in[1], cni_number(&c->args[3]));
  return cn_err();
}

static int scatter_with(cn_call *c, cn_tensor *src)
{
  const char *reduce = cni_arg_str(c->args, 4);
  bool add = !strcmp(reduce, "add");
  if (!add && strcmp(reduce, "multiply"))
    return cn_call_fail(c, CN_ERR_VALUE, "reduce must be 'add' or 'multiply', not '%s'", reduce);
  int64_t dim = cni_arg_int(c->args, 1);
  c->out[0] = add ? cn_scatter_add(c->in[0], dim, c->in[1], src)
                  : cn_scatter_reduce_self(c->in[0], dim, c->in[1], src, "prod");
  return cn_err();
}
static int scatter_reduced_decompose(cn_call *c) { return scatter_with(c, c->in[2]); }
static int scatter_value_reduced_decompose(cn_call *c) { return scatter_with(c, cni_number(&c->args[3])); }

/* clang-format off */
const cn_op cni_index_composite_ops[] = {
  {.sig = "fill_diagonal(Tensor input, Scalar fill_value, bool wrap=False) -> Tensor ; method inplace complex",
   .doc = "input with a number on its main diagonal; with wrap, of a tall matrix, on those of the squares below too.",
   .flags = CN_OP_COMPOSITE, .decompose = fill_diagonal_decompose},
  {.sig = "nonzero_static(Tensor input, *, int size, int fill_value=-1) -> Tensor ; method complex",
   .doc = "The first size positions of elements that are not zero, one row each; the rows left over hold fill_value.",
   .flags = CN_OP_COMPOSITE, .decompose = nonzero_static_decompose},
  {.sig = "take(Tensor input, Tensor index) -> Tensor ; method complex",
   .doc = "The elements of the flattened input at these indices; negative ones count from the end. Of index's shape.",
   .cost = cni_cost_gather,
   .infer = take_infer, .vjp = take_vjp, .decompose = take_decompose, .needs = {[0] = CN_IN(1)}},
  {.sig = "put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor ; method inplace "
          "complex_parts",
   .doc = "input with source's elements written (or added) at these indices of it, flattened; negative ones count from "
          "the end.",
   .flags = CN_OP_COMPOSITE, .decompose = put_decompose},
  {.sig = "index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) "
          "-> Tensor ; method inplace",
   .doc = "The slices of source reduced into input at index along dim by reduce: 'prod', 'mean', 'amax' or 'amin'. "
          "Without include_self, input's own values there do not count.",
   .flags = CN_OP_COMPOSITE, .decompose = index_reduce_decompose},
  {.sig = "masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor ; method inplace grad_fn complex_parts",
   .doc = "input with source's elements, one after the other, where mask is true; input and mask broadcast.",
   .flags = CN_OP_COMPOSITE, .decompose = masked_scatter_decompose},
  {.sig = "scatter_value(Tensor input, int dim, Tensor index, Scalar value) "
          "-> Tensor ; method inplace overload_scatter",
   .doc = "input with a number written at index along dim.",
   .flags = CN_OP_COMPOSITE, .decompose = scatter_value_decompose},
  {.sig = "scatter_reduced(Tensor input, int dim, Tensor index, Tensor src, *, str reduce) "
          "-> Tensor ; method inplace overload_scatter complex",
   .doc = "input with src added ('add') or multiplied in ('multiply') at index along dim.",
   .flags = CN_OP_COMPOSITE, .decompose = scatter_reduced_decompose},
  {.sig = "scatter_value_reduced(Tensor input, int dim, Tensor index, Scalar value, *, str reduce) "
          "-> Tensor ; method inplace overload_scatter complex",
   .doc = "input with a number added ('add') or multiplied in ('multiply') at index along dim.",
   .flags = CN_OP_COMPOSITE, .decompose = scatter_value_reduced_decompose},
};
/* clang-format on */
CNI_FAMILY(index_composite);
