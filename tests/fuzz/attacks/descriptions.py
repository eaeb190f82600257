"""Small files that ask for very much: machines, models, studies, campaigns, requests."""

# ruff: noqa: E501 - a table, one case a line

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import chakrakit as ck
from fuzz.attacks.attack import Attack
from fuzz.formats.descriptions import (
    CAMPAIGN,
    CONFIG,
    MACHINE,
    NETWORK,
    SHARED_WORKLOAD,
    STUDY,
    WORKLOAD,
    nccl_log,
)
from fuzz.formats.serving import CLUSTER, SERVICE
from fuzz.formats.traces import traces
from support.foreign_files import infragraph

Make = Callable[[Path], object]


def text(name: str, content: str | bytes) -> Make:
    """One file, and a small workload beside it."""

    def make(folder: Path) -> None:
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
        ck.write(traces(), folder / "w")

    return make


def _aliases(head: str) -> str:
    """A kilobyte that stands for 9^9 entries."""
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{i}: &a{i} [" + ",".join([f"*a{i - 1}"] * 9) + "]" for i in range(1, 9)]
    return head + "\n".join(lines) + "\n"


def _log(folder: Path) -> None:
    sizes = "\n".join(
        f" {8 * i} {2 * i} float sum -1 {9 + i / 70:.3f} 1.0 1.0 0 8.1 1.0 1.0 0"
        for i in range(1, 1201)
    )
    head = nccl_log("all_reduce", 4).split("\n 1024")[0]
    (folder / "all_reduce.log").write_text(f"{head}\n{sizes}\n")


def _many_batches(folder: Path) -> None:
    (folder / "w.yaml").write_text(WORKLOAD.replace("global_batch: 8", "global_batch: 65536"))


def _requests(*rows: dict[str, object]) -> Make:
    def make(folder: Path) -> None:
        (folder / "requests").write_text("\n".join(map(json.dumps, rows)))

    return make


def _excluding(pattern: str) -> str:
    """A configuration whose matrices are of 8 bits, but for some modules."""
    weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
    group = {"targets": ["Linear"], "weights": weights}
    said = {
        "quant_method": "compressed-tensors",
        "config_groups": {"g": group},
        "ignore": [pattern],
    }
    return json.dumps(CONFIG | {"quantization_config": said})


def _alike(folder: Path) -> None:
    """Ten million requests at once, in some hundred kilobytes."""
    rows = 10_000_000
    columns = {name: np.full(rows, 5) for name in ("arrival_s", "prompt", "output")}
    pq.write_table(pa.table(columns), folder / "requests", compression="zstd")


