/* control_cond.c: cn_cond under capture: a node of two sub-graphs, and its gradient: a node of their backward halves.
 *
 * Place in the flow: control.c -> here -> control_capture.c for each branch; the node is recorded in the forward of a
 * custom function, the backward node in its backward. Both branches hand out room for what either backward needs: what
 * the branch that is not taken would have kept are zeros, which nobody reads. A backward pass that is recorded itself
 * is a branch that does both passes of its function anew. Invariant: both sub-graphs of a node take and give the
 * same types. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "autograd/autograd.h"
#include "control.h"

/* What the custom function needs, forward and backward. */
typedef struct branching {
  cn_graph *forward[2];  /* until the node has them */
  cn_graph *backward[2];
  cni_captured f[2];     /* forward and backward in one, for gradients of gradients */
  cn_tensor **all;       /* while forward runs: the caller's room for all results of the node */
  size_t nresults, noperands;
  size_t nslots;         /* residuals: results of the forward node behind those of the branches */
  int *kept;             /* operands that backward reads */
  size_t nkept;
  cni_wire *carries;     /* per result: value 0 where it carries a gradient, else -1; and its type */
  int *gradient;         /* per operand: which result of the backward node; -1: none */
  size_t ngradients;
  int draw;
} branching;

static void branching_free(void *payload)
{
  branching *b = payload;
  for (int k = 0; k < 2; k++) {
    cn_graph_free(b->forward[k]);
    cn_graph_free(b->backward[k]);
    cni_captured_free(&b->f[k]);
  }
  cni_free(b->kept, (b->noperands + 1) * sizeof *b->kept);
  cni_free(b->carries, (b->nresults + 1) * sizeof *b->carries);
  cni_free(b->gradient, (b->noperands + 1) * sizeof *b->gradient);
  cni_free(b, sizeof *b);
}

/* ---- recording ---- */

/* Takes the sub-graphs over. */
static int record(cn_tensor **out, size_t nout, cn_graph *const *subs, cn_tensor *const *in, size_t noperands, int draw)
{
  const cn_value args[2] = {{CN_V_TENSOR, 1, {0}}, cn_v_tensors(NULL, noperands)};
  cni_control_call k = {.info = cni_control_op(CNI_CONTROL_COND), .args = args, .in = in, .nin = (int)noperands + 1,
                        .nout = (int)nout, .subs = subs, .nsubs = 2, .draw = draw};
  return cni_capture_control(out, cni_capturing(), &k);
}

/* Records the forward node. Random numbers: as many as either branch takes. */
static int record_first(cn_tensor **out, size_t nout, cn_graph *const *subs, cn_tensor *const *in, size_t noperands,
                        int *draw)
{
  int64_t a = cni_graph_draws(subs[0]), b = cni_graph_draws(subs[1]), most = a > b ? a : b;
  *draw = most ? cni_draw_count(cni_capturing(), "cond", (uint64_t)most) : -1;
  if (!cn_err()) return record(out, nout, subs, in, noperands, *draw);
  cn_graph_free(subs[0]);
  cn_graph_free(subs[1]);
  return cn_err();
}

/* ---- the custom function: its results are those that carry gradients ---- */

static int forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  branching *b = cn_context_payload(ctx);
  cni_capture *cap = cni_capturing();
  cn_graph *subs[2] = {b->forward[0], b->forward[1]};
  b->forward[0] = b->forward[1] = NULL;
  cap->own++; /* it is not the program that has switched gradients off */
  int status = record_first(b->all, b->nresults + b->nslots, subs, in, b->noperands, &b->draw);
  cap->own--;
  if (!status) status = cn_context_save(ctx, in, 1); /* the predicate */
  if (!status) status = cn_context_save(ctx, b->all + b->nresults, b->nslots);
  if (!status) status = cn_context_save(ctx, in + 1, b->noperands);
  for (size_t i = 0, n = 0; i < b->nresults && !status; i++)
    if (b->carries[i].value >= 0) out[n++] = b->all[i];
  return status;
}

