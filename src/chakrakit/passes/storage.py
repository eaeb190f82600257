"""Storage: adds nodes that read data from a store before a rank's work and write a checkpoint after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.passes.base import Pass, free_ids, map_bodies, with_run_times
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.sets import TraceSet


@dataclass(frozen=True)
class Storage(Pass):
    """Let every rank read its data before the step and write a checkpoint after it.

    `load` and `save` are bytes per rank; `source` and `target` the stores of the machine that they are
    read from and written to. With `wait`, work begins when the data is there and the checkpoint is
    written when all work has ended, and they are part of the first and the last step; without it both happen
    beside the steps, as with data loaded ahead and asynchronous checkpoints, and only share the network with
    them.
    """

    name: ClassVar[str] = "storage"
    preserves: ClassVar[str] = "every node with its attributes and dependencies; nodes are added"
    load: int = 0
    save: int = 0
    source: str = "store"
    target: str = "store"
    wait: bool = True

    def __post_init__(self) -> None:
        if self.load < 0 or self.save < 0 or not (self.load or self.save):
            raise ConfigError(
                f"load={self.load}, save={self.save}; give bytes per rank for one of them or both"
            )

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces with one or two more nodes in every body."""
        return map_bodies(with_run_times(traces), self._added)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """What all ranks together read and write."""
        ranks = len(after)
        return {"read_bytes": self.load * ranks, "written_bytes": self.save * ranks}

    def _added(self, trace: Trace) -> Trace:
        rows, edges = len(trace), trace.edges
        ends_before = edges.form == EdgeForm.FINISH_START
        roots = np.setdiff1d(np.arange(rows), edges.dst)
        last = np.setdiff1d(np.arange(rows), edges.src[ends_before])
        kinds = []
        edge_parts = [edges]
        if self.load:
            kinds.append(("load data", NodeType.MEM_LOAD_NODE, self.load, self.source))
            edge_parts += [_after(np.full(len(roots), rows), roots)] if self.wait else []
        if self.save:
            place = rows + len(kinds)
            kinds.append(("save checkpoint", NodeType.MEM_STORE_NODE, self.save, self.target))
            edge_parts += [_after(last, np.full(len(last), place))] if self.wait else []
        both = Trace.concat([trace, _nodes(trace, kinds, self.wait)])
        return both.with_edges(_joined(edge_parts))


def _nodes(trace: Trace, kinds: list[tuple[str, NodeType, int, str]], wait: bool) -> Trace:
    names, types, sizes, stores = zip(*kinds, strict=True)
    columns: dict[str, Any] = {
        "id": free_ids(trace, len(kinds)),
        "name": list(names),
        "type": np.array(types, np.int32),
        "tensor_size": np.array(sizes, np.int64),
        "storage": list(stores),
        "is_cpu_op": np.ones(len(kinds), np.bool_),
    }
    marked = trace.step[trace.has("step")]
    marked = marked[marked >= 0]
    if wait and len(marked):
        reads = np.array(types) == NodeType.MEM_LOAD_NODE
        columns["step"] = np.where(reads, marked.min(), marked.max()).astype(np.int64)
    return Trace.from_columns(columns)


def _after(src: I64, dst: I64) -> Edges:
    count = len(src)
    return Edges(
        src.astype(np.int32),
        dst.astype(np.int32),
        np.full(count, EdgeKind.DATA, np.int8),
        np.full(count, EdgeForm.FINISH_START, np.int8),
        np.zeros(count, np.int64),
        np.zeros(count, np.bool_),
    )


def _joined(parts: list[Edges]) -> Edges:
    return Edges(
        *(
            np.concatenate([getattr(p, n) for p in parts])
            for n in ("src", "dst", "kind", "form", "lag", "ctrl")
        )
    )
