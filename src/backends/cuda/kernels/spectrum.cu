/* spectrum.cu: decompositions into orthogonal matrices of batches: QR by reflections, singular values and eigenvalues
 * of symmetric matrices by Jacobi rotations; a block for each matrix.
 *
 * Everything is dense float64, a vector in a row: columns of A, Q and U lie in rows. Rotations of a round touch
 * different rows, a warp each. Invariant: signs are the CPU's (backends/cpu/linalg): a reflection turns a column to
 * minus the sign of its first element; the largest element of a column of U, or of an eigenvector, is positive. */
#define BLOCKS_AT_ONCE (768 / THREADS) /* 85 registers a thread: fewer would spill */
#include "codegen/device.cuh"
#include "common.cuh"
#include "matrix.cuh"

enum { SWEEPS = 60 };
#define TINY 1e-150 /* the square of a row's length, of a matrix whose largest element is 1, that counts as zero */

/* ---- reflections; a: (n, m), a row for each column of an (m, n) matrix ---- */

/* The length of x, safe from overflow. */
FN f64 length_of(const f64 *x, i64 n)
{
  f64 most = 0, sum = 0;
  EACH_THREAD(i, n) most = larger(most, fabs(x[i]));
  most = block_max(most);
  if (most == 0 || !(most < INF_F64)) return most;
  EACH_THREAD(i, n) sum += x[i] / most * (x[i] / most);
  return most * sqrt(block_sum(sum));
}

/* c -= tau v (v . c), by a warp; v[0] counts as 1. */
FN void reflect(f64 *c, const f64 *v, i64 n, f64 tau)
{
  f64 sum = 0;
  EACH_LANE(r, 0, n) sum += (r ? v[r] : 1) * c[r];
  sum = tau * warp_sum(sum);
  EACH_LANE(r, 0, n) c[r] -= (r ? v[r] : 1) * sum;
}

/* Turns column i, from its element i on, to one number, and the columns behind it. */
FN void reflect_column(f64 *a, i64 m, i64 n, i64 i, f64 *tau)
{
  f64 *const x = a + i * m + i;
  const f64 first = *x, rest = length_of(x + 1, m - i - 1);
  __syncthreads(); /* all have read it */
  if (rest == 0) {
    if (threadIdx.x == 0) tau[i] = 0;
    __syncthreads();
    return;
  }
  const f64 turned = -copysign(hypot(first, rest), first), factor = (turned - first) / turned;
  EACH_THREAD(r, m - i - 1) x[1 + r] /= first - turned;
  if (threadIdx.x == 0) *x = turned, tau[i] = factor;
  __syncthreads();
  EACH_WARP(k, i + 1, n) reflect(a + k * m + i, x, m - i, factor);
  __syncthreads();
}

FN void reflect_all(f64 *a, i64 m, i64 n, f64 *tau)
{
  for (i64 i = 0; i < m && i < n; i++) reflect_column(a, m, n, i, tau);
}

/* q: (cols, m), the first columns of the product of the reflections. */
FN void collect_q(const f64 *a, i64 m, i64 n, const f64 *tau, f64 *q, i64 cols)
{
  const i64 steps = m < n ? m : n, last = steps < cols ? steps : cols;
  EACH_WARP(k, 0, cols) EACH_LANE(r, 0, m) q[k * m + r] = k == r;
  __syncthreads();
  for (i64 i = last - 1; i >= 0; i--) {
    const f64 factor = tau[i];
    if (factor != 0) EACH_WARP(k, i, cols) reflect(q + k * m + i, a + i * m + i, m - i, factor);
    __syncthreads();
  }
}

struct qr_job {
  f64 *a;    /* (count, n, m): columns; becomes those of R */
  f64 *tau;  /* (count, min(m, n)) */
  f64 *q;    /* (count, cols, m); NULL: not wanted */
  i64 m, n, cols;
};

KERNEL(qr, qr_job)
{
  const i64 matrix = blockIdx.x, steps = p.m < p.n ? p.m : p.n;
  f64 *const a = p.a + matrix * p.m * p.n, *const tau = p.tau + matrix * steps;
  reflect_all(a, p.m, p.n, tau);
  if (p.q) collect_q(a, p.m, p.n, tau, p.q + matrix * p.cols * p.m, p.cols);
  EACH_WARP(k, 0, p.n) EACH_LANE(r, k + 1, p.m) a[k * p.m + r] = 0;
}

