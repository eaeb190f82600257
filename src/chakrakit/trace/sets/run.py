"""Run: a TraceSet with times. Measured, simulated and replayed work are all Runs."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I8, I32, I64
from chakrakit.errors import TraceError
from chakrakit.trace.communication import (
    Binding,
    Body,
    Calls,
    Collectives,
    Groups,
    read_calls,
    tables_of,
)
from chakrakit.trace.model import Trace
from chakrakit.trace.sets.card import Card
from chakrakit.trace.sets.counters import Counters
from chakrakit.trace.sets.traceset import TraceSet
from chakrakit.trace.timing import CLOCK_NS, HORIZON_DAYS, HORIZON_PS, held_back

PS_PER_NS = 1000
"""Picoseconds in the tick of a measured run; a simulated one has 1."""


@dataclass(frozen=True, eq=False, repr=False)
class Times:
    """When each node of a body ran, in ticks, and what it waited for last.

    `binding_row` is the row of that node (-1: none), `binding_rank` its rank (-1: the same rank) and
    `reason` a code of schedule.Reason. Runs that do not know leave them None.
    """

    start: I64
    end: I64
    binding_row: I32 | None = None
    binding_rank: I32 | None = None
    reason: I8 | None = None

    def __post_init__(self) -> None:
        sizes = {len(a) for a in vars(self).values() if a is not None}
        if len(sizes) != 1:
            raise TraceError(f"times of different lengths: {sorted(sizes)}")

    def __repr__(self) -> str:
        if not len(self.start):
            return "Times(no nodes)"
        causes = "" if self.binding_row is None else ", with causes"
        ticks = f"ticks {self.start.min():,} to {self.end.max():,}"
        return f"Times({len(self.start):,} nodes, {ticks}{causes})"


def _public() -> ModuleType:
    """The package's public face: rooms above this one are reached through it, by name, when asked for."""
    return sys.modules["chakrakit"]


def named_rank(rank: int, actors: Sequence[str]) -> str:
    """`rank 3`, or `rank 3 · worker 2` where ranks are actors."""
    return f"rank {rank} · {actors[rank]}" if 0 <= rank < len(actors) else f"rank {rank}"


