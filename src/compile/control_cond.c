/* control_cond.c: cn_cond under capture: a node of two sub-graphs, and its gradient: a node of their backward halves.
 *
 * Place in the flow: control.c -> here -> control_capture.c for each branch; the node is recorded in the forward of a
 * custom function, the backward node in its backward. Both branches hand out room for what either backward needs: what
 * the branch that is not taken would have kept are zeros, which nobody reads. Invariant: both sub-graphs of a node take
 * and give the same types. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "autograd/autograd.h"
#include "control.h"

/* What the custom function needs, forward and backward. */
typedef struct branching {
  cn_graph *forward[2];  /* until the node has them */
  cn_graph *backward[2];
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

static int forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  branching *b = cn_context_payload(ctx);
  size_t n = b->nresults + b->nslots, bytes = (n + 1) * sizeof *out;
  cn_tensor **all = cni_alloc_zero(bytes);
  if (!all) return CN_ERR_MEMORY;
  cn_graph *subs[2] = {b->forward[0], b->forward[1]};
  b->forward[0] = b->forward[1] = NULL;
  int status = record_first(all, n, subs, in, b->noperands, &b->draw);
  if (!status) status = cn_context_save(ctx, in, 1); /* the predicate */
  if (!status) status = cn_context_save(ctx, all + b->nresults, b->nslots);
  for (size_t i = 0; i < b->nkept && !status; i++) status = cn_context_save(ctx, &in[1 + b->kept[i]], 1);
  for (size_t i = 0; i < b->nresults && !status; i++) {
    out[i] = all[i];
    if (b->carries[i].value < 0) status = cn_context_mark_non_differentiable(ctx, i);
  }
  cni_free(all, bytes);
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

static int backward_inputs(cn_context *ctx, const branching *b, cn_tensor **in, cn_tensor *const *grad_out)
{
  size_t n = 0, saved = 1 + b->nslots + b->nkept;
  for (; n < saved; n++)
    if (!(in[n] = cn_context_saved(ctx, n))) return cn_err();
  for (size_t i = 0; i < b->nresults; i++) {
    if (b->carries[i].value < 0) continue;
    in[n] = grad_out[i] ? grad_out[i] : cni_zeros_typed(&b->carries[i].type, -1);
    if (!in[n++]) return cn_err();
  }
  return CN_OK;
}

static int backward(cn_context *ctx, cn_tensor **grad_in, cn_tensor *const *grad_out)
{
  const branching *b = cn_context_payload(ctx);
  if (cni_context_records(ctx))
    return cni_fail(CN_ERR_UNSUPPORTED, "cond: gradients of gradients do not go through it while a graph is captured");
  if (!b->ngradients) return CN_OK;
  size_t nin = 1 + b->nslots + b->nkept + b->nresults, bytes = (nin + b->ngradients + 1) * sizeof *grad_in;
  cn_tensor **in = cni_alloc_zero(bytes), **out = in + nin;
  int status = in ? backward_inputs(ctx, b, in, grad_out) : CN_ERR_MEMORY;
  cn_graph *subs[2];
  size_t noperands = 0;
  while (!status && noperands + 1 < nin && in[noperands + 1]) noperands++;
  if (!status) status = copy_graphs(subs, b->backward);
  if (!status) status = record(out, b->ngradients, subs, in, noperands, b->draw);
  for (size_t i = 0; i < b->noperands && !status; i++)
    grad_in[1 + i] = b->gradient[i] >= 0 ? out[b->gradient[i]] : NULL;
  cni_free(in, bytes);
  return status;
}

static const cn_function cond_function = {sizeof(cn_function), "cond", forward, backward, branching_free};

/* ---- arranging the halves ---- */

typedef struct arranging {
  branching *b;
  cni_captured *f;   /* two */
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
    b->carries[i] = cni_wire_of(a->f[0].g, a->f[0].g->outputs[i]);
    b->carries[i].value = a->f[0].carries[i] || a->f[1].carries[i] ? 0 : -1;
  }
  for (size_t i = 0; i < b->noperands; i++)
    b->gradient[i] = a->f[0].gradient[i] >= 0 || a->f[1].gradient[i] >= 0 ? (int)b->ngradients++ : -1;
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
  const cn_graph *whole = a->f[k].g;
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
      wires[n++] = a->f[k].carries[i] ? cni_wire_of(g, g->inputs[seed++]) : (cni_wire){-1, b->carries[i].type, false};
  cni_wire *out = wires + n;
  for (size_t i = 0; i < b->noperands; i++) {
    int grad = a->f[k].gradient[i];
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

/* Splits both branches; owned, NULL with the error set. */
static branching *prepare(cni_captured *f)
{
  branching *b = cni_alloc_zero(sizeof *b);
  if (!b) return NULL;
  b->draw = -1;
  b->nresults = f[0].nresults;
  b->noperands = f[0].ngiven + f[0].nmet;
  arranging a = {.b = b, .f = f};
  int status = CN_OK;
  for (int k = 0; k < 2 && !status; k++) {
    a.h[k] = (cni_halves){.ninputs = b->noperands, .noutputs = b->nresults};
    status = cni_cut_in_halves(&a.h[k], f[k].g);
  }
  if (!status) status = arrange(&a);
  for (int k = 0; k < 2; k++) cni_halves_free(&a.h[k]);
  if (!status) return b;
  branching_free(b);
  return NULL;
}

/* ---- the call ---- */

static int check_branches(const cni_captured *f)
{
  if (f[0].nresults != f[1].nresults)
    return cni_fail(CN_ERR_VALUE, "cond: true_fn gives %zu results, false_fn %zu", f[0].nresults, f[1].nresults);
  for (size_t i = 0; i < f[0].nresults; i++) {
    cn_graph_value a = cni_type_of(f[0].g, f[0].g->outputs[i]), b = cni_type_of(f[1].g, f[1].g->outputs[i]);
    char have[CNI_SHAPE_TEXT], other[CNI_SHAPE_TEXT];
    if (!cni_type_same(&a, &b))
      return cni_fail(CN_ERR_SHAPE, "cond: result %zu is %s %s of true_fn, and %s %s of false_fn", i,
                      cn_dtype_name(a.dtype), cni_shape_text(have, sizeof have, a.ndim, a.shape),
                      cn_dtype_name(b.dtype),
                      cni_shape_text(other, sizeof other, b.ndim, b.shape));
  }
  return f[0].nresults ? CN_OK : cni_fail(CN_ERR_VALUE, "cond: its functions give no results");
}

static bool any(const bool *flags, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (flags[i]) return true;
  return false;
}

/* in: the predicate, operands, and what the functions met. */
static int record_node(cn_tensor **out, cni_captured *f, cn_tensor *const *in)
{
  size_t n = f[0].nresults, noperands = f[0].ngiven + f[0].nmet;
  if (any(f[0].carries, n) || any(f[1].carries, n)) {
    branching *b = prepare(f);
    return b ? cn_function_apply(out, n, &cond_function, in, noperands + 1, b) : cn_err();
  }
  cn_graph *subs[2] = {f[0].g, f[1].g};
  f[0].g = f[1].g = NULL;
  int draw;
  return record_first(out, n, subs, in, noperands, &draw);
}

static int capture_branches(cni_captured *f, cn_tensor *const *operands, size_t n, cn_control_fn const *fns,
                            void *payload)
{
  cn_desc *given = cni_alloc((n + 1) * sizeof *given);
  bool *wants = given ? cni_alloc(n + 1) : NULL;
  int status = wants ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; wants && i < n; i++) {
    given[i] = operands[i]->d;
    if (!cni_is_dense(given[i].ndim, given[i].shape, given[i].strides))
      cni_contiguous_strides(given[i].ndim, given[i].shape, given[i].strides);
    wants[i] = cn_needs_grad(operands[i]);
  }
  for (int k = 0; k < 2 && !status; k++) {
    cni_to_capture what = {"cond", fns[k], payload, given, wants, n};
    status = cni_capture_function(&f[k], &what);
  }
  cni_free(wants, n + 1);
  cni_free(given, (n + 1) * sizeof *given);
  if (!status) status = check_branches(f);
  return status ? status : cni_captured_unite((cni_captured *const[]){&f[0], &f[1]}, 2);
}

int cni_capture_cond(cn_tensor **out, size_t *nout, cn_tensor *pred, cn_tensor *const *operands, size_t noperands,
                     cn_control_fn true_fn, cn_control_fn false_fn, void *payload)
{
  cni_captured f[2] = {{.g = NULL}, {.g = NULL}};
  cn_control_fn fns[2] = {true_fn, false_fn};
  int status = capture_branches(f, operands, noperands, fns, payload);
  if (!status && f[0].nresults > *nout)
    status = cni_fail(CN_ERR_VALUE, "cond: there are %zu results, and room for %zu", f[0].nresults, *nout);
  size_t n = noperands + f[0].nmet + 1;
  cn_tensor **in = status ? NULL : cni_alloc(n * sizeof *in);
  if (!status && !in) status = CN_ERR_MEMORY;
  if (in) {
    in[0] = pred;
    memcpy(in + 1, operands, noperands * sizeof *in);
    for (size_t i = 0; i < f[0].nmet && !status; i++) {
      cn_tensor *t = f[0].met[i]; /* which may be from outside of the outer capture, too */
      in[1 + noperands + i] = cni_capturing()->outer ? cni_bring_one_inside(t) : t;
      if (!in[1 + noperands + i]) status = cn_err();
    }
    if (!status) status = record_node(out, f, in);
    if (!status) *nout = f[0].nresults;
  }
  cni_free(in, n * sizeof *in);
  cni_captured_free(&f[0]);
  cni_captured_free(&f[1]);
  return status;
}
