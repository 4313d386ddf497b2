/* replay.c: runs a graph's nodes one by one through the door of ops, under whatever modes the thread has: autograd
 * records them, autocast casts them, a capture takes them over.
 *
 * Place in the flow: cn_graph_replay -> cni_apply per node; the module of a graph (nn/graph_module.c), gradients of
 * gradients through compiled functions (compile/joint.c). run.c is the faster way where nobody looks. Invariant: what
 * the door does not change is what a run gives: values, random numbers, what is written and which gradients are
 * left. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hooks.h"
#include "capture.h"
#include "control.h"
#include "ops/inplace.h"
#include "plan.h"
#include "segments.h"

enum { MOST_SCOPES = 64 }; /* that stand in one another; what is deeper counts to the last */

typedef struct replaying {
  const cn_graph *g;
  const cni_replay *how;
  const cn_replay_opts *opts;
  cn_tensor *const *given; /* inputs as the caller has them */
  cn_tensor **now;         /* per value; owned */
  int *left;               /* per value: who still reads it */
  int64_t *sizes;          /* of all expressions */
  uint64_t *draws;         /* as a plan's */
  uint64_t seed, base;     /* where random numbers begin */
  int open[MOST_SCOPES], handle[MOST_SCOPES], nopen; /* while a graph is captured: the scopes around, and its own */
} replaying;

/* ---- what is wanted ---- */

static void want(replaying *r, int value)
{
  if (value >= 0) r->left[value]++;
}

static bool wanted(const replaying *r, const cni_gnode *n)
{
  if (cni_node_flags(n) & (CN_OP_CHECKS | CN_OP_EFFECTS)) return true;
  if (cni_counts(r->g, n)) return true; /* a size may be all that is read */
  for (int k = 0; k < n->nout; k++)
    if (r->left[n->out[k]]) return true;
  return false;
}

/* Counts who reads each value; what is there at the end has a reader more. */
static void count_readers(replaying *r)
{
  const cn_graph *g = r->g;
  bool writes = !r->opts->no_writes;
  for (size_t i = 0; i < g->noutputs; i++) want(r, g->outputs[i]);
  for (size_t i = 0; writes && i < g->nstates; i++) want(r, g->states[i].final);
  for (size_t i = 0; writes && i < g->ninputs; i++) want(r, g->input_finals[i]);
  for (size_t i = 0; writes && i < g->nleaves; i++) want(r, g->leaves[i].value);
  for (size_t i = g->nnodes; i-- > 0;)
    for (int k = 0; wanted(r, &g->nodes[i]) && k < g->nodes[i].nin; k++) want(r, g->nodes[i].in[k]);
}

/* ---- values that no node makes ---- */

static int check_input(const cni_gvalue *v, const cn_tensor *t, size_t i)
{
  char have[CNI_SHAPE_TEXT], need[CNI_SHAPE_TEXT];
  if (!t) return cni_fail(CN_ERR_TYPE, "graph: input %zu is NULL", i);
  bool fits = t->d.ndim == v->ndim;
  for (int k = 0; fits && k < v->ndim; k++) fits = t->d.shape[k] == v->shape[k] || v->dims[k];
  if (fits) return CN_OK;
  return cni_fail(CN_ERR_SHAPE, "graph: input %zu is of shape %s, traced was %s; trace again, or with cn_trace_dynamic",
                  i, cni_shape_text(have, sizeof have, t->d.ndim, t->d.shape),
                  cni_shape_text(need, sizeof need, v->ndim, v->shape));
}

/* The input in the memory order in which it was traced, by ops that carry gradients. Borrowed. */
static cn_tensor *in_traced_order(const cni_gvalue *v, cn_tensor *t)
{
  int64_t strides[CN_MAX_DIMS], order[CN_MAX_DIMS], back[CN_MAX_DIMS];
  if (!t->d.numel || (v->has_strides && cni_in_order(&t->d, v->strides))) return t;
  cni_traced_order(v, t->d.shape, strides);
  if (cni_in_order(&t->d, strides)) return t;
  for (int i = 0; i < v->ndim; i++) { /* dims by falling stride */
    int j = i;
    for (; j > 0 && strides[order[j - 1]] < strides[i]; j--) order[j] = order[j - 1];
    order[j] = i;
  }
  for (int i = 0; i < v->ndim; i++) back[order[i]] = i;
  cn_tensor *rows = cn_contiguous(cn_permute(t, order, (size_t)v->ndim));
  return cn_permute(rows, back, (size_t)v->ndim);
}

