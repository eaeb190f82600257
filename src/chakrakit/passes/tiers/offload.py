"""Offload: weights that live in a store and come to the device layer by layer, before they are needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, TraceError
from chakrakit.operators import element_bytes
from chakrakit.passes.base import Pass, map_bodies, texts_of, with_nodes, with_run_times
from chakrakit.trace.memory import StatePart, model_state, with_model_state
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.placement import issue_order, kernels
from chakrakit.trace.sets import TraceSet

_SHAPES = re.compile(r"\[([0-9, ]+)\]")
GRADIENTS = "weight"
"""The phase of products that compute gradients of weights."""
YIELDS = -1
"""The class on links of loads that give way: below that of all traffic that names none."""


@dataclass(frozen=True)
class LayerVisit:
    """The rows of one visit of a layer, in order of issue, and the bytes of its weights."""

    number: int
    first: int
    last: int
    bytes: int


@dataclass(frozen=True)
class Offload(Pass):
    """Keep the weights of layers in a store and load each layer before it runs.

    `tier` is a store of the machine; `keep` the share of every layer that stays on the device, and `ahead`
    how many layers are loaded before their turn. A layer comes in `chunks` pieces, one after another;
    with `yields`, their traffic gives way to all other on links, so that a collective waits for one piece
    at the most. `experts` offloads the weights of routed experts alone. Weights are the second inputs of
    matrix products of nodes that name their `layer`, but for those that compute a weight's gradient (phase
    `weight`), which read none.
    """

    name: ClassVar[str] = "offload"
    preserves: ClassVar[str] = (
        "every node with its work; loads are added, and parameters held are fewer"
    )
    tier: str = "host"
    keep: float = 0.0
    ahead: int = 1
    chunks: int = 1
    yields: bool = False
    experts: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.keep < 1:
            raise ConfigError(f"keep={self.keep}; it should be from 0 to below 1")
        if self.ahead < 1 or self.chunks < 1:
            raise ConfigError(f"ahead={self.ahead}, chunks={self.chunks}; give 1 or more of each")

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces with loads before every layer."""
        return map_bodies(with_run_times(traces), self._offloaded)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """Bytes that one copy of each body loads, and the parameters it holds before and after."""
        bodies = [(before.body_at(b), after.body_at(b)) for b in range(after.body_count)]
        loads = [
            b.is_type(NodeType.MEM_LOAD_NODE) & (texts_of(b, "storage") == self.tier)
            for _, b in bodies
        ]
        pairs = zip(bodies, loads, strict=True)
        return {
            "loaded_bytes": sum(int(b.column("tensor_size", 0)[m].sum()) for (_, b), m in pairs),
            "parameter_bytes": {
                when: sum(_parameters(pair[side]) for pair in bodies)
                for side, when in enumerate(("before", "after"))
            },
        }

    def _offloaded(self, trace: Trace) -> Trace:
        layers = _layers(trace, self.experts)
        if not layers:
            what = "experts" if self.experts else "matrix products with shapes"
            raise TraceError(f"offload: no node names its `layer` and has weights ({what})")
        place = len(trace)
        columns: dict[str, list[Any]] = {
            n: [] for n in ("name", "type", "storage", "tensor", "tensor_size", "is_cpu_op")
        }
        if self.yields:
            columns["link_priority"] = []
        waits: list[tuple[int, int]] = []
        before = -1
        for turn, layer in enumerate(layers):
            size = self._moved(layer)
            for chunk in range(self.chunks):
                part = size // self.chunks + (chunk < size % self.chunks)
                if not part:
                    continue
                self._add(columns, layer, chunk, part)
                if before >= 0:
                    waits.append((before, place))
                if not chunk and turn > self.ahead:  # its buffer is free again
                    waits.append((layers[turn - self.ahead - 1].last, place))
                waits.append((place, layer.first))
                before, place = place, place + 1
        return with_nodes(self._held(trace, layers), columns, waits)

    def _add(self, columns: dict[str, list[Any]], layer: LayerVisit, chunk: int, size: int) -> None:
        values = {
            "name": f"layers.{layer.number}.load",
            "type": int(NodeType.MEM_LOAD_NODE),
            "storage": self.tier,
            "tensor": f"layers.{layer.number}.weights/{chunk}",
            "tensor_size": size,
            "is_cpu_op": True,
            "link_priority": YIELDS,
        }
        for name, column in columns.items():
            column.append(values[name])

    def _moved(self, layer: LayerVisit) -> int:
        return int(layer.bytes * (1 - self.keep))

    def _held(self, trace: Trace, layers: list[LayerVisit]) -> Trace:
        """The trace whose state holds fewer parameters: each layer's once, however often it is visited.

        Buffers for the layers under way, one that runs and `ahead` that come, are parameters too.
        """
        moved = sum({w.number: self._moved(w) for w in layers}.values())
        sizes = np.cumsum([0, *map(self._moved, layers)])
        several = min(self.ahead + 1, len(layers))
        buffers = int((sizes[several:] - sizes[:-several]).max())
        parts = model_state(trace) or [StatePart(kind="parameters", bytes=moved)]
        return with_model_state(trace, [_less(part, moved - min(moved, buffers)) for part in parts])


def _less(part: StatePart, moved: int) -> StatePart:
    if part.kind != "parameters":
        return part
    return StatePart(kind=part.kind, bytes=max(0, part.bytes - moved))


def _parameters(trace: Trace) -> int:
    return sum(part.bytes for part in model_state(trace) if part.kind == "parameters")


def _layers(trace: Trace, experts: bool) -> list[LayerVisit]:
    """The visits of layers that have weights, in order of issue."""
    if "layer" not in trace.column_names:
        return []
    rows = np.flatnonzero(kernels(trace) & trace.has("layer"))
    rows = rows[np.argsort(issue_order(trace)[rows], kind="stable")]
    number = trace.column("layer", -1)[rows]
    weights = _weight_bytes(trace, rows, experts)
    turns = _turns(trace)[rows]
    visits = []
    for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(number)) + 1):
        using = part[weights[part] > 0]
        if len(using):
            # Forward and backward of the last layer, or micro-batches, follow each other: it comes once.
            total = int(np.bincount(turns[part], weights[part]).max())
            visits.append(
                LayerVisit(int(number[part[0]]), int(rows[using[0]]), int(rows[using[-1]]), total)
            )
    return visits


def _turns(trace: Trace) -> I64:
    """A number for each phase and micro-batch: in one of them a layer uses every weight once."""
    names = np.unique(texts_of(trace, "phase").astype(str), return_inverse=True)[1]
    batch = trace.column("micro_batch", -1) + 1
    return np.asarray(names * (batch.max(initial=0) + 1) + batch, np.int64)


def _weight_bytes(trace: Trace, rows: I64, experts: bool) -> I64:
    """The bytes of the second input of each matrix product among these rows that reads a weight."""
    shapes, kinds = texts_of(trace, "inputs_shapes"), texts_of(trace, "op_type")
    dtypes, names = texts_of(trace, "dtype"), trace.names.to_pylist()
    reads = (kinds == "matmul") & (texts_of(trace, "phase") != GRADIENTS)
    out = np.zeros(len(rows), np.int64)
    for i, row in enumerate(rows.tolist()):
        sides = list(_SHAPES.findall(shapes[row])) if reads[row] else []
        if len(sides) > 1 and (not experts or ".experts." in str(names[row])):
            elements = np.prod([int(n) for n in sides[1].split(",") if n.strip()], dtype=np.int64)
            out[i] = int(elements * element_bytes(dtypes[row] or "bf16"))
    return out
