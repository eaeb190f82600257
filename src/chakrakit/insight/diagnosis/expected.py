"""What a recording's operators take beside what its machine needs for them: no healthy run is needed.

Expected times are those of the machine's profile for the operators' shapes and types. What is slower than
they allow is named: a clock that is held back, attention that was not fused, products on plain float32 units,
and single operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.diagnosis.clock import (
    ASKED,
    LEAST_NS,
    ClockCheck,
    Verdict,
    clock_check,
    has_healthy_recordings,
)
from chakrakit.insight.diagnosis.culprit import Culprit
from chakrakit.insight.rank import RankView, Table, ms, percent, short
from chakrakit.machines.device import CostSource, Device, packaged_profile
from chakrakit.machines.residuals import kernel_group, residual_table
from chakrakit.operators import Work, on_float32, on_tf32, operator_of
from chakrakit.passes.fused import unfused_attention
from chakrakit.results import Result

LEAST_SHARE = 0.05
"""Shares of the device's time below this are not judged."""
SLOW = 3.0
"""How many times longer than expected an operator takes to be called slow, if that is also beyond what
residuals of its group allow: single operators of 38 healthy recordings reach 2.6."""
_OUTSIDE = re.compile(r"Memcpy (HtoD|DtoH|PtoP)")
"""Copies that leave the device: they are as fast as what is outside of it."""


class ExpectedTime(Result, msgspec.Struct, frozen=True):
    """All kernels that one operator launched: what they took, and what the machine needs for them."""

    operator: str
    kind: str
    """`matmul`, `attention`, `lookup` or `vector`."""
    count: int
    measured_ns: float
    expected_ns: float
    ratio: float


class MachineCheck(Result, msgspec.Struct, frozen=True):
    """A recording beside its machine, longest operators first."""

    machine: str
    operators: list[ExpectedTime] = []
    by_kind: dict[str, float] = {}
    """How many times as long as expected each kind of work takes, of those with a notable share."""
    clock: ClockCheck | None = None
    """What the median operation says of the device's clock."""
    culprits: list[Culprit] = []

    def table(self) -> Table:
        """One row per operator."""
        rows = [
            (
                short(e.operator),
                e.kind,
                e.count,
                ms(e.measured_ns),
                ms(e.expected_ns),
                round(e.ratio, 2),
            )
            for e in self.operators
        ]
        head = ("operator", "kind", "kernels", "measured ms", "expected ms", "× expected")
        return Table.of(f"expected on {self.machine}{self._clock()}", head, rows)

    def _clock(self) -> str:
        clock = self.clock
        if clock is None:
            return ""
        return f": the median operation takes {clock.text} what it should, {_SAID[clock.verdict]}"


_SAID: dict[Verdict, str] = {
    "held back": "its clock is held back",
    "as expected": "no clock that is held back shows",
    "could not tell": "whether its clock is held back cannot be told",
}


def check_of(views: Iterable[RankView], machine: str, device: Device) -> MachineCheck | None:
    """The recording of these ranks beside a device; None where the device has no profile."""
    if not device.profile:
        return None
    parts = [_RankTimes(view, device) for view in views if view.measured and view.has_device]
    sums: dict[str, list[float]] = {}
    for part in parts:
        for name, amounts in part.by_operator().items():
            old = sums.setdefault(name, [0.0, 0.0, 0.0])
            for i, amount in enumerate(amounts):
                old[i] += amount
    operators = [
        ExpectedTime(n, operator_of(n).op_type, int(c), took, needs, took / needs)
        for n, (c, took, needs) in sorted(sums.items(), key=lambda item: -item[1][1])
        if needs > 0
    ]
    if not operators:
        return None
    total = sum(p.device_ns for p in parts)
    kinds = _by_kind(operators, total)
    clock = clock_check(distinct_logs(parts), device)
    culprits = [
        *_held_back(clock, kinds, device),
        *_unfused(parts, total),
        *_on_float32(parts, total, device),
    ]
    judged = not culprits and has_healthy_recordings(device)
    slow = slow_operators(operators, total, device) if judged else []
    return MachineCheck(machine, operators, kinds, clock, [*culprits, *slow])


def recorded_logs(view: RankView, device: Device) -> F64:
    """The logarithms of measured over expected time of the different operations of one recorded rank."""
    return distinct_logs([_RankTimes(view, device)])


def distinct_logs(parts: Sequence[_RankTimes]) -> F64:
    """One figure for each operator and expected time that tells of a clock: the median of its calls."""
    logs: list[float] = []
    for part in parts:
        name, measured, expected = part.by_call()
        keys = np.stack([name, np.round(expected).astype(np.int64)])
        place = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
        ratio = np.log(measured / expected)
        order = np.argsort(place, kind="stable")
        ends = np.flatnonzero(np.diff(place[order])) + 1
        logs += [float(np.median(calls)) for calls in np.split(ratio[order], ends) if len(calls)]
    return np.array(logs, np.float64)


