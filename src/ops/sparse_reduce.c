/* sparse_reduce.c: the family of sums and softmaxes of sparse tensors, and the rules of sum and norms.
 *
 * Place in the flow: composites over sums by key. Invariant: places that are not there count as zeros in sums, and as
 * minus infinity in softmaxes, as in PyTorch. */
#include <cairn/ext/parts.h>

#include "families.h"
#include "sparse.h"

/* ---- sums ---- */

/* The sum over sparse dims of a mask: places without them, values as they are, to be added up. */
static cn_tensor *fewer_places(cn_tensor *s, cn_tensor *values, uint32_t mask, int ndim, const int64_t *shape)
{
  int dims = cni_sparse_dims(s), n = 0;
  cn_tensor *rows[CN_MAX_DIMS];
  for (int i = 0; i < dims; i++)
    if (!(mask >> i & 1)) rows[n++] = cni_index_row(s->sparse->index, i);
  if (cn_err()) return NULL;
  cn_tensor *y = cni_coo(cn_stack(rows, (size_t)n, .dim = 0), values, ndim, shape, n == dims && s->sparse->coalesced);
  return cni_coalesced(y);
}

/* Along the dims of a mask: dense where no sparse dim is left. */
static cn_tensor *sum_along(cn_tensor *s, uint32_t mask, int dtype)
{
  int dims = cni_sparse_dims(s), n = 0, left = 0, dense = 0;
  int64_t shape[CN_MAX_DIMS], along[CN_MAX_DIMS];
  for (int i = 0; i < s->d.ndim; i++) {
    if (mask >> i & 1) {
      if (i >= dims) along[dense++] = i - dims + 1;
    } else {
      shape[n++] = s->d.shape[i];
      left += i < dims;
    }
  }
  cn_sum_opts o = {.size = sizeof o, .dtype = (cn_dtype)dtype, .dim = {along, (size_t)dense}};
  cn_tensor *values = dense ? cn_sum_with(s->sparse->values, &o) : cni_in_type(s->sparse->values, dtype);
  if (left) return fewer_places(s, values, mask, n, shape);
  return cn_sum(values, .dim = CN_INTS(0), .dtype = (cn_dtype)dtype);
}

static cn_tensor *with_ones(cn_tensor *y, cn_tensor *s, uint32_t mask)
{
  for (int i = 0; i < s->d.ndim && y; i++)
    if (mask >> i & 1) y = cn_unsqueeze(y, i);
  return y;
}

static int summed_type(const cn_call *c, int at)
{
  if (!cni_arg_none(c->args, at)) return (int)cni_arg_int(c->args, at);
  int dtype = c->in[0]->d.dtype;
  return cni_dtype_is_inexact(dtype) ? dtype : CN_I64;
}

/* sum(input, dim, keepdim, dtype) */
int cni_sparse_sum(cn_call *c)
{
  cn_tensor *s = cni_as_coo(c->in[0]);
  uint32_t mask;
  int dtype = summed_type(c, 3);
  bool all = cni_arg_none(c->args, 1) || c->args[1].n == 0;
  int status = s ? cni_dims_mask(c, &c->args[1], s->d.ndim, &mask) : cn_err();
  if (status) return status;
  if (all) {
    cn_tensor *y = cn_sum(s->sparse->values, .dtype = (cn_dtype)dtype);
    c->out[0] = cni_arg_bool(c->args, 2) ? with_ones(y, s, (1u << s->d.ndim) - 1) : y;
    return cn_err();
  }
  cn_tensor *y = sum_along(s, mask, dtype);
  if (y && cni_arg_bool(c->args, 2)) y = with_ones(y, s, mask);
  bool matrix = y && !cni_is_coo(c->in[0]) && y->d.ndim == c->in[0]->d.ndim;
  c->out[0] = matrix ? cni_in_layout_of(y, c->in[0]) : y;
  return cn_err();
}

/* sparse_sum(input, dim, dtype): torch.sparse.sum, which adds up values of any type in their own */
static int sparse_sum_decompose(cn_call *c)
{
  cn_tensor *s = cni_as_coo(c->in[0]);
  uint32_t mask;
  if (!s || !cni_is_sparse(s)) return cn_err() ? cn_err() : cn_call_fail(c, CN_ERR_TYPE, "input must be sparse");
  int dtype = (int)cni_arg_int_or(c->args, 2, cni_arg_none(c->args, 1) ? summed_type(c, 2) : s->d.dtype);
  if (cni_arg_none(c->args, 1)) {
    c->out[0] = cn_sum(s->sparse->values, .dtype = (cn_dtype)dtype);
    return cn_err();
  }
  if (c->args[1].n == 0) return cn_call_fail(c, CN_ERR_VALUE, "dim must name at least one dimension");
  int status = cni_dims_mask_strict(c, &c->args[1], s->d.ndim, &mask);
  if (!status) c->out[0] = sum_along(s, mask, dtype);
  return status ? status : cn_err();
}

