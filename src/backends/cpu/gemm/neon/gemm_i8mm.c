/* gemm_i8mm.c: tiles of int8 octets along k, summed in int32 by SMMLA, for ARM processors that have it: one instruction
 * multiplies two rows of A by two columns of B, eight terms each, twice as many as SDOT.
 *
 * Place in the flow: matmul_int8.c takes this table where cni_cpu_int8_terms says so. Invariant: nothing here is
 * called on a machine without it; sums of integers are the same in any order, so the bits are those of the plain
 * loops. */
#include <arm_neon.h>
#include <string.h>

#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/gemm/gemm_tile.h"

enum { NR = 8, PAIRS = 4, OCTETS = 8 }; /* columns; pairs of them, and of rows; bytes of an element */

_Static_assert(MR == 2 * PAIRS && NR == 2 * PAIRS, "sums of pairs of rows and columns fill a tile");

/* tile: (MR, NR); a: (depth, MR), b: (depth, NR) octets */
ALWAYS_INLINE void tile_octets(int32_t *tile, const int8_t *a, const int8_t *b, int64_t depth)
{
  int32x4_t acc[PAIRS][PAIRS]; /* two columns of a row, then of the next */
  UNROLL for (int i = 0; i < PAIRS; i++) UNROLL for (int j = 0; j < PAIRS; j++) acc[i][j] = vdupq_n_s32(0);
  for (int64_t k = 0; k < depth; k++, a += MR * OCTETS, b += NR * OCTETS) {
    int8x16_t y[PAIRS];
    UNROLL for (int j = 0; j < PAIRS; j++) y[j] = vld1q_s8(b + 2 * OCTETS * j);
    UNROLL for (int i = 0; i < PAIRS; i++)
    {
      int8x16_t x = vld1q_s8(a + 2 * OCTETS * i);
      UNROLL for (int j = 0; j < PAIRS; j++) acc[i][j] = vmmlaq_s32(acc[i][j], x, y[j]);
    }
  }
  UNROLL for (int i = 0; i < PAIRS; i++) UNROLL for (int j = 0; j < PAIRS; j++)
  {
    vst1_s32(tile + 2 * i * NR + 2 * j, vget_low_s32(acc[i][j]));
    vst1_s32(tile + (2 * i + 1) * NR + 2 * j, vget_high_s32(acc[i][j]));
  }
}

/* See cni_gemm_kernels.run; A is packed k-major, MR rows, C's columns are contiguous, alpha is 1 and beta 0. */
static void run(const cni_gemm_run *r)
{
  for (int64_t j = 0; j < r->cols; j += NR) {
    int32_t tile[MR * NR];
    int64_t cols = r->cols - j < NR ? r->cols - j : NR;
    tile_octets(tile, r->a, (const int8_t *)r->b + j * r->depth * OCTETS, r->depth);
    for (int i = 0; i < r->rows; i++)
      memcpy((int32_t *)r->c + i * r->c_row + j, tile + i * NR, (size_t)cols * sizeof *tile);
  }
}

const cni_gemm_kernels cni_gemm_octets = {.size = OCTETS, .mr = MR, .nr = NR, .run = run};
