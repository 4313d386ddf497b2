/* fuse_rows.c: reductions along rows as parts of groups: what may stand in a group with them.
 *
 * Place in the flow: fuse.c looks for such groups before those of formulas alone, on the CPU; fuse_program.c writes
 * them with steps along rows (ops/program.h). A group has the rows of its reductions: its members compute whole rows,
 * one value for each row, or are views that give such a value the shape of others. Invariant: rows are dense and short
 * enough for the caches, and reduced over their last dims, so that the kernel adds as that of the reduction does. */
#include <string.h>

#include "fuse.h"
#include "graph/passes/passes.h"
#include "ops/api.gen.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

/* Elements of a row. What is done once for each row is to be little beside the row: of 64 and fewer, steps over all of
 * the memory at once are faster. */
enum { SHORTEST = 128 };

static const cn_desc *desc_of(const cn_graph *g, int v) { return &g->types.v[v].handle->d; }

int cni_row_prim(const cni_gnode *n)
{
  switch (n->info->id) {
  case CNI_OP_sum: return CNI_PW_row_sum;
  case CNI_OP_mean: return CNI_PW_row_mean;
  case CNI_OP_amax: return CNI_PW_row_max;
  case CNI_OP_amin: return CNI_PW_row_min;
  default: return 0;
  }
}

/* The dims that a reduction of x goes over, where they are the last ones; 0: they are others. */
static int last_dims(const cni_gnode *n, const cn_desc *x)
{
  const cn_call c = {.op = n->info->row};
  uint32_t mask, all = x->ndim ? (1u << x->ndim) - 1 : 1;
  int dims = 0;
  if (cni_dims_mask(&c, &n->args[1], x->ndim, &mask)) {
    cn_err_clear();
    return 0;
  }
  while (dims < x->ndim && mask >> (x->ndim - 1 - dims) & 1) dims++;
  return mask == (all & ~((1u << (x->ndim - dims)) - 1)) ? dims : 0;
}

/* Floats that are reduced in their own type, and how many elements of a row are true: floats count that far. */
static bool takes_types(const cni_gnode *n, int x, int y)
{
  if (x == CN_BOOL) return n->info->id == CNI_OP_sum && y == CN_I64;
  return (x == CN_F32 || x == CN_F64) && y == x;
}

bool cni_row_space_of(cni_row_space *s, const cn_graph *g, const cni_gnode *n)
{
  if (!cni_row_prim(n) || n->syms.n || g->types.v[n->in[0]].varies) return false;
  const cn_desc *x = desc_of(g, n->in[0]), *y = desc_of(g, n->out[0]);
  if (x->device != CN_CPU || !takes_types(n, x->dtype, y->dtype)) return false;
  if (!x->numel || !cni_is_contiguous(x->ndim, x->shape, x->strides)) return false;
  *s = (cni_row_space){.full = x, .dims = last_dims(n, x), .count = 1};
  for (int k = 0; k < s->dims; k++) s->count *= x->shape[x->ndim - 1 - k];
  return s->count >= SHORTEST;
}

bool cni_row_again(const cni_row_space *s, const cn_graph *g, const cni_gnode *n, int value)
{
  return !cni_row_prim(n) && cni_row_form_of(s, desc_of(g, n->out[0])) == CNI_ROW_WHOLE &&
         cni_row_form_of(s, desc_of(g, value)) != CNI_ROW_WHOLE;
}

bool cni_row_space_same(const cni_row_space *a, const cni_row_space *b)
{
  return a->dims == b->dims && cni_same_shape(a->full->ndim, a->full->shape, b->full->ndim, b->full->shape);
}

/* The shapes of one value for each row: with the reduced dims as ones, or without them. */
static bool is_kept(const cni_row_space *s, const cn_desc *y)
{
  if (y->ndim != s->full->ndim || !cni_is_contiguous(y->ndim, y->shape, y->strides)) return false;
  for (int k = 0; k < y->ndim; k++)
    if (y->shape[k] != (k < y->ndim - s->dims ? s->full->shape[k] : 1)) return false;
  return true;
}

static bool is_bare(const cni_row_space *s, const cn_desc *y)
{
  return cni_same_shape(y->ndim, y->shape, s->full->ndim - s->dims, s->full->shape) &&
         cni_is_contiguous(y->ndim, y->shape, y->strides);
}

enum cni_row_form cni_row_form_of(const cni_row_space *s, const cn_desc *y)
{
  if (cni_same_layout(s->full, y)) return CNI_ROW_WHOLE;
  return is_kept(s, y) ? CNI_ROW_KEPT : is_bare(s, y) ? CNI_ROW_BARE : CNI_ROW_OTHER;
}

/* One value for each row, expanded to whole ones. */
static bool is_expanded(const cni_row_space *s, const cn_desc *y)
{
  int64_t step = 1;
  if (!cni_same_shape(y->ndim, y->shape, s->full->ndim, s->full->shape)) return false;
  for (int k = y->ndim - 1; k >= 0; k--) {
    const bool reduced = k >= y->ndim - s->dims;
    if (y->shape[k] != 1 && y->strides[k] != (reduced ? 0 : step)) return false;
    if (!reduced) step *= y->shape[k];
  }
  return true;
}

