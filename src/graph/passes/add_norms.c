/* add_norms.c: a layer or RMS norm takes over the addition before it and the cast behind it, and its gradient the cast
 * before it, the addition behind it and the cast behind that: one pass over memory each way (add_norm,
 * add_norm_backward).
 *
 * Place in the flow: the first step of fuse.c, on devices that have kernels for the two ops; gradients and the other
 * passes see single ops. Under autocast the residual stream of a transformer is float32 and its products have 16 bits:
 * there each norm stands between such an addition and such a cast. Invariant: results are those of the single nodes, to
 * the bit; the new node stands where all it reads is made and before all that read it. */
#include <string.h>

#include "fuse.h"
#include "graph/passes/passes.h"
#include "ops/api.gen.h"
#include "tensor/tensor.h"

static const cn_desc *desc_of(const cn_graph *g, int v) { return &g->types.v[v].handle->d; }
static bool is_low(int dtype) { return dtype == CN_F16 || dtype == CN_BF16; }
static bool is_op(const cn_graph *g, int node, int id)
{
  return g->nodes[node].info->id == id && !g->nodes[node].syms.n;
}

/* The node that makes a value by this op; -1: it is made otherwise. */
static int maker(const cn_graph *g, int v, int id)
{
  if (v < 0 || g->values[v].kind != CNI_VALUE_RESULT || !is_op(g, g->values[v].node, id)) return -1;
  return g->values[v].node;
}

/* Is every reader of the value a node at `at` or behind, or no node? */
static bool read_from(cn_graph *g, int v, int at)
{
  const cn_graph_use *use;
  int n = cn_graph_users(&use, g, v);
  for (int i = 0; i < n; i++)
    if (use[i].kind == CN_USE_NODE && use[i].index < at) return false;
  return n >= 0;
}

/* The one node that reads the value, by this op; -1: others do, or none. */
static int only_reader(cn_graph *g, int v, int id)
{
  const cn_graph_use *use;
  int n = cn_graph_users(&use, g, v);
  return n == 1 && use[0].kind == CN_USE_NODE && is_op(g, use[0].index, id) ? use[0].index : -1;
}

/* The first cast to 16 bits among a float32 value's readers; -1: there is none. others: how many more there are. */
static int cast_of(cn_graph *g, int v, int *others)
{
  const cn_graph_use *use;
  int n = cn_graph_users(&use, g, v), found = -1;
  *others = n;
  for (int i = 0; i < n && found < 0 && g->values[v].dtype == CN_F32; i++)
    if (use[i].kind == CN_USE_NODE && is_op(g, use[i].index, CNI_OP_cast)) {
      int to = g->nodes[use[i].index].out[0];
      if (is_low(g->values[to].dtype) && cni_same_layout(desc_of(g, to), desc_of(g, v))) found = to;
    }
  *others -= found >= 0;
  return found;
}

/* Does the value lie in memory as one of x's shape does, on its device, in its type or 16 bits? */
static bool fits(const cn_graph *g, int v, int x)
{
  const cn_desc *d = v < 0 ? NULL : desc_of(g, v), *of = desc_of(g, x);
  return d && !d->weak && d->device == of->device && (d->dtype == of->dtype || is_low(d->dtype)) &&
         cni_same_layout(d, of);
}

/* What an addition adds to an operand of its result's type: *to is that operand; -1: it is none of these. */
static int added(const cn_graph *g, int add, int *to)
{
  const cni_gnode *n = &g->nodes[add];
  const cn_value *alpha = &n->args[2];
  if (alpha->tag == CN_V_FLOAT ? alpha->u.f != 1 : alpha->u.i != 1) return -1;
  if (!fits(g, n->in[0], n->out[0]) || !fits(g, n->in[1], n->out[0])) return -1;
  int first = g->values[n->in[0]].dtype == g->values[n->out[0]].dtype ? 0 : 1;
  *to = n->in[first];
  return g->values[*to].dtype == g->values[n->out[0]].dtype ? n->in[1 - first] : -1;
}

/* A call of the op before node `at`; out: its four results. The node's number, or a negative status. */
static int add_call(cn_graph *g, const char *op, int at, const cn_value *args, size_t nargs, const int *in, size_t nin,
                    int *out)
{
  size_t nout = 4;
  int status = cn_graph_at(g, at, g->nodes[at].scope);
  if (!status) status = cn_graph_add_node(out, &nout, g, cni_op_by_name(op)->row, args, nargs, in, nin);
  cn_graph_at(g, -1, -1);
  return status;
}

/* Readers of old[k] read new[k], where there is one (not -1). 1, or 0 where types differ, or a negative status. */
static int take_over(cn_graph *g, const int *old, const int *new, int n)
{
  for (int k = 0; k < n; k++)
    if (old[k] >= 0 && !cni_same_type(&g->types, old[k], new[k])) return 0;
  for (int k = 0; k < n; k++) {
    int done = old[k] < 0 ? 0 : cn_graph_replace(g, old[k], new[k]);
    if (done < 0) return done;
  }
  return 1;
}

