/* executable.c: captures a call of a function as a program. See compile.h.
 *
 * Place in the flow: compile.c, where no program has the call's key -> here -> graph/trace.c. Where results carry
 * gradients, the backward pass is captured behind the forward pass, in the same graph, with the gradients of the
 * results as inputs; split.c cuts it in two. Invariant: nothing outside is changed, whatever the function does. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <stdio.h>
#include <string.h>

#include "autograd/autograd.h"
#include "compile.h"
#include "graph/lower.h"
#include "graph/passes/passes.h"
#include "graph/plan.h"
#include "graph/probe.h"
#include "graph/setting.h"

enum { MOST_OUTPUTS = 64 }; /* of a custom function, which results with gradients are */

static void release_all(cn_tensor **tensors, size_t n)
{
  for (size_t i = 0; tensors && i < n; i++) cni_tensor_release(tensors[i]);
  cni_free(tensors, n * sizeof *tensors);
}

void cni_executable_release(cni_executable *p)
{
  if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
  size_t nstates = 0;
  for (size_t i = 0; p->kept && i < p->nkept; i++) nstates += p->kept[i].from == CNI_KEPT_STATE;
  release_all(p->leaves, p->nleaves);
  release_all(p->states, nstates);
  cni_free(p->gradient, (p->ninputs + p->nleaves) * sizeof *p->gradient);
  cni_free(p->inputs, p->ninputs * sizeof *p->inputs);
  cni_free(p->kept, p->nkept * sizeof *p->kept);
  cni_free(p->carries, p->noutputs);
  for (size_t i = 0; i < p->nresults; i++) cni_seen_free(&p->seen[i]);
  cni_free(p->seen, p->nresults * sizeof *p->seen);
  cn_graph_free(p->forward);
  cn_graph_free(p->backward);
  for (int i = 0; i < 2; i++) cn_graph_free(p->single[i]);
  cni_backward_graphs_free(p->others);
  pthread_mutex_destroy(&p->lock);
  cn_string_free(p->why_eager);
  if (p->note && p->notes.free) p->notes.free(p->note);
  cni_key_free(&p->key);
  cni_depends_free(&p->depends);
  cni_free(p, sizeof *p);
}

/* Do the states lie in memory as they did? Results and gradients follow their order. */
static bool states_lie_alike(const cn_graph *g)
{
  for (size_t i = 0; i < g->nstates; i++) {
    const cni_gvalue *v = &g->values[g->states[i].value];
    const cn_desc *d = &g->states[i].tensor->d;
    if (v->has_strides ? !cni_in_order(d, v->strides) : !cni_is_contiguous(d->ndim, d->shape, d->strides)) return false;
  }
  return true;
}

bool cni_executable_holds(const cni_executable *p)
{
  if (!cni_depends_hold(&p->depends)) return false;
  return !p->forward || (cni_states_hold(p->forward) && states_lie_alike(p->forward) && cni_leaves_hold(p->forward));
}

const char *cni_executable_conflict(const cni_executable *p, const cn_compile_call *call)
{
  const cn_graph *g = p->forward;
  for (size_t i = 0; i < p->ninputs; i++) {
    const cni_storage *memory = call->inputs[p->inputs[i]]->storage;
    bool written = g->input_finals[i] >= 0;
    for (size_t k = 0; k < i; k++)
      if (call->inputs[p->inputs[k]]->storage == memory && (written || g->input_finals[k] >= 0))
        return "two inputs share memory that is written to";
    for (size_t k = 0; k < g->nstates; k++)
      if (g->states[k].tensor->storage == memory && (written || g->states[k].final >= 0))
        return "an input shares memory that is written to with a tensor from outside";
  }
  return NULL;
}

size_t cni_executable_nodes(const cni_executable *p)
{
  return cn_graph_nodes(p->forward) + cn_graph_nodes(p->backward);
}

size_t cni_executable_groups(const cni_executable *p) { return p->groups[0] + p->groups[1]; }

