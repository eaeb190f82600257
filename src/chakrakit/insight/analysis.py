"""`analyze`: answers every question about a run, reading each rank once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, DeadlockError
from chakrakit.insight.advice import Advice, advice_table
from chakrakit.insight.breakdown import RankTime, join_breakdown, span_of
from chakrakit.insight.communication import (
    AllCalls,
    CollectiveKind,
    CommunicationSummary,
    Matched,
    SlowLink,
    Straggler,
    Stragglers,
    communication_of,
    group_roles,
    stragglers_of,
)
from chakrakit.insight.critical_path import (
    Bound,
    CriticalPath,
    LoadedEvents,
    Model,
    RankEvents,
    WhatIf,
    add_peers,
    bound_of,
    kinds_of,
    kinds_only,
    path_bound,
    slack_by_rank,
    walk,
    what_if_of,
    with_loader,
)
from chakrakit.insight.diagnosis import (
    Culprit,
    JobDelays,
    MachineCheck,
    board_of,
    check_of,
    hang_culprits,
    is_job,
    is_recording,
    job_culprits,
    job_delays,
    job_rows,
    slow_links,
    slow_ranks,
)
from chakrakit.insight.gather import GatheredFacts, Progress, RankTasks
from chakrakit.insight.incidents import ShownIncident, incident_table, incidents_of
from chakrakit.insight.launches import Launches, LaunchTable
from chakrakit.insight.memory import Memory, join_memory, with_history
from chakrakit.insight.operators import Operators, RunRoofline, listed_operators, roofline_of
from chakrakit.insight.rank import Causes, Table, percent, rank_view
from chakrakit.insight.resource_tables import network_tables, server_table, tier_table
from chakrakit.insight.served_requests import ServingFacts, is_served, serving_facts
from chakrakit.insight.step_times import Steps, join_steps
from chakrakit.machines import load_machine, recorded_on
from chakrakit.parallel import Workers
from chakrakit.results import Result
from chakrakit.trace.memory import fit_fields, fit_of
from chakrakit.trace.sets import (
    CAMPAIGN,
    LIKE_COMMUNICATION,
    LINKED,
    RECORDED_DEVICE,
    Footprint,
    LinkClassSummary,
    PortSummary,
    RecordedStep,
    Run,
    RunFacts,
    ServerUse,
    TierUse,
    footprint_of,
    history_of,
    named_rank,
    recorded_step_of,
    servers_of,
    subject_of,
)

_SCHEDULED_ROWS = 20_000_000
"""Rows scheduled in all what-ifs together: larger models get fewer of them, so that their time is bounded."""
_CHECKED_RANKS = 8
"""Ranks of a recording that are held beside their machine: those of a node, the others do the same work."""
_RECORDED_CALLS = 1_000_000
"""Larger recordings of communication are only searched for culprits: matching all calls takes too long."""


class AnalysisOptions(msgspec.Struct, frozen=True):
    """What an analysis should try and assume.

    faster       classes of work and factors to try; None tries every kind twice as fast
    machine      what a recording was made on, as a preset or a file; by default what the recording says
    peak_tflops  the peak of one device, for MFU and the roofline; 0 where it is not known
    peak_gbps    the peak bandwidth of its memory; 0 where it is not known
    """

    faster: tuple[tuple[str, float], ...] | None = None
    machine: str = ""
    peak_tflops: float = 0.0
    peak_gbps: float = 0.0


_ENDLESS = ("hang", "missing-rank", "dead-rank", "order-mismatch", "size-mismatch", "type-mismatch")
"""Kinds of culprits that no run ends with."""


class Analysis(Result, msgspec.Struct, kw_only=True):
    """Everything `analyze` finds out about a run, one field per section."""

    name: str
    span_ns: int
    ranks: list[RankTime]
    steps: Steps
    critical_path: CriticalPath
    what_if: WhatIf
    collectives: list[CollectiveKind]
    communication: CommunicationSummary
    stragglers: list[Straggler]
    slow_links: list[SlowLink]
    operators: Operators
    launches: list[Launches]
    roofline: RunRoofline
    memory: Memory
    notes: list[str]
    fits: bool | None = None
    """Whether every rank's peak fits its device; None where the run does not say."""
    needs_bytes: int | None = None
    has_bytes: int | None = None
    culprits: list[Culprit] = []
    """Ranks, links and stages that make the run slow or hang, surest first."""
    delays: JobDelays | None = None
    """What delays cost a pipeline-parallel job; None unless its operations say their stage and replica."""
    bound: str = ""
    """What saves most when it is twice as fast: `device` (`computation` where nothing runs on one),
    `communication`, `host`, `data` or `saving` (to a store); `balanced` where several save about the same,
    `unexplained` where nothing in the run says what it waits for, and empty for what no
    resource bounds, such as a hang or a campaign."""
    bound_saves: dict[str, float] = {}
    """The share of the run that each resource saves when it is twice as fast, largest first."""
    explained: float = 0.0
    """The share of the run that gets shorter with its resources; the rest follows nothing in the run."""
    bound_uncertain: bool = False
    """True where resources are balanced, where most of the run is unexplained, or where recording costs too
    much to say whether the host or the device bounds it."""
    serving: ServingFacts | None = None
    """Where the requests of a served stream spend their time; None for other runs."""
    recording: RecordedStep | None = None
    """The step as recorded, as corrected and as it takes without recording; None for other runs."""
    warning: str = ""
    """A warning to show before everything else; empty if there is none."""
    expected: MachineCheck | None = None
    """A recording's operators beside what its machine needs for them; None for other runs, and where the
    machine is not known or has no profile."""
    served_ns: int = 0
    """How long the steps of an engine took as served that the run shows as operators; 0 for other runs."""
    campaign: dict[str, float] = {}
    """Hours of a campaign's history by what the job did, longest first; empty for other runs."""
    incidents: list[ShownIncident] = []
    """What telemetry shows of each incident that it has a label of; none where a run has no such counters."""
    storage: list[ServerUse] = []
    """The use of each storage server; empty where the run has no such counters."""
    tiers: list[TierUse] = []
    """Peaks and bytes of the devices' memory and of each store; none where no store was used."""
    link_classes: list[LinkClassSummary] = []
    """Traffic by class on links, the highest first; none where all of it is alike."""
    ports: PortSummary | None = None
    """What messages cost at ports besides their bytes; None where the machine does not say."""
    group_setup_ns: float = 0.0
    """What setting up groups took, all of them together."""
    footprint: Footprint | None = None
    """Energy, carbon, price and tokens of a simulated run; None for other runs."""
    precision: str = ""
    """What weights, activations and cache are kept in, where the model's files state a precision."""
    actors: list[str] = []
    """Names of the ranks, where they are programs that react."""
    advice: list[Advice] = []
    """Changes that were tried on the run and make it shorter, best first."""

    def rank_name(self, rank: int) -> str:
        """What a rank is called: its number, and the name of the actor that it is, where it is one."""
        return named_rank(rank, self.actors)

    def tables(self) -> list[Table]:
        """Every section as tables for people, the most useful ones first."""
        return [table for tables in self.sections().values() for table in tables]

    @property
    def endless(self) -> bool:
        """Whether the run hangs, so that its span is how far it came."""
        return any(culprit.kind in _ENDLESS for culprit in self.culprits)

    def sections(self) -> dict[str, list[Table]]:
        """Tables for people by the name of their section, the most useful ones first."""
        sections = self._sections()
        if not self.actors:
            return sections
        return {name: [self._named(t) for t in tables] for name, tables in sections.items()}

    def _named(self, table: Table) -> Table:
        """A table by rank with the names of actors beside their numbers."""
        if table.head[:1] != ("rank",):
            return table
        rows = [
            (
                self.rank_name(row[0]).removeprefix("rank ") if isinstance(row[0], int) else row[0],
                *row[1:],
            )
            for row in table.rows
        ]
        return Table.of(table.title, table.head, rows)

    def _sections(self) -> dict[str, list[Table]]:
        from chakrakit.insight.breakdown import TimeBreakdown

        late, operators = Stragglers(self.stragglers, self.slow_links), self.operators
        return {
            "serving": self.serving.tables() if self.serving else [],
            "campaign": [self._campaign(), incident_table(self.incidents)],
            "time": [] if self.campaign else [TimeBreakdown(self.span_ns, self.ranks).table()],
            "steps": [self.steps.table()],
            "critical-path": [self.critical_path.table()],
            "advice": [advice_table(self.advice)],
            "what-if": [self.what_if.table(), self.what_if.slack_table()],
            "communication": [self.communication.table()],
            "network": network_tables(self),
            "tiers": [tier_table(self.tiers)],
            "storage": [server_table(self.storage)],
            "culprits": self._blame(),
            "stragglers": [late.table(), late.link_table()],
            "operators": [operators.table(), operators.kernel_table()],
            "modules": [operators.module_table()],
            "shapes": [operators.shape_table()],
            "expected": [self.expected.table()] if self.expected else [],
            "launches": [LaunchTable(self.launches).table()],
            "roofline": [self.roofline.table()],
            "memory": [self.memory.table()],
            "energy": [self._energy()],
        }

    def _campaign(self) -> Table:
        """Hours of a campaign by what the job did."""
        total = sum(self.campaign.values()) or 1.0
        rows = [(name, round(h, 2), percent(h, total)) for name, h in self.campaign.items()]
        return Table.of("what the job did", ("what", "hours", "%"), rows)

    def _energy(self) -> Table:
        """Energy by class of work, largest first."""
        parts = self.footprint.energy_by_class if self.footprint else {}
        total = sum(parts.values()) or 1.0
        order = sorted(parts.items(), key=lambda p: -p[1])
        rows = [(name, float(f"{joules:.4g}"), percent(joules, total)) for name, joules in order]
        return Table.of("energy by class of work", ("class", "J", "%"), rows)

    def _blame(self) -> list[Table]:
        rows = [(c.kind, c.detail) for c in self.culprits]
        tables = [Table.of("culprits", ("kind", "what"), rows)]
        return tables if self.delays is None else [*tables, self.delays.table()]


