/* sparse_pointwise.c: the rules of copies, sums, products and quotients of sparse tensors.
 *
 * Place in the flow: sparse_rules.def names them. A product has the places that both have, or those of the sparse one;
 * a sum those of either, and is dense where one of both is. Invariant: what the result holds is nobody else's to
 * write. */
#include "sparse.h"

#include "api.gen.h"

/* ---- copies ---- */

static cn_tensor *on_parts(cn_tensor *s, cn_tensor *(*each)(cn_tensor *t, cn_device device), cn_device device)
{
  cni_sparse parts = *s->sparse;
  parts.index = each(parts.index, device);
  parts.plain = parts.plain ? each(parts.plain, device) : NULL;
  parts.values = each(parts.values, device);
  return cn_err() ? NULL : cni_scope_add(cni_sparse_new((cn_layout)s->d.layout, &parts, s->d.ndim, s->d.shape));
}

static cn_tensor *cloned(cn_tensor *t, cn_device device) { return (void)device, cn_clone(t); }
static cn_tensor *moved(cn_tensor *t, cn_device device) { return cn_to_device(t, device); }
static cn_tensor *detached(cn_tensor *t, cn_device device) { return (void)device, cn_detach(t); }

int cni_sparse_clone(cn_call *c)
{
  c->out[0] = on_parts(c->in[0], cloned, 0);
  return cn_err();
}
int cni_sparse_contiguous_copy(cn_call *c) { return cni_sparse_clone(c); }
int cni_sparse_detach(cn_call *c)
{
  c->out[0] = on_parts(c->in[0], detached, 0);
  return cn_err();
}
int cni_sparse_to_device(cn_call *c)
{
  c->out[0] = on_parts(c->in[0], moved, (cn_device)c->args[1].u.i);
  return cn_err();
}
int cni_sparse_contiguous(cn_call *c)
{
  c->out[0] = c->in[0];
  return CN_OK;
}

/* copy(input, src) */
int cni_sparse_copy(cn_call *c)
{
  cn_tensor *to = c->in[0], *src = c->in[1];
  if (!cni_is_sparse(src)) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "a dense tensor does not go into a sparse one; "
                                               "cn_to_sparse (to_sparse()) makes one of it");
  if (!cn_same_shape(to, src)) return cn_call_fail(c, CN_ERR_SHAPE, "sparse tensors must have the same shape");
  cn_tensor *there = cni_is_sparse(to) ? cni_in_layout_of(src, to) : cni_dense(src);
  if (there && there->d.device != to->d.device) there = cn_to_device(there, to->d.device);
  there = there ? cn_cast(there, cn_dtype_of(to)) : NULL;
  c->out[0] = there && cni_is_sparse(there) ? on_parts(there, cloned, 0) : there;
  return cn_err();
}

/* Nothing is there. */
static cn_tensor *emptied(const cn_tensor *s, int dtype, cn_device device)
{
  const cni_sparse *p = s->sparse;
  int64_t shape[CN_MAX_DIMS];
  if (cni_is_coo(s)) return cni_coo_empty(s->d.ndim, s->d.shape, p->dense_dim, dtype, device);
  int batch = p->index->d.ndim - 1;
  cn_tensor *index = cn_zeros(p->index->d.shape, (size_t)batch + 1, .dtype = cn_dtype_of(p->index), .device = device);
  memcpy(shape, p->values->d.shape, (size_t)p->values->d.ndim * sizeof *shape);
  shape[batch] = 0;
  cn_tensor *plain = cn_zeros(shape, (size_t)batch + 1, .dtype = cn_dtype_of(p->index), .device = device);
  cn_tensor *values = cn_zeros(shape, (size_t)p->values->d.ndim, .dtype = (cn_dtype)dtype, .device = device);
  return cni_compressed(cn_layout_of(s), index, plain, values, s->d.ndim, s->d.shape, p->dense_dim);
}

int cni_sparse_fill(cn_call *c)
{
  cn_tensor *s = c->in[0], *value = c->in[1];
  if (!cni_is_sparse(s)) return cn_call_fail(c, CN_ERR_TYPE, "the value must be dense");
  if (value->d.weak && cn_item(value) == 0) c->out[0] = emptied(s, s->d.dtype, s->d.device);
  else if (cni_is_coo(s))
    return cn_call_fail(c, CN_ERR_UNSUPPORTED, "a tensor of coordinates can only be filled with 0");
  else c->out[0] = cni_with_values(s, cn_fill(s->sparse->values, value));
  return cn_err();
}

