"""The operators of one step of a model under a plan, as functions of how many tokens it has.

An operator's work is linear in the step's tokens, in its sampled tokens and in the share of experts that
tokens are routed to. Operators are recorded at a few sizes, which give the coefficients exactly; those of any
step follow by arithmetic, and are the same that `--expand` writes as a trace.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace as replace_fields

from chakrakit.arrays import F64
from chakrakit.errors import ConfigError
from chakrakit.operators import figure_for
from chakrakit.workloads.description import Decoder, Plan, Step
from chakrakit.workloads.generate import ModelFigures, model_figures, touched_experts
from chakrakit.workloads.layers import (
    BYTES,
    UNQUANTIZED,
    BlockNode,
    Core,
    Reach,
    Stack,
    Tokens,
    caches_of,
    stack_of,
)

T = TypeVar("T")

PRODUCT_SHAPES = re.compile(r"\[\[(?:(\d+),)?(\d+),(\d+)\],\[(?:\d+,)?\d+,(\d+)\]\]")
"""The operands of a product: how many there are, where they are grouped, and their sizes."""


class RecordingPoint(NamedTuple):
    """A size at which operators are recorded: tokens, sampled tokens, share of experts used."""

    tokens: float
    sampled: float
    experts_met: float


class LinearQuantity(NamedTuple):
    """A quantity of an operator: constant + tokens × a + sampled × b + experts_met × c."""

    constant: float
    tokens: float
    sampled: float
    experts_met: float

    def at(self, tokens: F64, sampled: F64, experts_met: F64) -> F64:
        """The quantity in steps of these sizes."""
        return (
            self.constant
            + self.tokens * tokens
            + self.sampled * sampled
            + self.experts_met * experts_met
        )


@dataclass(frozen=True, kw_only=True)
class StepOperator:
    """One operator of a step; it runs `count` times in it."""

    name: str
    op: str
    dtype: str
    count: int
    flops: LinearQuantity
    bytes: LinearQuantity
    rows: LinearQuantity
    """Rows of a matmul's left side."""
    inner: int
    outer: int
    comm: int
    comm_size: LinearQuantity
    role: str
    routed: bool

    @property
    def by_sampled(self) -> bool:
        """Whether it works on sampled tokens only."""
        return self.bytes.sampled != 0 or self.comm_size.sampled != 0


@dataclass(frozen=True)
class StepAttention:
    """The work of attention of one reach, or of a recurrence, in one of `layers` equal layers."""

    layers: int
    reach: Reach
    flops_per_pair: float
    flops_per_token: float
    bytes_per_token: float
    bytes_per_context: float
    """For each cached key that is met."""
    bytes_per_sequence: float
    dtype: str


