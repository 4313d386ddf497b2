/* rows.c: see rows.h. Invariant: the choice depends on shapes, types and alignment alone. */
#include "rows.h"

#include <stdlib.h>

enum {
  WARP = 32,
  WARP_ELEMENTS = 1024,      /* rows up to this long fall to a warp, or a part of one */
  BLOCK_LEAST = 64,          /* threads */
  BLOCK_MOST = 512,
  BLOCK_LONG = 1024,         /* threads for rows that leave no room for another block's */
  STASH_MOST = 225 << 10,    /* bytes of shared memory for rows, of a block */
  UNIT_MOST = 228 << 10,     /* ... of a multiprocessor, with what blocks need besides */
  BESIDES = 2 << 10,
  UNDER_WAY = 24 << 10,      /* bytes that a multiprocessor should be waiting for */
  MOST_AHEAD = 3,            /* rows */
  MOST_BLOCKS = 1 << 30,
  LANES_BIT = 4,             /* in FORM of kernels/rows.cuh */
  AHEAD_BIT = 8
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Bytes of shared memory that keep a row of n elements of each input. */
static int64_t stash(int64_t n, const cni_cuda_rows *r, int64_t vector, int64_t size, int inputs)
{
  int64_t each = vector * r->grid.threads;
  return parts(n, each) * each * size * inputs;
}

cni_cuda_rows cni_cuda_rows_plan(int64_t rows, int64_t n, int from, int to, int inputs, int most,
                                 const void *const *pointers, int npointers)
{
  int64_t size = (int64_t)cn_element_size(from), out = (int64_t)cn_element_size(to);
  int64_t vector = 16 / (size > out ? size : out);
  int64_t room = n + (n % vector ? vector - 1 : 0); /* rows begin anywhere in a pack */
  cni_cuda_rows r = {.form = n % vector == 0 ? CNI_ROWS_EVEN : 0};
  for (int i = 0; i < npointers; i++)
    if ((uintptr_t)pointers[i] % 16) r.form = CNI_ROWS_APART;
  r.grid.threads = CNI_CUDA_THREADS;
  r.grid.x = rows;
  if (n <= WARP_ELEMENTS) {
    int64_t lanes = WARP, halvings = 0;
    r.packs = (int)parts(room, WARP * vector);
    while (lanes / 2 * vector >= room && lanes > 1) lanes /= 2, halvings++;
    r.form |= (int)halvings << LANES_BIT;
    r.grid.x = parts(rows, CNI_CUDA_THREADS / lanes);
  } else if (n <= BLOCK_MOST * most * vector) {
    r.grid.threads = BLOCK_LEAST;
    while (r.grid.threads < BLOCK_MOST && r.grid.threads * most * vector < n) r.grid.threads *= 2;
    r.packs = (int)-parts(room, r.grid.threads * vector);
  } else {
    r.grid.threads = BLOCK_MOST;
    if (stash(room, &r, vector, size, inputs) * 2 > UNIT_MOST - 2 * BESIDES) r.grid.threads = BLOCK_LONG;
    int64_t bytes = stash(room, &r, vector, size, inputs);
    r.grid.shared = bytes <= STASH_MOST ? (size_t)bytes : 0;
    if (!r.grid.shared) r.grid.threads = BLOCK_MOST;
  }
  r.grid.x = least(r.grid.x, MOST_BLOCKS);
  return r;
}

static int64_t lanes_of(const cni_cuda_rows *r) { return WARP >> (r->form >> LANES_BIT & 7); }

int64_t cni_cuda_rows_packs(const cni_cuda_rows *r)
{
  return (int64_t)abs(r->packs) * (r->packs > 0 ? lanes_of(r) : r->grid.threads);
}

/* As many blocks as multiprocessors have room for at once, of `blocks` each. What their rows leave of the memory on the
 * chip caches weights. */
static void limit_blocks(cni_cuda_rows *r, const cni_cuda_device *d, int64_t blocks)
{
  int64_t each = (int64_t)r->grid.shared + BESIDES;
  if (r->grid.shared) blocks = least(blocks, UNIT_MOST / each);
  r->grid.carveout = r->grid.shared ? (int)least(parts(blocks * each * 100, UNIT_MOST), 100) : 0;
  r->grid.x = least(r->grid.x, (int64_t)d->units * blocks);
}

bool cni_cuda_rows_beside(cni_cuda_rows *r, const cni_cuda_device *d, int64_t bytes)
{
  bool turns = r->grid.carveout;
  if ((int64_t)r->grid.shared + bytes > STASH_MOST) return false;
  r->grid.shared += (size_t)bytes;
  r->grid.carveout = 100;
  if (turns) limit_blocks(r, d, parts(r->grid.x, d->units));
  return true;
}

void cni_cuda_rows_ahead(cni_cuda_rows *r, const cni_cuda_device *d, int inputs, int64_t bytes, int place, int resident)
{
  int64_t blocks = resident > r->grid.threads ? resident / r->grid.threads : 1;
  if (r->packs) {
    int64_t groups = r->packs > 0 ? r->grid.threads / lanes_of(r) : 1;
    int64_t ahead = bytes ? least(parts(UNDER_WAY, groups * blocks * bytes), MOST_AHEAD) : 0;
    int64_t slot = (int64_t)abs(r->packs) * r->grid.threads * place * inputs;
    while (ahead && slot * (ahead + 1) > STASH_MOST) ahead--;
    r->form |= (int)ahead << AHEAD_BIT;
    r->grid.shared = ahead ? (size_t)(slot * (ahead + 1)) : 0;
  }
  limit_blocks(r, d, blocks);
}
