/* gemm_tile.h: the register tile of each instruction set and the blocks that caches hold, for gemm_kernel.inc.
 *
 * Place in the flow: included once by each unit that includes gemm_kernel.inc: gemm_isa.c, and those for instructions
 * that not every machine of a level has. Invariant: all units of a level have one tile, so that they pack alike. */
#ifndef CNI_CPU_GEMM_TILE_H
#define CNI_CPU_GEMM_TILE_H

#include "backends/cpu/isa.h"
#include "ops/product.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* MR rows by two vectors fill the registers: 14 * 2 + 2 + 1 of 32, 6 * 2 + 2 + 1 of 16; without fused
 * multiply-add, which needs a register for the product, 4 * 2 + 2 + 1 + some of 16. NEON multiplies by a lane of a
 * vector of A, so that nothing is broadcast: 8 * 2, four pairs of vectors of B and some of A, of 32. */
#if CNI_FOR_AVX512
#define VECTOR_BYTES 64
#define MR 14
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#elif CNI_FOR_AVX2
#define VECTOR_BYTES 32
#define MR 6
#define PACKED_TILES 1 /* a block of packed A stays in the cache: see BLOCK_F32 */
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)
#elif CNI_FOR_NEON
#define VECTOR_BYTES 16
#define MR 8
#define PACKED_TILES 1
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define VECTOR_BYTES 16
#define MR 4
#define EACH_ROW(X) X(0) X(1) X(2) X(3)
#endif

#if defined(__clang__)
#define UNROLL /* clang unrolls these by itself */
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Lanes of two vectors taken in turns: from their first halves, from their second halves. */
#define LOW_2 0, 2
#define HIGH_2 1, 3
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

enum { DIRECT_DEPTH = CNI_SMALL_DEPTH }; /* of a packed panel on the stack: at most 32 KiB */

#if CNI_FOR_AVX512 /* such machines have 1 MiB of second-level cache or more */
#define BLOCK_F32 512, 256, 0
#define BLOCK_F64 384, 160, 0
#elif CNI_FOR_AVX2 || CNI_FOR_NEON /* and these 256 or 512 KiB: a packed block of A takes 108 */
#define BLOCK_F32 384, 192, 72
#define BLOCK_F64 256, 144, 54
#else
#define BLOCK_F32 384, 192, 0
#define BLOCK_F64 256, 144, 0
#endif

#endif
