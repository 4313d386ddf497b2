/* fuse_replace.c: nodes that stand together become one node of the op "pointwise", where that is faster.
 *
 * Place in the flow: fuse.c has found a group and put its members beside one another; fuse_program.c writes them as one
 * program. Invariant: readers outside get values of the type, shape and memory order that they had. */
#include "fuse.h"
#include "graph/passes/passes.h"
#include "ops/api.gen.h"
#include "tensor/tensor.h"

enum { PAIR_LEAST = 8192 }; /* elements from which two steps over dense memory are faster as one program */

/* Nodes begin..end - 1, which stand together. */
typedef struct range {
  int begin, end;
} range;

/* The values that are read outside of it, at most as many as an op has results; negative: the error is set. */
static int outputs_of(cn_graph *g, range r, int *out)
{
  const cn_graph_use *use;
  int count = 0;
  for (int i = r.begin; i < r.end; i++)
    for (int k = 0; k < g->nodes[i].nout && count < CNI_MAX_RESULTS; k++) {
      int users = cn_graph_users(&use, g, g->nodes[i].out[k]);
      bool outside = false;
      if (users < 0) return users;
      for (int u = 0; u < users; u++)
        outside |= use[u].kind != CN_USE_NODE || use[u].index < r.begin || use[u].index >= r.end;
      if (outside) out[count++] = g->nodes[i].out[k];
    }
  return count;
}

/* Readers outside of the range get value `old` from result k of the new node; its maker and readers inside have `new`
 * instead, and nobody needs them any more. */
static void take_over(cn_graph *g, range r, int node, int k, int old, int new)
{
  int maker = g->values[old].node, index = g->values[old].index;
  g->nodes[node].out[k] = old;
  g->values[old].node = node;
  g->values[old].index = k;
  g->nodes[maker].out[index] = new;
  g->values[new].node = maker;
  g->values[new].index = index;
  for (int i = r.begin; i < r.end; i++)
    for (int a = 0; a < g->nodes[i].nin; a++)
      if (g->nodes[i].in[a] == old) g->nodes[i].in[a] = new;
}

/* Does the CPU run this node without a walk: one step over operands that lie as the result does, or are one value? */
static bool is_simple(const cn_graph *g, const cni_gnode *n)
{
  const cn_desc *y = &g->types.v[n->out[0]].handle->d;
  int steps;
  if (cni_fuse_part(g, n, &steps) == CNI_PART_PROGRAM && steps > 1) return false;
  for (int k = 0; k < n->nin; k++) {
    const cn_desc *x = &g->types.v[n->in[k]].handle->d;
    if (x->numel != 1 && !cni_same_layout(x, y)) return false;
  }
  return true;
}

/* Three nodes are faster as one whatever their size, two simple ones where they are large. Views are free. */
static bool pays(const cn_graph *g, range r)
{
  int nodes = 0, first = -1, last = -1;
  int64_t most = 0;
  for (int i = r.begin; i < r.end; i++) {
    const cni_gnode *n = &g->nodes[i];
    if (n->info->row->flags & CN_OP_VIEW) continue;
    const cn_desc *d = &g->types.v[cni_row_prim(n) ? n->in[0] : n->out[0]].handle->d;
    if (d->numel > most) most = d->numel;
    if (!nodes++) first = i;
    last = i;
  }
  if (nodes != 2 || most >= PAIR_LEAST) return nodes > 1;
  return !is_simple(g, &g->nodes[first]) || !is_simple(g, &g->nodes[last]);
}

/* Has each new value the type and memory order of the one that it replaces? One value for each row may have another
 * shape. */
static bool all_alike(const cn_graph *g, const int *old, const int *new, int n, const cni_row_space *rows)
{
  for (int k = 0; k < n; k++) {
    const cn_desc *x = &g->types.v[old[k]].handle->d, *y = &g->types.v[new[k]].handle->d;
    bool bare = rows && cni_row_form_of(rows, x) == CNI_ROW_BARE && cni_row_form_of(rows, y) == CNI_ROW_KEPT;
    if (bare ? x->dtype != y->dtype : !cni_same_type(&g->types, old[k], new[k])) return false;
  }
  return true;
}

