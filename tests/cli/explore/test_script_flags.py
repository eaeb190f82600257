"""What `chakra search --capture` prints."""

from __future__ import annotations

import pytest

from chakrakit.cli.explore.script_flags import print_script
from chakrakit.studies.search import ScriptPlan, ScriptSearchResult
from chakrakit.studies.search.script_search import Refused


def plan(tp: int, step_ms: float, why: str) -> ScriptPlan:
    return ScriptPlan(
        gpus=8,
        flags={"tp": tp},
        command=f"python t.py --tp {tp}",
        step_ns=step_ms * 1e6,
        value=step_ms,
        mfu=0.4 if tp == 2 else None,
        memory_bytes=3 << 30,
        parts={},
        why=why,
    )


def test_plans_reasons_refusals_and_the_next_commands(capsys: pytest.CaptureFixture[str]) -> None:
    found = ScriptSearchResult(
        best=plan(2, 5.0, "80 % compute"),
        runners_up=[plan(4, 7.5, "2.5 ms longer")],
        evaluated=2,
        over_memory=0,
        refused=[Refused(gpus=8, flags={"tp": 3}, error="3 does not divide 16 heads")],
        machine="dgx-h100",
        objective="step",
    )
    print_script(found, "best")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["gpus", "tp", "step", "ms", "MFU", "%", "GiB"],
        ["best", "8", "2", "5.0", "40.0", "3.0"],
        ["2", "8", "4", "7.5", "3.0"],
    ]
    assert lines[3:] == [
        "best: 80 % compute",
        "2: 2.5 ms longer",
        "refused: 8 gpus tp=3: 3 does not divide 16 heads",
        "2 combinations simulated, 1 refused; by step, on dgx-h100",
        "again: chakra capture --ranks 8 -- python t.py --tp 2",
        "again: chakra simulate best --machine dgx-h100",
    ]
