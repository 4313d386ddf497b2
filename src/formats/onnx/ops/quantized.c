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

/* Where the condition is true the one, elsewhere the other. */
static int where(cni_onnx_call *c)
{
  cn_tensor *condition = cni_onnx_in(c, 0), *a = cni_onnx_real_in(c, 1), *b = a ? cni_onnx_real_in(c, 4) : NULL;
  if (!condition || !b) return cn_err();
  return cni_onnx_out_quantized(c, cn_where(condition, a, b), 7, type_in(c, 1));
}

/* What the default domain has of this name, of real numbers. Channels may come last. */
static int real(cni_onnx_call *c, const char *name, int64_t opset)
{
  cn_tensor *x = cni_onnx_real_in(c, 0);
  bool last = cni_onnx_int(c, "channels_last", 0) != 0;
  if (x && last) x = cn_movedim(x, (int64_t[]){-1}, 1, (int64_t[]){1}, 1);
  if (!x || cn_err() || cni_onnx_standard_of(c, name, opset, &x, 1)) return cn_err();
  cn_tensor *y = cni_onnx_result(c);
  if (y && last) y = cn_contiguous(cn_movedim(y, (int64_t[]){1}, 1, (int64_t[]){-1}, 1));
  return cni_onnx_out_quantized(c, y, 3, type_in(c, 0));
}

static int average_pool(cni_onnx_call *c) { return real(c, "AveragePool", 11); }
static int reduce_mean(cni_onnx_call *c) { return real(c, "ReduceMean", 11); }

/* ---- products ---- */

/* Channels may come last, but for those of the weights. */
static int qlinear_conv(cni_onnx_call *c)
{
  cn_tensor *given[9];
  if (!cni_onnx_int(c, "channels_last", 0)) return cni_onnx_qlinear_conv(c);
  for (size_t i = 0; i < 9; i++) given[i] = cni_onnx_maybe(c, i);
  if (cn_err() || !given[0]) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "input 0 is missing");
  given[0] = cn_movedim(given[0], (int64_t[]){-1}, 1, (int64_t[]){1}, 1);
  if (cni_onnx_standard_of(c, "QLinearConv", 10, given, 9) || !cni_onnx_result(c)) return cn_err();
  return cni_onnx_out(c, 0, cn_contiguous(cn_movedim(cni_onnx_result(c), (int64_t[]){1}, 1, (int64_t[]){-1}, 1)));
}

/* Of 16 bits, with sums in 32. */
static int matmul_integer16(cni_onnx_call *c)
{
  cn_tensor *a = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1);
  if (!a || !b) return cn_err();
  cn_dtype dtype = cn_dtype_of(a) == CN_U16 && cn_dtype_of(b) == CN_U16 ? CN_U32 : CN_I32;
  cn_tensor *t = cn_matmul(cn_cast(a, CN_I64), cn_cast(b, CN_I64));
  return cni_onnx_out(c, 0, t ? cn_cast(t, dtype) : NULL);
}

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
  cn_tensor *x = cni_onnx_in(c, 0), *bias = cni_onnx_maybe(c, 4);
  cn_tensor *y = cni_onnx_dynamic_product(c, x, cni_onnx_in(c, 1), cni_onnx_in(c, 2), cni_onnx_maybe(c, 3));
  return cni_onnx_out(c, 0, y && bias ? cn_add(y, bias) : y);
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

/* The numbers that four bits stand for: bitsandbytes' FP4, then NF4, the quantiles of a normal distribution. */
static const float of_four_bits[2][16] = {
    {0, 0.00520833F, 0.66666667F, 1, 0.33333333F, 0.5F, 0.16666667F, 0.25F, 0, -0.00520833F, -0.66666667F, -1,
     -0.33333333F, -0.5F, -0.16666667F, -0.25F},
    {-1, -0.6961928009986877F, -0.5250730514526367F, -0.39491748809814453F, -0.28444138169288635F,
     -0.18477343022823334F, -0.09105003625154495F, 0, 0.07958029955625534F, 0.16093020141124725F,
     0.24611230194568634F, 0.33791524171829224F, 0.44070982933044434F, 0.5626170039176941F, 0.7229568362236023F, 1}};

/* A times the transpose of B, whose rows follow one another in blocks, each of which has a largest number. The first of
 * two numbers is a byte's upper half. */
