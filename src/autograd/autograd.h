/* autograd.h: what init.c and the modes need of autograd. */
#ifndef CNI_AUTOGRAD_AUTOGRAD_H
#define CNI_AUTOGRAD_AUTOGRAD_H

#include <cairn/autograd.h>

#include "node.h"
#include "ops/apply.h"

void cni_autograd_init(void); /* fills the mode handlers and hooks */
int cni_autograd_mode(cni_applying *a);
int cni_check_mode(cni_applying *a);

/* One backward walk. Roots: tensors and their gradients (borrowed, already of the right shape). With inputs, their
 * gradients go to results (owned) and leaves are left alone; without, leaves accumulate. */
typedef struct cni_backward {
  cn_tensor *const *roots, *const *seeds;
  int nroots;
  cn_tensor *const *inputs;
  cn_tensor **results;
  int ninputs;
  bool retain, create;
  bool stop;          /* the walk ends at inputs, each of which is its node's only result */
  bool no_leaf_hooks; /* those of leaves will run when the gradients that are computed here reach them */
} cni_backward;
int cni_backward_run(const cni_backward *b);

/* gradients of examples of batches (batch.c) */
/* cn_grad of the whole batches of that vmap. */
int cni_batch_grad(cn_tensor **grads, cn_tensor *const *outputs, size_t noutputs, cn_tensor *const *inputs,
                   size_t ninputs, const cn_grad_opts *opts, uint64_t vmap);

/* custom functions (function.c) */
/* While a sub-graph is captured: what stands in it for each of these (NULL for NULL), n of them, owned array; NULL with
 * the error set. */
cn_tensor **cni_bring_inside(cn_tensor *const *tensors, size_t n);
/* cn_function_apply; in_graphs: what its forward records in a graph can be gone through backward when that is
 * replayed. */
int cni_function_apply(cn_tensor **outputs, size_t noutputs, const cn_function *function, cn_tensor *const *inputs,
                       size_t ninputs, void *payload, bool in_graphs);
/* Gives a tensor without history one that begins with this function: its backward is told of gradients that get there.
 * 0 or CN_ERR_MEMORY. */
int cni_function_begin(cn_tensor *t, const cn_function *function);
bool cni_function_begins(cn_tensor *t, const cn_function *function); /* is that still its history? */
int cni_function_backward(cni_node *node, cn_tensor *const *g, cn_tensor **gin, bool create);
void cni_context_free(struct cni_context_data *context);
bool cni_context_records(const cn_context *context); /* does the running backward record itself? */
const char *cni_context_name(const struct cni_context_data *context);

/* writes in place (record.c) */
int cni_inplace_check(const char *who, cn_tensor *t); /* may a recorded call write into t? 0 or the error */
int cni_inplace_link(cn_tensor *t, cni_node *node, int index); /* t was written: new history for it and its bases */

/* ---- sparse tensors, whose history is that of their values (sparse.c) ---- */
cn_tensor *cni_sparse_requires_grad(cn_tensor *t, bool on);
/* The gradient of s's values as a sparse tensor with s's places. Borrowed; NULL of NULL. */
cn_tensor *cni_sparse_like(cn_tensor *s, cn_tensor *grad);
/* Sparse gradients end in leaves; on their way through other nodes they are dense: makes *g dense. */
int cni_sparse_end(cn_tensor **g);
/* The gradient of a sparse leaf, which came for its values, gets the leaf's places. */
int cni_sparse_leaf(const cni_node *n, cn_tensor **g);
/* The gradient of s's values, where `given` is that of s: the elements at its places. Borrowed. */
cn_tensor *cni_sparse_seed(cn_tensor *s, cn_tensor *given);

#endif
