"""One rank's trace as replay reads it: rows, what runs inside what, which kernels a host row launched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit.arrays import I32, Mask
from chakrakit.errors import ConfigError, TraceError, listed
from chakrakit.replayer.plan import GeneratedCode
from chakrakit.sources.pytorch.linking import link
from chakrakit.sources.pytorch.read import identify
from chakrakit.trace.communication import Binding, match
from chakrakit.trace.model import COMMUNICATION, GENERATED_CODE, EdgeKind, Graph, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import Card, Run, TraceSet
from chakrakit.trace.storage import read

# Global settings of the program that was recorded, as far as its card or its kernels tell.


_KNOWN = frozenset(
    [
        "allow_tf32",
        "cudnn_allow_tf32",
        "float32_matmul_precision",
        "reduced_precision_reduction",
        "deterministic",
        "cudnn_deterministic",
        "cudnn_benchmark",
        "threads",
        "sdp_backends",
        "memory_allocator",
        "allocator",
    ]
)
"""What the runner sets. Autocasting is none of it: the casts it made were recorded as operators."""
_TF32 = re.compile(r"tf32|s1688gemm|tensorop_s1688", re.IGNORECASE)
_PRODUCT = re.compile(r"gemm|xmma|cutlass|nvjet", re.IGNORECASE)


def read_settings(card: Card, kernels: Sequence[str]) -> dict[str, Any]:
    """What the collector wrote down; where it did not, what kernels' names give away."""
    found = card.settings.get("collector")
    told = found.get("settings") if isinstance(found, Mapping) else None
    if isinstance(told, Mapping) and told:
        return {name: value for name, value in told.items() if name in _KNOWN}
    products = [name for name in kernels if _PRODUCT.search(name)]
    return {"allow_tf32": True} if any(_TF32.search(name) for name in products) else {}


