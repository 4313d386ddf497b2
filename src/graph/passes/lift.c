/* lift.c: folds the call of a composite op back into one node, where nothing inside of it is used or written outside.
 *
 * Place in the flow: exporters, pictures, saved graphs, and devices that know the op whole. What autograd saved from
 * the inside keeps a call open: gradients need its parts. Invariant: a lifted node computes what its parts did: it
 * reads the values that the call was given, makes those that it gave, and draws the numbers that its parts drew. */
#include <string.h>

#include "base/alloc.h"
#include "graph/control.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"
#include "graph/segments.h"
#include "tensor/args.h"
#include "tensor/tensor.h"

typedef struct lifting {
  cn_graph *g;
  int *first, *last; /* per scope: nodes of it and of scopes in it lie between these; first > last: none do */
  bool *gone;        /* per scope: it is folded, or in one that is */
  bool *drop;        /* per node */
} lifting;

static bool is_in(const cn_graph *g, int scope, int outer)
{
  while (scope > outer) scope = g->scopes[scope].parent; /* parents stand before */
  return scope == outer;
}

static bool member(const lifting *l, int node, int scope) { return is_in(l->g, l->g->nodes[node].scope, scope); }

static bool listed(const int *list, int n, int value)
{
  for (int i = 0; i < n; i++)
    if (list[i] == value) return true;
  return false;
}

static void find_ranges(lifting *l)
{
  const cn_graph *g = l->g;
  for (size_t s = 0; s < g->nscopes; s++) l->first[s] = (int)g->nnodes, l->last[s] = -1;
  for (size_t i = 0; i < g->nnodes; i++)
    for (int s = g->nodes[i].scope; s >= 0; s = g->scopes[s].parent) {
      if (l->first[s] > (int)i) l->first[s] = (int)i;
      l->last[s] = (int)i;
    }
}

/* ---- may it be folded? ---- */

/* Is every tensor of the call known? */
static bool knows_inputs(const cni_gscope *s)
{
  const int *in = s->in;
  for (int i = 0; i < s->nargs; i++) {
    const cni_param *p = &s->op->params[i];
    if (p->type != CNI_T_TENSOR) continue;
    int n = p->list ? s->args[i].n : 1;
    for (int k = 0; k < n; k++)
      if (in[k] < 0 && (p->list || s->args[i].tag == CN_V_TENSOR)) return false;
    in += n;
  }
  return true;
}

/* Does a node inside read what the call was given, what is made inside, and numbers alone? */
static bool reads_inside(const lifting *l, int scope, int node)
{
  const cn_graph *g = l->g;
  const cni_gscope *s = &g->scopes[scope];
  const cni_gnode *n = &g->nodes[node];
  for (int k = 0; k < n->nin; k++) {
    int v = n->in[k];
    if (v < 0 || listed(s->in, s->nin, v)) continue;
    const cni_gvalue *value = &g->values[v];
    if (value->kind != CNI_VALUE_SCALAR && (value->kind != CNI_VALUE_RESULT || !member(l, value->node, scope)))
      return false;
  }
  return true;
}

/* Who reads what a node inside makes: nodes inside; results of the call are for nodes behind it, too. */
static bool made_for_inside(const lifting *l, int scope, int node, bool *read)
{
  const cni_gnode *n = &l->g->nodes[node];
  const cni_gscope *s = &l->g->scopes[scope];
  for (int k = 0; k < n->nout; k++) {
    const cn_graph_use *use;
    bool result = listed(s->out, s->nout, n->out[k]);
    int users = cn_graph_users(&use, l->g, n->out[k]);
    for (int i = 0; i < users; i++) {
      bool inside = use[i].kind == CN_USE_NODE && member(l, use[i].index, scope);
      bool behind = use[i].kind != CN_USE_NODE || use[i].index > l->last[scope];
      if (!inside && !(result && behind)) return false;
      *read |= !inside;
    }
    if (users < 0) return false;
  }
  return true;
}

/* Each result is made inside, and no two are the same. */
static bool makes_results(const lifting *l, int scope)
{
  const cni_gscope *s = &l->g->scopes[scope];
  for (int k = 0; k < s->nout; k++) {
    const cni_gvalue *v = s->out[k] < 0 ? NULL : &l->g->values[s->out[k]];
    if (!v || v->kind != CNI_VALUE_RESULT || !member(l, v->node, scope) || listed(s->out, k, s->out[k])) return false;
  }
  return s->nout > 0 && s->nout <= CNI_MAX_RESULTS;
}

/* The draws of nodes inside follow one another, as the decomposition takes them. *first: -1: none. */
static bool draws_in_order(const lifting *l, int scope, int *first)
{
  int last = -1;
  *first = -1;
  for (int i = l->first[scope]; i <= l->last[scope]; i++) {
    int draw = l->g->nodes[i].draw;
    if (draw < 0 || !member(l, i, scope)) continue;
    if (*first < 0) *first = draw;
    else if (draw != last + 1) return false;
    last = draw;
  }
  return true;
}

