/* ir.c: building, verifying and freeing graphs. See ir.h. */
#include "ir.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "tensor/args.h"
#include "tensor/tensor.h"

cn_graph *cni_graph_new(void)
{
  cn_graph *g = cni_alloc_zero(sizeof *g);
  if (g) pthread_mutex_init(&g->lock, NULL);
  return g;
}

int cni_graph_add_value(cn_graph *g, const cni_gvalue *v)
{
  if (cni_grow((void **)&g->values, &g->values_cap, g->nvalues + 1, sizeof *g->values)) return CN_ERR_MEMORY;
  g->values[g->nvalues] = *v;
  return (int)g->nvalues++;
}

int cni_graph_list_input(cn_graph *g, int value)
{
  size_t n = g->ninputs + 1;
  if (cni_grow((void **)&g->inputs, &g->inputs_cap, n, sizeof *g->inputs) ||
      cni_grow((void **)&g->input_finals, &g->input_finals_cap, n, sizeof *g->input_finals))
    return CN_ERR_MEMORY;
  g->input_finals[g->ninputs] = -1;
  g->inputs[g->ninputs++] = value;
  return CN_OK;
}

int cni_graph_add_list(int **list, size_t *n, size_t *cap, int value)
{
  if (cni_grow((void **)list, cap, *n + 1, sizeof **list)) return CN_ERR_MEMORY;
  (*list)[(*n)++] = value;
  return CN_OK;
}

int cni_graph_add_node(cn_graph *g, const cni_opinfo *info, const cn_value *args, int nargs, const int *in, int nin,
                       int nout)
{
  if (cni_grow((void **)&g->nodes, &g->nodes_cap, g->nnodes + 1, sizeof *g->nodes)) return CN_ERR_MEMORY;
  cni_gnode *n = &g->nodes[g->nnodes];
  *n = (cni_gnode){.info = info, .nargs = nargs, .nin = nin, .nout = nout, .draw = -1, .scope = -1};
  n->args_size = cni_args_bytes(args, nargs);
  n->args = cni_alloc(n->args_size);
  n->in = n->args ? cni_alloc((size_t)nin * sizeof *n->in) : NULL;
  n->out = n->in ? cni_alloc((size_t)nout * sizeof *n->out) : NULL;
  if (!n->out) {
    cni_free(n->in, (size_t)nin * sizeof *n->in);
    cni_free(n->args, n->args_size);
    return CN_ERR_MEMORY;
  }
  cni_args_copy(n->args, args, nargs);
  memcpy(n->in, in, (size_t)nin * sizeof *n->in);
  for (int i = 0; i < nout; i++) n->out[i] = -1;
  return (int)g->nnodes++;
}

int cni_syms_add(cni_gsyms *s, int arg, int element, int expr)
{
  if (cni_grow((void **)&s->v, &s->cap, s->n + 1, sizeof *s->v)) return CN_ERR_MEMORY;
  s->v[s->n++] = (cni_gsym){arg, element, expr};
  return CN_OK;
}

int cni_graph_add_size(cn_graph *g, const char *name, int64_t traced, int64_t min, int64_t max)
{
  if (cni_grow((void **)&g->sizes, &g->sizes_cap, g->nsizes + 1, sizeof *g->sizes)) return CN_ERR_MEMORY;
  cni_gsize *s = &g->sizes[g->nsizes++];
  *s = (cni_gsize){.traced = traced, .min = min, .max = max};
  size_t n = strlen(name);
  memcpy(s->name, name, n < CNI_SIZE_NAME ? n : CNI_SIZE_NAME - 1);
  return CN_OK;
}

void cni_value_put(cn_value *v, int element, int64_t integer, double number)
{
  if (v->tag == CN_V_INTS) ((int64_t *)v->u.is)[element] = integer;
  else if (v->tag == CN_V_FLOATS) ((double *)v->u.fs)[element] = number;
  else if (v->tag == CN_V_FLOAT) v->u.f = number;
  else v->u.i = integer;
}

static void free_node(cni_gnode *n)
{
  cni_free(n->syms.v, n->syms.cap * sizeof *n->syms.v);
  cni_free(n->args, n->args_size);
  cni_free(n->in, (size_t)n->nin * sizeof *n->in);
  cni_free(n->out, (size_t)n->nout * sizeof *n->out);
}

