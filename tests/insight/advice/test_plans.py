"""Generated steps with one thing done badly: the first advice undoes it, and saves what it says."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

import chakrakit as ck
from chakrakit.insight import advise, answers
from chakrakit.trace.sets import footprint_of
from support.commands import chakra, data, succeeded

SMALL: dict[str, Any] = {"model": "gpt3-125m", "layers": 8, "seq": 1024, "kernel": "flash"}
WIDE: dict[str, Any] = {"model": "llama2-7b", "layers": 8, "seq": 2048}
NODE = "dgx-h100"
RING = {"algorithms": {"all-reduce": "ring"}}
PLANTED: dict[str, tuple[dict[str, Any], str, dict[str, Any], str]] = {
    "scores that are written to memory": (
        {**SMALL, "kernel": "unfused", "dp": 2, "global_batch": 8, "micro_batch": 4},
        NODE,
        {},
        "attention in one fused kernel",
    ),
    "layers computed twice": (
        {**SMALL, "recompute": "full", "dp": 2, "global_batch": 8, "micro_batch": 4},
        NODE,
        {},
        "no recomputation",
    ),
    "tiny buckets": (
        {**SMALL, "bucket_mb": 0.25, "dp": 8, "global_batch": 16, "micro_batch": 2},
        NODE,
        {},
        "gradient buckets of 25 MiB",
    ),
    "float32": (
        {**SMALL, "dtype": "fp32", "dp": 2, "global_batch": 8, "micro_batch": 4},
        NODE,
        {},
        "bf16 instead of fp32",
    ),
    "tensor parallelism across nodes": (
        {**SMALL, "tp": 2, "dp": 8, "order": "dp-cp-tp-pp", "global_batch": 64, "micro_batch": 8},
        "dgx-h100:2",
        {},
        "ranks in the order tp-cp-dp-pp",
    ),
    "parameters gathered when they are needed": (
        {**SMALL, "dp": 8, "data": "fsdp", "prefetch": 0, "global_batch": 32, "micro_batch": 4},
        NODE,
        {},
        "parameters gathered 1 units ahead",
    ),
    "few micro-batches in a pipeline": (
        {**WIDE, "layers": 24, "pp": 4, "global_batch": 32, "micro_batch": 8},  # too large for one
        NODE,
        {},
        "micro-batches of 2 instead of 8",
    ),
    "many small micro-batches": (
        {**SMALL, "global_batch": 16, "micro_batch": 1},
        NODE,
        {},
        "micro-batches of 16 instead of 1",
    ),
    "one stage with most layers": (
        {**WIDE, "pp": 4, "split": [5, 1, 1, 1], "global_batch": 16},
        NODE,
        {},
        "layers spread evenly over stages",
    ),
    "a ring over 64 ranks": (
        {**SMALL, "dp": 64, "global_batch": 128, "micro_batch": 2},
        "dgx-h100:8",
        RING,
        "all-reduce by double-tree",
    ),
    "layers split over eight ranks for nothing": (
        {**SMALL, "model": "gpt3-350m", "tp": 8, "global_batch": 16, "micro_batch": 2},
        NODE,
        {},
        "tp 1 and dp 8 instead of 8 and 1",
    ),
    "gathers that products wait for": (
        {**WIDE, "tp": 8, "global_batch": 4, "micro_batch": 4},
        NODE,
        {},
        "tensor-parallel communication beside its products",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_the_first_advice_undoes_what_was_done_badly(name: str, tmp_path: Path) -> None:
    fields, machine, options, expected = PLANTED[name]
    run = ck.simulate(ck.generate(**fields).traces, machine, **options).run()
    path = str(tmp_path / "run")
    ck.write(run, path)
    advice, note = advise(ck.read(path), path)  # type: ignore[arg-type]
    assert (advice[0].what, note) == (expected, "")
    for line in advice[0].commands:
        succeeded(*shlex.split(line)[1:])
    after = ck.read(f"{path}.new")
    assert isinstance(after, ck.Run)
    saved = _span(run) - _span(after)
    assert advice[0].interval_ns is not None
    low, high = advice[0].interval_ns
    assert 0 < low <= saved <= high
    assert saved == pytest.approx(advice[0].saves_ns, rel=1e-6)
    first, changed = (footprint_of(r.card) for r in (run, after))
    assert first is not None
    assert changed is not None
    assert first.interval_ns is not None
    assert changed.interval_ns is not None
    assert low >= first.interval_ns[0] - changed.interval_ns[1] - 1
    assert high <= first.interval_ns[1] - changed.interval_ns[0] + 1


def _span(run: ck.Run) -> float:
    begin, end = run.span_ns
    return end - begin


@pytest.fixture(scope="module")
def badly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fields = {**SMALL, "layers": 2, "recompute": "full", "global_batch": 4, "micro_batch": 4}
    path = tmp_path_factory.mktemp("advice") / "run"
    ck.write(ck.simulate(ck.generate(**fields).traces, NODE).run(), path)
    return path


@pytest.mark.slow
def test_the_first_screen_the_page_and_the_data_say_it(badly: Path, tmp_path: Path) -> None:
    assert "What would help most? no recomputation" in succeeded("analyze", badly)
    screen = succeeded("analyze", badly, "--full")
    assert f"chakra generate {badly} --recompute none -o {badly}.changed" in " ".join(
        screen.split()
    )
    first = data("analyze", badly)["advice"][0]
    assert (first["what"], first["same_training"]) == ("no recomputation", True)
    page = tmp_path / "page.html"
    succeeded("report", badly, "-o", page)
    assert "no recomputation" in page.read_text()
    table = succeeded("analyze", badly, "--section", "advice")
    assert "what would help" in table


def test_a_plan_that_does_not_fit_is_not_advised() -> None:
    """Activations of whole layers need more than the device has; without recomputing they all stay."""
    fields = {**WIDE, "seq": 8192, "recompute": "full", "global_batch": 6, "micro_batch": 6}
    run = ck.simulate(ck.generate(**fields).traces, NODE).run()
    too_large = ck.simulate(ck.generate(**fields | {"recompute": "none"}).traces, NODE)
    assert too_large.summary.fits is False
    assert "no recomputation" not in [a.what for a in advise(run)[0]]


def test_nor_to_a_run_that_does_not_fit_itself() -> None:
    """Scores that stay in the kernel save time; with all activations of 8 layers it still does not fit."""
    fields = {**WIDE, "seq": 32768, "kernel": "unfused", "global_batch": 8, "micro_batch": 2}
    too_large = ck.simulate(ck.generate(**fields).traces, NODE)
    assert too_large.summary.fits is False
    assert advise(too_large.run())[0] == []


def test_what_cannot_be_tried_is_not_advised(tmp_path: Path) -> None:
    """A run on a machine that its card cannot name says so, and --machine helps."""
    file = tmp_path / "machine.yaml"
    file.write_text(_MACHINE)
    fields = {**SMALL, "layers": 2, "recompute": "full", "global_batch": 4, "micro_batch": 4}
    run = ck.simulate(ck.generate(**fields).traces, str(file)).run()
    advice, note = advise(run)
    assert (advice, "--machine FILE" in note) == ([], True)
    assert not [a for a in answers(ck.analyze(run)) if a.question == "What would help most?"]
    assert advise(run, machine=str(file))[0][0].what == "no recomputation"


_MACHINE = """
name: two devices
device: {peak: {bf16: 100e12}, memory: 80e9, memory_bandwidth: 2e12}
network:
  - {topology: switch, size: 2, bandwidth: 100e9}
"""


def test_traces_say_the_workload_they_were_generated_from(badly: Path, tmp_path: Path) -> None:
    again = data("generate", badly, "--micro-batch", "2", "--dry-run")
    assert again["micro_batches"] == 2
    other = tmp_path / "empty"
    other.mkdir()
    (other / "card.json").write_text('{"name": "x", "tool": "other"}')
    assert "describes no workload" in chakra("generate", other).stderr


def test_a_straggler_is_named_first_with_what_it_costs() -> None:
    """Rank 3 of 8 computes 1.5 times as slowly: nothing else in the plan costs as much."""
    traces = ck.generate(model="gpt3-125m", seq=256, global_batch=8, dp=8).traces
    slow, even = (ck.simulate(traces, "dgx-h100", stragglers=s).run() for s in ({3: 1.5}, {}))
    first = advise(slow)[0][0]
    assert first.what == "no rank slower than the others (rank 3, 1.5 times as slow)"
    assert "--straggler" not in " ".join(first.commands)
    spans = [high - low for low, high in (slow.span_ns, even.span_ns)]
    assert first.saves_ns == pytest.approx(spans[0] - spans[1], rel=1e-3)
