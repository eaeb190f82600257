"""The steps of a graph of sections one by one, each with its own samples."""

from __future__ import annotations

from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import SectionGraph
from chakrakit.workloads.generate import Series
from chakrakit.workloads.sections.programs import SectionPrograms


class SectionSeries(Series):
    """The traces of each step, made when they are asked for."""

    def __init__(self, graph: SectionGraph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return self._graph.step.steps

    def _traces(self, number: int) -> TraceSet:
        return SectionPrograms(self._graph, number).traces()
