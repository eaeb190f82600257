"""What a model amounts to: parameters, and the precision in which a step has them."""

from __future__ import annotations

from collections import Counter
from math import ceil

import msgspec

from chakrakit.operators import element_bytes
from chakrakit.results import Result
from chakrakit.workloads.description import Decoder, Model, Plan, Step, Workload
from chakrakit.workloads.layers import UNQUANTIZED, Stack, Weight, stack_of


class PrecisionUsed(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The precision of weights, activations and cache."""

    weights: str
    """Element type of the weights of products; of several the one with most elements first."""
    group: str
    """Elements that share a scale, as in 128x128 or 16; empty where there are none."""
    activations: str
    """Element type that products read their other operand in."""
    cache: str
    """Element type of keys and values in the cache; empty where there is no cache."""
    unquantized: str
    """Element type of all other weights."""
    weight_bytes: int
    """Bytes of all weights of the language model with their scales, before they are cut over ranks."""
    excluded: int = 0
    """Names or patterns of modules that the files leave as they are."""
    source: str = ""
    """The file that states it; empty where the step decides."""
    in_files: str = ""
    """What the files state where the step does not use it, as training does not."""


class ModelFigures(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A model's parameters, and the precision in which it was used."""

    name: str
    parameters: int
    """Of the language model; tied tables count once."""
    active_parameters: int
    """Those that one token uses."""
    vision_parameters: int
    """Of a vision tower and its projector; 0 where there is none, or where it is not described."""
    mtp_layers: int
    """Layers that predict further tokens, which the files have and which are not counted."""
    precision: PrecisionUsed


def parameters(workload: Workload) -> tuple[int, int]:
    """Returns all parameters, and those that one token uses; embedding tables count in full."""
    model = workload.model
    stack = _alone(model, workload.step)
    total = active = 0
    share = getattr(model, "top_k", 0) / (getattr(model, "experts", 0) or 1)
    for name, count in _blocks(stack).items():
        for weight in stack.block(name).weights:
            if not weight.tied:
                total += count * weight.all_elements
                routed = weight.expert and "moe" in weight.name
                active += count * (
                    round(weight.all_elements * share) if routed else weight.all_elements
                )
    return total, active


def _alone(model: Model, step: Step) -> Stack:
    """The blocks of a model on one rank."""
    return stack_of(model, Plan(), step)


def _blocks(stack: Stack) -> Counter[str]:
    return Counter(stack.first + stack.rows + stack.last)


def model_figures(model: Model, step: Step) -> ModelFigures:
    """The figures of a model in a step."""
    total, active = parameters(Workload(model=model, step=step))
    decoder = model if isinstance(model, Decoder) else None
    return ModelFigures(
        name=model.name,
        parameters=total,
        active_parameters=active,
        vision_parameters=decoder.vision.parameters if decoder and decoder.vision else 0,
        mtp_layers=decoder.mtp_layers if decoder else 0,
        precision=precision_used(model, step),
    )


def _bytes(weight: Weight, step: Step, block: str) -> int:
    if step.matmul_dtype and step.kind != "train" and block not in UNQUANTIZED:
        return ceil(weight.all_elements * element_bytes(step.matmul_dtype))
    return weight.bytes({})


def precision_used(model: Model, step: Step) -> PrecisionUsed:
    """The precision of a step: of inference what the files state, unless the step has its own."""
    stack = _alone(model, step)
    weights = [
        (count, weight, name)
        for name, count in _blocks(stack).items()
        for weight in stack.block(name).weights
        if not weight.tied
    ]
    size = sum(count * _bytes(weight, step, name) for count, weight, name in weights)
    stated = model.precision if isinstance(model, Decoder) else None
    used: Counter[str] = Counter()
    for count, weight, _ in weights:
        for name, form in (stated.formats if stated else {}).items():
            if weight.format == form:
                used[name] += count * weight.all_elements
    plain = step.matmul_dtype or step.dtype
    kept = step.dtype if step.kind == "train" else plain  # training casts them for each product
    names = [name for name, _ in used.most_common()]
    forms = [stated.formats[name] for name in names] if stated else []
    return PrecisionUsed(
        weights=" + ".join(names) or kept,
        group=" + ".join(dict.fromkeys(form.group for form in forms if form.group)),
        activations=" + ".join(dict.fromkeys(f.activations or step.dtype for f in forms)) or plain,
        cache="" if step.in_micro_batches else stack.settings.cache_dtype or step.dtype,
        unquantized=step.dtype,
        weight_bytes=size,
        excluded=stated.excluded if stated else 0,
        source=stated.source if stated and (names or stated.cache) else "",
        in_files=" + ".join(stated.formats) if stated and not names else "",
    )
