/* linalg.h: checks that the linear algebra families share.
 *
 * Invariant: each reports an error as "op: message" and returns its code, or 0. */
#ifndef CNI_OPS_LINALG_H
#define CNI_OPS_LINALG_H

#include "shorthand.h"

/* Input i is float32 or float64. */
int cni_check_float(const cn_call *c, int i);
/* ... and a matrix or a batch of them */
int cni_check_matrix(const cn_call *c, int i);
/* ... and square */
int cni_check_square(const cn_call *c, int i);
/* Result i: the last two dims of input 0 replaced by (rows, cols), or by one of them (the other negative), or by
 * none. */
int cni_matrix_result(cn_call *c, int i, int dtype, int64_t rows, int64_t cols);

static inline int64_t cni_rows(const cn_desc *d) { return d->shape[d->ndim - 2]; }
static inline int64_t cni_cols(const cn_desc *d) { return d->shape[d->ndim - 1]; }

#endif