static int copy_graphs(cn_graph **to, cn_graph *const *from)
{
  for (int k = 0; k < 2; k++)
    if (!(to[k] = cn_graph_copy(from[k]))) {
      if (k) cn_graph_free(to[0]);
      return cn_err();
    }
  return CN_OK;
}

static int saved_operand(cn_tensor **t, cn_context *ctx, const branching *b, size_t i)
{
  *t = cn_context_saved(ctx, 1 + b->nslots + i);
  return *t ? CN_OK : cn_err();
}

/* A gradient for each result that carries one, from in[n] on; returns how many there are then, or an error. */
static int add_seeds(const branching *b, cn_tensor **in, size_t n, cn_tensor *const *grad_out)
{
  for (size_t i = 0, k = 0; i < b->nresults; i++) {
    if (b->carries[i].value < 0) continue;
    cn_tensor *grad = grad_out[k++];
    if (!(in[n++] = grad ? grad : cni_zeros_typed(&b->carries[i].type, -1))) return cn_err();
  }
  return (int)n;
}

/* The predicate, residuals, operands and gradients; how many there are. */
static int backward_inputs(cn_context *ctx, const branching *b, cn_tensor **in, cn_tensor *const *grad_out)
{
  size_t n = 0;
  for (; n <= b->nslots; n++)
    if (!(in[n] = cn_context_saved(ctx, n))) return cn_err();
  for (size_t i = 0; i < b->nkept; i++)
    if (saved_operand(&in[n++], ctx, b, (size_t)b->kept[i])) return cn_err();
  return add_seeds(b, in, n, grad_out);
}

static int record_backward(cn_tensor **out, cn_context *ctx, const branching *b, cn_tensor **in,
                           cn_tensor *const *grad_out)
{
  cn_graph *subs[2];
  int n = backward_inputs(ctx, b, in, grad_out), status = n < 0 ? n : copy_graphs(subs, b->backward);
  return status ? status : record(out, b->ngradients, subs, in, (size_t)n - 1, b->draw);
}

/* ---- a backward pass that is recorded itself ---- */

typedef struct again {
  const branching *b;
  cn_graph *forward[2];
  cn_tensor *const *in; /* operands, then gradients of results that carry some */
} again;

/* From operands and gradients of results to gradients of operands. */
static int pass(cn_tensor **out, size_t *nout, const again *a, int k)
{
  const branching *b = a->b;
  const cni_captured *f = &b->f[k];
  size_t bytes = (b->noperands + b->nresults + 1) * sizeof *out, n = b->noperands;
  cn_tensor **grads = cni_alloc_zero(bytes), **seeds = grads + b->noperands;
  if (!grads) return CN_ERR_MEMORY;
  for (size_t i = 0; i < b->nresults; i++)
    if (b->carries[i].value >= 0) seeds[i] = a->in[n++];
  int status = cni_both_passes(grads, &(cni_passes){a->forward[k], f->gradient, f->carries}, a->in, seeds);
  *nout = b->ngradients;
  for (size_t i = 0; i < b->noperands && !status; i++) {
    if (b->gradient[i] < 0) continue;
    cn_graph_value type = cni_type_of(f->g, f->g->inputs[i]);
    if (!(out[b->gradient[i]] = grads[i] ? grads[i] : cni_zeros_typed(&type, -1))) status = cn_err();
  }
  cni_free(grads, bytes);
  return status;
}

static int pass_first(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)in, (void)nin;
  return pass(out, nout, payload, 0);
}

static int pass_second(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)in, (void)nin;
  return pass(out, nout, payload, 1);
}

