/* index.c: the family of ops that read and write elements at positions given by one index tensor along one dim:
 * gather, scatter and its sums, index_select, index_add, index_copy, index_fill, embedding.
 *
 * Place in the flow: apply -> infer -> a backend's kernel. What takes several index tensors at once is in
 * index_advanced.c. Invariants: an index outside its dimension is an error that names it, never a wrong read; sums over
 * equal indices are added up in the order of the indices, whatever the number of threads. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "shorthand.h"
#include "sparse.h"

/* ---- what the rules share ---- */

static int check_index_type(const cn_call *c, const cn_desc *index)
{
  if (cni_dtype_is_int(index->dtype) && cni_dtype_computes(index->dtype)) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "the index must be of an integer type, not %s; cast it with cn_cast",
                      cn_dtype_name((cn_dtype)index->dtype));
}

/* A zero-dimensional tensor counts as a vector of one element. */
static int dims_of(const cn_desc *d) { return d->ndim ? d->ndim : 1; }
static int64_t size_at(const cn_desc *d, int dim) { return d->ndim ? d->shape[dim] : 1; }

static int misfit(const cn_call *c, const char *what, const cn_desc *a, const char *other, const cn_desc *b, int dim)
{
  char first[CNI_SHAPE_TEXT], second[CNI_SHAPE_TEXT];
  return cn_call_fail(c, CN_ERR_SHAPE, "%s of shape %s does not fit %s of shape %s along dimension %d", what,
                      cni_shape_text(first, sizeof first, a->ndim, a->shape), other,
                      cni_shape_text(second, sizeof second, b->ndim, b->shape), dim);
}

/* index must not be larger than `other` in any dim but `dim`. */
static int check_within(const cn_call *c, const cn_desc *index, const char *name, const cn_desc *other, int dim)
{
  if (index->numel == 0) return CN_OK;
  bool fits = dims_of(index) == dims_of(other);
  for (int i = 0; fits && i < dims_of(index); i++) fits = i == dim || size_at(index, i) <= size_at(other, i);
  return fits ? CN_OK : misfit(c, "index", index, name, other, dim);
}

static int check_same_type(const cn_call *c, const cn_desc *input, const cn_desc *src, const char *name)
{
  if (src->dtype == input->dtype || src->weak) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "%s is of type %s, input of type %s; cast one with cn_cast", name,
                      cn_dtype_name((cn_dtype)src->dtype), cn_dtype_name((cn_dtype)input->dtype));
}

/* ---- gather(input, dim, index) ---- */

static int gather_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *index = &c->in[1]->d;
  int status = check_index_type(c, index), dim = cn_call_dim(c, cni_arg_int(c->args, 1), x->ndim);
  if (status || dim < 0) return cn_err();
  if ((status = check_within(c, index, "input", x, dim))) return status;
  return cn_call_result(c, 0, x->dtype, index->ndim, index->shape);
}
static int gather_vjp(cn_vjp *v)
{
  cn_tensor *zeros = cni_zeros_of(&v->in_meta[0], cn_dtype_of(v->g[0]));
  v->gin[0] = cn_scatter_add_(zeros, cni_arg_int(v->args, 1), v->in[1], v->g[0]);
  return cn_err();
}

/* ---- scatter, scatter_add, scatter_reduce_self (input, dim, index, src) ---- */

static int scatter_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *index = &c->in[1]->d, *src = &c->in[2]->d;
  int status = check_index_type(c, index), dim = cn_call_dim(c, cni_arg_int(c->args, 1), x->ndim);
  if (status || dim < 0) return cn_err();
  if ((status = check_same_type(c, x, src, "src"))) return status;
  if ((status = check_within(c, index, "input", x, dim))) return status;
  if (!src->weak && (status = check_within(c, index, "src", src, -1))) return status;
  return cni_infer_like(c, 0, 0, x->dtype);
}

