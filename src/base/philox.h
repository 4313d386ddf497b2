/* philox.h: counter-based random numbers (Philox 4x32, ten rounds; Salmon et al., 2011) and what is made
 * of them.
 *
 * Place in the flow: random kernels get a seed and a first counter from apply (cn_call.seed, .offset) and
 * fill their result in ranges, on any number of threads. Invariant: element i of a result depends on
 * (seed, offset, i) alone: it is made of counter offset + i / 4 (32-bit draws) or offset + i / 2 (64-bit
 * draws), so a result of n elements uses fewer than n + 1 counters whatever its type.
 *
 * Loops run over a group of counters at a time, word by word, so that they vectorise. */
#ifndef CNI_BASE_PHILOX_H
#define CNI_BASE_PHILOX_H

#include <stdint.h>
#include <string.h>

#include "maths.h"

enum {
  CNI_PHILOX_LANES = 32, /* counters worked on together; below 17 gcc unrolls instead of vectorising */
  CNI_DRAWS_32 = 4 * CNI_PHILOX_LANES, /* 32-bit draws of one such group */
  CNI_DRAWS_64 = 2 * CNI_PHILOX_LANES
};

/* The four words of each counter, by word. */
typedef struct cni_philox_group {
  uint32_t w[4][CNI_PHILOX_LANES];
} cni_philox_group;

#define CNI_PHILOX_ROUNDS 10
#define CNI_PHILOX_BUMP_0 0x9E3779B9u /* added to the key's halves after each round */
#define CNI_PHILOX_BUMP_1 0xBB67AE85u

/* The 64 bits of a product of two words; a processor may have its own way to them. */
#ifndef CNI_PHILOX_PRODUCT
#define CNI_PHILOX_PRODUCT(a, b) ((uint64_t)(a) * (b))
#endif

static inline void cni_philox_round(uint32_t *w0, uint32_t *w1, uint32_t *w2, uint32_t *w3, uint32_t k0,
                                    uint32_t k1)
{
  uint64_t a = CNI_PHILOX_PRODUCT(*w0, 0xD2511F53u), b = CNI_PHILOX_PRODUCT(*w2, 0xCD9E8D57u);
  *w0 = (uint32_t)(b >> 32) ^ *w1 ^ k0;
  *w2 = (uint32_t)(a >> 32) ^ *w3 ^ k1;
  *w1 = (uint32_t)b;
  *w3 = (uint32_t)a;
}

/* One 128-bit counter, given as its low and high half. */
static inline void cni_philox(uint64_t key, uint64_t counter, uint64_t high, uint32_t out[4])
{
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  out[0] = (uint32_t)counter;
  out[1] = (uint32_t)(counter >> 32);
  out[2] = (uint32_t)high;
  out[3] = (uint32_t)(high >> 32);
  for (int round = 0; round < CNI_PHILOX_ROUNDS; round++) {
    cni_philox_round(&out[0], &out[1], &out[2], &out[3], k0, k1);
    k0 += CNI_PHILOX_BUMP_0;
    k1 += CNI_PHILOX_BUMP_1;
  }
}

/* The words of the counters from `counter` on. */
static inline void cni_philox_fill(cni_philox_group *g, uint64_t key, uint64_t counter)
{
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int i = 0; i < CNI_PHILOX_LANES; i++) {
    uint64_t c = counter + (uint64_t)i;
    g->w[0][i] = (uint32_t)c;
    g->w[1][i] = (uint32_t)(c >> 32);
    g->w[2][i] = g->w[3][i] = 0;
  }
  for (int round = 0; round < CNI_PHILOX_ROUNDS; round++) {
    for (int i = 0; i < CNI_PHILOX_LANES; i++)
      cni_philox_round(&g->w[0][i], &g->w[1][i], &g->w[2][i], &g->w[3][i], k0, k1);
    k0 += CNI_PHILOX_BUMP_0;
    k1 += CNI_PHILOX_BUMP_1;
  }
}

/* ---- one draw ---- */
/* [0, 1) in steps of 2^-bits; 24 for float32, 11 for float16 and 8 for bfloat16, which then hold it
 * exactly. */
static inline float cni_unit_f32(uint32_t word, int bits)
{
  return (float)(int32_t)(word >> (32 - bits)) * (1.0f / (float)(1 << bits));
}

