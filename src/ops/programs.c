/* programs.c: the family of pointwise ops that are more than one primitive, or take attributes: written as programs,
 * run in one pass over memory; their gradients are derived (program_grad.c) unless a row overrides them.
 *
 * A builder gets the inputs as registers 0, 1, 2 and attributes by ATTR(parameter). Invariant: a program's shape
 * depends on the variant only; attribute values are filled in per call. */
#include <cairn/ext/parts.h>
#include <cairn/ops.h>

#include "build.h"
#include "families.h"
#include "infer.h"
#include "pointwise.h"

/* ---- arithmetic ---- */

static int alpha_variant(const cn_value *args) { return cni_arg_float(args, 2) != 1; }

/* alpha times other, stored in between as PyTorch's kernel does. */
static int scaled_other(cni_builder *b) { return ROUNDED(MUL(IN1, ROUNDED(ATTR(2)))); }

static int build_add(cni_builder *b, int scaled) { return ADD(IN0, scaled ? scaled_other(b) : IN1); }
static cni_pointwise pw_add = {CNI_NUM, 2, alpha_variant, build_add, NULL, {0}};

static int build_sub(cni_builder *b, int scaled) { return SUB(IN0, scaled ? scaled_other(b) : IN1); }
static cni_pointwise pw_sub = {CNI_SGN, 2, alpha_variant, build_sub, NULL, {0}};

FORMULA(true_divide, FLT, 2, DIV(IN0, IN1))
/* In float16 and bfloat16 PyTorch stores each step, and now and then lands on another integer. */
static int build_floor_divide(cni_builder *b, int variant)
{
  (void)variant;
  if (!b->drop) return FLOOR_DIV(IN0, IN1);
  int ratio = DIV(IN0, IN1), rest = OP2(fmod, IN0, IN1), q = ROUNDED(DIV(ROUNDED(SUB(IN0, rest)), IN1));
  int below = LOGICAL_AND(rest, OP2(ne, LT(rest, K(0)), LT(IN1, K(0))));
  q = WHERE(below, ROUNDED(SUB(q, K(1))), q);
  int floor = OP1(floor, q), nearest = WHERE(GT(SUB(q, floor), K(0.5)), ADD(floor, K(1)), floor);
  return WHERE(EQ(IN1, K(0)), ratio, WHERE(EQ(q, K(0)), OP2(copysign, K(0), ratio), nearest));
}
static cni_pointwise pw_floor_divide = {CNI_SGN, 2, NULL, build_floor_divide, NULL, {0}};
FORMULA(trunc_divide, SGN, 2, b->drop ? TRUNC(ROUNDED(DIV(IN0, IN1))) : TRUNC_DIV(IN0, IN1))
FORMULA(pow, NUM, 2, POW(IN0, IN1))
FORMULA(where, SEL, 3, WHERE(IN0, IN1, IN2))
FORMULA(shift_left, BIT, 2, OP2(shift_left, IN0, IN1))
FORMULA(shift_right, BIT, 2, OP2(shift_right, IN0, IN1))
FORMULA(invert, BIT, 1, OP1(invert, IN0))

/* add and sub of integers: a fractional alpha would be cut off. */
static int scaled_infer(cn_call *c)
{
  int status = cni_pointwise_infer(c);
  if (status || cni_dtype_is_float(c->compute) || cni_is_whole(cni_arg_float(c->args, 2))) return status;
  return cn_call_fail(c, CN_ERR_VALUE, "alpha must be an integer for integer tensors, not %g",
                      cni_arg_float(c->args, 2));
}

/* pow of integers: a negative number as exponent has no integer result. */
static int pow_infer(cn_call *c)
{
  int status = cni_pointwise_infer(c);
  const cn_desc *e = &c->in[1]->d;
  if (status || cni_dtype_is_float(c->compute) || !e->weak || e->dtype != CN_I64) return status;
  if (*(const int64_t *)e->data >= 0) return CN_OK;
  return cn_call_fail(c, CN_ERR_VALUE, "integers to negative integer powers are not allowed; cast to a float type");
}

