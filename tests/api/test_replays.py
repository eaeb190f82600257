"""Replays from Python: a folder to run elsewhere; tests/replayer runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    t = ck.TraceBuilder()
    t.comp("work", duration_ns=4000)
    ck.write(ck.TraceSet([t.build()]), tmp_path / "w")
    return tmp_path / "w"


def test_an_export_runs_nothing_and_returns_nothing(trace: Path, tmp_path: Path) -> None:
    assert ck.replay(trace, mode="emulate", export=tmp_path / "out") is None
    assert {"run.py"} <= {p.name for p in (tmp_path / "out").iterdir()}


def test_a_step_that_was_not_recorded_is_refused(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(ck.ChakraError, match="step"):
        ck.replay(trace, mode="emulate", step=9, export=tmp_path / "out")