static bool several_carry(const cni_executable *p)
{
  size_t n = 0;
  for (size_t i = 0; p->carries && i < p->noutputs; i++) n += p->carries[i];
  return n > 1;
}

/* The last step: from now on graphs are only run. CAIRN_COMPILE=exact rounds halves between ops as eager does.
 * Weights of a program with a backward pass change from run to run. */
static int fuse(cni_executable *p, bool fast)
{
  bool exact = cni_compile_exact(), checked = cni_compile_setting() == CNI_COMPILE_CHECK;
  for (int i = 0; i < 2; i++) {
    cn_graph *g = i ? p->backward : p->forward;
    bool asked = checked || (!i && p->backward) || (i && several_carry(p));
    if (g && asked && !(p->single[i] = cn_graph_copy(g))) return cn_err();
    if (fast && g && !p->backward && cn_graph_join(g) < 0) return cn_err();
    int carried = g && !p->backward ? cni_carry_casts(g, exact) : 0;
    int groups = carried < 0 ? carried : g ? cn_graph_fuse(g, exact) : 0;
    if (groups < 0) return groups;
    p->groups[i] = (size_t)groups;
  }
  return CN_OK;
}

/* ---- inputs and results ---- */

typedef struct capturing {
  cni_capture cap;
  cni_executable *p;
  cn_compile_call call; /* as the function sees it */
  cn_tensor **handles;  /* per input of the call */
  size_t ninputs;
  bool *parts;          /* per input of the graph; room for all of the call's */
  cni_by_value known;
  bool plain;           /* nothing is made simpler, and backward is left out */
  cni_counted *counted; /* what sizes that depend on data are taken for */
  bool alone;           /* without a backward pass behind: results carry no gradients */
  bool spent;           /* out: nobody could go backward from the results, so they carry none */
} capturing;

/* Inputs that were computed outside have a history there, which a backward pass inside would have to go on with. That
 * behind the function ends there. */
static int reached_outside(cn_context *ctx, cn_tensor **grad_in, cn_tensor *const *grad_out)
{
  const cni_capture *cap = cni_capturing();
  (void)ctx, (void)grad_in, (void)grad_out;
  if (cap && cap->leaves_are_inside) return CN_OK;
  return cni_fail(CN_ERR_CAPTURE, "compile: a backward pass inside goes through an input into what was computed "
                                  "outside");
}

static const cn_function computed_outside = {sizeof(cn_function), "input", NULL, reached_outside, NULL};

/* A float that may be another at each run of the program. */
static bool is_free_number(const cn_tensor *t) { return t && t->d.weak && t->d.dtype == CN_F64; }

/* Is it part of the program, and seen as it is? */
static bool is_outside(const capturing *c, cn_tensor *t)
{
  if (!t || t->d.weak) return !is_free_number(t) || c->known.numbers;
  if (c->known.values && cni_is_by_value(t)) return true;
  return c->known.leaves && cn_needs_grad(t) && cn_is_leaf(t);
}

/* Does a gradient go through it? Also where gradients are off: the function may switch them on. */
static bool carries_history(cn_tensor *t) { return cn_needs_grad(t) && !cni_state()->inference; }

static int begin_input(capturing *c, cn_tensor *t, size_t i)
{
  if (!(c->handles[i] = cni_trace_input(&c->cap, &t->d))) return cn_err();
  if (!carries_history(t)) return CN_OK;
  if (!cn_is_leaf(t)) return cni_function_begin(c->handles[i], &computed_outside);
  return cn_requires_grad(c->handles[i], true) ? CN_OK : cn_err();
}

/* An input that is changed in place gets a new history with it, which a program does not give it. */
static int check_histories(const capturing *c, const cn_compile_call *call)
{
  for (size_t i = 0; i < call->ninputs; i++) {
    cn_tensor *t = c->handles[i];
    if (!t || t == call->inputs[i]) continue;
    bool had = carries_history(call->inputs[i]) && !cn_is_leaf(call->inputs[i]);
    if (had ? !cni_function_begins(t, &computed_outside) : !cn_is_leaf(t))
      return cni_fail(CN_ERR_CAPTURE, "compile: input %zu is changed in place, and gradients flow through that", i);
    if (cn_needs_grad(t) && !cn_needs_grad(call->inputs[i]))
      return cni_fail(CN_ERR_CAPTURE, "compile: requires_grad of input %zu is set inside", i);
  }
  return CN_OK;
}

