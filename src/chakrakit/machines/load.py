"""Loads machines: presets by name, and files of ours, of InfraGraph, of ASTRA-sim and of nodes themselves."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from chakrakit.configuration import MOST_XML_BYTES
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.derived import with_base
from chakrakit.machines.description import (
    MAX_MACHINE_LINKS,
    DimensionText,
    MachineText,
    build_machine,
    check_devices,
    check_links,
    machine_document,
    parse_machine,
)
from chakrakit.machines.fabric import Machine

# --- ASTRA-sim's analytical network files -------------------------------------------------------


_SHAPES = {"Ring": "ring", "FullyConnected": "full", "Switch": "switch"}
_GB = 2**30
"""Bytes of what ASTRA-sim's network file calls a GB."""


class AstraNetwork(msgspec.Struct, kw_only=True):
    """The four lists of the file, one entry per dimension, innermost first."""

    topology: list[str]
    npus_count: list[int]
    bandwidth: list[float]
    """GB/s of each link, a GB being 2^30 bytes."""
    latency: list[float]
    """ns of each link."""


def parse_astra_network(content: dict[str, Any], where: str) -> Machine:
    """The machine of ASTRA-sim's network file; its devices have no rates or memory, as the file has none."""
    try:
        network = msgspec.convert(content, AstraNetwork)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from None
    columns = (network.topology, network.npus_count, network.bandwidth, network.latency)
    if len({len(c) for c in columns}) != 1:
        raise ConfigError(f"{where}: topology, npus_count, bandwidth and latency differ in length")
    dims = [_dimension(*row, where) for row in zip(*columns, strict=True)]
    return build_machine(MachineText(name=where.rsplit("/", 1)[-1], network=dims), where)


def _dimension(
    shape: str, count: int, bandwidth: float, latency: float, where: str
) -> DimensionText:
    if shape not in _SHAPES:
        raise ConfigError(f"{where}: topology {shape!r} is none of {', '.join(_SHAPES)}")
    return msgspec.convert(
        {
            "topology": _SHAPES[shape],
            "size": count,
            "bandwidth": bandwidth * _GB,
            "latency": latency * 1e-9,
        },
        DimensionText,
    )


# --- presets and files --------------------------------------------------------------------------


_PRESETS = Path(__file__).parent / "presets"
_NAME = re.compile(r"(?P<name>[a-z0-9.-]+?)(:(?P<nodes>\d{1,20}))?$")


def preset_names() -> list[str]:
    """The names of the machines that come with the package."""
    return sorted(f.stem for f in _PRESETS.glob("*.yaml"))


def preset_text(name: str) -> dict[str, Any]:
    """A preset's description."""
    content: dict[str, Any] = with_base(machine_document(_PRESETS / f"{name}.yaml").content, name)
    return content


def parse_name(name: str) -> tuple[str | None, int | None]:
    """The preset and the number of nodes that a name such as `dgx-h100:32` stands for; None for a file."""
    match = _NAME.match(name if Path(name).is_file() else name.lower())
    if not match or match["name"] not in preset_names():
        return None, None
    nodes = int(match["nodes"]) if match["nodes"] else None
    if nodes == 0:
        raise ConfigError(f"{name}: 0 nodes; give 1 or more")
    return match["name"], nodes


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
    if (machine := _of_node(file, name)) is not None:
        return machine
    document = machine_document(file)
    try:
        if "node" in document.content:
            return _joined(document.content, file, name)
        return read_machine(document.content, name)
    except ConfigError as error:
        raise document.pointed(str(error)) from None


_HEAD = 1 << 16
"""Bytes that tell what a file is."""


def _of_node(file: Path, where: str) -> Machine | None:
    """The machine of a file that a node or another tool wrote; None for YAML and JSON."""
    from chakrakit.machines.files import MACHINE_FORMATS

    try:
        with file.open("rb") as stream:
            head = stream.read(_HEAD).removeprefix(BOM_UTF8)
            format = next((f for f in MACHINE_FORMATS if f.recognises(head)), None)
            data = head + stream.read(MOST_XML_BYTES + 1) if format is not None else b""
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
    return None if format is None else format.read(data, where)


def _joined(content: dict[str, Any], file: Path, where: str) -> Machine:
    """Nodes that a file or a preset describes, joined by the dimensions of `network`."""
    named = content["node"]
    if not isinstance(named, str) or not named:
        raise ConfigError(f"{where}.node: give a preset, or a file beside this one")
    beside = Path(named)
    if parse_name(named)[0] is None and (beside.is_absolute() or ".." in beside.parts):
        raise ConfigError(f"{where}.node: {named!r} lies elsewhere; put it beside this file")
    node = load_machine(named if parse_name(named)[0] else str(file.parent / beside))
    outer = parse_machine({k: v for k, v in content.items() if k != "node"}, where)
    dimensions = (*node.dimensions, *outer.dimensions)
    check_devices([d.size for d in dimensions], where)
    size = node.size * outer.size
    devices, places = node.devices, np.tile(node.device_of, outer.size)
    if "device" in content:
        devices, places = outer.devices, np.zeros(size, np.int64)
    machine = replace(
        outer, dimensions=dimensions, devices=devices, device_of=places, assumed=node.assumed
    )
    check_links(machine.link_count, "machine", where, MAX_MACHINE_LINKS)
    return machine


def read_machine(content: dict[str, Any], where: str) -> Machine:
    """The machine of a decoded file; the format is recognized by its keys."""
    if "components" in content and "edges" in content:
        alone = {"name": "node", "device": content.get("name", ""), "count": 1}
        content = {
            "name": content.get("name", "device"),
            "devices": [content],
            "instances": [alone],
        }
    if {"instances", "edges"} & set(content) and "devices" in content:
        from chakrakit.machines.infragraph import parse_infragraph

        return parse_infragraph(content, where)
    if "npus_count" in content:
        return parse_astra_network(content, where)
    return parse_machine(content, where)
