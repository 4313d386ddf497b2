/* compare.c: graphs of the same function, side by side. See compare.h. */
#include "compare.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "control.h"
#include "tensor/tensor.h"

/* ---- places ---- */

/* Arguments whose numbers may follow from sizes; those of others (types, devices, switches) may not. */
static bool counts(const cni_param *p)
{
  return p->type == CNI_T_INT || p->type == CNI_T_FLOAT || p->type == CNI_T_SCALAR;
}

static int numbers_in(const cni_param *p, const cn_value *v, bool *real)
{
  *real = v->tag == CN_V_FLOAT || v->tag == CN_V_FLOATS;
  if (!counts(p)) return 0;
  if (v->tag == CN_V_INTS || v->tag == CN_V_FLOATS) return v->n;
  return v->tag == CN_V_INT || v->tag == CN_V_FLOAT;
}

typedef struct list {
  cni_place *v; /* NULL: only counts */
  size_t n;
} list;

static void add(list *l, int node, int arg, int element, bool real)
{
  if (l->v) l->v[l->n] = (cni_place){node, arg, element, real, false};
  l->n++;
}

static void add_args(list *l, int node, bool scope, const cni_opinfo *info, const cn_value *args)
{
  for (int arg = 0; arg < info->nparams; arg++) {
    bool real;
    int count = numbers_in(&info->params[arg], &args[arg], &real);
    for (int k = 0; k < count; k++) {
      add(l, node, arg, k, real);
      if (l->v) l->v[l->n - 1].scope = scope;
    }
  }
}

static void add_all(list *l, const cn_graph *g, size_t ninputs)
{
  for (size_t i = ninputs; i < g->ninputs; i++)
    for (int d = 0; d < g->values[g->inputs[i]].ndim; d++) add(l, g->inputs[i], CNI_AT_INPUT, d, false);
  for (size_t i = 0; i < g->nvalues; i++)
    if (g->values[i].kind == CNI_VALUE_SCALAR && g->values[i].dtype != CN_BOOL)
      add(l, (int)i, CNI_AT_SCALAR, 0, g->values[i].dtype == CN_F64);
  for (size_t i = 0; i < g->ndraws; i++) add(l, (int)i, CNI_AT_DRAW, 0, false);
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    add_args(l, (int)i, false, n->info, n->args);
    for (int k = 0; k < n->nout; k++)
      for (int d = 0; d < g->values[n->out[k]].ndim; d++) add(l, n->out[k], CNI_AT_DIM, d, false);
  }
  for (size_t i = 0; i < g->nscopes; i++)
    if (g->scopes[i].op) add_args(l, (int)i, true, g->scopes[i].op, g->scopes[i].args);
}

cni_place *cni_places(const cn_graph *g, size_t ninputs, size_t *n)
{
  list l = {0};
  add_all(&l, g, ninputs);
  *n = l.n;
  if (!(l.v = cni_alloc(l.n * sizeof *l.v))) return NULL;
  l.n = 0;
  add_all(&l, g, ninputs);
  return l.v;
}

cni_count cni_count_at(const cn_graph *g, const cni_place *p)
{
  if (p->arg == CNI_AT_DIM || p->arg == CNI_AT_INPUT) return (cni_count){.i = g->values[p->node].shape[p->element]};
  if (p->arg == CNI_AT_DRAW) return (cni_count){.i = g->draws[p->node].count};
  if (p->arg == CNI_AT_SCALAR)
    return p->real ? (cni_count){.f = g->values[p->node].number} : (cni_count){.i = g->values[p->node].integer};
  const cn_value *v = &(p->scope ? g->scopes[p->node].args : g->nodes[p->node].args)[p->arg];
  if (p->real) return (cni_count){.f = v->tag == CN_V_FLOATS ? v->u.fs[p->element] : v->u.f};
  return (cni_count){.i = v->tag == CN_V_INTS ? v->u.is[p->element] : v->u.i};
}

void cni_place_name(const cn_graph *g, const cni_place *p, char *text, size_t size)
{
  if (p->arg == CNI_AT_SCALAR) snprintf(text, size, "a number");
  else if (p->arg == CNI_AT_DRAW) snprintf(text, size, "the count of a random draw");
  else if (p->arg == CNI_AT_DIM) snprintf(text, size, "a size of a result");
  else if (p->arg == CNI_AT_INPUT) snprintf(text, size, "a size of a result's gradient");
  else {
    const cni_opinfo *info = p->scope ? g->scopes[p->node].op : g->nodes[p->node].info;
    snprintf(text, size, "'%s' of %s", info->params[p->arg].name, info->name);
  }
}

/* ---- differences ---- */

static bool same_elements(const cn_tensor *a, const cn_tensor *b)
{
  if (!a || !b || a->d.dtype != b->d.dtype || a->d.device != CN_CPU || b->d.device != CN_CPU) return false;
  if (!cni_same_shape(a->d.ndim, a->d.shape, b->d.ndim, b->d.shape)) return false;
  if (!cni_is_contiguous(a->d.ndim, a->d.shape, a->d.strides) ||
      !cni_is_contiguous(b->d.ndim, b->d.shape, b->d.strides))
    return false;
  return !a->d.numel || !memcmp(a->d.data, b->d.data, cn_tensor_nbytes(a));
}

