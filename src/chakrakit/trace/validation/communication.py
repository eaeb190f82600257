"""The communication of bodies and ranks, as the rules across ranks compare it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, U64, Mask
from chakrakit.trace.communication import Binding, Calls, CallsReader, Communication, Groups
from chakrakit.trace.model import Trace
from chakrakit.trace.validation.findings import printable, short_names


class CommunicationReader:
    """Takes the communication nodes out of the pieces of a body."""

    def __init__(self) -> None:
        self._calls = CallsReader()
        self._rows: list[I64] = []
        self._names: list[pa.Array] = []
        self._split: list[Mask] = []

    def add(self, piece: Trace) -> None:
        """The next nodes of the file."""
        base = self._calls.rows
        rows = self._calls.add(piece)
        if len(rows):
            self._rows.append(rows + base)
            self._names.append(short_names(piece.names).take(pa.array(rows)))
            self._split.append((piece.has("in_splits") | piece.has("out_splits"))[rows])

    def finish(self) -> BodyCommunication:
        """All of the body's communication."""
        rows = np.concatenate([np.zeros(0, np.int64), *self._rows])
        split = np.concatenate([np.zeros(0, np.bool_), *self._split])
        names = [chunk for part in self._names for chunk in _chunks(part)]
        return BodyCommunication(
            self._calls.finish(), rows, split, pa.chunked_array(names, pa.string())
        )


def _chunks(names: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    plain = names.cast(pa.string())
    return list(plain.chunks) if isinstance(plain, pa.ChunkedArray) else [plain]


@dataclass(frozen=True)
class BodyCommunication:
    """A body's calls; `split` and `names` are theirs by `rows`, in the order of the file."""

    calls: Calls
    rows: I64
    split: Mask
    names: pa.ChunkedArray

    def __len__(self) -> int:
        return len(self.calls)

    def name(self, row: int) -> str:
        """The name of the node in this row, safe to print."""
        return printable(self.names[int(np.searchsorted(self.rows, row))].as_py() or "")

    def in_role(self, calls: Calls, role: int | None) -> GroupCalls:
        """The collectives of one group, in the order of their numbers; none for the role None."""
        at = np.zeros(0, np.int64) if role is None else calls.in_role(role)
        row = calls.row[at]
        split = self.split[np.searchsorted(self.rows, row)]
        numbered = bool(len(at)) and bool(calls.recorded[at].all())
        kind, size, seq = calls.kind[at], calls.size[at], calls.number[at]
        return GroupCalls(row, calls.id[at], kind, size, seq, split, numbered)

    @cached_property
    def own_ends(self) -> list[tuple[int, I64, U64, bool]]:
        """The rank that sends name as source, and receives as destination: (rank, rows, ids, is_send)."""
        ends, calls = [], self.calls
        for is_send, recorded in ((True, calls.src), (False, calls.dst)):
            is_named = ~calls.collective & (calls.is_send == is_send) & (recorded >= 0)
            for value in np.unique(recorded[is_named]).tolist():
                at = np.flatnonzero(is_named & (recorded == value))
                ends.append((value, calls.row[at], calls.id[at], is_send))
        return ends


@dataclass(frozen=True)
class GroupCalls:
    """Collectives of one group as a rank issues them. Equal `key` means nothing to complain about."""

    row: I64
    id: U64
    kind: I64
    size: I64
    seq: I64
    split: Mask
    numbered: bool
    """Whether all of them have a recorded number (comm_seq)."""

    @cached_property
    def key(self) -> bytes:
        """A digest of all that is compared between members of a group."""
        digest = blake2b(b"%d %d" % (len(self), self.numbered), digest_size=16)
        for values in (self.kind, self.size, self.split, *([self.seq] if self.numbered else [])):
            digest.update(values.tobytes())
        return digest.digest()

    def __len__(self) -> int:
        return len(self.row)


@dataclass
class RanksToCheck:
    """What the rules across ranks compare."""

    bodies: list[BodyCommunication]
    bindings: Mapping[int, Binding]
    groups: Groups
    alone: bool = False
    """A trace that is not of a set: that the ranks it communicates with are not here says nothing."""
    size: int = field(init=False)

    def __post_init__(self) -> None:
        group_ranks = [r for ranks in self.groups.values() for r in ranks]
        self.size = max([*self.bindings, *group_ranks], default=-1) + 1
        # Ranks that share a body ask for the same; without a bound all calls would be kept twice.
        self._in_role = lru_cache(256)(self._read_role)

    @cached_property
    def communication(self) -> Communication:
        """Who calls whom."""
        return Communication(
            self.bindings, self.groups, self.size, lambda body: self.bodies[body].calls
        )

    def body(self, rank: int) -> BodyCommunication:
        """What a rank's body communicates."""
        return self.bodies[self.bindings[rank].body]

    def calls(self, rank: int) -> Calls:
        """What a rank communicates, in the names of its body."""
        return self.communication.calls(self.communication.place[rank])

    def in_role(self, rank: int, role: int | None) -> GroupCalls:
        """The collectives of a rank in one of its program's groups."""
        return self._in_role(int(self.communication.program[self.communication.place[rank]]), role)

    def _read_role(self, program: int, role: int | None) -> GroupCalls:
        body = self.bodies[self.communication.body[program]]
        return body.in_role(self.communication.programs[program], role)

    def members(self, group: str) -> Sequence[int] | None:
        """The ranks of a group; None if it is not defined."""
        return self.groups.ranks_of(group, range(self.size))
