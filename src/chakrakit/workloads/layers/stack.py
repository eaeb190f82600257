"""A model as a row of blocks, and a plan's degrees applied to them.

Every family gives the same three things: blocks by name, the row of layers that a pipeline may cut,
and what comes before the first and after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from chakrakit.workloads.description import (
    Convolutional,
    Decoder,
    Diffusion,
    Model,
    Plan,
    Recommender,
    Step,
    Vision,
)
from chakrakit.workloads.layers import families
from chakrakit.workloads.layers.attention import Core
from chakrakit.workloads.layers.families import Build
from chakrakit.workloads.layers.layers import Tokens, decoder_layer, embedding, head
from chakrakit.workloads.layers.overlap import overlapped
from chakrakit.workloads.layers.recompute import recomputed
from chakrakit.workloads.layers.tape import Block, Settings, Tape

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
    made: dict[str, Block] = field(default_factory=dict)

    def block(self, name: str) -> Block:
        """The block of this name, one micro-batch forward and backward."""
        if name not in self.made:
            tape = Tape(name, self.settings)
            output = self.builds[name](tape)
            block = tape.finish(output, name in self.starts_backward)
            block = overlapped(block) if self.settings.tp_overlap else block
            keeps = self.recompute != "none" and name in self.rows and self.settings.training
            self.made[name] = recomputed(block, self.recompute) if keeps else block
        return self.made[name]


def settings_of(plan: Plan, step: Step, touched: float = 1.0) -> Settings:
    """What tapes must know."""
    degrees = {"tp": plan.tp, "cp": plan.cp, "ep": plan.ep}
    return Settings(
        degrees,
        step.dtype,
        step.matmul_dtype,
        step.kind == "train",
        plan.save_gathered,
        plan.shared_reduce,
        touched,
        plan.tp_overlap,
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
    core = Core(pairs, model.kernel, plan.context, model.dropout)
    return Tokens(
        step.micro_batch, step.seq, core, token_axes(plan), dispatch_dtype=step.dispatch_dtype
    )


def decoder_stack(
    model: Decoder, plan: Plan, step: Step, settings: Settings, tokens: Tokens | None
) -> Stack:
    """Embedding, dense layers, layers with experts, head."""
    own = tokens or training_tokens(model, plan, step)
    axes = ("tp",) if plan.vocab_parallel else ()
    if plan.vocab_parallel:  # the last rank's part of the vocabulary is filled up
        model = model.replace(vocab=-(-model.vocab // plan.tp) * plan.tp)
    dense = model.layers if not model.experts else model.dense_layers
    rows = ["dense"] * dense + ["moe"] * (model.layers - dense)
    builds: dict[str, Build] = {
        "embedding": lambda tape: embedding(tape, model, own, axes),
        "dense": lambda tape: decoder_layer(tape, model, own, moe=False),
        "moe": lambda tape: decoder_layer(tape, model, own, moe=True),
        "head": lambda tape: head(tape, model, own, axes),
    }
    return Stack(settings, plan.recompute, ["embedding"], rows, ["head"], builds, {"head"})
