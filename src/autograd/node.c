/* node.c: making, filling and freeing nodes. See node.h. */
#include "node.h"

#include <cairn/ops.h>
#include <pthread.h>
#include <string.h>

#include "autograd.h"
#include "base/dtype.h"
#include "ops/apply.h"
#include "ops/table.h"
#include "tensor/args.h"

static size_t align8(size_t n) { return (n + 7) & ~(size_t)7; }

cni_node *cni_node_new(enum cni_node_kind kind, int nin, int nout, const cn_value *args, int nargs,
                       size_t shape_words)
{
  size_t slots = (size_t)(nin + nout), edges = (size_t)nin * sizeof(cni_edge), saved = slots * sizeof(cni_saved),
         metas = slots * sizeof(cn_meta), values = align8(cni_args_bytes(args, nargs));
  size_t size = sizeof(cni_node) + edges + saved + metas + values + shape_words * sizeof(int64_t);
  cni_node *n = cni_alloc(size);
  if (!n) return NULL;
  memset(n, 0, sizeof *n + edges + saved + metas);
  atomic_init(&n->head.refs, 1);
  n->kind = kind;
  n->nin = nin;
  n->nout = nout;
  n->nargs = nargs;
  n->size = (uint32_t)size;
  n->seq = ++cni_state()->node_seq;
  char *at = (char *)(n + 1);
  n->edges = (cni_edge *)(void *)at;
  n->saved = (cni_saved *)(void *)(at + edges);
  n->meta = (cn_meta *)(void *)(at + edges + saved);
  n->args = (cn_value *)(void *)(at + edges + saved + metas);
  n->words = (int64_t *)(void *)(at + edges + saved + metas + values);
  cni_args_copy(n->args, args, nargs);
  return n;
}

cni_node *cni_leaf_new(const cn_tensor *t)
{
  const cn_desc *d = &t->d;
  cni_node *n = cni_node_new(CNI_NODE_LEAF, 0, 1, NULL, 0, (size_t)d->ndim * 2);
  if (!n) return NULL;
  int64_t *words = n->words;
  cni_node_meta(n, 0, d, &words);
  if (cni_is_dense(d->ndim, d->shape, d->strides)) memcpy(words, d->strides, (size_t)d->ndim * sizeof *words);
  else cni_contiguous_strides(d->ndim, d->shape, words);
  n->captured = cni_state()->capture != NULL;
  return n;
}

/* ---- values that hooks keep in another form: t is a mark, version the address of this ---- */

typedef struct packed {
  const cn_saved_hooks *hooks;
  void *value; /* hooks->free drops it */
} packed;

static cn_tensor packed_mark;

static packed *packed_at(const cni_saved *s) { return (packed *)(uintptr_t)s->version; }

cn_saved_setting cn_saved_hooks_set(cn_saved_setting now)
{
  cn_state *st = cni_state();
  cn_saved_setting old = {st->saved_hooks, st->saved_payload};
  st->saved_hooks = now.hooks;
  st->saved_payload = now.payload;
  return old;
}

static int pack(cni_saved *to, cn_state *st, cn_tensor *alias)
{
  packed *p = cni_alloc_zero(sizeof *p);
  if (!p) return CN_ERR_MEMORY;
  int saved = cn_no_grad_begin();
  p->hooks = st->saved_hooks;
  p->value = p->hooks->pack(alias, st->saved_payload);
  cn_no_grad_end(saved);
  if (!p->value) {
    cni_free(p, sizeof *p);
    return cn_err() ? cn_err() : cni_fail(CN_ERR_GRAD, "saved: the hook that packs a value returned none");
  }
  *to = (cni_saved){&packed_mark, (uint64_t)(uintptr_t)p};
  return CN_OK;
}

static void drop_packed(cni_saved *s)
{
  packed *p = packed_at(s);
  if (p->hooks->free) p->hooks->free(p->value);
  cni_free(p, sizeof *p);
}

