/* mirror_record.c: recordings: calls that are kept instead of queued, and run again and again, as a device with graphs
 * of launches does it.
 *
 * Place in the flow: between record_begin and record_end mirror.c hands what this thread queues to
 * cni_mirror_keep_call; a run is one job, which makes the copies in, goes through the calls, and makes the copies out.
 * Invariants: memory that was given back while a recording was made stays its own until its last run is over; what a
 * thread records is seen by no other. */
#include <stdatomic.h>
#include <string.h>

#include "mirror.h"

#define host cni_mirror_host

typedef struct recording {
  _Atomic int refs;
  int index;
  mirror_job *first, *last; /* calls, in order */
  mirror_job *blocks;       /* memory that was given back meanwhile: the jobs that release it */
} recording;

static _Thread_local recording *now; /* that this thread makes; NULL: none */
static _Thread_local bool failed;    /* ... and something was asked for that it cannot keep */
bool cni_mirror_records(int index) { return now && now->index == index; }

int cni_mirror_cannot_keep(const char *what)
{
  failed = true;
  return host->fail(CN_ERR_CAPTURE, "mirror: %s cannot be recorded", what);
}

void cni_mirror_keep_call(mirror_job *job)
{
  job->next = NULL;
  if (now->last) now->last->next = job;
  else now->first = job;
  now->last = job;
}

void cni_mirror_keep_block(mirror_job *job)
{
  job->next = now->blocks;
  now->blocks = job;
}

static void free_jobs(mirror_job *job, int index, bool run)
{
  while (job) {
    mirror_job *next = job->next;
    if (run && job->run) job->run(job, index);
    host->free_memory(job, job->size);
    job = next;
  }
}

static void release(recording *r)
{
  if (atomic_fetch_sub(&r->refs, 1) != 1) return;
  free_jobs(r->first, r->index, false);
  free_jobs(r->blocks, r->index, true);
  host->free_memory(r, sizeof *r);
}

int cni_mirror_record_begin(int index)
{
  if (cni_mirror_waits || now) return CN_REFUSED;
  recording *r = host->memory(sizeof *r);
  if (!r) return CN_ERR_MEMORY;
  *r = (recording){.index = index};
  atomic_init(&r->refs, 1);
  failed = false;
  now = r;
  return CN_OK;
}

int cni_mirror_record_end(int index, void **made)
{
  (void)index;
  recording *r = now;
  now = NULL;
  if (made && !failed) {
    *made = r;
    return CN_OK;
  }
  release(r);
  return made ? host->fail(CN_ERR_CAPTURE, "mirror: work that cannot be recorded") : CN_OK;
}

void cni_mirror_record_free(int index, void *made)
{
  (void)index;
  release(made);
}

/* Memory that is not given back is no part of a recording here. */
void cni_mirror_record_hold(int index) { (void)index; }

/* ---- one run ---- */

typedef struct run {
  mirror_job head;
  recording *r; /* a reference */
  cn_record_copy *copies;
  size_t nin, nout;
  char *numbers;
  void *numbers_to;
  size_t numbers_bytes;
} run;

static void make_copies(const cn_record_copy *c, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (c[i].bytes) memcpy(mirror_show(c[i].to), mirror_show(c[i].from), c[i].bytes);
}

static void run_late(mirror_job *head, int index)
{
  run *k = (run *)(void *)head;
  if (k->numbers_bytes) memcpy(mirror_show(k->numbers_to), k->numbers, k->numbers_bytes);
  make_copies(k->copies, k->nin);
  for (mirror_job *job = k->r->first; job; job = job->next) job->run(job, index);
  make_copies(k->copies + k->nin, k->nout);
  release(k->r);
}

int cni_mirror_record_run(int index, void *made, const cn_record_run *l)
{
  recording *r = made;
  size_t copies = l->nin + l->nout, bytes = sizeof(run) + copies * sizeof(cn_record_copy) + l->numbers_bytes;
  run *k = host->memory(bytes);
  if (!k) return CN_ERR_MEMORY;
  *k = (run){.head = {.size = bytes, .run = run_late}, .r = r, .nin = l->nin, .nout = l->nout,
             .numbers_to = l->numbers_to, .numbers_bytes = l->numbers_bytes};
  k->copies = (cn_record_copy *)(void *)(k + 1);
  k->numbers = (char *)(k->copies + copies);
  if (l->nin) memcpy(k->copies, l->in, l->nin * sizeof *l->in);
  if (l->nout) memcpy(k->copies + l->nin, l->out, l->nout * sizeof *l->out);
  if (l->numbers_bytes) memcpy(k->numbers, l->numbers, l->numbers_bytes);
  atomic_fetch_add(&r->refs, 1);
  if (cni_mirror_enqueue(index, l->stream, &k->head)) return CN_OK;
  release(r);
  host->free_memory(k, bytes);
  return host->fail(CN_ERR_MEMORY, "graph: the mirror's stream could not be started");
}
