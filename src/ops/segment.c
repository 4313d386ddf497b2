/* segment.c: the family of reductions of their own kind: of segments with lengths, and to a hash of bits.
 *
 * Place in the flow: composites; segments are numbered, and reduced by scatter. Invariant: what lies in no segment is
 * reduced into slots that are dropped. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "families.h"
#include "reduce.h"
#include "shorthand.h"

/* ---- segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial) ---- */

enum { DATA, REDUCE, LENGTHS, INDICES, OFFSETS, AXIS, UNSAFE, INITIAL }; /* parameters */

/* Where segments begin and the last ends, (..., n + 1), from the lengths, which are checked. */
static cn_tensor *starts_of(const cn_call *c, cn_tensor *lengths, int64_t size)
{
  cn_tensor *ends = cn_cumsum(lengths, -1), *first;
  int64_t shape[CN_MAX_DIMS];
  if (!ends) return NULL;
  memcpy(shape, lengths->d.shape, sizeof shape);
  shape[lengths->d.ndim - 1] = 1;
  if (!cni_arg_bool(c->args, UNSAFE)) {
    cn_check_within(lengths, 0, INFINITY, "segment_reduce: lengths must not be negative");
    cn_check_within(cn_sum(lengths, .dim = CN_INTS(-1)), (double)size, (double)size,
                    "segment_reduce: lengths must add up to the size of data along axis, unless unsafe");
  }
  first = cn_zeros(shape, (size_t)lengths->d.ndim, .dtype = cn_dtype_of(ends), .device = cn_device_of(ends));
  return cn_cat(CN_TENSORS(first, ends), .dim = -1);
}

/* The slot of each element along axis: 0 in front of the segments, then their numbers from 1, then what is behind. */
static cn_tensor *slots_of(cn_tensor *starts, const cn_desc *d, int axis)
{
  int64_t shape[CN_MAX_DIMS];
  for (int i = 0; i < d->ndim; i++) shape[i] = i <= axis ? d->shape[i] : 1;
  cn_tensor *at = cn_arange(0, (double)d->shape[axis], .dtype = CN_I64, .device = d->device);
  at = cn_contiguous(cn_expand(at, shape, (size_t)axis + 1));
  cn_tensor *slot = cn_searchsorted(cn_contiguous(starts), at, NULL, .right = true);
  return cn_expand(cn_reshape(slot, shape, (size_t)d->ndim), d->shape, (size_t)d->ndim);
}

