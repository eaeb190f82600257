"""What recording itself cost the host, and how to take it out again.

The model: every operator, every launch and every other runtime call is slowed by a fixed amount
while Kineto records, and every operator by another while the observer does, be its file there or not
(`recorded_twice`). The amounts differ
between programs and machines, so they are read off the recording (`cost_seen`). A card may have
other figures, which the collector measures on one small operator in a loop: they are used
where they come to more. Device time is not touched: kernels take as long when recorded. Where the
card says how long a step took before anything was recorded, all amounts are scaled to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.edges import HostModel
from chakrakit.sources.pytorch.read import Kind

_OPERATOR_NS = 1_000
"""What Kineto costs per operator: the least of what eleven cards of collectors on H200s say."""
_BARE_LAUNCH_NS = 5_000
"""How long a launch takes on the host without a tracer; fitted together with `_TIMES_SEEN`."""
_TIMES_SEEN = 5.25
"""What tracing costs the host per launch, as a multiple of what it adds to the recorded call itself.

The tracer works before and after the call that it times, and leaves caches cold for what follows.
Both were fitted on half of the recordings of benchmarks/accuracy/recordings.py, made on H200s with
PyTorch 2.11 and CUDA 13, whose steps are known without recording; the other half tests them.
"""
_CALL_SHARE = 1 / 3
"""A call that launches nothing, against one that does: one record to write instead of two."""
_VALUE_SHARE = 0.165
"""What the observer costs per value that it writes, as a share of a recorded launch.

Fitted on the same half. Over 36 programs recorded with and without the observer its cost goes with
the values and the speed of the host (13 % root mean square), less with the operators alone (26 %).
"""
_SLOW_VIEW = 0.8
"""The share of a recorded launch that a view takes where more than Kineto records.

A view does nothing, and so takes what recording it does. With Kineto alone it took 0.13 to 0.24 of a
launch in seven recordings of H200s and 0.08 to 0.57 in five public ones of other devices; with the
observer beside it 1.1 to 2.8 in all of 40.
"""
_VIEW_TIMES = 1.7
"""What such a recorder costs per operator, as a multiple of a view.

The median of six fitted recordings of H200s, which need 1.35 to 2.3.
"""
_USUAL_LAUNCH_NS = 7_700
"""A recorded launch of those programs, where a recording has none."""
_SPREAD = {False: (0.34, 1.62), True: (0.7, 2.1)}
"""Between which multiples of the estimate the cost lay, without and with the observer.

Of all recordings of H200s that the host bounds. Those that were fitted lie within 0.58 to 1.62 and 0.74
to 1.29; of the others, 3 of 20 and 6 of 21 lie outside of that.
"""
_MOST = 0.85
"""No stretch of host time is ever shortened by more than this share of it."""
_MOST_SPREAD = (0.75, 0.885)
"""Between which shares recording was of the host's time where `_MOST` decided.

