"""What people meet at 80 × 24: nothing wider, nothing cut, no exponents, the answer first."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from chakrakit.commands import COMMANDS, terminal
from support.commands import chakra

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
    "conformance": ("conformance", r"10 of 10 cases passed"),
    "link": ("link recordings -o linked", r"linked 2 ranks into linked"),
    "calibrate": ("calibrate micro.json -o profile.json", "a profile of 1 class of operators"),
    "get": ("get --from library", r"run +[\d,]+ +dgx-h100"),
    "score": ("score library", r"chakrakit: 0\.0 % on average"),
    "live": ("live program.py --machine dgx-h100", r"^[\d.]+ ms, 2 actors, \d+ verbs, 1 messages"),
    "view": ("view run --no-browser", r"^http://127\.0\.0\.1:\d+/  \(Ctrl-C stops\)"),
    "report": ("report run -o r.html", r"^wrote r\.html; open it with a browser"),
    "mcp": ("mcp .", r"^Waiting for an agent on standard input"),
    "convert": ("convert run converted", "^wrote converted"),
    "export": ("export run run.pftrace", r"^\d+ slices and \d+ arrows to run\.pftrace"),
    "sweep": ("sweep study.yaml --jobs 1", "fastest that fit"),
    "campaign": (
        "campaign job.yaml --histories 3",
        r"^1\.000 days \(5 to 95 %: 1\.000 to 1\.000\)",
    ),
    "study": ("study B02 --quick", "^B02 Mixed-precision CA-SGD: holds"),
    "capture": (f"capture --ranks 2 -o captured -- {sys.executable} train.py", "^wrote 2 ranks"),
    "replay": ("replay linked --iterations 1", r"step [\d.,]+ ms over 1 iterations"),
}
"""A use of each command, and what its first lines say: the answer, or where what it wrote is."""
ELSEWHERE = {
    "collect": "prints what `link` does",
    "demo": "runs other commands; test_demo looks at the screen that it leaves",
    "completion": "prints a script for a shell to read",
}
LISTS = {"models", "studies"}
"""Commands that list more than a screen holds."""
SLOW = {"sweep", "study", "capture", "replay"}
PYTORCH = {"capture", "replay"}


def test_every_command_is_looked_at_or_has_a_reason_not_to_be() -> None:
    assert set(ANSWERED) | set(ELSEWHERE) == set(COMMANDS)
    assert not set(ANSWERED) & set(ELSEWHERE)


@pytest.fixture
def person_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, somebody who could type, and servers that end as soon as they have said where they are."""

    class Narrow(terminal.Console):
        def __init__(self) -> None:
            super().__init__()
            self.is_terminal, self.width = True, 80

    monkeypatch.setattr("chakrakit.commands.output.Console", Narrow)
    monkeypatch.setattr(
        "chakrakit.commands.mcp.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    )
    monkeypatch.setattr(
        "chakrakit.commands.mcp.server_of", lambda *_: SimpleNamespace(run=lambda _: None)
    )
    address = "http://127.0.0.1:8080/"
    monkeypatch.setattr("chakrakit.views.app.serve", lambda _, port, browser, tell: tell(address))


@pytest.mark.usefixtures("person_at_a_terminal")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in ANSWERED]
)
def test_the_first_screen(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in PYTORCH:
        pytest.importorskip("torch")
    if name == "view":
        pytest.importorskip("starlette")
    monkeypatch.chdir(folder)
    line, answer = ANSWERED[name]
    done = chakra(*shlex.split(line))
    assert done.exit_code == 0, done.stderr
    lines = (done.stdout or done.stderr).splitlines()
    assert re.search(answer, "\n".join(lines[:3])), lines[:3]
    assert len(lines) <= 24 or name in LISTS
    for text in lines:
        copied = text.strip().startswith("chakra ") or "file://" in text
        assert len(text) <= 80 or copied, text
        assert not re.search(r"\d(\.\d+)?e[+-]\d", text), text