/* What stands for an input whose value is part of the program: nobody outside can write to it. The scope's. */
static cn_tensor *begin_value(capturing *c, cn_tensor *t)
{
  void *paused = cn_trace_pause();
  cn_tensor *own = cn_clone(t);
  cn_trace_resume(paused);
  if (own) c->cap.values[c->cap.nvalues++] = own;
  return own;
}

static int begin_inputs(capturing *c, const cn_compile_call *call)
{
  cni_executable *p = c->p;
  size_t n = 0;
  for (size_t i = 0; i < call->ninputs; i++) p->ninputs += !is_outside(c, call->inputs[i]);
  p->inputs = cni_alloc(p->ninputs * sizeof *p->inputs);
  int status = p->inputs ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; i < call->ninputs && !status; i++) {
    c->handles[i] = call->inputs[i];
    bool value = c->known.values && call->inputs[i] && cni_is_by_value(call->inputs[i]);
    if (value && !(c->handles[i] = begin_value(c, call->inputs[i]))) status = cn_err();
    if (is_outside(c, call->inputs[i])) continue;
    c->parts[n] = cni_is_part(call->inputs[i]);
    p->inputs[n++] = (int)i;
    status = begin_input(c, call->inputs[i], i);
  }
  return status;
}

/* A leaf that the function made, by requires_grad: outside, gradients would have to add up in it. */
static bool is_new_leaf(const capturing *c, cn_tensor *y)
{
  const cni_node *n = cni_node_of(y);
  bool leaf = n && n->kind == CNI_NODE_LEAF && n->captured;
  for (size_t i = 0; i < c->ninputs; i++) leaf = leaf && y != c->handles[i];
  return leaf;
}

/* Results become outputs of the graph, but those that show inputs or what is outside. */
static int add_outputs(capturing *c)
{
  cni_executable *p = c->p;
  size_t n = c->call.noutputs;
  if (!(p->seen = cni_alloc_zero(n * sizeof *p->seen))) return CN_ERR_MEMORY;
  p->nresults = n;
  for (size_t i = 0; i < n; i++) {
    cn_tensor *t = c->call.outputs[i];
    if (!t) return cni_fail(CN_ERR_VALUE, "compile: the function left output %zu unset", i);
    if (is_new_leaf(c, t))
      return cni_fail(CN_ERR_CAPTURE, "compile: result %zu is a leaf of the function's own making: set requires_grad "
                                      "outside", i);
    int seen = c->plain ? 0 : cni_seen_note(&p->seen[i], t, &c->cap, c->handles, c->ninputs);
    int status = seen ? (seen < 0 ? seen : CN_OK) : cni_trace_output(&c->cap, t);
    if (status) return status;
    if (!seen) c->call.outputs[p->noutputs++] = t;
  }
  c->call.noutputs = p->noutputs;
  return CN_OK;
}

/* Did the function itself go backward into an input? That one's gradient is found outside. */
static bool input_has_gradient(const capturing *c)
{
  for (size_t i = 0; i < c->p->ninputs; i++)
    if (cn_grad_of(c->handles[c->p->inputs[i]])) return true;
  return false;
}

/* ---- backward ---- */

/* Do results carry gradients that the caller may ask for? A function that went backward by itself has had them. */
static bool carries_gradients(const capturing *c)
{
  for (size_t i = 0; i < c->cap.nleaves; i++)
    if (c->cap.leaves[i].touched) return false;
  for (size_t i = 0; i < c->call.noutputs; i++)
    if (cn_needs_grad(c->call.outputs[i])) return true;
  return false;
}

/* Checkpoints go backward by themselves, and leave gradients in leaves: they find none there, and what they leave is
 * collected. */
