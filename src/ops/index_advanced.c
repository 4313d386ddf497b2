/* index_advanced.c: advanced indexing: the family of ops that select by several index tensors or by masks: index,
 * index_put, nonzero and what is made of them. A mask is the list of its true positions (nonzero), so kernels see
 * integers only.
 *
 * Place in the flow: apply -> infer -> a kernel, or, with masks, decompose -> nonzero -> the same op again.
 * Invariant: negative indices count from the end here (and only here); any other index outside its dim is an error.
 */
#include "cost.h"
#include "index_advanced.h"

#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

/* ---- the plan ---- */

/* How many of the input's dims this index takes; negative: an error. */
static int dims_taken(const cn_call *c, const cn_desc *x, const cn_tensor *t, int at)
{
  const cn_desc *d = &t->d;
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  if (d->dtype == CN_U8)
    return cn_call_fail(c, CN_ERR_DTYPE, "uint8 indices are ambiguous; cast masks to bool and positions to int64");
  bool mask = d->dtype == CN_BOOL;
  if (!mask && !(cni_dtype_is_int(d->dtype) && cni_dtype_computes(d->dtype)))
    return cn_call_fail(c, CN_ERR_DTYPE, "indices must be integers or bool masks, not %s",
                        cn_dtype_name((cn_dtype)d->dtype));
  if (mask && d->ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "a mask must have at least one dimension");
  int taken = mask ? d->ndim : 1;
  if (at + taken > x->ndim)
    return cn_call_fail(c, CN_ERR_INDEX, "too many indices for a tensor of %d dimensions", x->ndim);
  for (int i = 0; mask && i < taken; i++)
    if (d->shape[i] != x->shape[at + i])
      return cn_call_fail(c, CN_ERR_INDEX, "a mask of shape %s does not fit input of shape %s at dimension %d",
                          cni_shape_text(have, sizeof have, d->ndim, d->shape),
                          cni_shape_text(want, sizeof want, x->ndim, x->shape), at + i);
  return taken;
}

/* Broadcasts the shape of index k into that of the others; a mask counts as a vector whose length is not known yet.
 */
static int add_shape(cni_index_plan *p, const cn_call *c, int64_t *shape, int k)
{
  static const int64_t unknown[1] = {1};
  const cn_desc *d = &p->index[k]->d;
  bool mask = d->dtype == CN_BOOL;
  char have[CNI_SHAPE_TEXT], other[CNI_SHAPE_TEXT];
  int before = p->wide;
  if (cni_broadcast(&p->wide, shape, mask ? 1 : d->ndim, mask ? unknown : d->shape)) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "indices of shapes %s and %s do not broadcast",
                      cni_shape_text(have, sizeof have, before, shape),
                      cni_shape_text(other, sizeof other, d->ndim, d->shape));
}

int cni_index_plan_make(cni_index_plan *p, const cn_call *c, const cn_desc *x, cn_tensor *const *list, int n)
{
  int64_t shape[CN_MAX_DIMS];
  uint32_t taken = 0;
  int at = 0, status = CN_OK;
  p->n = p->wide = p->ndim = p->at = 0;
  p->masks = false;
  for (int i = 0; i < n && !status; i++) {
    int dims = list[i] ? dims_taken(c, x, list[i], at) : 1;
    if (dims < 0) return dims;
    if (at + dims > x->ndim)
      return cn_call_fail(c, CN_ERR_INDEX, "too many indices for a tensor of %d dimensions", x->ndim);
    if (list[i]) {
      p->index[p->n] = list[i];
      p->dim[p->n] = at;
      p->masks = p->masks || list[i]->d.dtype == CN_BOOL;
      taken |= ((1u << dims) - 1) << at;
      status = add_shape(p, c, shape, p->n++);
    }
    at += dims;
  }
  if (status) return status;
  /* Neighbouring indices leave their dims where the first one was; others put them in front. */
  int first = taken ? __builtin_ctz(taken) : 0;
  uint32_t run = taken >> first;
  p->at = (run & (run + 1)) == 0 ? first : 0;
  int kept = x->ndim - __builtin_popcount(taken);
  if (kept + p->wide > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "the result has too many dimensions");
  for (int i = 0; i <= x->ndim; i++) {
    if (p->ndim == p->at)
      for (int k = 0; k < p->wide; k++) p->shape[p->ndim++] = shape[k];
    if (i == x->ndim || taken >> i & 1) continue;
    p->from[p->ndim] = i;
    p->shape[p->ndim++] = x->shape[i];
  }
  return CN_OK;
}

