/* linalg_norm.c: the family of what singular values and norms tell of a matrix: matrix norms, condition, rank,
 * pseudo-inverse, least squares.
 *
 * Place in the flow: composites of reductions and of linalg_svd, _svdvals, _eigh, _inv; no kernels. Invariant: nothing
 * reads a value, except the residuals of linalg_lstsq, whose shape depends on ranks. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <float.h>
#include <math.h>

#include "families.h"
#include "linalg.h"

/* ---- matrix norms ---- */

typedef struct norm_args {
  cn_tensor *x;
  int rows, cols; /* dims of the matrix */
  bool keepdim;
} norm_args;

/* Dims of the matrix from an argument of two; x cast to the dtype argument. */
static int norm_begin(cn_call *c, norm_args *n, int dim, int keepdim, int dtype)
{
  const cn_value *dims = &c->args[dim];
  int ndim = c->in[0]->d.ndim;
  *n = (norm_args){c->in[0], 0, 0, cni_arg_bool(c->args, keepdim)};
  if (dims->tag != CN_V_INTS || dims->n != 2)
    return cn_call_fail(c, CN_ERR_VALUE, "dim must name two dimensions, those of the matrix");
  if (ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "must have at least 2 dimensions, but has %d", ndim);
  n->rows = cn_call_dim(c, dims->u.is[0], ndim);
  n->cols = cn_call_dim(c, dims->u.is[1], ndim);
  if (n->rows < 0 || n->cols < 0) return n->rows < 0 ? n->rows : n->cols;
  if (n->rows == n->cols) return cn_call_fail(c, CN_ERR_VALUE, "the two dims must differ, both are %d", n->rows);
  int given = c->in[0]->d.dtype, wanted = (int)cni_arg_int_or(c->args, dtype, given), status;
  if ((status = cni_check_dtype(c, wanted))) return status;
  if (!cni_dtype_is_inexact(given))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point or complex numbers, not %s",
                        cn_dtype_name((cn_dtype)given));
  if (!cni_dtype_is_inexact(wanted) || cni_promote(given, wanted) != wanted)
    return cn_call_fail(c, CN_ERR_DTYPE, "dtype %s is narrower than the input's %s", cn_dtype_name((cn_dtype)wanted),
                        cn_dtype_name((cn_dtype)given));
  n->x = cni_in_type(n->x, wanted);
  return cn_err();
}

/* Puts the reduced dims back as size 1 where they are to be kept. */
static cn_tensor *kept(const norm_args *n, cn_tensor *y)
{
  int first = n->rows < n->cols ? n->rows : n->cols, second = n->rows < n->cols ? n->cols : n->rows;
  return n->keepdim ? cn_unsqueeze(cn_unsqueeze(y, first), second) : y;
}

static cn_tensor *singular_values(const norm_args *n)
{
  int64_t from[2] = {n->rows, n->cols}, to[2] = {-2, -1};
  return cn_linalg_svdvals(cn_movedim(n->x, from, 2, to, 2));
}

static int named_norm(cn_call *c, const norm_args *n, const char *ord)
{
  int64_t dims[2] = {n->rows, n->cols};
  if (!strcmp(ord, "fro")) c->out[0] = cn_linalg_vector_norm(n->x, .dim = {dims, 2}, .keepdim = n->keepdim);
  else if (!strcmp(ord, "nuc")) c->out[0] = kept(n, cn_sum(singular_values(n), .dim = CN_INTS(-1)));
  else return cn_call_fail(c, CN_ERR_VALUE, "ord '%s' is not a matrix norm; there are 'fro', 'nuc', 1, -1, 2, -2, inf, "
                           "-inf", ord);
  return cn_err();
}

