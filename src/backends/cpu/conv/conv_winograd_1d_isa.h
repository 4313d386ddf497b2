/* conv_winograd_1d_isa.h: what each instruction-set unit of convolutions by pairs of results exports.
 *
 * Place in the flow: conv_winograd_1d.c drives; the products between are conv_direct_isa.h's panels and outer
 * products. Invariant: pair t of a row are results 2 t and 2 t + 1. */
#ifndef CNI_CPU_CONV_WINOGRAD_1D_ISA_H
#define CNI_CPU_CONV_WINOGRAD_1D_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

enum { CNI_PAIRS_LANES = 16, CNI_PAIRS_PARTS = 40, CNI_PAIRS_STEP = 8 }; /* parts, elements between pairs: at most */

/* The element `a` columns behind a pair's first one, plus `sign` times the one `b` behind it; sign is 0, 1 or -1. */
typedef struct cni_pairs_part {
  int64_t a, b;
  int sign;
} cni_pairs_part;

/* A row of an image and what is made of it. */
typedef struct cni_pairs_row {
  int64_t w, first; /* its width; where its first pair begins, which may be outside */
  int64_t step;     /* elements between pairs, at most CNI_PAIRS_STEP */
  int64_t pairs, reach; /* reach: pairs behind the last of which elements are taken */
  int64_t count;
  const cni_pairs_part *parts;
  float *room; /* step x (pairs + reach in whole vectors) */
} cni_pairs_row;

/* All NULL on a level that has none. */
typedef struct cni_pairs_kernels {
  /* to[part * apart + t]; row: NULL outside the image */
  void (*spread)(const cni_pairs_row *r, const float *row, float *to, int64_t apart);
  /* to: results of `count` of columns, from the sums of the 4 points in m, `step` apart, plus the bias. False when one
   * is not finite. */
  bool (*join)(float *to, int64_t count, const float *m, int64_t step, float bias);
  /* The results' gradient for the points: to[point * step + t * ld + k], of `count` columns of up to 16 channels,
   * `channel` apart; the second of the last pair may be missing. Channels from `channels` on are 0. */
  void (*turn)(float *to, int64_t step, int64_t ld, const float *grad, int64_t channel, int64_t channels,
               int64_t count);
} cni_pairs_kernels;

extern const cni_pairs_kernels cni_pairs_kernels_base;
#if defined(__x86_64__)
extern const cni_pairs_kernels cni_pairs_kernels_avx2;
extern const cni_pairs_kernels cni_pairs_kernels_avx512;
#endif

#endif
