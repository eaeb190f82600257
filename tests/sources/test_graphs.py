"""CUDA graphs recorded on an H200: every kernel of a replay has the operator its capture saw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chakrakit.insight import AnalysisOptions, analyze
from chakrakit.sources import link
from chakrakit.sources.pytorch.linking import LinkOptions
from support.paths import DATA

RECORDED = LinkOptions(as_recorded=True)
DECODE, TRAINING = (DATA / "pytorch" / name for name in ("decode_graph", "reduce_overhead"))


@pytest.mark.parametrize(("folder", "launches", "kernels"), [(DECODE, 4, 1308), (TRAINING, 6, 996)])
def test_every_graph_kernel_has_its_operator(folder: Path, launches: int, kernels: int) -> None:
    _, report = link([folder], RECORDED)

    (rank,) = report.ranks
    assert rank.graphs == {
        "launches": launches,
        "kernels": kernels,
        "with_operator": kernels,
        "launches_without_capture": 0,
    }
    assert rank.edge_violations == 0
    assert rank.scheduled_span_ns == pytest.approx(rank.measured_span_ns, rel=0.01)
    assert rank.device_time_ns.linked == rank.device_time_ns.in_


def test_kernels_get_shapes_modules_and_work_from_the_capture() -> None:
    """A decoder of 16 layers: seven products each, and the head."""
    run, _ = link([DECODE], RECORDED)
    trace = run.trace(0)

    products = (trace.column("operator", "") == "aten::mm") & (trace.column("num_ops", 0) > 0)
    assert products.sum() == 4 * (16 * 7 + 1)  # one of the seven takes two kernels, and counts once
    heads = np.flatnonzero(trace.column("module", "") == "lm_head")
    assert set(trace.column("num_ops", 0)[heads].tolist()) == {2 * 32 * 2048 * 32000}
    assert trace.column("inputs_shapes", "")[heads[0]] == "[[32, 2048], [2048, 32000]]"
    layers = trace.column("module", "")[np.flatnonzero(trace.has("operator"))]
    assert "layers.7.mlp.up_proj" in set(layers.tolist())


def test_analyses_know_graph_kernels_by_their_operators() -> None:
    run, _ = link([DECODE], RECORDED)

    found = analyze(run, AnalysisOptions(faster=(("aten::mm", 2.0),)))
    spent = {o.name: o.count for o in found.operators.operators}

    assert spent["aten::mm"] == 4 * (16 * 8 + 1)  # kernels
    assert "cudaGraphLaunch" not in spent
    on_path = [name for kind, name, _ in found.critical_path.operators if kind == "compute"]
    assert on_path[0] == "aten::mm"
    assert [gain.nodes for gain in found.what_if.gains] == [spent["aten::mm"]]
    assert found.expected is not None
    assert [e.kind for e in found.expected.operators if e.operator == "aten::mm"] == ["matmul"]


def test_without_a_capture_names_and_order_remain() -> None:
    _, report = link([DECODE / "kineto.json.gz"], RECORDED)

    (rank,) = report.ranks
    assert rank.graphs["with_operator"] == 0
    assert rank.graphs["launches_without_capture"] == 4
    assert rank.edges["launch"] == rank.device_activities.linked


@pytest.mark.parametrize(("folder", "bare_ms"), [(DECODE, 2.02), (TRAINING, 4.27)])
def test_without_what_tracing_costs_a_step_is_as_long_as_unprofiled(
    folder: Path, bare_ms: float
) -> None:
    """Un-profiled steps as timed just before; the cost per node was fitted to the first of the two."""
    _, report = link([folder], LinkOptions(undilate=True))

    last = report.ranks[0].steps[-1]["scheduled_period_ns"] / 1e6

    assert last == pytest.approx(bare_ms, rel=0.04)
