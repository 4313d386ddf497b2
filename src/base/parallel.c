/* parallel.c: an own pool of worker threads behind cni_parallel_for. Nothing starts at load: workers are made at the
 * first region that needs them, and made anew in a forked child.
 *
 * Several threads may have regions at once. Each gets workers that are idle, as long as all regions together have no
 * more threads than the process is to use; where none are left a region runs on its own thread, since each of the
 * others has a core already.
 *
 * A worker has a place for one job. A region puts its job there where the place is empty, and takes it back when no
 * piece is left: so a worker that the system has not woken yet delays nobody. Invariant: a worker touches a job only
 * between taking it from its place and counting itself out, and the region waits for those that took it. */
#include "parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "alloc.h"
#include "os.h"
#include "scratch.h"

enum { MAX_WORKERS = 255, SPINS = 2000, PATIENCE = 10 * SPINS, SET_BITS = 64 };

typedef struct job {
  cni_range_fn fn;
  void *payload;
  int64_t n, pieces; /* piece i is [i n / pieces, (i + 1) n / pieces) */
  _Atomic int64_t next;
  _Alignas(64) _Atomic int inside; /* workers that have it, or may take it */
  cni_saved_error error;
  atomic_flag error_taken;
  cni_scratch lent; /* to the region: each thread gets a part, in the order of their coming */
  int parts;
  _Atomic int taken;
  _Atomic size_t most; /* that one of them wanted */
} job;

/* Each on cache lines of its own. */
typedef struct worker {
  _Alignas(64) _Atomic(job *) place; /* NULL: it is idle; &at_work: it has taken one; else a job to take */
  _Atomic bool asleep;
  pthread_mutex_t lock; /* of `wake` */
  pthread_cond_t wake;
} worker;

static worker workers[MAX_WORKERS];
static job at_work; /* its address alone counts */
static _Atomic int started;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int busy;           /* threads that regions have, those that began them among them */
static _Atomic int wanted_threads; /* 0: not decided */
static _Thread_local bool inside;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static int machine_threads(void)
{
  const char *env = cni_os_env("CAIRN_NUM_THREADS");
  long asked = env ? strtol(env, NULL, 10) : 0;
  int n = asked > MAX_WORKERS + 1 ? MAX_WORKERS + 1 : (int)asked;
  if (n < 1) n = cni_os_cores();
  return n > MAX_WORKERS + 1 ? MAX_WORKERS + 1 : n;
}

/* Of the process. */
static int all_threads(void)
{
  int n = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
  if (n) return n;
  n = machine_threads();
  atomic_store(&wanted_threads, n);
  return n;
}

int cn_num_threads(void)
{
  int n = all_threads(), most = cni_tls_state ? cni_tls_state->threads : 0;
  return most && most < n ? most : n;
}

int cn_set_num_threads(int threads)
{
  if (threads < 0 || threads > MAX_WORKERS + 1)
    return cni_fail(CN_ERR_VALUE, "set_num_threads: %d is not between 0 and %d", threads, MAX_WORKERS + 1);
  atomic_store(&wanted_threads, threads ? threads : machine_threads());
  return CN_OK;
}

/* i * n / pieces without overflow. */
static int64_t piece_start(const job *j, int64_t i)
{
  return i * (j->n / j->pieces) + i * (j->n % j->pieces) / j->pieces;
}

static void run_chunks(job *j)
{
  cni_lent = cni_scratch_part(&j->lent, atomic_fetch_add(&j->taken, 1), j->parts);
  for (int64_t i; (i = atomic_fetch_add(&j->next, 1)) < j->pieces;)
    j->fn(piece_start(j, i), piece_start(j, i + 1), j->payload);
  size_t most = atomic_load(&j->most);
  while (cni_lent.most > most && !atomic_compare_exchange_weak(&j->most, &most, cni_lent.most)) {}
  cni_lent = (cni_scratch){NULL};
}

static void hand_error_over(job *j)
{
  if (!cn_err()) return;
  if (!atomic_flag_test_and_set(&j->error_taken)) cni_error_take(&j->error);
  cn_err_clear();
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb"); /* some dozen cycles; `yield` is none on most processors */
#endif
}

/* ---- workers ---- */

static bool take(worker *w, job *j)
{
  return atomic_compare_exchange_strong_explicit(&w->place, &j, &at_work, memory_order_acquire, memory_order_relaxed);
}

/* Returns a job that this worker has taken. Spins for a short while first, since regions often follow each other
 * closely. Whoever fills the place looks at `asleep` afterwards, and this looks at the place after setting it. */
static job *wait_for_job(worker *w)
{
  for (;;) {
    job *j = NULL;
    for (int i = 0; i < SPINS; i++) {
      j = atomic_load_explicit(&w->place, memory_order_relaxed);
      if (j && take(w, j)) return j;
      pause_briefly();
    }
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->asleep, true);
    while (!(j = atomic_load(&w->place))) pthread_cond_wait(&w->wake, &w->lock);
    atomic_store(&w->asleep, false);
    pthread_mutex_unlock(&w->lock);
    if (take(w, j)) return j;
  }
}

static void *work(void *arg)
{
  worker *w = arg;
  inside = true;
  for (;;) {
    job *j = wait_for_job(w);
    run_chunks(j);
    hand_error_over(j);
    atomic_store_explicit(&w->place, NULL, memory_order_release); /* the next region may have it */
    atomic_fetch_sub_explicit(&j->inside, 1, memory_order_release);
  }
  return NULL;
}

