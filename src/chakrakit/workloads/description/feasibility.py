"""Whether a workload is feasible: what is wrong, why, and which values would fit; limits on its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.workloads.description.decoder_layers import (
    Attention,
    CompressedAttention,
    DeltaNet,
    LatentAttention,
    Layer,
    Linear,
    Mixer,
    Recorded,
    StateSpace,
)
from chakrakit.workloads.description.description import (
    Convolutional,
    Decoder,
    Diffusion,
    Model,
    Plan,
    Recommender,
    Step,
    Vision,
    Workload,
)
from chakrakit.workloads.description.schedules import SCHEDULES, UPDATE

# --- limits, so that what is generated fits memory and 64 bits ----------------------------------

MOST_RANKS = 1 << 20
"""Every rank has a binding in memory, so that a mistyped number must not fill it."""
MOST_LAYERS = 1 << 11
"""Sixteen times the layers of the deepest built-in model (128): a larger number is a mistake, and the nodes
of a layer with experts, forward and backward, take 80 kB while they are made."""
MOST_PASSES = 1 << 18
"""Layers × passes of the model, forward and backward; each is about twenty nodes, so this is 5 million
nodes."""
_EXCHANGE_ROWS = 8
"""Rows of a layer for each other rank, forward and backward, where attention is in blocks."""
MOST_EXCHANGE_ROWS = 20_000_000
"""Rows of all ranks: every rank has its own, about 200 bytes each while they are made."""
_ENDS = 2
"""Embedding and head count as two more layers, which matters for models of few layers."""
_LARGEST = 1 << 40
"""The largest number in a model or step, a trillion; products of a few of them are checked separately."""
_WIDEST = 8.0
"""Of the logarithms of lengths: one length is then 3,000 times another; recorded ones have 1 to 2."""
_EVEN = 1e-6
"""The least imbalance of experts that is not 0: a token in a million."""
_MOST_OPERATIONS = 1 << 62
"""Operations of one pass must fit a signed 64-bit number, with a factor of two to spare."""
_POSITIVE = {
    "layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "ffn", "image", "patch", "width",
    "height", "frames", "channels", "out_channels", "dim", "tables", "expert_ffn", "shared_ffn",
    "state", "groups", "kernel", "key_heads", "value_heads", "key_dim", "most", "out_lora", "streams",
}  # fmt: skip


def out_of_bounds(w: Workload) -> Iterator[str]:
    """Yields a sentence for every number that is too small or too large for the other checks."""
    yield from _numbers(w.model)
    if getattr(w.model, "kv_lora", 0):
        yield from _latent(w.model)
    if getattr(w.model, "experts", 0) and not getattr(w.model, "top_k", 1):
        yield "top_k is 0; a token goes to 1 or more of the experts"
    for layer in getattr(w.model, "kinds", {}).values():
        if isinstance(layer.mixer, LatentAttention):
            yield from _latent(layer.mixer)
        for part in (layer.mixer, layer.ffn, getattr(layer.mixer, "index", None)):
            yield from _numbers(part) if part is not None else ()
    yield from _numbers(w.step)
    yield from _numbers(w.step.lengths)
    yield from _numbers(w.step.samples)
    if not 0 <= w.step.lengths.sigma <= _WIDEST:
        yield f"sigma is {w.step.lengths.sigma}; it must be a number from 0 to {_WIDEST:g}"
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
    """Yields a sentence for too many nodes or operations, where each number by itself is allowed."""
    layers, passes = getattr(w.model, "layers", 1), _passes(w.plan, w.step)
    ways = 2 if w.step.kind == "train" else 1
    if (layers + _ENDS) * passes * ways > MOST_PASSES:
        yield (
            f"{passes:,} passes of {layers:,} layers are too much for one trace; {MOST_PASSES // ways:,} "
            "layers in all is the most: use a larger micro_batch, more dp, or fewer new_tokens"
        )
    if w.plan.context == "blocks" and w.plan.cp > 1:
        rows = _EXCHANGE_ROWS * w.plan.cp**2 * w.plan.dp * layers * passes
        if rows > MOST_EXCHANGE_ROWS:
            yield (
                f"{w.plan.cp:,} ranks that share documents in blocks have up to {rows:,} rows of exchanges; "
                f"{MOST_EXCHANGE_ROWS:,} is the most: use fewer layers, micro-batches, dp or cp"
            )
    operations = _operations(w.model, w.step)
    if operations > _MOST_OPERATIONS:
        yield (
            f"one pass has about 2^{operations.bit_length() - 1} operations; 2^62 is the most: "
            "check seq, micro_batch and the sizes of the model"
        )


def _numbers(part: msgspec.Struct) -> Iterator[str]:
    for name in part.__struct_fields__:
        value = getattr(part, name)
        for number in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(number, float) and not abs(number) < _LARGEST:
                yield f"{name} is {number}; it must be a number below {_LARGEST:,}"
            if not isinstance(number, int):
                continue
            least = 1 if name in _POSITIVE else 0
            if not least <= number <= _LARGEST:
                yield f"{name} is {number:,}; it must be {least} or more, and at most {_LARGEST:,}"


def _latent(part: Any) -> Iterator[str]:
    """What the heads of latent attention lack."""
    if not part.nope_dim and not part.rope_dim:
        yield f"heads of latent attention (kv_lora {part.kv_lora:,}) need nope_dim or rope_dim"
    if not part.value_dim:
        yield f"heads of latent attention (kv_lora {part.kv_lora:,}) need value_dim"


def _degrees(plan: Plan) -> Iterator[str]:
    for name in ("dp", "tp", "pp", "cp", "ep", "chunks", "shard", "prefetch", "exchange_node"):
        value = getattr(plan, name)
        if value > MOST_RANKS:
            yield f"{name} is {value:,}; {MOST_RANKS:,} is the most"
    if plan.exchange_node < 0:
        yield f"exchange_node is {plan.exchange_node}; it is a number of ranks, or 0 for all of ep"
    if plan.world > MOST_RANKS:
        yield f"the plan has {plan.world:,} ranks; {MOST_RANKS:,} is the most"


def _passes(plan: Plan, step: Step) -> int:
    """Passes of the whole model by one replica."""
    if step.in_micro_batches:
        each = step.global_batch // max(plan.dp * step.micro_batch, 1)
        return max([each, *step.samples.quotas]) * max(step.steps, 1)
    if step.kind == "prefill":
        return 1
    turns = -(-step.global_batch // (step.concurrency or step.global_batch))
    chunks = -(-step.global_batch * step.seq // max(step.token_budget, 1))
    return turns * step.new_tokens + (chunks if step.kind == "serve" else 0)


def _operations(model: Model, step: Step) -> int:
    """The order of magnitude of one pass's largest operation."""
    batch = step.micro_batch if step.in_micro_batches else step.global_batch
    sizes = msgspec.structs.asdict(model)
    hidden = max(sizes.get(n) or 0 for n in ("hidden", "dim", "width"))
    hidden = max(hidden, sizes.get("heads", 0) * (sizes.get("head_dim") or 0))
    hidden = max(hidden, sizes.get("kv_lora", 0), sizes.get("q_lora", 0))
    wide = max(sizes.get(n) or 0 for n in ("ffn", "vocab", "hidden", "classes"))
    latent = sum(sizes.get(n, 0) for n in ("nope_dim", "rope_dim", "value_dim"))
    wide = max(wide, sizes.get("heads", 0) * latent)
    wide = max(wide, (sizes.get("expert_ffn") or wide) * sizes.get("experts", 0))
    for layer in sizes.get("kinds", {}).values():
        parts = [msgspec.structs.asdict(p) for p in (layer.mixer, layer.ffn) if p is not None]
        largest = max((n for p in parts for n in p.values() if type(n) is int), default=0)
        wide = max(wide, largest * max(p.get("heads", 1) for p in parts) if parts else 0)
        hidden = max(hidden, *(p.get(n, 0) for p in parts for n in ("kv_lora", "q_lora")), 0)
    tokens = step.seq if isinstance(model, Decoder) else getattr(model, "tokens", 1)
    return int(8 * batch * tokens * max(hidden, 1) * max(wide, tokens, 1))


