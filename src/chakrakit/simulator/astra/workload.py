"""Loads workloads as the core's graphs; plain `.et` files never pass through Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

import chakrakit.core as core
from chakrakit.errors import ConfigError
from chakrakit.simulator.astra.config import Config, read_groups

BITS = {
    "comm_type": 1,
    "comm_size": 2,
    "num_ops": 4,
    "tensor_size": 8,
    "comm_src": 16,
    "comm_dst": 32,
    "comm_tag": 64,
    "involved_dim": 128,
    "group": 256,
}
"""The bits by which the core is told which attributes a node has."""

_SIGNED = ("type", "comm_type", "comm_src", "comm_dst", "comm_tag", "group")
_UNSIGNED = ("id", "duration_micros", "comm_size", "num_ops", "tensor_size", "dep_offsets", "deps")
_SMALL = ("is_cpu_op", "involved_dim", "has")

Columns = dict[str, Any]
"""Arrays by name, and `texts`: (id, inputs) of metadata nodes."""


def graph_columns(
    nodes: int, present_columns: Columns, has: NDArray[np.uint32] | None = None
) -> Columns:
    """All columns of a graph: missing ones are 0, and `has` marks the attributes that are present."""
    if has is None:
        has = np.full(
            nodes, sum(bit for name, bit in BITS.items() if name in present_columns), np.uint32
        )
    columns: Columns = {"has": has}
    for names, kind in ((_SIGNED, np.int64), (_UNSIGNED, np.uint64), (_SMALL, np.uint32)):
        for name in names:
            value = present_columns.get(name, columns.get(name))
            columns[name] = np.zeros(nodes, kind) if value is None else _as(value, kind)
    return columns


def _as(value: NDArray[Any], kind: Any) -> NDArray[Any]:
    return np.ascontiguousarray(value, dtype=kind)


def load_files(prefix: str, ranks: int, *, lenient: bool) -> core.AstraProgram:
    """`prefix.N.et` for every rank; files with the same bytes become one graph."""
    return core.astra_load([f"{prefix}.{rank}.et" for rank in range(ranks)], lenient)


def bind_groups(program: core.AstraProgram, config: Config) -> dict[int, list[int]]:
    """Gives the program its communicator groups, from the file and from metadata nodes; returns them."""
    groups = dict(config.groups)
    for node, text in core.astra_texts(program):
        for group, members in _metadata_groups(node, text, config.network.ranks).items():
            if groups.setdefault(group, members) != members:
                raise ConfigError(
                    f"metadata node {node}: group {group} is {members} here and {groups[group]} "
                    "elsewhere"
                )
    program.bind_groups(list(groups.items()))
    return groups


class _ProcessGroup(msgspec.Struct):
    pg_name: str
    ranks: list[int]


def _metadata_groups(node: int, text: str, ranks: int) -> dict[int, list[int]]:
    """PyTorch's process groups in a metadata node: a JSON list, quoted by two characters on each side."""
    try:
        listed = msgspec.json.decode(text[2:-2], type=list[_ProcessGroup])
    except msgspec.DecodeError:
        return {}
    groups = {
        group.pg_name: group.ranks or list(range(ranks)) for group in listed if group.pg_name != "0"
    }
    return read_groups(groups, ranks, f"metadata node {node}")


def load_custom(prefix: str, config: Config, *, lenient: bool) -> core.AstraCustom:
    """The graphs `prefix.P.et` of a custom collective, for as many positions as there are files."""
    base = _find_prefix(prefix, config)
    paths: list[str] = []
    while Path(f"{base}.{len(paths)}.et").exists():
        paths.append(f"{base}.{len(paths)}.et")
    if not paths:
        raise ConfigError(
            f"{config.names.get('system', 'system')}: custom collective {prefix!r}: there is no "
            f"file {prefix}.0.et"
        )
    return core.astra_load_custom(paths, lenient)


def _find_prefix(prefix: str, config: Config) -> str:
    """The prefix relative to the working directory, as in ASTRA-sim, or else to the system file."""
    beside = Path(config.names.get("system", "")).parent / prefix
    return prefix if Path(f"{prefix}.0.et").exists() else str(beside)


def is_prefix(workload: str) -> bool:
    """Whether the workload is a prefix of plain `.et` files, one per rank."""
    return Path(f"{workload}.0.et").is_file()


def build_body(
    columns: Columns, where: str, rank: int | None, *, lenient: bool = False
) -> core.AstraBody:
    """One graph from its columns. Errors begin with `where`; `rank` is None in a custom collective."""
    return core.astra_body(columns, where, -1 if rank is None else rank, lenient)
