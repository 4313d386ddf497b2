/* recording.c: work that a thread records by hand and replays: see cairn/recording.h.
 *
 * Place in the flow: while a thread records, the backend keeps what it queues (cn_backend.record_begin), dispatch.c
 * brings every kernel's call here first, and memory.c takes memory from the pool. What differs from replay to replay is
 * never in the recorded work: random ops read where their numbers begin, and kernels read numbers in host memory, from
 * device memory that each replay sets. Calls of the host that make such numbers are kept, in order, and made again.
 * Invariant: a recording that ended has left no trace but memory: random numbers, and what kept calls of the host
 * wrote, are as they were before it. */
#include "recording.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "dispatch.h"
#include "graph/ir.h"
#include "ops/apply.h"
#include "ops/families.h"
#include "registry.h"
#include "stream.h"
#include "tensor/args.h"
#include "tensor/tensor.h"

enum { NUMBERS = 64 << 10, NUMBER_ALIGN = 16, RANDOM_BYTES = 16 };

/* A call of the host, to be made again: everything behind the struct is its own. */
typedef struct host_call {
  const cni_opinfo *info;
  size_t size;
  bool again; /* it gives the same kind of result each time: no random numbers, no size of its own */
  cn_call c;
} host_call;

/* What the host does before a launch, in this order. */
typedef struct action {
  host_call *call;      /* NULL: a number is read */
  cn_tensor *number;    /* kept */
  size_t offset, bytes; /* among the numbers */
} action;

typedef struct freed {
  struct freed *next;
  void *memory, *stream;
  size_t size;
} freed;

/* What a tensor in host memory held before. */
typedef struct undo {
  struct undo *next;
  cni_storage *storage; /* kept */
  char bytes[];
} undo;

struct cn_recording {
  cn_recording_pool *pool;
  cn_device device;
  bool begun;            /* and not ended */
  void *work;            /* the backend's; NULL: not ended, or failed */
  bool replayed;
  uint64_t seed, offset; /* the thread's random numbers when it began */
  uint64_t draws;
  action *actions;
  size_t nactions, actions_cap;
  bool depends; /* a number comes from a call of the host */
  size_t bytes; /* of numbers */
  char *sent;
  cni_storage *there; /* ... and where they are on the device */
  freed *freed;
  undo *undo;
};

atomic_int cni_recorders;
static _Thread_local cn_recording *here;
cn_recording *cni_recording_here(void) { return here; }
bool cn_recording_now(cn_device device) { return here && here->device == device; }

bool cn_device_records(cn_device device)
{
  const cn_backend *b = device > CN_CPU ? cni_backend_at((device >> 8) - 1) : NULL;
  return b && b->record_begin && b->record_hold;
}

static const cn_backend *backend_of(const cn_recording *r) { return cni_backend_at((r->device >> 8) - 1); }
static int index_of(const cn_recording *r) { return cni_device_index(r->device); }

/* ---- memory ---- */

cn_recording_pool *cni_recording_pool_for(cn_device device)
{
  const cn_recording *r = cni_recording_at_work();
  return r && r->device == device ? r->pool : NULL;
}

bool cni_recording_frees(cn_device device, void *memory, size_t size, void *stream)
{
  cn_recording *r = cni_recording_at_work();
  freed *f = r && r->device == device ? cni_alloc(sizeof *f) : NULL;
  if (!f) return false;
  *f = (freed){r->freed, memory, stream, size};
  r->freed = f;
  return true;
}

static void free_waiting(cn_recording *r)
{
  while (r->freed) {
    freed *f = r->freed;
    r->freed = f->next;
    backend_of(r)->free(index_of(r), f->memory, f->size, f->stream);
    cni_free(f, sizeof *f);
  }
}

/* ---- calls of the host ---- */

static void call_free(host_call *h)
{
  for (int i = 0; i < h->c.nin; i++) cni_tensor_release(h->c.in[i]);
  for (int i = 0; i < h->c.nout; i++) cni_tensor_release(h->c.out[i]);
  cni_free(h, h->size);
}

