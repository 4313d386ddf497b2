/* order.c: the family of ops that walk along a dim in order: running sums and products, sorting, selection.
 *
 * Place in the flow: rows for apply; kernels stand in backends/cpu/reduce/scan.c, logcumsumexp.c and sort.c.
 * Invariant: equal elements keep their order in every sort, and NaN counts as larger than any number, as in PyTorch. */
#include <cairn/kw.h>
#include <cairn/ops.h>

#include "cost.h"
#include "families.h"
#include "reduce.h"

/* ---- cumsum and cumprod: (input, dim, dtype) ---- */

static int scan_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int dtype = cni_sum_type(c, 2), dim = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim);
  int status = cni_check_computes(c, d->dtype);
  if (dim < 0) return dim;
  if (!status) status = cni_check_computes(c, dtype);
  return status ? status : cn_call_result(c, 0, dtype, d->ndim, d->shape);
}

static cn_tensor *sum_from_the_end(cn_tensor *x, int64_t dim)
{
  return cn_flip(cn_cumsum(cn_flip(x, &dim, 1), dim), &dim, 1);
}

static int cumsum_vjp(cn_vjp *v)
{
  v->gin[0] = v->in_meta[0].ndim ? sum_from_the_end(v->g[0], cni_arg_int(v->args, 1)) : v->g[0];
  return cn_err();
}

/* Gradient of cumprod without a branch on data. Up to the first zero, dy_i/dx_k is y_i / x_k; for the first
 * zero itself it is the product of all others, up to the second zero; behind it nothing has an effect. */
static cn_tensor *cumprod_gradient(cn_tensor *g, cn_tensor *x, cn_tensor *y, int64_t dim)
{
  cn_tensor *zero = cn_eq(x, cn_int(0)), *zeros = cn_cumsum(zero, dim);
  cn_tensor *before = cn_eq(zeros, cn_int(0)), *between = cn_eq(zeros, cn_int(1));
  cn_tensor *first = cn_logical_and(zero, between);
  cn_tensor *others = cn_cumprod(cn_where(first, cn_int(1), x), dim);
  cn_tensor *below = sum_from_the_end(cn_where(before, cn_mul(g, y), cn_int(0)), dim);
  cn_tensor *at = sum_from_the_end(cn_where(between, cn_mul(g, others), cn_int(0)), dim);
  below = cn_true_divide(below, cn_where(before, x, cn_int(1)));
  return cn_where(before, below, cn_where(first, at, cn_int(0)));
}

/* The same with every product written out: n times the memory, but right to any order of differentiation. Row
 * k is x with element k set to 1. */
static cn_tensor *cumprod_gradient_full(cn_tensor *g, cn_tensor *x, int64_t dim)
{
  int64_t last = -1, n = cn_size(x, dim);
  g = cn_unsqueeze(cn_movedim(g, &dim, 1, &last, 1), -2);
  x = cn_unsqueeze(cn_movedim(x, &dim, 1, &last, 1), -2);
  cn_tensor *i = cn_arange(0, (double)n, .dtype = CN_I64, .device = cn_device_of(x)), *k = cn_unsqueeze(i, 1);
  cn_tensor *products = cn_cumprod(cn_where(cn_eq(i, k), cn_int(1), x), -1);
  cn_tensor *terms = cn_where(cn_ge(i, k), cn_mul(g, products), cn_int(0));
  return cn_movedim(cn_sum(terms, .dim = CN_INTS(-1)), &last, 1, &dim, 1);
}

enum { WRITTEN_OUT = 1024 }; /* elements up to which the n * n products are affordable */

static int cumprod_vjp(cn_vjp *v)
{
  const cn_meta *m = &v->in_meta[0];
  int64_t dim = cni_arg_int(v->args, 1);
  cn_tensor *x = cni_in_type(v->in[0], v->g[0]->d.dtype);
  if (m->ndim == 0) v->gin[0] = v->g[0];
  else if (cni_recording() && cn_size(x, dim) <= WRITTEN_OUT)
    v->gin[0] = cumprod_gradient_full(v->g[0], x, dim);
  else v->gin[0] = cumprod_gradient(v->g[0], x, v->out[0], dim);
  return cn_err();
}