@dataclass(frozen=True, eq=False)
class RecordedRows:
    """Rows in order of start. Read-only; every list has one entry per row."""

    rank: int
    trace: Trace
    level: I32 | None = None
    """How many nodes must come before each, of other ranks too; only for traces that never ran."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Global settings of the program, such as which precision products had."""

    def __len__(self) -> int:
        return len(self.trace)

    def place(self, row: int) -> str:
        """How an error names a row."""
        return f"rank {self.rank}, node {self.trace.ids[row]} ({self.names[row]!r})"

    @cached_property
    def names(self) -> list[str]:
        """Names of the rows."""
        found: list[str] = self.trace.names.cast(pa.string()).to_pylist()
        return found

    @cached_property
    def schemas(self) -> list[str]:
        """What `op_schema` says; "" where it says nothing."""
        return self.texts("op_schema")

    @cached_property
    def backends(self) -> list[str]:
        """What `kernel_backend` says, such as triton."""
        return self.texts("kernel_backend")

    @cached_property
    def generated(self) -> dict[str, GeneratedCode]:
        """Kernels that a compiler generated, by the name of their file without its ending."""
        text = self.trace.metadata.attributes.get(GENERATED_CODE, "")
        try:
            return msgspec.json.decode(text, type=dict[str, GeneratedCode]) if text else {}
        except (msgspec.DecodeError, RecursionError) as error:
            raise TraceError(f"rank {self.rank}: {GENERATED_CODE} of its header: {error}") from None

    @cached_property
    def host(self) -> list[bool]:
        """Whether a row ran on the host."""
        found: list[bool] = on_host(self.trace).tolist()
        return found

    @cached_property
    def on_host_only(self) -> bool:
        """Whether nothing ran on a device."""
        return all(self.host)

    @cached_property
    def kernels(self) -> Counter[str]:
        """What ran on the device, by name."""
        return Counter(name for name, host in zip(self.names, self.host, strict=True) if not host)

    @cached_property
    def kernel_ns(self) -> int:
        """How long the device was told to work."""
        return int(self.trace.duration_ns[~np.array(self.host, np.bool_)].sum())

    @cached_property
    def threads(self) -> list[int]:
        """Host thread of each row, 0 where it has none."""
        found: list[int] = self.trace.column("tid", 0).tolist()
        return found

    @cached_property
    def parents(self) -> list[int]:
        """The row a host row runs inside of; -1 for none and for rows of a device."""
        found: list[int] = self.trace.parent.tolist()
        return found

    @cached_property
    def order(self) -> list[int]:
        """Rows by start; a row comes after the one it is inside of."""
        found: list[int] = np.lexsort(
            (np.arange(len(self)), -self.trace.end_ns, self.trace.start_ns)
        ).tolist()
        return found

    @cached_property
    def launched(self) -> dict[int, list[int]]:
        """Host row → the device rows it launched."""
        found: dict[int, list[int]] = {}
        for src, dst in self._edges(EdgeKind.LAUNCH):
            if not self.host[dst]:
                found.setdefault(src, []).append(dst)
        return found

    @cached_property
    def issuers(self) -> dict[int, int]:
        """Communication row → the host row that issued it, where that is another row."""
        edges = {dst: src for src, dst in self._edges(EdgeKind.LAUNCH)}
        rows = np.flatnonzero(self.is_comm)
        return {int(r): edges.get(int(r), self.parents[int(r)]) for r in rows}

    @cached_property
    def comm_rows(self) -> dict[int, list[int]]:
        """Host row → the communication rows that it, or something inside it, issued."""
        found: dict[int, list[int]] = {}
        for row, issuer in self.issuers.items():
            outer = row if self.host[row] and self.schemas[row] else issuer
            while outer >= 0:
                found.setdefault(outer, []).append(row)
                outer = self.parents[outer]
        return found

    @cached_property
    def group_names(self) -> list[str | None]:
        """What `pg_name` says."""
        if "pg_name" not in self.trace.table.column_names:
            return [None] * len(self)
        found: list[str | None] = self.trace.table.column("pg_name").cast(pa.string()).to_pylist()
        return found

    @cached_property
    def main_device(self) -> str:
        """Where the work was done: cuda if any tensor was there."""
        texts = self.texts("inputs_values") + self.texts("outputs_values")
        return "cuda" if any('"cuda' in t for t in texts) or not all(self.host) else "cpu"

    @cached_property
    def is_comm(self) -> Mask:
        """Rows that stand for a collective or a message."""
        return self.trace.is_type(*COMMUNICATION)

    def _edges(self, kind: EdgeKind) -> list[tuple[int, int]]:
        edges = self.trace.edges
        rows = np.flatnonzero(edges.kind == int(kind))
        return list(zip(edges.src[rows].tolist(), edges.dst[rows].tolist(), strict=True))

    def number(self, column: str, row: int, default: int) -> int:
        """What a numeric attribute says of a row."""
        if column not in self._numbers:
            self._numbers[column] = self.trace.column(column, default).tolist()
        return int(self._numbers[column][row])

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        return {}

    def arguments(self, row: int, side: str) -> RecordedArguments:
        """What was recorded of a row's `inputs` or `outputs`."""
        return RecordedArguments(*(self._parsed(f"{side}_{what}", row) for what in _WHAT))

    def _parsed(self, column: str, row: int) -> list[Any]:
        text = self.texts(column)[row]
        try:
            found = msgspec.json.decode(text) if text else []
        except (
            msgspec.DecodeError,
            RecursionError,
        ):  # the latter where lists are nested thousands deep
            raise TraceError(f"{self.place(row)}: {column} is not a list of JSON") from None
        if not isinstance(found, list):
            raise TraceError(f"{self.place(row)}: {column} is not a list")
        return found

    def texts(self, column: str) -> list[str]:
        """What a text attribute says of each row; "" where it says nothing."""
        if column not in self._cache:
            names = self.trace.table.column_names
            if column in names:
                values = self.trace.table.column(column).cast(pa.string()).fill_null("")
                self._cache[column] = values.to_pylist()
            else:
                self._cache[column] = [""] * len(self)
        return self._cache[column]

    @cached_property
    def _cache(self) -> dict[str, list[str]]:
        return {}


