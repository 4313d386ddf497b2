/* control_loop.c: cn_while, cn_scan and cn_map under capture: a node whose sub-graph is one step.
 *
 * Place in the flow: control.c -> here -> control_capture.c, until all memories outside are known that a step writes
 * to: they are carried like other values, and written back behind the node. Where results carry gradients the node is
 * recorded by control_loop_grad.c. Invariant: carried values and rows are row-major. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "control_loop.h"

void cni_looped_free(cni_looped *l)
{
  size_t n = cni_looped_inputs(l) + 1;
  cn_graph_free(l->cond);
  cn_graph_free(l->body);
  cn_graph_free(l->backward);
  cni_captured_free(&l->f);
  cni_free(l->result, (l->nresults + 1) * sizeof *l->result);
  cni_free(l->active, l->ncarried + 1);
  cni_free(l->kept, n * sizeof *l->kept);
  cni_free(l->gradient, n * sizeof *l->gradient);
  cni_free(l->sums, n * sizeof *l->sums);
  cni_free(l, sizeof *l);
}

/* ---- recording ---- */

int cni_record_scan(cn_tensor **out, size_t nout, cn_graph *body, cn_tensor *const *in, const size_t *counts,
                    const cni_looped *l, bool backward)
{
  size_t nin = counts[0] + counts[1] + counts[2];
  const cn_value args[7] = {cn_v_tensors(NULL, counts[0]), cn_v_tensors(NULL, counts[1]), cn_v_tensors(NULL, counts[2]),
                            {in[nin] ? CN_V_TENSOR : CN_V_NONE, 1, {0}}, cn_v_int(l->length),
                            cn_v_bool(l->reverse != backward), cn_v_bool(l->countdown != backward)};
  cni_control_call k = {.info = cni_control_op(CNI_CONTROL_SCAN), .args = args, .in = in, .nin = (int)nin + 1,
                        .nout = (int)nout, .subs = &body, .nsubs = 1, .draw = l->draw};
  return cni_capture_control(out, cni_capturing(), &k);
}

int cni_record_map(cn_tensor **out, size_t nout, cn_graph *body, cn_tensor *const *in, size_t nxs, size_t noperands,
                   const cni_looped *l)
{
  const cn_value args[3] = {cn_v_tensors(NULL, nxs), cn_v_tensors(NULL, noperands), cn_v_int(l->length)};
  cni_control_call k = {.info = cni_control_op(CNI_CONTROL_MAP), .args = args, .in = in, .nin = (int)(nxs + noperands),
                        .nout = (int)nout, .subs = &body, .nsubs = 1, .draw = l->draw};
  return cni_capture_control(out, cni_capturing(), &k);
}

static int record_while(cn_tensor **out, size_t nout, cn_graph *cond, cn_graph *body, cn_tensor *const *in,
                        const cni_looped *l)
{
  cn_graph *subs[2] = {cond, body};
  const cn_value args[3] = {cn_v_tensors(NULL, l->ncarried), cn_v_tensors(NULL, l->noperands), cn_v_int(l->length)};
  cni_control_call k = {.info = cni_control_op(CNI_CONTROL_WHILE), .args = args, .in = in,
                        .nin = (int)(l->ncarried + l->noperands), .nout = (int)nout, .subs = subs, .nsubs = 2,
                        .draw = l->draw};
  return cni_capture_control(out, cni_capturing(), &k);
}

/* Takes the random numbers of all steps. */
static int take_draws(cni_looped *l)
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

int cni_record_loop(cn_tensor **out, cni_looped *l, cn_tensor *const *in)
{
  const size_t counts[3] = {l->ncarried, l->nxs, l->noperands};
  size_t nout = l->nresults + l->nrows;
  int status = take_draws(l);
  cn_graph *body = l->body, *cond = l->cond;
  if (status) return status;
  l->body = l->cond = NULL;
  if (l->kind == CNI_CONTROL_MAP) return cni_record_map(out, nout, body, in, l->nxs, l->noperands, l);
  if (l->kind == CNI_CONTROL_SCAN) return cni_record_scan(out, nout, body, in, counts, l, false);
  return record_while(out, nout + (l->length > 0), cond, body, in, l);
}

