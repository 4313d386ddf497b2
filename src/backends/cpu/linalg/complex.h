/* complex.h: what kernels of complex matrices share: numbers whose products are four multiplications, and the start of
 * a job.
 *
 * Place in the flow: linalg_complex*.c compute in pairs of doubles, row-major, whatever the
 * type of the tensors. Invariant: no C99 operator multiplies or divides, since those look for infinities. */
#ifndef CNI_CPU_LINALG_COMPLEX_H
#define CNI_CPU_LINALG_COMPLEX_H

#include <math.h>

#include "linalg.h"

typedef struct cni_c {
  double re, im;
} cni_c;

static inline cni_c cni_c_of(double re, double im) { return (cni_c){re, im}; }
static inline cni_c cni_c_add(cni_c a, cni_c b) { return (cni_c){a.re + b.re, a.im + b.im}; }
static inline cni_c cni_c_sub(cni_c a, cni_c b) { return (cni_c){a.re - b.re, a.im - b.im}; }
static inline cni_c cni_c_mul(cni_c a, cni_c b)
{
  return (cni_c){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static inline cni_c cni_c_scale(cni_c a, double f) { return (cni_c){a.re * f, a.im * f}; }
static inline cni_c cni_c_conj(cni_c a) { return (cni_c){a.re, -a.im}; }
static inline double cni_c_abs(cni_c a) { return hypot(a.re, a.im); }
static inline double cni_c_square(cni_c a) { return a.re * a.re + a.im * a.im; }
static inline bool cni_c_zero(cni_c a) { return a.re == 0 && a.im == 0; }
static inline cni_c cni_c_div(cni_c a, cni_c b)
{
  double s = fmax(fabs(b.re), fabs(b.im));
  cni_c t = {b.re / s, -b.im / s};
  double below = cni_c_square(t) * s;
  cni_c up = cni_c_mul(a, t);
  return (cni_c){up.re / below, up.im / below};
}
/* Of absolute value 1 and a's angle; 1 for 0. */
static inline cni_c cni_c_unit(cni_c a)
{
  double size = cni_c_abs(a);
  return size > 0 ? cni_c_scale(a, 1 / size) : cni_c_of(1, 0);
}

/* Starts a job that computes in complex128, as cni_matjob_begin does. */
void cni_matjob_begin_complex(cni_matjob *j, cn_call *c, int core);
/* The norm of n numbers `step` apart, safe from overflow. */
double cni_c_norm(const cni_c *x, int64_t n, int64_t step);
/* Adds orthonormal rows to q, whose rows [0, have) are orthonormal, until there are `rows` of length m. */
void cni_c_complete(cni_c *q, int64_t have, int64_t rows, int64_t m);
/* a: (m, n) becomes R and, below it, the vectors of reflections I - tau v v^H; tau: as many as rows or columns. */
void cni_c_householder(cni_c *a, int64_t m, int64_t n, cni_c *tau);
/* The first `cols` columns of their product. q: (m, cols) */
void cni_c_householder_q(const cni_c *a, int64_t m, int64_t n, const cni_c *tau, cni_c *q, int64_t cols);

#endif
