"""The summary of a simulation: step time, compute, exposed communication, idle, memory, MFU, energy, price.

A memory history that an allocator recorded keeps its bytes, as an allocator gives out the same bytes in the
same order however long the work in between takes; its times move with the rows around them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.errors import TraceError
from chakrakit.machines.device import CostSource, work_rows
from chakrakit.machines.fabric import Machine
from chakrakit.operators import computed_again, computes
from chakrakit.results import Result
from chakrakit.simulator.collectives import data_bytes, ideal_seconds, moved_bytes
from chakrakit.simulator.engine import (
    COMM,
    COMPUTE,
    MESSAGE,
    ONE_SIDED,
    Outcome,
    StoredOperations,
    most_at_once,
)
from chakrakit.simulator.results.certainty import has_modelled_host, makespan_interval
from chakrakit.simulator.results.energy import Energy
from chakrakit.trace.memory import Allocations, allocations_of, fit_fields, fit_of
from chakrakit.trace.model import RECOMPUTED, EdgeKind, Trace
from chakrakit.trace.placement import marked_steps, on_device, slowest
from chakrakit.trace.sets import (
    DEVICE_TIER,
    PS_PER_NS,
    Footprint,
    LinkClassSummary,
    PortSummary,
    RecordedStep,
    Run,
    RunFacts,
    ServerUse,
    TierUse,
    history_of,
    recorded_step_of,
)
from chakrakit.trace.timing import Intervals

# --- recorded memory ----------------------------------------------------------------------------


def recorded_history(outcome: Outcome) -> pa.Table | None:
    """The recorded memory history of the traces: rank, time_ns and bytes; None without one."""
    traces = outcome.membership.traces
    return history_of(traces.card.settings, traces.counters) if isinstance(traces, Run) else None


def history_peaks(outcome: Outcome) -> dict[int, int]:
    """The most bytes that each recorded rank held."""
    table = recorded_history(outcome)
    if table is None:
        return {}
    peaks = table.group_by("rank").aggregate([("bytes", "max")]).to_pydict()
    return dict(zip(peaks["rank"], peaks["bytes_max"], strict=True))


def history_table(outcome: Outcome) -> dict[str, I64] | None:
    """The recorded memory history at simulated times; None without one."""
    table = recorded_history(outcome)
    if table is None or not len(table):
        return None
    rank, time, size = (table.column(c).to_numpy() for c in ("rank", "time_ns", "bytes"))
    moved = np.zeros(len(time), np.int64)
    for recorded_rank in np.unique(rank).tolist():
        mine = rank == recorded_rank
        moved[mine] = _moved(outcome, recorded_rank, time[mine])
    order = np.lexsort((np.arange(len(time)), moved, rank))
    return {"rank": rank[order], "time_ns": moved[order], "bytes": size[order]}


def _moved(outcome: Outcome, rank: int, time: I64) -> I64:
    """Recorded times as simulated ones; they keep their relative place between the starts of two rows."""
    c = int(outcome.classes.rank[outcome.membership.index[rank]])
    recorded = outcome.program(c).trace.start_ns
    simulated = outcome.start[outcome.rows(c)] // 1000
    order = np.lexsort((simulated, recorded))
    later = np.maximum.accumulate(simulated[order])
    return np.rint(np.interp(time, recorded[order], later)).astype(np.int64)


# --- storage servers ----------------------------------------------------------------------------


def server_uses(outcome: Outcome, machine: Machine) -> list[ServerUse]:
    """The use of every server that was used."""
    operations = outcome.stored
    if operations is None:
        return []
    servers = machine.store_of_servers()
    used = ((n, *servers[n]) for n in np.unique(operations.server).tolist())
    return [_use(operations, number, store.name, server) for number, store, server in used]


def _use(operations: StoredOperations, number: int, store: str, server: int) -> ServerUse:
    mine = operations.server == number
    writes, size = operations.writes[mine], operations.bytes[mine]
    arrived, started, ended = (
        operations.arrived[mine],
        operations.started[mine],
        operations.ended[mine],
    )
    waits = (started - arrived) / PS_PER_NS
    return ServerUse(
        store=store,
        server=server,
        operations=int(mine.sum()),
        read_bytes=float(size[~writes].sum()),
        written_bytes=float(size[writes].sum()),
        wait_ns=float(waits.sum()),
        longest_wait_ns=float(waits.max()),
        busy_ns=Intervals.of(started, ended).total / PS_PER_NS,
        most_in_flight=most_at_once(started, ended),
        longest_queue=most_at_once(arrived, started),
    )


class RankSummary(Result, msgspec.Struct, kw_only=True):
    """One rank. `idle_ns` is the time until its end in which its device neither computes nor communicates."""

    rank: int
    finish_ns: float
    compute_ns: float
    comm_ns: float
    exposed_comm_ns: float
    idle_ns: float
    peak_bytes: int
    flops: float
    recomputed_flops: float = 0.0
    """Those of `flops` that compute activations a second time."""


class FoldSummary(Result, msgspec.Struct, kw_only=True):
    """How many ranks each simulated rank stands for, and why."""

    factor: float
    classes: int
    why: str


class CollectiveSummary(Result, msgspec.Struct, kw_only=True):
    """Collectives of one kind, size and group size. Bandwidth counts the data each member must move."""

    collective: str
    algorithm: str
    members: int
    size: int
    count: int
    """Over all ranks: each one counts once, whether its members were simulated or folded."""
    mean_ns: float
    wait_ns: float
    """From the first arrival to the last, on average."""
    gb_per_s: float
    ideal_share: float | None
    """The time the data needs at full bandwidth without latency, over the time taken; None for messages."""


class ComputeShare(Result, msgspec.Struct, kw_only=True):
    """The operations whose times come from one source: over all ranks, and as a share of all."""

    source: str
    """`measured`, `profile`, `extrapolated` (a profile outside its measured sizes), `roofline`, `launches`
    (of the modelled host of a captured program), or `none` for operations about which nothing is known."""
    nodes: int
    nodes_share: float
    time_ns: float
    time_share: float


class SimulationSummary(Result, msgspec.Struct, kw_only=True):
    """The summary of a simulation."""

    makespan_ns: float
    ranks: list[RankSummary]
    fold: FoldSummary
    network: str
    compute: str
    machine: str
    mfu: float | None = None
    """The model's FLOPs, without recomputation, over what all devices could do at their bf16 peak in the
    step; None without figures."""
    hfu: float | None = None
    """The same with all FLOPs that run, recomputation included."""
    energy_joules: float | None = None
    """The energy of the devices over the run; None where the machine has no power figures."""
    energy_by_class: dict[str, float] = {}
    """Joules by class of work; `idle` is the energy while devices do nothing."""
    facility_joules: float | None = None
    """The energy with the building and the devices' share of their servers: 1 of 8 devices has an eighth."""
    carbon_kg: float | None = None
    """CO2 equivalent of the facility's energy."""
    clock_mhz: float | None = None
    """The lowest clock of a device within its power limit; None without power constants."""
    highest_clock_mhz: float | None = None
    """The highest one: more than `clock_mhz` where phases or devices differ in theirs."""
    tokens_per_s: float | None = None
    """Tokens per second of all ranks together; None where the card does not give the tokens of a step."""
    price: float | None = None
    """In US dollars, by the devices' price per hour."""
    rung: str = ""
    """Where times of computation come from: `recorded`, `measured profile NAME`, `carried profile NAME` or
    `data sheet`; several where devices differ."""
    framework: str = ""
    """The framework whose own work is in the times of computation; empty for kernels alone."""
    compute_sources: list[ComputeShare] = []
    """Where the times of operations come from, the largest share of time first."""
    extrapolated_share: float = 0.0
    """Share of the devices' operation time that comes from the roofline, or from a profile outside its
    measured sizes."""
    compute_error: float = 0.0
    """Relative error of operations' times: the error estimates of all, weighted by time."""
    interval_ns: tuple[float, float] | None = None
    """Where 90 of 100 measured makespans should lie, by the residuals of what is on the critical path; None
    where all times were measured."""
    interval_groups: dict[str, tuple[float, float, float, float]] = {}
    """What the interval is made of, by group of residuals: ns on the critical path, and by what shares they
    may be shorter, are off, or longer."""
    interval_operations: dict[str, dict[str, float]] = {}
    """By group of residuals, ns of the operations that take longest on the critical path."""
    interval_step: str = ""
    """The group of published training steps whose residuals the interval respects."""
    modelled: bool = False
    """Whether communication between nodes is on the critical path: it is modelled, not measured."""
    notes: list[str] = []
    """Figures that were left out, and why."""
    collectives: list[CollectiveSummary] = []
    link_classes: list[LinkClassSummary] = []
    """Traffic by class on links, the highest first; none where all of it is alike."""
    group_setup_ns: float = 0.0
    """Time that setting up groups took before their first collectives, all groups together."""
    ports: PortSummary | None = None
    """What messages cost at ports; None where the machine does not say."""
    storage: list[ServerUse] = []
    """The use of every storage server that was used."""
    tiers: list[TierUse] = []
    """Peaks and bytes of the devices' memory and of every store; none where no store was used."""
    ghosts: list[int] = []
    """Ranks that were not recorded, and were assumed to take part."""
    memory_holders: list[tuple[str, int]] = []
    """Largest holders at the highest peak."""
    memory_by_kind: dict[str, int] = {}
    """Bytes at the highest peak: parameters, gradients, optimizer, activations, kv_cache, …"""
    fits: bool | None = None
    """Whether every rank's peak fits its device; None where the trace or the machine lacks the figures."""
    needs_bytes: int | None = None
    """The memory that the tightest rank needs; `has_bytes` is that of its device."""
    has_bytes: int | None = None
    tightest_rank: int | None = None
    events: int = 0
    step_ns: float = 0.0
    """The usual step of the slowest rank where the trace marks steps; else the makespan."""
    recording: RecordedStep | None = None
    """The recorded step that the trace comes from; None for traces that were not recorded."""
    warning: str = ""
    """A warning to be shown before everything else; empty without one."""

    @property
    def makespan_s(self) -> float:
        """Seconds until all is done."""
        return self.makespan_ns * 1e-9

    @property
    def run_facts(self) -> RunFacts:
        """What the run's counters say of its network and tiers."""
        return RunFacts(**{n: getattr(self, n) for n in RunFacts.__struct_fields__})

    @property
    def footprint(self) -> Footprint:
        """The figures of the run that its card holds."""
        return Footprint(**{n: getattr(self, n) for n in Footprint.__struct_fields__})


