/* alloc_large.c: see alloc_large.h.
 *
 * A freed block goes to the list of its size class, where the next one of that size finds it, warm and at once. When
 * that list is empty, all listed blocks are put together with their neighbours, and the best fitting piece is cut: so
 * blocks of one size become room for those of another, and a program holds little more than it ever used at once.
 *
 * Invariant: `pieces` covers every segment without gaps, in the order of addresses; what is listed or handed out is a
 * piece that is not free. */
#include "alloc_large.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "os.h"

enum { CLASSES = 8 * 40 /* 8 per octave above 128 KiB */, FIRST_PIECES = 1024, KEPT = 512 << 20 };

typedef struct block {
  struct block *next;
} block;

typedef struct piece {
  char *base;
  size_t size;
  bool first; /* of its segment */
  bool free;  /* and in no list */
} piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *listed[CLASSES];
static piece first_pieces[FIRST_PIECES], *pieces = first_pieces;
static size_t npieces, room = FIRST_PIECES;
static size_t held, most_busy; /* bytes of all segments; the most in use at once since the last flush */
static size_t kept = KEPT;     /* what may be free in any case */
static size_t returned;        /* because more was free, and not asked for again since */
static _Atomic size_t cached;  /* listed or free */

static int size_class(size_t size, size_t *rounded)
{
  int octave = 63 - __builtin_clzll(size - 1);
  size_t part = (size_t)1 << (octave - 3), k = (size - 1 - ((size_t)1 << octave)) / part;
  *rounded = ((size_t)1 << octave) + (k + 1) * part;
  return (octave - 17) * 8 + (int)k;
}

/* ---- forks: a thread that is not there in the child may hold the lock ---- */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void set_fork_handlers(void) { pthread_atfork(before_fork, after_fork, after_fork); }

void cni_large_survives_forks(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, set_fork_handlers);
}

/* ---- pieces; all under the lock ---- */

/* Room for one piece more. Its memory is the system's own: it must not count as the program's. */
static bool grow(void)
{
  if (npieces < room) return true;
  piece *more = cni_os_alloc(2 * room * sizeof *more);
  if (!more) return false;
  memcpy(more, pieces, npieces * sizeof *more);
  if (pieces != first_pieces) cni_os_free(pieces, room * sizeof *pieces);
  pieces = more;
  room *= 2;
  return true;
}

/* The first piece at or behind an address. */
static size_t find(const char *base)
{
  size_t low = 0, high = npieces;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if ((uintptr_t)pieces[middle].base < (uintptr_t)base) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void insert(size_t i, piece p)
{
  memmove(&pieces[i + 1], &pieces[i], (npieces - i) * sizeof *pieces);
  pieces[i] = p;
  npieces++;
}

/* Empties all lists and joins free neighbours. */
static void merge(void)
{
  for (int c = 0; c < CLASSES; c++)
    while (listed[c]) {
      block *b = listed[c];
      listed[c] = b->next;
      cni_cover(b, sizeof *b);
      pieces[find((char *)b)].free = true;
    }
  size_t n = 0;
  for (size_t i = 0; i < npieces; i++) {
    piece *last = n ? &pieces[n - 1] : NULL;
    if (last && last->free && pieces[i].free && !pieces[i].first) last->size += pieces[i].size;
    else pieces[n++] = pieces[i];
  }
  npieces = n;
}

/* Cuts a block out of the smallest free piece that is large enough; NULL: there is none. */
static void *cut(size_t size)
{
  size_t best = npieces;
  for (size_t i = 0; i < npieces; i++)
    if (pieces[i].free && pieces[i].size >= size && (best == npieces || pieces[i].size < pieces[best].size)) best = i;
  if (best == npieces || !grow()) return NULL;
  piece *p = &pieces[best], rest = {p->base + size, p->size - size, false, true};
  p->free = false;
  p->size = size;
  void *base = p->base;
  if (rest.size) insert(best + 1, rest);
  atomic_fetch_sub(&cached, size);
  cni_uncover(base, size);
  return base;
}

static bool whole(size_t i)
{
  return pieces[i].free && pieces[i].first && (i + 1 == npieces || pieces[i + 1].first);
}

/* Gives whole free segments back, large ones first, until no more than `most` bytes are held. */
static void shrink(size_t most)
{
  while (held > most) {
    size_t best = npieces;
    for (size_t i = 0; i < npieces; i++)
      if (whole(i) && (best == npieces || pieces[i].size > pieces[best].size)) best = i;
    if (best == npieces) return;
    piece p = pieces[best];
    memmove(&pieces[best], &pieces[best + 1], (--npieces - best) * sizeof *pieces);
    held -= p.size;
    atomic_fetch_sub(&cached, p.size);
    cni_uncover(p.base, p.size);
    cni_origin_free(p.base, p.size);
  }
}

/* ---- blocks ---- */

static void *from_cache(int c, size_t size)
{
  block *b = listed[c];
  if (b) {
    listed[c] = b->next;
    atomic_fetch_sub(&cached, size);
    cni_uncover(b, size);
    return b;
  }
  merge();
  return cut(size);
}

static bool add_segment(void *base, size_t size)
{
  if (!grow()) return false;
  insert(find(base), (piece){base, size, true, false});
  held += size;
  return true;
}

/* Memory that went back and is wanted again is kept from then on: a loop whose steps need more than the cache holds
 * would bring it in anew each time, page by page. */
static void keep_more(size_t wanted)
{
  size_t again = wanted < returned ? wanted : returned;
  returned -= again;
  kept += again;
}

/* A new segment may bring what is held to an eighth more than was ever needed at once; before it does more, others
 * that are free go back. */
void *cni_large_alloc(size_t size)
{
  size_t rounded;
  int c = size_class(size, &rounded);
  if (c >= CLASSES) return NULL;
  cni_large_survives_forks();
  pthread_mutex_lock(&lock);
  void *p = from_cache(c, rounded);
  size_t busy = held - atomic_load(&cached) + (p ? 0 : rounded);
  if (busy > most_busy) most_busy = busy;
  if (!p) {
    shrink(most_busy + most_busy / 8 > rounded ? most_busy + most_busy / 8 - rounded : 0);
    keep_more(rounded);
  }
  pthread_mutex_unlock(&lock);
  if (p || !(p = cni_origin_alloc(rounded))) return p;
  pthread_mutex_lock(&lock);
  bool added = add_segment(p, rounded);
  pthread_mutex_unlock(&lock);
  if (added) return p;
  cni_origin_free(p, rounded);
  return NULL;
}

/* The cache may hold as much as is in use besides it, and what is kept in any case. */
void cni_large_free(void *p, size_t size, bool keep)
{
  size_t rounded;
  int c = size_class(size, &rounded);
  pthread_mutex_lock(&lock);
  block *b = p;
  b->next = listed[c];
  listed[c] = b;
  cni_cover(b + 1, rounded - sizeof *b);
  size_t idle = atomic_fetch_add(&cached, rounded) + rounded, busy = held - idle;
  size_t most = !keep ? 0 : busy > kept ? busy : kept;
  if (idle > most) {
    size_t before = held;
    merge();
    shrink(busy + most);
    if (keep) returned += before - held;
  }
  pthread_mutex_unlock(&lock);
}

void cni_large_flush(void)
{
  pthread_mutex_lock(&lock);
  merge();
  shrink(0);
  most_busy = held - atomic_load(&cached);
  kept = KEPT;
  returned = 0;
  pthread_mutex_unlock(&lock);
}

size_t cni_large_cached(void) { return atomic_load(&cached); }
