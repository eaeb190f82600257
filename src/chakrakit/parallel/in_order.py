"""Every item in its order, in this process or on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from chakrakit.errors import ChakraError
from chakrakit.parallel.as_finished import each

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Workers:
    """Where to run, as `each` takes it."""

    engine: str = "local"
    jobs: int | None = None


def spread(
    function: Callable[[Item], Value], items: Iterable[Item], workers: Workers | None = None
) -> Iterator[Value]:
    """What the function gives for every item, in the order of the items.

    In this process without `workers`. An item that fails ends it: with its own exception here, with
    a ChakraError of the same text from a worker. What comes before its turn waits here.
    """
    if workers is None:
        yield from map(function, items)
        return
    early: dict[int, Value] = {}
    turn = 0
    with closing(each(function, items, workers.engine, workers.jobs)) as outcomes:  # type: ignore[type-var]
        for outcome in outcomes:
            if outcome.error is not None:
                raise ChakraError(outcome.error)
            early[outcome.index] = outcome.value  # type: ignore[assignment]
            while turn in early:
                yield early.pop(turn)
                turn += 1