/* src may be larger than index, and what lies outside index has no part in the result: g with zeros around it. */
static cn_tensor *padded_to(cn_tensor *g, const cn_meta *m)
{
  if (g && !cn_numel(g)) return cni_zeros_of(m, cn_dtype_of(g)); /* an empty index may be larger elsewhere */
  for (int i = 0; g && i < m->ndim; i++) {
    int64_t have = cn_size(g, i), shape[CN_MAX_DIMS];
    if (have == m->shape[i]) continue;
    memcpy(shape, cn_shape(g), (size_t)m->ndim * sizeof *shape);
    shape[i] = m->shape[i] - have;
    cn_tensor *rest = cn_zeros(shape, (size_t)m->ndim, .dtype = cn_dtype_of(g), .device = m->device);
    g = cn_cat(CN_TENSORS(g, rest), .dim = cni_option(i));
  }
  return g;
}
static int scatter_vjp(cn_vjp *v)
{
  int64_t dim = cni_arg_int(v->args, 1);
  if (v->need[0]) v->gin[0] = cn_scatter(v->g[0], dim, v->in[1], cn_int(0));
  if (v->need[2]) v->gin[2] = padded_to(cn_gather(v->g[0], dim, v->in[1]), &v->in_meta[2]);
  return cn_err();
}
static int scatter_add_vjp(cn_vjp *v)
{
  if (v->need[0]) v->gin[0] = v->g[0];
  if (v->need[2])
    v->gin[2] = padded_to(cn_gather(v->g[0], cni_arg_int(v->args, 1), v->in[1]), &v->in_meta[2]);
  return cn_err();
}

enum { REDUCE = 4 }; /* parameter of scatter_reduce_self and scatter_reduce */

static int scatter_reduce_self_infer(cn_call *c)
{
  const cn_value *a = c->args;
  if (!cni_arg_is(a, REDUCE, "prod") && !cni_arg_is(a, REDUCE, "amax") && !cni_arg_is(a, REDUCE, "amin"))
    return cn_call_fail(c, CN_ERR_VALUE, "reduce must be 'prod', 'amax' or 'amin', not '%s'", cni_arg_str(a, REDUCE));
  return scatter_infer(c);
}
static cn_tensor *one_where(cn_tensor *condition, cn_tensor *x) { return cn_where(condition, cn_int(1), x); }

/* Of a product: the other factors, found by division, or by reducing once more without the factor where that is 0.
 * index and src have one shape. */
static int scatter_prod_vjp(cn_vjp *v, int64_t dim, cn_tensor *src)
{
  cn_tensor *g = v->g[0], *x = v->in[0], *index = v->in[1];
  if (v->need[0]) {
    cn_tensor *safe = one_where(cn_eq(x, cn_int(0)), x);
    v->gin[0] = cn_true_divide(cn_mul(g, cn_scatter_reduce_self(safe, dim, index, src, "prod")), safe);
  }
  if (v->need[2]) {
    cn_tensor *zero = cn_eq(src, cn_int(0)), *ones = cn_cast(zero, CN_I64);
    cn_tensor *zeros = cn_scatter_add(cn_zeros_like(x, .dtype = CN_I64), dim, index, ones);
    cn_tensor *only = cn_logical_and(zero, cn_eq(cn_gather(zeros, dim, index), cn_int(1)));
    cn_tensor *others = cn_scatter_reduce_self(x, dim, index, one_where(only, src), "prod");
    cn_tensor *divided = cn_true_divide(cn_gather(cn_mul(g, v->out[0]), dim, index), one_where(zero, src));
    v->gin[2] = padded_to(cn_where(only, cn_gather(cn_mul(g, others), dim, index), divided), &v->in_meta[2]);
  }
  return cn_err();
}

