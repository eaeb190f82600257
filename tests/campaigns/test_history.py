"""What happens in one history: every stage of a few that can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.campaigns import campaign
from chakrakit.campaigns.history import JobHistory

LOG = "hour,node,cause,scope,factor,hours\n"


@pytest.fixture
def logged(job, tmp_path: Path):
    """One history of a job with failures at given times."""

    def run(rows: str, **lines: str | None):
        (tmp_path / "log.csv").write_text(LOG + rows)
        made = job(failures="{log: log.csv}", **lines)
        return JobHistory(made.plan, "0").run()

    return run


def test_work_since_the_last_checkpoint_is_done_again(logged):
    """Checkpoints of 5 s every 1,000 s; an hour is three of them and 585 s more."""
    done = logged("1,3,,,,\n")
    assert done.rework == pytest.approx(3600 - 3 * 1005)
    assert done.seconds == pytest.approx(86_400 + 86 * 5 + 585)
    assert done.failures == {"log": 1}


def test_detection_replacement_and_restart_are_added(logged):
    done = logged(
        "1,3,gpu,,,\n",
        recovery="{detection_seconds: 60, restart_seconds: 300, replacement_seconds: 40}",
    )
    assert (done.detection, done.restart) == (60, 340)
    assert done.failures == {"gpu": 1}


def test_a_failure_of_a_process_needs_no_other_node(logged):
    recovery = "{restart_seconds: 300, replacement_seconds: 40}"
    assert logged("1,3,,process,,\n", recovery=recovery).restart == 300


def test_a_failure_during_a_restart_begins_it_again(logged):
    """The second one comes 100 s into a restart of 300 s; nothing more is lost."""
    done = logged(f"1,3,,,,\n{3700 / 3600},5,,,,\n", recovery="{restart_seconds: 300}")
    assert done.restart == pytest.approx(400)
    assert done.rework == pytest.approx(585)


def test_without_spares_the_job_waits_for_the_repair(logged):
    done = logged("1,3,,,,\n", cluster="{nodes: 16, repair_hours: 2}")
    assert done.waiting == 7200


def test_a_spare_ends_the_wait_and_the_repaired_node_is_the_next_spare(logged):
    """Three failures two hours apart, one spare, repairs of three hours: the second one waits an hour."""
    rows = "1,3,,,,\n3,4,,,,\n"
    done = logged(rows, cluster="{nodes: 16, spares: 1, repair_hours: 3}")
    assert done.waiting == pytest.approx(3600)


def test_hot_spares_swap_while_they_last(logged):
    recovery = "{policy: hot spares, swap_seconds: 20, restart_seconds: 300}"
    cluster = "{nodes: 16, spares: 1, repair_hours: 24}"
    assert logged("1,3,,,,\n", recovery=recovery, cluster=cluster).restart == 20
    two = logged("1,3,,,,\n2,4,,,,\n", recovery=recovery, cluster=cluster)
    assert two.restart == 320
    assert two.waiting == pytest.approx(23 * 3600)


def test_live_migration_loses_the_step_at_most(logged):
    recovery = "{policy: live_migration, migration_seconds: 30, restart_seconds: 300}"
    done = logged(f"{3603 / 3600},3,,,,\n", recovery=recovery)
    assert done.restart == 30
    # 3 × 1,005 s, then 588 s: 58 steps and 8 s of the next.
    assert done.rework == pytest.approx(8)


def test_live_migration_without_a_spare_left_restarts(logged):
    recovery = "{policy: live_migration, migration_seconds: 30, restart_seconds: 300}"
    done = logged(
        "1,3,,,,\n2,4,,,,\n", recovery=recovery, cluster="{nodes: 16, spares: 1, repair_hours: 5}"
    )
    assert done.restart == 330
    assert done.waiting == pytest.approx(4 * 3600)


def test_an_elastic_job_shrinks_and_grows_again_at_a_checkpoint(logged):
    """Sixteen nodes, one out for four hours: steps take 16/15 as long until the checkpoint after that."""
    done = logged(
        "1,3,,,,\n",
        cluster="{nodes: 16, repair_hours: 4}",
        recovery="{policy: elastic, restart_seconds: 100}",
        checkpoint="{interval_steps: 360, seconds: 0}",
    )
    # A checkpoint every hour falls on the failure itself; then 4 h and the rest of a checkpoint's steps.
    assert done.restart == 200
    assert done.rework == pytest.approx(0, abs=1e-6)
    slow = 3840 * 4
    assert done.degraded == pytest.approx(slow / 16)
    assert done.seconds == pytest.approx(86_400 + 200 + slow / 16)


def test_in_step_recovery_goes_on_without_a_checkpoint(logged):
    done = logged(
        f"{3603 / 3600},3,,,,\n",
        cluster="{nodes: 16, repair_hours: 1}",
        recovery="{policy: in-step, rejoin_seconds: 7}",
        checkpoint=None,
    )
    assert done.restart == 14
    assert done.rework <= 20
    assert done.degraded == pytest.approx(3600 / 16, rel=0.01)


def test_replicas_of_several_nodes_leave_together(logged):
    """One of four replicas of four nodes is out: steps take 4/3 as long, and three nodes stand by."""
    done = logged(
        "1,3,,,,\n",
        cluster="{nodes: 16, repair_hours: 1}",
        recovery="{policy: in_step, replica_nodes: 4}",
        checkpoint=None,
    )
    assert done.degraded == pytest.approx(900, rel=0.01)


def test_a_slow_node_slows_the_whole_job_down_while_it_lasts(logged):
    done = logged("1,3,,,1.5,2\n", checkpoint=None)
    assert done.degraded == pytest.approx(2 * 3600 / 3)
    assert done.slowdowns == 1
    assert not done.failures


def test_a_slow_node_is_replaced_where_the_policy_says_so(logged):
    recovery = "{restart_seconds: 60, replace_slow_after_seconds: 600}"
    done = logged("1,3,,,1.5,2\n", checkpoint=None, recovery=recovery)
    assert done.degraded == pytest.approx(600 / 3)
    assert (done.restart, done.rework) == (60, 0)


def test_an_asynchronous_checkpoint_counts_once_it_is_written(logged):
    """Snapshots every 1,000 s are safe 400 s later: an hour in, the third is still being written."""
    checkpoint = "{policy: asynchronous, interval_steps: 100, seconds: 700, snapshot_seconds: 0}"
    assert logged("1,3,,,,\n", checkpoint=checkpoint).rework == pytest.approx(3600 - 2000)
    quick = checkpoint.replace("700", "500")
    assert logged("1,3,,,,\n", checkpoint=quick).rework == pytest.approx(600)


TIERS = (
    "{tiers: [{interval_steps: 10, seconds: 0, survives: process, restore_seconds: 1}, "
    "{interval_steps: 50, seconds: 0, survives: node, restore_seconds: 5}, "
    "{interval_steps: 200, seconds: 0, survives: cluster, restore_seconds: 50}]}"
)


@pytest.mark.parametrize(
    ("scope", "rework", "restart"), [("process", 50, 1), ("node", 450, 5), ("rack", 1950, 50)]
)
def test_the_newest_copy_that_survived_is_restored(logged, scope, rework, restart):
    """A failure after 3,950 s: local copies every 100 s, with peers every 500 s, far away every 2,000 s."""
    done = logged(f"{3950 / 3600},3,,{scope},,\n", checkpoint=TIERS)
    assert (done.rework, done.restart) == (pytest.approx(rework), restart)


def test_copies_that_are_gone_do_not_help_later(logged):
    """The local copies went with the node; a process that fails next loads the copy of the peers."""
    rows = f"{3950 / 3600},3,,node,,\n{4010 / 3600},3,,process,,\n"
    done = logged(rows, checkpoint=TIERS)
    assert done.restart == 10


def test_a_differential_checkpoint_is_cheap_to_take_and_dear_to_restore(logged):
    checkpoint = (
        "{policy: differential, interval_steps: 100, seconds: 50, difference_seconds: 5, differences: 3, "
        "restore_seconds: 40, apply_seconds: 3}"
    )
    done = logged("1,3,,,,\n", checkpoint=checkpoint)
    # A full copy and two differences lie before the failure: 1,050 + 1,005 + 1,005 s.
    assert done.restart == 46
    assert done.rework == pytest.approx(3600 - 3060)
    assert done.checkpoint == 22 * 50 + 64 * 5


def test_a_rack_takes_all_its_nodes(job):
    made = job(
        cluster="{nodes: 16, spares: 1, nodes_per_rack: 4, repair_hours: 1}",
        failures="{rack_mtbf_hours: 100}",
    )
    done = campaign(made, histories=50, changes=False)
    assert done.lost_hours.waiting == pytest.approx(done.failures, rel=0.2)


@pytest.mark.first(1)
@pytest.mark.parametrize("shape", [0.7, 1.0, 2.0])
def test_weibull_nodes_fail_as_often_as_their_mean_says(job, shape):
    """Long runs forget how they began: failures per time are nodes over mean."""
    made = job(
        steps=None,
        days="400",
        failures=f"{{node_mtbf_hours: 200, shape: {shape}}}",
        checkpoint="{interval_steps: 10, seconds: 0}",
    )
    done = campaign(made, histories=20, changes=False)
    renewals = 400 * 24 * 16 / 200
    bias = 16 * {0.7: 0.56, 1.0: 0.0, 2.0: -0.36}[shape]  # (c² − 1)/2 per node, c the variation
    assert done.failures == pytest.approx(renewals + bias, rel=0.04)