static int addcdiv_infer(cn_call *c)
{
  int dtype = cni_result_type(c, c->in + 1, 2);
  if (dtype && !cni_dtype_is_float(dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "does not divide integers; cast tensor1 or tensor2 to a float type");
  return dtype ? cni_pointwise_infer(c) : CN_ERR_DTYPE;
}

static int build_lerp(cni_builder *b, int variant)
{
  (void)variant;
  int diff = SUB(IN1, IN0); /* two forms, so that weight 1 gives end exactly */
  return WHERE(LT(ABS(IN2), K(0.5)), ADD(IN0, MUL(IN2, diff)), SUB(IN1, MUL(diff, SUB(K(1), IN2))));
}
static void grad_lerp(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  g[0] = MUL(G, SUB(K(1), in[2]));
  g[1] = MUL(G, in[2]);
  g[2] = MUL(G, SUB(in[1], in[0]));
}
static cni_pointwise pw_lerp = {CNI_NUM, 3, NULL, build_lerp, grad_lerp, {0}};

FORMULA(addcmul, NUM, 3, ADD(IN0, MUL(ATTR(3), MUL(IN1, IN2))))
FORMULA(addcdiv, FLT, 3, ADD(IN0, MUL(ATTR(3), DIV(IN1, IN2))))

/* round(x, decimals): scaled before and after; the gradient is zero either way. */
static int round_variant(const cn_value *args) { return cni_arg_int(args, 1) != 0 ? 1 : 0; }
static int build_round(cni_builder *b, int scaled)
{
  if (!scaled) return RINT(IN0);
  int ten = POW(K(10), ATTR(1));
  return DIV(RINT(MUL(IN0, ten)), ten);
}
static void grad_zero(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)G, (void)in, (void)Y, (void)numbers;
  g[0] = K(0);
}
static cni_pointwise pw_round = {CNI_NUM, 1, round_variant, build_round, grad_zero, {0}};

static int round_infer(cn_call *c)
{
  if (cni_arg_int(c->args, 1) == 0 || cni_dtype_is_float(c->in[0]->d.dtype)) return cni_pointwise_infer(c);
  return cn_call_fail(c, CN_ERR_DTYPE, "decimals are for floating-point tensors, not %s",
                      cn_dtype_name((cn_dtype)c->in[0]->d.dtype));
}

/* ---- clamps: a number as bound gets no gradient, and at it none passes; a tensor shares it at ties ---- */

static int build_clamp_min(cni_builder *b, int variant) { return (void)variant, MAXIMUM(IN0, IN1); }
static void grad_clamp_min(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y;
  int share = WHERE(EQ(in[0], in[1]), MUL(G, K(0.5)), G);
  g[0] = numbers & 2 ? WHERE(GT(in[0], in[1]), G, K(0)) : WHERE(LT(in[0], in[1]), K(0), share);
  g[1] = WHERE(GT(in[0], in[1]), K(0), share);
}
static cni_pointwise pw_clamp_min = {CNI_NUM, 2, NULL, build_clamp_min, grad_clamp_min, {0}};

static int build_clamp_max(cni_builder *b, int variant) { return (void)variant, MINIMUM(IN0, IN1); }
static void grad_clamp_max(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y;
  int share = WHERE(EQ(in[0], in[1]), MUL(G, K(0.5)), G);
  g[0] = numbers & 2 ? WHERE(LT(in[0], in[1]), G, K(0)) : WHERE(GT(in[0], in[1]), K(0), share);
  g[1] = WHERE(LT(in[0], in[1]), K(0), share);
}
static cni_pointwise pw_clamp_max = {CNI_NUM, 2, NULL, build_clamp_max, grad_clamp_max, {0}};

