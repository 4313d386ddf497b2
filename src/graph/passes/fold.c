/* fold.c: computes what depends on nothing but constants and numbers once, by eager's kernels.
 *
 * What reads a shape alone (full_like) depends on no value. Place in the flow: a pass of optimise.c, behind
 * canonicalise.c and before cse.c. Invariant: a node that fails is left, to fail when the graph runs; a constant lies
 * in memory as the value did. */
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "graph/passes/passes.h"
#include "ops/apply.h"

static bool reads_shape(const cni_gnode *n) { return n->nin == 1 && (n->info->row->flags & CN_OP_SHAPE_ONLY); }

/* Is what the node reads of it known already? */
static bool is_fixed(const cn_graph *g, const cni_gnode *n, int value)
{
  if (reads_shape(n)) return !g->types.v[value].varies;
  if (value < 0 || g->values[value].kind == CNI_VALUE_CONST) return true;
  return g->values[value].kind == CNI_VALUE_SCALAR && !g->values[value].expr;
}

static bool can_be_const(const cn_desc *d)
{
  return d->numel <= CN_CONST_MOST && cni_dtype_computes(d->dtype) && cni_is_contiguous(d->ndim, d->shape, d->strides);
}

static bool foldable(const cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node];
  if (n->info->row->flags & (CN_OP_RANDOM | CN_OP_CHECKS | CN_OP_EFFECTS) || n->draw >= 0 || n->syms.n) return false;
  if (n->nsubs) return false;
  if (!strncmp(n->info->name, "empty", 5)) return false; /* it has no elements to know */
  for (int k = 0; k < n->nin; k++)
    if (!is_fixed(g, n, n->in[k])) return false;
  for (int k = 0; k < n->nout; k++)
    if (!can_be_const(&g->types.v[n->out[k]].handle->d)) return false;
  return true;
}

/* An operand; one whose shape alone is read has no elements yet, and any will do. Borrowed; NULL with the error set. */
static cn_tensor *operand(const cn_graph *g, const cni_gnode *n, int k)
{
  cn_tensor *t = g->types.v[n->in[k]].handle;
  const cn_desc *d = &t->d;
  return reads_shape(n) ? cni_scope_add(cni_tensor_new(d->device, d->dtype, d->ndim, d->shape, d->strides)) : t;
}

/* Runs the node without modes. Owned results. */
static int compute(const cn_graph *g, const cni_gnode *n, cn_tensor **out)
{
  cn_state *st = cni_state();
  cn_value args[CN_MAX_ARGS];
  cn_tensor **in = cni_alloc((size_t)(n->nin + 1) * sizeof *in);
  uint32_t modes = st->modes;
  bool no_grad = st->no_grad;
  int nout = n->nout;
  if (!in) return CN_ERR_MEMORY;
  for (int k = 0; k < n->nin; k++) in[k] = n->in[k] < 0 ? NULL : operand(g, n, k);
  memset(args, 0, sizeof args);
  memcpy(args, n->args, (size_t)n->nargs * sizeof *args);
  cni_fill_slots(n->info, args, in);
  st->modes = 0;
  st->no_grad = true;
  int status = cni_apply(n->info, args, n->nargs, NULL, out, &nout);
  st->modes = modes;
  st->no_grad = no_grad;
  cni_free(in, (size_t)(n->nin + 1) * sizeof *in);
  return status;
}

/* The constants instead of the node's results. 1: done; 0: not. */
static int put_consts(cn_graph *g, int node, cn_tensor *const *made)
{
  int done = 0;
  for (int k = 0; k < g->nodes[node].nout; k++) {
    int old = g->nodes[node].out[k], value = cn_graph_add_const(g, made[k]);
    int status = value < 0 ? value : cni_types_fill(&g->types, g);
    if (status) return status;
    if (!cni_same_type(&g->types, old, value)) continue;
    int users = cn_graph_replace(g, old, value);
    if (users < 0) return users;
    done |= users > 0;
  }
  return done;
}

static int fold_node(cn_graph *g, int node)
{
  cn_tensor *out[CNI_MAX_RESULTS] = {NULL};
  size_t depth = cni_scope_push();
  int status = compute(g, &g->nodes[node], out);
  if (status && status != CN_ERR_MEMORY) {
    cn_err_clear();
    status = 0;
  } else if (!status) status = put_consts(g, node, out);
  for (int k = 0; k < CNI_MAX_RESULTS; k++) cni_tensor_release(out[k]);
  cni_scope_pop(depth);
  return status;
}

int cni_pass_fold(cn_graph *g)
{
  int count = 0, status = cni_types_fill(&g->types, g);
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    int users = 0;
    for (int k = 0; k < g->nodes[i].nout && users >= 0; k++) users += cn_graph_users(NULL, g, g->nodes[i].out[k]);
    if (users <= 0 || !foldable(g, (int)i)) continue;
    int done = fold_node(g, (int)i);
    if (done < 0) status = done;
    else count += done;
  }
  return status ? status : count;
}
