"""Published serving figures at fixed concurrency: median errors by system and backend.

    python benchmarks/accuracy/serving_silicon.py FILE.parquet [--half even|odd|all] [--limit N]

Rows are those of aggregated configurations of the models below; each is served as a closed loop of its
concurrency. `--half` chooses rows by the parity of the CRC-32 of their id: constants were fitted on
the even ones.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
from claim import each, kept, need, percent, spread, table

from chakrakit.errors import ChakraError
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.serving import serving_of
from chakrakit.serving.calibration import Constants
from chakrakit.serving.session import ServingSession

MODELS = {
    "Llama-3.1-70B": "llama-3.1-70b",
    "Llama-3.1-8B": "llama-3.1-8b",
    "Qwen3-32B": "qwen3-32b",
    "Qwen3-235B": "qwen3-235b-a22b",
    "DeepSeek-V3": "deepseek-v3",
    "DeepSeek-R1": "deepseek-v3",
}
MACHINES = {"h100_sxm": "dgx-h100", "h200_sxm": "dgx-h200", "b200_sxm": "dgx-b200"}
WAVES = 10
"""Requests of a run, as a multiple of its concurrency: what InferenceMAX sends (its scripts' `CONC * 10`)."""
SPECULATIVE = ("2026-01-14", "2026-02-05", "2026-02-06")
"""Days on which DeepSeek ran on TensorRT-LLM with speculative decoding: not a column of the table, but these
runs alone take 30 to 50 % less time per token than others of their configuration, and each day is of one
kind. The scripts of InferenceMAX have three drafts, and one where attention is data-parallel."""
COMPILING = "2025-11-10"
"""From 16 requests on, first tokens of this day alone took 5 to 12 seconds."""
ACCEPTANCE = 0.64
"""Share of drafts that are accepted: of 0.62 to 0.74 the one with which the time per token of the even half
of those runs is least off (11 % in the median, 3 % too fast)."""


def rows_of(path: str, half: str) -> list[dict[str, Any]]:
    """Aggregated rows of known models and systems. A run that the table has twice counts once.

    Its half is that of the first of its ids, so that no run is in both.
    """
    runs: dict[tuple[float, float], dict[str, Any]] = {}
    for row in sorted(pq.read_table(path).to_pylist(), key=lambda row: str(row["id"])):
        known = any(m in row["model_path"] for m in MODELS) and row["system"] in MACHINES
        if known and row["mode"] == "agg" and row["concurrency"]:
            runs.setdefault((row["ttft_ms"], row["tpot_ms"]), row)
    return [row for row in runs.values() if half in ("all", half_of(row))]


def half_of(row: dict[str, Any]) -> str:
    """`even`, which constants were fitted on, or `odd`."""
    return "odd" if zlib.crc32(row["id"].encode()) % 2 else "even"


def by_inferencemax(row: dict[str, Any]) -> bool:
    """Whether InferenceMAX measured a row; else AIConfigurator's authors, with requests of equal lengths."""
    return not str(row["origin"]).startswith("gap")


def is_speculative(row: dict[str, Any]) -> bool:
    """Whether a run must have decoded speculatively."""
    deepseek = row["backend"] == "trtllm" and "DeepSeek" in row["model_path"]
    return deepseek and str(row["measured"]) in SPECULATIVE


def is_compiling(row: dict[str, Any]) -> bool:
    """Whether a run was of the day on which SGLang compiled kernels while it was measured."""
    return row["backend"] == "sglang" and str(row["measured"]) == COMPILING


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


def requests_of(row: dict[str, Any], waves: int = WAVES) -> str:
    """The closed loop of a row: InferenceMAX draws lengths between 80 and 100 % of the stated ones."""
    lengths = {"prompt": row["isl"], "output": row["osl"]}
    if by_inferencemax(row):
        texts = {name: f"uniform:{0.8 * n:g}:{n}" for name, n in lengths.items()}
    else:
        texts = {name: str(n) for name, n in lengths.items()}
    count = row["concurrency"] * waves
    parts = ",".join(f"{name}={text}" for name, text in texts.items())
    return f"closed{{concurrency={row['concurrency']},n={count},{parts}}}"


def engine_of(row: dict[str, Any]) -> str:
    """The engine with the options of the scripts that started it."""
    options = _by_inferencemax(row) if by_inferencemax(row) else _by_aiconfigurator(row)
    text = ",".join(f"{name}={value}" for name, value in options.items())
    return f"{row['backend']}{{{text}}}" if text else row["backend"]


def _by_inferencemax(row: dict[str, Any]) -> dict[str, Any]:
    """The options of its scripts, by engine, model, system and day."""
    if row["backend"] == "vllm":
        return {"kv_cache_dtype": "fp8"} if quantization(row) else {}
    if row["backend"] == "sglang":
        return _sglang(row)
    options = {"enable_block_reuse": "false", "enable_chunked_prefill": "false"}
    if quantization(row):
        options["kv_cache_dtype"] = "fp8"
    if is_speculative(row):
        return options | _trtllm_drafting(row)
    return options | (
        _trtllm_deepseek(row) if "DeepSeek" in row["model_path"] else _trtllm_llama(row)
    )


def _sglang(row: dict[str, Any]) -> dict[str, Any]:
    """Whole prompts and a limit of requests; on B200 an 8-bit cache and a queue looked at now and then."""
    short = row["isl"] == row["osl"] == 1024
    options = {
        "chunked_prefill_size": 32768,
        "max_prefill_tokens": 32768,
        "mem_fraction_static": 0.82,
        "disable_radix_cache": "true",
        "max_running_requests": 512 if short else 256,
    }
    if row["system"] == "b200_sxm":
        interval = 30 if row["concurrency"] >= 16 else 10
        options |= {"kv_cache_dtype": "fp8_e4m3", "scheduler_recv_interval": interval}
        del options["max_running_requests"]  # as many as the concurrency
    return options


def _trtllm_llama(row: dict[str, Any]) -> dict[str, Any]:
    """16,384 tokens in a step; with as many tokens out as in, prompts wait for each other below TP 8."""
    options: dict[str, Any] = {"max_num_tokens": 16384}
    if row["isl"] == row["osl"] == 1024 and layout(row)["tp"] < 8:
        options |= {"batch_wait_timeout_iters": 20, "batch_wait_max_tokens_ratio": 0.9}
    return options


def _trtllm_deepseek(row: dict[str, Any]) -> dict[str, Any]:
    """One prompt in a step, since 2026 on B200 8,192 tokens; ranks start their prompts together."""
    most = (row["concurrency"] + row["isl"] + 127) // 64 * 64
    options: dict[str, Any] = {"free_gpu_memory_fraction": 0.8}
    newer = row["system"] == "b200_sxm" and str(row["measured"]) >= "2026-01-20"
    short = row["isl"] == row["osl"] == 1024 and row["concurrency"] >= 64
    if newer and short and quantization(row) == "fp8":
        options |= {"batch_wait_timeout_iters": 40, "batch_wait_max_tokens_ratio": 0.8}
    if layout(row)["dp"] > 1:
        options |= {"enable_balance": "true", "timeout_iters": 60}
    return options | {"max_num_tokens": max(8192, most) if newer else most}


def _trtllm_drafting(row: dict[str, Any]) -> dict[str, Any]:
    """One prompt in a step beside all tokens that decoding requests may draft; nothing gathers.

    From the scripts dsr1_fp4_b200_trt_mtp, dsr1_fp8_b200_trt_mtp and dsr1_fp8_h200_trt_mtp. With fewer tokens
    in a step, as without drafts, prompts would wait until most of the others have ended.
    """
    parallel = layout(row)["dp"] > 1
    drafts, ranks = (1, 4 if quantization(row) == "fp4" else 8) if parallel else (3, 1)
    batch = max(1, row["concurrency"] // ranks)
    options: dict[str, Any] = {"max_draft_len": drafts, "acceptance": ACCEPTANCE}
    options["max_num_tokens"] = ((drafts + 1) * batch + row["isl"] + 127) // 64 * 64
    if parallel:
        options |= {"enable_balance": "true", "timeout_iters": 60}
    return options | {"max_batch_size": batch, "free_gpu_memory_fraction": 0.8}


def _by_aiconfigurator(row: dict[str, Any]) -> dict[str, Any]:
    """AIConfigurator's own rule: tokens for all requests, one prompt and 1,500 more."""
    most = row["concurrency"] + row["isl"] + 1500
    if row["backend"] == "vllm":
        # Version 0.12, before steps were formed ahead by default.
        return {"max_num_batched_tokens": most, "async_scheduling": "false"}
    if row["backend"] == "trtllm":
        options: dict[str, Any] = {"max_num_tokens": most, "enable_chunked_prefill": "false"}
        return options | ({"kv_cache_dtype": "fp8"} if quantization(row) else {})
    return {}


@functools.cache
def machine(name: str) -> Machine:
    """Each machine once, so that its collectives are simulated once."""
    return load_machine(name)


def session_of(row: dict[str, Any], waves: int = WAVES) -> ServingSession:
    """The session that serves a row as `chakra serve` does."""
    model = next(name for part, name in MODELS.items() if part in row["model_path"])
    return serving_of(
        model,
        machine(MACHINES[row["system"]]),
        requests_of(row, waves),
        engine_of(row),
        quantization=quantization(row),
        **layout(row),
    )


def serve_row(
    row: dict[str, Any], constants: Constants | None = None, waves: int = WAVES
) -> tuple[float, float]:
    """Mean times to the first token and per output token, in milliseconds, with the burst at the start.

    `constants` replace those of the engine on the row's system.
    """
    serving = session_of(row, waves)
    if constants is not None:
        fitted = serving.fitted
        assert fitted is not None
        serving.__dict__["fitted"] = msgspec.structs.replace(fitted, constants=constants)
    done = serving.served().outcome.requests
    output = serving.stream.output
    ttft = (done["first"] - done["arrival"]).mean() * 1e-9
    tpot = ((done["finish"] - done["first"]) / np.maximum(output - 1, 1)).mean() * 1e-9
    return float(ttft), float(tpot)


TITLE = "Serving: published figures at fixed concurrency"
HEADS = ("system", "backend", "rows", "TPOT", "p90", "TTFT", "p90", "bias of TPOT, TTFT")
TEXT = """\
Aggregated configurations of Llama-3.1, Qwen3-32B and -235B and DeepSeek-V3 and -R1 (AIConfigurator, commit
095f58a, Apache-2.0), each served as a closed loop of its concurrency, ten requests for each client, with one
set of constants per system and backend, none of them worse than on an older system. Lengths, token budgets,
caches and rules of when prompts start are
those of the scripts that measured the rows: InferenceMAX draws lengths from 80 to 100 %, lets prompts of
TensorRT-LLM gather and wait for other ranks, and lets SGLang on B200 look at its queue every 10 or 30 steps;
AIConfigurator's own runs have equal lengths. The constants were fitted (`benchmarks/fit_serving.py`) on the
runs whose id has an even CRC-32; all rows below are of the others, and a run that the table has twice counts
once. DeepSeek on TensorRT-LLM decoded speculatively on three days, which is no column of the table but shows
in the times; those runs are served with the drafts and the token budgets of the scripts for them and one
acceptance, set on the even half.
Errors are absolute, median and 90th percentile, at any concurrency. Some times to the first token cannot be
predicted from the table: SGLang compiled kernels while it was measured on one day (5 to 12 s; not fitted,
but counted here), and on H200 it served Llama 8B without the burst that a closed loop begins with."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    errors, refused, _ = errors_of(str(need(data, "serving", "silicon.parquet")), "odd", 0)
    lines = []
    for key, pairs in sorted(errors.items(), key=lambda item: ("_" not in item[0], item[0])):
        first, later = np.array(pairs).T
        system, _, backend = key.partition(" ") if "_" in key else (f"**{key}**", "", "")
        cells = (*spread(later)[:2], *spread(first)[:2])
        bias = " ".join(percent(float(np.median(x)), True) for x in (later, first) if len(x))
        lines.append([system, backend, len(later), *cells, bias])
    left = f"{refused} rows are left out: their weights do not fit the stated devices."
    return "\n\n".join([f"{TEXT} {left}", table(HEADS, lines)])


Errors = dict[str, list[tuple[float, float]]]


def errors_of(path: str, half: str, limit: int) -> tuple[Errors, int, list[dict[str, Any]]]:
    """Relative errors of TTFT and TPOT by system and backend, rows that cannot be, and all figures."""
    rows = rows_of(path, half)
    if limit:
        rows = rows[:: max(1, len(rows) // limit)]
    errors: Errors = collections.defaultdict(list)
    lines = []
    served = kept(f"silicon_{half}_{limit}", lambda: each(_served, rows))
    for row, figures in zip(rows, served, strict=True):
        if figures is None:
            continue
        ttft, tpot = figures
        error = (ttft / row["ttft_ms"] - 1, tpot / row["tpot_ms"] - 1)
        kind = "speculative" if is_speculative(row) else "all but speculative"
        for key in (f"{row['system']} {row['backend']}", kind, "all"):
            errors[key].append(error)
        said = {n: row[n] for n in ("id", "system", "backend", "concurrency", "ttft_ms", "tpot_ms")}
        lines.append({**said, "ttft": ttft, "tpot": tpot})
    return errors, len(rows) - len(lines), lines


def _served(row: dict[str, Any]) -> tuple[float, float] | None:
    """TTFT and TPOT in ms; None where the row cannot be."""
    try:
        return serve_row(row)
    except ChakraError:
        return None


def main() -> None:
    """One line per system and backend, then all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--half", choices=("even", "odd", "all"), default="odd")
    parser.add_argument(
        "--limit", type=int, default=0, help="only every so many rows, to this number"
    )
    parser.add_argument("--dump", help="write every row's figures as JSON lines")
    arguments = parser.parse_args()
    errors, refused, lines = errors_of(arguments.path, arguments.half, arguments.limit)
    for key, pairs in sorted(errors.items()):
        first, later = np.array(pairs).T
        off = f"{np.median(np.abs(later)):6.1%}  TTFT {np.median(np.abs(first)):6.1%}"
        bias = f"{np.median(later):+.1%}, {np.median(first):+.1%}"
        print(f"{key:18} {len(later):5} rows  TPOT {off} (bias {bias})")
    print(f"{refused} rows do not fit the stated devices")
    if arguments.dump:
        Path(arguments.dump).write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
