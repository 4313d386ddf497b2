/* sparse_shape.c: the rules of ops that move, pick or join what is in sparse tensors.
 *
 * Place in the flow: sparse_rules.def names them. Compressed tensors go by COO and back, but for a transpose, which
 * swaps rows and columns. Invariant: sparse dimensions stay in front of dense ones. */
#include "sparse.h"

/* ---- dims in another order ---- */

/* s with its dims in the order `dims`; sparse ones among themselves, and dense ones. */
static cn_tensor *permuted(const cn_call *c, cn_tensor *s, const int *dims)
{
  int sparse = cni_sparse_dims(s), ndim = s->d.ndim;
  int64_t shape[CN_MAX_DIMS], order[CN_MAX_DIMS] = {0};
  cn_tensor *rows[CN_MAX_DIMS];
  bool moved = false;
  for (int i = 0; i < ndim; i++) {
    shape[i] = s->d.shape[dims[i]];
    if ((i < sparse) != (dims[i] < sparse))
      return cn_call_fail(c, CN_ERR_UNSUPPORTED, "sparse dimensions cannot change places with dense ones"), NULL;
    if (i < sparse) rows[i] = cni_index_row(s->sparse->index, dims[i]), moved |= dims[i] != i;
    else order[i - sparse + 1] = dims[i] - sparse + 1;
  }
  cn_tensor *values = cn_permute(s->sparse->values, order, (size_t)(ndim - sparse) + 1);
  cn_tensor *indices = moved && !cn_err() ? cn_stack(rows, (size_t)sparse, .dim = 0) : s->sparse->index;
  return cni_coo(indices, values, ndim, shape, !moved && s->sparse->coalesced);
}

/* Rows as columns. */
static cn_tensor *turned(cn_tensor *s)
{
  static const cn_layout others[] = {[CN_LAYOUT_CSR] = CN_LAYOUT_CSC, [CN_LAYOUT_CSC] = CN_LAYOUT_CSR,
                                     [CN_LAYOUT_BSR] = CN_LAYOUT_BSC, [CN_LAYOUT_BSC] = CN_LAYOUT_BSR};
  const cni_sparse *p = s->sparse;
  int at = s->d.ndim - p->dense_dim - 2, block = p->plain->d.ndim;
  int64_t shape[CN_MAX_DIMS];
  memcpy(shape, s->d.shape, sizeof shape);
  shape[at] = s->d.shape[at + 1];
  shape[at + 1] = s->d.shape[at];
  cn_tensor *values = cni_in_blocks(s->d.layout) ? cn_transpose(p->values, block, block + 1) : p->values;
  return cni_compressed(others[s->d.layout], p->index, p->plain, values, s->d.ndim, shape, p->dense_dim);
}

int cni_sparse_transpose(cn_call *c)
{
  cn_tensor *s = c->in[0];
  int dims[CN_MAX_DIMS], ndim = s->d.ndim;
  int a = cn_call_dim(c, cni_arg_int(c->args, 1), ndim), b = a < 0 ? a : cn_call_dim(c, cni_arg_int(c->args, 2), ndim);
  if (b < 0) return b;
  if (a == b) return c->out[0] = s, CN_OK;
  for (int i = 0; i < ndim; i++) dims[i] = i == a ? b : i == b ? a : i;
  int matrix = cni_is_coo(s) ? -1 : ndim - s->sparse->dense_dim - 2;
  if (matrix >= 0 && (a < b ? a : b) == matrix && (a < b ? b : a) == matrix + 1) {
    c->out[0] = turned(s);
    return cn_err();
  }
  cn_tensor *coo = cni_as_coo(s), *y = coo ? permuted(c, coo, dims) : NULL;
  c->out[0] = y ? cni_in_layout_of(cni_coalesced(y), s) : NULL;
  if (y && cni_is_coo(s)) c->out[0] = y;
  return cn_err();
}

int cni_sparse_permute(cn_call *c)
{
  cn_tensor *s = cni_as_coo(c->in[0]);
  const cn_value *order = &c->args[1];
  int dims[CN_MAX_DIMS];
  uint32_t seen = 0;
  if (!s) return cn_err();
  if (order->n != s->d.ndim) return cn_call_fail(c, CN_ERR_SHAPE, "%d dimensions are named of %d", order->n, s->d.ndim);
  for (int i = 0; i < order->n; i++) {
    if ((dims[i] = cn_call_dim(c, order->u.is[i], s->d.ndim)) < 0) return dims[i];
    if (seen >> dims[i] & 1) return cn_call_fail(c, CN_ERR_VALUE, "dimension %d is named twice", dims[i]);
    seen |= 1u << dims[i];
  }
  cn_tensor *y = permuted(c, s, dims);
  c->out[0] = y ? cni_in_layout_of(y, c->in[0]) : NULL;
  return cn_err();
}

