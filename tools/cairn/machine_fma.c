/* machine_fma.c: multiply-adds in registers, which nothing that computes in float32 can outrun. See machine.h.
 *
 * Invariant: twelve sums that do not depend on one another, enough for two units of four or five cycles each; no
 * memory. */
#include "machine.h"

/* Written out, so that sums stay in registers. */
#define ALL(from) _Pragma("GCC unroll 12") for (int i = from; i < 12; i++)

#if defined(__x86_64__)
#include <immintrin.h>
#define WIDE_KERNEL(name, isa, vector, set, fma, first)                            \
  __attribute__((target(isa))) static float name(int64_t n)                        \
  {                                                                                \
    vector sum[12], k = set(0.999f), c = set(1e-3f);                               \
    ALL(0) sum[i] = set((float)i);                                                 \
    for (; n > 0; n--) ALL(0) sum[i] = fma(sum[i], k, c);                          \
    ALL(1) sum[0] = fma(sum[i], k, sum[0]);                                        \
    return first(sum[0]);                                                          \
  }
WIDE_KERNEL(run_512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)
WIDE_KERNEL(run_256, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)
static int lanes_here(void)
{
  return __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("avx2") ? 8 : 0;
}
static float run(int lanes, int64_t n) { return lanes == 16 ? run_512(n) : run_256(n); }
#elif defined(__aarch64__)
#include <arm_neon.h>
static int lanes_here(void) { return 4; }
static float run(int lanes, int64_t n)
{
  float32x4_t sum[12], k = vdupq_n_f32(0.999f), c = vdupq_n_f32(1e-3f);
  (void)lanes;
  ALL(0) sum[i] = vdupq_n_f32((float)i);
  for (; n > 0; n--) ALL(0) sum[i] = vfmaq_f32(c, sum[i], k);
  ALL(1) sum[0] = vaddq_f32(sum[0], sum[i]);
  return vgetq_lane_f32(sum[0], 0);
}
#else
static int lanes_here(void) { return 0; }
static float run(int lanes, int64_t n) { return (float)lanes * (float)n; }
#endif

typedef struct shift {
  int lanes;
  float kept[256]; /* so that nobody leaves the sums out */
} shift;

enum { STEPS = 400000 };

static void work_of_threads(int64_t begin, int64_t end, void *payload)
{
  shift *s = payload;
  for (int64_t i = begin; i < end; i++) s->kept[i % 256] = run(s->lanes, STEPS);
}

/* Best of ten rounds, on all threads that loops may use. */
double machine_multiply_adds(void)
{
  shift s = {.lanes = lanes_here()};
  double best = 0;
  for (int round = 0; s.lanes && round < 10; round++) {
    double begin = machine_clock();
    cn_parallel_for(cn_num_threads(), 1, work_of_threads, &s);
    double took = machine_clock() - begin;
    double rate = 2.0 * 12 * s.lanes * STEPS * cn_num_threads() / took;
    if (took > 0 && rate > best) best = rate;
  }
  return best;
}
