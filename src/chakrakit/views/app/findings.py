"""The analysis of a run, made in its own thread when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I32, I64, Mask
from chakrakit.errors import ChakraError
from chakrakit.trace.sets import Run
from chakrakit.trace.timing import Intervals
from chakrakit.views.app.lod import SliceLine

if TYPE_CHECKING:
    from chakrakit.insight import Analysis, RowFindings
    from chakrakit.insight.critical_path import Segment

Number = TypeVar("Number", bound=np.integer)
_PIECE = 50_000
"""Segments that are converted at a time: some 5 ms."""
_NEVER = Intervals.of(np.zeros(0, np.int64), np.zeros(0, np.int64))
_ONE_AT_A_TIME = threading.Lock()
"""Two analyses at once would end no earlier; and msgspec 0.22 crashes where two threads meet a type first."""


@dataclass(frozen=True, eq=False)
class AnalyzedRun:
    """The analysis of a run, and its critical path as lines that can be drawn."""

    analysis: Analysis
    rows: RowFindings

    def prepared(self) -> AnalyzedRun:
        """Itself, with all that a window needs already made: else the next move would wait for it."""
        _ = (
            self.whats,
            self._borders,
            self._lines,
            self._path_rows,
            self._waits,
            self._waiting_times,
        )
        return self

    @cached_property
    def whats(self) -> list[str]:
        """The kinds of work and wait on the path, most first; lines have their places here as codes."""
        return list(self.analysis.critical_path.attribution)

    def longest(self, begin: int, end: int, most: int) -> tuple[list[Segment], int]:
        """The longest segments of the path between two times, in order of time, and the number of all."""
        starts, ends = self._borders
        inside = np.flatnonzero((ends > begin) & (starts < end))
        order = np.argsort(starts[inside] - ends[inside], kind="stable")[:most]
        segments = self.analysis.critical_path.segments
        return [segments[i] for i in np.sort(inside[order]).tolist()], len(inside)

    @cached_property
    def _borders(self) -> tuple[I64, I64]:
        return self._column(attrgetter("start_ns"), np.int64), self._column(
            attrgetter("end_ns"), np.int64
        )

    def _column(self, part: Callable[[Segment], int], kind: type[Number]) -> NDArray[Number]:
        """One figure of every segment of the path.

        NumPy holds the interpreter while it converts a list, and a path may have millions of segments:
        hence in pieces, between which moves are answered.
        """
        segments = self.analysis.critical_path.segments
        out = np.empty(len(segments), kind)
        for i in range(0, len(segments), _PIECE):
            out[i : i + _PIECE] = [part(segment) for segment in segments[i : i + _PIECE]]
        return out

    @cached_property
    def _lines(self) -> dict[int, SliceLine]:
        code = {activity: i for i, activity in enumerate(self.whats)}
        whole = SliceLine(
            *self._borders,
            self._column(attrgetter("row"), np.int32),
            self._column(lambda segment: code[segment.what], np.int8),
        )
        rank = self._column(attrgetter("rank"), np.int32)
        order = np.argsort(rank, kind="stable")
        first = np.flatnonzero(np.diff(rank[order], prepend=-1))
        parts = np.split(order, first[1:])
        return {int(rank[part[0]]): whole.part(part) for part in parts if len(part)}

    def stand_in(self, rank: int) -> int:
        """The rank that was analyzed for this one."""
        return self.rows.stands_for.get(rank, rank)

    def path(self, rank: int) -> SliceLine | None:
        """When the path is on a rank, in ns of the run; None if it never is."""
        return self._lines.get(self.stand_in(rank))

    @cached_property
    def _path_rows(self) -> dict[int, Mask]:
        """By rank, whether the path goes through each row, up to the last one it goes through."""
        out = {}
        for rank, line in self._lines.items():
            out[rank] = np.zeros(int(line.row.max()) + 1, np.bool_)
            out[rank][line.row] = True
        return out

    def on_path(self, rank: int, rows: I32) -> I64:
        """The places in `rows` of those that the path goes through."""
        on_path = self._path_rows.get(self.stand_in(rank))
        if on_path is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero((rows < len(on_path)) & on_path[np.minimum(rows, len(on_path) - 1)])

    def waiting(self, rank: int, rows: I32) -> I64:
        """How long each of these rows waited for peers after it began: ns, below 0 for a message's wait."""
        waits = self._waits.get(self.stand_in(rank))
        if waits is None:
            return np.zeros(len(rows), np.int64)
        known, nanos = waits
        at = np.minimum(np.searchsorted(known, rows), len(known) - 1)
        return np.where(known[at] == rows, nanos[at], 0)

    def waiting_times(self, rank: int) -> tuple[Intervals, Intervals]:
        """When a rank only waited for late ranks, and when for messages, in ns of the run.

        While other communication moves bytes, nobody waits.
        """
        return self._waiting_times.get(self.stand_in(rank), (_NEVER, _NEVER))

    @cached_property
    def _waiting_times(self) -> dict[int, tuple[Intervals, Intervals]]:
        matched = self.rows.matched
        moves = matched.start + np.maximum(matched.wait, 0)
        order = np.argsort(matched.rank, kind="stable")
        ranks, first = np.unique(matched.rank[order], return_index=True)
        out = {}
        for rank, part in zip(ranks.tolist(), np.split(order, first[1:]), strict=False):
            busy = Intervals.of(moves[part], matched.end[part])
            late = matched.collective[part]
            kinds = (Intervals.of(matched.start[part[k]], moves[part[k]]) for k in (late, ~late))
            for_ranks, for_messages = (waits - busy for waits in kinds)
            out[rank] = for_ranks, for_messages
        return out

    @cached_property
    def _waits(self) -> dict[int, tuple[I64, I64]]:
        """By rank, the rows that waited, ascending, and for how long."""
        matched = self.rows.matched
        waited = np.flatnonzero(matched.wait > 0)
        signed = np.where(matched.collective, matched.wait, -matched.wait)
        order = waited[np.lexsort((matched.row[waited], matched.rank[waited]))]
        ranks, first = np.unique(matched.rank[order], return_index=True)
        parts = np.split(order, first[1:]) if len(order) else []
        return {
            int(r): (matched.row[part], signed[part]) for r, part in zip(ranks, parts, strict=True)
        }


