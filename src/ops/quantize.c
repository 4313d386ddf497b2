/* quantize.c: the family of ops that say how numbers are rounded to a few bits: explicit quantisation in graphs and
 * files, its rehearsal in training, and products of 8-bit floats.
 *
 * Place in the flow: quantize_linear and dequantize_linear are composites; fake_quantize_* have a decomposition and a
 * gradient of their own, which goes straight through the rounding; scaled_mm has a decomposition, and a kernel where a
 * device multiplies 8-bit floats. Invariants: a quantised number is rounded half to even and then clamped, never
 * wrapped; products of 8-bit floats are added up in float32 and rounded once. */
#include <cairn/kw.h>

#include "base/dtype.h"
#include "cost.h"
#include "families.h"
#include "shorthand.h"

/* ---- types and shapes ---- */

static bool bounds(int dtype, double *least, double *most)
{
  *least = dtype == CN_I8 ? -128 : dtype == CN_I16 ? -32768 : 0;
  *most = dtype == CN_I8 ? 127 : dtype == CN_I16 ? 32767 : 255;
  return dtype == CN_I8 || dtype == CN_U8 || dtype == CN_I16;
}

/* Halves are computed with as float32: a product in between would lose what is to be rounded once. */
static int wide(int dtype) { return dtype == CN_F64 ? CN_F64 : CN_F32; }

/* scale or zero_point as a tensor of this type that broadcasts with x: one number, or one for each index of `axis`. */
static cn_tensor *spread(const cn_call *c, cn_tensor *t, const cn_desc *x, int64_t axis, int dtype, const char *name)
{
  int64_t shape[CN_MAX_DIMS];
  if (!t) return NULL;
  if (t->d.weak || t->d.ndim == 0) return cn_cast(t, (cn_dtype)dtype);
  if (x->ndim == 0 && t->d.numel == 1) return cn_cast(cn_reshape(t, CN_SCALAR_SHAPE), (cn_dtype)dtype);
  int dim = cn_call_dim(c, axis, x->ndim);
  if (dim < 0) return NULL;
  if (t->d.ndim != 1 || t->d.numel != x->shape[dim]) {
    cn_call_fail(c, CN_ERR_SHAPE, "%s must be a number, or a vector of %lld, the size of dimension %d", name,
                 (long long)(x->ndim ? x->shape[dim] : 1), dim);
    return NULL;
  }
  for (int i = 0; i < x->ndim; i++) shape[i] = i == dim ? t->d.numel : 1;
  return cn_cast(cn_reshape(t, shape, (size_t)x->ndim), (cn_dtype)dtype);
}

/* ---- quantize_linear(input, scale, zero_point, axis, dtype) ---- */

static int quantize_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int dtype = cni_arg_none(c->args, 4) ? CN_I8 : (int)cni_arg_int(c->args, 4), type = wide(x->dtype);
  double least, most;
  if (!cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s", cn_dtype_name((cn_dtype)x->dtype));
  if (!bounds(dtype, &least, &most))
    return cn_call_fail(c, CN_ERR_DTYPE, "gives int8, uint8 or int16, not %s", cn_dtype_name((cn_dtype)dtype));
  int64_t axis = cni_arg_int(c->args, 3);
  cn_tensor *scale = spread(c, c->in[1], x, axis, type, "scale");
  cn_tensor *zero = spread(c, c->in[2], x, axis, type, "zero_point");
  if (cn_err()) return cn_err();
  cn_tensor *q = cn_round(cn_true_divide(cn_cast(c->in[0], (cn_dtype)type), scale));
  if (zero) q = cn_add(q, zero);
  c->out[0] = cn_cast(cn_clamp(q, cn_num(least), cn_num(most)), (cn_dtype)dtype);
  return cn_err();
}

