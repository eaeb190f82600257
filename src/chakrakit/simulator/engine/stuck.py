"""When a simulation stops early: who waits for what, by rank, group and node."""

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


def check_finished(
    membership: Membership,
    classes: Classes,
    offset: I64,
    instances: Instances,
    found: dict[str, Any],
) -> None:
    """A DeadlockError that names the waiting ranks, groups and nodes, unless every row has ended."""
    if len(found["end"]) == 0 or found["end"].min() >= 0:
        return
    names = RowNames(membership, classes, offset)
    waits = _waiting(instances, found, names) or _stalled(instances, found, names)
    waits = waits or _circular(found, names)
    ranks = len({names.rank(int(r)) for r in np.flatnonzero(found["end"] < 0)})
    more = f"; and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    raise DeadlockError(
        f"the simulation stops with work undone on {ranks} of the ranks simulated: "
        + "; ".join(waits[:_SHOWN])
        + more
    )


def check_horizon(
    membership: Membership, classes: Classes, offset: I64, found: dict[str, Any]
) -> None:
    """A TraceError that names the first row after the end of the clock, if there is one."""
    if found["beyond"] >= 0:
        node = RowNames(membership, classes, offset).node(int(found["beyond"]))
        raise TraceError(
            f"the simulation goes on for more than {HORIZON_DAYS} days, which is all its clock has: "
            f"{node} would still be at work; check the unit of durations and lags (ns), "
            "device_share, bandwidths, latencies and factors"
        )


def _title(what: tuple[str, str, int]) -> str:
    kind, group, seq = what
    if kind == MESSAGE:
        return f"a message with tag {seq}"
    if kind in (LOAD, STORE):
        return f"a {kind} at {group!r}"
    return f"{kind} {seq} of group {group or '(all ranks)'}"


def _waiting(instances: Instances, found: dict[str, Any], names: RowNames) -> list[str]:
    """Collectives that some members have reached and others never will."""
    out = []
    needed = np.array(instances.needed, np.int64)
    for i in np.flatnonzero((found["arrived"] > 0) & (found["arrived"] < needed)).tolist():
        rows = np.flatnonzero(instances.of_row == i)
        here = [int(r) for r in rows if found["start"][r] >= 0]
        gone = [int(r) for r in rows if found["start"][r] < 0]
        out.append(
            f"{names.node(here[0])} waits in {_title(instances.what[i])} for "
            f"{names.node(gone[0])}" + (f" and {len(gone) - 1} more" if len(gone) > 1 else "")
        )
    return out


def _stalled(instances: Instances, found: dict[str, Any], names: RowNames) -> list[str]:
    """Transfers and kernels that began and cannot end: a failed link or device."""
    running = np.flatnonzero((found["start"] >= 0) & (found["end"] < 0))
    out = []
    for row in running[:64].tolist():
        i = int(instances.of_row[row])
        where = f" in {_title(instances.what[i])}, on a link that has failed" if i >= 0 else ""
        out.append(
            f"{names.node(row)} began{where} and never ends"
            + ("" if where else ": its device has failed, or what it waits for")
        )
    return out


def _circular(found: dict[str, Any], names: RowNames) -> list[str]:
    row = int(np.flatnonzero(found["start"] < 0)[0])
    return [
        f"{names.node(row)} waits for what waits for it: its dependencies, or the order on its stream "
        "or thread, form a circle"
    ]
