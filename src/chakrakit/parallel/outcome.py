"""Outcome: what became of one item, and how it comes about in a worker."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

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


# Engine: somewhere to run items.


class Engine(Protocol):
    """Somewhere to run: a future's exception means that the worker died, not that the item failed."""

    window: int
    """Most items to have submitted and not finished."""

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[Outcome[Any]]:
        """Runs an item; an exception of the future is the death of its worker."""

    def tend(self) -> None:
        """Called every few seconds while nothing finishes."""

    def close(self) -> None:
        """Ends all that was started."""


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
