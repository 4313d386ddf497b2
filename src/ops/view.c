/* view.c: the family of views: results that share their input's memory. A row is infer (shape, strides, offset), a
 * gradient, and `scatter`, its inverse: the base after the viewed part became something else.
 *
 * Place in the flow: apply makes the handle and its record; no backend has a kernel for a view. Invariant: a view's
 * strides and offset address only memory that its input addresses. */
#include <cairn/ext/parts.h>
#include <cairn/ops.h>

#include "families.h"
#include "hot.h"
#include "infer.h"

/* ---- view, reshape: the same elements under another shape ---- */

/* Fills in a single -1 and checks the number of elements. */
static int resolve_shape(const cn_call *c, const cn_value *size, int64_t numel, int64_t *shape)
{
  int unknown = -1;
  int64_t known = 1;
  char text[CNI_SHAPE_TEXT];
  if (size->n > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "%d dimensions are too many", size->n);
  for (int i = 0; i < size->n; i++) {
    shape[i] = size->u.is[i];
    if (shape[i] == -1) {
      if (unknown >= 0) return cn_call_fail(c, CN_ERR_SHAPE, "only one size can be -1");
      unknown = i;
    } else if (shape[i] < 0) {
      return cn_call_fail(c, CN_ERR_SHAPE, "size %lld is negative", (long long)shape[i]);
    } else if (__builtin_mul_overflow(known, shape[i], &known)) {
      return cn_call_fail(c, CN_ERR_SHAPE, "the shape is too large");
    }
  }
  if (unknown >= 0) {
    if (known == 0) return cn_call_fail(c, CN_ERR_SHAPE, "-1 is ambiguous for an empty tensor");
    shape[unknown] = numel / known;
    known *= shape[unknown];
  }
  if (known != numel)
    return cn_call_fail(c, CN_ERR_SHAPE, "shape %s does not fit %lld elements",
                        cni_shape_text(text, sizeof text, size->n, size->u.is), (long long)numel);
  return CN_OK;
}

static int view_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  int status = resolve_shape(c, &c->args[1], d->numel, shape);
  if (status) return status;
  if (!cni_view_strides(d->ndim, d->shape, d->strides, c->args[1].n, shape, strides))
    return cn_call_fail(c, CN_ERR_SHAPE, "this shape cannot be had without a copy; use cn_reshape");
  return cn_call_view(c, 0, 0, c->args[1].n, shape, strides, 0);
}

static int back_to_shape_vjp(cn_vjp *v)
{
  v->gin[0] = cn_reshape(v->g[0], v->in_meta[0].shape, (size_t)v->in_meta[0].ndim);
  return cn_err();
}

static cn_tensor *reshaped_scatter(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  (void)c;
  return cn_reshape(src, cn_shape(base), (size_t)cn_ndim(base));
}

/* In a graph: a view where memory order permits at the sizes that are inferred for, a copy elsewhere. */
static int reshape_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  int n = c->args[1].n, status = resolve_shape(c, &c->args[1], d->numel, shape);
  if (status) return status;
  if (!cni_view_strides(d->ndim, d->shape, d->strides, n, shape, strides))
    return cn_call_result(c, 0, d->dtype, n, shape);
  return cn_call_view(c, 0, 0, n, shape, strides, 0);
}

static int reshape_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  int status = resolve_shape(c, &c->args[1], d->numel, shape);
  if (status) return status;
  bool fits = cni_view_strides(d->ndim, d->shape, d->strides, c->args[1].n, shape, strides);
  cn_tensor *x = fits ? c->in[0] : cn_contiguous_copy(c->in[0]);
  c->out[0] = cn_view(x, c->args[1].u.is, (size_t)c->args[1].n);
  return cn_err();
}

/* flatten(input, start_dim, end_dim) */
static int flatten_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS + 1], size = 1;
  int n = 0, first = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim);
  int last = cn_call_dim(c, cni_arg_int(c->args, 2), d->ndim);
  if (first < 0 || last < 0) return cn_err();
  if (first > last) return cn_call_fail(c, CN_ERR_VALUE, "start_dim must not come after end_dim");
  for (int i = 0; i < first; i++) shape[n++] = d->shape[i];
  for (int i = first; i <= last && i < d->ndim; i++) size *= d->shape[i];
  shape[n++] = size;
  for (int i = last + 1; i < d->ndim; i++) shape[n++] = d->shape[i];
  c->out[0] = cn_reshape(c->in[0], shape, (size_t)n);
  return cn_err();
}

