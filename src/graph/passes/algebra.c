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

static bool is_integer(const cn_match *m)
{
  cn_value_info v = {sizeof v};
  return !cn_graph_value_at(&v, cn_match_graph(m), cn_match_value(m, "x")) && !cni_dtype_is_float(v.dtype) &&
         v.dtype != CN_BOOL;
}

static const cn_rewrite own[] = {
  {"neg_neg", "neg(neg(x))", NULL, "x", true},
  {"not_not", "logical_not(logical_not(x))", NULL, "x", true}, /* bool: the type of other results is another */
  {"abs_neg", "abs(neg(x))", NULL, "abs(x)", true},
  {"abs_abs", "abs(abs(x))", NULL, "abs(x)", true},
  {"relu_relu", "relu(relu(x))", NULL, "relu(x)", true},
  {"mul_one", "mul(x, 1)", NULL, "x", true},
  {"one_mul", "mul(1, x)", NULL, "x", true},
  {"div_one", "true_divide(x, 1)", NULL, "x", true},
  {"sub_zero", "sub(x, 0)", NULL, "x", true},
  {"add_zero", "add(x, 0)", is_integer, "x", true},
  {"zero_add", "add(0, x)", is_integer, "x", true},
  {"add_minus_zero", "add(x, -0.0)", NULL, "x", true},
  {"maximum_same", "maximum(x, x)", NULL, "x", true},
  {"minimum_same", "minimum(x, x)", NULL, "x", true},
  {"where_same", "where(_, x, x)", NULL, "x", false},
  {"view_view", "view(view(x, _), $shape)", NULL, "view(x, $shape)", false},
  {"transpose_transpose", "transpose(transpose(x, $a, $b), $a, $b)", NULL, "x", true},
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
