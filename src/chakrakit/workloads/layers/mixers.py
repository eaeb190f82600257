"""What mixes tokens in a layer: attention of every kind, and recurrences, as operators on a tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from chakrakit.operators import NORM, SILU, SOFTMAX, PerElement
from chakrakit.workloads.description import (
    Attention,
    CompressedAttention,
    Decoder,
    DeltaNet,
    Index,
    LatentAttention,
    Linear,
    Mixer,
    Recorded,
    StateSpace,
)
from chakrakit.workloads.layers.attention import Core, Reach, attention, selection
from chakrakit.workloads.layers.kept import Kept, kept
from chakrakit.workloads.layers.operators import matmul, norm, vector
from chakrakit.workloads.layers.sharding import Dim, Tensor
from chakrakit.workloads.layers.tape import BlockNode, Grads, Tape, Weight
from chakrakit.workloads.layers.tokens import Tokens, linear

DELTA_PRODUCTS = 3
"""Products of a delta rule with its state for each token: what it holds for a key, the correction, the
result. A kernel that works on chunks of tokens does some work between them besides, which is not counted."""
STATE_PRODUCTS = 2
"""Products of a state space with its state for each token: the update and the result."""


def mix(tape: Tape, model: Decoder, mixer: Mixer, x: Tensor, tokens: Tokens) -> Tensor:
    """What the mixer makes of x."""
    builds: dict[type, Callable[..., Tensor]] = {
        Attention: self_attention,
        LatentAttention: latent_attention,
        CompressedAttention: compressed_attention,
        DeltaNet: delta_net,
        StateSpace: state_space,
        Linear: lambda tape, model, _, x, __: linear(
            tape, "attention.linear", x, Dim(model.hidden)
        ),
    }
    return builds[type(mixer)](tape, model, mixer, x, tokens)


def _kept(tape: Tape, mixer: Mixer) -> Kept:
    settings = tape.settings
    return kept(mixer, tape.degrees.get("tp", 1), settings.cached_bytes, settings.dtype)


def _cores(tape: Tape, mixer: Mixer, core: Core) -> list[Core]:
    """The core of each kind of keys that the mixer reads, in the order of `kept`."""
    if isinstance(mixer, Attention):
        mixer = mixer.replace(own_keys=True)  # an earlier layer's keys are read all the same
    return [core.within(keys.reach, keys.bytes) for keys in _kept(tape, mixer).keys]


def self_attention(
    tape: Tape, model: Decoder, mixer: Attention, x: Tensor, tokens: Tokens
) -> Tensor:
    """Grouped-query attention: q has all heads, k and v have `kv_heads`."""
    size, value = mixer.head_dim, mixer.value_dim or mixer.head_dim
    widths = {"q": (mixer.heads, size), "k": (mixer.kv_heads, size), "v": (mixer.kv_heads, value)}
    projected = _projections(mixer)
    if model.fused:
        total = sum(projected.values())
        qkv = linear(tape, "attention.qkv", x, Dim(total, ("tp",)), bias=mixer.bias)
        storage: tuple[Tensor, ...] = (qkv,)
        parts = dict.fromkeys(widths, qkv)
    else:
        made = {
            n: linear(tape, f"attention.{n}", x, Dim(w, ("tp",)), bias=mixer.bias)
            for n, w in projected.items()
        }
        storage = tuple(made.values())
        parts = {n: made.get(n, made.get("k", made["q"])) for n in widths}
    heads = {n: heads_of(tape, parts[n], *widths[n]) for n in widths}
    if mixer.norm == "heads":
        names = ("q", "k") if mixer.own_keys else ("q",)
        heads |= {
            n: norm(tape, f"attention.{n}_norm", heads[n], learned=model.norm_weights)
            for n in names
        }
        storage = (heads["q"], heads["k"], heads["v"])
    elif mixer.norm == "width":
        heads |= {n: _wide_norm(tape, f"attention.{n}_norm", heads[n]) for n in ("q", "k")}
        storage = (heads["q"], heads["k"], heads["v"])
    if mixer.sinks:
        sinks = tape.weight("attention.sinks", Dim(mixer.heads, ("tp",)), kind="vector")
        sinks.grad_node = 0
    cores = _cores(tape, mixer, tokens.core)
    chosen: tuple[Tensor, ...] = ()
    if mixer.index:
        chosen = (_chosen(tape, mixer.index, x, x, cores[1]),)
    mixed = attention(tape, "attention.core", **heads, core=cores[0], keeps=storage, after=chosen)
    if mixer.gate:
        gate = Tensor(mixed.dims, mixed.dtype, node=parts["q"].node, needs_grad=False)
        mixed = vector(tape, "attention.gate", [mixed, gate], ops=SILU, keeps=[mixed])
    return linear(
        tape, "attention.out", mixed, Dim(model.hidden), into=("tp",), bias=mixer.out_bias
    )


def _projections(mixer: Attention) -> dict[str, int]:
    """Widths of the projections that the layer has."""
    value = mixer.value_dim or mixer.head_dim
    widths = {"q": mixer.heads * mixer.head_dim * (1 + mixer.gate)}
    if mixer.own_keys:
        widths["k"] = mixer.kv_heads * mixer.head_dim
        if not mixer.keys_are_values:
            widths["v"] = mixer.kv_heads * value
    return widths


def heads_of(tape: Tape, x: Tensor, count: int, size: int) -> Tensor:
    """A view of a projection (or of a part of a fused one) as heads; its gradient goes back to it."""
    dims = (*x.dims[:-1], Dim(count, x.dims[-1].axes), Dim(size))
    return viewed(tape, x, dims)


def viewed(tape: Tape, x: Tensor, dims: tuple[Dim, ...]) -> Tensor:
    """The same data in other dimensions; sums that are open over ranks are closed before."""
    if x.partial:
        x = tape.reshard(x, Tensor(x.dims, x.dtype), "sum")
    view = Tensor(dims, x.dtype, node=x.node, needs_grad=x.needs_grad)
    return tape.record(view, lambda grad: [(x, Tensor(x.dims, x.dtype, grad.partial, grad.node))])


def joined(tape: Tape, tensors: Sequence[Tensor]) -> Tensor:
    """Several results that are read together, as one; their gradients come with its own."""
    last = tensors[-1]
    if len(tensors) == 1:
        return last
    whole = [tape.reshard(t, Tensor(t.dims, t.dtype), "sum") for t in tensors]
    out = Tensor(last.dims, last.dtype, node=max(t.node for t in whole))

    def back(grad: Tensor) -> Grads:
        return [(t, Tensor(t.dims, t.dtype, node=grad.node)) for t in whole]

    return tape.record(out, back)


def _wide_norm(tape: Tape, name: str, x: Tensor) -> Tensor:
    """RMS norm over all heads together, whose weights are cut like the heads."""
    *_, heads, size = x.dims
    weight = tape.weight(f"{name}.weight", Dim(heads.size * size.size, heads.axes), kind="vector")
    return vector(tape, name, [x], ops=NORM, keeps=[x], weights=[weight])


def _chosen(tape: Tape, index: Index, q: Tensor, x: Tensor, core: Core) -> Tensor:
    """The keys that small queries choose; every rank of tp chooses for itself."""
    with tape.without_gradient():
        wide = linear(tape, "attention.index.q", q, Dim(index.heads * index.dim))
        small = heads_of(tape, wide, index.heads, index.dim)
        key = linear(tape, "attention.index.k", x, Dim(index.dim))
        keys = heads_of(tape, key, 1, index.dim)
        if index.norm == "both":
            small = norm(tape, "attention.index.q_norm", small)
            keys = norm(tape, "attention.index.k_norm", keys)
        else:
            keys = norm(tape, "attention.index.k_norm", keys, "layer")
        if index.weights:
            linear(tape, "attention.index.weights", x, Dim(index.heads))
        small, keys = (_as_indexed(tape, index, t) for t in (small, keys))
        scores = selection(tape, "attention.index.core", small, keys, core)
        return vector(tape, "attention.index.top_k", [scores], ops=SOFTMAX)


def _as_indexed(tape: Tape, index: Index, x: Tensor) -> Tensor:
    """Queries or keys in the type in which inference multiplies them; norms and rotations cast them."""
    if not index.dtype or tape.settings.training:
        return x
    return Tensor(x.dims, index.dtype, x.partial, x.node, needs_grad=False)


def latent_attention(
    tape: Tape, model: Decoder, mixer: LatentAttention, x: Tensor, tokens: Tokens
) -> Tensor:
    """MLA: queries, keys and values are made from small latent vectors; the latter are cached."""
    key, value = mixer.nope_dim + mixer.rope_dim, mixer.value_dim
    query = Dim(mixer.heads * key, ("tp",))
    small = x
    if mixer.q_lora:
        down = linear(tape, "attention.q_down", x, Dim(mixer.q_lora), bias=mixer.bias)
        small = norm(tape, "attention.q_norm", down)
        q = linear(tape, "attention.q_up", small, query)
    else:
        q = linear(tape, "attention.q", x, query)
    latent = linear(
        tape, "attention.kv_down", x, Dim(mixer.kv_lora + mixer.rope_dim), bias=mixer.bias
    )
    scale = tape.weight("attention.kv_norm.weight", Dim(mixer.kv_lora), kind="vector")
    narrow = _shaped(latent, Dim(mixer.kv_lora))
    content = vector(
        tape, "attention.kv_norm", [latent], narrow, ops=NORM, keeps=[latent], weights=[scale]
    )
    both = Dim(mixer.heads * (mixer.nope_dim + value), ("tp",))
    kv = linear(tape, "attention.kv_up", content, both)
    heads = (
        heads_of(tape, q, mixer.heads, key),
        heads_of(tape, kv, mixer.heads, key),
        heads_of(tape, kv, mixer.heads, value),
    )
    cores = _cores(tape, mixer, tokens.core)
    chosen: tuple[Tensor, ...] = ()
    if mixer.index:
        chosen = (_chosen(tape, mixer.index, small, x, cores[1]),)
    mixed = attention(tape, "attention.core", *heads, cores[0], after=chosen)
    return linear(tape, "attention.out", mixed, Dim(model.hidden), into=("tp",), bias=mixer.bias)


def _shaped(x: Tensor, last: Dim) -> Tensor:
    return Tensor((*x.dims[:-1], last), x.dtype)


def compressed_attention(
    tape: Tape, model: Decoder, mixer: CompressedAttention, x: Tensor, tokens: Tokens
) -> Tensor:
    """Queries over the keys of a window, and over entries that each compress several tokens."""
    cores = _cores(tape, mixer, tokens.core)
    small = norm(tape, "attention.q_norm", linear(tape, "attention.q_down", x, Dim(mixer.q_lora)))
    wide = linear(tape, "attention.q_up", small, Dim(mixer.heads * mixer.head_dim, ("tp",)))
    q = heads_of(tape, wide, mixer.heads, mixer.head_dim)
    sinks = tape.weight("attention.sinks", Dim(mixer.heads, ("tp",)), kind="vector")
    sinks.grad_node = 0
    keys = _keys(tape, "attention.kv", x, mixer.head_dim)
    mixed = attention(tape, "attention.core", q, keys, keys, cores[0])
    if mixer.ratio:
        entries = _entries(tape, "attention.compressor", x, mixer.head_dim, mixer)
        chosen: tuple[Tensor, ...] = ()
        if mixer.index:
            chosen = (_chosen_entries(tape, mixer, mixer.index, small, x, cores[2]),)
        far = attention(tape, "attention.compressed", q, entries, entries, cores[1], after=chosen)
        mixed = vector(tape, "attention.join", [mixed, far], ops=2)
    return _grouped_out(tape, model, mixer, mixed)


def _keys(tape: Tape, name: str, x: Tensor, size: int) -> Tensor:
    """One head of keys, which are values too."""
    return heads_of(tape, norm(tape, f"{name}_norm", linear(tape, name, x, Dim(size))), 1, size)


def _entries(tape: Tape, name: str, x: Tensor, size: int, mixer: CompressedAttention) -> Tensor:
    """Tokens weighed by gates and summed into one key for every `ratio` of them."""
    wide = Dim(size * (1 + mixer.overlap))
    keys, gates = (linear(tape, f"{name}.{n}", x, wide) for n in ("kv", "gate"))
    places = tape.weight(f"{name}.positions.weight", Dim(mixer.ratio), wide, kind="table")
    batch, seq, _ = keys.dims
    entry = Tensor((batch, Dim(Fraction(seq.size) / mixer.ratio, seq.axes), Dim(size)), keys.dtype)
    few = vector(
        tape, f"{name}.pool", [keys, gates], entry, ops=SOFTMAX, keeps=[keys, gates],
        weights=[places],
    )  # fmt: skip
    return heads_of(tape, norm(tape, f"{name}.norm", few), 1, size)


def _chosen_entries(
    tape: Tape, mixer: CompressedAttention, index: Index, q: Tensor, x: Tensor, core: Core
) -> Tensor:
    """The entries that small queries choose, with keys that are compressed by themselves."""
    with tape.without_gradient():
        keys = _entries(tape, "attention.index", x, index.dim, mixer)
        wide = linear(tape, "attention.index.q", q, Dim(index.heads * index.dim))
        small = heads_of(tape, wide, index.heads, index.dim)
        linear(tape, "attention.index.weights", x, Dim(index.heads))
        small, keys = (_as_indexed(tape, index, t) for t in (small, keys))
        scores = selection(tape, "attention.index.core", small, keys, core)
        return vector(tape, "attention.index.top_k", [scores], ops=SOFTMAX)


def _grouped_out(tape: Tape, model: Decoder, mixer: CompressedAttention, mixed: Tensor) -> Tensor:
    """Each group of heads is projected by itself, then all together."""
    batch, seq, width = mixed.dims
    each = Dim(mixer.heads * mixer.head_dim // mixer.groups)
    count = Dim(mixer.groups, width.axes)
    rows = Dim(batch.size * seq.size, seq.axes)
    grouped = viewed(tape, mixed, (count, rows, each))
    weight = tape.weight("attention.out_down.weight", count, each, Dim(mixer.out_lora))
    small = matmul(tape, "attention.out_down", grouped, weight)
    joined = Dim(mixer.groups * mixer.out_lora, width.axes)
    flat = viewed(tape, small, (batch, seq, joined))
    return linear(tape, "attention.out", flat, Dim(model.hidden), into=("tp",))


# --- recurrences --------------------------------------------------------------------------------


def delta_net(tape: Tape, model: Decoder, mixer: DeltaNet, x: Tensor, tokens: Tokens) -> Tensor:
    """A gated delta rule: every token corrects what the state holds for its key."""
    keys, values = mixer.key_heads * mixer.key_dim, mixer.value_heads * mixer.value_dim
    qkv = linear(tape, "attention.qkv", x, Dim(2 * keys + values, ("tp",)))
    gate = linear(tape, "attention.z", x, Dim(values, ("tp",)))
    rates = linear(tape, "attention.ba", x, Dim(2 * mixer.value_heads, ("tp",)))
    mixed = _convolved(tape, qkv, mixer.kernel, bias=False)
    flops = 2 * DELTA_PRODUCTS * mixer.value_heads * mixer.key_dim * mixer.value_dim
    out = _recurrence(tape, mixer, [mixed, rates], values, flops, tokens)
    decays = [
        tape.weight(f"attention.{n}", Dim(mixer.value_heads, ("tp",)), kind="vector")
        for n in ("decay", "rate_bias")
    ]
    scale = tape.weight("attention.norm.weight", Dim(mixer.value_dim), kind="vector")
    out = vector(
        tape, "attention.norm", [out, gate], ops=GATED_NORM, keeps=[out, gate],
        weights=[scale, *decays],
    )  # fmt: skip
    return linear(tape, "attention.out", out, Dim(model.hidden), into=("tp",))


def state_space(tape: Tape, model: Decoder, mixer: StateSpace, x: Tensor, tokens: Tokens) -> Tensor:
    """Mamba-2: every token decays the state, adds to it and reads it."""
    inner, shared = mixer.heads * mixer.head_dim, 2 * mixer.groups * mixer.state
    wide = linear(
        tape, "attention.in", x, Dim(2 * inner + shared + mixer.heads, ("tp",)), bias=mixer.bias
    )
    channels = viewed(tape, wide, (*wide.dims[:-1], Dim(inner + shared, ("tp",))))
    mixed = _convolved(tape, channels, mixer.kernel, bias=mixer.kernel_bias)
    flops = 2 * STATE_PRODUCTS * mixer.heads * mixer.head_dim * mixer.state
    out = _recurrence(tape, mixer, [mixed], inner, flops, tokens)
    vectors = [
        tape.weight(f"attention.{n}", Dim(mixer.heads, ("tp",)), kind="vector")
        for n in ("decay", "rate_bias", "skip")
    ]
    scale = tape.weight("attention.norm.weight", Dim(inner, ("tp",)), kind="vector")
    out = vector(
        tape, "attention.norm", [out], ops=GATED_NORM, keeps=[out], weights=[scale, *vectors]
    )
    return linear(tape, "attention.out", out, Dim(model.hidden), into=("tp",), bias=mixer.bias)


GATED_NORM = PerElement(NORM.forward + SILU.forward + 1, NORM.backward + SILU.backward + 2)
"""An RMS norm whose result is multiplied by a gate."""


def core_of(tape: Tape, mixer: Recorded, x: Tensor, tokens: Tokens) -> Tensor:
    """What a captured layer does besides its matrices: pairs of tokens, and work on a state."""
    cores = _cores(tape, mixer, tokens.core)
    core = cores[0] if cores else tokens.core.within(Reach(mixer.window), 0.0)
    state = round(2 * _kept(tape, mixer).state)
    share = tape.degrees.get("tp", 1) if any(m.cut for m in mixer.matrices) else 1
    rows = int(Tensor(x.dims[:-1], x.dtype).elements(tape.degrees))
    work = float(core.pairs) * mixer.flops_per_pair + rows * mixer.flops_per_token
    moved = 2 * x.bytes(tape.degrees) + core.cached + state * len(core.stretches)
    node = BlockNode(
        "attention.core",
        "attention" if mixer.flops_per_pair else "recurrence",
        round(work / share),
        bytes=moved,
        dtype=x.dtype,
        core=True,
        reach=core.reach,
        key_bytes=core.key_bytes,
        per_sequence=state,
    )
    place = tape.emit(node, [x])
    freed = tape.keep(place, x)
    out = replace(x, node=place)

    def back(grad: Tensor) -> Grads:
        again = node.again(
            name="attention.core.dx", flops=2 * node.flops, bytes=2 * node.bytes, free=freed
        )
        return [(x, Tensor(x.dims, x.dtype, node=tape.emit_backward(again, [grad], [x])))]

    return tape.record(out, back)


def _convolved(tape: Tape, x: Tensor, kernel: int, *, bias: bool) -> Tensor:
    """Every channel's last tokens, weighed and summed."""
    channels = x.dims[-1]
    weights: list[Weight] = [
        tape.weight("attention.conv.weight", channels, Dim(kernel), kind="table")
    ]
    if bias:
        weights.append(tape.weight("attention.conv.bias", channels, kind="vector"))
    ops = PerElement(2 * kernel + SILU.forward, 4 * kernel + SILU.backward)
    return vector(tape, "attention.conv", [x], ops=ops, keeps=[x], weights=weights)


