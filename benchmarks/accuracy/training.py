"""Published training throughput, generated and simulated with shipped presets and frameworks."""

from __future__ import annotations

import csv
import zlib
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import maxtext
import msgspec
import numpy as np
from claim import each, kept, machine_of, need, percent, table
from recipes import (
    exchange_of,
    framework_of,
    fuses_experts,
    has_experts,
    narrows_head,
    split_of,
    titan_framework,
    titan_micro_batch,
    titan_plan,
    titan_split,
)

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


def _gpt_oss_layer(window: int, unfused: bool) -> Layer:
    mixer = Attention(
        heads=64, kv_heads=8, head_dim=64, window=window, sinks=True, bias=True, out_bias=True
    )
    experts = Experts(width=2880, bias=True, router_bias=True, unfused=unfused)
    return Layer(mixer=mixer, ffn=experts)


def gpt_oss(unfused: bool) -> Decoder:
    """As its model card says: every other layer attends to 128 tokens."""
    kinds = {"window_moe": _gpt_oss_layer(128, unfused), "moe": _gpt_oss_layer(0, unfused)}
    return Decoder(
        name=GPT_OSS,
        layers=36,
        hidden=2880,
        heads=64,
        kv_heads=8,
        head_dim=64,
        vocab=201088,
        experts=128,
        top_k=4,
        expert_ffn=2880,
        kinds=kinds,
        pattern=["window_moe", "moe"] * 18,
    )


GPT_OSS = "gpt-oss-120b"
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
ROUNDS = 3
"""Rounds of micro-batches through a pipeline after which its steps grow evenly."""


