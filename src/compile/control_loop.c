/* control_loop.c: cn_while, cn_scan and cn_map under capture: a node whose sub-graph is one step, and its gradient: a
 * scan over the steps from the last to the first.
 *
 * Place in the flow: control.c -> here -> control_capture.c; the node is recorded in the forward of a custom function,
 * its backward node in the backward. What a step's backward needs of its forward, the values it was given to carry
 * among it, are further rows of the forward node. Backward carries the gradients of carried values, and the sums of
 * operands' gradients, which begin as -0.0, so that the first one added stays what it is, as in eager. Invariant: a
 * carried value that carries a gradient behind some step does so in front of every step. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "autograd/autograd.h"
#include "control.h"

/* What the custom function needs. Inputs of the node: carried, xs, operands. */
typedef struct looped {
  cni_control_kind kind;
  const char *who;
  cn_graph *cond, *body; /* until the node has them */
  cn_graph *backward;    /* one step; NULL: there is no gradient, as `why` says */
  size_t ncarried, nxs, noperands;
  size_t nresults;       /* carried values and ys, as the caller sees them */
  size_t nrows;          /* further rows, for backward */
  int64_t length;
  bool reverse;
  int draw;
  cni_wire *result;      /* per result: value 0 where it carries a gradient, else -1; and its type in one step */
  bool *active;          /* per carried value: does it carry gradients? */
  int *kept;             /* inputs of the node that backward reads as they are: first xs, then operands */
  size_t nkept_xs, nkept_operands;
  int *gradient;         /* per input: which result of the backward node; -1: none */
  size_t nactive, nsums, ngradients;
  cni_wire *sums;        /* per operand with a gradient: its type */
} looped;

static size_t ninputs_of(const looped *l) { return l->ncarried + l->nxs + l->noperands; }

static void looped_free(void *payload)
{
  looped *l = payload;
  size_t n = ninputs_of(l) + 1;
  cn_graph_free(l->cond);
  cn_graph_free(l->body);
  cn_graph_free(l->backward);
  cni_free(l->result, (l->nresults + 1) * sizeof *l->result);
  cni_free(l->active, l->ncarried + 1);
  cni_free(l->kept, n * sizeof *l->kept);
  cni_free(l->gradient, n * sizeof *l->gradient);
  cni_free(l->sums, n * sizeof *l->sums);
  cni_free(l, sizeof *l);
}

/* ---- recording ---- */

static int record_scan(cn_tensor **out, size_t nout, cn_graph *body, cn_tensor *const *in, const size_t *counts,
                       cn_tensor *steps, const looped *l, bool backward)
{
  size_t nin = counts[0] + counts[1] + counts[2];
  const cn_value args[7] = {cn_v_tensors(NULL, counts[0]), cn_v_tensors(NULL, counts[1]), cn_v_tensors(NULL, counts[2]),
                            {steps ? CN_V_TENSOR : CN_V_NONE, 1, {0}}, cn_v_int(l->length),
                            cn_v_bool(l->reverse != backward), cn_v_bool(backward)};
  cni_control_call k = {.info = cni_control_op(CNI_CONTROL_SCAN), .args = args, .in = in, .nin = (int)nin + 1,
                        .nout = (int)nout, .subs = &body, .nsubs = 1, .draw = l->draw};
  return cni_capture_control(out, cni_capturing(), &k);
}

static int record_map(cn_tensor **out, size_t nout, cn_graph *body, cn_tensor *const *in, size_t nxs, size_t noperands,
                      const looped *l)
{
  const cn_value args[3] = {cn_v_tensors(NULL, nxs), cn_v_tensors(NULL, noperands), cn_v_int(l->length)};
  cni_control_call k = {.info = cni_control_op(CNI_CONTROL_MAP), .args = args, .in = in, .nin = (int)(nxs + noperands),
                        .nout = (int)nout, .subs = &body, .nsubs = 1, .draw = l->draw};
  return cni_capture_control(out, cni_capturing(), &k);
}

static int record_while(cn_tensor **out, size_t nout, cn_graph *cond, cn_graph *body, cn_tensor *const *in,
                        const looped *l)
{
  cn_graph *subs[2] = {cond, body};
  const cn_value args[3] = {cn_v_tensors(NULL, l->ncarried), cn_v_tensors(NULL, l->noperands), cn_v_int(l->length)};
  cni_control_call k = {.info = cni_control_op(CNI_CONTROL_WHILE), .args = args, .in = in,
                        .nin = (int)(l->ncarried + l->noperands), .nout = (int)nout, .subs = subs, .nsubs = 2,
                        .draw = l->draw};
  return cni_capture_control(out, cni_capturing(), &k);
}

