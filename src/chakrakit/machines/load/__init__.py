"""Machines by name or file, listed and drawn."""

from __future__ import annotations

from chakrakit.machines.load.description import machine_document, parse_machine
from chakrakit.machines.load.drawing import MachinesReport, describe, draw, overview
from chakrakit.machines.load.load import (
    load_machine,
    machine,
    parse_name,
    preset_text,
    read_machine,
)

__all__ = [
    "MachinesReport",
    "describe",
    "draw",
    "load_machine",
    "machine",
    "machine_document",
    "overview",
    "parse_machine",
    "parse_name",
    "preset_text",
    "read_machine",
]
