/* sums.c: a small product that is only added to something, or taken off it, becomes one node, addmm, whose kernel does
 * both before it stores a result: the update of a weight by its gradient, a residual.
 *
 * Place in the flow: fuse.c, on devices that have kernels for addmm, before pointwise nodes are grouped. Small products
 * alone: theirs are sums of one chain, and their kernels cannot fail, so that states may be written where they are
 * (order.c). Of larger ones the sum is a small part. Invariant: in float32 and float64, the only types taken, results
 * are those of the single nodes, to the bit: the product is scaled and rounded before it is added. */
#include "fuse.h"
#include "graph/passes/passes.h"
#include "ops/api.gen.h"
#include "ops/infer.h"
#include "ops/product.h"
#include "tensor/tensor.h"

static const cn_desc *desc_of(const cn_graph *g, int v) { return &g->types.v[v].handle->d; }

/* The small product that v is, and that nobody but one node reads; NULL: it is none. */
static const cni_gnode *product_of(cn_graph *g, int v)
{
  if (v < 0 || g->values[v].kind != CNI_VALUE_RESULT || g->types.v[v].varies) return NULL;
  const cni_gnode *n = &g->nodes[g->values[v].node];
  if (n->info->id != CNI_OP_mm || n->syms.n || cn_graph_users(NULL, g, v) != 1) return NULL;
  const cn_desc *a = desc_of(g, n->in[0]), *y = desc_of(g, v);
  bool floats = y->dtype == CN_F32 || y->dtype == CN_F64;
  return floats && y->numel && cni_is_small_product(y->shape[0], a->shape[1], y->shape[1]) ? n : NULL;
}

/* x + alpha * mm(a, b), for a node that adds x and the product: one node in its place. 1, 0, or a negative status. */
static int join(cn_graph *g, int node, int x, const cni_gnode *mm, double alpha)
{
  const int old = g->nodes[node].out[0], in[] = {x, mm->in[0], mm->in[1]};
  const cn_desc *y = desc_of(g, old);
  if (g->values[x].weak || g->types.v[x].varies || !cni_same_layout(desc_of(g, x), y) ||
      !cni_is_contiguous(y->ndim, y->shape, y->strides) || desc_of(g, x)->dtype != y->dtype ||
      !cni_has_kernels(cni_ops[CNI_OP_addmm], y->device))
    return 0;
  cn_value tensor = cn_v_tensors(NULL, 0);
  const cn_value args[] = {tensor, tensor, tensor, cn_v_float(1), cn_v_float(alpha)};
  int made;
  size_t room = 1;
  int status = cn_graph_at(g, node, g->nodes[node].scope);
  if (!status) status = cn_graph_add_node(&made, &room, g, cni_ops[CNI_OP_addmm]->row, args, 5, in, 3);
  cn_graph_at(g, -1, -1);
  if (status >= 0) status = cn_graph_replace(g, old, made);
  return status < 0 ? status : 1;
}

/* add(x, y, alpha), sub(x, y, alpha): x + alpha * y, x - alpha * y. */
static int join_at(cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node];
  const bool adds = n->info->id == CNI_OP_add;
  if ((!adds && n->info->id != CNI_OP_sub) || n->syms.n || g->types.v[n->out[0]].varies) return 0;
  const double alpha = cni_arg_float(n->args, 2);
  const cni_gnode *second = product_of(g, n->in[1]), *first = second ? NULL : product_of(g, n->in[0]);
  if (second) return join(g, node, n->in[0], second, adds ? alpha : -alpha);
  return first && adds && alpha == 1 ? join(g, node, n->in[1], first, 1) : 0;
}

int cni_sums_join(cn_graph *g)
{
  int count = 0, status = cni_types_fill(&g->types, g);
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    if (g->nodes[i].nsubs || g->nodes[i].nout != 1) continue;
    size_t before = g->nnodes;
    int done = join_at(g, (int)i);
    if (done < 0) status = done;
    else count += done;
    i += g->nnodes - before; /* this node, which stands behind the new one now */
    if (!status && g->nnodes > before) status = cni_types_fill(&g->types, g);
  }
  if (!status && count) status = cni_pass_dead(g) < 0 ? cn_err() : CN_OK;
  return status ? status : count;
}