/* unflatten(input, dim, sizes) */
static int unflatten_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  const cn_value *sizes = &c->args[2];
  int64_t shape[CN_MAX_DIMS], inner[CN_MAX_DIMS];
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim), n = 0;
  if (dim < 0) return dim;
  if (sizes->n < 1 || d->ndim < 1) return cn_call_fail(c, CN_ERR_VALUE, "sizes must not be empty");
  if (d->ndim - 1 + sizes->n > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  int status = resolve_shape(c, sizes, d->shape[dim], inner);
  if (status) return status;
  for (int i = 0; i < dim; i++) shape[n++] = d->shape[i];
  for (int i = 0; i < sizes->n; i++) shape[n++] = inner[i];
  for (int i = dim + 1; i < d->ndim; i++) shape[n++] = d->shape[i];
  c->out[0] = cn_view(c->in[0], shape, (size_t)n);
  return cn_err();
}

/* ---- permute, transpose, movedim ---- */

static int permutation(const cn_call *c, int *order)
{
  const cn_desc *d = &c->in[0]->d;
  uint32_t seen = 0;
  if (c->args[1].n != d->ndim)
    return cn_call_fail(c, CN_ERR_SHAPE, "%d dims are given for a tensor of %d", c->args[1].n, (int)d->ndim);
  for (int i = 0; i < d->ndim; i++) {
    int k = cn_call_dim(c, c->args[1].u.is[i], d->ndim);
    if (k < 0) return k;
    if (seen & 1u << k) return cn_call_fail(c, CN_ERR_VALUE, "dimension %d appears twice", k);
    seen |= 1u << k;
    order[i] = k;
  }
  return CN_OK;
}

static int permute_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int order[CN_MAX_DIMS], status = permutation(c, order);
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  if (status) return status;
  for (int i = 0; i < d->ndim; i++) {
    shape[i] = d->shape[order[i]];
    strides[i] = d->strides[order[i]];
  }
  return cn_call_view(c, 0, 0, d->ndim, shape, strides, 0);
}

static cn_tensor *permute_back(const cn_value *dims, cn_tensor *g)
{
  int64_t inverse[CN_MAX_DIMS];
  for (int i = 0; i < dims->n; i++) {
    int64_t k = dims->u.is[i];
    inverse[k < 0 ? k + dims->n : k] = i;
  }
  return cn_permute(g, inverse, (size_t)dims->n);
}
static int permute_vjp(cn_vjp *v)
{
  v->gin[0] = permute_back(&v->args[1], v->g[0]);
  return cn_err();
}
static cn_tensor *permute_scatter(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  (void)base;
  return permute_back(&c->args[1], src);
}

static int transpose_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int a = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim), b = cn_call_dim(c, cni_arg_int(c->args, 2), d->ndim);
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  if (a < 0 || b < 0) return cn_err();
  for (int i = 0; i < d->ndim; i++) {
    int k = i == a ? b : i == b ? a : i;
    shape[i] = d->shape[k];
    strides[i] = d->strides[k];
  }
  return cn_call_view(c, 0, 0, d->ndim, shape, strides, 0);
}
static int transpose_vjp(cn_vjp *v)
{
  v->gin[0] = cn_transpose(v->g[0], cni_arg_int(v->args, 1), cni_arg_int(v->args, 2));
  return cn_err();
}
static cn_tensor *transpose_scatter(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  (void)base;
  return cn_transpose(src, cni_arg_int(c->args, 1), cni_arg_int(c->args, 2));
}

