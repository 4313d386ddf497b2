/* mirror.c: CPU kernels behind device semantics, so that everything a device does differently is tested
 * where there is no device: memory the host cannot touch, calls that return before they ran, failures that
 * come late.
 *
 * Place in the flow: a backend like any plugin, seen through include/cairn/ext alone, but compiled in:
 * init.c registers it. A call is copied into a job (mirror_job.c) and queued; a thread per device runs jobs
 * in order. Invariants: a device pointer is a host pointer with a tag that makes any access fault; memory
 * is released by the queue, after the work that was queued before. */
#include "mirror.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { DEVICES = 2, MESSAGE = 400, HEADER = 64 };

typedef struct device {
  pthread_mutex_t lock;
  pthread_cond_t more, idle;
  pthread_t thread;
  bool started, stop;
  mirror_job *first, *last; /* queued, not yet taken */
  int pending;              /* queued or running */
  int code;                 /* the first late failure, until it is reported */
  char message[MESSAGE];
} device;

static device devices[DEVICES] = {
    {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER},
    {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER},
};
static const cn_host *host;
static bool wait_always; /* CAIRN_SYNC=1 */

/* ---- the queue ---- */

static void keep_failure(device *d, int code, const char *message)
{
  pthread_mutex_lock(&d->lock);
  if (!d->code) {
    d->code = code;
    snprintf(d->message, sizeof d->message, "%s", message);
  }
  pthread_mutex_unlock(&d->lock);
}

static void run_job(device *d, mirror_job *job)
{
  char message[MESSAGE - 100], full[MESSAGE];
  if (!job->call.op) { /* a copy, or memory given back */
    if (job->to) memcpy(job->to, job->from, job->bytes);
    host->release_memory(job, job->size);
    return;
  }
  int status = cni_mirror_job_run(host, job), code = host->take_error(message, sizeof message);
  if (status) {
    const char *name = host->op_name(job->call.op);
    size_t n = strlen(name);
    bool named = !strncmp(message, name, n) && message[n] == ':'; /* most messages begin with it */
    snprintf(full, sizeof full, "%s%s%s (found while it ran on the device)", named ? "" : name,
             named ? "" : ": ", message[0] ? message : "failed");
    keep_failure(d, code ? code : status, full);
  }
  cni_mirror_job_free(host, job);
}

