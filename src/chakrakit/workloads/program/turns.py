"""Exchanges of experts beside computation: a forward and a backward of two micro-batches take turns.

While tokens of one travel to their experts, or back, the other computes (Megatron-Core's
`overlap_moe_expert_parallel_comm`, DeepSeek's DualPipe within a stage). For this a stage runs one more
forward ahead, so that the two of a pair are of different micro-batches, and each computes until it has an
exchange to wait for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.workloads.description import PipelineSchedule, PipelineTask
from chakrakit.workloads.layers import EXPERT_AXES
from chakrakit.workloads.program.tables import TextTables


def one_ahead(schedule: PipelineSchedule) -> PipelineSchedule:
    """The schedule with every forward before the backward that it came after."""
    return replace(schedule, tasks=tuple(tuple(_swapped(stage)) for stage in schedule.tasks))


def _swapped(tasks: Sequence[PipelineTask]) -> Iterator[PipelineTask]:
    waiting: PipelineTask | None = None
    for task in tasks:
        if task.kind == "F":
            yield task
        if waiting is not None:
            yield waiting
        waiting = None if task.kind == "F" else task
    if waiting is not None:
        yield waiting


def rows_in_turns(
    tasks: Sequence[PipelineTask], columns: Mapping[str, I64], book: TextTables
) -> I64:
    """The order in which a stage takes its rows."""
    place = np.arange(len(columns["task"]), dtype=np.float64)
    exchanges = np.isin(
        columns["role"], [i for i, name in enumerate(book.roles.texts) if name in EXPERT_AXES]
    )
    starts, ends = _bounds(columns["task"], len(tasks))
    for number, (task, after) in enumerate(itertools.pairwise(tasks)):
        if (task.kind, after.kind) != ("F", "B") or task[1:] == after[1:]:
            continue
        first, second, last = int(starts[number]), int(starts[number + 1]), int(ends[number + 1])
        parts = (_share(exchanges[first:second]), _share(exchanges[second:last]))
        place[first:last] = first + np.concatenate(parts) * (last - first - 1)
    return np.lexsort((columns["task"] * -1, place))


def _bounds(task: I64, count: int) -> tuple[I64, I64]:
    """Where the rows of each task begin and end."""
    rows = np.flatnonzero(task >= 0)
    first = np.searchsorted(task[rows], np.arange(count + 1))
    return rows[first[:-1]], rows[first[1:] - 1] + 1


def _share(exchanges: Mask) -> F64:
    """How far each row of a task is on its way: a number in (0, 1) for each stretch up to an exchange."""
    begins = exchanges & ~np.concatenate([[False], exchanges[:-1]])
    stretch = np.cumsum(begins) - begins - (exchanges & ~begins)
    return np.asarray((stretch + 0.5) / (stretch[-1] + 1.0))