/* native_layer_norm(input, shape, weight, bias, eps), native_rms_norm(input, shape, weight, eps) */
static int fuse_forward(cn_graph *g, int node, bool layer)
{
  const cni_gnode *n = &g->nodes[node];
  int x = n->in[0], sum = x, others, low = cast_of(g, n->out[0], &others), add = maker(g, x, CNI_OP_add), other = -1;
  if (low >= 0 && others) low = -1;
  if (add >= 0 && read_from(g, sum, node)) other = added(g, add, &x);
  if (cn_err() || (low < 0 && other < 0) || !fits(g, x, n->out[0])) return cn_err();
  cn_value tensor = cn_v_tensors(NULL, 0), shape = n->args[1], eps = n->args[layer ? 4 : 3];
  int dtype = g->values[low < 0 ? n->out[0] : low].dtype;
  const cn_value args[] = {tensor, tensor, shape, tensor, tensor, eps, cn_v_bool(layer), cn_v_int(dtype)};
  const int in[] = {x, other, n->in[1], layer ? n->in[2] : -1};
  const int old[] = {low < 0 ? n->out[0] : low, other < 0 ? -1 : sum, layer ? n->out[1] : -1, n->out[layer ? 2 : 1]};
  int new[4], status = add_call(g, "add_norm", node, args, 8, in, 4, new);
  return status < 0 ? status : take_over(g, old, new, 4);
}

/* native_layer_norm_backward(grad_out, input, shape, mean, rstd, weight, output_mask), and without mean for RMS norm */
static int fuse_backward(cn_graph *g, int node, bool layer)
{
  const cni_gnode *n = &g->nodes[node];
  const cn_value *mask = &n->args[layer ? 6 : 5];
  int grad = n->in[0], cast = maker(g, grad, CNI_OP_cast), at = node, sum = n->out[0], other = -1, others;
  if (mask->n < 1 || !mask->u.is[0] || !fits(g, n->in[1], sum)) return 0;
  if (cast >= 0 && is_low(g->values[g->nodes[cast].in[0]].dtype) && fits(g, g->nodes[cast].in[0], sum))
    grad = g->nodes[cast].in[0];
  int add = only_reader(g, sum, CNI_OP_add), to = -1;
  for (int k = 1; k < n->nout && add >= 0; k++)
    if (!read_from(g, n->out[k], add)) add = -1;
  if (add >= 0) other = added(g, add, &to);
  if (other == sum) other = to;
  if (other >= 0 && g->values[other].dtype == g->values[sum].dtype) at = add, sum = g->nodes[add].out[0];
  else other = -1;
  int low = cast_of(g, sum, &others);
  if (cn_err() || (grad == n->in[0] && other < 0 && low < 0)) return cn_err();
  bool want_w = mask->n > 1 && mask->u.is[1], want_b = layer && mask->n > 2 && mask->u.is[2];
  const int64_t wanted[] = {low < 0 || others > 0, low >= 0, want_w, want_b};
  cn_value tensor = cn_v_tensors(NULL, 0), shape = n->args[2];
  const cn_value args[] = {tensor, tensor, shape,  tensor, tensor,
                           tensor, tensor, cn_v_ints(wanted, 4), cn_v_int(g->values[low < 0 ? sum : low].dtype)};
  const int in[] = {grad, n->in[1], layer ? n->in[2] : -1, n->in[layer ? 3 : 2], n->in[layer ? 4 : 3], other};
  const int old[] = {wanted[0] ? sum : -1, low, want_w ? n->out[1] : -1, want_b ? n->out[2] : -1};
  int new[4], made = add_call(g, "add_norm_backward", at, args, 9, in, 6, new);
  return made < 0 ? made : take_over(g, old, new, 4);
}

static int fuse_at(cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node];
  if (n->syms.n || n->nout < 1 || g->types.v[n->out[0]].varies) return 0;
  switch (n->info->id) {
  case CNI_OP_native_layer_norm: return fuse_forward(g, node, true);
  case CNI_OP_native_rms_norm: return fuse_forward(g, node, false);
  case CNI_OP_native_layer_norm_backward: return fuse_backward(g, node, true);
  case CNI_OP_native_rms_norm_backward: return fuse_backward(g, node, false);
  default: return 0;
  }
}

int cni_add_norms_join(cn_graph *g)
{
  const cni_opinfo *forward = cni_op_by_name("add_norm"), *backward = cni_op_by_name("add_norm_backward");
  int count = 0, status = cni_types_fill(&g->types, g);
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    if (g->nodes[i].nsubs || !g->nodes[i].nout) continue;
    cn_device device = g->values[g->nodes[i].out[0]].device;
    if (!cni_has_kernels(forward, device) || !cni_has_kernels(backward, device)) continue;
    int done = fuse_at(g, (int)i);
    if (done < 0) status = done;
    else if (done) {
      count++;
      i += g->nodes[i].info == forward || g->nodes[i].info == backward; /* what it replaces is behind it, and dead */
      status = cni_types_fill(&g->types, g);
    }
  }
  if (!status && count) status = cni_pass_dead(g) < 0 ? cn_err() : CN_OK;
  return status ? status : count;
}
