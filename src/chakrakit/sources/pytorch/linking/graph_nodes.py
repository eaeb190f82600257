"""What captures and step annotations add to the nodes: operators of graph kernels, batches of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.sources.graphs import Operator
from chakrakit.sources.pytorch.linking.rank import Rank
from chakrakit.sources.pytorch.work import PHASES, read_batch

Columns = dict[str, Any]


def add_graph_columns(linked: Rank, columns: Columns) -> None:
    """Say of every replayed row what its capture knows, and of every serving step what was in it."""
    _add_operators(linked, columns)
    _add_instructions(linked, columns)
    _add_batches(linked, columns)


def _add_operators(linked: Rank, columns: Columns) -> None:
    named = linked.graphs.operators
    if not named:
        return
    rows = list(named)
    said: dict[str, list[Any]] = {
        "operator": [named[r].name or None for r in rows],
        "inputs_shapes": [named[r].shapes or None for r in rows],
        "inputs_types": [named[r].types or None for r in rows],
        "operator_call": [_call(named[r]) for r in rows],
        "module": [named[r].module or None for r in rows],
        "layer": [named[r].layer if named[r].layer >= 0 else None for r in rows],
        "phase": [PHASES[named[r].phase] if named[r].phase >= 0 else None for r in rows],
        **_shared_work(linked, named),
    }
    for name, values in said.items():
        if any(v is not None for v in values):
            columns[name] = _overlaid(columns.get(name), len(linked.line), rows, values)


def _call(operator: Operator) -> str | None:
    """`[call, strides, values]`: what a replay needs to make the call again."""
    if operator.call < 0:
        return None
    return f"[{operator.call},{operator.strides or '[]'},{operator.values or '[]'}]"


_INSTRUCTION = {
    "hlo_op": "operator",
    "hlo_shapes": "inputs_shapes",
    "hlo_types": "inputs_types",
    "hlo_name": "module",
}


def _add_instructions(linked: Rank, columns: Columns) -> None:
    """What XLA says of its kernels: the instruction, its operands, and where in the program it is from."""
    said = linked.kineto.extras.column("hlo_op") if linked.kineto is not None else {}
    if linked.kineto is None or not said:
        return
    row_of = {int(e): row for row, e in enumerate(linked.line.event.tolist()) if e >= 0}
    for key, name in _INSTRUCTION.items():
        said = {row_of[e]: v for e, v in linked.kineto.extras.column(key).items() if e in row_of}
        if said:
            columns[name] = _overlaid(
                columns.get(name), len(linked.line), list(said), list(said.values())
            )


def _shared_work(linked: Rank, named: dict[int, Operator]) -> dict[str, list[Any]]:
    """An operator's FLOPs and bytes, once for each replay: at the longest of its rows."""
    longest: dict[tuple[int, int], int] = {}
    for replay in linked.graphs.replays:
        for row in replay.rows.tolist():
            if row in named and named[row].call >= 0:
                key = replay.call, named[row].call
                best = longest.get(key)
                if best is None or linked.line.duration[row] > linked.line.duration[best]:
                    longest[key] = row
    chosen = set(longest.values())
    return {
        "num_ops": [named[r].flops or None if r in chosen else None for r in named],
        "tensor_size": [named[r].moved or None if r in chosen else None for r in named],
    }


def _overlaid(column: Any, length: int, rows: list[int], values: list[Any]) -> pa.Array:
    """A column with these rows replaced where there is something to say."""
    plain: list[Any] = [None] * length if column is None else pa.array(column).to_pylist()
    for row, value in zip(rows, values, strict=True):
        if value is not None:
            plain[row] = value
    found = pa.array(plain)
    return found.dictionary_encode() if pa.types.is_string(found.type) else found


def _add_batches(linked: Rank, columns: Columns) -> None:
    """Serving engines say in a step's name what was in its batch."""
    chosen = linked.names.where(lambda name: read_batch(name) is not None) & linked.line.is_host
    rows = np.flatnonzero(chosen).tolist()
    batches = [read_batch(linked.names[r]) for r in rows]
    facts = [b.columns() if b is not None else {} for b in batches]
    for name in dict.fromkeys(key for f in facts for key in f):
        columns[name] = _overlaid(None, len(linked.line), rows, [f.get(name) for f in facts])
