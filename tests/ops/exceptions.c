/* exceptions.c: what a driver leaves out, in one table, each with its reason.
 *
 * "gradcheck": where finite differences mean nothing. "second order": first-order gradients are checked, their
 * gradients are not. "layouts": the op's meaning depends on memory. "data dependent": it reads data in C, or the
 * driver does, so that capture may refuse it; "reads data": the op itself does, so that a compiled function may be
 * refused. "larger memory": ... where an input is a part of a larger tensor. "elsewhere": on other devices than the
 * mirror; "gradient elsewhere": there may be another one there. "stablehlo": it has no text; "stablehlo values": XLA's
 * results are others; "saved": PyTorch keeps a copy that it made on the way. "onnx": it has no form in the default
 * opset; "onnx values": onnxruntime's results are others; "onnx single": what is float64 is computed in float32.
 * Invariant: an entry is removed when its reason is gone. */
#include <string.h>

#include "drivers.h"

static const struct {
  const char *driver, *op, *reason;
  const char *where; /* only samples that contain this; NULL: all of the op */
} table[] = {
  {"layouts", "view", "a view of another layout may need a copy", NULL},
  {"layouts", "unflatten", "a view of another layout may need a copy", NULL},
  {"layouts", "as_strided", "strides count in memory", NULL},
  {"layouts", "as_strided_from", "strides count in memory", NULL},
  {"layouts", "as_strided_scatter", "strides count in memory", NULL},
  {"layouts", "as_strided_copy", "strides count in memory", NULL},
  {"layouts", "view_copy", "a view of another layout may need a copy", NULL},

  {"layouts", "view_dtype", "the last dimension must be dense", NULL},
  {"layouts", "view_as_complex", "the last dimension must be dense", NULL},

  {"vmap", "empty_like", "its elements are not set", NULL},
  {"vmap", "empty_strided", "its elements are not set", NULL},
  {"vmap", "as_strided", "strides count in memory", NULL},
  {"vmap", "as_strided_from", "strides count in memory", NULL},
  {"vmap", "as_strided_copy", "strides count in memory", NULL},
  {"vmap", "as_strided_scatter", "strides count in memory", NULL},
  {"vmap", "batch_norm", "it writes to running statistics that all examples share", "training=True"},
  {"vmap", "instance_norm", "it writes to running statistics that all examples share", "f32[3].d, f32[3].d+"},
  {"vmap", "std", "no degrees of freedom", "correction=5"},
  {"vmap", "std_mean", "no degrees of freedom", "correction=5"},
  {"threads", "empty", "its elements are not set", NULL},
  {"threads", "empty_like", "its elements are not set", NULL},
  {"threads", "empty_strided", "its elements are not set", NULL},
  {"threads", "empty_permuted", "its elements are not set", NULL},
  {"capture", "empty", "its elements are not set", NULL},
  {"capture", "empty_like", "its elements are not set", NULL},
  {"capture", "empty_strided", "its elements are not set", NULL},
  {"capture", "empty_permuted", "its elements are not set", NULL},
  {"mirror", "empty", "its elements are not set", NULL},
  {"mirror", "empty_like", "its elements are not set", NULL},
  {"mirror", "empty_strided", "its elements are not set", NULL},
  {"mirror", "empty_permuted", "its elements are not set", NULL},
  {"stablehlo values", "empty", "its elements are not set", NULL},
  {"stablehlo values", "empty_like", "its elements are not set", NULL},
  {"stablehlo values", "empty_strided", "its elements are not set", NULL},
  {"stablehlo values", "empty_permuted", "its elements are not set", NULL},
  {"stablehlo values", "frexp", "XLA takes numbers that are subnormal for 0", "1e-40"},
  {"stablehlo values", "var_mean", "a sum that overflows on the way in one order alone", "!"},
  {"stablehlo values", "std_mean", "a sum that overflows on the way in one order alone", "!"},
  {"stablehlo values", "linalg_eigvalsh", "of equal eigenvalues the vectors are any of their space", "=1)"},
  {"stablehlo values", "searchsorted", "what is not sorted", "nan,2,3}"},
  {"stablehlo values", "linalg_eigvals", "LAPACK's order of the eigenvalues of real matrices", "f32[2,4,4]"},
  {"stablehlo", "linalg_svdvals", "of complex matrices", "c128"},
  {"stablehlo", "linalg_eigvalsh", "of complex matrices", "c128"},
  {"stablehlo", "linalg_qr", "of complex matrices", "c128"},
  {"stablehlo", "as_strided", "it reaches elements that its input does not show", ".s"},
  {"onnx", "cast", "a type of opset 24", "f8e8m0"},
  {"onnx values", "max_pool1d_with_indices", "NaN is lost in MaxPool", "!"},
  {"onnx values", "max_pool2d_with_indices", "NaN is lost in MaxPool", "!"},
  {"onnx values", "max_pool3d_with_indices", "NaN is lost in MaxPool", "!"},
  {"onnx values", "max_pool2d", "NaN is lost in MaxPool", "!"},
  {"onnx values", "log_softmax", "rows with infinities", "!"},
  {"onnx values", "log_softmax", "rows with infinities", "-inf,"},
  {"onnx values", "lexsort_rows", "the order of NaN", "nan"},
  {"onnx values", "unique", "the order of NaN", "nan"},
  {"onnx values", "sum", "onnxruntime adds by way of float64", "i64[16]!"},
  {"onnx values", "conv_transpose1d", "onnxruntime wants an output_padding below the stride", "output_padding=[2]"},
  {"onnx values", "conv_transpose2d", "onnxruntime wants an output_padding below the stride", "dilation=[2,1]"},
  {"onnx values", "adaptive_avg_pool2d", "onnxruntime's fused product of nothing", "[0,"},
  {"onnx values", "interpolate", "onnxruntime's fused product of nothing", "[0,"},
  {"onnx single", "conv1d", "onnxruntime has no convolutions of float64", "f64"},
  {"onnx single", "conv2d", "onnxruntime has no convolutions of float64", "f64"},
  {"onnx single", "conv2d_fused", "onnxruntime has no convolutions of float64", "f64"},
  {"onnx single", "conv3d", "onnxruntime has no convolutions of float64", "f64"},
  {"onnx single", "conv3d_padding", "onnxruntime has no convolutions of float64", "f64"},
  {"onnx single", "im2col", "onnxruntime's Col2Im, its gradient, is of float32", "f64"},
  {"onnx single", "col2im", "onnxruntime's Col2Im is of float32", "f64"},
  {"onnx single", "fold", "onnxruntime's Col2Im is of float32", "f64"},
  {"onnx values", "fft_fft", "onnxruntime loses figures where a length has large factors", "134,"},
  {"onnx single", "fft_fft", "onnxruntime's DFT of float64 has factors of float32", "f64"},
  {"onnx single", "fft_ifft", "onnxruntime's DFT of float64 has factors of float32", "f64"},
  {"onnx single", "fft_rfft", "onnxruntime's DFT of float64 has factors of float32", "f64"},
  {"onnx single", "fft_irfft", "onnxruntime's DFT of float64 has factors of float32", "f64"},
  {"onnx single", "fft_c2c", "onnxruntime's DFT of float64 has factors of float32", "f64"},
  {"onnx single", "fft_c2r", "onnxruntime's DFT of float64 has factors of float32", "f64"},
  {"onnx single", "fft_r2c", "onnxruntime's DFT of float64 has factors of float32", "f64"},
  {"onnx single", "det", "onnxruntime's Det is of float32", "f64"},
  {"onnx single", "linalg_det", "onnxruntime's Det is of float32", "f64"},
  {"onnx single", "conv2d_clamped", "onnxruntime has no convolutions of float64", "f64"},
  {"onnx single", "conv1d_padding", "onnxruntime has no convolutions of float64", "f64"},
  {"onnx single", "conv2d_padding", "onnxruntime has no convolutions of float64", "f64"},
  {"onnx values", "repeat_interleave", "onnxruntime expands to a size of 0 as to 1", "repeats=0"},
  {"onnx single", "cov", "onnxruntime's fused product has a factor of float32", "f64[4]"},
  {"onnx single", "multi_head_attention", "onnxruntime's fused product has a factor of float32", "f64"},
  {"onnx single", "scaled_dot_product_attention", "onnxruntime's fused product has a factor of float32", "f64"},
  {"onnx again", "prod", "a product of float64 is rounded before it is cast", "dtype=f32"},
  {"onnx again", "hypot", "float64 without dims beside float32 is summed in another order", "f64[]"},
  {"mirror", "to_device", "the samples move to the CPU", NULL},
  {"elsewhere", "scatter_reduce", "complex numbers are on the CPU and the mirror alone", "c128"},
  {"gradient elsewhere", "linalg_eigvalsh", "vectors of equal eigenvalues, which it is made of, are any", "=1"},

  {"data dependent", "masked_select", "the loss has as many weights as there are results", NULL},
  {"data dependent", "repeat_interleave_counts", "the loss has as many weights as there are results", NULL},
  {"data dependent", "index", "the loss has as many weights as there are results", "bool["},
  {"data dependent", "index_put", "the gradient of one value is added up, unless it went to one place", "bool["},
  {"data dependent", "linalg_lstsq", "whether there are residuals depends on the ranks", "gelsd"},
  {"data dependent", "linalg_lstsq", "whether there are residuals depends on the ranks", "gelss"},
  {"reads data", "linalg_lstsq", "whether there are residuals depends on the ranks", "gelsd"},
  {"reads data", "linalg_lstsq", "whether there are residuals depends on the ranks", "gelss"},

  {"capture", "sparse_coo_tensor", "its size is read from the indices", "f32[2,3])"},
  {"reads data", "embedding_rows", "its gradient leaves out the rows that are padding", "padding_idx"},
  {"larger memory", "as_strided", "counts from where the input's memory begins", ".o"},
  {"larger memory", "as_strided", "counts from where the input's memory begins", ".s"},

  {"inputs unchanged", "batch_norm", "moves its running statistics", "training=True"},
  {"inputs unchanged", "instance_norm", "moves its running statistics", NULL},

  {"gradcheck", "sign", "piecewise constant, values may fall on a step", NULL},
  {"gradcheck", "floor", "piecewise constant", NULL},
  {"gradcheck", "fake_quantize_per_tensor_affine", "its gradient goes straight through a step function", NULL},
  {"gradcheck", "fake_quantize_per_channel_affine", "its gradient goes straight through a step function", NULL},
  {"gradcheck", "ceil", "piecewise constant", NULL},
  {"gradcheck", "trunc", "piecewise constant", NULL},
  {"gradcheck", "round", "piecewise constant", NULL},
  {"gradcheck", "floor_divide", "piecewise constant", NULL},
  {"gradcheck", "trunc_divide", "piecewise constant", NULL},
  {"gradcheck", "detach", "stops gradients on purpose", NULL},
  {"gradcheck", "var", "one element has no variance", "[1])"},
  {"gradcheck", "std", "one element has no variance", "[1])"},
  {"gradcheck", "var_mean", "one element has no variance", "[1])"},
  {"gradcheck", "std_mean", "one element has no variance", "[1])"},
  {"gradcheck", "native_layer_norm", "gradients flow through its first result only", NULL},
  {"gradcheck", "linear_cross_entropy_rows", "gradients flow through its first result only", NULL},
  {"gradcheck", "native_rms_norm", "gradients flow through its first result only", NULL},
  {"gradcheck", "native_batch_norm", "gradients flow through its first result only", NULL},
  {"gradcheck", "native_group_norm", "gradients flow through its first result only", NULL},
  {"gradcheck", "normal", "draws carry a gradient of zero on purpose", NULL},
  {"gradcheck", "gumbel_softmax", "the gradient is the soft one's on purpose", "hard=True"},
  {"gradcheck", "grad_scaled", "scales gradients on purpose", NULL},
  {"gradcheck", "embedding_bag", "scales gradients on purpose", "scale_grad_by_freq"},
  {"gradcheck", "embedding", "the padding row gets no gradient on purpose", "padding_idx"},
  {"gradcheck", "embedding_rows", "the padding row gets no gradient on purpose", "padding_idx"},
  {"gradcheck", "linalg_lstsq", "its singular values carry no gradient, as in PyTorch", "gelsd"},
  {"gradcheck", "linalg_lstsq", "its singular values carry no gradient, as in PyTorch", "gelss"},
  {"gradcheck", "masked_fill", "the result is infinite", "-inf"},
  {"gradcheck", "linalg_eig", "vectors are unique up to a phase, which a loss must not see", NULL},
  {"gradcheck", "linalg_eigvalsh", "only a triangle is read, the gradient is that of a Hermitian matrix", "c128"},
  {"gradcheck", "cross_entropy", "nothing counts, the mean is NaN", "ignore_index=2"},
  {"gradcheck", "nll_loss", "nothing counts, the mean is NaN", "ignore_index=2"},
  {"gradcheck", "ctc_rows", "the gradient is that of the scores before log_softmax, as PyTorch gives it", NULL},
  {"gradcheck", "ctc_loss", "the gradient is that of the scores before log_softmax, as PyTorch gives it", NULL},
};

const char *exception_for(const char *driver, const sample *s)
{
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].driver, driver) && !strcmp(table[i].op, s->info->name) &&
        (!table[i].where || strstr(s->text, table[i].where)))
      return table[i].reason;
  return NULL;
}
