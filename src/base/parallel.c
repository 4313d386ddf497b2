/* parallel.c: an own pool of worker threads behind cni_parallel_for. Nothing starts at load: workers are made at the
 * first region that needs them, and made anew in a forked child.
 *
 * A thread whose region finds another one going runs it by itself: where several threads compute at once, each has a
 * core, and none waits for the others' workers.
 *
 * Invariant: one region has the workers at a time. `ticket` changes exactly once per region and says in its low byte
 * how many workers may take part. A worker touches the job only between joining and leaving the `gate`; the region
 * closes it once no piece is left and waits for those inside, so that a worker the system has not woken yet delays
 * nobody. */
#include "parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "alloc.h"
#include "os.h"

enum { MAX_WORKERS = 255, SPINS = 2000, PATIENCE = 10 * SPINS, GATE_OPEN = 1 << 16 };

typedef struct job {
  cni_range_fn fn;
  void *payload;
  int64_t n, pieces; /* piece i is [i n / pieces, (i + 1) n / pieces) */
  _Atomic int64_t next;
  cni_saved_error error;
  atomic_flag error_taken;
} job;

static pthread_mutex_t region_lock = PTHREAD_MUTEX_INITIALIZER; /* who has the workers */
static _Atomic int callers; /* threads that are in a region, with workers or without */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static _Atomic uint64_t ticket;
static uint64_t first_ticket[MAX_WORKERS]; /* what each worker had seen when it was made */
static _Atomic int gate;                   /* workers inside the present job, and GATE_OPEN while they may join */
static job *current;
static int started;
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

int cn_num_threads(void)
{
  int n = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
  if (n) return n;
  n = machine_threads();
  atomic_store(&wanted_threads, n);
  return n;
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
  for (;;) {
    int64_t i = atomic_fetch_add(&j->next, 1);
    if (i >= j->pieces) return;
    j->fn(piece_start(j, i), piece_start(j, i + 1), j->payload);
  }
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
#endif
}

/* Waits for a ticket other than `seen`: a short spin, since regions often follow each other closely. */
static uint64_t wait_for_work(uint64_t seen)
{
  for (int i = 0; i < SPINS; i++) {
    uint64_t t = atomic_load_explicit(&ticket, memory_order_acquire);
    if (t != seen) return t;
    pause_briefly();
  }
  pthread_mutex_lock(&lock);
  while (atomic_load(&ticket) == seen) pthread_cond_wait(&wake, &lock);
  uint64_t t = atomic_load(&ticket);
  pthread_mutex_unlock(&lock);
  return t;
}

/* The gate may belong to a later region than the ticket that woke this worker: `current` is read inside, where it
 * stays what it is. A worker too many in a later region is harmless, pieces are given out one by one. */
static bool join_region(void)
{
  int g = atomic_load_explicit(&gate, memory_order_relaxed);
  bool in = false;
  while (!in && (g & GATE_OPEN))
    in = atomic_compare_exchange_weak_explicit(&gate, &g, g + 1, memory_order_acquire, memory_order_relaxed);
  return in;
}

static void *worker(void *arg)
{
  int index = (int)(intptr_t)arg;
  uint64_t seen = first_ticket[index];
  inside = true;
  for (;;) {
    seen = wait_for_work(seen);
    if (index >= (int)(seen & 0xff) || !join_region()) continue;
    job *j = current;
    run_chunks(j);
    hand_error_over(j);
    atomic_fetch_sub_explicit(&gate, 1, memory_order_release);
  }
  return NULL;
}

/* In a forked child the workers do not exist. */
static void after_fork(void)
{
  started = 0;
  atomic_store(&callers, 0);
  atomic_store(&ticket, 0);
  atomic_store(&gate, 0);
  inside = false;
  pthread_mutex_init(&lock, NULL);
  pthread_mutex_init(&region_lock, NULL);
  pthread_cond_init(&wake, NULL);
}
static void set_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork); }

static void start_workers(int count)
{
  pthread_once(&fork_once, set_fork_handler);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  while (started < count) {
    pthread_t t;
    first_ticket[started] = atomic_load(&ticket);
    if (pthread_create(&t, &attr, worker, (void *)(intptr_t)started)) break;
    started++;
  }
  pthread_attr_destroy(&attr);
}

/* Another process may hold the core a worker is on: after a while the wait offers it this one. */
static void wait_for_workers(void)
{
  for (int i = 0; atomic_load_explicit(&gate, memory_order_acquire); i += i < PATIENCE) {
    if (i < PATIENCE)
      pause_briefly();
    else
      cni_os_yield();
  }
}

static void run_region(job *j, int threads)
{
  pthread_mutex_lock(&region_lock);
  if (started < threads - 1) start_workers(threads - 1);
  int workers = threads - 1 < started ? threads - 1 : started;
  current = j;
  atomic_store_explicit(&gate, GATE_OPEN, memory_order_release);
  pthread_mutex_lock(&lock);
  uint64_t t = atomic_load(&ticket);
  atomic_store_explicit(&ticket, ((t >> 8) + 1) << 8 | (uint64_t)workers, memory_order_release);
  pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&lock);
  inside = true;
  run_chunks(j);
  inside = false;
  atomic_fetch_and_explicit(&gate, ~GATE_OPEN, memory_order_acquire);
  wait_for_workers();
  pthread_mutex_unlock(&region_lock);
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
  if (atomic_fetch_add_explicit(&callers, 1, memory_order_relaxed)) {
    inside = true;
    fn(0, n, payload);
    inside = false;
    atomic_fetch_sub_explicit(&callers, 1, memory_order_relaxed);
    return;
  }
  /* A few ranges per thread even out cores of unequal speed. */
  int64_t pieces = most < 4 * threads ? most : 4 * threads;
  job j = {.fn = fn, .payload = payload, .n = n, .pieces = pieces,
           .error_taken = ATOMIC_FLAG_INIT};
  run_region(&j, threads);
  atomic_fetch_sub_explicit(&callers, 1, memory_order_relaxed);
  if (j.error.err && !cn_err()) cni_error_restore(&j.error);
}
