"""Workloads that other tools describe: one file per format, registered here by name, content and reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chakrakit.errors import FormatError
from chakrakit.sources.foreign.aicb import is_aicb, read_aicb
from chakrakit.sources.foreign.algorithm import AlgorithmMessage, AlgorithmPlan
from chakrakit.sources.foreign.goal import (
    ANY,
    CALC,
    RECV,
    SEND,
    GoalRank,
    goal_binary,
    goal_text,
    is_binary_goal,
    is_goal,
    parse_binary_goal,
    parse_goal,
    read_binary_goal,
    read_goal,
    traces_of_goal,
)
from chakrakit.sources.foreign.layers import is_layers, read_layers
from chakrakit.sources.foreign.msccl import is_msccl, msccl_text, parse_msccl, read_msccl
from chakrakit.sources.foreign.mscclpp import is_mscclpp, parse_mscclpp, read_mscclpp
from chakrakit.sources.foreign.param_comms import is_param_comms, read_param_comms
from chakrakit.trace.sets import TraceSet

Files = dict[str, bytes]
"""Contents, uncompressed, by path."""


class WorkloadFormat(NamedTuple):
    """A format of workloads: its name, how it is recognised by a file's first bytes, its reader."""

    name: str
    recognises: Callable[[bytes], bool]
    read: Callable[[Files], TraceSet]


def _one(read: Callable[[bytes, str], TraceSet]) -> Callable[[Files], TraceSet]:
    """A reader of files that are a workload each."""

    def read_one(files: Files) -> TraceSet:
        if len(files) > 1:
            names = ", ".join(path.rsplit("/", 1)[-1] for path in list(files)[:4])
            raise FormatError(f"{len(files)} workloads ({names}); give one of them")
        ((path, data),) = files.items()
        return read(data, path)

    return read_one


WORKLOADS: tuple[WorkloadFormat, ...] = (
    WorkloadFormat("GOAL (binary)", is_binary_goal, _one(read_binary_goal)),
    WorkloadFormat("GOAL", is_goal, _one(read_goal)),
    WorkloadFormat("ASTRA-sim 1.0 or SimAI", is_layers, _one(read_layers)),
    WorkloadFormat("AICB", is_aicb, _one(read_aicb)),
    WorkloadFormat("PARAM", is_param_comms, read_param_comms),
    WorkloadFormat("MSCCL", is_msccl, _one(read_msccl)),
    WorkloadFormat("MSCCL++", is_mscclpp, _one(read_mscclpp)),
)
"""The registry of workloads, in the order in which they are tried."""


def workload_of(head: bytes) -> WorkloadFormat | None:
    """The format of a file with these first bytes; None if it is not a workload of others."""
    return next((w for w in WORKLOADS if w.recognises(head)), None)


__all__ = [
    "ANY",
    "CALC",
    "RECV",
    "SEND",
    "WORKLOADS",
    "AlgorithmMessage",
    "AlgorithmPlan",
    "GoalRank",
    "WorkloadFormat",
    "goal_binary",
    "goal_text",
    "msccl_text",
    "parse_binary_goal",
    "parse_goal",
    "parse_msccl",
    "parse_mscclpp",
    "traces_of_goal",
    "workload_of",
]
