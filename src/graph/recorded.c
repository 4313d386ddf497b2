/* recorded.c: runs of a plan that the device records once and repeats: a training step as one launch.
 *
 * Place in the flow: run.c -> cni_run_recorded. A context's first run goes node by node, which times algorithms; before
 * it the device may look through its nodes, and compile kernels meanwhile (cn_backend.rehearse); at the second the
 * device's nodes are recorded over memory that stays (cn_backend.record_begin), and from then on a run is: nodes in
 * host memory (rates, step counts), one launch, fresh memory for what is handed out.
 * What differs from run to run is never in the recording: inputs are copied into its own memory; tensors in host memory
 * that the device reads, inputs among them, and where random numbers begin, are numbers in device memory, sent with
 * each launch.
 * Invariant: while a recording is made nothing is run and no state changes, so that one that fails is forgotten and the
 * run goes on node by node. */
#include <cairn/autograd.h>
#include <string.h>

#include "base/dtype.h"
#include "base/log.h"
#include "control.h"
#include "ops/apply.h"
#include "run.h"
#include "whole.h"

enum {
  NUMBERS_MOST = 64 << 10, /* bytes of tensors in host memory that the device reads */
  NUMBER_ALIGN = 16,
  RANDOM_WORDS = 2 /* seed and base: the first of the numbers */
};
static const size_t worth = 4 << 20; /* bytes whose copy takes as long as a node's launch */

/* A tensor in host memory that the device's nodes read. */
typedef struct number {
  int value;
  bool early; /* what a state holds before the run, rather than what a node makes */
  size_t offset, bytes;
} number;

typedef struct cni_recorded {
  cn_device device;
  bool refused;       /* it cannot be recorded: not tried again */
  void *work;         /* the backend's; NULL: not recorded yet */
  cn_tensor **in;     /* owned, per input: what the work reads; NULL: it is in host memory */
  cn_tensor **out;    /* owned, per output, then leaf: what it leaves there; NULL: a leaf that gets nothing */
  size_t nin, nout;
  bool host_inputs;
  number *numbers;
  size_t nnumbers;
  char *sent;         /* the numbers of a run */
  size_t bytes;
  cni_storage *there; /* ... and where they are on the device */
  cn_record_copy *copies; /* room for nin + nout */
} cni_recorded;

/* ---- what can be recorded ---- */

static bool on_host(const cn_graph *g, int value) { return cni_on_side(g, value, CNI_HOST_SIDE); }
static bool is_number(const cn_graph *g, int value)
{
  return g->values[value].kind == CNI_VALUE_SCALAR || g->values[value].kind == CNI_VALUE_CONST;
}

static size_t bytes_of(const cni_plan *p, int value)
{
  const cn_desc *d = &p->values[value].handle->d;
  return cni_dtype_bytes(d->dtype, d->numel);
}

static bool all_on_host(const cn_graph *g, const int *values, int n)
{
  for (int k = 0; k < n; k++)
    if (values[k] >= 0 && !is_number(g, values[k]) && !on_host(g, values[k])) return false;
  return true;
}

/* All tensors but those in host memory are on the plan's device, and what is here depends on nothing there. What is
 * decided in each run is no work that can be repeated; calls of the host are made before it, if all they see is
 * here. */
static bool node_fits(const cni_plan *p, const cn_graph *g, const cni_gnode *n)
{
  bool calls = n->host || cni_node_flags(n) & CN_OP_EFFECTS;
  if (n->nsubs || !n->nout) return false;
  if (calls || on_host(g, n->out[0])) return all_on_host(g, n->in, n->nin) && all_on_host(g, n->out, n->nout);
  return g->values[n->out[0]].device == p->device;
}

static bool handed_out_fits(const cni_plan *p, const cn_graph *g, int value, size_t *copied)
{
  if (is_number(g, value) || g->values[value].device != p->device) return false;
  *copied += bytes_of(p, value);
  return true;
}