/* Borrowed; NULL with the error set. */
static cn_tensor *state_at(const replaying *r, size_t i)
{
  const cni_replay *how = r->how;
  cn_tensor *t = how->states && how->states[i] ? how->states[i] : r->g->states[i].tensor;
  if (!t) cni_fail(CN_ERR_VALUE, "graph: state %zu is not bound", i);
  if (!t || !how->versions || cni_version(t) == how->versions[i]) return t;
  cni_fail(CN_ERR_GRAD, "graph: state %zu was changed in place since the graph ran", i);
  return NULL;
}

/* Owned; NULL with the error set. */
static cn_tensor *source(const replaying *r, const cni_gvalue *v)
{
  switch (v->kind) {
  case CNI_VALUE_INPUT: return cni_tensor_keep(in_traced_order(v, r->given[v->index]));
  case CNI_VALUE_STATE: return cni_tensor_keep(state_at(r, (size_t)v->index));
  case CNI_VALUE_SCALAR: return cni_scalar_at(r->g, v, r->sizes);
  default: return cni_tensor_keep(v->tensor);
  }
}

static int start(replaying *r)
{
  const cn_graph *g = r->g;
  int status = CN_OK;
  for (size_t i = 0; i < g->ninputs && !status; i++) status = check_input(&g->values[g->inputs[i]], r->given[i], i);
  if (status || !(r->sizes = cni_size_values(g, r->given)) || cni_draw_offsets(r->draws, g, r->sizes)) return cn_err();
  for (size_t i = 0; i < g->nvalues; i++)
    if (r->left[i] && g->values[i].kind != CNI_VALUE_RESULT && !(r->now[i] = source(r, &g->values[i])))
      return cn_err() ? cn_err() : CN_ERR_MEMORY;
  return CN_OK;
}

/* ---- scopes: an inlined graph keeps its parts' names ---- */

/* The named scopes around a node, the outermost first. */
static int named_scopes(const cn_graph *g, int scope, int *path)
{
  int n = 0;
  for (int s = scope; s >= 0; s = g->scopes[s].parent) n += !g->scopes[s].op;
  int depth = n < MOST_SCOPES ? n : MOST_SCOPES;
  for (int s = scope; s >= 0; s = g->scopes[s].parent)
    if (!g->scopes[s].op && --n < depth) path[n] = s;
  return depth;
}

static int enter_scope(replaying *r, int scope)
{
  int path[MOST_SCOPES], n = named_scopes(r->g, scope, path), same = 0;
  while (same < n && same < r->nopen && path[same] == r->open[same]) same++;
  if (same < r->nopen) cn_trace_scope_end(r->handle[same]);
  for (r->nopen = same; r->nopen < n; r->nopen++) {
    const cni_gscope *s = &r->g->scopes[path[r->nopen]];
    int handle = cn_trace_scope_begin(s->name, s->kind, NULL);
    if (handle < 0) return handle;
    r->open[r->nopen] = path[r->nopen];
    r->handle[r->nopen] = handle;
  }
  return CN_OK;
}

/* The backward of a function that the program wrote itself is not in the graph. */
static int check_function(const replaying *r, const cni_gnode *n, cn_tensor *const *in)
{
  if (cni_state()->no_grad) return CN_OK;
  for (int s = n->scope; s >= 0; s = r->g->scopes[s].parent) {
    if (r->g->scopes[s].op || strcmp(r->g->scopes[s].kind, CNI_SCOPE_FUNCTION)) continue;
    for (int k = 0; k < n->nin; k++)
      if (in[k] && cn_needs_grad(in[k]))
        return cni_fail(CN_ERR_GRAD, "graph: %s is a function with a backward of its own, which is not in the graph: "
                        "no gradient goes through it", r->g->scopes[s].name);
  }
  return CN_OK;
}

/* ---- nodes ---- */

