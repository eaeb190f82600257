"""Networks with exits on one device: their times, their requests, and who decides what runs and how deep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chakrakit.serving import EngineView, RequestView, Service
from chakrakit.serving.requests import RequestStream, stream_of

STAGES = 4
"""Parts of a network; after each there is an exit."""
MACS, PARAMETERS = (4.1e9, 7.8e9, 11.5e9), (25.6e6, 44.5e6, 60.2e6)
"""Multiply-adds for an image and weights of ResNet-50, -101 and -152."""
RATE, BANDWIDTH, LAUNCH = 10e12, 204.8e9, 0.5e-3
"""FLOP/s that an edge device sustains and its launches of a part, assumed; its memory's bytes a second."""
RIGHT = (0.80, 0.92, 0.97, 1.0)
"""Answers that are right at each exit, as a share of those of the whole network: assumed."""
MOST = 16
"""Images of a batch."""


def part_seconds(model: int, images: int) -> float:
    """The time of a quarter of a network for a batch."""
    work = images * 2 * MACS[model] / RATE + PARAMETERS[model] * 2 / BANDWIDTH
    return LAUNCH + work / STAGES


def seconds(_items: int, models: Mapping[int, int]) -> float:
    """A step: networks follow each other."""
    return sum(part_seconds(model, images) for model, images in models.items())


def device() -> Service:
    """One device that runs one batch of one network after another."""
    return Service(seconds, max_items=MOST, max_requests=10**6, name="edge device")


def images(rate: float, tight: float, count: int, seed: int) -> RequestStream:
    """Images for three networks; each is to be done within some times of what it takes alone."""
    rng = np.random.default_rng([seed, 63])
    model = rng.choice(3, count, p=(0.5, 0.3, 0.2))
    alone = np.array([STAGES * part_seconds(m, 1) for m in range(3)])
    at = np.cumsum(rng.exponential(1 / rate, count))
    whole = np.full(count, STAGES)
    return stream_of(
        at,
        np.ones(count),
        whole,
        adapter=model,
        group=np.arange(count),
        deadline_s=tight * alone[model],
    )


class OneDepth:
    """All images leave at the same exit; the next batch is of the network that `rule` names."""

    def __init__(self, rule: str, depth: int) -> None:
        self.rule, self.depth = rule, depth

    def batch(
        self, running: Sequence[RequestView], waiting: Sequence[RequestView], engine: EngineView
    ) -> list[tuple[int, int]]:
        """The images of one network, the most urgent first."""
        by_model: dict[int, list[RequestView]] = {}
        for request in (*running, *waiting):
            by_model.setdefault(request.adapter, []).append(request)
        if not by_model:
            return []
        model = max(by_model, key=lambda m: (self.score(by_model[m], engine.now_s), -m))
        chosen = sorted(by_model[model], key=lambda r: (r.deadline_s, r.number))[:MOST]
        return [(request.number, 1) for request in chosen]

    def score(self, requests: Sequence[RequestView], now_s: float) -> float:
        """How much a network wants to be next: the longest queue, or the earliest deadline."""
        if self.rule == "largest queue":
            return len(requests)
        return -min(r.deadline_s or 0.0 for r in requests)

    def finish(self, requests: Sequence[RequestView], engine: EngineView) -> list[int]:
        """Those that have reached the depth."""
        return [r.number for r in requests if r.generated >= self.depth]


class ByStability(OneDepth):
    """The network with the most pressure is next; images leave early while queues threaten deadlines.

    Pressure is the sum of what each image would lose by waiting, by the time that it has left. An image goes
    on where its own next part ends in time and the first parts of all that wait do so as well, with some
    `margin`.
    """

    def __init__(self, margin: float, exits: bool) -> None:
        super().__init__("stability", STAGES)
        self.margin, self.exits = margin, exits

    def score(self, requests: Sequence[RequestView], now_s: float) -> float:
        """The pressure of its images; those that are late cannot be helped."""
        left = [(r.deadline_s or 0.0) - now_s for r in requests]
        one = part_seconds(requests[0].adapter, len(requests[:MOST]))
        return sum(one / slack for slack in left if slack > one)

    def finish(self, requests: Sequence[RequestView], engine: EngineView) -> list[int]:
        """Images that would be late, or make others late, by one more part."""
        if not self.exits:
            return []
        own = {r.number for r in requests}
        others = [
            r
            for r in (*engine.running_requests, *engine.waiting_requests)
            if r.number not in own and (r.deadline_s or 0.0) > engine.now_s
        ]
        counts = np.bincount([r.adapter for r in others], minlength=len(MACS))
        queue = sum(part_seconds(m, int(n)) for m, n in enumerate(counts) if n)
        more = part_seconds(requests[0].adapter, len(requests))
        ready = engine.now_s + self.margin * (queue + more)
        crowded = ready > min(((r.deadline_s or 0.0) for r in others), default=np.inf)
        return [r.number for r in requests if crowded or ready > (r.deadline_s or 0.0)]