static int t_decompose(cn_call *c)
{
  if (c->in[0]->d.ndim > 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes at most 2 dimensions");
  c->out[0] = c->in[0]->d.ndim < 2 ? c->in[0] : cn_transpose(c->in[0], 0, 1);
  return cn_err();
}

/* movedim(input, source, destination) */
static int movedim_decompose(cn_call *c)
{
  int ndim = c->in[0]->d.ndim, n = c->args[1].n;
  int64_t order[CN_MAX_DIMS];
  uint32_t from = 0, to = 0;
  if (n != c->args[2].n) return cn_call_fail(c, CN_ERR_VALUE, "source and destination differ in length");
  for (int i = 0; i < ndim; i++) order[i] = -1;
  for (int i = 0; i < n; i++) {
    int s = cn_call_dim(c, c->args[1].u.is[i], ndim), d = cn_call_dim(c, c->args[2].u.is[i], ndim);
    if (s < 0 || d < 0) return cn_err();
    if (from & 1u << s || to & 1u << d) return cn_call_fail(c, CN_ERR_VALUE, "a dimension appears twice");
    from |= 1u << s;
    to |= 1u << d;
    if (ndim) order[d] = s;
  }
  for (int i = 0, next = 0; i < ndim; i++) {
    if (order[i] >= 0) continue;
    while (from & 1u << next) next++;
    order[i] = next++;
  }
  c->out[0] = cn_permute(c->in[0], order, (size_t)ndim);
  return cn_err();
}

/* ---- select, slice, narrow ---- */

/* select(input, dim, index) */
static int select_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS], index = cni_arg_int(c->args, 2);
  if (d->ndim == 0) return cn_call_fail(c, CN_ERR_INDEX, "a zero-dimensional tensor cannot be indexed");
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim), n = 0;
  if (dim < 0) return dim;
  if (index < -d->shape[dim] || index >= d->shape[dim])
    return cn_call_fail(c, CN_ERR_INDEX, "index %lld is out of range for dimension %d of size %lld", (long long)index,
                        dim, (long long)d->shape[dim]);
  if (index < 0) index += d->shape[dim];
  for (int i = 0; i < d->ndim; i++) {
    if (i == dim) continue;
    shape[n] = d->shape[i];
    strides[n++] = d->strides[i];
  }
  return cn_call_view(c, 0, 0, n, shape, strides, index * d->strides[dim]);
}
static cn_tensor *select_scatter_of(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  return cn_select_scatter(base, src, cni_arg_int(c->args, 1), cni_arg_int(c->args, 2));
}

/* Bounds of a slice as Python reads them: negative counts from the end, out of range is cut, a negative step walks
 * back. Returns the first index and the count. */
static int64_t slice_range(const cn_value *args, int64_t size, int64_t *first)
{
  int64_t step = cni_arg_int(args, 4), low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  int64_t start = cni_arg_int_or(args, 2, step > 0 ? low : high), end;
  if (args[2].tag != CN_V_NONE && start < 0) start += size;
  start = start < low ? low : start > high ? high : start;
  if (args[3].tag == CN_V_NONE) end = step > 0 ? high : low;
  else {
    end = args[3].u.i;
    if (end < 0) end += size;
    end = end < low ? low : end > high ? high : end;
  }
  *first = start;
  if (step > 0) return end > start ? (end - start - 1) / step + 1 : 0;
  return start > end ? (start - end - 1) / -step + 1 : 0;
}

/* slice(input, dim, start, end, step) */
static int slice_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS], first, step = cni_arg_int(c->args, 4);
  if (d->ndim == 0) return cn_call_fail(c, CN_ERR_INDEX, "a zero-dimensional tensor cannot be sliced");
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim);
  if (dim < 0) return dim;
  if (step == 0 || step == INT64_MIN) return cn_call_fail(c, CN_ERR_VALUE, "step must not be zero");
  memcpy(shape, d->shape, (size_t)d->ndim * sizeof *shape);
  memcpy(strides, d->strides, (size_t)d->ndim * sizeof *strides);
  shape[dim] = slice_range(c->args, d->shape[dim], &first);
  if (shape[dim] > 1) strides[dim] *= step;
  return cn_call_view(c, 0, 0, d->ndim, shape, strides, shape[dim] ? first * d->strides[dim] : 0);
}
static cn_tensor *slice_scatter_of(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  const cn_value *a = c->args;
  return cn_slice_scatter_with(base, src, cni_arg_int_or(a, 2, CN_NONE), cni_arg_int_or(a, 3, CN_NONE),
                               &(cn_slice_scatter_opts){.size = sizeof(cn_slice_scatter_opts),
                                                        .dim = a[1].u.i ? a[1].u.i : CN_ZERO, .step = a[4].u.i});
}

