"""KnownValues: fake tensors all of whose elements have one known value.

A little arithmetic is enough for what scripts decide by: constants, whether anything is not a number
(never), and how many tokens each expert gets (equally many; routing is assumed to be balanced).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from chakrakit.sources.capture.recording import Patches, script_line

Number = float | int | bool
_SAME = (
    "view",
    "reshape",
    "_unsafe_view",
    "_to_copy",
    "clone",
    "alias",
    "detach",
    "squeeze",
    "unsqueeze",
    "expand",
    "t",
    "transpose",
    "permute",
    "select",
    "slice",
    "contiguous",
    "to",
    "mean",
    "max",
    "min",
    "amax",
    "amin",
    "any",
    "all",
    "wait_tensor",
    "all_to_all_single",
    "all_gather_into_tensor",
    "broadcast",
    "split",
    "chunk",
    "unbind",
    "split_with_sizes",
    "as_strided",
    "lift_fresh",
    "_wrap_tensor_autograd",
    "median",
)
_FILLED: dict[str, Number] = {
    "zeros": 0,
    "zeros_like": 0,
    "new_zeros": 0,
    "ones": 1,
    "ones_like": 1,
    "new_ones": 1,
    "isnan": False,
    "isinf": False,
    "isfinite": True,
    "isposinf": False,
    "isneginf": False,
}
_BINARY: dict[str, Callable[[Any, Any], Number]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else 0.0,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "logical_and": lambda a, b: bool(a and b),
    "logical_or": lambda a, b: bool(a or b),
    "bitwise_and": lambda a, b: bool(a and b),
    "bitwise_or": lambda a, b: bool(a or b),
    "maximum": max,
    "minimum": min,
    "floor_divide": lambda a, b: a // b if b else 0,
}
_BY_TRUTH = ("logical_or", "bitwise_or")
_DECIDED_BY_ONE = (*_BY_TRUTH, "logical_and", "bitwise_and")
_NAME = "_chakra_known"
_RECEIVING = ("alltoall_base_", "_allgather_base_", "alltoall_", "broadcast_")
_COUNTS = ("bincount", "histc")


class KnownValues:
    """Keeps the value on the tensor itself: tensors compare by element and make poor keys.

    With it goes how often the storage had been changed, so that a change is noticed in its other views.
    """

    def __init__(self, patches: Patches) -> None:
        self.patches = patches
        self._changes: Counter[int] = Counter()

    def get(self, tensor: torch.Tensor) -> Number | None:
        """The value, if known."""
        value, changes = tensor.__dict__.get(_NAME, (None, 0))
        known: Number | None = value if changes == self._changed(tensor) else None
        return known

    def _changed(self, tensor: torch.Tensor) -> int:
        return self._changes[tensor.untyped_storage()._cdata]

    def note(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        """Set the values of an operator's results, as far as its arguments determine them."""
        if name in _RECEIVING:
            self._received(args)
            return
        short = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        value = self._follow(short, args, kwargs, out)
        if short != name and args and isinstance(args[0], torch.Tensor):
            self._changes[args[0].untyped_storage()._cdata] += 1
        for tensor in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self._set(tensor, value)

    def _received(self, args: Any) -> None:
        """Set the value that a collective which only copies elements receives: the one all ranks send."""
        if len(args) < 2 or not isinstance(args[1], (list, tuple, torch.Tensor)):
            return  # a broadcast leaves the value as it is
        source = args[1][0] if isinstance(args[1], (list, tuple)) else args[1]
        value = self.get(source) if isinstance(source, torch.Tensor) else None
        for tensor in args[0] if isinstance(args[0], (list, tuple)) else (args[0],):
            if isinstance(tensor, torch.Tensor):
                self._set(tensor, value)

    def _set(self, tensor: torch.Tensor, value: Number | None) -> None:
        if value is None:
            tensor.__dict__.pop(_NAME, None)
        else:
            tensor.__dict__[_NAME] = (value, self._changed(tensor))

    def _follow(self, name: str, args: Any, kwargs: Any, out: Any) -> Number | None:
        if name in _FILLED:
            return _FILLED[name]
        if name in ("full", "fill", "full_like", "new_full"):
            return self._of(args[-1 if name == "fill" else 2 if name == "new_full" else 1])
        if name == "copy" and len(args) > 1:
            return self._of(args[1])
        if name in _COUNTS:
            return self._balanced(args, out)
        if name == "one_hot" or not args:
            return None
        if name in _DECIDED_BY_ONE and len(args) > 1:
            whole = name in _BY_TRUTH and out.dtype is not torch.bool
            decisive = None if whole else self._decided(args, name in _BY_TRUTH)
            if decisive is not None:
                return decisive
        if name in ("eq", "ne") and len(args) > 1 and _asks_whether_finite(*args[:2]):
            return (name == "eq") is (args[0] is args[1])
        first = self._of(args[0])
        if first is None:
            return None
        if name in _SAME:
            return first
        if name == "sum":
            return first * int(args[0].numel() // max(out.numel(), 1))
        if name in ("logical_not", "bitwise_not"):
            return not first
        second = self._of(args[1]) if name in _BINARY and len(args) > 1 else None
        return None if second is None else _BINARY[name](first, second)

    def _decided(self, operands: Any, by: bool) -> bool | None:
        """The result of "or" (decided by True) or "and" (by False), where one operand alone decides it."""
        known = [self._of(o) for o in operands[:2]]
        return by if any(k is not None and bool(k) is by for k in known) else None

    def _balanced(self, args: Any, out: Any) -> Number | None:
        if not out.numel() or args[0].numel() % out.numel():
            return None
        self.patches.warn(f"{script_line()}: counts are assumed to be balanced")
        return int(args[0].numel() // out.numel())

    def _of(self, value: Any) -> Number | None:
        if isinstance(value, torch.Tensor):
            constant = getattr(value, "constant", None)
            if constant is not None and constant.numel() == 1:
                return None  # read where it is asked for
            return self.get(value)
        return value if isinstance(value, (bool, int, float)) else None


def _asks_whether_finite(value: Any, other: Any) -> bool:
    """Whether a comparison is part of `isfinite`, `isinf` or `isnan`: with itself, or with infinity.

    Minus infinity is not asked for so, since masks hold it.
    """
    return value is other or (isinstance(other, float) and other == math.inf)
