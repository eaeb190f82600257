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
    """Gives every instance its measured transfer; returns the array `after` of a workload.

    The transfer lasts from the last arrival to the first end of a member. Members that ended later end
    as much later again. A member that ended before the last one arrived, such as a buffered send, does not
    wait for it: it lasts as long as it did.
    """
    start = _concat([p.trace.start_ns for p in programs])
    end = _concat([p.trace.end_ns for p in programs])
    if len(instances.needed) and not any(p.trace.is_timed for p in programs):
        raise TraceError(
            "communication has no measured times: link a recording or simulate first, or leave out "
            "--communication measured"
        )
    after = np.zeros(len(start), np.int64)
    rows = np.flatnonzero(instances.of_row >= 0)
    instance = instances.of_row[rows]
    count = len(instances.needed)
    arrival = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(arrival, instance, start[rows])
    early = end[rows] < arrival[instance]
    scale = _scale(programs)
    after[rows[early]] = -1 - _times(end[rows[early]] - start[rows[early]], scale[rows[early]])
    rest, of = rows[~early], instance[~early]
    lasts = _times(end[rest] - arrival[of], scale[rest])
    transfer = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(transfer, of, lasts)
    after[rest] = lasts - transfer[of]
    _fix(instances, book, np.where(transfer == np.iinfo(np.int64).max, 0, transfer))
    ticks = nanoseconds_to_ticks(np.where(after < 0, after + 1, after), lambda _: "a transfer")
    return np.where(after < 0, ticks - 1, ticks)


def _scale(programs: list[Program]) -> F64:
    """The factor by which a row takes longer than recorded, as passes may scale rows."""
    duration = _concat([p.trace.duration_ns for p in programs])
    own_ns = _concat([p.trace.own_ns for p in programs])
    return np.where(duration > 0, own_ns / np.maximum(duration, 1), 1.0)


def _times(nanos: I64, scale: F64) -> I64:
    return np.rint(nanos * scale).astype(np.int64)


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


def _fix(instances: Instances, book: TransferPlans, transfer: I64) -> None:
    for i, nanos in enumerate(transfer.tolist()):
        copies = len(instances.jobs[i])
        first = book.add_fixed(nanos * PS_PER_NS / PS_PER_S, copies)
        instances.jobs[i] = np.arange(first, first + copies)
        instances.overhead[i] = 0.0
        instances.algorithm[i] = MEASURED


def _concat(parts: list[I64]) -> I64:
    return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)
