"""Sizes that PyTorch takes on trust: normalisation, embeddings, pooling, optimizers, spectra."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .attention import ATTENTION
from .convolution import CONVOLUTION
from .refusal import Given, count, need, sizes

_CHANNEL_ARGUMENTS = [
    "weight",
    "bias",
    "running_mean",
    "running_var",
    "mean",
    "invstd",
    "sum_dy",
    "sum_dy_xmu",
    "save_mean",
    "save_var",
    "save_invstd",
]


_LIST_ARGUMENTS = [
    "self",
    "other",
    "src",
    "tensors1",
    "tensors2",
    "tensor1",
    "tensor2",
    "weights",
    "exponent",
    "end",
    "mat2",
]


def check_sizes(name: str, given: Given) -> None:
    """Refuse a call whose arguments do not fit together."""
    rule = _RULES.get(name)
    if rule is not None:
        rule(given)
    elif name.startswith("_foreach_"):
        _lists(given)


def _channels(given: Given) -> None:
    """Batch normalisation: one value per channel, gradients of the input's shape."""
    source = given["input"]
    need(source.dim() >= 2, "the input has no channels")
    channels = source.shape[1]
    used = given.get("train", given.get("training", True))
    for name in _CHANNEL_ARGUMENTS:
        tensor = given.get(name)
        unused = name.startswith("save_") and not used and tensor is not None and not count(tensor)
        if tensor is not None and not unused:
            need(count(tensor) == channels, f"{name} has {count(tensor)} values, not {channels}")
            need(tensor.dim() == 1, f"{name} is no list of channels")
    for name in ("grad_out", "grad_output"):
        if given.get(name) is not None:
            need(sizes(given[name]) == sizes(source), f"{name} has another shape than the input")


def _gathered_channels(given: Given) -> None:
    """Statistics of several ranks: a row for each."""
    channels = given["input"].shape[1]
    mean, invstd = given["mean"], given["invstd"]
    need(mean.dim() == 2 and mean.shape[1] == channels, "mean is not ranks × channels")
    need(sizes(invstd) == sizes(mean), "invstd has another shape than mean")
    for name in ("running_mean", "running_var"):
        if given.get(name) is not None:
            need(count(given[name]) == channels, f"{name} has not one value per channel")
    counts = given.get("counts")
    need(counts is None or count(counts) == mean.shape[0], "counts has not one value per rank")


def _normalized(given: Given) -> None:
    """Layer and RMS normalisation over the last dimensions."""
    source, shape = given["input"], [int(n) for n in given["normalized_shape"]]
    need(bool(shape) and sizes(source)[-len(shape) :] == shape, "the input ends in another shape")
    rows = count(source) // max(math.prod(shape), 1)
    for name in ("weight", "bias"):
        if given.get(name) is not None:
            need(sizes(given[name]) == shape, f"{name} has another shape than what is normalized")
    if given.get("grad_out") is not None:
        need(sizes(given["grad_out"]) == sizes(source), "grad_out has another shape than the input")
    for name in ("mean", "rstd"):
        if given.get(name) is not None:
            need(count(given[name]) == rows, f"{name} has {count(given[name])} values, not {rows}")


def _grouped(given: Given) -> None:
    """Group normalisation, whose sizes are given beside the tensors."""
    source = given["input"]
    n, channels, plane, groups = (int(given[k]) for k in ("N", "C", "HxW", "group"))
    need(min(n, channels, plane) >= 0 and groups > 0, "sizes below 0")
    need(n * channels * plane == count(source), "N × C × HxW is not the input's size")
    need(channels % groups == 0, "channels do not divide into groups")
    for name, size in (
        ("weight", channels),
        ("bias", channels),
        ("mean", n * groups),
        ("rstd", n * groups),
        ("grad_out", count(source)),
    ):
        if given.get(name) is not None:
            found = count(given[name])
            need(found == size, f"{name} has {found} values, not {size}")


