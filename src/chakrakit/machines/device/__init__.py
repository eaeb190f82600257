"""What one accelerator can do, and how long an operation takes on it."""

from __future__ import annotations

from chakrakit.machines.device.activity import COMPUTED, PowerLimited, activity_of
from chakrakit.machines.device.clock import (
    HORIZON_DAYS,
    HORIZON_PS,
    MOST_NS,
    PS_PER_NS,
    PS_PER_S,
    each_picoseconds,
    nanoseconds_to_ticks,
    picoseconds,
    too_long,
)
from chakrakit.machines.device.device import Device, DeviceText, read_device
from chakrakit.machines.device.power import PICO, Activity, Draw, PowerConstants, held_back
from chakrakit.machines.device.profile import (
    Profile,
    Profiled,
    find_profile,
    work_model,
    write_profile,
)
from chakrakit.machines.device.quantities import (
    Quantity,
    parse,
    positive,
    show_bandwidth,
    show_bytes,
    show_time,
)
from chakrakit.machines.device.tables import ClassModel, Prediction, Row
from chakrakit.machines.device.work import (
    Auto,
    Costs,
    CostSource,
    Measured,
    Roofline,
    WorkModel,
    measured_rows,
    roofline_seconds,
    work_rows,
)

__all__ = [
    "COMPUTED",
    "HORIZON_DAYS",
    "HORIZON_PS",
    "MOST_NS",
    "PICO",
    "PS_PER_NS",
    "PS_PER_S",
    "Activity",
    "Auto",
    "ClassModel",
    "CostSource",
    "Costs",
    "Device",
    "DeviceText",
    "Draw",
    "Measured",
    "PowerConstants",
    "PowerLimited",
    "Prediction",
    "Profile",
    "Profiled",
    "Quantity",
    "Roofline",
    "Row",
    "WorkModel",
    "activity_of",
    "each_picoseconds",
    "find_profile",
    "held_back",
    "measured_rows",
    "nanoseconds_to_ticks",
    "parse",
    "picoseconds",
    "positive",
    "read_device",
    "roofline_seconds",
    "show_bandwidth",
    "show_bytes",
    "show_time",
    "too_long",
    "work_model",
    "work_rows",
    "write_profile",
]