/* A packed value as a tensor again; NULL with the error set. */
static cn_tensor *unpacked(const cni_node *n, int k)
{
  packed *p = packed_at(&n->saved[k]);
  const cn_meta *want = &n->meta[k];
  cn_tensor *t = p->hooks->unpack(p->value);
  if (t && ((int)t->d.dtype != (int)want->dtype || t->d.ndim != want->ndim ||
            memcmp(t->d.shape, want->shape, (size_t)want->ndim * sizeof *want->shape) != 0)) {
    cni_fail(CN_ERR_GRAD, "backward of %s: the hook that unpacks a value returned one of another shape or type",
             cni_node_name(n));
    return NULL;
  }
  if (!t && !cn_err()) cni_fail(CN_ERR_GRAD, "saved: the hook that unpacks a value returned none");
  return t;
}

/* ---- values that the first write copies: t is a mark, version the address of this ---- */

struct cni_guarded {
  cn_tensor *t;         /* owned */
  cni_storage *storage; /* in whose list it is; NULL: t is a copy */
  bool captured;        /* made while a graph is captured: writes outside of it are none of its */
  struct cni_guarded *next, *before;
};

static cn_tensor guarded_mark;
static pthread_mutex_t guarding = PTHREAD_MUTEX_INITIALIZER; /* the lists of all storages */

static struct cni_guarded *guard_at(const cni_saved *s) { return (struct cni_guarded *)(uintptr_t)s->version; }

/* alias is taken over. */
static int guard(cni_saved *to, cn_tensor *alias)
{
  struct cni_guarded *g = cni_alloc(sizeof *g);
  if (!g) {
    cni_tensor_release(alias);
    return CN_ERR_MEMORY;
  }
  cni_storage *s = alias->storage;
  pthread_mutex_lock(&guarding);
  struct cni_guarded *next = atomic_load_explicit(&s->guards, memory_order_relaxed);
  *g = (struct cni_guarded){alias, s, cni_state()->capture != NULL, next, NULL};
  if (next) next->before = g;
  atomic_store_explicit(&s->guards, g, memory_order_release);
  pthread_mutex_unlock(&guarding);
  *to = (cni_saved){&guarded_mark, (uint64_t)(uintptr_t)g};
  return CN_OK;
}

/* Takes a guard out of its storage's list; the lock is held. */
static void unguard(struct cni_guarded *g)
{
  if (!g->storage) return;
  if (g->next) g->next->before = g->before;
  if (g->before) g->before->next = g->next;
  else atomic_store_explicit(&g->storage->guards, g->next, memory_order_release);
  g->storage = NULL;
}

static void drop_guarded(const cni_saved *s)
{
  struct cni_guarded *g = guard_at(s);
  pthread_mutex_lock(&guarding);
  unguard(g);
  pthread_mutex_unlock(&guarding);
  cni_tensor_release(g->t);
  cni_free(g, sizeof *g);
}

/* The first guard that a write here and now concerns; the lock is held. */
static struct cni_guarded *first_guard(const cni_storage *s)
{
  struct cni_guarded *g = atomic_load_explicit(&s->guards, memory_order_relaxed);
  while (g && g->captured != (cni_state()->capture != NULL)) g = g->next;
  return g;
}

/* Its value, kept; NULL: there is none. */
static cn_tensor *first_guarded(const cni_storage *s)
{
  pthread_mutex_lock(&guarding);
  const struct cni_guarded *g = first_guard(s);
  cn_tensor *t = g ? cni_tensor_keep(g->t) : NULL;
  pthread_mutex_unlock(&guarding);
  return t;
}

static int copy_first(cni_storage *s, cn_tensor *t)
{
  size_t depth = cni_scope_push();
  int saved = cn_no_grad_begin();
  cn_tensor *copy = cni_tensor_keep(cn_clone(t)), *old = copy;
  cn_no_grad_end(saved);
  pthread_mutex_lock(&guarding);
  struct cni_guarded *g = copy ? first_guard(s) : NULL;
  if (g && g->t == t) {
    unguard(g);
    old = g->t;
    g->t = copy;
  }
  pthread_mutex_unlock(&guarding);
  cni_tensor_release(old);
  cni_scope_pop(depth);
  return copy ? CN_OK : cn_err();
}