/* The node as its decomposition, though there may be a kernel. Owned results. */
static int run_parts(const replaying *r, const cni_gnode *n, const cn_value *args, cn_tensor *const *in,
                     cn_tensor **out)
{
  cn_spec spec[CNI_MAX_RESULTS];
  cn_call c;
  cni_node_call(&c, r->g, n, args, in);
  c.out = out;
  c.spec = spec;
  bool captured = cni_capturing() != NULL;
  int status = c.op->infer(&c), scope = -1;
  if (!status && captured && (scope = cni_scope_call_begin(n->info, &c)) < 0) status = scope;
  if (status) return status;
  size_t depth = cni_scope_push();
  status = c.op->decompose(&c);
  if (!status) status = cn_err();
  if (captured) status = cni_scope_call_end(scope, &c, status);
  for (int k = 0; k < n->nout; k++) out[k] = !status && out[k] ? cni_scope_take_inside(depth, out[k]) : NULL;
  cni_scope_pop(depth);
  return status;
}

static bool taken_apart(const replaying *r, const cn_op *op)
{
  return r->opts->decompose && op->decompose && !(op->flags & CN_OP_COMPOSITE) &&
         r->opts->decompose(op, r->opts->payload);
}

/* A branch, a loop or a host call. Owned results. */
static int call_control(const replaying *r, const cni_gnode *n, const cn_value *args, cn_tensor *const *in,
                        cn_tensor **out)
{
  size_t depth = cni_scope_push();
  const cni_replayed call = {n, args, in, r->opts};
  int status = n->host ? cni_host_call(out, n->host, in, (size_t)n->nin) : cni_hooks.replay_control(out, &call);
  for (int k = 0; k < n->nout; k++) out[k] = status ? NULL : cni_tensor_keep(out[k]);
  cni_scope_pop(depth);
  return status;
}

/* The call, with the defaults and the random numbers that the node has. */
static int call_node(replaying *r, const cni_gnode *n, const cn_value *args, cn_tensor *const *in, cn_tensor **out)
{
  cni_defaults defaults;
  int nout = n->nout;
  int status = cni_capturing() ? enter_scope(r, n->scope) : CN_OK;
  if (!status) status = check_function(r, n, in);
  if (status) return status;
  if (n->draw >= 0) cn_random_set_state(r->seed, r->base + r->draws[n->draw]);
  if (cni_is_control(n)) return call_control(r, n, args, in, out);
  cni_defaults_begin(&defaults, r->g, n);
  status = taken_apart(r, n->info->row) ? run_parts(r, n, args, in, out)
                                        : cni_apply(n->info, args, n->nargs, NULL, out, &nout);
  cni_defaults_end(&defaults);
  if (!status && nout != n->nout)
    status = cni_fail(CN_ERR_INTERNAL, "graph: %s has %d results, not %d", n->info->name, nout, n->nout);
  return status;
}

static void drop_read(replaying *r, const cni_gnode *n)
{
  for (int k = 0; k < n->nin; k++) {
    int v = n->in[k];
    if (v < 0 || --r->left[v]) continue;
    cni_tensor_release(r->now[v]);
    r->now[v] = NULL;
  }
}

/* A node has counted: numbers that follow from the size, and draws behind it, are known now. */
static int note_count(replaying *r, int value, const cn_tensor *t)
{
  const cn_graph *g = r->g;
  int size = cni_plain_size(g, &g->values[value], 0);
  if (size < 0) return CN_OK;
  int status = cni_size_found(g, r->sizes, size, t->d.shape[0]);
  if (!status) status = cni_draw_offsets(r->draws, g, r->sizes);
  for (size_t i = 0; i < g->nvalues && !status; i++) {
    if (!r->now[i] || g->values[i].kind != CNI_VALUE_SCALAR || !g->values[i].expr) continue;
    cni_tensor_release(r->now[i]);
    if (!(r->now[i] = cni_scalar_at(g, &g->values[i], r->sizes))) status = cn_err() ? cn_err() : CN_ERR_MEMORY;
  }
  return status;
}

