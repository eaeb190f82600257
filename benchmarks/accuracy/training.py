"""Published training throughput, generated and simulated with shipped presets and frameworks."""

from __future__ import annotations

import csv
import re
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from claim import each, machine_of, need, percent, table

from chakrakit import Machine
from chakrakit.errors import ChakraError
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import Simulation, simulate
from chakrakit.workloads.description import Attention, Decoder, Experts, Layer, Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

MPT = {
    "MPT-125m": "gpt3-125m",
    "MPT-350m": "gpt3-350m",
    "MPT-760m": "gpt3-760m",
    "MPT-1b": "gpt3-1.3b",
    "MPT-3b": "gpt3-2.7b",
    "MPT-7b": "gpt3-6.7b",
    "MPT-13b": "gpt3-13b",
}
MPT_LARGER = {
    "MPT-30b": {"layers": 48, "hidden": 7168, "heads": 64},
    "MPT-70b": {"layers": 80, "hidden": 8192, "heads": 64},
}
"""Shapes of llm-foundry's own files, beyond GPT-3's."""


def _gpt_oss_layer(window: int) -> Layer:
    mixer = Attention(
        heads=64, kv_heads=8, head_dim=64, window=window, sinks=True, bias=True, out_bias=True
    )
    return Layer(mixer=mixer, ffn=Experts(width=2880, bias=True, router_bias=True))


GPT_OSS = Decoder(
    name="gpt-oss-120b",
    layers=36,
    hidden=2880,
    heads=64,
    kv_heads=8,
    head_dim=64,
    vocab=201088,
    experts=128,
    top_k=4,
    expert_ffn=2880,
    kinds={"window_moe": _gpt_oss_layer(128), "moe": _gpt_oss_layer(0)},
    pattern=["window_moe", "moe"] * 18,
)
"""As its model card says: every other layer attends to 128 tokens."""
MODELS = {
    "LLAMA3_8B": "llama3-8b",
    "LLAMA3_70B": "llama3-70b",
    "LLAMA3.1_405B": "llama3.1-405b",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "Qwen3_30B_a3B (tokendrop)": "qwen3-30b-a3b",
    "Qwen3_235B_a22B (tokendrop)": "qwen3-235b-a22b",
    "DeepSeekV3": "deepseek-v3",
    "DeepSeekV3 (tokendrop)": "deepseek-v3",
    "DeepSeekV3 (dropless)": "deepseek-v3",
    "DeepSeekV3 (w/ MTP)": "deepseek-v3",
    "DeepSeekV3 (w/o MTP)": "deepseek-v3",
    "GPT OSS 120B": "gpt-oss-120b",
    "Llama-3.1-8B": "llama3-8b",
    "Llama-3.1-70B": "llama3-70b",
    "Llama-3.1-405B": "llama3.1-405b",
}
EXPERTS = ("Qwen3", "DeepSeek", "GPT OSS")
GRAPHS_SINCE = "26.06"
"""Megatron-Bridge's recipes capture whole steps of MXFP8 experts on GB200 and GB300 from here on."""
PRESETS = {
    "DGX-H100": "dgx-h100",
    "DGX-B200": "dgx-b200",
    "DGX-B300": "dgx-b300",
    "DGX-GB200": "gb200-nvl72",
    "DGX-GB300": "gb300-nvl72",
    "h100_80gb": "dgx-h100",
    "a100_80gb": "dgx-a100",
    "a100_40gb": "dgx-a100",
    "H200-SXM 400Gb/s per GPU": "dgx-h200",
}
TORCHTITAN = {"memory": "96 GB", "memory_bandwidth": "2400 GB/s", "power": "500 W"}
"""What its H100 have other than a DGX's."""
RACK = 64
"""GPUs of an NVL72 rack that a job of several racks uses."""
UNSTATED = {"fsdp": "0", "tp": "1", "pp": "1", "cp": "1", "vp": "1", "ep": "1"}
"""What a column means where it is empty, as tables of other releases write it out."""
RESULTS = (
    "source",
    "release",
    "grad_accum",
    "tokens_per_s_per_gpu",
    "model_tflops_per_gpu",
    "mfu_pct",
    "hfu_pct",
    "memory_gib",
    "note",
)
"""Columns that are no part of a configuration."""
TOO_SLOW = 512
"""GPUs above which rows are left out: they take minutes to simulate."""
LOCAL_BATCH = re.compile(r"local batch (\d+)")


