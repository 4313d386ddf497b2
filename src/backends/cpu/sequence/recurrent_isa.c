/* recurrent_isa.c: see recurrent.h. The loops are written once, in recurrent_loops.inc, for float and double; this
 * file is compiled once per instruction set.
 *
 * Invariant: what is left of a row after whole vectors goes through the same vector code, padded. */
#include "recurrent.h"

#include <string.h>

#include "backends/cpu/isa.h"
#include "base/maths.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if CNI_FOR_AVX512
#define VECTOR_BYTES 64
#else
#define VECTOR_BYTES 32
#endif

/* ---- gates in float32: shorter than the maths functions, which are right to the last subnormal ---- */

/* e^x = scale (1 + p) for x in [-87, 0]; returns p, an e^r - 1. */
ALWAYS_INLINE float exp_parts(float x, float *scale)
{
  float t = CNM_MADF(x, 1.44269504f, CNM_MAGICF), n = t - CNM_MAGICF;
  float r = CNM_MADF(n, -1.4286068e-06f, CNM_MADF(n, -0.69314575f, x));
  float q = cnm_h4f(0.0013841204f, r, 0.008369371f, 0.041668084f, 0.16666515f, 0.49999994f);
  *scale = cnm_u2f((cnm_f2u(t) << 23) + 0x3f800000u); /* t ends in n */
  return CNM_MADF(r * r, q, r);
}

/* Error 2.4 ulp; not below e^-87. */
ALWAYS_INLINE float gate_sigmoid(float x)
{
  float a = CNM_ABSF(x), s, p = exp_parts(a > 87.0f ? -87.0f : -a, &s), e = CNM_MADF(s, p, s);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* (1 - e) / (1 + e) with e = e^-2|x|. Error 2.5 ulp. */
ALWAYS_INLINE float gate_tanh(float x)
{
  float a = CNM_ABSF(x), s, p = exp_parts(a > 10.0f ? -20.0f : -2.0f * a, &s), less = CNM_MADF(s, p, s - 1.0f);
  return CNM_SIGNF(less / (less + 2.0f), x);
}

#define T float
#define NAME(f) f##_f32
#define TANH gate_tanh
#define SIGMOID gate_sigmoid
#include "recurrent_loops.inc"
#undef T
#undef NAME
#undef TANH
#undef SIGMOID

#define T double
#define NAME(f) f##_f64
#define TANH cnm_tanh
#define SIGMOID cnm_sigmoid
#include "recurrent_loops.inc"

/* In the order of cni_recurrent. */
#define TABLE(S)                                                                                             \
  {                                                                                                          \
    {rnn_tanh_##S, rnn_relu_##S, lstm_##S, gru_##S},                                                         \
        {rnn_tanh_grad_##S, rnn_relu_grad_##S, lstm_grad_##S, gru_grad_##S}, put_##S                         \
  }

const cni_recurrent_loops CNI_ISA_NAME(cni_recurrent_loops)[2] = {TABLE(f32), TABLE(f64)};
