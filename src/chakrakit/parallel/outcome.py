"""Outcome: what became of one item. Engine: somewhere to run items. And how a worker runs one."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from chakrakit.errors import ChakraError

Value = TypeVar("Value")


@dataclass(frozen=True)
class ItemOutcome(Generic[Value]):
    """What became of one item: a value, or the text of its error."""

    index: int
    value: Value | None = None
    error: str | None = None
    died: bool = False
    """Whether the error is that its worker died, not one that the item raised."""


def attempt(function: Callable[[Any], Any], item: Any) -> ItemOutcome[Any]:
    """Runs an item in the worker; an exception that it raises becomes an outcome with its text."""
    try:
        return ItemOutcome(0, function(item))
    except Exception as error:
        return ItemOutcome(0, error=text_of(error))


def text_of(error: BaseException) -> str:
    """An error's text on one line, with its type unless it is a ChakraError."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ChakraError) else f"{type(error).__name__}: {text}"


class Engine(Protocol):
    """Somewhere to run items. A future raises if the worker died; an item that fails has an outcome."""

    window: int
    """Most items that may be submitted and not finished."""

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[ItemOutcome[Any]]:
        """Starts an item; the future raises if its worker dies."""

    def tend(self) -> None:
        """Called every few seconds while nothing finishes."""

    def close(self) -> None:
        """Ends everything that was started."""


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
