/* matrix_exp.cu: exponentials of batches of square matrices, by a block each: scaling, a quotient of polynomials of
 * degree 13, squaring, as on the CPU (backends/cpu/linalg/linalg_exp.c). Dense float64.
 *
 * Invariant: a matrix with elements that are no numbers becomes NaN. */
#include "codegen/device.cuh"
#include "common.cuh"
#include "matrix.cuh"

struct exp_job {
  f64 *a;      /* (count, n, n): replaced */
  f64 *room;   /* (count, 7, n, n) */
  i32 *pivots; /* (count, n) */
  i64 n;
};

/* Coefficients of the numerator, lowest first; in the denominator the odd ones change sign. */
static __device__ const f64 coefficients[14] = {
    64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800., 129060195264000.,
    10559470521600.,    670442572800.,      33522128640.,      1323241920.,       40840800.,
    960960.,            16380.,             182.,              1.};

FN void product(f64 *y, const f64 *a, const f64 *b, i64 n)
{
  EACH_WARP(i, 0, n) EACH_LANE(k, 0, n)
  {
    f64 sum = 0;
    for (i64 t = 0; t < n; t++) sum += a[i * n + t] * b[t * n + k];
    y[i * n + k] = sum;
  }
  __syncthreads();
}

/* p6 (c8 p2 + c10 p4 + c12 p6) + c2 p2 + c4 p4 + c6 p6 + c0; t: room. */
FN void polynomial(f64 *y, f64 *t, const f64 *p2, const f64 *p4, const f64 *p6, const f64 *c, i64 n)
{
  EACH_THREAD(i, n * n) t[i] = c[8] * p2[i] + c[10] * p4[i] + c[12] * p6[i];
  __syncthreads();
  product(y, p6, t, n);
  EACH_THREAD(i, n * n) y[i] += c[2] * p2[i] + c[4] * p4[i] + c[6] * p6[i] + (i / n == i % n ? c[0] : 0);
  __syncthreads();
}

FN f64 one_norm(const f64 *a, i64 n)
{
  f64 most = 0;
  EACH_THREAD(k, n)
  {
    f64 sum = 0;
    for (i64 i = 0; i < n; i++) sum += fabs(a[i * n + k]);
    most = larger(most, sum);
  }
  return block_max(most);
}

KERNEL(matrix_exp, exp_job)
{
  const i64 n = p.n, nn = n * n;
  f64 *const a = p.a + blockIdx.x * nn, *const p2 = p.room + blockIdx.x * 7 * nn, *const p4 = p2 + nn;
  f64 *const p6 = p4 + nn, *const t = p6 + nn, *const odd = t + nn, *const even = odd + nn, *const u = even + nn;
  i32 *const pivots = p.pivots + blockIdx.x * n;
  const f64 norm = one_norm(a, n), most_norm = 5.371920351148152; /* up to which the quotient is exact to rounding */
  int halvings = 0;
  __syncthreads();
  if (!(norm < INF_F64)) {
    EACH_THREAD(i, nn) a[i] = NAN_F64;
    return;
  }
  if (norm > most_norm) frexp(norm / most_norm, &halvings);
  EACH_THREAD(i, nn) a[i] = ldexp(a[i], -halvings);
  __syncthreads();
  product(p2, a, a, n);
  product(p4, p2, p2, n);
  product(p6, p4, p2, n);
  polynomial(odd, t, p2, p4, p6, coefficients + 1, n);
  polynomial(even, t, p2, p4, p6, coefficients, n);
  product(u, a, odd, n);
  EACH_THREAD(i, nn)
  {
    t[i] = even[i] - u[i];
    a[i] = even[i] + u[i];
  }
  __syncthreads();
  factor_lu(t, n, n, pivots);
  __syncthreads();
  exchange_rows(a, pivots, n, n, 0, n);
  substitute(t, n, 1, false, true, a, n, n, 0, n);
  substitute(t, n, 1, true, false, a, n, n, 0, n);
  for (int i = 0; i < halvings; i++) {
    product(t, a, a, n);
    EACH_THREAD(k, nn) a[k] = t[k];
    __syncthreads();
  }
}