static inline double cni_unit_f64(uint64_t word) { return (double)(int64_t)(word >> 11) * 0x1p-53; }
static inline uint64_t cni_word_64(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

/* cnm_logf of a uniform number that is not 0, bit for bit: no ends, nothing subnormal. */
static inline float cni_log_unit_f32(float u)
{
  uint32_t at = cnm_f2u(u) - 0x3f3504f3u;
  float f = cnm_u2f((at & 0x007fffffu) + 0x3f3504f3u) - 1.0f, t = cnm_log_tailf(f);
  float k = cnm_u2f(0x4b400000u + (uint32_t)((int32_t)at >> 23)) - 12582912.0f;
  return CNM_MADF(k, 0.69314575f, f + CNM_MADF(k, 1.4286068e-06f, t));
}

/* 2 pi times the uniform number of a word, less quarter turns, of which *q has the number. In float32 where products
 * are exact (a quarter turn is the sum of the three constants), which gives the same for each of the 2^24 angles. */
static inline float cni_angle_f32(uint32_t word, uint32_t *q)
{
  float angle = 6.28318530717958648f * cni_unit_f32(word, 24);
#if CNM_HAS_FMA
  *q = ((word >> 8) + (1u << 21)) >> 22;
  float n = 8388608.0f - cnm_u2f(0x4b000000u | *q);
  return CNM_FMAF(n, -1.71512451e-15f, CNM_FMAF(n, -4.37113883e-08f, CNM_FMAF(n, 1.57079637f, angle)));
#else
  return (float)cnm_trig_reducef(angle, q);
#endif
}

/* Box and Muller: two words make two independent normal numbers. The first uniform is never 0. */
static inline void cni_normal_pair_f32(uint32_t a, uint32_t b, float *x, float *y)
{
  uint32_t q;
  float u = (float)(int32_t)(a >> 1) * 0x1p-31f + 0x1p-32f;
  float r = CNM_SQRTF(-2.0f * cni_log_unit_f32(u)), angle = cni_angle_f32(b, &q);
  *x = r * cnm_sincos_pickf(angle, q + 1, 0);
  *y = r * cnm_sincos_pickf(angle, q, 0);
}

static inline void cni_normal_pair_f64(uint64_t a, uint64_t b, double *x, double *y)
{
  double u = (double)(int64_t)((a >> 11) + 1) * 0x1p-53;
  double r = CNM_SQRT(-2.0 * cnm_log(u)), angle = 6.28318530717958648 * cni_unit_f64(b);
  *x = r * cnm_cos(angle);
  *y = r * cnm_sin(angle);
}

/* ---- a group of draws, in the order of the elements ---- */
static inline void cni_group_u32(uint32_t *out, uint64_t key, uint64_t counter)
{
  cni_philox_group g;
  cni_philox_fill(&g, key, counter);
  for (int i = 0; i < CNI_PHILOX_LANES; i++)
    for (int k = 0; k < 4; k++) out[4 * i + k] = g.w[k][i];
}

static inline void cni_group_u64(uint64_t *out, uint64_t key, uint64_t counter)
{
  cni_philox_group g;
  cni_philox_fill(&g, key, counter);
  for (int i = 0; i < CNI_PHILOX_LANES; i++)
    for (int k = 0; k < 2; k++) out[2 * i + k] = cni_word_64(g.w[2 * k][i], g.w[2 * k + 1][i]);
}

static inline void cni_group_unit_f32(float *out, uint64_t key, uint64_t counter)
{
  cni_philox_group g;
  cni_philox_fill(&g, key, counter);
  for (int i = 0; i < CNI_PHILOX_LANES; i++)
    for (int k = 0; k < 4; k++) out[4 * i + k] = cni_unit_f32(g.w[k][i], 24);
}

static inline void cni_group_unit_f64(double *out, uint64_t key, uint64_t counter)
{
  cni_philox_group g;
  cni_philox_fill(&g, key, counter);
  for (int i = 0; i < CNI_PHILOX_LANES; i++)
    for (int k = 0; k < 2; k++) out[2 * i + k] = cni_unit_f64(cni_word_64(g.w[2 * k][i], g.w[2 * k + 1][i]));
}

static inline void cni_group_normal_f32(float *out, uint64_t key, uint64_t counter)
{
  cni_philox_group g;
  float z[4][CNI_PHILOX_LANES];
  cni_philox_fill(&g, key, counter);
  for (int k = 0; k < 4; k += 2)
    for (int i = 0; i < CNI_PHILOX_LANES; i++)
      cni_normal_pair_f32(g.w[k][i], g.w[k + 1][i], &z[k][i], &z[k + 1][i]);
  for (int i = 0; i < CNI_PHILOX_LANES; i++)
    for (int k = 0; k < 4; k++) out[4 * i + k] = z[k][i];
}

static inline void cni_group_normal_f64(double *out, uint64_t key, uint64_t counter)
{
  cni_philox_group g;
  double z[2][CNI_PHILOX_LANES];
  cni_philox_fill(&g, key, counter);
  for (int i = 0; i < CNI_PHILOX_LANES; i++)
    cni_normal_pair_f64(cni_word_64(g.w[0][i], g.w[1][i]), cni_word_64(g.w[2][i], g.w[3][i]), &z[0][i],
                        &z[1][i]);
  for (int i = 0; i < CNI_PHILOX_LANES; i++)
    for (int k = 0; k < 2; k++) out[2 * i + k] = z[k][i];
}

/* ---- ranges ---- */
/* cni_random_KIND(out, first, n, seed, offset): elements first .. first + n - 1 of the result into out[0
 * .. n - 1]. Fastest where first is a multiple of CNI_DRAWS_32. */
#define CNI_RANDOM_RANGE(kind, T, draws)                                                                   \
  static inline void cni_random_##kind(T *out, int64_t first, int64_t n, uint64_t seed, uint64_t offset)   \
  {                                                                                                        \
    while (n > 0) {                                                                                        \
      int64_t group = first / (draws), skip = first % (draws);                                             \
      int64_t m = (draws)-skip < n ? (draws)-skip : n;                                                     \
      uint64_t counter = offset + (uint64_t)group * CNI_PHILOX_LANES;                                      \
      if (m == (draws)) cni_group_##kind(out, seed, counter);                                              \
      else {                                                                                               \
        T part[draws];                                                                                     \
        cni_group_##kind(part, seed, counter);                                                             \
        memcpy(out, part + skip, (size_t)m * sizeof(T));                                                   \
      }                                                                                                    \
      out += m, first += m, n -= m;                                                                        \
    }                                                                                                      \
  }
CNI_RANDOM_RANGE(u32, uint32_t, CNI_DRAWS_32)
CNI_RANDOM_RANGE(u64, uint64_t, CNI_DRAWS_64)
CNI_RANDOM_RANGE(unit_f32, float, CNI_DRAWS_32)
CNI_RANDOM_RANGE(unit_f64, double, CNI_DRAWS_64)
CNI_RANDOM_RANGE(normal_f32, float, CNI_DRAWS_32)
CNI_RANDOM_RANGE(normal_f64, double, CNI_DRAWS_64)

#endif
