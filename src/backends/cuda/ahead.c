/* ahead.c: work is looked through before it is done, and what it needs is made ready meanwhile by several threads: code
 * that NVRTC compiles, plans of cuDNN, cuBLASLt's handle.
 *
 * Place in the flow: record.c begins it for the first run of a compiled function; the calls then go through the kernels
 * into a stream that captures, and is dropped. compile.c, dnn.c and matmul.c ask cni_cuda_looks, hand jobs over instead
 * of doing them, and queue nothing. Invariants: a job is handed over once; each leaves what it made in a table that
 * others read under a lock; none is under way when cni_cuda_look_end returns. */
#include <string.h>

#include "plugin.h"

enum { WORKERS = 12 }; /* NVRTC's threads hardly disturb each other */

typedef struct job {
  struct job *next;
  uint64_t key;
  cni_cuda_job_fn run;
  void *payload;
  size_t size;
} job;

/* Of one thread that looks ahead. */
typedef struct looking {
  cni_cuda_device *d;
  pthread_mutex_t lock;
  pthread_cond_t more;
  job *all, **end, *todo; /* in order; todo: the first that nobody has taken */
  int waiting;            /* workers that have nothing to do */
  bool over;              /* no more jobs will come */
  pthread_t workers[WORKERS];
  int nworkers;
} looking;

static _Thread_local looking *now;

bool cni_cuda_looks(void) { return now != NULL; }

int cni_cuda_look_begin(cni_cuda_device *d)
{
  looking *l = cni_cuda_host->memory(sizeof *l);
  if (!l) return CN_ERR_MEMORY;
  memset(l, 0, sizeof *l);
  l->d = d;
  l->end = &l->all;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->more, NULL);
  now = l;
  return CN_OK;
}

/* Does jobs until there are no more. A failure is met again, and reported, by whoever needs the result. */
static void *work(void *payload)
{
  looking *l = payload;
  cni_cuda_device *d = cni_cuda_use(l->d->index);
  pthread_mutex_lock(&l->lock);
  while (d) {
    job *j = l->todo;
    if (!j && l->over) break;
    if (!j) {
      l->waiting++;
      pthread_cond_wait(&l->more, &l->lock);
      l->waiting--;
      continue;
    }
    l->todo = j->next;
    pthread_mutex_unlock(&l->lock);
    j->run(d, j->payload);
    pthread_mutex_lock(&l->lock);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

static void add(looking *l, job *j)
{
  pthread_mutex_lock(&l->lock);
  *l->end = j;
  l->end = &j->next;
  if (!l->todo) l->todo = j;
  bool idle = l->waiting > 0;
  pthread_cond_signal(&l->more);
  pthread_mutex_unlock(&l->lock);
  if (!idle && l->nworkers < WORKERS && !pthread_create(&l->workers[l->nworkers], NULL, work, l)) l->nworkers++;
}

int cni_cuda_look_for(uint64_t key, cni_cuda_job_fn run, const void *payload, size_t size)
{
  for (const job *j = now->all; j; j = j->next)
    if (j->key == key && j->run == run) return CN_OK;
  job *j = cni_cuda_host->memory(sizeof *j + size);
  if (!j) return CN_ERR_MEMORY;
  *j = (job){.key = key, .run = run, .payload = j + 1, .size = size};
  memcpy(j->payload, payload, size);
  add(now, j);
  return CN_OK;
}

bool cni_cuda_looked_for(uint64_t key, cni_cuda_job_fn run)
{
  for (const job *j = now->all; j; j = j->next)
    if (j->key == key && j->run == run) return true;
  return false;
}

void cni_cuda_look_end(void)
{
  looking *l = now;
  if (!l) return;
  now = NULL;
  pthread_mutex_lock(&l->lock);
  l->over = true;
  pthread_cond_broadcast(&l->more);
  pthread_mutex_unlock(&l->lock);
  for (int i = 0; i < l->nworkers; i++) pthread_join(l->workers[i], NULL);
  for (job *j = l->all, *next; j; j = next) {
    next = j->next;
    cni_cuda_host->free_memory(j, sizeof *j + j->size);
  }
  pthread_cond_destroy(&l->more);
  pthread_mutex_destroy(&l->lock);
  cni_cuda_host->free_memory(l, sizeof *l);
}
