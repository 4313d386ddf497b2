/* states.c: the names of states, and what keeping them in a file takes.
 *
 * Place in the flow: formats/graph_file.c writes states under these names, and binds what it read. Invariant: names are
 * distinct, and none looks like that of a state without one. */
#include <cairn/autograd.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/system.h>
#include <cairn/ops.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "control.h"
#include "ops/apply.h"
#include "tensor/tensor.h"

uint32_t cni_op_version(const cni_opinfo *info) { return info->row->version ? info->row->version : 1; }

const char *cn_graph_state_name(const cn_graph *g, size_t i)
{
  return g && i < g->nstates ? g->states[i].name : NULL;
}

/* Names stand in quotes on a line, and as keys of a file. */
static bool good_name(const char *name)
{
  if (!*name || cn_string_starts(name, "state.") || cn_string_starts(name, "__")) return false;
  for (const char *s = name; *s; s++)
    if ((unsigned char)*s < ' ' || *s == 127) return false;
  return strlen(name) < CNI_STATE_NAME;
}

int cn_graph_name_state(cn_graph *g, size_t i, const char *name)
{
  if (!g || i >= g->nstates) return cni_fail(CN_ERR_INDEX, "graph: there is no state %zu", i);
  if (name && !good_name(name)) return cni_fail(CN_ERR_VALUE, "graph: a state cannot be called '%.100s'", name);
  for (size_t k = 0; name && k < g->nstates; k++)
    if (k != i && g->states[k].name && !strcmp(g->states[k].name, name))
      return cni_fail(CN_ERR_VALUE, "graph: state %zu is called '%.100s' already", k, name);
  char *copy = name ? cni_strdup(name) : NULL;
  if (name && !copy) return CN_ERR_MEMORY;
  cn_string_free(g->states[i].name);
  g->states[i].name = copy;
  return CN_OK;
}

const char *cn_graph_state_key(const cn_graph *g, size_t i, char *room, size_t size)
{
  if (!g || i >= g->nstates) return NULL;
  if (g->states[i].name) return g->states[i].name;
  snprintf(room, size, "state.%zu", i);
  return room;
}

/* Two states in one memory, one of which a run writes: in a file they would part. */
static bool entangled(const cn_graph *g, size_t i, size_t k)
{
  const cni_gstate *a = &g->states[i], *b = &g->states[k];
  const cni_storage *s = a->tensor->storage, *t = b->tensor->storage;
  bool apart = (uintptr_t)s->data + s->size <= (uintptr_t)t->data || (uintptr_t)t->data + t->size <= (uintptr_t)s->data;
  return s->device == t->device && !apart && (a->final >= 0 || b->final >= 0);
}

static const cni_host *host_in(const cn_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_host *host = g->nodes[i].host;
    for (int k = 0; k < g->nodes[i].nsubs && !host; k++) host = host_in(g->nodes[i].subs[k]);
    if (host) return host;
  }
  return NULL;
}

int cn_graph_can_save(const cn_graph *g)
{
  const cni_host *host = host_in(g);
  if (host)
    return cni_fail(CN_ERR_UNSUPPORTED, "graph_save: it calls %s, a function of this process, which a file cannot hold",
                    host->name);
  for (size_t i = 0; i < g->nstates; i++) {
    if (!g->states[i].tensor) return cni_fail(CN_ERR_VALUE, "graph_save: state %zu is not bound", i);
    for (size_t k = 0; k < i; k++)
      if (entangled(g, i, k))
        return cni_fail(CN_ERR_UNSUPPORTED, "graph_save: states %zu and %zu share memory that a run writes", k, i);
  }
  for (size_t i = 0; i < g->nleaves; i++)
    if (g->leaves[i].state < 0)
      return cni_fail(CN_ERR_UNSUPPORTED, "graph_save: a run gives a gradient to a tensor that the graph does not use, "
                      "which a file cannot name");
  return CN_OK;
}

/* In the memory order that the state had when it was traced, which decides what is a view. */
static cn_tensor *ordered(const cni_gvalue *v, cn_tensor *t)
{
  int64_t strides[CN_MAX_DIMS];
  if (!v->has_strides || t->d.ndim != v->ndim || !t->d.numel) return t;
  cni_traced_order(v, t->d.shape, strides);
  cn_tensor *copy = cni_scope_add(cni_tensor_new(t->d.device, t->d.dtype, t->d.ndim, t->d.shape, strides));
  return copy && !cni_copy_elements(copy, t) ? copy : NULL;
}

static bool gets_gradient(const cn_graph *g, size_t i)
{
  if (g->states[i].trained) return true;
  for (size_t k = 0; k < g->nleaves; k++)
    if (g->leaves[k].state == (int)i) return true;
  return false;
}

int cn_graph_bind_loaded(cn_graph *g, size_t i, cn_tensor *t)
{
  if (!g || i >= g->nstates) return cni_fail(CN_ERR_INDEX, "graph: there is no state %zu", i);
  const cni_gvalue *v = &g->values[g->states[i].value];
  if (t && v->device != t->d.device) t = cn_to_device(t, v->device);
  if (t) t = ordered(v, t);
  if (!t) return cn_err();
  if (gets_gradient(g, i)) cn_requires_grad(t, true);
  return cn_err() ? cn_err() : cn_graph_bind(g, i, t);
}
