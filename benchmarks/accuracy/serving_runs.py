"""Recorded serving runs: latencies and energy against what `chakra serve` says of the same requests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from claim import need, percent, table

from chakrakit.serving import ServeResult, serve
from chakrakit.workloads.description import Decoder

VLLM = (
    ("rtxpro6000_llama31_8b_tp1", "llama-3.1-8b", 1, 36578),
    ("rtxpro6000_qwen3_32b_tp2", "qwen3-32b", 2, 28614),
)
"""Folder, model, tensor-parallel degree and blocks of cache, which the source assumes."""
FIGURES = ("ttft", "tpot", "e2e")


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    lines = [_vllm(need(data, "serving", folder), *rest) for folder, *rest in VLLM]
    files = sorted(need(data, "gpu_serve").glob("*.json.gz"))
    lines += [_transformers(file) for file in files]
    return "\n\n".join([TEXT, table(HEADS, lines)])


def _times(first: Any, last: Any, start: Any, output: Any) -> dict[str, np.ndarray]:
    """Milliseconds, of stamps in seconds."""
    first, last, start, output = (np.asarray(v, float) for v in (first, last, start, output))
    several = output > 1
    each = (last - first)[several] / (output - 1)[several]
    return {"ttft": (first - start) * 1e3, "tpot": each * 1e3, "e2e": (last - start) * 1e3}


def _line(
    name: str, truth: dict[str, np.ndarray], result: ServeResult, joules: float = 0.0
) -> list[str]:
    """Errors of means, and of the 99th percentile of the latency."""
    cells = [name]
    for figure in FIGURES:
        mean = float(truth[figure].mean())
        cells.append(f"{mean:,.1f}")
        cells.append(percent(getattr(result, f"{figure}_ms").mean / mean - 1, signed=True))
    last = float(np.percentile(truth["e2e"], 99))
    cells.append(percent(result.e2e_ms.p99 / last - 1, signed=True))
    if not joules:
        return [*cells, "not recorded", "–"]
    return [*cells, f"{joules:,.0f}", percent(result.energy_joules / joules - 1, signed=True)]


def _vllm(folder: Path, model: str, tp: int, blocks: int) -> list[str]:
    """A run with its own measured layers."""
    lines = (folder / "vllm" / "requests.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    options = json.loads((folder / "vllm" / "meta.json").read_text())["engine_kwargs"]
    names = ("max_num_seqs", "max_num_batched_tokens")
    engine = ",".join(f"{name}={options[name]}" for name in names)
    result = serve(
        model,
        "rtx-pro-6000",
        str(folder / "workload.jsonl.gz"),
        f"vllm{{{engine}}}",
        tp=tp,
        layers=folder / "perf",
        kv_blocks=blocks,
    )
    columns = ("first_token_ts", "last_token_ts", "queued_ts", "output_toks")
    return _line(folder.name, _times(*([r[c] for r in rows] for c in columns)), result)


def _transformers(file: Path) -> list[str]:
    """A run of continuous batching, as its file describes it."""
    run = json.loads(gzip.decompress(file.read_bytes()))
    m = run["model"]
    model = Decoder(
        name=run["spec"]["model"],
        layers=m["num_hidden_layers"],
        hidden=m["hidden_size"],
        heads=m["num_attention_heads"],
        kv_heads=m["num_key_value_heads"],
        ffn=m["intermediate_size"],
        vocab=m["vocab_size"],
    )
    options = ",".join(f"{k}={str(v).lower()}" for k, v in run["spec"]["cfg"].items())
    result = serve(model, "dgx-h200", str(file), f"transformers{{{options}}}")
    tokens = [r["tokens"] for r in run["requests"]]
    truth = _times(
        [t[0] for t in tokens],
        [t[-1] for t in tokens],
        [r["sent"] for r in run["requests"]],
        [len(t) for t in tokens],
    )
    return _line(run["case"], truth, result, run["energy_j"])


HEADS = (
    "run",
    "TTFT ms",
    "error",
    "TPOT ms",
    "error",
    "latency ms",
    "error",
    "99th percentile",
    "energy J",
    "error",
)
TITLE = "Recorded serving runs"
TEXT = """\
vLLM 0.19 on RTX PRO 6000 (casys-kaist/LLMServingSim 5daddb2; 300 ShareGPT requests at 10 per second, layers
measured by the source, nothing fitted, means over requests) and continuous batching of transformers 5.17 on
one H200, with CUDA graphs (`async`) and without. For transformers, attention was measured there; the host's
time per step, eager launches and graph capture are fitted on these four runs. Energy is not fitted; it counts
the work of the model, and not the copies of masks and caches that this engine makes around attention."""
