/* norms.c: a batch norm, the addition and the relu behind it become one node, and so do the gradients of relu and norm,
 * where the device has kernels for that.
 *
 * Place in the flow: cn_graph_fuse, before pointwise nodes are grouped. In training the statistics become a node of
 * their own, since they are needed before the first element is written. Invariant: in float32 and float64 results are
 * those of the single nodes, to the bit (the device's kernels see to that); 16-bit floats are rounded once instead of
 * up to three times, and are left alone where results are to be exact. */
#include "fuse.h"
#include "graph/passes/passes.h"
#include "ops/api.gen.h"
#include "tensor/tensor.h"

static const cni_gnode *maker(const cn_graph *g, int value, int op)
{
  if (value < 0 || g->values[value].kind != CNI_VALUE_RESULT) return NULL;
  const cni_gnode *n = &g->nodes[g->values[value].node];
  return n->info->id == op ? n : NULL;
}

/* The node that alone reads a value, which nobody outside gets; -1: there is none. */
static int only_reader(cn_graph *g, int value)
{
  const cn_graph_use *use;
  return cn_graph_users(&use, g, value) == 1 && use->kind == CN_USE_NODE ? use->index : -1;
}

static bool unread(cn_graph *g, const cni_gnode *n, int first)
{
  for (int k = first; k < n->nout; k++)
    if (cn_graph_users(NULL, g, n->out[k])) return false;
  return true;
}

/* May this node, whose elements are of the type of `value`, become one of `op`? */
static bool fits(const cn_graph *g, int value, int op, bool exact)
{
  const cni_gvalue *v = &g->values[value];
  if (exact && (v->dtype == CN_F16 || v->dtype == CN_BF16)) return false;
  return cni_has_kernels(cni_ops[op], v->device) && !g->types.v[value].varies && g->types.v[value].handle->d.numel;
}

/* A new node in front of `before`: its index, or a negative status. in: -1 where absent. */
static int add_before(cn_graph *g, int before, int op, const cn_value *args, int nargs, const int *in, int nin,
                      int *out)
{
  size_t room = CNI_MAX_RESULTS;
  int status = cn_graph_at(g, before, g->nodes[before].scope);
  if (!status)
    status = cn_graph_add_node(out, &room, g, cni_ops[op]->row, args, (size_t)nargs, in, (size_t)nin);
  cn_graph_at(g, -1, -1);
  return status;
}

/* ---- forward ---- */

/* What is computed of a norm's result y, up to the value `end`. */
typedef struct chain {
  int end, residual; /* residual: -1: nothing is added */
  bool relu;
} chain;

static bool is_plain_sum(const cn_value *alpha)
{
  return alpha->tag == CN_V_FLOAT ? alpha->u.f == 1 : alpha->u.i == 1;
}

static chain chain_behind(cn_graph *g, int y)
{
  chain c = {y, -1, false};
  int node = only_reader(g, y);
  const cni_gnode *n = node < 0 ? NULL : &g->nodes[node];
  if (n && n->info->id == CNI_OP_add && is_plain_sum(&n->args[2])) {
    int other = n->in[n->in[0] == y];
    if (!cni_same_type(&g->types, y, other) || !cni_same_type(&g->types, y, n->out[0])) return c;
    c = (chain){n->out[0], other, false};
    node = only_reader(g, c.end);
    n = node < 0 ? NULL : &g->nodes[node];
  }
  if (n && n->info->id == CNI_OP_relu) c.end = n->out[0], c.relu = true;
  return c;
}

/* The statistics of the norm in training: mean and 1 / deviation replace its own. 0 or a negative status. */
static int split_statistics(cn_graph *g, int node, int *stats)
{
  const cni_gnode *n = &g->nodes[node];
  int own[] = {n->out[1], n->out[2], n->out[3]};
  cn_value args[] = {cn_v_none(), n->args[6]};
  int status = add_before(g, node, CNI_OP_batch_norm_stats, args, 2, n->in, 1, stats);
  for (int k = 0; k < 3 && status >= 0; k++)
    if (cn_graph_users(NULL, g, own[k]) > 0) status = cn_graph_replace(g, own[k], stats[k]);
  return status < 0 ? status : CN_OK;
}

/* native_batch_norm(input, weight, bias, running_mean, running_var, training, eps). 1: it was joined with what stands
 * behind it; 0: not. */
