/* run.c: runs a graph by its plan: one kernel after another over planned memory, then writes states back.
 *
 * Place in the flow: cn_graph_run -> cni_plan_for -> cni_context_take -> cni_run_kernel per node: the kernels of eager
 * mode, so results are eager's bit for bit; a device that records work (recorded.c) is given them once for many runs.
 * Invariant: states change only after every node that can fail has run. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "base/dtype.h"
#include "base/limits.h"
#include "control.h"
#include "ops/apply.h"
#include "ops/profile.h"
#include "run.h"
#include "segments.h"
#include "whole.h"

typedef cni_running running;

cn_tensor *cni_own_input(const running *r, cn_tensor *t)
{
  bool shared = false;
  for (size_t i = 0; r->plan->writes && i < r->g->nstates; i++)
    shared |= r->g->states[i].final >= 0 && r->g->states[i].tensor->storage == t->storage;
  return shared ? cni_scope_take(cn_clone(t)) : cni_tensor_keep(t);
}

static bool same_place(const cn_desc *a, const cn_desc *b)
{
  return a->device == b->device && a->dtype == b->dtype && cni_same_layout(a, b);
}

/* Memory for a value that is handed out: where the caller wants it, if that is laid out as planned, or new. Owned. */
static cn_tensor *output_room(const running *r, int value)
{
  const cn_desc *d = &r->plan->values[value].handle->d;
  for (size_t i = 0; r->into && i < r->g->noutputs; i++)
    if (r->g->outputs[i] == value && same_place(d, &r->into[i]->d)) return cni_tensor_keep(r->into[i]);
  if (r->plan->values[value].is_lent && r->plan->device == CN_CPU && !r->plan->apart && r->context->layout->settled)
    return cni_context_lend(r->context, r->plan, value);
  return cni_tensor_new(d->device, d->dtype, d->ndim, d->shape, d->strides);
}