class Run(TraceSet):
    """A TraceSet in which every node of every rank has a start and an end.

    Times are int64 ticks since `epoch_ns`; a tick is `tick_ps` picoseconds. They come from `times`,
    one entry per *timing class* (ranks with the same times share one; `timing` says which), or, where
    `times` is None, from the nodes themselves, in nanoseconds. `counters` are figures over time, per link
    and per collective.
    """

    def __init__(
        self,
        bodies: Sequence[Body],
        bindings: Mapping[int, Binding] | None = None,
        groups: Groups | None = None,
        card: Card | None = None,
        *,
        times: Sequence[Times] | None = None,
        timing: Mapping[int, int] | None = None,
        counters: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(bodies, bindings, groups, (card or Card()).replace(kind="run"))
        self.times = None if times is None else tuple(times)
        self.timing = {r: i for i, r in enumerate(self.ranks)} if timing is None else dict(timing)
        self.counters = counters if isinstance(counters, Counters) else Counters(counters)
        self._checked: dict[tuple[int, int], Times] = {}
        if self.times is None:
            return
        if set(self.timing) != set(self.ranks):
            raise TraceError("every rank of a run needs a timing class")
        for rank, number in self.timing.items():
            if not 0 <= number < len(self.times):
                raise TraceError(f"rank {rank} has timing class {number} of {len(self.times)}")

    def analyze(self, **options: Any) -> Any:
        """Where the time went: `chakrakit.analyze` of this run, with its options."""
        return _public().analyze(self, **options)

    def report(self, output: str | None = None, **options: Any) -> Any:
        """Writes one page about this run, as `chakrakit.report` does."""
        return _public().report(self, output, **options)

    def plot(self) -> Any:
        """A picture of where the time of each rank goes."""
        return _public().plot(self)

    @property
    def step_ms(self) -> float:
        """The usual step: of each step the slowest rank's period, of those the median."""
        return float(_public().steps(self).median_ns / 1e6)

    @property
    def tick_ps(self) -> int:
        """Picoseconds in a tick."""
        return self.card.tick_ps if self.times is not None else PS_PER_NS

    @property
    def epoch_ns(self) -> int:
        """What tick 0 is on the clock of the machine that was measured."""
        return self.card.epoch_ns

    def times_of(self, rank: int) -> Times:
        """The times of a rank's nodes."""
        if self.times is None:
            trace = self.trace(rank)
            own = Times(trace.start_ns, trace.end_ns)
            _check_ticks(own, PS_PER_NS, rank)
            return own
        body, number = self._binding(rank).body, self.timing[rank]
        if (body, number) not in self._checked:
            check_length(len(self.times[number].start), len(self.body(rank)), rank)
            self._checked[body, number] = self.sound_times(rank)
        return self._checked[body, number]

    def sound_times(self, rank: int) -> Times:
        """The times of a rank of a run with `times`, checked without reading the rank's nodes."""
        assert self.times is not None
        times = self.times[self.timing[rank]]
        _check_ticks(times, self.tick_ps, rank)
        _check_order(times, rank)
        return self._with_known_causes(times, rank)

    def _with_known_causes(self, times: Times, rank: int) -> Times:
        """The times without causes on ranks not in this run; a cause beyond a rank's last row is an error."""
        if times.binding_row is None:
            return times
        rows = np.flatnonzero(times.binding_row >= 0)
        cause, cause_rank = times.binding_row[rows], np.full(len(rows), rank)
        if times.binding_rank is not None:
            cause_rank = np.where(times.binding_rank[rows] < 0, rank, times.binding_rank[rows])
        ranks, sizes = self._rows_by_rank
        at = np.minimum(np.searchsorted(ranks, cause_rank), len(ranks) - 1)
        present = ranks[at] == cause_rank
        lost = np.flatnonzero(present & (cause >= sizes[at]))
        if len(lost):
            raise TraceError(
                f"rank {rank}: row {rows[lost[0]]} waited for row {cause[lost[0]]} "
                f"of rank {cause_rank[lost[0]]}, "
                "which has fewer; the times are damaged: make the run again"
            )
        if present.all():
            return times
        binding_row = times.binding_row.copy()
        binding_row[rows[~present]] = -1
        return replace(times, binding_row=binding_row)

    @cached_property
    def _rows_by_rank(self) -> tuple[I64, I64]:
        """The ranks, ascending, and how many times each has."""
        sizes = [len(t.start) for t in self.times or ()]
        ranks = np.fromiter(self.ranks, np.int64, len(self.ranks))
        return ranks, np.fromiter((sizes[self.timing[r]] for r in self.ranks), np.int64, len(ranks))

    def timed_trace(self, rank: int) -> Trace:
        """A rank's trace with its times in the nodes, in whole nanoseconds, to be written as one file."""
        return self._timed(self.trace(rank), rank)

    def timed_body(self, rank: int) -> Trace:
        """The program a rank runs, with the rank's times in the nodes."""
        return self._timed(self.body(rank), rank)

    def _timed(self, trace: Trace, rank: int) -> Trace:
        if self.times is None:
            return trace
        start, end = self._ns_of(rank)
        if len(start) and int(start.min()) < 0:
            raise TraceError(
                f"rank {rank} has rows that did not run, and in a rank's own file every node has a time; "
                "write the run as a directory"
            )
        trace = trace.with_nesting()  # these times say no longer what ran inside what
        timed = trace.with_columns(_exact("start_time", start) | _exact("duration", end - start))
        if not timed.is_timed:  # all began at 0, which microseconds alone do not say
            timed = timed.with_columns({_NANOS["start_time"]: start})
        waited = held_back(trace, start, end)
        if waited.any():
            own_ns, has_own = trace.own_ns, trace.has("own_ns") | waited
            timed = timed.with_columns({"own_ns": pa.array(own_ns, mask=~has_own)})
        return self._numbered(timed, rank)

    def _numbered(self, timed: Trace, rank: int) -> Trace:
        """The trace; with its collectives numbered if the new starts would put them in another order.

        Ranks begin collectives that do not depend on each other in different orders.
        """
        was = _numbers(self.calls_at(self._binding(rank).body), len(timed))
        if np.array_equal(was, _numbers(read_calls(timed), len(timed))):
            return timed
        number = _numbers(self.communication.calls(self.communication.place[rank]), len(timed))
        return timed.with_columns({"comm_seq": pa.array(number, mask=number < 0)})

    def start(self, rank: int) -> I64:
        """Start of each node of a rank."""
        return self.times_of(rank).start

    def end(self, rank: int) -> I64:
        """End of each node of a rank."""
        return self.times_of(rank).end

    @cached_property
    def collectives(self) -> Collectives:
        """Every collective and message of the run, matched across ranks, with the run's times."""
        return tables_of(self.communication, None if self.times is None else self._ns_of)

    def _ns_of(self, rank: int) -> tuple[I64, I64]:
        return whole_ns(self.times_of(rank), self.tick_ps)

    def likeness(self, rank: int) -> Hashable:
        """A key that is equal for ranks that run the same program at the same times."""
        binding = self._binding(rank)
        return rank if self.times is None else (binding.body, self.timing[rank], binding.scale)

    @cached_property
    def folds(self) -> list[tuple[int, ...]]:
        """Ranks that run the same program at the same times, ascending; by the first of each."""
        ranks_alike: dict[Hashable, list[int]] = {}
        for rank in self.ranks:
            ranks_alike.setdefault(self.likeness(rank), []).append(rank)
        return [tuple(ranks) for ranks in ranks_alike.values()]

    def rank_name(self, rank: int) -> str:
        """What a rank is called: its number, and the name of the actor that it is, where it is one."""
        return named_rank(rank, self.actors)

    @property
    def actors(self) -> list[str]:
        """The actors that the ranks are, where they are programs that react."""
        actors = self.card.settings.get("actors")
        return [str(name) for name in actors] if isinstance(actors, list) else []

    @cached_property
    def span(self) -> tuple[int, int]:
        """First start and last end over all ranks, in ticks."""
        times = [self.times_of(fold[0]) for fold in self.folds]
        times = [t for t in times if len(t.start)]
        if not times:
            return 0, 0
        return min(int(t.start.min()) for t in times), max(int(t.end.max()) for t in times)

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """First start and last end over the rows that ran, in whole ns; (0, 0) where nothing did."""
        low, high = [], []
        for fold in self.folds:
            start, end = whole_ns(self.times_of(fold[0]), self.tick_ps)
            ran = end >= np.maximum(start, 0)
            if ran.any():
                low.append(int(start[ran].min()))
                high.append(int(end[ran].max()))
        return (min(low), max(high)) if low else (0, 0)

    @property
    def makespan_ns(self) -> float:
        """From the first start to the last end, in nanoseconds."""
        first, last = self.span
        return (last - first) * self.tick_ps / PS_PER_NS

    def with_counters(self, counters: Mapping[str, Any]) -> Run:
        """The same with other figures beside its times."""
        return self._replaced(counters=counters)

    def with_groups(self, groups: Groups) -> Run:
        """The same with other groups."""
        return self._replaced(groups=groups)

    def with_card(self, card: Card) -> Run:
        """The same under another card."""
        return self._replaced(card=card)

    def select_ranks(self, ranks: Sequence[int]) -> Run:
        """Some of the ranks; the groups stay, so the others count as missing."""
        return self._with({r: self._binding(r) for r in ranks})

    def _with(self, bindings: Mapping[int, Binding]) -> Run:
        timing = {r: self.timing[r] for r in bindings} if self.times is not None else None
        return self._replaced(bindings=bindings, timing=timing)

    def _replaced(self, **changes: Any) -> Run:
        """The same run with some constructor arguments changed."""
        same: dict[str, Any] = {
            "bodies": self._bodies,
            "bindings": self.bindings,
            "groups": self.groups,
            "card": self.card,
            "times": self.times,
            "timing": self.timing if self.times is not None else None,
            "counters": self.counters,
        }
        return Run(**{**same, **changes})


def whole_ns(times: Times, tick_ps: int) -> tuple[I64, I64]:
    """Starts and ends in whole ns, both rounded down so that what was equal or in order stays so.

    A row that did not run has times below 0, which stay.
    """
    if tick_ps == PS_PER_NS:
        return times.start, times.end
    start, end = (np.where(t < 0, t, t * tick_ps // PS_PER_NS) for t in (times.start, times.end))
    return start, end


def _check_order(times: Times, rank: int) -> None:
    """A row that ends before it begins is a TraceError, as is one that begins below 0.

    A row that did not run has both times below 0.
    """
    ran = (times.start >= 0) | (times.end >= 0)
    wrong = np.flatnonzero(ran & ((times.start < 0) | (times.end < times.start)))
    if len(wrong):
        what = "begins before 0" if times.start[wrong[0]] < 0 else "ends before it begins"
        raise TraceError(
            f"rank {rank}: row {wrong[0]} {what}; the times are damaged: make the run again"
        )


def _check_ticks(times: Times, tick_ps: int, rank: int) -> None:
    """Times beyond the horizon, in ns beyond every clock, are a TraceError: sums of them would wrap."""
    furthest = max(
        (max(abs(int(t.min())), abs(int(t.max()))) for t in (times.start, times.end) if len(t)),
        default=0,
    )
    if tick_ps == PS_PER_NS and furthest > CLOCK_NS:
        raise TraceError(f"rank {rank} has times that no clock shows; check the unit, which is ns")
    if tick_ps != PS_PER_NS and furthest * tick_ps > HORIZON_PS:
        raise TraceError(
            f"rank {rank} has times of {furthest:,} ticks of {tick_ps:,} ps, and a run has "
            f"{HORIZON_DAYS} days in all; check tick_ps in card.json"
        )


def check_length(times: int, nodes: int, rank: int) -> None:
    """Times that are not one per node are a TraceError."""
    if times != nodes:
        raise TraceError(f"rank {rank} has {nodes:,} nodes and times for {times:,}")


def _exact(quantity: str, nanos: I64) -> dict[str, object]:
    """The two columns of a time: whole microseconds, and nanoseconds where they are not exact."""
    return {
        f"{quantity}_micros": np.maximum(nanos, 0) // 1000,
        _NANOS[quantity]: pa.array(nanos, mask=nanos % 1000 == 0),
    }


def _numbers(calls: Calls, rows: int) -> I64:
    """The number of each collective by its row; -1 for other rows."""
    numbers = np.full(rows, -1, np.int64)
    numbers[calls.row[calls.collective]] = calls.number[calls.collective]
    return numbers


_NANOS = {"start_time": "start_time_ns", "duration": "duration_ns"}


def run_of(
    traces: TraceSet,
    times: Mapping[int, Times],
    counters: Mapping[str, Any] | None = None,
    **card: object,
) -> Run:
    """A run of these traces with these times by rank; ranks whose times are all equal share a class."""
    classes: list[Times] = []
    numbers: dict[tuple[object, ...], int] = {}
    timing = {}
    for rank in traces.ranks:
        if rank not in times:
            raise TraceError(f"rank {rank} has no times")
        key = (traces.bindings[rank].body, *map(_digest, vars(times[rank]).values()))
        if key not in numbers:
            numbers[key] = len(classes)
            classes.append(times[rank])
        timing[rank] = numbers[key]
    return Run(
        traces.bodies,
        traces.bindings,
        traces.groups,
        traces.card.replace(**card),
        times=classes,
        timing=timing,
        counters=counters,
    )


def _digest(values: NDArray[np.generic] | None) -> bytes:
    return b"" if values is None else blake2b(np.ascontiguousarray(values).tobytes()).digest()
