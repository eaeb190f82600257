"""Analyses and comparisons from Python; tests/insight has the figures."""

from __future__ import annotations

import pytest

import chakrakit as ck


def run_of(compute_ns: int) -> ck.Run:
    """Two ranks that compute, and then meet for 2 µs."""
    t = ck.TraceBuilder()
    work = t.comp("gemm", duration_ns=compute_ns, start_ns=0)
    meet = {"start_ns": compute_ns, "duration_ns": 2000}
    t.collective("sync", ck.CollectiveType.ALL_REDUCE, 64, deps=[work], pg_name="tp", **meet)
    return ck.Run([t.build()] * 2, groups=ck.Groups({"tp": [0, 1]}))


def test_some_ranks_of_a_run() -> None:
    assert [r.rank for r in ck.analyze(run_of(3000), ranks=[1]).ranks] == [1]


def test_a_factor_says_what_it_would_save() -> None:
    (gain,) = ck.analyze(run_of(3000), faster={"compute": 3}).what_if.gains
    assert gain.saved_ns == 2000


def test_rules_that_are_broken_are_in_the_comparison() -> None:
    worse = ck.compare(run_of(3000), run_of(6000), fail_if=["step>3%", "step>100%"])
    assert worse.step.delta_ns == 3000
    assert worse.broken == ["step changed by +60.00 %, more than 3 %"]
    assert ck.compare([run_of(3000)], [run_of(3000)], fail_if=["step>3%"]).broken == []


def test_a_rule_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ck.ConfigError, match="step is too long"):
        ck.compare(run_of(3000), run_of(6000), fail_if=["step is too long"])