@dataclass(eq=False)
class RowFindings:
    """What an analysis found out about single rows, by rank.

    `stands_for` maps a rank without entries of its own to one with the same program and times, whose
    `causes` and `slack` hold for it too. `slack` is empty where the run was not scheduled again.
    """

    matched: Matched = field(init=False)
    stands_for: dict[int, int] = field(default_factory=dict)
    causes: dict[int, Causes] = field(default_factory=dict)
    slack: dict[int, I64] = field(default_factory=dict)


def analyze(
    run: Run,
    options: AnalysisOptions | None = None,
    progress: Progress = lambda _done, _total: None,
    workers: Workers | None = None,
) -> Analysis:
    """Analyzes a run; calls `progress` with the number of ranks done and of all ranks.

    With `workers`, each rank is one task there. This process then keeps only the small results of each rank
    and reads again the ranks that the critical path passes through.
    """
    options = options or AnalysisOptions()
    ranks = RankTasks(run, workers, names=options.faster is not None)
    if not is_recording(run):
        return _assembled(run, ranks, ranks.gathered(progress), options)
    board = board_of(run)
    large = len(board) > _RECORDED_CALLS
    facts = GatheredFacts(False, AllCalls(run)) if large else ranks.gathered(progress)
    analysis = _assembled(run, ranks, facts, options)
    analysis.culprits = hang_culprits(board, run.counters.get("progress"))
    if large:
        analysis.notes = [
            f"{len(board):,} recorded calls: only culprits are looked for above {_RECORDED_CALLS:,}"
        ]
    return analysis


