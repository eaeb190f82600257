"""Hours for which nothing is recorded are said where they are most of the run, and only there."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.sources.holes import longest_hole

HOUR = 3600 * 10**9


def _run(starts: list[int], duration: int = 10) -> ck.Run:
    trace = ck.TraceBuilder()
    for at in starts:
        trace.comp(f"at {at}", start_ns=at, duration_ns=duration)
    return ck.Run([trace.build()], {0: ck.Binding(0)})


@pytest.mark.parametrize(
    ("starts", "apart"),
    [
        ([0, 100, 30 * HOUR], "30.0 of its 30.0 hours before 'at 108000000000000' of rank 0"),
        ([0, 30 * HOUR, 30 * HOUR + 100], "30.0 of its 30.0 hours after 'at 0' of rank 0"),
    ],
)
def test_the_smaller_side_of_a_hole_is_the_one_that_lies_apart(
    starts: list[int], apart: str
) -> None:
    assert apart in longest_hole(_run(starts))


def test_a_row_without_end_is_a_hole() -> None:
    assert "5.0 of its 5.0 hours" in longest_hole(_run([0], 5 * HOUR))


@pytest.mark.parametrize("starts", [[], [0, 100], [0, HOUR - 10], [k * HOUR for k in range(9)]])
def test_short_runs_and_long_ones_that_are_full_have_none(starts: list[int]) -> None:
    assert longest_hole(_run(starts)) == ""
