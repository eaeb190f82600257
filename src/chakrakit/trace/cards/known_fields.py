"""What a trace says of itself, as the fields of a workload's card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chakrakit import __version__
from chakrakit.trace.sets import Card, Run, TraceSet

WORKLOAD = "workload"
"""Where in `Card.extra` a workload's card is kept with its traces."""
_PHASES = {"train": "training", "prefill": "inference", "decode": "inference", "serve": "serving"}
_ARCH = {
    "num_layers": "layers",
    "num_heads": "heads",
    "num_kv_heads": "kv_heads",
    "head_dim": "head_dim",
    "hidden_size": "hidden",
    "intermediate_size": "ffn",
    "vocab_size": "vocab",
    "num_experts": "experts",
    "num_experts_per_tok": "top_k",
    "num_shared_experts": "shared_experts",
}


def known_card(traces: TraceSet) -> dict[str, Any]:
    """The fields that are known without asking anybody, as nested dictionaries."""
    card = traces.card
    settings = card.settings
    devices: dict[str, Any] = {"total_count": traces.world_size or None}
    collector = _mapping(settings.get("collector"))
    devices |= {"model": _text(collector.get("device"))}
    workload = {**_generated(settings), "hardware": {"xpu_spec": devices}}
    return _known(
        {
            "workload": workload,
            "Model-executor": _executor(settings, collector),
            "versions": {"chakrakit": __version__, **_versions(collector)},
            "collection": _collection(card, collector),
            "measured": _measured(traces),
        }
    )


def _generated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What `chakra generate` was asked for."""
    model, step = (_mapping(settings.get(n)) for n in ("model", "step"))
    if not model or not step:
        return {}
    arch = {ours: _count(model.get(name)) or None for ours, name in _ARCH.items()}
    batch = _count(step.get("global_batch"))
    return {
        "model": {
            "phase": _PHASES.get(str(step.get("kind"))),
            "moe": bool(model.get("experts")),
            "model_family": _text(model.get("name")),
            "precision": _text(step.get("dtype")),
            "model_arch": arch,
        },
        "data": {
            "batch_size": batch or None,
            "batch_size_scope": "global" if batch else None,
            "seq_len": _count(step.get("seq")),
        },
    }


def _executor(settings: Mapping[str, Any], collector: Mapping[str, Any]) -> dict[str, Any]:
    plan, step = (_mapping(settings.get(n)) for n in ("plan", "step"))
    framework = {"name": "pytorch" if "torch" in collector else None}
    framework |= {"version": _text(collector.get("torch"))}
    if not plan or not step:
        return {"framework": framework}
    dp, shard = _count(plan.get("dp")) or 1, _count(plan.get("shard")) or 0
    sharded = (shard or dp) if plan.get("data") == "fsdp" else 1
    return {
        "framework": framework,
        "model_plan_parallelization": {
            "dp_replicate": dp // sharded or None,
            "dp_shard": sharded,
            **{n: _count(plan.get(n)) or None for n in ("tp", "pp", "cp", "ep")},
            "schedule": _text(plan.get("schedule")) if _count(plan.get("pp")) != 1 else None,
            "virtual_stages": _count(plan.get("chunks")) or None,
            "sequence_parallel": bool(plan.get("sequence_parallel")),
            "recompute": _text(plan.get("recompute")),
            "optimizer": _text(step.get("optimizer")),
            "grad_precision": _text(step.get("grad_dtype")) or None,
        },
    }


def _versions(collector: Mapping[str, Any]) -> dict[str, Any]:
    return {n: _text(collector.get(n)) for n in ("torch", "python")}


def _collection(card: Card, collector: Mapping[str, Any]) -> dict[str, Any]:
    ours = ("model", "plan", "step", "machine", "collector")  # said elsewhere in the card
    settings = {k: v for k, v in card.settings.items() if k not in ours}
    steps = collector.get("steps")
    whole = isinstance(steps, list) and all(type(s) is int for s in steps)
    return {
        "tool": card.tool,
        "source": card.source,
        "settings": settings,
        "passes": card.passes,
        "machine": _text(card.settings.get("machine")),
        "steps": steps if whole else None,
    }


def _measured(traces: TraceSet) -> dict[str, Any]:
    span = {"makespan_ns": traces.makespan_ns} if isinstance(traces, Run) else {}
    return {**span, **traces.card.measured}


def _known(section: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty."""
    inner = {k: _known(v) if isinstance(v, dict) else v for k, v in section.items()}
    return {k: v for k, v in inner.items() if v is not None and v != {} and v != [] and v != ""}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    """Cards are files: a setting may be anything."""
    return value if type(value) is int and value >= 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
