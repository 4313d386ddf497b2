/* rows.c: see rows.h. Invariant: the choice depends on shapes, types and alignment alone. */
#include "rows.h"

#include <stdlib.h>

enum {
  WARP = 32,
  WARP_ELEMENTS = 1024,      /* rows up to this long fall to a warp, or a part of one */
  BLOCK_PACKS = 4,           /* of a thread of a block that keeps rows by pack, of all inputs together, at most */
  BLOCK_FEW = 2,             /* ... where a block of at most BLOCK_MOST threads will do */
  BLOCK_LEAST = 64,          /* threads */
  BLOCK_MOST = 512,
  STASH_MOST = 200 << 10,    /* bytes of shared memory for rows */
  UNDER_WAY = 40 << 10,      /* bytes that a multiprocessor should be waiting for */
  MOST_AHEAD = 3,            /* rows */
  LANES_BIT = 4,             /* in FORM of kernels/rows.cuh */
  AHEAD_BIT = 8
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

cni_cuda_rows cni_cuda_rows_plan(const cni_cuda_device *d, int64_t rows, int64_t n, int from, int to, int inputs,
                                 const void *const *pointers, int npointers)
{
  int64_t size = (int64_t)cn_element_size(from), out = (int64_t)cn_element_size(to);
  int64_t vector = 16 / (size > out ? size : out);
  cni_cuda_rows r = {.aligned = true};
  int64_t most_packs = BLOCK_PACKS / inputs;
  for (int i = 0; i < npointers; i++) r.aligned = r.aligned && (uintptr_t)pointers[i] % 16 == 0;
  if (r.aligned && n % vector == 0) r.form = CNI_ROWS_EVEN;
  n += n % vector ? vector - 1 : 0; /* rows begin anywhere in a pack */
  r.grid.threads = CNI_CUDA_THREADS;
  r.grid.x = rows;
  if (n <= WARP_ELEMENTS) {
    int64_t lanes = WARP, halvings = 0;
    r.packs = (int)parts(n, WARP * vector);
    while (lanes / 2 * vector >= n && lanes > 1) lanes /= 2, halvings++;
    r.form |= (int)halvings << LANES_BIT;
    r.grid.x = parts(rows, CNI_CUDA_THREADS / lanes);
  } else if (n <= BLOCK_MOST * most_packs * vector) {
    r.grid.threads = BLOCK_LEAST;
    while (r.grid.threads < BLOCK_MOST && r.grid.threads * BLOCK_FEW * vector < n) r.grid.threads *= 2;
    r.packs = (int)-parts(n, r.grid.threads * vector);
  } else {
    r.grid.threads = BLOCK_MOST;
    int64_t each = vector * r.grid.threads, bytes = parts(n, each) * each * size * inputs;
    r.grid.shared = bytes <= STASH_MOST ? (size_t)bytes : 0;
    r.grid.x = least(rows, (int64_t)d->units * 16);
  }
  return r;
}

void cni_cuda_rows_ahead(cni_cuda_rows *r, const cni_cuda_device *d, int inputs, int64_t bytes, int place, int resident)
{
  int64_t blocks = resident / r->grid.threads;
  if (r->packs) {
    int64_t lanes = WARP >> (r->form >> LANES_BIT & 7), groups = r->packs > 0 ? r->grid.threads / lanes : 1;
    int64_t ahead = least(parts(UNDER_WAY, groups * (blocks > 0 ? blocks : 1) * bytes), MOST_AHEAD);
    const char *e = getenv("CAIRN_ROWS_AHEAD");
    if (e) ahead = least(ahead, e[0] - '0');
    int64_t slot = (int64_t)abs(r->packs) * r->grid.threads * place * inputs;
    while (ahead && slot * (ahead + 1) > STASH_MOST) ahead--;
    r->form |= (int)ahead << AHEAD_BIT;
    r->grid.shared = ahead ? (size_t)(slot * (ahead + 1)) : 0;
  }
  if (r->grid.shared) blocks = least(blocks, (int64_t)(STASH_MOST / r->grid.shared));
  r->grid.x = least(r->grid.x, (int64_t)d->units * (blocks > 0 ? blocks : 1));
}