def _lists(given: Given) -> None:
    """Operators on lists: as many of each, of the same shape or one number."""
    lists = [v for k, v in given.items() if isinstance(v, list) and k in _LIST_ARGUMENTS]
    lists = [v for v in lists if all(hasattr(t, "shape") for t in v)]
    need(bool(lists) and bool(lists[0]), "no tensors")
    for other in lists[1:]:
        need(len(other) == len(lists[0]), f"lists of {len(lists[0])} and {len(other)} tensors")
        for left, right in zip(lists[0], other, strict=True):
            fits = sizes(left) == sizes(right) or count(right) == 1
            need(fits, f"tensors of shape {sizes(left)} and {sizes(right)} in lists")


def _optimizer(*states: str, flags: dict[str, str] | None = None) -> Callable[[Given], None]:
    """A fused optimizer: every list as long as the parameters, every tensor laid out like its own."""

    def rule(given: Given) -> None:
        own = given["self"]
        needed = {"grads", *states}
        for flag, name in (flags or {}).items():
            if given.get(flag):
                needed.add(name)
        for name in needed:
            need(len(given[name]) == len(own), f"{name} has {len(given[name])} tensors")
        for name, tensors in given.items():
            if name == "self" or not isinstance(tensors, list) or not tensors:
                continue
            if name == "state_steps":
                need(all(count(t) == 1 for t in tensors), "a step that is no single number")
                need(len(tensors) == len(own), "not one step per parameter")
                continue
            need(len(tensors) == len(own), f"{name} has {len(tensors)} tensors, not {len(own)}")
            for mine, other in zip(own, tensors, strict=True):
                same = sizes(mine) == sizes(other) and mine.stride() == other.stride()
                need(same, f"{name} is laid out unlike its parameter")
        need(all(_dense(t) for t in own), "a parameter with holes")
        for name in ("lr", "grad_scale", "found_inf"):
            value = given.get(name)
            need(not hasattr(value, "numel") or count(value) == 1, f"{name} is no single number")

    return rule


def _dense(tensor: Any) -> bool:
    """Whether a tensor's elements are all there is between its first and its last."""
    span = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        span += (int(size) - 1) * int(stride)
    return count(tensor) == 0 or span == count(tensor)


def _singles(*names: str) -> Callable[[Given], None]:
    def rule(given: Given) -> None:
        for name in names:
            value = given.get(name)
            if hasattr(value, "numel"):
                need(count(value) == 1, f"{name} is no single number")

    return rule


def _embedding_backward(given: Given) -> None:
    grad, indices = given["grad_output"], given["indices"]
    need(grad.dim() >= 1, "a gradient without dimensions")
    need(sizes(grad)[:-1] == sizes(indices), "not one gradient per index")
    need(int(given["num_weights"]) > 0, "a table without rows")


def _bags(given: Given) -> None:
    """Sums over bags of rows."""
    indices, offsets, weight = given["indices"], given["offsets"], given["weight"]
    need(weight.dim() == 2 and indices.dim() == 1 and offsets.dim() == 1, "no table, bags and rows")
    need(indices.dtype == offsets.dtype, "indices and offsets of different types")
    need(given.get("mode", 0) in (0, 1, 2), "neither sums nor means nor maxima of bags")
    factors = given.get("per_sample_weights")
    need(factors is None or sizes(factors) == sizes(indices), "not one weight per index")
    need(not given.get("include_last_offset") or count(offsets) > 0, "no last offset")


def _bags_backward(given: Given) -> None:
    indices, grad = given["indices"], given["grad"]
    need(grad.dim() == 2 and indices.dim() == 1, "a gradient that is no table")
    need(sizes(given["offset2bag"]) in (sizes(indices), [0]), "not one bag per index")
    need(count(given["offset2bag"]) > 0 or given.get("mode") == 0, "no bag per index")
    need(count(given["bag_size"]) in (0, grad.shape[0]), "not one size per bag")
    mode = int(given["mode"])
    need(mode in (0, 1), "only sums and means of bags are replayed")
    need(mode == 0 or count(given["bag_size"]) == grad.shape[0], "not one size per bag")
    factors = given.get("per_sample_weights")
    need(factors is None or sizes(factors) == sizes(indices), "not one weight per index")
    need(int(given["num_weights"]) > 0, "a table without rows")


