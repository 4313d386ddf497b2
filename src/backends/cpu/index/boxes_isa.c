/* boxes_isa.c: the loop of kept_boxes, compiled once per instruction-set level: which boxes overlap with one.
 *
 * Invariant: an overlap is computed in the same order on every level, so that all keep the same boxes. */
#include "boxes.h"

#define DROP(T, flag, suffix)                                                                                        \
  static void drop_##suffix(const cni_boxes *b, int64_t one, int64_t end, double limit)                              \
  {                                                                                                                  \
    const T *left = b->side[0], *top = b->side[1], *right = b->side[2], *bottom = b->side[3], *area = b->area;       \
    flag *dropped = b->dropped;                                                                                      \
    T l = left[one], t = top[one], r = right[one], d = bottom[one], own = area[one], most = (T)limit;                \
    CNI_IVDEP                                                                                                        \
    for (int64_t i = one + 1; i < end; i++) {                                                                        \
      T x0 = l > left[i] ? l : left[i], y0 = t > top[i] ? t : top[i];                                                \
      T x1 = r < right[i] ? r : right[i], y1 = d < bottom[i] ? d : bottom[i];                                        \
      T w = x1 - x0 > 0 ? x1 - x0 : 0, h = y1 - y0 > 0 ? y1 - y0 : 0, common = w * h;                                \
      dropped[i] |= common / (own + area[i] - common) > most ? 1 : 0;                                                \
    }                                                                                                                \
  }
DROP(float, int32_t, f32)
DROP(double, int64_t, f64)

const cni_box_loops CNI_ISA_NAME(cni_box_loops) = {drop_f32, drop_f64};