/* Tensors: where all three meet x takes the whole gradient; where the bounds cross, max does. */
static int build_clamp_both(cni_builder *b, int variant) { return (void)variant, OP3(clip, IN0, IN1, IN2); }
static void grad_clamp_both(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y;
  int x = in[0], low = in[1], high = in[2], half = MUL(G, K(0.5));
  int above = GT(x, low), below = LT(x, high), ordered = LE(low, high);
  int at_low = LOGICAL_AND(EQ(x, low), below), at_high = LOGICAL_AND(EQ(x, high), above);
  int cut = LOGICAL_OR(LT(x, low), GT(x, high));
  g[0] = (numbers & 6) == 6 ? WHERE(LOGICAL_AND(above, below), G, K(0))
                            : WHERE(cut, K(0), WHERE(LOGICAL_OR(at_low, at_high), half, G));
  g[1] = WHERE(at_low, half, WHERE(LOGICAL_AND(LT(x, low), ordered), G, K(0)));
  g[2] = WHERE(at_high, half, WHERE(LOGICAL_OR(LOGICAL_AND(GT(x, high), ordered), LT(high, low)), G, K(0)));
}
static cni_pointwise pw_clamp_both = {CNI_NUM, 3, NULL, build_clamp_both, grad_clamp_both, {0}};

/* ---- activations ---- */

static int gelu_variant(const cn_value *args)
{
  if (cni_arg_is(args, 1, "none")) return 0;
  if (cni_arg_is(args, 1, "tanh")) return 1;
  return cni_fail(CN_ERR_VALUE, "gelu: approximate must be 'none' or 'tanh', not '%s'", cni_arg_str(args, 1));
}
static int build_gelu(cni_builder *b, int tanh_form) { return tanh_form ? OP1(gelu_tanh, IN0) : OP1(gelu, IN0); }
static cni_pointwise pw_gelu = {CNI_FLT, 1, gelu_variant, build_gelu, NULL, {0}};

FORMULA(silu, FLT, 1, OP1(silu, IN0))

/* log(1 + exp(bx)) / b, linear above the threshold */
static int build_softplus(cni_builder *b, int variant)
{
  int beta = ATTR(1), threshold = ATTR(2); /* in this order, whatever the compiler evaluates first */
  return (void)variant, OP3(softplus, IN0, beta, threshold);
}
static cni_pointwise pw_softplus = {CNI_FLT, 1, NULL, build_softplus, NULL, {0}};

FORMULA(mish, FLT, 1, OP1(mish, IN0))
FORMULA(logsigmoid, FLT, 1, OP1(logsigmoid, IN0)) /* min(x, 0) - log(1 + exp(-|x|)) */
FORMULA(leaky_relu, FLT, 1, OP2(leaky, IN0, ATTR(1)))

/* scale * (x > 0 ? x : alpha * (exp(x * input_scale) - 1)) */
static int scale_variant(const cn_value *args) { return cni_arg_float(args, 2) != 1; }
static int build_elu(cni_builder *b, int scaled)
{
  int y = OP3(elu, IN0, ATTR(1), ATTR(3));
  return scaled ? MUL(y, ATTR(2)) : y;
}
static cni_pointwise pw_elu = {CNI_FLT, 1, scale_variant, build_elu, NULL, {0}};

static int build_hardtanh(cni_builder *b, int variant)
{
  return (void)variant, OP3(clip, IN0, ATTR(1), ATTR(2));
}
static void grad_hardtanh(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  g[0] = OP2(relu_gate, OP3(within, in[0], ATTR(1), ATTR(2)), G);
}
static cni_pointwise pw_hardtanh = {CNI_NUM, 1, NULL, build_hardtanh, grad_hardtanh, {0}};

FORMULA(hardsigmoid, FLT, 1, OP1(hardsigmoid, IN0))
FORMULA(hardswish, FLT, 1, OP1(hardswish, IN0))

/* ---- what chooses among programs ---- */

/* div(input, other, rounding_mode) */
static int div_decompose(cn_call *c)
{
  if (cni_arg_none(c->args, 2)) c->out[0] = cn_true_divide(c->in[0], c->in[1]);
  else if (cni_arg_is(c->args, 2, "floor")) c->out[0] = cn_floor_divide(c->in[0], c->in[1]);
  else if (cni_arg_is(c->args, 2, "trunc")) c->out[0] = cn_trunc_divide(c->in[0], c->in[1]);
  else
    return cn_call_fail(c, CN_ERR_VALUE, "rounding_mode must be 'trunc' or 'floor', not '%s'",
                        cni_arg_str(c->args, 2));
  return cn_err();
}

