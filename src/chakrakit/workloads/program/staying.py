"""Parameters that a pipeline keeps gathered: from the first forward of a step to its last backward.

Tasks of all micro-batches have the same rows. Those that gather what is there already are left out, and
nothing is freed before the last task that needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.workloads.description import PipelineTask


class StayingTasks(NamedTuple):
    """For each task of a stage: the one that gathered what it uses, and whether it is the last to.

    Where gradients of weights are put off, the last to make gradients of inputs frees most parameters, and
    the last to make those of weights what no input's gradient needs: an embedding.
    """

    gathered_in: I64
    is_last: Mask
    is_last_weight: Mask

    @classmethod
    def of(cls, tasks: Sequence[PipelineTask], version: Sequence[int]) -> StayingTasks:
        """Those of tasks in order; `version` counts the updates before each, which end what stays."""
        first: dict[tuple[int, int], int] = {}
        gathered_in = np.arange(len(tasks))
        for i, task in enumerate(tasks):
            if task.kind == "F":
                gathered_in[i] = first.setdefault((version[i], task.chunk), i)
        ends = [_last(tasks, version, kinds, first) for kinds in ("BI", "BW")]
        return cls(gathered_in, *ends)

    @property
    def gathers(self) -> Mask:
        """Whether each task gathers."""
        return np.asarray(self.gathered_in == np.arange(len(self.gathered_in)))


def _last(
    tasks: Sequence[PipelineTask],
    version: Sequence[int],
    kinds: str,
    gathered: Collection[tuple[int, int]],
) -> Mask:
    """Whether each task is the last of some kinds that its chunk has between two updates."""
    keys = [(version[i], task.chunk) for i, task in enumerate(tasks)]
    last = {key: i for i, key in enumerate(keys) if tasks[i].kind in kinds and key in gathered}
    return np.isin(np.arange(len(tasks)), list(last.values()))


def without_staying(columns: Mapping[str, I64]) -> tuple[I64, I64]:
    """What rows allocate and free in a task that neither gathers nor is the last to need it."""
    stays = columns["stays"]
    return columns["alloc"] - np.maximum(stays, 0), columns["free"] + np.minimum(stays, 0)
