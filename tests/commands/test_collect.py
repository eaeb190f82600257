"""`chakra collect`: what it refuses before it runs anything; tests/commands runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import chakra


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument"),
        (("--steps", "a:b", "--", "python", "train.py"), "should look like 10:12"),
        (("--steps", "0:1", "--", "python", "train.py"), "step 0 is over before"),
        (("--steps", "3:2", "--", "python", "train.py"), "steps"),
    ],
)
def test_nothing_runs_without_a_program_and_steps(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = chakra("collect", "-o", tmp_path / "run", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []
