"""How sure a simulated time is: the residuals of what lies on the critical path, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.machines.device import (
    CostSource,
    Device,
    dtypes_of,
    is_carried_recording,
    packaged_profile,
    typed_as,
)
from chakrakit.machines.fabric import Machine
from chakrakit.machines.residuals import (
    BETWEEN_NODES,
    HOST_GROUP,
    Contribution,
    TimeInterval,
    at_least,
    beside_host,
    collective_group,
    interval_of,
    kernel_group,
    step_group,
)
from chakrakit.simulator.collectives import GroupShape, data_bytes, ideal_seconds
from chakrakit.simulator.engine import COMM, COMPUTE, MEASURED, MESSAGE, Outcome
from chakrakit.trace.model import EdgeForm, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import CAPTURED, PS_PER_NS, Card, is_generated

_MOST_STEPS = 400_000
"""Rows that are followed back from the end; a longer path is told by its last ones."""
_PS = 1e-12
_STORAGE_GROUP = ("storage",)
"""Of which nothing was measured: its times add no width, and no interval begins before their sum."""
_DECODING = 32.0
"""FLOPs per byte below which attention reads a cache: that of a prompt or a training step has hundreds."""


def makespan_interval(
    outcome: Outcome, machine: Machine, rung: str, framework: str
) -> TimeInterval | None:
    """Where the time of the run should lie; None where all of it was measured, or nothing is known."""
    if not len(outcome.end):
        return None
    rows, seconds = _critical(outcome)
    generated = is_generated(outcome.membership.traces.card)
    step = step_group(framework, machine.name) if generated else ()
    parts = [
        *_kernels(outcome, machine, rung, rows, seconds),
        *_network(outcome, machine, rows, seconds),
        *_storage(outcome, rows, seconds),
        *_host(outcome, is_carried_recording(rung), rows, seconds),
    ]
    found = interval_of(outcome.makespan_ps * _PS, parts, step, _least_seconds(outcome, machine))
    whole = beside_host(found, _host_seconds(outcome))
    if whole is None or not any(part.group == HOST_GROUP for part in parts):
        return whole
    return at_least(whole, _devices_alone(outcome, machine, rung))


def _devices_alone(outcome: Outcome, machine: Machine, rung: str) -> TimeInterval | None:
    """The time in which the device that works longest would be done if its host kept it waiting nowhere."""
    host, busiest, longest = _hosted(outcome), np.zeros(0, np.int64), 0
    for c in range(outcome.classes.count):
        place = outcome.rows(c)
        works = np.flatnonzero(~host[place] & (outcome.program(c).kind == COMPUTE)) + place.start
        if len(works) and (busy := int(outcome.durations[works].sum())) > longest:
            busiest, longest = works, busy
    seconds = outcome.durations[busiest].astype(np.float64) * _PS
    # Kernels of several streams run beside each other: together they take no longer than the run.
    share = min(1.0, outcome.makespan_ps / longest) if longest else 1.0
    return interval_of(
        longest * _PS * share, _kernels(outcome, machine, rung, busiest, seconds * share)
    )


def _host_seconds(outcome: Outcome) -> float:
    """The busiest host's time at modelled costs; 0 where hosts are not modelled."""
    if not has_modelled_host(outcome.membership.traces.card):
        return 0.0
    host, longest = _hosted(outcome), 0
    for c in range(outcome.classes.count):
        rows = outcome.rows(c)
        longest = max(longest, int(outcome.durations[rows][host[rows]].sum()))
    return longest * _PS


def host_share(outcome: Outcome) -> float:
    """The share of the run in which nodes of a host are last on the way to its end."""
    if not len(outcome.end) or not outcome.makespan_ps:
        return 0.0
    rows, seconds = _critical(outcome)
    return float(seconds[_hosted(outcome)[rows]].sum() / (outcome.makespan_ps * _PS))


def _critical(outcome: Outcome) -> tuple[I64, F64]:
    """The rows from the last end back to the beginning, each with its time that nothing later covers."""
    start, end, binding = outcome.start, outcome.end, outcome.binding
    kept = _kept_from_ending(outcome)
    row, now = int(np.argmax(end)), int(end.max())
    rows, seconds = [], []
    for _ in range(_MOST_STEPS):
        if kept[row] >= 0 and now >= end[row]:
            row = int(kept[row])
            now = min(now, int(end[row]))
            continue
        begin = int(start[row])
        if begin < now:
            rows.append(row)
            seconds.append((min(now, int(end[row])) - begin) * _PS)
        now = min(now, begin)
        row = int(binding[row])
        if row < 0 or now <= 0:
            break
    return np.array(rows, np.int64), np.maximum(np.array(seconds, np.float64), 0.0)


