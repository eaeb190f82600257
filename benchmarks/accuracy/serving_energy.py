"""Energy of serving: runs recorded with the device's energy counter, and published joules per token."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

from claim import need, percent, table
from serving_runs import transformers

from chakrakit.serving import serve

REQUESTS = "closed{{concurrency={batch},n={count},prompt=300,output=1100}}"
"""Chat of the published rows, whose lengths are not said. With 512 allowed, 8,535 tokens/s at 47.2 ms are
some 425 requests at a time (5 % of the time goes to prompts, as at 256): the cache of 360,000 tokens was
full, so that a request had 850 tokens on average, 300 and half of 1,100."""
ENGINE = "vllm{sampling=sorted}"
"""The benchmark's client asks for top-p 0.95 (ml-energy/benchmark, mlenergy/llm/benchmark.py), vLLM's server
adds the model's top-k, and vLLM 0.11 sorts for them: FlashInfer's sampler became its default later."""
FITTED = ("Qwen3-32B", "8")
"""The row that gave the energy of an H100's memory."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    need(data, "gpu_serve")
    lines = [_recorded(file) for file in sorted((data / "gpu_serve").glob("llama*.json.gz"))]
    with need(data, "energy", "published.csv").open() as rows:
        chat = [r for r in csv.DictReader(rows) if r["batch"] and r["watts"]]
    published = [_published(row) for row in chat]
    return "\n\n".join([TEXT, table(RUNS, lines), PUBLISHED, table(CHAT, published)])


def _recorded(file: Path) -> list[str]:
    run = json.loads(gzip.decompress(file.read_bytes()))
    name, _, result = transformers(file, "dgx-h200")
    error = result.energy_joules / run["energy_j"] - 1
    return [name, f"{run['energy_j']:,.0f}", percent(error, signed=True)]


def _published(row: dict[str, str]) -> list[str]:
    batch = int(row["batch"])
    requests = REQUESTS.format(batch=batch, count=4 * batch)
    result = serve(row["model"].lower(), "dgx-h100", requests, ENGINE, seed=0)
    watts = result.energy_joules / result.duration_s
    joules = float(row["joules_per_token"])
    fitted = "yes" if (row["model"], row["batch"]) == FITTED else ""
    cells = [
        row["model"],
        row["batch"],
        fitted,
        row["watts"],
        percent(watts / float(row["watts"]) - 1, True),
    ]
    return [*cells, f"{joules:.3f}", percent(result.joules_per_token / joules - 1, True)]


RUNS = ("run", "energy J", "error")
CHAT = ("model", "concurrent", "fitted", "board W", "error", "joules per output token", "error")
TITLE = "Energy of serving"
TEXT = """\
Continuous batching of transformers 5.17 on one H200, measured by its energy counter, served as `chakra serve
--machine dgx-h200 --engine transformers` does. Nothing is fitted: the constants are those of the operators
above. This engine masks attention of all tokens of a step with all of its context, filled up to multiples
(`padding`), and copies keys and values for it: every padded shape counts as often as it was used. Copies
draw the power of vector units where memory does not limit them; masked attention is charged by the FLOP, as
attention is in a trace. It was charged as vector units before, and these rows showed that it was too much."""
PUBLISHED = """\
vLLM on one H100 (ml-energy/leaderboard, commit 0cd52da, `lm-arena-chat`), served as `chakra serve --machine
dgx-h100 --engine 'vllm{sampling=sorted}'` does: the benchmark's client asks for top-p, for which that version
of vLLM sorts the logits. The table does not give the lengths of requests: a closed loop at the batch
limit with 300 tokens in and 1,100 out is assumed, which the published rates say of the row whose cache is
full. An H100 has the chip of the H200 and an older memory, whose energy per byte (`memory_pj`) is fitted on
the row marked "yes"; with the H200's the other rows' power is 10 to 19 % too low. What sorting takes comes
from the profile and is not fitted; without it steps of 64 and 256 requests come out 9 and 11 % faster, and
their joules per token 8 and 10 % lower."""
