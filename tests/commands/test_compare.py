"""`chakra compare`: the change, what explains it, and rules that fail a build."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from support.commands import chakra, data, succeeded


def test_the_change_of_a_step_and_what_explains_it(runs: Path) -> None:
    found = data("compare", runs / "fast", runs / "slow")
    assert found["step"]["delta_ns"] == 3000
    assert [(e["what"], e["delta_ns"]) for e in found["explained"]] == [("compute: gemm", 3000)]


def test_people_read_the_same(runs: Path) -> None:
    assert "compute: gemm" in succeeded("compare", runs / "fast", runs / "slow")


@pytest.mark.slow
def test_the_answer_comes_first_and_the_rest_when_asked_for(tmp_path: Path) -> None:
    """Four equal ranks on two machines give notes; the groups of a role that are alike share a row."""
    traces = ck.generate(model="gpt3-125m", dp=2, tp=2, seq=128, global_batch=2).traces
    for machine in ("dgx-h100", "dgx-a100"):
        ck.simulate(traces, machine, compute="roofline", output=tmp_path / machine)
    pair = (tmp_path / "dgx-h100", tmp_path / "dgx-a100")
    short, full = succeeded("compare", *pair), succeeded("compare", *pair, "--full")
    assert short.startswith("step ")
    assert "note: " in short
    assert "operators per step" not in short
    assert full.startswith(short.partition("more: ")[0])
    assert "operators per step" in full
    groups = full.partition("groups per step")[2]
    assert groups.count("ALL_REDUCE tp ") == 2  # of activations, and of the norm of gradients
    assert "(2)" in groups


def test_equal_runs_are_said_to_be_so(runs: Path) -> None:
    assert "nothing: it takes as long" in succeeded("compare", runs / "fast", runs / "fast")


def test_a_broken_rule_exits_1_and_says_which(runs: Path) -> None:
    done = chakra("compare", runs / "fast", runs / "slow", "--fail-if", "step>3%")
    assert done.exit_code == 1
    assert done.stderr.startswith("fails: step")
    assert chakra("compare", runs / "slow", runs / "fast", "--fail-if", "step>3%").exit_code == 0


def test_more_runs_of_a_kind_give_the_noise(runs: Path) -> None:
    more = ("--also-a", runs / "fast", "--also-b", runs / "slow")
    assert data("compare", runs / "fast", runs / "slow", *more)["step"]["delta_ns"] == 3000


def run_of(compute_ns: int) -> ck.Run:
    """Two ranks that compute, and then meet for 2 µs."""
    t = ck.TraceBuilder()
    work = t.comp("gemm", duration_ns=compute_ns, start_ns=0)
    meet = {"start_ns": compute_ns, "duration_ns": 2000}
    t.collective("sync", ck.CollectiveType.ALL_REDUCE, 64, deps=[work], pg_name="tp", **meet)
    return ck.Run([t.build()] * 2, groups=ck.Groups({"tp": [0, 1]}))


def test_rules_that_are_broken_are_in_the_comparison() -> None:
    worse = ck.compare(run_of(3000), run_of(6000), fail_if=["step>3%", "step>100%"])
    assert worse.step.delta_ns == 3000
    assert worse.broken == ["step changed by +60.00 %, more than 3 %"]
    assert ck.compare([run_of(3000)], [run_of(3000)], fail_if=["step>3%"]).broken == []


def test_a_rule_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ck.ConfigError, match="step is too long"):
        ck.compare(run_of(3000), run_of(6000), fail_if=["step is too long"])


def test_a_rule_that_is_not_decided_is_said_and_passes(tmp_path: Path) -> None:
    """Two runs of A lie 2 µs apart, so that one more in B is noise."""
    for name, ns in (("a", 3000), ("also", 5000), ("b", 4500)):
        ck.write(run_of(ns), tmp_path / name)
    more = ("--also-a", tmp_path / "also", "--fail-if", "step>3%", "-o", tmp_path / "c.md")
    done = chakra("compare", tmp_path / "a", tmp_path / "b", *more)
    assert done.exit_code == 0
    assert "not decided: step changed by" in done.stderr
    assert "**Not decided:** step changed by" in (tmp_path / "c.md").read_text()
