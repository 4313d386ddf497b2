/* conv_im2col_isa.h: columns for convolutions, by AVX2, AVX-512 and NEON (others go by the direct kernels).
 *
 * Place in the flow: conv_im2col.c and conv_gemm.c ask for the columns of a run of windows. Invariant: row
 * (c, i, j) of the columns holds what tap (i, j) of every window sees of channel c, 0 outside the image. */
#ifndef CNI_CPU_CONV_IM2COL_ISA_H
#define CNI_CPU_CONV_IM2COL_ISA_H

#include <stdint.h>

#include "backends/cpu/isa.h"

enum { CNI_IM2COL_LANES = 16, CNI_IM2COL_TAPS = 16 }; /* windows of a run; taps along a row, at most */

/* Up to CNI_IM2COL_LANES windows of one row of windows. */
typedef struct cni_im2col_run {
  int64_t channels, channel, row; /* of the image: how many, elements between them and between rows */
  int64_t h, w, y, x;             /* its size; where tap (0, 0) of the first window lies, which may be outside */
  int64_t taps[2], tap_step[2];
  int64_t step, count; /* between windows; windows */
} cni_im2col_run;

/* to[(c, i, j) * pitch + window]; image: (channels, h, w), rows contiguous. */
typedef struct cni_im2col_kernels {
  void (*take)(const cni_im2col_run *r, float *to, int64_t pitch, const float *image);
} cni_im2col_kernels;

CNI_DECLARE_IF_VECTORS(cni_im2col_kernels, cni_im2col);

#endif
