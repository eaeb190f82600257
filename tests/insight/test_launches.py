"""Launching: how far ahead of the device the host is, and how much is small kernels."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.launches import Launches, launches
from chakrakit.trace.sets import Times, run_of


def test_launch_figures(linked):
    (rank,) = launches(linked("resnet50_b128")).ranks
    trace = linked("resnet50_b128").trace(0)
    assert rank.launched == 963
    assert 0 < rank.delay_median_ns <= rank.delay_p90_ns
    took = trace.duration_ns[~trace.column("is_cpu_op").astype(bool)]
    assert rank.small <= (took < 10_000).sum()
    assert 0 <= rank.queue_mean <= rank.queue_most


def launched(*kernels: tuple[int, int, int]) -> Launches:
    """Kernels as (launched at, start, end)."""
    t = ck.TraceBuilder()
    for _ in kernels:
        call = t.comp("launch", is_cpu_op=True, tid=1)
        t.edge(call, t.comp("k", stream=7), ck.EdgeKind.LAUNCH)
    start = [v for at, begin, _ in kernels for v in (at, begin)]
    end = [v for at, _, stop in kernels for v in (at + 1, stop)]
    times = Times(np.array(start), np.array(end))
    run = run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000)
    return launches(run).ranks[0]


def test_a_queue_is_counted_by_time():
    """Two wait from 10 to 20, one from 0 to 10 and from 20 to 40; then none until the last at 60."""
    rank_launches = launched((0, 20, 40), (10, 40, 20_040), (60, 60, 70))
    assert (rank_launches.kernels, rank_launches.launched, rank_launches.small) == (3, 3, 2)
    assert (rank_launches.small_ns, rank_launches.kernel_ns) == (20 + 10, 20 + 20_000 + 10)
    assert rank_launches.delay_median_ns == 20
    assert rank_launches.queue_most == 2
    assert rank_launches.queue_mean == pytest.approx((10 * 1 + 10 * 2 + 20 * 1 + 20 * 0) / 60)
    assert rank_launches.starved_ns == 20


def test_a_rank_without_launches_has_no_queue(two_ranks):
    rank_launches = launches(two_ranks).ranks[0]
    assert (
        rank_launches.kernels,
        rank_launches.launched,
        rank_launches.queue_most,
        rank_launches.queue_mean,
    ) == (2, 0, 0, 0.0)
    assert launches(two_ranks).table().rows[0][:3] == (0, 2, 50.0)