/* narrow(input, dim, start, length) */
static int narrow_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim);
  int64_t start = cni_arg_int(c->args, 2), length = cni_arg_int(c->args, 3);
  if (dim < 0) return dim;
  if (d->ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "a zero-dimensional tensor cannot be narrowed");
  int64_t size = d->shape[dim];
  if (start < -size || start > size || length < 0 || (start < 0 ? start + size : start) + length > size)
    return cn_call_fail(c, CN_ERR_INDEX, "start %lld and length %lld leave dimension %d of size %lld",
                        (long long)start, (long long)length, dim, (long long)size);
  if (start < 0) start += size;
  c->out[0] = cn_slice_with(c->in[0], dim, start, start + length, NULL);
  return cn_err();
}

/* ---- squeeze, unsqueeze ---- */

static int squeeze_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  uint32_t mask = UINT32_MAX;
  int n = 0, status = c->args[1].tag == CN_V_NONE ? 0 : cni_dims_mask_strict(c, &c->args[1], d->ndim, &mask);
  if (status) return status;
  for (int i = 0; i < d->ndim; i++) {
    if (d->shape[i] == 1 && mask >> i & 1) continue;
    shape[n] = d->shape[i];
    strides[n++] = d->strides[i];
  }
  return cn_call_view(c, 0, 0, n, shape, strides, 0);
}

static int unsqueeze_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim + 1), n = 0;
  if (dim < 0) return dim;
  if (d->ndim == CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  for (int i = 0; i <= d->ndim; i++) {
    if (i == dim) {
      shape[n] = 1;
      strides[n++] = i < d->ndim ? d->shape[i] * d->strides[i] : 1;
    }
    if (i == d->ndim) break;
    shape[n] = d->shape[i];
    strides[n++] = d->strides[i];
  }
  return cn_call_view(c, 0, 0, n, shape, strides, 0);
}

/* ---- expand ---- */

static int expand_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  const cn_value *size = &c->args[1];
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  int lead = size->n - d->ndim;
  if (lead < 0 || size->n > CN_MAX_DIMS)
    return cn_call_fail(c, CN_ERR_SHAPE, "%d sizes are given for a tensor of %d dimensions", size->n, (int)d->ndim);
  for (int i = 0; i < size->n; i++) {
    int64_t want = size->u.is[i], have = i < lead ? 1 : d->shape[i - lead];
    if (want == -1 && i >= lead) want = have;
    if (want < 0 || (have != want && have != 1))
      return cn_call_fail(c, CN_ERR_SHAPE, "size %lld of dimension %d cannot become %lld", (long long)have, i,
                          (long long)want);
    shape[i] = want;
    strides[i] = have == want && i >= lead ? d->strides[i - lead] : 0;
  }
  return cn_call_view(c, 0, 0, size->n, shape, strides, 0);
}
static int expand_vjp(cn_vjp *v)
{
  v->gin[0] = v->g[0]; /* the engine sums it back to the input's shape */
  return CN_OK;
}

/* ---- diagonal, unfold ---- */

/* diagonal(input, offset, dim1, dim2): the diagonal becomes the last dim. */
static int diagonal_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS], offset = cni_arg_int(c->args, 1), n = 0, start;
  int a = cn_call_dim(c, cni_arg_int(c->args, 2), d->ndim), b = cn_call_dim(c, cni_arg_int(c->args, 3), d->ndim);
  if (a < 0 || b < 0) return cn_err();
  if (a == b || d->ndim < 2) return cn_call_fail(c, CN_ERR_VALUE, "needs two different dimensions");
  int64_t rows = d->shape[a] + (offset < 0 ? offset : 0), columns = d->shape[b] - (offset > 0 ? offset : 0);
  int64_t length = rows < columns ? rows : columns;
  if (length < 0) length = 0;
  for (int i = 0; i < d->ndim; i++) {
    if (i == a || i == b) continue;
    shape[n] = d->shape[i];
    strides[n++] = d->strides[i];
  }
  shape[n] = length;
  strides[n++] = d->strides[a] + d->strides[b];
  start = offset < 0 ? -offset * d->strides[a] : offset * d->strides[b];
  return cn_call_view(c, 0, 0, (int)n, shape, strides, length && d->numel ? start : 0);
}
static cn_tensor *diagonal_scatter_of(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  const cn_value *a = c->args;
  return cn_diagonal_scatter_with(base, src, &(cn_diagonal_scatter_opts){
    .size = sizeof(cn_diagonal_scatter_opts), .offset = a[1].u.i, .dim1 = a[2].u.i ? a[2].u.i : CN_ZERO,
    .dim2 = a[3].u.i ? a[3].u.i : CN_ZERO});
}

