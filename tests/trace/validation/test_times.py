"""Times of a run are held to what every reader asks of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chakrakit import Run, TraceBuilder, TraceSet, validate, write
from chakrakit.errors import TraceError
from chakrakit.trace.sets import Times, run_of
from chakrakit.trace.validation import fix


def run(times: Times, tick_ps: int = 1000) -> Run:
    """Two nodes with these times."""
    t = TraceBuilder()
    t.comp("a", duration_ns=1)
    t.comp("b", duration_ns=1)
    return run_of(TraceSet([t.build()]), {0: times}, tick_ps=tick_ps)


def moments(*ticks: int) -> Times:
    array = np.array(ticks, np.int64)
    return Times(array, array)


def test_times_that_fit_are_no_finding(tmp_path: Path) -> None:
    write(run(moments(0, 5)), tmp_path / "r")
    assert validate(tmp_path / "r").ok


@pytest.mark.parametrize(
    ("times", "tick_ps", "says"),
    [
        (moments(0, 10**10), 10**15, "50 days in all"),
        (moments(0, 1 << 62), 1000, "no clock shows"),
        (Times(np.array([0, 7]), np.array([1, 5])), 1000, "row 1 ends before it begins"),
        (Times(np.array([0, 7]), np.array([1, -1])), 1000, "row 1 ends before it begins"),
    ],
)
def test_what_info_refuses_does_not_validate(
    times: Times, tick_ps: int, says: str, tmp_path: Path
) -> None:
    bad = run(times, tick_ps)
    assert [(f.code, says in f.message) for f in validate(bad).findings] == [("run-times", True)]
    write(bad, tmp_path / "r")
    report = validate(tmp_path / "r")
    assert not report.ok
    assert says in report.findings[0].message
    assert fix(tmp_path / "r", tmp_path / "fixed") == report
    assert not (tmp_path / "fixed").exists()


def test_times_that_are_not_one_per_node_neither_validate_nor_are_written(tmp_path: Path) -> None:
    bad = run(moments(0), 1000)
    [finding] = validate(bad).findings
    assert (finding.code, "2 nodes and times for 1" in finding.message) == ("run-times", True)
    with pytest.raises(TraceError, match="2 nodes and times for 1"):
        write(bad, tmp_path / "r")