/* Takes the random numbers of all steps. */
static int take_draws(looped *l)
{
  int64_t each = cni_graph_draws(l->body), all;
  l->draw = -1;
  if (l->cond && cni_graph_draws(l->cond))
    return cni_fail(CN_ERR_CAPTURE, "while: its condition draws random numbers, which a graph cannot hold: draw them "
                                    "in the body");
  if (!each) return CN_OK;
  if (l->cond && !l->length)
    return cni_fail(CN_ERR_CAPTURE, "while: its body draws random numbers, and how many is not known: give .max_steps");
  if (__builtin_mul_overflow(each, l->length, &all))
    return cni_fail(CN_ERR_CAPTURE, "%s: it draws too many random numbers", l->who);
  if (all) l->draw = cni_draw_count(cni_capturing(), l->who, (uint64_t)all);
  return cn_err();
}

/* The forward node: results, then rows, then, of a bounded while, the count of steps. in: one more place than inputs.
 * */
static int record_first(cn_tensor **out, looped *l, cn_tensor *const *in)
{
  const size_t counts[3] = {l->ncarried, l->nxs, l->noperands};
  size_t nout = l->nresults + l->nrows;
  int status = take_draws(l);
  cn_graph *body = l->body, *cond = l->cond;
  if (status) return status;
  l->body = l->cond = NULL;
  if (l->kind == CNI_CONTROL_MAP) return record_map(out, nout, body, in, l->nxs, l->noperands, l);
  if (l->kind == CNI_CONTROL_SCAN) return record_scan(out, nout, body, in, counts, NULL, l, false);
  return record_while(out, nout + (l->length > 0), cond, body, in, l);
}

/* ---- the custom function ---- */

static int save_rows(cn_context *ctx, const looped *l, cn_tensor *const *all, cn_tensor *const *in)
{
  int status = cn_context_save(ctx, all + l->nresults, l->nrows);
  for (size_t i = 0; i < l->nkept_xs + l->nkept_operands && !status; i++)
    status = cn_context_save(ctx, &in[l->kept[i]], 1);
  if (!status && l->kind == CNI_CONTROL_WHILE && l->length)
    status = cn_context_save(ctx, &all[l->nresults + l->nrows], 1);
  return status;
}

static int forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  looped *l = cn_context_payload(ctx);
  size_t n = l->nresults + l->nrows + 1, ninputs = ninputs_of(l), bytes = (n + ninputs + 1) * sizeof *out;
  cn_tensor **all = cni_alloc_zero(bytes), **given = all + n;
  if (!all) return CN_ERR_MEMORY;
  memcpy(given, in, ninputs * sizeof *given);
  int status = record_first(all, l, given);
  if (!status && l->backward) status = save_rows(ctx, l, all, in);
  for (size_t i = 0; i < l->nresults && !status; i++) {
    out[i] = all[i];
    if (l->result[i].value < 0) status = cn_context_mark_non_differentiable(ctx, i);
  }
  cni_free(all, bytes);
  return status;
}

/* Zeros for a gradient that did not come, or the -0.0 that sums begin with. */
static cn_tensor *nothing(const cni_wire *w, int64_t rows, bool sum)
{
  cn_full_opts o = {.size = sizeof o, .dtype = w->type.dtype, .device = w->type.device};
  return sum ? cn_full_with(w->type.shape, (size_t)w->type.ndim, -0.0, &o) : cni_zeros_typed(&w->type, rows);
}

/* Carried: gradients of carried values, sums; then rows of forward, xs and gradients of ys; then operands. counts: how
 * many of each. */
static int backward_inputs(cn_context *ctx, const looped *l, cn_tensor **in, cn_tensor *const *grad_out, size_t *counts)
{
  size_t n = 0, saved = 0;
  for (size_t i = 0; i < l->ncarried; i++)
    if (l->active[i] && !(in[n++] = grad_out[i] ? grad_out[i] : nothing(&l->result[i], -1, false))) return cn_err();
  for (size_t i = 0; i < l->nsums; i++)
    if (!(in[n++] = nothing(&l->sums[i], -1, true))) return cn_err();
  counts[0] = n;
  for (; saved < l->nrows + l->nkept_xs; saved++)
    if (!(in[n++] = cn_context_saved(ctx, saved))) return cn_err();
  for (size_t i = l->ncarried; i < l->nresults; i++)
    if (l->result[i].value >= 0 &&
        !(in[n++] = grad_out[i] ? grad_out[i] : nothing(&l->result[i], l->length, false)))
      return cn_err();
  counts[1] = n - counts[0];
  for (size_t i = 0; i < l->nkept_operands; i++)
    if (!(in[n++] = cn_context_saved(ctx, saved++))) return cn_err();
  counts[2] = n - counts[0] - counts[1];
  bool counted = l->kind == CNI_CONTROL_WHILE;
  in[n] = counted ? cn_context_saved(ctx, saved) : NULL;
  return counted && !in[n] ? cn_err() : CN_OK;
}

