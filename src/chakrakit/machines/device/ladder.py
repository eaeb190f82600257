"""The ladder of costs: where the times of computation come from, and which of them can be compared.

    recorded            times that a device took, kept as they are
    measured profile    tables of operations timed on this device
    carried profile     those of the nearest device, carried by peaks and corrected by tables of this one
    data sheet          a roofline at the shares of peak rates that measured devices reach

Measured and carried times of one profile can be compared: on the measured device carrying changes nothing.
Times of different rungs differ by more than their devices do.
"""

from __future__ import annotations

from collections.abc import Iterable

from chakrakit.machines.device.device import Device
from chakrakit.machines.device.profile import SAME_DEVICE, packaged_profile

RECORDED = "recorded"
DATA_SHEET = "data sheet"
_MEASURED, _CARRIED = "measured profile", "carried profile"
_PREFIX = "profile "


def rung_of(compute: str, device: Device) -> str:
    """The rung of a work model (by its name) on a device, such as `carried profile h200`."""
    if compute == "measured":
        return RECORDED
    name = device.profile if compute == "auto" else compute.removeprefix(_PREFIX)
    if not name or compute in ("roofline", DATA_SHEET):
        return DATA_SHEET
    profile = packaged_profile(name)
    measured = profile.measured
    same = profile.base is None and _alike(measured.peak_rate("bf16"), device.peak_rate("bf16"))
    same = same and _alike(measured.memory_bandwidth, device.memory_bandwidth)
    return f"{_MEASURED if same else _CARRIED} {measured.name}"


def _alike(a: float, b: float) -> bool:
    return not (a and b) or abs(a / b - 1) < SAME_DEVICE


def rungs_differ(rungs: Iterable[str]) -> bool:
    """Whether times of these rungs cannot be compared; an empty one is not known and never differs."""
    families = {r.replace(_MEASURED, _CARRIED) for r in rungs if r}
    return len(families) > 1


def common_compute(compute: str, devices: Iterable[Device]) -> str:
    """The work model that gives all devices one rung: `auto` where its rungs can be compared."""
    if compute != "auto":
        return compute
    return "data-sheet" if rungs_differ(rung_of("auto", d) for d in devices) else "auto"
