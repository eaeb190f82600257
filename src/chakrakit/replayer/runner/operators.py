"""Which operators a replay may call, and which of them only call others.

Written from the table of operators by tests/support/replayable.py: change it there.
Names are those of ATen, without `aten::`. Whoever runs a plan checks against this list; a plan is not
trusted to have done so.
"""

from __future__ import annotations

_ALLOWED = """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d
    _adaptive_avg_pool3d_backward _add_relu _add_relu_ _addmm_activation _aminmax
    _amp_foreach_non_finite_check_and_unscale _amp_foreach_non_finite_check_and_unscale_
    _amp_update_scale_ _batch_norm_no_update _batch_norm_with_update _cast_Byte _cast_Char
    _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _cdist_forward
    _chunk_cat _convolution _convolution_mode _cudnn_attention_backward
    _cudnn_attention_forward _efficient_attention_backward _efficient_attention_forward
    _embedding_bag _embedding_bag_dense_backward _embedding_bag_forward_only _euclidean_dist
    _fft_c2c _fft_c2r _fft_r2c _flash_attention_backward _flash_attention_forward _foreach_abs
    _foreach_abs_ _foreach_acos _foreach_acos_ _foreach_add _foreach_add_ _foreach_addcdiv
    _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _foreach_asin _foreach_asin_
    _foreach_atan _foreach_atan_ _foreach_ceil _foreach_ceil_ _foreach_clamp_max
    _foreach_clamp_max_ _foreach_clamp_min _foreach_clamp_min_ _foreach_clone _foreach_copy
    _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_cosh _foreach_cosh_ _foreach_div
    _foreach_div_ _foreach_erf _foreach_erf_ _foreach_erfc _foreach_erfc_ _foreach_exp
    _foreach_exp_ _foreach_expm1 _foreach_expm1_ _foreach_floor _foreach_floor_ _foreach_frac
    _foreach_frac_ _foreach_lerp _foreach_lerp_ _foreach_lgamma _foreach_lgamma_ _foreach_log
    _foreach_log10 _foreach_log10_ _foreach_log1p _foreach_log1p_ _foreach_log2 _foreach_log2_
    _foreach_log_ _foreach_max _foreach_maximum _foreach_maximum_ _foreach_minimum
    _foreach_minimum_ _foreach_mm _foreach_mul _foreach_mul_ _foreach_neg _foreach_neg_
    _foreach_norm _foreach_pow _foreach_pow_ _foreach_powsum _foreach_reciprocal
    _foreach_reciprocal_ _foreach_round _foreach_round_ _foreach_rsqrt _foreach_rsqrt_
    _foreach_sigmoid _foreach_sigmoid_ _foreach_sign _foreach_sign_ _foreach_sin _foreach_sin_
    _foreach_sinh _foreach_sinh_ _foreach_sqrt _foreach_sqrt_ _foreach_sub _foreach_sub_
    _foreach_tan _foreach_tan_ _foreach_tanh _foreach_tanh_ _foreach_trunc _foreach_trunc_
    _foreach_zero _foreach_zero_ _fused_adagrad _fused_adagrad_ _fused_adam _fused_adam_
    _fused_adamw _fused_adamw_ _fused_dropout _fused_rms_norm _fused_rms_norm_backward
    _fused_sgd _fused_sgd_ _grouped_mm _index_put_impl_ _int_mm _linalg_det _linalg_eigh
    _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd _local_scalar_dense
    _log_softmax _log_softmax_backward_data _logcumsumexp _lu_with_info
    _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _pad_circular _pad_enum _pin_memory _prelu_kernel
    _prelu_kernel_backward _reshape_alias _safe_softmax _scaled_dot_product_attention_math
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention_for_cpu_backward _scaled_grouped_mm
    _scaled_grouped_mm_v2 _scaled_mm _scaled_mm_v2 _softmax _softmax_backward_data _stack
    _to_copy _unique2 _unsafe_index _unsafe_index_put _unsafe_view _upsample_bicubic2d_aa
    _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward
    _upsample_lanczos2d_aa _upsample_lanczos2d_aa_backward _upsample_nearest_exact1d
    _upsample_nearest_exact1d_backward _upsample_nearest_exact2d
    _upsample_nearest_exact2d_backward _upsample_nearest_exact3d
    _upsample_nearest_exact3d_backward _weight_norm _weight_norm_differentiable_backward
    _weight_norm_interface _weight_norm_interface_backward abs abs_ absolute absolute_ acos
    acos_ acosh acosh_ adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_avg_pool3d_backward adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool2d_backward adaptive_max_pool3d adaptive_max_pool3d_backward add add_
    addbmm addbmm_ addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ addmv addmv_ addr addr_
    adjoint affine_grid_generator affine_grid_generator_backward alias alias_copy all
    alpha_dropout alpha_dropout_ amax amin aminmax angle any arange arccos arccos_ arccosh
    arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_
    argmax argmin argsort as_strided as_strided_copy as_strided_scatter asin asin_ asinh
    asinh_ atan atan2 atan2_ atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d avg_pool1d
    avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward baddbmm baddbmm_
    bartlett_window batch_norm batch_norm_backward_elemt batch_norm_backward_reduce
    batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts
    batch_norm_stats batch_norm_update_stats bernoulli bernoulli_ bilinear
    binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits
    bincount bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_ bitwise_not
    bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor
    bitwise_xor_ blackman_window block_diag bmm broadcast_tensors broadcast_to bucketize cat
    cauchy cauchy_ cdist ceil ceil_ celu celu_ chain_matmul chalf channel_shuffle cholesky
    chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ clone col2im
    column_stack combinations complex concat concatenate conj conj_physical conj_physical_
    constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d convolution convolution_backward copy copy_ copysign copysign_ corrcoef
    cos cos_ cosh cosh_ cosine_embedding_loss cosine_similarity count_nonzero cov cross
    cudnn_batch_norm cudnn_batch_norm_backward cudnn_convolution cudnn_convolution_add_relu
    cudnn_convolution_relu cudnn_convolution_transpose cummax cummin cumprod cumprod_
    cumprod_backward cumsum cumsum_ cumulative_trapezoid deg2rad deg2rad_ det detach detach_
    detach_copy diag diag_embed diagflat diagonal diagonal_backward diagonal_copy
    diagonal_scatter diff digamma digamma_ dist div div_ divide divide_ dot dropout dropout_
    dsplit dstack einsum elu elu_ elu_backward embedding embedding_dense_backward
    embedding_renorm embedding_renorm_ empty empty_like empty_permuted empty_strided eq erf
    erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expand expand_as expand_copy expm1
    expm1_ exponential exponential_ eye feature_alpha_dropout feature_alpha_dropout_
    feature_dropout feature_dropout_ fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift
    fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft
    fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq
    fft_rfftn fill fill_ fill_diagonal_ fix fix_ flatten flatten_dense_tensors flip fliplr
    flipud float_power float_power_ floor floor_ floor_divide floor_divide_ fmax fmin fmod
    fmod_ frac frac_ frexp frobenius_norm full full_like gather gcd gcd_ ge ge_ gelu gelu_
    gelu_backward geometric geometric_ ger glu glu_backward glu_backward_jvp glu_jvp gradient
    greater greater_ greater_equal greater_equal_ grid_sampler grid_sampler_2d
    grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward group_norm gt gt_
    hamming_window hann_window hardshrink hardshrink_backward hardsigmoid hardsigmoid_
    hardsigmoid_backward hardswish hardswish_ hardswish_backward hardtanh hardtanh_
    hardtanh_backward heaviside heaviside_ hinge_embedding_loss histc hsplit hstack huber_loss
    huber_loss_backward hypot hypot_ i0 i0_ igamma igamma_ igammac igammac_ im2col index
    index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_
    index_reduce index_reduce_ index_select infinitely_differentiable_gelu_backward inner
    instance_norm inverse is_nonzero isclose isfinite isin isinf isnan isneginf isposinf
    isreal istft item kaiser_window kl_div kron kthvalue l1_loss layer_norm lcm lcm_ ldexp
    ldexp_ le le_ leaky_relu leaky_relu_ leaky_relu_backward lerp lerp_ less less_ less_equal
    less_equal_ lgamma lgamma_ lift lift_fresh lift_fresh_copy linalg_cholesky
    linalg_cholesky_ex linalg_cond linalg_cross linalg_det linalg_diagonal linalg_eig
    linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv linalg_inv_ex linalg_lstsq linalg_lu
    linalg_lu_factor linalg_lu_factor_ex linalg_matmul linalg_matrix_exp linalg_matrix_norm
    linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr
    linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd
    linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot
    linalg_vector_norm linear linspace log log10 log10_ log1p log1p_ log2 log2_ log_
    log_normal log_normal_ log_sigmoid log_sigmoid_backward log_sigmoid_forward log_softmax
    logaddexp logaddexp2 logcumsumexp logdet logical_and logical_and_ logical_not logical_not_
    logical_or logical_or_ logical_xor logical_xor_ logit logit_ logit_backward logspace
    logsumexp lt lt_ mH mT margin_ranking_loss masked_fill masked_fill_ masked_scatter
    masked_scatter_ masked_scatter_backward masked_select matmul matrix_H matrix_exp
    matrix_exp_backward matrix_power max max_pool1d max_pool2d max_pool2d_with_indices
    max_pool2d_with_indices_backward max_pool3d max_pool3d_with_indices
    max_pool3d_with_indices_backward maximum mean median meshgrid min minimum mish mish_
    mish_backward mm mode moveaxis movedim mse_loss mse_loss_backward msort mul mul_
    multinomial multiply multiply_ mv mvlgamma mvlgamma_ nan_to_num nan_to_num_ nanmean
    nanmedian nanquantile nansum narrow narrow_copy native_batch_norm
    native_batch_norm_backward native_channel_shuffle native_dropout native_dropout_backward
    native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward
    native_norm ne ne_ neg neg_ negative negative_ new_empty new_empty_strided new_full
    new_ones new_zeros nextafter nextafter_ nll_loss2d_backward nll_loss2d_forward
    nll_loss_backward nll_loss_forward nonzero nonzero_static norm norm_except_dim normal
    normal_ not_equal not_equal_ nuclear_norm numpy_T ones ones_like outer pad pad_sequence
    pairwise_distance permute permute_copy pinverse pixel_shuffle pixel_unshuffle
    poisson_nll_loss polar polygamma polygamma_ positive pow pow_ prelu prod put put_ qr
    quantile rad2deg rad2deg_ rand rand_like randint randint_like randn randn_like random_
    randperm range ravel reciprocal reciprocal_ reflection_pad1d reflection_pad1d_backward
    reflection_pad2d reflection_pad2d_backward reflection_pad3d reflection_pad3d_backward relu
    relu6 relu6_ relu_ remainder remainder_ renorm renorm_ repeat repeat_interleave
    replication_pad1d replication_pad1d_backward replication_pad2d replication_pad2d_backward
    replication_pad3d replication_pad3d_backward reshape reshape_as resolve_conj resolve_neg
    result_type rms_norm roll rot90 round round_ row_stack rsqrt rsqrt_ rsub scalar_tensor
    scaled_dot_product_attention scatter scatter_ scatter_add scatter_add_ scatter_reduce
    scatter_reduce_ searchsorted select select_backward select_copy select_scatter selu selu_
    sgn sgn_ sigmoid sigmoid_ sigmoid_backward sign sign_ signbit silu silu_ silu_backward sin
    sin_ sinc sinc_ sinh sinh_ slice slice_backward slice_copy slice_scatter slogdet
    smooth_l1_loss smooth_l1_loss_backward soft_margin_loss soft_margin_loss_backward softmax
    softplus softplus_backward softshrink softshrink_backward sort special_airy_ai
    special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
    special_chebyshev_polynomial_t special_chebyshev_polynomial_u
    special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_digamma special_entr
    special_erf special_erfc special_erfcx special_erfinv special_exp2 special_expit
    special_expm1 special_gammainc special_gammaincc special_gammaln
    special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e
    special_i1 special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p
    special_log1p special_log_ndtr special_log_softmax special_logit special_logsumexp
    special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
    special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri
    special_polygamma special_psi special_round special_scaled_modified_bessel_k0
    special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
    special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
    special_shifted_chebyshev_polynomial_w special_sinc special_softmax
    special_spherical_bessel_j0 special_xlog1py special_xlogy special_zeta split split_copy
    split_with_sizes split_with_sizes_copy sqrt sqrt_ square square_ squeeze squeeze_copy
    stack std std_mean stft sub sub_ subtract subtract_ sum sum_to_size svd swapaxes swapdims
    t t_copy take tan tan_ tanh tanh_ tanh_backward threshold threshold_ threshold_backward
    tile to topk trace trace_backward transpose transpose_copy trapezoid trapz tril tril_
    triplet_margin_loss triu triu_ true_divide true_divide_ trunc trunc_ type_as unbind
    unbind_copy unflatten unflatten_dense_tensors unfold unfold_backward unfold_copy uniform
    uniform_ unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy
    upsample_bicubic2d upsample_bicubic2d_backward upsample_bilinear2d
    upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward
    upsample_nearest1d upsample_nearest1d_backward upsample_nearest2d
    upsample_nearest2d_backward upsample_nearest3d upsample_nearest3d_backward vander var
    var_mean vdot view view_as view_as_complex view_as_complex_copy view_as_real
    view_as_real_copy view_copy vsplit vstack where xlogy xlogy_ zero zero_ zeros zeros_like
"""

