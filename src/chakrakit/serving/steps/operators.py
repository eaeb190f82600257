"""The operators of one step of a model under a plan, as functions of how many tokens it has.

An operator's work is linear in the step's tokens, in its sampled tokens and in the share of experts that
tokens are routed to. Operators are recorded at a few sizes, which give the coefficients exactly; those of any
step follow by arithmetic, and are the same that `--expand` writes as a trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import F64
from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Decoder, Plan, Step
from chakrakit.workloads.generate import cache_bytes, touched_experts
from chakrakit.workloads.layers import BYTES, BlockNode, Core, Stack, Tokens, stack_of

_ROWS = re.compile(r"\[\[(?:(\d+),)?(\d+),(\d+)\],\[(?:\d+,)?\d+,(\d+)\]\]")


class RecordingPoint(NamedTuple):
    """A size at which operators are recorded: tokens, sampled tokens, share of experts used."""

    tokens: float
    sampled: float
    experts_met: float


class Linear(NamedTuple):
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
    flops: Linear
    bytes: Linear
    rows: Linear
    """Rows of a matmul's left side."""
    inner: int
    outer: int
    comm: int
    comm_size: Linear
    role: str
    routed: bool

    @property
    def by_sampled(self) -> bool:
        """Whether it works on sampled tokens only."""
        return self.bytes.sampled != 0 or self.comm_size.sampled != 0


@dataclass(frozen=True)
class AttentionWork:
    """The work of attention: layers, FLOPs per query–key pair, bytes per new and per cached token."""

    layers: int
    flops_per_pair: float
    bytes_per_token: float
    bytes_per_context: float
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

    def _stack(self, at: RecordingPoint, pairs: int = 0, cached: int = 0) -> Stack:
        core = Core(Fraction(pairs), self.model.kernel, cached=cached)
        tokens = Tokens(1, int(at.tokens), core, ("cp",), int(at.sampled), self.step.dispatch_dtype)
        return stack_of(self.model, self.plan, self.step, tokens, at.experts_met)

    def _nodes(self, at: RecordingPoint) -> Iterator[tuple[BlockNode, int]]:
        stack = self._stack(at)
        counts = {"embedding": 1, "head": 1}
        counts |= {name: stack.rows.count(name) for name in ("dense", "moe")}
        for name in ("embedding", "dense", "moe", "head"):
            if counts[name]:
                yield from ((node, counts[name]) for node in stack.block(name).forward)

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
            if rows[0][0].op != "attention":
                operators.append(_operator([node for node, _ in rows], rows[0][1], places))
        return [_in_four_bits(o) if self.four_bits and o.op == "matmul" else o for o in operators]

    @cached_property
    def attention(self) -> AttentionWork:
        """The work of attention on one rank, over all layers."""
        n = self._unit
        base, pair, two = (
            next(node for node in self._layer(tokens, pairs) if node.op == "attention")
            for tokens, pairs in ((n, 0), (n, 10**6), (2 * n, 0))
        )
        return AttentionWork(
            self.model.layers,
            (pair.flops - base.flops) / 1e6,
            (two.bytes - base.bytes) / n,
            float(cache_bytes(self.model, self.plan, self.step)),
            base.dtype,
        )

    def _layer(self, tokens: int, pairs: int) -> list[BlockNode]:
        stack = self._stack(RecordingPoint(tokens, 1, 1.0), pairs)
        return stack.block(stack.rows[0]).forward

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of weights on the rank that holds most, in the first or the last stage."""
        stack = self._stack(RecordingPoint(self._unit, 1, 1.0))
        size = {
            name: sum(w.tensor.elements(stack.settings.degrees) for w in stack.block(name).weights)
            for name in {"embedding", "head", *stack.rows}
        }
        per_stage = -(-self.model.layers // self.plan.pp)
        layers = max(
            sum(size[name] for name in stack.rows[i : i + per_stage])
            for i in range(0, len(stack.rows), per_stage)
        )
        ends = [size["embedding"], 0 if self.model.tied else size["head"]]
        each = BYTES[self.weight_dtype] * (FOUR_BITS if self.four_bits else 1.0)
        return int((layers + (sum(ends) if self.plan.pp == 1 else max(ends))) * each)

    @property
    def weight_dtype(self) -> str:
        """Element type of the weights."""
        return self.step.matmul_dtype or self.step.dtype

    @property
    def cache_bytes_per_token(self) -> int:
        """Bytes of cache that a token needs on one rank, over its layers."""
        layers = -(-self.model.layers // self.plan.pp)
        return int(layers * cache_bytes(self.model, self.plan, self.step))


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
    shape = _ROWS.fullmatch(base.shapes)
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
    shape = _ROWS.fullmatch(node.shapes)
    return float(int(shape[1] or 1) * int(shape[2])) if shape else 0.0


def _linear(values: list[float] | list[int], places: tuple[RecordingPoint, ...]) -> Linear:
    base, more, sampled, all_experts = (float(v) for v in values)
    at = places[0]
    a = (more - base) / (places[1].tokens - at.tokens)
    b = (sampled - base) / (places[2].sampled - at.sampled)
    return Linear(base - a * at.tokens - b * at.sampled, a, b, all_experts - base)
