/* gemm_dotprod.c: tiles of int8 quadruples along k, summed in int32 by SDOT, for ARM processors that have it.
 *
 * Place in the flow: matmul_int8.c takes this table where cni_cpu_int8_terms says so; the tile is
 * gemm_kernel.inc's. Invariant: nothing here is called on a machine without the instruction; sums of integers are the
 * same in any order, so the bits are those of the plain loops. */
#include <arm_neon.h>
#include <string.h>

#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/gemm/gemm_tile.h"

#define T int32_t
#define NAME(name) name##_quads
#define LANES (VECTOR_BYTES / 4)
#define LOW_HALVES LOW_4
#define HIGH_HALVES HIGH_4
#define QUADS(v) vreinterpretq_s8_s32(v)
#define FMA(x, y, z) vmlaq_s32(z, x, y)
#define BROADCAST(x) vdupq_n_s32(x)
#define STEP(x, y, z) vdotq_s32(z, QUADS(x), QUADS(y))
#define FMA_LANE(x, l, y, z) vdotq_laneq_s32(z, QUADS(y), QUADS(x), l)
#define EACH_LANE(X, i) X(i, 0) X(i, 1) X(i, 2) X(i, 3)
#include "backends/cpu/gemm/gemm_kernel.inc"

const cni_gemm_kernels cni_gemm_quads = {4,          MR,        2 * VECTOR_BYTES / 4, 0, BLOCK_F32,
                                         pack_quads, run_quads, NULL, NULL, NULL};