/* dequantize_linear(input, scale, zero_point, axis, dtype) */
static int dequantize_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  bool given = !cni_arg_none(c->args, 4);
  int of_scale = c->in[1]->d.weak || !cni_dtype_is_float(c->in[1]->d.dtype) ? CN_F32 : c->in[1]->d.dtype;
  int dtype = given ? (int)cni_arg_int(c->args, 4) : of_scale, type = wide(dtype);
  if (cni_dtype_is_float(x->dtype) || x->dtype == CN_BOOL || !cni_dtype_computes(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes integers, not %s", cn_dtype_name((cn_dtype)x->dtype));
  if (!cni_dtype_valid(dtype) || !cni_dtype_is_float(dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "gives floating-point numbers, not %s", cn_dtype_name((cn_dtype)dtype));
  int64_t axis = cni_arg_int(c->args, 3);
  cn_tensor *scale = spread(c, c->in[1], x, axis, type, "scale");
  cn_tensor *zero = spread(c, c->in[2], x, axis, type, "zero_point");
  if (cn_err()) return cn_err();
  cn_tensor *y = cn_cast(c->in[0], (cn_dtype)type);
  if (zero) y = cn_sub(y, zero);
  c->out[0] = cni_in_type(cn_mul(y, scale), dtype);
  return cn_err();
}

/* ---- fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max), and per channel ---- */

/* The arguments of either form. */
typedef struct fake {
  cn_tensor *q;           /* rounded, not clamped yet, of the type that is computed in */
  cn_tensor *scale, *zero;
  double least, most;
} fake;

enum { PER_CHANNEL_ARGS = 6 };

static int fake_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int at = c->nargs == PER_CHANNEL_ARGS ? 4 : 3;
  int64_t least = cni_arg_int(c->args, at), most = cni_arg_int(c->args, at + 1);
  if (!cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s", cn_dtype_name((cn_dtype)x->dtype));
  if (least > most)
    return cn_call_fail(c, CN_ERR_VALUE, "quant_min is %lld, above quant_max, %lld", (long long)least, (long long)most);
  int dim = at == 4 ? cn_call_dim(c, cni_arg_int(c->args, 3), x->ndim) : 0;
  if (dim < 0) return dim;
  for (int i = 1; i <= 2; i++) {
    const cn_desc *t = &c->in[i]->d;
    bool fits = at == 4 ? t->ndim == 1 && t->numel == (x->ndim ? x->shape[dim] : 1) : t->numel == 1;
    if (!fits)
      return cn_call_fail(c, CN_ERR_SHAPE, "scale and zero_point must be %s",
                          at == 4 ? "vectors with a number for each index of the axis" : "one number each");
  }
  const cn_desc *z = &c->in[2]->d; /* a number that is an input of a graph has no value yet */
  int64_t zero = z->weak && z->data && z->dtype == CN_I64 ? *(const int64_t *)z->data : least;
  if (zero < least || zero > most)
    return cn_call_fail(c, CN_ERR_VALUE, "zero_point %lld is not in %lld..%lld", (long long)zero, (long long)least,
                        (long long)most);
  return cni_infer_like(c, 0, 0, x->dtype);
}

static fake fake_quantized(const cn_call *c, cn_tensor *input, cn_tensor *scale, cn_tensor *zero, const cn_value *args,
                           bool channels)
{
  int type = wide(input->d.dtype), at = channels ? 4 : 3;
  int64_t axis = channels ? cni_arg_int(args, 3) : 0;
  fake f = {.least = (double)cni_arg_int(args, at), .most = (double)cni_arg_int(args, at + 1)};
  if (!channels && !scale->d.weak) scale = cn_reshape(scale, CN_SCALAR_SHAPE);
  if (!channels && !zero->d.weak) zero = cn_reshape(zero, CN_SCALAR_SHAPE);
  f.scale = spread(c, scale, &input->d, axis, type, "scale");
  f.zero = spread(c, zero, &input->d, axis, type, "zero_point");
  f.q = cn_add(cn_round(cn_mul(cni_in_type(input, type), cn_reciprocal(f.scale))), f.zero);
  return f;
}

static int fake_decompose(cn_call *c)
{
  fake f = fake_quantized(c, c->in[0], c->in[1], c->in[2], c->args, c->nargs == PER_CHANNEL_ARGS);
  cn_tensor *y = cn_mul(cn_sub(cn_clamp(f.q, cn_num(f.least), cn_num(f.most)), f.zero), f.scale);
  c->out[0] = cni_in_type(y, c->in[0]->d.dtype);
  return cn_err();
}

/* Straight through where the number was in range, nothing where it was clamped; scale and zero_point have none. */
static int fake_vjp(cn_vjp *v)
{
  if (!v->need[0]) return CN_OK;
  cn_call c = {.op = v->op, .args = v->args, .nargs = v->nargs, .in = v->in, .nin = v->nin};
  cn_tensor *x = cn_detach(v->in[0]);
  if (!x) return cn_err();
  fake f = fake_quantized(&c, x, v->in[1], v->in[2], v->args, v->nargs == PER_CHANNEL_ARGS);
  cn_tensor *inside = cn_logical_and(cn_ge(f.q, cn_num(f.least)), cn_le(f.q, cn_num(f.most)));
  v->gin[0] = cn_where(inside, v->g[0], cn_num(0));
  return cn_err();
}

/* ---- scaled_mm(input, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum) ---- */

enum { A, B, SCALE_A, SCALE_B, BIAS, SCALE_RESULT, OUT_DTYPE, FAST }; /* parameters; the first are inputs, too */

static bool is_f8(int dtype) { return dtype == CN_F8E4M3 || dtype == CN_F8E5M2; }

static int scaled_type(const cn_call *c)
{
  return cni_arg_none(c->args, OUT_DTYPE) ? c->in[A]->d.dtype : (int)cni_arg_int(c->args, OUT_DTYPE);
}

/* One for each row of a, (m, 1), and for each column of b, (1, n)? */
static bool has_row_scales(const cn_call *c)
{
  const cn_desc *a = &c->in[SCALE_A]->d, *b = &c->in[SCALE_B]->d;
  return a->ndim == 2 && b->ndim == 2 && a->shape[0] == c->in[A]->d.shape[0] && a->shape[1] == 1 && b->shape[0] == 1 &&
         b->shape[1] == c->in[B]->d.shape[1];
}

static int check_scales(const cn_call *c)
{
  char left[CNI_SHAPE_TEXT], right[CNI_SHAPE_TEXT];
  const cn_desc *a = &c->in[SCALE_A]->d, *b = &c->in[SCALE_B]->d;
  const cn_desc *r = c->in[SCALE_RESULT] ? &c->in[SCALE_RESULT]->d : a;
  if (a->dtype != CN_F32 || b->dtype != CN_F32 || r->dtype != CN_F32)
    return cn_call_fail(c, CN_ERR_DTYPE, "scales must be float32, but are %s, %s and %s",
                        cn_dtype_name((cn_dtype)a->dtype), cn_dtype_name((cn_dtype)b->dtype),
                        cn_dtype_name((cn_dtype)r->dtype));
  if (c->in[SCALE_RESULT] && r->numel != 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "scale_result must be one number, but has shape %s",
                        cni_shape_text(left, sizeof left, r->ndim, r->shape));
  if ((a->numel == 1 && b->numel == 1) || has_row_scales(c)) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "scales must be one number each, or of shapes [%lld, 1] and [1, %lld], one for "
                      "each row of input and column of mat2, but have shapes %s and %s",
                      (long long)c->in[A]->d.shape[0], (long long)c->in[B]->d.shape[1],
                      cni_shape_text(left, sizeof left, a->ndim, a->shape),
                      cni_shape_text(right, sizeof right, b->ndim, b->shape));
}

static int scaled_mm_infer(cn_call *c)
{
  char left[CNI_SHAPE_TEXT], right[CNI_SHAPE_TEXT];
  const cn_desc *a = &c->in[A]->d, *b = &c->in[B]->d, *bias = c->in[BIAS] ? &c->in[BIAS]->d : NULL;
  if (!is_f8(a->dtype) || !is_f8(b->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes matrices of float8_e4m3fn and float8_e5m2, not %s and %s",
                        cn_dtype_name((cn_dtype)a->dtype), cn_dtype_name((cn_dtype)b->dtype));
  if (a->ndim != 2 || b->ndim != 2 || a->shape[1] != b->shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "shapes %s and %s cannot be multiplied as matrices",
                        cni_shape_text(left, sizeof left, a->ndim, a->shape),
                        cni_shape_text(right, sizeof right, b->ndim, b->shape));
  const int64_t shape[2] = {a->shape[0], b->shape[1]};
  int dtype = scaled_type(c), status = check_scales(c);
  if (status) return status;
  if (dtype != CN_F32 && !cni_is_half(dtype) && !is_f8(dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "gives float32, float16, bfloat16, float8_e4m3fn or float8_e5m2, not %s",
                        cn_dtype_name((cn_dtype)dtype));
  if (bias && (!cni_dtype_is_float(bias->dtype) || !cni_dtype_computes(bias->dtype)))
    return cn_call_fail(c, CN_ERR_DTYPE, "bias must be floating-point, not %s", cn_dtype_name((cn_dtype)bias->dtype));
  if (bias && (bias->ndim != 1 || bias->shape[0] != shape[1]))
    return cn_call_fail(c, CN_ERR_SHAPE, "bias must be a vector of %lld, but has shape %s", (long long)shape[1],
                        cni_shape_text(left, sizeof left, bias->ndim, bias->shape));
  return cn_call_result(c, 0, dtype, 2, shape);
}

/* Each step calls the op again for a plainer form, which a device may have a kernel for: without what comes behind the
 * product, then with one scale for all rows. bfloat16 holds all 8-bit floats, and its products are added in float32. */
static int scaled_mm_decompose(cn_call *c)
{
  cn_tensor *a = c->in[A], *b = c->in[B], *one = c->in[SCALE_A], *other = c->in[SCALE_B], *y;
  int dtype = scaled_type(c);
  cn_scaled_mm_opts o = {.size = sizeof o, .out_dtype = CN_F32, .use_fast_accum = cni_arg_bool(c->args, FAST)};
  if (dtype != CN_F32 || c->in[BIAS]) {
    y = cn_scaled_mm_with(a, b, one, other, &o);
    if (c->in[BIAS]) y = cn_add(y, cni_in_type(c->in[BIAS], CN_F32));
    if (c->in[SCALE_RESULT] && is_f8(dtype)) y = cn_mul(y, cn_reshape(c->in[SCALE_RESULT], CN_SCALAR_SHAPE));
    y = cni_in_type(y, dtype);
  } else if (one->d.numel != 1 || other->d.numel != 1) {
    cn_tensor *none = cn_ones(CN_SCALAR_SHAPE, .dtype = CN_F32, .device = c->device);
    y = cn_mul(cn_mul(cn_scaled_mm_with(a, b, none, none, &o), one), other);
  } else {
    y = cn_mm_dtype(cn_cast(a, CN_BF16), cn_cast(b, CN_BF16), CN_F32);
    y = cn_mul(y, cn_mul(cn_reshape(one, CN_SCALAR_SHAPE), cn_reshape(other, CN_SCALAR_SHAPE)));
  }
  c->out[0] = y;
  return cn_err();
}

/* clang-format off */
const cn_op cni_quantize_ops[] = {
  {.sig = "quantize_linear(Tensor input, Tensor|Scalar scale, Tensor|Scalar? zero_point=None, *, int axis=1, "
          "dtype? dtype=None) -> Tensor",
   .doc = "input / scale + zero_point as int8 (or uint8, int16), rounded half to even and clamped to what the type "
          "holds. scale and zero_point are one number each, or vectors with one for each index of axis.",
   .flags = CN_OP_COMPOSITE, .decompose = quantize_decompose},
  {.sig = "dequantize_linear(Tensor input, Tensor|Scalar scale, Tensor|Scalar? zero_point=None, *, int axis=1, "
          "dtype? dtype=None) -> Tensor",
   .doc = "(input - zero_point) * scale of quantised integers, in the type of scale or the one given. See "
          "quantize_linear.",
   .flags = CN_OP_COMPOSITE, .decompose = dequantize_decompose},
  {.sig = "fake_quantize_per_tensor_affine(Tensor input, Tensor|Scalar scale, Tensor|Scalar zero_point, "
          "int quant_min, int quant_max) -> Tensor ; grad_fn_FakeQuantizePerTensorAffineCachemaskBackward0",
   .doc = "input as if it were quantised to quant_min..quant_max and back. The gradient goes straight through where "
          "the number was in range, and is zero where it was clamped.",
   .infer = fake_infer, .vjp = fake_vjp, .decompose = fake_decompose,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_IN(2)},
   .copied = CN_IN(0) | CN_IN(1) | CN_IN(2)},
  {.sig = "fake_quantize_per_channel_affine(Tensor input, Tensor scale, Tensor zero_point, int axis, int quant_min, "
          "int quant_max) -> Tensor ; grad_fn_FakeQuantizePerChannelAffineCachemaskBackward0",
   .doc = "fake_quantize_per_tensor_affine with a scale and a zero point for each index of axis.",
   .infer = fake_infer, .vjp = fake_vjp, .decompose = fake_decompose,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_IN(2)},
   .copied = CN_IN(0) | CN_IN(1) | CN_IN(2)},
  {.sig = "scaled_mm(Tensor input, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
          "Tensor? scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor "
          "; alias__scaled_mm opt_bias opt_scale_result",
   .doc = "Product of two matrices of 8-bit floats (float8_e4m3fn, float8_e5m2), (m, k) x (k, n), times their scales, "
          "plus bias, rounded once to out_dtype (that of input). scale_a and scale_b are float32: one number each, or "
          "(m, 1) and (1, n). scale_result multiplies results that are 8-bit floats, and is not looked at otherwise. "
          "use_fast_accum: devices may add up with fewer bits. Fastest where mat2 lies by columns.",
   .flags = CN_OP_NO_GRAD | CN_OP_ANY_DTYPE, .cost = cni_cost_product,
   .infer = scaled_mm_infer, .decompose = scaled_mm_decompose},
};
/* clang-format on */
CNI_FAMILY(quantize);
