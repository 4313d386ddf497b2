/* linalg_factor.c: the family of decompositions into orthogonal matrices: QR, singular values, eigenvalues of symmetric
 * matrices; and the matrix exponential.
 *
 * Place in the flow: infer and gradients here, kernels in the backends. Invariant: a gradient is exact where the
 * decomposition is unique; equal singular values or eigenvalues make gradients of their vectors infinite or NaN. */
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "linalg.h"

/* ---- linalg_qr(A, mode) -> (Q, R) ---- */

static int qr_infer(cn_call *c)
{
  int status = cni_check_matrix(c, 0);
  const cn_desc *a = &c->in[0]->d;
  bool complete = cni_arg_is(c->args, 1, "complete"), only_r = cni_arg_is(c->args, 1, "r");
  if (status) return status;
  if (!complete && !only_r && !cni_arg_is(c->args, 1, "reduced"))
    return cn_call_fail(c, CN_ERR_VALUE, "mode must be 'reduced', 'complete' or 'r', but is '%s'",
                        cni_arg_str(c->args, 1));
  int64_t m = cni_rows(a), n = cni_cols(a), k = complete ? m : m < n ? m : n, none = 0;
  status = only_r ? cn_call_result(c, 0, a->dtype, 1, &none) : cni_matrix_result(c, 0, a->dtype, m, k);
  return status ? status : cni_matrix_result(c, 1, a->dtype, k, n);
}

/* The imaginary parts of a square matrix's diagonal, as a diagonal matrix. */
static cn_tensor *imag_diagonal(cn_tensor *m)
{
  return cn_diag_embed(cn_diagonal(cn_imag(m), .dim1 = -2, .dim2 = -1), .dim1 = -2, .dim2 = -1);
}

/* The gradient for a square R. gq, gr may be NULL. */
static cn_tensor *tall_qr_gradient(cn_tensor *q, cn_tensor *r, cn_tensor *gq, cn_tensor *gr)
{
  cn_tensor *m = gr ? cn_matmul(gr, cni_adjoint(r)) : NULL;
  if (gq) {
    cn_tensor *rotation = cn_matmul(cni_adjoint(q), gq);
    m = m ? cn_sub(m, rotation) : cn_neg(rotation);
  }
  m = cn_triu(m); /* made symmetric (Hermitian) from its upper triangle */
  if (m && cni_dtype_is_complex(m->d.dtype)) m = cn_sub(m, cn_mul(imag_diagonal(m), cn_complex_num(0, 1)));
  m = cn_matmul(q, cn_add(m, cni_adjoint(cn_triu(m, .diagonal = 1))));
  if (gq) m = cn_add(m, gq);
  return cn_linalg_solve_triangular(cni_adjoint(r), m, false, .no_left = true);
}

/* A wide A = [A1 A2] is Q [R1 R2] with R2 = Q^T A2. */
static int qr_vjp(cn_vjp *v)
{
  cn_tensor *q = v->out[0], *r = v->out[1], *gq = v->g[0], *gr = v->g[1];
  const cn_meta *a = &v->in_meta[0];
  int64_t m = a->shape[a->ndim - 2], n = a->shape[a->ndim - 1];
  if (cni_arg_is(v->args, 1, "r"))
    return cni_fail(CN_ERR_GRAD, "linalg_qr: mode 'r' has no gradient, as Q is not computed; use mode 'reduced'");
  if (cni_arg_is(v->args, 1, "complete") && m > n)
    return cni_fail(CN_ERR_GRAD, "linalg_qr: mode 'complete' has a gradient only where rows do not outnumber columns");
  if (!gq && !gr) return CN_OK;
  if (m >= n) {
    v->gin[0] = tall_qr_gradient(q, r, gq, gr);
    return cn_err();
  }
  cn_tensor *r1 = cn_narrow(r, -1, 0, m), *r2 = cn_narrow(r, -1, m, n - m), *gr1 = NULL, *second;
  if (gr) {
    cn_tensor *gr2 = cn_narrow(gr, -1, m, n - m), *more = cn_matmul(q, cn_matmul(r2, cni_adjoint(gr2)));
    gr1 = cn_narrow(gr, -1, 0, m);
    gq = gq ? cn_add(gq, more) : more;
    second = cn_matmul(q, gr2);
  } else {
    second = cn_mul(cn_matmul(q, r2), cn_int(0));
  }
  v->gin[0] = cn_cat(CN_TENSORS(tall_qr_gradient(q, r1, gq, gr1), second), .dim = -1);
  return cn_err();
}

