"""Why requests take longer under one configuration than under another.

The mean request's time is its time in the queue, its prompt and its output. The latter two are spent in
steps and between them. A step's time is near enough a linear function of what it holds: what A's steps
would take with B's batches tells apart what larger batches cost from what slower steps cost. The parts
sum to the whole difference.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from chakrakit.insight.rank import Table
from chakrakit.insight.serving.facts import Phase, ServingFacts
from chakrakit.results import Result

_TOLD = {
    "steps": ("more steps", "fewer steps"),
    "decodes": ("more requests in its steps", "fewer requests in its steps"),
    "prompt tokens": ("more prompt tokens in its steps", "fewer prompt tokens in its steps"),
    "context": ("longer contexts in its steps", "shorter contexts in its steps"),
}
_LEAST_MS = 1e-6


class Part(Result, msgspec.Struct, frozen=True):
    """A part of the change of the mean request's time: positive where B takes longer."""

    what: str
    delta_ms: float


class ServingChange(Result, msgspec.Struct, frozen=True):
    """The mean request on both sides. `parts` by phase and `explained` by cause both sum to the change."""

    a_ms: float
    b_ms: float
    parts: dict[str, float]
    explained: list[Part]
    figures: dict[str, tuple[float, float]]
    sentence: str

    def tables(self) -> list[Table]:
        """For people: the explanation first."""
        change = self.b_ms - self.a_ms
        whole = max(abs(change), 1e-12)
        title = f"request {self.a_ms:,.1f} → {self.b_ms:,.1f} ms on average: {self.sentence}"
        rows = [
            (p.what, round(p.delta_ms, 3), round(100 * p.delta_ms / whole, 1))
            for p in self.explained
        ]
        figures = [(n, round(a, 3), round(b, 3)) for n, (a, b) in self.figures.items()]
        return [
            Table.of(title, ("explained by", "ms", "% of it"), rows),
            Table.of("requests and engines", ("", "A", "B"), figures),
        ]


def serving_change(a: ServingFacts | None, b: ServingFacts | None) -> ServingChange | None:
    """Why B's requests take longer or shorter than A's; None unless both are served streams."""
    if a is None or b is None:
        return None
    parts = {name: b.parts[name] - a.parts[name] for name in a.parts}
    found = [Part("waiting in the queue", parts["queued"])]
    for name in ("prompt", "output"):
        found += _phase(name, getattr(a, name), getattr(b, name), a.step_model)
    found = sorted(
        (p for p in found if abs(p.delta_ms) > _LEAST_MS), key=lambda p: -abs(p.delta_ms)
    )
    return ServingChange(
        a.e2e_ms.mean, b.e2e_ms.mean, parts, found, _figures(a, b), _sentence(a, b, found)
    )


def _phase(name: str, a: Phase, b: Phase, model: dict[str, float]) -> list[Part]:
    """The change of a phase: other batches at A's speed, the same batches at B's, and the gaps."""
    batches = {
        feature: model[feature] * (b.features[feature] - a.features[feature]) for feature in model
    }
    speed = b.steps_ms - a.steps_ms - sum(batches.values())
    between = b.between_ms - a.between_ms
    return [
        *(Part(f"{name}: {_TOLD[f][ms < 0]}", ms) for f, ms in batches.items()),
        Part(f"{name}: {'slower' if speed > 0 else 'faster'} steps with the same batch", speed),
        Part(f"{name}: {'more' if between > 0 else 'less'} time between steps", between),
    ]


def _longer(delta: float) -> str:
    return "longer" if delta > 0 else "shorter"


def _figures(a: ServingFacts, b: ServingFacts) -> dict[str, tuple[float, float]]:
    return {name: (float(read(a)), float(read(b))) for name, read in _FIGURES.items()}


def _weighted(s: ServingFacts, name: str) -> float:
    steps = max(sum(e.steps for e in s.engines), 1)
    return float(sum(getattr(e, name) * e.steps for e in s.engines) / steps)


_FIGURES: dict[str, Callable[[ServingFacts], float]] = {
    "time to first token ms": lambda s: s.ttft_ms.mean,
    "time per output token ms": lambda s: s.tpot_ms.mean,
    "queued ms": lambda s: s.queue_ms.mean,
    "engines": lambda s: len(s.engines),
    "steps": lambda s: sum(e.steps for e in s.engines),
    "step ms": lambda s: _weighted(s, "step_ms"),
    "batch": lambda s: _weighted(s, "mean_batch"),
    "busy": lambda s: sum(e.busy for e in s.engines) / max(len(s.engines), 1),
    "in queue": lambda s: sum(e.waiting_mean for e in s.engines),
    "cache peak tokens": lambda s: max((e.cache_peak for e in s.engines), default=0),
}


def _sentence(a: ServingFacts, b: ServingFacts, found: list[Part]) -> str:
    change = b.e2e_ms.mean - a.e2e_ms.mean
    if not found or abs(change) < 1e-9:
        return "no difference"
    same = [p for p in found if (p.delta_ms > 0) == (change > 0)]
    most = same[0] if same else found[0]
    told = f"B takes {abs(change):,.1f} ms {_longer(change)}, most of all: {most.what}"
    waits: dict[str, float] = {}
    for e in b.engines:
        for name, share in e.waits.items():
            waits[name] = waits.get(name, 0.0) + share * e.waiting_mean
    if most.what == "waiting in the queue" and change > 0 and waits:
        told += f" (for {max(waits, key=lambda n: waits[n])})"
    return told
