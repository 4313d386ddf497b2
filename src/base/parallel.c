/* parallel.c: an own pool of worker threads behind cni_parallel_for. Nothing starts at load: workers are made at the
 * first region that needs them, and made anew in a forked child.
 *
 * Several threads may have regions at once. Each gets workers that are idle, as long as all regions together have no
 * more threads than the process is to use; where none are left a region runs on its own thread, since each of the
 * others has a core already.
 *
 * A region's range is cut in equal shares, one for each thread: the same worker gets the same share of the next
 * region, which its caches may hold. A thread takes its share in chunks, half of what is left at a time, then helps
 * others with theirs; so cores of unequal speed, and workers that come late, delay nobody.
 *
 * A worker has a place for one share. A region puts its shares there where places are empty, and takes them back when
 * nothing is left to do. Workers that sleep are woken by those that are awake, a few by each. Invariant: a worker
 * touches a job only between taking a share from its place and counting itself out, and the region waits for those that
 * took one. */
#include "parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "alloc.h"
#include "os.h"
#include "scratch.h"

enum { MAX_WORKERS = 255, SPINS = 2000, YIELDS = 100, PATIENCE = 10 * SPINS, WAKES = 3, LINE = 64 };

typedef struct job job;
typedef struct worker worker;

/* What one thread begins with. On a cache line of its own. */
typedef struct share {
  _Alignas(LINE) _Atomic int64_t next; /* of its range, what nobody has taken yet begins here */
  int64_t end;
  job *j;
  worker *w; /* to whom it was offered; NULL: nobody */
} share;

struct job {
  cni_range_fn fn;
  void *payload;
  share *shares;
  int count;        /* shares */
  int64_t least;    /* of a chunk */
  int64_t unit;     /* chunks are multiples of it */
  cni_scratch lent; /* to the region: a part for each share */
  int parts;
  _Alignas(LINE) _Atomic int inside; /* workers that have a share, or may take it */
  _Alignas(LINE) _Atomic int to_wake; /* the first share whose worker nobody has looked at */
  _Atomic int offered;                /* where shares end that workers have; 0: not known yet */
  _Atomic bool done;                  /* nothing is left to take */
  _Atomic size_t most;                /* scratch that one of them wanted */
  atomic_flag error_taken;
  cni_saved_error error;
};

/* Each on cache lines of its own. */
struct worker {
  _Alignas(LINE) _Atomic(share *) place; /* NULL: it is idle; &at_work: it has taken one; else a share to take */
  _Atomic bool asleep;
  pthread_mutex_t lock; /* of `wake` */
  pthread_cond_t wake;
};

static worker workers[MAX_WORKERS];
static share at_work; /* its address alone counts */
static _Atomic int started;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int busy;           /* threads that regions have, those that began them among them */
static _Atomic int wanted_threads; /* 0: not decided */
static int cores;                  /* of the machine, that this process may use; set with the first worker */
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

/* ---- shares ---- */

/* Takes a chunk; false: none is left. */
static bool take_chunk(const job *j, share *s, int64_t *begin, int64_t *end)
{
  *begin = atomic_load_explicit(&s->next, memory_order_relaxed);
  do {
    int64_t left = s->end - *begin, some = (left / 2 + j->unit - 1) / j->unit * j->unit;
    if (left <= 0) return false;
    if (some < j->least) some = j->least;
    *end = left - some < (j->least + 1) / 2 ? s->end : *begin + some;
  } while (!atomic_compare_exchange_weak_explicit(&s->next, begin, *end, memory_order_relaxed, memory_order_relaxed));
  return true;
}