static host_call *call_new(const cn_call *c, const cni_opinfo *info)
{
  size_t ins = (size_t)c->nin * sizeof(cn_tensor *), outs = (size_t)c->nout * sizeof(cn_tensor *);
  size_t specs = (size_t)c->nout * sizeof(cn_spec), args = cni_args_bytes(c->args, c->nargs);
  size_t size = sizeof(host_call) + ins + outs + specs + args;
  host_call *h = cni_alloc(size);
  if (!h) return NULL;
  *h = (host_call){.info = info, .size = size, .again = !(info->row->flags & CN_OP_RANDOM), .c = *c};
  cn_tensor **in = (cn_tensor **)(void *)(h + 1), **out = in + c->nin;
  cn_spec *spec = (cn_spec *)(void *)(out + c->nout);
  cn_value *values = (cn_value *)(void *)(spec + c->nout);
  for (int i = 0; i < c->nin; i++) in[i] = c->in[i] ? cni_tensor_keep(c->in[i]) : NULL;
  for (int i = 0; i < c->nout; i++) {
    out[i] = cni_tensor_keep(c->out[i]);
    spec[i] = c->spec[i];
    if (spec[i].data_dependent) h->again = false;
  }
  cni_args_copy(values, c->args, c->nargs);
  cni_fill_slots(info, values, in);
  h->c.in = in, h->c.out = out, h->c.spec = spec, h->c.args = values;
  h->c.plan = NULL, h->c.keep = NULL, h->c.prepared = NULL, h->c.workspace = NULL;
  return h;
}

static int call_again(host_call *h)
{
  cn_call c = h->c;
  int status = cni_dispatch_now(&c, h->info);
  for (int i = 0; i < c.nout; i++) cni_count_write(c.out[i]);
  if (status != CN_REFUSED) return status;
  return cni_fail(CN_ERR_UNSUPPORTED, "%s: a call of the host that cannot be repeated in a replay", h->info->name);
}

static bool writes(const cn_call *c, const cni_storage *s)
{
  for (int i = 0; i < c->nout; i++)
    if (c->out[i] && c->out[i]->storage == s) return true;
  return false;
}

static bool was_there(const cn_call *c, const cni_storage *s)
{
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && c->in[i]->storage == s) return true;
  return cni_storage_writes(s) > 0;
}

/* Keeps what a call is about to write over, unless that is known already. */
static int keep_old(cn_recording *r, const cn_call *c)
{
  for (int i = 0; i < c->nout; i++) {
    cni_storage *s = c->out[i] ? c->out[i]->storage : NULL;
    if (!s || !s->data || !was_there(c, s)) continue;
    const undo *u = r->undo;
    while (u && u->storage != s) u = u->next;
    undo *made = u ? NULL : cni_alloc(sizeof *made + s->size);
    if (!u && !made) return CN_ERR_MEMORY;
    if (u) continue;
    *made = (undo){r->undo, cni_storage_keep(s)};
    memcpy(made->bytes, s->data, s->size);
    r->undo = made;
  }
  return CN_OK;
}

/* back: what was written over comes back. */
static void drop_old(cn_recording *r, bool back)
{
  while (r->undo) {
    undo *u = r->undo;
    r->undo = u->next;
    if (back) {
      memcpy(u->storage->data, u->bytes, u->storage->size);
      atomic_fetch_add_explicit(&u->storage->version, 1, memory_order_relaxed);
    }
    size_t size = sizeof *u + u->storage->size;
    cni_storage_release(u->storage);
    cni_free(u, size);
  }
}

static action *add_action(cn_recording *r)
{
  if (cni_grow((void **)&r->actions, &r->actions_cap, r->nactions + 1, sizeof *r->actions)) return NULL;
  action *a = &r->actions[r->nactions++];
  *a = (action){NULL, NULL, 0, 0};
  return a;
}

static int run_here(cn_recording *r, cn_call *c, const cni_opinfo *info)
{
  int status = keep_old(r, c);
  if (!status) status = cni_dispatch_now(c, info);
  if (status) return status;
  host_call *h = call_new(c, info);
  action *a = h ? add_action(r) : NULL;
  if (a) a->call = h;
  else if (h) call_free(h);
  return a ? CN_OK : CN_ERR_MEMORY;
}

/* ---- calls of the device ---- */

static bool in_host_memory(const cn_tensor *t) { return t && t->d.device == CN_CPU && !t->d.weak; }

