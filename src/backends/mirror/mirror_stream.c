/* mirror_stream.c: streams and events of the mirror device: a thread per stream that runs jobs in order.
 *
 * Place in the flow: mirror.c queues what the dispatcher and the memory functions ask for; nothing here knows what a
 * job does. Invariants: a job runs after all jobs queued before it in its stream, and in no order with those of other
 * streams but by events; a block is released by the thread that ran its job. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mirror.h"

typedef struct stream {
  pthread_mutex_t lock;
  pthread_cond_t more, idle;
  pthread_t thread;
  bool started, stop, unused;
  mirror_job *first, *last; /* queued, not yet taken */
  int pending;              /* queued or running */
  int index;                /* of the device */
  struct stream *next;      /* the device's other streams */
} stream;

typedef struct device {
  pthread_mutex_t lock; /* of others and the failure */
  stream own;
  stream *others;
  int code; /* the first late failure, until it is reported */
  char message[MIRROR_MESSAGE];
} device;

#define STREAM {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER}
static device devices[MIRROR_DEVICES] = {
    {.lock = PTHREAD_MUTEX_INITIALIZER, .own = STREAM},
    {.lock = PTHREAD_MUTEX_INITIALIZER, .own = STREAM},
};

static stream *stream_of(int index, void *given) { return given ? given : &devices[index].own; }

/* ---- the queue ---- */

void cni_mirror_keep_failure(int index, int code, const char *message)
{
  device *d = &devices[index];
  pthread_mutex_lock(&d->lock);
  if (!d->code) {
    d->code = code;
    snprintf(d->message, sizeof d->message, "%s", message);
  }
  pthread_mutex_unlock(&d->lock);
}

