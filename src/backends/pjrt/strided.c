/* strided.c: tensors whose elements lie apart in memory: how their array is cut out of what lies there, and put in.
 *
 * Place in the flow: record.c and whole.c read inputs and write results here; what is row-major goes straight to
 * memory.c. A view of a row-major array is a box in it, its dims in another order: the memory is seen as an array
 * whose dims are the view's strides, and the box is sliced out. Views that are no such box go by lists of positions.
 * Invariant: elements that are not the tensor's keep their values. */
#include <string.h>

#include "plugin.h"

#define host cni_pjrt_host

/* The memory as an array of n + 1 dims: size, and which part of each is the tensor's, every step-th one. order: the
 * tensor's dims that have several elements, largest stride first. */
typedef struct box {
  const char *begin;
  int64_t count, padded; /* elements of the memory that is looked at, and of the array, which may go beyond */
  int n;
  int order[CN_MAX_DIMS];
  int64_t size[CN_MAX_DIMS + 1], at[CN_MAX_DIMS + 1], len[CN_MAX_DIMS + 1], step[CN_MAX_DIMS + 1];
} box;

static bool is_dense(const cn_desc *d)
{
  int64_t step = 1;
  for (int i = d->ndim; i-- > 0; step *= d->shape[i])
    if (d->shape[i] != 1 && d->strides[i] != step) return false;
  return true;
}

/* The memory around the tensor; its first element is the offset-th there. */
static int look_around(box *b, int64_t *offset, const cn_desc *d)
{
  int64_t below = 0, above = 0, elem = (int64_t)cn_element_size(d->dtype);
  for (int i = 0; i < d->ndim; i++) *(d->strides[i] < 0 ? &below : &above) += d->strides[i] * (d->shape[i] - 1);
  const char *data = d->data;
  int status = cni_pjrt_around(data + below * elem, data + (above + 1) * elem, (size_t)elem, &b->begin, &b->count);
  if (!status) *offset = (data - b->begin) / elem;
  return status;
}

static int64_t stride_of(const cn_desc *d, int dim) { return d->strides[dim] < 0 ? -d->strides[dim] : d->strides[dim]; }

static void sort_dims(box *b, const cn_desc *d)
{
  b->n = 0;
  for (int i = 0; i < d->ndim; i++) {
    int k = b->n;
    if (d->shape[i] == 1 || !d->strides[i]) continue;
    for (; k > 0 && stride_of(d, b->order[k - 1]) < stride_of(d, i); k--) b->order[k] = b->order[k - 1];
    b->order[k] = i;
    b->n++;
  }
}