static int replay_node(replaying *r, const cni_gnode *n)
{
  size_t room = (size_t)(n->nout > CNI_MAX_RESULTS ? n->nout : CNI_MAX_RESULTS);
  size_t bytes = ((size_t)n->nin + room) * sizeof(cn_tensor *);
  cn_tensor **out = cni_alloc_zero(bytes), **in = out ? out + room : NULL;
  cn_value *args = in ? cni_args_at(r->g, n, r->sizes) : NULL;
  int status = args ? CN_OK : cn_err() ? cn_err() : CN_ERR_MEMORY;
  for (int k = 0; in && k < n->nin; k++) in[k] = n->in[k] < 0 ? NULL : r->now[n->in[k]];
  if (!status) {
    if (!cni_is_control(n)) cni_fill_slots(n->info, args, in);
    status = call_node(r, n, args, in, out);
  }
  for (int k = 0; k < n->nout && !status; k++) status = note_count(r, n->out[k], out[k]);
  for (int k = 0; out && k < n->nout; k++)
    if (!status && r->left[n->out[k]]) r->now[n->out[k]] = out[k];
    else cni_tensor_release(out[k]);
  if (!status) drop_read(r, n);
  cni_args_at_free(args);
  cni_free(out, bytes);
  return status;
}

/* ---- the end: results, and what is written ---- */

static bool is_written(const replaying *r, const cn_tensor *t)
{
  const cn_graph *g = r->g;
  for (size_t i = 0; i < g->nstates; i++)
    if (g->states[i].final >= 0 && state_at(r, i)->storage == t->storage) return true;
  for (size_t i = 0; i < g->ninputs; i++)
    if (g->input_finals[i] >= 0 && r->given[i]->storage == t->storage) return true;
  return false;
}

/* What looks into memory that is written now is copied first. Borrowed. */
static cn_tensor *settled(const replaying *r, int value)
{
  cn_tensor *t = r->now[value];
  return !r->opts->no_writes && is_written(r, t) ? cn_clone(t) : t;
}

static int give_outputs(replaying *r, cn_tensor **outputs)
{
  for (size_t i = 0; i < r->g->noutputs; i++) {
    cn_tensor *t = settled(r, r->g->outputs[i]);
    outputs[i] = t ? cni_scope_add(cni_tensor_keep(t)) : NULL;
    if (!outputs[i]) return cn_err();
  }
  return CN_OK;
}

/* States are written as a run does it, without history; an input is the caller's, and gets one. */
static int write_all(replaying *r, cn_tensor **from)
{
  const cn_graph *g = r->g;
  cn_state *st = cni_state();
  bool no_grad = st->no_grad;
  int status = CN_OK;
  for (size_t i = 0; i < g->nstates + g->ninputs && !status; i++) {
    bool state = i < g->nstates;
    int v = state ? g->states[i].final : g->input_finals[i - g->nstates];
    bool same = state ? v == g->states[i].value : v == g->inputs[i - g->nstates];
    from[i] = v < 0 || same ? NULL : settled(r, v);
    status = cn_err();
  }
  for (size_t i = 0; i < g->nstates + g->ninputs && !status; i++) {
    if (!from[i]) continue;
    st->no_grad = no_grad || i < g->nstates;
    status = cni_copy_op(i < g->nstates ? state_at(r, i) : r->given[i - g->nstates], from[i]);
    st->no_grad = no_grad;
  }
  return status;
}

static int give_gradients(const replaying *r)
{
  int status = CN_OK, saved = cn_no_grad_begin();
  for (size_t i = 0; i < r->g->nleaves && !status; i++) {
    const cni_gleaf *l = &r->g->leaves[i];
    if (l->after == CNI_GRAD_KEPT) continue;
    cn_tensor *grad = l->after == CNI_GRAD_VALUE ? cn_clone(r->now[l->value]) : NULL;
    status = l->after == CNI_GRAD_VALUE && !grad ? cn_err() : cn_set_grad(l->tensor, grad);
  }
  cn_no_grad_end(saved);
  return status;
}

static int write_back(replaying *r)
{
  size_t bytes = (r->g->nstates + r->g->ninputs + 1) * sizeof(cn_tensor *), depth = cni_scope_push();
  cn_tensor **from = cni_alloc_zero(bytes);
  int status = from ? write_all(r, from) : CN_ERR_MEMORY;
  if (!status) status = give_gradients(r);
  cni_free(from, bytes);
  cni_scope_pop(depth);
  return status;
}

