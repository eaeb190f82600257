"""The cores that this process may use: those it is bound to, where the system says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from chakrakit.parallel import cores
from chakrakit.parallel.outcome import ItemOutcome
from chakrakit.parallel.workers import _each


def test_cores_are_those_that_the_process_is_bound_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 2, 5}, raising=False)
    assert cores() == 3


@pytest.mark.parametrize(("counted", "expected"), [(12, 12), (None, 1)])
def test_elsewhere_all_cores_count(
    monkeypatch: pytest.MonkeyPatch, counted: int | None, expected: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: counted)
    assert cores() == expected


class Instant:
    """An engine of two places whose items end at once."""

    window = 2

    def submit(self, function: Any, item: Any) -> Future[ItemOutcome[Any]]:
        done: Future[ItemOutcome[Any]] = Future()
        done.set_result(ItemOutcome(0, function(item), None))
        return done

    def tend(self) -> None: ...

    def close(self) -> None: ...


def test_no_more_items_are_taken_than_an_engine_has_places() -> None:
    taken: list[int] = []

    def items() -> Iterator[tuple[int, int]]:
        for i in range(5):
            taken.append(i)
            yield i, i

    next(_each(abs, items(), Instant))
    assert taken == [0, 1]
