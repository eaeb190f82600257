"""Plans of training as the settings of frameworks: torchtitan, Megatron-Core and NeMo, DeepSpeed, Accelerate.

What a framework has no setting for is said beside what was written, never dropped in silence. Names and
values are those of torchtitan 0.2, Megatron-Core 0.16, DeepSpeed 0.19 and Accelerate 1.15.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import yaml

from chakrakit.operators import element_type
from chakrakit.workloads.description import Workload


class Configuration(NamedTuple):
    """A file for a framework, and what of the plan it cannot say."""

    file: str
    text: str
    missing: tuple[str, ...] = ()


_TITAN_SCHEDULES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "zb-h1": "InterleavedZeroBubble",
    "zb-v": "ZBVZeroBubble",
    "dualpipe": "DualPipeV",
}
_TITAN_CHECKPOINTS = {"needed": "full", "operators": "selective", "others": "selective"}


def torchtitan(workload: Workload) -> Configuration:
    """Torchtitan's TOML: degrees, batch, schedule and recomputation."""
    plan, step = workload.plan, workload.step
    shards = plan.shard or plan.dp * plan.cp
    sharded = plan.data in ("fsdp", "zero1", "zero2")
    shard = max(shards // plan.cp, 1) if sharded else 1
    missing = []
    if plan.data in ("zero1", "zero2"):
        missing.append(f"{plan.data}: torchtitan shards parameters too (fsdp)")
    if plan.context == "ulysses":
        missing.append("context parallelism by exchanging heads: torchtitan passes keys around")
    if plan.recompute in ("selective", "others"):
        missing.append(f"recompute {plan.recompute}: torchtitan's selective mode is `operators`")
    parameters = element_type("bf16" if step.dtype == "bf16" else "fp32")  # all that torchtitan has
    sections: dict[str, dict[str, Any]] = {
        "training": {
            "local_batch_size": step.micro_batch * (_micro_batches(workload) if plan.pp > 1 else 1),
            "global_batch_size": step.global_batch,
            "seq_len": step.seq,
            "mixed_precision_param": parameters.torch,
        },
        "parallelism": {
            "data_parallel_replicate_degree": plan.dp // shard,
            "data_parallel_shard_degree": shard,
            "fsdp_reshard_after_forward": plan.reshard,
            "tensor_parallel_degree": plan.tp,
            "pipeline_parallel_degree": plan.pp,
            "pipeline_parallel_schedule": _TITAN_SCHEDULES.get(plan.schedule, "1F1B"),
            "pipeline_parallel_microbatch_size": step.micro_batch,
            "context_parallel_degree": plan.cp,
            "expert_parallel_degree": plan.ep,
        },
        "activation_checkpoint": {"mode": _TITAN_CHECKPOINTS.get(plan.recompute, plan.recompute)},
    }
    return Configuration("torchtitan.toml", _toml(sections), tuple(missing))


def _toml(sections: dict[str, dict[str, Any]]) -> str:
    parts = []
    for name, fields in sections.items():
        lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
        parts.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _micro_batches(workload: Workload) -> int:
    """Micro-batches of a replica in a step."""
    replicas = max(workload.plan.dp, 1) * max(workload.step.micro_batch, 1)
    return max(workload.step.global_batch // replicas, 1)


def megatron_arguments(workload: Workload) -> dict[str, Any]:
    """Megatron-Core's settings by the names of its `ModelParallelConfig` and of Megatron-LM's arguments."""
    plan, step = workload.plan, workload.step
    arguments: dict[str, Any] = {
        "tensor_model_parallel_size": plan.tp,
        "pipeline_model_parallel_size": plan.pp,
        "context_parallel_size": plan.cp,
        "expert_model_parallel_size": plan.ep,
        "sequence_parallel": plan.sequence_parallel and plan.tp > 1,
        "tp_comm_overlap": plan.tp_overlap and plan.tp > 1,
    }
    if plan.schedule == "interleaved" and plan.chunks > 1:
        arguments["virtual_pipeline_model_parallel_size"] = plan.chunks
    return arguments | {
        "micro_batch_size": step.micro_batch,
        "global_batch_size": step.global_batch,
        "seq_length": step.seq,
        "use_distributed_optimizer": plan.data in ("zero1", "zero2", "fsdp"),
        "bf16": step.dtype == "bf16",
        **_recompute(plan.recompute),
    }


def _recompute(mode: str) -> dict[str, Any]:
    if mode in ("full", "needed"):
        return {
            "recompute_granularity": "full",
            "recompute_method": "uniform",
            "recompute_num_layers": 1,
        }
    return {"recompute_granularity": "selective"} if mode == "selective" else {}


def megatron(workload: Workload) -> Configuration:
    """Megatron-LM's arguments, one a line, for `$(cat megatron.args)`."""
    lines = []
    for name, value in megatron_arguments(workload).items():
        flag = "--" + name.replace("_", "-")
        if name == "virtual_pipeline_model_parallel_size":
            flag = "--num-virtual-stages-per-pipeline-rank"
        if value is not False:
            lines.append(flag if value is True else f"{flag} {value}")
    return Configuration("megatron.args", "\n".join(lines) + "\n", _megatron_missing(workload))


def _megatron_missing(workload: Workload) -> tuple[str, ...]:
    plan = workload.plan
    missing = []
    if plan.data in ("zero2", "fsdp"):
        missing.append(f"{plan.data}: the distributed optimizer shards its own state alone")
    if plan.schedule not in ("1f1b", "interleaved"):
        missing.append(f"schedule {plan.schedule}: Megatron runs 1f1b, or interleaved with chunks")
    if plan.recompute in ("operators", "others"):
        missing.append(f"recomputation of {plan.recompute}: Megatron names modules")
    return tuple(missing)


def nemo(workload: Workload) -> Configuration:
    """NeMo's strategy and data, as YAML with the names of its `MegatronStrategy`."""
    arguments = megatron_arguments(workload)
    data = {k: arguments.pop(k) for k in ("micro_batch_size", "global_batch_size", "seq_length")}
    optimizer = arguments.pop("use_distributed_optimizer")
    precision = "bf16-mixed" if arguments.pop("bf16") else "32-true"
    recompute = {k: arguments.pop(k) for k in list(arguments) if k.startswith("recompute")}
    content = {
        "trainer": {
            "devices": "auto",
            "precision": precision,
            "strategy": {**arguments, "ddp": {"use_distributed_optimizer": optimizer}},
        },
        "model": {"config": recompute},
        "data": data,
    }
    return Configuration(
        "nemo.yaml", yaml.safe_dump(content, sort_keys=False), _megatron_missing(workload)
    )


_STAGES = {"ddp": 0, "none": 0, "zero1": 1, "zero2": 2, "fsdp": 3}


def deepspeed(workload: Workload) -> Configuration:
    """DeepSpeed's JSON: batch, ZeRO's stage, precision."""
    plan, step = workload.plan, workload.step
    stage = _STAGES[plan.data]
    content: dict[str, Any] = {
        "train_batch_size": step.global_batch,
        "train_micro_batch_size_per_gpu": step.micro_batch,
        "gradient_accumulation_steps": _micro_batches(workload),
        "bf16": {"enabled": step.dtype == "bf16"},
        "fp16": {"enabled": step.dtype == "fp16"},
        "zero_optimization": {"stage": stage, "overlap_comm": stage > 0},
    }
    if plan.tp > 1:
        content["tensor_parallel"] = {"autotp_size": plan.tp}
    missing = [
        f"{axis} {size}: set it in the script"
        for axis, size in (("pp", plan.pp), ("cp", plan.cp), ("ep", plan.ep))
        if size > 1
    ]
    if plan.recompute != "none":
        missing.append(f"{plan.recompute} recomputation: the script checkpoints activations")
    return Configuration("deepspeed.json", json.dumps(content, indent=2) + "\n", tuple(missing))


def accelerate(workload: Workload) -> Configuration:
    """Accelerate's YAML: FSDP 2, or plain data parallelism."""
    plan, step = workload.plan, workload.step
    shards = plan.data in ("fsdp", "zero1", "zero2")
    content: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP" if shards else "MULTI_GPU",
        "mixed_precision": "bf16" if step.dtype == "bf16" else "no",
        "num_machines": 1,
        "num_processes": plan.world,
        "machine_rank": 0,
        "main_training_function": "main",
        "use_cpu": False,
    }
    if shards:
        content["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": plan.data == "fsdp" and plan.reshard != "never",
            "fsdp_activation_checkpointing": plan.recompute in ("full", "needed"),
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        }
    degrees = {
        "parallelism_config_dp_replicate_size": plan.dp
        * plan.cp
        // (plan.shard or plan.dp * plan.cp),
        "parallelism_config_dp_shard_size": (plan.shard or plan.dp * plan.cp) // plan.cp,
        "parallelism_config_tp_size": plan.tp,
        "parallelism_config_cp_size": plan.cp,
    }
    if plan.tp > 1 or plan.cp > 1:
        content["parallelism_config"] = degrees
    missing = [
        f"{a} {n}: Accelerate has no such axis"
        for a, n in (("pp", plan.pp), ("ep", plan.ep))
        if n > 1
    ]
    missing.append(
        f"batches of {step.micro_batch}, {_micro_batches(workload)} to a step: set in the script"
    )
    return Configuration(
        "accelerate.yaml", yaml.safe_dump(content, sort_keys=False), tuple(missing)
    )


TRAINING: dict[str, Callable[[Workload], Configuration]] = {
    "torchtitan": torchtitan,
    "megatron": megatron,
    "nemo": nemo,
    "deepspeed": deepspeed,
    "accelerate": accelerate,
}
"""Frameworks by name."""
