"""What recording itself cost the host, and how to take it out again.

The model: every operator, every launch and every other runtime call is slowed by a fixed amount
while Kineto records, and every operator by another while the observer does. The amounts come from
the collector's card, which measures them with and without recording; where there is none, the
defaults below are used. Device time is not touched: kernels take as long when recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrakit.sources.pytorch.host import HostModel
from chakrakit.sources.pytorch.kineto import Kind

Mask = NDArray[np.bool_]

_MOST = 0.85
"""No stretch of host time is ever shortened by more than this share of it."""


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
    measured: bool = False

    def remove(self, host: HostModel, launches: Mask, observed: bool) -> float:
        """Shorten the host's own times; returns the milliseconds taken out.

        A call's share is taken from the call and the gaps on both sides of it, an operator's from
        itself and the gap before it, in proportion to how long those are.
        """
        calls = (host.line.kind == Kind.CALL) & host.line.is_host
        operators = host.line.is_host & ~calls
        around = calls.copy()
        after = host.after[np.flatnonzero(calls)]
        around[after[after >= 0]] = True
        budget = self.launch_ns * int(launches.sum())
        budget += self.call_ns * int((calls & ~launches).sum())
        removed = _shorten(host, around, calls, budget)
        budget = (self.operator_ns + self.observer_ns * observed) * int(operators.sum())
        everywhere = np.ones(len(host.own), np.bool_) if observed else operators
        return (removed + _shorten(host, everywhere, everywhere, budget)) / 1e6


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
