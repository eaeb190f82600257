"""Launching: how far ahead of the device the host is, and how much of the work is small kernels."""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.rank import RankView, RowKind, Table, percent, rank_views, us
from chakrakit.results import Result
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.sets import Run

SMALL_NS = 10_000
"""Kernels shorter than this are small: the host takes about as long to launch one."""


class Launches(Result, msgspec.Struct, kw_only=True):
    """The launches of one rank. A delay lasts from the start of the launch call to that of its kernel.

    `queue_mean` and `queue_most` are over the number of kernels that were launched and had not begun;
    `starved_ns` is how long that was zero. Kernels under 10 µs are `small`.
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
    """The launches of all ranks."""

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
    """The launches of one rank."""
    kernels = np.flatnonzero((view.kind == RowKind.COMPUTE) & ~view.on_host)
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
        rank=view.rank,
        kernels=len(kernels),
        small=int(small.sum()),
        small_ns=int(took[small].sum()),
        kernel_ns=int(took.sum()),
        launched=len(launch),
        delay_median_ns=middle,
        delay_p90_ns=high,
        queue_mean=mean,
        queue_most=most,
        starved_ns=starved,
    )


def _queue(launched: I64, begun: I64) -> tuple[float, int, int]:
    """How many kernels waited between the first launch and the last start: mean, most, and ns without any."""
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
    """The launches of a run by rank."""
    return LaunchTable([launches_of(view) for view in rank_views(run)])
