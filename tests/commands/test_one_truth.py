"""What a newcomer reads after `link`, `analyze`, `simulate` and `compare`: the same step, the true bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.commands import data, succeeded
from support.paths import DATA

MEASURED = ("--compute", "measured", "--communication", "measured")


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPT-2 124M on an H200: 45.5 ms per step un-profiled, bound by the device; 141 ms as recorded."""
    run = tmp_path_factory.mktemp("truth") / "run"
    succeeded("link", DATA / "pytorch" / "gpt2_124m_b8_s1024", "-o", run)
    return run


@pytest.fixture(scope="module")
def analyzed(linked: Path) -> dict[str, Any]:
    return data("analyze", linked)


@pytest.mark.slow
def test_linked_without_options_it_is_the_program_and_not_its_recording(linked, analyzed):
    found = analyzed
    assert found["steps"]["median_ns"] == pytest.approx(45.49e6, rel=0.04)
    assert found["bound"] == "device"
    assert found["recording"]["unprofiled_step_ns"] == 45_490_433
    assert found["what_if"]["gains"][0]["what"] == "compute"
    text = succeeded("analyze", linked).splitlines()
    assert text[0].startswith("step: recorded 48.07 ms, corrected 44.79 ms")
    assert text[1].startswith("How long is a step? 44.79 ms")
    assert any(line.startswith("What is it bound by? device") for line in text)


@pytest.mark.slow
def test_simulated_and_analyzed_again_it_says_the_same(linked, analyzed, tmp_path):
    summary = data("simulate", linked, *MEASURED, "-o", tmp_path / "again")
    before, after = analyzed, data("analyze", tmp_path / "again")
    assert summary["step_ns"] == before["steps"]["median_ns"] == after["steps"]["median_ns"]
    assert summary["recording"] == before["recording"] == after["recording"]
    for section in ("critical_path", "what_if", "operators"):
        assert before[section] == after[section], section


@pytest.mark.slow
def test_a_halved_kernel_is_what_explains_the_change(linked, tmp_path):
    """Most matrix products are under their operators, those launched before the window by kernel."""
    edit = "edit{scale=0.5,classes=[gemm]}"
    succeeded("transform", linked, "--pass", edit, "-o", tmp_path / "edited")
    succeeded("simulate", tmp_path / "edited", *MEASURED, "-o", tmp_path / "faster")
    found = data("compare", linked, tmp_path / "faster")
    named = sum(
        e["delta_ns"]
        for e in found["explained"]
        if e["what"].startswith(("compute: aten::mm", "compute: aten::addmm", "compute: nvjet"))
    )
    assert found["step"]["delta_ns"] < -1_000_000
    assert named / found["step"]["delta_ns"] >= 0.95


@pytest.mark.slow
def test_as_recorded_every_result_begins_with_a_warning(tmp_path):
    run = tmp_path / "recorded"
    folder = DATA / "pytorch" / "gpt2_124m_b8_s1024"
    said = [succeeded("link", folder, "--as-recorded", "-o", run)]
    said += [succeeded("analyze", run), succeeded("simulate", run, *MEASURED)]
    said += [succeeded("compare", run, run)]
    for text in said:
        assert text.startswith("warning: ")
        assert "3.07 times as long as it is: 139.85 ms instead of 45.49 ms" in text.splitlines()[0]
    assert data("analyze", run)["warning"]
