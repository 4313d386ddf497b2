/* widen.c: on devices updates of optimisers read gradients of 16 bits as they are, instead of a float32 copy of them.
 *
 * Place in the flow: one of optimise.c's passes; under autocast a weight's gradient comes as bfloat16, is cast, and
 * read once. Invariant: a number of 16 bits is the same number in float32, and what an update computes in follows from
 * what it writes alone, so that results stay the same to the bit. */
#include "ops/api.gen.h"
#include "passes.h"

bool cni_is_update(const cni_gnode *n)
{
  const uint32_t flags = CN_OP_NO_GRAD | CN_OP_ALIAS_SAFE;
  return n->info && n->info->row->pointwise && (n->info->row->flags & flags) == flags && n->nout < n->nin;
}

/* The value of 16 bits that v is the float32 copy of; -1: it is none. */
static int narrow_of(const cn_graph *g, int v)
{
  if (v < 0 || g->values[v].kind != CNI_VALUE_RESULT || g->values[v].dtype != CN_F32) return -1;
  const cni_gnode *n = &g->nodes[g->values[v].node];
  if (!n->info || n->info->id != CNI_OP_cast) return -1;
  int dtype = g->values[n->in[0]].dtype;
  return dtype == CN_F16 || dtype == CN_BF16 ? n->in[0] : -1;
}

int cni_pass_widen(cn_graph *g)
{
  int changed = 0;
  for (size_t i = 0; i < g->nnodes; i++) {
    cni_gnode *n = &g->nodes[i];
    if (!cni_is_update(n) || g->values[n->out[0]].device == CN_CPU) continue;
    for (int k = n->nout; k < n->nin; k++) {
      int narrow = narrow_of(g, n->in[k]);
      if (narrow < 0) continue;
      n->in[k] = narrow;
      changed++;
    }
  }
  if (changed) cni_graph_changed(g);
  return changed;
}
