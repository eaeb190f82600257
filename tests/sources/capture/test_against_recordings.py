"""Captured and recorded: the same programs, run on CPUs with gloo and recorded, did the same."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).parents[2] / "data" / "pytorch"
CASES = {
    "cnn_ddp_2": ("cnn", "ddp", 2),
    "gpt_fsdp_tp_4": ("gpt", "fsdp_tp", 4),
    "gpt_pp_2": ("gpt", "pp", 2),
}
MATRIX = (
    "aten::mm",
    "aten::addmm",
    "aten::convolution",
    "aten::convolution_backward",
    "aten::native_layer_norm",
    "aten::native_batch_norm",
    "aten::gelu",
    "aten::lerp_",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::embedding_dense_backward",
)


def nodes(case: str, rank: int) -> list[Any]:
    path = next((RECORDED / case).glob(f"et_{rank}.json*"))
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return sorted(json.loads(text)["nodes"], key=lambda n: n["id"])


def tensors(node: Any) -> str:
    """Shapes of the tensors given, numbers aside."""
    kinds = node["inputs"]["types"]
    shapes = [
        s for s, t in zip(node["inputs"]["shapes"], kinds, strict=True) if "Tensor" in t and s != []
    ]
    return json.dumps(shapes, separators=(",", ":"))


def collectives_of(case: str, rank: int) -> list[tuple[str, str]]:
    """Names and shapes of what a rank communicated, in order; functional ones by what they call."""
    return [
        (n["name"], tensors(n))
        for n in nodes(case, rank)
        if n["name"].startswith("c10d::") and "wait" not in n["name"]
    ]


def captured_collectives(trace: Any) -> list[tuple[str, str]]:
    found = []
    for node in trace.nodes.to_pylist():
        if node["comm_size"] is not None:
            name = node["name"].replace("_c10d_functional::all_reduce", "c10d::allreduce_")
            shapes = [s for s in json.loads(node["inputs_shapes"]) if s != []]
            if name == "c10d::allreduce_" and not isinstance(shapes[0][0], list):
                shapes = [shapes]
            found.append((name, json.dumps(shapes, separators=(",", ":"))))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_collectives_in_the_same_order(case: str, captured: Callable[..., Any]) -> None:
    program, mode, ranks = CASES[case]
    _, traces = captured(program, mode, ranks=ranks, steps=(2, 3))
    for rank in range(ranks):
        assert captured_collectives(traces.trace(rank)) == collectives_of(case, rank)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_operators_on_the_same_shapes(case: str, captured: Callable[..., Any]) -> None:
    program, mode, ranks = CASES[case]
    _, traces = captured(program, mode, ranks=ranks, steps=(2, 3))
    subclass = {n["ctrl_deps"] for n in nodes(case, 0) if n["name"] == "PythonSubclass"}
    recorded = Counter(
        (n["name"], tensors(n))
        for n in nodes(case, 0)
        if n["name"] in MATRIX and n["id"] not in subclass  # whose parts are recorded as well
    )
    seen = Counter(
        (
            n["name"],
            json.dumps(
                [
                    s
                    for s, t in zip(
                        json.loads(n["inputs_shapes"]), json.loads(n["inputs_types"]), strict=True
                    )
                    if "Tensor" in t and s != []
                ],
                separators=(",", ":"),
            ),
        )
        for n in traces.trace(0).nodes.to_pylist()
        if n["name"] in MATRIX
    )
    assert seen == recorded
