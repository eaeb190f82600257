"""Memory of a scheduled module: results live from where they are made to where they are last read."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.sources.xla.hlo import Module
from chakrakit.sources.xla.program.unrolled import Step


def memory_of(module: Module, steps: Sequence[Step]) -> tuple[list[int], list[int], int]:
    """Bytes each step allocates and frees, and the peak; arguments are held throughout."""
    held = sum(i.shape.bytes for i in module.main.instructions if i.opcode == "parameter")
    last = {a: n for n, step in enumerate(steps) for a in step.after}
    alloc, free = [0] * len(steps), [0] * len(steps)
    for number, step in enumerate(steps):
        size = 0 if step.kind == "done" else step.instruction.shape.bytes
        alloc[number] = size
        if number in last:
            free[last[number]] += size
    peak = live = held
    for made, gone in zip(alloc, free, strict=True):
        live += made
        peak = max(peak, live)
        live -= gone
    if alloc:
        alloc[0] += held
    return alloc, free, module.allocated or peak
