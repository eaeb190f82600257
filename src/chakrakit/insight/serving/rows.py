"""The steps and requests of a Run that `chakra serve` wrote, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.insight.rank import RankView, rank_views
from chakrakit.trace.sets import Run

FEATURES = ("steps", "decodes", "prompt tokens", "context")
"""What the time of a step is a function of, near enough: a constant, and its three sizes."""


def is_served(run: Run) -> bool:
    """Whether a run's ranks are engines that served requests."""
    return bool(run.ranks) and bool(run.card.settings.get("engines"))


@dataclass(frozen=True, eq=False)
class EngineRows:
    """One engine: its steps by their end, its requests by their number; times in milliseconds."""

    rank: int
    start: F64
    end: F64
    batch: I64
    features: F64
    """One row per step, one column per feature."""
    request: I64
    arrival: F64
    scheduled: F64
    first: F64
    finish: F64
    prompt: I64
    output: I64

    def own(self) -> F64:
        """What each step takes by itself: no longer than since the end of the one before."""
        since = np.diff(self.end, prepend=-np.inf)
        return np.minimum(self.end - self.start, since)

    def sums(self, begin: F64, end: F64) -> tuple[F64, F64]:
        """Of each stretch of time, the own time and the features of the steps that end in it."""
        at = [np.searchsorted(self.end, when, side="right") for when in (begin, end)]
        own = np.concatenate([[0.0], np.cumsum(self.own())])
        features = np.concatenate([np.zeros((1, len(FEATURES))), np.cumsum(self.features, axis=0)])
        return own[at[1]] - own[at[0]], features[at[1]] - features[at[0]]


def engine_rows(run: Run) -> list[EngineRows]:
    """All engines; the run must be one that `is_served`."""
    return [_rows(view) for view in rank_views(run)]


def _rows(view: RankView) -> EngineRows:
    trace = view.trace

    known = set(trace.table.column_names)

    def column(name: str) -> I64:
        if name not in known:  # an engine for prompts only ends no request
            return np.full(len(trace), -1, np.int64)
        return trace.column(name, -1).astype(np.int64)

    start, end = view.start / 1e6, view.end / 1e6
    steps = np.flatnonzero(column("batch_tokens") >= 0)
    steps = steps[np.argsort(end[steps], kind="stable")]
    tokens, prompts, context = (
        column(n)[steps] for n in ("batch_tokens", "batch_prompt_tokens", "batch_context")
    )
    names = np.array(trace.names.to_pylist(), object)
    request = column("request")
    parts = []
    for name in ("queued", "prompt", "output"):
        at = np.flatnonzero((names == name) & (request >= 0))
        parts.append(at[np.argsort(request[at], kind="stable")])
    queued, prompt, output = parts
    return EngineRows(
        view.rank,
        start[steps],
        end[steps],
        column("batch_requests")[steps],
        np.stack([np.ones(len(steps)), tokens - prompts, prompts, context], axis=1).astype(
            np.float64
        ),
        request[queued],
        start[queued],
        end[queued],
        end[prompt],
        end[output],
        column("request_prompt")[queued],
        column("request_output")[queued],
    )
