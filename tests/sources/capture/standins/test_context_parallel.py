"""Context parallelism: rings of attention."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("torch", reason="pip install torch")


@pytest.mark.slow
def test_a_rank_computes_its_part_and_sees_the_others_parts_pass(captured):
    """A turn of the ring for each rank; nobody computes the whole, whose shape PyTorch tries out."""
    report, traces = captured("ring", ranks=4, device="h100")
    nodes = traces.trace(1).nodes.select(["name", "inputs_shapes"]).to_pylist()
    attention = [n for n in nodes if n["name"].endswith("cudnn_attention")]
    lengths = [n["inputs_shapes"].split(",")[2] for n in attention]
    assert Counter(lengths) == {
        "64": 2,
        "32": 2,
    }  # itself and the rank before; those behind it by half
    assert sum(n["name"] == "_c10d_functional::all_to_all_single" for n in nodes) == 4
    assert len(report.kinds) == 4
