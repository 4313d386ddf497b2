/* product.c: products of matrices, convolutions. See row.h. */
#include <string.h>

#include "row.h"

static cni_oxval scaled(cni_oxcall *c, cni_oxval v, int arg)
{
  bool one = !cni_oxarg_open(c, arg) && cni_oxarg_float(c, arg) == 1;
  return one ? v : cni_ox_binary(c->x, "Mul", v, cni_oxarg_value(c, arg, 0, v.dtype));
}

/* mm, bmm, matmul */
static bool matmul(cni_oxcall *c)
{
  cni_ox_give(c, 0, cni_ox_matmul(c->x, cni_ox_as(c, 0, 0), cni_ox_as(c, 1, 0)));
  return true;
}

/* Attributes of ONNX are float32. */
static bool fit_floats(const cni_oxcall *c)
{
  double beta = cni_oxarg_float(c, 3), alpha = cni_oxarg_float(c, 4);
  return c->out[0].dtype != CN_F64 || ((double)(float)beta == beta && (double)(float)alpha == alpha);
}

/* addmm, baddbmm(input, a, b, beta, alpha) */
static bool added(cni_oxcall *c)
{
  cni_oxval a = cni_ox_as(c, 1, 0), b = cni_ox_as(c, 2, 0), bias = cni_ox_as(c, 0, 0);
  bool nothing = !cni_oxarg_open(c, 3) && cni_oxarg_float(c, 3) == 0;
  bool known = !cni_oxarg_open(c, 3) && !cni_oxarg_open(c, 4);
  if (a.ndim == 2 && bias.ndim <= 2 && !nothing && cni_ox_is_float(a.dtype) && known && fit_floats(c)) {
    cni_ox_float(c->x, "alpha", cni_oxarg_float(c, 4));
    cni_ox_float(c->x, "beta", cni_oxarg_float(c, 3));
    cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Gemm", a, b, bias));
    return true;
  }
  cni_oxval y = scaled(c, cni_ox_matmul(c->x, a, b), 4);
  if (!nothing) y = cni_ox_binary(c->x, "Add", y, scaled(c, bias, 3));
  cni_ox_give(c, 0, y);
  return true;
}

/* x times the transpose of a weight, plus a bias. */
static cni_oxval affine(cni_oxcall *c, cni_oxval v, cni_oxval weight, cni_oxval bias)
{
  if (v.ndim == 2 && weight.ndim == 2 && cni_ox_is_float(v.dtype) && (bias.id < 0 || bias.ndim == 1)) {
    cni_ox_int(c->x, "transB", 1);
    return CNI_OX_EMIT(c->x, "Gemm", v, weight, bias);
  }
  cni_oxval y = cni_ox_matmul(c->x, v, weight.ndim > 1 ? cni_ox_swap(c->x, weight, 0, 1) : weight);
  return bias.id >= 0 ? cni_ox_binary(c->x, "Add", y, bias) : y;
}

/* linear(input, weight, bias) */
static bool linear(cni_oxcall *c)
{
  cni_ox_give(c, 0, affine(c, cni_ox_as(c, 0, 0), cni_ox_as(c, 1, 0), cni_ox_as(c, 2, 0)));
  return true;
}

/* Does a letter mean one size everywhere? Of others cairn repeats a size of 1, and ONNX does not. */
static bool is_plain_einsum(const cni_oxcall *c)
{
  int64_t size[128] = {0};
  const char *s = cni_oxarg_text(c, 0);
  for (int k = 0, d = 0; *s && *s != '-'; s++) {
    if (*s == ',') k++, d = 0;
    if (*s == '.' || k >= c->nin) return false;
    if (*s == ',' || *s == ' ') continue;
    if (*s < 0 || d >= c->in[k].ndim) return false;
    int64_t have = c->in[k].open >> d & 1 ? -1 : c->in[k].shape[d];
    if (size[(int)*s] && size[(int)*s] != have) return false;
    size[(int)*s] = have;
    d++;
  }
  return true;
}

static bool einsum(cni_oxcall *c)
{
  cni_oxval *all = cni_arena_take(&c->x->arena, (size_t)c->nin + 1, sizeof *all);
  if (!all || !cni_ox_is_float(c->out[0].dtype) || !is_plain_einsum(c)) return false;
  for (int k = 0; k < c->nin; k++) all[k] = cni_ox_as(c, k, 0);
  cni_ox_text(c->x, "equation", cni_oxarg_text(c, 0));
  cni_ox_give(c, 0, cni_ox_emit(c->x, "Einsum", c->nin, all));
  return true;
}

