/* dropout.h: the loops of dropout, one table per instruction set (dropout_isa.c).
 *
 * Place in the flow: dropout.c draws and walks, these compare and multiply. Invariant: an element depends on its own
 * draw alone. */
#ifndef CNI_CPU_DROPOUT_H
#define CNI_CPU_DROPOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

typedef struct cni_dropout_table {
  /* mask[i] = u[i] < keep */
  void (*below)(uint8_t *mask, const float *u, int64_t n, float keep);
  /* y = mask * scale * x */
  void (*masked_f32)(float *y, const float *x, const uint8_t *mask, int64_t n, float scale);
  void (*masked_f64)(double *y, const double *x, const uint8_t *mask, int64_t n, double scale);
  /* y[i] = u[i] < keep ? 1 : 0; y may be u */
  void (*kept_f32)(float *y, const float *u, int64_t n, float keep);
  void (*kept_f64)(double *y, const float *u, int64_t n, float keep);
} cni_dropout_table;

CNI_DECLARE_BY_ISA(cni_dropout_table, cni_dropout_table);

/* Of elements first .. first + n - 1 of a tensor: 1 where native_dropout with draws from this key and counter keeps
 * them with probability `keep`, 0 where it does not, as float64 or float32. */
void cni_dropout_choices(void *kept, bool f64, int64_t first, int64_t n, const uint64_t draws[2], double keep);

#endif
