"""The ops of torch.ops.aten that cairn answers to, each with its overloads, as PyTorch 2.15 names them.

Place in the flow: _ops.py looks names up here. Invariant: every name leads to something of cairn that computes it."""
from __future__ import annotations

__all__ = ["OVERLOADS"]

_TEXT = """\
_adaptive_avg_pool2d: default out; _adaptive_avg_pool3d: default out; _foreach_abs: default out; _foreach_abs_:
default; _foreach_acos: default out; _foreach_acos_: default; _foreach_add: List List_out Scalar ScalarList
ScalarList_out Scalar_out Tensor Tensor_out; _foreach_add_: List Scalar ScalarList Tensor; _foreach_addcdiv: Scalar
ScalarList ScalarList_out Scalar_out Tensor Tensor_out; _foreach_addcdiv_: Scalar ScalarList Tensor;
_foreach_addcmul: Scalar ScalarList ScalarList_out Scalar_out Tensor Tensor_out; _foreach_addcmul_: Scalar
ScalarList Tensor; _foreach_asin: default out; _foreach_asin_: default; _foreach_atan: default out; _foreach_atan_:
default; _foreach_ceil: default out; _foreach_ceil_: default; _foreach_clamp_max: List List_out Scalar ScalarList
ScalarList_out Scalar_out; _foreach_clamp_max_: List Scalar ScalarList; _foreach_clamp_min: List List_out Scalar
ScalarList ScalarList_out Scalar_out; _foreach_clamp_min_: List Scalar ScalarList; _foreach_clone: default out;
_foreach_copy_: default; _foreach_cos: default out; _foreach_cos_: default; _foreach_cosh: default out;
_foreach_cosh_: default; _foreach_div: List List_out Scalar ScalarList ScalarList_out Scalar_out Tensor Tensor_out;
_foreach_div_: List Scalar ScalarList Tensor; _foreach_erf: default out; _foreach_erf_: default; _foreach_erfc:
default out; _foreach_erfc_: default; _foreach_exp: default out; _foreach_exp_: default; _foreach_expm1: default
out; _foreach_expm1_: default; _foreach_floor: default out; _foreach_floor_: default; _foreach_frac: default out;
_foreach_frac_: default; _foreach_lerp: List List_out Scalar ScalarList ScalarList_out Scalar_out; _foreach_lerp_:
List Scalar ScalarList; _foreach_lgamma: default out; _foreach_lgamma_: default; _foreach_log: default out;
_foreach_log10: default out; _foreach_log10_: default; _foreach_log1p: default out; _foreach_log1p_: default;
_foreach_log2: default out; _foreach_log2_: default; _foreach_log_: default; _foreach_max: default out;
_foreach_maximum: List List_out Scalar ScalarList ScalarList_out Scalar_out; _foreach_maximum_: List Scalar
ScalarList; _foreach_minimum: List List_out Scalar ScalarList ScalarList_out Scalar_out; _foreach_minimum_: List
Scalar ScalarList; _foreach_mm: default; _foreach_mul: List List_out Scalar ScalarList ScalarList_out Scalar_out
Tensor Tensor_out; _foreach_mul_: List Scalar ScalarList Tensor; _foreach_neg: default out; _foreach_neg_: default;
_foreach_norm: Scalar Scalar_out; _foreach_pow: List List_out Scalar ScalarAndTensor ScalarList ScalarList_out
Scalar_out; _foreach_pow_: List Scalar ScalarList; _foreach_powsum: Scalar Scalar_out; _foreach_reciprocal: default
out; _foreach_reciprocal_: default; _foreach_round: default out; _foreach_round_: default; _foreach_rsqrt: default
out; _foreach_rsqrt_: default; _foreach_sigmoid: default out; _foreach_sigmoid_: default; _foreach_sign: default
out; _foreach_sign_: default; _foreach_sin: default out; _foreach_sin_: default; _foreach_sinh: default out;
_foreach_sinh_: default; _foreach_sqrt: default out; _foreach_sqrt_: default; _foreach_sub: List List_out Scalar
ScalarList ScalarList_out Scalar_out; _foreach_sub_: List Scalar ScalarList; _foreach_tan: default out;
_foreach_tan_: default; _foreach_tanh: default out; _foreach_tanh_: default; _foreach_trunc: default out;
_foreach_trunc_: default; _foreach_zero_: default; _grouped_mm: default; _int_mm: default out; _local_scalar_dense:
default; _log_softmax: default out; _reshape_alias: default; _scaled_mm: default out; _softmax: default out;
_to_copy: default out; _unsafe_view: default out; _version: default; abs: default out; abs_: default; absolute:
default out; absolute_: default; acos: Scalar complex default float int out; acos_: default; acosh: Scalar complex
default float int out; acosh_: default; adaptive_avg_pool1d: default out; adaptive_avg_pool2d: default out;
adaptive_avg_pool3d: default out; adaptive_max_pool1d: default; adaptive_max_pool2d: default out;
adaptive_max_pool3d: default out; add: Scalar Scalar_out Tensor complex complex_float complex_int default float
float_complex float_int int int_complex int_float out str t; add_: Scalar Tensor t; addbmm: default out; addbmm_:
default; addcdiv: default out; addcdiv_: default; addcmul: default out; addcmul_: default; addmm: default dtype
dtype_out out; addmm_: default; addmv: default out; addmv_: default; addr: default out; addr_: default; adjoint:
default; affine_grid_generator: default out; alias: default; all: all_out bool default dim dims dims_out float int
out; allclose: default; alpha_dropout: default; amax: default out; amin: default out; aminmax: default out; angle:
Scalar complex default float int out; any: all_out bool default dim dims dims_out float int out str; arange: default
out start start_out start_step; arccos: default out; arccos_: default; arccosh: default out; arccosh_: default;
arcsin: default out; arcsin_: default; arcsinh: default out; arcsinh_: default; arctan: default out; arctan2:
default out; arctan2_: default; arctan_: default; arctanh: default out; arctanh_: default; argmax: default out;
argmin: default out; argsort: default stable stable_out; argwhere: default; as_strided: default; as_strided_:
default; as_strided_scatter: default out; as_tensor: bool complex default float int list; asin: Scalar complex
default float int out; asin_: default; asinh: Scalar complex default float int out; asinh_: default; atan: Scalar
complex default float int out; atan2: Scalar_Scalar default float float_int int int_float out; atan2_: default;
atan_: default; atanh: Scalar complex default float int out; atanh_: default; atleast_1d: Sequence default;
atleast_2d: Sequence default; atleast_3d: Sequence default; avg_pool1d: default out; avg_pool2d: default out;
avg_pool3d: default out; backward: TensorList default; baddbmm: default dtype dtype_out out; baddbmm_: default;
bartlett_window: default out periodic periodic_out; batch_norm: default; bernoulli: Tensor Tensor_out default
float_out out p; bernoulli_: Tensor float; bilinear: default; binary_cross_entropy: default out;
binary_cross_entropy_with_logits: default out; bincount: default out; binomial: default out; bitwise_and: Scalar
Scalar_Tensor Scalar_Tensor_out Scalar_out Tensor Tensor_out; bitwise_and_: Scalar Tensor; bitwise_left_shift:
Scalar_Tensor Scalar_Tensor_out Tensor Tensor_Scalar Tensor_Scalar_out Tensor_out; bitwise_left_shift_: Tensor
Tensor_Scalar; bitwise_not: default out; bitwise_not_: default; bitwise_or: Scalar Scalar_Tensor Scalar_Tensor_out
Scalar_out Tensor Tensor_out; bitwise_or_: Scalar Tensor; bitwise_right_shift: Scalar_Tensor Scalar_Tensor_out
Tensor Tensor_Scalar Tensor_Scalar_out Tensor_out; bitwise_right_shift_: Tensor Tensor_Scalar; bitwise_xor: Scalar
Scalar_Tensor Scalar_Tensor_out Scalar_out Tensor Tensor_out; bitwise_xor_: Scalar Tensor; blackman_window: default
out periodic periodic_out; block_diag: default out; bmm: default dtype dtype_out out; broadcast_tensors: default;
broadcast_to: default; bucketize: Scalar Scalar_out Tensor Tensor_out; cartesian_prod: default; cat: default out;
cauchy: default out; cauchy_: default; cdist: default; ceil: Scalar default float int out; ceil_: default; celu:
default out; celu_: default; chain_matmul: default out; channel_shuffle: default out; cholesky_inverse: default out;
cholesky_solve: default out; chunk: default; clamp: Tensor Tensor_out default out; clamp_: Tensor default;
clamp_max: Tensor Tensor_out default out; clamp_max_: Tensor default; clamp_min: Tensor Tensor_out default out;
clamp_min_: Tensor default; clip: Tensor Tensor_out default out; clip_: Tensor default; clone: default out; col2im:
default out; column_stack: default out; combinations: default; concat: default out; concatenate: default out; conj:
default; conj_physical: default out; conj_physical_: default; constant_pad_nd: default out; contiguous: default;
conv1d: default padding; conv2d: default padding; conv3d: default padding; conv_transpose1d: default;
conv_transpose2d: input; conv_transpose3d: input; convolution: default out; copy: Dict_Tensor Dict_bool Dict_complex
Dict_float Dict_int Dict_str default out t; copy_: Tensor default float int; copysign: Scalar Scalar_out Tensor
default float float_int int int_float out; copysign_: Scalar Tensor; corrcoef: default; cos: Scalar complex default
float int out; cos_: default; cosh: Scalar complex default float int out; cosh_: default; cosine_embedding_loss:
default; cosine_similarity: default; count_nonzero: default dim_IntList dim_IntList_out out; cov: default; cpu:
default; cross: default out; cross_entropy_loss: default; ctc_loss: IntList Tensor; cuda: default; cummax: default
out; cummin: default out; cumprod: default out; cumprod_: default; cumsum: default out; cumsum_: default;
cumulative_trapezoid: dx x; data: default; deg2rad: default out; deg2rad_: default; dequantize: any list self
self_out tensor tensors tensors_out; det: default; detach: default; detach_: default; diag: default out; diag_embed:
default out; diagflat: default; diagonal: default; diagonal_scatter: default out; diff: default out; digamma:
default out; digamma_: default; dim: default; dist: default out; div: Scalar Scalar_mode Scalar_mode_out Scalar_out
Tensor Tensor_mode complex default float int out out_mode; div_: Scalar Scalar_mode Tensor Tensor_mode; divide:
Scalar Scalar_mode Tensor Tensor_mode out out_mode; divide_: Scalar Scalar_mode Tensor Tensor_mode; dot: default
out; dropout: default; dsplit: array int; dstack: default out; einsum: default sublist; element_size: default; elu:
default out; elu_: default; embedding: default out; embedding_bag: default padding_idx; embedding_renorm_: default;
empty: memory_format out; empty_like: default out; empty_permuted: default out; empty_strided: default out; eq:
Scalar Scalar_out Tensor Tensor_list Tensor_out bool bool_list complex complex_float default device enum float
float_complex float_int float_list int int_float int_list str str_list; eq_: Scalar Tensor; equal: default; erf:
Scalar default float int out; erf_: default; erfc: Scalar default float int out; erfc_: default; erfinv: default
out; erfinv_: default; exp: Scalar complex default float int out; exp2: default out; exp2_: default; exp_: default;
expand: default; expand_as: default; expm1: Scalar default float int out; expm1_: default; exponential: default out;
exponential_: default; eye: default m m_out out; fake_quantize_per_channel_affine: default;
fake_quantize_per_tensor_affine: default tensor_qparams; feature_alpha_dropout: default; feature_dropout: default;
fft_fft: default out; fft_ifft: default out; fft_irfft: default out; fft_rfft: default out; fill: Scalar Scalar_out
Tensor Tensor_out; fill_: Scalar Tensor; fill_diagonal_: default; fix: default out; fix_: default; flatten:
using_ints; flip: default out; fliplr: default; flipud: default; float_power: Scalar Scalar_out Tensor_Scalar
Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out; float_power_: Scalar Tensor; floor: Scalar default float int out;
floor_: default; floor_divide: Scalar Scalar_out default out; floor_divide_: Scalar Tensor; fmax: default out; fmin:
default out; fmod: Scalar Scalar_out Tensor Tensor_out default float float_int int int_float; fmod_: Scalar Tensor;
frac: default out; frac_: default; fractional_max_pool2d: default output; fractional_max_pool3d: default output;
frexp: Tensor Tensor_out default; full: default out; full_like: default out; gather: default out; gcd: default int
out; gcd_: default; ge: Scalar Scalar_out Tensor Tensor_out default float float_int int int_float str; ge_: Scalar
Tensor; gelu: default out; geometric: default out; geometric_: default; ger: default out; get_device: default; glu:
default out; grad: default; gradient: array scalararray scalarint scalarrayarray scalarrayint tensorarray
tensorarrayint; greater: Scalar Scalar_out Tensor Tensor_out; greater_: Scalar Tensor; greater_equal: Scalar
Scalar_out Tensor Tensor_out; greater_equal_: Scalar Tensor; grid_sampler: default; grid_sampler_2d: default out;
grid_sampler_3d: default out; group_norm: default; gru: data input; gru_cell: default; gt: Scalar Scalar_out Tensor
Tensor_out default float float_int int int_float str; gt_: Scalar Tensor; hamming_window: default out periodic
periodic_alpha periodic_alpha_beta periodic_alpha_beta_out periodic_alpha_out periodic_out; hann_window: default out
periodic periodic_out; hardshrink: default out; hardsigmoid: default out; hardsigmoid_: default; hardswish: default
out; hardswish_: default; hardtanh: default out; hardtanh_: default; heaviside: default out; heaviside_: default;
hinge_embedding_loss: default; histc: default out; histogram: bin_ct bin_ct_out bins_tensor bins_tensor_out;
histogramdd: TensorList_bins default int_bins; hsplit: array int; hstack: default out; huber_loss: default out;
hypot: default out; hypot_: default; i0: default out; i0_: default; igamma: default out; igamma_: default; igammac:
default out; igammac_: default; im2col: default out; imag: default; index: Tensor Tensor_hacked_twin Tensor_out
list_Tensor list_bool list_float list_int list_str str; index_add: default out; index_add_: default; index_copy:
default out; index_copy_: default; index_fill: int_Scalar int_Scalar_out int_Tensor int_Tensor_out; index_fill_:
int_Scalar int_Tensor; index_put: default hacked_twin out; index_put_: default hacked_twin; index_reduce: default
out; index_reduce_: default; index_select: default out; inner: default out; instance_norm: default; inverse: default
out; is_complex: default; is_conj: default; is_contiguous: default memory_format; is_distributed: default;
is_floating_point: default; is_inference: default; is_leaf: default; is_neg: default; is_nonzero: default;
is_pinned: default; is_same_size: default; is_set_to: default; is_signed: default; isclose: default; isfinite:
complex default float; isin: Scalar_Tensor Scalar_Tensor_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor
Tensor_Tensor_out; isinf: complex default float out; isnan: complex default float out; isneginf: default out;
isposinf: default out; isreal: default; item: default; kaiser_window: beta beta_out default out periodic
periodic_out; kl_div: default; kron: default out; kthvalue: default values; l1_loss: default; layer_norm: default;
lcm: default out; lcm_: default; ldexp: Tensor default out; ldexp_: default; le: Scalar Scalar_out Tensor Tensor_out
default float float_int int int_float str; le_: Scalar Tensor; leaky_relu: default out; leaky_relu_: default; lerp:
Scalar Scalar_out Tensor Tensor_out; lerp_: Scalar Tensor; less: Scalar Scalar_out Tensor Tensor_out; less_: Scalar
Tensor; less_equal: Scalar Scalar_out Tensor Tensor_out; less_equal_: Scalar Tensor; lgamma: Scalar default float
int out; lgamma_: default; lift: default out; lift_fresh: default; linalg_cholesky: default out; linalg_cholesky_ex:
L default; linalg_cond: default out p_str p_str_out; linalg_cross: default out; linalg_det: default out;
linalg_diagonal: default; linalg_eigh: default eigvals; linalg_eigvalsh: default out; linalg_householder_product:
default out; linalg_inv: default out; linalg_inv_ex: default inverse; linalg_lstsq: default out; linalg_lu: default
out; linalg_lu_factor: default out; linalg_lu_factor_ex: default out; linalg_lu_solve: default out; linalg_matmul:
default out; linalg_matrix_exp: default out; linalg_matrix_norm: default out str_ord str_ord_out;
linalg_matrix_power: default out; linalg_matrix_rank: atol_rtol_float atol_rtol_float_out atol_rtol_tensor
atol_rtol_tensor_out default out out_tol_tensor tol_tensor; linalg_multi_dot: default out; linalg_norm: default
ord_str ord_str_out out; linalg_pinv: atol_rtol_float atol_rtol_float_out atol_rtol_tensor atol_rtol_tensor_out
default out out_rcond_tensor rcond_tensor; linalg_qr: default out; linalg_slogdet: default out; linalg_solve:
default out; linalg_solve_ex: default out; linalg_solve_triangular: default out; linalg_svd: U default;
linalg_svdvals: default out; linalg_tensorinv: default out; linalg_tensorsolve: default out; linalg_vander: default;
linalg_vecdot: default out; linalg_vector_norm: default out; linear: default out; linspace: Scalar_Tensor
Scalar_Tensor_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out default out; log: Scalar
Scalar_Scalar complex complex_complex complex_float complex_int default float float_complex float_float float_int
int int_complex int_float int_int out; log10: Scalar complex default float int out; log10_: default; log1p: Scalar
default float int out; log1p_: default; log2: default out; log2_: default; log_: default; log_normal: default out;
log_normal_: default; log_sigmoid: default out; log_softmax: int int_out; logaddexp: default out; logaddexp2:
default out; logcumsumexp: default out; logdet: default; logical_and: default out; logical_and_: default;
logical_not: default out; logical_not_: default; logical_or: default out; logical_or_: default; logical_xor: default
out; logical_xor_: default; logit: default out; logit_: default; logspace: Scalar_Tensor Scalar_Tensor_out
Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out default out; logsumexp: default out; lstm: data
input; lstm_cell: default; lt: Scalar Scalar_out Tensor Tensor_out default float float_int int int_float str; lt_:
Scalar Tensor; lu_solve: default out; lu_unpack: default out; mH: a default; mT: a default; margin_ranking_loss:
default; masked_fill: Scalar Scalar_out Tensor Tensor_out; masked_fill_: Scalar Tensor; masked_scatter: default out;
masked_scatter_: default; masked_select: default out; matmul: default out; matrix_exp: default; matrix_power:
default out; max: default dim dim_max other out unary_out; max_pool1d: default; max_pool1d_with_indices: default;
max_pool2d: default; max_pool2d_with_indices: default out; max_pool3d: default; max_pool3d_with_indices: default
out; max_unpool2d: default out; max_unpool3d: default out; maximum: default out; mean: default dim dtype_out out;
median: default dim dim_values out; meshgrid: default indexing; min: default dim dim_min other out unary_out;
minimum: default out; mish: default out; mish_: default; mm: default dtype dtype_out out; mode: default values;
moveaxis: int intlist; movedim: int intlist; mse_loss: default out; msort: default out; mul: Scalar Scalar_out
Tensor complex complex_float complex_int default float float_complex float_int int int_complex int_float left_t out
right_; mul_: Scalar Tensor t; multi_margin_loss: default out; multilabel_margin_loss: default out; multinomial:
default out; multiply: Scalar Tensor out; multiply_: Scalar Tensor; mv: default out; mvlgamma: default out;
mvlgamma_: default; nan_to_num: default out; nan_to_num_: default; nanmean: default out; nanmedian: default dim
dim_values out; nanquantile: default out scalar scalar_out; nansum: default out; narrow: Tensor default;
narrow_copy: default out; native_batch_norm: default out; native_dropout: default out; native_group_norm: default
out; native_layer_norm: default out; ne: Scalar Scalar_out Tensor Tensor_list Tensor_out bool bool_list complex
complex_float default device enum float float_complex float_int float_list int int_float int_list str str_list; ne_:
Scalar Tensor; neg: Scalar complex default float int out; neg_: default; negative: default out; negative_: default;
new_empty: default out; new_empty_strided: default out; new_full: default out; new_ones: default out; new_zeros:
default out; nextafter: default out; nextafter_: default; nll_loss: default out; nonzero: default out;
nonzero_static: default out; norm: Scalar ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype ScalarOpt_dtype_out
Scalar_out dtype_out out; normal: Tensor_Tensor Tensor_Tensor_out Tensor_float Tensor_float_out float_Tensor
float_Tensor_out float_float float_float_out out; normal_: default; not_equal: Scalar Scalar_out Tensor Tensor_out;
not_equal_: Scalar Tensor; numel: default; one_hot: default; ones: default out; ones_like: default out; outer:
default out; output_nr: default; pad: default; pairwise_distance: default; pdist: default; permute: default;
pin_memory: default; pinverse: default; pixel_shuffle: default out; pixel_unshuffle: default out; poisson: default
out; poisson_nll_loss: default; polygamma: default out; polygamma_: default; positive: default; pow: Scalar
Scalar_Scalar Scalar_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out complex complex_float float
float_complex float_int int int_float int_to_int; pow_: Scalar Tensor; prelu: default; prod: default dim_int int_out
out; put: default out; put_: default; quantile: default out scalar scalar_out; rad2deg: default out; rad2deg_:
default; rand: default generator generator_out out; rand_like: default generator generator_out out; randint: default
generator generator_out low low_generator low_generator_out low_out out; randint_like: Tensor Tensor_generator
Tensor_generator_out Tensor_out default generator generator_out low_dtype low_dtype_out low_generator_dtype
low_generator_dtype_out out; randn: default generator generator_out out; randn_like: default generator generator_out
out; random: default from from_out out to to_out; random_: default from to; randperm: default generator
generator_out out; range: default out out_ step; ravel: default; real: default; reciprocal: default out;
reciprocal_: default; record_stream: default; reflection_pad1d: default out; reflection_pad2d: default out;
reflection_pad3d: default out; relu: default out; relu6: default; relu6_: default; relu_: default; remainder: Scalar
Scalar_Tensor Scalar_Tensor_out Scalar_out Tensor Tensor_out default float float_int int int_float; remainder_:
Scalar Tensor; renorm: default out; renorm_: default; repeat: default out; repeat_interleave: Tensor Tensor_out
self_Tensor self_int; replication_pad1d: default out; replication_pad2d: default out; replication_pad3d: default
out; requires_grad_: default; reshape: default; reshape_as: default; resize_: default; resize_as_: default;
resolve_conj: default; resolve_neg: default; result_type: Scalar Scalar_Scalar Scalar_Tensor Tensor; retain_grad:
default; retains_grad: default; rms_norm: default; rnn_relu: data input; rnn_relu_cell: default; rnn_tanh: data
input; rnn_tanh_cell: default; roll: default out; rot90: default out; round: Scalar decimals decimals_out default
float int out; round_: decimals default; row_stack: default out; rrelu: default; rrelu_: default; rsqrt: default
out; rsqrt_: default; rsub: Scalar Scalar_out Tensor Tensor_out; scalar_tensor: default out;
scaled_dot_product_attention: default; scatter: reduce reduce_out src src_out value value_out value_reduce
value_reduce_out; scatter_: reduce src value value_reduce; scatter_add: default out; scatter_add_: default;
scatter_reduce: two two_out; scatter_reduce_: two; searchsorted: Scalar Scalar_out Tensor Tensor_out; select: int t;
select_scatter: default out; selu: default; selu_: default; set_: default source_Storage
source_Storage_storage_offset source_Tensor source_Tensor_storage_offset; sgn: default out; sgn_: default; sigmoid:
default out; sigmoid_: default; sigmoid_backward: default grad_input; sign: default out; sign_: default; signbit:
default out; silu: default out; silu_: default; sin: Scalar complex default float int out; sin_: default; sinc:
default out; sinc_: default; sinh: Scalar complex default float int out; sinh_: default; size: default int; slice:
Tensor str t; slice_scatter: default out; slogdet: default out; smooth_l1_loss: default out; soft_margin_loss:
default out; softmax: int int_out; softplus: default out; softshrink: default out; sort: Tensor any bool default
float int stable str values values_stable; special_chebyshev_polynomial_t: default n_scalar n_scalar_out out
x_scalar x_scalar_out; special_chebyshev_polynomial_u: default n_scalar n_scalar_out out x_scalar x_scalar_out;
special_chebyshev_polynomial_v: default n_scalar n_scalar_out out x_scalar x_scalar_out;
special_chebyshev_polynomial_w: default n_scalar n_scalar_out out x_scalar x_scalar_out; special_digamma: default
out; special_entr: default out; special_erf: default out; special_erfc: default out; special_erfcx: default out;
special_erfinv: default out; special_exp2: default out; special_expit: default out; special_expm1: default out;
special_gammainc: default out; special_gammaincc: default out; special_gammaln: default out;
special_hermite_polynomial_h: default n_scalar n_scalar_out out x_scalar x_scalar_out;
special_hermite_polynomial_he: default n_scalar n_scalar_out out x_scalar x_scalar_out; special_i0: default out;
special_i0e: default out; special_i1: default out; special_i1e: default out; special_laguerre_polynomial_l: default
n_scalar n_scalar_out out x_scalar x_scalar_out; special_legendre_polynomial_p: default n_scalar n_scalar_out out
x_scalar x_scalar_out; special_log1p: default out; special_log_ndtr: default out; special_log_softmax: default;
special_logit: default out; special_logsumexp: default out; special_modified_bessel_i0: default out;
special_modified_bessel_i1: default out; special_multigammaln: default out; special_ndtr: default out;
special_ndtri: default out; special_polygamma: default out; special_psi: default out; special_round: default out;
special_shifted_chebyshev_polynomial_t: default n_scalar n_scalar_out out x_scalar x_scalar_out;
special_shifted_chebyshev_polynomial_u: default n_scalar n_scalar_out out x_scalar x_scalar_out;
special_shifted_chebyshev_polynomial_v: default n_scalar n_scalar_out out x_scalar x_scalar_out;
special_shifted_chebyshev_polynomial_w: default n_scalar n_scalar_out out x_scalar x_scalar_out; special_sinc:
default out; special_softmax: default; special_spherical_bessel_j0: default out; special_xlog1py: default
other_scalar other_scalar_out out self_scalar self_scalar_out; special_xlogy: default other_scalar other_scalar_out
out self_scalar self_scalar_out; special_zeta: default other_scalar other_scalar_out out self_scalar
self_scalar_out; split: Tensor default sizes str; split_with_sizes: default; sqrt: Scalar complex default float int
out; sqrt_: default; square: default out; square_: default; squeeze: default dim dims; squeeze_: default dim dims;
stack: default out; std: correction correction_out default dim out; std_mean: correction correction_out default dim;
storage_offset: default; stride: default int; sub: Scalar Scalar_out Tensor complex complex_float complex_int
default float float_complex float_int int int_complex int_float out; sub_: Scalar Tensor; subtract: Scalar Tensor
out; subtract_: Scalar Tensor; sum: IntList_out bool complex default dim_IntList float int out; sum_to_size:
default; svd: U default; swapaxes: default; swapaxes_: default; swapdims: default; swapdims_: default; sym_numel:
default; sym_size: default int; sym_storage_offset: default; sym_stride: default int; t: default; t_: default; take:
default out; take_along_dim: default out; tan: Scalar complex default float int out; tan_: default; tanh: Scalar
complex default float int out; tanh_: default; tanh_backward: default grad_input; tensor: bool complex default float
int; tensor_split: indices sections tensor_indices_or_sections; tensordot: default out; threshold: default out;
threshold_: default; threshold_backward: default grad_input; tile: default; to: device dtype dtype_layout other
prim_Device prim_dtype prim_other; to_dense: default; topk: default values; trace: default out; transpose: int;
transpose_: default; trapezoid: dx x; trapz: dx x; triangular_solve: X default; tril: default out; tril_: default;
tril_indices: default out; triplet_margin_loss: default; triu: default out; triu_: default; triu_indices: default
out; true_divide: Scalar Tensor out; true_divide_: Scalar Tensor; trunc: default out; trunc_: default; type_as:
default; unbind: int; unflatten: int; unfold: default; uniform: default out; uniform_: default; unique_consecutive:
default out; unsafe_chunk: default; unsafe_split: Tensor Tensor_out; unsafe_split_with_sizes: default out;
unsqueeze: default; unsqueeze_: default; upsample_bicubic2d: default out vec; upsample_bilinear2d: default out vec
vec_out; upsample_linear1d: default out vec; upsample_nearest1d: default out vec; upsample_nearest2d: default out
vec vec_out; upsample_nearest3d: default out vec; upsample_trilinear3d: default out vec; vander: default; var:
correction correction_out default dim out; var_mean: correction correction_out default dim; vdot: default out; view:
default dtype; view_as: default; vsplit: array int; vstack: default out; where: Scalar ScalarOther ScalarSelf
default self self_out; xlogy: OutScalar_Other OutScalar_Self OutTensor Scalar_Other Scalar_Self Tensor; xlogy_:
Scalar_Other Tensor; zero: default out; zero_: default; zeros: default out; zeros_like: default out
"""
OVERLOADS = {name: overloads.split() for name, _, overloads in (
    one.strip().partition(": ") for one in _TEXT.replace("\n", " ").split(";"))}
