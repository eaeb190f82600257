"""Descriptions of machines in YAML or JSON: their structs, limits, and how a Machine is built from them.

Every error names the place in the description.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from chakrakit.configuration import Document, plain, read_document, with_choices
from chakrakit.errors import ConfigError
from chakrakit.machines.derived import with_base
from chakrakit.machines.device import Device, DeviceText, Quantity, parse, positive, read_device
from chakrakit.machines.fabric import (
    GROUP_COSTS,
    AnyGraph,
    Dimension,
    Dragonfly,
    Fabric,
    Full,
    GroupCost,
    Joins,
    Links,
    Machine,
    MessageCost,
    Ring,
    Site,
    Software,
    Store,
    StoreKind,
    Tree,
    WhenFull,
    check_site,
    lone_port,
    uplinks_of,
)
from chakrakit.machines.library import Library
from chakrakit.machines.schedule import ChangeOverTime, read_schedule

# --- limits, checked from the description before anything is built ------------------------------


MAX_DEVICES = 1 << 20
"""Ten times the largest clusters of today; several arrays hold one entry for every device."""
MAX_LINKS = 1 << 23
"""Directed links of one fabric: at 32 bytes each they take 256 MiB."""
MAX_NAMED_LINKS = 1 << 20
"""Links of a graph that lists them one by one; the names of their ends take more memory than the links."""
MAX_MACHINE_LINKS = 10_000_000
"""Links of all copies of all fabrics: 320 MB, and routes look into arrays of that length."""
MAX_LEVELS = 32
"""Dimensions; twenty of two places each already reach the limit of devices."""


def check_devices(sizes: Sequence[int], where: str, unit: str = "devices") -> None:
    """Raises an error where dimensions of these sizes have more devices than the limit."""
    if len(sizes) > MAX_LEVELS:
        raise ConfigError(f"{where}: {len(sizes):,} dimensions; {MAX_LEVELS} is the most")
    devices = math.prod(sizes)
    if devices > MAX_DEVICES:
        raise ConfigError(f"{where}: {_short(devices)} {unit}; {MAX_DEVICES:,} is the most")


def check_links(count: int, owner: str, where: str, most: int = MAX_LINKS) -> None:
    """Raises an error for more than `most` links; `owner` is what has them."""
    if count > most:
        raise ConfigError(
            f"{where}: a {owner} has {_short(count)} links, which is too large; {most:,} is the most"
        )


def tree_links(arity: Sequence[int], oversubscription: float, uplinks: Sequence[int]) -> int:
    """The number of directed links of a fat tree, from the children and the uplinks of each level."""
    ways = list(uplinks) or uplinks_of(arity, oversubscription)
    ports = math.prod(arity)
    total = ports
    for level, way in enumerate(ways[: len(arity) - 1]):
        total += ports // math.prod(arity[: level + 1]) * math.prod(ways[:level]) * way
    return 2 * total


def dragonfly_links(groups: int, routers: int, hosts: int) -> int:
    """The number of directed links of a dragonfly."""
    return 2 * groups * routers * hosts + groups * routers * (routers - 1) + groups * (groups - 1)


def _short(number: int) -> str:
    """A number for an error message; very large ones as a power of ten."""
    return f"{number:,}" if number < 10**15 else f"about 10^{len(str(number)) - 1}"


# --- storage ------------------------------------------------------------------------------------


_MOST_OVERSUBSCRIBED = 1000
"""Links down for one up; published trees have 1 to 32, and the inverse gives each switch more ways up."""
_MOST = 1 << 30
"""Operations in flight or in a queue; the core counts them in 32 bits."""


class StoreText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One entry of `storage`: a store as the file describes it."""

    kind: StoreKind
    bandwidth: Quantity
    """Of each server, for writing, and for reading unless `read_bandwidth` is set."""
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
    """The nodes that are the servers of a remote store."""
    distance: int = 1
    """How many nodes away the memory of a peer store is."""
    page: Quantity = 0
    """Bytes that are read or written at least, and in whole multiples, of every piece of an operation."""
    schedule: list[ChangeOverTime] = []
    """How its bandwidth changes over time."""


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
        raise ConfigError(f"{where}.queue: nothing waits without a limit; set `operations` too")
    bandwidth = positive(text.bandwidth, "bandwidth", f"{where}.bandwidth")
    reading = text.read_bandwidth
    return Store(
        name=name,
        kind=text.kind,
        bandwidth=bandwidth,
        read_bandwidth=bandwidth
        if reading is None
        else positive(reading, "bandwidth", f"{where}.read_bandwidth"),
        latency=parse(text.latency, "time", f"{where}.latency"),
        operations=text.operations,
        queue=text.queue,
        when_full=text.when_full,
        capacity=parse(text.capacity, "bytes", f"{where}.capacity"),
        page=int(parse(text.page, "bytes", f"{where}.page")),
        at=_servers(text, machine, where),
        distance=_distance(text, machine, where),
        schedule=read_schedule(text.schedule, f"{where}.schedule"),
    )


