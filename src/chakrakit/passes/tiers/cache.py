"""Cache: what is read from a store and still held nearer is not read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.passes.base import Pass, map_bodies, texts_of, with_nodes, with_run_times
from chakrakit.passes.tiers.held import Access, CacheOutcome, cached, policy_named
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.placement import issued, stored
from chakrakit.trace.sets import TraceSet


@dataclass(frozen=True)
class Cache(Pass):
    """Hold tensors of a store nearer, in a cache, and read there what it still has.

    Reads and writes of the store `tier` that name their tensor (`tensor`) go through a cache of `capacity`
    bytes on every rank. One that finds its tensor there goes to the store `near` instead, or costs nothing
    where that is empty; changed tensors are written back when they leave. `policy` is `lru`, `belady`
    (which knows the future), `partition` (the longest unused partition leaves first), `min-pending` (what
    has the fewest uses to come leaves), or, in Python, a class of your own.
    """

    name: ClassVar[str] = "cache"
    preserves: ClassVar[str] = "every node and dependency; hits go elsewhere, writes back are added"
    tier: str = ""
    capacity: int = 0
    policy: Any = "lru"
    """A name, or in Python a class: `Callable[[Sequence[str]], EvictionPolicy]`, which text cannot say."""
    near: str = ""

    def __post_init__(self) -> None:
        if not self.tier or self.capacity <= 0:
            raise ConfigError("cache: give tier, the store that is read, and capacity in bytes")
        policy_named(self.policy)

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces with reads and writes as the cache leaves them."""
        bodies = [traces.body_at(b) for b in range(traces.body_count)]
        if not any(len(self._rows(body)) for body in bodies):
            used = sorted({s for body in bodies for s in texts_of(body, "storage").tolist() if s})
            raise ConfigError(
                f"cache: no read or write of {self.tier!r} names its tensor (the attribute `tensor`); "
                f"stores that are used: {', '.join(used) or 'none'}"
            )
        return map_bodies(with_run_times(traces), self._cached)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """Bytes read from and written to the store by one copy of each body, before and after."""
        return {
            when: {
                what: sum(
                    _bytes(traces.body_at(b), self.tier, kind) for b in range(traces.body_count)
                )
                for what, kind in (
                    ("read_bytes", NodeType.MEM_LOAD_NODE),
                    ("written_bytes", NodeType.MEM_STORE_NODE),
                )
            }
            for when, traces in (("before", before), ("after", after))
        }

    def _cached(self, trace: Trace) -> Trace:
        rows = self._rows(trace)
        if not len(rows):
            return trace
        keys, sizes = texts_of(trace, "tensor"), trace.column("tensor_size", 0).astype(np.int64)
        writes = trace.is_type(NodeType.MEM_STORE_NODE)
        accesses = [Access(keys[r], int(sizes[r]), bool(writes[r])) for r in rows.tolist()]
        outcome = cached(accesses, self.capacity, self.policy)
        return self._written(trace, rows, outcome)

    def _rows(self, trace: Trace) -> I64:
        """The reads and writes that name a tensor of the tier, in the order of issue."""
        mine = stored(trace) & (texts_of(trace, "storage") == self.tier)
        named = texts_of(trace, "tensor") != ""
        return issued(trace, np.flatnonzero(mine & named))

    def _written(self, trace: Trace, rows: I64, outcome: CacheOutcome) -> Trace:
        """Sends hits to the near store and adds the writes of what left."""
        storage = texts_of(trace, "storage").tolist()
        kinds = trace.types.copy()
        added: list[tuple[str, int, int]] = []
        for row, hit, left in zip(rows.tolist(), outcome.hits, outcome.written_back, strict=True):
            is_write = kinds[row] == NodeType.MEM_STORE_NODE
            passes_by = is_write and any(key == texts_of(trace, "tensor")[row] for key, _ in left)
            if hit or (is_write and not passes_by):
                storage[row] = self.near
            if not passes_by:
                added += [(key, size, row) for key, size in left]
        elsewhere = trace.with_columns({"storage": [s or None for s in storage]})
        if not self.near:
            elsewhere = _free(elsewhere, rows[[storage[r] == "" for r in rows.tolist()]])
        columns: dict[str, list[Any]] = {
            "name": [f"write back {key}" for key, _, _ in added],
            "type": [int(NodeType.MEM_STORE_NODE)] * len(added),
            "storage": [self.tier] * len(added),
            "tensor": [key for key, _, _ in added],
            "tensor_size": [size for _, size, _ in added],
            "is_cpu_op": [True] * len(added),
        }
        waits = [(len(trace) + i, row) for i, (_, _, row) in enumerate(added)]
        waits += [
            (s, len(trace) + i) for i, (_, _, row) in enumerate(added) for s in _before(trace, row)
        ]
        return with_nodes(elsewhere, columns, waits) if added else elsewhere


def _before(trace: Trace, row: int) -> list[int]:
    """The rows that a row waits for."""
    return [int(src) for src in trace.edges.src[trace.edges.dst == row]]


def _free(trace: Trace, rows: I64) -> Trace:
    """Rows that move nothing, as the tensor is where it is needed."""
    sizes = trace.column("tensor_size", 0).astype(np.int64)
    sizes[rows] = 0
    own: list[int | None] = [None] * len(trace)
    if "own_ns" in trace.column_names:
        own = trace.table.column("own_ns").to_pylist()
    for row in rows.tolist():
        own[row] = 0
    return trace.with_columns({"tensor_size": sizes, "own_ns": pa.array(own, pa.int64())})


def _bytes(trace: Trace, tier: str, kind: NodeType) -> int:
    mine = trace.is_type(kind) & (texts_of(trace, "storage") == tier)
    return int(trace.column("tensor_size", 0)[mine].sum())
