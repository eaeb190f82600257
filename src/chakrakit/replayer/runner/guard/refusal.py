"""What the guard says when an operator must not be called with what it was given."""

from __future__ import annotations

from typing import Any

Given = dict[str, Any]
"""Arguments of a call by name, with the real tensors."""


class Refused(Exception):  # noqa: N818 - not an error: a stand-in takes the operator's place
    """PyTorch would not check this itself, or would end the device or the process over it."""


def need(holds: bool, what: str) -> None:
    """Refuse what does not hold."""
    if not holds:
        raise Refused(what)


_KINDS = {
    "dtype": 16,
    "layout": 1,
    "memory_format": 4,
    "reduction": 3,
    "interpolation_mode": 3,
    "padding_mode": 3,
}
"""How many of each PyTorch has numbered; it does not check the number and crashes over a wrong one."""


def check_kinds(given: Given) -> None:
    """Element types, layouts, reductions and the like may be numbers, of those that there are."""
    for name, value in given.items():
        kind = next((k for k in _KINDS if name.endswith(k)), None)
        if kind is not None and isinstance(value, int | float):
            need(type(value) is int and 0 <= value < _KINDS[kind], f"{name} {value}")


def count(tensor: Any) -> int:
    """Elements of a tensor."""
    return int(tensor.numel())


def sizes(tensor: Any) -> list[int]:
    """A tensor's shape as a list."""
    return list(tensor.shape)


def written_by(operator: Any, given: Given) -> list[Any]:
    """Tensors that a call writes to."""
    found: list[Any] = []
    for argument in operator._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = given.get(argument.name)
            found += value if isinstance(value, list) else [value]
    return [t for t in found if t is not None]