/* unfold(input, dimension, size, step): windows along a dim become a new last dim. */
static int unfold_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS], size = cni_arg_int(c->args, 2), step = cni_arg_int(c->args, 3);
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim);
  if (dim < 0) return dim;
  if (d->ndim == CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  int64_t have = d->ndim ? d->shape[dim] : 1;
  if (size < 0 || size > have || step < 1)
    return cn_call_fail(c, CN_ERR_VALUE, "size %lld must be at most %lld, and step %lld at least 1", (long long)size,
                        (long long)have, (long long)step);
  memcpy(shape, d->shape, (size_t)d->ndim * sizeof *shape);
  memcpy(strides, d->strides, (size_t)d->ndim * sizeof *strides);
  shape[d->ndim] = size;
  strides[d->ndim] = d->ndim ? d->strides[dim] : 1;
  if (d->ndim) {
    shape[dim] = (have - size) / step + 1;
    strides[dim] *= step;
  }
  return cn_call_view(c, 0, 0, d->ndim + 1, shape, strides, 0);
}

/* Gradient of views whose elements may overlap: numbers the input's elements, views the numbers the same way, and
 * adds each gradient up at its number. */
static cn_tensor *add_back(const cn_meta *m, cn_tensor *numbers, cn_tensor *g)
{
  int64_t numel = cni_numel(m->ndim, m->shape);
  cn_tensor *flat = cn_zeros_with(&numel, 1, &(cn_zeros_opts){.size = sizeof(cn_zeros_opts),
                                                              .dtype = cn_dtype_of(g), .device = m->device});
  flat = cn_index_add_with(flat, 0, cn_reshape(numbers, CN_SHAPE(-1)), cn_reshape(g, CN_SHAPE(-1)), NULL);
  return cn_reshape(flat, m->shape, (size_t)m->ndim);
}
static cn_tensor *numbers_like(const cn_meta *m)
{
  cn_arange_opts o = {.size = sizeof o, .dtype = CN_I64, .device = m->device};
  return cn_reshape(cn_arange_with(0, (double)cni_numel(m->ndim, m->shape), &o), m->shape, (size_t)m->ndim);
}
static int unfold_vjp(cn_vjp *v)
{
  cn_tensor *n = cn_unfold(numbers_like(&v->in_meta[0]), v->args[1].u.i, v->args[2].u.i, v->args[3].u.i);
  v->gin[0] = add_back(&v->in_meta[0], n, v->g[0]);
  return cn_err();
}

static int detach_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  return cn_call_view(c, 0, 0, d->ndim, d->shape, d->strides, 0);
}
static cn_tensor *detach_scatter(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  (void)c, (void)base;
  return src;
}

/* ---- lists of views ---- */

static int list_room(cn_call *c, int64_t n)
{
  if (n > c->nout)
    return cn_call_fail(c, CN_ERR_VALUE, "gives %lld results, room was made for %d", (long long)n, c->nout);
  c->nout = (int)n;
  return CN_OK;
}

static int split_along(cn_call *c, int dim, int64_t size)
{
  int64_t have = c->in[0]->d.shape[dim], n = size ? (have + size - 1) / size : 1;
  int status = list_room(c, n > 0 ? n : 1);
  if (status) return status;
  for (int i = 0; i < c->nout; i++) {
    int64_t end = (i + 1) * size < have ? (i + 1) * size : have;
    c->out[i] = cn_slice_with(c->in[0], dim, i * size, end, NULL);
  }
  return cn_err();
}

/* split(input, split_size, dim) */
static int split_decompose(cn_call *c)
{
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), c->in[0]->d.ndim);
  int64_t size = cni_arg_int(c->args, 1);
  if (dim < 0) return dim;
  if (c->in[0]->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "a zero-dimensional tensor cannot be split");
  if (size < 0 || (size == 0 && c->in[0]->d.shape[dim] > 0))
    return cn_call_fail(c, CN_ERR_VALUE, "split_size must be positive");
  return split_along(c, dim, size);
}

