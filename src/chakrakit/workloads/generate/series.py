"""A series: the steps of a workload one by one, each a small folded set of traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import overload

from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.generate.programs import Generated
from chakrakit.workloads.samples import Deal


class StepPrograms(Generated):
    """The programs of one step of a workload of several, with that step's samples and documents."""

    def __init__(self, programs: Generated, step: int) -> None:
        self.workload = programs.workload
        self._whole, self.step = programs, step
        self.layout = replace(programs.layout, steps=1, first_step=step)

    @cached_property
    def dealt(self) -> Deal | None:
        """The step's own micro-batches."""
        whole = self._whole.dealt
        return None if whole is None else Deal(tuple((steps[self.step],) for steps in whole.of))


class Series(Sequence[TraceSet]):
    """The traces of each step, made when they are asked for: a loop over many steps holds one of them."""

    def __init__(self, programs: Generated) -> None:
        self._programs = programs

    def __len__(self) -> int:
        return self._programs.layout.steps

    @overload
    def __getitem__(self, step: int) -> TraceSet: ...
    @overload
    def __getitem__(self, step: slice) -> list[TraceSet]: ...
    def __getitem__(self, step: int | slice) -> TraceSet | list[TraceSet]:
        if isinstance(step, slice):
            return [self[k] for k in range(*step.indices(len(self)))]
        return self._traces(range(len(self))[step])

    def _traces(self, number: int) -> TraceSet:
        return StepPrograms(self._programs, number).traces()
