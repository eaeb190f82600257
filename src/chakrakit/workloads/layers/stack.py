"""A model as a row of blocks, and a plan's degrees applied to them.

Every family gives the same three things: blocks by name, the row of layers that a pipeline may cut,
and what comes before the first and after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.description import (
    Convolutional,
    Decoder,
    Diffusion,
    Format,
    Layer,
    Model,
    Plan,
    Recommender,
    Step,
    Vision,
    layer_rows,
)
from chakrakit.workloads.layers import families
from chakrakit.workloads.layers.attention import Core, Stretch
from chakrakit.workloads.layers.exchange import Exchange
from chakrakit.workloads.layers.families import Build
from chakrakit.workloads.layers.layers import decoder_layer, embedding, head
from chakrakit.workloads.layers.recomputation import recomputed
from chakrakit.workloads.layers.tape import Block, BlockNode, Settings, Tape
from chakrakit.workloads.layers.tokens import Tokens

UNQUANTIZED = ("embedding", "head")
"""Blocks that keep and compute in the type of the activations where a step's products are narrow: engines
(vLLM, SGLang, TensorRT-LLM) quantize the matrices of layers alone, and trainers (Megatron-Core's output layer
is none of Transformer Engine's, torchtitan's filter names it) cast those of layers alone."""

# --- tensor-parallel collectives beside the products that read or make their data ---------------
#
# Recipes of Megatron-Core (`tp_comm_overlap`) cut both into pieces and exchange one piece while another is
# multiplied. Here a collective and its product start together, and what comes after waits for both: the time
# of the longer one, which is what ever smaller pieces lead to.


def overlapped(block: Block) -> Block:
    """The same block; its nodes are changed in place."""
    _overlap(block.forward, block.forward_end)
    _overlap(block.backward, block.backward_end)
    return block


def _overlap(nodes: list[BlockNode], end: int) -> None:
    before = [list(node.deps) for node in nodes]
    for place, node in enumerate(nodes):
        if node.role != "tp" or node.weight:
            continue
        if node.comm is CollectiveType.ALL_GATHER:
            readers = [
                i for i, deps in enumerate(before) if place in deps and _is_product(nodes[i])
            ]
            for reader in (r for r in readers if r != end):
                nodes[reader].deps = _replaced(nodes[reader].deps, [place], node.deps)
                _wait_too(nodes, before, reader, [place])
        elif node.comm is CollectiveType.REDUCE_SCATTER and place != end:
            makers = [i for i in before[place] if i >= 0 and _is_product(nodes[i])]
            if makers:
                starts = [i for maker in makers for i in before[maker]]
                node.deps = _replaced(node.deps, makers, starts)
                _wait_too(nodes, before, place, makers)


def _is_product(node: BlockNode) -> bool:
    return node.op == "matmul"


def _replaced(deps: Iterable[int], old: Iterable[int], new: Iterable[int]) -> list[int]:
    return sorted({*deps} - {*old} | {*new})


def _wait_too(nodes: list[BlockNode], before: list[list[int]], place: int, more: list[int]) -> None:
    """Makes nodes that waited for a node wait for more nodes as well."""
    for node, deps in zip(nodes, before, strict=True):
        if place in deps:
            node.deps = sorted({*node.deps, *more})


FAMILIES: dict[type, Callable[..., families.FamilyBlocks]] = {
    Vision: families.vision,
    Diffusion: families.diffusion,
    Recommender: families.recommender,
    Convolutional: families.convolutional,
}
"""How each kind of model becomes blocks; add a type of your own here to generate it."""


@dataclass
class Stack:
    """Blocks by name, made when first asked for. `rows` names the block of each layer."""

    settings: Settings
    recompute: str
    first: list[str]
    rows: list[str]
    last: list[str]
    builds: dict[str, Build]
    starts_backward: set[str] = field(default_factory=set)
    blocks: dict[str, Block] = field(default_factory=dict)
    formats: dict[str, dict[str, Format]] = field(default_factory=dict)
    """By block, the formats of weights that are not kept in the step's element type."""

    def block(self, name: str) -> Block:
        """The block of this name, one micro-batch forward and backward."""
        if name not in self.blocks:
            settings = self.settings
            if name in UNQUANTIZED and not (settings.training and settings.narrow_head):
                settings = replace(settings, matmul_dtype="")
            tape = Tape(name, settings, self.formats.get(name))
            output = self.builds[name](tape)
            block = tape.finish(output, name in self.starts_backward)
            if self.recompute != "none" and name in self.rows and self.settings.training:
                block = recomputed(block, self.recompute)
            self.blocks[name] = overlapped(block) if self.settings.tp_overlap else block
        return self.blocks[name]


