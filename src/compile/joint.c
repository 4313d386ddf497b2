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
} running;

static void running_free(void *payload)
{
  running *r = payload;
  cni_executable_release(r->p);
  cni_free(r, sizeof *r);
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
  return status;
}

static int forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  running *r = cn_context_payload(ctx);
  const cni_executable *p = r->p;
  size_t n = cn_graph_outputs(p->forward), bytes = (n + 1) * sizeof(cn_tensor *);
  cn_tensor **results = cni_alloc_zero(bytes);
  if (!results) return CN_ERR_MEMORY;
  cn_random_state(&r->at[0], &r->at[1]);
  int status = cn_graph_run(results, p->forward, in);
  if (!status) status = save_kept(ctx, p, in, results);
  for (size_t i = 0; i < p->noutputs && !status; i++) {
    out[i] = results[i];
    if (!p->carries[i]) status = cn_context_mark_non_differentiable(ctx, i);
  }
  cni_free(results, bytes);
  return status;
}

/* Kept values, then a gradient for each result that carries one: zeros where none came. */
static int backward_inputs(cn_context *ctx, const cni_executable *p, cn_tensor **in, cn_tensor *const *grad_out)
{
  size_t n = 0;
  for (; n < p->nkept; n++)
    if (!(in[n] = cn_context_saved(ctx, n))) return cn_err();
  for (size_t i = 0; i < p->noutputs; i++) {
    if (!p->carries[i]) continue;
    const cni_gvalue *v = &p->backward->values[p->backward->inputs[n]];
    cn_zeros_opts o = {.size = sizeof o, .dtype = (cn_dtype)v->dtype, .device = v->device};
    in[n] = grad_out[i] ? grad_out[i] : cn_zeros_with(v->shape, (size_t)v->ndim, &o);
    if (!in[n++]) return cn_err();
  }
  return CN_OK;
}

static int backward(cn_context *ctx, cn_tensor **grad_in, cn_tensor *const *grad_out)
{
  running *r = cn_context_payload(ctx);
  const cni_executable *p = r->p;
  if (cni_context_records(ctx))
    return cni_fail(CN_ERR_UNSUPPORTED, "compile: gradients of gradients do not go through a compiled function; call "
                                        "the function itself");
  size_t nin = cn_graph_inputs(p->backward), nout = cn_graph_outputs(p->backward);
  size_t bytes = (nin + nout + 1) * sizeof(cn_tensor *);
  cn_tensor **in = cni_alloc_zero(bytes), **out = in + nin;
  int status = in ? backward_inputs(ctx, p, in, grad_out) : CN_ERR_MEMORY;
  if (!status) status = cni_graph_run_at(out, p->backward, in, r->at);
  for (size_t i = 0; i < p->ninputs + p->nleaves && !status; i++)
    grad_in[i] = p->gradient[i] >= 0 ? out[p->gradient[i]] : NULL;
  cni_free(in, bytes);
  return status;
}

static const cn_function compiled = {sizeof(cn_function), "compiled", forward, backward, running_free};

int cni_joint_run(cni_executable *p, cn_tensor **out, cn_tensor *const *in)
{
  size_t n = p->ninputs + p->nleaves, bytes = (n + 1) * sizeof *in;
  cn_tensor **all = cni_alloc(bytes);
  running *r = all ? cni_alloc_zero(sizeof *r) : NULL;
  int status = r ? CN_OK : CN_ERR_MEMORY;
  if (r) {
    r->p = cni_executable_keep(p);
    memcpy(all, in, p->ninputs * sizeof *all);
    memcpy(all + p->ninputs, p->leaves, p->nleaves * sizeof *all);
    status = cn_function_apply(out, p->noutputs, &compiled, all, n, r);
  }
  cni_free(all, bytes);
  return status;
}
