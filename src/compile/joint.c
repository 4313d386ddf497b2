/* joint.c: a program whose results carry gradients, as a custom function: its forward runs one graph, its backward
 * another. Leaves from outside (parameters) are inputs of the function, so that their gradients reach them the usual
 * way, through their hooks.
 *
 * Place in the flow: compile.c runs such a program here; split.c made its halves. Invariant: backward draws the random
 * numbers of its forward; what it reads was kept with its version, so that a tensor that was written since is an error,
 * as in eager. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "autograd/autograd.h"
#include "compile.h"
#include "graph/plan.h"

typedef struct running {
  cni_executable *p; /* owned */
  uint64_t at[2]; /* where its random numbers began */
  int64_t (*shapes)[CN_MAX_DIMS]; /* per result, where sizes depend on data; in this block */
  uint64_t versions[]; /* per state of the single forward graph: of its memory, before the run */
} running;

static size_t running_bytes(const cni_executable *p)
{
  size_t shapes = p->counts ? p->noutputs * sizeof *((running *)0)->shapes : 0;
  return sizeof(running) + cn_graph_states(p->single[0]) * sizeof(uint64_t) + shapes;
}

static void running_free(void *payload)
{
  running *r = payload;
  size_t bytes = running_bytes(r->p);
  cni_executable_release(r->p);
  cni_free(r, bytes);
}

static int save_kept(cn_context *ctx, const cni_executable *p, cn_tensor *const *in, cn_tensor *const *results)
{
  int status = CN_OK;
  for (size_t i = 0; i < p->nkept && !status; i++) {
    const cni_kept *k = &p->kept[i];
    cn_tensor *t = k->from == CNI_KEPT_INPUT ? in[k->index]
                 : k->from == CNI_KEPT_STATE ? p->states[k->index] : results[k->index];
    status = cn_context_save(ctx, &t, 1);
  }
  return status ? status : cn_context_save(ctx, in, p->ninputs); /* for gradients of gradients */
}

static void note_versions(running *r)
{
  const cn_graph *g = r->p->single[0];
  for (size_t i = 0; i < g->nstates; i++) r->versions[i] = cni_version(g->states[i].tensor);
}

static int forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  running *r = cn_context_payload(ctx);
  const cni_executable *p = r->p;
  size_t n = cn_graph_outputs(p->forward), bytes = (n + 1) * sizeof(cn_tensor *);
  cn_tensor **results = cni_alloc_zero(bytes);
  if (!results) return CN_ERR_MEMORY;
  cn_random_state(&r->at[0], &r->at[1]);
  note_versions(r);
  int status = cn_graph_run(results, p->forward, in);
  if (!status) status = save_kept(ctx, p, in, results);
  for (size_t i = 0; i < p->noutputs && !status; i++) {
    out[i] = results[i];
    if (r->shapes) memcpy(r->shapes[i], results[i]->d.shape, sizeof *r->shapes);
    if (!p->carries[i]) status = cn_context_mark_non_differentiable(ctx, i);
  }
  cni_free(results, bytes);
  return status;
}

/* The graph of the gradients that came, and which output each gradient is. */
static cn_graph *graph_for(cni_executable *p, cn_tensor *const *grad_out, const int **gradient)
{
  uint64_t absent = 0;
  for (size_t i = 0; i < p->noutputs; i++)
    if (p->carries[i] && !grad_out[i]) absent |= 1ull << i;
  const cni_backward_graph *b = absent ? cni_backward_without(p, absent) : NULL;
  if (absent && !b) return NULL;
  *gradient = b && b->graph ? b->gradient : p->gradient;
  return b && b->graph ? b->graph : p->backward;
}

/* Kept values, then a gradient for each result that carries one: zeros where none came, which are read only where there
 * is no graph without them. */
static int backward_inputs(cn_context *ctx, const running *r, cn_tensor **in, cn_tensor *const *grad_out)
{
  const cni_executable *p = r->p;
  size_t n = 0;
  for (; n < p->nkept; n++)
    if (!(in[n] = cn_context_saved(ctx, n))) return cn_err();
  for (size_t i = 0; i < p->noutputs; i++) {
    if (!p->carries[i]) continue;
    const cni_gvalue *v = &p->backward->values[p->backward->inputs[n]];
    cn_zeros_opts o = {.size = sizeof o, .dtype = (cn_dtype)v->dtype, .device = v->device};
    const int64_t *shape = r->shapes ? r->shapes[i] : v->shape;
    in[n] = grad_out[i] ? grad_out[i] : cn_zeros_with(shape, (size_t)v->ndim, &o);
    if (!in[n++]) return cn_err();
  }
  return CN_OK;
}

/* ---- a backward pass that is recorded itself ---- */

/* What the forward graph reads instead of what it was given: each a step behind it, where the walk back ends. */
typedef struct again {
  cn_tensor **in, **states; /* per input and state of the forward graph */
  cn_tensor **wanted, **grads; /* ninputs + nstates: those that need a gradient; grads: owned */
  cn_tensor **out;
  size_t nwanted;
} again;

static cn_tensor *step_behind(again *a, cn_tensor *t)
{
  if (!t || !cn_needs_grad(t)) return t;
  cn_tensor *behind = cn_expand(t, t->d.shape, (size_t)t->d.ndim);
  if (behind) a->wanted[a->nwanted++] = behind;
  return behind;
}

