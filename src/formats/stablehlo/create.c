/* create.c: rows of what is made of nothing, and of other types. See row.h. */
#include "rows.h"

static cni_hval number(const cn_value *v)
{
  return v->tag == CN_V_FLOAT ? cni_hlo_num(v->u.f) : cni_hlo_int(v->u.i);
}

static void zeros(cni_hcall *c)
{
  c->out[0] = cni_hlo_splat(c->h, cni_hlo_num(0), c->out[0].dtype, c->out[0].ndim, c->out[0].shape);
}

static void full(cni_hcall *c)
{
  c->out[0] = cni_hlo_splat(c->h, number(&c->args[1]), c->out[0].dtype, c->out[0].ndim, c->out[0].shape);
}

/* fill(input, value), copy(input, src): the second one in the type and shape of the first. */
static void fill(cni_hcall *c) { c->out[0] = cni_hlo_as(c->h, c->in[1], c->out[0].dtype, &c->out[0]); }

static void cast(cni_hcall *c)
{
  c->out[0] = c->in[0].number ? cni_hlo_splat(c->h, c->in[0], c->out[0].dtype, 0, NULL)
                              : cni_hlo_cast(c->h, c->in[0], c->out[0].dtype);
}

static void arange(cni_hcall *c)
{
  cni_hval *out = &c->out[0];
  bool whole = c->args[0].tag == CN_V_INT && c->args[2].tag == CN_V_INT;
  int type = whole ? CN_I64 : CN_F64;
  cni_hval i = cni_hlo_iota(c->h, CN_I64, 1, out->shape, 0);
  *out = cni_hlo_cast(c->h, CNI_HLO_EXPR(c->h, "T(a) * c + b", type, i, number(&c->args[0]), number(&c->args[2])),
                      out->dtype);
}

static void linspace(cni_hcall *c)
{
  cni_hval *out = &c->out[0];
  double from = cni_harg_float(c, 0), to = cni_harg_float(c, 1);
  int64_t n = out->shape[0];
  double step = n > 1 ? (to - from) / (double)(n - 1) : 0;
  cni_hval i = cni_hlo_iota(c->h, CN_I64, 1, out->shape, 0);
  *out = cni_hlo_cast(c->h,
                      CNI_HLO_EXPR(c->h, "a < c ? T(a) * d + b : e - T(f - a) * d", CN_F64, i, cni_hlo_num(from),
                                   cni_hlo_int(n == 1 ? 1 : n / 2), cni_hlo_num(step), cni_hlo_num(to),
                                   cni_hlo_int(n - 1)),
                      out->dtype);
}

static void eye(cni_hcall *c)
{
  cni_hval *out = &c->out[0];
  cni_hval row = cni_hlo_iota(c->h, CN_I32, 2, out->shape, 0), col = cni_hlo_iota(c->h, CN_I32, 2, out->shape, 1);
  *out = cni_hlo_convert(c->h, cni_hlo_compare(c->h, "EQ", row, col), out->dtype);
}

/* tril, triu: kept where the text says, of row a, column b and the diagonal c. */
static void triangle(cni_hcall *c)
{
  cni_hval x = c->in[0];
  int n = x.ndim;
  cni_hval row = cni_hlo_iota(c->h, CN_I64, n, x.shape, n - 2), col = cni_hlo_iota(c->h, CN_I64, n, x.shape, n - 1);
  cni_hval keep = CNI_HLO_EXPR(c->h, c->text, CN_I64, row, col, cni_hlo_int(cni_harg_int(c, 1)));
  c->out[0] = cni_hlo_select(c->h, keep, x, cni_hlo_splat(c->h, cni_hlo_num(0), x.dtype, n, x.shape));
}

const cni_hrow cni_hlo_create_rows[] = {
    {"empty", zeros, NULL}, {"empty_like", zeros, NULL}, {"full", full, NULL},     {"full_like", full, NULL},
    {"fill", fill, NULL},   {"copy", fill, NULL},        {"cast", cast, NULL},     {"arange", arange, NULL},
    {"eye", eye, NULL},     {"linspace", linspace, NULL}, {"tril", triangle, "b - a <= c"},
    {"triu", triangle, "b - a >= c"}, {NULL, NULL, NULL}};