_TRIED = 10_000
"""The highest degree tried for a hint; real plans have degrees up to a few thousand."""


def check(workload: Workload) -> None:
    """Raises a ConfigError that lists everything that is infeasible."""
    problems = list(_problems(workload))
    if problems:
        more = f" (and {len(problems) - 1} more: {'; '.join(problems[1:])})" if problems[1:] else ""
        raise ConfigError(problems[0] + more)


def _problems(w: Workload) -> Iterator[str]:
    positive = {
        **_ints(w.plan, ("dp", "tp", "pp", "cp", "ep", "chunks")),
        **_ints(w.step, ("seq", "global_batch", "micro_batch")),
        **(_ints(w.step, ("new_tokens",)) if w.step.kind in ("decode", "serve") else {}),
    }
    wrong = [f"{n} is {v}; it must be 1 or more" for n, v in positive.items() if v < 1]
    wrong = wrong or list(out_of_bounds(w)) or list(too_much(w))
    if wrong:
        yield from wrong
        return
    yield from _order(w.plan)
    yield from _batches(w.plan, w.step)
    yield from _heads(w.model, w.plan)
    yield from _blocks(w)
    yield from _sequence(w.model, w.plan, w.step)
    yield from _experts(w.model, w.plan)
    yield from _layers(w.model, w.plan)
    yield from _data(w.plan)
    yield from _step(w)
    yield from _samples(w)
    yield from _own_updates(w)


