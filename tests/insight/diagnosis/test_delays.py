"""What stragglers of a job cost: known by construction, found by what-if."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.insight.diagnosis import job_delays, job_rows
from chakrakit.insight.rank import read_run
from support.job_traces import BACKWARD, FORWARD, usual, write_job


@pytest.fixture
def delays(tmp_path):
    """The delays of a job written by hand."""

    def found(seconds=usual, **shape):
        run = read_run(str(write_job(tmp_path / "job.parquet", seconds, **shape)))
        return job_delays(job_rows(run))

    return found


def test_a_job_without_stragglers_has_nothing_to_gain(delays):
    job = delays()
    assert job.launch_slowdown == pytest.approx(1, abs=1e-6)
    assert job.blocking_slowdown == pytest.approx(1, abs=1e-6)
    assert job.step_t_base == pytest.approx(job.step_t_noblk, rel=1e-6)


def test_a_slow_worker_explains_everything_by_its_replica_and_its_stage(delays, tmp_path):
    """Rank 3 is the second replica's last stage; it computes twice as long."""

    def seconds(kind, replica, stage, step, batch):
        return usual(kind, replica, stage, step, batch) * (2 if (replica, stage) == (1, 1) else 1)

    job = delays(seconds, replicas=4)
    assert job.suspects == [5]
    assert job.m_w > 0.9
    by = job.blocking_decompose_by_dp_rank
    assert next(iter(by)) == 1
    assert by[1] == pytest.approx(job.blocking_slowdown, rel=0.02)
    culprits = ck.analyze(read_run(str(tmp_path / "job.parquet"))).culprits
    assert [(c.kind, c.rank) for c in culprits] == [("slow-rank", 5)]
    assert culprits[0].factor == pytest.approx(2, rel=0.15)


def test_a_long_last_stage_is_named(delays, tmp_path):
    def seconds(kind, replica, stage, step, batch):
        return usual(kind, replica, stage, step, batch) * (2 if stage == 3 else 1)

    job = delays(seconds, stages=4, batches=6)
    assert job.m_s > 0.5
    assert next(iter(job.blocking_decompose_by_stage)) == 3
    culprits = ck.analyze(read_run(str(tmp_path / "job.parquet"))).culprits
    assert ("slow-stage", 3) in [(c.kind, c.stage) for c in culprits]


def test_micro_batches_of_unequal_length_are_told_by_forward_and_backward_together(
    delays, tmp_path
):
    def seconds(kind, replica, stage, step, batch):
        length = 1 + 0.6 * ((batch * 7 + replica * 3 + step) % 5) if batch >= 0 else 1
        return usual(kind, replica, stage, step, batch) * length

    delays(seconds, replicas=4, batches=6, steps=tuple(range(6)))
    culprits = ck.analyze(read_run(str(tmp_path / "job.parquet"))).culprits
    assert "sequence-imbalance" in [c.kind for c in culprits]


def test_waiting_for_a_peer_is_no_part_of_a_transfer(delays):
    """One replica's forwards are late; the messages of the others are as usual."""

    def seconds(kind, replica, stage, step, batch):
        late = kind == "forward-compute" and (replica, stage) == (0, 0)
        return usual(kind, replica, stage, step, batch) * (3 if late else 1)

    job = delays(seconds)
    types = job.blocking_decompose_by_optype
    assert types["forward-pp-comm"] == pytest.approx(1, abs=0.01)
    assert types["grads-reduce-scatter"] == pytest.approx(1, abs=0.01)
    assert types["forward-compute"] > 1.05


def test_the_slowdown_of_one_step_is_that_step_s(delays):
    def seconds(kind, replica, stage, step, batch):
        slow = step == 9 and (replica, stage) == (0, 1)
        return usual(kind, replica, stage, step, batch) * (2 if slow else 1)

    job = delays(seconds)
    assert job.blocking_step_slowdown[9] > job.blocking_step_slowdown[5]
    total = 3 * (FORWARD + BACKWARD)
    assert job.step_t_base[9] - job.step_t_base[5] > 0.9 * total