/* ---- linalg_svd(A, full_matrices) -> (U, S, Vh) ---- */

static int svd_infer(cn_call *c)
{
  int status = cni_check_matrix(c, 0);
  const cn_desc *a = &c->in[0]->d;
  if (status) return status;
  int64_t m = cni_rows(a), n = cni_cols(a), k = m < n ? m : n;
  bool full = cni_arg_bool(c->args, 1);
  status = cni_matrix_result(c, 0, a->dtype, m, full ? m : k);
  if (!status) status = cni_matrix_result(c, 1, cni_real_type(a->dtype), k, -1);
  return status ? status : cni_matrix_result(c, 2, a->dtype, full ? n : k, n);
}

static int svdvals_infer(cn_call *c)
{
  int status = cni_check_matrix(c, 0);
  const cn_desc *a = &c->in[0]->d;
  if (status) return status;
  return cni_matrix_result(c, 0, cni_real_type(a->dtype), cni_rows(a) < cni_cols(a) ? cni_rows(a) : cni_cols(a), -1);
}

/* x - x^H over the differences of squares of s, whose diagonal counts as ones; 0 on its own diagonal. */
static cn_tensor *skew_over_gaps(cn_tensor *x, cn_tensor *s)
{
  cn_tensor *squares = cn_square(s), *gaps = cn_sub(cn_unsqueeze(squares, -2), cn_unsqueeze(squares, -1));
  cn_tensor *eye = cn_eye(cn_size(s, -1), CN_NONE, .dtype = cn_dtype_of(s), .device = cn_device_of(s));
  cn_tensor *skew = cn_sub(x, cni_adjoint(x));
  if (skew && cni_dtype_is_complex(skew->d.dtype)) skew = cn_mul(skew, cn_sub(cn_num(1), eye));
  return cn_true_divide(skew, cn_add(gaps, eye));
}

static cn_tensor *sum_of(cn_tensor *a, cn_tensor *b) { return !a ? b : !b ? a : cn_add(a, b); }

/* What of x lies outside the space of the orthonormal columns of u. */
static cn_tensor *outside(cn_tensor *x, cn_tensor *u)
{
  return cn_sub(x, cn_matmul(u, cn_matmul(cni_adjoint(u), x)));
}

static cn_tensor *as_diagonal(cn_tensor *g)
{
  cn_tensor *eye = cn_eye(cn_size(g, -1), CN_NONE, .dtype = cn_dtype_of(g), .device = cn_device_of(g));
  return cn_mul(cn_unsqueeze(g, -1), eye);
}

