"""Lists of nodes as columns: a block's node list becomes arrays once, and is tiled from then on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError
from chakrakit.workloads.layers import INPUT, BlockNode

PHASES = ("forward", "backward", "weight", "recompute", "optimizer", "sync")
"""Values of the attribute `phase`; `weight` is a backward that only makes weights' gradients."""

COLUMNS = (
    "op",
    "flops",
    "vector_ops",
    "bytes",
    "comm",
    "comm_size",
    "out_size",
    "role",
    "dtype",
    "alloc",
    "free",
    "stays",
    "core",
    "routed",
    "replicas",
    "phase",
    "name",
    "shapes",
    "layer",
)


class Codes:
    """Texts by number, in order of first use."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        for text in texts:
            self.number(text)

    def number(self, text: str) -> int:
        """The text's number, a new one if it is new."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


@dataclass
class TextTables:
    """The texts that columns hold as numbers, shared by all programs of a workload."""

    ops: Codes = field(default_factory=lambda: Codes([""]))
    roles: Codes = field(default_factory=lambda: Codes([""]))
    dtypes: Codes = field(default_factory=lambda: Codes([""]))
    names: Codes = field(default_factory=Codes)
    shapes: Codes = field(default_factory=lambda: Codes([""]))


@dataclass(frozen=True, eq=False)
class NodeColumns:
    """Nodes as columns.

    `deps` are dependencies among them, `inputs` the rows that wait for the input, `saved` pairs (place in
    the forward list, row).
    """

    columns: dict[str, I64]
    deps: I64
    inputs: I64
    saved: I64

    def __len__(self) -> int:
        return len(self.columns["op"])


def table_of(nodes: Sequence[BlockNode], book: TextTables, phase: str) -> NodeColumns:
    """A list of nodes as columns."""
    values = [_values(n, book, phase) for n in nodes]
    try:
        array = np.array(values, np.int64).reshape(len(nodes), len(COLUMNS))
    except OverflowError:
        large = max(nodes, key=lambda node: max(node.flops, node.bytes))
        raise ConfigError(
            f"{large.name} has numbers beyond 64 bits; check the sizes of the model"
        ) from None
    dependencies = [(d, i) for i, n in enumerate(nodes) for d in n.deps if d >= 0]
    return NodeColumns(
        {c: np.ascontiguousarray(array[:, k]) for k, c in enumerate(COLUMNS)},
        _pairs(dependencies),
        np.array([i for i, n in enumerate(nodes) if INPUT in n.deps], np.int64),
        _pairs([(s, i) for i, n in enumerate(nodes) for s in n.saved]),
    )


def _pairs(pairs: Sequence[tuple[int, int]]) -> I64:
    return np.array(pairs, np.int64).reshape(-1, 2)


def _values(n: BlockNode, book: TextTables, phase: str) -> tuple[int, ...]:
    node_phase = (
        "recompute" if n.recompute else "weight" if n.weight and phase == "backward" else phase
    )
    return (
        book.ops.number(n.op),
        n.flops,
        n.vector_ops,
        n.bytes,
        -1 if n.comm is None else int(n.comm),
        n.comm_size,
        n.out_size,
        book.roles.number(n.role),
        book.dtypes.number(n.dtype),
        n.alloc,
        n.free,
        n.stays,
        n.core,
        n.routed,
        n.replicas,
        PHASES.index(node_phase),
        book.names.number(n.name),
        book.shapes.number(n.shapes),
        -1,
    )


def picked(table: NodeColumns, rows: Mask) -> tuple[NodeColumns, I64]:
    """Returns some rows with the dependencies among them, and the new place of each old row (or -1)."""
    place = np.where(rows, np.cumsum(rows) - 1, -1)
    dependencies = place[table.deps]
    saved = np.stack([table.saved[:, 0], place[table.saved[:, 1]]], axis=1)
    inputs = place[table.inputs]
    part = NodeColumns(
        {c: v[rows] for c, v in table.columns.items()},
        dependencies[(dependencies >= 0).all(axis=1)],
        inputs[inputs >= 0],
        saved[saved[:, 1] >= 0],
    )
    return part, place


class TiledColumns(Mapping[str, I64]):
    """Rows of a small table, repeated.

    A column is made when it is asked for: each is as long as a program, there are many, and most questions
    need a few of them.
    """

    def __init__(self, table: Mapping[str, I64], rows: I64, columns: Mapping[str, I64]) -> None:
        """`rows` of `table`, and the columns that are a program's own."""
        self._table, self._rows, self._columns = table, rows, columns

    def __getitem__(self, name: str) -> I64:
        column = self._columns.get(name)
        return self._table[name][self._rows] if column is None else column

    def __iter__(self) -> Iterator[str]:
        return iter((*self._table, *self._columns))

    def __len__(self) -> int:
        return len(self._table) + len(self._columns)

    def some(self, rows: Mask | I64) -> TiledColumns:
        """Some of the rows, or all in another order."""
        own = {name: column[rows] for name, column in self._columns.items()}
        return TiledColumns(self._table, self._rows[rows], own)

    def with_columns(self, **columns: I64) -> TiledColumns:
        """More columns."""
        return TiledColumns(self._table, self._rows, {**self._columns, **columns})
