"""Models of several sections: what a section takes on some devices, and samples that flow through two."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.arrays import F64, Mask
from chakrakit.machines import machine as described
from chakrakit.published.planning import ReadyFirst
from chakrakit.published.tools import seconds_of
from chakrakit.published.training.buckets import machine
from chakrakit.simulator.engine import SimulationOptions, run
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generated
from chakrakit.workloads.models import model_named

LAYERS = 2
"""Layers that are simulated; times are scaled to all of a model's."""


@cache
def section_seconds(model: str, tp: int, trains: bool, tokens: int = 2048) -> float:
    """A sample through a section on `tp` devices: forward, and where it trains backward too."""
    whole = model_named(model)
    some = whole.replace(layers=LAYERS)
    step = Step(seq=tokens, optimizer="none", clip=False)
    if not trains:
        step = step.replace(kind="prefill", new_tokens=1)
    workload = Workload(model=some, plan=Plan(tp=tp, data="none"), step=step)
    took = seconds_of(generated(workload).traces(), machine())
    return took * whole.layers / LAYERS  # type: ignore[union-attr]


def flow_seconds(first: F64, second: F64, needs: Mask, ordered: bool) -> float:
    """Samples through two groups of devices; those that do not need the first skip it.

    In order, the second takes samples as they are numbered; else whichever is ready, the oldest first.
    """
    front, back = TraceBuilder(), TraceBuilder()
    before: list[int] = []
    for m, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        deps = list(before) if ordered else []
        if needs[m]:
            done = front.comp(f"F{m}", duration_ns=int(a * 1e9))
            front.send("send", 0, 1, 1, tag=m, deps=[done])
            deps.append(back.recv("recv", 0, 1, 1, tag=m))
        before = [back.comp(f"F{m}", duration_ns=int(b * 1e9), deps=deps)]
    line = {"topology": "switch", "size": 2, "bandwidth": 1e9, "latency": 0}
    options = SimulationOptions(fold=False, dispatch=ReadyFirst("oldest", None))
    return (
        run(TraceSet.of([front, back]), described({"network": [line]}), options).makespan_ps * 1e-12
    )


def spread(count: int, cv: float, rng: np.random.Generator) -> F64:
    """Factors with a mean of 1."""
    sigma = float(np.sqrt(np.log(1 + cv**2)))
    return np.exp(sigma * rng.standard_normal(count) - sigma**2 / 2)


def balanced(work: F64, ranks: int) -> float:
    """The most that one of equal ranks gets when work is dealt out, the largest piece first."""
    load = np.zeros(ranks)
    for piece in np.sort(work)[::-1].tolist():
        load[np.argmin(load)] += piece
    return float(load.max())


def in_turn(work: Sequence[float], ranks: int) -> float:
    """The same when pieces are dealt out as they come."""
    load = np.zeros(ranks)
    np.add.at(load, np.arange(len(work)) % ranks, np.asarray(work))
    return float(load.max())
