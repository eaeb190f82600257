"""Small models that were recorded with PyTorch over gloo: same matmuls, same communication.

The figures are what the recorded operators' shapes add up to, and the collectives and messages that
each rank issued in a step, in elements of fp32.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from chakrakit.workloads.description import Convolutional, Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import generate, generated

GPT: dict[str, Any] = {
    "layers": 2,
    "hidden": 128,
    "heads": 4,
    "vocab": 512,
    "ffn": 512,
    "positions": 64,
    "norm": "layer",
    "activation": "gelu",
    "bias": True,
    "fused": False,
    "causal": False,
}
EXPERTS: dict[str, Any] = {**GPT, "experts": 4, "top_k": 1, "expert_ffn": 512, "router_bias": True}
QUIET: dict[str, Any] = {"clip": False, "loss_reduce": False}
LAYER, ROOT = (
    198_272,
    139_520,
)  # weights of a layer, and of embedding, positions, last norm and head

RECORDED = {
    "single": (Decoder(**GPT), Plan(), {}, 704_643_072, 50_331_648, {}),
    "ddp 2": (
        Decoder(**GPT),
        Plan(dp=2, bucket_mb=0.25),
        {},
        704_643_072,
        50_331_648,
        {"ALL_REDUCE": [65536, 65920, 66048, 66304, 65920, 66048, 66304, 73984]},
    ),
    "fsdp 2": (
        Decoder(**GPT),
        Plan(dp=2, data="fsdp", units="root", reshard="always"),
        {},
        704_643_072,
        50_331_648,
        {"ALL_GATHER": [ROOT // 2, *[LAYER // 2] * 4], "REDUCE_SCATTER": [LAYER, LAYER, ROOT]},
    ),
    "tp 2": (
        Decoder(**GPT),
        Plan(tp=2, sequence_parallel=False, vocab_parallel=False, shared_reduce=False),
        {},
        402_653_184,
        25_165_824,
        {"ALL_REDUCE": [4 * 64 * 128] * 12},
    ),
    "fsdp 2 tp 2": (
        Decoder(**GPT),
        Plan(
            dp=2,
            tp=2,
            data="fsdp",
            units="root",
            reshard="always",
            sequence_parallel=False,
            vocab_parallel=False,
            shared_reduce=False,
        ),
        {},
        402_653_184,
        25_165_824,
        {
            "ALL_GATHER": [ROOT // 2, *[49_760] * 4],
            "REDUCE_SCATTER": [99_520, 99_520, ROOT],
            "ALL_REDUCE": [4 * 64 * 128] * 12,
        },
    ),
    "pp 2, first": (
        Decoder(**GPT),
        Plan(pp=2),
        {"micro_batch": 2},
        301_989_888,
        25_165_824,
        {"SEND": [2 * 64 * 128] * 2, "RECV": [2 * 64 * 128] * 2},
    ),
    "pp 2, last": (
        Decoder(**GPT),
        Plan(pp=2),
        {"micro_batch": 2},
        402_653_184,
        25_165_824,
        {"SEND": [2 * 64 * 128] * 2, "RECV": [2 * 64 * 128] * 2},
    ),
    "ep 4": (
        Decoder(**EXPERTS),
        Plan(dp=4, ep=4, data="none"),
        {},
        706_215_936,
        50_331_648,
        {"ALL_TO_ALL": [256 * 128] * 8},
    ),
    "cnn": (Convolutional(layers=6, width=16), Plan(), {}, 346_816_512 + 3_840, 0, {}),
    "cnn ddp 2": (
        Convolutional(layers=6, width=16),
        Plan(dp=2),
        {},
        346_816_512 + 3_840,
        0,
        {"BROADCAST": [224, 7 * 2], "ALL_REDUCE": [14_650]},
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name: str) -> None:
    model, plan, changes, matmul, attention, communication = RECORDED[name]
    step = Step(
        seq=64, global_batch=4 * plan.dp, dtype="fp32", **{"micro_batch": 4, **QUIET, **changes}
    )
    made = generated(Workload(model=model, plan=plan, step=step))
    one = made.classes[-1 if name.endswith("last") else 0]
    ops = one.layout.book.ops.texts
    work: Counter[str] = Counter()
    for op, flops in zip(one.program.columns["op"], one.program.columns["flops"], strict=True):
        work[ops[op]] += int(flops)
    assert work["matmul"] == matmul
    assert work["attention"] == attention
    trace = generate(made.workload).trace(int(one.ranks[0]))
    found: dict[str, list[int]] = {}
    for node in (trace[i] for i in range(len(trace))):
        size = node.get("comm_size")
        if size is not None:
            kind = node.collective or node.type.removeprefix("COMM_").removesuffix("_NODE")
            found.setdefault(kind, []).append(size // 4)
    assert {k: sorted(v) for k, v in found.items()} == {
        k: sorted(v) for k, v in communication.items()
    }
    if name == "ddp 2":
        assert found == communication  # buckets, in the order in which they fill
