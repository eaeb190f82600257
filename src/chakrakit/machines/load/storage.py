"""The `storage` of a machine's file: stores by name, every number checked."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.machines.device import Quantity, parse, positive
from chakrakit.machines.fabric import Machine, Store, StoreKind, WhenFull

_MOST = 1 << 30
"""Operations."""


class StoreText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One store as its file describes it."""

    kind: StoreKind
    bandwidth: Quantity
    """Of each server, for writing, and for reading unless `read_bandwidth` says otherwise."""
    read_bandwidth: Quantity | None = None
    latency: Quantity = 0
    operations: int = 0
    """In flight at each server; 0 for no limit."""
    queue: int = 0
    """Operations that may wait at each server; 0 for no limit."""
    when_full: WhenFull = "wait"
    capacity: Quantity = 0
    """Of each server; 0 for no limit."""
    nodes: list[int] = []
    """Of a remote store: the nodes that are its servers."""
    distance: int = 1
    """Of a peer store: how many nodes further on the memory is."""


def read_stores(texts: Mapping[str, StoreText], machine: Machine, where: str) -> tuple[Store, ...]:
    """The stores in the order of the file."""
    stores = tuple(_store(name, text, machine, f"{where}.{name}") for name, text in texts.items())
    served: dict[int, str] = {}
    for store in stores:
        for node in store.at:
            if served.setdefault(node, store.name) != store.name:
                raise ConfigError(
                    f"{where}.{store.name}.nodes: node {node} already serves {served[node]!r}"
                )
    return stores


def _store(name: str, text: StoreText, machine: Machine, where: str) -> Store:
    if not name:
        raise ConfigError(f"{where}: a store needs a name")
    for field in ("operations", "queue"):
        if not 0 <= getattr(text, field) <= _MOST:
            raise ConfigError(f"{where}.{field}: {getattr(text, field)} is not in 0 … {_MOST:,}")
    if text.queue and not text.operations:
        raise ConfigError(f"{where}.queue: nothing waits without a limit; give `operations`")
    bandwidth = positive(text.bandwidth, "bandwidth", f"{where}.bandwidth")
    reading = text.read_bandwidth
    return Store(
        name,
        text.kind,
        bandwidth,
        bandwidth if reading is None else positive(reading, "bandwidth", f"{where}.read_bandwidth"),
        parse(text.latency, "time", f"{where}.latency"),
        text.operations,
        text.queue,
        text.when_full,
        parse(text.capacity, "bytes", f"{where}.capacity"),
        _servers(text, machine, where),
        _distance(text, machine, where),
    )


def _servers(text: StoreText, machine: Machine, where: str) -> tuple[int, ...]:
    nodes = machine.size // machine.node_size
    if (text.kind == "remote") != bool(text.nodes):
        raise ConfigError(f"{where}.nodes: a remote store, and no other, names the nodes it is on")
    for node in text.nodes:
        if not 0 <= node < nodes or text.nodes.count(node) > 1:
            raise ConfigError(f"{where}.nodes: {node} is twice there or not in 0 … {nodes - 1:,}")
    if len(text.nodes) == nodes:
        raise ConfigError(f"{where}.nodes: all {nodes} nodes are servers; leave some to the ranks")
    return tuple(text.nodes)


def _distance(text: StoreText, machine: Machine, where: str) -> int:
    nodes = machine.size // machine.node_size
    if text.kind == "peer" and not 1 <= math.fabs(text.distance) < nodes:
        raise ConfigError(
            f"{where}.distance: {text.distance} nodes further on is no other of {nodes} nodes"
        )
    return text.distance
