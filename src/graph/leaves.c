/* leaves.c: gradients that captured code leaves in tensors from outside (cn_grad_of): they are outputs of the graph,
 * which a run assigns.
 *
 * Place in the flow: autograd tells of each leaf's gradient before it is used or replaced (base/hooks.h); trace.c turns
 * what is there at the end into rows of the graph, and gives the leaves back what they had. Invariant: whether there
 * was a gradient before, and which, is part of what was captured, unless the code replaced it first. */
#include <cairn/autograd.h>

#include "capture.h"

static cni_leaf *find_node(cni_capture *cap, const struct cni_node *node)
{
  for (size_t i = cap->nleaves; i-- > 0;)
    if (cap->leaves[i].node == node) return &cap->leaves[i];
  return NULL;
}

static cni_leaf *add_leaf(cni_capture *cap, cn_tensor *t)
{
  if (cni_grow((void **)&cap->leaves, &cap->leaves_cap, cap->nleaves + 1, sizeof *cap->leaves)) return NULL;
  cni_leaf *leaf = &cap->leaves[cap->nleaves++];
  *leaf = (cni_leaf){.tensor = cni_tensor_keep(t), .node = cni_node_keep(t->node)};
  return leaf;
}

int cni_leaf_met(cni_capture *cap, cn_tensor *t)
{
  if (!t->node) return CN_OK;
  for (size_t i = cap->nleaves; i-- > 0;)
    if (cap->leaves[i].node == t->node && cap->leaves[i].tensor->out_index == t->out_index) return CN_OK;
  return add_leaf(cap, t) ? CN_OK : CN_ERR_MEMORY;
}

int cni_leaf_touched(cn_tensor *t, struct cni_node *node, bool replaced)
{
  cni_capture *cap = cni_capturing();
  if (!cap) return CN_OK;
  if (cap->outer)
    return cni_fail(CN_ERR_CAPTURE, "capture: a gradient is left in a tensor, or looked at there, inside of a function "
                                    "that cond, while, scan or map is given: use cn_grad, and return gradients");
  cni_leaf *leaf = find_node(cap, node);
  if (leaf && leaf->touched) return CN_OK;
  if (!leaf && !t)
    return cni_fail(CN_ERR_CAPTURE, "capture: a gradient reached a tensor that the captured code did not use: "
                                    "capture the forward pass together with the backward pass");
  if (!leaf && !(leaf = add_leaf(cap, t))) return CN_ERR_MEMORY;
  leaf->touched = true; /* first: looking at the gradient asks again */
  leaf->replaced = replaced;
  leaf->before = cni_tensor_keep(cn_grad_of(leaf->tensor));
  return CN_OK;
}

/* The state that is this leaf; -1 when the graph does not read it. */
static int state_of(const cn_graph *g, const cn_tensor *leaf)
{
  for (size_t i = 0; i < g->nstates; i++) {
    const cn_tensor *t = g->states[i].tensor;
    if (t == leaf || (t->storage == leaf->storage && t->offset == leaf->offset && t->d.dtype == leaf->d.dtype &&
                      cni_same_layout(&t->d, &leaf->d)))
      return (int)i;
  }
  return -1;
}

static int finish(cni_capture *cap, const cni_leaf *leaf)
{
  cn_graph *g = cap->g;
  if (!leaf->touched) return CN_OK;
  cn_tensor *now = cn_grad_of(leaf->tensor);
  cni_gleaf row = {.value = -1};
  row.before = leaf->replaced ? CNI_GRAD_ANY : leaf->before ? CNI_GRAD_GIVEN : CNI_GRAD_ABSENT;
  row.after = now && now == leaf->before && !leaf->replaced ? CNI_GRAD_KEPT : now ? CNI_GRAD_VALUE : CNI_GRAD_CLEARED;
  if (row.after == CNI_GRAD_VALUE && (row.value = cni_capture_value(cap, now)) < 0) return cn_err();
  if (cni_grow((void **)&g->leaves, &g->leaves_cap, g->nleaves + 1, sizeof *g->leaves)) return CN_ERR_MEMORY;
  row.tensor = cni_tensor_keep(leaf->tensor);
  row.given = row.before == CNI_GRAD_GIVEN ? cni_tensor_keep(leaf->before) : NULL;
  row.state = state_of(g, leaf->tensor);
  g->leaves[g->nleaves++] = row;
  return CN_OK;
}

int cni_leaves_finish(cni_capture *cap)
{
  int status = CN_OK;
  for (size_t i = 0; i < cap->nleaves && !status && !cap->leaves_are_inside; i++) status = finish(cap, &cap->leaves[i]);
  return status;
}

void cni_leaves_restore(cni_capture *cap)
{
  cni_saved_error error;
  cni_error_take(&error); /* a failed capture gives back what leaves had, too */
  for (size_t i = 0; i < cap->nleaves; i++) {
    cni_leaf *leaf = &cap->leaves[i];
    if (leaf->touched) cn_set_grad(leaf->tensor, leaf->before);
    cni_tensor_release(leaf->before);
    cni_tensor_release(leaf->tensor);
    cni_node_release(leaf->node);
  }
  cni_error_restore(&error);
  cni_free(cap->leaves, cap->leaves_cap * sizeof *cap->leaves);
}
