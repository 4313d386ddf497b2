/* linalg_reflect.c: the family of products of reflections, LAPACK's form of a QR decomposition: I - tau v v^H, where v
 * is a column of a matrix below its diagonal, with 1 on it.
 *
 * Place in the flow: infer and gradients here, kernels in backends/cpu/linalg/linalg_reflect.c. Invariant: what a
 * matrix holds on and above its diagonal is not read, and gets no gradient. */
#include <cairn/kw.h>

#include "base/alloc.h"
#include "cost.h"
#include "families.h"
#include "linalg.h"

/* ---- geqrf(input) -> (a, tau) ---- */

static int geqrf_infer(cn_call *c)
{
  int status = cni_check_matrix(c, 0);
  const cn_desc *a = &c->in[0]->d;
  if (status) return status;
  status = cn_call_result(c, 0, a->dtype, a->ndim, a->shape);
  return status ? status : cni_matrix_result(c, 1, a->dtype, cni_rows(a) < cni_cols(a) ? cni_rows(a) : cni_cols(a), -1);
}

static int geqrf_vjp(cn_vjp *v)
{
  (void)v;
  return cni_fail(CN_ERR_GRAD, "geqrf: has no gradient; linalg_qr has one");
}

/* ---- linalg_householder_product(input, tau) ---- */

