/* engine.c: the backward walk: from the newest node to the oldest, adding up the gradients of each node's results
 * before going through it.
 *
 * Place in the flow: cn_backward and cn_grad (api.c) call cni_backward_run. Invariants: all bookkeeping is local to
 * one walk, so walks on several threads share only the nodes; gradients in flight are owned references; no recursion.
 */
#include <cairn/ops.h>
#include <pthread.h>
#include <string.h>

#include "autograd.h"
#include "ops/api.gen.h"
#include "ops/profile.h"
#include "ops/shorthand.h"
#include "pieces.h"

enum { FIRST_TASKS = 32, FIRST_SLOTS = 64, MOST_RESULTS = 64 };

/* A node that gradients have reached. */
typedef struct task {
  cni_node *node; /* owned */
  cn_tensor *one; /* gradient of its only result */
  cn_tensor **many; /* or of each, when there are several */
  /* `one` is made of pieces, and only [from, to) along piece_dim is written yet; piece_dim is -1 otherwise. */
  int piece_dim;
  int64_t from, to;
  cni_pieces *pieces; /* while a graph is captured: its only result's gradient, in pieces; NULL: none */
} task;

typedef struct walk {
  const cni_backward *b;
  task *tasks;
  size_t ntasks, tasks_cap;
  uint32_t *slots; /* open addressing: node -> task + 1 */
  size_t nslots;   /* a power of two */
  uint32_t *heap;  /* tasks to do, newest node first */
  size_t nheap, heap_cap;
  task task_room[FIRST_TASKS];
  uint32_t slot_room[FIRST_SLOTS], heap_room[FIRST_TASKS];
} walk;

/* ---- which task a node has ---- */

static size_t slot_for(const walk *w, const cni_node *n)
{
  size_t i = ((uintptr_t)n >> 6) * 0x9e3779b97f4a7c15ull >> 20 & (w->nslots - 1);
  while (w->slots[i] && w->tasks[w->slots[i] - 1].node != n) i = (i + 1) & (w->nslots - 1);
  return i;
}

static int grow_slots(walk *w)
{
  size_t n = w->nslots * 4;
  uint32_t *slots = cni_alloc_zero(n * sizeof *slots), *old = w->slots;
  if (!slots) return CN_ERR_MEMORY;
  if (old != w->slot_room) cni_free(old, w->nslots * sizeof *old);
  w->slots = slots;
  w->nslots = n;
  for (size_t t = 0; t < w->ntasks; t++) w->slots[slot_for(w, w->tasks[t].node)] = (uint32_t)t + 1;
  return CN_OK;
}

/* Like cni_grow, for arrays that begin in the walk itself and are full. */
static CNI_APART int grow_room(void **array, size_t *cap, size_t n, size_t elem, const void *room)
{
  void *bigger = cni_alloc(*cap * 2 * elem);
  if (!bigger) return CN_ERR_MEMORY;
  memcpy(bigger, *array, n * elem);
  if (*array != room) cni_free(*array, *cap * elem);
  *array = bigger;
  *cap *= 2;
  return CN_OK;
}

/* ---- the heap ---- */

static uint64_t seq_at(const walk *w, size_t i) { return w->tasks[w->heap[i]].node->seq; }

static void heap_swap(walk *w, size_t a, size_t b)
{
  uint32_t t = w->heap[a];
  w->heap[a] = w->heap[b];
  w->heap[b] = t;
}

static void heap_push(walk *w, uint32_t t)
{
  size_t i = w->nheap++;
  w->heap[i] = t;
  for (; i && seq_at(w, (i - 1) / 2) < seq_at(w, i); i = (i - 1) / 2) heap_swap(w, i, (i - 1) / 2);
}

static uint32_t heap_pop(walk *w)
{
  uint32_t top = w->heap[0];
  w->heap[0] = w->heap[--w->nheap];
  for (size_t i = 0;;) {
    size_t l = 2 * i + 1, r = l + 1, m = i;
    if (l < w->nheap && seq_at(w, l) > seq_at(w, m)) m = l;
    if (r < w->nheap && seq_at(w, r) > seq_at(w, m)) m = r;
    if (m == i) return top;
    heap_swap(w, i, m);
    i = m;
  }
}

