"""The analysis of a run, made in a thread of its own when it is first wanted."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I32, I64
from chakrakit.errors import ChakraError
from chakrakit.insight import Analysis, RowFindings, analyze_rows
from chakrakit.insight.critical_path import Segment
from chakrakit.trace.sets import Run
from chakrakit.views.app.lod import Line


@dataclass(frozen=True, eq=False)
class Found:
    """What the analysis gave, and the critical path as lines."""

    analysis: Analysis
    rows: RowFindings

    @cached_property
    def whats(self) -> list[str]:
        """What the path's time passes with, most first: the codes of its lines."""
        return list(self.analysis.critical_path.attribution)

    def longest(self, begin: int, end: int, most: int) -> tuple[list[Segment], int]:
        """The path's longest segments between two moments, in order of time, and how many there are."""
        starts, ends = self._borders
        inside = np.flatnonzero((ends > begin) & (starts < end))
        order = np.argsort(starts[inside] - ends[inside], kind="stable")[:most]
        segments = self.analysis.critical_path.segments
        return [segments[i] for i in np.sort(inside[order]).tolist()], len(inside)

    @cached_property
    def _borders(self) -> tuple[I64, I64]:
        segments = self.analysis.critical_path.segments
        starts = np.array([s.start_ns for s in segments], np.int64)
        return starts, np.array([s.end_ns for s in segments], np.int64)

    @cached_property
    def _by_rank(self) -> dict[int, list[Segment]]:
        out: dict[int, list[Segment]] = {}
        for segment in self.analysis.critical_path.segments:
            out.setdefault(segment.rank, []).append(segment)
        return out

    @cached_property
    def _lines(self) -> dict[int, Line]:
        code = {what: i for i, what in enumerate(self.whats)}
        return {
            rank: Line(
                np.array([s.start_ns for s in part], np.int64),
                np.array([s.end_ns for s in part], np.int64),
                np.array([s.row for s in part], np.int32),
                np.array([code[s.what] for s in part], np.int8),
            )
            for rank, part in self._by_rank.items()
        }

    def stand_in(self, rank: int) -> int:
        """The rank that was analyzed for this one."""
        return self.rows.stands_for.get(rank, rank)

    def path(self, rank: int) -> Line | None:
        """When the path is on a rank, in ns as the run has them; None if never."""
        return self._lines.get(self.stand_in(rank))

    @cached_property
    def _path_rows(self) -> dict[int, I32]:
        return {rank: np.unique(line.row) for rank, line in self._lines.items()}

    def on_path(self, rank: int, rows: I32) -> I64:
        """Which of these rows the path goes through, as places in `rows`."""
        known = self._path_rows.get(self.stand_in(rank))
        return np.flatnonzero(np.isin(rows, known)) if known is not None else np.zeros(0, np.int64)


class Findings:
    """Starts the analysis when asked, says how far it is, and keeps what it found."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.done, self.total = 0, len(run)
        self.error = ""
        self.found: Found | None = None

    def start(self) -> None:
        """Begins, once; returns at once."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    def wait(self) -> Found | None:
        """Begins and waits until it is done; None if it failed, which `error` explains."""
        self.start()
        assert self._thread is not None
        self._thread.join()
        return self.found

    def _work(self) -> None:
        try:
            # A set of its own: bodies are read and forgotten while the other is drawn from.
            run = self._run.select_ranks(self._run.ranks)
            assert isinstance(run, Run)
            self.found = Found(*analyze_rows(run, self._step))
        except ChakraError as error:
            self.error = str(error)
        except MemoryError:
            self.error = (
                "not enough memory to analyze this run; choose ranks (chakra analyze --ranks)"
            )
        except Exception as error:
            # Whatever it was, the page must say so instead of waiting for ever.
            self.error = f"the analysis failed: {type(error).__name__}: {error}"
            raise

    def _step(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    @property
    def state(self) -> str:
        """`idle`, `running`, `done` or `failed`."""
        if self.found:
            return "done"
        if self.error:
            return "failed"
        return "running" if self._thread else "idle"
