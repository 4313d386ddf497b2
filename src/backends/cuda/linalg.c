/* linalg.c: a call's batch of matrices: memory for it, and copies between there and its tensors. See linalg.h.
 *
 * Invariant: memory is freed while work is still queued, because whoever gets it next is queued behind (memory.c). */
#include "linalg.h"

#include <string.h>

enum { ALIGN = 256 };

cni_cuda_batch cni_cuda_batch_of(cn_call *c, const cn_desc *tensor, int core)
{
  cni_cuda_batch b = {.c = c, .d = cni_cuda_of(c), .name = cni_cuda_host->op_name(c->op), .ndim = tensor->ndim - core};
  b.count = 1;
  for (int i = 0; i < b.ndim; i++) {
    b.shape[i] = tensor->shape[i];
    b.count *= tensor->shape[i];
  }
  return b;
}

size_t cni_cuda_part(cni_cuda_batch *b, size_t bytes)
{
  size_t at = b->bytes;
  b->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
  return at;
}

int cni_cuda_batch_begin(cni_cuda_batch *b)
{
  b->memory = cni_cuda_scratch(b->d, b->name, b->bytes);
  return b->memory ? CN_OK : CN_ERR_MEMORY;
}

int cni_cuda_batch_end(cni_cuda_batch *b, int status)
{
  if (b->memory) cni_cuda_free(b->d, b->memory, b->bytes ? b->bytes : 1);
  return status;
}

/* ---- copies ---- */

static cn_desc ours(const cni_cuda_batch *b, const cni_cuda_matrices *m)
{
  cn_desc d = *cn_desc_of(b->c->in[0]);
  d.data = m->data;
  d.dtype = m->dtype;
  d.weak = 0;
  d.ndim = b->ndim + 2;
  d.numel = b->count * m->rows * m->cols;
  memcpy(d.shape, b->shape, (size_t)b->ndim * sizeof *d.shape);
  int64_t step = m->step;
  for (int i = b->ndim - 1; i >= 0; i--) {
    d.strides[i] = step;
    step *= b->shape[i];
  }
  d.shape[b->ndim] = m->rows, d.shape[b->ndim + 1] = m->cols;
  d.strides[b->ndim] = m->row, d.strides[b->ndim + 1] = m->col;
  return d;
}

/* A tensor with the dims of the batch and two behind them. */
static cn_desc theirs(const cni_cuda_batch *b, const cn_desc *t, int core, bool transposed)
{
  cn_desc d = *t;
  int lead = t->ndim - core, row = b->ndim + transposed, col = b->ndim + !transposed;
  d.ndim = b->ndim + 2;
  for (int i = 0; i < b->ndim; i++) {
    int k = lead - b->ndim + i;
    d.shape[i] = b->shape[i];
    d.strides[i] = k < 0 || t->shape[k] == 1 ? 0 : t->strides[k];
  }
  d.shape[row] = core ? t->shape[lead] : 1;
  d.strides[row] = core ? t->strides[lead] : 0;
  d.shape[col] = core == 2 ? t->shape[lead + 1] : 1;
  d.strides[col] = core == 2 ? t->strides[lead + 1] : 0;
  d.numel = b->count * d.shape[row] * d.shape[col];
  return d;
}

int cni_cuda_bring(const cni_cuda_batch *b, cni_cuda_matrices to, const cn_desc *from, int core, bool transposed)
{
  cn_desc mine = ours(b, &to), given = theirs(b, from, core, transposed);
  return mine.numel ? cni_cuda_copy_desc(b->d, b->name, &mine, &given) : CN_OK;
}

int cni_cuda_send(const cni_cuda_batch *b, const cn_desc *to, int core, bool transposed, cni_cuda_matrices from)
{
  cn_desc mine = ours(b, &from), wanted = theirs(b, to, core, transposed);
  return mine.numel ? cni_cuda_copy_desc(b->d, b->name, &wanted, &mine) : CN_OK;
}
