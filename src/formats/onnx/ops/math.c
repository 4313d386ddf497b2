/* math.c: numbers element by element: arithmetic, comparisons, logic, rounding, bits. See call.h. */
#include <string.h>

#include "formats/onnx/texts.h"

/* Two tensors and what is made of them, by name. */
static cn_tensor *pair(const char *op, cn_tensor *a, cn_tensor *b)
{
  cn_value args[2] = {cn_v_tensor(a), cn_v_tensor(b)};
  return a && b ? cni_onnx_op1(op, args, 2) : NULL;
}

/* Whole numbers are divided towards zero. */
static int divide(cni_onnx_call *c)
{
  cn_tensor *a = cni_onnx_operand(c, 0), *b = cni_onnx_operand(c, 1);
  bool whole = !cn_dtype_is_float(cn_dtype_of(a));
  return cni_onnx_out(c, 0, whole ? cn_trunc_divide(a, b) : cn_div(a, b));
}

/* Numbers or strings. */
static int equal(cni_onnx_call *c)
{
  cn_strings a, b;
  if (!cni_onnx_has(c, 0) || c->in[0]->kind != CN_ONNX_STRINGS)
    return cni_onnx_out(c, 0, pair("eq", cni_onnx_in(c, 0), cni_onnx_in(c, 1)));
  if (cni_onnx_strings_in(&a, c, 0) || cni_onnx_strings_in(&b, c, 1)) return cn_err();
  return cni_onnx_out(c, 0, cn_strings_equal(&a, &b));
}

/* fmod: the sign of the dividend, as C has it; else that of the divisor. */
static int mod(cni_onnx_call *c)
{
  cn_tensor *a = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1);
  return cni_onnx_out(c, 0, cni_onnx_int(c, "fmod", 0) ? cn_fmod(a, b) : cn_remainder(a, b));
}

static int where(cni_onnx_call *c)
{
  cn_tensor *condition = cni_onnx_in(c, 0);
  if (cni_onnx_has(c, 1) && c->in[1]->kind == CN_ONNX_STRINGS) return cni_onnx_out_chosen(c, condition);
  cn_tensor *a = cni_onnx_in(c, 1), *b = cni_onnx_in(c, 2);
  return cni_onnx_out(c, 0, condition && a && b ? cn_where(condition, a, b) : NULL);
}

/* ---- before opset 7: the second operand lies at `axis` of the first ---- */

static int old_pair(cni_onnx_call *c)
{
  static const char *const ops[][2] = {{"Add", "add"},         {"Sub", "sub"},         {"Mul", "mul"},
                                       {"Pow", "pow"},         {"And", "logical_and"}, {"Or", "logical_or"},
                                       {"Xor", "logical_xor"}, {"Equal", "eq"},        {"Greater", "gt"},
                                       {"Less", "lt"},         {"Div", "div"}};
  cn_tensor *a = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1);
  int64_t shape[CN_MAX_DIMS], ndim = cn_ndim(a), at = cni_onnx_int(c, "axis", ndim - cn_ndim(b));
  if (!a || !b) return cn_err();
  if (cni_onnx_int(c, "broadcast", 0) && cn_ndim(b) < ndim) {
    at = at < 0 ? at + ndim : at;
    if (at < 0 || at + cn_ndim(b) > ndim) return cni_onnx_fail(c, CN_ERR_INDEX, "axis is out of range");
    for (int64_t i = 0; i < ndim; i++) shape[i] = i >= at && i < at + cn_ndim(b) ? cn_shape(b)[i - at] : 1;
    b = cn_reshape(b, shape, (size_t)ndim);
  }
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (!strcmp(ops[i][0], c->node->op)) {
      bool whole = !strcmp(ops[i][0], "Div") && !cn_dtype_is_float(cn_dtype_of(a));
      return cni_onnx_out(c, 0, pair(whole ? "trunc_divide" : ops[i][1], a, b));
    }
  return cni_onnx_fail(c, CN_ERR_INTERNAL, "no row of its name");
}

/* ---- any number of operands ---- */

static int fold(cni_onnx_call *c, const char *op, bool mean)
{
  size_t n;
  cn_tensor *const *all = cni_onnx_rest(c, 0, &n);
  if (!all || !n) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "it has no inputs");
  cn_tensor *t = all[0];
  for (size_t i = 1; i < n; i++) t = pair(op, t, all[i]);
  return cni_onnx_out(c, 0, mean ? cn_div(t, cn_num((double)n)) : t);
}
static int max(cni_onnx_call *c) { return fold(c, "maximum", false); }
static int min(cni_onnx_call *c) { return fold(c, "minimum", false); }
static int sum(cni_onnx_call *c) { return fold(c, "add", false); }
static int mean(cni_onnx_call *c) { return fold(c, "add", true); }

/* ---- others ---- */

static int is_inf(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  bool below = cni_onnx_int(c, "detect_negative", 1) != 0, above = cni_onnx_int(c, "detect_positive", 1) != 0;
  cn_tensor *t = below && above ? cn_isinf(x)
                 : below        ? cn_isneginf(x)
                 : above        ? cn_isposinf(x)
                                : cn_zeros_like(x, .dtype = CN_BOOL);
  return cni_onnx_out(c, 0, t);
}

