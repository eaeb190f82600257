"""What a newcomer reads after `link`, `analyze`, `simulate` and `compare`: the same step, the true bound."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path

import pytest

from support.paths import DATA

CHAKRA = Path(sysconfig.get_path("scripts")) / "chakra"
MEASURED = ("--compute", "measured", "--communication", "measured")


def chakra(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CHAKRA, *map(str, arguments)], capture_output=True, text=True, check=True
    )


def data(*arguments: object) -> dict:
    return json.loads(chakra(*arguments, "--json").stdout)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPT-2 124M on an H200: 45.5 ms a step un-profiled, bound by the device; 141 ms as recorded."""
    run = tmp_path_factory.mktemp("truth") / "run"
    chakra("link", DATA / "pytorch" / "gpt2_124m_b8_s1024", "-o", run)
    return run


def test_linked_without_options_it_is_the_program_and_not_its_recording(linked):
    found = data("analyze", linked)
    assert found["steps"]["median_ns"] == pytest.approx(45.49e6, rel=0.04)
    assert found["bound"] == "device"
    assert found["recording"]["unprofiled_step_ns"] == 45_490_433
    assert found["what_if"]["gains"][0]["what"] == "compute"
    text = chakra("analyze", linked).stdout.splitlines()
    assert text[0].startswith("step: recorded 46.49 ms, corrected 44.85 ms")
    assert text[1] == "bound by: device"


def test_simulated_and_analyzed_again_it_says_the_same(linked, tmp_path):
    summary = data("simulate", linked, *MEASURED, "-o", tmp_path / "again")
    before, after = data("analyze", linked), data("analyze", tmp_path / "again")
    assert summary["step_ns"] == before["steps"]["median_ns"] == after["steps"]["median_ns"]
    assert summary["recording"] == before["recording"] == after["recording"]
    for section in ("critical_path", "what_if", "operators"):
        assert before[section] == after[section], section


def test_a_halved_kernel_is_what_explains_the_change(linked, tmp_path):
    """Most matrix products are under their operators, those launched before the window by kernel."""
    edit = "edit{scale=0.5,classes=[gemm]}"
    chakra("transform", linked, "--pass", edit, "-o", tmp_path / "edited")
    chakra("simulate", tmp_path / "edited", *MEASURED, "-o", tmp_path / "faster")
    found = data("compare", linked, tmp_path / "faster")
    named = sum(
        e["delta_ns"]
        for e in found["explained"]
        if e["what"].startswith(("compute: aten::mm", "compute: aten::addmm", "compute: nvjet"))
    )
    assert found["step"]["delta_ns"] < -1_000_000
    assert named / found["step"]["delta_ns"] >= 0.95


def test_as_recorded_every_result_begins_with_a_warning(tmp_path):
    run = tmp_path / "recorded"
    folder = DATA / "pytorch" / "gpt2_124m_b8_s1024"
    said = [chakra("link", folder, "--as-recorded", "-o", run).stdout]
    said += [chakra("analyze", run).stdout, chakra("simulate", run, *MEASURED).stdout]
    said += [chakra("compare", run, run).stdout]
    for text in said:
        assert text.startswith("warning: ")
        assert "3.07 times as long as it is: 139.85 ms instead of 45.49 ms" in text.splitlines()[0]
    assert data("analyze", run)["warning"]
