"""Recorded serving runs against `chakrakit.serve`: relative errors of means and 99th percentiles.

    python benchmarks/accuracy/serving_runs.py vllm FOLDER --model M --machine X --tp N [--kv-blocks N]
    python benchmarks/accuracy/serving_runs.py transformers FILE.json.gz… [--machine dgx-h200]

A vLLM folder has workload.jsonl.gz, vllm/requests.jsonl, vllm/meta.json and perf/ (measured layers). Times
count from `queued_ts`, as its source counts them. A file of transformers has the run's own settings.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from claim import need, percent, table

from chakrakit.serving import serve
from chakrakit.serving.results import ServeResult
from chakrakit.workloads.description import Decoder

Truth = dict[str, np.ndarray]
TITLE = "Serving: runs with every request"
VLLM = {
    "rtxpro6000_llama31_8b_tp1": ("llama-3.1-8b", "rtx-pro-6000", 1, 36_578),
    "rtxpro6000_qwen3_32b_tp2": ("qwen3-32b", "rtx-pro-6000-no-peer", 2, 28_614),
}
"""Folder → model, machine, tensor-parallel degree, blocks of cache as the source of the runs assumes them.
The second run's two cards reached each other through the host."""
HEADS = ("run", "figure", "measured mean", "error", "measured p99", "error of p99")
TEXT = """\
vLLM 0.19 on RTX PRO 6000 (LLMServingSim, commit 5daddb2, MIT): layer times were measured on the same
card, the network between two cards is the source's (`rtx-pro-6000-no-peer`), and nothing is fitted.
transformers 5.17 on one H200: attention and copies were measured on the device; the times of the host, of
recording graphs and of the first step are one set of constants fitted on these four runs together, so that
their rows test the scheduler and the model of the device but not of the host. Steps that the
host launches kernel by kernel (without `async`) differ by 10 % between two recordings."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    lines: list[list[str]] = []
    for name, (model, machine, tp, blocks) in VLLM.items():
        folder = need(data, "serving", name)
        settings = argparse.Namespace(model=model, machine=machine, tp=tp, kv_blocks=blocks)
        lines += _lines(name, *vllm(folder, settings))
    need(data, "gpu_serve")
    for file in sorted((data / "gpu_serve").glob("llama*.json.gz")):
        lines += _lines(*transformers(file, "dgx-h200"))
    return "\n\n".join([TEXT, table(HEADS, lines)])


def _lines(name: str, truth: Truth, result: ServeResult) -> list[list[str]]:
    found = []
    for figure, mean, error, last, error_last in compared(truth, result):
        cells = (
            f"{mean:,.1f} ms",
            percent(error, True),
            f"{last:,.1f} ms",
            percent(error_last, True),
        )
        found.append([name, figure, *cells])
    return found


def compared(truth: Truth, result: ServeResult) -> list[tuple[str, float, float, float, float]]:
    """Of each figure the measured mean and 99th percentile, and the relative errors of both."""
    found = []
    for figure, times in truth.items():
        mine = getattr(result, f"{figure}_ms")
        mean, last = float(times.mean()), float(np.percentile(times, 99))
        found.append((figure, mean, mine.mean / mean - 1, last, mine.p99 / last - 1))
    return found


def show(name: str, truth: Truth, result: ServeResult) -> None:
    """One line for each figure."""
    for figure, mean, error, last, error_last in compared(truth, result):
        means = f"mean {mean:9.1f} ms {error:+6.1%}"
        print(f"{name:28} {figure:5} {means}   p99 {last:9.1f} ms {error_last:+6.1%}")


def figures(first: Any, last: Any, start: Any, output: Any) -> dict[str, np.ndarray]:
    """Of stamps in seconds."""
    first, last, start, output = (np.asarray(v, float) for v in (first, last, start, output))
    several = output > 1
    each = (last - first)[several] / (output - 1)[several]
    return {"ttft": (first - start) * 1e3, "tpot": each * 1e3, "e2e": (last - start) * 1e3}


def vllm(folder: Path, arguments: argparse.Namespace) -> tuple[Truth, ServeResult]:
    """A run with its own measured layers."""
    rows = [
        json.loads(line) for line in (folder / "vllm" / "requests.jsonl").read_text().splitlines()
    ]
    options = json.loads((folder / "vllm" / "meta.json").read_text())["engine_kwargs"]
    engine = (
        f"vllm{{max_num_seqs={options['max_num_seqs']},"
        f"max_num_batched_tokens={options['max_num_batched_tokens']}}}"
    )
    result = serve(
        arguments.model,
        arguments.machine,
        str(folder / "workload.jsonl.gz"),
        engine,
        tp=arguments.tp,
        layers=folder / "perf",
        kv_blocks=arguments.kv_blocks,
    )
    columns = ("first_token_ts", "last_token_ts", "queued_ts", "output_toks")
    return figures(*([r[c] for r in rows] for c in columns)), result


def transformers(file: Path, machine: str) -> tuple[str, Truth, ServeResult]:
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
    result = serve(model, machine, str(file), f"transformers{{{options}}}")
    rows = run["requests"]
    truth = figures(
        [r["tokens"][0] for r in rows],
        [r["tokens"][-1] for r in rows],
        [r["sent"] for r in rows],
        [len(r["tokens"]) for r in rows],
    )
    return run["case"], truth, result


def main() -> None:
    """Either kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("vllm", "transformers"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--model", default="llama-3.1-8b")
    parser.add_argument("--machine", default="dgx-h200")
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--kv-blocks", type=int)
    arguments = parser.parse_args()
    for path in arguments.paths:
        if arguments.kind == "vllm":
            show(path.name, *vllm(path, arguments))
        else:
            show(*transformers(path, arguments.machine))


if __name__ == "__main__":
    main()
