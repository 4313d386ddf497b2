/* quant.c: see quant.h. */
#include "quant.h"

#include <math.h>

/* One for each block of the axis, repeated for its elements. */
static cn_tensor *blocks(const cni_onnx_call *c, cn_tensor *t, const cn_tensor *x, int64_t axis, int64_t block)
{
  int64_t shape[CN_MAX_DIMS + 1], flat[CN_MAX_DIMS], ndim = cn_ndim(x), size = cn_size(x, axis);
  bool fits = ndim < CN_MAX_DIMS && block > 0 && cn_size(t, axis) == (size + block - 1) / block;
  for (int64_t d = 0; d < ndim; d++) fits = fits && (d == axis || cn_size(t, d) == cn_size(x, d));
  if (!fits) {
    cni_onnx_fail(c, CN_ERR_SHAPE, "scales of another shape than blocks of %lld have", (long long)block);
    return NULL;
  }
  for (int64_t d = 0; d < ndim; d++) {
    shape[d < axis + 1 ? d : d + 1] = cn_size(t, d);
    flat[d] = d == axis ? cn_size(t, d) * block : cn_size(t, d);
  }
  shape[axis + 1] = block;
  t = cn_reshape(cn_expand(cn_unsqueeze(t, axis + 1), shape, (size_t)ndim + 1), flat, (size_t)ndim);
  return cn_narrow(t, axis, 0, size);
}

cn_tensor *cni_onnx_per_axis(const cni_onnx_call *c, cn_tensor *t, const cn_tensor *x, int64_t axis, int64_t block)
{
  int64_t shape[CN_MAX_DIMS], ndim = x ? cn_ndim(x) : 0;
  if (!t || !x) return NULL;
  if (cn_ndim(t) <= 1 && cn_numel(t) == 1 && !block) return cn_reshape(t, CN_SCALAR_SHAPE);
  if (cn_ndim(t) == 0) return t;
  if ((axis = cni_onnx_axis(c, axis, ndim)) < 0) return NULL;
  if (block && cn_ndim(t) == ndim) return blocks(c, t, x, axis, block);
  if (cn_ndim(t) != 1 || !ndim || cn_numel(t) != cn_size(x, axis)) {
    cni_onnx_fail(c, CN_ERR_SHAPE, "a scale or zero point is neither a number nor one for each index of axis %lld",
                  (long long)axis);
    return NULL;
  }
  for (int64_t d = 0; d < ndim; d++) shape[d] = d == axis ? cn_numel(t) : 1;
  return cn_reshape(t, shape, (size_t)ndim);
}

/* Bits of a whole number's type; 0: it is none that numbers are quantised to. */
static int bits_of(cn_dtype dtype)
{
  switch (dtype) {
  case CN_I2:
  case CN_U2: return 2;
  case CN_I4:
  case CN_U4: return 4;
  case CN_I8:
  case CN_U8: return 8;
  case CN_I16:
  case CN_U16: return 16;
  default: return 0;
  }
}

/* The largest finite number of a small float; 0: it is none. */
static double largest(cn_dtype dtype)
{
  switch (dtype) {
  case CN_F8E4M3: return 448;
  case CN_F8E4M3FNUZ: return 240;
  case CN_F8E5M2:
  case CN_F8E5M2FNUZ: return 57344;
  case CN_F4E2M1: return 6;
  default: return 0;
  }
}

static cn_tensor *wide(cn_tensor *x) { return x && cn_dtype_of(x) != CN_F64 ? cn_cast(x, CN_F32) : x; }

cn_tensor *cni_onnx_quantized(const cni_onnx_call *c, cn_tensor *x, cn_tensor *zero, cn_dtype dtype, bool saturate)
{
  int bits = bits_of(dtype);
  double most = largest(dtype);
  x = wide(x);
  if (bits) {
    bool sign = cn_dtype_is_signed(dtype);
    double least = sign ? -ldexp(1, bits - 1) : 0;
    x = cn_round(x);
    if (zero) x = cn_add(x, wide(zero));
    return cn_cast(cn_clamp(x, cn_num(least), cn_num(least + ldexp(1, bits) - 1)), dtype);
  }
  if (!(most > 0)) return cni_onnx_fail(c, CN_ERR_DTYPE, "%s is no type to quantise to", cn_dtype_name(dtype)), NULL;
  if (zero) x = cn_add(x, wide(zero));
  if (saturate || dtype == CN_F4E2M1) x = cn_clamp(x, cn_num(-most), cn_num(most));
  else if (dtype == CN_F8E4M3) x = cn_where(cn_gt(cn_abs(x), cn_num(464)), cn_num(NAN), x); /* rounds beyond it */
  return cn_cast(x, dtype);
}

cn_tensor *cni_onnx_real(cn_tensor *x, cn_tensor *scale, cn_tensor *zero)
{
  if (zero && cn_dtype_of(x) == CN_I32) x = cn_sub(x, zero);
  else if (zero) x = cn_sub(wide(x), wide(zero));
  return cn_mul(wide(x), wide(scale));
}

int cni_onnx_quantize_dynamic(cni_onnx_scaled *out, const cni_onnx_call *c, cn_tensor *x)
{
  if (!x) return cn_err();
  cn_tensor *none = cn_num(0), *least, *most;
  least = cn_numel(x) ? cn_minimum(cn_amin(x), none) : cn_zeros(CN_SCALAR_SHAPE, .dtype = CN_F32);
  most = cn_numel(x) ? cn_maximum(cn_amax(x), none) : least;
  cn_tensor *range = cn_sub(most, least);
  out->scale = cn_div(cn_where(cn_eq(range, cn_int(0)), cn_num(1), range), cn_num(255));
  out->zero = cni_onnx_quantized(c, cn_neg(cn_div(least, out->scale)), NULL, CN_U8, true);
  out->q = cni_onnx_quantized(c, cn_div(x, out->scale), out->zero, CN_U8, true);
  return cn_err();
}

cn_tensor *cni_onnx_real_in(const cni_onnx_call *c, size_t i)
{
  cn_tensor *x = cni_onnx_in(c, i), *scale = cni_onnx_in(c, i + 1), *zero = cni_onnx_maybe(c, i + 2);
  return x && scale && !cn_err() ? cni_onnx_real(x, scale, zero) : NULL;
}

int cni_onnx_out_quantized(cni_onnx_call *c, cn_tensor *y, size_t i, cn_dtype otherwise)
{
  cn_tensor *scale = cni_onnx_in(c, i), *zero = cni_onnx_maybe(c, i + 1);
  if (!y || !scale || cn_err()) return cn_err();
  y = cn_div(y, wide(scale));
  return cni_onnx_out(c, 0, cni_onnx_quantized(c, y, zero, zero ? cn_dtype_of(zero) : otherwise, true));
}

cn_tensor *cni_onnx_unpacked(cn_tensor *x, int64_t bits)
{
  cn_tensor *parts[4];
  size_t n = (size_t)(8 / bits);
  if (!x || n == 1) return x;
  for (size_t i = 0; i < n; i++)
    parts[i] = cn_bitwise_and(cn_bitwise_right_shift(x, cn_int((int64_t)i * bits)), cn_int((1 << bits) - 1));
  x = cn_stack(parts, n, .dim = -1);
  return x ? cn_flatten(x, .start_dim = -2) : NULL;
}