/* An input in host memory (a float, the rate of a schedule) is one of the numbers. */
static bool input_fits(const cni_plan *p, const cn_graph *g, size_t i, size_t *copied)
{
  const cn_desc *d = &p->values[g->inputs[i]].handle->d;
  if (on_host(g, g->inputs[i])) return g->input_finals[i] < 0;
  *copied += bytes_of(p, g->inputs[i]);
  return d->device == p->device && g->input_finals[i] < 0 && cni_is_dense(d->ndim, d->shape, d->strides);
}

bool cni_plan_recordable(const cni_plan *p, const cn_graph *g)
{
  size_t copied = 0;
  if (p->executable || p->by_offset || !p->device || p->device == CN_CPU || !cni_whole.records(p->device)) return false;
  for (size_t i = 0; i < g->nnodes; i++)
    if (!node_fits(p, g, &g->nodes[i])) return false;
  for (size_t i = 0; i < g->nstates; i++)
    if (!on_host(g, g->states[i].value) && g->values[g->states[i].value].device != p->device) return false;
  for (size_t i = 0; i < g->ninputs; i++)
    if (!input_fits(p, g, i, &copied)) return false;
  for (size_t i = 0; i < g->noutputs; i++)
    if (!handed_out_fits(p, g, g->outputs[i], &copied)) return false;
  for (size_t i = 0; i < g->nleaves; i++)
    if (g->leaves[i].value >= 0 && !handed_out_fits(p, g, g->leaves[i].value, &copied)) return false;
  return copied <= worth * g->nnodes;
}

/* ---- memory of a recording ---- */

void cni_recorded_free(cni_recorded *w)
{
  if (w->work) cni_whole.record_free(w->device, w->work); /* in stream order, before its memory */
  for (size_t i = 0; w->in && i < w->nin; i++) cni_tensor_release(w->in[i]);
  for (size_t i = 0; w->out && i < w->nout; i++) cni_tensor_release(w->out[i]);
  cni_free(w->in, (w->nin + 1) * sizeof *w->in);
  cni_free(w->out, (w->nout + 1) * sizeof *w->out);
  cni_free(w->numbers, (w->nnumbers + 1) * sizeof *w->numbers);
  cni_free(w->copies, (w->nin + w->nout + 1) * sizeof *w->copies);
  cni_free(w->sent, w->bytes);
  cni_storage_release(w->there);
  cni_free(w, sizeof *w);
}

/* The value that is handed out in place i: an output, then a leaf's gradient; -1: none. */
static int handed_out(const cn_graph *g, size_t i)
{
  if (i < g->noutputs) return g->outputs[i];
  return g->leaves[i - g->noutputs].value;
}

/* Memory like a copy of the value would have. */
static cn_tensor *like(const cn_desc *d)
{
  bool as_it_is = cni_is_dense(d->ndim, d->shape, d->strides);
  return cni_tensor_new(d->device, d->dtype, d->ndim, d->shape, as_it_is ? d->strides : NULL);
}

/* Is this the tensor itself that nodes compute, or a copy of what it shows? */
static bool is_own(const cni_plan *p, const cn_graph *g, int value)
{
  return p->values[value].is_output && p->values[value].root == value && g->values[value].kind == CNI_VALUE_RESULT;
}

static int make_tensors(cni_recorded *w, const cni_plan *p, const cn_graph *g)
{
  for (size_t i = 0; i < w->nin; i++) {
    if (on_host(g, g->inputs[i])) w->host_inputs = true;
    else if (!(w->in[i] = like(&p->values[g->inputs[i]].handle->d)))
      return cn_err();
  }
  for (size_t i = 0; i < w->nout; i++) {
    int v = handed_out(g, i);
    if (v >= 0 && !(w->out[i] = like(&p->values[v].handle->d))) return cn_err();
  }
  return CN_OK;
}