void cn_graph_free(cn_graph *g)
{
  if (!g) return;
  cni_plan_free(g->plan);
  for (size_t i = 0; i < g->nnodes; i++) free_node(&g->nodes[i]);
  for (size_t i = 0; i < g->nstates; i++) cni_tensor_release(g->states[i].tensor);
  cni_free(g->values, g->values_cap * sizeof *g->values);
  cni_free(g->nodes, g->nodes_cap * sizeof *g->nodes);
  cni_free(g->inputs, g->inputs_cap * sizeof *g->inputs);
  cni_free(g->states, g->states_cap * sizeof *g->states);
  cni_free(g->outputs, g->outputs_cap * sizeof *g->outputs);
  for (size_t i = 0; i < g->nleaves; i++) {
    cni_tensor_release(g->leaves[i].tensor);
    cni_tensor_release(g->leaves[i].given);
  }
  cni_free(g->leaves, g->leaves_cap * sizeof *g->leaves);
  cni_free(g->draws, g->draws_cap * sizeof *g->draws);
  for (size_t i = 0; i < g->nscopes; i++) cni_gscope_free(&g->scopes[i]);
  cni_free(g->scopes, g->scopes_cap * sizeof *g->scopes);
  cni_free(g->sizes, g->sizes_cap * sizeof *g->sizes);
  cni_exprs_free(&g->exprs);
  cni_free(g->input_finals, g->input_finals_cap * sizeof *g->input_finals);
  pthread_mutex_destroy(&g->lock);
  cni_free(g, sizeof *g);
}

size_t cn_graph_nodes(const cn_graph *g) { return g ? g->nnodes : 0; }
size_t cn_graph_inputs(const cn_graph *g) { return g ? g->ninputs : 0; }
size_t cn_graph_outputs(const cn_graph *g) { return g ? g->noutputs : 0; }
size_t cn_graph_states(const cn_graph *g) { return g ? g->nstates : 0; }

static int describe(cn_graph_value *out, const cn_graph *g, int id)
{
  const cni_gvalue *v = &g->values[id];
  *out = (cn_graph_value){.dtype = (cn_dtype)v->dtype, .device = v->device, .ndim = v->ndim};
  memcpy(out->shape, v->shape, (size_t)v->ndim * sizeof *v->shape);
  return CN_OK;
}

int cn_graph_input_at(cn_graph_value *v, const cn_graph *g, size_t i)
{
  if (!g || i >= g->ninputs) return cni_fail(CN_ERR_INDEX, "graph: there is no input %zu", i);
  return describe(v, g, g->inputs[i]);
}
int cn_graph_output_at(cn_graph_value *v, const cn_graph *g, size_t i)
{
  if (!g || i >= g->noutputs) return cni_fail(CN_ERR_INDEX, "graph: there is no output %zu", i);
  return describe(v, g, g->outputs[i]);
}
int cn_graph_state_at(cn_graph_value *v, const cn_graph *g, size_t i)
{
  if (!g || i >= g->nstates) return cni_fail(CN_ERR_INDEX, "graph: there is no state %zu", i);
  return describe(v, g, g->states[i].value);
}

cn_tensor *cn_graph_state(const cn_graph *g, size_t i) { return g && i < g->nstates ? g->states[i].tensor : NULL; }

int cn_graph_bind(cn_graph *g, size_t i, cn_tensor *t)
{
  if (!g || i >= g->nstates || !t)
    return cni_fail(CN_ERR_INDEX, "graph_bind: there is no state %zu, or no tensor", i);
  const cni_gvalue *v = &g->values[g->states[i].value];
  if (t->d.dtype != v->dtype || !cni_same_shape(t->d.ndim, t->d.shape, v->ndim, v->shape))
    return cni_fail(CN_ERR_SHAPE, "graph_bind: the tensor's type or shape is not that of state %zu", i);
  if ((!t->d.data && t->d.numel) || t->d.weak || cni_may_overlap(t->d.ndim, t->d.shape, t->d.strides))
    return cni_fail(CN_ERR_VALUE, "graph_bind: the tensor has no memory of its own for each element of state %zu", i);
  cni_tensor_keep(t);
  cni_tensor_release(g->states[i].tensor);
  g->states[i].tensor = t;
  g->values[g->states[i].value].device = t->d.device;
  for (size_t k = 0; k < g->nleaves; k++) /* the gradients go where the leaf is now */
    if (g->leaves[k].state == (int)i) {
      cni_tensor_release(g->leaves[k].tensor);
      g->leaves[k].tensor = cni_tensor_keep(t);
    }
  cni_plan_free(g->plan);
  g->plan = NULL;
  return CN_OK;
}

/* ---- the verifier ---- */

static int wrong(size_t node, const char *name, const char *what)
{
  return cni_fail(CN_ERR_INTERNAL, "graph: node %zu (%s): %s", node, name, what);
}