/* u: (m, k), s: (k), vh: (k, n). */
static cn_tensor *svd_gradient(cn_tensor *u, cn_tensor *s, cn_tensor *vh, cn_tensor *gu, cn_tensor *gs, cn_tensor *gvh)
{
  int64_t m = cn_size(u, -2), n = cn_size(vh, -1), k = cn_size(s, -1);
  cn_tensor *v = cni_adjoint(vh), *columns = cn_unsqueeze(s, -2), *rows = cn_unsqueeze(s, -1), *inner = NULL;
  if (!gu && !gvh) return cn_matmul(cn_mul(u, cn_unsqueeze(gs, -2)), vh);
  if (gu) inner = cn_mul(skew_over_gaps(cn_matmul(cni_adjoint(u), gu), s), columns);
  if (gvh) inner = sum_of(inner, cn_mul(rows, skew_over_gaps(cn_matmul(vh, cni_adjoint(gvh)), s)));
  if (gu && gvh && u && cni_dtype_is_complex(u->d.dtype)) /* what both turn alike, by a phase */
    inner = sum_of(inner, cn_mul(cn_true_divide(imag_diagonal(cn_matmul(cni_adjoint(u), gu)), columns),
                                 cn_complex_num(0, 1)));
  if (gs) inner = sum_of(inner, as_diagonal(gs));
  if (m > k && gu) return cn_matmul(cn_add(cn_matmul(u, inner), cn_true_divide(outside(gu, u), columns)), vh);
  if (n > k && gvh) {
    cn_tensor *rest = cni_adjoint(cn_true_divide(outside(cni_adjoint(gvh), v), columns));
    return cn_matmul(u, cn_add(cn_matmul(inner, vh), rest));
  }
  return cn_matmul(u, cn_matmul(inner, vh));
}

static int svd_vjp(cn_vjp *v)
{
  cn_tensor *u = v->out[0], *s = v->out[1], *vh = v->out[2], *gu = v->g[0], *gvh = v->g[2];
  if (!gu && !v->g[1] && !gvh) return CN_OK;
  if (cni_arg_bool(v->args, 1)) { /* the vectors beyond are any that complete the others */
    int64_t k = cn_size(s, -1);
    u = cn_narrow(u, -1, 0, k);
    vh = cn_narrow(vh, -2, 0, k);
    if (gu) gu = cn_narrow(gu, -1, 0, k);
    if (gvh) gvh = cn_narrow(gvh, -2, 0, k);
  }
  v->gin[0] = svd_gradient(u, s, vh, gu, v->g[1], gvh);
  return cn_err();
}

static int svdvals_vjp(cn_vjp *v)
{
  cn_tensor *u, *vh;
  cn_linalg_svd(&u, NULL, &vh, v->in[0], .no_full_matrices = true);
  v->gin[0] = cn_matmul(cn_mul(u, cn_unsqueeze(v->g[0], -2)), vh);
  return cn_err();
}

/* svd(input, some, compute_uv) -> (U, S, V): PyTorch's older name; V is not transposed. */
static int old_svd_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *vh = NULL;
  bool some = cni_arg_bool(c->args, 1);
  if (cni_arg_bool(c->args, 2)) {
    cn_linalg_svd(&c->out[0], &c->out[1], &vh, x, .no_full_matrices = some);
    c->out[2] = cni_adjoint(vh);
    return cn_err();
  }
  int status = cni_check_matrix(c, 0);
  if (status) return status;
  int64_t shape[CN_MAX_DIMS], m = cni_rows(&x->d), n = cni_cols(&x->d);
  memcpy(shape, x->d.shape, sizeof shape);
  shape[x->d.ndim - 1] = m;
  c->out[0] = cn_zeros(shape, (size_t)x->d.ndim, .dtype = (cn_dtype)x->d.dtype, .device = c->device);
  c->out[1] = cn_linalg_svdvals(x);
  shape[x->d.ndim - 2] = shape[x->d.ndim - 1] = n;
  c->out[2] = cn_zeros(shape, (size_t)x->d.ndim, .dtype = (cn_dtype)x->d.dtype, .device = c->device);
  return cn_err();
}

/* ---- linalg_eigh(A, UPLO) -> (eigenvalues, eigenvectors) ---- */

static int eigvalsh_infer(cn_call *c)
{
  int status = cni_check_square(c, 0);
  const char *uplo = cni_arg_str(c->args, 1);
  if (status) return status;
  if (!strchr("LUlu", *uplo) || !*uplo || uplo[1])
    return cn_call_fail(c, CN_ERR_VALUE, "UPLO must be 'L' or 'U', but is '%s'", uplo);
  return cni_matrix_result(c, 0, cni_real_type(c->in[0]->d.dtype), cni_rows(&c->in[0]->d), -1);
}