/* ---- sizes of 1 ---- */

static int only_coo(const cn_call *c, const cn_tensor *s)
{
  return cni_is_coo(s) ? CN_OK : cn_call_fail(c, CN_ERR_UNSUPPORTED, "is for sparse tensors of coordinates only, not "
                                              "for %s", cni_layout_name(s->d.layout));
}

int cni_sparse_unsqueeze(cn_call *c)
{
  cn_tensor *s = c->in[0], *indices = s->sparse->index, *values = s->sparse->values;
  int64_t shape[CN_MAX_DIMS + 1];
  if (only_coo(c, s)) return cn_err();
  int dims = cni_sparse_dims(s), dim = cn_call_dim(c, cni_arg_int(c->args, 1), s->d.ndim + 1);
  if (dim < 0) return dim;
  if (s->d.ndim == CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "at most %d dimensions", CN_MAX_DIMS);
  for (int i = 0; i <= s->d.ndim; i++) shape[i] = i == dim ? 1 : s->d.shape[i - (i > dim)];
  if (dim <= dims) {
    cn_tensor *zeros = cn_zeros(CN_SHAPE(1, cn_nnz(s)), .dtype = CN_I64, .device = cn_device_of(s));
    cn_tensor *rows[] = {cn_slice(indices, 0, 0, dim), zeros, cn_slice(indices, 0, dim, dims)};
    indices = cn_err() ? NULL : cn_cat(rows, 3);
  } else values = cn_unsqueeze(values, dim - dims + 1);
  c->out[0] = cni_coo(indices, values, s->d.ndim + 1, shape, s->sparse->coalesced);
  return cn_err();
}

/* Drops the dims of a mask, which are of size 1. */
static cn_tensor *without(cn_tensor *s, uint32_t drop)
{
  int dims = cni_sparse_dims(s), n = 0, sparse = 0, dense = 0;
  int64_t shape[CN_MAX_DIMS], sizes[CN_MAX_DIMS + 1] = {cn_nnz(s)};
  cn_tensor *rows[CN_MAX_DIMS];
  for (int i = 0; i < s->d.ndim; i++) {
    if (drop >> i & 1) continue;
    shape[n++] = s->d.shape[i];
    if (i < dims) rows[sparse++] = cni_index_row(s->sparse->index, i);
    else sizes[++dense] = s->d.shape[i];
  }
  cn_tensor *indices = sparse ? cn_stack(rows, (size_t)sparse, .dim = 0)
                              : cn_zeros(CN_SHAPE(0, cn_nnz(s)), .dtype = CN_I64, .device = cn_device_of(s));
  return cni_coo(indices, cn_reshape(s->sparse->values, sizes, (size_t)dense + 1), n, shape, s->sparse->coalesced);
}

int cni_sparse_squeeze(cn_call *c)
{
  cn_tensor *s = c->in[0];
  uint32_t mask = 0, drop = 0;
  if (only_coo(c, s)) return cn_err();
  int status = cni_arg_none(c->args, 1) ? CN_OK : cni_dims_mask_strict(c, &c->args[1], s->d.ndim, &mask);
  if (status) return status;
  if (cni_arg_none(c->args, 1)) mask = ~0u;
  for (int i = 0; i < s->d.ndim; i++)
    if ((mask >> i & 1) && s->d.shape[i] == 1) drop |= 1u << i;
  c->out[0] = drop ? without(s, drop) : s;
  return cn_err();
}

/* ---- picking along a dim ---- */

/* Those values whose places are named by keep, (n), with row `dim` of the indices replaced (NULL: dropped). */
static cn_tensor *kept(cn_tensor *s, cn_tensor *keep, int dim, cn_tensor *row, const int64_t *shape, bool coalesced)
{
  int dims = cni_sparse_dims(s), n = 0;
  cn_tensor *rows[CN_MAX_DIMS];
  if (!keep || cn_err()) return NULL;
  for (int i = 0; i < dims; i++) {
    if (i != dim) rows[n++] = cn_index_select(cni_index_row(s->sparse->index, i), 0, keep);
    else if (row) rows[n++] = row;
  }
  cn_tensor *values = cn_index_select(s->sparse->values, 0, keep);
  cn_tensor *indices = cn_err() ? NULL : cn_stack(rows, (size_t)n, .dim = 0);
  return cni_coo(indices, values, s->d.ndim - !row, shape, coalesced);
}

