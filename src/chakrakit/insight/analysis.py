"""`analyze`: every question at once, each rank read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from chakrakit.errors import DeadlockError
from chakrakit.insight.breakdown import RankBusy, RankTime, join_breakdown, span_of
from chakrakit.insight.communication import CollectiveKind, Communication, communication_of
from chakrakit.insight.critical_path import (
    CriticalPath,
    LoadedEvents,
    RankEnd,
    RankEvents,
    add_peers,
    is_undilated,
    walk,
)
from chakrakit.insight.launches import Launches, LaunchTable
from chakrakit.insight.matching import AllCalls, Matched, RankCalls, match_all, rebound
from chakrakit.insight.memory import Memory, RankMemory, join_memory
from chakrakit.insight.model import Graphs, Model
from chakrakit.insight.operators import (
    Operators,
    RankOperators,
    add_operators,
    listed_operators,
)
from chakrakit.insight.rank_part import RankPart, RankTask, Wanted, look
from chakrakit.insight.roofline import Roofline, roofline_of
from chakrakit.insight.steps import Step, Steps, join_steps
from chakrakit.insight.stragglers import SlowLink, Straggler, Stragglers, stragglers_of
from chakrakit.insight.table import Table
from chakrakit.insight.whatif import RankNames, WhatIf, kinds_only, what_if_of
from chakrakit.parallel import Workers, spread
from chakrakit.trace.run import Run

MOST_ROWS = 8_000_000
"""Runs larger than this are not scheduled again: what-if and slack would need too much memory."""
SPREAD_ROWS = 5_500_000
"""The same with workers, where no process should take more than 1.5 GB."""
_SCHEDULED_ROWS = 20_000_000
Progress = Callable[[int, int], Any]


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


@dataclass
class _Parts:
    """What was taken from each rank as it passed."""

    most_rows: int
    busy: list[RankBusy] = field(default_factory=list)
    calls: AllCalls = field(default_factory=AllCalls)
    events: dict[int, RankEvents] = field(default_factory=dict)
    ends: list[RankEnd] = field(default_factory=list)
    graphs: Graphs = field(default_factory=Graphs)
    names: list[RankNames] = field(default_factory=list)
    steps: list[tuple[str, list[Step]]] = field(default_factory=list)
    operators: RankOperators = field(default_factory=lambda: RankOperators(0))
    launches: list[Launches] = field(default_factory=list)
    memory: list[RankMemory | None] = field(default_factory=list)
    rows: int = 0
    lost: int = 0
    stands_for: dict[int, int] = field(default_factory=dict)
    """Ranks that run another's program at the same times, and that other."""

    def add(self, part: RankPart) -> None:
        """A rank that was looked at."""
        self._add_sums(part)
        self.calls.add(part.calls)
        self.ends.append(part.end)
        self.lost += part.lost
        self.rows += part.end.rows
        if part.events is not None:
            self.events[part.busy.rank] = part.events
        if self.rows > self.most_rows:
            self.graphs, self.names = Graphs(), []
            return
        self.graphs.add(part.graph)
        if part.names is not None:
            self.names.append(part.names)

    def repeat(self, part: RankPart, rank: int, calls: RankCalls) -> None:
        """The parts of an earlier rank, under another's number."""
        self.stands_for[rank] = part.busy.rank
        self.calls.add(calls)
        way, steps = part.steps
        self._add_sums(
            replace(
                part,
                busy=replace(part.busy, rank=rank),
                steps=(way, [msgspec.structs.replace(s, rank=rank) for s in steps]),
                launches=msgspec.structs.replace(part.launches, rank=rank),
                memory=part.memory and msgspec.structs.replace(part.memory, rank=rank),
            )
        )

    def _add_sums(self, part: RankPart) -> None:
        self.busy.append(part.busy)
        self.steps.append(part.steps)
        add_operators(self.operators, part.operators)
        self.launches.append(part.launches)
        self.memory.append(part.memory)


class _Ranks:
    """The ranks of a run as tasks; of those with the same program and times, the first alone."""

    def __init__(self, run: Run, options: Options, workers: Workers | None) -> None:
        self._run, self._workers = run, workers
        self._wanted = Wanted(events=workers is None, names=options.faster is not None)
        keys = [self._key(rank) for rank in run.ranks]
        self._shared = {key for key, count in Counter(keys).items() if count > 1}
        self._firsts = dict(zip(reversed(keys), reversed(run.ranks), strict=True))

    def _key(self, rank: int) -> object:
        """What ranks with the same times and program have in common."""
        run, binding = self._run, self._run.bindings[rank]
        return rank if run.times is None else (binding.body, run.timing[rank], binding.scale)

    def task(self, rank: int) -> RankTask:
        """A rank, for whoever looks at it."""
        run, binding = self._run, self._run.bindings[rank]
        body = run.body_at if self._workers is None else run.reader_of
        times = None if run.times is None else run.times[run.timing[rank]]
        wanted = replace(self._wanted, program=self._key(rank) in self._shared)
        return RankTask(rank, body(binding.body), binding, times, run.tick_ps, wanted)

    def into(self, parts: _Parts, progress: Progress) -> None:
        """Looks at all of them, in order."""
        run = self._run
        tasks = (self.task(r) for r in run.ranks if self._firsts[self._key(r)] == r)
        looked = spread(look, tasks, self._workers)
        first: dict[object, RankPart] = {}
        for done, rank in enumerate(run.ranks, 1):
            key = self._key(rank)
            if self._firsts[key] == rank:
                part = next(looked)
                parts.add(part)
                if key in self._shared:
                    first[key] = replace(part, events=None, names=None)
            else:
                self._again(parts, rank, first[key])
            progress(done, len(run))
        looked.close()  # type: ignore[attr-defined]

    def _again(self, parts: _Parts, rank: int, part: RankPart) -> None:
        """A rank that was seen under another number is not looked at again."""
        binding, program = self._run.bindings[rank], part.program
        assert program is not None
        if len({binding.groups.get(g, g) for g in program.group}) < len(set(program.group)):
            # Groups that become one would have to be numbered anew.
            parts.add(look(self.task(rank)))
        else:
            parts.repeat(part, rank, rebound(program, rank, binding))


