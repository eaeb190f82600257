"""What people write: machines, workloads, models, studies, campaigns, passes, profiles, algorithms."""

from __future__ import annotations

import io
import json
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq

import chakrakit as ck
from chakrakit.exploration.sweep import read_study
from chakrakit.machines.collective_tables import read_measurements
from chakrakit.trace.library import entry_of, write_index
from fuzz.formats.traces import traces
from fuzz.fuzz_format import Format, Step
from fuzz.mutation import (
    Mutate,
    mutate_csv,
    mutate_json,
    mutate_parquet,
    mutate_words,
    mutate_xml,
    mutate_yaml,
)
from support import node_topologies
from support.foreign_files import NCCL_PERF, attention_perf, gemm_perf, infragraph

MACHINE = """\
name: mine
device: {name: H100, peak: {bf16: 900 TFLOP/s, fp32: 60 TFLOP/s}, memory: 80 GiB, memory_bandwidth: 3 TB/s,
         compute_efficiency: 0.7, kernel_overhead: 2 us, power: 700 W, price_per_hour: 2.5}
network:
  - {topology: switch, size: 4, bandwidth: 450 GB/s, latency: 1 us}
  - {topology: fat-tree, size: 4, arity: [2, 2], bandwidth: 400 Gb/s, latency: 2 us, joins: rails}
software: {collective_overhead: 5 us, step_overhead: 1 us, queue_depth: 4}
changes: [{ranks: '3,5-6', dimension: 0, bandwidth: 10 GB/s}, {ranks: [1], device: {peak: {bf16: 1e12}}}]
"""
GRAPH = """\
name: small
graph:
  devices: [a, b, c]
  links:
    - {ends: [a, sw], bandwidth: 10 GB/s, latency: 1 us}
    - {ends: [b, sw], bandwidth: 10 GB/s}
    - {ends: [sw, c], bandwidth: 10 GB/s}
"""
_PRESET = (files("chakrakit.machines") / "presets" / "dgx-h100.yaml").read_text()


def _written(name: str, text: str) -> Step:
    def write(folder: Path) -> None:
        (folder / name).write_text(text)
        ck.write(traces(), folder / "w")

    return write


def _library(folder: Path) -> None:
    (folder / "one.chakra").write_bytes(b"bytes of a bundle")
    entry = entry_of(folder / "one.chakra", machine="dgx-h100", step_ns=1e6)
    write_index(folder, [entry])


def _machine(name: str, text: str) -> Format:
    return Format(
        name,
        _written("m.yaml", text),
        {"m.yaml": mutate_yaml},
        "machines {in}/m.yaml",
        (
            "simulate {in}/w --machine {in}/m.yaml",
            "simulate {in}/w --machine {in}/m.yaml --network analytical --compute roofline",
            "collective all-reduce --machine {in}/m.yaml --members 2 --sizes 1KiB,1MiB",
            "collective all-to-all --machine {in}/m.yaml --members 3 --sizes 1KiB,1MiB",
            "generate --model gpt3-125m --seq 16 --dry-run --machine {in}/m.yaml",
        ),
    )


WORKLOAD = """\
model: {base: llama3.1-8b, layers: 2, hidden: 256, ffn: 512, heads: 4, kv_heads: 2, vocab: 1000}
plan: {dp: 2, tp: 2, pp: 2, data: zero1, recompute: selective, schedule: 1f1b}
step: {kind: train, seq: 64, global_batch: 8, micro_batch: 1, dtype: bf16, optimizer: adam}
"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "vocab_size": 1000,
    "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "tie_word_embeddings": False, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5, "rope_theta": 1e4, "hidden_act": "silu",
}  # fmt: skip
MOE = CONFIG | {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "n_routed_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 64, "n_shared_experts": 1, "kv_lora_rank": 32,
    "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "first_k_dense_replace": 1,
}  # fmt: skip


def _import_transformers() -> None:
    """What it and PyTorch take when they are first imported is theirs, not an input's."""
    if find_spec("transformers") and find_spec("torch"):
        assert import_module("transformers").CONFIG_MAPPING["llama"]()


def _configs(folder: Path) -> None:
    _import_transformers()
    (folder / "config.json").write_text(json.dumps(CONFIG))


