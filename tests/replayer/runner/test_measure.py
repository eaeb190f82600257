"""Running a plan: warmed up, timed, and once more under the profiler."""

from __future__ import annotations

import json

import pytest

from chakrakit.replayer.runner import measure
from chakrakit.replayer.runner.limits import ReplayError
from chakrakit.replayer.runner.measure import run_plan
from support import replayed
from support.replayed import plan_text, small_model

torch = pytest.importorskip("torch")
SETTINGS = replayed.SETTINGS | {"iterations": 2, "warmup": 1}
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
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


@pytest.mark.slow
def test_gaps_of_the_host_are_kept_if_asked(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    assert not any(s.get("gap_ns") for s in plan["steps"])
    plan["steps"][1]["gap_ns"] = 20_000_000
    found = run_plan(plan, {**SETTINGS, "iterations": 1}, None)
    assert found["steps_ns"][0] >= 20_000_000


def test_kernels_of_a_recording_are_counted_with_their_time():
    events = [
        {"cat": "kernel", "name": "gemm", "dur": 1.5},
        {"cat": "kernel", "name": "gemm", "dur": 2.0},
        {"cat": "gpu_memcpy", "name": "copy", "dur": 0.5},
        {"cat": "cpu_op", "name": "aten::mm", "dur": 9},
    ]
    found = measure._kernels(json.dumps({"traceEvents": events}).encode())
    assert found == {"gemm": (2, 3_500), "copy": (1, 500)}


def test_a_plan_for_a_gpu_needs_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert measure.choose_device(torch, {"device": "cpu"}) == "cpu"
    with pytest.raises(ReplayError, match="this machine has none; use --device cpu"):
        measure.choose_device(torch, {"device": "cuda", "rank": 0})


def test_ranks_on_this_machine_are_those_of_the_launcher_or_all(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert measure.local_ranks({"world": 16}) == 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert measure.local_ranks({"world": 16}) == 4
