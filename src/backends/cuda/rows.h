/* rows.h: how kernels that keep rows (kernels/rows.cuh) are launched. */
#ifndef CNI_CUDA_ROWS_H
#define CNI_CUDA_ROWS_H

#include "plugin.h"

typedef struct cni_cuda_rows {
  int packs; /* N of kernels/rows.cuh */
  bool aligned; /* the operands begin with whole packs */
  bool even;    /* ... and so does every row */
  cni_cuda_grid grid;
} cni_cuda_rows;

/* For `rows` rows of n elements of the types `from` (`inputs` of them are kept) and `to`. pointers: the first elements
 * of every operand, NULL where there is none. */
cni_cuda_rows cni_cuda_rows_plan(const cni_cuda_device *d, int64_t rows, int64_t n, int from, int to, int inputs,
                                 const void *const *pointers, int npointers);

#endif