class _RankTimes:
    """The kernels of one rank: measured, expected, and the operator that launched each."""

    def __init__(self, view: RankView, device: Device) -> None:
        costs = packaged_profile(device.profile).credible_costs(view.trace, device)
        known = np.isin(costs.source, (CostSource.PROFILE, CostSource.EXTRAPOLATED))
        works = ~view.on_host & view.works_on_device & ~view.is_comm & ~view.named(_OUTSIDE.match)
        self.view = view
        self.rows: I64 = np.flatnonzero(works & known)
        self.measured: F64 = view.duration[self.rows].astype(np.float64)
        self.expected: F64 = costs.ps[self.rows] / 1e3
        self.beyond: Mask = costs.source[self.rows] == CostSource.EXTRAPOLATED
        self.every: I64 = np.flatnonzero(works)
        self.device_ns = float(view.duration[self.every].sum())

    def by_operator(self) -> dict[str, tuple[float, float, float]]:
        """Kernels, measured and expected ns by operator."""
        _, name, texts = self.view.called(self.rows)
        used, place = np.unique(name, return_inverse=True)
        sums = [np.bincount(place, w, len(used)) for w in (None, self.measured, self.expected)]
        return {
            texts[code]: (float(c), float(m), float(e))
            for code, c, m, e in zip(used.tolist(), *(s.tolist() for s in sums), strict=True)
        }

    def by_call(self) -> tuple[I64, F64, F64]:
        """The name, measured and expected ns of all kernels together, of calls that tell of a clock."""
        operator, name, texts = self.view.called(self.rows)
        calls, first, place = np.unique(operator, return_index=True, return_inverse=True)
        size = len(calls)
        measured: F64 = np.bincount(place, self.measured, size).astype(np.float64)
        expected: F64 = np.bincount(place, self.expected, size).astype(np.float64)
        beyond = np.bincount(place, self.beyond.astype(np.float64), size) > 0
        asked = np.array([operator_of(text).op_type in ASKED for text in texts], np.bool_)
        usable = (measured > 0) & (expected >= LEAST_NS) & ~beyond & asked[name[first]]
        return name[first[usable]], measured[usable], expected[usable]

    def spent(self, chosen: Mask) -> float:
        """The time of these kernels, given for all rows."""
        return float(self.view.duration[self.every[chosen[self.every]]].sum())


def _by_kind(operators: Sequence[ExpectedTime], total: float) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for e in operators:
        old = sums.setdefault(e.kind, [0.0, 0.0])
        old[0], old[1] = old[0] + e.measured_ns, old[1] + e.expected_ns
    return {k: m / x for k, (m, x) in sums.items() if m >= LEAST_SHARE * total}


def _held_back(clock: ClockCheck | None, kinds: dict[str, float], device: Device) -> list[Culprit]:
    """A clock that is held back slows every operation."""
    if clock is None or clock.verdict != "held back":
        return []
    each = ", ".join(f"{kind} {ratio:.2f}" for kind, ratio in kinds.items())
    detail = (
        f"the median of {clock.operations} operations takes {clock.text} what a healthy {device.name} needs "
        f"({each}): its clock is held back (locked, too hot, or short of power; nvidia-smi -q says which)"
    )
    return [Culprit(kind="held-back-clock", factor=clock.factor, detail=detail)]


_FLOAT32_UNITS = (
    (
        "fp32",
        on_float32,
        "plain float32",
        "torch.autocast, or set_float32_matmul_precision('high')",
    ),
    ("tf32", on_tf32, "TF32", "torch.autocast"),
)
"""Units that multiply float32: their peak's name, how kernels on them are told, and what uses faster ones."""


_LEAST_SAVED = 0.09
"""The share of the device's time that faster units have to save at their peaks for it to be named."""


def _on_float32(parts: Sequence[_RankTimes], total: float, device: Device) -> list[Culprit]:
    """Products of float32 tensors, where other units of the device are twice as fast or more."""
    for dtype, told, units, remedy in _FLOAT32_UNITS:
        spent = sum(p.spent(p.view.named(told)) for p in parts)
        plain, fast = device.peak.get(dtype, 0.0), device.peak_rate("bf16")
        if plain and fast >= 2 * plain and spent * (1 - plain / fast) >= _LEAST_SAVED * total:
            detail = (
                f"products on {units} units take {percent(spent, total)} % of the device's time; in bf16 "
                f"its peak is {fast / plain:.0f} times as high ({remedy})"
            )
            return [Culprit(kind="float32-products", factor=fast / plain, detail=detail)]
    return []


def _unfused(parts: Sequence[_RankTimes], total: float) -> list[Culprit]:
    """Attention that writes its scores to memory."""
    spent = 0.0
    for part in parts:
        inside = np.zeros(len(part.view), np.bool_)
        for call in unfused_attention(part.view.trace):
            inside[call.rows] = True
        spent += part.spent(inside)
    if spent < LEAST_SHARE * total:
        return []
    detail = (
        f"attention is not fused: its products and softmax run apart, {percent(spent, total)} % of the "
        "device's time in the forward pass alone (scaled_dot_product_attention, with the flash or "
        "memory-efficient backend of sdpa_kernel allowed)"
    )
    return [Culprit(kind="unfused-attention", detail=detail)]


def slow_operators(
    operators: Sequence[ExpectedTime], total: float, device: Device
) -> list[Culprit]:
    """Single operators beyond what residuals of their group allow."""
    slow = []
    for e in operators:
        seconds = e.expected_ns / e.count * 1e-9
        group = kernel_group("measured profile", device.profile, e.kind, seconds, False)
        spread = residual_table().spread(*group)
        allowed = max(SLOW, float(np.exp(spread.high)) if spread else SLOW)
        if operator_of(e.operator).work is Work.FUSED:  # nobody knows what is inside
            continue
        if e.measured_ns >= 2 * LEAST_SHARE * total and e.ratio > allowed:
            needs = f"{e.ratio:.2f} times what a {device.name} needs for its shapes"
            detail = f"{short(e.operator)} takes {needs}"
            slow.append(Culprit(kind="slow-operator", factor=e.ratio, detail=detail))
    return slow
