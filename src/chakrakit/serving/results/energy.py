"""What the devices of engines draw: by the work of their steps where the device says what work takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines.device import PICO, Device, Draw
from chakrakit.serving.steps import StepOperators

IDLE = "idle"
_CLASSES = {"matmul": "gemm"}
"""What classes of work are called elsewhere."""


@dataclass(frozen=True)
class EngineLoad:
    """What the engines of a pool did in all."""

    role: str
    devices: int
    tp: int
    steps: int
    tokens: int
    sampled: int
    busy: float
    """Seconds, over all engines."""


@dataclass(frozen=True)
class Lengths:
    """Prompts and outputs of the requests that were served."""

    prompt: I64
    output: I64

    def attended(self, role: str) -> tuple[float, float]:
        """Pairs of a query and a cached token, and cached tokens read, of requests in such a pool."""
        prompt, output = self.prompt.astype(np.float64), self.output.astype(np.float64)
        prefill = float((prompt * (prompt + 1) / 2).sum()) if role != "decode" else 0.0
        decode = float((output * (prompt + output / 2)).sum()) if role != "prefill" else 0.0
        return prefill + decode, decode


def pool_joules(
    load: EngineLoad, work: StepOperators, device: Device, lengths: Lengths, seconds: float
) -> dict[str, float]:
    """Joules by class of work over a time; `idle` is what devices draw whatever they do."""
    rest = load.devices * seconds
    if device.dynamic is None:
        return {
            "busy": load.busy * device.power,
            IDLE: max(0.0, rest - load.busy) * device.idle_power,
        }
    draw = Draw(constants=device.dynamic)
    base = (device.idle_power + draw.clock_watts) * rest
    found: dict[str, float] = {}
    for name, flops, moved, dtype in _work(load, work, lengths):
        each = device.dynamic.product(dtype)
        each *= device.dynamic.attention if name == "attention" else 1.0
        through = device.dynamic.memory_pj + device.dynamic.cache_pj
        joules = load.tp * (flops * each + moved * through) * PICO
        found[name] = found.get(name, 0.0) + joules
    most = device.power * device.dynamic.limit_share * load.busy
    spent = sum(found.values())
    share = min(1.0, max(0.0, most - base * load.busy / max(rest, PICO)) / max(spent, PICO))
    return {**{name: share * j for name, j in found.items()}, IDLE: base}


def _work(
    load: EngineLoad, work: StepOperators, lengths: Lengths
) -> Iterator[tuple[str, float, float, str]]:
    """Class, FLOPs, bytes and element type of one tensor-parallel rank's work over all steps."""
    met = float(work.met(load.tokens / max(1, load.steps))) * load.steps
    for o in work.operators:
        if o.comm < 0:
            sums = (
                load.steps * q.constant
                + load.tokens * q.tokens
                + load.sampled * q.sampled
                + met * q.met
                for q in (o.flops, o.bytes)
            )
            flops, moved = (o.count * value for value in sums)
            yield _CLASSES.get(o.op, o.op), flops, moved, o.dtype
    a = work.attention
    pairs, read = lengths.attended(load.role)
    moved = a.bytes_per_token * load.tokens + a.bytes_per_context * read
    yield "attention", a.layers * a.flops_per_pair * pairs, a.layers * moved, a.dtype
