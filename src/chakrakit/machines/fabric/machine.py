"""Machine: devices joined by one fabric per dimension, as one graph with routes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec
import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, listed
from chakrakit.machines.device import Device
from chakrakit.machines.fabric.fabrics import Fabric
from chakrakit.machines.fabric.groups import GroupCost
from chakrakit.machines.fabric.links import Links, RouteParts, Routes, Schedule, Store
from chakrakit.machines.fabric.ports import MessageCost
from chakrakit.machines.library import Library, Span

# --- the site: servers, the building and its electricity ----------------------------------------


JOULES_PER_KWH = 3.6e6
"""1,000 W for 3,600 s."""


class Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Servers of `devices_per_server` devices each, and the building they stand in."""

    devices_per_server: int
    server_watts: float = 0.0
    """The constant power of a server without its devices: processors, memory, network cards, fans."""
    server_share: float = 0.0
    """Additional power for every watt of its devices: conversion losses and fans."""
    pue: float = 1.0
    """Power of the building for every watt of its servers (power usage effectiveness)."""
    carbon_kg_per_kwh: float | None = None
    """CO2 equivalent of the electricity."""

    def server_joules(self, device_joules: float, devices: int, seconds: float) -> float:
        """The energy of servers while their devices take `device_joules` over these seconds.

        Devices that are used answer for their share of a server; others of it are somebody else's.
        """
        servers = devices / self.devices_per_server
        return device_joules * (1 + self.server_share) + servers * self.server_watts * seconds

    def facility_joules(self, device_joules: float, devices: int, seconds: float) -> float:
        """The same with the building."""
        return self.pue * self.server_joules(device_joules, devices, seconds)

    def carbon_kg(self, facility_joules: float) -> float | None:
        """CO2 equivalent of that energy; None where the carbon intensity is not known."""
        if self.carbon_kg_per_kwh is None:
            return None
        return facility_joules / JOULES_PER_KWH * self.carbon_kg_per_kwh


def check_site(site: Site, where: str) -> None:
    """Raises an error where a number of a site is impossible."""
    if site.devices_per_server < 1:
        raise ConfigError(f"{where}.devices_per_server: {site.devices_per_server} is below 1")
    if not 1 <= site.pue < float("inf"):
        raise ConfigError(
            f"{where}.pue: {site.pue} is below 1; a building adds to what servers draw"
        )
    for name in ("server_watts", "server_share", "carbon_kg_per_kwh"):
        value = getattr(site, name)
        if value is not None and not 0 <= value < float("inf"):
            raise ConfigError(f"{where}.{name}: {value} is not 0 or more")


Joins = Literal["rails", "flat", "gateways"]
"""How a dimension connects to the dimensions inside it: by one fabric for every inner place (`rails`), by one
fabric with a port for every device (`flat`), or with a port for every group of devices (`gateways`)."""


@dataclass(frozen=True, eq=False)
class Dimension:
    """One level of the hierarchy: `size` places, joined by copies of `fabric`."""

    size: int
    fabric: Fabric
    joins: Joins = "rails"
    reduction: bool = False
    """Whether its switches can reduce the data that passes through them."""
    messages: MessageCost | None = None
    """What a message costs at its ports besides its bytes; None where nothing is known."""
    schedule: Schedule = ()
    """How the bandwidth of its links changes over time."""


@dataclass(frozen=True)
class Software:
    """The overheads that the communication library and the driver add, in seconds."""

    collective_overhead: float = 0.0
    step_overhead: float = 0.0
    queue_depth: int = 0
    """Kernels a stream takes before a launch blocks; 0 for no limit."""
    groups: GroupCost | None = None
    """What setting up a group costs before its first collective; None where groups are there already."""


