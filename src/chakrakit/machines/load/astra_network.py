"""ASTRA-sim's analytical network files as machines: Ring, FullyConnected and Switch dimensions."""

from __future__ import annotations

from typing import Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load.description import DimensionText, MachineText, build_machine

_SHAPES = {"Ring": "ring", "FullyConnected": "full", "Switch": "switch"}
_GB = 2**30
"""What that file calls a GB."""


class AstraNetwork(msgspec.Struct, kw_only=True):
    """The four lists of the file, one entry per dimension, innermost first."""

    topology: list[str]
    npus_count: list[int]
    bandwidth: list[float]
    """GB/s of each link, a GB being 2^30 bytes."""
    latency: list[float]
    """ns of each link."""


def parse_astra_network(content: dict[str, Any], where: str) -> Machine:
    """The machine; devices have no figures of their own, as the file has none."""
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
