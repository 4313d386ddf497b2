/* conv_winograd_1d_isa.h: the transforms of F(2, n) along rows, by AVX2, AVX-512 and NEON (others go by the direct
 * kernels): tiles of results from four products instead of six.
 *
 * Place in the flow: conv_winograd_1d.c drives; the products between are conv_direct_isa.h's panels and outer
 * products. Invariant: tile t of a row are results 2 t and 2 t + 1. */
#ifndef CNI_CPU_CONV_WINOGRAD_1D_ISA_H
#define CNI_CPU_CONV_WINOGRAD_1D_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

/* Parts, and elements between tiles: at most. */
enum { CNI_WINOGRAD_1D_LANES = 16, CNI_WINOGRAD_1D_PARTS = 40, CNI_WINOGRAD_1D_STEP = 8 };

/* The element `a` columns behind a tile's first one, plus `sign` times the one `b` behind it; sign is 0, 1 or -1. */
typedef struct cni_winograd_1d_part {
  int64_t a, b;
  int sign;
} cni_winograd_1d_part;

/* A row of an image and what is made of it. */
typedef struct cni_winograd_1d_row {
  int64_t w, first;     /* its width; where its first tile begins, which may be outside */
  int64_t step;         /* elements between tiles, at most CNI_WINOGRAD_1D_STEP */
  int64_t tiles, reach; /* reach: tiles behind the last of which elements are taken */
  int64_t count;
  const cni_winograd_1d_part *parts;
  float *room; /* step x (tiles + reach in whole vectors) */
} cni_winograd_1d_row;

typedef struct cni_winograd_1d_kernels {
  /* to[part * apart + t]; row: NULL outside the image */
  void (*transform_input)(const cni_winograd_1d_row *r, const float *row, float *to, int64_t apart);
  /* to: results of `count` of columns, from the sums of the 4 points in m, `step` apart, plus the bias. False when one
   * is not finite. */
  bool (*transform_output)(float *to, int64_t count, const float *m, int64_t step, float bias);
  /* The results' gradient for the points: to[point * step + t * ld + k], of `count` columns of up to 16 channels,
   * `channel` apart; the second of the last tile may be missing. Channels from `channels` on are 0. */
  void (*transform_grad)(float *to, int64_t step, int64_t ld, const float *grad, int64_t channel, int64_t channels,
                         int64_t count);
} cni_winograd_1d_kernels;

CNI_DECLARE_IF_VECTORS(cni_winograd_1d_kernels, cni_winograd_1d);

#endif
