/* numeric.c: the family of numerical calculus and statistics of series: differences, gradients, trapezoids, covariance.
 *
 * Place in the flow: composites over slices, cat, sums and products. Invariant: no rule looks at a value. */
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

static cn_tensor *head(cn_tensor *x, int64_t dim, int64_t drop) { return cn_slice(x, dim, 0, cn_size(x, dim) - drop); }
static cn_tensor *tail(cn_tensor *x, int64_t dim, int64_t drop) { return cn_slice(x, dim, drop, CN_NONE); }

/* ---- diff(input, n, dim, prepend, append) ---- */

static cn_tensor *neighbours(cn_tensor *x, int64_t dim)
{
  if (!x) return NULL;
  bool bools = x->d.dtype == CN_BOOL;
  cn_tensor *a = tail(x, dim, 1), *b = cn_slice(x, dim, 0, -1);
  return bools ? cn_ne(a, b) : cn_sub(a, b);
}

static int diff_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *list[3];
  int64_t n = cni_arg_int(c->args, 1);
  size_t count = 0;
  if (x->d.ndim < 1) return cn_call_fail(c, CN_ERR_SHAPE, "needs at least one dimension");
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), x->d.ndim);
  if (dim < 0) return dim;
  if (n < 0) return cn_call_fail(c, CN_ERR_VALUE, "n must not be negative, but is %lld", (long long)n);
  if (n == 0) return c->out[0] = cn_clone(x), cn_err();
  if (c->in[1]) list[count++] = c->in[1];
  list[count++] = x;
  if (c->in[2]) list[count++] = c->in[2];
  if (count > 1) x = cn_cat(list, count, .dim = cni_option(dim));
  for (int64_t i = 0; i < n && x && (i == 0 || x->d.shape[dim]); i++) x = neighbours(x, dim);
  c->out[0] = x;
  return cn_err();
}

/* ---- trapezoid(y, x, dx, dim) ---- */

/* The distances between neighbours of x, ready to be multiplied with y's sums along dim. */
static cn_tensor *widths(cn_call *c, cn_tensor *y, cn_tensor *x, int dim)
{
  int64_t shape[CN_MAX_DIMS];
  int n = y->d.ndim, lead = n - x->d.ndim;
  if (x->d.ndim == 1) {
    if (x->d.numel != y->d.shape[dim]) {
      cn_call_fail(c, CN_ERR_SHAPE, "x has %lld elements, but dimension %d of y has size %lld", (long long)x->d.numel,
                   dim, (long long)y->d.shape[dim]);
      return NULL;
    }
    for (int i = 0; i < n; i++) shape[i] = i == dim ? x->d.numel : 1;
    x = cn_reshape(x, shape, (size_t)n);
  } else if (lead > 0) {
    for (int i = 0; i < n; i++) shape[i] = i < lead ? 1 : x->d.shape[i - lead];
    x = cn_reshape(x, shape, (size_t)n);
  }
  return cn_sub(tail(x, dim, 1), cn_slice(x, dim, 0, -1));
}

/* What the forms share: y's dim; the widths in *dx or NULL for a number. */
static int trapezoid_begin(cn_call *c, int *dim, cn_tensor **dx)
{
  cn_tensor *y = c->in[0];
  *dim = cn_call_dim(c, cni_arg_int(c->args, 3), y->d.ndim);
  if (*dim < 0) return *dim;
  if (y->d.dtype == CN_BOOL) return cn_call_fail(c, CN_ERR_DTYPE, "not for bool");
  if (y->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "needs at least one dimension");
  *dx = NULL;
  if (!c->in[1]) return CN_OK;
  if (c->in[1]->d.dtype == CN_BOOL) return cn_call_fail(c, CN_ERR_DTYPE, "not for bool");
  if (c->in[1]->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "x needs a dimension; use dx for a number");
  *dx = widths(c, y, c->in[1], *dim);
  return cn_err();
}

