/* infer.c: shared parts of infer rules. See infer.h. */
#include "infer.h"

#include <stdarg.h>
#include <stdio.h>

#include "hot.h"
#include "table.h"

static const char *name_of(const cn_call *c)
{
  const cni_opinfo *info = cni_op_info(c->op);
  return info ? info->name : "op";
}

int cn_call_fail(const cn_call *call, int code, const char *format, ...)
{
  char text[CNI_MESSAGE_MAX - 64];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  return cni_fail(code, "%s: %s", name_of(call), text);
}

int cni_check_dtype(const cn_call *c, int64_t dtype)
{
  if (CNI_LIKELY(cni_dtype_valid(dtype))) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "%lld is not a data type", (long long)dtype);
}

/* May a result of this op be complex? */
static CNI_APART bool makes_complex(const cn_op *op)
{
  if (op->flags & (CN_OP_ANY_DTYPE | CN_OP_VIEW)) return true;
  const cni_opinfo *info = cni_op_info(op);
  return info && info->complex == CNI_COMPLEX_AS_IS;
}

static inline void fill_spec(cn_spec *s, int dtype, int ndim, const int64_t *shape)
{
  s->dtype = dtype;
  s->ndim = ndim;
  s->view_of = -1;
  s->has_strides = s->data_dependent = false;
  s->offset = 0;
  for (int k = 0; k < ndim; k++) s->shape[k] = shape[k];
}

int cn_call_result(cn_call *c, int i, int dtype, int ndim, const int64_t *shape)
{
  int64_t numel;
  cn_spec *s = &c->spec[i];
  if (i >= CNI_MAX_RESULTS) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "more than %d results", CNI_MAX_RESULTS);
  if (!cni_dtype_valid(dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "%d is not a data type", dtype);
  if (CNI_UNLIKELY(cni_dtype_is_complex(dtype)) && !makes_complex(c->op))
    return cn_call_fail(c, CN_ERR_DTYPE, "nothing computes %s yet", cn_dtype_name((cn_dtype)dtype));
  if (CNI_UNLIKELY(!cni_shape_fits(ndim, shape, cni_dtype_size(dtype), &numel)))
    return cni_shape_check(name_of(c), ndim, shape, cni_dtype_size(dtype), &numel);
  fill_spec(s, dtype, ndim, shape);
  return CN_OK;
}

int cn_call_view(cn_call *c, int i, int of, int ndim, const int64_t *shape, const int64_t *strides, int64_t offset)
{
  int status = cn_call_result(c, i, c->in[of]->d.dtype, ndim, shape);
  if (status) return status;
  cn_spec *s = &c->spec[i];
  s->view_of = of;
  s->has_strides = true;
  s->offset = offset;
  if (ndim) memmove(s->strides, strides, (size_t)ndim * sizeof *strides);
  return CN_OK;
}

int cn_call_dim(const cn_call *c, int64_t dim, int ndim)
{
  int64_t n = ndim ? ndim : 1, d = dim < 0 ? dim + n : dim;
  if (d < 0 || d >= n)
    return cn_call_fail(c, CN_ERR_INDEX, "dimension %lld is out of range; expected %lld to %lld", (long long)dim,
                        (long long)-n, (long long)(n - 1));
  return (int)d;
}

/* ---- promotion ---- */

/* A lower tier raises the type only when it is of a higher category. */
static int merge_tiers(int higher, int lower)
{
  if (!higher) return lower;
  if (!lower || cni_dtype_category(lower) <= cni_dtype_category(higher)) return higher;
  return cni_dtype_is_float(higher) ? cni_dtype_complex(higher) : lower; /* the precision stays the higher tier's */
}

