/* gemm_vnni.c: tiles of int8 quadruples along k, summed in int32 by VPDPBUSD, for x86-64 processors that have it.
 *
 * Place in the flow: matmul_int8.c takes this table where cni_cpu_int8_terms says so; the tile is gemm_kernel.inc's.
 * The instruction reads its first operand, A, as unsigned: the caller adds 128 to A's numbers, and to C what takes that
 * away again. Invariant: nothing here is called on a machine without the instruction; sums of integers are the same in
 * any order, so the bits are those of the plain loops. */
#include <immintrin.h>
#include <string.h>

#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/gemm/gemm_tile.h"

#define T int32_t
#define NAME(name) name##_quads
#define LANES (VECTOR_BYTES / 4)
#define LOW_HALVES LOW_16
#define HIGH_HALVES HIGH_16
#define FMA(x, y, z) ((x) * (y) + (z))
#define BROADCAST(x) ((V)_mm512_set1_epi32(x))
#define MASK(n) ((__mmask16)((1u << (n)) - 1u))
#define LOAD_PART(p, n) ((V)_mm512_maskz_loadu_epi32(MASK(n), p))
#define STORE_PART(p, v, n) _mm512_mask_storeu_epi32(p, MASK(n), (__m512i)(v))
#define STEP(x, y, z) ((V)_mm512_dpbusd_epi32((__m512i)(z), (__m512i)(x), (__m512i)(y)))
#include "backends/cpu/gemm/gemm_kernel.inc"

const cni_gemm_kernels cni_gemm_quads = {4,          MR,        2 * VECTOR_BYTES / 4, 0, BLOCK_F32,
                                         pack_quads, run_quads, NULL, NULL, NULL};