static task *task_for(walk *w, cni_node *n)
{
  size_t slot = slot_for(w, n);
  if (w->slots[slot]) return &w->tasks[w->slots[slot] - 1];
  if ((w->ntasks + 1) * 2 > w->nslots) {
    if (grow_slots(w)) return NULL;
    slot = slot_for(w, n);
  }
  if (w->ntasks == w->tasks_cap &&
      grow_room((void **)&w->tasks, &w->tasks_cap, w->ntasks, sizeof *w->tasks, w->task_room))
    return NULL;
  if (w->nheap == w->heap_cap &&
      grow_room((void **)&w->heap, &w->heap_cap, w->nheap, sizeof *w->heap, w->heap_room))
    return NULL;
  task *t = &w->tasks[w->ntasks];
  *t = (task){.node = (cni_node *)n, .piece_dim = -1};
  if (n->nout > 1 && !(t->many = cni_alloc_zero((size_t)n->nout * sizeof *t->many))) return NULL;
  cni_node_keep(n);
  w->slots[slot] = (uint32_t)++w->ntasks;
  heap_push(w, (uint32_t)w->ntasks - 1);
  return t;
}

static cn_tensor **gradient_slot(task *t, int index) { return t->many ? &t->many[index] : &t->one; }

/* ---- gradients ---- */

/* Which dims of g to sum so that it fits m, which it was broadcast from; returns how many leading ones go, negative
 * when it cannot have been. */
static int sum_plan(const cn_desc *g, const cn_meta *m, int64_t *dims, size_t *ndims)
{
  int lead = g->ndim - m->ndim;
  *ndims = 0;
  for (int i = 0; i < g->ndim; i++)
    if (i < lead || (m->shape[i - lead] == 1 && g->shape[i] != 1)) dims[(*ndims)++] = i;
  return lead;
}

/* Makes a gradient fit what it is the gradient of: summed over broadcast dims, cast, moved. Borrowed; NULL with the
 * error set. */
static cn_tensor *grad_fit(cn_tensor *g, const cn_meta *m)
{
  int64_t dims[CN_MAX_DIMS];
  size_t ndims;
  if (!cni_same_shape(g->d.ndim, g->d.shape, m->ndim, m->shape)) {
    if (sum_plan(&g->d, m, dims, &ndims) < 0) {
      char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT]; /* only a custom function can do this */
      cni_fail(CN_ERR_SHAPE, "backward: a gradient of shape %s does not fit its tensor of shape %s",
               cni_shape_text(have, sizeof have, g->d.ndim, g->d.shape),
               cni_shape_text(want, sizeof want, m->ndim, m->shape));
      return NULL;
    }
    if (ndims) {
      cn_sum_opts o = {.size = sizeof o, .dim = {dims, ndims}, .keepdim = true};
      g = cn_sum_with(g, &o);
    }
    g = cn_reshape(g, m->shape, (size_t)m->ndim);
  }
  if (g && g->d.dtype != m->dtype) g = cn_cast(g, (cn_dtype)m->dtype);
  if (g && g->d.device != m->device) g = cn_to_device(g, m->device);
  return g;
}

static bool alike(const cn_desc *a, const cn_desc *b)
{
  return a->dtype == b->dtype && a->device == b->device && cni_same_shape(a->ndim, a->shape, b->ndim, b->shape);
}

static const cn_add_opts plainly = {.size = sizeof plainly};

/* May this walk write into gradients? Not where they are recorded. */
static bool in_place(const walk *w)
{
  return !w->b->create && !(cni_state()->modes & ~(uint32_t)CNI_MODE_PROFILE);
}

/* A gradient that nobody else holds or sees may be written into. */
static bool may_write(const cn_tensor *g)
{
  const cni_storage *s = g->storage;
  bool sole = atomic_load(&g->refs) == 1 && atomic_load(&s->refs) == 1 && !g->view && !s->free_payload;
  return sole && cni_is_dense(g->d.ndim, g->d.shape, g->d.strides);
}