/* The largest along a dim, 0 of nothing, or the smallest, which there must be. */
static cn_tensor *extreme(cn_tensor *parts, int64_t dim, bool largest, bool keepdim)
{
  if (!parts) return NULL;
  if (!largest) return cn_amin(parts, .dim = {&dim, 1}, .keepdim = keepdim);
  if (parts->d.shape[dim < 0 ? dim + parts->d.ndim : dim] == 0)
    return cn_sum(parts, .dim = {&dim, 1}, .keepdim = keepdim);
  return cn_amax(parts, .dim = {&dim, 1}, .keepdim = keepdim);
}

static int number_norm(cn_call *c, const norm_args *n, double ord)
{
  double size = fabs(ord);
  cn_tensor *parts;
  if (size == 2) {
    parts = singular_values(n);
    c->out[0] = kept(n, extreme(parts, -1, ord > 0, false));
    return cn_err();
  }
  if (size != 1 && !isinf(size))
    return cn_call_fail(c, CN_ERR_VALUE, "ord %g is not a matrix norm; there are 'fro', 'nuc', 1, -1, 2, -2, inf, -inf",
                        ord);
  int64_t along = size == 1 ? n->rows : n->cols, over = size == 1 ? n->cols : n->rows;
  parts = cn_linalg_vector_norm(n->x, .ord = 1, .dim = {&along, 1}, .keepdim = true);
  parts = extreme(parts, over, ord > 0, true);
  int64_t both[2] = {along, over};
  c->out[0] = n->keepdim ? parts : cn_squeeze(parts, .dim = {both, 2});
  return cn_err();
}

/* linalg_matrix_norm(A, ord, dim, keepdim, dtype), with a word or a number for ord */
static int matrix_norm_decompose(cn_call *c)
{
  norm_args n;
  int status = norm_begin(c, &n, 2, 3, 4);
  return status ? status : named_norm(c, &n, cni_arg_str(c->args, 1));
}

static int matrix_norm_ord_decompose(cn_call *c)
{
  norm_args n;
  int status = norm_begin(c, &n, 2, 3, 4);
  return status ? status : number_norm(c, &n, cni_arg_float(c->args, 1));
}

/* linalg_norm(A, ord, dim, keepdim, dtype) */
static int norm_decompose(cn_call *c)
{
  const cn_value *dim = &c->args[2];
  int ndim = c->in[0]->d.ndim;
  bool any = cni_arg_none(c->args, 1), all = dim->tag == CN_V_NONE;
  cn_dtype dtype = (cn_dtype)cni_arg_int_or(c->args, 4, 0);
  bool keepdim = cni_arg_bool(c->args, 3);
  double ord = any ? 2 : cni_arg_float(c->args, 1);
  if (!any && all && ndim != 1 && ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "with ord but without dim the input must have 1 or 2 dimensions, not %d",
                        ndim);
  if (!all && dim->n > 2 && !any) return cn_call_fail(c, CN_ERR_VALUE, "dim must name one or two dimensions");
  if (!any && (all ? ndim == 2 : dim->n == 2)) {
    cn_linalg_matrix_norm_ord_opts o = {.size = sizeof o, .keepdim = keepdim, .dtype = dtype};
    if (!all) o.dim = (cn_ints){dim->u.is, (size_t)dim->n};
    c->out[0] = cn_linalg_matrix_norm_ord_with(c->in[0], ord, &o);
    return cn_err();
  }
  cn_linalg_vector_norm_opts o = {
    .size = sizeof o, .ord = cni_option_float(ord), .keepdim = keepdim, .dtype = dtype};
  if (!all) o.dim = (cn_ints){dim->u.is, (size_t)dim->n};
  c->out[0] = cn_linalg_vector_norm_with(c->in[0], &o);
  return cn_err();
}

/* linalg_norm_named(A, ord, dim, keepdim, dtype) */
static int norm_named_decompose(cn_call *c)
{
  const cn_value *dim = &c->args[2];
  cn_linalg_matrix_norm_opts o = {.size = sizeof o,
                                  .ord = cni_arg_str(c->args, 1),
                                  .keepdim = cni_arg_bool(c->args, 3),
                                  .dtype = (cn_dtype)cni_arg_int_or(c->args, 4, 0)};
  if (dim->tag == CN_V_INTS) o.dim = (cn_ints){dim->u.is, (size_t)dim->n};
  else if (c->in[0]->d.ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "without dim the input must be a matrix, but has %d dimensions",
                        c->in[0]->d.ndim);
  c->out[0] = cn_linalg_matrix_norm_with(c->in[0], &o);
  return cn_err();
}