/* Of an extreme: shared between all that equal it. */
static int scatter_reduce_self_vjp(cn_vjp *v)
{
  int64_t dim = cni_arg_int(v->args, 1);
  cn_tensor *g = v->g[0], *x = v->in[0], *index = v->in[1], *src = v->in[2], *y = v->out[0];
  const cn_meta *m = &v->in_meta[1];
  if (!cn_numel(index)) { /* nothing was written */
    if (v->need[0]) v->gin[0] = g;
    return CN_OK;
  }
  for (int i = 0; src && cn_ndim(src) && i < m->ndim; i++) src = cn_slice(src, i, 0, m->shape[i]);
  if (cni_arg_is(v->args, REDUCE, "prod")) return scatter_prod_vjp(v, dim, src);
  cn_tensor *own = cn_cast(cn_eq(x, y), cn_dtype_of(g));
  cn_tensor *from_src = cn_cast(cn_eq(src, cn_gather(y, dim, index)), cn_dtype_of(g));
  cn_tensor *share = cn_true_divide(g, cn_scatter_add(own, dim, index, from_src));
  if (v->need[0]) v->gin[0] = cn_mul(own, share);
  if (v->need[2]) v->gin[2] = padded_to(cn_mul(from_src, cn_gather(share, dim, index)), &v->in_meta[2]);
  return cn_err();
}

/* The number that changes no product (0) or extreme, of an input of this type. */
static cn_tensor *neutral(const cn_value *reduce, int dtype)
{
  bool high = !strcmp(reduce->u.s, "amin");
  if (!strcmp(reduce->u.s, "prod")) return cn_int(1);
  if (cni_dtype_is_float(dtype)) return cn_num(high ? (double)__builtin_inff() : -(double)__builtin_inff());
  if (!cn_dtype_is_signed((cn_dtype)dtype)) return cn_int(high ? -1 : 0); /* -1 wraps to the largest */
  int64_t lowest = -((int64_t)1 << (8 * cni_dtype_size(dtype) - 1));
  return cn_int(high ? -(lowest + 1) : lowest);
}