/* ---- gradients that come in pieces ---- */

static int fill_zero(cn_tensor *whole, int dim, int64_t from, int64_t to)
{
  if (from == to) return CN_OK;
  cn_tensor *gap = cn_slice_with(whole, dim, from, to, NULL);
  return gap && cn_fill_(gap, cn_int(0)) ? CN_OK : cn_err();
}

static int join(task *t)
{
  size_t depth = cni_scope_push();
  cn_tensor *whole = cni_pieces_join(t->pieces);
  if (whole) t->one = cni_tensor_keep(whole);
  cni_pieces_free(t->pieces);
  t->pieces = NULL;
  cni_scope_pop(depth);
  return whole ? CN_OK : cn_err();
}

/* Nothing more comes in pieces: what was not written is zero. */
static int complete(task *t)
{
  int dim = t->piece_dim;
  if (CNI_UNLIKELY(t->pieces != NULL)) return join(t);
  if (dim < 0) return CN_OK;
  t->piece_dim = -1;
  size_t depth = cni_scope_push();
  int status = fill_zero(t->one, dim, 0, t->from);
  if (!status) status = fill_zero(t->one, dim, t->to, t->one->d.shape[dim]);
  cni_scope_pop(depth);
  return status;
}

/* Adds a borrowed gradient to what has reached (node, index) so far. */
static int deliver(walk *w, cni_node *n, int index, cn_tensor *g)
{
  task *t = task_for(w, n);
  if (!t) return CN_ERR_MEMORY;
  cn_tensor **slot = gradient_slot(t, index);
  if (!*slot && !t->pieces) {
    *slot = cni_tensor_keep(g);
    return CN_OK;
  }
  int status = complete(t);
  if (status) return status;
  if (in_place(w) && !cni_is_sparse(*slot) && may_write(*slot) && alike(&(*slot)->d, &g->d))
    return cn_add_inplace_with(*slot, g, &plainly) ? CN_OK : cn_err();
  cn_tensor *sum = cn_add_with(*slot, g, &plainly);
  return sum ? cn_set(gradient_slot(task_for(w, n), index), sum) : cn_err();
}

static int deliver_root(walk *w, cn_tensor *root, cn_tensor *seed)
{
  return deliver(w, cni_node_of(root), root->out_index, seed);
}

/* ---- leaves and kept gradients ---- */

static bool lies_so(const cn_desc *d, const int64_t *strides)
{
  for (int i = 0; i < d->ndim; i++)
    if (d->shape[i] != 1 && d->strides[i] != strides[i]) return false;
  return true;
}

/* Memory of g's shape in an order that code sees: as the view of a row-major tensor. Borrowed; NULL on failure. */
static cn_tensor *view_of_room(const cn_desc *d, const int64_t *strides)
{
  int64_t dims[CN_MAX_DIMS], back[CN_MAX_DIMS], shape[CN_MAX_DIMS];
  for (int i = 0; i < d->ndim; i++) {
    int k = i;
    for (; k > 0 && strides[dims[k - 1]] < strides[i]; k--) dims[k] = dims[k - 1];
    dims[k] = i;
  }
  for (int i = 0; i < d->ndim; i++) {
    shape[i] = d->shape[dims[i]];
    back[dims[i]] = i;
  }
  cn_empty_opts o = {.size = sizeof o, .dtype = (cn_dtype)d->dtype, .device = d->device};
  return cn_permute(cn_empty_with(shape, (size_t)d->ndim, &o), back, (size_t)d->ndim);
}

static cn_tensor *in_order(cn_tensor *g, const int64_t *strides, bool create)
{
  const cn_desc *d = &g->d;
  cn_tensor *room = create || cni_state()->capture
                      ? view_of_room(d, strides)
                      : cni_scope_add(cni_tensor_new(d->device, d->dtype, d->ndim, d->shape, strides));
  return room ? cni_scope_take(cn_copy_(room, g)) : NULL;
}

