/* linalg_composite.c: the family of linear algebra that is said with other ops: powers, chains of products, diagonals,
 * traces, tensors as matrices, Vandermonde matrices, older names.
 *
 * Place in the flow: composites only. Invariant: nothing reads a value. */
#include <cairn/kw.h>
#include <float.h>

#include "families.h"
#include "linalg.h"

/* ---- linalg_matrix_power(A, n) ---- */

static int power_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *result = NULL;
  int64_t n = cni_arg_int(c->args, 1);
  const cn_desc *d = &x->d;
  if (d->ndim < 2 || cni_rows(d) != cni_cols(d))
    return cn_call_fail(c, CN_ERR_SHAPE, "must be a square matrix or a batch of them");
  if (n == 0) {
    cn_tensor *eye = cn_eye(cni_cols(d), CN_NONE, .dtype = (cn_dtype)d->dtype, .device = c->device);
    eye = cn_expand(eye, d->shape, (size_t)d->ndim);
    c->out[0] = cn_where(cn_eq(eye, eye), eye, x); /* always eye, but with a history, as in PyTorch */
    return cn_err();
  }
  if (n < 0) x = cn_linalg_inv(x);
  uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
  for (; left; left >>= 1) {
    if (left & 1) result = result ? cn_matmul(result, x) : x;
    if (left > 1) x = cn_matmul(x, x);
  }
  c->out[0] = n == 1 ? cn_clone(result) : result;
  return cn_err();
}

/* ---- linalg_multi_dot(tensors) ---- */

enum { MOST_FACTORS = 64 };

/* The cheapest order: cost[i][k] of the product of factors i..k, and where it is split last. */
static void plan_chain(const int64_t *size, int n, signed char (*split)[MOST_FACTORS])
{
  double cost[MOST_FACTORS][MOST_FACTORS] = {{0}};
  for (int length = 1; length < n; length++)
    for (int i = 0; i + length < n; i++) {
      int k = i + length;
      cost[i][k] = -1;
      for (int at = i; at < k; at++) {
        double here = cost[i][at] + cost[at + 1][k] + (double)size[i] * (double)size[at + 1] * (double)size[k + 1];
        if (cost[i][k] >= 0 && here >= cost[i][k]) continue;
        cost[i][k] = here;
        split[i][k] = (signed char)at;
      }
    }
}

static cn_tensor *chain(cn_tensor *const *x, signed char (*split)[MOST_FACTORS], int i, int k)
{
  if (i == k) return x[i];
  return cn_mm(chain(x, split, i, split[i][k]), chain(x, split, split[i][k] + 1, k));
}

static int multi_dot_decompose(cn_call *c)
{
  int n = c->nin;
  cn_tensor *x[MOST_FACTORS];
  int64_t size[MOST_FACTORS + 1];
  signed char split[MOST_FACTORS][MOST_FACTORS];
  if (n < 2 || n > MOST_FACTORS)
    return cn_call_fail(c, CN_ERR_VALUE, "takes 2 to %d tensors, not %d", MOST_FACTORS, n);
  bool row = c->in[0]->d.ndim == 1, column = c->in[n - 1]->d.ndim == 1;
  for (int i = 0; i < n; i++) {
    const cn_desc *d = &c->in[i]->d;
    if (d->ndim != 2 && !(d->ndim == 1 && (i == 0 || i == n - 1)))
      return cn_call_fail(c, CN_ERR_SHAPE,
                          "tensor %d has %d dimensions; the first and last may have 1 or 2, the others 2", i,
                          d->ndim);
    if (d->dtype != c->in[0]->d.dtype)
      return cn_call_fail(c, CN_ERR_DTYPE, "all tensors must have one type, but tensor %d is %s", i,
                          cn_dtype_name((cn_dtype)d->dtype));
    x[i] = d->ndim == 2 ? c->in[i] : cn_unsqueeze(c->in[i], i == 0 ? 0 : 1);
    if (!x[i]) return cn_err();
    size[i] = x[i]->d.shape[0];
    if (i && size[i] != x[i - 1]->d.shape[1])
      return cn_call_fail(c, CN_ERR_SHAPE, "tensors %d and %d cannot be multiplied", i - 1, i);
  }
  size[n] = x[n - 1]->d.shape[1];
  plan_chain(size, n, split);
  cn_tensor *y = chain(x, split, 0, n - 1);
  if (column) y = cn_squeeze(y, .dim = CN_INTS(1));
  if (row) y = cn_squeeze(y, .dim = CN_INTS(0));
  c->out[0] = y;
  return cn_err();
}

/* ---- diagonals ---- */

/* linalg_diagonal(A, offset, dim1, dim2) */
static int diagonal_decompose(cn_call *c)
{
  c->out[0] = cn_diagonal(c->in[0], .offset = cni_arg_int(c->args, 1), .dim1 = cni_option(cni_arg_int(c->args, 2)),
                          .dim2 = cni_option(cni_arg_int(c->args, 3)));
  return cn_err();
}

