/* context.c: what one run has for itself: memory for values between nodes, and the tensors over it. See plan.h.
 *
 * Place in the flow: run.c takes a context of the plan and gives it back. Gradients that a run leaves in leaves may lie
 * in its memory: until the next run clears them, it is in use. Invariant: two runs never have the same context, nor
 * does work of two streams use its memory; a context holds no tensor of a run that is over. */
#include "plan.h"

#include "base/dtype.h"
#include "control.h"
#include "run.h"

static void free_one(cni_context *c, const cni_plan *p);

static void free_nested(cni_context *c, const cni_plan *p)
{
  for (size_t i = 0; c->nested && i < p->nnested; i++) {
    cni_nested_context *nested = &c->nested[i];
    for (int k = 0; k < 2; k++)
      if (nested->subs[k]) free_one(nested->subs[k], p->nested[i].subs[k]);
    for (int k = 0; nested->carried && k < 2 * nested->ncarried; k++) cni_tensor_release(nested->carried[k]);
    cni_free(nested->carried, (size_t)nested->ncarried * 2 * sizeof *nested->carried);
  }
  cni_free(c->nested, p->nnested * sizeof *c->nested);
}

/* Lets go of the memory and the tensors over it. */
static void leave_block(cni_context *c, const cni_plan *p)
{
  cni_ready_empty(c, p);
  for (size_t i = 0; c->now && i < c->nvalues; i++) {
    if (p->values[i].varies) continue;
    cni_tensor_release(c->now[i]);
    c->now[i] = NULL;
  }
  cni_storage_release(c->block);
  c->block = NULL;
  cni_layout_release(c->layout);
  c->layout = NULL;
}

static void free_one(cni_context *c, const cni_plan *p)
{
  if (c->recorded) cni_recorded_free(c->recorded);
  for (size_t i = 0; c->prepared && i < p->nnodes; i++) cni_prepared_slot_clear(&c->prepared[i]);
  cni_free(c->prepared, p->nnodes * sizeof *c->prepared);
  free_nested(c, p);
  leave_block(c, p);
  cni_free(c->now, c->nvalues * sizeof *c->now);
  cni_free(c->held, c->nstates * sizeof *c->held);
  cni_free(c->wants, p->nnodes * sizeof *c->wants);
  cni_free(c->ready, c->ready_bytes);
  cni_free(c, sizeof *c);
}

void cni_contexts_free(cni_context *list, const cni_plan *p)
{
  while (list) {
    cni_context *next = list->next;
    free_one(list, p);
    list = next;
  }
}

/* The tensor of a value that is the same in every run; owned. */
static cn_tensor *fixed_handle(const cni_context *c, const cni_plan *p, const cn_graph *g, size_t i)
{
  const cni_planned *q = &p->values[i];
  const cn_desc *d = &q->handle->d;
  if (g->values[i].kind != CNI_VALUE_RESULT) return cni_tensor_keep(q->handle);
  if (q->root != (int)i) { /* a view, or a state that is written in place */
    const cn_tensor *root = c->now[q->root];
    return cni_tensor_over(cni_storage_keep(root->storage),
                           cni_view_at(root->offset, root->d.dtype, d->dtype, q->base), d->dtype, d->ndim, d->shape,
                           d->strides);
  }
  bool inside = d->device == p->device; /* the few values elsewhere have memory of their own */
  cni_storage *s = inside ? cni_storage_keep(c->block) : cni_storage_new(d->device, q->size);
  int64_t offset = inside ? (int64_t)(c->layout->offsets[i] / cni_dtype_size(d->dtype)) : 0;
  return s ? cni_tensor_over(s, offset, d->dtype, d->ndim, d->shape, d->strides) : NULL;
}

static cni_context *make(cni_plan *p, const cn_graph *g);

