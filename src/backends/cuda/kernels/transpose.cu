/* transpose.cu: copies between memory orders, where neighbours in the result are far apart in the source.
 *
 * T0 is the type of the source, T1 that of the result. A block moves tiles of 64 x 64 through shared memory: it reads
 * along `cols`, whose elements are neighbours in x, N % 16 of them at a time, and writes along `rows`, whose elements
 * are neighbours in y, N / 16 at a time. Invariant: both sides are accessed in runs. */
#include "codegen/device.cuh"
#include "common.cuh"

enum { DIMS = 16, SIDE = 64, PAD = sizeof(T1) < 4 ? 4 / sizeof(T1) : 1, READ = N % 16, WRITE = N / 16 };

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
  enum { READS = SIDE / READ, WRITES = SIDE / WRITE, TURNS = SIDE * READS / THREADS }; /* runs of a line; of a thread */
  enum { AT_ONCE = TURNS < 4 ? TURNS : 4 };
  __shared__ T1 tile[SIDE][SIDE + PAD];
  const i64 across = (p.cols + SIDE - 1) / SIDE, row = blockIdx.x / across * SIDE, col = blockIdx.x % across * SIDE;
  for (i64 b = blockIdx.y; b < p.batch; b += gridDim.y) {
    const T0 *x = p.x + offset_of(b, p.nbatch, p.shape, p.xstride);
    T1 *y = p.y + offset_of(b, p.nbatch, p.shape, p.ystride);
#pragma unroll 1
    for (int first = threadIdx.x; first < SIDE * READS; first += AT_ONCE * THREADS) {
      pack<T0, READ> e[AT_ONCE]; /* all are on their way before the first is stored */
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) {
        const int t = first + k * THREADS, r = t / READS, c = t % READS * READ;
        if (row + r < p.rows && col + c < p.cols) e[k] = *(const pack<T0, READ> *)(x + (row + r) * p.x_row + col + c);
      }
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) {
        const int t = first + k * THREADS, r = t / READS, c = t % READS * READ;
#pragma unroll
        for (int n = 0; n < READ; n++) tile[r][c + n] = convert(e[k].v[n]);
      }
    }
    __syncthreads();
#pragma unroll 4
    for (int t = threadIdx.x; t < SIDE * WRITES; t += THREADS) {
      const int c = t / WRITES, r = t % WRITES * WRITE;
      if (row + r >= p.rows || col + c >= p.cols) continue;
      pack<T1, WRITE> o;
#pragma unroll
      for (int n = 0; n < WRITE; n++) o.v[n] = tile[r + n][c];
      *(pack<T1, WRITE> *)(y + (col + c) * p.y_col + row + r) = o;
    }
    __syncthreads();
  }
}