static int eigh_infer(cn_call *c)
{
  int status = eigvalsh_infer(c);
  return status ? status : cn_call_result(c, 1, c->in[0]->d.dtype, c->in[0]->d.ndim, c->in[0]->d.shape);
}

static int eigh_vjp(cn_vjp *v)
{
  cn_tensor *l = v->out[0], *q = v->out[1], *gl = v->g[0], *gq = v->g[1];
  if (!gl && !gq) return CN_OK;
  if (!gq) {
    v->gin[0] = cn_matmul(cn_mul(q, cn_unsqueeze(gl, -2)), cni_adjoint(q));
    return cn_err();
  }
  cn_tensor *eye = cn_eye(cn_size(l, -1), CN_NONE, .dtype = cn_dtype_of(l), .device = cn_device_of(l));
  cn_tensor *gaps = cn_sub(cn_unsqueeze(l, -2), cn_unsqueeze(l, -1)), *rotation = cn_matmul(cni_adjoint(q), gq);
  cn_tensor *inner = cn_where(cn_ne(eye, cn_int(0)), cn_int(0), cn_true_divide(rotation, cn_add(gaps, eye)));
  inner = cn_true_divide(cn_add(inner, cni_adjoint(inner)), cn_int(2)); /* A is symmetric, and so is its gradient */
  if (gl) inner = cn_add(inner, as_diagonal(gl));
  v->gin[0] = cn_matmul(q, cn_matmul(inner, cni_adjoint(q)));
  return cn_err();
}

static int eigvalsh_vjp(cn_vjp *v)
{
  cn_tensor *q;
  cn_linalg_eigh(NULL, &q, v->in[0], .UPLO = cni_arg_str(v->args, 1));
  v->gin[0] = cn_matmul(cn_mul(q, cn_unsqueeze(v->g[0], -2)), cni_adjoint(q));
  return cn_err();
}

/* ---- linalg_eig(A) -> (eigenvalues, eigenvectors), linalg_eigvals(A): complex, of any square matrix ---- */

static int eigvals_infer(cn_call *c)
{
  int status = cni_check_square(c, 0);
  const cn_desc *a = &c->in[0]->d;
  return status ? status : cni_matrix_result(c, 0, cni_dtype_complex(a->dtype), cni_rows(a), -1);
}

static int eig_infer(cn_call *c)
{
  int status = eigvals_infer(c);
  const cn_desc *a = &c->in[0]->d;
  return status ? status : cn_call_result(c, 1, cni_dtype_complex(a->dtype), a->ndim, a->shape);
}

/* V^-H (diag(gl) + (V^H gV - V^H V diag(Re(V^H gV))) / conj(l_j - l_i)) V^H; the diagonal of the quotient is 0. */
static cn_tensor *eig_gradient(cn_tensor *l, cn_tensor *v, cn_tensor *gl, cn_tensor *gv)
{
  cn_tensor *vh = cni_adjoint(v), *inner = NULL;
  if (gv) {
    cn_tensor *eye = cn_eye(cn_size(l, -1), CN_NONE, .dtype = CN_BOOL, .device = cn_device_of(l));
    cn_tensor *gaps = cn_conj(cn_sub(cn_unsqueeze(l, -2), cn_unsqueeze(l, -1))), *turned = cn_matmul(vh, gv);
    cn_tensor *along = cn_real(cn_diagonal(turned, .dim1 = -2, .dim2 = -1));
    inner = cn_sub(turned, cn_mul(cn_matmul(vh, v), cn_unsqueeze(along, -2)));
    inner = cn_true_divide(cn_masked_fill(inner, eye, cn_int(0)), cn_masked_fill(gaps, eye, cn_int(1)));
  }
  if (gl) inner = sum_of(inner, cn_diag_embed(gl, .dim1 = -2, .dim2 = -1));
  return cn_linalg_solve(vh, cn_matmul(inner, vh));
}

static int eig_vjp(cn_vjp *v)
{
  if (!v->g[0] && !v->g[1]) return CN_OK;
  v->gin[0] = eig_gradient(v->out[0], v->out[1], v->g[0], v->g[1]);
  return cn_err();
}

