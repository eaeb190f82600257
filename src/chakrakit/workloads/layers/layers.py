"""The layers models are made of, each a few lines of operators on a tape.

Activations are [batch, sequence, hidden]. Between layers the sequence is cut by `cp`, and with
sequence parallelism also by `tp`; the operators inside say what they need, and the tape moves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from chakrakit.operators import GELU, NORM, SOFTMAX, SWIGLU
from chakrakit.workloads.description import Decoder
from chakrakit.workloads.layers.attention import Core, attention
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


@dataclass(frozen=True)
class Tokens:
    """The tokens of one micro-batch of one data-parallel rank, and how they are cut between layers."""

    batch: int
    seq: int
    core: Core
    axes: tuple[str, ...] = ("cp",)
    sampled: int = 0
    """Tokens the head works on; 0 for all (training)."""
    dispatch_dtype: str = ""

    def dims(self, hidden: int) -> tuple[Dim, Dim, Dim]:
        """An activation between layers."""
        return Dim(self.batch), Dim(self.seq, self.axes), Dim(hidden)


def linear(
    tape: Tape, name: str, x: Tensor, out: Dim, into: tuple[str, ...] = (), bias: bool = False
) -> Tensor:
    """A projection to `out`; `into` are the axes that cut the contraction (row parallel)."""
    size = x.dims[-1].size
    weight = tape.weight(f"{name}.weight", Dim(size, into), out)
    extra = tape.weight(f"{name}.bias", out, kind="vector") if bias else None
    return matmul(tape, name, x, weight, extra)


# --- attention ----------------------------------------------------------------------------------


def self_attention(tape: Tape, model: Decoder, x: Tensor, tokens: Tokens) -> Tensor:
    """Grouped-query attention: q has all heads, k and v have `kv_heads`."""
    size = model.head_dim or model.hidden // model.heads
    groups = model.kv_heads or model.heads
    bias = model.bias or model.qkv_bias
    widths = {"q": model.heads * size, "k": groups * size, "v": groups * size}
    if model.fused:
        qkv = linear(tape, "attention.qkv", x, Dim(sum(widths.values()), ("tp",)), bias=bias)
        storage: tuple[Tensor, ...] = (qkv,)
        parts = dict.fromkeys(widths, qkv)
    else:
        parts = {
            n: linear(tape, f"attention.{n}", x, Dim(w, ("tp",)), bias=bias)
            for n, w in widths.items()
        }
        storage = tuple(parts.values())
    heads = {n: _heads(tape, parts[n], w // size, size) for n, w in widths.items()}
    if model.qk_norm:
        heads |= {n: norm(tape, f"attention.{n}_norm", heads[n]) for n in ("q", "k")}
        storage = (heads["q"], heads["k"], heads["v"])
    mixed = attention(
        tape, "attention.core", heads["q"], heads["k"], heads["v"], tokens.core, storage
    )
    out = Dim(model.hidden)
    return linear(tape, "attention.out", mixed, out, into=("tp",), bias=model.bias)


def _heads(tape: Tape, x: Tensor, count: int, size: int) -> Tensor:
    """A view of a projection (or of a part of a fused one) as heads; its gradient goes back to it."""
    dims = (*x.dims[:-1], Dim(count, x.dims[-1].axes), Dim(size))
    view = Tensor(dims, x.dtype, node=x.node, needs_grad=x.needs_grad)
    return tape.record(view, lambda grad: [(x, Tensor(x.dims, x.dtype, grad.partial, grad.node))])


def latent_attention(tape: Tape, model: Decoder, x: Tensor, tokens: Tokens) -> Tensor:
    """MLA: queries, keys and values are made from small latent vectors; the latter are cached."""
    key, value = model.nope_dim + model.rope_dim, model.value_dim
    query = Dim(model.heads * key, ("tp",))
    if model.q_lora:
        small = norm(
            tape, "attention.q_norm", linear(tape, "attention.q_down", x, Dim(model.q_lora))
        )
        q = linear(tape, "attention.q_up", small, query)
    else:
        q = linear(tape, "attention.q", x, query)
    latent = linear(tape, "attention.kv_down", x, Dim(model.kv_lora + model.rope_dim))
    scale = tape.weight("attention.kv_norm.weight", Dim(model.kv_lora), kind="vector")
    narrow = _narrow(latent, model.kv_lora)
    content = vector(
        tape, "attention.kv_norm", [latent], narrow, ops=NORM, keeps=[latent], weights=[scale]
    )
    both = Dim(model.heads * (model.nope_dim + value), ("tp",))
    kv = linear(tape, "attention.kv_up", content, both)
    heads = (
        _heads(tape, q, model.heads, key),
        _heads(tape, kv, model.heads, key),
        _heads(tape, kv, model.heads, value),
    )
    mixed = attention(tape, "attention.core", *heads, tokens.core)
    return linear(tape, "attention.out", mixed, Dim(model.hidden), into=("tp",))


def _narrow(x: Tensor, size: int) -> Tensor:
    return Tensor((*x.dims[:-1], Dim(size)), x.dtype)


# --- MLP and experts ----------------------------------------------------------------------------


def mlp(tape: Tape, model: Decoder, x: Tensor, width: int, name: str = "mlp") -> Tensor:
    """Two matrices with GELU, or three with SwiGLU."""
    inner = Dim(width, ("tp",))
    if model.activation == "gelu":
        up = linear(tape, f"{name}.up", x, inner, bias=model.bias)
        act = vector(tape, f"{name}.act", [up], ops=GELU, keeps=[up])
    elif model.fused:
        both = linear(tape, f"{name}.gate_up", x, Dim(2 * width, ("tp",)), bias=model.bias)
        act = vector(tape, f"{name}.act", [both], _shaped(both, inner), ops=SWIGLU, keeps=[both])
    else:
        gate = linear(tape, f"{name}.gate", x, inner, bias=model.bias)
        up = linear(tape, f"{name}.up", x, inner, bias=model.bias)
        act = vector(tape, f"{name}.act", [gate, up], ops=SWIGLU, keeps=[gate, up])
    return linear(tape, f"{name}.down", act, Dim(model.hidden), into=("tp",), bias=model.bias)


def _shaped(x: Tensor, last: Dim) -> Tensor:
    return Tensor((*x.dims[:-1], last), x.dtype)


def experts(tape: Tape, model: Decoder, x: Tensor, tokens: Tokens) -> Tensor:
    """Top-k of many MLPs: route, send tokens to the ranks that have their experts, and back."""
    scores = linear(tape, "moe.router", x, Dim(model.experts), bias=model.router_bias)
    routing = vector(tape, "moe.top_k", [scores], ops=SOFTMAX, keeps=[scores])
    routed = _dispatch(tape, model, x, routing, tokens)
    routed = _experts_mlp(tape, model, routed)
    mixed = _combine(tape, model, routed, x, routing)
    if not model.shared_experts:
        return mixed
    width = model.shared_ffn or model.shared_experts * (model.expert_ffn or 0)
    shared = mlp(tape, model, x, width, "moe.shared")
    return add(tape, "moe.add", mixed, shared)


def _dispatch(tape: Tape, model: Decoder, x: Tensor, routing: Tensor, tokens: Tokens) -> Tensor:
    """Copies of tokens in the order of their experts: [experts, tokens of each, hidden], sent to them."""
    ranks = Fraction(tape.degrees.get("ep", 1), tape.degrees.get("cp", 1))
    rows = int(x.dims[0].size) * int(x.dims[1].size) * model.top_k * ranks / model.experts
    cut = tuple(a for a in x.dims[1].axes if a != "cp")
    each = Dim(rows, (*cut, "ep"))
    dtype = tokens.dispatch_dtype or x.dtype
    sorted_rows = Tensor((Dim(model.experts), each, x.dims[2]), dtype)
    moved = vector(tape, "moe.permute", [x, routing], sorted_rows)
    home = Tensor((Dim(model.experts, ("ep",)), each.over(*cut), x.dims[2]), dtype)
    return tape.reshard(moved, home, "moe.dispatch")


def _experts_mlp(tape: Tape, model: Decoder, x: Tensor) -> Tensor:
    """The same MLP for each expert of this rank."""
    size, inner = model.expert_ffn or model.ffn or 4 * model.hidden, ("tp",)
    gated = model.activation == "swiglu"
    up = _expert_weight(tape, model, "up", Dim(model.hidden), Dim(size * (1 + gated), inner))
    hidden = matmul(tape, "moe.experts.up", x, *up, routed=True)
    act = vector(
        tape,
        "moe.experts.act",
        [hidden],
        _shaped(hidden, Dim(size, inner)),
        ops=SWIGLU if gated else GELU,
        keeps=[hidden],
        routed=True,
    )
    down = _expert_weight(tape, model, "down", Dim(size, inner), Dim(model.hidden))
    return matmul(tape, "moe.experts.down", act, *down, routed=True)


def _expert_weight(
    tape: Tape, model: Decoder, name: str, into: Dim, out: Dim
) -> tuple[Weight, Weight | None]:
    count = Dim(model.experts, ("ep",))
    weight = tape.weight(f"moe.experts.{name}.weight", count, into, out, expert=True)
    if not model.bias:
        return weight, None
    bias = tape.weight(f"moe.experts.{name}.bias", count, out, kind="vector", expert=True)
    return weight, bias


def _combine(tape: Tape, model: Decoder, routed: Tensor, x: Tensor, routing: Tensor) -> Tensor:
    """Results back to their tokens, weighted and summed.

    Open sums over tp travel as they are, unless tp cuts the sequence: then they are closed before.
    """
    cut = tuple(a for a in x.dims[1].axes if a != "cp")
    each = routed.dims[1].over(*cut, "ep")
    open_sums = routed.partial - frozenset(cut)
    back = Tensor((Dim(model.experts), each, routed.dims[2]), tape.settings.dtype, open_sums)
    home = tape.reshard(routed, back, "moe.combine", routed=True)
    merged = Tensor(x.dims, x.dtype, home.partial)
    return vector(tape, "moe.unpermute", [home, routing], merged, ops=2, keeps=[home], linear=True)


# --- whole blocks -------------------------------------------------------------------------------


def decoder_layer(tape: Tape, model: Decoder, tokens: Tokens, moe: bool) -> Tensor:
    """Attention and MLP (or experts), each behind a norm and beside a residual."""
    x = tape.input(*tokens.dims(model.hidden))
    attend = latent_attention if model.kv_lora else self_attention
    y = attend(tape, model, norm(tape, "attention_norm", x, model.norm), tokens)
    if model.dropout:
        y = dropout(tape, "attention.dropout", y, x)
    x = add(tape, "attention.add", x, y)
    h = norm(tape, "mlp_norm", x, model.norm)
    y = (
        experts(tape, model, h, tokens)
        if moe
        else mlp(tape, model, h, model.ffn or 4 * model.hidden)
    )
    if model.dropout:
        y = dropout(tape, "mlp.dropout", y, x)
    return add(tape, "mlp.add", x, y)


def embedding(tape: Tape, model: Decoder, tokens: Tokens, axes: tuple[str, ...]) -> Tensor:
    """The token table, cut by rows over `axes`, and learned positions."""
    table = tape.weight("embedding.weight", Dim(model.vocab, axes), Dim(model.hidden), kind="table")
    rows = (Dim(tokens.batch), Dim(tokens.seq, ("cp",)))
    x = lookup(tape, "embedding", table, rows)
    x = tape.reshard(x, Tensor(tokens.dims(model.hidden), x.dtype), "embedding")
    if model.positions:
        places = tape.weight(
            "positions.weight", Dim(model.positions), Dim(model.hidden), kind="table"
        )
        x = add(tape, "positions.add", x, lookup(tape, "positions", places, x.dims[:2]))
    return dropout(tape, "embedding.dropout", x, x) if model.dropout else x


def head(tape: Tape, model: Decoder, tokens: Tokens, axes: tuple[str, ...]) -> Tensor:
    """The last norm, logits over the vocabulary, and the loss."""
    x = norm(tape, "final_norm", tape.input(*tokens.dims(model.hidden)), model.norm)
    if tokens.sampled:
        x = _sample(tape, x, tokens)
    weight = tape.weight("head.weight", Dim(model.hidden), Dim(model.vocab, axes))
    if model.tied:
        weight.tied = True
    logits = matmul(tape, "head", x, weight)
    if tape.settings.training:
        return cross_entropy(tape, "loss", logits)
    return tape.reshard(
        logits, Tensor((*logits.dims[:-1], Dim(model.vocab)), logits.dtype), "sample"
    )


def _sample(tape: Tape, x: Tensor, tokens: Tokens) -> Tensor:
    """The tokens whose next one is wanted, which every rank then has."""
    picked = Tensor((Dim(1), Dim(tokens.sampled), x.dims[2]), x.dtype, node=x.node)
    cut = Tensor((Dim(1), Dim(tokens.sampled, x.dims[1].axes), x.dims[2]), x.dtype, node=x.node)
    return tape.reshard(cut, picked, "head.pick")
