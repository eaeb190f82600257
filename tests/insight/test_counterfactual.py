"""Why one run takes longer than another: work, durations and order apart, class by class."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.insight import compare
from chakrakit.insight.explanation import explanation
from chakrakit.trace.sets import Times, run_of


def run(
    gemm: int, norm: int, hidden: int = 1, name: str = "gemm", flops: int = 4, waited: bool = False
) -> ck.Run:
    """A product and a norm after it, and beside them work that nobody waits for unless `waited`."""
    t = ck.TraceBuilder()
    beside = t.comp("hidden", stream=2, duration_ns=hidden)
    a = t.comp(name, stream=1, duration_ns=gemm, num_ops=flops, deps=[beside] if waited else [])
    t.comp("norm", stream=1, duration_ns=norm, deps=[a])
    begin = hidden if waited else 0
    times = Times(
        np.array([0, begin, begin + gemm]), np.array([hidden, begin + gemm, begin + gemm + norm])
    )
    return run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000)


def parts(a: ck.Run, b: ck.Run) -> dict[tuple[str, str], int]:
    explained = explanation(a, b)
    assert explained is not None
    return {(p.change, p.what): p.delta_ns for p in explained if p.delta_ns}


def test_each_class_has_what_its_times_cause():
    assert parts(run(1000, 500), run(1300, 600)) == {
        ("durations", "compute: gemm"): 300,
        ("durations", "compute: norm"): 100,
    }


def test_work_that_grows_beside_the_path_explains_nothing():
    changed = parts(run(1000, 500), run(1100, 500, hidden=900))
    assert changed == {("durations", "compute: gemm"): 100}


def test_one_class_may_take_back_what_another_adds():
    changed = parts(run(1000, 500), run(1300, 400))
    assert list(changed.values()) == [300, -100]


def test_equal_runs_differ_in_nothing_and_runs_of_other_ranks_are_not_exchanged():
    assert parts(run(1000, 500), run(1000, 500)) == {}
    alone = run(1000, 500)
    assert explanation(alone, alone.select_ranks([])) is None


def test_rows_that_only_one_run_has_are_other_work():
    changed = parts(run(1000, 500), run(1300, 500, name="other"))
    assert changed == {("work", "compute: gemm"): -1000, ("work", "compute: other"): 1300}


def test_the_same_rows_with_other_sizes_are_other_work():
    changed = parts(run(1000, 500), run(2000, 500, flops=8))
    assert changed == {("work", "compute: gemm"): 1000}


def test_the_same_work_in_another_order_is_overlap():
    """The copy that nobody waited for is waited for: no row takes longer."""
    result = compare(run(1000, 500, hidden=400), run(1000, 500, hidden=400, waited=True))
    assert [(c.change, c.delta_ns) for c in result.causes] == [("overlap", 400)]