def _servers(text: StoreText, machine: Machine, where: str) -> tuple[int, ...]:
    nodes = machine.size // machine.node_size
    if (text.kind == "remote") != bool(text.nodes):
        raise ConfigError(f"{where}.nodes: list nodes for a remote store, and only for that kind")
    for node in text.nodes:
        if not 0 <= node < nodes or text.nodes.count(node) > 1:
            raise ConfigError(
                f"{where}.nodes: {node} is listed twice or is not in 0 … {nodes - 1:,}"
            )
    if len(text.nodes) == nodes:
        raise ConfigError(f"{where}.nodes: all {nodes} nodes are servers; leave some to the ranks")
    return tuple(text.nodes)


def _distance(text: StoreText, machine: Machine, where: str) -> int:
    nodes = machine.size // machine.node_size
    if text.kind == "peer" and not 1 <= math.fabs(text.distance) < nodes:
        raise ConfigError(
            f"{where}.distance: {text.distance} nodes away is not another of the {nodes} nodes"
        )
    return text.distance


# --- the structs of a machine's file ------------------------------------------------------------


_DEEPEST_QUEUE = 1 << 30
"""Kernels that a stream may queue; the core counts them in 32 bits."""


class DimensionText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One level of a network."""

    topology: Literal["ring", "line", "mesh", "torus", "full", "switch", "fat-tree", "dragonfly"]
    size: int = 0
    """The number of places; follows from `dims` or `arity` where the topology has them."""
    bandwidth: Quantity
    """Of each link, per direction."""
    latency: Quantity = 0
    """Of each link."""
    joins: Joins = "rails"
    dims: list[int] = []
    """Sizes of a mesh or torus, or a dragonfly's groups, routers per group and hosts per router."""
    arity: list[int] = []
    """Children per switch of a fat tree, by level from the devices up."""
    oversubscription: float = 1.0
    uplinks: list[int] = []
    routing: Literal["hash", "modulo"] = "hash"
    reduction: bool = False
    messages: MessagesText | None = None
    schedule: list[ChangeOverTime] = []
    """How the bandwidth of its links changes over time."""


class MessagesText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a message costs at a port besides its bytes, see `machines.fabric.MessageCost`."""

    overhead: Quantity = 0
    gap: Quantity = 0
    size: Quantity = 0
    queue_pairs: int = 0
    queue_pair_gap: Quantity = 0


class GroupsText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What setting up a group costs, see `machines.fabric.GroupCost`."""

    create: Quantity = 0
    member: Quantity = 0
    shrink: Quantity | None = None
    reuse: Quantity = 0


class SoftwareText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The overheads that the communication library and the driver add."""

    collective_overhead: Quantity = 0
    step_overhead: Quantity = 0
    queue_depth: int = 0
    groups: GroupsText | Literal["nccl", "gloo"] | None = None


class LinkText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A link of an explicit graph; it carries data both ways unless `one_way` is set."""

    ends: tuple[str, str]
    bandwidth: Quantity
    latency: Quantity = 0
    one_way: bool = False