/* ---- linalg_cond(A, p) ---- */

static cn_tensor *cond_by_values(cn_call *c, bool largest_over_smallest)
{
  cn_tensor *s = cn_linalg_svdvals(c->in[0]);
  if (!s) return NULL;
  cn_tensor *most = cn_select(s, -1, 0), *least = cn_select(s, -1, -1);
  return largest_over_smallest ? cn_true_divide(most, least) : cn_true_divide(least, most);
}

/* The norm of A times that of its inverse; infinite where there is none. */
static cn_tensor *cond_by_inverse(cn_call *c, const char *word, double ord)
{
  cn_tensor *inverse, *info, *a = c->in[0];
  cn_linalg_inv_ex(&inverse, &info, a);
  cn_tensor *x = word ? cn_linalg_matrix_norm(a, .ord = word) : cn_linalg_matrix_norm_ord(a, ord);
  cn_tensor *y = word ? cn_linalg_matrix_norm(inverse, .ord = word) : cn_linalg_matrix_norm_ord(inverse, ord);
  return cn_where(cn_gt(info, cn_int(0)), cn_num(INFINITY), cn_mul(x, y));
}

static int cond_check(cn_call *c, bool square)
{
  const cn_desc *a = &c->in[0]->d;
  int status = square ? cni_check_square(c, 0) : cni_check_matrix(c, 0);
  if (status) return status;
  if (cni_rows(a) && cni_cols(a)) return CN_OK;
  c->out[0] = cn_zeros(a->shape, (size_t)a->ndim - 2, .dtype = (cn_dtype)a->dtype, .device = c->device);
  return cn_err();
}

static int cond_decompose(cn_call *c)
{
  double p = cni_arg_none(c->args, 1) ? 2 : cni_arg_float(c->args, 1);
  bool values = fabs(p) == 2;
  int status = cond_check(c, !values);
  if (status || c->out[0]) return status;
  c->out[0] = values ? cond_by_values(c, p > 0) : cond_by_inverse(c, NULL, p);
  return cn_err();
}

static int cond_named_decompose(cn_call *c)
{
  const char *p = cni_arg_str(c->args, 1);
  int status = cond_check(c, true);
  if (!status && strcmp(p, "fro") && strcmp(p, "nuc"))
    status = cn_call_fail(c, CN_ERR_VALUE, "p must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, but is '%s'", p);
  if (status || c->out[0]) return status;
  c->out[0] = cond_by_inverse(c, p, 0);
  return cn_err();
}

/* ---- linalg_matrix_rank ---- */

static double eps_of(int dtype) { return cni_real_type(dtype) == CN_F64 ? DBL_EPSILON : (double)FLT_EPSILON; }

/* The relative tolerance that counts: rtol, or max(m, n) eps where none is given and atol is not above 0. */
static cn_tensor *relative_tolerance(const cn_call *c, cn_tensor *atol, cn_tensor *rtol)
{
  const cn_desc *a = &c->in[0]->d;
  int64_t most = cni_rows(a) > cni_cols(a) ? cni_rows(a) : cni_cols(a);
  cn_tensor *usual = cn_num((double)most * eps_of(a->dtype));
  if (rtol) return rtol;
  return atol ? cn_where(cn_gt(atol, cn_int(0)), cn_num(0), usual) : usual;
}