Of nine recordings of H200s, five of which were not fitted.
"""
_MOST_FACTOR = 4.0
"""The largest factor that `fit` tries on an estimate; a step that needs more has another cause."""
_CLOSE = 0.01
"""Share of the step that `fit` may miss; two runs of one program differ by more, see `_REPEATS`."""
_REPEATS = 0.03
"""Steps of one program, and so their kernels, differ this much between two runs of it."""
_HALVINGS = 8
"""Leaves 1/256 of the range of factors; each halving schedules the rank once."""


@dataclass(frozen=True)
class Overhead:
    """Nanoseconds that recording adds, per operator, per launch and per other runtime call."""

    operator_ns: int = 0
    launch_ns: int = 0
    call_ns: int = 0
    observer_ns: int = 0
    graph_node_ns: int = 1_880
    """Per node of a CUDA graph that is launched: the tracer prepares each one while the host waits.

    Fitted to one decode step of 327 nodes on an H200 (605 µs longer when traced); graphs of one small
    kernel repeated cost 950 ns per node there.
    """
    step_ns: int = 0
    """Duration of a step before anything was recorded; 0 if none was timed."""
    measured: bool = False
    most: float = _MOST
    """The largest share of any stretch of host time that recording may have been."""

    def total_ns(self, operators: int, launches: int, calls: int, observed: bool) -> int:
        """The total for these numbers of each; `calls` are those that launch nothing."""
        per_operator = self.operator_ns + self.observer_ns * observed
        return per_operator * operators + self.launch_ns * launches + self.call_ns * calls

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
        operators, calls = slowed(host, apart)
        around = calls.copy()
        after = host.after[np.flatnonzero(calls)]
        around[after[after >= 0]] = True
        around &= ~apart
        counts = int(operators.sum()), int(launches.sum()), int((calls & ~launches).sum())
        budget = self.total_ns(0, *counts[1:], observed)
        removed = _shorten(host, around, calls, budget, self.most)
        removed += _shorten(host, ~apart, ~apart, budget - round(removed), self.most)
        budget = self.total_ns(counts[0], 0, 0, observed)
        everywhere = ~apart if observed else operators
        return (removed + _shorten(host, everywhere, everywhere, budget, self.most)) / 1e6

    def remove_from_graphs(self, host: HostModel, nodes: I64) -> I64:
        """Shorten launches of graphs; `nodes` says how many each row launched, 0 for other rows.

        Returns what was taken from each row: the graph's first kernels came that much later too.
        """
        removed = np.minimum(self.graph_node_ns * nodes, (host.own_ns * _MOST).astype(np.int64))
        host.own_ns -= removed
        return removed


def least_and_most(cost: Overhead, observed: bool) -> tuple[Overhead, Overhead]:
    """The least and the most that recording may have cost, where `cost` was estimated."""
    (few, many), (little, much) = _SPREAD[observed], _MOST_SPREAD
    return replace(cost.scaled(few), most=little), replace(cost.scaled(many), most=much)


def slowed(host: HostModel, apart: Mask) -> tuple[Mask, Mask]:
    """Operators and runtime calls that recording slows: those on the host but for rows `apart`."""
    hosted, call = host.line.is_host & ~apart, host.line.kind == Kind.CALL
    return np.asarray(hosted & ~call), np.asarray(hosted & call)


def recorded_twice(launches: I64, views: I64) -> bool:
    """Whether an observer whose file is missing ran beside Kineto, by how long launches and views took."""
    if not len(launches) or not len(views):
        return False
    return bool(np.median(views) > _SLOW_VIEW * np.median(launches))


def cost_seen(launches: I64, operators: int, values: int, views: I64) -> Overhead:
    """What recording cost, from how long launches took as recorded.

    `values` is how many the observer wrote in the same recording, 0 where it did not run or its file is
    missing; `views` is how long views took. How long a launch takes tells how fast the host was, whatever
    made it slow.
    """
    usual = float(np.median(launches)) if len(launches) else _USUAL_LAUNCH_NS
    launch = max(0.0, _TIMES_SEEN * (usual - _BARE_LAUNCH_NS)) if len(launches) else 0.0
    observer = _VALUE_SHARE * usual * values / max(operators, 1)
    if not values and recorded_twice(launches, views):
        observer = _VIEW_TIMES * float(np.median(views))
    elif len(launches) and len(views) and not recorded_twice(launches, views):
        observer = 0.0  # it wrote another step: in this one views took no longer than without it
    return Overhead(
        operator_ns=_OPERATOR_NS,
        launch_ns=round(launch),
        call_ns=round(launch * _CALL_SHARE),
        observer_ns=round(observer),
    )


def fit(period: Callable[[float], float], target: float, now: float) -> float:
    """The factor next to 1 under which `period`, which falls as it grows, comes closest to `wanted`.

    `now` is the period under 1.

    Amounts timed on one small operator in a loop miss what a real program pays, such as caches
    gone cold. A step that the device bounds does not depend on the factor, which then stays 1; so
    does that of a step which is as wanted already, but for what two runs differ by.
    """
    near = 1.0
    if abs(now - target) <= _REPEATS * target:
        return near
    far = _MOST_FACTOR if now > target else 0.0
    end = period(far)
    reachable = max(target, end) if now > target else min(target, end)
    for _ in range(_HALVINGS):
        if abs(now - reachable) <= _CLOSE * target:
            break
        middle = (near + far) / 2
        halfway = period(middle)
        if (halfway > reachable) == (now > reachable):
            near, now = middle, halfway
        else:
            far = middle
    return near


def _shorten(host: HostModel, lags: Mask, owns: Mask, budget: int, most: float) -> float:
    """Scale these lags and own times so that `budget` ns go away in all, or the share `most`."""
    lag_rows = np.flatnonzero(lags & (host.before >= 0) & (host.lag > 0))
    own_rows = np.flatnonzero(owns & host.line.is_host & host.line.is_leaf())
    total = float(host.lag[lag_rows].sum() + host.own_ns[own_rows].sum())
    if total <= 0 or budget <= 0:
        return 0.0
    share = min(budget / total, most)
    host.lag[lag_rows] -= (host.lag[lag_rows] * share).astype(np.int64)
    host.own_ns[own_rows] -= (host.own_ns[own_rows] * share).astype(np.int64)
    return total * share
