"""All ranks of a run looked at, here or on workers, and what is kept of them put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from chakrakit.insight.breakdown import RankBusy, busy_of
from chakrakit.insight.communication import AllCalls, RankCalls, calls_of
from chakrakit.insight.critical_path import (
    Graphs,
    RankEnd,
    RankEvents,
    RankGraph,
    RankNames,
    end_of,
    events_of,
    graph_of,
    names_of,
)
from chakrakit.insight.diagnosis import RankPace, pace_of
from chakrakit.insight.launches import Launches, launches_of
from chakrakit.insight.memory import RankMemory, memory_of
from chakrakit.insight.operators import RankOperators, add_operators, operators_of
from chakrakit.insight.rank import RankView, body_view, view_of
from chakrakit.insight.step_times import Step, steps_of
from chakrakit.parallel import Workers, spread
from chakrakit.trace.communication import Binding, Body, Calls, bind, read_calls
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Run, Times

# What an analysis takes from one rank: made where the rank is read, here or on a worker.


@dataclass(frozen=True)
class Wanted:
    """What is to be kept of a rank besides its sums.

    events   what the critical path needs, as large as the rank
    names    what patterns select by, as large as the rank
    """

    events: bool = False
    names: bool = False


@dataclass(frozen=True)
class RankTask:
    """A rank to look at, in this process or another."""

    rank: int
    body: Body
    binding: Binding
    times: Times | None
    tick_ps: int
    wanted: Wanted = Wanted()
    known_calls: Calls | None = None
    """The calls of the body, where they were read before."""

    def program(self) -> Trace:
        """The body, read if need be."""
        return self.body if isinstance(self.body, Trace) else self.body()

    def view(self, program: Trace) -> RankView:
        """The rank as every analysis sees it."""
        if self.times is None:
            return view_of(self.rank, bind(program, self.binding), None, self.tick_ps)
        return body_view(self.rank, program, self.binding, self.times, self.tick_ps)

    def events(self) -> RankEvents:
        """What the critical path needs of the rank."""
        return events_of(self.view(self.program()), self.times)


@dataclass(frozen=True, eq=False)
class RankFacts:
    """One rank's part of every section. All but `graph`, `events` and `names` is small."""

    busy: RankBusy
    calls: RankCalls
    steps: tuple[str, list[Step]]
    operators: RankOperators
    launches: Launches
    memory: RankMemory | None
    end: RankEnd
    pace: RankPace
    lost: int
    """Rows that have no times."""
    graph: RankGraph | None
    events: RankEvents | None
    names: RankNames | None

    def light(self) -> RankFacts:
        """The same without what is large."""
        return replace(self, graph=None, events=None, names=None)


def rank_facts(task: RankTask) -> RankFacts:
    """All sections' parts of one rank."""
    program, wanted, known = task.program(), task.wanted, task.known_calls
    known = read_calls(program) if known is None else known
    view = task.view(program)
    events = events_of(view, task.times)
    steps = steps_of(view)
    return RankFacts(
        busy=busy_of(view, events.causes),
        calls=calls_of(view, known),
        steps=steps,
        operators=operators_of(view),
        launches=launches_of(view),
        memory=memory_of(view),
        end=end_of(events),
        pace=pace_of(view, steps[1]),
        lost=int(np.count_nonzero(~view.ran)),
        graph=graph_of(view),
        events=events if wanted.events else None,
        names=names_of(view) if wanted.names else None,
    )


MOST_ROWS = 8_000_000
"""Runs larger than this are not scheduled again: what-if and slack would need too much memory."""
SPREAD_BYTES = 1_200_000_000
"""The same with workers, where no process should take more than 1.5 GB: most that scheduling may need."""
_ROW_BYTES, _EDGE_BYTES = 130, 34  # measured
Progress = Callable[[int, int], Any]


