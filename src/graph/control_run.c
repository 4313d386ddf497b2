/* control_run.c: runs nodes that hold graphs: the branch that the predicate says, the body for each step.
 *
 * Place in the flow: run.c, at such a node -> here -> cni_run_sub (run.c), which runs a graph by the plan and context
 * that the outer ones hold for it. Invariants: a loop uses one context for all of its steps; what a step carries lies
 * in one of two places while the next is made in the other. */
#include <cairn/ops.h>
#include <string.h>

#include "base/dtype.h"
#include "base/limits.h"
#include "control.h"
#include "ops/apply.h"
#include "plan.h"

typedef struct looping {
  cni_control c;
  const char *name;
  cni_sub body;
  cn_tensor *const *in; /* of the node */
  cn_tensor *const *out;
  cn_tensor **carried;  /* 2 * ncarried places */
  cn_tensor **args, **results; /* of the body, in one step */
  uint64_t at[2], draws; /* where random numbers begin, and how many a step takes */
  int nys;
} looping;

/* ---- tensors as a sub-graph wants them ---- */

/* The tensor in the layout that the sub-graph's plan has for input i: itself, or a copy that the scope owns. */
static cn_tensor *fitted(const cni_sub *s, size_t i, cn_tensor *t)
{
  const cn_tensor *planned = s->plan->values[s->g->inputs[i]].handle;
  bool fits = cni_same_layout(&planned->d, &t->d) && (!s->plan->by_offset || planned->offset == t->offset);
  if (fits || !t->d.numel) return t;
  const cn_desc *d = &planned->d;
  cn_tensor *copy = cni_scope_add(cni_tensor_new(d->device, d->dtype, d->ndim, d->shape, d->strides));
  return copy && !cni_copy_elements(copy, t) ? copy : NULL;
}

/* Row i along the first dimension; the scope's. */
static cn_tensor *row(const cn_tensor *t, int64_t i)
{
  return cni_scope_add(cni_tensor_over(cni_storage_keep(t->storage), t->offset + i * t->d.strides[0], t->d.dtype,
                                       t->d.ndim - 1, t->d.shape + 1, t->d.strides + 1));
}

/* ---- branches ---- */

static int run_cond(const cni_sub *subs, const cni_control *c, cn_tensor *const *in, cn_tensor *const *out,
                    const uint64_t *at)
{
  double pred = cn_item(in[0]);
  if (cn_err()) return cn_err();
  const cni_sub *taken = &subs[pred != 0 ? 0 : 1];
  size_t bytes = (size_t)(c->noperands + 1) * sizeof(cn_tensor *), depth = cni_scope_push();
  cn_tensor **args = cni_alloc(bytes);
  int status = args ? CN_OK : CN_ERR_MEMORY;
  for (int i = 0; i < c->noperands && !status; i++)
    if (!(args[i] = fitted(taken, (size_t)i, in[1 + i]))) status = cn_err();
  if (!status) status = cni_run_sub(taken, args, out, at);
  cni_free(args, bytes);
  cni_scope_pop(depth);
  return status;
}

/* ---- loops ---- */

/* Copies carried values from one row of tensors to another. */
static int copy_all(cn_tensor *const *to, cn_tensor *const *from, int n)
{
  int status = CN_OK;
  for (int i = 0; i < n && !status; i++)
    if (to[i] != from[i]) status = cni_copy_elements(to[i], from[i]);
  return status;
}

/* Rows that no step writes are zero. */
static int clear_rows(const looping *l)
{
  for (int i = 0; i < l->nys; i++)
    if (!cn_fill_(l->out[l->c.ncarried + i], cn_int(0))) return cn_err();
  return CN_OK;
}

/* Step `step` of the loop's own order, on row `at_row`; random numbers are those of step `counted`. Reads carried
 * values from `from`, and writes them to `to`. */
static int run_step(looping *l, cn_tensor *const *from, cn_tensor *const *to, int64_t at_row, int64_t counted)
{
  const cni_control *c = &l->c;
  const uint64_t at[2] = {l->at[0], l->at[1] + (uint64_t)counted * l->draws};
  size_t depth = cni_scope_push();
  int status = cni_limits_hold(l->name); /* its body may have no node that looks */
  for (int i = 0; i < c->ncarried; i++) {
    l->args[i] = from[i];
    l->results[i] = to[i];
  }
  for (int i = c->ncarried; i < c->ncarried + c->nxs && !status; i++) {
    cn_tensor *x = row(l->in[i], at_row);
    if (!x || !(l->args[i] = fitted(&l->body, (size_t)i, x))) status = cn_err();
  }
  for (int i = 0; i < l->nys && !status; i++)
    if (!(l->results[c->ncarried + i] = row(l->out[c->ncarried + i], at_row))) status = cn_err();
  if (!status) status = cni_run_sub(&l->body, l->args, l->results, at);
  cni_scope_pop(depth);
  return status;
}

