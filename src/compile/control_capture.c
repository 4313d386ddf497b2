/* control_capture.c: functions of branches and loops, captured as graphs. See control.h.
 *
 * Place in the flow: as executable.c does with a whole function, the backward pass is captured behind the forward pass,
 * with the gradients of results as inputs. Invariant: nothing outside is changed; a function that writes to what it is
 * handed by a loop, or keeps a tensor, is refused. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "autograd/autograd.h"
#include "control.h"

void cni_captured_free(cni_captured *f)
{
  cn_graph_free(f->g);
  for (size_t i = 0; f->met && i < f->nmet; i++) cni_tensor_release(f->met[i]);
  cni_free(f->met, (f->nmet + 1) * sizeof *f->met);
  for (size_t i = 0; i < f->nwritten; i++) cni_tensor_release(f->written[i]);
  cni_free(f->written, f->written_cap * sizeof *f->written);
  cni_free(f->carries, f->nresults + 1);
  cni_free(f->gradient, (f->ngiven + f->nmet + 1) * sizeof *f->gradient);
  *f = (cni_captured){.g = NULL};
}

/* While a function is captured: where each of the graph's inputs will stand. */
typedef struct capturing {
  cni_capture cap;
  cni_captured *f;
  const cni_to_capture *what;
  cn_tensor **first;   /* per input given: as it begins, with the history that its gradient is of */
  cn_tensor **handed;  /* to the function */
  cn_tensor **results; /* room for CNI_MOST_RESULTS */
  size_t *seed;        /* per result: the input that is its gradient, where it carries one */
  size_t nfinals;      /* results that are what memories hold at the end, from what->finals_at on */
} capturing;

static cn_tensor *memory_at(const cni_to_capture *w, size_t i) { return w->memory ? w->memory[i] : NULL; }

/* ---- forward ---- */

/* What a memory outside holds was computed there: gradients that get there go on outside, behind the node. */
static int goes_on_outside(cn_context *ctx, cn_tensor **grad_in, cn_tensor *const *grad_out)
{
  const cni_capture *cap = cni_capturing();
  (void)ctx, (void)grad_in, (void)grad_out;
  if (cap && cap->leaves_are_inside) return CN_OK;
  return cni_fail(CN_ERR_CAPTURE, "capture: a backward pass inside of a function that cond, while, scan or map is "
                                  "given goes through a tensor that it writes to into what was computed outside");
}

static const cn_function computed_outside = {sizeof(cn_function), "input", NULL, goes_on_outside, NULL};

static int begin_input(capturing *c, size_t i)
{
  const cni_to_capture *w = c->what;
  cn_tensor *memory = memory_at(w, i), *t = cni_trace_input(&c->cap, &w->given[i]);
  if (!t) return cn_err();
  c->first[i] = t;
  if (w->wants && w->wants[i]) {
    bool leaf = !memory || cni_state_is_leaf(memory);
    if (leaf ? !cn_requires_grad(t, true) : cni_function_begin(t, &computed_outside)) return cn_err();
  }
  if (!memory) return CN_OK;
  int status = cni_bring_memory(&c->cap, memory, t);
  if (!status && c->cap.written[c->nfinals].first) c->first[i] = c->cap.written[c->nfinals].first;
  c->nfinals += !status;
  return status;
}

/* What the function is handed: inputs that stand for no memory, and operands. Returns how many, or an error. */
static int hand_inputs(capturing *c)
{
  const cni_to_capture *w = c->what;
  int n = 0;
  for (size_t i = 0; i < w->ngiven; i++) {
    int status = begin_input(c, i);
    if (status) return status;
    if (!memory_at(w, i)) c->handed[n++] = c->first[i];
  }
  for (size_t i = 0; i < w->noperands; i++)
    if (!(c->handed[n++] = cni_bring_one_inside(w->operands[i]))) return cn_err();
  return n;
}

