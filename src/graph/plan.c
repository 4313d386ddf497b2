/* plan.c: makes plans: fills sizes in, runs infer over the nodes, drops copies, measures lifetimes, places memory. See
 * plan.h. */
#include "plan.h"

#include <string.h>

#include "base/dtype.h"
#include "control.h"
#include "lower.h"
#include "passes/passes.h"
#include "run.h"
#include "tensor/args.h"
#include "whole.h"

enum { KEPT_PLANS = 8 };

static void free_one(cni_plan *p)
{
  cni_contexts_free(p->idle, p); /* they look at the values */
  for (size_t i = 0; i < p->nnested; i++)
    for (int k = 0; k < 2; k++) cni_plan_release(p->nested[i].subs[k]);
  cni_free(p->nested, p->nnested * sizeof *p->nested);
  for (size_t i = 0; p->values && i < p->nvalues; i++) cni_tensor_release(p->values[i].handle);
  cni_free(p->values, p->nvalues * sizeof *p->values);
  for (size_t i = 0; p->args && i < p->nnodes; i++) cni_args_at_free(p->args[i]);
  cni_free(p->args, p->nnodes * sizeof *p->args);
  cni_free(p->specs, p->nspecs * sizeof *p->specs);
  cni_free(p->first_spec, p->nnodes * sizeof *p->first_spec);
  cni_free(p->compute, p->nnodes * sizeof *p->compute);
  cni_free(p->draws, (p->ndraws + 1) * sizeof *p->draws);
  cni_free(p->order, p->nnodes * sizeof *p->order);
  cni_free(p->stays, p->nnodes * sizeof *p->stays);
  cni_free(p->steady, p->nnodes + 1);
  cni_layout_release(p->layout);
  cni_free(p->wants, p->nnodes * sizeof *p->wants);
  cni_prepared_store_release(p->store);
  if (p->executable) cni_whole.free(p->device, p->executable);
  cni_free(p->wanted, p->wanted_cap * sizeof *p->wanted);
  cn_graph_free(p->parts);
  pthread_mutex_destroy(&p->lock);
  pthread_mutex_destroy(&p->turn);
  cni_free(p, sizeof *p);
}

void cni_plan_release(cni_plan *p)
{
  if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) free_one(p);
}

void cni_plan_free(cni_plan *p)
{
  while (p) {
    cni_plan *next = p->next;
    cni_plan_release(p);
    p = next;
  }
}

/* ---- handles of values that nodes do not make ---- */

cn_tensor *cni_scalar_at(const cn_graph *g, const cni_gvalue *v, const int64_t *sizes)
{
  int64_t integer = v->integer;
  double number = v->number;
  if (v->expr && cni_size_number(g, sizes, v->expr, "a number", &integer, &number)) return NULL;
  cni_gvalue sized = *v;
  sized.number = number;
  sized.integer = integer;
  return cni_number_tensor(&sized);
}

/* An input's shape and strides, without holding on to its memory. */
static cn_tensor *layout_of(const cn_tensor *t)
{
  cni_storage *s = cni_storage_meta(t->d.device, t->storage->size, NULL);
  cn_tensor *layout = cni_tensor_over(s, t->offset, t->d.dtype, t->d.ndim, t->d.shape, t->d.strides);
  if (layout) layout->d.weak = t->d.weak;
  return layout;
}

/* A gradient that a run puts where there is none, or where it clears the one there, may lie in the run's block: it is
 * gone before the next run. Results of the function stay with the caller. */
static void note_lent(cni_plan *p, const cn_graph *g)
{
  for (size_t i = 0; i < g->nleaves; i++)
    if (g->leaves[i].value >= 0 && g->values[g->leaves[i].value].device == CN_CPU)
      p->values[g->leaves[i].value].is_lent = true;
  for (size_t i = 0; i < g->nleaves; i++) /* one value may be left in two leaves */
    if (g->leaves[i].value >= 0 && g->leaves[i].before == CNI_GRAD_GIVEN) p->values[g->leaves[i].value].is_lent = false;
  for (size_t i = 0; i < g->noutputs; i++) p->values[g->outputs[i]].is_lent = false;
}

