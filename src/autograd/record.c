/* record.c: the autograd mode: wraps a call that has inputs needing gradients, and records it as a node.
 *
 * Place in the flow: between apply's infer and its kernel. Invariant: the node is complete before the kernel runs,
 * except for saved results, so that a failure leaves no half-recorded history. */
#include <cairn/ops.h>
#include <string.h>

#include "autograd.h"
#include "ops/pointwise.h"

/* Which saved slots the wanted gradients read. Negative: error. */
static int64_t needed_values(const cn_call *c, uint64_t want)
{
  const cn_op *op = c->op;
  if (op->vjp == cni_pointwise_vjp) return cni_pointwise_needs(c, want);
  if (op->flags & CN_OP_SAVE_ALL) return 0xffff;
  int64_t needs = 0;
  for (int i = 0; i < 8; i++)
    if (want >> i & 1) needs |= op->needs[i];
  return needs;
}

/* By the type it has in memory: a write in place may have changed it. */
static bool differentiable(const cn_desc *s)
{
  return s->dtype == CN_F32 || s->dtype == CN_F64 || s->dtype == CN_F16 || s->dtype == CN_BF16 ||
         cni_dtype_is_complex(s->dtype);
}

static cni_node *make_node(const cn_call *c)
{
  size_t words = 0;
  for (int i = 0; i < c->nin; i++) words += c->in[i] ? (size_t)c->in[i]->d.ndim : 0;
  for (int i = 0; i < c->nout; i++) words += c->spec[i].data_dependent ? CN_MAX_DIMS : (size_t)c->spec[i].ndim;
  cni_node *n = cni_node_new(CNI_NODE_OP, c->nin, c->nout, c->args, c->nargs, words);
  if (n) n->op = c->op;
  return n;
}

/* Saves input i. An input that the call itself overwrites is saved as a copy of its old value. */
static int save_input(cni_node *n, const cni_applying *a, int i)
{
  cn_tensor *t = a->c.in[i];
  if (i > 0 || t != a->dest) return cni_node_save(n, i, t);
  cn_state *st = cni_state();
  size_t depth = cni_scope_push();
  st->no_grad = true; /* it was off, or this call would not be recorded */
  cn_tensor *old = cn_clone(t);
  st->no_grad = false;
  int status = old ? cni_node_save(n, i, old) : cn_err();
  cni_scope_pop(depth);
  return status;
}

/* Edges, metas and saved inputs; *words moves over the room for shapes. Returns the mask of values that backward reads;
 * negative on failure. */
static int64_t fill_inputs(cni_node *n, const cni_applying *a, int64_t **words)
{
  const cn_call *c = &a->c;
  uint64_t want = 0;
  for (int i = 0; i < c->nin; i++) {
    cn_tensor *t = c->in[i];
    if (!t) continue;
    cni_node_meta(n, i, &t->d, words);
    cni_node *producer = cni_node_of(t);
    if (!producer) continue;
    cni_node_link(n, i, producer, t->out_index);
    if (i < 64) want |= 1ull << i;
  }
  int64_t needs = needed_values(c, want);
  if (needs <= 0) return needs;
  bool many = c->op->flags & CN_OP_SAVE_ALL || needs & CNI_NEEDS_MANY;
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && (i < 16 ? needs >> i & 1 : many) && save_input(n, a, i)) return -1;
  return needs;
}

