"""The communication of a body, reduced to what the rules across ranks compare."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I32, I64, U64, Mask
from chakrakit.trace.communication import UNKNOWN, group_names
from chakrakit.trace.model import COMMUNICATION, NodeType, Trace
from chakrakit.trace.validation.findings import shown
from chakrakit.trace.validation.spool import short_names

_COLUMNS: dict[str, int] = {
    "comm_type": UNKNOWN,
    "comm_size": UNKNOWN,
    "comm_src": UNKNOWN,
    "comm_dst": UNKNOWN,
    "comm_tag": 0,
    "comm_seq": UNKNOWN,
}


class CommunicationReader:
    """Takes the communication nodes out of the pieces of a body; some 90 bytes are kept of each."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []
        self._rows = 0

    def add(self, piece: Trace) -> None:
        """The next nodes of the file."""
        rows = np.flatnonzero(piece.is_type(*COMMUNICATION))
        if len(rows):
            self._parts.append(_reduced(piece, rows, self._rows))
        self._rows += len(piece)

    def finish(self) -> Communication:
        """All of the body's communication."""
        if not self._parts:
            self._parts = [_reduced(Trace.from_columns({"name": []}), np.zeros(0, np.int64), 0)]
        return Communication(pa.concat_tables(self._parts).unify_dictionaries().combine_chunks())


def _reduced(piece: Trace, rows: I64, base: int) -> pa.Table:
    split = piece.has("in_splits") | piece.has("out_splits")
    return pa.table(
        {
            "row": rows + base,
            "id": piece.ids[rows],
            "type": piece.types[rows],
            "start_ns": piece.start_ns[rows],
            "split": split[rows],
            "group": group_names(piece, rows).dictionary_encode(),
            "name": short_names(piece.names).take(pa.array(rows)),
            **{c: piece.column(c, d)[rows].astype(np.int64) for c, d in _COLUMNS.items()},
        }
    )


@dataclass(frozen=True)
class Calls:
    """Collectives of one group as a body issues them. Equal `key` means nothing to complain about."""

    row: I64
    id: U64
    kind: I64
    size: I64
    seq: I64
    split: Mask
    numbered: bool
    """Whether all of them have a number (comm_seq); then they are in the order of the numbers."""

    @cached_property
    def key(self) -> bytes:
        """A digest of all that is compared between members of a group."""
        found = blake2b(b"%d %d" % (len(self), self.numbered), digest_size=16)
        for values in (self.kind, self.size, self.split, *([self.seq] if self.numbered else [])):
            found.update(values.tobytes())
        return found.digest()

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Channel:
    """Sends, or receives, of a body with one peer (in the body's numbers) and tag, in issue order."""

    is_send: bool
    peer: int
    tag: int
    row: I64
    id: U64
    size: I64


class Communication:
    """One body's collectives by group and messages by channel."""

    def __init__(self, table: pa.Table) -> None:
        # By recorded start, else by id: the order in which a rank issues its work.
        order = np.lexsort((_array(table, "id"), _array(table, "start_ns")))
        self._table = table.take(pa.array(order))
        self.groups: list[str] = [str(g) for g in _dictionary(self._table, "group")]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @cached_property
    def _codes(self) -> I32:
        codes = self._table.column("group").combine_chunks()
        indices = codes.indices if isinstance(codes, pa.DictionaryArray) else codes.chunk(0).indices
        array: I32 = indices.to_numpy(zero_copy_only=False)
        return np.where(self._of_type(NodeType.COMM_COLL_NODE), array, -1)

    def _of_type(self, kind: NodeType) -> Mask:
        mask: Mask = _array(self._table, "type") == kind
        return mask

    @cached_property
    def used_groups(self) -> list[str]:
        """The groups its collectives name, in the body's own names."""
        return [self.groups[c] for c in np.unique(self._codes).tolist() if c >= 0]

    def name(self, row: int) -> str:
        """The name of the node in this row, safe to print."""
        at = np.flatnonzero(_array(self._table, "row") == row)[0]
        return shown(self._table.column("name")[int(at)].as_py() or "")

    def calls(self, groups: tuple[str, ...]) -> Calls:
        """The collectives of these groups, taken for one."""
        wanted = [self.groups.index(g) for g in groups]
        chosen = np.flatnonzero(np.isin(self._codes, wanted))
        seq = self._take("comm_seq", chosen)
        numbered = bool(len(chosen)) and bool((seq != UNKNOWN).all())
        if numbered:
            chosen = chosen[np.argsort(seq, kind="stable")]
        columns = ("row", "id", "comm_type", "comm_size", "comm_seq", "split")
        row, node, kind, size, number, split = (self._take(c, chosen) for c in columns)
        return Calls(row, node, kind, size, number, split, numbered)

    def _take(self, name: str, chosen: NDArray[Any]) -> NDArray[Any]:
        taken: NDArray[Any] = _array(self._table, name)[chosen]
        return taken

    @cached_property
    def channels(self) -> list[Channel]:
        """Messages to and from each peer, by tag; those that do not name their peer are left out."""
        found = []
        for kind, end in (
            (NodeType.COMM_SEND_NODE, "comm_dst"),
            (NodeType.COMM_RECV_NODE, "comm_src"),
        ):
            peer, tag = _array(self._table, end), _array(self._table, "comm_tag")
            chosen = np.flatnonzero(self._of_type(kind) & (peer >= 0))
            keys = np.stack([peer[chosen], tag[chosen]])
            pairs, which = np.unique(keys, axis=1, return_inverse=True)
            order = np.argsort(which.reshape(-1), kind="stable")
            bounds = np.searchsorted(which.reshape(-1)[order], np.arange(pairs.shape[1] + 1))
            for i, (p, t) in enumerate(pairs.T.tolist()):
                rows = chosen[order[bounds[i] : bounds[i + 1]]]
                taken = (self._take(c, rows) for c in ("row", "id", "comm_size"))
                found.append(Channel(kind == NodeType.COMM_SEND_NODE, p, t, *taken))
        return found

    @cached_property
    def own_ends(self) -> list[tuple[int, I64, U64, bool]]:
        """What sends say is their source and receives their destination: (said, rows, ids, is_send)."""
        found = []
        for kind, end in (
            (NodeType.COMM_SEND_NODE, "comm_src"),
            (NodeType.COMM_RECV_NODE, "comm_dst"),
        ):
            said = _array(self._table, end)
            chosen = self._of_type(kind) & (said >= 0)
            for value in np.unique(said[chosen]).tolist():
                rows = np.flatnonzero(chosen & (said == value))
                is_send = kind == NodeType.COMM_SEND_NODE
                found.append((value, self._take("row", rows), self._take("id", rows), is_send))
        return found


def _array(table: pa.Table, name: str) -> NDArray[Any]:
    array: NDArray[Any] = table.column(name).to_numpy()
    return array


def _dictionary(table: pa.Table, name: str) -> list[str]:
    chunks = table.column(name).chunks
    return list(chunks[0].dictionary.to_pylist()) if chunks else []
