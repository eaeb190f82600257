"""What recording itself cost the host, and how to take it out again.

The model: every operator, every launch and every other runtime call is slowed by a fixed amount
while Kineto records, and every operator by another while the observer does. The amounts come from
the collector's card, which measures them with and without recording; where there is none, the
defaults below are used. Device time is not touched: kernels take as long when recorded. Where the
card says how long a step took before anything was recorded, all amounts are scaled to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.edges import HostModel
from chakrakit.sources.pytorch.read import Kind

_MOST = 0.85
"""No stretch of host time is ever shortened by more than this share of it."""
_MOST_FACTOR = 4.0
_CLOSE = 0.01
_REPEATS = 0.03
"""Steps of one program, and so their kernels, differ this much between two runs of it."""
_HALVINGS = 8


@dataclass(frozen=True)
class Overhead:
    """Nanoseconds that recording adds, per operator, per launch and per other runtime call.

    The defaults were fitted on an H200 with PyTorch 2.11 to un-profiled steps: Kineto without
    shapes costs little per operator, and much around every call its device tracer intercepts.
    """

    operator_ns: int = 0
    launch_ns: int = 19_500
    call_ns: int = 6_500
    observer_ns: int = 20_000
    graph_node_ns: int = 1_880
    """Per node of a CUDA graph that is launched: the tracer prepares each one while the host waits.

    Fitted to one decode step of 327 nodes on an H200 (605 µs longer when traced); graphs of one small
    kernel repeated cost 950 ns per node there.
    """
    step_ns: int = 0
    """A step before anything was recorded; 0 where nobody timed it."""
    measured: bool = False

    def scaled(self, factor: float) -> Overhead:
        """All amounts times a factor."""
        return replace(
            self,
            operator_ns=round(self.operator_ns * factor),
            launch_ns=round(self.launch_ns * factor),
            call_ns=round(self.call_ns * factor),
            observer_ns=round(self.observer_ns * factor),
            graph_node_ns=round(self.graph_node_ns * factor),
        )

    def remove(self, host: HostModel, launches: Mask, observed: bool, apart: Mask) -> float:
        """Shorten the host's own times; returns the milliseconds taken out.

        A call's share is taken from the call and the gaps on both sides of it, an operator's from
        itself and the gap before it, in proportion to how long those are. Rows `apart` keep their
        time: what they do is wait or transfer, and recording does not slow that.
        """
        calls = (host.line.kind == Kind.CALL) & host.line.is_host & ~apart
        operators = host.line.is_host & ~apart & (host.line.kind != Kind.CALL)
        around = calls.copy()
        after = host.after[np.flatnonzero(calls)]
        around[after[after >= 0]] = True
        around &= ~apart
        budget = self.launch_ns * int(launches.sum())
        budget += self.call_ns * int((calls & ~launches).sum())
        removed = _shorten(host, around, calls, budget)
        budget = (self.operator_ns + self.observer_ns * observed) * int(operators.sum())
        everywhere = ~apart if observed else operators
        return (removed + _shorten(host, everywhere, everywhere, budget)) / 1e6

    def remove_from_graphs(self, host: HostModel, nodes: I64) -> I64:
        """Shorten launches of graphs; `nodes` says how many each row launched, 0 for other rows.

        Returns what was taken from each row: the graph's first kernels came that much later too.
        """
        taken = np.minimum(self.graph_node_ns * nodes, (host.own * _MOST).astype(np.int64))
        host.own -= taken
        return taken


def fit(period: Callable[[float], float], wanted: float, now: float) -> float:
    """The factor next to 1 under which `period`, which falls as it grows, comes closest to `wanted`.

    `now` is the period under 1.

    Amounts timed on one small operator in a loop miss what a real program pays, such as caches
    gone cold. A step that the device bounds does not depend on the factor, which then stays 1; so
    does that of a step which is as wanted already, but for what two runs differ by.
    """
    near = 1.0
    if abs(now - wanted) <= _REPEATS * wanted:
        return near
    far = _MOST_FACTOR if now > wanted else 0.0
    end = period(far)
    reachable = max(wanted, end) if now > wanted else min(wanted, end)
    for _ in range(_HALVINGS):
        if abs(now - reachable) <= _CLOSE * wanted:
            break
        middle = (near + far) / 2
        found = period(middle)
        if (found > reachable) == (now > reachable):
            near, now = middle, found
        else:
            far = middle
    return near


def _shorten(host: HostModel, lags: Mask, owns: Mask, budget: int) -> float:
    """Scale these lags and own times so that `budget` ns go away in all."""
    lag_rows = np.flatnonzero(lags & (host.before >= 0) & (host.lag > 0))
    own_rows = np.flatnonzero(owns & host.line.is_host & host.line.is_leaf())
    total = float(host.lag[lag_rows].sum() + host.own[own_rows].sum())
    if total <= 0 or budget <= 0:
        return 0.0
    share = min(budget / total, _MOST)
    host.lag[lag_rows] -= (host.lag[lag_rows] * share).astype(np.int64)
    host.own[own_rows] -= (host.own[own_rows] * share).astype(np.int64)
    return total * share