def _pooled(dimensions: int) -> Callable[[Given], None]:
    """The gradient of a maximum over windows."""

    def rule(given: Given) -> None:
        source, grad, indices = given["self"], given["grad_output"], given["indices"]
        need(sizes(grad) == sizes(indices), "not one index per gradient")
        need(source.dim() in (dimensions + 1, dimensions + 2), "an input of other dimensions")
        lead = source.dim() - dimensions
        need(sizes(grad)[:lead] == sizes(source)[:lead], "planes that do not match")
        need(grad.dim() == source.dim(), "a gradient of other dimensions")
        if "kernel_size" not in given:
            return
        settings = [
            _spread(given[k], dimensions, given["kernel_size"])
            for k in ("kernel_size", "stride", "padding", "dilation")
        ]
        for i in range(dimensions):
            kernel, stride, pad, dilation = (s[i] for s in settings)
            need(kernel > 0 and stride > 0 and dilation > 0 and pad >= 0, "windows of no size")
            wanted = _windows(source.shape[lead + i], kernel, stride, pad, dilation, given)
            need(int(grad.shape[lead + i]) == wanted, "a gradient of other windows")

    return rule


def _spread(value: Any, dimensions: int, default: Any) -> list[int]:
    found = list(value) or list(default)
    return [int(v) for v in (found if len(found) == dimensions else found * dimensions)]


