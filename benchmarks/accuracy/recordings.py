"""Recordings linked without options: the bound that is named and the step, against the bare program.

`python benchmarks/accuracy/recordings.py DIR…` prints the table for any folders of recordings.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from claim import need, percent, spread, table

import chakrakit as ck
from chakrakit import Run
from chakrakit.trace.placement import on_device
from chakrakit.trace.sets import FILLED
from chakrakit.trace.timing import Intervals

WAYS = ("card", "no step on the card", "pair alone")
STEP = "step_ms_back_to_back"
SECOND = ("kineto_only", "times_")
FITTED = (
    *("ddp_nccl_1", "gpt2_124m_compiled_b8_s1024", "llama_1b_infer_b8_s1024"),
    *("bert", "decode_llama", "dlrm_dense", "gpt_compiled", "moe_mixtral", "resnet18_fp32"),
    *("unet_sample", "vit_amp", "dit", "embedding_model", "moe_capacity", "moe_sorted"),
    *("gpt2_train", "resnet50_train"),
)
"""Recordings on which the cost of recording was fitted."""


class Answer(NamedTuple):
    """What linking and analysing a recording says."""

    step_ms: float
    bound: str
    uncertain: bool


class Case(NamedTuple):
    """A recording: its name, the un-profiled step, how many were recorded, the device's share of one."""

    name: str
    step_ms: float
    recorded: int
    filled: float
    answers: list[Answer]

    @property
    def device(self) -> bool:
        """Whether the device bounds the step."""
        return self.filled >= FILLED


def measure(data: Path) -> str:
    """The section of docs/accuracy.md; `recordings` beside `gpu_h200` may hold more of them."""
    cases = list(measured([need(data, "gpu_h200"), data / "recordings"]))
    heads = (
        "recording",
        "fitted",
        "steps",
        "step ms",
        "device works",
        *(h for w in WAYS for h in (w, "error")),
    )
    return "\n\n".join([TEXT, table(heads, map(_line, cases)), _summary(cases)])


def measured(folders: list[Path]) -> Iterator[Case]:
    """Every recording in the folders whose card knows the step."""
    for folder in folders:
        cards = sorted(folder.glob("**/*card*.json"))
        places = {c.parent.parent if c.parent.name.startswith("rank") else c.parent for c in cards}
        for place in sorted(places):
            step = max((_bare_ms(c) for c in place.glob("**/*card*.json")), default=0.0)
            if step and any(p.name.startswith(SECOND) for p in place.glob("**/*")):
                yield _case(place, step)


def _case(place: Path, step: float) -> Case:
    answers, busy, steps = [], 0.0, 0
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            staged = _staged(place, Path(folder) / "recording", way)
            run, report = ck.link(staged)
            found = ck.analyze(run)
            answers.append(Answer(report.step_ns / 1e6, found.bound, found.bound_uncertain))
            busy, steps = busy or _busy_ms(run), steps or len(report.ranks[0].steps)
    return Case(place.name, step, steps, busy / step, answers)


def _bare_ms(card: Path) -> float:
    said = json.loads(card.read_text())
    return float(said.get(STEP) or said.get("overhead", {}).get("step_ns", 0) / 1e6)


def _staged(place: Path, target: Path, way: str) -> Path:
    """A copy of a recording with what this way leaves of it."""
    shutil.copytree(place, target, copy_function=shutil.copyfile)
    for path in list(target.glob("**/*.json*")):
        if way == "pair alone" and ("card" in path.name or path.name.startswith(SECOND)):
            path.unlink()
        elif way == "no step on the card" and "card" in path.name:
            said = json.loads(path.read_text())
            said.get("overhead", {}).pop("step_ns", None)
            kept = {k: v for k, v in said.items() if not k.startswith("step_ms")}
            path.write_text(json.dumps(kept))
    return target


def _busy_ms(run: Run) -> float:
    """How long the busiest device works for the last step."""
    found = 0.0
    for _, trace in run:
        step = np.asarray(trace.column("step", -1), np.int64)
        rows = np.flatnonzero(on_device(trace) & (step == step.max()))
        work = Intervals.of(trace.start_ns[rows], trace.end_ns[rows])
        found = max(found, work.total / 1e6)
    return found


def _line(case: Case) -> list[str]:
    cells = [case.name, "yes" if case.name in FITTED else "", str(case.recorded)]
    cells += [f"{case.step_ms:.2f}", f"{case.filled:.0%}"]
    for answer in case.answers:
        cells += [
            f"{answer.bound}{'?' if answer.uncertain else ''}",
            percent(answer.step_ms / case.step_ms - 1, signed=True),
        ]
    return cells


def _summary(cases: list[Case]) -> str:
    """For each way how many bounds are right, and how far the device-bound steps are off."""
    several = [c for c in cases if c.recorded > 1]
    kinds = {
        "several steps, fitted": [c for c in several if c.name in FITTED],
        "several steps, not fitted": [c for c in several if c.name not in FITTED],
        "one step": [c for c in cases if c.recorded == 1],
    }
    rows = []
    for i, way in enumerate(WAYS):
        for name, some in kinds.items():
            right = [c for c in some if (c.answers[i].bound == "device") == c.device]
            wrong = [c for c in some if c not in right and not c.answers[i].uncertain]
            told = sum(c.answers[i].uncertain for c in some)
            errors = [c.answers[i].step_ms / c.step_ms - 1 for c in some if c.device]
            counts = f"{len(right)} of {len(some)}", str(told), str(len(wrong))
            rows.append([way, name, *counts, *spread(errors)])
    heads = ("bound right", "said to be uncertain", "wrong and not said to be")
    return table(("way", "recordings", *heads, "device-bound: median", "90 %", "worst"), rows)


TITLE = "Recordings linked without options"
TEXT = f"""\
`chakra link RECORDING; chakra analyze`, with the card as it is, with the step's time taken off the card, and
with the observer's and Kineto's files alone (neither card nor second pass). The step is that of the written
trace, against the program without a profiler, steps back to back; a recording of one step begins with an
idle device, which a step in the middle of a run does not. The device bounds a step that it fills to
{FILLED:.0%} or more; `?` marks a bound that the result itself calls uncertain. What recording costs, and how
far that may be off, was fitted on half of the recordings."""

if __name__ == "__main__":
    every = []
    for one in measured([Path(p) for p in sys.argv[1:]]):
        print(" | ".join(_line(one)), flush=True)
        every.append(one)
    print(_summary(every))
