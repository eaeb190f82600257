"""B22, AMDP: several asynchronous pipelines over the same stages, each with two mini-batches under way.

An asynchronous pipeline applies gradients after every mini-batch and never drains, but weights change between
a forward and its backward. With one pipeline, full stages need as many mini-batches under way as there are
stages, and weights are stale by as many updates. Several pipelines, which enter at different stages, need two
each, and weights change once at most. Synchronous schedules are never stale and drain after every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.machines import machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.planning.pipelines import Pipeline, ReadyFirst, seconds
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import simulate
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import Run, TraceSet

NS = 1_000_000
"""A forward takes 1 ms, a backward two."""
BATCHES = 16
"""Mini-batches of an asynchronous run; micro-batches of a synchronous step."""


def device(stage: int, pipeline: int, stages: int, pipelines: int) -> int:
    """Where a stage of a pipeline is: pipelines enter at different devices, every second one backwards."""
    turned = stage if pipeline % 2 == 0 else stages - 1 - stage
    return (turned + pipeline // 2 * stages // max(1, pipelines // 2)) % stages


@cache
def job(stages: int, pipelines: int, ahead: int, spread: float, seed: int) -> TraceSet:
    """All mini-batches in turn over the pipelines; one enters when the one `ahead` before it has left."""
    rng = np.random.default_rng([seed, stages])
    slow = np.exp(spread * rng.standard_normal((2, stages, BATCHES)))
    built = [TraceBuilder() for _ in range(stages)]
    for m in range(BATCHES):
        _mini_batch(built, m, stages, pipelines, ahead, slow[:, :, m])
    return TraceSet.of(built)


def _mini_batch(
    built: list[TraceBuilder], m: int, stages: int, pipelines: int, ahead: int, slow: np.ndarray
) -> None:
    """Forward through the stages of its pipeline and back, with the messages between them."""
    pipeline, round_of = m % pipelines, m // pipelines
    way = [device(s, pipeline, stages, pipelines) for s in range(stages)]
    tasks = [("F", s) for s in range(stages)] + [("B", s) for s in reversed(range(stages))]
    before: int | None = None
    for number, (kind, stage) in enumerate(tasks):
        t, here = built[way[stage]], way[stage]
        deps: list[int] = []
        there = way[tasks[number - 1][1]] if number else here
        if number and there != here:
            deps = [t.recv("recv", there, here, 1, tag=100 * m + number)]
        elif before is not None:
            deps = [before]
        if kind == "F" and stage == 0 and round_of >= ahead:
            deps.append(_left[id(t), pipeline, round_of - ahead])
        took = NS * (1 if kind == "F" else 2) * slow["FB".index(kind), stage]
        before = t.comp(f"{kind}{m}", duration_ns=int(took), deps=deps)
        if kind == "B" and stage == 0:
            _left[id(t), pipeline, round_of] = before
        if number + 1 < len(tasks) and (after := way[tasks[number + 1][1]]) != here:
            t.send("send", here, after, 1, tag=100 * m + number + 1, deps=[before])
            before = None


_left: dict[tuple[int, int, int], int] = {}
"""Last task of a mini-batch on the first stage of its pipeline, by builder."""


def stale(run: Run, pipelines: int) -> int:
    """The most updates of a pipeline's own weights between a forward and its backward, on any device."""
    worst = 0
    for rank in run.ranks:
        names = [str(n) for n in run.trace(rank).nodes.column("name").to_pylist()]
        start, end = run.start(rank), run.end(rank)
        at = {n: (int(start[i]), int(end[i])) for i, n in enumerate(names) if n[1:].isdigit()}
        for m in (int(n[1:]) for n in at if n[0] == "F"):
            mine = [
                int(n[1:]) for n in at if n[0] == "B" and int(n[1:]) % pipelines == m % pipelines
            ]
            updates = [
                k for k in mine if k != m and at[f"F{m}"][0] < at[f"B{k}"][1] <= at[f"B{m}"][0]
            ]
            worst = max(worst, len(updates))
    return worst


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Mini-batches per millisecond and stage, the bubble, and how stale weights get."""
    stages, spread = case["stages"], case["spread"]
    ideal = 3 * NS * 1e-9 * BATCHES
    if setting["plan"] != "async":
        shape = Pipeline(stages, BATCHES, stages, "task", spread)
        split = "halves" if setting["plan"] == "zb-h1" else "whole"
        took = seconds(shape, setting["plan"], split, False, seed)
        return {"busy": ideal / took, "stale": 0.0}
    line = {"topology": "switch", "size": stages, "bandwidth": 1e9, "latency": 0}
    traces = job(stages, setting["pipelines"], setting["ahead"], spread, seed)
    options = SimulationOptions(fold=False, dispatch=ReadyFirst("backward first", None))
    done = simulate(traces, machine({"network": [line]}), options=options)
    stale_by = stale(done.run("summary"), setting["pipelines"])
    return {"busy": ideal / (done.makespan_ns * 1e-9), "stale": float(stale_by)}


def cases(quick: bool) -> Sequence[Case]:
    """One stage, and pipelines of four and eight, with equal and with varied tasks."""
    found = [{"stages": s, "spread": x} for s, x in ((1, 0.0), (4, 0.0), (4, 0.3))]
    return found if quick else [*found, {"stages": 8, "spread": 0.0}, {"stages": 8, "spread": 0.3}]


def way(plan: str, pipelines: int = 1, ahead: int = 2) -> Setting:
    """A schedule, or asynchronous pipelines with so many mini-batches under way in each."""
    return {"plan": plan, "pipelines": pipelines, "ahead": ahead}


STUDY = Study(
    id="B22",
    system="AMDP",
    family="training",
    strength="direction",
    claims=[Claim("fewer bubbles than synchronous pipelines", 1.02, 2.0)],
    rests_on={
        "tasks that run when they are ready": "simulator/engine/planner.py",
        "synchronous schedules": "workloads/description/schedules.py",
    },
    cases=cases,
    sides={
        "AMDP": [way("async", d) for d in (2, 4)],
        "synchronous": [way(name) for name in ("1f1b+0", "zb-h1", "gpipe")],
        "one asynchronous pipeline": [way("async", 1, 8)],
    },
    idea="AMDP",
    untuned=["one asynchronous pipeline"],
    measure=measure,
    better=("busy", "max"),
    health="busy",
    gone=lambda case: bool(case["stages"] == 1),
    ablate={"several pipelines": {"pipelines": 1}},
    predictions={
        "weights are stale by one update at most": lambda t: 1.5 - most(t.figure("stale")),
        "one pipeline is staler": lambda t: (
            least(t.figure("stale", "one asynchronous pipeline", stages=lambda s: s > 1)) - 1.5
        ),
        "nothing is gained with one stage": lambda t: 0.02 - most(abs(t.gains(stages=1) - 1)),
        "bubbles are smaller than those of ZB-H1 and its kin": lambda t: (
            least(t.gains(stages=4)) - 1.02
        ),
    },
    decides="how many mini-batches a step has: with many, a synchronous pipeline drains seldom.",
    cannot_say="Convergence with stale weights, and the memory of several pipelines' weights on a device.",
)
