/* rows.h: how kernels that keep rows (kernels/rows.cuh) are launched. */
#ifndef CNI_CUDA_ROWS_H
#define CNI_CUDA_ROWS_H

#include "plugin.h"

typedef struct cni_cuda_rows {
  int packs; /* N of kernels/rows.cuh */
  int form;  /* bits of FORM there: how rows lie among packs, lanes, rows asked for ahead */
  cni_cuda_grid grid;
} cni_cuda_rows;

enum { CNI_ROWS_EVEN = 1, CNI_ROWS_APART = 128 }; /* of form */

/* For `rows` rows of n elements of the types `from` (`inputs` of them are kept) and `to`: a group of threads for each
 * row, where a thread of a block has at most `most` packs of each input. pointers: the first elements of every operand,
 * NULL where there is none. */
cni_cuda_rows cni_cuda_rows_plan(int64_t rows, int64_t n, int from, int to, int inputs, int most,
                                 const void *const *pointers, int npointers);
/* Few groups that take rows in turn and ask for the next ones ahead: as many as a multiprocessor runs at once, which
 * is `resident` threads, as the kernel's bounds have it. bytes: of a row of all inputs; place: of a pack. */
void cni_cuda_rows_ahead(cni_cuda_rows *r, const cni_cuda_device *d, int inputs, int64_t bytes, int place,
                         int resident);
/* Packs that the threads of a group keep of a row. */
int64_t cni_cuda_rows_packs(const cni_cuda_rows *r);
/* Takes so many bytes of shared memory more in each block, behind what it has; of blocks that take rows in turn there
 * are fewer then. False: there is no room. */
bool cni_cuda_rows_beside(cni_cuda_rows *r, const cni_cuda_device *d, int64_t bytes);

#endif
