/* matmul_int8.c: mm_dtype and bmm_dtype of int8 matrices with sums in int32, without wider copies of the operands.
 *
 * Place in the flow: the dispatcher calls it first; other types are refused and go through the decomposition, which
 * casts. Invariant: a row of the result is computed by one thread. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "matmul_int8.h"

enum { GRAIN_WORK = 1 << 18 }; /* multiply-adds worth waking a thread for */

typedef struct job {
  const cni_int8_loops *loops;
  const cn_desc *a, *b, *c; /* (m, k), (k, n), (m, n), each perhaps with a batch in front */
  int64_t m, n, k;
} job;

/* Strides of the batch, 0 without one. */
static int64_t step(const cn_desc *d) { return d->ndim == 3 ? d->strides[0] : 0; }

static void rows_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const int64_t *as = j->a->strides + j->a->ndim - 2, *bs = j->b->strides + j->b->ndim - 2;
  int64_t c_row = j->c->strides[j->c->ndim - 2];
  for (int64_t r = begin; r < end; r++) {
    int64_t batch = r / j->m, i = r % j->m;
    j->loops->row((int32_t *)j->c->data + batch * step(j->c) + i * c_row,
                  (const int8_t *)j->a->data + batch * step(j->a) + i * as[0], as[1],
                  (const int8_t *)j->b->data + batch * step(j->b), bs[0], j->n, j->k);
  }
}

static int int8_kernel(cn_call *call)
{
  const cn_desc *a = cn_desc_of(call->in[0]), *b = cn_desc_of(call->in[1]), *c = cn_desc_of(call->out[0]);
  int last = c->ndim - 1;
  job j = {CNI_BY_ISA(cni_int8_loops), a, b, c, c->shape[last - 1], c->shape[last], a->shape[last]};
  if (a->dtype != CN_I8 || c->dtype != CN_I32 || (c->strides[last] != 1 && c->numel)) {
    call->refusal = "only int8 to int32, into rows without gaps";
    return CN_REFUSED;
  }
  if (c->numel == 0) return CN_OK;
  cn_desc packed;
  size_t bytes = cni_dtype_bytes(CN_I8, b->numel);
  void *copy = NULL;
  if (b->strides[last] != 1 && b->numel) { /* a transposed view */
    if (!(copy = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
    packed = cni_cpu_packed(b, CN_I8, copy);
    cni_cpu_copy(&packed, b);
    j.b = &packed;
  }
  int64_t work = j.n * (j.k ? j.k : 1);
  cni_parallel_for(c->numel / j.n, GRAIN_WORK / work + 1, rows_range, &j);
  cni_scratch_free(copy, bytes);
  return CN_OK;
}

const cn_kernel cni_cpu_matmul_int8_kernels[] = {
    {"mm_dtype", "int8", int8_kernel},
    {"bmm_dtype", "int8", int8_kernel},
    {NULL, NULL, NULL},
};
