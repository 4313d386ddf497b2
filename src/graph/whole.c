/* whole.c: see whole.h. */
#include "whole.h"

#include <string.h>

enum { HOST_MOST = 4096 }; /* elements of a tensor in host memory that a device is given with each run */

static bool is_number(const cni_gvalue *v) { return v->kind == CNI_VALUE_SCALAR || v->kind == CNI_VALUE_CONST; }

static bool on_host(const cn_graph *g, int value)
{
  return value >= 0 && !is_number(&g->values[value]) && g->values[value].device == CN_CPU;
}

/* What is computed in host memory depends on nothing that is elsewhere. */
static bool host_first(const cn_graph *g, const cni_gnode *n)
{
  for (int k = 0; k < n->nin && n->nout && on_host(g, n->out[0]); k++)
    if (n->in[k] >= 0 && !is_number(&g->values[n->in[k]]) && !on_host(g, n->in[k])) return false;
  return true;
}

/* The one device that all tensors of the graph are on, but for those in host memory, if it takes such; 0: there are
 * several, or none. */
static cn_device only_device(const cn_graph *g, bool *mixed)
{
  cn_device device = 0;
  bool small = true;
  *mixed = false;
  for (size_t i = 0; i < g->nvalues; i++) {
    const cni_gvalue *v = &g->values[i];
    if (is_number(v)) continue;
    if (v->device == CN_CPU) {
      *mixed = true;
      small = small && cni_numel(v->ndim, v->shape) <= HOST_MOST;
    } else if (device && v->device != device) return 0;
    else device = v->device;
  }
  if (!*mixed || !device) return device ? device : CN_CPU;
  for (size_t i = 0; i < g->nnodes; i++) small = small && host_first(g, &g->nodes[i]);
  return small && cni_device_can(device, CN_CAN_HOST_STATES) ? device : 0;
}

/* What a run is asked for: the memory of whatever it hands out or writes. */
static void want(cni_plan *p, const cn_graph *g, int value)
{
  int root = value < 0 ? -1 : p->values[value].root;
  if (root < 0 || g->values[root].kind != CNI_VALUE_RESULT || on_host(g, root)) return;
  for (size_t i = 0; i < p->nwanted; i++)
    if (p->wanted[i] == root) return;
  p->wanted[p->nwanted++] = root;
}

static int find_wanted(cni_plan *p, const cn_graph *g)
{
  p->wanted_cap = g->noutputs + g->nstates + g->ninputs + g->nleaves;
  if (!(p->wanted = cni_alloc(p->wanted_cap * sizeof *p->wanted))) return CN_ERR_MEMORY;
  for (size_t i = 0; i < g->noutputs; i++) want(p, g, g->outputs[i]);
  for (size_t i = 0; i < g->nstates; i++) want(p, g, g->states[i].final);
  for (size_t i = 0; i < g->ninputs; i++) want(p, g, g->input_finals[i]);
  for (size_t i = 0; i < g->nleaves; i++) want(p, g, g->leaves[i].value);
  return CN_OK;
}

static bool all_there(const cn_graph *g, cn_device device);

/* No node needs the host, and what nodes hold is on the device, which takes such. */
static bool nodes_there(const cn_graph *g, cn_device device)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    if (n->host || (n->nsubs && !cni_device_can(device, CN_CAN_CONTROL))) return false;
    for (int k = 0; k < n->nsubs; k++)
      if (!all_there(n->subs[k], device)) return false;
  }
  return true;
}

/* A graph inside of another. */
static bool all_there(const cn_graph *g, cn_device device)
{
  for (size_t i = 0; i < g->nvalues; i++)
    if (!is_number(&g->values[i]) && g->values[i].device != device) return false;
  return !g->exprs.n && nodes_there(g, device);
}

/* The device that a graph may be given to; 0: none. */
static cn_device taker(const cn_graph *g, bool *mixed)
{
  cn_device device = g->exprs.n || !g->nnodes ? 0 : only_device(g, mixed);
  return device == CN_CPU || !device || !nodes_there(g, device) ? 0 : device;
}

bool cni_may_be_whole(const cn_graph *g)
{
  bool mixed;
  return taker(g, &mixed) != 0;
}

int cni_plan_whole(cni_plan *p, const cn_graph *g)
{
  cn_device device = taker(g, &p->mixed);
  if (!device) return CN_OK;
  int status = find_wanted(p, g);
  const cn_spec **specs = status ? NULL : cni_alloc(g->nnodes * sizeof *specs);
  if (!specs) return CN_ERR_MEMORY;
  for (size_t i = 0; i < g->nnodes; i++) specs[i] = &p->specs[p->first_spec[i]];
  cn_whole_graph whole = {sizeof whole, g, p->wanted, p->nwanted, specs, p->compute};
  status = cni_whole.compile(device, &p->executable, &whole);
  cni_free(specs, g->nnodes * sizeof *specs);
  if (status == CN_REFUSED) return CN_OK;
  p->device = device;
  for (size_t i = 0; i < p->nwanted && !status; i++) p->values[p->wanted[i]].is_output = true;
  return status;
}

int cni_whole_launch(const cni_plan *p, const cn_graph *g, cn_tensor *const *now, uint64_t seed, uint64_t offset)
{
  size_t n = g->ninputs + g->nstates + p->nwanted;
  cn_tensor **all = cni_alloc((n + 1) * sizeof *all), **states = all + g->ninputs, **out = states + g->nstates;
  if (!all) return CN_ERR_MEMORY;
  for (size_t i = 0; i < g->ninputs; i++) all[i] = now[g->inputs[i]];
  for (size_t i = 0; i < g->nstates; i++) states[i] = g->states[i].tensor;
  for (size_t i = 0; i < p->nwanted; i++) out[i] = now[p->wanted[i]];
  cn_graph_launch run = {sizeof run, all, states, out, seed, offset, p->draws,
                         cni_state()->nstreams ? cni_memory.stream(p->device) : NULL};
  int status = cni_whole.launch(p->device, p->executable, &run);
  cni_free(all, (n + 1) * sizeof *all);
  return status;
}
