"""Traces for other simulators: one file per format, with what it keeps and what it has no place for."""

from __future__ import annotations

import os
from collections.abc import Mapping

from chakrakit.machines.fabric import Machine
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.exports.goal import GoalSchedule, goal_of
from chakrakit.simulator.exports.layers import layers_text
from chakrakit.simulator.exports.msccl import msccl_of
from chakrakit.sources.foreign import goal_binary, goal_text, msccl_text
from chakrakit.trace.codecs import Exported
from chakrakit.trace.files import open_output
from chakrakit.trace.sets import TraceSet


def write_goal(
    traces: TraceSet,
    path: str | os.PathLike[str],
    machine: Machine | None = None,
    algorithms: Mapping[str, str] | None = None,
) -> Exported:
    """Writes a GOAL schedule: binary where the name ends in `.bin`, else text."""
    schedule = goal_of(traces, machine, algorithms)
    with open_output(os.fspath(path), binary_only=False) as stream:
        if os.fspath(path).endswith(".bin"):
            stream.write(goal_binary(schedule.ranks))
        else:
            for line in goal_text(schedule.ranks):
                stream.write(line.encode())
    edges = sum(len(r.ends) + len(r.starts) for r in schedule.ranks)
    left_out = {what: n for what, n in schedule.left_out.items() if n}
    return Exported(sum(map(len, schedule.ranks)), edges, 0, left_out=left_out)


def write_layers(traces: TraceSet, path: str | os.PathLike[str], simai: bool) -> Exported:
    """Writes the lowest rank's program by layers, for SimAI or ASTRA-sim 1.0."""
    text, left_out = layers_text(traces, simai)
    with open_output(os.fspath(path), binary_only=False) as stream:
        stream.write(text.encode())
    return Exported(text.count("\n") - 2, 0, 0, left_out=dict(left_out))


def write_msccl(
    traces: TraceSet,
    path: str | os.PathLike[str],
    machine: Machine | None = None,
    algorithms: Mapping[str, str] | None = None,
) -> Exported:
    """Writes the algorithm of a workload's one collective, or of its messages, as MSCCL's XML."""
    plan, left_out = msccl_of(traces, machine, Algorithms(dict(algorithms or {})))
    with open_output(os.fspath(path), binary_only=False) as stream:
        stream.write(msccl_text(plan).encode())
    edges = sum(len(m.after) for m in plan.messages)
    return Exported(len(plan.messages), edges, 0, left_out={w: n for w, n in left_out.items() if n})


__all__ = ["GoalSchedule", "goal_of", "write_goal", "write_layers", "write_msccl"]
