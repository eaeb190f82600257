"""Errors for simulations that stop early, with the rank, group and node that wait."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.machines.device import HORIZON_DAYS
from chakrakit.simulator.engine.failed import Failed
from chakrakit.simulator.engine.instances import MESSAGE, Instances
from chakrakit.simulator.engine.membership import Membership, RowNames
from chakrakit.simulator.engine.stored import LOAD, STORE
from chakrakit.trace.communication import Classes

_SHOWN = 4
"""Waiting nodes that an error lists: enough to see a pattern, few enough to read."""


def why_stuck(
    membership: Membership,
    classes: Classes,
    offset: I64,
    instances: Instances,
    arrays: dict[str, Any],
    failed: Failed,
    device_of: I64,
) -> str:
    """Names links, ranks, groups and nodes, unless every row has ended; then it is empty.

    What has failed comes first: what waits for it is no cause.
    """
    if len(arrays["end"]) == 0 or arrays["end"].min() >= 0:
        return ""
    names = RowNames(membership, classes, offset)
    waits = _blocked(failed, instances, arrays, names, device_of)
    waits += _on_failed_devices(failed, arrays, names)
    waits = waits or _waiting(instances, arrays, names) or _stalled(arrays, names)
    waits = waits or _circular(arrays, names)
    ranks = sum(
        len(classes.ranks_of(c)) for c in names.classes_of(np.flatnonzero(arrays["end"] < 0))
    )
    more = f"; and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    return (
        f"the simulation stops with work undone on {ranks:,} of {len(membership.ranks):,} ranks: "
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
        if not missing:
            differ = "members whose calls differ from it or are never made"
            out.append(
                f"{names.node(arrived[0])} waits in {_title(instances.what[i])} for {differ}"
            )
            continue
        out.append(
            f"{names.node(arrived[0])} waits in {_title(instances.what[i])} for "
            f"{names.node(missing[0])}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        )
    return out


def _blocked(
    failed: Failed, instances: Instances, arrays: dict[str, Any], names: RowNames, device_of: I64
) -> list[str]:
    """Transfers that cannot end, each with the link that has failed and the ranks at both ends."""
    place_on = {int(device): place for place, device in enumerate(device_of.tolist())}
    out: dict[tuple[int, int], str] = {}
    for instance, copy, link, sender, receiver in failed.blocked(instances, arrays):
        if (link, instance) in out:
            continue
        who = [f"rank {names.at_place(place_on[d])}" for d in (sender, receiver) if d in place_on]
        kind, group, number = instances.what[instance]
        if instances.group_class[instance] >= 0:
            group = names.group(instances.group_class[instance], copy)
        rows = np.flatnonzero(instances.of_row == instance)
        out[link, instance] = (
            f"the link {failed.name(link)} has failed, which {' and '.join(who)} use in "
            f"{_title((kind, group, number))} ({names.node_at(rows, place_on, sender)})"
        )
    return list(out.values())


def _on_failed_devices(failed: Failed, arrays: dict[str, Any], names: RowNames) -> list[str]:
    """Of every device that has failed the first row that it leaves undone."""
    undone = np.flatnonzero(arrays["end"] < 0)
    out = []
    for number in failed.devices:
        mine = [row for row in undone.tolist() if names.classes_of(np.array([row])) == [number]]
        if mine:
            out.append(
                f"the device of rank {names.rank(mine[0])} has failed ({names.node(mine[0])})"
            )
    return out


def _stalled(arrays: dict[str, Any], names: RowNames) -> list[str]:
    """Rows that began and cannot end."""
    running = np.flatnonzero((arrays["start"] >= 0) & (arrays["end"] < 0))
    return [
        f"{names.node(row)} began and never ends: what it waits for never happens"
        for row in running[:64].tolist()
    ]


def _circular(arrays: dict[str, Any], names: RowNames) -> list[str]:
    row = int(np.flatnonzero(arrays["start"] < 0)[0])
    return [
        f"{names.node(row)} waits for what waits for it: its dependencies, or the order on its stream "
        "or thread, form a circle"
    ]
