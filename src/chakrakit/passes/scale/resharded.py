"""Changes a body to another number of shards: sizes of collectives, and the optimizer's work on its shard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.errors import TraceError
from chakrakit.operators import element_bytes
from chakrakit.passes.base import coded, texts_of, with_own_ns
from chakrakit.trace.communication import group_names
from chakrakit.trace.model import CollectiveType, NodeType, Trace

_SCATTERS = [int(CollectiveType.REDUCE_SCATTER), int(CollectiveType.REDUCE_SCATTER_BLOCK)]
WHOLE = "unsharded"
KEPT = ("comm_size", "out_size", "num_ops", "tensor_size", "own_ns")
"""The columns whose wholes a list in `unsharded` holds, in this order; 0 where the whole follows from the
share."""


@dataclass(frozen=True)
class Resharded:
    """Changes the number of ranks of groups in a body, and with it all shards.

    What is gathered or scattered stays whole; a member's part is a share of its elements, rounded up.
    An optimizer works on shards, and its work and time go down as their number goes up. Where the
    whole does not follow from the share, it is kept in the attribute `unsharded`, so that scaling
    back gives what was there.
    """

    ranks: Mapping[str, tuple[int, int]]
    """Group as the body calls it → its size before and after."""
    replicas: tuple[int, int]
    optimizer: bool
    """Whether the optimizer works on shards of these groups."""

    def __call__(self, trace: Trace) -> Trace:
        """The body with its new shards."""
        shares = _Shares(trace)
        before, after = self._sizes(trace)
        kind = trace.column("comm_type", -1).astype(np.int64)
        gathers = (before > 0) & (kind == CollectiveType.ALL_GATHER)
        scatters = (before > 0) & np.isin(kind, _SCATTERS)
        shares.of("comm_size", gathers, "out_size", before, after)
        shares.of("out_size", scatters & trace.has("out_size"), "comm_size", before, after)
        if self.optimizer:
            self._optimizers(trace, shares)
        return shares.applied()

    def _optimizers(self, trace: Trace, shares: _Shares) -> None:
        """Scales optimizer nodes by the weights they say they update, or else by the number of replicas."""
        rows = _optimizer(trace)
        before, after = (np.full(len(trace), n, np.int64) for n in self.replicas)
        shares.of("own_ns", rows, "", before, after)
        elements = self._elements(trace)
        for name in ("num_ops", "tensor_size"):
            by_elements = (
                rows & (elements[0] > 0) & (_values(trace, name) % np.maximum(elements[0], 1) == 0)
            )
            shares.of(name, rows & ~by_elements, "", before, after)
            shares.put(
                name, by_elements, _values(trace, name) // np.maximum(elements[0], 1) * elements[1]
            )

    def _elements(self, trace: Trace) -> I64:
        """Elements that each node updates before and after, by its `shards`; 0 where it has none."""
        counts = np.zeros((2, len(trace)), np.int64)
        texts, codes = coded(texts_of(trace, "shards"))
        for number, text in enumerate(texts):
            counts[:, codes == number] = np.array(self._shares_in(text)).reshape(2, 1)
        return counts

    def _shares_in(self, text: str) -> tuple[int, int]:
        """Sums the shares in a text like `dp 4096,4096 edp 512` before and after; 0 for any other text."""
        words = text.split()
        total = [0, 0]
        for group, weights in zip(words[::2], words[1::2], strict=False):
            if group not in self.ranks or not re.fullmatch(r"\d{1,18}(,\d{1,18})*", weights):
                return 0, 0
            for side, ranks in enumerate(self.ranks[group]):
                total[side] += sum(-(-int(n) // ranks) for n in weights.split(","))
        return total[0], total[1]

    def _sizes(self, trace: Trace) -> tuple[I64, I64]:
        """For each row, how many ranks its group had and has; 0 where that is the same."""
        before, after = np.zeros((2, len(trace)), np.int64)
        rows = np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE))
        names = group_names(trace, rows).to_pylist()
        sizes = np.array([self.ranks.get(name, (0, 0)) for name in names], np.int64).reshape(-1, 2)
        sizes[sizes[:, 0] == sizes[:, 1]] = 0
        before[rows], after[rows] = sizes[:, 0], sizes[:, 1]
        return before, after


def _optimizer(trace: Trace) -> Mask:
    """Nodes of the optimizer that do work on parameters."""
    works = (trace.column("num_ops", 0) > 0) | (trace.column("tensor_size", 0) > 0)
    return np.asarray(
        (texts_of(trace, "phase") == "optimizer") & works & trace.is_type(NodeType.COMP_NODE)
    )


class _Shares:
    """Collects new values of columns, and the wholes that cannot be found again from them."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._columns: dict[str, I64] = {}
        self._wholes = _wholes(trace)

    def of(self, name: str, rows: Mask, whole_in: str, before: I64, after: I64) -> None:
        """Gives rows their new share of a whole: from a column, from `unsharded`, or all shares together."""
        at = np.flatnonzero(rows)
        if not len(at):
            return
        values = self._columns.setdefault(name, _values(self.trace, name).copy())
        new_shares = self._shares_of_whole(whole_in, at, values[at], before, after)
        values[at[new_shares >= 0]] = new_shares[new_shares >= 0]
        for row in at[new_shares < 0].tolist():
            whole = self._wholes.pop((row, name), int(values[row]) * int(before[row]))
            if whole >= 2**63:
                raise TraceError(
                    f"node {self.trace.ids[row]}: {name} of all its shards together is {whole}, "
                    "which no trace can hold"
                )
            values[row] = -(-whole // int(after[row]))
            if int(values[row]) * int(after[row]) != whole:
                self._wholes[row, name] = whole

    def put(self, name: str, rows: Mask, values: I64) -> None:
        """Gives rows these values."""
        if rows.any():
            self._columns.setdefault(name, _values(self.trace, name).copy())[rows] = values[rows]

    def _shares_of_whole(self, column: str, at: I64, shares: I64, before: I64, after: I64) -> I64:
        """Returns new shares of the whole in another column.

        -1 where the old share does not follow from that whole.
        """
        if not column:
            return np.full(len(at), -1, np.int64)
        whole = _values(self.trace, column)[at]
        each = _element_sizes(self.trace, at)
        elements = whole // each
        sound = (elements * each == whole) & (-(-elements // before[at]) * each == shares)
        return np.where(sound, -(-elements // after[at]) * each, -1)

    def applied(self) -> Trace:
        """Returns the trace with all collected values."""
        own_ns = self._columns.pop("own_ns", None)
        trace = self.trace if own_ns is None else with_own_ns(self.trace, own_ns)
        columns: dict[str, object] = {
            name: pa.array(values, mask=~trace.has(name))
            for name, values in self._columns.items()
            if name in trace.table.column_names
        }
        if self._wholes or WHOLE in trace.table.column_names:
            columns[WHOLE] = self._wholes_column()
        return trace.with_columns(columns)

    def _wholes_column(self) -> pa.Array | None:
        if not self._wholes:
            return None
        lists: list[list[int] | None] = [None] * len(self.trace)
        for row, _ in self._wholes:
            lists[row] = [self._wholes.get((row, n), 0) for n in KEPT]
        return pa.array(lists, pa.list_(pa.int64()))


def _wholes(trace: Trace) -> dict[tuple[int, str], int]:
    """(row, column) → the whole that an earlier scaling kept."""
    if WHOLE not in trace.table.column_names:
        return {}
    wholes_of_rows = enumerate(trace.table.column(WHOLE).to_pylist())
    return {
        (row, name): whole
        for row, wholes in wholes_of_rows
        for name, whole in zip(KEPT, wholes or (), strict=False)
        if whole
    }


def _values(trace: Trace, name: str) -> I64:
    values: I64 = trace.own_ns if name == "own_ns" else trace.column(name, 0).astype(np.int64)
    return values


def _element_sizes(trace: Trace, rows: I64) -> I64:
    """Bytes of an element of each row's message; 1 where nobody says."""
    if "comm_dtype" not in trace.table.column_names:
        return np.ones(len(rows), np.int64)
    names = trace.table.column("comm_dtype").take(pa.array(rows)).cast(pa.string()).fill_null("")
    return np.array([max(1, int(element_bytes(n))) for n in names.to_pylist()], np.int64)
