"""Three decisions of a cluster, each by a policy and by what production uses, with imperfect observations."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.serving import EngineView, RequestView, Service
from chakrakit.serving.requests import RequestStream, stream_of

MOST, WORKERS, STEP_S, INTERVAL_S = 12, 6, 0.1, 2.0
"""Engines that a scaler may use, workers of the others, seconds of a step and between looks."""
OWN, FOREIGN = 0, 1
"""Requests that are ours to decide about, and those of other tenants."""


@dataclass(frozen=True)
class Seen:
    """How observations differ from what is there."""

    lag_s: float
    noise: float
    seed: int

    def factors(self, count: int) -> list[float]:
        """What `count` observations are multiplied with."""
        rng = np.random.default_rng([self.seed, 81])
        return [float(f) for f in np.exp(self.noise * rng.standard_normal(count))]


def workers(system: str) -> Service:
    """Engines with one request each, or one with a place for each of several tasks."""
    if system == "scheduling":
        return Service(lambda _n, _k: STEP_S, max_items=WORKERS, max_requests=10**6, name="tasks")
    engines = MOST if system == "scaling" else WORKERS
    return Service(lambda _n, _k: STEP_S, max_items=1, max_requests=1, engines=engines, name=system)


def load(system: str, seconds: float, shift: float, tenants: float, seed: int) -> RequestStream:
    """Requests, or jobs of up to eight tasks, at a rate that swings; other tenants; a shift in the middle."""
    rng = np.random.default_rng([seed, 8])
    rows: list[tuple[float, int, int, int]] = []
    jobs = system == "scheduling"
    usual = 28 if jobs else 40
    for start in range(0, round(seconds), 10):
        level = 1 + 0.5 * math.sin(2 * math.pi * start / 60)
        level *= shift if start >= seconds / 2 else 1.0
        for tenant, rate in ((OWN, usual * level), (FOREIGN, usual * tenants)):
            for at in start + rng.uniform(0, 10, rng.poisson(rate if jobs else 10 * rate)):
                tasks = int(rng.integers(1, 9)) if jobs else 1
                work = int(rng.integers(1, 6)) if jobs else 1
                rows += [(float(at), work, tenant, len(rows))] * tasks
    at_s, work_of, tenant_of, job = zip(*sorted(rows), strict=True)
    ones = np.ones(len(at_s))
    return stream_of(at_s, ones, work_of, adapter=tenant_of, group=job)


class Scaler:
    """How many engines are on.

    The policy goes by the requests under way. The others multiply the engines of now by what each had when
    it was looked at. The largest of the last answers counts; as shipped there is one, without damping.
    """

    interval_s, start_up_s = INTERVAL_S, INTERVAL_S

    def __init__(self, rule: str, knob: float, seen: Seen) -> None:
        self.rule, self.knob = rule, knob
        self.on = WORKERS
        self.looks: deque[tuple[float, int]] = deque(maxlen=1 + round(seen.lag_s / INTERVAL_S))
        self.answers: deque[int] = deque(maxlen={"policy": 4, "tuned": 8}.get(rule, 1))
        self.factors = iter(seen.factors(1000))

    def scale(self, engines: Sequence[EngineView], now_s: float) -> int:
        """The number of engines that take requests."""
        if self.rule == "static":
            return round(self.knob * MOST)
        if now_s == 0:  # nothing has been seen yet
            return self.on
        there = [r for e in engines for r in (*e.running_requests, *e.waiting_requests)]
        self.looks.append((sum(r.adapter == OWN for r in there) * next(self.factors), self.on))
        under_way, on_then = self.looks[0]
        wanted = under_way / self.knob * (1 if self.rule == "policy" else self.on / on_then)
        self.answers.append(min(MOST, max(1, math.ceil(wanted))))
        self.on = max(self.answers)
        return self.on


class Router:
    """Which worker a request goes to, by queues as they were when last looked at.

    The policy adds what it has sent since. As shipped, the shortest queue of that look gets all; tuned, the
    shorter one of a few that are drawn. Other tenants use the first two workers.
    """

    def __init__(self, rule: str, knob: float, seen: Seen) -> None:
        self.rule, self.knob, self.seen = rule, knob, seen
        self.looked_s, self.queues, self.turn = -math.inf, [0.0] * WORKERS, 0
        self.rng = np.random.default_rng([seen.seed, 82])

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int:
        """The number of the worker."""
        if request.adapter == FOREIGN:
            return request.number % 2
        if engines[0].now_s >= self.looked_s + self.seen.lag_s:
            self.looked_s = engines[0].now_s
            noise = np.exp(self.seen.noise * self.rng.standard_normal(WORKERS))
            self.queues = [(e.waiting + e.running) * f for e, f in zip(engines, noise, strict=True)]
        self.turn += 1
        if self.rule == "static":
            return self.turn % WORKERS
        tuned = self.rule == "tuned"
        among = self.rng.permutation(WORKERS)[: max(1, round(self.knob)) if tuned else WORKERS]
        worker = int(min(among, key=lambda n: self.queues[n]))
        self.queues[worker] += self.rule == "policy"
        return worker


class Chooser:
    """Which tasks run next. The policy takes the job with the least work left, as it was estimated.

    As shipped and static, jobs run as they came; tuned, every job gets as many places as any other, or so
    many more. Other tenants always run first; a job is known only after the lag.
    """

    knows_output = True

    def __init__(self, rule: str, knob: float, seen: Seen) -> None:
        self.rule, self.knob, self.seen = rule, knob, seen
        self.factors = seen.factors(4096)

    def batch(
        self, running: Sequence[RequestView], waiting: Sequence[RequestView], engine: EngineView
    ) -> list[tuple[int, int]]:
        """The tasks of the next step, in order."""
        tasks, left, turns = (*running, *waiting), dict[int, float](), dict[int, int]()
        for task in tasks:
            left[task.group] = left.get(task.group, 0.0) + (task.left or 0)
        order: list[tuple[float, float, int]] = []
        for task in tasks:
            turns[task.group] = turns.get(task.group, 0) + 1
            known = engine.now_s - task.arrived_s >= self.seen.lag_s
            estimate = left[task.group] * self.factors[task.group % len(self.factors)]
            rank = {"policy": estimate, "tuned": turns[task.group] // self.knob}.get(self.rule, 0.0)
            first = 0.0 if task.adapter == FOREIGN else 1.0 if known else 2.0
            order.append((first, rank if known else 0.0, task.number))
        return [(number, 1) for *_, number in sorted(order)[:WORKERS]]
