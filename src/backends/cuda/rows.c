/* rows.c: see rows.h. Invariant: the choice depends on shapes, types and alignment alone. */
#include "rows.h"

enum {
  WARP = 32,
  WARP_ELEMENTS = 1024,      /* rows up to this long fall to a warp, which keeps them in registers */
  BLOCK_PACKS = 4,           /* of a thread of a block that keeps rows in registers, of all inputs together, at most */
  BLOCK_FEW = 2,             /* ... where a block of at most BLOCK_MOST threads will do */
  BLOCK_LEAST = 64,          /* threads */
  BLOCK_MOST = 512,
  STASH_MOST = 200 << 10,    /* bytes of shared memory for rows */
  BLOCKS_PER_UNIT = 16,
  MOST_BLOCKS = 1 << 30
};

cni_cuda_rows cni_cuda_rows_plan(const cni_cuda_device *d, int64_t rows, int64_t n, int from, int to, int inputs,
                                 const void *const *pointers, int npointers)
{
  int64_t size = (int64_t)cn_element_size(from), out = (int64_t)cn_element_size(to);
  int64_t vector = 16 / (size > out ? size : out);
  cni_cuda_rows r = {.aligned = true};
  int64_t most_packs = BLOCK_PACKS / inputs;
  for (int i = 0; i < npointers; i++) r.aligned = r.aligned && (uintptr_t)pointers[i] % 16 == 0;
  r.even = r.aligned && n % vector == 0;
  n += n % vector ? vector - 1 : 0; /* rows begin anywhere in a pack */
  r.grid.threads = CNI_CUDA_THREADS;
  if (n > WARP_ELEMENTS && n <= BLOCK_MOST * most_packs * vector) {
    r.grid.threads = BLOCK_LEAST;
    while (r.grid.threads < BLOCK_MOST && r.grid.threads * BLOCK_FEW * vector < n) r.grid.threads *= 2;
    r.packs = (int)-((n + r.grid.threads * vector - 1) / (r.grid.threads * vector));
    r.grid.x = rows;
  } else if (n <= WARP_ELEMENTS) {
    r.packs = n > WARP * vector ? (int)((n + WARP * vector - 1) / (WARP * vector)) : 1;
    int64_t per = CNI_CUDA_THREADS / WARP;
    r.grid.x = (rows + per - 1) / per;
  } else {
    r.grid.threads = BLOCK_MOST;
    int64_t each = vector * r.grid.threads, bytes = (n + each - 1) / each * each * size * inputs;
    r.grid.shared = bytes <= STASH_MOST ? (size_t)bytes : 0;
    r.grid.x = rows;
  }
  /* Blocks that end make room for others, which read while the rest writes; shared memory is better kept. */
  int64_t most_blocks = r.packs ? MOST_BLOCKS : (int64_t)d->units * BLOCKS_PER_UNIT;
  if (r.grid.x > most_blocks) r.grid.x = most_blocks;
  return r;
}
