"""One rank's replay from first iteration to result."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.limits import ReplayError
from chakrakit.replayer.runner.measure import run_plan
from support.replayed import plan_text, small_model

pytest.importorskip("torch")

SETTINGS = {"iterations": 2, "warmup": 1, "timeout_s": 60.0}


pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_step_is_replayed_and_recorded(tmp_path):
    found = run_plan(plan_text(small_model(), tmp_path), SETTINGS, tmp_path)
    assert len(found["steps_ns"]) == 2
    assert found["not_covered"] == []
    assert (tmp_path / "kineto_0.json.gz").is_file()


def test_more_than_there_is_of_memory_is_refused_before_it_is_taken(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    plan["memory"]["cpu"] = 1 << 47
    with pytest.raises(ReplayError, match=r"needs 131,072\.0 GiB on this machine"):
        run_plan(plan, SETTINGS, None)


def test_gaps_of_the_host_are_kept_if_asked(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    assert not any(s.get("gap_ns") for s in plan["steps"])
    plan["steps"][1]["gap_ns"] = 20_000_000
    found = run_plan(plan, {**SETTINGS, "iterations": 1}, None)
    assert found["steps_ns"][0] >= 20_000_000
