"""Outcome: what became of one item, and how it comes about in a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from chakrakit.errors import ChakraError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """What became of one item: a value, or the text of its error."""

    index: int
    value: Value | None = None
    error: str | None = None
    died: bool = False
    """Whether the error is that its worker died, and not what the item did."""


def attempt(function: Callable[[Any], Any], item: Any) -> Outcome[Any]:
    """Runs in the worker: an item's own error is an answer like any other."""
    try:
        return Outcome(0, function(item))
    except Exception as error:
        return Outcome(0, error=text_of(error))


def text_of(error: BaseException) -> str:
    """An error on one line; of others than our own with its type."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ChakraError) else f"{type(error).__name__}: {text}"
