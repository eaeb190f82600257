"""Pipelines whose tasks take different times, run in a fixed order or by whatever is ready.

A stage has one compute lane. Micro-batch m may enter it when m - limit has left it, whatever the order. The
backward pass is one task, or two: the half that the stage before waits for, and the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines import machine
from chakrakit.simulator.engine import SimulationOptions, run
from chakrakit.simulator.results import simulate
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import schedule_named

NS = 1_000_000
"""A forward takes 1 ms, and so does each half of a backward."""
SPLITS = {"whole": ("F", "B"), "halves": ("F", "I", "W")}
RULES = {"backward first": "BIFW", "weights early": "BIWF", "oldest": ""}
"""Which kind of task goes first; among equals the oldest micro-batch."""
Order = tuple[tuple[str, ...], ...]
"""The tasks of each stage, such as F3, in order."""


@dataclass(frozen=True)
class Pipeline:
    """A pipeline and how its durations vary.

    `spread` is the deviation of the logarithm of durations, drawn for each task, for each micro-batch, or for
    each micro-batch on the first quarter of the stages (`encoder`). `transfer` is a message's time over a
    forward's.
    """

    stages: int
    batches: int
    limit: int
    source: str
    spread: float
    transfer: float = 0.05

    def work(self, seed: int) -> dict[str, I64]:
        """Nanoseconds of each kind of task by (stage, micro-batch)."""
        shape = (3, self.stages, self.batches)
        drawn = shape if self.source == "task" else (1, 1, self.batches)
        z = np.random.default_rng([seed, self.stages]).standard_normal(drawn)
        factor = np.broadcast_to(np.exp(self.spread * z - self.spread**2 / 2), shape).copy()
        if self.source == "encoder":
            factor[:, max(1, self.stages // 4) :] = 1.0
        f, i, w = np.rint(factor * NS).astype(np.int64)
        return {"F": f, "I": i, "W": w, "B": i + w}


@cache
def skeleton(p: Pipeline, split: str, order: Order | None) -> TraceSet:
    """One trace per stage, one node per task; `order`, where there is one, as dependencies."""
    size = max(1, round(p.transfer * NS * 1e-9 * 1e9))
    bodies = []
    for stage in range(p.stages):
        t = TraceBuilder()
        node: dict[str, int] = {}
        for m in range(p.batches):
            _tasks(t, node, p, stage, m, split, size)
        for a, b in pairwise(order[stage]) if order else ():
            t.edge(node[a], node[b])
        bodies.append(t)
    return TraceSet.of(bodies)


def _tasks(
    t: TraceBuilder, node: dict[str, int], p: Pipeline, s: int, m: int, split: str, size: int
) -> None:
    """The forward and backward of one micro-batch on one stage; messages come when they can."""
    kinds, last = SPLITS[split], s == p.stages - 1
    deps = [t.recv(f"recv F{m}", s - 1, s, size, tag=2 * m)] if s else []
    if m >= p.limit:
        deps.append(node[f"{kinds[-1]}{m - p.limit}"])
    task = node[f"F{m}"] = t.comp(f"F{m}", deps=deps)
    back = [task]
    if not last:
        t.send(f"send F{m}", s, s + 1, size, tag=2 * m, deps=[task])
        back.append(t.recv(f"recv B{m}", s + 1, s, size, tag=2 * m + 1))
    first, *second = (f"{kind}{m}" for kind in kinds[1:])
    task = node[first] = t.comp(first, deps=back)
    if s:
        t.send(f"send B{m}", s, s - 1, size, tag=2 * m + 1, deps=[task])
    for name in second:
        node[name] = t.comp(name, deps=[task])


def timed(traces: TraceSet, work: dict[str, I64]) -> TraceSet:
    """The same traces with these durations."""
    bodies = []
    for stage, trace in traces:
        names = [str(n) for n in trace.nodes.column("name").to_pylist()]
        known = [int(work[n[0]][stage, int(n[1:])]) if n[0] in work else 0 for n in names]
        bodies.append(trace.with_columns({"duration_ns": np.array(known, np.int64)}))
    return TraceSet(bodies)


class ReadyFirst:
    """Runs what is ready: what comes first in the plan, or by the rule where there is none."""

    def __init__(self, name: str, plan: Order | None) -> None:
        self.places = [{task: i for i, task in enumerate(stage)} for stage in plan or ()]
        self.rule = RULES.get(name, "")

    def pick(self, ready: Sequence[Any], now_ps: int) -> int | None:
        """The index of the ready row to run."""
        if self.places:
            return min(range(len(ready)), key=lambda i: self.places[ready[i].rank][ready[i].name])
        return min(range(len(ready)), key=lambda i: self._by_rule(ready[i].name))

    def _by_rule(self, task: str) -> tuple[int, int, str]:
        return (self.rule.find(task[0]), int(task[1:]), task)


def seconds(p: Pipeline, name: str, split: str, ready: bool, seed: int) -> float:
    """A step by a plan or a rule, which binds or is a hint; infinite where the plan does not fit."""
    plan = plan_of(replace(p, spread=0.0), name, split) if name not in RULES or not ready else None
    if name not in RULES and plan is None:
        return float("inf")
    return run(*job_of(p, split, name, plan, ready, seed)).makespan_ps * 1e-12


def job_of(
    p: Pipeline, split: str, name: str, plan: Order | None, ready: bool, seed: int
) -> tuple[TraceSet, Any, SimulationOptions]:
    """What to simulate, on what, and how."""
    line = {"topology": "line", "size": p.stages, "bandwidth": 1e9, "latency": 0}
    traces = timed(skeleton(p, split, None if ready else plan), p.work(seed))
    policy = ReadyFirst(name, plan) if ready else None
    return traces, machine({"network": [line]}), SimulationOptions(fold=False, dispatch=policy)


@cache
def plan_of(p: Pipeline, name: str, split: str) -> Order | None:
    """The order of a published schedule, or the one that a rule takes with undisturbed durations."""
    if name in RULES:
        return _taken(p, name, split)
    if name.startswith("1f1b+"):
        return tuple(tuple(_one_f_one_b(p, s, int(name[5:]))) for s in range(p.stages))
    if (name == "gpipe" and p.limit < p.batches) or p.limit < min(p.stages, p.batches):
        return None
    tasks = schedule_named(name, p.stages, p.batches).tasks
    return tuple(tuple(f"{c.kind}{c.micro_batch}" for c in stage) for stage in tasks)


def _one_f_one_b(p: Pipeline, stage: int, extra: int) -> Iterator[str]:
    """1F1B with `extra` more forwards ahead, as far as memory allows."""
    ahead = min(p.batches, p.limit - 1, p.stages - stage - 1 + extra)
    yield from (f"F{m}" for m in range(ahead))
    for m in range(p.batches):
        if m + ahead < p.batches:
            yield f"F{m + ahead}"
        yield f"B{m}"


def _taken(p: Pipeline, name: str, split: str) -> Order:
    """The order in which a rule starts the tasks of each stage."""
    traces, site, options = job_of(p, split, name, None, True, 0)
    done = simulate(traces, site, options=options).run("summary")
    orders = []
    for stage, trace in done:
        names = np.array(trace.nodes.column("name").to_pylist())
        tasks = np.flatnonzero([n[1:].isdigit() for n in names])
        at = tasks[np.argsort(done.start(stage)[tasks], kind="stable")]
        orders.append(tuple(str(n) for n in names[at]))
    return tuple(orders)
