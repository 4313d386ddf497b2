/* create.cu: tensors from a formula: ranges, the identity, triangles of a matrix, positions of what is not zero.
 *
 * T0 is the element type. Invariant: an element depends on its place and the arguments alone. */
#include "codegen/device.cuh"
#include "common.cuh"

struct range_job {
  T0 *y;
  i64 n, half, last; /* from half on, elements count from the end */
  f64 start, step, end;
  i64 istart, istep;
  i32 ints, unused;
};

KERNEL(range, range_job)
{
  EACH(i, p.n)
  {
    if (p.ints) p.y[i] = put<T0>(p.istart + i * p.istep);
    else p.y[i] = put<T0>(i < p.half ? p.start + p.step * (f64)i : p.end - p.step * (f64)(p.last - i));
  }
}

struct matrix_job {
  T0 *y;
  const T0 *x;
  i64 n, rows, cols, diagonal;
  i32 lower, unused;
};

KERNEL(eye, matrix_job)
{
  EACH(i, p.n) p.y[i] = put<T0>((i64)(i / p.cols == i % p.cols));
}

KERNEL(triangle, matrix_job)
{
  EACH(i, p.n)
  {
    const i64 column = i % p.cols, row = i / p.cols % p.rows;
    const bool keep = p.lower ? column - row <= p.diagonal : column - row >= p.diagonal;
    p.y[i] = keep ? p.x[i] : put<T0>(0);
  }
}

/* ---- nonzero: how many of each block's elements are not zero, then their positions ---- */
enum { DIMS = 16, ROUNDS = 16, TILE = THREADS * ROUNDS };

struct nonzero_job {
  const T0 *x;
  i64 *y, *counts; /* counts: per tile; then where each tile's positions begin, and behind them how many there are */
  i64 n, tiles;
  i32 ndim, unused;
  i64 shape[DIMS];
};

KERNEL(nonzero_count, nonzero_job)
{
  i64 count = 0;
  for (int k = 0; k < ROUNDS; k++) {
    const i64 i = (i64)blockIdx.x * TILE + (i64)k * THREADS + threadIdx.x;
    count += i < p.n && get(p.x[i]) != 0;
  }
  count = block_sum(count);
  if (threadIdx.x == 0) p.counts[blockIdx.x] = count;
}

/* One block. */
KERNEL(nonzero_places, nonzero_job)
{
  __shared__ i64 room[THREADS];
  i64 carry = 0;
  for (i64 tile = 0; tile < p.tiles; tile += THREADS) {
    const i64 i = tile + threadIdx.x, own = i < p.tiles ? p.counts[i] : 0;
    i64 sum = own;
    for (int m = 1; m < THREADS; m *= 2) {
      room[threadIdx.x] = sum;
      __syncthreads();
      if ((int)threadIdx.x >= m) sum += room[threadIdx.x - m];
      __syncthreads();
    }
    room[threadIdx.x] = sum;
    __syncthreads();
    if (i < p.tiles) p.counts[i] = carry + sum - own;
    carry += room[THREADS - 1];
    __syncthreads();
  }
  if (threadIdx.x == 0) p.counts[p.tiles] = carry;
}

KERNEL(nonzero_write, nonzero_job)
{
  __shared__ u32 votes_of[THREADS / 32];
  i64 base = p.counts[blockIdx.x];
  for (int k = 0; k < ROUNDS; k++) {
    i64 i = (i64)blockIdx.x * TILE + (i64)k * THREADS + threadIdx.x;
    const bool here = i < p.n && get(p.x[i]) != 0;
    const u32 votes = __ballot_sync(FULL, here);
    if (LANE == 0) votes_of[threadIdx.x >> 5] = __popc(votes);
    __syncthreads();
    i64 to = base + __popc(votes & ((1u << LANE) - 1));
    for (int w = 0; w < THREADS / 32; w++) {
      if (w < (int)(threadIdx.x >> 5)) to += votes_of[w];
      base += votes_of[w];
    }
    if (here)
      for (int d = p.ndim - 1; d >= 0; d--) {
        p.y[to * p.ndim + d] = i % p.shape[d];
        i /= p.shape[d];
      }
    __syncthreads();
  }
}