/* Places for carried values: those of the body's first inputs. */
static int make_carried(cni_nested_context *nested, const cni_gnode *n)
{
  cni_control c;
  const cn_graph *body = n->subs[n->nsubs - 1];
  cni_control_read(&c, n, n->args);
  nested->carried = cni_alloc_zero((size_t)c.ncarried * 2 * sizeof *nested->carried);
  if (!nested->carried) return CN_ERR_MEMORY;
  nested->ncarried = c.ncarried;
  for (int i = 0; i < 2 * c.ncarried; i++) {
    const cni_gvalue *v = &body->values[body->inputs[i % c.ncarried]];
    nested->carried[i] = cni_tensor_new(v->device, v->dtype, v->ndim, v->shape, v->has_strides ? v->strides : NULL);
    if (!nested->carried[i]) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

static int make_nested(cni_context *c, cni_plan *p, const cn_graph *g)
{
  if (!p->nnested || p->executable) return CN_OK;
  if (!(c->nested = cni_alloc_zero(p->nnested * sizeof *c->nested))) return CN_ERR_MEMORY;
  for (size_t i = 0; i < p->nnested; i++) {
    const cni_gnode *n = &g->nodes[p->nested[i].node];
    for (int k = 0; k < n->nsubs; k++)
      if (!(c->nested[i].subs[k] = make(p->nested[i].subs[k], p->nested[i].subs[k]->graph))) return cn_err();
    int status = make_carried(&c->nested[i], n);
    if (status) return status;
  }
  return CN_OK;
}

static cni_storage *new_block(const cni_plan *p, size_t bytes)
{
  cn_state *st = cni_state();
  const char *around = st->running;
  st->running = "compiled function";
  cni_storage *block = cni_storage_new(p->device, bytes);
  st->running = around;
  return block;
}

static cni_layout *newest_layout(cni_plan *p)
{
  pthread_mutex_lock(&p->lock);
  cni_layout *l = p->layout;
  atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
  pthread_mutex_unlock(&p->lock);
  return l;
}

/* The memory of all values that have a place in it, and the tensors that are the same in every run. */
static int take_block(cni_context *c, cni_plan *p, const cn_graph *g)
{
  c->layout = newest_layout(p);
  bool done = !c->layout->total || (c->block = new_block(p, c->layout->total));
  for (int roots = 1; roots >= 0; roots--) /* memory first, then what looks into it */
    for (size_t i = 0; done && i < p->nvalues; i++) {
      const cni_planned *q = &p->values[i];
      if (q->varies || !q->handle || (q->root == (int)i) != (roots == 1)) continue;
      c->now[i] = fixed_handle(c, p, g, i);
      done = c->now[i] != NULL;
    }
  if (done && c->block) c->block_refs = atomic_load_explicit(&c->block->refs, memory_order_relaxed);
  if (!done) leave_block(c, p);
  return done ? CN_OK : CN_ERR_MEMORY;
}

int cni_context_move(cni_plan *p, const cn_graph *g, cni_context *c)
{
  leave_block(c, p);
  c->stamp = 0;
  return take_block(c, p, g);
}

static cni_context *make(cni_plan *p, const cn_graph *g)
{
  cni_context *c = cni_alloc_zero(sizeof *c);
  if (!c) return NULL;
  c->nvalues = p->nvalues;
  c->nstates = g->nstates;
  c->stream = cni_memory.stream(p->device);
  c->now = cni_alloc_zero(c->nvalues * sizeof *c->now);
  c->held = c->now ? cni_alloc_zero(c->nstates * sizeof *c->held) : NULL;
  for (size_t i = 0; c->held && i < g->nstates; i++) c->held[i] = g->states[i].tensor->storage;
  if (c->held && p->store) c->prepared = cni_alloc_zero(p->nnodes * sizeof *c->prepared);
  bool host = p->device == CN_CPU;
  if (c->held && host) c->wants = cni_alloc_zero(p->nnodes * sizeof *c->wants);
  bool done = c->held && (!p->store || c->prepared) && (!host || c->wants);
  if (done && (!p->executable || p->mixed)) done = !cni_ready_new(c, p, g);
  if (done && !make_nested(c, p, g) && !take_block(c, p, g)) return c;
  free_one(c, p);
  return NULL;
}

bool cni_context_is_lent(const cni_context *c)
{
  return c->block && atomic_load_explicit(&c->block->refs, memory_order_acquire) > c->block_refs;
}

cni_context *cni_context_renew(cni_plan *p, const cn_graph *g, cni_context *c)
{
  free_one(c, p);
  return make(p, g);
}

static void give_back(void *block) { cni_storage_release(block); }

/* A storage of its own, so that nobody takes two gradients for parts of one tensor. */
cn_tensor *cni_context_lend(const cni_context *c, const cni_plan *p, int value)
{
  const cni_planned *q = &p->values[value];
  const cn_desc *d = &q->handle->d;
  cni_storage *block = cni_storage_keep(c->block);
  char *data = (char *)block->data + c->layout->offsets[value];
  cni_storage *s = cni_storage_borrow(d->device, data, q->size, give_back, block);
  if (s) return cni_tensor_over(s, 0, d->dtype, d->ndim, d->shape, d->strides);
  cni_storage_release(block);
  return NULL;
}

/* Are the states' tensors over the memory that the context's look into? (cn_set_data gives them another.) */
static bool fresh(const cni_context *c, const cn_graph *g)
{
  for (size_t i = 0; i < c->nstates; i++)
    if (c->held[i] != g->states[i].tensor->storage) return false;
  return true;
}

cni_context *cni_context_take(cni_plan *p, const cn_graph *g)
{
  void *stream = cni_memory.stream(p->device);
  pthread_mutex_lock(&p->lock);
  cni_context **at = &p->idle;
  while (*at && (*at)->stream != stream) at = &(*at)->next;
  cni_context *c = *at;
  if (c) *at = c->next;
  pthread_mutex_unlock(&p->lock);
  if (c && !fresh(c, g)) {
    free_one(c, p);
    c = NULL;
  }
  return c ? c : make(p, g);
}

void cni_context_give(cni_plan *p, cni_context *c)
{
  pthread_mutex_lock(&p->lock);
  c->next = p->idle;
  p->idle = c;
  pthread_mutex_unlock(&p->lock);
}