/* scatter_reduce(input, dim, index, src, reduce, include_self) */
static int scatter_reduce_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *index = c->in[1], *src = c->in[2];
  int64_t dim = cni_arg_int(c->args, 1);
  bool mean = cni_arg_is(c->args, REDUCE, "mean"), sum = mean || cni_arg_is(c->args, REDUCE, "sum");
  bool own = cni_arg_bool(c->args, 5);
  if (!sum && cni_dtype_is_complex(x->d.dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes real numbers");
  if (!sum) {
    if (!own && c->args[REDUCE].tag == CN_V_STR) x = cn_scatter(x, dim, index, neutral(&c->args[REDUCE], x->d.dtype));
    c->out[0] = cn_scatter_reduce_self(x, dim, index, src, cni_arg_str(c->args, REDUCE));
    return cn_err();
  }
  cn_tensor *total = cn_scatter_add(own ? x : cn_scatter(x, dim, index, cn_int(0)), dim, index, src);
  if (mean && total) {
    cn_tensor *count = own ? cn_ones_like(x) : cn_scatter(cn_ones_like(x), dim, index, cn_int(0));
    count = cn_scatter_add(count, dim, index, cn_int(1));
    total = cni_dtype_is_float(x->d.dtype) ? cn_true_divide(total, count) : cn_floor_divide(total, count);
  }
  c->out[0] = total;
  return cn_err();
}

/* ---- ops with a vector of indices along one dim ---- */

/* index: a vector or a single number; returns its length. */
static int64_t index_length(const cn_call *c, const cn_desc *index)
{
  if (check_index_type(c, index)) return cn_err();
  if (index->ndim > 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "the index must be a vector, but has %d dimensions", index->ndim);
  return index->numel;
}

/* index_select(input, dim, index) */
static int index_select_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t n = index_length(c, &c->in[1]->d), shape[CN_MAX_DIMS];
  int dim = n < 0 ? (int)n : cn_call_dim(c, cni_arg_int(c->args, 1), x->ndim);
  if (dim < 0) return dim;
  if (x->ndim == 0 && n != 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes one index of a zero-dimensional tensor, not %lld", (long long)n);
  memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
  if (x->ndim) shape[dim] = n;
  return cn_call_result(c, 0, x->dtype, x->ndim, shape);
}
static int index_select_vjp(cn_vjp *v)
{
  cn_tensor *zeros = cni_zeros_of(&v->in_meta[0], cn_dtype_of(v->g[0]));
  v->gin[0] = cn_index_add_(zeros, cni_arg_int(v->args, 1), v->in[1], v->g[0]);
  return cn_err();
}

/* index_add(input, dim, index, source, alpha) and index_copy(input, dim, index, source) */
static int index_write_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *src = &c->in[2]->d;
  int64_t n = index_length(c, &c->in[1]->d);
  int dim = n < 0 ? (int)n : cn_call_dim(c, cni_arg_int(c->args, 1), x->ndim), status;
  if (dim < 0) return dim;
  if ((status = check_same_type(c, x, src, "source"))) return status;
  bool fits = dims_of(src) == dims_of(x);
  for (int i = 0; fits && i < dims_of(x); i++) fits = size_at(src, i) == (i == dim ? n : size_at(x, i));
  if (!fits) return misfit(c, "source", src, "input", x, dim);
  return cni_infer_like(c, 0, 0, x->dtype);
}
static cn_tensor *selected(cn_vjp *v)
{
  cn_tensor *g = cn_index_select(v->g[0], cni_arg_int(v->args, 1), v->in[1]);
  return cn_reshape(g, v->in_meta[2].shape, (size_t)v->in_meta[2].ndim); /* 0-d and (1,) go for each other */
}
static int index_add_vjp(cn_vjp *v)
{
  double alpha = cni_arg_float(v->args, 4);
  if (v->need[0]) v->gin[0] = v->g[0];
  if (v->need[2]) {
    v->gin[2] = selected(v);
    if (alpha != 1) v->gin[2] = cn_mul(v->gin[2], cn_num(alpha));
  }
  return cn_err();
}
static int index_copy_vjp(cn_vjp *v)
{
  if (v->need[0]) v->gin[0] = cn_index_fill(v->g[0], cni_arg_int(v->args, 1), v->in[1], cn_int(0));
  if (v->need[2]) v->gin[2] = selected(v);
  return cn_err();
}

/* index_fill(input, dim, index, value) */
static int index_fill_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *value = &c->in[2]->d;
  int64_t n = index_length(c, &c->in[1]->d);
  int dim = n < 0 ? (int)n : cn_call_dim(c, cni_arg_int(c->args, 1), x->ndim);
  if (dim < 0) return dim;
  if (value->ndim) return cn_call_fail(c, CN_ERR_SHAPE, "value must be a number or a zero-dimensional tensor");
  if (cni_dtype_is_float(value->dtype) && !cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "a value of type %s does not fit input of type %s",
                        cn_dtype_name((cn_dtype)value->dtype), cn_dtype_name((cn_dtype)x->dtype));
  return cni_infer_like(c, 0, 0, x->dtype);
}
static int index_fill_vjp(cn_vjp *v)
{
  cn_tensor *rest = cn_index_fill(v->g[0], cni_arg_int(v->args, 1), v->in[1], cn_int(0));
  if (v->need[0]) v->gin[0] = rest;
  if (v->need[2]) v->gin[2] = cn_sum(cn_sub(v->g[0], rest)); /* an index that occurs twice counts once */
  return cn_err();
}

/* ---- embedding(input, weight, padding_idx) ---- */

static int64_t padding_row(const cn_value *v, int64_t rows)
{
  return v->tag == CN_V_NONE ? -1 : v->u.i < 0 ? v->u.i + rows : v->u.i;
}

