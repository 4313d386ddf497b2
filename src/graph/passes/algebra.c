/* algebra.c: rewrites of single formulas, and the rows that plugins add.
 *
 * Place in the flow: the last pass of a round of optimise.c; rewrite.c matches and replaces. Invariant: every row keeps
 * its result to the bit, for all numbers of the types it is applied to: infinities, NaN and -0.0 (x + 0 is no row for
 * that, x + -0.0 is one). tests/graph/test_rewrites.c has a graph before and after each. */
#include <pthread.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"
#include "ops/families.h"
#include "tensor/tensor.h"

static const cn_desc *desc_of(const cn_match *m, const char *name)
{
  return &cn_match_graph(m)->types.v[cn_match_value(m, name)].handle->d;
}

static bool is_integer(const cn_match *m)
{
  int dtype = desc_of(m, "x")->dtype;
  return !cni_dtype_is_float(dtype) && dtype != CN_BOOL;
}

static bool is_bool(const cn_match *m) { return desc_of(m, "c")->dtype == CN_BOOL; }
static bool is_float(const cn_match *m) { return cni_dtype_is_float(desc_of(m, "")->dtype); }

/* Does the first cast keep every number, so that the second sees what x was? */
static bool keeps_numbers(const cn_match *m)
{
  int from = desc_of(m, "x")->dtype, to = (int)cn_match_attribute(m, "$wide")->u.i;
  const bool half = from == CN_F16 || from == CN_BF16;
  return (half && to == CN_F32) || ((half || from == CN_F32) && to == CN_F64);
}

/* Which dimension of its input each dimension of a view's result is, for permute (its list) or transpose. */
static void order_of(int64_t *order, int ndim, const cn_value *list, const cn_value *a, const cn_value *b)
{
  for (int i = 0; i < ndim; i++) order[i] = list ? list->u.is[i] + (list->u.is[i] < 0 ? ndim : 0) : i;
  if (list) return;
  int64_t from = a->u.i + (a->u.i < 0 ? ndim : 0), to = b->u.i + (b->u.i < 0 ? ndim : 0);
  order[from] = to;
  order[to] = from;
}

/* Dimensions turned twice are turned once. */
static bool give_order(const cn_match *m)
{
  int64_t first[CN_MAX_DIMS], second[CN_MAX_DIMS], both[CN_MAX_DIMS];
  const int ndim = desc_of(m, "x")->ndim;
  order_of(first, ndim, cn_match_attribute(m, "$p"), cn_match_attribute(m, "$a"), cn_match_attribute(m, "$b"));
  order_of(second, ndim, cn_match_attribute(m, "$q"), cn_match_attribute(m, "$c"), cn_match_attribute(m, "$d"));
  for (int i = 0; i < ndim; i++) both[i] = first[second[i]];
  return cn_match_give(m, "$order", cn_v_ints(both, (size_t)ndim));
}

#define TURNED "(permute(x, $p) | transpose(x, $a, $b))"

static const cn_rewrite own[] = {
  {"neg_neg", "neg(neg(x))", NULL, "x", true},
  {"not_not", "logical_not(logical_not(x))", NULL, "x", true}, /* bool: the type of other results is another */
  {"not_eq", "logical_not(eq(x, y))", NULL, "ne(x, y)", true}, /* not of <: a NaN is neither less nor not less */
  {"not_ne", "logical_not(ne(x, y))", NULL, "eq(x, y)", true},
  {"where_not", "where(logical_not(c), x, y)", is_bool, "where(c, y, x)", true},
  {"floor_floor", "floor(floor(x))", NULL, "floor(x)", true},
  {"ceil_ceil", "ceil(ceil(x))", NULL, "ceil(x)", true},
  {"trunc_trunc", "trunc(trunc(x))", NULL, "trunc(x)", true},
  {"cast_cast", "cast(cast(x, $wide), $to)", keeps_numbers, "cast(x, $to)", true},
  {"abs_neg", "abs(neg(x))", NULL, "abs(x)", true},
  {"abs_abs", "abs(abs(x))", NULL, "abs(x)", true},
  {"relu_relu", "relu(relu(x))", NULL, "relu(x)", true},
  {"mul_one", "mul(x, 1)", NULL, "x", true},
  {"div_one", "true_divide(x, 1)", NULL, "x", true},
  {"half", "true_divide(x, 2)", is_float, "mul(x, 0.5)", true},
  {"sub_zero", "sub(x, 0)", NULL, "x", true},
  {"add_zero", "add(x, 0)", is_integer, "x", true},
  {"add_minus_zero", "add(x, -0.0)", NULL, "x", true},
  {"maximum_same", "maximum(x, x)", NULL, "x", true},
  {"minimum_same", "minimum(x, x)", NULL, "x", true},
  {"where_same", "where(_, x, x)", NULL, "x", false},
  {"view_view", "view(view(x, _), $shape)", NULL, "view(x, $shape)", false},
  {"reshape_reshape", "reshape((reshape(x, _) | view(x, _)), $shape)", NULL, "reshape(x, $shape)", false},
  {"expand_expand", "expand(expand(x, _), $shape)", NULL, "expand(x, $shape)", false},
  {"transpose_transpose", "transpose(transpose(x, $a, $b), $a, $b)", NULL, "x", true},
  {"turned_turned", "(permute(" TURNED ", $q) | transpose(" TURNED ", $c, $d))", give_order, "permute(x, $order)",
   true},
};

/* Rows that plugins brought: they are only ever added. */
static struct {
  pthread_mutex_t lock;
  cn_rewrite *rows;
  size_t n, cap;
} more = {.lock = PTHREAD_MUTEX_INITIALIZER};

int cn_rewrite_register(const cn_rewrite *rows, size_t n)
{
  cni_init(); /* patterns name ops, and this may be a program's first call */
  int status = cn_err();
  if (!status && n && !rows) status = cni_fail(CN_ERR_TYPE, "rewrite_register: the rows are NULL");
  cni_pattern *p = status ? NULL : cni_alloc(sizeof *p);
  if (!status && !p) status = CN_ERR_MEMORY;
  for (size_t i = 0; i < n && !status; i++) status = cni_pattern_read(p, &rows[i]);
  cni_free(p, sizeof *p);
  if (status) return status;
  pthread_mutex_lock(&more.lock);
  status = cni_grow((void **)&more.rows, &more.cap, more.n + n, sizeof *more.rows);
  for (size_t i = 0; i < n && !status; i++) more.rows[more.n++] = rows[i];
  pthread_mutex_unlock(&more.lock);
  return status;
}

int cni_pass_algebra(cn_graph *g)
{
  int count = cn_graph_rewrite(g, own, sizeof own / sizeof *own);
  pthread_mutex_lock(&more.lock);
  size_t n = more.n;
  cn_rewrite *rows = cni_alloc((n + 1) * sizeof *rows); /* a condition may take its time, or register more */
  for (size_t i = 0; rows && i < n; i++) rows[i] = more.rows[i];
  pthread_mutex_unlock(&more.lock);
  int other = count < 0 ? count : !rows ? CN_ERR_MEMORY : n ? cn_graph_rewrite(g, rows, n) : 0;
  cni_free(rows, (n + 1) * sizeof *rows);
  return other < 0 ? other : count + other;
}