static int split_with_sizes_decompose(cn_call *c)
{
  const cn_value *sizes = &c->args[1];
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), c->in[0]->d.ndim);
  int64_t at = 0;
  if (dim < 0) return dim;
  if (c->in[0]->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "a zero-dimensional tensor cannot be split");
  for (int i = 0; i < sizes->n; i++) {
    if (sizes->u.is[i] < 0) return cn_call_fail(c, CN_ERR_VALUE, "sizes must not be negative");
    at += sizes->u.is[i];
  }
  if (at != c->in[0]->d.shape[dim])
    return cn_call_fail(c, CN_ERR_SHAPE, "the sizes add up to %lld, but dimension %d has size %lld", (long long)at,
                        dim, (long long)c->in[0]->d.shape[dim]);
  int status = list_room(c, sizes->n);
  if (status) return status;
  at = 0;
  for (int i = 0; i < sizes->n; at += sizes->u.is[i++])
    c->out[i] = cn_slice_with(c->in[0], dim, at, at + sizes->u.is[i], NULL);
  return cn_err();
}

/* chunk(input, chunks, dim) */
static int chunk_decompose(cn_call *c)
{
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), c->in[0]->d.ndim);
  int64_t chunks = cni_arg_int(c->args, 1);
  if (dim < 0) return dim;
  if (c->in[0]->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "a zero-dimensional tensor cannot be split");
  if (chunks < 1) return cn_call_fail(c, CN_ERR_VALUE, "chunks must be positive");
  int64_t have = c->in[0]->d.shape[dim];
  if (have) return split_along(c, dim, (have + chunks - 1) / chunks);
  int status = list_room(c, chunks); /* an empty dimension gives that many empty chunks */
  for (int i = 0; !status && i < c->nout; i++) c->out[i] = cn_slice_with(c->in[0], dim, 0, 0, NULL);
  return status ? status : cn_err();
}

/* unbind(input, dim) */
static int unbind_decompose(cn_call *c)
{
  if (c->in[0]->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "a zero-dimensional tensor cannot be unbound");
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), c->in[0]->d.ndim);
  int status = dim < 0 ? dim : list_room(c, c->in[0]->d.shape[dim]);
  for (int i = 0; !status && i < c->nout; i++) c->out[i] = cn_select(c->in[0], dim, i);
  return status ? status : cn_err();
}