/* Hands result k of the new node, value `new`, to the readers of `old`: as it is, or in the shape that they know, by a
 * view. */
static int hand_over(cn_graph *g, range r, int node, int k, int old, int new)
{
  const cn_desc *x = &g->types.v[old].handle->d;
  const cn_value args[] = {cn_v_tensors(NULL, 0), cn_v_ints(x->shape, (size_t)x->ndim)};
  int view, at = node + 1;
  size_t room = 1;
  if (cni_same_type(&g->types, old, new)) {
    take_over(g, r, node, k, old, new);
    return CN_OK;
  }
  int status = cn_graph_at(g, at < (int)g->nnodes ? at : -1, g->nodes[node].scope);
  if (!status) status = cn_graph_add_node(&view, &room, g, cni_ops[CNI_OP_reshape]->row, args, 2, &new, 1);
  if (status >= 0) take_over(g, r, status, 0, old, view);
  return status < 0 ? status : CN_OK;
}

/* The rows of a range's reductions; NULL: it has none. */
static const cni_row_space *rows_of(cni_row_space *s, const cn_graph *g, range r)
{
  for (int i = r.begin; i < r.end; i++)
    if (cni_row_space_of(s, g, &g->nodes[i])) return s;
  return NULL;
}

/* Are these values made by formulas, or by reductions? */
static bool are_made(const cn_graph *g, const int *value, int n)
{
  for (int k = 0; k < n; k++)
    if (g->nodes[g->values[value[k]].node].info->row->flags & CN_OP_VIEW) return false;
  return true;
}

/* 1: the nodes were replaced, but for their being there; 0: they stay. */
static int replace(cn_graph *g, range r, bool exact)
{
  cni_group_program p;
  cni_row_space space;
  int members[CNI_GROUP_MEMBERS], old[CNI_MAX_RESULTS], new[CNI_MAX_RESULTS], n = r.end - r.begin;
  for (int i = 0; i < n; i++) members[i] = r.begin + i;
  int status = cni_types_fill(&g->types, g), nout = outputs_of(g, r, old);
  if (status || nout < 1) return status ? status : nout < 0 ? nout : 0;
  const cni_fuse_group group = {members, old, n, nout, exact, rows_of(&space, g, r)};
  if (!are_made(g, old, nout)) return 0;
  if ((status = cni_fuse_program(&p, g, &group)) <= 0) return status;
  cn_value args[] = {cn_v_tensors(NULL, (size_t)p.program->nin), cni_v_program(p.program), cn_v_floats(NULL, 0)};
  size_t results = (size_t)nout;
  status = cn_graph_at(g, r.end < (int)g->nnodes ? r.end : -1, g->nodes[r.end - 1].scope);
  int node = status ? status
                    : cn_graph_add_node(new, &results, g, cni_op_by_name("pointwise")->row, args, 3, p.in,
                                        (size_t)p.program->nin);
  if (node < 0 || !all_alike(g, old, new, nout, group.rows)) return node < 0 ? node : 0;
  for (int k = 0; k < nout; k++)
    if ((status = hand_over(g, r, node, k, old[k], new[k]))) return status;
  cni_graph_changed(g);
  return 1;
}

int cni_fuse_pair(cn_graph *g, int node, bool exact)
{
  int done = replace(g, (range){node, node + 2}, exact);
  cn_graph_at(g, -1, -1);
  return done;
}

int cni_fuse_range(cn_graph *g, int begin, int end, bool exact)
{
  int status = cni_types_fill(&g->types, g);
  if (status) return status;
  return pays(g, (range){begin, end}) ? replace(g, (range){begin, end}, exact) : 0;
}
