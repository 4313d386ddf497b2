/* order.c: the order in which a plan runs its nodes, and which results are written over states or operands.
 *
 * Place in the flow: plan.c asks, after shapes are known and before memory is placed. Nodes that only make what states
 * end up with go behind all that can fail: so a run that fails has changed nothing, and such a node may write straight
 * into the state when nobody reads the old value after it. On devices casts of weights that are read more than once, or
 * are small, come first, and what nodes for states read that others make comes by ops: a device that records work does
 * those of a kind together. Invariant: the order stays one in which values are made before they are read. */
#include <cairn/ext/backend.h>
#include <string.h>

#include "base/dtype.h"
#include "ops/api.gen.h"
#include "ops/product.h"
#include "ops/program.h"
#include "plan.h"

/* Does a typed program divide integers? */
static bool divides_integers(const cni_program *p)
{
  for (int i = 0; i < p->nstep; i++)
    if (p->steps[i].prim != CNI_PW_convert && p->steps[i].class >= CNI_C_I64 && cni_prim_divides(p->steps[i].prim))
      return true;
  return false;
}

/* Is it computed element by element, so that a result may lie where an operand of its layout does? */
static bool is_formula(const cni_gnode *n)
{
  bool rows = n->info->row->pointwise, program = !rows && !strcmp(n->info->name, "pointwise");
  if (program) { /* along rows elements are read more than once */
    const cni_program *p = cni_program_of_value(&n->args[1]);
    rows = p && !p->row_dims;
  }
  return rows && (n->info->row->flags & CN_OP_ALIAS_SAFE);
}

/* Is it the sum of something and a small product, on the CPU? */
static bool adds_small_product(const cn_graph *g, const cni_gnode *n)
{
  if (n->info->id != CNI_OP_addmm || g->nsizes) return false;
  const cni_gvalue *a = &g->values[n->in[1]], *y = &g->values[n->out[0]];
  return y->device == CN_CPU && (y->dtype == CN_F32 || y->dtype == CN_F64) &&
         cni_is_small_product(y->shape[0], a->shape[1], y->shape[1]);
}

/* Can this node fail when it runs? Formulas over floating-point numbers, sums, casts and views cannot. */
static bool can_fail(const cn_graph *g, const cni_gnode *n)
{
  if (adds_small_product(g, n)) return false;
  if (n->info->row->flags & CN_OP_VIEW || n->info->id == CNI_OP_cast || n->info->id == CNI_OP_add) return false;
  if (!is_formula(n) || (n->info->row->flags & CN_OP_CHECKS)) return true;
  const cni_program *p = n->info->row->pointwise ? NULL : cni_program_of_value(&n->args[1]);
  if (p && p->typed) return divides_integers(p);
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] >= 0 && !g->values[n->in[k]].weak && !cni_dtype_is_float(g->values[n->in[k]].dtype)) return true;
  return false;
}

enum { NOBODY, TAIL, OTHERS }; /* who needs a value */

static void need(uint8_t *needed, int value, uint8_t by)
{
  if (value >= 0 && needed[value] < by) needed[value] = by;
}

/* tail[i]: node i is needed by states alone, directly or by such nodes, and cannot fail. */
static void find_tail(bool *tail, uint8_t *needed, const cn_graph *g)
{
  for (size_t i = 0; i < g->nstates; i++) need(needed, g->states[i].final, TAIL);
  for (size_t i = 0; i < g->ninputs; i++) need(needed, g->input_finals[i], OTHERS);
  for (size_t i = g->nnodes; i-- > 0;) {
    const cni_gnode *n = &g->nodes[i];
    uint8_t by = NOBODY;
    for (int k = 0; k < n->nout; k++)
      if (needed[n->out[k]] > by) by = needed[n->out[k]];
    tail[i] = by == TAIL && !can_fail(g, n);
    for (int k = 0; k < n->nin; k++) need(needed, n->in[k], tail[i] ? TAIL : OTHERS);
  }
}

int cni_find_tail(bool *tail, const cn_graph *g)
{
  uint8_t *needed = cni_alloc_zero(g->nvalues + 1);
  if (!needed) return CN_ERR_MEMORY;
  find_tail(tail, needed, g);
  cni_free(needed, g->nvalues + 1);
  return CN_OK;
}