static int keep_leaves(capturing *c)
{
  cni_executable *p = c->p;
  c->cap.leaves_are_inside = true;
  for (size_t i = 0; i < c->cap.nleaves; i++)
    if (cn_is_leaf(c->cap.leaves[i].tensor) && cn_set_grad(c->cap.leaves[i].tensor, NULL)) return cn_err();
  p->leaves = cni_alloc_zero(c->cap.nleaves * sizeof *p->leaves);
  if (!p->leaves) return CN_ERR_MEMORY;
  p->nleaves = c->cap.nleaves;
  for (size_t i = 0; i < p->nleaves; i++) p->leaves[i] = cni_tensor_keep(c->cap.leaves[i].tensor);
  return CN_OK;
}

/* The gradient of a result, as an input: in the memory order that the result has where it is handed out. */
static cn_tensor *seed_of(capturing *c, const cn_tensor *y)
{
  cn_desc d = y->d;
  if (!cni_is_dense(d.ndim, d.shape, d.strides)) cni_contiguous_strides(d.ndim, d.shape, d.strides);
  return cni_trace_input(&c->cap, &d);
}

/* Gradients of results become inputs; those of inputs and leaves, where there are some, outputs. */
static int run_backward(capturing *c, cn_tensor **wanted, cn_tensor **grads)
{
  cni_executable *p = c->p;
  cn_tensor *roots[MOST_OUTPUTS], *seeds[MOST_OUTPUTS];
  int nroots = 0, nwanted = 0, ngradients = 0, status = CN_OK;
  for (size_t i = 0; i < p->noutputs; i++) {
    cn_tensor *y = c->call.outputs[i];
    if (!(p->carries[i] = cn_needs_grad(y))) continue;
    roots[nroots] = y;
    if (!(seeds[nroots++] = seed_of(c, y))) return cn_err();
  }
  for (size_t i = 0; i < p->ninputs + p->nleaves; i++) {
    cn_tensor *t = i < p->ninputs ? c->handles[p->inputs[i]] : p->leaves[i - p->ninputs];
    p->gradient[i] = cn_needs_grad(t) ? nwanted : -1;
    if (p->gradient[i] >= 0) wanted[nwanted++] = t;
  }
  cni_backward b = {.roots = roots, .seeds = seeds, .nroots = nroots, .inputs = wanted, .results = grads,
                    .ninputs = nwanted, .no_leaf_hooks = true, .stop = true};
  status = cni_backward_run(&b);
  if (!status && c->cap.nleaves != p->nleaves)
    status = cni_fail(CN_ERR_CAPTURE, "compile: the backward pass reads a tensor with gradients that forward did not");
  for (size_t i = 0; i < p->ninputs + p->nleaves && !status; i++) {
    cn_tensor *g = p->gradient[i] >= 0 ? grads[p->gradient[i]] : NULL;
    cn_tensor *leaf = i < p->ninputs ? NULL : p->leaves[i - p->ninputs];
    cn_tensor *left = leaf && cn_is_leaf(leaf) ? cn_grad_of(leaf) : NULL;
    if (left) g = g ? cn_add_with(g, left, NULL) : left;
    status = cn_err();
    p->gradient[i] = g ? ngradients++ : -1;
    if (g && !status) status = cni_trace_output(&c->cap, g);
  }
  for (int i = 0; i < nwanted; i++) cni_tensor_release(grads[i]);
  return status;
}