/* A leaf's gradient lies in memory as the leaf does (strides; NULL: as it comes). One that nobody else holds may become
 * the leaf's own; others are copied, since later ones are added in place. */
static cn_tensor *own_gradient(cn_tensor *g, const int64_t *strides, bool create)
{
  if (cni_is_sparse(g)) return create ? cni_tensor_keep(g) : cni_scope_take(cn_clone(g));
  if (strides && !lies_so(&g->d, strides)) return in_order(g, strides, create);
  if (create) return cni_tensor_keep(g);
  return may_write(g) ? cni_tensor_keep(g) : cni_scope_take(cn_clone(g));
}

/* Walks on several threads may end in the same leaf. One lock for every few of them. */
static pthread_mutex_t *lock_of(const cni_node *n)
{
  static pthread_mutex_t locks[] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                    PTHREAD_MUTEX_INITIALIZER};
  return &locks[((uintptr_t)n >> 6) % (sizeof locks / sizeof *locks)];
}

static int accumulate(cn_tensor **into, cn_tensor *g, const int64_t *strides, bool create)
{
  if (!*into) {
    *into = own_gradient(g, strides, create);
    return *into ? CN_OK : cn_err();
  }
  bool over = !create && !(*into)->node && !cni_is_sparse(*into);
  if (over) return cn_add_inplace_with(*into, g, &plainly) ? CN_OK : cn_err();
  return cn_set(into, cn_add_with(*into, g, &plainly));
}

static int run_hooks(cni_node *n, int index, cn_tensor **g)
{
  int status = CN_OK;
  for (size_t i = 0; !status && i < n->extra->nhooks;) {
    const cni_hook h = n->extra->hooks[i]; /* it may remove itself */
    if (h.output == index) {
      size_t depth = cni_scope_push();
      cn_tensor *other = h.fn(*g, h.payload);
      status = cn_err();
      if (!status && other && !alike(&other->d, &(*g)->d))
        status = cni_fail(CN_ERR_SHAPE,
                          "hook: its gradient has another shape, type or device than the one it was given");
      if (!status && other && other != *g) {
        cn_tensor *kept = cni_tensor_keep(other);
        cni_tensor_release(*g);
        *g = kept;
      }
      cni_scope_pop(depth);
    }
    if (i < n->extra->nhooks && n->extra->hooks[i].id == h.id) i++;
  }
  return status;
}

static bool is_result(const cn_tensor *t, const cni_node *n, int index)
{
  return t->node == n && t->out_index == index;
}

/* What to do with a result's complete gradient, besides going on: hooks, chosen inputs, kept gradients, leaves. */
static int settle(walk *w, cni_node *n, int index, cn_tensor **g)
{
  const cni_backward *b = w->b;
  bool hooked = n->extra && !(b->no_leaf_hooks && n->kind == CNI_NODE_LEAF);
  int status = n->kind == CNI_NODE_LEAF ? cni_sparse_leaf(n, g) : cni_sparse_end(g);
  if (!status && hooked) status = run_hooks(n, index, g);
  if (status) return status;
  for (int i = 0; i < b->ninputs; i++)
    if (is_result(cni_history_of(b->inputs[i]), n, index) && !b->results[i])
      b->results[i] = cni_tensor_keep(*g);
  if (b->inputs) return CN_OK;
  if (n->kind != CNI_NODE_LEAF && !(n->extra && n->extra->retain >> index & 1)) return CN_OK;
  if ((status = cni_leaf_touch(NULL, n, false))) return status;
  pthread_mutex_t *lock = lock_of(n);
  pthread_mutex_lock(lock);
  cni_extra *extra = cni_node_extra(n);
  const int64_t *strides = n->kind == CNI_NODE_LEAF ? n->words + n->meta[0].ndim : NULL;
  status = extra ? accumulate(&extra->grads[index], *g, strides, b->create) : CN_ERR_MEMORY;
  cn_tensor *whole = !status && extra->nhooks ? cni_tensor_keep(extra->grads[index]) : NULL;
  pthread_mutex_unlock(lock);
  if (whole) status = run_hooks(n, ~index, &whole); /* without the lock: they may look at the gradient, and drop it */
  cni_tensor_release(whole);
  return status;
}

