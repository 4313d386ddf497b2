/* tfrecord.c: messages in Protocol Buffers' wire form, and the file of records that holds them. See tfrecord.h.
 *
 * A record is its length (8 bytes, little-endian), the length's checksum, the bytes and their checksum; checksums are
 * CRC-32C, rotated and shifted. Records gather in memory and are appended to the file some at a time.
 * Invariant: a file ends behind a whole record, whatever becomes of the process, unless a write itself is cut short. */
#include "tfrecord.h"

#include <cairn/device.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { FLUSH_BYTES = 1 << 16, FLUSH_SECONDS = 5 };

/* ---- messages ---- */

static void put_varint(cn_text *m, uint64_t v)
{
  char bytes[10];
  size_t n = 0;
  for (; v >= 0x80; v >>= 7) bytes[n++] = (char)(v | 0x80);
  bytes[n++] = (char)v;
  cn_text_put_bytes(m, bytes, n);
}

static void put_key(cn_text *m, int field, int wire) { put_varint(m, (uint64_t)field << 3 | (uint64_t)wire); }

static void put_fixed(cn_text *m, uint64_t v, size_t size)
{
  char bytes[8];
  for (size_t i = 0; i < size; i++) bytes[i] = (char)(v >> 8 * i);
  cn_text_put_bytes(m, bytes, size);
}

