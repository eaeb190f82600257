"""Grouped products from the program to what is said of a run: their FLOPs, their kind, their time."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import data, succeeded

torch = pytest.importorskip("torch", reason="pip install torch")
PROGRAM = Path(__file__).parent / "programs" / "experts.py"
EACH = 2 * 256 * 64 * 128
"""Every token times a matrix of 64 by 128; the gradients of tokens and of experts are as much each."""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="an older PyTorch")
def test_a_grouped_product_is_matrix_work_of_all_its_tokens(tmp_path: Path) -> None:
    captured, run = tmp_path / "captured", tmp_path / "run"
    succeeded("capture", "--ranks", 1, "--device", "h100", "-o", captured, "--", "python", PROGRAM)
    asked = "select num_ops, op_type from nodes where name = 'aten::_grouped_mm'"
    assert data("query", captured, asked)["rows"] == [[EACH, "matmul"]] * 3

    told = data("info", captured)["compute_ops"]
    assert 3 * EACH < told < 3.2 * EACH  # besides: squares, their sum, gradients, the step

    succeeded("simulate", captured, "--machine", "dgx-h200", "--compute", "h200", "-o", run)
    operators = {o["name"]: o for o in data("analyze", run)["operators"]["operators"]}
    assert operators["aten::_grouped_mm"]["ops"] == 3 * EACH
    assert operators["aten::_grouped_mm"]["count"] == 3
