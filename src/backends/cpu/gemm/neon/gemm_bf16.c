/* gemm_bf16.c: tiles of bfloat16 pairs along k, summed in float32 by BFDOT, for ARM processors that have it.
 *
 * Place in the flow: matmul_half.c takes this table where cni_cpu_multiplies_bf16 says so; the tile is
 * gemm_kernel.inc's. Invariant: nothing here is called on a machine without the instruction. */
#include <arm_neon.h>
#include <string.h>

#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/gemm/gemm_tile.h"

#define T float
#define NAME(name) name##_pairs
#define LANES (VECTOR_BYTES / 4)
#define LOW_HALVES LOW_4
#define HIGH_HALVES HIGH_4
#define PAIRS(v) vreinterpretq_bf16_f32(v)
#define FMA(x, y, z) vfmaq_f32(z, x, y)
#define BROADCAST(x) vdupq_n_f32(x)
#define STEP(x, y, z) vbfdotq_f32(z, PAIRS(x), PAIRS(y))
#define FMA_LANE(x, l, y, z) vbfdotq_laneq_f32(z, PAIRS(y), PAIRS(x), l)
#define EACH_LANE(X, i) X(i, 0) X(i, 1) X(i, 2) X(i, 3)
#include "backends/cpu/gemm/gemm_kernel.inc"

const cni_gemm_kernels cni_gemm_pairs = {4,          MR,        2 * VECTOR_BYTES / 4, 0, BLOCK_F32,
                                         pack_pairs, run_pairs, NULL, NULL, NULL};
