"""Models that are not decoders: vision, diffusion, recommendation, convolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from chakrakit.operators import GELU, LAYER_NORM, NORM, SILU, PerElement, convolution_flops
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.description import (
    Convolutional,
    Diffusion,
    Plan,
    Recommender,
    Step,
    Vision,
)
from chakrakit.workloads.layers.attention import Core, attention
from chakrakit.workloads.layers.operators import add, cross_entropy, dropout, lookup, norm, vector
from chakrakit.workloads.layers.sharding import BYTES, Dim, Tensor
from chakrakit.workloads.layers.tape import BlockNode, Grads, Tape
from chakrakit.workloads.layers.tokens import linear

MODULATED = PerElement(LAYER_NORM.forward + 2, LAYER_NORM.backward + 2)
"""A layer norm whose shift and scale come from the conditioning."""
SQUARED_ERROR = PerElement(3, 2)
"""Difference, square, sum; twice the difference."""
Build = Callable[[Tape], Tensor]
Axes = tuple[str, ...]


@dataclass(frozen=True)
class FamilyBlocks:
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
    tape: Tape,
    name: str,
    x: Tensor,
    heads: int,
    core: Core,
    *,
    bias: bool = True,
    context: Tensor | None = None,
    qk_norm: bool = False,
) -> Tensor:
    """Attention of x over itself, or over another sequence."""
    hidden = int(x.dims[-1].size)
    wide = Dim(hidden, ("tp",))
    parts = [linear(tape, f"{name}.q", x, wide, bias=bias)]
    parts += [linear(tape, f"{name}.{n}", context or x, wide, bias=bias) for n in "kv"]
    storage = tuple(parts)
    if qk_norm:
        parts[:2] = [
            _wide_norm(tape, f"{name}.{n}_norm", p) for n, p in zip("qk", parts, strict=False)
        ]
        storage = tuple(parts)
    q, k, v = (_heads(tape, p, heads) for p in parts)
    if context is not None:
        core = replace(core, context="gather")
    mixed = attention(tape, f"{name}.core", q, k, v, core, storage)
    return linear(tape, f"{name}.out", mixed, Dim(hidden), into=("tp",), bias=bias)


def _wide_norm(tape: Tape, name: str, x: Tensor) -> Tensor:
    """RMS norm over all heads together, whose weights are cut like the heads."""
    weight = tape.weight(f"{name}.weight", x.dims[-1], kind="vector")
    return vector(tape, name, [x], ops=NORM, keeps=[x], weights=[weight])


def _mlp(tape: Tape, x: Tensor, width: int) -> Tensor:
    hidden = Dim(x.dims[-1].size)
    up = linear(tape, "mlp.up", x, Dim(width, ("tp",)), bias=True)
    act = vector(tape, "mlp.act", [up], ops=GELU, keeps=[up])
    return linear(tape, "mlp.down", act, hidden, into=("tp",), bias=True)


# --- vision -------------------------------------------------------------------------------------


def vision(model: Vision, plan: Plan, step: Step, axes: Axes) -> FamilyBlocks:
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
        x = vector(
            tape,
            "positions.add",
            [x],
            Tensor((batch, Dim(tokens), shape[2]), x.dtype),
            weights=[places, *tape.weights[2:3]],
        )
        return tape.reshard(x, Tensor(shape, x.dtype), "embedding")

    def layer(tape: Tape) -> Tensor:
        x = tape.input(*shape)
        y = _attention(
            tape, "attention", norm(tape, "attention_norm", x, "layer"), model.heads, core
        )
        x = add(
            tape,
            "attention.add",
            x,
            dropout(tape, "attention.dropout", y, x) if model.dropout else y,
        )
        y = _mlp(tape, norm(tape, "mlp_norm", x, "layer"), model.ffn)
        return add(tape, "mlp.add", x, dropout(tape, "mlp.dropout", y, x) if model.dropout else y)

    def classify(tape: Tape) -> Tensor:
        x = norm(tape, "final_norm", tape.input(*shape), "layer")
        whole = tape.reshard(x, Tensor((batch, Dim(tokens), shape[2]), x.dtype), "head")
        first = vector(tape, "head.pick", [whole], Tensor((batch, Dim(1), shape[2]), x.dtype))
        logits = linear(tape, "head", first, Dim(model.classes), bias=True)
        return cross_entropy(tape, "loss", logits)

    builds: dict[str, Build] = {"embedding": embed, "layer": layer, "head": classify}
    return FamilyBlocks(["embedding"], ["layer"] * model.layers, ["head"], builds)


# --- diffusion ----------------------------------------------------------------------------------


def diffusion(model: Diffusion, plan: Plan, step: Step, axes: Axes) -> FamilyBlocks:
    """Latent patches with a time step, and a class or a text; every block is modulated by them."""
    batch, hidden = Dim(step.micro_batch), Dim(model.hidden)
    shape = (batch, Dim(model.tokens, axes), hidden)
    patch = model.patch[0] * model.patch[1] * model.patch[2]
    core = Core(Fraction(step.micro_batch * model.tokens**2), model.kernel, plan.context)
    cross = Core(
        Fraction(step.micro_batch * model.tokens * max(model.text_tokens, 1)), model.kernel
    )
    return FamilyBlocks(
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
    act = vector(tape, "time.act", [time], ops=SILU, keeps=[time])
    condition = linear(tape, "time.down", act, hidden, bias=True)
    if model.classes:
        table = tape.weight("classes.weight", Dim(model.classes), hidden, kind="table")
        condition = add(
            tape, "classes.add", condition, lookup(tape, "classes", table, (batch, Dim(1)))
        )
    if model.modulation == "shared":
        condition = linear(tape, "time.modulation", condition, Dim(6 * model.hidden), bias=True)
    if model.text_tokens:
        text = Tensor(
            (batch, Dim(model.text_tokens), Dim(model.text_dim)),
            tape.settings.dtype,
            needs_grad=False,
        )
        text = linear(tape, "text.up", text, hidden, bias=True)
        text = vector(tape, "text.act", [text], ops=GELU, keeps=[text])
        text = linear(tape, "text.down", text, hidden, bias=True)
        condition = vector(tape, "text.join", [condition, text], condition)
    return condition


def _diffusion_layer(
    tape: Tape, model: Diffusion, shape: tuple[Dim, ...], core: Core, cross: Core
) -> Tensor:
    x = tape.input(*shape)
    _modulation(tape, model, shape, 6)
    y = vector(tape, "attention_norm", [x], ops=MODULATED, keeps=[x])
    y = _attention(tape, "attention", y, model.heads, core, qk_norm=model.qk_norm)
    x = add(tape, "attention.add", x, y)
    if model.text_tokens:
        text = Tensor((shape[0], Dim(model.text_tokens), shape[2]), x.dtype, needs_grad=False)
        y = norm(tape, "cross_norm", x, "layer")
        y = _attention(tape, "cross", y, model.heads, cross, context=text, qk_norm=model.qk_norm)
        x = add(tape, "cross.add", x, y)
    y = vector(tape, "mlp_norm", [x], ops=MODULATED, keeps=[x])
    return add(tape, "mlp.add", x, _mlp(tape, y, model.ffn))


def _modulation(tape: Tape, model: Diffusion, shape: tuple[Dim, ...], count: int) -> None:
    """Shift, scale and gate vectors from the conditioning, one set per sample."""
    if model.modulation == "shared":
        tape.weight("modulation.bias", Dim(count * model.hidden), kind="vector").grad_node = 0
        return
    condition = Tensor((shape[0], Dim(1), shape[2]), tape.settings.dtype)
    linear(tape, "modulation", condition, Dim(count * model.hidden), bias=True)


def _denoised(tape: Tape, model: Diffusion, shape: tuple[Dim, ...], patch: int) -> Tensor:
    """Patches of the result, and the squared error as loss."""
    x = tape.input(*shape)
    _modulation(tape, model, shape, 2)
    x = vector(tape, "final_norm", [x], ops=MODULATED, keeps=[x])
    out = linear(tape, "head", x, Dim(model.out_channels * patch), bias=True)
    return vector(tape, "loss", [out], Tensor(out.dims, "fp32"), ops=SQUARED_ERROR, keeps=[out])


# --- recommendation -----------------------------------------------------------------------------


def recommender(model: Recommender, plan: Plan, step: Step, axes: Axes) -> FamilyBlocks:
    """Tables are spread over groups of `ep` data ranks, rows evenly; the rest is on every rank.

    A rank looks up its tables for the samples of its whole group, then samples and tables are traded.
    """
    build = {"all": lambda tape: _recommend(tape, model, step.micro_batch)}
    return FamilyBlocks([], [], ["all"], build)


def _recommend(tape: Tape, model: Recommender, samples: int) -> Tensor:
    batch, count = Dim(samples), len(model.tables)
    x = tape.input(batch, Dim(model.dense), needs_grad=False)
    x = _tower(tape, "bottom", x, model.bottom)
    group = Dim(samples * tape.degrees.get("ep", 1))
    rows = sum(model.tables)
    table = tape.weight(
        "tables.weight", Dim(rows, ("ep",)), Dim(model.dim), kind="table", expert=True
    )
    whole = replace(table, tensor=Tensor((Dim(count), Dim(model.dim)), table.tensor.dtype))
    embeddings = lookup(tape, "tables", whole, (group, Dim(count, ("ep",))), model.pooling)
    table.grad_node = 0
    home = Tensor((group.over("ep"), Dim(count), Dim(model.dim)), embeddings.dtype)
    embeddings = tape.reshard(embeddings, home, "tables")
    joined = Tensor((batch, Dim(count + 1), Dim(model.dim)), x.dtype)
    both = vector(tape, "join", [x, embeddings], joined)
    y = _pairs(tape, both, model.dim) if model.interaction == "dot" else _crossed(tape, model, both)
    y = _tower(tape, "top", y, model.top)
    return vector(tape, "loss", [y], Tensor(y.dims, "fp32"), ops=SQUARED_ERROR, keeps=[y])


def _tower(tape: Tape, name: str, x: Tensor, widths: list[int]) -> Tensor:
    """Linear layers with ReLU between."""
    for i, width in enumerate(widths):
        x = linear(tape, f"{name}.{i}", x, Dim(width), bias=True)
        if i < len(widths) - 1 or name == "bottom":
            x = vector(tape, f"{name}.{i}.act", [x], keeps=[x])
    return x


def _pairs(tape: Tape, x: Tensor, dense: int) -> Tensor:
    """Dot products of all pairs of features, beside the dense ones."""
    batch, count, size = x.dims
    features = int(count.size)
    flops = 2 * int(batch.size) * features**2 * int(size.size)
    node = BlockNode("interaction", "matmul", flops, bytes=2 * x.bytes(tape.degrees), dtype=x.dtype)
    place = tape.emit(node, [x])
    freed = tape.keep(place, x)
    width = features * (features - 1) // 2 + dense
    out = Tensor((batch, Dim(width)), x.dtype, node=place)

    def back(grad: Tensor) -> Grads:
        dx = tape.emit_backward(
            node.again(name="interaction.dx", flops=2 * flops, free=freed), [grad], [x]
        )
        return [(x, Tensor(x.dims, x.dtype, node=dx))]

    return tape.record(out, back)


def _crossed(tape: Tape, model: Recommender, x: Tensor) -> Tensor:
    """Low-rank cross layers: each multiplies the input with a projection of what it has."""
    width = (len(model.tables) + 1) * model.dim
    start = vector(tape, "cross.flat", [x], Tensor((x.dims[0], Dim(width)), x.dtype))
    y = start
    for i in range(model.cross_layers):
        small = linear(tape, f"cross.{i}.down", y, Dim(model.cross_rank))
        wide = linear(tape, f"cross.{i}.up", small, Dim(width), bias=True)
        y = vector(tape, f"cross.{i}.gate", [start, wide, y], ops=2, keeps=[wide])
    return y


# --- convolution --------------------------------------------------------------------------------


def convolutional(model: Convolutional, plan: Plan, step: Step, axes: Axes) -> FamilyBlocks:
    """A first convolution, residual blocks of two, and a classifier. All one block: no pipeline."""
    buffers = plan.dp > 1 and plan.data == "ddp"
    build = {"all": lambda tape: _convolutions(tape, model, step.micro_batch, buffers)}
    return FamilyBlocks([], [], ["all"], build)


def _convolutions(tape: Tape, model: Convolutional, samples: int, buffers: bool) -> Tensor:
    batch, area = Dim(samples), Dim(model.image**2)
    x = tape.input(batch, area, Dim(model.channels), needs_grad=False)
    if buffers:
        _broadcast_buffers(tape, (model.layers + 1), model.width)
    x = _convolved(tape, "stem", x, model.width)
    for i in range(model.layers // 2):
        y = _convolved(tape, f"blocks.{i}.0", x, model.width)
        x = add(tape, f"blocks.{i}.add", x, _convolved(tape, f"blocks.{i}.1", y, model.width))
    pooled = vector(tape, "pool", [x], Tensor((batch, Dim(1), Dim(model.width)), x.dtype))
    return cross_entropy(tape, "loss", linear(tape, "head", pooled, Dim(model.classes), bias=True))


def _broadcast_buffers(tape: Tape, norms: int, width: int) -> None:
    """DDP hands round the statistics of batch norms before every forward: means, variances, counts."""
    for name, dtype, count in (
        ("statistics", "fp32", 2 * width * norms),
        ("counts", "int64", norms),
    ):
        size = count * BYTES[dtype]
        node = BlockNode(
            f"buffers.{name}",
            "collective",
            comm=CollectiveType.BROADCAST,
            comm_size=size,
            out_size=size,
            role="dp",
            dtype=dtype,
        )
        tape.forward.append(node)


def _convolved(tape: Tape, name: str, x: Tensor, width: int) -> Tensor:
    """A 3×3 convolution, batch norm and ReLU."""
    y = convolution(tape, name, x, width)
    y = norm(tape, f"{name}.norm", y, "layer")
    return vector(tape, f"{name}.act", [y], keeps=[y])


def convolution(tape: Tape, name: str, x: Tensor, width: int, kernel: int = 3) -> Tensor:
    """X [b, pixels, channels]; each pixel sees kernel² neighbours."""
    batch, area, channels = x.dims
    weight = tape.weight(f"{name}.weight", Dim(int(channels.size) * kernel**2), Dim(width))
    out = Tensor((batch, area, Dim(width)), x.dtype)
    pixels = out.elements(tape.degrees) // width
    flops = convolution_flops(pixels, (width, int(channels.size), kernel, kernel))
    moved = sum(t.bytes(tape.degrees) for t in (x, weight.tensor, out))
    node = BlockNode(name, "matmul", flops, bytes=moved, dtype=x.dtype)
    place = tape.emit(node, [x])
    freed = tape.keep(place, x)

    def back(grad: Tensor) -> Grads:
        grads: Grads = []
        if x.needs_grad:
            dx = tape.emit_backward(node.again(name=f"{name}.dx"), [grad])
            grads = [(x, Tensor(x.dims, x.dtype, node=dx))]
        dw = node.again(name=f"{name}.dw", weight=True, free=freed)
        weight.grad_node = tape.emit_backward(dw, [grad], [x])
        return grads

    return tape.record(replace(out, node=place), back)
