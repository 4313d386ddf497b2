/* mirror.c: CPU kernels behind device semantics, so that everything a device does differently is tested
 * where there is no device: memory the host cannot touch, calls that return before they ran, streams, failures
 * that come late.
 *
 * Place in the flow: a backend like any plugin, seen through include/cairn/ext alone, but compiled in:
 * init.c registers it. A call is copied into a job (mirror_job.c) and queued on a stream (mirror_stream.c).
 * Invariants: a device pointer is a host pointer with a tag that makes any access fault; memory is released by
 * its stream, after the work that was queued there before. */
#include "mirror.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { HEADER = 64 };

const cn_host *cni_mirror_host;
bool cni_mirror_waits;
#define host cni_mirror_host

static cn_backend backend; /* below */

/* ---- memory ---- */

/* Bytes taken for tensors, until the stream has given them back: a device keeps what is queued to be released. */
static struct {
  atomic_size_t now, peak, limit; /* limit 0: none */
} reserved[MIRROR_DEVICES];

static void count(int index, size_t size)
{
  size_t now = atomic_fetch_add(&reserved[index].now, size) + size, most = atomic_load(&reserved[index].peak);
  while (now > most && !atomic_compare_exchange_weak(&reserved[index].peak, &most, now)) continue;
}

/* A block begins with the job that will give it back, so that freeing cannot fail for want of memory. */
static void *device_alloc(int index, size_t size, void *stream)
{
  (void)stream;
  _Static_assert(sizeof(mirror_job) <= HEADER, "the head of a job fits");
  size_t limit = atomic_load(&reserved[index].limit);
  if (limit && (size > limit || atomic_load(&reserved[index].now) > limit - size)) return NULL;
  char *block = size < SIZE_MAX - HEADER ? host->memory(size + HEADER) : NULL;
  if (block) count(index, size);
  return block ? mirror_hide(block + HEADER) : NULL;
}

/* Releases a block when the stream has come so far, and runs `run` before that. */
static void give_back(int index, void *stream, void *block, size_t size, void (*run)(mirror_job *, int))
{
  mirror_job *job = block;
  *job = (mirror_job){.size = size, .run = run};
  if (cni_mirror_enqueue(index, stream, job)) return;
  if (run) run(job, index); /* nothing ever ran here */
  host->free_memory(job, size);
}

static void uncount(mirror_job *job, int index) { atomic_fetch_sub(&reserved[index].now, job->size - HEADER); }

static void device_free(int index, void *memory, size_t size, void *stream)
{
  mirror_job *job = memory ? (mirror_job *)(void *)((char *)mirror_show(memory) - HEADER) : NULL;
  if (job && cni_mirror_records(index)) {
    *job = (mirror_job){.size = size + HEADER, .run = uncount};
    cni_mirror_keep_block(job);
  } else if (memory) give_back(index, stream, (char *)mirror_show(memory) - HEADER, size + HEADER, uncount);
}

static void memory_reserved(int index, size_t *now, size_t *peak, bool reset)
{
  *now = atomic_load(&reserved[index].now);
  if (reset) atomic_store(&reserved[index].peak, *now);
  *peak = atomic_load(&reserved[index].peak);
}

static int memory_limit(int index, size_t bytes)
{
  atomic_store(&reserved[index].limit, bytes);
  return CN_OK;
}

/* ---- pinned memory: read by a stream, which therefore gives it back as it does the device's ---- */

typedef struct pinned {
  struct pinned *next;
  int index;
  size_t size;
  void *stream; /* of the last copy */
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
  char *block = NULL, message[MIRROR_MESSAGE];
  pthread_mutex_lock(&pinned_lock);
  if (pinned_count < pinned_limit && size < SIZE_MAX - PINNED_HEADER) block = host->memory(size + PINNED_HEADER);
  if (!block) host->take_error(message, sizeof message); /* ordinary memory will do */
  pinned *p = block ? (pinned *)(void *)(block + HEADER) : NULL;
  if (p) {
    *p = (pinned){pinned_blocks, index, size, NULL};
    pinned_blocks = p;
    pinned_count++;
  }
  pthread_mutex_unlock(&pinned_lock);
  return p ? pinned_data(p) : NULL;
}

static void host_free(int index, void *memory, size_t size)
{
  pinned **at = &pinned_blocks;
  void *stream = NULL;
  pthread_mutex_lock(&pinned_lock);
  while (*at && pinned_data(*at) != memory) at = &(*at)->next;
  if (*at) {
    stream = (*at)->stream;
    *at = (*at)->next;
  }
  pinned_count--;
  pthread_mutex_unlock(&pinned_lock);
  give_back(index, stream, (char *)memory - PINNED_HEADER, size + PINNED_HEADER, NULL);
}

