/* matrix.cuh: what kernels of linear algebra share: the threads of a block work on one matrix, dense float64 numbers.
 *
 * Invariants: all threads of a block call these functions, and what one has written is seen by all of them when it
 * returns. The algorithms, and the signs they leave, are those of the CPU's plain C (backends/cpu/linalg). */

#define EACH_THREAD(i, n) for (i64 i = threadIdx.x; i < (n); i += blockDim.x)
#define EACH_WARP(i, from, to) for (i64 i = (from) + (threadIdx.x >> 5); i < (to); i += blockDim.x >> 5)
#define EACH_LANE(k, from, to) for (i64 k = (from) + LANE; k < (to); k += 32)
#define EPSILON 2.220446049250313e-16
#define SMALLEST 2.2250738585072014e-308

/* ---- LU with row exchanges; a: (m, n), row-major ---- */

/* The row from i on whose element of column i is the largest, the first of those. */
FN i64 pivot_row(const f64 *a, i64 m, i64 n, i64 i)
{
  f64 best = -1;
  i64 at = i;
  for (i64 r = i + threadIdx.x; r < m; r += blockDim.x) {
    const f64 size = fabs(a[r * n + i]);
    if (size > best) best = size, at = r;
  }
  const f64 most = block_max(best);
  return -block_max(best == most ? -at : -m);
}

/* L (ones on its diagonal) and U take a's place; pivots, from 1. The first column with a zero pivot, from 1, or 0. */
FN i64 factor_lu(f64 *a, i64 m, i64 n, i32 *pivots)
{
  i64 failed = 0;
  const i64 steps = m < n ? m : n;
  for (i64 i = 0; i < steps; i++) {
    const i64 best = pivot_row(a, m, n, i);
    if (threadIdx.x == 0) pivots[i] = (i32)best + 1;
    if (best != i) {
      EACH_THREAD(k, n)
      {
        const f64 t = a[i * n + k];
        a[i * n + k] = a[best * n + k];
        a[best * n + k] = t;
      }
    }
    __syncthreads();
    const f64 pivot = a[i * n + i];
    if (pivot == 0) {
      if (!failed) failed = i + 1;
      continue;
    }
    EACH_THREAD(r, m - i - 1) a[(i + 1 + r) * n + i] /= pivot;
    __syncthreads();
    EACH_WARP(r, i + 1, m)
    {
      const f64 f = a[r * n + i];
      EACH_LANE(k, i + 1, n) a[r * n + k] -= f * a[i * n + k];
    }
    __syncthreads();
  }
  return failed;
}

/* ---- solving; b: columns [from, to) of (n, k), row-major ---- */

FN void exchange_rows(f64 *b, const i32 *pivots, i64 n, i64 k, i64 from, i64 to)
{
  EACH_THREAD(t, to - from)
  {
    f64 *const x = b + from + t;
    for (i64 i = 0; i < n; i++) {
      const i64 other = pivots[i] - 1;
      const f64 v = x[i * k];
      x[i * k] = x[other * k];
      x[other * k] = v;
    }
  }
  __syncthreads();
}

/* b becomes the solution with one triangle of a, whose neighbours are `row` and `col` apart. A row that is known is
 * taken out of all others at once. */
FN void substitute(const f64 *a, i64 row, i64 col, bool upper, bool unit, f64 *b, i64 n, i64 k, i64 from, i64 to)
{
  u32 across = 32; /* threads along a row of b */
  while (across > 1 && across / 2 >= to - from) across /= 2;
  const i64 mine = from + threadIdx.x % across, group = threadIdx.x / across, groups = blockDim.x / across;
  for (i64 s = 0; s < n; s++) {
    const i64 i = upper ? n - 1 - s : s, first = upper ? 0 : i + 1, last = upper ? i : n;
    if (!unit) {
      const f64 diagonal = a[i * row + i * col];
      EACH_THREAD(t, to - from) b[i * k + from + t] /= diagonal;
      __syncthreads();
    }
    for (i64 r = first + group; r < last; r += groups) {
      const f64 f = a[r * row + i * col];
      for (i64 t = mine; t < to; t += across) b[r * k + t] -= f * b[i * k + t];
    }
    __syncthreads();
  }
}