/* Inputs, and memory for what is handed out, before anything runs. */
static int begin(running *r)
{
  const cni_plan *p = r->plan;
  for (size_t i = 0; i < p->nvalues; i++) {
    const cni_gvalue *v = &r->g->values[i];
    const cni_planned *q = &p->values[i];
    if (!q->varies) continue;
    if (v->kind == CNI_VALUE_INPUT) {
      if (!(r->now[i] = cni_own_input(r, r->inputs[v->index]))) return cn_err();
    } else if (q->root == (int)i && !(r->now[i] = output_room(r, (int)i))) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

void cni_forget_varying(running *r)
{
  for (size_t i = 0; i < r->plan->nvalues; i++) {
    if (!r->plan->values[i].varies) continue;
    cni_tensor_release(r->now[i]);
    r->now[i] = NULL;
  }
}

/* A view node: a tensor that looks into its input, unless the context has it. */
static int make_view(running *r, const cni_gnode *n, const cn_spec *s)
{
  for (int k = 0; k < n->nout; k++, s++) {
    if (r->now[n->out[k]]) continue;
    const cn_tensor *of = r->now[n->in[s->view_of]];
    int64_t at = cni_view_at(of->offset, of->d.dtype, s->dtype, s->offset);
    cn_tensor *t = cni_tensor_over(cni_storage_keep(of->storage), at, s->dtype, s->ndim, s->shape, s->strides);
    if (!t) return CN_ERR_MEMORY;
    r->now[n->out[k]] = t;
  }
  return CN_OK;
}

/* A node without a kernel: its decomposition, copied to where the plan wants it. What it draws are the node's
 * numbers. */
static int run_decomposed(const cni_gnode *n, cn_call *c)
{
  cn_tensor *planned[CNI_MAX_RESULTS];
  uint64_t seed, offset;
  if (c->random) return cni_fail(CN_ERR_UNSUPPORTED, "%s: parts that draw numbers cannot be recorded", n->info->name);
  size_t depth = cni_scope_push();
  memcpy(planned, c->out, (size_t)c->nout * sizeof *planned);
  memset(c->out, 0, (size_t)c->nout * sizeof *planned); /* some look whether they have a result already */
  cn_random_state(&seed, &offset);
  if (n->draw >= 0) cn_random_set_state(c->seed, c->offset);
  int status = n->info->row->decompose(c);
  if (n->draw >= 0) cn_random_set_state(seed, offset);
  if (!status) status = cn_err();
  for (int k = 0; k < c->nout && !status; k++) status = cni_copy_elements(planned[k], c->out[k]);
  memcpy(c->out, planned, (size_t)c->nout * sizeof *planned);
  cni_scope_pop(depth);
  return status;
}

/* Where in the program a node comes from, as profiles name modules: "ResNet.layer1.0". */
static const char *module_of(char *path, size_t size, const cn_graph *g, const cni_gnode *n)
{
  size_t end = size - 1, k;
  path[end] = 0;
  for (int s = n->scope; s >= 0; s = g->scopes[s].parent) {
    const cni_gscope *scope = &g->scopes[s];
    const char *name = scope->op ? "" : *scope->name ? scope->name : scope->parent < 0 ? scope->kind : "";
    if (!(k = strlen(name)) || k + 1 > end) continue;
    if (end != size - 1) path[--end] = '.';
    memcpy(path + (end -= k), name, k);
  }
  return path + end;
}

/* c: the node's call; NULL where it holds graphs. False: nodes are not asked for. */
static CNI_APART bool profile_node(const running *r, size_t node, const cn_call *c)
{
  char path[512];
  const cni_gnode *n = &r->g->nodes[node];
  return cni_profile_node_begin(n->info, c, module_of(path, sizeof path, r->g, n));
}

static int run_or_decompose(const cni_gnode *n, cn_call *c)
{
  int status = cni_run_kernel(c, n->info);
  if (status != CN_REFUSED) return status;
  if (n->info->row->decompose) return run_decomposed(n, c);
  return cni_fail(CN_ERR_UNSUPPORTED, "%s: no implementation for this call on this device", n->info->name);
}

static int run_kernel(running *r, size_t node)
{
  cn_state *st = cni_state();
  const cni_gnode *n = &r->g->nodes[node];
  cni_ready *ready = &r->context->ready[node];
  if (!ready->filled || ready->varies || CNI_UNLIKELY(r->there != NULL)) cni_ready_fill(ready, n, r->now, r->there);
  cn_call c = ready->call;
  if (CNI_UNLIKELY(st->nstreams)) c.stream = cni_memory.stream(c.device);
  if (n->draw >= 0) {
    c.seed = r->seed;
    c.offset = (r->random ? 0 : r->base) + r->plan->draws[n->draw];
    c.random = r->random;
  }
  bool profiled = CNI_UNLIKELY(st->profile != NULL) && profile_node(r, node, &c);
  int status = run_or_decompose(n, &c);
  if (profiled) cni_profile_node_end(status ? NULL : &c);
  return status;
}

/* A node that holds graphs, or calls the host. */
static int run_control(running *r, size_t node)
{
  const cni_gnode *n = &r->g->nodes[node];
  cni_ready *ready = &r->context->ready[node];
  cni_ready_fill(ready, n, r->now, NULL);
  size_t i = 0;
  while (i < r->plan->nnested && r->plan->nested[i].node != (int)node) i++;
  bool profiled = cni_profiled() && profile_node(r, node, NULL);
  const uint64_t at[2] = {r->seed, r->base + (n->draw >= 0 ? r->plan->draws[n->draw] : 0)};
  int status;
  if (n->host) status = cni_host_run(n->host, ready->in, n->nin, ready->out);
  else
    status = cni_run_control(n, r->plan->args[node], &r->plan->nested[i], &r->context->nested[i], ready->in,
                             ready->out, at);
  if (profiled) cni_profile_node_end(NULL);
  return status;
}

static int run_node(running *r, size_t node)
{
  const cni_gnode *n = &r->g->nodes[node];
  const cn_spec *spec = &r->plan->specs[r->plan->first_spec[node]];
  if (spec->view_of >= 0) return make_view(r, n, spec);
  return CNI_UNLIKELY(n->nsubs || n->host) ? run_control(r, node) : run_kernel(r, node);
}

/* The device runs all nodes; what looks into results is made here. Nodes in host memory, which it had to run as well
 * for what follows from them, run here for the host. */
static int run_whole(running *r)
{
  int status = cni_whole_launch(r->plan, r->g, r->now, r->seed, r->base);
  if (!status && r->plan->mixed) status = cni_run_nodes(r, CNI_HOST_SIDE);
  for (size_t i = 0; i < r->g->nnodes && !status; i++) {
    const cni_gnode *n = &r->g->nodes[i];
    const cn_spec *spec = &r->plan->specs[r->plan->first_spec[i]];
    if (spec->view_of >= 0 && r->now[n->in[spec->view_of]]) status = make_view(r, n, spec);
  }
  return status;
}

bool cni_states_hold(const cn_graph *g)
{
  for (size_t i = 0; i < g->nstates; i++) {
    const cni_gvalue *v = &g->values[g->states[i].value];
    const cn_tensor *t = g->states[i].tensor;
    if (t && (t->d.dtype != v->dtype || t->d.device != v->device ||
              !cni_same_shape(t->d.ndim, t->d.shape, v->ndim, v->shape)))
      return false;
  }
  return true;
}

/* ---- the end of a run ---- */

static bool shows_state(const running *r, int value)
{
  enum cni_value_kind kind = r->g->values[r->plan->values[value].root].kind;
  return kind == CNI_VALUE_STATE || kind == CNI_VALUE_INPUT;
}

/* Was the state's new value computed where the state is (order.c)? */
static bool written_already(const running *r, int v, const cni_gstate *s)
{
  return v != s->value && r->plan->values[v].root == s->value && r->g->values[v].kind == CNI_VALUE_RESULT &&
         r->plan->specs[r->plan->first_spec[r->g->values[v].node]].view_of < 0;
}

/* What state i is to be set to; NULL: nothing, or that is done. Looks into states and inputs are copied, because
 * another state may be written first. Borrowed; check the error. */
static cn_tensor *state_source(const running *r, size_t i)
{
  const cni_gstate *s = &r->g->states[i];
  int v = s->final;
  if (v < 0 || v == s->value) return NULL;
  if (written_already(r, v, s)) {
    cni_count_write(s->tensor);
    return NULL;
  }
  return shows_state(r, v) ? cn_clone(r->now[v]) : r->now[v];
}

/* What input i is to be set to; likewise. */
static cn_tensor *input_source(const running *r, size_t i)
{
  int v = r->g->input_finals[i];
  return v < 0 ? NULL : shows_state(r, v) ? cn_clone(r->now[v]) : r->now[v];
}

static bool writes_on(const cn_graph *g, size_t i, cni_side side)
{
  return cni_on_side(g, i < g->nstates ? g->states[i].value : g->inputs[i - g->nstates], side);
}

int cni_write_back(cni_running *r, cni_side side)
{
  const cn_graph *g = r->g;
  size_t depth = cni_scope_push(), n = g->nstates + g->ninputs;
  cn_tensor **from = cni_alloc((n + 1) * sizeof *from);
  int status = from ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; !status && i < n; i++) {
    from[i] = !writes_on(g, i, side) ? NULL : i < g->nstates ? state_source(r, i) : input_source(r, i - g->nstates);
    status = cn_err();
  }
  for (size_t i = 0; !status && i < n; i++)
    if (from[i]) status = cni_copy_elements(i < g->nstates ? g->states[i].tensor : r->given[i - g->nstates], from[i]);
  cni_free(from, (n + 1) * sizeof *from);
  cni_scope_pop(depth);
  return status;
}

/* A value for the caller: memory of its own. Borrowed from the scope. */
static cn_tensor *handed_out(const running *r, int v)
{
  bool own = r->plan->values[v].is_output && r->plan->values[v].root == v &&
             r->g->values[v].kind == CNI_VALUE_RESULT;
  return own ? cni_scope_add(cni_tensor_keep(r->now[v])) : cn_clone(r->now[v]);
}

/* A graph that a node holds: what is not there yet goes where it is wanted. */
static int fill_outputs(const running *r)
{
  int status = CN_OK;
  for (size_t i = 0; i < r->g->noutputs && !status; i++) {
    cn_tensor *made = r->now[r->g->outputs[i]];
    if (made != r->into[i]) status = cni_copy_elements(r->into[i], made);
  }
  return status;
}

static int give_outputs(const running *r, cn_tensor **outputs)
{
  if (r->into) return fill_outputs(r);
  for (size_t i = 0; i < r->g->noutputs; i++)
    if (!(outputs[i] = handed_out(r, r->g->outputs[i]))) return cn_err();
  return CN_OK;
}

/* ---- gradients of leaves ---- */

static bool leaf_holds(const cni_gleaf *l)
{
  const cn_tensor *now = cn_grad_of(l->tensor);
  if (l->before == CNI_GRAD_ANY || (l->before == CNI_GRAD_ABSENT && !now)) return true;
  return l->before == CNI_GRAD_GIVEN && now && (!l->given || now == l->given);
}

bool cni_leaves_hold(const cn_graph *g)
{
  for (size_t i = 0; i < g->nleaves; i++)
    if (!leaf_holds(&g->leaves[i])) return false;
  return true;
}

static int check_leaf(const cni_gleaf *l, size_t i)
{
  if (!l->tensor) return cni_fail(CN_ERR_VALUE, "graph: state %d is not bound", l->state);
  if (leaf_holds(l)) return CN_OK;
  return cni_fail(CN_ERR_VALUE, l->before == CNI_GRAD_ABSENT
                    ? "graph: leaf %zu has a gradient, and had none when the graph was traced: clear it, or trace again"
                    : "graph: leaf %zu had another gradient when the graph was traced: trace again", i);
}

int cni_leaves_check(const cn_graph *g)
{
  int status = CN_OK;
  for (size_t i = 0; i < g->nleaves && !status; i++) status = check_leaf(&g->leaves[i], i);
  return status;
}

static int give_gradients(const running *r)
{
  int status = CN_OK;
  size_t depth = cni_scope_push();
  for (size_t i = 0; i < r->g->nleaves && !status; i++) {
    const cni_gleaf *l = &r->g->leaves[i];
    if (l->after == CNI_GRAD_KEPT) continue;
    cn_tensor *grad = l->after == CNI_GRAD_VALUE ? handed_out(r, l->value) : NULL;
    status = l->after == CNI_GRAD_VALUE && !grad ? cn_err() : cn_set_grad(l->tensor, grad);
  }
  cni_scope_pop(depth);
  return status;
}

int cni_run_nodes(cni_running *r, cni_side side)
{
  int status = CN_OK;
  cni_scratch outer = cni_lent; /* of the node whose graph this is */
  for (size_t i = 0; i < r->plan->nnodes && !status; i++) {
    size_t node = (size_t)r->plan->order[i];
    const cni_gnode *n = &r->g->nodes[node];
    if (!cni_on_side(r->g, n->out[0], side) || (r->settled && r->plan->steady[node])) continue;
    if (i < r->plan->commit && !r->there) status = cni_limits_hold(n->info->name); /* a recording takes no time */
    if (status) break;
    cni_lent = cni_work_lend(r->context, i);
    status = run_node(r, node);
    if (cni_lent.most) cni_work_note(r->context, i, cni_lent.most);
  }
  cni_lent = outer;
  return status;
}

static _Atomic size_t settled;

size_t cni_settled(void) { return atomic_load(&settled); }

int cni_settle(cni_running *r)
{
  uint64_t stamp = r->plan->steady ? cni_steady_stamp(r->plan, r->g) : 0;
  int status = CN_OK;
  if (!r->plan->steady || (stamp && stamp == r->context->stamp)) return CN_OK;
  r->context->stamp = 0;
  for (size_t i = 0; i < r->plan->nnodes && !status; i++)
    if (r->plan->steady[r->plan->order[i]]) status = run_node(r, (size_t)r->plan->order[i]);
  if (!status) r->context->stamp = stamp;
  atomic_fetch_add_explicit(&settled, 1, memory_order_relaxed);
  return status;
}

void cni_take_random(cni_running *r)
{
  if (!r->at) cni_random_take(&r->seed, &r->base, r->plan->draws[r->plan->ndraws]);
  else r->seed = r->at[0], r->base = r->at[1];
}

/* Gradients that the traced code cleared before it looked at them go first, as they do there: their memory serves the
 * run. A context in whose memory some are that others hold is left to them. */
static int drop_gradients(running *r)
{
  for (size_t i = 0; i < r->g->nleaves; i++) {
    const cni_gleaf *l = &r->g->leaves[i];
    if (l->before == CNI_GRAD_ANY && l->after != CNI_GRAD_KEPT) cn_set_grad(l->tensor, NULL);
  }
  if (!cni_context_is_lent(r->context)) return cn_err();
  r->plan->apart = true;
  r->context = cni_context_renew(r->plan, r->g, r->context);
  r->now = r->context ? r->context->now : NULL;
  return r->context ? CN_OK : cn_err();
}

static int run_once(running *r, cn_tensor **outputs)
{
  int status = r->g->nleaves ? drop_gradients(r) : CN_OK;
  if (!r->context) return status;
  if (r->context->is_short) cni_work_fit(r->plan, r->g, r->context);
  if (!status && !r->context->layout) status = cni_context_move(r->plan, r->g, r->context);
  if (!status) status = begin(r);
  cni_take_random(r);
  if (!status) status = cni_settle(r);
  r->settled = r->plan->steady != NULL;
  if (!status) status = r->plan->executable ? run_whole(r) : cni_run_nodes(r, CNI_BOTH_SIDES);
  if (!status) status = give_outputs(r, outputs);
  if (!status) status = cni_write_back(r, CNI_BOTH_SIDES);
  if (!status) status = give_gradients(r);
  cni_forget_varying(r);
  if (!status) cni_work_fit(r->plan, r->g, r->context);
  return status;
}

/* What backward passes have saved of states may have to be copied before a run writes to these. */
static int settle_states(const running *r)
{
  int status = CN_OK;
  for (size_t i = 0; i < r->g->nstates && !status; i++) {
    const cni_gstate *s = &r->g->states[i];
    if (s->tensor && s->final >= 0 && s->final != s->value) status = cni_storage_settle(s->tensor->storage);
  }
  return status;
}

/* A run that fails leaves the thread's random numbers where they were. */
static int run_either_way(running *r, cn_tensor **outputs)
{
  uint64_t seed, offset;
  bool draws = !r->at && r->plan->draws[r->plan->ndraws];
  if (draws) cn_random_state(&seed, &offset);
  int status = cni_leaves_check(r->g);
  if (!status) status = settle_states(r);
  if (!status) status = r->plan->recordable ? cni_run_recorded(r, outputs) : CN_REFUSED;
  if (status == CN_REFUSED) status = run_once(r, outputs);
  if (status && draws) cn_random_set_state(seed, offset);
  return status;
}

/* Runs without modes. One that changes states waits for its turn. */
static int run_all(running *r, const cn_graph *g, cn_tensor **outputs)
{
  cn_state *st = cni_state();
  bool no_grad = st->no_grad;
  uint32_t modes = st->modes;
  int status = r->plan->writes ? cni_limits_lock(&r->plan->turn, "graph") : cni_limits_hold("graph");
  if (status) return status;
  st->no_grad = true;
  st->modes = 0;
  status = cni_carried_refresh(g);
  if (!status) status = cni_weights_refresh(g);
  if (!status) status = run_either_way(r, outputs);
  if (!status) cni_carried_written(g);
  if (r->plan->writes) pthread_mutex_unlock(&r->plan->turn);
  st->no_grad = no_grad;
  st->modes = modes;
  return status;
}

/* Where it runs: on the first device that is not the host, if there is one. */
static cn_device device_of(const cn_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++)
    if (g->nodes[i].nout && g->values[g->nodes[i].out[0]].device != CN_CPU) return g->values[g->nodes[i].out[0]].device;
  return CN_CPU;
}