enum { EARLY, BETWEEN, LATE, LAST }; /* where in the order a node goes; LAST: it reads what such nodes made */
static const size_t small_cast = 64 << 10; /* bytes that may lie about for longer */

/* Per node, whether it casts a weight that has to lie there for long anyway. Reads of values are counted in `reads`. */
static void find_early(uint8_t *where, int *reads, const cni_plan *p, const cn_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin; k++)
      if (g->nodes[i].in[k] >= 0) reads[g->nodes[i].in[k]]++;
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    if (n->info->id != CNI_OP_cast || where[i] >= LATE || g->values[n->out[0]].device == CN_CPU) continue;
    const cni_planned *y = &p->values[n->out[0]];
    const cni_gvalue *x = &g->values[n->in[0]];
    bool weight = x->kind == CNI_VALUE_STATE && x->device == g->values[n->out[0]].device;
    if (weight && (reads[n->out[0]] > 1 || y->size <= small_cast)) where[i] = EARLY;
  }
}

/* A node of the tail, by whether it reads what another of them made. */
static uint8_t place_in_tail(const cn_graph *g, const bool *tail, const cni_gnode *n)
{
  for (int k = 0; k < n->nin; k++) {
    const cni_gvalue *v = n->in[k] < 0 ? NULL : &g->values[n->in[k]];
    if (v && v->kind == CNI_VALUE_RESULT && tail[v->node]) return LAST;
  }
  return LATE;
}

/* Adds the nodes of one op that go LATE from node `first` on, the first of them. */
static size_t add_alike(cni_plan *p, const cn_graph *g, uint8_t *where, size_t first, size_t at)
{
  for (size_t i = first; i < g->nnodes; i++) {
    if (where[i] != LATE || g->nodes[i].info != g->nodes[first].info) continue;
    p->order[at++] = (int)i;
    where[i] = LAST + 1; /* it has its place */
  }
  return at;
}

static int put_in_order(cni_plan *p, const cn_graph *g)
{
  size_t bytes = g->nvalues * sizeof(int) + 1;
  bool *tail = cni_alloc_zero(g->nnodes + 1);
  uint8_t *where = tail ? cni_alloc_zero(g->nnodes + 1) : NULL;
  int *reads = where ? cni_alloc_zero(bytes) : NULL, status = reads ? cni_find_tail(tail, g) : CN_ERR_MEMORY;
  if (!status) {
    size_t at = 0;
    for (size_t i = 0; i < g->nnodes; i++) where[i] = tail[i] ? place_in_tail(g, tail, &g->nodes[i]) : BETWEEN;
    find_early(where, reads, p, g);
    for (int now = EARLY; now <= BETWEEN; now++)
      for (size_t i = 0; i < g->nnodes; i++)
        if (where[i] == now) p->order[at++] = (int)i;
    p->commit += at;
    for (size_t i = 0; i < g->nnodes; i++)
      if (where[i] == LATE) at = add_alike(p, g, where, i, at);
    for (size_t i = 0; i < g->nnodes; i++)
      if (where[i] == LAST) p->order[at++] = (int)i;
  }
  cni_free(reads, bytes);
  cni_free(where, g->nnodes + 1);
  cni_free(tail, g->nnodes + 1);
  return status;
}

/* ---- states written in place ---- */

/* Does this value show the old contents of the state's memory? */
static bool shows(const cni_plan *p, const cn_graph *g, int value, const cn_tensor *state)
{
  const cni_gvalue *root = &g->values[p->values[value].root];
  return root->kind == CNI_VALUE_STATE && g->states[root->index].tensor->storage == state->storage;
}

/* May a result be written where operand k is, of the same layout? addmm's where what it adds to is. */
static bool is_safe_over(const cni_gnode *n, int k)
{
  return n->info->row->flags & CN_OP_ALIAS_SAFE || (n->info->id == CNI_OP_addmm && k == 0);
}

/* May node n write result v over the state, of which it reads nothing, or the very elements that it writes? */
static bool may_write_over(const cni_plan *p, const cn_graph *g, const cni_gnode *n, int v, const cn_tensor *state)
{
  for (int k = 0; k < n->nin; k++) {
    if (n->in[k] < 0 || !shows(p, g, n->in[k], state)) continue;
    const cni_planned *q = &p->values[n->in[k]];
    const cn_tensor *read = g->states[g->values[q->root].index].tensor;
    bool same = cni_same_layout(&q->handle->d, &p->values[v].handle->d) && read->offset + q->base == state->offset;
    if (!same || !is_safe_over(n, k)) return false;
  }
  return true;
}