/* cummax and cummin: (input, dim) -> (values, indices) */
static int cummax_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim), status = cni_check_computes(c, d->dtype);
  if (dim < 0) return dim;
  if (!status) status = cn_call_result(c, 0, d->dtype, d->ndim, d->shape);
  return status ? status : cn_call_result(c, 1, CN_I64, d->ndim, d->shape);
}

static int cummax_vjp(cn_vjp *v)
{
  const cn_meta *m = &v->in_meta[0];
  if (!v->g[0]) return CN_OK;
  cn_tensor *zeros = cni_zeros_of(m, cn_dtype_of(v->g[0]));
  v->gin[0] = m->ndim ? cn_scatter_add(zeros, cni_arg_int(v->args, 1), v->out[1], v->g[0]) : v->g[0];
  return cn_err();
}

/* logcumsumexp(input, dim) */
static int logcumsumexp_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), x->ndim), status = cni_check_computes(c, x->dtype);
  if (dim < 0) return dim;
  if (status) return status;
  if (!cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s; cast it first",
                        cn_dtype_name((cn_dtype)x->dtype));
  return cn_call_result(c, 0, x->dtype, x->ndim, x->shape);
}

/* The sum over i >= k of g_i exp(x_k - y_i), for the g above zero (or, negated, below), by way of logarithms. */
static cn_tensor *log_scan_part(cn_tensor *g, cn_tensor *x, cn_tensor *y, int64_t dim)
{
  cn_tensor *some = cn_gt(g, cn_int(0));
  cn_tensor *size = cn_log(cn_where(some, g, cn_int(1)));
  size = cn_where(some, cn_sub(size, y), cn_num(-(double)__builtin_inff()));
  cn_tensor *sum = cn_flip(cn_logcumsumexp(cn_flip(size, &dim, 1), dim), &dim, 1);
  return cn_exp(cn_add(sum, x));
}

static int logcumsumexp_vjp(cn_vjp *v)
{
  int64_t dim = cni_arg_int(v->args, 1);
  if (v->in_meta[0].ndim == 0) {
    v->gin[0] = v->g[0];
    return CN_OK;
  }
  int wide = cn_dtype_of(v->g[0]) == CN_F64 ? CN_F64 : CN_F32;
  bool half = cn_dtype_of(v->g[0]) != (cn_dtype)wide; /* then the result is too coarse: 10000 is 8 from the next */
  cn_tensor *g = cni_in_type(v->g[0], wide), *x = cni_in_type(v->in[0], wide);
  cn_tensor *y = half ? cn_logcumsumexp(x, dim) : v->out[0];
  v->gin[0] = cn_sub(log_scan_part(g, x, y, dim), log_scan_part(cn_neg(g), x, y, dim));
  return cn_err();
}

/* ---- sort, topk, kthvalue ---- */

/* (input, dim, ...) -> (values, indices), both of input's shape */
static int sort_infer(cn_call *c) { return cummax_infer(c); }

/* The results picked elements apart from each other: each gradient goes back to where its element stood. */
static int picked_vjp(cn_vjp *v, int dim_param)
{
  const cn_meta *x = &v->in_meta[0];
  if (!v->g[0]) return CN_OK;
  v->gin[0] = x->ndim ? cni_scatter_along(v->g[0], x, cni_arg_int(v->args, dim_param), v->out[1])
                      : cn_reshape(v->g[0], CN_SCALAR_SHAPE);
  return cn_err();
}
static int sort_vjp(cn_vjp *v) { return picked_vjp(v, 1); }
static int topk_vjp(cn_vjp *v) { return picked_vjp(v, 2); }

static int argsort_decompose(cn_call *c)
{
  int64_t dim = cni_arg_int(c->args, 1);
  cn_sort(NULL, &c->out[0], c->in[0], .dim = dim ? dim : CN_ZERO, .descending = cni_arg_bool(c->args, 2));
  return cn_err();
}

static int msort_decompose(cn_call *c)
{
  cn_sort(&c->out[0], NULL, c->in[0], .dim = CN_ZERO);
  return cn_err();
}

/* topk(input, k, dim, largest, sorted) */
static int topk_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t k = cni_arg_int(c->args, 1), shape[CN_MAX_DIMS];
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), d->ndim), status = cni_check_computes(c, d->dtype);
  if (dim < 0) return dim;
  if (status) return status;
  int64_t n = d->ndim ? d->shape[dim] : 1;
  if (k < 0 || k > n)
    return cn_call_fail(c, CN_ERR_VALUE, "k is %lld, but dimension %d has %lld elements", (long long)k, dim,
                        (long long)n);
  memcpy(shape, d->shape, sizeof shape);
  shape[dim] = k;
  status = cn_call_result(c, 0, d->dtype, d->ndim, shape);
  return status ? status : cn_call_result(c, 1, CN_I64, d->ndim, shape);
}