static int run_graph(cn_tensor **outputs, running *r, cn_graph *g)
{
  if (!(r->plan = cni_plan_for(g, r->inputs))) return cn_err();
  r->g = r->plan->graph;
  r->context = cni_context_take(r->plan, r->g);
  int status = r->context ? CN_OK : cn_err();
  if (r->context) {
    r->now = r->context->now;
    bool profiled = cni_state()->profile != NULL;
    if (CNI_UNLIKELY(profiled)) cni_profile_graph_begin(device_of(r->g));
    status = run_all(r, g, outputs);
    if (CNI_UNLIKELY(profiled)) cni_profile_graph_end();
  }
  if (r->context) { /* a run may have had to take another */
    r->context->runs++;
    cni_context_give(r->plan, r->context);
  }
  cni_plan_release(r->plan);
  return status;
}

int cni_run_sub(const cni_sub *s, cn_tensor *const *in, cn_tensor *const *out, const uint64_t *at)
{
  running r = {.g = s->g, .plan = s->plan, .inputs = in, .given = in, .into = out, .context = s->context,
               .now = s->context->now, .at = at};
  return run_once(&r, NULL);
}

/* ---- inputs in the memory order they were traced in ---- */

void cni_traced_order(const cni_gvalue *v, const int64_t *shape, int64_t *strides)
{
  int order[CN_MAX_DIMS];
  int64_t step = 1;
  if (!v->has_strides) {
    cni_contiguous_strides(v->ndim, shape, strides);
    return;
  }
  for (int i = 0; i < v->ndim; i++) { /* by rising stride; later dims first among equals */
    int j = i;
    for (; j > 0 && v->strides[order[j - 1]] >= v->strides[i]; j--) order[j] = order[j - 1];
    order[j] = i;
  }
  for (int i = 0; i < v->ndim; i++) {
    strides[order[i]] = step;
    step *= shape[order[i]] > 1 ? shape[order[i]] : 1;
  }
}

