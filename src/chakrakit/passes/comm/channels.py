"""Channels: calls of all bodies that meet, side by side. What is done to one side is done to all.

Ranks that share a body do the same, so a channel joins bodies, not ranks: the calls of every (body, group
name) that some group brings together, or the messages between two bodies with one tag. A folded set of
any number of ranks has as many channels as its bodies have names for groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.trace.communication import canonical_group
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.validation import Calls, Communication, CommunicationReader
from chakrakit.trace.validation import Channel as Messages

Place = TypeVar("Place")
End = TypeVar("End", bound=Hashable)

MESSAGE = -2
"""Stands for the type of a send or receive."""


@dataclass(frozen=True, eq=False)
class BodyCalls:
    """The calls of one body, in the order in which they meet those of the other sides."""

    body: int
    rows: I64
    is_send: bool = False


@dataclass(frozen=True, eq=False)
class Channel:
    """Calls that meet: entry k of every side is the same collective or message."""

    name: str
    names: frozenset[str]
    """What bodies and ranks call the group; empty for messages."""
    ranks: int
    """Members of its groups; 0 where they differ."""
    sides: tuple[BodyCalls, ...]
    types: I64
    sizes: I64
    """Bytes; where the sides differ, the largest."""
    seqs: I64 | None
    """Recorded numbers, where every side has them."""

    def __len__(self) -> int:
        return len(self.types)


def channels_of(traces: TraceSet) -> list[Channel]:
    """All channels of a set, collectives first; a TraceError where calls do not match."""
    bodies = [_communication(traces, number) for number in range(traces.body_count)]
    return [*_collectives(traces, bodies), *_messages(traces, bodies)]


def _communication(traces: TraceSet, number: int) -> Communication:
    reader = CommunicationReader()
    reader.add(traces.body_at(number))
    return reader.finish()


# --- collectives --------------------------------------------------------------------------------


_Caller = tuple[int, tuple[str, ...]]
"""A body, and its names for one group."""


def _collectives(traces: TraceSet, bodies: Sequence[Communication]) -> list[Channel]:
    users: dict[str, set[_Caller]] = defaultdict(set)
    for binding in traces.bindings.values():
        locals_of: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for local in bodies[binding.body].used_groups:
            group = canonical_group(binding.groups.get(local, local), traces.groups)
            locals_of[group] += (local,)
        for group, own in locals_of.items():
            users[group].add((binding.body, own))
    _check_apart({side for sides in users.values() for side in sides})
    return [_channel(traces, bodies, sides, groups) for sides, groups in _joined(users)]


def _channel(
    traces: TraceSet,
    bodies: Sequence[Communication],
    sides: Sequence[_Caller],
    groups: Sequence[str],
) -> Channel:
    """The calls of these sides, which meet in these groups."""
    known = [traces.groups.ranks_of(g, range(traces.world_size)) or () for g in groups]
    sizes = {len(ranks) for ranks in known}
    called = f"group {groups[0]!r}" if groups[0] else "the group of all ranks"
    calls = [bodies[body].calls(own) for body, own in sides]
    _check_calls(called, calls)
    return Channel(
        called,
        frozenset([*groups, *(n for _, own in sides for n in own)]),
        sizes.pop() if len(sizes) == 1 else 0,
        tuple(BodyCalls(body, c.row) for (body, _), c in zip(sides, calls, strict=True)),
        calls[0].kind,
        np.max([c.size for c in calls], axis=0),
        calls[0].seq if all(c.numbered for c in calls) else None,
    )


def _check_calls(name: str, calls: Sequence[Calls]) -> None:
    first = calls[0]
    for other in calls[1:]:
        seqs = first.numbered and other.numbered and not np.array_equal(first.seq, other.seq)
        if len(other) != len(first) or seqs or not np.array_equal(first.kind, other.kind):
            raise TraceError(
                f"the ranks of {name} do not issue the same collectives, so they cannot be changed "
                "alike; chakra validate says where they differ"
            )


def _check_apart(sides: Iterable[_Caller]) -> None:
    """A body's name for a group must mean one channel, or its calls would be changed twice."""
    seen: dict[tuple[int, str], tuple[str, ...]] = {}
    for body, own in sides:
        for name in own:
            if seen.setdefault((body, name), own) != own:
                raise TraceError(
                    f"{', '.join(map(repr, own))} are one group on some of the ranks that share a "
                    "body and several on others, so their calls cannot be changed alike"
                )


# --- messages -----------------------------------------------------------------------------------

_End = tuple[int, bool, int]
"""Body, whether it sends, and the peer in the body's own numbers."""


def _messages(traces: TraceSet, bodies: Sequence[Communication]) -> list[Channel]:
    ends: dict[_End, dict[int, Messages]] = defaultdict(dict)
    for number, body in enumerate(bodies):
        for one in body.channels:
            ends[number, one.is_send, one.peer][one.tag] = one
    keys: dict[int, list[_End]] = defaultdict(list)
    for end in ends:
        keys[end[0]].append(end)
    pairs: dict[tuple[int, int], set[_End]] = defaultdict(set)
    for rank, binding in traces.bindings.items():
        for end in keys[binding.body]:
            peer = binding.peers.get(end[2], end[2])
            pairs[(rank, peer) if end[1] else (peer, rank)].add(end)
    found = []
    for sides, between in _joined(pairs):
        for tag in sorted({tag for end in sides for tag in ends[end]}):
            found.append(
                _message_channel(between[0], tag, {end: ends[end].get(tag) for end in sides})
            )
    return found


def _message_channel(
    between: tuple[int, int], tag: int, sides: Mapping[_End, Messages | None]
) -> Channel:
    name = f"messages from rank {between[0]} to rank {between[1]} with tag {tag}"
    here = {end: one for end, one in sides.items() if one is not None}
    counts = {len(one.row) for one in here.values()}
    if len(here) < len(sides) or len(counts) > 1:
        raise TraceError(f"{name}: sends and receives do not match; chakra validate says where")
    sizes = np.max([one.size for one in here.values()], axis=0)
    return Channel(
        name,
        frozenset(),
        2,
        tuple(BodyCalls(end[0], one.row, one.is_send) for end, one in here.items()),
        np.full(len(sizes), MESSAGE, np.int64),
        sizes,
        None,
    )


# --- who meets ----------------------------------------------------------------------------------


def _joined(users: Mapping[Place, set[End]]) -> list[tuple[list[End], list[Place]]]:
    """Sides that meet somewhere, directly or through others, with the places where they do."""
    parent: dict[End, End] = {}

    def root(side: End) -> End:
        parent.setdefault(side, side)
        while parent[side] != side:
            parent[side] = parent[parent[side]]
            side = parent[side]
        return side

    for sides in users.values():
        first, *others = sorted(sides, key=repr)
        for other in others:
            parent[root(other)] = root(first)
    found: dict[End, tuple[dict[End, None], list[Place]]] = {}
    for place, sides in users.items():
        entry = found.setdefault(root(next(iter(sides))), ({}, []))
        entry[0].update(dict.fromkeys(sorted(sides, key=repr)))
        entry[1].append(place)
    return [(list(sides), places) for sides, places in found.values()]