def analyze_rows(run: Run, progress: Progress) -> tuple[Analysis, RowFindings]:
    """Analyzes a run as `analyze` does, and also returns what it found out about single rows."""
    ranks = RankTasks(run, None, names=False)
    parts = ranks.gathered(progress)
    causes = {rank: events.causes for rank, events in parts.events.items()}
    rows = RowFindings(stands_for=parts.stands_for, causes=causes)
    return _assembled(run, ranks, parts, AnalysisOptions(), rows), rows


def _assembled(
    run: Run,
    ranks: RankTasks,
    parts: GatheredFacts,
    options: AnalysisOptions,
    rows: RowFindings | None = None,
) -> Analysis:
    span = span_of(parts.busy)
    length = span[1] - span[0]
    matched = parts.calls.matched()
    if rows is not None:
        rows.matched = matched
    path = _path(run, ranks, parts, matched, span)
    notes = _notes(run, parts, length)
    talk = communication_of(matched, run.groups, run.world_size, group_roles(run))
    late = stragglers_of(matched)
    times = join_breakdown(parts.busy, matched, span).ranks
    model = _model(parts, matched)
    del matched  # it is as large as the model
    what_if = _what_if(run, parts, model, length, options, notes)
    bound = _bound(run, parts, model, path, times, length)
    if rows is not None and model is not None and what_if.slack:
        rows.slack = slack_by_rank(model)
    operators = listed_operators(parts.operators)
    memory = _memory(run, parts)
    expected = _expected(run, options.machine)
    steps = join_steps(parts.steps, length)
    return Analysis(
        name=run.card.name,
        span_ns=length,
        ranks=times,
        steps=steps,
        critical_path=path,
        what_if=what_if,
        collectives=talk.collectives,
        communication=talk,
        stragglers=late.ranks,
        slow_links=late.links,
        operators=operators,
        launches=parts.launches,
        roofline=_roofline(run, operators, length, options),
        memory=memory,
        notes=notes,
        bound=bound.name,
        bound_saves=bound.saves,
        explained=bound.explained,
        served_ns=_served_ns(run),
        campaign=_hours(operators, length) if run.card.tool == CAMPAIGN else {},
        incidents=incidents_of(run.counters),
        actors=run.actors,
        storage=servers_of(run.counters),
        **msgspec.structs.asdict(RunFacts.of(run.counters)),
        expected=expected,
        **_culprit_fields(run, parts, expected),
        **_fit_fields(run, memory),
        **_card_fields(run, bound, steps.median_ns),
    )


