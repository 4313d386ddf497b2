/* quantized.c: com.microsoft's operators on quantised numbers. What ONNX has no integer form of is computed with real
 * numbers in between, rounded once. See call.h, quant.h. */
#include <string.h>

#include "formats/onnx/quant.h"

/* ---- element by element: operands are triples of numbers, scale and zero point ---- */

static cn_dtype type_in(const cni_onnx_call *c, size_t i)
{
  const cn_tensor *x = cni_onnx_maybe(c, i);
  return x ? cn_dtype_of(x) : CN_U8;
}

static int add_or_mul(cni_onnx_call *c)
{
  cn_tensor *a = cni_onnx_real_in(c, 0), *b = a ? cni_onnx_real_in(c, 3) : NULL;
  if (!b) return cn_err();
  return cni_onnx_out_quantized(c, !strcmp(c->node->op, "QLinearAdd") ? cn_add(a, b) : cn_mul(a, b), 6,
                                type_in(c, 0));
}

static int sigmoid(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_real_in(c, 0);
  return x ? cni_onnx_out_quantized(c, cn_sigmoid(x), 3, type_in(c, 0)) : cn_err();
}

static int leaky_relu(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_real_in(c, 0);
  double alpha = cni_onnx_float(c, "alpha", 0.01);
  if (!x || cn_err()) return cn_err();
  return cni_onnx_out_quantized(c, cn_where(cn_lt(x, cn_int(0)), cn_mul(x, cn_num(alpha)), x), 3, type_in(c, 0));
}

/* By the opset of ONNX's Softmax that `opset` names: before 13 over all dimensions from the axis on. */
static int softmax(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_real_in(c, 0);
  bool old = cni_onnx_int(c, "opset", 13) < 13;
  int64_t axis = x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", old ? 1 : -1), cn_ndim(x)) : -1, rows = 1;
  if (axis < 0) return cn_err();
  if (!old) return cni_onnx_out_quantized(c, cn_softmax(x, axis), 3, type_in(c, 0));
  for (int64_t i = 0; i < axis; i++) rows *= cn_size(x, i);
  cn_tensor *m = cn_softmax(cn_reshape(x, CN_SHAPE(rows, rows ? cn_numel(x) / rows : 1)), 1);
  return cni_onnx_out_quantized(c, cn_reshape(m, cn_shape(x), (size_t)cn_ndim(x)), 3, type_in(c, 0));
}

/* Scale and zero point of the result, then a triple for each input. */
static int concat(cni_onnx_call *c)
{
  size_t n = c->nin > 2 ? (c->nin - 2) / 3 : 0;
  cn_tensor **all = cni_onnx_room(c, n + 1, sizeof *all);
  if (!all || !n || c->nin > 2 + 3 * n)
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "its inputs are no triples");
  for (size_t i = 0; i < n; i++)
    if (!(all[i] = cni_onnx_real_in(c, 2 + 3 * i))) return cn_err();
  int64_t axis = cni_onnx_axis(c, cni_onnx_int(c, "axis", 0), cn_ndim(all[0]));
  return axis < 0 ? cn_err()
                  : cni_onnx_out_quantized(c, cn_cat(all, n, .dim = axis ? axis : CN_ZERO), 0, type_in(c, 2));
}

static int global_average_pool(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_real_in(c, 0);
  bool last = cni_onnx_int(c, "channels_last", 0) != 0;
  int64_t dims[CN_MAX_DIMS];
  if (!x || cn_ndim(x) < 3) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (N, C, ...)");
  size_t n = (size_t)cn_ndim(x) - 2;
  for (size_t i = 0; i < n; i++) dims[i] = (int64_t)i + (last ? 1 : 2);
  return cni_onnx_out_quantized(c, cn_mean(x, .dim = {dims, n}, .keepdim = true), 3, type_in(c, 0));
}

/* ---- products ---- */

/* a, b, their scales and zero points; NULL: there is none. */
typedef struct operands {
  cn_tensor *a, *a_scale, *a_zero, *b, *b_scale, *b_zero;
} operands;

