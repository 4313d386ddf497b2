/* distance_isa.c: distances between rows and their slopes, compiled once per instruction set.
 *
 * Place in the flow: the leaves below distance.c. Invariant: sums run in LANES chains in the order of the elements,
 * whatever the instruction set; slopes are added up in double. */
#include "distance.h"

#include <math.h>

#include "backends/cpu/isa.h"

enum { LANES = 16 };

/* Reduces TERM(d) of all differences d into one number with REDUCE. */
#define ROW(NAME, T, TERM, REDUCE)                                                                                   \
  static inline T NAME(const T *x, const T *y, int64_t m)                                                            \
  {                                                                                                                  \
    T lane[LANES] = {0}, all = 0;                                                                                    \
    int64_t i = 0;                                                                                                   \
    for (; i + LANES <= m; i += LANES)                                                                               \
      for (int k = 0; k < LANES; k++) {                                                                              \
        T d = x[i + k] - y[i + k], t = TERM(T, d);                                                                   \
        lane[k] = REDUCE(lane[k], t);                                                                                \
      }                                                                                                              \
    for (int k = 0; i + k < m; k++) {                                                                                \
      T d = x[i + k] - y[i + k], t = TERM(T, d);                                                                     \
      lane[k] = REDUCE(lane[k], t);                                                                                  \
    }                                                                                                                \
    for (int k = 0; k < LANES; k++) all = REDUCE(all, lane[k]);                                                      \
    return all;                                                                                                      \
  }

#define SQUARE(T, d) ((d) * (d))
#define SIZE(T, d) ((d) < 0 ? -(d) : (d))
#define COUNT(T, d) ((T)((d) != 0))
#define PLUS(a, b) ((a) + (b))
#define MOST(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))

#define TYPE(S, T)                                                                                              \
  ROW(squares_##S, T, SQUARE, PLUS)                                                                             \
  ROW(sizes_##S, T, SIZE, PLUS)                                                                                 \
  ROW(count_##S, T, COUNT, PLUS)                                                                                \
  ROW(most_##S, T, SIZE, MOST)                                                                                  \
  static void distance_##S(void *y_, const void *x_, const void *rows_, int64_t count, int64_t m, double p)     \
  {                                                                                                             \
    T *y = y_;                                                                                                  \
    const T *x = x_, *row = rows_;                                                                              \
    for (int64_t r = 0; r < count; r++, row += m) {                                                             \
      if (p == 2) y[r] = (T)sqrt((double)squares_##S(x, row, m));                                               \
      else if (p == 1) y[r] = sizes_##S(x, row, m);                                                             \
      else if (p == 0) y[r] = count_##S(x, row, m);                                                             \
      else if (isinf(p)) y[r] = most_##S(x, row, m);                                                            \
      else {                                                                                                    \
        double sum = 0;                                                                                         \
        for (int64_t k = 0; k < m; k++) sum += pow(fabs((double)x[k] - (double)row[k]), p);                     \
        y[r] = (T)pow(sum, 1 / p);                                                                              \
      }                                                                                                         \
    }                                                                                                           \
  }                                                                                                             \
  static void slope_##S(double *y, const void *g_, int64_t g_step, const void *dist_, int64_t d_step,           \
                        const void *x_, const void *rows_, int64_t count, int64_t m, double p)                  \
  {                                                                                                             \
    const T *g = g_, *dist = dist_, *x = x_, *row = rows_;                                                      \
    for (int64_t r = 0; r < count; r++, row += m) {                                                             \
      double far = (double)dist[r * d_step], f = (double)g[r * g_step];                                         \
      if (p == 0 || (far == 0 && p != 1)) continue;                                                             \
      if (p == 2) {                                                                                             \
        f /= far;                                                                                               \
        for (int64_t k = 0; k < m; k++) y[k] += f * ((double)x[k] - (double)row[k]);                            \
      } else if (p == 1) {                                                                                      \
        for (int64_t k = 0; k < m; k++) y[k] += x[k] > row[k] ? f : x[k] < row[k] ? -f : 0;                     \
      } else if (isinf(p)) {                                                                                    \
        for (int64_t k = 0; k < m; k++) {                                                                       \
          T d = x[k] - row[k];                                                                                  \
          y[k] += d == dist[r * d_step] ? f : -d == dist[r * d_step] ? -f : 0;                                  \
        }                                                                                                       \
      } else {                                                                                                  \
        f *= pow(far, 1 - p);                                                                                   \
        for (int64_t k = 0; k < m; k++) {                                                                       \
          double d = (double)x[k] - (double)row[k];                                                             \
          if (d != 0) y[k] += d > 0 ? f * pow(d, p - 1) : -f * pow(-d, p - 1);                                  \
        }                                                                                                       \
      }                                                                                                         \
    }                                                                                                           \
  }

TYPE(f32, float)
TYPE(f64, double)

const cni_distance_table CNI_ISA_NAME(cni_distance_table) = {{distance_f32, distance_f64}, {slope_f32, slope_f64}};
