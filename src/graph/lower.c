/* lower.c: a graph in which calls of composite ops are nodes (a saved one, one that was lifted or built by hand) as the
 * graph of their parts, at the sizes of one run.
 *
 * Place in the flow: plan.c asks when it makes a plan; each such node is decomposed under a capture (trace.c), and what
 * that records takes the node's place. The inverse of passes/lift.c: what was lifted runs like what was traced.
 * Invariant: inputs, states, outputs and draws keep their places; no node of the result is composite. */
#include "lower.h"

#include <string.h>

#include "base/alloc.h"
#include "tensor/tensor.h"

typedef struct lowering {
  cn_graph *g; /* a copy, whose nodes are put back one by one */
  int *stands; /* per value of the graph: which one has its elements: itself, unless a call gave what it was given */
  size_t nstands;
} lowering;

bool cni_has_calls(const cn_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++)
    if (cni_is_composite(g->nodes[i].info->row)) return true;
  return false;
}

/* ---- the sizes of a run ---- */

static void fix_input(cni_gvalue *v, const cn_desc *d)
{
  memcpy(v->shape, d->shape, sizeof v->shape);
  memcpy(v->strides, d->strides, sizeof v->strides);
  memset(v->dims, 0, sizeof v->dims);
  v->has_strides = !cni_is_contiguous(d->ndim, d->shape, d->strides);
}

static int fix_args(cn_graph *g, cni_gnode *n, const int64_t *sizes)
{
  for (size_t i = 0; i < n->syms.n; i++) {
    const cni_gsym *s = &n->syms.v[i];
    int64_t integer;
    double number;
    int status = cni_size_number(g, sizes, s->expr, n->info->name, &integer, &number);
    if (status) return status;
    cni_value_put(&n->args[s->arg], s->element, integer, number);
  }
  n->syms.n = 0;
  return CN_OK;
}

/* Every number that follows from sizes becomes what it is at these; then there are none. */
static int fix_sizes(cn_graph *g, cn_tensor *const *inputs, const int64_t *sizes)
{
  int status = CN_OK;
  for (size_t i = 0; i < g->ninputs; i++) fix_input(&g->values[g->inputs[i]], &inputs[i]->d);
  for (size_t i = 0; i < g->nvalues && !status; i++) {
    cni_gvalue *v = &g->values[i];
    if (v->kind != CNI_VALUE_SCALAR || !v->expr) continue;
    status = cni_size_number(g, sizes, v->expr, "a number", &v->integer, &v->number);
    v->expr = 0;
  }
  for (size_t i = 0; i < g->nnodes && !status; i++) status = fix_args(g, &g->nodes[i], sizes);
  for (size_t i = 0; i < g->ndraws && !status; i++) {
    cni_gdraw *d = &g->draws[i];
    if (d->expr) status = cni_size_number(g, sizes, d->expr, "a random draw", &d->count, NULL);
    d->expr = 0;
  }
  g->nsizes = 0;
  cni_exprs_free(&g->exprs);
  return status;
}

/* ---- nodes ---- */

static int stand_in(const lowering *l, int value)
{
  return value >= 0 && (size_t)value < l->nstands ? l->stands[value] : value;
}

/* What infer says of the last node's results, where they are recorded. */
static int type_last(lowering *l)
{
  cn_graph *g = l->g;
  int node = (int)g->nnodes - 1, status = cni_types_of_node(&g->types, g, node);
  for (int k = 0; k < g->nodes[node].nout && !status; k++) {
    cni_gvalue *v = &g->values[g->nodes[node].out[k]];
    const cn_desc *d = &g->types.v[g->nodes[node].out[k]].handle->d;
    v->ndim = d->ndim;
    v->dtype = d->dtype;
    fix_input(v, d);
  }
  return status;
}

static int put_back(lowering *l, cni_gnode *n)
{
  cn_graph *g = l->g;
  if (cni_grow((void **)&g->nodes, &g->nodes_cap, g->nnodes + 1, sizeof *g->nodes)) return CN_ERR_MEMORY;
  for (int k = 0; k < n->nin; k++) n->in[k] = stand_in(l, n->in[k]);
  for (int k = 0; k < n->nout; k++) g->values[n->out[k]].node = (int)g->nnodes;
  g->nodes[g->nnodes++] = *n;
  *n = (cni_gnode){.info = n->info}; /* what it owned is the graph's */
  return type_last(l);
}

