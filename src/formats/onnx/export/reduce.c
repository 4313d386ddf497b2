/* reduce.c: sums and their kin, extremes and where they are, running ones. See row.h. */
#include <string.h>

#include "row.h"

/* What sums of a type are made in, and its operands brought to it. */
static cni_oxval summand(cni_oxcall *c)
{
  int type = cni_ox_wide(c->out[0].dtype);
  return cni_ox_cast(c->x, cni_ox_solid(c->x, c->in[0], type), type);
}

static bool keeps(const cni_oxcall *c)
{
  int i = cni_oxarg_find(c, "keepdim");
  return i >= 0 && cni_oxarg_int(c, i);
}

static uint32_t dims_of(const cni_oxcall *c)
{
  int i = cni_oxarg_find(c, "dim");
  return i < 0 ? ~0u >> (32 - c->in[0].ndim) * (c->in[0].ndim > 0) : cni_oxarg_dims(c, i, c->in[0].ndim);
}

static bool is_empty(const cni_oxval *v, uint32_t dims)
{
  for (int k = 0; k < v->ndim; k++)
    if (dims >> k & 1 && !v->shape[k]) return true;
  return false;
}

/* Of nothing it is NaN, which not all runtimes say. */
static cni_oxval mean_of(cni_ox *x, cni_oxval v, uint32_t dims, bool keep)
{
  if (!is_empty(&v, dims)) return cni_ox_reduce(x, "ReduceMean", v, dims, keep);
  return cni_ox_binary(x, "Add", cni_ox_reduce(x, "ReduceSum", v, dims, keep), cni_ox_num(0.0 / 0.0));
}

/* sum, mean, prod, prod_dim: one operator */
static bool fold(cni_oxcall *c)
{
  cni_oxval v = summand(c);
  uint32_t dims = v.ndim ? dims_of(c) : 0;
  bool mean = !strcmp(c->text, "ReduceMean");
  cni_ox_give(c, 0, mean ? mean_of(c->x, v, dims, keeps(c)) : cni_ox_reduce(c->x, c->text, v, dims, keeps(c)));
  return true;
}

/* any, all: how many are true, or are not; of an empty list of dims none is meant */
static bool logical(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = cni_ox_cast(x, cni_ox_solid(x, c->in[0], CN_BOOL), CN_BOOL);
  bool none = c->args[1].tag == CN_V_INTS && !c->args[1].n, all = c->text[1] == 'l';
  if (none || !v.ndim) return cni_ox_give(c, 0, v), true;
  if (all) v = CNI_OX_EMIT(x, "Not", v);
  v = cni_ox_reduce(x, "ReduceSum", cni_ox_cast(x, v, CN_I32), dims_of(c), keeps(c));
  v = cni_ox_cast(x, v, CN_BOOL);
  cni_ox_give(c, 0, all ? CNI_OX_EMIT(x, "Not", v) : v);
  return true;
}

/* max, min, amax, amin: NaN is larger, and smaller, than all. */
static cni_oxval extreme_of(cni_ox *x, const char *op, cni_oxval v, uint32_t dims, bool keep)
{
  int type = v.dtype;
  if (type == CN_BOOL) v = cni_ox_cast(x, v, CN_I32);
  cni_oxval best = cni_ox_reduce(x, op, v, dims, keep);
  if (cni_ox_is_float(type) && v.ndim && dims) {
    cni_oxval odd = cni_ox_cast(x, CNI_OX_EMIT(x, "IsNaN", v), CN_I32);
    odd = cni_ox_cast(x, cni_ox_reduce(x, "ReduceMax", odd, dims, keep), CN_BOOL);
    best = cni_ox_where(x, odd, cni_ox_num(0.0 / 0.0), best);
  }
  return cni_ox_cast(x, best, type);
}

static bool extreme(cni_oxcall *c)
{
  cni_oxval v = c->in[0];
  cni_ox_give(c, 0, extreme_of(c->x, c->text, v, v.ndim ? dims_of(c) : 0, keeps(c)));
  return true;
}

static cni_oxval with_dim(cni_ox *x, cni_oxval v)
{
  cni_oxval one = cni_ox_whole(1);
  return v.ndim ? v : cni_ox_reshape(x, v, 1, &one);
}