def _kept_from_ending(outcome: Outcome) -> I64:
    """For each row the one whose end it waits for before its own, as a host does for a kernel; else -1."""
    kept = np.full(len(outcome.end), -1, np.int64)
    for c in range(outcome.classes.count):
        place, edges = outcome.rows(c), outcome.program(c).trace.edges
        edges = edges.where(edges.form == EdgeForm.FINISH_FINISH)
        start, end, own = (a[place] for a in (outcome.start, outcome.end, outcome.durations))
        allowed = end[edges.src] + edges.lag * PS_PER_NS
        last = (allowed >= end[edges.dst]) & (start + own < end)[edges.dst]
        kept[edges.dst[last] + place.start] = edges.src[last] + place.start
    return kept


def _kernels(
    outcome: Outcome, machine: Machine, rung: str, rows: I64, seconds: F64
) -> Iterator[Contribution]:
    device = machine.devices[0]
    system = _measured_system(device, rung)
    carried = "carried profile" if "carried" in rung else "measured profile"
    for c in range(outcome.classes.count):
        program, place = outcome.program(c), outcome.rows(c)
        mine = np.flatnonzero((rows >= place.start) & (rows < place.stop))
        mine = mine[program.kind[rows[mine] - place.start] == COMPUTE]
        mine = mine[np.isin(outcome.sources[rows[mine]], _PREDICTED)]
        kind_of, least = KindsOfWork(program.trace), _bounds(program.trace, machine)
        for row, spent in _alike(outcome, kind_of, rows[mine], seconds[mine], place.start):
            source = int(outcome.sources[row])
            local, whole = row - place.start, float(outcome.durations[row]) * _PS
            known = "data sheet" if source == CostSource.ROOFLINE else carried
            # A recorded kernel scaled by the limits of two devices keeps how well it used the first one, as a
            # carried one does; no operation says that it was measured on the second.
            beyond = source in (CostSource.EXTRAPOLATED, CostSource.SCALED)
            group = kernel_group(known, system, kind_of(local), whole, beyond)
            operation = f"{device.name}: {kind_of.operation(local, whole)}"
            yield Contribution(group, operation, spent, spent * _share(float(least[local]), whole))


def _share(least: float, whole: float) -> float:
    """The share of a predicted time below which no data sheet lets it fall."""
    return min(1.0, least / whole) if whole else 0.0


def _measured_system(device: Device, rung: str) -> str:
    """The name of a device by which its residuals are known: its profile's where that was made of its own.

    A profile of a similar device says nothing of how far carrying from it is off.
    """
    if not device.profile or rung.startswith("measured profile"):
        return device.profile or device.name
    own = packaged_profile(device.profile).profile.device == device.name
    return device.profile if own else device.name


def _bounds(trace: Trace, machine: Machine) -> F64:
    """By row, the seconds that its FLOPs and bytes take by the data sheet of the fastest device."""
    bounds: F64 = np.minimum.reduce([_bounds_on(trace, device) for device in machine.devices])
    return np.where(trace.has("unit"), 0.0, bounds) if "unit" in trace.column_names else bounds


def _bounds_on(trace: Trace, device: Device) -> F64:
    """Those at the peak rate and the full bandwidth of the memory."""
    flops, moved = (trace.column(n, 0).astype(np.float64) for n in ("num_ops", "tensor_size"))
    # Fused attention runs in 16 bits, whatever its type.
    kinds, codes = dtypes_of(trace)
    codes = np.where(typed_as(trace, "attention"), len(kinds), codes)
    rates = np.array([device.peak_rate(kind) or np.inf for kind in (*kinds, "bf16")])
    bounds: F64 = np.maximum(flops / rates[codes], moved / (device.memory_bandwidth or np.inf))
    return bounds


def _least_seconds(outcome: Outcome, machine: Machine) -> float:
    """What the busiest device needs for its predicted work by the data sheet alone."""
    longest = 0.0
    for c in range(outcome.classes.count):
        place, trace = outcome.rows(c), outcome.program(c).trace
        predicted = np.isin(outcome.sources[place], _PREDICTED) & ~on_host(trace)
        least = np.minimum(_bounds(trace, machine), outcome.durations[place] * _PS)
        longest = max(longest, float(least[predicted].sum()))
    return longest


_PREDICTED = (CostSource.PROFILE, CostSource.EXTRAPOLATED, CostSource.ROOFLINE, CostSource.SCALED)


def _alike(
    outcome: Outcome, kind_of: KindsOfWork, rows: I64, seconds: F64, first: int
) -> Iterator[tuple[int, float]]:
    """One row for all that do the same work in the same time, with the seconds of all of them."""
    times = (outcome.durations[rows], outcome.sources[rows].astype(np.int64))
    facts: list[I64] = [*kind_of.facts(rows - first), *times]
    order = np.lexsort(facts)
    changes = np.zeros(len(rows), np.bool_)
    for fact in facts:
        changes[1:] |= fact[order][1:] != fact[order][:-1]
    starts = np.flatnonzero(changes | (np.arange(len(rows)) == 0))
    if len(starts):
        sums = np.add.reduceat(seconds[order], starts)
        yield from zip(rows[order][starts].tolist(), sums.tolist(), strict=True)