def _recurrence(
    tape: Tape, mixer: Mixer, inputs: list[Tensor], width: int, flops: int, tokens: Tokens
) -> Tensor:
    """A state that every token reads and writes; sequences bring theirs from memory and back."""
    first = tape.reshard(inputs[0], Tensor(inputs[0].dims, inputs[0].dtype), "attention")
    *rows, last = first.dims
    out = Tensor((*rows, Dim(width, last.axes)), first.dtype)
    count = int(Tensor(tuple(rows), first.dtype).elements(tape.degrees))
    per_sequence = round(2 * _kept(tape, mixer).state)
    sequences = len(tokens.core.stretches)
    moved = sum(t.bytes(tape.degrees) for t in (*inputs, out))
    node = BlockNode(
        "attention.core",
        "recurrence",
        flops * count // tape.degrees.get("tp", 1),
        bytes=moved + per_sequence * sequences,
        dtype=first.dtype,
        core=True,
        per_sequence=per_sequence,
    )
    place = tape.emit(node, [first, *inputs[1:]])
    freed = tape.keep(place, first, *inputs[1:])
    out = replace(out, node=place)

    def back(grad: Tensor) -> Grads:
        doubled: dict[str, Any] = {"flops": 2 * node.flops, "bytes": 2 * node.bytes}
        again = node.again(name="attention.core.dx", free=freed, **doubled)
        dx = tape.emit_backward(again, [grad], [first, *inputs[1:]])
        return [(t, Tensor(t.dims, t.dtype, node=dx)) for t in (first, *inputs[1:])]

    return tape.record(out, back)
