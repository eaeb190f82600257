"""Launched: gives a program that was captured or generated the host that launches its kernels.

A captured program has the operators of the device and nothing that launches them, so that small kernels
follow each other without a gap. On a real machine Python and PyTorch need tens of microseconds for each,
and programs of small kernels wait for them. The host here runs ahead as PyTorch does: one row for each
launch, in the order of the program, and nothing holds it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.errors import ConfigError
from chakrakit.operators import Work, json_list, operator_of
from chakrakit.passes.base import Pass, map_bodies, texts_of, with_nodes
from chakrakit.trace.model import COMMUNICATION, EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.placement import implied_order, on_host
from chakrakit.trace.sets import TraceSet

_LIST = "[[["
"""How recorded shapes begin where the first argument is a list of tensors."""
_COPY, _TENSORS = "is_copy", "list_tensors"
"""Attributes that say of a row without name and arguments what its launch costs."""


@dataclass(frozen=True)
class Launched(Pass):
    """Add the host that launches a captured program: a row before each kernel, one after another.

    `launch_us` is what an operator costs the host, with its share of Python and of autograd; `copy_us` the
    same of a cast or a copy, most of which are made without Python; `optimizer_us` in an optimizer's loop;
    `parameter_us` what an optimizer over lists costs for each of its parameters, with the module that holds
    it and its gradient's accumulation. `gap_us` passes on the device between an operator's kernels and the
    next one's, even where those were launched long before. The defaults were fitted on eager programs on one
    H200's host (docs/simulator.md). Bodies whose kernels have launches already stay as they are.
    """

    name: ClassVar[str] = "launched"
    preserves: ClassVar[str] = (
        "all nodes with their work and dependencies; rows of the host are added"
    )
    launch_us: float = 30.6
    copy_us: float = 14.4
    optimizer_us: float = 13.8
    parameter_us: float = 48.9
    gap_us: float = 2.0

    def __post_init__(self) -> None:
        for name in ("launch_us", "copy_us", "optimizer_us", "parameter_us", "gap_us"):
            if not 0 <= getattr(self, name) < 1e6:
                raise ConfigError(
                    f"{name}: {getattr(self, name)} is not a time of a launch; give 0 to 1e6"
                )

    def apply(self, traces: TraceSet) -> TraceSet:
        """The traces with a host."""
        return map_bodies(traces, self._launched)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many rows were added to the bodies."""
        nodes = [sum(len(t.body_at(i)) for i in range(t.body_count)) for t in (before, after)]
        return {"launches": nodes[1] - nodes[0]}

    def _launched(self, trace: Trace) -> Trace:
        rows = _kernels(trace)
        if not len(rows):
            return trace
        micros = self._micros(trace, rows)
        first = len(trace)
        waits = [(first + i, int(row)) for i, row in enumerate(rows)]
        waits += [(first + i, first + i + 1) for i in range(len(rows) - 1)]
        waits += _issued(trace, rows, first)
        nanos = np.rint(micros * 1e3).astype(np.int64)
        columns = {
            "name": ["launch"] * len(rows),
            "type": [int(NodeType.COMP_NODE)] * len(rows),
            "is_cpu_op": [True] * len(rows),
            "duration_micros": nanos // 1000,
            "duration_ns": nanos,
        }
        launched = self._in_turn(with_nodes(trace, columns, waits), rows, implied_order(trace))
        if not launched.graph.is_acyclic:
            raise ConfigError(
                "launched: the order of nodes on their streams contradicts their dependencies, so that no "
                "host can have launched them in turn; see `chakra validate`"
            )
        return launched

    def _in_turn(self, trace: Trace, rows: I64, order: tuple[I64, I64]) -> Trace:
        """The trace with a gap between kernels that follow each other on a stream.

        Where edges give the order of streams they give all of it: communication follows in turn as well.
        """
        streams = trace.column("stream", 0)[rows]
        followers = [rows[streams == stream] for stream in np.unique(streams)]
        before, after = (
            np.concatenate([r[part] for r in followers])
            for part in (slice(None, -1), slice(1, None))
        )
        lag = round(self.gap_us * 1e3)
        gaps = Edges.of(before, after, EdgeKind.STREAM, lag=np.full(len(before), lag))
        is_kernel = np.zeros(len(trace), np.bool_)
        is_kernel[rows] = True
        src, dst = order
        others = ~on_host(trace)[src] & ~(is_kernel[src] & is_kernel[dst])
        turns = Edges.of(src[others], dst[others], EdgeKind.STREAM)
        return trace.with_edges(Edges.concat([trace.edges, gaps, turns]))

    def _micros(self, trace: Trace, rows: I64) -> F64:
        """The host's time for each launch; an optimizer's own for its first one."""
        optimizer = (texts_of(trace, "phase") == "optimizer")[rows]
        copies = _copies(trace, rows)
        micros = np.where(copies, self.copy_us, self.launch_us)
        micros = np.where(optimizer, self.optimizer_us, micros)
        if optimizer.any():
            longest = _lists(trace, rows[optimizer]).max()
            micros[np.flatnonzero(optimizer)[0]] += self.parameter_us * longest
        return np.asarray(micros, np.float64)


