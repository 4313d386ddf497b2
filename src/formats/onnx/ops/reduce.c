/* reduce.c: sums and their kin, extremes and where they are, running sums. See call.h. */
#include <math.h>
#include <string.h>

#include "formats/onnx/call.h"

/* What one reduction computes. axes: all of them where it has none left out. */
typedef cn_tensor *(*reduction)(cn_tensor *x, cni_onnx_ints axes, bool keep);

static cn_tensor *sum_of(cn_tensor *x, cni_onnx_ints axes, bool keep)
{
  return cn_sum(x, .dim = {axes.v, axes.n}, .keepdim = keep, .dtype = cn_dtype_of(x));
}
static cn_tensor *mean_of(cn_tensor *x, cni_onnx_ints axes, bool keep)
{
  if (cn_dtype_is_float(cn_dtype_of(x))) return cn_mean(x, .dim = {axes.v, axes.n}, .keepdim = keep);
  int64_t n = 1;
  for (size_t i = 0; i < axes.n; i++) n *= cn_size(x, axes.v[i]);
  return n ? cn_trunc_divide(sum_of(x, axes, keep), cn_int(n)) : sum_of(x, axes, keep);
}
/* Of nothing: what is smaller, or larger, than all others. */
static cn_tensor *extreme_of_none(cn_tensor *x, cni_onnx_ints axes, bool keep, bool max)
{
  cn_dtype dtype = cn_dtype_of(x);
  cn_tensor *shape = sum_of(cn_cast(x, CN_F32), axes, keep);
  if (dtype == CN_BOOL) return cn_full_like(shape, max ? 0 : 1, .dtype = dtype);
  if (cn_dtype_is_float(dtype)) return cn_full_like(shape, max ? -INFINITY : INFINITY, .dtype = dtype);
  int bits = (int)(8 * cn_dtype_size(dtype));
  bool sign = cn_dtype_is_signed(dtype);
  uint64_t top = sign ? (UINT64_C(1) << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);
  int64_t value = max ? (sign ? -(int64_t)top - 1 : 0) : (int64_t)top;
  return cn_add(cn_zeros_like(shape, .dtype = dtype), cn_int(value));
}
static cn_tensor *max_of(cn_tensor *x, cni_onnx_ints axes, bool keep)
{
  if (!cn_numel(x)) return extreme_of_none(x, axes, keep, true);
  return cn_amax(x, .dim = {axes.v, axes.n}, .keepdim = keep);
}
static cn_tensor *min_of(cn_tensor *x, cni_onnx_ints axes, bool keep)
{
  if (!cn_numel(x)) return extreme_of_none(x, axes, keep, false);
  return cn_amin(x, .dim = {axes.v, axes.n}, .keepdim = keep);
}
/* A dimension at a time, from the last one, so that the others keep their places. */
static cn_tensor *prod_of(cn_tensor *x, cni_onnx_ints axes, bool keep)
{
  for (int64_t d = cn_ndim(x); x && d-- > 0;)
    for (size_t i = 0; i < axes.n; i++)
      if (axes.v[i] == d) {
        x = cn_prod_dim(x, d, .keepdim = keep, .dtype = cn_dtype_of(x));
        break;
      }
  return x;
}
static cn_tensor *l1_of(cn_tensor *x, cni_onnx_ints axes, bool keep) { return sum_of(cn_abs(x), axes, keep); }
static cn_tensor *square_of(cn_tensor *x, cni_onnx_ints axes, bool keep) { return sum_of(cn_mul(x, x), axes, keep); }
static cn_tensor *l2_of(cn_tensor *x, cni_onnx_ints axes, bool keep)
{
  cn_tensor *t = cn_sqrt(square_of(x, axes, keep));
  return t && cn_dtype_of(t) != cn_dtype_of(x) ? cn_cast(t, cn_dtype_of(x)) : t;
}
static cn_tensor *log_of(cn_tensor *x, cni_onnx_ints axes, bool keep)
{
  cn_tensor *t = cn_log(sum_of(x, axes, keep));
  return t && cn_dtype_of(t) != cn_dtype_of(x) ? cn_cast(t, cn_dtype_of(x)) : t;
}
static cn_tensor *log_exp_of(cn_tensor *x, cni_onnx_ints axes, bool keep)
{
  if (!cn_dtype_is_float(cn_dtype_of(x))) {
    cn_tensor *t = log_exp_of(cn_cast(x, CN_F64), axes, keep);
    return t ? cn_cast(t, cn_dtype_of(x)) : NULL;
  }
  return cn_numel(x) ? cn_logsumexp(x, axes.v, axes.n, .keepdim = keep) : log_of(x, axes, keep);
}

static const struct {
  const char *name;
  reduction fn;
  uint16_t listed; /* from this opset on the axes are an input */
} reductions[] = {
    {"ReduceSum", sum_of, 13},    {"ReduceMean", mean_of, 18},
    {"ReduceMax", max_of, 18},    {"ReduceMin", min_of, 18},
    {"ReduceProd", prod_of, 18},  {"ReduceL1", l1_of, 18},
    {"ReduceL2", l2_of, 18},      {"ReduceSumSquare", square_of, 18},
    {"ReduceLogSum", log_of, 18}, {"ReduceLogSumExp", log_exp_of, 18},
};