static int trace_decompose(cn_call *c)
{
  if (c->in[0]->d.ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes a matrix, but the input has %d dimensions", c->in[0]->d.ndim);
  c->out[0] = cn_sum(cn_diagonal(c->in[0]));
  return cn_err();
}

/* ---- tensors as matrices ---- */

static int64_t product(const int64_t *shape, int from, int to)
{
  int64_t n = 1;
  for (int i = from; i < to; i++) n *= shape[i];
  return n;
}

/* linalg_tensorinv(A, ind): the first ind dims are the rows */
static int tensorinv_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t ind = cni_arg_int(c->args, 1), shape[CN_MAX_DIMS];
  if (ind <= 0) return cn_call_fail(c, CN_ERR_VALUE, "ind must be positive, but is %lld", (long long)ind);
  int k = ind < d->ndim ? (int)ind : d->ndim;
  int64_t rows = product(d->shape, 0, k), cols = product(d->shape, k, d->ndim);
  if (rows != cols)
    return cn_call_fail(c, CN_ERR_SHAPE, "the first %d dims have %lld elements, the others %lld: not square", k,
                        (long long)rows, (long long)cols);
  for (int i = 0; i < d->ndim; i++) shape[i] = d->shape[(i + k) % d->ndim];
  c->out[0] = cn_reshape(cn_linalg_inv(cn_reshape(c->in[0], CN_SHAPE(rows, cols))), shape, (size_t)d->ndim);
  return cn_err();
}

/* linalg_tensorsolve(A, B, dims): A's dims in `dims` go to the end first */
static int tensorsolve_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0];
  const cn_desc *b = &c->in[1]->d;
  const cn_value *dims = &c->args[2];
  if (dims->tag == CN_V_INTS && dims->n) {
    int64_t to[CN_MAX_DIMS];
    for (int i = 0; i < dims->n && i < CN_MAX_DIMS; i++) to[i] = i - dims->n;
    a = cn_movedim(a, dims->u.is, (size_t)dims->n, to, (size_t)dims->n);
  }
  if (!a) return cn_err();
  int left = a->d.ndim > b->ndim ? a->d.ndim - b->ndim : 0;
  int64_t n = product(b->shape, 0, b->ndim), unknown = product(a->d.shape, a->d.ndim - left, a->d.ndim);
  if (product(a->d.shape, 0, a->d.ndim) != n * unknown || n != unknown)
    return cn_call_fail(c, CN_ERR_SHAPE, "A must make a square system: %lld equations for %lld unknowns",
                        (long long)n, (long long)unknown);
  cn_tensor *x = cn_linalg_solve(cn_reshape(a, CN_SHAPE(n, n)), cn_reshape(c->in[1], CN_SHAPE(n)));
  c->out[0] = cn_reshape(x, a->d.shape + (a->d.ndim - left), (size_t)left);
  return cn_err();
}

/* vander(x, N, increasing): powers of a vector, a row each */
static int vander_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  if (x->d.ndim != 1) return cn_call_fail(c, CN_ERR_SHAPE, "takes a vector, not %d dimensions", (int)x->d.ndim);
  int64_t n = x->d.numel, width = cni_arg_int_or(c->args, 1, n);
  if (width < 0) return cn_call_fail(c, CN_ERR_VALUE, "N must not be negative, but is %lld", (long long)width);
  cn_dtype dtype = cni_dtype_is_float(x->d.dtype) ? cn_dtype_of(x) : CN_I64;
  cn_tensor *y = cn_ones(CN_SHAPE(n, width < 1 ? 0 : 1), .dtype = dtype, .device = x->d.device);
  if (width > 1) {
    cn_tensor *bases = cn_expand(cn_unsqueeze(cni_in_type(x, (int)dtype), 1), CN_SHAPE(n, width - 1));
    y = cn_cat(CN_TENSORS(y, cn_cumprod(bases, 1)), .dim = 1);
  }
  c->out[0] = cni_arg_bool(c->args, 2) ? y : cn_flip(y, CN_SHAPE(1));
  return cn_err();
}

/* linalg_vander(x, N): powers 0 to N - 1 of each element, along a new last dim */
static int linalg_vander_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS + 1];
  int n = d->ndim;
  if (d->dtype == CN_BOOL) return cn_call_fail(c, CN_ERR_DTYPE, "takes numbers, not bool");
  if ((n == 0 && cni_arg_none(c->args, 1)) || n == CN_MAX_DIMS)
    return cn_call_fail(c, CN_ERR_SHAPE, "must have 1 to %d dims", CN_MAX_DIMS - 1);
  int64_t count = cni_arg_int_or(c->args, 1, n ? d->shape[n - 1] : 0);
  if (count <= 1) return cn_call_fail(c, CN_ERR_VALUE, "N must be greater than 1, but is %lld", (long long)count);
  memcpy(shape, d->shape, (size_t)n * sizeof *shape);
  if (n == 0) shape[n++] = 1; /* as a vector of one */
  shape[n] = 1;
  cn_tensor *one =
      cn_expand(cn_ones(CN_SHAPE(1), .dtype = (cn_dtype)d->dtype, .device = c->device), shape, (size_t)n + 1);
  shape[n] = count - 1;
  cn_tensor *rest = cn_expand(cn_unsqueeze(c->in[0], -1), shape, (size_t)n + 1);
  c->out[0] = cn_cat(CN_TENSORS(one, cn_cumprod(rest, -1)), .dim = -1);
  return cn_err();
}

