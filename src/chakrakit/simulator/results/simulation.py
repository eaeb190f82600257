"""`simulate`, from names to a result: options as text, the simulation, and the outcome as a Run."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I32, I64
from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError, DeadlockError
from chakrakit.machines import load_machine, recorded_on
from chakrakit.machines.device import (
    RECORDED,
    Auto,
    InFramework,
    Measured,
    PowerLimited,
    RecordedOn,
    Recosted,
    WorkModel,
    dtypes_of,
    framework_named,
    operand_sizes,
    operators_of,
    packaged_profile,
    rung_of,
    typed_as,
    work_model,
)
from chakrakit.machines.fabric import Machine
from chakrakit.operators import ALIGNED
from chakrakit.passes import Edit
from chakrakit.passes.base import pass_class, with_run_times
from chakrakit.results import Facts
from chakrakit.simulator.engine import (
    Disturbance,
    Fault,
    Fixed,
    Outcome,
    SimulationOptions,
    no_machine,
    per_rack,
    straddling,
)
from chakrakit.simulator.results.certainty import has_modelled_host, host_share
from chakrakit.simulator.results.crowded_units import unit_notes
from chakrakit.simulator.results.energy import clock_notes, energy_of, run_within_limits
from chakrakit.simulator.results.hung import HungSimulation
from chakrakit.simulator.results.power import power_table
from chakrakit.simulator.results.summary import (
    SimulationSummary,
    class_memory,
    compute_shares,
    history_table,
    server_uses,
    summarize,
)
from chakrakit.trace.placement import nested_ends
from chakrakit.trace.sets import (
    CAPTURED,
    CPU,
    PS_PER_NS,
    RECORDED_DEVICE,
    SIMULATED,
    Run,
    RunFacts,
    Times,
    TraceSet,
    as_recorded,
    is_generated,
    storage_table,
)

# --- settings as text ---------------------------------------------------------------------------


_FAULT = re.compile(
    r"(?P<kind>device|link|store):(?P<target>[^@]+)@(?P<at>[0-9.eE+]+)=(?P<factor>[0-9.eE+-]+)$"
)


def split_fault(text: str) -> Fault:
    """The fault of a text such as `device:3@1e6=0.5` or `link:0-1@0=0` (KIND:TARGET@NS=FACTOR).

    Devices and the ends of a link are ranks, or names that the machine has for them; `store:disk@0=0.5` names
    a store.
    """
    match = _FAULT.match(text)
    if match is None:
        raise ConfigError(
            f"--fault {text!r}: write device:RANK@NS=FACTOR (or a device's name), link:FROM-TO@NS=FACTOR or "
            "store:NAME@NS=FACTOR"
        )
    try:
        at, factor = float(match["at"]), float(match["factor"])
    except ValueError:
        raise ConfigError(f"--fault {text!r}: NS and FACTOR should be numbers") from None
    if match["kind"] == "device":
        target = match["target"]
        return Fault("device", _rank_or_name(target), at, factor)
    if match["kind"] == "store":
        return Fault("store", match["target"], at, factor)
    ends = [_rank_or_name(e) for e in match["target"].split("-", 1)]
    if len(ends) != 2:
        raise ConfigError(f"--fault {text!r}: a link has two ends, as in 0-1")
    return Fault("link", (ends[0], ends[1]), at, factor)


def _rank_or_name(text: str) -> int | str:
    """A rank; numbers that no rank has, and that Python may refuse to read, stay as they are written."""
    return int(text) if text.isdecimal() and len(text) < 19 else text


def read_network_model(path: str) -> Fixed:
    """The function of a network model's file that gives the simulator measured times."""
    from chakrakit.machines import NetworkModel

    return read_json(path, NetworkModel, "a network model").seconds


def read_placement(path: str) -> tuple[int, ...]:
    """The device of each rank, from a JSON list of numbers."""
    description = "a placement (the device of each rank, as in [2, 3, 0, 1])"
    return read_json(path, tuple[int, ...], description)


# --- the outcome as a Run -----------------------------------------------------------------------


