/* memory.c: memory and order on any device: what tensors are made of, counted, and copies to and from the host.
 *
 * Place in the flow: fills cni_memory, through which tensor/ reaches backends that it does not know. Everything goes
 * into the stream that the calling thread uses on the device (stream.c). Invariant: memory is given back in the stream
 * it was taken in. */
#include <cairn/ext/system.h>
#include <stdatomic.h>
#include <string.h>

#include "base/state.h"
#include "ops/families.h"
#include "recording.h"
#include "registry.h"
#include "stream.h"
#include "tensor/tensor.h"

/* ---- memory ---- */

/* What tensors hold on each device. */
typedef struct usage {
  atomic_size_t in_use, peak;
} usage;
static usage held[CNI_MAX_BACKENDS][256];

static usage *usage_of(cn_device device)
{
  int backend = (device >> 8) - 1;
  return device > 0 && backend >= 0 && backend < CNI_MAX_BACKENDS ? &held[backend][device & 255] : NULL;
}

static void count(usage *u, size_t size)
{
  size_t now = atomic_fetch_add(&u->in_use, size) + size, most = atomic_load(&u->peak);
  while (now > most && !atomic_compare_exchange_weak(&u->peak, &most, now)) continue;
}

static void *device_alloc(cn_device device, size_t size, void *stream)
{
  const cn_backend *b = cni_backend_of(device);
  cn_recording_pool *pool = CNI_UNLIKELY(cni_recording_at_work() != NULL) ? cni_recording_pool_for(device) : NULL;
  void *p = pool ? cni_pool_alloc(pool, size) : b ? b->alloc(cni_device_index(device), size, stream) : NULL;
  if (b && !p) cni_fail(CN_ERR_MEMORY, "out of memory: %zu bytes on %s:%d", size, b->name, cni_device_index(device));
  if (p) count(usage_of(device), size);
  return p;
}
static void device_free(cn_device device, void *memory, size_t size, void *stream)
{
  if (!cni_pool_give_back(memory) && !cni_recording_frees(device, memory, size, stream))
    cni_backend_of(device)->free(cni_device_index(device), memory, size, stream);
  atomic_fetch_sub(&usage_of(device)->in_use, size);
}

void cn_device_memory(size_t *in_use, size_t *peak, cn_device device)
{
  usage *u = usage_of(device);
  *in_use = u ? atomic_load(&u->in_use) : 0;
  *peak = u ? atomic_load(&u->peak) : 0;
}

void cn_device_memory_reset_peak(cn_device device)
{
  usage *u = usage_of(device);
  if (u) atomic_store(&u->peak, atomic_load(&u->in_use));
  size_t now, peak;
  const cn_backend *b = u ? cni_backend_of(device) : NULL;
  if (b && b->memory_reserved) b->memory_reserved(cni_device_index(device), &now, &peak, true);
}

void cn_device_memory_reserved(size_t *now, size_t *peak, cn_device device)
{
  const cn_backend *b = usage_of(device) ? cni_backend_of(device) : NULL;
  if (b && b->memory_reserved) b->memory_reserved(cni_device_index(device), now, peak, false);
  else cn_device_memory(now, peak, device);
}

int cn_device_memory_trim(cn_device device)
{
  const cn_backend *b = cni_backend_of(device);
  if (!b) return cn_err();
  return b->memory_trim ? b->memory_trim(cni_device_index(device)) : CN_OK;
}

int cn_device_memory_get_stats(cn_device_memory_stats *stats, cn_device device)
{
  const cn_backend *b = cni_backend_of(device);
  size_t size = stats->size;
  if (!b) return cn_err();
  memset(stats, 0, size);
  stats->size = size;
  if (b->memory_stats) b->memory_stats(cni_device_index(device), stats);
  return CN_OK;
}

int cn_device_memory_pieces(void (*each)(const cn_memory_piece *piece, void *payload), void *payload, cn_device device)
{
  const cn_backend *b = cni_backend_of(device);
  if (b && b->memory_pieces) return b->memory_pieces(cni_device_index(device), each, payload);
  return b ? cni_fail(CN_ERR_UNSUPPORTED, "memory pieces: memory of %s devices has none", b->name) : cn_err();
}

static const cn_backend *with_events(cn_device device)
{
  const cn_backend *b = cni_backend_of(device);
  if (!b || b->memory_record) return b;
  cni_fail(CN_ERR_UNSUPPORTED, "memory events: %s devices keep none", b->name);
  return NULL;
}
int cn_device_memory_record(cn_device device, size_t events)
{
  const cn_backend *b = with_events(device);
  return b ? b->memory_record(cni_device_index(device), events) : cn_err();
}
int cn_device_memory_events(void (*each)(const cn_memory_event *event, void *payload), void *payload, cn_device device)
{
  const cn_backend *b = with_events(device);
  return b ? b->memory_events(cni_device_index(device), each, payload) : cn_err();
}

