/* pieces.c: what is joined by cat is made where it belongs: the gradients of a packed projection's query, key and value
 * are parts of one tensor, of which attention's backward pass writes each with the strides that it has there.
 *
 * Place in the flow: plan.c, when shapes are known and before memory is placed, on devices whose kernel for the op
 * writes results of any strides. Invariant: pieces are read by their cat alone, through views that show every element
 * once; such a cat does nothing when it runs. */
#include <string.h>

#include "base/dtype.h"
#include "ops/api.gen.h"
#include "plan.h"

enum { MOST_PIECES = 8 };

/* One operand of a cat. */
typedef struct piece {
  int shown, root;  /* the operand, and what it is a view of */
  int64_t base;     /* elements from the first of the whole to its own */
  int64_t strides[CN_MAX_DIMS]; /* of root, there */
} piece;

/* Does the maker's kernel write results of any strides? */
static bool writes_anywhere(const cn_graph *g, int root)
{
  const cni_gvalue *v = &g->values[root];
  return v->kind == CNI_VALUE_RESULT && v->device != CN_CPU && g->nodes[v->node].info->id == CNI_OP_sdpa_backward;
}

/* to: the strides of `shown`, of which `from` are the same dims as they are in another order and with other strides
 * (as). False where it is more than another order. */
static bool follow(int64_t *to, const cn_desc *shown, const cn_desc *from, const int64_t *as)
{
  bool found = shown->numel == from->numel;
  for (int i = 0; i < shown->ndim && found; i++) {
    to[i] = shown->strides[i];
    if (shown->shape[i] == 1) continue;
    found = false;
    for (int k = 0; k < from->ndim && !found; k++)
      if (from->shape[k] == shown->shape[i] && from->strides[k] == shown->strides[i]) found = true, to[i] = as[k];
  }
  return found;
}

static bool shows(const cni_plan *p, int value, int root) { return value >= 0 && p->values[value].root == root; }

/* Is the root read by views of it and, once, by the cat alone? */
static bool only_joined(const cni_plan *p, const cn_graph *g, int root, int cat)
{
  int times = 0;
  for (size_t v = 0; v < p->nvalues; v++)
    if (shows(p, (int)v, root) && (p->values[v].is_output || p->values[v].is_final)) return false;
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    for (int k = 0; k < n->nin; k++) {
      if (!shows(p, n->in[k], root)) continue;
      times += (int)i == cat;
      if ((int)i != cat && p->specs[p->first_spec[i]].view_of != k) return false;
    }
  }
  return times == 1;
}

/* All that show the root are that root in another order of dims. */
static bool all_follow(const cni_plan *p, const piece *of)
{
  int64_t strides[CN_MAX_DIMS];
  const cni_planned *root = &p->values[of->root];
  for (size_t v = 0; v < p->nvalues; v++)
    if (shows(p, (int)v, of->root) &&
        (p->values[v].base || !follow(strides, &p->values[v].handle->d, &root->handle->d, of->strides)))
      return false;
  return true;
}

static bool find_piece(piece *of, const cni_plan *p, const cn_graph *g, int cat, int k, int64_t base)
{
  const cni_gnode *n = &g->nodes[cat];
  const cn_desc *whole = &p->values[n->out[0]].handle->d;
  of->shown = n->in[k];
  of->root = p->values[of->shown].root;
  of->base = base;
  const cni_planned *root = &p->values[of->root];
  const cn_desc *d = &root->handle->d, *shown = &p->values[of->shown].handle->d;
  return writes_anywhere(g, of->root) && root->root == of->root && root->size && d->dtype == whole->dtype &&
         d->device == whole->device && cni_is_dense(d->ndim, d->shape, d->strides) &&
         follow(of->strides, d, shown, whole->strides) && only_joined(p, g, of->root, cat) && all_follow(p, of);
}

/* Fills pieces; false where one of the operands cannot be made in its place. */
static bool find_pieces(piece *pieces, const cni_plan *p, const cn_graph *g, int cat)
{
  const cni_gnode *n = &g->nodes[cat];
  const cni_planned *y = &p->values[n->out[0]];
  const cn_desc *whole = &y->handle->d;
  int64_t dim = p->args[cat][1].u.i, base = 0;
  if (n->nin > MOST_PIECES || y->is_output || y->is_final || y->root != n->out[0] || !y->size) return false;
  if (dim < 0) dim += whole->ndim;
  for (int k = 0; k < n->nin; k++) {
    const cn_desc *d = &p->values[n->in[k]].handle->d;
    if (d->ndim != whole->ndim || !find_piece(&pieces[k], p, g, cat, k, base)) return false;
    base += d->shape[dim] * whole->strides[dim];
  }
  return n->nin > 0;
}

/* What shows the piece's root lies in the whole from now on. */
static int move_into(cni_plan *p, const cn_graph *g, const piece *of, int whole)
{
  const cn_desc root = p->values[of->root].handle->d;
  for (size_t v = 0; v < p->nvalues; v++) {
    cni_planned *q = &p->values[v];
    if (!shows(p, (int)v, of->root)) continue;
    const cni_gvalue *value = &g->values[v];
    cn_spec *spec = &p->specs[p->first_spec[value->node] + (size_t)value->index];
    int64_t strides[CN_MAX_DIMS] = {0};
    follow(strides, &q->handle->d, &root, of->strides);
    const cn_desc *d = &q->handle->d;
    cn_tensor *moved = cni_tensor_over(cni_storage_meta(d->device, cni_dtype_bytes(d->dtype, d->numel), NULL), 0,
                                       d->dtype, d->ndim, d->shape, strides);
    if (!moved) return CN_ERR_MEMORY;
    memcpy(spec->strides, strides, sizeof strides);
    cni_tensor_release(q->handle);
    q->handle = moved;
    q->root = whole;
    q->base = of->base;
    q->size = 0;
  }
  return CN_OK;
}

int cni_plan_pieces(cni_plan *p, const cn_graph *g)
{
  piece pieces[MOST_PIECES];
  int status = CN_OK;
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    const cni_gnode *n = &g->nodes[i];
    if (n->info->id != CNI_OP_cat || !find_pieces(pieces, p, g, (int)i)) continue;
    for (int k = 0; k < n->nin && !status; k++) status = move_into(p, g, &pieces[k], n->out[0]);
    p->specs[p->first_spec[i]].view_of = 0; /* it is there already */
  }
  return status;
}
