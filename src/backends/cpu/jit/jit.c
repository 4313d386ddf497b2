/* jit.c: which programs are to have code, and the thread that makes it. See jit.h.
 *
 * Programs that are asked for together are a unit, which takes the compiler little more time than one of them. The
 * thread starts with the first that wait and ends with the last; in a forked child, which has none, the next who asks
 * starts another, for what was waiting as well. Invariant: `waiting` changes under the lock, which forks take, too. */
#include "jit.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/alloc_large.h"
#include "base/log.h"
#include "base/os.h"
#include "base/os_program.h"
#include "base/state.h"

const char cni_jit_asked;

typedef struct request {
  const cni_program *program;
  int level, unit;
} request;

static struct {
  request *waiting; /* owned while there are some; units in the order of their asking */
  size_t n, cap;
  int units;
  bool working;
} jit;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* ---- forks ---- */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void after_fork_in_child(void)
{
  jit.working = false;
  pthread_cond_init(&idle, NULL); /* nobody of those that wait is here */
  pthread_mutex_unlock(&lock);
}
static void set_fork_handlers(void)
{
  cni_large_survives_forks();
  pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* ---- setting ---- */

static enum setting { OFF, ON, WAIT } setting(void)
{
  static const struct {
    const char *text;
    enum setting means;
  } known[] = {{"1", ON}, {"on", ON}, {"0", OFF}, {"off", OFF}, {"wait", WAIT}};
  static _Atomic bool warned;
  const char *text = cni_os_env("CAIRN_JIT");
  if (!text) return ON;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(text, known[i].text)) return known[i].means;
  if (!atomic_exchange(&warned, true))
    cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "CAIRN_JIT=%s is none of 0, 1, wait: it is 1", text);
  return ON;
}

bool cni_jit_waits(void) { return setting() == WAIT; }
bool cni_jit_has(const cni_program *p) { return cni_jit_find(p) != NULL; }

static _Atomic size_t made;
size_t cni_jit_made(void) { return atomic_load(&made); }

/* ---- the thread ---- */

/* The requests of the first unit that waits are at the front. */
static size_t first_unit(void)
{
  size_t n = 0;
  while (n < jit.n && jit.waiting[n].unit == jit.waiting[0].unit) n++;
  return n;
}

static void drop_front(size_t n)
{
  jit.n -= n;
  memmove(jit.waiting, jit.waiting + n, jit.n * sizeof *jit.waiting);
  if (jit.n) return;
  cni_free(jit.waiting, jit.cap * sizeof *jit.waiting);
  jit.waiting = NULL;
  jit.cap = 0;
}

/* Requests stay where they are until they are done: a child that is forked meanwhile begins with them. */
static void *work(void *unused)
{
  pthread_mutex_lock(&lock);
  for (size_t n; (n = first_unit()) > 0; drop_front(n)) {
    int level = jit.waiting[0].level;
    const cni_program **programs = cni_alloc(n * sizeof *programs);
    for (size_t i = 0; programs && i < n; i++) programs[i] = jit.waiting[i].program;
    pthread_mutex_unlock(&lock);
    if (programs && cni_jit_make(programs, n, level)) atomic_fetch_add(&made, n);
    cni_free(programs, n * sizeof *programs);
    cn_err_clear(); /* out of memory: they stay as they are */
    pthread_mutex_lock(&lock);
  }
  jit.working = false;
  pthread_cond_broadcast(&idle);
  pthread_mutex_unlock(&lock);
  return unused;
}

/* ---- asking ---- */

static bool ask(const cni_program *p, int level)
{
  void *none = NULL, *asked = (void *)(uintptr_t)&cni_jit_asked;
  return cni_block_possible(p) && atomic_compare_exchange_strong(&p->code[level], &none, asked);
}

/* Under the lock. */
static void add(const cni_program *const *programs, size_t n)
{
  int level = cni_jit_level();
  jit.units++;
  for (size_t i = 0; i < n; i++) {
    if (!ask(programs[i], level)) continue;
    if (cni_grow((void **)&jit.waiting, &jit.cap, jit.n + 1, sizeof *jit.waiting)) cn_err_clear();
    else jit.waiting[jit.n++] = (request){programs[i], level, jit.units};
  }
}

void cni_jit_want(const cni_program *const *programs, size_t n)
{
  enum setting how = setting();
  if (how == OFF || !n) return;
  pthread_once(&fork_once, set_fork_handlers);
  pthread_mutex_lock(&lock);
  add(programs, n);
  if (jit.n && !jit.working) jit.working = cni_os_start_thread(work, NULL);
  while (how == WAIT && jit.working) pthread_cond_wait(&idle, &lock);
  pthread_mutex_unlock(&lock);
}