/* max(atol, rtol s[0]), to be compared with s (..., k). Sizes of eigenvalues come in any order. */
static cn_tensor *least_counted(cn_tensor *s, cn_tensor *atol, cn_tensor *rtol)
{
  cn_tensor *most = cn_amax(s, .dim = CN_INTS(-1), .keepdim = true);
  if (rtol && rtol->d.ndim) rtol = cn_unsqueeze(rtol, -1);
  if (atol && atol->d.ndim) atol = cn_unsqueeze(atol, -1);
  cn_tensor *relative = cn_mul(rtol, most);
  return atol ? cn_maximum(atol, relative) : relative;
}

static int tolerance_check(const cn_call *c, cn_tensor *t, const char *name)
{
  if (!t || cni_dtype_is_float(t->d.dtype) || t->d.weak) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "%s must be floating-point, not %s", name,
                      cn_dtype_name((cn_dtype)t->d.dtype));
}

static int rank_of(cn_call *c, cn_tensor *atol, cn_tensor *rtol, bool hermitian)
{
  const cn_desc *a = &c->in[0]->d;
  int status = hermitian ? cni_check_square(c, 0) : cni_check_matrix(c, 0);
  if (!status) status = tolerance_check(c, atol, "atol");
  if (!status) status = tolerance_check(c, rtol, "rtol");
  if (status) return status;
  if (!cni_rows(a) || !cni_cols(a)) {
    c->out[0] = cn_zeros(a->shape, (size_t)a->ndim - 2, .dtype = CN_I64, .device = c->device);
    return cn_err();
  }
  rtol = relative_tolerance(c, atol, rtol);
  cn_tensor *x = cn_detach(c->in[0]);
  cn_tensor *s = hermitian ? cn_abs(cn_linalg_eigvalsh(x)) : cn_linalg_svdvals(x);
  c->out[0] = cn_sum(cn_gt(s, least_counted(s, atol, rtol)), .dim = CN_INTS(-1));
  return cn_err();
}

/* linalg_matrix_rank(A, atol, rtol, hermitian) */
static int matrix_rank_decompose(cn_call *c)
{
  return rank_of(c, c->in[1], c->in[2], cni_arg_bool(c->args, 3));
}

/* linalg_matrix_rank_tol(A, tol, hermitian): tol is absolute */
static int matrix_rank_tol_decompose(cn_call *c)
{
  return rank_of(c, c->in[1], cn_num(0), cni_arg_bool(c->args, 2));
}

/* ---- pseudo-inverses ---- */

/* pinv_within(A, atol, rtol, hermitian): tolerances broadcast with the batch of A, and may widen it. */
static int pinv_infer(cn_call *c)
{
  const cn_desc *a = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS];
  int status = cni_arg_bool(c->args, 3) ? cni_check_square(c, 0) : cni_check_matrix(c, 0);
  if (!status) status = tolerance_check(c, c->in[1], "atol");
  if (!status) status = tolerance_check(c, c->in[2], "rtol");
  if (status) return status;
  int n = a->ndim - 2;
  memcpy(shape, a->shape, (size_t)n * sizeof *shape);
  for (int i = 1; i <= 2; i++)
    if (!cni_broadcast(&n, shape, c->in[i]->d.ndim, c->in[i]->d.shape))
      return cn_call_fail(c, CN_ERR_SHAPE, "%s does not broadcast with the batch of A", i == 1 ? "atol" : "rtol");
  if (n > CN_MAX_DIMS - 2) return cn_call_fail(c, CN_ERR_SHAPE, "tolerances of %d dims make the result too large", n);
  shape[n++] = cni_cols(a);
  shape[n++] = cni_rows(a);
  return cn_call_result(c, 0, a->dtype, n, shape);
}

