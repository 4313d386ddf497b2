/* trace.c: the beginning and end of a capture; cn_trace: runs a function with its calls recorded, and makes the record
 * a graph.
 *
 * Place in the flow: cn_trace, and compile/, -> cni_trace_begin -> code, under capture.c's mode -> cni_trace_end ->
 * cn_graph. Invariant: outside, everything is as it was before, whether the trace succeeded or not: tensors, gradients
 * of leaves, random numbers. */
#include <cairn/ext/graph.h>
#include <string.h>

#include "base/dtype.h"
#include "capture.h"
#include "ops/families.h"

cn_tensor *cni_trace_input(cni_capture *cap, const cn_desc *d)
{
  cn_graph *g = cap->g;
  cni_gvalue v = {.kind = CNI_VALUE_INPUT, .dtype = d->dtype, .ndim = d->ndim, .device = d->device,
                  .index = (int32_t)g->ninputs, .weak = d->weak};
  memcpy(v.shape, d->shape, (size_t)d->ndim * sizeof *v.shape);
  memcpy(v.strides, d->strides, (size_t)d->ndim * sizeof *v.strides);
  v.has_strides = !cni_is_contiguous(d->ndim, d->shape, d->strides);
  int value = cni_graph_add_value(g, &v);
  if (value < 0 || cni_graph_list_input(g, value)) return NULL;
  cn_tensor *t = cni_capture_handle(cap, d->device, d->dtype, d->ndim, d->shape, v.has_strides ? d->strides : NULL,
                                    value);
  if (t) t->d.weak = d->weak;
  return cni_scope_add(t);
}

int cni_trace_output(cni_capture *cap, cn_tensor *t)
{
  cn_graph *g = cap->g;
  int value = cni_capture_value(cap, t);
  return value < 0 ? cn_err() : cni_graph_add_list(&g->outputs, &g->noutputs, &g->outputs_cap, value);
}

/* Captures go to `cap` from now on; NULL: to none. */
static void switch_to(cni_capture *cap)
{
  cn_state *st = cni_state();
  st->capture = cap;
  st->modes &= ~(uint32_t)(CNI_MODE_CAPTURE | CNI_MODE_INSIDE);
  if (cap) st->modes |= cap->outer ? CNI_MODE_CAPTURE | CNI_MODE_INSIDE : CNI_MODE_CAPTURE;
}

static int begin(cni_capture *cap, cni_capture *outer)
{
  static _Atomic uint64_t next_serial = 1;
  *cap = (cni_capture){.g = cn_graph_new(), .outer = outer,
                       .serial = atomic_fetch_add(&next_serial, 1) & 0xffffffffu, .grad = !cni_state()->no_grad};
  if (!cap->g) return CN_ERR_MEMORY;
  if (!(cap->live = cni_live_new())) {
    cn_graph_free(cap->g);
    return CN_ERR_MEMORY;
  }
  cap->depth = cni_scope_push();
  cni_draws_begin(cap);
  switch_to(cap);
  return CN_OK;
}

int cni_trace_begin(cni_capture *cap)
{
  cn_state *st = cni_state();
  if (st->err) return st->err;
  cni_init();
  if (st->capture) return cni_fail(CN_ERR_CAPTURE, "trace: a graph is being captured already");
  return begin(cap, NULL);
}

int cni_trace_begin_inside(cni_capture *cap) { return cn_err() ? cn_err() : begin(cap, cni_capturing()); }

/* What captured code wrote into its inputs is written back to the caller's tensors by a run. */
static void finish_inputs(cni_capture *cap)
{
  for (size_t i = 0; i < cap->g->ninputs; i++) {
    int now = cni_capture_now(cap, cap->g->inputs[i]);
    cap->g->input_finals[i] = now == cap->g->inputs[i] ? -1 : now;
  }
}

static void release_met(cni_met *met, size_t n, size_t cap)
{
  for (size_t i = 0; i < n; i++) {
    cni_tensor_release(met[i].from);
    cni_tensor_release(met[i].to);
    cni_tensor_release(met[i].first);
  }
  cni_free(met, cap * sizeof *met);
}

