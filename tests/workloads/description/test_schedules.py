"""Bubbles and micro-batches in flight, measured by scheduling the traces of all stages together."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit import NodeType
from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import dry_run, generate, generated
from support.joined import Joined, join

F, B, W = 6, 6, 6
GRID = [(p, m) for p in (4, 8) for m in (8, 16)]


class Timed:
    """A pipeline run with given durations of tasks. A task's time is on its first compute node."""

    def __init__(
        self, plan: Plan, batches: int, pieces: int, times: tuple[int, int, int] = (F, B, W)
    ) -> None:
        model = Decoder(layers=pieces, hidden=8, heads=2, vocab=16)
        step = Step(seq=4, global_batch=batches, optimizer="none", clip=False, loss_reduce=False)
        joined = join(generate(Workload(model=model, plan=plan, step=step)))
        self.rank = joined.rank_column()
        self.batch = joined.column("micro_batch", -1)
        self.chunk = joined.column("chunk", 0)
        self.durations, self.compute = _durations(joined, self, times)
        lanes = np.where(self.compute, self.rank, -1)
        self.run = joined.run(self.durations, lanes)
        self.stages = range(plan.pp)

    def idle(self, stage: int) -> int:
        """From the stage's first compute to its last, less its work."""
        mine = (self.rank == stage) & (self.durations > 0)
        span = self.run.end[mine].max() - self.run.start[mine].min()
        return int(span - self.durations[mine].sum())

    def bubble(self) -> int:
        return max(self.idle(s) for s in self.stages)

    def in_flight(self, stage: int) -> int:
        """Most (micro-batch, chunk) pairs between the start of their forward and their last gradient."""
        mine = (self.rank == stage) & (self.durations > 0)
        spans = {}
        for m, c in {(m, c) for m, c in zip(self.batch[mine], self.chunk[mine], strict=True)}:
            own = mine & (self.batch == m) & (self.chunk == c)
            spans[m, c] = (self.run.start[own].min(), self.run.end[own].max())
        moments = sorted([(e, -1) for _, e in spans.values()] + [(s, 1) for s, _ in spans.values()])
        return int(np.cumsum([step for _, step in moments]).max())


def _durations(joined: Joined, timed: Timed, times: tuple[int, int, int]):
    types = joined.column("type", 0)
    phases = np.concatenate([t.table.column("phase").to_pylist() for _, t in joined.traces])
    phases = np.concatenate([phases, np.full(joined.n - len(phases), "")])
    durations = np.zeros(joined.n, np.int64)
    compute = (types == NodeType.COMP_NODE) & (timed.rank >= 0)
    for phase, time in zip(("forward", "backward", "weight"), times, strict=True):
        rows = np.flatnonzero(compute & (phases == phase))
        keys = np.stack([timed.rank[rows], timed.batch[rows], timed.chunk[rows]])
        _, first = np.unique(keys, axis=1, return_index=True)
        durations[rows[first]] = time
    return durations, compute


@pytest.mark.first(2)
@pytest.mark.parametrize(("p", "m"), GRID)
def test_gpipe(p: int, m: int) -> None:
    run = Timed(Plan(pp=p, schedule="gpipe"), m, p)
    assert run.bubble() == (p - 1) * (F + B + W)
    assert [run.in_flight(s) for s in run.stages] == [m] * p


@pytest.mark.parametrize(("p", "m"), GRID)
def test_1f1b(p: int, m: int) -> None:
    run = Timed(Plan(pp=p), m, p)
    assert run.bubble() == (p - 1) * (F + B + W)
    assert [run.in_flight(s) for s in run.stages] == [min(m, p - s) for s in run.stages]


@pytest.mark.first(2)
@pytest.mark.parametrize(("p", "m"), GRID)
@pytest.mark.parametrize("v", [2, 4])
def test_interleaved(p: int, m: int, v: int) -> None:
    """Tasks are a v-th of a stage: the bubble shrinks by v, and memory is counted in v-ths."""
    run = Timed(Plan(pp=p, schedule="interleaved", chunks=v), m, p * v)
    assert run.bubble() == (p - 1) * (F + B + W)  # of a chunk's time, a v-th of the stage's
    chunks = [min(m * v, 2 * (p - s - 1) + (v - 1) * p + 1) for s in run.stages]
    assert [run.in_flight(s) for s in run.stages] == chunks