/* Random numbers are those of the first time. */
static int branch_again(cn_tensor **out, cn_context *ctx, const branching *b, cn_tensor **in,
                        cn_tensor *const *grad_out)
{
  const cni_capture *cap = cni_capturing();
  again a = {.b = b, .in = in + 1};
  uint64_t seed, offset;
  size_t nout = b->ngradients;
  int status = CN_OK;
  for (int k = 0; k < 2 && !status; k++) {
    status = cni_check_again("cond", b->f[k].g);
    if (!status && !(a.forward[k] = cni_forward_alone(&b->f[k]))) status = cn_err() ? cn_err() : CN_ERR_MEMORY;
  }
  if (!status && !(in[0] = cn_context_saved(ctx, 0))) status = cn_err();
  for (size_t i = 0; i < b->noperands && !status; i++) status = saved_operand(&in[1 + i], ctx, b, i);
  int n = status ? status : add_seeds(b, in, 1 + b->noperands, grad_out);
  if (n >= 0) {
    cn_random_state(&seed, &offset);
    if (b->draw >= 0) cn_random_set_state(cap->seed, cni_draw_begins(cap, b->draw));
    status = cni_capture_cond(out, &nout, in[0], NULL, 0, pass_first, pass_second, &a);
    cn_random_set_state(seed, offset);
  }
  cn_graph_free(a.forward[0]);
  cn_graph_free(a.forward[1]);
  return n < 0 ? n : status;
}

static int backward(cn_context *ctx, cn_tensor **grad_in, cn_tensor *const *grad_out)
{
  const branching *b = cn_context_payload(ctx);
  if (!b->ngradients) return CN_OK;
  size_t nin = 1 + b->nslots + b->noperands + b->nresults, bytes = (nin + b->ngradients + 1) * sizeof *grad_in;
  cn_tensor **in = cni_alloc_zero(bytes), **out = in + nin;
  if (!in) return CN_ERR_MEMORY;
  int status = cni_context_records(ctx) ? branch_again(out, ctx, b, in, grad_out)
                                        : record_backward(out, ctx, b, in, grad_out);
  for (size_t i = 0; i < b->noperands && !status; i++)
    grad_in[1 + i] = b->gradient[i] >= 0 ? out[b->gradient[i]] : NULL;
  cni_free(in, bytes);
  return status;
}

static const cn_function cond_function = {sizeof(cn_function), "cond", forward, backward, branching_free};

/* ---- arranging the halves ---- */

typedef struct arranging {
  branching *b;
  cni_halves h[2];
  int *slot[2];      /* per kept value of that branch: its residual; -1: it is an operand */
  cn_graph_value *types; /* of residuals */
} arranging;

/* Residuals of the same type share a place: one branch alone is taken. */
static void place_residuals(arranging *a)
{
  branching *b = a->b;
  size_t first = 0; /* those of the first branch */
  for (int k = 0; k < 2; k++) {
    const cni_halves *h = &a->h[k];
    for (size_t i = 0; i < h->nkept; i++) {
      a->slot[k][i] = -1;
      if (h->kept[i].from != CNI_KEPT_RESULT) continue;
      cn_graph_value type = cni_type_of(h->forward, h->forward->outputs[h->kept[i].index]);
      size_t s = k ? 0 : b->nslots;
      for (; s < (k ? first : 0); s++) {
        bool taken = false;
        for (size_t j = 0; j < i; j++) taken |= a->slot[k][j] == (int)s;
        if (!taken && cni_type_same(&a->types[s], &type)) break;
      }
      if (s >= (k ? first : 0)) s = b->nslots++;
      a->types[s] = type;
      a->slot[k][i] = (int)s;
    }
    if (!k) first = b->nslots;
  }
}

static void note_kept(branching *b, const cni_halves *h)
{
  for (size_t i = 0; i < h->nkept; i++) {
    bool known = h->kept[i].from != CNI_KEPT_INPUT;
    for (size_t j = 0; j < b->nkept; j++) known |= b->kept[j] == h->kept[i].index;
    if (!known) b->kept[b->nkept++] = h->kept[i].index;
  }
}

/* What carries gradients in either branch does so in both. */
static void note_gradients(arranging *a)
{
  branching *b = a->b;
  for (size_t i = 0; i < b->nresults; i++) {
    b->carries[i] = cni_wire_of(b->f[0].g, b->f[0].g->outputs[i]);
    b->carries[i].value = b->f[0].carries[i] || b->f[1].carries[i] ? 0 : -1;
  }
  for (size_t i = 0; i < b->noperands; i++)
    b->gradient[i] = b->f[0].gradient[i] >= 0 || b->f[1].gradient[i] >= 0 ? (int)b->ngradients++ : -1;
}