static int64_t common(int64_t a, int64_t b)
{
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Dims that run backwards are turned round: the box begins at their last element. */
static bool fit_box(box *b, int64_t offset, const cn_desc *d)
{
  sort_dims(b, d);
  if (b->n >= CN_MAX_DIMS) return false;
  for (int i = 0; i < b->n; i++)
    if (d->strides[b->order[i]] < 0) offset += d->strides[b->order[i]] * (d->shape[b->order[i]] - 1);
  for (int64_t i = 0, above = 0; i <= b->n; i++) {
    int64_t stride = i < b->n ? stride_of(d, b->order[i]) : 1, unit = i ? common(above, stride) : stride;
    b->at[i] = offset / unit;
    offset %= unit;
    b->len[i] = i < b->n ? d->shape[b->order[i]] : 1;
    b->step[i] = stride / unit;
    b->size[i] = i ? above / unit : (b->count + unit - 1) / unit;
    int64_t end = b->at[i] + (b->len[i] - 1) * b->step[i] + 1;
    if (!i && b->size[0] < end) b->size[0] = end;
    if (i && end > b->size[i]) return false;
    above = unit;
  }
  b->padded = 1;
  for (int i = 0; i <= b->n; i++) b->padded *= b->size[i];
  return true;
}

/* ---- pieces of programs; each takes v over ---- */

static pjrt_value *one(int index, const char *op, const cn_value *args, int nargs, pjrt_value *v, int ndim,
                       const int64_t *shape)
{
  pjrt_operand in = cni_pjrt_operand(v);
  pjrt_value *made = v ? cni_pjrt_op(index, op, args, nargs, &in, 1, v->dtype, ndim, shape) : NULL;
  cni_pjrt_value_release(v);
  return made;
}

static pjrt_value *permuted(int index, pjrt_value *v, const int64_t *dims, int n)
{
  int64_t shape[CN_MAX_DIMS];
  bool same = true;
  for (int i = 0; i < n; i++) shape[i] = v->shape[dims[i]], same = same && dims[i] == i;
  const cn_value args[] = {cni_pjrt_slot, cn_v_ints(dims, (size_t)n)};
  return same ? v : one(index, "permute", args, 2, v, n, shape);
}

/* The tensor's dims that run backwards, turned round. v has the tensor's dims. */
static pjrt_value *turned(int index, pjrt_value *v, const cn_desc *d)
{
  int64_t dims[CN_MAX_DIMS];
  size_t n = 0;
  for (int i = 0; i < d->ndim; i++)
    if (d->strides[i] < 0 && d->shape[i] > 1) dims[n++] = i;
  const cn_value args[] = {cni_pjrt_slot, cn_v_ints(dims, n)};
  return v && n ? one(index, "flip", args, 2, v, v->ndim, v->shape) : v;
}

static pjrt_value *expanded(int index, pjrt_value *v, int ndim, const int64_t *shape)
{
  const cn_value args[] = {cni_pjrt_slot, cn_v_ints(shape, (size_t)ndim)};
  return one(index, "expand", args, 2, v, ndim, shape);
}

static pjrt_value *two(int index, const char *op, const cn_value *args, int nargs, pjrt_value *a, pjrt_value *b,
                       int ndim, const int64_t *shape)
{
  const pjrt_operand in[] = {cni_pjrt_operand(a), cni_pjrt_operand(b)};
  pjrt_value *made = a && b ? cni_pjrt_op(index, op, args, nargs, in, 2, a->dtype, ndim, shape) : NULL;
  cni_pjrt_value_release(a);
  cni_pjrt_value_release(b);
  return made;
}

/* The memory as the box's array. */
static pjrt_value *boxed(int index, const box *b, int dtype)
{
  pjrt_value *v = cni_pjrt_read(index, b->begin, dtype, 1, &b->count);
  int64_t more = b->padded - b->count;
  if (v && more) {
    size_t bytes = cn_element_bytes(dtype, more);
    void *zeros = host->memory(bytes);
    if (zeros) memset(zeros, 0, bytes);
    pjrt_value *tail = zeros ? cni_pjrt_value_of(index, dtype, 1, &more, zeros, bytes) : NULL;
    if (zeros) host->free_memory(zeros, bytes);
    const cn_value args[] = {cn_v_tensors(NULL, 2), cn_v_int(0)};
    v = two(index, "cat", args, 2, v, tail, 1, &b->padded);
  }
  return v ? cni_pjrt_shaped(index, v, b->n + 1, b->size) : NULL;
}

/* Where dim k of the array without its last one stands among the tensor's dims that have several elements, and back. */
static void orders(int64_t *to_tensor, int64_t *to_box, const box *b)
{
  for (int i = 0; i < b->n; i++) {
    int before = 0;
    for (int k = 0; k < b->n; k++) before += b->order[k] < b->order[i];
    to_tensor[before] = i;
    to_box[i] = before;
  }
}

static pjrt_value *read_box(int index, const box *b, const cn_desc *d)
{
  int64_t to_tensor[CN_MAX_DIMS], to_box[CN_MAX_DIMS], shape[CN_MAX_DIMS];
  bool spread = false;
  pjrt_value *v = boxed(index, b, d->dtype);
  for (int i = 0; i <= b->n && v; i++) v = cni_pjrt_sliced(index, v, i, b->at[i], b->len[i], b->step[i]);
  if (v) v = cni_pjrt_shaped(index, v, b->n, b->len);
  orders(to_tensor, to_box, b);
  if (v) v = permuted(index, v, to_tensor, b->n);
  for (int i = 0; i < d->ndim; i++) {
    bool repeats = d->shape[i] != 1 && !d->strides[i];
    shape[i] = repeats ? 1 : d->shape[i];
    spread = spread || repeats;
  }
  if (v) v = turned(index, cni_pjrt_shaped(index, v, d->ndim, shape), d);
  return v && spread ? expanded(index, v, d->ndim, d->shape) : v;
}

/* src over every step-th part of v along dim, from `at` on. */
static pjrt_value *placed(int index, pjrt_value *v, pjrt_value *src, int dim, int64_t at, int64_t step)
{
  int64_t shape[CN_MAX_DIMS];
  int ndim = v ? v->ndim : 0;
  if (v && src && v->shape[dim] == src->shape[dim]) {
    cni_pjrt_value_release(v);
    return src;
  }
  if (v) memcpy(shape, v->shape, sizeof shape);
  const cn_value args[] = {cni_pjrt_slot, cni_pjrt_slot, cn_v_int(dim), cn_v_int(at),
                           cn_v_int(at + (src ? src->shape[dim] - 1 : 0) * step + 1), cn_v_int(step)};
  return two(index, "slice_scatter", args, 6, v, src, ndim, shape);
}

/* Takes src over, which has the tensor's shape. */
static pjrt_value *write_box(int index, const box *b, const cn_desc *d, pjrt_value *src)
{
  int64_t to_tensor[CN_MAX_DIMS], to_box[CN_MAX_DIMS], shape[CN_MAX_DIMS];
  pjrt_value *level[CN_MAX_DIMS + 2] = {boxed(index, b, d->dtype)};
  orders(to_tensor, to_box, b);
  for (int i = 0; i < b->n; i++) shape[i] = d->shape[b->order[to_tensor[i]]];
  src = turned(index, src, d);
  if (src) src = cni_pjrt_shaped(index, src, b->n, shape);
  if (src) src = permuted(index, src, to_box, b->n);
  if (src) src = cni_pjrt_shaped(index, src, b->n + 1, b->len);
  for (int i = 0; i < b->n && level[i]; i++)
    level[i + 1] = cni_pjrt_sliced(index, cni_pjrt_value_keep(level[i]), i, b->at[i], b->len[i], b->step[i]);
  for (int i = b->n; i >= 0; i--) src = placed(index, level[i], src, i, b->at[i], b->step[i]);
  if (src) src = cni_pjrt_shaped(index, src, 1, &b->padded);
  return src ? cni_pjrt_sliced(index, src, 0, 0, b->count, 1) : NULL;
}

/* ---- views that are no box: by positions ---- */

static pjrt_value *positions(int index, int64_t offset, const cn_desc *d)
{
  size_t bytes = (size_t)d->numel * sizeof(int64_t);
  int64_t *list = host->memory(bytes), at[CN_MAX_DIMS] = {0}, place = offset;
  if (!list) return NULL;
  for (int64_t i = 0; i < d->numel; i++) {
    list[i] = place;
    for (int k = d->ndim - 1; k >= 0; k--) {
      place += d->strides[k];
      if (++at[k] < d->shape[k]) break;
      place -= d->strides[k] * d->shape[k];
      at[k] = 0;
    }
  }
  pjrt_value *v = cni_pjrt_value_of(index, CN_I64, 1, &d->numel, list, bytes);
  host->free_memory(list, bytes);
  return v;
}

static pjrt_value *read_scattered(int index, const box *b, int64_t offset, const cn_desc *d)
{
  const cn_value args[] = {cni_pjrt_slot, cn_v_int(0), cni_pjrt_slot};
  pjrt_value *flat = cni_pjrt_read(index, b->begin, d->dtype, 1, &b->count);
  pjrt_value *v = two(index, "index_select", args, 3, flat, positions(index, offset, d), 1, &d->numel);
  return v ? cni_pjrt_shaped(index, v, d->ndim, d->shape) : NULL;
}

static pjrt_value *write_scattered(int index, const box *b, int64_t offset, const cn_desc *d, pjrt_value *src)
{
  const cn_value args[] = {cni_pjrt_slot, cn_v_int(0), cni_pjrt_slot, cni_pjrt_slot};
  pjrt_value *flat = cni_pjrt_read(index, b->begin, d->dtype, 1, &b->count), *at = positions(index, offset, d);
  src = cni_pjrt_shaped(index, src, 1, &d->numel);
  const pjrt_operand in[] = {cni_pjrt_operand(flat), cni_pjrt_operand(at), cni_pjrt_operand(src)};
  pjrt_value *v = NULL;
  if (flat && at && src) v = cni_pjrt_op(index, "index_copy", args, 4, in, 3, d->dtype, 1, &b->count);
  cni_pjrt_value_release(flat);
  cni_pjrt_value_release(at);
  cni_pjrt_value_release(src);
  return v;
}

/* ---- tensors ---- */

pjrt_value *cni_pjrt_read_tensor(int index, const cn_desc *d)
{
  box b;
  int64_t offset;
  if (!d->numel || is_dense(d)) return cni_pjrt_read(index, d->data, d->dtype, d->ndim, d->shape);
  if (look_around(&b, &offset, d)) return NULL;
  return fit_box(&b, offset, d) ? read_box(index, &b, d) : read_scattered(index, &b, offset, d);
}

int cni_pjrt_write_tensor(int index, const cn_desc *d, pjrt_value *v)
{
  box b;
  int64_t offset;
  if (!d->numel) return CN_OK;
  if (is_dense(d)) return cni_pjrt_write(index, d->data, v);
  int status = look_around(&b, &offset, d);
  if (status) return status;
  cni_pjrt_value_keep(v);
  pjrt_value *made = fit_box(&b, offset, d) ? write_box(index, &b, d, v) : write_scattered(index, &b, offset, d, v);
  if (!made) return CN_ERR_DEVICE;
  status = cni_pjrt_write(index, (void *)(uintptr_t)b.begin, made);
  cni_pjrt_value_release(made);
  return status;
}
