/* scope.c: scopes, which own the results of ops until they end.
 *
 * Place in the flow: apply.c adds every result to the innermost scope. Invariant: items[] of a state is a stack; a
 * scope is the part above its first item; a slot taken out of the middle is left NULL. */
#include <string.h>

#include "base/log.h"
#include "tensor.h"

enum { ROOT_WARNING = 1 << 20 };

/* Relaxed: a tensor that several threads were given (a result that is its input, say) remembers one of its places, and
 * each thread checks what it finds. */
static inline cn_tensor *add(cn_state *s, cn_tensor *t)
{
  atomic_store_explicit(&t->scope_slot, (uint32_t)s->nitems, memory_order_relaxed);
  return s->items[s->nitems++] = t;
}

/* Where there is no room for one more, or so many that it should be said. */
static CNI_APART cn_tensor *grow_and_add(cn_state *s, cn_tensor *t)
{
  if (cni_grow((void **)&s->items, &s->items_cap, s->nitems + 1, sizeof *s->items)) {
    cni_tensor_release(t);
    return NULL;
  }
  if (s->nframes == 0 && s->nitems == ROOT_WARNING && !s->root_warned) {
    s->root_warned = true;
    cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS,
            "%d results were made outside any scope and are all kept: open one with cn_scope_begin in the loop",
            ROOT_WARNING);
  }
  return add(s, t);
}

cn_tensor *cni_scope_add(cn_tensor *t)
{
  cn_state *s = cni_state();
  if (!t) return NULL;
  return CNI_LIKELY(s->nitems < s->items_cap && s->nitems != ROOT_WARNING) ? add(s, t) : grow_and_add(s, t);
}

static uint32_t slot_of(const cn_tensor *t) { return atomic_load_explicit(&t->scope_slot, memory_order_relaxed); }

cn_tensor *cni_scope_take(cn_tensor *t)
{
  cn_state *s = cni_state();
  if (!t) return NULL;
  uint32_t slot = slot_of(t);
  if (slot >= s->nitems || s->items[slot] != t) return cni_tensor_keep(t);
  s->items[slot] = NULL;
  size_t floor = s->nframes ? s->frames[s->nframes - 1].first : 0;
  while (s->nitems > floor && !s->items[s->nitems - 1]) s->nitems--;
  return t;
}

cn_tensor *cni_scope_take_inside(size_t depth, cn_tensor *t)
{
  cn_state *s = cni_state();
  if (t && depth && depth <= s->nframes && slot_of(t) < s->frames[depth - 1].first) return cni_tensor_keep(t);
  return cni_scope_take(t);
}

static void release_from(cn_state *s, size_t first)
{
  while (s->nitems > first) cni_tensor_release(s->items[--s->nitems]);
}

static CNI_APART int grow_frames(cn_state *s)
{
  return cni_grow((void **)&s->frames, &s->frames_cap, s->nframes + 1, sizeof *s->frames);
}

static inline size_t push(cn_state *s)
{
  if (CNI_UNLIKELY(s->nframes == s->frames_cap) && grow_frames(s)) return 0;
  s->frames[s->nframes].first = s->nitems;
  s->frames[s->nframes].serial = ++s->frame_serial;
  return ++s->nframes;
}

static inline void pop(cn_state *s, size_t depth)
{
  while (s->nframes >= depth) release_from(s, s->frames[--s->nframes].first);
}

size_t cni_scope_push(void) { return push(cni_state()); }

void cni_scope_pop(size_t depth)
{
  if (depth) pop(cni_state(), depth);
}

enum { DEPTH_BITS = 24 };

cn_scope *cn_scope_begin(void)
{
  cn_state *s = cni_state();
  size_t depth = push(s);
  return depth ? (cn_scope *)(uintptr_t)(s->frame_serial << DEPTH_BITS | depth) : NULL;
}

void cn_scope_end(cn_scope *scope)
{
  cn_state *s = cni_state();
  uint64_t handle = (uint64_t)(uintptr_t)scope;
  size_t depth = handle & ((1u << DEPTH_BITS) - 1);
  if (!depth || depth > s->nframes) return;                                /* NULL, or ended before */
  if ((s->frames[depth - 1].serial ^ handle >> DEPTH_BITS) << DEPTH_BITS) return; /* another scope stands there now */
  pop(s, depth);
}

cn_tensor *cn_scope_return(cn_scope *scope, cn_tensor *t)
{
  cn_tensor *kept = cni_scope_take(t);
  cn_scope_end(scope);
  return cni_scope_add(kept);
}

cn_tensor *cn_scope_give(cn_tensor *t) { return cni_scope_add(t); }

int cn_set(cn_tensor **variable, cn_tensor *value)
{
  if (!value) return cn_err() ? cn_err() : cni_fail(CN_ERR_VALUE, "cn_set: the value is NULL");
  cn_tensor *old = *variable;
  *variable = cni_scope_take(value);
  cni_tensor_release(old);
  return CN_OK;
}

void cni_scope_state_exit(cn_state *s)
{
  s->nframes = 0;
  release_from(s, 0);
  cni_free(s->items, s->items_cap * sizeof *s->items);
  cni_free(s->frames, s->frames_cap * sizeof *s->frames);
  s->items = NULL;
  s->frames = NULL;
  s->items_cap = s->frames_cap = 0;
}
