"""Edge nodes that fail and come back, and tasks with deadlines that are sent to one of them.

A node that fails loses what it works on and what waits there, and a new task sent to it is lost until the
failure has been noticed. Nodes differ in speed and in how often they fail.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from chakrakit.published import Case, Setting
from chakrakit.published.policies.learned import Learner, Perturbation, SeenQuantity, level
from chakrakit.simulator import live

SPEED = (1.0, 1.5, 2.0, 3.0)
FAILS = (0.1, 0.5, 1.0, 3.0)
"""How often a node fails, next to the case's rate: the fast ones more often. Assumed."""
AWAY_S, NOTICED_S, DUE_S = 8.0, 2.0, 4.0
"""Until a node is back, until others notice that it is gone, and a task's deadline. Assumed."""
LOCAL = 0.4
"""Speed of the device itself, which never fails."""


class EdgeNodes:
    """Nodes with their lines, who is away, and how a node is chosen."""

    def __init__(
        self, case: Case, setting: Setting, learner: Learner | None, given: Perturbation, seed: int
    ) -> None:
        self.case, self.setting, self.learner = case, setting, learner
        self.rng = random.Random(f"choices {seed}")
        self.backlog = [0.0] * (len(SPEED) + 1)
        self.lines = SeenQuantity(len(self.backlog), given, self.rng)
        self.away = self._failures(random.Random(f"failures {seed}"))
        self.succeeded: list[bool] = []

    def _failures(self, rng: random.Random) -> list[list[tuple[float, float]]]:
        """For every node the times at which it fails and is back."""
        found: list[list[tuple[float, float]]] = []
        for often in FAILS:
            at, times = 0.0, []
            while self.case["failures"] and at < 400.0:
                at += rng.expovariate(self.case["failures"] * often / 60)
                times.append((at, at + AWAY_S))
                at += AWAY_S
            found.append(times)
        return [*found, []]

    def up(self, node: int, now_s: float) -> bool:
        """Whether a node is there."""
        return not any(a <= now_s < b for a, b in self.away[node])

    def next_failure(self, node: int, now_s: float) -> float:
        """When the node fails next."""
        return min((a for a, _ in self.away[node] if a >= now_s), default=float("inf"))

    def choose(self, now_s: float, work: float) -> tuple[int, tuple[int, ...]]:
        """The node for a task, and the state that a learner saw; the last node is the device itself."""
        seen = self.lines.seen(now_s)
        speeds = (*SPEED, LOCAL)
        ends = [(w + work) / s for w, s in zip(seen, speeds, strict=True)]
        for node in range(len(SPEED)):
            if not self.up(node, now_s - NOTICED_S):
                ends[node] = float("inf")
        state = tuple(level(e, 0.5 * DUE_S, DUE_S) for e in ends)
        how = self.setting["how"]
        if how == "learned" and self.learner is not None:
            return self.learner.choose(state, self.rng), state
        if how == "fixed":
            return self.rng.choices(range(len(speeds)), self._weights())[0], state
        careful = self.setting["value"]
        risks = [1 + careful * often for often in (*FAILS, 0.0)]
        return min(range(len(speeds)), key=lambda n: ends[n] * risks[n]), state

    def _weights(self) -> list[float]:
        """Shares that never change: by speed, less for those that fail."""
        lean = self.setting["value"]
        pairs = zip((*SPEED, LOCAL), (*FAILS, 0.0), strict=True)
        return [speed / (1 + lean * often) for speed, often in pairs]

    def task(self, me: live.Actor, pools: Sequence[live.Pool], work: float) -> live.Program:
        """One task, which succeeds if it ends in time."""
        began = me.now / live.S
        node, state = self.choose(began, work)
        speed = (*SPEED, LOCAL)[node]
        self.backlog[node] += work
        self.lines.note(began, self.backlog)
        fails = self.next_failure(node, began) if self.up(node, began) else began
        left = max(0.0, min(fails - began, DUE_S))
        ended, _ = yield live.any_of(
            live.use(pools[node], work / speed * live.S), live.sleep(left * live.S)
        )
        self.backlog[node] -= work
        self.lines.note(me.now / live.S, self.backlog)
        self.succeeded.append(ended == 0)
        if self.learner is not None:
            self.learner.learn(state, node, float(ended == 0))
