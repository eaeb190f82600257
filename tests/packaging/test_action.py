"""The GitHub Action: its comparing step in bash, with runs that keep and break a rule."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import chakrakit as ck
from support.paths import ROOT

STEPS = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
COMPARE = next(step for step in STEPS if step.get("id") == "compare")


def _run(folder: Path, name: str, gemm_ns: int) -> str:
    builder = ck.TraceBuilder()
    builder.comp("gemm", duration_ns=gemm_ns)
    traces = ck.TraceSet.of([builder])
    ck.simulate(traces, compute="measured", communication="measured", output=folder / name)
    return str(folder / name)


def _compared(folder: Path, baseline: str, run: str, rules: str) -> tuple[str, str]:
    """The step's exit code and its comment."""
    home = folder / "chakrakit/bin"
    home.mkdir(parents=True)
    chakra = home / "chakra"
    chakra.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from chakrakit.commands import main; main()" "$@"\n'
    )
    chakra.chmod(0o755)
    files = {"GITHUB_STEP_SUMMARY": folder / "summary", "GITHUB_OUTPUT": folder / "output"}
    given = {"BASELINE": baseline, "RUN": run, "RULES": rules, "RUNNER_TEMP": str(folder)}
    subprocess.run(
        ["bash", "-e", "-c", COMPARE["run"]],
        env=os.environ | given | {name: str(path) for name, path in files.items()},
        capture_output=True,
        check=True,
    )
    return files["GITHUB_OUTPUT"].read_text().strip(), files["GITHUB_STEP_SUMMARY"].read_text()


@pytest.mark.slow
def test_a_slower_run_breaks_the_rule_and_the_comment_says_why(tmp_path: Path) -> None:
    baseline, run = _run(tmp_path, "a", 1_000_000), _run(tmp_path, "b", 1_100_000)
    code, comment = _compared(tmp_path, baseline, run, "step>3%; memory>5%")
    assert code == "code=1"
    assert comment.startswith("**Fails:** step")
    assert "gemm" in comment


@pytest.mark.slow
def test_a_change_within_the_noise_of_repeated_runs_breaks_nothing(tmp_path: Path) -> None:
    baselines = [_run(tmp_path, f"a{k}", 1_000_000 + 100_000 * k) for k in range(3)]
    run = _run(tmp_path, "b", 1_150_000)
    code, comment = _compared(tmp_path, " ".join(baselines), run, "step>3%")
    assert code == "code=0"
    assert comment.startswith("No rule is broken.")
