"""Programs captured without a GPU, timed by the commands that users type: training, and launch-bound ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from claim import each, kept, need, percent, spread, table

OWN = Path(__file__).parent / "programs" / "launch_bound.py"
SESSIONS = Path(__file__).parents[2] / "tests" / "data" / "h200_launch_bound.json"
"""Steps of the launch-bound programs on one H200, each time that they were measured: ms by program."""
MISSING_PACKAGE = re.compile(r"No module named '(\w+)'")
UNLIKE = ("recurrent", "lstm")
"""Recurrent layers are captured as the operators that they are made of, where a GPU runs fused kernels."""


class Prediction(NamedTuple):
    """What `chakra capture` and `chakra simulate` say of a program's step."""

    ms: float
    peak_gib: float


class LaunchBound(NamedTuple):
    """A program of small kernels, and its step in every session that it was measured in."""

    name: str
    sessions: list[float]
    ms: float
    """As predicted."""


def launch_bound() -> list[LaunchBound]:
    """All of them, captured once for every section that asks."""
    sessions = json.loads(SESSIONS.read_text())
    found = kept("launch_bound", lambda: each(partial(predicted, str(OWN)), list(sessions)))
    return [LaunchBound(n, sessions[n], f.ms) for n, f in zip(sessions, found, strict=True)]


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    truth = need(data, "capture_truth", "h200_truth.jsonl").read_text().splitlines()
    programs = need(data, "capture_truth", "programs.py")
    lines = each(partial(_training, programs), [json.loads(line) for line in truth])
    own = [_launch_bound(case) for case in launch_bound() if case.name not in UNLIKE]
    heads = ("program", "batch ×", "step ms", "predicted", "error", "peak GiB", "error")
    bound = ("program", "measured, ms", "predicted", "error to their mean")
    return "\n\n".join(
        [
            TEXT,
            table(heads, [cells for cells, _ in lines]),
            _summary("step", [error for _, error in lines if error is not None]),
            table(bound, [cells for cells, _ in own]),
            _summary("launch-bound step", [error for _, error in own]),
        ]
    )


def _training(programs: Path, truth: dict[str, Any]) -> tuple[list[str], float | None]:
    """A line of the table and the error of its step; why there is none where a package is missing."""
    try:
        found = predicted(str(programs), truth["case"], "--scale", str(truth["scale"]))
    except subprocess.CalledProcessError as error:
        if (package := MISSING_PACKAGE.search(error.stderr)) is None:
            raise
        figures = (f"{truth['step_ms']:.1f}", f"**not measured**: {package[1]} is not installed")
        return [truth["case"], str(truth["scale"]), *figures, "–", "–", "–"], None
    error = found.ms / truth["step_ms"] - 1
    cells = [
        truth["case"],
        str(truth["scale"]),
        f"{truth['step_ms']:.1f}",
        f"{found.ms:.1f}",
        percent(error, signed=True),
        f"{truth['peak_gib']:.2f}",
        percent(found.peak_gib / truth["peak_gib"] - 1, signed=True),
    ]
    return cells, error


def _launch_bound(case: LaunchBound) -> tuple[list[str], float]:
    error = case.ms / (sum(case.sessions) / len(case.sessions)) - 1
    said = ", ".join(f"{ms:.1f}" for ms in case.sessions)
    return [case.name, said, f"{case.ms:.1f}", percent(error, signed=True)], error


def predicted(*program: str) -> Prediction:
    """The step and the peak of a program by the two commands, as a user types them."""
    with tempfile.TemporaryDirectory() as folder:
        captured = str(Path(folder) / "captured")
        options = ("--ranks", "1", "--device", "h200", "-o", captured)
        chakra("capture", *options, "--", sys.executable, *program)
        said = json.loads(chakra("simulate", captured, "--machine", "dgx-h200", "--json"))
    return Prediction(said["makespan_ns"] / 1e6, said["ranks"][0]["peak_bytes"] / 2**30)


def chakra(*words: str) -> str:
    """What a command prints, run as a user types it."""
    command = [sys.executable, "-m", "chakrakit", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _summary(what: str, errors: list[float]) -> str:
    median, ninety, worst = spread(errors)
    return f"Absolute error of a {what}: median {median}, 90 % {ninety}, worst {worst}."


TITLE = "Captured programs against one H200"
TEXT = """\
Training programs as users write them (transformers, torchvision, PyTorch), captured on a host without a GPU
by `chakra capture --ranks 1 --device h200` and simulated by `chakra simulate --machine dgx-h200`, against
the programs themselves on one H200, steps back to back. Nothing was fitted on them: kernels come from the
profile `h200`, gaps between them from three recordings, and the host from other programs. The host bounds
`resnet152` with the smaller batch alone: the same step took 72.8 ms in the session of the table, 55.7 and
57.3 in a second and 56.7 in a third, while twice the batch, which the device bounds, took 88.6 to 88.9 ms in
all.

Programs of small kernels follow, each with all times at which it was measured. Hosts differ: the same
programs took 1.3 to 1.5 times as long in one session as in another, and up to 1.27 times as long as six
minutes before in the same one, so that a step which the host bounds is known no better. The host's constants
were fitted in the first session, on recordings and two of these programs, and that of casts on `gpt_item`
and `gpt_autocast`. The last five were predicted before they were measured. `gates`, a cell written as single
operators in a loop without modules, takes 19 µs for an operator and not 31: what Python adds around
operators is no part of a capture. Recurrent layers are left out: they are captured as the operators that
they are made of, and come out several times too slow."""
