"""Names of PyTorch's operators by what they do, without `aten::`.

An operator that is in none of these lists computes element by element as far as anybody here knows. Forms
that end in an underscore write into their first tensor; the lists have them where PyTorch does.
"""

from __future__ import annotations

_VIEWS = """
    _conj _indices _neg_view _reshape_alias _unsafe_view _values adjoint alias as_strided as_strided_
    atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to chunk conj contiguous data detach
    detach_ diagonal dsplit expand expand_as flatten hsplit imag lift lift_fresh linalg_diagonal
    mH mT matrix_H meshgrid moveaxis movedim narrow numpy_T permute positive ravel real reshape
    reshape_as resolve_conj resolve_neg select set_ slice slice_inverse split split_with_sizes
    squeeze squeeze_ swapaxes swapaxes_ swapdims swapdims_ t t_ tensor_split to transpose
    transpose_ type_as unbind unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes
    unsqueeze unsqueeze_ view view_as view_as_complex view_as_real vsplit
"""
_ALLOCATIONS = """
    _empty_affine_quantized _empty_per_channel_affine_quantized empty empty_like empty_permuted
    empty_quantized empty_strided new_empty new_empty_strided resize_ resize_as_
"""
_QUESTIONS = """
    _has_same_storage_numel _local_scalar_dense is_nonzero is_pinned is_same_size item
    record_stream result_type sym_numel sym_size sym_storage_offset sym_stride
"""
_COPIES = """
    _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short
    _chunk_cat _foreach_clone _foreach_copy _foreach_copy_ _foreach_zero _foreach_zero_
    _pad_circular _pad_enum _pin_memory _stack _to_copy alias_copy arange as_strided_copy
    as_strided_scatter cat channel_shuffle clone column_stack concat concatenate constant_pad_nd
    copy copy_ detach_copy diag diag_embed diagflat diagonal_copy diagonal_scatter dstack
    expand_copy eye fill fill_ flatten_dense_tensors flip fliplr flipud full full_like hstack
    lift_fresh_copy masked_fill masked_fill_ narrow_copy native_channel_shuffle new_full
    new_ones new_zeros ones ones_like pad permute_copy pixel_shuffle pixel_unshuffle
    reflection_pad1d reflection_pad2d reflection_pad3d repeat replication_pad1d
    replication_pad2d replication_pad3d roll rot90 row_stack select_copy select_scatter
    slice_copy slice_scatter split_copy split_with_sizes_copy squeeze_copy stack t_copy tile
    transpose_copy tril tril_ triu triu_ unbind_copy unflatten_dense_tensors unfold_copy
    unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy vstack where zero zero_
    zeros zeros_like
"""
_INDEXING = """
    _embedding_bag _embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_forward_only
    _index_put_impl_
    _unsafe_index _unsafe_index_put embedding embedding_backward embedding_bag
    embedding_dense_backward embedding_renorm embedding_renorm_ gather gather_backward index
    index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_
    index_reduce index_reduce_ index_select index_select_backward masked_scatter masked_scatter_
    masked_select put put_ scatter scatter_ scatter_add scatter_add_ scatter_reduce
    scatter_reduce_ take take_along_dim
"""
VIEWS = frozenset(_VIEWS.split())
"""Results share the memory of the first tensor, or are what another operator that is called inside makes:
`reshape`, `to` and `contiguous` copy by calling `clone` or `copy_`."""

ALLOCATIONS = frozenset(_ALLOCATIONS.split())
"""Memory is taken and nothing written to it."""

QUESTIONS = frozenset(_QUESTIONS.split())
"""The host asks something about a tensor, or says something of it."""

IDENTITIES = frozenset(("detach", "lift", "lift_fresh"))
"""Views that are the very tensor they were given."""

COPIES = frozenset(_COPIES.split())
"""Values are moved, repeated or set; nothing is computed with them."""

INDEXING = frozenset(_INDEXING.split())
"""Rows or elements are picked or placed by index."""

FUSED_UPDATES = {
    "aten::_foreach_addcdiv_": "aten::_fused_adamw_",
    "aten::addcdiv_": "aten::_fused_adamw_",
    "aten::_foreach_add_": "aten::_fused_sgd_",
    "aten::add_": "aten::_fused_sgd_",
}
"""The operator that changes parameters, Adam's before SGD's, and the fused one that does all of it."""
FUSED_LISTS = {"aten::_fused_adamw_": 4, "aten::_fused_sgd_": 3}
"""Lists of tensors that a fused operator works on: parameters, gradients, and its state."""

# What a compiler does with operators.

ROW_NORMS = frozenset((
    "native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward",
    "_softmax", "_log_softmax", "_safe_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
    "native_group_norm", "native_group_norm_backward",
))  # fmt: skip
"""Operators that fold rows and give something for every element."""
FOLDS = frozenset((
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "prod", "var", "std",
    "var_mean", "std_mean", "logsumexp", "linalg_vector_norm", "nll_loss_forward",
))  # fmt: skip
CHANNEL_NORMS = frozenset((
    "native_batch_norm", "native_batch_norm_backward", "cudnn_batch_norm", "cudnn_batch_norm_backward",
    "_native_batch_norm_legit",
))  # fmt: skip
"""Operators that fold channels across a batch."""
GATHERS = frozenset(("embedding", "gather", "index_select", "index"))
"""Operators that read as many elements of their first tensor as they give."""
UNFUSED = frozenset((
    "topk", "sort", "argsort", "cumsum", "cumprod", "multinomial", "searchsorted", "nonzero", "bincount",
    "histc", "_unique2", "unique_dim", "masked_select", "unique_consecutive", "_fused_adam",
    "_fused_adamw", "_fused_sgd", "max_pool2d_with_indices", "max_pool2d_with_indices_backward",
    "avg_pool2d", "avg_pool2d_backward", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell",
))  # fmt: skip
"""Operators that stay kernels of their own: they order, place or slide over elements."""
