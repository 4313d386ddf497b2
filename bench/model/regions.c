/* regions.c: what bench/scaling needs to know about parallel regions: into how many pieces each one is cut, how long
 * each piece takes, and what lies between regions.
 *
 * Linked with a program of bench/cairn and the archive, whose calls of cni_parallel_for and pthread_create come here
 * first (the linker's --wrap), so the library has no hook for it. No worker ever starts: a region is cut as it would be
 * for CAIRN_NUM_THREADS, and its pieces run on the caller's thread in the order in which they are dealt. When the
 * program ends everything is written to the file BENCH_REGIONS.
 *
 * Invariant: one thread computes; a piece is timed alone, with the caches as the piece before it left them. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/ext/system.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FIRST_ROOM = 1 << 16 };

typedef struct region {
  cn_range_fn fn;
  double begin, end;
  long first, count; /* of its pieces */
} region;

static region *regions;
static float *pieces; /* seconds */
static long nregions, npieces, region_room, piece_room;

typedef struct watched {
  cn_range_fn fn;
  void *payload;
} watched;

void __real_cni_parallel_for(int64_t n, int64_t grain, cn_range_fn fn, void *payload);
void __wrap_cni_parallel_for(int64_t n, int64_t grain, cn_range_fn fn, void *payload);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Room for one more of `size` bytes each. */
static void *with_room(void *items, long count, long *room, size_t size)
{
  if (count < *room) return items;
  *room = *room ? 2 * *room : FIRST_ROOM;
  items = realloc(items, (size_t)*room * size);
  if (!items) exit(3);
  return items;
}

static void write_all(void)
{
  const char *path = getenv("BENCH_REGIONS");
  FILE *f = path ? fopen(path, "w") : NULL;
  for (long i = 0; f && i < nregions; i++) {
    const region *r = &regions[i];
    fprintf(f, "%lx %.9f %.9f", (unsigned long)(uintptr_t)r->fn, r->begin, r->end);
    for (long k = 0; k < r->count; k++) fprintf(f, " %.3g", (double)pieces[r->first + k]);
    fputc('\n', f);
  }
  if (f) fclose(f);
}

static void piece(int64_t begin, int64_t end, void *payload)
{
  const watched *w = payload;
  double start = now();
  w->fn(begin, end, w->payload);
  pieces = with_room(pieces, npieces, &piece_room, sizeof *pieces);
  pieces[npieces++] = (float)(now() - start);
}

void __wrap_cni_parallel_for(int64_t n, int64_t grain, cn_range_fn fn, void *payload)
{
  static int inside;
  if (inside || n <= 0) {
    __real_cni_parallel_for(n, grain, fn, payload);
    return;
  }
  if (!regions) atexit(write_all);
  regions = with_room(regions, nregions, &region_room, sizeof *regions);
  region r = {.fn = fn, .begin = now(), .first = npieces};
  watched w = {fn, payload};
  inside = 1;
  __real_cni_parallel_for(n, grain, piece, &w);
  inside = 0;
  r.end = now();
  r.count = npieces - r.first;
  regions[nregions++] = r;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
  (void)thread, (void)attr, (void)start, (void)arg;
  return EAGAIN;
}
