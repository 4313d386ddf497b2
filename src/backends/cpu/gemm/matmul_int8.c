/* matmul_int8.c: mm_dtype and bmm_dtype of int8 matrices with sums in int32, without wider copies of the operands.
 *
 * Place in the flow: the dispatcher calls it first; other types are refused and go through the decomposition, which
 * casts. Rows go by the plain loops or, where an ARM processor adds up several products at once and there are several
 * rows, by tiles. Invariant: a row of the result is computed by one thread. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "gemm_isa.h"
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

#if defined(__aarch64__)

enum { FEW_ROWS = 4 }; /* fewer are not worth packing b for */

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* One product of a batch. An element is as many int8 along k as the kernels' instruction adds up. */
typedef struct dot_job {
  const cni_gemm_kernels *ker;
  const int8_t *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  int32_t *c;
  int64_t c_row;
  int64_t m, n, k, depth; /* depth: elements along k */
  int8_t *packed;         /* column panels of b: (depth, nr) elements */
} dot_job;

/* `count` rows of k bytes, i_step and k_step apart, as elements to[(t * width + i) * size], filled with 0. */
static void put_panel(const dot_job *q, int8_t *to, int width, const int8_t *from, int64_t i_step, int64_t k_step,
                      int64_t count)
{
  const int64_t size = (int64_t)q->ker->size, apart = width * size;
  if (count < width || q->k % size) memset(to, 0, (size_t)(q->depth * apart));
  for (int64_t i = 0; i < count; i++, from += i_step, to += size)
    for (int64_t k = 0; k < q->k; k += size) {
      int8_t *element = to + k / size * apart;
      for (int64_t t = 0; t < least(size, q->k - k); t++) element[t] = from[(k + t) * k_step];
    }
}

/* Items: column panels of b. */
static void pack_range(int64_t begin, int64_t end, void *payload)
{
  const dot_job *q = payload;
  const int64_t nr = q->ker->nr;
  for (int64_t p = begin; p < end; p++)
    put_panel(q, q->packed + p * nr * q->depth * (int64_t)q->ker->size, (int)nr, q->b + p * nr * q->b_col, q->b_col,
              q->b_row, least(nr, q->n - p * nr));
}

/* Items: row panels of a. */
static void panels_range(int64_t begin, int64_t end, void *payload)
{
  const dot_job *q = payload;
  const int64_t mr = q->ker->mr;
  size_t bytes = (size_t)(mr * q->depth) * q->ker->size;
  int8_t *room = cni_scratch_alloc(bytes);
  if (!room) return; /* the error is set, and reaches the caller */
  for (int64_t p = begin; p < end; p++) {
    int64_t first = p * mr, rows = least(mr, q->m - first);
    put_panel(q, room, (int)mr, q->a + first * q->a_row, q->a_row, q->a_col, rows);
    cni_gemm_run r = {.a = room,
                      .a_row = 1,
                      .a_col = mr,
                      .b = q->packed,
                      .c = q->c + first * q->c_row,
                      .c_row = q->c_row,
                      .c_col = 1,
                      .rows = (int)rows,
                      .cols = q->n,
                      .depth = q->depth,
                      .alpha = 1};
    q->ker->run(&r);
  }
  cni_scratch_free(room, bytes);
}

static dot_job dots_of(const job *j, const cni_gemm_kernels *ker, int8_t *packed, int64_t batch)
{
  const int64_t *as = j->a->strides + j->a->ndim - 2, *bs = j->b->strides + j->b->ndim - 2;
  return (dot_job){.ker = ker,
                   .a = (const int8_t *)j->a->data + batch * step(j->a),
                   .b = (const int8_t *)j->b->data + batch * step(j->b),
                   .a_row = as[0],
                   .a_col = as[1],
                   .b_row = bs[0],
                   .b_col = bs[1],
                   .c = (int32_t *)j->c->data + batch * step(j->c),
                   .c_row = j->c->strides[j->c->ndim - 2],
                   .m = j->m,
                   .n = j->n,
                   .k = j->k,
                   .depth = (j->k + (int64_t)ker->size - 1) / (int64_t)ker->size,
                   .packed = packed};
}

/* NULL where the machine has no such instruction, or the plain loops are better. */
static const cni_gemm_kernels *dot_kernels(const job *j)
{
  int terms = j->m >= FEW_ROWS && j->k > 0 ? cni_cpu_int8_terms() : 0;
  return terms == 8 ? &cni_gemm_octets : terms == 4 ? &cni_gemm_quads : NULL;
}

static int run_dots(const job *j, const cni_gemm_kernels *ker)
{
  const int64_t nr = ker->nr, mr = ker->mr, panels = (j->n + nr - 1) / nr, k = j->k + (int64_t)ker->size;
  size_t bytes = (size_t)(panels * nr * k);
  int8_t *packed = cni_scratch_alloc(bytes);
  if (!packed) return CN_ERR_MEMORY;
  for (int64_t batch = 0; batch < j->c->numel / (j->m * j->n); batch++) {
    dot_job q = dots_of(j, ker, packed, batch);
    cni_parallel_for(panels, GRAIN_WORK / (8 * nr * k) + 1, pack_range, &q);
    cni_parallel_for((j->m + mr - 1) / mr, GRAIN_WORK / (mr * j->n * k / 4) + 1, panels_range, &q);
  }
  cni_scratch_free(packed, bytes);
  return cn_err();
}

#endif

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
#if defined(__aarch64__)
  const cni_gemm_kernels *ker = dot_kernels(&j);
  if (ker) return run_dots(&j, ker);
#endif
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
