/* node.h: one recorded call: where its gradients go, what it saved, and how to go backward through it.
 *
 * Place in the flow: record.c makes nodes as ops run; engine.c walks them. Invariants: edges point to older nodes
 * only; a node keeps saved values (handles without history) but no tensor that refers back to it, so there are no
 * cycles. */
#ifndef CNI_AUTOGRAD_NODE_H
#define CNI_AUTOGRAD_NODE_H

#include <cairn/autograd.h>

#include "base/hooks.h"
#include "tensor/tensor.h"

enum cni_node_kind {
  CNI_NODE_LEAF,    /* gradients add up here */
  CNI_NODE_OP,      /* an op's vjp */
  CNI_NODE_REBASE,  /* a tensor after a write through a view of it: edges are its old value and the view's new one */
  CNI_NODE_FUNCTION /* a custom function */
};

typedef struct cni_edge {
  struct cni_node *node; /* owned; NULL: no gradient flows */
  int32_t index;         /* which of its results */
} cni_edge;

typedef struct cni_saved {
  /* Owned alias without history; NULL: not saved, or already freed; node.c: or packed by hooks, or copied by the first
   * write. */
  cn_tensor *t;
  uint64_t version; /* when it was saved (cni_version); packed or guarded: where that is */
} cni_saved;

enum { CNI_MAX_RETAINED = 8 };

/* What few nodes have: hooks and kept gradients. */
typedef struct cni_hook {
  int64_t id;
  int32_t output; /* whose gradient; ~ of it: after it was added to the leaf's */
  cn_grad_hook fn;
  void *payload;
  void (*free)(void *payload); /* may be NULL */
} cni_hook;
typedef struct cni_extra {
  cni_hook *hooks;
  size_t nhooks, hooks_cap;
  uint32_t retain; /* bit k: keep the gradient of result k */
  cn_tensor *grads[CNI_MAX_RETAINED];
  cn_tensor *places; /* owned. LEAF: the values of a sparse tensor: one with its places; NULL: a dense tensor */
} cni_extra;

struct cni_context_data; /* function.c */

typedef struct cni_node {
  cni_node_head head;
  enum cni_node_kind kind;
  bool freed;             /* saved values are gone */
  bool has_saved;         /* some were saved, here or in the context */
  bool captured;          /* LEAF: made while a graph is captured: its gradient is nobody's outside */
  int32_t nin, nout, nargs;
  uint32_t size;          /* of this block */
  uint64_t seq;           /* more than those of its edges, and grows with time on each thread: the engine goes down */
  const cn_op *op;        /* OP: the call's; REBASE: the view's */
  cni_edge *edges;        /* nin */
  cni_saved *saved;       /* nin inputs, then nout results */
  cn_meta *meta;          /* likewise */
  cn_value *args;
  int64_t *words; /* room for the shapes of metas; LEAF: then the strides that its gradient has */
  cni_extra *_Atomic extra; /* owned; NULL usually */
  struct cni_context_data *context; /* FUNCTION: owned */
} cni_node;

/* A node with room for these, everything empty; owned. Shapes are copied from the metas' sources with
 * cni_node_meta. NULL with the error set. */
cni_node *cni_node_new(enum cni_node_kind kind, int nin, int nout, const cn_value *args, int nargs,
                       size_t shape_words);
cni_node *cni_leaf_new(const cn_tensor *t);
void cni_node_free(struct cni_node *node);
void cni_node_drop_saved(cni_node *node); /* frees saved values after backward */
/* Writes meta slot k (inputs, then results) from a tensor; *words moves along the room for shapes. */
static inline void cni_node_meta(cni_node *n, int k, const cn_desc *d, int64_t **words)
{
  cn_meta *m = &n->meta[k];
  int64_t *shape = *words;
  m->dtype = d->dtype;
  m->ndim = d->ndim;
  m->device = d->device;
  m->weak = d->weak;
  m->shape = shape;
  for (int i = 0; i < d->ndim; i++) shape[i] = d->shape[i];
  *words += d->ndim;
}
/* The gradient of input i goes to this producer's result of that index; keeps it. NULL: to nobody. */
static inline void cni_node_link(cni_node *n, int i, cni_node *producer, int index)
{
  n->edges[i] = (cni_edge){(cni_node *)cni_node_keep(producer), index};
  if (producer && CNI_UNLIKELY(producer->seq >= n->seq)) n->seq = cni_state()->node_seq = producer->seq + 1;
}
/* Saves a value into slot k. */
int cni_node_save(cni_node *node, int k, cn_tensor *t);
/* The saved value of slot k as a borrowed handle of the current scope, with its history when `history`. NULL when
 * none is saved; NULL with the error set when it was changed since. */
cn_tensor *cni_node_unpack(cni_node *node, int k, bool history);
/* s is about to be written to: what nodes have saved of it and ops have marked as `copied` becomes a copy. 0 or an
 * error. */
int cni_copy_guarded(cni_storage *s);
const char *cni_node_name(const cni_node *node);
cni_extra *cni_node_extra(cni_node *node); /* makes it; NULL with the error set */

/* Captures watch the gradients of leaves from outside: says that one is about to be used, or replaced. t: the leaf, or
 * NULL. 0 or an error. */
static inline int cni_leaf_touch(cn_tensor *t, cni_node *n, bool replaced)
{
  if (CNI_LIKELY(!cni_state()->capture) || n->kind != CNI_NODE_LEAF || n->captured) return CN_OK;
  return cni_hooks.leaf_touched(t, n, replaced);
}

cni_node *cni_node_refreshed(cn_tensor *t);
/* The node of a tensor, after bringing a view's stale history up to date; NULL: needs no gradient. Borrowed. */
static inline cni_node *cni_node_of(cn_tensor *t)
{
  return CNI_UNLIKELY(cni_tensor_stale(t)) ? cni_node_refreshed(t) : t->node;
}
/* Gives t a new producer (owned reference taken over), fresh as of now. */
void cni_node_attach(cn_tensor *t, cni_node *node, int index);

#endif
