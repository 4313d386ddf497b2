/* gemm_isa.h: what each instruction-set unit of the matrix product exports.
 *
 * Place in the flow: gemm.c drives (blocking, threads), these do the arithmetic. Invariant: within one
 * product every element of C is the same chain of operations over k, whichever tile it falls into. */
#ifndef CNI_CPU_GEMM_ISA_H
#define CNI_CPU_GEMM_ISA_H

#include <stddef.h>

#include "backends/cpu/isa.h"
#include "gemm.h"

/* One row panel of A against a run of packed column panels of B. */
typedef struct cni_gemm_run {
  const void *a; /* rows x depth */
  int64_t a_row, a_col; /* by tiles: a_col is from CNI_TILE elements along k, in one piece, to the next */
  const void *b; /* packed panels, each depth x nr */
  void *c;       /* (rows, cols) */
  int64_t c_row, c_col;
  int rows; /* <= mr */
  int64_t cols, depth;
  double alpha, beta;
  const void *bias, *across; /* (rows), (cols): added instead of beta * C; NULL: none; not by tiles */
  const cni_gemm_limits *limits; /* f32 alone */
  uint16_t *rounded; /* by tiles of pairs: where the result goes as bfloat16, in rows without gaps, c being only read;
                        NULL: to c */
  int64_t rounded_row;
  const int64_t *a_steps; /* by tiles: where each CNI_TILE elements along k of A lie, from the first; NULL: evenly */
  const void *next; /* the row panel after this one, with the same steps, to be fetched meanwhile; or NULL */
} cni_gemm_run;

enum { CNI_FEW_ROWS = 8 };
/* The kernels of one element type. */
typedef struct cni_gemm_kernels {
  size_t size;    /* bytes of an element */
  int mr, nr;     /* register tile */
  int64_t direct_kc; /* block of k of `direct` */
  int64_t kc, nc; /* blocks of k and of columns of B, which stay in the second-level cache */
  int64_t mc;     /* rows of A, where it is packed, that stay there instead while B passes by; 0: none */
  /* dst[k * width + i] = src[i * i_step + k * k_step] for i < count, 0 for count <= i < width. */
  void (*pack)(void *dst, const void *src, int64_t i_step, int64_t k_step, int count, int width,
               int64_t depth);
  void (*run)(const cni_gemm_run *r);
  /* The whole product for columns [begin, end) without heap memory: A read in place, B in place or packed
   * on the stack. For products whose operands fit the caches, and for few rows. */
  void (*direct)(const cni_gemm *g, int64_t begin, int64_t end);
  /* The same for up to CNI_FEW_ROWS rows of A, B's and C's rows contiguous, alpha 1. */
  void (*few_rows)(const cni_gemm *g, int64_t begin, int64_t end);
  /* Rows [begin, end) of C by dot products; a_col and b_row are 1. For few columns. */
  void (*dots)(const cni_gemm *g, int64_t begin, int64_t end);
  /* Rows of `cols` numbers brought into the limits; row, col: steps. f32 alone. */
  void (*limit)(void *c, int64_t row, int64_t col, int64_t rows, int64_t cols, const cni_gemm_limits *limits);
} cni_gemm_kernels;

/* Whether the lines of mr rows meet in a few sets of the first-level cache (64 sets of 64 bytes), as they
 * do when rows are a multiple of a page apart. */
static inline bool cni_rows_collide(int64_t step_bytes, int mr)
{
  enum { SETS = 64, LINE = 64, TOLERATED = 4 };
  int used[SETS] = {0};
  for (int i = 0; i < mr; i++) {
    uint64_t at = (uint64_t)(step_bytes * i) / LINE % SETS;
    if (++used[at] > TOLERATED) return true;
  }
  return false;
}

/* [0] f32, [1] f64. */
CNI_DECLARE_BY_ISA(cni_gemm_kernels, cni_gemm_kernels, [2]);

/* Kernels of the best level alone, for machines that have the instruction besides it (see isa.h); pack and run alone,
 * and run alone where an element is of eight. */
#if CNI_HAS_LEVELS
extern const cni_gemm_kernels cni_gemm_pairs; /* an element is two bf16 that follow each other in k; C is f32 */
#endif
#if defined(__x86_64__)
/* The same by tiles (avx512/gemm_amx.c), and of four int8 into int32: run alone, over a depth of whole tiles. B is as
 * packed by the vectors' kernels of the same element. */
enum { CNI_TILE = 16 };
extern const cni_gemm_kernels cni_gemm_tile_pairs, cni_gemm_tile_quads;
/* Rows of k numbers of `size` bytes (2: pairs, 1: quadruples), i_step and k_step apart, as (k, rows, CNI_TILE)
 * elements: CNI_TILE along k of all rows, then the next; filled with 0. */
void cni_tiles_pack(void *to, const void *from, int64_t i_step, int64_t k_step, int rows, int64_t k, int size);
#endif
#if CNI_HAS_LEVELS
/* An element is four int8 that follow each other in k; C is int32. On x86-64 A's numbers are read as unsigned. */
extern const cni_gemm_kernels cni_gemm_quads;
#endif
#if defined(__aarch64__)
extern const cni_gemm_kernels cni_gemm_octets; /* eight of them */
#elif defined(__x86_64__)
extern const cni_gemm_kernels cni_gemm_words; /* an element is two int16; C is int32; for AVX2 and above */
#endif

#endif
