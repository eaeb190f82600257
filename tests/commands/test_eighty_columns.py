"""What people meet at 80 × 24: nothing wider, nothing cut, no exponents, the answer first."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from chakrakit.commands import COMMANDS, terminal
from support.commands import chakra, succeeded

ANSWERED: dict[str, tuple[str, str]] = {
    "generate": (
        "generate --model gpt3-125m --dp 2 --tp 2 --seq 128 --global-batch 4",
        "parameters",
    ),
    "models": ("models", "parameters"),
    "simulate": ("simulate w --machine dgx-h100", r"^[\d.,]+ ms \([\d.,]+–[\d.,]+\) on dgx-h100"),
    "serve": (
        "serve --model gpt3-125m --machine dgx-h100 --requests poisson:rate=9,n=5,prompt=64,output=4",
        r"5 of 5 requests",
    ),
    "machines": ("machines", "TFLOP/s"),
    "collective": ("collective all-reduce --machine dgx-h100 --members 8 --sizes 1MiB", "busbw"),
    "analyze": ("analyze run", r"How long is a step\? [\d.,]+ ms \([\d.,]+–[\d.,]+\)"),
    "compare": ("compare run slow", r"step [\d.,]+ → [\d.,]+ ms"),
    "query": ("query run 'SELECT type, count(*) FROM nodes GROUP BY type'", "type"),
    "transform": ("transform w --pass scale-ranks:ranks=8 -o larger", "ranks"),
    "search": (
        "search --model gpt3-125m --gpus 2 --machine dgx-h100 --seq 128 --batch 4 --tp 1 --pp 1 --data ddp",
        r"best: [\d.,]+ ms \([\d.,]+–[\d.,]+\) a step",
    ),
    "studies": ("studies", "verdict"),
    "info": ("info run", "model gpt3-125m · plan dp 2"),
    "validate": ("validate run", "ok: "),
    "bundle": ("bundle run -o run.chakra", "SHA-256"),
    "conformance": ("conformance", "question"),
}
"""A use of each command that prints an answer, and what its first lines say."""
SILENT = {
    *("capture", "collect", "link", "get", "replay", "live", "calibrate", "score"),
    *(
        "view",
        "report",
        "mcp",
        "convert",
        "export",
        "sweep",
        "campaign",
        "study",
        "demo",
        "completion",
    ),
}
"""Commands that need a program, a recording or much time, write a file alone or print a script."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eighty")
    plan = ("--model", "gpt3-125m", "--dp", "2", "--seq", "128", "--global-batch", "2")
    succeeded("generate", *plan, "-o", folder / "w")
    for name, more in (("run", ()), ("slow", ("--straggler", "1=1.5"))):
        succeeded("simulate", folder / "w", "--machine", "dgx-h100", *more, "-o", folder / name)
    return folder


def test_every_command_is_looked_at_or_has_a_reason_not_to_be() -> None:
    assert set(ANSWERED) | SILENT == set(COMMANDS)
    assert not set(ANSWERED) & SILENT


@pytest.mark.parametrize("name", ANSWERED)
def test_the_first_screen(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Narrow(terminal.Console):
        def __init__(self) -> None:
            super().__init__()
            self.is_terminal, self.width = True, 80

    monkeypatch.setattr("chakrakit.commands.output.Console", Narrow)
    monkeypatch.chdir(folder)
    line, answer = ANSWERED[name]
    done = chakra(*shlex.split(line))
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.search(answer, "\n".join(lines[:3])), lines[:3]
    for text in lines:
        assert len(text) <= 80 or text.strip().startswith("chakra "), text
        assert not re.search(r"\d(\.\d+)?e[+-]\d", text), text
