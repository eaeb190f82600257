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
from support.recording import Recording

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


def test_a_loader_that_finds_nothing_left_is_no_step_that_could_save(tmp_path: Path) -> None:
    """Three steps of 10 ms wait 2 ms for their batch; the profiler's fourth only waits, for 50."""
    recording = Recording(device="cpu")
    for step in range(4):
        start, last = 10_000 * step, step == 3
        recording.op(f"ProfilerStep#{step}", start, 50_000 if last else 9_999)
        recording.op(
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
            start,
            49_999 if last else 2_000,
        )
        if not last:
            recording.op("aten::mm", start + 2_000, 7_990)
    files = [tmp_path / "et.json", tmp_path / "kineto.json"]
    for file, text in zip(files, (recording.observer_json(), recording.kineto_json()), strict=True):
        file.write_text(text)
    (advice, *_), _ = advise(as_run(ck.link(files)[0]))
    assert "load" in advice.what
    assert advice.before_ns == pytest.approx(10e6, rel=0.01)
    assert advice.saves_ns == pytest.approx(2e6, rel=0.05)


def test_programs_of_other_frameworks_are_not_told_what_pytorch_calls_a_change() -> None:
    """A recording of JAX: no option of PyTorch helps it."""
    run = as_run(ck.link(DATA / "xla" / "run.xplane.pb.gz")[0])
    texts = [change.what for change in changes(run)]
    assert texts
    assert not [text for text in texts if "torch" in text or "DataLoader" in text]


_MEASURED = ("--compute", "measured", "--communication", "measured")


@pytest.mark.parametrize(
    ("loader", "advised"),
    [("_SingleProcessDataLoaderIter", "processes"), ("_MultiProcessingDataLoaderIter", "more")],
)
def test_a_program_whose_processes_load_is_told_to_use_more_of_them(
    loader: str, advised: str
) -> None:
    t = ck.TraceBuilder()
    t.comp(f"enumerate(DataLoader)#{loader}.__next__", duration_ns=1000, is_cpu_op=True)
    t.comp("aten::mm", duration_ns=1000, is_cpu_op=True)
    whole = ck.TraceSet([t.build()], {0: ck.Binding(0)})
    run = ck.simulate(whole, compute="measured", communication="measured").run()
    assert any(c.what.startswith(advised) and "DataLoader" in c.what for c in changes(run))


@pytest.mark.slow
def test_a_step_of_the_device_leaves_open_what_the_host_of_a_faster_one_takes() -> None:
    """Float32 in bf16: a host that recording slowed by an unknown amount may bound the changed step."""
    run = as_run(ck.link(DATA / "h200" / "lstm_lm")[0])
    recording = run.card.measured["recording"]
    assert recording["least_host_percent"] < 100 < recording["most_host_percent"]
    known = {k: v for k, v in recording.items() if "host" not in k}
    certain = run.with_card(run.card.replace(measured={**run.card.measured, "recording": known}))
    wide, narrow = (
        next(a for a in advise(r)[0] if a.what.startswith("bf16")).interval_ns
        for r in (run, certain)
    )
    assert wide is not None
    assert narrow is not None
    assert wide[0] < narrow[0] < narrow[1] <= wide[1]


@pytest.mark.slow
def test_what_two_changes_save_on_a_device_is_what_they_saved() -> None:
    """A U-Net in float32: milliseconds that its step took less on the H200 that it was recorded on."""
    advice, _ = advise(as_run(ck.link(DATA / "h200_changes" / "unet")[0]))
    for found, what, saved_ms in zip(advice, ("images", "bf16"), (7.94, 4.63), strict=False):
        assert found.what.startswith(what)
        assert found.interval_ns is not None
        low, high = found.interval_ns
        assert low < saved_ms * 1e6 < high
    assert advice[0].saves_ns == pytest.approx(7.94e6, rel=0.1)
