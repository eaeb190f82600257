"""Published serving figures at fixed concurrency, of rows that no constant was fitted on."""

from __future__ import annotations

import collections
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from claim import machine_of, need, spread, table

from chakrakit.errors import ChakraError
from chakrakit.serving import serving_of
from chakrakit.serving.results import ServiceLevel

MODELS = {
    "Llama-3.1-70B": "llama-3.1-70b",
    "Llama-3.1-8B": "llama-3.1-8b",
    "Qwen3-32B": "qwen3-32b",
    "Qwen3-235B": "qwen3-235b-a22b",
    "DeepSeek-V3": "deepseek-v3",
    "DeepSeek-R1": "deepseek-v3",
}
MACHINES = {"h100_sxm": "dgx-h100", "h200_sxm": "dgx-h200", "b200_sxm": "dgx-b200"}
WAVES = 5
"""Requests of a run, as a multiple of its concurrency."""
MOST_FOR_TTFT = 16


def rows_of(path: str, half: str) -> list[dict[str, Any]]:
    """Aggregated rows of known models and systems, each figure once."""
    found: dict[tuple[float, float], dict[str, Any]] = {}
    for row in pq.read_table(path).to_pylist():
        known = any(m in row["model_path"] for m in MODELS) and row["system"] in MACHINES
        if not known or row["mode"] != "agg" or not row["concurrency"]:
            continue
        parity = "odd" if zlib.crc32(row["id"].encode()) % 2 else "even"
        if half in ("all", parity):
            found.setdefault((row["ttft_ms"], row["tpot_ms"]), row)
    return list(found.values())


def layout(row: dict[str, Any]) -> dict[str, int]:
    """Degrees. Sizes above a node are products of two of them, as the table has them."""
    tp, dp = row["tp_size"] or 1, row["attention_dp_size"] or 1
    ep, moe_tp = row["moe_ep_size"] or 1, row["moe_tp_size"] or 1
    if tp > 8:
        tp = max(moe_tp, ep)
    if dp > 8:
        dp = ep
    return {"tp": tp, "dp": dp, "ep": dp if dp > 1 and ep > 1 else 1}


def quantization(row: dict[str, Any]) -> str:
    """Of the matmuls."""
    kind = row["gemm_quant_mode"] or ""
    return "fp4" if "fp4" in kind else "fp8" if "fp8" in kind else ""


def served(row: dict[str, Any]) -> tuple[float, float]:
    """Mean times to the first token and per output token, in milliseconds, with the burst at the start."""
    model = next(name for part, name in MODELS.items() if part in row["model_path"])
    count = row["concurrency"] * WAVES
    requests = (
        f"closed{{concurrency={row['concurrency']},n={count},"
        f"prompt=uniform:{0.8 * row['isl']}:{row['isl']},output=uniform:{0.8 * row['osl']}:{row['osl']}}}"
    )
    serving = serving_of(
        model,
        machine_of(MACHINES[row["system"]]),
        requests,
        row["backend"],
        quantization=quantization(row),
        **layout(row),
    )
    done = serving.served(ServiceLevel()).outcome.requests
    output = serving.stream.output
    ttft = (done["first"] - done["arrival"]).mean() * 1e-9
    tpot = ((done["finish"] - done["first"]) / np.maximum(output - 1, 1)).mean() * 1e-9
    return float(ttft), float(tpot)


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    rows = rows_of(str(need(data, "serving", "silicon.parquet")), "odd")
    rows = rows[:: max(1, len(rows) // SAMPLED)]
    errors: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
    refused = 0
    for row in rows:
        try:
            ttft, tpot = served(row)
        except ChakraError:
            refused += 1
            continue
        first = ttft / row["ttft_ms"] - 1 if row["concurrency"] <= MOST_FOR_TTFT else np.nan
        for key in (f"{row['system']} {row['backend']}", "all"):
            errors[key].append((first, tpot / row["tpot_ms"] - 1))
    lines = []
    for key, pairs in sorted(errors.items(), key=lambda item: (item[0] == "all", item[0])):
        first, each = np.array(pairs).T
        early = first[~np.isnan(first)]
        lines.append((key, len(each), *spread(each)[:2], len(early), *spread(early)[:2]))
    left = (
        f" {refused} rows do not fit their devices by our account and are left out."
        if refused
        else ""
    )
    return "\n\n".join([TEXT + left, table(HEADS, lines)])


SAMPLED = 160
"""Rows that are served, about."""
HEADS = (
    "system, engine",
    "rows",
    "TPOT: median error",
    "90 %",
    "rows",
    "TTFT: median error",
    "90 %",
)
TITLE = "Published serving figures"
TEXT = f"""\
Rows of ai-dynamo/aiconfigurator 095f58a (vLLM, SGLang, TensorRT-LLM on H100, H200 and B200; aggregated
engines) whose models `chakra models` has, each served as a closed loop of its concurrency, {WAVES} waves.
Constants of engines on devices were fitted on rows whose id has an even CRC-32; these have an odd one and are
sampled evenly. TTFT only up to {MOST_FOR_TTFT} concurrent requests: above, it is the queue of the
burst at the start."""