/* ---- rotations ---- */

/* The sum over each `lanes` neighbouring threads, a power of two. */
FN f64 group_sum(f64 v, int lanes)
{
  for (int m = lanes >> 1; m > 0; m >>= 1) v += __shfl_xor_sync(FULL, v, m);
  return v;
}

/* Rows a and b become orthogonal by a rotation that those of v (NULL: none) take as well, by neighbouring threads; all
 * of a warp call it, those with nothing to do (not live) as well. False: they were already, but for a few roundings,
 * which a rotation does not always mend. */
FN bool rotate(f64 *a, f64 *b, f64 *va, f64 *vb, i64 n, int lanes, bool live, f64 close)
{
  const int mine = LANE & (lanes - 1);
  f64 aa = 0, bb = 0, ab = 0;
  for (i64 k = mine; k < n && live; k += lanes) aa += a[k] * a[k], bb += b[k] * b[k], ab += a[k] * b[k];
  aa = group_sum(aa, lanes), bb = group_sum(bb, lanes), ab = group_sum(ab, lanes);
  const f64 limit = close * close * aa * bb;
  if (!(ab * ab > limit) || aa < TINY || bb < TINY) return false;
  const f64 zeta = (bb - aa) / (2 * ab), t = copysign(1 / (fabs(zeta) + sqrt(1 + zeta * zeta)), zeta);
  const f64 c = 1 / sqrt(1 + t * t), s = c * t;
  for (i64 k = mine; k < n; k += lanes) {
    const f64 x = a[k], y = b[k];
    a[k] = c * x - s * y;
    b[k] = s * x + c * y;
    if (!va) continue;
    const f64 vx = va[k], vy = vb[k];
    va[k] = c * vx - s * vy;
    vb[k] = s * vx + c * vy;
  }
  return ab * ab > 100 * limit;
}

/* Makes the rows of w (n, n) orthogonal; v (n, n; NULL: none) is turned alike. In a sweep every pair of rows meets
 * once; in a round of it every row is in one pair. False: not done after all sweeps. */
FN bool orthogonalise(f64 *w, f64 *v, i64 n)
{
  __shared__ i32 turned;
  const f64 close = EPSILON * sqrt((f64)n);
  const i64 players = n + (n & 1), rounds = players - 1, pairs = players / 2;
  int lanes = 32; /* threads for a pair: several pairs of short rows share a warp */
  while (lanes > 4 && lanes / 2 >= n) lanes /= 2;
  const i64 at_once = 32 / lanes, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    if (threadIdx.x == 0) turned = 0;
    __syncthreads();
    for (i64 round = 0; round < rounds; round++) {
      for (i64 first = warp * at_once; first < pairs; first += warps * at_once) {
        const i64 j = first + LANE / lanes;
        const i64 one = j ? (round + j) % rounds : rounds, other = (round + rounds - j) % rounds;
        const i64 a = one < other ? one : other, b = one < other ? other : one;
        const bool live = j < pairs && b < n;
        const bool more = rotate(w + a * n, w + b * n, v ? v + a * n : nullptr, v ? v + b * n : nullptr, n, lanes, live,
                                 close);
        if (more && (LANE & (lanes - 1)) == 0) atomicAdd(&turned, 1);
      }
      __syncthreads();
    }
    const bool more = turned != 0;
    __syncthreads(); /* all have read it */
    if (!more) return true;
  }
  return false;
}

/* order[j]: which of the keys comes j-th; equal ones as they are. */
FN void find_order(const f64 *keys, i32 *order, i64 n, bool falling)
{
  EACH_THREAD(i, n) order[i] = (i32)i; /* for keys that are no numbers */
  __syncthreads();
  EACH_THREAD(i, n)
  {
    i64 before = 0;
    for (i64 k = 0; k < n; k++)
      before += (falling ? keys[k] > keys[i] : keys[k] < keys[i]) || (keys[k] == keys[i] && k < i);
    order[before] = (i32)i;
  }
  __syncthreads();
}

