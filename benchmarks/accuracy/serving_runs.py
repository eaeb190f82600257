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

from chakrakit.serving import ServeResult, serve
from chakrakit.workloads.description import Decoder


def compare(name: str, truth: dict[str, np.ndarray], result: ServeResult) -> None:
    """One line for each figure."""
    for figure, times in truth.items():
        mine = getattr(result, f"{figure}_ms")
        last = float(np.percentile(times, 99))
        print(
            f"{name:28} {figure:5} mean {times.mean():9.1f} ms {mine.mean / times.mean() - 1:+6.1%}   "
            f"p99 {last:9.1f} ms {mine.p99 / last - 1:+6.1%}"
        )


def figures(first: Any, last: Any, start: Any, output: Any) -> dict[str, np.ndarray]:
    """Of stamps in seconds."""
    first, last, start, output = (np.asarray(v, float) for v in (first, last, start, output))
    several = output > 1
    each = (last - first)[several] / (output - 1)[several]
    return {"ttft": (first - start) * 1e3, "tpot": each * 1e3, "e2e": (last - start) * 1e3}


def vllm(folder: Path, arguments: argparse.Namespace) -> None:
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
    compare(folder.name, figures(*([r[c] for r in rows] for c in columns)), result)


def transformers(file: Path, machine: str) -> None:
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
    compare(run["case"], truth, result)


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
            vllm(path, arguments)
        else:
            transformers(path, arguments.machine)


if __name__ == "__main__":
    main()
