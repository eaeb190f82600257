"""Rollouts of reinforcement learning on reserved and spot GPUs that may be taken away at any time.

Groups of GPUs take samples from a queue. A group on spot loses a member now and then: the sample it worked
on is lost or goes on from its last step, and the group is set up again in minutes or in half a second,
meanwhile with half of its members.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from chakrakit.published import Case, Setting
from chakrakit.simulator import live

RESERVED, SPOT = 8, 16
SAMPLE_S = 28.0
"""Of one GPU: 50 denoising steps of half a second. Assumed."""
SPEEDUP = {1: 1.0, 2: 1.85, 4: 3.2}
"""Of sequence parallelism over so many GPUs. Assumed."""
AWAY_S = 120.0
"""Until a GPU that was taken away has been replaced. Assumed."""
REBUILT_S, REGROUPED_S = 120.0, 0.5
"""Setting a group up again: minutes, and under a second, as published."""


@dataclass
class SpotRollouts:
    """The queue of samples, who is told of new ones, and what the spot GPUs did."""

    case: Case
    setting: Setting
    queue: deque[tuple[float, int]] = field(default_factory=deque)
    """Seconds of one GPU that a sample still needs, and the phase it belongs to."""
    training: bool = False
    phase: int = 0
    finished: int = 0
    """Samples of this phase; those of earlier ones come too late."""
    busy_s: float = 0.0
    held_s: float = 0.0
    lost_s: float = 0.0

    def group(self, me: live.Actor, spot: bool) -> live.Program:
        """A group of GPUs: a sample after another, while there are any for it."""
        size = self.setting["sp"]
        taken_s = self._next(me, size) if spot else float("inf")
        while True:
            if not self.queue or (self.training and not spot):
                yield live.receive()
                continue
            work, phase = self.queue.popleft()
            needs = work / SPEEDUP[size]
            now = me.now / live.S
            if now + needs <= taken_s:
                yield live.sleep(needs * live.S)
                self.busy_s += needs * size * spot
                yield from self._ended(phase)
                continue
            worked = max(0.0, taken_s - now)
            yield live.sleep(worked * live.S)
            yield from self._taken(me, work - self._kept(worked, size), phase, size)
            taken_s = self._next(me, size)

    def _next(self, me: live.Actor, size: int) -> float:
        """When the next GPU of the group is taken away."""
        hours = self.case["hours_between"]
        every: float = hours * 3600 / size
        return me.now / live.S + me.random.expovariate(1 / every) if hours else float("inf")

    def _kept(self, worked: float, size: int) -> float:
        """What is left of work that was interrupted, in seconds of one GPU."""
        keeps = self.setting["keeps"]
        self.lost_s += worked * size * (not keeps)
        self.busy_s += worked * size * keeps
        self.held_s -= AWAY_S
        return worked * SPEEDUP[size] if keeps else 0.0

    def _taken(self, me: live.Actor, work: float, phase: int, size: int) -> live.Program:
        """A GPU is gone: others may take its sample, and the group waits or goes on with half."""
        if phase == self.phase:
            self.queue.appendleft((work, phase))
            yield live.send("trainer", 0, "again")
        if not self.setting["keeps"]:
            yield live.sleep((AWAY_S + REBUILT_S) * live.S)
            return
        until = me.now / live.S + AWAY_S
        yield live.sleep(REGROUPED_S * live.S)
        half = size // 2
        while half and self.queue and me.now / live.S + self.queue[0][0] / SPEEDUP[half] < until:
            left, of = self.queue.popleft()
            yield live.sleep(left / SPEEDUP[half] * live.S)
            self.busy_s += left / SPEEDUP[half] * half
            yield from self._ended(of)
        yield live.sleep(max(0.0, until - me.now / live.S) * live.S)

    def _ended(self, phase: int) -> live.Program:
        if phase == self.phase:
            self.finished += 1
            yield live.send("trainer", 0, "sample")

    def begin(self, groups: list[str], samples: int, training: bool) -> live.Program:
        """A new phase: its samples alone are in the queue, and the groups are told."""
        self.queue.clear()
        self.phase += 1
        self.training, self.finished = training, 0
        self.queue.extend([(SAMPLE_S, self.phase)] * samples)
        yield from self.tell(groups)

    def tell(self, groups: list[str]) -> live.Program:
        """Wakes the groups that wait."""
        for name in groups:
            yield live.send(name, 0, "samples")
