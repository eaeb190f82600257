"""The cores that this process may use: those it is bound to, where the system says so."""

from __future__ import annotations

import os

import pytest

from chakrakit.parallel import cores


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