static pinned *find_pinned(int index, const void *memory)
{
  uintptr_t at = (uintptr_t)memory;
  pinned *p = pinned_blocks;
  while (p && (p->index != index || at < (uintptr_t)pinned_data(p) || at - (uintptr_t)pinned_data(p) >= p->size))
    p = p->next;
  return p;
}

/* For the stream of the last copy, which came behind those of others. */
static int host_wait(int index, const void *memory)
{
  pthread_mutex_lock(&pinned_lock);
  const pinned *p = find_pinned(index, memory);
  void *stream = p ? p->stream : NULL;
  pthread_mutex_unlock(&pinned_lock);
  return p ? cni_mirror_stream_sync(index, stream) : CN_OK;
}

/* Is this in a pinned block of that device? Then it is counted as copied by the stream, after copies by others. */
static bool is_pinned(int index, const void *memory, void *stream)
{
  pthread_mutex_lock(&pinned_lock);
  pinned *p = find_pinned(index, memory);
  void *before = p ? p->stream : stream;
  if (p) {
    pinned_copies++;
    p->stream = stream;
  }
  pthread_mutex_unlock(&pinned_lock);
  if (before != stream) cni_mirror_drain(index, before);
  return p != NULL;
}

/* ---- copies ---- */

static int waited(int index, void *stream) { return cni_mirror_waits ? cni_mirror_stream_sync(index, stream) : CN_OK; }

static int copy_in(int index, void *to, const void *from, size_t size, void *stream)
{
  if (cni_mirror_records(index)) return cni_mirror_cannot_keep("a copy from the host");
  if (size && is_pinned(index, from, stream) &&
      cni_mirror_enqueue_copy(index, stream, mirror_show(to), from, size))
    return waited(index, stream);
  cni_mirror_drain(index, stream);
  if (size) memcpy(mirror_show(to), from, size);
  return CN_OK;
}

static int copy_out(int index, void *to, const void *from, size_t size, void *stream)
{
  if (cni_mirror_records(index)) return cni_mirror_cannot_keep("a copy to the host");
  int status = cni_mirror_host->waiting();
  if (!status) status = cni_mirror_stream_sync(index, stream);
  if (!status && size) memcpy(to, mirror_show(from), size);
  return status;
}

static int copy_across(int to_index, void *to, int from_index, const void *from, size_t size, void *stream)
{
  (void)from_index;
  if (cni_mirror_records(to_index)) return cni_mirror_cannot_keep("a copy between devices");
  if (!size || cni_mirror_enqueue_copy(to_index, stream, mirror_show(to), mirror_show(from), size))
    return waited(to_index, stream);
  cni_mirror_drain(to_index, stream);
  memcpy(mirror_show(to), mirror_show(from), size);
  return CN_OK;
}

/* ---- kernels ---- */

/* What failed while it ran is reported by whoever waits next. */
static void run_late(mirror_job *head, int index)
{
  mirror_call *job = (mirror_call *)(void *)head;
  char message[MIRROR_MESSAGE - 100], full[MIRROR_MESSAGE];
  int status = cni_mirror_call_run(job), code = host->take_error(message, sizeof message);
  if (!status) return;
  const char *name = host->op_name(job->call.op);
  size_t n = strlen(name);
  bool named = !strncmp(message, name, n) && message[n] == ':'; /* most messages begin with it */
  snprintf(full, sizeof full, "%s%s%s (found while it ran on the device)", named ? "" : name, named ? "" : ": ",
           message[0] ? message : "failed");
  cni_mirror_keep_failure(index, code ? code : status, full);
}

/* Results whose shape depends on values: waits, runs, and brings what came out onto the device. */
static int run_waiting(cn_call *c, mirror_call *job)
{
  int index = c->device & 0xff, status = cni_mirror_stream_sync(index, c->stream);
  const bool ran = !status; /* else what comes before it has failed, and nothing was made */
  if (ran) status = cni_mirror_call_run(job);
  for (int i = 0; ran && i < c->nout; i++) {
    cn_tensor *made = job->call.out[i];
    job->call.out[i] = NULL;
    if (!made || !c->spec[i].data_dependent) continue;
    const cn_desc *d = cn_desc_of(made);
    if (!status) status = host->out_alloc(c, i, d->ndim, d->shape);
    if (!status) {
      const cn_desc *to = cn_desc_of(c->out[i]);
      status = copy_in(index, to->data, d->data, cn_element_bytes(d->dtype, d->numel), c->stream);
    }
    host->release_tensor(made);
  }
  host->free_memory(job, job->head.size);
  return status;
}

static int can_any(const cn_call *c, cn_plan *plan)
{
  plan->refusal = "the CPU has no kernel for it";
  return host->cpu_has_kernel(c->op) ? CN_OK : CN_REFUSED;
}

