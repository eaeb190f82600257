"""Whether a device runs as fast as it should: the median operation of a recording beside its profile.

A clock that is held back slows every operation, so that the median of many different ones tells it, whatever
a few of them do. Asked are those that a profile predicts best: long ones that it has measured. How far the
medians of healthy recordings are off ships with the package (`residuals`), and with the operations' own
scatter says what can be told from a recording, and what cannot.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines.device import Device, rung_of, work_model
from chakrakit.machines.residuals import residual_table
from chakrakit.results import Result

SURE = 2.576
"""Standard errors from which a clock is held back: one healthy recording in 200 is so slow by chance."""
NOTABLE = math.log(1.10)
"""What a clock costs at least to be of interest: where the interval does not exclude it, nothing can be told.
Programs on an H200 that its power limit holds at 1,650 to 1,725 of 1,980 MHz lose less."""
_SIDE = 1.645
"""Standard errors from the middle to the 95th percentile."""
_OF_MEDIAN = math.sqrt(math.pi / 2)
"""The standard error of a median over that of a mean."""
_OF_DEVIATION = 1.4826
"""The standard deviation over the median absolute deviation."""
LEAST_NS = 20_000.0
"""The least expected time of operations that are asked: the medians of healthy recordings then differ least
among themselves (20, 50 and 100 µs were tried on the recordings of `residuals`, and all operations)."""
ASKED = ("matmul", "vector")
"""Their kinds: attention and lookups are predicted less well."""
_USUAL_ERROR = 0.016
"""The standard error of the median by the operations' scatter, in the median recording of `residuals`: the
error of a recording contains it already."""

_LEAST_OPERATIONS = 5
"""Fewer say nothing of a clock, however well they agree."""

Verdict = Literal["held back", "as expected", "could not tell"]


class ClockCheck(Result, msgspec.Struct, frozen=True):
    """How many times as long as expected the median operation takes, and what that says of the clock."""

    factor: float
    low: float
    """The interval that holds the factor of 90 in 100 recordings."""
    high: float
    operations: int
    """Different operations that it was told by."""
    verdict: Verdict

    @property
    def text(self) -> str:
        """`1.17 times (1.10–1.25)`."""
        return f"{self.factor:.2f} times ({self.low:.2f}–{self.high:.2f})"


def clock_check(logs: F64, device: Device) -> ClockCheck | None:
    """What the logarithms of measured over expected time of different operations say; None for too few."""
    error = _of_a_recording(device)
    if error is None or not len(logs):
        return None
    pace = float(np.median(logs)) - error.usual
    scatter = _OF_DEVIATION * float(np.median(np.abs(logs - np.median(logs))))
    own = _OF_MEDIAN * scatter / math.sqrt(len(logs))
    more = math.sqrt(max(own**2 - _USUAL_ERROR**2, 0.0))
    slower, faster = math.hypot(error.slower, more), math.hypot(error.faster, more)
    low, high = pace - _SIDE * slower, pace + _SIDE * faster
    verdict: Verdict = "could not tell"
    known = has_healthy_recordings(device)
    if known and len(logs) >= _LEAST_OPERATIONS and pace > SURE * slower:
        verdict = "held back"
    elif known and len(logs) >= _LEAST_OPERATIONS and high < NOTABLE:
        verdict = "as expected"
    return ClockCheck(math.exp(pace), math.exp(low), math.exp(high), len(logs), verdict)


def has_healthy_recordings(device: Device) -> bool:
    """Whether recordings of this very device are known, so that a slow one can be told from a wrong profile.

    A profile that was carried over from another device is as far off on every operation as a clock would be.
    """
    own = rung_of(work_model("auto"), device).startswith("measured")
    return own and f"recording/{device.profile}" in residual_table().groups


class _HealthyErrors(NamedTuple):
    """How far the median of a healthy recording is off: as a rule, and the deviation to either side."""

    usual: float
    slower: float
    faster: float


def _of_a_recording(device: Device) -> _HealthyErrors | None:
    """The errors of healthy recordings; where a profile was carried over, its own error comes on top."""
    table = residual_table()
    known = table.spread("recording", device.profile)
    if known is None:
        return None
    slower, faster = (known.high - known.middle) / _SIDE, (known.middle - known.low) / _SIDE
    carried = None if has_healthy_recordings(device) else table.spread("kernel", "carried profile")
    extra = (carried.high - carried.low) / (2 * _SIDE) if carried else 0.0
    return _HealthyErrors(known.middle, math.hypot(slower, extra), math.hypot(faster, extra))
