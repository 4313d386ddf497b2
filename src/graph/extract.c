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
  const cni_part *part;
  cn_graph *to;
  int *id;   /* per value of `from`: its number in `to`; -1: not there */
  int *size; /* per size, likewise */
} copying;

/* ---- sizes ---- */

static void note_sizes(copying *c, const cni_gvalue *v)
{
  for (int d = 0; d < v->ndim; d++) {
    int s = cni_plain_size(c->from, v, d);
    if (s >= 0) c->size[s] = 0;
  }
}

/* Those that something defines in the part: a value that it is given, or a node. */
static int copy_sizes(copying *c)
{
  const cn_graph *g = c->from;
  for (size_t i = 0; i < c->part->ninputs; i++) note_sizes(c, &g->values[c->part->inputs[i]]);
  for (size_t i = 0; i < g->nnodes; i++)
    for (int k = 0; c->part->nodes[i] && k < g->nodes[i].nout; k++) note_sizes(c, &g->values[g->nodes[i].out[k]]);
  for (size_t i = 0; i < g->nsizes; i++) {
    const cni_gsize *z = &g->sizes[i];
    if (c->size[i] < 0) continue;
    c->size[i] = (int)c->to->nsizes;
    if (cni_graph_add_size(c->to, z->name, z->traced, z->min, z->max)) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

/* The expression in the part; 0 where it was 0. */
static int copy_expr(copying *c, int expr)
{
  int e = expr ? cni_expr_copy(&c->to->exprs, &c->from->exprs, expr, c->size) : 0;
  if (e != CN_ERR_VALUE) return e;
  return cni_fail(CN_ERR_CAPTURE, "graph: a number follows from a size that this part of the graph does not know");
}

static int copy_syms(copying *c, cni_gsyms *to, const cni_gsyms *from)
{
  int status = CN_OK;
  for (size_t i = 0; i < from->n && !status; i++) {
    int e = copy_expr(c, from->v[i].expr);
    status = e < 0 ? e : cni_syms_add(to, from->v[i].arg, from->v[i].element, e);
  }
  return status;
}

/* The sizes of a value that the part is given: what varies and follows from nothing that the part knows is a size of
 * its own, which a run reads off the value. */
static int size_input(copying *c, int value, cni_gvalue *v)
{
  const cni_gvalue *was = &c->from->values[value];
  bool varies = was->kind == CNI_VALUE_RESULT && c->part->types && c->part->types->v[value].varies;
  for (int d = 0; d < v->ndim; d++) {
    int e = was->dims[d] ? cni_expr_copy(&c->to->exprs, &c->from->exprs, was->dims[d], c->size) : 0;
    if (e == CN_ERR_VALUE || (!e && varies)) {
      if (cni_graph_add_count(c->to, v->shape[d], INT64_MAX)) return CN_ERR_MEMORY;
      e = cni_expr_size(&c->to->exprs, (int)c->to->nsizes - 1);
    }
    if (e < 0) return CN_ERR_MEMORY;
    v->dims[d] = e;
  }
  return CN_OK;
}

/* ---- values ---- */

static int copy_value(copying *c, int value)
{
  cni_gvalue v = c->from->values[value];
  if (v.kind == CNI_VALUE_SCALAR && (v.expr = copy_expr(c, v.expr)) < 0) return cn_err();
  if (v.kind == CNI_VALUE_RESULT && (v.dims[0] = copy_expr(c, v.dims[0])) < 0) return cn_err();
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

static int copy_inputs(copying *c)
{
  for (size_t i = 0; i < c->part->ninputs; i++) {
    int value = c->part->inputs[i];
    cni_gvalue v = c->from->values[value];
    v.kind = CNI_VALUE_INPUT;
    v.index = (int32_t)i;
    v.node = 0;
    v.tensor = NULL;
    if (size_input(c, value, &v)) return CN_ERR_MEMORY;
    c->id[value] = cni_graph_add_value(c->to, &v);
    if (c->id[value] < 0 || cni_graph_list_input(c->to, c->id[value])) return CN_ERR_MEMORY;
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
  if (copy_syms(c, &c->to->nodes[node].syms, &n->syms)) return cn_err();
  if (cni_gnode_copy_held(&c->to->nodes[node], n)) return CN_ERR_MEMORY;
  for (int k = 0; k < n->nout; k++) {
    int id = copy_value(c, n->out[k]);
    if (id < 0) return cn_err();
    c->to->values[id].node = node;
    c->to->nodes[node].out[k] = id;
  }
  return CN_OK;
}

static int copy_nodes(copying *c)
{
  const cni_part *part = c->part;
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
  for (size_t i = 0; i < n; i++) {
    int e = copy_expr(c, c->from->draws[i].expr);
    if (e < 0) return e;
    to->draws[to->ndraws++] = (cni_gdraw){c->from->draws[i].count, e};
  }
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
  for (size_t i = 0; i < s->syms.n; i++) {
    int e = cni_expr_copy(&to->exprs, &c->from->exprs, s->syms.v[i].expr, c->size);
    if (e == CN_ERR_VALUE) { /* what the call was is not known here: it stays as what it was made of */
      for (int k = 0; k < copy->nout; k++) copy->out[k] = -1;
    } else if (e < 0 || cni_syms_add(&copy->syms, s->syms.v[i].arg, s->syms.v[i].element, e)) return CN_ERR_MEMORY;
  }
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

static int copy_effects(copying *c)
{
  const cn_graph *g = c->from;
  const cni_part *part = c->part;
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

static int copy_outputs(copying *c)
{
  const cni_part *part = c->part;
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
  copying c = {whole, part, cn_graph_new(), NULL, NULL};
  size_t n = whole->nvalues + whole->nsizes, bytes = (n + 1) * sizeof *c.id;
  c.id = c.to ? cni_alloc(bytes) : NULL;
  int status = c.id ? CN_OK : CN_ERR_MEMORY;
  if (c.to) c.to->fast = whole->fast;
  for (size_t i = 0; c.id && i < n; i++) c.id[i] = -1;
  c.size = c.id + whole->nvalues;
  if (!status) status = copy_sizes(&c);
  if (!status) status = copy_inputs(&c);
  if (!status) status = copy_nodes(&c);
  if (!status) status = copy_outputs(&c);
  if (!status && part->effects) status = copy_effects(&c);
  if (!status) status = copy_draws(&c);
  for (size_t i = 0; i < whole->nscopes && !status; i++) status = copy_scope(&c, &whole->scopes[i]);
  cni_free(c.id, bytes);
  if (!status) status = cn_graph_verify(c.to);
  if (!status) return c.to;
  cn_graph_free(c.to);
  return NULL;
}