/* ---- capturing a step ---- */

typedef struct looking {
  const cni_loop *loop;
  bool *active;     /* per carried value of the caller's: does it carry gradients? */
  cni_states states;
  size_t ngiven;
  cn_desc *given;   /* of the body's inputs: carried values, memories, rows of xs */
  bool *wants;
  cn_tensor **memory;
  cni_captured body, cond;
} looking;

static size_t ncarried_of(const looking *k) { return k->loop->ncarried + k->states.n; }

static void forget_given(looking *k)
{
  cni_free(k->given, (k->ngiven + 1) * sizeof *k->given);
  cni_free(k->wants, k->ngiven + 1);
  cni_free(k->memory, (k->ngiven + 1) * sizeof *k->memory);
  k->given = NULL;
  k->wants = NULL;
  k->memory = NULL;
}

/* What a step is given: carried values and rows are row-major. */
static int describe(looking *k)
{
  const cni_loop *p = k->loop;
  size_t first = p->ncarried, rows = ncarried_of(k);
  forget_given(k);
  k->ngiven = rows + p->nxs;
  k->given = cni_alloc_zero((k->ngiven + 1) * sizeof *k->given);
  k->wants = k->given ? cni_alloc_zero(k->ngiven + 1) : NULL;
  k->memory = k->wants ? cni_alloc_zero((k->ngiven + 1) * sizeof *k->memory) : NULL;
  if (!k->memory) return CN_ERR_MEMORY;
  for (size_t i = 0; i < k->ngiven; i++) {
    bool memory = i >= first && i < rows;
    cn_tensor *t = memory ? k->states.v[i - first] : p->in[i < first ? i : i - k->states.n];
    cn_desc *d = &k->given[i];
    int row = i >= rows;
    *d = t->d;
    d->ndim -= row;
    memmove(d->shape, t->d.shape + row, (size_t)d->ndim * sizeof *d->shape);
    cni_contiguous_strides(d->ndim, d->shape, d->strides);
    k->wants[i] = memory ? k->states.wants[i - first] : i < first ? k->active[i] : cn_needs_grad(t);
    if (memory) k->memory[i] = t;
  }
  return CN_OK;
}

static int check_body(const looking *k)
{
  const cni_loop *p = k->loop;
  const cn_graph *g = k->body.g;
  size_t n = ncarried_of(k), made = k->body.nresults;
  bool rows = p->kind != CNI_CONTROL_WHILE || p->counts;
  if (made < n || (!rows && made != n))
    return cni_fail(CN_ERR_VALUE, "%s: it carries %zu values, and a step gives %zu", p->who, p->ncarried,
                    made - k->states.n);
  for (size_t i = 0; i < n; i++) {
    cn_graph_value in = cni_type_of(g, g->inputs[i]), out = cni_type_of(g, g->outputs[i]);
    if (cni_carried_fits(p->who, i, &in, &out)) return cn_err();
  }
  return made ? CN_OK : cni_fail(CN_ERR_VALUE, "%s: its function gives no results", p->who);
}

/* In eager code the first step would see what is written through the other name. */
static int check_names(const looking *k)
{
  const cni_loop *p = k->loop;
  for (size_t i = 0; i < k->states.n; i++)
    for (size_t j = 0; j < p->ncarried + p->nxs; j++)
      if (k->states.v[i]->storage == p->in[j]->storage)
        return cni_fail(CN_ERR_CAPTURE, "%s: a step writes to a tensor from outside that is also given to the loop as "
                        "%s %zu: clone it first", p->who, j < p->ncarried ? "carried value" : "x",
                        j < p->ncarried ? j : j - p->ncarried);
  return CN_OK;
}

/* A carried value that a step gives a gradient, and that was thought to have none: was there one? */
static bool widen(looking *k)
{
  bool more = cni_states_widen(&k->states, k->body.carries + k->loop->ncarried);
  for (size_t i = 0; i < k->loop->ncarried; i++) {
    more |= k->body.carries[i] && !k->active[i];
    k->active[i] |= k->body.carries[i];
  }
  return more;
}

