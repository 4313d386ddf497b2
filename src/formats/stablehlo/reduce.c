/* reduce.c: rows of sums and their kin, and of running ones. Small floats are added up in float32. See row.h. */
#include <string.h>

#include "rows.h"

/* The dims that go, kept as dims of one element where the result has them. */
static void give(cni_hcall *c, int i, cni_hval y)
{
  c->out[i] = cni_hlo_reshape(c->h, cni_hlo_cast(c->h, y, c->out[i].dtype), c->out[i].ndim, c->out[i].shape);
}

/* sum, prod: text is the operation. Without a list of dims, all. */
static void fold(cni_hcall *c)
{
  int type = cni_hlo_wide(c->out[0].dtype), n = c->in[0].ndim;
  bool listed = strcmp(c->name, "prod") != 0;
  uint32_t dims = listed ? cni_harg_dims(c, 1, n) : n ? (1u << n) - 1 : 0;
  give(c, 0, cni_hlo_reduce(c->h, c->text, cni_hlo_cast(c->h, c->in[0], type), dims));
}

static void extreme(cni_hcall *c)
{
  cni_hval x = c->in[0];
  const char *op = c->text;
  if (x.dtype == CN_BOOL) op = !strcmp(op, "maximum") ? "or" : "and";
  give(c, 0, cni_hlo_reduce(c->h, op, x, cni_harg_dims(c, 1, x.ndim)));
}

static void logical(cni_hcall *c)
{
  cni_hval x = cni_hlo_cast(c->h, c->in[0], CN_BOOL);
  bool none = c->args[1].tag == CN_V_INTS && !c->args[1].n; /* an empty list is no dim here */
  give(c, 0, cni_hlo_reduce(c->h, c->text, x, none ? 0 : cni_harg_dims(c, 1, x.ndim)));
}

/* The largest of x along dims, and where it stands first; NaN is larger than all. */
static cni_hval place_of(cni_hlo *h, cni_hval x, const char *op, int dim, cni_hval *value)
{
  int64_t kept[CN_MAX_DIMS];
  int n = 0;
  if (x.dtype == CN_BOOL) x = cni_hlo_convert(h, x, CN_U8);
  for (int k = 0; k < x.ndim; k++)
    if (k != dim) kept[n++] = k;
  *value = cni_hlo_reduce(h, op, x, 1u << dim);
  cni_hval best = cni_hlo_broadcast(h, *value, x.ndim, x.shape, kept);
  cni_hval i = cni_hlo_iota(h, CN_I64, x.ndim, x.shape, dim);
  cni_hval at = CNI_HLO_EXPR(h, "(a == b) | (a != a) ? c : d", CN_I64, x, best, i, cni_hlo_int(x.shape[dim] - 1));
  return cni_hlo_reduce(h, "minimum", at, 1u << dim);
}

/* argmax(input, dim): without a dim of all elements. */
static void arg(cni_hcall *c)
{
  cni_hval x = c->in[0], value;
  int64_t all = cni_hlo_numel(&x);
  if (cni_harg_none(c, 1) || !x.ndim) x = cni_hlo_reshape(c->h, x, 1, &all);
  int dim = cni_harg_none(c, 1) ? 0 : cni_harg_dim(c, 1, x.ndim);
  give(c, 0, place_of(c->h, x, c->text, dim, &value));
}

static void extreme_at(cni_hcall *c)
{
  cni_hval x = c->in[0], value;
  int64_t one = 1;
  if (!x.ndim) x = cni_hlo_reshape(c->h, x, 1, &one);
  cni_hval at = place_of(c->h, x, c->text, cni_harg_dim(c, 1, x.ndim), &value);
  give(c, 0, value);
  give(c, 1, at);
}

/* ---- running ones ---- */

static void running(cni_hcall *c)
{
  int dim = cni_harg_dim(c, 1, c->in[0].ndim), type = cni_hlo_wide(c->out[0].dtype);
  cni_hval x = cni_hlo_cast(c->h, c->in[0], type);
  double neutral = c->text[2] == '*' ? 1 : c->text[2] == '+' ? 0 : -1.0 / 0.0;
  c->out[0] = cni_hlo_cast(c->h, cni_hlo_scan(c->h, c->text, cni_hlo_num(neutral), x, dim), c->out[0].dtype);
}

/* cummax, cummin: the best so far, and the last place where it stood. */
static void running_best(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0];
  int dim = cni_harg_dim(c, 1, x.ndim);
  int type = x.dtype == CN_BOOL ? CN_U8 : x.dtype;
  bool most = c->text[1] == 'a';
  x = cni_hlo_cast(h, x, type);
  cni_hval best = cni_hlo_scan(h, most ? "max(a, b)" : "min(a, b)", cni_hlo_extreme(h, type, most), x, dim);
  cni_hval i =
      x.ndim ? cni_hlo_iota(h, CN_I64, x.ndim, x.shape, dim) : cni_hlo_splat(h, cni_hlo_int(0), CN_I64, 0, NULL);
  cni_hval at = CNI_HLO_EXPR(h, "(a == b) | (a != a) ? c : 0", CN_I64, x, best, i);
  c->out[1] = cni_hlo_scan(h, "max(a, b)", cni_hlo_int(0), at, dim);
  c->out[0] = cni_hlo_cast(h, best, c->out[0].dtype);
}

const cni_hrow cni_hlo_reduce_rows[] = {
    {"sum", fold, "add"},          {"prod", fold, "multiply"},      {"prod_dim", fold, "multiply"},
    {"amax", extreme, "maximum"},  {"amin", extreme, "minimum"},    {"any", logical, "or"},
    {"all", logical, "and"},       {"argmax", arg, "maximum"},      {"argmin", arg, "minimum"},
    {"max_dim", extreme_at, "maximum"}, {"min_dim", extreme_at, "minimum"},
    {"cumsum", running, "a + b"},  {"cumprod", running, "a * b"},
    {"logcumsumexp", running, "m = max(a, b); m - m == 0 ? m + log1p(exp(min(a, b) - m)) : m"},
    {"cummax", running_best, "max"}, {"cummin", running_best, "min"}, {NULL, NULL, NULL}};