static int start_values(cni_plan *p, const cn_graph *g, cn_tensor *const *inputs, const int64_t *sizes)
{
  for (size_t i = 0; i < g->nvalues; i++) {
    const cni_gvalue *v = &g->values[i];
    cni_planned *q = &p->values[i];
    *q = (cni_planned){.root = (int)i, .first = -1, .last = -1};
    if (v->kind == CNI_VALUE_INPUT) q->handle = layout_of(inputs[v->index]);
    else if (v->kind == CNI_VALUE_SCALAR) q->handle = cni_scalar_at(g, v, sizes);
    else if (v->kind == CNI_VALUE_CONST) q->handle = cni_tensor_keep(v->tensor);
    else if (v->kind == CNI_VALUE_STATE) {
      if (!g->states[v->index].tensor) return cni_fail(CN_ERR_VALUE, "graph: state %d is not bound", (int)v->index);
      q->handle = cni_tensor_keep(g->states[v->index].tensor);
    } else continue;
    if (!q->handle) return cn_err();
  }
  for (size_t i = 0; i < g->nstates; i++)
    if (g->states[i].final >= 0) p->values[g->states[i].final].is_final = true;
  for (size_t i = 0; i < g->ninputs; i++)
    if (g->input_finals[i] >= 0) p->values[g->input_finals[i]].is_final = true;
  for (size_t i = 0; i < g->noutputs; i++) p->values[g->outputs[i]].is_output = true;
  for (size_t i = 0; i < g->nleaves; i++)
    if (g->leaves[i].value >= 0) p->values[g->leaves[i].value].is_output = true;
  note_lent(p, g);
  return CN_OK;
}

/* ---- nodes ---- */

void cni_args_at_free(cn_value *args)
{
  if (args) cni_free(args, cni_args_bytes(args, CN_MAX_ARGS));
}

cn_value *cni_args_at(const cn_graph *g, const cni_gnode *n, const int64_t *sizes)
{
  cn_value full[CN_MAX_ARGS];
  memset(full, 0, sizeof full);
  memcpy(full, n->args, (size_t)n->nargs * sizeof *full);
  cn_value *args = cni_alloc(cni_args_bytes(full, CN_MAX_ARGS));
  if (!args) return NULL;
  cni_args_copy(args, full, CN_MAX_ARGS);
  for (size_t i = 0; i < n->syms.n; i++) {
    const cni_gsym *s = &n->syms.v[i];
    int64_t integer;
    double number;
    if (cni_size_number(g, sizes, s->expr, n->info->name, &integer, &number)) {
      cni_args_at_free(args);
      return NULL;
    }
    cni_value_put(&args[s->arg], s->element, integer, number);
  }
  return args;
}

static int infer_node(cni_plan *p, const cn_graph *g, size_t node)
{
  const cni_gnode *n = &g->nodes[node];
  cn_tensor *room[CNI_FEW_INPUTS], **in = room;
  cn_spec *spec = &p->specs[p->first_spec[node]];
  cn_device device;
  size_t bytes = (size_t)n->nin * sizeof *in;
  if (n->nin > CNI_FEW_INPUTS && !(in = cni_alloc(bytes))) return CN_ERR_MEMORY;
  for (int k = 0; k < n->nin; k++) in[k] = n->in[k] >= 0 ? p->values[n->in[k]].handle : NULL;
  int status = cni_infer_node(spec, &p->compute[node], &device, g, n, p->args[node], in);
  if (in != room) cni_free(in, bytes);
  if (status) return status;
  for (int k = 0; k < n->nout; k++) {
    const cn_spec *s = &spec[k];
    cni_planned *q = &p->values[n->out[k]];
    size_t size = cni_dtype_bytes(s->dtype, cni_numel(s->ndim, s->shape));
    q->handle = cni_tensor_over(cni_storage_meta(device, size, NULL), 0, s->dtype, s->ndim, s->shape, s->strides);
    if (!q->handle) return CN_ERR_MEMORY;
    q->first = q->last = (int)node;
    if (s->view_of >= 0) {
      const cni_planned *of = &p->values[n->in[s->view_of]];
      p->by_offset |= cni_dtype_size(s->dtype) != cni_dtype_size(of->handle->d.dtype);
      q->root = of->root;
      q->base = cni_view_at(of->base, of->handle->d.dtype, s->dtype, s->offset);
    } else q->size = size ? size : 1;
  }
  return CN_OK;
}

/* ---- copies that need not be made ---- */

/* Which input a copy may be the same memory as, at these sizes: one that lies in memory as the copy would. Nothing in a
 * graph is written over, so nobody can tell; what is handed out or written to a state has to be apart. -1: none. */
