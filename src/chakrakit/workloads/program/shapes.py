"""Shapes: what a micro-batch of samples holds, which decides the sizes of its rows and nothing else."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from chakrakit.workloads.description import Decoder, Diffusion, Model, Plan, Workload
from chakrakit.workloads.layers import KeyExchange, Stack, Stretch, stack_of, training_tokens
from chakrakit.workloads.program.task_templates import Template
from chakrakit.workloads.samples import MicroBatch


class RowShape(NamedTuple):
    """Rows of one length: tokens, or frames of a diffusion model.

    `documents` are the lengths that attention stays within, where samples are packed; `cost` multiplies the
    work of computations. `exchange` is a rank's part of the micro-batch, where it is shared in blocks.
    """

    rows: int
    length: int
    documents: tuple[int, ...] = ()
    cost: float = 1.0
    exchange: KeyExchange | None = None

    @property
    def attended(self) -> tuple[int, ...]:
        """The documents that attention stays within: whole rows, where none are packed."""
        return self.documents or (self.length,) * self.rows


def shape_of(batch: MicroBatch, plan: Plan, model: Model) -> RowShape:
    """The shape of a micro-batch; lengths are filled up until the plan, or a patch, divides them."""
    cut = plan.cp * (plan.tp if plan.sequence_parallel else 1)
    cut = model.patch[0] if isinstance(model, Diffusion) else cut
    length = -(-batch.length // cut) * cut
    documents = tuple(sorted(s.length for s in batch.samples)) if batch.packed else ()
    return RowShape(batch.rows, length, documents, round(batch.cost, 6))


def shaped_stack(workload: Workload, shape: RowShape) -> Stack:
    """The model's blocks for micro-batches of a shape."""
    model, plan, step = workload.model, workload.plan, workload.step
    if shape.exchange is not None:
        stack = _part_of_stack(workload, shape.exchange)
    elif isinstance(model, Decoder):
        shaped_step = step.replace(micro_batch=shape.rows, seq=shape.length)
        tokens = training_tokens(model, plan, shaped_step)
        if shape.documents and model.kernel == "flash":
            squares = Fraction(sum(d**2 for d in shape.documents), 2 if model.causal else 1)
            stretches = tuple(Stretch(d, 0) for d in shape.documents)
            tokens = replace(tokens, core=replace(tokens.core, pairs=squares, stretches=stretches))
        stack = stack_of(model, plan, shaped_step, tokens)
    else:
        shaped_model = model.replace(frames=shape.length) if isinstance(model, Diffusion) else model
        stack = stack_of(shaped_model, plan, step.replace(micro_batch=shape.rows))
    return stack


def _part_of_stack(workload: Workload, exchange: KeyExchange) -> Stack:
    """The blocks of a rank that has its own number of tokens: one of cp ranks that all have as many."""
    model, plan = workload.model, workload.plan
    assert isinstance(model, Decoder)
    step = workload.step.replace(micro_batch=1, seq=exchange.tokens * plan.cp)
    tokens = training_tokens(model, plan, step)
    tokens = replace(tokens, core=replace(tokens.core, exchange=exchange))
    return stack_of(model, plan, step, tokens)


def shaped_template(template: Template, cost: float) -> Template:
    """The same with computations that have `cost` times the work."""
    if cost == 1:
        return template
    scaled = {n: np.rint(template.columns[n] * cost).astype(np.int64) for n in _WORK}
    return replace(template, columns={**template.columns, **scaled})


_WORK = ("flops", "vector_ops", "bytes")
