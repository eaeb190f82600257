"""Overlays in which any node finds the owner of a key, while nodes come and go: Chord, Pastry, Kademlia.

A node knows some others, as they were when it last looked. Whoever seeks a key asks nodes ever nearer to it,
one or several at a time, and waits in vain for those that have gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.published import Setting
from chakrakit.simulator import live

SPACE = 1 << 32
"""Identifiers of nodes and keys."""
TIMEOUT_S, QUERY, ANSWER = 0.5, 100, 400
"""Until a node counts as gone, and bytes of messages: identifiers and addresses. Assumed."""
DIGIT = 4
"""Bits of a digit of Pastry's."""


@dataclass(eq=False)
class Churn:
    """When each node is there: it alternates, with exponential times, since long before the run."""

    toggles: np.ndarray
    """Seconds at which a node leaves or joins, in order; it is there before the first."""

    @classmethod
    def draw(cls, nodes: int, stays_s: float, away_s: float, until_s: float, seed: int) -> Churn:
        """Nodes that stay and are away for so long on average; all stay for ever where `stays_s` is 0."""
        if not stays_s:
            return cls(np.full((nodes, 1), np.inf))
        rng = np.random.default_rng([seed, nodes])
        before = 4 * (stays_s + away_s)
        count = 2 * int(2 + 3 * (before + until_s) / (stays_s + away_s))
        times = rng.exponential(1.0, (nodes, count)) * np.tile([stays_s, away_s], count // 2)
        return cls(np.cumsum(times, axis=1) - before)

    def there(self, at_s: float) -> Mask:
        """Which nodes are there at a time."""
        alive: Mask = (self.toggles <= at_s).sum(axis=1) % 2 == 0
        return alive

    def crashes(self, node: int) -> list[live.FaultStrategy]:
        """The node's absences during the run."""
        times = [max(0.0, t) * live.S for t in self.toggles[node] if np.isfinite(t)]
        pairs = zip(times[::2], times[1::2], strict=True)
        return [live.Crash(a, b) for a, b in pairs if b > a]


@dataclass(eq=False)
class Overlay:
    """Identifiers, churn, and what each kind of overlay knows and calls near."""

    kind: str
    setting: Setting
    ids: I64
    churn: Churn
    tables: dict[tuple[int, int], I64] = field(default_factory=dict)

    def away(self, ids: I64, key: int) -> I64:
        """How far each is from a key, on the way there."""
        if self.kind == "Kademlia":
            return ids ^ key
        if self.kind == "Chord":
            return (key - ids) % SPACE  # from behind
        ahead = (ids - key) % SPACE
        return np.minimum(ahead, SPACE - ahead)

    def rank_of_owner(self, ids: I64, key: int) -> I64:
        """How far each is from owning a key: in Chord the owner is the first at or after it."""
        return (ids - key) % SPACE if self.kind == "Chord" else self.away(ids, key)

    def owner(self, key: int, at_s: float) -> int:
        """The node that owns a key now."""
        alive = np.flatnonzero(self.churn.there(at_s))
        return int(alive[np.argmin(self.rank_of_owner(self.ids[alive], key))])

    def known(self, node: int, at_s: float) -> I64:
        """The nodes that a node knows: as it last looked, at a time of its own."""
        every = self.setting["refresh_s"]
        turn = int((at_s + node % 16 / 16 * every) // every)
        if (node, turn) not in self.tables:
            looked = turn * every - node % 16 / 16 * every
            alive = np.flatnonzero(self.churn.there(looked))
            self.tables[node, turn] = np.unique(self._chosen(node, alive[alive != node]))
        return self.tables[node, turn]

    def _chosen(self, node: int, alive: I64) -> I64:
        """What a node keeps of all that are there."""
        own, spare = int(self.ids[node]), self.setting["spare"]
        ids = self.ids[alive]
        if (
            self.kind == "Kademlia"
        ):  # so many of each bucket: those that differ first in the same bit
            bucket = np.frexp((ids ^ own).astype(float))[1]
            order = np.argsort(bucket, kind="stable")
            place = np.arange(len(order)) - np.searchsorted(bucket[order], bucket[order])
            near: I64 = alive[order[place < spare]]
            return near
        after = np.argsort((ids - own) % SPACE)
        if self.kind == "Chord":
            steps = (ids[after] - own) % SPACE
            fingers = np.searchsorted(steps, 1 << np.arange(32, dtype=np.int64)) % len(alive)
            ring: I64 = alive[np.concatenate([after[:spare], after[fingers]])]
            return ring
        shared = (32 - np.frexp((ids ^ own).astype(float))[1]) // DIGIT
        digit = ids >> (32 - DIGIT * (shared + 1)) & (1 << DIGIT) - 1
        row = np.unique(shared * (1 << DIGIT) + digit, return_index=True)[1]
        both: I64 = alive[np.concatenate([after[: spare // 2], after[-(spare // 2) :], row])]
        return both


class OverlayNode:
    """A node: says whom it knows near a key."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay

    def on_message(self, me: live.Actor, message: live.Message) -> live.Program:
        """A question; answers to its own are taken by those who asked."""
        overlay, (kind, key, ticket) = self.overlay, message.body
        if kind == "who":
            known = np.append(overlay.known(me.number, me.now / live.S), me.number)
            ids = overlay.ids[known]
            near = known[np.argsort(overlay.away(ids, key))[:4]]
            owns = known[np.argsort(overlay.rank_of_owner(ids, key))[:4]]
            body = ("near", (near.tolist(), owns.tolist()), ticket)
            yield live.send(message.sender, ANSWER, body)


@dataclass
class Lookup:
    """One search: whom it knows, who answered, and what came of it."""

    overlay: Overlay
    key: int
    found: bool = False
    asked: int = 0
    seconds: float = float("nan")

    def run(self, me: live.Actor, node: int) -> live.Program:
        """Asks ever nearer nodes, then those that may own the key, the nearest first."""
        began = me.now / live.S
        known = set(self.overlay.known(node, began).tolist())
        owners, answered, gone = set(known), set[int](), set[int]()
        width = self.overlay.setting["at_once"]
        while True:
            ids = np.array(sorted(known - gone), np.int64)
            near = ids[np.argsort(self.overlay.away(self.overlay.ids[ids], self.key))]
            ask = [int(n) for n in near[: 2 * width] if n not in answered][:width]
            if not ask or (len(near) and int(near[0]) in answered):
                break
            for close, owns, sender in (yield from self._ask(me, ask)):
                answered.add(sender)
                known.update(close)
                owners.update(owns)
            gone.update(n for n in ask if n not in answered)
        yield from self._owner(me, sorted(owners - gone), answered, began)

    def _owner(
        self, me: live.Actor, owners: list[int], answered: set[int], began: float
    ) -> live.Program:
        """The nearest that answers owns the key."""
        ids = np.array(owners, np.int64)
        order = np.argsort(self.overlay.rank_of_owner(self.overlay.ids[ids], self.key))
        for owner in ids[order].tolist():
            if owner in answered or (yield from self._ask(me, [owner])):
                self.found = owner == self.overlay.owner(self.key, me.now / live.S)
                break
        self.seconds = me.now / live.S - began

    def _ask(self, me: live.Actor, nodes: list[int]) -> Any:
        """What these nodes say, as far as they answer in time."""
        self.asked += len(nodes)
        ticket = (me.number, self.asked)
        for node in nodes:
            yield live.send(f"node {node}", QUERY, ("who", self.key, ticket))
        answers = yield live.receive(
            lambda m: m.body[2] == ticket, count=len(nodes), timeout=TIMEOUT_S * live.S
        )
        return [(*m.body[1], m.sender.number) for m in answers]
