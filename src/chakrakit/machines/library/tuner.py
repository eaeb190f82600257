"""The library's choice of algorithm and protocol: the pair with the lowest of its own estimates.

The estimates are those of NCCL's tuner (src/graph/tuning.cc, 2.27 to 2.29): base latencies, latencies of
one hop by kind of link, and bandwidths derived from the rings that it found. They differ from the time that
the library then takes (`cost.py`), and where the estimate is wrong, so is the choice: on A100, a two-device
all-reduce of 1 MiB changes to the Simple protocol and takes twice as long as one of half the size.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from chakrakit.machines.library.constants import (
    PROTOCOLS,
    Library,
    ProtocolName,
    Span,
    rounds,
    steps,
)
from chakrakit.machines.library.cost import GB, US, cost, low_latency_us

_BASE_US: dict[str, dict[ProtocolName, float]] = {
    "ring": {"LL": 6.6, "LL128": 14.0, "Simple": 8.4},
    "tree": {"LL": 6.8, "LL128": 14.0, "Simple": 8.4},
}
_HOP_US: dict[str, dict[str, dict[ProtocolName, float]]] = {
    "nvlink": {
        "ring": {"LL": 0.6, "LL128": 1.9, "Simple": 3.4},
        "tree": {"LL": 0.6, "LL128": 1.25, "Simple": 4.0},
    },
    "pcie": {
        "ring": {"LL": 1.0, "LL128": 2.5, "Simple": 5.7},
        "tree": {"LL": 1.0, "LL128": 1.9, "Simple": 4.0},
    },
    "network": {
        "ring": {"LL": 2.7, "LL128": 4.0, "Simple": 14.0},
        "tree": {"LL": 5.0, "LL128": 8.5, "Simple": 14.0},
    },
}
_LL128 = 0.92
"""Share of payload in lines of 128 bytes, as the tuner counts it."""


class Choice(NamedTuple):
    """An algorithm and its protocol."""

    algorithm: str
    protocol: str


def choose(library: Library, collective: str, size: float, span: Span) -> Choice:
    """The algorithm and protocol that the library uses."""
    if collective in ("all-to-all", "gather", "scatter", "message"):
        return Choice("direct", exchange_protocol(library, collective, size, span))
    seconds_of = estimates(library, collective, size, span)
    return min(seconds_of, key=lambda choice: seconds_of[choice])


def estimates(library: Library, collective: str, size: float, span: Span) -> dict[Choice, float]:
    """The tuner's estimated seconds for every algorithm and protocol that it considers."""
    seconds_of: dict[Choice, float] = {}
    for name in PROTOCOLS:
        if library.protocol(name) is None:
            continue
        seconds_of[Choice("ring", name)] = _ring(library, name, collective, size, span)
        if collective == "all-reduce" and span.nodes > 1:
            seconds_of[Choice("tree", name)] = _tree(library, name, size, span)
    if collective == "all-reduce" and library.in_switch is not None:
        kind = "in-switch-tree" if span.nodes > 1 else "in-switch"
        seconds = cost(library, collective, kind, "Simple", size, span).seconds
        if seconds < math.inf:
            seconds_of[Choice(kind, "Simple")] = seconds
    return seconds_of


def exchange_protocol(library: Library, collective: str, size: float, span: Span) -> str:
    """The protocol of an exchange: LL while it is quicker than the start of Simple."""
    quick = low_latency_us(library.exchange, collective, size, span.members)
    return "LL" if quick < library.exchange.simple_us else "Simple"


def _bus(library: Library, span: Span) -> float:
    """GB/s of all rings together, as the tuner sees it."""
    bus = library.tuner.bus_gbs
    return bus if span.nodes == 1 else min(bus, span.leaving / GB)


def _low_latency(library: Library, span: Span) -> float:
    """The most GB/s that the tuner expects of the LL protocol."""
    two, more = library.tuner.low_latency_across_gbs
    return library.tuner.low_latency_gbs if span.nodes == 1 else two if span.nodes == 2 else more


def _ring(library: Library, name: ProtocolName, collective: str, size: float, span: Span) -> float:
    hops, far = steps(collective, span.members), rounds(collective) * (span.nodes - 1)
    bus = _bus(library, span)
    if name == "LL":
        bus = min(_low_latency(library, span), bus / 2)
    elif name == "LL128":
        bus *= _LL128
    ratio = 1.0 if collective in ("broadcast", "reduce") else span.members / hops
    near, across = (_HOP_US[k]["ring"][name] for k in (library.tuner.link, "network"))
    latency = _BASE_US["ring"][name] + (hops - far) * near + far * across
    return latency * US + size / (bus * ratio * GB)


def _tree(library: Library, name: ProtocolName, size: float, span: Span) -> float:
    bus = 0.92 * _bus(library, span)
    if name == "LL":
        bus = min(_low_latency(library, span), bus / 3.8)
    elif name == "LL128":
        bus *= 120 / 128
    near, across = (_HOP_US[k]["tree"][name] for k in (library.tuner.link, "network"))
    depth = math.floor(math.log2(span.nodes))
    latency = _BASE_US["tree"][name] + 2 * ((span.local - 1) * near + depth * across)
    return latency * US + size / (bus / 2 * _tree_share(size) * GB)


def _tree_share(size: float) -> float:
    """The tuner's correction of trees at middle sizes, roughly: 0.6 around 1 MiB, 1 far from it."""
    return max(0.6, min(1.0, 0.6 + 0.1 * abs(math.log2(max(size, 1.0) / 2**20)) - 0.1))