/* Of each row of u (count, m) the largest element, or the first of those within a thousandth of it, becomes positive;
 * rows of v (count, n; NULL: none) turn with them. */
FN void fix_signs(f64 *u, i64 m, f64 *v, i64 n, i64 count)
{
  EACH_WARP(j, 0, count)
  {
    f64 *const row = u + j * m, most = 0;
    i64 at = m;
    EACH_LANE(k, 0, m) most = larger(most, fabs(row[k]));
    most = warp_max(most);
    EACH_LANE(k, 0, m) if (at == m && fabs(row[k]) >= most * 0.999) at = k;
    at = -warp_max(-at);
    const bool turn = at < m && row[at] < 0;
    __syncwarp();
    if (!turn) continue;
    EACH_LANE(k, 0, m) row[k] = -row[k];
    if (v) EACH_LANE(k, 0, n) v[j * n + k] = -v[j * n + k];
  }
  __syncthreads();
}

FN f64 block_dot(const f64 *a, const f64 *b, i64 n)
{
  f64 sum = 0;
  EACH_THREAD(k, n) sum += a[k] * b[k];
  return block_sum(sum);
}

/* Adds orthonormal rows to q, whose rows [0, have) are orthonormal, until there are n of length n. w: n numbers. */
FN void complete_rows(f64 *q, i64 have, i64 n, f64 *w)
{
  EACH_THREAD(t, n) /* what of the unit vector t the rows do not span */
  {
    f64 left = 1;
    for (i64 i = 0; i < have; i++) left -= q[i * n + t] * q[i * n + t];
    w[t] = left;
  }
  for (; have < n; have++) {
    f64 *const row = q + have * n, best = -INF_F64;
    i64 at = 0;
    __syncthreads();
    EACH_THREAD(t, n) if (w[t] > best) best = w[t], at = t;
    const f64 most = block_max(best);
    at = -block_max(best == most ? -at : -n);
    EACH_THREAD(t, n) row[t] = t == at;
    __syncthreads();
    for (int pass = 0; pass < 2; pass++)
      for (i64 i = 0; i < have; i++) {
        const f64 f = block_dot(q + i * n, row, n);
        EACH_THREAD(t, n) row[t] -= f * q[i * n + t];
      }
    const f64 size = sqrt(block_dot(row, row, n));
    EACH_THREAD(t, n)
    {
      row[t] /= size;
      w[t] -= row[t] * row[t];
    }
  }
  __syncthreads();
}

/* The largest element of a (n numbers), which then has none above 1; infinity or NaN: it has elements that are no
 * numbers. */
FN f64 scale_down(f64 *a, i64 n)
{
  f64 most = 0;
  EACH_THREAD(i, n) most = larger(most, fabs(a[i]));
  most = block_max(most);
  if (most > 0 && most < INF_F64) EACH_THREAD(i, n) a[i] /= most;
  __syncthreads();
  return most;
}

/* ---- singular values ---- */

struct svd_job {
  f64 *a;      /* (count, thin, tall): columns of the matrix, or of its transpose where that is the tall one */
  f64 *s;      /* (count, thin): falling */
  f64 *u;      /* (count, cols, tall): left vectors of the tall one; NULL: values alone */
  f64 *w;      /* (count, thin, thin): its right vectors */
  f64 *room;   /* (count, room_of) */
  i32 *order;  /* (count, thin) */
  i32 *info;   /* (count) */
  i64 count, tall, thin, cols, room_of;
  i32 wide;    /* of the matrix itself u are the right vectors: signs go by w */
  i32 nearly_square, raises;
  i32 in_shared; /* what is rotated lies in shared memory, 2 n n numbers */
  fault_slot fault;
};

/* Turns row i of a matrix, a column in each of a's n rows of m numbers, from column i + 1 on to one element. v: n
 * numbers of room. */
