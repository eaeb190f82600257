"""Channels: calls of several bodies that meet. What is done to the calls of one body is done to those of all.

Ranks that share a body do the same, so a channel joins bodies, not ranks: the calls of every (body, group
name) that some group brings together, or the messages between two bodies with one tag. A folded set of
any number of ranks has as many channels as its bodies have names for groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.trace.communication import Calls, Communication
from chakrakit.trace.communication import Channel as Messages
from chakrakit.trace.sets import TraceSet

Place = TypeVar("Place")
End = TypeVar("End", bound=Hashable)

MESSAGE = -2
"""Stands for the type of a send or receive."""


@dataclass(frozen=True, eq=False)
class BodyCalls:
    """The calls of one body in a channel, in the order in which they meet those of the other bodies."""

    body: int
    rows: I64
    is_send: bool = False


@dataclass(frozen=True, eq=False)
class BodyChannel:
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


def channels_of(traces: TraceSet) -> list[BodyChannel]:
    """All channels of a set, collectives first; a TraceError where calls do not match."""
    _check_apart(traces.communication)
    return [*_collectives(traces.communication), *_messages(traces.communication)]


def _check_apart(communication: Communication) -> None:
    """Refuses a body that is several programs, because its calls would be changed twice."""
    calls_of_body: dict[int, Calls] = {}
    for body, calls in zip(communication.body, communication.programs, strict=True):
        first = calls_of_body.setdefault(body, calls)
        if first is calls:
            continue
        if not np.array_equal(first.role, calls.role):
            names = {calls.names[r] for r in (*first.roles, *calls.roles)}
            raise TraceError(
                f"{', '.join(map(repr, sorted(names)))} are one group on some of the ranks that share "
                "a body and several on others, so their calls cannot be changed alike"
            )
        raise TraceError(
            "peers that are one to some of the ranks that share a body are several to others, so their "
            "messages cannot be changed alike"
        )


# --- collectives --------------------------------------------------------------------------------


_Caller = tuple[int, int]
"""A program, and one of its roles."""


def _collectives(communication: Communication) -> list[BodyChannel]:
    users: dict[str, set[_Caller]] = {g.name: set() for g in communication.groups}
    names = list(users)
    for program, groups in zip(communication.program.tolist(), communication.group_of, strict=True):
        for role, group in zip(communication.programs[program].roles, groups, strict=True):
            users[names[group]].add((program, role))
    return [_channel(communication, sides, groups) for sides, groups in _joined(users)]


def _channel(
    communication: Communication, sides: Sequence[_Caller], groups: Sequence[str]
) -> BodyChannel:
    """Builds the channel of these callers, which meet in these groups."""
    world = range(communication.world_size)
    sizes = {len(communication.defined_groups.ranks_of(g, world) or ()) for g in groups}
    called = f"group {groups[0]!r}" if groups[0] else "the group of all ranks"
    programs = [communication.programs[program] for program, _ in sides]
    at = [calls.in_role(role) for calls, (_, role) in zip(programs, sides, strict=True)]
    calls = list(zip(programs, at, strict=True))
    _check_calls(called, calls)
    return BodyChannel(
        called,
        frozenset([*groups, *(c.names[r] for c, (_, r) in zip(programs, sides, strict=True))]),
        sizes.pop() if len(sizes) == 1 else 0,
        tuple(
            BodyCalls(communication.body[program], c.row[i])
            for (program, _), (c, i) in zip(sides, calls, strict=True)
        ),
        programs[0].kind[at[0]],
        np.max([c.size[i] for c, i in calls], axis=0),
        programs[0].number[at[0]] if all(c.recorded[i].all() for c, i in calls) else None,
    )


def _check_calls(name: str, calls: Sequence[tuple[Calls, I64]]) -> None:
    first, first_indices = calls[0]
    for peer_calls, peer_indices in calls[1:]:
        both = first.recorded[first_indices].all() and peer_calls.recorded[peer_indices].all()
        apart = len(peer_indices) != len(first_indices) or not np.array_equal(
            first.kind[first_indices], peer_calls.kind[peer_indices]
        )
        if apart or (
            both
            and not np.array_equal(first.number[first_indices], peer_calls.number[peer_indices])
        ):
            raise TraceError(
                f"the ranks of {name} do not issue the same collectives, so they cannot be changed "
                "alike; chakra validate says where they differ"
            )


# --- messages -----------------------------------------------------------------------------------

_End = tuple[int, bool, int]
"""A program, whether it sends, and the peer as the body numbers it."""


def _messages(communication: Communication) -> list[BodyChannel]:
    ends: dict[_End, dict[int, Messages]] = defaultdict(dict)
    keys: dict[int, dict[_End, None]] = defaultdict(dict)
    for number, calls in enumerate(communication.programs):
        for messages in calls.channels:
            ends[number, messages.is_send, messages.peer][messages.tag] = messages
            keys[number][number, messages.is_send, messages.peer] = None
    pairs: dict[tuple[int, int], set[_End]] = defaultdict(set)
    for rank, program in zip(communication.ranks, communication.program.tolist(), strict=True):
        bound = communication.bindings[rank].peers
        for end in keys[program]:
            peer = bound.get(end[2], end[2])
            pairs[(rank, peer) if end[1] else (peer, rank)].add(end)
    channels = []
    for sides, between in _joined(pairs):
        for tag in sorted({tag for end in sides for tag in ends[end]}):
            streams_of_end = {end: ends[end].get(tag) for end in sides}
            channels.append(_message_channel(communication, between[0], tag, streams_of_end))
    return channels


def _message_channel(
    communication: Communication,
    between: tuple[int, int],
    tag: int,
    sides: Mapping[_End, Messages | None],
) -> BodyChannel:
    name = f"messages from rank {between[0]} to rank {between[1]} with tag {tag}"
    present = {end: messages for end, messages in sides.items() if messages is not None}
    counts = {len(messages.row) for messages in present.values()}
    if len(present) < len(sides) or len(counts) > 1:
        raise TraceError(f"{name}: sends and receives do not match; chakra validate says where")
    sizes = np.max([messages.size for messages in present.values()], axis=0)
    return BodyChannel(
        name,
        frozenset(),
        2,
        tuple(
            BodyCalls(communication.body[end[0]], messages.row, messages.is_send)
            for end, messages in present.items()
        ),
        np.full(len(sizes), MESSAGE, np.int64),
        sizes,
        None,
    )


# --- who meets ----------------------------------------------------------------------------------


def _joined(users: Mapping[Place, set[End]]) -> list[tuple[list[End], list[Place]]]:
    """Groups sides that meet, directly or through others, and lists the places where they do."""
    parent: dict[End, End] = {}

    def root(side: End) -> End:
        parent.setdefault(side, side)
        while parent[side] != side:
            parent[side] = parent[parent[side]]
            side = parent[side]
        return side

    for sides in users.values():
        first, *rest = sorted(sides, key=repr)
        for joined_side in rest:
            parent[root(joined_side)] = root(first)
    components: dict[End, tuple[dict[End, None], list[Place]]] = {}
    for place, sides in users.items():
        entry = components.setdefault(root(next(iter(sides))), ({}, []))
        entry[0].update(dict.fromkeys(sorted(sides, key=repr)))
        entry[1].append(place)
    return [(list(sides), places) for sides, places in components.values()]