/* Where the best stands first: NaN counts as the best. */
static cni_oxval place_of(cni_ox *x, const char *op, cni_oxval v, int dim, bool keep)
{
  if (v.dtype == CN_BOOL) v = cni_ox_cast(x, v, CN_I32);
  cni_ox_int(x, "axis", dim);
  cni_ox_int(x, "keepdims", keep);
  cni_oxval at = CNI_OX_EMIT(x, op, v);
  if (cni_ox_is_float(v.dtype)) {
    cni_oxval odd = cni_ox_cast(x, CNI_OX_EMIT(x, "IsNaN", v), CN_I32);
    cni_oxval some = cni_ox_cast(x, cni_ox_reduce(x, "ReduceMax", odd, 1u << dim, keep), CN_BOOL);
    cni_ox_int(x, "axis", dim);
    cni_ox_int(x, "keepdims", keep);
    at = cni_ox_where(x, some, CNI_OX_EMIT(x, "ArgMax", odd), at);
  }
  uint32_t low = (1u << dim) - 1;
  if (keep) return cni_ox_shaped(at, v.ndim, v.shape, v.open & ~(1u << dim));
  at = cni_ox_shaped(at, v.ndim - 1, v.shape, (v.open & low) | (v.open >> 1 & ~low));
  for (int k = dim; k < at.ndim; k++) at.shape[k] = v.shape[k + 1];
  return at;
}

/* argmax(input, dim, keepdim); without a dim of all elements in a row */
static bool arg(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0], all = cni_ox_whole(-1);
  bool flat = cni_oxarg_none(c, 1) || !v.ndim, keep = cni_oxarg_int(c, 2);
  if (flat) v = cni_ox_reshape(x, v, 1, &all);
  cni_oxval at = place_of(x, c->text, v, flat ? 0 : cni_oxarg_dim(c, 1, v.ndim), keep && !flat);
  if (flat && c->out[0].ndim) at = cni_ox_reshape_like(x, at, c->out[0]);
  cni_ox_give(c, 0, at);
  return true;
}

/* max_dim(input, dim, keepdim): values and where they stand */
static bool extreme_at(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = with_dim(x, c->in[0]);
  int dim = cni_oxarg_dim(c, 1, v.ndim);
  bool keep = cni_oxarg_int(c, 2) && c->in[0].ndim, most = *c->text == 'm';
  cni_ox_give(c, 0, extreme_of(x, most ? "ReduceMax" : "ReduceMin", v, 1u << dim, keep));
  cni_ox_give(c, 1, place_of(x, most ? "ArgMax" : "ArgMin", v, dim, keep));
  return true;
}

/* aminmax(input, dim, keepdim) */
static bool both(cni_oxcall *c)
{
  cni_oxval v = c->in[0];
  uint32_t dims = !v.ndim ? 0 : cni_oxarg_none(c, 1) ? ~0u >> (32 - v.ndim) : 1u << cni_oxarg_dim(c, 1, v.ndim);
  cni_ox_give(c, 0, extreme_of(c->x, "ReduceMin", v, dims, cni_oxarg_int(c, 2)));
  cni_ox_give(c, 1, extreme_of(c->x, "ReduceMax", v, dims, cni_oxarg_int(c, 2)));
  return true;
}

/* ---- spread: var, std and those with a mean (input, dim, correction, keepdim) ---- */

static cni_oxval freedom(cni_oxcall *c, cni_oxval v, uint32_t dims)
{
  cni_ox *x = c->x;
  cni_oxval n = cni_ox_cast(x, cni_ox_count(x, v, dims), v.dtype);
  if (n.ndim) n = cni_ox_squeeze(x, n, 0);
  return CNI_OX_EXPR(x, "d = a - b; d > 0 ? d : T(0)", v.dtype, n,
                     cni_ox_const(x, cni_ox_num(cni_oxarg_float(c, 2)), v.dtype));
}