FN void reflect_row(f64 *a, i64 m, i64 n, i64 i, f64 *v)
{
  f64 sum = 0;
  const f64 first = a[(i + 1) * m + i];
  EACH_THREAD(k, n - i - 2) sum += a[(i + 2 + k) * m + i] * a[(i + 2 + k) * m + i];
  sum = block_sum(sum);
  if (sum == 0) return;
  const f64 turned = -copysign(sqrt(first * first + sum), first), factor = (turned - first) / turned;
  EACH_THREAD(k, n - i - 1) v[k] = k ? a[(i + 1 + k) * m + i] / (first - turned) : 1;
  __syncthreads();
  EACH_THREAD(r, m - i)
  {
    f64 dot = 0;
    for (i64 k = 0; k < n - i - 1; k++) dot += v[k] * a[(i + 1 + k) * m + i + r];
    for (i64 k = 0; k < n - i - 1; k++) a[(i + 1 + k) * m + i + r] -= factor * dot * v[k];
  }
  __syncthreads();
}

/* u's rows behind the first thin ones, where there are more: those of Q, or, where the matrix is nearly square, what
 * the reflections to a bidiagonal matrix give, as in LAPACK. a is lost, v: thin numbers. */
FN void complement(f64 *a, i64 m, i64 n, f64 *tau, f64 *u, i64 cols, f64 *v)
{
  for (i64 i = 0; i < n; i++) {
    reflect_column(a, m, n, i, tau);
    if (i + 2 < n) reflect_row(a, m, n, i, v);
  }
  collect_q(a, m, n, tau, u, cols);
}

/* w becomes the right vectors, in order of s, and those of no length any that complete the others. */
FN void right_vectors(const f64 *rotated, const f64 *s, const i32 *order, f64 *w, i64 n, f64 *room)
{
  i64 have = 0;
  while (have < n && s[have] > EPSILON * (f64)n * s[0] && s[have] > SMALLEST) have++;
  EACH_WARP(j, 0, have) EACH_LANE(k, 0, n) w[j * n + k] = rotated[order[j] * n + k] / s[j];
  __syncthreads();
  if (have < n) complete_rows(w, have, n, room);
}

/* a = Q R, R = v^T diag(s) w: u = v Q^T, a vector in each row. */
FN void left_vectors(const f64 *q, const f64 *v, const i32 *order, f64 *u, i64 tall, i64 thin)
{
  EACH_WARP(j, 0, thin)
  {
    const f64 *const turn = v + order[j] * thin;
    EACH_LANE(r, 0, tall)
    {
      f64 sum = 0;
      for (i64 k = 0; k < thin; k++) sum += turn[k] * q[k * tall + r];
      u[j * tall + r] = sum;
    }
  }
  __syncthreads();
}

KERNEL(svd, svd_job)
{
  const i64 matrix = blockIdx.x, m = p.tall, n = p.thin, cols = p.cols;
  f64 *const a = p.a + matrix * m * n, *const s = p.s + matrix * n, *const u = p.u ? p.u + matrix * cols * m : nullptr;
  f64 *const w = p.w ? p.w + matrix * n * n : nullptr;
  DYNAMIC_SHARED(f64, shared);
  f64 *const tau = p.room + matrix * p.room_of, *const keys = tau + n, *const q = keys + n + 2 * n * n;
  f64 *const rotated = p.in_shared ? shared : keys + n, *const v = rotated + n * n, *const copy = q + cols * m;
  i32 *const order = p.order + matrix * n;
  const f64 scale = scale_down(a, m * n);
  bool fine = scale < INF_F64;
  if (fine && p.nearly_square) {
    EACH_THREAD(i, m * n) copy[i] = a[i];
    __syncthreads();
    complement(copy, m, n, tau, u, cols, keys);
  }
  if (fine) {
    reflect_all(a, m, n, tau);
    if (u) collect_q(a, m, n, tau, q, cols);
    EACH_WARP(i, 0, n) EACH_LANE(k, 0, n)
    {
      rotated[i * n + k] = k < i ? 0 : a[k * m + i];
      v[i * n + k] = i == k;
    }
    __syncthreads();
    fine = orthogonalise(rotated, u ? v : nullptr, n);
  }
  if (threadIdx.x == 0) p.info[matrix] = !fine;
  if (!fine) {
    if (threadIdx.x == 0) report_fault(p.fault, p.raises, 1, p.count > 1 ? matrix : -1);
    return;
  }
  EACH_WARP(i, 0, n)
  {
    f64 sum = 0;
    EACH_LANE(k, 0, n) sum += rotated[i * n + k] * rotated[i * n + k];
    sum = warp_sum(sum);
    if (LANE == 0) keys[i] = sqrt(sum);
  }
  __syncthreads();
  find_order(keys, order, n, true);
  EACH_THREAD(j, n) s[j] = keys[order[j]];
  __syncthreads();
  if (u) {
    right_vectors(rotated, s, order, w, n, tau);
    left_vectors(q, v, order, u, m, n);
    if (!p.nearly_square) EACH_WARP(j, n, cols) EACH_LANE(r, 0, m) u[j * m + r] = q[j * m + r];
    __syncthreads();
    if (p.wide) fix_signs(w, n, u, m, n);
    else fix_signs(u, m, w, n, n);
  }
  if (scale > 0) EACH_THREAD(j, n) s[j] *= scale;
}

