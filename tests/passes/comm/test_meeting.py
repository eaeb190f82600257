"""Events of all ranks at once: calls that meet end together, so circles across ranks are seen."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit import CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.passes.comm.channels import channels_of
from chakrakit.passes.comm.meeting import Meeting, check_runs

AR = CollectiveType.ALL_REDUCE


def ordered(*orders: str) -> TraceSet:
    """Ranks that call groups one after the other, each in its own order."""
    bodies = []
    for order in orders:
        t, before = TraceBuilder(), []
        for group in order:
            before = [t.collective(f"in {group}", AR, 8, pg_name=group, deps=before)]
        bodies.append(t.build())
    everybody = range(len(orders))
    return TraceSet(bodies, groups=Groups(dict.fromkeys(orders[0], everybody)))


def meeting(traces: TraceSet) -> Meeting:
    return Meeting(traces, channels_of(traces))


def test_ranks_that_meet_in_the_same_order_can_run_and_others_cannot():
    assert not meeting(ordered("pq", "pq")).has_circle()
    assert meeting(ordered("pq", "qp")).has_circle()


def test_a_change_that_makes_work_wait_for_itself_is_refused():
    check_runs(ordered("pq", "pq"), ordered("pq", "pq"), "this")
    check_runs(ordered("pq", "qp"), ordered("pq", "qp"), "this")  # it was so before
    with pytest.raises(TraceError, match="this would make work wait for itself, on one rank or"):
        check_runs(ordered("pq", "pq"), ordered("pq", "qp"), "this")


def sums(reads: bool) -> TraceSet:
    """Two sums of one group on two ranks; on the second rank, the second sum may read the first."""
    bodies = []
    for rank in range(2):
        t = TraceBuilder()
        first = t.collective("first", AR, 8)
        between = t.comp("between", deps=[first] if reads and rank else [])
        t.collective("second", AR, 8, deps=[between])
        bodies.append(t.build())
    return TraceSet(bodies)


@pytest.mark.parametrize(("reads", "held"), [(False, [0, 0]), (True, [0, 1])])
def test_a_call_is_held_back_by_what_any_rank_reads(reads, held):
    traces = sums(reads)
    [channel] = channels_of(traces)
    assert Meeting(traces, [channel]).held_back(channel, np.array([0, 1])).tolist() == held


def test_calls_that_became_one_hold_back_what_comes_after_them():
    traces = ordered("ppp", "ppp")
    [channel] = channels_of(traces)
    one = Meeting(traces, [channel])
    one.fuse(channel, [np.array([0, 1])])
    assert one.now[2 * 0 + 1] == one.now[2 * 1 + 1]  # both ends are one event
    assert one.now[2 * 0] == one.now[2 * 1]
    assert one.now[2 * 2 + 1] != one.now[2 * 1 + 1]
