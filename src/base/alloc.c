/* alloc.c: caching allocation. Small blocks (up to 256 KiB) are kept in lists of the thread's state, large ones in
 * one shared cache (alloc_large.c), so that a loop which makes and drops the same buffers touches no page twice.
 *
 * Invariant: a block's size class follows from its size alone, so no block carries a header. */
#include "alloc.h"

#include <stdatomic.h>
#include <string.h>

#include "alloc_large.h"
#include "os.h"

enum {
  STEP = 64,             /* classes 0..15: multiples of 64 */
  LINEAR = 16,
  SMALL_MAX = 256 << 10 /* then 4 classes per octave up to here */
};

static cn_allocator hook;
static _Atomic bool caching_off;
static _Atomic size_t in_use, peak, limit;
static _Atomic uint64_t allocations;
static _Atomic uint64_t fail_countdown;

/* ---- the hook ---- */

int cn_set_allocator(const cn_allocator *allocator)
{
  if (allocator && (!allocator->alloc || !allocator->free))
    return cni_fail(CN_ERR_VALUE, "allocator: both alloc and free must be given");
  if (atomic_load(&in_use) != cni_large_cached())
    return cni_fail(CN_ERR_VALUE, "allocator: must be set before anything is allocated");
  cn_memory_trim();
  hook = allocator ? *allocator : (cn_allocator){0};
  return CN_OK;
}

static void *hook_try(size_t size)
{
  size_t max = atomic_load_explicit(&limit, memory_order_relaxed);
  if (CNI_UNLIKELY(max && atomic_load(&in_use) + size > max)) return NULL;
  void *p = hook.alloc ? hook.alloc(size, hook.payload) : cni_os_alloc(size);
  if (!p) return NULL;
  size_t now = atomic_fetch_add(&in_use, size) + size, top = atomic_load(&peak);
  while (now > top && !atomic_compare_exchange_weak(&peak, &top, now)) {}
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return p;
}

static bool chosen_to_fail(void)
{
  uint64_t k = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
  return CNI_UNLIKELY(k) && atomic_fetch_sub(&fail_countdown, 1) == 1;
}

void *cni_origin_alloc(size_t size)
{
  if (chosen_to_fail()) return NULL;
  void *p = hook_try(size);
  if (p) return p;
  cn_memory_trim();
  return hook_try(size);
}

void cni_origin_free(void *p, size_t size)
{
  atomic_fetch_sub(&in_use, size);
  if (hook.free) hook.free(p, size, hook.payload);
  else cni_os_free(p, size);
}

/* ---- size classes ---- */

static inline int top_bit(size_t x) { return 63 - __builtin_clzll(x); }

/* Class of a small size and, in *rounded, the size of its blocks. */
static inline int small_class(size_t size, size_t *rounded)
{
  if (size <= STEP * LINEAR) {
    size_t c = size ? (size - 1) / STEP : 0;
    *rounded = (c + 1) * STEP;
    return (int)c;
  }
  int octave = top_bit(size - 1); /* 2^octave < size <= 2^(octave+1) */
  size_t part = (size_t)1 << (octave - 2), k = (size - 1 - ((size_t)1 << octave)) / part;
  *rounded = ((size_t)1 << octave) + (k + 1) * part;
  return LINEAR + (octave - 10) * 4 + (int)k;
}

/* ---- small blocks ---- */

void cni_pool_init(cn_state *s)
{
  size_t rounded;
  for (int i = 0; i < CNI_POOL_CLASSES; i++) s->pool[i].keep = 4;
  for (size_t size = 1; size <= SMALL_MAX; size += STEP) {
    int c = small_class(size, &rounded);
    s->pool[c].keep = (uint32_t)(4 + (512u << 10) / rounded / 2);
  }
}

/* Takes the newest block from a list. */
static inline void *take(cni_pool_list *list, void *p, size_t rounded)
{
  memcpy(&list->head, p, sizeof(void *));
  list->count--;
  cni_uncover(p, rounded);
  return p;
}

static inline void put(cni_pool_list *list, void *p, size_t rounded)
{
  memcpy(p, &list->head, sizeof(void *));
  list->head = p;
  list->count++;
  cni_cover((char *)p + sizeof(void *), rounded - sizeof(void *)); /* all but the link to the next block */
}

static void *small_alloc(cn_state *s, size_t size)
{
  size_t rounded;
  cni_pool_list *list = &s->pool[small_class(size, &rounded)];
  /* With caching off, what another thread's lists still hold stays there: taking it would hand it back to the system
   * in the end, and memory in use would seem to shrink. */
  if (CNI_LIKELY(list->head != NULL && !atomic_load_explicit(&caching_off, memory_order_relaxed)))
    return take(list, list->head, rounded);
  return cni_origin_alloc(rounded);
}