/* ---- eigenvalues of symmetric matrices ---- */

struct eigh_job {
  f64 *a;      /* (count, n, n): one triangle counts */
  f64 *values; /* (count, n): rising */
  f64 *y;      /* (count, n, n): a vector in each row */
  f64 *room;   /* (count, 2 n n + 2 n) */
  i32 *order;  /* (count, n) */
  i32 *info;   /* (count) */
  i64 count, n;
  i32 upper, raises;
  i32 in_shared, unused; /* as in svd_job */
  fault_slot fault;
};

/* Copies the triangle that counts to both. */
FN void make_symmetric(f64 *a, i64 n, bool upper)
{
  EACH_WARP(i, 0, n) EACH_LANE(k, i + 1, n)
  {
    if (upper) a[k * n + i] = a[i * n + k];
    else a[i * n + k] = a[k * n + i];
  }
  __syncthreads();
}

/* The largest sum of sizes of a row: no eigenvalue is larger. */
FN f64 bound_of(const f64 *a, i64 n)
{
  f64 most = 0;
  EACH_WARP(i, 0, n)
  {
    f64 sum = 0;
    EACH_LANE(k, 0, n) sum += fabs(a[i * n + k]);
    most = larger(most, warp_sum(sum));
  }
  return block_max(most);
}

/* The matrix plus the bound of its eigenvalues has none below zero: rotations that make its rows orthogonal are its
 * eigenvectors. Their values are then those of the matrix itself. */
KERNEL(eigh, eigh_job)
{
  const i64 matrix = blockIdx.x, n = p.n;
  f64 *const a = p.a + matrix * n * n, *const y = p.y + matrix * n * n, *const values = p.values + matrix * n;
  DYNAMIC_SHARED(f64, shared);
  f64 *const keys = p.room + matrix * (2 * n * n + 2 * n);
  f64 *const w = p.in_shared ? shared : keys + n, *const v = w + n * n;
  i32 *const order = p.order + matrix * n;
  make_symmetric(a, n, p.upper);
  const f64 scale = scale_down(a, n * n), bound = scale < INF_F64 ? bound_of(a, n) : 0;
  bool fine = scale < INF_F64;
  if (fine) {
    EACH_WARP(i, 0, n) EACH_LANE(k, 0, n)
    {
      w[i * n + k] = a[i * n + k] + (i == k ? bound : 0);
      v[i * n + k] = i == k;
    }
    __syncthreads();
    fine = orthogonalise(w, v, n);
  }
  if (threadIdx.x == 0) p.info[matrix] = !fine;
  if (!fine) {
    if (threadIdx.x == 0) report_fault(p.fault, p.raises, 1, p.count > 1 ? matrix : -1);
    return;
  }
  EACH_WARP(i, 0, n)
  {
    f64 sum = 0;
    EACH_LANE(k, 0, n)
    {
      f64 dot = 0;
      for (i64 r = 0; r < n; r++) dot += v[i * n + r] * a[r * n + k];
      sum += dot * v[i * n + k];
    }
    sum = warp_sum(sum);
    if (LANE == 0) keys[i] = sum;
  }
  __syncthreads();
  find_order(keys, order, n, false);
  EACH_WARP(j, 0, n) EACH_LANE(k, 0, n) y[j * n + k] = v[order[j] * n + k];
  EACH_THREAD(j, n) values[j] = keys[order[j]] * (scale > 0 ? scale : 1);
  __syncthreads();
  fix_signs(y, n, nullptr, 0, n);
}
