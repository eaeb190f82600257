"""What traces are of, as their card says it: model, plan, batch, machine, device, tokens per second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chakrakit.results import counted
from chakrakit.trace.sets.card import RECORDED_DEVICE, Card, footprint_of

_DIVIDED = ("dp", "tp", "pp", "cp", "ep", "replicas", "prefill", "decode")
"""Fields of a plan, or of the engines that serve, that say into how many parts work is divided."""


def subject_of(card: Card) -> dict[str, str]:
    """Labels and texts of what a card says about its workload and where it ran; any file may be wrong."""
    settings = card.settings
    texts = {
        "model": _text(_part(settings, "model").get("name") or settings.get("model")),
        "plan": _plan(_part(settings, "layout") or _part(settings, "plan")),
        "batch": _batch(_part(settings, "step")),
        "requests": f"{_whole(settings.get('requests')):,}" if settings.get("layout") else "",
        "steps": _served_steps(_part(settings, "expanded")),
        "precision": _precision(_part(settings, "model"), _part(settings, "step")),
        "machine": _text(settings.get("machine")),
        "device": _text(settings.get("device") or settings.get(RECORDED_DEVICE)),
        "compute times": _text(settings.get("rung")),
    }
    footprint = footprint_of(card)
    if footprint is not None and footprint.tokens_per_s:
        texts["tokens per second"] = f"{footprint.tokens_per_s:,.0f}"
    return {label: text for label, text in texts.items() if text}


def _part(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = settings.get(name)
    return part if isinstance(part, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _plan(plan: Mapping[str, Any]) -> str:
    """`dp 2, tp 4, pp 2 (1f1b)`: what is divided, and how a pipeline is run."""
    parts = [f"{name} {plan[name]}" for name in _DIVIDED if _whole(plan.get(name)) > 1]
    if plan and not parts:
        return "one device"
    schedule = (
        f" ({plan['schedule']})" if _whole(plan.get("pp")) > 1 and plan.get("schedule") else ""
    )
    return ", ".join(parts) + schedule


def _batch(step: Mapping[str, Any]) -> str:
    batch, length = _whole(step.get("global_batch")), _whole(step.get("seq"))
    return f"{batch:,} sequences of {length:,} tokens" if batch and length else ""


def _served_steps(expanded: Mapping[str, Any]) -> str:
    """Of a served stream, the steps that were written as operators."""
    steps, tokens = _whole(expanded.get("steps")), _whole(expanded.get("tokens"))
    took = _whole(expanded.get("served_ns"))
    as_served = f", {took / 1e6:,.2f} ms as served" if took else ""
    made = f"{counted(steps, 'step')} of serving with {counted(tokens, 'token')}"
    return f"{made}{as_served}" if steps else ""


def _precision(model: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """`weights mxfp4, activations bf16, cache bf16`, where a model's files state a precision."""
    stated = _part(model, "precision")
    formats = [f for f in _part(stated, "formats").values() if isinstance(f, Mapping)]
    own = _text(step.get("dtype"))
    weights = " and ".join(dict.fromkeys(_text(f.get("dtype")) for f in formats))
    if not weights or not own:
        return ""
    if step.get("kind") == "train":
        return f"trained in {own}; the files state weights in {weights}"
    given = _text(step.get("matmul_dtype"))
    inner = dict.fromkeys(given or _text(f.get("activations")) or own for f in formats)
    cache = _text(step.get("cache_dtype")) or _text(stated.get("cache")) or own
    return f"weights {weights}, activations {' and '.join(inner)}, cache {cache}"


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
