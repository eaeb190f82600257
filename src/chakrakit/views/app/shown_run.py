"""One run as the app shows it: equal ranks are folded into one, and ranks are read on request."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from chakrakit.errors import ChakraError, TraceError
from chakrakit.insight.communication import group_roles
from chakrakit.insight.rank import RankView, rank_view
from chakrakit.trace.sets import CAMPAIGN, Run
from chakrakit.trace.timing import Intervals
from chakrakit.views.app.figures import Figure, figures_of
from chakrakit.views.app.findings import BackgroundAnalysis
from chakrakit.views.app.rank_lines import RankLines, lines_of, with_waits
from chakrakit.views.app.row_parts import Origins

Value = TypeVar("Value")


class TaskThread:
    """One thread that runs tasks in order; it starts with the first one.

    Unlike a pool's threads, it does not delay the end of the program.
    """

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], Value]) -> Future[Value]:
        """Queues a task and returns its future, which can be cancelled until the task begins."""
        future: Future[Value] = Future()
        self._tasks.put((future, task))
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        return future

    def _work(self) -> None:
        while True:
            future, task = self._tasks.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(task())
                except BaseException as error:
                    future.set_exception(error)


_LINES_BYTES = 3 << 30
"""Memory for ranks ready to be drawn: 67 million rows at 48 bytes; those used longest ago are made anew."""
_VIEWS = 4
"""Ranks whose whole tables stay in memory, which are far larger than what is drawn of them."""
_FIGURES = 64
"""Ranks whose figures over time stay in memory: those on a screen, at some 100 KB each."""
_ANSWERS = 256
"""Searches of one rank that are remembered, so that asking for the next hits does not search again."""
_SMALL = 2_000_000
"""Rows up to which an analysis takes seconds, and is begun without being asked for."""


@dataclass(frozen=True)
class Fold:
    """Ranks with the same program and times, drawn as one."""

    first: int
    ranks: tuple[int, ...]


class Recent(Generic[Value]):
    """A cache of the values used last, up to a total size.

    Values are made one at a time, under the lock `making`; meanwhile, those in the cache can be read.
    """

    def __init__(
        self, making: threading.RLock, room: int, size: Callable[[Value], int] = lambda _: 1
    ) -> None:
        self._making, self._room, self._size = making, room, size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made if it is not in the cache."""
        value = self._lookup(key)
        if value is not None:
            return value
        with self._making:
            value = self._lookup(key)
            if value is None:
                value = make()
                self._store(key, value)
            return value

    def forget(self, key: Hashable) -> None:
        """Removes a value; it will be made again when it is next needed."""
        with self._lock:
            self._values.pop(key, None)

    def _lookup(self, key: Hashable) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def _store(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            while (
                len(self._values) > 1 and sum(map(self._size, self._values.values())) > self._room
            ):
                self._values.popitem(last=False)


class ShownRun:
    """A run and its name. Times are sent as ns since `origin`, so that they stay exact in JavaScript."""

    def __init__(self, run: Run, name: str, notes: list[str], path: str = "run") -> None:
        self.run, self.path = run, path
        self.findings = BackgroundAnalysis(run, path)
        self._keep(name, notes)

    def _keep(self, name: str, notes: list[str]) -> None:
        self.name, self.notes = name, notes
        # Bodies are read one at a time, because a TraceSet is not safe for threads.
        making = threading.RLock()
        self._lines: Recent[RankLines] = Recent(making, _LINES_BYTES, lambda lines: lines.bytes)
        self._views: Recent[RankView] = Recent(making, _VIEWS)
        self._figures: Recent[list[Figure]] = Recent(making, _FIGURES)
        self._strips: Recent[list[Intervals]] = Recent(making, _FIGURES)
        self._answers: Recent[Future[Any]] = Recent(threading.RLock(), _ANSWERS)
        self._worker = TaskThread()

    @cached_property
    def folds(self) -> list[Fold]:
        """The ranks folded by what they do, in order of the first rank of each fold."""
        return [Fold(ranks[0], ranks) for ranks in self.run.folds]

    def alike(self, rank: int) -> tuple[int, ...]:
        """All ranks with the program and times of this one."""
        return self._fold_of[self.key(rank)].ranks

    @cached_property
    def _fold_of(self) -> dict[Hashable, Fold]:
        return {self.key(fold.first): fold for fold in self.folds}

    def key(self, rank: int) -> Hashable:
        """A key that is equal for ranks with the same program and times."""
        if rank not in self.run.bindings:
            raise TraceError(f"no rank {rank} in {self.name}")
        return self.run.likeness(rank)

    @cached_property
    def origin(self) -> int:
        """When the run begins; where times are in the traces, when its first rank begins."""
        if self.run.times is not None:
            return self.run.span_ns[0]
        return self.view(self.run.ranks[0]).span[0] if len(self.run) else 0

    def view(self, rank: int) -> RankView:
        """The view of a rank, with its own groups and peers."""
        return self._views.get(rank, lambda: rank_view(self.run, rank))

    def answer(self, key: Hashable, ask: Callable[[], Value], seconds: float) -> Value | None:
        """The result of `ask`, which runs in the worker thread; None if that takes longer than `seconds`.

        A task that has begun goes on, and its result is there on a later request. One that has not begun is
        dropped, so that abandoned requests do not pile up.
        """
        future: Future[Value] = self._answers.get(key, lambda: self._worker.submit(ask))
        try:
            return future.result(max(seconds, 0.0))
        except TimeoutError:
            if future.cancel():
                self._answers.forget(key)
        except CancelledError:  # another request for the same key cancelled it
            pass
        return None

    def figures(self, rank: int) -> list[Figure]:
        """What the run says of a rank over time; ranks that are alike have one account of it."""
        first = self.alike(rank)[0]
        return self._figures.get(first, lambda: figures_of(self.run, first, self.origin))

    def strip(self, rank: int) -> list[Intervals]:
        """When each kind of STRIP is at work; late ranks and bubbles are kinds of it once they are known."""
        lines, analyzed = self.lines(rank), self.findings.analyzed
        if analyzed is None or self.is_campaign:
            return lines.strip
        times = [
            Intervals(waits.start - self.origin, waits.end - self.origin)
            for waits in analyzed.waiting_times(rank)
        ]
        return self._strips.get(self.alike(rank)[0], lambda: with_waits(lines.strip, times))

    @property
    def _origins(self) -> Origins:
        return Origins(self.is_campaign, partial(group_roles, self.run))

    @property
    def is_campaign(self) -> bool:
        """Whether it is a history of a campaign: days, and nodes instead of devices."""
        return self.run.card.tool == CAMPAIGN

    @property
    def is_small(self) -> bool:
        """Whether an analysis takes only seconds, judged by the size of the first rank."""
        return self.lines(self.run.ranks[0]).nodes * len(self.folds) <= _SMALL

    def warm(self) -> None:
        """Reads the first rank in the background, because it is requested first."""
        if len(self.run):
            threading.Thread(target=self._warm, daemon=True).start()

    def _warm(self) -> None:
        # A request for the rank will report the error.
        with contextlib.suppress(ChakraError):
            self.lines(self.run.ranks[0])

    def lines(self, rank: int) -> RankLines:
        """The lines of a rank."""
        return self._lines.get(
            self.key(rank), lambda: lines_of(self.view(rank), self.origin, self._origins)
        )