/* Input 1, tau, has the batch of input 0 and at most `most` numbers. */
static int check_tau(const cn_call *c, int64_t most)
{
  const cn_desc *a = &c->in[0]->d, *tau = &c->in[1]->d;
  if (tau->dtype != a->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "input and tau must be of one type, but are %s and %s",
                        cn_dtype_name((cn_dtype)a->dtype), cn_dtype_name((cn_dtype)tau->dtype));
  if (tau->ndim != a->ndim - 1 || !cni_same_shape(tau->ndim - 1, tau->shape, a->ndim - 2, a->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "tau must be (*, k), where * is the batch of input");
  if (tau->shape[tau->ndim - 1] > most)
    return cn_call_fail(c, CN_ERR_SHAPE, "tau has %lld numbers, but there are %lld columns",
                        (long long)tau->shape[tau->ndim - 1], (long long)most);
  return CN_OK;
}

static int product_infer(cn_call *c)
{
  int status = cni_check_matrix(c, 0);
  const cn_desc *a = &c->in[0]->d;
  if (status) return status;
  if (cni_rows(a) < cni_cols(a))
    return cn_call_fail(c, CN_ERR_SHAPE, "takes matrices with at least as many rows as columns");
  status = check_tau(c, cni_cols(a));
  return status ? status : cn_call_result(c, 0, a->dtype, a->ndim, a->shape);
}

/* All reflections of a call: their vectors as the columns of a matrix, and their factors as (*, 1, 1). */
typedef struct reflections {
  cn_tensor *vectors, *tau;
  int64_t count;
} reflections;

static reflections reflections_of(cn_tensor *a, cn_tensor *tau)
{
  cn_tensor *eye = cn_eye(cn_size(a, -2), cn_size(a, -1), .dtype = cn_dtype_of(a), .device = cn_device_of(a));
  return (reflections){cn_add(cn_tril(a, .diagonal = -1), eye), cn_unsqueeze(cn_unsqueeze(tau, -1), -1),
                       cn_size(tau, -1)};
}

static cn_tensor *vector(const reflections *r, int64_t i) { return cn_narrow(r->vectors, -1, i, 1); }
static cn_tensor *factor(const reflections *r, int64_t i) { return cn_select(r->tau, -3, i); }

/* x - tau v (v^H x) */
static cn_tensor *reflected(const reflections *r, int64_t i, cn_tensor *tau, cn_tensor *x)
{
  cn_tensor *v = vector(r, i);
  return cn_sub(x, cn_mul(tau, cn_matmul(v, cn_matmul(cni_adjoint(v), x))));
}

static int product_decompose(cn_call *c)
{
  const cn_desc *a = &c->in[0]->d;
  reflections r = reflections_of(c->in[0], c->in[1]);
  cn_tensor *eye = cn_eye(cni_rows(a), cni_cols(a), .dtype = (cn_dtype)a->dtype, .device = c->device);
  cn_tensor *q = cn_expand(eye, a->shape, (size_t)a->ndim);
  for (int64_t i = r.count - 1; i >= 0 && q; i--) q = reflected(&r, i, factor(&r, i), q);
  c->out[0] = cn_contiguous(q);
  return cn_err();
}

/* With R(i) = H(i) R(i + 1), from R(k) = I: the gradient g of R(i) gives those of v and tau, and H(i)^H g is the
 * next. */
static int walk_back(const reflections *r, cn_tensor **partial, cn_tensor *g, cn_tensor **gv, cn_tensor **gtau)
{
  for (int64_t i = 0; i < r->count && !cn_err(); i++) {
    cn_tensor *v = vector(r, i), *tau = factor(r, i), *next = partial[i + 1];
    cn_tensor *vg = cn_matmul(cni_adjoint(v), g), *vr = cn_matmul(cni_adjoint(v), next); /* (*, 1, n) */
    cn_tensor *other = cn_conj(tau);
    gv[i] = cn_neg(cn_add(cn_mul(other, cn_matmul(g, cni_adjoint(vr))), cn_mul(tau, cn_matmul(next, cni_adjoint(vg)))));
    gtau[i] = cn_neg(cn_sum(cn_mul(vg, cn_conj(vr)), .dim = CN_INTS(-1)));
    g = reflected(r, i, other, g);
  }
  return cn_err();
}

/* From the gradient of the product of a's shape: those of a and tau. */
static int product_gradients(cn_tensor **ga, cn_tensor **gtau, cn_tensor *a, cn_tensor *tau, cn_tensor *g)
{
  reflections r = reflections_of(a, tau);
  size_t room = (size_t)(3 * r.count + 1) * sizeof(cn_tensor *);
  if (r.count < 1) {
    *ga = cn_zeros_like(a);
    *gtau = cn_zeros_like(tau);
    return cn_err();
  }
  cn_tensor **partial = cni_alloc(room), **vectors = partial + r.count + 1, **factors = vectors + r.count;
  if (!partial) return CN_ERR_MEMORY;
  cn_tensor *eye = cn_eye(cn_size(a, -2), cn_size(a, -1), .dtype = cn_dtype_of(a), .device = cn_device_of(a));
  partial[r.count] = cn_expand(eye, cn_shape(a), (size_t)cn_ndim(a));
  for (int64_t i = r.count - 1; i >= 0; i--) partial[i] = reflected(&r, i, factor(&r, i), partial[i + 1]);
  if (!walk_back(&r, partial, g, vectors, factors)) {
    cn_tensor *all = cn_tril(cn_cat(vectors, (size_t)r.count, .dim = -1), .diagonal = -1);
    int64_t rest = cn_size(a, -1) - r.count;
    *ga = rest ? cn_constant_pad_nd(all, CN_SHAPE(0, rest)) : all;
    *gtau = cn_cat(factors, (size_t)r.count, .dim = -1);
  }
  cni_free(partial, room);
  return cn_err();
}

static int product_vjp(cn_vjp *v)
{
  return product_gradients(&v->gin[0], &v->gin[1], v->in[0], v->in[1], v->g[0]);
}

/* ---- ormqr(input, tau, other, left, transpose) ---- */

static int ormqr_infer(cn_call *c)
{
  int status = cni_check_matrix(c, 0);
  const cn_desc *a = &c->in[0]->d, *x = &c->in[2]->d;
  if (!status) status = cni_check_matrix(c, 2);
  if (status) return status;
  bool left = cni_arg_bool(c->args, 3);
  if (x->dtype != a->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "input and other must be of one type, but are %s and %s",
                        cn_dtype_name((cn_dtype)a->dtype), cn_dtype_name((cn_dtype)x->dtype));
  if (!cni_same_shape(a->ndim - 2, a->shape, x->ndim - 2, x->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "input and other must have the same batch");
  if ((left ? cni_rows(x) : cni_cols(x)) != cni_rows(a))
    return cn_call_fail(c, CN_ERR_SHAPE, "other must have %lld %s, as input has rows, but has %lld",
                        (long long)cni_rows(a), left ? "rows" : "columns",
                        (long long)(left ? cni_rows(x) : cni_cols(x)));
  int64_t most = cni_rows(a) < cni_cols(a) ? cni_rows(a) : cni_cols(a);
  status = check_tau(c, most);
  if (!status && cn_size(c->in[1], -1) != most)
    return cn_call_fail(c, CN_ERR_SHAPE, "tau must have %lld numbers, as many as input has reflections",
                        (long long)most);
  return status ? status : cn_call_result(c, 0, x->dtype, x->ndim, x->shape);
}

/* input as a square matrix, of which the product is all of Q. */
static cn_tensor *squared(cn_tensor *a)
{
  int64_t rows = cn_size(a, -2), more = rows - cn_size(a, -1);
  return more < 0 ? cn_narrow(a, -1, 0, rows) : more ? cn_constant_pad_nd(a, CN_SHAPE(0, more)) : a;
}

static int ormqr_decompose(cn_call *c)
{
  bool left = cni_arg_bool(c->args, 3), transpose = cni_arg_bool(c->args, 4);
  cn_tensor *q = cn_linalg_householder_product(squared(c->in[0]), c->in[1]);
  if (transpose) q = cni_adjoint(q);
  c->out[0] = left ? cn_matmul(q, c->in[2]) : cn_matmul(c->in[2], q);
  return cn_err();
}

static int ormqr_vjp(cn_vjp *v)
{
  bool left = cni_arg_bool(v->args, 3), transpose = cni_arg_bool(v->args, 4);
  cn_tensor *a = v->in[0], *tau = v->in[1], *x = v->in[2], *g = v->g[0], *ga;
  if (v->need[2]) v->gin[2] = cn_ormqr(a, tau, g, .no_left = !left, .transpose = !transpose);
  if (!v->need[0] && !v->need[1]) return cn_err();
  cn_tensor *gq = left ? cn_matmul(g, cni_adjoint(x)) : cn_matmul(cni_adjoint(x), g);
  int status = product_gradients(&ga, &v->gin[1], squared(a), tau, transpose ? cni_adjoint(gq) : gq);
  int64_t cols = cn_size(a, -1), rows = cn_size(a, -2);
  if (status) return status;
  v->gin[0] = cols < rows ? cn_narrow(ga, -1, 0, cols)
              : cols > rows ? cn_constant_pad_nd(ga, CN_SHAPE(0, cols - rows)) : ga;
  return cn_err();
}

/* clang-format off */
const cn_op cni_linalg_reflect_ops[] = {
  {.sig = "geqrf(Tensor input) -> (Tensor a, Tensor tau) ; method complex",
   .doc = "A QR decomposition as LAPACK keeps it: R, and below it the vectors of the reflections whose product is Q, "
          "with their factors tau. See linalg_householder_product and ormqr. Has no gradient.",
   .cost = cni_cost_qr, .infer = geqrf_infer, .vjp = geqrf_vjp},
  {.sig = "linalg_householder_product(Tensor input, Tensor tau) -> Tensor ; linalg alias_orgqr complex",
   .doc = "The first n columns of the product of reflections I - tau v v^H: v are the columns of input (*, m, n) below "
          "the diagonal, with 1 on it; tau is (*, k), k <= n <= m.",
   .cost = cni_cost_qr, .infer = product_infer, .vjp = product_vjp, .decompose = product_decompose,
   .needs = {[0] = CN_IN(0) | CN_IN(1), [1] = CN_IN(0) | CN_IN(1)}},
  {.sig = "ormqr(Tensor input, Tensor tau, Tensor other, bool left=True, bool transpose=False) -> Tensor ; method "
          "complex",
   .doc = "Q other, or other Q without left, where Q is the product of the reflections in input (*, m, n) and tau, all "
          "of it, (*, m, m); transpose: Q^H.",
   .cost = cni_cost_qr, .infer = ormqr_infer, .vjp = ormqr_vjp, .decompose = ormqr_decompose,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_IN(2), [1] = CN_IN(0) | CN_IN(1) | CN_IN(2),
             [2] = CN_IN(0) | CN_IN(1)}},
};
/* clang-format on */
CNI_FAMILY(linalg_reflect);
