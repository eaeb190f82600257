"""Calls: the communication of one body, in the order in which a rank issues it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I64, U64, Mask
from chakrakit.trace.communication.groups import MAX_RANKS, Body, Groups
from chakrakit.trace.model import COMMUNICATION, JointTrace, NodeType, Trace

UNKNOWN = -1
"""Stands for a type, size, number or end that the trace does not have."""


class Channel(NamedTuple):
    """Sends, or receives, of a body with one peer (in the body's numbers) and tag, in issue order."""

    is_send: bool
    peer: int
    tag: int
    row: I64
    id: U64
    size: I64


@dataclass(frozen=True, eq=False)
class Calls:
    """Collectives, sends and receives of a body: parallel arrays in the order of issue.

    Groups and ends are those of the body; a rank's Binding says what they are to it. What the trace does
    not say is UNKNOWN.
    """

    row: I64
    id: U64
    type: I64
    """COMM_COLL_NODE, COMM_SEND_NODE or COMM_RECV_NODE."""
    kind: I64
    """Which collective it is (comm_type)."""
    size: I64
    sized: Mask
    """Whether the trace says the size."""
    role: I64
    """The place of the call's group among `names`."""
    names: tuple[str, ...]
    seq: I64
    """The recorded number (comm_seq)."""
    src: I64
    dst: I64
    tag: I64
    start_ns: I64
    """When the call began and ended, as its node says."""
    end_ns: I64

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def collective(self) -> Mask:
        """Calls of collectives."""
        return np.asarray(self.type == NodeType.COMM_COLL_NODE)

    @cached_property
    def is_send(self) -> Mask:
        """Sends."""
        return np.asarray(self.type == NodeType.COMM_SEND_NODE)

    @cached_property
    def bytes(self) -> I64:
        """Sizes, 0 where the trace has none."""
        return np.where(self.sized, self.size, 0)

    @cached_property
    def peer(self) -> I64:
        """The other end of each message; UNKNOWN for collectives."""
        return np.where(self.collective, UNKNOWN, np.where(self.is_send, self.dst, self.src))

    @cached_property
    def peers(self) -> I64:
        """All other ends, ascending."""
        ends = np.unique(self.peer)
        return ends[ends >= 0]

    @cached_property
    def roles(self) -> list[int]:
        """The groups that collectives use, in the order of their names."""
        used = np.unique(self.role[self.collective]).tolist()
        return sorted(used, key=lambda role: self.names[role])

    @cached_property
    def recorded(self) -> Mask:
        """Collectives whose number was recorded; those of one group all are, or none."""
        lacks = np.unique(self.role[self.collective & (self.seq == UNKNOWN)])
        return np.asarray(self.collective & ~np.isin(self.role, lacks))

    @cached_property
    def number(self) -> I64:
        """The number that is equal for calls that meet, given their group, or their ends and tag.

        For a collective the recorded number, else its turn in its group; for a message its turn among
        those with the same ends and tag.
        """
        turn = turns(self.type, np.where(self.collective, self.role, self.peer), self._channel)
        return np.where(self.recorded, self.seq, turn)

    @cached_property
    def _channel(self) -> I64:
        return np.where(self.collective, 0, self.tag)

    def derived(self, part: I64) -> dict[str, NDArray[Any]]:
        """What is known of each call of several bodies, by the part that each body is."""
        known: dict[str, NDArray[Any]] = {
            name: getattr(self, name) for name in ("collective", "is_send", "bytes", "peer")
        }
        if not self.collective.any():
            number = turns(self.type, self.peer, self.tag, part)
            known |= {"recorded": self.collective, "number": number}
        return known

    def between(self, first: int, end: int, known: Mapping[str, NDArray[Any]]) -> Calls:
        """Some of the calls, with those of the names that they use and what is known of them."""
        part = slice(first, end)
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "names"}
        mine, names = {name: each[part] for name, each in columns.items()}, self.names
        if len(names) > 1:
            used, mine["role"] = np.unique(mine["role"], return_inverse=True)
            names = tuple(names[role] for role in used.tolist())
        calls = Calls(names=names, **mine)
        calls.__dict__.update({name: each[part] for name, each in known.items()})
        return calls

    def in_role(self, role: int) -> I64:
        """The collectives of a group, in the order of their numbers."""
        collectives = np.flatnonzero(self.collective & (self.role == role))
        return collectives[np.argsort(self.number[collectives], kind="stable")]

    @cached_property
    def channels(self) -> list[Channel]:
        """Messages to and from each peer, by tag; those that do not name their peer are left out."""
        at = np.flatnonzero(self.peer >= 0)
        at = at[np.lexsort((self.tag[at], self.peer[at], ~self.is_send[at]))]
        keys = np.stack([self.is_send[at], self.peer[at], self.tag[at]])
        heads = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
        channels = []
        for messages in np.split(at, heads) if len(at) else []:
            sends, peer, tag = (c[messages[0]].item() for c in (self.is_send, self.peer, self.tag))
            channels.append(
                Channel(
                    sends, peer, tag, self.row[messages], self.id[messages], self.size[messages]
                )
            )
        return channels

    def merged(self, groups: Sequence[str], peers: Sequence[int]) -> Calls:
        """These calls as a rank makes them for which several of the body's groups, or peers, are the same.

        `groups` has the rank's group for each of `self.roles`, `peers` the rank for each of `self.peers`. Of
        those that are the same, the first stands for all.
        """
        role = np.arange(len(self.names))
        role[self.roles] = np.array(self.roles, np.int64)[_firsts(groups)]
        moved = self.peers[_firsts(peers)]
        at = np.searchsorted(self.peers, self.peer)

        def ends(recorded_ends: I64, is_peer_end: Mask) -> I64:
            is_named = is_peer_end & (self.peer >= 0)
            return np.where(
                is_named, np.r_[moved, UNKNOWN][np.where(is_named, at, -1)], recorded_ends
            )

        return replace(
            self,
            role=role[self.role],
            src=ends(self.src, ~self.is_send & ~self.collective),
            dst=ends(self.dst, self.is_send),
        )