static bool spread(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = summand(c);
  uint32_t dims = v.ndim ? cni_oxarg_dims(c, 1, v.ndim) : 0;
  bool keep = cni_oxarg_int(c, 3);
  cni_oxval mean = cni_ox_reduce(x, "ReduceMean", v, dims, true), d = cni_ox_binary(x, "Sub", v, mean);
  d = cni_ox_shaped(cni_ox_binary(x, "Mul", d, d), v.ndim, v.shape, v.open);
  cni_oxval y = cni_ox_binary(x, "Div", cni_ox_reduce(x, "ReduceSum", d, dims, keep), freedom(c, v, dims));
  if (*c->text == 's') y = CNI_OX_EMIT(x, "Sqrt", y);
  cni_ox_give(c, 0, y);
  if (c->nout > 1) cni_ox_give(c, 1, mean_of(x, v, dims, keep));
  return true;
}

/* logsumexp(input, dim, keepdim), with the largest taken out */
static bool logsumexp(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = summand(c);
  uint32_t dims = v.ndim ? cni_oxarg_dims(c, 1, v.ndim) : 0;
  bool keep = cni_oxarg_int(c, 2);
  cni_oxval most = CNI_OX_EXPR(x, "Abs(a) < inf ? a : T(0)", v.dtype, cni_ox_reduce(x, "ReduceMax", v, dims, true));
  most = cni_ox_shaped(most, v.ndim, v.shape, v.open & ~dims);
  cni_oxval e = CNI_OX_EXPR(x, "Exp(a - b)", v.dtype, v, most);
  e = CNI_OX_EMIT(x, "Log", cni_ox_reduce(x, "ReduceSum", cni_ox_shaped(e, v.ndim, v.shape, v.open), dims, keep));
  for (int k = 0; k < v.ndim; k++)
    if (dims >> k & 1) most.shape[k] = 1;
  if (!keep && v.ndim) most = cni_ox_reduce(x, "ReduceSum", most, dims, false);
  cni_ox_give(c, 0, cni_ox_binary(x, "Add", e, most));
  return true;
}

/* count_nonzero(input, dim), nansum(input, dim, keepdim) */
static bool prepared_sum(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0];
  bool counts = *c->text == 'c';
  v = counts ? cni_ox_cast(x, cni_ox_cast(x, v, CN_BOOL), CN_I64) : summand(c);
  if (!counts && cni_ox_is_float(v.dtype)) v = CNI_OX_EXPR(x, "a != a ? T(0) : a", v.dtype, v);
  v = cni_ox_shaped(v, c->in[0].ndim, c->in[0].shape, c->in[0].open);
  cni_ox_give(c, 0, cni_ox_reduce(x, "ReduceSum", v, v.ndim ? dims_of(c) : 0, keeps(c)));
  return true;
}

/* ---- running ---- */

static bool cumsum(cni_oxcall *c)
{
  cni_oxval v = summand(c), at = cni_ox_const(c->x, cni_ox_whole(cni_oxarg_dim(c, 1, v.ndim)), CN_I64);
  cni_ox_give(c, 0, v.ndim ? CNI_OX_EMIT(c->x, "CumSum", v, at) : v);
  return true;
}

/* A running fold by doubling steps: each element takes in the one that stands 1, 2, 4, ... before it. */
static cni_oxval running(cni_ox *x, const char *text, cni_oxval neutral, cni_oxval v, int dim)
{
  cni_oxval sizes[CN_MAX_DIMS], parts[2];
  for (int64_t step = 1; step < v.shape[dim] && !x->failed; step *= 2) {
    for (int k = 0; k < v.ndim; k++) sizes[k] = k == dim ? cni_ox_whole(step) : cni_ox_size(x, v, k);
    parts[0] = cni_ox_expand(x, neutral, v.ndim, sizes);
    parts[1] = cni_ox_slice(x, v, dim, cni_ox_whole(0), cni_ox_whole(v.shape[dim] - step), 1);
    cni_oxval before = cni_ox_shaped(cni_ox_concat(x, 2, parts, dim), v.ndim, v.shape, v.open);
    v = cni_ox_shaped(CNI_OX_EXPR(x, text, v.dtype, before, v), v.ndim, v.shape, v.open);
  }
  return v;
}

static bool is_closed(const cni_oxcall *c, int dim) { return !c->in[0].ndim || !(c->in[0].open >> dim & 1); }

