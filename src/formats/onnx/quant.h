/* quant.h: what operators on quantised numbers share: real = (number - zero point) * scale. Internal.
 *
 * Scales and zero points are one number, a vector with one for each index of an axis, or one for each block of an axis.
 * Results belong to the scope; NULL with the error set. */
#ifndef CNI_ONNX_QUANT_H
#define CNI_ONNX_QUANT_H

#include "call.h"

/* A scale or zero point so that it broadcasts with x; block: so many elements of the axis share one, 0: none do. */
cn_tensor *cni_onnx_per_axis(const cni_onnx_call *c, cn_tensor *t, const cn_tensor *x, int64_t axis, int64_t block);

/* x, a number of scales, as the type's nearest number: rounded half to even, the zero point (NULL: 0) added, and held
 * within what the type has. saturate: of types that have an infinity or no number for what is too large. */
cn_tensor *cni_onnx_quantized(const cni_onnx_call *c, cn_tensor *x, cn_tensor *zero, cn_dtype dtype, bool saturate);
/* (x - zero) * scale, which broadcast, in float32 or wider. */
cn_tensor *cni_onnx_real(cn_tensor *x, cn_tensor *scale, cn_tensor *zero);

/* x as uint8 with the scale and zero point that its extremes ask for. 0 or the error. */
typedef struct cni_onnx_scaled {
  cn_tensor *q, *scale, *zero;
} cni_onnx_scaled;
int cni_onnx_quantize_dynamic(cni_onnx_scaled *out, const cni_onnx_call *c, cn_tensor *x);

/* Inputs i, i + 1 and i + 2 (which may be left out) as real numbers; one scale each. */
cn_tensor *cni_onnx_real_in(const cni_onnx_call *c, size_t i);
/* Sets result 0 to y with the scale of input i and the zero point, and type, of input i + 1; without: `otherwise`. */
int cni_onnx_out_quantized(cni_onnx_call *c, cn_tensor *y, size_t i, cn_dtype otherwise);

/* Numbers of 2, 4 or 8 bits out of the last dimension's bytes, lowest first. */
cn_tensor *cni_onnx_unpacked(cn_tensor *x, int64_t bits);

/* QuantizeLinear and DequantizeLinear, which stand in two domains (ops/quantize.c). */
int cni_onnx_quantize_linear(cni_onnx_call *c);
int cni_onnx_dequantize_linear(cni_onnx_call *c);
/* com.microsoft's LSTM of quantised weights (ops/recurrent.c), and QLinearConv (ops/quantproduct.c). */
int cni_onnx_dynamic_lstm(cni_onnx_call *c);
int cni_onnx_qlinear_conv(cni_onnx_call *c);

/* ---- products (int8.c) ---- */

/* Numbers of int8: those of uint8 are 128 less, and so is their zero point. */
typedef struct cni_onnx_int8 {
  cn_tensor *q, *zero; /* zero: int32, which broadcasts with q; NULL: it is 0 */
} cni_onnx_int8;
/* Of input i; its zero point is input `zero`, which may be left out: one number, or a vector with one for each index of
 * `axis`, or as many dimensions as the input. 0 or the error. */
int cni_onnx_int8_in(cni_onnx_int8 *out, const cni_onnx_call *c, size_t i, size_t zero, int64_t axis);
/* The same of tensors. */
int cni_onnx_int8_of(cni_onnx_int8 *out, const cni_onnx_call *c, cn_tensor *x, cn_tensor *zero, int64_t axis);
/* (..., m, k) x (..., k, n) of what is above the zero points, in int32; vectors as matmul takes them. */
cn_tensor *cni_onnx_int8_product(cni_onnx_int8 a, cni_onnx_int8 b);
/* x, quantised by its extremes, times b, of which a unit stands for `scale`: one number, or one for each column, as has
 * its zero point (NULL: 0). */
cn_tensor *cni_onnx_dynamic_product(const cni_onnx_call *c, cn_tensor *x, cn_tensor *b, cn_tensor *scale,
                                    cn_tensor *zero);
/* x (N, C, ...) with w (M, C / group, ...), by the call's attributes: (N, M, ...) in int32. */
cn_tensor *cni_onnx_int8_conv(const cni_onnx_call *c, cni_onnx_int8 x, cni_onnx_int8 w);

#endif