bool cni_in_order(const cn_desc *d, const int64_t *strides)
{
  for (int i = 0; i < d->ndim; i++)
    if (d->shape[i] != 1 && d->strides[i] != strides[i]) return false;
  return true;
}

/* The trace depends on its inputs' memory order (it decides when a reshape is a view, say): an input in another order
 * is copied into the traced one. Borrowed from the scope or the caller; NULL on failure. */
static cn_tensor *fitted(const cni_gvalue *v, cn_tensor *t)
{
  int64_t strides[CN_MAX_DIMS];
  if (!t || t->d.ndim != v->ndim || !t->d.numel || !t->d.data) return t; /* what is wrong is said by the plan */
  if (v->has_strides && cni_in_order(&t->d, v->strides)) return t;
  cni_traced_order(v, t->d.shape, strides);
  if (cni_in_order(&t->d, strides)) return t;
  cn_tensor *copy = cni_scope_add(cni_tensor_new(t->d.device, t->d.dtype, t->d.ndim, t->d.shape, strides));
  return copy && !cni_copy_elements(copy, t) ? copy : NULL;
}

static int check_states(const cn_graph *g)
{
  if (cni_states_hold(g)) return CN_OK;
  return cni_fail(CN_ERR_SHAPE, "graph: a state has another type or shape than it had when the graph was traced");
}