_FIVE = {"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [0]}
_SERVE = "serve --model gpt3-125m --machine dgx-h100 --compute roofline --requests {in}/requests"
_CONFIG = "generate --model {in}/config.json --seq 16 --dry-run"
_SIMULATE = "simulate {in}/w --machine {in}/m.yaml"
_SEARCH = "search --serve --model gpt3-125m --machine dgx-h100 --requests poisson{rate=4,prompt=12,output=3,n=3} --slo ttft=500"
_EXPERTS = """\
model: {base: deepseek-v3, layers: 2, hidden: 256, ffn: 512, heads: 4, vocab: 1000, experts: 8, top_k: 2,
  expert_ffn: 64, expert_groups: 4, top_groups: 2, dense_layers: 1}
plan: {dp: 4, ep: 4, schedule: 1f1b, exchange: once, exchange_node: 2, exchange_overlap: true}
step: {kind: train, seq: 64, global_batch: 16, micro_batch: 1, imbalance: 0.5}
"""
DESCRIPTIONS = [
    Attack("network YAML of 100,000 brackets", text("m.yaml", "[" * 100_000), "machines {in}/m.yaml", "deep|nested|levels"),
    Attack("a study of nested aliases", text("s.yaml", _aliases("name: x\n")), "sweep {in}/s.yaml -o {out}", "alias|large|bigger|entries"),
    Attack("a study whose anchor holds itself", text("s.yaml", "name: x\naxes: &a [*a]\n"), "sweep {in}/s.yaml -o {out}", "alias|itself|anchor"),
    Attack("a card of nested aliases", text("c.yaml", _aliases("extra:\n  x: 1\n")), "bundle {in}/w --card {in}/c.yaml -o {out}.chakra", "alias|large|bigger|entries"),
    Attack("a torus of 2^31", text("m.yaml", MACHINE.replace("topology: switch, size: 4", "topology: torus, dims: [2147483648]")), "machines {in}/m.yaml", "devices|2,147,483,648|at most"),
    Attack("changes of ranks 0-9999999999", text("m.yaml", MACHINE.replace("'3,5-6'", "'0-9999999999'")), "machines {in}/m.yaml", "9999999999|rank"),
    Attack("InfraGraph of 4·10^9", text("m.yaml", infragraph(4_000_000_000)), "machines {in}/m.yaml", "4,?000,?000,?000|at most|most"),
    Attack("latency of 9,000,000 s", text("m.yaml", MACHINE.replace("latency: 1 us", "latency: 9000000 s")), _SIMULATE, "50 days"),
    Attack("latency of 1e20 s", text("m.yaml", MACHINE.replace("latency: 1 us", "latency: 1e+20 s")), "collective all-reduce --machine {in}/m.yaml --members 4 --sizes 1KiB:1MiB", "50 days"),
    Attack("latency of 1e300 s", text("m.yaml", MACHINE.replace("latency: 1 us", "latency: 1e+300 s")), "collective all-reduce --machine {in}/m.yaml --members 4 --sizes 1KiB:1MiB", "not a time that a machine could have"),
    Attack("overhead of 1e308", text("m.yaml", MACHINE.replace("collective_overhead: 5 us", "collective_overhead: 1.0e+308")), "machines {in}/m.yaml", "not a time that a machine could have"),
    Attack("a link at 1e-9 of its speed", text("m.yaml", MACHINE), f"{_SIMULATE} --fault link:0-17@0=1e-18", "days|no link|no vertex|failed"),
    Attack("bytes that are not UTF-8", text("m.yaml", b"\xff\xfe\x00name: x"), "machines {in}/m.yaml", "UTF-8|text|malformed"),
    Attack("direct and 20 digits", text("n.yaml", NETWORK), "simulate {in}/w --astra {in}/none {in}/n.yaml {in}/none", "none"),
    Attack("2^53 heads", text("config.json", json.dumps(CONFIG | {"num_attention_heads": 2**53})), _CONFIG, "heads"),
    Attack("9·10^8 layers", text("config.json", json.dumps(CONFIG | {"num_hidden_layers": 900_000_000})), _CONFIG, "layers"),
    Attack("a global batch of 2^31", text("config.json", json.dumps(CONFIG)), f"{_CONFIG} --global-batch 2147483648", "passes|batch|most"),
    Attack("more heads than hidden_size", text("config.json", json.dumps(CONFIG | {"num_attention_heads": 512, "head_dim": None})), _CONFIG, "heads|hidden"),
    Attack("a misspelled key of a configuration", text("config.json", json.dumps(CONFIG | {"max_positiosition_dings": 4096})), _CONFIG, "max_positiosition_dings .* not understood"),
    Attack("sizes that are lists of lists", text("config.json", json.dumps(CONFIG | {"intermediate_size": [[512], 1]})), _CONFIG, "one for each layer"),
    Attack("a pattern of modules that repeats what repeats", text("config.json", _excluding(r"re:(\w+\.?)+!")), _CONFIG, "per step", 0),
    Attack("a pattern of modules that looks ahead for ever", text("config.json", _excluding(r"re:(?!x)(\w+\.?)+!")), _CONFIG, "could take for ever"),
    Attack("a pattern of modules 3,000 levels deep", text("config.json", _excluding("re:" + "(" * 3000 + ")" * 3000)), _CONFIG, "too deep"),
    Attack("a pattern of modules that repeats 10^20 times", text("config.json", _excluding("re:a{99999999999999999999}")), _CONFIG, "repeats too often"),
    Attack("kernels by an expression 5,000 levels deep", text("x", "x"), f"link {{in}}/w --comm-pattern {'(' * 5000}{')' * 5000}=all-reduce -o {{out}}", "too deep"),
    Attack("65,536 micro-batches, written", _many_batches, "generate {in}/w.yaml -o {out}", "--yes"),
    Attack("decode of no tokens", text("w.yaml", WORKLOAD.replace("kind: train", "kind: decode, new_tokens: 0").replace("dp: 2, tp: 2, pp: 2, data: zero1, recompute: selective, schedule: 1f1b", "tp: 1")), "generate {in}/w.yaml --dry-run", "new_tokens is 0"),
    Attack("blocks of 64 in a quarter of a million tokens, shared by three", text("w.yaml", SHARED_WORKLOAD.replace("seq: 512", "seq: 262144")), "generate {in}/w.yaml --dry-run", "blocks shared by mixed", 0),
    Attack("a deviation of -0.0", text("w.yaml", SHARED_WORKLOAD.replace("sigma: 1.0", "sigma: -0.0")), "generate {in}/w.yaml --dry-run", "blocks shared by mixed", 0),
    Attack("layers after blank lines and nothing else", text("w.txt", "\n\nDATA\n2\n"), "info {in}/w.txt", "layers"),
    Attack("a failure's shape of 1e-9", text("job.yaml", "name: x\nstep_seconds: 10\nsteps: 9\ncluster: {nodes: 2}\nfailures: {node_mtbf_hours: 9, shape: 1.0e-9}\ncheckpoint: {interval_steps: 3, seconds: 5}\nrecovery: restart\n"), "campaign {in}/job.yaml", "0.05"),
    Attack("a thousand engines of 9 PB each", text("s.yaml", SERVICE.replace("memory: 1000000.0", "memory: 9.0e+15").replace("engines: 2", "engines: 1000")), "serve --cluster {in}/s.yaml --requests closed{n=2,prompt=100,output=3}", "2 of 2 requests", 0),
    Attack("a service whose items have no size", text("s.yaml", SERVICE.replace("item_bytes: 1000.0", "item_bytes: 1.0e-310")), "serve --cluster {in}/s.yaml --requests closed{n=2,prompt=100,output=3}", "2 of 2 requests", 0),
    Attack("an nccl-tests log of 1,200 rows", _log, "calibrate --nccl-tests {in}/all_reduce.log -o {out}", "", 0),
    Attack("an nccl-tests time of 1.2.3", text("all_reduce.log", nccl_log("all_reduce", 2).replace(" 8.010", " 1.2.3")), "calibrate --nccl-tests {in}/all_reduce.log -o {out}", "1.2.3|number", 2),
    Attack("an nccl-tests time that no reciprocal holds", text("all_reduce.log", nccl_log("all_reduce", 2).replace(" 8.010", " 2.8e-316")), "calibrate --nccl-tests {in}/all_reduce.log -o {out}", "2.8e-316. is not a size or time", 2),
    Attack("an MTBF of 1.8e308 hours", text("j.yaml", CAMPAIGN.replace("node_mtbf_hours: 500", "node_mtbf_hours: 1.7e+308").replace("log: log.csv", "")), "campaign {in}/j.yaml --histories 2", "never fails"),
    Attack("a study naming a machine of 300 letters", text("s.yaml", STUDY.replace("- dgx-h100\n", f"- {'a' * 300}\n", 1)), "sweep {in}/s.yaml -o {out} --jobs 1", "letters, too many for a file"),
    Attack("a study that runs a program", text("s.yaml", "name: x\nworkload: {capture: \"python -c 'open(1)'\", ranks: 1}\nmachines: [dgx-h100]\n"), "sweep {in}/s.yaml -o {out} --jobs 1", "--allow-programs"),
    Attack("requests slowed a million times", _requests(_FIVE, _FIVE | {"timestamp": 10_000}), f"{_SERVE} --rate-scale 1e-6", "clock ends"),
    Attack("arrivals 300 years away", _requests(_FIVE, _FIVE | {"timestamp": 10**13}), _SERVE, "arrival"),
    Attack("five tokens through prefill and decode", _requests(_FIVE), f"{_SERVE} --prefill 1 --decode 1", "1 of 1 requests", 0),
    Attack("ten million requests all alike", _alike, _SERVE, "10,000,000 rows of 3 columns"),
    Attack("2^63 data-parallel ranks of an engine", _requests(_FIVE), f"{_SERVE} --dp {2**63}", "10,000 of either"),
    Attack("steps padded to multiples of 0", _requests(_FIVE), f"{_SERVE} --engine transformers{{q_padding_interval_size=0}}", "padding is"),
    Attack("an engine of 2^63 requests at a time", _requests(_FIVE), f"{_SERVE} --engine vllm{{max_num_seqs={2**63}}}", "max_requests is 9223372036854775808; .* is the most"),
    Attack("an engine's host that takes 1e300 ms", _requests(_FIVE), f"{_SERVE} --engine vllm{{host_ms=1e300}}", "host_ms is 1e.300; .* is the most"),
    Attack("tokens that take hours each, for a year", text("x", "x"), "serve --model gpt3-125m --machine dgx-h100 --requests closed{n=2,prompt=12,output=1900} --engine vllm{host_ms=9e6}", "beyond 50 days"),
    Attack("a service level of nan", _requests(_FIVE), f"{_SERVE} --slo ttft=nan", "ttft is nan; give milliseconds"),
    Attack("a cache of 10^400 blocks", _requests(_FIVE), f"{_SERVE} --kv-blocks {10**400}", "give 1 to 2,147,483,646"),
    Attack("fewer than no engines for prompts", _requests(_FIVE), f"{_SERVE} --prefill -1", "give 1 or more of each"),
    Attack("ranks of engines that are not there", _requests(_FIVE), f"{_SERVE} --decode-tp {2**63}", "is for engines of --decode"),
    Attack("plans of no tensor-parallel ranks", text("x", "x"), "search --model gpt3-125m --gpus 2 --machine dgx-h100 --tp 0", "--tp 0: give 1 or more"),
    Attack("a schedule of x chunks", text("x", "x"), "search --model gpt3-125m --gpus 2 --machine dgx-h100 --schedule interleaved/x", "chunks are 1 or more"),
    Attack("devices that cost nan", text("x", "x"), "search --model gpt3-125m --gpus 2 --machine dgx-h100 --objective price --price-per-hour nan", "price-per-hour nan: give"),
    Attack("latent attention whose heads have no width", text("config.json", json.dumps(CONFIG)), f"{_CONFIG} --kv-lora 64", "need nope_dim or rope_dim"),
    Attack("1e308 GiB of memory", text("config.json", json.dumps(CONFIG)), f"{_CONFIG} --memory-gib 1e308", "memory-gib is 1e.308"),
    Attack("a rank that is slow from step -1 on", text("x", "x"), "simulate {in}/w --machine dgx-h100 --straggler 0=1.5@-1", "no step -1"),
    Attack("a search for 2^63 devices that serve", text("x", "x"), f"{_SEARCH} --gpus {2**63}", "1,048,576 is the most"),
    Attack("a search for 2^31 devices that serve", text("x", "x"), f"{_SEARCH} --gpus {2**31}", "1,048,576 is the most"),
    Attack("a search among steps of no tokens", text("x", "x"), f"{_SEARCH} --gpus 2 --batch-tokens 0", "batch-tokens 0: give 1 to"),
    Attack("a search for requests served at once", text("x", "x"), f"{_SEARCH.replace('ttft=500', 'ttft=0')} --gpus 2", "a service level above 0"),
    Attack("a search for requests that may take 1e308 ms", text("x", "x"), f"{_SEARCH.replace('ttft=500', 'ttft=1e308')} --gpus 2", "give milliseconds"),
    Attack("a codec of 1e-320 GB/s", text("c.yaml", CLUSTER.replace("encode_gbps: 100", "encode_gbps: 1.0e-320")), "serve --cluster {in}/c.yaml --requests closed{n=2,prompt=100,output=3}", "rates of 1e-06 GB/s or more"),
    Attack("a kind of items that takes nan", text("s.yaml", SERVICE.replace("{seconds: 0.004, per_item: 0.001}", "{seconds: .nan}")), "serve --cluster {in}/s.yaml --requests closed{n=2,prompt=100,output=3}", "a service's time is nan s"),
    Attack("experts that no token goes to", text("w.yaml", _EXPERTS.replace("top_k: 2", "top_k: 0")), "generate {in}/w.yaml --dry-run", "top_k is 0"),
    Attack("experts as uneven as a float can say", text("w.yaml", _EXPERTS.replace("imbalance: 0.5", "imbalance: 1.0e+6")), "generate {in}/w.yaml --dry-run", "per step", 0),
    Attack("experts as even as a float can say", text("w.yaml", _EXPERTS.replace("imbalance: 0.5", "imbalance: 1.0e-320")), "generate {in}/w.yaml --dry-run", "imbalance is"),
    Attack("keys that cost infinitely many pairs", text("w.yaml", SHARED_WORKLOAD.replace("key_pairs: 100.0", "key_pairs: .inf")), "generate {in}/w.yaml --dry-run", "key_pairs is inf"),
    Attack("2^63 replicas", _requests(_FIVE), f"{_SERVE} --replicas {2**63}", "10,000 of either"),
    Attack("a seed of 400 digits", _requests(_FIVE), f"{_SERVE} --seed {'1' * 400}", "63 bits"),
    Attack("10^11 members", text("x", "x"), "collective all-reduce --machine dgx-h100 --members 0-99999999999 --sizes 1KiB", "100,000,000,000 devices"),
    Attack("members in another script", text("x", "x"), "collective all-reduce --machine dgx-h100 --members \u00b2 --sizes 1KiB", "write a number"),
    Attack("endless memory", text("config.json", json.dumps(CONFIG)), f"{_CONFIG} --memory-gib inf", "memory-gib inf: give a finite number"),
    Attack("2^63 ranks of an exchange's node", text("config.json", json.dumps(CONFIG)), f"{_CONFIG} --exchange-node {2**63}", "exchange_node is 9,223"),
    Attack("fewer than no ranks of an exchange's node", text("config.json", json.dumps(CONFIG)), f"{_CONFIG} --exchange-node -1", "exchange_node is -1"),
    Attack("a replay of 2^63 processes", text("x", "x"), f"replay {{in}}/w --export {{out}} --nproc {2**63 - 1}", "each is a process"),
    Attack("rows up to 2^63", text("x", "x"), f"query {{in}}/w 'select 1 as one' --limit {2**63 - 1}", "one", 0),
    Attack("a peak of infinity", text("x", "x"), "analyze {in}/w --peak-tflops inf", "peak-tflops|times"),
    Attack("a fault of 1.2.3", text("x", "x"), "simulate {in}/w --machine dgx-h100 --fault device:0@1.2.3=1", "should be numbers"),
    Attack("a fault of a rank of 5,000 digits", text("x", "x"), f"simulate {{in}}/w --machine dgx-h100 --fault device:{'9' * 5000}@0=0.5", "neither a rank nor a device"),
    Attack("a seed of -1", text("x", "x"), "simulate {in}/w --machine dgx-h100 --jitter 0.1 --seed -1", "seed -1|0 or more"),
    Attack("a queue of 2^64", text("m.yaml", MACHINE.replace("queue_depth: 4", f"queue_depth: {2**64}")), "machines {in}/m.yaml", "queue_depth"),
    Attack("a name of 5,000 letters", text("x", "x"), f"info {'b' * 5000}", "too many for a file"),
]  # fmt: skip