static uint64_t bits_of(double v)
{
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

void cni_pb_int(cn_text *m, int field, int64_t value)
{
  put_key(m, field, WIRE_VARINT);
  put_varint(m, (uint64_t)value);
}

void cni_pb_double(cn_text *m, int field, double value)
{
  put_key(m, field, WIRE_64);
  put_fixed(m, bits_of(value), 8);
}

void cni_pb_float(cn_text *m, int field, float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_key(m, field, WIRE_32);
  put_fixed(m, bits, 4);
}

void cni_pb_bytes(cn_text *m, int field, const void *bytes, size_t size)
{
  put_key(m, field, WIRE_BYTES);
  put_varint(m, size);
  cn_text_put_bytes(m, size ? bytes : "", size);
}

void cni_pb_str(cn_text *m, int field, const char *s) { cni_pb_bytes(m, field, s, strlen(s)); }

void cni_pb_doubles(cn_text *m, int field, const double *v, size_t n)
{
  put_key(m, field, WIRE_BYTES);
  put_varint(m, n * 8);
  for (size_t i = 0; i < n; i++) put_fixed(m, bits_of(v[i]), 8);
}

void cni_pb_message(cn_text *m, int field, cn_text *inner)
{
  cni_pb_bytes(m, field, inner->s, inner->n);
  m->failed = m->failed || inner->failed;
  cn_text_free(inner);
}

/* ---- records ---- */

/* CRC-32C, half a byte at a time: a table that needs no making. */
static uint32_t crc32c(const char *bytes, size_t size)
{
  static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                     0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                     0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
  uint32_t c = ~0u;
  for (size_t i = 0; i < size; i++) {
    c ^= (unsigned char)bytes[i];
    c = c >> 4 ^ table[c & 15];
    c = c >> 4 ^ table[c & 15];
  }
  return ~c;
}

/* As the format wants it, so that a checksum of bytes that hold checksums stays a good one. */
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

static void put_record(cn_text *out, const char *bytes, size_t size)
{
  cn_text head = {0};
  put_fixed(&head, size, 8);
  if (head.failed) out->failed = true;
  else {
    put_fixed(&head, masked(crc32c(head.s, 8)), 4);
    cn_text_put_bytes(out, head.s, head.n);
    out->failed = out->failed || head.failed;
    cn_text_put_bytes(out, bytes, size);
    put_fixed(out, masked(crc32c(bytes, size)), 4);
  }
  cn_text_free(&head);
}

/* ---- the file ---- */

int cni_events_check(const cn_events *events, const char *who, const char *tag)
{
  if (cn_err()) return cn_err();
  if (!events) return cn_err_set(CN_ERR_TYPE, "%s: the log is missing (NULL)", who);
  if (!tag || !*tag) return cn_err_set(CN_ERR_VALUE, "%s: what is logged needs a tag", who);
  return CN_OK;
}

int cn_events_flush(cn_events *e)
{
  if (!e) return cni_events_check(e, "events_flush", "-");
  if (!e->pending.n) return CN_OK;
  int status = cn_file_append(e->path, e->pending.s, e->pending.n);
  if (status) return status; /* they stay for another try */
  cn_text_free(&e->pending);
  e->flushed = cn_clock();
  return CN_OK;
}

/* A failed allocation leaves out this record, never a part of it. */
static int put_event(cn_events *e, const cn_text *event)
{
  size_t before = e->pending.n;
  if (!event->failed) put_record(&e->pending, event->s, event->n);
  if (event->failed || e->pending.failed) {
    e->pending.n = before;
    e->pending.failed = false;
    return cn_err() ? cn_err() : cn_err_set(CN_ERR_MEMORY, "events: out of memory");
  }
  if (e->pending.n < FLUSH_BYTES && cn_clock() - e->flushed < FLUSH_SECONDS) return CN_OK;
  return cn_events_flush(e);
}

int cn_events_set_time(cn_events *e, double seconds)
{
  int status = cni_events_check(e, "events_set_time", "-");
  if (!status && !(seconds >= 0 && seconds < 1e300))
    status = cn_err_set(CN_ERR_VALUE, "events_set_time: no such time");
  if (!status) e->time = seconds;
  return status;
}

int cni_events_put(cn_events *e, int64_t step, int field, cn_text *message)
{
  cn_text event = {0};
  cni_pb_double(&event, 1 /* wall_time */, e->time != 0 ? e->time : cn_wall_clock());
  if (step) cni_pb_int(&event, 2 /* step */, step);
  cni_pb_message(&event, field, message);
  int status = put_event(e, &event);
  cn_text_free(&event);
  return status;
}

int cni_events_put_value(cn_events *e, const char *tag, int64_t step, cn_text *value, const char *plugin,
                         const cn_text *plugin_data)
{
  cn_text summary = {0};
  if (plugin) {
    cn_text data = {0}, metadata = {0};
    cni_pb_str(&data, 1 /* plugin_name */, plugin);
    if (plugin_data && plugin_data->n) cni_pb_bytes(&data, 2 /* content */, plugin_data->s, plugin_data->n);
    data.failed = data.failed || (plugin_data && plugin_data->failed);
    cni_pb_message(&metadata, 1 /* plugin_data */, &data);
    cni_pb_message(value, 9 /* metadata */, &metadata);
  }
  cni_pb_str(value, 1 /* tag */, tag);
  cni_pb_message(&summary, 1 /* value */, value);
  return cni_events_put(e, step, 5 /* summary */, &summary);
}

static void put_path(cn_text *path, const char *folder, const char *suffix)
{
  static _Atomic unsigned count;
  char host[256];
  cn_host_name(host, sizeof host);
  for (char *c = host; *c; c++)
    if (*c == '/') *c = '_';
  cn_text_putf(path, "%s/events.out.tfevents.%010lld.%s.%lld.%u%s", folder, (long long)cn_wall_clock(), host,
               (long long)cn_process_id(), atomic_fetch_add(&count, 1u), suffix);
}

static int begin(cn_events *e, const char *folder, const char *suffix)
{
  cn_text path = {0}, version = {0};
  put_path(&path, folder, suffix);
  e->path = cn_text_take(&path);
  e->folder = cn_string_copy(folder);
  e->flushed = cn_clock();
  if (!e->path || !e->folder) return cn_err();
  cn_text_put(&version, "brain.Event:2");
  int status = cni_events_put(e, 0, 3 /* file_version */, &version);
  return status ? status : cn_events_flush(e); /* a folder that cannot be written to is told at once */
}

cn_events *cn_events_open(const char *folder) { return cn_events_open_as(folder, NULL); }

cn_events *cn_events_open_as(const char *folder, const char *suffix)
{
  if (cn_err()) return NULL;
  if (!folder || !*folder) {
    cn_err_set(CN_ERR_VALUE, "events_open: a folder must be named");
    return NULL;
  }
  if (suffix && strchr(suffix, '/')) {
    cn_err_set(CN_ERR_VALUE, "events_open: the suffix of a file's name has a '/'");
    return NULL;
  }
  if (cn_folder_make(folder)) return NULL;
  cn_events *e = cn_alloc_zero(sizeof *e);
  if (!e || !begin(e, folder, suffix ? suffix : "")) return e;
  cn_text_free(&e->pending);
  cn_events_close(e);
  return NULL;
}

void cn_events_close(cn_events *e)
{
  if (!e) return;
  cn_events_flush(e);
  cn_text_free(&e->pending);
  cn_string_free(e->folder);
  cn_string_free(e->path);
  cn_free(e, sizeof *e);
}
