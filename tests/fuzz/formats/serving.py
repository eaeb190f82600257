"""Request files and tables of measured layers for `chakra serve`, and exported replays."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.fuzz_format import Format
from fuzz.mutation import (
    Mutate,
    gzipped,
    mutate_csv,
    mutate_json,
    mutate_json_lines,
    mutate_parquet,
    mutate_yaml,
)
from fuzz.near_valid import mutate_settings
from support.foreign_files import BENCH, RECORDED, SESSION, write_layer_tables
from support.foreign_workloads import (
    AIPERF,
    BLIS,
    BLIS_TRACE,
    DYNAMO,
    GUIDELLM,
    OTEL,
    SERVEGEN,
    SERVEGEN_LENGTHS,
)
from support.recorded import ADD, Sheet, plain, tensor

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,48,10\n2023-11-16 18:17:04.0319600,31,8\n"
)
BURST = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,47,18,65,Conversation log\n45.5,ChatGPT,10,0,10,API log\n118,GPT-4,41,6,47,API log\n"
)
MOONCAKE = (
    '{"timestamp": 0, "input_length": 755, "output_length": 5, "hash_ids": [0, 1]}\n'
    '{"timestamp": 3000, "input_length": 600, "output_length": 1, "hash_ids": [0, 9]}\n'
)
LLMSIM = (
    f'{{"input_toks":33,"output_toks":5,"arrival_time_ns":46926808,"block_ids":[4,5]}}\n{SESSION}\n'
)

_ENGINE = "--model llama-3.1-8b --machine dgx-h100 --kv-blocks 500 --compute roofline"
_SERVE = f"serve {_ENGINE} --requests {{in}}/requests"
_CLOSED = "--requests closed{n=2,prompt=100,output=3}"
_THEN = (
    f"{_SERVE} -o {{out}}",
    f"{_SERVE} --rate-scale 2 --prompt-scale 0.5 --spread 1 --replicas 2",
)


def _requests(name: str, text: str, mutate: Mutate) -> Format:
    def write(folder: Path) -> None:
        (folder / "requests").write_text(text)

    return Format(f"requests-{name}", write, {"*": mutate}, _SERVE, _THEN)


def _parquet(folder: Path) -> None:
    table = pa.table(
        {"id": ["a", "b"], "arrival_s": [0.25, 1.5], "prompt": [5, 6], "output": [7, 8]}
    )
    pq.write_table(table, folder / "requests")


def _layers(folder: Path) -> None:
    write_layer_tables(folder)
    (folder / "s.csv").write_text(
        "n,pc,t_mean_us,t_max_us,t_skew_us\n8,0,10,20,15\n64,0,20,40,30\n"
    )


def _plan(folder: Path) -> None:
    """An exported replay of one addition, as if it had been run."""
    from chakrakit.replayer import ReplayOptions, export

    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(2, 4), plain(1, "Int")], [tensor(3, 4)])
    recording = sheet.write(folder.parent / "et_0.json")
    export(str(recording), folder / "replay", ReplayOptions())


def _read_plan(folder: Path) -> None:
    from chakrakit.errors import ChakraError
    from chakrakit.replayer.runner.limits import ReplayError, read_plan

    try:
        read_plan(folder / "replay" / "plan_0.json.gz")
    except ReplayError as error:
        raise ChakraError(str(error)) from None


def _servegen(folder: Path) -> None:
    (folder / "chunk-1-trace.csv").write_text(SERVEGEN.replace("0.5,", "0.01,"))
    (folder / "chunk-1-dataset.json").write_text(SERVEGEN_LENGTHS)


CLUSTER = (
    "engines:\n  - {model: llama-3.1-8b, machine: dgx-h100, kv_blocks: 500, compute: roofline}\n"
    "router: least\ncodecs: [{name: half, ratio: 2, encode_gbps: 100}]\n"
    "link_schedule: [[0.0, 1.0], [1.0, 0.5]]\nfaults: [[0.5, 0, 0.1]]\n"
)
SERVICE = (
    "service: {seconds: 0.001, per_item: 0.003, kinds: {1: {seconds: 0.004, per_item: 0.001}},\n"
    "  memory: 1000000.0, item_bytes: 1000.0, max_items: 8, max_requests: 4, in_parts: true, engines: 2}\n"
    "router: turn\nfaults: [[0.5, 1, 0.1]]\n"
)


def _cluster(folder: Path) -> None:
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "service.yaml").write_text(SERVICE)


SERVING = [
    Format("cluster", _cluster, {"*": mutate_settings},
           f"serve --cluster {{in}}/service.yaml {_CLOSED} && serve --cluster {{in}}/cluster.yaml {_CLOSED}"),
    _requests("azure", AZURE, mutate_csv),
    _requests("burstgpt", BURST, mutate_csv),
    _requests("mooncake", MOONCAKE, mutate_json_lines),
    _requests("llmservingsim", LLMSIM, mutate_json_lines),
    _requests("vllm-bench", BENCH, mutate_json),
    _requests("recorded", RECORDED, mutate_json),
    _requests("dynamo", DYNAMO, mutate_json_lines),
    _requests("aiperf", AIPERF, mutate_json_lines),
    _requests("guidellm", GUIDELLM, mutate_json),
    _requests("opentelemetry", OTEL, mutate_json),
    _requests("blis", BLIS, mutate_yaml),
    _requests("blis-trace", BLIS_TRACE, mutate_csv),
    Format("requests-servegen", _servegen, {"*.csv": mutate_csv, "*.json": mutate_json},
           f"serve {_ENGINE} --requests {{in}}/chunk-1-trace.csv"),
    Format("requests-parquet", _parquet, {"*": mutate_parquet}, _SERVE, _THEN),
    Format("layers", _layers, {"*": mutate_csv},
           f"serve {_ENGINE} {_CLOSED} --layers {{in}}"),
    Format("replay-plan", _plan, {"replay/plan*.gz": gzipped(mutate_json)}, _read_plan),
]  # fmt: skip
