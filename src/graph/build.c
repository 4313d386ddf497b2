/* build.c: graphs made by hand and changed: ext/graph.h's writing half.
 *
 * Place in the flow: importers and plugins build, passes change. Invariant: every step leaves a graph whose parts fit:
 * a node's results have the types that its op infers, and values are made before they are read. */
#include <cairn/ops.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "control.h"
#include "ops/apply.h"

static int no_graph(const char *who) { return cni_fail(CN_ERR_TYPE, "%s: the graph is NULL", who); }

/* ---- values ---- */

int cn_graph_add_input(cn_graph *g, cn_device device, cn_dtype dtype, int ndim, const int64_t *shape)
{
  cni_gvalue v = {.kind = CNI_VALUE_INPUT, .dtype = (int32_t)dtype, .ndim = ndim, .device = device ? device : CN_CPU};
  if (cn_err()) return cn_err();
  if (!g) return no_graph("graph_add_input");
  int64_t numel;
  if (!cni_dtype_valid((int)dtype) || ndim < 0 || ndim > CN_MAX_DIMS || (ndim && !shape))
    return cni_fail(CN_ERR_VALUE, "graph_add_input: bad type or shape");
  int status = cni_shape_check("graph_add_input", ndim, shape, cni_dtype_size((int)dtype), &numel);
  if (status) return status;
  v.index = (int32_t)g->ninputs;
  if (ndim) memcpy(v.shape, shape, (size_t)ndim * sizeof *shape); /* which may be NULL otherwise */
  int value = cni_graph_add_value(g, &v);
  cni_graph_changed(g);
  return value < 0 || cni_graph_list_input(g, value) ? CN_ERR_MEMORY : value;
}

static int needs_tensor(const cn_graph *g, const cn_tensor *t, const char *who)
{
  if (cn_err()) return cn_err();
  if (!g) return no_graph(who);
  if (!t || (!t->d.data && t->d.numel) || t->d.weak)
    return cni_fail(CN_ERR_TYPE, "%s: a tensor with a value is needed", who);
  return CN_OK;
}

static cni_gvalue value_like(enum cni_value_kind kind, const cn_tensor *t)
{
  cni_gvalue v = {.kind = kind, .dtype = t->d.dtype, .ndim = t->d.ndim, .device = t->d.device};
  memcpy(v.shape, t->d.shape, (size_t)t->d.ndim * sizeof *v.shape);
  return v;
}

int cn_graph_add_state(cn_graph *g, cn_tensor *t)
{
  int status = needs_tensor(g, t, "graph_add_state");
  if (status) return status;
  cni_gvalue v = value_like(CNI_VALUE_STATE, t);
  v.index = (int32_t)g->nstates;
  if (cni_grow((void **)&g->states, &g->states_cap, g->nstates + 1, sizeof *g->states)) return CN_ERR_MEMORY;
  int value = cni_graph_add_value(g, &v);
  if (value >= 0) g->states[g->nstates++] = (cni_gstate){cni_tensor_keep(t), value, -1};
  cni_graph_changed(g);
  return value;
}

int cn_graph_add_const(cn_graph *g, cn_tensor *t)
{
  int status = needs_tensor(g, t, "graph_add_const");
  if (status) return status;
  if (t->d.numel > CN_CONST_MOST || !cni_dtype_computes(t->d.dtype))
    return cni_fail(CN_ERR_VALUE, "graph_add_const: a constant has at most %d elements of a type that can be computed "
                                  "with; others are states", CN_CONST_MOST);
  cni_gvalue v = value_like(CNI_VALUE_CONST, t);
  v.tensor = cni_tensor_new(t->d.device, t->d.dtype, t->d.ndim, t->d.shape, NULL);
  status = v.tensor ? cni_copy_elements(v.tensor, t) : CN_ERR_MEMORY;
  int value = status ? status : cni_graph_add_value(g, &v);
  if (value < 0) cni_tensor_release(v.tensor);
  return value;
}

