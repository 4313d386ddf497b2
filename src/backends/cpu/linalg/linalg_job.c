/* linalg_job.c: jobs over batches of matrices: where each matrix lies, moving it, running the batch, errors.
 *
 * Place in the flow: every linear algebra kernel ends here. Invariant: a batch is split by matrices only; a library
 * works on one thread within a batch, so that the split does not change a result. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "base/state.h"
#include "linalg.h"

enum {
  LAPACK_FROM = 48,    /* rows from which on a library is worth its call */
  GRAIN_WORK = 1 << 17 /* multiply-adds worth waking a thread for */
};

cni_mat cni_mat_at(const cni_matjob *j, const cn_desc *d, int core, int64_t index)
{
  int lead = d->ndim - core;
  int64_t offset = 0;
  for (int i = j->nbatch - 1, k = lead - 1; i >= 0 && k >= 0; i--, k--) {
    if (d->shape[k] != 1) offset += index % j->batch_shape[i] * d->strides[k];
    index /= j->batch_shape[i];
  }
  int64_t elem = (int64_t)cni_dtype_size(d->dtype);
  return (cni_mat){(char *)d->data + offset * elem, core ? d->strides[lead] : 0, core == 2 ? d->strides[lead + 1] : 0,
                   d->dtype};
}

#define MOVE(T, F)                                                        \
  for (int64_t i = 0; i < m; i++) {                                       \
    T *t = (T *)(void *)to.data + i * to.row;                             \
    const F *f = (const F *)(const void *)from.data + i * from.row;       \
    for (int64_t k = 0; k < n; k++) t[k * to.col] = (T)f[k * from.col];   \
  }

/* The real (0) or imaginary (1) parts of a complex matrix. */
static cni_mat part_of(cni_mat x, int part)
{
  int dtype = cni_dtype_part(x.dtype);
  return (cni_mat){x.data + part * (int)cni_dtype_size(dtype), 2 * x.row, 2 * x.col, dtype};
}

void cni_mat_move(cni_mat to, cni_mat from, int64_t m, int64_t n)
{
  if (cni_dtype_is_complex(to.dtype)) {
    static double zero;
    bool both = cni_dtype_is_complex(from.dtype);
    cni_mat_move(part_of(to, 0), both ? part_of(from, 0) : from, m, n);
    cni_mat_move(part_of(to, 1), both ? part_of(from, 1) : (cni_mat){(char *)&zero, 0, 0, CN_F64}, m, n);
    return;
  }
  if (to.dtype == CN_I32) MOVE(int32_t, double)
  else if (to.dtype == CN_F64 && from.dtype == CN_F64) MOVE(double, double)
  else if (to.dtype == CN_F64) MOVE(double, float)
  else if (from.dtype == CN_F64) MOVE(float, double)
  else MOVE(float, float)
}

void cni_mat_fill(cni_mat to, double value, int64_t m, int64_t n)
{
  cni_mat_move(to, (cni_mat){(char *)&value, 0, 0, CN_F64}, m, n);
}

/* ---- over the batch ---- */

static void element_range(int64_t begin, int64_t end, void *payload)
{
  const cni_matjob *j = payload;
  char *room = cni_scratch_alloc(j->room);
  for (int64_t i = begin; room && i < end; i++) j->failed[i] = j->element(j, i, room);
  cni_scratch_free(room, j->room);
}

/* The first failure of the batch, as an error. */
static int report(const cni_matjob *j, const char *what, const char *where)
{
  int64_t i = 0;
  while (i < j->batch && !j->failed[i]) i++;
  if (i == j->batch) return CN_OK;
  if (j->batch == 1)
    return cn_call_fail(j->c, CN_ERR_VALUE, "%s (%s %lld)", what, where, (long long)j->failed[i]);
  return cn_call_fail(j->c, CN_ERR_VALUE, "batch element %lld: %s (%s %lld)", (long long)i, what, where,
                      (long long)j->failed[i]);
}

static void write_info(const cni_matjob *j)
{
  const cn_desc *d = cn_desc_of(j->c->out[j->info]);
  for (int64_t i = 0; i < j->batch; i++) cni_mat_fill(cni_mat_at(j, d, 0, i), (double)j->failed[i], 1, 1);
}

int cni_matjob_run(cni_matjob *j, double work, bool check, const char *what, const char *where)
{
  j->batch = 1;
  for (int i = 0; i < j->nbatch; i++) j->batch *= j->batch_shape[i];
  if (j->batch == 0) return CN_OK;
  size_t bytes = (size_t)j->batch * sizeof *j->failed;
  j->failed = cni_scratch_alloc_zero(bytes);
  if (!j->failed) return CN_ERR_MEMORY;
  double few = GRAIN_WORK / (work < 1 ? 1 : work);
  if (j->lapack) cni_lapack_threads(j->batch, j->m > j->n ? j->m : j->n);
  cni_parallel_for(j->batch, few < 1 ? 1 : (int64_t)few, element_range, j);
  int status = cni_state()->err;
  if (!status && j->info) write_info(j);
  if (!status && (!j->info || check)) status = report(j, what, where);
  cni_scratch_free(j->failed, bytes);
  return status;
}

static const char no_lapack[] = "no LAPACK library was found", is_complex[] = "the matrix is complex";

int cni_can_lapack(const cn_call *c, cn_plan *plan)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t m = a->shape[a->ndim - 2], n = a->shape[a->ndim - 1], low = m < n ? m : n, high = m < n ? n : m;
  plan->refusal = cni_dtype_is_complex(a->dtype)             ? is_complex
                  : low < LAPACK_FROM                        ? "the matrix is too small for LAPACK"
                  : low > 16000 || high > INT32_MAX / 64     ? "the matrix is too large for LAPACK" /* 32-bit sizes */
                  : !cni_lapack_get()                        ? no_lapack
                                                             : NULL;
  return plan->refusal ? CN_REFUSED : CN_OK;
}

int cni_can_complex(const cn_call *c, cn_plan *plan)
{
  plan->refusal = cni_dtype_is_complex(cn_desc_of(c->in[0])->dtype) ? NULL : "the matrix is real";
  return plan->refusal ? CN_REFUSED : CN_OK;
}

int cni_matjob_begin(cni_matjob *j, cn_call *c, bool lapack, int core)
{
  const cn_desc *a = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  *j = (cni_matjob){.c = c,
                    .m = a->shape[a->ndim - 2],
                    .n = a->shape[a->ndim - 1],
                    .nbatch = out->ndim - core,
                    .batch_shape = out->shape,
                    .dtype = lapack ? a->dtype : CN_F64,
                    .left = true};
  if (cni_dtype_is_complex(a->dtype)) {
    c->refusal = is_complex;
    return CN_REFUSED;
  }
  if (!lapack) return CN_OK;
  c->refusal = no_lapack;
  j->lapack = cni_lapack_get();
  return j->lapack ? CN_OK : CN_REFUSED;
}
