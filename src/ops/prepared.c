/* prepared.c: see prepared.h. */
#include "prepared.h"

#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "table.h"
#include "tensor/tensor.h"

enum { MOST_INPUTS = 4 }; /* that one form is made of */

/* An input as it was when something was made of it. */
typedef struct source {
  cni_storage *storage; /* owned, so that no other memory gets its address */
  uint64_t version;
  cn_desc d;
} source;

typedef struct cni_prepared_item {
  struct cni_prepared_item *next; /* in the store */
  _Atomic int32_t refs;
  int (*prepare)(const cn_call *call, cn_prepared *prepared);
  cn_prepared made; /* its memory is owned */
  source from[MOST_INPUTS];
  int nfrom;
} item;

struct cni_prepared_store {
  _Atomic int32_t refs;
  pthread_mutex_t lock;
  item *first;
};

static _Atomic size_t made_so_far;
size_t cni_prepared_made(void) { return atomic_load(&made_so_far); }

static void item_release(item *i)
{
  if (!i || !cni_refs_end(&i->refs)) return;
  for (int k = 0; k < i->nfrom; k++) cni_storage_release(i->from[k].storage);
  cni_free(i->made.memory, i->made.bytes);
  cni_free(i, sizeof *i);
}

static item *item_keep(item *i)
{
  atomic_fetch_add_explicit(&i->refs, 1, memory_order_relaxed);
  return i;
}

cni_prepared_store *cni_prepared_store_new(void)
{
  cni_prepared_store *s = cni_alloc_zero(sizeof *s);
  if (!s) return NULL;
  atomic_init(&s->refs, 1);
  pthread_mutex_init(&s->lock, NULL);
  return s;
}

cni_prepared_store *cni_prepared_store_keep(cni_prepared_store *s)
{
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

void cni_prepared_store_release(cni_prepared_store *s)
{
  if (!s || !cni_refs_end(&s->refs)) return;
  while (s->first) {
    item *next = s->first->next;
    item_release(s->first);
    s->first = next;
  }
  pthread_mutex_destroy(&s->lock);
  cni_free(s, sizeof *s);
}

void cni_prepared_slot_clear(cni_prepared_slot *slot)
{
  item_release(slot->item);
  slot->item = NULL;
}

/* ---- is it what the inputs hold? ---- */

static bool same_source(const source *s, const cn_tensor *t)
{
  return s->storage == t->storage && s->version == cni_writes(t) && s->d.data == t->d.data &&
         s->d.dtype == t->d.dtype && cni_same_layout(&s->d, &t->d);
}

static bool fits(const item *i, const cn_call *c, const cn_kernel *k, const cn_prepared *want)
{
  int n = 0;
  if (i->prepare != k->prepare || i->made.bytes != want->bytes || i->made.of != want->of || i->made.form != want->form)
    return false;
  for (int b = 0; b < c->nin; b++)
    if (want->of >> b & 1 && !same_source(&i->from[n++], c->in[b])) return false;
  return true;
}

/* The memory that it was made of has been written to: it serves nobody any more. */
static bool is_stale(const item *i)
{
  for (int k = 0; k < i->nfrom; k++)
    if (i->from[k].version != cni_storage_writes(i->from[k].storage)) return true;
  return false;
}

/* ---- finding and making ---- */

/* With the lock. */
static void drop_stale(cni_prepared_store *s)
{
  for (item **at = &s->first; *at;) {
    item *i = *at;
    if (is_stale(i)) *at = i->next, item_release(i);
    else at = &i->next;
  }
}

static item *make(const cn_call *c, const cn_kernel *k, const cn_prepared *want)
{
  item *i = cni_alloc_zero(sizeof *i);
  if (!i) return NULL;
  atomic_init(&i->refs, 1);
  i->prepare = k->prepare;
  i->made = *want;
  i->made.memory = cni_alloc(want->bytes);
  for (int b = 0; b < c->nin; b++)
    if (want->of >> b & 1)
      i->from[i->nfrom++] = (source){cni_storage_keep(c->in[b]->storage), cni_writes(c->in[b]), c->in[b]->d};
  if (i->made.memory && k->prepare(c, &i->made) == CN_OK && !cn_err()) return i;
  item_release(i);
  return NULL;
}

/* A reference; NULL: not to be had. Made with the lock held: contexts that want the same one share the first's. */
static item *find_or_make(cni_prepared_store *s, const cn_call *c, const cn_kernel *k, const cn_prepared *want)
{
  pthread_mutex_lock(&s->lock);
  drop_stale(s);
  item *i = s->first;
  while (i && !fits(i, c, k, want)) i = i->next;
  if (!i && (i = make(c, k, want))) {
    i->next = s->first;
    s->first = i;
    atomic_fetch_add_explicit(&made_so_far, 1, memory_order_relaxed);
    if (cni_verbose(CNI_TOPIC_DISPATCH))
      cni_log(CN_LOG_DEBUG, CNI_TOPIC_DISPATCH, "%s: %s keeps %zu bytes made of weights", cni_op_info(c->op)->name,
              k->name, want->bytes);
  }
  if (i) item_keep(i);
  else cn_err_clear(); /* there was no memory: the kernel does without */
  pthread_mutex_unlock(&s->lock);
  return i;
}

/* The slot's item does not fit any more. */
static void let_go(const cni_keep *keep)
{
  cni_prepared_slot_clear(keep->slot);
  pthread_mutex_lock(&keep->store->lock);
  drop_stale(keep->store);
  pthread_mutex_unlock(&keep->store->lock);
}

/* How often the inputs that are asked for were written to, and one; 0: they cannot be kept. */
static uint64_t written(const cn_call *c, const cn_prepared *want, uint32_t stays)
{
  uint64_t sum = 1;
  int n = 0;
  if (!want->of || want->of & ~stays) return 0;
  for (int b = 0; b < c->nin; b++) {
    if (!(want->of >> b & 1)) continue;
    if (++n > MOST_INPUTS || atomic_load_explicit(&c->in[b]->storage->shown, memory_order_relaxed)) return 0;
    sum += cni_writes(c->in[b]);
  }
  return sum;
}

const cn_prepared *cni_prepared_for(const cn_call *c, const cn_kernel *k)
{
  const cni_keep *keep = c->keep;
  cni_prepared_slot *slot = keep->slot;
  cn_prepared want = {.size = sizeof want};
  if (k->prepare(c, &want) || !want.bytes) return NULL;
  uint64_t now = written(c, &want, keep->stays);
  if (slot->item && now && fits(slot->item, c, k, &want)) return &slot->item->made;
  if (slot->item) let_go(keep);
  bool settled = now && slot->seen == now;
  slot->seen = now;
  if (settled) slot->item = find_or_make(keep->store, c, k, &want);
  return slot->item ? &slot->item->made : NULL;
}