/* Metas of results, and saved ones. */
static int fill_results(cni_node *n, const cn_call *c, int64_t needs, int64_t **words)
{
  for (int i = 0; i < c->nout; i++) {
    if (!c->out[i]) continue;
    cni_node_meta(n, c->nin + i, &c->out[i]->d, words);
    if (needs >> (16 + i) & 1 && cni_node_save(n, c->nin + i, c->out[i])) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

/* Gives the node to the results, which become its only owners. */
static void hand_over(cni_node *n, const cn_call *c)
{
  int32_t owners = 0;
  for (int i = 0; i < c->nout; i++) owners += c->out[i] && differentiable(&c->out[i]->d);
  if (!owners) {
    cni_node_release(n);
    return;
  }
  atomic_store_explicit(&n->head.refs, owners, memory_order_relaxed); /* nobody else knows of it yet */
  for (int i = 0; i < c->nout; i++)
    if (c->out[i] && differentiable(&c->out[i]->d)) cni_node_attach(c->out[i], n, i);
}

/* ---- in place ---- */

int cni_inplace_check(const char *who, cn_tensor *t)
{
  if (t->inference)
    return cni_fail(CN_ERR_GRAD, "%s: a tensor made in inference mode cannot be written to by a recorded op", who);
  cni_node *n = cni_node_of(t);
  if (n && n->kind == CNI_NODE_LEAF && cni_state()->capture && !t->d.data) /* an input, which need not be one outside */
    return cni_fail(CN_ERR_CAPTURE, "%s: an input that requires a gradient is changed in place", who);
  if (n && n->kind == CNI_NODE_LEAF)
    return cni_fail(CN_ERR_GRAD,
                    "%s: a leaf that requires a gradient cannot be changed in place; do it under cn_no_grad_begin",
                    who);
  for (const cn_tensor *v = t; v->view; v = v->view->parent) {
    const cn_tensor *parent = v->view->parent;
    if (parent->node && parent->node->kind == CNI_NODE_LEAF && !v->detached)
      return cni_fail(CN_ERR_GRAD, "%s: a view of a leaf that requires a gradient cannot be changed in place",
                      who);
    if (!v->view->op->scatter && !v->detached)
      return cni_fail(CN_ERR_GRAD, "%s: writing through this view would overlap; clone it first", who);
  }
  return CN_OK;
}

/* The parent of a written view: its new value is its old one with the viewed part replaced. */
static cni_node *rebase_node(const cn_tensor *view)
{
  cn_tensor *parent = view->view->parent;
  cni_node *n = cni_node_new(CNI_NODE_REBASE, 2, 1, view->view->args, view->view->nargs,
                             (size_t)(2 * parent->d.ndim + view->d.ndim));
  if (!n) return NULL;
  int64_t *words = n->words;
  n->op = view->view->op;
  cni_node_link(n, 0, parent->node, parent->out_index);
  cni_node_link(n, 1, view->node, view->out_index);
  cni_node_meta(n, 0, &parent->d, &words);
  cni_node_meta(n, 1, &view->d, &words);
  cni_node_meta(n, 2, &parent->d, &words);
  return n;
}

static int rebase_parents(cn_tensor *written)
{
  for (cn_tensor *v = written; v->view && !v->detached; v = v->view->parent) {
    cni_node *n = rebase_node(v);
    if (!n) return CN_ERR_MEMORY;
    cni_node_attach(v->view->parent, n, 0);
  }
  return CN_OK;
}

/* The old histories of a written view's ancestors must be up to date before the write makes them look stale. */
static void freshen_parents(cn_tensor *t)
{
  for (cn_tensor *v = t; v->view && !v->detached; v = v->view->parent) cni_node_of(v->view->parent);
}

int cni_inplace_link(cn_tensor *t, cni_node *node, int index)
{
  freshen_parents(t);
  cni_node_attach(t, cni_node_keep(node), index);
  return rebase_parents(t);
}

/* What is written carries no gradient: dest's history ends, and that of what it is a view of goes on without it. */
static int write_constant(cni_applying *a)
{
  int status = cni_inplace_check(a->info->name, a->dest);
  if (status) return status;
  freshen_parents(a->dest);
  if ((status = cni_apply_next(a))) return status;
  cni_node_attach(a->dest, NULL, 0);
  if ((status = rebase_parents(a->dest))) cni_drop_results(&a->c);
  return status;
}

int cni_autograd_mode(cni_applying *a)
{
  cn_call *c = &a->c;
  bool any = false, constant = c->op->flags & (CN_OP_NO_GRAD | CN_OP_SHAPE_ONLY);
  for (int i = 0; i < c->nin && !any && !constant; i++) any = c->in[i] && cni_node_of(c->in[i]);
  if (!any) return a->dest && cni_node_of(a->dest) ? write_constant(a) : cni_apply_next(a);
  int status = a->dest ? cni_inplace_check(a->info->name, a->dest) : CN_OK;
  if (status) return status;
  if (a->dest) freshen_parents(a->dest);
  cni_node *n = make_node(c);
  if (!n) return CN_ERR_MEMORY;
  int64_t *words = n->words, needs = fill_inputs(n, a, &words);
  status = needs < 0 ? cn_err() : cni_apply_next(a);
  if (!status) status = fill_results(n, c, needs, &words);
  if (status) cni_node_release(n);
  else hand_over(n, c);
  if (!status && a->dest) status = rebase_parents(a->dest);
  if (status) cni_drop_results(c);
  return status;
}