static int add_backward(capturing *c)
{
  cni_executable *p = c->p;
  if (cni_state()->no_grad)
    return cni_fail(CN_ERR_CAPTURE, "compile: gradients are off where it is called, and on inside, so that results "
                                    "carry some");
  if (p->noutputs > MOST_OUTPUTS)
    return cni_fail(CN_ERR_CAPTURE, "compile: more than %d results of which some carry gradients", MOST_OUTPUTS);
  int status = keep_leaves(c);
  if (status) return status;
  size_t n = p->ninputs + p->nleaves, bytes = (n + 1) * sizeof(cn_tensor *);
  p->gradient = cni_alloc(n * sizeof *p->gradient);
  p->carries = p->gradient ? cni_alloc_zero(p->noutputs) : NULL;
  cn_tensor **wanted = p->carries ? cni_alloc_zero(bytes) : NULL, **grads = wanted ? cni_alloc_zero(bytes) : NULL;
  size_t writes = c->cap.writes;
  status = grads ? run_backward(c, wanted, grads) : CN_ERR_MEMORY;
  if (!status && c->cap.writes != writes) /* forward would write it, though nobody may go backward */
    status = cni_fail(CN_ERR_CAPTURE, "compile: the backward pass writes to a tensor that lives outside (running "
                                      "statistics, which a checkpoint counts again): compile the whole step");
  cni_free(wanted, bytes);
  cni_free(grads, bytes);
  return status;
}

/* ---- the whole ---- */

static int run_function(capturing *c, cn_compile_fn fn, const cn_compile_call *call, bool *retry)
{
  int status = begin_inputs(c, call);
  if (status) return status;
  status = fn(&c->call);
  if (status && !cn_err()) cni_fail(status, "compile: the function failed");
  if (!status) status = cn_err();
  if (!status) status = check_histories(c, call);
  c->p->note = c->call.note;
  if (!status && (*retry = input_has_gradient(c))) return CN_OK;
  if (!status) status = add_outputs(c);
  if (status || c->plain || c->alone || !carries_gradients(c)) return status;
  if ((status = add_backward(c)) && !cn_err()) cni_fail(status, "compile: the backward pass failed");
  c->spent = status == CN_ERR_GRAD; /* the function went backward from them itself, or changed what they need */
  return status;
}

/* Nobody will ask for gradients through it, nor through what nodes hold. */
static void close_graph(cn_graph *g)
{
  g->closed = true;
  for (size_t i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nsubs; k++) close_graph(g->nodes[i].subs[k]);
}

/* A tensor that the function put somewhere outside would be found there without a value. */
static cn_graph *finished(const capturing *c, cn_graph *whole)
{
  for (size_t i = 0; i < whole->nstates; i++)
    for (size_t k = 0; k < c->cap.nvalues && whole->states[i].final >= 0; k++)
      if (whole->states[i].tensor == c->cap.values[k])
        cni_fail(CN_ERR_CAPTURE, "compile: an input is written to whose value the function depends on");
  if (c->cap.escaped)
    cni_fail(CN_ERR_CAPTURE, "compile: a tensor that the function computes is kept outside of it, in an attribute or a "
                             "list: return it instead");
  if (!c->p->carries) close_graph(whole);
  c->p->hooked = c->cap.hooked;
  if (!cn_err()) return whole;
  cn_graph_free(whole);
  return NULL;
}

/* The graph of the call; NULL with the error set, or with *retry. */
static cn_graph *capture_once(capturing *c, cn_compile_fn fn, const cn_compile_call *call, bool *retry)
{
  size_t in_bytes = 2 * (call->ninputs + 1) * sizeof *c->handles; /* and for those by value */
  size_t out_bytes = (call->noutputs + 1) * sizeof(cn_tensor *);
  cn_tensor **outputs = cni_alloc_zero(out_bytes);
  cn_graph *whole = NULL;
  c->handles = outputs ? cni_alloc_zero(in_bytes) : NULL;
  c->parts = c->handles ? cni_alloc_zero(call->ninputs + 1) : NULL;
  if (c->parts && !cni_trace_begin(&c->cap)) {
    c->cap.parts = c->parts;
    c->cap.values = c->handles + call->ninputs + 1;
    c->cap.counted = c->counted;
    c->call = *call;
    c->call.inputs = c->handles;
    c->ninputs = call->ninputs;
    c->call.outputs = outputs;
    c->call.note = NULL;
    int status = run_function(c, fn, call, retry);
    whole = cni_trace_end(&c->cap, status ? status : *retry ? CN_ERR_CAPTURE : CN_OK);
    if (whole) whole = finished(c, whole);
  }
  cni_free(c->parts, call->ninputs + 1);
  cni_free(c->handles, in_bytes);
  cni_free(outputs, out_bytes);
  return whole;
}

