"""Programs that cannot be captured: one or two lines with the line of the script, and nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chakrakit.errors import ConfigError
from chakrakit.sources.capture import capture_command

STEP = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""


def refused(folder: Path, text: str, **options: Any) -> str:
    (folder / "train.py").write_text(text)
    command = ["python", str(folder / "train.py")]
    with pytest.raises(ConfigError) as caught:
        capture_command(command, folder / "out", ranks=2, **options)
    assert not (folder / "out").exists()
    return str(caught.value)


def test_a_scripts_own_error_is_shown_with_its_line(tmp_path: Path) -> None:
    said = refused(tmp_path, "x = 1\nraise ValueError('my own problem')", device="h100")
    assert said == "train.py:2: the script failed\nValueError: my own problem"


def test_a_script_without_a_step_says_so(tmp_path: Path) -> None:
    assert "no optimizer's step() was called" in refused(tmp_path, STEP)


def test_steps_that_are_never_reached(tmp_path: Path) -> None:
    said = refused(tmp_path, STEP + "optimizer.step()", steps="5:6")
    assert said.startswith("the script took 1 step and --steps 5:6 begins at step 5")


def test_a_selection_by_value_names_its_line(tmp_path: Path) -> None:
    said = refused(tmp_path, STEP + "x = torch.randn(8, 4, device='cuda')\nx = x[x[:, 0] > 0]")
    assert said.startswith(
        "train.py:6: aten::index makes a result whose size or value depends on data"
    )


def test_the_network_is_refused_with_its_line(tmp_path: Path) -> None:
    said = refused(tmp_path, "import urllib.request\nurllib.request.urlopen('http://example.com/')")
    assert said.startswith(
        "train.py:2: the script connects to example.com; a capture has no network"
    )


@pytest.mark.slow
def test_a_value_that_decides_is_asked_for_and_can_be_declared(
    captured: Callable[..., Any],
) -> None:
    with pytest.raises(ConfigError, match=r"declare it with --value deciding.py:12=NUMBER"):
        captured("deciding", ranks=2)
    report, _ = captured("deciding", ranks=2, values={"deciding.py:12": 1.0, "deciding.py:13": 1.0})
    assert report.warnings == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([], "there is nothing to capture"),
        (["python"], "names no script"),
        (["python", "gone.py"], "there is no such script"),
        (["./a.out"], "only Python programs"),
    ],
)
def test_commands_that_name_no_program(command: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        capture_command(command, None, ranks=2)