@dataclass(frozen=True, eq=False)
class TrainingRow:
    """A published row that can be expressed, or the reason why it cannot."""

    row: dict[str, str]
    framework: str
    fitted: bool
    """Whether its configuration is among those that factors were fitted on: an even CRC-32."""

    @property
    def published(self) -> float:
        if maxtext.is_maxtext(self.row):
            return maxtext.tokens_per_second(self.row)
        return float(self.row["tokens_per_s_per_gpu"])

    @property
    def gpus(self) -> int:
        return int(self.row["gpus"])

    @property
    def system(self) -> str:
        """What it ran on, whatever the number of devices."""
        if maxtext.is_maxtext(self.row):
            return f"tpu-{maxtext.chip(self.row)}"
        return self.row["system"].split()[0]

    @property
    def dense(self) -> bool:
        return not has_experts(self.row)

    def workload(self) -> Workload:
        if maxtext.is_maxtext(self.row):
            return maxtext.workload(self.row)
        mpt = self.row["model"] in MPT | MPT_LARGER
        return _foundry(self.row) if mpt else _planned(self.row)

    def machine(self) -> Machine:
        if maxtext.is_maxtext(self.row):
            return maxtext.machine(self.row)
        preset = PRESETS.get(self.row["system"])
        if preset is None:
            nodes = -(-self.gpus // 8)
            return parse_machine({"base": "dgx-h100", "nodes": nodes, "device": TORCHTITAN}, "m")
        node = 8 if "nvl72" not in preset else 72 if self.gpus <= 72 else RACK
        return machine_of(f"{preset}:{-(-self.gpus // node)}")

    def simulated(self, framework: str, micro_batches: int = 0) -> Simulation:
        """The step, or one of so many micro-batches."""
        w, options = self.workload(), SimulationOptions(framework=framework)
        batch = micro_batches * w.plan.dp * w.step.micro_batch or w.step.global_batch
        shorter = msgspec.structs.replace(
            w, step=msgspec.structs.replace(w.step, global_batch=batch)
        )
        return simulate(generate(shorter), self.machine(), options=options)

    def micro_batches(self) -> dict[int, float]:
        """Steps of how many micro-batches give the published one, and with which weights they do.

        Between the beginning and the end of a long step each micro-batch takes as long: two shorter steps
        say how long.
        """
        w = self.workload()
        whole = w.step.global_batch // (w.plan.dp * w.step.micro_batch)
        first = max(4, ROUNDS * w.plan.pp)
        second = first + max(2, w.plan.pp)
        if whole <= second:
            return {whole: 1.0}
        more = (whole - first) / (second - first)
        return {first: 1 - more, second: more}

    def seconds(self, framework: str) -> float:
        """The time of a step."""
        runs = {count: self.simulated(framework, count) for count in self.micro_batches()}
        return sum(runs[n].makespan_ns * w for n, w in self.micro_batches().items()) * 1e-9

    def error(self) -> float:
        """Predicted over published tokens per second, less 1."""
        step = self.workload().step
        tokens = step.global_batch * step.seq
        return tokens / self.seconds(self.framework) / self.gpus / self.published - 1


@cache
def training_rows(data: Path) -> tuple[TrainingRow, ...]:
    """Rows with a model and a system that we have, the newest release of each configuration."""
    newest: dict[tuple[str, ...], dict[str, str]] = {}
    with need(data, "training", "throughput.csv").open() as file:
        for row in csv.DictReader(file):
            key = tuple(v or UNSTATED.get(n, "") for n, v in row.items() if n not in RESULTS)
            old = newest.get(key)
            if _is_known(row) and (old is None or row["release"] > old["release"]):
                newest[key] = row
    return tuple(
        TrainingRow(row, _framework(row), _is_fitted(row, key)) for key, row in newest.items()
    )


def _is_known(row: dict[str, str]) -> bool:
    """Whether there is a model for a row, and a figure of pretraining."""
    known = row["tokens_per_s_per_gpu"] and row["model"] in MPT | MPT_LARGER | MODELS
    return row["task"] == "pretrain" and bool(known or maxtext.is_maxtext(row))


def _is_fitted(row: dict[str, str], key: tuple[str, ...]) -> bool:
    """Nothing is fitted on TPUs."""
    return zlib.crc32("/".join(key).encode()) % 2 == 0 and not maxtext.is_maxtext(row)


def _not_described(data: Path) -> dict[str, int]:
    """How many configurations are left out because of their task, model or system."""
    keys: dict[str, set[tuple[str, ...]]] = {}
    with need(data, "training", "throughput.csv").open() as file:
        for row in csv.DictReader(file):
            if _is_known(row):
                continue
            known = row["model"] in MPT | MPT_LARGER | MODELS
            reason = row["model"].split("_")[0] if row["task"] == "pretrain" else "fine-tuning"
            reason = "no tokens per second" if known and row["task"] == "pretrain" else reason
            key = tuple(v or UNSTATED.get(n, "") for n, v in row.items() if n not in RESULTS)
            keys.setdefault(reason, set()).add(key)
    return {reason: len(rows) for reason, rows in keys.items()}


def _framework(row: dict[str, str]) -> str:
    if maxtext.is_maxtext(row):
        return "maxtext"
    names = {"NVIDIA": "megatron", "mosaic": "llm-foundry", "pytorc": "torchtitan"}
    name = names[row["source"][:6]]
    if name == "torchtitan":
        return titan_framework(row)
    return framework_of(row) if name == "megatron" else name


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
    if _framework(row).startswith("torchtitan"):
        return _titan(row)
    tp, pp, cp, ep, chunks = (_number(row, k) for k in ("tp", "pp", "cp", "ep", "vp"))
    dp = int(row["gpus"]) // (tp * pp * cp)
    micro = _number(row, "mbs")
    plan = Plan(
        dp=dp,
        tp=tp,
        pp=pp,
        cp=cp,
        ep=ep,
        data="fsdp" if _number(row, "fsdp", 0) > 1 else "zero1",
        schedule="interleaved" if chunks > 1 else "1f1b",
        chunks=chunks,
        split=split_of(row, pp * chunks),
        tp_overlap=tp > 1,
        save_gathered=False,
        **exchange_of(row),
    )
    step = _step(row, _number(row, "gbs", micro * dp), micro, "bf16")
    name = MODELS[row["model"]]
    model = gpt_oss(not fuses_experts(row)) if name == GPT_OSS else model_named(name)
    return Workload(model=model, plan=plan, step=step)


def _titan(row: dict[str, str]) -> Workload:
    tp, pp, cp = (_number(row, k) for k in ("tp", "pp", "cp"))
    dp = int(row["gpus"]) // (tp * pp * cp)
    plan = Plan(dp=dp, tp=tp, pp=pp, cp=cp, **titan_plan(row, pp))
    micro = titan_micro_batch(row, pp)
    model = msgspec.structs.replace(model_named(MODELS[row["model"]]), fused=False)
    if pp > 1:
        plan = msgspec.structs.replace(plan, split=titan_split(model.layers, pp * plan.chunks))
    return Workload(model=model, plan=plan, step=_step(row, micro * dp * pp, micro))


def _step(row: dict[str, str], batch: int, micro: int, gradients: str = "") -> Step:
    kind = row["precision"].lower()
    narrow = next((t for t in ("fp8", "fp4") if t in kind.replace("float", "fp")), "")
    return Step(
        seq=int(row["seq"]),
        global_batch=batch,
        micro_batch=micro,
        matmul_dtype=narrow,
        narrow_head=narrows_head(row),
        grad_dtype=gradients,
    )


def training_errors(data: Path) -> tuple[dict[TrainingRow, float], dict[str, int]]:
    """The error of every row, and how many there are not, by reason."""
    rows = training_rows(data)
    found = kept("training", partial(each, _tried, rows))  # several sections ask for them
    results = dict(zip(rows, found, strict=True))
    errors: dict[TrainingRow, float] = {}
    refused: dict[str, int] = {}
    for row in rows:
        result = results[row]
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
    refused |= _not_described(data)
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
    "MaxText, TPU": lambda r: r.framework == "maxtext",
    "**all dense**": lambda r: r.dense,
    "fused experts in CUDA graphs": lambda r: not r.dense and r.framework == "megatron",
    "experts in CUDA graphs": lambda r: r.framework == "megatron-unfused",
    "experts launched by a host": lambda r: r.framework in ("megatron-eager", "megatron-layers"),
    "GPT OSS": lambda r: r.row["model"].startswith("GPT OSS"),
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
    system = r["system"].removeprefix("TPU ").split()[0]
    cells = [r["model"], system, r["gpus"], r["precision"], r["seq"], plan or "–"]
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
Pretraining rows of NVIDIA Megatron-Bridge, MosaicML llm-foundry, torchtitan and MaxText, the newest
release of each configuration, generated from the published plan and simulated as `chakra generate` and
`chakra simulate --machine PRESET --framework NAME` do, up to 1,024 GPUs and 8,192 TPUs. Presets are
dgx-a100, dgx-h100, dgx-b200, dgx-b300, gb200-nvl72 and gb300-nvl72 (64 GPUs of a rack where there are
several racks), `base: dgx-h100` with 2.4 TB/s and 500 W for torchtitan's H100, and tpu-v4, tpu-v5e and
tpu-v5p, several slices on a switch of 25 Gb/s (v5e) or 50 Gb/s a chip. Steps of many micro-batches are
extended from two shorter ones, between which every micro-batch takes as long (equal to 0.00 % where both
were tried). Factors of the frameworks (`machines/frameworks.json`) are fitted on configurations whose
CRC-32 is even (benchmarks/fit_frameworks.py; `sustained` of B200 and GB200 on an earlier half of the
dense ones); the others are not fitted, and the last table has them one by one. On TPUs nothing is fitted,
and all rows are tests. Models are those of `chakra models`; MPT is GPT-3's shape with fused attention and
no biases, MPT-30b, MPT-70b, GPT OSS 120B and MaxText's have the shapes of their own files, and
DeepSeek-V3 is without its layer that predicts a further token.

Rules for what the tables do not say are those of the public recipes and code
(benchmarks/accuracy/recipes.py and maxtext.py, which name them). Megatron: nothing is recomputed;
tensor-parallel collectives run beside their products (`tp_overlap`); products of layers alone are narrow,
and of GPT OSS in MXFP8 on GB200 and GB300 the head's as well; layers of each virtual stage (`split`);
tokens go once to each rank (`exchange: once`, on DGX once to each node) or a copy to each expert
(`all-to-all`), in some recipes beside computation (`exchange_overlap`). Whole steps of fused experts are
in CUDA graphs (`megatron`), or of experts that are not (`megatron-unfused`), layers without experts
(`megatron-layers`), or nothing (`megatron-eager`). torchtitan: checkpoints compute again what gradients
read (`recompute: needed`), its selective ones less (`operators`); gathers and scatters along the sequence
have a copy beside them (`sequence_dim: second`) but with async TP; a pipeline has as many micro-batches
as ranks, which was the default at the time, keeps gathered parameters and reduces gradients once a step.
MaxText: `full` and `qkv_proj_offloaded` are `recompute: needed`, `minimal` is `others`; its TFLOP/s are
turned into tokens by its own count of FLOPs.

What to doubt: constants of experts are flat (among those within 2 % of the least mean error `experts` is
1.0 to 1.4 and `expert_vector` 2 to 3); `experts_us` is taken from a host that was measured, because the
fitted half does not show it, and was chosen so after the other half had been seen with 5 µs; the rules on
overlap, splits and unfused graphs, and all of torchtitan's, were read after rows that are not fitted had
been seen, and apply to both halves; so was a limit on what idle seconds of a pipeline let a device draw
afterwards (docs/simulator.md), without which torchtitan's large pipelines are 30 to 48 % too fast (with a
tenth of a second instead of one they are 6 % too slow to 5 % too fast). MaxText's tables call their
figures expected ones. Not modelled of the recipes are attention in FP8, modules that are computed again
(of GPT OSS norms and activations of experts, some 4 % of a step), weights' gradients that are put off,
async TP that hides less than all it could, and what changed from release to release. GPT OSS stays too
fast: its recipes give no further reason. Nemotron is not on the page: its scan was never measured, and
with what is assumed of it Nano comes out 35 to 50 % too fast. Factors of llm-foundry were fitted while
heads were as narrow as layers, which moves its FP8 rows.

Memory: 17 of these plans need more than their device has. Recipes of 11 of them keep less than is
generated here: Llama-3 with FSDP moves activations of 20 or 40 of 80 layers (70B) or 92 of 126 (405B) to
the host, with which 307 GiB become 234 on GB300 (of 268) and 162 on GB200 (of 184), and DeepSeek-V3 and
GPT OSS compute modules again. One is 0.3 GiB over, two of Llama-3 70B (release 26.02.01, two sequences)
have other stages than the recipes, and three of MaxText on v5p need 101 to 108 GiB of 88."""