/* clang-format off */
const cn_op cni_view_ops[] = {
  {.sig = "view(Tensor input, int[] size) -> Tensor ; method",
   .doc = "input under another shape, sharing its memory; one size may be -1. An error where that needs a copy.",
   .flags = CN_OP_VIEW, .infer = view_infer, .vjp = back_to_shape_vjp, .scatter = reshaped_scatter},
  {.sig = "reshape(Tensor input, int[] shape) -> Tensor ; method complex",
   .doc = "input under another shape: a view where possible, else a copy. One size may be -1.",
   .flags = CN_OP_COMPOSITE | CN_OP_VIEW, .infer = reshape_infer, .vjp = back_to_shape_vjp,
   .decompose = reshape_decompose, .scatter = reshaped_scatter},
  {.sig = "flatten(Tensor input, int start_dim=0, int end_dim=-1) -> Tensor ; method complex",
   .doc = "Dimensions start_dim to end_dim made one.",
   .flags = CN_OP_COMPOSITE, .decompose = flatten_decompose},
  {.sig = "unflatten(Tensor input, int dim, int[] sizes) -> Tensor ; method complex",
   .doc = "Dimension dim split into several of these sizes; one may be -1.",
   .flags = CN_OP_COMPOSITE, .decompose = unflatten_decompose},
  {.sig = "permute(Tensor input, int[] dims) -> Tensor ; method",
   .doc = "Dimensions in another order.",
   .flags = CN_OP_VIEW, .infer = permute_infer, .vjp = permute_vjp, .scatter = permute_scatter},
  {.sig = "transpose(Tensor input, int dim0, int dim1) -> Tensor ; method alias_swapaxes alias_swapdims",
   .doc = "Two dimensions swapped.",
   .flags = CN_OP_VIEW, .infer = transpose_infer, .vjp = transpose_vjp, .scatter = transpose_scatter},
  {.sig = "t(Tensor input) -> Tensor ; method grad_fn complex",
   .doc = "The transpose of a matrix; vectors and numbers stay as they are.",
   .flags = CN_OP_COMPOSITE, .decompose = t_decompose},
  {.sig = "movedim(Tensor input, int[] source, int[] destination) -> Tensor ; method alias_moveaxis complex",
   .doc = "Dimensions moved from source to destination; the others keep their order.",
   .flags = CN_OP_COMPOSITE, .decompose = movedim_decompose},
  {.sig = "select(Tensor input, int dim, int index) -> Tensor ; method",
   .doc = "One index of a dimension, which goes away. Negative indices count from the end.",
   .flags = CN_OP_VIEW, .infer = select_infer, .scatter = select_scatter_of},
  {.sig = "slice(Tensor input, int dim, int? start=None, int? end=None, int step=1) -> Tensor ; method",
   .doc = "Indices start, start + step, ... before end of a dimension, with Python's rules; step may be negative.",
   .flags = CN_OP_VIEW, .infer = slice_infer, .scatter = slice_scatter_of},
  {.sig = "narrow(Tensor input, int dim, int start, int length) -> Tensor ; method complex",
   .doc = "length indices of a dimension from start on.",
   .flags = CN_OP_COMPOSITE, .decompose = narrow_decompose},
  {.sig = "squeeze(Tensor input, int[]? dim=None) -> Tensor ; method",
   .doc = "Without its dimensions of size 1 (all of them, or those listed).",
   .flags = CN_OP_VIEW, .infer = squeeze_infer, .vjp = back_to_shape_vjp, .scatter = reshaped_scatter},
  {.sig = "unsqueeze(Tensor input, int dim) -> Tensor ; method",
   .doc = "With a new dimension of size 1 before dim.",
   .flags = CN_OP_VIEW, .infer = unsqueeze_infer, .vjp = back_to_shape_vjp, .scatter = reshaped_scatter},
  {.sig = "expand(Tensor input, int[] size) -> Tensor ; method",
   .doc = "Dimensions of size 1 repeated without copying; -1 keeps a size.",
   .flags = CN_OP_VIEW, .infer = expand_infer, .vjp = expand_vjp,
   .scatter = reshaped_scatter}, /* what repeats nothing can be written through */
  {.sig = "diagonal(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor ; method",
   .doc = "The diagonal of two dimensions as a new last dimension.",
   .flags = CN_OP_VIEW, .infer = diagonal_infer, .scatter = diagonal_scatter_of},
  {.sig = "unfold(Tensor input, int dimension, int size, int step) -> Tensor ; method",
   .doc = "Windows of that size along a dimension, step apart, as a new last dimension.",
   .flags = CN_OP_VIEW, .infer = unfold_infer, .vjp = unfold_vjp},
  {.sig = "detach(Tensor input) -> Tensor ; method",
   .doc = "The same memory without history: gradients stop here.",
   .flags = CN_OP_VIEW | CN_OP_NO_GRAD, .infer = detach_infer, .scatter = detach_scatter},
  {.sig = "split(Tensor input, int split_size, int dim=0) -> Tensor[] ; method grad_fn complex",
   .doc = "Pieces of that size along a dimension; the last may be smaller.",
   .flags = CN_OP_COMPOSITE, .decompose = split_decompose},
  {.sig = "split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> Tensor[] ; method overload_split grad_fn "
          "complex",
   .doc = "Pieces of these sizes along a dimension.",
   .flags = CN_OP_COMPOSITE, .decompose = split_with_sizes_decompose},
  {.sig = "chunk(Tensor input, int chunks, int dim=0) -> Tensor[] ; method grad_fn_SplitBackward0 complex",
   .doc = "At most that many pieces of equal size along a dimension; the last may be smaller.",
   .flags = CN_OP_COMPOSITE, .decompose = chunk_decompose},
  {.sig = "unbind(Tensor input, int dim=0) -> Tensor[] ; method grad_fn complex",
   .doc = "Each index of a dimension as a tensor of its own.",
   .flags = CN_OP_COMPOSITE, .decompose = unbind_decompose},
};
/* clang-format on */
CNI_FAMILY(view);