/* Tensors that the traced code made itself, and nobody has but the graphs. */
static bool same_constant(const cn_tensor *a, const cn_tensor *b)
{
  return a && b && atomic_load(&a->refs) == 1 && atomic_load(&b->refs) == 1 && same_elements(a, b);
}

static bool states_differ(const cn_graph *a, const cn_graph *b)
{
  for (size_t i = 0; i < a->nstates; i++) {
    const cni_gstate *s = &a->states[i], *t = &b->states[i];
    bool constant = s->final < 0 && same_constant(s->tensor, t->tensor);
    if (s->value != t->value || s->final != t->final || (s->tensor != t->tensor && !constant)) return true;
  }
  for (size_t i = 0; i < a->nleaves; i++) {
    const cni_gleaf *l = &a->leaves[i], *m = &b->leaves[i];
    if (l->tensor != m->tensor || l->before != m->before || l->after != m->after || l->value != m->value) return true;
  }
  return false;
}

static bool values_differ(const cn_graph *a, const cn_graph *b)
{
  for (size_t i = 0; i < a->nvalues; i++) {
    const cni_gvalue *v = &a->values[i], *w = &b->values[i];
    if (v->kind != w->kind || v->dtype != w->dtype || v->ndim != w->ndim || v->weak != w->weak ||
        v->device != w->device || v->count != w->count || (v->dtype == CN_BOOL && v->integer != w->integer) ||
        (v->kind == CNI_VALUE_CONST && !same_elements(v->tensor, w->tensor)))
      return true;
  }
  return false;
}

static bool args_differ(const cni_param *p, const cn_value *a, const cn_value *b)
{
  if (a->tag != b->tag || a->n != b->n) return true;
  if (a->tag == CN_V_STR) return strcmp(a->u.s, b->u.s) != 0;
  if (counts(p) || a->tag == CN_V_NONE || a->tag == CN_V_TENSOR || a->tag == CN_V_TENSORS) return false;
  if (a->tag == CN_V_INTS) return memcmp(a->u.is, b->u.is, (size_t)a->n * sizeof *a->u.is) != 0;
  return a->u.i != b->u.i;
}

static bool calls_differ(const cni_opinfo *info, const cn_value *a, const cn_value *b)
{
  for (int i = 0; i < info->nparams; i++)
    if (args_differ(&info->params[i], &a[i], &b[i])) return true;
  return false;
}

static bool lists_differ(const int *a, int na, const int *b, int nb)
{
  return na != nb || (na && memcmp(a, b, (size_t)na * sizeof *a));
}

static bool nodes_differ(const cni_gnode *a, const cni_gnode *b)
{
  return a->info != b->info || a->draw != b->draw || a->scope != b->scope ||
         lists_differ(a->in, a->nin, b->in, b->nin) || lists_differ(a->out, a->nout, b->out, b->nout) ||
         calls_differ(a->info, a->args, b->args);
}

static bool scopes_differ(const cn_graph *a, const cn_graph *b)
{
  if (a->nscopes != b->nscopes) return true;
  for (size_t i = 0; i < a->nscopes; i++) {
    const cni_gscope *s = &a->scopes[i], *t = &b->scopes[i];
    if (s->parent != t->parent || s->op != t->op) return true;
    if (s->op ? lists_differ(s->in, s->nin, t->in, t->nin) || lists_differ(s->out, s->nout, t->out, t->nout) ||
                  calls_differ(s->op, s->args, t->args)
              : strcmp(s->name, t->name) || strcmp(s->kind, t->kind))
      return true;
  }
  return false;
}

bool cni_graphs_differ(const cn_graph *a, const cn_graph *b, char *what, size_t size)
{
  size_t n = a->nnodes < b->nnodes ? a->nnodes : b->nnodes;
  for (size_t i = 0; i < n; i++)
    if (a->nodes[i].nsubs && a->nodes[i].info == b->nodes[i].info && !cni_subs_same(&a->nodes[i], &b->nodes[i]))
      return snprintf(what, size, "the functions that node %zu, %s, holds: sizes inside of branches and loops cannot "
                      "vary", i, a->nodes[i].info->name), true;
  for (size_t i = 0; i < n; i++)
    if (nodes_differ(&a->nodes[i], &b->nodes[i]))
      return snprintf(what, size, "node %zu is %s, or %s with other inputs or switches", i, a->nodes[i].info->name,
                      b->nodes[i].info->name), true;
  if (a->nnodes != b->nnodes) return snprintf(what, size, "%zu nodes, or %zu", a->nnodes, b->nnodes), true;
  if (a->nstates != b->nstates || a->nleaves != b->nleaves || a->ndraws != b->ndraws || states_differ(a, b))
    return snprintf(what, size, "the tensors that it uses from outside"), true;
  if (a->nvalues != b->nvalues || values_differ(a, b) ||
      lists_differ(a->outputs, (int)a->noutputs, b->outputs, (int)b->noutputs) ||
      lists_differ(a->input_finals, (int)a->ninputs, b->input_finals, (int)b->ninputs))
    return snprintf(what, size, "types, dimensions, results or what is written into inputs"), true;
  if (scopes_differ(a, b)) return snprintf(what, size, "the modules or composite ops that its nodes belong to"), true;
  return false;
}
