/* wire.c: see wire.h. Invariant: nothing is read behind `end`. */
#include "wire.h"

#include "formats/source.h"

/* At most ten bytes of seven bits each, the lowest first. */
static bool varint(cni_wire_walk *w, uint64_t *value)
{
  uint64_t v = 0;
  for (int shift = 0; shift < 70 && w->at < w->end; shift += 7) {
    uint64_t byte = *w->at++;
    v |= shift < 64 ? (byte & 127) << shift : 0;
    if (byte < 128) return *value = v, true;
  }
  return !(w->bad = true);
}

static bool fixed(cni_wire_walk *w, uint64_t *value, size_t size)
{
  if ((size_t)(w->end - w->at) < size) return !(w->bad = true);
  *value = size == 4 ? cni_le32(w->at) : cni_le64(w->at);
  w->at += size;
  return true;
}

static bool number(cni_wire_walk *w, uint64_t *value, int type)
{
  return type == CNI_WIRE_VARINT ? varint(w, value) : fixed(w, value, type == CNI_WIRE_32 ? 4 : 8);
}

bool cni_wire_next(cni_wire_walk *w, cni_field *f)
{
  uint64_t key, size;
  if (w->bad || w->at == w->end || !varint(w, &key)) return false;
  *f = (cni_field){.number = (uint32_t)(key >> 3), .type = (int)(key & 7)};
  if (key >> 3 == 0 || key >> 32) return !(w->bad = true);
  if (f->type == CNI_WIRE_VARINT || f->type == CNI_WIRE_64 || f->type == CNI_WIRE_32)
    return number(w, &f->value, f->type);
  if (f->type != CNI_WIRE_BYTES || !varint(w, &size) || size > (uint64_t)(w->end - w->at)) return !(w->bad = true);
  f->bytes = (cni_wire_bytes){w->at, (size_t)size};
  w->at += size;
  return true;
}

bool cni_wire_number(uint64_t *value, const cni_field *f, cni_wire_walk *list, bool *once, int type)
{
  if (f->type != CNI_WIRE_BYTES) {
    bool first = !*once && f->type == type;
    if (!*once && f->type != type) list->bad = true;
    *once = true;
    *value = f->value;
    return first;
  }
  return !list->bad && list->at < list->end && number(list, value, type);
}