int cni_graph_run_at(cn_tensor **outputs, cn_graph *g, cn_tensor *const *inputs, const uint64_t *at)
{
  if (cn_err()) return cn_err();
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_run: the graph is NULL");
  if (cni_state()->capture) return cni_fail(CN_ERR_CAPTURE, "graph_run: a graph cannot run while one is captured");
  if (cni_whole.by_hand())
    return cni_fail(CN_ERR_CAPTURE, "graph_run: a graph's memory is its own: it cannot be recorded by hand");
  if (check_states(g)) return cn_err();
  if (cni_has_counts(g)) return cni_segments_run(outputs, g, inputs, at);
  cn_tensor **in = cni_alloc((g->ninputs + 1) * sizeof *in);
  if (!in) return CN_ERR_MEMORY;
  for (size_t i = 0; i < g->ninputs; i++)
    in[i] = i < g->ninputs - g->ninner ? fitted(&g->values[g->inputs[i]], inputs[i]) : inputs[i];
  running r = {.inputs = in, .given = inputs, .at = at};
  int status = cn_err() ? cn_err() : run_graph(outputs, &r, g);
  cni_free(in, (g->ninputs + 1) * sizeof *in);
  return status;
}

int cn_graph_run(cn_tensor **outputs, cn_graph *g, cn_tensor *const *inputs)
{
  return cni_graph_run_at(outputs, g, inputs, NULL);
}

/* Of the newest layout of the graph's last plan; 0: there is none. */
static void layout_sizes(size_t *total, size_t *least, const cn_graph *g)
{
  cni_plan *p = g ? g->plan : NULL;
  if (p) pthread_mutex_lock(&p->lock);
  if (total) *total = p ? p->layout->total : 0;
  if (least) *least = p ? p->layout->least : 0;
  if (p) pthread_mutex_unlock(&p->lock);
}

void cn_graph_memory(const cn_graph *g, size_t *planned, size_t *unplanned)
{
  layout_sizes(planned, NULL, g);
  if (unplanned) *unplanned = g && g->plan ? g->plan->unplanned : 0;
}

size_t cn_graph_memory_least(const cn_graph *g)
{
  size_t least;
  layout_sizes(NULL, &least, g);
  return least;
}
