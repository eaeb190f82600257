"""Reads ASTRA-sim's four input files and checks every key.

Numbers keep ASTRA-sim's units: GB/s of network links are 2^30 bytes, of memories 10^9; times are ns.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from chakrakit.configuration import LARGEST, decode_yaml, read_json, read_text_file
from chakrakit.errors import ConfigError

Number = int | float
Flag = bool | int
T = TypeVar("T", bound=msgspec.Struct)

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
"""In the order of the core's numbers."""

ALGORITHMS = {"ring": 0, "direct": 1, "halvingDoubling": 2, "doubleBinaryTree": 3}
SHAPES = {"Ring": 0, "FullyConnected": 1, "Switch": 2}
MEMORIES = {
    "NO_MEMORY_EXPANSION": 0,
    "PER_NPU_MEMORY_EXPANSION": 1,
    "PER_NODE_MEMORY_EXPANSION": 2,
    "MEMORY_POOL": 3,
}
MOST_RANKS = 1 << 20
"""As many devices as any machine here may have; memory grows with the ranks."""
LONGEST = 10**15
"""Nanoseconds, twelve days: far above any latency, far below what would overflow."""
_LARGEST_GROUPS = 256 << 20
"""Bytes: groups of a million ranks take ten bytes for each rank of each group."""
_FASTEST = 10**9
"""GB/s and TFLOP/s: far above any device, far below what would overflow."""
_IMPLEMENTATION = re.compile(
    r"(?:(ring|halvingDoubling|doubleBinaryTree|oneRing|oneHalvingDoubling)|(direct|oneDirect)([0-9]*))"
)
_NO_EFFECT = {
    "trace-enabled": "use -o to get every node's times",
    "track-local-mem": "local memory is not tracked",
    "local-mem-trace-filename": "local memory is not tracked",
    "L": "the shared bus is not modelled",
    "o": "the shared bus is not modelled",
    "g": "the shared bus is not modelled",
    "G": "the shared bus is not modelled",
    "local-reduction-delay": "the shared bus is not modelled",
}


class SystemConfig(msgspec.Struct, rename="kebab", kw_only=True):
    """The system JSON: how every rank runs collectives. Absent keys have ASTRA-sim's defaults."""

    scheduling_policy: Literal["LIFO", "FIFO", "EXPLICIT"] = "LIFO"
    endpoint_delay: int | None = None
    active_chunks_per_dimension: int = 1
    preferred_dataset_splits: int = 0
    all_reduce_implementation: list[str] = []
    all_gather_implementation: list[str] = []
    reduce_scatter_implementation: list[str] = []
    all_to_all_implementation: list[str] = []
    all_reduce_implementation_custom: list[str] = []
    all_gather_implementation_custom: list[str] = []
    reduce_scatter_implementation_custom: list[str] = []
    all_to_all_implementation_custom: list[str] = []
    per_node_custom_implementation: str = ""
    collective_optimization: Literal["baseline", "localBWAware"] = "localBWAware"
    local_mem_bw: Number = 0
    peak_perf: Number = 0
    roofline_enabled: Flag = 0
    replay_only: Flag = 0
    model_shared_bus: Flag = 0

    def implementations(self, collective: str) -> list[str]:
        """The algorithms of `all-reduce`, …, one per dimension."""
        return list(getattr(self, collective.replace("-", "_") + "_implementation"))

    def custom(self, collective: str) -> str:
        """The prefix of the graphs that replace a collective; empty where none do."""
        prefixes = getattr(self, collective.replace("-", "_") + "_implementation_custom")
        return prefixes[0] if prefixes else ""


class NetworkConfig(msgspec.Struct, kw_only=True):
    """The network YAML: four lists of one length, innermost dimension first."""

    topology: list[Literal["Ring", "FullyConnected", "Switch"]]
    npus_count: list[int]
    bandwidth: list[Number]
    latency: list[Number]

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return math.prod(self.npus_count)


class MemoryConfig(msgspec.Struct, rename="kebab", kw_only=True):
    """The remote-memory JSON."""

    memory_type: Literal[
        "NO_MEMORY_EXPANSION",
        "PER_NPU_MEMORY_EXPANSION",
        "PER_NODE_MEMORY_EXPANSION",
        "MEMORY_POOL",
    ] = "NO_MEMORY_EXPANSION"
    remote_mem_latency: int = 0
    remote_mem_bw: int = 0
    num_nodes: int = 0
    num_npus_per_node: int = 0


@dataclass(frozen=True)
class Ignored:
    """A key that has no effect, and why."""

    file: str
    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}: `{self.key}` is ignored: {self.why}"


