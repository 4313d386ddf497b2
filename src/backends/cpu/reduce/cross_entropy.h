/* cross_entropy.h: the loops over one row of class scores, one table per instruction set (cross_entropy_isa.c).
 *
 * Invariant: sums run over a fixed number of lanes, so a result depends on the values alone, not on vector widths. */
#ifndef CNI_CPU_CROSS_ENTROPY_H
#define CNI_CPU_CROSS_ENTROPY_H

#include <stdint.h>

#include "backends/cpu/isa.h"

enum { CNI_CROSS_ENTROPY_SHORT = 32, CNI_CROSS_ENTROPY_ROWS = 32 };

typedef struct cni_cross_entropy_table {
  float (*lse_f32)(const float *x, int64_t n); /* log of the sum of exp(x); x: (n), n at least 1 */
  double (*lse_f64)(const double *x, int64_t n);
  /* The same for short rows, n at most CNI_CROSS_ENTROPY_SHORT, of which `rows` (at most CNI_CROSS_ENTROPY_ROWS) lie
   * `stride` apart. */
  void (*lses_f32)(float *lse, const float *x, int64_t stride, int64_t rows, int64_t n);
  void (*lses_f64)(double *lse, const double *x, int64_t stride, int64_t rows, int64_t n);
  /* y = scale * exp(x - lse); y may not overlap x */
  void (*softmax_f32)(float *y, const float *x, int64_t n, float lse, float scale);
  void (*softmax_f64)(double *y, const double *x, int64_t n, double lse, double scale);
  /* The same for short rows: y is packed, those of x lie `stride` apart; lse and scale per row. */
  void (*softmaxes_f32)(float *y, const float *x, int64_t stride, int64_t rows, int64_t n, const float *lse,
                        const float *scale);
  void (*softmaxes_f64)(double *y, const double *x, int64_t stride, int64_t rows, int64_t n, const double *lse,
                        const double *scale);
} cni_cross_entropy_table;

CNI_DECLARE_BY_ISA(cni_cross_entropy_table, cni_cross_entropy_table);

#endif
