/* pool_isa.h: what each instruction-set unit of the pools exports.
 *
 * Place in the flow: pool.c brings images into a packed compute type and hands them out; these work on one image
 * plane at a time. Invariant: an element is computed in the same order on every level. */
#ifndef CNI_CPU_POOL_ISA_H
#define CNI_CPU_POOL_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

typedef struct cni_pool {
  int64_t h, w, oh, ow;
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool include_pad;
  int64_t divisor; /* 0: the number of elements */
} cni_pool;

/* Planes: x is (h, w), y and index (oh, ow), all packed. */
typedef struct cni_pool_kernels {
  void (*max)(const cni_pool *p, const void *x, void *y, int64_t *index);
  /* The same numbers, of which nobody asks where; f32 alone. */
  void (*max_values)(const cni_pool *p, const void *x, void *y);
  /* false: an index leaves the plane. x is cleared first. */
  bool (*max_backward)(const cni_pool *p, void *x, const void *y, const int64_t *index);
  void (*avg)(const cni_pool *p, const void *x, void *y);
  void (*avg_backward)(const cni_pool *p, void *x, const void *y);
  void (*adaptive)(const cni_pool *p, const void *x, void *y);
  void (*adaptive_max)(const cni_pool *p, const void *x, void *y, int64_t *index);
  void (*adaptive_backward)(const cni_pool *p, void *x, const void *y);
} cni_pool_kernels;

/* [0] f32, [1] f64, [2] int64 */
CNI_DECLARE_BY_ISA(cni_pool_kernels, cni_pool_kernels, [3]);

#endif