/* ---- the whole ---- */

/* A capture that takes the nodes over has the graph's draws, also those that no node reads any more. */
static int begin_draws(replaying *r)
{
  int status = CN_OK;
  if (r->how->at) r->seed = r->how->at[0], r->base = r->how->at[1];
  else cn_random_state(&r->seed, &r->base);
  for (size_t i = 0; cni_capturing() && i < r->g->ndraws && !status; i++) {
    int draw = cni_draw_at(cni_capturing(), r->base + r->draws[i], r->draws[i + 1] - r->draws[i], "graph");
    status = draw < 0 ? draw : CN_OK;
  }
  return status;
}

static int replay_nodes(replaying *r, cn_tensor **outputs)
{
  uint64_t seed, offset;
  size_t depth = cni_scope_push();
  cn_random_state(&seed, &offset);
  count_readers(r);
  int status = start(r);
  if (!status && !r->opts->no_writes) status = cni_leaves_check(r->g);
  if (!status) status = begin_draws(r);
  for (size_t i = 0; i < r->g->nnodes && !status; i++)
    if (wanted(r, &r->g->nodes[i])) status = replay_node(r, &r->g->nodes[i]);
  if (r->how->at || status) cn_random_set_state(seed, offset);
  else if (r->g->ndraws) cn_random_set_state(r->seed, r->base + r->draws[r->g->ndraws]);
  if (r->nopen) cn_trace_scope_end(r->handle[0]);
  cni_scope_pop(depth);
  if (!status) status = give_outputs(r, outputs);
  return status || r->opts->no_writes ? status : write_back(r);
}

int cni_graph_replay(cn_tensor **outputs, const cn_graph *g, cn_tensor *const *inputs, const cni_replay *how)
{
  replaying r = {.g = g, .how = how, .opts = &how->opts, .given = inputs};
  size_t now_bytes = (g->nvalues + 1) * sizeof *r.now, left_bytes = (g->nvalues + 1) * sizeof *r.left;
  size_t draws_bytes = (g->ndraws + 1) * sizeof *r.draws;
  r.now = cni_alloc_zero(now_bytes);
  r.left = r.now ? cni_alloc_zero(left_bytes) : NULL;
  r.draws = r.left ? cni_alloc_zero(draws_bytes) : NULL;
  int status = r.draws ? replay_nodes(&r, outputs) : CN_ERR_MEMORY;
  for (size_t i = 0; r.now && i < g->nvalues; i++) cni_tensor_release(r.now[i]);
  cni_free(r.sizes, g->exprs.n * sizeof *r.sizes);
  cni_free(r.draws, draws_bytes);
  cni_free(r.left, left_bytes);
  cni_free(r.now, now_bytes);
  return status;
}

int cn_graph_replay_with(cn_tensor **outputs, const cn_graph *g, cn_tensor *const *inputs, const cn_replay_opts *opts)
{
  cni_replay how = {.opts = {.size = sizeof how.opts}};
  if (cn_err()) return cn_err();
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_replay: the graph is NULL");
  if (opts) memcpy(&how.opts, opts, opts->size < sizeof how.opts ? opts->size : sizeof how.opts);
  return cni_graph_replay(outputs, g, inputs, &how);
}

/* ---- as a module's forward ---- */

/* The graph with its composite ops whole, as the program called them, so that modes see what they saw then. Made once.
 * Borrowed; NULL with the error set. */
static const cn_graph *with_whole_calls(cn_graph *g)
{
  if (g->nleaves) return g; /* gradients are taken apart */
  pthread_mutex_lock(&g->lock);
  if (!g->lifted) {
    cn_graph *made = cn_graph_copy(g);
    if (made && cn_graph_lift(made, NULL, NULL) >= 0) g->lifted = made;
    else cn_graph_free(made);
  }
  pthread_mutex_unlock(&g->lock);
  return g->lifted;
}

static bool is_like(const cn_tensor *t, const cni_gvalue *v)
{
  return t && t->d.dtype == v->dtype && t->d.device == v->device;
}

