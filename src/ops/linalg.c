/* linalg.c: the family of linear algebra on batches of square matrices: solving, inverse, determinant,
 * Cholesky; and the checks of linalg.h.
 *
 * Place in the flow: infer and gradients here, kernels in the backends (the CPU's use LAPACK where there is
 * one). Invariant: float32, float64 and their complex types only, as in PyTorch; the last two dimensions are the
 * matrix, all others a batch. */
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "linalg.h"

/* ---- checks ---- */

int cni_check_float(const cn_call *c, int i)
{
  int dtype = c->in[i]->d.dtype;
  if (dtype == CN_F32 || dtype == CN_F64 || dtype == CN_C64 || dtype == CN_C128) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "takes float32 and float64, and their complex types, not %s; cast with cn_cast",
                      cn_dtype_name((cn_dtype)dtype));
}

int cni_check_matrix(const cn_call *c, int i)
{
  const cn_desc *d = &c->in[i]->d;
  char text[CNI_SHAPE_TEXT];
  if (d->ndim >= 2) return cni_check_float(c, i);
  return cn_call_fail(c, CN_ERR_SHAPE, "must be a matrix or a batch of them, but has shape %s",
                      cni_shape_text(text, sizeof text, d->ndim, d->shape));
}

int cni_matrix_result(cn_call *c, int i, int dtype, int64_t rows, int64_t cols)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS] = {0};
  int n = d->ndim - 2;
  memcpy(shape, d->shape, (size_t)n * sizeof *shape);
  if (rows >= 0) shape[n++] = rows;
  if (cols >= 0) shape[n++] = cols;
  return cn_call_result(c, i, dtype, n, shape);
}

int cni_check_square(const cn_call *c, int i)
{
  const cn_desc *d = &c->in[i]->d;
  char text[CNI_SHAPE_TEXT];
  if (d->ndim < 2 || d->shape[d->ndim - 1] != d->shape[d->ndim - 2])
    return cn_call_fail(c, CN_ERR_SHAPE, "must be a square matrix or a batch of them, but has shape %s",
                        cni_shape_text(text, sizeof text, d->ndim, d->shape));
  return cni_check_float(c, i);
}

static int do_not_fit(const cn_call *c)
{
  const cn_desc *a = &c->in[0]->d, *b = &c->in[1]->d;
  char left[CNI_SHAPE_TEXT], right[CNI_SHAPE_TEXT];
  return cn_call_fail(c, CN_ERR_SHAPE, "A of shape %s and B of shape %s do not fit",
                      cni_shape_text(left, sizeof left, a->ndim, a->shape),
                      cni_shape_text(right, sizeof right, b->ndim, b->shape));
}

/* Both square checks and types of the equation A X = B (left) or X A = B. */
static int check_equation(const cn_call *c)
{
  int status = cni_check_square(c, 0);
  if (!status) status = cni_check_float(c, 1);
  if (!status && c->in[0]->d.dtype != c->in[1]->d.dtype)
    status =
        cn_call_fail(c, CN_ERR_DTYPE, "A and B must have one type, but are %s and %s; cast one with cn_cast",
                     cn_dtype_name((cn_dtype)c->in[0]->d.dtype), cn_dtype_name((cn_dtype)c->in[1]->d.dtype));
  return status;
}

/* B: (..., n, k) or (..., k, n); the result has B's matrix and the batches broadcast. */
static int matrices_infer(cn_call *c, bool left)
{
  const cn_desc *a = &c->in[0]->d, *b = &c->in[1]->d;
  int64_t shape[CN_MAX_DIMS] = {0};
  int n = 0;
  if (b->ndim < 2 || b->shape[b->ndim - (left ? 2 : 1)] != a->shape[a->ndim - 1]) return do_not_fit(c);
  if (!cni_broadcast(&n, shape, a->ndim - 2, a->shape) || !cni_broadcast(&n, shape, b->ndim - 2, b->shape))
    return do_not_fit(c);
  shape[n++] = b->shape[b->ndim - 2];
  shape[n++] = b->shape[b->ndim - 1];
  return cn_call_result(c, 0, a->dtype, n, shape);
}

/* ---- linalg_solve ---- */

/* Does B hold vectors (..., n) rather than matrices? PyTorch's rule. */
static bool is_vector(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b)
{
  return b_ndim == 1 || cni_same_shape(a_ndim - 1, a, b_ndim, b);
}

