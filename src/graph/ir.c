/* ir.c: making and freeing graphs, and their parts one by one. See ir.h. */
#include "ir.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "control.h"
#include "ops/families.h"
#include "ops/prepared.h"
#include "tensor/args.h"
#include "tensor/tensor.h"

cn_graph *cn_graph_new(void)
{
  cni_init();
  cn_graph *g = cni_alloc_zero(sizeof *g);
  if (!g) return NULL;
  pthread_mutex_init(&g->lock, NULL);
  g->before = g->scope = -1;
  return g;
}

void cni_graph_changed(cn_graph *g)
{
  cni_plan_free(g->plan);
  g->plan = NULL;
  cni_prepared_store_release(g->prepared);
  g->prepared = NULL;
  cn_graph_free(g->lifted);
  g->lifted = NULL;
  cni_segments_free(g->segments);
  g->segments = NULL;
  cni_uses_free(g->uses);
  g->uses = NULL;
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

static bool has_size(const cn_graph *g, const char *name)
{
  for (size_t i = 0; i < g->nsizes; i++)
    if (!strcmp(g->sizes[i].name, name)) return true;
  return false;
}

int cni_graph_add_count(cn_graph *g, int64_t traced, int64_t most)
{
  char name[CNI_SIZE_NAME];
  size_t number = 0;
  do snprintf(name, sizeof name, "u%zu", number++);
  while (has_size(g, name));
  return cni_graph_add_size(g, name, traced, 0, most);
}

void cni_value_put(cn_value *v, int element, int64_t integer, double number)
{
  if (v->tag == CN_V_INTS) ((int64_t *)v->u.is)[element] = integer;
  else if (v->tag == CN_V_FLOATS) ((double *)v->u.fs)[element] = number;
  else if (v->tag == CN_V_FLOAT) v->u.f = number;
  else v->u.i = integer;
}

int cni_graph_add_result(cn_graph *g, int node, int index, const cn_desc *d)
{
  cni_gvalue v = {.kind = CNI_VALUE_RESULT, .dtype = d->dtype, .ndim = d->ndim, .device = d->device, .index = index,
                  .node = node};
  memcpy(v.shape, d->shape, (size_t)d->ndim * sizeof *v.shape);
  memcpy(v.strides, d->strides, (size_t)d->ndim * sizeof *v.strides);
  v.has_strides = !cni_is_contiguous(d->ndim, d->shape, d->strides);
  int value = cni_graph_add_value(g, &v);
  if (value >= 0) g->nodes[node].out[index] = value;
  return value;
}

int cni_gnode_hold(cni_gnode *n, cn_graph *const *subs, int nsubs)
{
  if (!nsubs) return CN_OK;
  if (!(n->subs = cni_alloc((size_t)nsubs * sizeof *n->subs))) return CN_ERR_MEMORY;
  memcpy(n->subs, subs, (size_t)nsubs * sizeof *n->subs);
  n->nsubs = nsubs;
  return CN_OK;
}

void cni_gnode_free(cni_gnode *n)
{
  for (int i = 0; i < n->nsubs; i++) cn_graph_free(n->subs[i]);
  cni_free(n->subs, (size_t)n->nsubs * sizeof *n->subs);
  cni_host_release(n->host);
  cni_free(n->syms.v, n->syms.cap * sizeof *n->syms.v);
  cni_free(n->args, n->args_size);
  cni_free(n->in, (size_t)n->nin * sizeof *n->in);
  cni_free(n->out, (size_t)n->nout * sizeof *n->out);
}

void cni_depends_free(cni_gdepends *d)
{
  for (size_t i = 0; i < d->n; i++) cni_tensor_release(d->v[i].tensor);
  cni_free(d->v, d->cap * sizeof *d->v);
  *d = (cni_gdepends){0};
}

uint64_t cni_depend_now(const cn_tensor *t, cni_depend_kind kind)
{
  if (kind == CNI_DEPEND_NONE) return 0;
  if (kind == CNI_DEPEND_NUMBER) return *(const uint64_t *)t->d.data;
  return cni_writes(t);
}

bool cni_depends_hold(const cni_gdepends *d)
{
  for (size_t i = 0; i < d->n; i++)
    if (cni_depend_now(d->v[i].tensor, d->v[i].kind) != d->v[i].then) return false;
  return true;
}

void cn_graph_free(cn_graph *g)
{
  if (!g) return;
  cni_depends_free(&g->depends);
  cni_graph_changed(g);
  cni_weights_free(g->weights);
  cni_types_free(&g->types);
  for (size_t i = 0; i < g->nvalues; i++) cni_tensor_release(g->values[i].tensor);
  for (size_t i = 0; i < g->nnodes; i++) cni_gnode_free(&g->nodes[i]);
  for (size_t i = 0; i < g->nstates; i++) {
    cni_tensor_release(g->states[i].tensor);
    cn_string_free(g->states[i].name);
    cni_carried_free(g->states[i].carried);
  }
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
  cni_graph_changed(g);
  cni_types_free(&g->types); /* another memory order */
  return CN_OK;
}
