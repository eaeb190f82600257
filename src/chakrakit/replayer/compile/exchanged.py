"""Communication of nodes that say it in bytes: what this rank puts in and gets, in its group here."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from chakrakit.errors import TraceError
from chakrakit.replayer.plan import ProcessGroup
from chakrakit.replayer.ranks import WORLD_NAME, ReplayWorld
from chakrakit.replayer.recording import RecordedRows
from chakrakit.trace.model import CollectiveType, NodeType

_OPS = {
    CollectiveType.ALL_REDUCE: "all_reduce",
    CollectiveType.ALL_GATHER: "all_gather_flat",
    CollectiveType.REDUCE_SCATTER: "reduce_scatter_flat",
    CollectiveType.REDUCE_SCATTER_BLOCK: "reduce_scatter_flat",
    CollectiveType.ALL_TO_ALL: "all_to_all_flat",
    CollectiveType.BROADCAST: "broadcast",
    CollectiveType.REDUCE: "reduce",
    CollectiveType.BARRIER: "barrier",
}


class Exchanged(msgspec.Struct, omit_defaults=True):
    """A node's communication: bytes this rank puts in and gets; -1 as group for what is not done."""

    op: str
    group: int
    input: int = 0
    output: int = 0
    root: int = 0
    tag: int = 0
    in_splits: list[int] = []
    out_splits: list[int] = []


@dataclass(frozen=True)
class PlanPlace:
    """Which rank of which world a plan is for."""

    seen: RecordedRows
    world: ReplayWorld
    rank: int
    groups: list[ProcessGroup]
    shrink: str


def exchanged_of(place: PlanPlace, row: int) -> Exchanged:
    """What the node in a row communicates."""
    trace = place.seen.trace
    size = place.seen.number("comm_size", row, 0)
    if size < 0:
        raise TraceError(f"{place.seen.place(row)}: a comm_size of {size}")
    if trace.types[row] != NodeType.COMM_COLL_NODE:
        return _message(place, row, size)
    kind = place.seen.number("comm_type", row, -1)
    name = place.seen.group_names[row] or WORLD_NAME
    at = place.seen.place(row)
    members = place.world.recorded_members(name, place.seen.rank, at)
    here = place.world.here(members, place.rank)
    op = next((op for code, op in _OPS.items() if int(code) == kind), "")
    if not op:
        return Exchanged("unknown", -1)
    group = next(i for i, g in enumerate(place.groups) if g.name == name and g.ranks == here)
    found = Exchanged(op, group, input=size, output=size)
    return _sized(
        found, place, row, len(members), [members.index(place.world.recorded_rank(r)) for r in here]
    )


def _sized(found: Exchanged, place: PlanPlace, row: int, old: int, places: list[int]) -> Exchanged:
    """Bytes in and out in a group of so many."""
    new, size, keep = len(places), found.input, place.shrink == "keep"
    if found.op == "all_gather_flat":
        found.input = size if keep else size * old // new
        found.output = found.input * new
    elif found.op == "reduce_scatter_flat":
        found.output = size // old if keep else size // new
        found.input = found.output * new
    elif found.op == "all_to_all_flat":
        back = place.seen.number("out_size", row, -1)
        back = size if back < 0 else back
        even = old if keep else new
        found.in_splits = _shares(place, row, "in_splits", size, even, old, places)
        found.out_splits = _shares(place, row, "out_splits", back, even, old, places)
        found.input, found.output = sum(found.in_splits), sum(found.out_splits)
    return found


def _shares(
    place: PlanPlace, row: int, column: str, size: int, even: int, old: int, places: list[int]
) -> list[int]:
    """Bytes to or from each member here: as recorded in elements, else one of `even` equal parts."""
    splits = place.seen.trace[row].get(column) or []
    total = sum(splits)
    if len(splits) != old or total <= 0 or min(splits) < 0:
        return [size // even] * len(places)
    return [size * int(splits[i]) // total for i in places]


def _message(place: PlanPlace, row: int, size: int) -> Exchanged:
    trace = place.seen.trace
    send = trace.types[row] == NodeType.COMM_SEND_NODE
    peer = place.seen.number("comm_dst" if send else "comm_src", row, -1)
    if peer < 0:
        raise TraceError(f"{place.seen.place(row)} does not say its other end")
    here = place.world.here([peer], place.rank)
    tag = place.seen.number("comm_tag", row, 0)
    if not here or here[0] == place.rank:
        return Exchanged("send" if send else "recv", -1)
    everybody = list(range(place.world.size))
    group = next((i for i, g in enumerate(place.groups) if g.ranks == everybody), -1)
    if group < 0:
        group = next(
            i for i, g in enumerate(place.groups) if here[0] in g.ranks and place.rank in g.ranks
        )
    root = place.groups[group].ranks.index(here[0])
    found = Exchanged("send" if send else "recv", group, root=root, tag=tag)
    if send:
        found.input = size
    else:
        found.output = size
    return found
