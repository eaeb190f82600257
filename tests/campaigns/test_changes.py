"""What one change would give: the same histories, with the change."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.campaigns.many_histories import changes, run_histories, sensitivity


def test_every_change_that_applies_is_tried(job):
    plain = job(failures="{node_mtbf_hours: 100}", checkpoint=None)
    assert [text for text, _ in changes(plain)] == ["one more spare"]
    timed = job(recovery="{detection_seconds: 60, restart_seconds: 300}")
    found = dict(changes(timed))
    assert list(found) == [
        "one more spare",
        "detection twice as fast",
        "restarts twice as fast",
        "a checkpoint every 50 steps",
        "a checkpoint every 200 steps",
    ]
    assert found["one more spare"].spares == timed.plan.spares + 1
    assert found["detection twice as fast"].recovery.detection_seconds == 30
    assert found["a checkpoint every 50 steps"].every == 50


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ("restart", "replacement_seconds"),
        ("hot_spares", "swap_seconds"),
        ("live_migration", "migration_seconds"),
    ],
)
def test_faster_restarts_are_those_that_the_policy_makes(job, policy: str, name: str) -> None:
    made = job(
        recovery=f"{{policy: {policy}, {name}: 300}}",
        cluster="{nodes: 16, spares: 1, repair_hours: 2}",
    )
    assert getattr(dict(changes(made))["restarts twice as fast"].recovery, name) == 150


def test_without_slow_nodes_the_pool_and_its_guards_stay(job) -> None:
    """The change is the one that the same file with a healthy pool shows, and 30 other nodes remain."""
    pool = "{{nodes: 47, slow_share: {0}, onsets_per_day: {0}, sweep_limit: 1.03, monitor_limit: 1.02}}"
    slow, healthy = (job(pool=pool.format(share)) for share in (0.1, 0))
    assert dict(changes(slow))["no slow nodes"] == healthy.plan
    assert "no slow nodes" not in dict(changes(healthy))
    found = sensitivity(slow, run_histories(slow.plan, 20, 0), 0)
    assert next(c.ci95[0] for c in found if c.change == "no slow nodes") > 0


def test_what_saves_most_comes_first(job, tmp_path: Path):
    """One failure: a spare saves two hours of waiting, half a detection 300 s."""
    (tmp_path / "log.csv").write_text("hour,node\n1,3\n")
    made = job(
        failures="{log: log.csv}",
        cluster="{nodes: 16, repair_hours: 2}",
        checkpoint="{interval_steps: 360, seconds: 0}",
        recovery="{detection_seconds: 600}",
    )
    found = sensitivity(made, run_histories(made.plan, 2, 0), 0)
    saved = {change.change: change.days_saved * 86_400 for change in found}
    assert found[0].change == "one more spare"
    assert saved["one more spare"] == pytest.approx(7200 - 600)  # repair began with the failure
    assert saved["detection twice as fast"] == pytest.approx(0, abs=1e-6)  # repair takes longer
    assert found[0].ci95 == pytest.approx((found[0].days_saved,) * 2)


def test_where_nothing_fails_nothing_can_be_saved(job):
    made = job(failures=None)
    assert sensitivity(made, run_histories(made.plan, 1, 0), 0) == []
