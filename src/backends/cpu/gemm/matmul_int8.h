/* matmul_int8.h: the loop of products of int8 matrices, which matmul_int8_isa.c has per instruction set. */
#ifndef CNI_CPU_MATMUL_INT8_H
#define CNI_CPU_MATMUL_INT8_H

#include <stdint.h>

#include "backends/cpu/isa.h"

/* c[0..n) = the sum over t < k of a[t * a_col] times row t of b: (k, n), whose rows lie b_row apart. */
typedef struct cni_int8_loops {
  void (*row)(int32_t *c, const int8_t *a, int64_t a_col, const int8_t *b, int64_t b_row, int64_t n, int64_t k);
  /* to[t * width + i] = numbers 4 t to 4 t + 3 of column i < count, lowest byte first; 0 up to width. k: rows of
   * `from`, b_row apart; missing ones count as 0. */
  void (*quads)(uint32_t *to, const int8_t *from, int64_t b_row, int count, int width, int64_t k);
  /* to[t * width + i] = numbers 2 t and 2 t + 1 of column i < count as int16; likewise. */
  void (*words)(uint32_t *to, const int8_t *from, int64_t b_row, int count, int width, int64_t k);
  /* Turns the highest bit of all 4 n bytes. */
  void (*flip)(uint32_t *quads, int64_t n);
  /* sums[i] = the sum of all numbers of column i < width of `depth` rows of such quadruples. */
  void (*add_up)(int32_t *sums, const uint32_t *quads, int width, int64_t depth);
} cni_int8_loops;

CNI_DECLARE_BY_ISA(cni_int8_loops, cni_int8_loops);

/* Two numbers as int16, the first in the lower half. */
static inline uint32_t cni_word_pair(int8_t low, int8_t high)
{
  return (uint32_t)(uint16_t)low | (uint32_t)(uint16_t)high << 16;
}

#endif
