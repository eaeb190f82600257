"""Twelve tasks of new users: the printed commands of the tutorials, and the answer on the first screen.

A comment `<!-- answer: PATTERN -->` before a block of commands says what its last command must show within
24 lines of 80 columns. Files that a page tells the reader to save are saved.
"""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from support.commands import succeeded
from support.paths import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
FILE = re.compile(r'^```\w+ title="(?P<name>[\w.]+)"\n(?P<text>.*?)^```', re.M | re.S)
TASK = re.compile(r"^<!-- answer: (?P<answer>.+?) -->\n```sh\n(?P<lines>.*?)^```", re.M | re.S)
LINES, COLUMNS = 24, 80


def first_screen(output: str) -> str:
    """What a terminal shows of an output before it scrolls, with its broken lines joined again."""
    left, shown = LINES, []
    for line in output.splitlines():
        left -= max(1, -(-len(line) // COLUMNS))
        if left < 0:
            break
        shown.append(line)
    return "\n".join(shown)


def test_there_are_twelve_tasks_and_more() -> None:
    assert len(TUTORIALS) == 4
    assert sum(len(TASK.findall(page.read_text())) for page in TUTORIALS) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_every_task_is_answered_on_the_first_screen(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text()
    if page.stem in ("script", "recording"):
        pytest.importorskip("torch")
    if page.stem == "recording":
        pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    for file in FILE.finditer(text):
        Path(file["name"]).write_text(file["text"])
    if Path("record.py").exists():
        monkeypatch.setattr(sys, "argv", ["record.py"])
        runpy.run_path("record.py")
    for task in TASK.finditer(text):
        outputs = [succeeded(*shlex.split(line)[1:]) for line in task["lines"].splitlines()]
        assert re.search(task["answer"], first_screen(outputs[-1])), outputs[-1]