/* ---- through one node ---- */

static bool is_chosen(const walk *w, const cni_node *n)
{
  for (int i = 0; i < w->b->ninputs; i++)
    if (cni_history_of(w->b->inputs[i])->node == n) return true;
  return false;
}

/* A view without a rule of its own: its gradient is scattered into zeros. */
static int scatter_vjp(cn_vjp *v)
{
  const cn_meta *m = &v->in_meta[0];
  cn_call c = {.op = v->op, .args = v->args, .nargs = v->nargs, .device = m->device};
  v->gin[0] = v->op->scatter(&c, cni_zeros_of(m, (cn_dtype)m->dtype), v->g[0]);
  return cn_err();
}

/* View args have an empty slot for their tensor: calls the view on another one. */
static cn_tensor *view_again(const cni_node *n, cn_tensor *x)
{
  cn_value args[CN_MAX_ARGS];
  cn_tensor *out = NULL;
  int nout = 1;
  memcpy(args, n->args, (size_t)n->nargs * sizeof *args);
  args[0] = cn_v_tensor(x);
  if (cni_apply(cni_op_info(n->op), args, n->nargs, NULL, &out, &nout)) return NULL;
  return cni_scope_add(out);
}

/* Memory for the gradient of a view's input, not set. Where that is another tensor's view in another order, its memory
 * has that tensor's order, so that going on needs no copy. Owned. */
static cn_tensor *room_for_whole(const cni_node *n)
{
  const cn_meta *m = &n->meta[0], *under;
  const cni_node *below = n->edges[0].node;
  int id = below->kind == CNI_NODE_OP ? cni_op_info(below->op)->id : -1;
  if (id != CNI_OP_permute && id != CNI_OP_transpose)
    return cni_tensor_new(m->device, m->dtype, m->ndim, m->shape, NULL);
  under = &below->meta[0];
  cn_tensor *base = cni_tensor_new(m->device, m->dtype, under->ndim, under->shape, NULL);
  cn_tensor *seen = base ? view_again(below, base) : NULL, *whole = NULL;
  if (seen)
    whole = cni_tensor_over(cni_storage_keep(base->storage), 0, m->dtype, m->ndim, m->shape, seen->d.strides);
  cni_tensor_release(base);
  return whole;
}

/* The dim along which a view cuts a piece out of its input, select or slice; -1: it is another view. */
static int cut_dim(const cni_node *n)
{
  int id = cni_op_info(n->op)->id;
  if ((id != CNI_OP_select && id != CNI_OP_slice) || n->meta[0].ndim == 0) return -1;
  int64_t dim = n->args[1].u.i;
  return (int)(dim < 0 ? dim + n->meta[0].ndim : dim);
}

/* Which part of `whole` along dim is `part`? False where it is not one run. */
static bool run_of(const cn_tensor *whole, const cn_tensor *part, int dim, int64_t *from, int64_t *to)
{
  int64_t stride = whole->d.strides[dim];
  bool slice = part->d.ndim == whole->d.ndim;
  if (!whole->d.numel || !part->d.numel || (slice && part->d.shape[dim] > 1 && part->d.strides[dim] != stride))
    return false;
  *from = stride ? (part->offset - whole->offset) / stride : 0;
  *to = *from + (slice ? part->d.shape[dim] : 1);
  return true;
}

/* The first gradient to reach a view's input is written at its place into new memory. What the other pieces do not
 * write is set to zero later, if anything is left: the pieces of a split need no zeros and no additions. */
static int begin_whole(walk *w, const cni_node *n, cn_tensor *g)
{
  task *t = task_for(w, n->edges[0].node);
  cn_tensor *whole = t ? room_for_whole(n) : NULL, *part = whole ? view_again(n, whole) : NULL;
  int dim = cut_dim(n);
  int64_t from = 0, to = 0;
  bool lazy = part && dim >= 0 && !t->many && run_of(whole, part, dim, &from, &to);
  int status = part ? CN_OK : cn_err();
  if (!status && !lazy && !cn_fill_(whole, cn_int(0))) status = cn_err();
  if (!status && !cn_copy_(part, g)) status = cn_err();
  if (status) {
    cni_tensor_release(whole);
    return status;
  }
  *gradient_slot(t, n->edges[0].index) = whole;
  if (lazy && !(from == 0 && to == whole->d.shape[dim])) t->piece_dim = dim, t->from = from, t->to = to;
  return 1;
}

