"""Commands that are stopped leave the old output or the new one, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit.commands
from support.interrupting import run
from support.other_commands import OTHERS
from support.writing_commands import COMMANDS, WITH_PYTORCH, make_inputs


def test_every_command_can_be_stopped() -> None:
    stopped = {command.words[0] for command in (COMMANDS | OTHERS | WITH_PYTORCH).values()}
    assert stopped == set(chakrakit.commands.COMMANDS)


@pytest.mark.slow
def test_signals_at_random_moments_leave_whole_outputs(tmp_path: Path) -> None:
    """One for each command; `python tests/support/interrupting.py` sends as many as one likes."""
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    make_inputs(inputs)
    commands = list((COMMANDS | OTHERS).values())
    assert run(commands, inputs, len(commands), seed=1) == []