/* What memories hold at the end stands among the results. Returns how many there are then, or an error. */
static int add_finals(capturing *c, size_t n)
{
  size_t at = c->what->finals_at < n ? c->what->finals_at : n;
  if (n + c->nfinals > CNI_MOST_RESULTS)
    return cni_fail(CN_ERR_VALUE, "%s: more than %d results", c->what->who, CNI_MOST_RESULTS);
  memmove(c->results + at + c->nfinals, c->results + at, (n - at) * sizeof *c->results);
  for (size_t i = 0; i < c->nfinals; i++) c->results[at + i] = c->cap.written[i].to;
  return (int)(n + c->nfinals);
}

static int run_function(capturing *c)
{
  const cni_to_capture *w = c->what;
  size_t n = CNI_MOST_RESULTS;
  int nin = hand_inputs(c), status = nin < 0 ? nin : w->fn(c->results, &n, c->handed, (size_t)nin, w->payload);
  if (status && !cn_err()) return cni_fail(status, "%s: the function failed", w->who);
  if (cn_err()) return cn_err();
  int all = n > CNI_MOST_RESULTS ? cni_fail(CN_ERR_VALUE, "%s: more than %d results", w->who, CNI_MOST_RESULTS)
                                 : add_finals(c, n);
  if (all < 0) return all;
  c->f->nresults = n = (size_t)all;
  for (size_t i = 0; i < n && !status; i++) {
    cn_tensor **t = &c->results[i];
    if (!*t) return cni_fail(CN_ERR_VALUE, "%s: the function left result %zu unset", w->who, i);
    if ((*t)->d.weak) return cni_fail(CN_ERR_TYPE, "%s: result %zu is a number, not a tensor", w->who, i);
    if (!(*t = cni_bring_one_inside(*t))) return cn_err();
    status = cni_trace_output(&c->cap, *t);
  }
  return status;
}

/* ---- backward ---- */

/* Input i as it begins; NULL: one from outside that carries no gradient. */
static cn_tensor *input_at(const capturing *c, size_t i)
{
  return i < c->f->ngiven ? c->first[i] : c->cap.met[i - c->f->ngiven].first;
}

/* A gradient that the function itself left in what it was given, or met, would be lost. */
static int check_leaves(const capturing *c)
{
  for (size_t i = 0; i < c->f->ngiven + c->cap.nmet; i++)
    if (input_at(c, i) && cn_grad_of(input_at(c, i)))
      return cni_fail(CN_ERR_CAPTURE, "%s: the function goes backward into a tensor that it was given or that lives "
                      "outside: use cn_grad, and return gradients", c->what->who);
  return cn_err();
}

static bool wants(const capturing *c, size_t i)
{
  return i < c->f->ngiven ? c->what->wants && c->what->wants[i] : input_at(c, i) != NULL;
}

/* Does result i carry a gradient? What is written to a leaf does not: it was while gradients were switched off. */
static bool carries(const capturing *c, size_t i)
{
  size_t at = i - c->what->finals_at; /* of those in front it is large */
  if (at < c->nfinals && cni_state_is_leaf(c->cap.written[at].from)) return false;
  return cn_needs_grad(c->results[i]);
}

