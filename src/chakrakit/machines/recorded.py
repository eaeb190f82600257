"""Which device a recording was made on: a profiler's name of it as the device of a preset."""

from __future__ import annotations

import re
from functools import cache

from chakrakit.machines.device import Device, RecordedOn
from chakrakit.machines.load import load_machine

_PRESETS = (
    (r"GB300", "gb300-nvl72"),
    (r"GB200", "gb200-nvl72"),
    (r"B300", "dgx-b300"),
    (r"B200", "dgx-b200"),
    (r"H200", "dgx-h200"),
    (r"H800", "dgx-h800"),
    (r"H100\b(?!.*(PCIe|NVL))", "dgx-h100"),
    (r"A100", "dgx-a100"),
    (r"L40S", "l40s-pcie"),
    (r"L4\b", "ethernet-100g"),
    (r"RTX PRO 6000", "rtx-pro-6000"),
    (r"RTX 4090", "rtx-4090"),
    (r"MI300X", "mi300x"),
    (r"TPU v4", "tpu-v4"),
    (r"TPU v5 ?e|TPU v5 lite", "tpu-v5e"),
    (r"TPU v5p?\b", "tpu-v5p"),
    (r"TPU v6", "tpu-v6e"),
)
"""Patterns of names that drivers give to devices, and the preset whose device it is; the first one decides.
An H100 on PCIe or NVL has other rates than the preset's."""


@cache
def recorded_on(name: str) -> RecordedOn:
    """A device by the name that a profiler wrote down."""
    return RecordedOn(name, _device(name))


def preset_on(name: str) -> str:
    """The preset with the device of this name; empty where none has it."""
    words = name.replace("-", " ")  # `rtx-4090` is a preset's name of what a driver calls RTX 4090
    for pattern, preset in _PRESETS:
        if re.search(rf"\b{pattern}", words, re.IGNORECASE):
            return preset
    return ""


def _device(name: str) -> Device | None:
    preset = preset_on(name)
    return load_machine(preset).devices[0] if preset else None