static cn_tensor *where_true(cn_tensor *mask) { return mask ? cn_reshape(cn_nonzero(mask), CN_SHAPE(-1)) : NULL; }

/* select(input, dim, index) */
int cni_sparse_select(cn_call *c)
{
  cn_tensor *s = cni_as_coo(c->in[0]);
  int64_t shape[CN_MAX_DIMS], index = cni_arg_int(c->args, 2);
  int dim = s ? cn_call_dim(c, cni_arg_int(c->args, 1), s->d.ndim) : cn_err(), n = 0;
  if (dim < 0) return dim;
  if (s->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "needs at least one dimension");
  int64_t size = s->d.shape[dim];
  if (index < -size || index >= size)
    return cn_call_fail(c, CN_ERR_INDEX, "index %lld is out of range for size %lld", (long long)index, (long long)size);
  if (index < 0) index += size;
  for (int i = 0; i < s->d.ndim; i++)
    if (i != dim) shape[n++] = s->d.shape[i];
  int dims = cni_sparse_dims(s);
  if (dim >= dims) {
    c->out[0] = cni_coo(s->sparse->index, cn_select(s->sparse->values, dim - dims + 1, index), n, shape,
                        s->sparse->coalesced);
    return cn_err();
  }
  cn_tensor *keep = where_true(cn_eq(cni_index_row(s->sparse->index, dim), cn_int(index)));
  if (dims > 1) c->out[0] = kept(s, keep, dim, NULL, shape, s->sparse->coalesced);
  else if (keep) c->out[0] = cn_sum(cn_index_select(s->sparse->values, 0, keep), .dim = CN_INTS(0),
                                    .dtype = (cn_dtype)s->d.dtype);
  return cn_err();
}

/* slice(input, dim, start, end, step) */
int cni_sparse_slice(cn_call *c)
{
  cn_tensor *s = cni_as_coo(c->in[0]);
  int64_t shape[CN_MAX_DIMS], step = cni_arg_int(c->args, 4);
  int dim = s ? cn_call_dim(c, cni_arg_int(c->args, 1), s->d.ndim) : cn_err();
  if (dim < 0) return dim;
  if (step < 1) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "a sparse tensor's slice must have a step above 0");
  int64_t size = s->d.shape[dim], from = cni_arg_int_or(c->args, 2, 0), to = cni_arg_int_or(c->args, 3, size);
  if (from < 0) from += size;
  if (to < 0) to += size;
  from = from < 0 ? 0 : from > size ? size : from;
  to = to < from ? from : to > size ? size : to;
  memcpy(shape, s->d.shape, (size_t)s->d.ndim * sizeof *shape);
  shape[dim] = (to - from + step - 1) / step;
  int dims = cni_sparse_dims(s);
  if (dim >= dims) {
    cn_tensor *values = cn_slice(s->sparse->values, dim - dims + 1, from, to, .step = step);
    cn_tensor *y = cni_coo(s->sparse->index, values, s->d.ndim, shape, s->sparse->coalesced);
    c->out[0] = y ? cni_in_layout_of(y, c->in[0]) : NULL;
    return cn_err();
  }
  cn_tensor *row = cni_index_row(s->sparse->index, dim), *off = cn_sub(row, cn_int(from));
  cn_tensor *inside = cn_logical_and(cn_ge(off, cn_int(0)), cn_lt(row, cn_int(to)));
  if (step > 1) inside = cn_logical_and(inside, cn_eq(cn_remainder(off, cn_int(step)), cn_int(0)));
  cn_tensor *keep = where_true(inside);
  if (!keep) return cn_err();
  cn_tensor *places = cn_index_select(off, 0, keep);
  if (step > 1) places = cn_floor_divide(places, cn_int(step));
  cn_tensor *y = kept(s, keep, dim, places, shape, s->sparse->coalesced);
  c->out[0] = y ? cni_in_layout_of(y, c->in[0]) : NULL;
  return cn_err();
}

