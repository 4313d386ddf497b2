/* gemm_words.c: tiles of pairs of int16 along k, summed in int32 by VPMADDWD, for products of int8 on x86-64 processors
 * without VNNI.
 *
 * Place in the flow: matmul_int8.c widens its numbers and takes this table where no instruction multiplies them as they
 * are, on early processors with AVX-512, too; the tile is gemm_kernel.inc's. VPMADDUBSW, which multiplies them as they
 * are, adds two products in 16 bits and cuts off what does not fit. Invariant: sums of integers are the same in any
 * order, so the bits are those of the plain loops. */
#include <immintrin.h>
#include <string.h>

#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/gemm/gemm_tile.h"

#define T int32_t
#define NAME(name) name##_words
#define LANES (VECTOR_BYTES / 4)
#define LOW_HALVES LOW_8
#define HIGH_HALVES HIGH_8
#define FMA(x, y, z) ((x) * (y) + (z))
#define BROADCAST(x) ((V)_mm256_set1_epi32(x))
#define STEP(x, y, z) ((V)_mm256_madd_epi16((__m256i)(x), (__m256i)(y)) + (z))
#include "backends/cpu/gemm/gemm_kernel.inc"

const cni_gemm_kernels cni_gemm_words = {4,          MR,        2 * VECTOR_BYTES / 4, 0, BLOCK_F32,
                                         pack_words, run_words, NULL, NULL, NULL};
