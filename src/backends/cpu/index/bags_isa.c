/* bags_isa.c: sums and maxima over bags of rows, compiled once per instruction set.
 *
 * Place in the flow: the leaves below bags.c. Invariant: the elements of a bag are taken in their order, whatever the
 * instruction set. */
#include "bags.h"

#include <math.h>

#include "backends/cpu/isa.h"
#include "base/convert.h"

enum { BLOCK = 64, AHEAD = 8, LINE = 64 }; /* columns summed in registers; elements fetched early; bytes */

static int64_t counted(const cni_bag *bag)
{
  int64_t n = 0;
  for (int64_t i = 0; i < bag->n; i++) n += bag->rows[i] != bag->skip;
  return n;
}

#define AS_IS(x) (x)
/* T: type of elements, W: the type of sums, GET and PUT from one to the other. */
#define TYPE(S, T, W, GET, PUT)                                                                                  \
  /* columns of y that fit into registers; where the compiler knows how many, it keeps them there */             \
  static inline void block_##S(T *y, const T *w, const cni_bag *bag, int64_t m, int columns, W count)            \
  {                                                                                                              \
    const W *f = bag->factors;                                                                                   \
    W sum[BLOCK] = {0};                                                                                          \
    for (int64_t i = 0; i < bag->n; i++) {                                                                       \
      if (bag->rows[i] == bag->skip) continue;                                                                   \
      const T *row = w + bag->rows[i] * m;                                                                       \
      for (int k = 0; i + AHEAD < bag->n && k < columns; k += (int)(LINE / sizeof(T)))                           \
        __builtin_prefetch(w + bag->rows[i + AHEAD] * m + k);                                                    \
      if (f) for (int k = 0; k < columns; k++) sum[k] += GET(row[k]) * f[i];                                     \
      else for (int k = 0; k < columns; k++) sum[k] += GET(row[k]);                                              \
    }                                                                                                            \
    for (int k = 0; k < columns; k++) y[k] = PUT(sum[k] / count);                                                \
  }                                                                                                              \
  static void sum_##S(void *y, const void *w, const cni_bag *bag, int64_t m, bool mean)                          \
  {                                                                                                              \
    const int64_t n = mean ? counted(bag) : 1;                                                                   \
    const W count = (W)(n ? n : 1);                                                                              \
    int64_t k = 0;                                                                                               \
    for (; k + BLOCK <= m; k += BLOCK) block_##S((T *)y + k, (const T *)w + k, bag, m, BLOCK, count);            \
    if (k < m) block_##S((T *)y + k, (const T *)w + k, bag, m, (int)(m - k), count);                             \
  }                                                                                                              \
  static inline void most_##S(T *y, int64_t *which, const T *w, const cni_bag *bag, int64_t m, int columns)      \
  {                                                                                                              \
    W best[BLOCK] = {0};                                                                                         \
    int32_t at[BLOCK];                                                                                           \
    for (int k = 0; k < columns; k++) at[k] = -1;                                                                \
    for (int64_t i = 0; i < bag->n; i++) {                                                                       \
      if (bag->rows[i] == bag->skip) continue;                                                                   \
      const T *row = w + bag->rows[i] * m;                                                                       \
      for (int k = 0; k < columns; k++) {                                                                        \
        const W v = GET(row[k]);                                                                                 \
        const bool take = (at[k] < 0) | (v > best[k]) | ((v != v) & (best[k] == best[k]));                       \
        best[k] = take ? v : best[k];                                                                            \
        at[k] = take ? (int32_t)i : at[k];                                                                       \
      }                                                                                                          \
    }                                                                                                            \
    for (int k = 0; k < columns; k++) y[k] = PUT(best[k]);                                                       \
    for (int k = 0; k < columns; k++) which[k] = at[k] < 0 ? -1 : bag->rows[at[k]];                              \
  }                                                                                                              \
  static void max_##S(void *y, int64_t *which, const void *w, const cni_bag *bag, int64_t m)                     \
  {                                                                                                              \
    int64_t k = 0;                                                                                               \
    for (; k + BLOCK <= m; k += BLOCK) most_##S((T *)y + k, which + k, (const T *)w + k, bag, m, BLOCK);         \
    if (k < m) most_##S((T *)y + k, which + k, (const T *)w + k, bag, m, (int)(m - k));                          \
  }
TYPE(f16, uint16_t, float, cni_f16_to_f32, cni_f32_to_f16)
TYPE(bf16, uint16_t, float, cni_bf16_to_f32, cni_f32_to_bf16)
TYPE(f32, float, float, AS_IS, AS_IS)
TYPE(f64, double, double, AS_IS, AS_IS)

#define SPREAD(S, T)                                                                                             \
  static void spread_##S(void *y, const void *g_, const cni_bag *bag, int64_t m, int64_t from, int64_t to,       \
                         bool mean)                                                                              \
  {                                                                                                              \
    const T *g = g_, *f = bag->factors;                                                                          \
    const T count = (T)(mean ? counted(bag) : 1);                                                                \
    for (int64_t i = 0; i < bag->n; i++) {                                                                       \
      if (bag->rows[i] == bag->skip) continue;                                                                   \
      T *row = (T *)y + bag->rows[i] * m;                                                                        \
      const T times = f ? f[i] : 1;                                                                              \
      for (int64_t k = from; k < to; k++) row[k] += g[k] * times / count;                                        \
    }                                                                                                            \
  }
SPREAD(f32, float)
SPREAD(f64, double)

const cni_bag_table CNI_ISA_NAME(cni_bag_table) = {{sum_f16, sum_bf16, sum_f32, sum_f64},
                                                   {max_f16, max_bf16, max_f32, max_f64},
                                                   {spread_f32, spread_f64}};