static int like(cn_call *c)
{
  int dtype = (int)cni_arg_int_or(c->args, 1, c->in[0]->d.dtype);
  cn_device device = cni_arg_none(c->args, 2) ? c->in[0]->d.device : (cn_device)c->args[2].u.i;
  c->out[0] = emptied(c->in[0], dtype, device);
  return cn_err();
}
int cni_sparse_zeros_like(cn_call *c) { return like(c); }
int cni_sparse_empty_like(cn_call *c) { return like(c); }

/* ---- sums ---- */

static bool plain_one(const cn_value *alpha) { return alpha->tag != CN_V_FLOATS && cni_arg_float(alpha, 0) == 1; }

static cn_tensor *scaled(cn_tensor *t, const cn_value *alpha)
{
  return plain_one(alpha) ? t : cn_mul(t, cni_number(alpha));
}

static bool same_dims(const cn_tensor *a, const cn_tensor *b)
{
  return a->sparse->index == b->sparse->index && a->sparse->plain == b->sparse->plain;
}

/* The places of both, one behind the other; in order where both were. */
static cn_tensor *joined(cn_tensor *a, cn_tensor *b, int dtype)
{
  cn_tensor *indices[] = {a->sparse->index, b->sparse->index};
  cn_tensor *values[] = {cni_in_type(a->sparse->values, dtype), cni_in_type(b->sparse->values, dtype)};
  bool coalesced = a->sparse->coalesced && b->sparse->coalesced;
  if (cn_err()) return NULL;
  cn_tensor *both = cni_coo(cn_cat(indices, 2, .dim = 1), cn_cat(values, 2), a->d.ndim, a->d.shape, false);
  return coalesced ? cni_coalesced(both) : both;
}

static cn_tensor *sum_of_sparse(const cn_call *c, cn_tensor *a, cn_tensor *b)
{
  cn_tensor *in[] = {a, b};
  if (!a || !b || cn_err()) return NULL;
  if (!cn_same_shape(a, b)) return cn_call_fail(c, CN_ERR_SHAPE, "sparse tensors must have the same shape"), NULL;
  int dtype = cni_result_type(c, in, 2);
  if (!dtype) return NULL;
  if (same_dims(a, b)) return cni_with_values(a, cn_add(a->sparse->values, b->sparse->values));
  cn_tensor *x = cni_as_coo(a), *y = cni_as_coo(b);
  if (!x || !y) return NULL;
  if (cni_sparse_dims(x) != cni_sparse_dims(y))
    return cn_call_fail(c, CN_ERR_SHAPE, "sparse tensors must have as many sparse dimensions"), NULL;
  cn_tensor *both = joined(x, y, dtype);
  return cni_is_coo(a) ? both : cni_in_layout_of(both, a);
}

/* s added at its places of x. */
static cn_tensor *sum_with_dense(const cn_call *c, cn_tensor *x, cn_tensor *s)
{
  cn_tensor *in[] = {x, s};
  int64_t flat[CN_MAX_DIMS + 1];
  if (!x || !s || cn_err()) return NULL;
  if (!cn_same_shape(x, s))
    return cn_call_fail(c, CN_ERR_SHAPE, "a sparse tensor is added to a dense one of its own shape only"), NULL;
  int dtype = cni_result_type(c, in, 2);
  if (!dtype || !(s = cni_as_coo(s))) return NULL;
  if (dtype == CN_BOOL) return cn_add(x, cni_dense(s));
  int dims = cni_sparse_dims(s);
  flat[0] = cni_sizes_times(s->d.shape, dims);
  memcpy(flat + 1, s->d.shape + dims, (size_t)s->sparse->dense_dim * sizeof *flat);
  cn_tensor *rows = cn_reshape(cni_in_type(x, dtype), flat, (size_t)s->sparse->dense_dim + 1);
  cn_tensor *sum = cn_index_add(rows, 0, cni_keys(s->sparse->index, dims, s->d.shape),
                                cni_in_type(s->sparse->values, dtype));
  return cn_reshape(sum, x->d.shape, (size_t)x->d.ndim);
}

