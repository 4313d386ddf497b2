/* conv_winograd_isa.h: the transforms of Winograd convolutions, by AVX2, AVX-512 and NEON (others go by the direct
 * kernels), of each form: 3 x 3 at stride 1; at stride 2; the gradient of the input at stride 2, of which the first
 * element lies under the outer taps (an even padding) or under the middle one; 3 x 3 at stride 1 in large tiles.
 *
 * Place in the flow: conv_winograd.c drives; the products between the transforms are conv_direct_isa.h's panels.
 * Invariant: a tile's transformed values lie `step` elements apart, neighbouring tiles side by side. */
#ifndef CNI_CPU_CONV_WINOGRAD_ISA_H
#define CNI_CPU_CONV_WINOGRAD_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

enum { CNI_WINOGRAD_LANES = 16, CNI_WINOGRAD_FORMS = 5 }; /* tiles of a run, at most */

/* A plane of an image and where in it the first of `count` tiles lies, at most CNI_WINOGRAD_LANES of a row of tiles. */
typedef struct cni_winograd_run {
  int64_t h, w, row; /* row: elements between rows */
  int64_t y, x;      /* the first patch's corner (it may lie outside), or the first tile's */
  int64_t count;
} cni_winograd_run;

typedef struct cni_winograd_kernels {
  /* v: the parts of the patches under the tiles */
  void (*image)(const cni_winograd_run *r, float *v, int64_t step, const float *plane);
  /* The tiles' results from m, plus the bias. False when one is not finite. */
  bool (*result)(const cni_winograd_run *r, float *plane, const float *m, int64_t step, float bias);
  /* u: weights of 3 x 3 contiguous taps, or of the taps in reverse; CNI_CONV_ROWS of them `row` elements apart.
   * Those of group g go behind at[g], after those of r others. */
  void (*weight)(float *u, const int64_t *at, int64_t r, const float *w, int64_t row, bool flipped);
  /* For the gradient of the weight, of forms that have one. v: the tiles of the result's gradient */
  void (*grad)(const cni_winograd_run *r, float *v, int64_t step, const float *plane);
  /* The gradient of `count` weights of 3 x 3 contiguous taps, `apart` elements apart, from their sums in m. False when
   * one is not finite. */
  bool (*weight_back)(float *w, int64_t apart, const float *m, int64_t step, int64_t count);
} cni_winograd_kernels;

CNI_DECLARE_IF_VECTORS(cni_winograd_kernels, cni_winograd, [CNI_WINOGRAD_FORMS]);

#endif
