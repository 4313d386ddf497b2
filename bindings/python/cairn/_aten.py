"""The ops of torch.ops.aten that cairn answers to, each with its overloads, as PyTorch 2.15 names them.

Place in the flow: _ops.py looks names up here. Invariant: every name in OVERLOADS leads to something of
cairn that computes it; those in OTHERS can be named, and raise when they are called."""
from __future__ import annotations

__all__ = ["OTHERS", "OVERLOADS"]

_TEXT = """\
_adaptive_avg_pool2d: default out; _adaptive_avg_pool3d: default out; _convolution: default deprecated out;
_foreach_abs: default out; _foreach_abs_: default; _foreach_acos: default out; _foreach_acos_: default;
_foreach_add: List List_out Scalar ScalarList ScalarList_out Scalar_out Tensor Tensor_out; _foreach_add_: List
Scalar ScalarList Tensor; _foreach_addcdiv: Scalar ScalarList ScalarList_out Scalar_out Tensor Tensor_out;
_foreach_addcdiv_: Scalar ScalarList Tensor; _foreach_addcmul: Scalar ScalarList ScalarList_out Scalar_out Tensor
Tensor_out; _foreach_addcmul_: Scalar ScalarList Tensor; _foreach_asin: default out; _foreach_asin_: default;
_foreach_atan: default out; _foreach_atan_: default; _foreach_ceil: default out; _foreach_ceil_: default;
_foreach_clamp_max: List List_out Scalar ScalarList ScalarList_out Scalar_out; _foreach_clamp_max_: List Scalar
ScalarList; _foreach_clamp_min: List List_out Scalar ScalarList ScalarList_out Scalar_out; _foreach_clamp_min_: List
Scalar ScalarList; _foreach_clone: default out; _foreach_copy_: default; _foreach_cos: default out; _foreach_cos_:
default; _foreach_cosh: default out; _foreach_cosh_: default; _foreach_div: List List_out Scalar ScalarList
ScalarList_out Scalar_out Tensor Tensor_out; _foreach_div_: List Scalar ScalarList Tensor; _foreach_erf: default
out; _foreach_erf_: default; _foreach_erfc: default out; _foreach_erfc_: default; _foreach_exp: default out;
_foreach_exp_: default; _foreach_expm1: default out; _foreach_expm1_: default; _foreach_floor: default out;
_foreach_floor_: default; _foreach_frac: default out; _foreach_frac_: default; _foreach_lerp: List List_out Scalar
ScalarList ScalarList_out Scalar_out; _foreach_lerp_: List Scalar ScalarList; _foreach_lgamma: default out;
_foreach_lgamma_: default; _foreach_log: default out; _foreach_log10: default out; _foreach_log10_: default;
_foreach_log1p: default out; _foreach_log1p_: default; _foreach_log2: default out; _foreach_log2_: default;
_foreach_log_: default; _foreach_max: default out; _foreach_maximum: List List_out Scalar ScalarList ScalarList_out
Scalar_out; _foreach_maximum_: List Scalar ScalarList; _foreach_minimum: List List_out Scalar ScalarList
ScalarList_out Scalar_out; _foreach_minimum_: List Scalar ScalarList; _foreach_mm: default; _foreach_mul: List
List_out Scalar ScalarList ScalarList_out Scalar_out Tensor Tensor_out; _foreach_mul_: List Scalar ScalarList
Tensor; _foreach_neg: default out; _foreach_neg_: default; _foreach_norm: Scalar Scalar_out; _foreach_pow: List
List_out Scalar ScalarAndTensor ScalarList ScalarList_out Scalar_out; _foreach_pow_: List Scalar ScalarList;
_foreach_powsum: Scalar Scalar_out; _foreach_reciprocal: default out; _foreach_reciprocal_: default; _foreach_round:
default out; _foreach_round_: default; _foreach_rsqrt: default out; _foreach_rsqrt_: default; _foreach_sigmoid:
default out; _foreach_sigmoid_: default; _foreach_sign: default out; _foreach_sign_: default; _foreach_sin: default
out; _foreach_sin_: default; _foreach_sinh: default out; _foreach_sinh_: default; _foreach_sqrt: default out;
_foreach_sqrt_: default; _foreach_sub: List List_out Scalar ScalarList ScalarList_out Scalar_out; _foreach_sub_:
List Scalar ScalarList; _foreach_tan: default out; _foreach_tan_: default; _foreach_tanh: default out;
_foreach_tanh_: default; _foreach_trunc: default out; _foreach_trunc_: default; _foreach_zero_: default;
_grouped_mm: default; _int_mm: default out; _local_scalar_dense: default; _log_softmax: default out; _reshape_alias:
default; _scaled_mm: default out; _softmax: default out; _to_copy: default out; _unsafe_view: default out; _version:
default; abs: default out; abs_: default; absolute: default out; absolute_: default; acos: Scalar complex default
float int out; acos_: default; acosh: Scalar complex default float int out; acosh_: default; adaptive_avg_pool1d:
default out; adaptive_avg_pool2d: default out; adaptive_avg_pool3d: default out; adaptive_max_pool1d: default;
adaptive_max_pool2d: default out; adaptive_max_pool3d: default out; add: Scalar Scalar_out Tensor complex
complex_float complex_int default float float_complex float_int int int_complex int_float out str t; add_: Scalar
Tensor t; addbmm: default out; addbmm_: default; addcdiv: default out; addcdiv_: default; addcmul: default out;
addcmul_: default; addmm: default dtype dtype_out out; addmm_: default; addmv: default out; addmv_: default; addr:
default out; addr_: default; adjoint: default; affine_grid_generator: default out; alias: default; all: all_out bool
default dim dims dims_out float int out; allclose: default; alpha_dropout: default; amax: default out; amin: default
out; aminmax: default out; angle: Scalar complex default float int out; any: all_out bool default dim dims dims_out
float int out str; arange: default out start start_out start_step; arccos: default out; arccos_: default; arccosh:
default out; arccosh_: default; arcsin: default out; arcsin_: default; arcsinh: default out; arcsinh_: default;
arctan: default out; arctan2: default out; arctan2_: default; arctan_: default; arctanh: default out; arctanh_:
default; argmax: default out; argmin: default out; argsort: default stable stable_out; argwhere: default;
as_strided: default; as_strided_: default; as_strided_scatter: default out; as_tensor: bool complex default float
int list; asin: Scalar complex default float int out; asin_: default; asinh: Scalar complex default float int out;
asinh_: default; atan: Scalar complex default float int out; atan2: Scalar_Scalar default float float_int int
int_float out; atan2_: default; atan_: default; atanh: Scalar complex default float int out; atanh_: default;
atleast_1d: Sequence default; atleast_2d: Sequence default; atleast_3d: Sequence default; avg_pool1d: default out;
avg_pool2d: default out; avg_pool3d: default out; backward: TensorList default; baddbmm: default dtype dtype_out
out; baddbmm_: default; bartlett_window: default out periodic periodic_out; batch_norm: default; bernoulli: Tensor
Tensor_out default float_out out p; bernoulli_: Tensor float; bilinear: default; binary_cross_entropy: default out;
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

_MORE = """\
Bool Complex ComplexImplicit Delete Float FloatImplicit Int IntImplicit ScalarImplicit _adaptive_avg_pool2d_backward
_adaptive_avg_pool3d_backward _add_batch_dim _add_relu _add_relu_ _addmm_activation _aminmax
_amp_foreach_non_finite_check_and_unscale _amp_foreach_non_finite_check_and_unscale_ _amp_update_scale
_amp_update_scale_ _assert_async _assert_tensor_metadata _autocast_to_full_precision _autocast_to_reduced_precision
_backward _batch_norm_impl_index _batch_norm_impl_index_backward _batch_norm_no_update _batch_norm_with_update
_batch_norm_with_update_functional _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long
_cast_Short _cdist_backward _cdist_forward _cholesky_solve_helper _choose_qparams_per_tensor _chunk_cat _coalesce
_coalesced _coalesced_ _compute_linear_combination _conj _conj_copy _conj_physical _conv_depthwise2d
_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _convert_weight_to_int4pack
_convert_weight_to_int4pack_for_cpu _convolution_double_backward _convolution_mode _copy_from _copy_from_and_resize
_cslt_compress _cslt_sparse_mm _cslt_sparse_mm_search _ctc_loss _ctc_loss_backward _cudnn_attention_backward
_cudnn_attention_forward _cudnn_attention_forward_no_dropout_inplace _cudnn_ctc_loss _cudnn_init_dropout_state
_cudnn_rnn _cudnn_rnn_backward _cudnn_rnn_flatten_weight _cummax_helper _cummin_helper _debug_has_internal_overlap
_dimI _dimV _dim_arange _dirichlet_grad _dyn_quant_matmul_4bit _dyn_quant_pack_4bit_weight
_efficient_attention_backward _efficient_attention_forward _efficientzerotensor _embedding_bag
_embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_forward_only
_embedding_bag_per_sample_weights_backward _embedding_bag_sparse_backward _empty_affine_quantized
_empty_per_channel_affine_quantized _euclidean_dist _fake_quantize_learnable_per_channel_affine
_fake_quantize_learnable_per_channel_affine_backward _fake_quantize_learnable_per_tensor_affine
_fake_quantize_learnable_per_tensor_affine_backward _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
_fft_c2c _fft_c2r _fft_r2c _fill_mem_eff_dropout_mask_ _flash_attention_backward _flash_attention_forward
_flash_attention_forward_no_dropout_inplace _foobar _foreach_copy _foreach_zero _functional_assert_async
_functional_assert_scalar _functional_sym_constrain_range _functional_sym_constrain_range_for_size _fused_adagrad
_fused_adagrad_ _fused_adam _fused_adam_ _fused_adamw _fused_adamw_ _fused_dropout _fused_moving_avg_obs_fq_helper
_fused_moving_avg_obs_fq_helper_functional _fused_rms_norm _fused_rms_norm_backward _fused_sdp_choice _fused_sgd
_fused_sgd_ _fw_primal _fw_primal_copy _gather_sparse_backward _grad_sum_to_size _grid_sampler_2d_cpu_fallback
_grid_sampler_2d_cpu_fallback_backward _has_compatible_shallow_copy_type _has_same_storage_numel
_histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors _index_put_impl _index_put_impl_
_indices _indices_copy _is_all_true _is_any_true _is_zerotensor _jagged_to_padded_dense_forward _lazy_clone
_linalg_check_errors _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd
_list_to_tensor _log_softmax_backward_data _logcumsumexp _lstm_mps _lu_with_info _make_dep_token _make_dual
_make_dual_copy _make_per_channel_quantized_tensor _make_per_tensor_quantized_tensor _masked_scale _masked_softmax
_masked_softmax_backward _mixed_dtypes_linear _mkldnn_reshape _mkldnn_transpose _mkldnn_transpose_ _mps_convolution
_mps_convolution_transpose _native_batch_norm_legit _native_batch_norm_legit_functional
_native_batch_norm_legit_no_training _native_multi_head_attention _ncf_unsqueeze _ncf_view _neg_view _neg_view_copy
_nested_compute_contiguous_strides_offsets _nested_from_padded _nested_from_padded_and_nested_example
_nested_from_padded_tensor _nested_get_jagged_dummy _nested_get_lengths _nested_get_max_seqlen
_nested_get_min_seqlen _nested_get_offsets _nested_get_ragged_idx _nested_get_values _nested_get_values_copy
_nested_select_backward _nested_sum_backward _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned
_nested_tensor_from_tensor_list _nested_tensor_size _nested_tensor_softmax_with_shape _nested_tensor_storage_offsets
_nested_tensor_strides _nested_view_from_buffer _nested_view_from_buffer_copy _nested_view_from_jagged
_nested_view_from_jagged_copy _new_zeros_with_same_feature_meta _nnpack_spatial_convolution _nnz
_no_grad_embedding_renorm_ _no_grad_fill_ _no_grad_normal_ _no_grad_uniform_ _no_grad_zero_ _pack_padded_sequence
_pack_padded_sequence_backward _pack_sequence _pad_circular _pad_enum _pad_packed_sequence
_padded_dense_to_jagged_forward _pdist_backward _pdist_forward _philox_key_fold_in _philox_key_split _philox_normal
_philox_normal_ _philox_randint _philox_randint_ _philox_uniform _philox_uniform_ _pin_memory _prelu_kernel
_prelu_kernel_backward _propagate_xla_data _remove_batch_dim _reshape_alias_copy _reshape_copy _reshape_from_tensor
_resize_output _resize_output_ _rowwise_prune _safe_softmax _sample_dirichlet _saturate_weight_to_fp16 _scaled_addmm
_scaled_addmm_ _scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps
_scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
_scaled_dot_product_fused_attention_overrideable _scaled_dot_product_fused_attention_overrideable_backward
_scaled_grouped_mm _scaled_grouped_mm_v2 _scaled_mm_v2 _segment_reduce_backward _set_item _shape_as_tensor
_slow_conv2d_backward _slow_conv2d_forward _sobol_engine_draw _sobol_engine_ff_ _sobol_engine_initialize_state_
_sobol_engine_scramble_ _softmax_backward_data _sparse_addmm _sparse_broadcast_to _sparse_broadcast_to_copy
_sparse_bsc_tensor_unsafe _sparse_bsr_tensor_unsafe _sparse_compressed_tensor_unsafe
_sparse_compressed_tensor_with_dims _sparse_coo_tensor_unsafe _sparse_coo_tensor_with_dims
_sparse_coo_tensor_with_dims_and_tensors _sparse_csc_tensor_unsafe _sparse_csr_prod _sparse_csr_sum
_sparse_csr_tensor_unsafe _sparse_log_softmax _sparse_log_softmax_backward_data _sparse_mask_projection _sparse_mm
_sparse_mm_reduce_impl _sparse_mm_reduce_impl_backward _sparse_semi_structured_addmm _sparse_semi_structured_apply
_sparse_semi_structured_apply_dense _sparse_semi_structured_linear _sparse_semi_structured_mm
_sparse_semi_structured_tile _sparse_softmax _sparse_softmax_backward_data _sparse_sparse_matmul _sparse_sum
_sparse_sum_backward _spdiags _spsolve _stack _standard_gamma _standard_gamma_grad _tensor_to_list
_test_ambiguous_defaults _test_autograd_multiple_dispatch _test_autograd_multiple_dispatch_view
_test_autograd_multiple_dispatch_view_copy _test_check_tensor _test_functorch_fallback _test_optional_filled_intlist
_test_optional_floatlist _test_optional_intlist _test_parallel_materialize _test_serialization_subcmul
_test_string_default _test_warn_in_autograd _thnn_differentiable_gru_cell_backward
_thnn_differentiable_lstm_cell_backward _thnn_fused_gru_cell _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell
_thnn_fused_lstm_cell_backward _thnn_fused_lstm_cell_backward_impl _to_cpu _to_dense _to_sparse _to_sparse_bsc
_to_sparse_bsr _to_sparse_csc _to_sparse_csr _to_sparse_semi_structured _transform_bias_rescale_qkv
_transformer_encoder_layer_fwd _trilinear _triton_multi_head_attention _triton_scaled_dot_attention _unique _unique2
_unpack_dual _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate
_upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward
_upsample_lanczos2d_aa _upsample_lanczos2d_aa_backward _upsample_nearest_exact1d _upsample_nearest_exact1d_backward
_upsample_nearest_exact2d _upsample_nearest_exact2d_backward _upsample_nearest_exact3d
_upsample_nearest_exact3d_backward _use_cudnn_ctc_loss _use_miopen_ctc_loss _validate_compressed_sparse_indices
_validate_sparse_bsc_tensor_args _validate_sparse_bsr_tensor_args _validate_sparse_compressed_tensor_args
_validate_sparse_coo_tensor_args _validate_sparse_csc_tensor_args _validate_sparse_csr_tensor_args _values
_values_copy _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros
_weight_int8pack_mm _weight_norm _weight_norm_differentiable_backward _weight_norm_interface
_weight_norm_interface_backward _wrapped_linear_prepack _wrapped_quantized_linear_prepacked
adaptive_avg_pool3d_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward
affine_grid_generator_backward alias_copy alpha_dropout_ as_strided_copy avg_pool2d_backward avg_pool3d_backward
batch_norm_backward batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats binary_cross_entropy_backward
ccol_indices ccol_indices_copy chalf choose_qparams_optimized clear coalesce col_indices col_indices_copy complex
conv_depthwise3d conv_tbc conv_tbc_backward convolution_backward convolution_backward_overrideable
convolution_overrideable copy_sparse_to_sparse copy_sparse_to_sparse_ count crow_indices crow_indices_copy
cudnn_affine_grid_generator cudnn_affine_grid_generator_backward cudnn_batch_norm cudnn_batch_norm_backward
cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler
cudnn_grid_sampler_backward cudnn_is_acceptable cummaxmin_backward cumprod_backward dense_dim detach_copy
diagonal_backward diagonal_copy dict dist_backward dropout_ elu_backward embedding_backward embedding_dense_backward
embedding_renorm embedding_sparse_backward empty_quantized expand_copy fake_quantize_per_channel_affine_cachemask
fake_quantize_per_channel_affine_cachemask_backward fake_quantize_per_tensor_affine_cachemask
fake_quantize_per_tensor_affine_cachemask_backward fbgemm_linear_fp16_weight
fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix feature_alpha_dropout_
feature_dropout_ fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft2 fft_ifftn
fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft2 fft_irfftn fft_rfft2 fft_rfftfreq fft_rfftn
flatten_dense_tensors fractional_max_pool2d_backward fractional_max_pool3d_backward frobenius_norm from_file
fused_moving_avg_obs_fake_quant gather_backward gelu_ gelu_backward geqrf get get_gradients glu_backward
glu_backward_jvp glu_jvp grid_sampler_2d_backward grid_sampler_3d_backward hardshrink_backward hardsigmoid_backward
hardswish_backward hardtanh_backward hash_tensor hspmm huber_loss_backward index_select_backward indices
indices_copy infinitely_differentiable_gelu_backward int_repr is_coalesced is_non_overlapping_and_dense
is_strides_like_format istft items keys leaky_relu_backward len lift_fresh_copy linalg__powsum linalg_eig
linalg_eigvals linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_matrix_sqrth linalg_polar
linear_backward log_sigmoid_backward log_sigmoid_forward logit_backward lstm_mps_backward masked_scatter_backward
masked_select_backward matmul_backward matrix_H matrix_exp_backward max_pool2d_backward
max_pool2d_with_indices_backward max_pool3d_with_indices_backward miopen_batch_norm miopen_batch_norm_backward
miopen_convolution miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss
miopen_depthwise_convolution miopen_rnn miopen_rnn_backward mish_backward mkldnn_adaptive_avg_pool2d
mkldnn_adaptive_avg_pool2d_backward mkldnn_convolution mkldnn_linear mkldnn_linear_backward
mkldnn_linear_backward_input mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool2d_backward
mkldnn_max_pool3d mkldnn_max_pool3d_backward mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight
mkldnn_rnn_layer mkldnn_rnn_layer_backward mps_convolution_backward mps_convolution_transpose_backward
mse_loss_backward multi_margin_loss_backward multilabel_margin_loss_backward multilabel_margin_loss_forward
native_batch_norm_backward native_channel_shuffle native_dropout_backward native_group_norm_backward
native_layer_norm_backward native_norm nested_to_padded_tensor nll_loss2d nll_loss2d_backward nll_loss2d_forward
nll_loss_backward nll_loss_forward nll_loss_nd nonzero_numpy norm_except_dim normal_functional nuclear_norm numpy_T
orgqr ormqr pad_sequence permute_copy polar pop popitem q_per_channel_axis q_per_channel_scales
q_per_channel_zero_points q_scale q_zero_point qscheme quantize_per_channel quantize_per_tensor
quantize_per_tensor_dynamic quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell
quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell
reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward remove replication_pad1d_backward
replication_pad2d_backward replication_pad3d_backward resize resize_as resize_as_sparse resize_as_sparse_
row_indices row_indices_copy rrelu_with_noise rrelu_with_noise_ rrelu_with_noise_backward
rrelu_with_noise_functional segment_reduce select_backward select_copy set set_data setdefault shallow_copy_data_
silu_backward slice_backward slice_copy slice_inverse slow_conv3d slow_conv3d_forward slow_conv_dilated2d
slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d smm smooth_l1_loss_backward
soft_margin_loss_backward softplus_backward softshrink_backward sorted sparse_bsc_tensor sparse_bsr_tensor
sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor sparse_dim sparse_mask sparse_resize
sparse_resize_ sparse_resize_and_clear sparse_resize_and_clear_ sparse_sampled_addmm special_airy_ai
special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 special_modified_bessel_k0
special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 split_copy
split_with_sizes_copy squeeze_copy sspaddmm stft sym_is_contiguous t_copy thnn_conv2d to_dense_backward to_mkldnn
to_mkldnn_backward to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr trace_backward
transpose_copy unbind_copy unflatten_dense_tensors unfold_backward unfold_copy unique_dim unique_dim_consecutive
unsqueeze_copy update upsample_bicubic2d_backward upsample_bilinear2d_backward upsample_linear1d_backward
upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward upsample_trilinear3d_backward
value_selecting_reduction_backward values values_copy view_as_complex view_as_complex_copy view_as_real
view_as_real_copy view_copy
"""
OTHERS = frozenset(_MORE.split())