static int record_backward(cn_tensor **out, cn_context *ctx, const looped *l, cn_tensor **in,
                           cn_tensor *const *grad_out)
{
  size_t counts[3];
  int status = backward_inputs(ctx, l, in, grad_out, counts);
  cn_graph *body = status ? NULL : cn_graph_copy(l->backward);
  if (!body) return cn_err();
  if (l->kind == CNI_CONTROL_MAP && !counts[0] && l->draw < 0)
    return record_map(out, l->ngradients, body, in, counts[1], counts[2], l);
  return record_scan(out, l->ngradients, body, in, counts, in[counts[0] + counts[1] + counts[2]], l, true);
}

static int backward(cn_context *ctx, cn_tensor **grad_in, cn_tensor *const *grad_out)
{
  const looped *l = cn_context_payload(ctx);
  if (!l->backward && l->kind == CNI_CONTROL_WHILE)
    return cni_fail(CN_ERR_CAPTURE, "while: gradients of a loop in a graph need .max_steps");
  if (cni_context_records(ctx))
    return cni_fail(CN_ERR_UNSUPPORTED, "%s: gradients of gradients do not go through it while a graph is captured",
                    l->who);
  if (!l->ngradients) return CN_OK;
  size_t n = ninputs_of(l), most = 2 * n + l->nresults + l->nrows + 2, bytes = (most + l->ngradients) * sizeof *grad_in;
  cn_tensor **in = cni_alloc_zero(bytes), **out = in + most;
  int status = in ? record_backward(out, ctx, l, in, grad_out) : CN_ERR_MEMORY;
  for (size_t i = 0; i < n && !status; i++) grad_in[i] = l->gradient[i] >= 0 ? out[l->gradient[i]] : NULL;
  cni_free(in, bytes);
  return status;
}

static const cn_function loop_function = {sizeof(cn_function), "loop", forward, backward, looped_free};

/* ---- arranging the halves ---- */

/* Is a kept value a row of forward: a result, or a carried value as the step got it? */
static bool is_row(const looped *l, const cni_kept *k)
{
  return k->from == CNI_KEPT_RESULT || (size_t)k->index < l->ncarried;
}

static void note_kept(looped *l, const cni_halves *h)
{
  for (size_t i = 0; i < h->nkept; i++) {
    if (is_row(l, &h->kept[i])) l->nrows++;
    else if ((size_t)h->kept[i].index < l->ncarried + l->nxs) l->kept[l->nkept_xs++] = h->kept[i].index;
  }
  for (size_t i = 0; i < h->nkept; i++)
    if (!is_row(l, &h->kept[i]) && (size_t)h->kept[i].index >= l->ncarried + l->nxs)
      l->kept[l->nkept_xs + l->nkept_operands++] = h->kept[i].index;
}

/* Which inputs get gradients, and where they stand among the results of backward: carried, sums, rows of xs. */
static void note_gradients(looped *l, const cni_captured *f)
{
  size_t n = ninputs_of(l), from = l->ncarried, operands = l->ncarried + l->nxs;
  for (size_t i = 0; i < from; i++) l->gradient[i] = l->active[i] ? (int)l->nactive++ : -1;
  for (size_t i = operands; i < n; i++) {
    l->gradient[i] = f->gradient[i] >= 0 ? (int)(l->nactive + l->nsums) : -1;
    if (f->gradient[i] >= 0) l->sums[l->nsums++] = cni_wire_of(f->g, f->g->inputs[i]);
  }
  l->ngradients = l->nactive + l->nsums;
  for (size_t i = from; i < operands; i++) l->gradient[i] = f->gradient[i] >= 0 ? (int)l->ngradients++ : -1;
}