static int kept_at(const arranging *a, int k, int slot, int operand)
{
  const cni_halves *h = &a->h[k];
  for (size_t i = 0; i < h->nkept; i++) {
    bool residual = h->kept[i].from == CNI_KEPT_RESULT;
    if (residual ? a->slot[k][i] == slot && slot >= 0 : h->kept[i].index == operand) return (int)i;
  }
  return -1;
}

/* Results, then a value for each residual. */
static cn_graph *forward_half(const arranging *a, int k, cni_wire *wires)
{
  const branching *b = a->b;
  cn_graph *g = a->h[k].forward;
  cni_wire *out = wires + g->ninputs;
  for (size_t i = 0; i < g->ninputs; i++) wires[i] = cni_wire_of(g, g->inputs[i]);
  for (size_t i = 0; i < b->nresults; i++) out[i] = cni_wire_of(g, g->outputs[i]);
  for (size_t s = 0; s < b->nslots; s++) {
    int at = kept_at(a, k, (int)s, -1);
    out[b->nresults + s] = at < 0 ? (cni_wire){-1, a->types[s], false}
                                  : cni_wire_of(g, g->outputs[a->h[k].kept[at].index]);
  }
  return cni_arrange(g, wires, g->ninputs, out, b->nresults + b->nslots);
}

/* Stands for operand i where a branch has no use for it, or gives it no gradient. */
static cni_wire stand_in(const cn_graph *whole, size_t i)
{
  int value = whole->inputs[i];
  return (cni_wire){-1, cni_type_of(whole, value), whole->values[value].weak};
}

/* From residuals, operands and gradients of results to gradients of operands. */
static cn_graph *backward_half(const arranging *a, int k, cni_wire *wires)
{
  const branching *b = a->b;
  cn_graph *g = a->h[k].backward;
  const cn_graph *whole = b->f[k].g;
  size_t n = 0, nout = 0, seed = a->h[k].nkept;
  for (size_t s = 0; s < b->nslots; s++) {
    int at = kept_at(a, k, (int)s, -1);
    wires[n++] = at < 0 ? (cni_wire){-1, a->types[s], false} : cni_wire_of(g, g->inputs[at]);
  }
  for (size_t i = 0; i < b->nkept; i++) {
    int at = kept_at(a, k, -1, b->kept[i]);
    wires[n++] = at < 0 ? stand_in(whole, (size_t)b->kept[i]) : cni_wire_of(g, g->inputs[at]);
  }
  for (size_t i = 0; i < b->nresults; i++)
    if (b->carries[i].value >= 0)
      wires[n++] = b->f[k].carries[i] ? cni_wire_of(g, g->inputs[seed++]) : (cni_wire){-1, b->carries[i].type, false};
  cni_wire *out = wires + n;
  for (size_t i = 0; i < b->noperands; i++) {
    int grad = b->f[k].gradient[i];
    if (b->gradient[i] < 0) continue;
    out[nout++] = grad < 0 ? stand_in(whole, i) : cni_wire_of(g, g->outputs[grad]);
  }
  return cni_arrange(g, wires, n, out, nout);
}

static int arrange(arranging *a)
{
  branching *b = a->b;
  size_t most = a->h[0].nkept + a->h[1].nkept;
  b->kept = cni_alloc((b->noperands + 1) * sizeof *b->kept);
  b->carries = b->kept ? cni_alloc((b->nresults + 1) * sizeof *b->carries) : NULL;
  b->gradient = b->carries ? cni_alloc((b->noperands + 1) * sizeof *b->gradient) : NULL;
  int *slots = b->gradient ? cni_alloc((most + 1) * sizeof *slots) : NULL;
  a->types = slots ? cni_alloc((most + 1) * sizeof *a->types) : NULL;
  size_t nwires = 2 * b->noperands + 2 * b->nresults + 2 * most + 1;
  cni_wire *wires = a->types ? cni_alloc(nwires * sizeof *wires) : NULL;
  int status = wires ? CN_OK : CN_ERR_MEMORY;
  if (wires) {
    a->slot[0] = slots;
    a->slot[1] = slots + a->h[0].nkept;
    note_kept(b, &a->h[0]);
    note_kept(b, &a->h[1]);
    note_gradients(a);
    place_residuals(a);
  }
  for (int k = 0; k < 2 && !status; k++) {
    if (!(b->forward[k] = forward_half(a, k, wires))) status = cn_err();
    else if (!(b->backward[k] = backward_half(a, k, wires))) status = cn_err();
  }
  cni_free(wires, nwires * sizeof *wires);
  cni_free(a->types, (most + 1) * sizeof *a->types);
  cni_free(slots, (most + 1) * sizeof *slots);
  return status;
}

