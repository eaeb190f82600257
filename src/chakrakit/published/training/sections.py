"""Models of several sections on a cluster: one step of a graph of sections, simulated end to end."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.published.tools import seconds_of
from chakrakit.workloads.description import SectionGraph
from chakrakit.workloads.models import model_named
from chakrakit.workloads.sections import SectionPrograms

PEAK = 989e12
"""FLOP/s of an H100 in bf16, by its data sheet."""


class StepTime(NamedTuple):
    """Seconds of a step, and the share of the devices' peak that it reaches."""

    seconds: float
    reached: float


@cache
def cluster(ranks: int) -> Machine:
    """Nodes of eight H100."""
    return load_machine(f"dgx-h100:{-(-ranks // 8)}")


def part_of(name: str, share: int) -> Any:
    """A model with one of `share` layers, so that sections keep their proportions."""
    whole: Any = model_named(name)
    return whole.replace(layers=max(1, whole.layers // share))


def step_time(graph: SectionGraph, number: int = 0) -> StepTime:
    """A step of a graph on its cluster."""
    programs = SectionPrograms(graph, number)
    took = seconds_of(programs.traces(), cluster(programs.size))
    work = sum(int(b.program.columns["flops"].sum()) * len(b.ranks) for b in programs.bodies)
    return StepTime(took, work / took / programs.size / PEAK)
