/* factor.cu: LU and Cholesky decompositions of batches of matrices, determinants, and solving with triangles: a block
 * for each matrix, and for each part of the right-hand sides.
 *
 * Everything is dense float64 (linalg.c brings tensors there and back). Invariant: a matrix that cannot be decomposed
 * is named in `info`, and where `raises` is set reported as a fault; its solutions are NaN. */
#include "codegen/device.cuh"
#include "common.cuh"
#include "matrix.cuh"

struct factor_job {
  f64 *a;      /* (count, m, n) */
  i32 *pivots; /* (count, min(m, n)), from 1 */
  i32 *info;   /* (count): where it failed, from 1, or 0 */
  f64 *det;    /* (count); NULL: not wanted */
  i64 count, m, n;
  i32 raises;  /* the kind of fault that a failure is; 0: none */
  i32 unused;
  fault_slot fault;
};

FN void tell(const factor_job &p, i64 matrix, i64 failed)
{
  if (threadIdx.x != 0) return;
  p.info[matrix] = (i32)failed;
  if (failed && p.raises) report_fault(p.fault, p.raises, failed, p.count > 1 ? matrix : -1);
}

KERNEL(lu, factor_job)
{
  const i64 matrix = blockIdx.x, steps = p.m < p.n ? p.m : p.n;
  f64 *const a = p.a + matrix * p.m * p.n;
  i32 *const pivots = p.pivots + matrix * steps;
  tell(p, matrix, factor_lu(a, p.m, p.n, pivots));
  if (!p.det || threadIdx.x != 0) return;
  f64 product = 1;
  for (i64 i = 0; i < steps; i++) product *= pivots[i] == i + 1 ? a[i * p.n + i] : -a[i * p.n + i];
  p.det[matrix] = product;
}

/* Of the lower triangle of a (n, n); the other becomes zeros. */
FN i64 factor_cholesky(f64 *a, i64 n)
{
  for (i64 i = 0; i < n; i++) {
    const f64 square = a[i * n + i];
    if (!(square > 0)) return i + 1;
    const f64 root = sqrt(square);
    __syncthreads(); /* all have read it */
    EACH_THREAD(r, n - i) a[(i + r) * n + i] = r ? a[(i + r) * n + i] / root : root;
    __syncthreads();
    EACH_WARP(r, i + 1, n)
    {
      const f64 f = a[r * n + i];
      EACH_LANE(k, i + 1, r + 1) a[r * n + k] -= f * a[k * n + i];
    }
    __syncthreads();
  }
  return 0;
}

KERNEL(cholesky, factor_job)
{
  const i64 matrix = blockIdx.x;
  f64 *const a = p.a + matrix * p.n * p.n;
  const i64 failed = factor_cholesky(a, p.n);
  tell(p, matrix, failed);
  EACH_WARP(i, 0, p.n) EACH_LANE(k, i + 1, p.n) a[i * p.n + k] = 0;
}

struct solve_job {
  const f64 *a;      /* (count, n, n) */
  const i32 *pivots; /* (count, n): both triangles of an LU decomposition; NULL: one, as `upper` and `unit` say */
  const i32 *info;   /* (count): not 0 where there is no decomposition; NULL: all have one */
  f64 *b;            /* (count, n, k): replaced */
  i64 n, k, part;    /* a block's columns of b */
  i32 upper, unit, identity, unused; /* identity: b is that, and has nothing yet */
};

KERNEL(solve, solve_job)
{
  const i64 matrix = blockIdx.x, from = blockIdx.y * p.part, to = from + p.part < p.k ? from + p.part : p.k;
  const f64 *const a = p.a + matrix * p.n * p.n;
  f64 *const b = p.b + matrix * p.n * p.k;
  const bool failed = p.info && p.info[matrix] != 0;
  if (failed || p.identity) {
    EACH_WARP(i, 0, p.n) EACH_LANE(t, from, to) b[i * p.k + t] = failed ? NAN_F64 : (f64)(i == t);
    __syncthreads();
  }
  if (failed) return;
  if (p.pivots) {
    exchange_rows(b, p.pivots + matrix * p.n, p.n, p.k, from, to);
    substitute(a, p.n, 1, false, true, b, p.n, p.k, from, to);
    substitute(a, p.n, 1, true, false, b, p.n, p.k, from, to);
  } else {
    substitute(a, p.n, 1, p.upper, p.unit, b, p.n, p.k, from, to);
  }
}

struct permutation_job {
  const i32 *pivots; /* (count, steps), from 1 */
  i64 *y;            /* (count, rows) */
  i64 count, steps, rows;
  fault_slot fault;
};

/* Row exchanges as a permutation. */
KERNEL(permutation, permutation_job)
{
  EACH(matrix, p.count)
  {
    const i32 *const pivots = p.pivots + matrix * p.steps;
    i64 *const y = p.y + matrix * p.rows;
    for (i64 i = 0; i < p.rows; i++) y[i] = i;
    for (i64 i = 0; i < p.steps; i++) {
      const i64 other = pivots[i] - 1, mine = y[i];
      if (other < 0 || other >= p.rows) {
        report_fault(p.fault, FAULT_VALUE, other, p.rows);
        break;
      }
      y[i] = y[other];
      y[other] = mine;
    }
  }
}
