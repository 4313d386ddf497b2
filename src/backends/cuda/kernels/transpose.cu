/* transpose.cu: copies between memory orders, where neighbours in the result are far apart in the source.
 *
 * T0 is the type of the source, T1 that of the result. A block moves tiles of 64 x 64 through shared memory: it reads
 * along `cols`, whose elements are neighbours in x, and writes along `rows`, whose elements are neighbours in y, N of
 * them at a time. Invariant: both sides are accessed in runs. */
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
  enum { RUNS = SIDE / N }; /* of a line */
  __shared__ T1 tile[SIDE][SIDE + PAD];
  const i64 across = (p.cols + SIDE - 1) / SIDE, row = blockIdx.x / across * SIDE, col = blockIdx.x % across * SIDE;
  for (i64 b = blockIdx.y; b < p.batch; b += gridDim.y) {
    const T0 *x = p.x + offset_of(b, p.nbatch, p.shape, p.xstride);
    T1 *y = p.y + offset_of(b, p.nbatch, p.shape, p.ystride);
#pragma unroll 4
    for (int t = threadIdx.x; t < SIDE * RUNS; t += THREADS) {
      const int r = t / RUNS, c = t % RUNS * N;
      if (row + r >= p.rows || col + c >= p.cols) continue;
      const pack<T0, N> e = *(const pack<T0, N> *)(x + (row + r) * p.x_row + col + c);
#pragma unroll
      for (int k = 0; k < N; k++) tile[r][c + k] = convert(e.v[k]);
    }
    __syncthreads();
#pragma unroll 4
    for (int t = threadIdx.x; t < SIDE * RUNS; t += THREADS) {
      const int c = t / RUNS, r = t % RUNS * N;
      if (row + r >= p.rows || col + c >= p.cols) continue;
      pack<T1, N> e;
#pragma unroll
      for (int k = 0; k < N; k++) e.v[k] = tile[r + k][c];
      *(pack<T1, N> *)(y + (col + c) * p.y_col + row + r) = e;
    }
    __syncthreads();
  }
}
