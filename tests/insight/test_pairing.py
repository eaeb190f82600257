"""Twins in two runs: the n-th of a name is the n-th of that name."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight import RowChange, pair
from chakrakit.insight.rank import RankView, rank_view
from chakrakit.trace.sets import Times, run_of


def view(rows: list[tuple[str, int, int]]) -> RankView:
    """Rows of (name, start, end)."""
    t = ck.TraceBuilder()
    for name, start, end in rows:
        t.comp(name, duration_ns=end - start, stream=0)
    times = Times(np.array([r[1] for r in rows]), np.array([r[2] for r in rows]))
    return rank_view(run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000), 0)


def test_rows_pair_by_name_and_turn_whatever_their_place_in_the_file():
    a = view([("x", 0, 10), ("y", 10, 20), ("x", 20, 40)])
    b = view([("x", 30, 50), ("y", 5, 15), ("x", 0, 5)])
    paired_a, paired_b = pair(a, b)
    assert paired_a.twin.tolist() == [2, 1, 0]
    assert paired_b.twin.tolist() == [2, 1, 0]
    assert [RowChange(c).name for c in paired_a.change] == ["FASTER", "SAME", "SAME"]


def test_what_has_no_twin_is_alone():
    paired_a, paired_b = pair(
        view([("x", 0, 1), ("gone", 1, 2)]), view([("new", 0, 1), ("x", 1, 2), ("x", 2, 3)])
    )
    assert paired_a.twin.tolist() == [1, -1]
    assert paired_b.twin.tolist() == [-1, 0, -1]
    assert [RowChange(c).name for c in paired_b.change] == ["ALONE", "SAME", "ALONE"]


@pytest.mark.parametrize(
    ("length", "change"),
    [(100, "SAME"), (105, "SAME"), (106, "SLOWER"), (95, "SAME"), (94, "FASTER")],
)
def test_a_twentieth_is_noise(length, change):
    _, paired_b = pair(view([("x", 0, 100)]), view([("x", 0, length)]))
    assert RowChange(int(paired_b.change[0])).name == change


def test_twins_are_mutual_on_random_runs(make_random):
    a, b = (rank_view(make_random(seed)[0], 0) for seed in (1, 2))
    paired_a, paired_b = pair(a, b)
    paired = np.flatnonzero(paired_a.twin >= 0)
    assert len(paired)
    assert paired_b.twin[paired_a.twin[paired]].tolist() == paired.tolist()
    assert [a.name(r) for r in paired] == [b.name(int(t)) for t in paired_a.twin[paired]]
    for name in {a.name(r) for r in range(len(a))}:
        counts = [sum(v.name(r) == name for r in range(len(v))) for v in (a, b)]
        assert sum(a.name(r) == name for r in paired) == min(counts)
