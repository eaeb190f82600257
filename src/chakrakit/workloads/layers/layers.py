"""The layers models are made of, each a few lines of operators on a tape.

Activations are [batch, sequence, hidden]. Between layers the sequence is cut by `cp`, and with
sequence parallelism also by `tp`; the operators inside say what they need, and the tape moves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from chakrakit.operators import GELU, NORM, SILU, SOFTMAX, SWIGLU
from chakrakit.workloads.description import (
    Decoder,
    Experts,
    FeedForward,
    Layer,
    Matrix,
    Mlp,
    Recorded,
)
from chakrakit.workloads.layers.mixers import core_of, joined, mix, viewed
from chakrakit.workloads.layers.operators import (
    add,
    cross_entropy,
    dropout,
    lookup,
    matmul,
    norm,
    vector,
)
from chakrakit.workloads.layers.sharding import Dim, Tensor
from chakrakit.workloads.layers.tape import Tape, Weight
from chakrakit.workloads.layers.tokens import Tokens, linear

# --- MLP and experts ----------------------------------------------------------------------------


def mlp(tape: Tape, model: Decoder, x: Tensor, ffn: Mlp, name: str = "mlp") -> Tensor:
    """Two matrices with GELU, or three with SwiGLU."""
    inner = Dim(ffn.width, ("tp",))
    if not ffn.gated:
        up = linear(tape, f"{name}.up", x, inner, bias=ffn.bias)
        act = vector(tape, f"{name}.act", [up], ops=GELU, keeps=[up])
    elif model.fused:
        both = linear(tape, f"{name}.gate_up", x, Dim(2 * ffn.width, ("tp",)), bias=ffn.bias)
        act = vector(tape, f"{name}.act", [both], _shaped(both, inner), ops=SWIGLU, keeps=[both])
    else:
        gate = linear(tape, f"{name}.gate", x, inner, bias=ffn.bias)
        up = linear(tape, f"{name}.up", x, inner, bias=ffn.bias)
        act = vector(tape, f"{name}.act", [gate, up], ops=SWIGLU, keeps=[gate, up])
    return linear(tape, f"{name}.down", act, Dim(model.hidden), into=("tp",), bias=ffn.bias)


def _shaped(x: Tensor, last: Dim) -> Tensor:
    return Tensor((*x.dims[:-1], last), x.dtype)


def experts(tape: Tape, model: Decoder, x: Tensor, ffn: Experts, tokens: Tokens) -> Tensor:
    """Top-k of many MLPs: route, send tokens to the ranks that have their experts, and back."""
    scores = linear(
        tape, "moe.router", x, Dim(model.experts), bias=ffn.router_bias, wide=True
    )  # a router decides in the type of the activations, as in Megatron-Core
    if ffn.router_scales:
        for name, size in (("input", model.hidden), ("expert", model.experts)):
            tape.weight(f"moe.router.{name}_scale", Dim(size), kind="vector").grad_node = 0
    routing = vector(tape, "moe.top_k", [scores], ops=SOFTMAX, keeps=[scores])
    small = linear(tape, "moe.latent_in", x, Dim(ffn.latent)) if ffn.latent else x
    routed = _dispatch(tape, model, small, routing, tokens)
    routed = _experts_mlp(tape, model, ffn, routed)
    mixed = _combine(tape, model, routed, small, routing)
    if ffn.latent:
        mixed = linear(tape, "moe.latent_out", mixed, Dim(model.hidden))
    if not ffn.shared:
        return mixed
    width = Mlp(width=ffn.shared, gated=ffn.gated, bias=ffn.bias)
    shared = mlp(tape, model, x, width, "moe.shared")
    if ffn.shared_gate:
        gate = linear(tape, "moe.shared_gate", x, Dim(1))
        shared = vector(tape, "moe.shared_scaled", [shared, gate], ops=SILU, keeps=[shared])
    return add(tape, "moe.add", mixed, shared)


def _dispatch(tape: Tape, model: Decoder, x: Tensor, routing: Tensor, tokens: Tokens) -> Tensor:
    """Copies of tokens in the order of their experts: [experts, tokens of each, hidden], sent to them."""
    shared = tape.degrees.get("cp", 1)
    shared *= tape.degrees.get("tp", 1) if tape.settings.folds_experts else 1
    ranks = Fraction(tape.degrees.get("ep", 1), shared)
    rows = int(x.dims[0].size) * int(x.dims[1].size) * model.top_k * ranks / model.experts
    cut = _beside_experts(tape, x)
    each = Dim(rows, (*cut, "ep"))
    dtype = tokens.dispatch_dtype or x.dtype
    sorted_rows = Tensor((Dim(model.experts), each, x.dims[2]), dtype)
    moved = vector(tape, "moe.permute", [x, routing], sorted_rows)
    home = Tensor((Dim(model.experts, ("ep",)), each.over(*cut), x.dims[2]), dtype)
    return tape.reshard(moved, home, "moe.dispatch")


def _beside_experts(tape: Tape, x: Tensor) -> tuple[str, ...]:
    """The axes that cut tokens and are no part of expert parallelism."""
    inside = ("cp", "tp") if tape.settings.folds_experts else ("cp",)
    return tuple(a for a in x.dims[1].axes if a not in inside)


def _experts_mlp(tape: Tape, model: Decoder, ffn: Experts, x: Tensor) -> Tensor:
    """The same MLP for each expert of this rank."""
    inner = () if tape.settings.folds_experts else ("tp",)
    size, gated = ffn.width, ffn.gated
    token = Dim(x.dims[2].size)
    up = _expert_weight(tape, model, ffn, "up", token, Dim(size * (1 + gated), inner))
    hidden = matmul(tape, "moe.experts.up", x, *up, routed=True)
    unfused = ffn.unfused and tape.settings.training
    if unfused:
        hidden = vector(tape, "experts.clamp", [hidden], keeps=[hidden], routed=True)
        hidden = vector(tape, "experts.join", [hidden], routed=True)  # its halves side by side
    act = vector(
        tape,
        "moe.experts.act",
        [hidden],
        _shaped(hidden, Dim(size, inner)),
        ops=SWIGLU if gated else GELU,
        keeps=[hidden],
        routed=True,
    )
    down = _expert_weight(tape, model, ffn, "down", Dim(size, inner), token)
    out = matmul(tape, "moe.experts.down", act, *down, routed=True)
    return _with_biases(tape, out) if unfused else out


def _with_biases(tape: Tape, x: Tensor) -> Tensor:
    """Biases times probabilities added in 32 bits, expert by expert, and the results side by side."""
    wide = replace(x, dtype="fp32")
    for part, out in (("bias", wide), ("bias.join", wide), ("bias.cast", x)):
        x = vector(tape, f"experts.{part}", [x], out, routed=True, linear=True)
    return x


def _expert_weight(
    tape: Tape, model: Decoder, ffn: Experts, name: str, into: Dim, out: Dim
) -> tuple[Weight, Weight | None]:
    count = Dim(model.experts, ("ep",))
    weight = tape.weight(f"moe.experts.{name}.weight", count, into, out, expert=True)
    if not ffn.bias:
        return weight, None
    bias = tape.weight(f"moe.experts.{name}.bias", count, out, kind="vector", expert=True)
    return weight, bias


def _combine(tape: Tape, model: Decoder, routed: Tensor, x: Tensor, routing: Tensor) -> Tensor:
    """Results back to their tokens, weighted and summed.

    Open sums over tp travel as they are, unless tp cuts the sequence: then they are closed before.
    """
    cut = _beside_experts(tape, x)
    each = routed.dims[1].over(*cut, "ep")
    open_sums = routed.partial - frozenset(cut)
    back = Tensor((Dim(model.experts), each, routed.dims[2]), tape.settings.dtype, open_sums)
    home = tape.reshard(routed, back, "moe.combine", routed=True)
    merged = Tensor(x.dims, x.dtype, home.partial)
    return vector(tape, "moe.unpermute", [home, routing], merged, ops=2, keeps=[home], linear=True)


# --- whole blocks -------------------------------------------------------------------------------


def decoder_layer(tape: Tape, model: Decoder, tokens: Tokens, layer: Layer) -> Tensor:
    """A mixer and a feed-forward part, each behind a norm and beside a residual."""
    x = tape.input(*tokens.dims(model.hidden * model.streams))
    mixer, ffn = layer.mixer, layer.ffn
    if isinstance(mixer, Recorded):
        return recorded_layer(tape, model, mixer, x, tokens)
    if mixer is not None:
        x = _beside(
            tape, model, layer, "attention", x, lambda h: mix(tape, model, mixer, h, tokens)
        )
    if ffn is not None:
        x = _beside(
            tape, model, layer, "mlp", x, lambda h: feed_forward(tape, model, h, ffn, tokens)
        )
    return x


def _beside(
    tape: Tape, model: Decoder, layer: Layer, name: str, x: Tensor, part: Callable[[Tensor], Tensor]
) -> Tensor:
    """A part of a layer with its norms, added to what went into it."""
    h = _collapsed(tape, model, name, x) if model.streams > 1 else x
    if layer.norms != "after":
        h = norm(tape, f"{name}_norm", h, model.norm, model.norm_weights)
    y = part(h)
    if layer.norms != "before":
        y = norm(tape, f"{name}_post_norm", y, model.norm, model.norm_weights)
    if model.dropout:
        y = dropout(tape, f"{name}.dropout", y, x)
    if model.streams > 1:
        y = tape.reshard(y, _shaped(x, Dim(model.hidden)), f"{name}.add")
        return vector(tape, f"{name}.add", [x, y], ops=2 * model.streams, keeps=[x])
    return add(tape, f"{name}.add", x, y)


def _collapsed(tape: Tape, model: Decoder, name: str, x: Tensor) -> Tensor:
    """One stream out of several, by weights that a projection of all of them gives.

    It gives weights for what goes in, for what comes out, and for what goes on from stream to stream.
    """
    streams = model.streams
    mixing = linear(tape, f"{name}_streams", x, Dim((2 + streams) * streams), bias=True)
    tape.weight(f"{name}_streams.scale", Dim(3), kind="vector").grad_node = 0
    one = _shaped(x, Dim(model.hidden))
    return vector(tape, f"{name}_collapse", [x, mixing], one, ops=2 * streams, keeps=[x])


def feed_forward(tape: Tape, model: Decoder, x: Tensor, ffn: FeedForward, tokens: Tokens) -> Tensor:
    """An MLP, experts, or both beside each other."""
    if isinstance(ffn, Mlp):
        return mlp(tape, model, x, ffn)
    if not ffn.beside:
        return experts(tape, model, x, ffn, tokens)
    y = norm(tape, "mlp_only_norm", mlp(tape, model, x, Mlp(width=ffn.beside)), model.norm)
    h = norm(tape, "moe_norm", x, model.norm)
    z = norm(tape, "moe_post_norm", experts(tape, model, h, ffn, tokens), model.norm)
    return add(tape, "moe.join", y, z)


def recorded_layer(
    tape: Tape, model: Decoder, mixer: Recorded, x: Tensor, tokens: Tokens
) -> Tensor:
    """A captured layer: its matrices in turn, attention before the first that brings heads back.

    A matrix as wide as the layer's input reads that, another one what was made since.
    """
    vectors = [tape.weight("vectors", Dim(mixer.vectors), kind="vector")] if mixer.vectors else []
    h = vector(tape, "norm", [x], ops=NORM, keeps=[x], weights=vectors)
    made: list[Tensor] = []
    mixed = not (mixer.flops_per_pair or mixer.flops_per_token)
    for matrix in (m for m in mixer.matrices if not m.experts):
        back = matrix.cut == "rows"
        if not back and matrix.inputs == model.hidden:
            made.append(_product_of(tape, matrix, h))
            continue
        now = joined(tape, made or [h])
        if back and not mixed:
            now, mixed = core_of(tape, mixer, now, tokens), True
        made = [_product_of(tape, matrix, now)]
        if back:
            x = h = add(tape, f"{matrix.name}.add", x, _as_wide(tape, made[0], x))
            made = []
    if not mixed:
        made = [core_of(tape, mixer, joined(tape, made or [h]), tokens)]
    routed = [m for m in mixer.matrices if m.experts]
    if routed:
        made = [_recorded_experts(tape, model, routed, h, joined(tape, made or [h]), tokens)]
    return add(tape, "add", x, _as_wide(tape, joined(tape, made), x)) if made else x


def _as_wide(tape: Tape, y: Tensor, x: Tensor) -> Tensor:
    """What is added to the residual: as it is where it has that width."""
    return y if y.dims[-1].size == x.dims[-1].size else viewed(tape, y, x.dims)


def _product_of(tape: Tape, matrix: Matrix, x: Tensor) -> Tensor:
    """A matrix of a captured layer, applied to what came before it in the width that it needs."""
    cut = ("tp",) if matrix.cut == "rows" else ()
    size = Dim(matrix.inputs, cut)
    if x.dims[-1] != size:
        x = viewed(tape, x, (*x.dims[:-1], size))
    out = Dim(matrix.outputs, ("tp",) if matrix.cut == "columns" else ())
    return linear(tape, matrix.name, x, out, into=cut, tied=matrix.tied)


def _recorded_experts(
    tape: Tape, model: Decoder, matrices: list[Matrix], x: Tensor, now: Tensor, tokens: Tokens
) -> Tensor:
    """Experts of a captured layer: tokens are sent to them, go through their matrices, and come back."""
    scores = viewed(tape, now, (*now.dims[:-1], Dim(model.experts)))
    routing = vector(tape, "moe.top_k", [scores], ops=SOFTMAX, keeps=[scores])
    token = Dim(matrices[0].inputs)
    small = x if token.size == model.hidden else viewed(tape, x, (*x.dims[:-1], token))
    routed = _dispatch(tape, model, small, routing, tokens)
    count = Dim(model.experts, ("ep",))
    for matrix in matrices:
        inputs, outputs = Dim(matrix.inputs), Dim(matrix.outputs)
        weight = tape.weight(f"moe.{matrix.name}.weight", count, inputs, outputs, expert=True)
        if routed.dims[-1].size != matrix.inputs:  # half of it is a gate
            routed = vector(
                tape, "moe.act", [routed], _shaped(routed, inputs), ops=SWIGLU, keeps=[routed],
                routed=True,
            )  # fmt: skip
        routed = matmul(tape, f"moe.{matrix.name}", routed, weight, routed=True)
    mixed = _combine(tape, model, routed, small, routing)
    return mixed if token.size == model.hidden else viewed(tape, mixed, x.dims)


def embedding(tape: Tape, model: Decoder, tokens: Tokens, axes: tuple[str, ...]) -> Tensor:
    """The token table, cut by rows over `axes`, and learned positions."""
    table = tape.weight("embedding.weight", Dim(model.vocab, axes), Dim(model.hidden), kind="table")
    rows = (Dim(tokens.batch), Dim(tokens.seq, ("cp",)))
    x = lookup(tape, "embedding", table, rows)
    x = tape.reshard(x, Tensor(tokens.dims(model.hidden), x.dtype), "embedding")
    if model.extra:
        tape.weight("extra", Dim(model.extra), kind="vector").grad_node = 0
    if model.streams > 1:
        x = vector(tape, "streams", [x], _shaped(x, Dim(model.hidden * model.streams)))
    if model.positions:
        places = tape.weight(
            "positions.weight", Dim(model.positions), Dim(model.hidden), kind="table"
        )
        x = add(tape, "positions.add", x, lookup(tape, "positions", places, x.dims[:2]))
    return dropout(tape, "embedding.dropout", x, x) if model.dropout else x


def head(tape: Tape, model: Decoder, tokens: Tokens, axes: tuple[str, ...]) -> Tensor:
    """The last norm, logits over the vocabulary, and the loss."""
    x = tape.input(*tokens.dims(model.hidden * model.streams))
    if model.streams > 1:
        mixing = linear(tape, "head_streams", x, Dim(model.streams), bias=True)
        tape.weight("head_streams.scale", Dim(1), kind="vector").grad_node = 0
        one = _shaped(x, Dim(model.hidden))
        x = vector(tape, "head_collapse", [x, mixing], one, ops=2 * model.streams, keeps=[x])
    x = norm(tape, "final_norm", x, model.norm, model.norm_weights)
    if tokens.sampled:
        x = _sample(tape, x, tokens)
    weight = tape.weight("head.weight", Dim(model.hidden), Dim(model.vocab, axes))
    if model.tied:
        weight.tied = True
    bias = (
        tape.weight("head.bias", Dim(model.vocab, axes), kind="vector") if model.head_bias else None
    )
    logits = matmul(tape, "head", x, weight, bias)
    if tape.settings.training:
        return cross_entropy(tape, "loss", logits)
    if not tape.settings.samples:
        return logits
    return tape.reshard(
        logits, Tensor((*logits.dims[:-1], Dim(model.vocab)), logits.dtype), "sample"
    )


def _sample(tape: Tape, x: Tensor, tokens: Tokens) -> Tensor:
    """The tokens whose next one is wanted, which every rank then has."""
    picked = Tensor((Dim(1), Dim(tokens.sampled), x.dims[2]), x.dtype, node=x.node)
    cut = Tensor((Dim(1), Dim(tokens.sampled, x.dims[1].axes), x.dims[2]), x.dtype, node=x.node)
    return tape.reshard(cut, picked, "head.pick")
