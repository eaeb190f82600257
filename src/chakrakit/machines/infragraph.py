"""Reads InfraGraph files as machines: the infrastructure's graph, link by link.

A device is a subgraph of components; `choice: device` nests another. Endpoints are `name` or
`name[a:b]` slices of instances and components. Accelerators (`xpu`) are the ranks, in the order of
expansion; everything else forwards. Bandwidth and latency come from each link's `physical` part. Where
that has no bandwidth, the link's name and description say which kind it is (`assumed.py`), and the
machine lists what was assumed.

A file may also be a single device, as the package's blueprints of servers are.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.machines.assumed import GB, Rate, assumed_rate
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

_FASTEST = 1e18
"""Bytes per second that no link reaches; a larger number is taken for damage."""
_WHOLE = "whole"
"""The one component of a device that is not described."""
_SLICE = re.compile(
    r"(?P<name>[^\[\]]+)(\[(?P<a>[0-9]{0,9})(?P<colon>:)?(?P<b>[0-9]{0,9})(:(?P<step>[1-9][0-9]{0,8}))?\])?$"
)


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
    description: str = ""
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
    links, assumed = expansion.rated()
    graph = GraphText(devices=expansion.ranks, links=links)
    machine = build_machine(MachineText(name=infrastructure.name, graph=graph), where)
    return replace(machine, assumed=tuple(assumed))


class _Expansion:
    """Names every component (`server.0.xpu.3`) and lists every link between two of them."""

    def __init__(self, infrastructure: _Infrastructure, where: str) -> None:
        self.where = where
        self.devices = {d.name: d for d in infrastructure.devices}
        self.notes: dict[str, None] = {}
        """What was left out, or taken differently than it stands in the file."""
        self._add_missing(infrastructure)
        self.ranks: list[str] = []
        self.links: list[_Wire] = []
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

    def _add_missing(self, infrastructure: _Infrastructure) -> None:
        """Adds devices that others contain and the file does not describe, as one component each."""
        for device in infrastructure.devices:
            for part in device.components:
                if part.choice == "device" and part.name not in self.devices:
                    self.devices[part.name] = _Device(part.name, [_Component(_WHOLE)])
                    self.notes[f"device {part.name!r} is not described: it only forwards"] = None

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
        if name not in owner:
            return []
        device = self._device(owner[name])
        inner = _End(end.component, None, end.device)
        return [c for i in span for c in self._inside(device, f"{name}.{i}", inner)]

    def _inside(self, device: _Device, path: str, end: _End) -> list[str]:
        counts = {c.name: c.count for c in device.components}
        if end.device:
            name, span = self._slice(end.device, counts)
            nested = self._device(name) if span else _Device(name, [])
            return [
                c
                for i in span
                for c in self._inside(nested, f"{path}.{name}.{i}", _End(end.component))
            ]
        if list(counts) == [_WHOLE]:
            return [f"{path}.{_WHOLE}.0"]
        name, span = self._slice(end.component, counts)
        return [f"{path}.{name}.{i}" for i in span]

    def _slice(self, text: str, counts: dict[str, int]) -> tuple[str, range]:
        match = _SLICE.match(text)
        if match is None:
            raise ConfigError(f"{self.where}: endpoint {text!r} names none of {', '.join(counts)}")
        if match["name"] not in counts:
            known = ", ".join(counts)
            self.notes[f"edges to {text!r} are left out: there are {known}"] = None
            return match["name"], range(0)
        count = counts[match["name"]]
        first = int(match["a"] or 0)
        last = int(match["b"] or count) if match["colon"] or not match["a"] else first + 1
        if not 0 <= first < last <= count:
            raise ConfigError(f"{self.where}: {text!r} reaches beyond the {count} there are")
        return match["name"], range(first, last, int(match["step"] or 1))

    def _join(self, edge: _Edge, a: list[str], b: list[str], wires: dict[str, _Link]) -> None:
        if edge.link not in wires:
            raise ConfigError(f"{self.where}: no link {edge.link!r}; there are {', '.join(wires)}")
        joined = len(a) * len(b) if edge.scheme == "many2many" else len(a) + len(b)
        check_links(len(self.links) + joined, "network", self.where, MAX_NAMED_LINKS)
        for x, y in self._pairs(edge, a, b):
            self.links.append(_Wire(wires[edge.link], x, y))

    def rated(self) -> tuple[list[LinkText], list[str]]:
        """The links with their bandwidths, and sentences on those that had to be assumed."""
        rates = {id(w.link): _stated(w.link, self.where) for w in self.links}
        unknown = {id(w.link): w.link for w in self.links if not rates[id(w.link)]}
        shares = self._shares(unknown)
        assumed, kinds = list[str](), {key: _kind(link) for key, link in unknown.items()}
        for key, link in unknown.items():
            rates[key] = kinds[key].bandwidth / shares[key]
            assumed.append(
                f"link {link.name!r}: {rates[key] / GB:g} GB/s, {kinds[key].source}; the file has none"
            )
        inside = max(rates.values(), default=0.0)
        for key, link in unknown.items():
            if _is_inside_switch(link):
                rates[key] = inside
        links = [
            LinkText(ends=(w.a, w.b), bandwidth=rates[id(w.link)], latency=_latency(w.link))
            for w in self.links
        ]
        return links, list(dict.fromkeys([*assumed, *self.notes]))

    def _shares(self, unknown: dict[int, _Link]) -> dict[int, int]:
        """Over how many links of a device the rate of its kind is spread."""
        ranks, at_rank = set(self.ranks), Counter[tuple[int, str]]()
        for wire in self.links:
            for end in (wire.a, wire.b):
                if id(wire.link) in unknown and end in ranks:
                    at_rank[id(wire.link), end] += 1
        most = dict.fromkeys(unknown, 1)
        for (key, _), count in at_rank.items():
            most[key] = max(most[key], count if _kind(unknown[key]).per_device else 1)
        return most

    def _pairs(self, edge: _Edge, a: list[str], b: list[str]) -> list[tuple[str, str]]:
        if edge.scheme == "many2many":
            pairs = {tuple(sorted((x, y))): (x, y) for x in a for y in b if x != y}
            return list(pairs.values())
        if edge.scheme == "ring":
            ring = list(dict.fromkeys([*a, *b]))
            cables = len(ring) if len(ring) > 2 else len(ring) - 1
            return [(ring[i], ring[(i + 1) % len(ring)]) for i in range(cables)]
        if len(a) != len(b) and a and b:
            self.notes[
                f"one2one between {len(a)} and {len(b)} endpoints: the first {min(len(a), len(b))} are joined"
            ] = None
        return list(zip(a, b, strict=False))


def _counted(part: _Component | _Instance, where: str) -> int:
    if part.count < 0:
        raise ConfigError(f"{where}: {part.name!r} has a count of {part.count}; give 0 or more")
    return part.count


class _Wire(NamedTuple):
    """A cable of a kind of link, and its two ends."""

    link: _Link
    a: str
    b: str


def _stated(link: _Link, where: str) -> float:
    """Bytes per second that a link's `physical` part says; 0 where it says none."""
    width = link.physical.bandwidth or _Bandwidth()
    # A transfer of a serial lane is a bit.
    rates = (
        (width.gigabytes_per_second, GB),
        (width.gigabits_per_second, GB / 8),
        (width.gigatransfers_per_second, GB / 8),
    )
    for rate, unit in rates:
        if rate is not None:
            if not 0 < rate * unit < _FASTEST:
                raise ConfigError(
                    f"{where}: link {link.name!r} has a bandwidth of {rate:g}; give more than 0"
                )
            return rate * unit
    return 0.0


def _kind(link: _Link) -> Rate:
    return assumed_rate(f"{link.name} {link.description}")


def _is_inside_switch(link: _Link) -> bool:
    """Whether this is the inside of a switch, which does not hold back what its ports carry."""
    return "circuit" in link.description.lower() or link.name == "ic"


def _latency(link: _Link) -> float:
    late = link.physical.latency or _Latency()
    return late.ms * 1e-3 + late.us * 1e-6 + late.ns * 1e-9