/* Splits both branches, which become its own; owned, NULL with the error set. */
static branching *prepare(cni_captured *f)
{
  branching *b = cni_alloc_zero(sizeof *b);
  if (!b) return NULL;
  b->draw = -1;
  b->nresults = f[0].nresults;
  b->noperands = f[0].ngiven + f[0].nmet;
  arranging a = {.b = b};
  int status = CN_OK;
  for (int k = 0; k < 2; k++) {
    b->f[k] = f[k];
    f[k] = (cni_captured){.g = NULL};
  }
  for (int k = 0; k < 2 && !status; k++) {
    a.h[k] = (cni_halves){.ninputs = b->noperands, .noutputs = b->nresults};
    status = cni_cut_in_halves(&a.h[k], b->f[k].g);
  }
  if (!status) status = arrange(&a);
  for (int k = 0; k < 2; k++) cni_halves_free(&a.h[k]);
  if (!status) return b;
  branching_free(b);
  return NULL;
}

/* ---- the call ---- */

/* nstates: results in front of the functions' own. */
static int check_branches(const cni_captured *f, size_t nstates)
{
  size_t n = f[0].nresults - nstates;
  if (f[0].nresults != f[1].nresults)
    return cni_fail(CN_ERR_VALUE, "cond: true_fn gives %zu results, false_fn %zu", n, f[1].nresults - nstates);
  for (size_t i = 0; i < n; i++) {
    cn_graph_value a = cni_type_of(f[0].g, f[0].g->outputs[nstates + i]);
    cn_graph_value b = cni_type_of(f[1].g, f[1].g->outputs[nstates + i]);
    char have[CNI_SHAPE_TEXT], other[CNI_SHAPE_TEXT];
    if (!cni_type_same(&a, &b))
      return cni_fail(CN_ERR_SHAPE, "cond: result %zu is %s %s of true_fn, and %s %s of false_fn", i,
                      cn_dtype_name(a.dtype), cni_shape_text(have, sizeof have, a.ndim, a.shape),
                      cn_dtype_name(b.dtype), cni_shape_text(other, sizeof other, b.ndim, b.shape));
  }
  return f[0].nresults ? CN_OK : cni_fail(CN_ERR_VALUE, "cond: its functions give no results");
}

static bool any(const bool *flags, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (flags[i]) return true;
  return false;
}

/* As a custom function. out: all results of the functions. */
static int record_function(cn_tensor **out, cni_captured *f, cn_tensor *const *in)
{
  branching *b = prepare(f);
  if (!b) return cn_err();
  size_t n = b->nresults, ncarry = 0, bytes = (2 * n + b->nslots) * sizeof *out;
  cn_tensor **all = cni_alloc_zero(bytes), **carry = all + n + b->nslots;
  int *at = all ? cni_alloc(n * sizeof *at) : NULL; /* b may be gone behind the call */
  if (!at) {
    cni_free(all, bytes);
    branching_free(b);
    return CN_ERR_MEMORY;
  }
  for (size_t i = 0; i < n; i++)
    if (b->carries[i].value >= 0) at[ncarry++] = (int)i;
  b->all = all;
  int status = cni_function_apply(carry, ncarry, &cond_function, in, b->noperands + 1, b, true);
  for (size_t i = 0; i < ncarry; i++) all[at[i]] = carry[i];
  memcpy(out, all, n * sizeof *out);
  cni_free(at, n * sizeof *at);
  cni_free(all, bytes);
  return status;
}

/* in: the predicate, memories that are written to, and what the functions met. */
static int record_node(cn_tensor **out, cni_captured *f, cn_tensor *const *in)
{
  size_t n = f[0].nresults;
  if (any(f[0].carries, n) || any(f[1].carries, n)) return record_function(out, f, in);
  cn_graph *subs[2] = {f[0].g, f[1].g};
  f[0].g = f[1].g = NULL;
  int draw;
  return record_first(out, n, subs, in, f[0].ngiven + f[0].nmet, &draw);
}