/* steps: how many, the others' rows are cleared already. */
static int run_scan(looping *l, int64_t steps)
{
  const cni_control *c = &l->c;
  int n = c->ncarried, status = CN_OK;
  cn_tensor **now = l->carried, **next = l->carried + n;
  if (!steps) return copy_all(l->out, l->in, n);
  status = copy_all(now, l->in, n);
  for (int64_t s = 0; s < steps && !status; s++) {
    int64_t at_row = c->reverse ? steps - 1 - s : s;
    bool last = s == steps - 1;
    status = run_step(l, now, last ? l->out : next, at_row, c->countdown ? steps - 1 - s : s);
    cn_tensor **other = now;
    now = next;
    next = other;
  }
  return status;
}

/* Does the condition hold for these values? 1, 0 or an error. cond's inputs are the body's, of their layouts or not. */
static int holds(const cni_sub *cond, const looping *l, cn_tensor *const *carried, cn_tensor *result)
{
  size_t depth = cni_scope_push();
  int status = CN_OK, n = l->c.ncarried + l->c.noperands;
  for (int i = 0; i < n && !status; i++) {
    cn_tensor *t = i < l->c.ncarried ? carried[i] : l->in[i];
    if (!(l->results[i] = fitted(cond, (size_t)i, t))) status = cn_err(); /* room that is as large */
  }
  if (!status) status = cni_run_sub(cond, l->results, &result, l->at);
  double value = status ? 0 : cn_item(result);
  cni_scope_pop(depth);
  return status ? status : cn_err() ? cn_err() : value != 0;
}

static int run_while(looping *l, const cni_sub *cond)
{
  const cni_control *c = &l->c;
  int n = c->ncarried, go = 1;
  cn_tensor **now = l->carried, **next = l->carried + n;
  const cni_gvalue *v = &cond->g->values[cond->g->outputs[0]];
  cn_tensor *result = cni_tensor_new(v->device, v->dtype, v->ndim, v->shape, NULL);
  int status = result ? copy_all(now, l->in, n) : CN_ERR_MEMORY;
  int64_t s = 0;
  for (; !status && (!c->length || s < c->length); s++) {
    if ((go = holds(cond, l, now, result)) <= 0) break;
    status = run_step(l, now, next, s, s);
    cn_tensor **other = now;
    now = next;
    next = other;
  }
  cni_tensor_release(result);
  if (!status && go < 0) status = go;
  if (!status) status = copy_all(l->out, now, n);
  if (!status && c->length && !cn_fill_(l->out[n + l->nys], cn_int(s))) status = cn_err();
  return status;
}

/* Operands are the same in every step: they are fitted once. */
static int run_loop(looping *l, const cni_sub *cond)
{
  const cni_control *c = &l->c;
  int status = CN_OK;
  int64_t steps = c->length;
  for (int i = 0; i < c->noperands && !status; i++) {
    int k = c->ncarried + c->nxs + i;
    if (!(l->args[k] = fitted(&l->body, (size_t)k, l->in[k]))) status = cn_err();
  }
  if (!status && c->steps >= 0) {
    int64_t wanted = cn_item_int(l->in[c->steps]);
    steps = wanted < 0 ? 0 : wanted < steps ? wanted : steps;
    status = cn_err();
  }
  if (!status && (cond || c->steps >= 0)) status = clear_rows(l);
  if (status) return status;
  return cond ? run_while(l, cond) : run_scan(l, steps);
}

int cni_run_control(const cni_gnode *n, const cn_value *args, const cni_nested *plans, cni_nested_context *context,
                    cn_tensor *const *in, cn_tensor *const *out, const uint64_t *at)
{
  cni_sub subs[2] = {{NULL, NULL, NULL}, {NULL, NULL, NULL}};
  cni_control c;
  cni_control_read(&c, n, args);
  for (int k = 0; k < n->nsubs; k++) subs[k] = (cni_sub){plans->subs[k]->graph, plans->subs[k], context->subs[k]};
  if (c.kind == CNI_CONTROL_COND) return run_cond(subs, &c, in, out, at);
  const cni_sub *body = &subs[n->nsubs - 1];
  size_t ninputs = body->g->ninputs + 1, most = ninputs + body->g->noutputs, bytes = (ninputs + most) * sizeof *in;
  looping l = {.c = c, .name = n->info->name, .body = *body, .in = in, .out = out, .carried = context->carried,
               .at = {at[0], at[1]}, .draws = body->plan->draws[body->plan->ndraws],
               .nys = (int)body->g->noutputs - c.ncarried};
  size_t depth = cni_scope_push();
  l.args = cni_alloc(bytes);
  l.results = l.args ? l.args + ninputs : NULL;
  int status = l.args ? run_loop(&l, c.kind == CNI_CONTROL_WHILE ? &subs[0] : NULL) : CN_ERR_MEMORY;
  cni_free(l.args, bytes);
  cni_scope_pop(depth);
  return status;
}
