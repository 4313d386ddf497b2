/* gemm.cu: matrix products where cuBLASLt is not there, or not for the type: integers, and every type of a machine with
 * the driver and NVRTC alone; and products so small that a launch takes longer than they do.
 *
 * T0 is the type of the operands' elements, T1 that of the result's. A block makes a tile of one matrix of the batch:
 * of 64 x 64, 16 of k at a time through shared memory, a thread has 4 x 4 of it; of a small product 16 x 16, one a
 * thread, with as much of k read at a time as most of them have. Invariant: each element is one chain over k. */
#include "codegen/device.cuh"
#include "common.cuh"

struct gemm_job {
  const T0 *a, *b;
  T1 *y;
  i64 m, n, k, batch;
  i64 a_row, a_col, a_step, b_row, b_col, b_step, y_row, y_col, y_step; /* in elements */
  const T0 *bias; /* (n), added to each row; or NULL. By gemm_small alone */
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

/* ---- small products ---- */

enum { TILE = 16, CHUNK = 64, V = 16 / sizeof(A), LINE = CHUNK / V + 1, EACH_OF = TILE * CHUNK / THREADS };
typedef pack<A, V> piece;

/* The place of the thread's i-th element: its line, a row of a or a column of b, and how deep it lies in k.
 * Threads side by side read neighbours. */
#define PLACE_OF(line, deep, along_k)                                            \
  const int at = (int)threadIdx.x + i * THREADS, line = along_k ? at / CHUNK : at % TILE, \
            deep = along_k ? at % CHUNK : at / TILE

FN void read_chunk(A *v, const T0 *x, i64 first, i64 lines, i64 apart, i64 k, i64 depth, i64 step)
{
#pragma unroll
  for (int i = 0; i < EACH_OF; i++) {
    PLACE_OF(line, deep, step == 1);
    v[i] = first + line < lines && k + deep < depth ? (A)get(x[(first + line) * apart + (k + deep) * step]) : (A)0;
  }
}

FN void keep_chunk(piece (*room)[LINE], const A *v, i64 step)
{
#pragma unroll
  for (int i = 0; i < EACH_OF; i++) {
    PLACE_OF(line, deep, step == 1);
    ((A *)room[line])[deep] = v[i];
  }
}

/* a chunk ahead: while one is multiplied, the next is on its way. */
KERNEL(gemm_small, gemm_job)
{
  __shared__ piece as[TILE][LINE], bs[TILE][LINE];
  const int r = (int)threadIdx.x / TILE, c = (int)threadIdx.x % TILE;
  const i64 tiles = (p.n + TILE - 1) / TILE, row = blockIdx.x / tiles * TILE, col = blockIdx.x % tiles * TILE;
  for (i64 z = blockIdx.y; z < p.batch; z += gridDim.y) {
    const T0 *const a = p.a + z * p.a_step, *const b = p.b + z * p.b_step;
    A sum = 0, next_a[EACH_OF], next_b[EACH_OF];
    read_chunk(next_a, a, row, p.m, p.a_row, 0, p.k, p.a_col);
    read_chunk(next_b, b, col, p.n, p.b_col, 0, p.k, p.b_row);
    for (i64 k = 0; k < p.k; k += CHUNK) {
      __syncthreads(); /* what was there has been read */
      keep_chunk(as, next_a, p.a_col);
      keep_chunk(bs, next_b, p.b_row);
      __syncthreads();
      read_chunk(next_a, a, row, p.m, p.a_row, k + CHUNK, p.k, p.a_col);
      read_chunk(next_b, b, col, p.n, p.b_col, k + CHUNK, p.k, p.b_row);
      const int pieces = k + CHUNK <= p.k ? CHUNK / V : (int)((p.k - k + V - 1) / V);
#pragma unroll 4
      for (int d = 0; d < pieces; d++) {
        const piece u = as[r][d], w = bs[c][d];
#pragma unroll
        for (int i = 0; i < V; i++) sum += u.v[i] * w.v[i];
      }
    }
    if (row + r >= p.m || col + c >= p.n) continue;
    if (p.bias) sum += (A)get(p.bias[col + c]);
    p.y[z * p.y_step + (row + r) * p.y_row + (col + c) * p.y_col] = put<T1>(sum);
  }
}
