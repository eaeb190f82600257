"""A simulation that hangs: its Run up to then, and how far each rank had got."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine import Outcome
from chakrakit.trace.communication import Binding
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.sets import SIMULATED, Card, Run, Times

COMMUNICATION = (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
RECORDER = "simulation"
"""What the card of such a run names as its recorder: its calls have states, and some never ended."""


@dataclass(frozen=True, eq=False)
class HungSimulation:
    """What a simulation had done when nothing could go on any more; a DeadlockError brings it."""

    outcome: Outcome
    machine: Machine
    settings: dict[str, Any]

    @property
    def reason(self) -> str:
        """What waits for what, as the error says it."""
        return self.outcome.stuck

    @property
    def stopped_ps(self) -> int:
        """When the last thing happened."""
        return int(max(self.outcome.start.max(initial=0), self.outcome.end.max(initial=0)))

    def run(self) -> Run:
        """All that began: what had not ended then ends at the time of the stop, and calls say their state."""
        outcome = self.outcome
        parts = [self._class(c) for c in range(outcome.classes.count)]
        traces = outcome.membership.traces
        bindings = {}
        for rank, number in zip(traces.ranks, outcome.classes.rank.tolist(), strict=True):
            old = traces.bindings[rank]
            bindings[rank] = Binding(int(number), dict(old.groups), dict(old.peers), old.scale)
        card = Card(
            name=traces.card.name,
            kind="run",
            tool=SIMULATED,
            settings={**self.settings, "recorder": RECORDER, "stuck": self.reason},
            tick_ps=1,
        )
        timing = {rank: binding.body for rank, binding in bindings.items()}
        bodies, times = [body for body, _ in parts], [t for _, t in parts]
        return Run(
            bodies,
            bindings,
            traces.groups,
            card,
            times=times,
            timing=timing,
            counters={"progress": self.progress()},
        )

    def _class(self, c: int) -> tuple[Trace, Times]:
        """The body of a class as far as it came, with its times."""
        rows = self.outcome.rows(c)
        start, end = self.outcome.start[rows], self.outcome.end[rows]
        begun = start >= 0
        ended = np.where(end >= 0, end, self.stopped_ps)[begun]
        body = self.outcome.program(c).trace
        marked = body.with_columns(
            {"comm_state": _states(body, end >= 0), "comm_seq": self._numbers(c, body)}
        )
        return marked.select(np.flatnonzero(begun)), Times(start[begun], ended)

    def _numbers(self, c: int, body: Trace) -> pa.Array:
        """The number of each collective within its group, as it is when all rows are there."""
        calls = self.outcome.membership.traces.calls_at(
            self.outcome.membership.body(int(self.outcome.classes.first[c]))
        )
        number = np.full(len(body), -1, np.int64)
        for role in range(len(calls.names)):
            mine = calls.row[calls.collective & (calls.role == role)]
            number[mine] = np.arange(len(mine))
        recorded = calls.seq >= 0
        number[calls.row[recorded]] = calls.seq[recorded]
        return pa.array(number, mask=number < 0)

    def progress(self) -> dict[str, Any]:
        """For every rank in a call that is on its way: bytes sent and received, and all that are due."""
        outcome = self.outcome
        rank_on = {d: r for r, d in outcome.devices().items()}
        names = ("sent", "to_send", "received", "to_receive", "held")
        columns: dict[str, list[Any]] = {
            n: [] for n in ("rank", "collective", "group", "seq", *names)
        }
        assert outcome.progress is not None
        for p in outcome.progress.by_device(outcome.instances):
            kind, group, number = outcome.instances.what[p.instance]
            group_class = outcome.instances.group_class[p.instance]
            if group_class >= 0:
                copies = outcome.classes.groups_of(group_class)
                group = outcome.membership.groups[int(copies[p.copy])].name
            values = (rank_on.get(p.device, -1), kind, group, number, *p[3:])
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value)
        types = (pa.int64(), pa.string(), pa.string(), pa.int64(), *[pa.float64()] * 5)
        return {n: pa.array(v, t) for (n, v), t in zip(columns.items(), types, strict=True)}


def _states(body: Trace, ended: Mask) -> pa.Array:
    """`completed` or `started` for calls; a call that never began is not in the run at all."""
    talks: Mask = body.is_type(*COMMUNICATION)
    codes: I64 = np.where(ended, 1, 0)
    indices = pa.array(codes.astype(np.int32), mask=~talks)
    return pa.DictionaryArray.from_arrays(indices, pa.array(["started", "completed"], pa.string()))