/* Captures a step; again, where it writes to what was not known, or gives a gradient to what was thought to have
 * none. */
static int capture_body(looking *k)
{
  const cni_loop *p = k->loop;
  for (;;) {
    int status = describe(k);
    cni_to_capture what = {.who = p->who, .fn = p->fn, .payload = p->payload, .given = k->given, .wants = k->wants,
                           .ngiven = k->ngiven, .memory = k->memory, .finals_at = p->ncarried};
    if (!status) status = cni_capture_function(&k->body, &what);
    int more = status ? status : cni_states_add(&k->states, &k->body);
    if (more < 0) return more;
    status = more ? check_names(k) : check_body(k);
    if (status) return status;
    if (!more && !widen(k)) return CN_OK;
    cni_captured_free(&k->body);
  }
}

/* The condition sees what steps write, and writes nothing itself. */
static int capture_cond(looking *k)
{
  const cni_loop *p = k->loop;
  size_t n = k->states.n;
  cni_to_capture what = {.who = p->who, .fn = p->cond, .payload = p->payload, .given = k->given,
                         .ngiven = ncarried_of(k), .memory = k->memory};
  int status = cni_capture_function(&k->cond, &what);
  if (status) return status;
  cn_graph *g = k->cond.g;
  bool writes = !g;
  for (size_t i = 0; g && i < n; i++) writes |= g->outputs[i] != g->inputs[p->ncarried + i];
  if (writes)
    return cni_fail(CN_ERR_CAPTURE, "while: its condition writes to a tensor from outside, which a graph cannot hold: "
                                    "write in the body");
  k->cond.nresults -= n;
  g->noutputs -= n;
  memmove(g->outputs, g->outputs + n, g->noutputs * sizeof *g->outputs);
  cn_graph_value v = {.ndim = 0};
  if (k->cond.nresults == 1) v = cni_type_of(g, g->outputs[0]);
  if (k->cond.nresults != 1 || cni_numel(v.ndim, v.shape) != 1)
    return cni_fail(CN_ERR_SHAPE, "while: its condition must give one result of one element");
  return cni_captured_unite((cni_captured *const[]){&k->cond, &k->body}, 2);
}

/* ---- the call ---- */

/* What is recorded, without a backward; owned. The condition becomes its own. */
static cni_looped *looped_new(looking *k)
{
  const cni_loop *p = k->loop;
  const cni_captured *f = &k->body;
  cni_looped *l = cni_alloc_zero(sizeof *l);
  if (!l) return NULL;
  *l = (cni_looped){.kind = p->kind, .who = p->who, .ncarried = ncarried_of(k), .nxs = p->nxs, .noperands = f->nmet,
                    .nresults = f->nresults, .length = p->length, .reverse = p->reverse, .countdown = p->countdown,
                    .steps = p->steps, .has_steps = p->steps || (p->kind == CNI_CONTROL_WHILE && p->length),
                    .draw = -1};
  if (p->kind == CNI_CONTROL_MAP && k->states.n) l->kind = CNI_CONTROL_SCAN;
  l->result = cni_alloc((l->nresults + 1) * sizeof *l->result);
  l->active = l->result ? cni_alloc_zero(l->ncarried + 1) : NULL;
  if (!l->active) {
    cni_looped_free(l);
    return NULL;
  }
  for (size_t i = 0; i < l->nresults; i++) {
    l->result[i] = cni_wire_of(f->g, f->g->outputs[i]);
    bool leaf = i < l->ncarried && k->memory[i] && cni_state_is_leaf(k->memory[i]);
    bool active = i < l->ncarried && k->wants[i] && !leaf; /* without a step it is what it was */
    l->result[i].value = f->carries[i] || active ? 0 : -1;
    if (i < l->ncarried) l->active[i] = active;
  }
  l->cond = k->cond.g;
  k->cond.g = NULL;
  return l;
}

static bool any_carries(const cni_looped *l)
{
  for (size_t i = 0; i < l->nresults && !cni_state()->no_grad; i++)
    if (l->result[i].value >= 0) return true;
  return false;
}

