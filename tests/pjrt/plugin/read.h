/* read.h: what the PJRT plugin for tests reads: the types of @main in a text, and options of the compiler.
 *
 * Place in the flow: included by plugin.c alone. Invariant: what real plugins end the process for ends it here, too. */
#ifndef TESTS_PJRT_READ_H
#define TESTS_PJRT_READ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../src/backends/pjrt/api.h"

enum { DEVICES = 8, MOST = 512, DIMS = 8 };

typedef struct array_type {
  int type, ndims;
  int64_t dims[DIMS];
  size_t bytes;
} array_type;
static size_t type_bytes(int type)
{
  static const unsigned char bytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16, 1, 1};
  return type > 0 && (size_t)type < sizeof bytes ? bytes[type] : 0;
}
static void count_bytes(array_type *t)
{
  t->bytes = type_bytes(t->type);
  for (int i = 0; i < t->ndims; i++) t->bytes *= (size_t)t->dims[i];
}
/* ---- reading texts: the types of @main ---- */

static const struct {
  const char *name;
  int type;
} names[] = {{"i1", PJRT_PRED}, {"i8", PJRT_S8}, {"i16", PJRT_S16}, {"i32", PJRT_S32}, {"i64", PJRT_S64},
             {"ui8", PJRT_U8}, {"ui16", PJRT_U16}, {"ui32", PJRT_U32}, {"ui64", PJRT_U64}, {"f16", PJRT_F16},
             {"f32", PJRT_F32}, {"f64", PJRT_F64}, {"bf16", PJRT_BF16}};

/* "tensor<2x3xf32>" behind `s`; where it ends, or NULL. */
static const char *read_type(array_type *t, const char *s)
{
  char name[16];
  *t = (array_type){0};
  s += strlen("tensor<");
  while (*s >= '0' && *s <= '9' && t->ndims < DIMS) {
    char *end;
    t->dims[t->ndims++] = strtoll(s, &end, 10);
    s = end + 1; /* the x */
  }
  size_t n = strcspn(s, ">");
  snprintf(name, sizeof name, "%.*s", (int)n, s);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i].name, name)) t->type = names[i].type;
  count_bytes(t);
  return t->type ? s + n + 1 : NULL;
}

/* The same in Shardy's words: [{"data", "model"}, {}] splits the first dim by the axes of @mesh that it names. */
static void take_named_part(array_type *t, const char *text, const char *s)
{
  for (int d = 0; d < t->ndims; d++) {
    const char *close = strchr(s = strchr(s, '{') + 1, '}');
    for (const char *name; (name = strchr(s, '"')) && name < close;) {
      char axis[64];
      s = strchr(name + 1, '"') + 1;
      snprintf(axis, sizeof axis, "%.*s=", (int)(s - name), name);
      t->dims[d] /= strtoll(strstr(text, axis) + strlen(axis), NULL, 10);
    }
    s = close + 1;
  }
  count_bytes(t);
}

/* What a device has of an array: "{devices=[2,1,4]<=[8]}" splits its first dim in two. */
static void take_part(array_type *t, const char *text, const char *s, const char *end)
{
  static const char word[] = "devices=[", named[] = "#sdy.sharding<@mesh, [";
  const char *at = strstr(s, named);
  if (at && at < end) take_named_part(t, text, at);
  at = strstr(s, word);
  if (!at || at >= end) return;
  at += strlen(word);
  for (int d = 0; d < t->ndims; d++) {
    char *next;
    t->dims[d] /= strtoll(at, &next, 10);
    at = next + 1;
  }
  count_bytes(t);
}

/* All types between two places of a text; attributes of arguments say what is given away. */
static inline bool read_types(array_type *types, size_t *n, int *alias, const char *text, const char *s,
                              const char *end)
{
  while ((s = strstr(s, "tensor<")) && s < end) {
    if (*n == MOST || !(s = read_type(&types[*n], s))) return false;
    static const char word[] = "tf.aliasing_output = ";
    const char *next = strstr(s, "tensor<");
    take_part(&types[*n], text, s, next && next < end ? next : end);
    const char *mark = alias ? strstr(s, word) : NULL;
    bool marked = mark && mark < end && (!next || mark < next);
    if (alias) alias[*n] = marked ? atoi(mark + strlen(word)) : -1;
    (*n)++;
  }
  return true;
}

/* ---- options: messages of protocol buffers ---- */

typedef struct message {
  const unsigned char *s, *end;
} message;

static size_t read_varint(message *m)
{
  size_t n = 0;
  for (int shift = 0;; shift += 7) {
    if (m->s >= m->end) abort();
    n |= (size_t)(*m->s & 0x7f) << shift;
    if (!(*m->s++ & 0x80)) return n;
  }
}

/* The next field: its number; what it holds is a number, or a message of its own. 0: there is none. */
static size_t read_field(message *m, size_t *number, message *inner)
{
  if (m->s >= m->end) return 0;
  size_t tag = read_varint(m);
  *number = read_varint(m);
  if ((tag & 7) != 2) return tag >> 3;
  *inner = (message){m->s, m->s + *number};
  if ((size_t)(m->end - m->s) < *number) abort();
  m->s += *number;
  return tag >> 3;
}

typedef struct build_options {
  size_t replicas, partitions, spmd, shardy, assigned;
  int ids[DEVICES];
} build_options;

static void read_assignment(build_options *o, message m)
{
  size_t field, n;
  message devices, ids;
  while ((field = read_field(&m, &n, &devices))) {
    if (field == 1 && n != 1) abort();
    if (field == 2 && n != o->partitions) abort();
    if (field != 3) continue;
    if (o->assigned == DEVICES || read_field(&devices, &n, &ids) != 1) abort();
    o->ids[o->assigned++] = (int)read_varint(&ids);
  }
}

/* Real plugins end the process when options name no replica, and know their devices. */
static inline build_options read_options(const char *options, size_t size)
{
  build_options o = {.ids = {0}};
  size_t field, n;
  message m = {(const unsigned char *)options, (const unsigned char *)options + size}, build, inner;
  if (read_field(&m, &n, &build) != 3 || m.s != m.end) abort();
  while ((field = read_field(&build, &n, &inner))) {
    if (field == 4) o.replicas = n;
    if (field == 5) o.partitions = n;
    if (field == 6) o.spmd = n;
    if (field == 9) read_assignment(&o, inner);
    if (field == 19) o.shardy = n;
  }
  if (o.replicas != 1 || !o.partitions || o.partitions > DEVICES || (o.partitions > 1 && !o.spmd)) abort();
  if (o.assigned && o.assigned != o.partitions) abort();
  if (!o.assigned && o.partitions > 1) abort();
  return o;
}

#endif