def _moe(folder: Path) -> None:
    _import_transformers()
    (folder / "config.json").write_text(json.dumps(MOE))


_GENERATE: tuple[Step, ...] = (
    "generate --model {in}/config.json --seq 16 --dp 2 -o {out}",
    "generate --model {in}/config.json --seq 16 --tp 2 --pp 2 -o {out}",
    "serve --model {in}/config.json --machine dgx-h100 --requests poisson{rate=4,prompt=12,output=3,n=3}",
    "search --model {in}/config.json --gpus 1 --machine dgx-h100 --seq 16 --batch 1 --compute roofline",
)  # fmt: skip

STUDY = """\
name: tiny
workload:
  model: {base: llama3.1-8b, layers: 1, hidden: 256, ffn: 512, heads: 4, kv_heads: 2, vocab: 1000}
  step: {seq: 16, global_batch: 4}
ranks: 4
axes:
  plan.tp: [1, 2]
  shape: [{step.micro_batch: 1}, {step.micro_batch: 2}]
machines:
  - dgx-h100
  - {base: dgx-h100, name: slow, network.0.bandwidth: 45 GB/s}
passes: [none, compact, ["edit{scale=0.5}", compact]]
simulate: {compute: roofline, network: flow}
impossible: skip
"""


def _grid(folder: Path) -> None:
    from chakrakit.exploration.sweep import grid

    grid(read_study(str(folder / "study.yaml")))


CAMPAIGN = """\
name: tiny
step_seconds: 10
steps: 400
cluster: {nodes: 8, spares: 1, repair_hours: 24, nodes_per_rack: 4}
failures:
  node_mtbf_hours: 500
  processes: [{name: GPU, of: node, mtbf_hours: 300, shape: 1.2, repair_hours: 3},
              {name: slow, mtbf_hours: 900, slow: {factor: 1.5, hours: 2}}]
  log: log.csv
checkpoint: {policy: tiered, tiers: [{interval_steps: 10, bytes: 1e9, store: local},
             {interval_steps: 100, bytes: 1e9, store: disk}]}
stores: {local: {bandwidth: 1e9, node_bandwidth: 1e8}, disk: {bandwidth: 1e10}}
recovery: {policy: elastic, detection_seconds: 60, restart_seconds: 300, restart_success: 0.9}
costs: {node_watts: 8000, pue: 1.2, node_hour_price: 20}
"""
SIMPLE_CAMPAIGN = """\
step_seconds: 10
steps: 400
cluster: {nodes: 8, spares: 1, repair_hours: 24}
failures: {node_mtbf_hours: 500}
checkpoint: {interval_steps: 100, seconds: 5}
recovery: {policy: restart, detection_seconds: 60, restart_seconds: 300}
"""
FAILURES = "hour,node,cause,scope\n1.5,0,GPU,node\n2,3,,process\n30,1,switch,rack\n"


SHARED_WORKLOAD = """\
model: {base: llama3.2-1b, layers: 1}
plan: {cp: 3, dp: 2, context: blocks, assignment: mixed, block: 64,
  key_pairs: 100.0, speeds: [1, 2, 1], shares: [0.5, 0.5, 0.5]}
step: {seq: 512, global_batch: 2, lengths: {distribution: lognormal, mean: 100, sigma: 1.0}}
"""
RENTED_CAMPAIGN = """\
step_seconds: 10
steps: 2000
cluster: {nodes: 8, spares: 1, repair_hours: 2}
checkpoint: {interval_steps: 100, seconds: 5}
pool: {nodes: 12, slow_share: 0.3, onsets_per_day: 0.1, sweep_limit: 1.05, monitor_limit: 1.05}
spot: {prices: prices.csv, bid: 5, notice_seconds: 60}
retries: {nodes: 4, pool: 8, bad: 1, other_chance: 0.01, exclude_chance: 0.5}
telemetry: {hours: [0, 3], failure: power}
"""
PRICES = "hour,price\n0,1.5\n1,9\n2,2.25\n"


def _campaign(text: str) -> Step:
    def write(folder: Path) -> None:
        (folder / "job.yaml").write_text(text)
        (folder / "log.csv").write_text(FAILURES)
        (folder / "prices.csv").write_text(PRICES)

    return write


