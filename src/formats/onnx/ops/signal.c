/* signal.c: Fourier transforms, windows, filters for them. See call.h.
 *
 * Complex numbers are pairs in the last dimension, real ones have one element there. */
#include <math.h>
#include <string.h>

#include "formats/onnx/call.h"

/* ---- transforms ---- */

/* Pairs from pairs, or from numbers (.., 1). */
static cn_tensor *as_pairs(cn_tensor *x)
{
  int64_t last = cn_ndim(x) - 1;
  return cn_size(x, last) == 2 ? x : cn_cat(CN_TENSORS(x, cn_zeros_like(x)), .dim = last);
}

/* Pairs as complex numbers, which transforms take, and back. */
static cn_tensor *numbers(cn_tensor *pairs) { return cn_view_as_complex(cn_contiguous(pairs)); }
static cn_tensor *pairs(cn_tensor *numbers) { return cn_view_as_real(numbers); }

/* The transform of x, floats (.., 1) or (.., 2), along dimension d, which it fills up or cuts to n. Of real numbers the
 * second half is the first one mirrored. */
static cn_tensor *forward(cn_tensor *x, int64_t d, int64_t n, bool half)
{
  static const float conjugate[2] = {1, -1};
  int64_t at = d ? d : CN_ZERO, last = cn_ndim(x) - 1;
  if (cn_size(x, last) == 2) {
    cn_tensor *t = pairs(cn_fft_fft(numbers(x), n, .dim = at));
    return half && t ? cn_narrow(t, d, 0, n / 2 + 1) : t;
  }
  cn_tensor *t = pairs(cn_fft_rfft(cn_squeeze(x, .dim = CN_INTS(last)), n, .dim = at));
  if (half || n < 3 || !t) return t;
  cn_tensor *signs = cn_to_device(cn_from_data(conjugate, CN_SHAPE(2), CN_F32), cn_device_of(x));
  cn_tensor *rest = cn_flip(cn_narrow(t, d, 1, (n - 1) / 2), CN_SHAPE(d));
  return cn_cat(CN_TENSORS(t, cn_mul(rest, signs)), .dim = at);
}

static int check_signal(cni_onnx_call *c, const cn_tensor *x)
{
  if (!x || cn_err()) return cn_err();
  int64_t last = cn_ndim(x) > 1 ? cn_shape(x)[cn_ndim(x) - 1] : 0;
  if (last == 1 || last == 2) return CN_OK;
  return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes real numbers (.., 1) or complex ones (.., 2)");
}

/* x as float32 or float64 */
static cn_tensor *wide(cn_tensor *x) { return cn_dtype_of(x) == CN_F64 ? x : cn_cast(x, CN_F32); }

static int dft(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *t;
  bool inverse = cni_onnx_int(c, "inverse", 0) != 0, half = cni_onnx_int(c, "onesided", 0) != 0;
  int64_t axis = c->opset < 20 ? cni_onnx_int(c, "axis", 1) : cni_onnx_int_in(c, 2, -2);
  if (check_signal(c, x) || (axis = cni_onnx_axis(c, axis, cn_ndim(x))) < 0) return cn_err();
  if (axis == cn_ndim(x) - 1) return cni_onnx_fail(c, CN_ERR_INDEX, "its axis is that of the pairs");
  int64_t size = cn_size(x, axis), n = cni_onnx_int_in(c, 1, inverse && half ? 2 * (size - 1) : size);
  if (cn_err()) return cn_err();
  if (n < 1 || n > INT32_MAX) return cni_onnx_fail(c, CN_ERR_VALUE, "a transform of %lld points", (long long)n);
  cn_dtype dtype = cn_dtype_of(x);
  x = wide(x);
  if (!inverse) t = forward(x, axis, n, half);
  else if (half) t = cn_unsqueeze(cn_fft_irfft(numbers(as_pairs(x)), n, .dim = axis ? axis : CN_ZERO), -1);
  else t = pairs(cn_fft_ifft(numbers(as_pairs(x)), n, .dim = axis ? axis : CN_ZERO));
  return cni_onnx_out(c, 0, t && cn_dtype_of(t) != dtype ? cn_cast(t, dtype) : t);
}

/* Transforms of windows along the signal: (batch, frames, points, 2). Exporters leave the last dimension of real
 * signals away, as onnxruntime lets them. */
static int stft(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *window = cni_onnx_maybe(c, 2);
  int64_t step = cni_onnx_int_in(c, 1, 0);
  if (x && cn_ndim(x) == 2) x = cn_unsqueeze(x, 2);
  if (check_signal(c, x)) return cn_err();
  if (cn_ndim(x) != 3) return cni_onnx_fail(c, CN_ERR_SHAPE, "a signal is (batch, length, 1 or 2)");
  int64_t size = cn_shape(x)[1], n = cni_onnx_int_in(c, 3, window ? cn_numel(window) : size);
  if (cn_err()) return cn_err();
  if (step < 1 || n < 1 || n > size || (window && (cn_ndim(window) != 1 || cn_numel(window) != n)))
    return cni_onnx_fail(c, CN_ERR_VALUE, "frames of %lld, %lld apart, of %lld", (long long)n, (long long)step,
                         (long long)size);
  cn_dtype dtype = cn_dtype_of(x);
  cn_tensor *frames = cn_transpose(cn_unfold(wide(x), 1, n, step), 2, 3);
  if (window) frames = cn_mul(frames, cn_reshape(wide(window), CN_SHAPE(n, 1)));
  cn_tensor *t = frames ? forward(frames, 2, n, cni_onnx_int(c, "onesided", 1) != 0) : NULL;
  return cni_onnx_out(c, 0, t && cn_dtype_of(t) != dtype ? cn_cast(t, dtype) : t);
}

