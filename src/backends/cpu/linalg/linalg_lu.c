/* linalg_lu.c: kernels of the LU decomposition as a result of its own: the packed factors, the row exchanges, and
 * exchanges made into a permutation.
 *
 * Flow: as in linalg.c. Invariant: pivots count from 1, as LAPACK's do. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "linalg.h"

/* The packed factors, then the row exchanges (64 bits each; LAPACK uses half). */
static int64_t factor_element(const cni_matjob *j, int64_t index, char *room)
{
  int64_t steps = j->m < j->n ? j->m : j->n, failed;
  char *swaps = room + cni_mat_room(j, j->m * j->n);
  cni_mat mine = cni_mat_own(j, room, j->m, j->n);
  cni_mat pivots = cni_mat_at(j, cn_desc_of(j->c->out[1]), 1, index);
  int32_t *p = (int32_t *)(void *)pivots.data;
  cni_mat_move(mine, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), j->m, j->n);
  if (j->lapack) {
    int m = (int)j->m, n = (int)j->n, info = 0;
    j->lapack->getrf[j->dtype == CN_F64](&m, &n, room, &m, (int *)(void *)swaps, &info);
    failed = info;
    for (int64_t i = 0; i < steps; i++) p[i * pivots.row] = ((const int *)(const void *)swaps)[i];
  } else {
    failed = cni_lu((double *)(void *)room, j->m, j->n, (int64_t *)(void *)swaps);
    for (int64_t i = 0; i < steps; i++) p[i * pivots.row] = (int32_t)((const int64_t *)(const void *)swaps)[i] + 1;
  }
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), mine, j->m, j->n);
  return failed;
}

/* linalg_lu_factor_ex(A, pivot, check_errors) -> (LU, pivots, info) */
static int factor_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  int64_t steps = j.m < j.n ? j.m : j.n;
  j.room = cni_mat_room(&j, j.m * j.n) + (size_t)steps * 8;
  j.element = factor_element;
  j.info = 2;
  return cni_matjob_run(&j, (double)j.m * (double)j.n * (double)steps, c->args[2].u.i != 0,
                        "the factor U is exactly singular", "zero on its diagonal at");
}
static int factor_lapack(cn_call *c) { return factor_with(c, true); }
static int factor_kernel(cn_call *c) { return factor_with(c, false); }

/* lu_permutation(pivots (..., k) int32, rows) -> (..., rows) int64: which row of A each row of LU is. */
static int permutation_kernel(cn_call *c)
{
  const cn_desc *pivots = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  int64_t rows = out->shape[out->ndim - 1], steps = pivots->shape[pivots->ndim - 1];
  cni_matjob j = {.nbatch = out->ndim - 1, .batch_shape = out->shape};
  for (int64_t b = 0, n = rows ? out->numel / rows : 0; b < n; b++) {
    int64_t *to = (int64_t *)out->data + b * rows;
    cni_mat from = cni_mat_at(&j, pivots, 1, b);
    for (int64_t i = 0; i < rows; i++) to[i] = i;
    for (int64_t i = 0; i < steps; i++) {
      int64_t other = ((const int32_t *)(const void *)from.data)[i * from.row] - 1, mine = to[i];
      if (other < 0 || other >= rows)
        return cn_call_fail(c, CN_ERR_VALUE, "pivots must lie between 1 and %lld, but one is %lld", (long long)rows,
                            (long long)other + 1);
      to[i] = to[other];
      to[other] = mine;
    }
  }
  return CN_OK;
}

const cn_kernel cni_cpu_linalg_lu_kernels[] = {
    {"linalg_lu_factor_ex", "lapack", factor_lapack, cni_can_lapack},
    {"linalg_lu_factor_ex", "reference", factor_kernel},
    {"lu_permutation", "reference", permutation_kernel},
    {NULL, NULL, NULL},
};
