"""Messages of the classes, matched all at once: sends to receives, and every copy's way on the machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import TraceError
from chakrakit.machines.device import picoseconds
from chakrakit.machines.fabric import Machine
from chakrakit.machines.library import Library, Span, cost
from chakrakit.simulator.engine.classes import Classes
from chakrakit.simulator.engine.membership import Membership


class FoldRefusedError(Exception):
    """The classes do not hold up; the ranks must be simulated one by one."""


class Message(NamedTuple):
    """What happens to one message in the simulated rows: where it is sent, where received, how large."""

    sends: I64
    """Simulated rows, -1 where the sender was not recorded."""
    receives: I64
    """The same of the receivers."""
    size: I64
    tag: I64
    src: list[I64]
    """The devices of all copies, by message."""
    dst: list[I64]


class _Ends(NamedTuple):
    """Ends of messages: parallel arrays. `column` is the place among the messages of its rank."""

    rank: I64
    row: I64
    peer: I64
    tag: I64
    nth: I64
    size: I64
    column: I64


class MessageMatcher:
    """Matches the messages of classes; `offset[c]` is the first simulated row of class c."""

    def __init__(
        self, membership: Membership, classes: Classes, device_of: I64, offset: I64, empty: bool
    ) -> None:
        self.m, self.classes, self.offset, self.empty = membership, classes, offset, empty
        self.device_of = device_of
        self._device = device_table(membership, device_of)
        order = np.argsort(classes.rank, kind="stable")
        self._members = np.split(order, np.cumsum(np.bincount(classes.rank))[:-1])

    def match(self) -> Message:
        """All of them: by class and order of issue, then receives from ranks nobody recorded."""
        first = [int(i) for i in self.classes.first]
        sends, receives = self._ends(first, True), self._ends(first, False)
        peers = np.unique(sends.peer)
        recorded = [self.m.index[p] for p in peers.tolist() if p in self.m.index]
        targets = self._ends(sorted({*first, *recorded}), False)
        found = self._find(sends, targets)
        self._check_sends(sends, found)
        self._check_agreement(sends, targets, found)
        rows = np.full(len(found), -1, np.int64)
        rows[found >= 0] = self._simulated(targets.rank, targets.row)[found[found >= 0]]
        self._check_claims(rows)
        lone = self._unclaimed(receives, rows)
        return self._message(sends, rows, receives, lone)

    # --- ends ---------------------------------------------------------------------------------

    def _ends(self, ranks: list[int], is_send: bool) -> _Ends:
        parts = []
        for i in ranks:
            m = self.m.messages(i)
            at = np.flatnonzero(m.is_send == is_send)
            if len(at):
                me = np.full(len(at), i)
                parts.append((me, m.row[at], m.peer[at], m.tag[at], m.nth[at], m.size[at], at))
        columns = zip(*parts, strict=True) if parts else [[np.zeros(0, np.int64)]] * 7
        return _Ends(*(np.concatenate(list(c)).astype(np.int64) for c in columns))

    def _simulated(self, rank: I64, row: I64) -> I64:
        return self.offset[self.classes.rank[rank]] + row

    def _find(self, sends: _Ends, receives: _Ends) -> I64:
        """For each send the number of the receive with the same ends, tag and turn, or -1."""
        ranks = np.array(self.m.ranks, np.int64)
        sender = np.r_[ranks[sends.rank], receives.peer]
        receiver = np.r_[sends.peer, ranks[receives.rank]]
        columns = (np.r_[sends.nth, receives.nth], np.r_[sends.tag, receives.tag], receiver, sender)
        order = np.lexsort(columns)
        differs = np.zeros(max(0, len(order) - 1), bool)
        for column in columns:
            differs |= np.diff(column[order]) != 0
        kind = np.empty(len(order), np.int64)
        kind[order] = np.r_[0, np.cumsum(differs)][: len(order)]
        of_kind = np.full(int(kind.max(initial=-1)) + 1, -1, np.int64)
        of_kind[kind[len(sends.rank) :]] = np.arange(len(receives.rank))
        return of_kind[kind[: len(sends.rank)]]

    # --- checks -------------------------------------------------------------------------------

    def _check_sends(self, sends: _Ends, found: I64) -> None:
        for k in np.flatnonzero(found < 0).tolist():
            rank, peer = self.m.ranks[int(sends.rank[k])], int(sends.peer[k])
            if peer in self.m.index:
                raise TraceError(
                    f"rank {rank} sends to rank {peer} (tag {sends.tag[k]}, number {sends.nth[k]}), "
                    "which never receives it"
                )
            self._allow_missing(rank, peer)

    def _allow_missing(self, rank: int, peer: int) -> None:
        if not self.m.assume_missing:
            raise TraceError(
                f"rank {rank} exchanges messages with rank {peer}, which was not recorded; "
                "--assume-missing symmetric lets it stand in"
            )

    def _check_claims(self, rows: I64) -> None:
        claimed = rows[rows >= 0]
        if len(np.unique(claimed)) < len(claimed):
            raise FoldRefusedError("a receive is matched by sends of different classes")

    def _unclaimed(self, receives: _Ends, rows: I64) -> I64:
        """Receives of the classes that nobody sends: an error, or from ranks that were not recorded."""
        lone = np.flatnonzero(~np.isin(self._simulated(receives.rank, receives.row), rows))
        for k in lone.tolist():
            rank, peer = self.m.ranks[int(receives.rank[k])], int(receives.peer[k])
            if peer in self.m.index:
                raise TraceError(
                    f"rank {rank} receives from rank {peer} (tag {receives.tag[k]}, "
                    f"number {receives.nth[k]}), which never sends it"
                )
            self._allow_missing(rank, peer)
        return lone

    def _check_agreement(self, sends: _Ends, receives: _Ends, found: I64) -> None:
        """Both ends of a message give its size, or one of them leaves it open."""
        k = np.flatnonzero(found >= 0)
        sent, received = sends.size[k], receives.size[found[k]]
        wrong = np.flatnonzero(
            (sent < 0) | (received < 0) | ((sent != received) & (sent > 0) & (received > 0))
        )
        if len(wrong):
            i = int(k[wrong[0]])
            raise TraceError(
                f"{self._end(sends, i)} sends {sends.size[i]:,} bytes (tag {sends.tag[i]}) that "
                f"{self._end(receives, int(found[i]))} receives as {receives.size[found[i]]:,}; "
                "both ends must say the same, 0 or more"
            )

    def _end(self, ends: _Ends, i: int) -> str:
        rank, row = int(ends.rank[i]), int(ends.row[i])
        node = self.m.programs[self.m.body(rank)].trace[row]
        return f"rank {self.m.ranks[rank]} at node {node.id} ({node.name!r})"

    def _check_sizes(self, rank: I64, size: I64) -> None:
        wrong = np.flatnonzero(size <= 0)
        if len(wrong) and not self.empty:
            raise TraceError(
                f"rank {self.m.ranks[int(rank[wrong[0]])]} sends a message of {size[wrong[0]]} bytes; "
                "give comm_size, or --allow-empty"
            )

    # --- copies -------------------------------------------------------------------------------

    def _message(self, sends: _Ends, rows: I64, receives: _Ends, lone: I64) -> Message:
        none = np.full(len(lone), -1, np.int64)
        received = self._simulated(receives.rank, receives.row)[lone]
        size = np.r_[sends.size, receives.size[lone]]
        self._check_sizes(np.r_[sends.rank, receives.rank[lone]], size)
        own, other = self._copies(
            np.r_[sends.rank, receives.rank[lone]], np.r_[sends.column, receives.column[lone]]
        )
        count = len(sends.rank)
        return Message(
            np.r_[self._simulated(sends.rank, sends.row), none],
            np.r_[rows, received],
            size,
            np.r_[sends.tag, receives.tag[lone]],
            own[:count] + other[count:],
            other[:count] + own[count:],
        )

    def _copies(self, rank: I64, column: I64) -> tuple[list[I64], list[I64]]:
        """The devices of all copies of each message: the ranks' own, and those at the other end."""
        own: list[I64] = []
        other: list[I64] = []
        known: dict[int, tuple[I64, I64]] = {}
        for i, k in zip(rank.tolist(), column.tolist(), strict=True):
            c = int(self.classes.rank[i])
            if c not in known:
                members = self._members[c]
                peers = np.stack([self.m.peers(int(r)) for r in members])
                known[c] = self.device_of[members], self._device[peers]
            devices, peers = known[c]
            own.append(devices)
            other.append(peers[:, k])
        return own, other