static int embedding_infer(cn_call *c)
{
  const cn_desc *index = &c->in[0]->d, *weight = &c->in[1]->d;
  int64_t shape[CN_MAX_DIMS];
  int status = check_index_type(c, index);
  if (status) return status;
  if (weight->ndim != 2) return cn_call_fail(c, CN_ERR_SHAPE, "weight must have 2 dimensions, not %d", weight->ndim);
  if (index->ndim == CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  if (!cni_arg_none(c->args, 2)) {
    int64_t row = padding_row(&c->args[2], weight->shape[0]);
    if (row < 0 || row >= weight->shape[0])
      return cn_call_fail(c, CN_ERR_INDEX, "padding_idx %lld is out of range for %lld rows",
                          (long long)c->args[2].u.i, (long long)weight->shape[0]);
  }
  memcpy(shape, index->shape, (size_t)index->ndim * sizeof *shape);
  shape[index->ndim] = weight->shape[1];
  return cn_call_result(c, 0, weight->dtype, index->ndim + 1, shape);
}
static int embedding_vjp(cn_vjp *v)
{
  int64_t rows = v->in_meta[1].shape[0], padding = padding_row(&v->args[2], rows);
  v->gin[1] = cn_embedding_grad(v->g[0], v->in[0], rows, padding < 0 ? CN_NONE : padding);
  return cn_err();
}

/* ---- embedding whose weight gets a sparse gradient: the rows that were named ---- */

static int embedding_rows_decompose(cn_call *c)
{
  c->out[0] = cn_embedding(c->in[0], c->in[1], cni_arg_int_or(c->args, 2, CN_NONE));
  return cn_err();
}
static int embedding_rows_vjp(cn_vjp *v)
{
  const cn_meta *w = &v->in_meta[1];
  int64_t padding = padding_row(&v->args[2], w->shape[0]);
  cn_tensor *index = v->in[0], *flat = cn_reshape(index, CN_SHAPE(cn_numel(index)));
  v->gin[1] = cni_sparse_rows(cn_reshape(v->g[0], CN_SHAPE(cn_numel(index), w->shape[1])), flat, padding, w);
  return cn_err();
}

/* In graphs gradients are dense. */
static int embedding_sparse_decompose(cn_call *c)
{
  int64_t padding = cni_arg_int_or(c->args, 2, CN_NONE);
  c->out[0] = cni_capturing_now() ? cn_embedding(c->in[0], c->in[1], padding)
                                  : cn_embedding_rows(c->in[0], c->in[1], padding);
  return cn_err();
}

/* embedding_grad(grad, input, num_weights, padding_idx) */
static int embedding_grad_infer(cn_call *c)
{
  const cn_desc *g = &c->in[0]->d, *index = &c->in[1]->d;
  int status = check_index_type(c, index);
  if (status) return status;
  bool fits = g->ndim == index->ndim + 1;
  for (int i = 0; fits && i < index->ndim; i++) fits = g->shape[i] == index->shape[i];
  if (!fits) return misfit(c, "grad", g, "indices", index, index->ndim);
  int64_t shape[2] = {cni_arg_int(c->args, 2), g->shape[index->ndim]};
  return cn_call_result(c, 0, g->dtype, 2, shape);
}
static int embedding_grad_vjp(cn_vjp *v)
{
  cn_tensor *g = cn_embedding(v->in[1], v->g[0], CN_NONE);
  if (!cni_arg_none(v->args, 3))
    g = cn_where(cn_unsqueeze(cn_eq(v->in[1], cn_int(cni_arg_int(v->args, 3))), -1), cn_int(0), g);
  v->gin[0] = g;
  return cn_err();
}

/* ---- made of the above ---- */

/* one_hot(input, num_classes): -1 asks the data for its largest class. */
static int one_hot_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t classes = cni_arg_int(c->args, 1), shape[CN_MAX_DIMS];
  int status = check_index_type(c, x);
  if (status) return status;
  if (x->ndim == CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  if (classes < -1 || classes == 0 || (classes == -1 && x->numel == 0))
    return cn_call_fail(c, CN_ERR_VALUE, "num_classes must be positive, but is %lld", (long long)classes);
  if (classes == -1) classes = cni_size_in(cn_add(cn_amax(cn_cast(c->in[0], CN_I64)), cn_int(1)));
  if (cn_err()) return cn_err();
  memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
  shape[x->ndim] = classes < 1 ? 1 : classes;
  cn_tensor *zeros = cn_zeros(shape, (size_t)x->ndim + 1, .dtype = CN_I64, .device = x->device);
  c->out[0] = cn_scatter_(zeros, -1, cn_unsqueeze(c->in[0], -1), cn_int(1));
  return cn_err();
}

/* Negative indices count from the end. */
static cn_tensor *from_the_start(cn_tensor *index, int64_t size)
{
  return cn_where(cn_lt(index, cn_int(0)), cn_add(index, cn_int(size)), index);
}

/* take_along_dim(input, indices, dim): sizes outside dim broadcast. */
static int take_along_dim_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *index = c->in[1];
  if (cni_arg_none(c->args, 2)) {
    index = from_the_start(cn_reshape(index, CN_SHAPE(-1)), x->d.numel);
    c->out[0] = cn_gather(cn_reshape(x, CN_SHAPE(-1)), 0, index);
    return cn_err();
  }
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), x->d.ndim), ndim = x->d.ndim;
  int64_t both[CN_MAX_DIMS], own[CN_MAX_DIMS];
  if (dim < 0) return dim;
  if (x->d.ndim != index->d.ndim)
    return cn_call_fail(c, CN_ERR_SHAPE, "indices have %d dimensions, input %d", index->d.ndim, x->d.ndim);
  if (ndim == 0) {
    c->out[0] = cn_gather(x, 0, index);
    return cn_err();
  }
  memcpy(both, x->d.shape, (size_t)ndim * sizeof *both);
  memcpy(own, index->d.shape, (size_t)ndim * sizeof *own);
  both[dim] = own[dim] = 1;
  if (!cni_broadcast(&ndim, both, ndim, own)) return misfit(c, "indices", &index->d, "input", &x->d, dim);
  both[dim] = index->d.shape[dim];
  index = from_the_start(cn_expand(index, both, (size_t)ndim), x->d.shape[dim]);
  both[dim] = x->d.shape[dim];
  c->out[0] = cn_gather(cn_expand(x, both, (size_t)ndim), dim, index);
  return cn_err();
}

