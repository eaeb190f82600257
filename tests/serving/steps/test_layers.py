"""Measured layers: tables told by their columns, grids filled, times between what was measured."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.errors import ChakraError
from chakrakit.serving.steps import read_layers
from support.foreign_files import write_layer_tables


def test_a_step_is_the_sum_of_its_layers(tmp_path: Path) -> None:
    """One request: two norms and a projection in each of 32 layers, attention, and once the ends."""
    folder = write_layer_tables(tmp_path / "perf")
    done = ck.serve(
        "llama-3.1-8b",
        "dgx-h100",
        "closed{n=1,prompt=100,output=1}",
        "vllm{enforce_eager=true}",
        layers=folder,
        kv_blocks=1000,
    )
    dense = (2 + 3 * 32) * (10 + 100)
    assert done.ttft_ms.mean * 1e3 == pytest.approx(dense + 100 + 32 * 5, rel=1e-6)


def test_any_table_of_the_folder_means_the_folder(tmp_path: Path) -> None:
    """Names do not matter; a file stands for those beside it."""
    folder = write_layer_tables(tmp_path / "perf")
    (folder / "z.csv").write_text("something,else\n1,2\n")
    layers = read_layers(folder / "c.csv")
    assert set(layers.dense) == {"embedding", "layernorm", "qkv_proj", "final_layernorm"}
    assert layers.ignored == ["z.csv"]


def test_experts_without_a_table_are_refused(tmp_path: Path) -> None:
    """A model with experts needs times by tokens and activated experts."""
    folder = write_layer_tables(tmp_path / "perf")
    with pytest.raises(ChakraError, match="no table has activated_experts"):
        ck.serve("mixtral-8x7b", "dgx-h100", "closed{n=1}", layers=folder, kv_blocks=1000)


def test_experts_are_read_off_their_surface(tmp_path: Path) -> None:
    """100 us and 10 us for each expert that is met, whatever the tokens."""
    folder = write_layer_tables(tmp_path / "perf")
    rows = ["tokens,activated_experts,time_us"]
    rows += [f"{t},{e},{100 + 10 * e}" for t, e in product((1, 1000), (1, 8))]
    (folder / "moe.csv").write_text("\n".join(rows))
    settings = {"layers": folder, "kv_blocks": 1000}
    done = ck.serve(
        "mixtral-8x7b", "dgx-h100", "closed{n=1,prompt=900,output=1}", "vllm", **settings
    )
    dense = (2 + 3 * 32) * (10 + 900)
    assert done.ttft_ms.mean * 1e3 == pytest.approx(dense + 100 + 32 * (5 + 180), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.csv", "x,y\n1,2\n", "no table of attention layers"),
        ("a.csv", "layer,tokens,time_us\nqkv,1,-3\n", "line 2: time_us is -3"),
        (
            "d.csv",
            "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,3\n",
            "a second table",
        ),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    """With the file and the line."""
    folder = write_layer_tables(tmp_path / "perf")
    (folder / name).write_text(text)
    with pytest.raises(ChakraError, match=message):
        read_layers(folder)