/* ---- older names ---- */

static int inverse_decompose(cn_call *c)
{
  c->out[0] = cn_linalg_inv(c->in[0]);
  return cn_err();
}
static int old_det_decompose(cn_call *c)
{
  c->out[0] = cn_linalg_det(c->in[0]);
  return cn_err();
}
static int old_power_decompose(cn_call *c)
{
  c->out[0] = cn_linalg_matrix_power(c->in[0], cni_arg_int(c->args, 1));
  return cn_err();
}
/* triangular_solve(b, A, upper, transpose, unitriangular) -> (solution, cloned_coefficient) */
static int old_triangular_decompose(cn_call *c)
{
  bool upper = cni_arg_bool(c->args, 2), transposed = cni_arg_bool(c->args, 3);
  cn_tensor *a = transposed ? cni_swapped(c->in[1]) : c->in[1];
  c->out[0] =
      cn_linalg_solve_triangular(a, c->in[0], transposed ? !upper : upper, .unitriangular = cni_arg_bool(c->args, 4));
  int64_t shape[CN_MAX_DIMS] = {0};
  int n = 0;
  if (!c->out[0]) return cn_err();
  cni_broadcast(&n, shape, c->out[0]->d.ndim - 2, c->out[0]->d.shape);
  shape[n++] = cni_rows(&c->in[1]->d);
  shape[n++] = cni_cols(&c->in[1]->d);
  c->out[1] = cn_clone(cn_expand(c->in[1], shape, (size_t)n));
  return cn_err();
}

/* clang-format off */
const cn_op cni_linalg_composite_ops[] = {
  {.sig = "linalg_matrix_power(Tensor A, int n) -> Tensor ; linalg amp_f32_host complex",
   .doc = "A square matrix to an integer power; a negative one of its inverse.",
   .flags = CN_OP_COMPOSITE, .decompose = power_decompose},
  {.sig = "matrix_power(Tensor input, int n) -> Tensor ; method complex",
   .doc = "linalg_matrix_power by its older name.",
   .flags = CN_OP_COMPOSITE, .decompose = old_power_decompose},
  {.sig = "linalg_multi_dot(Tensor[] tensors) -> Tensor ; linalg amp_low_device complex",
   .doc = "Product of a chain of matrices in the cheapest order; the first and last may be vectors.",
   .flags = CN_OP_COMPOSITE, .decompose = multi_dot_decompose},
  {.sig = "linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor ; linalg complex",
   .doc = "A view of the diagonals of matrices: diagonal with the last two dims by default.",
   .flags = CN_OP_COMPOSITE, .decompose = diagonal_decompose},
  {.sig = "matrix_trace(Tensor input) -> Tensor ; method overload_trace complex",
   .doc = "Sum of the diagonal of a matrix: PyTorch's trace, a name that C gives to capture.",
   .flags = CN_OP_COMPOSITE, .decompose = trace_decompose},
  {.sig = "linalg_tensorinv(Tensor A, int ind=2) -> Tensor ; linalg amp_f32_host complex",
   .doc = "Inverse of a tensor whose first ind dims are the rows of a square matrix and the others its columns.",
   .flags = CN_OP_COMPOSITE, .decompose = tensorinv_decompose},
  {.sig = "linalg_tensorsolve(Tensor A, Tensor B, int[]? dims=None) -> Tensor ; linalg amp_f32_host complex",
   .doc = "X of tensordot(A, X) = B, over all dims of X; dims of A are moved to its end first.",
   .flags = CN_OP_COMPOSITE, .decompose = tensorsolve_decompose},
  {.sig = "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor ; complex",
   .doc = "The powers 0 to N - 1 (N: the length of x) of a vector's elements, a row each, highest first unless "
          "increasing.",
   .flags = CN_OP_COMPOSITE, .decompose = vander_decompose},
  {.sig = "linalg_vander(Tensor x, *, int? N=None) -> Tensor ; linalg complex",
   .doc = "The powers 0 to N - 1 of each element, along a new last dim; N is the size of the last dim by default.",
   .flags = CN_OP_COMPOSITE, .decompose = linalg_vander_decompose},
  {.sig = "inverse(Tensor input) -> Tensor ; method amp_f32_host complex",
   .doc = "linalg_inv by its older name.",
   .flags = CN_OP_COMPOSITE, .decompose = inverse_decompose},
  {.sig = "det(Tensor input) -> Tensor ; method amp_f32_host complex",
   .doc = "linalg_det by its older name.",
   .flags = CN_OP_COMPOSITE, .decompose = old_det_decompose},
  {.sig = "triangular_solve(Tensor b, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> "
          "(Tensor solution, Tensor cloned_coefficient) ; method complex",
   .doc = "linalg_solve_triangular by its older name, and a copy of A.",
   .flags = CN_OP_COMPOSITE, .decompose = old_triangular_decompose},
};
/* clang-format on */
CNI_FAMILY(linalg_composite);
