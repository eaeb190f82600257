"""Who makes others wait: ranks that come late, groups slower than their like."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.breakdown import breakdown
from chakrakit.insight.communication import communication
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


def test_a_moment_of_waiting_in_two_collectives_counts_once():
    """Rank 0 waits 0–200 and 10–205 for rank 1, which is 205 in all; data moves for 5 and 10 more."""
    run = collectives([[0, 10], [200, 205]], [205, 215])
    late = {s.rank: s for s in stragglers(run).ranks}
    assert (late[1].caused_wait_ns, late[0].waited_ns, late[1].waited_ns) == (205, 205, 0)
    (kind,) = communication(run).collectives
    assert kind.total_wait_ns == 205
    assert kind.wait_ns == (200 + 195) / 4
    assert kind.total_exposed_ns == 215 + 15
    times = breakdown(run).ranks
    assert [r.breakdown.exposed_comm_ns for r in times] == [215, 15]
    assert [r.breakdown.at_work_ns for r in times] == [10, 15]


def test_ranks_that_come_last_together_share_the_blame():
    """Rank 0 waits 90 for 1 and 2, which come together: 45 each, not all for the higher one."""
    late = {s.rank: s for s in stragglers(collectives([[0], [90], [90]], [100])).ranks}
    assert [late[r].caused_wait_ns for r in range(3)] == [0, 45, 45]
    assert [late[r].times_last for r in range(3)] == [0, 1, 1]


@pytest.mark.parametrize(("slow", "named"), [(1, ["g3"]), (2, [])])
def test_groups_are_slow_links_only_where_most_are_not(slow, named):
    """Of four groups that do the same one may be slow; two are how such transfers are."""
    bodies, times = [], {}
    for rank in range(8):
        t = ck.TraceBuilder()
        t.collective("c", ck.CollectiveType.ALL_REDUCE, 4096, pg_name=f"g{rank // 2}", stream=20)
        bodies.append(t.build())
        end = 2_000 if rank // 2 >= 4 - slow else 1_000
        times[rank] = Times(np.array([0]), np.array([end]))
    groups = ck.Groups({f"g{i}": [2 * i, 2 * i + 1] for i in range(4)})
    links = stragglers(run_of(ck.TraceSet(bodies, groups=groups), times, tick_ps=1000)).links
    assert [link.where.split()[-1] for link in links] == named


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