static int eigvals_vjp(cn_vjp *v)
{
  cn_tensor *l, *vectors;
  if (cn_linalg_eig(&l, &vectors, v->in[0])) return cn_err();
  v->gin[0] = eig_gradient(l, vectors, v->g[0], NULL);
  return cn_err();
}

/* ---- linalg_matrix_exp(A) ---- */

static int exp_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  if (d->dtype != CN_F16 && d->dtype != CN_BF16) {
    int status = cni_check_square(c, 0);
    if (status) return status;
  } else if (d->ndim < 2 || cni_rows(d) != cni_cols(d)) {
    return cn_call_fail(c, CN_ERR_SHAPE, "must be a square matrix or a batch of them");
  }
  return cn_call_result(c, 0, d->dtype, d->ndim, d->shape);
}

/* exp(A) = exp(A / 2^s)^(2^s), where s brings each matrix's norm to at most 1/2: there TERMS of the series are exact
 * to the last bits. s is data, so all squarings stand there, and each matrix takes as many of them as it needs. */
static cn_tensor *exp_by_squaring(cn_tensor *a)
{
  enum { TERMS = 15, SQUARINGS = 32 };
  cn_tensor *norm =
      cn_amax(cn_sum(cn_abs(a), .dim = CN_INTS(-2), .keepdim = true), .dim = CN_INTS(-1), .keepdim = true);
  cn_tensor *s = cn_clamp(cn_add(cn_ceil(cn_log2(norm)), cn_num(1)), cn_num(0), cn_num(SQUARINGS));
  cn_tensor *x = cn_mul(a, cn_exp2(cn_neg(s)));
  cn_tensor *one = cn_eye(cn_size(a, -1), CN_NONE, .dtype = cn_dtype_of(a), .device = cn_device_of(a)), *y = one;
  for (int k = TERMS; k; k--) y = cn_add(one, cn_div(cn_matmul(x, y), cn_num(k)));
  for (int i = 0; i < SQUARINGS; i++) y = cn_where(cn_gt(s, cn_num(i)), cn_matmul(y, y), y);
  return y;
}

static int exp_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0];
  cn_dtype dtype = cn_dtype_of(a);
  if (dtype != CN_F32 && dtype != CN_F64) c->out[0] = cn_cast(cn_linalg_matrix_exp(cn_cast(a, CN_F32)), dtype);
  else c->out[0] = cn_numel(a) ? exp_by_squaring(a) : cn_clone(a);
  return cn_err();
}

/* The derivative of exp at A^T in the direction g is the upper right block of exp([A^T g; 0 A^T]). */
static int exp_vjp(cn_vjp *v)
{
  cn_tensor *a = cni_adjoint(v->in[0]), *g = v->g[0];
  int dtype = v->in_meta[0].dtype, wide = cni_wide_type(dtype);
  int64_t n = cn_size(a, -1);
  a = cni_in_type(a, wide);
  g = cni_in_type(g, wide);
  cn_tensor *top = cn_cat(CN_TENSORS(a, g), .dim = -1), *below = cn_cat(CN_TENSORS(cn_zeros_like(a), a), .dim = -1);
  cn_tensor *all = cn_linalg_matrix_exp(cn_cat(CN_TENSORS(top, below), .dim = -2));
  v->gin[0] = cni_in_type(cn_narrow(cn_narrow(all, -2, 0, n), -1, n, n), dtype);
  return cn_err();
}

static int old_exp_decompose(cn_call *c)
{
  c->out[0] = cn_linalg_matrix_exp(c->in[0]);
  return cn_err();
}

