/* gelus.c: a gelu takes the linear layer before it along, and its gradient the product before it: the product's kernel
 * does both before it stores a result (linear_gelu, mm_gelu_backward).
 *
 * Place in the flow: fuse.c, on devices that have kernels for the two ops, before pointwise nodes are grouped. The tanh
 * form alone, which libraries have, and 16-bit floats, which need not be rounded between the two. Invariant: what else
 * reads the values before gelu finds them as they were. */
#include <string.h>

#include "fuse.h"
#include "graph/passes/passes.h"
#include "ops/api.gen.h"
#include "tensor/tensor.h"

static const cn_desc *desc_of(const cn_graph *g, int v) { return &g->types.v[v].handle->d; }

static const cni_gnode *maker(const cn_graph *g, int v, int id)
{
  if (v < 0 || g->values[v].kind != CNI_VALUE_RESULT) return NULL;
  const cni_gnode *n = &g->nodes[g->values[v].node];
  return n->info->id == id && !n->syms.n ? n : NULL;
}

static bool fits(const cn_graph *g, int v, int id)
{
  const cni_gvalue *x = &g->values[v];
  return (x->dtype == CN_F16 || x->dtype == CN_BF16) && !g->types.v[v].varies && desc_of(g, v)->numel &&
         cni_is_contiguous(desc_of(g, v)->ndim, desc_of(g, v)->shape, desc_of(g, v)->strides) &&
         cni_has_kernels(cni_ops[id], x->device);
}

static int add(cn_graph *g, int id, const cn_value *args, size_t nargs, const int *in, size_t nin, int *out)
{
  size_t room = CNI_MAX_RESULTS;
  return cn_graph_add_node(out, &room, g, cni_ops[id]->row, args, nargs, in, nin);
}

/* Readers of `old` read `new`, where that is the same in type, shape and memory order. 1, 0, or a negative status. */
static int take_over(cn_graph *g, int old, int new)
{
  if (!cni_same_type(&g->types, old, new)) return 0;
  int done = cn_graph_replace(g, old, new);
  return done < 0 ? done : 1;
}

/* gelu(input, approximate) at this place. */
static int join_forward(cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node], *linear = maker(g, n->in[0], CNI_OP_linear);
  if (!linear || strcmp(n->args[1].u.s, "tanh") != 0 || !fits(g, n->out[0], CNI_OP_linear_gelu)) return 0;
  const cn_desc *w = desc_of(g, linear->in[1]), *b = linear->in[2] < 0 ? NULL : desc_of(g, linear->in[2]);
  if (!b || w->ndim != 2 || b->ndim != 1 || b->shape[0] != w->shape[0]) return 0;
  int pre = n->in[0], y = n->out[0], new[CNI_MAX_RESULTS], users = cn_graph_users(NULL, g, pre);
  cn_value tensor = cn_v_tensors(NULL, 0);
  const cn_value args[] = {tensor, tensor, tensor, cn_v_bool(users > 1)};
  const int in[] = {linear->in[0], linear->in[1], linear->in[2]};
  int status = cn_graph_at(g, g->values[pre].node, linear->scope);
  if (!status) status = add(g, CNI_OP_linear_gelu, args, 4, in, 3, new);
  cn_graph_at(g, -1, -1);
  if (status < 0) return status;
  int done = take_over(g, y, new[0]);
  if (done > 0 && users > 1) done = take_over(g, pre, new[1]);
  return done;
}

/* Is it g * slope of gelu at x, for the inputs g and x? */
static bool is_slope(const cni_gnode *n)
{
  const cni_program *p = n->info->id == CNI_OP_pointwise && n->nin == 2 ? cni_program_of_value(&n->args[1]) : NULL;
  if (!p) return cn_err_clear(), false;
  if (p->typed || p->nin != 2 || p->nconst || p->nstep != 2 || n->nout != 1) return false;
  const cni_step *slope = &p->steps[0], *times = &p->steps[1];
  bool product = (times->arg[0] == 0 && times->arg[1] == 2) || (times->arg[0] == 2 && times->arg[1] == 0);
  return slope->prim == CNI_PW_gelu_tanh_slope && slope->arg[0] == 1 && times->prim == CNI_PW_mul && product;
}

/* The product of two matrices that v is, perhaps in another shape, and that nobody else reads; NULL: it is none. */
static const cni_gnode *product_of(cn_graph *g, int v)
{
  const cni_gnode *view = maker(g, v, CNI_OP_reshape);
  if (!view) view = maker(g, v, CNI_OP_view);
  const cni_gnode *mm = maker(g, view ? view->in[0] : v, CNI_OP_mm);
  return mm && cn_graph_users(NULL, g, v) == 1 && cn_graph_users(NULL, g, mm->out[0]) == 1 ? mm : NULL;
}

static int reshape(cn_graph *g, int v, int ndim, const int64_t *shape, int *out)
{
  const cn_value args[] = {cn_v_tensors(NULL, 0), cn_v_ints(shape, (size_t)ndim)};
  return add(g, CNI_OP_reshape, args, 2, &v, 1, out);
}

static int join_backward(cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node], *mm = is_slope(n) ? product_of(g, n->in[0]) : NULL;
  if (!mm || !fits(g, n->out[0], CNI_OP_mm_gelu_backward) || !fits(g, n->in[1], CNI_OP_mm_gelu_backward)) return 0;
  const cn_desc y = *desc_of(g, n->out[0]), product = *desc_of(g, mm->out[0]);
  if (!cni_same_shape(y.ndim, y.shape, desc_of(g, n->in[1])->ndim, desc_of(g, n->in[1])->shape) ||
      y.dtype != product.dtype || g->values[n->in[1]].dtype != y.dtype)
    return 0;
  int old = n->out[0], made, shaped, in[3] = {mm->in[0], mm->in[1], n->in[1]};
  int status = cn_graph_at(g, node, n->scope);
  if (status >= 0) status = reshape(g, in[2], 2, product.shape, &in[2]);
  cn_value tensor = cn_v_tensors(NULL, 0);
  const cn_value args[] = {tensor, tensor, tensor};
  if (status >= 0) status = add(g, CNI_OP_mm_gelu_backward, args, 3, in, 3, &made);
  if (status >= 0) status = reshape(g, made, y.ndim, y.shape, &shaped);
  cn_graph_at(g, -1, -1);
  return status < 0 ? status : take_over(g, old, shaped);
}

int cni_gelus_join(cn_graph *g, bool exact)
{
  int count = 0, status = exact ? CN_OK : cni_types_fill(&g->types, g);
  for (size_t i = 0; i < g->nnodes && !exact && !status; i++) {
    const cni_gnode *n = &g->nodes[i];
    if (n->nsubs || n->syms.n || (n->info->id != CNI_OP_gelu && n->info->id != CNI_OP_pointwise)) continue;
    size_t before = g->nnodes;
    int done = n->info->id == CNI_OP_gelu ? join_forward(g, (int)i) : join_backward(g, (int)i);
    if (done < 0) status = done;
    else count += done;
    i += g->nnodes - before; /* this node, which stands behind the new ones now */
    if (!status && g->nnodes > before) status = cni_types_fill(&g->types, g);
  }
  if (!status && count) status = cni_pass_dead(g) < 0 ? cn_err() : CN_OK;
  return status ? status : count;
}
