/* arena.c: the memory of a model's structs and texts: blocks that go together. See model.h. Invariant: what is taken
 * stays where it is until the arena goes. */
#include <string.h>

#include "model.h"

enum { BLOCK = 1 << 14, ALIGN = 16 };

struct cni_arena_block {
  struct cni_arena_block *next;
  size_t size, used;
};

void *cni_arena_take(cni_arena *a, size_t count, size_t size)
{
  struct cni_arena_block *b = a->blocks;
  size_t n;
  if (__builtin_mul_overflow(count, size, &n) || n > (size_t)INT64_MAX / 2 || (a->most && n > a->most - a->taken)) {
    cn_err_set(CN_ERR_IO, "onnx: the model's parts would take more memory than a file of its size can mean");
    return NULL;
  }
  n = (n + ALIGN - 1) / ALIGN * ALIGN;
  if (!b || b->size - b->used < n) {
    size_t room = n > BLOCK - sizeof *b ? n + sizeof *b + ALIGN : BLOCK;
    b = cn_alloc_zero(room);
    if (!b) return NULL;
    *b = (struct cni_arena_block){a->blocks, room, (sizeof *b + ALIGN - 1) / ALIGN * ALIGN};
    a->blocks = b;
  }
  void *p = (char *)b + b->used;
  b->used += n;
  a->taken += n < a->most - a->taken || !a->most ? n : a->most - a->taken;
  return p;
}

char *cni_arena_text(cni_arena *a, cni_wire_bytes text)
{
  char *s = cni_arena_take(a, text.n + 1, 1);
  if (s && text.n) memcpy(s, text.p, text.n);
  return s;
}

void cni_arena_free(cni_arena *a)
{
  while (a->blocks) {
    struct cni_arena_block *b = a->blocks;
    a->blocks = b->next;
    cn_free(b, b->size);
  }
}