/* clang-format off */
const cn_op cni_linalg_factor_ops[] = {
  {.sig = "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R) ; linalg amp_f32_host complex",
   .doc = "A = Q R, with orthonormal columns and an upper triangle. Q is (m, min(m, n)), or (m, m) with mode "
          "'complete'; "
          "mode 'r' gives R alone, and Q empty.",
   .cost = cni_cost_qr, .infer = qr_infer, .vjp = qr_vjp, .needs = {[0] = CN_OUT(0) | CN_OUT(1)}},
  {.sig = "linalg_svd(Tensor A, bool full_matrices=True) -> (Tensor U, Tensor S, Tensor Vh) ; linalg amp_f32_host "
          "complex",
   .doc = "A = U diag(S) Vh, with orthonormal columns of U and rows of Vh and falling S. U and Vh are square, or (m, "
          "k) and "
          "(k, n), k = min(m, n), without full_matrices. The largest element of each column of U is positive.",
   .cost = cni_cost_eigen, .infer = svd_infer, .vjp = svd_vjp, .needs = {[0] = CN_OUT(0) | CN_OUT(1) | CN_OUT(2)}},
  {.sig = "linalg_svdvals(Tensor A) -> Tensor ; linalg amp_f32_host complex",
   .doc = "The singular values of a matrix or of each of a batch, falling.",
   .cost = cni_cost_eigenvalues, .infer = svdvals_infer, .vjp = svdvals_vjp, .needs = {[0] = CN_IN(0)},
   .copied = CN_IN(0)},
  {.sig = "svd(Tensor input, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V) ; method complex",
   .doc = "linalg_svd by its older name: V is not transposed, some=True asks for the smaller U and V. Without "
          "compute_uv "
          "they are zeros.",
   .flags = CN_OP_COMPOSITE, .decompose = old_svd_decompose},
  {.sig = "linalg_eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors) ; linalg amp_f32_host "
          "complex",
   .doc = "A = Q diag(l) Q^T of a symmetric matrix, of which only the triangle UPLO is read: rising eigenvalues l, "
          "eigenvectors as columns of Q. The largest element of each is positive.",
   .cost = cni_cost_eigen, .infer = eigh_infer, .vjp = eigh_vjp, .needs = {[0] = CN_OUT(0) | CN_OUT(1)}},
  {.sig = "linalg_eigvalsh(Tensor A, str UPLO='L') -> Tensor ; linalg amp_f32_host complex",
   .doc = "The eigenvalues of a symmetric matrix, rising; only the triangle UPLO is read.",
   .cost = cni_cost_eigenvalues, .infer = eigvalsh_infer, .vjp = eigvalsh_vjp, .needs = {[0] = CN_IN(0)},
   .copied = CN_IN(0)},
  {.sig = "linalg_eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors) ; linalg complex amp_f32_host",
   .doc = "A = V diag(l) V^-1 of a square matrix: complex eigenvalues l in no order, and eigenvectors of norm 1 as "
          "columns of V. The largest element of each is real.",
   .cost = cni_cost_eigen, .infer = eig_infer, .vjp = eig_vjp, .needs = {[0] = CN_OUT(0) | CN_OUT(1)}},
  {.sig = "linalg_eigvals(Tensor A) -> Tensor ; linalg complex amp_f32_host",
   .doc = "The eigenvalues of a square matrix, complex and in no order.",
   .cost = cni_cost_eigenvalues, .infer = eigvals_infer, .vjp = eigvals_vjp, .needs = {[0] = CN_IN(0)},
   .copied = CN_IN(0)},
  {.sig = "linalg_matrix_exp(Tensor A) -> Tensor ; linalg amp_f32_host",
   .doc = "The exponential of square matrices, 1 + A + A A / 2 + ...; half-precision types are computed in float32.",
   .cost = cni_cost_matrix_exp,
   .infer = exp_infer, .vjp = exp_vjp, .decompose = exp_decompose, .needs = {[0] = CN_IN(0)}},
  {.sig = "matrix_exp(Tensor input) -> Tensor ; method complex",
   .doc = "linalg_matrix_exp by its older name.",
   .flags = CN_OP_COMPOSITE, .decompose = old_exp_decompose},
};
/* clang-format on */
CNI_FAMILY(linalg_factor);
