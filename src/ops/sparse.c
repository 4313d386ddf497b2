/* sparse.c: calls with sparse tensors become calls of ops on their parts, by the table sparse_rules.def; and what the
 * rules share.
 *
 * Place in the flow: apply -> cni_sparse_lower -> the rule, as if it were the op's decomposition, above autograd and
 * capture. So a sparse tensor's history is that of its values, gradients follow by composition, and kernels, graphs and
 * devices see dense tensors alone. Invariant: an op that is not in the table is refused. */
#include "sparse.h"

#include "api.gen.h"
#include "complex.h"

/* ---- the table ---- */

typedef enum way { WAY_NONE, WAY_AS_IS, WAY_LINEAR, WAY_EACH, WAY_RULE, WAY_RULE_ANY } way;
typedef struct rule {
  way way;
  int (*lowered)(cn_call *call);
} rule;

static const rule rules[CNI_OP_COUNT_BUILTIN] = {
#define SPARSE_AS_IS(name) [CNI_OP_##name] = {WAY_AS_IS, NULL},
#define SPARSE_LINEAR(name) [CNI_OP_##name] = {WAY_LINEAR, NULL},
#define SPARSE_EACH(name) [CNI_OP_##name] = {WAY_EACH, NULL},
#define SPARSE_RULE(name) [CNI_OP_##name] = {WAY_RULE, cni_sparse_##name},
#define SPARSE_RULE_ANY(name) [CNI_OP_##name] = {WAY_RULE_ANY, cni_sparse_##name},
#include "sparse_rules.def"
#undef SPARSE_AS_IS
#undef SPARSE_LINEAR
#undef SPARSE_EACH
#undef SPARSE_RULE
#undef SPARSE_RULE_ANY
};

/* The call on the values of its first tensor, whose places the result has. */
static int on_values_of(cn_call *c, cn_tensor *s)
{
  cn_tensor *in[CN_MAX_ARGS];
  if (c->nin > CN_MAX_ARGS || c->nout != 1) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "is not for sparse tensors");
  if (!s) return cn_err();
  for (int i = 0; i < c->nin; i++) {
    cn_tensor *t = c->in[i] == c->in[0] ? s : c->in[i];
    if (cni_is_sparse(t) && (t->d.layout != s->d.layout || t->sparse->index != s->sparse->index))
      return cn_call_fail(c, CN_ERR_UNSUPPORTED, "sparse tensors must have the same places");
    in[i] = cni_is_sparse(t) ? t->sparse->values : t;
  }
  c->out[0] = cni_with_values(s, cni_call_again(c, in));
  return cn_err();
}

static int on_values(cn_call *c) { return on_values_of(c, c->in[0]); }
static int on_each(cn_call *c) { return on_values_of(c, cni_coalesced(c->in[0])); }

static int refuse(const cni_opinfo *info)
{
  return cni_fail(CN_ERR_UNSUPPORTED, "%s: is not implemented for sparse tensors; cn_to_dense (to_dense()) gives one "
                  "that it takes", info->name);
}

int cni_sparse_lower(const cni_opinfo *info, const cn_call *c, int (**lowered)(cn_call *call))
{
  static const rule none = {WAY_NONE, NULL};
  const rule *r = info->id < CNI_OP_COUNT_BUILTIN ? &rules[info->id] : &none;
  bool any = false;
  for (int i = 0; i < c->nin; i++) any |= cni_is_sparse(c->in[i]);
  if (!any)
    return cni_fail(CN_ERR_UNSUPPORTED, "%s: the result of dense tensors cannot be written to a sparse one",
                    info->name);
  switch (r->way) {
  case WAY_AS_IS: *lowered = info->row->decompose; return CN_OK;
  case WAY_LINEAR: *lowered = on_values; break;
  case WAY_EACH: *lowered = on_each; break;
  case WAY_RULE: *lowered = r->lowered; break;
  case WAY_RULE_ANY: *lowered = r->lowered; return CN_OK;
  default: return refuse(info);
  }
  if (cni_is_sparse(c->in[0])) return CN_OK;
  return cni_fail(CN_ERR_UNSUPPORTED, "%s: only its first tensor may be sparse", info->name);
}

/* ---- in place ---- */