class GraphText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An explicit graph. Ranks are the devices in this order; all other names are switches."""

    devices: list[str]
    links: list[LinkText]
    messages: MessagesText | None = None


class ChangeText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A change to some ranks: another device, or other bandwidth and latency of their links."""

    ranks: list[int] | int | str
    """A number, several, or text like `0-7,16`."""
    device: DeviceText | str | None = None
    dimension: int | None = None
    bandwidth: Quantity | None = None
    latency: Quantity | None = None


class MachineText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The whole file. It has either `network`, dimensions from the inside out, or `graph`."""

    name: str = "machine"
    device: DeviceText | str = msgspec.field(default_factory=DeviceText)
    nodes: int | None = None
    """Size of the outermost dimension; replaces the size that it has."""
    network: list[DimensionText] = []
    graph: GraphText | None = None
    software: SoftwareText = msgspec.field(default_factory=SoftwareText)
    library: Library | None = None
    """Constants of the communication library, as `chakra calibrate` fits them."""
    storage: dict[str, StoreText] = {}
    """Stores by name: where data and checkpoints lie."""
    site: Site | None = None
    """Servers, building and electricity around the devices."""
    changes: list[ChangeText] = []
    assumed: list[str] = []
    """What nobody measured on it, as sentences; every result says them."""
    sources: dict[str, str] = {}


def parse_machine(content: Any, where: str, nodes: int | None = None) -> Machine:
    """A machine from decoded YAML or JSON, or from what Python wrote in its place."""
    try:
        text = msgspec.convert(plain(with_base(content, where)), MachineText)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {with_choices(str(error), MachineText)}") from None
    if nodes is not None:
        text = msgspec.structs.replace(text, nodes=nodes)
    return build_machine(text, where)


def build_machine(text: MachineText, where: str = "machine") -> Machine:
    """The machine of a description, with every number checked."""
    if bool(text.network) == (text.graph is not None):
        raise ConfigError(f"{where}: give either `network` (a list of dimensions) or `graph`")
    device = _device(text.device, f"{where}.device")
    dims = _graph(text.graph, where) if text.graph else _network(text, where)
    check_devices([d.size for d in dims], where)
    size = math.prod(d.size for d in dims)
    if text.site is not None:
        check_site(text.site, f"{where}.site")
    software = _software(text, where)
    places = np.zeros(size, np.int64)
    machine = Machine(
        text.name,
        dims,
        (device,),
        places,
        software,
        library=text.library,
        site=text.site,
        assumed=tuple(text.assumed),
        nodes_of_one=_nodes_of_one(text),
    )
    check_links(machine.link_count, "machine", where, MAX_MACHINE_LINKS)
    machine = replace(machine, stores=read_stores(text.storage, machine, f"{where}.storage"))
    for i, change in enumerate(text.changes):
        machine = _changed(machine, change, f"{where}.changes[{i}]")
    return machine


def _nodes_of_one(text: MachineText) -> bool:
    """Whether the places of an only dimension are nodes: it counts nodes, or stores stand on some of them.

    A graph does not say which of its devices share a node.
    """
    on_nodes = any(store.kind != "local" for store in text.storage.values())
    return text.nodes is not None or text.graph is not None or on_nodes


def _device(text: DeviceText | str, where: str) -> Device:
    if isinstance(text, DeviceText):
        return read_device(text, where)
    folder = Path(__file__).parent / "presets"
    for file in sorted(folder.glob("*.yaml")):
        described = with_base(machine_document(file).content, file.stem).get("device")
        if isinstance(described, dict) and described.get("name") == text:
            return read_device(msgspec.convert(described, DeviceText), where)
    raise ConfigError(f"{where}: no preset has a device {text!r}; describe it")


def machine_document(file: Path) -> Document:
    """The document of a machine's file in any format, before its keys are interpreted."""
    return read_document(file, "a mapping with `device` and `network`")


