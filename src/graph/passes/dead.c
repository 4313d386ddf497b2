/* dead.c: drops nodes that nothing reads, and values that nothing makes or reads.
 *
 * Place in the flow: the end of a trace, and after passes that left some. Invariant: nodes with effects stay; inputs
 * and states stay; what is left keeps its order and gets the numbers from 0 on. */
#include "passes.h"

#include "base/alloc.h"
#include "graph/control.h"
#include "tensor/tensor.h"

/* Is it the first value that has a size which depends on data? Expressions may name it. */
static bool defines_size(const cn_graph *g, int value)
{
  const cni_gvalue *v = &g->values[value];
  if (v->count) return true;
  for (int i = 0; v->dims[0] && i < value; i++)
    if (g->values[i].kind == CNI_VALUE_RESULT && g->values[i].dims[0] == v->dims[0]) return false;
  return v->dims[0] != 0;
}

static void mark_live(const cn_graph *g, bool *live)
{
  for (size_t i = g->nnodes; i-- > 0;) {
    const cni_gnode *n = &g->nodes[i];
    bool wanted = false;
    for (int k = 0; k < n->nout; k++) wanted |= live[n->out[k]] || defines_size(g, n->out[k]);
    if (!wanted && !(cni_node_flags(n) & (CN_OP_CHECKS | CN_OP_EFFECTS))) continue; /* a check may fail: it stays */
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] >= 0) live[n->in[k]] = true;
    for (int k = 0; k < n->nout; k++) live[n->out[k]] = true;
  }
}

/* Numbers in the call of a scope say what the call was, even where nothing computes with them. */
static void keep_numbers(const cn_graph *g, bool *live)
{
  for (size_t i = 0; i < g->nscopes; i++)
    for (int k = 0; k < g->scopes[i].nin; k++) {
      int v = g->scopes[i].in[k];
      if (v >= 0 && g->values[v].kind == CNI_VALUE_SCALAR) live[v] = true;
    }
}

static void drop_nodes(cn_graph *g, const bool *live)
{
  size_t n = 0;
  for (size_t i = 0; i < g->nnodes; i++) {
    cni_gnode *node = &g->nodes[i];
    if (!live[node->out[0]]) {
      cni_gnode_free(node);
      continue;
    }
    for (int k = 0; k < node->nout; k++) g->values[node->out[k]].node = (int)n;
    g->nodes[n++] = *node;
  }
  g->nnodes = n;
}

static void renumber(int *values, int n, const int *to)
{
  for (int k = 0; k < n; k++)
    if (values[k] >= 0) values[k] = to[values[k]];
}

/* Drops values that nothing makes or reads; to[i]: the new number of value i. Inputs and states stay. */
static void drop_values(cn_graph *g, const bool *live, int *to)
{
  size_t n = 0;
  for (size_t i = 0; i < g->nvalues; i++) {
    bool stays = live[i] || g->values[i].kind == CNI_VALUE_INPUT || g->values[i].kind == CNI_VALUE_STATE;
    to[i] = stays ? (int)n : -1;
    if (stays) g->values[n++] = g->values[i];
    else cni_tensor_release(g->values[i].tensor);
  }
  g->nvalues = n;
  for (size_t i = 0; i < g->nnodes; i++) {
    renumber(g->nodes[i].in, g->nodes[i].nin, to);
    renumber(g->nodes[i].out, g->nodes[i].nout, to);
  }
  renumber(g->inputs, (int)g->ninputs, to);
  renumber(g->input_finals, (int)g->ninputs, to);
  for (size_t i = 0; i < g->noutputs; i++) g->outputs[i] = to[g->outputs[i]];
  for (size_t i = 0; i < g->nstates; i++) {
    g->states[i].value = to[g->states[i].value];
    if (g->states[i].final >= 0) g->states[i].final = to[g->states[i].final];
  }
  for (size_t i = 0; i < g->nleaves; i++)
    if (g->leaves[i].value >= 0) g->leaves[i].value = to[g->leaves[i].value];
  for (size_t i = 0; i < g->nscopes; i++) {
    renumber(g->scopes[i].in, g->scopes[i].nin, to);
    renumber(g->scopes[i].out, g->scopes[i].nout, to);
  }
}

int cni_pass_dead(cn_graph *g)
{
  int pruned = cni_prune(g);
  if (pruned < 0) return pruned;
  size_t nnodes = g->nnodes, nvalues = g->nvalues;
  bool *live = cni_alloc_zero(nvalues + 1);
  int *values = live ? cni_alloc((nvalues + 1) * sizeof *values) : NULL;
  if (values) {
    for (size_t i = 0; i < g->noutputs; i++) live[g->outputs[i]] = true;
    for (size_t i = 0; i < g->nstates; i++)
      if (g->states[i].final >= 0) live[g->states[i].final] = true;
    for (size_t i = 0; i < g->nleaves; i++)
      if (g->leaves[i].value >= 0) live[g->leaves[i].value] = true;
    for (size_t i = 0; i < g->ninputs; i++)
      if (g->input_finals[i] >= 0) live[g->input_finals[i]] = true;
    mark_live(g, live);
    keep_numbers(g, live);
    drop_nodes(g, live);
    drop_values(g, live, values);
    cni_graph_changed(g);
    cni_types_free(&g->types); /* by the old numbers */
    g->before = -1;
  }
  bool done = values != NULL;
  cni_free(live, nvalues + 1);
  cni_free(values, (nvalues + 1) * sizeof *values);
  return done ? (int)(nnodes - g->nnodes) + pruned : CN_ERR_MEMORY;
}

int cn_graph_remove_dead(cn_graph *g)
{
  return g ? cni_pass_dead(g) : cni_fail(CN_ERR_TYPE, "graph: NULL");
}
