/* recording_pool.c: memory of recordings: it stays at its address, and with the pool, until nobody needs it any more.
 *
 * Place in the flow: memory.c takes a tensor's memory from here while its thread records, and hands back what it frees.
 * Invariants: a block is given to the backend only when no recording and no tensor of its pool is left; the table of
 * all blocks, by address, and everything in pools changes under the lock. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/families.h"
#include "recording.h"
#include "registry.h"

enum { LEAST = 512, STEPS = 8 };

typedef struct block {
  struct block *next; /* of the pool */
  cn_recording_pool *pool;
  void *memory;
  size_t size;
  bool held; /* by a tensor */
} block;

struct cn_recording_pool {
  int64_t refs; /* of owners, recordings, and blocks that are held */
  cn_device device;
  block *blocks;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block **all; /* by address */
static size_t nall, all_cap;
static atomic_size_t known; /* nall, without the lock */

/* How many blocks begin below that address. */
static size_t place_of(const void *memory)
{
  size_t low = 0, high = nall;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uintptr_t)all[middle]->memory < (uintptr_t)memory) low = middle + 1;
    else high = middle;
  }
  return low;
}

static bool list(block *b)
{
  if (cni_grow((void **)&all, &all_cap, nall + 1, sizeof *all)) return false;
  size_t place = place_of(b->memory);
  memmove(all + place + 1, all + place, (nall - place) * sizeof *all);
  all[place] = b;
  atomic_store(&known, ++nall);
  b->next = b->pool->blocks;
  b->pool->blocks = b;
  return true;
}

static void unlist(const block *b)
{
  size_t place = place_of(b->memory);
  memmove(all + place, all + place + 1, (--nall - place) * sizeof *all);
  atomic_store(&known, nall);
  if (nall) return;
  cni_free(all, all_cap * sizeof *all);
  all = NULL;
  all_cap = 0;
}

/* ---- life ---- */

cn_recording_pool *cn_recording_pool_new(cn_device device)
{
  cni_init();
  if (cn_err() || !cni_backend_of(device)) return NULL;
  cn_recording_pool *p = cni_alloc_zero(sizeof *p);
  if (!p) return NULL;
  p->refs = 1;
  p->device = device;
  return p;
}

cn_device cni_pool_device(const cn_recording_pool *p) { return p->device; }

cn_recording_pool *cni_pool_keep(cn_recording_pool *p)
{
  pthread_mutex_lock(&lock);
  p->refs++;
  pthread_mutex_unlock(&lock);
  return p;
}

static void end(cn_recording_pool *p)
{
  const cn_backend *backend = cni_backend_at((p->device >> 8) - 1);
  for (block *b = p->blocks, *next; b; b = next) {
    next = b->next;
    backend->free(cni_device_index(p->device), b->memory, b->size, NULL);
    cni_free(b, sizeof *b);
  }
  cni_free(p, sizeof *p);
}

/* b: a block that is not held any more, or NULL. Its memory must not be known when the backend hands it out again. */
static void drop(cn_recording_pool *p, block *b)
{
  pthread_mutex_lock(&lock);
  if (b) b->held = false;
  bool last = --p->refs == 0;
  for (block *each = last ? p->blocks : NULL; each; each = each->next) unlist(each);
  pthread_mutex_unlock(&lock);
  if (last) end(p);
}

void cn_recording_pool_free(cn_recording_pool *p)
{
  if (p) drop(p, NULL);
}

/* ---- blocks ---- */

/* Rounded up so that a block fits whoever asks for about as much. */
static size_t rounded(size_t size)
{
  size_t step = LEAST;
  if (size < LEAST) size = LEAST;
  while (step * STEPS * 2 < size) step *= 2;
  return (size + step - 1) / step * step;
}

static void *new_block(cn_recording_pool *p, size_t size)
{
  const cn_backend *backend = cni_backend_at((p->device >> 8) - 1);
  int index = cni_device_index(p->device);
  block *b = cni_alloc(sizeof *b);
  void *memory = b ? backend->alloc(index, size, NULL) : NULL;
  if (memory) {
    *b = (block){.pool = p, .memory = memory, .size = size, .held = true};
    pthread_mutex_lock(&lock);
    bool listed = list(b);
    p->refs += listed;
    pthread_mutex_unlock(&lock);
    if (listed) return memory;
    backend->free(index, memory, size, NULL);
  }
  if (b) cni_free(b, sizeof *b);
  return NULL;
}

void *cni_pool_alloc(cn_recording_pool *p, size_t size)
{
  size = rounded(size);
  pthread_mutex_lock(&lock);
  block *b = p->blocks;
  while (b && (b->held || b->size != size)) b = b->next;
  if (b) {
    b->held = true;
    p->refs++;
  }
  pthread_mutex_unlock(&lock);
  return b ? b->memory : new_block(p, size);
}

bool cni_pool_give_back(void *memory)
{
  if (!atomic_load(&known)) return false;
  pthread_mutex_lock(&lock);
  size_t place = place_of(memory);
  block *b = place < nall && all[place]->memory == memory ? all[place] : NULL;
  pthread_mutex_unlock(&lock);
  if (b) drop(b->pool, b);
  return b != NULL;
}
