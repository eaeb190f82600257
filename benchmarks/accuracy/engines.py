"""The all-reduce of serving engines: how long it takes, and whether it or NCCL is named as the faster."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from claim import machine_of, need, percent, spread, table
from collectives import MACHINES, measured

import chakrakit as ck

MIB = 1 << 20
TIE = 0.05
"""Two measurements closer than this are the same: repeated ones differ by as much."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    library = {
        (system, r.members, r.size): r.seconds * 1e6
        for name in ("collectives.parquet", "collectives_2_8.parquet")
        for system, rows in measured(need(data, "nccl", name)).items()
        for r in rows
        if r.collective == "all-reduce"
    }
    rows = [
        row
        for name in ("custom_allreduce.parquet", "custom_allreduce_2_8.parquet")
        for row in pq.read_table(need(data, "nccl", name)).to_pylist()
    ]
    lines, named = [], []
    for (card, framework, mode, gpus), part in sorted(_parts(rows).items()):
        own = [r for r in part if r["bytes"] <= _most(r["system"])]
        errors = [_predicted(r) / r["latency_us"] - 1 for r in own]
        right = [_named(r, library) for r in part if (r["system"], gpus, r["bytes"]) in library]
        named += right
        share = percent(sum(right) / len(right)) if right else "–"
        lines.append([card, framework, mode, gpus, len(own), *spread(errors)[:2], share])
    text = f"{TEXT} Correct overall: **{percent(sum(named) / len(named))}** of {len(named):,}."
    return "\n\n".join([text, table(HEADS, lines)])


def _parts(
    rows: list[dict[str, object]],
) -> dict[tuple[str, str, str, int], list[dict[str, object]]]:
    parts = defaultdict(list)
    for row in rows:
        if row["system"] in MACHINES:
            parts[_card(row), row["framework"], row["mode"], row["gpus"]].append(row)
    return parts


def _card(row: dict[str, object]) -> str:
    """The card; H100 and H200 together, whose links are the same."""
    name = str(row["system"]).removesuffix("_sxm").upper()
    return "H100, H200" if name in ("H100", "H200") else name


def _most(system: str) -> int:
    engine = machine_of(MACHINES[system]).library.engine
    return engine.most if engine else 0


def _predicted(row: dict[str, object], kernels: str = "engine") -> float:
    found = ck.collective(
        "all-reduce",
        machine_of(MACHINES[row["system"]]),
        row["gpus"],
        [row["bytes"]],
        kernels=kernels,
        eager=row["mode"] == "eager",
    )
    return found.rows[0].time_us


def _named(row: dict[str, object], library: dict[tuple[str, int, int], float]) -> bool:
    """Whether the faster is the predicted one; above its limit an engine calls the library: a tie."""
    nccl = library[row["system"], row["gpus"], row["bytes"]]
    truth = np.log(row["latency_us"] / nccl)
    said = np.log(_predicted(row) / _predicted(row, "library"))
    return bool(abs(truth) < TIE or (abs(said) < 1e-9 and abs(truth) < 0.2) or truth * said > 0)


HEADS = ("card", "engine", "mode", "GPUs", "rows", "median error", "90 %", "faster one correct")
TITLE = "All-reduce of serving engines"
TEXT = f"""\
The kernels that engines use for small sizes: `custom_allreduce` of the same source (bf16; vLLM, SGLang,
TensorRT-LLM), predicted by `chakra collective all-reduce --kernels engine --machine PRESET`. Constants are
fitted on 2 and 8 GPUs of vLLM and SGLang in CUDA graphs; 4 GPUs, eager launches and TensorRT-LLM are not
fitted. The last column covers the sizes at which NCCL was measured too: how often the faster of the two is
predicted correctly. Measurements within {TIE:.0%} of each other count as a tie. Above
its size limit an engine calls NCCL, which counts as correct within 20 %."""