def read_calls(body: Body) -> Calls:
    """The communication of a body, which is read if need be."""
    reader = CallsReader()
    reader.add(body if isinstance(body, Trace) else body())
    return reader.finish()


def read_joint_calls(joint: JointTrace) -> list[Calls]:
    """The communication of each of the bodies of a joint trace."""
    calls = read_calls(joint)
    # Rows of one body stay in the order of issue.
    order = np.argsort(joint.part[calls.row], kind="stable")
    columns = {f.name: getattr(calls, f.name) for f in fields(calls) if f.name != "names"}
    whole = Calls(names=calls.names, **{name: each[order] for name, each in columns.items()})
    part = joint.part[whole.row]
    own = replace(whole, row=whole.row - joint.offset[part], id=joint.own_ids[whole.row])
    bounds = np.searchsorted(part, np.arange(len(joint.offset))).tolist()
    known = own.derived(part)
    return [own.between(a, b, known) for a, b in pairwise(bounds)]


class CallsReader:
    """Takes the communication out of the pieces of a body; some 110 bytes are kept of each call."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []
        self.rows = 0

    def add(self, piece: Trace) -> I64:
        """Takes the next nodes of the file; returns the rows among them that communicate."""
        rows = np.flatnonzero(piece.is_type(*COMMUNICATION))
        if len(rows) or not self._parts:
            self._parts.append(_reduced(piece, rows, self.rows))
        self.rows += len(piece)
        return rows

    def finish(self) -> Calls:
        """All of the body's communication."""
        if not self._parts:
            self.add(Trace.from_columns({"name": []}))
        parts = self._parts
        groups = pa.chunked_array([p.pop("group") for p in parts]).unify_dictionaries()
        columns = {name: _joined([p[name] for p in parts]) for name in parts[0]}
        # By recorded start, else by id: the order in which a rank issues its work.
        order = np.lexsort((columns["id"], columns["start_ns"]))
        role = _joined([c.indices.to_numpy(zero_copy_only=False) for c in groups.chunks])
        names = tuple(groups.chunk(0).dictionary.to_pylist())
        ordered = {name: values[order] for name, values in columns.items()}
        return Calls(role=role.astype(np.int64)[order], names=names, **ordered)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _reduced(piece: Trace, rows: I64, base: int) -> dict[str, Any]:
    def values(name: str, default: int = UNKNOWN) -> I64:
        if name not in piece.column_names:
            return np.full(len(rows), default, np.int64)
        return piece.column(name, default)[rows].astype(np.int64)

    return {
        "row": rows + base,
        "id": piece.ids[rows],
        "type": piece.types[rows].astype(np.int64),
        "start_ns": piece.start_ns[rows],
        "end_ns": piece.end_ns[rows],
        "group": group_names(piece, rows).dictionary_encode(),
        "kind": values("comm_type"),
        "size": values("comm_size"),
        "sized": piece.has("comm_size")[rows],
        "seq": values("comm_seq"),
        "src": values("comm_src"),
        "dst": values("comm_dst"),
        "tag": values("comm_tag", 0),
    }


def group_names(trace: Trace, rows: I64) -> pa.Array:
    """The group each row names; "" where it names none."""
    if "pg_name" not in trace.column_names:
        return pa.array([""] * len(rows), pa.string())
    names = trace.table.column("pg_name").take(pa.array(rows)).fill_null("").combine_chunks()
    return names.cast(pa.string())


def turns(*columns: NDArray[Any]) -> I64:
    """For each entry, how many before it are equal in all columns."""
    order = np.lexsort(columns)
    first = np.ones(len(order), np.bool_)
    first[1:] = False
    for column in columns:
        first[1:] |= np.diff(column[order]) != 0
    begin = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - begin
    return turn


def _firsts(values: Sequence[object]) -> list[int]:
    """For each value the place of the first one equal to it."""
    places: dict[object, int] = {}
    return [places.setdefault(value, i) for i, value in enumerate(values)]


def own_rank(calls: Calls, groups: Groups) -> int:
    """The rank of a trace whose file names none, for every reader of it.

    It is what its messages call their own end, else the lowest rank that is in all its groups, else 0.
    """
    own = np.where(calls.is_send, calls.src, calls.dst)[~calls.collective]
    ends = np.unique(own[own >= 0])
    if len(ends) == 1 and ends[0] < MAX_RANKS:
        return int(ends[0])
    members = [set(groups[name]) for role in calls.roles if (name := calls.names[role]) in groups]
    shared = set.intersection(*members) if members else {0}
    return min(shared, default=0)
