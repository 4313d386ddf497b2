/* conv_direct_isa.h: what each instruction-set unit of the direct convolution exports.
 *
 * Place in the flow: conv_direct.c lays images out with their borders and drives; these do the arithmetic. A product
 * reads its right operand in place: row r of it is the image moved by offset[r] elements, so no matrix of patches is
 * ever built. Invariant: every result is one chain of multiply-adds in the order of r (or p), whichever tile it falls
 * into. */
#ifndef CNI_CPU_CONV_DIRECT_ISA_H
#define CNI_CPU_CONV_DIRECT_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

/* Rows of a full panel of weights at the level of the file being compiled. */
enum { CNI_CONV_ROWS = CNI_FOR_AVX512 || CNI_FOR_NEON ? 8 : 4 }; /* who have 32 registers */

/* A block of C values being written out: row by row, `n` elements each, plus a bias. */
typedef struct cni_conv_emit {
  void *dst;
  int64_t dst_row, dst_col; /* elements between rows and between neighbours */
  const void *src;
  int64_t src_row;
  int64_t rows, n;
  double bias;
} cni_conv_emit;

/* Which elements a sum runs over: of each of `images` images, `image` elements apart, `count` runs of `n`, `step`
 * apart. */
typedef struct cni_conv_walk {
  int64_t images, image, count, step, n;
} cni_conv_walk;

/* The kernels of one element type. */
typedef struct cni_conv_kernels {
  size_t size; /* bytes of an element */
  int mr;      /* rows of a full panel of weights */
  int nr;      /* columns of a full tile */
  int lanes;   /* columns of a vector */
  /* y[i * pitch + p] = sum over r < depth of a[r * rows + i] * x[offset[r] + p], for i < rows <= mr and p < cols.
   * Whole vectors are read and written: up to lanes - 1 elements behind cols. */
  void (*panel)(void *y, int64_t pitch, const void *a, int rows, int64_t depth, const int64_t *offset,
                const void *x, int64_t cols);
  /* w[i * ld + k] += sum over the walk's elements e, t of them so far, of x[offset[i] + e] * g[t * ld + k], for
   * i < rows and k < ld; ld is a multiple of lanes. */
  void (*outer)(void *w, const void *x, const int64_t *offset, int64_t rows, const void *g, int64_t ld,
                const cni_conv_walk *walk);
  /* w[i] += sum over the walk's elements e, t of them so far, of x[offset[i] + e] * g[t], for i < rows; one image. */
  void (*dots)(void *w, const void *x, const int64_t *offset, int64_t rows, const void *g,
               const cni_conv_walk *walk);
  void (*emit)(const cni_conv_emit *e);
} cni_conv_kernels;

/* [0] f32, [1] f64. */
CNI_DECLARE_BY_ISA(cni_conv_kernels, cni_conv_kernels, [2]);

#endif