def _bound(
    run: Run,
    parts: GatheredFacts,
    model: Model | None,
    path: CriticalPath,
    times: Sequence[RankTime],
    length: int,
) -> Bound:
    """What bounds the run; nothing does where it hangs or where its rows are a campaign's."""
    if is_recording(run) or run.card.tool == CAMPAIGN:
        return Bound("")
    on_device = any(busy.on_device for busy in parts.busy)
    bound = _scheduled_bound(model, on_device) or path_bound(path.attribution, on_device)
    loading = sum(t.breakdown.parts()["data"] for t in times)
    return with_loader(bound, loading / max(length * len(times), 1))


STEP_TIMES = "step times: "
"""How the note begins that says where the step times of a served stream come from."""
_STATES = ("in service", "empty", "slow")
"""Rows of a campaign's history that say how a node is, beside what the job does."""
_NS_PER_HOUR = 3.6e12


def _hours(operators: Operators, span: int) -> dict[str, float]:
    """What the job of a campaign's history did, in hours."""
    stages = {s.name: s.time_ns for s in operators.kernels if s.name not in _STATES}
    total = max(sum(stages.values()), 1)
    return {name: ns / total * span / _NS_PER_HOUR for name, ns in stages.items()}


def _scheduled_bound(model: Model | None, on_device: bool) -> Bound | None:
    try:
        return bound_of(model, on_device) if model is not None else None
    except DeadlockError:
        return None