/* The axes as places; all of them where none are given. */
static int axes_of(cni_onnx_ints *axes, cni_onnx_call *c, cn_tensor *x, bool listed)
{
  cni_onnx_ints given = listed ? cni_onnx_ints_in(c, 1) : cni_onnx_ints_of(c, "axes");
  int64_t ndim = cn_ndim(x), *v = cni_onnx_room(c, (size_t)ndim + given.n + 1, sizeof *v);
  if (!v || cn_err()) return cn_err();
  for (size_t i = 0; i < given.n; i++)
    if ((v[i] = cni_onnx_axis(c, given.v[i], ndim)) < 0) return cn_err();
  for (int64_t i = 0; !given.n && i < ndim; i++) v[i] = i;
  *axes = (cni_onnx_ints){v, given.n ? given.n : (size_t)ndim};
  return CN_OK;
}

static int reduce(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  cni_onnx_ints axes;
  size_t r = 0;
  while (strcmp(reductions[r].name, c->node->op) != 0) r++;
  bool listed = c->opset >= reductions[r].listed, keep = cni_onnx_int(c, "keepdims", 1) != 0;
  if (!x || axes_of(&axes, c, x, listed)) return cn_err();
  bool none = listed && !(cni_onnx_has(c, 1) && cn_numel(cni_onnx_in(c, 1)));
  if (none && cni_onnx_int(c, "noop_with_empty_axes", 0)) axes.n = 0;
  if (!axes.n) { /* element by element: each is a sum of one */
    cn_tensor *t = reductions[r].fn(cn_unsqueeze(x, 0), (cni_onnx_ints){(const int64_t[]){0}, 1}, false);
    return cni_onnx_out(c, 0, t);
  }
  return cni_onnx_out(c, 0, reductions[r].fn(x, axes, keep));
}

/* The first of several that are equal, or the last. */
static int arg_extreme(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t axis = x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", 0), cn_ndim(x)) : -1;
  bool keep = cni_onnx_int(c, "keepdims", 1) != 0, last = cni_onnx_int(c, "select_last_index", 0) != 0;
  if (axis < 0) return cn_err();
  cn_tensor *from = last ? cn_flip(x, CN_SHAPE(axis)) : x;
  cn_tensor *t = !strcmp(c->node->op, "ArgMax") ? cn_argmax(from, axis, .keepdim = keep)
                                                : cn_argmin(from, axis, .keepdim = keep);
  return cni_onnx_out(c, 0, last ? cn_rsub(t, cn_int(cn_size(x, axis) - 1)) : t);
}

/* Sums or products so far. exclusive: without the element itself; reverse: from the end. */
static int running(cni_onnx_call *c)
{
  bool sum = !strcmp(c->node->op, "CumSum");
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t axis = x ? cni_onnx_axis(c, cni_onnx_int_in(c, 1, 0), cn_ndim(x)) : -1;
  bool reverse = cni_onnx_int(c, "reverse", 0) != 0;
  if (axis < 0 || cn_err()) return cn_err();
  cn_tensor *t = reverse ? cn_flip(x, CN_SHAPE(axis)) : x;
  t = sum ? cn_cumsum(t, axis, .dtype = cn_dtype_of(x)) : cn_cumprod(t, axis, .dtype = cn_dtype_of(x));
  if (cni_onnx_int(c, "exclusive", 0) && t && cn_size(t, axis)) {
    cn_tensor *first = cn_narrow(t, axis, 0, 1), *rest = cn_narrow(t, axis, 0, cn_size(t, axis) - 1);
    t = cn_cat(CN_TENSORS(cn_full_like(first, sum ? 0 : 1), rest), .dim = axis ? axis : CN_ZERO);
  }
  return cni_onnx_out(c, 0, reverse ? cn_flip(t, CN_SHAPE(axis)) : t);
}

const cni_onnx_op cni_onnx_reduce_ops[] = {
    ONNX_BUILD("ReduceSum", 1, reduce),
    ONNX_BUILD("ReduceMean", 1, reduce),
    ONNX_BUILD("ReduceMax", 1, reduce),
    ONNX_BUILD("ReduceMin", 1, reduce),
    ONNX_BUILD("ReduceProd", 1, reduce),
    ONNX_BUILD("ReduceL1", 1, reduce),
    ONNX_BUILD("ReduceL2", 1, reduce),
    ONNX_BUILD("ReduceSumSquare", 1, reduce),
    ONNX_BUILD("ReduceLogSum", 1, reduce),
    ONNX_BUILD("ReduceLogSumExp", 1, reduce),
    ONNX_BUILD("ArgMax", 1, arg_extreme),
    ONNX_BUILD("ArgMin", 1, arg_extreme),
    ONNX_BUILD("CumSum", 11, running),
    ONNX_BUILD("CumProd", 26, running),
    {NULL, NULL, NULL, 0, 0},
};