/* Does a result lie in memory as the value does? Kernels that read it then do what they did, to the bit. */
static bool same_layout(const cn_spec *s, const cn_desc *d)
{
  bool same = s->dtype == d->dtype && cni_same_shape(s->ndim, s->shape, d->ndim, d->shape);
  for (int i = 0; same && d->numel && i < d->ndim; i++) same = d->shape[i] == 1 || s->strides[i] == d->strides[i];
  return same;
}

static bool same_node(const cn_graph *g, const cni_gnode *n, const cn_graph *parts, const cni_gnode *part)
{
  if (n->info != part->info || n->nin != part->nin || n->nout != part->nout) return false;
  for (int i = 0; i < n->nargs; i++)
    if (n->args[i].tag != part->args[i].tag || !cni_same_value(&n->args[i], &part->args[i])) return false;
  for (int k = 0; k < n->nout; k++) {
    const cni_gvalue *v = &g->values[n->out[k]], *w = &parts->values[part->out[k]];
    if (v->dtype != w->dtype || !cni_same_shape(v->ndim, v->shape, w->ndim, w->shape)) return false;
  }
  return true;
}

/* Is everything inside among what the call is made of now, in this order? Under autocast, say, it was made of other
 * parts. What passes took away may be missing. */
static bool same_parts(const lifting *l, int scope, const cn_graph *parts)
{
  size_t at = 0;
  for (int i = l->first[scope]; i <= l->last[scope]; i++) {
    if (!member(l, i, scope)) continue;
    while (at < parts->nnodes && !same_node(l->g, &l->g->nodes[i], parts, &parts->nodes[at])) at++;
    if (at++ >= parts->nnodes) return false;
  }
  return true;
}

/* Would the node compute what the call did, and give it in the same order of memory? */
static bool same_call(const lifting *l, int scope, const cni_gnode *n)
{
  const cn_graph *g = l->g;
  cn_tensor *out[CNI_MAX_RESULTS] = {NULL};
  cn_spec spec[CNI_MAX_RESULTS];
  cn_value args[CN_MAX_ARGS];
  cn_call c;
  cn_tensor **in = cni_alloc((size_t)(n->nin + 1) * sizeof *in);
  if (!in) return false;
  memset(args, 0, sizeof args);
  memcpy(args, n->args, (size_t)n->nargs * sizeof *args);
  for (int k = 0; k < n->nin; k++) in[k] = n->in[k] < 0 ? NULL : g->types.v[n->in[k]].handle;
  cni_fill_slots(n->info, args, in);
  cni_node_call(&c, g, n, args, in);
  c.out = out;
  c.spec = spec;
  cn_graph *parts = cni_trace_call(&c);
  if (!parts && cn_err() != CN_ERR_MEMORY) cn_err_clear(); /* then it stays as it is */
  bool same = parts && c.nout == n->nout && same_parts(l, scope, parts);
  for (int k = 0; same && k < n->nout; k++) same = same_layout(&spec[k], &g->types.v[n->out[k]].handle->d);
  cn_graph_free(parts);
  cni_free(in, (size_t)(n->nin + 1) * sizeof *in);
  return same;
}

/* ---- folding ---- */

static bool can_fold(const lifting *l, int scope, cni_gnode *n)
{
  const cni_gscope *s = &l->g->scopes[scope];
  bool checks = false, read = false;
  if (!cni_is_composite(s->op->row) || l->first[scope] > l->last[scope]) return false;
  if (!knows_inputs(s) || !makes_results(l, scope)) return false;
  for (int k = 0; k < s->nin; k++)
    if (s->in[k] >= 0 && l->g->values[s->in[k]].kind == CNI_VALUE_RESULT &&
        (member(l, l->g->values[s->in[k]].node, scope) || l->g->values[s->in[k]].node > l->last[scope]))
      return false;
  for (int i = l->first[scope]; i <= l->last[scope]; i++) {
    if (!member(l, i, scope)) continue;
    if (l->drop[i] || !reads_inside(l, scope, i) || !made_for_inside(l, scope, i, &read)) return false;
    if (cni_counts(l->g, &l->g->nodes[i])) return false; /* a size would have no node that defines it */
    checks |= (cni_node_flags(&l->g->nodes[i]) & (CN_OP_CHECKS | CN_OP_EFFECTS)) != 0;
  }
  *n = (cni_gnode){.info = s->op, .args = s->args, .nargs = s->nargs, .args_size = s->args_size, .in = s->in,
                   .nin = s->nin, .out = s->out, .nout = s->nout, .syms = s->syms, .scope = s->parent};
  if (!draws_in_order(l, scope, &n->draw) || (checks && !read)) return false;
  return same_call(l, scope, n);
}

