"""Recorded programs with something that can be done better: what is tried on them, and what comes of it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.insight import advise
from chakrakit.insight.advice.programs import _step_after, _Timed, changes
from chakrakit.insight.rank import as_run
from support.commands import data, succeeded
from support.paths import DATA

HELPS = {
    "float32": "bf16 instead of float32 (torch.autocast, or model.to(torch.bfloat16))",
    "unfused_attention": ("attention in one fused kernel (scaled_dot_product_attention)"),
    "healthy": "",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HELPS)
def test_what_helps_a_recorded_program(name: str) -> None:
    advice, _ = advise(as_run(ck.link(DATA / "h200_faults" / name)[0]))
    assert next((a.what for a in advice), "") == HELPS[name]


@pytest.mark.slow
def test_unfused_attention_saves_what_the_program_saved_when_it_was_fused(tmp_path: Path) -> None:
    """Timed on the H200 without recording: 44.2 ms a step by products and a softmax, 13.8 ms by flash."""
    path = tmp_path / "run"
    ck.link(DATA / "h200_faults" / "unfused_attention", output=path)
    first = data("analyze", path)["advice"][0]
    low, high = first["interval_ns"]
    assert low <= 44.232e6 - 13.827e6 <= high
    for line in first["commands"]:
        succeeded(*shlex.split(line)[1:])
    before, after = (data("simulate", p, *_MEASURED)["makespan_ns"] for p in (path, f"{path}.new"))
    assert low <= before - after <= high


def test_what_a_device_bound_step_is_said_to_save_is_what_simulating_it_saves() -> None:
    """One step that begins 10 ms before its first kernel, which no change of kernels shortens."""
    before, after = _Timed(100.0, 95.0), _Timed(96.0, 91.0)
    assert _step_after(before, after, whole=110.0)[0] == 106.0
    slowed = _Timed(100.0, 50.0)  # recording slowed the host, and the changed step has none of that
    assert _step_after(slowed, _Timed(50.0, 50.0), whole=80.0)[0] == 50.0


def test_programs_of_other_frameworks_are_not_told_what_pytorch_calls_a_change() -> None:
    """A recording of JAX: no option of PyTorch helps it."""
    run = as_run(ck.link(DATA / "xla" / "run.xplane.pb.gz")[0])
    texts = [change.what for change in changes(run)]
    assert texts
    assert not [text for text in texts if "torch" in text or "DataLoader" in text]


_MEASURED = ("--compute", "measured", "--communication", "measured")
