/* other.c: Fourier transforms, windows as columns, losses by rows, weighted elements. See row.h. */
#include <string.h>

#include "row.h"

/* fft_c2c(input, inverse, scaling): (..., n, 2); scaling 0 none, 1 by the root of n, 2 by n */
static bool fft(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0];
  int n = v.ndim - 2;
  bool inverse = cni_oxarg_int(c, 1), alone = v.ndim == 2;
  int64_t scaling = cni_oxarg_int(c, 2);
  if (v.open >> n & 1 || !v.shape[n]) return false;
  double count = (double)v.shape[n];
  double factor = (inverse ? count : 1) / (scaling == 1 ? __builtin_sqrt(count) : scaling == 2 ? count : 1);
  if (alone) v = cni_ox_unsqueeze(x, v, 0), n++;
  if (inverse) cni_ox_int(x, "inverse", 1);
  if (x->opset < 20) cni_ox_int(x, "axis", n);
  cni_oxval none = cni_ox_absent();
  v = x->opset < 20 ? CNI_OX_EMIT(x, "DFT", v)
                    : CNI_OX_EMIT(x, "DFT", v, none, cni_ox_const(x, cni_ox_whole(n), CN_I64));
  if (factor != 1) v = cni_ox_binary(x, "Mul", v, cni_ox_num(factor));
  cni_ox_give(c, 0, alone ? cni_ox_squeeze(x, v, 0) : v);
  return true;
}

/* ---- windows as columns ---- */

static cni_oxval batched(cni_oxcall *c, cni_oxval v, int ndim)
{
  return v.ndim < ndim ? cni_ox_unsqueeze(c->x, v, 0) : v;
}

static void give_batched(cni_oxcall *c, cni_oxval v, int ndim)
{
  v.ndim = ndim;
  cni_ox_give(c, 0, c->out[0].ndim < ndim ? cni_ox_squeeze(c->x, v, 0) : v);
}

static void pair(const cni_oxcall *c, int arg, int64_t *to)
{
  for (int k = 0; k < 2; k++) to[k] = cni_oxarg_at(c, arg, k);
}

/* im2col(input, kernel_size, dilation, padding, stride): (N, C * taps, windows) */
static bool im2col(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = batched(c, c->in[0], 4), sizes[3];
  int64_t size[2], apart[2], pad[2], step[2], pads[8] = {0}, n[2];
  pair(c, 1, size), pair(c, 2, apart), pair(c, 3, pad), pair(c, 4, step);
  if (v.open >> 1) return false;
  int64_t taps = size[0] * size[1];
  cni_oxval *parts = cni_arena_take(&x->arena, (size_t)taps + 1, sizeof *parts);
  if (!parts) return x->failed = true;
  for (int k = 0; k < 2; k++) {
    n[k] = (v.shape[2 + k] + 2 * pad[k] - (size[k] - 1) * apart[k] - 1) / step[k] + 1;
    pads[2 + k] = pads[6 + k] = pad[k];
  }
  cni_oxval wide = pad[0] || pad[1] ? CNI_OX_EMIT(x, "Pad", v, cni_ox_list(x, pads, 8)) : v;
  for (int k = 0; k < 2; k++) wide.shape[2 + k] = v.shape[2 + k] + 2 * pad[k];
  for (int64_t t = 0; t < taps && !x->failed; t++) {
    cni_oxval tap = wide;
    for (int k = 0; k < 2; k++) {
      int64_t at = (k ? t % size[1] : t / size[1]) * apart[k];
      tap = cni_ox_slice(x, tap, 2 + k, cni_ox_whole(at), cni_ox_whole(at + (n[k] - 1) * step[k] + 1), step[k]);
    }
    parts[t] = cni_ox_unsqueeze(x, tap, 2);
  }
  cni_oxval all = cni_ox_concat(x, (int)taps, parts, 2);
  sizes[0] = cni_ox_size(x, v, 0), sizes[1] = cni_ox_whole(v.shape[1] * taps), sizes[2] = cni_ox_whole(n[0] * n[1]);
  give_batched(c, cni_ox_reshape(x, all, 3, sizes), 3);
  return true;
}

/* col2im(input, output_size, kernel_size, dilation, padding, stride) */
static bool col2im(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int64_t image[2], size[2], apart[2], pad[4], step[2];
  pair(c, 1, image), pair(c, 2, size), pair(c, 3, apart), pair(c, 4, pad), pair(c, 4, pad + 2), pair(c, 5, step);
  cni_oxval v = cni_ox_cast(x, batched(c, c->in[0], 3), CN_F32);
  cni_ox_ints(x, "dilations", apart, 2);
  cni_ox_ints(x, "pads", pad, 4);
  cni_ox_ints(x, "strides", step, 2);
  give_batched(c, CNI_OX_EMIT(x, "Col2Im", v, cni_ox_list(x, image, 2), cni_ox_list(x, size, 2)), 4);
  return true;
}

/* ---- cross entropy of rows of scores (N, C) with classes (N): input, target, ignore_index, reduction ---- */

