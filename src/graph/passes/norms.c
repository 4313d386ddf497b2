/* norms.c: a batch norm, the addition and the relu behind it become one node, and so do the gradients of relu and norm,
 * with the addition of two gradients in front, where the device has kernels for that. A convolution in front of a norm
 * by running statistics takes it in, with what is behind.
 *
 * Place in the flow: cn_graph_fuse, before pointwise nodes are grouped. In training the statistics become a node of
 * their own, since they are needed before the first element is written. What a convolution takes in becomes part of its
 * weight and bias, by nodes that read states alone: a plan runs them when those have changed (steady.c). Invariant: in
 * float32 and float64 results are those of the single nodes, to the bit (the device's kernels see to that); 16-bit
 * floats are rounded at other places, and are left alone where results are to be exact. */
#include "fuse.h"
#include "graph/passes/passes.h"
#include "join.h"
#include "ops/api.gen.h"
#include "tensor/tensor.h"

static bool is_half(const cn_graph *g, int value)
{
  return g->values[value].dtype == CN_F16 || g->values[value].dtype == CN_BF16;
}

/* May this node, whose elements are of the type of `value`, become one of `op`? */
static bool fits(const cn_graph *g, int value, int op, bool exact)
{
  const cni_gvalue *v = &g->values[value];
  if (exact && is_half(g, value)) return false;
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
  int node = cni_only_reader(g, y);
  const cni_gnode *n = node < 0 ? NULL : &g->nodes[node];
  if (n && n->info->id == CNI_OP_add && is_plain_sum(&n->args[2])) {
    int other = n->in[n->in[0] == y];
    if (!cni_same_type(&g->types, y, other) || !cni_same_type(&g->types, y, n->out[0])) return c;
    c = (chain){n->out[0], other, false};
    node = cni_only_reader(g, c.end);
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
  if (c.end == y || !fits(g, y, CNI_OP_batch_norm_apply, exact) || (!training && !cni_unread(g, n, 1))) return 0;
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
  if (!fits(g, n->in[1], CNI_OP_batch_norm_relu_backward, exact) || cni_only_reader(g, n->in[0]) != node) return 0;
  if (!is_gate(cni_maker(g, n->in[0], CNI_OP_pointwise), &result, &gradient)) return 0;
  const cni_gnode *f = cni_maker(g, result, CNI_OP_batch_norm_apply);
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

/* Does a value stand before node `at`? */
static bool is_before(const cn_graph *g, int value, int at)
{
  return value < 0 || g->values[value].kind != CNI_VALUE_RESULT || g->values[value].node < at;
}

/* native_batch_norm_backward of what a relu lets through of the sum of two gradients: that sum, which others may want,
 * is made on the way. The node stands where the gate stood, since they may stand behind that. */
static int join_sum(cn_graph *g, int node, bool exact)
{
  const cni_gnode *n = &g->nodes[node], *gate = cni_maker(g, n->in[0], CNI_OP_pointwise);
  int result, gradient, gated = n->in[0], made[CNI_MAX_RESULTS], own[3];
  (void)exact; /* each number is rounded where it was */
  if (!is_gate(gate, &result, &gradient) || !fits(g, n->in[1], CNI_OP_batch_norm_add_relu_backward, false)) return 0;
  int at = g->values[gated].node;
  const cni_gnode *sum = cni_maker(g, gradient, CNI_OP_add);
  if (!sum || sum->nin != 2 || !is_plain_sum(&sum->args[2]) || cni_only_reader(g, gradient) != at) return 0;
  int in[] = {sum->in[0], sum->in[1], result, n->in[1], n->in[2], n->in[3], n->in[4]};
  for (int k = 0; k < 7; k++)
    if (!is_before(g, in[k], at) || (k < 4 && !cni_same_type(&g->types, in[k], gated))) return 0;
  cn_value args[9] = {{0}};
  args[7] = n->args[5], args[8] = n->args[6];
  for (int k = 0; k < 3; k++) own[k] = n->out[k];
  int status = add_before(g, at, CNI_OP_batch_norm_add_relu_backward, args, 9, in, 7, made);
  if (status < 0 || !cni_same_type(&g->types, gated, made[3])) return status < 0 ? status : 0;
  for (int k = 0; k < 3 && status >= 0; k++)
    if (cn_graph_users(NULL, g, own[k]) > 0) status = cn_graph_replace(g, own[k], made[k]);
  if (status >= 0) status = cn_graph_replace(g, gated, made[3]);
  return status < 0 ? status : 1;
}

/* ---- convolutions ---- */

/* Can the norm that reads the convolution's result alone become a part of it? */
static bool folds(cn_graph *g, const cni_gnode *conv, int norm)
{
  return norm >= 0 && cni_is_foldable_norm(g, norm) && g->nodes[norm].in[0] == conv->out[0] &&
         cni_is_steady(g, conv->in[1], CNI_STEADY_DEPTH) && cni_is_steady(g, conv->in[2], CNI_STEADY_DEPTH);
}

/* conv2d(input, weight, bias, stride, padding, dilation, groups) */
static int join_convolution(cn_graph *g, int node, bool exact)
{
  const cni_gnode *n = &g->nodes[node];
  int y = n->out[0], in[4] = {n->in[0], n->in[1], n->in[2], -1}, norm = cni_only_reader(g, y), made, status = CN_OK;
  if (exact || !is_half(g, y) || !fits(g, y, CNI_OP_conv2d_fused, exact)) return 0;
  bool normed = folds(g, n, norm);
  chain c = chain_behind(g, normed ? g->nodes[norm].out[0] : y);
  if (c.end == y) return 0;
  cn_value args[9] = {{0}};
  for (int k = 3; k < 7; k++) args[k] = n->args[k];
  args[8] = cn_v_bool(c.relu);
  in[3] = c.residual;
  const int64_t column[] = {g->values[in[1]].shape[0], 1, 1, 1};
  if (normed) status = cni_fold_norm(g, node, norm, column, 4, &in[1], &in[2]);
  if (status) return status;
  status = add_before(g, g->values[c.end].node, CNI_OP_conv2d_fused, args, 9, in, 4, &made);
  if (status < 0) return status;
  if (!cni_same_type(&g->types, c.end, made)) return 0;
  status = cn_graph_replace(g, c.end, made);
  return status < 0 ? status : 1;
}

/* In this order: a norm that a convolution took in is gone, and backward asks what became of forward. */
static const struct rule {
  int op;
  int (*join)(cn_graph *g, int node, bool exact); /* 1: the node became part of another; 0: it stays */
} rules[] = {{CNI_OP_conv2d, join_convolution},
             {CNI_OP_native_batch_norm, join_forward},
             {CNI_OP_native_batch_norm_backward, join_backward},
             {CNI_OP_native_batch_norm_backward, join_sum}};

int cni_norms_join(cn_graph *g, bool exact)
{
  int count = 0, status = CN_OK;
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
    int before = count;
    for (size_t i = 0; i < g->nnodes; i++) {
      if (g->nodes[i].info->id != rules[k].op) continue;
      int own = g->nodes[i].out[0];
      if ((status = cni_types_fill(&g->types, g)) != 0) return status;
      status = rules[k].join(g, (int)i, exact);
      if (status < 0) return status;
      count += status;
      i = (size_t)g->values[own].node; /* nodes were put before it */
    }
    if (count > before && (status = cni_pass_dead(g)) < 0) return status;
  }
  return count;
}
