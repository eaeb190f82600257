"""Drawing tokens from sorted logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ChakraError
from chakrakit.serving.steps import SortedSampling
from support.foreign_files import write_layer_tables


def test_without_a_profile_all_bytes_pass_the_memory_once(machine) -> None:
    """196 bytes for each of 1,000 logits: 96 of the sort, 8 of the running sums and 92 of the rest."""
    device = machine(peak={"bf16": 1e12}, memory_bandwidth=1e9).devices[0]
    sampling = SortedSampling(1000, device)
    assert sampling.moved(2) == 2 * 1000 * 196
    assert sampling.seconds(np.array([0.0, 1.0, 2.0])) == pytest.approx([0, 196e-6, 392e-6])


def test_measured_layers_contain_how_tokens_were_drawn(tmp_path: Path) -> None:
    folder = write_layer_tables(tmp_path / "perf")
    with pytest.raises(ChakraError, match="sampling=sorted adds computed times"):
        ck.serve(
            "llama-3.1-8b",
            "dgx-h100",
            "closed{n=1}",
            "vllm{sampling=sorted}",
            layers=folder,
            kv_blocks=1000,
        )