@dataclass(frozen=True)
class Config:
    """Everything but the workload. `ignored` lists keys in the files that have no effect."""

    system: SystemConfig
    network: NetworkConfig
    memory: MemoryConfig
    groups: dict[int, list[int]] = field(default_factory=dict)
    per_node_custom: dict[int, str] = field(default_factory=dict)
    ignored: list[Ignored] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


def read_config(
    system: str | Path, network: str | Path, memory: str | Path, groups: str | Path | None = None
) -> Config:
    """Reads the four files."""
    return make_config(
        _json(system),
        _yaml(network),
        _json(memory),
        None if groups is None or _is_empty(groups) else _json(groups, _LARGEST_GROUPS),
        names={
            "system": str(system),
            "network": str(network),
            "memory": str(memory),
            "groups": str(groups),
        },
    )


def _is_empty(groups: str | Path) -> bool:
    """Whether the path stands for no groups, as in ASTRA-sim: it contains `empty` and is not a file."""
    return "empty" in str(groups) and not Path(groups).exists()


def make_config(
    system: Any, network: Any, memory: Any, groups: Any = None, names: dict[str, str] | None = None
) -> Config:
    """The configuration of parsed files, checked. `names` are their names in errors."""
    called = {"system": "system", "network": "network", "memory": "memory", "groups": "groups"}
    called |= names or {}
    checked = _system(system, called["system"])
    net = _network(network, called["network"])
    mem = _memory(memory, called["memory"])
    return Config(
        system=checked,
        network=net,
        memory=mem,
        groups={} if groups is None else read_groups(groups, net.ranks, called["groups"]),
        per_node_custom=_per_node(checked, called["system"]),
        ignored=_ignored(system, SystemConfig, called["system"])
        + _ignored(network, NetworkConfig, called["network"])
        + _ignored(memory, MemoryConfig, called["memory"]),
        names=called,
    )


def read_groups(raw: Any, ranks: int, name: str) -> dict[int, list[int]]:
    """Groups by id from `{"1": [0, 1], …}`: ids above 0, members below `ranks`, each member once."""
    if not isinstance(raw, dict):
        raise ConfigError(f'{name}: expected an object like {{"1": [0, 1]}}')
    groups: dict[int, list[int]] = {}
    for key, members in raw.items():
        groups[_group_id(key, name)] = _members(key, members, ranks, name)
    return groups


def parse_implementation(text: str) -> tuple[int, bool, int]:
    """The algorithm's number, whether it spans all ranks at once, and its window or 0, of e.g. `direct4`."""
    match = _IMPLEMENTATION.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"unknown algorithm {text!r}; expected ring, direct, direct<window>, halvingDoubling, "
            "doubleBinaryTree, oneRing, oneDirect[<window>] or oneHalvingDoubling"
        )
    name = match[1] or match[2]
    over_all_ranks = name.startswith("one")
    plain = name[3].lower() + name[4:] if over_all_ranks else name
    window = int(match[3][:20]) if match[3] else 0
    if match[3] and not 1 <= window <= MOST_RANKS:
        raise ConfigError(f"{text!r}: the window must be 1 or more, and at most {MOST_RANKS:,}")
    return ALGORITHMS[plain], over_all_ranks, window


def _json(path: str | Path, largest: int = LARGEST) -> Any:
    return read_json(path, Any, "valid JSON", largest)


def _yaml(path: str | Path) -> Any:
    return decode_yaml(read_text_file(path), str(path))


def _convert(raw: Any, kind: type[T], name: str) -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {error}") from None


def _system(raw: Any, name: str) -> SystemConfig:
    system = _convert(_whole(raw), SystemConfig, name)
    for collective in COLLECTIVES:
        for text in system.implementations(collective):
            try:
                parse_implementation(text)
            except ConfigError as error:
                raise ConfigError(f"{name}: `{collective}-implementation`: {error}") from None
    _between(name, "active-chunks-per-dimension", system.active_chunks_per_dimension, 1, 1 << 30)
    _between(name, "preferred-dataset-splits", system.preferred_dataset_splits, 0, 1 << 22)
    _between(name, "endpoint-delay", system.endpoint_delay or 0, 0, LONGEST)
    _between(name, "local-mem-bw", system.local_mem_bw, 0, _FASTEST)
    _between(name, "peak-perf", system.peak_perf, 0, _FASTEST)
    if system.model_shared_bus:
        raise ConfigError(
            f"{name}: `model-shared-bus` 1 is not simulated (the bus between NPU and network "
            "engine); set it to 0"
        )
    return system


