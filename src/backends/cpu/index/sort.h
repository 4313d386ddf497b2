/* sort.h: what sort.c has of sort_isa.c: elements as keys, unsigned numbers in their order.
 *
 * Invariant: all NaNs have the one key above every number, and the two zeros one key, so that keys are ordered exactly
 * as PyTorch orders elements. */
#ifndef CNI_CPU_SORT_H
#define CNI_CPU_SORT_H

#include <cairn/base.h>

#include "backends/cpu/isa.h"

enum { CNI_SORT_RUN = 16, CNI_SORT_BLOCKS = 64 /* that threads share in one long line */ };

/* Keys of n elements, `step` bytes apart, with the bits of `flip` inverted. */
typedef void (*cni_sort_keys)(uint64_t *key, const char *x, int64_t step, int64_t n, uint64_t flip);

typedef struct cni_sort_loops {
  cni_sort_keys keys[CN_DTYPE_COUNT];
  /* The positions of keys from `low` up to low + span, in order; returns how many. n is at most 65536. */
  int64_t (*pick)(uint16_t *at, const uint64_t *key, int64_t n, uint64_t low, uint64_t span);
  /* Sorts up to CNI_SORT_RUN numbers, no two of them equal. */
  void (*run)(uint64_t *a, int64_t n);
  uint64_t (*least)(const uint64_t *key, int64_t n); /* n >= 1 */
  /* The bits in which any key differs from `first`. */
  uint64_t (*differ)(const uint64_t *key, int64_t n, uint64_t first);
} cni_sort_loops;

CNI_DECLARE_BY_ISA(cni_sort_loops, cni_sort_loops);

#endif