_COMPOSITE = """
    _batch_norm_impl_index _batch_norm_impl_index_backward _cast_Byte _cast_Char _cast_Double
    _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _convolution.deprecated
    _convolution_double_backward _convolution_mode _lu_with_info
    _pack_padded_sequence_backward _pad_circular _pad_enum _pad_packed_sequence
    _scaled_dot_product_attention_math _upsample_bicubic2d_aa.vec _upsample_bilinear2d_aa.vec
    _upsample_lanczos2d_aa.vec _upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec
    _upsample_nearest_exact3d.vec _weight_norm _weight_norm_differentiable_backward absolute
    absolute_ adaptive_avg_pool1d. adaptive_avg_pool2d. adaptive_avg_pool3d.
    adaptive_max_pool1d adjoint affine_grid_generator_backward alpha_dropout alpha_dropout_
    arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_
    arctan_ arctanh arctanh_ argsort argwhere atleast_1d atleast_2d atleast_3d avg_pool1d.
    batch_norm bilinear broadcast_tensors broadcast_to cdist chain_matmul chalf chunk clip
    clip_ column_stack combinations concat concatenate conj conj_physical. contiguous conv1d
    conv2d conv3d conv_tbc_backward conv_transpose1d conv_transpose2d conv_transpose3d
    corrcoef cosine_embedding_loss cosine_similarity cov cross cross_entropy_loss ctc_loss
    cummaxmin_backward cumprod_backward cumulative_trapezoid data det diag diagflat diff
    divide divide_ dropout dropout_ dsplit dstack einsum embedding_backward embedding_bag
    expand_as feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_
    fft_fft fft_fft2 fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2
    fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn
    fft_rfft fft_rfft2 fft_rfftn fill_diagonal_ fix fix_ flatten flatten_dense_tensors fliplr
    flipud float_power float_power_ frobenius_norm gather_backward ger gradient greater
    greater_ greater_equal greater_equal_ grid_sampler group_norm hinge_embedding_loss hsplit
    hstack index_select_backward infinitely_differentiable_gelu_backward inner instance_norm
    inverse is_nonzero isclose isfinite isreal istft item kl_div kron l1_loss layer_norm less
    less_ less_equal less_equal_ linalg_cholesky linalg_cond linalg_det linalg_diagonal
    linalg_eigh linalg_eigvals. linalg_eigvalsh linalg_inv linalg_ldl_factor linalg_lu_factor
    linalg_matmul linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_multi_dot
    linalg_norm linalg_pinv. linalg_pinv.atol_rtol_float linalg_pinv.atol_rtol_float_out
    linalg_pinv.out_rcond_tensor linalg_pinv.rcond_tensor linalg_slogdet linalg_solve
    linalg_solve_ex linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve
    linalg_vander linalg_vecdot linear. log_sigmoid log_softmax.int logdet lu_solve mH mT
    margin_ranking_loss masked_select_backward matmul matrix_H matrix_exp matrix_exp_backward
    matrix_power max.other max_pool1d max_pool2d max_pool3d meshgrid min.other moveaxis
    movedim msort multilabel_margin_loss multiply multiply_ nanmean nanquantile narrow
    negative negative_ nll_loss nll_loss2d nll_loss_nd norm_except_dim not_equal not_equal_
    nuclear_norm numpy_T one_hot orgqr outer pad pad_sequence pairwise_distance pdist pinverse
    poisson_nll_loss positive prelu qr quantile rand.generator_out randn.generator_out ravel
    relu6 relu6_ repeat_interleave.self_Tensor repeat_interleave.self_int reshape reshape_as
    resolve_conj resolve_neg result_type rms_norm row_stack rrelu rrelu_
    scaled_dot_product_attention selu selu_ slogdet slow_conv3d softmax.int special_digamma
    special_erf special_erfc special_erfinv special_exp2 special_expit special_expm1
    special_gammainc special_gammaincc special_gammaln special_i0 special_log1p
    special_log_softmax special_logit special_logsumexp special_multigammaln special_ndtr
    special_polygamma special_psi special_round special_sinc special_softmax special_xlogy
    split.sizes square square_ std. std.dim std_mean. std_mean.dim stft subtract subtract_
    sum_to_size svd swapaxes swapaxes_ swapdims swapdims_ take_along_dim tensor_split
    thnn_conv2d tile to trace_backward trapezoid trapz triplet_margin_loss true_divide
    true_divide_ type_as unflatten unflatten_dense_tensors unsafe_chunk upsample_bicubic2d.vec
    upsample_bilinear2d.vec upsample_linear1d.vec upsample_nearest1d.vec
    upsample_nearest2d.vec upsample_nearest3d.vec value_selecting_reduction_backward vander
    var. var.dim var_mean. var_mean.dim view_as vsplit vstack where. where.Scalar
    where.ScalarOther where.ScalarSelf
"""

ALLOWED = frozenset(_ALLOWED.split())
"""Operators that compute with tensors and nothing else."""

COMPOSITE = frozenset(_COMPOSITE.split())
"""Operators that only call others (`name`, or `name.overload` where overloads differ).

What they make inside is kept for the backward pass, so a replay calls what they called.
"""

REFUSED = {
    "from_file": "opens a file",
    "save": "writes a file",
    "load": "reads a file",
    "set_data": "replaces a tensor's memory",
    "_test_serialization_subcmul": "is a test of PyTorch's own",
}
"""Operators whose presence in a trace is an attack or a mistake: the whole trace is refused."""
