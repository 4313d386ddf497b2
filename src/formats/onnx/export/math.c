/* math.c: numbers element by element, where ONNX has an operator for the whole op. See row.h. */
#include <string.h>

#include "row.h"

/* Operators without a kernel for float64 are left to the op's formula there. */
static bool is_single(const cni_oxcall *c) { return c->out[0].dtype != CN_F64 && cni_ox_is_float(c->out[0].dtype); }

static bool in_words(cni_oxcall *c) { return is_single(c) && cni_ox_words(c); }

/* elu(input, alpha, scale, input_scale) */
static bool elu(cni_oxcall *c) { return cni_oxarg_float(c, 2) == 1 && cni_oxarg_float(c, 3) == 1 && in_words(c); }

/* softplus(input, beta, threshold): behind the threshold both are the same to the last bit of a float. */
static bool softplus(cni_oxcall *c)
{
  return cni_oxarg_float(c, 1) == 1 && cni_oxarg_float(c, 2) >= 20 && in_words(c);
}

/* prelu(input, weight): one slope, or one for each channel. */
static bool prelu(cni_oxcall *c)
{
  cni_oxval slope = cni_ox_as(c, 1, 0);
  if (!is_single(c) || slope.ndim > 1 || !c->in[0].ndim || slope.open) return false;
  cni_oxval sizes[CN_MAX_DIMS];
  for (int k = 0; k < c->in[0].ndim - 1; k++) sizes[k] = cni_ox_whole(k ? 1 : slope.ndim ? slope.shape[0] : 1);
  if (c->in[0].ndim > 1) slope = cni_ox_reshape(c->x, slope, c->in[0].ndim - 1, sizes);
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "PRelu", cni_ox_as(c, 0, 0), slope));
  return true;
}

/* clamp(input, min, max): by numbers. */
static bool clamp(cni_oxcall *c)
{
  cni_oxval limits[2], v = cni_ox_as(c, 0, 0);
  int kernel = cni_ox_kernel_type(c->x, "Clip", c->out[0].dtype);
  for (int k = 0; k < 2; k++) {
    const cni_oxval *in = &c->in[1 + k];
    if (cni_ox_there(in) && !in->number) return false;
    limits[k] = in->number ? cni_ox_const(c->x, *in, kernel) : cni_ox_absent();
    if (in->number && in->dtype == CN_F64 && in->f != in->f) return false;
  }
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Clip", v, limits[0], limits[1]));
  return true;
}

const cni_oxrow cni_ox_math_rows[] = {
    BUILD_AS("gelu", 20, in_words, "Gelu(R(a), approximate=$approximate)"),
    BUILD_AS("leaky_relu", 13, in_words, "LeakyRelu(R(a), alpha=.$negative_slope)"),
    BUILD_AS("elu", 13, elu, "Elu(R(a), alpha=.$alpha)"),
    BUILD_AS("celu", 13, in_words, "Celu(R(a), alpha=.$alpha)"),
    BUILD_AS("selu", 13, in_words, "Selu(R(a))"),
    BUILD_AS("hardsigmoid", 13, in_words, "HardSigmoid(R(a), alpha=0.16666667, beta=0.5)"),
    BUILD_AS("hardswish", 14, in_words, "HardSwish(R(a))"),
    BUILD_AS("mish", 18, in_words, "Mish(R(a))"),
    BUILD_AS("softplus", 13, softplus, "Softplus(R(a))"),
    BUILD_AS("softsign", 13, in_words, "Softsign(R(a))"),
    BUILD("prelu", 13, prelu),
    BUILD("clamp", 13, clamp),
    ROW("relu6", 13, "Clip(R(a), 0, 6)"),
    ROW("hardtanh", 13, "Clip(R(a), $min_val, $max_val)"),
    ROW("where", 13, "Where(bool(a), R(b), R(c))"),
    ROW("logical_and", 13, "And(bool(a), bool(b))"),
    ROW("logical_or", 13, "Or(bool(a), bool(b))"),
    ROW("logical_xor", 13, "Xor(bool(a), bool(b))"),
    ROW("logical_not", 13, "Not(bool(a))"),
    {NULL, NULL, NULL, 0},
};
