"""Operations of a job as one graph: transfer apart from waiting, and steps timed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.diagnosis import JobRows, is_job, job_rows
from chakrakit.insight.diagnosis.jobs import last_of
from chakrakit.insight.rank import read_run
from support.job_traces import write_job


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> JobRows:
    path = tmp_path_factory.mktemp("job") / "job.parquet"
    return job_rows(read_run(str(write_job(path))))


def test_steps_keep_their_names_and_measured_times(rows: JobRows):
    assert rows.steps == [5, 9]
    assert sorted(set(rows.rank.tolist())) == [0, 1, 2, 3]
    assert rows.step_seconds(rows.own) == pytest.approx(rows.measured, rel=1e-6)


def test_waiting_for_a_peer_is_no_part_of_a_transfer(rows: JobRows):
    """Messages take 10 ms once both ends are there, however long one of them waited."""
    messages = rows.is_comm & np.array([("recv" in rows.names[n]) for n in rows.name])
    assert messages.any()
    assert (rows.end - rows.start)[messages].max() > 11e6
    assert np.allclose(rows.own[messages], 10e6, rtol=1e-3)


def test_shorter_operations_make_shorter_steps(rows: JobRows):
    assert (rows.step_seconds(rows.own // 2) < 0.51 * rows.measured).all()


def test_the_last_of_each_kind():
    largest = last_of(np.array([0, 1, 0]), np.array([3, 9, 7]), 2)
    assert largest.tolist() == [7, 9]


def test_only_runs_that_say_stage_and_replica_are_jobs(two_ranks: ck.Run, tmp_path: Path):
    assert not is_job(two_ranks)
    assert not is_job(two_ranks.select_ranks([]))
    assert is_job(read_run(str(write_job(tmp_path / "job.parquet"))))
