"""A compiled program has the kernels that a compiler makes of its operators, and holds less memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from chakrakit import simulate, validate, write
from support.commands import succeeded

Captured = Callable[..., Any]
TOKENS, WIDTH, INNER = 512, 256, 1024
WIDE, NARROW = 4 * TOKENS * INNER, 4 * TOKENS * WIDTH
"""Bytes of the two activations, in single precision."""


@pytest.fixture
def compiled(captured: Captured) -> Any:
    return captured("compiled", "inductor", ranks=1, device="h100")


@pytest.fixture
def eager(captured: Captured) -> Any:
    return captured("compiled", "eager", ranks=1, device="h100")


def kernels(traces: Any, phase: str) -> dict[str, Any]:
    rows = traces.trace(0).nodes.to_pylist()
    return {r["name"]: r for r in rows if not r["is_cpu_op"] and r["phase"] == phase}


@pytest.mark.slow
def test_operators_between_products_are_one_kernel(compiled: Any) -> None:
    """Forward: a norm, a product, the activation, a product, the sum; the loss is not compiled."""
    _, traces = compiled
    forward = kernels(traces, "forward")
    assert {n: r["fused_operators"] for n, r in forward.items() if r["fused_operators"]} == {
        "triton_per_fused_native_layer_norm": "aten::native_layer_norm",
        "triton_poi_fused_gelu_mul": "aten::gelu, aten::mul",
        "triton_poi_fused_add": "aten::add",
    }
    assert Counter(n for n in forward if n.startswith("aten::")) == Counter(
        ("aten::addmm", "aten::pow", "aten::mean")
    )


@pytest.mark.slow
def test_a_kernel_reads_what_it_is_given_and_writes_what_others_need(compiled: Any) -> None:
    _, traces = compiled
    forward = kernels(traces, "forward")
    assert forward["triton_poi_fused_gelu_mul"]["tensor_size"] == 2 * WIDE
    assert forward["triton_poi_fused_add"]["tensor_size"] == 3 * NARROW
    norm = forward["triton_per_fused_native_layer_norm"]
    assert norm["tensor_size"] == 2 * NARROW + 2 * 4 * WIDTH + 2 * 4 * TOKENS


def test_the_sums_for_a_norms_weights_are_a_kernel_of_their_own(compiled: Any) -> None:
    backward = kernels(compiled[1], "backward")
    rows = [r for r in backward.values() if "layer_norm_backward" in (r["fused_operators"] or "")]
    assert [r["outputs_shapes"] for r in rows] == ["[[256],[256]]"]  # the input needs no gradient


@pytest.mark.slow
def test_what_is_computed_again_is_not_kept(compiled: Any, eager: Any) -> None:
    """The factor gelu(inner) comes from inner, which is kept: one wide activation less at the peak."""
    peaks = [report.kinds[0].peak_bytes for report, _ in (eager, compiled)]
    assert peaks[0] - peaks[1] >= WIDE
    found = simulate(compiled[1], machine="dgx-h100", compute="roofline")
    assert [r.peak_bytes for r in found.summary.ranks] == [peaks[1]]


@pytest.mark.slow
def test_a_backend_that_runs_operators_one_by_one_fuses_nothing(eager: Any, compiled: Any) -> None:
    assert "fused_operators" not in eager[1].trace(0).nodes.column_names
    assert eager[0].stubbed == compiled[0].stubbed == ["torch.compile"]
    assert len(compiled[0].warnings) == len(eager[0].warnings) + 1
    assert validate(compiled[1]).ok


@pytest.mark.slow
def test_fused_kernels_are_named_from_capture_to_report(compiled: Any, tmp_path: Any) -> None:
    write(simulate(compiled[1], machine="dgx-h100").run(), tmp_path / "run")
    analyzed = succeeded("analyze", tmp_path / "run", "--json")
    assert "triton_poi_fused_gelu_mul" in analyzed
    succeeded("report", tmp_path / "run", "-o", tmp_path / "page.html")
    assert "triton_poi_fused_gelu_mul" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("which", ["passed_by", "stored"])
def test_views_hold_no_kernel_up(captured: Captured, which: str) -> None:
    """A view of what a kernel writes, beside a product, or a write into a cache by the same kernel."""
    options = {"ranks": 1, "device": "h100", "step_ends": "__main__.step"}
    _, traces = captured("compiled_views", which, **options)
    names = [n.name for n in traces.trace(0) if n.name.startswith("triton")]
    assert names
    assert validate(traces).ok
