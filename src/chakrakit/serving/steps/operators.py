"""The operators of one step of a model under a plan, as functions of how many tokens it has.

An operator's work is linear in the step's tokens, in the tokens that are sampled and in the share of
experts that are met. The operators are recorded at a few sizes, which gives the coefficients exactly;
any step's operators are then arithmetic on arrays, and are those that `--expand` writes as a trace.
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


class Point(NamedTuple):
    """Where operators are recorded: tokens, sampled tokens, share of experts met."""

    tokens: float
    sampled: float
    met: float


class Linear(NamedTuple):
    """A quantity of an operator: constant + tokens × a + sampled × b + met × c."""

    constant: float
    tokens: float
    sampled: float
    met: float

    def at(self, tokens: F64, sampled: F64, met: F64) -> F64:
        """Its value in steps of these sizes."""
        return self.constant + self.tokens * tokens + self.sampled * sampled + self.met * met


@dataclass(frozen=True)
class Operator:
    """One operator of a step, and how often it runs in it."""

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
    """Attention of all layers: FLOPs per query–key pair, bytes per new token and a cached one."""

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

    def met(self, tokens: F64 | float) -> F64:
        """Share of the experts that evenly routed tokens of all expert-parallel ranks need."""
        together = np.asarray(tokens, np.float64) * self.plan.ep
        return np.asarray(touched_experts(self.model, together), np.float64)

    def _stack(self, at: Point, pairs: int = 0, cached: int = 0) -> Stack:
        core = Core(Fraction(pairs), self.model.kernel, cached=cached)
        tokens = Tokens(1, int(at.tokens), core, ("cp",), int(at.sampled), self.step.dispatch_dtype)
        return stack_of(self.model, self.plan, self.step, tokens, at.met)

    def _nodes(self, at: Point) -> Iterator[tuple[BlockNode, int]]:
        stack = self._stack(at)
        counts = {"embedding": 1, "head": 1}
        counts |= {name: stack.rows.count(name) for name in ("dense", "moe")}
        for name in ("embedding", "dense", "moe", "head"):
            if counts[name]:
                yield from ((node, counts[name]) for node in stack.block(name).forward)

    @property
    def _unit(self) -> int:
        """Tokens at which every cut comes out even."""
        return int(
            np.lcm.reduce([self.plan.tp, self.plan.cp, self.plan.ep, max(1, self.model.experts)])
        )

    @cached_property
    def operators(self) -> list[Operator]:
        """All but attention itself."""
        n = self._unit
        base = Point(4 * n, 4, 0.0)
        places = (
            base,
            base._replace(tokens=8 * n),
            base._replace(sampled=8),
            base._replace(met=1.0),
        )
        recorded = [list(self._nodes(place)) for place in places]
        found = []
        for rows in zip(*recorded, strict=True):
            if rows[0][0].op != "attention":
                found.append(_operator([node for node, _ in rows], rows[0][1], places))
        return [_in_four_bits(o) if self.four_bits and o.op == "matmul" else o for o in found]

    @cached_property
    def attention(self) -> AttentionWork:
        """Attention of all layers of one rank."""
        n = self._unit
        one, pair, two = (
            next(node for node in self._layer(tokens, pairs) if node.op == "attention")
            for tokens, pairs in ((n, 0), (n, 10**6), (2 * n, 0))
        )
        return AttentionWork(
            self.model.layers,
            (pair.flops - one.flops) / 1e6,
            (two.bytes - one.bytes) / n,
            float(cache_bytes(self.model, self.plan, self.step)),
            one.dtype,
        )

    def _layer(self, tokens: int, pairs: int) -> list[BlockNode]:
        stack = self._stack(Point(tokens, 1, 1.0), pairs)
        return stack.block(stack.rows[0]).forward

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of weights on the rank that holds most: the ranks of the first or the last stage."""
        stack = self._stack(Point(self._unit, 1, 1.0))
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
"""Bytes of a weight of four bits with a byte of scale for sixteen of them, next to one of eight bits."""


def _in_four_bits(o: Operator) -> Operator:
    """A matmul whose weights have four bits instead of eight."""
    weights = o.bytes._replace(constant=o.bytes.constant * FOUR_BITS, met=o.bytes.met * FOUR_BITS)
    return replace(o, bytes=weights, dtype="fp4")


def _operator(nodes: list[BlockNode], count: int, places: tuple[Point, ...]) -> Operator:
    base = nodes[0]
    shape = _ROWS.fullmatch(base.shapes)
    rows = [_rows(node) for node in nodes]
    return Operator(
        base.name,
        base.op,
        base.dtype,
        count,
        _linear([n.flops for n in nodes], places),
        _linear([n.bytes for n in nodes], places),
        _linear(rows, places),
        int(shape[3]) if shape else 0,
        int(shape[4]) if shape else 0,
        -1 if base.comm is None else int(base.comm),
        _linear([n.comm_size for n in nodes], places),
        base.role,
        base.routed or base.name.startswith("moe."),
    )


def _rows(node: BlockNode) -> float:
    found = _ROWS.fullmatch(node.shapes)
    return float(int(found[1] or 1) * int(found[2])) if found else 0.0


def _linear(values: list[float] | list[int], places: tuple[Point, ...]) -> Linear:
    base, more, sampled, met = (float(v) for v in values)
    at = places[0]
    a = (more - base) / (places[1].tokens - at.tokens)
    b = (sampled - base) / (places[2].sampled - at.sampled)
    return Linear(base - a * at.tokens - b * at.sampled, a, b, met - base)
