"""Why one program takes longer in another run: class by class, in shares that sum to one."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.comparison import exchanged
from chakrakit.trace.sets import Times, run_of


def run(gemm: int, norm: int, hidden: int = 1, name: str = "gemm") -> ck.Run:
    """A product and a norm after it, and a copy beside them that nobody waits for."""
    t = ck.TraceBuilder()
    a = t.comp(name, stream=1, duration_ns=gemm)
    t.comp("norm", stream=1, duration_ns=norm, deps=[a])
    t.comp("hidden", stream=2, duration_ns=hidden)
    times = Times(np.array([0, gemm, 0]), np.array([gemm, gemm + norm, hidden]))
    return run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000)


def test_each_class_has_the_share_that_its_times_cause():
    shares = exchanged(run(1000, 500), run(1300, 600))
    assert shares == pytest.approx({"compute: gemm": 0.75, "compute: norm": 0.25})


def test_work_that_grows_beside_the_path_explains_nothing():
    shares = exchanged(run(1000, 500), run(1100, 500, hidden=900))
    assert shares == pytest.approx({"compute: hidden": 0, "compute: gemm": 1})


def test_one_class_may_take_back_what_another_adds():
    shares = exchanged(run(1000, 500), run(1300, 400))
    assert shares == pytest.approx({"compute: gemm": 1.5, "compute: norm": -0.5})


def test_equal_runs_have_no_shares_and_other_programs_cannot_be_exchanged():
    assert exchanged(run(1000, 500), run(1000, 500)) == {}
    assert exchanged(run(1000, 500), run(1300, 500, name="other")) is None
    alone = run(1000, 500)
    assert exchanged(alone, alone.select_ranks([])) is None
