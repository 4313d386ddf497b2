/* source.c: see source.h. A source is a name and a counted owner of bytes; each tensor over the bytes counts too.
 *
 * Invariant: the bytes outlive every tensor that shares them. Files are little-endian, as the machines that cairn runs
 * on. */
#include "source.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "readers take the bytes of files as they are"
#endif

struct cni_source_owner {
  _Atomic int64_t refs;
  cn_mapping mapping; /* of a file */
  void *taken;        /* or memory of its own; neither: the caller's */
  size_t taken_size;
};

static void owner_release(void *payload)
{
  struct cni_source_owner *o = payload;
  if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1) return;
  cn_map_close(&o->mapping);
  cn_free(o->taken, o->taken_size);
  cn_free(o, sizeof *o);
}

static cni_source *source_new(const char *name)
{
  cni_source *s = cn_alloc_zero(sizeof *s);
  struct cni_source_owner *o = cn_alloc_zero(sizeof *o);
  char *copy = s && o ? cn_string_copy(name) : NULL;
  if (!copy) {
    cn_free(s, sizeof *s);
    cn_free(o, sizeof *o);
    return NULL;
  }
  atomic_init(&o->refs, 1);
  s->name = copy;
  s->owner = o;
  return s;
}

cni_source *cni_source_open(const char *path)
{
  if (!path) cn_err_set(CN_ERR_TYPE, "load: the path is missing (NULL)");
  cni_source *s = path ? source_new(path) : NULL;
  if (s && cn_map_open(&s->owner->mapping, path)) {
    cni_source_free(s);
    return NULL;
  }
  if (s) s->data = s->owner->mapping.data, s->size = s->owner->mapping.size;
  return s;
}

cni_source *cni_source_memory(const void *bytes, size_t size, const char *name)
{
  cni_source *s = source_new(name);
  if (s) s->data = bytes, s->size = size;
  return s;
}

cni_source *cni_source_take(void *bytes, size_t size, size_t room, const char *name)
{
  cni_source *s = source_new(name);
  if (!s) {
    cn_free(bytes, room);
    return NULL;
  }
  s->data = s->owner->taken = bytes;
  s->owner->taken_size = room;
  s->size = size;
  return s;
}

cni_source *cni_source_part(const cni_source *whole, size_t offset, size_t size)
{
  cni_source *s = cn_alloc(sizeof *s);
  char *name = s ? cn_string_copy(whole->name) : NULL;
  if (!name) {
    cn_free(s, sizeof *s);
    return NULL;
  }
  atomic_fetch_add_explicit(&whole->owner->refs, 1, memory_order_relaxed);
  *s = (cni_source){whole->data + offset, size, name, whole->owner};
  return s;
}

void cni_source_free(cni_source *s)
{
  if (!s) return;
  owner_release(s->owner);
  cn_string_free(s->name);
  cn_free(s, sizeof *s);
}

static bool bools_are_clean(const unsigned char *p, size_t n)
{
  unsigned char all = 0;
  for (size_t i = 0; i < n; i++) all |= p[i];
  return all <= 1;
}

cn_tensor *cni_source_tensor(cni_source *s, size_t offset, const int64_t *shape, size_t ndim, cn_dtype dtype)
{
  static const unsigned char nothing[16];
  const unsigned char *p = s->data ? s->data + offset : nothing;
  struct cni_source_owner *o = s->owner;
  uint64_t n;
  if (!cni_shape_bytes(&n, shape, ndim, cn_dtype_size(dtype))) {
    cni_source_bad(s, "tensor", "too large");
    return NULL;
  }
  bool dirty = dtype == CN_BOOL && !bools_are_clean(p, (size_t)n);
  bool aligned = (uintptr_t)p % cn_dtype_size(dtype) == 0;
  if (n && aligned && !dirty && (o->mapping.data || o->taken)) {
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return cn_from_taken((void *)(uintptr_t)p, shape, ndim, dtype, owner_release, o);
  }
  cn_tensor *t = cn_from_data(p, shape, ndim, dtype);
  unsigned char *to = t && dirty ? cn_data(t) : NULL;
  for (size_t i = 0; to && i < (size_t)n; i++) to[i] = p[i] != 0;
  return t;
}

bool cni_shape_bytes(uint64_t *bytes, const int64_t *shape, size_t ndim, size_t element)
{
  uint64_t n = element;
  bool empty = false;
  for (size_t i = 0; i < ndim; i++) {
    if (shape[i] < 0) return false;
    empty = empty || shape[i] == 0;
    if (shape[i] && __builtin_mul_overflow(n, (uint64_t)shape[i], &n)) return false;
  }
  *bytes = empty ? 0 : n;
  return n <= INT64_MAX;
}

int cni_source_bad(const cni_source *s, const char *format, const char *text, ...)
{
  char what[400];
  va_list ap;
  va_start(ap, text);
  vsnprintf(what, sizeof what, text, ap);
  va_end(ap);
  return cn_err_set(CN_ERR_IO, "%s: %s: %s", format, s->name, what);
}