/* linalg_solve(A (..., n, n), B (..., n, k) or (..., n), left) */
static int solve_infer(cn_call *c)
{
  const cn_desc *a = &c->in[0]->d, *b = &c->in[1]->d;
  bool left = cni_arg_bool(c->args, 2);
  int status = check_equation(c);
  if (status) return status;
  if (!is_vector(a->ndim, a->shape, b->ndim, b->shape)) return matrices_infer(c, left);
  if (!left) return cn_call_fail(c, CN_ERR_VALUE, "left=False takes a matrix B, not a vector");
  if (b->shape[b->ndim - 1] != a->shape[a->ndim - 1]) return do_not_fit(c);
  return cn_call_result(c, 0, a->dtype, a->ndim - 1, a->shape);
}

/* linalg_solve_ex -> (result, info): info has the shape of the batch. */
static int solve_ex_infer(cn_call *c)
{
  int status = solve_infer(c);
  const cn_spec *x = &c->spec[0];
  int core = is_vector(c->in[0]->d.ndim, c->in[0]->d.shape, c->in[1]->d.ndim, c->in[1]->d.shape) ? 1 : 2;
  return status ? status : cn_call_result(c, 1, CN_I32, x->ndim - core, x->shape);
}

/* Of complex matrices: by LU. linalg_solve(A, B, left) */
static cn_tensor *solved_by_lu(const cn_call *c, cn_tensor **info, bool check)
{
  cn_tensor *lu, *pivots, *a = c->in[0], *b = c->in[1];
  bool vector = is_vector(a->d.ndim, a->d.shape, b->d.ndim, b->d.shape);
  if (cn_linalg_lu_factor_ex(&lu, &pivots, info, a, .check_errors = check)) return NULL;
  if (vector && b->d.ndim == 1 && a->d.ndim > 2) b = cn_expand(b, a->d.shape, (size_t)a->d.ndim - 1);
  cn_tensor *x = cn_linalg_lu_solve(lu, pivots, vector ? cn_unsqueeze(b, -1) : b, .no_left = !cni_arg_bool(c->args, 2));
  return vector ? cn_squeeze(x, .dim = CN_INTS(-1)) : x;
}
static int solve_decompose(cn_call *c)
{
  cn_tensor *info;
  c->out[0] = solved_by_lu(c, &info, true);
  return cn_err();
}
static int solve_ex_decompose(cn_call *c)
{
  cn_tensor *info = NULL;
  c->out[0] = solved_by_lu(c, &info, cni_arg_bool(c->args, 3));
  c->out[1] = cn_expand(info, c->spec[1].shape, (size_t)c->spec[1].ndim);
  return cn_err();
}

/* A X = B: gB solves A^H gB = g, and gA = -gB X^H; transposed for X A = B. */
static int solve_vjp(cn_vjp *v)
{
  const cn_meta *a = &v->in_meta[0], *b = &v->in_meta[1];
  bool right = !cni_arg_bool(v->args, 2);
  cn_tensor *x = v->out[0], *gb = cn_linalg_solve(cni_adjoint(v->in[0]), v->g[0], .no_left = right);
  v->gin[1] = gb;
  if (!v->need[0]) return cn_err();
  if (is_vector(a->ndim, a->shape, b->ndim, b->shape))
    v->gin[0] = cn_neg(cn_mul(cn_unsqueeze(gb, -1), cn_unsqueeze(cn_conj(x), -2)));
  else v->gin[0] = cn_neg(right ? cn_matmul(cni_adjoint(x), gb) : cn_matmul(gb, cni_adjoint(x)));
  return cn_err();
}

/* ---- linalg_solve_triangular ---- */

enum { UPPER = 2, LEFT = 3, UNIT = 4 }; /* parameters */

/* linalg_solve_triangular(A (..., n, n), B (..., n, k), upper, left, unitriangular) */
static int triangular_infer(cn_call *c)
{
  int status = check_equation(c);
  return status ? status : matrices_infer(c, cni_arg_bool(c->args, LEFT));
}

static int triangular_vjp(cn_vjp *v)
{
  bool upper = cni_arg_bool(v->args, UPPER), right = !cni_arg_bool(v->args, LEFT),
       unit = cni_arg_bool(v->args, UNIT);
  cn_tensor *x = v->out[0], *gb = cn_linalg_solve_triangular(cni_adjoint(v->in[0]), v->g[0], !upper,
                                                             .no_left = right, .unitriangular = unit);
  v->gin[1] = gb;
  if (!v->need[0]) return cn_err();
  cn_tensor *ga = cn_neg(right ? cn_matmul(cni_adjoint(x), gb) : cn_matmul(gb, cni_adjoint(x)));
  v->gin[0] = upper ? cn_triu(ga, .diagonal = unit) : cn_tril(ga, .diagonal = -(int)unit);
  return cn_err();
}

/* ---- linalg_inv, linalg_det ---- */

