/* join.c: cn_graph_join: what stands behind products and convolutions becomes a part of them; what follows from weights
 * alone is computed when they change; kernels are told that they may round otherwise.
 *
 * Place in the flow: compiled functions whose results may round otherwise, and whoever runs a graph of his own, between
 * cn_graph_optimise_fast and cn_graph_fuse. Here are the parts that its passes share (join.h). */
#include "join.h"

#include "graph/passes/passes.h"
#include "ops/api.gen.h"
#include "tensor/tensor.h"

const cni_gnode *cni_maker(const cn_graph *g, int value, int op)
{
  if (value < 0 || g->values[value].kind != CNI_VALUE_RESULT) return NULL;
  const cni_gnode *n = &g->nodes[g->values[value].node];
  return n->info->id == op ? n : NULL;
}

int cni_only_reader(cn_graph *g, int value)
{
  const cn_graph_use *use;
  return cn_graph_users(&use, g, value) == 1 && use->kind == CN_USE_NODE ? use->index : -1;
}

bool cni_unread(cn_graph *g, const cni_gnode *n, int first)
{
  for (int k = first; k < n->nout; k++)
    if (cn_graph_users(NULL, g, n->out[k])) return false;
  return true;
}

bool cni_is_steady(const cn_graph *g, int value, int depth)
{
  if (value < 0) return true;
  const cni_gvalue *v = &g->values[value];
  if (v->kind == CNI_VALUE_STATE) return g->states[v->index].final < 0;
  if (v->kind != CNI_VALUE_RESULT) return v->kind == CNI_VALUE_CONST || (v->kind == CNI_VALUE_SCALAR && !v->expr);
  const cni_gnode *n = &g->nodes[v->node];
  bool steady = depth > 0 && n->draw < 0 && !n->nsubs && !n->host && n->nin < 4 && !n->syms.n;
  for (int k = 0; steady && k < n->nin; k++) steady = cni_is_steady(g, n->in[k], depth - 1);
  return steady;
}

int cni_write(cni_node_writer *w, int op, const cn_value *args, int nargs, const int *in, int nin)
{
  int out[CNI_MAX_RESULTS];
  size_t room = CNI_MAX_RESULTS;
  cn_graph *g = w->g;
  if (w->status < 0) return -1;
  w->status = cn_graph_at(g, w->before, g->nodes[w->before].scope);
  if (!w->status)
    w->status = cn_graph_add_node(out, &room, g, cni_ops[op]->row, args, (size_t)nargs, in, (size_t)nin);
  cn_graph_at(g, -1, -1);
  w->before += w->status >= 0;
  return w->status < 0 ? -1 : out[0];
}

int cni_write_step(cni_node_writer *w, int op, int a, int b, cn_value attribute)
{
  const int in[] = {a, b}, n = b < 0 ? 1 : 2;
  const cn_value args[] = {cn_v_none(), b < 0 ? attribute : cn_v_none(), attribute};
  return cni_write(w, op, args, n + (attribute.tag != CN_V_NONE), in, n);
}

int cni_write_cast(cni_node_writer *w, int value, int dtype)
{
  if (w->status < 0 || w->g->values[value].dtype == dtype) return value;
  return cni_write_step(w, CNI_OP_cast, value, -1, cn_v_int(dtype));
}

static void let_round(cn_graph *g)
{
  g->fast = true;
  for (size_t i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nsubs; k++) let_round(g->nodes[i].subs[k]);
}

int cn_graph_join(cn_graph *g)
{
  if (cn_err()) return cn_err();
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_join: the graph is NULL");
  let_round(g);
  int norms = cni_batch_norms_fold(g), weights = norms < 0 ? norms : cni_weights_apart(g);
  return weights < 0 ? weights : norms + weights;
}