/* Bounds may be left out, both. */
static int clip(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *low = cni_onnx_has(c, 1) ? cni_onnx_operand(c, 1) : NULL;
  cn_tensor *high = cni_onnx_has(c, 2) ? cni_onnx_operand(c, 2) : NULL;
  return cni_onnx_out(c, 0, low || high ? cn_clamp(x, low, high) : x);
}

static int bit_shift(cni_onnx_call *c)
{
  const char *way = cni_onnx_text(c, "direction", "");
  bool left = !strcmp(way, "LEFT");
  if (!left && strcmp(way, "RIGHT") != 0) return cni_onnx_fail(c, CN_ERR_VALUE, "direction is '%s'", way);
  return cni_onnx_out(
      c, 0, pair(left ? "bitwise_left_shift" : "bitwise_right_shift", cni_onnx_in(c, 0), cni_onnx_in(c, 1)));
}

const cni_onnx_op cni_onnx_math_ops[] = {
    ONNX_TEXT("Abs", 1, "abs(%0)"),
    ONNX_TEXT("Acos", 7, "acos(%0)"),
    ONNX_TEXT("Acosh", 9, "acosh(%0)"),
    ONNX_TEXT("Asin", 7, "asin(%0)"),
    ONNX_TEXT("Asinh", 9, "asinh(%0)"),
    ONNX_TEXT("Atan", 7, "atan(%0)"),
    ONNX_TEXT("Atanh", 9, "atanh(%0)"),
    ONNX_TEXT("Ceil", 1, "ceil(%0)"),
    ONNX_TEXT("Cos", 7, "cos(%0)"),
    ONNX_TEXT("Cosh", 9, "cosh(%0)"),
    ONNX_TEXT("Erf", 9, "cast(erf(%0), @0)"),
    ONNX_TEXT("Exp", 1, "exp(%0)"),
    ONNX_TEXT("Floor", 1, "floor(%0)"),
    ONNX_TEXT("IsNaN", 9, "isnan(%0)"),
    ONNX_TEXT("Log", 1, "log(%0)"),
    ONNX_TEXT("Neg", 1, "neg(%0)"),
    ONNX_TEXT("Not", 1, "logical_not(%0)"),
    ONNX_TEXT("Reciprocal", 1, "reciprocal(%0)"),
    ONNX_TEXT("Round", 11, "round(%0)"),
    ONNX_TEXT("Sign", 9, "sign(%0)"),
    ONNX_TEXT("Sin", 7, "sin(%0)"),
    ONNX_TEXT("Sinh", 9, "sinh(%0)"),
    ONNX_TEXT("Sqrt", 1, "sqrt(%0)"),
    ONNX_TEXT("Tan", 7, "tan(%0)"),
    ONNX_BUILD("IsInf", 10, is_inf),

    ONNX_BUILD("Add", 1, old_pair),
    ONNX_TEXT("Add", 7, "add(%0, %1)"),
    ONNX_BUILD("Sub", 1, old_pair),
    ONNX_TEXT("Sub", 7, "sub(%0, %1)"),
    ONNX_BUILD("Mul", 1, old_pair),
    ONNX_TEXT("Mul", 7, "mul(%0, %1)"),
    ONNX_BUILD("Div", 1, old_pair),
    ONNX_BUILD("Div", 7, divide),
    ONNX_BUILD("Pow", 1, old_pair),
    ONNX_TEXT("Pow", 7, "cast(pow(%0, %1), @0)"),
    ONNX_BUILD("Mod", 10, mod),

    ONNX_BUILD("And", 1, old_pair),
    ONNX_TEXT("And", 7, "logical_and(%0, %1)"),
    ONNX_BUILD("Or", 1, old_pair),
    ONNX_TEXT("Or", 7, "logical_or(%0, %1)"),
    ONNX_BUILD("Xor", 1, old_pair),
    ONNX_TEXT("Xor", 7, "logical_xor(%0, %1)"),
    ONNX_BUILD("Equal", 1, old_pair),
    ONNX_BUILD("Equal", 7, equal),
    ONNX_BUILD("Greater", 1, old_pair),
    ONNX_TEXT("Greater", 7, "gt(%0, %1)"),
    ONNX_BUILD("Less", 1, old_pair),
    ONNX_TEXT("Less", 7, "lt(%0, %1)"),
    ONNX_TEXT("GreaterOrEqual", 12, "ge(%0, %1)"),
    ONNX_TEXT("LessOrEqual", 12, "le(%0, %1)"),

    ONNX_BUILD("Max", 1, max),
    ONNX_BUILD("Min", 1, min),
    ONNX_BUILD("Sum", 1, sum),
    ONNX_BUILD("Mean", 1, mean),
    ONNX_BUILD("Where", 9, where),
    ONNX_TEXT("Clip", 1, "clamp(%0, $min=-3.4028234663852886e38, $max=3.4028234663852886e38)"),
    ONNX_BUILD("Clip", 11, clip),

    ONNX_BUILD("BitShift", 11, bit_shift),
    ONNX_TEXT("BitwiseAnd", 18, "bitwise_and(%0, %1)"),
    ONNX_TEXT("BitwiseNot", 18, "bitwise_not(%0)"),
    ONNX_TEXT("BitwiseOr", 18, "bitwise_or(%0, %1)"),
    ONNX_TEXT("BitwiseXor", 18, "bitwise_xor(%0, %1)"),
    {NULL, NULL, NULL, 0, 0},
};
