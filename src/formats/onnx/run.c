/* run.c: running a model: its nodes in order, each a call of its row. See run.h.
 *
 * Place in the flow: api.c fills a frame and walks it; builders walk sub-graphs in frames inside. A node's results are
 * counted values; what nobody reads behind a node goes then. Where a graph is captured, or tensors are on a device, a
 * node whose inputs are known numbers is computed twice: as any node, and at once, of the known ones, with tracing
 * paused, so that its result is known as well. Numbers are computed anew in each walk: a captured function may be
 * walked at many sizes. Invariant: nothing in a model changes while it is walked. */
#include "run.h"

#include <cairn/ext/system.h>
#include <cairn/profile.h>
#include <stdio.h>
#include <string.h>

#include "template.h"

enum { DEEPEST = 100 }; /* graphs and functions in one another */

int cni_onnx_frame_begin(cni_onnx_frame *f, const cni_onnx_frame *outer, const cni_onnx_graph *g)
{
  if (outer) {
    f->model = outer->model;
    f->track = outer->track;
    f->caller = outer->caller;
    f->depth = outer->depth + 1;
  }
  f->outer = outer;
  f->graph = g;
  f->slots = NULL;
  if (f->depth > DEEPEST) return cn_err_set(CN_ERR_VALUE, "onnx: functions and graphs lie too deep in one another");
  f->slots = cn_alloc_zero((size_t)g->nslots * sizeof *f->slots);
  return f->slots ? CN_OK : cn_err();
}

void cni_onnx_frame_end(cni_onnx_frame *f)
{
  for (int32_t i = 0; f->slots && i < f->graph->nslots; i++) cn_onnx_value_release(f->slots[i]);
  cn_free(f->slots, (size_t)f->graph->nslots * sizeof *f->slots);
}

int cni_onnx_feed_slot(cni_onnx_frame *f, int32_t slot, cn_onnx_value *v)
{
  if (slot < 0 || !v) return CN_OK;
  cn_onnx_value_release(f->slots[slot]);
  f->slots[slot] = cn_onnx_value_keep(v);
  return CN_OK;
}

cn_onnx_value *cni_onnx_slot(const cni_onnx_frame *f, cni_onnx_ref ref)
{
  for (; ref.up > 0; ref.up--) f = f->outer;
  return ref.slot < 0 ? NULL : f->slots[ref.slot];
}

int cni_onnx_results(cn_onnx_value **outputs, const cni_onnx_frame *f)
{
  for (size_t i = 0; i < f->graph->noutputs; i++) {
    outputs[i] = cn_onnx_value_keep(cni_onnx_slot(f, f->graph->results[i]));
    if (!outputs[i] && !(outputs[i] = cn_onnx_value_none())) {
      while (i-- > 0) cn_onnx_value_release(outputs[i]);
      return cn_err();
    }
  }
  return CN_OK;
}

/* ---- a node ---- */

/* What went wrong, with where. */
static int explain(const cni_onnx_call *c)
{
  char said[600];
  int code = cn_err();
  const cni_onnx_node *n = c->node;
  snprintf(said, sizeof said, "%s", cn_err_message());
  cn_err_clear();
  return cn_err_set(code, "onnx: node '%s' (%s%s%s, opset %lld): %s",
                    *n->name || !n->noutputs ? n->name : n->output_names[0], n->domain, *n->domain ? "." : "", n->op,
                    (long long)c->opset, said);
}

static int call_function(cni_onnx_call *c)
{
  const cni_onnx_function *fn = c->node->function;
  cni_onnx_frame f = {.model = c->frame->model, .track = c->frame->track, .caller = c, .depth = c->frame->depth + 1};
  cn_onnx_value **made = cni_onnx_room(c, fn->body.noutputs + 1, sizeof *made);
  if (!made) return cn_err();
  if (c->nin > fn->body.ninputs || c->nout > fn->body.noutputs)
    return cni_onnx_fail(c, CN_ERR_VALUE, "the function takes %zu inputs and gives %zu outputs", fn->body.ninputs,
                         fn->body.noutputs);
  int status = cni_onnx_frame_begin(&f, NULL, &fn->body);
  for (size_t i = 0; !status && i < c->nin; i++) cni_onnx_feed_slot(&f, fn->body.inputs[i].slot, c->in[i]);
  if (!status) status = cni_onnx_walk(&f);
  if (!status) status = cni_onnx_results(made, &f);
  for (size_t i = 0; !status && i < fn->body.noutputs; i++) {
    if (i < c->nout) c->out[i] = made[i];
    else cn_onnx_value_release(made[i]);
  }
  cni_onnx_frame_end(&f);
  return status;
}

static int call_row(cni_onnx_call *c)
{
  const cni_onnx_node *n = c->node;
  if (n->problem) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "%s", n->problem);
  if (n->function) return call_function(c);
  return n->row->text ? cni_onnx_eval(c, n->template) : n->row->build(c);
}

/* Its inputs are known numbers, and so are its results. */
static bool all_known(const cni_onnx_call *c)
{
  if (!c->frame->track || c->node->function || (c->node->row->flags & CNI_ONNX_FRESH) || !c->nin) return false;
  for (size_t i = 0; i < c->nin; i++)
    if (c->in[i] && !(c->in[i]->kind == CN_ONNX_TENSOR && c->in[i]->known)) return false;
  for (size_t i = 0; i < c->nout; i++)
    if (c->out[i] && (c->out[i]->kind != CN_ONNX_TENSOR || cn_numel(c->out[i]->t) > CNI_ONNX_SMALL)) return false;
  return true;
}

