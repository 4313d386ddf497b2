/* steady.c: nodes on a device that follow from weights alone (a cast, a batch norm folded into a convolution) run when
 * those have changed, not in every run.
 *
 * Place in the flow: plan.c marks them and keeps places for what they make, run.c and recorded.c leave them out of runs
 * that find all weights as they were. In host memory kernels keep what they make of weights (ops/prepared.c).
 * Invariant: what others read of such a node was made of the very elements that its states have now: the same memory
 * (context.c), not written to since, and of which nobody outside has the address. */
#include "control.h"
#include "run.h"

static bool is_weight(const cn_graph *g, const cni_gvalue *v)
{
  return v->kind == CNI_VALUE_STATE && v->device != CN_CPU && g->states[v->index].final < 0;
}

/* Is what it reads made of weights and numbers, and at least one weight among it? */
static bool reads_weights(const cni_plan *p, const cn_graph *g, const cni_gnode *n)
{
  bool any = false;
  for (int k = 0; k < n->nin; k++) {
    const cni_gvalue *v = n->in[k] < 0 ? NULL : &g->values[n->in[k]];
    if (!v || v->kind == CNI_VALUE_SCALAR || v->kind == CNI_VALUE_CONST) continue;
    if (!(v->kind == CNI_VALUE_RESULT ? p->steady[v->node] : is_weight(g, v))) return false;
    any = true;
  }
  return any;
}

static bool is_plain(const cni_plan *p, const cn_graph *g, const cni_gnode *n)
{
  bool plain = !n->nsubs && !n->host && n->draw < 0 && !(cni_node_flags(n) & (CN_OP_CHECKS | CN_OP_EFFECTS));
  for (int k = 0; plain && k < n->nout; k++) {
    const cni_planned *q = &p->values[n->out[k]];
    plain = !q->is_output && !q->is_final && g->values[n->out[k]].device != CN_CPU;
  }
  return plain;
}

int cni_plan_steady(cni_plan *p, const cn_graph *g)
{
  size_t count = 0;
  if (p->executable || !g->nstates) return CN_OK;
  if (!(p->steady = cni_alloc_zero(p->nnodes + 1))) return CN_ERR_MEMORY;
  for (size_t i = 0; i < g->nnodes; i++) { /* makers stand before readers */
    const cni_gnode *n = &g->nodes[i];
    p->steady[i] = is_plain(p, g, n) && reads_weights(p, g, n);
    count += p->steady[i] && p->specs[p->first_spec[i]].view_of < 0;
  }
  if (count) return CN_OK;
  cni_free(p->steady, p->nnodes + 1);
  p->steady = NULL;
  return CN_OK;
}

bool cni_stays(const cni_plan *p, const cn_graph *g, int value, int node)
{
  if (!p->steady || p->steady[node] || value < 0) return false;
  return g->values[value].kind == CNI_VALUE_RESULT && p->steady[g->values[value].node];
}

void cni_steady_lifetimes(cni_plan *p, const cn_graph *g)
{
  for (size_t i = 0; p->steady && i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    for (int k = 0; k < n->nin; k++) {
      if (!cni_stays(p, g, n->in[k], (int)i)) continue;
      cni_planned *root = &p->values[p->values[n->in[k]].root];
      root->first = 0;
      root->last = (int)g->nnodes;
    }
  }
}

uint64_t cni_steady_stamp(const cni_plan *p, const cn_graph *g)
{
  uint64_t stamp = 1;
  for (size_t i = 0; p->steady && i < g->nstates; i++) {
    if (!is_weight(g, &g->values[g->states[i].value])) continue;
    const cni_storage *s = g->states[i].tensor->storage;
    if (atomic_load_explicit(&s->shown, memory_order_relaxed)) return 0;
    stamp += cni_storage_writes(s);
  }
  return stamp;
}