static bool cumulated(cni_oxcall *c)
{
  cni_oxval v = summand(c);
  int dim = cni_oxarg_dim(c, 1, v.ndim);
  double neutral = c->text[2] == '*' ? 1 : -1.0 / 0.0;
  if (!is_closed(c, dim)) return false;
  cni_ox_give(c, 0, v.ndim ? running(c->x, c->text, cni_ox_const(c->x, cni_ox_num(neutral), v.dtype), v, dim) : v);
  return true;
}

/* cummax, cummin(input, dim): the best so far, and the last place where it stood */
static bool running_best(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0];
  int dim = cni_oxarg_dim(c, 1, v.ndim), type = v.dtype;
  bool most = c->text[1] == 'a';
  if (!v.ndim) return cni_ox_give(c, 0, v), cni_ox_give(c, 1, cni_ox_const(x, cni_ox_whole(0), CN_I64)), true;
  if (!is_closed(c, dim)) return false;
  v = cni_ox_cast(x, v, cni_ox_is_float(type) ? cni_ox_wide(type) : CN_I64);
  cni_oxval best = running(x, most ? "(a != a) | (a > b) ? a : b" : "(a != a) | (a < b) ? a : b",
                           cni_ox_limit(x, v.dtype, most), v, dim);
  int64_t sizes[CN_MAX_DIMS], at[4096];
  for (int k = 0; k < v.ndim; k++) sizes[k] = k == dim ? v.shape[k] : 1;
  if (v.shape[dim] > 4096) return false;
  for (int64_t k = 0; k < v.shape[dim]; k++) at[k] = k;
  cni_oxval i = cni_ox_data(x, at, CN_I64, v.ndim, sizes);
  cni_oxval here = CNI_OX_EXPR(x, "(a == b) | (a != a) ? c : i64(0)", CN_I64, v, best, i);
  here = cni_ox_shaped(here, v.ndim, v.shape, v.open);
  cni_ox_give(c, 0, best);
  cni_ox_give(c, 1, running(x, "Max(a, b)", cni_ox_const(x, cni_ox_whole(0), CN_I64), here, dim));
  return true;
}

const cni_oxrow cni_ox_reduce_rows[] = {
    BUILD_AS("sum", 13, fold, "ReduceSum"),
    BUILD_AS("mean", 13, fold, "ReduceMean"),
    BUILD_AS("prod", 13, fold, "ReduceProd"),
    BUILD_AS("prod_dim", 13, fold, "ReduceProd"),
    BUILD_AS("any", 13, logical, "any"),
    BUILD_AS("all", 13, logical, "all"),
    BUILD_AS("amax", 13, extreme, "ReduceMax"),
    BUILD_AS("amin", 13, extreme, "ReduceMin"),
    BUILD_AS("max", 13, extreme, "ReduceMax"),
    BUILD_AS("min", 13, extreme, "ReduceMin"),
    BUILD_AS("max_dim", 13, extreme_at, "most"),
    BUILD_AS("min_dim", 13, extreme_at, "least"),
    BUILD("aminmax", 13, both),
    BUILD_AS("argmax", 13, arg, "ArgMax"),
    BUILD_AS("argmin", 13, arg, "ArgMin"),
    BUILD_AS("var", 13, spread, "var"),
    BUILD_AS("std", 13, spread, "std"),
    BUILD_AS("var_mean", 13, spread, "var"),
    BUILD_AS("std_mean", 13, spread, "std"),
    BUILD("logsumexp", 13, logsumexp),
    BUILD_AS("count_nonzero", 13, prepared_sum, "count"),
    BUILD_AS("nansum", 13, prepared_sum, "nan"),
    BUILD("cumsum", 13, cumsum),
    BUILD_AS("cumprod", 13, cumulated, "a * b"),
    BUILD_AS("logcumsumexp", 13, cumulated, "m = Max(a, b); Abs(m) < inf ? m + log1p(Exp(Min(a, b) - m)) : m"),
    BUILD_AS("cummax", 13, running_best, "max"),
    BUILD_AS("cummin", 13, running_best, "min"),
    {NULL, NULL, NULL, 0},
};