static void pinned_stats(cn_pinned_stats *stats, cn_device device, bool reset)
{
  const cn_backend *b = cni_backend_of(device);
  *stats = (cn_pinned_stats){0};
  if (b && b->pinned_stats) b->pinned_stats(cni_device_index(device), stats, reset);
}
void cn_device_pinned_stats(cn_pinned_stats *stats, cn_device device) { pinned_stats(stats, device, false); }
void cn_device_pinned_reset_peak(cn_device device)
{
  cn_pinned_stats unused;
  pinned_stats(&unused, device, true);
}

/* ---- waiting ---- */

static _Atomic int wait_mode;

int cn_set_wait_mode(cn_wait_mode mode)
{
  if ((int)mode < CN_WAIT_SILENT || mode > CN_WAIT_FAIL)
    return cni_fail(CN_ERR_VALUE, "cn_set_wait_mode: there is no such setting: %d", (int)mode);
  atomic_store(&wait_mode, (int)mode);
  return CN_OK;
}
cn_wait_mode cn_wait_mode_now(void) { return (cn_wait_mode)atomic_load_explicit(&wait_mode, memory_order_relaxed); }

int cni_waiting(void)
{
  cn_wait_mode mode = cn_wait_mode_now();
  const char *op = cni_state()->running ? cni_state()->running : "a call";
  if (mode == CN_WAIT_FAIL) return cni_fail(CN_ERR_DEVICE, "%s would wait for the device (cn_set_wait_mode)", op);
  if (mode == CN_WAIT_WARN) cn_warn("%s waits for the device", op);
  return CN_OK;
}

int cn_device_memory_set_limit(cn_device device, size_t bytes)
{
  const cn_backend *b = cni_backend_of(device);
  if (b && b->memory_limit) return b->memory_limit(cni_device_index(device), bytes);
  return b ? cni_fail(CN_ERR_UNSUPPORTED, "memory limit: %s devices have none", b->name) : cn_err();
}

static int device_copy_in(cn_device device, void *to, const void *host, size_t size)
{
  const cn_backend *b = cni_backend_of(device);
  return b ? b->copy_in(cni_device_index(device), to, host, size, cni_stream_in_use(device)) : CN_ERR_DEVICE;
}
static int device_copy_out(cn_device device, void *host, const void *from, size_t size)
{
  const cn_backend *b = cni_backend_of(device);
  return b ? b->copy_out(cni_device_index(device), host, from, size, cni_stream_in_use(device)) : CN_ERR_DEVICE;
}
static int device_sync(cn_device device)
{
  const cn_backend *b = cni_backend_of(device);
  return b ? (b->sync ? b->sync(cni_device_index(device)) : CN_OK) : CN_ERR_DEVICE;
}

static void *pinned_alloc(cn_device device, size_t size)
{
  const cn_backend *b = cni_backend_of(device);
  return b && b->host_alloc && b->host_free ? b->host_alloc(cni_device_index(device), size) : NULL;
}
static void pinned_free(cn_device device, void *memory, size_t size)
{
  cni_backend_of(device)->host_free(cni_device_index(device), memory, size);
}

static int pinned_wait(cn_device device, const void *memory)
{
  const cn_backend *b = cni_backend_of(device);
  return b && b->host_wait ? b->host_wait(cni_device_index(device), memory) : device_sync(device);
}

/* A block that other streams have used is given back when they have come so far. */
static int device_join(cn_device device, void *from, void *to)
{
  const cn_backend *b = cni_backend_of(device);
  int index = cni_device_index(device);
  if (!b || !b->event_new) return CN_OK;
  void *event = b->event_new(index, false);
  int status = event ? b->event_record(index, event, from) : CN_ERR_MEMORY;
  if (!status) status = b->event_wait(index, event, to);
  if (event) b->event_free(index, event);
  return status;
}

static uint32_t device_can(cn_device device)
{
  const cn_backend *b = cni_backend_at((device >> 8) - 1);
  return b ? b->can : 0;
}

const cni_memory_table cni_memory = {
    .alloc = device_alloc,
    .free = device_free,
    .copy_in = device_copy_in,
    .copy_out = device_copy_out,
    .sync = device_sync,
    .find = cn_device_find,
    .name = cn_device_name,
    .host_alloc = pinned_alloc,
    .host_free = pinned_free,
    .host_wait = pinned_wait,
    .can = device_can,
    .stream = cni_stream_in_use,
    .join = device_join,
};

int cn_device_sync(cn_device device)
{
  cni_init();
  return device_sync(device == CN_DEVICE_DEFAULT ? cn_default_device() : device);
}