/* clang-format off */
const cn_op cni_index_ops[] = {
  {.sig = "gather(Tensor input, int dim, Tensor index) -> Tensor ; method complex",
   .doc = "Elements of input at index along dim; the result has index's shape.",
   .cost = cni_cost_gather, .infer = gather_infer, .vjp = gather_vjp, .needs = {[0] = CN_IN(1)}},
  {.sig = "scatter(Tensor input, int dim, Tensor index, Tensor src) -> Tensor ; method inplace complex_parts",
   .doc = "input with src (a tensor, or a number) written at index along dim. Of equal indices the last one wins.",
   .flags = CN_OP_ALIAS_SAFE, .infer = scatter_infer, .vjp = scatter_vjp, .needs = {[0] = CN_IN(1), [2] = CN_IN(1)}},
  {.sig = "scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor ; method inplace amp_wide_device "
          "complex_parts",
   .doc = "input with src added at index along dim; equal indices add up, in order.",
   .flags = CN_OP_ALIAS_SAFE, .infer = scatter_infer, .vjp = scatter_add_vjp, .needs = {[2] = CN_IN(1)}},
  {.sig = "scatter_reduce_self(Tensor input, int dim, Tensor index, Tensor src, str reduce) -> Tensor ; internal",
   .doc = "input with src multiplied in ('prod'), or the larger ('amax') or smaller ('amin') kept, at index along "
          "dim. What scatter_reduce runs for these.",
   .flags = CN_OP_ALIAS_SAFE, .infer = scatter_reduce_self_infer, .vjp = scatter_reduce_self_vjp,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_IN(2) | CN_OUT(0), [2] = CN_IN(0) | CN_IN(1) | CN_IN(2) | CN_OUT(0)}},
  {.sig = "scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, bool include_self=True) "
          "-> Tensor ; method inplace",
   .doc = "src reduced into input at index along dim by reduce: 'sum', 'prod', 'mean', 'amax' or 'amin'. Without "
          "include_self, input's own values there do not count.",
   .flags = CN_OP_COMPOSITE, .decompose = scatter_reduce_decompose},
  {.sig = "index_select(Tensor input, int dim, Tensor index) -> Tensor ; method complex",
   .doc = "The slices of input along dim that the vector index lists.",
   .cost = cni_cost_gather, .infer = index_select_infer, .vjp = index_select_vjp, .needs = {[0] = CN_IN(1)}},
  {.sig = "index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) "
          "-> Tensor ; method inplace complex_parts",
   .doc = "input with alpha times the slices of source added at index along dim; equal indices add up, in order.",
   .flags = CN_OP_ALIAS_SAFE, .infer = index_write_infer, .vjp = index_add_vjp, .needs = {[2] = CN_IN(1)}},
  {.sig = "index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor ; method inplace amp_wide_host "
          "complex_parts",
   .doc = "input with its slices at index along dim replaced by those of source. Of equal indices the last one wins.",
   .flags = CN_OP_ALIAS_SAFE, .infer = index_write_infer, .vjp = index_copy_vjp,
   .needs = {[0] = CN_IN(1), [2] = CN_IN(1)}},
  {.sig = "index_fill(Tensor input, int dim, Tensor index, Tensor|Scalar value) -> Tensor ; method inplace "
          "complex_parts",
   .doc = "input with its slices at index along dim set to value.",
   .flags = CN_OP_ALIAS_SAFE, .infer = index_fill_infer, .vjp = index_fill_vjp,
   .needs = {[0] = CN_IN(1), [2] = CN_IN(1)}},
  {.sig = "embedding(Tensor input, Tensor weight, int? padding_idx=None) -> Tensor ; nn",
   .doc = "The rows of weight that the integers of input name, in input's shape. The row padding_idx gets no "
          "gradient.",
   .cost = cni_cost_embedding, .infer = embedding_infer, .vjp = embedding_vjp, .needs = {[1] = CN_IN(0)}},
  {.sig = "embedding_sparse(Tensor input, Tensor weight, int? padding_idx=None) -> Tensor ; internal "
          "grad_fn_EmbeddingBackward0",
   .doc = "embedding whose weight gets a sparse gradient, of the rows that were named; in graphs a dense one.",
   .flags = CN_OP_COMPOSITE, .decompose = embedding_sparse_decompose},
  {.sig = "embedding_rows(Tensor input, Tensor weight, int? padding_idx=None) -> Tensor ; internal "
          "grad_fn_EmbeddingBackward0",
   .doc = "embedding with a sparse gradient, always.",
   .infer = embedding_infer, .vjp = embedding_rows_vjp, .decompose = embedding_rows_decompose,
   .needs = {[1] = CN_IN(0)}},
  {.sig = "embedding_grad(Tensor grad, Tensor input, int num_weights, int? padding_idx=None) -> Tensor ; internal",
   .doc = "The gradient of embedding with respect to weight: rows of grad added up where input names them.",
   .infer = embedding_grad_infer, .vjp = embedding_grad_vjp, .needs = {[0] = CN_IN(1)}},
  {.sig = "one_hot(Tensor input, int num_classes=-1) -> Tensor ; nn",
   .doc = "For each integer a row of num_classes zeros with a 1 at its place, as int64. -1: as many classes as the "
          "largest integer needs.",
   .flags = CN_OP_COMPOSITE, .decompose = one_hot_decompose},
  {.sig = "take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor ; method complex",
   .doc = "gather whose other sizes broadcast; without dim, from the flattened tensor.",
   .flags = CN_OP_COMPOSITE, .decompose = take_along_dim_decompose},
};
/* clang-format on */
CNI_FAMILY(index);
