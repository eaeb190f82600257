"""`chakra replay`: folders to export, and what a report says; tests/replayer runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from support.commands import chakra, succeeded


def test_an_export_says_how_to_run_it(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    told = succeeded("replay", runs / "fast", "--mode", "emulate", "--export", folder)
    assert told.split() == f"wrote {folder}: python {folder}/run.py".split()
    assert (folder / "run.py").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--iterations", "0"), "0 is not in the range x>=1"),
        (("--mode", "half"), "'half' is not one of"),
        (("--step", "7"), "step"),
    ],
)
def test_wrong_words_are_refused(runs: Path, words: tuple[str, str], said: str) -> None:
    if words[0] == "--step":
        pytest.importorskip("torch", reason="pip install torch")
    mode = () if words[0] == "--mode" else ("--mode", "emulate")
    done = chakra("replay", runs / "fast", *mode, *words)
    assert done.exit_code == 2
    assert said in done.stderr


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