def _software(text: MachineText, where: str) -> Software:
    s, at = text.software, f"{where}.software"
    if not 0 <= s.queue_depth <= _DEEPEST_QUEUE:
        raise ConfigError(f"{at}.queue_depth: {s.queue_depth} is not in 0 … {_DEEPEST_QUEUE:,}")
    return Software(
        parse(s.collective_overhead, "time", f"{at}.collective_overhead"),
        parse(s.step_overhead, "time", f"{at}.step_overhead"),
        s.queue_depth,
        _groups(s.groups, f"{at}.groups"),
    )


def _groups(text: GroupsText | str | None, where: str) -> GroupCost | None:
    if not isinstance(text, GroupsText):
        return None if text is None else GROUP_COSTS[text]
    shrink = text.shrink
    return GroupCost(
        parse(text.create, "time", f"{where}.create"),
        parse(text.member, "time", f"{where}.member"),
        None if shrink is None else parse(shrink, "time", f"{where}.shrink"),
        parse(text.reuse, "time", f"{where}.reuse"),
    )


# --- dimensions ---------------------------------------------------------------------------------


def _network(text: MachineText, where: str) -> tuple[Dimension, ...]:
    dims: list[Dimension] = []
    check_devices([1] * len(text.network), f"{where}.network")
    if text.nodes is not None:
        check_devices([text.nodes], f"{where}.nodes")
        if text.nodes < 1:
            raise ConfigError(f"{where}.nodes: {text.nodes}; give 1 or more")
    for k, level in enumerate(text.network):
        at = f"{where}.network[{k}]"
        if k == len(text.network) - 1 and text.nodes is not None:
            level = _resized(level, text.nodes, at)
        dims += _dimension(level, math.prod(d.size for d in dims), at)
    return tuple(dims)


