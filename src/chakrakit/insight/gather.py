"""Reads the facts of every rank of a run, in this process or on workers, and puts them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from chakrakit.insight.breakdown import RankBusy, busy_of
from chakrakit.insight.communication import AllCalls, RankCalls, calls_of
from chakrakit.insight.critical_path import (
    RankEnd,
    RankEvents,
    RankGraph,
    RankGraphs,
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
from chakrakit.insight.step_times import RankStep, steps_of
from chakrakit.parallel import Workers, spread
from chakrakit.trace.communication import Binding, Body, Calls, bind, read_calls
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Run, Times


@dataclass(frozen=True)
class LargeParts:
    """Which of the large parts of a rank's facts to keep; each is about as large as the rank.

    events   what the critical path needs
    names    what rows are selected by
    """

    events: bool = False
    names: bool = False


@dataclass(frozen=True)
class RankTask:
    """A rank to be read, in this process or another."""

    rank: int
    body: Body
    binding: Binding
    times: Times | None
    tick_ps: int
    large_parts: LargeParts = LargeParts()
    known_calls: Calls | None = None
    """The calls of the body, where they were read before."""

    def program(self) -> Trace:
        """The rank's body, read from its file if it is not in memory."""
        return self.body if isinstance(self.body, Trace) else self.body()

    def view(self, program: Trace) -> RankView:
        """The view of the rank, for its body."""
        if self.times is None:
            return view_of(self.rank, bind(program, self.binding), None, self.tick_ps)
        return body_view(self.rank, program, self.binding, self.times, self.tick_ps)

    def events(self) -> RankEvents:
        """What the critical path needs of the rank."""
        return events_of(self.view(self.program()), self.times)


@dataclass(frozen=True, eq=False)
class RankFacts:
    """What every section of an analysis needs of one rank. All but `graph`, `events` and `names` is small."""

    busy: RankBusy
    calls: RankCalls
    steps: tuple[str, list[RankStep]]
    operators: RankOperators
    launches: Launches
    memory: RankMemory | None
    end: RankEnd
    pace: RankPace
    lost: int
    """How many rows have no times."""
    graph: RankGraph | None
    events: RankEvents | None
    names: RankNames | None

    def light(self) -> RankFacts:
        """The same facts without the large parts."""
        return replace(self, graph=None, events=None, names=None)


def rank_facts(task: RankTask) -> RankFacts:
    """Reads a rank and returns its facts."""
    program, large_parts, calls = task.program(), task.large_parts, task.known_calls
    calls = read_calls(program) if calls is None else calls
    view = task.view(program)
    events = events_of(view, task.times)
    steps = steps_of(view)
    return RankFacts(
        busy=busy_of(view, events.causes),
        calls=calls_of(view, calls),
        steps=steps,
        operators=operators_of(view),
        launches=launches_of(view),
        memory=memory_of(view),
        end=end_of(events),
        pace=pace_of(view, steps[1]),
        lost=int(np.count_nonzero(~view.ran)),
        graph=graph_of(view),
        events=events if large_parts.events else None,
        names=names_of(view) if large_parts.names else None,
    )


MOST_ROWS = 8_000_000
"""Runs larger than this are not scheduled again: what-if and slack would need too much memory."""
SPREAD_BYTES = 1_200_000_000
"""The same limit with workers: memory for scheduling where no process should take over 1.5 GB."""
_ROW_BYTES, _EDGE_BYTES = 130, 34  # memory that scheduling takes per row and per edge, measured
Progress = Callable[[int, int], Any]


@dataclass
class GatheredFacts:
    """The facts of all ranks together."""

    spread: bool
    calls: AllCalls
    busy: list[RankBusy] = field(default_factory=list)
    events: dict[int, RankEvents] = field(default_factory=dict)
    ends: list[RankEnd] = field(default_factory=list)
    graphs: RankGraphs = field(default_factory=RankGraphs)
    names: list[RankNames] = field(default_factory=list)
    steps: list[tuple[str, list[RankStep]]] = field(default_factory=list)
    operators: RankOperators = field(default_factory=lambda: RankOperators(0))
    launches: list[Launches] = field(default_factory=list)
    memory: list[RankMemory | None] = field(default_factory=list)
    paces: list[RankPace] = field(default_factory=list)
    rows: int = 0
    edges: int = 0
    lost: int = 0
    stands_for: dict[int, int] = field(default_factory=dict)
    """Maps ranks that run another's program at the same times to that other rank."""
    _alike: dict[int, tuple[RankOperators, int]] = field(default_factory=dict)
    """Sums of a rank and how many more ranks have the same, by the identity of the sums."""

    def add(self, part: RankFacts) -> None:
        """Adds the facts of a rank."""
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
            self.graphs, self.names = RankGraphs(), []
            return
        self.graphs.add(graph)
        if names is not None:
            self.names.append(names)

    @property
    def can_schedule(self) -> bool:
        """Whether the run is small enough to be scheduled again."""
        if self.spread:
            return self.rows * _ROW_BYTES + self.edges * _EDGE_BYTES <= SPREAD_BYTES
        return self.rows <= MOST_ROWS

    @property
    def room(self) -> str:
        """The limit of `can_schedule` in words."""
        return f"{SPREAD_BYTES / 1e9} GB with workers" if self.spread else f"{MOST_ROWS:,}"

    def repeat(self, part: RankFacts, rank: int) -> None:
        """Adds the facts of an earlier rank once more, for `rank`, which does the same."""
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
        """Adds the sums of ranks that are alike: one multiplication instead of many additions."""
        for operators, ranks in self._alike.values():
            add_operators(self.operators, operators, ranks)
        self._alike.clear()


class RankTasks:
    """The ranks of a run as tasks; of ranks with the same program and times only the first is read.

    `names` says whether rows will be selected by name. Without workers, the events of all ranks are kept.
    """

    def __init__(self, run: Run, workers: Workers | None, names: bool) -> None:
        self._run, self._workers = run, workers
        self._large_parts = LargeParts(events=workers is None, names=names)

    def task(self, rank: int) -> RankTask:
        """The task of reading a rank."""
        run, binding = self._run, self._run.bindings[rank]
        body = run.body_at if self._workers is None else run.reader_of
        times = None if run.times is None else run.sound_times(rank)
        # A worker reads the body anyway; in this process all ranks that run it share its calls.
        calls = run.calls_at(binding.body) if self._workers is None else None
        return RankTask(
            rank, body(binding.body), binding, times, run.tick_ps, self._large_parts, calls
        )

    def gathered(self, progress: Progress) -> GatheredFacts:
        """Reads all ranks in order and returns their facts together."""
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
        shared_facts: dict[int, RankFacts] = {}
        for count, rank in enumerate(run.ranks, 1):
            first = first_of[rank]
            if first == rank:
                part = next(looked)
                parts.add(part)
                if rank in shared:
                    shared_facts[rank] = part.light()
            else:
                parts.repeat(shared_facts[first], rank)
            progress(count, len(run))