PASSES = """\
- edit: {scale: 0.5, names: "mm$"}
- compact
- select: {ranks: [0, 1]}
"""
PROFILE: dict[str, Any] = {
    "name": "p", "device": "H100", "fitted_on": ["x"],
    "classes": {
        "gemm": [{"shape": [64, 64, 64], "us": 4.0, "flops": 5e5, "bytes": 2e4},
                 {"shape": [128, 64, 64], "us": 5.0, "flops": 1e6, "bytes": 3e4}],
        "elementwise": [{"shape": [4096], "us": 2.0, "flops": 0.0, "bytes": 4096.0}],
    },
}  # fmt: skip


def _profile(folder: Path) -> None:
    (folder / "p.json").write_text(json.dumps(PROFILE))
    made = ck.generate(model="gpt3-125m", layers=1, dp=2, seq=16, global_batch=2).traces
    ck.write(made, folder / "w")


MICRO = {"gpu": "H100", "rows": [
    {"op": "mm_bf16", "shape": [64, 64, 64], "us": 4.0, "flops": 5e5, "bytes": 2e4},
    {"op": "add", "shape": [4096], "us": 2.0, "flops": 0, "bytes": 4096},
    {"op": "layer_norm_bf16", "shape": [64, 64], "us": 3.0, "flops": 0, "bytes": 4096},
    {"op": "sdpa_causal", "shape": [1, 4, 64, 64], "us": 3.0},
    {"op": "sdpa_both", "shape": [1, 4, 64, 64], "us": 9.0},
]}  # fmt: skip


def _micro(folder: Path) -> None:
    (folder / "micro.json").write_text(json.dumps(MICRO))


def nccl_log(name: str, ranks: int) -> str:
    """What nccl-tests prints."""
    lines = [f"# {name}_perf", *(f"#  Rank {r} Pid 1 on host device {r}" for r in range(ranks))]
    for k in range(10, 22):
        size = 1 << k
        lines.append(
            f" {size} {size // 2} half sum -1 {8 + size / 1e5:.3f} 1.0 1.0 0 8.1 1.0 1.0 0"
        )
    return "\n".join(lines) + "\n"


def _nccl_tests(folder: Path) -> None:
    for name in ("all_reduce", "all_gather"):
        (folder / f"{name}.log").write_text(nccl_log(name, 4))


def _collective_table(folder: Path) -> None:
    rows = [
        f"{name},{n},{1 << k},{8 + (1 << k) / 1e5}"
        for name in ("all_reduce", "all_gather")
        for n in (2, 8)
        for k in range(10, 20, 2)
    ]
    (folder / "t.csv").write_text("\n".join(["collective,members,bytes,time_us", *rows]))


def _read_collectives(folder: Path) -> None:
    read_measurements([file for file in folder.iterdir() if file.suffix in (".csv", ".txt")])


def _kernel_tables(folder: Path) -> None:
    tables = folder / "tables"
    tables.mkdir()
    products = gemm_perf(("bfloat16", "fp8", "bfloat16", "fp8_block")).encode()
    pq.write_table(pyarrow.csv.read_csv(io.BytesIO(products)), tables / "gemm_perf.parquet")
    for phase in ("context", "generation"):
        (tables / f"{phase}_attention_perf.txt").write_text(attention_perf(phase))


def _network_model(folder: Path) -> None:
    ranges = [{"most": 1e6, "alpha_us": 8.0, "bytes_per_us": 1e5, "error": 0.1}] * 2
    model = {"fitted_on": ["x"], "collectives": {"all-reduce": {"2": ranges}}}
    (folder / "model.json").write_text(json.dumps(model))
    (folder / "placement.json").write_text("[1, 0]")
    ck.write(traces(), folder / "w")


def _msccl(folder: Path) -> None:
    gpus = [
        f'<gpu id="{g}"><tb id="0" send="{(g + 1) % 3}" recv="{(g - 1) % 3}" chan="0">'
        f'<step s="0" type="s" srcoff="{g}" cnt="1" depid="-1"/>'
        f'<step s="1" type="rcs" srcoff="{(g - 1) % 3}" cnt="1" depid="-1"/>'
        f'<step s="2" type="r" srcoff="{(g + 1) % 3}" cnt="1" depid="-1"/></tb></gpu>'
        for g in range(3)
    ]
    head = '<algo name="ring_ag" nchunksperloop="3" ngpus="3" coll="allgather">'
    (folder / "a.xml").write_text("\n".join([head, *gpus, "</algo>"]))