def _fit_fields(run: Run, memory: Memory) -> dict[str, Any]:
    """The fields of an Analysis that say whether every rank's peak fits the memory of its device."""
    return fit_fields(fit_of({r.rank: r.peak_bytes for r in memory.ranks}, _device_memory(run)))


def _card_fields(run: Run, bound: Bound, step_ns: int) -> dict[str, Any]:
    """The fields of an Analysis that come from the run's card: requests, recording, energy and price."""
    recording = recorded_step_of(run.card)
    return {
        "serving": serving_facts(run),
        "recording": recording,
        "warning": recording.warning if recording else "",
        "bound_uncertain": bound.name in ("balanced", "unexplained")
        or (recording is not None and recording.bound_uncertain)
        or (recording is not None and bool(recording.doubt(bound.name, step_ns))),
        "footprint": footprint_of(run.card),
        "precision": subject_of(run.card).get("precision", ""),
    }


def _roofline(run: Run, operators: Operators, span: int, options: AnalysisOptions) -> RunRoofline:
    """The roofline under the roof that was asked for, else the one of the device that was simulated.

    Times that were measured on a faster device may lie above that one; then there is none.
    """
    asked = options.peak_tflops, options.peak_gbps
    if not all(0 <= peak < math.inf for peak in asked):
        raise ConfigError(
            f"peak-tflops and peak-gbps are {asked[0]:g} and {asked[1]:g}; give rates above 0"
        )
    if any(asked):
        return roofline_of(operators, span, len(run), *asked)
    stated = run.card.settings
    tflops, gbps = (_peak(stated.get(n)) for n in ("device_peak_tflops", "device_memory_gbps"))
    peaks = stated.get("device_peaks")
    by_type = {k: _peak(v) for k, v in peaks.items()} if isinstance(peaks, dict) else {}
    simulated = roofline_of(operators, span, len(run), tflops, gbps, by_type)
    return simulated if simulated.hfu <= 1 else roofline_of(operators, span, len(run))


def _peak(stated: object) -> float:
    """A rate that a card states; 0, which is none, for what is no rate."""
    try:
        peak = float(stated) if isinstance(stated, int | float) else 0.0
    except OverflowError:  # there are numbers in JSON that no float holds
        return 0.0
    return peak if 0 < peak < math.inf else 0.0


def _device_memory(run: Run) -> dict[int, int]:
    """The memory of each rank's device in bytes; empty where the run's card does not state it."""
    device_bytes = run.card.settings.get("device_memory_bytes")
    return dict.fromkeys(run.ranks, device_bytes) if isinstance(device_bytes, int) else {}


def _expected(run: Run, machine: str) -> MachineCheck | None:
    """A recording beside its machine: the one that was named, or the one that it says itself."""
    if run.times is not None or run.card.tool != LINKED:
        return None
    recorded = run.card.settings.get(RECORDED_DEVICE)
    if machine:
        device, name = load_machine(machine).devices[0], machine
    elif isinstance(recorded, str) and (known := recorded_on(recorded).device) is not None:
        device, name = known, recorded
    else:
        return None
    views = (rank_view(run, rank) for rank in run.ranks[:_CHECKED_RANKS])
    return check_of(views, name, device)


def _culprit_fields(
    run: Run, parts: GatheredFacts, expected: MachineCheck | None
) -> dict[str, Any]:
    """The fields of an Analysis about culprits.

    They are found by what-if where the job's layout is known, else by comparing ranks and links.
    """
    if is_job(run):
        rows = job_rows(run)
        delays = job_delays(rows)
        return {"delays": delays, "culprits": job_culprits(rows, delays)}
    links = slow_links(run.counters, parts.paces)
    culprits = sorted([*links, *slow_ranks(parts.paces)], key=lambda c: -(c.factor or 0.0))
    culprits += expected.culprits if expected else []
    return {"culprits": culprits}


def _memory(run: Run, parts: GatheredFacts) -> Memory:
    """Memory from the allocator's history where it was recorded, else from the tensors that nodes name."""
    tensor_memory = join_memory(parts.memory, run)
    history = history_of(run.card.settings, run.counters)
    return tensor_memory if history is None else with_history(tensor_memory, history)


