/* layout.c: arithmetic on shapes and strides, without tensors. Invariant: nothing here allocates. */
#include <stdio.h>
#include <string.h>

#include "tensor.h"

int64_t cni_numel(int ndim, const int64_t *shape)
{
  int64_t n = 1;
  for (int i = 0; i < ndim; i++) n *= shape[i];
  return n;
}

bool cni_shape_fits(int ndim, const int64_t *shape, size_t elem, int64_t *numel)
{
  int64_t n = 1, bytes;
  bool empty = false, overflow = false;
  if (ndim < 0 || ndim > CN_MAX_DIMS) return false;
  for (int i = 0; i < ndim; i++) {
    if (shape[i] < 0) return false;
    if (shape[i] == 0) empty = true;
    else overflow |= __builtin_mul_overflow(n, shape[i], &n);
  }
  *numel = empty ? 0 : n;
  return empty || !(overflow | __builtin_mul_overflow(n, (int64_t)elem, &bytes));
}

int cni_shape_check(const char *who, int ndim, const int64_t *shape, size_t elem, int64_t *numel)
{
  if (cni_shape_fits(ndim, shape, elem, numel)) return CN_OK;
  if (ndim < 0 || ndim > CN_MAX_DIMS)
    return cni_fail(CN_ERR_SHAPE, "%s: %d dimensions; at most %d are supported", who, ndim, CN_MAX_DIMS);
  for (int i = 0; i < ndim; i++)
    if (shape[i] < 0)
      return cni_fail(CN_ERR_SHAPE, "%s: size %lld of dimension %d is negative", who, (long long)shape[i], i);
  return cni_fail(CN_ERR_SHAPE, "%s: the shape is too large", who);
}

void cni_contiguous_strides(int ndim, const int64_t *shape, int64_t *strides)
{
  int64_t step = 1;
  for (int i = ndim - 1; i >= 0; i--) {
    strides[i] = step;
    step *= shape[i] > 1 ? shape[i] : 1;
  }
}

bool cni_is_contiguous(int ndim, const int64_t *shape, const int64_t *strides)
{
  int64_t step = 1;
  bool fits = true;
  for (int i = ndim - 1; i >= 0; i--) {
    if (shape[i] == 0) return true; /* an empty tensor is contiguous whatever its strides */
    if (shape[i] == 1) continue;
    if (strides[i] != step) fits = false;
    step *= shape[i];
  }
  return fits;
}

void cni_channels_last_strides(int ndim, const int64_t *shape, int64_t *strides)
{
  int64_t step = 1;
  strides[1] = step;
  step *= shape[1] > 1 ? shape[1] : 1;
  for (int i = ndim - 1; i >= 2; i--) {
    strides[i] = step;
    step *= shape[i] > 1 ? shape[i] : 1;
  }
  strides[0] = step;
}

bool cni_is_channels_last(int ndim, const int64_t *shape, const int64_t *strides)
{
  int64_t want[CN_MAX_DIMS];
  if (ndim != 4 && ndim != 5) return false;
  cni_channels_last_strides(ndim, shape, want);
  for (int i = 0; i < ndim; i++)
    if (shape[i] != 1 && strides[i] != want[i]) return false;
  return true;
}

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Indices of dims sorted by falling |stride|; ties keep their order. Size-1 dims are left out; returns the count. */
static int sorted_dims(int ndim, const int64_t *shape, const int64_t *strides, int *order)
{
  int n = 0;
  for (int i = 0; i < ndim; i++) {
    if (shape[i] == 1) continue;
    int j = n++;
    while (j > 0 && magnitude(strides[order[j - 1]]) < magnitude(strides[i])) {
      order[j] = order[j - 1];
      j--;
    }
    order[j] = i;
  }
  return n;
}

