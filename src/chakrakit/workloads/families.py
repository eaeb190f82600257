"""Models that are not decoders: vision, diffusion, recommendation, convolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from chakrakit.workloads.attention import Core, attention
from chakrakit.workloads.description import (
    Convolutional,
    Diffusion,
    Plan,
    Recommender,
    Step,
    Vision,
)
from chakrakit.workloads.layers import linear
from chakrakit.workloads.operators import add, cross_entropy, dropout, lookup, matmul, norm, vector
from chakrakit.workloads.sharding import Dim, Tensor
from chakrakit.workloads.tape import Tape

Build = Callable[[Tape], Tensor]
Axes = tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """A family's blocks: what comes first, the layers a pipeline may cut, what comes last."""

    first: list[str]
    rows: list[str]
    last: list[str]
    builds: dict[str, Build]


def _heads(tape: Tape, x: Tensor, count: int) -> Tensor:
    size = int(x.dims[-1].size) // count
    view = Tensor((*x.dims[:-1], Dim(count, x.dims[-1].axes), Dim(size)), x.dtype, node=x.node)
    return tape.record(view, lambda grad: [(x, Tensor(x.dims, x.dtype, grad.partial, grad.node))])


def _attention(
    tape: Tape, name: str, x: Tensor, heads: int, core: Core, *, bias: bool = True,
    other: Tensor | None = None, qk_norm: bool = False,
) -> Tensor:  # fmt: skip
    """Attention of x over itself, or over another sequence."""
    hidden = int(x.dims[-1].size)
    wide = Dim(hidden, ("tp",))
    parts = [linear(tape, f"{name}.q", x, wide, bias=bias)]
    parts += [linear(tape, f"{name}.{n}", other or x, wide, bias=bias) for n in "kv"]
    storage = tuple(parts)
    if qk_norm:
        parts[:2] = [_wide_norm(tape, f"{name}.{n}_norm", p) for n, p in zip("qk", parts, strict=False)]
        storage = tuple(parts)
    q, k, v = (_heads(tape, p, heads) for p in parts)
    if other is not None:
        core = replace(core, context="gather")
    mixed = attention(tape, f"{name}.core", q, k, v, core, storage)
    return linear(tape, f"{name}.out", mixed, Dim(hidden), into=("tp",), bias=bias)


def _wide_norm(tape: Tape, name: str, x: Tensor) -> Tensor:
    """RMS norm over all heads together, whose weights are cut like the heads."""
    weight = tape.weight(f"{name}.weight", x.dims[-1], kind="vector")
    return vector(tape, name, [x], ops=5, keeps=[x], weights=[weight])


def _mlp(tape: Tape, x: Tensor, width: int) -> Tensor:
    hidden = Dim(x.dims[-1].size)
    up = linear(tape, "mlp.up", x, Dim(width, ("tp",)), bias=True)
    act = vector(tape, "mlp.act", [up], ops=8, keeps=[up])
    return linear(tape, "mlp.down", act, hidden, into=("tp",), bias=True)


# --- vision -------------------------------------------------------------------------------------


