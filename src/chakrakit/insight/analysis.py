"""`analyze`: every question at once, each rank read once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from chakrakit.errors import DeadlockError
from chakrakit.insight.breakdown import RankBusy, RankTime, busy_of, join_breakdown, span_of
from chakrakit.insight.causes import Causes
from chakrakit.insight.communication import CollectiveKind, Communication, communication_of
from chakrakit.insight.critical_path import (
    CriticalPath,
    RankEvents,
    add_peers,
    events_of,
    is_undilated,
    walk,
)
from chakrakit.insight.launches import Launches, LaunchTable, launches_of
from chakrakit.insight.matching import Matched, RankCalls, calls_of, match_calls, rebound
from chakrakit.insight.memory import Memory, RankMemory, join_memory, memory_of
from chakrakit.insight.model import Model, RankGraph, graph_of
from chakrakit.insight.operators import Operators, RankOperators, join_operators, operators_of
from chakrakit.insight.rank_view import I64, RankView, rank_view
from chakrakit.insight.roofline import Roofline, roofline_of
from chakrakit.insight.steps import Step, Steps, join_steps, steps_of
from chakrakit.insight.stragglers import SlowLink, Straggler, Stragglers, stragglers_of
from chakrakit.insight.table import Table
from chakrakit.insight.whatif import RankNames, WhatIf, names_of, slack_by_rank, what_if_of
from chakrakit.trace.run import Run

MOST_ROWS = 8_000_000
"""Runs larger than this are not scheduled again: what-if and slack would need too much memory."""
_SCHEDULED_ROWS = 20_000_000


class Options(msgspec.Struct, frozen=True):
    """What to ask.

    faster       classes and factors to try; None for every kind twice as fast
    peak_tflops  the device's peak, for MFU and the roofline
    peak_gbps    its memory's
    """

    faster: tuple[tuple[str, float], ...] | None = None
    peak_tflops: float = 0.0
    peak_gbps: float = 0.0


class Analysis(msgspec.Struct):
    """All results. `ranks`, `collectives` and `stragglers` are the heart of their sections."""

    name: str
    span_ns: int
    ranks: list[RankTime]
    steps: Steps
    critical_path: CriticalPath
    what_if: WhatIf
    collectives: list[CollectiveKind]
    communication: Communication
    stragglers: list[Straggler]
    slow_links: list[SlowLink]
    operators: Operators
    launches: list[Launches]
    roofline: Roofline
    memory: Memory
    notes: list[str]

    def tables(self) -> list[Table]:
        """Every section for people, in order of use."""
        from chakrakit.insight.breakdown import TimeBreakdown

        late = Stragglers(self.stragglers, self.slow_links)
        return [
            TimeBreakdown(self.span_ns, self.ranks).table(),
            self.steps.table(),
            self.critical_path.table(),
            self.what_if.table(),
            self.what_if.slack_table(),
            self.communication.table(),
            late.table(),
            late.link_table(),
            self.operators.table(),
            self.operators.kernel_table(),
            self.operators.module_table(),
            self.operators.shape_table(),
            LaunchTable(self.launches).table(),
            self.roofline.table(),
            self.memory.table(),
        ]


@dataclass(eq=False)
class Rows:
    """What an analysis found out about single rows, for those who ask about one.

    `causes` and `slack` are by rank; a rank that `stands_for` maps to another has that one's. Slack
    is empty where the run was not scheduled again.
    """

    matched: Matched
    stands_for: dict[int, int]
    causes: dict[int, Causes] = field(default_factory=dict)
    slack: dict[int, I64] = field(default_factory=dict)


@dataclass
class _Parts:
    """What was taken from each rank as it passed."""

    busy: list[RankBusy] = field(default_factory=list)
    calls: list[RankCalls] = field(default_factory=list)
    events: dict[int, RankEvents] = field(default_factory=dict)
    graphs: list[RankGraph] = field(default_factory=list)
    names: list[RankNames] = field(default_factory=list)
    steps: list[tuple[str, list[Step]]] = field(default_factory=list)
    operators: list[RankOperators] = field(default_factory=list)
    launches: list[Launches] = field(default_factory=list)
    memory: list[RankMemory | None] = field(default_factory=list)
    rows: int = 0
    stands_for: dict[int, int] = field(default_factory=dict)
    """Ranks that run another's program at the same times, and that other."""
    _first: dict[tuple[int, int, float], tuple[int, RankCalls | None]] = field(default_factory=dict)

    def take(self, run: Run, rank: int) -> None:
        """A rank that was seen under another number is not looked at again."""
        binding = run.bindings[rank]
        key = (binding.body, run.timing[rank], binding.scale)
        if run.times is None or key not in self._first:
            self._first[key] = (len(self.busy), None)
            return self._look(rank_view(run, rank), run)
        place, program = self._first[key]
        if program is None:
            first = rank_view(run, self.busy[place].rank)
            program = calls_of(replace(first, rank=-1, trace=run.body(rank)))
            self._first[key] = (place, program)
        if len({binding.groups.get(g, g) for g in program.group}) < len(set(program.group)):
            # Groups that become one would have to be numbered anew.
            return self._look(rank_view(run, rank), run)
        return self._repeat(rank, place, rebound(program, rank, binding))

    def _repeat(self, rank: int, place: int, calls: RankCalls) -> None:
        """The parts of an earlier rank, under this one's number."""
        self.stands_for[rank] = self.busy[place].rank
        self.busy.append(replace(self.busy[place], rank=rank))
        self.calls.append(calls)
        way, steps = self.steps[place]
        self.steps.append((way, [msgspec.structs.replace(s, rank=rank) for s in steps]))
        self.operators.append(self.operators[place])
        self.launches.append(msgspec.structs.replace(self.launches[place], rank=rank))
        memory = self.memory[place]
        self.memory.append(memory and msgspec.structs.replace(memory, rank=rank))

    def _look(self, view: RankView, run: Run) -> None:
        """All sections' parts of one rank."""
        events = events_of(view, run.times_of(view.rank))
        self.events[view.rank] = events
        self.busy.append(busy_of(view, events.causes))
        self.calls.append(calls_of(view))
        self.steps.append(steps_of(view))
        self.operators.append(operators_of(view))
        self.launches.append(launches_of(view))
        self.memory.append(memory_of(view))
        self.rows += len(view)
        if self.rows <= MOST_ROWS:
            self.graphs.append(graph_of(view))
            self.names.append(names_of(view))


