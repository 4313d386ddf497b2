/* canonicalise.c: takes away what changes nothing: copies and casts that make what is there, views of views that show
 * what an earlier value is.
 *
 * Place in the flow: the first pass of a round of optimise.c, so that cse and the rewrites see one form of each thing.
 * Invariant: a value is replaced by one with the same elements in the same order of memory, so that every kernel behind
 * it does what it did. */
#include <string.h>

#include "base/alloc.h"
#include "graph/passes/passes.h"
#include "tensor/tensor.h"

/* Ops whose result has the elements of one input, and is that input where type and memory order agree, too. */
static const struct copy {
  const char *op;
  int input;
  bool any_sizes; /* the result has the input's shape always; copy's source may be broadcast */
} copies[] = {
  {"clone", 0, true}, {"contiguous_copy", 0, true}, {"cast", 0, true}, {"to_device", 0, true}, {"copy", 1, false},
};

static const struct copy *copy_of(const cni_gnode *n)
{
  for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
    if (!strcmp(copies[i].op, n->info->name)) return &copies[i];
  return NULL;
}

int cni_copied_input(const cni_gnode *n)
{
  const struct copy *c = copy_of(n);
  return c ? c->input : -1;
}

static int copied(const cn_graph *g, const cni_gnode *n)
{
  const cni_types *t = &g->types;
  const struct copy *c = copy_of(n);
  if (!c) return -1;
  int from = n->in[c->input];
  bool sure = c->any_sizes || (!t->v[from].varies && !t->v[n->out[0]].varies);
  return sure && cni_same_type(t, n->out[0], from) ? from : -1;
}

/* Distinct places of the root are distinct elements: otherwise an input that lies in memory in another way could make a
 * difference that is not seen here. */
static bool sound(const cni_types *t, int root)
{
  const cn_desc *d = &t->v[root].handle->d;
  return !cni_may_overlap(d->ndim, d->shape, d->strides);
}

/* A detach is nothing to a run, but a graph may be replayed with gradients. */
static bool stops_gradients(const cn_graph *g, const cni_gnode *n)
{
  return !g->closed && (n->info->row->flags & CN_OP_NO_GRAD);
}

/* The first value up the chain of views that shows the very elements that v does; -1: none. */
static int shown_before(const cn_graph *g, int v)
{
  const cni_types *t = &g->types;
  int found = -1, at = v;
  if (t->v[v].root == v || t->v[v].varies || !sound(t, t->v[v].root)) return -1;
  while (t->v[at].root != at) {
    const cni_gnode *n = &g->nodes[g->values[at].node];
    if (!(n->info->row->flags & CN_OP_VIEW) || stops_gradients(g, n)) break;
    at = n->in[0];
    if (t->v[at].root == t->v[v].root && t->v[at].base == t->v[v].base && cni_same_type(t, at, v)) found = at;
  }
  return found;
}

int cni_pass_canonicalise(cn_graph *g)
{
  int count = 0, status = cni_types_fill(&g->types, g);
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    const cni_gnode *n = &g->nodes[i];
    for (int k = 0; k < n->nout && !status; k++) {
      int to = n->info->row->flags & CN_OP_VIEW ? shown_before(g, n->out[k]) : copied(g, n);
      int done = to < 0 ? 0 : cn_graph_replace(g, n->out[k], to);
      if (done < 0) status = done;
      else count += done > 0;
    }
  }
  return status ? status : count;
}