static cn_graph *forward_half(const looped *l, const cni_halves *h, cni_wire *wires)
{
  cn_graph *g = h->forward;
  cni_wire *out = wires + g->ninputs;
  size_t nout = 0;
  for (size_t i = 0; i < g->ninputs; i++) wires[i] = cni_wire_of(g, g->inputs[i]);
  for (; nout < l->nresults; nout++) out[nout] = cni_wire_of(g, g->outputs[nout]);
  for (size_t i = 0; i < h->nkept; i++)
    if (is_row(l, &h->kept[i]))
      out[nout++] = cni_wire_of(g, h->kept[i].from == CNI_KEPT_RESULT ? g->outputs[h->kept[i].index]
                                                                      : g->inputs[h->kept[i].index]);
  return cni_arrange(g, wires, g->ninputs, out, nout);
}

/* sum + gradient, in the graph of one step; the value, negative on failure. *input: the sum so far. */
static int add_sum(cn_graph *g, int gradient, const cn_graph_value *t, int *input)
{
  const cn_value args[2] = {{CN_V_TENSOR, 1, {0}}, {CN_V_TENSOR, 1, {0}}};
  *input = cn_graph_add_input(g, t->device, t->dtype, t->ndim, t->shape);
  if (*input < 0) return *input;
  const int in[2] = {*input, gradient};
  int out[1];
  size_t nout = 1;
  int node = cn_graph_add_node(out, &nout, g, cn_op_find("add"), args, 2, in, 2);
  return node < 0 ? node : out[0];
}

/* Values in front of the rows: gradients of carried values and sums, in and out. Returns how many, or an error. */
static int wire_carried(const looped *l, const cni_captured *f, const cni_halves *h, cni_wire *in, cni_wire *out)
{
  cn_graph *g = h->backward;
  int n = 0;
  size_t seed = h->nkept;
  for (size_t i = 0; i < l->ncarried; i++) {
    int grad = f->gradient[i];
    cn_graph_value type = l->result[i].type;
    if (f->carries[i]) in[n] = cni_wire_of(g, g->inputs[seed++]);
    else if (l->active[i]) in[n] = (cni_wire){-1, type, false};
    if (l->active[i]) out[n++] = grad < 0 ? (cni_wire){-1, type, false} : cni_wire_of(g, g->outputs[grad]);
  }
  for (size_t i = l->ncarried + l->nxs; i < ninputs_of(l); i++) {
    if (f->gradient[i] < 0) continue;
    const cn_graph_value *type = &l->sums[(size_t)l->gradient[i] - l->nactive].type;
    int input, sum = add_sum(g, g->outputs[f->gradient[i]], type, &input);
    if (sum < 0) return sum;
    in[n] = cni_wire_of(g, input);
    out[n++] = cni_wire_of(g, sum);
  }
  return n;
}

/* The inputs of backward that are the node's own: those from first on, n of them. */
static size_t wire_kept(const looped *l, const cni_halves *h, cni_wire *in, size_t first, size_t n)
{
  for (size_t j = 0; j < n; j++) {
    size_t i = 0;
    while (is_row(l, &h->kept[i]) || h->kept[i].index != l->kept[first + j]) i++;
    in[j] = cni_wire_of(h->backward, h->backward->inputs[i]);
  }
  return n;
}

static cn_graph *backward_half(const looped *l, const cni_captured *f, const cni_halves *h, cni_wire *in, cni_wire *out)
{
  cn_graph *g = h->backward;
  size_t seed = h->nkept;
  int carried = wire_carried(l, f, h, in, out);
  if (carried < 0) return NULL;
  size_t n = (size_t)carried, nout = n;
  for (size_t i = 0; i < h->nkept; i++)
    if (is_row(l, &h->kept[i])) in[n++] = cni_wire_of(g, g->inputs[i]);
  n += wire_kept(l, h, in + n, 0, l->nkept_xs);
  for (size_t i = 0; i < l->nresults; i++) {
    if (f->carries[i] && i >= l->ncarried) in[n++] = cni_wire_of(g, g->inputs[seed]);
    seed += f->carries[i];
  }
  n += wire_kept(l, h, in + n, l->nkept_xs, l->nkept_operands);
  for (size_t i = l->ncarried; i < l->ncarried + l->nxs; i++)
    if (f->gradient[i] >= 0) out[nout++] = cni_wire_of(g, g->outputs[f->gradient[i]]);
  return cni_arrange(g, in, n, out, nout);
}

