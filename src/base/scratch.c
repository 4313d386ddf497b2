/* scratch.c: see scratch.h. Lent memory is a stack: what is given back out of order is free again when all is. */
#include "scratch.h"

#include <stdint.h>
#include <string.h>

#include "alloc.h"

_Thread_local cni_scratch cni_lent;

static size_t rounded(size_t size) { return (size + 63) & ~(size_t)63; }

/* Behind a block that did not fit nothing is taken until it is given back: what was taken is then always below `used`,
 * in whatever order blocks come back. */
void *cni_scratch_alloc(size_t size)
{
  cni_scratch *s = &cni_lent;
  size_t bytes = rounded(size ? size : 1);
  if (bytes < size) return cni_alloc(size); /* which says that there is not so much memory */
  bool fits = !s->beyond && bytes <= s->size - s->used;
  void *p = fits ? s->base + s->used : cni_alloc(size);
  if (!p) return NULL;
  if (fits) s->used += bytes, s->blocks++;
  else s->beyond += bytes;
  if (s->used + s->beyond > s->most) s->most = s->used + s->beyond;
  return p;
}

void *cni_scratch_alloc_zero(size_t size)
{
  void *p = cni_scratch_alloc(size);
  if (p) memset(p, 0, size);
  return p;
}

void cni_scratch_free(void *memory, size_t size)
{
  cni_scratch *s = &cni_lent;
  size_t at = (uintptr_t)memory - (uintptr_t)s->base, bytes = rounded(size ? size : 1);
  if (!memory) return;
  if (at >= s->size) {
    s->beyond -= bytes;
    cni_free(memory, size);
    return;
  }
  if (!--s->blocks) s->used = 0;
  else if (at + bytes == s->used) s->used = at;
}

cni_scratch cni_scratch_part(const cni_scratch *s, int part, int parts)
{
  size_t each = s->beyond ? 0 : (s->size - s->used) / (size_t)parts & ~(size_t)63;
  return (cni_scratch){.base = each ? s->base + s->used + (size_t)part * each : NULL, .size = each};
}