static int aliased_input(const cni_plan *p, const cni_gnode *n, const cn_spec *s)
{
  int k = cni_copied_input(n);
  if (k < 0 || s->view_of >= 0 || p->values[n->out[0]].is_output || p->values[n->out[0]].is_final) return -1;
  const cn_desc *from = &p->values[n->in[k]].handle->d, *to = &p->values[n->out[0]].handle->d;
  bool same = !from->weak && from->dtype == to->dtype && from->device == to->device && cni_same_layout(from, to);
  return same ? k : -1;
}

/* Such copies become views, and what looks into them looks into what they are copies of. */
static void alias_copies(cni_plan *p, const cn_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    cn_spec *s = &p->specs[p->first_spec[i]];
    int k = aliased_input(p, n, s);
    if (k >= 0) s->view_of = k, s->offset = 0;
    for (int r = 0; r < n->nout; r++) {
      if (s[r].view_of < 0) continue;
      const cni_planned *of = &p->values[n->in[s[r].view_of]];
      cni_planned *q = &p->values[n->out[r]];
      q->root = of->root;
      q->base = cni_view_at(of->base, of->handle->d.dtype, s[r].dtype, s[r].offset);
      q->size = 0;
    }
  }
}

/* ---- lifetimes and memory ---- */

static void extend(cni_plan *p, int value, int node)
{
  cni_planned *q = &p->values[p->values[value].root];
  if (node > q->last) q->last = node;
}

static void lifetimes(cni_plan *p, const cn_graph *g)
{
  for (size_t at = 0; at < g->nnodes; at++) {
    const cni_gnode *n = &g->nodes[p->order[at]];
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] >= 0) extend(p, n->in[k], (int)at);
    for (int k = 0; k < n->nout; k++) {
      cni_planned *q = &p->values[n->out[k]];
      q->first = (int)at;
      extend(p, n->out[k], (int)at);
    }
  }
  for (size_t i = 0; i < p->nvalues; i++) { /* a whole begins with the first of its pieces */
    cni_planned *q = &p->values[i], *root = &p->values[q->root];
    if (g->values[i].kind == CNI_VALUE_RESULT && root->size && q->first < root->first) root->first = q->first;
  }
  for (size_t i = 0; i < g->noutputs; i++) extend(p, g->outputs[i], (int)g->nnodes);
  for (size_t i = 0; i < g->nleaves; i++)
    if (g->leaves[i].value >= 0) extend(p, g->leaves[i].value, (int)g->nnodes);
  for (size_t i = 0; i < g->nstates; i++)
    if (g->states[i].final >= 0) extend(p, g->states[i].final, (int)g->nnodes);
  for (size_t i = 0; i < g->ninputs; i++)
    if (g->input_finals[i] >= 0) extend(p, g->input_finals[i], (int)g->nnodes);
  for (size_t i = 0; i < p->nvalues; i++) { /* what is handed out gets memory of its own each run, or is lent */
    cni_planned *q = &p->values[i];
    p->unplanned += q->size;
    q->is_lent = q->is_lent && q->size && !p->executable;
    if (q->is_output && q->root == (int)i && !q->is_lent) q->size = 0;
  }
  for (size_t i = 0; i < p->nvalues; i++) {
    const cni_planned *root = &p->values[p->values[i].root];
    bool input = g->values[p->values[i].root].kind == CNI_VALUE_INPUT;
    bool made = g->values[p->values[i].root].kind == CNI_VALUE_RESULT;
    p->values[i].varies = input || (made && root->is_output);
  }
}

/* One block for the values of one device: that of the first that needs memory, and rather not the host's, where the few
 * values besides are rates and counts. */
static int place(cni_plan *p)
{
  for (size_t i = 0; i < p->nvalues && (!p->device || p->device == CN_CPU); i++)
    if (p->values[i].size) p->device = p->values[i].handle->d.device;
  if (!p->device) p->device = CN_CPU;
  bool host = p->device == CN_CPU;
  if (host && !(p->wants = cni_alloc_zero(p->nnodes * sizeof *p->wants))) return CN_ERR_MEMORY;
  p->layout = cni_memplan(p->values, p->nvalues, NULL, host ? p->nnodes : 0);
  return p->layout ? CN_OK : CN_ERR_MEMORY;
}

