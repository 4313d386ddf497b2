/* extract.c: see extract.h. Nodes keep their order; values are numbered anew as they are met.
 *
 * Invariant: a value of the part is an input, a state, a number, a constant, or made by a node of the part: anything
 * else is an error of the caller. */
#include "extract.h"

#include <string.h>

#include "tensor/args.h"
#include "tensor/tensor.h"

typedef struct copying {
  const cn_graph *from;
  cn_graph *to;
  int *id; /* per value of `from`: its number in `to`; -1: not there */
} copying;

static int copy_value(copying *c, int value)
{
  cni_gvalue v = c->from->values[value];
  c->id[value] = cni_graph_add_value(c->to, &v);
  if (c->id[value] >= 0) cni_tensor_keep(v.tensor); /* a constant's */
  return c->id[value];
}

static int copy_state(copying *c, int value)
{
  cn_graph *to = c->to;
  const cni_gstate *s = &c->from->states[c->from->values[value].index];
  if (cni_grow((void **)&to->states, &to->states_cap, to->nstates + 1, sizeof *to->states)) return CN_ERR_MEMORY;
  int id = copy_value(c, value);
  if (id < 0) return id;
  to->values[id].index = (int32_t)to->nstates;
  to->states[to->nstates++] = (cni_gstate){cni_tensor_keep(s->tensor), id, -1, NULL, s->trained};
  int status = s->name ? cn_graph_name_state(to, to->nstates - 1, s->name) : CN_OK;
  return status ? status : id;
}

/* The number of a value that the part reads. */
static int value_in(copying *c, int value)
{
  if (value < 0 || c->id[value] >= 0) return value < 0 ? -1 : c->id[value];
  enum cni_value_kind kind = c->from->values[value].kind;
  if (kind == CNI_VALUE_STATE) return copy_state(c, value);
  if (kind == CNI_VALUE_SCALAR || kind == CNI_VALUE_CONST) return copy_value(c, value);
  return cni_fail(CN_ERR_INTERNAL, "graph: a part reads value %d, which it is not given", value);
}

static int copy_inputs(copying *c, const cni_part *part)
{
  for (size_t i = 0; i < part->ninputs; i++) {
    int id = copy_value(c, part->inputs[i]);
    if (id < 0 || cni_graph_list_input(c->to, id)) return CN_ERR_MEMORY;
    cni_gvalue *v = &c->to->values[id];
    v->kind = CNI_VALUE_INPUT;
    v->index = (int32_t)i;
    v->node = 0;
    cni_tensor_release(v->tensor);
    v->tensor = NULL;
  }
  return CN_OK;
}

static int copy_node(copying *c, const cni_gnode *n, int *in)
{
  for (int k = 0; k < n->nin; k++)
    if ((in[k] = value_in(c, n->in[k])) < 0 && n->in[k] >= 0) return cn_err();
  int node = cni_graph_add_node(c->to, n->info, n->args, n->nargs, in, n->nin, n->nout);
  if (node < 0) return CN_ERR_MEMORY;
  c->to->nodes[node].draw = n->draw;
  c->to->nodes[node].scope = n->scope;
  if (cni_gnode_copy_held(&c->to->nodes[node], n)) return CN_ERR_MEMORY;
  for (int k = 0; k < n->nout; k++) {
    int id = copy_value(c, n->out[k]);
    if (id < 0) return CN_ERR_MEMORY;
    c->to->values[id].node = node;
    c->to->nodes[node].out[k] = id;
  }
  return CN_OK;
}

static int copy_nodes(copying *c, const cni_part *part)
{
  int most = 0, status = CN_OK;
  for (size_t i = 0; i < c->from->nnodes; i++)
    if (part->nodes[i] && c->from->nodes[i].nin > most) most = c->from->nodes[i].nin;
  int *in = cni_alloc(((size_t)most + 1) * sizeof *in);
  if (!in) return CN_ERR_MEMORY;
  for (size_t i = 0; i < c->from->nnodes && !status; i++)
    if (part->nodes[i]) status = copy_node(c, &c->from->nodes[i], in);
  cni_free(in, ((size_t)most + 1) * sizeof *in);
  return status;
}

/* ---- what is not nodes ---- */

static int copy_draws(copying *c)
{
  cn_graph *to = c->to;
  size_t n = c->from->ndraws;
  if (cni_grow((void **)&to->draws, &to->draws_cap, n, sizeof *to->draws)) return CN_ERR_MEMORY;
  if (n) memcpy(to->draws, c->from->draws, n * sizeof *to->draws);
  to->ndraws = n;
  return CN_OK;
}