/* The place among the numbers of a tensor in host memory; SIZE_MAX with the error set. */
static size_t place_of(cn_recording *r, cn_tensor *t, const char *op)
{
  size_t bytes = cni_dtype_bytes(t->d.dtype, t->d.numel);
  for (size_t i = r->nactions; i-- > 0;) {
    const action *a = &r->actions[i];
    if (!a->call && a->number->d.data == t->d.data && a->bytes == bytes) return a->offset;
    if (!a->call || !writes(&a->call->c, t->storage)) continue;
    if (!a->call->again) {
      cni_fail(CN_ERR_CAPTURE, "%s: reads what %s made in host memory while work was recorded, which a replay would "
               "not make anew: make it on the device", op, a->call->info->name);
      return SIZE_MAX;
    }
    r->depends = true;
    break;
  }
  size_t offset = (r->bytes + NUMBER_ALIGN - 1) / NUMBER_ALIGN * NUMBER_ALIGN;
  if (!cni_is_contiguous(t->d.ndim, t->d.shape, t->d.strides) || offset + bytes > NUMBERS) {
    cni_fail(CN_ERR_CAPTURE, "%s: reads too much, or strided, host memory while work is recorded: bring it to the "
             "device before", op);
    return SIZE_MAX;
  }
  action *a = add_action(r);
  if (!a) return SIZE_MAX;
  *a = (action){NULL, cni_tensor_keep(t), offset, bytes};
  r->bytes = offset + bytes;
  return offset;
}

/* What stands on the device for a tensor in host memory; owned. */
static cn_tensor *there_for(cn_recording *r, cn_tensor *t, const char *op)
{
  size_t place = place_of(r, t, op);
  if (place == SIZE_MAX) return NULL;
  return cni_tensor_over(cni_storage_keep(r->there), (int64_t)(place / cni_dtype_size(t->d.dtype)), t->d.dtype,
                         t->d.ndim, t->d.shape, t->d.strides);
}

/* in, args: room for the call's. */
static int run_reading(cn_recording *r, cn_call *c, const cni_opinfo *info, cn_tensor **in, cn_value *args)
{
  cn_tensor *const *given_in = c->in;
  const cn_value *given = c->args;
  int status = CN_OK;
  for (int i = 0; i < c->nin; i++) {
    in[i] = in_host_memory(given_in[i]) && !status ? there_for(r, given_in[i], info->name) : given_in[i];
    if (given_in[i] && !in[i]) status = cn_err();
  }
  if (!status) {
    memcpy(args, given, (size_t)c->nargs * sizeof *args);
    cni_fill_slots(info, args, in);
    c->in = in;
    c->args = args;
    status = cni_dispatch_now(c, info);
    c->in = given_in;
    c->args = given;
  }
  for (int i = 0; i < c->nin; i++)
    if (in[i] && in[i] != given_in[i]) cni_tensor_release(in[i]);
  return status;
}

static int run_there(cn_recording *r, cn_call *c, const cni_opinfo *info)
{
  bool reads = false;
  if (info->row->flags & CN_OP_RANDOM) {
    if (c->seed != r->seed)
      return cni_fail(CN_ERR_CAPTURE, "%s: recorded work draws from the thread's own random numbers, not from those of "
                      "another generator or seed", info->name);
    c->random = r->there->data;
  }
  for (int i = 0; i < c->nin && !reads; i++) reads = in_host_memory(c->in[i]);
  if (!reads) return cni_dispatch_now(c, info);
  cn_value args[CN_MAX_ARGS];
  size_t bytes = (size_t)c->nin * sizeof(cn_tensor *);
  cn_tensor **in = cni_alloc(bytes);
  int status = in ? run_reading(r, c, info, in, args) : CN_ERR_MEMORY;
  if (in) cni_free(in, bytes);
  return status;
}

int cni_recording_call(cn_recording *r, cn_call *c, const cni_opinfo *info)
{
  if (c->device == r->device) return run_there(r, c, info);
  return c->device == CN_CPU ? run_here(r, c, info) : cni_dispatch_now(c, info);
}

/* ---- life ---- */

static cn_recording *recording_new(cn_recording_pool *pool)
{
  cn_recording *r = cni_alloc_zero(sizeof *r);
  if (!r) return NULL;
  r->pool = cni_pool_keep(pool);
  r->device = cni_pool_device(pool);
  r->bytes = RANDOM_BYTES;
  r->there = cni_storage_new(r->device, NUMBERS);
  if (r->there) return r;
  cn_recording_free(r);
  return NULL;
}