static int allocate(cni_plan *p, const cn_graph *g)
{
  p->nvalues = g->nvalues;
  p->nnodes = g->nnodes;
  p->values = cni_alloc_zero(p->nvalues * sizeof *p->values);
  p->args = cni_alloc_zero(p->nnodes * sizeof *p->args);
  p->order = cni_alloc_zero(p->nnodes * sizeof *p->order);
  p->first_spec = cni_alloc_zero(p->nnodes * sizeof *p->first_spec);
  p->compute = cni_alloc_zero(p->nnodes * sizeof *p->compute);
  p->ndraws = g->ndraws;
  p->draws = cni_alloc_zero((p->ndraws + 1) * sizeof *p->draws);
  p->stays = cni_alloc_zero(p->nnodes * sizeof *p->stays);
  if (!p->values || !p->args || !p->first_spec || !p->compute || !p->draws || !p->order || !p->stays)
    return CN_ERR_MEMORY;
  for (size_t i = 0; i < p->nnodes; i++) {
    p->first_spec[i] = p->nspecs;
    p->nspecs += (size_t)g->nodes[i].nout;
  }
  p->specs = cni_alloc_zero(p->nspecs * sizeof *p->specs);
  return p->specs ? CN_OK : CN_ERR_MEMORY;
}

/* Does the value stay as it is from run to run, as long as nobody outside writes to it? */
static bool is_weight(const cn_graph *g, const cni_gvalue *v)
{
  return v->kind == CNI_VALUE_CONST || (v->kind == CNI_VALUE_STATE && g->states[v->index].final < 0) || v->lent;
}

/* Is it handed to the graph that a node holds as it lies in memory? A copy is another tensor in each run. */
static bool is_handed_on(const cn_desc *d, const cni_gvalue *to)
{
  return to->has_strides ? cni_in_order(d, to->strides) : cni_is_contiguous(d->ndim, d->shape, d->strides);
}

/* Which inputs of a node's graphs are weights: operands alone, as what goes round a loop is another in each step. */
static void lend_weights(const cni_plan *p, const cn_graph *g, size_t node)
{
  const cni_gnode *n = &g->nodes[node];
  cni_control c;
  cni_control_read(&c, n, p->args[node]);
  for (int k = 0; k < n->nsubs; k++)
    for (int i = c.ncarried + c.nxs; i < c.ncarried + c.nxs + c.noperands; i++) {
      cni_gvalue *to = &n->subs[k]->values[n->subs[k]->inputs[i]];
      int v = n->in[c.first + i];
      to->lent = v >= 0 && is_weight(g, &g->values[v]) && is_handed_on(&p->values[v].handle->d, to);
    }
}

/* Plans of the graphs that nodes hold. */
static int plan_nested(cni_plan *p, const cn_graph *g)
{
  size_t count = 0;
  for (size_t i = 0; i < g->nnodes; i++) count += g->nodes[i].nsubs > 0;
  if (count && !(p->nested = cni_alloc_zero(count * sizeof *p->nested))) return CN_ERR_MEMORY;
  p->nnested = count;
  count = 0;
  for (size_t i = 0; i < g->nnodes; i++) {
    if (!g->nodes[i].nsubs) continue;
    cni_nested *nested = &p->nested[count++];
    nested->node = (int)i;
    lend_weights(p, g, i);
    for (int k = 0; k < g->nodes[i].nsubs; k++)
      if (!(nested->subs[k] = cni_plan_sub(g->nodes[i].subs[k]))) return cn_err();
  }
  return CN_OK;
}

int cni_draw_offsets(uint64_t *draws, const cn_graph *g, const int64_t *sizes)
{
  int status = CN_OK;
  draws[0] = 0;
  for (size_t i = 0; i < g->ndraws && !status; i++) {
    int64_t count = g->draws[i].count;
    if (g->draws[i].expr) status = cni_size_number(g, sizes, g->draws[i].expr, "a random draw", &count, NULL);
    draws[i + 1] = draws[i] + (uint64_t)count;
  }
  return status;
}

/* A text may say anything: what is written back must have the state's shape. */
static int check_finals(const cni_plan *p, const cn_graph *g)
{
  for (size_t i = 0; i < g->nstates; i++) {
    if (g->states[i].final < 0) continue;
    const cn_desc *to = &g->states[i].tensor->d, *from = &p->values[g->states[i].final].handle->d;
    if (!cni_same_shape(to->ndim, to->shape, from->ndim, from->shape))
      return cni_fail(CN_ERR_SHAPE, "graph: what state %zu is to hold after a run has another shape", i);
  }
  for (size_t i = 0; i < g->ninputs; i++) {
    if (g->input_finals[i] < 0) continue;
    const cn_desc *to = &p->values[g->inputs[i]].handle->d, *from = &p->values[g->input_finals[i]].handle->d;
    if (!cni_same_shape(to->ndim, to->shape, from->ndim, from->shape))
      return cni_fail(CN_ERR_SHAPE, "graph: what input %zu is to hold after a run has another shape", i);
  }
  return CN_OK;
}

