/* random.c: where the random numbers of each thread start, and how far they have gone.
 *
 * Place in the flow: apply.c and the graph's runner take a seed and a first counter from here for each call that draws.
 * The process has one seed: the last one a thread was given (cn_seed), else CAIRN_SEED, else one of the operating
 * system. A thread that was not seeded itself starts at its first draw: the first such thread from the process's seed,
 * each later one from a seed derived from that and its turn.
 * Invariant: numbers depend on the process's seed and the order in which threads begin to draw, on nothing else. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "log.h"
#include "os.h"
#include "philox.h"
#include "state.h"

enum { THREAD_STREAM = 0x7468 }; /* philox's high half for seeds of threads */

static _Atomic uint64_t process_seed; /* valid once first_seed has run */
static _Atomic uint64_t turns;        /* threads that began to draw from process_seed, the one it was given to too */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Any integer of 64 bits, as C writes it. */
static bool seed_of_environment(uint64_t *seed)
{
  const char *text = cni_os_env("CAIRN_SEED");
  if (!text) return false;
  char *end;
  *seed = strtoull(text, &end, 0);
  if (!*end) return true;
  cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "CAIRN_SEED=%s is not an integer: a random seed is used", text);
  return false;
}

static void first_seed(void)
{
  uint64_t seed;
  if (!seed_of_environment(&seed)) seed = cni_os_entropy();
  atomic_store(&process_seed, seed);
}

static void start(cn_state *s)
{
  pthread_once(&once, first_seed);
  uint64_t turn = atomic_fetch_add(&turns, 1), seed = atomic_load(&process_seed);
  if (turn) {
    uint32_t w[4];
    cni_philox(seed, turn, THREAD_STREAM, w);
    seed = (uint64_t)w[0] << 32 | w[1];
  }
  s->seed = seed;
  s->offset = 0;
  s->random_started = true;
}

void cni_random_take(uint64_t *seed, uint64_t *offset, uint64_t n)
{
  cn_state *s = cni_state();
  if (CNI_UNLIKELY(!s->random_started)) start(s);
  *seed = s->seed;
  *offset = s->offset;
  s->offset += n;
}

void cn_seed(uint64_t seed)
{
  pthread_once(&once, first_seed); /* not later: it would take this seed's place */
  atomic_store(&process_seed, seed);
  atomic_store(&turns, 1);
  cn_random_set_state(seed, 0);
}

uint64_t cn_fresh_seed(void) { return cni_os_entropy(); }

void cn_random_state(uint64_t *seed, uint64_t *offset)
{
  uint64_t s, o;
  cni_random_take(&s, &o, 0);
  if (seed) *seed = s;
  if (offset) *offset = o;
}

void cn_random_set_state(uint64_t seed, uint64_t offset)
{
  cn_state *s = cni_state();
  s->seed = seed;
  s->offset = offset;
  s->random_started = true;
}