typedef struct choosing {
  cn_control_fn fn[2];
  void *payload;
  cn_tensor *const *operands;
  size_t noperands;
  cni_captured f[2];
  cni_states states;
} choosing;

static int capture_branches(choosing *c)
{
  static const bool nothing;
  const cni_states *s = &c->states;
  cn_desc *given = cni_alloc((s->n + 1) * sizeof *given);
  int status = given ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; given && i < s->n; i++) {
    given[i] = s->v[i]->d;
    if (!cni_is_dense(given[i].ndim, given[i].shape, given[i].strides))
      cni_contiguous_strides(given[i].ndim, given[i].shape, given[i].strides);
  }
  for (int k = 0; k < 2 && !status; k++) {
    cni_to_capture what = {.who = "cond", .fn = c->fn[k], .payload = c->payload, .given = given, .ngiven = s->n,
                           .wants = s->n ? s->wants : &nothing, .memory = s->v, .operands = c->operands,
                           .noperands = c->noperands};
    status = cni_capture_function(&c->f[k], &what);
  }
  cni_free(given, (s->n + 1) * sizeof *given);
  return status;
}

/* Both functions, again and again until all memories are known that they write to. */
static int capture_all(choosing *c)
{
  for (;;) {
    int status = capture_branches(c), more = status ? status : cni_states_add(&c->states, &c->f[0]);
    int others = more < 0 ? more : cni_states_add(&c->states, &c->f[1]);
    if (others < 0) return others;
    if (!more && !others) {
      if ((status = check_branches(c->f, c->states.n))) return status;
      bool wider = cni_states_widen(&c->states, c->f[0].carries);
      wider |= cni_states_widen(&c->states, c->f[1].carries);
      if (!wider) return cni_captured_unite((cni_captured *const[]){&c->f[0], &c->f[1]}, 2);
    }
    cni_captured_free(&c->f[0]);
    cni_captured_free(&c->f[1]);
  }
}

/* What was met may be from outside of this capture, too; what will be written to is kept as it is now. */
static int record_cond(cn_tensor **out, choosing *c, cn_tensor *pred, cn_tensor **in)
{
  size_t n = 0;
  in[n++] = pred;
  for (size_t i = 0; i < c->states.n; i++)
    if (!(in[n++] = cn_clone(c->states.v[i]))) return cn_err();
  for (size_t i = 0; i < c->f[0].nmet; i++)
    if (!(in[n++] = cni_capturing()->outer ? cni_bring_one_inside(c->f[0].met[i]) : c->f[0].met[i])) return cn_err();
  int status = record_node(out, c->f, in);
  return status ? status : cni_states_write(&c->states, out);
}

int cni_capture_cond(cn_tensor **out, size_t *nout, cn_tensor *pred, cn_tensor *const *operands, size_t noperands,
                     cn_control_fn true_fn, cn_control_fn false_fn, void *payload)
{
  choosing c = {.fn = {true_fn, false_fn}, .payload = payload, .operands = operands, .noperands = noperands};
  int status = capture_all(&c);
  size_t n = status ? 0 : c.f[0].nresults - c.states.n, nin = 1 + c.states.n + (status ? 0 : c.f[0].nmet);
  if (n > *nout) status = cni_fail(CN_ERR_VALUE, "cond: there are %zu results, and room for %zu", n, *nout);
  size_t bytes = (nin + c.states.n + n + 1) * sizeof *out;
  cn_tensor **in = status ? NULL : cni_alloc_zero(bytes), **all = in + nin;
  if (!status) status = in ? record_cond(all, &c, pred, in) : CN_ERR_MEMORY;
  if (!status) {
    memcpy(out, all + c.states.n, n * sizeof *out);
    *nout = n;
  }
  cni_free(in, bytes);
  cni_captured_free(&c.f[0]);
  cni_captured_free(&c.f[1]);
  cni_states_free(&c.states);
  return status;
}