Detail = Literal["summary", "classes", "full"]
"""`summary` has times only; `classes` also what each node of a class's first rank waited for; `full` has that
for every rank, which unfolds the run on disk where peers differ."""


def to_run(
    outcome: Outcome,
    machine: Machine,
    settings: dict[str, Any],
    facts: RunFacts,
    detail: Detail = "classes",
    limit: PowerLimited | None = None,
) -> Run:
    """The traces with their simulated times, in picoseconds; `limit` are the clocks that it ran with."""
    traces = outcome.membership.traces
    times = [_times(outcome, c, detail != "summary") for c in range(outcome.classes.count)]
    timing = {rank: int(c) for rank, c in zip(traces.ranks, outcome.classes.rank, strict=True)}
    # What the workload is stays known; how a recording was taken concerns its times alone.
    history = history_table(outcome)
    workload = as_recorded(traces.card.settings, history is not None)
    workload.pop("undilate", None)
    card = traces.card.replace(
        tool=SIMULATED, settings={**workload, "engine": "native", **settings}, tick_ps=1, epoch_ns=0
    )
    counters: dict[str, Any] = {
        "links": link_table(outcome, machine),
        "collectives": collective_table(outcome),
    }
    if outcome.stored is not None:
        counters["storage"] = storage_table(server_uses(outcome, machine))
    counters |= facts.tables()
    rates = link_rate_table(outcome, machine)
    if rates is not None:
        counters["link_rate"] = rates
    power = power_table(outcome, machine, limit) if limit is not None else None
    if power is not None:
        counters["power"] = power
    memory = history or memory_table(outcome)
    if memory is not None:
        counters["memory"] = memory
    if detail == "full":
        times, timing = _unfolded(outcome, times)
    return Run(
        traces.bodies,
        traces.bindings,
        traces.groups,
        card,
        times=times,
        timing=timing,
        counters=counters,
    )


def _times(outcome: Outcome, c: int, why: bool) -> Times:
    rows = outcome.rows(c)
    start, end = outcome.start[rows].copy(), outcome.end[rows].copy()
    end = nested_ends(outcome.program(c).trace, start, end, per_ns=1000)
    if not why:
        return Times(start, end)
    binding = outcome.binding[rows]
    owner = np.searchsorted(outcome.offset, binding, "right") - 1
    bound = binding >= 0
    row = np.where(bound, binding - outcome.offset[np.maximum(owner, 0)], -1).astype(np.int32)
    ranks = np.array(outcome.membership.ranks, np.int64)[outcome.classes.first]
    elsewhere = bound & (owner != c)
    rank = np.where(elsewhere, ranks[np.maximum(owner, 0)], -1).astype(np.int32)
    return Times(start, end, row, rank, outcome.reason[rows].copy())


def _unfolded(outcome: Outcome, times: list[Times]) -> tuple[list[Times], dict[int, int]]:
    """Times of every rank, with those that it waits for by their real rank."""
    out: list[Times] = []
    timing: dict[int, int] = {}
    for i, rank in enumerate(outcome.membership.ranks):
        timing[rank] = len(out)
        shared = times[int(outcome.classes.rank[i])]
        waits = _waits_for(outcome, i, shared)
        out.append(Times(shared.start, shared.end, shared.binding_row, waits, shared.reason))
    return out, timing


def _waits_for(outcome: Outcome, i: int, shared: Times) -> I32:
    """The ranks that the i-th waits for, row by row: the other end of a message, a member of a group."""
    membership = outcome.membership
    calls, peers = membership.communication.calls(i), membership.communication.peer_of_calls(i)
    groups = dict(zip(calls.roles, membership.group_of[i], strict=True))
    assert shared.binding_rank is not None
    moved = shared.binding_rank.copy()
    waiting = moved[calls.row] >= 0
    messages = waiting & ~calls.collective
    moved[calls.row[messages]] = peers[messages]
    together = waiting & calls.collective
    role, late = calls.role[together], moved[calls.row[together]]
    for one, rank in np.unique(np.c_[role, late], axis=0).tolist():
        members = membership.groups[groups[one]].members.tolist()
        rows = calls.row[together][(role == one) & (late == rank)]
        moved[rows] = _alike(outcome, rank, members)
    return moved


