"""Which class an operator belongs to, by its name: one table for recordings, captures and benchmarks."""

from __future__ import annotations

from chakrakit.machines.operations import contractions, indexing, streaming
from chakrakit.machines.operations.calls import Call
from chakrakit.machines.operations.operation import Operation
from chakrakit.machines.operations.rows import (
    Maker,
    channels,
    groups,
    lines,
    loss_backward,
    loss_forward,
    read_all,
    reduction,
    rows,
    window,
)

_RULES: dict[str, Maker] = {
    "mm": contractions.product(0),
    "bmm": contractions.product(0),
    "addmm": contractions.product(1),
    "_addmm_activation": contractions.product(1),
    "baddbmm": contractions.product(1),
    "_scaled_mm": contractions.product(0),
    "_grouped_mm": contractions.grouped,
    "_cudnn_rnn": contractions.recurrent(1, 6),
    "_cudnn_rnn_backward": contractions.recurrent(2, 10),
    "cudnn_convolution_transpose": contractions.transposed_convolution,
    "cudnn_convolution": contractions.convolution("conv", 0, 3, 5),
    "convolution": contractions.convolution("conv", 0, 3, 8),
    "_conv_depthwise2d": contractions.convolution("conv", 0, 4, 7),
    "convolution_backward": contractions.convolution("conv_backward", 1, 4, 9),
    "native_layer_norm": rows("layer_norm", 2),
    "native_layer_norm_backward": rows("layer_norm_backward", 3),
    "_fused_rms_norm": rows("layer_norm", 2),
    "_fused_rms_norm_backward": rows("layer_norm_backward", 3),
    "_softmax": rows("softmax", 2),
    "_log_softmax": rows("softmax", 2),
    "_softmax_backward_data": rows("softmax_backward", 3),
    "_log_softmax_backward_data": rows("softmax_backward", 3),
    "native_group_norm": groups("layer_norm", 2),
    "native_group_norm_backward": groups("layer_norm_backward", 3),
    "native_batch_norm": channels("batch_norm", 2),
    "cudnn_batch_norm": channels("batch_norm", 2),
    "native_batch_norm_backward": channels("batch_norm_backward", 3),
    "cudnn_batch_norm_backward": channels("batch_norm_backward", 3),
    "sum": reduction("sum", 1),
    "mean": reduction("mean", 1),
    "linalg_vector_norm": reduction("elementwise", 2),
    "nll_loss_forward": loss_forward,
    "nll_loss_backward": loss_backward,
    "nll_loss2d_forward": loss_forward,
    "nll_loss2d_backward": loss_backward,
    "copy": streaming.copy,
    "cat": streaming.concatenation,
    "stack": streaming.concatenation,
    "embedding": indexing.lookup,
    "embedding_dense_backward": indexing.lookup_backward,
    "_embedding_bag": indexing.bags,
    "_embedding_bag_forward_only": indexing.bags,
    "_embedding_bag_dense_backward": indexing.bags_backward,
    "index_select": indexing.selection,
    "gather": indexing.selection,
    "index": indexing.advanced,
    "index_put": indexing.put,
    "_index_put_impl": indexing.put,
    "topk": lines(2),
    "max_pool2d_with_indices": window(0),
    "max_pool2d_with_indices_backward": window(1),
    "avg_pool2d": window(0),
    "avg_pool2d_backward": window(1),
    "upsample_nearest2d": window(0),
    "upsample_nearest2d_backward": window(0),
    "upsample_bilinear2d": window(0),
    "upsample_bilinear2d_backward": window(0),
}
_RULES |= dict.fromkeys(
    ("sort", "argsort", "cumsum", "cumprod", "multinomial", "searchsorted"), lines(1)
)
_RULES |= dict.fromkeys(
    (
        "nonzero",
        "bincount",
        "histc",
        "_unique2",
        "unique_dim",
        "masked_select",
        "unique_consecutive",
    ),
    read_all,
)
_RULES |= dict.fromkeys(
    ("amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "prod", "var", "std", "var_mean",
     "std_mean", "logsumexp"), reduction("elementwise", 1)
)  # fmt: skip
_RULES |= dict.fromkeys(
    ("index_add", "index_copy", "index_fill", "scatter", "scatter_add", "scatter_reduce"),
    indexing.placement,
)


def operation_of(call: Call) -> Operation | None:
    """The operation of a call; None where its tensors are unknown."""
    short = call.short
    if contractions.is_attention(short):
        return contractions.attention(call)
    if short.startswith(("_foreach_", "_fused_ad", "_fused_sgd", "_amp_foreach")):
        return streaming.of_lists(call)
    if not call.name.startswith("aten::"):
        return streaming.fused(call)
    return _RULES.get(short, streaming.elementwise)(call)