static bool same_places(const cn_tensor *a, const cn_tensor *b)
{
  const cni_sparse *x = a->sparse, *y = b->sparse;
  const cn_desc *v = &x->values->d, *w = &y->values->d;
  return x->index == y->index && x->plain == y->plain && cni_same_shape(v->ndim, v->shape, w->ndim, w->shape);
}

/* The values that dest gets: in its type, in memory that nobody else writes to. */
static cn_tensor *values_for(const cn_tensor *dest, cn_tensor *values)
{
  cn_tensor *in_type = cni_in_type(values, dest->d.dtype);
  return in_type == values && atomic_load(&values->storage->refs) > 1 ? cn_clone(values) : in_type;
}

int cni_sparse_write(const char *who, cn_tensor *dest, cn_tensor *result)
{
  cn_tensor *values = dest->sparse->values;
  if (!cni_is_sparse(result))
    return cni_fail(CN_ERR_UNSUPPORTED, "%s: its result is dense, which a sparse tensor cannot take in place", who);
  if (result->d.layout != dest->d.layout || !cn_same_shape(result, dest))
    return cni_fail(CN_ERR_SHAPE, "%s: its result has another shape or layout than the tensor it is written to", who);
  if ((cni_dtype_is_inexact(result->d.dtype) && !cni_dtype_is_inexact(dest->d.dtype)) ||
      (cni_dtype_is_complex(result->d.dtype) && !cni_dtype_is_complex(dest->d.dtype)))
    return cni_fail(CN_ERR_DTYPE, "%s: the result is %s, which a tensor of %s cannot hold", who,
                    cn_dtype_name((cn_dtype)result->d.dtype), cn_dtype_name((cn_dtype)dest->d.dtype));
  if (!cni_state()->no_grad && values->node && cn_is_leaf(values))
    return cni_fail(CN_ERR_GRAD, "%s: a leaf that requires a gradient cannot be changed in place; do it under "
                    "cn_no_grad_begin", who);
  if (same_places(dest, result)) return cn_copy_(values, result->sparse->values) ? CN_OK : cn_err();
  cni_sparse parts = *result->sparse;
  if (!(parts.values = values_for(dest, parts.values))) return cn_err();
  cn_tensor *made = cni_scope_add(cni_sparse_new((cn_layout)dest->d.layout, &parts, dest->d.ndim, dest->d.shape));
  return made ? cni_sparse_become(dest, made) : cn_err();
}

/* ---- making ---- */

cn_tensor *cni_own_handle(cn_tensor *t)
{
  if (!t || cn_err()) return NULL;
  if (!cni_state()->no_grad && cn_needs_grad(t)) return cn_view(t, t->d.shape, (size_t)t->d.ndim);
  return cni_scope_add(cni_tensor_alias(t));
}

/* The handle of values is the sparse tensor's alone: one that others hold, too, is not it. */
static cn_tensor *made_of(cn_layout layout, cni_sparse *parts, int ndim, const int64_t *shape)
{
  if (atomic_load(&parts->values->refs) > 1 && !(parts->values = cni_own_handle(parts->values))) return NULL;
  return cni_scope_add(cni_sparse_new(layout, parts, ndim, shape));
}

cn_tensor *cni_coo(cn_tensor *indices, cn_tensor *values, int ndim, const int64_t *shape, bool coalesced)
{
  if (!indices || !values || cn_err()) return NULL;
  cni_sparse parts = {.index = indices, .values = values, .dense_dim = values->d.ndim - 1, .coalesced = coalesced};
  return made_of(CN_LAYOUT_COO, &parts, ndim, shape);
}

cn_tensor *cni_compressed(cn_layout layout, cn_tensor *index, cn_tensor *plain, cn_tensor *values, int ndim,
                          const int64_t *shape, int dense_dim)
{
  if (!index || !plain || !values || cn_err()) return NULL;
  cni_sparse parts = {.index = index, .plain = plain, .values = values, .dense_dim = dense_dim};
  return made_of(layout, &parts, ndim, shape);
}

cn_tensor *cni_with_values(cn_tensor *like, cn_tensor *values)
{
  if (!like || !values || cn_err()) return NULL;
  cni_sparse parts = *like->sparse;
  parts.values = values;
  return made_of((cn_layout)like->d.layout, &parts, like->d.ndim, like->d.shape);
}

