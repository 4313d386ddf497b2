/* linalg_reflect.c: kernels of products of reflections: made (geqrf), multiplied out (linalg_householder_product),
 * applied to a matrix (ormqr).
 *
 * Flow: as in linalg.c; the reflections themselves are linalg_qr.c's. Invariant: reflections are applied one after the
 * other in their order, so a column of a result does not depend on the others. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "linalg.h"

enum { WORK = 64 }; /* columns that a library works on at once, at most */

/* What one matrix needs: A, tau, another matrix and numbers to work with. */
typedef struct layout {
  int64_t steps, rows, cols; /* reflections; the other matrix as it lies in memory */
  size_t tau, other, work;
  int lwork;
} layout;

static layout plan(const cni_matjob *j, int64_t steps, int64_t rows, int64_t cols)
{
  int64_t work = (j->n > rows ? j->n : rows) > cols ? (j->n > rows ? j->n : rows) : cols;
  layout l = {.steps = steps, .rows = rows, .cols = cols, .lwork = (int)(j->lapack ? work * WORK + 1 : work + 1)};
  int64_t least = j->m < j->n ? j->m : j->n;
  l.tau = cni_mat_room(j, j->m * j->n);
  l.other = l.tau + cni_mat_room(j, least + 1);
  l.work = l.other + cni_mat_room(j, rows * cols);
  return l;
}

static size_t room_of(const cni_matjob *j, const layout *l) { return l->work + cni_mat_room(j, l->lwork); }

static double *doubles(char *memory) { return (double *)(void *)memory; }

/* ---- geqrf(input) -> (a, tau) ---- */

static int64_t geqrf_element(const cni_matjob *j, int64_t index, char *room)
{
  layout l = plan(j, j->m < j->n ? j->m : j->n, 0, 0);
  cni_mat mine = cni_mat_own(j, room, j->m, j->n), tau = {room + l.tau, 1, 1, j->dtype};
  int info = 0;
  cni_mat_move(mine, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), j->m, j->n);
  if (j->lapack) {
    int m = (int)j->m, n = (int)j->n;
    j->lapack->geqrf[j->dtype == CN_F64](&m, &n, room, &m, room + l.tau, room + l.work, &l.lwork, &info);
  } else {
    cni_householder(doubles(room), j->m, j->n, doubles(room + l.tau), doubles(room + l.work));
  }
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), mine, j->m, j->n);
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[1]), 1, index), tau, l.steps, 1);
  return info;
}

static int geqrf_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  layout l = plan(&j, j.m < j.n ? j.m : j.n, 0, 0);
  j.room = room_of(&j, &l);
  j.element = geqrf_element;
  return cni_matjob_run(&j, 2 * (double)j.m * (double)j.n * (double)l.steps, false, "LAPACK failed", "code");
}
static int geqrf_lapack(cn_call *c) { return geqrf_with(c, true); }
static int geqrf_kernel(cn_call *c) { return geqrf_with(c, false); }

/* A and tau of a matrix, the latter with zeros up to the number of columns. */
static void gather_reflections(const cni_matjob *j, const layout *l, int64_t index, char *room)
{
  int64_t least = j->m < j->n ? j->m : j->n;
  cni_mat tau = {room + l->tau, 1, 1, j->dtype};
  cni_mat_move(cni_mat_own(j, room, j->m, j->n), cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), j->m, j->n);
  memset(room + l->tau, 0, cni_mat_bytes(j, least));
  cni_mat_move(tau, cni_mat_at(j, cn_desc_of(j->c->in[1]), 1, index), l->steps, 1);
}

static int64_t steps_of(const cn_call *c)
{
  const cn_desc *tau = cn_desc_of(c->in[1]);
  return tau->shape[tau->ndim - 1];
}

/* ---- linalg_householder_product(input, tau) ---- */