static bool shows_state(const cni_plan *p, const cn_graph *g, int value)
{
  const cni_gvalue *v = &g->values[value];
  while (v->kind == CNI_VALUE_RESULT && p->specs[p->first_spec[v->node]].view_of >= 0)
    v = &g->values[g->nodes[v->node].in[p->specs[p->first_spec[v->node]].view_of]];
  return v->kind == CNI_VALUE_STATE;
}

/* Tensors in host memory that the device reads get a place among the numbers. */
static int find_numbers(cni_recorded *w, const cni_plan *p, const cn_graph *g, bool *seen)
{
  w->bytes = RANDOM_WORDS * sizeof(uint64_t);
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    for (int k = 0; k < n->nin && !on_host(g, n->out[0]); k++) {
      int v = n->in[k];
      if (v < 0 || is_number(g, v) || !on_host(g, v) || seen[v]) continue;
      const cn_desc *d = &p->values[v].handle->d;
      w->bytes = (w->bytes + NUMBER_ALIGN - 1) / NUMBER_ALIGN * NUMBER_ALIGN;
      if (!cni_is_contiguous(d->ndim, d->shape, d->strides) || w->bytes + bytes_of(p, v) > NUMBERS_MOST)
        return cni_fail(CN_ERR_UNSUPPORTED, "too much, or strided, host memory is read");
      seen[v] = true;
      w->numbers[w->nnumbers++] = (number){v, shows_state(p, g, v), w->bytes, bytes_of(p, v)};
      w->bytes += bytes_of(p, v);
    }
  }
  return CN_OK;
}

static cni_recorded *recorded_new(const cni_plan *p, const cn_graph *g)
{
  cni_recorded *w = cni_alloc_zero(sizeof *w);
  if (!w) return NULL;
  w->device = p->device;
  w->nin = g->ninputs;
  w->nout = g->noutputs + g->nleaves;
  return w;
}

static int make_room(cni_recorded *w, const cni_plan *p, const cn_graph *g)
{
  bool *seen = cni_alloc_zero(p->nvalues + 1);
  number *all = seen ? cni_alloc_zero((p->nvalues + 1) * sizeof *all) : NULL;
  w->numbers = all;
  int status = all ? find_numbers(w, p, g, seen) : CN_ERR_MEMORY;
  size_t n = (w->nnumbers + 1) * sizeof *all;
  w->numbers = status ? NULL : cni_alloc(n);
  if (w->numbers) memcpy(w->numbers, all, n);
  cni_free(all, (p->nvalues + 1) * sizeof *all);
  cni_free(seen, p->nvalues + 1);
  if (!w->numbers) return cn_err();
  w->in = cni_alloc_zero((w->nin + 1) * sizeof *w->in);
  w->out = cni_alloc_zero((w->nout + 1) * sizeof *w->out);
  w->copies = cni_alloc_zero((w->nin + w->nout + 1) * sizeof *w->copies);
  w->sent = cni_alloc_zero(w->bytes);
  w->there = cni_storage_new(w->device, w->bytes);
  if (!w->in || !w->out || !w->copies || !w->sent || !w->there) return CN_ERR_MEMORY;
  return make_tensors(w, p, g);
}

/* ---- recording ---- */

/* The device's own tensors in the place of those in host memory, and of what is another in each run. */
static int begin(cni_running *r, const cni_recorded *w)
{
  for (size_t i = 0; i < w->nnumbers; i++) {
    const number *n = &w->numbers[i];
    const cn_desc *d = &r->plan->values[n->value].handle->d;
    r->there[n->value] = cni_tensor_over(cni_storage_keep(w->there), (int64_t)(n->offset / cni_dtype_size(d->dtype)),
                                         d->dtype, d->ndim, d->shape, d->strides);
    if (!r->there[n->value]) return CN_ERR_MEMORY;
  }
  for (size_t i = 0; i < w->nin; i++)
    if (w->in[i]) r->now[r->g->inputs[i]] = cni_tensor_keep(w->in[i]);
  for (size_t i = 0; i < w->nout; i++) {
    int v = handed_out(r->g, i);
    if (v >= 0 && is_own(r->plan, r->g, v) && !r->now[v]) r->now[v] = cni_tensor_keep(w->out[i]);
  }
  return CN_OK;
}

static void end(cni_running *r, const cni_recorded *w)
{
  for (size_t i = 0; i < w->nnumbers; i++) cni_tensor_release(r->there[w->numbers[i].value]);
  cni_forget_varying(r);
}

/* Everything that a run does on the device, in its order. */
static int run_through(cni_running *r, const cni_recorded *w)
{
  int status = cni_run_nodes(r, CNI_DEVICE_SIDE);
  for (size_t i = 0; i < w->nout && !status; i++) {
    int v = handed_out(r->g, i);
    if (v >= 0 && r->now[v] != w->out[i]) status = cni_copy_elements(w->out[i], r->now[v]);
  }
  return status ? status : cni_write_back(r, CNI_DEVICE_SIDE);
}

/* rehearses: nothing of it stays. */
static int record(cni_running *r, cni_recorded *w, bool rehearses)
{
  size_t depth = cni_scope_push(), bytes = (r->plan->nvalues + 1) * sizeof *r->there;
  r->there = cni_alloc_zero(bytes);
  r->random = w->there->data;
  r->settled = r->plan->steady != NULL;
  int status = r->there ? begin(r, w) : CN_ERR_MEMORY;
  if (!status) status = rehearses ? cni_whole.rehearse(w->device) : cni_whole.record_begin(w->device);
  if (!status) {
    status = run_through(r, w);
    cni_scope_pop(depth); /* what it made is the recording's */
    depth = cni_scope_push();
    int ended = cni_whole.record_end(w->device, status || rehearses ? NULL : &w->work);
    if (!status) status = ended;
  }
  if (r->there) end(r, w);
  cni_free(r->there, bytes);
  r->there = NULL;
  r->random = NULL;
  cni_scope_pop(depth);
  return status;
}

/* Before the first run. An error is no failure of that. */
static void rehearse(cni_running *r)
{
  cni_recorded *w = recorded_new(r->plan, r->g);
  if (w && !make_room(w, r->plan, r->g)) record(r, w, true);
  cn_err_clear();
  if (w) cni_recorded_free(w);
}

/* Has the context a recording? It is made at its second run. An error is no failure of the run. */
static bool ready(cni_running *r)
{
  cni_context *c = r->context;
  if (c->recorded) return !c->recorded->refused;
  if (!c->runs) rehearse(r);
  if (!c->runs || !(c->recorded = recorded_new(r->plan, r->g))) return false;
  int status = make_room(c->recorded, r->plan, r->g);
  if (!status) status = record(r, c->recorded, false);
  if (!status) return true;
  if (cni_verbose(CNI_TOPIC_GRAPH))
    cni_log(CN_LOG_DEBUG, CNI_TOPIC_GRAPH, "a run was not recorded: %s",
            status == CN_REFUSED ? "the device records nothing now" : cn_err_message());
  cn_err_clear();
  cni_recorded_free(c->recorded);
  c->recorded = recorded_new(r->plan, r->g);
  if (c->recorded) c->recorded->refused = true;
  return false;
}

/* ---- running what was recorded ---- */

static void fill_numbers(const cni_running *r, cni_recorded *w, bool early)
{
  for (size_t i = 0; i < w->nnumbers; i++) {
    const number *n = &w->numbers[i];
    if (n->early == early) memcpy(w->sent + n->offset, r->now[n->value]->d.data, n->bytes);
  }
}

static int take_host_inputs(cni_running *r, const cni_recorded *w)
{
  for (size_t i = 0; i < w->nin; i++)
    if (!w->in[i] && !(r->now[r->g->inputs[i]] = cni_own_input(r, r->inputs[i]))) return cn_err();
  return CN_OK;
}

