/* control_loop_grad.c: gradients of loops in graphs: a scan over the steps from the last to the first.
 *
 * Place in the flow: control_loop.c has captured a step with its backward; here it is cut in halves, the node is
 * recorded in the forward of a custom function, and its backward node in the backward. What a step's backward needs of
 * its forward, the values it was given to carry among it, are further rows of the forward node. Backward carries the
 * gradients of carried values, and the sums of operands' gradients, which begin as -0.0, so that the first one added
 * stays what it is, as in eager; as 0.0 where there is no step. A backward pass that is recorded itself is two loops
 * that programs could have written: one that gives what each step was given to carry, and one over steps that do both
 * passes. Invariant: gradients come in the order of the node's inputs: carried values, sums, rows of xs. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "autograd/autograd.h"
#include "control_loop.h"

typedef cni_looped looped;

/* ---- the graph of one step backward ---- */

/* Is a kept value a row of forward: a result, or a carried value as the step got it? */
static bool is_row(const looped *l, const cni_kept *k)
{
  return k->from == CNI_KEPT_RESULT || (size_t)k->index < l->ncarried;
}

static bool is_x(const looped *l, size_t input) { return input >= l->ncarried && input < l->ncarried + l->nxs; }

/* Are the gradients of its steps added up: an operand, or a leaf that steps write to? */
static bool is_sum(const looped *l, size_t i)
{
  return l->f.gradient[i] >= 0 && !is_x(l, i) && !(i < l->ncarried && l->active[i]);
}

static void note_kept(looped *l, const cni_halves *h)
{
  for (int operands = 0; operands < 2; operands++)
    for (size_t i = 0; i < h->nkept; i++) {
      const cni_kept *k = &h->kept[i];
      if (is_row(l, k)) l->nrows += !operands;
      else if (is_x(l, (size_t)k->index) == !operands) {
        l->kept[l->nkept_xs + l->nkept_operands] = k->index;
        *(operands ? &l->nkept_operands : &l->nkept_xs) += 1;
      }
    }
}

