/* linalg_exp.c: the kernel of the matrix exponential: scaling, a quotient of polynomials of degree 13, squaring.
 *
 * Flow: as in linalg.c, in plain C on the own matrix product; no library has it. Invariant: computed in double
 * precision
 * whatever the tensor's type. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/gemm.h"
#include "linalg.h"

/* Coefficients of the numerator, lowest first; in the denominator the odd ones change sign. */
static const double coefficients[14] = {64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800.,
                                        129060195264000.,   10559470521600.,    670442572800.,     33522128640.,
                                        1323241920.,        40840800.,          960960.,           16380.,
                                        182.,               1.};
static const double most_norm = 5.371920351148152; /* up to which the quotient is exact to rounding */

static void product(double *c, const double *a, const double *b, int64_t n)
{
  cni_gemm g = {.m = n, .n = n, .k = n, .alpha = 1, .a = a, .a_row = n, .a_col = 1, .b = b, .b_row = n, .b_col = 1,
                .c = c, .c_row = n, .c_col = 1};
  cni_gemm_f64(&g); /* out of memory stays set in the state */
}

/* to = c[0] p2 + c[2] p4 + c[4] p6, where c counts even powers */
static void combine(double *to, const double *p2, const double *p4, const double *p6, const double *c, int64_t nn)
{
  for (int64_t i = 0; i < nn; i++) to[i] = c[0] * p2[i] + c[2] * p4[i] + c[4] * p6[i];
}

/* The sum of powers first, first + 2, ..., first + 12 of the coefficients (without the last when first is 1, which has
 * it as the factor of A itself): p6 (c8 p2 + c10 p4 + c12 p6) + c2 p2 + c4 p4 + c6 p6 + c0. */
static void polynomial(double *to, double *t, const double *p2, const double *p4, const double *p6, const double *c,
                       int64_t n)
{
  int64_t nn = n * n;
  combine(t, p2, p4, p6, c + 8, nn);
  product(to, p6, t, n);
  combine(t, p2, p4, p6, c + 2, nn);
  for (int64_t i = 0; i < nn; i++) to[i] += t[i];
  for (int64_t i = 0; i < n; i++) to[i * n + i] += c[0];
}

static double one_norm(const double *a, int64_t n)
{
  double most = 0;
  for (int64_t k = 0; k < n; k++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs(a[i * n + k]);
    if (!(sum <= most)) most = sum;
  }
  return most;
}

/* a: (n, n), replaced by its exponential. room: seven matrices and n exchanges. */
static void exponential(double *a, int64_t n, double *room)
{
  int64_t nn = n * n;
  double *p2 = room, *p4 = p2 + nn, *p6 = p4 + nn, *t = p6 + nn, *odd = t + nn, *even = odd + nn, *u = even + nn;
  int64_t *swaps = (int64_t *)(void *)(u + nn);
  double norm = one_norm(a, n);
  int halvings = 0;
  if (!isfinite(norm)) {
    for (int64_t i = 0; i < nn; i++) a[i] = NAN;
    return;
  }
  if (norm > most_norm) frexp(norm / most_norm, &halvings);
  for (int64_t i = 0; i < nn; i++) a[i] = ldexp(a[i], -halvings);
  product(p2, a, a, n);
  product(p4, p2, p2, n);
  product(p6, p4, p2, n);
  polynomial(odd, t, p2, p4, p6, coefficients + 1, n);
  polynomial(even, t, p2, p4, p6, coefficients, n);
  product(u, a, odd, n);
  for (int64_t i = 0; i < nn; i++) {
    t[i] = even[i] - u[i];
    a[i] = even[i] + u[i];
  }
  cni_lu(t, n, n, swaps);
  cni_exchange_rows(a, swaps, n, n);
  cni_substitute(t, n, 1, false, true, a, n, n);
  cni_substitute(t, n, 1, true, false, a, n, n);
  for (int i = 0; i < halvings; i++) {
    product(t, a, a, n);
    memcpy(a, t, (size_t)nn * sizeof *a);
  }
}

static int64_t exp_element(const cni_matjob *j, int64_t index, char *room)
{
  double *a = (double *)(void *)room;
  cni_mat mine = cni_mat_own(j, room, j->n, j->n);
  cni_mat_move(mine, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), j->n, j->n);
  exponential(a, j->n, a + j->n * j->n);
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), mine, j->n, j->n);
  return 0;
}

static int can_exp(const cn_call *c, cn_plan *plan)
{
  int dtype = cn_desc_of(c->in[0])->dtype;
  plan->refusal = "float32 and float64 only";
  return dtype == CN_F32 || dtype == CN_F64 ? CN_OK : CN_REFUSED;
}

static int exp_kernel(cn_call *c)
{
  cni_matjob j;
  cni_matjob_begin(&j, c, false, 2);
  j.room = cni_mat_room(&j, 8 * j.n * j.n + j.n);
  j.element = exp_element;
  return cni_matjob_run(&j, 15 * cni_cube(j.n), false, "", "");
}

const cn_kernel cni_cpu_linalg_exp_kernels[] = {
    {"linalg_matrix_exp", "reference", exp_kernel, can_exp},
    {NULL, NULL, NULL},
};