static int trapezoid_decompose(cn_call *c)
{
  int dim, status;
  cn_tensor *dx, *y = c->in[0];
  if ((status = trapezoid_begin(c, &dim, &dx))) return status;
  int64_t along[1] = {dim};
  if (y->d.shape[dim] == 0) {
    c->out[0] = cn_sum(y, .dim = {along, 1}, .dtype = cn_dtype_of(y));
    return cn_err();
  }
  if (dx) {
    cn_tensor *sums = cn_add(tail(y, dim, 1), head(y, dim, 1));
    c->out[0] = cn_true_divide(cn_sum(cn_mul(sums, dx), .dim = {along, 1}), cn_int(2));
    return cn_err();
  }
  cn_tensor *ends = cn_mul(cn_add(cn_select(y, dim, 0), cn_select(y, dim, -1)), cn_num(0.5));
  c->out[0] = cn_mul(cn_sub(cn_sum(y, .dim = {along, 1}), ends), cni_number(&c->args[2]));
  return cn_err();
}

static int cumulative_trapezoid_decompose(cn_call *c)
{
  int dim, status;
  cn_tensor *dx;
  if ((status = trapezoid_begin(c, &dim, &dx))) return status;
  cn_tensor *sums = cn_add(tail(c->in[0], dim, 1), cn_slice(c->in[0], dim, 0, -1));
  if (dx) c->out[0] = cn_true_divide(cn_cumsum(cn_mul(dx, sums), dim), cn_int(2));
  else c->out[0] = cn_mul(cn_cumsum(sums, dim), cn_num(cni_arg_float(c->args, 2) / 2));
  return cn_err();
}

/* ---- gradient: (input, spacing, dim, edge_order) ---- */

/* The slope at place `at` of dim by three neighbours from `first` on, whose factors are given. f: factors. */
static cn_tensor *three(cn_tensor *x, int dim, int64_t first, cn_tensor *const *f)
{
  cn_tensor *y = cn_mul(f[0], cn_slice(x, dim, first, first + 1));
  y = cn_add(y, cn_mul(f[1], cn_slice(x, dim, first + 1, first + 2)));
  return cn_add(y, cn_mul(f[2], cn_slice(x, dim, first + 2, first + 3)));
}

/* Equal steps of size h along dim. */
static cn_tensor *slope_even(cn_tensor *x, int dim, double h, int64_t edge)
{
  int64_t n = x->d.shape[dim];
  cn_tensor *inside = cn_true_divide(cn_sub(tail(x, dim, 2), head(x, dim, 2)), cn_num(2 * h)), *first, *last;
  if (edge == 1) {
    first = cn_true_divide(cn_sub(cn_slice(x, dim, 1, 2), cn_slice(x, dim, 0, 1)), cn_num(h));
    last = cn_true_divide(cn_sub(cn_slice(x, dim, n - 1, n), cn_slice(x, dim, n - 2, n - 1)), cn_num(h));
  } else {
    cn_tensor *at_first[3] = {cn_num(-1.5 / h), cn_num(2 / h), cn_num(-0.5 / h)};
    cn_tensor *at_last[3] = {cn_num(0.5 / h), cn_num(-2 / h), cn_num(1.5 / h)};
    first = three(x, dim, 0, at_first);
    last = three(x, dim, n - 3, at_last);
  }
  return cn_cat(CN_TENSORS(first, inside, last), .dim = cni_option(dim));
}

/* a / (b c) */
static cn_tensor *over(cn_tensor *a, cn_tensor *b, cn_tensor *c) { return cn_true_divide(a, cn_mul(b, c)); }

/* Steps d0 and d1 to both sides: factors of the three neighbours for the slope at the one in the middle (0), at the
 * first (-1) or the last (1). */
