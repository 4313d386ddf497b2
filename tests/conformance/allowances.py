"""Where a result may differ from torch's beyond tolerance, by name and dtype, with the reason.

The rule is torch's own result of the same dtype. What is listed here is compared with the float64 call instead: it
must be within tolerance of the truth, or no farther from it than torch's own result; FACTORS says for which few the
error may be some times torch's.
"""
import torch

F32, F16, BF16, C64 = {torch.float32}, {torch.float16}, {torch.bfloat16}, {torch.complex64}
HALF, F64 = F16 | BF16, {torch.float64}
ORDER = "a sum of many products: the order of adding shows in the last digits"
SOLVE = "a decomposition: the order of operations is LAPACK's business"
STORED = "PyTorch stores sums of terms in the half type after each addition; here they are rounded once"
WEIGHTS = "PyTorch rounds the weights of the interpolation to the half type"

CLIMBED = "PyTorch's recurrence goes up in float32"
POLYNOMIALS = [f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"]
POLYNOMIALS += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]

# name -> (dtypes, reason)
FORWARD = {
    "matrix_exp": (F32 | HALF | C64, "other powers of the series; PyTorch's half results are NaN"),
    "nn.functional.conv_transpose1d": (HALF, STORED),
    "nn.functional.conv_transpose2d": (HALF, STORED),
    "nn.functional.conv_transpose3d": (F32 | HALF | C64, f"{ORDER}; {STORED}"),
    "nn.functional.conv2d": (C64, ORDER), "addbmm": (C64, ORDER), "baddbmm": (C64, ORDER),
    "fft.hfft": (C64, ORDER), "fft.hfft2": (C64, ORDER), "fft.hfftn": (C64, ORDER),
    "pow": (C64, "exp(w log z) of large numbers: the angle's last digits are multiplied"),
    "nn.functional.adaptive_avg_pool3d": (HALF, STORED),
    "nn.functional.interpolate": (HALF, f"{WEIGHTS}; area is adaptive_avg_pool3d"),
    "nn.functional.grid_sample": (HALF, "PyTorch computes places and weights in the half type"),
    "nn.functional.batch_norm": (HALF, "statistics at the border of two numbers; PyTorch's loop for strided inputs"),
    "nn.functional.instance_norm": (HALF, "statistics at the border of two numbers"),
    "nn.functional.linear": (HALF, "the bias is added before rounding; PyTorch rounds twice for strided inputs"),
    "nn.functional.soft_margin_loss": (F16, "PyTorch's exp overflows to infinity"),
    "nn.functional.nll_loss": (HALF, STORED),
    "nn.functional.scaled_dot_product_attention": (HALF, ORDER),
    "nn.functional.multi_head_attention_forward": (F32 | HALF, f"softmax of large numbers; {ORDER}"),
    "log_softmax": (HALF, "PyTorch rounds the sum and its logarithm to the half type, and so loses small results"),
    "index_reduce": (HALF, STORED),
    "native_layer_norm": (HALF, "the result of one element is 0 but for rounding"),
    "nn.functional.linear_cross_entropy": (HALF, "PyTorch rounds the scores to the half type"),
    "masked.log_softmax": (HALF, "PyTorch rounds the sum and its logarithm to the half type, and so loses small "
                                 "results"),
    "native_batch_norm": (HALF, "statistics at the border of two numbers"),
    "_native_batch_norm_legit": (HALF, "statistics at the border of two numbers"),
    "_batch_norm_with_update": (HALF, "statistics at the border of two numbers"),
    "native_group_norm": (HALF, "statistics at the border of two numbers"),
    "grid_sampler_2d": (HALF, "PyTorch computes places and weights in the half type"),
    "grid_sampler_3d": (HALF, "PyTorch computes places and weights in the half type"),
    "_segment_reduce": (HALF, STORED),
    "_unsafe_masked_index_put_accumulate": (HALF, STORED),
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": (F32 | HALF, f"softmax of large numbers; {ORDER}"),
    **{f"special.{name}": (F32, CLIMBED) for name in POLYNOMIALS},
    **{f"special.{name}": (F32, "PyTorch rounds the phase of large numbers to float32")
       for name in ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")},
    "polygamma": (F32, "PyTorch's reflection loses digits left of 0"),
    "special.polygamma": (F32, "PyTorch's reflection loses digits left of 0"),
}
GRADIENT = {
    "cov": (F32 | C64, "a weight's gradient that is 0 but for rounding"),
    "cdist": (F32, ORDER),
    "matrix_exp": (F32 | C64, "other powers of the series"),
    "logsumexp": (C64, ORDER), "logcumsumexp": (C64, ORDER), "pow": (C64, "exp(w log z) of large numbers"),
    "nn.functional.conv_transpose3d": (F32 | C64, ORDER),
    "nn.functional.layer_norm": (F32, "the gradient of one element is 0 but for rounding"),
    "native_layer_norm": (F32, "the gradient of one element is 0 but for rounding"),
    "grid_sampler_2d": (F32, ORDER), "grid_sampler_3d": (F32, ORDER),
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": (F32, ORDER),
    "linalg.householder_product": (F32 | C64, SOLVE), "ormqr": (F32 | C64, SOLVE),
    "linalg.polar": (F32 | C64, SOLVE), "linalg.matrix_sqrth": (F32 | C64, SOLVE),
    "svd_lowrank": (F32, SOLVE), "pca_lowrank": (F32, SOLVE),
    "digamma": (F32, "PyTorch's reflection loses digits left of 0"),
    "nn.functional.grid_sample": (F32, ORDER),
    "nn.functional.ctc_loss": (F32, "sums of exponentials of large numbers"),
    "special.log_ndtr": (F32, "by erfcx, where PyTorch divides two small numbers"),
    "linalg.cond": (F32, SOLVE), "linalg.eigh": (F32, SOLVE), "linalg.lstsq": (F32 | C64, SOLVE),
    "linalg.multi_dot": (F32 | C64, ORDER), "linalg.pinv": (F32 | C64, SOLVE), "linalg.svd": (F32 | C64, SOLVE),
    "svd": (F32 | C64, SOLVE),
}
# PyTorch's own error, against sums in forty digits: name -> (what may be added to tolerances, reason)
OWN_ERROR = {f"special.bessel_{name}": (2e-6, "PyTorch's is off by up to 9e-7 between 5 and 6, float64 too")
             for name in ("j0", "j1", "y0", "y1")}
# What PyTorch gets wrong, and is not compared: (name, check) -> why.
WRONG = {("as_strided_scatter", check): "PyTorch gives input the gradient of the places that src replaced"
         for check in ("gradient", "second")}
WRONG["masked.logaddexp", "second"] = "PyTorch's second gradients are NaN where one of both is masked out"
HALF_GRADIENT = "a half gradient is one pass in float32, rounded once, where PyTorch stores each step"

# name -> {gradient?: how many times torch's error, root of the mean square, is allowed}
FACTORS = {
    "nn.functional.multi_head_attention_forward": {False: 5.0},
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": {False: 5.0, True: 5.0},
    "pow": {True: 3.0, False: 3.0},
    "fft.hfft2": {False: 3.0},
}


def factor(name, dtype, gradient):
    """How many times torch's error is allowed where reason() gives one; 0: no more than torch's largest."""
    return FACTORS.get(name, {}).get(gradient, 1.5 if gradient and dtype in HALF else 0.0)


def reason(name, dtype, gradient):
    """Why the name may differ in this dtype, or None."""
    if gradient and dtype in HALF:
        return HALF_GRADIENT
    dtypes, why = (GRADIENT if gradient else FORWARD).get(name, (set(), None))
    return why if dtype in dtypes else None
