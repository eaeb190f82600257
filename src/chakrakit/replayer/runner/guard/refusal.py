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