bool cni_is_dense(int ndim, const int64_t *shape, const int64_t *strides)
{
  int order[CN_MAX_DIMS], n = sorted_dims(ndim, shape, strides, order);
  int64_t step = 1;
  for (int k = n - 1; k >= 0; k--) {
    int i = order[k];
    if (shape[i] == 0) return true;
    if (strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

bool cni_may_overlap(int ndim, const int64_t *shape, const int64_t *strides)
{
  int order[CN_MAX_DIMS], n = sorted_dims(ndim, shape, strides, order);
  int64_t reach = 0; /* the farthest offset of the dims with smaller strides */
  for (int k = n - 1; k >= 0; k--) {
    int i = order[k];
    if (shape[i] == 0) return false;
    int64_t step = magnitude(strides[i]);
    if (step <= reach) return true;
    reach += step * (shape[i] - 1);
  }
  return false;
}

void cni_span(const cn_desc *d, int64_t *below, int64_t *above)
{
  *below = *above = 0;
  for (int i = 0; i < d->ndim; i++) {
    int64_t reach = d->strides[i] * (d->shape[i] - 1);
    if (reach < 0) *below -= reach;
    else *above += reach;
  }
}

bool cni_broadcasts_to(int ndim, const int64_t *shape, int to_dim, const int64_t *to_shape)
{
  if (ndim > to_dim) return false;
  for (int i = 0; i < ndim; i++)
    if (shape[i] != 1 && shape[i] != to_shape[to_dim - ndim + i]) return false;
  return true;
}

bool cni_broadcast(int *ndim, int64_t *shape, int bdim, const int64_t *bshape)
{
  int n = *ndim > bdim ? *ndim : bdim;
  int64_t out[CN_MAX_DIMS];
  for (int i = 0; i < n; i++) {
    int ia = *ndim - n + i, ib = bdim - n + i;
    int64_t a = ia >= 0 ? shape[ia] : 1, b = ib >= 0 ? bshape[ib] : 1;
    if (a != b && a != 1 && b != 1) return false;
    out[i] = a == 1 ? b : a;
  }
  memcpy(shape, out, (size_t)n * sizeof *out);
  *ndim = n;
  return true;
}

const char *cni_shape_text(char *out, size_t size, int ndim, const int64_t *shape)
{
  size_t at = 0;
  at += (size_t)snprintf(out, size, "(");
  for (int i = 0; i < ndim && at + 24 < size; i++)
    at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
  if (at + 3 < size) snprintf(out + at, size - at, ndim == 1 ? ",)" : ")");
  return out;
}

bool cni_view_strides(int ndim, const int64_t *shape, const int64_t *strides, int new_ndim, const int64_t *new_shape,
                      int64_t *new_strides)
{
  if (cni_numel(ndim, shape) == 0) {
    cni_contiguous_strides(new_ndim, new_shape, new_strides);
    return true;
  }
  /* Walk from the back: each run of old dims that lies densely in memory must be filled exactly by new dims. */
  int v = new_ndim - 1;
  int64_t run = 1, filled = 1, base = ndim ? strides[ndim - 1] : 1;
  for (int i = ndim - 1; i >= 0; i--) {
    run *= shape[i];
    bool run_ends = i == 0 || (shape[i - 1] != 1 && strides[i - 1] != run * base);
    if (!run_ends) continue;
    while (v >= 0 && (filled < run || new_shape[v] == 1)) {
      new_strides[v] = filled * base;
      filled *= new_shape[v--];
    }
    if (filled != run) return false;
    if (i > 0) {
      base = strides[i - 1];
      run = filled = 1;
    }
  }
  while (v >= 0) new_strides[v--] = filled * base;
  return true;
}

/* ---- walks over several operands ---- */

/* Should dim a lie outside dim b? The first operand that has an opinion decides. */
static bool outside(int n, int64_t (*stride)[CN_MAX_DIMS], int a, int b)
{
  for (int k = 0; k < n; k++) {
    int64_t x = magnitude(stride[k][a]), y = magnitude(stride[k][b]);
    if (x != 0 && y != 0 && x != y) return x > y;
  }
  return a < b;
}

static void swap(int64_t *x, int64_t *y)
{
  int64_t t = *x;
  *x = *y;
  *y = t;
}

static void swap_dims(int n, int64_t (*stride)[CN_MAX_DIMS], int64_t *shape, int a, int b)
{
  swap(&shape[a], &shape[b]);
  for (int k = 0; k < n; k++) swap(&stride[k][a], &stride[k][b]);
}

static void move_dim(int n, int64_t (*stride)[CN_MAX_DIMS], int64_t *shape, int to, int from)
{
  shape[to] = shape[from];
  for (int k = 0; k < n; k++) stride[k][to] = stride[k][from];
}

static bool mergeable(int n, int64_t (*stride)[CN_MAX_DIMS], const int64_t *shape, int outer, int inner)
{
  for (int k = 0; k < n; k++)
    if (stride[k][outer] != stride[k][inner] * shape[inner]) return false;
  return true;
}

int cni_collapse(int n, int64_t (*stride)[CN_MAX_DIMS], int ndim, int64_t *shape)
{
  int left = 0, m = 0;
  for (int i = 0; i < ndim; i++)
    if (shape[i] != 1) move_dim(n, stride, shape, left++, i);
  for (int i = 1; i < left; i++)
    for (int j = i; j > 0 && outside(n, stride, j, j - 1); j--) swap_dims(n, stride, shape, j, j - 1);
  for (int i = 1; i < left; i++) {
    int64_t size = shape[m] * shape[i];
    bool one = mergeable(n, stride, shape, m, i);
    move_dim(n, stride, shape, one ? m : ++m, i);
    if (one) shape[m] = size;
  }
  return left ? m + 1 : 0;
}
