/* quantproduct.c: products and convolutions of quantised numbers. See call.h, quant.h. */
#include "formats/onnx/quant.h"

/* Scales and zero points of the left operand have one for each row, those of the right one for each column. */
enum { ROWS = -2, COLUMNS = -1 };

/* Operand i, a matrix or more, with zero point `zero`. A vector has one zero point. */
static int operand(cni_onnx_int8 *out, const cni_onnx_call *c, size_t i, size_t zero, int64_t axis)
{
  const cn_tensor *x = cni_onnx_in(c, i), *z = cni_onnx_maybe(c, zero);
  if (x && z && cn_ndim(x) < 2 && cn_numel(z) != 1)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "a vector has one zero point, not %lld", (long long)cn_numel(z));
  return x ? cni_onnx_int8_in(out, c, i, zero, axis) : cn_err();
}

/* Scale i so that it broadcasts with the product: one number, a vector for rows or columns, or all dimensions. */
static cn_tensor *scale_in(const cni_onnx_call *c, size_t i, int64_t axis)
{
  cn_tensor *s = cni_onnx_in(c, i);
  if (!s) return NULL;
  s = cn_cast(s, CN_F32);
  if (cn_numel(s) == 1) return cn_reshape(s, CN_SCALAR_SHAPE);
  return cn_ndim(s) == 1 && axis == ROWS ? cn_unsqueeze(s, 1) : s;
}

/* Sets the result: sums times a scale, over scale i, with the zero point and type of input i + 1. */
static int requantised(cni_onnx_call *c, cn_tensor *sums, cn_tensor *scale, size_t i, int64_t axis,
                       cn_dtype otherwise)
{
  cn_tensor *own = scale_in(c, i, axis), *zero = cni_onnx_maybe(c, i + 1);
  if (!sums || !scale || !own || cn_err()) return cn_err();
  cn_dtype dtype = zero ? cn_dtype_of(zero) : otherwise;
  if (zero && cn_numel(zero) == 1) zero = cn_reshape(zero, CN_SCALAR_SHAPE);
  else if (zero && cn_ndim(zero) == 1 && axis == ROWS) zero = cn_unsqueeze(zero, 1);
  cn_tensor *y = cn_mul(cn_cast(sums, CN_F32), cn_div(scale, own));
  return cni_onnx_out(c, 0, cni_onnx_quantized(c, y, zero, dtype, true));
}

static int matmul_integer(cni_onnx_call *c)
{
  cni_onnx_int8 a, b;
  if (operand(&a, c, 0, 2, ROWS) || operand(&b, c, 1, 3, COLUMNS)) return cn_err();
  return cni_onnx_out(c, 0, cni_onnx_int8_product(a, b));
}

static int qlinear_matmul(cni_onnx_call *c)
{
  cni_onnx_int8 a, b;
  if (operand(&a, c, 0, 2, ROWS) || operand(&b, c, 3, 5, COLUMNS)) return cn_err();
  cn_tensor *scale = cn_mul(scale_in(c, 1, ROWS), scale_in(c, 4, COLUMNS));
  return requantised(c, cni_onnx_int8_product(a, b), scale, 6, ROWS, cn_dtype_of(cni_onnx_in(c, 0)));
}

static int conv_integer(cni_onnx_call *c)
{
  cni_onnx_int8 x, w;
  if (cni_onnx_int8_in(&x, c, 0, 2, 0) || cni_onnx_int8_in(&w, c, 1, 3, 0)) return cn_err();
  return cni_onnx_out(c, 0, cni_onnx_int8_conv(c, x, w));
}

/* A vector with one for each channel, so that it broadcasts with (N, M, ...). */
static cn_tensor *of_channels(cn_tensor *v, const cn_tensor *like)
{
  int64_t shape[CN_MAX_DIMS];
  if (!v || !like || cn_numel(v) == 1) return v ? cn_reshape(v, CN_SCALAR_SHAPE) : NULL;
  for (int d = 0; d < cn_ndim(like); d++) shape[d] = d == 1 ? cn_numel(v) : 1;
  return cn_reshape(v, shape, (size_t)cn_ndim(like));
}

int cni_onnx_qlinear_conv(cni_onnx_call *c)
{
  cni_onnx_int8 x, w;
  cn_tensor *b = cni_onnx_maybe(c, 8);
  if (cni_onnx_int8_in(&x, c, 0, 2, 0) || cni_onnx_int8_in(&w, c, 3, 5, 0)) return cn_err();
  cn_tensor *t = cni_onnx_int8_conv(c, x, w);
  cn_tensor *scale = cn_mul(scale_in(c, 1, 0), of_channels(scale_in(c, 4, 0), t));
  if (b && t) t = cn_add(t, of_channels(b, t));
  return requantised(c, t, scale, 6, 0, cn_dtype_of(cni_onnx_in(c, 0)));
}

const cni_onnx_op cni_onnx_quantproduct_ops[] = {
    ONNX_BUILD("MatMulInteger", 10, matmul_integer),
    ONNX_BUILD("QLinearMatMul", 10, qlinear_matmul),
    ONNX_BUILD("ConvInteger", 10, conv_integer),
    ONNX_BUILD("QLinearConv", 10, cni_onnx_qlinear_conv),
    {NULL, NULL, NULL, 0, 0},
};