/* A piece that borders on those that are there is written; any other is added. */
static int add_piece(task *t, const cni_node *n, cn_tensor *whole, cn_tensor *g)
{
  cn_tensor *part = view_again(n, whole);
  int dim = cut_dim(n);
  int64_t from, to;
  if (!part) return cn_err();
  bool next = t->piece_dim >= 0 && dim == t->piece_dim && run_of(whole, part, dim, &from, &to) &&
              (to == t->from || from == t->to);
  if (!next) {
    int status = complete(t);
    return status ? status : cn_add_inplace_with(part, g, &plainly) ? 1 : cn_err();
  }
  if (to == t->from) t->from = from;
  else t->to = to;
  if (t->from == 0 && t->to == whole->d.shape[dim]) t->piece_dim = -1;
  return cn_copy_(part, g) ? 1 : cn_err();
}

/* A piece that lies over others is added at its place, as where gradients are written: elsewhere nothing is added, for
 * -0.0 + 0.0 is another zero. */
static int add_over(task *t, const cni_node *n, cn_tensor *g)
{
  const cn_meta *m = &n->meta[0];
  cn_call c = {.op = n->op, .args = n->args, .nargs = n->nargs, .device = m->device};
  int status = complete(t);
  if (status) return status;
  const cn_desc *d = &t->one->d;
  if (d->dtype != m->dtype || d->device != m->device || g->d.dtype != m->dtype || g->d.device != m->device) return 0;
  if (!cni_same_shape(d->ndim, d->shape, m->ndim, m->shape)) return 0;
  size_t depth = cni_scope_push();
  cn_tensor *part = view_again(n, t->one), *sum = part ? cn_add_with(part, g, &plainly) : NULL;
  cn_tensor *whole = sum ? n->op->scatter(&c, t->one, sum) : NULL;
  status = whole ? cn_set(&t->one, whole) : cn_err();
  cni_scope_pop(depth);
  return status ? status : 1;
}

/* While a graph is captured pieces are kept, until all that come have come. */
static int keep_piece(walk *w, cni_node *n, cn_tensor *g)
{
  if (w->b->create || !cni_state()->capture) return 0;
  task *t = task_for(w, n->edges[0].node);
  if (!t) return CN_ERR_MEMORY;
  if (t->many || t->one) return 0;
  int kept = cni_pieces_add(&t->pieces, n, g);
  return kept || !t->pieces ? kept : add_over(t, n, g);
}

/* A view without a rule of its own: g goes to its place in the gradient of the view's input, without a tensor of that
 * size for each view. Returns 1 done, 0 it is not so, negative error. */
static int go_through_view(walk *w, cni_node *n, cn_tensor *g)
{
  if (n->kind != CNI_NODE_OP || n->op->vjp || !n->op->scatter || !g) return 0;
  if (!in_place(w)) return keep_piece(w, n, g);
  uint32_t at = w->slots[slot_for(w, n->edges[0].node)];
  cn_tensor *whole = at ? *gradient_slot(&w->tasks[at - 1], n->edges[0].index) : NULL;
  const cn_meta *m = &n->meta[0];
  if (g->d.dtype != m->dtype || g->d.device != m->device) return 0;
  if (!whole) return begin_whole(w, n, g);
  if (cni_is_sparse(whole) || !may_write(whole) || whole->d.dtype != m->dtype || whole->d.device != m->device) return 0;
  if (!cni_same_shape(whole->d.ndim, whole->d.shape, m->ndim, m->shape)) return 0;
  return add_piece(&w->tasks[at - 1], n, whole, g);
}