@dataclass
class GatheredFacts:
    """What was taken from each rank as it passed."""

    spread: bool
    calls: AllCalls
    busy: list[RankBusy] = field(default_factory=list)
    events: dict[int, RankEvents] = field(default_factory=dict)
    ends: list[RankEnd] = field(default_factory=list)
    graphs: Graphs = field(default_factory=Graphs)
    names: list[RankNames] = field(default_factory=list)
    steps: list[tuple[str, list[Step]]] = field(default_factory=list)
    operators: RankOperators = field(default_factory=lambda: RankOperators(0))
    launches: list[Launches] = field(default_factory=list)
    memory: list[RankMemory | None] = field(default_factory=list)
    paces: list[RankPace] = field(default_factory=list)
    rows: int = 0
    edges: int = 0
    lost: int = 0
    stands_for: dict[int, int] = field(default_factory=dict)
    """Ranks that run another's program at the same times, and that other."""
    _alike: dict[int, tuple[RankOperators, int]] = field(default_factory=dict)
    """Sums of a rank, and how many more ranks have the same."""

    def add(self, part: RankFacts) -> None:
        """A rank that was looked at."""
        self.busy.append(part.busy)
        self.steps.append(part.steps)
        self.launches.append(part.launches)
        self.memory.append(part.memory)
        self.paces.append(part.pace)
        add_operators(self.operators, part.operators)
        self.calls.add(part.busy.rank, part.calls)
        self.ends.append(part.end)
        self.lost += part.lost
        self.rows += part.end.rows
        if part.events is not None:
            self.events[part.busy.rank] = part.events
        if part.graph is not None:
            self._add_graph(part.graph, part.names)

    def _add_graph(self, graph: RankGraph, names: RankNames | None) -> None:
        self.edges += len(graph.edges)
        if not self.can_schedule:
            self.graphs, self.names = Graphs(), []
            return
        self.graphs.add(graph)
        if names is not None:
            self.names.append(names)

    @property
    def can_schedule(self) -> bool:
        """Whether there is room to schedule all of it again."""
        if self.spread:
            return self.rows * _ROW_BYTES + self.edges * _EDGE_BYTES <= SPREAD_BYTES
        return self.rows <= MOST_ROWS

    @property
    def room(self) -> str:
        """That room, for a message."""
        return f"{SPREAD_BYTES / 1e9} GB with workers" if self.spread else f"{MOST_ROWS:,}"

    def repeat(self, part: RankFacts, rank: int) -> None:
        """The parts of an earlier rank, under another's number."""
        self.calls.add(rank, part.calls)
        self.stands_for[rank] = part.busy.rank
        _, ranks = self._alike.get(id(part.operators), (part.operators, 0))
        self._alike[id(part.operators)] = (part.operators, ranks + 1)
        way, steps = part.steps
        renamed = msgspec.structs.replace
        self.busy.append(renamed(part.busy, rank=rank))
        self.steps.append((way, [renamed(s, rank=rank) for s in steps]))
        self.launches.append(renamed(part.launches, rank=rank))
        self.memory.append(part.memory and renamed(part.memory, rank=rank))
        self.paces.append(renamed(part.pace, rank=rank))

    def add_up(self) -> None:
        """Adds what ranks that are alike come to, multiplied and not one by one."""
        for operators, ranks in self._alike.values():
            add_operators(self.operators, operators, ranks)
        self._alike.clear()


class RankTasks:
    """The ranks of a run as tasks; of those with the same program and times, the first alone.

    `names` says whether rows will be selected by name. Without workers the events of all ranks are kept.
    """

    def __init__(self, run: Run, workers: Workers | None, names: bool) -> None:
        self._run, self._workers = run, workers
        self._wanted = Wanted(events=workers is None, names=names)

    def task(self, rank: int) -> RankTask:
        """A rank, for whoever looks at it."""
        run, binding = self._run, self._run.bindings[rank]
        body = run.body_at if self._workers is None else run.reader_of
        times = None if run.times is None else run.sound_times(rank)
        # On a worker the body is read anyway; here it is shared by all ranks that run it.
        calls = run.calls_at(binding.body) if self._workers is None else None
        return RankTask(rank, body(binding.body), binding, times, run.tick_ps, self._wanted, calls)

    def gathered(self, progress: Progress) -> GatheredFacts:
        """Looks at all of them, in order."""
        parts = GatheredFacts(self._workers is not None, AllCalls(self._run))
        with self._run.uncached():
            self._take_all(parts, progress)
        parts.add_up()
        return parts

    def _take_all(self, parts: GatheredFacts, progress: Progress) -> None:
        run = self._run
        first_of = {rank: fold[0] for fold in run.folds for rank in fold}
        tasks = (self.task(fold[0]) for fold in run.folds)
        looked = spread(rank_facts, tasks, self._workers)
        shared = {fold[0] for fold in run.folds if len(fold) > 1}
        known: dict[int, RankFacts] = {}
        for done, rank in enumerate(run.ranks, 1):
            first = first_of[rank]
            if first == rank:
                part = next(looked)
                parts.add(part)
                if rank in shared:
                    known[rank] = part.light()
            else:
                parts.repeat(known[first], rank)
            progress(done, len(run))
