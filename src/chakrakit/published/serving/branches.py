"""Answers with branches: streams of them, and who decides how many branches a step works on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from chakrakit.serving import EngineView, RequestView
from chakrakit.serving.requests import RequestStream, stream_of

PROMPT, HEAD, BRANCHES, BRANCH, SERIAL = 512, 16, 6, 48, 128
"""Tokens of a prompt, of an answer before it forks, number of branches, tokens of each, of a plain answer."""


def branching(rate: float, count: int, seed: int) -> RequestStream:
    """Requests of which every second forks into branches, which share what stands before them, and joins."""
    rng = np.random.default_rng([seed, 50])
    rows: list[tuple[float, int, int, list[int], int, int]] = []
    for group, at in enumerate(np.cumsum(rng.exponential(1 / rate, count)).tolist()):
        root = len(rows)
        if rng.random() < 0.5:
            rows.append((at, PROMPT, SERIAL, [-1], -1, group))
            continue
        rows.append((at, PROMPT, HEAD, [-1], -1, group))
        rows += [(0.0, PROMPT + HEAD, BRANCH, [root], root, group)] * BRANCHES
        branches = list(range(root + 1, root + 1 + BRANCHES))
        rows.append((0.0, PROMPT + HEAD + BRANCHES * BRANCH, HEAD, branches, root, group))
    at_s, prompt, output, after, continues, groups = zip(*rows, strict=True)
    return stream_of(at_s, prompt, output, after=after, continues=continues, group=groups)


class Branches:
    """One branch of every answer always runs; `extras` says how many more of them may."""

    def __init__(self, tpot_s: float, cap: float) -> None:
        self.tpot_s, self.cap = tpot_s, cap

    def batch(
        self, running: Sequence[RequestView], waiting: Sequence[RequestView], engine: EngineView
    ) -> list[tuple[int, int]]:
        """All answers first, then as many further branches as the rule admits."""
        own: dict[int, RequestView] = {}
        more: list[RequestView] = []
        for request in (*running, *waiting):
            if own.setdefault(request.group, request) is not request:
                more.append(request)
        chosen = [*own.values(), *more[: self.extras(list(own.values()), more, engine)]]
        return [(request.number, 10**6) for request in chosen]

    def extras(self, own: list[RequestView], more: list[RequestView], engine: EngineView) -> int:
        """A fixed number for each answer in the step."""
        return round(min(self.cap * len(own), len(more)))


class BySlack(Branches):
    """As many branches as a step has time for, by the engine's own model of it.

    An answer is judged at its end, so what it is ahead of its level is spread over the tokens that it has
    left; how many those are, answers that ended have shown. What that leaves for each of its steps, beyond
    what steps take without further branches, a step may be longer by. Steps are expected to take what they
    took over as many of them as are to come; an answer that is late even so is not waited for.
    """

    def __init__(self, tpot_s: float, cap: float) -> None:
        super().__init__(tpot_s, cap)
        self.got: dict[int, dict[int, int]] = {}
        self.first_s: dict[int, float] = {}
        self.running: dict[int, int] = {}
        self.lengths: list[int] = []
        """Tokens of requests that ended."""
        self.steps_s: list[float] = []
        """What past steps took without further branches."""

    def extras(self, own: list[RequestView], more: list[RequestView], engine: EngineView) -> int:
        """The most for which a step gets no longer than answers can spare."""
        self.look([*own, *more])
        prompts = sum(r.prompt - r.computed for r in own if r.generated == 0)
        width = sum(r.generated > 0 for r in own)
        context = sum(r.computed for r in own)
        self.steps_s.append(engine.step_seconds(width, context, prompts))
        allowed = self.steps_s[-1] + self.spare([*own, *more], engine.now_s)
        low, high = 0, len(more)
        while low < high:
            middle = (low + high + 1) // 2
            read = context + sum(max(r.computed, r.prompt) for r in more[:middle])
            taken = engine.step_seconds(width + middle, read, prompts)
            low, high = (middle, high) if taken <= allowed else (low, middle - 1)
        return low

    def look(self, requests: list[RequestView]) -> None:
        """Takes down what answers got, and how long requests were that are not there any more."""
        here = {r.number: r.generated for r in requests}
        self.lengths += [1 + n for r, n in self.running.items() if r not in here]
        self.running = here
        for r in requests:
            self.got.setdefault(r.group, {})[r.number] = r.generated
            if r.first_s is not None:
                self.first_s.setdefault(r.group, r.first_s)

    def spare(self, requests: list[RequestView], now_s: float) -> float:
        """Seconds by which a step may be longer than without further branches."""
        left: dict[int, float] = {}
        for r in requests:
            left[r.group] = max(left.get(r.group, 1.0), self.left(r.generated))
        spare = []
        for group in left.keys() & self.first_s.keys():
            ahead = self.first_s[group] + self.tpot_s * sum(self.got[group].values()) - now_s
            usual = float(np.mean(self.steps_s[-math.ceil(left[group]) :]))
            spare.append(self.tpot_s + ahead / left[group] - usual)
        return min((s for s in spare if s >= 0), default=math.inf)

    def left(self, generated: int) -> float:
        """Tokens that a request which got so many has left, as those that ended and were longer had."""
        longer = [n - generated for n in self.lengths if n > generated > 0]
        return sum(longer) / len(longer) if longer else 0.0
