/* copy.c: a graph once more: the same values, nodes and scopes under the same numbers, bound to the same tensors.
 *
 * Place in the flow: whoever changes a graph for a purpose of its own works on a copy: cn_graph_save lifts one, lower.c
 * takes one apart. Invariant: the copy shares no memory with the graph but tensors, which are counted. */
#include <string.h>

#include "base/alloc.h"
#include "control.h"
#include "tensor/args.h"
#include "tensor/tensor.h"

/* Copies n items into a list that is empty so far. */
static int copy_items(void **to, size_t *cap, const void *from, size_t n, size_t size)
{
  if (cni_grow(to, cap, n, size)) return CN_ERR_MEMORY;
  if (n) memcpy(*to, from, n * size);
  return CN_OK;
}

static int copy_syms(cni_gsyms *to, const cni_gsyms *from)
{
  int status = CN_OK;
  for (size_t i = 0; i < from->n && !status; i++)
    status = cni_syms_add(to, from->v[i].arg, from->v[i].element, from->v[i].expr);
  return status;
}

static int copy_values(cn_graph *to, const cn_graph *g)
{
  int status = CN_OK;
  for (size_t i = 0; i < g->nvalues && !status; i++) {
    status = cni_graph_add_value(to, &g->values[i]);
    if (status >= 0) cni_tensor_keep(to->values[i].tensor), status = CN_OK;
  }
  return status;
}

int cni_gnode_copy_held(cni_gnode *to, const cni_gnode *from)
{
  cn_graph *subs[2] = {NULL, NULL};
  int status = CN_OK;
  to->host = from->host ? cni_host_keep(from->host) : NULL;
  for (int k = 0; k < from->nsubs && !status; k++)
    if (!(subs[k] = cn_graph_copy(from->subs[k]))) status = CN_ERR_MEMORY;
  if (!status) status = cni_gnode_hold(to, subs, from->nsubs);
  for (int k = 0; k < from->nsubs && status; k++) cn_graph_free(subs[k]);
  return status;
}

static int copy_nodes(cn_graph *to, const cn_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    if (cni_graph_add_node(to, n->info, n->args, n->nargs, n->in, n->nin, n->nout) < 0) return CN_ERR_MEMORY;
    cni_gnode *copy = &to->nodes[i];
    memcpy(copy->out, n->out, (size_t)n->nout * sizeof *n->out);
    copy->draw = n->draw;
    copy->scope = n->scope;
    if (copy_syms(&copy->syms, &n->syms) || cni_gnode_copy_held(copy, n)) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

static int copy_states(cn_graph *to, const cn_graph *g)
{
  for (size_t i = 0; i < g->nstates; i++) {
    const cni_gstate *s = &g->states[i];
    if (cni_grow((void **)&to->states, &to->states_cap, i + 1, sizeof *to->states)) return CN_ERR_MEMORY;
    to->states[to->nstates++] = (cni_gstate){cni_tensor_keep(s->tensor), s->value, s->final, NULL, s->trained};
    if (s->name && !(to->states[i].name = cni_strdup(s->name))) return CN_ERR_MEMORY;
    if (!s->carried) continue;
    if (!(to->states[i].carried = cni_alloc_zero(sizeof *s->carried))) return CN_ERR_MEMORY;
    to->states[i].carried->of = s->carried->of;
  }
  for (size_t i = 0; i < g->nleaves; i++) {
    if (cni_grow((void **)&to->leaves, &to->leaves_cap, i + 1, sizeof *to->leaves)) return CN_ERR_MEMORY;
    to->leaves[to->nleaves++] = g->leaves[i];
    cni_tensor_keep(g->leaves[i].tensor);
    cni_tensor_keep(g->leaves[i].given);
  }
  return CN_OK;
}

static int copy_ids(int **to, const int *from, int n)
{
  if (!(*to = cni_alloc((size_t)n * sizeof **to))) return CN_ERR_MEMORY;
  if (n) memcpy(*to, from, (size_t)n * sizeof **to);
  return CN_OK;
}

static int copy_scope(cni_gscope *to, const cni_gscope *s)
{
  *to = (cni_gscope){.parent = s->parent, .op = s->op};
  if (!s->op) {
    to->name = cni_strdup(s->name);
    to->kind = cni_strdup(s->kind);
    return to->name && to->kind ? CN_OK : CN_ERR_MEMORY;
  }
  if (!(to->args = cni_alloc(s->args_size))) return CN_ERR_MEMORY;
  to->args_size = s->args_size;
  to->nargs = s->nargs;
  cni_args_copy(to->args, s->args, s->nargs);
  if (copy_ids(&to->in, s->in, s->nin)) return CN_ERR_MEMORY;
  to->nin = s->nin;
  if (copy_ids(&to->out, s->out, s->nout)) return CN_ERR_MEMORY;
  to->nout = s->nout;
  return copy_syms(&to->syms, &s->syms);
}

static int copy_scopes(cn_graph *to, const cn_graph *g)
{
  int status = CN_OK;
  for (size_t i = 0; i < g->nscopes && !status; i++) {
    if (cni_grow((void **)&to->scopes, &to->scopes_cap, i + 1, sizeof *to->scopes)) return CN_ERR_MEMORY;
    status = copy_scope(&to->scopes[to->nscopes++], &g->scopes[i]);
  }
  return status;
}

/* Lists of plain numbers. */
static int copy_lists(cn_graph *to, const cn_graph *g)
{
  for (size_t i = 0; i < g->ninputs; i++) {
    if (cni_graph_list_input(to, g->inputs[i])) return CN_ERR_MEMORY;
    to->input_finals[i] = g->input_finals[i];
  }
  if (copy_items((void **)&to->outputs, &to->outputs_cap, g->outputs, g->noutputs, sizeof *g->outputs) ||
      copy_items((void **)&to->draws, &to->draws_cap, g->draws, g->ndraws, sizeof *g->draws) ||
      copy_items((void **)&to->sizes, &to->sizes_cap, g->sizes, g->nsizes, sizeof *g->sizes))
    return CN_ERR_MEMORY;
  to->noutputs = g->noutputs;
  to->ndraws = g->ndraws;
  to->nsizes = g->nsizes;
  return cni_exprs_copy(&to->exprs, &g->exprs);
}

cn_graph *cn_graph_copy(const cn_graph *g)
{
  if (cn_err()) return NULL;
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_copy: the graph is NULL"), NULL;
  cn_graph *to = cn_graph_new();
  if (!to) return NULL;
  to->closed = g->closed;
  to->fast = g->fast;
  int status = copy_values(to, g);
  if (!status) status = copy_nodes(to, g);
  if (!status) status = copy_states(to, g);
  if (!status) status = copy_scopes(to, g);
  if (!status) status = copy_lists(to, g);
  if (!status) status = cni_weights_copy(to, g);
  if (!status) return to;
  cn_graph_free(to);
  return NULL;
}