def device_table(membership: Membership, device_of: I64) -> I64:
    """The device of every rank by its number; one that was not recorded is on the device of that number."""
    ranks = np.array(membership.ranks, np.int64)
    table = np.arange(max(membership.traces.world_size, int(ranks.max(initial=-1)) + 1))
    table[ranks] = device_of
    return table


def message_pace(
    library: Library, machine: Machine, src: I64, dst: I64, size: F64
) -> tuple[F64, I64]:
    """For each message the link time per byte that it takes, and picoseconds before its bytes flow."""
    bandwidth = machine.routes(src, dst).bandwidth(machine.links)
    away = machine.instance(src, 0) != machine.instance(dst, 0)
    keys, number = np.unique(np.stack([size, bandwidth, away]), axis=1, return_inverse=True)
    found = [_message_cost(library, *k) for k in keys.T.tolist()]
    stretch, wait = (np.array(c) for c in zip(*found, strict=True)) if found else ([], [])
    at = number.reshape(-1)
    return np.asarray(stretch, np.float64)[at], np.asarray(wait, np.int64)[at]


def _message_cost(
    library: Library, size: float, bandwidth: float, away: float
) -> tuple[float, int]:
    if not np.isfinite(bandwidth) or not size:
        return 1.0, picoseconds(library.launch_us * 1e-6, "the launch of a message")
    nodes = 2 if away else 1
    span = Span(2, nodes, 2 // nodes, bandwidth, bandwidth, port=bandwidth)
    took = cost(library, "message", "direct", "Simple", size, span)
    return took.transfer * bandwidth / size, picoseconds(took.fixed, "a message")