/* The same call of the known numbers; its results become those known of c's. */
static int compute_known(cni_onnx_call *c)
{
  cni_onnx_call k = {.node = c->node, .frame = c->frame, .nin = c->nin, .nout = c->nout, .opset = c->opset};
  cn_onnx_value **in = cni_onnx_room(c, c->nin + 1, sizeof *in);
  k.out = cni_onnx_room(c, c->nout + 1, sizeof *k.out);
  if (!in || !k.out) return cn_err();
  void *paused = cn_trace_pause();
  int status = CN_OK;
  k.in = in;
  for (size_t i = 0; i < c->nin && !status; i++)
    if (c->in[i] && !(in[i] = cni_onnx_value_know(cn_onnx_value_tensor(c->in[i]->known), c->in[i]->known)))
      status = cn_err();
  if (!status) status = call_row(&k);
  for (size_t i = 0; i < c->nout; i++) {
    if (!status && k.out[i] && c->out[i]) cni_onnx_value_know(c->out[i], k.out[i]->t);
    cn_onnx_value_release(k.out[i]);
  }
  for (size_t i = 0; i < c->nin; i++) cn_onnx_value_release(in[i]);
  cn_trace_resume(paused);
  cn_onnx_value_release(k.made);
  cni_arena_free(&k.room);
  return status;
}

/* The node as a range of a profile that is on: "Conv conv1". */
static bool range_begin(const cni_onnx_node *n)
{
  cn_text name = {0};
  if (!cn_profile_on(0)) return false;
  cn_text_putf(&name, "%s %s", n->op, *n->name || !n->noutputs ? n->name : n->output_names[0]);
  bool begun = name.s && !cn_profile_range_begin(name.s);
  cn_text_free(&name);
  return begun;
}

/* Inputs from the frame, the call, results into the frame. */
static int step(cni_onnx_frame *f, const cni_onnx_node *n)
{
  cni_onnx_call c = {.node = n, .frame = f, .nin = n->ninputs, .nout = n->noutputs, .opset = n->opset};
  cn_onnx_value **in = cni_onnx_room(&c, n->ninputs + 1, sizeof *in);
  c.out = cni_onnx_room(&c, n->noutputs + 1, sizeof *c.out);
  cn_scope *scope = cn_scope_begin();
  int status = in && c.out && scope ? CN_OK : cn_err();
  bool ranged = range_begin(n);
  c.in = in;
  for (size_t i = 0; !status && i < n->ninputs; i++) in[i] = cni_onnx_slot(f, n->inputs[i]);
  while (c.nin && !status && !in[c.nin - 1]) c.nin--; /* those left out at the end are not there */
  if (!status) status = call_row(&c);
  if (!status) status = cn_err();
  if (!status && all_known(&c)) status = compute_known(&c);
  if (status) status = explain(&c);
  if (ranged) cn_profile_range_end();
  for (size_t i = 0; c.out && i < n->noutputs; i++) {
    int32_t slot = status ? -1 : n->outputs[i];
    if (slot >= 0 && !f->slots[slot]) f->slots[slot] = c.out[i];
    else cn_onnx_value_release(c.out[i]);
  }
  cn_scope_end(scope);
  cn_onnx_value_release(c.made);
  cni_arena_free(&c.room);
  return status;
}

/* ---- a graph ---- */

static void initialise(cni_onnx_frame *f)
{
  const cni_onnx_graph *g = f->graph;
  for (size_t i = 0; i < g->ninitials + g->nsparses; i++) {
    int32_t slot = i < g->ninitials ? g->initial_slots[i] : g->sparse_slots[i - g->ninitials];
    if (!f->slots[slot]) f->slots[slot] = cn_onnx_value_keep(g->values[i]);
  }
}

/* All that the node gives was fed. */
static bool is_given(const cni_onnx_frame *f, const cni_onnx_node *n)
{
  for (size_t i = 0; i < n->noutputs; i++)
    if (n->outputs[i] >= 0 && !f->slots[n->outputs[i]]) return false;
  return n->noutputs > 0;
}

int cni_onnx_walk(cni_onnx_frame *f)
{
  initialise(f);
  for (size_t i = 0; i < f->graph->nnodes; i++) {
    const cni_onnx_node *n = &f->graph->nodes[i];
    if (f->only && !f->only[i]) continue;
    if (!is_given(f, n) && step(f, n)) return cn_err();
    for (size_t k = 0; !f->keep && k < n->ndone; k++) {
      cn_onnx_value_release(f->slots[n->done[k]]);
      f->slots[n->done[k]] = NULL;
    }
  }
  return CN_OK;
}

int cni_onnx_walk_inside(cn_onnx_value **outputs, const cni_onnx_call *c, const cni_onnx_graph *g,
                         cn_onnx_value *const *inputs, size_t ninputs)
{
  cni_onnx_frame f = {0};
  if (ninputs != g->ninputs)
    return cni_onnx_fail(c, CN_ERR_VALUE, "its graph '%s' takes %zu inputs, it would get %zu", g->name, g->ninputs,
                         ninputs);
  int status = cni_onnx_frame_begin(&f, c->frame, g);
  for (size_t i = 0; !status && i < ninputs; i++) cni_onnx_feed_slot(&f, g->inputs[i].slot, inputs[i]);
  if (!status) status = cni_onnx_walk(&f);
  if (!status) status = cni_onnx_results(outputs, &f);
  cni_onnx_frame_end(&f);
  return status;
}
