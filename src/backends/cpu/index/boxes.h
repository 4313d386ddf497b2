/* boxes.h: what boxes.c has of boxes_isa.c.
 *
 * Invariant: the arrays are packed, and of the type that the loop is for. */
#ifndef CNI_CPU_BOXES_H
#define CNI_CPU_BOXES_H

#include <stdint.h>

#include "backends/cpu/isa.h"

/* Boxes by their sides (left, top, right, bottom); dropped: int32 for float, int64 for double. */
typedef struct cni_boxes {
  void *side[4], *area, *dropped;
} cni_boxes;

typedef void cni_drop_boxes(const cni_boxes *b, int64_t one, int64_t end, double limit);

/* Mark those of boxes (one, end) whose overlap with `one`, as a part of what both cover, is above the limit. */
typedef struct cni_box_loops {
  cni_drop_boxes *f32, *f64;
} cni_box_loops;

CNI_DECLARE_BY_ISA(cni_box_loops, cni_box_loops);

#endif