static int verify_node(const cn_graph *g, size_t i)
{
  const cni_gnode *n = &g->nodes[i];
  const char *name = n->info->name;
  if (n->nargs != n->info->nparams) return wrong(i, name, "its arguments do not fit the signature");
  bool random = (n->info->row->flags & CN_OP_RANDOM) != 0;
  if (random != (n->draw >= 0) || n->draw >= (int)g->ndraws) return wrong(i, name, "it has no draw, or a strange one");
  if (n->scope < -1 || n->scope >= (int)g->nscopes) return wrong(i, name, "its scope does not exist");
  for (int k = 0; k < n->nin; k++) {
    if (n->in[k] == -1) continue;
    if (n->in[k] < 0 || (size_t)n->in[k] >= g->nvalues) return wrong(i, name, "reads a value that does not exist");
    const cni_gvalue *v = &g->values[n->in[k]];
    if (v->kind == CNI_VALUE_RESULT && (v->node < 0 || (size_t)v->node >= i))
      return wrong(i, name, "reads a value that is made later");
  }
  for (int k = 0; k < n->nout; k++) {
    if (n->out[k] < 0 || (size_t)n->out[k] >= g->nvalues) return wrong(i, name, "a result has no value");
    const cni_gvalue *v = &g->values[n->out[k]];
    if (v->kind != CNI_VALUE_RESULT || v->node != (int)i || v->index != k)
      return wrong(i, name, "a result's value belongs to another node");
    if (!cni_dtype_valid(v->dtype) || v->ndim < 0 || v->ndim > CN_MAX_DIMS)
      return wrong(i, name, "bad type or shape");
  }
  return CN_OK;
}

static bool is_value(const cn_graph *g, int v) { return v >= 0 && (size_t)v < g->nvalues; }

static bool stands_for(const cn_graph *g, int v, enum cni_value_kind kind, size_t index)
{
  return is_value(g, v) && g->values[v].kind == kind && g->values[v].index == (int)index;
}

static int verify_scope(const cn_graph *g, size_t i)
{
  const cni_gscope *s = &g->scopes[i];
  bool good = s->parent >= -1 && s->parent < (int)i && (s->op || (s->name && s->kind));
  for (int k = 0; k < s->nin; k++) good = good && (s->in[k] == -1 || is_value(g, s->in[k]));
  for (int k = 0; k < s->nout; k++) good = good && (s->out[k] == -1 || is_value(g, s->out[k]));
  return good ? CN_OK : cni_fail(CN_ERR_INTERNAL, "graph: scope %zu is none", i);
}

static bool has_dim(const cn_graph *g, size_t size)
{
  for (size_t i = 0; i < g->ninputs; i++) {
    const cni_gvalue *v = &g->values[g->inputs[i]];
    for (int d = 0; d < v->ndim; d++) {
      const cni_expr *e = v->dims[d] ? &g->exprs.v[v->dims[d]] : NULL;
      if (e && e->op == CNI_EXPR_SIZE && (size_t)e->value == size) return true;
    }
  }
  return false;
}

int cn_graph_verify(const cn_graph *g)
{
  if (!g) return cni_fail(CN_ERR_TYPE, "graph: NULL");
  for (size_t i = 0; i < g->nnodes; i++) {
    int status = verify_node(g, i);
    if (status) return status;
  }
  for (size_t i = 0; i < g->nscopes; i++) {
    int status = verify_scope(g, i);
    if (status) return status;
  }
  for (size_t i = 0; i < g->noutputs; i++)
    if (!is_value(g, g->outputs[i])) return cni_fail(CN_ERR_INTERNAL, "graph: output %zu has no value", i);
  for (size_t i = 0; i < g->nstates; i++)
    if (!stands_for(g, g->states[i].value, CNI_VALUE_STATE, i) ||
        (g->states[i].final != -1 && !is_value(g, g->states[i].final)))
      return cni_fail(CN_ERR_INTERNAL, "graph: state %zu has no value", i);
  for (size_t i = 0; i < g->nleaves; i++)
    if ((g->leaves[i].after == CNI_GRAD_VALUE) != is_value(g, g->leaves[i].value) ||
        g->leaves[i].state >= (int)g->nstates)
      return cni_fail(CN_ERR_INTERNAL, "graph: gradient %zu has no value, or no state", i);
  for (size_t i = 0; i < g->ninputs; i++)
    if (!stands_for(g, g->inputs[i], CNI_VALUE_INPUT, i) ||
        (g->input_finals[i] != -1 && !is_value(g, g->input_finals[i])))
      return cni_fail(CN_ERR_INTERNAL, "graph: input %zu has no value", i);
  for (size_t i = 0; i < g->nsizes; i++)
    if (!has_dim(g, i)) return cni_fail(CN_ERR_INTERNAL, "graph: size %s is no input's", g->sizes[i].name);
  return CN_OK;
}

/* ---- dead nodes ---- */

