/* nest.c: making nests, part by part. See nest.h.
 *
 * Place in the flow: lower.c builds with these, nest_text.c when it reads. Invariant: parts are only added; whether
 * they make sense together is for nest_verify.c. */
#include "nest.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/state.h"

const char *const cni_fold_names[CNI_FOLDS] = {"sum", "prod", "max", "min"};

enum cni_prim cni_fold_prim(enum cni_fold fold)
{
  static const enum cni_prim prims[CNI_FOLDS] = {CNI_PW_add, CNI_PW_mul, CNI_PW_maximum, CNI_PW_minimum};
  return prims[fold];
}

void cni_nest_free(cni_nest *n)
{
  cni_exprs_free(&n->exprs);
  cni_free(n->loads, n->loads_cap * sizeof *n->loads);
  memset(n, 0, sizeof *n);
}

int cni_nest_axis(cni_nest *n, const char *name, int64_t size)
{
  if (n->naxes == CNI_NEST_AXES) return cni_fail(CN_ERR_UNSUPPORTED, "loop: more than %d axes", CNI_NEST_AXES);
  cni_axis *a = &n->axis[n->naxes];
  snprintf(a->name, sizeof a->name, "%s", name);
  a->size = size;
  return n->naxes++;
}

/* What expr.c says without an error: too large an expression. */
static int said(int expr)
{
  if (expr < 0 && !cn_err()) return cni_fail(CN_ERR_UNSUPPORTED, "loop: an index that is too large an expression");
  return expr;
}

int cni_nest_variable(cni_nest *n, int axis) { return said(cni_expr_size(&n->exprs, axis)); }
int cni_nest_gathered(cni_nest *n, int load) { return said(cni_expr_size(&n->exprs, CNI_NEST_AXES + load)); }

cni_load *cni_nest_load(cni_nest *n, int operand, enum cni_compute class, bool late)
{
  if (cni_grow((void **)&n->loads, &n->loads_cap, n->nloads + 1, sizeof *n->loads)) return NULL;
  cni_load *l = &n->loads[n->nloads++];
  *l = (cni_load){.operand = operand, .class = class, .late = late};
  return l;
}

int cni_nest_guard(cni_load *l, int expr, int64_t below)
{
  if (l->nguards == CN_MAX_DIMS) return cni_fail(CN_ERR_UNSUPPORTED, "loop: more than %d conditions", CN_MAX_DIMS);
  l->guard[l->nguards++] = (cni_guard){expr, below};
  return CN_OK;
}
