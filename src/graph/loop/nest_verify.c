/* nest_verify.c: may a nest run on these operands? See nest.h.
 *
 * Place in the flow: between lower.c or nest_text.c, which make nests, and whoever runs or renders one
 * (backends/cpu/loop), which checks nothing itself. Every index is bounded by what its axes run over: interval
 * arithmetic over the expression, where a guard on the very expression bounds it, too. Gathered integers have no bounds
 * of their own: they need a guard. Invariant: what passes touches no memory outside of its operands. */
#include <string.h>

#include "base/state.h"
#include "nest.h"

/* ---- bounds ---- */

typedef struct bounds {
  int64_t low, high; /* both inside; low > high: unknown */
} bounds;

static const bounds unknown = {1, 0};
static bool is_known(bounds b) { return b.low <= b.high; }

static bounds around(const int64_t *v, int n)
{
  bounds b = {v[0], v[0]};
  for (int i = 0; i < n; i++) {
    if (v[i] == CNI_UNDEFINED) return unknown;
    if (v[i] < b.low) b.low = v[i];
    if (v[i] > b.high) b.high = v[i];
  }
  return b;
}

static bounds bounds_of(const cni_nest *n, const cni_load *l, int expr)
{
  const cni_expr *e = &n->exprs.v[expr];
  for (int i = 0; l && i < l->nguards; i++)
    if (l->guard[i].expr == expr) return (bounds){0, l->guard[i].below - 1};
  if (e->op == CNI_EXPR_CONST) return (bounds){e->value, e->value};
  if (e->op == CNI_EXPR_SIZE)
    return e->value < n->naxes ? (bounds){0, n->axis[e->value].size - 1} : unknown;
  bounds a = bounds_of(n, l, e->a), b = bounds_of(n, l, e->b);
  enum cni_expr_op op = (enum cni_expr_op)e->op;
  if (!is_known(a) || !is_known(b) || (op == CNI_EXPR_DIV && b.low <= 0)) return unknown;
  int64_t corner[] = {cni_expr_apply(op, a.low, b.low), cni_expr_apply(op, a.low, b.high),
                      cni_expr_apply(op, a.high, b.low), cni_expr_apply(op, a.high, b.high)};
  return around(corner, 4);
}

/* ---- parts ---- */

static int wrong(size_t i, const char *what, const char *why)
{
  return cni_fail(CN_ERR_VALUE, "loop: %s %zu: %s", what, i, why);
}

static bool is_expr(const cni_nest *n, int e) { return e > 0 && (size_t)e < n->exprs.n; }

/* Refers an expression to axes that are there, and to loads before `load` that gave integers? */
static bool refers_well(const cni_nest *n, int expr, size_t load, int naxes)
{
  const cni_expr *e = &n->exprs.v[expr];
  if (e->op == CNI_EXPR_CONST) return true;
  if (e->op == CNI_EXPR_SIZE) {
    int64_t k = e->value - CNI_NEST_AXES;
    return k < 0 ? e->value < naxes : (size_t)k < load && n->loads[k].class == CNI_C_I64;
  }
  return refers_well(n, e->a, load, naxes) && refers_well(n, e->b, load, naxes);
}

static int check_load(const cni_nest *n, size_t i, const cni_nest_operand *operands, int noperands)
{
  const cni_load *l = &n->loads[i];
  int naxes = l->late ? n->nfor : n->naxes;
  if (l->operand >= noperands) return wrong(i, "load", "there is no such operand");
  if (l->operand < 0 && (l->ndim != 1 || l->class != CNI_C_I64)) return wrong(i, "load", "an index is one integer");
  if (l->operand >= 0 && l->ndim != operands[l->operand].ndim) return wrong(i, "load", "the operand has other dims");
  for (int k = 0; k < l->ndim + l->nguards; k++) {
    int e = k < l->ndim ? l->index[k] : l->guard[k - l->ndim].expr;
    if (!is_expr(n, e) || !refers_well(n, e, i, naxes)) return wrong(i, "load", "it refers to what is not there");
  }
  for (int k = 0; k < naxes; k++)
    if (n->axis[k].size == 0) return CN_OK; /* it is never read */
  for (int k = 0; k < l->nguards; k++)
    if (l->guard[k].below <= 0) return CN_OK; /* likewise */
  for (int k = 0; l->operand >= 0 && k < l->ndim; k++) {
    bounds b = bounds_of(n, l, l->index[k]);
    if (!is_known(b) || b.low < 0 || b.high >= operands[l->operand].shape[k])
      return wrong(i, "load", "an index may be outside of the operand");
  }
  return CN_OK;
}