/* The list with every mask replaced by the positions of its true elements, one vector per dim of it. Returns the new
 * length; negative: an error. */
static int without_masks(cn_tensor **out, cn_tensor *const *list, int n)
{
  int m = 0;
  for (int i = 0; i < n; i++) {
    if (!list[i] || list[i]->d.dtype != CN_BOOL) {
      out[m++] = list[i];
      continue;
    }
    cn_tensor *positions = cn_nonzero(list[i]);
    for (int k = 0; k < list[i]->d.ndim; k++) out[m++] = cn_select(positions, 1, k);
  }
  return cn_err() ? cn_err() : m;
}

/* ---- index(input, indices) ---- */

static int index_infer(cn_call *c)
{
  cni_index_plan p;
  int status = cni_index_plan_make(&p, c, &c->in[0]->d, c->in + 1, c->nin - 1);
  if (!status) status = cn_call_result(c, 0, c->in[0]->d.dtype, p.ndim, p.shape);
  if (!status) c->spec[0].data_dependent = p.masks;
  return status;
}
static int index_decompose(cn_call *c)
{
  cn_tensor *list[CN_MAX_DIMS + 1];
  cni_index_plan p;
  int n = cni_index_plan_make(&p, c, &c->in[0]->d, c->in + 1, c->nin - 1);
  if (n) return n;
  if (!p.masks) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "no kernel on this device");
  n = without_masks(list, c->in + 1, c->nin - 1);
  if (n >= 0) c->out[0] = cn_index(c->in[0], list, (size_t)n);
  return cn_err();
}

/* The saved index tensors, or an error when there are more than autograd saves. */
static int saved_indices(const cn_vjp *v, int n)
{
  for (int i = 1; i <= n; i++)
    if (v->in_meta[i].dtype && !v->in[i])
      return cni_fail(CN_ERR_UNSUPPORTED, "index: no gradient through that many indices");
  return CN_OK;
}
static int index_vjp(cn_vjp *v)
{
  if (saved_indices(v, v->nin - 1)) return cn_err();
  cn_tensor *zeros = cni_zeros_of(&v->in_meta[0], cn_dtype_of(v->g[0]));
  v->gin[0] = cn_index_put_(zeros, v->in + 1, (size_t)v->nin - 1, v->g[0], .accumulate = true);
  return cn_err();
}

/* ---- index_put(input, indices, values, accumulate) ---- */

enum { PUT_ACCUMULATE = 3 };

static int index_put_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *values = &c->in[c->nin - 1]->d;
  cni_index_plan p;
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  int status = cni_index_plan_make(&p, c, x, c->in + 1, c->nin - 2);
  if (status) return status;
  if (values->dtype != x->dtype && !values->weak)
    return cn_call_fail(c, CN_ERR_DTYPE, "values are of type %s, input of type %s; cast one with cn_cast",
                        cn_dtype_name((cn_dtype)values->dtype), cn_dtype_name((cn_dtype)x->dtype));
  if (!p.masks && !cni_broadcasts_to(values->ndim, values->shape, p.ndim, p.shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "values of shape %s do not fit the %s elements that the indices select",
                        cni_shape_text(have, sizeof have, values->ndim, values->shape),
                        cni_shape_text(want, sizeof want, p.ndim, p.shape));
  return cni_infer_like(c, 0, 0, x->dtype);
}