static void mark_live(const cn_graph *g, bool *live)
{
  for (size_t i = g->nnodes; i-- > 0;) {
    const cni_gnode *n = &g->nodes[i];
    bool wanted = false;
    for (int k = 0; k < n->nout; k++) wanted |= live[n->out[k]];
    if (!wanted && !(n->info->row->flags & CN_OP_CHECKS)) continue; /* a check may fail: it stays */
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] >= 0) live[n->in[k]] = true;
    for (int k = 0; k < n->nout; k++) live[n->out[k]] = true;
  }
}

/* Numbers in the call of a scope say what the call was, even where nothing computes with them. */
static void keep_numbers(const cn_graph *g, bool *live)
{
  for (size_t i = 0; i < g->nscopes; i++)
    for (int k = 0; k < g->scopes[i].nin; k++) {
      int v = g->scopes[i].in[k];
      if (v >= 0 && g->values[v].kind == CNI_VALUE_SCALAR) live[v] = true;
    }
}

/* Drops dead nodes; to[i]: the new number of node i, -1 where it went. */
static void drop_nodes(cn_graph *g, const bool *live, int *to)
{
  size_t n = 0;
  for (size_t i = 0; i < g->nnodes; i++) {
    cni_gnode *node = &g->nodes[i];
    to[i] = live[node->out[0]] ? (int)n : -1;
    if (to[i] < 0) {
      free_node(node);
      continue;
    }
    for (int k = 0; k < node->nout; k++) g->values[node->out[k]].node = (int)n;
    g->nodes[n++] = *node;
  }
  g->nnodes = n;
}

static void renumber(int *values, int n, const int *to)
{
  for (int k = 0; k < n; k++)
    if (values[k] >= 0) values[k] = to[values[k]];
}

/* Drops values that nothing makes or reads; to[i] likewise. Inputs and states stay. */
static void drop_values(cn_graph *g, const bool *live, int *to)
{
  size_t n = 0;
  for (size_t i = 0; i < g->nvalues; i++) {
    bool stays = live[i] || g->values[i].kind == CNI_VALUE_INPUT || g->values[i].kind == CNI_VALUE_STATE;
    to[i] = stays ? (int)n : -1;
    if (stays) g->values[n++] = g->values[i];
  }
  g->nvalues = n;
  for (size_t i = 0; i < g->nnodes; i++) {
    renumber(g->nodes[i].in, g->nodes[i].nin, to);
    renumber(g->nodes[i].out, g->nodes[i].nout, to);
  }
  renumber(g->inputs, (int)g->ninputs, to);
  renumber(g->input_finals, (int)g->ninputs, to);
  for (size_t i = 0; i < g->noutputs; i++) g->outputs[i] = to[g->outputs[i]];
  for (size_t i = 0; i < g->nstates; i++) {
    g->states[i].value = to[g->states[i].value];
    if (g->states[i].final >= 0) g->states[i].final = to[g->states[i].final];
  }
  for (size_t i = 0; i < g->nleaves; i++)
    if (g->leaves[i].value >= 0) g->leaves[i].value = to[g->leaves[i].value];
  for (size_t i = 0; i < g->nscopes; i++) {
    renumber(g->scopes[i].in, g->scopes[i].nin, to);
    renumber(g->scopes[i].out, g->scopes[i].nout, to);
  }
}

int cn_graph_remove_dead(cn_graph *g)
{
  if (!g) return cni_fail(CN_ERR_TYPE, "graph: NULL");
  size_t nnodes = g->nnodes, nvalues = g->nvalues;
  bool *live = cni_alloc_zero(nvalues + 1);
  int *nodes = live ? cni_alloc((nnodes + 1) * sizeof *nodes) : NULL;
  int *values = nodes ? cni_alloc((nvalues + 1) * sizeof *values) : NULL;
  if (values) {
    for (size_t i = 0; i < g->noutputs; i++) live[g->outputs[i]] = true;
    for (size_t i = 0; i < g->nstates; i++)
      if (g->states[i].final >= 0) live[g->states[i].final] = true;
    for (size_t i = 0; i < g->nleaves; i++)
      if (g->leaves[i].value >= 0) live[g->leaves[i].value] = true;
    for (size_t i = 0; i < g->ninputs; i++)
      if (g->input_finals[i] >= 0) live[g->input_finals[i]] = true;
    mark_live(g, live);
    keep_numbers(g, live);
    drop_nodes(g, live, nodes);
    drop_values(g, live, values);
    cni_plan_free(g->plan);
    g->plan = NULL;
  }
  bool done = values != NULL;
  cni_free(live, nvalues + 1);
  cni_free(nodes, (nnodes + 1) * sizeof *nodes);
  cni_free(values, (nvalues + 1) * sizeof *values);
  return done ? (int)(nnodes - g->nnodes) : CN_ERR_MEMORY;
}
