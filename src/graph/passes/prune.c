/* prune.c: drops what branches and loops make for nobody: rows that are kept for a backward pass that never comes, say.
 *
 * Place in the flow: the first step of the pass dead. What a loop carries stays, since the next step reads it.
 * Invariant: a node keeps at least one result; sub-graphs give what is left, in the same order. */
#include <string.h>

#include "base/alloc.h"
#include "graph/control.h"
#include "graph/passes/passes.h"

/* May result k go: a branch's, or one with rows? */
static bool may_go(cn_graph *g, const cni_gnode *n, int k)
{
  cni_control c;
  cni_control_read(&c, n, n->args);
  bool count = c.kind == CNI_CONTROL_WHILE && k >= (int)n->subs[1]->noutputs;
  return k >= c.ncarried && !count && n->nout > 1 && cn_graph_users(NULL, g, n->out[k]) == 0;
}

/* Result k goes: of the node, and of its sub-graphs, of a while its body. Its value stands for nothing. */
static int drop_result(cn_graph *g, cni_gnode *n, int k)
{
  int *out = cni_alloc((size_t)(n->nout - 1) * sizeof *out);
  if (!out) return CN_ERR_MEMORY;
  bool both = cni_control_of(n->info) == CNI_CONTROL_COND;
  for (int i = both ? 0 : n->nsubs - 1; i < n->nsubs; i++) {
    cn_graph *sub = n->subs[i];
    memmove(sub->outputs + k, sub->outputs + k + 1, (sub->noutputs - (size_t)k - 1) * sizeof *sub->outputs);
    sub->noutputs--;
    cni_graph_changed(sub);
  }
  g->values[n->out[k]] = (cni_gvalue){.kind = CNI_VALUE_SCALAR, .dtype = CN_F64};
  for (int i = 0; i < n->nout; i++) {
    if (i == k) continue;
    out[i - (i > k)] = n->out[i];
    g->values[n->out[i]].index = i - (i > k);
  }
  cni_free(n->out, (size_t)n->nout * sizeof *n->out);
  n->out = out;
  n->nout--;
  return CN_OK;
}

int cni_prune(cn_graph *g)
{
  int count = 0;
  for (size_t i = g->nnodes; i-- > 0;) {
    cni_gnode *n = &g->nodes[i];
    int before = count;
    for (int k = n->nsubs ? n->nout - 1 : -1; k >= 0; k--) {
      if (!may_go(g, n, k)) continue;
      if (drop_result(g, n, k)) return CN_ERR_MEMORY;
      count++;
    }
    for (int k = 0; k < n->nsubs && count > before; k++) {
      int dropped = cni_pass_dead(n->subs[k]);
      if (dropped < 0) return dropped;
    }
  }
  return count;
}