def _path(
    run: Run, ranks: RankTasks, parts: GatheredFacts, matched: Matched, span: tuple[int, int]
) -> CriticalPath:
    if parts.events:
        add_peers(parts.events, matched, parts.stands_for)
        path = walk(parts.events, parts.ends, span)
        parts.events.clear()
        return path

    def load(rank: int) -> RankEvents:
        events = ranks.task(rank).events()
        add_peers({rank: events}, matched, parts.stands_for)
        return events

    events = LoadedEvents([e.rank for e in parts.ends], load)
    return walk(events, parts.ends, span)


def _notes(run: Run, parts: GatheredFacts, length: int) -> list[str]:
    notes = []
    if not length:
        notes.append("no node takes any time: an observer's file has none; link it with Kineto's")
    if run.missing_ranks:
        notes.append(
            f"{len(run.missing_ranks)} ranks that groups name were not recorded: "
            "waiting for them counts as transfer"
        )
    if parts.stands_for:
        notes.append(
            f"{len(parts.stands_for):,} ranks run the program of another at the same times: "
            "the critical path shows that one, gains count it once"
        )
    if parts.lost:
        notes.append(f"{parts.lost:,} nodes have no times and are left out")
    if note := run.card.settings.get("scheduled"):
        notes.append(str(note))
    if source := run.card.settings.get("step_times"):
        notes.append(f"{STEP_TIMES}{source}")
    return [*notes, *_undecided(run)]


def _served_ns(run: Run) -> int:
    """What an expanded window of serving took when it was served, by its card; 0 for other runs."""
    window = run.card.settings.get("expanded")
    took = window.get("served_ns") if isinstance(window, dict) else 0
    return took if isinstance(took, int) else 0


def _undecided(run: Run) -> list[str]:
    """Kernels that may be communication of a library that `link` does not know."""
    alike = run.card.settings.get(LIKE_COMMUNICATION)
    counts = alike.items() if isinstance(alike, dict) else ()
    return [
        f"{name!r} ({count} times) looks like communication and counts as computation: "
        "link with --comm-pattern REGEX=KIND"
        for name, count in counts
    ]


def _model(parts: GatheredFacts, matched: Matched) -> Model | None:
    return Model(parts.graphs, matched, parts.stands_for) if parts.can_schedule else None


_DECIDED = {
    "a served stream": "faster steps hold other requests; serve the stream again on a faster machine",
    "a campaign's history": "other stages lead to other failures; run the campaign with them",
}
"""Runs whose rows would be others if some took less time: scheduling the same rows again says nothing."""


def _what_if(
    run: Run,
    parts: GatheredFacts,
    model: Model | None,
    length: int,
    options: AnalysisOptions,
    notes: list[str],
) -> WhatIf:
    if is_served(run) or run.card.tool == CAMPAIGN:
        what = "a served stream" if is_served(run) else "a campaign's history"
        note = f"no what-if and slack of {what}: {_DECIDED[what]}"
        notes += [note] if options.faster else []
        return WhatIf(length, 0, [], [], note)
    if model is None:
        note = (
            f"{parts.rows:,} nodes: what-if and slack are left out above {parts.room}; select ranks"
        )
        notes.append(note)
        return WhatIf(length, 0, [], [], note)
    faster = None if options.faster is None else list(options.faster)
    budget = _SCHEDULED_ROWS // max(model.n, 1) - 1
    if faster is None and budget < 6:
        present = kinds_of(model)
        faster = [(kind, 2.0) for kind in ("compute", "communication") if kind in present]
    names = parts.names or [kinds_only(model)]
    try:
        return what_if_of(model, names, length, faster, slack=budget >= 2)
    except DeadlockError as error:
        note = (
            f"what-if and slack are left out: dependencies contradict the order of events ({error})"
        )
        notes.append(note)
        return WhatIf(length, 0, [], [], note)