int cni_copy_guarded(cni_storage *s)
{
  int status = CN_OK;
  for (cn_tensor *t; !status && (t = first_guarded(s)); cni_tensor_release(t)) status = copy_first(s, t);
  return status;
}

/* ---- saved values ---- */

void cni_node_drop_saved(cni_node *n)
{
  for (int k = 0; n->has_saved && k < n->nin + n->nout; k++) {
    if (n->saved[k].t == &packed_mark) drop_packed(&n->saved[k]);
    else if (n->saved[k].t == &guarded_mark) drop_guarded(&n->saved[k]);
    else cni_tensor_release(n->saved[k].t);
    n->saved[k].t = NULL;
  }
  if (n->context) {
    cni_context_free(n->context);
    n->context = NULL;
    n->has_saved = true;
  }
  n->freed = true;
}

void cni_node_free(struct cni_node *n)
{
  cni_node_drop_saved(n);
  for (int k = 0; k < n->nin; k++) cni_node_release(n->edges[k].node);
  if (n->extra) {
    for (int k = 0; k < CNI_MAX_RETAINED; k++) cni_tensor_release(n->extra->grads[k]);
    cni_tensor_release(n->extra->places);
    for (size_t k = 0; k < n->extra->nhooks; k++)
      if (n->extra->hooks[k].free) n->extra->hooks[k].free(n->extra->hooks[k].payload);
    cni_free(n->extra->hooks, n->extra->hooks_cap * sizeof *n->extra->hooks);
    cni_free(n->extra, sizeof *n->extra);
  }
  cni_free(n, n->size);
}

/* The bit of slot k in an op's masks; 0: it has none. */
static uint32_t slot_bit(const cni_node *n, int k)
{
  if (k >= n->nin) return k - n->nin < 16 ? CN_OUT(k - n->nin) : 0;
  return k < 16 ? CN_IN(k) : 0;
}

int cni_node_save(cni_node *n, int k, cn_tensor *t)
{
  cn_tensor *alias = cni_tensor_alias(t);
  if (!alias) return CN_ERR_MEMORY;
  cn_state *st = cni_state();
  n->has_saved = true;
  if (CNI_UNLIKELY(st->capture != NULL) && t->view && cni_hooks.capture_saves(alias, t)) {
    cni_tensor_release(alias);
    return cn_err();
  }
  if (CNI_UNLIKELY(st->saved_hooks != NULL) && !t->d.weak) {
    int status = pack(&n->saved[k], st, alias);
    cni_tensor_release(alias);
    return status;
  }
  if (CNI_UNLIKELY(n->op && n->op->copied) && n->op->copied & slot_bit(n, k)) return guard(&n->saved[k], alias);
  if (CNI_UNLIKELY(st->copying != NULL) && cni_copies(st->copying, alias->storage)) return guard(&n->saved[k], alias);
  n->saved[k].t = alias;
  n->saved[k].version = cni_version(t);
  return CN_OK;
}

const char *cni_node_name(const cni_node *n)
{
  if (n->kind == CNI_NODE_LEAF) return "leaf";
  if (n->kind == CNI_NODE_FUNCTION) return n->context ? cni_context_name(n->context) : "custom function";
  const cni_opinfo *info = cni_op_info(n->op);
  return info ? info->name : "op";
}