static int matmul_bnb4(cni_onnx_call *c)
{
  cn_tensor *a = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1), *most = cni_onnx_in(c, 2);
  int64_t k = cni_onnx_int(c, "K", 0), n = cni_onnx_int(c, "N", 0), block = cni_onnx_int(c, "block_size", 0);
  int64_t type = cni_onnx_int(c, "quant_type", 0);
  if (!a || !b || !most || cn_err()) return cn_err();
  int64_t blocks = k > 0 && n > 0 && block > 0 && n < INT32_MAX && k < INT32_MAX ? (n * k + block - 1) / block : 0;
  if (!blocks || type < 0 || type > 1 || cn_numel(b) != (n * k + 1) / 2 || cn_numel(most) != blocks)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "weights, scales and attributes do not fit");
  b = cn_reshape(b, CN_SHAPE(-1));
  cn_tensor *halves[2] = {cn_bitwise_right_shift(b, cn_int(4)), cn_bitwise_and(b, cn_int(15))};
  cn_tensor *at = cn_cast(cn_narrow(cn_reshape(cn_stack(halves, 2, .dim = 1), CN_SHAPE(-1)), 0, 0, n * k), CN_I64);
  cn_tensor *table = cn_to_device(cn_from_data(of_four_bits[type], CN_SHAPE(16), CN_F32), cni_onnx_device(c));
  cn_tensor *units = cn_repeat_interleave(cn_cast(cn_reshape(most, CN_SHAPE(-1)), CN_F32), block, 0);
  cn_tensor *w = cn_mul(cn_index_select(table, 0, at), cn_narrow(units, 0, 0, n * k));
  w = w ? cn_cast(cn_reshape(w, CN_SHAPE(n, k)), cn_dtype_of(a)) : NULL;
  return cni_onnx_out(c, 0, !w ? NULL : cni_onnx_int(c, "transB", 1) ? cn_linear(a, w, NULL) : cn_matmul(a, w));
}

/* Gathered, then scaled: each block of an axis has a scale and a zero point. Of bytes, `bits` each stand in them. */
static int gather_block_quantized(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *scale = cni_onnx_in(c, 2), *zero = cni_onnx_maybe(c, 3);
  int64_t bits = cni_onnx_int(c, "bits", 4), block = cni_onnx_int(c, "block_size", 128);
  int64_t axis = x ? cni_onnx_axis(c, cni_onnx_int(c, "quantize_axis", 1), cn_ndim(x)) : -1;
  if (axis < 0 || !scale || cn_err()) return cn_err();
  cn_dtype dtype = cn_dtype_of(x);
  bool bytes = dtype == CN_U8, floats = cn_dtype_is_float(dtype);
  if (bytes && bits != 2 && bits != 4 && bits != 8)
    return cni_onnx_fail(c, CN_ERR_VALUE, "bits is %lld", (long long)bits);
  if (bytes) x = cni_onnx_unpacked(x, bits);
  if (bytes && zero) zero = cni_onnx_unpacked(zero, bits);
  if (!x || !scale || cn_ndim(scale) != cn_ndim(x)) return cni_onnx_fail(c, CN_ERR_SHAPE, "scales do not fit");
  if (zero && cn_size(zero, axis) > cn_size(scale, axis)) zero = cn_narrow(zero, axis, 0, cn_size(scale, axis));
  if (floats && !block) block = cn_size(x, axis);
  cn_tensor *unit = cni_onnx_per_axis(c, scale, x, axis, block);
  zero = zero ? cni_onnx_per_axis(c, cn_cast(zero, CN_F32), x, axis, block)
              : cn_num(bytes ? (double)(1 << (bits - 1)) : 0);
  if (!unit || !zero) return cn_err();
  cn_tensor *given[2] = {cn_cast(cn_mul(cn_sub(cn_cast(x, CN_F32), zero), cn_cast(unit, CN_F32)), cn_dtype_of(scale)),
                         cni_onnx_in(c, 1)};
  const cni_onnx_attr *gather = cni_onnx_attr_of(c, "gather_axis");
  const cni_onnx_node *own = c->node;
  cni_onnx_node node = *own;
  cni_onnx_attr along = {.name = "axis", .kind = CNI_ATTR_INT, .i = gather ? gather->i : 0};
  node.attrs = &along;
  node.nattrs = 1;
  c->node = &node;
  int status = cn_err() ? cn_err() : cni_onnx_standard_of(c, "Gather", 13, given, 2);
  c->node = own;
  return status;
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
  cn_tensor *w = cn_cast(cni_onnx_unpacked(cn_reshape(b, CN_SHAPE(n, blocks, block * bits / 8)), bits), CN_F32);
  if (zero && cn_dtype_of(zero) == CN_U8)
    zero = cn_narrow(cni_onnx_unpacked(cn_reshape(zero, CN_SHAPE(n, -1)), bits), 1, 0, blocks);
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
    ONNX_BUILD("MatMulBnb4", 1, matmul_bnb4),
    ONNX_BUILD("MatMulInteger16", 1, matmul_integer16),
    ONNX_BUILD("GatherBlockQuantized", 1, gather_block_quantized),
    ONNX_BUILD("QLinearWhere", 1, where),
    ONNX_BUILD("QLinearAveragePool", 1, average_pool),
    ONNX_BUILD("QLinearReduceMean", 1, reduce_mean),
    ONNX_BUILD("QLinearConv", 1, qlinear_conv),
    ONNX_BUILD("DynamicQuantizeLSTM", 1, cni_onnx_dynamic_lstm),
    {NULL, NULL, NULL, 0, 0},
};