class StepOperators:
    """The operators of a model under a plan."""

    def __init__(self, model: Decoder, plan: Plan, step: Step, four_bits: bool = False) -> None:
        if not isinstance(model, Decoder):
            raise ConfigError("only models over tokens are served; this one has another family")
        self.model = model
        self.plan = plan.replace(schedule="gpipe", chunks=1)
        self.step = step
        self.four_bits = four_bits

    def experts_met(self, tokens: F64 | float) -> F64:
        """The share of experts used by these tokens of every expert-parallel rank, evenly routed."""
        together = np.asarray(tokens, np.float64) * self.plan.ep
        return np.asarray(touched_experts(self.model, together), np.float64)

    def _stack(self, at: RecordingPoint, pairs: int = 0) -> Stack:
        core = Core(Fraction(pairs), self.model.kernel)
        tokens = Tokens(1, int(at.tokens), core, ("cp",), int(at.sampled), self.step.dispatch_dtype)
        return stack_of(self.model, self.plan, self.step, tokens, at.experts_met)

    def _nodes(self, at: RecordingPoint) -> Iterator[tuple[BlockNode, int]]:
        stack = self._stack(at)
        counts = Counter([*stack.first, *stack.rows, *stack.last])
        for name, count in counts.items():
            yield from ((node, count) for node in stack.block(name).forward)

    @property
    def _unit(self) -> int:
        """A number of tokens that every degree and the experts divide."""
        return int(
            np.lcm.reduce([self.plan.tp, self.plan.cp, self.plan.ep, max(1, self.model.experts)])
        )

    @cached_property
    def operators(self) -> list[StepOperator]:
        """All operators but attention itself."""
        n = self._unit
        base = RecordingPoint(4 * n, 4, 0.0)
        places = (
            base,
            base._replace(tokens=8 * n),
            base._replace(sampled=8),
            base._replace(experts_met=1.0),
        )
        recorded = [list(self._nodes(place)) for place in places]
        operators = []
        for rows in zip(*recorded, strict=True):
            if rows[0][0].op not in MIXING:
                operators.append(_operator([node for node, _ in rows], rows[0][1], places))
        if not self.four_bits:
            return operators
        eight = self.step.matmul_dtype
        return [_in_four_bits(o) if (o.op, o.dtype) == ("matmul", eight) else o for o in operators]

    @cached_property
    def kernels(self) -> int:
        """What a step launches: an operator's kernel, a collective or a layer's attention each."""
        return sum(o.count for o in self.operators) + sum(a.layers for a in self.attention)

    @cached_property
    def expert_products(self) -> int:
        """Matrix products of experts in a step."""
        return sum(o.count for o in self.operators if o.routed and o.op == "matmul")

    @cached_property
    def attention(self) -> list[StepAttention]:
        """The work of attention and of recurrences on one rank, by kind of layer."""
        n = self._unit
        points = ((n, 0), (n, 10**6), (2 * n, 0))
        stacks = [self._stack(RecordingPoint(tokens, 1, 1.0), pairs) for tokens, pairs in points]
        works = []
        for name, count in Counter(stacks[0].rows).items():
            blocks = [stack.block(name).forward for stack in stacks]
            for base, pair, two in zip(*blocks, strict=True):
                if base.op in MIXING:
                    works.append(_attention_work(count, n, base, pair, two))
        return works

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of weights on the rank that holds most, in the first or the last stage.

        A vision tower is held whole by every rank of the first stage.
        """
        stack = self._stack(RecordingPoint(self._unit, 1, 1.0))
        sizes = {
            name: self._block_bytes(stack, name) for name in {"embedding", "head", *stack.rows}
        }
        layers = max(sum(sizes[n] for n in rows) for rows in self._stages(stack.rows))
        ends = [sizes["embedding"] + self.vision_bytes, 0 if self.model.tied else sizes["head"]]
        return int(layers + (sum(ends) if self.plan.pp == 1 else max(ends)))

    def _block_bytes(self, stack: Stack, name: str) -> float:
        degrees, weights = stack.settings.degrees, stack.block(name).weights
        if self.as_in_files or name in UNQUANTIZED:
            return sum(w.bytes(degrees) for w in weights)
        each = BYTES[self.weight_dtype] * (FOUR_BITS if self.four_bits else 1.0)
        return sum(w.tensor.elements(degrees) for w in weights) * each

    @cached_property
    def model_figures(self) -> ModelFigures:
        """Parameters, and the precision in which they are served."""
        figures = model_figures(self.model, self.step)
        if not self.four_bits:
            return figures
        alone = stack_of(self.model, Plan(), self.step)
        ends = [w for name in UNQUANTIZED for w in alone.block(name).weights if not w.tied]
        plain = sum(w.bytes({}) for w in ends)
        size = plain + round((figures.precision.weight_bytes - plain) * FOUR_BITS)
        own = replace_fields(figures.precision, weights="fp4", activations="fp4", weight_bytes=size)
        return replace_fields(figures, precision=own)

    def figures_on(self, peak: Mapping[str, float]) -> ModelFigures:
        """The same on a device, which computes in the unquantized type where it has no products in one."""
        used = self.model_figures.precision
        stated = used.activations.split(" + ")
        types = [t if figure_for(peak, t) is not None else used.unquantized for t in stated]
        own = replace_fields(used, activations=" + ".join(dict.fromkeys(types)))
        return replace_fields(self.model_figures, precision=own)

    @property
    def vision_bytes(self) -> int:
        """Bytes of the vision tower, which is not quantized."""
        tower = self.model.vision
        return 0 if tower is None else tower.parameters * BYTES[self.step.dtype]

    @property
    def as_in_files(self) -> bool:
        """Whether weights have the formats that the model's files state."""
        return self.model.precision is not None and not self.step.matmul_dtype

    @property
    def weight_dtype(self) -> str:
        """Element type of the weights where the model's files state none."""
        return self.step.matmul_dtype or self.step.dtype

    def _stages(self, rows: list[T]) -> list[list[T]]:
        """The layers of each stage of the pipeline."""
        each = -(-len(rows) // self.plan.pp)
        return [rows[i : i + each] for i in range(0, len(rows), each)]

    def cache_bytes_per_token(self, tokens: int, cache_dtype: str = "") -> float:
        """Bytes for each token of a request of so many, on the rank that holds most.

        Windows and states are shared by all tokens. An engine's own `cache_dtype` wins over the step's.
        """
        step = self.step.replace(cache_dtype=cache_dtype) if cache_dtype else self.step
        kept = caches_of(self.model, self.plan.tp, step)
        return max(sum(k.bytes(tokens) for k in stage) for stage in self._stages(kept)) / tokens


@dataclass(frozen=True)
class _Asked:
    """A model, a plan and a step, compared by what they say: their lists have no hash."""

    said: bytes
    four_bits: bool
    model: Decoder = field(compare=False)
    plan: Plan = field(compare=False)
    step: Step = field(compare=False)


def step_operators(
    model: Decoder, plan: Plan, step: Step, four_bits: bool = False
) -> StepOperators:
    """The operators of a model under a plan; equal ones are recorded once, however many engines ask."""
    said = msgspec.msgpack.encode((type(model).__qualname__, model, plan, step))
    return _recorded(_Asked(said, four_bits, model, plan, step))


@lru_cache(maxsize=256)
def _recorded(asked: _Asked) -> StepOperators:
    return StepOperators(asked.model, asked.plan, asked.step, asked.four_bits)


MIXING = ("attention", "recurrence")
"""Operators whose work is not a matter of tokens alone."""


def _attention_work(
    layers: int, tokens: int, base: BlockNode, pair: BlockNode, two: BlockNode
) -> StepAttention:
    """From three recordings: of so many tokens, of a million pairs besides, of twice the tokens."""
    return StepAttention(
        layers=layers,
        reach=base.reach or Reach(),
        flops_per_pair=(pair.flops - base.flops) / 1e6,
        flops_per_token=(two.flops - base.flops) / tokens,
        bytes_per_token=(two.bytes - base.bytes) / tokens,
        bytes_per_context=base.key_bytes,
        bytes_per_sequence=base.per_sequence,
        dtype=base.dtype,
    )


FOUR_BITS = 0.5625
"""Size of a 4-bit weight relative to an 8-bit one: half a byte, and a byte of scale for sixteen weights."""


def _in_four_bits(o: StepOperator) -> StepOperator:
    """A matmul whose weights have four bits instead of eight."""
    weights = o.bytes._replace(
        constant=o.bytes.constant * FOUR_BITS, experts_met=o.bytes.experts_met * FOUR_BITS
    )
    return replace(o, bytes=weights, dtype="fp4")


def _operator(
    nodes: list[BlockNode], count: int, places: tuple[RecordingPoint, ...]
) -> StepOperator:
    base = nodes[0]
    shape = PRODUCT_SHAPES.fullmatch(base.shapes)
    rows = [_rows(node) for node in nodes]
    return StepOperator(
        name=base.name,
        op=base.op,
        dtype=base.dtype,
        count=count,
        flops=_linear([n.flops for n in nodes], places),
        bytes=_linear([n.bytes for n in nodes], places),
        rows=_linear(rows, places),
        inner=int(shape[3]) if shape else 0,
        outer=int(shape[4]) if shape else 0,
        comm=-1 if base.comm is None else int(base.comm),
        comm_size=_linear([n.comm_size for n in nodes], places),
        role=base.role,
        routed=base.routed or base.name.startswith("moe."),
    )


def _rows(node: BlockNode) -> float:
    shape = PRODUCT_SHAPES.fullmatch(node.shapes)
    return float(int(shape[1] or 1) * int(shape[2])) if shape else 0.0


def _linear(values: list[float] | list[int], places: tuple[RecordingPoint, ...]) -> LinearQuantity:
    base, more, sampled, all_experts = (float(v) for v in values)
    at = places[0]
    a = (more - base) / (places[1].tokens - at.tokens)
    b = (sampled - base) / (places[2].sampled - at.sampled)
    return LinearQuantity(base - a * at.tokens - b * at.sampled, a, b, all_experts - base)