/* Gradients of results become inputs, those of inputs, where some flow, outputs. */
static int run_backward(capturing *c, cn_tensor **wanted, cn_tensor **grads, cn_tensor **seeds)
{
  cni_captured *f = c->f;
  size_t nmet = c->cap.nmet, ninputs = f->ngiven + nmet;
  int nroots = 0, nwanted = 0, status = CN_OK;
  cn_tensor **roots = seeds + f->nresults;
  for (size_t i = 0; i < f->nresults; i++) {
    cn_tensor *y = c->results[i];
    if (!(f->carries[i] = carries(c, i))) continue;
    cn_desc d = y->d;
    cni_contiguous_strides(d.ndim, d.shape, d.strides);
    roots[nroots] = y;
    c->seed[i] = c->cap.g->ninputs;
    if (!(seeds[nroots++] = cni_trace_input(&c->cap, &d))) return cn_err();
  }
  for (size_t i = 0; i < ninputs; i++)
    if (wants(c, i)) wanted[nwanted++] = input_at(c, i);
  cni_backward b = {.roots = roots, .seeds = seeds, .nroots = nroots, .inputs = wanted, .results = grads,
                    .ninputs = nwanted, .no_leaf_hooks = true};
  c->cap.leaves_are_inside = true;
  if (nroots) status = cni_backward_run(&b);
  for (size_t i = nmet; i < c->cap.nmet && !status; i++)
    if (c->cap.met[i].first)
      status = cni_fail(CN_ERR_CAPTURE, "%s: the backward pass reads a tensor with gradients that forward did not",
                        c->what->who);
  nwanted = 0;
  for (size_t i = 0; i < ninputs && !status; i++) {
    cn_tensor *g = wants(c, i) ? grads[nwanted++] : NULL;
    f->gradient[i] = g ? (int)f->ngradients++ : -1;
    if (g) status = cni_trace_output(&c->cap, g);
  }
  for (int i = 0; i < b.ninputs; i++) cni_tensor_release(grads[i]);
  return status;
}

static bool any_carries(const capturing *c)
{
  if (cni_state()->no_grad || !c->what->wants) return false;
  for (size_t i = 0; i < c->f->nresults; i++)
    if (carries(c, i)) return true;
  return false;
}

static int add_backward(capturing *c)
{
  cni_captured *f = c->f;
  size_t ninputs = f->ngiven + c->cap.nmet, bytes = 2 * (ninputs + f->nresults + 1) * sizeof(cn_tensor *);
  if (check_leaves(c)) return cn_err();
  if (!any_carries(c)) return CN_OK;
  cn_tensor **room = cni_alloc_zero(bytes);
  int status = room ? run_backward(c, room, room + ninputs, room + 2 * ninputs) : CN_ERR_MEMORY;
  cni_free(room, bytes);
  return status;
}

/* ---- the end ---- */

/* The tensors that were met, before the capture forgets them; and room for what is known of each input. */
static int note_met(capturing *c)
{
  cni_captured *f = c->f;
  size_t n = c->cap.nmet;
  f->met = cni_alloc_zero((n + 1) * sizeof *f->met);
  if (!f->met) return CN_ERR_MEMORY;
  f->nmet = n;
  for (size_t i = 0; i < n; i++) f->met[i] = cni_tensor_keep(c->cap.met[i].from);
  f->gradient = cni_alloc((f->ngiven + n + 1) * sizeof *f->gradient);
  f->carries = f->gradient ? cni_alloc_zero(f->nresults + 1) : NULL;
  for (size_t i = 0; f->gradient && i < f->ngiven + n; i++) f->gradient[i] = -1;
  return f->carries ? CN_OK : CN_ERR_MEMORY;
}

/* Memories outside that it writes to, and that were not known to be. */
static int note_written(capturing *c)
{
  cni_captured *f = c->f;
  for (size_t i = 0; i < c->cap.nmet; i++) {
    int value = c->cap.g->inputs[c->cap.met[i].input];
    if (cni_capture_now(&c->cap, value) == value) continue;
    if (cni_grow((void **)&f->written, &f->written_cap, f->nwritten + 1, sizeof *f->written)) return CN_ERR_MEMORY;
    f->written[f->nwritten++] = cni_tensor_keep(cni_root_of(c->cap.met[i].from));
  }
  return CN_OK;
}

/* Is every input that the function is handed only read, and is no tensor kept outside? */
static int check_captured(const capturing *c, const cn_graph *g)
{
  for (size_t i = 0; i < c->f->ngiven; i++)
    if (g->input_finals[i] >= 0 && !memory_at(c->what, i))
      return cni_fail(CN_ERR_CAPTURE, "%s: the function writes to a value that it is handed for one step: clone it "
                      "first, or return the new value", c->what->who);
  if (c->cap.escaped)
    return cni_fail(CN_ERR_CAPTURE, "%s: a tensor that the function computes is kept outside of it: return it instead",
                    c->what->who);
  return CN_OK;
}