def _own_updates(w: Workload) -> Iterator[str]:
    """What stages that apply their gradients on their own cannot do together."""
    if w.plan.pp == 1 or not any(UPDATE in stage for stage in w.plan.tasks):
        return
    if w.step.clip and w.step.optimizer != "none":
        yield "clip needs the gradients of all stages at once; with U in cells set clip to false"
    if getattr(w.model, "tied", False):
        yield f"{w.model.name}'s first and last stage share a table; with U in cells set tied to false"


def _ints(part: Plan | Step, names: Iterable[str]) -> dict[str, int]:
    return {n: getattr(part, n) for n in names}


def _fitting(limit: int, *numbers: int) -> str:
    """The degrees up to a limit that divide all numbers."""
    tried = range(1, min(limit, _TRIED) + 1)
    return _listed([d for d in tried if all(n % d == 0 for n in numbers)])


def _listed(degrees: Sequence[int]) -> str:
    """The first of some degrees, for a hint."""
    return ", ".join(map(str, degrees[:12])) + (", …" if len(degrees) > 12 else "")


def _order(plan: Plan) -> Iterator[str]:
    axes = [a for a in plan.order.split("-") if a != "ep"]
    if sorted(axes) != ["cp", "dp", "pp", "tp"]:
        yield f"order is {plan.order!r}; it should name tp, cp, dp and pp once each, like tp-cp-dp-pp"


def _blocks(w: Workload) -> Iterator[str]:
    """What attention in blocks does not go with."""
    plan = w.plan
    lists = {name: getattr(plan, name) for name in ("speeds", "shares")}
    if plan.context != "blocks":
        given = [name for name, value in {**lists, "key_pairs": plan.key_pairs}.items() if value]
        if given:
            yield f"{given[0]} is for attention in blocks; give context: blocks, or leave it out"
        return
    if not isinstance(w.model, Decoder) or not w.step.in_micro_batches:
        yield "context blocks is for decoders that train or go forward; use gather, ring or ulysses"
    if any(not _meets_all(k.mixer) for k in getattr(w.model, "kinds", {}).values()):
        yield f"context blocks is for attention that meets all keys, unlike layers of {w.model.name}"
    if plan.ep > 1:
        yield f"context blocks and ep {plan.ep} together are not built; use ep 1, or another context"
    if not 1 <= plan.block <= _LARGEST:
        yield f"block is {plan.block}; it is a number of tokens, 1 or more, and at most {_LARGEST:,}"
    if not 0 <= plan.key_pairs < math.inf:
        yield f"key_pairs is {plan.key_pairs}; it is a number of query–key pairs, 0 or more"
    for name, value in lists.items():
        if value and (len(value) != plan.cp or not all(0 < n < _LARGEST for n in value)):
            yield f"{name} has {len(value)} entries; give one above 0 for each of the {plan.cp} ranks of cp"
    if plan.shares and len(plan.shares) == plan.cp and sum(plan.shares) < 1 - 1e-9:
        yield f"shares add up to {sum(plan.shares):.3g} of all tokens; they must hold all, 1 or more"