static int arrange(looped *l, const cni_captured *f, const cni_halves *h)
{
  size_t n = ninputs_of(l), most = 3 * n + 2 * l->nresults + h->nkept + 2;
  l->kept = cni_alloc((n + 1) * sizeof *l->kept);
  l->gradient = l->kept ? cni_alloc((n + 1) * sizeof *l->gradient) : NULL;
  l->sums = l->gradient ? cni_alloc((n + 1) * sizeof *l->sums) : NULL;
  cni_wire *wires = l->sums ? cni_alloc(2 * most * sizeof *wires) : NULL;
  int status = wires ? CN_OK : CN_ERR_MEMORY;
  if (wires) {
    note_kept(l, h);
    note_gradients(l, f);
    l->body = forward_half(l, h, wires);
    if (l->body) l->backward = backward_half(l, f, h, wires, wires + most);
    if (!l->backward) status = cn_err();
  }
  cni_free(wires, 2 * most * sizeof *wires);
  return status;
}

/* ---- the call ---- */

typedef struct looking {
  const cni_loop *loop;
  cn_desc *given;   /* of the body's inputs: carried values, rows of xs */
  bool *wants;
  cni_captured body, cond;
} looking;

/* What a step is given: carried values and rows are row-major. */
static void describe(looking *k)
{
  const cni_loop *p = k->loop;
  for (size_t i = 0; i < p->ncarried + p->nxs; i++) {
    int row = i >= p->ncarried;
    cn_desc *d = &k->given[i];
    *d = p->in[i]->d;
    if (row) d->ndim--;
    memmove(d->shape, p->in[i]->d.shape + row, (size_t)d->ndim * sizeof *d->shape);
    cni_contiguous_strides(d->ndim, d->shape, d->strides);
    k->wants[i] = cn_needs_grad(p->in[i]);
  }
}

static int check_body(const looking *k)
{
  const cni_loop *p = k->loop;
  const cn_graph *g = k->body.g;
  if (k->body.nresults < p->ncarried || (p->kind == CNI_CONTROL_WHILE && k->body.nresults != p->ncarried))
    return cni_fail(CN_ERR_VALUE, "%s: it carries %zu values, and a step gives %zu", p->who, p->ncarried,
                    k->body.nresults);
  for (size_t i = 0; i < p->ncarried; i++) {
    cn_graph_value in = cni_type_of(g, g->inputs[i]), out = cni_type_of(g, g->outputs[i]);
    char have[CNI_SHAPE_TEXT], made[CNI_SHAPE_TEXT];
    if (!cni_type_same(&in, &out))
      return cni_fail(CN_ERR_SHAPE, "%s: carried value %zu is %s %s, and a step makes it %s %s", p->who, i,
                      cn_dtype_name(in.dtype), cni_shape_text(have, sizeof have, in.ndim, in.shape),
                      cn_dtype_name(out.dtype), cni_shape_text(made, sizeof made, out.ndim, out.shape));
  }
  return k->body.nresults ? CN_OK : cni_fail(CN_ERR_VALUE, "%s: its function gives no results", p->who);
}

/* Captures a step; again, where it gives a carried value a gradient that was thought to have none. */
static int capture_body(looking *k)
{
  const cni_loop *p = k->loop;
  for (;;) {
    cni_to_capture what = {p->who, p->fn, p->payload, k->given, k->wants, p->ncarried + p->nxs};
    int status = cni_capture_function(&k->body, &what);
    if (!status) status = check_body(k);
    if (status) return status;
    bool more = false;
    for (size_t i = 0; i < p->ncarried; i++) {
      more |= k->body.carries[i] && !k->wants[i];
      k->wants[i] |= k->body.carries[i];
    }
    if (!more) return CN_OK;
    cni_captured_free(&k->body);
  }
}

static int capture_cond(looking *k)
{
  const cni_loop *p = k->loop;
  cni_to_capture what = {p->who, p->cond, p->payload, k->given, NULL, p->ncarried};
  int status = cni_capture_function(&k->cond, &what);
  if (status) return status;
  cn_graph_value v = {.ndim = 0};
  if (k->cond.nresults == 1) v = cni_type_of(k->cond.g, k->cond.g->outputs[0]);
  if (k->cond.nresults != 1 || cni_numel(v.ndim, v.shape) != 1)
    return cni_fail(CN_ERR_SHAPE, "while: its condition must give one result of one element");
  return cni_captured_unite((cni_captured *const[]){&k->cond, &k->body}, 2);
}