/* The product of what is above the zero points, in int32; *scale: what a unit of it stands for. */
static cn_tensor *product(const cni_onnx_call *c, const operands *o, cn_tensor **scale)
{
  cni_onnx_int8 a, b;
  if (!o->a || !o->b || !o->a_scale || !o->b_scale || cn_err()) return NULL;
  if (cni_onnx_int8_of(&a, c, o->a, o->a_zero, -2) || cni_onnx_int8_of(&b, c, o->b, o->b_zero, -1)) return NULL;
  *scale = cn_mul(cn_numel(o->a_scale) == 1 ? cn_reshape(o->a_scale, CN_SCALAR_SHAPE) : o->a_scale,
                  cn_numel(o->b_scale) == 1 ? cn_reshape(o->b_scale, CN_SCALAR_SHAPE) : o->b_scale);
  return cni_onnx_int8_product(a, b);
}

static int out_real(cni_onnx_call *c, cn_tensor *sums, cn_tensor *scale, cn_tensor *bias)
{
  cn_tensor *y = sums && scale ? cn_mul(cn_cast(sums, cn_dtype_of(scale)), scale) : NULL;
  return cni_onnx_out(c, 0, y && bias ? cn_add(y, bias) : y);
}

static int matmul_integer_to_float(cni_onnx_call *c)
{
  cn_tensor *scale = NULL;
  operands o = {
      .a = cni_onnx_in(c, 0), .b = cni_onnx_in(c, 1), .a_scale = cni_onnx_in(c, 2), .b_scale = cni_onnx_in(c, 3)};
  o.a_zero = cni_onnx_maybe(c, 4);
  o.b_zero = cni_onnx_maybe(c, 5);
  cn_tensor *sums = product(c, &o, &scale);
  return out_real(c, sums, scale, cni_onnx_maybe(c, 6));
}

static int dynamic_quantize_matmul(cni_onnx_call *c)
{
  cn_tensor *scale = NULL;
  cni_onnx_scaled a;
  if (cni_onnx_quantize_dynamic(&a, c, cni_onnx_in(c, 0))) return cn_err();
  operands o = {.a = a.q, .a_scale = a.scale, .a_zero = a.zero, .b = cni_onnx_in(c, 1), .b_scale = cni_onnx_in(c, 2)};
  o.b_zero = cni_onnx_maybe(c, 3);
  cn_tensor *sums = product(c, &o, &scale);
  return out_real(c, sums, scale, cni_onnx_maybe(c, 4));
}

/* alpha times the product, plus C, which counts units of the scales; without y_scale the result is real. */
static int gemm(cni_onnx_call *c)
{
  cn_tensor *scale = NULL, *more = cni_onnx_maybe(c, 6);
  operands o = {.a = cni_onnx_in(c, 0), .a_scale = cni_onnx_in(c, 1), .a_zero = cni_onnx_maybe(c, 2)};
  o.b = cni_onnx_in(c, 3);
  o.b_scale = cni_onnx_in(c, 4);
  o.b_zero = cni_onnx_maybe(c, 5);
  if (cn_err()) return cn_err();
  if (cn_ndim(o.a) != 2 || cn_ndim(o.b) != 2) return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes two matrices");
  if (cni_onnx_int(c, "transA", 0)) o.a = cn_transpose(o.a, 0, 1);
  if (cni_onnx_int(c, "transB", 0)) o.b = cn_transpose(o.b, 0, 1);
  cn_tensor *sums = product(c, &o, &scale);
  if (sums && more) sums = cn_add(sums, more);
  if (!sums) return cn_err();
  scale = cn_mul(scale, cn_num(cni_onnx_float(c, "alpha", 1)));
  if (!cni_onnx_has(c, 7)) return out_real(c, sums, scale, NULL);
  return cni_onnx_out_quantized(c, cn_mul(cn_cast(sums, CN_F32), scale), 7, type_in(c, 0));
}

