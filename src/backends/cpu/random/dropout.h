/* dropout.h: the loops of dropout, one table per instruction set (dropout_isa.c).
 *
 * Place in the flow: dropout.c draws and walks, these compare and multiply. Invariant: an element depends on its own
 * draw alone. */
#ifndef CNI_CPU_DROPOUT_H
#define CNI_CPU_DROPOUT_H

#include <stdint.h>

#include "backends/cpu/isa.h"

typedef struct cni_dropout_table {
  /* mask[i] = u[i] < keep */
  void (*below)(uint8_t *mask, const float *u, int64_t n, float keep);
  /* y = mask * scale * x */
  void (*masked_f32)(float *y, const float *x, const uint8_t *mask, int64_t n, float scale);
  void (*masked_f64)(double *y, const double *x, const uint8_t *mask, int64_t n, double scale);
} cni_dropout_table;

CNI_DECLARE_BY_ISA(cni_dropout_table, cni_dropout_table);

#endif