def _batches(plan: Plan, step: Step) -> Iterator[str]:
    each = plan.dp * step.micro_batch
    if step.in_micro_batches and step.global_batch % each:
        low = max(step.global_batch // each, 1) * each
        share, rest = divmod(step.global_batch, plan.dp)
        alternative = f", or micro_batch {_fitting(share, share)}" if share and not rest else ""
        yield (
            f"global_batch {step.global_batch} is not a multiple of dp × micro_batch = {plan.dp} × "
            f"{step.micro_batch}; use global_batch {low} or {low + each}{alternative}"
        )


def _heads(model: Model, plan: Plan) -> Iterator[str]:
    alone = isinstance(model, Recommender | Convolutional)
    if alone and (plan.tp > 1 or plan.cp > 1 or plan.pp > 1):
        yield f"{model.name} has no parts for tp, cp or pp; use dp"
    if not isinstance(model, Decoder | Vision | Diffusion):
        return
    if isinstance(model, Decoder) and model.kinds:
        yield from _kinds(model, plan)
        return
    counts = {"heads": model.heads}
    if isinstance(model, Decoder) and not model.kv_lora:
        counts["kv_heads"] = model.kv_heads or model.heads
    cut, degree = _cut_of_heads(plan)
    for name, count in counts.items():
        if count % cut:
            fits = _fitting(count, *counts.values())
            yield f"{degree} does not divide {model.name}'s {count} {name}; use {fits}"
    ffn = model.ffn or 4 * model.hidden
    if ffn % plan.tp or model.hidden % plan.tp:
        yield f"tp {plan.tp} does not divide hidden {model.hidden} and ffn {ffn}; use " + _fitting(
            64, ffn, model.hidden, *counts.values()
        )


def _cut_of_heads(plan: Plan) -> tuple[int, str]:
    """Into how many parts heads are cut, and by what."""
    if plan.context == "ulysses" and plan.cp > 1:
        return plan.tp * plan.cp, f"tp × cp (ulysses) {plan.tp} × {plan.cp}"
    return plan.tp, f"tp {plan.tp}"


_CUT = ("heads", "kv_heads", "key_heads", "value_heads", "groups", "width", "shared", "beside")
"""Sizes of a layer's parts that tp cuts."""


def _kinds(model: Decoder, plan: Plan) -> Iterator[str]:
    """What tp and cp cannot cut of layers of several kinds."""
    cut, degree = _cut_of_heads(plan)
    for name, layer in model.kinds.items():
        sizes = _cut_sizes(model, layer)
        for size, count in sizes.items():
            of_heads = size.endswith("heads")
            if count % (cut if of_heads else plan.tp):
                yield (
                    f"{degree if of_heads else f'tp {plan.tp}'} does not divide the {count} {size} of "
                    f"{model.name}'s {name} layers; use {_fitting(64, model.hidden, *sizes.values())}"
                )
        for matrix in getattr(layer.mixer, "matrices", ()):
            size = {"columns": matrix.outputs, "rows": matrix.inputs}.get(matrix.cut, 0)
            if size % plan.tp:
                yield (
                    f"tp {plan.tp} does not divide the {size} of {model.name}'s {matrix.name}; "
                    f"use {_fitting(64, size)}"
                )
        if plan.pp > 1 and any(m.tied for m in getattr(layer.mixer, "matrices", ())):
            yield f"the {name} layers of {model.name} share matrices with others; use pp 1"
        if plan.cp > 1 and isinstance(
            layer.mixer, CompressedAttention | DeltaNet | StateSpace | Recorded
        ):
            yield f"cp {plan.cp} does not cut the {name} layers of {model.name}; use cp 1"
    if model.hidden % plan.tp:
        yield f"tp {plan.tp} does not divide hidden {model.hidden}; use {_fitting(64, model.hidden)}"


def _cut_sizes(model: Decoder, layer: Layer) -> dict[str, int]:
    """What tp cuts of a layer; of a captured one with attention the heads, which its matrices do not tell."""
    parts = [part for part in (layer.mixer, layer.ffn) if part is not None]
    sizes = {n: count for p in parts for n in _CUT if (count := getattr(p, n, 0))}
    mixer = layer.mixer
    if isinstance(mixer, Recorded) and mixer.flops_per_pair and any(m.cut for m in mixer.matrices):
        sizes |= {"heads": model.heads, "kv_heads": model.kv_heads or model.heads}
    return sizes


def _sequence(model: Model, plan: Plan, step: Step) -> Iterator[str]:
    if not step.in_micro_batches or not isinstance(model, Decoder | Vision | Diffusion):
        return
    tokens = step.seq if isinstance(model, Decoder) else model.tokens
    shared = 1 if plan.context == "blocks" else plan.cp
    cut = shared * (plan.tp if plan.sequence_parallel else 1)
    if tokens % cut:
        why = "cp × tp (sequence_parallel)" if cut > shared else "cp"
        fits = ((tokens // cut) * cut, (tokens // cut + 1) * cut)
        hint = (
            f"use seq {fits[0] or fits[1]} or {fits[1]}"
            if isinstance(model, Decoder)
            else "use " + (f"sequence_parallel false, or {why} {_fitting(64, tokens)}")
        )
        yield f"{why} = {cut} does not divide {tokens} tokens; {hint}"
    if isinstance(model, Decoder) and 0 < model.positions < step.seq:
        yield f"seq {step.seq} is more than {model.name}'s {model.positions} positions; use at most that"


def _pairs_passes(plan: Plan) -> bool:
    """Whether forward passes are far enough ahead that one beside a backward holds no other stage up."""
    return plan.schedule == ("interleaved" if plan.pp > 1 else "1f1b")


def _experts(model: Model, plan: Plan) -> Iterator[str]:
    if plan.ep == 1:
        return
    data = plan.dp * plan.cp
    if plan.folds_experts:
        yield from _folded(model, plan)
    elif data % plan.ep:
        yield (
            f"ep {plan.ep} is nested in dp × cp = {data} and must divide it; "
            f"use {_expert_degrees(model, plan)}"
        )
    if plan.exchange_node and plan.ep % plan.exchange_node and plan.exchange_node < plan.ep:
        yield f"exchange_node {plan.exchange_node} must divide ep {plan.ep}"
    if plan.exchange_overlap and (plan.tasks or not _pairs_passes(plan)):
        yield "exchange_overlap needs schedule interleaved, or 1f1b with pp 1; use one, or leave it out"
    tables = getattr(model, "tables", None)
    if tables:
        if plan.ep > len(tables):
            yield f"ep {plan.ep} is more than {len(tables)} tables; use at most {len(tables)}"
        return
    experts = getattr(model, "experts", 0)
    yield from _groups(model, experts)
    if not experts:
        yield f"{model.name} has no experts to spread over ep {plan.ep}; use ep 1"
    elif experts % plan.ep:
        why = "more than" if plan.ep > experts else "not a divisor of"
        yield (
            f"ep {plan.ep} is {why} {model.name}'s {experts} experts; "
            f"use {_expert_degrees(model, plan)}"
        )


def _expert_degrees(model: Model, plan: Plan) -> str:
    """The degrees of experts that go with the rest of the plan."""
    data, every = plan.dp * plan.cp, plan.dp * plan.cp * plan.tp
    tables, experts = getattr(model, "tables", None), getattr(model, "experts", 0)

    def fits(ep: int) -> bool:
        nested = data % ep == 0
        folded = ep > data and every % ep == 0 and ep % plan.tp == 0
        spread = ep <= len(tables) if tables else experts % ep == 0
        return spread and (nested or (folded and plan.sequence_parallel and not tables))

    return _listed([ep for ep in range(1, min(every, _TRIED) + 1) if fits(ep)])


def _groups(model: Model, experts: int) -> Iterator[str]:
    """What groups of experts need that a token is limited to."""
    groups, kept = getattr(model, "expert_groups", 0), getattr(model, "top_groups", 0)
    if kept and not groups:
        yield f"top_groups {kept} needs expert_groups: how many there are"
    elif groups and experts % groups:
        yield f"{groups} expert_groups do not divide {experts} experts"
    elif kept > groups or (kept and kept * experts // groups < getattr(model, "top_k", 0)):
        yield (
            f"top_k {getattr(model, 'top_k', 0)} of top_groups {kept} with {experts // groups} experts each: "
            f"there are too few, or more than expert_groups {groups}; change top_groups"
        )


def _folded(model: Model, plan: Plan) -> Iterator[str]:
    """What experts over more ranks than dp × cp need: all ranks of a stage, each with its own tokens."""
    data, every = plan.dp * plan.cp, plan.dp * plan.cp * plan.tp
    if every % plan.ep or plan.ep % plan.tp:
        yield (
            f"ep {plan.ep} is nested in dp × cp = {data}, or folded over tp = {plan.tp} as well: then it "
            f"must divide {every} and tp must divide it; use {_expert_degrees(model, plan)}, "
            f"or a dp that is a multiple of {plan.ep}"
        )
    elif not plan.sequence_parallel or getattr(model, "tables", None):
        yield f"ep {plan.ep} over tp {plan.tp} needs tokens cut by tp; use sequence_parallel, or ep {data}"


def _layers(model: Model, plan: Plan) -> Iterator[str]:
    layers = getattr(model, "layers", 1)
    if plan.schedule not in SCHEDULES and not plan.tasks:
        yield f"no schedule {plan.schedule!r}; there are {', '.join(SCHEDULES)}, or give tasks of your own"
        return
    if plan.tasks and len(plan.tasks) != plan.pp:
        yield f"tasks are for {len(plan.tasks)} stages and pp is {plan.pp}; give one list per stage"
    if plan.chunks > 1 and plan.schedule != "interleaved" and not plan.tasks:
        yield f"chunks {plan.chunks} is for the interleaved schedule; {plan.schedule} decides its own"
    pieces = plan.pp * _pieces_per_stage(plan)
    if plan.split:
        if len(plan.split) != pieces or sum(plan.split) != layers:
            yield (
                f"split has {len(plan.split)} entries adding up to {sum(plan.split)}; it needs "
                f"{pieces} adding up to {layers}, such as {even_split(layers, pieces)}"
            )
    elif layers < pieces and plan.pp > 1:
        yield f"{layers} layers cannot fill {pieces} pipeline pieces; use pp × chunks of at most {layers}"


def _pieces_per_stage(plan: Plan) -> int:
    if plan.tasks:
        return 1 + max((int(c.partition(".")[2] or 0) for s in plan.tasks for c in s), default=0)
    return {"interleaved": plan.chunks, "zb-v": 2}.get(plan.schedule, 1)


def even_split(layers: int, pieces: int) -> list[int]:
    """Layers of each piece, as even as can be, the first ones larger."""
    small, larger = divmod(layers, pieces)
    return [small + (i < larger) for i in range(pieces)]


def _data(plan: Plan) -> Iterator[str]:
    data = plan.dp * plan.cp
    if plan.shard and data % plan.shard:
        yield f"shard {plan.shard} must divide dp × cp = {data}; use {_fitting(data, data)}"
    if plan.shard and plan.ep > 1:
        yield "shard (HSDP) and ep together are not built; use one of them"
    if plan.shard and plan.schedule == "dualpipe":
        yield "shard (HSDP) and dualpipe together are not built; use another schedule"
    if plan.sync == "micro_batch" and plan.data in ("ddp", "zero1") and data > 1:
        yield (
            f"sync micro_batch is for data fsdp and zero2; {plan.data} reduces gradients once a step: leave "
            "sync out"
        )


def _step(w: Workload) -> Iterator[str]:
    if not w.step.in_micro_batches and not isinstance(w.model, Decoder):
        yield f"{w.step.kind} is for decoders; {w.model.name} has train and forward"
    if not w.step.in_micro_batches and not getattr(w.model, "causal", True):
        yield (
            f"{w.step.kind} generates tokens from those before them; {w.model.name} has an encoder, whose "
            "tokens meet all others; use kind train or forward"
        )
    if w.step.kind == "forward" and (w.plan.tasks or w.plan.schedule == "dualpipe"):
        yield "forward passes have no backward to put in order; leave cells and dualpipe out"
    reaches = [k.mixer for k in getattr(w.model, "kinds", {}).values()]
    if w.step.lengths.mean and any(not _meets_all(m) for m in reaches):
        yield "lengths of documents are for attention that meets all keys; leave lengths out"
    if w.step.imbalance and not _EVEN <= w.step.imbalance <= 1 / _EVEN:
        yield (
            f"imbalance is {w.step.imbalance:g}; it is a coefficient of variation: 0, or from {_EVEN:g} "
            f"to {1 / _EVEN:g}"
        )
    if w.step.imbalance and not getattr(w.model, "experts", 0):
        yield f"imbalance is about experts; {w.model.name} has none"


def _samples(w: Workload) -> Iterator[str]:
    step, samples = w.step, w.step.samples
    if not step.in_micro_batches and (step.steps != 1 or samples.batcher):
        yield f"steps and batcher are for train and forward; leave them out for {step.kind}"
    if step.steps == 0 and not (samples.batcher and samples.sample_file):
        yield "steps 0 means all samples of a file; give sample_file and a batcher, or a number of steps"
    if not samples.batcher:
        names = ("sample_file", "sizes", "budget", "quotas", "batcher_file")
        given = [n for n in names if getattr(samples, n)]
        if given:
            yield f"{given[0]} is for samples; give a batcher (fixed, tokens, power, online or best-fit)"
        return
    if (samples.batcher == "own") != bool(samples.batcher_file):
        yield "batcher own and batcher_file (FILE.py:FUNCTION) go together; give both or neither"
    if not isinstance(w.model, Decoder | Diffusion):
        yield f"samples of many lengths are for decoders and diffusion models; not for {w.model.name}"
    elif samples.batcher == "best-fit" and not isinstance(w.model, Decoder):
        yield "best-fit packs samples into sequences of tokens; use batcher power or tokens"
    if step.imbalance:
        yield "imbalance and a batcher together are not built; use one of them"
    if samples.window < 1 or samples.longest_batch < 1:
        yield "window and longest_batch must be 1 or more"
    if not 0 <= samples.power <= 4:
        yield f"power is {samples.power}; it is an exponent from 0 to 4"
    if any(size < 1 for size in samples.sizes):
        yield "sizes must be 1 or more"
    elif isinstance(w.model, Diffusion):
        yield from _frames(w.model, w.plan, samples.sizes or [w.model.patch[0]])
    yield from _quotas(w)


def _frames(model: Diffusion, plan: Plan, sizes: Iterable[int]) -> Iterator[str]:
    cut = plan.cp * (plan.tp if plan.sequence_parallel else 1)
    for frames in sorted(set(sizes)):
        tokens = model.replace(frames=frames).tokens
        if frames % model.patch[0] or tokens % cut:
            yield f"{frames} frames ({tokens} tokens) are not divided by the patch and cp × tp = {cut}"


def _quotas(w: Workload) -> Iterator[str]:
    quotas = w.step.samples.quotas
    if quotas and (len(quotas) != w.plan.dp or min(quotas) < 1):
        yield f"quotas has {len(quotas)} entries; give one of 1 or more for each of dp {w.plan.dp} replicas"
    if quotas and w.step.steps == 0:
        yield "quotas and steps 0 together are not built; give a number of steps"
    if quotas and w.plan.tasks:
        yield "quotas and cells together are not built; name a schedule"


def _meets_all(mixer: Mixer | None) -> bool:
    """Whether the work of a mixer grows with the square of a document's length."""
    limits = ("window", "chunk", "index")
    plain = mixer is None or isinstance(mixer, Attention | LatentAttention | Linear)
    return plain and not any(getattr(mixer, name, None) for name in limits)