/* In a forked child the workers do not exist. */
static void after_fork(void)
{
  atomic_store(&started, 0);
  atomic_store(&busy, 0);
  inside = false;
  pthread_mutex_init(&start_lock, NULL);
}
static void set_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork); }

static bool start_one(worker *w)
{
  pthread_attr_t attr;
  pthread_t t;
  atomic_store(&w->place, NULL);
  atomic_store(&w->asleep, false);
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, NULL);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  bool made = !pthread_create(&t, &attr, work, w);
  pthread_attr_destroy(&attr);
  return made;
}

static void start_workers(int count)
{
  pthread_once(&fork_once, set_fork_handler);
  pthread_mutex_lock(&start_lock);
  int n = atomic_load(&started);
  while (n < count && start_one(&workers[n])) atomic_store(&started, ++n);
  pthread_mutex_unlock(&start_lock);
}

/* ---- regions ---- */

typedef uint64_t worker_set[(MAX_WORKERS + SET_BITS - 1) / SET_BITS];

static void wake_up(worker *w)
{
  if (!atomic_load(&w->asleep)) return;
  pthread_mutex_lock(&w->lock);
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
}

/* Puts the job into the places of up to `most` idle workers, which set then holds. */
static void offer(job *j, int most, worker_set set)
{
  int n = 0, all = atomic_load_explicit(&started, memory_order_acquire);
  atomic_fetch_add_explicit(&j->inside, most, memory_order_relaxed);
  for (int i = 0; i < all && n < most; i++) {
    job *idle = NULL;
    if (!atomic_compare_exchange_strong(&workers[i].place, &idle, j)) continue;
    set[i / SET_BITS] |= 1ull << i % SET_BITS;
    n++;
    wake_up(&workers[i]);
  }
  atomic_fetch_sub_explicit(&j->inside, most - n, memory_order_relaxed);
}

/* Takes it back from those that have not begun; none are left to be asked where all have ended. */
static void withdraw(job *j, worker_set set)
{
  if (!atomic_load_explicit(&j->inside, memory_order_relaxed)) return;
  for (size_t k = 0; k < sizeof(worker_set) / sizeof *set; k++)
    for (; set[k]; set[k] &= set[k] - 1) {
      job *mine = j;
      worker *w = &workers[k * SET_BITS + (size_t)__builtin_ctzll(set[k])];
      if (atomic_compare_exchange_strong_explicit(&w->place, &mine, NULL, memory_order_relaxed, memory_order_relaxed))
        atomic_fetch_sub_explicit(&j->inside, 1, memory_order_relaxed);
    }
}

/* Another process may hold the core a worker is on: after a while the wait offers it this one. */
static void wait_for_workers(job *j)
{
  for (int i = 0; atomic_load_explicit(&j->inside, memory_order_acquire); i += i < PATIENCE) {
    if (i < PATIENCE)
      pause_briefly();
    else
      cni_os_yield();
  }
}

static void run_region(job *j, int threads)
{
  worker_set set = {0};
  if (atomic_load_explicit(&started, memory_order_acquire) < threads - 1) start_workers(threads - 1);
  offer(j, threads - 1, set);
  inside = true;
  run_chunks(j);
  inside = false;
  withdraw(j, set);
  wait_for_workers(j);
}

/* How many threads a region gets, its own among them; they go back to `busy` at its end. */
static int get_threads(int wanted)
{
  int have = atomic_load_explicit(&busy, memory_order_relaxed), n;
  do {
    int left = all_threads() - have;
    n = left < 1 ? 1 : wanted < left ? wanted : left;
  } while (!atomic_compare_exchange_weak_explicit(&busy, &have, have + n, memory_order_relaxed, memory_order_relaxed));
  return n;
}

/* A few ranges for each thread even out cores of unequal speed; as many for each, where that makes them no less equal. */
static int64_t pieces_of(int64_t n, int64_t most, int64_t threads)
{
  enum { EACH = 4 };
  int64_t pieces = most < EACH * threads ? most : EACH * threads;
  return pieces > threads && n >= EACH * pieces ? pieces - pieces % threads : pieces;
}

void cni_parallel_alone(bool alone) { inside = alone; }

void cni_parallel_for(int64_t n, int64_t grain, cni_range_fn fn, void *payload)
{
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  int64_t most = (n + grain - 1) / grain;
  int threads = cn_num_threads();
  if (most < threads) threads = (int)most;
  if (threads <= 1 || inside) {
    fn(0, n, payload);
    return;
  }
  int got = get_threads(threads);
  job j = {.fn = fn, .payload = payload, .n = n, .pieces = got == 1 ? 1 : pieces_of(n, most, threads),
           .error_taken = ATOMIC_FLAG_INIT, .lent = cni_lent, .parts = threads};
  run_region(&j, got);
  cni_lent = j.lent; /* whichever of the threads came: as if all had */
  size_t all = cni_lent.used + cni_lent.beyond + atomic_load(&j.most) * (size_t)threads;
  if (all > cni_lent.most) cni_lent.most = all;
  atomic_fetch_sub_explicit(&busy, got, memory_order_relaxed);
  if (j.error.err && !cn_err()) cni_error_restore(&j.error);
}