def _host(outcome: Outcome, carried: bool, rows: I64, seconds: F64) -> Iterator[Contribution]:
    """The time of a host that was not measured: one with modelled costs, or the recorded one elsewhere.

    Of a recording all that the devices and the network do not take is the host's: also what lies between
    its calls.
    """
    host = _hosted(outcome)[rows]
    mine = float(seconds[host].sum())
    if carried and mine > 0:
        mine = outcome.makespan_ps * _PS - float(seconds[~host].sum())
    elif not has_modelled_host(outcome.membership.traces.card):
        return
    if mine > 0:
        yield Contribution(HOST_GROUP, "host", mine)


def has_modelled_host(card: Card) -> bool:
    """Whether operations of the host have modelled costs: a captured program has no others."""
    return card.tool == CAPTURED or any(str(p).startswith("launched") for p in card.passes)


def _hosted(outcome: Outcome) -> Mask:
    """Which rows of the outcome run on a host."""
    parts = [on_host(outcome.program(c).trace) for c in range(outcome.classes.count)]
    return np.concatenate(parts)


class KindsOfWork:
    """What rows of a trace do, as residuals tell it apart."""

    def __init__(self, trace: Trace) -> None:
        self._code, self._names = trace.texts("op_type")
        self._flops, self._moved = (trace.column(n, 0) for n in ("num_ops", "tensor_size"))

    def __call__(self, row: int) -> str:
        """`matmul`, `attention`, `decode`, `lookup` or `vector`."""
        code, flops = int(self._code[row]), self._flops[row]
        name = self._names[code] if code >= 0 else "matmul" if flops else "vector"
        reads = name == "attention" and flops < _DECODING * self._moved[row]
        return "decode" if reads else name

    def facts(self, rows: I64) -> list[I64]:
        """What tells rows apart: their class, FLOPs and bytes."""
        return [np.asarray(column[rows]) for column in (self._code, self._flops, self._moved)]

    def operation(self, row: int, seconds: float) -> str:
        """What is one operation wherever it runs: its work, or its time where the work is not known."""
        flops, moved = float(self._flops[row]), float(self._moved[row])
        size = f"{flops:.3e} {moved:.3e}" if flops or moved else f"{seconds:.3e} s"
        return f"{self(row)} {size}"


def _network(outcome: Outcome, machine: Machine, rows: I64, seconds: F64) -> Iterator[Contribution]:
    node = {rank: place // machine.node_size for rank, place in outcome.devices().items()}
    wide, far = _groups_between_nodes(outcome, node), len(set(node.values())) > 1
    kinds = np.concatenate([outcome.program(c).kind for c in range(outcome.classes.count)])
    instances, name = outcome.instances, machine.name.partition(":")[0]
    for i in np.flatnonzero(kinds[rows] == COMM).tolist():
        instance = int(instances.of_row[rows[i]])
        if instance < 0 or instances.algorithm[instance] == MEASURED:
            continue
        (collective, group, _), size = instances.what[instance], instances.size[instance]
        system = BETWEEN_NODES if group in wide or (far and collective == MESSAGE) else name
        whole = float(outcome.end[rows[i]] - outcome.start[rows[i]]) * _PS
        known = collective_group(system, collective, whole)
        spent, shape = float(seconds[i]), instances.shape[instance]
        # A collective that later rows cover in part has done a part of its transfers by then.
        least = max(0.0, _ideal(collective, size, shape) - (whole - spent))
        yield Contribution(known, f"{collective} {size}", spent, least)


def _storage(outcome: Outcome, rows: I64, seconds: F64) -> Iterator[Contribution]:
    """The time of storage servers, which move their bytes no faster than the machine says that they do."""
    parts = [outcome.program(c).trace.has("storage") for c in range(outcome.classes.count)]
    spent = float(seconds[np.concatenate(parts)[rows]].sum())
    if spent > 0:
        yield Contribution(_STORAGE_GROUP, "storage", spent, spent)


def _ideal(collective: str, size: int, shape: GroupShape | None) -> float:
    """Seconds of a collective at full bandwidth without latency; 0 for messages."""
    if shape is None:
        return 0.0
    each = size if collective == "all-to-all" else data_bytes(collective, size, shape.n)
    return ideal_seconds(collective, each, shape)


def _groups_between_nodes(outcome: Outcome, node: Mapping[int, int]) -> set[str]:
    """The groups whose ranks are on more than one node."""
    return {
        group.name
        for group in outcome.membership.groups
        if len({node.get(m, -1) for m in group.members.tolist()}) > 1
    }