static int bitwise_not_decompose(cn_call *c)
{
  c->out[0] = c->in[0]->d.dtype == CN_BOOL ? cn_logical_not(c->in[0]) : cn_invert(c->in[0]);
  return cn_err();
}

/* clamp(input, min, max) */
static int clamp_decompose(cn_call *c)
{
  if (c->in[1] && c->in[2]) c->out[0] = cn_clamp_both(c->in[0], c->in[1], c->in[2]);
  else if (c->in[1]) c->out[0] = cn_clamp_min(c->in[0], c->in[1]);
  else if (c->in[2]) c->out[0] = cn_clamp_max(c->in[0], c->in[2]);
  else return cn_call_fail(c, CN_ERR_VALUE, "at least one of min and max must be given");
  return cn_err();
}

static int relu6_decompose(cn_call *c)
{
  c->out[0] = cn_hardtanh_with(c->in[0], &(cn_hardtanh_opts){.size = sizeof(cn_hardtanh_opts),
                                                             .min_val = (double)CN_ZERO, .max_val = 6});
  return cn_err();
}

/* clang-format off */
const cn_op cni_program_ops[] = {
  {.sig = "add(Tensor|Scalar input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor ; method inplace numbers "
          "complex_pairs",
   .doc = "input + alpha * other, broadcast.",
   CHECKED_PROGRAM(add, scaled_infer)},
  {.sig = "sub(Tensor|Scalar input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor ; method inplace "
          "alias_subtract numbers complex_pairs",
   .doc = "input - alpha * other, broadcast.",
   CHECKED_PROGRAM(sub, scaled_infer)},
  {.sig = "div(Tensor|Scalar input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor ; method inplace "
          "alias_divide numbers complex",
   .doc = "input / other, broadcast; rounding_mode 'floor' rounds down, 'trunc' towards zero.",
   .flags = CN_OP_COMPOSITE, .decompose = div_decompose},
  {.sig = "clamp(Tensor input, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor ; method inplace "
          "alias_clip",
   .doc = "input cut to [min, max]; either bound may be absent.",
   .flags = CN_OP_COMPOSITE, .decompose = clamp_decompose},
  {.sig = "relu6(Tensor input) -> Tensor ; nn",
   .doc = "x cut to [0, 6].",
   .flags = CN_OP_COMPOSITE, .decompose = relu6_decompose},
  {.sig = "true_divide(Tensor|Scalar input, Tensor|Scalar other) -> Tensor ; method inplace numbers "
          "exact_other grad_fn_DivBackward0",
   .doc = "input / other as floating-point numbers, broadcast.",
   PROGRAM(true_divide)},
  {.sig = "floor_divide(Tensor|Scalar input, Tensor|Scalar other) -> Tensor ; method inplace numbers",
   .doc = "Quotient rounded down. An integer division by zero is an error.",
   PROGRAM(floor_divide)},
  {.sig = "trunc_divide(Tensor|Scalar input, Tensor|Scalar other) -> Tensor ; method inplace",
   .doc = "Quotient rounded towards zero. An integer division by zero is an error.",
   PROGRAM(trunc_divide)},
  {.sig = "pow(Tensor|Scalar input, Tensor|Scalar exponent) -> Tensor ; method inplace amp_f32_device",
   .doc = "input to the power of exponent, broadcast.",
   CHECKED_PROGRAM(pow, pow_infer)},
  {.sig = "invert(Tensor input) -> Tensor ; internal",
   .doc = "Inverts each bit of integers. What bitwise_not runs on them.",
   PROGRAM(invert)},
  {.sig = "bitwise_not(Tensor input) -> Tensor ; method inplace",
   .doc = "Inverts each bit; for bool, logical not.",
   .flags = CN_OP_COMPOSITE, .decompose = bitwise_not_decompose},
  {.sig = "where(Tensor condition, Tensor|Scalar input, Tensor|Scalar other) -> Tensor ; method complex_pairs",
   .doc = "input where condition is true (non-zero), other elsewhere; all three broadcast.",
   PROGRAM(where)},
  {.sig = "bitwise_left_shift(Tensor|Scalar input, Tensor|Scalar other) -> Tensor ; method inplace",
   .doc = "Integers shifted left; a shift by a negative number or by 64 and more gives 0.",
   PROGRAM(shift_left)},
  {.sig = "bitwise_right_shift(Tensor|Scalar input, Tensor|Scalar other) -> Tensor ; method inplace",
   .doc = "Integers shifted right, keeping the sign; a shift by a negative number or by 64 and more gives 0 or -1.",
   PROGRAM(shift_right)},
  {.sig = "lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor ; method inplace exact_weight",
   .doc = "input + weight * (end - input).",
   PROGRAM(lerp)},
  {.sig = "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor "
          "; method inplace amp_wide_device",
   .doc = "input + value * tensor1 * tensor2.",
   PROGRAM(addcmul)},
  {.sig = "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor "
          "; method inplace amp_wide_device",
   .doc = "input + value * tensor1 / tensor2.",
   CHECKED_PROGRAM(addcdiv, addcdiv_infer)},
  {.sig = "round(Tensor input, *, int decimals=0) -> Tensor ; method inplace alias_special_round",
   .doc = "Nearest number with that many decimals; ties go to even.",
   CHECKED_PROGRAM(round, round_infer)},
  {.sig = "clamp_min(Tensor input, Tensor|Scalar min) -> Tensor ; method inplace grad_fn_ClampBackward1",
   .doc = "input, but not below min.",
   PROGRAM(clamp_min)},
  {.sig = "clamp_max(Tensor input, Tensor|Scalar max) -> Tensor ; method inplace grad_fn_ClampBackward1",
   .doc = "input, but not above max.",
   PROGRAM(clamp_max)},
  {.sig = "clamp_both(Tensor input, Tensor min, Tensor max) -> Tensor ; internal grad_fn_ClampBackward1",
   .doc = "input cut to [min, max]; max where the bounds cross. What clamp with both bounds runs.",
   PROGRAM(clamp_both)},
  {.sig = "gelu(Tensor input, *, str approximate='none') -> Tensor ; nn",
   .doc = "Gaussian error linear unit: x * Phi(x); approximate 'tanh' uses the tanh form.",
   PROGRAM(gelu)},
  {.sig = "silu(Tensor input) -> Tensor ; nn inplace",
   .doc = "x * sigmoid(x).",
   PROGRAM(silu)},
  {.sig = "softplus(Tensor input, float beta=1, float threshold=20) -> Tensor ; nn amp_f32_device",
   .doc = "log(1 + exp(beta * x)) / beta; x itself where beta * x is above threshold.",
   PROGRAM(softplus)},
  {.sig = "mish(Tensor input) -> Tensor ; nn inplace",
   .doc = "x * tanh(softplus(x)).",
   PROGRAM(mish)},
  {.sig = "logsigmoid(Tensor input) -> Tensor ; nn grad_fn_LogSigmoidBackward0",
   .doc = "log(sigmoid(x)), exact for large |x|.",
   PROGRAM(logsigmoid)},
  {.sig = "leaky_relu(Tensor input, float negative_slope=0.01) -> Tensor ; nn inplace",
   .doc = "x where positive, negative_slope * x elsewhere.",
   PROGRAM(leaky_relu)},
  {.sig = "elu(Tensor input, float alpha=1, float scale=1, float input_scale=1) -> Tensor ; nn inplace",
   .doc = "scale * x where positive, scale * alpha * (exp(input_scale * x) - 1) elsewhere.",
   PROGRAM(elu)},
  {.sig = "hardtanh(Tensor input, float min_val=-1, float max_val=1) -> Tensor ; nn inplace",
   .doc = "x cut to [min_val, max_val].",
   PROGRAM(hardtanh)},
  {.sig = "hardsigmoid(Tensor input) -> Tensor ; nn inplace",
   .doc = "min(max(x + 3, 0), 6) / 6.",
   PROGRAM(hardsigmoid)},
  {.sig = "hardswish(Tensor input) -> Tensor ; nn inplace",
   .doc = "x * min(max(x + 3, 0), 6) / 6.",
   PROGRAM(hardswish)},
};
/* clang-format on */
CNI_FAMILY(program);
