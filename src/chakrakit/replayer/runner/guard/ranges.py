"""What is known of integers that operators make: between which numbers they lie, in every iteration.

An index that is known to be in range is used as it is computed; any other is taken from a tensor that
the runner made itself. Only what follows from the operators themselves counts, never what was seen once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .refusal import Given, count

Range = tuple[int, int]
"""Lowest and highest value."""

_COPIES = frozenset(
    [
        "clone",
        "_to_copy",
        "cat",
        "stack",
        "gather",
        "index",
        "index_select",
        "repeat",
        "expand",
        "contiguous",
        "roll",
        "flip",
        "masked_select",
        "constant_pad_nd",
        "_unsafe_view",
        "alias",
        "where",
        "masked_fill",
    ]
)
"""Operators whose integers are all among those they were given, or numbers among their arguments."""


class Ranges:
    """Storage → the range of its integers, as far as it is known at this step."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._known: dict[int, Range] = {}

    def of(self, tensor: Any) -> Range | None:
        """What a tensor's values lie between."""
        return self._known.get(_key(tensor))

    def put(self, tensor: Any, found: Range | None) -> None:
        """A storage was made or filled by the runner itself."""
        if found is None:
            self._known.pop(_key(tensor), None)
        else:
            self._known[_key(tensor)] = found

    def after(self, name: str, given: Given, written: list[Any], results: list[Any]) -> None:
        """A call was made: what it wrote is unknown, what it made may be known."""
        rule = _MAKERS.get(name)
        made = rule(given) if rule is not None else {}
        copied = self._copied(given) if name in _COPIES else None
        inside = {_key(t) for t in _tensors(self._torch, list(given.values()))}
        for tensor in written:
            self._known.pop(_key(tensor), None)
        for place, tensor in enumerate(results):
            if isinstance(tensor, self._torch.Tensor) and _key(tensor) not in inside:
                integers = not (tensor.is_floating_point() or tensor.is_complex())
                self.put(tensor, made.get(place, copied) if integers else None)

    def _copied(self, given: Given) -> Range | None:
        """The hull of all integers among the arguments that values can come from."""
        found: list[Range] = []
        for name, value in given.items():
            if name in ("index", "indices", "condition", "mask"):
                continue
            for tensor in _tensors(self._torch, [value]):
                known = self.of(tensor)
                if known is None:
                    return None
                found.append(known)
            if name in ("value",) and isinstance(value, int | float):
                found.append((int(value), int(value)))
        return (min(f[0] for f in found), max(f[1] for f in found)) if found else None


def _key(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _tensors(torch: Any, values: list[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            flat.append(value)
        elif isinstance(value, list | tuple):
            flat += _tensors(torch, list(value))
    return flat


def _along(place: int, argument: str = "self") -> Callable[[Given], dict[int, Range]]:
    """Places along `dim`; of all elements where no dimension is given."""

    def rule(given: Given) -> dict[int, Range]:
        tensor, dim = given[argument], given.get("dim", -1)
        if not isinstance(dim, int) or not tensor.dim():
            return {place: (0, max(count(tensor) - 1, 0))}
        return {place: (0, max(tensor.shape[dim] - 1, 0))}

    return rule


def _plane(dimensions: int) -> Callable[[Given], dict[int, Range]]:
    def rule(given: Given) -> dict[int, Range]:
        size = 1
        for n in given["self"].shape[-dimensions:]:
            size *= int(n)
        return {1: (0, max(size - 1, 0))}

    return rule


def _counted(given: Given) -> dict[int, Range]:
    start, end, step = given.get("start", 0), given.get("end", 0), given.get("step", 1)
    if not all(type(v) is int for v in (start, end, step)) or not step:
        return {}
    last = max(len(range(start, end, step)) - 1, 0)
    return {0: (min(start, start + last * step), max(start, start + last * step))}


def _drawn(given: Given) -> dict[int, Range]:
    return {0: (int(given.get("low", 0)), max(int(given["high"]) - 1, 0))}


def _constant(value: int) -> Callable[[Given], dict[int, Range]]:
    return lambda given: {0: (value, value)}


def _filled(given: Given) -> dict[int, Range]:
    value = given.get("fill_value")
    return {0: (value, value)} if type(value) is int else {}


def _remainder(given: Given) -> dict[int, Range]:
    other = given.get("other")
    return {0: (0, other - 1)} if type(other) is int and other > 0 else {}


def _clamped(given: Given) -> dict[int, Range]:
    low, high = given.get("min"), given.get("max")
    return {0: (low, high)} if type(low) is int and type(high) is int and low <= high else {}


def _bags(given: Given) -> dict[int, Range]:
    return {1: (0, max(count(given["offsets"]) - 1, 0))}


_MAKERS: dict[str, Callable[[Given], dict[int, Range]]] = {
    "topk": _along(1),
    "sort": _along(1),
    "kthvalue": _along(1),
    "median": _along(1),
    "max": _along(1),
    "min": _along(1),
    "cummax": _along(1),
    "cummin": _along(1),
    "argmax": _along(0),
    "argmin": _along(0),
    "argsort": _along(0),
    "nonzero": lambda given: {0: (0, max([*given["self"].shape, 1]) - 1)},
    "multinomial": lambda given: {0: (0, max(given["self"].shape[-1] - 1, 0))},
    "randperm": lambda given: {0: (0, max(int(given["n"]) - 1, 0))},
    "arange": _counted,
    "randint": _drawn,
    "zeros": _constant(0),
    "zeros_like": _constant(0),
    "new_zeros": _constant(0),
    "ones": _constant(1),
    "ones_like": _constant(1),
    "full": _filled,
    "full_like": _filled,
    "remainder": _remainder,
    "clamp": _clamped,
    "max_pool2d_with_indices": _plane(2),
    "max_pool3d_with_indices": _plane(3),
    "adaptive_max_pool2d": _plane(2),
    "adaptive_max_pool3d": _plane(3),
    "_embedding_bag": _bags,
    "_embedding_bag_forward_only": _bags,
}
"""Operator → the range of its integer results, by place among them."""
