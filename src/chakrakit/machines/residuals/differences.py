"""How far the difference of two predicted times may be off: what both have in common cancels."""

from __future__ import annotations

import math

from chakrakit.machines.residuals.intervals import (
    NO_FRAMEWORK,
    ErrorSpread,
    ResidualTable,
    TimeInterval,
    combined,
    is_computation,
    residual_table,
    shares_of,
)


def difference(a: TimeInterval, b: TimeInterval, delta_ns: float) -> tuple[float, float]:
    """The interval of B − A in ns.

    An operation that both have counts only by the time that one of them spends on it more. Of operations that
    only one of them has, errors are partly the group's and partly their own. Two steps of a framework are
    also no surer than pairs of its published ones were, for as much of them as differs. What a lower clock
    costs is no surer than single kernels were at locked clocks.
    """
    table = residual_table()
    deltas = {name: _deltas(a, b, name) for name in {**a.groups, **b.groups}}
    widths = []
    for name, each in deltas.items():
        spread = table.cautious(*name.split("/"))
        if spread is not None:
            widths.append((name, _width(spread, each, table.correlation)))
    low, high, bias = combined(widths)
    beside = math.hypot(_of_steps(a, b, deltas, table), _of_clocks(a, b, table))
    return delta_ns + bias - math.hypot(low, beside), delta_ns + bias + math.hypot(high, beside)


CLOCKED = 0.147
"""What the time of a kernel at another clock is off by, in nine of ten cases: 43 kernels on one H200 at six
clocks from 810 to 1,680 MHz (benchmarks/fit_power.py)."""
FAR = 1.3
"""Clocks that differ by this factor or more are off by that much; nearer ones by less."""


def _of_clocks(a: TimeInterval, b: TimeInterval, table: ResidualTable) -> float:
    """How much the time at one clock may be off from that at the other; 0 where they are the same."""
    if not (a.clock_mhz and b.clock_mhz):
        return 0.0
    apart = max(a.clock_mhz, b.clock_mhz) / min(a.clock_mhz, b.clock_mhz)
    slower = a if a.clock_mhz < b.clock_mhz else b
    computed = sum(g[0] for name, g in slower.groups.items() if is_computation(name))
    return min(1.0, (apart - 1) / (FAR - 1)) * CLOCKED * math.sqrt(table.correlation) * computed


def _deltas(a: TimeInterval, b: TimeInterval, group: str) -> list[float]:
    """By how many ns each operation of a group takes longer in B; the whole group where none is named."""
    before, after = (
        x.operations.get(group) or {"": x.groups.get(group, (0.0,))[0]} for x in (a, b)
    )
    return [after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}]


def _width(spread: ErrorSpread, deltas: list[float], correlation: float) -> list[float]:
    """How much smaller, the bias, and how much larger the sum of these deltas may be."""
    low, middle, high = shares_of(spread, 1.0)
    total = sum(deltas)
    below, above = (low, high) if total >= 0 else (high, low)
    alone = math.sqrt(sum(d * d for d in deltas))
    each = math.hypot(math.sqrt(correlation) * total, math.sqrt(1 - correlation) * alone)
    return [each * below, total * middle, each * above]


def _of_steps(
    a: TimeInterval, b: TimeInterval, deltas: dict[str, list[float]], table: ResidualTable
) -> float:
    """What pairs of published steps were off by, of the time that only one of the two has."""
    if not (a.step and b.step):
        return 0.0
    (_, framework, machine), other = a.step.split("/"), b.step.split("/")
    if NO_FRAMEWORK in (framework, other[1]):
        return 0.0
    place = (framework, machine) if other[1:] == [framework, machine] else ()
    spread = table.spread("pair", *place)
    if spread is None:
        return 0.0
    each = [d for group in deltas.values() for d in group]
    unlike = max(sum(d for d in each if d > 0), -sum(d for d in each if d < 0))
    return unlike * math.expm1(spread.high)
