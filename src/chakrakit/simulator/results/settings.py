"""The simulator's settings as words: RANK=FACTOR, KIND:TARGET@NS=FACTOR."""

from __future__ import annotations

import re

from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError
from chakrakit.machines.calibrate import NetworkModel
from chakrakit.simulator.engine import Fault, Fixed

_FAULT = re.compile(
    r"(?P<kind>device|link):(?P<target>[^@]+)@(?P<at>[0-9.eE+]+)=(?P<factor>[0-9.eE+-]+)$"
)


def split_pair(text: str, option: str, number: bool = False) -> tuple[str, str]:
    """`a=b` in two; with `number`, both must be numbers."""
    left, sign, right = text.partition("=")
    if not (left and sign and right):
        raise ConfigError(f"{option} {text!r}: write it as LEFT=RIGHT")
    if number:
        try:
            int(left), float(right)
        except ValueError:
            raise ConfigError(f"{option} {text!r}: write it as RANK=FACTOR") from None
    return left, right


def split_fault(text: str) -> Fault:
    """`device:3@1e6=0.5`, `link:0-1@0=0`; ranks, or names that the machine has for devices and vertices."""
    found = _FAULT.match(text)
    if found is None:
        raise ConfigError(
            f"--fault {text!r}: write device:RANK@NS=FACTOR (or a device's name) or link:FROM-TO@NS=FACTOR"
        )
    try:
        at, factor = float(found["at"]), float(found["factor"])
    except ValueError:
        raise ConfigError(f"--fault {text!r}: NS and FACTOR should be numbers") from None
    if found["kind"] == "device":
        target = found["target"]
        return Fault("device", int(target) if target.isdigit() else target, at, factor)
    ends = [int(e) if e.isdigit() else e for e in found["target"].split("-", 1)]
    if len(ends) != 2:
        raise ConfigError(f"--fault {text!r}: a link has two ends, as in 0-1")
    return Fault("link", (ends[0], ends[1]), at, factor)


def read_network_model(path: str) -> Fixed:
    """A network model's file as what the simulator asks."""
    return read_json(path, NetworkModel, "a network model").seconds


def read_placement(path: str) -> tuple[int, ...]:
    """The device of each rank: a JSON list of numbers, by rank."""
    what = "a placement (the device of each rank, as in [2, 3, 0, 1])"
    return read_json(path, tuple[int, ...], what)