def summarize(
    outcome: Outcome, machine: Machine, settings: dict[str, Any], energy: Energy | None
) -> SimulationSummary:
    """The summary of an outcome; `settings` gives network, compute and machine by name."""
    classes = [_class_summary(outcome, c) for c in range(outcome.classes.count)]
    membership = outcome.membership
    recorded = history_peaks(outcome)
    ranks = []
    for rank, c in zip(membership.ranks, outcome.classes.rank.tolist(), strict=True):
        summary = classes[c][0]
        peak = recorded.get(rank, summary.peak_bytes)
        ranks.append(msgspec.structs.replace(summary, rank=rank, peak_bytes=peak))
    makespan = outcome.makespan_ps / PS_PER_NS
    peaks = [m for _, m in classes if m is not None]
    highest = max(peaks, key=lambda m: m.peak_bytes) if peaks else None
    has = {r: int(machine.device(int(d)).memory) for r, d in outcome.devices().items()}
    fit = fit_of({r.rank: r.peak_bytes for r in ranks}, has)
    recording = recorded_step_of(membership.traces.card)
    return SimulationSummary(
        makespan_ns=makespan,
        ranks=ranks,
        fold=FoldSummary(
            factor=outcome.classes.factor, classes=outcome.classes.count, why=outcome.why
        ),
        compute_sources=compute_shares(outcome),
        **certainty(outcome),
        collectives=collective_summaries(outcome),
        **msgspec.structs.asdict(run_facts(outcome, machine, max(r.peak_bytes for r in ranks))),
        storage=server_uses(outcome, machine),
        ghosts=_ghosts(outcome),
        memory_holders=[(h.operator, h.bytes) for h in highest.holders(10)] if highest else [],
        memory_by_kind=highest.by_kind() if highest else {},
        **fit_fields(fit),
        tightest_rank=fit.rank if fit else None,
        events=outcome.events,
        step_ns=_step(outcome) or makespan,
        recording=recording,
        warning=recording.warning if recording else "",
        **_costs(outcome, machine, ranks, makespan),
        **_energy(energy, machine, len(ranks), makespan),
        **_interval(outcome, machine, settings),
        **settings,
    )