/* index_select(input, dim, index): each entry of index takes all values of its slice, one behind the other. */
int cni_sparse_index_select(cn_call *c)
{
  cn_tensor *s = cni_as_coo(c->in[0]), *index = c->in[1];
  int64_t shape[CN_MAX_DIMS];
  int dim = s ? cn_call_dim(c, cni_arg_int(c->args, 1), s->d.ndim) : cn_err();
  if (dim < 0) return dim;
  if (cni_is_sparse(index) || index->d.ndim > 1) return cn_call_fail(c, CN_ERR_SHAPE, "index must be a dense vector");
  index = cn_reshape(cni_in_type(index, CN_I64), CN_SHAPE(-1));
  if (!index || s->d.ndim == 0) return cn_err() ? cn_err() : cn_call_fail(c, CN_ERR_SHAPE, "needs a dimension");
  memcpy(shape, s->d.shape, (size_t)s->d.ndim * sizeof *shape);
  int64_t size = shape[dim];
  shape[dim] = cn_size(index, 0);
  int dims = cni_sparse_dims(s);
  if (dim >= dims) {
    cn_tensor *values = cn_index_select(s->sparse->values, dim - dims + 1, index);
    c->out[0] = cni_coo(s->sparse->index, values, s->d.ndim, shape, s->sparse->coalesced);
    return cn_err();
  }
  if (index->d.numel && !cn_check_within(index, (double)-size, (double)size - 1, "index_select: index out of range"))
    return cn_err();
  index = cn_where(cn_lt(index, cn_int(0)), cn_add(index, cn_int(size)), index);
  cn_tensor *row, *order;
  if (cn_sort(&row, &order, cni_index_row(s->sparse->index, dim), .stable = true)) return cn_err();
  cn_tensor *begins = cni_begins_of(row, size), *from = cn_index_select(begins, 0, index);
  cn_tensor *each = cn_sub(cn_index_select(begins, 0, cn_add(index, cn_int(1))), from);
  cn_tensor *place = each ? cn_repeat_interleave_indices(each, CN_NONE) : NULL;
  if (!place) return cn_err();
  cn_tensor *count = cn_arange(0, (double)cn_size(place, 0), .dtype = CN_I64, .device = cn_device_of(s));
  cn_tensor *base = cn_sub(from, cn_sub(cn_cumsum(each, 0), each));
  cn_tensor *keep = cn_index_select(order, 0, cn_add(count, cn_index_select(base, 0, place)));
  cn_tensor *y = kept(s, keep, dim, place, shape, s->sparse->coalesced && dim == 0);
  c->out[0] = y ? cni_in_layout_of(y, c->in[0]) : NULL;
  return cn_err();
}

/* ---- joining ---- */

static int check_cat(const cn_call *c, int dim)
{
  const cn_tensor *first = c->in[0];
  for (int i = 0; i < c->nin; i++) {
    const cn_tensor *t = c->in[i];
    if (!cni_is_sparse(t) || t->d.layout != CN_LAYOUT_COO)
      return cn_call_fail(c, CN_ERR_TYPE, "all tensors must be sparse, of coordinates");
    bool fits = t->d.ndim == first->d.ndim && t->sparse->dense_dim == first->sparse->dense_dim;
    for (int k = 0; fits && k < t->d.ndim; k++) fits = k == dim || t->d.shape[k] == first->d.shape[k];
    if (!fits) return cn_call_fail(c, CN_ERR_SHAPE, "all tensors must have the same shape, but for dimension %d", dim);
  }
  return CN_OK;
}

/* Along a sparse dim: places one behind the other, each moved by the sizes before it. */
static cn_tensor *cat_sparse(cn_call *c, int dim, int64_t *shape, cn_tensor **indices, cn_tensor **values)
{
  cn_tensor *first = c->in[0];
  int dims = cni_sparse_dims(first);
  int64_t at = 0;
  bool coalesced = dim == 0;
  for (int i = 0; i < c->nin && !cn_err(); i++) {
    cn_tensor *s = c->in[i], *index = s->sparse->index;
    cn_tensor *rows[] = {cn_slice(index, 0, 0, dim), cn_add(cn_slice(index, 0, dim, dim + 1), cn_int(at)),
                         cn_slice(index, 0, dim + 1, dims)};
    indices[i] = cn_err() ? NULL : cn_cat(rows, 3);
    values[i] = s->sparse->values;
    coalesced &= s->sparse->coalesced;
    at += s->d.shape[dim];
  }
  shape[dim] = at;
  if (cn_err()) return NULL;
  return cni_coo(cn_cat(indices, (size_t)c->nin, .dim = 1), cn_cat(values, (size_t)c->nin), first->d.ndim, shape,
                 coalesced);
}

