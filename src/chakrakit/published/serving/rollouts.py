"""Reinforcement learning as a source of requests: rollouts with environments, training steps, and tenants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrakit.serving import FinishedRequest, Request
from chakrakit.serving.requests import RequestStream, joined, stream_of

ROLLOUT = 1
"""The priority of rollouts; that of other requests is 0."""


@dataclass(frozen=True)
class Training:
    """What every tenant does: iterations of sessions, whose turns wait for an environment, and a step.

    Waits are lognormal with a mean of `wait_s` and a long tail. The step is taken on a device of its own, one
    tenant after the other; a tenant that comes when another was there before loads its model in `load_s`.
    """

    tenants: int
    sessions: int
    wait_s: float
    turns: int = 3
    iterations: int = 2
    prompt: int = 400
    output: int = 150
    step_s: float = 4.0
    load_s: float = 0.0
    at_once: int = 10**6
    """Tenants that are served at the same time."""
    lockstep: bool = False
    """Whether tenants begin their steps, and their next rollouts, all together."""


@dataclass
class _Tenant:
    iteration: int = 0
    under_way: int = 0


@dataclass
class Rollouts:
    """A source: rollouts of all tenants, next to requests that come anyway."""

    plan: Training
    seed: int
    others: RequestStream | None = None
    ends: dict[int, float] = field(default_factory=dict)
    """When each tenant had its last step."""
    trained_s: float = 0.0
    """Seconds of all steps."""

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, 38])
        self.tenants = [_Tenant() for _ in range(self.plan.tenants)]
        self.queue = list(range(self.plan.tenants))
        self.device_free = 0.0
        self.done: dict[int, float] = {}
        own = min(self.plan.at_once, len(self.queue))
        first, self.queue = self.queue[:own], self.queue[own:]
        begun = [r for t in first for r in self.rollouts(t, self.plan.load_s)]
        count = len(begun)
        mine = stream_of(
            [r.at_s for r in begun],
            [r.prompt for r in begun],
            [r.output for r in begun],
            adapter=[r.adapter for r in begun],
            priority=[ROLLOUT] * count,
        )
        self.tags = {i: r.tag for i, r in enumerate(begun)}
        self.stream = mine
        if self.others is not None:
            both = joined([mine, self.others])
            order = np.argsort(both.arrival_ps, kind="stable")
            self.stream = both.reordered(order)
            place = {int(old): new for new, old in enumerate(order)}
            self.tags = {place[i]: tag for i, tag in self.tags.items()}

    def rollouts(self, tenant: int, at_s: float) -> list[Request]:
        """The first turns of an iteration's sessions."""
        self.tenants[tenant].under_way = self.plan.sessions
        return [self.turn(tenant, 0, at_s) for _ in range(self.plan.sessions)]

    def turn(self, tenant: int, turn: int, at_s: float, last: int = -1) -> Request:
        """A turn, whose prompt has all that was said before, up to the `last` request."""
        plan = self.plan
        before = turn * (plan.prompt + plan.output)
        return Request(
            prompt=plan.prompt + before,
            output=plan.output,
            at_s=at_s,
            continues=last,
            adapter=tenant,
            priority=ROLLOUT,
            tag=(tenant, turn),
        )

    def next(self, now_s: float, finished: Sequence[FinishedRequest]) -> list[Request]:
        """The turns after those that have ended; after the last of an iteration, what follows its step."""
        more: list[Request] = []
        for one in finished:
            tag = one.tag or self.tags.get(one.number)
            if tag is not None:
                tenant, turn = tag
                more += self.after(tenant, turn, now_s, one.number)
        return more

    def after(self, tenant: int, turn: int, now_s: float, number: int) -> list[Request]:
        """What a turn that has ended is followed by."""
        if turn + 1 < self.plan.turns:
            return [self.turn(tenant, turn + 1, now_s + self.wait(), number)]
        state = self.tenants[tenant]
        state.under_way -= 1
        if state.under_way:
            return []
        if not self.plan.lockstep:
            return self.trained(tenant, self.step(now_s))
        self.done[tenant] = now_s
        if len(self.done) < self.plan.tenants:
            return []
        ended = max(self.step(now_s) for _ in self.done)
        together, self.done = list(self.done), {}
        return [r for t in together for r in self.trained(t, ended)]

    def wait(self) -> float:
        """Seconds of an environment."""
        return float(self.plan.wait_s * self.rng.lognormal(-0.5, 1.0))

    def step(self, now_s: float) -> float:
        """When a training step that is asked for now will have ended."""
        self.device_free = max(self.device_free, now_s) + self.plan.step_s
        self.trained_s += self.plan.step_s
        return self.device_free

    def trained(self, tenant: int, at_s: float) -> list[Request]:
        """The next rollouts of a tenant, or those of the next tenant."""
        self.tenants[tenant].iteration += 1
        self.ends[tenant] = at_s
        if self.tenants[tenant].iteration < self.plan.iterations:
            return self.rollouts(tenant, at_s)
        return self.rollouts(self.queue.pop(0), at_s + self.plan.load_s) if self.queue else []