static void factors(cn_tensor **f, cn_tensor *d0, cn_tensor *d1, int where)
{
  cn_tensor *sum = cn_add(d0, d1);
  if (where == 0) {
    f[0] = cn_neg(over(d1, d0, sum));
    f[1] = over(cn_sub(d1, d0), d0, d1);
    f[2] = over(d0, d1, sum);
  } else if (where < 0) {
    f[0] = cn_neg(over(cn_add(d0, sum), d0, sum));
    f[1] = over(sum, d0, d1);
    f[2] = cn_neg(over(d0, d1, sum));
  } else {
    f[0] = over(d1, d0, sum);
    f[1] = cn_neg(over(sum, d0, d1));
    f[2] = over(cn_add(d1, sum), d1, sum);
  }
}

/* Coordinates `at` (n) along dim. */
static cn_tensor *slope_at(cn_tensor *x, int dim, cn_tensor *at, int64_t edge)
{
  int64_t n = x->d.shape[dim], shape[CN_MAX_DIMS];
  for (int i = 0; i < x->d.ndim; i++) shape[i] = i == dim ? n - 1 : 1;
  cn_tensor *d = cn_reshape(cn_sub(tail(at, 0, 1), head(at, 0, 1)), shape, (size_t)x->d.ndim), *f[3];
  cn_tensor *inside, *first, *last;
  if (!d) return NULL;
  factors(f, head(d, dim, 1), tail(d, dim, 1), 0);
  inside = cn_mul(f[0], head(x, dim, 2));
  inside = cn_add(inside, cn_mul(f[1], cn_slice(x, dim, 1, n - 1)));
  inside = cn_add(inside, cn_mul(f[2], tail(x, dim, 2)));
  if (edge == 1) {
    first = cn_true_divide(cn_sub(cn_slice(x, dim, 1, 2), cn_slice(x, dim, 0, 1)), cn_slice(d, dim, 0, 1));
    last = cn_true_divide(cn_sub(cn_slice(x, dim, n - 1, n), cn_slice(x, dim, n - 2, n - 1)),
                          cn_slice(d, dim, n - 2, n - 1));
  } else {
    factors(f, cn_slice(d, dim, 0, 1), cn_slice(d, dim, 1, 2), -1);
    first = three(x, dim, 0, f);
    factors(f, cn_slice(d, dim, n - 3, n - 2), cn_slice(d, dim, n - 2, n - 1), 1);
    last = three(x, dim, n - 3, f);
  }
  return cn_cat(CN_TENSORS(first, inside, last), .dim = cni_option(dim));
}

/* The dims asked for, in their order; returns how many. */
static int gradient_dims(cn_call *c, const cn_value *dims, int *list)
{
  int ndim = c->in[0]->d.ndim, n = dims->tag == CN_V_NONE ? ndim : dims->n;
  uint32_t seen = 0;
  for (int i = 0; i < n; i++) {
    list[i] = dims->tag == CN_V_NONE ? i : cn_call_dim(c, dims->u.is[i], ndim);
    if (list[i] < 0) return list[i];
    if (seen >> list[i] & 1) return cn_call_fail(c, CN_ERR_VALUE, "dimension %d appears twice", list[i]);
    seen |= 1u << list[i];
  }
  if (n > c->nout) return cn_call_fail(c, CN_ERR_VALUE, "gives %d results, room was made for %d", n, c->nout);
  c->nout = n;
  return n;
}

static int gradient_check(const cn_call *c, int64_t edge, const int *dims, int n)
{
  if (edge != 1 && edge != 2)
    return cn_call_fail(c, CN_ERR_VALUE, "edge_order must be 1 or 2, not %lld", (long long)edge);
  for (int i = 0; i < n; i++)
    if (c->in[0]->d.ndim == 0 || c->in[0]->d.shape[dims[i]] < edge + 1)
      return cn_call_fail(c, CN_ERR_SHAPE, "dimension %d must have at least size %lld", dims[i], (long long)edge + 1);
  return CN_OK;
}

