"""Messages of the rank classes: sends matched to receives, with the devices of all copies and their pace."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import TraceError
from chakrakit.machines.device import picoseconds
from chakrakit.machines.fabric import Machine, farther
from chakrakit.machines.library import Library, Span, cost
from chakrakit.simulator.engine.membership import Membership
from chakrakit.trace.communication import Matching


class FoldRefusedError(Exception):
    """The classes are not consistent; every rank must be simulated."""


class Message(NamedTuple):
    """The messages of the simulated rows: where each is sent and received, and its size."""

    sends: I64
    """Simulated rows, -1 where the sender was not recorded."""
    receives: I64
    """Simulated rows; -1 where the receiver was not recorded."""
    size: I64
    tag: I64
    copies: I64
    """How many ranks send each message."""
    src: I64
    """The sending devices of all copies, one message after another; `dst` has the receiving ones."""
    dst: I64


class MessageMatcher:
    """Checks the messages among matched calls and finds all their copies; `rows` has each call's row."""

    def __init__(
        self, membership: Membership, matching: Matching, rows: I64, device_of: I64, empty: bool
    ) -> None:
        self.m, self.matching, self.rows, self.empty = membership, matching, rows, empty
        self.device_of = device_of
        self._device = device_table(membership, device_of)
        first = matching.classes.first
        self.place = np.repeat(first, np.diff(matching.offset))
        peers = [membership.communication.peer_of_calls(i) for i in first.tolist()]
        self.peer = np.concatenate([*peers, np.zeros(0, np.int64)])
        self.tag, self.number = matching.column("tag"), matching.column("number")
        self.size = matching.column("bytes")

    def match(self) -> Message:
        """All messages: by class and order of issue, then receives from ranks that were not recorded."""
        message, is_send = self.matching.instance < 0, self.matching.column("is_send")
        sends, receives = np.flatnonzero(message & is_send), np.flatnonzero(message & ~is_send)
        partner = self.matching.partner[sends]
        self._check_answered(sends[partner < 0], "sends to", "receives")
        self._check_agreement(sends[partner >= 0])
        claimed = partner[partner >= 0]
        if len(np.unique(claimed)) < len(claimed):
            raise FoldRefusedError("a receive is matched by sends of different classes")
        lone = receives[~np.isin(receives, claimed)]
        self._check_answered(lone, "receives from", "sends")
        return self._message(sends, partner, lone)

    # --- checks -------------------------------------------------------------------------------

    def _check_answered(self, calls: I64, verb: str, never: str) -> None:
        """Raises an error for calls without a partner, unless missing ranks are assumed to take part."""
        for k in calls.tolist():
            rank, peer = self.m.ranks[int(self.place[k])], int(self.peer[k])
            if peer in self.m.index:
                raise TraceError(
                    f"rank {rank} {verb} rank {peer} (tag {self.tag[k]}, number {self.number[k]}), "
                    f"which never {never} it"
                )
            if not self.m.assume_missing:
                raise TraceError(
                    f"rank {rank} exchanges messages with rank {peer}, which was not recorded; "
                    "--assume-missing symmetric lets it stand in"
                )

    def _check_agreement(self, sends: I64) -> None:
        """Raises an error unless both ends of a message have the same size; 0 leaves it open."""
        receives = self.matching.partner[sends]
        sent_bytes, received_bytes = self.size[sends], self.size[receives]
        wrong = np.flatnonzero(
            (sent_bytes < 0)
            | (received_bytes < 0)
            | ((sent_bytes != received_bytes) & (sent_bytes > 0) & (received_bytes > 0))
        )
        if len(wrong):
            i, j = int(sends[wrong[0]]), int(receives[wrong[0]])
            rank, peer = self.m.ranks[int(self.place[i])], int(self.peer[i])
            raise TraceError(
                f"{self._end(rank, i)} sends {self.size[i]:,} bytes (tag {self.tag[i]}) that "
                f"{self._end(peer, j)} receives as {self.size[j]:,}; "
                "both ends must say the same, 0 or more"
            )

    def _end(self, rank: int, call: int) -> str:
        row = int(self.matching.column("row")[call])
        node = self.m.programs[self.m.body(int(self.place[call]))].trace[row]
        return f"rank {rank} at node {node.id} ({node.name!r})"

    def _check_sizes(self, calls: I64) -> None:
        wrong = calls[self.size[calls] <= 0]
        if len(wrong) and not self.empty:
            raise TraceError(
                f"rank {self.m.ranks[int(self.place[wrong[0]])]} sends a message of "
                f"{self.size[wrong[0]]} bytes; give comm_size, or --allow-empty"
            )

    # --- copies -------------------------------------------------------------------------------

    def _message(self, sends: I64, partner: I64, lone: I64) -> Message:
        calls, count = np.r_[sends, lone], len(sends)
        self._check_sizes(calls)
        copies, near_devices, far_devices = self._copies(calls)
        sent = np.repeat(np.arange(len(calls)) < count, copies)
        none = np.full(len(lone), -1, np.int64)
        return Message(
            np.r_[self.rows[sends], none],
            np.r_[np.where(partner >= 0, self.rows[partner], -1), self.rows[lone]],
            self.size[calls],
            self.tag[calls],
            copies,
            np.where(sent, near_devices, far_devices),
            np.where(sent, far_devices, near_devices),
        )

    def _copies(self, calls: I64) -> tuple[I64, I64, I64]:
        """How many copies each message has; of all copies the devices at the calling and the other end."""
        classes = self.matching.classes
        if classes.count == len(classes.rank):  # every rank stands for itself
            ones = np.ones(len(calls), np.int64)
            return ones, self.device_of[self.place[calls]], self._device[self.peer[calls]]
        near_devices: list[I64] = [np.zeros(0, np.int64)]
        far_devices: list[I64] = [np.zeros(0, np.int64)]
        devices_of: dict[int, tuple[I64, I64, I64]] = {}
        for call in calls.tolist():
            place = int(self.place[call])
            if place not in devices_of:
                devices_of[place] = self._devices(place)
            devices, peers, column = devices_of[place]
            c = int(classes.rank[place])
            near_devices.append(devices)
            far_devices.append(peers[:, column[call - int(self.matching.offset[c])]])
        counts = np.array([len(d) for d in near_devices[1:]], np.int64)
        return counts, np.concatenate(near_devices), np.concatenate(far_devices)

    def _devices(self, place: int) -> tuple[I64, I64, I64]:
        """The devices of all ranks of a class, those of their peers, and the peer's number of each call."""
        communication = self.m.communication
        members = self.matching.classes.ranks_of(int(self.matching.classes.rank[place]))
        peers = np.stack([communication.peers(int(r)) for r in members])
        calls = communication.calls(place)
        return (
            self.device_of[members],
            self._device[peers],
            np.searchsorted(calls.peers, calls.peer),
        )


