"""Three edge devices with clocks that can be set, and tasks that are placed on them.

What a task costs is its latency and its energy, both as shares of what one of mean work needs alone on the
fast device.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from chakrakit.published import Setting
from chakrakit.published.policies.learned import Learner, Perturbation, SeenQuantity, level
from chakrakit.simulator import live

SPEED, WATTS, IDLE = (1.0, 2.0, 4.0), (3.0, 10.0, 40.0), (0.5, 1.5, 5.0)
"""Of the devices: work per second, watts at full clock, and idle. Assumed, as boards' data sheets go."""
CLOCKS = (0.5, 0.75, 1.0)
TASKS, FREE_S, TASK_J = 250, 0.25, 10.0
"""Tasks; seconds and joules of a task of mean work alone on the fast device."""


class EdgeSite:
    """The devices, what lies before each, and how clocks and places are chosen."""

    def __init__(
        self, setting: Setting, learners: Sequence[Learner], perturbation: Perturbation, seed: int
    ) -> None:
        self.how, self.setting, self.learners = setting["how"], setting, learners
        self.rng, self.backlog, self.clock = random.Random(f"site {seed}"), [0.0] * 3, 1.0
        self.lines = SeenQuantity(3, perturbation, self.rng)
        self.latency: list[float] = []
        self.joules = 0.0

    def place(self, now_s: float) -> tuple[int, float, tuple[int, ...]]:
        """Device and clock of a task that arrives now, and the state that a learner saw."""
        waits = [w / s for w, s in zip(self.lines.seen(now_s), SPEED, strict=True)]
        state = tuple(level(w, 0.3, 1.5) for w in waits)
        if self.how == "fixed":
            return self.rng.choices(range(3), self.shares())[0], self.setting["clock"], state
        if self.how == "greedy":
            clock = CLOCKS[level(sum(waits), self.setting["clock"], 4 * self.setting["clock"])]
            return min(range(3), key=lambda d: waits[d] + 1 / SPEED[d]), clock, state
        if self.how == "one":
            action = self.learners[0].choose(state, self.rng)
            return action // 3, CLOCKS[action % 3], state
        clock = CLOCKS[self.learners[1].choose(level(sum(waits), 0.5, 2.0, 5.0), self.rng)]
        return self.learners[0].choose(state, self.rng), clock, state

    def shares(self) -> Sequence[float]:
        """Which share of tasks each device gets: by speed, or more to the fast one."""
        return [s ** self.setting["skew"] for s in SPEED]

    def task(self, me: live.Actor, pools: Sequence[live.Pool], work: float) -> live.Program:
        """One task, from its arrival to its end."""
        began = me.now / live.S
        device, clock, state = self.place(began)
        load = level(sum(w / s for w, s in zip(self.backlog, SPEED, strict=True)), 0.5, 2.0, 5.0)
        self.backlog[device] += work
        self.lines.note(began, self.backlog)
        yield live.use(pools[device], work / SPEED[device] / clock * live.S)
        self.backlog[device] -= work
        self.lines.note(me.now / live.S, self.backlog)
        took = me.now / live.S - began
        joules = (WATTS[device] - IDLE[device]) * work / SPEED[device] * clock**2
        self.latency.append(took)
        self.joules += joules
        reward = -took / FREE_S - joules / TASK_J
        self._learn(state, device, CLOCKS.index(clock) if clock in CLOCKS else 0, load, reward)

    def _learn(
        self, state: tuple[int, ...], device: int, clock: int, load: int, reward: float
    ) -> None:
        if self.how == "one":
            self.learners[0].learn(state, 3 * device + clock, reward)
        elif self.how == "two":
            self.learners[0].learn(state, device, reward)
            self.learners[1].learn(load, clock, reward)
