"""Binding: how a rank runs a body that it shares with other ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.errors import TraceError
from chakrakit.trace.model import NodeType, Trace

Body = Trace | Callable[[], Trace]
"""A program, or what reads it when it is first needed."""


@dataclass(frozen=True)
class Binding:
    """How a rank runs a body: what differs between the ranks that share it.

    `groups` maps a `pg_name` in the body to the rank's own group, `peers` a `comm_src`/`comm_dst` in
    the body to a rank; what they do not name stays as it is. `scale` multiplies the durations,
    `num_ops` and `tensor_size` of compute nodes.
    """

    body: int
    groups: Mapping[str, str] = field(default_factory=dict)
    peers: Mapping[int, int] = field(default_factory=dict)
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf:
            raise TraceError(f"a scale of {self.scale}; it should be 0 or more, and finite")

    @property
    def is_plain(self) -> bool:
        """Whether the rank's trace is the body as it stands."""
        return not self.groups and not self.peers and self.scale == 1.0


def bind(body: Trace, binding: Binding) -> Trace:
    """The body as one rank runs it."""
    if binding.is_plain:
        return body
    changed: dict[str, object] = {}
    if binding.groups and "pg_name" in body.table.column_names:
        changed["pg_name"] = _renamed(body.table.column("pg_name"), binding.groups)
    for end in ("comm_src", "comm_dst"):
        if binding.peers and end in body.table.column_names:
            changed[end] = _moved(body, end, binding.peers)
    if binding.scale != 1.0:
        body = body.with_nesting()  # scaled times say no longer what ran inside what
        changed |= _scaled(body, binding.scale)
    return body.with_columns(changed)


def _renamed(names: pa.ChunkedArray, groups: Mapping[str, str]) -> pa.ChunkedArray:
    coded = names.combine_chunks().dictionary_encode()
    renamed = [groups.get(n, n) for n in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(renamed, pa.string())).cast(
        pa.string()
    )


def _moved(body: Trace, end: str, peers: Mapping[int, int]) -> pa.Array:
    values = body.column(end, -1)
    known = np.unique(values)
    moved = np.array([peers.get(int(v), int(v)) for v in known], np.int64)
    return pa.array(moved[np.searchsorted(known, values)], mask=~body.has(end))


def _scaled(body: Trace, scale: float) -> dict[str, object]:
    """Durations, operations and bytes of compute nodes times `scale`; other nodes stay exact."""
    compute = body.is_type(NodeType.COMP_NODE)
    duration = _times(body.duration_ns, scale, compute)
    exact = (duration % 1000 != 0) | (body.has("duration_ns") & ~compute)
    changed: dict[str, object] = {
        "duration_micros": np.maximum(duration, 0) // 1000,
        "duration_ns": pa.array(duration, mask=~exact),
    }
    for name in ("num_ops", "tensor_size"):
        if name in body.table.column_names:
            scaled = _times(body.column(name, 0), scale, compute)
            changed[name] = pa.array(scaled, mask=~body.has(name))
    return changed


def _times(values: I64, scale: float, where: Mask) -> I64:
    limit = float(2**63 - 1024)
    scaled = np.clip(np.rint(values * scale), -limit, limit).astype(np.int64)
    return np.where(where, scaled, values)