/* Inputs in the order that cni_captured says. */
static int put_in_order(capturing *c, cn_graph *g, const size_t *met_at)
{
  cni_captured *f = c->f;
  size_t most = f->ngiven + f->nmet + f->nresults, nin = 0;
  cni_wire *in = cni_alloc((most + g->noutputs + 1) * sizeof *in), *out = in + most;
  if (!in) return CN_ERR_MEMORY;
  for (size_t i = 0; i < f->ngiven; i++) in[nin++] = cni_wire_of(g, g->inputs[i]);
  for (size_t i = 0; i < f->nmet; i++) in[nin++] = cni_wire_of(g, g->inputs[met_at[i]]);
  for (size_t i = 0; i < f->nresults; i++)
    if (f->carries[i]) in[nin++] = cni_wire_of(g, g->inputs[c->seed[i]]);
  for (size_t i = 0; i < g->noutputs; i++) out[i] = cni_wire_of(g, g->outputs[i]);
  f->g = cni_arrange(g, in, nin, out, g->noutputs);
  cni_free(in, (most + g->noutputs + 1) * sizeof *in);
  return f->g ? CN_OK : cn_err();
}

static int finish(capturing *c, int status)
{
  cni_captured *f = c->f;
  size_t n = c->cap.nmet, *met_at = status ? NULL : cni_alloc((n + 1) * sizeof *met_at);
  for (size_t i = 0; met_at && i < n; i++) met_at[i] = c->cap.met[i].input;
  if (!status && !met_at) status = CN_ERR_MEMORY;
  bool again = !status && f->nwritten; /* this was for finding out what it writes to */
  cn_graph *g = cni_trace_end(&c->cap, again ? CN_ERR_CAPTURE : status);
  if (!again) status = g ? check_captured(c, g) : status ? status : cn_err();
  if (!status && g) {
    f->nmet = n; /* those of backward are behind those of forward */
    status = put_in_order(c, g, met_at);
  }
  cn_graph_free(g);
  cni_free(met_at, (n + 1) * sizeof *met_at);
  return status;
}

/* Backward may have met more tensors. */
static int note_more(capturing *c)
{
  cni_captured *f = c->f;
  size_t had = f->nmet, n = c->cap.nmet;
  if (n == had) return CN_OK;
  cn_tensor **met = cni_alloc_zero((n + 1) * sizeof *met);
  int *gradient = met ? cni_alloc((f->ngiven + n + 1) * sizeof *gradient) : NULL;
  if (!gradient) {
    cni_free(met, (n + 1) * sizeof *met);
    return CN_ERR_MEMORY;
  }
  for (size_t i = 0; i < n; i++) met[i] = i < had ? f->met[i] : cni_tensor_keep(c->cap.met[i].from);
  for (size_t i = 0; i < f->ngiven + n; i++) gradient[i] = i < f->ngiven + had ? f->gradient[i] : -1;
  cni_free(f->met, (had + 1) * sizeof *f->met);
  cni_free(f->gradient, (f->ngiven + had + 1) * sizeof *f->gradient);
  f->met = met;
  f->gradient = gradient;
  f->nmet = n;
  return CN_OK;
}

/* Forward, and where nothing has to be found out first, backward. */
static int run_both(capturing *c)
{
  int status = run_function(c);
  if (!status) status = note_written(c);
  if (status || c->f->nwritten) return status;
  status = note_met(c);
  if (!status) status = add_backward(c);
  return status ? status : note_more(c);
}

int cni_capture_function(cni_captured *f, const cni_to_capture *what)
{
  size_t most = 2 * (what->ngiven + 1) + what->noperands + CNI_MOST_RESULTS, bytes = most * sizeof(cn_tensor *);
  capturing c = {.f = f, .what = what, .first = cni_alloc_zero(bytes)};
  *f = (cni_captured){.ngiven = what->ngiven};
  c.seed = c.first ? cni_alloc(CNI_MOST_RESULTS * sizeof *c.seed) : NULL;
  c.handed = c.first + what->ngiven + 1;
  c.results = c.handed + what->ngiven + what->noperands + 1;
  int status = c.seed ? cni_trace_begin_inside(&c.cap) : CN_ERR_MEMORY;
  if (!status) status = finish(&c, run_both(&c));
  cni_free(c.first, bytes);
  cni_free(c.seed, CNI_MOST_RESULTS * sizeof *c.seed);
  if (status) cni_captured_free(f);
  return status;
}

