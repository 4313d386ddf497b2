/* dropout_isa.c: see dropout.h; compiled once per instruction set. */
#include "dropout.h"

#include "backends/cpu/isa.h"

static void below(uint8_t *mask, const float *u, int64_t n, float keep)
{
  for (int64_t i = 0; i < n; i++) mask[i] = u[i] < keep;
}

#define MASKED(S, T)                                                                                                 \
  static void masked_##S(T *y, const T *x, const uint8_t *mask, int64_t n, T scale)                                  \
  {                                                                                                                  \
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * ((T)mask[i] * scale);                                              \
  }
MASKED(f32, float)
MASKED(f64, double)

#define KEPT(S, T)                                                                                                   \
  static void kept_##S(T *y, const float *u, int64_t n, float keep)                                                  \
  {                                                                                                                  \
    for (int64_t i = 0; i < n; i++) y[i] = u[i] < keep ? (T)1 : (T)0;                                                \
  }
KEPT(f32, float)
KEPT(f64, double)

const cni_dropout_table CNI_ISA_NAME(cni_dropout_table) = {below, masked_f32, masked_f64, kept_f32, kept_f64};