/* A mirror that is told to take row-major inputs alone sees to it that it gets no others. */
static int check_inputs(const cn_call *c)
{
  if (backend.can & CN_CAN_STRIDES || !strcmp(host->op_name(c->op), "copy")) return CN_OK;
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *d = c->in[i] ? cn_desc_of(c->in[i]) : NULL;
    int64_t step = 1;
    for (int k = d ? d->ndim - 1 : -1; k >= 0 && d->numel; step *= d->shape[k--])
      if (d->shape[k] != 1 && d->strides[k] != step)
        return host->fail(CN_ERR_INTERNAL, "%s: a strided input reached a device that takes none",
                          host->op_name(c->op));
  }
  return CN_OK;
}

static int run_any(cn_call *c)
{
  bool waits = false;
  int index = c->device & 0xff;
  for (int i = 0; i < c->nout; i++) waits = waits || c->spec[i].data_dependent;
  int status = check_inputs(c);
  if (status) return status;
  if (waits && cni_mirror_records(index)) return cni_mirror_cannot_keep("a result whose size is found by running");
  mirror_call *job = cni_mirror_call_new(c);
  if (!job) return CN_ERR_MEMORY;
  if (waits) return run_waiting(c, job);
  job->head.run = run_late;
  if (cni_mirror_records(index)) {
    cni_mirror_keep_call(&job->head);
    return CN_OK;
  }
  if (!cni_mirror_enqueue(index, c->stream, &job->head)) {
    host->free_memory(job, job->head.size);
    return host->fail(CN_ERR_MEMORY, "%s: the mirror's stream could not be started", host->op_name(c->op));
  }
  return waited(index, c->stream);
}

static const cn_kernel kernels[] = {
    {"pointwise", "queue", run_any, can_any}, {"*", "queue", run_any, can_any}, {NULL, NULL, NULL}};

/* ---- the backend ---- */

static int device_count(void) { return MIRROR_DEVICES; }

static int device_info(int index, cn_device_info *info)
{
  (void)index;
  snprintf(info->name, sizeof info->name, "mirror: CPU kernels behind a queue, for tests");
  snprintf(info->arch, sizeof info->arch, "mirror");
  info->units = 1;
  info->threads = 1;
  return CN_OK;
}

static cn_backend backend = {
    .size = sizeof backend,
    .abi = CN_BACKEND_ABI,
    .can = CN_CAN_STRIDES | CN_CAN_INPLACE,
    .name = "mirror",
    .device_count = device_count,
    .device_info = device_info,
    .alloc = device_alloc,
    .free = device_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .sync = cni_mirror_sync,
    .kernels = kernels,
    .kernel_size = sizeof(cn_kernel),
    .shutdown = cni_mirror_stop,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .copy_across = copy_across,
    .stream_new = cni_mirror_stream_new,
    .stream_free = cni_mirror_stream_free,
    .stream_sync = cni_mirror_stream_sync,
    .stream_query = cni_mirror_stream_query,
    .event_new = cni_mirror_event_new,
    .event_free = cni_mirror_event_free,
    .event_record = cni_mirror_event_record,
    .event_wait = cni_mirror_event_wait,
    .event_query = cni_mirror_event_query,
    .event_sync = cni_mirror_event_sync,
    .event_elapsed = cni_mirror_event_elapsed,
    .graph_compile = cni_mirror_graph_compile,
    .graph_launch = cni_mirror_graph_launch,
    .graph_free = cni_mirror_graph_free,
    .memory_reserved = memory_reserved,
    .memory_trim = cni_mirror_sync, /* what is kept is what is queued to be released */
    .record_begin = cni_mirror_record_begin,
    .record_end = cni_mirror_record_end,
    .record_run = cni_mirror_record_run,
    .record_free = cni_mirror_record_free,
    .record_hold = cni_mirror_record_hold,
    .memory_limit = memory_limit,
    .host_wait = host_wait,
};

/* CAIRN_MIRROR: what it is to do without, for tests of devices that must: strides, inplace, graphs, recordings. */
static void leave_out(const char *names)
{
  if (strstr(names, "strides")) backend.can &= ~(uint32_t)CN_CAN_STRIDES;
  if (strstr(names, "inplace")) backend.can &= ~(uint32_t)CN_CAN_INPLACE;
  if (strstr(names, "graphs")) backend.graph_compile = NULL;
  if (strstr(names, "recordings")) backend.record_begin = NULL;
}

const cn_backend *cni_mirror_backend(const cn_host *services)
{
  host = services;
  const char *sync = host->env("CAIRN_SYNC"), *without = host->env("CAIRN_MIRROR");
  if (without) leave_out(without);
  cni_mirror_waits = sync && strcmp(sync, "0") != 0;
  return &backend;
}