class BackgroundAnalysis:
    """Runs the analysis in a thread, reports its progress, and keeps the result (`analyzed`)."""

    def __init__(self, run: Run, path: str = "") -> None:
        self._run, self._path = run, path
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.done, self.total = 0, len(run)
        self.error = ""
        self.analyzed: AnalyzedRun | None = None

    def start(self) -> None:
        """Starts the analysis if it was not started before; does not wait for it."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    def wait(self) -> AnalyzedRun | None:
        """Starts the analysis and waits for it; returns None if it failed (see `error`)."""
        self.start()
        assert self._thread is not None
        self._thread.join()
        return self.analyzed

    def _work(self) -> None:
        from chakrakit.insight import advise, analyze_rows  # not needed to draw the first picture

        try:
            # A separate set: it reads and forgets bodies while the page draws from the other one.
            run = self._run.select_ranks(self._run.ranks)
            assert isinstance(run, Run)
            with _ONE_AT_A_TIME:
                analysis, rows = analyze_rows(run, self._step)
                if self._path:  # an edited run is a trial itself
                    analysis.advice, note = advise(run, self._path)
                    analysis.notes += [note] if note else []
            self.analyzed = AnalyzedRun(analysis, rows).prepared()
        except ChakraError as error:
            self.error = str(error)
        except MemoryError:
            self.error = (
                "not enough memory to analyze this run; choose ranks (chakra analyze --ranks)"
            )
        except Exception as error:
            # Whatever went wrong, the page must show it instead of waiting forever.
            self.error = f"the analysis failed: {type(error).__name__}: {error}"
            raise

    def _step(self, ranks_done: int, total: int) -> None:
        self.done, self.total = ranks_done, total

    @property
    def state(self) -> str:
        """`idle`, `running`, `done` or `failed`."""
        if self.analyzed:
            return "done"
        if self.error:
            return "failed"
        return "running" if self._thread else "idle"