static int *copy_ids(const copying *c, const int *values, int n)
{
  int *ids = cni_alloc((size_t)n * sizeof *ids);
  for (int k = 0; ids && k < n; k++) ids[k] = values[k] < 0 ? -1 : c->id[values[k]];
  return ids;
}

static int copy_scope(copying *c, const cni_gscope *s)
{
  cn_graph *to = c->to;
  if (cni_grow((void **)&to->scopes, &to->scopes_cap, to->nscopes + 1, sizeof *to->scopes)) return CN_ERR_MEMORY;
  cni_gscope *copy = &to->scopes[to->nscopes++];
  *copy = (cni_gscope){.parent = s->parent, .op = s->op, .args_size = s->args_size};
  if (!s->op) {
    copy->name = cni_strdup(s->name);
    copy->kind = cni_strdup(s->kind);
    return copy->name && copy->kind ? CN_OK : CN_ERR_MEMORY;
  }
  if (!(copy->args = cni_alloc(s->args_size))) return CN_ERR_MEMORY;
  cni_args_copy(copy->args, s->args, s->nargs);
  copy->nargs = s->nargs;
  if (!(copy->in = copy_ids(c, s->in, s->nin))) return CN_ERR_MEMORY;
  copy->nin = s->nin;
  if (!(copy->out = copy_ids(c, s->out, s->nout))) return CN_ERR_MEMORY;
  copy->nout = s->nout;
  return CN_OK;
}

static int copy_leaf(copying *c, const cni_gleaf *l)
{
  cn_graph *to = c->to;
  cni_gleaf row = *l;
  if (cni_grow((void **)&to->leaves, &to->leaves_cap, to->nleaves + 1, sizeof *to->leaves)) return CN_ERR_MEMORY;
  if (l->value >= 0 && (row.value = value_in(c, l->value)) < 0) return cn_err();
  int state = l->state >= 0 ? c->id[c->from->states[l->state].value] : -1;
  row.state = state >= 0 ? to->values[state].index : -1;
  cni_tensor_keep(row.tensor);
  cni_tensor_keep(row.given);
  to->leaves[to->nleaves++] = row;
  return CN_OK;
}

static int copy_effects(copying *c, const cni_part *part)
{
  const cn_graph *g = c->from;
  int status = CN_OK;
  for (size_t i = 0; i < g->nstates && !status; i++) {
    if (g->states[i].final < 0) continue;
    int state = value_in(c, g->states[i].value), final = value_in(c, g->states[i].final);
    if (state < 0 || final < 0) return cn_err();
    c->to->states[c->to->values[state].index].final = final;
  }
  for (size_t i = 0; i < part->ninputs && !status; i++) {
    const cni_gvalue *v = &g->values[part->inputs[i]];
    int final = v->kind == CNI_VALUE_INPUT ? g->input_finals[v->index] : -1;
    if (final >= 0 && (c->to->input_finals[i] = value_in(c, final)) < 0) return cn_err();
  }
  for (size_t i = 0; i < g->nleaves && !status; i++) status = copy_leaf(c, &g->leaves[i]);
  return status;
}

static int copy_outputs(copying *c, const cni_part *part)
{
  cn_graph *to = c->to;
  for (size_t i = 0; i < part->noutputs; i++) {
    int id = value_in(c, part->outputs[i]);
    if (id < 0) return cn_err();
    if (cni_graph_add_list(&to->outputs, &to->noutputs, &to->outputs_cap, id)) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

cn_graph *cni_graph_extract(const cn_graph *whole, const cni_part *part)
{
  copying c = {whole, cn_graph_new(), NULL};
  size_t bytes = (whole->nvalues + 1) * sizeof *c.id;
  c.id = c.to ? cni_alloc(bytes) : NULL;
  int status = c.id ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; c.id && i < whole->nvalues; i++) c.id[i] = -1;
  if (!status) status = copy_inputs(&c, part);
  if (!status) status = copy_nodes(&c, part);
  if (!status) status = copy_outputs(&c, part);
  if (!status && part->effects) status = copy_effects(&c, part);
  if (!status) status = copy_draws(&c);
  for (size_t i = 0; i < whole->nscopes && !status; i++) status = copy_scope(&c, &whole->scopes[i]);
  cni_free(c.id, bytes);
  if (!status) status = cn_graph_verify(c.to);
  if (!status) return c.to;
  cn_graph_free(c.to);
  return NULL;
}