/* One mask and one value: a choice per element, without looking for the positions. */
static cn_tensor *fill_by_mask(const cn_call *c, const cni_index_plan *p)
{
  cn_tensor *x = c->in[0], *mask = p->index[0], *value = cn_reshape(c->in[c->nin - 1], CN_SCALAR_SHAPE);
  int64_t shape[CN_MAX_DIMS];
  int n = mask->d.ndim, rest = x->d.ndim - p->dim[0] - n;
  memcpy(shape, mask->d.shape, (size_t)n * sizeof *shape);
  for (int i = 0; i < rest; i++) shape[n++] = 1;
  return cn_where(cn_reshape(mask, shape, (size_t)n), cn_cast(value, (cn_dtype)x->d.dtype), x);
}
static int index_put_decompose(cn_call *c)
{
  cn_tensor *list[CN_MAX_DIMS + 1], *x = c->in[0], *values = c->in[c->nin - 1];
  cni_index_plan p;
  int n = cni_index_plan_make(&p, c, &x->d, c->in + 1, c->nin - 2);
  if (n) return n;
  if (!p.masks) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "no kernel on this device");
  bool accumulate = cni_arg_bool(c->args, PUT_ACCUMULATE);
  if (p.n == 1 && values->d.numel == 1 && !accumulate) {
    c->out[0] = fill_by_mask(c, &p);
    return cn_err();
  }
  n = without_masks(list, c->in + 1, c->nin - 2);
  if (n >= 0) c->out[0] = cn_index_put(x, list, (size_t)n, values, .accumulate = accumulate);
  return cn_err();
}
static int index_put_vjp(cn_vjp *v)
{
  int n = v->nin - 2, last = v->nin - 1;
  bool accumulate = cni_arg_bool(v->args, PUT_ACCUMULATE);
  if (saved_indices(v, n)) return cn_err();
  if (v->need[0]) v->gin[0] = accumulate ? v->g[0] : cn_index_put(v->g[0], v->in + 1, (size_t)n, cn_int(0));
  if (!v->need[last]) return cn_err();
  const cn_meta *m = &v->in_meta[last];
  cn_tensor *g = cn_index(v->g[0], v->in + 1, (size_t)n);
  bool one = cni_numel(m->ndim, m->shape) == 1; /* the sum of however many there are, also of one */
  v->gin[last] = one ? cn_reshape(cn_sum(g), m->shape, (size_t)m->ndim) : g;
  return cn_err();
}
/* Inputs 1 to 15: the indices. (The values may be among them, because their place depends on the call. No gradient
 * reads them, so that programs may write to them.) */
#define INDICES 0xfffeu

/* ---- masks ---- */

static int nonzero_infer(cn_call *c)
{
  int64_t shape[2] = {0, c->in[0]->d.ndim};
  int status = cn_call_result(c, 0, CN_I64, 2, shape);
  c->spec[0].data_dependent = true;
  return status;
}

static int check_mask(const cn_call *c)
{
  if (c->in[1]->d.dtype == CN_BOOL) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "the mask must be bool, not %s; compare or cast it",
                      cn_dtype_name((cn_dtype)c->in[1]->d.dtype));
}

static int masked_select_infer(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS], none = 0;
  int ndim, status = check_mask(c);
  if (status || (status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape))) return status;
  status = cn_call_result(c, 0, c->in[0]->d.dtype, 1, &none);
  c->spec[0].data_dependent = true;
  return status;
}
static int masked_select_vjp(cn_vjp *v)
{
  const cn_meta *x = &v->in_meta[0], *mask = &v->in_meta[1];
  int64_t shape[CN_MAX_DIMS];
  int ndim = x->ndim;
  memcpy(shape, x->shape, (size_t)ndim * sizeof *shape);
  cni_broadcast(&ndim, shape, mask->ndim, mask->shape);
  cn_tensor *zeros = cn_zeros(shape, (size_t)ndim, .dtype = cn_dtype_of(v->g[0]), .device = x->device);
  v->gin[0] = cn_masked_scatter(zeros, v->in[1], v->g[0]);
  return cn_err();
}
static int masked_select_decompose(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS];
  cn_tensor *x = c->in[0], *mask = c->in[1];
  int ndim, status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape);
  if (status) return status;
  if (ndim == 0) shape[ndim++] = 1;
  x = cn_expand(x, shape, (size_t)ndim);
  mask = cn_expand(mask, shape, (size_t)ndim);
  c->out[0] = cn_index(x, &mask, 1);
  return cn_err();
}

