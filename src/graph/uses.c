/* uses.c: who reads each value: one array of uses, and where each value's begin.
 *
 * Place in the flow: passes and plugins ask (ext/graph.h); counted once, until the graph changes. Invariant: a value's
 * uses stand in the order of nodes, then outputs, states, inputs, gradients. */
#include "base/alloc.h"
#include "base/state.h"
#include "ir.h"

typedef struct cni_uses {
  cn_graph_use *use; /* of value 0, of value 1, ... */
  size_t *first;     /* nvalues + 1 */
  size_t nvalues, nuses;
} cni_uses;

void cni_uses_free(cni_uses *u)
{
  if (!u) return;
  cni_free(u->use, u->nuses * sizeof *u->use);
  cni_free(u->first, (u->nvalues + 1) * sizeof *u->first);
  cni_free(u, sizeof *u);
}

typedef void (*note_fn)(cni_uses *u, int value, cn_graph_use use);

static void count(cni_uses *u, int value, cn_graph_use use)
{
  (void)use;
  u->first[value + 1]++;
}

/* first[v] runs up to where the next value's begin; afterwards all are moved on by one. */
static void put(cni_uses *u, int value, cn_graph_use use) { u->use[u->first[value]++] = use; }

static void walk(cni_uses *u, const cn_graph *g, note_fn note)
{
  for (size_t i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin; k++)
      if (g->nodes[i].in[k] >= 0) note(u, g->nodes[i].in[k], (cn_graph_use){CN_USE_NODE, (int)i, k});
  for (size_t i = 0; i < g->noutputs; i++) note(u, g->outputs[i], (cn_graph_use){CN_USE_OUTPUT, (int)i, 0});
  for (size_t i = 0; i < g->nstates; i++)
    if (g->states[i].final >= 0) note(u, g->states[i].final, (cn_graph_use){CN_USE_STATE, (int)i, 0});
  for (size_t i = 0; i < g->ninputs; i++)
    if (g->input_finals[i] >= 0) note(u, g->input_finals[i], (cn_graph_use){CN_USE_INPUT, (int)i, 0});
  for (size_t i = 0; i < g->nleaves; i++)
    if (g->leaves[i].value >= 0) note(u, g->leaves[i].value, (cn_graph_use){CN_USE_GRADIENT, (int)i, 0});
}

static cni_uses *make(const cn_graph *g)
{
  cni_uses *u = cni_alloc_zero(sizeof *u);
  if (!u) return NULL;
  u->nvalues = g->nvalues;
  u->first = cni_alloc_zero((u->nvalues + 1) * sizeof *u->first);
  if (u->first) {
    walk(u, g, count);
    for (size_t i = 0; i < u->nvalues; i++) u->first[i + 1] += u->first[i];
    u->nuses = u->first[u->nvalues];
    u->use = cni_alloc(u->nuses * sizeof *u->use);
  }
  if (u->use) {
    walk(u, g, put);
    for (size_t i = u->nvalues; i > 0; i--) u->first[i] = u->first[i - 1];
    u->first[0] = 0;
    return u;
  }
  cni_uses_free(u);
  return NULL;
}

int cn_graph_users(const cn_graph_use **uses, cn_graph *g, int value)
{
  if (!g || !cni_is_value(g, value)) return cni_fail(CN_ERR_INDEX, "graph_users: there is no value %d", value);
  pthread_mutex_lock(&g->lock);
  if (!g->uses) g->uses = make(g);
  const cni_uses *u = g->uses;
  pthread_mutex_unlock(&g->lock);
  if (!u) return CN_ERR_MEMORY;
  if (uses) *uses = u->use + u->first[value];
  return (int)(u->first[value + 1] - u->first[value]);
}

bool cni_handed_out(const cn_graph *g, int value)
{
  for (size_t i = 0; i < g->noutputs; i++)
    if (g->outputs[i] == value) return true;
  for (size_t i = 0; i < g->nleaves; i++)
    if (g->leaves[i].value == value) return true;
  return false;
}