/* ---- windows and filters ---- */

/* a - b cos x + c cos 2x, where x goes round once; a window of one element that would not go round is 1. */
static int window(cni_onnx_call *c)
{
  static const struct {
    const char *name;
    double a, b, c;
  } kinds[] = {
      {"HannWindow", 0.5, 0.5, 0}, {"HammingWindow", 25.0 / 46, 21.0 / 46, 0}, {"BlackmanWindow", 0.42, 0.5, 0.08}};
  int64_t n = cni_onnx_int_in(c, 0, -1), round = cni_onnx_int(c, "periodic", 1) ? n : n - 1;
  cn_dtype dtype = cni_onnx_dtype_of(c, "output_datatype", CN_F32);
  size_t k = 0;
  if (cn_err()) return cn_err();
  if (n < 0 || n > INT32_MAX) return cni_onnx_fail(c, CN_ERR_VALUE, "a window of %lld elements", (long long)n);
  while (strcmp(kinds[k].name, c->node->op) != 0) k++;
  cn_device device = cni_onnx_device(c);
  if (round < 1) return cni_onnx_out(c, 0, cn_ones(CN_SHAPE(n), .dtype = dtype, .device = device));
  cn_tensor *x = cn_arange(0, (double)n, .dtype = CN_F64, .device = device);
  x = cn_div(cn_mul(x, cn_num(6.283185307179586)), cn_int(round));
  cn_tensor *t = cn_rsub(cn_mul(cn_cos(x), cn_num(kinds[k].b)), cn_num(kinds[k].a));
  if (kinds[k].c != 0) t = cn_add(t, cn_mul(cn_cos(cn_mul(x, cn_num(2))), cn_num(kinds[k].c)));
  return cni_onnx_out(c, 0, cn_cast(t, dtype));
}

/* a and b: (1, bands); rising from 0 at a to 1 at b */
static cn_tensor *ramp(cn_tensor *at, cn_tensor *a, cn_tensor *b)
{
  cn_tensor *between = cn_logical_and(cn_gt(at, cn_minimum(a, b)), cn_lt(at, cn_maximum(a, b)));
  return cn_where(between, cn_div(cn_sub(at, a), cn_sub(b, a)), cn_num(0));
}

/* Triangles over the points of a spectrum, evenly apart in mel: (points, bands). */
static int mel_weight_matrix(cni_onnx_call *c)
{
  int64_t bands = cni_onnx_int_in(c, 0, -1), n = cni_onnx_int_in(c, 1, -1), rate = cni_onnx_int_in(c, 2, -1);
  double low = cni_onnx_float_in(c, 3, 0), high = cni_onnx_float_in(c, 4, 0);
  cn_dtype dtype = cni_onnx_dtype_of(c, "output_datatype", CN_F32);
  cn_device device = cni_onnx_device(c);
  if (cn_err()) return cn_err();
  if (bands < 0 || bands > INT32_MAX || n < 1 || n > INT32_MAX || rate < 1 || !(low > -700) || !(high > -700))
    return cni_onnx_fail(c, CN_ERR_VALUE, "its numbers make no filters");
  double from = 2595 * log10(1 + low / 700), to = 2595 * log10(1 + high / 700);
  cn_tensor *mel = cn_arange(0, (double)(bands + 2), .dtype = CN_F64, .device = device);
  mel = cn_add(cn_mul(mel, cn_num((to - from) / (double)(bands + 2))), cn_num(from));
  cn_tensor *hertz = cn_mul(cn_expm1(cn_mul(mel, cn_num(log(10) / 2595))), cn_num(700));
  cn_tensor *edges = cn_floor(cn_div(cn_mul(hertz, cn_int(n + 1)), cn_int(rate)));
  cn_tensor *at = cn_arange(0, (double)(n / 2 + 1), .dtype = CN_F64, .device = device), *edge[3];
  at = cn_reshape(at, CN_SHAPE(n / 2 + 1, 1));
  for (int i = 0; i < 3; i++) edge[i] = cn_reshape(cn_narrow(edges, 0, i, bands), CN_SHAPE(1, bands));
  cn_tensor *t = cn_add(ramp(at, edge[0], edge[1]), ramp(at, edge[2], edge[1]));
  return cni_onnx_out(c, 0, cn_cast(cn_where(cn_eq(at, edge[1]), cn_num(1), t), dtype));
}

const cni_onnx_op cni_onnx_signal_ops[] = {
    ONNX_BUILD("DFT", 17, dft),
    ONNX_BUILD("STFT", 17, stft),
    ONNX_BUILD("HannWindow", 17, window),
    ONNX_BUILD("HammingWindow", 17, window),
    ONNX_BUILD("BlackmanWindow", 17, window),
    ONNX_BUILD("MelWeightMatrix", 17, mel_weight_matrix),
    {NULL, NULL, NULL, 0, 0},
};
