"""Descriptions of clusters: devices, links, topologies, presets, and how long operations take on them.

Names are imported when first used: who loads a machine does not load calibration and drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names

if TYPE_CHECKING:
    from chakrakit.machines.calibrate import NetworkModel, read_nccl_log
    from chakrakit.machines.calibrated import (
        CalibrationReport,
        calibrate_collectives,
        calibrate_network,
        calibrate_profile,
    )
    from chakrakit.machines.description import machine_document, parse_machine
    from chakrakit.machines.drawing import MachinesReport, describe, draw, overview
    from chakrakit.machines.load import load_machine, machine, parse_name, preset_text, read_machine
    from chakrakit.machines.recorded import preset_on, recorded_on
    from chakrakit.machines.schedule import ChangeOverTime, read_schedule

_HOME = {
    "CalibrationReport": "calibrated",
    "ChangeOverTime": "schedule",
    "MachinesReport": "drawing",
    "NetworkModel": "calibrate",
    "calibrate_collectives": "calibrated",
    "calibrate_network": "calibrated",
    "calibrate_profile": "calibrated",
    "describe": "drawing",
    "draw": "drawing",
    "load_machine": "load",
    "machine": "load",
    "machine_document": "description",
    "overview": "drawing",
    "parse_machine": "description",
    "parse_name": "load",
    "preset_on": "recorded",
    "preset_text": "load",
    "read_machine": "load",
    "read_nccl_log": "calibrate",
    "read_schedule": "schedule",
    "recorded_on": "recorded",
}

__all__ = [
    "CalibrationReport",
    "ChangeOverTime",
    "MachinesReport",
    "NetworkModel",
    "calibrate_collectives",
    "calibrate_network",
    "calibrate_profile",
    "describe",
    "draw",
    "load_machine",
    "machine",
    "machine_document",
    "overview",
    "parse_machine",
    "parse_name",
    "preset_on",
    "preset_text",
    "read_machine",
    "read_nccl_log",
    "read_schedule",
    "recorded_on",
]

__getattr__ = late_names(__name__, _HOME)
