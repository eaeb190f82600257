"""Who makes others wait: ranks that come late, groups slower than their like."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.communication.stragglers import stragglers
from chakrakit.trace.sets import Times, run_of
from support.timed_collectives import collectives


def test_the_late_rank_is_named():
    """Rank 2 comes last twice, and two others wait for it each time."""
    run = collectives([[0, 10_000], [0, 10_500], [2_000, 13_000]], [3_000, 14_000])
    late = stragglers(run).ranks
    assert late[0].rank == 2
    assert late[0].caused_wait_ns == 2 * 2_000 + 3_000 + 2_500
    assert late[0].times_last == 2
    assert sum(s.waited_ns for s in late) == sum(s.caused_wait_ns for s in late)


def test_a_slow_group_is_named():
    """Two groups do the same; one takes twice as long."""
    bodies, times = [], {}
    for rank in range(4):
        t = ck.TraceBuilder()
        for _ in range(4):
            t.collective(
                "c", ck.CollectiveType.ALL_REDUCE, 4096, pg_name=f"g{rank // 2}", stream=20
            )
        bodies.append(t.build())
        length = 1_000 * (1 + rank // 2)
        start = np.arange(4) * 10_000
        times[rank] = Times(start, start + length)
    groups = ck.Groups({"g0": [0, 1], "g1": [2, 3]})
    (slow,) = stragglers(run_of(ck.TraceSet(bodies, groups=groups), times, tick_ps=1000)).links
    assert slow.where == "group g1"
    assert slow.slowdown == pytest.approx(2000 / 1500)


def test_ranks_without_communication_are_no_stragglers():
    t = ck.TraceBuilder()
    t.comp("a", stream=7, duration_ns=5)
    run = run_of(ck.TraceSet([t.build()]), {0: Times(np.array([0]), np.array([5]))}, tick_ps=1000)
    late = stragglers(run)
    assert (late.ranks, late.links) == ([], [])


def test_like_transfers_of_one_group_are_compared_with_nobody():
    """A group alone has no like: that its second sum takes longer is no slow link."""
    assert stragglers(collectives([[0, 100], [0, 100]], [10, 190])).links == []


def test_the_table_has_one_row_per_rank():
    late = stragglers(collectives([[0], [4_000_000]], [5_000_000]))
    assert late.table().rows[0] == (1, 4.0, 0.0, 1, 1, 4.0)