/* Which inputs get gradients, and where they stand among the results of backward. */
static void note_gradients(looped *l)
{
  size_t n = cni_looped_inputs(l);
  for (size_t i = 0; i < n; i++) l->gradient[i] = i < l->ncarried && l->active[i] ? (int)l->nactive++ : -1;
  for (size_t i = 0; i < n; i++) {
    if (!is_sum(l, i)) continue;
    l->gradient[i] = (int)(l->nactive + l->nsums);
    l->sums[l->nsums++] = cni_wire_of(l->f.g, l->f.g->inputs[i]);
  }
  l->ngradients = l->nactive + l->nsums;
  for (size_t i = 0; i < n; i++)
    if (is_x(l, i) && l->f.gradient[i] >= 0) l->gradient[i] = (int)l->ngradients++;
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
static int wire_carried(const looped *l, const cni_halves *h, cni_wire *in, cni_wire *out)
{
  cn_graph *g = h->backward;
  int n = 0;
  size_t seed = h->nkept;
  for (size_t i = 0; i < l->ncarried; i++) {
    const cni_wire none = {-1, l->result[i].type, false};
    int grad = l->f.gradient[i];
    if (l->f.carries[i]) in[n] = cni_wire_of(g, g->inputs[seed++]);
    else if (l->active[i]) in[n] = none;
    if (l->active[i]) out[n++] = grad < 0 ? none : cni_wire_of(g, g->outputs[grad]);
  }
  for (size_t i = 0; i < cni_looped_inputs(l); i++) {
    if (!is_sum(l, i)) continue;
    const cn_graph_value *type = &l->sums[(size_t)l->gradient[i] - l->nactive].type;
    int input, sum = add_sum(g, g->outputs[l->f.gradient[i]], type, &input);
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

/* From (gradients of carried values, sums; rows, xs, gradients of ys; operands) to (gradients, sums; gradients of xs).
 * in, out: room for wires. Owned; NULL with the error set. */
static cn_graph *backward_half(const looped *l, const cni_halves *h, cni_wire *in, cni_wire *out)
{
  cn_graph *g = h->backward;
  int carried = wire_carried(l, h, in, out);
  if (carried < 0) return NULL;
  size_t n = (size_t)carried, nout = n, seed = h->nkept;
  for (size_t i = 0; i < h->nkept; i++)
    if (is_row(l, &h->kept[i])) in[n++] = cni_wire_of(g, g->inputs[i]);
  n += wire_kept(l, h, in + n, 0, l->nkept_xs);
  for (size_t i = 0; i < l->nresults; i++) {
    if (l->f.carries[i] && i >= l->ncarried) in[n++] = cni_wire_of(g, g->inputs[seed]);
    seed += l->f.carries[i];
  }
  n += wire_kept(l, h, in + n, l->nkept_xs, l->nkept_operands);
  for (size_t i = l->ncarried; i < l->ncarried + l->nxs; i++)
    if (l->f.gradient[i] >= 0) out[nout++] = cni_wire_of(g, g->outputs[l->f.gradient[i]]);
  return cni_arrange(g, in, n, out, nout);
}

static int arrange(looped *l, const cni_halves *h)
{
  size_t n = cni_looped_inputs(l), most = 3 * n + 2 * l->nresults + h->nkept + 2;
  l->kept = cni_alloc((n + 1) * sizeof *l->kept);
  l->gradient = l->kept ? cni_alloc((n + 1) * sizeof *l->gradient) : NULL;
  l->sums = l->gradient ? cni_alloc((n + 1) * sizeof *l->sums) : NULL;
  cni_wire *wires = l->sums ? cni_alloc(2 * most * sizeof *wires) : NULL;
  int status = wires ? CN_OK : CN_ERR_MEMORY;
  if (wires) {
    note_kept(l, h);
    note_gradients(l);
    l->body = forward_half(l, h, wires);
    if (l->body) l->backward = backward_half(l, h, wires, wires + most);
    if (!l->backward) status = cn_err();
  }
  cni_free(wires, 2 * most * sizeof *wires);
  return status;
}

int cni_loop_add_backward(looped *l, cni_captured *step)
{
  bool bounded = l->kind != CNI_CONTROL_WHILE || l->length;
  cni_halves h = {.ninputs = cni_looped_inputs(l), .noutputs = l->nresults};
  l->f = *step;
  *step = (cni_captured){.g = NULL};
  int status = cni_cut_in_halves(&h, l->f.g);
  if (!status && bounded) status = arrange(l, &h);
  else if (!status) {
    l->body = h.forward; /* with what nobody keeps: it is dropped */
    h.forward = NULL;
    l->body->noutputs = l->nresults;
    if (cn_graph_remove_dead(l->body) < 0) status = cn_err();
  }
  cni_halves_free(&h);
  return status;
}

/* ---- forward: saves rows, how many steps there were, and inputs ---- */

static int save(cn_context *ctx, const looped *l, cn_tensor *const *in)
{
  size_t count = l->nresults + l->nrows;
  int status = cn_context_save(ctx, l->all + l->nresults, l->nrows);
  if (!status && l->has_steps) status = cn_context_save(ctx, l->steps ? &l->steps : &l->all[count], 1);
  return status ? status : cn_context_save(ctx, in, cni_looped_inputs(l));
}

static int forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  looped *l = cn_context_payload(ctx);
  cni_capture *cap = cni_capturing();
  size_t n = cni_looped_inputs(l), bytes = (n + 1) * sizeof *out;
  cn_tensor **given = cni_alloc(bytes);
  if (!given) return CN_ERR_MEMORY;
  memcpy(given, in, n * sizeof *given);
  given[n] = l->steps;
  cap->own++; /* it is not the program that has switched gradients off */
  int status = cni_record_loop(l->all, l, given);
  cap->own--;
  if (!status && l->backward) status = save(ctx, l, in);
  for (size_t i = 0, k = 0; i < l->nresults && !status; i++)
    if (l->result[i].value >= 0) out[k++] = l->all[i];
  cni_free(given, bytes);
  return status;
}

/* ---- backward ---- */

typedef struct walking {
  cn_context *ctx;
  const looped *l;
  cn_tensor *const *grad_out;
  cn_tensor **in, **out; /* room: of the backward node */
} walking;

static cn_tensor *saved_steps(const walking *w)
{
  return w->l->has_steps ? cn_context_saved(w->ctx, w->l->nrows) : NULL;
}

static cn_tensor *saved_input(const walking *w, size_t i)
{
  return cn_context_saved(w->ctx, w->l->nrows + w->l->has_steps + i);
}

/* The gradient of result i; zeros where none came, or none can. Borrowed; NULL with the error set. */
static cn_tensor *gradient_of(const walking *w, size_t i)
{
  const looped *l = w->l;
  size_t k = 0;
  for (size_t j = 0; j < i; j++) k += l->result[j].value >= 0;
  if (w->grad_out[k]) return w->grad_out[k];
  return cni_zeros_typed(&l->result[i].type, i < l->ncarried ? -1 : l->length);
}

/* What a sum of gradients begins with. How many steps there are may be known when the graph runs. */
static cn_tensor *begin_sum(const walking *w, const cn_graph_value *t)
{
  cn_full_opts o = {.size = sizeof o, .dtype = t->dtype, .device = t->device}, count = o;
  count.dtype = CN_I64;
  cn_tensor *steps = saved_steps(w);
  if (!steps) steps = cn_full_with(NULL, 0, (double)w->l->length, &count);
  cn_tensor *minus = cn_full_with(t->shape, (size_t)t->ndim, -0.0, &o), *zero = cn_full_with(NULL, 0, 0.0, &o);
  return cn_where(cn_gt(steps, cn_int(0)), minus, zero);
}

/* Gradients of carried values, and what sums begin with, to in; how many, or an error. */
static int begin_carried(const walking *w)
{
  const looped *l = w->l;
  int n = 0;
  for (size_t i = 0; i < l->ncarried; i++)
    if (l->active[i] && !(w->in[n++] = gradient_of(w, i))) return cn_err();
  for (size_t i = 0; i < l->nsums; i++)
    if (!(w->in[n++] = begin_sum(w, &l->sums[i].type))) return cn_err();
  return n;
}

/* Gradients of ys from in[n] on; how many there are then, or an error. */
static int add_ys(const walking *w, int n)
{
  for (size_t i = w->l->ncarried; i < w->l->nresults; i++)
    if (w->l->result[i].value >= 0 && !(w->in[n++] = gradient_of(w, i))) return cn_err();
  return n;
}

/* Carried: gradients of carried values, sums; then rows of forward, xs and gradients of ys; then operands. counts: how
 * many of each. */
static int backward_inputs(const walking *w, size_t *counts)
{
  const looped *l = w->l;
  int n = begin_carried(w), carried = n;
  if (n < 0) return n;
  for (size_t i = 0; i < l->nrows; i++)
    if (!(w->in[n++] = cn_context_saved(w->ctx, i))) return cn_err();
  for (size_t i = 0; i < l->nkept_xs; i++)
    if (!(w->in[n++] = saved_input(w, (size_t)l->kept[i]))) return cn_err();
  if ((n = add_ys(w, n)) < 0) return n;
  counts[0] = (size_t)carried;
  counts[1] = (size_t)(n - carried);
  counts[2] = l->nkept_operands;
  for (size_t i = 0; i < counts[2]; i++)
    if (!(w->in[n++] = saved_input(w, (size_t)l->kept[l->nkept_xs + i]))) return cn_err();
  w->in[n] = saved_steps(w);
  return cn_err();
}

static int record_backward(const walking *w)
{
  const looped *l = w->l;
  size_t counts[3];
  int status = backward_inputs(w, counts);
  cn_graph *body = status ? NULL : cn_graph_copy(l->backward);
  if (!body) return cn_err();
  if (l->kind == CNI_CONTROL_MAP && !counts[0] && l->draw < 0)
    return cni_record_map(w->out, l->ngradients, body, w->in, counts[1], counts[2], l);
  return cni_record_scan(w->out, l->ngradients, body, w->in, counts, l, true);
}

/* ---- a backward pass that is recorded itself ---- */

typedef struct again {
  const looped *l;
  const cn_graph *forward; /* one step */
  cn_tensor **saved; /* the node's inputs */
  cn_tensor **rows;  /* what each step was given to carry */
} again;

/* A step whose rows are what it is given to carry. */
static int pass_on(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const again *a = payload;
  const looped *l = a->l;
  cn_graph *const g = (cn_graph *)(uintptr_t)a->forward;
  cni_graphs p = {&g, a->saved + nin, l->noperands, {.size = sizeof p.opts}};
  int status = cni_replay_first(out, nout, in, nin, &p);
  memcpy(out + l->ncarried, in, l->ncarried * sizeof *out);
  *nout = 2 * l->ncarried;
  return status;
}

/* Gradients of one step to where the results of backward are. carried: gradients and sums so far. */
static int add_up(cn_tensor **out, const looped *l, cn_tensor *const *grads, cn_tensor *const *carried)
{
  for (size_t i = 0; i < cni_looped_inputs(l); i++) {
    int at = l->gradient[i];
    if (at < 0) continue;
    out[at] = is_sum(l, i) ? cn_add_with(carried[at], grads[i], NULL)
            : grads[i] ? grads[i] : cni_zeros_typed(&l->result[i].type, -1);
    if (!out[at]) return cn_err();
  }
  return CN_OK;
}

/* Both passes of a step. in: gradients of carried values and sums; what it carried, its xs, gradients of ys. */
static int pass_back(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const again *a = payload;
  const looped *l = a->l;
  size_t n = cni_looped_inputs(l), first = l->nactive + l->nsums, own = l->ncarried + l->nxs, y = first + own;
  size_t bytes = (2 * n + l->nresults + 1) * sizeof *out, carried = 0;
  cn_tensor **given = cni_alloc_zero(bytes), **grads = given + n, **seeds = grads + n;
  (void)nin;
  if (!given) return CN_ERR_MEMORY;
  memcpy(given, in + first, own * sizeof *given);
  memcpy(given + own, a->saved + own, l->noperands * sizeof *given);
  for (size_t i = 0; i < l->nresults; i++) {
    bool active = i < l->ncarried && l->active[i];
    if (active) seeds[i] = in[carried++];
    if (i >= l->ncarried && l->result[i].value >= 0) seeds[i] = in[y++];
  }
  int status = cni_both_passes(grads, &(cni_passes){a->forward, l->f.gradient, l->f.carries}, given, seeds);
  if (!status) status = add_up(out, l, grads, in);
  *nout = l->ngradients;
  cni_free(given, bytes);
  return status;
}

static cni_loop loop_of(const walking *w, again *a, cn_control_fn fn)
{
  const looped *l = w->l;
  return (cni_loop){.kind = CNI_CONTROL_SCAN, .who = l->who, .fn = fn, .payload = a, .length = l->length,
                    .steps = saved_steps(w), .ncarried = l->ncarried, .nxs = l->nxs, .in = a->saved,
                    .reverse = l->reverse, .countdown = l->countdown};
}

/* Forward once more, for a->rows. */
static int forward_again(const walking *w, again *a)
{
  size_t n = w->l->ncarried, nout = 2 * n;
  cni_loop loop = loop_of(w, a, pass_on);
  int status = cni_capture_loop(w->out, &nout, &loop);
  if (!status) memcpy(a->rows, w->out + n, n * sizeof *a->rows);
  return status;
}

static int backward_again(const walking *w, again *a)
{
  const looped *l = w->l;
  int n = begin_carried(w), carried = n;
  if (n < 0) return n;
  memcpy(w->in + n, a->rows, l->ncarried * sizeof *w->in);
  memcpy(w->in + n + l->ncarried, a->saved + l->ncarried, l->nxs * sizeof *w->in);
  if ((n = add_ys(w, n + (int)(l->ncarried + l->nxs))) < 0) return n;
  cni_loop loop = loop_of(w, a, pass_back);
  size_t nout = l->ngradients;
  loop.in = w->in;
  loop.ncarried = (size_t)carried;
  loop.nxs = (size_t)(n - carried);
  loop.reverse = !l->reverse;
  loop.countdown = !l->countdown;
  return cni_capture_loop(w->out, &nout, &loop);
}

/* Random numbers are those of the first time. */
static int loops_again(const walking *w)
{
  const looped *l = w->l;
  const cni_capture *cap = cni_capturing();
  size_t n = cni_looped_inputs(l), bytes = (n + l->ncarried + 1) * sizeof(cn_tensor *);
  cn_tensor **saved = cni_alloc_zero(bytes);
  if (!saved) return CN_ERR_MEMORY;
  cn_graph *forward = NULL;
  uint64_t seed, offset;
  int status = cni_check_again(l->who, l->f.g);
  if (!status && !(forward = cni_forward_alone(&l->f))) status = cn_err() ? cn_err() : CN_ERR_MEMORY;
  again a = {l, forward, saved, saved + n};
  for (size_t i = 0; i < n && !status; i++)
    if (!(saved[i] = saved_input(w, i))) status = cn_err();
  cn_random_state(&seed, &offset);
  uint64_t first = l->draw >= 0 ? cni_draw_begins(cap, l->draw) : offset;
  cn_random_set_state(cap->seed, first);
  if (!status && l->ncarried) status = forward_again(w, &a);
  cn_random_set_state(cap->seed, first);
  if (!status) status = backward_again(w, &a);
  cn_random_set_state(seed, offset);
  cn_graph_free(forward);
  cni_free(saved, bytes);
  return status;
}

static int backward(cn_context *ctx, cn_tensor **grad_in, cn_tensor *const *grad_out)
{
  const looped *l = cn_context_payload(ctx);
  if (!l->backward && l->kind == CNI_CONTROL_WHILE)
    return cni_fail(CN_ERR_CAPTURE, "while: gradients of a loop in a graph need .max_steps");
  if (!l->ngradients) return CN_OK;
  size_t n = cni_looped_inputs(l), most = 3 * n + l->nresults + l->nrows + 2;
  size_t bytes = (most + l->ngradients + 2 * l->ncarried) * sizeof *grad_in;
  walking w = {ctx, l, grad_out, cni_alloc_zero(bytes), NULL};
  if (!w.in) return CN_ERR_MEMORY;
  w.out = w.in + most;
  int status = cni_context_records(ctx) ? loops_again(&w) : record_backward(&w);
  for (size_t i = 0; i < n && !status; i++) grad_in[i] = l->gradient[i] >= 0 ? w.out[l->gradient[i]] : NULL;
  cni_free(w.in, bytes);
  return status;
}

static void free_payload(void *payload) { cni_looped_free(payload); }

static const cn_function loop_function = {sizeof(cn_function), "loop", forward, backward, free_payload};

/* Results of the custom function are those that carry gradients. */
int cni_loop_apply(cn_tensor **all, looped *l, cn_tensor *const *in)
{
  size_t n = 0, bytes = l->nresults * (sizeof(cn_tensor *) + sizeof(int));
  cn_tensor **carry = cni_alloc_zero(bytes);
  int *at = (int *)(carry + l->nresults); /* the loop may be gone behind the call */
  if (!carry) {
    cni_looped_free(l);
    return CN_ERR_MEMORY;
  }
  for (size_t i = 0; i < l->nresults; i++)
    if (l->result[i].value >= 0) at[n++] = (int)i;
  l->all = all;
  int status = cni_function_apply(carry, n, &loop_function, in, cni_looped_inputs(l), l, true);
  for (size_t i = 0; i < n && !status; i++) all[at[i]] = carry[i];
  cni_free(carry, bytes);
  return status;
}
