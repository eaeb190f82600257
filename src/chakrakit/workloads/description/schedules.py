"""Pipeline schedules as data: for each stage, an order of tasks.

A task is one pass of one micro-batch through one chunk of a stage: F forward, B backward, or its two
halves I (gradient of the input) and W (gradient of the weights). A placement says which piece of the
model each chunk holds. Anything that gives these two is a schedule, so users can bring their own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from chakrakit.errors import ConfigError


class PipelineTask(NamedTuple):
    """Kind (F, B, I or W), micro-batch, and chunk of the stage."""

    kind: str
    micro_batch: int
    chunk: int = 0


@dataclass(frozen=True)
class PipelineSchedule:
    """`tasks[stage]` in order; `pieces[stage][chunk]` is the piece of the model that chunk holds.

    A piece may be on several stages (two copies of the model): a micro-batch stays with the chunks
    whose tasks name it. `updates[stage]` says after how many of its tasks a stage applies its gradients;
    without it, once all are done.
    """

    tasks: tuple[tuple[PipelineTask, ...], ...]
    pieces: tuple[tuple[int, ...], ...]
    updates: tuple[tuple[int, ...], ...] = ()

    def updates_of(self, stage: int) -> tuple[int, ...]:
        """After how many tasks a stage applies its gradients, in order."""
        return self.updates[stage] if self.updates else (len(self.tasks[stage]),)

    def repeated(self, steps: int, batches: int) -> PipelineSchedule:
        """The schedule of several steps, one after the other; micro-batches are numbered on."""
        if steps == 1:
            return self
        tasks = tuple(
            tuple(
                PipelineTask(c.kind, c.micro_batch + k * batches, c.chunk)
                for k in range(steps)
                for c in stage
            )
            for stage in self.tasks
        )
        updates = tuple(tuple(k * len(stage) for k in range(1, steps + 1)) for stage in self.tasks)
        return PipelineSchedule(tasks, self.pieces, updates)

    def forward_only(self) -> PipelineSchedule:
        """The same without backward."""
        tasks = tuple(tuple(c for c in stage if c.kind == "F") for stage in self.tasks)
        return PipelineSchedule(tasks, self.pieces)

    @property
    def piece_count(self) -> int:
        """Pieces the model is cut into."""
        return 1 + max(p for stage in self.pieces for p in stage)

    def homes(self) -> dict[tuple[int, int], tuple[int, int]]:
        """(piece, micro-batch) → the (stage, chunk) that runs it."""
        return self._homes

    def home(self, piece: int, micro_batch: int) -> tuple[int, int]:
        """The (stage, chunk) that runs a piece for a micro-batch; the first that has it, if none does."""
        held = ((s, pieces.index(piece)) for s, pieces in enumerate(self.pieces) if piece in pieces)
        return self._homes.get((piece, micro_batch)) or next(held)

    @cached_property
    def _homes(self) -> dict[tuple[int, int], tuple[int, int]]:
        return {
            (self.pieces[stage][task.chunk], task.micro_batch): (stage, task.chunk)
            for stage, tasks in enumerate(self.tasks)
            for task in tasks
            if task.kind == "F"
        }


def _straight(stages: int) -> tuple[tuple[int, ...], ...]:
    return tuple((s,) for s in range(stages))


def gpipe(stages: int, batches: int, chunks: int = 1) -> PipelineSchedule:
    """All forward, then all backward."""
    tasks = [PipelineTask(kind, m) for kind in "FB" for m in range(batches)]
    return PipelineSchedule((tuple(tasks),) * stages, _straight(stages))


def one_f_one_b(stages: int, batches: int, chunks: int = 1) -> PipelineSchedule:
    """Forward only until the pipeline is full, then one backward after each forward."""

    def stage(s: int) -> Iterator[PipelineTask]:
        ahead = min(batches, stages - s - 1)
        yield from (PipelineTask("F", m) for m in range(ahead))
        for m in range(batches):
            if m + ahead < batches:
                yield PipelineTask("F", m + ahead)
            yield PipelineTask("B", m)

    return PipelineSchedule(tuple(tuple(stage(s)) for s in range(stages)), _straight(stages))


def interleaved(stages: int, batches: int, chunks: int = 2) -> PipelineSchedule:
    """1F1B over several chunks per stage: micro-batches go round the stages once per chunk."""
    if batches % stages:
        raise ConfigError(
            f"the interleaved schedule takes micro-batches in rounds of {stages} (pp); "
            f"there are {batches}: use {batches - batches % stages or stages} or "
            f"{batches + stages - batches % stages}"
        )
    total = batches * chunks

    def task(kind: str, k: int) -> PipelineTask:
        turn, place = divmod(k, stages * chunks)
        chunk = place // stages
        return PipelineTask(
            kind, turn * stages + place % stages, chunk if kind == "F" else chunks - 1 - chunk
        )

    def stage(s: int) -> Iterator[PipelineTask]:
        ahead = min(total, 2 * (stages - s - 1) + (chunks - 1) * stages)
        yield from (task("F", k) for k in range(ahead))
        for k in range(total):
            if k + ahead < total:
                yield task("F", k + ahead)
            yield task("B", k)

    pieces = tuple(tuple(c * stages + s for c in range(chunks)) for s in range(stages))
    return PipelineSchedule(tuple(tuple(stage(s)) for s in range(stages)), pieces)


def zb_h1(stages: int, batches: int, chunks: int = 1) -> PipelineSchedule:
    """1F1B with delayed gradients of weights, longest on the last stages, so that all use as much memory."""

    def stage(s: int) -> Iterator[PipelineTask]:
        ahead, behind = min(batches, stages - s - 1), 0
        yield from (PipelineTask("F", m) for m in range(ahead))
        for m in range(batches):
            filled = m + ahead < batches
            if filled:
                yield PipelineTask("F", m + ahead)
            yield PipelineTask("I", m)
            if not filled or m >= s:
                yield PipelineTask("W", behind)
                behind += 1
        yield from (PipelineTask("W", m) for m in range(behind, batches))

    return PipelineSchedule(tuple(tuple(stage(s)) for s in range(stages)), _straight(stages))


def _spelled(steps: Sequence[str], first: tuple[int, int] = (0, 0)) -> Iterator[PipelineTask]:
    """Tasks for steps like F0, B1, I0 (kind and chunk), numbered in order from `first` of each chunk.

    W0 is the oldest gradient of weights that an I0 left owing, W the oldest of either chunk.
    """
    forward, backward = list(first), list(first)
    owed: list[PipelineTask] = []
    for step in steps:
        if step[0] == "W":
            due = next(c for c in owed if step in ("W", f"W{c.chunk}"))
            owed.remove(due)
            yield due
            continue
        kind, chunk = step[0], int(step[1])
        count = forward if kind == "F" else backward
        yield PipelineTask(kind, count[chunk], chunk)
        if kind == "I":
            owed.append(PipelineTask("W", count[chunk], chunk))
        count[chunk] += 1


def zb_v(stages: int, batches: int, chunks: int = 2) -> PipelineSchedule:
    """Two chunks per stage, the second on the way back; gradients of weights fill idle time."""
    filled = max(batches, 2 * stages - 1)

    def stage(s: int) -> Iterator[PipelineTask]:
        begun = 2 * stages - s - 1
        steps = ["F0"] * (2 * (stages - s) - 1) + ["F1", "F0"] * s
        steps += ["F1", "I1", "W1"] * (stages - s)
        steps += ["F0", "I0", "W0", "F1", "I1", "W1"] * (filled - begun)
        steps += ["I0", "W0", "F1", "I1", "W1"] * (begun - stages)
        steps += ["I0", "I1"] * s + ["I0", "W0"] * (stages - s) + ["W1"] * s + ["W0"] * s
        return _spelled(steps)

    tasks = tuple(tuple(c for c in stage(s) if c.micro_batch < batches) for s in range(stages))
    return PipelineSchedule(tasks, tuple((s, 2 * stages - 1 - s) for s in range(stages)))


def dualpipe(stages: int, batches: int, chunks: int = 2) -> PipelineSchedule:
    """Micro-batches enter at both ends; every stage holds two pieces, so two copies of the model exist."""
    if stages % 2 or batches % 2 or batches < 2 * stages:
        even = stages + stages % 2
        raise ConfigError(
            f"dualpipe needs an even number of stages, and of micro-batches at least twice as many; "
            f"got pp {stages} and {batches} micro-batches: use pp {even} and "
            f"{max(batches + batches % 2, 2 * even)} micro-batches"
        )
    half, each = stages // 2, batches // 2

    def stage(s: int) -> tuple[PipelineTask, ...]:
        inner = min(s, stages - 1 - s)
        far = s >= half  # beyond the middle, the near end is the other one
        steps = _dualpipe_steps(half, each, inner)
        tasks = _spelled(steps, (each, 0) if far else (0, each))
        return tuple(
            PipelineTask(c.kind, c.micro_batch, 1 - c.chunk if far else c.chunk) for c in tasks
        )

    pieces = tuple((s, stages - 1 - s) for s in range(stages))
    return PipelineSchedule(tuple(stage(s) for s in range(stages)), pieces)


def _dualpipe_steps(half: int, each: int, inner: int) -> list[str]:
    """Steps of a stage `inner` places from the nearer end, whose micro-batches are chunk 0."""
    ahead = half - inner - 1
    steps = ["F0"] * (2 * ahead) + ["F0", "F1"] * (inner + 1) + ["I1", "W", "F1"] * ahead
    steps += ["F0", "B1", "F1", "B0"] * (each - 2 * half + inner + 1) + ["B1", "F1", "B0"] * ahead
    middle = (inner + 1) // 2
    for k in range(inner + 1):  # from half way on, weights' gradients wait
        steps.append("I1" if k > middle or (k == middle and inner % 2) else "B1")
        steps.append("I0" if k >= middle else "B0")
    return steps + ["W", "I0"] * ahead + ["W"] * (inner + 1)


SCHEDULES: dict[str, Callable[..., PipelineSchedule]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zb-h1": zb_h1,
    "zb-v": zb_v,
    "dualpipe": dualpipe,
}


def schedule_named(name: str, stages: int, batches: int, chunks: int = 1) -> PipelineSchedule:
    """One of SCHEDULES for this many stages and micro-batches."""
    if name not in SCHEDULES:
        raise ConfigError(
            f"no schedule {name!r}; there are {', '.join(SCHEDULES)}, or give tasks of your own"
        )
    return SCHEDULES[name](stages, batches, chunks)


UPDATE = "U"
"""A cell that applies gradients."""
_CELL = re.compile(r"([FBIW])(\d+)(?:\.(\d+))?$")


def schedule_of(tasks: Sequence[Sequence[str]], batches: int) -> PipelineSchedule:
    """Reads a user's schedule from texts like F0, B0 or F3.1 (micro-batch 3, chunk 1), one list per stage.

    Chunk c of stage s holds piece c × stages + s. Every chunk must run F, and B or I with W, of
    every micro-batch once. `U` applies the gradients that a stage has gathered since the last one; a stage
    that names none does so at its end.
    """
    parsed = tuple(tuple(_parse(t) for t in stage if t != UPDATE) for stage in tasks)
    stages, chunks = len(parsed), 1 + max(c.chunk for stage in parsed for c in stage)
    for s, stage in enumerate(parsed):
        _check_complete(s, stage, batches, chunks)
    pieces = tuple(tuple(c * stages + s for c in range(chunks)) for s in range(stages))
    updates = tuple(_updates(s, stage) for s, stage in enumerate(tasks))
    if len({len(u) for u in updates}) > 1:
        raise ConfigError(
            f"stages apply gradients {', '.join(str(len(u)) for u in updates)} times; every stage needs as "
            "many U"
        )
    return PipelineSchedule(parsed, pieces, updates)


def _updates(stage: int, tasks: Sequence[str]) -> tuple[int, ...]:
    """After how many tasks each U of a stage stands."""
    places = [
        place - number for number, place in enumerate(i for i, t in enumerate(tasks) if t == UPDATE)
    ]
    total = sum(t != UPDATE for t in tasks)
    if not places:
        return (total,)
    if places[-1] != total:
        raise ConfigError(
            f"stage {stage} has tasks after its last U, whose gradients nobody applies; end with U"
        )
    backward = [t[0] in "BW" for t in tasks if t != UPDATE]
    for low, high in itertools.pairwise([0, *places]):
        if not any(backward[low:high]):
            raise ConfigError(
                f"stage {stage} has a U without a B or W before it; there is nothing to apply"
            )
    return tuple(places)


def _parse(text: str) -> PipelineTask:
    match = _CELL.match(text)
    if not match:
        raise ConfigError(f"task {text!r} should look like F0, B0, I0, W0, F0.1 (chunk 1) or U")
    return PipelineTask(match[1], int(match[2]), int(match[3] or 0))


def _check_complete(stage: int, tasks: Sequence[PipelineTask], batches: int, chunks: int) -> None:
    for chunk in range(chunks):
        for m in range(batches):
            kinds = sorted(c.kind for c in tasks if c.micro_batch == m and c.chunk == chunk)
            if kinds not in (["B", "F"], ["F", "I", "W"]):
                raise ConfigError(
                    f"stage {stage} runs {', '.join(kinds) or 'nothing'} for micro-batch {m} of chunk "
                    f"{chunk}; it should run F and B, or F, I and W, once each"
                )
