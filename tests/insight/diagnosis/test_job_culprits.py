"""Who slows a pipeline-parallel job down: a worker, a stage, the data, or else a kind of operation."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chakrakit.insight.diagnosis import job_culprits, job_delays, job_rows
from chakrakit.insight.rank import read_run
from support.job_traces import usual, write_job


def studied(path: Path, seconds=usual, **shape):
    """The rows and delays of a job written by hand."""
    rows = job_rows(read_run(str(write_job(path / "job.parquet", seconds, **shape))))
    return rows, job_delays(rows)


def test_a_job_as_usual_has_no_culprits(tmp_path: Path):
    assert job_culprits(*studied(tmp_path)) == []


def test_a_worker_that_becomes_slow_is_named_with_its_first_slow_step(tmp_path: Path):
    """Rank 4 is the first replica's last stage; it computes three times as long from step 9 on."""

    def seconds(kind, replica, stage, step, batch):
        slow = step >= 9 and (replica, stage) == (0, 1)
        return usual(kind, replica, stage, step, batch) * (3 if slow else 1)

    [culprit] = job_culprits(*studied(tmp_path, seconds, replicas=4, steps=(5, 9, 13)))
    assert (culprit.kind, culprit.rank, culprit.since_step) == ("slow-rank", 4, 9)
    assert culprit.factor == pytest.approx(3, rel=0.15)
    assert culprit.detail.startswith("repairing rank 4 alone removes ")


@pytest.mark.parametrize(
    ("operation", "kind"), [("gc", "garbage-collection"), ("params-all-gather", "slow-operation")]
)
def test_where_nobody_stands_out_the_operation_that_costs_most_is_named(
    tmp_path: Path, operation: str, kind: str
):
    rows, delays = studied(tmp_path)
    spread = msgspec.structs.replace(
        delays,
        blocking_slowdown=1.4,
        m_w=0.1,
        m_s=0.1,
        blocking_decompose_by_optype={operation: 1.3, "other": 1.1},
    )
    [culprit] = job_culprits(rows, spread)
    assert (culprit.kind, culprit.collective, culprit.factor) == (kind, operation, 1.3)
    assert culprit.detail == (
        f"no rank or stage stands out; {operation} alone makes steps 1.30 times as long"
    )
