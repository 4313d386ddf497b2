/* gemm.cu: matrix products where cuBLASLt is not there, or not for the type: integers, and every type of a machine with
 * the driver and NVRTC alone.
 *
 * T0 is the type of the operands' elements, T1 that of the result's. A block makes a tile of 64 x 64 of one matrix of
 * the batch, 16 of k at a time through shared memory; a thread has 4 x 4 of it. Invariant: each element is one chain
 * over k. */
#include "codegen/device.cuh"
#include "common.cuh"

struct gemm_job {
  const T0 *a, *b;
  T1 *y;
  i64 m, n, k, batch;
  i64 a_row, a_col, a_step, b_row, b_col, b_step, y_row, y_col, y_step; /* in elements */
};

typedef wide_of<T0>::type A;
enum { SIDE = 64, DEPTH = 16, OWN = 4 };

KERNEL(gemm, gemm_job)
{
  __shared__ A as[DEPTH][SIDE + 1], bs[DEPTH][SIDE + 1];
  const int t = (int)threadIdx.x, tr = t / 16, tc = t % 16;
  const i64 tiles = (p.n + SIDE - 1) / SIDE, row = blockIdx.x / tiles * SIDE, col = blockIdx.x % tiles * SIDE;
  for (i64 z = blockIdx.y; z < p.batch; z += gridDim.y) {
    A sum[OWN][OWN] = {};
    for (i64 k = 0; k < p.k; k += DEPTH) {
      for (int i = t; i < SIDE * DEPTH; i += THREADS) {
        const i64 ar = row + i / DEPTH, ak = k + i % DEPTH, bk = k + i / SIDE, bc = col + i % SIDE;
        const T0 *a = p.a + z * p.a_step + ar * p.a_row + ak * p.a_col;
        const T0 *b = p.b + z * p.b_step + bk * p.b_row + bc * p.b_col;
        as[i % DEPTH][i / DEPTH] = ar < p.m && ak < p.k ? (A)get(*a) : (A)0;
        bs[i / SIDE][i % SIDE] = bk < p.k && bc < p.n ? (A)get(*b) : (A)0;
      }
      __syncthreads();
#pragma unroll
      for (int d = 0; d < DEPTH; d++)
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
          for (int j = 0; j < OWN; j++) sum[i][j] += as[d][tr * OWN + i] * bs[d][tc * OWN + j];
      __syncthreads();
    }
    for (int i = 0; i < OWN; i++)
      for (int j = 0; j < OWN; j++) {
        const i64 r = row + tr * OWN + i, c = col + tc * OWN + j;
        if (r < p.m && c < p.n) p.y[z * p.y_step + r * p.y_row + c * p.y_col] = put<T1>(sum[i][j]);
      }
  }
}