/* ---- calls ---- */

/* A number, a constant or a tensor of the decomposition's own, in the graph. */
static int take_source(cn_graph *g, const cn_graph *parts, int value)
{
  cni_gvalue v = parts->values[value];
  if (v.kind == CNI_VALUE_STATE) return cn_graph_add_state(g, parts->states[v.index].tensor);
  int id = cni_graph_add_value(g, &v);
  if (id >= 0) cni_tensor_keep(v.tensor);
  return id;
}

static int id_of(cn_graph *g, const cn_graph *parts, int *ids, int value)
{
  if (value >= 0 && ids[value] < 0) ids[value] = take_source(g, parts, value);
  return value < 0 ? -1 : ids[value];
}

static int put_part(lowering *l, const cn_graph *parts, int *ids, const cni_gnode *n, int draw)
{
  cn_graph *g = l->g;
  int *in = cni_alloc((size_t)(n->nin + 1) * sizeof *in), status = in ? CN_OK : CN_ERR_MEMORY;
  for (int k = 0; k < n->nin && !status; k++)
    if ((in[k] = id_of(g, parts, ids, n->in[k])) < 0 && n->in[k] >= 0) status = CN_ERR_MEMORY;
  int node = status ? status : cni_graph_add_node(g, n->info, n->args, n->nargs, in, n->nin, n->nout);
  cni_free(in, (size_t)(n->nin + 1) * sizeof *in);
  if (node < 0) return node;
  g->nodes[node].draw = n->draw < 0 ? -1 : draw + n->draw;
  for (int k = 0; k < n->nout; k++) {
    int id = ids[n->out[k]];
    if (id < 0) ids[n->out[k]] = id = cni_graph_add_value(g, &parts->values[n->out[k]]);
    if (id < 0) return CN_ERR_MEMORY;
    g->values[id].kind = CNI_VALUE_RESULT;
    g->values[id].node = node;
    g->values[id].index = k;
    g->nodes[node].out[k] = id;
  }
  return type_last(l);
}

/* Which value of the graph each of the parts' is, as far as the call says: what it was given, and what it makes. */
static void name_ends(lowering *l, const cni_gnode *call, const cn_graph *parts, cn_tensor *const *in, int *ids)
{
  size_t given = 0;
  for (size_t i = 0; i < parts->nvalues; i++) ids[i] = -1;
  for (int k = 0; k < call->nin; k++)
    if (in[k] && !cni_is_number(in[k])) ids[parts->inputs[given++]] = stand_in(l, call->in[k]);
  for (int k = 0; k < call->nout; k++) {
    int v = parts->outputs[k];
    if (parts->values[v].kind == CNI_VALUE_RESULT && ids[v] < 0) ids[v] = call->out[k];
  }
}

static int put_parts(lowering *l, const cni_gnode *call, const cn_graph *parts, cn_tensor *const *in)
{
  int *ids = cni_alloc((parts->nvalues + 1) * sizeof *ids), status = ids ? CN_OK : CN_ERR_MEMORY;
  if (!status) name_ends(l, call, parts, in, ids);
  for (size_t i = 0; i < parts->nnodes && !status; i++)
    status = put_part(l, parts, ids, &parts->nodes[i], call->draw);
  for (int k = 0; k < call->nout && !status; k++) { /* what is given as it is, or twice */
    int id = id_of(l->g, parts, ids, parts->outputs[k]);
    if (id < 0) status = CN_ERR_MEMORY;
    else l->stands[call->out[k]] = id;
  }
  cni_free(ids, (parts->nvalues + 1) * sizeof *ids);
  return status;
}

/* A graph has no place for a call that writes to what it is given: lift.c leaves such calls open. */
static int check_pure(const cni_gnode *call, const cn_graph *parts)
{
  bool writes = false;
  for (size_t i = 0; i < parts->ninputs; i++) writes |= parts->input_finals[i] >= 0;
  for (size_t i = 0; i < parts->nstates; i++) writes |= parts->states[i].final >= 0;
  if (!writes) return CN_OK;
  return cni_fail(CN_ERR_UNSUPPORTED, "graph: %s writes to a tensor that it is given, which a node cannot do",
                  call->info->name);
}

