"""A scheduler of denoising steps on eight GPUs: an actor that hears of arrivals and ends, and hands out GPUs.

With a fixed degree the GPUs are partitioned for good. Elastic steps use any free GPUs at the degree that
load allows; GPUs that have not worked together since they last worked with others must first set up a
group.
"""

from __future__ import annotations

import random
from typing import Any

from chakrakit.published import Setting
from chakrakit.published.workflows.denoising import step_seconds
from chakrakit.simulator import live

GPUS, STEPS, REQUESTS = 8, 50, 60
DEGREES = (1, 2, 4)


def source(me: live.Actor, load: float, mix: float) -> live.Program:
    """Requests at a share of what GPUs could do at degree 1; `mix` of them are videos."""
    rng = random.Random(f"{me.name}/{load}/{mix}/{me.random.random()}")
    work = mix * step_seconds("video", 1) + (1 - mix) * step_seconds("image", 1)
    for number in range(REQUESTS):
        yield live.sleep(rng.expovariate(load * GPUS / (STEPS * work)) * live.S)
        kind = "video" if rng.random() < mix else "image"
        yield live.send("scheduler", 0, ("new", number, kind))


class StepScheduler:
    """Free GPUs, who waits, and which sets of GPUs have a group."""

    def __init__(self, setting: Setting, setup_s: float) -> None:
        self.fixed, self.greed, self.setup = setting["fixed"], setting["greed"], setup_s
        self.free = set(range(GPUS))
        self.waiting: list[int] = []
        self.groups: set[frozenset[int]] = set()
        self.kind: dict[int, str] = {}
        self.left: dict[int, int] = {}
        self.came: dict[int, float] = {}
        self.latency: dict[int, float] = {}

    def degree(self, request: int) -> int:
        """How many GPUs the next step gets; 0: it waits."""
        if self.fixed:
            return self.fixed if len(self.free) >= self.fixed else 0
        each = max(1.0, self.greed * len(self.free) / len(self.waiting))
        fitting = [d for d in DEGREES if d <= min(each, len(self.free))]
        kind = self.kind[request]
        return min(fitting, key=lambda d: step_seconds(kind, d), default=0)

    def gpus(self, degree: int) -> frozenset[int]:
        """Free GPUs that have a group already, else the lowest; fixed ones are partitioned."""
        if self.fixed:
            first = next(g for g in range(0, GPUS, degree) if g in self.free)
            return frozenset(range(first, first + degree))
        known = [g for g in self.groups if len(g) == degree and g <= self.free]
        return min(known, key=sorted) if known else frozenset(sorted(self.free)[:degree])

    def step(self, me: live.Actor, request: int, gpus: frozenset[int]) -> live.Program:
        """One step on these GPUs, and word of its end."""
        if len(gpus) > 1 and not self.fixed and gpus not in self.groups:
            self.groups = {g for g in self.groups if not g & gpus} | {gpus}
            yield live.sleep(self.setup * live.S)
        yield live.sleep(step_seconds(self.kind[request], len(gpus)) * live.S)
        yield live.send(me, 0, ("done", request, gpus))

    def run(self, me: live.Actor) -> live.Program:
        """Hears, and hands out."""
        while len(self.latency) < REQUESTS:
            (message,) = yield live.receive()
            what, request, detail = message.body
            self.hear(what, request, detail, me.now / live.S)
            for waiting in sorted(self.waiting, key=lambda r: self.came[r]):
                degree = self.degree(waiting)
                if not degree:
                    break
                gpus = self.gpus(degree)
                self.free -= gpus
                self.waiting.remove(waiting)
                yield live.spawn(self.step(me, waiting, gpus))

    def hear(self, what: str, request: int, detail: Any, now: float) -> None:
        """A request that came, or a step that ended."""
        if what == "new":
            self.kind[request], self.left[request], self.came[request] = detail, STEPS, now
        else:
            self.free |= detail
            self.left[request] -= 1
        if self.left[request]:
            self.waiting.append(request)
        else:
            self.latency[request] = now - self.came[request]
