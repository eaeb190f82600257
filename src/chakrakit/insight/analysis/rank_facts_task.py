"""What an analysis takes from one rank: made where the rank is read, here or on a worker."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chakrakit.insight.communication import RankCalls, calls_of
from chakrakit.insight.critical_path import (
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
from chakrakit.insight.memory import RankMemory, memory_of
from chakrakit.insight.rank import RankView, body_view, view_of
from chakrakit.insight.time import (
    Launches,
    RankBusy,
    RankOperators,
    Step,
    busy_of,
    launches_of,
    operators_of,
    steps_of,
)
from chakrakit.trace.communication import Binding, Body, Calls, bind, read_calls
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Times


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
