/* pools.c: a max pool whose places nobody reads does not find them.
 *
 * Place in the flow: fuse.c, on devices that have kernels for max_pool2d_values; gradients and the other passes see
 * max_pool2d_with_indices. Invariant: results are the same, to the bit. */
#include "fuse.h"
#include "graph/passes/passes.h"
#include "ops/api.gen.h"

static bool is_small_float(int dtype) { return dtype == CN_F32 || dtype == CN_F16 || dtype == CN_BF16; }

/* 1: the pool became one without places; 0: it stays. */
static int drop_places(cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node];
  int values = n->out[0], made;
  size_t room = 1;
  if (n->syms.n || !is_small_float(g->values[values].dtype) || cn_graph_users(NULL, g, n->out[1]) > 0 || cn_err())
    return cn_err();
  if (!cni_has_kernels(cni_ops[CNI_OP_max_pool2d_values], g->values[values].device)) return 0;
  int status = cn_graph_at(g, node, n->scope);
  if (!status)
    status = cn_graph_add_node(&made, &room, g, cni_ops[CNI_OP_max_pool2d_values]->row, n->args, (size_t)n->nargs,
                               n->in, (size_t)n->nin);
  cn_graph_at(g, -1, -1);
  if (status >= 0) status = cn_graph_replace(g, values, made);
  return status < 0 ? status : 1;
}

int cni_pools_trim(cn_graph *g)
{
  int count = 0;
  for (size_t i = 0; i < g->nnodes; i++) {
    if (g->nodes[i].info->id != CNI_OP_max_pool2d_with_indices) continue;
    int status = drop_places(g, (int)i);
    if (status < 0) return status;
    count += status;
    i += (size_t)status; /* the new node stands before it */
  }
  int status = count ? cni_pass_dead(g) : 0;
  return status < 0 ? status : count;
}
