"""One run as the app shows it: ranks that do the same folded, everything else read when it is asked for."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from chakrakit.errors import ChakraError, TraceError
from chakrakit.insight.rank import RankView, rank_view
from chakrakit.trace.sets import Run
from chakrakit.views.app.findings import Findings
from chakrakit.views.app.rank_lines import RankLines, lines_of

# One thread that does what it is given, in order; the program does not wait for it at its end.


Value = TypeVar("Value")


class Worker:
    """Begins with the first task. A pool's threads would be waited for when the server is stopped."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], Value]) -> Future[Value]:
        """What the task will give; it can be cancelled until it is begun."""
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
_VIEWS = 4
_ANSWERS = 256
_SMALL = 2_000_000


@dataclass(frozen=True)
class Fold:
    """Ranks with the same program and times."""

    first: int
    ranks: tuple[int, ...]


class Recent(Generic[Value]):
    """The values used last, up to a total size.

    One value is made at a time (`making`), each once; what is there is given out meanwhile.
    """

    def __init__(
        self, making: threading.RLock, room: int, size: Callable[[Value], int] = lambda _: 1
    ) -> None:
        self._making, self._room, self._size = making, room, size
        self._held: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made if it is not there."""
        found = self._known(key)
        if found is not None:
            return found
        with self._making:
            found = self._known(key)
            if found is None:
                found = make()
                self._hold(key, found)
            return found

    def forget(self, key: Hashable) -> None:
        """A value is made anew when it is asked for again."""
        with self._lock:
            self._held.pop(key, None)

    def _known(self, key: Hashable) -> Value | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def _hold(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._held[key] = value
            while len(self._held) > 1 and sum(map(self._size, self._held.values())) > self._room:
                self._held.popitem(last=False)


class ShownRun:
    """A run and its name. Times it gives out are ns since `origin`, so that they fit any reader."""

    def __init__(self, run: Run, name: str, notes: list[str]) -> None:
        self.run, self.name, self.notes = run, name, notes
        self.findings = Findings(run)
        # Bodies are read one at a time: the set that reads them is not made for threads.
        making = threading.RLock()
        self._lines: Recent[RankLines] = Recent(making, _LINES_BYTES, lambda lines: lines.bytes)
        self._views: Recent[RankView] = Recent(making, _VIEWS)
        self._answers: Recent[Future[Any]] = Recent(threading.RLock(), _ANSWERS)
        self._worker = Worker()

    @cached_property
    def folds(self) -> list[Fold]:
        """Ranks by what they do, in order of the first of each."""
        return [Fold(ranks[0], ranks) for ranks in self.run.folds]

    def alike(self, rank: int) -> tuple[int, ...]:
        """All ranks that do what this one does."""
        return self._fold_of[self.key(rank)].ranks

    @cached_property
    def _fold_of(self) -> dict[Hashable, Fold]:
        return {self.key(fold.first): fold for fold in self.folds}

    def key(self, rank: int) -> Hashable:
        """What is equal for ranks that look the same."""
        if rank not in self.run.bindings:
            raise TraceError(f"no rank {rank} in {self.name}")
        return self.run.likeness(rank)

    @cached_property
    def origin(self) -> int:
        """When the run begins; where times are in the bodies, when its first rank does."""
        if self.run.times is not None:
            return self.run.span_ns[0]
        return self.view(self.run.ranks[0]).span[0] if len(self.run) else 0

    def view(self, rank: int) -> RankView:
        """A rank's rows, with its own groups and peers."""
        return self._views.get(rank, lambda: rank_view(self.run, rank))

    def answer(self, key: Hashable, ask: Callable[[], Value], seconds: float) -> Value | None:
        """What `ask` gives, found in a thread of its own; None if that takes longer than this.

        What was begun goes on, and is there when it is asked for again; what was not is forgotten, so that
        what nobody waits for any more does not pile up.
        """
        found: Future[Value] = self._answers.get(key, lambda: self._worker.submit(ask))
        try:
            return found.result(max(seconds, 0.0))
        except TimeoutError:
            if found.cancel():
                self._answers.forget(key)
        except CancelledError:  # by another request for the same
            pass
        return None

    @property
    def is_small(self) -> bool:
        """Whether an analysis takes seconds, by what the first rank has."""
        return self.lines(self.run.ranks[0]).nodes * len(self.folds) <= _SMALL

    def warm(self) -> None:
        """Reads the first rank in a thread of its own: it will be asked for first."""
        if len(self.run):
            threading.Thread(target=self._warm, daemon=True).start()

    def _warm(self) -> None:
        # Whoever asks for the rank is told what is wrong with it.
        with contextlib.suppress(ChakraError):
            self.lines(self.run.ranks[0])

    def lines(self, rank: int) -> RankLines:
        """A rank's tracks."""
        return self._lines.get(self.key(rank), lambda: lines_of(self.view(rank), self.origin))