/* Does a run do? Nobody looks at ops, and all tensors are of the kinds that were traced. */
static bool can_run(const cn_graph *g, cn_tensor *const *inputs, cn_tensor *const *states)
{
  const cn_state *st = cni_state();
  if (!st->no_grad || st->modes || st->capture) return false;
  for (size_t i = 0; i < g->ninputs; i++)
    if (!is_like(inputs[i], &g->values[g->inputs[i]])) return false;
  for (size_t i = 0; i < g->nstates; i++)
    if (states[i] != g->states[i].tensor || !is_like(states[i], &g->values[g->states[i].value])) return false;
  return true;
}

int cn_graph_call(cn_tensor **outputs, cn_graph *g, cn_tensor *const *inputs, cn_tensor *const *given)
{
  if (cn_err()) return cn_err();
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_call: the graph is NULL");
  size_t bytes = (g->nstates + 1) * sizeof(cn_tensor *);
  cn_tensor **states = cni_alloc(bytes);
  if (!states) return CN_ERR_MEMORY;
  bool other = false;
  for (size_t i = 0; i < g->nstates; i++) {
    states[i] = given && given[i] ? given[i] : g->states[i].tensor;
    other |= states[i] != g->states[i].tensor;
  }
  int status = CN_OK;
  if (can_run(g, inputs, states)) status = cn_graph_run(outputs, g, inputs);
  else if (other && g->nleaves)
    status = cni_fail(CN_ERR_UNSUPPORTED, "graph_call: a graph that leaves gradients has its own states alone");
  else {
    const cn_graph *whole = with_whole_calls(g);
    status = whole ? cni_graph_replay(outputs, whole, inputs, &(cni_replay){.states = states}) : cn_err();
  }
  cni_free(states, bytes);
  return status;
}

/* ---- types alone ---- */

typedef struct inferring {
  const cn_graph *g;
  cn_graph_value *results;
} inferring;

static int infer_results(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  const inferring *k = payload;
  size_t bytes = (k->g->noutputs + 1) * sizeof *outputs;
  cn_tensor **made = cni_alloc_zero(bytes);
  (void)outputs;
  int status = made ? cni_graph_replay(made, k->g, inputs, &(cni_replay){.opts.no_writes = true}) : CN_ERR_MEMORY;
  for (size_t i = 0; i < k->g->noutputs && !status; i++) {
    const cn_desc *d = &made[i]->d;
    k->results[i] = (cn_graph_value){.dtype = (cn_dtype)d->dtype, .device = d->device, .ndim = d->ndim};
    memcpy(k->results[i].shape, d->shape, (size_t)d->ndim * sizeof *d->shape);
  }
  cni_free(made, bytes);
  return status;
}

static cn_tensor *like(const cn_graph_value *v)
{
  if (v->ndim < 0 || v->ndim > CN_MAX_DIMS) {
    cni_fail(CN_ERR_SHAPE, "graph_infer: an input has %d dimensions", v->ndim);
    return NULL;
  }
  size_t size = cni_dtype_bytes((int)v->dtype, cni_numel(v->ndim, v->shape));
  return cni_scope_add(
    cni_tensor_over(cni_storage_meta(v->device, size, NULL), 0, (int)v->dtype, v->ndim, v->shape, NULL));
}

int cn_graph_infer(cn_graph_value *outputs, const cn_graph *g, const cn_graph_value *inputs)
{
  if (cn_err()) return cn_err();
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_infer: the graph is NULL");
  size_t bytes = (g->ninputs + 1) * sizeof(cn_tensor *), depth = cni_scope_push();
  cn_tensor **in = cni_alloc_zero(bytes);
  void *paused = cn_trace_pause();
  int status = in ? CN_OK : CN_ERR_MEMORY, saved = cn_no_grad_begin();
  for (size_t i = 0; i < g->ninputs && !status; i++)
    if (!(in[i] = like(&inputs[i]))) status = cn_err();
  cn_graph *captured = status ? NULL : cn_trace(infer_results, 0, in, g->ninputs, &(inferring){g, outputs});
  if (!captured && !status) status = cn_err();
  cn_graph_free(captured);
  cn_no_grad_end(saved);
  cn_trace_resume(paused);
  cni_free(in, bytes);
  cni_scope_pop(depth);
  return status;
}