/* gradient(input, spacing, dim, edge_order): spacing has one number for all dims or one for each. */
static int gradient_decompose(cn_call *c)
{
  int dims[CN_MAX_DIMS + 1], n = gradient_dims(c, &c->args[2], dims);
  const cn_value *spacing = &c->args[1];
  int64_t edge = cni_arg_int(c->args, 3);
  int status = n < 0 ? n : gradient_check(c, edge, dims, n);
  if (status) return status;
  if (spacing->tag != CN_V_NONE && spacing->n != 1 && spacing->n != n)
    return cn_call_fail(c, CN_ERR_VALUE, "%d spacings are given for %d dimensions", spacing->n, n);
  for (int i = 0; i < n; i++) {
    double h = spacing->tag == CN_V_NONE ? 1 : spacing->u.fs[spacing->n == 1 ? 0 : i];
    c->out[i] = slope_even(c->in[0], dims[i], h, edge);
  }
  return cn_err();
}

/* gradient_at(input, spacing, dim, edge_order): coordinates along each dim. */
static int gradient_at_decompose(cn_call *c)
{
  int dims[CN_MAX_DIMS + 1], n = gradient_dims(c, &c->args[2], dims);
  int64_t edge = cni_arg_int(c->args, 3);
  int status = n < 0 ? n : gradient_check(c, edge, dims, n);
  if (status) return status;
  if (c->nin - 1 != n)
    return cn_call_fail(c, CN_ERR_VALUE, "coordinates of %d dimensions are given for %d", c->nin - 1, n);
  for (int i = 0; i < n; i++) {
    cn_tensor *at = c->in[1 + i];
    if (at->d.ndim != 1 || at->d.numel != c->in[0]->d.shape[dims[i]])
      return cn_call_fail(c, CN_ERR_SHAPE, "the coordinates of dimension %d must be a vector of its size", dims[i]);
    c->out[i] = slope_at(c->in[0], dims[i], at, edge);
  }
  return cn_err();
}

/* ---- cov(input, correction, fweights, aweights), corrcoef(input) ---- */

