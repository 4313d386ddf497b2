/* linalg_lu.c: the family of the LU decomposition: factors packed and unpacked, solving with them, logarithms of
 * determinants, and solving with a Cholesky factor.
 *
 * Place in the flow: one kernel factors (backends/cpu/linalg/linalg_lu.c); the rest is made of it. Invariant: A = P L
 * U, with L and U in one matrix where they are packed (the ones of L's diagonal are not stored) and pivots that count
 * from 1. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "cost.h"
#include "families.h"
#include "linalg.h"

/* ---- linalg_lu_factor_ex(A, pivot, check_errors) -> (LU, pivots, info) ---- */

static int lu_factor_infer(cn_call *c)
{
  int status = cni_check_matrix(c, 0);
  const cn_desc *a = &c->in[0]->d;
  if (status) return status;
  if (!cni_arg_bool(c->args, 1))
    return cn_call_fail(c, CN_ERR_UNSUPPORTED, "pivot=False is not implemented: rows are always exchanged");
  int64_t rows = cni_rows(a), cols = cni_cols(a);
  status = cn_call_result(c, 0, a->dtype, a->ndim, a->shape);
  if (!status) status = cni_matrix_result(c, 1, CN_I32, rows < cols ? rows : cols, -1);
  return status ? status : cni_matrix_result(c, 2, CN_I32, -1, -1);
}

/* The gradient of A = L U, square: L^-T (tril(L^T gL, -1) + triu(gU U^T)) U^-T; lu holds both, g both gradients. */
static cn_tensor *square_gradient(cn_tensor *lu, cn_tensor *gl, cn_tensor *gu)
{
  cn_tensor *l = cn_add(cn_tril(lu, .diagonal = -1),
                        cn_eye(cn_size(lu, -1), CN_NONE, .dtype = cn_dtype_of(lu), .device = cn_device_of(lu)));
  cn_tensor *below = cn_tril(cn_matmul(cni_adjoint(l), cn_tril(gl, .diagonal = -1)), .diagonal = -1);
  cn_tensor *above = cn_triu(cn_matmul(cn_triu(gu), cni_adjoint(cn_triu(lu))));
  cn_tensor *x = cn_linalg_solve_triangular(cni_adjoint(lu), cn_add(below, above), true, .unitriangular = true);
  return cn_linalg_solve_triangular(cni_adjoint(lu), x, false, .no_left = true);
}

/* Wide: U = [U1 U2], U2 = L^-1 A2. Tall: L = [L1; L2], L2 = A2 U^-1. */
static cn_tensor *packed_gradient(cn_tensor *lu, cn_tensor *g)
{
  int64_t m = cn_size(lu, -2), n = cn_size(lu, -1), k = m < n ? m : n;
  if (m == n) return square_gradient(lu, g, g);
  int dim = m < n ? -1 : -2;
  cn_tensor *lu1 = cn_narrow(lu, dim, 0, k), *lu2 = cn_narrow(lu, dim, k, (m > n ? m : n) - k);
  cn_tensor *g1 = cn_narrow(g, dim, 0, k), *g2 = cn_narrow(g, dim, k, (m > n ? m : n) - k), *first, *second;
  if (m < n) {
    second = cn_linalg_solve_triangular(cni_adjoint(lu1), g2, true, .unitriangular = true);
    first = square_gradient(lu1, cn_sub(g1, cn_matmul(second, cni_adjoint(lu2))), g1);
  } else {
    second = cn_linalg_solve_triangular(cni_adjoint(lu1), g2, false, .no_left = true);
    first = square_gradient(lu1, g1, cn_sub(g1, cn_matmul(cni_adjoint(lu2), second)));
  }
  return cn_cat(CN_TENSORS(first, second), .dim = dim);
}

/* Rows of x (..., m, k) to where the permutation (..., m) says they come from (or, back, to where they go). */
static cn_tensor *permuted(cn_tensor *x, cn_tensor *permutation, bool back)
{
  cn_tensor *order = back ? cn_argsort(permutation, .dim = -1) : permutation;
  int64_t shape[CN_MAX_DIMS] = {0};
  int nd = 0;
  if (!x || !order) return NULL;
  cni_broadcast(&nd, shape, x->d.ndim - 2, x->d.shape); /* the callers have checked that they fit */
  cni_broadcast(&nd, shape, order->d.ndim - 1, order->d.shape);
  shape[nd++] = cn_size(x, -2);
  shape[nd++] = cn_size(x, -1);
  return cn_gather(cn_expand(x, shape, (size_t)nd), nd - 2, cn_expand(cn_unsqueeze(order, -1), shape, (size_t)nd));
}

