"""What one history came to."""

from __future__ import annotations

from chakrakit.campaigns.history import HistoryOutcome


def test_all_time_but_what_slow_nodes_cost_is_accounted_for():
    done = HistoryOutcome(
        seconds=64,
        useful=1,
        rework=2,
        detection=4,
        waiting=8,
        restart=16,
        checkpoint=32,
        degraded=1,
    )
    assert done.accounted == 63
    assert done.seconds == done.accounted + done.degraded
