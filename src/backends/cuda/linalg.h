/* linalg.h: what the files of linear algebra show each other: a call's batch of matrices, and memory that they are
 * brought to.
 *
 * Place in the flow: factor.c and spectrum.c run plain kernels on float64 copies; solver.c, where cuSOLVER is there,
 * takes large matrices in their own type. Invariant: matrices of a batch lie behind each other in memory of ours, in
 * the order of the result's batch. */
#ifndef CNI_CUDA_LINALG_H
#define CNI_CUDA_LINALG_H

#include "plugin.h"

typedef struct cni_cuda_batch {
  cn_call *c;
  cni_cuda_device *d;
  const char *name;
  int ndim; /* dims of the batch */
  int64_t shape[CN_MAX_DIMS], count;
  char *memory; /* of ours */
  size_t bytes;
} cni_cuda_batch;

/* The batch is what comes before the last `core` dims of a tensor, usually a result. NULL device: the error is set. */
cni_cuda_batch cni_cuda_batch_of(cn_call *c, const cn_desc *tensor, int core);
/* Adds a part to memory that is to be taken; returns where it begins. */
size_t cni_cuda_part(cni_cuda_batch *b, size_t bytes);
static inline size_t cni_cuda_doubles(cni_cuda_batch *b, int64_t of_each)
{
  return cni_cuda_part(b, (size_t)(b->count * of_each) * sizeof(double));
}
static inline size_t cni_cuda_ints(cni_cuda_batch *b, int64_t of_each)
{
  return cni_cuda_part(b, (size_t)(b->count * of_each) * sizeof(int32_t));
}
int cni_cuda_batch_begin(cni_cuda_batch *b); /* takes the memory */
int cni_cuda_batch_end(cni_cuda_batch *b, int status);

/* Matrices in memory of ours: (rows, cols), neighbours `row` and `col` apart, matrices `step`. */
typedef struct cni_cuda_matrices {
  void *data;
  int dtype;
  int64_t rows, cols, row, col, step;
} cni_cuda_matrices;
static inline cni_cuda_matrices cni_cuda_row_major(void *data, int dtype, int64_t rows, int64_t cols)
{
  return (cni_cuda_matrices){data, dtype, rows, cols, cols, 1, rows * cols};
}
static inline cni_cuda_matrices cni_cuda_column_major(void *data, int dtype, int64_t rows, int64_t cols)
{
  return (cni_cuda_matrices){data, dtype, rows, cols, 1, rows, rows * cols};
}
/* Copies, with a cast, between them and the last `core` dims of a tensor (2: a matrix, 1: a column, 0: a number), whose
 * batch is broadcast. transposed: the tensor's matrices are. */
int cni_cuda_bring(const cni_cuda_batch *b, cni_cuda_matrices to, const cn_desc *from, int core, bool transposed);
int cni_cuda_send(const cni_cuda_batch *b, const cn_desc *to, int core, bool transposed, cni_cuda_matrices from);

/* Threads of a block for a matrix of so many elements. */
static inline int cni_cuda_matrix_threads(int64_t elements)
{
  return elements <= 256 ? 32 : elements <= 4096 ? 128 : 256;
}

#endif
