/* iter.c: see iter.h. */
#include "iter.h"

#include <string.h>

#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

void cni_iter_begin(cni_iter *it, int ndim, const int64_t *shape)
{
  it->n = 0;
  it->room = CNI_ITER_FEW;
  it->base = it->few_base;
  it->stride = it->few_stride;
  it->ndim = ndim;
  it->numel = 1;
  for (int i = 0; i < ndim; i++) it->numel *= it->shape[i] = shape[i];
}

static size_t room_bytes(int n) { return (size_t)n * (sizeof(char *) + CN_MAX_DIMS * sizeof(int64_t)); }

int cni_iter_room(cni_iter *it, int n)
{
  if (n <= CNI_ITER_FEW) return CN_OK;
  int64_t(*more)[CN_MAX_DIMS] = cni_scratch_alloc(room_bytes(n));
  if (!more) return CN_ERR_MEMORY;
  it->stride = more;
  it->base = (char **)(void *)(more + n);
  it->room = n;
  return CN_OK;
}

void cni_iter_end(cni_iter *it)
{
  if (it->stride != it->few_stride) cni_scratch_free(it->stride, room_bytes(it->room));
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

/* Elements [begin, end) of the walk in row order; ptr and step: room for each operand's. */
static void walk_range(const run *r, int64_t begin, int64_t end, char **ptr, int64_t *step)
{
  const cni_iter *it = r->it;
  int last = it->ndim - 1;
  int64_t index[CN_MAX_DIMS], at = begin, rest = begin;
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
    for (int k = 0; index[last] && k < it->n; k++) ptr[k] -= index[last] * it->stride[k][last];
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

static CNI_APART void run_many(const run *r, int64_t begin, int64_t end)
{
  size_t n = (size_t)r->it->n, bytes = n * (sizeof(char *) + sizeof(int64_t));
  int64_t *step = cni_scratch_alloc(bytes);
  if (!step) return;
  walk_range(r, begin, end, (char **)(void *)(step + n), step);
  cni_scratch_free(step, bytes);
}

static void run_range(int64_t begin, int64_t end, void *payload)
{
  const run *r = payload;
  int64_t step[CNI_ITER_FEW];
  char *ptr[CNI_ITER_FEW];
  if (CNI_LIKELY(r->it->n <= CNI_ITER_FEW)) walk_range(r, begin, end, ptr, step);
  else run_many(r, begin, end);
}

void cni_iter_run(const cni_iter *it, int64_t grain, cni_row_fn fn, void *payload)
{
  run r = {it, fn, payload};
  if (it->numel == 0) return;
  if (it->numel <= grain) run_range(0, it->numel, &r);
  else cni_parallel_for(it->numel, grain, run_range, &r);
}
