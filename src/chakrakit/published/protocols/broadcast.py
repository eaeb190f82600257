"""Byzantine reliable broadcast as programs: nodes that wait for quorums, with nodes that fail.

Three ways to send a message so that all correct nodes deliver the same or none, with f < n/3 faulty:
Bracha's, in which everybody echoes the message; fragments of an erasure code with hashes along a Merkle
tree; and digests, in which the message goes out once, votes carry its digest, and who lacks it asks a
voter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from chakrakit.machines import machine
from chakrakit.simulator import live

DIGEST = 32
"""Bytes of SHA-256."""


class BroadcastNode:
    """One node: sends, counts votes, and delivers each instance at most once."""

    def __init__(self, me: live.Actor, n: int, size: int, way: str) -> None:
        self.me, self.n, self.f, self.size, self.way = me, n, (n - 1) // 3, size, way
        self.votes: dict[tuple[int, str, Any], set[int]] = {}
        self.said: set[tuple[int, str]] = set()
        self.have: set[tuple[int, Any]] = set()
        self.delivered: dict[int, Any] = {}

    def tell(self, shot: int, kind: str, value: Any, size: int) -> live.Program:
        """The same to everybody, once."""
        if (shot, kind) not in self.said:
            self.said.add((shot, kind))
            for peer in range(self.n):
                yield live.send(peer, size, (shot, kind, value))

    def echo_size(self) -> int:
        """Bytes of an echo."""
        fragment = math.ceil(self.size / (self.f + 1)) + DIGEST * math.ceil(math.log2(self.n))
        return {"Bracha": self.size, "coded": fragment, "digests": DIGEST}[self.way]

    def init_size(self) -> int:
        """Bytes that the sender sends to each."""
        return self.echo_size() if self.way == "coded" else self.size

    def on(self, shot: int, kind: str, value: Any, sender: int) -> live.Program:
        """What a message makes it do."""
        if kind == "ask":
            if (shot, value) in self.have:
                yield live.send(sender, self.size, (shot, "tell", value))
            return
        if kind in ("init", "tell"):
            self.have.add((shot, value))
            if kind == "init":
                yield from self.tell(shot, "echo", value, self.echo_size())
        else:
            self.votes.setdefault((shot, kind, value), set()).add(sender)
        echoes = self.votes.get((shot, "echo", value), set())
        readies = self.votes.get((shot, "ready", value), set())
        if len(echoes) > (self.n + self.f) // 2 or len(readies) > self.f:
            yield from self.tell(shot, "ready", value, DIGEST)
        if len(readies) > 2 * self.f and shot not in self.delivered:
            yield from self.deliver(shot, value, sorted(echoes))

    def deliver(self, shot: int, value: Any, voters: Sequence[int]) -> live.Program:
        """Delivers, or asks a voter for the message where only its digest is known."""
        known = self.way != "digests" or (shot, value) in self.have
        if known:
            self.delivered[shot] = value
        elif (shot, "ask") not in self.said:
            self.said.add((shot, "ask"))
            for voter in voters[: self.f + 1]:  # one of them is correct
                yield live.send(voter, DIGEST, (shot, "ask", value))


def _program(
    me: live.Actor, node_of: dict[int, BroadcastNode], shots: int, n: int, size: int, way: str
) -> live.Program:
    node = node_of[me.number] = BroadcastNode(me, n, size, way)
    for shot in range(shots):
        if shot % n == me.number:
            yield from node.tell(shot, "init", f"message {shot}", node.init_size())
        while shot not in node.delivered:
            (message,) = yield live.receive()
            shot_of, kind, value = message.body
            yield from node.on(shot_of, kind, value, message.sender.number)


def broadcast(n: int, size: int, shots: int, way: str, fault: str, seed: int) -> dict[str, float]:
    """Bytes per instance and seconds until the last correct node has delivered all, on a wide-area network.

    `silent`: f nodes say nothing. `withhold`: the first sender leaves out f nodes.
    """
    f = (n - 1) // 3
    site = {"topology": "switch", "size": n, "bandwidth": "1 Gb/s", "latency": "10 ms"}
    world, nodes = live.World(machine({"network": [site]}), seed=seed), dict[int, BroadcastNode]()
    correct = n - f if fault == "silent" else n
    for number in range(n):
        faults: list[live.FaultStrategy] = [live.Delay(1 * live.MS, exponential=True)]
        if number >= correct:
            faults = [live.Silent()]
        if number == 0 and fault == "withhold":
            faults.append(Withhold(n - f))
        world.actor(
            _program,
            nodes,
            min(shots, correct),
            n,
            size,
            way,
            rank=number,
            faults=faults,
            daemon=True,
        )
    summary = world.run().summary
    rounds = min(shots, correct)
    delivered = [len(nodes[r].delivered) == rounds for r in range(correct)]
    values = {tuple(sorted(nodes[r].delivered.items())) for r in range(correct)}
    return {
        "bytes": summary.message_bytes / rounds,
        "over_nm": summary.message_bytes / rounds / (n * size),
        "seconds": summary.end_ns / live.S / rounds,
        "delivered": sum(delivered) / correct if len(values) == 1 else 0.0,
    }


class Withhold(live.FaultStrategy):
    """A sender that gives its message to some only."""

    name = "withhold"

    def __init__(self, first: int) -> None:
        self.first = first

    def send(self, me: live.Actor, parcel: live.Parcel) -> Sequence[live.Parcel]:
        """Nothing to those that are left out, where it is the message itself."""
        left_out = parcel.body[1] == "init" and parcel.to >= self.first
        return () if left_out else (parcel,)
