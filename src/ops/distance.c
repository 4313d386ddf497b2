/* distance.c: the family of distances: between all pairs of rows of two sets, or of one, and between vectors side by
 * side, or whole tensors.
 *
 * Place in the flow: infer and gradients here, kernels in backends/cpu/reduce/distance.c. Invariant: where a distance
 * is 0 its gradient is taken as 0, as in PyTorch. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "cost.h"
#include "families.h"
#include "linalg.h"

/* ---- cdist_forward(x1 (..., P, M), x2 (..., R, M), p) -> (..., P, R) ---- */

static int check_pair(const cn_call *c, int a, int b)
{
  int status = cni_check_float(c, a);
  if (!status) status = cni_check_float(c, b);
  const cn_desc *x = &c->in[a]->d, *y = &c->in[b]->d;
  if (status) return status;
  if (x->dtype != y->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "x1 and x2 must have one type, but are %s and %s; cast one with cn_cast",
                        cn_dtype_name((cn_dtype)x->dtype), cn_dtype_name((cn_dtype)y->dtype));
  if (x->ndim < 2 || y->ndim < 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "x1 and x2 must have at least 2 dimensions, but have %d and %d", x->ndim,
                        y->ndim);
  if (cni_cols(x) != cni_cols(y))
    return cn_call_fail(c, CN_ERR_SHAPE, "rows of x1 have %lld elements, those of x2 %lld", (long long)cni_cols(x),
                        (long long)cni_cols(y));
  return CN_OK;
}

static int check_p(const cn_call *c, double p)
{
  return p >= 0 ? CN_OK : cn_call_fail(c, CN_ERR_VALUE, "p must not be negative, but is %g", p);
}

