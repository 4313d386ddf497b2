/* pieces.c: gradients of what was cut in pieces; pieces.h has the place in the flow.
 *
 * Invariant: pieces of one list are disjoint runs along one dim of one tensor. */
#include "pieces.h"

#include <cairn/ops.h>
#include <string.h>

#include "ops/api.gen.h"
#include "ops/apply.h"
#include "ops/shorthand.h"

enum { FEW = 16 };

/* ---- cutting ---- */

/* Where along which dim a view's result lies in its input; false: it is another kind of view. */
static bool find_cut(const cni_node *view, int *dim, int64_t *from, int64_t *to)
{
  int id = cni_op_info(view->op)->id;
  const cn_meta *whole = &view->meta[0], *part = &view->meta[view->nin];
  if ((id != CNI_OP_select && id != CNI_OP_slice) || whole->ndim == 0) return false;
  int64_t d = view->args[1].u.i, at = view->args[2].tag == CN_V_NONE ? 0 : view->args[2].u.i;
  *dim = (int)(d < 0 ? d + whole->ndim : d);
  if (id == CNI_OP_slice && view->args[4].u.i != 1) return false;
  *from = at < 0 ? at + whole->shape[*dim] : at;
  *to = *from + (id == CNI_OP_select ? 1 : part->shape[*dim]);
  return *from >= 0 && *from < *to && *to <= whole->shape[*dim];
}

static void free_piece(cni_piece *p)
{
  cni_node_release(p->view);
  cni_tensor_release(p->g);
}

void cni_pieces_free(cni_pieces *p)
{
  for (size_t i = 0; i < p->n; i++) free_piece(&p->v[i]);
  cni_free(p->v, p->cap * sizeof *p->v);
  cni_free(p, sizeof *p);
}

int cni_pieces_add(cni_pieces **pieces, cni_node *view, cn_tensor *g)
{
  int dim;
  int64_t from, to;
  const cn_meta *m = &view->meta[0];
  if (!find_cut(view, &dim, &from, &to) || g->d.dtype != m->dtype || g->d.device != m->device) return 0;
  cni_pieces *p = *pieces;
  size_t at = 0;
  if (p && p->dim != dim) return 0;
  for (; p && at < p->n && p->v[at].from < from; at++)
    if (p->v[at].to > from) return 0;
  if (p && at < p->n && p->v[at].from < to) return 0;
  if (!p && !(p = *pieces = cni_alloc_zero(sizeof *p))) return CN_ERR_MEMORY;
  if (cni_grow((void **)&p->v, &p->cap, p->n + 1, sizeof *p->v)) return CN_ERR_MEMORY;
  memmove(p->v + at + 1, p->v + at, (p->n++ - at) * sizeof *p->v);
  p->v[at] = (cni_piece){(cni_node *)cni_node_keep(view), cni_tensor_keep(g), from, to};
  p->dim = dim;
  return 1;
}

/* ---- joining ---- */

/* Do they make up all of it? One alone does not: a cut that happens to be the whole at this size. */
static bool cover(const cni_pieces *p)
{
  int64_t at = 0;
  for (size_t i = 0; i < p->n; at = p->v[i++].to)
    if (p->v[i].from != at) return false;
  return p->n > 1 && at == p->v[0].view->meta[0].shape[p->dim];
}

/* order[i]: which dim of what lies below is dim i of the tensor that was cut; false where it is no permuted view. */
static bool permuted(const cni_node *below, int ndim, int64_t *order)
{
  int id = below && below->kind == CNI_NODE_OP ? cni_op_info(below->op)->id : -1;
  if (id != CNI_OP_permute && id != CNI_OP_transpose) return false;
  for (int i = 0; i < ndim; i++) order[i] = i;
  if (id == CNI_OP_transpose) {
    int64_t a = below->args[1].u.i, b = below->args[2].u.i;
    a += a < 0 ? ndim : 0;
    b += b < 0 ? ndim : 0;
    order[a] = b;
    order[b] = a;
    return true;
  }
  for (int i = 0; i < ndim; i++) order[i] = below->args[1].u.is[i] + (below->args[1].u.is[i] < 0 ? ndim : 0);
  return true;
}

/* A piece with the dim it was cut along, its dims in the order `back` (NULL: as they are). */
static cn_tensor *shaped(const cni_pieces *p, const cni_piece *one, const int64_t *back)
{
  int ndim = one->view->meta[0].ndim;
  cn_tensor *g = one->g->d.ndim == ndim ? one->g : cn_unsqueeze(one->g, p->dim);
  return g && back ? cn_permute(g, back, (size_t)ndim) : g;
}

/* Where what was cut is a permuted view, they are joined in the order of what lies below it: going on backward then
 * needs no copy. */
static cn_tensor *side_by_side(const cni_pieces *p, cn_tensor **list)
{
  int64_t order[CN_MAX_DIMS], back[CN_MAX_DIMS];
  int ndim = p->v[0].view->meta[0].ndim;
  bool turned = permuted(p->v[0].view->edges[0].node, ndim, order);
  for (int i = 0; turned && i < ndim; i++) back[order[i]] = i;
  for (size_t i = 0; i < p->n; i++)
    if (!(list[i] = shaped(p, &p->v[i], turned ? back : NULL))) return NULL;
  cn_cat_opts o = {.size = sizeof o, .dim = cni_option(turned ? order[p->dim] : p->dim)};
  cn_tensor *whole = cn_cat_with(list, p->n, &o);
  return whole && turned ? cn_permute(whole, order, (size_t)ndim) : whole;
}

/* Each at its place in zeros, added up. */
static cn_tensor *scattered(const cni_pieces *p)
{
  cn_tensor *sum = NULL;
  for (size_t i = 0; i < p->n && !cn_err(); i++) {
    const cni_node *n = p->v[i].view;
    const cn_meta *m = &n->meta[0];
    cn_call c = {.op = n->op, .args = n->args, .nargs = n->nargs, .device = m->device};
    cn_tensor *one = n->op->scatter(&c, cni_zeros_of(m, (cn_dtype)m->dtype), p->v[i].g);
    sum = one && sum ? cn_add_with(sum, one, NULL) : one;
  }
  return cn_err() ? NULL : sum;
}

cn_tensor *cni_pieces_join(const cni_pieces *p)
{
  cn_tensor *room[FEW], **list = room;
  if (!cover(p)) return scattered(p);
  if (p->n > FEW && !(list = cni_alloc(p->n * sizeof *list))) return NULL;
  cn_tensor *whole = side_by_side(p, list);
  if (list != room) cni_free(list, p->n * sizeof *list);
  return whole;
}
