"""Published training throughput on H100, generated and simulated with one set of constants."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from claim import machine_of, need, percent, table

from chakrakit import Machine
from chakrakit.errors import ChakraError
from chakrakit.simulator.results import simulate
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

EARLY_ATTENTION = 0.154
"""Share of the 16-bit peak that FlashAttention 1 reaches, which llm-foundry ran; fitted. The preset says what
fused attention of today reaches."""
FITTED_UP_TO = 64
"""GPUs: every other row up to here was fitted."""
MPT = {
    "MPT-125m": "gpt3-125m",
    "MPT-350m": "gpt3-350m",
    "MPT-760m": "gpt3-760m",
    "MPT-1b": "gpt3-1.3b",
    "MPT-3b": "gpt3-2.7b",
    "MPT-7b": "gpt3-6.7b",
    "MPT-13b": "gpt3-13b",
}
BRIDGE = {
    "LLAMA3_8B": "llama3-8b",
    "LLAMA3_70B": "llama3-70b",
    "LLAMA3.1_405B": "llama3.1-405b",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "DeepSeekV3": "deepseek-v3",
}


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    with need(data, "training", "throughput.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if r["task"] == "pretrain"]
    found, refused = [], []
    fitted = set()
    for row, workload in _workloads(rows):
        try:
            tokens = _tokens(workload, early=row["model"] in MPT)
            found.append((row, tokens / float(row["tokens_per_s_per_gpu"]) - 1))
        except ChakraError as error:
            refused.append(f"{row['model']} on {row['gpus']}: {error}")
            continue
        if int(row["gpus"]) <= FITTED_UP_TO and len(found) % 2:
            fitted.add(len(found) - 1)
    kept = [e for i, (_, e) in enumerate(found) if i not in fitted]
    mean = percent(float(np.abs([e for _, e in found]).mean()))
    text = f"{TEXT} Mean absolute error: **{mean}**; over the {len(kept)} rows not fitted "
    text += f"{percent(float(np.abs(kept).mean()))}."
    if refused:
        text += " Not expressible: " + "; ".join(refused) + "."
    return "\n\n".join([text, table(HEADS, [_line(row, error) for row, error in found])])


def _workloads(rows: list[dict[str, str]]) -> list[tuple[dict[str, str], Workload]]:
    newest: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        if (
            "Megatron-Bridge" in row["source"]
            and row["system"] == "DGX-H100"
            and row["model"] in BRIDGE
        ):
            names = (
                "model",
                "gpus",
                "precision",
                "gbs",
                "mbs",
                "seq",
                "tp",
                "pp",
                "cp",
                "vp",
                "ep",
            )
            key = tuple(row[n] for n in names)
            old = newest.get(key)
            if row["tokens_per_s_per_gpu"] and (old is None or row["release"] > old["release"]):
                newest[key] = row
    out = [(row, _bridge(row)) for row in newest.values()]
    for row in rows:
        if (
            "llm-foundry" in row["source"]
            and row["system"].startswith("h100")
            and row["model"] in MPT
        ):
            out.append((row, _foundry(row)))
    return out


def _foundry(row: dict[str, str]) -> Workload:
    gpus, steps = int(row["gpus"]), int(row["grad_accum"] or 1)
    micro = int(row["gbs"]) // (gpus * steps)
    model = msgspec.structs.replace(
        model_named(MPT[row["model"]]),
        positions=0,
        kernel="flash",
        dropout=False,
        bias=False,
        qkv_bias=False,
    )
    data = "fsdp" if row["technique"] == "FULL_SHARD" else "zero2"
    plan = Plan(dp=gpus, data=data, recompute=row["recompute"] or "none")
    return Workload(model=model, plan=plan, step=_step(row, gpus * steps * micro, micro))


def _bridge(row: dict[str, str]) -> Workload:
    gpus = int(row["gpus"])
    tp, pp, cp, ep, chunks = (int(row[k] or 1) for k in ("tp", "pp", "cp", "ep", "vp"))
    plan = Plan(
        dp=gpus // (tp * pp * cp),
        tp=tp,
        pp=pp,
        cp=cp,
        ep=ep,
        data="fsdp" if int(row["fsdp"] or 0) > 1 else "zero1",
        schedule="interleaved" if chunks > 1 else "1f1b",
        chunks=chunks,
        recompute=row["recompute"] or "none",
        tp_overlap=tp > 1,
    )
    step = _step(row, int(row["gbs"]), int(row["mbs"]))
    return Workload(model=model_named(BRIDGE[row["model"]]), plan=plan, step=step)


def _step(row: dict[str, str], batch: int, micro: int) -> Step:
    eight = "fp8" if "fp8" in row["precision"].lower() else ""
    return Step(seq=int(row["seq"]), global_batch=batch, micro_batch=micro, matmul_dtype=eight)


def _tokens(workload: Workload, early: bool) -> float:
    """Tokens per second and GPU."""
    world = workload.plan.world
    machine = machine_of(f"dgx-h100:{max(1, world // 8)}")
    if early:
        machine = _with_early_attention(machine)
    took = simulate(generate(workload), machine).makespan_ns * 1e-9
    return workload.step.global_batch * workload.step.seq / took / world


def _with_early_attention(machine: Machine) -> Machine:
    (device,) = machine.devices
    shares = {**device.achieved, "attention": EARLY_ATTENTION}
    return replace(machine, devices=(msgspec.structs.replace(device, achieved=shares),))


def _line(row: dict[str, str], error: float) -> list[str]:
    plan = " ".join(
        f"{k}{row[k]}" for k in ("tp", "pp", "cp", "vp", "ep") if row[k] not in ("", "1")
    )
    how = row["technique"] or f"release {row['release']}"
    published = float(row["tokens_per_s_per_gpu"])
    cells = [row["model"], row["gpus"], row["precision"], row["seq"], plan or "–", how]
    return [
        *cells,
        row["recompute"] or "not said",
        f"{published:,.0f}",
        percent(error, signed=True),
    ]


HEADS = (
    "model",
    "GPUs",
    "precision",
    "sequence",
    "plan",
    "how",
    "recompute",
    "tokens/s/GPU",
    "error",
)
TITLE = "Published training runs on H100"
TEXT = f"""\
Pretraining rows of NVIDIA Megatron-Bridge (DGX H100, newest release of each configuration) and of
MosaicML llm-foundry (H100) whose models `chakra models` has (MPT is GPT-3's shape with fused attention and
no biases), generated from the published plan and simulated on `dgx-h100` as `chakra generate` and
`chakra simulate` do. The shares of peak rates and bandwidth are the preset's own (`achieved` in
dgx-h100.yaml), one set for all rows; llm-foundry ran FlashAttention 1, which reaches
{EARLY_ATTENTION:.0%} of the peak. All but the rate of today's attention are fitted, on every other row of
up to {FITTED_UP_TO} GPUs. Two rules for what the tables do not say: nothing is recomputed, and Megatron's
tensor-parallel collectives run beside their products (`tp_overlap`), as its recipes have it."""