int cn_graph_add_number(cn_graph *g, cn_value number)
{
  cni_gvalue v = {.kind = CNI_VALUE_SCALAR, .device = CN_CPU, .weak = true};
  if (cn_err()) return cn_err();
  if (!g) return no_graph("graph_add_number");
  if (number.tag == CN_V_FLOAT) v.dtype = CN_F64, v.number = number.u.f;
  else if (number.tag == CN_V_INT) v.dtype = CN_I64, v.integer = number.u.i;
  else if (number.tag == CN_V_BOOL) v.dtype = CN_BOOL, v.integer = number.u.i != 0;
  else return cni_fail(CN_ERR_TYPE, "graph_add_number: an int, float or bool is needed");
  return cni_graph_add_value(g, &v);
}

/* ---- nodes ---- */

typedef struct adding {
  const cni_opinfo *info;
  cn_value args[CN_MAX_ARGS];
  cni_few room[CN_MAX_ARGS];
  int lists[CN_MAX_ARGS]; /* of tensors: how long */
  size_t taken;           /* of the values given */
} adding;

/* A tensor parameter takes its values: its slot says whether there are any. */
static int take_slot(adding *a, const cn_graph *g, int i, cn_value *slot, const int *in, size_t nin)
{
  const cni_param *p = &a->info->params[i];
  size_t n = p->list ? (size_t)(slot->tag == CN_V_TENSORS ? slot->n : 0) : 1;
  if (a->taken + n > nin) return cni_fail(CN_ERR_TYPE, "%s: a value for '%s' is missing", a->info->name, p->name);
  for (size_t k = a->taken; k < a->taken + n; k++)
    if (!cni_is_value(g, in[k]) && !(in[k] == -1 && (p->list ? p->elem_optional : p->optional)))
      return cni_fail(CN_ERR_INDEX, "%s: '%s' is no value of the graph", a->info->name, p->name);
  if (p->list) *slot = cn_v_tensors(NULL, 0);
  else *slot = in[a->taken] < 0 ? cn_v_none() : (cn_value){CN_V_TENSOR, 1, {0}};
  a->lists[i] = (int)n;
  a->taken += n;
  return CN_OK;
}

static int complete(adding *a, const cn_graph *g, const cn_value *args, size_t nargs, const int *in, size_t nin)
{
  cn_value given[CN_MAX_ARGS];
  if (nargs > (size_t)a->info->nparams || (nargs && !args) || (nin && !in))
    return cni_fail(CN_ERR_TYPE, "%s: too many arguments", a->info->name);
  for (size_t i = 0; i < nargs; i++) {
    given[i] = args[i];
    int status = a->info->params[i].type == CNI_T_TENSOR ? take_slot(a, g, (int)i, &given[i], in, nin) : CN_OK;
    if (status) return status;
  }
  if (a->taken != nin) return cni_fail(CN_ERR_TYPE, "%s: more values than it takes", a->info->name);
  int status = cni_complete(a->info, a->args, a->room, given, nargs);
  for (int i = 0; i < a->info->nparams; i++)
    if (a->info->params[i].type == CNI_T_TENSOR && a->info->params[i].list)
      a->args[i] = cn_v_tensors(NULL, (size_t)a->lists[i]);
  return status;
}

/* Ids of the inputs, with -1 for optional tensors that were left out at the end. */
static int spread(const adding *a, int *ids, const int *in)
{
  int n = 0;
  size_t from = 0;
  for (int i = 0; i < a->info->nparams; i++) {
    if (a->info->params[i].type != CNI_T_TENSOR) continue;
    if (a->info->params[i].list || a->lists[i])
      for (int k = 0; k < a->lists[i]; k++) ids[n++] = in[from++];
    else ids[n++] = -1;
  }
  return n;
}

/* Brings the last node to where it belongs; numbers of nodes behind it rise. */
static void move_last(cn_graph *g, int to)
{
  cni_gnode last = g->nodes[g->nnodes - 1];
  for (size_t i = g->nnodes - 1; i > (size_t)to; i--) {
    g->nodes[i] = g->nodes[i - 1];
    for (int k = 0; k < g->nodes[i].nout; k++) g->values[g->nodes[i].out[k]].node = (int)i;
  }
  g->nodes[to] = last;
  for (int k = 0; k < last.nout; k++)
    if (last.out[k] >= 0) g->values[last.out[k]].node = to;
}