static int pinv_decompose(cn_call *c)
{
  cn_tensor *u, *s, *vh, *a = c->in[0];
  int dtype = a->d.dtype;
  if (!cni_rows(&a->d) || !cni_cols(&a->d)) {
    c->out[0] = cn_zeros(c->spec[0].shape, (size_t)c->spec[0].ndim, .dtype = (cn_dtype)dtype, .device = c->device);
    return cn_err();
  }
  if (cni_arg_bool(c->args, 3)) {
    cn_linalg_eigh(&s, &u, a);
    vh = cni_adjoint(u);
  } else {
    cn_linalg_svd(&u, &s, &vh, a, .no_full_matrices = true);
  }
  cn_tensor *size = cn_abs(s), *least = cni_in_type(least_counted(size, c->in[1], c->in[2]), size ? size->d.dtype : 0);
  cn_tensor *inverse = cn_where(cn_gt(size, least), cn_reciprocal(s), cn_int(0));
  c->out[0] = cn_matmul(cn_mul(cni_adjoint(vh), cn_unsqueeze(inverse, -2)), cni_adjoint(u));
  return cn_err();
}

/* With P the pseudo-inverse: dP = -P dA P + P P^T dA^T (1 - A P) + (1 - P A) dA^T P^T P. */
static int pinv_vjp(cn_vjp *v)
{
  if (!v->need[0]) return CN_OK; /* only a tolerance asks */
  cn_tensor *a = v->in[0], *p = v->out[0], *pt = cni_adjoint(p), *gt = cni_adjoint(v->g[0]);
  cn_tensor *first = cn_matmul(pt, cn_matmul(v->g[0], pt));
  cn_tensor *left = cn_matmul(cn_matmul(gt, p), pt); /* (m, m), then what of it A does not reach */
  left = cn_sub(left, cn_matmul(a, cn_matmul(p, left)));
  cn_tensor *right = cn_matmul(pt, cn_matmul(p, gt));
  right = cn_sub(right, cn_matmul(cn_matmul(right, p), a));
  v->gin[0] = cn_sub(cn_add(left, right), first);
  return cn_err();
}

/* linalg_pinv(A, atol, rtol, hermitian) */
static int linalg_pinv_decompose(cn_call *c)
{
  int status = cni_check_matrix(c, 0);
  if (status) return status;
  cn_tensor *rtol = relative_tolerance(c, c->in[1], c->in[2]);
  c->out[0] = cn_pinv_within(c->in[0], c->in[1] ? c->in[1] : cn_num(0), rtol, cni_arg_bool(c->args, 3));
  return cn_err();
}

/* linalg_pinv_rcond(A, rcond, hermitian) */
static int pinv_rcond_decompose(cn_call *c)
{
  c->out[0] = cn_pinv_within(c->in[0], cn_num(0), c->in[1], cni_arg_bool(c->args, 2));
  return cn_err();
}

/* pinverse(input, rcond) */
static int pinverse_decompose(cn_call *c)
{
  c->out[0] = cn_pinv_within(c->in[0], cn_num(0), cn_num(cni_arg_float(c->args, 1)), false);
  return cn_err();
}

/* ---- linalg_lstsq(A, B, rcond, driver) -> (solution, residuals, rank, singular_values) ---- */

static cn_tensor *nothing(const cn_call *c, cn_dtype dtype)
{
  int64_t none = 0;
  return cn_zeros(&none, 1, .dtype = dtype, .device = c->device);
}

static int lstsq_check(const cn_call *c, bool vector)
{
  const cn_desc *a = &c->in[0]->d, *b = &c->in[1]->d;
  int status = cni_check_matrix(c, 0);
  if (!status) status = cni_check_float(c, 1);
  if (status) return status;
  if (a->dtype != b->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "A and B must have one type, but are %s and %s",
                        cn_dtype_name((cn_dtype)a->dtype), cn_dtype_name((cn_dtype)b->dtype));
  if (b->ndim < 1 || b->shape[b->ndim - (vector || b->ndim < 2 ? 1 : 2)] != cni_rows(a))
    return cn_call_fail(c, CN_ERR_SHAPE, "A and B must have as many rows");
  if (!cni_arg_none(c->args, 3)) {
    const char *driver = cni_arg_str(c->args, 3);
    if (strcmp(driver, "gels") && strcmp(driver, "gelsy") && strcmp(driver, "gelsd") && strcmp(driver, "gelss"))
      return cn_call_fail(c, CN_ERR_VALUE, "driver must be 'gels', 'gelsy', 'gelsd' or 'gelss', but is '%s'", driver);
  }
  return CN_OK;
}