def vision(model: Vision, plan: Plan, step: Step, axes: Axes) -> Rows:
    """Patches, encoder layers, a classifier on the class token."""
    patches = (model.image // model.patch) ** 2
    tokens = patches + model.class_token
    batch = Dim(step.micro_batch)
    shape = (batch, Dim(tokens, axes), Dim(model.hidden))
    core = Core(Fraction(step.micro_batch * tokens**2), model.kernel, plan.context, model.dropout)

    def embed(tape: Tape) -> Tensor:
        pixels = Dim(model.channels * model.patch**2)
        x = tape.input(batch, Dim(patches), pixels, needs_grad=False)
        x = linear(tape, "patches", x, Dim(model.hidden), bias=True)
        if model.class_token:
            tape.weight("class_token", Dim(model.hidden), kind="vector").grad_node = 0
        places = tape.weight("positions.weight", Dim(tokens), Dim(model.hidden), kind="table")
        x = vector(tape, "positions.add", [x], Tensor((batch, Dim(tokens), shape[2]), x.dtype),
                   weights=[places, *tape.weights[2:3]])  # fmt: skip
        return tape.reshard(x, Tensor(shape, x.dtype), "embedding")

    def layer(tape: Tape) -> Tensor:
        x = tape.input(*shape)
        y = _attention(tape, "attention", norm(tape, "attention_norm", x, "layer"), model.heads, core)
        x = add(tape, "attention.add", x, dropout(tape, "attention.dropout", y, x) if model.dropout else y)
        y = _mlp(tape, norm(tape, "mlp_norm", x, "layer"), model.ffn)
        return add(tape, "mlp.add", x, dropout(tape, "mlp.dropout", y, x) if model.dropout else y)

    def classify(tape: Tape) -> Tensor:
        x = norm(tape, "final_norm", tape.input(*shape), "layer")
        whole = tape.reshard(x, Tensor((batch, Dim(tokens), shape[2]), x.dtype), "head")
        first = vector(tape, "head.pick", [whole], Tensor((batch, Dim(1), shape[2]), x.dtype))
        logits = linear(tape, "head", first, Dim(model.classes), bias=True)
        return cross_entropy(tape, "loss", logits)

    builds = {"embedding": embed, "layer": layer, "head": classify}
    return Rows(["embedding"], ["layer"] * model.layers, ["head"], builds)


# --- diffusion ----------------------------------------------------------------------------------


def diffusion(model: Diffusion, plan: Plan, step: Step, axes: Axes) -> Rows:
    """Latent patches with a time step, and a class or a text; every block is modulated by them."""
    batch, hidden = Dim(step.micro_batch), Dim(model.hidden)
    shape = (batch, Dim(model.tokens, axes), hidden)
    patch = model.patch[0] * model.patch[1] * model.patch[2]
    core = Core(Fraction(step.micro_batch * model.tokens**2), model.kernel, plan.context)
    cross = Core(Fraction(step.micro_batch * model.tokens * max(model.text_tokens, 1)), model.kernel)
    return Rows(
        ["embedding"],
        ["layer"] * model.layers,
        ["head"],
        {
            "embedding": lambda tape: _latent(tape, model, shape, patch),
            "layer": lambda tape: _diffusion_layer(tape, model, shape, core, cross),
            "head": lambda tape: _denoised(tape, model, shape, patch),
        },
    )


def _latent(tape: Tape, model: Diffusion, shape: tuple[Dim, ...], patch: int) -> Tensor:
    """Patches, and what every block is conditioned on: time, and class or text."""
    x = tape.input(shape[0], shape[1], Dim(model.channels * patch), needs_grad=False)
    x = linear(tape, "patches", x, shape[2], bias=True)
    condition = _condition(tape, model, shape)
    return vector(tape, "embedding.add", [x, condition])


def _condition(tape: Tape, model: Diffusion, shape: tuple[Dim, ...]) -> Tensor:
    batch, hidden = shape[0], shape[2]
    time = Tensor((batch, Dim(1), Dim(model.frequencies)), tape.settings.dtype, needs_grad=False)
    time = linear(tape, "time.up", time, hidden, bias=True)
    act = vector(tape, "time.act", [time], ops=4, keeps=[time])
    found = linear(tape, "time.down", act, hidden, bias=True)
    if model.classes:
        table = tape.weight("classes.weight", Dim(model.classes), hidden, kind="table")
        found = add(tape, "classes.add", found, lookup(tape, "classes", table, (batch, Dim(1))))
    if model.modulation == "shared":
        found = linear(tape, "time.modulation", found, Dim(6 * model.hidden), bias=True)
    if model.text_tokens:
        text = Tensor((batch, Dim(model.text_tokens), Dim(model.text_dim)), tape.settings.dtype,
                      needs_grad=False)  # fmt: skip
        text = linear(tape, "text.up", text, hidden, bias=True)
        text = vector(tape, "text.act", [text], ops=8, keeps=[text])
        text = linear(tape, "text.down", text, hidden, bias=True)
        found = vector(tape, "text.join", [found, text], found)
    return found


def _diffusion_layer(
    tape: Tape, model: Diffusion, shape: tuple[Dim, ...], core: Core, cross: Core
) -> Tensor:
    x = tape.input(*shape)
    _modulation(tape, model, shape, 6)
    y = vector(tape, "attention_norm", [x], ops=7, keeps=[x])
    y = _attention(tape, "attention", y, model.heads, core, qk_norm=model.qk_norm)
    x = add(tape, "attention.add", x, y)
    if model.text_tokens:
        text = Tensor((shape[0], Dim(model.text_tokens), shape[2]), x.dtype, needs_grad=False)
        y = norm(tape, "cross_norm", x, "layer")
        y = _attention(tape, "cross", y, model.heads, cross, other=text, qk_norm=model.qk_norm)
        x = add(tape, "cross.add", x, y)
    y = vector(tape, "mlp_norm", [x], ops=7, keeps=[x])
    return add(tape, "mlp.add", x, _mlp(tape, y, model.ffn))


def _modulation(tape: Tape, model: Diffusion, shape: tuple[Dim, ...], count: int) -> None:
    """Shift, scale and gate vectors from the conditioning, one set a sample."""
    if model.modulation == "shared":
        tape.weight("modulation.bias", Dim(count * model.hidden), kind="vector").grad_node = 0
        return
    condition = Tensor((shape[0], Dim(1), shape[2]), tape.settings.dtype)
    linear(tape, "modulation", condition, Dim(count * model.hidden), bias=True)


def _denoised(tape: Tape, model: Diffusion, shape: tuple[Dim, ...], patch: int) -> Tensor:
    """Patches of the result, and the squared error as loss."""
    x = tape.input(*shape)
    _modulation(tape, model, shape, 2)
    x = vector(tape, "final_norm", [x], ops=7, keeps=[x])
    out = linear(tape, "head", x, Dim(model.out_channels * patch), bias=True)
    return vector(tape, "loss", [out], Tensor(out.dims, "fp32"), ops=3, keeps=[out])


# --- recommendation -----------------------------------------------------------------------------


def recommender(model: Recommender, plan: Plan, step: Step, axes: Axes) -> Rows:
    """Tables are spread over data ranks (axis `ep`), the rest is on every rank."""
    raise NotImplementedError


def convolutional(model: Convolutional, plan: Plan, step: Step, axes: Axes) -> Rows:
    """Convolutions as matmuls over patches."""
    raise NotImplementedError
