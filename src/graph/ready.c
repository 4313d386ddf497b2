/* ready.c: the calls of a context's nodes, made ready once: what a run changes in them is tensors that are others in
 * each run, and random numbers.
 *
 * Place in the flow: context.c makes them with the context; run.c hands them to kernels, and has tensors filled in
 * where they are not there yet. Invariant: a call that is filled in holds the tensors that the context has now, which
 * is why contexts that leave their memory empty all of them. */
#include "plan.h"

#include <string.h>

static size_t most_args(const cni_gnode *n)
{
  return (size_t)(n->nargs > n->info->nparams ? n->nargs : n->info->nparams);
}

/* What a node's call needs besides a cni_ready. */
static size_t room_of(const cni_gnode *n)
{
  return most_args(n) * sizeof(cn_value) + (size_t)(n->nin + n->nout) * sizeof(cn_tensor *);
}

static bool varies(const cni_plan *p, const cni_gnode *n)
{
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] >= 0 && p->values[n->in[k]].varies) return true;
  for (int k = 0; k < n->nout; k++)
    if (p->values[n->out[k]].varies) return true;
  return false;
}

static void make(cni_ready *d, cni_context *c, const cni_plan *p, const cni_gnode *n, size_t node)
{
  d->varies = varies(p, n);
  memcpy(d->args, p->args[node], (size_t)n->nargs * sizeof *d->args);
  d->call = (cn_call){.op = n->info->row, .args = d->args, .in = d->in, .out = d->out,
                      .spec = &p->specs[p->first_spec[node]], .nargs = n->nargs, .nin = n->nin, .nout = n->nout,
                      .compute = p->compute[node], .fast = p->graph->fast};
  if (n->nout && p->values[n->out[0]].handle) d->call.device = p->values[n->out[0]].handle->d.device;
  if (!c->prepared || !p->stays[node]) return;
  d->keep = (cni_keep){p->store, &c->prepared[node], p->stays[node]};
  d->call.keep = &d->keep;
}

int cni_ready_new(cni_context *c, const cni_plan *p, const cn_graph *g)
{
  c->ready_bytes = p->nnodes * sizeof *c->ready;
  for (size_t i = 0; i < p->nnodes; i++) c->ready_bytes += room_of(&g->nodes[i]);
  if (!(c->ready = cni_alloc_zero(c->ready_bytes))) return CN_ERR_MEMORY;
  char *at = (char *)(c->ready + p->nnodes);
  for (size_t i = 0; i < p->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    cni_ready *d = &c->ready[i];
    d->args = (cn_value *)(void *)at;
    d->in = (cn_tensor **)(void *)(d->args + most_args(n));
    d->out = d->in + n->nin;
    at += room_of(n);
    make(d, c, p, n, i);
  }
  return CN_OK;
}

void cni_ready_empty(cni_context *c, const cni_plan *p)
{
  for (size_t i = 0; c->ready && i < p->nnodes; i++) c->ready[i].filled = false;
}

void cni_ready_fill(cni_ready *d, const cni_gnode *n, cn_tensor *const *now, cn_tensor *const *there)
{
  for (int k = 0; k < n->nin; k++) {
    int v = n->in[k];
    d->in[k] = v < 0 ? NULL : there && there[v] ? there[v] : now[v];
  }
  for (int k = 0; k < n->nout; k++) d->out[k] = now[n->out[k]];
  cni_fill_slots(n->info, d->args, d->in);
  d->filled = !there;
}