static int lu_factor_vjp(cn_vjp *v)
{
  if (!v->g[0]) return CN_OK;
  cn_tensor *permutation = cn_lu_permutation(v->out[1], cn_size(v->out[0], -2));
  v->gin[0] = permuted(packed_gradient(v->out[0], v->g[0]), permutation, true);
  return cn_err();
}

/* linalg_lu_factor(A, pivot) -> (LU, pivots) */
static int lu_factor_decompose(cn_call *c)
{
  cn_tensor *info;
  cn_linalg_lu_factor_ex(&c->out[0], &c->out[1], &info, c->in[0], .no_pivot = !cni_arg_bool(c->args, 1),
                         .check_errors = true);
  return cn_err();
}

/* ---- lu_permutation(pivots, rows) ---- */

static int permutation_infer(cn_call *c)
{
  const cn_desc *p = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], rows = cni_arg_int(c->args, 1);
  if (p->ndim < 1) return cn_call_fail(c, CN_ERR_SHAPE, "takes pivots of at least one dimension");
  if (p->dtype != CN_I32)
    return cn_call_fail(c, CN_ERR_DTYPE, "takes pivots of int32, not %s", cn_dtype_name((cn_dtype)p->dtype));
  if (rows < p->shape[p->ndim - 1])
    return cn_call_fail(c, CN_ERR_SHAPE, "%lld pivots for %lld rows", (long long)p->shape[p->ndim - 1],
                        (long long)rows);
  memcpy(shape, p->shape, sizeof shape);
  shape[p->ndim - 1] = rows;
  return cn_call_result(c, 0, CN_I64, p->ndim, shape);
}

/* ---- lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots) -> (P, L, U); linalg_lu(A, pivot) ---- */

static cn_tensor *nothing(cn_tensor *like)
{
  int64_t none = 0;
  return cn_zeros(&none, 1, .dtype = cn_dtype_of(like), .device = cn_device_of(like));
}

/* P[r, i] is 1 where row i of LU is row r of A. */
static cn_tensor *permutation_matrix(cn_tensor *pivots, int64_t rows, cn_dtype dtype)
{
  cn_tensor *from = cn_unsqueeze(cn_lu_permutation(pivots, rows), -2);
  cn_tensor *r = cn_unsqueeze(cn_arange(0, (double)rows, .dtype = CN_I64, .device = cn_device_of(pivots)), -1);
  return cn_cast(cn_eq(from, r), dtype);
}

static void unpack_factors(cn_tensor **l, cn_tensor **u, cn_tensor *lu)
{
  int64_t m = cn_size(lu, -2), n = cn_size(lu, -1), k = m < n ? m : n;
  cn_tensor *eye = cn_eye(m, k, .dtype = cn_dtype_of(lu), .device = cn_device_of(lu));
  *l = cn_add(cn_tril(cn_narrow(lu, -1, 0, k), .diagonal = -1), eye);
  *u = cn_triu(cn_narrow(lu, -2, 0, k));
}

static int lu_unpack_decompose(cn_call *c)
{
  const cn_desc *lu = &c->in[0]->d;
  if (lu->ndim < 2) return cni_check_matrix(c, 0);
  if (cni_arg_bool(c->args, 3)) {
    if (c->in[1]->d.dtype != CN_I32)
      return cn_call_fail(c, CN_ERR_DTYPE, "LU_pivots must be int32, as linalg_lu_factor gives them, not %s",
                          cn_dtype_name((cn_dtype)c->in[1]->d.dtype));
    c->out[0] = permutation_matrix(c->in[1], cni_rows(lu), (cn_dtype)lu->dtype);
  } else {
    c->out[0] = nothing(c->in[0]);
  }
  if (cni_arg_bool(c->args, 2)) unpack_factors(&c->out[1], &c->out[2], c->in[0]);
  else c->out[1] = nothing(c->in[0]), c->out[2] = nothing(c->in[0]);
  return cn_err();
}

