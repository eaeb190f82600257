"""Communication with measured times: transfers last as long as recorded, and only waiting is simulated."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import TraceError
from chakrakit.machines.device import MOST_NS, PS_PER_S, nanoseconds_to_ticks
from chakrakit.simulator.engine.instances import Instances
from chakrakit.simulator.engine.plans import TransferPlans
from chakrakit.simulator.engine.program import Program
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import PS_PER_NS

MEASURED = "measured"


def as_measured(instances: Instances, programs: list[Program], book: TransferPlans) -> I64:
    """Gives every instance its measured transfer; returns the array `after` of a workload."""
    after, transfer = MeasuredTransfers(instances, programs).times()
    for i, nanos in enumerate(transfer.tolist()):
        copies = len(instances.jobs[i])
        first = book.add_fixed(nanos * PS_PER_NS / PS_PER_S, copies)
        instances.jobs[i] = np.arange(first, first + copies)
        instances.overhead[i] = 0.0
        instances.algorithm[i] = MEASURED
    return after


class MeasuredTransfers:
    """When the members of every instance arrived and ended, and how long its transfer lasts after that.

    The transfer lasts from the last arrival to the first end of a member. Members that ended later end
    as much later again. A member that ended before the last one arrived, such as a buffered send, does not
    wait for it: it lasts as long as it did.
    """

    def __init__(self, instances: Instances, programs: list[Program]) -> None:
        start = _concat([p.trace.start_ns for p in programs])
        end = _concat([p.trace.end_ns for p in programs])
        if len(instances.needed) and not any(p.trace.is_timed for p in programs):
            raise TraceError(
                "communication has no measured times: link a recording or simulate first, or leave out "
                "--communication measured"
            )
        self._duration = _concat([p.trace.duration_ns for p in programs])
        self._own = _concat([p.trace.own_ns for p in programs])
        self._rows = np.flatnonzero(instances.of_row >= 0)
        self._instance = instances.of_row[self._rows]
        self._count = len(instances.needed)
        arrival = np.full(self._count, np.iinfo(np.int64).min)
        np.maximum.at(arrival, self._instance, start[self._rows])
        self._early = end[self._rows] < arrival[self._instance]
        since = np.where(self._early, start[self._rows], arrival[self._instance])
        self._lasts = end[self._rows] - since
        """By row: of a member that did not wait how long it lasted, of others how long after all arrived."""

    def times(self, own: I64 | None = None) -> tuple[I64, I64]:
        """The array `after` of a workload in ps, and the nanoseconds of every instance's transfer.

        `own` are the rows' own times, as passes may scale them; by default those of the traces.
        """
        rows, early = self._rows, self._early
        nanos = np.rint(self._lasts * self._scale(self._own if own is None else own)[rows])
        lasts = nanos.astype(np.int64)
        after = np.zeros(len(self._duration), np.int64)
        after[rows[early]] = -1 - lasts[early]
        transfer = np.full(self._count, np.iinfo(np.int64).max)
        of = self._instance[~early]
        np.minimum.at(transfer, of, lasts[~early])
        after[rows[~early]] = lasts[~early] - transfer[of]
        ticks = nanoseconds_to_ticks(np.where(after < 0, after + 1, after), lambda _: "a transfer")
        never = transfer == np.iinfo(np.int64).max
        return np.where(after < 0, ticks - 1, ticks), np.where(never, 0, transfer)

    def _scale(self, own: I64) -> F64:
        """The factor by which a row takes longer than recorded."""
        return np.where(self._duration > 0, own / np.maximum(self._duration, 1), 1.0)


def recorded_starts(programs: list[Program]) -> I64:
    """For each row, how long after the first rank its rank began, in ps."""
    first = [int(p.trace.start_ns.min()) if len(p) else 0 for p in programs]
    apart = max(first, default=0) - min(first, default=0)
    if apart > MOST_NS:
        raise TraceError(
            f"ranks were recorded {apart / 1e9:,.0f} s apart, which is more than can "
            "be simulated; link recordings of one run"
        )
    begin = (np.array(first, np.int64) - min(first, default=0)) * PS_PER_NS
    return np.repeat(begin, [len(p) for p in programs])


def refuse_shares(body: Trace) -> None:
    """Raises an error for device shares beside measured times, which already include the cost of sharing."""
    shared = np.flatnonzero(body.has("device_share"))
    if len(shared) and body.is_timed:
        raise TraceError(
            f"node {body.ids[shared[0]]} ({body[int(shared[0])].name!r}) has a device_share, and its "
            "measured time holds what that costs; simulate the traces that the run was made from"
        )


def _concat(parts: list[I64]) -> I64:
    return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)