static int made_before(const cn_graph *g, const cni_gnode *n, int at)
{
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] >= 0 && g->values[n->in[k]].kind == CNI_VALUE_RESULT && g->values[n->in[k]].node >= at)
      return cni_fail(CN_ERR_VALUE, "%s: value %d is made behind the place of this node", n->info->name, n->in[k]);
  return CN_OK;
}

/* Are the types of what a node reads known? Of a graph that was captured or parsed they are not at first. */
static bool inputs_typed(const cn_graph *g, const cni_gnode *n)
{
  for (int k = 0; k < n->nin; k++) {
    int v = n->in[k];
    bool made = v >= 0 && g->values[v].kind == CNI_VALUE_RESULT;
    if (made && ((size_t)v >= g->types.n || !g->types.v[v].handle)) return false;
  }
  return true;
}

/* A size that depends on data is one of the graph's. */
static int name_count(cn_graph *g, cni_gvalue *v)
{
  if (cni_graph_add_count(g, v->shape[0], CNI_SIZE_MOST)) return CN_ERR_MEMORY;
  v->dims[0] = cni_expr_size(&g->exprs, (int)g->nsizes - 1);
  return v->dims[0] < 0 ? v->dims[0] : CN_OK;
}

/* Results of the last node, by its op's rule. */
static int add_results(cn_graph *g)
{
  int node = (int)g->nnodes - 1;
  const cni_gnode *n = &g->nodes[node];
  const cn_desc unknown = {.dtype = CN_F32}; /* it has numbers first, then types; device 0: where its inputs are */
  for (int k = 0; k < n->nout; k++)
    if (cni_graph_add_result(g, node, k, &unknown) < 0) return CN_ERR_MEMORY;
  int status = inputs_typed(g, n) ? cni_types_of_node(&g->types, g, node) : cni_types_fill(&g->types, g);
  for (int k = 0; k < n->nout && !status; k++) {
    cni_gvalue *v = &g->values[n->out[k]];
    const cn_desc *d = &g->types.v[n->out[k]].handle->d;
    v->dtype = d->dtype;
    v->ndim = d->ndim;
    v->device = d->device;
    memcpy(v->shape, d->shape, sizeof v->shape);
    memcpy(v->strides, d->strides, sizeof v->strides);
    v->has_strides = !cni_is_contiguous(d->ndim, d->shape, d->strides);
    if (g->types.v[n->out[k]].counted) status = name_count(g, v);
  }
  return status;
}

/* Takes the last node, and values from `values` on, away again. Its graphs are the caller's. */
static void undo(cn_graph *g, size_t values)
{
  cni_gnode *n = &g->nodes[--g->nnodes];
  cni_free(n->subs, (size_t)n->nsubs * sizeof *n->subs);
  n->subs = NULL;
  n->nsubs = 0;
  cni_gnode_free(n);
  for (size_t i = values; i < g->types.n; i++) cni_tensor_release(g->types.v[i].handle);
  if (g->types.n > values) g->types.n = values;
  g->nvalues = values;
}

static int add_draws(cn_graph *g, cni_gnode *n)
{
  int64_t inside = n->nsubs ? cni_control_draws(n) : 0;
  if (!inside && !(n->info->row->flags & CN_OP_RANDOM)) return CN_OK;
  const cni_gvalue *made = &g->values[n->out[0]];
  int64_t count = inside ? inside : (int64_t)cni_draws_of(n->info->row, n->args, made->ndim, made->shape);
  if (cni_grow((void **)&g->draws, &g->draws_cap, g->ndraws + 1, sizeof *g->draws)) return CN_ERR_MEMORY;
  g->draws[g->ndraws] = (cni_gdraw){.count = count};
  n->draw = (int)g->ndraws++;
  return CN_OK;
}

/* The new node, at the end of the list, gets its results, or goes again. */
static int complete_node(int *out, cn_graph *g, int node, int at, size_t values)
{
  g->nodes[node].scope = g->scope;
  int status = made_before(g, &g->nodes[node], at);
  if (!status) status = add_results(g);
  if (!status) status = add_draws(g, &g->nodes[node]);
  if (status) {
    undo(g, values);
    return status;
  }
  memcpy(out, g->nodes[node].out, (size_t)g->nodes[node].nout * sizeof *out);
  move_last(g, at);
  if (g->before >= 0) g->before++;
  cni_graph_changed(g);
  return at;
}

