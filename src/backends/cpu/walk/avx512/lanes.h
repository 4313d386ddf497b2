/* lanes.h: which lanes of an AVX-512 vector a loop's last step may touch.
 *
 * Place in the flow: included by kernels for AVX-512. Invariant: counts beyond a vector mean all lanes, counts below
 * one mean none. */
#ifndef CNI_CPU_LANES_H
#define CNI_CPU_LANES_H

#include <immintrin.h>
#include <stdint.h>

/* The first n of 16. */
static inline __mmask16 cni_first_lanes(int64_t n)
{
  return (__mmask16)(n >= 16 ? 0xffffu : n > 0 ? (1u << n) - 1u : 0u);
}

#endif