/* Values between nodes are the device's own affair. */
static void drop_inner(cni_plan *p, const cn_graph *g)
{
  for (size_t i = 0; i < p->nvalues; i++) {
    cni_planned *q = &p->values[i];
    if (q->varies || g->values[q->root].kind != CNI_VALUE_RESULT || g->values[q->root].device == CN_CPU) continue;
    cni_tensor_release(q->handle);
    q->handle = NULL;
    q->size = 0;
  }
}

/* Weights: states that runs leave as they are, and constants. */
static void find_weights(cni_plan *p, const cn_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    for (int k = 0; k < n->nin && k < 32; k++) {
      const cni_gvalue *root = n->in[k] < 0 ? NULL : &g->values[p->values[n->in[k]].root];
      bool weight = root && is_weight(g, root);
      if (weight && root->device == CN_CPU && g->values[n->out[0]].device == CN_CPU) p->stays[i] |= 1u << k;
    }
    p->weighted |= p->stays[i] != 0;
  }
}

static int plan_nodes(cni_plan *p, const cn_graph *g, cn_tensor *const *inputs, const int64_t *sizes)
{
  p->graph = g;
  int status = allocate(p, g);
  if (!status) status = start_values(p, g, inputs, sizes);
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    p->args[i] = cni_args_at(g, &g->nodes[i], sizes);
    status = p->args[i] ? infer_node(p, g, i) : cn_err() ? cn_err() : CN_ERR_MEMORY;
  }
  if (!status) status = check_finals(p, g);
  if (!status) status = cni_draw_offsets(p->draws, g, sizes);
  if (!status) status = cni_plan_whole(p, g);
  if (!status && !p->executable) status = plan_nested(p, g);
  if (!status && !p->executable) {
    alias_copies(p, g);
    status = cni_plan_pieces(p, g);
  }
  if (!status) status = cni_plan_steady(p, g);
  if (!status) status = cni_plan_order(p, g);
  if (status) return status;
  find_weights(p, g);
  lifetimes(p, g);
  cni_steady_lifetimes(p, g);
  if (p->executable) drop_inner(p, g);
  status = place(p);
  p->recordable = !status && cni_plan_recordable(p, g);
  return status;
}

/* A plan of g or, with parts, of those, which it then owns. */
static cni_plan *make_of(const cn_graph *g, cn_graph *parts, cn_tensor *const *inputs, const int64_t *sizes)
{
  cni_plan *p = cni_alloc_zero(sizeof *p);
  if (!p) return cn_graph_free(parts), NULL;
  p->parts = parts;
  atomic_init(&p->refs, 1);
  pthread_mutex_init(&p->lock, NULL);
  pthread_mutex_init(&p->turn, NULL);
  if (!plan_nodes(p, parts ? parts : g, inputs, sizes)) return p;
  free_one(p);
  return NULL;
}

/* Calls of composite ops are planned as what they are made of, unless a device takes the graph whole, as it is. */
static cni_plan *make_sized(const cn_graph *g, cn_tensor *const *inputs, const int64_t *sizes)
{
  if (!cni_has_calls(g)) return make_of(g, NULL, inputs, sizes);
  if (cni_may_be_whole(g)) {
    cni_plan *p = make_of(g, NULL, inputs, sizes);
    if (!p || p->executable) return p;
    free_one(p);
  }
  cn_graph *parts = cni_graph_lower(g, inputs, sizes);
  return parts ? make_of(g, parts, inputs, sizes) : NULL;
}

static cni_plan *make(const cn_graph *g, cn_tensor *const *inputs)
{
  int64_t *sizes = cni_size_values(g, inputs);
  cni_plan *p = sizes ? make_sized(g, inputs, sizes) : NULL;
  cni_free(sizes, g->exprs.n * sizeof *sizes);
  return p;
}

/* ---- finding ---- */

