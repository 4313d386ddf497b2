/* dots_bf16.c: dot products of a few bfloat16 rows with others by BFDOT, for ARM processors that have it.
 *
 * Place in the flow: cni_half_loops.pair_dots of matmul.h, called by matmul_half.c where cni_cpu_multiplies_bf16 says
 * so. Invariant: an element is one chain of sums over k, whichever place of a tile it has. */
#include <arm_neon.h>
#include <string.h>

#include "backends/cpu/gemm/matmul.h"

enum { LANES = 8 };

/* What indexes the sums is unrolled, or they would live in memory. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

static inline bfloat16x8_t whole(const uint16_t *p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }

/* The first n, 0 behind them. */
static inline bfloat16x8_t part(const uint16_t *p, int64_t n)
{
  uint16_t lane[LANES] = {0};
  memcpy(lane, p, (size_t)n * sizeof *p);
  return whole(lane);
}

/* sum[4 i + j] += x[i] y[j] of R rows; R is a constant, so that the sums stay in registers. */
#define STEP(R, LOAD)                                                                                                \
  {                                                                                                                  \
    bfloat16x8_t v[4];                                                                                               \
    UNROLL for (int j = 0; j < 4; j++) v[j] = LOAD(y[j] + p);                                                        \
    UNROLL for (int i = 0; i < R; i++)                                                                               \
    {                                                                                                                \
      bfloat16x8_t u = LOAD(x[i] + p);                                                                               \
      UNROLL for (int j = 0; j < 4; j++) sum[4 * i + j] = vbfdotq_f32(sum[4 * i + j], u, v[j]);                      \
    }                                                                                                                \
  }
#define REST(q) part(q, k - p)

/* A row or column that is too much repeats the first. */
void cni_pair_dots_bf16(float *c, const uint16_t *a, int64_t a_step, int rows, const uint16_t *b, int64_t b_step,
                        int cols, int64_t k)
{
  const uint16_t *x[4], *y[4];
  float32x4_t sum[16];
  int64_t p = 0;
  for (int i = 0; i < 4; i++) x[i] = a + (i < rows ? i * a_step : 0), y[i] = b + (i < cols ? i * b_step : 0);
  UNROLL for (int i = 0; i < 16; i++) sum[i] = vdupq_n_f32(0);
  if (rows == 1)
    for (; p + LANES <= k; p += LANES) STEP(1, whole)
  else
    for (; p + LANES <= k; p += LANES) STEP(4, whole)
  if (p < k) STEP(4, REST)
  UNROLL for (int i = 0; i < 16; i++) c[i] = vaddvq_f32(sum[i]);
}