static int lower_call(lowering *l, const cni_gnode *n)
{
  cn_graph *g = l->g;
  cn_tensor *out[CNI_MAX_RESULTS] = {NULL};
  cn_value args[CN_MAX_ARGS];
  cn_spec spec[CNI_MAX_RESULTS];
  cn_call c;
  size_t bytes = (size_t)(n->nin + 1) * sizeof(cn_tensor *);
  int status = cni_types_fill(&g->types, g);
  cn_tensor **in = status ? NULL : cni_alloc(bytes);
  if (!in) return status ? status : CN_ERR_MEMORY;
  for (int k = 0; k < n->nin; k++) in[k] = n->in[k] < 0 ? NULL : g->types.v[stand_in(l, n->in[k])].handle;
  memset(args, 0, sizeof args);
  memcpy(args, n->args, (size_t)n->nargs * sizeof *args);
  cni_fill_slots(n->info, args, in);
  cni_node_call(&c, g, n, args, in);
  c.out = out;
  c.spec = spec;
  cn_graph *parts = cni_trace_call(&c);
  if (!parts) status = cn_err() ? cn_err() : CN_ERR_MEMORY;
  if (!status) status = check_pure(n, parts);
  if (!status) status = put_parts(l, n, parts, in);
  cn_graph_free(parts);
  cni_free(in, bytes);
  return status;
}

/* ---- the graph ---- */

static void name_readers(const lowering *l)
{
  cn_graph *g = l->g;
  for (size_t i = 0; i < g->noutputs; i++) g->outputs[i] = stand_in(l, g->outputs[i]);
  for (size_t i = 0; i < g->ninputs; i++) g->input_finals[i] = stand_in(l, g->input_finals[i]);
  for (size_t i = 0; i < g->nstates; i++) g->states[i].final = stand_in(l, g->states[i].final);
  for (size_t i = 0; i < g->nleaves; i++) g->leaves[i].value = stand_in(l, g->leaves[i].value);
}

/* Scopes say where nodes come from, which a run does not ask. */
static void drop_scopes(cn_graph *g)
{
  for (size_t i = 0; i < g->nscopes; i++) cni_gscope_free(&g->scopes[i]);
  for (size_t i = 0; i < g->nnodes; i++) g->nodes[i].scope = -1;
  g->nscopes = 0;
}

static int lower_nodes(lowering *l)
{
  cn_graph *g = l->g;
  cni_gnode *old = g->nodes;
  size_t n = g->nnodes, cap = g->nodes_cap;
  int status = CN_OK;
  g->nodes = NULL;
  g->nnodes = g->nodes_cap = 0;
  for (size_t i = 0; i < n && !status; i++)
    status = cni_is_composite(old[i].info->row) ? lower_call(l, &old[i]) : put_back(l, &old[i]);
  for (size_t i = 0; i < n; i++) cni_gnode_free(&old[i]);
  cni_free(old, cap * sizeof *old);
  if (status) return status;
  name_readers(l);
  status = cn_graph_remove_dead(g); /* values of calls that gave what they were given */
  return status < 0 ? status : CN_OK;
}

cn_graph *cni_graph_lower(const cn_graph *g, cn_tensor *const *inputs, const int64_t *sizes)
{
  lowering l = {.g = cn_graph_copy(g), .nstands = g->nvalues};
  l.stands = l.g ? cni_alloc((l.nstands + 1) * sizeof *l.stands) : NULL;
  int status = l.stands ? fix_sizes(l.g, inputs, sizes) : CN_ERR_MEMORY;
  for (size_t i = 0; l.stands && i < l.nstands; i++) l.stands[i] = (int)i;
  if (!status) drop_scopes(l.g);
  if (!status) status = lower_nodes(&l);
  cni_free(l.stands, (l.nstands + 1) * sizeof *l.stands);
  if (!status) return l.g;
  cn_graph_free(l.g);
  return NULL;
}