/* How many results: an op's own, or as many as there is room for; those of a branch or loop follow from its graphs. */
static int count_results(const adding *a, size_t room, cn_graph *const *subs, size_t nsubs)
{
  int results = a->info->list_result ? (int)room : a->info->nresults;
  cni_control_kind kind = cni_control_of(a->info);
  if (nsubs) results = (int)subs[nsubs - 1]->noutputs;
  if (kind == CNI_CONTROL_WHILE && a->args[2].u.i > 0) results++;
  if (room < (size_t)results || results < 1 || (results > CNI_MAX_RESULTS && kind == CNI_CONTROL_NONE))
    return cni_fail(CN_ERR_VALUE, "%s: there is no room for its results", a->info->name);
  return results;
}

/* subs: on success the node's. */
static int add_node(int *out, size_t *nout, cn_graph *g, adding *a, const cn_value *args, size_t nargs, const int *in,
                    size_t nin, cn_graph *const *subs, size_t nsubs)
{
  int status = complete(a, g, args, nargs, in, nin);
  int results = status ? status : count_results(a, *nout, subs, nsubs);
  if (results < 0) return results;
  size_t values = g->nvalues, most = nin + CN_MAX_ARGS;
  int *ids = cni_alloc(most * sizeof *ids), at = g->before < 0 ? (int)g->nnodes : g->before;
  int node = ids ? cni_graph_add_node(g, a->info, a->args, a->info->nparams, ids, spread(a, ids, in), results)
                 : CN_ERR_MEMORY;
  cni_free(ids, most * sizeof *ids);
  if (node < 0) return node;
  if (cni_gnode_hold(&g->nodes[node], subs, (int)nsubs)) {
    undo(g, values);
    return CN_ERR_MEMORY;
  }
  *nout = (size_t)results;
  return complete_node(out, g, node, at, values);
}

int cn_graph_add_node(int *out, size_t *nout, cn_graph *g, const cn_op *op, const cn_value *args, size_t nargs,
                      const int *in, size_t nin)
{
  if (cn_err()) return cn_err();
  if (!g || !op || !out || !nout) return no_graph("graph_add_node");
  adding a = {.info = cni_op_info(op)};
  if (!a.info) return cni_fail(CN_ERR_TYPE, "graph_add_node: there is no such op");
  return add_node(out, nout, g, &a, args, nargs, in, nin, NULL, 0);
}

int cn_graph_add_control(int *out, size_t *nout, cn_graph *g, const char *name, const cn_value *args, size_t nargs,
                         const int *in, size_t nin, cn_graph *const *subs, size_t nsubs)
{
  bool good = g && name && out && nout && subs && nsubs;
  for (size_t i = 0; good && i < nsubs; i++) good = subs[i] != NULL && subs[i] != g;
  adding a = {.info = good ? cni_graph_op(name) : NULL};
  int node = cn_err();
  if (!node && !good) node = no_graph("graph_add_control");
  if (!node && (!a.info || cni_control_of(a.info) == CNI_CONTROL_NONE))
    node = cn_err() ? cn_err() : cni_fail(CN_ERR_TYPE, "graph_add_control: %s is no branch or loop", name);
  if (!node) node = add_node(out, nout, g, &a, args, nargs, in, nin, subs, nsubs);
  for (size_t i = 0; subs && i < nsubs && node < 0; i++) cn_graph_free(subs[i]);
  return node;
}

int cn_graph_at(cn_graph *g, int before, int scope)
{
  if (!g) return no_graph("graph_at");
  if (before < -1 || before >= (int)g->nnodes || scope < -1 || scope >= (int)g->nscopes)
    return cni_fail(CN_ERR_INDEX, "graph_at: there is no node %d, or no scope %d", before, scope);
  g->before = before;
  g->scope = scope;
  return CN_OK;
}

