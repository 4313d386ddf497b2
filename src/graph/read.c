/* read.c: what ext/graph.h lets others see of a graph.
 *
 * Place in the flow: exporters, devices that take graphs whole and plugins read by it; build.c is the writing half.
 * Invariant: nothing here changes the graph. */
#include <string.h>

#include "base/alloc.h"
#include "base/state.h"
#include "ir.h"

/* Copies as much of a struct as the caller knows: its first member says how much that is. */
static int give(void *out, const void *full, size_t most, const char *who)
{
  size_t size;
  memcpy(&size, out, sizeof size);
  if (size < sizeof size) return cni_fail(CN_ERR_VALUE, "%s: the struct's size is not set", who);
  memcpy((char *)out + sizeof size, (const char *)full + sizeof size, (size < most ? size : most) - sizeof size);
  return CN_OK;
}

static bool has(const cn_graph *g, int i, size_t n) { return g && i >= 0 && (size_t)i < n; }

size_t cn_graph_values(const cn_graph *g) { return g ? g->nvalues : 0; }
size_t cn_graph_scopes(const cn_graph *g) { return g ? g->nscopes : 0; }
size_t cn_graph_gradients(const cn_graph *g) { return g ? g->nleaves : 0; }

int cn_graph_value_at(cn_value_info *out, const cn_graph *g, int i)
{
  if (!out || !has(g, i, cn_graph_values(g))) return cni_fail(CN_ERR_INDEX, "graph: there is no value %d", i);
  const cni_gvalue *v = &g->values[i];
  cn_value_info full = {.kind = (int32_t)v->kind, .dtype = v->dtype, .ndim = v->ndim, .index = v->index,
                         .node = v->kind == CNI_VALUE_RESULT ? v->node : -1, .device = v->device, .weak = v->weak,
                         .number = v->number, .integer = v->integer, .tensor = v->tensor};
  if (v->kind == CNI_VALUE_STATE) full.tensor = g->states[v->index].tensor;
  memcpy(full.shape, v->shape, sizeof full.shape);
  return give(out, &full, sizeof full, "graph_value_at");
}

int cn_graph_node_at(cn_graph_node *out, const cn_graph *g, int i)
{
  if (!out || !has(g, i, cn_graph_nodes(g))) return cni_fail(CN_ERR_INDEX, "graph: there is no node %d", i);
  const cni_gnode *n = &g->nodes[i];
  cn_graph_node full = {.op = n->info->row, .name = n->info->name, .args = n->args, .in = n->in, .out = n->out,
                        .nargs = n->nargs, .nin = n->nin, .nout = n->nout, .draw = n->draw, .scope = n->scope,
                        .subs = n->subs, .nsubs = n->nsubs};
  return give(out, &full, sizeof full, "graph_node_at");
}

int cn_graph_scope_at(cn_graph_scope *out, const cn_graph *g, int i)
{
  if (!out || !has(g, i, cn_graph_scopes(g))) return cni_fail(CN_ERR_INDEX, "graph: there is no scope %d", i);
  const cni_gscope *s = &g->scopes[i];
  cn_graph_scope full = {.parent = s->parent, .name = s->name, .kind = s->kind, .op = s->op ? s->op->row : NULL,
                         .args = s->args, .in = s->in, .out = s->out, .nargs = s->nargs, .nin = s->nin,
                         .nout = s->nout};
  return give(out, &full, sizeof full, "graph_scope_at");
}

int cn_graph_gradient_at(cn_graph_gradient *out, const cn_graph *g, int i)
{
  if (!out || !has(g, i, cn_graph_gradients(g))) return cni_fail(CN_ERR_INDEX, "graph: there is no gradient %d", i);
  const cni_gleaf *l = &g->leaves[i];
  cn_graph_gradient full = {.state = l->state, .value = l->value, .cleared = l->after == CNI_GRAD_CLEARED};
  return give(out, &full, sizeof full, "graph_gradient_at");
}

int cn_graph_input(const cn_graph *g, size_t i) { return g && i < g->ninputs ? g->inputs[i] : CN_ERR_INDEX; }
int cn_graph_input_final(const cn_graph *g, size_t i)
{
  return g && i < g->ninputs ? g->input_finals[i] : CN_ERR_INDEX;
}
int cn_graph_output(const cn_graph *g, size_t i) { return g && i < g->noutputs ? g->outputs[i] : CN_ERR_INDEX; }
int cn_graph_state_value(const cn_graph *g, size_t i)
{
  return g && i < g->nstates ? g->states[i].value : CN_ERR_INDEX;
}
int cn_graph_state_final(const cn_graph *g, size_t i)
{
  return g && i < g->nstates ? g->states[i].final : CN_ERR_INDEX;
}

size_t cn_graph_draws(const cn_graph *g) { return g ? g->ndraws : 0; }
int64_t cn_graph_draw_offset(const cn_graph *g, size_t i)
{
  int64_t at = 0;
  if (!g || i > g->ndraws) return CN_ERR_INDEX;
  for (size_t k = 0; k < i; k++) at += g->draws[k].count;
  return at;
}
