/* absent.c: backward graphs of calls of which some results were not used: no gradient comes for them.
 *
 * Place in the flow: joint.c asks for the graph of what came; that of all gradients is split.c's. Gradients flow
 * linearly: what is made of absent ones alone is absent, and of a sum the other part is left. So nothing is computed
 * for an unused result, as in eager: zeros in its place would make NaNs of infinite derivatives. Where an op takes
 * several gradients of which some are absent, zeros do stand for those. Invariant: graphs once found never change. */
#include <string.h>

#include "compile.h"
#include "graph/setting.h"
#include "ops/api.gen.h"

typedef struct dropping {
  cn_graph *g;
  bool *late, *absent; /* per value: follows from gradients of results; is not there */
} dropping;

/* Of a sum of two gradients, the other one where one is absent; -1: it is no such sum. */
static int other_part(const dropping *d, const cni_gnode *n)
{
  if (n->info->id != CNI_OP_add || n->nin != 2 || n->args[2].tag != CN_V_FLOAT || n->args[2].u.f != 1) return -1;
  return d->absent[n->in[0]] ? n->in[1] : n->in[0];
}

/* Results of a node; 0, or an error; 1: zeros must stand for what is absent. */
static int go_through(dropping *d, size_t node)
{
  const cni_gnode *n = &d->g->nodes[node];
  int nlate = 0, nabsent = 0;
  for (int k = 0; k < n->nin; k++) {
    nlate += n->in[k] >= 0 && d->late[n->in[k]];
    nabsent += n->in[k] >= 0 && d->absent[n->in[k]];
  }
  for (int k = 0; k < n->nout; k++) d->late[n->out[k]] = nlate > 0;
  if (!nabsent) return CN_OK;
  if (nabsent == nlate) {
    for (int k = 0; k < n->nout; k++) d->absent[n->out[k]] = true;
    return CN_OK;
  }
  int part = other_part(d, n);
  if (part < 0) return 1;
  int status = cn_graph_replace(d->g, n->out[0], part);
  return status < 0 ? status : CN_OK;
}

/* Outputs that are there stay, in order; *gradient says which those are. */
static void drop_outputs(dropping *d, int *gradient, size_t n)
{
  cn_graph *g = d->g;
  size_t left = 0;
  for (size_t i = 0; i < n; i++) {
    if (gradient[i] < 0) continue;
    int value = g->outputs[gradient[i]];
    gradient[i] = d->absent[value] ? -1 : (int)left;
    if (gradient[i] >= 0) g->outputs[left++] = value; /* gradients stand in the order of their outputs */
  }
  g->noutputs = left;
  cni_graph_changed(g);
}

static int drop(dropping *d, const cni_executable *p, uint64_t absent, int *gradient)
{
  cn_graph *g = d->g;
  int status = CN_OK;
  for (size_t i = 0, n = p->nkept; i < p->noutputs; i++) {
    if (!p->carries[i]) continue;
    d->late[g->inputs[n]] = true;
    d->absent[g->inputs[n++]] = (absent >> i & 1) != 0;
  }
  for (size_t i = 0; i < g->nnodes && !status; i++) status = go_through(d, i);
  if (status) return status;
  drop_outputs(d, gradient, p->ninputs + p->nleaves);
  if (cn_graph_remove_dead(g) < 0 || cn_graph_fuse(g, cni_compile_exact()) < 0) return cn_err();
  return CN_OK;
}

static cni_backward_graph *new_graph(const cni_executable *p, uint64_t absent)
{
  size_t n = p->ninputs + p->nleaves;
  cni_backward_graph *b = cni_alloc_zero(sizeof *b);
  dropping d = {.g = b ? cn_graph_copy(p->single[1]) : NULL};
  size_t bytes = d.g ? 2 * d.g->nvalues + 1 : 1;
  d.late = d.g ? cni_alloc_zero(bytes) : NULL;
  d.absent = d.late + (d.late ? d.g->nvalues : 0);
  if (b) *b = (cni_backward_graph){.absent = absent, .n = n, .gradient = d.late ? cni_alloc(n * sizeof(int)) : NULL};
  int status = b && b->gradient ? CN_OK : CN_ERR_MEMORY;
  if (!status) memcpy(b->gradient, p->gradient, n * sizeof(int));
  if (!status) status = drop(&d, p, absent, b->gradient);
  cni_free(d.late, bytes);
  if (!status) b->graph = d.g;
  else cn_graph_free(d.g);
  if (status >= 0) return b; /* 1: zeros do */
  cni_backward_graphs_free(b);
  return NULL;
}

void cni_backward_graphs_free(cni_backward_graph *list)
{
  while (list) {
    cni_backward_graph *next = list->next;
    cn_graph_free(list->graph);
    cni_free(list->gradient, list->n * sizeof *list->gradient);
    cni_free(list, sizeof *list);
    list = next;
  }
}

const cni_backward_graph *cni_backward_without(cni_executable *p, uint64_t absent)
{
  pthread_mutex_lock(&p->lock);
  cni_backward_graph *b = p->others;
  while (b && b->absent != absent) b = b->next;
  if (!b && (b = new_graph(p, absent))) {
    b->next = p->others;
    p->others = b;
  }
  pthread_mutex_unlock(&p->lock);
  return b;
}