/* Along a dense dim: values are padded to the whole size, and added up where places are the same. */
static cn_tensor *cat_dense(cn_call *c, int dim, int64_t *shape, cn_tensor **indices, cn_tensor **values)
{
  cn_tensor *first = c->in[0];
  int at_values = dim - cni_sparse_dims(first) + 1;
  int64_t at = 0;
  shape[dim] = 0;
  for (int i = 0; i < c->nin; i++) shape[dim] += c->in[i]->d.shape[dim];
  for (int i = 0; i < c->nin && !cn_err(); i++) {
    cn_tensor *s = c->in[i], *v = s->sparse->values;
    int64_t sizes[CN_MAX_DIMS];
    memcpy(sizes, v->d.shape, (size_t)v->d.ndim * sizeof *sizes);
    cn_zeros_opts o = {.size = sizeof o, .dtype = cn_dtype_of(v), .device = cn_device_of(v)};
    sizes[at_values] = at;
    cn_tensor *before = cn_zeros_with(sizes, (size_t)v->d.ndim, &o);
    at += s->d.shape[dim];
    sizes[at_values] = shape[dim] - at;
    cn_tensor *parts[] = {before, v, cn_zeros_with(sizes, (size_t)v->d.ndim, &o)};
    values[i] = cn_err() ? NULL : cn_cat(parts, 3, .dim = at_values);
    indices[i] = s->sparse->index;
  }
  if (cn_err()) return NULL;
  return cni_coo(cn_cat(indices, (size_t)c->nin, .dim = 1), cn_cat(values, (size_t)c->nin), first->d.ndim, shape,
                 false);
}

int cni_sparse_cat(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS];
  int dim = c->nin ? cn_call_dim(c, cni_arg_int(c->args, 1), c->in[0]->d.ndim) : 0;
  if (dim < 0) return dim;
  int status = check_cat(c, dim);
  if (status) return status;
  size_t bytes = 2 * (size_t)c->nin * sizeof(cn_tensor *);
  cn_tensor **room = cni_alloc(bytes);
  if (!room) return CN_ERR_MEMORY;
  memcpy(shape, c->in[0]->d.shape, (size_t)c->in[0]->d.ndim * sizeof *shape);
  bool sparse = dim < cni_sparse_dims(c->in[0]);
  c->out[0] = sparse ? cat_sparse(c, dim, shape, room, room + c->nin) : cat_dense(c, dim, shape, room, room + c->nin);
  cni_free(room, bytes);
  return cn_err();
}

/* ---- expand(input, size) ---- */

/* Places are repeated along each sparse dim of size 1 that grows; new dims come in front. */
int cni_sparse_expand(cn_call *c)
{
  cn_tensor *s = c->in[0];
  const cn_value *size = &c->args[1];
  if (only_coo(c, s)) return cn_err();
  int more = size->n - s->d.ndim, dims = cni_sparse_dims(s) + more;
  int64_t shape[CN_MAX_DIMS];
  if (more < 0) return cn_call_fail(c, CN_ERR_SHAPE, "a size of %d dimensions is too short", size->n);
  for (int i = 0; i < size->n; i++) {
    int64_t own = i < more ? 1 : s->d.shape[i - more];
    shape[i] = size->u.is[i] == -1 && i >= more ? own : size->u.is[i];
    if (shape[i] < 0 || (own != 1 && shape[i] != own))
      return cn_call_fail(c, CN_ERR_SHAPE, "size %lld of dimension %d does not expand to %lld", (long long)own, i,
                          (long long)shape[i]);
  }
  for (int i = 0; i < more; i++) s = cn_unsqueeze(s, 0);
  if (!s) return cn_err();
  cn_tensor *indices = s->sparse->index, *values = s->sparse->values;
  for (int i = 0; i < dims && !cn_err(); i++) {
    int64_t n = cn_size(values, 0), times = shape[i];
    if (s->d.shape[i] == times) continue;
    cn_tensor *all = cn_arange(0, (double)n, .dtype = CN_I64, .device = cn_device_of(s));
    cn_tensor *which = cn_repeat_interleave(all, times, 0);
    cn_tensor *place = cn_remainder(cn_arange(0, (double)(n * times), .dtype = CN_I64, .device = cn_device_of(s)),
                                    cn_int(times ? times : 1));
    cn_tensor *wide = cn_index_select(indices, 1, which);
    cn_tensor *rows[] = {cn_slice(wide, 0, 0, i), cn_unsqueeze(place, 0), cn_slice(wide, 0, i + 1, dims)};
    indices = cn_err() ? NULL : cn_cat(rows, 3);
    values = cn_index_select(values, 0, which);
  }
  if (!values || cn_err()) return cn_err();
  int64_t sizes[CN_MAX_DIMS + 1] = {cn_size(values, 0)};
  memcpy(sizes + 1, shape + dims, (size_t)(size->n - dims) * sizeof *sizes);
  c->out[0] = cni_coo(indices, cn_contiguous(cn_expand(values, sizes, (size_t)(size->n - dims) + 1)), size->n, shape,
                      false);
  return cn_err();
}