static int sum(cn_call *c, cn_tensor *a, cn_tensor *b)
{
  if (!a || !b || cn_err()) return cn_err();
  if (cni_is_sparse(a) && cni_is_sparse(b)) c->out[0] = sum_of_sparse(c, a, b);
  else if (a->d.weak || b->d.weak)
    return cn_call_fail(c, CN_ERR_UNSUPPORTED, "a number added to a sparse tensor would make it dense; "
                        "cn_to_dense (to_dense()) says that this is meant");
  else c->out[0] = cni_is_sparse(a) ? sum_with_dense(c, b, a) : sum_with_dense(c, a, b);
  return cn_err();
}

int cni_sparse_add(cn_call *c) { return sum(c, c->in[0], scaled(c->in[1], &c->args[2])); }
int cni_sparse_sub(cn_call *c) { return sum(c, c->in[0], cn_neg(scaled(c->in[1], &c->args[2]))); }
int cni_sparse_rsub(cn_call *c) { return sum(c, c->in[1], cn_neg(scaled(c->in[0], &c->args[2]))); }

int cni_sparse_add_into(const cn_call *c, int id, cn_tensor *dest)
{
  cn_tensor *s = c->nin > 1 ? c->in[1] : NULL;
  int64_t flat[CN_MAX_DIMS + 1];
  if ((id != CNI_OP_add && id != CNI_OP_sub) || c->in[0] != dest || !cni_is_coo(s) || !cn_is_contiguous(dest) ||
      !cn_same_shape(dest, s) || s->d.dtype != dest->d.dtype || dest->d.dtype == CN_BOOL)
    return CN_REFUSED;
  int dims = cni_sparse_dims(s), dense = s->sparse->dense_dim;
  flat[0] = cni_sizes_times(s->d.shape, dims);
  memcpy(flat + 1, s->d.shape + dims, (size_t)dense * sizeof *flat);
  cn_tensor *values = scaled(s->sparse->values, &c->args[2]);
  cn_tensor *keys = cni_keys(s->sparse->index, dims, s->d.shape), *rows = cn_view(dest, flat, (size_t)dense + 1);
  return cn_index_add_(rows, 0, keys, id == CNI_OP_sub ? cn_neg(values) : values) ? CN_OK : cn_err();
}

/* ---- products ---- */

/* The elements of x, which broadcasts to s's shape, at s's places: of the shape of values, or one that broadcasts. */
static cn_tensor *dense_at(const cn_call *c, cn_tensor *x, cn_tensor *s)
{
  int dims = cni_sparse_dims(s), ndim = s->d.ndim, n = 0;
  int64_t shape[CN_MAX_DIMS], own[CN_MAX_DIMS], flat[CN_MAX_DIMS + 1];
  if (!cni_broadcasts_to(x->d.ndim, x->d.shape, ndim, s->d.shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "a dense tensor must broadcast to the shape of the sparse one"), NULL;
  for (int i = 0; i < ndim; i++) shape[i] = i < ndim - x->d.ndim ? 1 : x->d.shape[i - (ndim - x->d.ndim)];
  cn_tensor *keys = cn_zeros(CN_SHAPE(cn_nnz(s)), .dtype = CN_I64, .device = cn_device_of(s));
  for (int i = 0; i < dims; i++) {
    if (shape[i] == 1) continue;
    cn_tensor *row = cni_index_row(s->sparse->index, i);
    keys = n ? cn_add(cn_mul(keys, cn_int(shape[i])), row) : row;
    own[n++] = shape[i];
  }
  flat[0] = cni_sizes_times(own, n);
  memcpy(flat + 1, shape + dims, (size_t)(ndim - dims) * sizeof *flat);
  return cn_index_select(cn_reshape(x, flat, (size_t)(ndim - dims) + 1), 0, keys);
}

/* f(values, elements of a dense tensor at their places) */
static cn_tensor *with_dense(const cn_call *c, cn_tensor *s, cn_tensor *x, cn_tensor *(*f)(cn_tensor *a, cn_tensor *b))
{
  if (x->d.ndim == 0) return cni_with_values(s, f(s->sparse->values, x));
  cn_tensor *coo = cni_as_coo(s), *at = coo ? dense_at(c, x, coo) : NULL;
  cn_tensor *y = at ? cni_with_values(coo, f(coo->sparse->values, at)) : NULL;
  return y ? cni_in_layout_of(y, s) : NULL;
}

static cn_tensor *times(cn_tensor *a, cn_tensor *b) { return cn_mul(a, b); }
static cn_tensor *over(cn_tensor *a, cn_tensor *b) { return cn_true_divide(a, b); }
static cn_tensor *floor_over(cn_tensor *a, cn_tensor *b) { return cn_floor_divide(a, b); }

/* At the places that both have. */
static cn_tensor *product_of_sparse(const cn_call *c, cn_tensor *a, cn_tensor *b)
{
  if (!cn_same_shape(a, b)) return cn_call_fail(c, CN_ERR_SHAPE, "sparse tensors must have the same shape"), NULL;
  cn_tensor *x = cni_coalesced(cni_as_coo(a)), *y = cni_coalesced(cni_as_coo(b));
  if (!x || !y) return NULL;
  if (same_dims(x, y)) return cni_in_layout_of(cni_with_values(x, cn_mul(x->sparse->values, y->sparse->values)), a);
  int dims = cni_sparse_dims(x);
  if (dims != cni_sparse_dims(y))
    return cn_call_fail(c, CN_ERR_SHAPE, "sparse tensors must have as many sparse dimensions"), NULL;
  cn_tensor *have = cni_keys(y->sparse->index, dims, y->d.shape), *want = cni_keys(x->sparse->index, dims, x->d.shape);
  int64_t n = cn_nnz(y);
  if (n == 0) want = cn_slice(want, 0, 0, 0); /* none is found */
  cn_tensor *at = cn_clamp_max(cn_searchsorted(have, want, NULL), cn_int(n ? n - 1 : 0));
  cn_tensor *hit = n ? cn_eq(cn_index_select(have, 0, at), want) : cn_cast(at, CN_BOOL);
  cn_tensor *both = hit ? cn_reshape(cn_nonzero(hit), CN_SHAPE(-1)) : NULL;
  if (!both) return NULL;
  cn_tensor *values = cn_mul(cn_index_select(x->sparse->values, 0, both),
                             cn_index_select(y->sparse->values, 0, cn_index_select(at, 0, both)));
  cn_tensor *made = cni_coo(cn_index_select(x->sparse->index, 1, both), values, x->d.ndim, x->d.shape, true);
  return made ? cni_in_layout_of(made, a) : NULL;
}

int cni_sparse_mul(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1];
  if (cni_is_sparse(a) && cni_is_sparse(b)) c->out[0] = product_of_sparse(c, a, b);
  else c->out[0] = cni_is_sparse(a) ? with_dense(c, a, b, times) : with_dense(c, b, a, times);
  return cn_err();
}