static void *work(void *payload)
{
  stream *s = payload;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (!s->first && !s->stop) pthread_cond_wait(&s->more, &s->lock);
    mirror_job *job = s->first;
    if (!job) break;
    s->first = job->next;
    if (!s->first) s->last = NULL;
    pthread_mutex_unlock(&s->lock);
    if (job->run) job->run(job, s->index);
    pthread_mutex_lock(&s->lock);
    if (job->mark) job->mark(job); /* whoever saw the event pass finds the stream idle, and the other way round */
    cni_mirror_host->free_memory(job, job->size);
    if (--s->pending == 0) pthread_cond_broadcast(&s->idle);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

bool cni_mirror_enqueue(int index, void *given, mirror_job *job)
{
  stream *s = stream_of(index, given);
  job->next = NULL;
  pthread_mutex_lock(&s->lock);
  if (!s->started) {
    s->index = index; /* for the thread, which reads it without the lock */
    s->started = pthread_create(&s->thread, NULL, work, s) == 0;
  }
  bool ok = s->started;
  if (ok) {
    if (s->last) s->last->next = job;
    else s->first = job;
    s->last = job;
    s->pending++;
    pthread_cond_signal(&s->more);
  }
  pthread_mutex_unlock(&s->lock);
  return ok;
}

/* Queues a job that was just made, or drops it. */
static bool enqueue_or_drop(int index, void *given, mirror_job *job)
{
  bool queued = cni_mirror_enqueue(index, given, job);
  if (!queued) cni_mirror_host->free_memory(job, job->size);
  return queued;
}

typedef struct copy_job {
  mirror_job head;
  void *to;
  const void *from;
  size_t bytes;
} copy_job;

static void run_copy(mirror_job *job, int index)
{
  const copy_job *c = (const copy_job *)(void *)job;
  (void)index;
  memcpy(c->to, c->from, c->bytes);
}

bool cni_mirror_enqueue_copy(int index, void *given, void *to, const void *from, size_t bytes)
{
  char message[MIRROR_MESSAGE];
  copy_job *job = cni_mirror_host->memory(sizeof *job);
  if (!job) {
    cni_mirror_host->take_error(message, sizeof message); /* the caller does it at once instead */
    return false;
  }
  *job = (copy_job){{.size = sizeof *job, .run = run_copy}, to, from, bytes};
  return enqueue_or_drop(index, given, &job->head);
}

static void drain(stream *s)
{
  pthread_mutex_lock(&s->lock);
  while (s->pending) pthread_cond_wait(&s->idle, &s->lock);
  pthread_mutex_unlock(&s->lock);
}

void cni_mirror_drain(int index, void *given) { drain(stream_of(index, given)); }

/* What failed since the last report. */
static int report(device *d)
{
  char message[MIRROR_MESSAGE];
  pthread_mutex_lock(&d->lock);
  int code = d->code;
  d->code = 0;
  memcpy(message, d->message, sizeof message);
  pthread_mutex_unlock(&d->lock);
  return code ? cni_mirror_host->fail(code, "%s", message) : CN_OK;
}

int cni_mirror_sync(int index)
{
  if (cni_mirror_records(index)) return cni_mirror_cannot_keep("a wait");
  device *d = &devices[index];
  drain(&d->own);
  pthread_mutex_lock(&d->lock);
  for (stream *s = d->others; s; s = s->next) drain(s);
  pthread_mutex_unlock(&d->lock);
  return report(d);
}

/* Lets the thread end when it has run what is queued. */
static void stop(stream *s)
{
  if (!s->started) return;
  pthread_mutex_lock(&s->lock);
  s->stop = true;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  s->started = s->stop = false;
}

void cni_mirror_stop(void)
{
  for (int i = 0; i < MIRROR_DEVICES; i++) {
    stop(&devices[i].own);
    for (stream *s = devices[i].others, *next; s; s = next) {
      next = s->next;
      stop(s);
      cni_mirror_host->free_memory(s, sizeof *s);
    }
    devices[i].others = NULL;
    devices[i].code = 0;
  }
}

/* ---- streams of a program's own ---- */

/* One that was given back, or a new one. Structs stay until the end, so that memory whose stream is gone can still be
 * given back in its order. Holds the device's lock. */
static stream *spare_or_new(device *d)
{
  for (stream *s = d->others; s; s = s->next)
    if (s->unused) return s;
  stream *s = cni_mirror_host->memory(sizeof *s);
  if (!s) return NULL;
  *s = (stream)STREAM;
  s->next = d->others;
  return d->others = s;
}

void *cni_mirror_stream_new(int index, int priority)
{
  device *d = &devices[index];
  (void)priority; /* every stream has a thread to itself, so none waits for another */
  pthread_mutex_lock(&d->lock);
  stream *s = spare_or_new(d);
  if (s) s->unused = false;
  pthread_mutex_unlock(&d->lock);
  return s;
}

void cni_mirror_stream_free(int index, void *given)
{
  stream *s = given;
  stop(s);
  pthread_mutex_lock(&devices[index].lock);
  s->unused = true;
  pthread_mutex_unlock(&devices[index].lock);
}

int cni_mirror_stream_sync(int index, void *given)
{
  cni_mirror_drain(index, given);
  return report(&devices[index]);
}

int cni_mirror_stream_query(int index, void *given)
{
  stream *s = stream_of(index, given);
  pthread_mutex_lock(&s->lock);
  int done = s->pending == 0;
  pthread_mutex_unlock(&s->lock);
  return done;
}

/* ---- events ---- */

/* Counted by its owner and by the jobs that name it. */
typedef struct event {
  pthread_mutex_t lock;
  pthread_cond_t passed;
  uint64_t recorded, reached; /* how often it was recorded, and the last of these that a stream came to */
  double when; /* seconds */
  int refs;
} event;

typedef struct event_job {
  mirror_job head;
  event *event;
  uint64_t ticket; /* which of its records */
} event_job;

static void release(event *e)
{
  pthread_mutex_lock(&e->lock);
  int left = --e->refs;
  pthread_mutex_unlock(&e->lock);
  if (!left) cni_mirror_host->free_memory(e, sizeof *e);
}

static void mark_record(mirror_job *job)
{
  event_job *j = (event_job *)(void *)job;
  event *e = j->event;
  pthread_mutex_lock(&e->lock);
  if (j->ticket > e->reached) e->reached = j->ticket;
  e->when = cni_mirror_host->now();
  pthread_cond_broadcast(&e->passed);
  pthread_mutex_unlock(&e->lock);
  release(e);
}

static void await(event *e, uint64_t ticket)
{
  pthread_mutex_lock(&e->lock);
  while (e->reached < ticket) pthread_cond_wait(&e->passed, &e->lock);
  pthread_mutex_unlock(&e->lock);
}

static void run_wait(mirror_job *job, int index)
{
  event_job *j = (event_job *)(void *)job;
  (void)index;
  await(j->event, j->ticket);
  release(j->event);
}

/* Queues a record of the event, or a wait for what was last recorded. */
static int queue_event(int index, event *e, void *given, bool record)
{
  event_job *job = cni_mirror_host->memory(sizeof *job);
  if (!job) return CN_ERR_MEMORY;
  pthread_mutex_lock(&e->lock);
  e->refs++;
  *job = (event_job){{.size = sizeof *job, .run = record ? NULL : run_wait, .mark = record ? mark_record : NULL}, e,
                     record ? ++e->recorded : e->recorded};
  pthread_mutex_unlock(&e->lock);
  uint64_t ticket = job->ticket;
  if (enqueue_or_drop(index, given, &job->head)) return CN_OK;
  pthread_mutex_lock(&e->lock);
  if (ticket > e->reached) e->reached = ticket; /* nobody waits for what is not queued */
  pthread_mutex_unlock(&e->lock);
  release(e);
  return cni_mirror_host->fail(CN_ERR_MEMORY, "mirror: the stream could not be started");
}

void *cni_mirror_event_new(int index, bool timing)
{
  (void)index, (void)timing; /* the time is always kept */
  event *e = cni_mirror_host->memory(sizeof *e);
  if (e) *e = (event){.lock = PTHREAD_MUTEX_INITIALIZER, .passed = PTHREAD_COND_INITIALIZER, .refs = 1};
  return e;
}

void cni_mirror_event_free(int index, void *given)
{
  (void)index;
  release(given);
}

int cni_mirror_event_record(int index, void *given, void *onto) { return queue_event(index, given, onto, true); }
int cni_mirror_event_wait(int index, void *given, void *onto) { return queue_event(index, given, onto, false); }

int cni_mirror_event_query(int index, void *given)
{
  event *e = given;
  (void)index;
  pthread_mutex_lock(&e->lock);
  int done = e->reached >= e->recorded;
  pthread_mutex_unlock(&e->lock);
  return done;
}

int cni_mirror_event_sync(int index, void *given)
{
  event *e = given;
  pthread_mutex_lock(&e->lock);
  uint64_t ticket = e->recorded;
  pthread_mutex_unlock(&e->lock);
  await(e, ticket);
  return report(&devices[index]);
}

int cni_mirror_event_elapsed(int index, double *milliseconds, void *from, void *to)
{
  const event *a = from, *b = to;
  if (!a->recorded || !b->recorded || !cni_mirror_event_query(index, from) || !cni_mirror_event_query(index, to))
    return cni_mirror_host->fail(CN_ERR_VALUE, "mirror: both events must have been recorded and passed");
  *milliseconds = 1e3 * (b->when - a->when);
  return CN_OK;
}
