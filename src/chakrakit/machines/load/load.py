"""Machines by name or file: presets, our own files, InfraGraph, ASTRA-sim's network files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load.description import machine_document, parse_machine

_PRESETS = Path(__file__).parent.parent / "presets"
_NAME = re.compile(r"(?P<name>[a-z0-9.-]+?)(:(?P<nodes>\d{1,20}))?$")


def preset_names() -> list[str]:
    """The machines that come with the package."""
    return sorted(f.stem for f in _PRESETS.glob("*.yaml"))


def preset_text(name: str) -> dict[str, Any]:
    """A preset's description."""
    content: dict[str, Any] = machine_document(_PRESETS / f"{name}.yaml").content
    return content


def parse_name(name: str) -> tuple[str | None, int | None]:
    """The preset a name means and its number of nodes; no preset where it means a file."""
    found = _NAME.match(name)
    if not found or found["name"] not in preset_names():
        return None, None
    nodes = int(found["nodes"]) if found["nodes"] else None
    if nodes == 0:
        raise ConfigError(f"{name}: 0 nodes; give 1 or more")
    return found["name"], nodes


def machine(description: Mapping[str, Any]) -> Machine:
    """Make a machine from what would stand in its file.

    Parameters
    ----------
    description
        `device`, `network` or `graph`, and so on (docs/simulator.md); numbers may be NumPy's.

    Examples
    --------
    >>> switch = {"topology": "switch", "size": 4, "bandwidth": "25 GB/s", "latency": "2 us"}
    >>> ck.machine({"device": {"name": "cpu"}, "network": [switch]}).size
    4

    """
    return parse_machine(description, str(description.get("name", "machine")))


def load_machine(name: str) -> Machine:
    """Load a machine by name or from a file.

    Parameters
    ----------
    name
        `dgx-h100`, `dgx-h100:32` (32 nodes), or the path of a machine's file.

    Examples
    --------
    >>> ck.load_machine("dgx-h100:2").size
    16

    """
    preset, nodes = parse_name(name)
    if preset is not None:
        return replace(parse_machine(preset_text(preset), name, nodes), is_preset=True)
    file = Path(name)
    if not file.is_file():
        preset = name.partition(":")[0]
        raise ConfigError(
            f"{name}: neither a file nor a preset; {nearest(preset, preset_names())} "
            "`chakra machines` lists the presets"
        )
    document = machine_document(file)
    try:
        return read_machine(document.content, name)
    except ConfigError as error:
        raise document.pointed(str(error)) from None


def read_machine(content: dict[str, Any], where: str) -> Machine:
    """A decoded file of any kind; its keys say which."""
    if {"instances", "edges"} & set(content) and "devices" in content:
        from chakrakit.machines.load.infragraph import parse_infragraph

        return parse_infragraph(content, where)
    if "npus_count" in content:
        from chakrakit.machines.load.astra_network import parse_astra_network

        return parse_astra_network(content, where)
    return parse_machine(content, where)
