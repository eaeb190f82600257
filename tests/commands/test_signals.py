"""Commands that are stopped leave the old output or the new one, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.interrupting import run
from support.writing_commands import COMMANDS, make_inputs


@pytest.mark.slow
def test_signals_at_random_moments_leave_whole_outputs(tmp_path: Path) -> None:
    """One for each command; `python tests/support/interrupting.py` sends as many as one likes."""
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    make_inputs(inputs)
    assert run(list(COMMANDS.values()), inputs, len(COMMANDS), seed=1) == []