cn_graph *cni_trace_end(cni_capture *cap, int status)
{
  cn_state *st = cni_state();
  if (!status) status = st->err;
  if (!status) status = cni_leaves_finish(cap);
  if (!status) finish_inputs(cap);
  switch_to(cap->outer);
  cni_leaves_restore(cap);
  cni_draws_end(cap);
  cni_scope_pop(cap->depth);
  release_met(cap->met, cap->nmet, cap->met_cap);
  release_met(cap->written, cap->nwritten, cap->written_cap);
  for (size_t i = 0; i < cap->nmemories; i++) {
    cni_storage_release(cap->memories[i].storage);
    cni_tensor_release(cap->memories[i].root);
  }
  cni_free(cap->memories, cap->memories_cap * sizeof *cap->memories);
  cni_free(cap->open, cap->open_cap * sizeof *cap->open);
  cap->escaped = cni_live_release(cap->live) > 0;
  if (!status && cn_graph_remove_dead(cap->g) < 0) status = cn_err();
  if (!status) return cap->g;
  cn_graph_free(cap->g);
  return NULL;
}

/* The whole one, of which this thread may capture a part. */
static cni_capture *outermost(void)
{
  cni_capture *cap = cni_capturing();
  while (cap && cap->outer) cap = cap->outer;
  return cap;
}

/* The first that is said of a tensor holds. What branches and loops depend on, the whole graph does. */
static int depend(cn_tensor *t, cni_depend_kind kind)
{
  cni_capture *cap = outermost();
  if (!cap) return CN_OK;
  cni_gdepends *d = &cap->g->depends;
  for (size_t i = 0; i < d->n; i++)
    if (d->v[i].tensor == t) return CN_OK;
  if (cni_grow((void **)&d->v, &d->cap, d->n + 1, sizeof *d->v)) return CN_ERR_MEMORY;
  d->v[d->n++] = (cni_gdepend){cni_tensor_keep(t), kind, cni_depend_now(t, kind)};
  return CN_OK;
}

int cn_trace_depends(cn_tensor *t) { return depend(t, CNI_DEPEND_VERSION); }
int cn_trace_reads(cn_tensor *number) { return depend(number, CNI_DEPEND_NUMBER); }
int cn_trace_sets(cn_tensor *number) { return depend(number, CNI_DEPEND_NONE); }

void cn_trace_wants_values(void)
{
  cni_capture *cap = outermost();
  if (cap) cap->wants_values = true;
}

bool cn_trace_is_value(const cn_tensor *t)
{
  const cni_capture *cap = outermost();
  size_t i = 0;
  while (cap && i < cap->nvalues && cap->values[i] != t) i++;
  return cap && i < cap->nvalues;
}

void *cn_trace_pause(void)
{
  void *cap = cni_state()->capture;
  switch_to(NULL);
  return cap;
}

void cn_trace_resume(void *paused)
{
  if (paused) switch_to(paused);
}

static int run_traced(cni_capture *cap, cn_graph_fn fn, cn_tensor **outputs, size_t noutputs, cn_tensor **handles,
                      cn_tensor *const *inputs, size_t ninputs, void *payload)
{
  for (size_t i = 0; i < ninputs; i++) {
    if (!inputs[i]) return cni_fail(CN_ERR_TYPE, "trace: input %zu is NULL", i);
    if (!(handles[i] = cni_trace_input(cap, &inputs[i]->d))) return cn_err();
  }
  int status = fn(outputs, handles, payload);
  if (status && !cn_err()) return cni_fail(status, "trace: the function failed");
  if (!status) status = cn_err();
  for (size_t i = 0; i < noutputs && !status; i++)
    status = outputs[i] ? cni_trace_output(cap, outputs[i])
                        : cni_fail(CN_ERR_VALUE, "trace: the function left output %zu unset", i);
  return status;
}

cn_graph *cni_trace_counted(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs, void *payload,
                            cni_counted *counted)
{
  cni_capture cap;
  if (cni_trace_begin(&cap)) return NULL;
  cap.counted = counted;
  cn_tensor **outputs = cni_alloc_zero((noutputs + 1) * sizeof *outputs);
  cn_tensor **handles = outputs ? cni_alloc_zero((ninputs + 1) * sizeof *handles) : NULL;
  int status = handles ? run_traced(&cap, fn, outputs, noutputs, handles, inputs, ninputs, payload) : CN_ERR_MEMORY;
  cn_graph *g = cni_trace_end(&cap, status);
  cni_free(outputs, (noutputs + 1) * sizeof *outputs);
  cni_free(handles, (ninputs + 1) * sizeof *handles);
  return g;
}