_WHAT = ("values", "shapes", "types", "strides")


@dataclass(frozen=True)
class RecordedArguments:
    """Inputs or outputs of an operator: parallel lists, nested where an argument is a list."""

    values: Sequence[Any]
    shapes: Sequence[Any]
    types: Sequence[Any]
    strides: Sequence[Any]

    def __len__(self) -> int:
        return len(self.values)

    def item(self, i: int) -> tuple[Any, Any, str, Any]:
        """Value, shape, type and strides of one argument; what is missing is empty."""
        kind = self.types[i] if i < len(self.types) else ""
        return (
            self.values[i],
            self.shapes[i] if i < len(self.shapes) else [],
            kind if isinstance(kind, str) else "",
            self.strides[i] if i < len(self.strides) else [],
        )


# What is to be replayed: a linked run, or PyTorch's own files, and of those one step.


def load_traces(path: str) -> TraceSet:
    """A trace behind a path; files that PyTorch's profiler wrote are linked first."""
    place = Path(path)
    if place.is_file():
        recorded = identify(place) is not None
    else:
        recorded = place.is_dir() and not any(place.glob("*.et*")) and _has_recording(place)
    return link([place])[0] if recorded else read(path)


def _has_recording(folder: Path) -> bool:
    return any(identify(p) is not None for p in sorted(folder.rglob("*.json*")) if p.is_file())


def one_step(traces: TraceSet, step: int) -> dict[int, Trace]:
    """Each rank's rows of one step, with times in the nodes; all rows where no steps are marked."""
    found = {}
    for rank in traces.ranks:
        trace = traces.timed_trace(rank) if isinstance(traces, Run) else traces.trace(rank)
        if not len(trace):
            raise TraceError(f"rank {rank} has no nodes")
        found[rank] = _cut(trace, step, rank)
    return found


def _cut(trace: Trace, step: int, rank: int) -> Trace:
    numbers = trace.step
    known = np.unique(numbers[numbers >= 0])
    if step < 0:  # steps that were only found, since work repeats, are not cut apart unasked
        marked = len(known) > 1 and trace.has("step").any()
        return trace.select(numbers == known[-1]) if marked else trace
    if step not in known:
        raise ConfigError(
            f"--step {step}: no such step of rank {rank}; its steps: {listed(known) or 'none'}"
        )
    return trace.select(numbers == step)


# The order of communication in traces that never ran: no rank may wait for what comes after.


Levels = dict[int, I32]


def issue_levels(traces: Mapping[int, Trace]) -> Levels:
    """For every rank and row, how many nodes must come before it, over messages between ranks too.

    Ranks that issue a group's collectives by level agree on their order, and a receive comes after
    all that its sender must do first.
    """
    sizes = [len(t) for t in traces.values()]
    begin = dict(zip(traces, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
    src = [t.edges.src + begin[r] for r, t in traces.items()]
    dst = [t.edges.dst + begin[r] for r, t in traces.items()]
    sent, received = _messages(traces, begin)
    graph = Graph(sum(sizes), np.concatenate([*src, sent]), np.concatenate([*dst, received]))
    circle = graph.find_cycle()
    if circle is not None and len(circle):
        raise TraceError(f"ranks wait for each other's messages in a circle of {len(circle)} nodes")
    level = graph.levels()
    return {r: level[begin[r] : begin[r] + len(t)] for r, t in traces.items()}


def _messages(traces: Mapping[int, Trace], begin: Mapping[int, int]) -> tuple[I32, I32]:
    """Rows of matched sends and receives in the joint numbering."""
    joint = TraceSet(list(traces.values()), {r: Binding(i) for i, r in enumerate(traces)})
    matching = match(joint.communication)
    own = np.repeat([begin[r] for r in joint.ranks], np.diff(matching.offset))
    rows = own + matching.column("row")
    sends = np.flatnonzero(matching.column("is_send") & (matching.partner >= 0))
    return rows[sends].astype(np.int32), rows[matching.partner[sends]].astype(np.int32)