def settings_of(plan: Plan, step: Step, touched: float = 1.0) -> Settings:
    """Returns the settings of tapes under a plan and a step."""
    degrees = {"tp": plan.tp, "cp": plan.cp, "ep": plan.ep}
    fused = plan.weight_grads == "fused"
    return Settings(
        degrees=degrees,
        dtype=step.dtype,
        matmul_dtype=step.matmul_dtype,
        narrow_head=step.narrow_head,
        training=step.kind == "train",
        samples=not step.in_micro_batches,
        save_gathered=plan.save_gathered,
        shared_reduce=plan.shared_reduce,
        fused_weight_grads=fused,
        adds_weight_grads=not fused and step.global_batch > plan.dp * step.micro_batch,
        grad_dtype=step.grad_dtype,
        touched=touched,
        tp_overlap=plan.tp_overlap,
        reorders_tokens=plan.sequence_dim == "second" and not plan.tp_overlap,
        folds_experts=plan.folds_experts,
        cache_dtype=step.cache_dtype,
    )


def token_axes(plan: Plan) -> tuple[str, ...]:
    """How the sequence is cut between layers."""
    return ("cp", "tp") if plan.sequence_parallel and plan.tp > 1 else ("cp",)


def stack_of(
    model: Model, plan: Plan, step: Step, tokens: Tokens | None = None, touched: float = 1.0
) -> Stack:
    """The blocks of a model under a plan. `tokens` for passes that are not one training micro-batch."""
    settings = settings_of(plan, step, touched)
    if isinstance(model, Decoder):
        return decoder_stack(model, plan, step, settings, tokens)
    rows = FAMILIES[type(model)](model, plan, step, token_axes(plan))
    return Stack(
        settings, plan.recompute, rows.first, rows.rows, rows.last, rows.builds, set(rows.last[-1:])
    )


def training_tokens(model: Decoder, plan: Plan, step: Step) -> Tokens:
    """The tokens of a training micro-batch. Flash attention skips what a causal mask hides."""
    pairs = Fraction(step.micro_batch * step.seq**2)
    if model.causal and model.kernel == "flash":
        pairs /= 2
    stretches = (Stretch(step.seq, 0),) * step.micro_batch
    core = Core(pairs, model.kernel, plan.context, model.dropout, stretches=stretches)
    return Tokens(
        step.micro_batch, step.seq, core, token_axes(plan), dispatch_dtype=step.dispatch_dtype
    )


def decoder_stack(
    model: Decoder, plan: Plan, step: Step, settings: Settings, tokens: Tokens | None
) -> Stack:
    """Embedding, layers of every kind, head."""
    step_tokens = tokens or training_tokens(model, plan, step)
    axes = ("tp",) if plan.vocab_parallel else ()
    if plan.vocab_parallel:  # the last rank's part of the vocabulary is filled up
        model = model.replace(vocab=-(-model.vocab // plan.tp) * plan.tp)
    kinds, rows = layer_rows(model)
    builds: dict[str, Build] = {
        "embedding": lambda tape: embedding(tape, model, step_tokens, axes),
        "head": lambda tape: head(tape, model, step_tokens, axes),
        **{name: _layer_build(model, step_tokens, layer) for name, layer in kinds.items()},
    }
    formats = {} if step.kind == "train" or step.matmul_dtype else formats_of(model, kinds)
    if model.precision and model.precision.cache and not settings.cache_dtype:
        settings = replace(settings, cache_dtype=model.precision.cache)
    if model.experts and plan.ep > 1 and plan.exchange != "all-to-all":
        way = Exchange(
            plan.exchange, plan.ep, plan.exchange_node, model.experts, model.top_k,
            model.expert_groups, model.top_groups,
        )  # fmt: skip
        settings = replace(settings, exchange=way)
    return Stack(
        settings,
        plan.recompute,
        ["embedding"],
        list(rows),
        ["head"],
        builds,
        {"head"},
        formats=formats,
    )


def _layer_build(model: Decoder, tokens: Tokens, layer: Layer) -> Build:
    return lambda tape: decoder_layer(tape, model, tokens, layer)


def formats_of(model: Decoder, kinds: dict[str, Layer]) -> dict[str, dict[str, Format]]:
    """The formats of weights by block; a model whose files state no precision has none."""
    if model.precision is None:
        return {}
    known = model.precision.formats
    ends = {name: known[text] for name, text in model.precision.ends.items()}
    return {
        "embedding": ends,
        "head": ends,
        **{n: {w: known[f] for w, f in layer.formats.items()} for n, layer in kinds.items()},
    }
