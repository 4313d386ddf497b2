/* lanes.h: the functions of walk/lanes.h, by NEON: vectors of 4 floats.
 *
 * Place in the flow: included by walk/lanes.h, which says what the functions do. Invariant: there are no masked loads
 * and stores here, so what a bit keeps out is never touched because no instruction asks for it. */
#ifndef CNI_CPU_WALK_NEON_LANES_H
#define CNI_CPU_WALK_NEON_LANES_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>

enum { CNI_LANES = 4 };
typedef float32x4_t cni_lanes;
typedef uint8_t cni_lane_bits;

static inline cni_lane_bits cni_first_lanes(int64_t n)
{
  return (cni_lane_bits)(n >= CNI_LANES ? 0xfu : n > 0 ? (1u << n) - 1u : 0u);
}

static inline cni_lanes cni_all_lanes(float x) { return vdupq_n_f32(x); }

/* p[l * step] of lanes with a bit, one by one. */
static inline cni_lanes cni_gather_lanes(cni_lane_bits bits, const float *p, int step)
{
  const int64_t apart = step;
  cni_lanes v = vdupq_n_f32(0);
  if (bits & 1) v = vld1q_lane_f32(p, v, 0);
  if (bits & 2) v = vld1q_lane_f32(p + apart, v, 1);
  if (bits & 4) v = vld1q_lane_f32(p + 2 * apart, v, 2);
  if (bits & 8) v = vld1q_lane_f32(p + 3 * apart, v, 3);
  return v;
}

static inline cni_lanes cni_load_lanes(cni_lane_bits bits, const float *p)
{
  return bits == 0xf ? vld1q_f32(p) : cni_gather_lanes(bits, p, 1);
}

static inline void cni_store_all(float *p, cni_lanes v) { vst1q_f32(p, v); }

static inline void cni_store_lanes(float *p, cni_lane_bits bits, cni_lanes v)
{
  if (bits == 0xf) {
    vst1q_f32(p, v);
  } else if (bits & 2) {
    vst1_f32(p, vget_low_f32(v));
    if (bits & 4) vst1q_lane_f32(p + 2, v, 2);
  } else if (bits & 1) {
    vst1q_lane_f32(p, v, 0);
  }
}

static inline cni_lanes cni_lanes_fma(cni_lanes x, cni_lanes y, cni_lanes z) { return vfmaq_f32(z, x, y); }
static inline cni_lanes cni_lanes_once(cni_lanes x) { return x; }
static inline cni_lanes cni_least_lanes(cni_lanes x, cni_lanes y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
static inline cni_lanes cni_most_lanes(cni_lanes x, cni_lanes y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }

static inline cni_lanes cni_evens(cni_lanes a, cni_lanes b) { return vuzp1q_f32(a, b); }
static inline cni_lanes cni_odds(cni_lanes a, cni_lanes b) { return vuzp2q_f32(a, b); }
static inline cni_lanes cni_zip_low(cni_lanes a, cni_lanes b) { return vzip1q_f32(a, b); }
static inline cni_lanes cni_zip_high(cni_lanes a, cni_lanes b) { return vzip2q_f32(a, b); }

static inline __attribute__((always_inline)) cni_lanes cni_lanes_from(cni_lanes low, cni_lanes high, const int by)
{
  switch (by) {
  case 1: return vextq_f32(low, high, 1);
  case 2: return vextq_f32(low, high, 2);
  default: return vextq_f32(low, high, 3);
  }
}

static inline cni_lanes cni_add_lanes(cni_lanes sum, cni_lane_bits bits, cni_lanes other)
{
  const uint32x4_t bit = {1, 2, 4, 8}, whole = vtstq_u32(vdupq_n_u32(bits), bit);
  return vaddq_f32(sum, vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(other), whole)));
}

static inline float cni_sum_lanes(cni_lanes v) { return vaddvq_f32(v); }

static inline cni_lanes cni_lower_halves(cni_lanes a, cni_lanes b)
{
  return vcombine_f32(vget_low_f32(a), vget_low_f32(b));
}
static inline cni_lanes cni_upper_half(cni_lanes v) { return vcombine_f32(vget_high_f32(v), vget_high_f32(v)); }
static inline cni_lanes cni_without_middle(cni_lanes v) { return vsetq_lane_f32(0, v, 2); }

/* What is not finite is not 0 when taken from itself. */
static inline bool cni_all_finite(cni_lanes v)
{
  cni_lanes rest = vsubq_f32(v, v);
  return vminvq_u32(vceqq_f32(rest, rest)) != 0;
}

#endif
