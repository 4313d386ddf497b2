/* quantize.c: numbers as small whole numbers or floats, and back. See call.h, quant.h. */
#include "formats/onnx/quant.h"

/* A type that an attribute names; 0 says that it is not given. */
static cn_dtype type_of(const cni_onnx_call *c, const char *name, cn_dtype otherwise)
{
  return cni_onnx_int(c, name, 0) ? cni_onnx_dtype_of(c, name, otherwise) : otherwise;
}

/* Where the scale is whole, or a power of two, what it is multiplied with says the type. */
static cn_dtype computed_in(cn_dtype scale, cn_dtype x)
{
  if (scale == CN_F32 || scale == CN_F16 || scale == CN_BF16 || scale == CN_F64) return scale;
  return x == CN_F16 || x == CN_BF16 || x == CN_F64 ? x : CN_F32;
}

/* The quotient is of the scale's type, or the one that `precision` says. */
int cni_onnx_quantize_linear(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 1), *zero = cni_onnx_maybe(c, 2);
  int64_t axis = cni_onnx_int(c, "axis", 1), block = cni_onnx_int(c, "block_size", 0);
  if (!x || !scale || cn_err()) return cn_err();
  cn_dtype precision = type_of(c, "precision", computed_in(cn_dtype_of(scale), cn_dtype_of(x)));
  cn_dtype dtype = type_of(c, "output_dtype", zero ? cn_dtype_of(zero) : CN_U8);
  if (cn_err()) return cn_err();
  if (zero && dtype != cn_dtype_of(zero))
    return cni_onnx_fail(c, CN_ERR_DTYPE, "output_dtype is not the zero point's type");
  scale = cni_onnx_per_axis(c, cn_cast(scale, precision), x, axis, block);
  if (zero) zero = cni_onnx_per_axis(c, cn_cast(zero, CN_F32), x, axis, block);
  if (cn_err()) return cn_err();
  x = cn_true_divide(cn_cast(x, precision), scale);
  return cni_onnx_out(c, 0, cni_onnx_quantized(c, x, zero, dtype, cni_onnx_int(c, "saturate", 1) != 0));
}

int cni_onnx_dequantize_linear(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 1), *zero = cni_onnx_maybe(c, 2);
  int64_t axis = cni_onnx_int(c, "axis", 1), block = cni_onnx_int(c, "block_size", 0);
  if (!x || !scale || cn_err()) return cn_err();
  cn_dtype dtype = type_of(c, "output_dtype", computed_in(cn_dtype_of(scale), CN_F32));
  scale = cni_onnx_per_axis(c, cn_cast(scale, CN_F32), x, axis, block);
  if (zero) zero = cni_onnx_per_axis(c, cn_cast(zero, cn_dtype_of(x) == CN_I32 ? CN_I32 : CN_F32), x, axis, block);
  cn_tensor *y = cn_err() ? NULL : cni_onnx_real(x, scale, zero);
  return cni_onnx_out(c, 0, y && cn_dtype_of(y) != dtype ? cn_cast(y, dtype) : y);
}

static int quantize_dynamic(cni_onnx_call *c)
{
  cni_onnx_scaled made;
  if (cni_onnx_quantize_dynamic(&made, c, cni_onnx_in(c, 0))) return cn_err();
  if (cni_onnx_out(c, 0, made.q) || cni_onnx_out(c, 1, made.scale)) return cn_err();
  return cni_onnx_out(c, 2, made.zero);
}

const cni_onnx_op cni_onnx_quantize_ops[] = {
    ONNX_BUILD("QuantizeLinear", 10, cni_onnx_quantize_linear),
    ONNX_BUILD("DequantizeLinear", 10, cni_onnx_dequantize_linear),
    ONNX_BUILD("DynamicQuantizeLinear", 11, quantize_dynamic),
    {NULL, NULL, NULL, 0, 0},
};