/* Nodes in host memory, and the numbers that the device's are to find. */
static int run_host_side(cni_running *r, cni_recorded *w)
{
  if (w->host_inputs && take_host_inputs(r, w)) return cn_err();
  cni_take_random(r);
  const uint64_t random[RANDOM_WORDS] = {r->seed, r->base};
  memcpy(w->sent, random, sizeof random);
  fill_numbers(r, w, true);
  int status = cni_run_nodes(r, CNI_HOST_SIDE);
  fill_numbers(r, w, false);
  return status ? status : cni_write_back(r, CNI_HOST_SIDE);
}

static cn_record_copy copy_of(const cn_tensor *to, const cn_tensor *from)
{
  return (cn_record_copy){to->d.data, from->d.data, cni_dtype_bytes(to->d.dtype, to->d.numel)};
}

/* out: fresh memory. */
static int launch(const cni_running *r, const cni_recorded *w, cn_tensor *const *out)
{
  size_t n = 0;
  for (size_t i = 0; i < w->nin; i++)
    if (w->in[i]) w->copies[n++] = copy_of(w->in[i], r->inputs[i]);
  size_t nin = n;
  for (size_t i = 0; i < w->nout; i++)
    if (out[i]) w->copies[n++] = copy_of(out[i], w->out[i]);
  cn_record_run run = {.size = sizeof run, .in = w->copies, .out = w->copies + nin, .nin = nin,
                       .nout = n - nin, .numbers_to = w->there->data, .numbers = w->sent,
                       .numbers_bytes = w->bytes, .stream = r->context->stream};
  return cni_whole.record_run(w->device, w->work, &run);
}

static void count_writes(const cn_graph *g)
{
  for (size_t i = 0; i < g->nstates; i++)
    if (!on_host(g, g->states[i].value) && g->states[i].final >= 0 && g->states[i].final != g->states[i].value)
      cni_count_write(g->states[i].tensor);
}

static int hand_out(const cni_running *r, cn_tensor **out, cn_tensor **outputs)
{
  const cn_graph *g = r->g;
  int status = CN_OK;
  for (size_t i = 0; i < g->noutputs; i++) {
    outputs[i] = cni_scope_add(out[i]);
    out[i] = NULL;
    if (!outputs[i]) return cn_err();
  }
  for (size_t i = 0; i < g->nleaves && !status; i++)
    if (g->leaves[i].after != CNI_GRAD_KEPT) status = cn_set_grad(g->leaves[i].tensor, out[g->noutputs + i]);
  return status;
}

/* Memory first, which may not be there; then the host's part, which changes states; then the launch. */
static int run_recording(cni_running *r, cni_recorded *w, cn_tensor **out, cn_tensor **outputs)
{
  for (size_t i = 0; i < w->nout; i++) {
    const cn_desc *d = w->out[i] ? &w->out[i]->d : NULL;
    if (d && !(out[i] = cni_tensor_new(d->device, d->dtype, d->ndim, d->shape, d->strides))) return cn_err();
  }
  int status = cni_settle(r);
  if (!status) status = run_host_side(r, w);
  if (!status) status = launch(r, w, out);
  if (w->host_inputs) cni_forget_varying(r);
  if (status) return status;
  count_writes(r->g);
  return hand_out(r, out, outputs);
}

static _Atomic size_t runs;

size_t cni_recorded_runs(void) { return atomic_load(&runs); }

int cni_run_recorded(cni_running *r, cn_tensor **outputs)
{
  if (!ready(r)) return CN_REFUSED;
  cni_recorded *w = r->context->recorded;
  size_t bytes = (w->nout + 1) * sizeof(cn_tensor *);
  cn_tensor **out = cni_alloc_zero(bytes);
  int status = out ? run_recording(r, w, out, outputs) : CN_ERR_MEMORY;
  for (size_t i = 0; out && i < w->nout; i++) cni_tensor_release(out[i]);
  cni_free(out, bytes);
  atomic_fetch_add_explicit(&runs, !status, memory_order_relaxed);
  return status;
}
