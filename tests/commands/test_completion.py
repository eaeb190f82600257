"""`chakra completion`: scripts for shells, and what they ask."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.commands import chakra


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = chakra("completion", shell)
    assert done.exit_code == 0
    assert "_CHAKRA_COMPLETE" in done.stdout


def test_the_shell_is_told_the_commands() -> None:
    environment = {
        **os.environ,
        "_CHAKRA_COMPLETE": "bash_complete",
        "COMP_WORDS": "chakra in",
        "COMP_CWORD": "1",
    }
    code = "from chakrakit.commands import main; main([])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["plain,info"]