static void *work(void *payload)
{
  device *d = payload;
  pthread_mutex_lock(&d->lock);
  for (;;) {
    while (!d->first && !d->stop) pthread_cond_wait(&d->more, &d->lock);
    mirror_job *job = d->first;
    if (!job) break;
    d->first = job->next;
    if (!d->first) d->last = NULL;
    pthread_mutex_unlock(&d->lock);
    run_job(d, job);
    pthread_mutex_lock(&d->lock);
    if (--d->pending == 0) pthread_cond_broadcast(&d->idle);
  }
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

/* Puts a job at the end; the queue owns it then. False when the thread cannot be started. */
static bool enqueue(device *d, mirror_job *job)
{
  job->next = NULL;
  pthread_mutex_lock(&d->lock);
  if (!d->started) d->started = pthread_create(&d->thread, NULL, work, d) == 0;
  bool ok = d->started;
  if (ok) {
    if (d->last) d->last->next = job;
    else d->first = job;
    d->last = job;
    d->pending++;
    pthread_cond_signal(&d->more);
  }
  pthread_mutex_unlock(&d->lock);
  return ok;
}

static void drain(device *d)
{
  pthread_mutex_lock(&d->lock);
  while (d->pending) pthread_cond_wait(&d->idle, &d->lock);
  pthread_mutex_unlock(&d->lock);
}

/* Waits, then reports what failed since the last report. */
static int sync_device(int index)
{
  device *d = &devices[index];
  char message[MESSAGE];
  drain(d);
  pthread_mutex_lock(&d->lock);
  int code = d->code;
  d->code = 0;
  memcpy(message, d->message, sizeof message);
  pthread_mutex_unlock(&d->lock);
  return code ? host->fail(code, "%s", message) : CN_OK;
}

/* ---- memory ---- */

/* A block begins with the job that will give it back, so that freeing cannot fail for want of memory. */
static void *device_alloc(int index, size_t size)
{
  (void)index;
  _Static_assert(offsetof(mirror_job, call) + sizeof(const cn_op *) <= HEADER, "the head of a job fits");
  char *block = size < SIZE_MAX - HEADER ? host->memory(size + HEADER) : NULL;
  return block ? mirror_hide(block + HEADER) : NULL;
}

static void device_free(int index, void *memory, size_t size)
{
  if (!memory) return;
  mirror_job *job = (mirror_job *)(void *)((char *)mirror_show(memory) - HEADER);
  job->size = size + HEADER;
  job->to = NULL;
  job->call.op = NULL;
  if (!enqueue(&devices[index], job)) host->release_memory(job, size + HEADER); /* nothing ever ran here */
}

/* ---- pinned memory: read by the queue, which therefore gives it back as it does the device's ---- */

typedef struct pinned {
  struct pinned *next;
  int index;
  size_t size;
} pinned;
enum { PINNED_HEADER = HEADER + 64 }; /* the job that gives it back, then the struct */

static pthread_mutex_t pinned_lock = PTHREAD_MUTEX_INITIALIZER;
static pinned *pinned_blocks; /* in use */
static size_t pinned_count, pinned_copies, pinned_limit = SIZE_MAX;

void cni_mirror_pinned(size_t *blocks, size_t *copies)
{
  pthread_mutex_lock(&pinned_lock);
  *blocks = pinned_count;
  *copies = pinned_copies;
  pthread_mutex_unlock(&pinned_lock);
}

void cni_mirror_pinned_limit(size_t blocks)
{
  pthread_mutex_lock(&pinned_lock);
  pinned_limit = blocks;
  pthread_mutex_unlock(&pinned_lock);
}

static char *pinned_data(pinned *p) { return (char *)p + (PINNED_HEADER - HEADER); }

static void *host_alloc(int index, size_t size)
{
  char *block = NULL, message[MESSAGE];
  pthread_mutex_lock(&pinned_lock);
  if (pinned_count < pinned_limit && size < SIZE_MAX - PINNED_HEADER) block = host->memory(size + PINNED_HEADER);
  if (!block) host->take_error(message, sizeof message); /* ordinary memory will do */
  pinned *p = block ? (pinned *)(void *)(block + HEADER) : NULL;
  if (p) {
    *p = (pinned){pinned_blocks, index, size};
    pinned_blocks = p;
    pinned_count++;
  }
  pthread_mutex_unlock(&pinned_lock);
  return p ? pinned_data(p) : NULL;
}

static void host_free(int index, void *memory, size_t size)
{
  mirror_job *job = (mirror_job *)(void *)((char *)memory - PINNED_HEADER);
  pinned **at = &pinned_blocks;
  pthread_mutex_lock(&pinned_lock);
  while (*at && pinned_data(*at) != memory) at = &(*at)->next;
  if (*at) *at = (*at)->next;
  pinned_count--;
  pthread_mutex_unlock(&pinned_lock);
  job->size = size + PINNED_HEADER;
  job->to = NULL;
  job->call.op = NULL;
  if (!enqueue(&devices[index], job)) host->release_memory(job, size + PINNED_HEADER);
}

/* Is this in a pinned block of that device? Then it is counted as copied. */
static bool is_pinned(int index, const void *memory)
{
  uintptr_t at = (uintptr_t)memory;
  pthread_mutex_lock(&pinned_lock);
  pinned *p = pinned_blocks;
  while (p && (p->index != index || at < (uintptr_t)pinned_data(p) || at - (uintptr_t)pinned_data(p) >= p->size))
    p = p->next;
  if (p) pinned_copies++;
  pthread_mutex_unlock(&pinned_lock);
  return p != NULL;
}

/* False: it could not be queued. */
static bool queue_copy(int index, void *to, const void *from, size_t size)
{
  char message[MESSAGE];
  mirror_job *job = host->memory(sizeof *job);
  if (!job) {
    host->take_error(message, sizeof message); /* it will be done at once instead */
    return false;
  }
  job->size = sizeof *job;
  job->to = mirror_show(to);
  job->from = from;
  job->bytes = size;
  job->call.op = NULL;
  bool queued = enqueue(&devices[index], job);
  if (!queued) host->release_memory(job, sizeof *job);
  return queued;
}

static int copy_in(int index, void *to, const void *from, size_t size)
{
  if (size && is_pinned(index, from) && queue_copy(index, to, from, size))
    return wait_always ? sync_device(index) : CN_OK;
  drain(&devices[index]);
  if (size) memcpy(mirror_show(to), from, size);
  return CN_OK;
}

static int copy_out(int index, void *to, const void *from, size_t size)
{
  int status = sync_device(index);
  if (!status && size) memcpy(to, mirror_show(from), size);
  return status;
}

/* ---- kernels ---- */

/* Results whose shape depends on values: waits, runs, and brings what came out onto the device. */
static int run_waiting(cn_call *c, mirror_job *job)
{
  int index = c->device & 0xff, status = sync_device(index);
  if (!status) status = cni_mirror_job_run(host, job);
  for (int i = 0; i < c->nout; i++) {
    cn_tensor *made = job->call.out[i];
    job->call.out[i] = NULL;
    if (!made || !c->spec[i].data_dependent) continue;
    const cn_desc *d = cn_desc_of(made);
    if (!status) status = host->out_alloc(c, i, d->ndim, d->shape);
    if (!status) {
      const cn_desc *to = cn_desc_of(c->out[i]);
      status = copy_in(index, to->data, d->data, (size_t)d->numel * cn_element_size(d->dtype));
    }
    host->release_tensor(made);
  }
  cni_mirror_job_free(host, job);
  return status;
}

static int run_any(cn_call *c)
{
  bool waits = false;
  int index = c->device & 0xff;
  if (!host->cpu_has_kernel(c->op)) {
    c->refusal = "the CPU has no kernel for it";
    return CN_REFUSED;
  }
  for (int i = 0; i < c->nout; i++) waits = waits || c->spec[i].data_dependent;
  mirror_job *job = cni_mirror_job_new(host, c);
  if (!job) return CN_ERR_MEMORY;
  if (waits) return run_waiting(c, job);
  if (!enqueue(&devices[index], job)) {
    cni_mirror_job_free(host, job);
    return host->fail(CN_ERR_MEMORY, "%s: the mirror's queue could not be started", host->op_name(c->op));
  }
  return wait_always ? sync_device(index) : CN_OK;
}

static const cn_kernel kernels[] = {
    {"pointwise", "queue", run_any}, {"*", "queue", run_any}, {NULL, NULL, NULL}};

/* ---- the backend ---- */

static int device_count(void) { return DEVICES; }

static int device_info(int index, cn_device_info *info)
{
  (void)index;
  snprintf(info->name, sizeof info->name, "mirror: CPU kernels behind a queue, for tests");
  snprintf(info->arch, sizeof info->arch, "mirror");
  info->units = 1;
  info->threads = 1;
  return CN_OK;
}

static void stop_queues(void)
{
  for (int i = 0; i < DEVICES; i++) {
    device *d = &devices[i];
    if (!d->started) continue;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_signal(&d->more);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    d->started = d->stop = false;
    d->code = 0;
  }
}

const cn_backend *cni_mirror_backend(const cn_host *services)
{
  static const cn_backend backend = {
      .abi = CN_BACKEND_ABI,
      .name = "mirror",
      .device_count = device_count,
      .device_info = device_info,
      .alloc = device_alloc,
      .free = device_free,
      .copy_in = copy_in,
      .copy_out = copy_out,
      .sync = sync_device,
      .kernels = kernels,
      .shutdown = stop_queues,
      .host_alloc = host_alloc,
      .host_free = host_free,
  };
  host = services;
  const char *sync = host->env("CAIRN_SYNC");
  wait_always = sync && strcmp(sync, "0") != 0;
  return &backend;
}
