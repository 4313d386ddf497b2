/* rows.h: runs of elements at a byte stride, by element size: gathered, scattered, filled.
 *
 * Place in the flow: the innermost loops of copy.c, create.c and other kernels that walk with iter.h.
 * Invariant: only bytes move here; memory need not be aligned. */
#ifndef CNI_CPU_ROWS_H
#define CNI_CPU_ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CNI_ROW_LOOP(size, to, from) \
  case size:                         \
    for (int64_t k = 0; k < n; k++) memcpy(to, from, size); \
    break

/* Fills a packed row with n elements that lie in the opposite order, the first of them at src (rows.c). */
void cni_row_turn(char *dst, const char *src, size_t elem, int64_t n);

/* Copies n elements of `elem` bytes (1, 2, 4 or 8) from one stride to another. */
static inline void cni_row_copy(char *dst, int64_t dstep, const char *src, int64_t sstep, size_t elem,
                                int64_t n)
{
  if (dstep == (int64_t)elem && sstep == dstep) {
    memcpy(dst, src, (size_t)n * elem);
    return;
  }
  if (dstep == (int64_t)elem && sstep == -dstep) {
    cni_row_turn(dst, src, elem, n);
    return;
  }
  switch (elem) {
    CNI_ROW_LOOP(1, dst + k * dstep, src + k * sstep);
    CNI_ROW_LOOP(2, dst + k * dstep, src + k * sstep);
    CNI_ROW_LOOP(4, dst + k * dstep, src + k * sstep);
    CNI_ROW_LOOP(8, dst + k * dstep, src + k * sstep);
  default: break;
  }
}

/* A packed row to strided elements. */
static inline void cni_row_scatter(char *dst, int64_t dstep, const void *src, size_t elem, int64_t n)
{
  cni_row_copy(dst, dstep, src, (int64_t)elem, elem, n);
}

/* One element, n times. A packed row is copied from its own beginning in growing pieces that stay in L1,
 * which is fast without vector code; `value` may lie inside dst. */
static inline void cni_row_fill(char *dst, int64_t dstep, const void *value, size_t elem, int64_t n)
{
  uint64_t bits = 0;
  memcpy(&bits, value, elem);
  bool packed = dstep == (int64_t)elem;
  if (packed && (bits == 0 || elem == 1)) {
    memset(dst, (int)bits, (size_t)n * elem);
    return;
  }
  int64_t first = packed && n > 32 ? 32 : n;
  cni_row_copy(dst, dstep, (const char *)&bits, 0, elem, first);
  size_t done = (size_t)first * elem, all = (size_t)n * elem;
  while (packed && done < all) {
    size_t piece = done < 8192 ? done : 8192;
    if (piece > all - done) piece = all - done;
    memcpy(dst + done, dst, piece);
    done += piece;
  }
}

/* Strided elements into a packed row. */
static inline void cni_row_gather(void *dst, const char *src, int64_t sstep, size_t elem, int64_t n)
{
  if (sstep == 0 && n > 0) cni_row_fill(dst, (int64_t)elem, src, elem, n);
  else cni_row_copy(dst, (int64_t)elem, src, sstep, elem, n);
}

#endif
