/* create.c: of nothing: fills, ranges; casts. Random numbers are random.c's. See row.h. */
#include <string.h>

#include "row.h"

/* The sizes of the result, by argument `arg` where they are open; by those of operand 0 where there is no argument. */
static void sizes_of(const cni_oxcall *c, int arg, cni_oxval *sizes)
{
  for (int k = 0; k < c->out[0].ndim; k++) {
    if (!(c->out[0].open >> k & 1)) sizes[k] = cni_ox_whole(c->out[0].shape[k]);
    else sizes[k] = arg >= 0 ? cni_oxarg_size(c, arg, k) : cni_ox_size(c->x, c->in[0], k);
  }
}

static void give_filled(cni_oxcall *c, cni_oxval value, int arg)
{
  cni_oxval sizes[CN_MAX_DIMS];
  sizes_of(c, arg, sizes);
  cni_ox_give(c, 0, cni_ox_expand(c->x, value, c->out[0].ndim, sizes));
}

/* full(size, fill_value), full_like(input, fill_value) */
static bool full(cni_oxcall *c)
{
  int arg = cni_oxarg_find(c, "fill_value"), size = cni_oxarg_find(c, "size");
  give_filled(c, cni_oxarg_value(c, arg, 0, c->out[0].dtype), size);
  return true;
}

/* empty(size), empty_like(input): zeros are as good as anything. */
static bool zeros(cni_oxcall *c)
{
  give_filled(c, cni_ox_const(c->x, cni_ox_whole(0), c->out[0].dtype), cni_oxarg_find(c, "size"));
  return true;
}

/* fill(input, value) */
static bool fill(cni_oxcall *c)
{
  cni_oxval v = cni_ox_cast(c->x, cni_ox_solid(c->x, c->in[1], c->out[0].dtype), c->out[0].dtype);
  give_filled(c, v.ndim ? cni_ox_reshape(c->x, v, 0, NULL) : v, -1);
  return true;
}

static bool cast(cni_oxcall *c)
{
  cni_ox_give(c, 0, c->in[0]);
  return true;
}

/* 0, 1, ... as many as the result has */
static cni_oxval counted(cni_oxcall *c, cni_oxval n)
{
  cni_ox *x = c->x;
  cni_oxval limit = cni_ox_solid(x, n, CN_I64);
  if (limit.ndim) limit = cni_ox_squeeze(x, limit, 0);
  cni_oxval zero = cni_ox_const(x, cni_ox_whole(0), CN_I64), one = cni_ox_const(x, cni_ox_whole(1), CN_I64);
  cni_oxval i = CNI_OX_EMIT(x, "Range", zero, limit, one);
  return cni_ox_shaped(i, 1, c->out[0].shape, c->out[0].open);
}

/* How many numbers a range of whole ones has. */
static cni_oxval range_size(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int64_t step = cni_oxarg_int(c, 2);
  if (!c->out[0].open) return cni_ox_whole(c->out[0].shape[0]);
  if (c->args[0].tag == CN_V_FLOAT || c->args[2].tag == CN_V_FLOAT || !step || c->args[1].tag == CN_V_FLOAT) {
    cni_ox_fail(x, CN_ERR_UNSUPPORTED, "arange: a range of floats whose size is open");
    return cni_ox_absent();
  }
  cni_oxval far = cni_ox_math(x, "Sub", cni_oxarg_size(c, 1, 0), cni_oxarg_size(c, 0, 0));
  if (step < 0) far = cni_ox_math(x, "Mul", far, cni_ox_whole(-1)), step = -step;
  far = cni_ox_math(x, "Max", far, cni_ox_whole(0));
  return step == 1 ? far
                   : cni_ox_math(x, "Div", cni_ox_math(x, "Add", far, cni_ox_whole(step - 1)), cni_ox_whole(step));
}

/* arange(start, end, step) */
static bool arange(cni_oxcall *c)
{
  bool whole = c->args[0].tag == CN_V_INT && c->args[2].tag == CN_V_INT;
  int type = whole ? CN_I64 : CN_F64;
  bool plain = whole && !cni_oxarg_open(c, 0) && cni_oxarg_int(c, 0) == 0 && cni_oxarg_int(c, 2) == 1;
  cni_oxval i = counted(c, range_size(c));
  if (!plain)
    i = CNI_OX_EXPR(c->x, "T(a) * c + b", type, i, cni_oxarg_value(c, 0, 0, type), cni_oxarg_value(c, 2, 0, type));
  cni_ox_give(c, 0, i);
  return true;
}

/* linspace(start, end, steps): from both ends to the middle */
static bool linspace(cni_oxcall *c)
{
  double from = cni_oxarg_float(c, 0), to = cni_oxarg_float(c, 1);
  int64_t n = cni_oxarg_int(c, 2);
  double step = n > 1 ? (to - from) / (double)(n - 1) : 0;
  cni_oxval i = counted(c, cni_ox_whole(n));
  i = CNI_OX_EXPR(c->x, "a < c ? T(a) * d + b : e - T(f - a) * d", CN_F64, i, cni_ox_num(from),
                  cni_ox_whole(n == 1 ? 1 : n / 2), cni_ox_num(step), cni_ox_num(to), cni_ox_whole(n - 1));
  cni_ox_give(c, 0, i);
  return true;
}

/* eye(n, m): rows and columns of the same number */
static bool eye(cni_oxcall *c)
{
  cni_oxval n = cni_oxarg_size(c, 0, 0), m = cni_oxarg_none(c, 1) ? n : cni_oxarg_size(c, 1, 0);
  cni_oxval row = cni_ox_unsqueeze(c->x, counted(c, n), 1), column = cni_ox_unsqueeze(c->x, counted(c, m), 0);
  cni_ox_give(c, 0, cni_ox_binary(c->x, "Equal", row, column));
  return true;
}

/* check_within(input, low, high): a model cannot object. */
static bool check_within(cni_oxcall *c)
{
  cni_ox_give(c, 0, cni_ox_const(c->x, cni_ox_whole(1), c->out[0].dtype));
  return true;
}

const cni_oxrow cni_ox_create_rows[] = {
    BUILD("full", 13, full),     BUILD("full_like", 13, full),
    BUILD("empty", 13, zeros),   BUILD("empty_like", 13, zeros),
    BUILD("fill", 13, fill),     BUILD("cast", 13, cast),
    BUILD("arange", 13, arange), BUILD("linspace", 13, linspace),
    BUILD("eye", 13, eye),       BUILD("check_within", 13, check_within),
    {NULL, NULL, NULL, 0},
};
