"""Training steps whose replicas get samples of different lengths: what each replica takes, and the step."""

from __future__ import annotations

from functools import cache

import numpy as np

from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.published.tools import seconds_of
from chakrakit.simulator.engine import one_collective
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.description import Model, Plan, Samples, Step, Workload
from chakrakit.workloads.generate import generated, parameters
from chakrakit.workloads.models import model_named
from chakrakit.workloads.samples import Deal, MicroBatch, deal

MACHINE = "dgx-h100"


@cache
def machine() -> Machine:
    """One node."""
    return load_machine(MACHINE)


@cache
def replica_seconds(model: str, layers: int, rows: int, length: int) -> float:
    """One micro-batch forward and backward on one device."""
    described = model_named(model).replace(layers=layers)
    step = Step(global_batch=rows, micro_batch=rows, optimizer="none", clip=False)
    if hasattr(described, "frames"):
        described = described.replace(frames=length)
    else:
        step = step.replace(seq=length)
    traces = generated(Workload(model=described, plan=Plan(), step=step)).traces()
    return seconds_of(traces, machine())


@cache
def reduce_seconds(model: str, layers: int, ranks: int) -> float:
    """All gradients, in bf16, summed over the ranks of a node; what overlaps with backward is left out."""
    count = parameters(Workload(model=model_named(model).replace(layers=layers)))[0]
    members = list(range(min(ranks, 8)))
    return seconds_of(one_collective(CollectiveType.ALL_REDUCE, 2 * count, members), machine())


def dealt(model: Model, ranks: int, steps: int, samples: Samples, step: Step) -> Deal:
    """The micro-batches of all replicas and steps, one each in a step."""
    whole = step.replace(steps=steps, samples=samples, global_batch=ranks * step.micro_batch)
    return deal(Workload(model=model, plan=Plan(dp=ranks), step=whole))


def step_figures(model: str, layers: int, one: Deal) -> tuple[float, float, float]:
    """Seconds of all steps, mean imbalance of replicas, and the share of time in which they compute."""
    seconds = np.array([[_batch(model, layers, b) for (b,) in replica] for replica in one.of])
    reduce = reduce_seconds(model, layers, len(one.of))
    slowest = seconds.max(axis=0)
    total = float(slowest.sum() + reduce * len(slowest))
    return (
        total,
        float((slowest / seconds.mean(axis=0) - 1).mean()),
        float(seconds.mean(axis=0).sum() / total),
    )


def _batch(model: str, layers: int, batch: MicroBatch) -> float:
    return replica_seconds(model, layers, batch.rows, batch.length)


@cache
def _fitted(model: str, layers: int) -> tuple[float, float, float]:
    """Seconds of a micro-batch as a constant, by token, and by pair of tokens in a row."""
    shapes = [(1, 512), (4, 512), (16, 512), (1, 2048), (4, 2048), (1, 4096), (4, 4096)]
    terms = np.array([(1, rows * length, rows * length**2) for rows, length in shapes], float)
    took = np.array([replica_seconds(model, layers, *shape) for shape in shapes])
    solved = np.linalg.lstsq(terms / took[:, None], np.ones(len(took)), rcond=None)[0]
    fixed, token, pair = (float(x) for x in solved)
    return fixed, token, pair


def shape_seconds(model: str, layers: int, rows: int, length: int) -> float:
    """One micro-batch of any shape, from seven that were simulated."""
    fixed, token, pair = _fitted(model, layers)
    return fixed + token * rows * length + pair * rows * length**2