static int segment_check(const cn_call *c, int axis)
{
  const cn_desc *d = &c->in[DATA]->d;
  cn_tensor *given = c->in[1] ? c->in[1] : c->in[3];
  if (!cni_dtype_is_float(d->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers");
  if (c->in[2]) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "indices are not implemented; give lengths or offsets");
  if (!given) return cn_call_fail(c, CN_ERR_VALUE, "takes either lengths or offsets");
  if (given->d.dtype != CN_I64 && given->d.dtype != CN_I32)
    return cn_call_fail(c, CN_ERR_DTYPE, "lengths and offsets must be int64 or int32");
  if (d->ndim == 0 || axis != given->d.ndim - 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "axis must be the last dimension of lengths or offsets, but is %d", axis);
  for (int i = 0; i < axis; i++)
    if (given->d.shape[i] != d->shape[i])
      return cn_call_fail(c, CN_ERR_SHAPE, "lengths and offsets must have data's sizes in front of axis");
  return CN_OK;
}

/* Of n segments: the sum, product or extreme in the slots [1, n]. first: what an empty one gives. */
static cn_tensor *in_slots(cn_tensor *x, cn_tensor *slot, int axis, int64_t n, const char *how, double first)
{
  int64_t shape[CN_MAX_DIMS];
  if (!x || !slot) return NULL;
  memcpy(shape, x->d.shape, sizeof shape);
  shape[axis] = n + 2;
  cn_tensor *to = cn_full(shape, (size_t)x->d.ndim, first, .dtype = cn_dtype_of(x),
                          .device = cn_device_of(x));
  return cn_narrow(cn_scatter_reduce(to, axis, slot, x, how), axis, 1, n);
}

static int segment_reduce_decompose(cn_call *c)
{
  static const struct { const char *name, *how; double first; } kinds[] = {
      {"sum", "sum", 0}, {"mean", "sum", 0}, {"prod", "prod", 1}, {"max", "amax", -INFINITY},
      {"amax", "amax", -INFINITY}, {"min", "amin", INFINITY}, {"amin", "amin", INFINITY}};
  const cn_desc *d = &c->in[DATA]->d;
  int axis = cn_call_dim(c, cni_arg_int(c->args, AXIS), d->ndim), kind = -1;
  int status = axis < 0 ? axis : segment_check(c, axis);
  for (int i = 0; i < 7; i++)
    if (cni_arg_is(c->args, REDUCE, kinds[i].name)) kind = i;
  if (!status && kind < 0)
    status = cn_call_fail(c, CN_ERR_VALUE, "reduce must be sum, mean, prod, max or min, not '%s'",
                          cni_arg_str(c->args, REDUCE));
  if (status) return status;
  cn_tensor *starts = c->in[1] ? starts_of(c, c->in[1], d->shape[axis]) : c->in[3];
  if (!starts) return cn_err();
  int64_t n = cn_size(starts, -1) - 1;
  cn_tensor *slot = slots_of(starts, d, axis), *x = c->in[DATA];
  cn_tensor *y = in_slots(x, slot, axis, n < 0 ? 0 : n, kinds[kind].how, kinds[kind].first);
  cn_tensor *initial = cni_arg_none(c->args, INITIAL) ? NULL : cni_number(&c->args[INITIAL]);
  if (initial && kind < 2) y = cn_add(y, initial);
  else if (initial && kind == 2) y = cn_mul(y, initial);
  else if (initial) y = cn_where(kind < 5 ? cn_lt(y, initial) : cn_gt(y, initial), initial, y);
  if (kind == 1) {
    cn_tensor *count = in_slots(cn_ones_like(x), slot, axis, n < 0 ? 0 : n, "sum", 0);
    y = cn_true_divide(y, initial ? cn_clamp_min(count, cn_num(1)) : count);
  }
  c->out[0] = y;
  return cn_err();
}

/* ---- hash_tensor(input, dim, keepdim, mode) ---- */

/* All along the last dim, which is not empty, made one by exclusive or. */
static cn_tensor *xor_last(cn_tensor *x)
{
  while (x && cn_size(x, -1) > 1) {
    int64_t n = cn_size(x, -1), half = n / 2;
    cn_tensor *y = cn_bitwise_xor(cn_narrow(x, -1, 0, half), cn_narrow(x, -1, half, half));
    x = n % 2 ? cn_cat(CN_TENSORS(y, cn_narrow(x, -1, n - 1, 1)), .dim = -1) : y;
  }
  return x;
}

static int hash_tensor_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[1], d->ndim, &mask);
  bool keep = cni_arg_bool(c->args, 2);
  int64_t order[CN_MAX_DIMS], shape[CN_MAX_DIMS], size[CN_MAX_DIMS], row = 1;
  int kept = 0, all = 0, last = 0;
  if (status) return status;
  if (cni_arg_int(c->args, 3) != 0) return cn_call_fail(c, CN_ERR_VALUE, "mode must be 0 (xor)");
  for (int i = 0; i < d->ndim; i++) {
    bool over = mask >> i & 1;
    if (over && d->shape[i] == 0)
      return cn_call_fail(c, CN_ERR_INDEX, "dimension %d has no elements to hash", i);
    if (over) row *= d->shape[i];
    if (!over || keep) shape[all++] = over ? 1 : d->shape[i];
    if (!over) order[kept] = i, size[kept++] = d->shape[i];
  }
  for (int i = 0; i < d->ndim; i++)
    if (mask >> i & 1) order[kept + last++] = i;
  cn_tensor *x = cn_dtype_of(c->in[0]) == CN_U64 ? cn_view_dtype(c->in[0], CN_I64)
                 : cni_dtype_is_float(d->dtype)  ? cn_view_dtype(cn_contiguous(cni_in_type(c->in[0], CN_F64)), CN_I64)
                                                 : cni_in_type(c->in[0], CN_I64);
  size[kept] = row;
  x = cn_reshape(cn_permute(x, order, (size_t)d->ndim), size, (size_t)kept + 1);
  c->out[0] = cn_view_dtype(cn_contiguous(cn_reshape(xor_last(x), shape, (size_t)all)), CN_U64);
  return cn_err();
}

/* clang-format off */
const cn_op cni_segment_ops[] = {
  {.sig = "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
          "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
   .doc = "Runs of elements along axis reduced to one each by 'sum', 'mean', 'prod', 'max' or 'min', together with "
          "initial. Of which lengths they are, or at which offsets they begin and the last ends, is (..., n), where "
          "... are data's sizes in front of axis. unsafe: lengths are not checked, and what lies behind them is left "
          "out.",
   .flags = CN_OP_COMPOSITE, .decompose = segment_reduce_decompose},
  {.sig = "hash_tensor(Tensor input, int[]? dim=None, *, bool keepdim=False, int mode=0) -> Tensor ; method",
   .doc = "The exclusive or of all elements' bits, or along dimensions, as uint64: those of floats as float64, of "
          "others as int64.",
   .flags = CN_OP_COMPOSITE, .decompose = hash_tensor_decompose},
};
/* clang-format on */
CNI_FAMILY(segment);
