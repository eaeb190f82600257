"""How large the numbers of a workload may be, so that what is made of them fits memory and 64 bits."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chakrakit.workloads.description.description import Decoder, Model, Plan, Step, Workload

MOST_RANKS = 1 << 20
MOST_LAYERS = 1 << 14
MOST_PASSES = 1 << 18
"""Layers times passes of the model, forward and backward: each is about twenty nodes."""
_ENDS = 2
"""Embedding and head, which make a pass of few layers longer."""
_LARGEST = 1 << 40
"""Of any number of a model, which is a count or a size."""
_MOST_OPERATIONS = 1 << 62
"""Of one pass, in 64 bits."""
_POSITIVE = {
    "layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "ffn", "image", "patch", "width",
    "height", "frames", "channels", "out_channels", "dim", "tables", "expert_ffn", "shared_ffn",
}  # fmt: skip


def out_of_bounds(w: Workload) -> Iterator[str]:
    """Everything that is too small or too large to be looked at further."""
    yield from _numbers(w.model)
    yield from _numbers(w.step)
    yield from _degrees(w.plan)
    layers = getattr(w.model, "layers", 1)
    if layers > MOST_LAYERS:
        yield f"layers is {layers:,}; {MOST_LAYERS:,} is the most"
    dense = getattr(w.model, "dense_layers", 0)
    if dense > layers:
        yield f"dense_layers is {dense:,}; the model has {layers:,} layers"
    hidden, heads = getattr(w.model, "hidden", 0), getattr(w.model, "heads", 0)
    if 0 < hidden < heads and not getattr(w.model, "head_dim", None):
        yield f"{heads:,} heads are more than hidden {hidden:,}; give head_dim, or fewer heads"


def too_much(w: Workload) -> Iterator[str]:
    """What would be too many nodes or operations, where every number by itself may be."""
    layers, passes = getattr(w.model, "layers", 1), _passes(w.plan, w.step)
    ways = 2 if w.step.kind == "train" else 1
    if (layers + _ENDS) * passes * ways > MOST_PASSES:
        yield (
            f"{passes:,} passes of {layers:,} layers are too much for one trace; {MOST_PASSES // ways:,} "
            "layers in all is the most: use a larger micro_batch, more dp, or fewer new_tokens"
        )
    operations = _operations(w.model, w.step)
    if operations > _MOST_OPERATIONS:
        yield (
            f"one pass has about 2^{operations.bit_length() - 1} operations; 2^62 is the most: "
            "check seq, micro_batch and the sizes of the model"
        )


def _numbers(part: Model | Step) -> Iterator[str]:
    for name in part.__struct_fields__:
        value = getattr(part, name)
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, float) and not abs(one) < _LARGEST:
                yield f"{name} is {one}; it must be a number below {_LARGEST:,}"
            if not isinstance(one, int):
                continue
            least = 1 if name in _POSITIVE else 0
            if not least <= one <= _LARGEST:
                yield f"{name} is {one:,}; it must be {least} or more, and at most {_LARGEST:,}"


def _degrees(plan: Plan) -> Iterator[str]:
    for name in ("dp", "tp", "pp", "cp", "ep", "chunks", "shard", "prefetch"):
        value = getattr(plan, name)
        if value > MOST_RANKS:
            yield f"{name} is {value:,}; {MOST_RANKS:,} is the most"
    if plan.world > MOST_RANKS:
        yield f"the plan has {plan.world:,} ranks; {MOST_RANKS:,} is the most"


def _passes(plan: Plan, step: Step) -> int:
    """Passes of the whole model by one replica."""
    if step.kind == "train":
        return step.global_batch // max(plan.dp * step.micro_batch, 1)
    if step.kind == "prefill":
        return 1
    turns = -(-step.global_batch // (step.concurrency or step.global_batch))
    chunks = -(-step.global_batch * step.seq // max(step.token_budget, 1))
    return turns * step.new_tokens + (chunks if step.kind == "serve" else 0)


def _operations(model: Model, step: Step) -> int:
    """The order of magnitude of one pass's largest operation."""
    batch = step.micro_batch if step.kind == "train" else step.global_batch
    sizes = msgspec.structs.asdict(model)
    hidden = max(sizes.get(n) or 0 for n in ("hidden", "dim", "width"))
    hidden = max(hidden, sizes.get("heads", 0) * (sizes.get("head_dim") or 0))
    hidden = max(hidden, sizes.get("kv_lora", 0), sizes.get("q_lora", 0))
    wide = max(sizes.get(n) or 0 for n in ("ffn", "vocab", "hidden", "classes"))
    latent = sum(sizes.get(n, 0) for n in ("nope_dim", "rope_dim", "value_dim"))
    wide = max(wide, sizes.get("heads", 0) * latent)
    wide = max(wide, (sizes.get("expert_ffn") or wide) * sizes.get("experts", 0))
    tokens = step.seq if isinstance(model, Decoder) else getattr(model, "tokens", 1)
    return int(8 * batch * tokens * max(hidden, 1) * max(wide, tokens, 1))