static int inv_infer(cn_call *c)
{
  int status = cni_check_square(c, 0);
  return status ? status : cn_call_result(c, 0, c->in[0]->d.dtype, c->in[0]->d.ndim, c->in[0]->d.shape);
}

static int inv_ex_infer(cn_call *c)
{
  int status = inv_infer(c);
  return status ? status : cni_matrix_result(c, 1, CN_I32, -1, -1);
}

/* d(A^-1) = -A^-1 dA A^-1 */
static int inv_vjp(cn_vjp *v)
{
  cn_tensor *y = cni_adjoint(v->out[0]);
  v->gin[0] = cn_neg(cn_matmul(y, cn_matmul(v->g[0], y)));
  return cn_err();
}

static int inv_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  cn_tensor *eye = cn_eye(d->shape[d->ndim - 1], CN_NONE, .dtype = (cn_dtype)d->dtype, .device = c->device);
  c->out[0] = cn_linalg_solve(c->in[0], cn_expand(eye, d->shape, (size_t)d->ndim));
  return cn_err();
}

static int inv_ex_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  cn_tensor *eye = cn_eye(d->shape[d->ndim - 1], CN_NONE, .dtype = (cn_dtype)d->dtype, .device = c->device);
  eye = cn_expand(eye, d->shape, (size_t)d->ndim);
  cn_linalg_solve_ex(&c->out[0], &c->out[1], c->in[0], eye, .check_errors = cni_arg_bool(c->args, 1));
  return cn_err();
}

/* 1 or -1 by the number of row exchanges, in that type */
static cn_tensor *sign_of(cn_tensor *pivots, int64_t n, cn_dtype dtype)
{
  cn_tensor *counts = cn_arange(1, (double)n + 1, .dtype = CN_I32, .device = cn_device_of(pivots));
  return cn_cast(cn_prod_dim(cn_where(cn_eq(pivots, counts), cn_int(1), cn_int(-1)), -1), dtype);
}

static int det_decompose(cn_call *c)
{
  cn_tensor *lu, *pivots, *info;
  if (cn_linalg_lu_factor_ex(&lu, &pivots, &info, c->in[0])) return cn_err();
  cn_tensor *diagonal = cn_diagonal(lu, .dim1 = -2, .dim2 = -1);
  c->out[0] = cn_mul(cn_prod_dim(diagonal, -1), sign_of(pivots, cn_size(lu, -1), cn_dtype_of(lu)));
  return cn_err();
}

static int det_infer(cn_call *c)
{
  int status = cni_check_square(c, 0);
  return status ? status : cn_call_result(c, 0, c->in[0]->d.dtype, c->in[0]->d.ndim - 2, c->in[0]->d.shape);
}

/* The adjugate, transposed and conjugated: the gradient of the determinant. Of a singular matrix, by its LU factors
 * with the zeros on the diagonal of U moved a little: the determinant is smooth, so this is near. */
static cn_tensor *cofactors(cn_tensor *a)
{
  cn_tensor *lu, *pivots;
  cn_dtype dtype = cn_dtype_of(a);
  int64_t n = cn_size(a, -1);
  cn_linalg_lu_factor_ex(&lu, &pivots, NULL, a);
  cn_tensor *diagonal = cn_diagonal(lu, .dim1 = -2, .dim2 = -1), *zero = cn_eq(diagonal, cn_int(0));
  cn_tensor *moved = cn_where(zero, cn_num(cni_real_type((int)dtype) == CN_F64 ? 1e-16 : 1e-7), diagonal);
  cn_tensor *det = cn_conj(cn_mul(cn_prod_dim(moved, -1), sign_of(pivots, n, dtype)));
  lu = cn_diagonal_scatter(lu, moved, .dim1 = -2, .dim2 = -1);
  cn_tensor *eye = cn_eye(n, CN_NONE, .dtype = dtype, .device = cn_device_of(a));
  cn_tensor *inverse = cn_linalg_lu_solve(lu, pivots, eye, .adjoint = true);
  return cn_mul(cn_unsqueeze(cn_unsqueeze(det, -1), -1), inverse);
}

/* d det(A) = det(A) trace(A^-1 dA) */
static int det_vjp(cn_vjp *v)
{
  cn_tensor *g = cn_unsqueeze(cn_unsqueeze(v->g[0], -1), -1);
  v->gin[0] = cn_size(v->in[0], -1) ? cn_mul(g, cofactors(v->in[0])) : cn_zeros_like(v->in[0]);
  return cn_err();
}

/* ---- linalg_cholesky ---- */