def _resized(level: DimensionText, nodes: int, where: str) -> DimensionText:
    """The outermost dimension with another number of places."""
    if level.topology == "fat-tree" and len(level.arity) > 1:
        inner = math.prod(level.arity[:-1])
        arity = [*level.arity[:-1], -(-nodes // inner)] if nodes > inner else [nodes]
        if math.prod(arity) != nodes:
            raise ConfigError(
                f"{where}: {nodes} nodes do not fill leaves of {inner}; use a multiple"
            )
        return msgspec.structs.replace(level, arity=arity, size=nodes)
    if level.dims and level.topology in ("torus", "mesh"):
        return msgspec.structs.replace(level, dims=_near_cube(nodes, len(level.dims)), size=0)
    return msgspec.structs.replace(level, size=nodes)


def _near_cube(n: int, axes: int) -> list[int]:
    """The factors of n for `axes` axes, as equal as its divisors allow and in ascending order."""
    if axes == 1:
        return [n]
    low = max(d for d in range(1, max(1, round(n ** (1 / axes))) + 1) if n % d == 0)
    return sorted([low, *_near_cube(n // low, axes - 1)])


def _dimension(level: DimensionText, inside: int, where: str) -> list[Dimension]:
    bandwidth = positive(level.bandwidth, "bandwidth", f"{where}.bandwidth")
    latency = parse(level.latency, "time", f"{where}.latency")
    if not 1 / _MOST_OVERSUBSCRIBED <= level.oversubscription <= _MOST_OVERSUBSCRIBED:
        raise ConfigError(
            f"{where}.oversubscription: {level.oversubscription} is not in "
            f"{1 / _MOST_OVERSUBSCRIBED:g} … {_MOST_OVERSUBSCRIBED:,}"
        )
    for name in ("dims", "arity", "uplinks"):
        if any(n < 1 for n in getattr(level, name)):
            raise ConfigError(f"{where}.{name}: {getattr(level, name)} has a number below 1")
    if level.topology in ("torus", "mesh"):
        check_devices([inside, *level.dims], f"{where}.dims")
        axes = [_axis(level, n, bandwidth, latency) for n in _sizes(level, where)]
        return [_with_ports(axis, level, where) for axis in axes]
    size = _size(level, where)
    check_devices([inside, size], where)
    ports = size * (inside if level.joins == "flat" else 1)
    check_links(_links(level, ports), f"{level.topology} of {ports:,} ports", where)
    fabric = _fabric(level, ports, bandwidth, latency, where) if ports > 1 else lone_port()
    dimension = Dimension(size, fabric, level.joins, level.reduction)
    return [_with_ports(dimension, level, where)]


def _with_ports(dimension: Dimension, level: DimensionText, where: str) -> Dimension:
    """With what its messages cost and how its bandwidth changes."""
    return replace(
        dimension,
        messages=_messages(level.messages, where),
        schedule=read_schedule(level.schedule, f"{where}.schedule"),
    )


def _messages(text: MessagesText | None, where: str) -> MessageCost | None:
    if text is None:
        return None
    at = f"{where}.messages"
    if text.queue_pairs < 0:
        raise ConfigError(f"{at}.queue_pairs: {text.queue_pairs} is below 0; give 0 for no limit")
    if bool(text.queue_pairs) != bool(text.queue_pair_gap):
        raise ConfigError(f"{at}: give queue_pairs and queue_pair_gap together, or neither")
    if 0 < (size := parse(text.size, "bytes", f"{at}.size")) < 1:
        raise ConfigError(f"{at}.size: {text.size} is less than a byte; give 0 for no limit")
    return MessageCost(
        parse(text.overhead, "time", f"{at}.overhead"),
        parse(text.gap, "time", f"{at}.gap"),
        size,
        text.queue_pairs,
        parse(text.queue_pair_gap, "time", f"{at}.queue_pair_gap"),
    )


def _links(level: DimensionText, ports: int) -> int:
    """The number of links of a fabric; 0 for topologies with only a few links per port."""
    if level.topology == "full":
        return ports * (ports - 1)
    if level.topology == "fat-tree" and level.arity:
        return tree_links(level.arity, level.oversubscription, level.uplinks)
    if level.topology == "dragonfly" and len(level.dims) == 3:
        return dragonfly_links(*level.dims)
    return 0


def _sizes(level: DimensionText, where: str) -> list[int]:
    if not level.dims:
        raise ConfigError(f"{where}.dims: a {level.topology} needs its sizes, as in [4, 4, 4]")
    return level.dims


def _size(level: DimensionText, where: str) -> int:
    factors = level.dims or level.arity
    size = level.size or (math.prod(factors) if factors else 0)
    if size < 1:
        raise ConfigError(f"{where}.size: {size}; give the number of places, 1 or more")
    return size


def _axis(level: DimensionText, n: int, bandwidth: float, latency: float) -> Dimension:
    closed = level.topology == "torus"
    return Dimension(n, Ring.make(n, bandwidth, latency, closed) if n > 1 else lone_port())


def _fabric(level: DimensionText, n: int, bandwidth: float, latency: float, where: str) -> Fabric:
    if level.topology in ("ring", "line"):
        return Ring.make(n, bandwidth, latency, level.topology == "ring")
    if level.topology == "full":
        return Full.make(n, bandwidth, latency)
    if level.topology == "dragonfly":
        return _dragonfly(level, n, bandwidth, latency, where)
    arity = (level.arity or [n]) if level.topology == "fat-tree" else [n]
    if math.prod(arity) != n:
        raise ConfigError(
            f"{where}.arity: {arity} makes {math.prod(arity):,} ports and there are {n:,}"
        )
    ways, modulo = level.uplinks or None, level.routing == "modulo"
    return Tree.make(arity, bandwidth, latency, level.oversubscription, ways, modulo)


def _dragonfly(
    level: DimensionText, n: int, bandwidth: float, latency: float, where: str
) -> Fabric:
    if len(level.dims) != 3 or math.prod(level.dims) != n:
        raise ConfigError(f"{where}.dims: give [groups, routers, hosts] with a product of {n}")
    groups, routers, hosts = level.dims
    return Dragonfly.make(groups, routers, hosts, bandwidth, latency, level.oversubscription)


# --- explicit graphs ----------------------------------------------------------------------------


def _graph(text: GraphText, where: str) -> tuple[Dimension, ...]:
    if len(set(text.devices)) != len(text.devices) or not text.devices:
        raise ConfigError(f"{where}.graph.devices: give each device once, and at least one")
    number = {name: i for i, name in enumerate(text.devices)}
    rows: list[tuple[int, int, float, float]] = []
    for i, link in enumerate(text.links):
        at = f"{where}.graph.links[{i}]"
        bandwidth = positive(link.bandwidth, "bandwidth", f"{at}.bandwidth")
        latency = parse(link.latency, "time", f"{at}.latency")
        a, b = (number.setdefault(end, len(number)) for end in link.ends)
        if a == b:
            raise ConfigError(f"{at}.ends: a link from {link.ends[0]!r} to itself")
        rows += [(a, b, bandwidth, latency)] + (
            [] if link.one_way else [(b, a, bandwidth, latency)]
        )
    fabric = AnyGraph(len(text.devices), len(number), Links.of(rows), names=tuple(number))
    messages = _messages(text.messages, f"{where}.graph")
    return (Dimension(len(text.devices), fabric, messages=messages),)


# --- changes ------------------------------------------------------------------------------------


def parse_ranks(text: list[int] | str, size: int, where: str) -> list[int]:
    """`[0, 1]` or `"0-7,16"` as numbers below `size`."""
    try:
        spans = _spans(text) if isinstance(text, str) else [range(r, r + 1) for r in text]
    except ValueError:
        raise ConfigError(
            f"{where}: {text[:80]!r} is not a list of ranks; write it as in 0-7,16"
        ) from None
    wrong = [r for span in spans for r in (span[:1], span[-1:]) if r and not 0 <= r[0] < size]
    if wrong:
        raise ConfigError(f"{where}: no rank {wrong[0][0]}; there are {size}")
    return sorted({r for span in spans for r in span}) if isinstance(text, str) else list(text)


def _spans(text: str) -> list[range]:
    ends = [[int(n) for n in part.split("-")] for part in text.split(",")]
    if any(span[-1] < span[0] for span in ends):
        raise ValueError(text)
    return [range(span[0], span[-1] + 1) for span in ends]


def _changed(machine: Machine, change: ChangeText, where: str) -> Machine:
    named = [change.ranks] if isinstance(change.ranks, int) else change.ranks
    ranks = np.array(parse_ranks(named, machine.size, f"{where}.ranks"), np.int64)
    if change.device is not None:
        device_of = machine.device_of.copy()
        device_of[ranks] = len(machine.devices)
        devices = (*machine.devices, _device(change.device, f"{where}.device"))
        machine = replace(machine, devices=devices, device_of=device_of)
    if change.bandwidth is not None or change.latency is not None:
        machine = _changed_links(machine, change, ranks, where)
    return machine


def _changed_links(
    machine: Machine, change: ChangeText, ranks: np.ndarray[Any, Any], where: str
) -> Machine:
    links = machine.links
    touched = np.isin(links.src, ranks) | np.isin(links.dst, ranks)
    if change.dimension is not None:
        if not 0 <= change.dimension < len(machine.dimensions):
            raise ConfigError(f"{where}.dimension: {change.dimension} of {len(machine.dimensions)}")
        first, last = machine.first_link[change.dimension : change.dimension + 2]
        touched &= (np.arange(len(links)) >= first) & (np.arange(len(links)) < last)
    touched[machine.link_count :] = False  # links of storage servers are described by `storage`
    bandwidth, latency = links.bandwidth.copy(), links.latency.copy()
    if change.bandwidth is not None:
        bandwidth[touched] = positive(change.bandwidth, "bandwidth", f"{where}.bandwidth")
    if change.latency is not None:
        latency[touched] = parse(change.latency, "time", f"{where}.latency")
    return replace(machine, changed_links=replace(links, bandwidth=bandwidth, latency=latency))