static void small_free(cn_state *s, void *p, size_t size)
{
  size_t rounded;
  cni_pool_list *list = &s->pool[small_class(size, &rounded)];
  if (CNI_LIKELY(list->count < list->keep && s->pooled && !caching_off)) put(list, p, rounded);
  else cni_origin_free(p, rounded);
}

static size_t class_size(int c)
{
  if (c < LINEAR) return (size_t)(c + 1) * STEP;
  int octave = 10 + (c - LINEAR) / 4;
  return ((size_t)1 << octave) + (size_t)((c - LINEAR) % 4 + 1) * ((size_t)1 << (octave - 2));
}

void cni_pool_flush(cn_state *s)
{
  for (int c = 0; c < CNI_POOL_CLASSES; c++) {
    cni_pool_list *list = &s->pool[c];
    while (list->head) {
      void *p = list->head;
      memcpy(&list->head, p, sizeof(void *));
      cni_uncover(p, class_size(c));
      cni_origin_free(p, class_size(c));
    }
    list->count = 0;
  }
}

/* ---- what the rest of cairn calls ---- */

static CNI_APART void *alloc_other(size_t size)
{
  void *p = size <= SMALL_MAX ? small_alloc(cni_state(), size) : cni_large_alloc(size);
  if (!p) cni_fail_memory(size);
  return p;
}

/* The way of nearly every call: a block of a linear class, there in the thread's list. */
void *cni_alloc(size_t size)
{
  cn_state *s = cni_tls_state;
  if (CNI_LIKELY(s && size - 1 < STEP * LINEAR && !atomic_load_explicit(&caching_off, memory_order_relaxed))) {
    cni_pool_list *list = &s->pool[(size - 1) / STEP];
    void *p = list->head;
    if (CNI_LIKELY(p != NULL)) return take(list, p, ((size - 1) / STEP + 1) * STEP);
  }
  return alloc_other(size);
}

void *cni_alloc_zero(size_t size)
{
  void *p = cni_alloc(size);
  if (p) memset(p, 0, size);
  return p;
}

static CNI_APART void free_other(void *p, size_t size)
{
  if (!p) return;
  if (size <= SMALL_MAX) small_free(cni_state(), p, size);
  else cni_large_free(p, size, !caching_off);
}

void cni_free(void *p, size_t size)
{
  cn_state *s = cni_tls_state;
  if (CNI_LIKELY(p && s && size - 1 < STEP * LINEAR)) {
    cni_pool_list *list = &s->pool[(size - 1) / STEP];
    if (CNI_LIKELY(list->count < list->keep && !atomic_load_explicit(&caching_off, memory_order_relaxed))) {
      put(list, p, ((size - 1) / STEP + 1) * STEP);
      return;
    }
  }
  free_other(p, size);
}

int cni_grow(void **array, size_t *cap, size_t need, size_t elem)
{
  if (need <= *cap) return CN_OK;
  size_t want = *cap + *cap / 2 > need ? *cap + *cap / 2 : need, bytes;
  if (want < 8) want = 8;
  if (cni_mul_overflows(want, elem, &bytes)) return cni_fail_memory(SIZE_MAX);
  void *p = cni_alloc(bytes);
  if (!p) return CN_ERR_MEMORY;
  if (*cap) memcpy(p, *array, *cap * elem);
  cni_free(*array, *cap * elem);
  *array = p;
  *cap = want;
  return CN_OK;
}

char *cni_strdup(const char *s)
{
  size_t n = strlen(s) + 1;
  char *copy = cni_alloc(n);
  if (copy) memcpy(copy, s, n);
  return copy;
}

void cni_strfree(char *s)
{
  if (s) cni_free(s, strlen(s) + 1);
}

void cn_memory_get_stats(cn_memory_stats *stats)
{
  if (!stats) return;
  cn_state *s = cni_state();
  size_t small = 0;
  for (int c = 0; c < CNI_POOL_CLASSES; c++) small += s->pool[c].count * class_size(c);
  stats->in_use = atomic_load(&in_use);
  stats->cached = cni_large_cached() + small;
  stats->peak = atomic_load(&peak);
  stats->allocations = atomic_load(&allocations);
}

void cn_memory_reset_peak(void) { atomic_store(&peak, atomic_load(&in_use)); }
void cn_memory_set_limit(size_t bytes) { atomic_store(&limit, bytes); }
void cn_memory_fail_at(uint64_t k) { atomic_store(&fail_countdown, k); }

void cn_memory_set_caching(bool on)
{
  caching_off = !on;
  if (!on) cn_memory_trim();
}

void cn_memory_trim(void)
{
  cni_pool_flush(cni_state());
  cni_large_flush();
}