/* A = L L^T: gA = L^-T S L^-1, where S is half of P + P^T, P = tril(L^T gL), the diagonal counted once. */
static int cholesky_vjp(cn_vjp *v)
{
  bool upper = cni_arg_bool(v->args, 1);
  cn_tensor *l = upper ? cni_adjoint(v->out[0]) : v->out[0], *g = upper ? cni_adjoint(v->g[0]) : v->g[0];
  cn_tensor *p = cn_matmul(cni_adjoint(l), g);
  cn_tensor *s = cn_true_divide(cn_add(cn_tril(p), cni_adjoint(cn_tril(p, .diagonal = -1))), cn_int(2));
  s = cn_linalg_solve_triangular(cni_adjoint(l), s, true);                  /* L^-T S */
  v->gin[0] = cn_linalg_solve_triangular(l, s, false, .no_left = true); /* ... L^-1 */
  return cn_err();
}

/* clang-format off */
const cn_op cni_linalg_ops[] = {
  {.sig = "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor ; linalg amp_f32_host "
          "grad_fn_LinalgSolveExBackward0 complex",
   .doc = "X of A X = B, or of X A = B with left=False. A is square; B is a matrix or, where its shape is A's "
          "without the last dimension or it has one dimension, a vector. A singular A is an error.",
   .cost = cni_cost_solve,
   .infer = solve_infer, .vjp = solve_vjp, .decompose = solve_decompose,
   .needs = {[0] = CN_IN(0) | CN_OUT(0), [1] = CN_IN(0)}},
  {.sig = "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, "
          "Tensor info) ; linalg amp_f32_host complex",
   .doc = "linalg_solve that reports a singular A in info: the place of the zero pivot, from 1, else 0. Its result is "
          "NaN then. check_errors makes it an error again.",
   .cost = cni_cost_solve,
   .infer = solve_ex_infer, .vjp = solve_vjp, .decompose = solve_ex_decompose,
   .needs = {[0] = CN_IN(0) | CN_OUT(0), [1] = CN_IN(0)}},
  {.sig = "linalg_solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) "
          "-> Tensor ; linalg amp_f32_host complex",
   .doc = "X of A X = B, or of X A = B with left=False, for a triangular A: only that triangle is read, and with "
          "unitriangular its diagonal counts as ones.",
   .cost = cni_cost_triangular,
   .infer = triangular_infer, .vjp = triangular_vjp, .needs = {[0] = CN_IN(0) | CN_OUT(0), [1] = CN_IN(0)}},
  {.sig = "linalg_inv(Tensor A) -> Tensor ; linalg amp_f32_host grad_fn_LinalgInvExBackward0 complex",
   .doc = "Inverse of a square matrix or a batch of them. A singular one is an error.",
   .cost = cni_cost_inverse,
   .infer = inv_infer, .vjp = inv_vjp, .decompose = inv_decompose, .needs = {[0] = CN_OUT(0)}},
  {.sig = "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info) ; linalg amp_f32_host "
          "complex",
   .doc = "linalg_inv that reports a singular A in info: the place of the zero pivot, from 1, else 0. Its inverse is "
          "NaN "
          "then. check_errors makes it an error again.",
   .cost = cni_cost_inverse,
   .infer = inv_ex_infer, .vjp = inv_vjp, .decompose = inv_ex_decompose, .needs = {[0] = CN_OUT(0)}},
  {.sig = "linalg_det(Tensor A) -> Tensor ; linalg amp_f32_host complex",
   .doc = "Determinant of a square matrix or of each of a batch. The gradient of a singular one is nearly exact.",
   .cost = cni_cost_lu, .infer = det_infer, .vjp = det_vjp, .decompose = det_decompose, .needs = {[0] = CN_IN(0)}},
  {.sig = "linalg_cholesky(Tensor input, *, bool upper=False) -> Tensor ; linalg amp_f32_host complex",
   .doc = "The lower triangle L with L L^T = input, or U with U^T U = input for upper=True; only that triangle of "
          "input is read. A matrix that is not positive definite is an error.",
   .cost = cni_cost_cholesky, .infer = inv_infer, .vjp = cholesky_vjp, .needs = {[0] = CN_OUT(0)}},
  {.sig = "linalg_cholesky_ex(Tensor input, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info) "
          "; linalg amp_f32_host complex",
   .doc = "linalg_cholesky that reports a matrix that is not positive definite in info: the order of the first leading "
          "minor that is not, else 0. check_errors makes it an error again.",
   .cost = cni_cost_cholesky, .infer = inv_ex_infer, .vjp = cholesky_vjp, .needs = {[0] = CN_OUT(0)}},
};
/* clang-format on */
CNI_FAMILY(linalg);