/* linalg_vector_norm(input, ord, dim, keepdim, dtype): over all elements; those that are not there are zeros */
int cni_sparse_linalg_vector_norm(cn_call *c)
{
  cn_tensor *s = cni_coalesced(cni_as_coo(c->in[0]));
  if (!s) return cn_err();
  if (!cni_arg_none(c->args, 2) && c->args[2].n && c->args[2].n != s->d.ndim)
    return cn_call_fail(c, CN_ERR_UNSUPPORTED, "norms of sparse tensors are over all dimensions");
  if (cni_arg_float(c->args, 1) <= 0)
    return cn_call_fail(c, CN_ERR_UNSUPPORTED, "norms of sparse tensors are of an order above 0");
  cn_dtype dtype = cni_arg_none(c->args, 4) ? CN_DTYPE_NONE : (cn_dtype)cni_arg_int(c->args, 4);
  cn_tensor *y = cn_linalg_vector_norm(s->sparse->values, .ord = cni_arg_float(c->args, 1), .dtype = dtype);
  c->out[0] = cni_arg_bool(c->args, 3) ? with_ones(y, s, (1u << s->d.ndim) - 1) : y;
  return cn_err();
}

/* ---- softmax over what is there ---- */

/* For each value the number of its group: places that differ along dim alone. Returns how many groups there are. */
static int64_t groups_along(cn_tensor *s, int dim, cn_tensor **group)
{
  int dims = cni_sparse_dims(s), n = 0;
  int64_t shape[CN_MAX_DIMS];
  cn_tensor *rows[CN_MAX_DIMS], *found;
  for (int i = 0; i < dims; i++) {
    if (i == dim) continue;
    shape[n] = s->d.shape[i];
    rows[n++] = cni_index_row(s->sparse->index, i);
  }
  cn_tensor *keys = n && !cn_err() ? cni_keys(cn_stack(rows, (size_t)n, .dim = 0), n, shape)
                                   : cn_zeros(CN_SHAPE(cn_nnz(s)), .dtype = CN_I64, .device = cn_device_of(s));
  if (!keys || cn_unique(&found, group, NULL, keys, CN_NONE, .return_inverse = true)) return -1;
  return cn_size(found, 0);
}

/* values (n, ...) less the largest of each group, and the sums of exponentials at each value. */
static cn_tensor *softmax_values(cn_tensor *values, cn_tensor *group, int64_t groups, bool log)
{
  int64_t shape[CN_MAX_DIMS];
  int ndim = values->d.ndim;
  if (values->d.numel == 0) return values;
  memcpy(shape, values->d.shape, (size_t)ndim * sizeof *shape);
  shape[0] = groups;
  cn_tensor *least = cn_full(shape, (size_t)ndim, -(double)__builtin_inff(), .dtype = cn_dtype_of(values),
                             .device = cn_device_of(values));
  cn_tensor *most = cn_index_reduce(least, 0, group, cn_detach(values), "amax");
  cn_tensor *low = cn_sub(values, cn_index_select(most, 0, group)), *e = cn_exp(low);
  cn_tensor *zeros = cn_zeros(shape, (size_t)ndim, .dtype = cn_dtype_of(values), .device = cn_device_of(values));
  cn_tensor *sums = cn_index_add(zeros, 0, group, e);
  if (log) return cn_sub(low, cn_index_select(cn_log(sums), 0, group));
  return cn_true_divide(e, cn_index_select(sums, 0, group));
}

/* sparse_softmax(input, dim, dtype) */
static int softmax(cn_call *c, bool log)
{
  cn_tensor *s = c->in[0], *group;
  if (!cni_is_coo(s)) return cn_call_fail(c, CN_ERR_TYPE, "expected a tensor of layout sparse_coo, but got %s",
                                          cni_layout_name(s->d.layout));
  if (!cni_arg_none(c->args, 2)) s = cn_cast(s, (cn_dtype)cni_arg_int(c->args, 2));
  s = cni_coalesced(s);
  int dim = s ? cn_call_dim(c, cni_arg_int(c->args, 1), s->d.ndim) : cn_err();
  if (dim < 0) return dim;
  if (!cni_dtype_is_float(s->d.dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "is for floating-point types");
  int dims = cni_sparse_dims(s);
  cn_tensor *values = s->sparse->values, *y;
  if (dim >= dims) y = log ? cn_log_softmax(values, dim - dims + 1) : cn_softmax(values, dim - dims + 1);
  else {
    int64_t groups = groups_along(s, dim, &group);
    y = groups < 0 ? NULL : softmax_values(values, group, groups, log);
  }
  c->out[0] = cni_with_values(s, y);
  return cn_err();
}

static int sparse_softmax_decompose(cn_call *c) { return softmax(c, false); }
static int sparse_log_softmax_decompose(cn_call *c) { return softmax(c, true); }

/* clang-format off */
#define MAKES CN_OP_COMPOSITE | CN_OP_SPARSE
const cn_op cni_sparse_reduce_ops[] = {
  {.sig = "sparse_sum(Tensor input, int[]? dim=None, *, dtype? dtype=None) -> Tensor",
   .doc = "The sum of a sparse tensor's elements, all or along dimensions: a COO tensor while sparse dimensions are "
          "left.",
   .flags = MAKES, .decompose = sparse_sum_decompose},
  {.sig = "sparse_softmax(Tensor input, int dim, *, dtype? dtype=None) -> Tensor",
   .doc = "softmax of a COO tensor along a dimension, where what is not there counts as minus infinity.",
   .flags = MAKES, .decompose = sparse_softmax_decompose},
  {.sig = "sparse_log_softmax(Tensor input, int dim, *, dtype? dtype=None) -> Tensor",
   .doc = "Logarithm of sparse_softmax.",
   .flags = MAKES, .decompose = sparse_log_softmax_decompose},
};
/* clang-format on */
CNI_FAMILY(sparse_reduce);