static int lstsq_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1];
  const char *driver = cni_arg_none(c->args, 3) ? "gelsy" : cni_arg_str(c->args, 3);
  bool vector = b->d.ndim > 0 && cni_same_shape(a->d.ndim - 1, a->d.shape, b->d.ndim, b->d.shape);
  int status = lstsq_check(c, vector);
  if (status) return status;
  cn_dtype dtype = (cn_dtype)a->d.dtype;
  int64_t m = cni_rows(&a->d), n = cni_cols(&a->d);
  bool gels = !strcmp(driver, "gels"), values = !strcmp(driver, "gelsd") || !strcmp(driver, "gelss");
  double rcond = cni_arg_none(c->args, 2) ? eps_of(a->d.dtype) * (double)(m > n ? m : n) : cni_arg_float(c->args, 2);
  if (gels) rcond = 0; /* it takes full rank for granted */
  cn_tensor *column = vector ? cn_unsqueeze(b, -1) : b;
  cn_tensor *x = cn_matmul(cn_pinv_within(a, cn_num(0), cn_num(rcond), false), column);
  cn_tensor *s = gels ? NULL : cn_linalg_svdvals(cn_detach(a));
  cn_tensor *rank = s && m && n ? cn_sum(cn_gt(s, least_counted(s, NULL, cn_num(rcond))), .dim = CN_INTS(-1)) : NULL;
  if (!gels && !rank && !cn_err())
    rank = cn_zeros(a->d.shape, (size_t)a->d.ndim - 2, .dtype = CN_I64, .device = c->device);
  bool residuals = m > n && (gels || values);
  if (residuals && values) /* only where every matrix has full rank, which depends on the data */
    residuals = cn_item(cn_all(cn_eq(rank, cn_int(n)))) != 0;
  cn_tensor *rest = residuals ? cn_sum(cn_square(cn_abs(cn_sub(cn_matmul(a, x), column))), .dim = CN_INTS(-2)) : NULL;
  c->out[0] = vector ? cn_squeeze(x, .dim = CN_INTS(-1)) : x;
  c->out[1] = rest ? rest : cn_narrow(cn_flatten(cn_real(x)), 0, 0, 0); /* with a history, as in PyTorch */
  c->out[2] = rank ? rank : nothing(c, CN_I64);
  c->out[3] = values && s ? s : nothing(c, (cn_dtype)cni_real_type((int)dtype));
  return cn_err();
}