/* ---- weights of a few bits ---- */

/* Numbers of so many bits out of the last dimension's bytes, lowest first. */
static cn_tensor *unpacked(cn_tensor *x, int64_t bits)
{
  cn_tensor *parts[4];
  size_t n = (size_t)(8 / bits);
  if (!x || n == 1) return x;
  for (size_t i = 0; i < n; i++)
    parts[i] = cn_bitwise_and(cn_bitwise_right_shift(x, cn_int((int64_t)i * bits)), cn_int((1 << bits) - 1));
  x = cn_stack(parts, n, .dim = -1);
  return x ? cn_flatten(x, .start_dim = -2) : NULL;
}

/* A (..., K) times the transpose of B (N, blocks of K, bytes), each block with a scale and a zero point. */
static int matmul_nbits(cni_onnx_call *c)
{
  cn_tensor *a = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1), *scale = cni_onnx_in(c, 2), *zero = cni_onnx_maybe(c, 3);
  cn_tensor *order = cni_onnx_maybe(c, 4), *bias = cni_onnx_maybe(c, 5);
  int64_t k = cni_onnx_int(c, "K", 0), n = cni_onnx_int(c, "N", 0), bits = cni_onnx_int(c, "bits", 4);
  int64_t block = cni_onnx_int(c, "block_size", 0), blocks = block > 0 ? (k + block - 1) / block : 0;
  if (!a || !b || !scale || cn_err()) return cn_err();
  if (order) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "groups in an order of their own (g_idx)");
  if ((bits != 2 && bits != 4 && bits != 8) || k < 1 || n < 1 || blocks < 1 || cn_dtype_of(b) != CN_U8 ||
      cn_numel(b) != n * blocks * (block * bits / 8) || cn_numel(scale) != n * blocks)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "weights, scales and attributes do not fit");
  cn_tensor *w = cn_cast(unpacked(cn_reshape(b, CN_SHAPE(n, blocks, block * bits / 8)), bits), CN_F32);
  if (zero && cn_dtype_of(zero) == CN_U8)
    zero = cn_narrow(unpacked(cn_reshape(zero, CN_SHAPE(n, -1)), bits), 1, 0, blocks);
  zero = zero ? cn_reshape(cn_cast(zero, CN_F32), CN_SHAPE(n, blocks, 1)) : cn_num((double)(1 << (bits - 1)));
  w = cn_mul(cn_sub(w, zero), cn_cast(cn_reshape(scale, CN_SHAPE(n, blocks, 1)), CN_F32));
  w = cn_narrow(cn_reshape(w, CN_SHAPE(n, blocks * block)), 1, 0, k);
  return cni_onnx_out(c, 0, w ? cn_linear(a, cn_cast(w, cn_dtype_of(a)), bias) : NULL);
}

const cni_onnx_op cni_onnx_quantized_ops[] = {
    ONNX_BUILD("QuantizeLinear", 1, cni_onnx_quantize_linear),
    ONNX_BUILD("DequantizeLinear", 1, cni_onnx_dequantize_linear),
    ONNX_BUILD("QLinearAdd", 1, add_or_mul),
    ONNX_BUILD("QLinearMul", 1, add_or_mul),
    ONNX_BUILD("QLinearSigmoid", 1, sigmoid),
    ONNX_BUILD("QLinearLeakyRelu", 1, leaky_relu),
    ONNX_BUILD("QLinearSoftmax", 1, softmax),
    ONNX_BUILD("QLinearConcat", 1, concat),
    ONNX_BUILD("QLinearGlobalAveragePool", 1, global_average_pool),
    ONNX_BUILD("QGemm", 1, gemm),
    ONNX_BUILD("MatMulIntegerToFloat", 1, matmul_integer_to_float),
    ONNX_BUILD("DynamicQuantizeMatMul", 1, dynamic_quantize_matmul),
    ONNX_BUILD("MatMulNBits", 1, matmul_nbits),
    {NULL, NULL, NULL, 0, 0},
};
