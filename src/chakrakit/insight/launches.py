"""Launching: how far ahead of the device the host is, and how much of the work is small kernels."""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.rank import Kind, RankView, Table, percent, rank_views, us
from chakrakit.results import Result
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.sets import Run

SMALL_NS = 10_000


class Launches(Result, msgspec.Struct):
    """One rank. The delay is from the launch call's start to the kernel's; small is under 10 µs.

    `queue` is how many kernels were launched and had not begun, by time: mean and most;
    `starved_ns` how long none was.
    """

    rank: int
    kernels: int
    small: int
    small_ns: int
    kernel_ns: int
    launched: int
    delay_median_ns: int
    delay_p90_ns: int
    queue_mean: float
    queue_most: int
    starved_ns: int


class LaunchTable(Result, msgspec.Struct):
    """All ranks."""

    ranks: list[Launches]

    def table(self) -> Table:
        """One row per rank."""
        head = (
            "rank",
            "kernels",
            "small %",
            "small % of time",
            "delay µs",
            "p90 µs",
            "queue",
            "most",
        )
        rows = [
            (
                r.rank,
                r.kernels,
                percent(r.small, r.kernels),
                percent(r.small_ns, r.kernel_ns),
                us(r.delay_median_ns),
                us(r.delay_p90_ns),
                round(r.queue_mean, 1),
                r.queue_most,
            )
            for r in self.ranks
            if r.kernels
        ]
        return Table.of("launches and small kernels", head, rows)


def launches_of(view: RankView) -> Launches:
    """The part of one rank."""
    kernels = np.flatnonzero((view.kind == Kind.COMPUTE) & ~view.on_host)
    took = view.duration[kernels]
    small = took < SMALL_NS
    edges = view.trace.edges
    both = view.ran[edges.src] & view.ran[edges.dst]
    launch = edges.where((edges.kind == EdgeKind.LAUNCH) & ~view.on_host[edges.dst] & both)
    at, begun = view.start[launch.src], view.start[launch.dst]
    delay = np.maximum(begun - at, 0)
    mean, most, starved = _queue(at, np.maximum(begun, at))
    middle, high = (int(v) for v in np.percentile(delay, (50, 90))) if len(delay) else (0, 0)
    return Launches(
        view.rank,
        len(kernels),
        int(small.sum()),
        int(took[small].sum()),
        int(took.sum()),
        len(launch),
        middle,
        high,
        mean,
        most,
        starved,
    )


def _queue(launched: I64, begun: I64) -> tuple[float, int, int]:
    """Mean, most and time at zero of how many were waiting, from the first launch to the last start."""
    if not len(launched):
        return 0.0, 0, 0
    at = np.concatenate([launched, begun])
    step = np.repeat([1, -1], len(launched))
    order = np.lexsort((step, at))
    depth = np.cumsum(step[order])[:-1]
    length = np.diff(at[order])
    span = int(length.sum())
    starved = int(length[depth == 0].sum())
    return (
        (float((depth * length).sum() / span) if span else 0.0),
        int(depth.max(initial=1)),
        starved,
    )


def launches(run: Run) -> LaunchTable:
    """Launching by rank."""
    return LaunchTable([launches_of(view) for view in rank_views(run)])