static int check_weights(const cn_call *c, const cn_tensor *w, const char *name, bool floats, int64_t n)
{
  if (!w) return CN_OK;
  if (w->d.ndim > 1) return cn_call_fail(c, CN_ERR_SHAPE, "%s must have at most one dimension", name);
  if (floats ? !cni_dtype_is_float(w->d.dtype) : !cni_dtype_is_int(w->d.dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "%s must be of %s type, not %s", name,
                        floats ? "a floating-point" : "an integer", cn_dtype_name((cn_dtype)w->d.dtype));
  if (w->d.numel != n)
    return cn_call_fail(c, CN_ERR_SHAPE, "%s has %lld elements for %lld observations", name, (long long)w->d.numel,
                        (long long)n);
  return CN_OK;
}

/* What the products are divided by, at least 0. w: (n), or NULL. */
static cn_tensor *degrees(cn_tensor *w, cn_tensor *aweights, cn_tensor *sum, int64_t n, int64_t correction)
{
  if (!w) return cn_int(n > correction ? n - correction : 0);
  if (correction == 0) return cn_clamp_min(sum, cn_int(0));
  cn_tensor *less = cn_int(correction);
  if (aweights) less = cn_true_divide(cn_mul(cn_sum(cn_mul(w, aweights)), cn_int(correction)), sum);
  return cn_clamp_min(cn_sub(sum, less), cn_int(0));
}

static int cov_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *fw = c->in[1], *aw = c->in[2], *w = fw;
  if (x->d.ndim > 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes at most two dimensions, not %d", (int)x->d.ndim);
  if (x->d.dtype == CN_BOOL) return cn_call_fail(c, CN_ERR_DTYPE, "not for bool");
  if (x->d.ndim < 2) x = cn_reshape(x, CN_SHAPE(1, x->d.numel));
  if (!x) return cn_err();
  int64_t n = x->d.shape[1], correction = cni_arg_int(c->args, 1);
  int status = check_weights(c, fw, "fweights", false, n);
  if (status || (status = check_weights(c, aw, "aweights", true, n))) return status;
  if (fw && aw) w = cn_mul(fw, aw);
  else if (aw) w = aw;
  if (w && cn_ndim(w) == 0) w = cn_reshape(w, CN_SHAPE(1));
  cn_tensor *sum = w ? cn_sum(w) : cn_int(n);
  cn_tensor *mean = cn_true_divide(cn_sum(w ? cn_mul(x, w) : x, .dim = CN_INTS(1), .keepdim = true), sum);
  cn_tensor *centred = cn_sub(x, mean);
  cn_tensor *weighted = w ? cn_mul(centred, w) : centred;
  if (!weighted) return cn_err();
  centred = cni_in_type(centred, weighted->d.dtype);
  cn_tensor *y = cn_mm(centred, cni_adjoint(weighted));
  c->out[0] = cn_squeeze(cn_true_divide(y, degrees(w, aw, sum, n, correction)));
  return cn_err();
}

static int corrcoef_decompose(cn_call *c)
{
  cn_tensor *v = cn_cov(c->in[0], NULL, NULL);
  if (!v) return cn_err();
  if (v->d.ndim == 0) return c->out[0] = cn_true_divide(v, v), cn_err();
  bool complex = cni_dtype_is_complex(v->d.dtype);
  cn_tensor *s = cn_sqrt(complex ? cn_real(cn_diagonal(v)) : cn_diagonal(v));
  v = cn_true_divide(cn_true_divide(v, cn_unsqueeze(s, 1)), cn_unsqueeze(s, 0));
  cn_tensor *parts = cn_clamp(complex ? cn_view_as_real(v) : v, cn_num(-1), cn_num(1));
  c->out[0] = complex ? cn_view_as_complex(parts) : parts;
  return cn_err();
}

/* clang-format off */
const cn_op cni_numeric_ops[] = {
  {.sig = "diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor ; method "
          "complex",
   .doc = "The n-th differences of neighbours along a dimension, after prepend and append were put to its ends. Of "
          "bool, whether neighbours differ.",
   .flags = CN_OP_COMPOSITE, .decompose = diff_decompose},
  {.sig = "trapezoid(Tensor y, Tensor? x=None, *, Scalar dx=1, int dim=-1) -> Tensor ; alias_trapz complex",
   .doc = "The integral of y along a dimension by the trapezoidal rule, at points x or at equal distances dx.",
   .flags = CN_OP_COMPOSITE, .decompose = trapezoid_decompose},
  {.sig = "cumulative_trapezoid(Tensor y, Tensor? x=None, *, Scalar dx=1, int dim=-1) -> Tensor ; complex",
   .doc = "The integrals of y from its first place to each other one, by the trapezoidal rule.",
   .flags = CN_OP_COMPOSITE, .decompose = cumulative_trapezoid_decompose},
  {.sig = "gradient(Tensor input, *, float[]? spacing=None, int[]? dim=None, int edge_order=1) -> Tensor[] ; complex",
   .doc = "The slopes along each of dims (all), to second order, for samples at equal distances: spacing has one "
          "number or one for each dim. edge_order is the order at the ends.",
   .flags = CN_OP_COMPOSITE, .decompose = gradient_decompose},
  {.sig = "gradient_at(Tensor input, Tensor[] spacing, int[]? dim=None, int edge_order=1) -> Tensor[] ; complex",
   .doc = "gradient for samples at given coordinates along each of dims.",
   .flags = CN_OP_COMPOSITE, .decompose = gradient_at_decompose},
  {.sig = "cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor ; method "
          "complex",
   .doc = "Covariances of the rows of input; columns are observations, with frequencies fweights and weights aweights.",
   .flags = CN_OP_COMPOSITE, .decompose = cov_decompose},
  {.sig = "corrcoef(Tensor input) -> Tensor ; method complex",
   .doc = "Correlation coefficients of the rows of input.",
   .flags = CN_OP_COMPOSITE, .decompose = corrcoef_decompose},
};
/* clang-format on */
CNI_FAMILY(numeric);
