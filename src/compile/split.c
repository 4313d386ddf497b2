/* split.c: cuts a graph of a forward and a backward pass in two.
 *
 * Place in the flow: executable.c has captured both as one graph, and joint.c runs the halves; so do
 * control_cond.c and control_loop_grad.c with the functions of branches and loops. Forward has what results and
 * written states need, and nothing that needs the results' gradients; backward has the rest. What backward reads of
 * forward is kept: inputs and states as they are, results of nodes as further outputs of forward. Views are made again
 * instead: they cost nothing, and keep only what they look into. Parts that are computed again in backward
 * (checkpoints) are needed by no result and so stay there. Nodes that define sizes are forward's; where backward's
 * numbers follow from such a size, a value that has it is kept. Invariant: forward reads nothing of backward. */
#include <string.h>

#include "compile.h"
#include "graph/control.h"
#include "graph/extract.h"
#include "graph/segments.h"

typedef struct cutting {
  cni_halves *p;
  const cn_graph *g;
  cni_types types;
  bool *late;     /* per value: needs gradients of results */
  bool *early;    /* per value: needed by results or states */
  bool *forward, *backward; /* per node */
  int *kept;      /* per value: its place among the kept; -1: not kept */
  int *order;     /* the kept values */
} cutting;

static void mark_late(cutting *c)
{
  const cn_graph *g = c->g;
  for (size_t i = c->p->ninputs; i < g->ninputs; i++) c->late[g->inputs[i]] = true;
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    bool late = false;
    for (int k = 0; k < n->nin; k++) late |= n->in[k] >= 0 && c->late[n->in[k]];
    for (int k = 0; k < n->nout; k++) c->late[n->out[k]] = late;
  }
}

/* Is it the first one that counts so? What is computed again counts the same. */
static bool defines_size(const cn_graph *g, size_t node)
{
  if (!cni_counts(g, &g->nodes[node])) return false;
  for (size_t i = 0; i < node; i++)
    for (int k = 0; k < g->nodes[i].nout; k++)
      if (g->values[g->nodes[i].out[k]].dims[0] == g->values[g->nodes[node].out[0]].dims[0]) return false;
  return true;
}

static int mark_early(cutting *c)
{
  const cn_graph *g = c->g;
  for (size_t i = 0; i < c->p->noutputs; i++) c->early[g->outputs[i]] = true;
  for (size_t i = 0; i < g->nstates; i++)
    if (g->states[i].final >= 0) c->early[g->states[i].final] = true;
  for (size_t i = 0; i < c->p->ninputs; i++)
    if (g->input_finals[i] >= 0) c->early[g->input_finals[i]] = true;
  for (size_t i = 0; i < g->nvalues; i++)
    if (c->early[i] && c->late[i])
      return cni_fail(CN_ERR_CAPTURE, "compile: backward writes to a tensor that lives outside");
  for (size_t i = g->nnodes; i-- > 0;) {
    const cni_gnode *n = &g->nodes[i];
    bool late = c->late[n->out[0]], wanted = (cni_node_flags(n) & (CN_OP_CHECKS | CN_OP_EFFECTS)) != 0;
    for (int k = 0; k < n->nout; k++) wanted |= c->early[n->out[k]];
    if (g->nsizes) wanted |= defines_size(g, i);
    c->forward[i] = wanted && !late;
    c->backward[i] = !c->forward[i];
    for (int k = 0; c->forward[i] && k < n->nin; k++)
      if (n->in[k] >= 0) c->early[n->in[k]] = true;
  }
  return CN_OK;
}

static bool is_forward_view(const cutting *c, int value)
{
  const cni_gvalue *v = &c->g->values[value];
  return v->kind == CNI_VALUE_RESULT && c->forward[v->node] && c->types.v[value].root != value;
}

/* Backward makes the views that it reads by itself, and those are of others first. */
static void repeat_views(cutting *c)
{
  for (size_t i = c->p->noutputs; i < c->g->noutputs; i++)
    if (is_forward_view(c, c->g->outputs[i])) c->backward[c->g->values[c->g->outputs[i]].node] = true;
  for (size_t i = c->g->nnodes; i-- > 0;) {
    const cni_gnode *n = &c->g->nodes[i];
    for (int k = 0; c->backward[i] && k < n->nin; k++)
      if (n->in[k] >= 0 && is_forward_view(c, n->in[k])) c->backward[c->g->values[n->in[k]].node] = true;
  }
}

static void keep(cutting *c, int value)
{
  if (value < 0 || c->kept[value] >= 0 || c->late[value]) return;
  const cni_gvalue *v = &c->g->values[value];
  if (v->kind == CNI_VALUE_SCALAR || v->kind == CNI_VALUE_CONST) return; /* each half has them */
  if (v->kind == CNI_VALUE_RESULT && c->backward[v->node]) return;
  c->kept[value] = (int)c->p->nkept;
  c->order[c->p->nkept++] = value;
}

/* The sizes in an expression: forward's nodes define them, and backward is given what those made. */
static void keep_sizes(cutting *c, int expr)
{
  const cni_expr *e = &c->g->exprs.v[expr];
  if (e->op > CNI_EXPR_SIZE) {
    keep_sizes(c, e->a);
    keep_sizes(c, e->b);
  }
  for (size_t i = 0; e->op == CNI_EXPR_SIZE && i < c->g->nnodes; i++) {
    const cni_gnode *n = &c->g->nodes[i];
    for (int k = 0; c->forward[i] && k < n->nout; k++)
      if (cni_plain_size(c->g, &c->g->values[n->out[k]], 0) == (int)e->value) {
        keep(c, n->out[k]);
        return;
      }
  }
}

