/* golden.c: reads golden files; make.py describes the layout. Invariant: nothing is read beyond the file's end. */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cursor {
  const char *at, *end;
  bool bad;
} cursor;

static uint64_t take(cursor *c, size_t bytes)
{
  uint64_t v = 0;
  if ((size_t)(c->end - c->at) < bytes) {
    c->bad = true;
    return 0;
  }
  for (size_t i = 0; i < bytes; i++) v |= (uint64_t)(unsigned char)c->at[i] << 8 * i;
  c->at += bytes;
  return v;
}

static void take_tensor(cursor *c, golden_tensor *t, bool with_values)
{
  t->dtype = (int)take(c, 1);
  t->ndim = (int)take(c, 1);
  t->channels_last = take(c, 1) & 1;
  take(c, 1);
  if (t->ndim > CN_MAX_DIMS) c->bad = true;
  size_t bytes = t->dtype == GOLDEN_UNKNOWN ? 0 : cn_dtype_size((cn_dtype)t->dtype);
  for (int i = 0; i < t->ndim && !c->bad; i++) bytes *= (size_t)(t->shape[i] = (int64_t)take(c, 4));
  if (!t->dtype || !with_values) return;
  t->data = c->at;
  if ((size_t)(c->end - c->at) < bytes) c->bad = true;
  else c->at += bytes;
}

static bool take_record(cursor *c, golden_record *r)
{
  r->hash = take(c, 8);
  r->status = (enum golden_status)take(c, 1);
  r->any_dtype = take(c, 1) & 1;
  r->nout = (int)take(c, 1);
  r->ngrad = (int)take(c, 1);
  r->tensors = calloc((size_t)(r->nout + r->ngrad) + 1, sizeof *r->tensors);
  if (!r->tensors) return false;
  for (int i = 0; i < r->nout + r->ngrad && !c->bad; i++)
    take_tensor(c, &r->tensors[i], r->status == GOLDEN_VALUES);
  return !c->bad;
}

int golden_read(golden_file *f, const char *family, char *message, size_t size)
{
  static const char magic[8] = {'C', 'N', 'G', 'O', 'L', 'D', '0', '2'};
  char path[512];
  size_t bytes = 0;
  memset(f, 0, sizeof *f);
  snprintf(path, sizeof path, "%s/tests/golden/%s.golden", CN_TEST_SOURCE_DIR, family);
  f->data = sample_read_file(path, &bytes);
  bool fine = f->data && bytes >= 12 && !memcmp(f->data, magic, sizeof magic);
  cursor c = {f->data ? f->data + sizeof magic : NULL, f->data ? f->data + bytes : NULL, false};
  size_t count = fine ? (size_t)take(&c, 4) : 0;
  fine = fine && (f->records = calloc(count + 1, sizeof *f->records));
  while (fine && f->count < count) fine = take_record(&c, &f->records[f->count++]);
  if (fine && c.at == c.end) return 0;
  snprintf(message, size, "%s is missing or damaged: make it with tests/golden/make.py", path);
  return -1;
}

void golden_free(golden_file *f)
{
  for (size_t i = 0; i < f->count; i++) free(f->records[i].tensors);
  free(f->records);
  free(f->data);
  memset(f, 0, sizeof *f);
}

const golden_record *golden_find(const golden_file *f, uint64_t hash)
{
  for (size_t i = 0; i < f->count; i++)
    if (f->records[i].hash == hash) return &f->records[i];
  return NULL;
}
