"""A result in a few lines for people."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from chakrakit.simulator.astra import about, rows


def result(cycles, exposed, **more):
    facts = {"folded": True, "stuck": "", "representative": [0], "ranks": len(cycles)}
    return SimpleNamespace(cycles=np.array(cycles), exposed=np.array(exposed), **(facts | more))


def test_equal_neighbours_are_one_row() -> None:
    found = result([5000, 5000, 7000, 5000, -1], [1000, 1000, 1000, 1000, -1])
    assert rows(found) == [
        ("0–1", "5,000", "1,000"),
        ("2", "7,000", "1,000"),
        ("3", "5,000", "1,000"),
        ("4", "never", "never"),
    ]


def test_long_lists_are_cut() -> None:
    found = rows(result(range(17), [0] * 17))
    assert len(found) == 17
    assert found[-2:] == [("15", "15", "0"), ("…", "…", "…")]
    assert rows(result(range(16), [0] * 16))[-1] == ("15", "15", "0")


def test_how_many_ranks_were_simulated() -> None:
    assert about(result([1, 1], [0, 0])) == "2 ranks in 1 class"
    assert about(result([1, 2], [0, 0], representative=[0, 1])) == "2 ranks in 2 classes"
    apart = result([1], [0], folded=False, why_not_folded="switched off", stuck="rank 0 waits")
    assert about(apart) == "1 ranks, not folded: switched off\nrank 0 waits"