@dataclass(frozen=True, eq=False, repr=False)
class Machine:
    """Devices 0 … n-1 and directed links between them and the switches.

    Device d has the address (a0, a1, …) with d = a0 + a1·n0 + a2·n0·n1 + …, innermost dimension first.
    A route goes dimension by dimension from the inside out; a `flat` or `gateways` dimension is crossed
    alone, as it reaches any device of the other group. `links` may be changed link by link (`replaced`);
    routes stay as they are.
    """

    name: str
    dimensions: tuple[Dimension, ...]
    devices: tuple[Device, ...]
    device_of: I64
    software: Software = field(default_factory=Software)
    library: Library | None = None
    """The communication library; without one, latencies and bandwidths of links decide."""
    site: Site | None = None
    """The site of the devices; without it, only their own energy is known."""
    stores: tuple[Store, ...] = ()
    """The stores of data and checkpoints, in the order of the description."""
    changed_links: Links | None = None
    is_preset: bool = False
    """Whether it comes with the package, so that `name:N` stands for N nodes."""
    assumed: tuple[str, ...] = ()
    """What its file does not say and was assumed, as sentences."""
    nodes_of_one: bool = False
    """Whether each place of its only dimension is a node; else that dimension is one node."""

    @property
    def notes(self) -> list[str]:
        """What was assumed of it, for results that rest on it."""
        return [f"assumed of {self.name}: {sentence}" for sentence in self.assumed]

    def __repr__(self) -> str:
        counts = np.bincount(self.device_of, minlength=len(self.devices)).tolist()
        kinds = [f"{n:,} × {d.name}" for n, d in zip(counts, self.devices, strict=True) if n]
        shape = " × ".join(f"{d.size} ({d.fabric.shape})" for d in self.dimensions)
        return f"Machine({self.name!r}: {listed(kinds)}; {shape})"

    @cached_property
    def size(self) -> int:
        """How many devices there are."""
        return math.prod(d.size for d in self.dimensions)

    @property
    def shape(self) -> tuple[int, ...]:
        """Places by dimension, innermost first."""
        return tuple(d.size for d in self.dimensions)

    @property
    def node_size(self) -> int:
        """Devices of one node: the innermost dimension, unless its places are nodes themselves."""
        return 1 if len(self.shape) == 1 and self.nodes_of_one else self.shape[0]

    @property
    def free_devices(self) -> I64:
        """Devices of nodes that are not storage servers."""
        server_nodes = [node for store in self.stores for node in store.at]
        devices = np.arange(self.size)
        return devices[~np.isin(devices // self.node_size, server_nodes)]

    def device(self, rank: int) -> Device:
        """The device a rank runs on."""
        return self.devices[int(self.device_of[rank])]

    @cached_property
    def _inner(self) -> list[int]:
        """Devices within one place of each dimension."""
        return [math.prod(self.shape[:k]) for k in range(len(self.shape))]

    def address(self, devices: I64, k: int) -> I64:
        """The place of each device in dimension k."""
        return devices // self._inner[k] % self.shape[k]

    def instance(self, devices: I64, k: int) -> I64:
        """The copy of dimension k's fabric on which each device has its port."""
        outer = devices // (self._inner[k] * self.shape[k])
        if self.dimensions[k].joins != "rails":
            return outer
        return outer * self._inner[k] + devices % self._inner[k]

    def instances(self, k: int) -> int:
        """How many copies of dimension k's fabric there are."""
        outer = self.size // (self._inner[k] * self.shape[k])
        return outer * (self._inner[k] if self.dimensions[k].joins == "rails" else 1)

    # --- the graph ----------------------------------------------------------------------------

    @cached_property
    def first_link(self) -> list[int]:
        """The number of the first link of each dimension, and last the number of links of all."""
        counts = [
            self.instances(k) * len(d.fabric.links) + self._attached(k) * 2
            for k, d in enumerate(self.dimensions)
        ]
        return [sum(counts[:k]) for k in range(len(counts) + 1)]

    def _attached(self, k: int) -> int:
        return self.size if self.dimensions[k].joins == "gateways" else 0

    @cached_property
    def _first_vertex(self) -> list[int]:
        counts = [self.instances(k) * self._own_vertices(k) for k in range(len(self.dimensions))]
        return [self.size + sum(counts[:k]) for k in range(len(counts) + 1)]

    def _own_vertices(self, k: int) -> int:
        """Vertices of one copy of a fabric that are not devices."""
        fabric = self.dimensions[k].fabric
        return fabric.vertices - (0 if self.dimensions[k].joins == "gateways" else fabric.ports)

    @property
    def vertices(self) -> int:
        """Devices, gateways and switches."""
        return self._first_vertex[-1]

    @property
    def link_count(self) -> int:
        """The number of links, computed without building them."""
        return self.first_link[-1]

    @cached_property
    def links(self) -> Links:
        """All directed links."""
        if self.changed_links is not None:
            return self.changed_links
        parts = [self._links_of(k) for k in range(len(self.dimensions))]
        return Links.concat([*parts, *self._store_links])

    @property
    def _nodes(self) -> int:
        return self.size // self.node_size

    @cached_property
    def _store_links(self) -> list[Links]:
        """The links of each store's servers, which come after those of the network."""
        first = self.vertices + self._first_servers
        return [
            store.links(self._nodes, self.node_size, int(at))
            for store, at in zip(self.stores, first, strict=True)
        ]

    @cached_property
    def _first_servers(self) -> I64:
        counts = [len(store.homes(self._nodes)) for store in self.stores]
        return np.cumsum([0, *counts])[: len(counts)].astype(np.int64)

    def servers(self, store: int, devices: I64) -> I64:
        """The server that each device uses, numbered through all stores."""
        within = self.stores[store].server(devices // self.node_size, self._nodes)
        return within + int(self._first_servers[store])

    def store_of_servers(self) -> list[tuple[Store, int]]:
        """Each server's store and its number there."""
        return [(s, i) for s in self.stores for i in range(len(s.homes(self._nodes)))]

    def _links_of(self, k: int) -> Links:
        fabric, copies = self.dimensions[k].fabric, self.instances(k)
        copy = np.repeat(np.arange(copies), len(fabric.links))
        copied = Links(
            self._vertex(k, copy, np.tile(fabric.links.src, copies)),
            self._vertex(k, copy, np.tile(fabric.links.dst, copies)),
            np.tile(fabric.links.bandwidth, copies),
            np.tile(fabric.links.latency, copies),
        )
        if not self._attached(k):
            return copied
        all_devices = np.arange(self.size)
        gateway = self._vertex(k, self.instance(all_devices, k), self.address(all_devices, k))
        width = np.full(self.size, fabric.links.bandwidth.max(initial=1.0))
        none = np.zeros(self.size)
        up = Links(all_devices, gateway, width, none)
        return Links.concat([copied, up, Links(gateway, all_devices, width, none)])

    def _vertex(self, k: int, instance: I64, local: I64) -> I64:
        """The machine's number for a vertex of a copy of dimension k's fabric."""
        dimension, fabric = self.dimensions[k], self.dimensions[k].fabric
        if dimension.joins == "gateways":
            return self._first_vertex[k] + instance * fabric.vertices + local
        switch = self._first_vertex[k] + instance * self._own_vertices(k) + local - fabric.ports
        span = self._inner[k] * self.shape[k]
        if dimension.joins == "flat":
            device = instance * span + local
        else:
            outer, inside = instance // self._inner[k], instance % self._inner[k]
            device = outer * span + local * self._inner[k] + inside
        return np.where(local < fabric.ports, device, switch)

    @property
    def device_names(self) -> tuple[str, ...]:
        """What the machine's file calls its devices, where it is a `graph`; else nothing."""
        if len(self.dimensions) > 1:
            return ()
        names: tuple[str, ...] = getattr(self.dimensions[0].fabric, "names", ())
        return names[: self.size]

    def vertex_names(self) -> list[str]:
        """A name for every vertex: `device 3`, `switch 0.2` (dimension and number)."""
        names = [f"device {i}" for i in range(self.size)]
        for k in range(len(self.dimensions)):
            count = self.instances(k) * self._own_vertices(k)
            switch_names = getattr(self.dimensions[k].fabric, "names", ())[
                self.dimensions[k].fabric.ports :
            ]
            names += (
                switch_names
                if count == len(switch_names)
                else [f"switch {k}.{i}" for i in range(count)]
            )
        return names + [f"{store.name} {i}" for store, i in self.store_of_servers()]

    def schedules(self) -> list[tuple[range, Schedule]]:
        """The links whose bandwidth changes over time, with how."""
        found = [
            (range(self.first_link[k], self.first_link[k + 1]), d.schedule)
            for k, d in enumerate(self.dimensions)
        ]
        found += [(self.store_links(i), s.schedule) for i, s in enumerate(self.stores)]
        return [(links, schedule) for links, schedule in found if schedule]

    def store_links(self, number: int) -> range:
        """The links of all servers of a store."""
        first = self.link_count + 2 * int(self._first_servers[number])
        return range(first, first + 2 * len(self.stores[number].homes(self._nodes)))

    # --- routes -------------------------------------------------------------------------------

    def routes(self, src: I64, dst: I64) -> Routes:
        """The links from device src[i] to device dst[i]; none where they are the same."""
        ends = np.ascontiguousarray(src, np.int64), np.ascontiguousarray(dst, np.int64)
        try:
            return Routes(*self.ways.routes(*ends))
        except ValueError as error:
            raise ConfigError(str(error)) from None

    @cached_property
    def ways(self) -> core.SimWays:
        """The links between any two devices, as the core finds them."""
        levels = [
            (
                d.fabric.ways(),
                d.size,
                self._inner[k],
                get_args(Joins).index(d.joins),
                self.first_link[k],
                len(d.fabric.links),
                self.first_link[k] + self.instances(k) * len(d.fabric.links),
            )
            for k, d in enumerate(self.dimensions)
        ]
        return core.SimWays(levels, self.size)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what the core holds, which other processes find anew."""
        return {name: value for name, value in self.__dict__.items() if name != "ways"}

    def store_routes(self, store: I64, devices: I64, writes: I64) -> Routes:
        """The links from each device to its server of store[i] where writes[i] is 1, else back from it."""
        parts = RouteParts(len(devices))
        first = self.link_count + 2 * self._first_servers
        for number, tier in enumerate(self.stores):
            mine = np.flatnonzero(store == number)
            to, users = writes[mine] == 1, devices[mine]
            server = tier.server(users // self.node_size, self._nodes)
            link = first[number] + 2 * server + np.where(to, 0, 1)
            port = users
            if tier.kind != "local":
                port = tier.homes(self._nodes)[server] * self.node_size + users % self.node_size
            parts.add(mine[~to], link[~to])
            parts.add_routes(
                mine, self.routes(np.where(to, users, port), np.where(to, port, users))
            )
            parts.add(mine[to], link[to])
        return parts.build()

    @cached_property
    def messages_cost(self) -> bool:
        """Whether anything is known of what a message costs at a port."""
        return any(d.messages is not None for d in self.dimensions)

    def outermost_dimension(self, src: I64, dst: I64) -> I64:
        """The dimension whose port each message leaves by; -1 for one that stays on its device."""
        out = np.full(len(src), -1, np.int64)
        for k in range(len(self.dimensions)):
            out[self.address(src, k) != self.address(dst, k)] = k
        return out

    def reduction_links(self, devices: I64) -> tuple[I64, I64] | None:
        """Links to and from the one switch that can reduce for these devices; None without such a switch."""
        for k, dimension in enumerate(self.dimensions):
            same = len(np.unique(self.instance(devices, k))) == 1
            if not (dimension.reduction and same and dimension.fabric.shape == "switch"):
                continue
            ports = self.address(devices, k)
            if dimension.joins == "flat":
                ports = devices % (self._inner[k] * self.shape[k])
            elif dimension.joins == "gateways" or len(np.unique(ports)) < len(ports):
                continue
            base = self.first_link[k] + self.instance(devices, k) * len(dimension.fabric.links)
            return base + ports, base + dimension.fabric.ports + ports
        return None

    def check_ranks(self, ranks: int) -> None:
        """Raises an error unless the machine has a device for every rank."""
        if ranks > self.size:
            raise ConfigError(
                f"{self.name} has {self.size:,} devices and the workload {ranks:,} ranks; "
                f"{self._cure(ranks)}"
            )

    def _cure(self, ranks: int) -> str:
        """Advice on how to get that many devices, for the error."""
        outermost = self.dimensions[-1].size
        nodes = -(-ranks * outermost // self.size)
        name, _, _ = self.name.partition(":")
        if self.is_preset:
            return f"ask for more nodes, as in {name}:{nodes}"
        return f"give its outermost dimension {nodes} places instead of {outermost}"


# --- how a group lies on a machine, as its communication library sees it ------------------------


def span_of(machine: Machine, devices: I64) -> Span:
    """The span of one group of devices; a node is one copy of the innermost fabric."""
    devices = np.asarray(devices, np.int64)
    node = machine.instance(devices, 0) if len(machine.dimensions) > 1 else np.zeros(len(devices))
    nodes, where, local = np.unique(node, return_inverse=True, return_counts=True)
    link, near = _inside(machine, devices, where)
    port, leaving, far = _outside(machine, devices, where) if len(nodes) > 1 else (0.0, 0.0, 0.0)
    if not np.isfinite(link):
        link = port
    fabric = machine.dimensions[0]
    return Span(
        members=len(devices),
        nodes=len(nodes),
        local=int(local.max()),
        link=link,
        leaving=leaving,
        reduces=fabric.reduction and int(local.min()) == int(local.max()),
        port=port,
        farther=farther(machine, far, away=True) if far else 0.0,
        farther_inside=farther(machine, near, away=False) if near else 0.0,
    )


_SAME_WAY = 1e-12
"""Seconds by which sums of latencies differ because they are rounded."""


def farther(machine: Machine, way: float, *, away: bool) -> float:
    """Seconds by which a way, to another node or not, is longer than what the library's constants are of."""
    library = machine.library
    known = None if library is None else library.network.latency_us if away else library.latency_us
    if known is None:
        return 0.0
    longer = way - known * 1e-6
    return longer if abs(longer) > _SAME_WAY else 0.0


def _inside(machine: Machine, devices: I64, node: I64) -> tuple[float, float]:
    """Bytes/s of the narrowest route between neighbours in a node, and the longest latency in seconds.

    With one device per node the first is infinite and the second 0.
    """
    order = np.argsort(node, kind="stable")
    same = node[order][1:] == node[order][:-1]
    src, dst = devices[order][:-1][same], devices[order][1:][same]
    routes = machine.routes(np.r_[src, dst], np.r_[dst, src])
    narrowest = routes.bandwidth(machine.links).min(initial=np.inf)
    return float(narrowest), float(routes.latency(machine.links).max(initial=0.0))


def _outside(machine: Machine, devices: I64, node: I64) -> tuple[float, float, float]:
    """Bytes/s of one device to all other nodes, and of a node's devices together to the next node.

    In both cases every device sends at the same time. The third is the longest latency of these ways, in
    seconds.
    """
    nodes = int(node.max()) + 1
    routes = machine.routes(*_shifted(devices, node, 1))
    load = np.bincount(routes.links, minlength=len(machine.links))
    share = machine.links.bandwidth / np.maximum(load, 1)
    each = np.minimum.reduceat(share[routes.links], routes.offsets[:-1])
    together = float(np.bincount(np.sort(node), each).min())
    shifts = np.unique(np.linspace(1, nodes - 1, min(nodes - 1, _SHIFTS)).round().astype(np.int64))
    ends = [_shifted(devices, node, shift) for shift in shifts.tolist()]
    routes = machine.routes(*(np.concatenate(side) for side in zip(*ends, strict=True)))
    load = np.bincount(routes.links, minlength=len(machine.links))
    busiest = float((load / machine.links.bandwidth).max())
    return len(shifts) / busiest, together, float(routes.latency(machine.links).max())


_SHIFTS = 32
"""Of a group on more nodes, each device's ways to so many of them stand for those to all."""


def _shifted(devices: I64, node: I64, shift: int) -> tuple[I64, I64]:
    """Every device, node by node, and the one in its place so many nodes further on."""
    order = np.argsort(node, kind="stable")
    count = np.bincount(node)
    first = np.r_[0, np.cumsum(count)[:-1]]
    place = np.arange(len(devices)) - first[node[order]]
    target = (node[order] + shift) % len(count)
    return devices[order], devices[order][first[target] + place % count[target]]
