"""Where the step of a simulated plan goes, in parts that add up to it, as means over all ranks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chakrakit.machines.device import PS_PER_NS
from chakrakit.simulator.engine import COMPUTE, Outcome
from chakrakit.trace.model import NodeType
from chakrakit.trace.timing import Intervals

BUBBLE = "bubble"
_NOTABLE = 0.002
"""Differences below this share of the step are not told."""


def parts_of(outcome: Outcome) -> dict[str, float]:
    """Nanoseconds of compute, of communication that nothing covers by group, and of the bubble.

    What is covered by several counts for the first of them: compute, then groups by name. The bubble is
    all the rest: waiting for messages from other stages, and for nothing at all.
    """
    total: dict[str, float] = {}
    ranks = np.bincount(outcome.classes.rank, minlength=outcome.classes.count)
    for c in range(outcome.classes.count):
        for name, value in _class_parts(outcome, c).items():
            total[name] = (
                total.get(name, 0.0) + value * int(ranks[c]) / int(ranks.sum()) / PS_PER_NS
            )
    return total


def _class_parts(outcome: Outcome, c: int) -> dict[str, int]:
    program = outcome.program(c)
    rows, trace = outcome.rows(c), program.trace
    start, end = outcome.start[rows], outcome.end[rows]
    covered = Intervals.of(start[program.kind == COMPUTE], end[program.kind == COMPUTE])
    parts = {"compute": covered.total}
    collective = trace.is_type(NodeType.COMM_COLL_NODE)
    groups = (
        np.array(trace.table.column("pg_name").fill_null("").to_pylist())
        if collective.any()
        else None
    )
    for name in sorted(set(groups[collective].tolist())) if groups is not None else ():
        mine = collective & (groups == name)
        more = covered | Intervals.of(start[mine], end[mine])
        parts[f"exposed {name}"] = more.total - covered.total
        covered = more
    parts[BUBBLE] = outcome.makespan_ps - covered.total
    return parts


def shares(step_ns: float, parts: Mapping[str, float]) -> str:
    """What a step is made of."""
    return ", ".join(f"{name} {100 * value / step_ns:.1f} %" for name, value in parts.items())


def why(step_ns: float, parts: Mapping[str, float], best: Mapping[str, float]) -> str:
    """What makes a step longer than the best one, the largest part first."""
    whole = sum(best.values())
    names = dict.fromkeys((*parts, *best))
    change = {n: parts.get(n, 0.0) - best.get(n, 0.0) for n in names}
    told = [
        f"{n} {'+' if d > 0 else '−'}{abs(d) / 1e6:,.1f} ms"
        for n, d in sorted(change.items(), key=lambda item: -item[1])
        if abs(d) > _NOTABLE * whole
    ]
    slower = 100 * (step_ns / whole - 1)
    head = f"{slower:.1f} % longer" if slower >= 0 else f"{-slower:.1f} % shorter"
    return f"{head}: {', '.join(told)}" if told else f"{head}; no part differs much"
