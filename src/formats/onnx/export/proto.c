/* proto.c: see proto.h. Invariant: numbers are written in as few bytes as they need. */
#include "proto.h"

#include <string.h>

enum { VARINT = 0, BYTES = 2, FIXED32 = 5 };

void cni_proto_varint(cn_text *t, uint64_t v)
{
  char room[10];
  size_t n = 0;
  do {
    room[n++] = (char)((v & 127) | (v > 127 ? 128 : 0));
    v >>= 7;
  } while (v);
  cn_text_put_bytes(t, room, n);
}

static void key(cn_text *t, uint32_t field, uint32_t type) { cni_proto_varint(t, (uint64_t)field << 3 | type); }

void cni_proto_int(cn_text *t, uint32_t field, int64_t v)
{
  key(t, field, VARINT);
  cni_proto_varint(t, (uint64_t)v);
}

void cni_proto_float(cn_text *t, uint32_t field, float v)
{
  uint32_t bits;
  char room[4];
  memcpy(&bits, &v, sizeof bits);
  for (int k = 0; k < 4; k++) room[k] = (char)(bits >> 8 * k & 255);
  key(t, field, FIXED32);
  cn_text_put_bytes(t, room, sizeof room);
}

void cni_proto_head(cn_text *t, uint32_t field, uint64_t n)
{
  key(t, field, BYTES);
  cni_proto_varint(t, n);
}

size_t cni_proto_head_size(uint32_t field, uint64_t n)
{
  size_t size = field > 15 ? 2 : 1;
  do size++;
  while (n >>= 7);
  return size;
}

void cni_proto_bytes(cn_text *t, uint32_t field, const void *bytes, size_t n)
{
  cni_proto_head(t, field, n);
  if (n) cn_text_put_bytes(t, bytes, n);
}

void cni_proto_string(cn_text *t, uint32_t field, const char *s) { cni_proto_bytes(t, field, s, strlen(s)); }

void cni_proto_message(cn_text *t, uint32_t field, cn_text *part)
{
  cni_proto_bytes(t, field, part->s, part->n);
  if (part->failed) t->failed = true;
  cn_text_free(part);
  *part = (cn_text){0};
}
