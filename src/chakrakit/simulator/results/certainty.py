"""How sure a simulated time is: the residuals of what lies on the critical path, put together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.machines.device import CostSource
from chakrakit.machines.fabric import Machine
from chakrakit.machines.residuals import (
    BETWEEN_NODES,
    Contribution,
    Interval,
    collective_group,
    interval_of,
    kernel_group,
    step_group,
)
from chakrakit.simulator.engine import COMM, COMPUTE, MEASURED, MESSAGE, Outcome
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import GENERATED

_MOST_STEPS = 400_000
"""Rows that are followed back from the end; a longer path is told by its last ones."""
_PS = 1e-12
_DECODING = 32.0
"""FLOPs per byte below which attention reads a cache: that of a prompt or a training step has hundreds."""


def makespan_interval(
    outcome: Outcome, machine: Machine, rung: str, framework: str
) -> Interval | None:
    """Where the time of the run should lie; None where all of it was measured, or nothing is known."""
    if not len(outcome.end):
        return None
    rows, seconds = _critical(outcome)
    generated = outcome.membership.traces.card.tool == GENERATED
    step = step_group(framework, machine.name) if generated else ()
    parts = [
        *_kernels(outcome, machine, rung, rows, seconds),
        *_network(outcome, machine, rows, seconds),
    ]
    return interval_of(outcome.makespan_ps * _PS, parts, step)


def host_share(outcome: Outcome) -> float:
    """The share of the run in which nodes of a host are last on the way to its end."""
    if not len(outcome.end) or not outcome.makespan_ps:
        return 0.0
    rows, seconds = _critical(outcome)
    parts = [on_host(outcome.program(c).trace) for c in range(outcome.classes.count)]
    return float(seconds[np.concatenate(parts)[rows]].sum() / (outcome.makespan_ps * _PS))


def _critical(outcome: Outcome) -> tuple[I64, F64]:
    """The rows from the last end back to the beginning, each with its time that nothing later covers."""
    start, end, binding = outcome.start, outcome.end, outcome.binding
    row, now = int(np.argmax(end)), int(end.max())
    rows, seconds = [], []
    for _ in range(_MOST_STEPS):
        begin = int(start[row])
        if begin < now:
            rows.append(row)
            seconds.append((min(now, int(end[row])) - begin) * _PS)
        now = min(now, begin)
        row = int(binding[row])
        if row < 0 or now <= 0:
            break
    return np.array(rows, np.int64), np.maximum(np.array(seconds, np.float64), 0.0)


def _kernels(
    outcome: Outcome, machine: Machine, rung: str, rows: I64, seconds: F64
) -> Iterator[Contribution]:
    system = machine.devices[0].profile or machine.devices[0].name
    carried = "carried profile" if "carried" in rung else "measured profile"
    for c in range(outcome.classes.count):
        program, place = outcome.program(c), outcome.rows(c)
        mine = np.flatnonzero((rows >= place.start) & (rows < place.stop))
        mine = mine[program.kind[rows[mine] - place.start] == COMPUTE]
        kind_of = KindsOfWork(program.trace)
        for i in mine.tolist():
            row = int(rows[i])
            source = int(outcome.sources[row])
            if source not in (CostSource.PROFILE, CostSource.EXTRAPOLATED, CostSource.ROOFLINE):
                continue
            kind, whole = kind_of(row - place.start), float(outcome.durations[row]) * _PS
            known = "data sheet" if source == CostSource.ROOFLINE else carried
            group = kernel_group(known, system, kind, whole, source == CostSource.EXTRAPOLATED)
            yield Contribution(group, f"{kind} {whole:.3e}", float(seconds[i]))


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


def _network(outcome: Outcome, machine: Machine, rows: I64, seconds: F64) -> Iterator[Contribution]:
    wide = _groups_between_nodes(outcome, machine)
    kinds = np.concatenate([outcome.program(c).kind for c in range(outcome.classes.count)])
    instances, name = outcome.instances, machine.name.partition(":")[0]
    for i in np.flatnonzero(kinds[rows] == COMM).tolist():
        instance = int(instances.of_row[rows[i]])
        if instance < 0 or instances.algorithm[instance] == MEASURED:
            continue
        (collective, group, _), size = instances.what[instance], instances.size[instance]
        system = BETWEEN_NODES if group in wide or (wide and collective == MESSAGE) else name
        whole = float(outcome.end[rows[i]] - outcome.start[rows[i]]) * _PS
        known = collective_group(system, collective, whole)
        yield Contribution(known, f"{collective} {size}", float(seconds[i]))


def _groups_between_nodes(outcome: Outcome, machine: Machine) -> set[str]:
    """The groups whose ranks are on more than one node."""
    device = outcome.devices()
    node = {rank: place // machine.node_size for rank, place in device.items()}
    return {
        group.name
        for group in outcome.membership.groups
        if len({node.get(m, -1) for m in group.members.tolist()}) > 1
    }
