/* carry.c: on devices 16-bit copies of weights that a program updates live as long as the weights: the update writes
 * both, and the next run's forward pass reads the copy, instead of making it anew.
 *
 * Place in the flow: compiled functions, before fuse.c; under autocast a training step casts each float32 weight once,
 * far from its update at the end of the step before. The copy becomes a state of the graph, whose final value is the
 * cast of the weight's; where that is an update's result, both are one node. run.c makes a copy anew where its weight
 * was written by anybody else (cni_carried_refresh). Invariant: when the first node of a run begins, a copy is the cast
 * of its weight, to the bit. */
#include <string.h>

#include "fuse.h"
#include "graph/passes/passes.h"
#include "graph/plan.h"
#include "graph/segments.h"
#include "ops/api.gen.h"
#include "ops/apply.h"
#include "tensor/tensor.h"

/* Is it a float32 weight on a device that a run gives another value, which a node makes? */
static bool is_trained(const cn_graph *g, const cni_gstate *s)
{
  const cni_gvalue *v = &g->values[s->value];
  bool fits = s->tensor && v->device != CN_CPU && v->dtype == CN_F32 && s->final >= 0 && s->final != s->value;
  return fits && g->values[s->final].kind == CNI_VALUE_RESULT && g->values[s->final].dtype == CN_F32;
}

/* A node that casts the value to 16-bit floats, for this graph alone; -1: there is none. */
static int cast_of(cn_graph *g, int value)
{
  const cn_graph_use *use;
  int n = cn_graph_users(&use, g, value);
  for (int i = 0; i < n; i++) {
    if (use[i].kind != CN_USE_NODE) continue;
    const cni_gnode *node = &g->nodes[use[i].index];
    if (!node->info || node->info->id != CNI_OP_cast || cni_handed_out(g, node->out[0])) continue;
    int dtype = g->values[node->out[0]].dtype;
    if (dtype == CN_F16 || dtype == CN_BF16) return use[i].index;
  }
  return n < 0 ? n : -1;
}

/* A state that is laid out as the cast is: its value; negative on failure. */
static int add_copy(cn_graph *g, size_t weight, int cast)
{
  const cn_desc *d = &g->types.v[g->nodes[cast].out[0]].handle->d;
  cn_tensor *t = cni_tensor_new(d->device, d->dtype, d->ndim, d->shape, d->strides);
  cni_carried *c = t ? cni_alloc_zero(sizeof *c) : NULL;
  int value = c ? cn_graph_add_state(g, t) : CN_ERR_MEMORY;
  cni_tensor_release(t);
  if (value < 0) {
    cni_free(c, sizeof *c);
    return value;
  }
  cni_gvalue *v = &g->values[value];
  v->has_strides = !cni_is_contiguous(d->ndim, d->shape, d->strides);
  memcpy(v->strides, d->strides, (size_t)d->ndim * sizeof *v->strides);
  c->of = weight;
  g->states[g->nstates - 1].carried = c;
  return value;
}

/* The cast of the weight's new value, right behind its maker: its node. */
static int add_cast(cn_graph *g, int final, int dtype, int *out)
{
  int maker = g->values[final].node;
  const cn_value args[] = {cn_v_tensors(NULL, 0), cn_v_int(dtype)};
  size_t results = 1;
  int status = cn_graph_at(g, maker + 1 < (int)g->nnodes ? maker + 1 : -1, g->nodes[maker].scope);
  if (!status) status = cn_graph_add_node(out, &results, g, cni_ops[CNI_OP_cast]->row, args, 2, &final, 1);
  cn_graph_at(g, -1, -1);
  return status;
}

/* 1: the weight's cast is read from a state from now on; 0: it is not cast. */
static int carry(cn_graph *g, size_t weight, bool exact)
{
  int cast = cast_of(g, g->states[weight].value), made, final = g->states[weight].final;
  if (cast < 0) return cn_err();
  int old = g->nodes[cast].out[0], dtype = g->values[old].dtype, copy = add_copy(g, weight, cast);
  if (copy < 0) return copy;
  int status = cn_graph_replace(g, old, copy);
  if (status >= 0) status = add_cast(g, final, dtype, &made);
  if (status < 0) return status;
  if ((status = cn_graph_set_final(g, g->nstates - 1, made))) return status;
  int maker = g->values[final].node;
  status = cni_is_update(&g->nodes[maker]) ? cni_fuse_pair(g, maker, exact) : 0;
  return status < 0 ? status : 1;
}

int cni_carry_casts(cn_graph *g, bool exact)
{
  int count = 0;
  if (cni_has_counts(g)) return 0; /* run in parts, which have no states of their own */
  for (size_t i = 0, n = g->nstates; i < n; i++) {
    if (!is_trained(g, &g->states[i])) continue;
    int status = cni_types_fill(&g->types, g), done = status ? status : carry(g, i, exact);
    if (done < 0) return done;
    count += done;
  }
  if (count) {
    int status = cni_pass_dead(g);
    if (status < 0) return status;
  }
  return count;
}

/* ---- at a run ---- */

/* What the weight is now; 0: nobody knows, since somebody outside may write it unseen. */
static uint64_t version_of(const cn_tensor *weight)
{
  const cni_storage *s = weight->storage;
  if (atomic_load_explicit(&s->shown, memory_order_relaxed)) return 0;
  return cni_storage_writes(s) + 1;
}

/* The copy is of these elements. */
static void stamp(cni_carried *c, const cn_tensor *weight)
{
  if (c->from != weight->storage) {
    cni_storage *before = c->from;
    c->from = cni_storage_keep(weight->storage);
    cni_storage_release(before);
  }
  c->version = version_of(weight);
}

int cni_carried_refresh(const cn_graph *g)
{
  int status = CN_OK;
  for (size_t i = 0; i < g->nstates && !status; i++) {
    cni_carried *c = g->states[i].carried;
    cn_tensor *weight = c ? g->states[c->of].tensor : NULL;
    if (!c || (c->from == weight->storage && c->version && c->version == version_of(weight))) continue;
    c->version = 0;
    status = cni_copy_elements(g->states[i].tensor, weight);
    if (!status) stamp(c, weight);
  }
  return status;
}

void cni_carried_written(const cn_graph *g)
{
  for (size_t i = 0; i < g->nstates; i++)
    if (g->states[i].carried) stamp(g->states[i].carried, g->states[g->states[i].carried->of].tensor);
}

void cni_carried_free(cni_carried *c)
{
  if (!c) return;
  cni_storage_release(c->from);
  cni_free(c, sizeof *c);
}
