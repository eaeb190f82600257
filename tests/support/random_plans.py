"""Random workloads that can be: every option of a plan meets every other sooner or later."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Decoder, Lengths, Plan, Step, Workload, check
from chakrakit.workloads.program import WorkloadLayout


def random_workload(rng: Random) -> Workload:
    """A workload that passes the checks."""
    while True:
        found = _drawn(rng)
        try:
            check(found)
            assert WorkloadLayout(found).schedule
        except ConfigError:
            continue
        return found


def _drawn(rng: Random) -> Workload:
    moe = rng.random() < 0.4
    plan = _plan(rng, moe)
    batches, micro = rng.choice([1, 2, 4, 8]), rng.choice([1, 2])
    step = Step(
        seq=64,
        global_batch=plan.dp * batches * micro,
        micro_batch=micro,
        dtype=rng.choice(["bf16", "fp32"]),
        matmul_dtype=rng.choice(["", "fp8"]),
        dispatch_dtype=rng.choice(["", "fp8"]) if moe else "",
        grad_dtype=rng.choice(["", "bf16"]),
        optimizer=rng.choice(["adam", "sgd", "none"]),
        imbalance=rng.choice([0, 0.3]) if moe else 0,
        lengths=rng.choice([Lengths(), Lengths(), Lengths(mean=16, distribution="lognormal")]),
        seed=rng.randrange(1000),
    )
    return Workload(model=_model(rng, moe), plan=plan, step=step)


def _model(rng: Random, moe: bool) -> Decoder:
    extra: dict[str, Any] = {}
    if moe:
        extra = {
            "experts": 8,
            "top_k": 2,
            "expert_ffn": 32,
            "shared_experts": rng.choice([0, 1]),
            "dense_layers": rng.choice([0, 1]),
            "router_bias": rng.random() < 0.3,
        }
    if rng.random() < 0.2:
        extra |= {
            "kv_lora": 16,
            "rope_dim": 8,
            "nope_dim": 8,
            "value_dim": 8,
            "q_lora": rng.choice([0, 16]),
        }
    return Decoder(
        layers=rng.choice([4, 5, 8]),
        hidden=64,
        heads=8,
        kv_heads=rng.choice([4, 8]),
        ffn=128,
        vocab=rng.choice([96, 101]),
        fused=rng.random() < 0.7,
        tied=rng.random() < 0.3,
        bias=rng.random() < 0.3,
        norm=rng.choice(["rms", "layer"]),
        dropout=rng.random() < 0.3,
        activation=rng.choice(["swiglu", "gelu"]),
        kernel=rng.choice(["flash", "unfused"]),
        qk_norm=rng.random() < 0.2,
        positions=rng.choice([0, 64]),
        **extra,
    )


def _plan(rng: Random, moe: bool) -> Plan:
    dp, cp = rng.choice([1, 2, 4]), rng.choice([1, 1, 2])
    schedule = rng.choice(["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe"])
    plan = Plan(
        dp=dp,
        cp=cp,
        tp=rng.choice([1, 1, 2, 4]),
        pp=rng.choice([1, 2, 4]),
        ep=rng.choice([1, 2, 4]) if moe else 1,
        sequence_parallel=rng.random() < 0.6,
        vocab_parallel=rng.random() < 0.7,
        save_gathered=rng.random() < 0.5,
        shared_reduce=rng.random() < 0.7,
        context=rng.choice(["gather", "ring", "ulysses"]),
        data=rng.choice(["ddp", "zero1", "zero2", "fsdp", "none"]),
        shard=rng.choice([0, 0, 2]),
        reshard=rng.choice(["always", "never", "default"]),
        units=rng.choice(["layer", "root"]),
        prefetch=rng.choice([0, 1, 2]),
        sync=rng.choice(["auto", "step", "micro_batch"]),
        bucket_mb=rng.choice([0, 0.01]),
        schedule=schedule,
        chunks=2 if schedule == "interleaved" else 1,
        recompute=rng.choice(["none", "selective", "full"]),
        order=rng.choice(["tp-cp-dp-pp", "dp-tp-cp-pp", "tp-cp-ep-dp-pp"]),
        strict=rng.random() < 0.8,
    )
    each = plan.data in ("zero2", "fsdp")
    alone = plan.sync == "micro_batch" and not each  # others reduce once a step
    return msgspec.structs.replace(plan, sync="auto") if alone else plan
