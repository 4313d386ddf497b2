/* transpose.cu: copies between memory orders, where neighbours in the result are far apart in the source.
 *
 * T0 is the type of the source, T1 that of the result. A block moves tiles of 64 x 64 through shared memory: it reads
 * along `cols`, whose elements are neighbours in x, and writes along `rows`, whose elements are neighbours in y.
 * Invariant: both sides are accessed in runs. */
#include "codegen/device.cuh"
#include "common.cuh"

enum { DIMS = 16, SIDE = 64, PAD = sizeof(T1) < 4 ? 4 / sizeof(T1) : 1 };

struct transpose_job {
  const T0 *x;
  T1 *y;
  i64 rows, cols, x_row, y_col, batch; /* strides in elements: of rows in x, of cols in y */
  i32 nbatch, unused;
  i64 shape[DIMS], xstride[DIMS], ystride[DIMS];
};

FN T1 convert(T0 v) { return put<T1>(get(v)); }

KERNEL(transpose, transpose_job)
{
  __shared__ T1 tile[SIDE][SIDE + PAD];
  const i64 across = (p.cols + SIDE - 1) / SIDE, row = blockIdx.x / across * SIDE, col = blockIdx.x % across * SIDE;
  const int warp = (int)threadIdx.x >> 5;
  for (i64 b = blockIdx.y; b < p.batch; b += gridDim.y) {
    const T0 *x = p.x + offset_of(b, p.nbatch, p.shape, p.xstride);
    T1 *y = p.y + offset_of(b, p.nbatch, p.shape, p.ystride);
#pragma unroll
    for (int r = warp; r < SIDE; r += THREADS / 32)
#pragma unroll
      for (int c = LANE; c < SIDE; c += 32)
        if (row + r < p.rows && col + c < p.cols) tile[r][c] = convert(x[(row + r) * p.x_row + col + c]);
    __syncthreads();
#pragma unroll
    for (int c = warp; c < SIDE; c += THREADS / 32)
#pragma unroll
      for (int r = LANE; r < SIDE; r += 32)
        if (row + r < p.rows && col + c < p.cols) y[(col + c) * p.y_col + row + r] = tile[r][c];
    __syncthreads();
  }
}