static int join_forward(cn_graph *g, int node, bool exact)
{
  const cni_gnode *n = &g->nodes[node];
  bool training = n->args[5].u.i != 0;
  int y = n->out[0], stats[3], made, in[6] = {n->in[0], n->in[1], n->in[2], n->in[3], n->in[4], -1};
  cn_value eps = n->args[6];
  chain c = chain_behind(g, y);
  if (c.end == y || !fits(g, y, CNI_OP_batch_norm_apply, exact) || (!training && !unread(g, n, 1))) return 0;
  int status = training ? split_statistics(g, node, stats) : CN_OK;
  if (status) return status;
  if (training) in[3] = stats[0], in[4] = stats[1];
  in[5] = c.residual;
  cn_value args[] = {cn_v_none(), cn_v_none(), cn_v_none(), cn_v_none(), cn_v_none(), cn_v_none(), eps,
                     cn_v_bool(training), cn_v_bool(c.relu)};
  status = add_before(g, g->values[c.end].node, CNI_OP_batch_norm_apply, args, 9, in, 6, &made);
  if (status < 0) return status;
  if (!cni_same_type(&g->types, c.end, made)) return 0;
  status = cn_graph_replace(g, c.end, made);
  return status < 0 ? status : 1;
}

/* ---- backward ---- */

/* The gradient of a relu by its result: {result, gradient behind it}; false: the node is another one. */
static bool is_gate(const cni_gnode *n, int *result, int *gradient)
{
  const cni_program *p = n ? cni_program_of_value(&n->args[1]) : NULL;
  if (!p || p->typed || p->nstep != 1 || p->nin != 2 || p->nconst || p->steps->prim != CNI_PW_relu_gate) return false;
  *result = n->in[p->steps->arg[0]];
  *gradient = n->in[p->steps->arg[1]];
  return true;
}

/* native_batch_norm_backward(grad_out, input, weight, save_mean, save_invstd, training, output_mask): was its gradient
 * let through by the relu of this very norm, and does nobody else want it? */
static int join_backward(cn_graph *g, int node, bool exact)
{
  const cni_gnode *n = &g->nodes[node];
  int result, gradient, made[CNI_MAX_RESULTS], own[3], nout = n->nout;
  if (!fits(g, n->in[1], CNI_OP_batch_norm_relu_backward, exact) || only_reader(g, n->in[0]) != node) return 0;
  if (!is_gate(maker(g, n->in[0], CNI_OP_pointwise), &result, &gradient)) return 0;
  const cni_gnode *f = maker(g, result, CNI_OP_batch_norm_apply);
  if (!f || f->in[5] >= 0 || !f->args[7].u.i || !f->args[8].u.i || f->in[0] != n->in[1] || f->in[1] != n->in[2] ||
      f->in[3] != n->in[3] || f->in[4] != n->in[4] || !cni_same_type(&g->types, gradient, n->in[0]))
    return 0;
  int in[] = {gradient, n->in[1], n->in[2], f->in[2], n->in[3], n->in[4]};
  cn_value args[8] = {{0}};
  args[6] = n->args[5], args[7] = n->args[6];
  for (int k = 0; k < nout; k++) own[k] = n->out[k];
  int status = add_before(g, node, CNI_OP_batch_norm_relu_backward, args, 8, in, 6, made);
  for (int k = 0; k < nout && status >= 0; k++)
    if (cn_graph_users(NULL, g, own[k]) > 0) status = cn_graph_replace(g, own[k], made[k]);
  return status < 0 ? status : 1;
}

int cni_norms_join(cn_graph *g, bool exact)
{
  int count = 0, status = CN_OK;
  for (int pass = 0; pass < 2; pass++) /* backward asks what became of forward */
    for (size_t i = 0; i < g->nnodes; i++) {
      int op = pass ? CNI_OP_native_batch_norm_backward : CNI_OP_native_batch_norm;
      if (g->nodes[i].info->id != op) continue;
      size_t before = g->nnodes;
      if ((status = cni_types_fill(&g->types, g)) != 0) return status;
      status = pass ? join_backward(g, (int)i, exact) : join_forward(g, (int)i, exact);
      if (status < 0) return status;
      count += status;
      while (g->nnodes > before && g->nodes[i].info->id != op) i++; /* nodes were put before it */
    }
  if (count && (status = cni_pass_dead(g)) < 0) return status;
  return count;
}