static int64_t product_element(const cni_matjob *j, int64_t index, char *room)
{
  layout l = plan(j, steps_of(j->c), j->m, j->n);
  int info = 0;
  gather_reflections(j, &l, index, room);
  char *q = room;
  if (j->lapack) {
    int m = (int)j->m, n = (int)j->n, k = (int)l.steps;
    j->lapack->orgqr[j->dtype == CN_F64](&m, &n, &k, room, &m, room + l.tau, room + l.work, &l.lwork, &info);
  } else {
    q = room + l.other;
    cni_householder_q(doubles(room), j->m, j->n, doubles(room + l.tau), doubles(q), j->n, doubles(room + l.work));
  }
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), cni_mat_own(j, q, j->m, j->n), j->m, j->n);
  return info;
}

static int product_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  layout l = plan(&j, steps_of(c), j.m, j.n);
  j.room = room_of(&j, &l);
  j.element = product_element;
  return cni_matjob_run(&j, 2 * (double)j.m * (double)j.n * (double)l.steps, false, "LAPACK failed", "code");
}
static int product_lapack(cn_call *c) { return product_with(c, true); }
static int product_kernel(cn_call *c) { return product_with(c, false); }

/* ---- ormqr(input, tau, other, left, transpose) ---- */

/* The reference works on the rows of `other`, so that from the right it is other^T, and the turn the other way. */
static int64_t apply_element(const cni_matjob *j, int64_t index, char *room)
{
  bool transpose = j->c->args[4].u.i != 0, turned = !j->left && !j->lapack;
  const cn_desc *x = cn_desc_of(j->c->in[2]);
  int64_t rows = x->shape[x->ndim - 2], cols = x->shape[x->ndim - 1];
  layout l = plan(j, steps_of(j->c), turned ? cols : rows, turned ? rows : cols);
  int info = 0;
  cni_mat mine = cni_mat_own(j, room + l.other, l.rows, l.cols), from = cni_mat_at(j, x, 2, index);
  gather_reflections(j, &l, index, room);
  cni_mat_move(mine, turned ? cni_mat_t(from) : from, l.rows, l.cols);
  if (j->lapack) {
    int m = (int)rows, n = (int)cols, k = (int)l.steps, lda = (int)j->m;
    j->lapack->ormqr[j->dtype == CN_F64](j->left ? "L" : "R", transpose ? "T" : "N", &m, &n, &k, room, &lda,
                                         room + l.tau, room + l.other, &m, room + l.work, &l.lwork, &info, 1, 1);
  } else {
    const double *a = doubles(room), *tau = doubles(room + l.tau);
    bool rising = j->left ? transpose : !transpose;
    for (int64_t s = 0; s < l.steps; s++) {
      int64_t i = rising ? s : l.steps - 1 - s;
      cni_reflect(doubles(room + l.other) + i * l.cols, j->m - i, l.cols, 0, l.cols, a + i * j->n + i, j->n, tau[i],
                  doubles(room + l.work));
    }
  }
  cni_mat to = cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index);
  cni_mat_move(turned ? cni_mat_t(to) : to, mine, l.rows, l.cols);
  return info;
}

static int apply_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  const cn_desc *x = cn_desc_of(c->in[2]);
  int64_t rows = x->shape[x->ndim - 2], cols = x->shape[x->ndim - 1];
  if (lapack && (rows > INT32_MAX / WORK || cols > INT32_MAX / WORK)) {
    c->refusal = "the other matrix is too large for LAPACK";
    return CN_REFUSED;
  }
  if (rows == 0 || cols == 0) return CN_OK;
  j.left = c->args[3].u.i != 0;
  layout l = plan(&j, steps_of(c), rows, cols);
  j.room = room_of(&j, &l);
  j.element = apply_element;
  return cni_matjob_run(&j, 4 * (double)rows * (double)cols * (double)l.steps, false, "LAPACK failed", "code");
}
static int apply_lapack(cn_call *c) { return apply_with(c, true); }
static int apply_kernel(cn_call *c) { return apply_with(c, false); }

const cn_kernel cni_cpu_linalg_reflect_kernels[] = {
    {"geqrf", "lapack", geqrf_lapack, cni_can_lapack},
    {"geqrf", "reference", geqrf_kernel},
    {"linalg_householder_product", "lapack", product_lapack, cni_can_lapack},
    {"linalg_householder_product", "reference", product_kernel},
    {"ormqr", "lapack", apply_lapack, cni_can_lapack},
    {"ormqr", "reference", apply_kernel},
    {NULL, NULL, NULL},
};
