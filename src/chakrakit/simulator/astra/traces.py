"""Converts traces in memory, whatever format they were stored in, to the core's graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import chakrakit.core as core
from chakrakit.arrays import I64, U64, Mask
from chakrakit.errors import TraceError
from chakrakit.simulator.astra.workload import BITS, Columns, build_body, graph_columns
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet


def load_traces(traces: TraceSet, ranks: int, *, lenient: bool) -> core.AstraProgram:
    """The program of ranks 0 … `ranks`-1; ranks that run the same body in the same way share one graph."""
    missing = [rank for rank in range(ranks) if rank not in traces.bindings]
    if missing:
        raise TraceError(
            f"the network has {ranks} ranks and the workload none for rank {missing[0]}; they must "
            "be the same number"
        )
    bodies: list[core.AstraBody] = []
    body_of, body_by_key = [], {}
    for rank in range(ranks):
        key = _sharing(traces, rank)
        if key not in body_by_key:
            body_by_key[key] = len(bodies)
            columns = trace_columns(traces.trace(rank))
            bodies.append(build_body(columns, f"rank {rank}", rank, lenient=lenient))
        body_of.append(body_by_key[key])
    return core.astra_program(bodies, body_of)


def _sharing(traces: TraceSet, rank: int) -> tuple[Any, ...]:
    binding = traces.bindings[rank]
    groups, peers = sorted(binding.groups.items()), sorted(binding.peers.items())
    only_rank = rank if _names_itself(traces, rank) else -1
    return binding.body, tuple(groups), tuple(peers), binding.scale, only_rank


def _names_itself(traces: TraceSet, rank: int) -> bool:
    """Whether a rank's sends and receives name the rank itself, so that its graph cannot be shared."""
    names = traces.body(rank).table.column_names
    return "comm_src" in names or "comm_dst" in names


def trace_columns(trace: Trace) -> Columns:
    """The columns of a trace that the simulator reads; durations are whole microseconds, as in ASTRA-sim."""
    offsets, deps = _dependencies(trace)
    present_columns: Columns = {
        "id": trace.ids,
        "type": trace.types,
        "duration_micros": trace.column("duration_micros"),
        "is_cpu_op": on_host(trace),
        "dep_offsets": offsets,
        "deps": deps,
    }
    has = np.zeros(len(trace), np.uint32)
    for name, bit in BITS.items():
        column = "pg_name" if name == "group" else name
        present = trace.has(column)
        if present.any():
            present_columns[name] = _attribute(trace, column, present)
            has |= np.where(present, bit, 0).astype(np.uint32)
    columns = graph_columns(len(trace), present_columns, has)
    columns["texts"] = _texts(trace)
    return columns


def _attribute(trace: Trace, name: str, present: Mask) -> NDArray[Any]:
    if name == "pg_name":
        return _groups(trace)
    if name == "involved_dim":
        return _dimensions(trace, present)
    values = trace.column(name, 0)
    if values.dtype.kind not in "iub":
        raise TraceError(f"the attribute {name!r} is not an integer in this trace")
    return values


def _groups(trace: Trace) -> I64:
    coded = trace.table.column("pg_name").combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    for name in names:
        if name and not (name.isdecimal() and len(name) < 20 and int(name) < 1 << 63):
            raise TraceError(
                f"`pg_name` {name[:40]!r} is not the number of a communicator group, below 2^63"
            )
    numbers = np.array([int(name or 0) for name in names] + [0], np.int64)
    group_of_row: I64 = numbers[coded.indices.fill_null(len(names)).to_numpy()]
    return group_of_row


def _dimensions(trace: Trace, present: Mask) -> NDArray[np.uint32]:
    masks = np.zeros(len(trace), np.uint32)
    lists = trace.table.column("involved_dim").to_pylist()
    for row in np.flatnonzero(present).tolist():
        masks[row] = sum(1 << k for k, used in enumerate(lists[row][:32]) if used)
    return masks


def _dependencies(trace: Trace) -> tuple[U64, U64]:
    """Data and control dependencies of each node, one after the other, as ids."""
    rows, ids = [], []
    for name in ("data_deps", "ctrl_deps"):
        lists = trace.table.column(name).combine_chunks()
        counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        rows.append(np.repeat(np.arange(len(trace)), counts))
        ids.append(lists.flatten().to_numpy(zero_copy_only=False))
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    offsets = np.zeros(len(trace) + 1, np.uint64)
    np.cumsum(np.bincount(row, minlength=len(trace)), out=offsets[1:])
    return offsets, np.concatenate(ids)[order].astype(np.uint64)


def _texts(trace: Trace) -> list[tuple[int, str]]:
    """The inputs of metadata nodes, where PyTorch names its process groups."""
    if "inputs_values" not in trace.table.column_names:
        return []
    rows = pa.array(np.flatnonzero(trace.is_type(NodeType.METADATA_NODE)))
    part = trace.table.select(["id", "inputs_values"]).take(rows)
    return [(row["id"], row["inputs_values"] or "") for row in part.to_pylist()]
