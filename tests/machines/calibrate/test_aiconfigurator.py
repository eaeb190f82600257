"""Tables as AIConfigurator's collectors write them become a profile, and a library's constants."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chakrakit as ck
from chakrakit.errors import ChakraError
from chakrakit.machines.device import work_model
from chakrakit.operators import gemm_operation
from support.commands import succeeded
from support.foreign_files import NCCL_PERF, attention_perf, gemm_perf


def gemm_us(m: int, n: int, k: int) -> float:
    """A device that was made up: 3 µs, 500 TFLOP/s and 3 TB/s."""
    return 3 + max(2 * m * n * k / 5e8, 2 * (m * k + k * n + m * n) / 3e6)


def test_a_folder_of_tables_is_a_profile(tmp_path: Path) -> None:
    """Products in Parquet, attention in CSV; a size between the measured ones is read off between them."""
    folder = tmp_path / "0.24.0"
    folder.mkdir()
    sizes = [1 << i for i in range(5, 14)]
    shapes = [(m, n, k) for m in sizes for n in sizes[3:] for k in sizes[3:]]
    columns = {name: [s[i] for s in shapes] for i, name in enumerate(("m", "n", "k"))}
    pq.write_table(
        pa.table(
            {**columns, "latency": [gemm_us(*s) / 1e3 for s in shapes],
             "gemm_dtype": ["bfloat16"] * len(shapes), "device": ["NVIDIA H100"] * len(shapes)}
        ),
        folder / "gemm_perf.parquet",
    )  # fmt: skip
    (folder / "context_attention_perf.txt").write_text(attention_perf("context"))
    (folder / "generation_attention_perf.csv").write_text(attention_perf("generation"))
    (folder / "collection_meta.json").write_text("{}")
    report = ck.calibrate(folder, output=tmp_path / "p.json")
    assert {c.operation for c in report.classes} == {
        "gemm.nt", "attention.cudnn.causal", "attention.cudnn.causal.grouped", "decode.cudnn",
    }  # fmt: skip
    model = work_model(str(tmp_path / "p.json"))
    predicted = model.predict(gemm_operation(700, 3000, 5000)._replace(table="gemm.nt"))
    assert predicted.us == pytest.approx(gemm_us(700, 3000, 5000), rel=0.1)
    profile = json.loads((tmp_path / "p.json").read_text())
    assert profile["device"] == "NVIDIA H100"
    [decode] = [
        r for r in profile["classes"]["decode.cudnn"] if r["shape"] == [8 * 4, 4, 1025, 128]
    ]
    assert decode["us"] == pytest.approx(25.0)
    assert decode["bytes"] == 4 * 128 * (32 * 1025 + 8 * 16)
    [prefill] = profile["classes"]["attention.cudnn.causal.grouped"]
    assert prefill["shape"] == [8 * 16, 1024, 1024, 128]
    assert prefill["flops"] == 2 * 8 * 16 * 1024**2 * 128


def test_what_no_class_stands_for_is_counted_and_named(tmp_path: Path) -> None:
    table = tmp_path / "gemm_perf.txt"
    table.write_text(gemm_perf(("bfloat16", "fp8_block", "fp8_block", "fp8")))
    said = succeeded("calibrate", str(table), "-o", str(tmp_path / "p.json"))
    assert "left out: 2 rows of gemm_perf.txt: products of fp8_block" in said
    assert set(json.loads((tmp_path / "p.json").read_text())["classes"]) == {"gemm.nt", "gemm.8.nt"}
    windows = tmp_path / "a.csv"
    windows.write_text(attention_perf("context", window=128))
    with pytest.raises(ChakraError, match="nothing to fit"):
        ck.calibrate(windows, output=tmp_path / "q.json")


def test_a_model_is_simulated_by_such_a_profile(tmp_path: Path) -> None:
    """Every product takes 1 ms: the step is made of them."""
    table = tmp_path / "gemm_perf.csv"
    table.write_text(gemm_perf(("bfloat16",) * 6, latency=1.0))
    ck.calibrate(table, output=tmp_path / "p.json")
    traces = ck.generate(model="gpt3-125m", layers=2, seq=512, global_batch=1).traces
    slow = ck.simulate(traces, "dgx-h100", compute=str(tmp_path / "p.json")).summary
    usual = ck.simulate(traces, "dgx-h100").summary
    assert slow.makespan_ns > 5 * usual.makespan_ns


@pytest.mark.slow
def test_sizes_of_collectives_count_elements(tmp_path: Path) -> None:
    """The same figures as a table of ours, which counts bytes, and from a log of 16-bit elements."""
    theirs, ours = tmp_path / "nccl_perf.txt", tmp_path / "t.csv"
    theirs.write_text(NCCL_PERF)
    rows = [line.split(",") for line in NCCL_PERF.splitlines()[1:] if line.startswith("half")]
    lines = [f"{r[4]},{r[1]},{2 * int(r[2])},{r[5]}" for r in rows]
    ours.write_text("\n".join(["collective,members,bytes,time_ms", *lines]))
    reports = [
        ck.calibrate(source, output=tmp_path / f"{i}.json", collectives=True, machine="dgx-h100")
        for i, source in enumerate((theirs, ours))
    ]
    assert reports[0].collectives == reports[1].collectives
    assert (tmp_path / "0.json").read_text() == (tmp_path / "1.json").read_text()


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (gemm_perf(("bfloat16",), latency=-1), {}, "row 1: a latency of -1"),
        (gemm_perf(("bfloat16",)).replace("64", "-64"), {}, "row 1: m is -64"),
        (gemm_perf(("bfloat16",)), {"collectives": True}, "by 'gemm_dtype' has no collectives"),
        (NCCL_PERF.replace("all_reduce", "all_sing"), {"collectives": True}, "'all_sing' is not"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(
    tmp_path: Path, text: str, options: dict[str, bool], said: str
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(text)
    with pytest.raises(ChakraError, match=said):
        ck.calibrate(table, output=tmp_path / "p.json", machine="dgx-h100", **options)