/* clang-format off */
const cn_op cni_linalg_norm_ops[] = {
  {.sig = "linalg_matrix_norm(Tensor A, str ord='fro', int[] dim=[-2,-1], bool keepdim=False, *, dtype? dtype=None) "
          "-> Tensor ; linalg amp_f32 complex",
   .doc = "A norm of the matrices that the two dims make: 'fro' the root of the sum of squares, 'nuc' the sum of "
          "singular "
          "values.",
   .flags = CN_OP_COMPOSITE, .decompose = matrix_norm_decompose},
  {.sig = "linalg_matrix_norm_ord(Tensor A, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, dtype? dtype=None) "
          "-> Tensor ; linalg overload_linalg_matrix_norm amp_f32_device complex",
   .doc = "A matrix norm by number: 1 and inf the largest sum of sizes of a column or row, 2 the largest singular "
          "value; "
          "-1, -inf and -2 the smallest.",
   .flags = CN_OP_COMPOSITE, .decompose = matrix_norm_ord_decompose},
  {.sig = "linalg_norm(Tensor A, Scalar? ord=None, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> "
          "Tensor "
          "; linalg amp_f32_host complex",
   .doc = "A vector norm along one dim, a matrix norm over two; without ord the root of the sum of squares of all "
          "elements "
          "or along dim.",
   .flags = CN_OP_COMPOSITE, .decompose = norm_decompose},
  {.sig = "linalg_norm_named(Tensor A, str ord, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor "
          "; linalg overload_linalg_norm complex",
   .doc = "linalg_matrix_norm of 'fro' or 'nuc', of a matrix or over two dims.",
   .flags = CN_OP_COMPOSITE, .decompose = norm_named_decompose},
  {.sig = "linalg_cond(Tensor A, Scalar? p=None) -> Tensor ; linalg amp_f32_host complex",
   .doc = "Condition of a matrix: its norm times that of its inverse, by default in the 2-norm (then A need not be "
          "square). "
          "A singular one gives inf.",
   .flags = CN_OP_COMPOSITE, .decompose = cond_decompose},
  {.sig = "linalg_cond_named(Tensor A, str p) -> Tensor ; linalg overload_linalg_cond complex",
   .doc = "Condition of a matrix in the norm 'fro' or 'nuc'.",
   .flags = CN_OP_COMPOSITE, .decompose = cond_named_decompose},
  {.sig = "linalg_matrix_rank(Tensor A, *, Tensor|Scalar? atol=None, Tensor|Scalar? rtol=None, "
          "bool hermitian=False) -> Tensor ; linalg opt_atol opt_rtol amp_f32_host complex",
   .doc = "How many singular values are larger than max(atol, rtol * the largest); rtol is max(m, n) eps by default, 0 "
          "where atol is given. hermitian: sizes of the eigenvalues of a symmetric matrix instead.",
   .flags = CN_OP_COMPOSITE, .decompose = matrix_rank_decompose},
  {.sig = "linalg_matrix_rank_tol(Tensor A, Tensor|Scalar tol, bool hermitian=False) -> Tensor ; linalg "
          "overload_linalg_matrix_rank complex",
   .doc = "How many singular values are larger than tol.",
   .flags = CN_OP_COMPOSITE, .decompose = matrix_rank_tol_decompose},
  {.sig = "pinv_within(Tensor A, Tensor atol, Tensor rtol, bool hermitian) -> Tensor ; internal complex",
   .doc = "Pseudo-inverse: singular values up to max(atol, rtol * the largest) count as 0. The tolerances get no "
          "gradient.",
   .infer = pinv_infer, .vjp = pinv_vjp, .decompose = pinv_decompose, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "linalg_pinv(Tensor A, *, Tensor|Scalar? atol=None, Tensor|Scalar? rtol=None, bool hermitian=False) -> "
          "Tensor ; linalg opt_atol opt_rtol amp_f32_host complex",
   .doc = "Pseudo-inverse of matrices; the tolerances are those of linalg_matrix_rank.",
   .flags = CN_OP_COMPOSITE, .decompose = linalg_pinv_decompose},
  {.sig = "linalg_pinv_rcond(Tensor A, Tensor|Scalar rcond, bool hermitian=False) -> Tensor ; linalg "
          "overload_linalg_pinv complex",
   .doc = "Pseudo-inverse with a relative tolerance.",
   .flags = CN_OP_COMPOSITE, .decompose = pinv_rcond_decompose},
  {.sig = "pinverse(Tensor input, float rcond=1e-15) -> Tensor ; method amp_f32_host complex",
   .doc = "linalg_pinv by its older name.",
   .flags = CN_OP_COMPOSITE, .decompose = pinverse_decompose},
  {.sig = "linalg_lstsq(Tensor A, Tensor B, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor "
          "residuals, "
          "Tensor rank, Tensor singular_values) ; linalg amp_f32_host complex",
   .doc = "X of smallest |A X - B|, and of these the smallest. Singular values up to rcond times the largest count "
          "as 0. "
          "As in PyTorch the driver ('gelsy', 'gels', 'gelsd', 'gelss') says which of the other results are not empty.",
   .flags = CN_OP_COMPOSITE, .decompose = lstsq_decompose},
};
/* clang-format on */
CNI_FAMILY(linalg_norm);