int cn_graph_add_scope(cn_graph *g, int parent, const char *name, const char *kind)
{
  if (!g) return no_graph("graph_add_scope");
  if (parent < -1 || parent >= (int)g->nscopes)
    return cni_fail(CN_ERR_INDEX, "graph_add_scope: there is no scope %d", parent);
  cni_gscope s = {.parent = parent, .name = cni_strdup(name ? name : ""), .kind = cni_strdup(kind ? kind : "")};
  if (!s.name || !s.kind || cni_grow((void **)&g->scopes, &g->scopes_cap, g->nscopes + 1, sizeof *g->scopes)) {
    cni_gscope_free(&s);
    return CN_ERR_MEMORY;
  }
  g->scopes[g->nscopes] = s;
  return (int)g->nscopes++;
}

/* ---- ends, and changes ---- */

static int no_value(const char *who, int value)
{
  return cni_fail(CN_ERR_INDEX, "%s: there is no value %d", who, value);
}

int cn_graph_add_output(cn_graph *g, int value)
{
  if (!g) return no_graph("graph_add_output");
  if (!cni_is_value(g, value)) return no_value("graph_add_output", value);
  cni_graph_changed(g);
  return cni_graph_add_list(&g->outputs, &g->noutputs, &g->outputs_cap, value);
}

int cn_graph_set_final(cn_graph *g, size_t state, int value)
{
  if (!g) return no_graph("graph_set_final");
  if (state >= g->nstates || (value != -1 && !cni_is_value(g, value))) return no_value("graph_set_final", value);
  const cni_gvalue *to = &g->values[g->states[state].value], *from = value < 0 ? to : &g->values[value];
  if (!cni_same_shape(to->ndim, to->shape, from->ndim, from->shape))
    return cni_fail(CN_ERR_SHAPE, "graph_set_final: value %d has another shape than state %zu", value, state);
  g->states[state].final = value;
  cni_graph_changed(g);
  return CN_OK;
}

static int swap_in(int *list, size_t n, int from, int to)
{
  int count = 0;
  for (size_t i = 0; i < n; i++)
    if (list[i] == from) list[i] = to, count++;
  return count;
}

static int can_replace(cn_graph *g, int from, int to)
{
  const cn_graph_use *use;
  const cni_gvalue *a = &g->values[from], *b = &g->values[to];
  if (a->dtype != b->dtype || !cni_same_shape(a->ndim, a->shape, b->ndim, b->shape))
    return cni_fail(CN_ERR_SHAPE, "graph_replace: value %d is not of value %d's type and shape", to, from);
  int n = cn_graph_users(&use, g, from), maker = b->kind == CNI_VALUE_RESULT ? b->node : -1;
  for (int i = 0; i < n; i++)
    if (use[i].kind == CN_USE_NODE && use[i].index <= maker)
      return cni_fail(CN_ERR_VALUE, "graph_replace: value %d is made behind node %d, which would read it", to,
                      use[i].index);
  return n;
}

int cn_graph_replace(cn_graph *g, int from, int to)
{
  if (!g) return no_graph("graph_replace");
  if (!cni_is_value(g, from) || !cni_is_value(g, to)) return no_value("graph_replace", from);
  if (from == to || (cni_handed_out(g, from) && cni_handed_out(g, to))) return 0;
  int n = can_replace(g, from, to), count = 0;
  if (n <= 0) return n;
  bool typed = (size_t)from < g->types.n && (size_t)to < g->types.n && g->types.v[from].handle && g->types.v[to].handle;
  if (!typed || !cni_same_type(&g->types, from, to)) cni_types_free(&g->types); /* of its readers, too */
  for (size_t i = 0; i < g->nnodes; i++) count += swap_in(g->nodes[i].in, (size_t)g->nodes[i].nin, from, to);
  count += swap_in(g->outputs, g->noutputs, from, to);
  for (size_t i = 0; i < g->nstates; i++) count += swap_in(&g->states[i].final, 1, from, to);
  count += swap_in(g->input_finals, g->ninputs, from, to);
  for (size_t i = 0; i < g->nleaves; i++) count += swap_in(&g->leaves[i].value, 1, from, to);
  for (size_t i = 0; i < g->nscopes; i++) {
    swap_in(g->scopes[i].in, (size_t)g->scopes[i].nin, from, to);
    swap_in(g->scopes[i].out, (size_t)g->scopes[i].nout, from, to);
  }
  cni_graph_changed(g);
  return count;
}
