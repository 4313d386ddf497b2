/* iter.c: see iter.h. */
#include "iter.h"

#include <string.h>

#include "base/dtype.h"
#include "base/parallel.h"

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

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Should dim a lie outside dim b? The first operand that has an opinion decides. */
static bool outside(const cni_iter *it, int a, int b)
{
  for (int k = 0; k < it->n; k++) {
    int64_t x = magnitude(it->stride[k][a]), y = magnitude(it->stride[k][b]);
    if (x == 0 || y == 0 || x == y) continue;
    return x > y;
  }
  return a < b;
}

static void swap_dims(cni_iter *it, int a, int b)
{
  int64_t t = it->shape[a];
  it->shape[a] = it->shape[b];
  it->shape[b] = t;
  for (int k = 0; k < it->n; k++) {
    t = it->stride[k][a];
    it->stride[k][a] = it->stride[k][b];
    it->stride[k][b] = t;
  }
}

static bool mergeable(const cni_iter *it, int outer, int inner)
{
  for (int k = 0; k < it->n; k++)
    if (it->stride[k][outer] != it->stride[k][inner] * it->shape[inner]) return false;
  return true;
}

static void move_dim(cni_iter *it, int to, int from)
{
  it->shape[to] = it->shape[from];
  for (int k = 0; k < it->n; k++) it->stride[k][to] = it->stride[k][from];
}

void cni_iter_finish(cni_iter *it)
{
  int n = 0;
  for (int i = 0; i < it->ndim; i++)
    if (it->shape[i] != 1) move_dim(it, n++, i);
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && outside(it, j, j - 1); j--) swap_dims(it, j, j - 1);
  int m = 0;
  for (int i = 1; i < n; i++) {
    if (mergeable(it, m, i)) {
      int64_t size = it->shape[m] * it->shape[i];
      move_dim(it, m, i);
      it->shape[m] = size;
    } else {
      move_dim(it, ++m, i);
    }
  }
  it->ndim = n ? m + 1 : 0;
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
