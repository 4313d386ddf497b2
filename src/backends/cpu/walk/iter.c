/* iter.c: see iter.h. */
#include "iter.h"

#include <string.h>

#include "base/dtype.h"
#include "base/parallel.h"
#include "tensor/tensor.h"

void cni_iter_begin(cni_iter *it, int ndim, const int64_t *shape)
{
  it->n = 0;
  it->ndim = ndim;
  it->numel = 1;
  for (int i = 0; i < ndim; i++) it->numel *= it->shape[i] = shape[i];
}

void cni_iter_add(cni_iter *it, const cn_desc *d)
{
  int64_t elem = (int64_t)cni_dtype_size(d->dtype), *stride = it->stride[it->n];
  int lead = it->ndim - d->ndim;
  for (int i = 0; i < it->ndim; i++)
    stride[i] = i < lead || (d->shape[i - lead] == 1 && it->shape[i] != 1) ? 0 : d->strides[i - lead] * elem;
  it->base[it->n++] = d->data;
}

void cni_iter_add_strided(cni_iter *it, void *base, const int64_t *strides, size_t elem)
{
  for (int i = 0; i < it->ndim; i++) it->stride[it->n][i] = strides[i] * (int64_t)elem;
  it->base[it->n++] = base;
}

void cni_iter_finish(cni_iter *it)
{
  it->ndim = cni_collapse(it->n, it->stride, it->ndim, it->shape);
  if (it->ndim == 0) { /* a scalar: one run of one element */
    it->ndim = 1;
    it->shape[0] = it->numel ? 1 : 0;
    for (int k = 0; k < it->n; k++) it->stride[k][0] = 0;
  }
}

typedef struct run {
  const cni_iter *it;
  cni_row_fn fn;
  void *payload;
} run;

/* Elements [begin, end) of the walk in row order. */
static void run_range(int64_t begin, int64_t end, void *payload)
{
  const run *r = payload;
  const cni_iter *it = r->it;
  int last = it->ndim - 1;
  int64_t index[CN_MAX_DIMS], step[CNI_ITER_OPERANDS], at = begin, rest = begin;
  char *ptr[CNI_ITER_OPERANDS];
  for (int k = 0; k < it->n; k++) {
    step[k] = it->stride[k][last];
    ptr[k] = it->base[k];
  }
  for (int i = last; i >= 0; i--) {
    index[i] = rest % it->shape[i];
    rest /= it->shape[i];
    for (int k = 0; k < it->n; k++) ptr[k] += index[i] * it->stride[k][i];
  }
  while (at < end) {
    int64_t n = it->shape[last] - index[last];
    if (n > end - at) n = end - at;
    r->fn(ptr, step, n, r->payload);
    at += n;
    if (at >= end) break;
    for (int k = 0; k < it->n; k++) ptr[k] -= index[last] * it->stride[k][last];
    index[last] = 0;
    for (int i = last - 1; i >= 0; i--) {
      index[i]++;
      for (int k = 0; k < it->n; k++) ptr[k] += it->stride[k][i];
      if (index[i] < it->shape[i]) break;
      for (int k = 0; k < it->n; k++) ptr[k] -= it->shape[i] * it->stride[k][i];
      index[i] = 0;
    }
  }
}

void cni_iter_run(const cni_iter *it, int64_t grain, cni_row_fn fn, void *payload)
{
  run r = {it, fn, payload};
  if (it->numel == 0) return;
  if (it->numel <= grain) run_range(0, it->numel, &r);
  else cni_parallel_for(it->numel, grain, run_range, &r);
}