/* ---- one list of tensors from outside for several functions ---- */

static int find(cn_tensor *const *list, size_t n, const cn_tensor *t)
{
  for (size_t i = 0; i < n; i++)
    if (cni_same_tensor(list[i], t)) return (int)i;
  return -1;
}

/* Which input of f input i is, once f has met the n tensors of the list; -1: a tensor that it has not met. */
static int own_input(const cni_captured *f, cn_tensor *const *list, size_t n, size_t i)
{
  if (i < f->ngiven) return (int)i;
  if (i >= f->ngiven + n) return (int)(i - n + f->nmet); /* a gradient of a result */
  int at = find(f->met, f->nmet, list[i - f->ngiven]);
  return at < 0 ? -1 : (int)f->ngiven + at;
}

/* f with the tensors of the list as those it met; list: n of them. */
static int meet_all(cni_captured *f, cn_tensor *const *list, size_t n)
{
  if (n == f->nmet && !memcmp(list, f->met, n * sizeof *list)) return CN_OK;
  size_t nin = n + f->g->ninputs - f->nmet, nout = f->g->noutputs;
  cni_captured old = {.ngiven = f->ngiven, .met = f->met, .nmet = f->nmet, .gradient = f->gradient, .g = f->g};
  cni_wire *in = cni_alloc((nin + nout + 1) * sizeof *in), *out = in + nin;
  int *gradient = in ? cni_alloc((f->ngiven + n + 1) * sizeof *gradient) : NULL;
  cn_tensor **met = gradient ? cni_alloc_zero((n + 1) * sizeof *met) : NULL;
  for (size_t i = 0; met && i < nin; i++) {
    int at = own_input(f, list, n, i);
    const cn_tensor *t = at < 0 ? list[i - f->ngiven] : NULL;
    in[i] = t ? (cni_wire){-1, cni_type_of_tensor(t), t->d.weak} : cni_wire_of(f->g, f->g->inputs[at]);
    if (i < f->ngiven + n) gradient[i] = at < 0 ? -1 : f->gradient[at];
  }
  for (size_t i = 0; met && i < nout; i++) out[i] = cni_wire_of(f->g, f->g->outputs[i]);
  cn_graph *g = met ? cni_arrange(f->g, in, nin, out, nout) : NULL;
  cni_free(in, (nin + nout + 1) * sizeof *in);
  if (!g) {
    cni_free(gradient, (f->ngiven + n + 1) * sizeof *gradient);
    cni_free(met, (n + 1) * sizeof *met);
    return cn_err();
  }
  for (size_t i = 0; i < n; i++) met[i] = cni_tensor_keep(list[i]);
  f->g = g;
  f->met = met;
  f->gradient = gradient;
  f->nmet = n;
  cni_captured_free(&old);
  return CN_OK;
}

int cni_captured_unite(cni_captured *const *all, int n)
{
  size_t most = 0, count = 0;
  for (int i = 0; i < n; i++) most += all[i]->nmet;
  cn_tensor **list = cni_alloc((most + 1) * sizeof *list);
  int status = list ? CN_OK : CN_ERR_MEMORY;
  for (int i = 0; list && i < n; i++)
    for (size_t k = 0; k < all[i]->nmet; k++)
      if (find(list, count, all[i]->met[k]) < 0) list[count++] = cni_tensor_keep(all[i]->met[k]);
  for (int i = 0; i < n && !status; i++) status = meet_all(all[i], list, count);
  for (size_t i = 0; i < count; i++) cni_tensor_release(list[i]);
  cni_free(list, (most + 1) * sizeof *list);
  return status;
}