@dataclass(frozen=True, eq=False)
class TrainingRow:
    """A published row that can be expressed, or the reason why it cannot."""

    row: dict[str, str]
    framework: str
    fitted: bool
    """Whether its configuration is among those that factors were fitted on: an even CRC-32."""

    @property
    def published(self) -> float:
        return float(self.row["tokens_per_s_per_gpu"])

    @property
    def gpus(self) -> int:
        return int(self.row["gpus"])

    @property
    def dense(self) -> bool:
        return not self.row["model"].startswith(EXPERTS)

    def workload(self) -> Workload:
        mpt = self.row["model"] in MPT | MPT_LARGER
        return _foundry(self.row) if mpt else _planned(self.row)

    def machine(self) -> Machine:
        preset = PRESETS.get(self.row["system"])
        if preset is None:
            nodes = -(-self.gpus // 8)
            return parse_machine({"base": "dgx-h100", "nodes": nodes, "device": TORCHTITAN}, "m")
        node = 8 if "nvl72" not in preset else 72 if self.gpus <= 72 else RACK
        return machine_of(f"{preset}:{-(-self.gpus // node)}")

    def simulated(self, framework: str) -> Simulation:
        options = SimulationOptions(framework=framework)
        return simulate(generate(self.workload()), self.machine(), options=options)

    def error(self) -> float:
        """Predicted over published tokens per second, less 1."""
        step = self.workload().step
        seconds = self.simulated(self.framework).makespan_ns * 1e-9
        return step.global_batch * step.seq / seconds / self.gpus / self.published - 1


@cache
def training_rows(data: Path) -> tuple[TrainingRow, ...]:
    """Rows with a model and a system that we have, the newest release of each configuration."""
    newest: dict[tuple[str, ...], dict[str, str]] = {}
    with need(data, "training", "throughput.csv").open() as file:
        for row in csv.DictReader(file):
            key = tuple(v or UNSTATED.get(n, "") for n, v in row.items() if n not in RESULTS)
            old = newest.get(key)
            if row["tokens_per_s_per_gpu"] and (old is None or row["release"] > old["release"]):
                newest[key] = row
    return tuple(
        TrainingRow(row, _framework(row), zlib.crc32("/".join(key).encode()) % 2 == 0)
        for key, row in newest.items()
        if row["task"] == "pretrain" and row["model"] in MPT | MPT_LARGER | MODELS
    )


def _framework(row: dict[str, str]) -> str:
    names = {"NVIDIA": "megatron", "mosaic": "llm-foundry", "pytorc": "torchtitan"}
    name = names[row["source"][:6]]
    if "rowwise" in row["precision"]:
        return f"{name}-rowwise"
    return "megatron-eager" if name == "megatron" and _eager(row) else name


def _eager(row: dict[str, str]) -> bool:
    """Whether a host launches experts kernel by kernel: not where a graph has the whole step."""
    graphs = row["system"] in ("DGX-GB200", "DGX-GB300") and row["release"] >= GRAPHS_SINCE
    return row["model"].startswith(EXPERTS) and not graphs


def _exchange(row: dict[str, str]) -> dict[str, Any]:
    """How the public recipes exchange tokens: Megatron's all-to-all, or once to each rank or node."""
    if not row["model"].startswith(EXPERTS) or _all_to_all(row):
        return {}
    on_dgx = "GB" not in row["system"]
    return {"exchange": "once", "exchange_node": 8 if on_dgx else 0}


def _all_to_all(row: dict[str, str]) -> bool:
    """What the recipes leave to all-to-all: release 25.09, Qwen's 235B on DGX, most of GPT OSS."""
    on_dgx = "GB" not in row["system"]
    if row["model"] == "GPT OSS 120B":
        on_b300 = row["system"] == "DGX-B300" and row["gbs"] == "1280"
        return row["precision"] != "MXFP8" and not on_b300
    return row["release"] == "25.09" or (on_dgx and row["model"].startswith("Qwen3_235B"))


def _number(row: dict[str, str], name: str, default: int = 1) -> int:
    return int(float(row[name])) if row[name] else default


def _foundry(row: dict[str, str]) -> Workload:
    gpus, steps = int(row["gpus"]), _number(row, "grad_accum")
    micro = int(row["gbs"]) // (gpus * steps)
    shape = MPT_LARGER.get(row["model"], {})
    model = msgspec.structs.replace(
        model_named(MPT.get(row["model"], "gpt3-13b")),
        positions=0,
        kernel="flash",
        dropout=False,
        bias=False,
        qkv_bias=False,
        **shape,
    )
    data = "fsdp" if row["technique"] == "FULL_SHARD" else "zero2"
    plan = Plan(dp=gpus, data=data, recompute=row["recompute"] or "none")
    return Workload(model=model, plan=plan, step=_step(row, gpus * steps * micro, micro))


def _planned(row: dict[str, str]) -> Workload:
    tp, pp, cp, ep, chunks = (_number(row, k) for k in ("tp", "pp", "cp", "ep", "vp"))
    dp = int(row["gpus"]) // (tp * pp * cp)
    micro = _number(row, "mbs")
    titan = _framework(row).startswith("torchtitan")
    local = LOCAL_BATCH.search(row["note"])
    batch = micro * dp * (int(local[1]) if local else 1)
    if titan and "Interleaved" in row["technique"]:
        chunks = 2  # torchtitan's default of stages for each rank
    plan = Plan(
        dp=dp,
        tp=tp,
        pp=pp,
        cp=cp,
        ep=ep,
        data="fsdp" if titan or _number(row, "fsdp", 0) > 1 else "zero1",
        schedule="interleaved" if chunks > 1 else "1f1b",
        chunks=chunks,
        recompute=(row["recompute"].split() or ["none"])[0],
        tp_overlap="Async" in row["technique"] if titan else tp > 1,
        save_gathered=titan,
        reshard="never" if titan and pp > 1 else "default",
        sync="step" if titan and pp > 1 else "auto",
        **_exchange(row),
    )
    step = _step(row, _number(row, "gbs", batch), micro, "" if titan else "bf16")
    name = MODELS[row["model"]]
    model = GPT_OSS if name == GPT_OSS.name else model_named(name)
    return Workload(model=model, plan=plan, step=step)


def _step(row: dict[str, str], batch: int, micro: int, gradients: str = "") -> Step:
    kind = row["precision"].lower()
    if "fp4" in kind:
        raise ChakraError("products in fp4 cannot be generated")
    narrow = "fp8" if "fp8" in kind or "float8" in kind else ""
    return Step(
        seq=int(row["seq"]),
        global_batch=batch,
        micro_batch=micro,
        matmul_dtype=narrow,
        grad_dtype=gradients,
    )


_RESULTS: dict[TrainingRow, float | str] = {}
"""What came of the rows that were tried; several sections ask for the same ones."""


def training_errors(
    data: Path, most_gpus: int = TOO_SLOW
) -> tuple[dict[TrainingRow, float], dict[str, int]]:
    """The error of every row of up to so many GPUs, and how many there are not, by reason."""
    rows = [r for r in training_rows(data) if r.gpus <= most_gpus]
    new = [r for r in rows if r not in _RESULTS]
    _RESULTS.update(zip(new, each(_tried, new), strict=True))
    errors: dict[TrainingRow, float] = {}
    refused: dict[str, int] = {}
    if larger := len(training_rows(data)) - len(rows):
        refused[f"more than {most_gpus} GPUs"] = larger
    for row in rows:
        result = _RESULTS[row]
        if isinstance(result, float):
            errors[row] = result
        else:
            refused[result] = refused.get(result, 0) + 1
    return errors, refused


def _tried(row: TrainingRow) -> float | str:
    """The error of a row, or why there is none."""
    try:
        return row.error()
    except (ChakraError, KeyError) as error:
        return str(error)[:70]


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    errors, refused = training_errors(data)
    sides = [("not fitted", False), ("fitted", True)]
    lines = [
        _line(name, split, [e for r, e in errors.items() if chosen(r) and r.fitted == fitted])
        for name, chosen in _GROUPS.items()
        for split, fitted in sides
    ]
    why = "; ".join(f"{reason} ({count})" for reason, count in sorted(refused.items()))
    rows = [_row(r, e) for r, e in errors.items() if not r.fitted]
    return "\n\n".join(
        [TEXT, table(HEADS, lines), f"Not expressed: {why}.", table(ROW_HEADS, rows)]
    )


_GROUPS = {
    "llm-foundry, A100": lambda r: r.framework == "llm-foundry" and "a100" in r.row["system"],
    "llm-foundry, H100": lambda r: r.framework == "llm-foundry" and "h100" in r.row["system"],
    "Megatron-Bridge, dense, H100": lambda r: r.dense and r.row["system"] == "DGX-H100",
    "Megatron-Bridge, dense, Blackwell": lambda r: r.dense and "B" in r.row["system"][4:6],
    "torchtitan": lambda r: r.framework.startswith("torchtitan"),
    "**all dense**": lambda r: r.dense,
    "experts in CUDA graphs": lambda r: not r.dense and r.framework == "megatron",
    "experts launched by a host": lambda r: r.framework == "megatron-eager",
    "**all experts**": lambda r: not r.dense,
    "all": lambda _: True,
}


def _line(name: str, split: str, errors: list[float]) -> list[str]:
    if not errors:
        return [name, split, "0", "–", "–", "–"]
    size = np.abs(errors)
    figures = (percent(float(size.mean())), percent(float(np.median(size))))
    return [name, split, str(len(errors)), *figures, percent(float(np.mean(errors)), signed=True)]


def _row(row: TrainingRow, error: float) -> list[str]:
    r = row.row
    degrees = ("tp", "pp", "cp", "vp", "ep")
    plan = " ".join(f"{k}{r[k]}" for k in degrees if r[k] not in ("", "1"))
    cells = [r["model"], r["system"].split()[0], r["gpus"], r["precision"], r["seq"], plan or "–"]
    return [*cells, r["release"], f"{row.published:,.0f}", percent(error, signed=True)]


HEADS = ("rows", "split", "number", "mean absolute", "median absolute", "bias")
ROW_HEADS = (
    "model",
    "system",
    "GPUs",
    "precision",
    "sequence",
    "plan",
    "release",
    "tokens/s/GPU",
    "error",
)
TITLE = "Published training runs"
TEXT = """\
Pretraining rows of NVIDIA Megatron-Bridge, MosaicML llm-foundry and torchtitan, the newest release of each
configuration, generated from the published plan and simulated as `chakra generate` and `chakra simulate
--machine PRESET --framework NAME` do. Presets are dgx-a100, dgx-h100, dgx-b200, dgx-b300, gb200-nvl72 and
gb300-nvl72 (64 GPUs of a rack where there are several racks), and `base: dgx-h100` with 2.4 TB/s and 500 W
for torchtitan's H100. Factors of the frameworks (`machines/frameworks.json`) are fitted on configurations
whose CRC-32 is even (benchmarks/fit_frameworks.py; `sustained` of B200 and GB200 on an earlier half of the
dense ones); the others are not fitted, and the last table has them one by one. Models are those of `chakra
models`; MPT is GPT-3's shape with fused attention and no biases, MPT-30b, MPT-70b and GPT OSS 120B have the
shapes of their own files, and DeepSeek-V3 is without its layer that predicts a further token. Rules for what
the tables do not say: nothing is recomputed; Megatron's tensor-parallel collectives run beside their products
(`tp_overlap`); as in its public recipes, tokens go once to each rank (`exchange: once`, on DGX once to each
node) but for Qwen3 235B on DGX, GPT OSS in BF16 (but on B300 with 1,280 sequences) and release 25.09
(`all-to-all`), and whole steps of experts are in CUDA graphs on GB200 and
GB300 from release 26.06 on (`megatron`, else `megatron-eager`); torchtitan's pipelines keep gathered
parameters and reduce gradients once a step. Not modelled of the recipes are exchanges of experts beside
computation, parts of layers in CUDA graphs or computed again, and what changed from release to release."""