static bool same_layout(const cn_desc *a, const cn_desc *b)
{
  if (a->ndim != b->ndim || a->dtype != b->dtype || a->device != b->device) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i] || a->strides[i] != b->strides[i]) return false;
  return true;
}

static int check_inputs(const cn_graph *g, cn_tensor *const *inputs)
{
  for (size_t i = 0; i < g->ninputs; i++) {
    const cni_gvalue *v = &g->values[g->inputs[i]];
    char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
    if (!inputs[i]) return cni_fail(CN_ERR_TYPE, "graph: input %zu is NULL", i);
    if (!inputs[i]->d.data && inputs[i]->d.numel)
      return cni_fail(CN_ERR_CAPTURE, "graph: input %zu has no value: it was made while a graph was captured", i);
    const cn_desc *d = &inputs[i]->d;
    bool fits = d->dtype == v->dtype && d->ndim == v->ndim && d->device == v->device && !d->weak == !v->weak;
    bool inner = i >= g->ninputs - g->ninner;
    for (int k = 0; fits && !inner && k < v->ndim; k++) fits = d->shape[k] == v->shape[k] || v->dims[k];
    if (!fits)
      return cni_fail(CN_ERR_SHAPE,
                      "graph: input %zu is %s %s, traced was %s %s; trace again, or with cn_trace_dynamic", i,
                      cn_dtype_name((cn_dtype)d->dtype), cni_shape_text(have, sizeof have, d->ndim, d->shape),
                      cn_dtype_name((cn_dtype)v->dtype), cni_shape_text(want, sizeof want, v->ndim, v->shape));
  }
  return CN_OK;
}

static bool planned_for(const cni_plan *p, const cn_tensor *planned, const cn_tensor *given)
{
  return same_layout(&planned->d, &given->d) && (!p->by_offset || planned->offset == given->offset);
}

/* A plan among the graph's that fits; it goes to the front. The oldest goes when there are too many. */
static cni_plan *find(cn_graph *g, cn_tensor *const *inputs)
{
  int depth = 0;
  for (cni_plan **at = &g->plan; *at; at = &(*at)->next, depth++) {
    bool same = true;
    for (size_t i = 0; same && i < g->ninputs; i++)
      same = planned_for(*at, (*at)->values[(*at)->graph->inputs[i]].handle, inputs[i]);
    if (same) {
      cni_plan *p = *at;
      if (p == g->plan) return p; /* and nothing is written that others read */
      *at = p->next;
      p->next = g->plan;
      return g->plan = p;
    }
    if (depth == KEPT_PLANS - 1) {
      cni_plan_free((*at)->next);
      (*at)->next = NULL;
    }
  }
  return NULL;
}

/* A reference for the caller. */
static cni_plan *found_or_made(cn_graph *g, cn_tensor *const *inputs)
{
  pthread_mutex_lock(&g->lock);
  cni_plan *p = find(g, inputs);
  if (!p && (p = make(g, inputs))) {
    p->next = g->plan;
    g->plan = p;
    if (p->weighted && !g->prepared && !(g->prepared = cni_prepared_store_new())) cn_err_clear(); /* none is kept */
    if (p->weighted && g->prepared) p->store = cni_prepared_store_keep(g->prepared);
  }
  if (p) atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  pthread_mutex_unlock(&g->lock);
  return p;
}

cni_plan *cni_plan_for(cn_graph *g, cn_tensor *const *inputs)
{
  return check_inputs(g, inputs) ? NULL : found_or_made(g, inputs);
}

cni_plan *cni_plan_sub(cn_graph *g)
{
  size_t bytes = (g->ninputs + 1) * sizeof(cn_tensor *);
  cn_tensor **inputs = cni_alloc_zero(bytes);
  bool done = inputs != NULL;
  for (size_t i = 0; done && i < g->ninputs; i++) {
    const cni_gvalue *v = &g->values[g->inputs[i]];
    size_t size = cni_dtype_bytes(v->dtype, cni_numel(v->ndim, v->shape));
    inputs[i] = cni_tensor_over(cni_storage_meta(v->device, size, NULL), 0, v->dtype, v->ndim, v->shape,
                                v->has_strides ? v->strides : NULL);
    done = inputs[i] != NULL;
    if (done) inputs[i]->d.weak = v->weak;
  }
  cni_plan *p = done ? found_or_made(g, inputs) : NULL;
  for (size_t i = 0; inputs && i < g->ninputs; i++) cni_tensor_release(inputs[i]);
  cni_free(inputs, bytes);
  return p;
}