def _mscclpp(folder: Path) -> None:
    signal = {"name": "signal", "channel_ids": [0], "channel_type": "memory"}
    wait = {"name": "wait", "channel_ids": [0], "channel_type": "memory"}

    def operations(gpu: int) -> list[dict[str, Any]]:
        mine = [{"type": "i", "index": gpu, "size": 1}, {"buffer_id": 0, "index": gpu, "size": 1}]
        return [signal, wait, {"name": "rres", "src_buff": mine, "dst_buff": mine}, signal, wait]

    gpus = [
        {
            "id": gpu, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 2,
            "channels": [{"channel_type": "memory", "connected_to": [1 - gpu]}],
            "remote_buffers": [{"rank": 1 - gpu, "type": "i"}],
            "semaphores": [{"init_value": 0}],
            "threadblocks": [{
                "id": 0, "ops": operations(gpu),
                "channels": [{"channel_type": "memory", "channel_ids": [0]}],
                "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}],
            }],
        }
        for gpu in (0, 1)
    ]  # fmt: skip
    plan = {"name": "t", "collective": "allreduce", "protocol": "Simple", "gpus": gpus}
    (folder / "a.json").write_text(json.dumps(plan))


def _with_algorithm(collective: str, kind: ck.CollectiveType, ranks: int, xml: bool) -> Step:
    def simulate(folder: Path) -> None:
        file = folder / ("a.xml" if xml else "a.json")
        t = ck.TraceBuilder()
        t.collective("c", kind, 1 << 20)
        made = ck.TraceSet(
            [t.build()], {i: ck.Binding(0) for i in range(ranks)}, ck.Groups({"": range(ranks)})
        )
        ck.simulate(made, "dgx-h100", algorithms={collective: file})

    return simulate


SYSTEM = {
    "scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4, "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"], "reduce-scatter-implementation": ["direct2"],
    "all-to-all-implementation": ["halvingDoubling"], "collective-optimization": "localBWAware",
    "local-mem-bw": 100, "peak-perf": 900, "roofline-enabled": 1,
}  # fmt: skip
NETWORK = "topology: [Ring]\nnpus_count: [2]\nbandwidth: [50.0]\nlatency: [500.0]\n"
MEMORY = {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 10, "remote-mem-bw": 10}


def _astra(folder: Path) -> None:
    (folder / "system.json").write_text(json.dumps(SYSTEM))
    (folder / "network.yaml").write_text(NETWORK)
    (folder / "memory.json").write_text(json.dumps(MEMORY))
    (folder / "groups.json").write_text(json.dumps({"1": [0, 1]}))
    ck.write(traces(), folder / "w.N.et")


_ASTRA = (
    "simulate {in}/w --astra {in}/system.json {in}/network.yaml {in}/memory.json "
    "--groups {in}/groups.json"
)

_LIBRARY = (
    "calibrate --nccl-tests --machine dgx-h100 {in}/all_reduce.log {in}/all_gather.log -o {out}"
)


def _topology(name: str, text: str, mutate: Mutate) -> Format:
    return Format(name, _written("node", text), {"node": mutate}, "machines {in}/node",
                  ("collective all-reduce --machine {in}/node --members 2 --sizes 1KiB",))  # fmt: skip


