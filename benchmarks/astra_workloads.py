"""The inputs of the ASTRA-sim benchmarks, made as files: the traces are written here, byte by byte."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from chakrakit.trace.model import varint

COMP, COLL = 4, 7


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name: str, member: int, value: int) -> bytes:
    return field(10, field(1, name.encode()) + field(member, value))


NOT_CPU = attribute("is_cpu_op", 27, 0)


def node(node_id: int, kind: int, name: str, deps: Iterable[int], rest: bytes) -> bytes:
    body = field(1, node_id) if node_id else b""
    body += field(2, name.encode()) + field(3, kind)
    packed = b"".join(varint(d) for d in deps)
    if packed:
        body += field(5, packed)
    return framed(body + rest)


def framed(message: bytes) -> bytes:
    return varint(len(message)) + message


METADATA = framed(field(1, b"0.0.4"))


def compute(node_id: int, micros: int, deps: Iterable[int] = ()) -> bytes:
    return node(node_id, COMP, "comp", deps, field(7, micros) + NOT_CPU)


def collective(node_id: int, kind: int, size: int, deps: Iterable[int] = ()) -> bytes:
    rest = NOT_CPU + attribute("comm_type", 9, kind) + attribute("comm_size", 9, size)
    return node(node_id, COLL, "all_reduce", deps, rest)


def one_collective(folder: Path, ranks: int, kind: int = 0, size: int = 1 << 20) -> str:
    """One collective on every rank; the node's id is the rank."""
    return write(folder, [METADATA + collective(rank, kind, size) for rank in range(ranks)])


def chain(folder: Path, ranks: int, nodes: int) -> str:
    """Nine compute nodes of 5 µs, then one all-reduce of 64 KiB, over and over in a chain."""
    parts = [METADATA]
    for i in range(nodes):
        deps = (i - 1,) if i else ()
        parts.append(collective(i, 0, 64 << 10, deps) if i % 10 == 9 else compute(i, 5, deps))
    return write(folder, [b"".join(parts)] * ranks)


def wide(folder: Path, ranks: int, nodes: int) -> str:
    """Compute nodes of 5 µs that depend on nothing."""
    return write(folder, [METADATA + b"".join(compute(i, 5) for i in range(nodes))] * ranks)


def write(folder: Path, files: Iterable[bytes]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for rank, data in enumerate(files):
        (folder / f"w.{rank}.et").write_bytes(data)
    return str(folder / "w")


def configuration(folder: Path, topology: list[str], sizes: list[int], algorithm: str) -> list[str]:
    """The three files: 4 splits, 1 active chunk, 50 GB/s, 500 ns, endpoint 10 ns, memory 1600 GB/s."""
    dims = len(sizes)
    algorithms = [algorithm] * dims
    system = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 4,
        "all-reduce-implementation": algorithms,
        "all-gather-implementation": algorithms,
        "reduce-scatter-implementation": algorithms,
        "all-to-all-implementation": ["direct"] * dims,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
    }
    network = {
        "topology": topology,
        "npus_count": sizes,
        "bandwidth": [50.0] * dims,
        "latency": [500.0] * dims,
    }
    files = {
        "system.json": json.dumps(system),
        "network.yml": json.dumps(network),  # JSON is YAML
        "memory.json": json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return [str(folder / name) for name in files]