static int begin_again(again *a, cn_context *ctx, const cni_executable *p)
{
  const cn_graph *g = p->single[0];
  if (p->hooked)
    return cni_fail(CN_ERR_UNSUPPORTED, "compile: gradients of gradients do not go through a compiled function that "
                    "hangs hooks on its tensors; call the function itself");
  for (size_t i = 0; i < p->ninputs; i++) {
    if (g->input_finals[i] >= 0)
      return cni_fail(CN_ERR_UNSUPPORTED, "compile: gradients of gradients do not go through a compiled function that "
                      "writes to its inputs; call the function itself");
    if (!(a->in[i] = step_behind(a, cn_context_saved(ctx, p->nkept + i)))) return cn_err();
  }
  for (size_t i = 0; i < g->nstates; i++)
    if (!(a->states[i] = step_behind(a, g->states[i].tensor))) return cn_err();
  return CN_OK;
}

static cn_tensor *gradient_of(const again *a, const cn_tensor *behind)
{
  for (size_t i = 0; i < a->nwanted; i++)
    if (a->wanted[i] == behind) return a->grads[i];
  return NULL;
}

/* Takes the gradients over to the scope, and finds those of inputs and leaves. */
static int give_again(const again *a, const cni_executable *p, cn_tensor **grad_in)
{
  const cn_graph *g = p->single[0];
  int status = CN_OK;
  for (size_t i = 0; i < a->nwanted; i++)
    if (a->grads[i] && !(a->grads[i] = cni_scope_add(a->grads[i]))) status = CN_ERR_MEMORY;
  for (size_t i = 0; i < p->ninputs; i++) grad_in[i] = gradient_of(a, a->in[i]);
  for (size_t i = 0; i < p->nleaves; i++)
    for (size_t k = 0; k < g->nstates; k++)
      if (g->states[k].tensor == p->leaves[i]) grad_in[p->ninputs + i] = gradient_of(a, a->states[k]);
  return status;
}

static int walk_again(again *a, const running *r, cn_tensor *const *grad_out, cn_tensor **grad_in)
{
  const cni_executable *p = r->p;
  cn_tensor *roots[64], *seeds[64]; /* as many results as a custom function has */
  cni_backward b = {.roots = roots, .seeds = seeds, .inputs = a->wanted, .ninputs = (int)a->nwanted,
                    .results = a->grads, .create = true, .stop = true, .no_leaf_hooks = true};
  cni_replay how = {.opts = {.no_writes = true}, .at = r->at, .versions = r->versions, .states = a->states};
  int status = cni_graph_replay(a->out, p->single[0], a->in, &how);
  for (size_t i = 0; i < p->noutputs && !status; i++) {
    if (!grad_out[i] || !cn_needs_grad(a->out[i])) continue;
    roots[b.nroots] = a->out[i];
    seeds[b.nroots++] = grad_out[i];
  }
  if (!status) status = cni_backward_run(&b);
  return status ? status : give_again(a, p, grad_in);
}

/* The forward graph is replayed with its history recorded, and gone through as eager code is: so every derivative has
 * the next one. */
static int backward_again(cn_context *ctx, const running *r, cn_tensor **grad_in, cn_tensor *const *grad_out)
{
  const cni_executable *p = r->p;
  size_t n = p->ninputs + cn_graph_states(p->single[0]);
  size_t bytes = (3 * n + cn_graph_outputs(p->single[0]) + 1) * sizeof(cn_tensor *);
  cn_tensor **room = cni_alloc_zero(bytes);
  if (!room) return CN_ERR_MEMORY;
  again a = {.in = room, .states = room + p->ninputs, .wanted = room + n, .grads = room + 2 * n, .out = room + 3 * n};
  int status = begin_again(&a, ctx, p);
  if (!status) status = walk_again(&a, r, grad_out, grad_in);
  cni_free(room, bytes);
  return status;
}

static int backward(cn_context *ctx, cn_tensor **grad_in, cn_tensor *const *grad_out)
{
  running *r = cn_context_payload(ctx);
  cni_executable *p = r->p;
  if (cni_context_records(ctx)) return backward_again(ctx, r, grad_in, grad_out);
  const int *gradient;
  cn_graph *g = graph_for(p, grad_out, &gradient);
  if (!g) return cn_err();
  size_t nin = cn_graph_inputs(g), nout = cn_graph_outputs(g);
  size_t bytes = (nin + nout + 1) * sizeof(cn_tensor *);
  cn_tensor **in = cni_alloc_zero(bytes), **out = in + nin;
  int status = in ? backward_inputs(ctx, r, in, grad_out) : CN_ERR_MEMORY;
  if (!status) status = cni_graph_run_at(out, g, in, r->at);
  for (size_t i = 0; i < p->ninputs + p->nleaves && !status; i++)
    grad_in[i] = gradient[i] >= 0 ? out[gradient[i]] : NULL;
  cni_free(in, bytes);
  return status;
}

static const cn_function compiled = {sizeof(cn_function), "compiled", forward, backward, running_free};

int cni_joint_run(cni_executable *p, cn_tensor **out, cn_tensor *const *in)
{
  size_t n = p->ninputs + p->nleaves, bytes = (n + 1) * sizeof *in;
  cn_tensor **all = cni_alloc(bytes);
  running *r = all ? cni_alloc_zero(running_bytes(p)) : NULL;
  int status = r ? CN_OK : CN_ERR_MEMORY;
  if (r) {
    r->p = cni_executable_keep(p);
    if (p->counts) r->shapes = (int64_t(*)[CN_MAX_DIMS])(r->versions + cn_graph_states(p->single[0]));
    memcpy(all, in, p->ninputs * sizeof *all);
    memcpy(all + p->ninputs, p->leaves, p->nleaves * sizeof *all);
    status = cn_function_apply(out, p->noutputs, &compiled, all, n, r);
  }
  cni_free(all, bytes);
  return status;
}