cn_tensor *cni_node_unpack(cni_node *n, int k, bool history)
{
  cn_tensor *t = n->saved[k].t;
  if (!t) return NULL;
  bool own = t == &packed_mark || t == &guarded_mark;
  if (own && !(t = t == &packed_mark ? unpacked(n, k) : guard_at(&n->saved[k])->t)) return NULL;
  if (!own && cni_version(t) != n->saved[k].version) {
    char shape[CNI_SHAPE_TEXT];
    cni_fail(
        CN_ERR_GRAD,
        "backward of %s: a tensor of shape %s that it needs was changed in place after it was used (version %llu "
        "now, %llu then); clone it before the change",
        cni_node_name(n), cni_shape_text(shape, sizeof shape, t->d.ndim, t->d.shape),
        (unsigned long long)cni_version(t), (unsigned long long)n->saved[k].version);
    return NULL;
  }
  cni_node *producer = k < n->nin ? n->edges[k].node : n;
  if (!history || !producer || !cni_dtype_is_inexact(t->d.dtype)) return t;
  cn_tensor *linked = cni_scope_add(cni_tensor_alias(t));
  if (!linked) return NULL;
  linked->node = cni_node_keep(producer);
  linked->out_index = k < n->nin ? n->edges[k].index : k - n->nin;
  return linked;
}

cni_extra *cni_node_extra(cni_node *n)
{
  if (!n->extra) n->extra = cni_alloc_zero(sizeof *n->extra);
  return n->extra;
}

/* The history is fresh from here on: readers look at the version first. */
static void mark_fresh(cn_tensor *t)
{
  atomic_store_explicit(&t->node_version, cni_version(t), memory_order_release);
}

void cni_node_attach(cn_tensor *t, cni_node *node, int index)
{
  cni_node *old = t->node;
  t->node = node;
  t->out_index = index;
  mark_fresh(t);
  cni_node_release(old);
}

/* ---- views whose base was written to: history made anew ---- */

/* Links a stale view to the present history of its parent, which is fresh. *old: what it had, to be released. */
static int refresh(cn_tensor *t, cni_node **old)
{
  cn_tensor *parent = t->view->parent;
  if (!parent->node) {
    mark_fresh(t);
    return CN_OK; /* a leaf set on the view itself stays */
  }
  cni_node *n = cni_node_new(CNI_NODE_OP, 1, 1, t->view->args, t->view->nargs, (size_t)(parent->d.ndim + t->d.ndim));
  if (!n) return CN_ERR_MEMORY;
  int64_t *words = n->words;
  n->op = t->view->op;
  cni_node_link(n, 0, parent->node, parent->out_index);
  cni_node_meta(n, 0, &parent->d, &words);
  cni_node_meta(n, 1, &t->d, &words);
  *old = t->node;
  t->node = n;
  t->out_index = 0;
  mark_fresh(t);
  return CN_OK;
}

/* Threads that read one view bring its history up to date one after the other. */
static pthread_mutex_t refreshing = PTHREAD_MUTEX_INITIALIZER;

/* Refreshes t and the stale views it was made from, the one nearest to the base first. */
static int refresh_path(cn_tensor *t)
{
  typedef struct stale {
    cn_tensor *view;
    cni_node *old; /* to be released outside the lock: what it frees may call back */
  } stale;
  size_t n = 0, done;
  for (cn_tensor *v = t; cni_tensor_stale(v); v = v->view->parent) n++;
  stale *path = cni_alloc_zero(n * sizeof *path);
  if (!path) return CN_ERR_MEMORY;
  cn_tensor *v = t;
  for (size_t i = 0; i < n; i++, v = v->view->parent) path[i].view = v;
  int status = CN_OK;
  pthread_mutex_lock(&refreshing);
  for (done = n; done > 0 && !status; done--)
    if (cni_tensor_stale(path[done - 1].view)) status = refresh(path[done - 1].view, &path[done - 1].old);
  pthread_mutex_unlock(&refreshing);
  for (size_t i = 0; i < n; i++) cni_node_release(path[i].old);
  cni_free(path, n * sizeof *path);
  return status;
}

cni_node *cni_node_refreshed(cn_tensor *t)
{
  while (cni_tensor_stale(t))
    if (refresh_path(t)) return NULL;
  return t->node;
}