/* Can a function be captured for the values that integers among its inputs have, and asks for that? */
static bool values_wanted(const capturing *c, cni_by_value *known, const cn_compile_call *call)
{
  bool any = false;
  for (size_t i = 0; i < call->ninputs; i++) any |= call->inputs[i] && cni_is_by_value(call->inputs[i]);
  if (!c->cap.wants_values || !any || known->values || cn_err() != CN_ERR_CAPTURE) return false;
  known->values = true;
  return true;
}

static cni_executable *new_executable(const cni_notes *notes)
{
  cni_executable *p = cni_alloc_zero(sizeof *p);
  if (!p) return NULL;
  if (notes) p->notes = *notes;
  atomic_init(&p->refs, 1);
  pthread_mutex_init(&p->lock, NULL);
  return p;
}

cni_executable *cni_executable_refused(int status, const char *why)
{
  cni_executable *p = new_executable(NULL);
  if (!p) return NULL;
  p->status = status;
  if ((p->why_eager = cni_strdup(why))) return p;
  cni_executable_release(p);
  return NULL;
}

/* Instead of p: what cannot be captured is remembered with the reason; other errors are the caller's. */
static cni_executable *give_up(cni_executable *p, bool retry)
{
  char why[512];
  cni_executable_release(p);
  if (retry || cn_err() != CN_ERR_CAPTURE) return NULL;
  snprintf(why, sizeof why, "%s", cn_err_message());
  cn_err_clear();
  return cni_executable_refused(CN_ERR_CAPTURE, why);
}

/* ---- sizes that depend on data: captures at several ---- */

typedef struct recapture {
  const capturing *like;
  cn_compile_fn fn;
  const cn_compile_call *call;
  cni_executable *last; /* owned: of the last capture */
} recapture;

static cn_graph *capture_at(const cni_prober *prober, cn_tensor *const *none, cni_counted *counted)
{
  recapture *k = prober->payload;
  bool retry = false;
  (void)none;
  cni_executable *p = new_executable(&k->like->p->notes);
  if (!p) return NULL;
  capturing c = {.p = p, .known = k->like->known, .plain = k->like->plain, .alone = k->like->alone,
                 .counted = counted};
  cn_graph *g = capture_once(&c, k->fn, k->call, &retry);
  if (g && k->last && cni_counted_same(k->last, p)) {
    cn_graph_free(g);
    g = NULL;
  }
  if (!g) return cni_executable_release(p), NULL;
  cni_executable_release(k->last);
  k->last = p;
  return g;
}

/* The same for all sizes that its nodes define; c->p is then another. */
static cn_graph *capture_counts(capturing *c, cn_compile_fn fn, const cn_compile_call *call)
{
  recapture k = {.like = c, .fn = fn, .call = call};
  cni_prober prober = {.who = "compile", .trace = capture_at, .payload = &k};
  cn_graph *g = cni_trace_counts(&prober, c->counted->met);
  if (g) {
    g->closed = !k.last->carries;
    k.last->counts = true;
    cni_executable_release(c->p);
    c->p = k.last;
  } else cni_executable_release(k.last);
  return g;
}

/* A function that fails at sizes of the library's choice may be right at its own: it just cannot be captured. */
static void say_sizes(const capturing *c)
{
  char why[400];
  int code = cn_err();
  bool of_sizes = code == CN_ERR_SHAPE || code == CN_ERR_VALUE || code == CN_ERR_INDEX || code == CN_ERR_TYPE;
  if (!of_sizes || !c->counted->met || c->spent) return;
  snprintf(why, sizeof why, "%s", cn_err_message());
  cn_err_clear();
  cni_fail(CN_ERR_CAPTURE, "compile: a size depends on data, and where it is taken for some number, this fails: %s",
           why);
}