def _interval(outcome: Outcome, machine: Machine, settings: dict[str, Any]) -> dict[str, Any]:
    rung, framework = (str(settings.get(name, "")) for name in ("rung", "framework"))
    found = makespan_interval(outcome, machine, rung, framework)
    if found is None:
        return {}
    return {
        "interval_ns": (found.low_ns, found.high_ns),
        "interval_groups": found.groups,
        "interval_operations": found.operations,
        "interval_step": found.step,
        "modelled": found.modelled,
    }


def _step(outcome: Outcome) -> float:
    """The step of the slowest rank as marked in the traces, in ns; 0 where no step is marked."""
    periods = []
    for c in range(outcome.classes.count):
        trace = outcome.program(c).trace
        rows = outcome.rows(c)
        steps = marked_steps(trace, outcome.start[rows], outcome.end[rows])
        periods.append({s.number: s.period for s in steps})
    return slowest(periods) / PS_PER_NS


def compute_shares(outcome: Outcome) -> list[ComputeShare]:
    """The operations of all ranks by the source of their time; an error if none of them has one."""
    copies = np.bincount(outcome.classes.rank, minlength=outcome.classes.count)
    names = [*(source.name.lower() for source in CostSource), "launches"]
    launched = has_modelled_host(outcome.membership.traces.card)
    nodes, time = np.zeros(len(names)), np.zeros(len(names))
    for c, count in enumerate(copies.tolist()):
        rows, trace = outcome.rows(c), outcome.program(c).trace
        works = work_rows(trace)
        source = outcome.sources[rows][works]
        if launched:
            of_host = ~on_device(trace)[works] & (source == CostSource.MEASURED)
            source = np.where(of_host, len(CostSource), source)
        nodes += count * np.bincount(source, minlength=len(names))
        time += count * np.bincount(source, outcome.durations[rows][works], len(names))
    if nodes.sum() and nodes[CostSource.NONE] == nodes.sum():
        raise TraceError(
            f"nothing says how long the {int(nodes.sum()):,} operations take: they have no times, "
            "no FLOPs (num_ops) and no bytes (tensor_size); record them, or add one of these"
        )
    shares = [
        ComputeShare(
            source=name,
            nodes=int(nodes[code]),
            nodes_share=float(nodes[code] / nodes.sum()),
            time_ns=float(time[code] / PS_PER_NS),
            time_share=_over(float(time[code]), float(time.sum())),
        )
        for code, name in enumerate(names)
        if nodes[code]
    ]
    return sorted(shares, key=lambda s: -s.time_ns)


