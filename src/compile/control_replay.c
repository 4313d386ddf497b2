/* control_replay.c: graphs as the functions of branches and loops: nodes that are replayed, and gradients of gradients.
 *
 * Place in the flow: graph/replay.c, at a node that holds graphs -> here -> what programs call (control.c), with
 * functions that replay these graphs: so a branch or loop of a loaded graph does what the program's did, in eager code,
 * under autocast, while a graph is captured. Invariant: random numbers begin where the node's draw does, and each step
 * has those of its place, as in a run. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "autograd/autograd.h"
#include "control.h"
#include "graph/plan.h"
#include "ops/batch.h"

static int replay(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, const cni_graphs *p, int which)
{
  const cn_graph *g = p->g[which];
  size_t n = nin + p->noperands, bytes = (n + 1) * sizeof *in;
  if (g->noutputs > *nout || g->ninputs != n)
    return cni_fail(CN_ERR_VALUE, "graph: a sub-graph takes %zu values and gives %zu", g->ninputs, g->noutputs);
  cn_tensor **all = cni_alloc(bytes);
  if (!all) return CN_ERR_MEMORY;
  memcpy(all, in, nin * sizeof *all);
  if (p->noperands) memcpy(all + nin, p->operands, p->noperands * sizeof *all);
  int status = cni_graph_replay(out, g, all, &(cni_replay){.opts = p->opts});
  *nout = g->noutputs;
  cni_free(all, bytes);
  return status;
}

int cni_replay_first(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *graphs)
{
  return replay(out, nout, in, nin, graphs, 0);
}

int cni_replay_second(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *graphs)
{
  return replay(out, nout, in, nin, graphs, 1);
}

static int replay_loop(cn_tensor **out, size_t *nout, const cni_control *c, const cni_replayed *r, cni_graphs *p)
{
  const cni_gnode *n = r->node;
  bool whiles = c->kind == CNI_CONTROL_WHILE;
  cni_loop loop = {.kind = c->kind, .who = n->info->name, .fn = whiles ? cni_replay_second : cni_replay_first,
                   .cond = whiles ? cni_replay_first : NULL, .payload = p, .ncarried = (size_t)c->ncarried,
                   .nxs = (size_t)c->nxs, .length = c->length, .reverse = c->reverse, .countdown = c->countdown,
                   .steps = c->steps >= 0 ? r->in[c->steps] : NULL, .counts = whiles && c->length,
                   .draws = (uint64_t)cni_graph_draws(n->subs[n->nsubs - 1])};
  return cni_run_loop(out, nout, &loop, r->in, 0);
}

int cni_replay_control(cn_tensor **out, const cni_replayed *r)
{
  const cni_gnode *n = r->node;
  size_t nout = (size_t)n->nout;
  cni_control c;
  const cni_vmap *vmap = NULL;
  if (cni_state()->vmap && cni_batch_innermost(&vmap, r->in, (size_t)n->nin)) return cn_err();
  if (vmap) return cni_replay_batch(out, r, vmap);
  cni_control_read(&c, n, r->args);
  cni_graphs p = {n->subs, r->in + c.first + c.ncarried + c.nxs, (size_t)c.noperands, *r->opts};
  p.opts.no_writes = false;
  int status = c.kind == CNI_CONTROL_COND
                 ? cn_cond(out, &nout, r->in[0], NULL, 0, cni_replay_first, cni_replay_second, &p)
                 : replay_loop(out, &nout, &c, r, &p);
  if (!status && nout != (size_t)n->nout)
    status = cni_fail(CN_ERR_INTERNAL, "graph: %s has %zu results, not %d", n->info->name, nout, n->nout);
  return status;
}

/* ---- both passes ---- */

cn_graph *cni_forward_alone(const cni_captured *f)
{
  size_t nin = f->ngiven + f->nmet, n = nin + f->nresults;
  cni_wire *wires = cni_alloc((n + 1) * sizeof *wires);
  if (!wires) return NULL;
  for (size_t i = 0; i < n; i++) wires[i] = cni_wire_of(f->g, i < nin ? f->g->inputs[i] : f->g->outputs[i - nin]);
  cn_graph *g = cni_arrange(f->g, wires, nin, wires + nin, f->nresults);
  cni_free(wires, (n + 1) * sizeof *wires);
  return g;
}

/* Where the walk back ends: a step behind t, so that what comes of its gradient goes on to t. */
static cn_tensor *step_behind(cn_tensor *t)
{
  return cn_needs_grad(t) ? cn_expand(t, t->d.shape, (size_t)t->d.ndim) : cn_requires_grad(cn_detach(t), true);
}

typedef struct passing {
  const cni_passes *p;
  cn_tensor **in, **wanted, **made; /* per input; made: gradients of those wanted, owned */
  cn_tensor **out, **roots, **seeds;
} passing;

static int pass_both(passing *k, cn_tensor **grads, cn_tensor *const *in, cn_tensor *const *seeds)
{
  const cni_passes *p = k->p;
  const cn_graph *g = p->forward;
  cni_backward b = {.roots = k->roots, .seeds = k->seeds, .inputs = k->wanted, .results = k->made, .create = true,
                    .stop = true, .no_leaf_hooks = true};
  for (size_t i = 0; i < g->ninputs; i++) {
    if (!(k->in[i] = p->gradient[i] < 0 ? in[i] : step_behind(in[i]))) return cn_err();
    if (p->gradient[i] >= 0) k->wanted[b.ninputs++] = k->in[i];
  }
  int status = cni_graph_replay(k->out, g, k->in, &(cni_replay){.opts.size = sizeof(cn_replay_opts)});
  for (size_t i = 0; i < g->noutputs && !status; i++) {
    if (!p->carries[i] || !cn_needs_grad(k->out[i])) continue;
    k->roots[b.nroots] = k->out[i];
    k->seeds[b.nroots++] = seeds[i];
  }
  if (!status && b.nroots) status = cni_backward_run(&b);
  for (size_t i = 0, n = 0; i < g->ninputs; i++) {
    if (p->gradient[i] < 0) continue;
    cn_graph_value type = cni_type_of(g, g->inputs[i]);
    cn_tensor *made = k->made[n++];
    grads[i] = made ? cni_scope_add(made) : status ? NULL : cni_zeros_typed(&type, -1);
    if (!status && !grads[i]) status = cn_err();
  }
  return status;
}

int cni_both_passes(cn_tensor **grads, const cni_passes *p, cn_tensor *const *in, cn_tensor *const *seeds)
{
  size_t n = p->forward->ninputs, m = p->forward->noutputs, bytes = (3 * (n + m) + 1) * sizeof *in;
  cn_tensor **room = cni_alloc_zero(bytes);
  if (!room) return CN_ERR_MEMORY;
  passing k = {p, room, room + n, room + 2 * n, room + 3 * n, room + 3 * n + m, room + 3 * n + 2 * m};
  int saved = cn_enable_grad_begin(), status = pass_both(&k, grads, in, seeds);
  cn_enable_grad_end(saved);
  cni_free(room, bytes);
  return status ? status : cn_err();
}
