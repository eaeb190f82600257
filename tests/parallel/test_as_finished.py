"""Many items on every engine: nothing lost, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.parallel import ATTEMPTS, check_engine, each
from support.engines import CLUSTERS

ENGINES = ["local", *CLUSTERS]


def outcomes(function: Callable[[Any], Any], items: Any, engine: str) -> list[tuple[Any, Any]]:
    found = sorted(each(function, items, engine, 2), key=lambda o: o.index)
    assert [o.index for o in found] == list(range(len(found)))
    return [(o.value, o.error) for o in found]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_death_an_error_and_a_killer_cost_only_themselves(engine: str, tmp_path: Path) -> None:
    """One item's worker is killed once, one item always kills its worker, one raises."""
    marker = tmp_path / "killed-once"

    def work(item: int) -> int:
        if item == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if item == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if item == 7:
            raise ValueError("seven\nlines")
        return item * item

    found = outcomes(work, range(12), engine)
    assert [v for v, _ in found] == [i * i if i not in (5, 7) else None for i in range(12)]
    assert found[7][1] == "ValueError: seven lines"
    assert f"its worker died {ATTEMPTS} times" in found[5][1]
    assert [e for i, (_, e) in enumerate(found) if i not in (5, 7)] == [None] * 10


def test_items_are_taken_only_as_they_are_needed() -> None:
    taken = []

    def items() -> Any:
        for i in range(100):
            taken.append(i)
            yield i

    first = each(abs, items(), "local", 1)
    next(first)
    first.close()  # type: ignore[attr-defined]
    assert len(taken) <= 2


def test_no_items_no_outcomes_and_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chakrakit.parallel.local.Local", None)
    assert list(each(abs, [], "local", 2)) == []


@pytest.mark.parametrize("engine", ["spark", "local:here", "ray:", ""])
def test_an_unknown_engine_is_refused_at_once(engine: str) -> None:
    with pytest.raises(ConfigError, match=r"no engine .* there are local, ray, dask"):
        each(abs, [1], engine)


def test_no_jobs_are_refused() -> None:
    with pytest.raises(ConfigError, match="jobs is 0; it must be 1 or more"):
        each(abs, [1], "local", 0)


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chakrakit.parallel.workers.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'chakrakit\[ray\]'"):
        check_engine("ray:10.0.0.1:6379")