def certainty(outcome: Outcome) -> dict[str, Any]:
    """`extrapolated_share` and `compute_error` of the devices' operations, all ranks together."""
    copies = np.bincount(outcome.classes.rank, minlength=outcome.classes.count)
    total = guessed = missed = 0.0
    for c, count in enumerate(copies.tolist()):
        rows = outcome.rows(c)
        trace = outcome.program(c).trace
        works = work_rows(trace) & on_device(trace)
        time = outcome.durations[rows][works].astype(np.float64)
        beyond = np.isin(
            outcome.sources[rows][works], (CostSource.EXTRAPOLATED, CostSource.ROOFLINE)
        )
        total += count * float(time.sum())
        guessed += count * float(time[beyond].sum())
        missed += count * float((time * outcome.errors[rows][works]).sum())
    whole = total or 1.0
    return {"extrapolated_share": guessed / whole, "compute_error": missed / whole}


def class_memory(outcome: Outcome, c: int) -> Allocations | None:
    """The memory allocations of the ranks of a class."""
    program = outcome.program(c)
    rows = outcome.rows(c)
    return allocations_of(program.trace, outcome.start[rows], outcome.end[rows])


def _class_summary(outcome: Outcome, c: int) -> tuple[RankSummary, Allocations | None]:
    program = outcome.program(c)
    rows = outcome.rows(c)
    start, end = outcome.start[rows], outcome.end[rows]
    works, talks = program.kind == COMPUTE, program.kind == COMM
    if not works.any():  # where nothing runs on a device, the host computes
        works = _on_host(program.trace) & ~talks
    compute, comm = (Intervals.of(start[rows], end[rows]) for rows in (works, talks))
    busy = (compute | comm).total
    finish = int(end.max(initial=0))
    memory = class_memory(outcome, c)
    flops = np.where(program.kind == COMPUTE, program.trace.column("num_ops", 0), 0)
    summary = RankSummary(
        rank=-1,
        finish_ns=finish / PS_PER_NS,
        compute_ns=compute.total / PS_PER_NS,
        comm_ns=comm.total / PS_PER_NS,
        exposed_comm_ns=(busy - compute.total) / PS_PER_NS,
        idle_ns=(finish - busy) / PS_PER_NS,
        peak_bytes=memory.peak_bytes if memory else 0,
        flops=float(flops.sum()),
        recomputed_flops=_recomputed(program.trace, flops),
    )
    return summary, memory


