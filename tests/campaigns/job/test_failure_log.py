"""Failures from a log: one row per failure, and a wrong one is refused with its line."""

from __future__ import annotations

import pytest

from chakrakit.campaigns import read_job
from chakrakit.campaigns.failures import LoggedFailure
from chakrakit.campaigns.job import read_failure_log
from chakrakit.errors import ConfigError, FormatError


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("hour,node\n1,99\n", "log.csv:2: node 99 is not one of the 16 nodes"),
        ("hour,node\n1,2\nx,2\n", "log.csv:3: hour should be a number"),
        ("hour\n1\n", "no column 'node'"),
        ("hour,node,why\n1,2,3\n", "unknown column 'why'"),
        ("hour,node,factor\n1,2,1.5\n", "needs a factor of at least 1 and its hours"),
        ("hour,node,scope\n1,2,street\n", "scope 'street'"),
    ],
)
def test_wrong_logs_are_refused_with_the_line(job_file, tmp_path, rows, message):
    (tmp_path / "log.csv").write_text(rows)
    with pytest.raises(ConfigError, match=r"job\.yaml:6: ") as error:
        read_job(job_file(failures="{log: log.csv}"))
    assert message in str(error.value)


def test_failures_come_in_the_order_of_time(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("hour,node,cause,scope,factor,hours\n2,1,gpu,rack,,\n0.5,3,,,1.5,2\n")
    assert read_failure_log(path, 16) == (
        LoggedFailure(time=1800, node=3, factor=1.5, seconds=7200),
        LoggedFailure(time=7200, node=1, cause="gpu", scope="rack"),
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hour,node\n-1,2\n", "hour is -1; it must be 0 or more"),
        (b"hour,node\ninf,2\n", "hour is inf; it must be 0 or more, and finite"),
        (b"hour,node,factor,hours\n1,2,2,nan\n", "hours is nan; it must be 0 or more, and finite"),
        (b"hour,node\n1,2.5\n", "node 2.5 is not one of the 16 nodes"),
        (b"hour,node\n\xff,2\n", "not a CSV file"),
    ],
)
def test_what_no_log_can_hold_is_refused(tmp_path, content, said):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said):
        read_failure_log(path, 16)