def _kernels(trace: Trace) -> I64:
    """The rows that a host launches, in order; none where they have launches already."""
    if (trace.edges.kind == EdgeKind.LAUNCH).any():
        return np.zeros(0, np.int64)
    order = _program_order(trace)
    return order[(trace.is_type(NodeType.COMP_NODE) & ~on_host(trace))[order]]


def _program_order(trace: Trace) -> I64:
    """Rows as the file has them, unless one stands there before another that it waits for."""
    if (trace.edges.src < trace.edges.dst).all():
        return np.arange(len(trace))
    return trace.graph.topological_order().astype(np.int64)


def _issued(trace: Trace, rows: I64, first: int) -> list[tuple[int, int]]:
    """What communication waits for: the host has come to it when it has launched the kernel before it."""
    calls = np.flatnonzero(trace.is_type(*COMMUNICATION) & ~on_host(trace))
    turn = np.empty(len(trace), np.int64)
    turn[_program_order(trace)] = np.arange(len(trace))
    place = np.searchsorted(turn[rows], turn[calls]) - 1
    return [(first + int(p), int(c)) for p, c in zip(place, calls, strict=True) if p >= 0]


def launch_facts(trace: Trace) -> dict[str, Mask | I64]:
    """What a host's costs follow from, as columns, for traces that are to lose their names and arguments."""
    rows = _kernels(trace)
    copies, lists = np.zeros(len(trace), np.bool_), np.zeros(len(trace), np.int64)
    copies[rows], lists[rows] = _copies(trace, rows), _lists(trace, rows)
    return {_COPY: copies, _TENSORS: lists}


def _copies(trace: Trace, rows: I64) -> Mask:
    """Which rows are casts and copies."""
    if _COPY in trace.table.column_names:
        return np.asarray(trace.column(_COPY, False)[rows], np.bool_)
    names = trace.names.take(rows).to_pylist()
    return np.array([operator_of(str(name)).work is Work.COPY for name in names], np.bool_)


def _lists(trace: Trace, rows: I64) -> I64:
    """How many tensors the list has that each row works on; 0 for rows that work on single tensors."""
    if _TENSORS in trace.table.column_names:
        return np.asarray(trace.column(_TENSORS, 0)[rows], np.int64)
    if "inputs_shapes" not in trace.table.column_names:
        return np.zeros(len(rows), np.int64)
    shapes = trace.table.column("inputs_shapes").take(rows).to_pylist()
    return np.array([_first_list(text) for text in shapes], np.int64)


def _first_list(shapes: str | None) -> int:
    if not shapes or not shapes.startswith(_LIST):
        return 0
    return len((json_list(shapes) or [[]])[0])