def _on_host(trace: Trace) -> Mask:
    """Rows of operators that compute on a host."""
    codes, names = trace.texts("name")
    return np.array([bool(computes(name or "")) for name in names] or [False])[codes]


def _recomputed(trace: Trace, flops: I64) -> float:
    """FLOPs that the model does not have: of the phase of recomputation, and of attention's backward."""
    again = _in_phase(trace, RECOMPUTED)
    codes, names = trace.texts("name")
    share = np.array([computed_again(name or "") for name in names] or [0.0])[codes]
    launch = trace.edges.where(trace.edges.kind == EdgeKind.LAUNCH)
    operator = trace.parent[launch.src]  # a launch is a call of the runtime inside an operator
    share[launch.dst] = np.where(operator >= 0, share[operator], share[launch.src])
    return float(flops[again].sum() + (flops * share)[~again].sum())


def _in_phase(trace: Trace, phase: str) -> Mask:
    codes, names = trace.texts("phase")
    return np.isin(codes, [code for code, name in enumerate(names) if name == phase])


def _ghosts(outcome: Outcome) -> list[int]:
    groups = outcome.membership.groups
    return sorted({int(m) for g in groups for m in g.members[g.present < 0]})


def _costs(
    outcome: Outcome, machine: Machine, ranks: list[RankSummary], makespan: float
) -> dict[str, Any]:
    devices = [machine.device(r) for r in range(min(len(ranks), machine.size))]
    peak = sum(d.peak_rate("bf16") for d in devices)
    flops = sum(r.flops for r in ranks)
    again = sum(r.recomputed_flops for r in ranks)
    seconds = makespan * 1e-9
    used = flops / (peak * seconds) if peak and flops and seconds else None
    of_model = used * (1 - again / flops) if used is not None else None
    notes = machine.notes
    if any(d.power for d in devices):
        notes += dict.fromkeys(gap for device in devices if (gap := device.energy_gap))
    out: dict[str, Any] = {"mfu": of_model, "hfu": used, "notes": notes}
    if used is not None and used > 1:
        # Times measured on another device, or work in a type that is faster than bf16.
        out |= {"mfu": None, "hfu": None, "notes": [*notes, _TOO_MUCH.format(used, machine.name)]}
    tokens = _tokens(outcome)
    if tokens and seconds:
        out["tokens_per_s"] = tokens / seconds
    if all(d.price_per_hour for d in devices):
        out["price"] = sum(d.price_per_hour for d in devices) * seconds / 3600
    return out


