/* stream.c: streams and events of all devices, and which stream a thread uses. See include/cairn/device.h.
 *
 * Place in the flow: apply and memory.c ask for the stream in use and hand it to backends. On devices without streams
 * all work is in one queue: a stream stands for that, and an event waits when it is recorded. Invariant: a stream lives
 * as long as a thread uses it, whoever frees it. */
#include "stream.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/os.h"
#include "base/state.h"
#include "ops/families.h"
#include "registry.h"
#include "tensor/tensor.h"

struct cn_stream {
  _Atomic int refs;
  cn_device device;
  void *handle; /* the backend's; NULL where it has none */
};

struct cn_event {
  cn_device device;
  void *handle;
  bool recorded; /* where the backend has no events: when */
  double time;
};

static const cn_backend *with_streams(cn_device device)
{
  const cn_backend *b = cni_backend_of(device);
  return b && b->stream_new ? b : NULL;
}

/* ---- the stream in use ---- */

static cni_stream_slot *slot_of(cn_state *st, cn_device device)
{
  for (int i = 0; i < st->nstreams; i++)
    if (st->streams[i].device == device) return &st->streams[i];
  return NULL;
}

void *cni_stream_in_use(cn_device device)
{
  cn_state *st = cni_state();
  if (CNI_LIKELY(!st->nstreams)) return NULL;
  const cni_stream_slot *slot = slot_of(st, device);
  return slot ? slot->stream->handle : NULL;
}

cn_stream *cn_stream_current(cn_device device)
{
  const cni_stream_slot *slot = slot_of(cni_state(), device);
  return slot ? slot->stream : NULL;
}

cn_stream *cn_stream_keep(cn_stream *s)
{
  if (s) atomic_fetch_add(&s->refs, 1);
  return s;
}

void cn_stream_release(cn_stream *s)
{
  if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
  const cn_backend *b = with_streams(s->device);
  if (b && s->handle) b->stream_free(cni_device_index(s->device), s->handle);
  cni_free(s, sizeof *s);
}

int cn_stream_use(cn_device device, cn_stream *stream)
{
  cn_state *st = cni_state();
  cni_stream_slot *slot = slot_of(st, device);
  if (stream && stream->device != device) return cni_fail(CN_ERR_DEVICE, "stream_use: the stream is another device's");
  if (!slot && !stream) return CN_OK;
  if (!slot && st->nstreams == CNI_STREAMS)
    return cni_fail(CN_ERR_UNSUPPORTED, "stream_use: streams of more than %d devices at once", CNI_STREAMS);
  cn_stream *before = slot ? slot->stream : NULL, *used = cn_stream_keep(stream);
  if (!slot) slot = &st->streams[st->nstreams++];
  *slot = used ? (cni_stream_slot){device, used} : st->streams[--st->nstreams];
  cn_stream_release(before);
  return CN_OK;
}

void cni_streams_forget(cn_state *st)
{
  while (st->nstreams) cn_stream_release(st->streams[--st->nstreams].stream);
}

/* ---- streams ---- */

cn_stream *cn_stream_new(cn_device device, int priority)
{
  cni_init();
  if (device == CN_DEVICE_DEFAULT) device = cn_default_device();
  if (!cni_backend_of(device)) return NULL;
  const cn_backend *b = with_streams(device);
  cn_stream *s = cni_alloc(sizeof *s);
  if (!s) return NULL;
  *s = (cn_stream){.device = device};
  atomic_init(&s->refs, 1);
  if (b) s->handle = b->stream_new(cni_device_index(device), priority);
  if (!b || s->handle) return s;
  cni_fail(CN_ERR_DEVICE, "stream_new: %s could not make a stream", b->name);
  cni_free(s, sizeof *s);
  return NULL;
}

cn_device cn_stream_device(const cn_stream *s) { return s->device; }
void *cn_stream_handle(const cn_stream *s) { return s->handle; }

