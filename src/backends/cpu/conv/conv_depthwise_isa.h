/* conv_depthwise_isa.h: depthwise convolutions of planes, by AVX2, AVX-512 and NEON (others go by the direct kernels).
 *
 * Place in the flow: conv_depthwise.c walks the planes (one channel of one image, rows without gaps), these do the
 * arithmetic. Invariant: the order of every sum depends on the plane's size alone. */
#ifndef CNI_CPU_CONV_DEPTHWISE_ISA_H
#define CNI_CPU_CONV_DEPTHWISE_ISA_H

#include <stdint.h>

#include "backends/cpu/isa.h"

enum { CNI_DEPTHWISE_MOST = 7 }; /* taps of a dim */

/* One plane: x: (h, w), y: (oh, ow). For windows of `taps` x `taps` at stride 1 a plane is one run of pixels, cut into
 * `vectors`; of each, `taps` masks say which lanes lie inside the plane `i - taps / 2` rows below, and `taps` more
 * which lanes lie inside their row when moved j - taps / 2 columns (forward: to the right; gradient of the weight:
 * to the left). */
typedef struct cni_depthwise {
  int64_t h, w, oh, ow, vectors;
  int taps;
  const uint16_t *masks; /* vectors x 2 taps; NULL at stride 2 */
  float low, high, zero; /* forward: what y is brought into (cni_gemm_limits), and 0 or -0, which is added */
} cni_depthwise;

typedef struct cni_depthwise_kernels {
  int lanes; /* of a vector */
  /* y = bias + x convolved with w: taps x taps, padding taps / 2. */
  void (*forward)(const cni_depthwise *d, float *y, const float *x, const float *w, float bias);
  /* w += the gradient from `images` planes of x and g, which lie x_step and g_step elements apart. */
  void (*weight)(const cni_depthwise *d, float *w, const float *x, int64_t x_step, const float *g, int64_t g_step,
                 int64_t images);
  /* The same for 3 x 3 at stride 2, padding 1; x = the gradient of the input. */
  void (*half_forward)(const cni_depthwise *d, float *y, const float *x, const float *w, float bias);
  void (*half_input)(const cni_depthwise *d, float *x, const float *g, const float *w);
  void (*half_weight)(const cni_depthwise *d, float *w, const float *x, int64_t x_step, const float *g,
                      int64_t g_step, int64_t images);
} cni_depthwise_kernels;

CNI_DECLARE_IF_VECTORS(cni_depthwise_kernels, cni_depthwise);

#endif