def _windows(size: int, kernel: int, stride: int, pad: int, dilation: int, given: Given) -> int:
    span = size + 2 * pad - dilation * (kernel - 1) - 1
    if not given.get("ceil_mode"):
        return span // stride + 1
    found = -(-span // stride) + 1
    return found - 1 if (found - 1) * stride >= size + pad else found


def _averaged_backward(given: Given) -> None:
    lead = sizes(given["self"])[:-2]
    need(sizes(given["grad_output"])[:-2] == lead, "planes that do not match")


def _sampled_backward(given: Given) -> None:
    source, grid, grad = given["input"], given["grid"], given["grad_output"]
    wanted = [source.shape[0], source.shape[1], *sizes(grid)[1:-1]]
    need(sizes(grad) == wanted and grid.shape[0] == source.shape[0], "a gradient of another grid")


def _spectrum(given: Given) -> None:
    """Transforms along dimensions that there are, each once."""
    source, dims = given["self"], [int(d) for d in given["dim"]]
    need(bool(dims) and count(source) > 0, "nothing to transform")
    need(all(-source.dim() <= d < source.dim() for d in dims), "a dimension that is not there")
    need(len({d % source.dim() for d in dims}) == len(dims), "a dimension twice")


def _real_spectrum(given: Given) -> None:
    """The last dimension says how much of the spectrum is read."""
    _spectrum(given)
    dims, last = given["dim"], int(given["last_dim_size"])
    need(last > 0, "no dimension to transform")
    need(int(given["self"].shape[dims[-1]]) == last // 2 + 1, "a spectrum of another length")


def _weight_norm(given: Given) -> None:
    whole = given.get("v", given.get("saved_v"))
    assert whole is not None
    need(whole.dim() > 0, "a weight without dimensions")
    rows = int(whole.shape[int(given.get("dim", 0))])
    for name in ("g", "saved_g", "saved_norms"):
        if given.get(name) is not None:
            need(count(given[name]) == rows, f"{name} has not one value per row")
    if given.get("grad_w") is not None:
        need(sizes(given["grad_w"]) == sizes(whole), "a gradient of another shape")


def _unfolded(given: Given) -> None:
    grad, shape = given["grad_in"], [int(n) for n in given["input_sizes"]]
    dim, size, step = (int(given[k]) for k in ("dim", "size", "step"))
    need(-len(shape) <= dim < len(shape) and step > 0 and size >= 0, "a window of no size")
    wanted = list(shape)
    wanted[dim] = (shape[dim] - size) // step + 1
    need(sizes(grad) == [*wanted, size], "a gradient of other windows")


def _classes(given: Given) -> None:
    """Negative log likelihood: one target per row, one weight per class."""
    scores, target = given["self"], given["target"]
    need(scores.dim() >= 1, "scores without classes")
    classes = scores.shape[1] if scores.dim() > 1 else scores.shape[0]
    rows = [scores.shape[0], *sizes(scores)[2:]] if scores.dim() > 1 else []
    need(sizes(target) == rows or (not rows and count(target) == 1), "not one target per row")
    weight = given.get("weight")
    need(weight is None or sizes(weight) == [classes], "not one weight per class")
    total, grad = given.get("total_weight"), given.get("grad_output")
    need(total is None or count(total) == 1, "total_weight is no single number")
    if grad is not None:
        wanted = math.prod(rows) if int(given["reduction"]) == 0 else 1
        need(count(grad) == wanted, "a gradient of another shape")


def _no_sorter(given: Given) -> None:
    need(given.get("sorter") is None, "a sorter is not replayed")


_ADAM = _optimizer("exp_avgs", "exp_avg_sqs", "state_steps", flags={"amsgrad": "max_exp_avg_sqs"})

_RULES: dict[str, Callable[[Given], None]] = {
    **ATTENTION,
    **CONVOLUTION,
    **dict.fromkeys(
        [
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_native_batch_norm_legit_functional",
            "_native_batch_norm_legit_no_training",
            "_batch_norm_with_update",
            "_batch_norm_no_update",
            "cudnn_batch_norm",
            "cudnn_batch_norm_backward",
            "native_batch_norm_backward",
            "batch_norm",
            "batch_norm_elemt",
            "batch_norm_stats",
            "batch_norm_update_stats",
            "batch_norm_backward_reduce",
            "batch_norm_backward_elemt",
        ],
        _channels,
    ),
    "batch_norm_gather_stats": _gathered_channels,
    "batch_norm_gather_stats_with_counts": _gathered_channels,
    **dict.fromkeys(
        [
            "native_layer_norm",
            "native_layer_norm_backward",
            "layer_norm",
            "rms_norm",
            "_fused_rms_norm",
            "_fused_rms_norm_backward",
        ],
        _normalized,
    ),
    "native_group_norm": _grouped,
    "native_group_norm_backward": _grouped,
    **dict.fromkeys(("_fused_adam", "_fused_adam_", "_fused_adamw", "_fused_adamw_"), _ADAM),
    **dict.fromkeys(("_fused_adagrad", "_fused_adagrad_"), _optimizer("state_sums", "state_steps")),
    **dict.fromkeys(
        ("_fused_sgd", "_fused_sgd_"), _optimizer(flags={"momentum": "momentum_buffer_list"})
    ),
    **dict.fromkeys(
        ("_amp_foreach_non_finite_check_and_unscale", "_amp_foreach_non_finite_check_and_unscale_"),
        _singles("found_inf", "inv_scale"),
    ),
    "_amp_update_scale_": _singles("self", "growth_tracker", "found_inf"),
    "_local_scalar_dense": _singles("self"),
    "item": _singles("self"),
    "is_nonzero": _singles("self"),
    "embedding_dense_backward": _embedding_backward,
    "_embedding_bag": _bags,
    "_embedding_bag_forward_only": _bags,
    "_embedding_bag_dense_backward": _bags_backward,
    "max_pool2d_with_indices_backward": _pooled(2),
    "max_pool3d_with_indices_backward": _pooled(3),
    "adaptive_max_pool2d_backward": _pooled(2),
    "adaptive_max_pool3d_backward": _pooled(3),
    "_adaptive_avg_pool2d_backward": _averaged_backward,
    "_adaptive_avg_pool3d_backward": _averaged_backward,
    "adaptive_avg_pool3d_backward": _averaged_backward,
    "grid_sampler_2d_backward": _sampled_backward,
    "grid_sampler_3d_backward": _sampled_backward,
    "_fft_c2c": _spectrum,
    "_fft_r2c": _spectrum,
    "_fft_c2r": _real_spectrum,
    "_weight_norm_interface": _weight_norm,
    "_weight_norm_interface_backward": _weight_norm,
    "unfold_backward": _unfolded,
    "nll_loss_forward": _classes,
    "nll_loss_backward": _classes,
    "nll_loss2d_forward": _classes,
    "nll_loss2d_backward": _classes,
    "searchsorted": _no_sorter,
}