static int quotient(cn_call *c, cn_tensor *(*f)(cn_tensor *a, cn_tensor *b))
{
  if (cni_is_sparse(c->in[1]))
    return cn_call_fail(c, CN_ERR_UNSUPPORTED, "a sparse tensor cannot be divided by: most of it is zero");
  c->out[0] = with_dense(c, c->in[0], c->in[1], f);
  return cn_err();
}

int cni_sparse_true_divide(cn_call *c) { return quotient(c, over); }
int cni_sparse_floor_divide(cn_call *c)
{
  cn_tensor *s = cni_coalesced(c->in[0]);
  if (!s || cni_is_sparse(c->in[1])) return quotient(c, floor_over);
  c->out[0] = with_dense(c, s, c->in[1], floor_over);
  return cn_err();
}

static cn_tensor *trunc_over(cn_tensor *a, cn_tensor *b) { return cn_div(a, b, .rounding_mode = "trunc"); }

/* div(input, other, rounding_mode) */
int cni_sparse_div(cn_call *c)
{
  if (cni_arg_none(c->args, 2)) return quotient(c, over);
  if (cni_arg_is(c->args, 2, "floor")) return cni_sparse_floor_divide(c);
  cn_tensor *s = cni_is_sparse(c->in[0]) && !cni_is_sparse(c->in[1]) ? cni_coalesced(c->in[0]) : NULL;
  if (!s) return quotient(c, trunc_over);
  c->out[0] = with_dense(c, s, c->in[1], trunc_over);
  return cn_err();
}

/* pow(input, exponent): of zero, zero */
int cni_sparse_pow(cn_call *c)
{
  cn_tensor *s = c->in[0], *exponent = c->in[1];
  if (!cni_is_sparse(s) || cni_is_sparse(exponent) || !exponent->d.weak || !(cn_item(exponent) > 0))
    return cn_call_fail(c, CN_ERR_UNSUPPORTED, "a sparse tensor has powers with a number above 0 as exponent");
  s = cni_coalesced(s);
  c->out[0] = s ? cni_with_values(s, cn_pow(s->sparse->values, exponent)) : NULL;
  return cn_err();
}
