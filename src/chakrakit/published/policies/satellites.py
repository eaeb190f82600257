"""Satellites on a ring with a ground station that sees one of them at a time, and pictures to be looked at.

A picture is looked at by a small model on board, or by a large one on the ground: over links between
satellites to the one in contact, or by its own satellite when its contact comes. Who is in contact moves on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from chakrakit.published import Case, Setting
from chakrakit.published.policies.learned import Learner, Perturbation, SeenQuantity, level
from chakrakit.simulator import live

COUNT, PICTURE = 12, 20e6
"""Satellites, and bytes of a picture."""
ISL, LATENCY_S, DOWN_S, ABOARD_S, GROUND_S = 25e6, 0.01, 0.4, 6.0, 1.0
"""Bytes per second between satellites and how long a hop takes; seconds of a picture on the downlink, on
board and on the ground. Assumed: 200 and 400 Mb/s, a small and a large model."""
LOCAL, RELAY, WAIT = range(3)


class Constellation:
    """Lines on board and at the downlink, who is in contact, and how a way is chosen."""

    def __init__(
        self, case: Case, setting: Setting, learner: Learner | None, given: Perturbation, seed: int
    ) -> None:
        self.turn_s, self.setting, self.learner = case["turn_s"], setting, learner
        self.rng = random.Random(f"ways {seed}")
        self.aboard, self.under_way = [0.0] * COUNT, 0
        self.lines = SeenQuantity(COUNT + 1, given, self.rng)
        self.delays: list[float] = []

    def contact(self, now_s: float) -> int:
        """The satellite that the ground sees; always the first where nothing moves."""
        return int(now_s / self.turn_s * COUNT) % COUNT if self.turn_s else 0

    def until_own(self, sat: int, now_s: float) -> float:
        """Seconds until a satellite's own contact begins."""
        if sat == self.contact(now_s):
            return 0.0
        if not self.turn_s:
            return float("inf")
        return float((sat * self.turn_s / COUNT - now_s) % self.turn_s)

    def hops(self, sat: int, now_s: float) -> int:
        """Links from a satellite to the one in contact."""
        apart = abs(sat - self.contact(now_s))
        return min(apart, COUNT - apart)

    def expected(self, sat: int, now_s: float) -> list[float]:
        """Seconds of each way, by lines as they are seen and links as if they were free."""
        seen = self.lines.seen(now_s)
        down = (seen[-1] + 1) * DOWN_S + GROUND_S
        way = self.hops(sat, now_s) * LATENCY_S + PICTURE / ISL * (self.hops(sat, now_s) > 0)
        return [seen[sat] + ABOARD_S, way + down, self.until_own(sat, now_s) + down]

    def choose(self, sat: int, now_s: float) -> tuple[int, tuple[int, ...]]:
        """A way, and the state that a learner saw."""
        ends = self.expected(sat, now_s)
        state = (
            level(ends[0], 7, 13, 25),
            level(self.hops(sat, now_s), 1, 3, 5),
            level(ends[1], 3, 6, 12),
        )
        how, value = self.setting["how"], self.setting["value"]
        if how == "learned" and self.learner is not None:
            return self.learner.choose(state, self.rng), state
        if how == "shares":
            return (RELAY if self.rng.random() < value else LOCAL), state
        ends[RELAY] *= value
        return min(range(3), key=lambda way: ends[way]), state

    def note(self, now_s: float) -> None:
        """Lines have changed."""
        self.lines.note(now_s, [*self.aboard, float(self.under_way)])

    def picture(self, me: live.Actor, sat: int, pools: Sequence[live.Pool]) -> live.Program:
        """One picture, from the camera to the answer."""
        began = me.now / live.S
        way, state = self.choose(sat, began)
        if way == LOCAL:
            self.aboard[sat] += ABOARD_S
            self.note(began)
            yield live.use(pools[sat], ABOARD_S * live.S)
            self.aboard[sat] -= ABOARD_S
        else:
            self.under_way += 1
            self.note(began)
            yield from self._down(me, sat, way, pools)
            self.under_way -= 1
        self.note(me.now / live.S)
        delay = me.now / live.S - began
        self.delays.append(delay)
        if self.learner is not None:
            self.learner.learn(state, way, -delay)

    def _down(self, me: live.Actor, sat: int, way: int, pools: Sequence[live.Pool]) -> live.Program:
        """To the ground: over other satellites, after a wait, or both where a contact is missed."""
        if way == WAIT and self.turn_s:
            yield live.sleep(self.until_own(sat, me.now / live.S) * live.S)
        at = sat
        while at != self.contact(me.now / live.S):
            after = self.contact(me.now / live.S)
            yield from self._carried(me, at, after)
            at = after
        yield live.use(pools[COUNT], DOWN_S * live.S)
        yield live.use(pools[COUNT + 1], GROUND_S * live.S)

    def _carried(self, me: live.Actor, at: int, after: int) -> live.Program:
        """Over the links from one satellite to another."""
        ticket = (me.number, at, after)
        yield live.send(f"sat {at}", 0, ("carry", after, ticket, me.number))
        yield live.receive(lambda m: bool(m.body == ticket))


class Satellite:
    """Carries pictures to other satellites, and tells their owners when they have arrived."""

    def on_message(self, me: live.Actor, message: live.Message) -> live.Program:
        """A wish to carry a picture, or a picture."""
        kind, *rest = message.body
        if kind == "carry":
            after, ticket, owner = rest
            yield live.send(f"sat {after}", PICTURE, ("picture", ticket, owner))
        else:
            ticket, owner = rest
            yield live.send(owner, 0, ticket)