/* What is recorded, without a backward; owned. The graphs become its own. */
static looped *looped_new(looking *k)
{
  const cni_loop *p = k->loop;
  const cni_captured *f = &k->body;
  looped *l = cni_alloc_zero(sizeof *l);
  if (!l) return NULL;
  *l = (looped){.kind = p->kind, .who = p->who, .ncarried = p->ncarried, .nxs = p->nxs, .noperands = f->nmet,
                .nresults = f->nresults, .length = p->length, .reverse = p->reverse, .draw = -1};
  l->result = cni_alloc((l->nresults + 1) * sizeof *l->result);
  l->active = l->result ? cni_alloc_zero(l->ncarried + 1) : NULL;
  if (!l->active) {
    looped_free(l);
    return NULL;
  }
  for (size_t i = 0; i < l->nresults; i++) {
    l->result[i] = cni_wire_of(f->g, f->g->outputs[i]);
    bool active = i < l->ncarried && k->wants[i]; /* without a step it is what it was */
    l->result[i].value = f->carries[i] || active ? 0 : -1;
    if (i < l->ncarried) l->active[i] = active;
  }
  l->cond = k->cond.g;
  k->cond.g = NULL;
  return l;
}

static bool any_carries(const looped *l)
{
  for (size_t i = 0; i < l->nresults && !cni_state()->no_grad; i++)
    if (l->result[i].value >= 0) return true;
  return false;
}

/* Splits the body, where its results carry gradients and there is a bound to the steps. */
static int add_backward(looped *l, cni_captured *f)
{
  bool bounded = l->kind != CNI_CONTROL_WHILE || l->length;
  cni_halves h = {.ninputs = ninputs_of(l), .noutputs = l->nresults};
  int status = cni_cut_in_halves(&h, f->g);
  if (!status && bounded) status = arrange(l, f, &h);
  else if (!status) {
    l->body = h.forward; /* with what nobody keeps: it is dropped */
    h.forward = NULL;
    l->body->noutputs = l->nresults;
    if (cn_graph_remove_dead(l->body) < 0) status = cn_err();
  }
  cni_halves_free(&h);
  return status;
}

static int record_loop(cn_tensor **out, looking *k, cn_tensor *const *in)
{
  looped *l = looped_new(k);
  if (!l) return CN_ERR_MEMORY;
  if (any_carries(l)) {
    int status = add_backward(l, &k->body);
    if (!status) return cn_function_apply(out, l->nresults, &loop_function, in, ninputs_of(l), l);
    looped_free(l);
    return status;
  }
  l->body = k->body.g;
  k->body.g = NULL;
  cn_tensor **all = cni_alloc_zero((l->nresults + 1) * sizeof *all);
  int status = all ? record_first(all, l, in) : CN_ERR_MEMORY;
  if (!status) memcpy(out, all, l->nresults * sizeof *out);
  cni_free(all, (l->nresults + 1) * sizeof *all);
  looped_free(l);
  return status;
}

static int capture_and_record(cn_tensor **out, size_t *nout, looking *k)
{
  const cni_loop *p = k->loop;
  size_t given = p->ncarried + p->nxs;
  describe(k);
  int status = capture_body(k);
  if (!status && p->cond) status = capture_cond(k);
  if (!status && k->body.nresults > *nout)
    status = cni_fail(CN_ERR_VALUE, "%s: there are %zu results, and room for %zu", p->who, k->body.nresults, *nout);
  if (status) return status;
  size_t n = given + k->body.nmet;
  cn_tensor **in = cni_alloc_zero((n + 1) * sizeof *in);
  if (!in) return CN_ERR_MEMORY;
  memcpy(in, p->in, given * sizeof *in);
  for (size_t i = 0; i < k->body.nmet && !status; i++) {
    in[given + i] = cni_capturing()->outer ? cni_bring_one_inside(k->body.met[i]) : k->body.met[i];
    if (!in[given + i]) status = cn_err();
  }
  if (!status) status = record_loop(out, k, in);
  if (!status) *nout = k->body.nresults;
  cni_free(in, (n + 1) * sizeof *in);
  return status;
}

int cni_capture_loop(cn_tensor **out, size_t *nout, const cni_loop *loop)
{
  size_t n = loop->ncarried + loop->nxs + 1;
  looking k = {.loop = loop, .given = cni_alloc(n * sizeof(cn_desc))};
  k.wants = k.given ? cni_alloc_zero(n) : NULL;
  int status = k.wants ? capture_and_record(out, nout, &k) : CN_ERR_MEMORY;
  cni_captured_free(&k.body);
  cni_captured_free(&k.cond);
  cni_free(k.given, n * sizeof *k.given);
  cni_free(k.wants, n);
  return status;
}
