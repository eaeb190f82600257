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

import numpy as np
import pyarrow.parquet as pq
from claim import need, percent, spread, table

from chakrakit.errors import ChakraError
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.serving import serving_of
from chakrakit.serving.calibration import Constants

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


@functools.cache
def machine(name: str) -> Machine:
    """Each machine once, so that its collectives are simulated once."""
    return load_machine(name)


def serve_row(
    row: dict[str, Any], constants: Constants | None = None, waves: int = WAVES
) -> tuple[float, float]:
    """Mean times to the first token and per output token, in milliseconds, with the burst at the start.

    `constants` replace those of the engine on the row's system.
    """
    model = next(name for part, name in MODELS.items() if part in row["model_path"])
    count = row["concurrency"] * waves
    requests = (
        f"closed{{concurrency={row['concurrency']},n={count},"
        f"prompt=uniform:{0.8 * row['isl']}:{row['isl']},output=uniform:{0.8 * row['osl']}:{row['osl']}}}"
    )
    serving = serving_of(
        model,
        machine(MACHINES[row["system"]]),
        requests,
        row["backend"],
        quantization=quantization(row),
        **layout(row),
    )
    if constants is not None:
        serving.__dict__["constants"] = constants
    done = serving.served().outcome.requests
    output = serving.stream.output
    ttft = (done["first"] - done["arrival"]).mean() * 1e-9
    tpot = ((done["finish"] - done["first"]) / np.maximum(output - 1, 1)).mean() * 1e-9
    return float(ttft), float(tpot)


TITLE = "Serving: published figures at fixed concurrency"
HEADS = ("system", "backend", "rows", "TPOT", "p90", "TTFT", "p90", "bias of TPOT, TTFT")
SAMPLE = 300
"""Rows that a page of accuracy is made from: every second or third of those that were not fitted on."""
TEXT = """\
Aggregated configurations of Llama-3.1, Qwen3-32B and -235B and DeepSeek-V3 and -R1 (AIConfigurator, commit
095f58a, Apache-2.0), each served as a closed loop of its concurrency with one set of constants per system
and backend. The constants were fitted (`benchmarks/fit_serving.py`) on the rows whose id has an even CRC-32;
the rows below are among the others. Errors are absolute, median and 90th percentile; TTFT is compared up to a
concurrency of 16."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    errors, refused, _ = errors_of(str(need(data, "serving", "silicon.parquet")), "odd", SAMPLE)
    lines = []
    for key, pairs in sorted(errors.items(), key=lambda item: item[0] == "all"):
        first, each = np.array(pairs).T
        first = first[~np.isnan(first)]
        system, _, backend = key.partition(" ")
        cells = (*spread(each)[:2], *spread(first)[:2])
        bias = " ".join(percent(float(np.median(x)), True) for x in (each, first) if len(x))
        lines.append([system, backend, len(each), *cells, bias])
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
    for row in rows:
        try:
            ttft, tpot = serve_row(row)
        except ChakraError:
            continue
        first = ttft / row["ttft_ms"] - 1 if row["concurrency"] <= MOST_FOR_TTFT else np.nan
        for key in (f"{row['system']} {row['backend']}", "all"):
            errors[key].append((first, tpot / row["tpot_ms"] - 1))
        said = {n: row[n] for n in ("id", "system", "backend", "concurrency", "ttft_ms", "tpot_ms")}
        lines.append({**said, "ttft": ttft, "tpot": tpot})
    return errors, len(rows) - len(lines), lines


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
        first, each = np.array(pairs).T
        off = f"{np.median(np.abs(each)):6.1%}  TTFT {np.nanmedian(np.abs(first)):6.1%}"
        bias = f"{np.median(each):+.1%}, {np.nanmedian(first):+.1%}"
        print(f"{key:18} {len(each):5} rows  TPOT {off} (bias {bias})")
    print(f"{refused} rows do not fit the stated devices")
    if arguments.dump:
        Path(arguments.dump).write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