/* Inputs of a program are the loads of its half, behind the accumulators. */
static int check_program(const cni_nest *n, const cni_program *p, bool late)
{
  int at = 0;
  const char *which = late ? "then" : "do";
  if (!p || !p->typed) return cni_fail(CN_ERR_VALUE, "loop: %s: a typed program is needed", which);
  for (int k = 0; late && k < n->body->nout; k++, at++)
    if (at >= p->nin || p->in[at].class != n->fold[k].class) return wrong((size_t)k, which, "input of another type");
  for (size_t i = 0; i < n->nloads; i++) {
    if (n->loads[i].late != late) continue;
    if (at >= p->nin || p->in[at].class != n->loads[i].class) return wrong(i, which, "load of another type");
    at++;
  }
  return at == p->nin ? CN_OK : cni_fail(CN_ERR_VALUE, "loop: %s: it takes %d inputs, not %d", which, p->nin, at);
}

/* Each point of the results' axes must have an element of its own: an axis or 0 for each dim, all axes once. */
static int check_store(const cni_nest *n, size_t i, const cni_nest_operand *result)
{
  const cni_store *s = &n->store[i];
  const cni_program *p = n->then ? n->then : n->body;
  bool used[CNI_NEST_AXES] = {false};
  if (s->dtype != result->dtype || p->out_dtype[i] != s->dtype) return wrong(i, "store", "its result has another type");
  if (s->ndim != result->ndim) return wrong(i, "store", "the result has other dims");
  for (int k = 0; k < s->ndim; k++) {
    const cni_expr *e = is_expr(n, s->index[k]) ? &n->exprs.v[s->index[k]] : NULL;
    bool axis = e && e->op == CNI_EXPR_SIZE && e->value < n->nfor && !used[e->value];
    bool fits = e && (axis ? n->axis[e->value].size == result->shape[k]
                           : e->op == CNI_EXPR_CONST && e->value == 0 && result->shape[k] == 1);
    if (!fits) return wrong(i, "store", "each dim is one axis of its size");
    if (axis) used[e->value] = true;
  }
  for (int k = 0; k < n->nfor; k++)
    if (!used[k] && n->axis[k].size != 1) return wrong(i, "store", "an axis is left out");
  return CN_OK;
}

int cni_nest_verify(const cni_nest *n, const cni_nest_operand *operands, int noperands,
                    const cni_nest_operand *results, int nresults)
{
  const cni_program *last = n->then ? n->then : n->body;
  if (n->nfor > n->naxes || (n->naxes > n->nfor) != (n->then != NULL))
    return cni_fail(CN_ERR_VALUE, "loop: axes are reduced, or a second program is there, but not both");
  for (int i = 0; i < n->naxes; i++)
    if (n->axis[i].size < 0) return wrong((size_t)i, "axis", "its size is negative");
  int status = check_program(n, n->body, false);
  if (!status && n->then) status = check_program(n, n->then, true);
  for (size_t i = 0; i < n->nloads && !status; i++) {
    if (n->loads[i].late && !n->then) status = wrong(i, "load", "nothing is reduced that it could stand behind");
    if (!status) status = check_load(n, i, operands, noperands);
  }
  for (int k = 0; n->then && k < n->body->nout && !status; k++)
    if (n->body->class[n->body->out[k]] != n->fold[k].class) status = wrong((size_t)k, "reduction", "another type");
  if (!status && (n->nstores != nresults || last->nout != nresults))
    status = cni_fail(CN_ERR_VALUE, "loop: %d results are stored, not %d", n->nstores, nresults);
  for (int i = 0; i < nresults && !status; i++) status = check_store(n, (size_t)i, &results[i]);
  return status;
}
