/* embedding_renorm.c: the CPU kernel of embedding_renorm.
 *
 * Place in the flow: the family of ops/embedding_bag.c. Invariant: in place only the rows named are touched, and a row
 * named twice is scaled once. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/iter.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

/* A number as a tensor of the weights' type holds it: PyTorch keeps norm and factor so. */
static double stored(double x, int dtype)
{
  char room[8];
  cni_store_f64(room, 0, dtype, x);
  return cni_load_f64(room, 0, dtype);
}

static double row_norm(const cn_desc *w, int64_t row, double p)
{
  double sum = 0;
  for (int64_t i = 0; i < w->shape[1]; i++) {
    double x = fabs(cni_load_f64(w->data, row * w->strides[0] + i * w->strides[1], w->dtype));
    if (isinf(p)) sum = x > sum ? x : sum;
    else sum += p == 2 ? x * x : p == 1 ? x : pow(x, p);
  }
  return stored(isinf(p) || p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p), w->dtype);
}

static void scale_row(const cn_desc *w, int64_t row, double factor)
{
  for (int64_t i = 0; i < w->shape[1]; i++) {
    int64_t at = row * w->strides[0] + i * w->strides[1];
    cni_store_f64(w->data, at, w->dtype, cni_load_f64(w->data, at, w->dtype) * factor);
  }
}

/* embedding_renorm(input, indices, max_norm, norm_type) */
static int embedding_renorm_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *index = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  double most = c->args[2].u.f, p = c->args[3].u.f;
  for (int64_t i = 0; i < index->numel; i++) {
    int64_t row = cni_load_i64(index->data, cni_offset_of(index, i), index->dtype);
    if (row < 0 || row >= x->shape[0])
      return cn_call_fail(c, CN_ERR_INDEX, "index %lld is out of range for %lld rows", (long long)row,
                          (long long)x->shape[0]);
  }
  if (y->data != x->data) cni_cpu_copy(y, x);
  size_t rows = (size_t)x->shape[0] + 1;
  char *seen = cni_scratch_alloc(rows);
  if (!seen) return CN_ERR_MEMORY;
  memset(seen, 0, rows);
  for (int64_t i = 0; i < index->numel; i++) {
    int64_t row = cni_load_i64(index->data, cni_offset_of(index, i), index->dtype);
    double norm = seen[row] ? 0 : row_norm(y, row, p);
    if (norm > most) scale_row(y, row, stored(most / (norm + 1e-7), y->dtype));
    seen[row] = 1;
  }
  cni_scratch_free(seen, rows);
  return CN_OK;
}

const cn_kernel cni_cpu_embedding_renorm_kernels[] = {
    {"embedding_renorm", "reference", embedding_renorm_kernel},
    {NULL, NULL, NULL},
};