static int start(cn_recording *r)
{
  const cn_backend *b = backend_of(r);
  int status = b->record_begin && b->record_hold ? b->record_begin(index_of(r)) : CN_REFUSED;
  if (status == CN_REFUSED)
    return cni_fail(CN_ERR_UNSUPPORTED, "recording: the device %s records no work, or is told not to", b->name);
  if (status) return status;
  b->record_hold(index_of(r));
  cn_random_state(&r->seed, &r->offset);
  cn_random_set_state(r->seed, 0); /* draws count from here: a replay says where here is */
  r->begun = true;
  here = r;
  atomic_fetch_add(&cni_recorders, 1);
  return CN_OK;
}

cn_recording *cn_recording_begin(cn_recording_pool *pool)
{
  if (cn_err()) return NULL;
  if (!pool) return cni_fail(CN_ERR_TYPE, "recording: the pool is missing (NULL)"), NULL;
  if (here) return cni_fail(CN_ERR_CAPTURE, "recording: this thread records already"), NULL;
  if (cni_state()->capture) return cni_fail(CN_ERR_CAPTURE, "recording: a graph is being captured"), NULL;
  cn_recording *r = recording_new(pool);
  if (!r || !start(r)) return r;
  cn_recording_free(r);
  return NULL;
}

/* Only numbers that calls of the host made need these calls again. */
static void drop_calls(cn_recording *r)
{
  size_t n = 0;
  for (size_t i = 0; i < r->nactions; i++) {
    if (r->actions[i].call) call_free(r->actions[i].call);
    else r->actions[n++] = r->actions[i];
  }
  r->nactions = n;
}

/* work NULL: what was recorded is dropped. */
static int stop(cn_recording *r, void **work)
{
  uint64_t seed;
  here = NULL;
  r->begun = false;
  atomic_fetch_sub(&cni_recorders, 1);
  cn_random_state(&seed, &r->draws);
  cn_random_set_state(r->seed, r->offset);
  int status = backend_of(r)->record_end(index_of(r), work);
  free_waiting(r);
  drop_old(r, r->depends || !work || status);
  if (!r->depends) drop_calls(r);
  if (!status && work && seed != r->seed)
    status = cni_fail(CN_ERR_CAPTURE, "recording: the random numbers were seeded while work was recorded");
  return status;
}

int cn_recording_end(cn_recording *r)
{
  if (!r || r != here) return cni_fail(CN_ERR_CAPTURE, "recording: it was not begun by this thread, or ended already");
  if (!(r->sent = cni_alloc_zero(r->bytes))) return CN_ERR_MEMORY;
  void *work = NULL;
  int status = stop(r, &work);
  if (!status) r->work = work;
  else if (work) backend_of(r)->record_free(index_of(r), work);
  return status;
}

void cn_recording_free(cn_recording *r)
{
  if (!r) return;
  if (r->begun && r == here) stop(r, NULL);
  if (r->work) {
    if (r->replayed) cni_memory.sync(r->device); /* a launch may be in any stream */
    backend_of(r)->record_free(index_of(r), r->work);
  }
  for (size_t i = 0; i < r->nactions; i++) {
    if (r->actions[i].call) call_free(r->actions[i].call);
    else cni_tensor_release(r->actions[i].number);
  }
  if (r->actions) cni_free(r->actions, r->actions_cap * sizeof *r->actions);
  if (r->sent) cni_free(r->sent, r->bytes);
  cni_storage_release(r->there);
  cn_recording_pool_free(r->pool);
  cni_free(r, sizeof *r);
}

int cn_recording_replay(cn_recording *r)
{
  if (cn_err()) return cn_err();
  if (!r || !r->work) return cni_fail(CN_ERR_CAPTURE, "recording: there is no recorded work to replay");
  if (here) return cni_fail(CN_ERR_CAPTURE, "recording: a replay cannot be recorded");
  for (size_t i = 0; i < r->nactions; i++) {
    const action *a = &r->actions[i];
    int status = a->call ? call_again(a->call) : CN_OK;
    if (status) return status;
    if (!a->call) memcpy(r->sent + a->offset, a->number->d.data, a->bytes);
  }
  bool same = !r->draws && !r->nactions; /* as every other replay: there is nothing to send */
  uint64_t random[2];
  cni_random_take(&random[0], &random[1], r->draws);
  memcpy(r->sent, random, sizeof random);
  cn_record_run run = {.size = sizeof run, .numbers_to = r->there->data, .numbers = r->sent,
                       .numbers_bytes = same ? 0 : r->bytes, .stream = cni_stream_in_use(r->device)};
  r->replayed = true;
  return backend_of(r)->record_run(index_of(r), r->work, &run);
}