@pytest.mark.first(2)
@pytest.mark.parametrize(("p", "m"), GRID)
@pytest.mark.parametrize("times", [(6, 6, 6), (5, 7, 4)])
def test_zb_h1(p: int, m: int, times: tuple[int, int, int]) -> None:
    run = Timed(Plan(pp=p, schedule="zb-h1"), m, p, times)
    f, i, w = times
    assert run.bubble() == (p - 1) * (f + i + w - 2 * w)
    assert all(run.in_flight(s) <= p for s in run.stages)
    assert run.in_flight(0) == p


@pytest.mark.parametrize(("p", "m"), [(4, 8), (4, 16), (8, 16)])
def test_zb_v(p: int, m: int) -> None:
    """No bubble where the three kinds take the same time, with the memory of 1F1B (chunks are halves)."""
    run = Timed(Plan(pp=p, schedule="zb-v"), m, 2 * p)
    assert run.bubble() == 0
    assert [run.in_flight(s) for s in run.stages] == [2 * p] * p


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("p", "m"), [(2, 4), (4, 8), (4, 16), pytest.param(8, 16, marks=pytest.mark.slow)]
)
def test_dualpipe(p: int, m: int) -> None:
    """The published bubble is for a forward and a backward that run as one; here they are two tasks,
    so a stage hands its forward on earlier and waits less."""
    for f, i, w in ((6, 6, 6), (5, 7, 4), (10, 8, 6)):
        run = Timed(Plan(pp=p, schedule="dualpipe"), m, p, (f, i, w))
        assert run.bubble() <= (p // 2 - 1) * ((f + i + w) + (i + w) - 3 * w)
        assert [run.in_flight(s) for s in run.stages] == [p + 1] * p
    even = Timed(Plan(pp=p, schedule="dualpipe"), m, p)
    assert even.bubble() == (p // 2 - 1) * (F + B - W)


def test_dualpipe_holds_the_model_twice() -> None:
    model = Decoder(layers=4, hidden=64, heads=8, vocab=96)
    step = Step(seq=32, global_batch=16)
    once, twice = (
        dry_run(generated(Workload(model=model, plan=Plan(pp=4, schedule=s), step=step)))
        for s in ("1f1b", "dualpipe")
    )
    total = [sum(c.memory["parameters"] * c.ranks for c in f.per_rank) for f in (once, twice)]
    assert total[1] == 2 * total[0]
    assert once.flops_total == twice.flops_total


def test_reference_step_lengths() -> None:
    """F = 1, B = 2, four stages, eight micro-batches: the lengths other people's simulators give."""
    lengths = {}
    for name, chunks, unit in (
        ("gpipe", 1, 1),
        ("1f1b", 1, 1),
        ("interleaved", 2, 2),
        ("interleaved", 4, 4),
        ("zb-h1", 1, 1),
    ):
        run = Timed(Plan(pp=4, schedule=name, chunks=chunks), 8, 4 * chunks, (4 // unit,) * 3)
        lengths[name, chunks] = run.run.makespan / 4
    assert list(lengths.values()) == [33, 33, 28.5, 26.25, 27]


def test_an_own_schedule() -> None:
    tasks = [["F0", "F1", "B1", "B0"], ["F1", "F0", "I0", "W0", "B1"]]
    with pytest.raises(ConfigError, match="stage 1 runs F, F, I, W for micro-batch 0"):
        Timed(Plan(pp=2, tasks=[tasks[0], [*tasks[1], "F0"]]), 2, 2)
    tasks[1] = ["F0", "F1", "I1", "B0", "W1"]
    run = Timed(Plan(pp=2, tasks=tasks), 2, 2)
    assert run.in_flight(1) == 2


def test_the_dry_run_says_the_same_bubble() -> None:
    """Tasks as long as their FLOPs: even stages give the textbook fraction."""
    model = Decoder(layers=64, hidden=512, heads=8, vocab=1)
    plan, step = Plan(pp=4), Step(seq=64, global_batch=8)
    found = dry_run(generated(Workload(model=model, plan=plan, step=step)))
    assert found.bubble_fraction == pytest.approx(3 / 11, rel=1e-3)