/* The graph of the call; NULL with the error set, or with *retry. */
static cn_graph *capture(capturing *c, cn_compile_fn fn, const cn_compile_call *call, bool *retry)
{
  cni_counted counted = {NULL, 0, 0, NULL};
  c->counted = &counted;
  cn_graph *g = capture_once(c, fn, call, retry);
  if (g && counted.met) {
    cn_graph_free(g);
    g = capture_counts(c, fn, call);
  }
  if (!g) say_sizes(c);
  c->counted = NULL;
  return g;
}

cn_graph *cni_capture_plain(cn_compile_fn fn, const cn_compile_call *call, const cni_notes *notes, cni_by_value known)
{
  bool retry = false;
  capturing c = {.p = new_executable(notes), .known = known, .plain = true};
  if (!c.p) return NULL;
  cn_graph *whole = capture(&c, fn, call, &retry);
  cni_executable_release(c.p);
  return whole;
}

/* A function that reads a float among its inputs cannot be captured with that float as an input. */
static bool numbers_read(cni_by_value *known, const cn_compile_call *call)
{
  bool free_number = false;
  for (size_t i = 0; i < call->ninputs; i++) free_number |= is_free_number(call->inputs[i]);
  if (!free_number || known->numbers || cn_err() != CN_ERR_CAPTURE) return false;
  known->numbers = true;
  return true;
}

/* The graph made simple where it may be rounded otherwise: calls that were recognised are taken apart again, so that
 * their parts can become one with others. */
static int optimise_fast(cn_graph **whole)
{
  cn_graph *g = *whole;
  if (cn_graph_optimise_fast(g) < 0) return cn_err();
  if (g->nsizes || !cni_has_calls(g)) return CN_OK; /* plans do it, for their sizes */
  int status = cni_types_fill(&g->types, g);
  size_t bytes = (g->ninputs + 1) * sizeof(cn_tensor *);
  cn_tensor **in = status ? NULL : cni_alloc(bytes);
  if (!in) return status ? status : CN_ERR_MEMORY;
  for (size_t i = 0; i < g->ninputs; i++) in[i] = g->types.v[g->inputs[i]].handle;
  cn_graph *parts = cni_graph_lower(g, in, NULL);
  cni_free(in, bytes);
  if (!parts) return cn_err();
  cn_graph_free(g);
  *whole = parts;
  return cn_graph_optimise(parts) < 0 ? cn_err() : CN_OK;
}

/* Everything behind the capture: the graph made simple, cut, and its nodes grouped. It is taken over. */
static int make_program(cni_executable *p, cn_graph *whole, bool fast)
{
  p->depends = whole->depends;
  whole->depends = (cni_gdepends){0};
  fast = fast && !cni_compile_exact();
  int status = fast ? optimise_fast(&whole) : cn_graph_optimise(whole) < 0 ? cn_err() : CN_OK;
  p->forward = whole;
  if (status) return status;
  if (p->carries) {
    p->forward = NULL;
    status = cni_executable_split(p, whole);
    cn_graph_free(whole);
    if (status) return status;
  }
  return fuse(p, fast);
}

cni_executable *cni_executable_new(cn_compile_fn fn, const cn_compile_call *call, const cni_notes *notes,
                                   bool fast, cni_by_value *known, bool *retry)
{
  capturing c = {.p = new_executable(notes), .known = *known};
  *retry = false;
  if (!c.p) return NULL;
  cn_graph *whole = capture(&c, fn, call, retry);
  if (!whole && c.spent) {
    cn_err_clear();
    cni_executable_release(c.p);
    c = (capturing){.p = new_executable(notes), .known = *known, .alone = true};
    if (!c.p) return NULL;
    whole = capture(&c, fn, call, retry);
  }
  if (*retry) { /* it does not help twice */
    *retry = !known->leaves;
    known->leaves = true;
  }
  if (!whole && !*retry) *retry = values_wanted(&c, known, call) || numbers_read(known, call);
  if (!whole) return give_up(c.p, *retry);
  return make_program(c.p, whole, fast) ? give_up(c.p, false) : c.p;
}