DESCRIPTIONS = [
    _topology("nccl-topology", node_topologies.NCCL, mutate_xml),
    _topology("hwloc", node_topologies.HWLOC, mutate_xml),
    _topology("nvidia-smi", node_topologies.MATRIX, mutate_words),
    _topology("rocm-smi", node_topologies.ROCM, mutate_words),
    _topology("rocm-smi-json", node_topologies.ROCM_JSON, mutate_json),
    _topology("amd-smi", node_topologies.AMD_SMI, mutate_words),
    _topology("amd-smi-json", node_topologies.AMD_SMI_JSON, mutate_json),
    _topology("simai-topology", node_topologies.SIMAI, mutate_words),
    Format("library-index", _library, {"library.json": mutate_json},
           "get --from {in}", ("get one --from {in} -o {out}",)),
    _machine("machine", MACHINE),
    _machine("machine-graph", GRAPH),
    _machine("machine-preset", _PRESET),
    _machine("infragraph", infragraph(2)),
    _machine("astra-network", NETWORK),
    Format("workload", _written("w.yaml", WORKLOAD), {"w.yaml": mutate_yaml},
           "generate {in}/w.yaml --dry-run", ("generate {in}/w.yaml -o {out}",)),
    Format("config", _configs, {"*": mutate_json},
           "generate --model {in}/config.json --seq 16 --dry-run", _GENERATE),
    Format("config-moe", _moe, {"*": mutate_json},
           "generate --model {in}/config.json --seq 16 --dry-run", _GENERATE),
    Format("study", _written("study.yaml", STUDY), {"study.yaml": mutate_yaml}, _grid,
           ("sweep {in}/study.yaml -o {out} --jobs 1",)),
    Format("workload-shared", _written("w.yaml", SHARED_WORKLOAD), {"w.yaml": mutate_yaml},
           "generate {in}/w.yaml --dry-run", ("generate {in}/w.yaml -o {out}",)),
    Format("campaign", _campaign(CAMPAIGN), {"job.yaml": mutate_yaml, "log.csv": mutate_csv},
           "campaign {in}/job.yaml --histories 2",
           ("campaign {in}/job.yaml --histories 1 -o {out}",)),
    Format("campaign-simple", _campaign(SIMPLE_CAMPAIGN), {"job.yaml": mutate_yaml},
           "campaign {in}/job.yaml --histories 2",
           ("campaign {in}/job.yaml --histories 1 -o {out}",)),
    Format("campaign-rented", _campaign(RENTED_CAMPAIGN),
           {"job.yaml": mutate_yaml, "prices.csv": mutate_csv},
           "campaign {in}/job.yaml --histories 2",
           ("campaign {in}/job.yaml --histories 1 -o {out}",)),
    Format("passes", _written("p.yaml", PASSES), {"p.yaml": mutate_yaml},
           "transform {in}/w --passes {in}/p.yaml -o {out}"),
    Format("profile", _profile, {"p.json": mutate_json},
           "simulate {in}/w --machine dgx-h100 --compute {in}/p.json"),
    Format("microbenchmarks", _micro, {"*": mutate_json}, "calibrate {in}/micro.json -o {out}"),
    Format("nccl-tests", _nccl_tests, {"*": mutate_words},
           "calibrate --nccl-tests {in}/all_reduce.log {in}/all_gather.log -o {out}",
           (_LIBRARY,), share=0.02),
    Format("collective-table", _collective_table, {"*": mutate_csv}, _read_collectives,
           ("calibrate --collectives --machine dgx-h100 {in}/t.csv -o {out}",)),
    Format("aiconfigurator", _kernel_tables, {"tables/*.parquet": mutate_parquet, "tables/*.txt": mutate_csv},
           "calibrate {in}/tables -o {out}"),
    Format("aiconfigurator-nccl", _written("nccl_perf.txt", NCCL_PERF), {"*.txt": mutate_csv},
           _read_collectives,
           ("calibrate --collectives --machine dgx-h100 {in}/nccl_perf.txt -o {out}",)),
    Format("network-model", _network_model, {"model.json": mutate_json, "placement.json": mutate_json},
           "simulate {in}/w --machine dgx-h100 --network-model {in}/model.json "
           "--placement {in}/placement.json"),
    Format("msccl", _msccl, {"*": mutate_xml},
           _with_algorithm("all-gather", ck.CollectiveType.ALL_GATHER, 3, xml=True)),
    Format("mscclpp", _mscclpp, {"*": mutate_json},
           _with_algorithm("all-reduce", ck.CollectiveType.ALL_REDUCE, 2, xml=False)),
    Format("astra", _astra, {"*.json": mutate_json, "network.yaml": mutate_yaml}, _ASTRA,
           (f"{_ASTRA} --backend aware", f"{_ASTRA} --lenient", f"{_ASTRA} -o {{out}}")),
]  # fmt: skip
