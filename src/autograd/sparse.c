/* sparse.c: sparse tensors as autograd sees them: by their values.
 *
 * Place in the flow: api.c asks here where a tensor is sparse; engine.c gives the gradient of a sparse leaf its places.
 * Invariant: the node of a sparse leaf keeps its places, but no tensor with a history. */
#include "ops/sparse.h"

#include "autograd.h"

/* A handle with t's places and memory that has no history. Owned. */
static cn_tensor *places_of(const cn_tensor *t)
{
  cni_sparse parts = *t->sparse;
  if (!(parts.values = cni_tensor_alias(parts.values))) return NULL;
  cn_tensor *places = cni_sparse_new((cn_layout)t->d.layout, &parts, t->d.ndim, t->d.shape);
  cni_tensor_release(parts.values);
  return places;
}

cn_tensor *cni_sparse_requires_grad(cn_tensor *t, bool on)
{
  cn_tensor *values = t->sparse->values;
  bool had = cni_node_of(values) != NULL;
  if (!cn_requires_grad(values, on)) return NULL;
  if (!on || had) return t;
  cni_extra *extra = cni_node_extra(values->node);
  return extra && (extra->places = places_of(t)) ? t : NULL;
}

/* Values of one place have one gradient, each of them: that of the place. */
static cn_tensor *once_each(cn_tensor *s, cn_tensor *grad)
{
  int dims = cni_sparse_dims(s);
  cn_tensor *keys = cni_keys(s->sparse->index, dims, s->d.shape), *again = keys;
  cn_tensor *ones = keys ? cn_ones(CN_SHAPE(cn_size(keys, 0)), .dtype = CN_I64, .device = cn_device_of(keys)) : NULL;
  cn_tensor *sums = cni_sum_by_key(&keys, grad), *counts = cni_sum_by_key(&again, ones);
  int64_t shape[CN_MAX_DIMS] = {-1};
  for (int i = 1; i < grad->d.ndim; i++) shape[i] = 1;
  cn_tensor *values = cn_true_divide(sums, cn_reshape(counts, shape, (size_t)grad->d.ndim));
  return cni_coo(cni_of_keys(keys, dims, s->d.shape), values, s->d.ndim, s->d.shape, true);
}

cn_tensor *cni_sparse_like(cn_tensor *s, cn_tensor *grad)
{
  if (!grad || cni_is_sparse(grad)) return grad;
  return cni_is_coo(s) && !s->sparse->coalesced && cn_nnz(s) > 1 ? once_each(s, grad) : cni_with_values(s, grad);
}

cn_tensor *cni_sparse_seed(cn_tensor *s, cn_tensor *given)
{
  if (cni_is_sparse(given) && cni_is_coo(s) && given->sparse->index == s->sparse->index) return given->sparse->values;
  if (cni_is_coo(s) && s->sparse->coalesced) {
    cn_tensor *masked = cn_sparse_mask(given, cn_detach(s));
    return masked ? masked->sparse->values : NULL;
  }
  cn_tensor *dense = cni_dense(given);
  if (!dense || !cni_is_coo(s)) { /* compressed: the same places, in the same order */
    cn_tensor *masked = dense ? cn_sparse_mask(dense, cn_detach(s)) : NULL;
    return masked ? masked->sparse->values : NULL;
  }
  int dims = cni_sparse_dims(s);
  int64_t flat[CN_MAX_DIMS + 1] = {cni_sizes_times(s->d.shape, dims)};
  memcpy(flat + 1, s->d.shape + dims, (size_t)s->sparse->dense_dim * sizeof *flat);
  return cn_index_select(cn_reshape(dense, flat, (size_t)s->sparse->dense_dim + 1), 0,
                         cni_keys(s->sparse->index, dims, s->d.shape));
}

int cni_sparse_end(cn_tensor **g)
{
  if (!cni_is_sparse(*g)) return CN_OK;
  size_t depth = cni_scope_push();
  cn_tensor *dense = cn_to_dense(*g);
  int status = dense ? cn_set(g, dense) : cn_err();
  cni_scope_pop(depth);
  return status;
}

int cni_sparse_leaf(const cni_node *n, cn_tensor **g)
{
  cn_tensor *places = n->extra ? n->extra->places : NULL;
  int status = places ? cni_sparse_end(g) : CN_OK;
  if (status || !places) return status;
  size_t depth = cni_scope_push();
  cn_tensor *sparse = cni_sparse_like(places, *g);
  status = sparse ? cn_set(g, sparse) : cn_err();
  cni_scope_pop(depth);
  return status;
}