/* kthvalue(input, k, dim, keepdim) */
static int kthvalue_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t k = cni_arg_int(c->args, 1);
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), d->ndim), status = cni_check_computes(c, d->dtype);
  if (dim < 0) return dim;
  if (status) return status;
  int64_t n = d->ndim ? d->shape[dim] : 1;
  if (k < 1 || k > n)
    return cn_call_fail(c, CN_ERR_VALUE,
                        "k is %lld, but must be between 1 and %lld, the size of dimension %d", (long long)k,
                        (long long)n, dim);
  status = cni_reduced_result(c, 0, 1u << dim, cni_arg_bool(c->args, 3), d->dtype);
  return status ? status : cn_call_result(c, 1, CN_I64, c->spec[0].ndim, c->spec[0].shape);
}

static int kthvalue_vjp(cn_vjp *v) { return cni_picked_one_vjp(v, 2); }

/* clang-format off */
const cn_op cni_order_ops[] = {
  {.sig = "cumsum(Tensor input, int dim, *, dtype? dtype=None) -> Tensor ; method inplace amp_f32_device "
          "complex_parts",
   .doc = "Running sum along a dimension. Integers and bool add up in int64.",
   .cost = cni_cost_reduce, .infer = scan_infer, .vjp = cumsum_vjp},
  {.sig = "cumprod(Tensor input, int dim, *, dtype? dtype=None) -> Tensor ; method inplace amp_f32_device",
   .doc = "Running product along a dimension. Integers and bool multiply in int64. The gradient is right at zeros; "
          "so are higher ones along dimensions of at most 1024 elements.",
   .cost = cni_cost_reduce, .infer = scan_infer, .vjp = cumprod_vjp, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "cummax(Tensor input, int dim) -> (Tensor values, Tensor indices) ; method",
   .doc = "Largest element so far along a dimension, and its index (the last among equals).",
   .cost = cni_cost_reduce, .infer = cummax_infer, .vjp = cummax_vjp, .needs = {[0] = CN_OUT(1)}},
  {.sig = "cummin(Tensor input, int dim) -> (Tensor values, Tensor indices) ; method",
   .doc = "Smallest element so far along a dimension, and its index (the last among equals).",
   .cost = cni_cost_reduce, .infer = cummax_infer, .vjp = cummax_vjp, .needs = {[0] = CN_OUT(1)}},
  {.sig = "logcumsumexp(Tensor input, int dim) -> Tensor ; method",
   .doc = "Logarithm of the running sum of exponentials along a dimension, without overflow.",
   .cost = cni_cost_softmax,
   .infer = logcumsumexp_infer, .vjp = logcumsumexp_vjp, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "sort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) "
          "-> (Tensor values, Tensor indices) ; method",
   .doc = "Elements in order along a dimension, and the indices they had. Equal elements always keep their order; "
          "NaN counts as the largest.",
   .infer = sort_infer, .vjp = sort_vjp, .needs = {[0] = CN_OUT(1)}},
  {.sig = "argsort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor ; method",
   .doc = "The indices that sort a dimension; equal elements keep their order.",
   .flags = CN_OP_COMPOSITE, .decompose = argsort_decompose},
  {.sig = "msort(Tensor input) -> Tensor ; method",
   .doc = "Elements in order along the first dimension.",
   .flags = CN_OP_COMPOSITE, .decompose = msort_decompose},
  {.sig = "topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) "
          "-> (Tensor values, Tensor indices) ; method",
   .doc = "The k largest (or smallest) elements along a dimension, in order, and their indices; NaN counts as the "
          "largest. Of equal elements the first are taken.",
   .infer = topk_infer, .vjp = topk_vjp, .needs = {[0] = CN_OUT(1)}},
  {.sig = "kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices) ; method",
   .doc = "The k-th smallest element along a dimension (counted from 1), and its index.",
   .infer = kthvalue_infer, .vjp = kthvalue_vjp, .needs = {[0] = CN_OUT(1)}},
};
/* clang-format on */
CNI_FAMILY(order);