def _energy(
    energy: Energy | None, machine: Machine, devices: int, makespan: float
) -> dict[str, Any]:
    """The devices' energy, and that of the site with its carbon."""
    if energy is None or not makespan:
        return {}
    device_figures = {
        "energy_joules": energy.joules,
        "energy_by_class": energy.by_class,
        "clock_mhz": energy.clock_mhz,
        "highest_clock_mhz": energy.highest_clock_mhz,
    }
    if machine.site is None:
        return device_figures
    facility = machine.site.facility_joules(energy.joules, devices, makespan * 1e-9)
    carbon = machine.site.carbon_kg(facility)
    return {**device_figures, "facility_joules": facility, "carbon_kg": carbon}


def _tokens(outcome: Outcome) -> int:
    """Tokens of generated training or prefill steps; 0 after a pass, which may have changed them."""
    card = outcome.membership.traces.card
    step = card.settings.get("step")
    if (
        card.passes
        or not isinstance(step, dict)
        or step.get("kind") not in ("train", "forward", "prefill")
    ):
        return 0
    counted = card.measured.get("tokens")
    if isinstance(counted, int) and counted > 0:
        return counted
    sizes = [n for n in (step.get("seq"), step.get("global_batch")) if isinstance(n, int) and n > 0]
    return sizes[0] * sizes[1] if len(sizes) == 2 else 0


_TOO_MUCH = (
    "no MFU: the operations do {:.1f} times what the bf16 peak of {} allows in the step; their times "
    "were measured on a faster device, or the work is in a narrower type or on units of higher rates"
)


def collective_summaries(outcome: Outcome) -> list[CollectiveSummary]:
    """Collectives by kind, size and group size, with achieved and ideal bandwidth."""
    numbers_by_kind: dict[tuple[str, str, int, int], list[int]] = {}
    instances = outcome.instances
    callers = _callers(outcome)
    for i, (kind, _, _) in enumerate(instances.what):
        if i in instances.served:
            continue
        shape = instances.shape[i]
        members = shape.n if shape else 2
        numbers_by_kind.setdefault(
            (kind, instances.algorithm[i], members, instances.size[i]), []
        ).append(i)
    return [
        _collective(outcome, key, np.array(numbers), int(callers[numbers].sum()))
        for key, numbers in numbers_by_kind.items()
    ]


def _callers(outcome: Outcome) -> I64:
    """By simulated instance, the ranks that take part in it and in those that are folded into it."""
    copies = np.bincount(outcome.classes.rank, minlength=outcome.classes.count)
    of_row = outcome.instances.of_row
    copies_of_row = np.repeat(copies, np.diff(outcome.offset))
    calls = of_row >= 0
    sums = np.bincount(of_row[calls], copies_of_row[calls], len(outcome.instances.what))
    return sums.astype(np.int64)


def _collective(
    outcome: Outcome, key: tuple[str, str, int, int], numbers: Any, callers: int
) -> CollectiveSummary:
    kind, algorithm, members, size = key
    each_calls = 1 if kind in ONE_SIDED else members
    took = float((outcome.ended[numbers] - outcome.began[numbers]).mean()) / PS_PER_NS
    total = size if kind in (MESSAGE, *ONE_SIDED) else data_bytes(kind, size, members)
    shape = outcome.instances.shape[int(numbers[0])]
    each = total / members if kind == "all-to-all" else total
    # On links that differ the ideal is that of the slowest, which schedules that use them less can beat.
    ideal = min(took, ideal_seconds(kind, each, shape) * 1e9) if shape else 0.0
    moved = moved_bytes(kind, each, members) if shape else float(size)
    return CollectiveSummary(
        collective=kind,
        algorithm=algorithm,
        members=members,
        size=size,
        count=max(1, round(callers / each_calls)),
        mean_ns=took,
        wait_ns=_wait(outcome, numbers),
        gb_per_s=moved / took if took else 0.0,
        ideal_share=_over(ideal, took) if shape else None,
    )