static bool cross_entropy(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->in[0].dtype);
  const char *reduction = cni_oxarg_text(c, 3);
  cni_oxval v = cni_ox_cast(x, c->in[0], type), target = cni_ox_cast(x, c->in[1], CN_I64);
  cni_oxval counts =
      CNI_OX_EXPR(x, "a != b", CN_I64, target, cni_ox_const(x, cni_ox_whole(cni_oxarg_int(c, 2)), CN_I64));
  cni_oxval at = cni_ox_where(x, counts, target, cni_ox_whole(0));
  cni_oxval most = cni_ox_reduce(x, "ReduceMax", v, 2, true);
  most = cni_ox_shaped(CNI_OX_EXPR(x, "Abs(a) < inf ? a : T(0)", type, most), 2, most.shape, most.open);
  cni_oxval e = cni_ox_shaped(CNI_OX_EXPR(x, "Exp(a - b)", type, v, most), 2, v.shape, v.open);
  cni_oxval lse = cni_ox_binary(x, "Add", CNI_OX_EMIT(x, "Log", cni_ox_reduce(x, "ReduceSum", e, 2, true)), most);
  at = cni_ox_unsqueeze(x, cni_ox_shaped(at, 1, target.shape, target.open), 1);
  cni_ox_int(x, "axis", 1);
  cni_oxval own = CNI_OX_EMIT(x, "GatherElements", v, at);
  lse = cni_ox_squeeze(x, cni_ox_shaped(lse, 2, most.shape, most.open), 1);
  own = cni_ox_squeeze(x, cni_ox_shaped(own, 2, most.shape, most.open), 1);
  cni_oxval loss = CNI_OX_EXPR(x, "c ? a - b : T(0)", type, lse, own, counts);
  loss = cni_ox_shaped(loss, 1, target.shape, target.open),
  counts = cni_ox_shaped(counts, 1, target.shape, target.open);
  if (strcmp(reduction, "none") != 0) loss = cni_ox_reduce(x, "ReduceSum", loss, 1, false);
  if (!strcmp(reduction, "mean"))
    loss = cni_ox_binary(x, "Div", loss, cni_ox_reduce(x, "ReduceSum", cni_ox_cast(x, counts, type), 1, false));
  cni_ox_give(c, 0, loss);
  cni_ox_give(c, 1, lse);
  return true;
}

/* ---- sums of weighted elements: (N, C, S) at (N, K, P), which weigh (N, K, P): (N, C, P) ---- */

static bool weighted_gather(cni_oxcall *c)
{
  cni_ox *x = c->x;
  const cni_oxval *index = &c->in[1];
  int type = cni_ox_wide(c->out[0].dtype);
  if (c->in[0].open || index->open) return false;
  int64_t n = index->shape[0], kp = index->shape[1] * index->shape[2], channels = c->in[0].shape[1];
  cni_oxval flat[3] = {cni_ox_whole(n), cni_ox_whole(1), cni_ox_whole(kp)};
  cni_oxval all[3] = {flat[0], cni_ox_whole(channels), flat[2]};
  cni_oxval four[4] = {flat[0], all[1], cni_ox_whole(index->shape[1]), cni_ox_whole(index->shape[2])};
  cni_oxval at = cni_ox_cast(x, *index, CN_I64), named = CNI_OX_EXPR(x, "a >= 0", CN_I64, at);
  named = cni_ox_unsqueeze(x, cni_ox_shaped(named, 3, index->shape, 0), 1);
  at = cni_ox_shaped(CNI_OX_EXPR(x, "Max(a, i64(0))", CN_I64, at), 3, index->shape, 0);
  at = cni_ox_expand(x, cni_ox_reshape(x, at, 3, flat), 3, all);
  cni_ox_int(x, "axis", 2);
  cni_oxval v = CNI_OX_EMIT(x, "GatherElements", cni_ox_cast(x, c->in[0], type), at);
  v = cni_ox_reshape(x, cni_ox_shaped(v, 3, at.shape, 0), 4, four);
  cni_oxval w = cni_ox_unsqueeze(x, cni_ox_cast(x, c->in[2], type), 1);
  cni_oxval y = CNI_OX_EXPR(x, "c ? a * b : T(0)", type, v, w, named);
  cni_ox_give(c, 0, cni_ox_reduce(x, "ReduceSum", cni_ox_shaped(y, 4, v.shape, 0), 4, false));
  return true;
}

/* repeat_interleave_indices(repeats): for each place of the result how many running sums lie at or below it */
static bool repeated(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = cni_ox_cast(x, c->in[0], CN_I64), zero = cni_ox_const(x, cni_ox_whole(0), CN_I64);
  cni_oxval total = cni_ox_reduce(x, "ReduceSum", v, 1, false), sums = CNI_OX_EMIT(x, "CumSum", v, zero);
  cni_oxval i = CNI_OX_EMIT(x, "Range", zero, total, cni_ox_const(x, cni_ox_whole(1), CN_I64));
  int64_t one = 1;
  i = cni_ox_unsqueeze(x, cni_ox_shaped(i, 1, &one, 1), 1);
  cni_oxval below = cni_ox_cast(x, CNI_OX_EXPR(x, "a <= b", CN_I64, cni_ox_unsqueeze(x, sums, 0), i), CN_I64);
  below.ndim = 2, below.open = 3;
  cni_ox_give(c, 0, cni_ox_reduce(x, "ReduceSum", below, 2, false));
  return true;
}

static bool determinant(cni_oxcall *c)
{
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Det", c->in[0]));
  return true;
}

const cni_oxrow cni_ox_other_rows[] = {
    BUILD("fft_c2c", 17, fft),
    BUILD("im2col", 13, im2col),
    BUILD("col2im", 18, col2im),
    BUILD("cross_entropy_rows", 13, cross_entropy),
    BUILD("weighted_gather", 13, weighted_gather),
    BUILD("repeat_interleave_indices", 13, repeated),
    BUILD("linalg_det", 13, determinant),
    {NULL, NULL, NULL, 0},
};