int cni_result_type(const cn_call *c, cn_tensor *const *in, int n)
{
  if (n == 2 && in[0] && in[1] && in[0]->d.dtype == in[1]->d.dtype && in[0]->d.ndim && in[1]->d.ndim &&
      cni_dtype_computes(in[0]->d.dtype))
    return in[0]->d.dtype; /* the usual case */
  int tier[3] = {0, 0, 0}; /* tensors with dims, zero-dimensional tensors, numbers */
  for (int i = 0; i < n; i++) {
    if (!in[i]) continue;
    const cn_desc *d = &in[i]->d;
    int k = d->weak ? 2 : d->ndim == 0 ? 1 : 0, dtype = d->dtype;
    if (d->weak && dtype == CN_F64) dtype = (int)cni_state()->default_dtype;
    if (d->weak && dtype == CN_C128) dtype = cni_dtype_complex((int)cni_state()->default_dtype);
    int both = tier[k] ? cni_promote(tier[k], dtype) : dtype;
    if (!both || !(cni_dtype_computes(both) || cni_dtype_is_complex(both))) {
      cn_call_fail(c, CN_ERR_DTYPE, "%s and %s do not compute together; cast one with cn_cast",
                   cn_dtype_name((cn_dtype)(tier[k] ? tier[k] : dtype)), cn_dtype_name((cn_dtype)dtype));
      return CN_DTYPE_NONE;
    }
    tier[k] = both;
  }
  return merge_tiers(merge_tiers(tier[0], tier[1]), tier[2]);
}

/* ---- shapes ---- */

int cni_broadcast_inputs(const cn_call *c, cn_tensor *const *in, int n, int *ndim, int64_t *shape)
{
  int first = 0;
  while (first < n - 1 && !in[first]) first++;
  *ndim = in[first] ? in[first]->d.ndim : 0;
  for (int i = 0; i < *ndim; i++) shape[i] = in[first]->d.shape[i];
  for (int i = first + 1; i < n; i++) {
    if (!in[i]) continue;
    char have[CNI_SHAPE_TEXT], other[CNI_SHAPE_TEXT];
    if (cni_same_shape(in[i]->d.ndim, in[i]->d.shape, *ndim, shape)) continue;
    if (!cni_broadcast(ndim, shape, in[i]->d.ndim, in[i]->d.shape))
      return cn_call_fail(c, CN_ERR_SHAPE, "shapes %s and %s do not broadcast; sizes must match or be 1",
                          cni_shape_text(have, sizeof have, *ndim, shape),
                          cni_shape_text(other, sizeof other, in[i]->d.ndim, in[i]->d.shape));
  }
  return CN_OK;
}

void cni_follow_strides(cn_call *c, int i, cn_tensor *const *in, int n)
{
  cn_spec *s = &c->spec[i];
  if (s->ndim < 2) return;
  for (int k = 0; k < n; k++) {
    if (!in[k] || !cni_same_shape(in[k]->d.ndim, in[k]->d.shape, s->ndim, s->shape)) continue;
    const cn_desc *d = &in[k]->d;
    if (cni_is_contiguous(d->ndim, d->shape, d->strides) || !cni_is_dense(d->ndim, d->shape, d->strides)) return;
    memcpy(s->strides, d->strides, (size_t)s->ndim * sizeof *s->strides);
    s->has_strides = true;
    return;
  }
}

int cni_dims_mask_strict(const cn_call *c, const cn_value *dims, int ndim, uint32_t *mask)
{
  *mask = 0;
  for (int i = 0; i < dims->n; i++) {
    int d = cn_call_dim(c, dims->tag == CN_V_INT ? dims->u.i : dims->u.is[i], ndim);
    if (d < 0) return d;
    if (*mask & 1u << d) return cn_call_fail(c, CN_ERR_VALUE, "dimension %d appears twice in the list of dims", d);
    *mask |= 1u << d;
  }
  return CN_OK;
}

int cni_dims_mask(const cn_call *c, const cn_value *dims, int ndim, uint32_t *mask)
{
  if (dims->tag == CN_V_NONE || dims->n == 0) {
    *mask = ndim ? (1u << ndim) - 1 : 1;
    return CN_OK;
  }
  return cni_dims_mask_strict(c, dims, ndim, mask);
}

int cni_infer_like(cn_call *c, int i, int of, int dtype)
{
  const cn_desc *d = &c->in[of]->d;
  if (CNI_LIKELY(dtype == d->dtype && !cni_dtype_is_complex(dtype))) { /* what is there fits */
    fill_spec(&c->spec[i], dtype, d->ndim, d->shape);
  } else {
    int status = cn_call_result(c, i, dtype, d->ndim, d->shape);
    if (status) return status;
  }
  if (d->ndim > 1) cni_follow_strides(c, i, &c->in[of], 1);
  return CN_OK;
}