int cn_stream_sync(cn_stream *s)
{
  const cn_backend *b = with_streams(s->device);
  int status = cni_waiting();
  if (status) return status;
  return b ? b->stream_sync(cni_device_index(s->device), s->handle) : cni_memory.sync(s->device);
}

int cn_stream_query(cn_stream *s)
{
  const cn_backend *b = with_streams(s->device);
  if (b) return b->stream_query(cni_device_index(s->device), s->handle);
  int status = cni_memory.sync(s->device);
  return status ? status : 1;
}

int cn_stream_wait(cn_stream *s, cn_event *event)
{
  const cn_backend *b = with_streams(event->device);
  if (s && s->device != event->device)
    return cni_fail(CN_ERR_DEVICE, "stream_wait: the event is another device's; wait for it with cn_event_sync");
  return b ? b->event_wait(cni_device_index(event->device), event->handle, s ? s->handle : NULL) : CN_OK;
}

void *cn_device_stream(cn_device device)
{
  cni_init();
  if (device == CN_DEVICE_DEFAULT) device = cn_default_device();
  void *used = cni_stream_in_use(device);
  const cn_backend *b = used ? NULL : cni_backend_of(device);
  return b && b->stream ? b->stream(cni_device_index(device)) : used;
}

/* ---- events ---- */

cn_event *cn_event_new(cn_device device, bool timing)
{
  cni_init();
  if (device == CN_DEVICE_DEFAULT) device = cn_default_device();
  if (!cni_backend_of(device)) return NULL;
  const cn_backend *b = with_streams(device);
  cn_event *e = cni_alloc(sizeof *e);
  if (!e) return NULL;
  *e = (cn_event){.device = device};
  if (b) e->handle = b->event_new(cni_device_index(device), timing);
  if (!b || e->handle) return e;
  cni_fail(CN_ERR_DEVICE, "event_new: %s could not make an event", b->name);
  cni_free(e, sizeof *e);
  return NULL;
}

void cn_event_free(cn_event *e)
{
  if (!e) return;
  const cn_backend *b = with_streams(e->device);
  if (b) b->event_free(cni_device_index(e->device), e->handle);
  cni_free(e, sizeof *e);
}

int cn_event_record(cn_event *e, cn_stream *s)
{
  const cn_backend *b = with_streams(e->device);
  if (s && s->device != e->device) return cni_fail(CN_ERR_DEVICE, "event_record: the stream is another device's");
  if (b) return b->event_record(cni_device_index(e->device), e->handle, s ? s->handle : cni_stream_in_use(e->device));
  int status = cni_memory.sync(e->device);
  e->recorded = true;
  e->time = cni_os_now();
  return status;
}

int cn_event_query(cn_event *e)
{
  const cn_backend *b = with_streams(e->device);
  return b ? b->event_query(cni_device_index(e->device), e->handle) : 1;
}

int cn_event_sync(cn_event *e)
{
  const cn_backend *b = with_streams(e->device);
  return b ? b->event_sync(cni_device_index(e->device), e->handle) : CN_OK;
}

int cn_event_elapsed(double *milliseconds, cn_event *from, cn_event *to)
{
  const cn_backend *b = with_streams(from->device);
  if (from->device != to->device) return cni_fail(CN_ERR_DEVICE, "event_elapsed: events of two devices");
  if (b) return b->event_elapsed(cni_device_index(from->device), milliseconds, from->handle, to->handle);
  if (!from->recorded || !to->recorded) return cni_fail(CN_ERR_VALUE, "event_elapsed: an event was never recorded");
  *milliseconds = 1e3 * (to->time - from->time);
  return CN_OK;
}

int cn_tensor_record_stream(cn_tensor *t, cn_stream *s)
{
  if (!t || !s) return cni_fail(CN_ERR_TYPE, "record_stream: the tensor or the stream is missing (NULL)");
  if (t->d.device != s->device) return cni_fail(CN_ERR_DEVICE, "record_stream: the tensor is on another device");
  return cni_storage_used_by(t->storage, s->handle);
}