/* Where sizes turn out to depend on data, they vary like those that the caller lets vary. */
cn_graph *cn_trace(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs, void *payload)
{
  cni_counted counted = {NULL, 0, 0, NULL};
  cn_graph *g = cni_trace_counted(fn, noutputs, inputs, ninputs, payload, &counted);
  if (!g || !counted.met) return g;
  cn_graph_free(g);
  return cn_trace_dynamic(fn, noutputs, inputs, ninputs, NULL, 0, payload);
}

/* ---- what a composite op makes ---- */

/* The input that a result looks into; -1: it has memory of its own. */
static int looked_into(const cn_call *c, cn_tensor *const *in, int result)
{
  const cn_tensor *t = c->out[result];
  for (int k = 0; k < c->nin; k++)
    if (in[k] && in[k]->storage == t->storage && cni_dtype_size(in[k]->d.dtype) == cni_dtype_size(t->d.dtype)) return k;
  return -1;
}

/* Results of the captured decomposition: looks into inputs where all are, else fresh memory, in the order of memory
 * that they have where it is dense. */
static void note_results(cn_call *c, cn_tensor *const *in)
{
  bool views = true;
  for (int i = 0; i < c->nout; i++) views = views && looked_into(c, in, i) >= 0;
  for (int i = 0; i < c->nout; i++) {
    const cn_desc *d = &c->out[i]->d;
    cn_spec *s = &c->spec[i];
    *s = (cn_spec){.dtype = d->dtype, .ndim = d->ndim, .view_of = views ? looked_into(c, in, i) : -1,
                   .has_strides = true};
    if (views) s->offset = c->out[i]->offset - in[s->view_of]->offset;
    memcpy(s->shape, d->shape, sizeof s->shape);
    if (views || cni_is_dense(d->ndim, d->shape, d->strides)) memcpy(s->strides, d->strides, sizeof s->strides);
    else cni_contiguous_strides(d->ndim, d->shape, s->strides);
  }
}

static int decompose(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  cn_call *c = payload;
  cn_value args[CN_MAX_ARGS];
  cn_tensor *room[64], **in = room;
  int expected = c->nout;
  if (c->nin > 64 && !(in = cni_alloc((size_t)c->nin * sizeof *in))) return CN_ERR_MEMORY;
  for (int i = 0, k = 0; i < c->nin; i++) in[i] = c->in[i] && !cni_is_number(c->in[i]) ? inputs[k++] : c->in[i];
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  cni_fill_slots(cni_op_info(c->op), args, in);
  cn_call inner = *c;
  inner.in = in;
  inner.args = args;
  int status = c->op->decompose(&inner);
  if (!status) status = cn_err();
  for (int i = 0; i < inner.nout && !status; i++)
    if (!inner.out[i]) status = cni_fail(CN_ERR_INTERNAL, "%s: it left a result unset", cni_op_info(c->op)->name);
  c->nout = inner.nout;
  if (!status) note_results(c, in);
  for (int i = 0; i < c->nout && i < expected; i++) outputs[i] = c->out[i];
  if (in != room) cni_free(in, (size_t)c->nin * sizeof *in);
  return status;
}

cn_graph *cni_trace_call(cn_call *c)
{
  cn_state *st = cni_state();
  cni_capture *outer = st->capture;
  uint32_t modes = st->modes;
  bool no_grad = st->no_grad;
  size_t n = 0, bytes = (size_t)(c->nin + 1) * sizeof(cn_tensor *);
  cn_tensor **inputs = cni_alloc(bytes);
  if (!inputs) return NULL;
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && !cni_is_number(c->in[i])) inputs[n++] = c->in[i];
  st->capture = NULL;
  st->modes = 0;
  st->no_grad = true;
  cn_graph *g = cni_trace_counted(decompose, (size_t)c->nout, inputs, n, c, NULL);
  st->modes = modes;
  st->no_grad = no_grad;
  st->capture = outer;
  cni_free(inputs, bytes);
  return g;
}

int cni_capture_infer(cn_call *c)
{
  cn_graph *g = cni_trace_call(c);
  cn_graph_free(g);
  return g ? CN_OK : cn_err();
}
