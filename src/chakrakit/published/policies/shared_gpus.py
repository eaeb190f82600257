"""GPUs that radio functions and AI services share: who gets how many, and what it costs to change that.

Radio functions are short and due in milliseconds; AI services take half a second. A GPU serves one kind at a
time and needs a while to change over. Every so often the split may be chosen anew, from the load as it is
seen.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from chakrakit.published import Case, Setting
from chakrakit.published.policies.learned import Learner, Perturbation, SeenQuantity, level
from chakrakit.simulator import live

GPUS = 8
RADIO_S, RADIO_DUE_S = 0.02, 0.06
"""Of a batch of radio functions. Assumed: tens of slots of a millisecond, three batches late at most."""
AI_S, AI_DUE_S = 0.5, 2.0
"""Of an AI request. Assumed."""
CHANGE_S = 0.3
"""Until a GPU serves the other kind: weights are loaded. Assumed."""
EPOCH_S = 2.0
"""How often a split may be chosen anew."""


class SharedGpus:
    """The policy of a pool of GPUs: kinds by place, and what came of requests."""

    def __init__(
        self, setting: Setting, learner: Learner | None, perturbation: Perturbation, seed: int
    ) -> None:
        self.setting, self.learner = setting, learner
        self.split = setting["radio"]
        self.rng = random.Random(f"split {seed}")
        self.seen = SeenQuantity(2, perturbation, self.rng)
        self.arrived = [0, 0]
        self.met: list[list[bool]] = [[], []]

    def pick(
        self, tasks: Sequence[live.Task], places: Sequence[live.Place], now_ns: float
    ) -> tuple[live.Task, live.Place] | None:
        """The request that is due first, at a GPU that its kind may use."""
        for task in sorted(tasks, key=lambda t: t.about[1]):
            kind = task.about[0]
            mine = [p for p in places if self._may(kind, p.number)]
            ready = [p for p in mine if task.item in p.resident]
            if ready or mine:
                return task, (ready or mine)[0]
        return None

    def _may(self, kind: int, place: int) -> bool:
        if self.setting["how"] == "due first":
            return True
        return bool((place < self.split) == (kind == 0))

    def request(self, me: live.Actor, gpus: live.Pool, kind: int) -> live.Program:
        """One request, which is given up when it is late."""
        began, due = me.now / live.S, (RADIO_DUE_S, AI_DUE_S)[kind]
        seconds = (RADIO_S, AI_S)[kind]
        self.arrived[kind] += 1
        about = (kind, began + due)
        work = live.use(gpus, seconds * live.S, item=kind, change=CHANGE_S * live.S, about=about)
        ended, _ = yield live.any_of(work, live.sleep(due * live.S))
        self.met[kind].append(ended == 0)

    def controller(self, me: live.Actor, seconds: float) -> live.Program:
        """Chooses the split anew, epoch by epoch."""
        while me.now / live.S < seconds:
            marks = [len(m) for m in self.met]
            self.arrived = [0, 0]
            yield live.sleep(EPOCH_S * live.S)
            rates = [count / EPOCH_S for count in self.arrived]
            self.seen.note(me.now / live.S, rates)
            radio, ai = self.seen.seen(me.now / live.S)
            state = (level(radio * RADIO_S, 1, 2, 3, 4), level(ai * AI_S, 1, 2, 3, 4, 5))
            yield from self._decide(me, state, radio, ai, marks)

    def _decide(
        self, me: live.Actor, state: tuple[int, int], radio: float, ai: float, marks: list[int]
    ) -> live.Program:
        how, margin = self.setting["how"], self.setting["margin"]
        if how == "greedy":
            wants = [radio * RADIO_S * margin, ai * AI_S]
            self.split = min(GPUS - 1, max(1, math.ceil(GPUS * wants[0] / max(1e-9, sum(wants)))))
        elif how == "learned" and self.learner is not None:
            self.split = 1 + self.learner.choose(state, self.rng)
            yield live.spawn(self._credit(me, state, self.split - 1, marks))

    def _credit(
        self, me: live.Actor, state: tuple[int, int], action: int, marks: list[int]
    ) -> live.Program:
        """The share of requests that were met until the next choice."""
        assert self.learner is not None
        yield live.sleep(EPOCH_S * live.S)
        ended = [m[mark:] for m, mark in zip(self.met, marks, strict=True)]
        shares = [sum(m) / len(m) for m in ended if m]
        self.learner.learn(state, action, sum(shares) / max(1, len(shares)))


def arrivals(
    me: live.Actor, shared: SharedGpus, gpus: live.Pool, kind: int, case: Case, times: float
) -> live.Program:
    """Requests of one kind, more at some times than at others; the kinds' waves are opposite."""
    seconds, share = (RADIO_S, AI_S)[kind], (0.4, 0.6)[kind]
    wave: float = case["wave"]
    most = times * case["load"] * GPUS * share / seconds * (1 + wave)
    while me.now / live.S < case["seconds"]:
        yield live.sleep(me.random.expovariate(most) * live.S)
        phase = math.sin(2 * math.pi * me.now / live.S / 20 + math.pi * kind)
        if me.random.random() < (1 + wave * phase) / (1 + wave):
            yield live.spawn(shared.request(me, gpus, kind))