/* Per state: the last place in the order where its memory's old contents are read, by this or another state's name; the
 * end where they are given away. Filled before any state is written over. */
static void note_read(const cni_plan *p, const cn_graph *g, int *last, int value, size_t at)
{
  const cni_gvalue *root = value < 0 ? NULL : &g->values[p->values[value].root];
  if (root && root->kind == CNI_VALUE_STATE && last[root->index] < (int)at) last[root->index] = (int)at;
}

static void last_reads(const cni_plan *p, const cn_graph *g, int *last)
{
  for (size_t i = 0; i < g->nstates; i++) last[i] = -1;
  for (size_t at = 0; at < g->nnodes; at++) {
    const cni_gnode *n = &g->nodes[p->order[at]];
    for (int k = 0; k < n->nin; k++) note_read(p, g, last, n->in[k], at);
  }
  for (size_t i = 0; i < g->noutputs; i++) note_read(p, g, last, g->outputs[i], g->nnodes);
  for (size_t i = 0; i < g->ninputs; i++) note_read(p, g, last, g->input_finals[i], g->nnodes);
  for (size_t i = 0; i < g->nleaves; i++) note_read(p, g, last, g->leaves[i].value, g->nnodes);
  for (size_t i = 0; i < g->nstates; i++)
    if (g->states[i].final != g->states[i].value) note_read(p, g, last, g->states[i].final, g->nnodes);
  for (size_t i = 0; i < g->nstates; i++)
    for (size_t k = 0; k < i; k++)
      if (g->states[i].tensor->storage == g->states[k].tensor->storage)
        last[i] = last[k] = last[i] > last[k] ? last[i] : last[k];
}

static bool fits(const cni_plan *p, const cn_graph *g, int v, const cn_tensor *state)
{
  const cn_desc *d = &p->values[v].handle->d;
  return g->values[v].kind == CNI_VALUE_RESULT && p->values[v].root == v && d->dtype == state->d.dtype &&
         d->device == state->d.device && cni_same_layout(d, &state->d) &&
         cni_device_can(d->device, CN_CAN_INPLACE);
}

static void write_over(cni_plan *p, int v, int state_value)
{
  for (size_t i = 0; i < p->nvalues; i++)
    if (p->values[i].root == v) p->values[i].root = state_value;
  p->values[v].size = 0;
}

static void try_state(cni_plan *p, const cn_graph *g, size_t i, const int *place, int last_read)
{
  int v = g->states[i].final;
  const cn_tensor *state = g->states[i].tensor;
  if (v < 0 || !fits(p, g, v, state)) return;
  const cni_gnode *n = &g->nodes[g->values[v].node];
  int at = place[g->values[v].node];
  if (last_read > at || at < (int)p->commit || can_fail(g, n) || !may_write_over(p, g, n, v, state)) return;
  write_over(p, v, g->states[i].value);
}

static int write_states_in_place(cni_plan *p, const cn_graph *g)
{
  int *last = cni_alloc((g->nstates + 1) * sizeof *last);
  int *place = last ? cni_alloc((g->nnodes + 1) * sizeof *place) : NULL;
  if (place) {
    for (size_t at = 0; at < g->nnodes; at++) place[p->order[at]] = (int)at;
    last_reads(p, g, last);
    for (size_t i = 0; i < g->nstates; i++) try_state(p, g, i, place, last[i]);
  }
  bool done = place != NULL;
  cni_free(last, (g->nstates + 1) * sizeof *last);
  cni_free(place, (g->nnodes + 1) * sizeof *place);
  return done ? CN_OK : CN_ERR_MEMORY;
}

/* ---- results written over operands ---- */

