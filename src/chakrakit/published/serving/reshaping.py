"""Engines of one set of devices that change their shape with what is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.serving import EngineSpec, EngineView
from chakrakit.serving.requests import RequestStream, stream_of

DEGREES = (1, 2, 4)
"""Degrees of four devices: four engines, two, or one."""
MODEL, MACHINE = "qwen3-14b", "dgx-h100"


def specs(degrees: Sequence[int]) -> list[EngineSpec]:
    """The shapes of four devices with these degrees."""
    return [
        EngineSpec(
            model=MODEL,
            machine=MACHINE,
            tp=tp,
            count=4 // tp,
            devices=tuple(range(0, 4, tp)),
            compute="roofline",
        )
        for tp in degrees
    ]


def numbers(degree: int) -> list[int]:
    """The engines of a degree, where all degrees are there."""
    first = sum(4 // tp for tp in DEGREES[: DEGREES.index(degree)])
    return list(range(first, first + 4 // degree))


def drifting(phases: Sequence[str], seconds: float, seed: int) -> RequestStream:
    """Phases of a few requests that want fast tokens, or of many that only want to be done."""
    rng = np.random.default_rng([seed, 64])
    rows: list[tuple[float, int, int, int]] = []
    for phase, name in enumerate(phases):
        rate, prompt, output = (12.0, 600, 150) if name == "fast" else (50.0, 1500, 30)
        times = np.cumsum(rng.exponential(1 / rate, int(rate * seconds * 2)))
        inside = times[times < seconds] + phase * seconds
        rows += [(float(t), prompt, output, int(name != "fast")) for t in inside]
    at, prompts, outputs, tiers = zip(*rows, strict=True)
    return stream_of(at, prompts, outputs, priority=tiers)


class ByTier:
    """A large degree while requests want fast tokens, a small one while there are many others."""

    interval_s = 1.0

    def __init__(self, patience: int, degree: int) -> None:
        self.patience, self.degree, self.since = patience, degree, 0

    def reconfigure(self, now_s: float, engines: Sequence[EngineView]) -> list[int]:
        """The engines that are on: a change has to be wanted for some seconds."""
        running = [r for e in engines for r in (*e.running_requests, *e.waiting_requests)]
        many = sum(r.priority == 1 for r in running)
        want = 1 if many > 8 else 4 if not many and running else self.degree
        self.since = 0 if want == self.degree else self.since + 1
        if self.since >= self.patience:
            self.degree, self.since = want, 0
        return numbers(self.degree)
