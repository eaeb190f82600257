"""Reads InfraGraph files as machines: the infrastructure's graph, link by link.

A device is a subgraph of components; `choice: device` nests another. Endpoints are `name` or
`name[a:b]` slices of instances and components. Accelerators (`xpu`) are the ranks, in the order of
expansion; everything else forwards. Bandwidth and latency come from each link's `physical` part.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.machines.description import (
    MAX_NAMED_LINKS,
    GraphText,
    LinkText,
    MachineText,
    build_machine,
    check_devices,
    check_links,
)
from chakrakit.machines.fabric import Machine

_SLICE = re.compile(r"(?P<name>[^\[\]]+)(\[(?P<a>[0-9]{0,9})(?P<colon>:)?(?P<b>[0-9]{0,9})\])?$")


class _Component(msgspec.Struct):
    name: str
    count: int = 1
    choice: str = "custom"


class _End(msgspec.Struct):
    component: str
    instance: str | None = None
    device: str | None = None


class _Edge(msgspec.Struct):
    ep1: _End
    ep2: _End
    link: str
    scheme: Literal["one2one", "many2many", "ring"] = "one2one"


class _Bandwidth(msgspec.Struct):
    choice: str = ""
    gigabits_per_second: float | None = None
    gigabytes_per_second: float | None = None
    gigatransfers_per_second: float | None = None


class _Latency(msgspec.Struct):
    choice: str = ""
    ms: float = 0
    us: float = 0
    ns: float = 0


class _Physical(msgspec.Struct):
    bandwidth: _Bandwidth | None = None
    latency: _Latency | None = None


class _Link(msgspec.Struct):
    name: str
    physical: _Physical = msgspec.field(default_factory=_Physical)


class _Device(msgspec.Struct):
    name: str
    components: list[_Component]
    links: list[_Link] = []
    edges: list[_Edge] = []


class _Instance(msgspec.Struct):
    name: str
    device: str
    count: int = 1


class _Infrastructure(msgspec.Struct):
    name: str = "infragraph"
    devices: list[_Device] = []
    links: list[_Link] = []
    instances: list[_Instance] = []
    edges: list[_Edge] = []


def parse_infragraph(content: dict[str, Any], where: str) -> Machine:
    """The machine of an InfraGraph file, with one rank per `xpu`."""
    try:
        infrastructure = msgspec.convert(content, _Infrastructure)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from None
    expansion = _Expansion(infrastructure, where)
    if not expansion.ranks:
        raise ConfigError(f"{where}: no component with `choice: xpu`, so nothing to run ranks on")
    graph = GraphText(devices=expansion.ranks, links=expansion.links)
    return build_machine(MachineText(name=infrastructure.name, graph=graph), where)


class _Expansion:
    """Names every component (`server.0.xpu.3`) and lists every link between two of them."""

    def __init__(self, infrastructure: _Infrastructure, where: str) -> None:
        self.where = where
        self.devices = {d.name: d for d in infrastructure.devices}
        self.ranks: list[str] = []
        self.links: list[LinkText] = []
        check_devices([self._parts(infrastructure)], where, "components")
        for instance in infrastructure.instances:
            for i in range(instance.count):
                self._expand(self._device(instance.device), f"{instance.name}.{i}")
        counts = {i.name: i.count for i in infrastructure.instances}
        owner = {i.name: i.device for i in infrastructure.instances}
        wires = {w.name: w for w in infrastructure.links}
        for edge in infrastructure.edges:
            ends = [self._outer(e, counts, owner) for e in (edge.ep1, edge.ep2)]
            self._join(edge, ends[0], ends[1], wires)

    def _parts(self, infrastructure: _Infrastructure) -> int:
        """The number of components, nested ones included."""
        parts_of: dict[str, int] = {}

        def inside(name: str, depth: int) -> int:
            device = self._device(name)
            if depth > 16:
                raise ConfigError(f"{self.where}: device {name!r} contains itself")
            if name not in parts_of:
                parts_of[name] = 1 + sum(
                    _counted(part, self.where)
                    * (inside(part.name, depth + 1) if part.choice == "device" else 1)
                    for part in device.components
                )
            return parts_of[name]

        return sum(_counted(i, self.where) * inside(i.device, 0) for i in infrastructure.instances)

    def _device(self, name: str) -> _Device:
        if name not in self.devices:
            raise ConfigError(
                f"{self.where}: no device {name!r}; there are {', '.join(self.devices)}"
            )
        return self.devices[name]

    def _expand(self, device: _Device, path: str) -> None:
        for part in device.components:
            for i in range(part.count):
                if part.choice == "device":
                    self._expand(self._device(part.name), f"{path}.{part.name}.{i}")
                elif part.choice == "xpu":
                    self.ranks.append(f"{path}.{part.name}.{i}")
        wires = {w.name: w for w in device.links}
        for edge in device.edges:
            ends = [self._inside(device, path, e) for e in (edge.ep1, edge.ep2)]
            self._join(edge, ends[0], ends[1], wires)

    def _outer(self, end: _End, counts: dict[str, int], owner: dict[str, str]) -> list[str]:
        name, span = self._slice(end.instance or "", counts)
        device = self._device(owner[name])
        inner = _End(end.component, None, end.device)
        return [c for i in span for c in self._inside(device, f"{name}.{i}", inner)]

    def _inside(self, device: _Device, path: str, end: _End) -> list[str]:
        counts = {c.name: c.count for c in device.components}
        if end.device:
            name, span = self._slice(end.device, counts)
            nested = self._device(name)
            return [
                c
                for i in span
                for c in self._inside(nested, f"{path}.{name}.{i}", _End(end.component))
            ]
        name, span = self._slice(end.component, counts)
        return [f"{path}.{name}.{i}" for i in span]

    def _slice(self, text: str, counts: dict[str, int]) -> tuple[str, range]:
        match = _SLICE.match(text)
        if match is None or match["name"] not in counts:
            raise ConfigError(f"{self.where}: endpoint {text!r} names none of {', '.join(counts)}")
        count = counts[match["name"]]
        first = int(match["a"] or 0)
        last = int(match["b"] or count) if match["colon"] or not match["a"] else first + 1
        if not 0 <= first < last <= count:
            raise ConfigError(f"{self.where}: {text!r} reaches beyond the {count} there are")
        return match["name"], range(first, last)

    def _join(self, edge: _Edge, a: list[str], b: list[str], wires: dict[str, _Link]) -> None:
        if edge.link not in wires:
            raise ConfigError(f"{self.where}: no link {edge.link!r}; there are {', '.join(wires)}")
        joined = len(a) * len(b) if edge.scheme == "many2many" else len(a) + len(b)
        check_links(len(self.links) + joined, "network", self.where, MAX_NAMED_LINKS)
        for x, y in self._pairs(edge, a, b):
            self.links.append(_wire(wires[edge.link], x, y, self.where))

    def _pairs(self, edge: _Edge, a: list[str], b: list[str]) -> list[tuple[str, str]]:
        if edge.scheme == "many2many":
            pairs = {tuple(sorted((x, y))): (x, y) for x in a for y in b if x != y}
            return list(pairs.values())
        if edge.scheme == "ring":
            ring = list(dict.fromkeys([*a, *b]))
            cables = len(ring) if len(ring) > 2 else len(ring) - 1
            return [(ring[i], ring[(i + 1) % len(ring)]) for i in range(cables)]
        if len(a) != len(b):
            raise ConfigError(f"{self.where}: one2one between {len(a)} and {len(b)} endpoints")
        return list(zip(a, b, strict=True))


def _counted(part: _Component | _Instance, where: str) -> int:
    if part.count < 0:
        raise ConfigError(f"{where}: {part.name!r} has a count of {part.count}; give 0 or more")
    return part.count


def _wire(link: _Link, a: str, b: str, where: str) -> LinkText:
    width = link.physical.bandwidth
    rate = 0.0
    if width is not None:
        # A transfer of a serial lane is a bit.
        bits = width.gigabits_per_second or width.gigatransfers_per_second or 0
        rate = width.gigabytes_per_second * 1e9 if width.gigabytes_per_second else bits * 1e9 / 8
    if rate <= 0:
        raise ConfigError(f"{where}: link {link.name!r} has no bandwidth; add physical.bandwidth")
    late = link.physical.latency or _Latency()
    return LinkText(
        ends=(a, b), bandwidth=rate, latency=late.ms * 1e-3 + late.us * 1e-6 + late.ns * 1e-9
    )
