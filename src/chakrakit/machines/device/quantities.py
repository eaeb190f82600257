"""Numbers with units as files write them: "450 GB/s", "400 Gb/s", "300 ns", "80 GiB"."""

from __future__ import annotations

import re

from chakrakit.errors import ConfigError
from chakrakit.trace.timing import HORIZON_DAYS, HORIZON_PS

Quantity = float | int | str
"""A number in base units (bytes, bytes/s, seconds, FLOP/s, watts), or text with a unit."""

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SIZES = {
    f"{p}{u}": f * s for p, f in (_DECIMAL | _BINARY).items() for u, s in (("B", 1), ("b", 1 / 8))
}
_UNITS: dict[str, dict[str, float]] = {
    "bandwidth": {f"{u}/s": f for u, f in _SIZES.items()}
    | {f"{u}bps": f / 8 for u, f in _DECIMAL.items() if u},
    "bytes": _SIZES,
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "ps": 1e-12},
    "rate": {f"{p}FLOP/s": f for p, f in _DECIMAL.items()}
    | {f"{p}FLOPS": f for p, f in _DECIMAL.items()},
    "power": {"W": 1.0, "kW": 1e3},
}
_TITLES = {
    "bandwidth": "a bandwidth",
    "bytes": "a number of bytes",
    "time": "a time",
    "rate": "a rate",
    "power": "a power",
}
"""What errors call the kinds of quantities."""
_LEAST, _MOST = 1e-30, 1e30
"""No machine has less or more of anything, and the product and ratio of two such numbers is one again."""
_TEXT = re.compile(r"\s*([0-9][0-9_.]*(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ/]*)\s*$")


def parse(value: Quantity, kind: str, where: str) -> float:
    """The value in base units; `kind` is bandwidth, bytes, time, rate or power."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ConfigError(f"{where}: {value!r} is not {_TITLES[kind]}")
    number = float(value) if isinstance(value, (int, float)) else _with_unit(value, kind, where)
    if not 0 <= number < float("inf"):
        raise ConfigError(f"{where}: {value!r} is not {_TITLES[kind]} of 0 or more")
    if number > _MOST or (0 < number < _LEAST and kind != "time"):
        raise ConfigError(
            f"{where}: {value!r} is not {_TITLES[kind]} that a machine could have; check the unit"
        )
    if kind == "time" and number * 1e12 > HORIZON_PS:
        raise ConfigError(
            f"{where}: {value!r} is longer than the {HORIZON_DAYS} days that a simulation has in all; "
            "check the unit (without one it is seconds)"
        )
    return number


def positive(value: Quantity, kind: str, where: str) -> float:
    """The value in base units, as `parse` gives it; zero is an error too."""
    number = parse(value, kind, where)
    if number == 0:
        raise ConfigError(
            f"{where}: with {_TITLES[kind]} of 0 nothing would ever finish; give more than 0"
        )
    return number


def _with_unit(text: str, kind: str, where: str) -> float:
    match = _TEXT.match(text)
    units = _UNITS[kind]
    if match is None or (match[2] and match[2] not in units):
        examples = ", ".join(list(units)[:4])
        raise ConfigError(
            f"{where}: {text!r} is not {_TITLES[kind]}; write a number and one of {examples}, …"
        )
    try:
        return float(match[1].replace("_", "")) * (units[match[2]] if match[2] else 1.0)
    except ValueError:
        raise ConfigError(f"{where}: {match[1]!r} is not a number") from None


def show_bandwidth(value: float) -> str:
    """`450 GB/s` for 450e9."""
    return _show(value, "B/s")


def show_bytes(value: float) -> str:
    """`80 GB` for 80e9."""
    return _show(value, "B")


def show_time(seconds: float) -> str:
    """`1.5 us` for 1.5e-6."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.6g} {unit}"
    return f"{seconds / 1e-9:.6g} ns"


def _show(value: float, unit: str) -> str:
    for prefix in ("P", "T", "G", "M", "k"):
        if value >= _DECIMAL[prefix]:
            return f"{value / _DECIMAL[prefix]:.6g} {prefix}{unit}"
    return f"{value:.6g} {unit}"
