/* solver.cu: what is done around cuSOLVER's calls (solver_ops.c) on batches of matrices, column by column in memory, a
 * block for each.
 *
 * T0 is the element type. Invariant: signs are the CPU's, as in spectrum.cu. */
#include "codegen/device.cuh"
#include "common.cuh"
#include "matrix.cuh"

/* ---- before ---- */

struct finite_job {
  T0 *a;   /* (count, n, m) */
  i32 *bad; /* (count): 1 where there are elements that are no numbers: the matrix becomes zeros */
  i64 m, n;
  i32 part; /* 0: all elements count; 1: those on and below the diagonal; 2: on and above */
  i32 unused;
};

KERNEL(check_finite, finite_job)
{
  T0 *const a = p.a + blockIdx.x * p.m * p.n;
  i32 bad = 0;
  EACH_WARP(k, 0, p.n) EACH_LANE(r, 0, p.m)
  {
    const f64 size = fabs((f64)a[k * p.m + r]);
    if (!(size < INF_F64) && (p.part == 0 || (p.part == 1 ? r >= k : r <= k))) bad = 1;
  }
  bad = block_max(bad);
  if (threadIdx.x == 0) p.bad[blockIdx.x] = bad;
  if (bad) EACH_THREAD(i, p.m * p.n) a[i] = 0;
}

struct identity_job {
  T0 *b; /* (count, n, n) */
  i64 n;
};

KERNEL(set_identity, identity_job)
{
  T0 *const b = p.b + blockIdx.x * p.n * p.n;
  EACH_WARP(k, 0, p.n) EACH_LANE(r, 0, p.n) b[k * p.n + r] = k == r;
}

/* ---- behind ---- */

struct finish_job {
  i32 *info;      /* (count): not 0 where the library failed */
  const i32 *bad; /* (count), or NULL: likewise */
  T0 *x;          /* (count, elements), or NULL: becomes NaN there */
  i64 count, elements;
  i32 raises;     /* the kind of fault that a failure is; 0: none */
  i32 unused;
  fault_slot fault;
};

KERNEL(finish, finish_job)
{
  const i64 matrix = blockIdx.x;
  const i32 failed = p.bad && p.bad[matrix] ? 1 : p.info[matrix];
  if (p.x && failed) EACH_THREAD(i, p.elements) p.x[matrix * p.elements + i] = (T0)NAN_F64;
  if (threadIdx.x == 0 && failed && p.raises) report_fault(p.fault, p.raises, failed, p.count > 1 ? matrix : -1);
}

struct det_job {
  const T0 *a;       /* (count, n, n): L and U */
  const i64 *pivots; /* (count, n), from 1 */
  T0 *det;           /* (count) */
  i64 n;
};

KERNEL(determinant, det_job)
{
  const T0 *const a = p.a + blockIdx.x * p.n * p.n;
  const i64 *const pivots = p.pivots + blockIdx.x * p.n;
  f64 product = 1;
  if (threadIdx.x != 0) return;
  for (i64 i = 0; i < p.n; i++) product *= (f64)(pivots[i] == i + 1 ? a[i * p.n + i] : -a[i * p.n + i]);
  p.det[blockIdx.x] = (T0)product;
}

struct clear_job {
  T0 *a; /* (count, n, m): n columns */
  i64 m, n;
  i32 above, unused; /* what is cleared: above the diagonal, or below it */
};

KERNEL(clear_triangle, clear_job)
{
  T0 *const a = p.a + blockIdx.x * p.m * p.n;
  EACH_WARP(k, 0, p.n) EACH_LANE(r, p.above ? 0 : k + 1, p.above ? (k < p.m ? k : p.m) : p.m) a[k * p.m + r] = 0;
}

struct polish_job {
  T0 *q;
  const T0 *turned; /* q's vectors by their products with each other */
  i64 elements;
};

/* Vectors that are orthonormal but for small errors become so but for the squares of these. */
KERNEL(polish, polish_job)
{
  EACH(i, p.elements) p.q[i] = (T0)1.5 * p.q[i] - (T0)0.5 * p.turned[i];
}

/* Vectors of a batch: the columns of its matrices. */
struct vectors {
  T0 *data; /* NULL: none */
  i64 length, step;
};
struct signs_job {
  vectors u, v;
  i64 vectors_of;
};

/* Of each vector of u the largest element, or the first of those within a thousandth of it, becomes positive; v's turn
 * with them. */
KERNEL(signs, signs_job)
{
  EACH_WARP(j, 0, p.vectors_of)
  {
    T0 *const x = p.u.data + blockIdx.x * p.u.step + j * p.u.length;
    f64 most = 0;
    i64 at = p.u.length;
    EACH_LANE(k, 0, p.u.length) most = larger(most, fabs((f64)x[k]));
    most = warp_max(most);
    EACH_LANE(k, 0, p.u.length) if (at == p.u.length && fabs((f64)x[k]) >= most * 0.999) at = k;
    at = -warp_max(-at);
    const bool turn = at < p.u.length && x[at] < 0;
    __syncwarp();
    if (!turn) continue;
    EACH_LANE(k, 0, p.u.length) x[k] = -x[k];
    if (!p.v.data) continue;
    T0 *const y = p.v.data + blockIdx.x * p.v.step + j * p.v.length;
    EACH_LANE(k, 0, p.v.length) y[k] = -y[k];
  }
}
