/* linalg_symmetric.c: the family of decompositions of symmetric matrices that need no eigenvalue of one sign (L D L^T),
 * of square roots, and of the polar decomposition, whose second factor is such a root.
 *
 * Place in the flow: L D L^T has kernels (backends/cpu/linalg/linalg_ldl.c); the rest is made of eigenvalues and
 * singular values. Invariant: of a symmetric matrix only the lower triangle is read. */
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "linalg.h"
#include "table.h"

/* ---- linalg_ldl_factor_ex(A, hermitian, check_errors) -> (LD, pivots, info) ---- */

static int ldl_factor_infer(cn_call *c)
{
  int status = cni_check_square(c, 0);
  const cn_desc *a = &c->in[0]->d;
  if (status) return status;
  status = cn_call_result(c, 0, a->dtype, a->ndim, a->shape);
  if (!status) status = cni_matrix_result(c, 1, CN_I32, cni_rows(a), -1);
  return status ? status : cni_matrix_result(c, 2, CN_I32, -1, -1);
}

static int ldl_factor_vjp(cn_vjp *v)
{
  return cni_fail(CN_ERR_GRAD, "%s: its gradient is not implemented; linalg_solve has one",
                  cni_op_info(v->op)->name);
}

static int ldl_factor_decompose(cn_call *c)
{
  return cn_linalg_ldl_factor_ex(&c->out[0], &c->out[1], NULL, c->in[0], .hermitian = cni_arg_bool(c->args, 1),
                                 .check_errors = true);
}

/* ---- linalg_ldl_solve(LD, pivots, B, hermitian) ---- */

static int ldl_solve_infer(cn_call *c)
{
  const cn_desc *a = &c->in[0]->d, *p = &c->in[1]->d, *b = &c->in[2]->d;
  int status = cni_check_square(c, 0), n = 0;
  int64_t shape[CN_MAX_DIMS] = {0};
  if (!status) status = cni_check_matrix(c, 2);
  if (status) return status;
  if (a->dtype != b->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "LD and B must be of one type, but are %s and %s",
                        cn_dtype_name((cn_dtype)a->dtype), cn_dtype_name((cn_dtype)b->dtype));
  if (p->dtype != CN_I32)
    return cn_call_fail(c, CN_ERR_DTYPE, "pivots must be int32, as linalg_ldl_factor gives them, not %s",
                        cn_dtype_name((cn_dtype)p->dtype));
  if (!cni_same_shape(p->ndim, p->shape, a->ndim - 1, a->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "pivots must have the shape of LD without its last dimension");
  if (cni_rows(b) != cni_rows(a) || !cni_broadcast(&n, shape, a->ndim - 2, a->shape) ||
      !cni_broadcast(&n, shape, b->ndim - 2, b->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "the shapes of LD and B do not fit");
  shape[n++] = cni_rows(b);
  shape[n++] = cni_cols(b);
  return cn_call_result(c, 0, b->dtype, n, shape);
}

/* ---- linalg_matrix_sqrth(A) ---- */

static int sqrth_infer(cn_call *c)
{
  int status = cni_check_square(c, 0);
  return status ? status : cn_call_result(c, 0, c->in[0]->d.dtype, c->in[0]->d.ndim, c->in[0]->d.shape);
}

static int sqrth_decompose(cn_call *c)
{
  cn_tensor *l, *q;
  cn_linalg_eigh(&l, &q, c->in[0]);
  cn_tensor *roots = cn_sqrt(cn_clamp_min(l, cn_num(0)));
  c->out[0] = cn_matmul(cn_mul(q, cn_unsqueeze(roots, -2)), cni_adjoint(q));
  return cn_err();
}

/* X X = A: X ga + ga X = g, of whose symmetric half the gradient is, which is diagonal in X's own directions. */
static int sqrth_vjp(cn_vjp *v)
{
  cn_tensor *l, *q;
  cn_linalg_eigh(&l, &q, v->in[0]);
  cn_tensor *s = cn_sqrt(cn_clamp_min(l, cn_num(0)));
  cn_tensor *g = cn_mul(cn_add(v->g[0], cni_adjoint(v->g[0])), cn_num(0.5));
  cn_tensor *inner = cn_matmul(cni_adjoint(q), cn_matmul(g, q));
  inner = cn_true_divide(inner, cn_add(cn_unsqueeze(s, -1), cn_unsqueeze(s, -2)));
  v->gin[0] = cn_matmul(q, cn_matmul(inner, cni_adjoint(q)));
  return cn_err();
}

/* ---- linalg_polar(A) -> (U, H) ---- */

static int polar_decompose(cn_call *c)
{
  cn_tensor *u, *s, *vh;
  int status = cni_check_matrix(c, 0);
  const cn_desc *a = &c->in[0]->d;
  if (status) return status;
  if (cni_rows(a) < cni_cols(a))
    return cn_call_fail(c, CN_ERR_SHAPE, "takes matrices with at least as many rows as columns, not %lld by %lld",
                        (long long)cni_rows(a), (long long)cni_cols(a));
  cn_linalg_svd(&u, &s, &vh, c->in[0], .no_full_matrices = true);
  c->out[0] = cn_matmul(u, vh);
  c->out[1] = cn_matmul(cni_adjoint(vh), cn_mul(cn_unsqueeze(s, -1), vh));
  return cn_err();
}

/* clang-format off */
const cn_op cni_linalg_symmetric_ops[] = {
  {.sig = "linalg_ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, "
          "Tensor pivots, Tensor info) ; linalg",
   .doc = "A symmetric matrix as P L D L^T P^T by Bunch and Kaufman's pivots: D, of blocks of 1 or 2, on the diagonal "
          "of LD, L below it, zeros above. pivots: the row that each changed places with, from 1, twice and negative "
          "for a block of 2. info: the place of the first zero in D, else 0. hermitian means nothing for real "
          "matrices.",
   .cost = cni_cost_lu, .infer = ldl_factor_infer, .vjp = ldl_factor_vjp},
  {.sig = "linalg_ldl_factor(Tensor A, *, bool hermitian=False) -> (Tensor LD, Tensor pivots) ; linalg",
   .doc = "linalg_ldl_factor_ex with an error for a singular matrix.",
   .flags = CN_OP_COMPOSITE, .decompose = ldl_factor_decompose},
  {.sig = "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor ; linalg",
   .doc = "X of A X = B, with A as linalg_ldl_factor gives it. Batches broadcast.",
   .cost = cni_cost_lu, .infer = ldl_solve_infer, .vjp = ldl_factor_vjp},
  {.sig = "linalg_matrix_sqrth(Tensor A) -> Tensor ; linalg complex",
   .doc = "The symmetric X with X X = A, of a symmetric matrix without negative eigenvalues, or a batch; those that "
          "are negative count as 0.",
   .cost = cni_cost_eigen, .infer = sqrth_infer, .vjp = sqrth_vjp, .decompose = sqrth_decompose,
   .needs = {[0] = CN_IN(0)}},
  {.sig = "linalg_polar(Tensor A) -> (Tensor U, Tensor H) ; linalg complex",
   .doc = "A = U H of matrices (*, m, n), m >= n: orthonormal columns and a symmetric matrix without negative "
          "eigenvalues.",
   .flags = CN_OP_COMPOSITE, .decompose = polar_decompose},
};
/* clang-format on */
CNI_FAMILY(linalg_symmetric);
