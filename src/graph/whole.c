/* whole.c: see whole.h. */
#include "whole.h"

#include <string.h>

/* The one device that all tensors of the graph are on; 0: there are several, or none. */
static cn_device only_device(const cn_graph *g)
{
  cn_device device = 0;
  for (size_t i = 0; i < g->nvalues; i++) {
    const cni_gvalue *v = &g->values[i];
    if (v->kind == CNI_VALUE_SCALAR || v->kind == CNI_VALUE_CONST) continue;
    if (device && v->device != device) return 0;
    device = v->device;
  }
  return device;
}

/* What a run is asked for: the memory of whatever it hands out or writes. */
static void want(cni_plan *p, const cn_graph *g, int value)
{
  int root = value < 0 ? -1 : p->values[value].root;
  if (root < 0 || g->values[root].kind != CNI_VALUE_RESULT) return;
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

/* The device that a graph may be given to; 0: none. */
static cn_device taker(const cn_graph *g)
{
  cn_device device = g->exprs.n || !g->nnodes ? 0 : only_device(g);
  for (size_t i = 0; i < g->nnodes; i++) /* these graphs go node by node; what nodes hold may be taken whole */
    if (g->nodes[i].nsubs || g->nodes[i].host) device = 0;
  return device == CN_CPU ? 0 : device;
}

bool cni_may_be_whole(const cn_graph *g) { return taker(g) != 0; }

int cni_plan_whole(cni_plan *p, const cn_graph *g)
{
  cn_device device = taker(g);
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