/* masked_fill(input, mask, value) */
static int masked_fill_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *value = c->in[2];
  int status = check_mask(c);
  if (status) return status;
  if (value->d.ndim) return cn_call_fail(c, CN_ERR_SHAPE, "value must be a number or a zero-dimensional tensor");
  if (cni_dtype_is_float(value->d.dtype) && !cni_dtype_is_float(x->d.dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "a value of type %s does not fit input of type %s",
                        cn_dtype_name((cn_dtype)value->d.dtype), cn_dtype_name((cn_dtype)x->d.dtype));
  bool fits = value->d.dtype == x->d.dtype || (value->d.weak && x->d.ndim && x->d.dtype != CN_BOOL);
  if (!fits) value = cn_cast(value, (cn_dtype)x->d.dtype);
  c->out[0] = cn_where(c->in[1], value, x);
  return cn_err();
}

/* argwhere(input) */
static int argwhere_decompose(cn_call *c)
{
  c->out[0] = cn_nonzero(c->in[0]);
  return cn_err();
}

/* clang-format off */
const cn_op cni_index_advanced_ops[] = {
  {.sig = "index(Tensor input, Tensor?[] indices) -> Tensor ; method complex_parts",
   .doc = "input[indices]: one index tensor per dimension, NULL for a whole one. Integer tensors broadcast together, "
          "negative ones count from the end; a bool mask takes as many dimensions as it has. The indices' dimensions "
          "stand where the first index was when the indices are neighbours, else in front.",
   .cost = cni_cost_gather,
   .infer = index_infer, .vjp = index_vjp, .decompose = index_decompose, .needs = {[0] = INDICES},
   .copied = INDICES},
  {.sig = "index_put(Tensor input, Tensor?[] indices, Tensor values, bool accumulate=False) "
          "-> Tensor ; method inplace amp_wide_device complex_parts",
   .doc = "input with input[indices] set to values, which broadcast, or with values added where accumulate is true. "
          "Of equal indices the last one wins; sums are in the order of the indices.",
   .flags = CN_OP_ALIAS_SAFE, .infer = index_put_infer, .vjp = index_put_vjp, .decompose = index_put_decompose,
   .needs = {INDICES, INDICES, INDICES, INDICES, INDICES, INDICES, INDICES, INDICES}, .copied = INDICES},
  {.sig = "nonzero(Tensor input) -> Tensor ; method",
   .doc = "The positions of all elements that are not zero, one row of indices each, in row-major order, as int64.",
   .flags = CN_OP_NO_GRAD, .infer = nonzero_infer},
  {.sig = "argwhere(Tensor input) -> Tensor ; method complex",
   .doc = "The positions of all elements that are not zero, one row each: nonzero by another name.",
   .flags = CN_OP_COMPOSITE, .decompose = argwhere_decompose},
  {.sig = "masked_select(Tensor input, Tensor mask) -> Tensor ; method complex",
   .doc = "The elements of input where mask is true, as a vector; both broadcast.",
   .infer = masked_select_infer, .vjp = masked_select_vjp, .decompose = masked_select_decompose,
   .needs = {[0] = CN_IN(1)}},
  {.sig = "masked_fill(Tensor input, Tensor mask, Tensor|Scalar value) -> Tensor ; method inplace grad_fn "
          "complex_pairs",
   .doc = "input with value where mask is true; both broadcast.",
   .flags = CN_OP_COMPOSITE, .decompose = masked_fill_decompose},
};
/* clang-format on */
CNI_FAMILY(index_advanced);