/* Per root in the block: the last place in the order where it is read; the end where that is behind all nodes. */
static void last_uses(const cni_plan *p, const cn_graph *g, int *last)
{
  for (size_t i = 0; i < p->nvalues; i++)
    last[i] = p->values[i].is_output || p->values[i].is_final ? (int)g->nnodes : -1;
  for (size_t at = 0; at < g->nnodes; at++) {
    const cni_gnode *n = &g->nodes[p->order[at]];
    for (int k = 0; k < n->nin; k++) {
      int until = cni_stays(p, g, n->in[k], p->order[at]) ? (int)g->nnodes : (int)at;
      if (n->in[k] >= 0 && last[n->in[k]] < until) last[n->in[k]] = until;
    }
  }
  for (size_t i = 0; i < p->nvalues; i++)
    if (last[p->values[i].root] < last[i]) last[p->values[i].root] = last[i];
}

/* Does each operand that shows this memory read the very elements that result v has there? */
static bool reads_alike(const cni_plan *p, const cni_gnode *n, int v, int root)
{
  for (int k = 0; k < n->nin; k++) {
    const cni_planned *q = n->in[k] < 0 ? NULL : &p->values[n->in[k]];
    if (q && q->root == root && (q->base || !cni_same_layout(&q->handle->d, &p->values[v].handle->d))) return false;
  }
  return true;
}

/* May result k of a node lie where an operand of its layout does, other than operand *but? A formula's may, and the
 * gradient of cross entropy, which is computed element by element from the scores. Gradients of norms with a relu are
 * written by a last pass over elements, the sum of gradients by the first, which is the last to read all but the norm's
 * input. Of a formula with several results the first is written before others, which may be the operand itself, are
 * computed. */
static bool may_lie_over(const cni_gnode *n, int k, int *but)
{
  *but = -1;
  switch (n->info->id) {
  case CNI_OP_cross_entropy_rows_grad: return k == 0;
  case CNI_OP_batch_norm_relu_backward: return k == 0;
  case CNI_OP_batch_norm_add_relu_backward: *but = k ? n->in[3] : -1; return k == 0 || k == 3;
  default: return n->nout == 1 && is_formula(n);
  }
}

/* The operand of the node at this place whose memory result v may have: nobody reads it afterwards. -1: none. */
static int spent_operand(const cni_plan *p, const cn_graph *g, const cni_gnode *n, int v, int but, int at,
                         const int *last)
{
  const cni_planned *to = &p->values[v];
  for (int k = 0; k < n->nin; k++) {
    int root = n->in[k] < 0 ? -1 : p->values[n->in[k]].root;
    if (root < 0 || last[root] != at || g->values[root].kind != CNI_VALUE_RESULT) continue;
    const cni_planned *from = &p->values[root];
    if (from->size == to->size && from->handle->d.dtype == to->handle->d.dtype &&
        from->handle->d.device == to->handle->d.device && reads_alike(p, n, v, root) &&
        (but < 0 || p->values[but].root != root))
      return root;
  }
  return -1;
}

/* Such results are written over an operand that their node is the last to read: less memory, which is in the cache
 * already. The last result first: it has less of a choice. */
static int write_over_operands(cni_plan *p, const cn_graph *g)
{
  int *last = cni_alloc((p->nvalues + 1) * sizeof *last);
  if (!last) return CN_ERR_MEMORY;
  last_uses(p, g, last);
  for (size_t at = 0; at < g->nnodes; at++) {
    const cni_gnode *n = &g->nodes[p->order[at]];
    for (int k = n->nout - 1, but; k >= 0; k--) {
      int v = n->out[k];
      if (!may_lie_over(n, k, &but) || !cni_device_can(g->values[v].device, CN_CAN_INPLACE)) continue;
      if (p->values[v].root != v || !p->values[v].size || p->values[v].is_output) continue;
      int root = spent_operand(p, g, n, v, but, (int)at, last);
      if (root < 0) continue;
      write_over(p, v, root);
      last[root] = last[v];
    }
  }
  cni_free(last, (p->nvalues + 1) * sizeof *last);
  return CN_OK;
}

int cni_plan_order(cni_plan *p, const cn_graph *g)
{
  p->writes = g->nleaves > 0;
  for (size_t i = 0; i < g->nstates; i++) p->writes |= g->states[i].final >= 0;
  for (size_t i = 0; i < g->ninputs; i++) p->writes |= g->input_finals[i] >= 0;
  int status = put_in_order(p, g);
  if (!status && !p->executable) status = write_states_in_place(p, g);
  return status || p->executable ? status : write_over_operands(p, g);
}
