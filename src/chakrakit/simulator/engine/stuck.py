"""Errors for simulations that stop early, with the rank, group and node that wait."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import DeadlockError, TraceError
from chakrakit.machines.device import HORIZON_DAYS
from chakrakit.simulator.engine.instances import MESSAGE, Instances
from chakrakit.simulator.engine.membership import Membership, RowNames
from chakrakit.simulator.engine.stored import LOAD, STORE
from chakrakit.trace.communication import Classes

_SHOWN = 4
"""Waiting nodes that an error lists: enough to see a pattern, few enough to read."""


def check_finished(
    membership: Membership,
    classes: Classes,
    offset: I64,
    instances: Instances,
    arrays: dict[str, Any],
) -> None:
    """Raises a DeadlockError that names waiting ranks, groups and nodes, unless every row has ended."""
    if len(arrays["end"]) == 0 or arrays["end"].min() >= 0:
        return
    names = RowNames(membership, classes, offset)
    waits = _waiting(instances, arrays, names) or _stalled(instances, arrays, names)
    waits = waits or _circular(arrays, names)
    ranks = len({names.rank(int(r)) for r in np.flatnonzero(arrays["end"] < 0)})
    more = f"; and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    raise DeadlockError(
        f"the simulation stops with work undone on {ranks} of the ranks simulated: "
        + "; ".join(waits[:_SHOWN])
        + more
    )


def check_horizon(
    membership: Membership, classes: Classes, offset: I64, arrays: dict[str, Any]
) -> None:
    """Raises a TraceError that names the first row beyond the clock's horizon, if there is one."""
    if arrays["beyond"] >= 0:
        node = RowNames(membership, classes, offset).node(int(arrays["beyond"]))
        raise TraceError(
            f"the simulation lasts more than {HORIZON_DAYS} days, which is all its clock has: "
            f"{node} would still be at work; check the unit of durations and lags (ns), "
            "device_share, bandwidths, latencies and factors"
        )


def _title(instance: tuple[str, str, int]) -> str:
    kind, group, seq = instance
    if kind == MESSAGE:
        return f"a message with tag {seq}"
    if kind in (LOAD, STORE):
        return f"a {kind} at {group!r}"
    return f"{kind} {seq} of group {group or '(all ranks)'}"


def _waiting(instances: Instances, arrays: dict[str, Any], names: RowNames) -> list[str]:
    """Collectives that some members have reached and others never will."""
    out = []
    needed = np.array(instances.needed, np.int64)
    for i in np.flatnonzero((arrays["arrived"] > 0) & (arrays["arrived"] < needed)).tolist():
        rows = np.flatnonzero(instances.of_row == i)
        arrived = [int(r) for r in rows if arrays["start"][r] >= 0]
        missing = [int(r) for r in rows if arrays["start"][r] < 0]
        out.append(
            f"{names.node(arrived[0])} waits in {_title(instances.what[i])} for "
            f"{names.node(missing[0])}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        )
    return out


def _stalled(instances: Instances, arrays: dict[str, Any], names: RowNames) -> list[str]:
    """Transfers and kernels that began and cannot end: a failed link or device."""
    running = np.flatnonzero((arrays["start"] >= 0) & (arrays["end"] < 0))
    out = []
    for row in running[:64].tolist():
        i = int(instances.of_row[row])
        where = f" in {_title(instances.what[i])}, on a link that has failed" if i >= 0 else ""
        out.append(
            f"{names.node(row)} began{where} and never ends"
            + ("" if where else ": its device has failed, or what it waits for")
        )
    return out


def _circular(arrays: dict[str, Any], names: RowNames) -> list[str]:
    row = int(np.flatnonzero(arrays["start"] < 0)[0])
    return [
        f"{names.node(row)} waits for what waits for it: its dependencies, or the order on its stream "
        "or thread, form a circle"
    ]
