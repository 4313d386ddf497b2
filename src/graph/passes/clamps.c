/* clamps.c: a convolution takes the relu or the clamp behind it along, and limits its results as it stores them
 * (conv2d_clamped).
 *
 * Place in the flow: fuse.c, on devices that have kernels for the op, before pointwise nodes are grouped; what a group
 * would take is left to it. float32 alone. Invariant: results are the same, to the bit. */
#include <math.h>

#include "fuse.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"
#include "join.h"
#include "ops/api.gen.h"
#include "ops/window.h"
#include "tensor/tensor.h"

/* The limits that a node brings its first operand into; false: it is no such node. */
static bool limits_of(const cn_graph *g, const cni_gnode *n, double *low, double *high)
{
  *low = 0;
  *high = INFINITY;
  switch (n->info->id) {
  case CNI_OP_relu: return true;
  case CNI_OP_hardtanh:
    *low = cni_arg_float(n->args, 1);
    *high = cni_arg_float(n->args, 2);
    break;
  case CNI_OP_clamp_both:
    if (!cni_value_number(low, g, n->in[1]) || !cni_value_number(high, g, n->in[2])) return false;
    break;
  default: return false;
  }
  return *low == *low && *high == *high && !cni_conv_is_relu(*low, *high);
}

/* Would a node that reads it stand in a group with it? */
static bool is_grouped(cn_graph *g, int value)
{
  const cn_graph_use *use;
  int users = cn_graph_users(&use, g, value), steps;
  for (int u = 0; u < users; u++)
    if (use[u].kind == CN_USE_NODE && cni_fuse_part(g, &g->nodes[use[u].index], &steps) != CNI_PART_NONE) return true;
  return false;
}

/* 1: done; 0: it stays. */
static int join(cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node];
  const int y = n->out[0], at = cni_only_reader(g, y);
  int made;
  size_t room = 1;
  double low, high;
  if (at < 0 || n->syms.n || g->values[y].dtype != CN_F32 || g->types.v[y].varies) return 0;
  if (!cni_has_kernels(cni_ops[CNI_OP_conv2d_clamped], g->values[y].device)) return 0;
  const cni_gnode *reader = &g->nodes[at];
  const int end = reader->out[0];
  if (reader->in[0] != y || !limits_of(g, reader, &low, &high) || is_grouped(g, end)) return 0;
  cn_value args[9] = {{0}};
  for (int k = 3; k < 7; k++) args[k] = n->args[k];
  args[7] = cn_v_float(low);
  args[8] = cn_v_float(high);
  const int in[] = {n->in[0], n->in[1], n->in[2]};
  int status = cn_graph_at(g, at, reader->scope);
  if (!status) status = cn_graph_add_node(&made, &room, g, cni_ops[CNI_OP_conv2d_clamped]->row, args, 9, in, 3);
  cn_graph_at(g, -1, -1);
  if (status >= 0) status = cni_types_fill(&g->types, g);
  if (status < 0 || !cni_same_type(&g->types, end, made)) return status < 0 ? status : 0;
  status = cn_graph_replace(g, end, made);
  return status < 0 ? status : 1;
}

int cni_clamps_join(cn_graph *g)
{
  int count = 0;
  int status = cni_types_fill(&g->types, g);
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    if (g->nodes[i].info->id != CNI_OP_conv2d) continue;
    const int y = g->nodes[i].out[0], done = join(g, (int)i);
    if (done < 0) return done;
    count += done;
    i = (size_t)g->values[y].node; /* nodes may have been put before it */
  }
  if (!status && count) status = cni_pass_dead(g);
  return status < 0 ? status : count;
}
