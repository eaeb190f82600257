"""`chakra replay`: folders to export, and what a report says; tests/replayer runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.cli.run.replay import command
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
    done = chakra("replay", runs / "fast", "--mode", "emulate", *words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_the_options_are_those_of_the_function() -> None:
    from chakrakit import replay

    defaults = {p.name: p.default for p in command.params}
    assert defaults["iterations"] == 10
    assert replay.__kwdefaults__["iterations"] == 10
