"""What must hold of values that a replay makes up: indices in range, variances positive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from chakrakit.replayer.tensors import INTEGERS, StorageView

Given = Mapping[str, Sequence[StorageView | None]]
Plain = Mapping[str, Any]


def _rows(name: str) -> Callable[[Given, Plain], int]:
    return lambda given, _: _size(given, name, 0)


def _along(name: str) -> Callable[[Given, Plain], int]:
    """The size of a tensor along the argument `dim`."""
    return lambda given, plain: _size(given, name, _whole(plain, "dim"))


def _number(name: str) -> Callable[[Given, Plain], int]:
    return lambda _, plain: _whole(plain, name)


def _whole(plain: Plain, name: str) -> int:
    """A number among the arguments; 0 for what a recording may say instead."""
    found = plain.get(name)
    return found if isinstance(found, int) else 0


def _classes(given: Given, _: Plain) -> int:
    scores = given["self"][0]
    return _size(given, "self", 1 if scores is not None and len(scores.shape) > 1 else 0)


def _plane(given: Given, _: Plain) -> int:
    return _size(given, "self", -1) * _size(given, "self", -2)


def _size(given: Given, name: str, dim: int) -> int:
    tensor = given[name][0] if given.get(name) else None
    if tensor is None or not -len(tensor.shape) <= dim < len(tensor.shape):
        return 0
    return tensor.shape[dim]


_LIMITS: dict[tuple[str, str], Callable[[Given, Plain], int]] = {
    ("embedding", "indices"): _rows("weight"),
    ("_embedding_bag", "indices"): _rows("weight"),
    ("_embedding_bag_forward_only", "indices"): _rows("weight"),
    ("embedding_dense_backward", "indices"): _number("num_weights"),
    ("index_select", "index"): _along("self"),
    ("gather", "index"): _along("self"),
    ("scatter", "index"): _along("self"),
    ("scatter_", "index"): _along("self"),
    ("scatter_add", "index"): _along("self"),
    ("scatter_add_", "index"): _along("self"),
    ("index_add", "index"): _along("self"),
    ("index_add_", "index"): _along("self"),
    ("index_copy", "index"): _along("self"),
    ("index_copy_", "index"): _along("self"),
    ("index_fill_", "index"): _along("self"),
    ("nll_loss_forward", "target"): _classes,
    ("nll_loss_backward", "target"): _classes,
    ("nll_loss2d_forward", "target"): _classes,
    ("nll_loss2d_backward", "target"): _classes,
    ("max_pool2d_with_indices_backward", "indices"): _plane,
}
"""(operator, argument) → one more than the largest index that is safe."""

_LISTS = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
"""Operators with a list of indices, one per dimension of `self`."""

_POSITIVE = {
    ("sqrt", "self"),
    ("sqrt_", "self"),
    ("rsqrt", "self"),
    ("_foreach_sqrt", "self"),
    ("_fused_adam_", "exp_avg_sqs"),
    ("_fused_adamw_", "exp_avg_sqs"),
    ("native_batch_norm", "running_var"),
    ("cudnn_batch_norm", "running_var"),
    ("log", "self"),
    ("addcmul_", "self"),
    ("_foreach_addcmul_", "self"),
}
"""Arguments of which a square root or logarithm is taken, now or a step later."""

_UNIT = {
    ("native_layer_norm", "weight"),
    ("_fused_rms_norm", "weight"),
    ("native_group_norm", "weight"),
    ("native_batch_norm", "weight"),
    ("cudnn_batch_norm", "weight"),
    ("_batch_norm_with_update", "weight"),
}
"""Factors of normalisations. With small random ones all that follows would be alike: experts would be
chosen by few tokens or all, scores would be equal."""

NUMBERS: dict[str, float | int] = {"Tensor(double)": 1.0, "Tensor(long int)": 1}
WITH_NUMBERS = frozenset(
    ("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "floor_divide")
)
"""Operators that take a number for a tensor; it changes no type, as a tensor of no dimension would."""

COPIES = frozenset(
    (
        "clone",
        "copy_",
        "_to_copy",
        "cat",
        "constant_pad_nd",
        "index_select",
        "gather",
        "repeat",
        "expand",
        "contiguous",
        "_unsafe_view",
        "stack",
        "masked_fill",
        "where",
        "roll",
        "flip",
    )
)
"""Operators whose results are values they were given."""


def index_limits(name: str, given: Given, plain: Plain) -> list[tuple[StorageView, int]]:
    """Tensors among the arguments that hold indices, with their limits."""
    found: list[tuple[StorageView, int]] = []
    for (operator, argument), limit in _LIMITS.items():
        if operator == name and given.get(argument):
            size = limit(given, plain)
            found += [(t, size) for t in given[argument] if t is not None and size > 0]
    if name in _LISTS:
        for dim, tensor in enumerate(given.get("indices", ())):
            size = _size(given, "self", dim)
            if tensor is not None and tensor.dtype != "bool" and size > 0:
                found.append((tensor, size))
    return found


def positive_tensors(name: str, given: Given) -> list[StorageView]:
    """Tensors among the arguments that must not hold values below 0."""
    names = [argument for operator, argument in _POSITIVE if operator == name]
    return [t for n in names for t in given.get(n, ()) if t is not None]


def unit_tensors(name: str, given: Given) -> list[StorageView]:
    """Tensors among the arguments that are factors and begin as 1."""
    names = [argument for operator, argument in _UNIT if operator == name]
    return [t for n in names for t in given.get(n, ()) if t is not None]


def told_limits(text: str, given: Given) -> list[tuple[StorageView, int]]:
    """What the observer wrote of integers, `{"1":[0,49]}`: tensors are counted through all arguments."""
    if not text:
        return []
    try:
        told = msgspec.json.decode(text, type=dict[int, tuple[int, int]])
    except msgspec.MsgspecError:
        return []
    tensors = [t for many in given.values() for t in many]
    found = [(tensors[place], span) for place, span in told.items() if 0 <= place < len(tensors)]
    return [
        (tensor, high + 1)
        for tensor, (low, high) in found
        if tensor is not None and tensor.dtype in INTEGERS and 0 <= low <= high
    ]