static int lu_decompose(cn_call *c)
{
  cn_tensor *lu = NULL, *pivots = NULL;
  cn_linalg_lu_factor_ex(&lu, &pivots, NULL, c->in[0], .no_pivot = !cni_arg_bool(c->args, 1));
  if (cn_err()) return cn_err();
  c->out[0] = permutation_matrix(pivots, cni_rows(&c->in[0]->d), (cn_dtype)c->in[0]->d.dtype);
  unpack_factors(&c->out[1], &c->out[2], lu);
  return cn_err();
}

/* ---- linalg_lu_solve(LU, pivots, B, left, adjoint) ---- */

/* P L U X = B, or its transpose. */
static cn_tensor *solve_packed(cn_tensor *lu, cn_tensor *permutation, cn_tensor *b, bool adjoint)
{
  if (!adjoint) {
    b = permuted(b, permutation, false);
    b = cn_linalg_solve_triangular(lu, b, false, .unitriangular = true);
    return cn_linalg_solve_triangular(lu, b, true);
  }
  b = cn_linalg_solve_triangular(cni_adjoint(lu), b, false);
  b = cn_linalg_solve_triangular(cni_adjoint(lu), b, true, .unitriangular = true);
  return permuted(b, permutation, true);
}

static int lu_solve_check(const cn_call *c, bool left)
{
  const cn_desc *lu = &c->in[0]->d, *p = &c->in[1]->d, *b = &c->in[2]->d;
  int status = cni_check_square(c, 0);
  if (!status) status = cni_check_matrix(c, 2);
  if (status) return status;
  if (lu->dtype != b->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "LU and B must have one type, but are %s and %s",
                        cn_dtype_name((cn_dtype)lu->dtype), cn_dtype_name((cn_dtype)b->dtype));
  if (p->dtype != CN_I32)
    return cn_call_fail(c, CN_ERR_DTYPE, "pivots must be int32, as linalg_lu_factor gives them, not %s",
                        cn_dtype_name((cn_dtype)p->dtype));
  if (!cni_same_shape(p->ndim, p->shape, lu->ndim - 1, lu->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "pivots must have the shape of LU without its last dimension");
  int64_t shape[CN_MAX_DIMS] = {0};
  int n = 0;
  if ((left ? cni_rows(b) : cni_cols(b)) != cni_cols(lu) || !cni_broadcast(&n, shape, lu->ndim - 2, lu->shape) ||
      !cni_broadcast(&n, shape, b->ndim - 2, b->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "the shapes of LU and B do not fit");
  return CN_OK;
}

static int lu_solve_decompose(cn_call *c)
{
  bool left = cni_arg_bool(c->args, 3), adjoint = cni_arg_bool(c->args, 4);
  int status = lu_solve_check(c, left);
  if (status) return status;
  cn_tensor *permutation = cn_lu_permutation(c->in[1], cni_rows(&c->in[0]->d));
  if (left) c->out[0] = solve_packed(c->in[0], permutation, c->in[2], adjoint);
  else c->out[0] = cni_adjoint(solve_packed(c->in[0], permutation, cni_adjoint(c->in[2]), !adjoint));
  return cn_err();
}

/* lu_solve(b, LU_data, LU_pivots): PyTorch's older order of arguments. */
static int old_lu_solve_decompose(cn_call *c)
{
  c->out[0] = cn_linalg_lu_solve(c->in[1], c->in[2], c->in[0]);
  return cn_err();
}

/* ---- slogdet and logdet ---- */

static int slogdet_infer(cn_call *c)
{
  int status = cni_check_square(c, 0);
  int dtype = c->in[0]->d.dtype;
  if (!status) status = cni_matrix_result(c, 0, dtype, -1, -1);
  return status ? status : cni_matrix_result(c, 1, cni_real_type(dtype), -1, -1);
}

static int slogdet_decompose(cn_call *c)
{
  cn_tensor *lu, *pivots;
  cn_linalg_lu_factor_ex(&lu, &pivots, NULL, c->in[0]);
  cn_tensor *diagonal = cn_diagonal(lu, .dim1 = -2, .dim2 = -1);
  cn_tensor *counts = cn_arange(1, (double)cni_cols(&c->in[0]->d) + 1, .dtype = CN_I32, .device = c->device);
  cn_tensor *own = cn_sgn(diagonal), *signs = cn_where(cn_eq(pivots, counts), own, cn_neg(own));
  c->out[0] = cn_prod_dim(signs, -1);
  c->out[1] = cn_sum(cn_log(cn_abs(diagonal)), .dim = CN_INTS(-1));
  return cn_err();
}

/* d log|det A| = Re trace(A^-1 dA); the sign is constant, or turns by the imaginary part. */
static int slogdet_vjp(cn_vjp *v)
{
  cn_tensor *inverse, *g = v->g[1];
  if (v->g[0] && cni_dtype_is_complex(v->g[0]->d.dtype)) {
    cn_tensor *turn = cn_imag(cn_mul(cn_conj(v->g[0]), v->out[0]));
    g = cn_complex(g ? g : cn_zeros_like(turn), cn_neg(turn));
  }
  if (!g) return CN_OK;
  cn_linalg_inv_ex(&inverse, NULL, v->in[0]);
  v->gin[0] = cn_mul(cn_unsqueeze(cn_unsqueeze(g, -1), -1), cni_adjoint(inverse));
  return cn_err();
}

static int old_slogdet_decompose(cn_call *c)
{
  cn_linalg_slogdet(&c->out[0], &c->out[1], c->in[0]);
  return cn_err();
}

static int logdet_decompose(cn_call *c)
{
  cn_tensor *sign = NULL, *size = NULL;
  cn_linalg_slogdet(&sign, &size, c->in[0]);
  if (sign && cni_dtype_is_complex(sign->d.dtype)) c->out[0] = cn_complex(size, cn_angle(sign));
  else c->out[0] = cn_where(cn_eq(sign, cn_int(-1)), cn_num(NAN), size);
  return cn_err();
}

/* ---- with a Cholesky factor ---- */

/* cholesky_solve(input, L, upper): X of L L^T X = input */
static int cholesky_solve_infer(cn_call *c)
{
  const cn_desc *b = &c->in[0]->d, *l = &c->in[1]->d;
  int status = cni_check_matrix(c, 0), n = 0;
  int64_t shape[CN_MAX_DIMS] = {0};
  if (!status) status = cni_check_square(c, 1);
  if (status) return status;
  if (b->dtype != l->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "both must have one type, but are %s and %s",
                        cn_dtype_name((cn_dtype)b->dtype), cn_dtype_name((cn_dtype)l->dtype));
  if (cni_rows(b) != cni_rows(l) || !cni_broadcast(&n, shape, b->ndim - 2, b->shape) ||
      !cni_broadcast(&n, shape, l->ndim - 2, l->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "the shapes of input and L do not fit");
  shape[n++] = cni_rows(b);
  shape[n++] = cni_cols(b);
  return cn_call_result(c, 0, b->dtype, n, shape);
}

static int cholesky_solve_decompose(cn_call *c)
{
  bool upper = cni_arg_bool(c->args, 2);
  cn_tensor *l = c->in[1], *other = cni_adjoint(l);
  cn_tensor *half = cn_linalg_solve_triangular(upper ? other : l, c->in[0], false);
  c->out[0] = cn_linalg_solve_triangular(upper ? l : other, half, true);
  return cn_err();
}

/* From the gradient of the inverse of L L^T, made symmetric, to that of L: both triangles, as in PyTorch. */
static cn_tensor *factor_gradient(cn_tensor *common, cn_tensor *l, bool upper)
{
  common = cn_add(common, cni_adjoint(common));
  return cn_neg(upper ? cn_matmul(l, common) : cn_matmul(common, l));
}

static int cholesky_solve_vjp(cn_vjp *v)
{
  bool upper = cni_arg_bool(v->args, 2);
  cn_tensor *gb = cn_cholesky_solve(v->g[0], v->in[1], .upper = upper);
  v->gin[0] = gb;
  if (v->need[1]) v->gin[1] = factor_gradient(cn_matmul(gb, cni_adjoint(v->out[0])), v->in[1], upper);
  return cn_err();
}

/* cholesky_inverse(L, upper): the inverse of L L^T */
static int cholesky_inverse_infer(cn_call *c)
{
  int status = cni_check_square(c, 0);
  return status ? status : cn_call_result(c, 0, c->in[0]->d.dtype, c->in[0]->d.ndim, c->in[0]->d.shape);
}

static int cholesky_inverse_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  cn_tensor *eye = cn_eye(cni_cols(d), CN_NONE, .dtype = (cn_dtype)d->dtype, .device = c->device);
  c->out[0] = cn_cholesky_solve(eye, c->in[0], .upper = cni_arg_bool(c->args, 1));
  return cn_err();
}

static int cholesky_inverse_vjp(cn_vjp *v)
{
  cn_tensor *inverse = v->out[0];
  v->gin[0] = factor_gradient(cn_matmul(inverse, cn_matmul(v->g[0], inverse)), v->in[0], cni_arg_bool(v->args, 1));
  return cn_err();
}

/* clang-format off */
const cn_op cni_linalg_lu_ops[] = {
  {.sig = "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, "
          "Tensor info) ; linalg amp_f32_host complex",
   .doc = "The LU decomposition of matrices, packed: U, and below its diagonal L, whose diagonal is ones. pivots: "
          "the row "
          "that each row changed places with, from 1. info: the place of the first zero pivot, else 0.",
   .cost = cni_cost_lu, .infer = lu_factor_infer, .vjp = lu_factor_vjp, .needs = {[0] = CN_OUT(0) | CN_OUT(1)}},
  {.sig = "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots) ; linalg amp_f32_host complex",
   .doc = "linalg_lu_factor_ex with an error for a singular matrix.",
   .flags = CN_OP_COMPOSITE, .decompose = lu_factor_decompose},
  {.sig = "lu_permutation(Tensor pivots, int rows) -> Tensor ; internal",
   .doc = "Row exchanges of an LU decomposition as a permutation: the row of A that each row of L U is, from 0.",
   .flags = CN_OP_NO_GRAD, .infer = permutation_infer},
  {.sig = "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, "
          "Tensor L, Tensor U) ; complex",
   .doc = "P, L and U of a packed LU decomposition; what is not asked for is empty.",
   .flags = CN_OP_COMPOSITE, .decompose = lu_unpack_decompose},
  {.sig = "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U) ; linalg amp_f32_host complex",
   .doc = "The LU decomposition A = P L U: a permutation, a lower triangle with ones on its diagonal, an upper "
          "triangle.",
   .flags = CN_OP_COMPOSITE, .decompose = lu_decompose},
  {.sig = "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor ; "
          "linalg amp_f32_host complex",
   .doc = "X of A X = B, or of X A = B with left=False, from the packed decomposition of A; adjoint: of A transposed.",
   .flags = CN_OP_COMPOSITE, .decompose = lu_solve_decompose},
  {.sig = "lu_solve(Tensor b, Tensor LU_data, Tensor LU_pivots) -> Tensor ; method amp_f32_host complex",
   .doc = "linalg_lu_solve with its arguments in another order.",
   .flags = CN_OP_COMPOSITE, .decompose = old_lu_solve_decompose},
  {.sig = "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet) ; linalg amp_f32_host complex",
   .doc = "Sign and logarithm of the size of the determinant; of a singular matrix 0 and -inf.",
   .cost = cni_cost_lu,
   .infer = slogdet_infer, .vjp = slogdet_vjp, .decompose = slogdet_decompose,
   .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "slogdet(Tensor input) -> (Tensor sign, Tensor logabsdet) ; method amp_f32_host complex",
   .doc = "linalg_slogdet by its older name.",
   .flags = CN_OP_COMPOSITE, .decompose = old_slogdet_decompose},
  {.sig = "logdet(Tensor input) -> Tensor ; method amp_f32_host complex",
   .doc = "Logarithm of the determinant; NaN where that is negative, -inf where it is 0.",
   .flags = CN_OP_COMPOSITE, .decompose = logdet_decompose},
  {.sig = "cholesky_solve(Tensor input, Tensor L, bool upper=False) -> Tensor ; method amp_f32_host complex",
   .doc = "X of L L^T X = input, or of U^T U X = input with upper=True.",
   .infer = cholesky_solve_infer, .vjp = cholesky_solve_vjp, .decompose = cholesky_solve_decompose,
   .needs = {[0] = CN_IN(1), [1] = CN_IN(1) | CN_OUT(0)}},
  {.sig = "cholesky_inverse(Tensor L, bool upper=False) -> Tensor ; method amp_f32_host complex",
   .doc = "The inverse of L L^T, or of U^T U with upper=True.",
   .infer = cholesky_inverse_infer, .vjp = cholesky_inverse_vjp, .decompose = cholesky_inverse_decompose,
   .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
};
/* clang-format on */
CNI_FAMILY(linalg_lu);