def device_table(membership: Membership, device_of: I64) -> I64:
    """The device of every rank, by rank; one that was not recorded is on the device of the same number."""
    ranks = np.array(membership.ranks, np.int64)
    table = np.arange(max(membership.traces.world_size, int(ranks.max(initial=-1)) + 1))
    table[ranks] = device_of
    return table


def message_pace(
    library: Library, machine: Machine, src: I64, dst: I64, size: F64
) -> tuple[F64, I64]:
    """For each message its link time, as a multiple of the bytes', and the picoseconds before bytes flow."""
    routes = machine.routes(src, dst)
    bandwidth, latency = routes.bandwidth(machine.links), routes.latency(machine.links)
    away = machine.instance(src, 0) != machine.instance(dst, 0)
    ways = list(zip(latency.tolist(), away.tolist(), strict=True))
    longer = {way: farther(machine, way[0], away=way[1]) for way in set(ways)}
    beyond = np.array([longer[way] for way in ways])
    keys, number = np.unique(np.stack([size, bandwidth, away, beyond]), axis=1, return_inverse=True)
    paces = [message_cost(library, *k) for k in keys.T.tolist()]
    stretch, wait = (np.array(c) for c in zip(*paces, strict=True)) if paces else ([], [])
    at = number.reshape(-1)
    return np.asarray(stretch, np.float64)[at], np.asarray(wait, np.int64)[at]


def message_cost(
    library: Library, size: float, bandwidth: float, away: float, beyond: float
) -> tuple[float, int]:
    """The same of one message, over a route of that bandwidth, to another node or not.

    Its way takes `beyond` seconds more than the one that the library's constants are of.
    """
    if math.isinf(bandwidth) or not size:
        return 1.0, picoseconds(library.launch_us * 1e-6, "the launch of a message")
    nodes = 2 if away else 1
    span = Span(
        2, nodes, 2 // nodes, bandwidth, bandwidth, port=bandwidth, farther=beyond, farther_inside=beyond
    )  # fmt: skip
    took = cost(library, "message", "direct", "Simple", size, span)
    return took.transfer * bandwidth / size, picoseconds(took.fixed, "a message")
