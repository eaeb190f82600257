"""Descriptions of clusters: devices, links, topologies, presets, and how long operations take on them."""

from __future__ import annotations

from chakrakit.machines.calibrate import NetworkModel
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
    "read_schedule",
    "recorded_on",
]
