"""The trace of one rank of an HLO program: its columns and edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.errors import FormatError
from chakrakit.operators import dtype_name
from chakrakit.sources.pytorch.read import whole
from chakrakit.sources.xla.hlo import Module
from chakrakit.sources.xla.rows import HloProgram, ProgramRow, flops, moved
from chakrakit.trace.model import EdgeKind, Edges, Metadata, NodeType, Trace

VERSION = "chakrakit.xla.1"
Pairs = tuple[tuple[int, int], ...]
Ends = tuple[int | None, int | None]
Peers = Mapping[Pairs, Ends]
"""For each permutation, the device a rank receives from and the one it sends to."""
_CYCLES = re.compile(r"estimated_cycles\W+(\d+)")


def body_of(
    program: HloProgram, role: Callable[[ProgramRow], str], rank: int, peers: Peers
) -> Trace:
    """The rows that a rank takes part in, as a Trace."""
    rows: list[ProgramRow] = []
    place: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    for number, row in enumerate(program.rows):
        if row.pairs and peers[row.pairs][0 if row.type == NodeType.COMM_RECV_NODE else 1] is None:
            place[number] = place.get(number - 1, -1)
            continue
        pairs += [(place[a], len(rows)) for a in row.after if place.get(a, -1) >= 0]
        place[number] = len(rows)
        rows.append(row)
    both = np.array(sorted(set(pairs)), np.int32).reshape(-1, 2)
    edges = Edges.of(both[:, 0], both[:, 1], EdgeKind.TENSOR) if len(both) else None
    try:
        columns = _columns(program.module, role, rank, rows, peers)
    except (OverflowError, pa.ArrowInvalid):
        raise FormatError(
            f"{program.module.name}: work, sizes or ranks of an instruction do not fit into 64 bits"
        ) from None
    return Trace.from_columns(columns, edges, Metadata.of(VERSION))


def _columns(
    module: Module,
    role: Callable[[ProgramRow], str],
    rank: int,
    rows: list[ProgramRow],
    peers: Peers,
) -> dict[str, Any]:
    columns = {
        "name": pa.array([r.name for r in rows], pa.string()),
        "type": np.array([int(r.type) for r in rows], np.int32),
        "is_cpu_op": np.zeros(len(rows), np.bool_),
        "stream": np.array([r.stream for r in rows], np.int64),
        "outputs_shapes": pa.array([str(r.step.instruction.shape) for r in rows], pa.string()),
        "phase": pa.array(map(_phase, rows), pa.string()),
        "module": pa.array([r.step.instruction.op_name or None for r in rows], pa.string()),
        "mem_alloc": pa.array([r.alloc or None for r in rows], pa.int64()),
        "mem_free": pa.array([r.free or None for r in rows], pa.int64()),
        **_computation(module, rows),
        **_communication(role, rows),
        **_messages(rank, rows, peers),
    }
    return {
        n: v for n, v in columns.items() if not isinstance(v, pa.Array) or v.null_count < len(v)
    }


def _phase(row: ProgramRow) -> str:
    return "backward" if "transpose(" in row.step.instruction.op_name else "forward"


def _computes(row: ProgramRow) -> bool:
    return row.type == NodeType.COMP_NODE


def _dtype(row: ProgramRow) -> str:
    return dtype_name(row.step.instruction.shape.first.dtype)


def _computation(module: Module, rows: list[ProgramRow]) -> dict[str, pa.Array]:
    """Columns that only rows that compute have."""
    work = [_work(module, r) if _computes(r) else (None, None, None) for r in rows]
    kinds = [_op_type(module, r) if _computes(r) else None for r in rows]
    return {
        "num_ops": pa.array([w[0] for w in work], pa.int64()),
        "tensor_size": pa.array([w[1] for w in work], pa.int64()),
        "estimated_cycles": pa.array([w[2] for w in work], pa.int64()),
        "dtype": pa.array([_dtype(r) if _computes(r) else None for r in rows], pa.string()),
        "op_type": pa.array(kinds, pa.string()),
    }


def _communication(
    role: Callable[[ProgramRow], str], rows: list[ProgramRow]
) -> dict[str, pa.Array]:
    """Columns that only rows that communicate have; only collectives have a group."""
    return {
        "comm_type": pa.array([r.kind if r.kind >= 0 else None for r in rows], pa.int64()),
        "comm_size": pa.array([None if _computes(r) else r.size for r in rows], pa.int64()),
        "out_size": pa.array([r.out_size if r.kind >= 0 else None for r in rows], pa.int64()),
        "comm_dtype": pa.array([None if _computes(r) else _dtype(r) for r in rows], pa.string()),
        "pg_name": pa.array([role(r) if r.kind >= 0 else None for r in rows], pa.string()),
    }


def _messages(rank: int, rows: list[ProgramRow], peers: Peers) -> dict[str, pa.Array]:
    """Both ends of every message that this rank sends or receives, and its tag."""
    ends: list[tuple[int | None, int | None]] = []
    for row in rows:
        if not row.pairs:
            ends.append((None, None))
            continue
        source, target = peers[row.pairs]
        sends = row.type == NodeType.COMM_SEND_NODE
        ends.append((rank, target) if sends else (source, rank))
    return {
        "comm_src": pa.array([source for source, _ in ends], pa.int32()),
        "comm_dst": pa.array([target for _, target in ends], pa.int32()),
        "comm_tag": pa.array([r.tag if r.pairs else None for r in rows], pa.int32()),
    }


def _work(module: Module, row: ProgramRow) -> tuple[int, int, int | None]:
    if row.step.kind == "done":
        return 0, 0, None
    i = row.step.instruction
    sizes = {x.name: x.shape.bytes for x in row.step.inside.instructions}
    cycles = _CYCLES.search(i.backend)
    return (
        sum(flops(module, i, row.step.inside)),
        moved(i, sizes),
        whole(cycles[1]) if cycles else None,
    )


def _op_type(module: Module, row: ProgramRow) -> str:
    return "matmul" if flops(module, row.step.instruction, row.step.inside)[0] else "vector"