def analyze(
    run: Run,
    options: Options | None = None,
    progress: Callable[[int, int], Any] = lambda _done, _total: None,
) -> Analysis:
    """Everything about a run; `progress` is told how many ranks are done, of how many."""
    parts = _gathered(run, progress)
    return _joined(run, parts, span_of(parts.busy), options or Options())[0]


def analyze_rows(run: Run, progress: Callable[[int, int], Any]) -> tuple[Analysis, Rows]:
    """As `analyze`, with what was found out about single rows."""
    parts = _gathered(run, progress)
    causes = {rank: events.causes for rank, events in parts.events.items()}
    analysis, rows = _joined(run, parts, span_of(parts.busy), Options())
    rows.causes = causes
    return analysis, rows


def _gathered(run: Run, progress: Callable[[int, int], Any]) -> _Parts:
    parts = _Parts()
    kept = run.cache_bytes
    # Each rank is needed once: what the set keeps for later would only take room.
    run.cache_bytes = 0
    for done, rank in enumerate(run.ranks, 1):
        parts.take(run, rank)
        progress(done, len(run))
    run.cache_bytes = kept
    return parts


def _joined(
    run: Run, parts: _Parts, span: tuple[int, int], options: Options
) -> tuple[Analysis, Rows]:
    matched = match_calls(parts.calls, run.groups, run.world_size)
    add_peers(parts.events, matched, parts.stands_for)
    path = walk(parts.events, span, is_undilated(run))
    notes = _notes(run, parts)
    rows = Rows(matched, parts.stands_for)
    parts.events.clear()
    what_if = _what_if(parts, rows, span, options, notes)
    operators = join_operators(parts.operators)
    talk = communication_of(matched, run.groups, run.world_size)
    late = stragglers_of(matched)
    length = span[1] - span[0]
    analysis = Analysis(
        run.card.name, length, join_breakdown(parts.busy, matched, span).ranks,
        join_steps(parts.steps, length), path, what_if, talk.collectives, talk, late.ranks, late.links,
        operators, parts.launches,
        roofline_of(operators, length, len(run), options.peak_tflops, options.peak_gbps),
        join_memory(parts.memory), notes,
    )  # fmt: skip
    return analysis, rows


def _notes(run: Run, parts: _Parts) -> list[str]:
    notes = []
    if run.missing_ranks:
        notes.append(f"{len(run.missing_ranks)} ranks that groups name were not recorded: "
                     "waiting for them counts as transfer")  # fmt: skip
    if parts.stands_for:
        notes.append(f"{len(parts.stands_for):,} ranks run the program of another at the same times: "
                     "the critical path shows that one, gains count it once")  # fmt: skip
    lost = sum(int((~e.ran).sum()) for e in parts.events.values())
    if lost:
        notes.append(f"{lost:,} nodes have no times and are left out")
    return notes


def _what_if(
    parts: _Parts, rows: Rows, span: tuple[int, int], options: Options, notes: list[str]
) -> WhatIf:
    length = span[1] - span[0]
    if parts.rows > MOST_ROWS:
        note = f"{parts.rows:,} nodes: what-if and slack are left out above {MOST_ROWS:,}; select ranks"
        notes.append(note)
        return WhatIf(length, 0, [], [], note)
    model = Model(parts.graphs, rows.matched, parts.stands_for)
    parts.graphs.clear()
    faster = None if options.faster is None else list(options.faster)
    budget = _SCHEDULED_ROWS // max(model.n, 1) - 1
    if faster is None and budget < 6:
        faster = [(what, 2.0) for what in ("compute", "communication")]
    try:
        found = what_if_of(model, parts.names, length, faster, slack=budget >= 2)
        if found.slack:
            rows.slack = slack_by_rank(model)
        return found
    except DeadlockError as error:
        note = (
            f"what-if and slack are left out: dependencies contradict the order of events ({error})"
        )
        notes.append(note)
        return WhatIf(length, 0, [], [], note)
