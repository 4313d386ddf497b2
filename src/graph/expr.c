/* expr.c: building and evaluating integer expressions. See expr.h. */
#include "expr.h"

#include <cairn/ext/hash.h>

#include "base/alloc.h"

enum { FIRST_SLOTS = 32, MOST_EXPRESSIONS = 1 << 24 };

void cni_exprs_free(cni_exprs *x)
{
  cni_free(x->v, x->cap * sizeof *x->v);
  cni_free(x->slots, x->nslots * sizeof *x->slots);
  *x = (cni_exprs){0};
}

/* ---- equal ones are one ---- */

static size_t hash(const cni_expr *e)
{
  uint64_t h = cn_hash_more(CN_HASH_BEGIN + e->op, &e->value, sizeof e->value);
  int32_t operands[2] = {e->a, e->b};
  h = cn_hash_more(h, operands, sizeof operands);
  return (size_t)(h ^ h >> 32);
}

static bool same(const cni_expr *a, const cni_expr *b)
{
  return a->op == b->op && a->a == b->a && a->b == b->b && a->value == b->value;
}

/* Where e is, or would be put. */
static int32_t *slot_of(const cni_exprs *x, const cni_expr *e)
{
  size_t i = hash(e) & (x->nslots - 1);
  while (x->slots[i] && !same(&x->v[x->slots[i]], e)) i = (i + 1) & (x->nslots - 1);
  return &x->slots[i];
}

/* Twice the room, at least; the array then has its expression 0. */
static int grow_slots(cni_exprs *x)
{
  size_t before = x->nslots;
  int32_t *old = x->slots, *slots = cni_alloc_zero((before ? before * 2 : FIRST_SLOTS) * sizeof *slots);
  if (!slots) return CN_ERR_MEMORY;
  x->slots = slots;
  x->nslots = before ? before * 2 : FIRST_SLOTS;
  for (size_t i = 1; i < x->n; i++) *slot_of(x, &x->v[i]) = (int32_t)i;
  cni_free(old, before * sizeof *old);
  return CN_OK;
}

static int put(cni_exprs *x, cni_expr e)
{
  if (2 * (x->n + 1) > x->nslots && grow_slots(x)) return CN_ERR_MEMORY;
  int32_t *slot = slot_of(x, &e);
  if (*slot) return *slot;
  if (x->n >= MOST_EXPRESSIONS) return CN_ERR_VALUE;
  if (cni_grow((void **)&x->v, &x->cap, x->n + 2, sizeof *x->v)) return CN_ERR_MEMORY;
  if (!x->n) x->v[x->n++] = (cni_expr){0};
  x->v[x->n] = e;
  return *slot = (int32_t)x->n++;
}

int cni_exprs_copy(cni_exprs *x, const cni_exprs *from)
{
  for (size_t i = 1; i < from->n; i++)
    if (put(x, from->v[i]) < 0) return CN_ERR_MEMORY;
  return CN_OK;
}

int cni_expr_const(cni_exprs *x, int64_t value)
{
  if (value == CNI_UNDEFINED) return CN_ERR_VALUE;
  return put(x, (cni_expr){.op = CNI_EXPR_CONST, .weight = 1, .value = value});
}

int cni_expr_size(cni_exprs *x, int size)
{
  return put(x, (cni_expr){.op = CNI_EXPR_SIZE, .weight = 1, .value = size});
}

int cni_expr_make(cni_exprs *x, enum cni_expr_op op, int a, int b)
{
  if (a <= 0 || b <= 0) return a < 0 ? a : b < 0 ? b : CN_ERR_VALUE;
  int weight = 1 + x->v[a].weight + x->v[b].weight;
  if (weight > CNI_EXPR_MOST || x->v[a].op == CNI_EXPR_RATIO || x->v[b].op == CNI_EXPR_RATIO) return CN_ERR_VALUE;
  return put(x, (cni_expr){.op = (uint8_t)op, .weight = (uint8_t)weight, .a = a, .b = b});
}

int cni_expr_copy(cni_exprs *x, const cni_exprs *from, int expr, const int *sizes)
{
  const cni_expr *e = &from->v[expr];
  if (e->op == CNI_EXPR_CONST) return cni_expr_const(x, e->value);
  if (e->op == CNI_EXPR_SIZE) {
    int size = sizes ? sizes[e->value] : (int)e->value;
    return size < 0 ? CN_ERR_VALUE : cni_expr_size(x, size);
  }
  int a = cni_expr_copy(x, from, e->a, sizes);
  return a < 0 ? a : cni_expr_make(x, (enum cni_expr_op)e->op, a, cni_expr_copy(x, from, e->b, sizes));
}

/* ---- values ---- */

static int64_t floor_div(int64_t a, int64_t b)
{
  if (!b) return CNI_UNDEFINED;
  int64_t q = a / b; /* never the smallest integer by -1: that one is undefined */
  return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t cni_expr_apply(enum cni_expr_op op, int64_t a, int64_t b)
{
  int64_t r = CNI_UNDEFINED;
  bool fits = a != CNI_UNDEFINED && b != CNI_UNDEFINED;
  if (!fits) return CNI_UNDEFINED;
  switch (op) {
  case CNI_EXPR_ADD: fits = !__builtin_add_overflow(a, b, &r); break;
  case CNI_EXPR_SUB: fits = !__builtin_sub_overflow(a, b, &r); break;
  case CNI_EXPR_MUL: fits = !__builtin_mul_overflow(a, b, &r); break;
  case CNI_EXPR_DIV: r = floor_div(a, b); break;
  case CNI_EXPR_MIN: r = a < b ? a : b; break;
  case CNI_EXPR_MAX: r = a > b ? a : b; break;
  default: break;
  }
  return fits ? r : CNI_UNDEFINED;
}

int64_t cni_expr_value(const cni_exprs *x, int expr, const int64_t *sizes)
{
  const cni_expr *e = &x->v[expr];
  if (e->op == CNI_EXPR_CONST) return e->value;
  if (e->op == CNI_EXPR_SIZE) return sizes[e->value];
  return cni_expr_apply((enum cni_expr_op)e->op, cni_expr_value(x, e->a, sizes), cni_expr_value(x, e->b, sizes));
}

void cni_exprs_values(const cni_exprs *x, const int64_t *sizes, int64_t *values)
{
  for (size_t i = 0; i < x->n; i++) {
    const cni_expr *e = &x->v[i];
    if (e->op == CNI_EXPR_NONE) values[i] = CNI_UNDEFINED;
    else if (e->op == CNI_EXPR_CONST) values[i] = e->value;
    else if (e->op == CNI_EXPR_SIZE) values[i] = sizes[e->value];
    else values[i] = cni_expr_apply((enum cni_expr_op)e->op, values[e->a], values[e->b]);
  }
}

bool cni_expr_number(const cni_exprs *x, const int64_t *values, int expr, double *number)
{
  const cni_expr *e = &x->v[expr];
  int64_t a = e->op == CNI_EXPR_RATIO ? values[e->a] : values[expr], b = e->op == CNI_EXPR_RATIO ? values[e->b] : 1;
  if (a == CNI_UNDEFINED || b == CNI_UNDEFINED || !b) return false;
  *number = (double)a / (double)b;
  return true;
}
