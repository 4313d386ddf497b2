/* grouped.cu: a product for each group (grouped.cuh), of elements of any float type and any strides.
 *
 * A block makes a tile of 64 x 64, 16 of k at a time through shared memory; a thread has 4 x 4 of it. Invariant: each
 * element is one chain over k. */
#include "codegen/device.cuh"
#include "common.cuh"
enum { ROWS = 64, COLS = 64, DEPTH = 16, OWN = 4 };
#include "grouped.cuh"

typedef wide_of<T0>::type A;

KERNEL(grouped, grouped_job)
{
  __shared__ A as[DEPTH][ROWS + 1], bs[DEPTH][COLS + 1];
  const int t = (int)threadIdx.x, tr = t / 16, tc = t % 16;
  tile x;
  check_ends(p);
  if (!find_tile(p, x)) return;
  A sum[OWN][OWN] = {};
  for (i64 k = x.depth.from; k < x.depth.to; k += DEPTH) {
    for (int i = t; i < ROWS * DEPTH; i += THREADS) {
      const i64 ar = x.row + i / DEPTH, ak = k + i % DEPTH, bk = k + i / COLS, bc = x.col + i % COLS;
      const T0 *a = p.a + x.group * p.a_step + ar * p.a_row + ak * p.a_col;
      const T0 *b = p.b + x.group * p.b_step + bk * p.b_row + bc * p.b_col;
      as[i % DEPTH][i / DEPTH] = is_in(x.rows, ar) && ak < x.depth.to ? (A)get(*a) : (A)0;
      bs[i / COLS][i % COLS] = is_in(x.cols, bc) && bk < x.depth.to ? (A)get(*b) : (A)0;
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
      const i64 r = x.row + tr * OWN + i, c = x.col + tc * OWN + j;
      if (is_in(x.rows, r) && is_in(x.cols, c)) p.y[place_in_result(p, x, r, c)] = put<T1>(sum[i][j]);
    }
}