/* ---- convolutions ---- */

static void put_same(cni_oxcall *c, const char *name, int arg, int n)
{
  int64_t list[CN_MAX_DIMS];
  for (int k = 0; k < n; k++) list[k] = cni_oxarg_at(c, arg, k);
  cni_ox_ints(c->x, name, list, n);
}

static void put_pads(cni_oxcall *c, int arg, int n)
{
  int64_t list[2 * CN_MAX_DIMS];
  for (int k = 0; k < n; k++) list[k] = list[n + k] = cni_oxarg_at(c, arg, k);
  cni_ox_ints(c->x, "pads", list, 2 * n);
}

/* A picture without a batch gets one of 1. */
static cni_oxval with_batch(cni_oxcall *c, int in, int n)
{
  cni_oxval v = cni_ox_as(c, in, 0);
  return v.ndim == n + 1 ? cni_ox_unsqueeze(c->x, v, 0) : v;
}

static void give_without_batch(cni_oxcall *c, cni_oxval v, int n)
{
  v.ndim = n + 2;
  cni_ox_give(c, 0, c->out[0].ndim == n + 1 ? cni_ox_squeeze(c->x, v, 0) : v);
}

/* onnxruntime has no float64 here: such a convolution is left to what it is made of, where that is something else. */
static bool is_exact(const cni_oxcall *c) { return c->out[0].dtype != CN_F64 && cni_ox_is_float(c->out[0].dtype); }

/* convNd(input, weight, bias, stride, padding, dilation, groups) */
static cni_oxval convolved(cni_oxcall *c, int n)
{
  cni_oxval v = with_batch(c, 0, n);
  put_same(c, "strides", 3, n);
  put_pads(c, 4, n);
  put_same(c, "dilations", 5, n);
  cni_ox_int(c->x, "group", cni_oxarg_int(c, 6));
  return CNI_OX_EMIT(c->x, "Conv", v, cni_ox_as(c, 1, 0), cni_ox_as(c, 2, 0));
}

static bool conv(cni_oxcall *c)
{
  int n = *c->text - '0';
  if (!is_exact(c) && *c->text != '2') return false;
  give_without_batch(c, convolved(c, n), n);
  return true;
}

/* conv2d_fused(input, weight, bias, stride, padding, dilation, groups, residual, relu) */
static bool conv_fused(cni_oxcall *c)
{
  cni_oxval v = convolved(c, 2), rest = c->in[3];
  if (cni_ox_there(&rest)) v = cni_ox_binary(c->x, "Add", v, cni_ox_as(c, 3, 0));
  if (cni_oxarg_int(c, 8)) v = CNI_OX_EMIT(c->x, "Relu", v);
  give_without_batch(c, v, 2);
  return true;
}

/* conv_transposeNd(input, weight, bias, stride, padding, output_padding, groups, dilation) */
static bool conv_transpose(cni_oxcall *c)
{
  int n = *c->text - '0';
  if (!is_exact(c)) return false;
  cni_oxval v = with_batch(c, 0, n);
  put_same(c, "strides", 3, n);
  put_pads(c, 4, n);
  put_same(c, "output_padding", 5, n);
  cni_ox_int(c->x, "group", cni_oxarg_int(c, 6));
  put_same(c, "dilations", 7, n);
  v = CNI_OX_EMIT(c->x, "ConvTranspose", v, cni_ox_as(c, 1, 0), cni_ox_as(c, 2, 0));
  give_without_batch(c, v, n);
  return true;
}

const cni_oxrow cni_ox_product_rows[] = {
    BUILD("mm", 13, matmul),
    BUILD("bmm", 13, matmul),
    BUILD("matmul", 13, matmul),
    BUILD("addmm", 13, added),
    BUILD("baddbmm", 13, added),
    BUILD("linear", 13, linear),
    BUILD("einsum", 13, einsum),
    BUILD_AS("conv1d", 13, conv, "1"),
    BUILD_AS("conv2d", 13, conv, "2"),
    BUILD_AS("conv3d", 13, conv, "3"),
    BUILD("conv2d_fused", 13, conv_fused),
    BUILD_AS("conv_transpose1d", 13, conv_transpose, "1"),
    BUILD_AS("conv_transpose2d", 13, conv_transpose, "2"),
    BUILD_AS("conv_transpose3d", 13, conv_transpose, "3"),
    {NULL, NULL, NULL, 0},
};