cn_tensor *cni_coo_empty(int ndim, const int64_t *shape, int dense_dim, int dtype, cn_device device)
{
  int64_t size[CN_MAX_DIMS] = {0};
  memcpy(size + 1, shape + ndim - dense_dim, (size_t)dense_dim * sizeof *size);
  cn_tensor *indices = cn_zeros(CN_SHAPE(ndim - dense_dim, 0), .dtype = CN_I64, .device = device);
  cn_tensor *values = cn_zeros(size, (size_t)dense_dim + 1, .dtype = (cn_dtype)dtype, .device = device);
  return cni_coo(indices, values, ndim, shape, true);
}

cn_tensor *cni_sparse_rows(cn_tensor *each, cn_tensor *index, int64_t padding, const cn_meta *table)
{
  index = index ? cni_in_type(cn_detach(index), CN_I64) : NULL;
  if (padding >= 0 && index) {
    cn_tensor *keep = cn_reshape(cn_nonzero(cn_ne(index, cn_int(padding))), CN_SHAPE(-1));
    index = cn_index_select(index, 0, keep);
    each = cn_index_select(each, 0, keep);
  }
  return cni_coo(cn_unsqueeze(index, 0), each, 2, table->shape, false);
}

/* ---- places as numbers ---- */

int64_t cni_sizes_times(const int64_t *shape, int n)
{
  int64_t product = 1;
  for (int i = 0; i < n; i++) product *= shape[i];
  return product;
}

cn_tensor *cni_keys(cn_tensor *indices, int dims, const int64_t *shape)
{
  if (!indices) return NULL;
  if (dims == 0) return cn_zeros(CN_SHAPE(cn_size(indices, 1)), .dtype = CN_I64, .device = cn_device_of(indices));
  cn_tensor *keys = cni_index_row(indices, 0);
  for (int i = 1; i < dims; i++) keys = cn_add(cn_mul(keys, cn_int(shape[i])), cni_index_row(indices, i));
  return keys;
}

cn_tensor *cni_of_keys(cn_tensor *keys, int dims, const int64_t *shape)
{
  cn_tensor *rows[CN_MAX_DIMS];
  if (!keys) return NULL;
  if (dims == 0) return cn_zeros(CN_SHAPE(0, cn_size(keys, 0)), .dtype = CN_I64, .device = cn_device_of(keys));
  for (int i = dims - 1; i >= 0; i--) {
    cn_tensor *size = cn_int(shape[i] ? shape[i] : 1);
    rows[i] = i ? cn_remainder(keys, size) : keys;
    if (i) keys = cn_floor_divide(keys, size);
  }
  return cn_stack(rows, (size_t)dims, .dim = 0);
}

cn_tensor *cni_sum_by_key(cn_tensor **keys, cn_tensor *values)
{
  cn_tensor *inverse, *found;
  int64_t shape[CN_MAX_DIMS];
  if (!*keys || !values || cn_unique(&found, &inverse, NULL, *keys, CN_NONE, .return_inverse = true)) return NULL;
  *keys = found;
  memcpy(shape, values->d.shape, (size_t)values->d.ndim * sizeof *shape);
  shape[0] = cn_size(found, 0);
  cn_zeros_opts o = {.size = sizeof o, .dtype = cn_dtype_of(values), .device = cn_device_of(values)};
  if (values->d.dtype == CN_BOOL) /* is there any? */
    return cn_ne(cn_index_add(cn_zeros(shape, (size_t)values->d.ndim, .dtype = CN_I64, .device = o.device), 0, inverse,
                              cn_cast(values, CN_I64)), cn_int(0));
  return cn_index_add(cn_zeros_with(shape, (size_t)values->d.ndim, &o), 0, inverse, values);
}

cn_tensor *cni_coalesced(cn_tensor *s)
{
  if (!s || !cni_is_coo(s) || s->sparse->coalesced) return s;
  int dims = cni_sparse_dims(s);
  cn_tensor *indices = s->sparse->index, *values = s->sparse->values;
  if (cn_size(indices, 1) < 2) return cni_coo(indices, values, s->d.ndim, s->d.shape, true);
  cn_tensor *keys = cni_keys(indices, dims, s->d.shape), *sums = cni_sum_by_key(&keys, values);
  return cni_coo(cni_of_keys(keys, dims, s->d.shape), sums, s->d.ndim, s->d.shape, true);
}