/* Its own share, then what others have left, beginning with its neighbour's. */
static void run_shares(job *j, int own)
{
  cni_lent = cni_scratch_part(&j->lent, own, j->parts);
  for (int i = 0; i < j->count && !atomic_load_explicit(&j->done, memory_order_relaxed); i++) {
    share *s = &j->shares[(own + i) % j->count];
    for (int64_t begin, end; take_chunk(j, s, &begin, &end);) j->fn(begin, end, j->payload);
  }
  atomic_store_explicit(&j->done, true, memory_order_relaxed);
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

static void wake_up(worker *w)
{
  pthread_mutex_lock(&w->lock);
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
}

/* Wakes a few of those that sleep and that nobody has woken, if there is something for them to do. */
static void wake_some(job *j)
{
  int end = atomic_load(&j->offered);
  for (int woken = 0; woken < WAKES && !atomic_load_explicit(&j->done, memory_order_relaxed);) {
    if (atomic_load_explicit(&j->to_wake, memory_order_relaxed) >= end) return;
    int i = atomic_fetch_add(&j->to_wake, 1);
    if (i >= end) return;
    worker *w = j->shares[i].w;
    if (!atomic_load(&w->asleep)) continue;
    wake_up(w);
    woken++;
  }
}

static share *take(worker *w)
{
  share *s = atomic_load_explicit(&w->place, memory_order_relaxed);
  bool taken = s && atomic_compare_exchange_strong_explicit(&w->place, &s, &at_work, memory_order_acquire,
                                                            memory_order_relaxed);
  return taken ? s : NULL;
}

/* Regions often follow each other closely: a worker keeps looking for a while, and then offers its core to others as it
 * looks. Where there are more threads than cores somebody else needs the core at once. */
static share *look_for_work(worker *w)
{
  bool crowded = atomic_load_explicit(&started, memory_order_relaxed) >= cores;
  share *s = NULL;
  for (int i = crowded ? SPINS : 0; i < SPINS && !(s = take(w)); i++) pause_briefly();
  for (int i = crowded ? YIELDS - 1 : 0; i < YIELDS && !s && !(s = take(w)); i++) cni_os_yield();
  return s;
}

/* Returns a share that this worker has taken. Whoever fills the place looks at `asleep` afterwards, and this looks at
 * the place after setting it. */
static share *wait_for_share(worker *w)
{
  for (;;) {
    share *s = look_for_work(w);
    if (s) return s;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->asleep, true);
    while (!atomic_load(&w->place)) pthread_cond_wait(&w->wake, &w->lock);
    atomic_store(&w->asleep, false);
    pthread_mutex_unlock(&w->lock);
    if ((s = take(w))) return s;
  }
}

static void *work(void *arg)
{
  worker *w = arg;
  inside = true;
  for (;;) {
    share *s = wait_for_share(w);
    job *j = s->j;
    wake_some(j);
    run_shares(j, (int)(s - j->shares));
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
  if (!cores) cores = cni_os_cores();
  int n = atomic_load(&started);
  while (n < count && start_one(&workers[n])) atomic_store(&started, ++n);
  pthread_mutex_unlock(&start_lock);
}

/* ---- regions ---- */

/* Puts shares, all but the first, into the places of idle workers. */
static void offer(job *j)
{
  int n = 1, all = atomic_load_explicit(&started, memory_order_acquire);
  atomic_fetch_add_explicit(&j->inside, j->count - 1, memory_order_relaxed);
  for (int i = 0; i < all && n < j->count; i++) {
    share *idle = NULL;
    j->shares[n].w = &workers[i];
    if (atomic_compare_exchange_strong(&workers[i].place, &idle, &j->shares[n])) n++;
  }
  if (n < j->count) j->shares[n].w = NULL;
  atomic_fetch_sub_explicit(&j->inside, j->count - n, memory_order_relaxed);
  atomic_store(&j->offered, n);
  wake_some(j);
}

/* Takes them back from those that have not begun; none are left to be asked where all have ended. */
static void withdraw(job *j)
{
  if (!atomic_load_explicit(&j->inside, memory_order_relaxed)) return;
  for (int k = 1, end = atomic_load_explicit(&j->offered, memory_order_relaxed); k < end; k++) {
    share *mine = &j->shares[k];
    if (atomic_compare_exchange_strong_explicit(&mine->w->place, &mine, NULL, memory_order_relaxed,
                                                memory_order_relaxed))
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

static void run_region(job *j)
{
  if (atomic_load_explicit(&started, memory_order_acquire) < j->count - 1) start_workers(j->count - 1);
  offer(j);
  inside = true;
  run_shares(j, 0);
  inside = false;
  withdraw(j);
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

/* Cuts [0, n) into shares, and says how small chunks may be: a few for each share even out cores of unequal speed. */
static void cut(job *j, int64_t n, int64_t grain)
{
  enum { CHUNKS = 32, LONG = 256, VECTORS = 64 };
  j->unit = grain >= LONG ? VECTORS : 1;
  j->least = n / (CHUNKS * j->count);
  if (j->least < grain) j->least = grain;
  if (j->count == 1) j->least = n;
  int64_t begin = 0, units = (n + j->unit - 1) / j->unit;
  for (int k = 0; k < j->count; k++) {
    int64_t end = (units / j->count * (k + 1) + units % j->count * (k + 1) / j->count) * j->unit;
    share *s = &j->shares[k];
    atomic_init(&s->next, begin);
    s->end = end < n ? end : n;
    s->j = j;
    begin = s->end;
  }
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
  share shares[MAX_WORKERS + 1];
  job j = {.fn = fn, .payload = payload, .shares = shares, .count = got, .error_taken = ATOMIC_FLAG_INIT,
           .lent = cni_lent, .parts = threads, .to_wake = 1};
  cut(&j, n, grain);
  run_region(&j);
  cni_lent = j.lent; /* whichever of the threads came: as if all had */
  size_t all = cni_lent.used + cni_lent.beyond + atomic_load(&j.most) * (size_t)threads;
  if (all > cni_lent.most) cni_lent.most = all;
  atomic_fetch_sub_explicit(&busy, got, memory_order_relaxed);
  if (j.error.err && !cn_err()) cni_error_restore(&j.error);
}