/* What backward's numbers follow from. */
static void keep_all_sizes(cutting *c)
{
  const cn_graph *g = c->g;
  for (size_t i = 0; i < g->ndraws; i++) keep_sizes(c, g->draws[i].expr);
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    for (size_t k = 0; c->backward[i] && k < n->syms.n; k++) keep_sizes(c, n->syms.v[k].expr);
    for (int k = 0; c->backward[i] && k < n->nin; k++)
      if (n->in[k] >= 0) keep_sizes(c, g->values[n->in[k]].expr);
  }
}

/* Is the value's memory written by forward, so that backward would find something else there? */
static bool is_overwritten(const cutting *c, const cni_gvalue *v)
{
  if (v->kind == CNI_VALUE_STATE) return c->g->states[v->index].final >= 0;
  return v->kind == CNI_VALUE_INPUT && c->g->input_finals[v->index] >= 0;
}

/* How each kept value is found; those that forward has to hand out go to `outputs` behind the results. */
static int place_kept(cutting *c, int *outputs, size_t *noutputs)
{
  cni_halves *p = c->p;
  size_t nstates = 0;
  p->kept = cni_alloc_zero(p->nkept * sizeof *p->kept);
  for (size_t i = 0; i < p->nkept; i++) {
    const cni_gvalue *v = &c->g->values[c->order[i]];
    nstates += v->kind == CNI_VALUE_STATE && !is_overwritten(c, v);
  }
  p->states = p->kept ? cni_alloc_zero(nstates * sizeof *p->states) : NULL;
  if (!p->states) return CN_ERR_MEMORY;
  nstates = 0;
  for (size_t i = 0; i < p->nkept; i++) {
    const cni_gvalue *v = &c->g->values[c->order[i]];
    bool as_it_is = v->kind != CNI_VALUE_RESULT && !is_overwritten(c, v);
    if (!as_it_is) {
      p->kept[i] = (cni_kept){CNI_KEPT_RESULT, (int)*noutputs};
      outputs[(*noutputs)++] = c->order[i];
    } else if (v->kind == CNI_VALUE_STATE) {
      p->kept[i] = (cni_kept){CNI_KEPT_STATE, (int)nstates};
      p->states[nstates++] = cni_tensor_keep(c->g->states[v->index].tensor);
    } else p->kept[i] = (cni_kept){CNI_KEPT_INPUT, v->index};
  }
  return CN_OK;
}

static int extract_both(cutting *c, int *values)
{
  cni_halves *p = c->p;
  const cn_graph *g = c->g;
  size_t noutputs = p->noutputs;
  memcpy(values, g->outputs, noutputs * sizeof *values);
  int status = place_kept(c, values, &noutputs);
  if (status) return status;
  cni_part first = {c->forward, g->inputs, p->ninputs, values, noutputs, true, &c->types};
  if (!(p->forward = cni_graph_extract(g, &first))) return cn_err();
  size_t ngiven = g->ninputs - p->ninputs; /* gradients of results */
  memcpy(values, c->order, p->nkept * sizeof *values);
  memcpy(values + p->nkept, g->inputs + p->ninputs, ngiven * sizeof *values);
  cni_part second = {c->backward, values, p->nkept + ngiven, g->outputs + p->noutputs, g->noutputs - p->noutputs,
                     false, &c->types};
  p->backward = cni_graph_extract(g, &second);
  return p->backward ? CN_OK : cn_err();
}

static int cut(cutting *c, int *values)
{
  mark_late(c);
  int status = mark_early(c);
  if (status) return status;
  repeat_views(c);
  for (size_t i = 0; i < c->g->nvalues; i++) c->kept[i] = -1;
  for (size_t i = 0; i < c->g->nnodes; i++)
    for (int k = 0; c->backward[i] && k < c->g->nodes[i].nin; k++) keep(c, c->g->nodes[i].in[k]);
  for (size_t i = c->p->noutputs; i < c->g->noutputs; i++) keep(c, c->g->outputs[i]);
  if (c->g->nsizes) keep_all_sizes(c);
  return extract_both(c, values);
}

int cni_cut_in_halves(cni_halves *p, const cn_graph *g)
{
  size_t v = g->nvalues + 1, n = g->nnodes + 1, most = g->nvalues + g->ninputs + g->noutputs + 1;
  bool *flags = cni_alloc_zero(2 * v + 2 * n);
  int *ints = flags ? cni_alloc((2 * v + most) * sizeof *ints) : NULL;
  cutting c = {p, g, {NULL, 0, 0}, flags, flags + v, flags + 2 * v, flags + 2 * v + n, ints, ints + v};
  int status = ints ? cni_types_fill(&c.types, g) : CN_ERR_MEMORY;
  if (!status) status = cut(&c, ints + 2 * v);
  cni_types_free(&c.types);
  cni_free(flags, 2 * v + 2 * n);
  cni_free(ints, (2 * v + most) * sizeof *ints);
  return status;
}

int cni_executable_split(cni_executable *p, const cn_graph *whole)
{
  cni_halves h = {.ninputs = p->ninputs, .noutputs = p->noutputs};
  int status = cni_cut_in_halves(&h, whole);
  p->forward = h.forward;
  p->backward = h.backward;
  p->kept = h.kept;
  p->nkept = h.nkept;
  p->states = h.states;
  return status;
}

void cni_halves_free(cni_halves *p)
{
  size_t nstates = 0;
  for (size_t i = 0; p->kept && i < p->nkept; i++) nstates += p->kept[i].from == CNI_KEPT_STATE;
  for (size_t i = 0; p->states && i < nstates; i++) cni_tensor_release(p->states[i]);
  cni_free(p->states, nstates * sizeof *p->states);
  cni_free(p->kept, p->nkept * sizeof *p->kept);
  cn_graph_free(p->forward);
  cn_graph_free(p->backward);
}