/* The node takes the place of the last one inside, and what the scope owned. */
static void fold(lifting *l, int scope, const cni_gnode *n)
{
  cn_graph *g = l->g;
  int last = l->last[scope];
  cni_gscope *s = &g->scopes[scope];
  for (int i = l->first[scope]; i < last; i++)
    if (member(l, i, scope)) l->drop[i] = true;
  for (size_t i = (size_t)scope; i < g->nscopes; i++)
    if (is_in(g, (int)i, scope)) l->gone[i] = true;
  for (int k = 0; k < n->nout; k++) {
    g->values[n->out[k]].node = last;
    g->values[n->out[k]].index = k;
  }
  for (int k = 0; k < g->nodes[last].nout; k++) { /* values of the old last node that are no results go */
    cni_gvalue *v = &g->values[g->nodes[last].out[k]];
    if (!listed(n->out, n->nout, g->nodes[last].out[k])) *v = (cni_gvalue){.kind = CNI_VALUE_SCALAR, .dtype = CN_F64};
  }
  cni_gnode_free(&g->nodes[last]);
  g->nodes[last] = *n;
  s->args = NULL;
  s->in = s->out = NULL;
  s->args_size = 0;
  s->syms = (cni_gsyms){NULL, 0, 0};
  s->nin = s->nout = s->nargs = 0;
}

/* ---- what is left ---- */

/* Nodes inside go; their values stand for nothing, until dead values are dropped. */
static void drop_nodes(lifting *l)
{
  cn_graph *g = l->g;
  size_t n = 0;
  for (size_t i = 0; i < g->nnodes; i++) {
    cni_gnode *node = &g->nodes[i];
    for (int k = 0; k < node->nout; k++) {
      cni_gvalue *v = &g->values[node->out[k]];
      if (!l->drop[i]) v->node = (int)n;
      else if (v->node == (int)i) *v = (cni_gvalue){.kind = CNI_VALUE_SCALAR, .dtype = CN_F64};
    }
    if (l->drop[i]) cni_gnode_free(node);
    else g->nodes[n++] = *node;
  }
  g->nnodes = n;
}

static void drop_scopes(lifting *l)
{
  cn_graph *g = l->g;
  int *to = l->first; /* which is needed no more: new numbers */
  size_t n = 0, all = g->nscopes;
  for (size_t i = 0; i < all; i++) {
    to[i] = l->gone[i] ? -1 : (int)n;
    if (l->gone[i]) {
      cni_gscope_free(&g->scopes[i]);
      continue;
    }
    if (g->scopes[i].parent >= 0) g->scopes[i].parent = to[g->scopes[i].parent];
    g->scopes[n++] = g->scopes[i];
  }
  g->nscopes = n;
  for (size_t i = 0; i < g->nnodes; i++)
    if (g->nodes[i].scope >= 0) g->nodes[i].scope = to[g->nodes[i].scope];
}

static bool is_public(const cn_op *op, void *payload)
{
  (void)payload;
  return !cni_op_info(op)->internal;
}

/* How many calls were folded; a failure leaves a graph with those so far. */
static int lift(lifting *l, bool (*wanted)(const cn_op *op, void *payload), void *payload)
{
  cn_graph *g = l->g;
  int count = 0, status = CN_OK;
  find_ranges(l);
  for (size_t s = 0; s < g->nscopes && !status; s++) { /* outer scopes first */
    cni_gnode n;
    if (l->gone[s] || !g->scopes[s].op || !wanted(g->scopes[s].op->row, payload)) continue;
    if (can_fold(l, (int)s, &n)) {
      fold(l, (int)s, &n);
      count++;
    } else status = cn_err();
  }
  drop_nodes(l);
  drop_scopes(l);
  return status ? status : count;
}

/* In the graphs that nodes hold; how many. */
static int lift_inside(cn_graph *g, bool (*wanted)(const cn_op *op, void *payload), void *payload)
{
  int count = 0;
  for (size_t i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nsubs; k++) {
      int n = cn_graph_lift(g->nodes[i].subs[k], wanted, payload);
      if (n < 0) return n;
      count += n;
    }
  return count;
}

int cn_graph_lift(cn_graph *g, bool (*wanted)(const cn_op *op, void *payload), void *payload)
{
  if (cn_err()) return cn_err();
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_lift: the graph is NULL");
  int inside = lift_inside(g, wanted, payload), status = inside < 0 ? inside : cni_types_fill(&g->types, g);
  if (status) return status;
  size_t scopes = g->nscopes + 1, nodes = g->nnodes + 1;
  lifting l = {.g = g, .first = cni_alloc(scopes * sizeof *l.first), .last = cni_alloc(scopes * sizeof *l.last),
               .gone = cni_alloc_zero(scopes), .drop = cni_alloc_zero(nodes)};
  int count = l.first && l.last && l.gone && l.drop ? lift(&l, wanted ? wanted : is_public, payload) : CN_ERR_MEMORY;
  cni_free(l.first, scopes * sizeof *l.first);
  cni_free(l.last, scopes * sizeof *l.last);
  cni_free(l.gone, scopes);
  cni_free(l.drop, nodes);
  cni_graph_changed(g);
  cni_types_free(&g->types);
  status = count < 0 ? count : cni_pass_dead(g);
  return status < 0 ? status : count + inside;
}
