/* sparse.h: the loops of sparse matrix products, one table per instruction set (sparse_isa.c). */
#ifndef CNI_CPU_SPARSE_H
#define CNI_CPU_SPARSE_H

#include <stdint.h>

#include "backends/cpu/isa.h"

/* y (m) = the sum of n rows of w (., m), numbered by cols, each times its factor. */
typedef void (*cni_sparse_row_fn)(void *y, const void *w, const int64_t *cols, const void *factors, int64_t n,
                                  int64_t m);
/* The dot product of two runs of k. */
typedef void (*cni_sparse_dot_fn)(void *y, const void *a, const void *b, int64_t k);

/* By element type; sums, and the factors, are float32 for 16-bit floats. */
enum { CNI_SPARSE_F16, CNI_SPARSE_BF16, CNI_SPARSE_F32, CNI_SPARSE_F64, CNI_SPARSE_TYPES };
typedef struct cni_sparse_table {
  cni_sparse_row_fn row[CNI_SPARSE_TYPES];
  cni_sparse_dot_fn dot[CNI_SPARSE_TYPES];
} cni_sparse_table;

CNI_DECLARE_BY_ISA(cni_sparse_table, cni_sparse_table);

#endif