static bool is_view(const cn_graph *g, const cni_gnode *n)
{
  return n->info->row->flags & CN_OP_VIEW && n->nin == 1 && n->nout == 1 && !n->syms.n && n->in[0] >= 0 &&
         g->values[n->in[0]].kind == CNI_VALUE_RESULT && !g->types.v[n->out[0]].varies;
}

enum cni_part_kind cni_row_part(const cn_graph *g, const cni_gnode *n, int *steps)
{
  cni_row_space s;
  *steps = 1;
  if (cni_row_prim(n)) return cni_row_space_of(&s, g, n) ? CNI_PART_REDUCTION : CNI_PART_NONE;
  return is_view(g, n) && desc_of(g, n->out[0])->device == CN_CPU ? CNI_PART_VIEW : CNI_PART_NONE;
}

bool cni_row_fits(const cn_graph *g, const cni_gnode *n, const cni_row_space *s, enum cni_part_kind kind)
{
  const cn_desc *y = desc_of(g, n->out[0]);
  if (kind != CNI_PART_VIEW) return cni_row_form_of(s, y) != CNI_ROW_OTHER;
  const enum cni_row_form from = cni_row_form_of(s, desc_of(g, n->in[0])), to = cni_row_form_of(s, y);
  if (from != CNI_ROW_KEPT && from != CNI_ROW_BARE) return false;
  return to == CNI_ROW_KEPT || to == CNI_ROW_BARE || is_expanded(s, y);
}

bool cni_row_reads(const cni_row_space *s, const cn_graph *g, const cni_gnode *n, int value)
{
  const cn_desc *x = desc_of(g, value);
  const bool bare = x->numel != 1 && cni_row_form_of(s, x) == CNI_ROW_BARE;
  return !bare || n->info->row->flags & CN_OP_VIEW || cni_row_form_of(s, desc_of(g, n->out[0])) == CNI_ROW_BARE;
}

int cni_row_operand(const cni_row_space *s, const cn_desc *y, const cn_desc *x)
{
  bool one = true;
  const int lead = s->full->ndim - x->ndim;
  if (x->numel != 1 && cni_row_form_of(s, y) == CNI_ROW_BARE) return -1; /* its dims are others than the group's */
  if (lead < 0) return x->numel == 1 ? 1 : -1;
  for (int k = 0; k < x->ndim; k++) {
    if (x->shape[k] != 1 && x->shape[k] != s->full->shape[lead + k]) return -1;
    one &= lead + k < s->full->ndim - s->dims || x->shape[k] == 1 || x->strides[k] == 0;
  }
  return one;
}

/* ---- views of their own for each reader ---- */

/* The last node that reads a value, if another one does besides; -1: none, or one. */
static int last_of_several(cn_graph *g, int value)
{
  const cn_graph_use *use;
  int users = cn_graph_users(&use, g, value), last = -1;
  bool others = false;
  for (int u = 0; u < users; u++)
    if (use[u].kind == CN_USE_NODE && use[u].index > last) last = use[u].index;
  for (int u = 0; u < users; u++) others |= use[u].kind != CN_USE_NODE || use[u].index != last;
  return others ? last : -1;
}

/* What a reader has besides others it gets as its own, so that it may become part of a group with that alone. */
static int give_own(cn_graph *g, int node, int reader)
{
  const cni_gnode *n = &g->nodes[node];
  const int old = n->out[0];
  int made;
  size_t room = 1;
  int status = cn_graph_at(g, reader, n->scope);
  if (!status)
    status = cn_graph_add_node(&made, &room, g, n->info->row, n->args, (size_t)n->nargs, n->in, (size_t)n->nin);
  cn_graph_at(g, -1, -1);
  if (status < 0) return status;
  cni_gnode *to = &g->nodes[reader + 1];
  for (int k = 0; k < to->nin; k++)
    if (to->in[k] == old) to->in[k] = made;
  cni_graph_changed(g);
  return CN_OK;
}

int cni_row_views(cn_graph *g)
{
  bool any = false;
  cni_row_space s;
  for (size_t i = 0; i < g->nnodes && !any; i++) any = cni_row_space_of(&s, g, &g->nodes[i]);
  for (size_t i = 0; any && i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    if (!is_view(g, n) || desc_of(g, n->out[0])->device != CN_CPU) continue;
    const cni_gnode *maker = &g->nodes[g->values[n->in[0]].node];
    int unused, reader;
    if (!cni_row_prim(maker) && !is_view(g, maker) && cni_fuse_part(g, maker, &unused) == CNI_PART_NONE) continue;
    while ((reader = last_of_several(g, n->out[0])) >= 0) {
      int status = give_own(g, (int)i, reader);
      if (!status) status = cni_types_fill(&g->types, g);
      if (status) return status;
      n = &g->nodes[i];
    }
  }
  return any;
}