static int rebase_vjp(cni_node *n, cn_vjp *v)
{
  cn_call c = {.op = n->op, .args = n->args, .nargs = n->nargs, .device = n->meta[0].device};
  cn_tensor *part = view_again(n, v->g[0]);
  if (!part) return cn_err();
  if (v->need[1]) v->gin[1] = part;
  if (v->need[0]) v->gin[0] = n->op->scatter(&c, v->g[0], cn_zeros_like_with(part, NULL));
  return cn_err();
}

static int run_vjp(walk *w, cni_node *n, cn_tensor *const *g, const bool *need, cn_tensor **gin)
{
  bool create = w->b->create;
  if (n->kind == CNI_NODE_FUNCTION) return cni_function_backward(n, g, gin, create);
  cn_tensor *values[2 * MOST_RESULTS + 64], **in = values, **heap = NULL;
  size_t count = (size_t)(n->nin + n->nout);
  if (count > sizeof values / sizeof *values && !(in = heap = cni_alloc(count * sizeof *in))) return CN_ERR_MEMORY;
  for (size_t k = 0; k < count; k++) in[k] = n->has_saved ? cni_node_unpack(n, (int)k, create) : NULL;
  cn_vjp v = {.op = n->op,
              .args = n->args,
              .in = in,
              .out = in + n->nin,
              .g = g,
              .in_meta = n->meta,
              .out_meta = n->meta + n->nin,
              .need = need,
              .gin = gin,
              .nargs = n->nargs,
              .nin = n->nin,
              .nout = n->nout};
  int status = cn_err();
  if (!status)
    status = n->kind == CNI_NODE_REBASE ? rebase_vjp(n, &v) : n->op->vjp ? n->op->vjp(&v) : scatter_vjp(&v);
  if (heap) cni_free(heap, count * sizeof *heap);
  return status ? status : cn_err();
}

static int send_on(walk *w, cni_node *n, const bool *need, cn_tensor *const *gin)
{
  for (int i = 0; i < n->nin; i++) {
    if (!need[i] || !gin[i]) continue;
    cn_tensor *g = grad_fit(gin[i], &n->meta[i]);
    int status = g ? deliver(w, n->edges[i].node, n->edges[i].index, g) : cn_err();
    if (status) return status;
  }
  return CN_OK;
}

static int go_through(walk *w, cni_node *n, cn_tensor *const *g)
{
  bool need_room[64], *need = need_room;
  cn_tensor *gin_room[64], **gin = gin_room;
  size_t nin = (size_t)n->nin;
  int status = CN_OK;
  if (n->freed && n->has_saved)
    return cni_fail(CN_ERR_GRAD, "backward of %s: its saved values were freed by an earlier backward; give it "
                                 ".retain_graph = true to go through twice", cni_node_name(n));
  if (nin > 64) {
    need = cni_alloc(nin * sizeof *need);
    gin = need ? cni_alloc(nin * sizeof *gin) : NULL;
    if (!gin) status = CN_ERR_MEMORY;
  }
  size_t depth = cni_scope_push();
  cni_state()->op_name = cni_state()->modes ? cni_node_name(n) : NULL; /* for messages of modes */
  for (size_t i = 0; !status && i < nin; i++) {
    const cni_node *to = n->edges[i].node;
    need[i] = to && !(w->b->inputs && to->kind == CNI_NODE_LEAF && !is_chosen(w, to));
    gin[i] = NULL;
  }
  int added = !status && nin == 1 && need[0] ? go_through_view(w, n, g[0]) : 0;
  if (added < 0) status = added;
  if (!status && !added) status = run_vjp(w, n, g, need, gin);
  if (!status && !added) status = send_on(w, n, need, gin);
  cni_scope_pop(depth);
  if (nin > 64) {
    cni_free(need, nin * sizeof *need);
    cni_free(gin, nin * sizeof *gin);
  }
  return status;
}

