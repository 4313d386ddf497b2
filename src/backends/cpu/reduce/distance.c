/* distance.c: kernels of cdist: distances of all pairs of rows, and the gradient of the first set.
 *
 * Flow: rows are made contiguous, then blocks of rows of x1 run in parallel over the loops of distance_isa.c.
 * Invariant:
 * a row of the result is computed by one thread, over x2 in order. */
#include "distance.h"

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/linalg/linalg.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "base/state.h"

enum { GRAIN_WORK = 1 << 16 }; /* differences worth waking a thread for */

typedef struct job {
  const cni_distance_table *table;
  const char *x1, *x2; /* (batch, p, m), (batch, r, m), packed */
  cn_call *c;
  cni_matjob where; /* the batch, for views of matrices */
  int64_t p, r, m, elem;
  double order;
} job;

/* All matrices of the batch one after another. NULL with the error set. */
static char *pack(const job *j, const cn_desc *d, int64_t rows, int64_t batch, size_t *bytes)
{
  *bytes = (size_t)(batch * rows * j->m * j->elem);
  char *to = cni_scratch_alloc(*bytes);
  for (int64_t b = 0; to && b < batch; b++)
    cni_mat_move((cni_mat){to + b * rows * j->m * j->elem, j->m, 1, d->dtype}, cni_mat_at(&j->where, d, 2, b), rows,
                 j->m);
  return to;
}

static void forward_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  char *y = cn_desc_of(j->c->out[0])->data;
  for (int64_t i = begin; i < end; i++)
    j->table->distance[j->elem == 8](y + i * j->r * j->elem, j->x1 + i * j->m * j->elem,
                                     j->x2 + i / j->p * j->r * j->m * j->elem, j->r, j->m, j->order);
}

static void backward_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cn_desc *g = cn_desc_of(j->c->in[0]), *dist = cn_desc_of(j->c->in[3]), *out = cn_desc_of(j->c->out[0]);
  size_t bytes = (size_t)j->m * sizeof(double);
  double *sum = cni_scratch_alloc(bytes);
  for (int64_t i = begin; sum && i < end; i++) {
    int64_t batch = i / j->p, row = i % j->p;
    cni_mat gm = cni_mat_at(&j->where, g, 2, batch), dm = cni_mat_at(&j->where, dist, 2, batch);
    for (int64_t k = 0; k < j->m; k++) sum[k] = 0;
    const char *g_row = gm.data + row * gm.row * j->elem, *d_row = dm.data + row * dm.row * j->elem;
    const char *x = j->x1 + i * j->m * j->elem, *rows = j->x2 + batch * j->r * j->m * j->elem;
    j->table->slope[j->elem == 8](sum, g_row, gm.col, d_row, dm.col, x, rows, j->r, j->m, j->order);
    cni_mat_move((cni_mat){(char *)out->data + i * j->m * j->elem, j->m, 1, out->dtype},
                 (cni_mat){(char *)sum, j->m, 1, CN_F64}, 1, j->m);
  }
  cni_scratch_free(sum, bytes);
}

/* first: which input is x1. The result's batch is the whole one in both ops. */
static int run(cn_call *c, int first, double order, cni_range_fn range)
{
  const cn_desc *x1 = cn_desc_of(c->in[first]), *x2 = cn_desc_of(c->in[first + 1]), *out = cn_desc_of(c->out[0]);
  job j = {.table = CNI_BY_ISA(cni_distance_table),
           .c = c,
           .where = {.nbatch = out->ndim - 2, .batch_shape = out->shape},
           .p = x1->shape[x1->ndim - 2],
           .r = x2->shape[x2->ndim - 2],
           .m = x1->shape[x1->ndim - 1],
           .elem = x1->dtype == CN_F64 ? 8 : 4,
           .order = order};
  int64_t batch = 1, each = j.r * j.m;
  for (int i = 0; i < out->ndim - 2; i++) batch *= out->shape[i];
  if (out->numel == 0) return CN_OK;
  size_t size1 = 0, size2 = 0;
  char *a = pack(&j, x1, j.p, batch, &size1), *b = a ? pack(&j, x2, j.r, batch, &size2) : NULL;
  j.x1 = a;
  j.x2 = b;
  if (b) cni_parallel_for(batch * j.p, GRAIN_WORK / (each + 1) + 1, range, &j);
  cni_scratch_free(b, size2);
  cni_scratch_free(a, size1);
  return cni_state()->err;
}

static int forward_kernel(cn_call *c) { return run(c, 0, c->args[2].u.f, forward_range); }
static int backward_kernel(cn_call *c) { return run(c, 1, c->args[4].u.f, backward_range); }

const cn_kernel cni_cpu_distance_kernels[] = {
    {"cdist_forward", "loops", forward_kernel},
    {"cdist_backward", "loops", backward_kernel},
    {NULL, NULL, NULL},
};