def analyze(
    run: Run,
    options: Options | None = None,
    progress: Progress = lambda _done, _total: None,
    workers: Workers | None = None,
) -> Analysis:
    """Everything about a run; `progress` is told how many ranks are done, of how many.

    With `workers`, ranks are looked at there, one a task, and this process keeps what is small of
    them: what the critical path passes through is read again.
    """
    chosen = options or Options()
    parts = _Parts(MOST_ROWS if workers is None else SPREAD_ROWS)
    ranks = _Ranks(run, chosen, workers)
    kept = run.cache_bytes
    # Each rank is needed once: what the set keeps for later would only take room.
    run.cache_bytes = 0
    try:
        ranks.into(parts, progress)
        return _joined(run, ranks, parts, chosen)
    finally:
        run.cache_bytes = kept


def _joined(run: Run, ranks: _Ranks, parts: _Parts, options: Options) -> Analysis:
    span = span_of(parts.busy)
    length = span[1] - span[0]
    matched = match_all(parts.calls, run.groups, run.world_size)
    path = _path(run, ranks, parts, matched, span)
    notes = _notes(run, parts)
    talk = communication_of(matched, run.groups, run.world_size)
    late = stragglers_of(matched)
    times = join_breakdown(parts.busy, matched, span).ranks
    model = _model(parts, matched)
    del matched  # it is as large as the model
    what_if = _what_if(parts, model, length, options, notes)
    operators = listed_operators(parts.operators)
    return Analysis(
        run.card.name, length, times, join_steps(parts.steps, length), path, what_if, talk.collectives,
        talk, late.ranks, late.links, operators, parts.launches,
        roofline_of(operators, length, len(run), options.peak_tflops, options.peak_gbps),
        join_memory(parts.memory), notes,
    )  # fmt: skip


def _path(
    run: Run, ranks: _Ranks, parts: _Parts, matched: Matched, span: tuple[int, int]
) -> CriticalPath:
    if parts.events:
        add_peers(parts.events, matched, parts.stands_for)
        path = walk(parts.events, parts.ends, span, is_undilated(run))
        parts.events.clear()
        return path

    def load(rank: int) -> RankEvents:
        found = ranks.task(rank).events()
        add_peers({rank: found}, matched, parts.stands_for)
        return found

    events = LoadedEvents([e.rank for e in parts.ends], load)
    return walk(events, parts.ends, span, is_undilated(run))


def _notes(run: Run, parts: _Parts) -> list[str]:
    notes = []
    if run.missing_ranks:
        notes.append(f"{len(run.missing_ranks)} ranks that groups name were not recorded: "
                     "waiting for them counts as transfer")  # fmt: skip
    if parts.stands_for:
        notes.append(f"{len(parts.stands_for):,} ranks run the program of another at the same times: "
                     "the critical path shows that one, gains count it once")  # fmt: skip
    if parts.lost:
        notes.append(f"{parts.lost:,} nodes have no times and are left out")
    return notes


def _model(parts: _Parts, matched: Matched) -> Model | None:
    return None if parts.rows > parts.most_rows else Model(parts.graphs, matched, parts.stands_for)


def _what_if(
    parts: _Parts, model: Model | None, length: int, options: Options, notes: list[str]
) -> WhatIf:
    if model is None:
        note = f"{parts.rows:,} nodes: what-if and slack are left out above {parts.most_rows:,}; select ranks"
        notes.append(note)
        return WhatIf(length, 0, [], [], note)
    faster = None if options.faster is None else list(options.faster)
    budget = _SCHEDULED_ROWS // max(model.n, 1) - 1
    if faster is None and budget < 6:
        faster = [(what, 2.0) for what in ("compute", "communication")]
    names = parts.names or [kinds_only(model)]
    try:
        return what_if_of(model, names, length, faster, slack=budget >= 2)
    except DeadlockError as error:
        note = (
            f"what-if and slack are left out: dependencies contradict the order of events ({error})"
        )
        notes.append(note)
        return WhatIf(length, 0, [], [], note)
