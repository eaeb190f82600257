"""The ladder of costs: where the times of computation come from, and which of them can be compared.

    recorded            times that a device took, kept as they are
    measured profile    tables of operations timed on this device
    carried profile     those of the nearest device, carried by peaks and corrected by tables of this one
    data sheet          a roofline at the shares of peak rates that measured devices reach

Measured and carried times of one profile can be compared: on the measured device carrying changes nothing.
So can a recording's own times and those carried to another device by the ladder.
Times of different rungs differ by more than their devices do.
"""

from __future__ import annotations

from collections.abc import Iterable

from chakrakit.machines.device.device import Device
from chakrakit.machines.device.framework import InFramework
from chakrakit.machines.device.profile import SAME_DEVICE, Profiled, packaged_profile, work_model
from chakrakit.machines.device.recosted import Recosted
from chakrakit.machines.device.work import Auto, DataSheet, Measured, Roofline, WorkModel

RECORDED = "recorded"
DATA_SHEET = "data sheet"
_MEASURED, _CARRIED = "measured profile", "carried profile"
_THEN = ", carried by "
"""After recorded times that another device took: by what they were carried."""


def rung_of(work: WorkModel, device: Device) -> str:
    """The rung of a work model on a device, such as `carried profile h200`; a user's own goes by its name."""
    if isinstance(work, InFramework):
        return rung_of(work.work, device)
    if isinstance(work, Recosted):
        return f"{RECORDED}{_THEN}{rung_of(work.work, device)}"
    if isinstance(work, Measured):
        return RECORDED
    profile = _profile(work, device)
    if profile is None:
        return DATA_SHEET if isinstance(work, Auto | DataSheet | Roofline) else work.name
    measured = profile.measured
    same = profile.base is None and _alike(measured.peak_rate("bf16"), device.peak_rate("bf16"))
    same = same and _alike(measured.memory_bandwidth, device.memory_bandwidth)
    return f"{_MEASURED if same else _CARRIED} {measured.name}"


def is_carried_recording(rung: str) -> bool:
    """Whether times of this rung were recorded on another device than the one they are for."""
    return rung.startswith(f"{RECORDED}{_THEN}")


def _profile(work: WorkModel, device: Device) -> Profiled | None:
    """The profile that a work model uses on a device."""
    if isinstance(work, Auto):
        return packaged_profile(device.profile) if device.profile else None
    return work if isinstance(work, Profiled) else None


def _alike(a: float, b: float) -> bool:
    return not (a and b) or abs(a / b - 1) < SAME_DEVICE


def rungs_differ(rungs: Iterable[str]) -> bool:
    """Whether times of these rungs cannot be compared; an empty one is not known and never differs."""
    families = {r.partition(_THEN)[0].replace(_MEASURED, _CARRIED) for r in rungs if r}
    return len(families) > 1


def common_compute(compute: str, devices: Iterable[Device]) -> str:
    """The work model that gives all devices one rung: `auto` where its rungs can be compared."""
    if compute != "auto":
        return compute
    return (
        "data-sheet" if rungs_differ(rung_of(work_model(compute), d) for d in devices) else "auto"
    )
