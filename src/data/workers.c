/* workers.c: threads that make numbered items ahead of their consumer, who gets them in order. See loader.h.
 *
 * Place in the flow: below loader.c. Each worker takes the next number and puts the item into its place in a ring,
 * whose size bounds how far ahead they run; slow items never change the order. A forked child has none of the
 * threads: the first call there begins anew at the item that was wanted next. Invariant: `taken` <= `wanted` +
 * slots, and a slot is ready only between its making and its use; all fields change under the lock. */
#include "loader.h"

#include <cairn/ext/system.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

typedef struct slot {
  cni_worker_result made;
  bool ready;
} slot;

struct cni_workers {
  pthread_mutex_t lock;
  pthread_cond_t work; /* for workers: something to take, or an end */
  pthread_cond_t done; /* for the consumer: an item is ready, or nobody is busy any more */
  cni_make_fn make;
  void *payload;
  int64_t wanted, taken, end;
  int busy, started, threads, slots;
  bool running, quit;
  unsigned forks; /* as many as there were when the threads were started */
  pthread_t *ids;
  slot *ring;
};

/* How many forks lie between this process and the first. */
static atomic_uint forks;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void after_fork(void) { atomic_fetch_add(&forks, 1); }
static void set_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork); }

static void init_locks(cni_workers *w)
{
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->work, NULL);
  pthread_cond_init(&w->done, NULL);
}

static void clear(cn_batch *b)
{
  for (size_t i = 0; i < b->n; i++) cn_release(b->v[i]);
  b->n = 0;
}

cni_workers *cni_workers_new(int threads, int ahead, cni_make_fn make, void *payload)
{
  pthread_once(&fork_once, set_fork_handler);
  cni_workers *w = cn_alloc_zero(sizeof *w);
  if (!w) return NULL;
  w->threads = threads;
  w->slots = threads * ahead;
  w->make = make;
  w->payload = payload;
  w->ids = cn_alloc_zero((size_t)threads * sizeof *w->ids);
  w->ring = cn_alloc_zero((size_t)w->slots * sizeof *w->ring);
  w->forks = atomic_load(&forks);
  init_locks(w);
  if (w->ids && w->ring) return w;
  cni_workers_free(w);
  return NULL;
}

static bool something_to_do(const cni_workers *w)
{
  return w->running && w->taken < w->end && w->taken < w->wanted + w->slots;
}

static void *worker(void *payload)
{
  cni_workers *w = payload;
  cn_parallel_alone(true); /* the pool is the program's */
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (!w->quit && !something_to_do(w)) pthread_cond_wait(&w->work, &w->lock);
    if (w->quit) break;
    int64_t number = w->taken++;
    slot *p = &w->ring[number % w->slots];
    w->busy++;
    pthread_mutex_unlock(&w->lock);
    w->make(&p->made, number, w->payload);
    pthread_mutex_lock(&w->lock);
    w->busy--;
    p->ready = true;
    pthread_cond_signal(&w->done);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* In a child of a fork: what the threads of the parent had made may be half written, and is left alone. */
static void leave_parent(cni_workers *w)
{
  if (w->forks == atomic_load(&forks)) return;
  w->forks = atomic_load(&forks);
  init_locks(w);
  memset(w->ring, 0, (size_t)w->slots * sizeof *w->ring);
  w->started = w->busy = 0;
  w->taken = w->wanted;
}

void cni_workers_run(cni_workers *w, int64_t first, int64_t end)
{
  leave_parent(w);
  pthread_mutex_lock(&w->lock);
  w->wanted = w->taken = first;
  w->end = end;
  w->running = true;
  pthread_cond_broadcast(&w->work);
  pthread_mutex_unlock(&w->lock);
}

static void start_threads(cni_workers *w)
{
  while (w->started < w->threads && pthread_create(&w->ids[w->started], NULL, worker, w) == 0) w->started++;
}

bool cni_workers_next(cni_worker_result *made, cni_workers *w)
{
  leave_parent(w);
  if (w->started < w->threads) start_threads(w);
  if (!w->started) {
    w->taken = ++w->wanted;
    return false;
  }
  pthread_mutex_lock(&w->lock);
  slot *p = &w->ring[w->wanted % w->slots];
  while (!p->ready) pthread_cond_wait(&w->done, &w->lock);
  *made = p->made;
  p->ready = false;
  w->wanted++;
  pthread_cond_signal(&w->work);
  pthread_mutex_unlock(&w->lock);
  return true;
}

void cni_workers_stop(cni_workers *w)
{
  leave_parent(w);
  pthread_mutex_lock(&w->lock);
  w->running = false;
  while (w->busy) pthread_cond_wait(&w->done, &w->lock);
  for (int i = 0; i < w->slots; i++) {
    if (w->ring[i].ready) clear(&w->ring[i].made.batch);
    w->ring[i].ready = false;
  }
  pthread_mutex_unlock(&w->lock);
}

void cni_workers_free(cni_workers *w)
{
  if (!w) return;
  if (w->ring) cni_workers_stop(w);
  pthread_mutex_lock(&w->lock);
  w->quit = true;
  pthread_cond_broadcast(&w->work);
  pthread_mutex_unlock(&w->lock);
  for (int i = 0; i < w->started; i++) pthread_join(w->ids[i], NULL);
  pthread_mutex_destroy(&w->lock);
  pthread_cond_destroy(&w->work);
  pthread_cond_destroy(&w->done);
  cn_free(w->ids, (size_t)w->threads * sizeof *w->ids);
  cn_free(w->ring, (size_t)w->slots * sizeof *w->ring);
  cn_free(w, sizeof *w);
}
