"""Shapes: what a micro-batch of samples holds, which decides the sizes of its rows and nothing else."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from chakrakit.workloads.description import Decoder, Diffusion, Model, Plan, Workload
from chakrakit.workloads.layers import Stack, Stretch, stack_of, training_tokens
from chakrakit.workloads.program.task_templates import Template
from chakrakit.workloads.samples import MicroBatch


class Shape(NamedTuple):
    """Rows of one length: tokens, or frames of a diffusion model.

    `documents` are the lengths that attention stays within, where samples are packed; `cost` multiplies the
    work of computations.
    """

    rows: int
    length: int
    documents: tuple[int, ...] = ()
    cost: float = 1.0


def shape_of(batch: MicroBatch, plan: Plan, model: Model) -> Shape:
    """The shape of a micro-batch; lengths are filled up until the plan, or a patch, divides them."""
    cut = plan.cp * (plan.tp if plan.sequence_parallel else 1)
    cut = model.patch[0] if isinstance(model, Diffusion) else cut
    length = -(-batch.length // cut) * cut
    documents = tuple(sorted(s.length for s in batch.samples)) if batch.packed else ()
    return Shape(batch.rows, length, documents, round(batch.cost, 6))


def shaped_stack(workload: Workload, shape: Shape) -> Stack:
    """The model's blocks for micro-batches of a shape."""
    model, plan, step = workload.model, workload.plan, workload.step
    if isinstance(model, Decoder):
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


def shaped_template(template: Template, cost: float) -> Template:
    """The same with computations that have `cost` times the work."""
    if cost == 1:
        return template
    scaled = {n: np.rint(template.columns[n] * cost).astype(np.int64) for n in _WORK}
    return replace(template, columns={**template.columns, **scaled})


_WORK = ("flops", "vector_ops", "bytes")