/* What was recorded: the node's results; of them those of the function and of memories, and, of a bounded while, where
 * its count of steps is. */
typedef struct recorded {
  cn_tensor **all; /* owned array of room */
  size_t room, nresults, count;
} recorded;

static int record_node(recorded *r, looking *k, cn_tensor *const *in)
{
  cni_looped *l = looped_new(k);
  int status = l ? CN_OK : CN_ERR_MEMORY;
  bool carries = l && any_carries(l);
  if (carries) status = cni_loop_add_backward(l, &k->body);
  else if (l) {
    l->body = k->body.g;
    k->body.g = NULL;
  }
  if (!status) {
    *r = (recorded){.nresults = l->nresults, .count = l->nresults + l->nrows};
    r->room = r->count + 1;
    if (!(r->all = cni_alloc_zero(r->room * sizeof *r->all))) status = CN_ERR_MEMORY;
  }
  if (!status && carries) return cni_loop_apply(r->all, l, in);
  if (!status) status = cni_record_loop(r->all, l, in);
  if (l) cni_looped_free(l);
  return status;
}

/* The caller's carried values, ys, and the count; what memories hold goes there. */
static int give_results(cn_tensor **out, size_t *nout, const looking *k, const recorded *r)
{
  const cni_loop *p = k->loop;
  size_t n = p->ncarried, nys = r->nresults - ncarried_of(k);
  memcpy(out, r->all, n * sizeof *out);
  memcpy(out + n, r->all + ncarried_of(k), nys * sizeof *out);
  *nout = n + nys;
  if (p->counts) out[(*nout)++] = r->all[r->count];
  return cni_states_write(&k->states, r->all + n);
}

/* What was met may be from outside of this capture, too; what will be written to is kept as it is now. */
static int find_inputs(cn_tensor **in, const looking *k)
{
  const cni_loop *p = k->loop;
  bool inside = cni_capturing()->outer != NULL;
  size_t n = 0;
  for (size_t i = 0; i < p->ncarried; i++) in[n++] = p->in[i];
  for (size_t i = 0; i < k->states.n; i++, n++)
    if (!(in[n] = cn_clone(k->states.v[i]))) return cn_err();
  for (size_t i = 0; i < p->nxs; i++) in[n++] = p->in[p->ncarried + i];
  for (size_t i = 0; i < k->body.nmet; i++, n++)
    if (!(in[n] = inside ? cni_bring_one_inside(k->body.met[i]) : k->body.met[i])) return cn_err();
  in[n] = p->steps;
  return CN_OK;
}

static int capture_and_record(cn_tensor **out, size_t *nout, looking *k)
{
  const cni_loop *p = k->loop;
  int status = capture_body(k);
  if (!status && p->cond) status = capture_cond(k);
  if (status) return status;
  size_t made = k->body.nresults - k->states.n + p->counts;
  if (made > *nout)
    return cni_fail(CN_ERR_VALUE, "%s: there are %zu results, and room for %zu", p->who, made, *nout);
  recorded r = {.all = NULL};
  size_t bytes = (k->ngiven + k->body.nmet + 1) * sizeof *out;
  cn_tensor **in = cni_alloc_zero(bytes);
  status = in ? find_inputs(in, k) : CN_ERR_MEMORY;
  if (!status) status = record_node(&r, k, in);
  if (!status) status = give_results(out, nout, k, &r);
  cni_free(r.all, r.room * sizeof *r.all);
  cni_free(in, bytes);
  return status;
}

int cni_capture_loop(cn_tensor **out, size_t *nout, const cni_loop *loop)
{
  looking k = {.loop = loop, .active = cni_alloc_zero(loop->ncarried + 1)};
  for (size_t i = 0; k.active && i < loop->ncarried; i++) k.active[i] = cn_needs_grad(loop->in[i]);
  int status = k.active ? capture_and_record(out, nout, &k) : CN_ERR_MEMORY;
  cni_captured_free(&k.body);
  cni_captured_free(&k.cond);
  cni_states_free(&k.states);
  forget_given(&k);
  cni_free(k.active, loop->ncarried + 1);
  return status;
}