def _whole(raw: Any) -> Any:
    """The mapping with whole floats such as 10.0 as integers."""
    if not isinstance(raw, dict):
        return raw
    return {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in raw.items()
    }


def _between(name: str, key: str, value: Number, least: Number, most: Number) -> None:
    if value < least:
        raise ConfigError(f"{name}: `{key}` is {value}; it must be {least} or more")
    if not value <= most:
        raise ConfigError(f"{name}: `{key}` is {value}; it must be {most:,} or less")


def _network(raw: Any, name: str) -> NetworkConfig:
    network = _convert(_numbers(raw), NetworkConfig, name)
    lengths = {len(getattr(network, key)) for key in NetworkConfig.__struct_fields__}
    if len(lengths) != 1 or not network.topology:
        raise ConfigError(
            f"{name}: `topology`, `npus_count`, `bandwidth` and `latency` need one entry for each "
            "dimension, all the same number"
        )
    _between(name, "topology", len(network.topology), 1, 16)
    for count in network.npus_count:
        _between(name, "npus_count", count, 2, MOST_RANKS)
    for bandwidth, latency in zip(network.bandwidth, network.latency, strict=True):
        _between(name, "bandwidth", bandwidth, 1e-6, _FASTEST)
        _between(name, "latency", latency, 0, LONGEST)
    if network.ranks > MOST_RANKS:
        raise ConfigError(f"{name}: {network.ranks:,} ranks are too many")
    return network


def _numbers(raw: Any) -> Any:
    """The mapping with texts such as `1e3` as numbers: so YAML 1.2 reads them, and ASTRA-sim's parser."""
    if not isinstance(raw, dict):
        return raw
    return {
        key: [_number(v) for v in value] if isinstance(value, list) else value
        for key, value in raw.items()
    }


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _memory(raw: Any, name: str) -> MemoryConfig:
    memory = _convert(_whole(raw), MemoryConfig, name)
    if memory.memory_type == "NO_MEMORY_EXPANSION":
        return MemoryConfig()  # the other keys have no effect, so their values are not checked
    _between(name, "remote-mem-bw", memory.remote_mem_bw, 1, _FASTEST)
    _between(name, "remote-mem-latency", memory.remote_mem_latency, 0, LONGEST)
    if memory.memory_type == "PER_NODE_MEMORY_EXPANSION":
        _between(name, "num-nodes", memory.num_nodes, 1, 1 << 20)
        _between(name, "num-npus-per-node", memory.num_npus_per_node, 1, 1 << 20)
    return memory


def _group_id(key: str, name: str) -> int:
    number = int(key) if key.isascii() and key.isdecimal() and len(key) < 20 else 0
    if not 0 < number < 1 << 63:
        raise ConfigError(
            f"{name}: group {key[:40]!r}: ids are whole numbers above 0 and below 2^63 (0 means all "
            "ranks, without an entry)"
        )
    return number


def _members(key: str, members: Any, ranks: int, name: str) -> list[int]:
    whole = isinstance(members, list) and all(type(rank) is int for rank in members)
    if not whole or not members:
        raise ConfigError(f"{name}: group {key}: expected a list of ranks")
    outside = [rank for rank in members if not 0 <= rank < ranks]
    if outside:
        raise ConfigError(
            f"{name}: group {key}: rank {outside[0]} does not exist; the network has {ranks} ranks"
        )
    if len(set(members)) != len(members):
        raise ConfigError(f"{name}: group {key}: a rank is listed twice")
    return list(members)


def _per_node(system: SystemConfig, name: str) -> dict[int, str]:
    """The ET prefix of each workload node, from the file that the system file names.

    Its path is relative to the working directory, as in ASTRA-sim, or else to the system file.
    """
    if not system.per_node_custom_implementation:
        return {}
    path = Path(system.per_node_custom_implementation)
    if not path.exists():
        path = Path(name).parent / path
    raw = _yaml(path)
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: expected a map of workload node id to ET prefix")
    try:
        return {int(node): str(prefix) for node, prefix in raw.items()}
    except ValueError:
        raise ConfigError(f"{path}: workload node ids are whole numbers") from None


def _ignored(raw: Any, kind: type[msgspec.Struct], name: str) -> list[Ignored]:
    fields = set(kind.__struct_encode_fields__)
    ignored = []
    for key in raw:
        if str(key) in _NO_EFFECT:
            ignored.append(Ignored(name, str(key), _NO_EFFECT[str(key)]))
        elif str(key) not in fields:
            ignored.append(Ignored(name, str(key), "ASTRA-sim does not read it"))
    return ignored