static int do_task(walk *w, uint32_t index)
{
  cni_node *n = w->tasks[index].node;
  cn_tensor *g_room[MOST_RESULTS];
  if (n->nout > MOST_RESULTS) return cni_fail(CN_ERR_UNSUPPORTED, "backward: a node with %d results", (int)n->nout);
  int status = complete(&w->tasks[index]);
  for (int k = 0; k < n->nout && !status; k++) {
    cn_tensor **slot = gradient_slot(&w->tasks[index], k);
    if (*slot) status = settle(w, n, k, slot);
    g_room[k] = *gradient_slot(&w->tasks[index], k);
  }
  if (!status && n->kind != CNI_NODE_LEAF && !(w->b->stop && is_chosen(w, n))) {
    bool profiled = cni_profiled();
    if (profiled) cni_profile_backward_begin(cni_node_name(n), n->seq);
    status = go_through(w, n, g_room);
    if (profiled) cni_profile_backward_end();
    if (!status && !w->b->retain && !w->b->create) cni_node_drop_saved(n);
  }
  for (int k = 0; k < n->nout; k++) { /* its gradients are no longer needed */
    cn_tensor **slot = gradient_slot(&w->tasks[index], k);
    cni_tensor_release(*slot);
    *slot = NULL;
  }
  return status;
}

static void finish(walk *w)
{
  for (size_t t = 0; t < w->ntasks; t++) {
    task *k = &w->tasks[t];
    for (int i = 0; k->many && i < k->node->nout; i++) cni_tensor_release(k->many[i]);
    cni_tensor_release(k->one);
    if (k->pieces) cni_pieces_free(k->pieces);
    if (k->many) cni_free(k->many, (size_t)k->node->nout * sizeof *k->many);
    cni_node_release(k->node);
  }
  if (w->tasks != w->task_room) cni_free(w->tasks, w->tasks_cap * sizeof *w->tasks);
  if (w->heap != w->heap_room) cni_free(w->heap, w->heap_cap * sizeof *w->heap);
  if (w->slots != w->slot_room) cni_free(w->slots, w->nslots * sizeof *w->slots);
}

static int run_walk(const cni_backward *b)
{
  cn_state *st = cni_state();
  bool no_grad = st->no_grad;
  uint32_t autocast = st->modes & CNI_MODE_AUTOCAST; /* gradients have the types of what they are gradients of */
  walk w;
  w.b = b;
  w.tasks = w.task_room, w.tasks_cap = FIRST_TASKS, w.ntasks = 0;
  w.heap = w.heap_room, w.heap_cap = FIRST_TASKS, w.nheap = 0;
  w.slots = w.slot_room, w.nslots = FIRST_SLOTS;
  memset(w.slot_room, 0, sizeof w.slot_room);
  st->no_grad = !b->create;
  st->modes &= ~(uint32_t)CNI_MODE_AUTOCAST;
  int status = CN_OK;
  for (int i = 0; i < b->nroots && !status; i++)
    status = deliver_root(&w, cni_history_of(b->roots[i]), b->seeds[i]);
  while (!status && w.nheap) status = do_task(&w, heap_pop(&w));
  st->no_grad = no_grad;
  st->modes |= autocast;
  st->op_name = NULL;
  finish(&w);
  return status;
}

/* In a sub-graph, what it knows of the tensors: a function inside may ask for gradients of tensors from outside. */
static int walk_inside(const cni_backward *b)
{
  size_t nroots = (size_t)b->nroots, ninputs = (size_t)b->ninputs;
  cn_tensor **roots = cni_bring_inside(b->roots, nroots), **inputs = NULL;
  if (roots && b->inputs) inputs = cni_bring_inside(b->inputs, ninputs);
  cni_backward known = *b;
  known.roots = roots;
  known.inputs = inputs;
  int status = roots && (inputs || !b->inputs) ? run_walk(&known) : cn_err();
  if (roots) cni_free(roots, (nroots + 1) * sizeof *roots);
  if (inputs) cni_free(inputs, (ninputs + 1) * sizeof *inputs);
  return status;
}

int cni_backward_run(const cni_backward *b)
{
  return CNI_UNLIKELY(cni_state()->modes & CNI_MODE_INSIDE) ? walk_inside(b) : run_walk(b);
}