def _alike(outcome: Outcome, rank: int, members: list[int]) -> int:
    """The first member that does what this rank does."""
    place, classes = outcome.membership.index, outcome.classes.rank
    own = classes[place[rank]]
    return next((m for m in members if m in place and classes[place[m]] == own), rank)


def link_table(outcome: Outcome, machine: Machine) -> dict[str, Any]:
    """Every link that carried data: ends, bytes, time at full rate, share of the makespan."""
    names = machine.vertex_names()
    used = np.flatnonzero(outcome.link_bytes > 0)
    links = machine.links
    busy = outcome.link_bytes[used] / links.bandwidth[used] * 1e9
    makespan = outcome.makespan_ps / 1000
    return {
        "link": [str(i) for i in used.tolist()],
        "src": [names[v] for v in links.src[used]],
        "dst": [names[v] for v in links.dst[used]],
        "bandwidth": links.bandwidth[used],
        "bytes": outcome.link_bytes[used],
        "busy_ns": busy,
        "full_rate": outcome.full_rate[used],
        "full_since_ns": outcome.full_since[used] / 1000,
        "utilization": busy / makespan if makespan else busy * 0,
    }


_MOST_RATES = 400_000
"""Rows of the table of rates over all links: some 4 MB on disk."""


def link_rate_table(outcome: Outcome, machine: Machine) -> dict[str, Any] | None:
    """What each link that is used carries, the mean over each part of the run; None where that is too much.

    A link belongs to the rank at one of its ends, -1 where both are switches. Equal neighbours are left out.
    """
    used = np.flatnonzero(outcome.link_bytes > 0)
    parts = outcome.traffic.parts(_MOST_RATES // max(len(used), 1)) if outcome.traffic else 0
    if not parts or not len(used) or outcome.makespan_ps < parts * 1000:
        return None
    borders = np.linspace(0, outcome.makespan_ps, parts + 1).astype(np.int64)
    rates = outcome.traffic.rates(borders)[used] if outcome.traffic else np.zeros((0, 0))
    rates = np.pad(rates, ((0, 0), (0, 1)))  # nothing flows after the end
    steady = np.diff(rates, axis=1, prepend=-1.0) == 0
    link, part = np.nonzero(~steady)
    return {
        "rank": _rank_at(outcome, machine)[used][link],
        "time_ns": (borders // 1000).astype(np.int64)[part],
        "link": used[link].astype(str),
        "bytes_per_s": rates[link, part],
    }


def _rank_at(outcome: Outcome, machine: Machine) -> I64:
    """The rank at an end of each link, its sender first; -1 where neither end is a rank's device."""
    rank_on = np.full(max(len(machine.vertex_names()), machine.size), -1, np.int64)
    rank_on[outcome.device_of] = outcome.membership.ranks
    sender, receiver = rank_on[machine.links.src], rank_on[machine.links.dst]
    ranks: I64 = np.where(sender >= 0, sender, receiver)
    return ranks


def collective_table(outcome: Outcome) -> dict[str, Any]:
    """Every collective and message of the simulated classes: group, algorithm, last arrival and end."""
    instances = outcome.instances
    numbers = [i for i in range(len(instances.what)) if i not in instances.served]
    titles = [instances.what[i] for i in numbers]
    kinds, groups, seqs = zip(*titles, strict=True) if titles else ((), (), ())
    return {
        "collective": pa.array(kinds, pa.string()),
        "group": pa.array(groups, pa.string()),
        "seq": pa.array(seqs, pa.int64()),
        "algorithm": pa.array([instances.algorithm[i] for i in numbers], pa.string()),
        "comm_size": pa.array([instances.size[i] for i in numbers], pa.int64()),
        "copies": pa.array([len(instances.jobs[i]) for i in numbers], pa.int64()),
        "arrival_ns": outcome.began[numbers] / 1000,
        "end_ns": outcome.ended[numbers] / 1000,
    }


def memory_table(outcome: Outcome) -> dict[str, Any] | None:
    """Bytes held over time, by the lowest rank of each class."""
    ranks, times, sizes = [], [], []
    for c in range(outcome.classes.count):
        memory = class_memory(outcome, c)
        if memory is not None:
            rows = outcome.rows(c)
            time, after = memory.timeline(outcome.start[rows], outcome.end[rows])
            rank = outcome.membership.ranks[int(outcome.classes.first[c])]
            ranks.append(np.full(len(time), rank))
            times.append(time // 1000)
            sizes.append(after)
    if not ranks:
        return None
    joined = (np.concatenate(part) for part in (ranks, times, sizes))
    return dict(zip(("rank", "time_ns", "bytes"), joined, strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Facts):
    """A finished simulation: the summary at once, the Run when it is asked for."""

    outcome: Outcome
    machine: Machine
    summary: SimulationSummary
    settings: dict[str, Any]
    limit: PowerLimited | None = None

    @property
    def makespan_ns(self) -> float:
        """The end of the last node."""
        return self.summary.makespan_ns

    def facts(self) -> SimulationSummary:
        """The summary that `--json` prints."""
        return self.summary

    def run(self, detail: Detail = "classes") -> Run:
        """The traces with their times."""
        run = to_run(
            self.outcome, self.machine, self.settings, self.summary.run_facts, detail, self.limit
        )
        return run.with_card(self.summary.footprint.put(run.card))


@dataclass(frozen=True, eq=False)
class _Scheduled:
    """When everything ran, and what was settled before: the machine, the work model and all options."""

    outcome: Outcome
    machine: Machine
    options: SimulationOptions
    unframed: WorkModel
    """The work model without what a framework adds."""
    source: RecordedOn | None
    limit: PowerLimited


def outcome_of(
    traces: TraceSet,
    machine: Machine | str | None,
    *,
    compute: str | WorkModel = "auto",
    options: SimulationOptions | None = None,
) -> Outcome:
    """When everything runs, as `simulate` has it, for those who want no summary: it costs more than that."""
    return _scheduled(traces, machine, compute, options).outcome


def _scheduled(
    traces: TraceSet,
    machine: Machine | str | None,
    compute: str | WorkModel,
    options: SimulationOptions | None,
) -> _Scheduled:
    work = work_model(compute) if isinstance(compute, str) else compute
    source = _recorded_on(traces)
    if source is not None and isinstance(work, Auto):
        work = Recosted(work, source)
    framework = options.framework if options is not None else ""
    unframed = work
    if framework:
        work = InFramework(work, framework_named(framework))
    resolved = replace(options or SimulationOptions(), work=work)
    if machine is None:
        machine = _no_machine(traces, resolved)
    loaded = load_machine(machine) if isinstance(machine, str) else machine
    if work.name == "measured" or resolved.communication == "measured":
        traces = with_run_times(traces)
    traces = hosted(traces, resolved.host)
    if isinstance(unframed, Recosted) and unframed.recorded_on.name == CPU:
        traces = _computed_elsewhere(traces, loaded)
    try:
        outcome, limit = run_within_limits(traces, loaded, resolved)
    except DeadlockError as hang:
        if isinstance(hang.simulation, Outcome):
            hang.simulation = HungSimulation(hang.simulation, loaded, _settings(resolved))
        raise
    return _Scheduled(outcome, loaded, resolved, unframed, source, limit)


def simulate(
    traces: TraceSet,
    machine: Machine | str | None,
    *,
    compute: str | WorkModel = "auto",
    options: SimulationOptions | None = None,
) -> Simulation:
    """Simulates traces on a machine: a Machine, a name (`dgx-h100:4`) or a file.

    Without a machine all times must be measured ones.
    """
    done = _scheduled(traces, machine, compute, options)
    outcome, loaded, resolved = done.outcome, done.machine, done.options
    work, framework = resolved.work, resolved.framework
    names = {"network": resolved.network, "compute": work.name, "machine": loaded.name}
    names["rung"] = _rung(work, outcome, loaded)
    names["framework"] = framework
    summary = summarize(outcome, loaded, names, energy_of(outcome, loaded, done.limit))
    if done.source is not None:
        summary.notes += _carried_notes(done.unframed, done.source, outcome, loaded)
        summary.notes += [_HAS_FRAMEWORK.format(framework)] if framework else []
    elif isinstance(done.unframed, Auto):
        summary.notes += _unnamed_notes(traces, outcome)
    summary.notes += _placement_notes(outcome, loaded, resolved.placement is None)
    summary.notes += _recording_notes(traces, outcome, resolved)
    summary.notes += _host_notes(outcome)
    if work.name != "measured":
        summary.notes += [*_rate_notes(outcome, loaded), *_replaced_notes(traces, work)]
        summary.notes += _width_notes(traces)
    summary.notes += _class_notes(summary, resolved.network)
    summary.notes += clock_notes(outcome, loaded, done.limit)
    summary.notes += unit_notes(outcome, loaded)
    settings = {**_settings(resolved), **names, **_device_facts(loaded)}
    return Simulation(outcome, loaded, summary, settings, done.limit)


def _recorded_on(traces: TraceSet) -> RecordedOn | None:
    """What a recording was made on, as far as its card says."""
    name = traces.card.settings.get(RECORDED_DEVICE)
    return recorded_on(name) if isinstance(name, str) and name else None


def _carried_notes(
    work: WorkModel, source: RecordedOn, outcome: Outcome, machine: Machine
) -> list[str]:
    """Says whose times a recording was simulated with, and what was scaled rather than looked up."""
    used = sorted({int(machine.device_of[d]) for d in outcome.device_of.tolist()})
    other = [machine.devices[i] for i in used if not source.is_like(machine.devices[i])]
    if isinstance(work, Measured):
        return [f"times are those of {source.name}, as recorded"] if other else []
    if not isinstance(work, Recosted) or not other:
        return []
    to = " and ".join(sorted({d.name for d in other}))
    if source.name == CPU:
        return [f"recorded on a CPU: its operators take the times of kernels on {to}, one by one"]
    if source.device is None:
        return [
            f"recorded on {source.name}, which no preset has: operators take the times of {to}, "
            "other kernels those recorded"
        ]
    notes = [f"recorded on {source.name}, carried to {to} operation by operation"]
    shares = {s.source: s.time_share for s in compute_shares(outcome)}
    if work.scaled:
        most = ", ".join(name[:60] for name, _ in work.scaled.most_common(3))
        notes.append(
            f"{shares.get('scaled', 0.0):.1%} of the computing time is of kernels without a known "
            f"operation, scaled by the limits of the two devices ({most})"
        )
    return notes


def _unnamed_notes(traces: TraceSet, outcome: Outcome) -> list[str]:
    """Says where the times of a recording whose device was taken off its card stand for the machine's."""
    unnamed = traces.card.tool != CAPTURED and "anonymize" in map(str, traces.card.passes)
    if not unnamed or not any(
        s.source == "measured" and s.time_ns for s in compute_shares(outcome)
    ):
        return []
    return [
        "warning: recorded on a device that its card no longer names: its times are kept as they are on "
        "any machine"
    ]


_HAS_FRAMEWORK = (
    "--framework {} changes nothing that was recorded: its times hold what a framework adds"
)


def hosted(traces: TraceSet, wanted: bool) -> TraceSet:
    """A captured program with the host that launches it; all others as they are."""
    return pass_class("launched")().apply(traces) if wanted and _captured(traces) else traces


def _computed_elsewhere(traces: TraceSet, machine: Machine) -> TraceSet:
    """A CPU's recording without the time in which it computed what kernels of the machine compute.

    Most of a CPU operator's time lies between what it calls and its end, which is a gap of the host.
    """
    device = machine.devices[0]
    if not device.profile or device.name == CPU:
        return traces
    profile, traces = packaged_profile(device.profile), with_run_times(traces)
    rows_of_bodies = []
    for number in range(traces.body_count):
        works = operators_of(traces.body_at(number))
        known = (w.rows for w in works if profile.predict(w.operation) is not None)
        rows_of_bodies.append(np.array(sorted(row for rows in known for row in rows), np.int64))
    return Edit(scale=0.0, on="host").scaled_at(traces, rows_of_bodies)


def _captured(traces: TraceSet) -> bool:
    """Whether the traces come straight from `chakra capture` and no pass has given them a host."""
    passes = (str(p) for p in traces.card.passes)
    return traces.card.tool == CAPTURED and not any(p.startswith("launched") for p in passes)


def _placement_notes(outcome: Outcome, machine: Machine, own: bool) -> list[str]:
    """Says where ranks were placed with gaps, and which groups straddle nodes that could hold them."""
    ranks, size = outcome.membership.ranks, machine.node_size
    each = per_rack(max(ranks) + 1, machine)
    if own and each < size:
        return [f"{each} ranks to a node of {size}, so that no group straddles two nodes"]
    table = outcome.devices()
    groups = [g.members for g in outcome.membership.groups if 1 < len(g.members) <= size]
    devices = [np.array([table[m] for m in g.tolist() if m in table]) for g in groups]
    cut = [len(d) for d in devices if len(d) and straddling(d, machine)]
    if not cut:
        return []
    return [
        f"warning: {len(cut)} groups of {min(cut)} to {max(cut)} ranks straddle nodes of {size} devices; "
        "with more nodes, or a --placement, each would stay within one"
    ]


def _class_notes(summary: SimulationSummary, network: str) -> list[str]:
    """Says where classes and weights of traffic were given to a network that has none."""
    if network != "analytical" or len(summary.link_classes) < 2:
        return []
    return [
        "warning: link_priority and link_weight change nothing on the analytical network, where transfers "
        "share no links; use the flow network for them"
    ]


_MUCH_HOST = 0.1
"""The share of a run that a modelled host may take before the result says so."""


def _host_notes(outcome: Outcome) -> list[str]:
    """Says where much of a run is the time of a modelled host: hosts differ more than devices do."""
    if not has_modelled_host(outcome.membership.traces.card):
        return []
    if (share := host_share(outcome)) < _MUCH_HOST:
        return []
    return [
        f"warning: {100 * share:.0f} % of the time is the host's, at launch costs of one H200's; its "
        "interval is that of programs there, which took 1.3 to 1.5 times as long in one session as in another"
    ]


_MUCH_WORK = 0.1
"""The share of a run's FLOPs from which on what is assumed of them is said."""


def _rate_notes(outcome: Outcome, machine: Machine) -> list[str]:
    """Says where much of the work is of an element type whose rate a device does not state."""
    traces, flops = outcome.membership.traces, Counter[str]()
    for number in range(traces.body_count):
        names, codes = dtypes_of(body := traces.body_at(number))
        sums = np.bincount(codes, body.column("num_ops", 0).astype(np.float64), len(names))
        for name, of_type in zip(names, sums.tolist(), strict=True):
            flops[name] += of_type
    much = [n for n, of_type in flops.items() if of_type > _MUCH_WORK * flops.total()]
    devices = [machine.devices[i] for i in {int(machine.device_of[d]) for d in outcome.device_of}]
    gaps = (device.rate_gap(name) for name in much for device in devices)
    return list(dict.fromkeys(gap for gap in gaps if gap))


def _width_notes(traces: TraceSet) -> list[str]:
    """Says where generated products have widths that no kernel loads whole."""
    if not is_generated(traces.card):
        return []
    odd = total = 0.0
    for number in range(traces.body_count):
        body = traces.body_at(number)
        codes, shapes = body.texts("inputs_shapes")
        of_text = [any(size[-1] % ALIGNED for size in operand_sizes(text)) for text in shapes]
        phase, phases = body.texts("phase")
        forward = np.isin(phase, [i for i, name in enumerate(phases) if name == "forward"])
        flops = body.column("num_ops", 0) * (forward & typed_as(body, "matmul"))
        odd += float(flops[np.array([*of_text, False])[codes]].sum())
        total += float(flops.sum())
    if odd <= _MUCH_WORK * total:
        return []
    return [
        f"warning: {100 * odd / total:.0f} % of the products' FLOPs have a width that {ALIGNED} does not "
        "divide; they are timed as if it were padded, as Megatron-LM pads a vocabulary, and kernels for "
        "odd widths take several times as long"
    ]


def _replaced_notes(traces: TraceSet, work: WorkModel) -> list[str]:
    """Says where passes gave nodes times that the chosen model computes anew."""
    edits = [str(p) for p in traces.card.passes if str(p).partition("{")[0] in ("edit", "recost")]
    if not edits or isinstance(work, Auto):
        return []
    return [f"warning: --compute {work.name} replaces the times that {', '.join(edits)} gave"]


AS_RECORDED = 1e-3
"""A run with its own times differs from its recording by less than this share, or the result says so."""


def _recording_notes(recorded: TraceSet, outcome: Outcome, options: SimulationOptions) -> list[str]:
    """Says how far a run with all its measured times and no disturbance is from its recording."""
    measured = options.work.name == "measured" and options.communication == "measured"
    if not measured or not isinstance(recorded, Run) or options.disturbance != Disturbance():
        return []
    before, again = recorded.makespan_ns, outcome.makespan_ps / PS_PER_NS
    if abs(again - before) <= max(1.0, AS_RECORDED * before):
        return []
    return [
        f"warning: with its own times the run takes {again / 1e6:.4g} ms and took {before / 1e6:.4g} ms "
        "when it was recorded; its dependencies and lanes do not give the recorded order back"
    ]


def _rung(work: WorkModel, outcome: Outcome, machine: Machine) -> str:
    """The rung of the times that were used: `recorded` where all of the devices' times were."""
    sources = {s.source for s in compute_shares(outcome) if s.time_ns}
    if sources == {"measured"}:
        return RECORDED
    used = {int(machine.device_of[d]) for d in outcome.device_of.tolist()}
    return " and ".join(sorted({rung_of(work, machine.devices[i]) for i in used}))


def _no_machine(traces: TraceSet, options: SimulationOptions) -> Machine:
    """A machine with a device for every rank, and no peak, memory, power or price."""
    if options.work.name != "measured" or options.communication != "measured":
        raise ConfigError(
            "say what to simulate on: --machine NAME_OR_FILE; only --compute measured with "
            "--communication measured needs none"
        )
    return no_machine(traces.world_size)


def _device_facts(machine: Machine) -> dict[str, Any]:
    """For the card of the run: names, least memory, roof of the only kind of device, devices of a preset."""
    least = min(int(device.memory) for device in machine.devices)
    names = " and ".join(dict.fromkeys(device.name for device in machine.devices if device.name))
    return {
        **({"device": names} if names else {}),
        **({"device_memory_bytes": least} if least else {}),
        **_roof(machine),
        **({"machine_devices": machine.size} if machine.is_preset else {}),
    }


def _roof(machine: Machine) -> dict[str, Any]:
    """Peaks in bf16 (for MFU) and by element type, and the memory's bandwidth; nothing where kinds differ."""
    first, *others = machine.devices
    peak, bandwidth = first.peak_rate("bf16") / 1e12, first.memory_bandwidth / 1e9
    if others or not peak or not bandwidth:
        return {}
    peaks = {dtype: rate / 1e12 for dtype, rate in first.peak.items()}
    return {"device_peak_tflops": peak, "device_memory_gbps": bandwidth, "device_peaks": peaks}


def _settings(options: SimulationOptions) -> dict[str, Any]:
    """The settings of the simulation, for the card of the run."""
    settings: dict[str, Any] = {"algorithms": dict(options.algorithms.fixed) or "auto"}
    settings |= options.settings
    if options.placement is not None:
        settings["placement"] = list(options.placement)
    return settings