static int cdist_forward_infer(cn_call *c)
{
  int status = check_pair(c, 0, 1), n = 0;
  int64_t shape[CN_MAX_DIMS] = {0};
  const cn_desc *x = &c->in[0]->d, *y = &c->in[1]->d;
  if (!status) status = check_p(c, cni_arg_float(c->args, 2));
  if (status) return status;
  if (!cni_broadcast(&n, shape, x->ndim - 2, x->shape) || !cni_broadcast(&n, shape, y->ndim - 2, y->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "the batches of x1 and x2 do not fit");
  shape[n++] = cni_rows(x);
  shape[n++] = cni_rows(y);
  return cn_call_result(c, 0, x->dtype, n, shape);
}

/* By differences of all pairs: what gradients of gradients run through, and devices without a kernel. */
static cn_tensor *pairs(cn_tensor *x1, cn_tensor *x2, double p)
{
  cn_tensor *d = cn_sub(cn_unsqueeze(x1, -2), cn_unsqueeze(x2, -3));
  return cn_linalg_vector_norm(d, .ord = cni_option_float(p), .dim = CN_INTS(-1));
}

static int cdist_forward_decompose(cn_call *c)
{
  if (cni_cols(&c->in[0]->d) == 0)
    c->out[0] = cn_zeros(c->spec[0].shape, (size_t)c->spec[0].ndim, .dtype = (cn_dtype)c->spec[0].dtype,
                         .device = c->device);
  else c->out[0] = pairs(c->in[0], c->in[1], cni_arg_float(c->args, 2));
  return cn_err();
}

/* d|u|/du for the differences u: sign(u) |u|^(p-1) / dist^(p-1), by public ops. */
static cn_tensor *slope(cn_tensor *u, cn_tensor *dist, double p)
{
  dist = cn_unsqueeze(dist, -1);
  cn_tensor *none = cn_eq(dist, cn_int(0)), *safe = cn_where(none, cn_int(1), dist), *y;
  if (p == 0) return cn_mul(u, cn_int(0));
  if (p == 1) return cn_sign(u);
  if (isinf(p)) return cn_mul(cn_sign(u), cni_in_type(cn_eq(cn_abs(u), dist), u->d.dtype));
  if (p == 2) y = cn_true_divide(u, safe);
  else if (p < 2) {
    cn_tensor *zero = cn_eq(u, cn_int(0)), *size = cn_where(zero, cn_int(1), cn_abs(u));
    y = cn_mul(cn_mul(cn_sign(u), cn_pow(size, cn_num(p - 1))), cn_pow(safe, cn_num(1 - p)));
    y = cn_where(zero, cn_int(0), y);
  } else y = cn_mul(cn_mul(u, cn_pow(cn_abs(u), cn_num(p - 2))), cn_pow(safe, cn_num(1 - p)));
  return cn_where(none, cn_int(0), y);
}

/* The gradient of x1; that of x2 is this with all exchanged. g: (..., P, R) */
static cn_tensor *toward_first(cn_tensor *g, cn_tensor *x1, cn_tensor *x2, cn_tensor *dist, double p)
{
  if (!cni_recording()) return cn_cdist_backward(g, x1, x2, dist, p);
  cn_tensor *u = cn_sub(cn_unsqueeze(x1, -2), cn_unsqueeze(x2, -3));
  return cn_sum(cn_mul(cn_unsqueeze(g, -1), slope(u, dist, p)), .dim = CN_INTS(-2));
}

static int cdist_forward_vjp(cn_vjp *v)
{
  double p = cni_arg_float(v->args, 2);
  cn_tensor *x1 = v->in[0], *x2 = v->in[1], *g = v->g[0], *dist = v->out[0];
  if (v->need[0]) v->gin[0] = toward_first(g, x1, x2, dist, p);
  if (v->need[1]) v->gin[1] = toward_first(cni_swapped(g), x2, x1, cni_swapped(dist), p);
  return cn_err();
}

/* ---- cdist_backward(grad, x1, x2, cdist, p): the gradient of x1, with the batch of grad ---- */

static int cdist_backward_infer(cn_call *c)
{
  const cn_desc *g = &c->in[0]->d, *x = &c->in[1]->d, *y = &c->in[2]->d, *d = &c->in[3]->d;
  int64_t shape[CN_MAX_DIMS] = {0};
  int status = check_pair(c, 1, 2), n = 0;
  if (!status) status = check_p(c, cni_arg_float(c->args, 4));
  if (status) return status;
  bool fits = cni_broadcast(&n, shape, x->ndim - 2, x->shape) && cni_broadcast(&n, shape, y->ndim - 2, y->shape);
  shape[n] = cni_rows(x);
  shape[n + 1] = cni_rows(y);
  if (!fits || !cni_same_shape(g->ndim, g->shape, n + 2, shape) || !cni_same_shape(d->ndim, d->shape, n + 2, shape) ||
      g->dtype != x->dtype || d->dtype != x->dtype)
    return cn_call_fail(c, CN_ERR_SHAPE, "grad and cdist must have the shape and type of the distances");
  shape[n + 1] = cni_cols(x);
  return cn_call_result(c, 0, x->dtype, n + 2, shape);
}

static int cdist_backward_decompose(cn_call *c)
{
  cn_tensor *u = cn_sub(cn_unsqueeze(c->in[1], -2), cn_unsqueeze(c->in[2], -3));
  double p = cni_arg_float(c->args, 4);
  c->out[0] = cn_sum(cn_mul(cn_unsqueeze(c->in[0], -1), slope(u, c->in[3], p)), .dim = CN_INTS(-2));
  return cn_err();
}

/* ---- cdist, pdist ---- */

/* cdist(x1, x2, p, compute_mode) */
static int cdist_decompose(cn_call *c)
{
  const char *mode = cni_arg_str(c->args, 3);
  if (!cni_arg_none(c->args, 3) && strcmp(mode, "use_mm_for_euclid_dist_if_necessary") &&
      strcmp(mode, "use_mm_for_euclid_dist") && strcmp(mode, "donot_use_mm_for_euclid_dist"))
    return cn_call_fail(c, CN_ERR_VALUE, "'%s' is not a valid value for compute_mode", mode);
  c->out[0] = cn_cdist_forward(c->in[0], c->in[1], cni_arg_float(c->args, 2));
  return cn_err();
}

/* pdist(input, p): the pairs i < k of the rows of one matrix, in order */
static int pdist_decompose(cn_call *c)
{
  int status = cni_check_float(c, 0);
  const cn_desc *d = &c->in[0]->d;
  double p = cni_arg_float(c->args, 1);
  if (!status && d->ndim != 2)
    status = cn_call_fail(c, CN_ERR_SHAPE, "takes a matrix of rows, but the input has %d dimensions", d->ndim);
  if (!status) status = check_p(c, p);
  if (status) return status;
  int64_t n = d->shape[0], zero = 0;
  if (n < 2) {
    c->out[0] = cn_reshape(cn_narrow(c->in[0], 0, 0, 0), &zero, 1);
    if (d->shape[1] == 0) c->out[0] = cn_zeros(&zero, 1, .dtype = (cn_dtype)d->dtype, .device = c->device);
    return cn_err();
  }
  cn_tensor *both = cn_triu_indices(n, n, .offset = 1, .device = c->device);
  cn_tensor *flat = cn_add(cn_mul(cn_select(both, 0, 0), cn_int(n)), cn_select(both, 0, 1));
  cn_tensor *all = cn_reshape(cn_cdist_forward(c->in[0], c->in[0], p), CN_SHAPE(n * n));
  c->out[0] = cn_index_select(all, 0, flat);
  return cn_err();
}

/* ---- of vectors along a dim ---- */

/* cosine_similarity(x1, x2, dim, eps) */
static int cosine_similarity_decompose(cn_call *c)
{
  int64_t dim = cni_arg_int(c->args, 2), shape[CN_MAX_DIMS];
  double eps = cni_arg_float(c->args, 3);
  int ndim, dtype = cni_result_type(c, c->in, 2), status;
  cn_tensor *x[2], *unit[2];
  if (!dtype) return CN_ERR_DTYPE;
  if (!cni_dtype_is_float(dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "expected common dtype to be floating point, yet it is %s",
                        cn_dtype_name((cn_dtype)dtype));
  if ((status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape))) return status;
  for (int i = 0; i < 2; i++) {
    x[i] = cn_expand(cni_in_type(c->in[i], dtype), shape, (size_t)ndim);
    cn_tensor *size = cn_linalg_vector_norm(x[i], .dim = CN_INTS(dim), .keepdim = true);
    unit[i] = cn_true_divide(x[i], cn_clamp_min(size, cn_num(eps)));
  }
  c->out[0] = cn_sum(cn_mul(unit[0], unit[1]), .dim = CN_INTS(dim));
  return cn_err();
}

/* pairwise_distance(x1, x2, p, eps, keepdim) */
static int pairwise_distance_decompose(cn_call *c)
{
  cn_tensor *apart = cn_add(cn_sub(c->in[0], c->in[1]), cn_num(cni_arg_float(c->args, 3)));
  c->out[0] = cn_norm(apart, .p = cni_option_float(cni_arg_float(c->args, 2)), .dim = CN_INTS(-1),
                      .keepdim = cni_arg_bool(c->args, 4));
  return cn_err();
}

/* ---- dist(input, other, p) ---- */

static int dist_decompose(cn_call *c)
{
  double p = cni_arg_float(c->args, 2);
  c->out[0] = cn_linalg_vector_norm(cn_sub(c->in[0], c->in[1]), .ord = cni_option_float(p));
  return cn_err();
}

/* clang-format off */
const cn_op cni_distance_ops[] = {
  {.sig = "cdist_forward(Tensor x1, Tensor x2, float p) -> Tensor ; internal grad_fn_CdistBackward0",
   .doc = "The p-norm of the difference of each row of x1 (..., P, M) and each of x2 (..., R, M): (..., P, R).",
   .cost = cni_cost_distance,
   .infer = cdist_forward_infer, .vjp = cdist_forward_vjp, .decompose = cdist_forward_decompose,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_OUT(0), [1] = CN_IN(0) | CN_IN(1) | CN_OUT(0)}},
  {.sig = "cdist_backward(Tensor grad, Tensor x1, Tensor x2, Tensor cdist, float p) -> Tensor ; internal",
   .doc = "The gradient of cdist_forward with respect to x1, before its sum over broadcast batches. It has no "
          "gradient: a "
          "second differentiation does not go through it.",
   .flags = CN_OP_NO_GRAD, .infer = cdist_backward_infer, .decompose = cdist_backward_decompose},
  {.sig = "cdist(Tensor x1, Tensor x2, float p=2.0, str? compute_mode=None) -> Tensor ; amp_f32",
   .doc = "Distances, in the p-norm, of all rows of x1 (..., P, M) from all of x2 (..., R, M): (..., P, R). "
          "compute_mode is "
          "accepted and has no effect: differences are always taken, never the less exact product of matrices.",
   .flags = CN_OP_COMPOSITE, .decompose = cdist_decompose},
  {.sig = "pdist(Tensor input, float p=2) -> Tensor ; nn amp_f32_device",
   .doc = "Distances, in the p-norm, of all pairs of rows of a matrix, the pair (0, 1) first, then (0, 2).",
   .flags = CN_OP_COMPOSITE, .decompose = pdist_decompose},
  {.sig = "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor ; nn amp_f32_device",
   .doc = "Cosine of the angle between vectors along dim, broadcast; a vector counts as at least eps long.",
   .flags = CN_OP_COMPOSITE, .decompose = cosine_similarity_decompose},
  {.sig = "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor ; nn "
          "complex",
   .doc = "p-norm of x1 - x2 + eps along the last dimension.",
   .flags = CN_OP_COMPOSITE, .decompose = pairwise_distance_decompose},
  {.sig = "dist(Tensor input, Tensor other, Scalar p=2) -> Tensor ; method amp_f32_device grad_fn complex",
   .doc = "The p-norm of input - other.",
   .flags = CN_OP_COMPOSITE, .decompose = dist_decompose},
};
/* clang-format on */
CNI_FAMILY(distance);
