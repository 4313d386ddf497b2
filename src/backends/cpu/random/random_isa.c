/* random_isa.c: the loops that draw random numbers, compiled once per instruction set.
 *
 * Place in the flow: random.c calls them for ranges of elements. Invariant: element i depends on (seed,
 * offset, i) alone; see base/philox.h. */
#include "backends/cpu/isa.h"
#include "base/philox.h"
#include "random.h"

/* T and the compute type are the same: philox.h has the loop. */
#define DIRECT(name, T)                                                                              \
  static void name(void *out, int64_t first, int64_t n, uint64_t seed, uint64_t offset, int bits)    \
  {                                                                                                  \
    (void)bits;                                                                                      \
    cni_random_##name((T *)out, first, n, seed, offset);                                             \
  }
DIRECT(u64, uint64_t)
DIRECT(unit_f64, double)
DIRECT(normal_f32, float)
DIRECT(normal_f64, double)

/* Uniform floats with as many bits as the result's type holds exactly, so that rounding never makes a 1. */
static void unit_f32(void *out, int64_t first, int64_t n, uint64_t seed, uint64_t offset, int bits)
{
  float *y = out;
  uint32_t words[CNI_DRAWS_32];
  if (bits == 24) {
    cni_random_unit_f32(y, first, n, seed, offset);
    return;
  }
  for (int64_t done = 0; done < n; done += CNI_DRAWS_32) {
    int64_t m = n - done < CNI_DRAWS_32 ? n - done : CNI_DRAWS_32;
    cni_random_u32(words, first + done, m, seed, offset);
    for (int64_t k = 0; k < m; k++) y[done + k] = cni_unit_f32(words[k], bits);
  }
}

/* u[k] becomes 1 with probability p[k]; false when a probability lies outside 0 to 1. */
#define TRIALS(name, T)                                  \
  static bool name(void *draws, const void *ps, int64_t n) \
  {                                                      \
    T *u = draws;                                        \
    const T *p = ps;                                     \
    int outside = 0;                                     \
    for (int64_t k = 0; k < n; k++) {                    \
      outside |= !(p[k] >= 0) | !(p[k] <= 1);            \
      u[k] = u[k] < p[k] ? (T)1 : (T)0;                  \
    }                                                    \
    return !outside;                                     \
  }
TRIALS(trials_f32, float)
TRIALS(trials_f64, double)

const cni_random_table CNI_ISA_NAME(cni_random_table) = {unit_f32, unit_f64,   normal_f32, normal_f64,
                                                         u64,      trials_f32, trials_f64};
