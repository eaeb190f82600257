"""Results of public functions that hold objects to go on with, such as traces, beside their facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.results import SHOWN_ROWS, Facts, Result, counted, table_html

if TYPE_CHECKING:
    import pyarrow as pa

    from chakrakit.exploration.search import ScriptSearchResult, SearchResult, ServingSearchResult
    from chakrakit.passes.base import Transformed
    from chakrakit.serving import ServingSession
    from chakrakit.sources.pytorch.linking import LinkReport
    from chakrakit.trace.sets import Run, TraceSet
    from chakrakit.workloads.description import SectionGraph, Workload
    from chakrakit.workloads.generate import Figures, Generated, Series
    from chakrakit.workloads.parts import WorkloadPart
    from chakrakit.workloads.sections import SectionPrograms


class Converted(Result, msgspec.Struct):
    """What a conversion could not keep."""

    left_out: dict[str, int]
    """Name → how many values the target's format has no place for."""
    notes: list[str] = msgspec.field(default_factory=list)
    """What else a reader of the target should know."""


class QueryResult(Result, msgspec.Struct):
    """The rows of a query."""

    columns: list[str]
    types: list[str]
    """Arrow's names of the columns' types."""
    rows: list[list[Any]]
    truncated: bool
    """Whether there were more rows than the limit."""

    def _repr_html_(self) -> str:
        more = f", the first {SHOWN_ROWS} shown" if len(self.rows) > SHOWN_ROWS else ""
        caption = f"{counted(len(self.rows), 'row')}{more}"
        return table_html(self.columns, self.rows[:SHOWN_ROWS], caption)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        cells = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        return pa.table({n: list(c) for n, c in zip(self.columns, cells, strict=True)})


@dataclass(frozen=True, eq=False, repr=False)
class TransformedTraces(Facts):
    """Changed traces, and what was done to them."""

    traces: TraceSet
    report: Transformed

    def facts(self) -> msgspec.Struct:
        """What each pass did."""
        return self.report


@dataclass(frozen=True, eq=False, repr=False)
class LinkedRun(Facts):
    """A linked run, and what was matched, inferred and left out. Unpacks as `run, report`."""

    run: Run
    report: LinkReport

    def facts(self) -> msgspec.Struct:
        """The report."""
        return self.report

    def __iter__(self) -> Iterator[Any]:
        return iter((self.run, self.report))

    def __getitem__(self, place: int) -> Any:
        return (self.run, self.report)[place]


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedTraces(Facts):
    """A workload's traces, made when they are asked for, and what they amount to."""

    programs: Generated | SectionPrograms | WorkloadPart
    figures: Figures

    @property
    def workload(self) -> Workload | SectionGraph | dict[str, Any]:
        """What was generated."""
        return self.programs.workload

    @cached_property
    def traces(self) -> TraceSet:
        """The traces of all ranks, folded."""
        return self.programs.traces()

    @property
    def series(self) -> Series:
        """The traces of each step by itself, made as they are asked for."""
        from chakrakit.workloads.generate import Generated, Series
        from chakrakit.workloads.sections import SectionPrograms, SectionSeries

        if isinstance(self.programs, Generated):
            return Series(self.programs)
        if isinstance(self.programs, SectionPrograms):
            return SectionSeries(self.programs.graph)
        raise ConfigError(f"{self.programs.name} alone has no steps")

    def facts(self) -> msgspec.Struct:
        """Parameters, FLOPs, memory and bytes."""
        return self.figures


class _SearchOutcome(Facts):
    """What a search came to, with the best of it ready to be used."""

    result: Any

    def facts(self) -> msgspec.Struct:
        """The best and the runners-up."""
        struct: msgspec.Struct = self.result
        return struct


@dataclass(frozen=True, eq=False, repr=False)
class FoundPlan(_SearchOutcome):
    """The best plan: its workload, and how it compares with the others."""

    workload: Workload
    result: SearchResult


@dataclass(frozen=True, eq=False, repr=False)
class FoundService(_SearchOutcome):
    """The cheapest way to serve within a level: ready to serve, and how it compares with the others."""

    serving: ServingSession
    result: ServingSearchResult


@dataclass(frozen=True, eq=False, repr=False)
class FoundScript(_SearchOutcome):
    """A script's best flags: its traces with them, and how it compares with the others."""

    traces: TraceSet
    result: ScriptSearchResult