def run_facts(outcome: Outcome, machine: Machine, peak_bytes: int) -> RunFacts:
    """What the run says of its network and tiers; `peak_bytes` is that of the fullest device."""
    return RunFacts(
        link_classes=link_class_summaries(outcome),
        group_setup_ns=outcome.instances.set_up * 1e9,
        ports=_ports(outcome, machine),
        tiers=tier_uses(outcome, machine, peak_bytes),
    )


def tier_uses(outcome: Outcome, machine: Machine, peak_bytes: int) -> list[TierUse]:
    """The devices' memory and every store that was used; none without one."""
    servers = server_uses(outcome, machine)
    if not servers:
        return []
    homed = _homed_bytes(outcome)
    stores = [
        TierUse(
            tier=name,
            peak_bytes=homed.get(name, 0),
            read_bytes=sum(s.read_bytes for s in servers if s.store == name),
            written_bytes=sum(s.written_bytes for s in servers if s.store == name),
            operations=sum(s.operations for s in servers if s.store == name),
        )
        for name in dict.fromkeys(s.store for s in servers)
    ]
    device = TierUse(
        tier=DEVICE_TIER,
        peak_bytes=peak_bytes,
        read_bytes=sum(t.written_bytes for t in stores),
        written_bytes=sum(t.read_bytes for t in stores),
        operations=sum(t.operations for t in stores),
    )
    return [device, *stores]


def _homed_bytes(outcome: Outcome) -> dict[str, int]:
    """By store, the bytes of the tensors that nodes of all ranks name in it."""
    copies = np.bincount(outcome.classes.rank, minlength=outcome.classes.count).tolist()
    total: dict[str, int] = {}
    for c, count in enumerate(copies):
        program = outcome.program(c)
        rows = program.stored.row.tolist()
        codes, names = program.trace.texts("tensor")
        tensors: dict[tuple[str, str], int] = {}
        for row, store, size in zip(
            rows, program.stored.store, program.stored.size.tolist(), strict=True
        ):
            if codes[row] >= 0:
                key = store, names[codes[row]]
                tensors[key] = max(size, tensors.get(key, 0))
        for (store, _), size in tensors.items():
            total[store] = total.get(store, 0) + count * size
    return total


def link_class_summaries(outcome: Outcome) -> list[LinkClassSummary]:
    """By class and weight, the highest class and then the heaviest first."""
    ranks, instances = outcome.link_ranks, outcome.instances
    copies = np.array([len(jobs) for jobs in instances.jobs], np.int64)
    size, took = np.array(instances.size, np.float64), outcome.ended - outcome.began
    found = []
    for priority, weight in sorted(set(zip(*ranks.columns(), strict=True)), reverse=True):
        mine = (ranks.priority == priority) & (ranks.weight == weight)
        found.append(
            LinkClassSummary(
                priority=priority,
                weight=weight,
                operations=int(copies[mine].sum()),
                bytes=float((size * copies)[mine].sum()),
                mean_ns=float(np.average(took[mine], weights=copies[mine])) / PS_PER_NS,
            )
        )
    return found


def _ports(outcome: Outcome, machine: Machine) -> PortSummary | None:
    use = outcome.ports
    if use is None:
        return None
    names, links = machine.vertex_names(), machine.links
    ends = (names[int(v[use.busiest_link])] for v in (links.src, links.dst))
    return PortSummary(
        messages=use.messages,
        port_ns=use.port_s * 1e9,
        busiest_ns=use.busiest_s * 1e9,
        busiest=" → ".join(ends),
    )


def _over(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def _wait(outcome: Outcome, numbers: Any) -> float:
    """Mean time from the first arrival to the last."""
    of_row = outcome.instances.of_row
    rows = np.flatnonzero(np.isin(of_row, numbers))
    first = np.full(len(outcome.began), np.iinfo(np.int64).max)
    np.minimum.at(first, of_row[rows], outcome.start[rows])
    return float((outcome.began[numbers] - first[numbers]).mean() / PS_PER_NS)
